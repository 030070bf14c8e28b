//! Takes what was seen of a region and its control, gives the judge's look at each workload: the whole bake, or only the
//! youngest blocks where the settled ones are remembered and nothing may end. Never follows a verdict; see
//! [`super::bake`].

use jiff::SignedDuration;

use super::arms::{ArmView, arm};
use super::needs::{controls, judged, running_since};
use super::position::Stage;
use super::region::f64_seconds;
use super::step::Step;
use crate::decision::Judged;
use crate::judge::{self, Change, ControlRestart, ControlRuns, Interim, LookInput};
use crate::names::{Kind, Region, WorkloadId};
use crate::plan::Wave;
use crate::world::{ClusterView, Metrics};

/// Changes of an arm's size that are remembered in one bake; the oldest go first.
const SIZES: usize = 64;

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
        let look = if partial {
            in_between(
                s,
                &(region.clone(), id.clone()),
                &settings,
                frozen.as_ref(),
                &input,
            )
        } else {
            let stored = state.evidence.get(&id).map_or(&[][..], Vec::as_slice);
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
        s.looks.push(Judged::of(region, &id, &look, !partial));
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

/// Keeps what the settled blocks of a full look come to, if the bake goes on and they can be kept. A region that passed goes
/// on passing, which only full looks may say: nothing is spared there.
fn remember(
    s: &mut Step<'_>,
    key: (Region, WorkloadId),
    settings: &judge::Settings,
    look: &judge::Look,
    input: &LookInput,
) {
    s.running.remove(&key);
    let state = s.next.regions.get(&key.0);
    let goes_on = !look.is_final && state.is_some_and(|state| state.stage == Stage::Baking);
    let frozen = look.frozen.as_ref().filter(|_| goes_on);
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
