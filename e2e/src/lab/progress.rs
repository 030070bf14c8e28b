//! Takes what the lab does, tells it to the person in front of it on standard error; must never be silent for longer
//! than ten seconds while something goes on.

use std::{
    io::Write,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

/// How much is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Every step.
    #[default]
    Shown,
    /// Nothing.
    Quiet,
}

impl Progress {
    /// One line.
    pub fn say(self, line: &str) {
        if self == Self::Shown {
            // With standard error closed there is nobody to tell.
            let _closed = writeln!(std::io::stderr(), "lab: {line}");
        }
    }

    /// Does something slow, with a line at its start, every ten seconds, and at its end.
    pub fn during<T>(self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.during_with(what, String::new, work)
    }

    /// [`Self::during`], with a note on how far it is, asked for every ten seconds.
    pub fn during_with<T>(
        self,
        what: &str,
        note: impl Fn() -> String + Send,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        self.say(&format!("{what} ..."));
        let (done, ended) = channel::<()>();
        let result = thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout)
                {
                    self.say(&format!(
                        "{what}: {} s {}",
                        begun.elapsed().as_secs(),
                        note()
                    ));
                }
            });
            let result = work();
            drop(done);
            result
        });
        let end = if result.is_ok() { "done" } else { "failed" };
        self.say(&format!(
            "{what}: {end} after {:.1} s",
            begun.elapsed().as_secs_f32()
        ));
        result
    }
}
