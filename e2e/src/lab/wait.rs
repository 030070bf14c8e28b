//! Takes a condition and a deadline, gives what the condition found or an error that says what was waited for and
//! how the log ended; must never wait without a deadline.

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use super::interrupt;

/// Lines of a log that an error quotes.
const TAIL_LINES: usize = 15;
/// Bytes of a log that are read for its tail.
const TAIL_BYTES: u64 = 8 * 1024;

/// What one look at a condition gave.
#[derive(Debug)]
pub enum Look<T> {
    /// It holds; here is what was found.
    Done(T),
    /// Not yet; why not, for the message at the deadline.
    Again(String),
}

/// Looks at a condition ten times a second until it holds.
///
/// # Errors
/// At the deadline, with `what`, the last reason and the tail of `log`; at once when a look fails or the lab was
/// interrupted.
pub fn until<T>(
    what: &str,
    limit: Duration,
    log: Option<&Path>,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        interrupt::check()?;
        let reason = match look()? {
            Look::Done(found) => return Ok(found),
            Look::Again(reason) => reason,
        };
        if begun.elapsed() > limit {
            let tail = log.map(tail_note).unwrap_or_default();
            bail!("waited {limit:?} for {what}: {reason}{tail}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The end of a log as a note below an error message.
pub fn tail_note(log: &Path) -> String {
    format!(
        "\n--- end of {} ---\n{}",
        log.display(),
        tail(log, TAIL_LINES)
    )
}

/// The last `lines` lines of a file, at most 8 KiB; empty when it cannot be read.
pub fn tail(log: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let all: Vec<_> = text.lines().collect();
    all.iter()
        .skip(all.len().saturating_sub(lines))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}
