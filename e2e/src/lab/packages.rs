//! Takes the list of Debian packages that the lab runs, installs what is absent; must never change a package that is
//! already there.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::{child, progress::Progress};

/// What every lab needs.
const PLANES: [&str; 2] = ["iproute2", "util-linux"];
/// What a lab with nodes needs besides.
const NODES: [&str; 6] = [
    "containerd",
    "runc",
    "containernetworking-plugins",
    "iptables",
    "conntrack",
    "procps",
];
/// The allocators that go into the workload's image.
const ALLOCATORS: [&str; 3] = ["libjemalloc2", "libmimalloc2.0", "libtcmalloc-minimal4"];

const QUERY: Duration = Duration::from_secs(30);
const INSTALL: Duration = Duration::from_mins(15);

/// Installs the absent ones of the packages that such a lab needs.
pub(super) fn ensure_installed(kubelets: bool, prometheus: bool, progress: Progress) -> Result<()> {
    let mut wanted = PLANES.to_vec();
    if kubelets {
        wanted.extend(NODES);
        wanted.extend(ALLOCATORS);
        wanted.push("busybox-static");
    }
    if prometheus {
        wanted.push("prometheus");
    }
    ensure!(
        Path::new("/usr/bin/dpkg-query").exists(),
        "the lab installs Debian packages and this is no Debian or Ubuntu; it needs: {}",
        wanted.join(" ")
    );
    let absent: Vec<_> = wanted.into_iter().filter(|p| !installed(p)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let what = format!("installing {}", absent.join(" "));
    progress.during(&what, || {
        if install(&absent).is_err() {
            // The lists of a fresh machine are empty or old.
            child::run_ok(apt().arg("update"), INSTALL).context("apt-get update")?;
            install(&absent)?;
        }
        Ok(())
    })?;
    match absent.into_iter().find(|p| !installed(p)) {
        Some(package) => bail!("apt-get installed {package}, but dpkg does not know it"),
        None => Ok(()),
    }
}

fn installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    child::run_ok(&mut query, QUERY).is_ok_and(|status| status == "installed")
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args([
        "-o",
        "DPkg::Lock::Timeout=300",
        "--quiet",
    ]);
    command
}

fn install(packages: &[&str]) -> Result<()> {
    let mut command = apt();
    command
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages);
    child::run_ok(&mut command, INSTALL)
        .context("apt-get install")
        .map(drop)
}
