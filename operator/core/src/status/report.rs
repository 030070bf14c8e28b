//! Takes an attempt's position and what was seen, gives the rows and strings that people read. Never decides.

use super::conditions::{attempt_conditions, policy_only};
use super::{IneligibleRow, PolicyReport, RegionCounts, RegionRow, RolloutReport};
use crate::decision::Finding;
use crate::names::Region;
use crate::plan::{Plan, Wave};
use crate::rollout::{LookSummary, Outcome, Position, RegionState, Stage, WorkStage};
use crate::world::World;

/// How many workloads that are left alone are named.
const NAMED: usize = 10;

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What was seen.
    pub world: &'a World,
    /// The attempt's plan.
    pub plan: &'a Plan,
    /// Where it stands after this pass.
    pub position: &'a Position,
    /// What is waited for.
    pub findings: &'a [Finding],
}

impl Subject<'_> {
    /// The region that people look at now: the one in change or judgement, else the one that failed, else the canary.
    pub(super) fn focus(&self) -> Option<&Region> {
        let of = |wanted: &dyn Fn(&RegionState) -> bool| {
            self.plan
                .waves
                .iter()
                .flat_map(|wave| &wave.regions)
                .find(|name| self.position.regions.get(*name).is_some_and(wanted))
        };
        of(&|state| !state.stage.settled())
            .or_else(|| self.position.held.as_ref().map(|held| &held.region))
            .or_else(|| of(&|state| state.failed.is_some()))
            .or_else(|| self.canary())
    }

    /// The canary region.
    pub(super) fn canary(&self) -> Option<&Region> {
        self.plan
            .waves
            .first()
            .and_then(|wave| wave.regions.first())
    }

    /// State of a region that has begun.
    pub(super) fn state(&self, region: &Region) -> Option<&RegionState> {
        self.position.regions.get(region)
    }

    /// The phase for printing.
    pub fn phase(&self) -> &'static str {
        if let Some(ending) = &self.position.ending {
            return match ending.outcome {
                Outcome::Promoted => "Promoted",
                Outcome::RolledBack => "RolledBack",
                Outcome::Unverified => "RestoreUnverified",
                Outcome::Frozen => "Frozen",
                Outcome::Superseded => "Superseded",
            };
        }
        if self.position.undo.is_some() {
            return "RollingBack";
        }
        if self.position.held.is_some() {
            return "Held";
        }
        match self
            .focus()
            .and_then(|region| self.state(region))
            .map(|state| state.stage)
        {
            Some(stage) if !stage.settled() => stage.as_str(),
            Some(_) if self.position.wave > 0 => "Promoting",
            Some(_) | None => "Planning",
        }
    }
}

/// What the attempt's status says.
pub fn rollout_report(subject: &Subject<'_>) -> RolloutReport {
    let focus = subject.focus();
    let regions: Vec<RegionRow> = subject
        .plan
        .waves
        .iter()
        .flat_map(|wave| wave.regions.iter().map(move |region| (wave, region)))
        .map(|(wave, region)| row(subject, wave, region))
        .collect();
    let focused = focus.and_then(|focus| regions.iter().find(|row| row.name == *focus));
    RolloutReport {
        phase: subject.phase().to_owned(),
        region: focus.map(Region::to_string).unwrap_or_default(),
        verdict: focused.map(|row| row.verdict.clone()).unwrap_or_default(),
        conditions: attempt_conditions(subject),
        regions,
    }
}

/// What the policy's status says while an attempt speaks for it.
pub fn policy_report(subject: &Subject<'_>, attempt: &str) -> PolicyReport {
    let canary = subject.plan.waves.first().and_then(|wave| {
        wave.regions
            .first()
            .map(|region| row(subject, wave, region))
    });
    let done = subject.plan.waves.iter().filter(|wave| {
        wave.regions.iter().all(|region| {
            subject
                .state(region)
                .is_some_and(|state| matches!(state.stage, Stage::Passed | Stage::Nothing))
        })
    });
    let mut conditions = policy_only(subject.world);
    conditions.extend(attempt_conditions(subject));
    PolicyReport {
        phase: subject.phase().to_owned(),
        summary: summary(subject),
        attempt: Some(attempt.to_owned()),
        plan_hash: Some(subject.plan.hash.to_string()),
        canary,
        waves: format!("{}/{}", done.count(), subject.plan.waves.len()),
        regions: counts(subject),
        ineligible: ineligible(subject),
        conditions,
    }
}

impl PolicyReport {
    /// What the policy's status says while there is no attempt.
    pub fn before_any_attempt(world: &World, summary: &str) -> Self {
        let phase = if world.intent.is_ok() {
            "Planning"
        } else {
            "Stalled"
        };
        Self {
            phase: phase.to_owned(),
            summary: summary.to_owned(),
            conditions: super::conditions::without_attempt(world),
            ..Self::default()
        }
    }
}

