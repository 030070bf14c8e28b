//! Takes what a look at a region found, gives its status: conditions whose transition time moves only with a flip, and the
//! identity of the cluster, pinned at first contact and never moved. Never looks itself.

use heapfleet_crds as crds;
use heapfleet_crds::{ConditionType, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::status::{clip, whole_seconds};

/// What a look at a region found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionLook {
    /// Its cluster, or why it could not be asked.
    pub cluster: Result<ClusterLook, Trouble>,
    /// Whether its Prometheus answers, or why not.
    pub prometheus: Result<(), Trouble>,
}

/// What the cluster said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLook {
    /// The uid of its namespace `kube-system`.
    pub uid: String,
    /// The version of its API server.
    pub version: String,
    /// Rights that are not granted in all namespaces, as `patch deployments.apps`.
    pub missing: Vec<String>,
}

/// Why something does not answer as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Of the closed set.
    pub reason: Reason,
    /// One sentence without volatile text.
    pub message: String,
}

struct Said {
    kind: ConditionType,
    status: &'static str,
    reason: Reason,
    message: String,
}

fn said(
    kind: ConditionType,
    status: &'static str,
    reason: Reason,
    message: impl Into<String>,
) -> Said {
    Said {
        kind,
        status,
        reason,
        message: message.into(),
    }
}

/// The status of a region after a look.
pub fn region_status(
    region: &crds::AllocatorRegion,
    look: &RegionLook,
    now: Timestamp,
) -> crds::AllocatorRegionStatus {
    let before = region.status.clone().unwrap_or_default();
    let generation = region.metadata.generation.unwrap_or_default();
    let cluster = look.cluster.as_ref().ok();
    let conditions = decided(look)
        .into_iter()
        .map(|said| condition(&said, &before.conditions, generation, now))
        .collect();
    crds::AllocatorRegionStatus {
        observed_generation: Some(generation),
        cluster_uid: before
            .cluster_uid
            .or_else(|| cluster.map(|cluster| clip(&cluster.uid, 64))),
        version: cluster
            .map(|cluster| clip(&cluster.version, 64))
            .or(before.version),
        conditions,
    }
}

fn decided(look: &RegionLook) -> Vec<Said> {
    let mut all = vec![ready(look)];
    all.extend(of_cluster(&look.cluster));
    all.push(match &look.prometheus {
        Ok(()) => said(
            ConditionType::PrometheusReachable,
            "True",
            Reason::Reachable,
            "Prometheus answers.",
        ),
        Err(trouble) => said(
            ConditionType::PrometheusReachable,
            "False",
            trouble.reason,
            &trouble.message,
        ),
    });
    all
}

fn ready(look: &RegionLook) -> Said {
    match (&look.cluster, &look.prometheus) {
        (Err(trouble), _) | (Ok(_), Err(trouble)) => said(
            ConditionType::Ready,
            "False",
            trouble.reason,
            &trouble.message,
        ),
        (Ok(_), Ok(())) => said(
            ConditionType::Ready,
            "True",
            Reason::Reachable,
            "The cluster and its Prometheus answer.",
        ),
    }
}

fn of_cluster(cluster: &Result<ClusterLook, Trouble>) -> [Said; 3] {
    use ConditionType::{Authorized, IdentityMatches, Reachable};
    match cluster {
        Ok(cluster) => [
            said(
                Reachable,
                "True",
                Reason::Reachable,
                "The API server answers.",
            ),
            authorized(&cluster.missing),
            said(
                IdentityMatches,
                "True",
                Reason::IdentityMatches,
                "The cluster is the one that was met first.",
            ),
        ],
        Err(trouble) => {
            let message = &trouble.message;
            let unknown = |kind| {
                said(
                    kind,
                    "Unknown",
                    Reason::RegionUnknown,
                    "The cluster was not looked into.",
                )
            };
            // Whatever else is wrong, nobody can say that the API server answers.
            if trouble.reason == Reason::IdentityMismatch {
                return [
                    said(
                        Reachable,
                        "True",
                        Reason::Reachable,
                        "The API server answers.",
                    ),
                    unknown(Authorized),
                    said(IdentityMatches, "False", trouble.reason, message),
                ];
            }
            if trouble.reason == Reason::Unauthorized {
                return [
                    said(
                        Reachable,
                        "True",
                        Reason::Reachable,
                        "The API server answers.",
                    ),
                    said(Authorized, "False", trouble.reason, message),
                    unknown(IdentityMatches),
                ];
            }
            [
                said(Reachable, "False", trouble.reason, message),
                unknown(Authorized),
                unknown(IdentityMatches),
            ]
        }
    }
}

