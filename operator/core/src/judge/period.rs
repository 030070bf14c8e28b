//! All arms over one stretch of blocks, before or after the change: tracks, expected pods, facts and load per block.
//! Input in, a [`Period`] out; must never mix the two stretches.

use super::constants as k;
use super::gates::{ArmFacts, quorum};
use super::input::{Arm, LookInput};
use super::num;
use super::settings::{ControlRuns, Settings};
use super::track::{Cell, Demands, Grid, Lack, Track, Window};
use super::walk;

/// One arm over a window.
pub struct ArmView<'a> {
    /// What was told about it.
    pub arm: &'a Arm,
    /// Its pods, in the order of the input.
    pub tracks: Vec<Track>,
    /// Expected pods in each block.
    pub expected: Vec<usize>,
    /// Blocks in which their number changed by more than a fifth.
    pub changed: Vec<bool>,
    /// What is left of the blocks before the window.
    pub before: Before,
}

/// What an arm's blocks before a window leave behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Before {
    /// The newest with a clean pod.
    pub newest: Option<i64>,
    /// Mean of ln(RSS/cache) over its pods in the last three blocks that have any, the newest first.
    pub recent: Vec<f64>,
}

/// All arms over a window.
pub struct Period<'a> {
    /// The blocks.
    pub window: Window,
    /// The canary first.
    pub arms: Vec<ArmView<'a>>,
}

/// The largest and the smallest expected number of pods in [from, to) seconds, told from `told` on.
fn expected_within(arm: &Arm, from: f64, to: f64) -> Option<(u32, u32)> {
    let before = arm
        .expected
        .iter()
        .rev()
        .find(|(t, _)| *t <= from)
        .map(|(_, n)| *n);
    let inside = arm
        .expected
        .iter()
        .filter(|(t, _)| *t > from && *t < to)
        .map(|(_, n)| *n);
    let all: Vec<u32> = before.into_iter().chain(inside).collect();
    Some((*all.iter().max()?, *all.iter().min()?))
}

impl<'a> ArmView<'a> {
    fn new(arm: &'a Arm, grid: Grid, window: Window, demands: &Demands) -> Self {
        let tracks: Vec<Track> = arm
            .pods
            .iter()
            .map(|pod| walk::track(pod, grid, window, demands))
            .collect();
        Self::of(arm, grid, window, tracks, Before::default())
    }

    /// An arm whose pods' tracks are there; those of pods that are not in the input any more come last.
    pub(super) fn of(
        arm: &'a Arm,
        grid: Grid,
        window: Window,
        tracks: Vec<Track>,
        before: Before,
    ) -> Self {
        let lives: Vec<(i64, i64)> = tracks.iter().filter_map(Track::life).collect();
        let (mut expected, mut changed) = (Vec::new(), Vec::new());
        for block in window.from..window.to {
            let seconds = |b: i64| num::real_signed(grid.start(b)) / 1000.0;
            let told = expected_within(arm, seconds(block), seconds(block + 1));
            let alive = || {
                lives
                    .iter()
                    .filter(|(a, b)| *a <= block && block <= *b)
                    .count()
            };
            let number = told.map_or_else(alive, |(most, _)| num::floor(f64::from(most)));
            expected.push(number.max(1));
            changed.push(told.is_some_and(|(most, least)| {
                f64::from(most - least) > k::POPULATION * f64::from(most)
            }));
        }
        Self {
            arm,
            tracks,
            expected,
            changed,
            before,
        }
    }

    /// The region's name.
    pub fn region(&self) -> &str {
        &self.arm.region
    }

    /// Pods needed in each block.
    pub fn quorum(&self) -> Vec<usize> {
        self.expected.iter().map(|n| quorum(*n)).collect()
    }

