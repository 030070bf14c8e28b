//! One metric's values of one arm, pod by pod (§5): columns are blocks, or windows for the peak. Cells in, panels out;
//! must never hold a value of a block that does not count for its pod.

use std::collections::BTreeMap;

use super::constants as k;
use super::difference::arm_mean;
use super::num;
use super::track::{Cell, Track, Window};

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Block, or window.
    pub column: i64,
    /// Process of the pod.
    pub incarnation: u32,
    /// Log units.
    pub y: f64,
}

/// What there is of one pod's window of peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenWindow {
    /// Valid and accepted blocks.
    pub valid: usize,
    /// Maximum over them; minus infinity without any.
    pub peak: f64,
}

impl Default for OpenWindow {
    fn default() -> Self {
        Self {
            valid: 0,
            peak: f64::NEG_INFINITY,
        }
    }
}

impl OpenWindow {
    /// With one more block of the window.
    #[must_use]
    pub fn and(self, cell: &Cell) -> Self {
        Self {
            valid: self.valid + 1,
            peak: self.peak.max(cell.peak),
        }
    }
}

/// One pod's values, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PanelPod {
    /// The pod's name.
    pub name: String,
    /// Its values.
    pub points: Vec<Point>,
}

/// One arm's values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// The region.
    pub region: String,
    /// The pods.
    pub pods: Vec<PanelPod>,
}

impl Panel {
    /// The values of each column of a window, over the pods that `keep` admits.
    pub fn columns(&self, window: Window, keep: impl Fn(usize) -> bool) -> Vec<Vec<f64>> {
        let mut out = vec![Vec::new(); window.len()];
        let pods = self.pods.iter().enumerate().filter(|(i, _)| keep(*i));
        for point in pods.flat_map(|(_, p)| &p.points) {
            if let Some(column) = window.place(point.column).and_then(|i| out.get_mut(i)) {
                column.push(point.y);
            }
        }
        out
    }

    /// The arm's value in each column; `None` below `quorum` pods there.
    pub fn means(&self, window: Window, quorum: &[usize]) -> Vec<Option<f64>> {
        self.columns(window, |_| true)
            .iter()
            .zip(quorum)
            .map(|(values, least)| {
                if values.len() >= *least {
                    arm_mean(values)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Every pod's mean over the given columns (ascending); `None` without a value there.
    pub fn pod_means(&self, columns: &[i64]) -> Vec<Option<f64>> {
        let mean = |pod: &PanelPod| {
            let values: Vec<f64> = pod
                .points
                .iter()
                .filter(|p| columns.binary_search(&p.column).is_ok())
                .map(|p| p.y)
                .collect();
            (!values.is_empty()).then(|| num::mean(&values))
        };
        self.pods.iter().map(mean).collect()
    }

    /// The panel of ln(RSS/cache).
    pub fn ratio(region: &str, tracks: &[Track]) -> Self {
        Self::of(region, tracks, |_, cells| {
            cells
                .iter()
                .filter(|c| c.lack.is_none())
                .map(|c| Point {
                    column: c.block,
                    incarnation: c.incarnation,
                    y: c.mean,
                })
                .collect()
        })
    }

    /// The panel of its maximum over windows counted from `origin`, of blocks that `accepted` admits. `begun` is what there
    /// is already of a pod's (by its place) first window.
    pub fn peak(
        region: &str,
        tracks: &[Track],
        origin: i64,
        accepted: impl Fn(i64) -> bool,
        begun: impl Fn(usize) -> Option<(i64, OpenWindow)>,
    ) -> Self {
        Self::of(region, tracks, |pod, cells| {
            // Of each window what there is, and the process of its last block.
            let mut windows: BTreeMap<i64, (OpenWindow, u32)> = begun(pod)
                .map(|(at, open)| (at, (open, 0)))
                .into_iter()
                .collect();
            for c in cells {
                let at = (c.block - origin).div_euclid(k::WINDOW);
                let w = windows.entry(at).or_default();
                w.1 = c.incarnation;
                if c.lack.is_none() && accepted(c.block) {
                    w.0 = w.0.and(c);
                }
            }
            windows
                .into_iter()
                .filter(|(_, (open, _))| open.valid >= k::WINDOW_VALID)
                .map(|(column, (open, incarnation))| Point {
                    column,
                    incarnation,
                    y: open.peak,
                })
                .collect()
        })
    }

    fn of(region: &str, tracks: &[Track], points: impl Fn(usize, &[Cell]) -> Vec<Point>) -> Self {
        let pods = tracks
            .iter()
            .enumerate()
            .map(|(i, t)| PanelPod {
                name: t.name.clone(),
                points: points(i, &t.cells),
            })
            .collect();
        Self {
            region: region.to_owned(),
            pods,
        }
    }
}
