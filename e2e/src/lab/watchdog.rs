//! Takes the process that owns a lab, cleans up when it vanishes without having done so itself; must never outlive the
//! lab or act while the owner lives.

use std::{path::Path, process::Command, thread, time::Duration};

use anyhow::{Context, Result};

use super::{
    child::{self, Ident},
    cleanup, lab_program, state,
};

/// Starts the watchdog of the lab in `root`, owned by this process.
pub fn start(root: &Path) -> Result<Ident> {
    let owner = Ident::own()?;
    let mut command = Command::new(lab_program()?);
    command
        .arg("watchdog")
        .arg(format!("--pid={}", owner.pid))
        .arg(format!("--start-time={}", owner.start))
        .arg("--root")
        .arg(root);
    child::spawn_session(&mut command, root, &root.join("logs/watchdog.log"))
}

/// The watchdog's process. It lives until the owner ends or the state folder is gone.
pub fn watch(root: &Path, owner: Ident) -> Result<()> {
    nix::unistd::setsid().context("setsid")?;
    while owner.alive() {
        if !state::is_root(root) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    cleanup::cleanup(root)
}
