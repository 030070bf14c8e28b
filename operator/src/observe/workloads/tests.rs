//! Conversions from API objects as a real API server and its controllers (Kubernetes 1.36.3) answered them: before a
//! change, in the middle of it with kubelets standing still, after it, and after its undo.

use heapfleet_core::inject::template_hash;
use heapfleet_core::names::{Claim, Kind, PlanHash};
use heapfleet_core::world::{JournalStage, Update, Workload};
use serde_json::{Value, json};

use super::convert::{Related, journal, workload};
use super::*;

const SETTLED: &str = include_str!("../../../tests/fixtures/observe/settled.json");
const CHANGING: &str = include_str!("../../../tests/fixtures/observe/changing.json");
const CHANGED: &str = include_str!("../../../tests/fixtures/observe/changed.json");
const UNDONE: &str = include_str!("../../../tests/fixtures/observe/undone.json");

struct Snapshot(Value);

impl Snapshot {
    fn of(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    fn list(&self, key: &str) -> Vec<Value> {
        self.0[key].as_array().unwrap().clone()
    }

    fn raw(&self, kind: Kind, name: &str) -> Value {
        let plural = format!("{}s", kind.to_string().to_lowercase());
        self.list(&plural)
            .into_iter()
            .find(|raw| raw["metadata"]["name"] == name)
            .unwrap()
    }

    fn related(&self) -> Related {
        Related {
            replica_sets: self.list("replicasets"),
            revisions: self.list("controllerrevisions"),
            pods: self
                .list("pods")
                .into_iter()
                .map(|p| serde_json::from_value(p).unwrap())
                .collect(),
            journals: Vec::new(),
        }
    }

    fn view(&self, kind: Kind, name: &str) -> Workload {
        workload(kind, &self.raw(kind, name), &self.related()).unwrap()
    }
}

const ALL: [(Kind, &str, u32); 3] = [
    (Kind::Deployment, "trace-server", 2),
    (Kind::StatefulSet, "db", 2),
    (Kind::DaemonSet, "agent", 1),
];

#[test]
fn a_settled_workload_is_seen_as_such() {
    for (kind, name, replicas) in ALL {
        let view = Snapshot::of(SETTLED).view(kind, name);
        assert!(
            view.settled && !view.paused && !view.deleting,
            "{kind}/{name}"
        );
        assert_eq!(
            (view.replicas, view.progress),
            (replicas, replicas),
            "{kind}/{name}"
        );
        assert_eq!(
            view.pods.len(),
            usize::try_from(replicas).unwrap(),
            "{kind}/{name}"
        );
        let revision = view.revision.unwrap();
        assert!(
            view.pods
                .iter()
                .all(|pod| pod.revision_hash == revision.hash),
            "{kind}/{name}"
        );
        assert!(revision.name.starts_with(name) && revision.name.ends_with(&revision.hash));
    }
}

#[test]
fn a_rollout_in_the_middle_is_not_settled() {
    let (before, during) = (Snapshot::of(SETTLED), Snapshot::of(CHANGING));
    for (kind, name, _) in ALL {
        let (old, new) = (before.view(kind, name), during.view(kind, name));
        assert!(!new.settled, "{kind}/{name}");
        assert_eq!(new.progress, 0, "no new pod is ready: {kind}/{name}");
        assert_ne!(old.revision, new.revision, "{kind}/{name}");
        assert!(new.revision.is_some(), "{kind}/{name}");
        assert!(new.generation > old.generation);
    }
    let surge = during.view(Kind::Deployment, "trace-server");
    assert_eq!(surge.pods.len(), 3);
    assert_eq!(
        surge
            .pods
            .iter()
            .filter(|pod| pod.ready_since.is_some())
            .count(),
        2
    );
}

#[test]
fn the_undo_leads_back_to_the_same_revision_and_template() {
    let (before, after, undone) = (
        Snapshot::of(SETTLED),
        Snapshot::of(CHANGED),
        Snapshot::of(UNDONE),
    );
    for (kind, name, replicas) in ALL {
        let [before, after, undone] = [&before, &after, &undone].map(|s| s.view(kind, name));
        assert!(after.settled && undone.settled, "{kind}/{name}");
        assert_eq!((after.progress, undone.progress), (replicas, replicas));
        assert_ne!(before.revision, after.revision, "{kind}/{name}");
        assert_eq!(before.revision, undone.revision, "{kind}/{name}");
        assert_ne!(
            template_hash(&before.template),
            template_hash(&after.template)
        );
        assert_eq!(
            template_hash(&before.template),
            template_hash(&undone.template)
        );
    }
}

#[test]
fn the_claim_and_our_entry_in_managed_fields_are_seen() {
    let after = Snapshot::of(CHANGED).view(Kind::Deployment, "trace-server");
    assert_eq!(after.annotations.unwrap()[CLAIM], "hub-1/trace/trace");
    let raw = Snapshot::of(CHANGED).raw(Kind::Deployment, "trace-server");
    let at = after.managed_entry.unwrap();
    assert_eq!(raw["metadata"]["managedFields"][at]["manager"], "heapfleet");
    assert_eq!(
        Snapshot::of(SETTLED)
            .view(Kind::Deployment, "trace-server")
            .managed_entry,
        None
    );
}

#[test]
fn a_status_write_of_ours_is_not_our_entry() {
    let mut raw = Snapshot::of(SETTLED).raw(Kind::Deployment, "trace-server");
    raw["metadata"]["managedFields"] = json!([
        {"manager": "heapfleet", "operation": "Apply"},
        {"manager": "heapfleet", "operation": "Update", "subresource": "status"},
        {"manager": "heapfleet", "operation": "Update"},
    ]);
    let view = workload(Kind::Deployment, &raw, &Snapshot::of(SETTLED).related()).unwrap();
    assert_eq!(view.managed_entry, Some(2));
}

#[test]
fn a_generation_that_was_not_observed_is_not_settled() {
    for (kind, name, _) in ALL {
        let snapshot = Snapshot::of(SETTLED);
        let mut raw = snapshot.raw(kind, name);
        raw["metadata"]["generation"] = json!(99);
        assert!(
            !workload(kind, &raw, &snapshot.related()).unwrap().settled,
            "{kind}/{name}"
        );
    }
}

#[test]
fn a_pod_on_its_way_out_keeps_a_workload_from_being_settled() {
    let snapshot = Snapshot::of(SETTLED);
    for (kind, name, _) in ALL {
        let mut related = snapshot.related();
        let time = related.pods[0].metadata.creation_timestamp.clone();
        for pod in &mut related.pods {
            pod.metadata.deletion_timestamp.clone_from(&time);
        }
        let view = workload(kind, &snapshot.raw(kind, name), &related).unwrap();
        assert!(!view.settled && view.progress == 0, "{kind}/{name}");
        assert!(view.pods.iter().all(|pod| pod.terminating));
    }
}

#[test]
fn pods_that_have_ended_are_no_replicas() {
    let snapshot = Snapshot::of(SETTLED);
    let mut related = snapshot.related();
    let mut evicted = related
        .pods
        .iter()
        .find(|p| p.metadata.labels.as_ref().unwrap()["app"] == "trace-server")
        .unwrap()
        .clone();
    evicted.metadata.name = Some("trace-server-864d54f7b9-zzzzz".to_owned());
    evicted.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    related.pods.push(evicted);
    let view = workload(
        Kind::Deployment,
        &snapshot.raw(Kind::Deployment, "trace-server"),
        &related,
    )
    .unwrap();
    assert!(view.settled);
    assert_eq!(view.pods.len(), 2);
}

#[test]
fn unknown_fields_of_a_template_survive() {
    let snapshot = Snapshot::of(SETTLED);
    let mut raw = snapshot.raw(Kind::Deployment, "trace-server");
    raw["spec"]["template"]["spec"]["fieldOfTheFuture"] = json!({"a": [1, null, "x"]});
    let view = workload(Kind::Deployment, &raw, &snapshot.related()).unwrap();
    assert_eq!(view.template, raw["spec"]["template"]);
}

#[test]
fn where_no_template_is_equal_to_the_letter_the_controllers_number_decides() {
    let snapshot = Snapshot::of(CHANGED);
    let mut raw = snapshot.raw(Kind::Deployment, "trace-server");
    let limits = &mut raw["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
    limits["memory"] = json!("1073741824");
    let view = workload(Kind::Deployment, &raw, &snapshot.related()).unwrap();
    assert_eq!(
        view.revision,
        snapshot.view(Kind::Deployment, "trace-server").revision
    );
    raw["metadata"]["generation"] = json!(99);
    let view = workload(Kind::Deployment, &raw, &snapshot.related()).unwrap();
    assert_eq!(
        view.revision, None,
        "a number that may be out of date decides nothing"
    );
}

#[test]
fn of_two_equal_replica_sets_the_newer_is_current() {
    let snapshot = Snapshot::of(UNDONE);
    let mut related = snapshot.related();
    let mut twin = snapshot
        .list("replicasets")
        .into_iter()
        .find(|raw| raw["metadata"]["name"] == "trace-server-864d54f7b9")
        .unwrap();
    twin["metadata"]["name"] = json!("trace-server-twin");
    twin["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("10");
    related.replica_sets.push(twin);
    let raw = snapshot.raw(Kind::Deployment, "trace-server");
    let revision = workload(Kind::Deployment, &raw, &related)
        .unwrap()
        .revision
        .unwrap();
    assert_eq!(revision.name, "trace-server-twin", "10 is newer than 3");
}

#[test]
fn pods_show_images_limits_and_trouble() {
    let snapshot = Snapshot::of(SETTLED);
    let mut related = snapshot.related();
    let raw = snapshot.raw(Kind::Deployment, "trace-server");
    let calm = workload(Kind::Deployment, &raw, &related)
        .unwrap()
        .pods
        .remove(0);
    assert_eq!(
        calm.memory_limits,
        BTreeMap::from([("server".to_owned(), 1 << 30)])
    );
    assert_eq!(calm.images.keys().collect::<Vec<_>>(), ["server", "side"]);
    assert_eq!(
        (calm.restarts, calm.crash_loop, calm.oom_killed),
        (0, None, false)
    );
    let pod = related
        .pods
        .iter_mut()
        .find(|p| p.metadata.name.as_ref() == Some(&calm.name))
        .unwrap();
    let status = pod.status.as_mut().unwrap();
    let statuses = status.container_statuses.as_mut().unwrap();
    statuses[0] = serde_json::from_value(json!({
        "name": "server", "image": "trace:1", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }))
    .unwrap();
    statuses[1].restart_count = 1;
    status
        .conditions
        .as_mut()
        .unwrap()
        .iter_mut()
        .for_each(|c| "False".clone_into(&mut c.status));
    let troubled = workload(Kind::Deployment, &raw, &related).unwrap();
    let pod = troubled
        .pods
        .iter()
        .find(|pod| pod.name == calm.name)
        .unwrap();
    assert_eq!(
        (pod.restarts, pod.oom_killed, pod.ready_since),
        (4, true, None)
    );
    assert_eq!(pod.crash_loop.as_deref(), Some("CrashLoopBackOff"));
    assert!(!pod.images.contains_key("server"));
    assert_eq!(troubled.progress, 1);
}

#[test]
fn the_budget_for_missing_pods_is_resolved_as_controllers_do() {
    let snapshot = Snapshot::of(SETTLED);
    let resolved = |kind: Kind, name: &str, replicas: u32, strategy: Value| {
        let mut raw = snapshot.raw(kind, name);
        raw["spec"]["replicas"] = json!(replicas);
        raw["status"]["desiredNumberScheduled"] = json!(replicas);
        let field = if kind == Kind::Deployment {
            "strategy"
        } else {
            "updateStrategy"
        };
        raw["spec"][field] = strategy;
        workload(kind, &raw, &snapshot.related())
            .unwrap()
            .max_unavailable
    };
    let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    let deployment =
        |replicas, strategy| resolved(Kind::Deployment, "trace-server", replicas, strategy);
    assert_eq!(
        deployment(2, json!({"type": "RollingUpdate"})),
        0,
        "25% of 2, rounded down"
    );
    assert_eq!(deployment(10, rolling(json!("25%"), json!("25%"))), 2);
    assert_eq!(deployment(10, rolling(json!(3), json!(0))), 3);
    assert_eq!(
        deployment(3, rolling(json!("10%"), json!(0))),
        1,
        "neither surge nor absence: 1"
    );
    assert_eq!(deployment(3, rolling(json!(0), json!("1%"))), 0);
    assert_eq!(
        deployment(2, rolling(json!(5), json!(0))),
        2,
        "never more than there are"
    );
    assert_eq!(deployment(4, json!({"type": "Recreate"})), 4);
    assert_eq!(
        resolved(Kind::StatefulSet, "db", 3, json!({"type": "RollingUpdate"})),
        1
    );
    assert_eq!(
        resolved(Kind::DaemonSet, "agent", 5, rolling(json!("30%"), json!(0))),
        2,
        "rounded up"
    );
}

fn record(uid: &str, claim: &str) -> Value {
    json!({
        "version": 1, "claim": claim, "plan": PlanHash::new("v1-abc"),
        "workload": WorkloadId { kind: Kind::Deployment, name: "trace-server".to_owned() },
        "uid": uid, "generation": 1, "template_hash": "x", "revision": null, "container": "server",
        "env": [], "env_existed": true, "annotations_existed": true, "patch": [], "inverse": [],
        "images": {}, "replicas": 2,
    })
}

fn revision(uid: &str, claim: &str, stage: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("heapfleet-{stage}"),
            "labels": {"heapfleet.dev/journal": "true"},
            "annotations": {"heapfleet.dev/stage": stage},
        },
        "data": record(uid, claim),
    })
}

