//! Takes nothing, holds a small mapping of its own that changes its size twice a second, as the I/O buffers of a real
//! server do; must never use the allocator for it.
//!
//! Without it a steady cache stands still to the byte for ten seconds at a time, as no serving process does, and its
//! exporter looks stuck.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result};
use memmap2::MmapMut;

/// Bytes of a page, at the least.
const PAGE: usize = 4096;
/// Most pages that are held: half a mebibyte, below a hundredth of the cache's resident memory.
const MOST: u64 = 128;
/// How long a mapping is held.
const HELD: Duration = Duration::from_millis(400);

/// Starts the thread that holds the mapping; it ends with the process.
pub(super) fn start() -> Result<()> {
    let body = || {
        let mut state = 1_u64;
        let mut held = None;
        loop {
            state = next(state);
            // A mapping that cannot be had is left out: the load goes on.
            held = touched(pages(state)).ok().or(held);
            thread::sleep(HELD);
        }
    };
    thread::Builder::new()
        .name("buffers".to_owned())
        .spawn(body)
        .context("start the buffers")?;
    Ok(())
}

/// The next number of a reproducible sequence (Knuth's MMIX generator).
fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// 1 to [`MOST`] pages, from the generator's better bits.
fn pages(state: u64) -> usize {
    usize::try_from((state >> 40) % MOST).unwrap_or_default() + 1
}

/// A mapping of so many pages, each written to.
fn touched(pages: usize) -> std::io::Result<MmapMut> {
    let mut map = MmapMut::map_anon(pages * PAGE)?;
    map.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_vary_within_their_bound() {
        let mut state = 1;
        let sizes: Vec<usize> = std::iter::repeat_with(|| {
            state = next(state);
            pages(state)
        })
        .take(100)
        .collect();
        assert!(sizes.iter().all(|size| (1..=128).contains(size)));
        assert!(sizes.windows(2).filter(|pair| pair[0] != pair[1]).count() > 90);
        assert_eq!(touched(3).expect("three pages").len(), 3 * PAGE);
    }
}
