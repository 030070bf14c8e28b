//! Takes a cluster's reader and what a policy targets, gives the cluster's part of the world as of now. Never fills a gap:
//! if one of the lists cannot be read, the whole view is an error.

mod convert;
mod nodes;
mod pods;
mod raw;
mod revisions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join_all, try_join, try_join_all};
use heapfleet_core::inject::CLAIM;
use heapfleet_core::names::{Claim, ClusterUid, Kind, WorkloadId};
use heapfleet_core::world::{ClusterView, Journal};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize as _;
use serde_json::Value;

use crate::clusters::{Cluster, ClusterError, Reader, Refused, ResourcePath};
use convert::Related;
use raw::{strings, text};

/// So many selectors are asked for one by one; beyond that the namespace is listed as a whole.
const SELECTORS: usize = 8;
/// All kinds that may carry a claim of ours, whatever the policy targets now.
const KINDS: [Kind; 3] = [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet];

/// Which workloads of a cluster matter to a policy.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The policy's namespace.
    pub namespace: String,
    /// Kinds that are targeted.
    pub kinds: Vec<Kind>,
    /// The target's selector, over the workloads' own labels.
    pub selector: Selector,
    /// Which workloads of the cluster belong to the region.
    pub region: Selector,
    /// Which namespaces have opted in.
    pub namespaces: Selector,
    /// Our claim.
    pub claim: Claim,
    /// Older policies that act in this region, oldest first.
    pub older: Vec<OlderPolicy>,
}

/// An older policy of the namespace.
#[derive(Clone, Debug)]
pub struct OlderPolicy {
    /// Its name.
    pub name: String,
    /// Kinds of its workloads.
    pub kinds: Vec<Kind>,
    /// Its selector over their labels.
    pub selector: Selector,
    /// Names that it leaves out.
    pub exclude: BTreeSet<String>,
}

/// A label selector as it is matched here; `field` says where it stands.
pub fn selector(field: &str, selector: LabelSelector) -> Result<Selector, Refused> {
    Selector::try_from(selector).map_err(|error| {
        Refused::new(
            field,
            "set",
            error.to_string(),
            "use matchLabels, or In, NotIn, Exists, DoesNotExist",
        )
    })
}

/// The cluster's part of the world.
pub async fn view(cluster: &Cluster, scope: &Scope) -> Result<ClusterView, ClusterError> {
    let reader = cluster.reader();
    let paths = Paths::new(scope).map_err(|refused| ClusterError::Answer {
        who: reader.who().to_owned(),
        because: refused.to_string(),
    })?;
    let workloads = try_join_all(
        paths
            .workloads
            .iter()
            .map(|(_, path)| reader.list_raw(path, None)),
    );
    let (namespace, nodes, workloads, revisions) = futures::future::try_join4(
        reader.get_raw(&paths.namespace),
        reader.list_raw(&paths.nodes, None),
        workloads,
        reader.list_raw(&paths.revisions, None),
    )
    .await?;
    let journals: Vec<Journal> = revisions
        .iter()
        .filter_map(convert::journal)
        .filter(|journal| journal.record.claim == scope.claim)
        .collect();
    let kinds = paths.workloads.iter().map(|(kind, _)| *kind);
    let chosen: Vec<(Kind, Value)> = kinds
        .zip(workloads)
        .flat_map(|(kind, list)| list.into_iter().map(move |raw| (kind, raw)))
        .filter(|(kind, raw)| scope.chosen(*kind, raw, &journals))
        .collect();
    let related = related(&reader, &paths, &chosen, revisions, journals).await?;
    assemble(
        cluster.uid(),
        reader.who(),
        scope,
        &Lists {
            namespace,
            nodes,
            chosen,
            related,
        },
    )
}

/// The paths of everything that is read.
struct Paths {
    namespace: ResourcePath,
    nodes: ResourcePath,
    workloads: Vec<(Kind, ResourcePath)>,
    revisions: ResourcePath,
    replica_sets: ResourcePath,
    pods: ResourcePath,
}

impl Paths {
    fn new(scope: &Scope) -> Result<Self, Refused> {
        let namespace = scope.namespace.as_str();
        Ok(Self {
            namespace: ResourcePath::collection("v1", None, "namespaces")?.named(namespace)?,
            nodes: ResourcePath::collection("v1", None, "nodes")?,
            workloads: KINDS
                .into_iter()
                .map(|kind| Ok((kind, ResourcePath::workloads(namespace, kind)?)))
                .collect::<Result<_, Refused>>()?,
            revisions: ResourcePath::revisions(namespace)?,
            replica_sets: ResourcePath::collection("apps/v1", Some(namespace), "replicasets")?,
            pods: ResourcePath::pods(namespace)?,
        })
    }
}

