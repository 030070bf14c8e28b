//! Reads the world: the policy and its attempts from the hub, workloads from the regions' API servers, samples from their
//! Prometheus. Takes clients and the time, gives plain values; never writes, and never fills in what could not be seen.

mod error;
mod hub;
pub mod prometheus;
mod quantity;
mod region;
pub mod series;
pub mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use heapfleet_core::decide::needs;
use heapfleet_core::inject::overlap;
use heapfleet_core::names::{Region, WorkloadId};
use heapfleet_core::plan::Plan;
use heapfleet_core::world::{Attempt, ClusterView, RegionView, Running, Unseen, World};
use heapfleet_crds as crds;
use heapfleet_crds::{AllocatorPolicy, AllocatorRegion, AllocatorRollout};
use jiff::Timestamp;

pub use error::ObserveError;
pub use region::prometheus_answers;

use crate::clusters::{Cluster, Clusters};
use crate::translate;
use hub::Hub;
use region::{Question, Wanted};

/// What was seen in one pass over one policy, and the objects and clusters that it was seen in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What to decide on.
    pub world: World,
    /// The policy as observed, with its `resourceVersion`.
    pub policy: AllocatorPolicy,
    /// Its attempts as observed, in the order of [`World::attempts`].
    pub rollouts: Vec<AllocatorRollout>,
    /// What the policy asks for, in the form that is frozen into an attempt.
    pub frozen: Option<crds::Plan>,
    /// The clusters that answered.
    pub clusters: BTreeMap<Region, Arc<Cluster>>,
}

/// The world of one policy as of `now`; `None`: the policy is gone. `running` is what the pass before left in memory.
pub async fn world(
    clusters: &Clusters,
    namespace: &str,
    name: &str,
    now: Timestamp,
    running: Running,
) -> Result<Option<Seen>, ObserveError> {
    // On the heap: a pass holds this for as long as it lasts, and many passes run at once.
    Box::pin(read(clusters, namespace, name, now, running)).await
}

async fn read(
    clusters: &Clusters,
    namespace: &str,
    name: &str,
    now: Timestamp,
    running: Running,
) -> Result<Option<Seen>, ObserveError> {
    let Some(hub) = Box::pin(hub::read(clusters, namespace, name)).await? else {
        return Ok(None);
    };
    let mut seen = look(clusters, hub, namespace, now).await;
    seen.seen.world.running = running;
    let questions = needs(&seen.seen.world);
    let Some(spec) = seen
        .seen
        .rollouts
        .last()
        .map(|rollout| series::of_plan(&rollout.spec.plan))
    else {
        return Ok(Some(seen.seen));
    };
    let containers = seen
        .seen
        .world
        .attempts
        .last()
        .map(containers)
        .unwrap_or_default();
    let asked = questions.iter().map(async |(name, need)| {
        let view = seen
            .seen
            .world
            .regions
            .get(name)
            .and_then(|view| view.cluster.as_ref().ok());
        let question = Question {
            spec: &spec,
            need,
            namespace,
            containers: &containers,
            view,
            now,
        };
        let answer = match seen.regions.get(name) {
            Some(region) => region::metrics(clusters, region, &question).await,
            None => Err(absent(name)),
        };
        (name.clone(), answer)
    });
    let answers = join_all(asked).await;
    for (name, answer) in answers {
        if let Some(view) = seen.seen.world.regions.get_mut(&name) {
            view.metrics = Some(answer);
        }
    }
    Ok(Some(seen.seen))
}

/// What was seen without any Prometheus, and the regions that it was seen in.
struct Looked {
    seen: Seen,
    regions: BTreeMap<Region, AllocatorRegion>,
}

async fn look(clusters: &Clusters, hub: Hub, namespace: &str, now: Timestamp) -> Looked {
    let wanted = wanted(&hub, namespace);
    let names = concerned(&hub);
    let looks = names.iter().map(async |name| {
        let looked = match (hub.regions.get(name), &wanted) {
            (Some(region), Some(wanted)) => region::cluster(clusters, region, wanted).await,
            (None, _) | (_, None) => Err(absent(name)),
        };
        (name.clone(), looked)
    });
    let mut reached = BTreeMap::new();
    let mut views = BTreeMap::new();
    for (name, looked) in join_all(looks).await {
        let cluster: Result<ClusterView, Unseen> = looked.map(|(cluster, view)| {
            reached.insert(name.clone(), cluster);
            view
        });
        views.insert(
            name,
            RegionView {
                cluster,
                metrics: None,
            },
        );
    }
    let (intent, frozen) = match hub.intent {
        // Only a look at the workloads tells whether an older policy has one of them.
        Ok(intent) => match overlap(&intent.plan.target, &views) {
            None => (Ok(intent.plan), Some(intent.frozen)),
            Some(refusal) => (Err(refusal), None),
        },
        Err(refusal) => (Err(refusal), None),
    };
    let world = World {
        now,
        policy: translate::policy(&hub.policy),
        intent,
        attempts: hub.attempts,
        regions: views,
        claim: hub.claim,
        running: Running::new(),
    };
    let seen = Seen {
        world,
        policy: hub.policy,
        rollouts: hub.rollouts,
        frozen,
        clusters: reached,
    };
    Looked {
        seen,
        regions: hub.regions,
    }
}

/// What is looked for: by the newest attempt's own plan, else by what the policy asks for. `None`: there is neither.
fn wanted(hub: &Hub, namespace: &str) -> Option<Wanted> {
    let by = |plan: &Plan, target: &crds::Target| Wanted {
        namespace: namespace.to_owned(),
        kinds: plan.target.kinds.clone(),
        selector: target.selector.clone(),
        claim: hub.claim.clone(),
        older: hub.older.clone(),
    };
    let attempt = hub.attempts.last().zip(hub.rollouts.last());
    let attempt = attempt.map(|(attempt, rollout)| by(&attempt.plan, &rollout.spec.plan.target));
    attempt.or_else(|| {
        hub.intent
            .as_ref()
            .ok()
            .map(|intent| by(&intent.plan, &intent.frozen.target))
    })
}

/// Every region that the policy's intent, its newest attempt or an attempt that has not ended names.
fn concerned(hub: &Hub) -> BTreeSet<Region> {
    let open = |attempt: &&Attempt| {
        attempt
            .position
            .as_ref()
            .is_none_or(|position| position.ending.is_none())
    };
    let plans = hub
        .attempts
        .iter()
        .filter(open)
        .chain(hub.attempts.last())
        .map(|a| &a.plan);
    plans
        .chain(hub.intent.as_ref().ok().map(|intent| &intent.plan))
        .flat_map(|plan| {
            plan.waves
                .iter()
                .flat_map(|wave| &wave.regions)
                .chain(&plan.control)
        })
        .cloned()
        .collect()
}

/// The judged container of every workload that an attempt has chosen.
fn containers(attempt: &Attempt) -> BTreeMap<WorkloadId, String> {
    let regions = attempt
        .position
        .iter()
        .flat_map(|position| position.regions.values());
    regions
        .flat_map(|state| &state.workloads)
        .map(|(id, work)| (id.clone(), work.container.clone()))
        .collect()
}

fn absent(name: &Region) -> Unseen {
    Unseen {
        because: format!("there is no AllocatorRegion {name}"),
    }
}
