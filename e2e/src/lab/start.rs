//! Takes a configuration, brings up a lab in the right order; must never leave a half of it when something fails.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    Lab,
    cgroup::Cgroups,
    child, cleanup, cluster,
    config::Config,
    forward, images, lab_program, lock, netns, node, packages, prometheus,
    state::{self, Daemon, Phase, Region, State},
    sysctl,
    tools::{self, Tools},
    watchdog,
};

/// The last byte of the first region's address.
const FIRST_NUMBER: u8 = 11;

pub(super) fn up(config: &Config) -> Result<Lab> {
    config.check()?;
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the lab needs root: it makes namespaces, cgroups and containers (try sudo -E)"
    );
    let begun = Instant::now();
    let root = &config.root;
    let _alone = lock::acquire(&format!("up:{}", root.display()), Duration::from_secs(5))
        .with_context(|| format!("another command starts a lab in {}", root.display()))?;
    if State::load(root).is_some_and(|s| s.running()) {
        bail!(
            "a lab already runs in {} (`cargo lab status`); `cargo lab down` ends it",
            root.display()
        );
    }
    if state::is_root(root) {
        config.progress.say(&format!(
            "removing what an earlier lab left in {}",
            root.display()
        ));
        cleanup::cleanup(root)?;
    }
    packages::ensure_installed(config.kubelets, config.prometheus, config.progress)?;
    state::create_root(root)?;
    // From here on a Lab exists, and its Drop removes what a failure leaves.
    let lab = Lab {
        root: root.clone(),
        state: Mutex::new(blank_state(config)?),
        owned: true,
    };
    let watchdog = watchdog::start(root)?;
    lab.change(|s| s.watchdog = Some(watchdog))?;
    let tools = Tools::ensure_built(root, config.kubelets, config.progress)?;
    lab.change(|s| {
        for region in &mut s.regions {
            region.kubectl = tools.kubernetes.join("kubectl");
        }
        s.tools = tools;
    })?;
    make_networks(&lab)?;
    make_forwards(&lab, config)?;
    let archives = make_archives(config, root, &lab.state().tools)?;
    start_regions(&lab, config, &archives)?;
    lab.change(|s| s.phase = Phase::Up)?;
    config.progress.say(&format!(
        "{} ready after {:.1} s",
        lab.regions().join(", "),
        begun.elapsed().as_secs_f32()
    ));
    Ok(lab)
}

impl Lab {
    /// Changes the state and saves it.
    fn change(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = self.state();
        change(&mut state);
        state.save(&self.root)
    }
}

fn blank_state(config: &Config) -> Result<State> {
    let prefix = cleanup::cgroup_prefix(&config.name_prefix, &config.root);
    let region = |(number, name): (u8, &String)| Region {
        name: name.clone(),
        number,
        dir: config.root.join(name),
        cgroup: format!("{prefix}{name}"),
        kubectl: PathBuf::new(),
        holder: None,
        api_port: 0,
        prometheus_port: 0,
        daemons: std::collections::BTreeMap::new(),
    };
    Ok(State {
        phase: Phase::Starting,
        owner: Some(child::Ident::own()?),
        prefix: config.name_prefix.clone(),
        tools: Tools::default(),
        kubelets: config.kubelets,
        prometheus: config.prometheus,
        hub: None,
        forwarder: None,
        watchdog: None,
        sysctls: if config.kubelets {
            sysctl::remember()
        } else {
            std::collections::BTreeMap::new()
        },
        regions: (FIRST_NUMBER..).zip(&config.regions).map(region).collect(),
    })
}

fn make_networks(lab: &Lab) -> Result<()> {
    let hub = netns::hold(&lab.root, &lab.root.join("hub"), netns::Scope::Network, &[])?;
    lab.change(|s| s.hub = Some(hub))?;
    netns::build_hub(hub)?;
    let cache = tools::cache_dir()?;
    let program = lab_program()?;
    let programs = program
        .parent()
        .context("the program `lab` is in no folder")?;
    for region in lab.regions() {
        let dir = lab.region(&region)?.dir;
        let holder = netns::hold(
            &lab.root,
            &dir,
            netns::Scope::Machine,
            &[&lab.root, &cache, programs],
        )?;
        lab.change(|s| {
            if let Some(r) = s.regions.iter_mut().find(|r| r.name == region) {
                r.holder = Some(holder);
            }
        })?;
        netns::join_hub(hub, &lab.region(&region)?)?;
    }
    Ok(())
}