#[test]
fn journals_are_told_from_other_revisions_and_kept_to_their_workload() {
    let snapshot = Snapshot::of(SETTLED);
    assert!(
        snapshot
            .list("controllerrevisions")
            .iter()
            .all(|raw| journal(raw).is_none())
    );
    for (stage, expected) in [
        ("intent", Some(JournalStage::Intent)),
        ("applied", Some(JournalStage::Applied)),
        ("removed", Some(JournalStage::Removed)),
        ("strange", None),
    ] {
        assert_eq!(
            journal(&revision("u", "c", stage)).map(|journal| journal.stage),
            expected
        );
    }
    let mut broken = revision("u", "c", "applied");
    broken["data"]["env"] = json!("?");
    assert_eq!(journal(&broken), None);

    let raw = snapshot.raw(Kind::Deployment, "trace-server");
    let uid = raw["metadata"]["uid"].as_str().unwrap();
    let journals = [
        revision(uid, "c", "applied"),
        revision("another", "c", "intent"),
    ];
    let related = Related {
        journals: journals.iter().filter_map(journal).collect(),
        ..snapshot.related()
    };
    let view = workload(Kind::Deployment, &raw, &related).unwrap();
    assert_eq!(
        view.journals
            .iter()
            .map(|j| j.name.as_str())
            .collect::<Vec<_>>(),
        ["heapfleet-applied"]
    );
}

