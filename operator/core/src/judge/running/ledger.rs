//! One metric's settled columns: their differences, and the sums from which the one-off variance follows. New columns in, the
//! metric's state at this look out; must never forget a column that was accepted.

use super::Broken;
use super::arm::Slots;
use crate::judge::bake::{Bake, Now, Run, Terms};
use crate::judge::num;

/// Sums and numbers of the values of one arm's pods, by their place in the state of the arm.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    /// The arm is measured as one.
    wide: bool,
    totals: Vec<f64>,
    counts: Vec<u16>,
}

/// One metric's settled columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ledger {
    metric: Box<str>,
    /// The accepted columns, as stretches [from, to).
    columns: Vec<(i64, i64)>,
    /// D of each.
    d: Vec<f64>,
    /// Sum of the values of each control region in them.
    moved: Vec<f64>,
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
        self.d.len()
    }

    pub(super) fn heap(&self) -> usize {
        let arm = |a: &Sums| {
            a.totals.capacity() * size_of::<f64>() + a.counts.capacity() * size_of::<u16>()
        };
        self.metric.len()
            + self.columns.capacity() * size_of::<(i64, i64)>()
            + self.d.capacity() * size_of::<f64>()
            + self.moved.capacity() * size_of::<f64>()
            + self.arms.capacity() * size_of::<Sums>()
            + self.arms.iter().map(arm).sum::<usize>()
    }

    /// The metric with the bake's columns added; those before `to` are settled. `slots` says where each arm keeps the pods
    /// of the bake.
    pub(super) fn look(
        &mut self,
        bake: &Bake<'_>,
        terms: &Terms<'_>,
        to: i64,
        slots: &[Slots],
    ) -> Result<Run, Broken> {
        let (new, d) = bake.differences_so_far();
        let settled = self.columns.iter().flat_map(|(from, to)| *from..*to);
        let columns = settled.chain(new.iter().copied()).collect();
        let d = [self.d.as_slice(), d].concat();
        let m = num::real(d.len().max(1));
        let moved = |place: usize| self.moved.get(place).copied().unwrap_or(0.0);
        let regions = bake.moved().iter().enumerate();
        let now = Now {
            regions: regions
                .map(|(i, values)| (moved(i) + values.iter().sum::<f64>()) / m)
                .collect(),
            effects: self
                .arms
                .iter()
                .zip(bake.pod_sums(bake.end()))
                .zip(slots)
                .map(|((arm, pods), slots)| arm.with(&pods, slots).map(|sums| sums.means()))
                .collect::<Result<_, _>>()?,
        };
        self.settle(bake, to, slots)?;
        Ok(terms.judge(columns, d, &now))
    }

    fn settle(&mut self, bake: &Bake<'_>, to: i64, slots: &[Slots]) -> Result<(), Broken> {
        let (columns, d) = bake.differences_so_far();
        let n = columns.partition_point(|c| *c < to);
        self.d.reserve_exact(n);
        for (column, d) in columns.iter().zip(d).take(n) {
            match self.columns.last_mut() {
                Some((_, to)) if *to == *column => *to += 1,
                _ => self.columns.push((*column, *column + 1)),
            }
            self.d.push(*d);
        }
        self.moved.resize(bake.moved().len(), 0.0);
        for (sum, values) in self.moved.iter_mut().zip(bake.moved()) {
            *sum += values.iter().take(n).sum::<f64>();
        }
        for ((arm, pods), slots) in self.arms.iter_mut().zip(bake.pod_sums(to)).zip(slots) {
            *arm = arm.with(&pods, slots)?;
        }
        Ok(())
    }
}

impl Sums {
    /// With the sums and numbers of a bake's pods added.
    fn with(&self, pods: &[(f64, usize)], slots: &[usize]) -> Result<Self, Broken> {
        let mut out = self.clone();
        let own = [0];
        let slots = if self.wide { own.as_slice() } else { slots };
        let known = slots.iter().max().map_or(0, |m| m + 1);
        let more = known.saturating_sub(out.totals.len());
        out.totals.reserve_exact(more);
        out.counts.reserve_exact(more);
        out.totals.resize(out.totals.len() + more, 0.0);
        out.counts.resize(out.counts.len() + more, 0);
        for ((sum, n), slot) in pods.iter().zip(slots) {
            if let (Some(total), Some(count)) =
                (out.totals.get_mut(*slot), out.counts.get_mut(*slot))
            {
                *total += sum;
                let n = u16::try_from(*n).map_err(|_| Broken::Size)?;
                *count = count.checked_add(n).ok_or(Broken::Size)?;
            }
        }
        Ok(out)
    }

    fn means(&self) -> Vec<Option<f64>> {
        let mean = |(sum, n): (&f64, &u16)| (*n > 0).then(|| sum / f64::from(*n));
        self.totals.iter().zip(&self.counts).map(mean).collect()
    }
}
