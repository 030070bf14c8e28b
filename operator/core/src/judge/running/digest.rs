//! Digests of what a running state must find unchanged: a frozen baseline, the expected pods of the settled blocks, a pod's
//! name. For one process only: never stored.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::judge::baseline::Centre;
use crate::judge::carried::Frozen;

/// Digest of one name.
pub(super) fn name(name: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    hash.finish()
}

/// The name with a digest, among the pods that have a baseline of their own; others need no name.
pub(super) fn find<'f>(frozen: &'f Frozen, region: &str, digest: u64) -> Option<&'f str> {
    let centres = frozen.metrics.iter().filter_map(|m| m.centres.get(region));
    centres
        .filter_map(|centre| match centre {
            Centre::Pods(pods) => pods.keys().find(|pod| name(pod) == digest),
            Centre::Arm(_) => None,
        })
        .map(String::as_str)
        .next()
}

/// Digest of the expected pods told before an instant, seconds.
pub(super) fn expected(told: &[(f64, u32)], before: f64) -> u64 {
    let mut hash = DefaultHasher::new();
    for (at, pods) in told.iter().filter(|(at, _)| *at < before) {
        (at.to_bits(), pods).hash(&mut hash);
    }
    hash.finish()
}

fn map(values: &BTreeMap<String, f64>, hash: &mut DefaultHasher) {
    for (name, value) in values {
        (name, value.to_bits()).hash(hash);
    }
}

/// Digest of everything that a frozen baseline judges by.
pub(super) fn frozen(frozen: &Frozen) -> u64 {
    let mut hash = DefaultHasher::new();
    (frozen.version, frozen.window, frozen.sigma0.to_bits()).hash(&mut hash);
    map(&frozen.cache_median, &mut hash);
    for (region, load) in &frozen.load {
        (region, load.mean.to_bits()).hash(&mut hash);
        for (hour, mean) in &load.hours {
            (hour, mean.to_bits()).hash(&mut hash);
        }
    }
    for (name, regions) in &frozen.counts {
        name.hash(&mut hash);
        for (region, count) in regions {
            (region, count.rate.to_bits(), count.dispersion.to_bits()).hash(&mut hash);
        }
    }
    for metric in &frozen.metrics {
        (&metric.metric, metric.accepted).hash(&mut hash);
        let (sum, df) = metric.lottery;
        for number in [metric.omega2, metric.lagged, sum, df]
            .iter()
            .chain(&metric.profile)
        {
            number.to_bits().hash(&mut hash);
        }
        for (region, centre) in &metric.centres {
            region.hash(&mut hash);
            match centre {
                Centre::Pods(pods) => map(pods, &mut hash),
                Centre::Arm(centre) => centre.to_bits().hash(&mut hash),
            }
        }
    }
    hash.finish()
}
