//! Takes a region whose baseline or bake is looked at, gives the judge what was seen of both arms and follows its verdict.
//! Never judges itself; see [`crate::judge`].

use jiff::{SignedDuration, Timestamp};

use super::arms::{ArmView, arm};
use super::needs::{controls, judged, running_since};
use super::position::{Learned, LookSummary, Stage};
use super::region::{f64_seconds, proofs};
use super::step::Step;
use crate::decision::{Judged, Reason};
use crate::judge::{self, Change, Code, ControlRestart, ControlRuns, Interim, LookInput, Verdict};
use crate::names::{Kind, Region, WorkloadId};
use crate::plan::Wave;
use crate::world::{ClusterView, Metrics};

/// Blocks between two looks at a baseline that does not suffice: each reads all of it.
const BASELINE_BLOCKS: usize = 6;
/// Changes of an arm's size that are remembered in one bake; the oldest go first.
const SIZES: usize = 64;

/// Reads the time before the change; when that suffices, freezes it and begins the change.
pub(super) fn baseline(s: &mut Step<'_>, wave: &Wave, region: &Region, cluster: &ClusterView) {
    if let Some((due, message)) = not_due(s, region) {
        s.hold(Some(region), Reason::Baseline, message);
        s.wake_in(due.duration_since(s.now()));
        return;
    }
    let Some(looks) = looks(s, wave, region, cluster, None) else {
        return;
    };
    summarise(s, wave, region, &looks, (0, 0));
    let open = looks.iter().find(|(_, look)| look.frozen.is_none());
    if let Some((id, look)) = open {
        let message = format!(
            "The baseline of {id} in {region} does not suffice yet: {}",
            look.sentence()
        );
        let due = after_blocks(s, BASELINE_BLOCKS);
        if let Some(summary) = s.state(region).and_then(|state| state.look.as_mut()) {
            summary.message.clone_from(&message);
            summary.next = Some(due);
        }
        s.wake_in(due.duration_since(s.now()));
        s.hold(Some(region), Reason::Baseline, message);
        return;
    }
    let now = s.now();
    if let Some(state) = s.state(region) {
        for (id, look) in looks {
            if let Some(frozen) = look.frozen {
                state.frozen.insert(id, frozen);
            }
        }
        state.changed_at = Some(now);
    }
    s.event(
        false,
        "BaselineReady",
        Some(region),
        format!("The baseline of {region} was read and frozen."),
    );
    s.enter(region, Stage::Injecting);
}

/// One look at a bake.
pub(super) fn look(s: &mut Step<'_>, wave: &Wave, region: &Region, cluster: &ClusterView) {
    let Some(state) = s.next.regions.get(region) else {
        return;
    };
    let Some(change) = change(state.changed_at, state.bake_started) else {
        return;
    };
    if let Some((due, _)) = not_due(s, region) {
        s.wake_in(due.duration_since(s.now()));
        s.wake_soon();
        return;
    }
    let Some(looks) = looks(s, wave, region, cluster, Some(change)) else {
        return;
    };
    let proven = s.metrics(region).map_or((0, 0), |metrics| {
        let seen = proofs(s, region, cluster, metrics);
        (seen.proven, seen.pods)
    });
    summarise(s, wave, region, &looks, proven);
    keep(s, region, &looks);
    let verdict = Verdict::join_all(looks.iter().map(|(_, look)| look.verdict));
    let Some((id, worst)) = looks.iter().find(|(_, look)| look.verdict == verdict) else {
        return;
    };
    let sentence = format!("{id} in {region}: {}", worst.sentence());
    match verdict {
        Verdict::Pass => {
            s.event(false, "CanaryPassed", Some(region), sentence);
            passed(s, region, &looks);
        }
        Verdict::Fail => s.regress(region, fail_reason(worst.reason.code), sentence),
        Verdict::Inconclusive | Verdict::InsufficientData => {
            let reason = if verdict == Verdict::Inconclusive {
                Reason::Inconclusive
            } else {
                Reason::InsufficientData
            };
            if looks
                .iter()
                .any(|(_, look)| look.is_final && look.verdict == verdict)
            {
                s.hold_for_person(region, reason, sentence);
            } else {
                s.hold(Some(region), reason, sentence);
            }
        }
    }
    let next = looks
        .iter()
        .map(|(_, look)| look.next_look)
        .fold(f64::INFINITY, f64::min);
    let due = SignedDuration::try_from_secs_f64(next).ok();
    let due = due.and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok());
    if let Some(due) = due {
        s.wake_in(due.duration_since(s.now()));
        if let Some(summary) = s.state(region).and_then(|state| state.look.as_mut()) {
            summary.next = Some(due);
        }
    }
}