impl Scope {
    /// Whether a workload is targeted, or carries something of ours.
    fn chosen(&self, kind: Kind, raw: &Value, journals: &[Journal]) -> bool {
        let labels = strings(raw, "/metadata/labels").unwrap_or_default();
        if !self.region.matches(&labels) {
            return false;
        }
        let targeted = self.targets(kind, &labels);
        let claimed = raw
            .pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(CLAIM))
            .and_then(Value::as_str)
            .is_some_and(|claim| claim == self.claim.as_str());
        let journalled = || {
            text(raw, "/metadata/uid")
                .is_some_and(|uid| journals.iter().any(|journal| journal.record.uid == uid))
        };
        targeted || claimed || journalled()
    }
}

impl Scope {
    fn targets(&self, kind: Kind, labels: &BTreeMap<String, String>) -> bool {
        self.kinds.contains(&kind) && self.selector.matches(labels)
    }

    /// The oldest policy that has a workload which is targeted here.
    fn older_policy(&self, kind: Kind, name: &str, raw: &Value) -> Option<String> {
        let labels = strings(raw, "/metadata/labels").unwrap_or_default();
        if !self.targets(kind, &labels) {
            return None;
        }
        let has = |older: &&OlderPolicy| {
            older.kinds.contains(&kind)
                && older.selector.matches(&labels)
                && !older.exclude.contains(name)
        };
        self.older.iter().find(has).map(|older| older.name.clone())
    }
}

/// Pods and `ReplicaSets` of the chosen workloads.
async fn related(
    reader: &Reader,
    paths: &Paths,
    chosen: &[(Kind, Value)],
    revisions: Vec<Value>,
    journals: Vec<Journal>,
) -> Result<Related, ClusterError> {
    let all = pod_selectors(chosen.iter().map(|(_, raw)| raw));
    let deployments = chosen.iter().filter(|(kind, _)| *kind == Kind::Deployment);
    let of_deployments = pod_selectors(deployments.map(|(_, raw)| raw));
    let (pods, replica_sets) = try_join(
        list_each(reader, &paths.pods, all.as_ref()),
        list_each(reader, &paths.replica_sets, of_deployments.as_ref()),
    )
    .await?;
    let pods = pods
        .iter()
        .map(|raw| {
            k8s_openapi::api::core::v1::Pod::deserialize(raw).map_err(|error| {
                ClusterError::Answer {
                    who: reader.who().to_owned(),
                    because: format!("a pod cannot be read as it stands: {error}"),
                }
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Related {
        replica_sets,
        revisions,
        pods,
        journals,
    })
}

/// The pod selectors of workloads in their text form; `None`: too many, or one that has no text form.
fn pod_selectors<'a>(workloads: impl Iterator<Item = &'a Value>) -> Option<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for raw in workloads {
        let labels = LabelSelector::deserialize(raw.pointer("/spec/selector")?).ok()?;
        let selector = Selector::try_from(labels).ok()?;
        if selector.selects_all() {
            return None;
        }
        out.insert(selector.to_string());
    }
    (out.len() <= SELECTORS).then_some(out)
}

async fn list_each(
    reader: &Reader,
    path: &ResourcePath,
    selectors: Option<&BTreeSet<String>>,
) -> Result<Vec<Value>, ClusterError> {
    let Some(selectors) = selectors else {
        return reader.list_raw(path, None).await;
    };
    let lists = join_all(
        selectors
            .iter()
            .map(|selector| reader.list_raw(path, Some(selector))),
    )
    .await;
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for list in lists {
        // Selectors may overlap; an object counts once.
        out.extend(list?.into_iter().filter(|raw| {
            text(raw, "/metadata/uid").is_none_or(|uid| seen.insert(uid.to_owned()))
        }));
    }
    Ok(out)
}

/// What was read.
struct Lists {
    namespace: Option<Value>,
    nodes: Vec<Value>,
    chosen: Vec<(Kind, Value)>,
    related: Related,
}

fn assemble(
    uid: &ClusterUid,
    who: &str,
    scope: &Scope,
    lists: &Lists,
) -> Result<ClusterView, ClusterError> {
    let mut workloads = BTreeMap::new();
    for (kind, raw) in &lists.chosen {
        let name = text(raw, "/metadata/name").unwrap_or_default().to_owned();
        let mut view =
            convert::workload(*kind, raw, &lists.related).ok_or_else(|| ClusterError::Answer {
                who: who.to_owned(),
                because: format!("{kind}/{name} came without uid, generation or template"),
            })?;
        view.older_policy = scope.older_policy(*kind, &name, raw);
        workloads.insert(WorkloadId { kind: *kind, name }, view);
    }
    let opted_in = lists.namespace.as_ref().is_some_and(|raw| {
        scope
            .namespaces
            .matches(&strings(raw, "/metadata/labels").unwrap_or_default())
    });
    Ok(ClusterView {
        uid: uid.clone(),
        namespace_opted_in: opted_in,
        nodes: lists.nodes.iter().filter_map(nodes::node).collect(),
        workloads,
    })
}
