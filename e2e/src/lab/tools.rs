//! Takes the committed Go modules of the tool sets, gives a folder with their programs; must never download a program
//! or write into the checkout.
//!
//! A tool set is built once per content of its `go.mod`, `go.sum` and flags, into the cache folder
//! `${XDG_CACHE_HOME:-~/.cache}/heapfleet-lab/`. A build ends with a rename, so a folder that is there is whole.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{child, hash, lock, progress::Progress};

/// The longest that a cold build may take.
const BUILD: Duration = Duration::from_mins(50);

/// The version that the programs say they have: that of `e2e/lab/kubernetes/go.mod`.
const KUBERNETES_FLAGS: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36 \
    -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3";

/// Folders of the programs that were built.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tools {
    /// `kube-apiserver` and its sisters.
    pub kubernetes: PathBuf,
    /// `etcd`.
    pub etcd: PathBuf,
    /// `pause`, the program of every pod's sandbox; empty without nodes.
    pub pause: PathBuf,
}

struct ToolSet {
    name: &'static str,
    packages: &'static [&'static str],
    flags: &'static str,
    /// Names of the programs in the order of `packages`.
    programs: &'static [&'static str],
}

const KUBERNETES: ToolSet = ToolSet {
    name: "kubernetes",
    packages: &[
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-proxy",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kubectl",
        "k8s.io/kubernetes/cmd/kubelet",
    ],
    flags: KUBERNETES_FLAGS,
    programs: &[
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ],
};

const ETCD: ToolSet = ToolSet {
    name: "etcd",
    packages: &["go.etcd.io/etcd/server/v3"],
    flags: "-s -w",
    programs: &["etcd"],
};

/// The program of a sandbox: it waits to be ended and collects orphans.
const PAUSE: &str = include_str!("../../lab/pause/pause.c");

impl Tools {
    /// Builds what is not in the cache. The compilers carry the mark of the lab in `root`, so that they end with it.
    pub fn ensure_built(root: &Path, kubelets: bool, progress: Progress) -> Result<Self> {
        let cache = cache_dir()?;
        fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
        // Two builds of the same set at once would only do the work twice.
        let _alone = lock::acquire("build", BUILD)?;
        Ok(Self {
            etcd: ETCD.ensure_built(root, &cache, progress)?,
            kubernetes: KUBERNETES.ensure_built(root, &cache, progress)?,
            pause: if kubelets {
                build_pause(&cache)?
            } else {
                PathBuf::new()
            },
        })
    }
}

/// `${XDG_CACHE_HOME:-~/.cache}/heapfleet-lab`.
pub fn cache_dir() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|dir| dir.join("heapfleet-lab"))
        .context("neither XDG_CACHE_HOME nor HOME is set to an absolute path")
}

impl ToolSet {
    fn ensure_built(&self, root: &Path, cache: &Path, progress: Progress) -> Result<PathBuf> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("lab")
            .join(self.name);
        let read = |file: &str| {
            fs::read(module.join(file))
                .with_context(|| format!("reading {}/{file}", module.display()))
        };
        let content = [
            hash::sha256(&read("go.mod")?),
            hash::sha256(&read("go.sum")?),
            self.flags.to_owned(),
            std::env::consts::ARCH.to_owned(),
        ];
        let key = hash::short(content.join("\n").as_bytes(), 16);
        let done = cache.join(format!("{}-{key}", self.name));
        if self
            .programs
            .iter()
            .all(|program| done.join(program).is_file())
        {
            return Ok(done);
        }
        let fresh = Fresh::create(cache, self.name)?;
        let log = fresh.0.join("build.log");
        let what = format!(
            "building {} from source ({})",
            self.name,
            self.programs.join(", ")
        );
        let note = || {
            format!(
                "({} packages fetched or compiled)",
                fs::read_to_string(&log).unwrap_or_default().lines().count()
            )
        };
        progress.during_with(&what, note, || self.build(root, &module, &fresh.0, &log))?;
        fresh.publish(&done)?;
        Ok(done)
    }

    fn build(&self, root: &Path, module: &Path, out: &Path, log: &Path) -> Result<()> {
        for (package, program) in self.packages.iter().zip(self.programs) {
            let written = fs::File::options().create(true).append(true).open(log)?;
            let mut go = Command::new("go");
            go.args([
                "build",
                "-v",
                "-mod=readonly",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                self.flags,
            ])
            .arg("-o")
            .arg(out.join(program))
            .arg(package)
            .current_dir(module)
            .env(child::MARK, root)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH");
            // Go names each package on standard error when it is compiled: the measure of progress.
            let status = child::run_to(&mut go, written, BUILD)
                .context("building the lab's programs needs Go 1.26 or newer on PATH")?;
            if !status.success() {
                bail!("go build {package} failed{}", super::wait::tail_note(log));
            }
        }
        fs::remove_file(log).context("removing the build's log")
    }
}

fn build_pause(cache: &Path) -> Result<PathBuf> {
    let key = hash::short(PAUSE.as_bytes(), 16);
    let done = cache.join(format!("pause-{key}"));
    if done.join("pause").is_file() {
        return Ok(done);
    }
    let fresh = Fresh::create(cache, "pause")?;
    let source = fresh.0.join("pause.c");
    fs::write(&source, PAUSE)?;
    let mut cc = Command::new("cc");
    cc.args(["-Os", "-s", "-static", "-o"])
        .arg(fresh.0.join("pause"))
        .arg(&source)
        .stdin(Stdio::null());
    child::run_ok(&mut cc, Duration::from_mins(2))
        .context("compiling the pause program (needs cc and a static libc)")?;
    fresh.publish(&done)?;
    Ok(done)
}

/// Deletes what a build that was killed left in the cache, unless another build is under way.
pub(super) fn remove_unfinished() -> Result<()> {
    let (Ok(cache), Ok(_alone)) = (cache_dir(), lock::acquire("build", Duration::ZERO)) else {
        return Ok(());
    };
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with('.') {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// A folder that is deleted unless it is published.
struct Fresh(PathBuf);

impl Fresh {
    fn create(cache: &Path, name: &str) -> Result<Self> {
        let dir = cache.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    fn publish(self, done: &Path) -> Result<()> {
        if done.exists() {
            fs::remove_dir_all(done)?;
        }
        fs::rename(&self.0, done).with_context(|| format!("publishing {}", done.display()))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After a rename it is gone already.
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// Fails with one clear sentence when a program is missing.
pub fn need(program: &str, why: &str) -> Result<PathBuf> {
    find(program).with_context(|| format!("`{program}` is not on PATH; {why}"))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}
