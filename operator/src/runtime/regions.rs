//! Takes the regions as they stand, looks at each cluster and its Prometheus, and has the status written. Runs apart from
//! the passes over policies: what a pass decides on, it sees by itself. Never touches a workload.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use heapfleet_crds::{AllocatorRegion, GROUP, Reason, VERSION};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::control::Shared;
use crate::act;
use crate::clusters::{Class, Cluster, ClusterError, ResourcePath};
use crate::observe;
use crate::translate::{ClusterLook, RegionLook, Trouble, region_status};

/// How often regions are looked at.
const EVERY: Duration = Duration::from_secs(10);
/// Regions that are looked at side by side.
const SIDE_BY_SIDE: usize = 16;

/// Rights of a member: verb, group, resource, subresource. The same as in `manifests/member.yaml`.
const RIGHTS: [(&str, &str, &str, &str); 9] = [
    ("patch", "apps", "deployments", ""),
    ("list", "apps", "replicasets", ""),
    ("create", "apps", "controllerrevisions", ""),
    ("patch", "apps", "controllerrevisions", ""),
    ("delete", "apps", "controllerrevisions", ""),
    ("list", "", "pods", ""),
    ("create", "", "pods", "eviction"),
    ("list", "", "nodes", ""),
    ("get", "", "namespaces", ""),
];

/// Looks at all regions again and again until `stop` resolves.
pub(super) async fn run(shared: Arc<Shared>, stop: impl Future<Output = ()> + Send) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known = BTreeSet::new();
    tokio::pin!(stop);
    loop {
        // Cancel-safe: a tick that is lost comes again, and a look that is cut short has written whole statuses only.
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        tokio::select! {
            () = &mut stop => return,
            seen = round(&shared, &known) => known = seen,
        }
    }
}

async fn round(shared: &Shared, known: &BTreeSet<String>) -> BTreeSet<String> {
    let regions = match list(shared).await {
        Ok(regions) => regions,
        Err(error) => {
            tracing::debug!(%error, "regions could not be listed");
            return known.clone();
        }
    };
    let names: BTreeSet<String> = regions.iter().map(AllocatorRegion::name_any).collect();
    shared.clusters.retain(&names);
    for gone in known.difference(&names) {
        shared.voice.metrics.forget_region(gone);
    }
    futures::stream::iter(&regions)
        .for_each_concurrent(SIDE_BY_SIDE, |region| one(shared, region))
        .await;
    names
}

async fn list(shared: &Shared) -> Result<Vec<AllocatorRegion>, ClusterError> {
    let path = ResourcePath::collection(&format!("{GROUP}/{VERSION}"), None, "allocatorregions")
        .map_err(|refused| ClusterError::Refused {
            region: "all".to_owned(),
            refused,
        })?;
    shared.clusters.hub_reader().list(&path, None).await
}

async fn one(shared: &Shared, region: &AllocatorRegion) {
    let name = region.name_any();
    let look = look(shared, region).await;
    // A cluster that refuses us, or is another one, has answered.
    let answered = [Reason::IdentityMismatch, Reason::Unauthorized];
    let reachable = match &look.cluster {
        Ok(_) => true,
        Err(trouble) => answered.contains(&trouble.reason),
    };
    shared.voice.metrics.region(&name, reachable);
    let status = region_status(region, &look, Timestamp::now());
    let ready = status
        .conditions
        .first()
        .map(|ready| (ready.status.clone(), ready.reason.clone()));
    let (ready, reason) = ready.unwrap_or_default();
    match act::region(&shared.clusters.hub_writer(), region, status).await {
        Ok(true) => changed(&name, &ready, &reason),
        Ok(false) => {}
        Err(error) => tracing::debug!(region = name, %error, "the region's status was not written"),
    }
}

fn changed(region: &str, ready: &str, reason: &str) {
    tracing::info!(region, ready, reason, "the region's status changed");
}

async fn look(shared: &Shared, region: &AllocatorRegion) -> RegionLook {
    let cluster = async {
        let cluster = shared
            .clusters
            .cluster(region)
            .await
            .map_err(|error| trouble(&error))?;
        ask(&cluster).await.map_err(|error| trouble(&error))
    };
    let prometheus = observe::prometheus_answers(&shared.clusters, region);
    let (cluster, prometheus) = futures::future::join(cluster, prometheus).await;
    let prometheus = prometheus.map_err(|unseen| Trouble {
        reason: Reason::PrometheusError,
        message: unseen.because,
    });
    RegionLook {
        cluster,
        prometheus,
    }
}

async fn ask(cluster: &Cluster) -> Result<ClusterLook, ClusterError> {
    let version = cluster.reader().raw("/version").await?;
    let version = version
        .get("gitVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    Ok(ClusterLook {
        uid: cluster.uid().as_str().to_owned(),
        version,
        missing: missing(cluster).await?,
    })
}

/// Rights that are not granted in all namespaces, as the cluster itself says.
async fn missing(cluster: &Cluster) -> Result<Vec<String>, ClusterError> {
    let path =
        ResourcePath::collection("authorization.k8s.io/v1", None, "selfsubjectaccessreviews")
            .map_err(|refused| ClusterError::Refused {
                region: cluster.name().to_owned(),
                refused,
            })?;
    let writer = cluster.writer();
    let mut missing = Vec::new();
    for (verb, group, resource, subresource) in RIGHTS {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            }},
        });
        let answer = writer.create(&path, &review, act::MANAGER).await?;
        if answer.pointer("/status/allowed").and_then(Value::as_bool) != Some(true) {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let dot = if group.is_empty() { "" } else { "." };
            missing.push(format!("{verb} {resource}{slash}{subresource}{dot}{group}"));
        }
    }
    Ok(missing)
}

fn trouble(error: &ClusterError) -> Trouble {
    let reason = match error {
        ClusterError::IdentityMismatch { .. } => Reason::IdentityMismatch,
        ClusterError::Refused { .. } => Reason::CredentialInvalid,
        other if other.class() == Class::Forbidden => Reason::Unauthorized,
        ClusterError::Unreachable { .. }
        | ClusterError::Deadline { .. }
        | ClusterError::Throttled { .. }
        | ClusterError::Server { .. }
        | ClusterError::Moved { .. }
        | ClusterError::Exists { .. }
        | ClusterError::NotFound { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::Rejected { .. }
        | ClusterError::Answer { .. } => Reason::Unreachable,
    };
    Trouble {
        reason,
        message: error.to_string(),
    }
}
