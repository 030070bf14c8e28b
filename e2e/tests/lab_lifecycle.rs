//! However a lab ends, nothing of it is left: no process, mount, namespace, cgroup, folder; and the machine's own
//! network never changes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use heapfleet_e2e::lab::{Config, ImageFile, ImageSpec, Lab, child::Ident, cleanup, state::State};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use leftovers::Before;

mod common;
#[path = "common/leftovers.rs"]
mod leftovers;

const START: Duration = Duration::from_mins(5);
const END: Duration = Duration::from_secs(40);

/// One region with a node and no Prometheus.
fn small(name: &str) -> Config {
    Config {
        root: common::fresh_root(name),
        regions: vec!["ore".to_owned()],
        prometheus: false,
        ..Config::default()
    }
}

/// Removes what a failed test would leave when there is no watchdog.
struct Sweep<'a>(&'a Path);

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        drop(cleanup::cleanup(self.0));
    }
}

/// A command that owns a lab until it ends; it does not outlive its test.
struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn owner(config: &Config) -> Owner {
    let child = Command::new(env!("CARGO_BIN_EXE_lab"))
        .arg("--root")
        .arg(&config.root)
        .args([
            "up",
            "--foreground",
            "--no-prometheus",
            "--regions",
            &config.regions.join(","),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Owner(child)
}

fn signal(owner: &Owner, signal: Signal) {
    kill(Pid::from_raw(owner.0.id().try_into().unwrap()), signal).unwrap();
}

/// Looks until `look` finds something; an owner that ended makes it fail at once.
fn eventually<T>(
    what: &str,
    owner: &mut Owner,
    limit: Duration,
    look: impl Fn() -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            owner.0.try_wait().unwrap().is_none(),
            "the owner ended before {what}"
        );
        assert!(begun.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn running(root: &Path) -> Option<Lab> {
    Lab::attach(root).ok()
}

/// The state of a start that has its first namespaces but is far from ready.
fn halfway(root: &Path) -> Option<State> {
    State::load(root).filter(|s| s.regions.iter().any(|r| !r.daemons.is_empty()))
}

fn waits_for_end(mut owner: Owner) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = owner.0.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < END, "the owner does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn up_and_down_leave_nothing() {
    let _turn = common::turn();
    let config = small("updown");
    let mut before = Before::lab(&config.root);
    let lab = Lab::up(&config).unwrap();
    before.note(&lab);
    let status = lab.status();
    assert_eq!(
        (status[0].api_server.as_str(), status[0].node.as_str()),
        ("ready", "Ready")
    );
    assert!(
        Lab::up(&config)
            .unwrap_err()
            .to_string()
            .contains("already runs")
    );
    lab.down().unwrap();
    before.assert_nothing_left();
}

#[test]
fn a_dropped_lab_leaves_nothing_and_a_kept_one_lives_on() {
    let _turn = common::turn();
    let config = small("keep");
    let mut before = Before::lab(&config.root);
    Lab::up(&config).unwrap().keep().unwrap();
    let lab = Lab::attach(&config.root).unwrap();
    before.note(&lab);
    lab.kubectl_ok("ore", &["get", "namespaces"]).unwrap();
    // Attached is not owned.
    drop(lab);
    Lab::attach(&config.root).unwrap().down().unwrap();
    before.assert_nothing_left();

    let lab = Lab::up(&Config::planes(config.root)).unwrap();
    drop(lab);
    before.assert_nothing_left();
}

#[test]
fn a_failed_start_leaves_nothing_and_says_why() {
    let _turn = common::turn();
    let missing = ImageFile {
        from: "/no/such/program".into(),
        to: "/program".into(),
        mode: 0o755,
    };
    let image = ImageSpec {
        name: "lab.local/bad:1".to_owned(),
        files: vec![missing],
        ..ImageSpec::default()
    };
    let config = Config {
        images: vec![image],
        ..small("failed")
    };
    let before = Before::lab(&config.root);
    let message = format!("{:#}", Lab::up(&config).unwrap_err());
    assert!(message.contains("/no/such/program"), "{message}");
    before.assert_nothing_left();
}

#[test]
fn a_killed_owner_leaves_nothing() {
    let _turn = common::turn();
    let config = small("killed");
    let mut before = Before::lab(&config.root);

    let mut command = owner(&config);
    let lab = eventually("the lab runs", &mut command, START, || {
        running(&config.root)
    });
    before.note(&lab);
    signal(&command, Signal::SIGKILL);
    command.0.wait().unwrap();
    before.await_nothing_left(END);

    let mut command = owner(&config);
    eventually("the start is halfway", &mut command, START, || {
        halfway(&config.root)
    });
    signal(&command, Signal::SIGKILL);
    command.0.wait().unwrap();
    before.await_nothing_left(END);
}

#[test]
fn an_interrupted_command_leaves_nothing() {
    let _turn = common::turn();
    let config = small("interrupted");
    let mut before = Before::lab(&config.root);

    let mut command = owner(&config);
    eventually("the start is halfway", &mut command, START, || {
        halfway(&config.root)
    });
    signal(&command, Signal::SIGINT);
    assert!(!waits_for_end(command).success());
    before.assert_nothing_left();

    let mut command = owner(&config);
    let lab = eventually("the lab runs", &mut command, START, || {
        running(&config.root)
    });
    before.note(&lab);
    signal(&command, Signal::SIGTERM);
    assert!(waits_for_end(command).success());
    before.assert_nothing_left();
}

#[test]
fn a_start_over_a_crashed_lab_works() {
    let _turn = common::turn();
    let config = small("crashed");
    let mut before = Before::lab(&config.root);
    let _sweep = Sweep(&config.root);
    let mut command = owner(&config);
    let lab = eventually("the lab runs", &mut command, START, || {
        running(&config.root)
    });
    before.note(&lab);
    // Nobody is left to clean up: not the owner, not its watchdog.
    let watchdog = State::load(&config.root).and_then(|s| s.watchdog).unwrap();
    watchdog.end().unwrap();
    signal(&command, Signal::SIGKILL);
    command.0.wait().unwrap();
    let holder = lab.region("ore").unwrap().holder.unwrap();
    assert!(!watchdog.alive() && holder.alive() && config.root.exists());

    let second = Lab::up(&config).unwrap();
    assert!(!holder.alive(), "the crashed lab still runs");
    second.kubectl_ok("ore", &["get", "nodes"]).unwrap();
    before.note(&second);
    second.down().unwrap();
    before.assert_nothing_left();
}

#[test]
fn an_identity_is_not_a_pid() {
    let own = Ident::own().unwrap();
    assert!(
        own.alive()
            && !Ident {
                start: own.start + 1,
                ..own
            }
            .alive()
    );
}
