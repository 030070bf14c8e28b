//! Takes one region and what is wanted of it, gives its part of the world within a deadline of its own. Whatever goes wrong
//! becomes a clause in the world; never an error of the pass, and never a default.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use heapfleet_core::names::{Claim, Kind, WorkloadId};
use heapfleet_core::world::{ClusterView, Metrics, MetricsNeed, Unseen};
use heapfleet_crds as crds;
use heapfleet_crds::AllocatorRegion;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;

use super::prometheus::{Ask, Limits, Prometheus, PrometheusError, look};
use super::series::SeriesSpec;
use super::workloads::{self, OlderPolicy, Scope};
use crate::clusters::{Cluster, ClusterError, Clusters, human};
use crate::translate::Older;

/// How long a look at one region's cluster may take, Secrets and connection included.
const LOOK: Duration = Duration::from_secs(10);

/// What is looked for in every region.
pub(super) struct Wanted {
    pub(super) namespace: String,
    pub(super) kinds: Vec<Kind>,
    pub(super) selector: crds::Selector,
    pub(super) claim: Claim,
    pub(super) older: Vec<Older>,
}

/// A region's cluster and what was seen in it.
pub(super) async fn cluster(
    clusters: &Clusters,
    region: &AllocatorRegion,
    wanted: &Wanted,
) -> Result<(Arc<Cluster>, ClusterView), Unseen> {
    let looking = async {
        let scope = scope(region, wanted)?;
        let cluster = clusters.cluster(region).await?;
        let view = workloads::view(&cluster, &scope).await?;
        Ok::<_, ClusterError>((cluster, view))
    };
    match tokio::time::timeout(LOOK, looking).await {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) => Err(Unseen {
            because: error.clause(),
        }),
        Err(_) => Err(Unseen {
            because: format!("no complete answer within {}", human(LOOK)),
        }),
    }
}

fn scope(region: &AllocatorRegion, wanted: &Wanted) -> Result<Scope, ClusterError> {
    let selector = |field: &str, selector: &crds::Selector| {
        workloads::selector(field, LabelSelector::from(selector)).map_err(|refused| {
            ClusterError::Refused {
                region: region.name_any(),
                refused,
            }
        })
    };
    let spec = &region.spec;
    let older = wanted
        .older
        .iter()
        .filter(|older| older.acts_in(&region.name_any()))
        .map(|older| {
            let field = format!("spec.target.selector of policy {}", older.name);
            Ok(OlderPolicy {
                name: older.name.clone(),
                kinds: older.kinds.clone(),
                selector: selector(&field, &older.selector)?,
                exclude: older.exclude.clone(),
            })
        })
        .collect::<Result<_, ClusterError>>()?;
    Ok(Scope {
        namespace: wanted.namespace.clone(),
        kinds: wanted.kinds.clone(),
        selector: selector("spec.target.selector", &wanted.selector)?,
        region: match &spec.workload_selector {
            Some(own) => selector("spec.workloadSelector", own)?,
            None => kube::core::Selector::default(),
        },
        namespaces: selector("spec.namespaceSelector", &spec.namespace_selector)?,
        claim: wanted.claim.clone(),
        older,
    })
}

/// What must be asked of a region's Prometheus.
pub(super) struct Question<'a> {
    pub(super) spec: &'a SeriesSpec,
    pub(super) need: &'a MetricsNeed,
    pub(super) namespace: &'a str,
    pub(super) containers: &'a BTreeMap<WorkloadId, String>,
    pub(super) view: Option<&'a ClusterView>,
    pub(super) now: Timestamp,
}

/// What a region's Prometheus answers.
pub(super) async fn metrics(
    clusters: &Clusters,
    region: &AllocatorRegion,
    question: &Question<'_>,
) -> Result<Metrics, Unseen> {
    let need = question.need;
    let judged = question
        .containers
        .iter()
        .filter(|(id, _)| need.workloads.contains(id));
    let judged = judged
        .map(|(id, container)| (id.clone(), container.clone()))
        .collect();
    let known = question.view.map(known_pods).unwrap_or_default();
    let access = &region.spec.prometheus;
    let matchers = access
        .matchers
        .iter()
        .map(|(key, value)| (key.clone(), value.to_string()));
    let ask = Ask {
        spec: question.spec,
        proof_only: need.proof_only,
        namespace: question.namespace,
        workloads: &judged,
        known: &known,
        region: &matchers.collect(),
        allow_raw: access.allow_raw_queries,
        from: need.from.as_millisecond(),
        to: question.now.as_millisecond(),
    };
    let asked = async {
        let link = clusters.prometheus(region).await?;
        look(&Prometheus::new(link, Limits::default())?, &ask).await
    };
    asked.await.map_err(|error: PrometheusError| Unseen {
        because: error.clause(),
    })
}

/// Whether a region's Prometheus answers; if not, a sentence that names it.
pub async fn prometheus_answers(
    clusters: &Clusters,
    region: &AllocatorRegion,
) -> Result<(), Unseen> {
    let asked = async {
        let link = clusters.prometheus(region).await?;
        let now = Timestamp::now().as_millisecond();
        Prometheus::new(link, Limits::default())?.answers(now).await
    };
    asked.await.map_err(|error: PrometheusError| Unseen {
        because: error.to_string(),
    })
}

fn known_pods(view: &ClusterView) -> BTreeMap<String, WorkloadId> {
    let workloads = view.workloads.iter();
    workloads
        .flat_map(|(id, workload)| {
            workload
                .pods
                .iter()
                .map(|pod| (pod.name.clone(), id.clone()))
        })
        .collect()
}
