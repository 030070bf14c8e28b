//! One metric's settled columns: their differences, and the sums from which the one-off variance follows. New columns in, the
//! metric's state at this look out; must never forget a column that was accepted.

use super::arm::Slots;
use crate::judge::bake::{Bake, Now, Run, Terms};
use crate::judge::num;

/// Sums of the pods of one arm.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    /// The arm is measured as one.
    wide: bool,
    totals: Vec<f64>,
    counts: Vec<u32>,
}

/// One metric's settled columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ledger {
    metric: Box<str>,
    columns: Vec<i64>,
    d: Vec<f64>,
    /// Sum of the values of each control region in the accepted columns.
    moved: Vec<f64>,
    /// Each arm's pods, by their place in the state of the arm.
    arms: Vec<Sums>,
}

impl Ledger {
    pub(super) fn new(metric: &str, wide: &[bool]) -> Self {
        let arms = wide.iter().map(|wide| Sums {
            wide: *wide,
            ..Sums::default()
        });
        Self {
            metric: metric.into(),
            columns: Vec::new(),
            d: Vec::new(),
            moved: Vec::new(),
            arms: arms.collect(),
        }
    }

    pub(super) fn is_of(&self, metric: &str) -> bool {
        *self.metric == *metric
    }

    /// Are these the arms that are measured as one?
    pub(super) fn is_wide(&self, wide: &[bool]) -> bool {
        self.arms.iter().map(|a| a.wide).eq(wide.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn heap(&self) -> usize {
        let arms = self.arms.iter().map(|a| {
            a.totals.capacity() * size_of::<f64>() + a.counts.capacity() * size_of::<u32>()
        });
        self.metric.len()
            + self.columns.capacity() * size_of::<i64>()
            + self.d.capacity() * size_of::<f64>()
            + self.moved.capacity() * size_of::<f64>()
            + self.arms.capacity() * size_of::<Sums>()
            + arms.sum::<usize>()
    }

    /// The metric with the bake's columns added; those before `to` are settled. `slots` says where each arm keeps the pods
    /// of the bake.
    pub(super) fn look(
        &mut self,
        bake: &Bake<'_>,
        terms: &Terms<'_>,
        to: i64,
        slots: &[Slots],
    ) -> Run {
        let (columns, d) = bake.differences_so_far();
        let run = {
            let mut all = self.clone();
            all.add(bake, bake.end(), slots);
            terms.judge(
                [self.columns.as_slice(), columns].concat(),
                [self.d.as_slice(), d].concat(),
                &all.now(),
            )
        };
        self.add(bake, to, slots);
        run
    }

    fn add(&mut self, bake: &Bake<'_>, to: i64, slots: &[Slots]) {
        let (columns, d) = bake.differences_so_far();
        let n = columns.partition_point(|c| *c < to);
        self.columns.reserve_exact(n);
        self.d.reserve_exact(n);
        self.columns.extend(columns.iter().take(n));
        self.d.extend(d.iter().take(n));
        self.moved.resize(bake.moved().len(), 0.0);
        for (sum, values) in self.moved.iter_mut().zip(bake.moved()) {
            *sum += values.iter().take(n).sum::<f64>();
        }
        for ((arm, pods), slots) in self.arms.iter_mut().zip(bake.pod_sums(to)).zip(slots) {
            arm.add(&pods, slots);
        }
    }

    fn now(&self) -> Now {
        let m = num::real(self.columns.len().max(1));
        Now {
            effects: self.arms.iter().map(Sums::means).collect(),
            regions: self.moved.iter().map(|sum| sum / m).collect(),
        }
    }
}

impl Sums {
    fn add(&mut self, pods: &[(f64, usize)], slots: &[usize]) {
        let own = [0];
        let slots = if self.wide { own.as_slice() } else { slots };
        let most = slots
            .iter()
            .max()
            .map_or(0, |m| m + 1)
            .max(self.totals.len());
        self.totals.resize(most, 0.0);
        self.counts.resize(most, 0);
        for ((sum, n), slot) in pods.iter().zip(slots) {
            if let (Some(s), Some(c)) = (self.totals.get_mut(*slot), self.counts.get_mut(*slot)) {
                *s += sum;
                *c = c.saturating_add(u32::try_from(*n).unwrap_or(u32::MAX));
            }
        }
    }

    fn means(&self) -> Vec<Option<f64>> {
        let mean = |(sum, n): (&f64, &u32)| (*n > 0).then(|| sum / f64::from(*n));
        self.totals.iter().zip(&self.counts).map(mean).collect()
    }
}