fn summary(subject: &Subject<'_>) -> String {
    if let Some(ending) = &subject.position.ending {
        return ending.message.clone();
    }
    if let Some(held) = &subject.position.held {
        return held.message.clone();
    }
    if let Some(undo) = &subject.position.undo {
        return undo.message.clone();
    }
    if let Some(finding) = subject.findings.first() {
        return finding.message.clone();
    }
    let look = subject
        .focus()
        .and_then(|region| subject.state(region))
        .and_then(|state| state.look.as_ref());
    look.map(|look| look.message.clone()).unwrap_or_default()
}

fn counts(subject: &Subject<'_>) -> RegionCounts {
    let mut counts = RegionCounts::default();
    for region in subject.plan.waves.iter().flat_map(|wave| &wave.regions) {
        counts.total += 1;
        let Some(state) = subject.state(region) else {
            counts.pending += 1;
            continue;
        };
        match state.stage {
            Stage::Passed | Stage::Nothing => counts.succeeded += 1,
            Stage::Undone => counts.rolled_back += 1,
            Stage::Failed | Stage::Unverified => counts.failed += 1,
            Stage::Baseline
            | Stage::Injecting
            | Stage::Verifying
            | Stage::Baking
            | Stage::Undoing => {
                counts.active += 1;
            }
        }
        if state.unreachable_since.is_some() {
            counts.unknown += 1;
        }
    }
    counts
}

fn ineligible(subject: &Subject<'_>) -> Vec<IneligibleRow> {
    let all = subject.position.regions.iter().flat_map(|(region, state)| {
        state
            .refused
            .iter()
            .map(move |(id, refused)| IneligibleRow {
                region: region.clone(),
                workload: id.to_string(),
                reason: refused.reason,
                message: refused.message.clone(),
            })
    });
    all.take(NAMED).collect()
}

fn row(subject: &Subject<'_>, wave: &Wave, region: &Region) -> RegionRow {
    let empty = LookSummary::default();
    let state = subject.state(region);
    let look = state
        .and_then(|state| state.look.as_ref())
        .unwrap_or(&empty);
    let count = |wanted: &dyn Fn(&WorkStage) -> bool| {
        let works = state.map(|state| {
            state
                .workloads
                .values()
                .filter(|work| wanted(&work.stage))
                .count()
        });
        u32::try_from(works.unwrap_or(0)).unwrap_or(u32::MAX)
    };
    let (reason, message) = match state.and_then(|state| state.failed.clone()) {
        // The judge's own word says the same and names the metric or limit, such as `Regression:ratio`.
        Some((reason, message)) if look.reason.split(':').next() == Some(reason.as_str()) => {
            (look.reason.clone(), message)
        }
        Some((reason, message)) => (reason.to_string(), message),
        None => (look.reason.clone(), look.message.clone()),
    };
    let percent = |ln: f64| format!("{:+.1}%", ln.exp_m1() * 100.0);
    RegionRow {
        name: region.clone(),
        wave: wave.name.clone(),
        state: state
            .map_or("Pending", |state| state.stage.as_str())
            .to_owned(),
        workloads: count(&|_| true),
        injected: count(&|stage| matches!(stage, WorkStage::Injected)),
        proven: format!("{}/{}", look.proven.0, look.proven.1),
        bake_started: state.and_then(|state| state.bake_started),
        blocks: look.blocks,
        blocks_needed: look.blocks_needed,
        ratio: look
            .ratio
            .map(|ratio| format!("{ratio:.2}"))
            .unwrap_or_default(),
        control_ratio: look
            .control_ratio
            .map(|ratio| format!("{ratio:.2}"))
            .unwrap_or_default(),
        change: look
            .change
            .map(|(theta, _, _)| percent(theta))
            .unwrap_or_default(),
        interval: look
            .change
            .map(|(_, low, high)| format!("{} … {}", percent(low), percent(high)))
            .unwrap_or_default(),
        verdict: look.verdict.clone(),
        reason,
        message,
        assumptions: assumed(state, look),
        diagnosis: look.diagnosis.clone(),
    }
}

/// What was assumed about the region's workloads when they were chosen, then what the judge assumes; each once.
fn assumed(state: Option<&RegionState>, look: &LookSummary) -> Vec<String> {
    let of_workloads = state
        .into_iter()
        .flat_map(|state| state.workloads.values())
        .flat_map(|work| &work.assumptions)
        .map(|assumption| format!("{}:{}", assumption.reason, assumption.what));
    let mut all: Vec<String> = Vec::new();
    for one in of_workloads.chain(look.assumptions.iter().cloned()) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}
