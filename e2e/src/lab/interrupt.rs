//! Takes SIGINT, SIGTERM and SIGHUP, gives one question that every wait of the lab asks; must never end the process
//! itself, so that the way out is the ordinary one and cleans up.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static SHIELDS: AtomicUsize = AtomicUsize::new(0);

/// From now on the three signals make every wait of the lab end with an error. A second signal of a kind ends the
/// process at once; the lab's watchdog then cleans up.
pub fn install() -> Result<()> {
    let flag = Arc::clone(REQUESTED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(())
}

/// Whether one of the signals has come.
pub fn requested() -> bool {
    REQUESTED
        .get()
        .is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// While one of these lives, [`check`] is silent, so that the cleaning up after a signal can wait.
#[derive(Debug)]
pub(crate) struct Shield(());

impl Shield {
    pub(crate) fn raise() -> Self {
        SHIELDS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        SHIELDS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An error when one of the signals has come.
pub fn check() -> Result<()> {
    if requested() && SHIELDS.load(Ordering::SeqCst) == 0 {
        bail!("interrupted");
    }
    Ok(())
}