fn scope(selector: Value, region: Value) -> Scope {
    let read = |value: Value| super::selector("f", serde_json::from_value(value).unwrap()).unwrap();
    Scope {
        namespace: "trace".to_owned(),
        kinds: vec![Kind::Deployment],
        selector: read(selector),
        region: read(region),
        namespaces: read(json!({"matchLabels": {"heapfleet.dev/enabled": "true"}})),
        claim: Claim::new("hub-1/trace/trace"),
        older: Vec::new(),
    }
}

#[test]
fn the_oldest_policy_that_selects_a_targeted_workload_has_it() {
    let read = |value: Value| selector("f", serde_json::from_value(value).unwrap()).unwrap();
    let mut ours = scope(json!({"matchLabels": {"app": "trace-server"}}), json!({}));
    let raw = Snapshot::of(SETTLED).raw(Kind::Deployment, "trace-server");
    let other = Snapshot::of(SETTLED).raw(Kind::Deployment, "other");
    let older = |name: &str, kind: Kind, app: &str, exclude: &[&str]| OlderPolicy {
        name: name.to_owned(),
        kinds: vec![kind],
        selector: read(json!({"matchLabels": {"app": app}})),
        exclude: exclude.iter().map(|name| (*name).to_owned()).collect(),
    };
    let has =
        |ours: &Scope, name: &str, raw: &Value| ours.older_policy(Kind::Deployment, name, raw);
    assert_eq!(has(&ours, "trace-server", &raw), None);
    ours.older = vec![
        older("kind", Kind::DaemonSet, "trace-server", &[]),
        older(
            "excludes",
            Kind::Deployment,
            "trace-server",
            &["trace-server"],
        ),
        older("selects-another", Kind::Deployment, "x", &[]),
        older("has-it", Kind::Deployment, "trace-server", &[]),
        older("too-late", Kind::Deployment, "trace-server", &[]),
    ];
    assert_eq!(has(&ours, "trace-server", &raw).as_deref(), Some("has-it"));
    assert_eq!(has(&ours, "other", &other), None, "not targeted here");
}