    /// Facts in one block of the window; `newest` is the last block up to it with a clean pod.
    pub fn facts(&self, window: Window, block: i64, newest: Option<i64>) -> ArmFacts {
        let place = window.place(block);
        let at = |list: &[usize]| place.and_then(|i| list.get(i).copied());
        let expected = at(&self.expected).unwrap_or(1);
        let least = quorum(expected);
        let cells: Vec<_> = self
            .tracks
            .iter()
            .filter_map(|t| t.cell(block).map(|c| (t, c)))
            .collect();
        let count = |holds: &dyn Fn(&Cell) -> bool| cells.iter().filter(|(_, c)| holds(c)).count();
        // What is said of a block must not change when its pods are gone: they are not asked for a version any more.
        let known = || cells.iter().filter(|(t, _)| !t.gone);
        let gone = !cells.is_empty() && known().next().is_none();
        let mut versions = known().map(|(t, _)| t.version.as_ref());
        let version = versions
            .next()
            .flatten()
            .filter(|v| versions.all(|o| o == Some(v)));
        let clean = count(&|c| c.lack.is_none_or(|lack| lack > Lack::Start));
        let verified = count(&|c| c.verified) >= least;
        let full = count(&|c| c.full) >= least;
        let evicting = count(&|c| c.evicting) >= least;
        ArmFacts {
            reported: newest.is_some(),
            // Where each fact holds for enough pods, but not for the same ones, coverage is what is missing.
            pods: if verified && full && evicting {
                count(&|c| c.lack.is_none())
            } else {
                clean
            },
            expected,
            stuck: count(&|c| c.lack == Some(Lack::Stuck)),
            age_blocks: newest.map_or(f64::INFINITY, |n| num::real_signed(block - n)),
            population_changed: place
                .and_then(|i| self.changed.get(i).copied())
                .unwrap_or(false),
            version: version.cloned(),
            gone,
            verified,
            full,
            evicting,
        }
    }

    /// For each block of the window, the newest block up to it in which any pod was clean.
    pub fn newest(&self, window: Window) -> Vec<Option<i64>> {
        let mut clean = vec![false; window.len()];
        for cell in self.tracks.iter().flat_map(|t| &t.cells) {
            let good = !matches!(cell.lack, Some(Lack::Samples));
            if let Some(here) = window.place(cell.block).and_then(|i| clean.get_mut(i)) {
                *here |= good;
            }
        }
        let mut last = self.before.newest;
        (window.from..window.to)
            .zip(clean)
            .map(|(block, clean)| {
                if clean {
                    last = Some(block);
                }
                last
            })
            .collect()
    }

    /// Requests per second and pod in each block.
    pub fn load(&self, window: Window) -> Vec<Option<f64>> {
        let mut sums = vec![Vec::new(); window.len()];
        for cell in self.tracks.iter().flat_map(|t| &t.cells) {
            if let (Some(load), Some(here)) = (
                cell.load,
                window.place(cell.block).and_then(|i| sums.get_mut(i)),
            ) {
                here.push(load);
            }
        }
        sums.iter()
            .map(|v| (!v.is_empty()).then(|| num::mean(&num::sorted(v))))
            .collect()
    }

    /// Mean of ln(RSS/cache) over the pods in the last three blocks before `to` that have any, the newest first.
    pub fn recent(&self, to: i64) -> Vec<f64> {
        let mut blocks: std::collections::BTreeMap<i64, Vec<f64>> =
            std::collections::BTreeMap::new();
        let cells = self.tracks.iter().flat_map(|t| &t.cells);
        for cell in cells.filter(|c| c.block < to) {
            if !matches!(cell.lack, Some(Lack::Samples | Lack::Stuck)) {
                blocks.entry(cell.block).or_default().push(cell.mean);
            }
        }
        let here = blocks.values().rev().map(|v| num::mean(&num::sorted(v)));
        here.chain(self.before.recent.iter().copied())
            .take(3)
            .collect()
    }

    /// Geometric mean of RSS/cache over the pods in the last three blocks that have any.
    pub fn recent_ratio(&self) -> Option<f64> {
        let last = self.recent(i64::MAX);
        (!last.is_empty()).then(|| num::mean(&last).exp())
    }
}

impl<'a> Period<'a> {
    /// Cuts all arms.
    pub fn new(input: &'a LookInput, grid: Grid, window: Window, demands: &[Demands]) -> Self {
        let arms = std::iter::once(&input.canary)
            .chain(&input.controls)
            .zip(demands)
            .map(|(arm, demands)| ArmView::new(arm, grid, window, demands))
            .collect();
        Self { window, arms }
    }

    /// Pods needed in each block, per arm.
    pub fn quorum(&self) -> Vec<Vec<usize>> {
        self.arms.iter().map(ArmView::quorum).collect()
    }
}

/// What pods must show: before the change (`None`) or after it.
pub fn demands(
    settings: &Settings,
    arms: usize,
    after: bool,
    medians: &[Option<f64>],
) -> Vec<Demands> {
    (0..arms)
        .map(|i| Demands {
            allocator: after.then_some(i == 0 || settings.control_runs == ControlRuns::Target),
            evictions: settings.declared.evictions,
            capacity: settings.declared.capacity,
            cache_median: medians.get(i).copied().flatten(),
        })
        .collect()
}
