//! Takes a state folder, ends and removes everything that the lab in it made; must never touch a process, cgroup or
//! folder that does not carry the lab's mark.
//!
//! It needs no record of what was started: processes carry the mark in their environment, the rest of a region ends
//! with its first process, cgroups carry the folder's tag in their names. So it works after any crash.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};

use super::{
    cgroup::Cgroups,
    child, interrupt, lock,
    state::{self, State},
    sysctl, tools, wait,
};

/// Ends every process, removes every cgroup and the state folder. Harmless when there is nothing.
///
/// # Errors
/// Says what could not be removed; a second call goes on where this one stopped.
pub fn cleanup(root: &Path) -> Result<()> {
    let _unstoppable = interrupt::Shield::raise();
    let _alone = lock::acquire(&format!("down:{}", root.display()), Duration::from_mins(2))?;
    // Processes first, with or without a folder: one may have been started just before the crash.
    end_processes(root)?;
    tools::remove_unfinished()?;
    if !state::is_root(root) {
        return Ok(());
    }
    let state = State::load(root);
    let prefix = state.as_ref().map_or("hf", |s| s.prefix.as_str());
    if let Ok(cgroups) = Cgroups::detect() {
        cgroups.remove(&cgroup_prefix(prefix, root))?;
    }
    if let Some(state) = &state {
        sysctl::restore(&state.sysctls)?;
    }
    remove_root(root)
}

/// First part of the names of the cgroups of the lab in `root`.
pub fn cgroup_prefix(prefix: &str, root: &Path) -> String {
    format!("{prefix}-{}-", state::tag(root))
}

/// Kills, again and again, until no process has the mark. The watchdog goes last: until then it guards this work.
fn end_processes(root: &Path) -> Result<()> {
    let watchdog = State::load(root).and_then(|s| s.watchdog);
    wait::until(
        "the end of the lab's processes",
        Duration::from_secs(30),
        None,
        || {
            let left: Vec<_> = child::marked(root)
                .into_iter()
                .filter(|p| Some(*p) != watchdog)
                .collect();
            for process in &left {
                process.kill();
            }
            Ok(if left.is_empty() {
                wait::Look::Done(())
            } else {
                wait::Look::Again(format!(
                    "pids {:?} are left",
                    left.iter().map(|p| p.pid).collect::<Vec<_>>()
                ))
            })
        },
    )
}

fn remove_root(root: &Path) -> Result<()> {
    ensure!(
        state::is_root(root),
        "{} is no lab's folder",
        root.display()
    );
    let watchdog = State::load(root).and_then(|s| s.watchdog);
    wait::until(
        &format!("the removal of {}", root.display()),
        Duration::from_secs(30),
        None,
        || {
            // The marker goes with the last call that succeeds in part, so keep a second way to know the folder.
            Ok(match remove_all_but_marker(root) {
                Ok(()) => wait::Look::Done(()),
                Err(e) => wait::Look::Again(e.to_string()),
            })
        },
    )?;
    fs::remove_dir_all(root).with_context(|| format!("removing {}", root.display()))?;
    if let Some(watchdog) = watchdog.filter(|w| w.pid != nix::unistd::getpid().as_raw()) {
        watchdog.end()?;
    }
    Ok(())
}

/// The marker goes last, so that a removal that was cut off can be gone on with.
fn remove_all_but_marker(root: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != state::MARKER && entry.file_name() != "state.json" {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
