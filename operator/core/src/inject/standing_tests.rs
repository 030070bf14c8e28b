//! Tables over who else has a say in a workload.

use std::collections::BTreeMap;

use serde_json::json;

use super::overlap;
use super::standing::check_standing;
use super::tests::{id, workload};
use crate::decision::Reason;
use crate::names::{ClusterUid, Kind, Region};
use crate::plan::Target;
use crate::world::{ClusterView, RegionView, Unseen, Workload};

fn older() -> Workload {
    Workload {
        older_policy: Some("first".to_owned()),
        ..workload(&json!([{"name": "server"}]), None)
    }
}

#[test]
fn a_workload_of_somebody_else_is_refused() {
    let plain = workload(&json!([{"name": "server"}]), None);
    assert_eq!(check_standing(&id(), &plain), Ok(()));
    let refused = check_standing(&id(), &older()).unwrap_err();
    assert_eq!(refused.reason, Reason::OverlappingPolicy);
    let owned = Workload {
        controller: Some("Kafka/main".to_owned()),
        ..plain
    };
    let refused = check_standing(&id(), &owned).unwrap_err();
    assert_eq!(refused.reason, Reason::OwnedByController);
    assert!(
        refused.message.contains("Kafka/main"),
        "{}",
        refused.message
    );
}

#[test]
fn a_policy_overlaps_only_where_its_own_target_is_meant() {
    let view = |workload: Workload| RegionView {
        cluster: Ok(ClusterView {
            uid: ClusterUid::new("c"),
            namespace_opted_in: true,
            nodes: BTreeMap::new(),
            workloads: BTreeMap::from([(id(), workload)]),
        }),
        metrics: None,
    };
    let unseen = RegionView {
        cluster: Err(Unseen {
            because: "connection refused".to_owned(),
        }),
        metrics: None,
    };
    let target = |kind: Kind, exclude: &[&str]| Target {
        kinds: vec![kind],
        selector: "app=x".to_owned(),
        containers: Vec::new(),
        exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
    };
    let all = BTreeMap::from([
        (Region::new("fra"), unseen),
        (Region::new("nrt"), view(workload(&json!([]), None))),
        (Region::new("ore"), view(older())),
    ]);
    let refusal = overlap(&target(Kind::Deployment, &[]), &all).unwrap();
    assert_eq!(refusal.reason, Reason::OverlappingPolicy);
    assert_eq!(
        refusal.message,
        "spec.target.selector: Deployment/server in region ore belongs to the older policy first; narrow the selector, name it in spec.target.exclude, or leave it out of first."
    );
    assert_eq!(overlap(&target(Kind::Deployment, &["server"]), &all), None);
    assert_eq!(overlap(&target(Kind::StatefulSet, &[]), &all), None);
}
