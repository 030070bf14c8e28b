//! The running state of one region: what its settled blocks come to, so that a look in between reads only the last few
//! blocks' samples. A state and the youngest samples in, the same [`Look`] as from all samples out, or word that the full
//! look ([`look`](fn@super::look)) is needed. Must never say anything that ends a bake: that is the full look's.
//!
//! How it is called: after a full look that did not end the bake, [`Running::new`] from the same input. From then on, at each
//! look, samples from [`Running::since`] on (and all that is told of pods, as ever) go to [`Running::look`]:
//!
//! | it says | then |
//! |---|---|
//! | [`Interim::Open`] | this is the look; the bake goes on |
//! | [`Interim::Decides`] | do the full look; the state goes on all the same |
//! | [`Interim::Broken`] | do the full look, and begin a new state from its input |
//!
//! A block is settled once it is older than those that may still change ([`Settings::young`], §3.8). Settled ones are
//! folded: sums, the walk of each pod up to there, accepted columns and their differences. The younger are recomputed by
//! every look. Both go through the functions of the full look, which is the same walk begun at the first sample. The state
//! lives in memory only; what is stored between processes is [`Stored`](super::Stored), with its version.

mod arm;
mod digest;
mod ledger;
mod pod;

use super::bake::{Bake, Terms};
use super::carried::Frozen;
use super::conclude::{Seen, conclude};
use super::constants as k;
use super::diagnosis::{self, Finding};
use super::facts::{self, Blocks, Tally};
use super::input::{Change, LookInput};
use super::look::{self, Context};
use super::measure::{self, Scene};
use super::num;
use super::outcome::{Look, Verdict};
use super::period::Period;
use super::rule;
use super::settings::Settings;
use super::track::Window;
use arm::{ArmPast, Slots};
use ledger::Ledger;
use pod::Stretch;

/// Most columns per metric, and pods per arm, that a state holds: above, every look is a full one.
const MOST: usize = 4096;

/// Blocks that may still change.
fn young(settings: &Settings) -> i64 {
    num::signed(settings.young())
}

/// What a look from the running state says.
#[derive(Clone, Debug, PartialEq)]
pub enum Interim {
    /// Nothing ends, and this is what the full look would say. Its [`Look::frozen`] is empty (the caller has it), and its
    /// diagnosis is that of the last full look.
    Open(Box<Look>),
    /// Something may end: the full look is needed. The state goes on.
    Decides,
    /// The input does not continue the state: the full look is needed, and a new state.
    Broken(Broken),
}

impl Interim {
    /// The full look is needed.
    pub const fn full_needed(&self) -> bool {
        !matches!(self, Self::Open(_))
    }
}

/// Why a state cannot begin or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Broken {
    /// The settings are out of range, or others than before.
    #[error("the settings changed")]
    Settings,
    /// The frozen baseline cannot be judged by, holds a Fail, or is another than before.
    #[error("the frozen baseline changed")]
    Frozen,
    /// The change or the regions are others than before, or there is none.
    #[error("the change or its regions are others")]
    Change,
    /// No block is settled yet.
    #[error("no block is settled yet")]
    Young,
    /// The clock went back.
    #[error("the clock went back")]
    Clock,
    /// What is told of a pod or of an arm bears upon settled blocks, and is not what it was.
    #[error("what is told of the settled blocks changed")]
    Told,
    /// A pod appears whose past is not known.
    #[error("a pod appeared whose past is not known")]
    UnknownPod,
    /// A pod speaks again after a silence in which, as its arm's size is not told, it was not expected.
    #[error("a pod speaks again after a silence")]
    Silence,
    /// A counter has several replicas: which one counts depends on all of their samples.
    #[error("a counter has several replicas")]
    Replicas,
    /// A guardrail's counter has a gap, or its series moved from pods to arms.
    #[error("the series of a guardrail have a gap")]
    Guardrail,
    /// Counts are only weighed by full looks.
    #[error("counts are weighed by full looks only")]
    Counts,
    /// There is more to remember than a state may hold.
    #[error("there is more to remember than a running state may hold")]
    Size,
}

/// What the settled blocks of one region come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    settings: Settings,
    frozen: u64,
    change: Change,
    /// First block since the change, and the first that is not settled.
    origin: i64,
    settled: i64,
    block_ms: i64,
    tally: Tally,
    /// The canary's RSS/cache in the last accepted block.
    last_ratio: Option<f64>,
    /// The canary first.
    arms: Vec<ArmPast>,
    metrics: Vec<Ledger>,
    diagnosis: Vec<Finding>,
}

