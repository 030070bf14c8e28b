//! Takes a region whose baseline or bake is looked at, gives the judge what was seen of both arms and follows its verdict.
//! Never judges itself; see [`crate::judge`].

use jiff::{SignedDuration, Timestamp};

use super::needs::controls;
use super::position::{LookSummary, RegionState, Stage, WorkStage, WorkState};
use super::region::{f64_seconds, proofs};
use super::step::Step;
use super::workload::current_pods;
use crate::decision::Reason;
use crate::judge::{
    self, Arm, Capacity, Change, Code, ControlRestart, ControlRuns, GuardrailKind, GuardrailSeries,
    LookInput, Proof, Seen, Verdict,
};
use crate::names::{Kind, Region, WorkloadId};
use crate::plan::Wave;
use crate::world::{ClusterView, Metrics, PodSeries, SeriesId, Workload, exposure_of};

/// Changes of an arm's size that are remembered in one bake; the oldest go first.
const SIZES: usize = 64;

/// Reads the time before the change; when that suffices, freezes it and begins the change.
pub(super) fn baseline(s: &mut Step<'_>, wave: &Wave, region: &Region, cluster: &ClusterView) {
    let Some(looks) = looks(s, wave, region, cluster, None) else {
        return;
    };
    summarise(s, region, &looks, (0, 0));
    let open = looks.iter().find(|(_, look)| look.frozen.is_none());
    if let Some((id, look)) = open {
        let message = format!(
            "The baseline of {id} in {region} does not suffice yet: {}",
            look.sentence()
        );
        if let Some(summary) = s.state(region).and_then(|state| state.look.as_mut()) {
            summary.message.clone_from(&message);
        }
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
    let (Some(began), Some(ended)) = (state.changed_at, state.bake_started) else {
        return;
    };
    if let Some(due) = state
        .look
        .as_ref()
        .and_then(|look| look.next)
        .filter(|due| s.now() < *due)
    {
        s.wake_in(due.duration_since(s.now()));
        s.wake_soon();
        return;
    }
    let change = Change {
        began: f64_seconds(began),
        ended: f64_seconds(ended),
    };
    let Some(looks) = looks(s, wave, region, cluster, Some(change)) else {
        return;
    };
    let proven = s.metrics(region).map_or((0, 0), |metrics| {
        let seen = proofs(s, region, cluster, metrics);
        (seen.proven, seen.pods)
    });
    summarise(s, region, &looks, proven);
    let verdict = Verdict::join_all(looks.iter().map(|(_, look)| look.verdict));
    if let Some(state) = s.state(region) {
        for (id, look) in &looks {
            if let Some(frozen) = &look.frozen {
                state.frozen.insert(id.clone(), frozen.clone());
            }
        }
    }
    let Some((id, worst)) = looks.iter().find(|(_, look)| look.verdict == verdict) else {
        return;
    };
    let sentence = format!("{id} in {region}: {}", worst.sentence());
    match verdict {
        Verdict::Pass => {
            s.event(false, "CanaryPassed", Some(region), sentence);
            s.enter(region, Stage::Passed);
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

fn fail_reason(code: Code) -> Reason {
    if code == Code::AllocatorNotActive {
        Reason::AllocatorNotActive
    } else if code == Code::HardLimit {
        Reason::HardLimit
    } else {
        Reason::Regression
    }
}

/// A look per judged workload; `None` when something cannot be seen, which was said.
fn looks(
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
    let judged: Vec<WorkloadId> = s
        .next
        .regions
        .get(region)?
        .workloads
        .iter()
        .filter(|(_, work)| {
            matches!(
                work.stage,
                WorkStage::Waiting | WorkStage::Injecting | WorkStage::Injected
            )
        })
        .map(|(id, _)| id.clone())
        .collect();
    let settings = settings(s, wave, judged.len(), against.converted);
    let mut out = Vec::new();
    for id in judged {
        remember_sizes(s, region, &id, &arms_seen);
        let state = s.next.regions.get(region)?;
        let work = state.workloads.get(&id)?;
        let mut arms = arms_seen
            .iter()
            .enumerate()
            .map(|(i, (name, cluster, metrics))| {
                let restarted =
                    i == 0 || (s.next.wave == 0 && s.plan.restart_control && !against.converted);
                let runs_target = if i == 0 {
                    change.is_some()
                } else {
                    against.converted
                };
                arm(
                    s,
                    &ArmView {
                        name,
                        cluster,
                        metrics,
                        id: &id,
                        work,
                        state,
                        change,
                        restarted,
                        runs_target,
                    },
                )
            });
        let canary = arms.next()?;
        let input = LookInput {
            now: f64_seconds(s.now()),
            change,
            canary,
            controls: arms.collect(),
        };
        let settings = judge::Settings {
            identity: identity(id.kind),
            ..settings.clone()
        };
        let frozen = change.and_then(|_| state.frozen.get(&id));
        let look = judge::look(&settings, frozen, &input);
        out.push((id, look));
    }
    Some(out)
}

/// What this region's judge is asked for.
fn settings(s: &Step<'_>, wave: &Wave, judged: usize, converted: bool) -> judge::Settings {
    let mut settings = s.plan.judge.clone();
    settings.min_bake_blocks = wave.bake_blocks;
    settings.workloads = u32::try_from(judged).unwrap_or(u32::MAX).max(1);
    settings.control_runs = if converted {
        ControlRuns::Target
    } else {
        ControlRuns::Source
    };
    if s.next.wave > 0 || !s.plan.restart_control {
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

fn size_key(region: &Region, id: &WorkloadId) -> String {
    format!("{region}/{id}")
}

/// One arm to be told to the judge.
struct ArmView<'a> {
    name: &'a Region,
    cluster: &'a ClusterView,
    metrics: &'a Metrics,
    id: &'a WorkloadId,
    work: &'a WorkState,
    state: &'a RegionState,
    change: Option<Change>,
    restarted: bool,
    /// Whether the arm's pods run the target now: the canary after the change, a control that is converted.
    runs_target: bool,
}

fn arm(s: &Step<'_>, view: &ArmView<'_>) -> Arm {
    let workload = view.cluster.workloads.get(view.id);
    let current: Vec<&str> = workload
        .map(|workload| {
            current_pods(workload)
                .into_iter()
                .map(|pod| pod.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let mut names: Vec<&String> = view
        .metrics
        .pods
        .keys()
        .filter(|name| view.id.names_pod(name))
        .collect();
    let silent = workload
        .into_iter()
        .flat_map(|workload| &workload.pods)
        .map(|pod| &pod.name);
    names.extend(silent.filter(|name| !view.metrics.pods.contains_key(*name)));
    let empty = PodSeries::default();
    let pods = names.into_iter().filter_map(|name| {
        let series = view.metrics.pods.get(name).unwrap_or(&empty);
        let exists = current.contains(&name.as_str());
        // After the change, pods of the time before it are not the arm any more.
        let old = view.restarted
            && view
                .change
                .is_some_and(|change| series.starts.iter().all(|start| *start < change.began));
        let told = pod(s, view, workload, name, series, exists);
        (exists || !(old || foreign(view, &told.allocator.seen))).then_some(told)
    });
    let expected = view
        .change
        .and_then(|_| view.state.sizes.get(&size_key(view.name, view.id)));
    Arm {
        region: view.name.to_string(),
        expected: expected
            .map(|sizes| {
                sizes
                    .iter()
                    .map(|(at, size)| (f64_seconds(*at), *size))
                    .collect()
            })
            .unwrap_or_default(),
        pods: pods.collect(),
        ..Arm::default()
    }
}

/// Whether a pod that is gone ran another allocator than its arm does: one of an earlier attempt, which is no baseline.
fn foreign(view: &ArmView<'_>, seen: &Seen) -> bool {
    match seen {
        Seen::Unknown => false,
        Seen::Source => view.runs_target,
        Seen::Target => !view.runs_target,
        Seen::Other(_) => true,
    }
}

fn pod(
    s: &Step<'_>,
    view: &ArmView<'_>,
    workload: Option<&Workload>,
    name: &str,
    series: &PodSeries,
    exists: bool,
) -> judge::Pod {
    let listed = workload.and_then(|workload| workload.pods.iter().find(|pod| pod.name == name));
    let container = &view.work.container;
    let of =
        |id: &SeriesId| judge::Series::from(series.series.get(id).cloned().unwrap_or_default());
    let capacity = match (
        s.plan.fixed_capacity,
        series.series.get(&SeriesId::Capacity),
    ) {
        (Some(bytes), _) => Capacity::Fixed(bytes),
        (None, Some(samples)) => Capacity::Series(samples.clone().into()),
        (None, None) => Capacity::Unknown,
    };
    let guardrails = s.plan.judge.guardrails.iter().filter_map(|guardrail| {
        let of = |name: &str| {
            series
                .series
                .get(&SeriesId::Guardrail(name.to_owned()))
                .cloned()
        };
        let samples: judge::Series = of(&guardrail.name)?.into();
        let told = match guardrail.kind {
            GuardrailKind::P99 | GuardrailKind::Continuous => GuardrailSeries::Gauge(samples),
            GuardrailKind::Count => {
                let exposure = of(&exposure_of(&guardrail.name)).map(judge::Series::from);
                GuardrailSeries::Count {
                    events: samples,
                    exposure,
                }
            }
        };
        Some((guardrail.name.clone(), told))
    });
    judge::Pod {
        name: name.to_owned(),
        starts: series.starts.clone(),
        exists,
        ready_at: listed.and_then(|pod| pod.ready_since).map(f64_seconds),
        version: listed.and_then(|pod| pod.images.get(container).cloned()),
        allocator: allocator(s, series, listed.map(|pod| pod.created)),
        memory_limit: listed
            .and_then(|pod| pod.memory_limits.get(container))
            .map(|limit| real(*limit)),
        oom_killed: listed.is_some_and(|pod| pod.oom_killed),
        crash_loop: listed.is_some_and(|pod| pod.crash_loop.is_some()),
        rss: of(&SeriesId::Rss),
        cache: of(&SeriesId::Cache),
        capacity,
        evictions: of(&SeriesId::Evictions),
        requests: of(&SeriesId::Requests),
        guardrails: guardrails.collect(),
        stats: None,
    }
}

/// What the probe says of a pod's process. An allocator never changes in a running process, so the newest word holds
/// since the process began.
fn allocator(s: &Step<'_>, series: &PodSeries, created: Option<Timestamp>) -> Proof {
    let born = series
        .starts
        .last()
        .copied()
        .or_else(|| created.map(f64_seconds));
    let newest = series
        .allocators
        .iter()
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let (Some(since), Some((name, _))) = (born, newest) else {
        return Proof::default();
    };
    let seen = if *name == s.plan.allocator.name {
        Seen::Target
    } else if name == "glibc" {
        Seen::Source
    } else {
        Seen::Other(name.clone())
    };
    Proof { seen, since }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "bytes below 2^53 are exact"
)]
fn real(bytes: u64) -> f64 {
    bytes as f64
}

fn summarise(
    s: &mut Step<'_>,
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
    let blocks_needed = s.next.wave_bake(s.plan);
    let summary = LookSummary {
        verdict: look.verdict.to_string(),
        reason: look.reason.to_string(),
        message: format!("{id} in {region}: {}", look.sentence()),
        blocks: u32::try_from(look.accepted).unwrap_or(u32::MAX),
        blocks_needed,
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
        next: None,
    };
    if let Some(state) = s.state(region) {
        state.look = Some(summary);
    }
}