/// When the next look at a region is due, and what the last one said, if it is not due yet.
fn not_due(s: &Step<'_>, region: &Region) -> Option<(Timestamp, String)> {
    let look = s.next.regions.get(region)?.look.as_ref()?;
    let due = look.next.filter(|due| s.now() < *due)?;
    Some((due, look.message.clone()))
}

/// The instant so many blocks from now.
pub(super) fn after_blocks(s: &Step<'_>, blocks: usize) -> Timestamp {
    let block = SignedDuration::try_from_secs_f64(s.plan.judge.block_seconds).unwrap_or_default();
    s.now() + block.saturating_mul(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// The change of a region as the judge is told of it.
pub(super) fn change(began: Option<Timestamp>, ended: Option<Timestamp>) -> Option<Change> {
    Some(Change {
        began: f64_seconds(began?),
        ended: f64_seconds(ended?),
    })
}

/// Keeps what was frozen and the evidence of a look. Evidence that contradicts the stored one does not replace it: the
/// final verdict will not be confirmed then.
fn keep(s: &mut Step<'_>, region: &Region, looks: &[(WorkloadId, judge::Look)]) {
    let young = s.plan.judge.young();
    let Some(state) = s.state(region) else { return };
    for (id, look) in looks {
        if let Some(frozen) = &look.frozen {
            state.frozen.insert(id.clone(), frozen.clone());
        }
        let stored = state.evidence.get(id).map_or(&[][..], Vec::as_slice);
        if judge::agrees(stored, &look.evidence, young).is_ok() {
            state.evidence.insert(id.clone(), look.evidence.clone());
        }
    }
}

/// A region passed: what its restarts taught goes to the regions that follow; its evidence is not needed any more.
fn passed(s: &mut Step<'_>, region: &Region, looks: &[(WorkloadId, judge::Look)]) {
    let first = s.plan.judge.restart_noise_weight;
    for (id, look) in looks {
        let Some((sigma, freedom)) = look.learned else {
            continue;
        };
        let known = s.next.learned.get(id).map_or(first, |known| known.weight);
        let weight = (known + freedom).min(judge::constants::NU0_MOST);
        s.next.learned.insert(id.clone(), Learned { sigma, weight });
    }
    if let Some(state) = s.state(region) {
        state.evidence.clear();
    }
    s.enter(region, Stage::Passed);
}

/// The reason of a rollout for a reason of the judge.
pub(super) fn fail_reason(code: Code) -> Reason {
    if code == Code::AllocatorNotActive {
        Reason::AllocatorNotActive
    } else if code == Code::HardLimit {
        Reason::HardLimit
    } else {
        Reason::Regression
    }
}

/// A look per judged workload; `None` when something cannot be seen, which was said.
pub(super) fn looks(
    s: &mut Step<'_>,
    wave: &Wave,
    region: &Region,
    cluster: &ClusterView,
    change: Option<Change>,
) -> Option<Vec<(WorkloadId, judge::Look)>> {
    let against = controls(s.plan, &s.next, region);
    let mut seen = vec![(region.clone(), cluster, s.metrics(region))];
    for control in &against.regions {
        let cluster = s.cluster(control)?;
        seen.push((control.clone(), cluster, s.metrics(control)));
    }
    let mut arms_seen = Vec::new();
    for (name, cluster, metrics) in seen {
        arms_seen.push((name, cluster, metrics?));
    }
    let judged: Vec<WorkloadId> = judged(s.next.regions.get(region)?).cloned().collect();
    let partial = change.is_some() && is_partial(s, region);
    let scene = Scene {
        region,
        arms: &arms_seen,
        converted: against.converted,
        settings: settings(s, region, wave, judged.len(), against.converted),
    };
    let mut out = Vec::new();
    for id in judged {
        remember_sizes(s, region, &id, &arms_seen);
        let state = s.next.regions.get(region)?;
        let mut settings = judge::Settings {
            identity: identity(id.kind),
            ..scene.settings.clone()
        };
        if let Some(learned) = state.learned.get(&id) {
            settings.restart_noise = Some(learned.sigma);
            settings.restart_noise_weight = learned.weight;
        }
        let frozen = match change {
            None => None,
            Some(change) => match state.frozen.get(&id) {
                Some(frozen) => Some(frozen.clone()),
                // Lost, or of another version: it is had again from the time before the change.
                None => scene
                    .input(s, &id, None, change.began)
                    .and_then(|input| judge::look(&settings, None, &input).frozen),
            },
        };
        let input = scene.input(s, &id, change, f64_seconds(s.now()))?;
        let stored = state.evidence.get(&id).map_or(&[][..], Vec::as_slice);
        let look = if partial {
            in_between(
                s,
                &(region.clone(), id.clone()),
                &settings,
                frozen.as_ref(),
                &input,
            )
        } else {
            let look = judge::look(&settings, frozen.as_ref(), &input);
            let look = look.confirmed(stored, settings.young());
            remember(s, (region.clone(), id.clone()), &settings, &look, &input);
            Some(look)
        };
        let Some(look) = look else {
            // Something may end: all of it is read again at once, and nothing is said before.
            s.running.retain(|(of, _), _| of != region);
            s.wake_in(SignedDuration::ZERO);
            return None;
        };
        s.looks.push(Judged::of(region, &id, &look));
        out.push((id, look));
    }
    Some(out)
}

/// Whether this pass was given only the samples since the settled blocks: what was asked for, asked again.
fn is_partial(s: &Step<'_>, region: &Region) -> bool {
    let position = s.attempt.position.as_ref();
    let state = position.and_then(|position| position.regions.get(region));
    state.is_some_and(|state| running_since(&s.world.running, region, state).is_some())
}

/// A look from the running state; `None`: the full look is needed.
fn in_between(
    s: &mut Step<'_>,
    key: &(Region, WorkloadId),
    settings: &judge::Settings,
    frozen: Option<&judge::Frozen>,
    input: &LookInput,
) -> Option<judge::Look> {
    match s.running.get_mut(key)?.look(settings, frozen?, input) {
        Interim::Open(look) => Some(judge::Look {
            frozen: frozen.cloned(),
            ..*look
        }),
        Interim::Decides | Interim::Broken(_) => None,
    }
}

/// Keeps what the settled blocks of a full look come to, if the bake goes on and they can be kept.
fn remember(
    s: &mut Step<'_>,
    key: (Region, WorkloadId),
    settings: &judge::Settings,
    look: &judge::Look,
    input: &LookInput,
) {
    s.running.remove(&key);
    let frozen = look.frozen.as_ref().filter(|_| input.change.is_some());
    if let Some(Ok(running)) = frozen.map(|frozen| judge::Running::new(settings, frozen, input)) {
        s.running.insert(key, running);
    }
}

/// What the looks at one region's workloads share.
struct Scene<'a> {
    region: &'a Region,
    /// The region first, then its control.
    arms: &'a [Seeing<'a>],
    converted: bool,
    settings: judge::Settings,
}

