//! Takes a region in turn, gives its next stage: chosen, baseline, changed, proved, judged. Never undoes; see [`super::undo`].

use std::collections::BTreeMap;

use super::position::{RegionState, Stage, WorkStage, WorkState};
use super::step::Step;
use super::workload::{Turn, current_pods};
use super::{bake, control, workload};
use crate::decision::Reason;
use crate::inject::{Assumption, Ineligible, assumptions, eligible, journal_name};
use crate::names::{Region, WorkloadId};
use crate::plan::{OnUnreachable, Wave};
use crate::world::{ClusterView, Metrics, Pod, Workload};

/// Chooses the workloads of a region whose turn has come.
pub(super) fn begin(s: &mut Step<'_>, wave: &Wave, region: &Region) {
    let Some(cluster) = s.cluster(region) else {
        return;
    };
    let now = s.now();
    if !cluster.namespace_opted_in {
        s.hold(Some(region), Reason::NamespaceNotOptedIn, format!("Namespace {} in region {region} does not exist or is not opted in; create it or label it as the region's namespaceSelector asks.", s.world.policy.namespace));
        s.wake_soon();
        return;
    }
    let (workloads, refused) = choose(s, region, cluster);
    let nothing = workloads.is_empty();
    let because = refused.values().next().map_or_else(
        || {
            format!(
                "no workload of namespace {} in {region} matches the policy's selector",
                s.world.policy.namespace
            )
        },
        |first| {
            format!(
                "{} of {} workloads are refused, first: {}",
                refused.len(),
                refused.len(),
                first.message
            )
        },
    );
    let state = RegionState {
        stage: if nothing {
            Stage::Nothing
        } else {
            Stage::Baseline
        },
        since: now,
        workloads,
        refused,
        changed_at: None,
        bake_started: None,
        look: None,
        failed: None,
        unreachable_since: None,
        sizes: BTreeMap::new(),
        frozen: BTreeMap::new(),
        evidence: BTreeMap::new(),
        learned: s.next.learned.clone(),
    };
    s.next.regions.insert(region.clone(), state);
    s.wake_soon();
    if s.next.wave == 0 && nothing {
        s.hold_for_person(
            region,
            Reason::NoEligibleWorkloads,
            format!("The canary {region} has nothing to change: {because}"),
        );
    } else if !nothing {
        s.event(
            false,
            "RegionStarted",
            Some(region),
            format!("Region {region} (wave {}) begins.", wave.name),
        );
    }
}

/// The workloads of a region that can be changed, and those that are left alone with the reason.
fn choose(
    s: &mut Step<'_>,
    region: &Region,
    cluster: &ClusterView,
) -> (
    BTreeMap<WorkloadId, WorkState>,
    BTreeMap<WorkloadId, Ineligible>,
) {
    let now = s.now();
    let mut workloads = BTreeMap::new();
    let mut refused = BTreeMap::new();
    for (id, seen) in &cluster.workloads {
        if s.plan.target.exclude.contains(&id.name) || !s.plan.target.kinds.contains(&id.kind) {
            continue;
        }
        match eligible(
            id,
            seen,
            cluster,
            &s.plan.target,
            &s.plan.allocator,
            &s.world.claim,
        ) {
            Ok(container) => {
                let assumptions = assume(s, region, id, seen, &container);
                let work = WorkState {
                    uid: seen.uid.clone(),
                    container,
                    journal: journal_name(id, &seen.uid, &s.plan.hash, s.plan.attempt),
                    stage: WorkStage::Waiting,
                    since: now,
                    best_progress: 0,
                    progressed_at: now,
                    assumptions,
                    reapplied: Vec::new(),
                };
                workloads.insert(id.clone(), work);
            }
            Err(reason) => {
                s.event(
                    true,
                    "WorkloadIneligible",
                    Some(region),
                    reason.message.clone(),
                );
                refused.insert(id.clone(), reason);
            }
        }
    }
    (workloads, refused)
}

/// What is assumed about a workload that is to be changed, and about its namesakes in the control, which it is compared
/// with; told once, when it is chosen.
fn assume(
    s: &mut Step<'_>,
    region: &Region,
    id: &WorkloadId,
    seen: &Workload,
    container: &str,
) -> Vec<Assumption> {
    let plan = s.plan;
    let mut all = assumptions(&seen.template, container, &plan.allocator);
    for control in plan.control.iter().filter(|control| *control != region) {
        let view = s.world.regions.get(control);
        let namesake = view
            .and_then(|view| view.cluster.as_ref().ok())
            .and_then(|cluster| cluster.workloads.get(id));
        let of_control = namesake
            .map(|other| assumptions(&other.template, container, &plan.allocator))
            .unwrap_or_default();
        for assumption in of_control {
            let known = |one: &Assumption| {
                (one.reason, one.what.as_str()) == (assumption.reason, assumption.what.as_str())
            };
            if !all.iter().any(known) {
                all.push(Assumption {
                    what: format!("{} in {control}", assumption.what),
                    message: format!("in the control {control} {}", assumption.message),
                    ..assumption
                });
            }
        }
    }
    for assumption in &all {
        s.event(
            false,
            assumption.reason.as_str(),
            Some(region),
            format!("{id} in {region}: {}.", assumption.message),
        );
    }
    all
}

