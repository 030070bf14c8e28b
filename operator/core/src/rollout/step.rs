//! Takes an attempt and the world, gives its next position, the acts and what is waited for: the order of waves, people's
//! verbs, and the way to an undo. Never judges and never looks into a workload; see [`super::region`].

use jiff::{SignedDuration, Timestamp};

use super::position::{Ending, Hold, Outcome, Position, RegionState, Stage, UndoOrder};
use super::{region, undo, watch};
use crate::decision::{Action, Event, Finding, Judged, Reason};
use crate::names::Region;
use crate::plan::{Plan, RegressionAction, Scope, Wave};
use crate::world::{Attempt, ClusterView, Metrics, RegionView, Running, Verb, World};

/// The longest time between two looks while something is going on.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// The shortest, after a change of ours.
const SHORTEST_WAIT: SignedDuration = SignedDuration::from_millis(500);

/// What a step over an attempt gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// Where the attempt stands now.
    pub next: Position,
    /// What to do after that was committed.
    pub actions: Vec<Action>,
    /// Transitions of this step.
    pub events: Vec<Event>,
    /// What is waited for.
    pub findings: Vec<Finding>,
    /// What the judge said in this step.
    pub looks: Vec<Judged>,
    /// Running states for the next step.
    pub running: Running,
    /// When to look again at the latest.
    pub wake_at: Timestamp,
}

/// The attempt one step further. Quiet once it has ended and nobody wants it undone.
pub fn step(world: &World, attempt: &Attempt) -> Stepped {
    let mut s = Step::new(world, attempt);
    s.follow_verbs();
    if s.next.ending.is_some() {
        s.wake_in(LONGEST_WAIT);
    } else if s.next.undo.is_some() {
        undo::advance(&mut s);
    } else if world.policy.suspend {
        s.hold(
            None,
            Reason::UserRequested,
            "The policy is suspended (spec.suspend).".to_owned(),
        );
    } else if attempt.state == Verb::Pause {
        s.hold(
            None,
            Reason::Paused,
            "The attempt is paused (spec.state: Pause); set Run to go on.".to_owned(),
        );
    } else {
        s.advance();
    }
    s.finish()
}

/// Working state of one step.
pub(super) struct Step<'a> {
    /// What was seen.
    pub(super) world: &'a World,
    /// The attempt.
    pub(super) attempt: &'a Attempt,
    /// Its plan.
    pub(super) plan: &'a Plan,
    /// Its next position.
    pub(super) next: Position,
    /// Acts so far.
    pub(super) actions: Vec<Action>,
    /// Looks of the judge so far.
    pub(super) looks: Vec<Judged>,
    /// Running states: of regions that are not looked at in this step, those of the step before.
    pub(super) running: Running,
    events: Vec<Event>,
    findings: Vec<Finding>,
    wake_at: Timestamp,
    before: Option<Position>,
}

impl<'a> Step<'a> {
    fn new(world: &'a World, attempt: &'a Attempt) -> Self {
        let next = attempt
            .position
            .clone()
            .unwrap_or_else(|| Position::new(world.now));
        let mut s = Self {
            world,
            attempt,
            plan: &attempt.plan,
            next,
            actions: Vec::new(),
            looks: Vec::new(),
            running: world.running.clone(),
            events: Vec::new(),
            findings: Vec::new(),
            wake_at: world.now + LONGEST_WAIT,
            before: attempt.position.clone(),
        };
        if attempt.position.is_none() {
            let regions: usize = s.plan.waves.iter().map(|wave| wave.regions.len()).sum();
            s.event(
                false,
                "RolloutStarted",
                None,
                format!(
                    "Attempt {} of {} begins: {regions} regions in {} waves.",
                    s.plan.attempt,
                    s.plan.allocator.class,
                    s.plan.waves.len()
                ),
            );
        }
        s
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        self.world.now
    }

    /// Something is waited for.
    pub(super) fn hold(&mut self, region: Option<&Region>, reason: Reason, message: String) {
        self.findings.push(Finding {
            region: region.cloned(),
            reason,
            message,
        });
    }

    /// A transition happened.
    pub(super) fn event(
        &mut self,
        warning: bool,
        reason: &str,
        region: Option<&Region>,
        note: String,
    ) {
        self.events.push(Event {
            warning,
            reason: reason.to_owned(),
            note,
            region: region.cloned(),
        });
    }

    /// Look again after `wait` at the latest.
    pub(super) fn wake_in(&mut self, wait: SignedDuration) {
        self.wake_at = self.wake_at.min(self.world.now + wait.max(SHORTEST_WAIT));
    }

    /// Look again soon: something is moving that is only seen by looking.
    pub(super) fn wake_soon(&mut self) {
        self.wake_in(self.pace());
    }

    /// How often moving things are looked at: a block, between 1 and 10 s.
    fn pace(&self) -> SignedDuration {
        let block = SignedDuration::from_secs_f64(self.plan.judge.block_seconds.clamp(1.0, 10.0));
        block.min(SignedDuration::from_secs(10))
    }

