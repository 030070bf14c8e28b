//! One arm's settled blocks: each pod's walk up to there, and what the arm as a whole carries on. The arm's youngest samples
//! in, its view of the blocks that are not settled out; must never guess what a pod did that it has not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::digest;
use super::pod::{self, Past, Stretch};
use super::{Broken, MOST};
use crate::judge::carried::Frozen;
use crate::judge::constants as k;
use crate::judge::input::{Arm, GuardrailSeries, Pod, Series};
use crate::judge::num;
use crate::judge::panel::OpenWindow;
use crate::judge::period::{ArmView, Before};
use crate::judge::track::{Demands, Window};

/// One pod.
#[derive(Clone, Debug, PartialEq)]
struct PodPast {
    /// Digest of its name.
    key: u64,
    past: Past,
    /// The window of peaks that is not complete.
    open: OpenWindow,
}

/// One arm.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ArmPast {
    region: Box<str>,
    /// Digest of the expected pods of the settled blocks.
    expected: u64,
    before: Before,
    pods: Vec<PodPast>,
}

/// Where an arm's state keeps the pods of its view, in the order of the view.
pub(super) type Slots = Vec<usize>;

impl ArmPast {
    pub(super) fn new(region: &str) -> Self {
        Self {
            region: region.into(),
            expected: 0,
            before: Before::default(),
            pods: Vec::new(),
        }
    }

    pub(super) fn region(&self) -> &str {
        &self.region
    }

    pub(super) fn heap(&self) -> usize {
        self.region.len()
            + self.before.recent.capacity() * size_of::<f64>()
            + self.pods.capacity() * size_of::<PodPast>()
            + self.pods.iter().map(|p| p.past.heap()).sum::<usize>()
    }

    /// The window of peaks that a pod has begun.
    pub(super) fn open_window(&self, slot: usize) -> Option<OpenWindow> {
        self.pods.get(slot).map(|p| p.open)
    }

    /// Walks on through the pods' samples, up to the end of `stretch`; what they leave behind is that of its settled blocks.
    pub(super) fn resume<'a>(
        &mut self,
        arm: &'a Arm,
        frozen: &Frozen,
        stretch: Stretch,
        demands: &Demands,
        first: bool,
    ) -> Result<(ArmView<'a>, Slots), Broken> {
        let seconds = |block: i64| num::real_signed(stretch.grid.start(block)) / 1000.0;
        let from = stretch.window.from;
        if !first && digest::expected(&arm.expected, seconds(from)) != self.expected {
            return Err(Broken::Told);
        }
        let places = self.pods.iter().enumerate().map(|(i, p)| (p.key, i));
        let mut places: BTreeMap<u64, usize> = places.collect();
        let (mut tracks, mut slots) = (Vec::new(), Slots::new());
        self.pods
            .reserve_exact(arm.pods.len().saturating_sub(self.pods.len()));
        for pod in &arm.pods {
            let key = digest::name(&pod.name);
            let slot = if let Some(slot) = places.remove(&key) {
                slot
            } else if first || is_born(pod, stretch) {
                self.pods.push(PodPast {
                    key,
                    past: Past::default(),
                    open: OpenWindow::default(),
                });
                self.pods.len() - 1
            } else {
                return Err(Broken::UnknownPod);
            };
            let Some(known) = self.pods.get_mut(slot) else {
                continue;
            };
            let last = known.past.lived.map(|l| l.last);
            let (track, past) = pod::resume(&known.past, first, pod, stretch, demands)?;
            let silent = last.filter(|last| *last < from - 1 && !track.cells.is_empty());
            let told = |at: f64| arm.expected.first().is_some_and(|(t, _)| *t <= at);
            if silent.is_some_and(|last| !told(seconds(last + 1))) {
                return Err(Broken::Silence);
            }
            known.past = past;
            tracks.push(track);
            slots.push(slot);
        }
        if self.pods.len() > MOST {
            return Err(Broken::Size);
        }
        // Pods that are not told of any more were there all the same.
        for slot in places.into_values() {
            if let Some(pod) = self.pods.get(slot) {
                // Its last window of peaks may still count, against its own baseline.
                let counts = pod.open.valid > 0;
                let name = counts.then(|| digest::find(frozen, &self.region, pod.key));
                tracks.push(pod.past.gone(name.flatten().unwrap_or_default()));
                slots.push(slot);
            }
        }
        self.expected = digest::expected(&arm.expected, seconds(stretch.settled));
        let before = self.before.clone();
        let view = ArmView::of(arm, stretch.grid, stretch.window, tracks, before);
        Ok((view, slots))
    }

    /// Settles the blocks of a view before `to`. `origin` is the first block since the change, `open` says which blocks of
    /// the view's window are accepted.
    pub(super) fn settle(
        &mut self,
        view: &ArmView<'_>,
        slots: &Slots,
        (window, to): (Window, i64),
        origin: i64,
        open: &[bool],
    ) {
        let settled = num::span(window.from, to);
        let newest = settled.checked_sub(1);
        if let Some(newest) = newest.and_then(|i| view.newest(window).get(i).copied()) {
            self.before.newest = newest;
        }
        self.before.recent = view.recent(to);
        let at = |block: i64| (block - origin).div_euclid(k::WINDOW);
        for (track, slot) in view.tracks.iter().zip(slots) {
            let Some(pod) = self.pods.get_mut(*slot) else {
                continue;
            };
            let mut column = at(window.from);
            for cell in track.cells.iter().take_while(|c| c.block < to) {
                if at(cell.block) > column {
                    column = at(cell.block);
                    pod.open = OpenWindow::default();
                }
                let accepted = window.place(cell.block).and_then(|i| open.get(i));
                if cell.lack.is_none() && accepted.is_some_and(|a| *a) {
                    pod.open = pod.open.and(cell);
                }
            }
            if at(to) > column {
                pod.open = OpenWindow::default();
            }
        }
    }
}

