//! Takes a picture of the machine before a lab, gives what is different after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use heapfleet_e2e::lab::{Lab, child, state};

/// Places that programs of a node use when nothing keeps them from it.
const PLACES: [&str; 10] = [
    "/etc/cni",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/netns",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// Settings that a kubelet changes.
const SETTINGS: [&str; 4] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
];

#[derive(Debug, PartialEq, Eq)]
struct Machine {
    interfaces: BTreeSet<String>,
    routes: String,
    mounts: BTreeSet<String>,
    places: BTreeSet<PathBuf>,
    settings: BTreeMap<&'static str, String>,
}

impl Machine {
    fn now() -> Self {
        let names = |dir: &str| {
            let entries = fs::read_dir(dir).unwrap();
            entries
                .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
                .collect()
        };
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        // Field 5 is where it is mounted.
        let mount_point = |line: &str| line.split(' ').nth(4).unwrap().to_owned();
        let setting = |name| {
            (
                name,
                fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap(),
            )
        };
        Self {
            interfaces: names("/sys/class/net"),
            routes: fs::read_to_string("/proc/net/route").unwrap(),
            mounts: mounts.lines().map(mount_point).collect(),
            places: PLACES
                .iter()
                .map(PathBuf::from)
                .filter(|p| p.exists())
                .collect(),
            settings: SETTINGS.into_iter().map(setting).collect(),
        }
    }
}

/// The machine before a lab, and what the lab had while it ran.
pub(crate) struct Before {
    root: PathBuf,
    machine: Machine,
    networks: BTreeSet<PathBuf>,
}

fn own() -> i32 {
    std::process::id().try_into().unwrap()
}

fn network(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

impl Before {
    pub(crate) fn lab(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            machine: Machine::now(),
            networks: BTreeSet::new(),
        }
    }

    /// Notes the namespaces of a running lab, so that their end can be checked, and that it really is one.
    pub(crate) fn note(&mut self, lab: &Lab) {
        for name in lab.regions() {
            let holder = lab.region(&name).unwrap().holder.unwrap();
            self.networks.insert(network(holder.pid).unwrap());
        }
        assert!(!self.networks.contains(&network(own()).unwrap()));
        assert!(!self.cgroups().is_empty() && !child::marked(&self.root).is_empty());
        // While it runs, too, the machine's own network is as it was.
        let now = Machine::now();
        assert_eq!(
            (now.interfaces, now.routes),
            (self.machine.interfaces.clone(), self.machine.routes.clone())
        );
        assert_eq!(
            (now.mounts, now.places),
            (self.machine.mounts.clone(), self.machine.places.clone())
        );
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let tag = format!("-{}-", state::tag(&self.root));
        let mut roots = vec![PathBuf::from("/sys/fs/cgroup")];
        roots.extend(
            fs::read_dir("/sys/fs/cgroup")
                .unwrap()
                .map(|e| e.unwrap().path())
                .filter(|p| p.is_dir()),
        );
        let below = roots
            .iter()
            .flat_map(|r| fs::read_dir(r).unwrap())
            .map(|e| e.unwrap().path());
        below
            .filter(|p| p.file_name().unwrap().to_string_lossy().contains(&tag))
            .collect()
    }

    fn processes(&self) -> Vec<String> {
        let root = self.root.display().to_string();
        let of_lab = |pid: &i32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let named = command.contains(&root);
            let inside = network(*pid).is_some_and(|net| self.networks.contains(&net));
            (named || inside).then(|| format!("{pid} {command}"))
        };
        let others = child::pids().into_iter().filter(|pid| *pid != own());
        let mut found: Vec<_> = others.filter_map(|pid| of_lab(&pid)).collect();
        found.extend(
            child::marked(&self.root)
                .iter()
                .map(|p| format!("{} (marked)", p.pid)),
        );
        found
    }

    /// What is left: nothing, if the text is empty.
    fn left(&self) -> String {
        let mut left = String::new();
        let mut check = |what: &str, found: String| {
            if !found.is_empty() {
                write!(left, "\n{what}: {found}").unwrap();
            }
        };
        check("processes", self.processes().join("\n"));
        let cgroups: Vec<_> = self
            .cgroups()
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        check("cgroups", cgroups.join(" "));
        check(
            "folder",
            if self.root.exists() {
                self.root.display().to_string()
            } else {
                String::new()
            },
        );
        let now = Machine::now();
        check(
            "machine",
            if now == self.machine {
                String::new()
            } else {
                format!("{:?}\nnow {now:?}", self.machine)
            },
        );
        left
    }

    /// Nothing of the lab is left.
    pub(crate) fn assert_nothing_left(&self) {
        let left = self.left();
        assert!(left.is_empty(), "the lab left something: {left}");
    }

    /// Nothing of the lab is left at the latest after `limit`.
    pub(crate) fn await_nothing_left(&self, limit: Duration) {
        let begun = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < limit,
                "after {limit:?} the lab left something: {left}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