impl Scene<'_> {
    /// What the judge is told of one workload.
    fn input(
        &self,
        s: &Step<'_>,
        id: &WorkloadId,
        change: Option<Change>,
        now: f64,
    ) -> Option<LookInput> {
        let state = s.next.regions.get(self.region)?;
        let work = state.workloads.get(id)?;
        let restarted = is_canary(s, self.region) && s.plan.restart_control && !self.converted;
        let arms = self.arms.iter().enumerate();
        let mut arms = arms.map(|(i, (name, cluster, metrics))| {
            let view = ArmView {
                name,
                cluster,
                metrics,
                id,
                work,
                state,
                change,
                restarted: i == 0 || restarted,
                runs_target: if i == 0 {
                    change.is_some()
                } else {
                    self.converted
                },
            };
            arm(s, &view)
        });
        Some(LookInput {
            now,
            change,
            canary: arms.next()?,
            controls: arms.collect(),
        })
    }
}

/// Whether a region is of wave 0, whose control is restarted together with it.
fn is_canary(s: &Step<'_>, region: &Region) -> bool {
    let first = s.plan.waves.first();
    first.is_some_and(|wave| wave.regions.contains(region))
}

/// What this region's judge is asked for.
fn settings(
    s: &Step<'_>,
    region: &Region,
    wave: &Wave,
    judged: usize,
    converted: bool,
) -> judge::Settings {
    let mut settings = s.plan.judge.clone();
    settings.min_bake_blocks = wave.bake_blocks;
    settings.workloads = u32::try_from(judged).unwrap_or(u32::MAX).max(1);
    settings.control_runs = if converted {
        ControlRuns::Target
    } else {
        ControlRuns::Source
    };
    if !is_canary(s, region) || !s.plan.restart_control {
        // The control was restarted with the canary, not with this region.
        settings.control_restart = ControlRestart::None;
    }
    settings
}