impl Running {
    /// Folds the settled blocks of a full look's input.
    pub fn new(settings: &Settings, frozen: &Frozen, input: &LookInput) -> Result<Self, Broken> {
        let context = look::context(settings, input).map_err(|_| Broken::Settings)?;
        let change = input.change.ok_or(Broken::Change)?;
        let window = look::since_change(&context, change);
        if context.end - young(settings) < window.from {
            return Err(Broken::Young);
        }
        if !rule::count_rules(settings).is_empty() {
            return Err(Broken::Counts);
        }
        if !frozen.is_sound() || frozen.failed.is_some() {
            return Err(Broken::Frozen);
        }
        let arms = std::iter::once(&input.canary).chain(&input.controls);
        let mut state = Self {
            settings: settings.clone(),
            frozen: digest::frozen(frozen),
            change,
            origin: window.from,
            settled: window.from,
            block_ms: context.grid.block_ms,
            tally: Tally::default(),
            last_ratio: None,
            arms: arms.map(|a| ArmPast::new(&a.region)).collect(),
            metrics: Vec::new(),
            diagnosis: Vec::new(),
        };
        state.advance(&context, frozen, true)?;
        // What grew block by block is cut to size.
        Ok(state.clone())
    }

    /// From when on samples must be in the next input, Unix seconds.
    pub fn since(&self) -> f64 {
        num::real_signed((self.settled - 1).saturating_mul(self.block_ms)) / 1000.0
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let arms: usize = self.arms.iter().map(ArmPast::heap).sum();
        let metrics: usize = self.metrics.iter().map(Ledger::heap).sum();
        let names: usize = self
            .settings
            .guardrails
            .iter()
            .map(|g| g.name.capacity())
            .sum();
        // A node of the map holds eleven entries and is never less than half full but for the first.
        let refused =
            2 * size_of::<(super::outcome::Code, usize)>() * self.tally.refused.len().max(6);
        size_of::<Self>()
            + arms
            + metrics
            + names
            + size_of_val(self.settings.guardrails.as_slice())
            + refused
            + self.diagnosis.capacity()
            + self.arms.capacity() * size_of::<ArmPast>()
            + self.metrics.capacity() * size_of::<Ledger>()
    }

    /// Looks at the blocks since the last look, and settles those that have become old enough.
    pub fn look(&mut self, settings: &Settings, frozen: &Frozen, input: &LookInput) -> Interim {
        // Whatever goes wrong on the way, the state stays as it was.
        let mut next = self.clone();
        match next.go_on(settings, frozen, input) {
            Err(broken) => Interim::Broken(broken),
            Ok((look, crosses)) => {
                *self = next;
                let ends = look.is_final || matches!(look.verdict, Verdict::Pass | Verdict::Fail);
                if ends || crosses {
                    Interim::Decides
                } else {
                    Interim::Open(Box::new(look))
                }
            }
        }
    }

    fn go_on(
        &mut self,
        settings: &Settings,
        frozen: &Frozen,
        input: &LookInput,
    ) -> Result<(Look, bool), Broken> {
        if *settings != self.settings {
            return Err(Broken::Settings);
        }
        let context = look::context(settings, input).map_err(|_| Broken::Settings)?;
        if frozen.failed.is_some() || digest::frozen(frozen) != self.frozen {
            return Err(Broken::Frozen);
        }
        let regions = std::iter::once(&input.canary).chain(&input.controls);
        let same = regions.map(|a| a.region.as_str());
        if input.change != Some(self.change) || !same.eq(self.arms.iter().map(ArmPast::region)) {
            return Err(Broken::Change);
        }
        if look::since_change(&context, self.change).from != self.origin {
            return Err(Broken::Size);
        }
        if context.end < self.settled + young(settings) {
            return Err(Broken::Clock);
        }
        self.advance(&context, frozen, false)
    }

