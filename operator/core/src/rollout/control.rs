//! The matched restart: takes the control regions as seen, gives evictions until every pod of the control arm is as young
//! as the canary's. Never writes into a template: the control stays unchanged.

use std::collections::BTreeMap;

use super::position::ControlRestart;
use super::step::Step;
use super::workload::rolled_out;
use crate::decision::{Action, Reason};
use crate::names::{Region, WorkloadId};
use crate::world::{ClusterView, Workload};

/// One step of the control's restart during the canary's change. True when there is none to wait for.
pub(super) fn advance(s: &mut Step<'_>, canary: &Region) -> bool {
    if s.next.wave != 0 || !s.plan.restart_control {
        return true;
    }
    let plan = s.plan;
    let ids: Vec<WorkloadId> = s
        .next
        .regions
        .get(canary)
        .map(|state| state.workloads.keys().cloned().collect())
        .unwrap_or_default();
    let mut ready = true;
    for region in &plan.control {
        if s.next
            .control
            .get(region)
            .is_some_and(|restart| restart.done.is_some())
        {
            continue;
        }
        ready = restart(s, region, &ids) && ready;
    }
    ready
}

fn restart(s: &mut Step<'_>, region: &Region, ids: &[WorkloadId]) -> bool {
    let Some(cluster) = s.cluster(region) else {
        return false;
    };
    let now = s.now();
    if !s.next.control.contains_key(region) {
        let pods = chosen(cluster, ids);
        s.event(false, "ControlRestartStarted", Some(region), format!("The control {region} is restarted once, unchanged, so that both arms are of one age."));
        s.next
            .control
            .insert(region.clone(), ControlRestart { pods, done: None });
        // Evictions begin once this list is committed.
        s.wake_soon();
        return false;
    }
    let Some(mut restart) = s.next.control.remove(region) else {
        return false;
    };
    let mut done = true;
    for (id, uids) in &restart.pods {
        let Some(workload) = cluster.workloads.get(id) else {
            continue;
        };
        if restarted(workload, uids) {
            continue;
        }
        done = false;
        if workload.replicas <= 1 && workload.max_unavailable == 0 {
            s.hold(Some(region), Reason::ControlRestartWouldInterrupt, format!("{id} in the control {region} has one replica and may not miss it; add a second replica or set rollout.controlRestart: None."));
            continue;
        }
        evict(s, region, id, workload, uids);
    }
    if done {
        restart.done = Some(now);
        s.event(
            false,
            "ControlRestarted",
            Some(region),
            format!("The control {region} was restarted, unchanged."),
        );
    }
    s.next.control.insert(region.clone(), restart);
    s.wake_soon();
    done
}

fn chosen(cluster: &ClusterView, ids: &[WorkloadId]) -> BTreeMap<WorkloadId, Vec<String>> {
    ids.iter()
        .filter_map(|id| {
            let workload = cluster.workloads.get(id)?;
            let uids = workload
                .pods
                .iter()
                .filter(|pod| !pod.terminating)
                .map(|pod| pod.uid.clone());
            Some((id.clone(), uids.collect()))
        })
        .collect()
}

fn restarted(workload: &Workload, uids: &[String]) -> bool {
    rolled_out(workload) && !workload.pods.iter().any(|pod| uids.contains(&pod.uid))
}

/// Evicts the oldest pods, at most as many as may be missing, and only while nobody is missing.
fn evict(s: &mut Step<'_>, region: &Region, id: &WorkloadId, workload: &Workload, uids: &[String]) {
    if !rolled_out(workload) {
        s.hold(
            Some(region),
            Reason::WorkloadsPending,
            format!("{id} in the control {region} waits for a replaced pod."),
        );
        return;
    }
    let mut old: Vec<_> = workload
        .pods
        .iter()
        .filter(|pod| uids.contains(&pod.uid))
        .collect();
    old.sort_by(|a, b| a.created.cmp(&b.created).then(a.name.cmp(&b.name)));
    let at_once = usize::try_from(workload.max_unavailable)
        .unwrap_or(usize::MAX)
        .max(1);
    for pod in old.into_iter().take(at_once) {
        s.actions.push(Action::Evict {
            region: region.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        });
    }
}