#[test]
fn how_pods_follow_the_template_is_the_owners_word() {
    let update = |kind: Kind, name: &str, strategy: Value| {
        let snapshot = Snapshot::of(SETTLED);
        let mut raw = snapshot.raw(kind, name);
        raw["spec"]["updateStrategy"] = strategy;
        workload(kind, &raw, &snapshot.related()).unwrap().update
    };
    let partition = |n: u32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": n}});
    assert_eq!(
        update(Kind::StatefulSet, "db", partition(0)),
        Update::Rolling
    );
    assert_eq!(
        update(Kind::StatefulSet, "db", partition(2)),
        Update::Partition(2)
    );
    let on_delete = || json!({"type": "OnDelete"});
    assert_eq!(
        update(Kind::StatefulSet, "db", on_delete()),
        Update::OnDelete
    );
    assert_eq!(
        update(Kind::DaemonSet, "agent", on_delete()),
        Update::OnDelete
    );
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    assert_eq!(update(Kind::DaemonSet, "agent", rolling), Update::Rolling);
    for (kind, name, _) in ALL {
        assert_eq!(
            Snapshot::of(SETTLED).view(kind, name).update,
            Update::Rolling
        );
    }
}

#[test]
fn a_controller_is_named_and_another_owner_is_not() {
    let controller = |owners: Value| {
        let snapshot = Snapshot::of(SETTLED);
        let mut raw = snapshot.raw(Kind::Deployment, "trace-server");
        raw["metadata"]["ownerReferences"] = owners;
        workload(Kind::Deployment, &raw, &snapshot.related())
            .unwrap()
            .controller
    };
    let owner = |controls: bool| json!([{"kind": "Kafka", "name": "main", "controller": controls}]);
    assert_eq!(controller(owner(true)).as_deref(), Some("Kafka/main"));
    assert_eq!(controller(owner(false)), None);
    assert_eq!(controller(json!(null)), None);
}