    /// One look, and the fold of what it settles. `first`: nothing is known yet.
    fn advance(
        &mut self,
        context: &Context<'_>,
        frozen: &Frozen,
        first: bool,
    ) -> Result<(Look, bool), Broken> {
        let window = Window {
            from: self.settled,
            to: context.end,
        };
        let stretch = Stretch {
            grid: context.grid,
            window,
            settled: context.end - young(context.settings),
        };
        let arms = std::iter::once(&context.input.canary).chain(&context.input.controls);
        let demands = look::demands(context, Some(frozen));
        let (mut views, mut slots) = (Vec::new(), Vec::new());
        for ((past, arm), demands) in self.arms.iter_mut().zip(arms).zip(&demands) {
            for guardrail in &context.settings.guardrails {
                arm::check_guardrail(past, &guardrail.name, arm, stretch, first)?;
            }
            let (view, places) = past.resume(arm, frozen, stretch, demands, first)?;
            views.push(view);
            slots.push(places);
        }
        let period = Period {
            window,
            arms: views,
        };
        let blocks = Blocks::new(context, &period, Some(frozen));
        let mut tally = self.tally.clone();
        blocks.add_to(&mut tally, window.len());
        let runs = self.measure(context, frozen, &period, &blocks, (stretch.settled, &slots))?;
        let counts = measure::counts(context, &period, frozen, &blocks);
        let last_ratio = |to| facts::last_ratio(&period, &blocks, to).or(self.last_ratio);
        let seen = Seen {
            period: &period,
            blocks: &blocks,
            tally,
            last_ratio: last_ratio(window.to),
            runs,
            counts,
        };
        let mut look = conclude(context, self.change, Some(frozen), &seen);
        if first {
            self.diagnosis = facts::span(context, &period, &blocks)
                .map(|s| diagnosis::diagnose(&s))
                .unwrap_or_default();
        }
        look.diagnosis.clone_from(&self.diagnosis);

        self.last_ratio = last_ratio(stretch.settled);
        blocks.add_to(&mut self.tally, num::span(window.from, stretch.settled));
        let views = period.arms.iter().zip(&slots);
        for (past, (view, slots)) in self.arms.iter_mut().zip(views) {
            let span = (window, stretch.settled);
            past.settle(view, slots, span, self.origin, &blocks.open);
        }
        self.settled = stretch.settled;
        let crosses = seen.runs.iter().filter(|(rule, _)| !rule.dry_run);
        let crosses = crosses.filter_map(|(_, run)| run.as_ref());
        Ok((look, crosses.into_iter().any(|run| run.weighed.crosses)))
    }

    /// Every metric, from its ledger and the window's blocks.
    fn measure(
        &mut self,
        context: &Context<'_>,
        frozen: &Frozen,
        period: &Period<'_>,
        blocks: &Blocks,
        (settled, slots): (i64, &[Slots]),
    ) -> Result<Vec<(rule::Rule, Option<super::bake::Run>)>, Broken> {
        let (origin, arms) = (self.origin, &self.arms);
        let window = |block: i64| (block - origin).div_euclid(k::WINDOW);
        let scene = Scene {
            context,
            period,
            frozen,
            open: &blocks.open,
            origin,
            begun: &|arm, pod| {
                let slot = slots.get(arm)?.get(pod)?;
                let open = arms.get(arm)?.open_window(*slot)?;
                Some((window(period.window.from), open))
            },
        };
        let ledgers = &mut self.metrics;
        let mut broken = None;
        let runs = measure::metrics(&scene, &mut |rule, metric, after| {
            let bake = Bake::new(rule, metric, after);
            let terms = Terms {
                rule,
                frozen: metric,
                identity: after.identity,
                min_gain: after.min_gain,
            };
            let to = if rule.name == "peak" {
                window(settled)
            } else {
                settled
            };
            let arms = period.arms.iter();
            let wide = arms.map(|a| a.arm.guardrails.contains_key(&rule.name));
            let wide: Vec<bool> = wide.collect();
            if !ledgers.iter().any(|l| l.is_of(&rule.name)) {
                ledgers.push(Ledger::new(&rule.name, &wide));
            }
            let ledger = ledgers.iter_mut().find(|l| l.is_of(&rule.name))?;
            if !ledger.is_wide(&wide) {
                broken = broken.or(Some(Broken::Guardrail));
            }
            match ledger.look(&bake, &terms, to, slots) {
                Ok(run) => Some(run),
                Err(why) => {
                    broken = Some(why);
                    None
                }
            }
        });
        if let Some(why) = broken {
            return Err(why);
        }
        if self.metrics.iter().any(|l| l.len() > MOST) {
            return Err(Broken::Size);
        }
        Ok(runs)
    }
}
