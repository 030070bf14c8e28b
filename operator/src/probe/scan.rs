//! Takes flags and the clock of a scrape, gives a [`Snapshot`] of all containers of pods on this node; must never answer
//! with sums over a part of the processes, and must never wait for a process.

use super::Args;
use super::allocator::{self, Allocator, Mapped, Settings};
use super::errors::{Errors, Stage};
use super::procfs::{self, Status};
use super::runtime::{Identity, Runtime};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A scan that takes longer has no answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// The maps of a process are read again after this time, or at once when it runs another program. Reading them holds up
/// the process's own `mmap`, so it is not done at every scrape.
const INSPECT_EVERY: Duration = Duration::from_secs(5);
/// Largest `maps` or `environ` that is read.
const LARGE_BYTES: u64 = 16 << 20;
/// Largest other file that is read.
const SMALL_BYTES: u64 = 64 << 10;

/// A container of a pod that has processes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Container {
    /// Who it is.
    pub(super) identity: Arc<Identity>,
    /// Sums over its processes.
    pub(super) memory: Status,
    /// Its processes.
    pub(super) processes: u64,
    /// Start of its oldest process, seconds since 1970.
    pub(super) start_seconds: f64,
    /// What the maps of its main process show; `None` if they cannot be read.
    pub(super) mapped: Option<Mapped>,
    /// Allocator settings of its main process; `None` if they cannot be read.
    pub(super) settings: Option<(Settings, Origin)>,
}

/// Where settings were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The environment of the process.
    Process,
    /// The runtime's record, because that environment may be read by the user of the process only: what the container is
    /// started with, and a wrapper may change.
    Record,
}

impl Origin {
    /// The value of the metric's label.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Record => "record",
        }
    }
}

/// The answer of a scan.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// This node.
    pub(super) node: String,
    /// All containers of pods, by identity.
    pub(super) containers: Vec<Container>,
    /// Page size, bytes.
    pub(super) page_size: Option<u64>,
    /// Mode of transparent huge pages.
    pub(super) thp: Option<String>,
    /// How long the scan took.
    pub(super) took: Duration,
    /// Errors since the start.
    pub(super) errors: Errors,
}

/// The scan took longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scan took longer than {} ms", DEADLINE.as_millis())]
pub(super) struct Late;

/// Process of a container, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    start_ticks: u64,
    status: Status,
}

/// What was found in the maps of a process, and of which program that was.
#[derive(Clone, Debug)]
struct Inspection {
    start_ticks: u64,
    program: Option<PathBuf>,
    at: Instant,
    mapped: Option<Mapped>,
    settings: Option<(Settings, Origin)>,
}

/// Scans; keeps between scans only what saves reading.
#[derive(Debug)]
pub(super) struct Scanner {
    args: Args,
    runtime: Runtime,
    inspections: HashMap<u32, Inspection>,
    errors: Errors,
    boot_seconds: Option<u32>,
    ticks_per_second: u32,
    page_size: Option<u64>,
}

impl Scanner {
    /// A scanner of this node; reads what never changes.
    pub(super) fn new(args: Args) -> Self {
        let auxv = read_bounded(&args.proc.join("self/auxv"), SMALL_BYTES)
            .ok()
            .and_then(|bytes| procfs::auxv(&bytes));
        Self {
            runtime: Runtime::new(args.runtime_state.clone()),
            inspections: HashMap::new(),
            errors: Errors::default(),
            // Read once: later readings may differ by a second when the clock is adjusted.
            boot_seconds: read_bounded(&args.proc.join("stat"), LARGE_BYTES)
                .ok()
                .and_then(|bytes| procfs::boot_seconds(&bytes)),
            // 100 on all architectures that Kubernetes runs on.
            ticks_per_second: auxv.map_or(100, |auxv| auxv.ticks_per_second),
            page_size: auxv.map(|auxv| auxv.page_size),
            args,
        }
    }

