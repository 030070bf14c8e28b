//! The cache server of the lab: takes its shape from flags or environment, gives a load whose resident memory
//! depends on the allocator, and reports it on `/metrics`; it must never choose or configure an allocator itself.
//!
//! It is an LRU cache with an exact count of accounted bytes and groups of worker threads that take turns. While one
//! group works the others sleep; it evicts blocks that other groups allocated, so that freed memory stays behind in
//! their arenas. Every block is a plain `Vec<u8>` or `Box<[u8]>` of the system allocator, that is `malloc` and `free`:
//! without `LD_PRELOAD` the C library serves them, with it the preloaded library does.

mod args;
mod buffers;
mod cache;
mod http;
mod load;
mod metrics;
mod procfs;
mod turns;

pub use args::{Args, Size};
pub use cache::{Cache, Entry, Inserted};
pub use load::Shape;
pub use metrics::Counters;
pub use turns::Turns;

use anyhow::{Context as _, anyhow};
use nix::sys::signal::{SigSet, Signal};
use std::net::TcpListener;
use std::sync::Arc;

/// Starts workers and responder and returns when the process is asked to end (SIGTERM, SIGINT or SIGHUP).
///
/// Must be called on the main thread before any other thread exists: the signals are blocked here and thereby in all
/// threads, and taken synchronously. A blocked signal reaches even pid 1 of a container, where an unhandled one is
/// dropped by the kernel.
///
/// # Errors
/// The shape is impossible (see [`Shape::new`]), the address cannot be bound, or a thread cannot be started.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        ends.add(signal);
    }
    ends.thread_block().context("block signals")?;

    let shape = Shape::new(args).map_err(|reason| anyhow!(reason))?;
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("listen on {}", args.listen))?;
    let cache = Arc::new(Cache::new(shape.cache_bytes, shape.mean_entry_bytes));
    let counters = Arc::new(Counters::default());
    // Workers first: the C library hands its arenas out in the order in which threads first allocate.
    load::start(shape, &cache, &counters)?;
    http::start(&listener, &cache, &counters)?;
    buffers::start()?;

    ends.wait().context("wait for a signal")?;
    Ok(())
}
