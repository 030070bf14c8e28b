//! Takes the name of a kind of namespace, becomes or starts the process that keeps it alive; must never change the
//! namespaces of the machine.
//!
//! For a region this process is the first of a new process namespace: when it ends, the kernel ends every process
//! inside, and with them go the mounts and the network. Nothing can be left over.

use std::{
    fs::File,
    io::Write,
    os::fd::AsRawFd,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::setsid,
};

/// Folders that are empty inside a region: programs write to fixed places below them (`/run/containerd`,
/// `/var/lib/kubelet`, `/var/lib/cni`, `/var/log/pods`), which must not reach the machine or another region.
const BLANK: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// What to hold.
#[derive(Debug)]
pub struct Hold {
    /// Whether to make namespaces for processes and mounts too.
    pub machine: bool,
    /// Whether this is the first process inside.
    pub inner: bool,
    /// File that is created when all is ready.
    pub ready: PathBuf,
    /// Where the holder writes its errors.
    pub log: PathBuf,
    /// Folders that must stay visible inside.
    pub keep: Vec<PathBuf>,
}

/// Outer half: makes the namespaces, starts the inner half in them and gives its pid as text. Inner half: never
/// returns but on SIGTERM.
pub fn run(hold: &Hold) -> Result<Option<String>> {
    if hold.inner {
        setsid().context("setsid")?;
        if hold.machine {
            furnish(&hold.keep)?;
        }
        File::create(&hold.ready)?;
        reap_until_term()?;
        return Ok(None);
    }
    let mut flags = CloneFlags::CLONE_NEWNET;
    if hold.machine {
        flags |= CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    }
    unshare(flags).context("making namespaces (needs root)")?;
    let log = File::options().create(true).append(true).open(&hold.log)?;
    let mut inner = Command::new(std::env::current_exe()?);
    inner
        .args(["hold", "--inner", "--ready"])
        .arg(&hold.ready)
        .arg("--log")
        .arg(&hold.log);
    if hold.machine {
        inner.arg("--machine");
    }
    for path in &hold.keep {
        inner.arg("--keep").arg(path);
    }
    let child = inner
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(Some(child.id().to_string()))
}

fn furnish(keep: &[PathBuf]) -> Result<()> {
    let none: Option<&str> = None;
    // First of all: no mount from here reaches the machine.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("making mounts private")?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).context("mounting /proc")?;
    // Held open, so that they can be mounted again when their parents are hidden.
    let mut kept = Vec::new();
    for path in keep {
        kept.push((
            path,
            File::open(path).with_context(|| format!("opening {}", path.display()))?,
        ));
    }
    for blank in BLANK {
        mount(
            Some("tmpfs"),
            blank,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some("mode=755"),
        )
        .with_context(|| format!("hiding {blank}"))?;
        for (path, file) in kept.iter().filter(|(path, _)| path.starts_with(blank)) {
            std::fs::create_dir_all(path)?;
            let source = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            mount(
                Some(&source),
                path.as_path(),
                none,
                MsFlags::MS_BIND | MsFlags::MS_REC,
                none,
            )
            .with_context(|| format!("keeping {}", path.display()))?;
        }
    }
    std::fs::create_dir_all("/run/lock")?;
    // Kubelets want to pass mounts on to containers.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SHARED, none)
        .context("making mounts shared")
}

/// Collects orphans, which is the duty of the first process of a process namespace.
fn reap_until_term() -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    loop {
        while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|s| s != WaitStatus::StillAlive) {
        }
        if signals.wait()? == Signal::SIGTERM {
            return Ok(());
        }
    }
}

/// Writes the outer half's answer to standard output.
pub fn answer(pid: Option<String>) -> Result<()> {
    if let Some(pid) = pid {
        writeln!(std::io::stdout(), "{pid}")?;
    }
    Ok(())
}