fn make_forwards(lab: &Lab, config: &Config) -> Result<()> {
    let mut wanted = Vec::new();
    for region in lab.state().regions.clone() {
        let pid = region.holder.context("no holder")?.pid;
        let mut add = |what: &str, port: u16| -> Result<()> {
            let to = format!("{}:{port}", region.ip()).parse()?;
            wanted.push(forward::Forward {
                name: format!("{}/{what}", region.name),
                pid,
                to,
            });
            Ok(())
        };
        add("api", 6443)?;
        if config.prometheus {
            add("prometheus", 9090)?;
        }
    }
    let (process, ports) = forward::start(&lab.root, &wanted)?;
    let port = |region: &str, what: &str| {
        ports
            .get(&format!("{region}/{what}"))
            .copied()
            .unwrap_or_default()
    };
    lab.change(|s| {
        s.forwarder = Some(process);
        for r in &mut s.regions {
            r.api_port = port(&r.name, "api");
            r.prometheus_port = port(&r.name, "prometheus");
        }
    })
}

fn make_archives(config: &Config, root: &Path, tools: &Tools) -> Result<Vec<PathBuf>> {
    if !config.kubelets {
        return Ok(Vec::new());
    }
    let folder = root.join("images");
    fs::create_dir_all(&folder)?;
    let mut pause = images::static_image(node::PAUSE_IMAGE, &tools.pause.join("pause"), &[])?;
    pause.user = String::new();
    std::iter::once(&pause)
        .chain(&config.images)
        .map(|image| images::write_archive(image, &folder))
        .collect()
}

fn start_regions(lab: &Lab, config: &Config, archives: &[PathBuf]) -> Result<()> {
    let cgroups = if config.kubelets {
        Some(Cgroups::detect()?)
    } else {
        None
    };
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let work = |name: String| {
            let cgroups = cgroups.as_ref();
            scope.spawn(move || {
                start_region(lab, config, &name, cgroups, archives)
                    .with_context(|| format!("starting region {name}"))
            })
        };
        let handles: Vec<_> = lab.regions().into_iter().map(work).collect();
        handles
            .into_iter()
            .map(|h| {
                h.join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("starting a region panicked")))
            })
            .collect()
    });
    results.into_iter().collect()
}

fn start_region(
    lab: &Lab,
    config: &Config,
    name: &str,
    cgroups: Option<&Cgroups>,
    archives: &[PathBuf],
) -> Result<()> {
    let begun = Instant::now();
    let say = |what: &str| {
        config.progress.say(&format!(
            "{name}: {what} ({:.1} s)",
            begun.elapsed().as_secs_f32()
        ));
    };
    let region = lab.region(name)?;
    cluster::prepare(&region)?;
    let go = |daemon| spawn(lab, &region, daemon);
    go(Daemon::Etcd)?;
    go(Daemon::Apiserver)?;
    if let Some(cgroups) = cgroups {
        // Containerd needs no API server: it takes its images meanwhile.
        node::prepare(&region)?;
        cgroups.create(&region.cgroup)?;
        go(Daemon::Containerd)?;
        await_ready(&lab.region(name)?, Daemon::Containerd)?;
        archives
            .iter()
            .try_for_each(|archive| node::import(&region, archive))?;
    }
    await_ready(&lab.region(name)?, Daemon::Apiserver)?;
    say("API server ready");
    go(Daemon::ControllerManager)?;
    go(Daemon::Scheduler)?;
    if cgroups.is_some() {
        go(Daemon::Kubelet)?;
        go(Daemon::KubeProxy)?;
    }
    if config.prometheus {
        prometheus::prepare(&region, &config.scrape_interval)?;
        prometheus::grant(&region)?;
        go(Daemon::Discovery)?;
        go(Daemon::Prometheus)?;
    }
    if cgroups.is_some() {
        await_ready(&lab.region(name)?, Daemon::Kubelet)?;
        say("node Ready");
    }
    if config.prometheus {
        await_ready(&lab.region(name)?, Daemon::Prometheus)?;
        say("Prometheus ready");
    }
    Ok(())
}

/// Starts one program of a region and records it.
pub(super) fn spawn(lab: &Lab, region: &Region, daemon: Daemon) -> Result<()> {
    let tools = lab.state().tools.clone();
    let mut command = cluster::command(region, &tools, daemon)?;
    let leader = child::spawn(&mut command, &lab.root, &region.log(daemon))?;
    lab.change(|s| {
        if let Some(r) = s.regions.iter_mut().find(|r| r.name == region.name) {
            r.daemons.insert(daemon, leader);
        }
    })
}

/// Waits until a program that was started does its work.
pub(super) fn await_ready(region: &Region, daemon: Daemon) -> Result<()> {
    let alive = || region.daemons.get(&daemon).is_some_and(|d| d.alive());
    match daemon {
        Daemon::Apiserver => cluster::await_ready(region, alive),
        Daemon::Containerd => node::await_containerd(region, alive),
        Daemon::Kubelet => node::await_ready(region, alive),
        Daemon::Prometheus => prometheus::await_ready(region, alive),
        // Others show in what they do: the callers wait for that.
        Daemon::Etcd
        | Daemon::ControllerManager
        | Daemon::Scheduler
        | Daemon::KubeProxy
        | Daemon::Discovery => Ok(()),
    }
}
