//! Takes who failed, gives how long to wait: growing per policy, with jitter, forgotten with the first success. Holds
//! nothing that a decision reads; a restart that forgets it costs one early retry.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait before jitter.
const LONGEST: Duration = Duration::from_secs(30);
/// Doublings until [`LONGEST`] is reached.
const DOUBLINGS: u32 = 5;

/// Failures in a row, by uid.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: Mutex<HashMap<String, u32>>,
    random: RandomState,
}

impl Backoff {
    /// Counts a failure and gives the wait: 1 s, 2 s, 4 s … 30 s, each less a random part of up to a fifth.
    pub(super) fn failed(&self, uid: &str) -> Duration {
        let failures = {
            let mut all = self.failures();
            let failures = all.entry(uid.to_owned()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        let doublings = failures.saturating_sub(1).min(DOUBLINGS);
        let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        let part = u32::try_from(self.random.hash_one((uid, failures)) % 200).unwrap_or_default();
        wait.saturating_sub(wait.saturating_mul(part) / 1000)
    }

    /// Forgets the failures of one that succeeded or is gone.
    pub(super) fn succeeded(&self, uid: &str) {
        self.failures().remove(uid);
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_cap_and_start_over_after_a_success() {
        let backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.failed("a")).collect();
        for (i, whole) in [1, 2, 4, 8, 16, 30, 30, 30].into_iter().enumerate() {
            let whole = Duration::from_secs(whole);
            assert!(
                waits[i] <= whole && waits[i] >= whole * 4 / 5,
                "{i}: {:?}",
                waits[i]
            );
        }
        assert!(waits[39] <= LONGEST && waits[39] >= LONGEST * 4 / 5);
        assert!(backoff.failed("b") <= FIRST);
        backoff.succeeded("a");
        assert!(backoff.failed("a") <= FIRST);
    }
}
