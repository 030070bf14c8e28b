//! Takes the text of files below `/proc/self` and the process's CPU clock, gives what the process uses; must never fail:
//! what cannot be read is absent.

use std::{fs, time::Duration};

use nix::time::{ClockId, clock_gettime};

/// What the process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// `VmRSS`, bytes.
    pub(super) resident_bytes: Option<u64>,
    /// `VmSize`, bytes.
    pub(super) virtual_bytes: Option<u64>,
    /// User and system time of all threads, seconds, to the nanosecond: `/proc` counts in ticks of 10 ms, of which a light
    /// load has a handful in a block of a second.
    pub(super) cpu_seconds: Option<f64>,
    /// Start, seconds since 1970.
    pub(super) start_seconds: Option<f64>,
}

/// Reads what this process uses.
pub(super) fn usage() -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = fs::read("/proc/self/auxv")
        .ok()
        .and_then(|auxv| ticks_per_second(&auxv));
    Usage {
        cpu_seconds: clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
            .ok()
            .map(|spent| Duration::from(spent).as_secs_f64()),
        ..parse(&status, &stat, &boot, ticks.unwrap_or(100))
    }
}

fn parse(status: &str, stat: &str, boot: &str, ticks_per_second: u32) -> Usage {
    // The name in parentheses may hold spaces and parentheses; what follows the last one has fixed places (proc(5)):
    // starttime is field 22, and the first after the name is field 3.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let started = fields
        .get(22 - 3)
        .and_then(|ticks| ticks.parse::<f64>().ok())
        .map(|ticks| ticks / f64::from(ticks_per_second));
    let boot_seconds = boot
        .lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|text| text.trim().parse::<f64>().ok());
    Usage {
        resident_bytes: kib(status, "VmRSS:"),
        virtual_bytes: kib(status, "VmSize:"),
        cpu_seconds: None,
        start_seconds: started.zip(boot_seconds).map(|(after, boot)| boot + after),
    }
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// `AT_CLKTCK` (17) of the auxiliary vector: pairs of native words.
fn ticks_per_second(auxv: &[u8]) -> Option<u32> {
    let (words, _) = auxv.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = words.as_chunks::<2>();
    let ticks = pairs
        .iter()
        .map(|[tag, value]| (usize::from_ne_bytes(*tag), usize::from_ne_bytes(*value)))
        .find_map(|(tag, value)| (tag == 17).then_some(value))?;
    u32::try_from(ticks).ok().filter(|&ticks| ticks > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory_and_start() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 21 0 12345 1000 200 0";
        let status = "Name:\ta) b\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\n";
        let usage = parse(status, stat, "cpu 1 2\nbtime 1700000000\n", 100);
        assert_eq!(usage.resident_bytes, Some(512 * 1024));
        assert_eq!(usage.virtual_bytes, Some(2048 * 1024));
        assert_eq!(usage.start_seconds, Some(1_700_000_123.45));
    }

    #[test]
    fn what_is_not_there_is_absent() {
        assert_eq!(parse("", "", "", 100), Usage::default());
    }

    #[test]
    fn this_process_is_readable() {
        let usage = usage();
        assert!(usage.resident_bytes.unwrap() > 100_000);
        assert!(usage.virtual_bytes.unwrap() >= usage.resident_bytes.unwrap());
        assert!(usage.start_seconds.unwrap() > 1_500_000_000.0);
        let busy: u64 = (0..1_000_000).map(std::hint::black_box).sum();
        assert!(busy > 0);
        let later = super::usage().cpu_seconds.unwrap();
        assert!(later > usage.cpu_seconds.unwrap());
    }
}