/// One step of a region that has begun and is not settled.
pub(super) fn advance(s: &mut Step<'_>, wave: &Wave, region: &Region) {
    let Some(cluster) = s.cluster(region) else {
        unreachable(s, region);
        return;
    };
    if let Some(state) = s.state(region)
        && state.unreachable_since.take().is_some()
    {
        s.event(
            false,
            "RegionRecovered",
            Some(region),
            format!("Region {region} answers again."),
        );
    }
    let Some(stage) = s.next.regions.get(region).map(|state| state.stage) else {
        return;
    };
    match stage {
        Stage::Baseline => bake::baseline(s, wave, region, cluster),
        Stage::Injecting => injecting(s, region, cluster),
        Stage::Verifying => {
            if workloads(s, region, cluster) {
                verifying(s, region, cluster);
            }
        }
        Stage::Baking => {
            if workloads(s, region, cluster) {
                bake::look(s, wave, region, cluster);
            }
        }
        Stage::Passed
        | Stage::Nothing
        | Stage::Undoing
        | Stage::Undone
        | Stage::Unverified
        | Stage::Failed => {}
    }
}

fn unreachable(s: &mut Step<'_>, region: &Region) {
    let now = s.now();
    let Some(state) = s.state(region) else { return };
    let first = state.unreachable_since.is_none();
    let since = *state.unreachable_since.get_or_insert(now);
    if first {
        s.event(
            true,
            "RegionUnreachable",
            Some(region),
            format!("Region {region} does not answer; the attempt waits for it."),
        );
    }
    if now.duration_since(since) < s.plan.unreachable_deadline {
        return;
    }
    let message = format!("Region {region} did not answer within unreachableDeadline.");
    match s.plan.on_unreachable {
        OnUnreachable::Wait => {}
        OnUnreachable::Skip if s.next.wave > 0 => {
            if let Some(state) = s.state(region) {
                state.failed = Some((Reason::SomeUnreachable, message));
            }
            s.enter(region, Stage::Failed);
        }
        OnUnreachable::Skip | OnUnreachable::Fail => {
            s.hold_for_person(region, Reason::SomeUnreachable, message);
        }
    }
}

/// Advances all workloads of a region. False when that ended the region's turn.
fn workloads(s: &mut Step<'_>, region: &Region, cluster: &ClusterView) -> bool {
    let Some(mut all) = s
        .state(region)
        .map(|state| std::mem::take(&mut state.workloads))
    else {
        return false;
    };
    let limit = s.plan.max_concurrent_workloads.of(all.len());
    let mut busy = all
        .values()
        .filter(|work| work.stage == WorkStage::Injecting)
        .count();
    let mut broke = None;
    for (id, work) in &mut all {
        let was_waiting = work.stage == WorkStage::Waiting;
        let turn = workload::advance(s, region, id, work, cluster.workloads.get(id), busy < limit);
        if was_waiting && work.stage == WorkStage::Injecting {
            busy += 1;
        }
        if let Turn::Broke(reason, message) = turn {
            broke = broke.or(Some((reason, message)));
        }
    }
    let left = all.values().any(|work| {
        matches!(
            work.stage,
            WorkStage::Waiting | WorkStage::Injecting | WorkStage::Injected
        )
    });
    let released = all.values().find_map(|work| match &work.stage {
        WorkStage::Released(reason) => Some(*reason),
        WorkStage::Waiting
        | WorkStage::Injecting
        | WorkStage::Injected
        | WorkStage::Undoing
        | WorkStage::Restored(_)
        | WorkStage::Untouched
        | WorkStage::Unrestored(_) => None,
    });
    if let Some(state) = s.state(region) {
        state.workloads = all;
    }
    if let Some((reason, message)) = broke {
        s.regress(region, reason, message);
        return false;
    }
    if !left {
        let reason = released.unwrap_or(Reason::NoEligibleWorkloads);
        s.hold_for_person(region, reason, format!("Every workload of region {region} was taken back by its owner, so there is nothing to judge."));
        return false;
    }
    true
}