    /// A new scanner that goes on with the counts of another.
    pub(super) fn resume(args: Args, errors: Errors) -> Self {
        Self {
            errors,
            ..Self::new(args)
        }
    }

    /// The flags.
    pub(super) fn args(&self) -> &Args {
        &self.args
    }

    /// Errors since the start.
    pub(super) fn errors(&self) -> &Errors {
        &self.errors
    }

    /// Looks at all processes of the node.
    ///
    /// # Errors
    /// [`Late`] when `deadline` has passed before the end.
    pub(super) fn scan(&mut self, begin: Instant, deadline: Instant) -> Result<Snapshot, Late> {
        self.runtime.refresh(&mut self.errors);
        let mut groups: HashMap<String, Vec<Process>> = HashMap::new();
        if !self.runtime.is_empty() {
            for pid in self.pids() {
                self.in_time(deadline)?;
                if let Some((id, process)) = self.process(pid) {
                    groups.entry(id).or_default().push(process);
                }
            }
        }
        let mut containers: BTreeMap<Arc<Identity>, Container> = BTreeMap::new();
        let mut inspections = HashMap::new();
        for (id, processes) in groups {
            self.in_time(deadline)?;
            let Some(container) = self.container(&id, &processes, &mut inspections) else {
                continue;
            };
            // A restarted container has the identity of the one before; the younger one counts.
            let known = containers.get(&container.identity);
            if known.is_none_or(|known| known.start_seconds < container.start_seconds) {
                containers.insert(Arc::clone(&container.identity), container);
            }
        }
        self.inspections = inspections;
        for _ in self.args.max_containers..containers.len() {
            self.errors.add(Stage::Limit);
        }
        let thp = self.args.sys.join("kernel/mm/transparent_hugepage/enabled");
        Ok(Snapshot {
            node: self.args.node_name.clone(),
            containers: containers
                .into_values()
                .take(self.args.max_containers)
                .collect(),
            page_size: self.page_size,
            thp: read_bounded(&thp, SMALL_BYTES)
                .ok()
                .and_then(|bytes| procfs::thp_mode(&bytes).map(str::to_owned)),
            took: begin.elapsed(),
            errors: self.errors.clone(),
        })
    }

    fn in_time(&mut self, deadline: Instant) -> Result<(), Late> {
        if Instant::now() < deadline {
            return Ok(());
        }
        self.errors.add(Stage::Deadline);
        Err(Late)
    }