    /// The cluster of a region, or a finding that says why it cannot be seen.
    pub(super) fn cluster(&mut self, region: &Region) -> Option<&'a ClusterView> {
        let world = self.world;
        let because = match world.regions.get(region).map(|view| &view.cluster) {
            Some(Ok(cluster)) => return Some(cluster),
            Some(Err(unseen)) => unseen.because.clone(),
            None => "there is no AllocatorRegion of that name".to_owned(),
        };
        self.hold(
            Some(region),
            Reason::SomeUnreachable,
            format!("Region {region} cannot be read: {because}."),
        );
        self.wake_soon();
        None
    }

    /// The metrics of a region, or a finding that says why they cannot be seen.
    pub(super) fn metrics(&mut self, region: &Region) -> Option<&'a Metrics> {
        let world = self.world;
        let asked = world
            .regions
            .get(region)
            .and_then(|view: &RegionView| view.metrics.as_ref());
        self.wake_soon();
        match asked {
            Some(Ok(metrics)) => Some(metrics),
            Some(Err(unseen)) => {
                let because = &unseen.because;
                self.hold(
                    Some(region),
                    Reason::PrometheusUnreachable,
                    format!("Prometheus of region {region} cannot be read: {because}."),
                );
                None
            }
            None => {
                // Asked for in the next pass: what is needed follows from the position that is committed now.
                None
            }
        }
    }

    /// The state of a region that has begun.
    pub(super) fn state(&mut self, region: &Region) -> Option<&mut RegionState> {
        self.next.regions.get_mut(region)
    }

    /// Moves a region on.
    pub(super) fn enter(&mut self, region: &Region, stage: Stage) {
        let now = self.now();
        if let Some(state) = self.next.regions.get_mut(region) {
            state.stage = stage;
            state.since = now;
            if stage == Stage::Passed {
                // Its verdict was given; there is nothing to confirm any more.
                state.evidence.clear();
            }
        }
        self.wake_in(SHORTEST_WAIT);
    }

    fn follow_verbs(&mut self) {
        let (reason, message) = if self.world.policy.deleting {
            (Reason::WorkloadDeleting, "The policy is being deleted.")
        } else if self.attempt.state == Verb::Abort {
            (
                Reason::Aborted,
                "A person aborted the attempt (spec.state: Abort).",
            )
        } else if matches!(&self.world.intent, Ok(intent) if intent.hash != self.plan.hash) {
            (Reason::Superseded, "The policy asks for another plan now.")
        } else {
            return;
        };
        if self.next.undo.is_some() {
            return;
        }
        let changed = self.next.changed_regions();
        if changed.is_empty() {
            if self.next.ending.is_none() {
                let outcome = if reason == Reason::Superseded {
                    Outcome::Superseded
                } else {
                    Outcome::RolledBack
                };
                let reason = if reason == Reason::Superseded {
                    reason
                } else {
                    Reason::ExactRestore
                };
                self.end(
                    outcome,
                    reason,
                    format!("{message} Nothing had been changed."),
                );
            }
            return;
        }
        let keep = self.world.policy.deleting && !self.world.policy.restore_on_delete;
        self.next.ending = None;
        self.order_undo(changed, reason, message.to_owned(), keep);
    }

    /// Orders an undo of `regions`, in that order.
    pub(super) fn order_undo(
        &mut self,
        regions: Vec<Region>,
        reason: Reason,
        message: String,
        keep: bool,
    ) {
        let names: Vec<&str> = regions.iter().map(Region::as_str).collect();
        let what = if keep {
            "Claims are given up"
        } else {
            "Rollback begins"
        };
        self.event(
            !keep,
            "RollbackStarted",
            None,
            format!("{what} in {}: {message}", names.join(", ")),
        );
        self.next.held = None;
        self.next.undo = Some(UndoOrder {
            regions,
            reason,
            message,
            since: self.now(),
            keep,
        });
        self.wake_in(SHORTEST_WAIT);
    }

    /// A region failed: stop, and undo what the policy says.
    pub(super) fn regress(&mut self, region: &Region, reason: Reason, message: String) {
        self.event(true, "CanaryFailed", Some(region), message.clone());
        if let Some(state) = self.state(region) {
            state.failed = Some((reason, message.clone()));
        }
        // A crashing workload is always undone at once, whatever the policy says about regressions.
        let keep_broken = self.plan.on_regression.action == RegressionAction::Freeze
            && reason != Reason::CrashLoop;
        if keep_broken {
            self.enter(region, Stage::Failed);
            self.end(
                Outcome::Frozen,
                Reason::Frozen,
                format!("{message} onRegression.action is Freeze: nothing was undone."),
            );
            return;
        }
        let all = self.next.changed_regions();
        let wave = self.plan.wave_of(region);
        let regions = match self.plan.on_regression.scope {
            Scope::Region => vec![region.clone()],
            Scope::Wave => all
                .into_iter()
                .filter(|changed| wave.is_some_and(|wave| wave.regions.contains(changed)))
                .collect(),
            Scope::Fleet => all,
        };
        self.order_undo(regions, reason, message, false);
    }

    /// A bake ended without an answer.
    pub(super) fn hold_for_person(&mut self, region: &Region, reason: Reason, message: String) {
        self.event(true, "BakeHeld", Some(region), message.clone());
        self.next.held = Some(Hold {
            region: region.clone(),
            reason,
            message,
            since: self.now(),
        });
    }

    /// The attempt is over.
    pub(super) fn end(&mut self, outcome: Outcome, reason: Reason, message: String) {
        let event = match outcome {
            Outcome::Promoted => "RolloutCompleted",
            Outcome::RolledBack => "RollbackCompleted",
            Outcome::Unverified => "RestoreUnverified",
            Outcome::Frozen => "RolloutFrozen",
            Outcome::Superseded => "RolloutSuperseded",
        };
        let warning = matches!(outcome, Outcome::Unverified | Outcome::Frozen);
        self.event(warning, event, None, message.clone());
        self.next.undo = None;
        self.next.held = None;
        self.next.ending = Some(Ending {
            outcome,
            reason,
            message,
            at: self.now(),
        });
    }

    fn advance(&mut self) {
        if let Some(held) = self.next.held.clone() {
            if !self.attempt.approvals.contains(&held.gate()) {
                self.hold(Some(&held.region), held.reason, held.message);
                return;
            }
            self.event(
                false,
                "Approved",
                Some(&held.region),
                format!(
                    "A person let region {} pass (gate {}).",
                    held.region,
                    held.gate()
                ),
            );
            self.next.held = None;
            self.enter(&held.region, Stage::Passed);
        }
        watch::watch(self);
        if self.next.undo.is_some() || self.next.ending.is_some() {
            return;
        }
        let plan = self.plan;
        let Some(wave) = plan.waves.get(self.next.wave) else {
            self.end(
                Outcome::Promoted,
                Reason::AllWavesComplete,
                "All waves are done.".to_owned(),
            );
            return;
        };
        for region in &wave.regions {
            self.advance_region(wave, region);
            if self.next.undo.is_some() || self.next.ending.is_some() || self.next.held.is_some() {
                return;
            }
        }
        let settled = |region: &Region| {
            self.next
                .regions
                .get(region)
                .is_some_and(|state| state.stage.settled())
        };
        if wave.regions.iter().all(settled) {
            self.finish_wave(wave);
        }
    }

    fn advance_region(&mut self, wave: &Wave, region: &Region) {
        match self
            .next
            .regions
            .get(region)
            .map(|state| state.stage.settled())
        {
            Some(true) => {}
            Some(false) => region::advance(self, wave, region),
            None => {
                let busy = wave.regions.iter().filter(|other| {
                    self.next
                        .regions
                        .get(*other)
                        .is_some_and(|state| !state.stage.settled())
                });
                let limit = usize::try_from(wave.max_concurrent_regions)
                    .unwrap_or(usize::MAX)
                    .max(1);
                if busy.count() < limit {
                    region::begin(self, wave, region);
                }
            }
        }
    }

    fn finish_wave(&mut self, wave: &Wave) {
        let last = self.next.wave + 1 == self.plan.waves.len();
        let missing: Vec<&str> = wave
            .gates
            .iter()
            .filter(|gate| !last && !self.attempt.approvals.contains(gate))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            // Asked once: when the wave was not done yet in what stands.
            let done = |region: &Region| {
                let before = self.before.as_ref();
                let state = before.and_then(|before| before.regions.get(region));
                state.is_some_and(|state| state.stage.settled())
            };
            let asked = wave.regions.iter().all(done);
            let message = format!(
                "Wave {} is done and waits for approval: add the gate {} to spec.approvals.",
                wave.name,
                missing.join(" and the gate ")
            );
            if !asked {
                self.event(false, "ApprovalRequired", None, message.clone());
            }
            self.hold(None, Reason::AwaitingApproval, message);
            return;
        }
        self.event(
            false,
            "WaveCompleted",
            None,
            format!("Wave {} is done.", wave.name),
        );
        self.next.wave += 1;
        if last {
            self.end(
                Outcome::Promoted,
                Reason::AllWavesComplete,
                "All waves are done.".to_owned(),
            );
        }
        self.wake_in(SHORTEST_WAIT);
    }

    fn finish(mut self) -> Stepped {
        let regions = &self.next.regions;
        self.running.retain(|(region, _), _| {
            let state = regions.get(region);
            state.is_some_and(|state| state.stage == Stage::Baking)
        });
        Stepped {
            next: self.next,
            actions: self.actions,
            events: self.events,
            findings: self.findings,
            looks: self.looks,
            running: self.running,
            wake_at: self.wake_at,
        }
    }
}