/// Rights may be granted namespace by namespace, so that their absence over all namespaces proves nothing.
fn authorized(missing: &[String]) -> Said {
    let kind = ConditionType::Authorized;
    if missing.is_empty() {
        return said(
            kind,
            "True",
            Reason::Authorized,
            "Every right that is needed is granted in all namespaces.",
        );
    }
    said(
        kind,
        "Unknown",
        Reason::Unauthorized,
        format!(
            "Not granted in all namespaces: {}; grant them, or grant them in each namespace that has opted in.",
            missing.join(", ")
        ),
    )
}

fn condition(
    said: &Said,
    before: &[meta::Condition],
    generation: i64,
    now: Timestamp,
) -> meta::Condition {
    let stood = before
        .iter()
        .find(|stored| stored.type_ == said.kind.as_str() && stored.status == said.status);
    meta::Condition {
        type_: said.kind.as_str().to_owned(),
        status: said.status.to_owned(),
        reason: said.reason.as_str().to_owned(),
        message: clip(&said.message, 512),
        observed_generation: Some(generation),
        last_transition_time: stood.map_or_else(
            || meta::Time(whole_seconds(now)),
            |stored| stored.last_transition_time.clone(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> crds::AllocatorRegion {
        let spec = serde_json::json!({
            "cluster": {"local": {}}, "prometheus": {"url": "http://prometheus:9090"},
        });
        crds::AllocatorRegion::new("ore", serde_json::from_value(spec).unwrap())
    }

    fn well() -> RegionLook {
        let (uid, version) = ("uid-1".to_owned(), "v1.36.3".to_owned());
        let cluster = ClusterLook {
            uid,
            version,
            missing: Vec::new(),
        };
        RegionLook {
            cluster: Ok(cluster),
            prometheus: Ok(()),
        }
    }

    fn words(status: &crds::AllocatorRegionStatus) -> Vec<String> {
        status
            .conditions
            .iter()
            .map(|c| format!("{}={}/{}", c.type_, c.status, c.reason))
            .collect()
    }

    #[test]
    fn the_identity_is_pinned_and_stays() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut region = region();
        let first = region_status(&region, &well(), at(10));
        assert_eq!(first.cluster_uid.as_deref(), Some("uid-1"));
        assert_eq!(
            words(&first),
            [
                "Ready=True/Reachable",
                "Reachable=True/Reachable",
                "Authorized=True/Authorized",
                "IdentityMatches=True/IdentityMatches",
                "PrometheusReachable=True/Reachable",
            ]
        );
        region.status = Some(first.clone());
        assert_eq!(
            region_status(&region, &well(), at(20)),
            first,
            "nothing new, nothing to write"
        );

        let mut other = well();
        let message = "region ore: another cluster".to_owned();
        other.cluster = Err(Trouble {
            reason: Reason::IdentityMismatch,
            message,
        });
        let moved = region_status(&region, &other, at(30));
        assert_eq!(moved.cluster_uid.as_deref(), Some("uid-1"));
        assert_eq!(moved.version.as_deref(), Some("v1.36.3"));
        assert_eq!(
            words(&moved),
            [
                "Ready=False/IdentityMismatch",
                "Reachable=True/Reachable",
                "Authorized=Unknown/RegionUnknown",
                "IdentityMatches=False/IdentityMismatch",
                "PrometheusReachable=True/Reachable",
            ]
        );
        assert_eq!(moved.conditions[0].last_transition_time.0, at(30));
        assert_eq!(moved.conditions[1].last_transition_time.0, at(10));
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let mut look = well();
        look.cluster = Err(Trouble {
            reason: Reason::Unreachable,
            message: "no answer".to_owned(),
        });
        look.prometheus = Err(Trouble {
            reason: Reason::PrometheusError,
            message: "down".to_owned(),
        });
        let status = region_status(&region(), &look, Timestamp::UNIX_EPOCH);
        assert_eq!(status.cluster_uid, None);
        assert_eq!(
            words(&status),
            [
                "Ready=False/Unreachable",
                "Reachable=False/Unreachable",
                "Authorized=Unknown/RegionUnknown",
                "IdentityMatches=Unknown/RegionUnknown",
                "PrometheusReachable=False/PrometheusError",
            ]
        );
        let mut look = well();
        look.cluster
            .as_mut()
            .unwrap()
            .missing
            .push("patch deployments.apps".to_owned());
        let status = region_status(&region(), &look, Timestamp::UNIX_EPOCH);
        assert_eq!(words(&status)[2], "Authorized=Unknown/Unauthorized");
    }
}
