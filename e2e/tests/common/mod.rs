//! What the tests that start a lab share.

use std::{path::PathBuf, time::Duration};

use heapfleet_e2e::lab::{Lab, lock::Lock};

/// How long a test waits for the tests before it.
const TURN: Duration = Duration::from_mins(20);

/// The turn to use a lab. These tests fail without root: one that is left out proves nothing.
#[expect(clippy::unwrap_used, reason = "a helper of tests fails by panic")]
pub(crate) fn turn() -> Lock {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test starts a real cluster and needs root: run it with sudo -E"
    );
    Lab::exclusive(TURN).unwrap()
}

/// A state folder that no other test has; the lab makes and deletes it.
pub(crate) fn fresh_root(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("heapfleet-lab-{name}-{}", std::process::id()))
}