#[test]
fn what_carries_something_of_ours_is_looked_at_whatever_is_targeted() {
    let everything = json!({});
    let ours = scope(
        json!({"matchLabels": {"app": "trace-server"}}),
        everything.clone(),
    );
    let moved_on = scope(json!({"matchLabels": {"app": "none"}}), everything);
    let elsewhere = scope(
        json!({"matchLabels": {"app": "none"}}),
        json!({"matchLabels": {"region": "ore"}}),
    );
    let (before, after) = (Snapshot::of(SETTLED), Snapshot::of(CHANGED));
    let raw = |snapshot: &Snapshot| snapshot.raw(Kind::Deployment, "trace-server");
    assert!(ours.chosen(Kind::Deployment, &raw(&before), &[]));
    assert!(!ours.chosen(
        Kind::Deployment,
        &before.raw(Kind::Deployment, "other"),
        &[]
    ));
    assert!(
        !ours.chosen(Kind::StatefulSet, &before.raw(Kind::StatefulSet, "db"), &[]),
        "kind"
    );
    assert!(!moved_on.chosen(Kind::Deployment, &raw(&before), &[]));
    assert!(
        moved_on.chosen(Kind::Deployment, &raw(&after), &[]),
        "it has our claim"
    );
    let uid = raw(&before)["metadata"]["uid"].as_str().unwrap().to_owned();
    let journals: Vec<Journal> = journal(&revision(&uid, "hub-1/trace/trace", "intent"))
        .into_iter()
        .collect();
    assert!(
        moved_on.chosen(Kind::Deployment, &raw(&before), &journals),
        "it has our journal"
    );
    assert!(
        !elsewhere.chosen(Kind::Deployment, &raw(&after), &journals),
        "it is another region's"
    );
}