fn injecting(s: &mut Step<'_>, region: &Region, cluster: &ClusterView) {
    if !workloads(s, region, cluster) {
        return;
    }
    let control_ready = control::advance(s, region);
    let injected = s.next.regions.get(region).is_some_and(|state| {
        state
            .workloads
            .values()
            .all(|work| matches!(work.stage, WorkStage::Injected | WorkStage::Released(_)))
    });
    if injected && control_ready {
        s.enter(region, Stage::Verifying);
    } else {
        s.wake_soon();
    }
}

/// What the probe says of the pods of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proofs {
    /// Pods that prove the wanted allocator.
    pub(super) proven: u32,
    /// Judged pods.
    pub(super) pods: u32,
    /// Pods of which nothing is known yet.
    pub(super) unknown: u32,
    /// Another allocator that stood past the deadline.
    pub(super) disproved: Option<String>,
    /// Another allocator that was seen, deadline or not.
    pub(super) other: Option<String>,
}

/// The newest proof about a pod, if it is of the pod's own life.
pub(super) fn proof<'m>(metrics: &'m Metrics, pod: &Pod) -> Option<&'m str> {
    let created = f64_seconds(pod.created);
    let series = metrics.pods.get(&pod.name)?;
    series
        .allocators
        .iter()
        .filter(|(_, at)| **at >= created)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(name, _)| name.as_str())
}

/// Seconds since the epoch, as samples carry them.
pub(super) fn f64_seconds(at: jiff::Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

/// Collects the proofs about the changed workloads of a region.
pub(super) fn proofs(
    s: &Step<'_>,
    region: &Region,
    cluster: &ClusterView,
    metrics: &Metrics,
) -> Proofs {
    let mut out = Proofs::default();
    let Some(state) = s.next.regions.get(region) else {
        return out;
    };
    let injected = |id: &&WorkloadId| {
        state
            .workloads
            .get(*id)
            .is_some_and(|work| work.stage == WorkStage::Injected)
    };
    for id in state.workloads.keys().filter(injected) {
        let Some(workload) = cluster.workloads.get(id) else {
            continue;
        };
        for pod in current_pods(workload) {
            out.pods += 1;
            match proof(metrics, pod) {
                None => out.unknown += 1,
                Some(name) if name == s.plan.allocator.name => out.proven += 1,
                Some(name) => {
                    out.other.get_or_insert_with(|| name.to_owned());
                    let standing = pod.ready_since.map(|since| s.now().duration_since(since));
                    if standing.is_some_and(|standing| standing > s.plan.verify_deadline) {
                        out.disproved.get_or_insert_with(|| name.to_owned());
                    }
                }
            }
        }
    }
    out
}

fn verifying(s: &mut Step<'_>, region: &Region, cluster: &ClusterView) {
    let Some(metrics) = s.metrics(region) else {
        return;
    };
    let seen = proofs(s, region, cluster, metrics);
    let wanted = s.plan.allocator.name.clone();
    if let Some(state) = s.state(region) {
        let look = state.look.get_or_insert_default();
        look.proven = (seen.proven, seen.pods);
    }
    if let Some(other) = &seen.disproved {
        s.event(
            true,
            "ProofMissing",
            Some(region),
            format!("Pods in {region} prove {other} instead of {wanted} past verifyDeadline."),
        );
        s.regress(
            region,
            Reason::AllocatorNotActive,
            format!("Pods in {region} run {other} instead of {wanted}: the library did not load."),
        );
        return;
    }
    if seen.pods > 0 && seen.proven == seen.pods {
        let now = s.now();
        if let Some(state) = s.state(region) {
            state.bake_started = Some(now);
        }
        s.event(
            false,
            "AllocatorVerified",
            Some(region),
            format!("Every pod of the changed workloads in {region} proves {wanted}."),
        );
        s.event(
            false,
            "BakeStarted",
            Some(region),
            format!("The bake of {region} begins."),
        );
        s.enter(region, Stage::Baking);
        return;
    }
    let (reason, message) = match &seen.other {
        Some(other) => (
            Reason::PreloadIgnored,
            format!(
                "Pods in {region} prove {other} instead of {wanted}; waiting out verifyDeadline."
            ),
        ),
        None if seen.proven > 0 => (
            Reason::PartiallyProven,
            format!("Some pods in {region} do not prove {wanted} yet."),
        ),
        None => (
            Reason::ProofMissing,
            format!(
                "The probe of region {region} says nothing about the changed pods yet; is it running there and scraped?"
            ),
        ),
    };
    s.hold(Some(region), reason, message);
}
