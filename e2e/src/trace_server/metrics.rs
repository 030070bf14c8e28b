//! Takes counts of the workers, gives the text that Prometheus reads; must never take a lock or keep a worker waiting.

use super::cache::Cache;
use super::procfs::Usage;
use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the latency buckets, nanoseconds: 1 µs to 1.05 s, four to an octave, so that a quantile read from
/// them is off by a tenth at most.
static BOUNDS: [u64; 81] = bounds();

const fn bounds() -> [u64; 81] {
    // 2^(1/4), 2^(2/4), 2^(3/4) in parts of a thousand.
    let steps = [1000, 1189, 1414, 1682];
    let mut bounds = [0; 81];
    let mut octave = 0;
    let mut at = 0;
    let mut rest: &mut [u64] = &mut bounds;
    while let Some((bound, tail)) = rest.split_first_mut() {
        *bound = match at {
            0 => steps[0],
            1 => steps[1],
            2 => steps[2],
            _ => steps[3],
        } << octave;
        at = (at + 1) % 4;
        octave += if at == 0 { 1 } else { 0 };
        rest = tail;
    }
    bounds
}

/// What the workers have done since the start.
#[derive(Debug)]
pub struct Counters {
    evictions: AtomicU64,
    evicted_bytes: AtomicU64,
    hits: AtomicU64,
    /// Requests by latency; the last counts those above all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            evictions: AtomicU64::new(0),
            evicted_bytes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BOUNDS.len() + 1],
            nanoseconds: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// Counts a request that took so long.
    pub fn request(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|&bound| bound < nanoseconds);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// Counts a request that found its key.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// Counts evicted entries and their accounted bytes.
    pub fn evicted(&self, entries: u64, bytes: u64) {
        self.evictions.fetch_add(entries, Relaxed);
        self.evicted_bytes.fetch_add(bytes, Relaxed);
    }

    /// Accounted bytes that were evicted so far.
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted_bytes.load(Relaxed)
    }

    /// Requests so far, per bucket and cumulative; the last is the number of all.
    fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().scan(0, |sum, bucket| {
            *sum += bucket.load(Relaxed);
            Some(*sum)
        })
    }
}

/// Writes everything in the Prometheus text format 0.0.4.
pub(super) fn write(out: &mut String, cache: &Cache, counters: &Counters, usage: Usage) {
    one(
        out,
        "trace_cache_accounted_bytes",
        "gauge",
        "Bytes held by the cache.",
        cache.accounted(),
    );
    one(
        out,
        "trace_cache_capacity_bytes",
        "gauge",
        "Byte budget of the cache.",
        cache.capacity(),
    );
    let evictions = counters.evictions.load(Relaxed);
    one(
        out,
        "trace_cache_evictions_total",
        "counter",
        "Evicted entries.",
        evictions,
    );
    let bytes = counters.evicted_bytes();
    one(
        out,
        "trace_cache_evicted_bytes_total",
        "counter",
        "Accounted bytes evicted.",
        bytes,
    );
    let hits = counters.hits.load(Relaxed);
    one(
        out,
        "trace_cache_hits_total",
        "counter",
        "Requests that found their key.",
        hits,
    );
    histogram(out, counters);
    if let Some(bytes) = usage.resident_bytes {
        one(
            out,
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            bytes,
        );
    }
    if let Some(bytes) = usage.virtual_bytes {
        one(
            out,
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory.",
            bytes,
        );
    }
    if let Some(seconds) = usage.cpu_seconds {
        let help = "User and system CPU time.";
        one(out, "process_cpu_seconds_total", "counter", help, seconds);
    }
    if let Some(seconds) = usage.start_seconds {
        let help = "Start of the process since 1970.";
        one(out, "process_start_time_seconds", "gauge", help, seconds);
    }
}