#[test]
fn a_view_is_put_together_by_name_and_says_whether_the_namespace_takes_part() {
    let snapshot = Snapshot::of(SETTLED);
    let scope = scope(json!({"matchLabels": {"app": "trace-server"}}), json!({}));
    let view = |namespace: Option<Value>| {
        let lists = Lists {
            namespace,
            nodes: snapshot.list("nodes"),
            chosen: vec![(
                Kind::Deployment,
                snapshot.raw(Kind::Deployment, "trace-server"),
            )],
            related: snapshot.related(),
        };
        assemble(
            &ClusterUid::new("u"),
            "API server of region nrt",
            &scope,
            &lists,
        )
        .unwrap()
    };
    let seen = view(Some(snapshot.0["namespace"].clone()));
    assert!(seen.namespace_opted_in);
    assert_eq!(
        seen.workloads
            .keys()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["Deployment/trace-server"]
    );
    let node = &seen.nodes["node-1"];
    assert_eq!(
        (node.arch.as_str(), node.page_size_label),
        ("amd64", Some(4_096))
    );
    assert!(!view(None).namespace_opted_in);
    let mut other = snapshot.0["namespace"].clone();
    other["metadata"]["labels"]["heapfleet.dev/enabled"] = json!("false");
    assert!(!view(Some(other)).namespace_opted_in);
}

#[test]
fn few_selectors_are_asked_one_by_one_and_many_as_a_whole() {
    let with = |n: usize| -> Vec<Value> {
        (0..n)
            .map(|i| json!({"spec": {"selector": {"matchLabels": {"app": format!("a{i}")}}}}))
            .collect()
    };
    assert_eq!(pod_selectors(with(0).iter()), Some(BTreeSet::new()));
    assert_eq!(
        pod_selectors(with(2).iter()),
        Some(BTreeSet::from(["app=a0".to_owned(), "app=a1".to_owned()]))
    );
    assert_eq!(pod_selectors(with(9).iter()), None);
    assert_eq!(
        pod_selectors([json!({"spec": {"selector": {}}})].iter()),
        None
    );
}
