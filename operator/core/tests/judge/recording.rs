//! Recorded bakes of real processes, as the judge is told about them: RSS of two pods per region every 250 ms, glibc
//! for 75 s, then the change in `ore` and a matched restart in `fra`, then 158 s.

use std::io::Read;

use heapfleet_core::judge::{
    Arm, Capacity, Change, Declared, Identity, LookInput, Pod, Proof, Seen, Series, Settings,
};

/// The first instant of the recordings, milliseconds.
const ORIGIN_MS: i64 = 1_793_491_200_000;
/// The change, seconds.
pub(crate) const CHANGE: f64 = 1_793_491_275.0;
/// The bound of the caches, bytes.
const CAPACITY: f64 = 67_108_864.0;

/// One process.
struct Process {
    region: String,
    name: String,
    start: f64,
    /// Seconds, RSS bytes, cache bytes.
    samples: Vec<(f64, f64, f64)>,
}

/// One recorded bake.
pub(crate) struct Recording(Vec<Process>);

impl Recording {
    pub(crate) fn q_jemalloc() -> Self {
        Self::read(include_bytes!("recorded/q-jemalloc.txt.gz"))
    }

    pub(crate) fn cq_glibc() -> Self {
        Self::read(include_bytes!("recorded/cq-glibc.txt.gz"))
    }

    fn read(zipped: &[u8]) -> Self {
        let mut text = String::new();
        flate2::read::GzDecoder::new(zipped)
            .read_to_string(&mut text)
            .unwrap();
        let mut out: Vec<Process> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "pod" {
                out.push(Process {
                    region: words[1].to_owned(),
                    name: words[2].to_owned(),
                    start: words[3].parse().unwrap(),
                    samples: Vec::new(),
                });
                continue;
            }
            let ms: i64 = words[0].parse().unwrap();
            let at = f64::from(i32::try_from(ms).unwrap()) / 1000.0;
            let origin = f64::from(i32::try_from(ORIGIN_MS / 1000).unwrap());
            let pages: f64 = words[1].parse().unwrap();
            let cache: f64 = words[2].parse().unwrap();
            out.last_mut()
                .unwrap()
                .samples
                .push((origin + at, 4096.0 * pages, cache));
        }
        Self(out)
    }

    /// What a look at `now` is told; the canary's RSS after the change is `factor` times the recorded one.
    pub(crate) fn input(&self, now: f64, factor: f64) -> LookInput {
        let arm = |region: &str, target: bool| Arm {
            region: region.to_owned(),
            expected: Vec::new(),
            pods: self
                .0
                .iter()
                .filter(|p| p.region == region)
                .map(|p| pod(p, now, target, if target { factor } else { 1.0 }))
                .collect(),
            ..Arm::default()
        };
        LookInput {
            now,
            // The first eight seconds are left out as filling, as in the reference's run.
            change: Some(Change {
                began: CHANGE,
                ended: CHANGE + 8.0,
            }),
            canary: arm("ore", true),
            controls: vec![arm("fra", false)],
        }
    }
}

fn pod(p: &Process, now: f64, canary: bool, factor: f64) -> Pod {
    let after = p.start >= CHANGE;
    let seen: Vec<_> = p.samples.iter().filter(|(t, _, _)| *t <= now).collect();
    let factor = if after { factor } else { 1.0 };
    Pod {
        name: p.name.clone(),
        starts: vec![p.start],
        exists: after == (now >= CHANGE),
        ready_at: Some(p.start),
        version: Some("v1".to_owned()),
        allocator: Proof {
            seen: if canary && after {
                Seen::Target
            } else {
                Seen::Source
            },
            since: p.start,
        },
        rss: Series::from(
            seen.iter()
                .map(|(t, r, _)| (*t, factor * r))
                .collect::<Vec<_>>(),
        ),
        cache: Series::from(seen.iter().map(|(t, _, c)| (*t, *c)).collect::<Vec<_>>()),
        capacity: Capacity::Fixed(CAPACITY),
        // Not recorded: a bounded cache evicts as soon as it is full, here a capacity a minute.
        evictions: Series::from(
            seen.iter()
                .map(|(t, _, _)| (*t, CAPACITY / 60.0 * (t - p.start - 5.0).max(0.0)))
                .collect::<Vec<_>>(),
        ),
        ..Pod::default()
    }
}

/// The settings of a short bake: blocks of a second, scrapes every 250 ms.
pub(crate) fn settings(restart_noise: f64, min_bake: u32) -> Settings {
    Settings {
        block_seconds: 1.0,
        scrape_seconds: 0.25,
        delay_seconds: 1.0,
        baseline_seconds: 60.0,
        min_bake_blocks: min_bake,
        restart_noise: Some(restart_noise),
        identity: Identity::None,
        declared: Declared {
            capacity: true,
            evictions: true,
            ..Declared::default()
        },
        ..Settings::default()
    }
}