/// A pod that is not known began after the settled blocks, or never spoke.
fn is_born(pod: &Pod, stretch: Stretch) -> bool {
    let from = stretch.grid.start(stretch.window.from);
    let begun = |s: &f64| num::millis(*s).is_some_and(|s| s >= from);
    let silent = |s: &Series| s.replicas.iter().all(Vec::is_empty);
    (!pod.starts.is_empty() && pod.starts.iter().all(begun))
        || [&pod.rss, &pod.cache, &pod.evictions]
            .into_iter()
            .all(silent)
}

/// The counters of a guardrail; a gauge has none.
fn counters(series: &GuardrailSeries) -> Vec<&Series> {
    match series {
        GuardrailSeries::Gauge(_) => Vec::new(),
        GuardrailSeries::Histogram { buckets, .. } => buckets.iter().map(|(_, s)| s).collect(),
        GuardrailSeries::Quotient {
            numerator,
            denominator,
        } => vec![numerator, denominator],
        GuardrailSeries::Count { events, exposure } => {
            std::iter::once(events).chain(exposure.as_ref()).collect()
        }
    }
}

/// Do a guardrail's counters of the arm go on from the last settled block? Their increase needs the last sample before.
pub(super) fn check_guardrail(
    past: &ArmPast,
    name: &str,
    arm: &Arm,
    stretch: Stretch,
    first: bool,
) -> Result<(), Broken> {
    let (from, to) = (
        stretch.grid.start(stretch.window.from),
        stretch.grid.start(stretch.window.from - 1),
    );
    let goes_on = |series: &Series| {
        let times = series
            .replicas
            .iter()
            .flatten()
            .filter(|(_, v)| v.is_finite());
        let (mut new, mut old) = (false, false);
        for t in times.filter_map(|(t, _)| num::millis(*t)) {
            new |= t >= from;
            old |= t >= to && t < from;
        }
        old || !new
    };
    let check = |series: &GuardrailSeries, known: bool| {
        let all = counters(series);
        if all.iter().any(|s| pod::several(s)) {
            return Err(Broken::Replicas);
        }
        if known && !first && !all.into_iter().all(goes_on) {
            return Err(Broken::Guardrail);
        }
        Ok(())
    };
    if let Some(series) = arm.guardrails.get(name) {
        return check(series, true);
    }
    let counting = |pod: &&Pod| {
        let series = pod.guardrails.get(name);
        series.is_some_and(|s| !matches!(s, GuardrailSeries::Gauge(_)))
    };
    let mut pods = arm.pods.iter().filter(counting).peekable();
    if pods.peek().is_none() {
        return Ok(());
    }
    let lived = past.pods.iter().filter(|p| p.past.lived.is_some());
    let lived: BTreeSet<u64> = lived.map(|p| p.key).collect();
    for pod in pods {
        if let Some(series) = pod.guardrails.get(name) {
            check(series, lived.contains(&digest::name(&pod.name)))?;
        }
    }
    Ok(())
}
