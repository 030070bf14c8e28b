//! Takes a name, makes a cgroup of it in every hierarchy for a kubelet and removes it again; must never touch a cgroup
//! that has another name.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::wait;

/// Where the machine's cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// Controllers that a kubelet cannot do without.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// A node's share of a busy processor, in v1 and in v2: that of twenty processes beside it. As one of them, a node would
/// be starved by a compiler, and the loads of two regions would move apart.
const SHARE: [(&str, &str); 2] = [("cpu.shares", "20480"), ("cpu.weight", "2000")];

/// The cgroup hierarchies of a machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// One hierarchy per controller.
    V1(BTreeSet<PathBuf>),
    /// One hierarchy for all.
    V2(PathBuf),
}

impl Cgroups {
    /// The hierarchies of this machine.
    pub fn detect() -> Result<Self> {
        Self::detect_at(Path::new(MOUNT))
    }

    fn detect_at(mount: &Path) -> Result<Self> {
        if let Ok(controllers) = fs::read_to_string(mount.join("cgroup.controllers")) {
            let missing: Vec<_> = NEEDED
                .into_iter()
                .filter(|needed| !controllers.split_whitespace().any(|c| c == *needed))
                .collect();
            ensure!(
                missing.is_empty(),
                "the cgroup v2 hierarchy at {} lacks the controllers {}; a kubelet needs them (in a container: run it \
                 privileged and with the host's cgroup namespace)",
                mount.display(),
                missing.join(", ")
            );
            return Ok(Self::V2(mount.to_owned()));
        }
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(mount).with_context(|| format!("reading {}", mount.display()))? {
            // `cpu` and `cpuacct` may be links to one hierarchy.
            let dir = fs::canonicalize(entry?.path())?;
            if dir.join("cgroup.procs").is_file() {
                found.insert(dir);
            }
        }
        for needed in NEEDED {
            let there = mount.join(needed).join("cgroup.procs").is_file();
            ensure!(
                there,
                "no cgroup controller `{needed}` below {}; a kubelet needs it",
                mount.display()
            );
        }
        Ok(Self::V1(found))
    }

    fn roots(&self) -> Vec<&Path> {
        match self {
            Self::V1(roots) => roots.iter().map(PathBuf::as_path).collect(),
            Self::V2(root) => vec![root],
        }
    }

    /// Makes the cgroup `name` in every hierarchy, fit for being a kubelet's `cgroupRoot`.
    pub fn create(&self, name: &str) -> Result<()> {
        if let Self::V2(root) = self {
            enable(root)?;
        }
        for root in self.roots() {
            let dir = root.join(name);
            fs::create_dir_all(&dir)
                .with_context(|| format!("creating the cgroup {}", dir.display()))?;
            match self {
                // A new v1 cpuset is empty and takes no process.
                Self::V1(_) => {
                    for file in ["cpuset.cpus", "cpuset.mems"] {
                        if dir.join(file).is_file() {
                            let value = fs::read_to_string(root.join(file))?;
                            write(&dir.join(file), value.trim())?;
                        }
                    }
                }
                Self::V2(_) => enable(&dir)?,
            }
            for (file, value) in SHARE {
                if dir.join(file).is_file() {
                    write(&dir.join(file), value)?;
                }
            }
        }
        Ok(())
    }

    /// Cgroups directly below a root whose names begin with `prefix`.
    pub fn find(&self, prefix: &str) -> Vec<PathBuf> {
        let below = |root: &Path| fs::read_dir(root).into_iter().flatten().flatten();
        self.roots()
            .into_iter()
            .flat_map(below)
            .filter(|e| e.file_name().to_string_lossy().starts_with(prefix))
            .map(|e| e.path())
            .filter(|p| p.is_dir())
            .collect()
    }

    /// Removes the cgroups that [`Self::find`] gives, with all below, and ends what still runs in them.
    pub fn remove(&self, prefix: &str) -> Result<()> {
        ensure!(
            prefix.len() > 3,
            "the cgroup prefix `{prefix}` is too short to be a lab's"
        );
        wait::until(
            "the removal of the lab's cgroups",
            Duration::from_secs(20),
            None,
            || {
                let left = self.find(prefix);
                if left.is_empty() {
                    return Ok(wait::Look::Done(()));
                }
                let failed: Vec<_> = left
                    .iter()
                    .filter_map(|dir| remove_tree(dir).err())
                    .collect();
                Ok(wait::Look::Again(
                    failed.first().map(ToString::to_string).unwrap_or_default(),
                ))
            },
        )
    }
}

fn remove_tree(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in procs
        .lines()
        .filter_map(|l| l.parse().ok())
        .filter(|pid| *pid > 0)
    {
        // It may have ended since the file was read; the rmdir below tells.
        let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    fs::remove_dir(dir)
}

fn enable(dir: &Path) -> Result<()> {
    write(
        &dir.join("cgroup.subtree_control"),
        "+cpu +cpuset +memory +pids",
    )
    .with_context(|| {
        format!(
            "giving the cgroup controllers of {} to the lab (does a process live in it?)",
            dir.display()
        )
    })
}

fn write(file: &Path, value: &str) -> Result<()> {
    if let Err(e) = fs::write(file, value) {
        bail!("writing `{value}` into {}: {e}", file.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_hierarchies_are_found_once_each() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cpu,cpuacct", "cpuset", "memory", "pids", "systemd"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("cgroup.procs"), "").unwrap();
        }
        std::os::unix::fs::symlink("cpu,cpuacct", dir.path().join("cpu")).unwrap();
        let Cgroups::V1(roots) = Cgroups::detect_at(dir.path()).unwrap() else {
            panic!("v2")
        };
        assert_eq!(roots.len(), 5);
    }

    #[test]
    fn a_v2_hierarchy_without_controllers_is_one_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpu pids\n").unwrap();
        let message = Cgroups::detect_at(dir.path()).unwrap_err().to_string();
        assert!(
            message.contains("lacks the controllers cpuset, memory"),
            "{message}"
        );
    }

    #[test]
    fn a_v2_cgroup_gets_its_controllers() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("cgroup.controllers"),
            "cpuset cpu io memory pids\n",
        )
        .unwrap();
        Cgroups::detect_at(dir.path())
            .unwrap()
            .create("hf-1-ore")
            .unwrap();
        let given = fs::read_to_string(dir.path().join("hf-1-ore/cgroup.subtree_control")).unwrap();
        assert_eq!(given, "+cpu +cpuset +memory +pids");
    }

    #[test]
    fn a_cgroup_outweighs_a_process_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = dir.path().join("hf-1-ore");
        fs::create_dir(&cgroup).unwrap();
        fs::write(cgroup.join("cpu.shares"), "1024").unwrap();
        Cgroups::V1(BTreeSet::from([dir.path().to_owned()]))
            .create("hf-1-ore")
            .unwrap();
        let shares = fs::read_to_string(cgroup.join("cpu.shares")).unwrap();
        assert_eq!(shares, "20480");
    }
}