fn identity(kind: Kind) -> judge::Identity {
    match kind {
        Kind::StatefulSet => judge::Identity::Stable,
        Kind::Deployment | Kind::DaemonSet => judge::Identity::None,
    }
}

type Seeing<'a> = (Region, &'a ClusterView, &'a Metrics);

/// Keeps how many pods each arm should have, and since when; a look judges old blocks by the size of their time.
fn remember_sizes(s: &mut Step<'_>, region: &Region, id: &WorkloadId, arms: &[Seeing<'_>]) {
    let now = s.now();
    let sizes: Vec<(String, u32)> = arms
        .iter()
        .filter_map(|(name, cluster, _)| {
            Some((size_key(name, id), cluster.workloads.get(id)?.replicas))
        })
        .collect();
    let Some(state) = s.state(region) else { return };
    let Some(since) = state.bake_started else {
        return;
    };
    for (key, size) in sizes {
        let known = state
            .sizes
            .entry(key)
            .or_insert_with(|| vec![(since, size)]);
        if known.last().is_some_and(|(_, last)| *last != size) {
            known.push((now, size));
        }
        if known.len() > SIZES {
            known.remove(0);
        }
    }
}

/// Under which an arm's size is remembered.
pub(super) fn size_key(region: &Region, id: &WorkloadId) -> String {
    format!("{region}/{id}")
}

/// What people see of the looks at a region: the worst one.
pub(super) fn summarise(
    s: &mut Step<'_>,
    wave: &Wave,
    region: &Region,
    looks: &[(WorkloadId, judge::Look)],
    proven: (u32, u32),
) {
    let verdict = Verdict::join_all(looks.iter().map(|(_, look)| look.verdict));
    let Some((id, look)) = looks.iter().find(|(_, look)| look.verdict == verdict) else {
        return;
    };
    let ratio = look
        .numbers
        .iter()
        .find(|numbers| numbers.metric == "ratio");
    let asked = judge::Settings {
        min_bake_blocks: wave.bake_blocks,
        ..s.plan.judge.clone()
    };
    let summary = LookSummary {
        verdict: look.verdict.to_string(),
        reason: look.reason.to_string(),
        message: format!("{id} in {region}: {}", look.sentence()),
        blocks: u32::try_from(look.accepted).unwrap_or(u32::MAX),
        blocks_needed: asked.min_bake(),
        ratio: look.ratio_canary,
        control_ratio: look.ratio_control,
        change: ratio
            .filter(|numbers| numbers.blocks > 0)
            .map(|numbers| (numbers.theta, numbers.lower, numbers.upper)),
        proven,
        assumptions: look
            .assumptions
            .iter()
            .map(|assumption| format!("{assumption:?}"))
            .collect(),
        diagnosis: look
            .diagnosis
            .iter()
            .map(|finding| format!("{finding:?}"))
            .collect(),
        next: None,
    };
    if let Some(state) = s.state(region) {
        state.look = Some(summary);
    }
}