    fn pids(&mut self) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(&self.args.proc) else {
            self.errors.add(Stage::Proc);
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// The process and its container's id, if it is one of a pod's container. `None` too when it ends meanwhile.
    fn process(&mut self, pid: u32) -> Option<(String, Process)> {
        let folder = self.args.proc.join(pid.to_string());
        // Most processes belong to no container: one read each.
        self.container_of(&folder)?;
        // Everything between two equal readings of the start time is about one process.
        let before = self.stat(&folder)?;
        let id = self.container_of(&folder)?;
        let status = self.read(&folder, "status", Stage::Process)?;
        let after = self.stat(&folder)?;
        if before.start_ticks != after.start_ticks {
            self.errors.add(Stage::Vanished);
            return None;
        }
        // A zombie has no memory, and is none of the container's processes any more.
        let status = procfs::status(&status).filter(|_| !after.ended)?;
        Some((
            id,
            Process {
                pid,
                start_ticks: after.start_ticks,
                status,
            },
        ))
    }

    fn container_of(&mut self, folder: &Path) -> Option<String> {
        let cgroup = self.read(folder, "cgroup", Stage::Process)?;
        procfs::container_id(&cgroup, |id| self.runtime.identity(id).is_some()).map(str::to_owned)
    }

    fn stat(&mut self, folder: &Path) -> Option<procfs::Stat> {
        let bytes = self.read(folder, "stat", Stage::Process)?;
        let stat = procfs::stat(&bytes);
        if stat.is_none() {
            self.errors.add(Stage::Process);
        }
        stat
    }

    fn read(&mut self, folder: &Path, name: &str, stage: Stage) -> Option<Vec<u8>> {
        let limit = if stage == Stage::Maps {
            LARGE_BYTES
        } else {
            SMALL_BYTES
        };
        read_bounded(&folder.join(name), limit)
            .map_err(|error| self.errors.add_read(stage, &error))
            .ok()
    }

    fn container(
        &mut self,
        id: &str,
        processes: &[Process],
        inspections: &mut HashMap<u32, Inspection>,
    ) -> Option<Container> {
        let (identity, declared) = self.runtime.container(id)?;
        let (identity, declared) = (Arc::clone(identity), declared.clone());
        // The largest is the one whose allocator matters, not a shell or an init that started it.
        let main = processes
            .iter()
            .max_by_key(|p| (p.status.rss, std::cmp::Reverse(p.pid)))?;
        let inspection = self.inspect(main, declared);
        let (mapped, settings) = (inspection.mapped.clone(), inspection.settings.clone());
        inspections.insert(main.pid, inspection);
        let sum = |of: fn(&Status) -> u64| processes.iter().map(|p| of(&p.status)).sum();
        let oldest = processes.iter().map(|process| process.start_ticks).min()?;
        let since_boot = Duration::from_millis(
            oldest.saturating_mul(1000) / u64::from(self.ticks_per_second.max(1)),
        );
        Some(Container {
            identity,
            memory: Status {
                rss: sum(|status| status.rss),
                rss_anon: sum(|status| status.rss_anon),
                rss_peak: sum(|status| status.rss_peak),
                threads: sum(|status| status.threads),
            },
            processes: u64::try_from(processes.len()).unwrap_or(u64::MAX),
            start_seconds: f64::from(self.boot_seconds.unwrap_or(0)) + since_boot.as_secs_f64(),
            mapped,
            settings,
        })
    }

    /// What the process has mapped, from the last look if that is good enough.
    fn inspect(&mut self, process: &Process, declared: Settings) -> Inspection {
        let folder = self.args.proc.join(process.pid.to_string());
        // exec keeps pid and start time, but not the program.
        let program = std::fs::read_link(folder.join("exe")).ok();
        let last = self.inspections.remove(&process.pid).filter(|last| {
            last.start_ticks == process.start_ticks
                && last.program == program
                && last.at.elapsed() < INSPECT_EVERY
                && last
                    .mapped
                    .as_ref()
                    .is_some_and(|m| m.allocator != Allocator::Unknown)
        });
        if let Some(last) = last {
            return last;
        }
        let settings = self.settings(&folder, declared);
        let preload = settings
            .as_ref()
            .and_then(|(settings, _)| settings.preload.as_deref());
        let mapped = self
            .read(&folder, "maps", Stage::Maps)
            .map(|maps| allocator::mapped(&maps, preload));
        let (start_ticks, at) = (process.start_ticks, Instant::now());
        // Another process may have got the pid since the first look.
        let same = self
            .stat(&folder)
            .is_some_and(|stat| stat.start_ticks == start_ticks);
        let (mapped, settings) = if same {
            (mapped, settings)
        } else {
            (None, None)
        };
        Inspection {
            start_ticks,
            program,
            at,
            mapped,
            settings,
        }
    }

    /// The settings of a process. Its environment belongs to its user alone (mode 0400): user 0 reads that of others only
    /// with a capability for all files of the node, which is not worth it.
    fn settings(&mut self, folder: &Path, declared: Settings) -> Option<(Settings, Origin)> {
        match read_bounded(&folder.join("environ"), LARGE_BYTES) {
            Ok(environ) => Some((allocator::settings(&environ), Origin::Process)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Some((declared, Origin::Record))
            }
            Err(error) => {
                self.errors.add_read(Stage::Environ, &error);
                None
            }
        }
    }
}

/// Reads at most `limit` bytes of a file.
pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
