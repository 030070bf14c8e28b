//! Takes a configuration, gives whole Kubernetes clusters on this machine, one per region, in namespaces of their own;
//! must never touch the machine's own network namespace or leave anything behind.

pub mod cgroup;
pub mod child;
pub mod cleanup;
mod cluster;
mod config;
pub mod discovery;
pub mod elf;
pub mod forward;
mod hash;
pub mod holder;
pub mod images;
pub mod interrupt;
mod kubectl;
pub mod lock;
mod netns;
mod node;
mod packages;
mod pki;
mod progress;
mod prometheus;
mod start;
pub mod state;
mod status;
mod sysctl;
pub mod tools;
pub mod wait;
pub mod watchdog;

use std::{
    path::{Path, PathBuf},
    process::Output,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

pub use config::{Config, default_root};
pub use images::{ImageFile, ImageSpec, busybox_image, static_image, trace_images};
pub use progress::Progress;
pub use state::Daemon;
use state::{Region, State};
pub use status::RegionStatus;

/// Time limit of [`Lab::kubectl`].
pub const KUBECTL: Duration = Duration::from_mins(1);

/// A running lab. Dropping it ends it, unless it was attached to or kept.
#[derive(Debug)]
pub struct Lab {
    root: PathBuf,
    state: Mutex<State>,
    owned: bool,
}

impl Lab {
    /// Starts a lab and waits until all of it is ready. What a crashed lab left in the same state folder is removed
    /// first. A start that fails leaves nothing.
    ///
    /// # Errors
    /// Says what was waited for and how the log that matters ended; also when a lab already runs in that folder.
    pub fn up(config: &Config) -> Result<Self> {
        start::up(config)
    }

    /// A lab that another process started and that runs in `root`.
    pub fn attach(root: &Path) -> Result<Self> {
        let state = State::load(root).with_context(|| {
            format!(
                "no lab runs in {} (`cargo lab up` starts one)",
                root.display()
            )
        })?;
        if !state.running() {
            bail!(
                "the lab in {} does not run any more or is not up yet; `cargo lab down` removes what is left",
                root.display()
            );
        }
        Ok(Self {
            root: root.to_owned(),
            state: Mutex::new(state),
            owned: false,
        })
    }

    /// A lock that only one test or demo of this machine holds at a time: labs do not collide, but two cores are soon
    /// used up. Waits at most `limit`.
    pub fn exclusive(limit: Duration) -> Result<lock::Lock> {
        lock::acquire("exclusive", limit)
    }

    /// Lets the lab live on when this process ends; `Lab::attach` finds it again.
    pub fn keep(mut self) -> Result<()> {
        self.owned = false;
        let mut state = self.state();
        state.owner = None;
        if let Some(watchdog) = state.watchdog.take() {
            watchdog.end()?;
        }
        state.save(&self.root)
    }

    /// Ends the lab and removes everything of it.
    pub fn down(mut self) -> Result<()> {
        self.owned = false;
        cleanup::cleanup(&self.root)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is plain data that is replaced field by field: a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what is known of a region.
    pub fn region(&self, name: &str) -> Result<Region> {
        let state = self.state();
        state
            .regions
            .iter()
            .find(|r| r.name == name)
            .cloned()
            .with_context(|| {
                let names: Vec<_> = state.regions.iter().map(|r| r.name.as_str()).collect();
                format!(
                    "the lab has no region `{name}`; it has {}",
                    names.join(", ")
                )
            })
    }

    /// The regions' names, in the order of the configuration.
    pub fn regions(&self) -> Vec<String> {
        self.state()
            .regions
            .iter()
            .map(|r| r.name.clone())
            .collect()
    }

    /// The state folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Kubeconfig of a region's administrator, for use on this machine.
    pub fn kubeconfig(&self, region: &str) -> Result<PathBuf> {
        Ok(self.region(region)?.kubeconfig())
    }

    /// Where pods of other regions reach a region's API server: `https://198.18.0.N:6443`.
    pub fn inner_server(&self, region: &str) -> Result<String> {
        Ok(self.region(region)?.inner_server())
    }

    /// Certificate (PEM) of the authority that signs a region's serving certificates.
    pub fn ca(&self, region: &str) -> Result<String> {
        let file = self.region(region)?.path("certs/ca.crt");
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    }

    /// A kubeconfig with a bearer token, for a client inside another region.
    pub fn inner_kubeconfig(&self, region: &str, user: &str, token: &str) -> Result<String> {
        let user_entry = serde_json::json!({"token": token});
        Ok(pki::kubeconfig(
            &self.inner_server(region)?,
            &self.ca(region)?,
            user,
            &user_entry,
        ))
    }

    /// Where this machine reaches a region's Prometheus.
    pub fn prometheus_url(&self, region: &str) -> Result<String> {
        match self.region(region)?.prometheus_port {
            0 => bail!("this lab has no Prometheus"),
            port => Ok(format!("http://127.0.0.1:{port}")),
        }
    }

    /// Where pods of any region reach a region's Prometheus: `http://198.18.0.N:9090`.
    pub fn prometheus_inner_url(&self, region: &str) -> Result<String> {
        Ok(format!("http://{}:9090", self.region(region)?.ip()))
    }

    /// The body of a region's Prometheus's answer to a GET, within five seconds; the HTTP status must be 200.
    pub fn prometheus_get(&self, region: &str, path: &str) -> Result<String> {
        let answer = prometheus::get(self.region(region)?.prometheus_port, path)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        ensure!(
            head.split_whitespace().nth(1) == Some("200"),
            "Prometheus of {region}: {}",
            head.lines().next().unwrap_or("no answer")
        );
        Ok(body.to_owned())
    }

    /// Runs `kubectl` as the region's administrator for at most [`KUBECTL`]; the exit status is the caller's to judge.
    pub fn kubectl(&self, region: &str, args: &[&str]) -> Result<Output> {
        self.kubectl_with(region, args, None, KUBECTL)
    }

    /// [`Self::kubectl`] with text on standard input and another limit.
    pub fn kubectl_with(
        &self,
        region: &str,
        args: &[&str],
        input: Option<&str>,
        limit: Duration,
    ) -> Result<Output> {
        kubectl::run(&self.region(region)?, args, input, limit)
    }

    /// [`Self::kubectl`], but an exit status other than 0 is an error; gives standard output.
    pub fn kubectl_ok(&self, region: &str, args: &[&str]) -> Result<String> {
        kubectl::run_ok(&self.region(region)?, args, None, KUBECTL)
    }

    /// `kubectl apply -f -` of some text.
    pub fn apply(&self, region: &str, manifest: &str) -> Result<String> {
        kubectl::run_ok(
            &self.region(region)?,
            &["apply", "-f", "-"],
            Some(manifest),
            KUBECTL,
        )
    }

    /// Becomes `kubectl` for a person; returns only an error.
    pub fn become_kubectl(&self, region: &str, args: &[String]) -> Result<()> {
        kubectl::become_kubectl(&self.region(region)?, args)
    }

    /// Gives every node an image.
    pub fn import(&self, image: &ImageSpec) -> Result<()> {
        let archive = images::write_archive(image, &self.root.join("images"))?;
        let regions = self.state().regions.clone();
        regions
            .iter()
            .try_for_each(|region| node::import(region, &archive))
    }

    /// Cuts a region off from the others (`true`) or joins it again. This machine still reaches it.
    pub fn partition(&self, region: &str, cut: bool) -> Result<()> {
        let hub = self.state().hub.context("the lab has no hub")?;
        netns::partition(hub, &self.region(region)?, cut)
    }

    /// Ends a region's program: SIGTERM, and SIGKILL after three seconds.
    pub fn stop(&self, region: &str, daemon: Daemon) -> Result<()> {
        let found = self.region(region)?;
        let leader = found
            .daemons
            .get(&daemon)
            .with_context(|| format!("{region} has no {daemon}"))?;
        child::stop_group(*leader, Duration::from_secs(3))
    }

    /// Starts a region's program again and waits until it is ready.
    pub fn start(&self, region: &str, daemon: Daemon) -> Result<()> {
        let found = self.region(region)?;
        let running = found.daemons.get(&daemon).is_some_and(|d| d.alive());
        if !running {
            start::spawn(self, &found, daemon)?;
        }
        start::await_ready(&self.region(region)?, daemon)
    }

    /// Stops a region's API server.
    pub fn stop_apiserver(&self, region: &str) -> Result<()> {
        self.stop(region, Daemon::Apiserver)
    }

    /// Starts a region's API server again and waits for `/readyz`.
    pub fn start_apiserver(&self, region: &str) -> Result<()> {
        self.start(region, Daemon::Apiserver)
    }

    /// Stops a region's Prometheus; its data stays.
    pub fn stop_prometheus(&self, region: &str) -> Result<()> {
        self.stop(region, Daemon::Prometheus)
    }

    /// Starts a region's Prometheus again and waits until it answers.
    pub fn start_prometheus(&self, region: &str) -> Result<()> {
        self.start(region, Daemon::Prometheus)
    }

    /// How each region is now.
    pub fn status(&self) -> Vec<RegionStatus> {
        let state = self.state().clone();
        status::all(&state)
    }

    /// Names that [`Self::log`] takes: `ore/apiserver`, `forwarder`, ...
    pub fn logs(&self) -> Vec<String> {
        let names = |dir: PathBuf, prefix: &str| {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            let stems = entries
                .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".log")?.to_owned()));
            stems
                .map(|stem| format!("{prefix}{stem}"))
                .collect::<Vec<_>>()
        };
        let mut all = names(self.root.join("logs"), "");
        for region in &self.state().regions {
            all.extend(names(region.path("logs"), &format!("{}/", region.name)));
        }
        all.sort();
        all
    }

    /// The file of a log.
    pub fn log(&self, what: &str) -> Result<PathBuf> {
        let file = match what.split_once('/') {
            Some((region, name)) => self
                .region(region)?
                .path("logs")
                .join(format!("{name}.log")),
            None => self.root.join("logs").join(format!("{what}.log")),
        };
        if !self.logs().iter().any(|known| known == what) {
            bail!(
                "there is no log `{what}`; there are {}",
                self.logs().join(", ")
            );
        }
        Ok(file)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned
            && let Err(e) = cleanup::cleanup(&self.root)
        {
            Progress::Shown.say(&format!("cleaning up failed: {e:#}"));
        }
    }
}

/// The program `lab`, which the lab runs as its holders, forwarder and watchdog: this program, or the one that cargo
/// built beside it.
///
/// # Errors
/// When there is none (`cargo build -p heapfleet-e2e --bin lab` makes it).
pub fn lab_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    if own.file_name().is_some_and(|name| name == "lab") {
        return Ok(own);
    }
    // A test is in `deps` below the folder of the programs.
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("lab"))
        .find(|file| file.is_file())
        .with_context(|| format!("no program `lab` near {}", own.display()))
}