fn histogram(out: &mut String, counters: &Counters) {
    let name = "trace_request_duration_seconds";
    head(out, name, "histogram", "Time to serve a request.");
    let mut all = 0;
    for (at, count) in counters.cumulative().enumerate() {
        match BOUNDS.get(at) {
            Some(bound) => line(
                out,
                format_args!("{name}_bucket{{le=\"{}\"}} {count}", secs(*bound)),
            ),
            None => line(out, format_args!("{name}_bucket{{le=\"+Inf\"}} {count}")),
        }
        all = count;
    }
    line(
        out,
        format_args!("{name}_sum {}", secs(counters.nanoseconds.load(Relaxed))),
    );
    line(out, format_args!("{name}_count {all}"));
    one(
        out,
        "trace_requests_total",
        "counter",
        "Requests served.",
        all,
    );
}

fn secs(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    head(out, name, kind, help);
    line(out, format_args!("{name} {value}"));
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(
        out,
        format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"),
    );
}

/// Writing to a `String` cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    if out.write_fmt(text).is_ok() {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_server::Entry;
    use std::collections::{BTreeMap, BTreeSet};

    fn samples(text: &str) -> BTreeMap<&str, &str> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.rsplit_once(' ').unwrap())
            .collect()
    }

    fn page(counters: &Counters, usage: Usage) -> String {
        let cache = Cache::new(1 << 20, 1000);
        let entry = Entry::new(Box::default(), vec![vec![1; 500].into()]);
        cache.insert(1, entry, &mut Vec::new());
        let mut out = String::new();
        write(&mut out, &cache, counters, usage);
        out
    }

    #[test]
    fn bounds_are_ascending_and_four_to_an_octave() {
        assert!(BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(
            (BOUNDS[0], BOUNDS[4], BOUNDS[80]),
            (1000, 2000, 1_048_576_000)
        );
        assert!(BOUNDS.windows(2).all(|p| p[1] * 100 < p[0] * 120));
    }

    #[test]
    fn every_series_is_there_once_with_help_and_type() {
        let usage = Usage {
            resident_bytes: Some(5),
            virtual_bytes: Some(6),
            cpu_seconds: Some(1.25),
            start_seconds: Some(1_700_000_000.5),
        };
        let counters = Counters::default();
        counters.evicted(3, 4000);
        counters.hit();
        let text = page(&counters, usage);
        let samples = samples(&text);
        assert_eq!(samples["trace_cache_capacity_bytes"], "1048576");
        assert!(
            samples["trace_cache_accounted_bytes"]
                .parse::<u64>()
                .unwrap()
                > 500
        );
        assert_eq!(samples["trace_cache_evictions_total"], "3");
        assert_eq!(samples["trace_cache_evicted_bytes_total"], "4000");
        assert_eq!(samples["trace_cache_hits_total"], "1");
        assert_eq!(samples["process_resident_memory_bytes"], "5");
        assert_eq!(samples["process_virtual_memory_bytes"], "6");
        assert_eq!(samples["process_cpu_seconds_total"], "1.25");
        assert_eq!(samples["process_start_time_seconds"], "1700000000.5");
        let types: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(types.len(), 11);
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_histogram_is_cumulative_and_inclusive() {
        let counters = Counters::default();
        for nanoseconds in [1, 1000, 1001, 2_000_000_000] {
            counters.request(Duration::from_nanos(nanoseconds));
        }
        let text = page(&counters, Usage::default());
        let samples = samples(&text);
        let bucket = |le: &str| {
            samples[format!("trace_request_duration_seconds_bucket{{le=\"{le}\"}}").as_str()]
        };
        assert_eq!((bucket("0.000001"), bucket("0.000001189")), ("2", "3"));
        assert_eq!((bucket("1.048576"), bucket("+Inf")), ("3", "4"));
        assert_eq!(samples["trace_request_duration_seconds_count"], "4");
        assert_eq!(samples["trace_requests_total"], "4");
        assert_eq!(samples["trace_request_duration_seconds_sum"], "2.000002002");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let text = page(&Counters::default(), Usage::default());
        assert!(!text.contains("process_"));
    }
}
