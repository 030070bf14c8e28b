//! What goes wrong in a made world: restarts outside the change, exporters that stand still.

use heapfleet_core::judge::num::real;

use crate::chance::Chance;
use crate::world::{PER_BLOCK, SCRAPE, World};

/// Restarts outside the change: another draw, and an hour to refill with an inflated ratio.
pub(crate) fn restarts(
    world: &World,
    first: (f64, f64),
    y: &mut [f64],
    usable: &mut [bool],
    full: &mut [bool],
    chance: &mut Chance,
) -> Vec<u32> {
    let (scrapes, swap) = (y.len(), world.before() * PER_BLOCK);
    let mut process = vec![0_u32; scrapes / PER_BLOCK];
    let days = real(scrapes) * SCRAPE / 86_400.0;
    let mut starts: Vec<usize> = (0..chance.poisson(world.restarts_per_day * days))
        .map(|_| chance.below(scrapes))
        .collect();
    starts.sort_unstable();
    let (mut now, mut changed) = (first.0, false);
    for start in starts {
        if start >= swap && !changed {
            (now, changed) = (first.1, true);
        }
        for (i, cell) in y.iter_mut().enumerate().skip(start).take(240) {
            let filled = 0.05 + 0.95 * real(i - start) / 239.0;
            *cell = (cell.exp() + 0.03 * (1.0 - filled) / filled).ln();
            if filled < 0.95
                && let Some(full) = full.get_mut(i)
            {
                *full = false;
            }
        }
        let drawn = world.lottery * chance.normal();
        let end = if start < swap { swap } else { scrapes };
        for cell in y.iter_mut().take(end).skip(start) {
            *cell += drawn - now;
        }
        now = drawn;
        for cell in usable.iter_mut().skip(start).take(8) {
            *cell = false;
        }
        for cell in process.iter_mut().skip(start / PER_BLOCK) {
            *cell += 1;
        }
    }
    process
}

/// One hour in ten days the exporter stands still; ten minutes of it are not yet known.
pub(crate) fn stuck(y: &mut [f64], usable: &mut [bool], chance: &mut Chance) {
    let scrapes = y.len();
    for _ in 0..chance.poisson(0.1 * real(scrapes) * SCRAPE / 86_400.0) {
        let at = chance.below(scrapes);
        let held = y.get(at).copied().unwrap_or(0.0);
        for cell in y.iter_mut().skip(at).take(240) {
            *cell = held;
        }
        for cell in usable.iter_mut().skip(at).take(240).skip(40) {
            *cell = false;
        }
    }
}
