//! Takes what could not be read, gives counts by stage; must never keep the text of an error, which may name what does
//! not belong into metrics.

use nix::errno::Errno;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

/// Where in a scan something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    /// A folder of the runtime's state.
    Runtime,
    /// The record of a container.
    Record,
    /// The list of processes.
    Proc,
    /// `cgroup`, `stat` or `status` of a process that is there.
    Process,
    /// `maps` or `exe`: the rights are missing.
    Maps,
    /// `environ`. Missing rights do not count: the record of the container takes its place.
    Environ,
    /// A process ended while it was read, or its id was used again. Normal on a busy node.
    Vanished,
    /// A container beyond the limit was left out.
    Limit,
    /// The scan took too long and was given up.
    Deadline,
}

impl Stage {
    /// All stages, in the order of the metrics.
    pub(super) const ALL: [Self; 9] = [
        Self::Runtime,
        Self::Record,
        Self::Proc,
        Self::Process,
        Self::Maps,
        Self::Environ,
        Self::Vanished,
        Self::Limit,
        Self::Deadline,
    ];

    /// The value of the metric's label.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Record => "record",
            Self::Proc => "proc",
            Self::Process => "process",
            Self::Maps => "maps",
            Self::Environ => "environ",
            Self::Vanished => "vanished",
            Self::Limit => "limit",
            Self::Deadline => "deadline",
        }
    }
}

/// Errors since the start, by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Errors(BTreeMap<Stage, u64>);

impl Errors {
    /// Counts one.
    pub(super) fn add(&mut self, stage: Stage) {
        *self.0.entry(stage).or_default() += 1;
    }

    /// Counts a failed read of a process: one that is gone is no fault of that stage.
    pub(super) fn add_read(&mut self, stage: Stage, error: &io::Error) {
        let gone = error.kind() == ErrorKind::NotFound
            || error.raw_os_error().map(Errno::from_raw) == Some(Errno::ESRCH);
        self.add(if gone { Stage::Vanished } else { stage });
    }

    /// How many there were.
    pub(super) fn of(&self, stage: Stage) -> u64 {
        self.0.get(&stage).copied().unwrap_or(0)
    }
}
