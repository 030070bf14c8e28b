//! What goes over the wire, and what is made of what comes back; against an HTTP server that plays the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use heapfleet_core::decision::{Action, Commit, Decision};
use heapfleet_core::inject::{EnvWrite, Injection, JournalRecord};
use heapfleet_core::names::{Claim, Kind, PlanHash, Region, WorkloadId};
use heapfleet_core::plan::Plan as CorePlan;
use heapfleet_core::rollout::Position;
use heapfleet_core::status::{PolicyReport, RolloutReport};
use heapfleet_core::world::JournalStage;
use heapfleet_crds as crds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::clusters::{Class, Clusters, Limits};
use crate::translate;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/trace/deployments/trace-server";
const REVISIONS: &str = "/apis/apps/v1/namespaces/trace/controllerrevisions";
const JOURNAL: &str = "/apis/apps/v1/namespaces/trace/controllerrevisions/heapfleet-trace-server-1";
const POLICY: &str = "/apis/heapfleet.dev/v1alpha1/namespaces/trace/allocatorpolicies/trace";
const ROLLOUTS: &str = "/apis/heapfleet.dev/v1alpha1/namespaces/trace/allocatorrollouts";
const TEST_FAILED: &str = "the server rejected our request due to an error in our request";

fn writer(server: &MockServer) -> Writer {
    let limits = Limits {
        deadline: Duration::from_millis(300),
        ..Limits::default()
    };
    let config = kube::Config::new(server.uri().parse().unwrap());
    Clusters::new(config, "heapfleet-system", limits)
        .unwrap()
        .hub_writer()
}

fn failure(code: u16, reason: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    }))
}

async fn answer(server: &MockServer, verb: &str, at: &str, with: ResponseTemplate) {
    Mock::given(method(verb))
        .and(path(at))
        .respond_with(with)
        .mount(server)
        .await;
}

fn ok(body: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

/// Verb, path and body of everything that was sent, in order.
async fn sent(server: &MockServer) -> Vec<(String, String, Value)> {
    let requests: Vec<Request> = server.received_requests().await.unwrap();
    requests
        .into_iter()
        .map(|request| {
            let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
            (
                request.method.to_string(),
                request.url.path().to_owned(),
                body,
            )
        })
        .collect()
}

fn policy() -> AllocatorPolicy {
    let text = include_str!("../../../manifests/examples/policy-minimal.yaml");
    let mut policy: AllocatorPolicy = serde_yaml::from_str(text).unwrap();
    policy.metadata.name = Some("trace".to_owned());
    policy.metadata.namespace = Some("trace".to_owned());
    policy.metadata.uid = Some("policy-uid".to_owned());
    policy.metadata.resource_version = Some("41".to_owned());
    policy.metadata.generation = Some(1);
    policy
}

fn intent() -> translate::Intent {
    let class = include_str!("../../../manifests/examples/class-jemalloc.yaml");
    let class = serde_yaml::from_str(class).unwrap();
    let regions = ["ore", "fra", "nrt", "sin", "lhr"]
        .map(str::to_owned)
        .into();
    translate::intent(&policy(), Some(&class), &regions).unwrap()
}

fn workload() -> WorkloadId {
    WorkloadId {
        kind: Kind::Deployment,
        name: "trace-server".to_owned(),
    }
}

fn injection() -> Injection {
    let patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": "w-1"}),
        json!({"op": "add", "path": "/spec/template/spec/containers/0/env", "value": []}),
    ];
    Injection {
        journal: "heapfleet-trace-server-1".to_owned(),
        record: JournalRecord {
            version: 1,
            claim: Claim::new("hub/policy-uid"),
            plan: PlanHash::new("v1-00"),
            workload: workload(),
            uid: "w-1".to_owned(),
            generation: 7,
            template_hash: "h".to_owned(),
            revision: None,
            container: "server".to_owned(),
            env: vec![EnvWrite {
                name: "LD_PRELOAD".to_owned(),
                value: "libjemalloc.so.2".to_owned(),
                prior: None,
            }],
            parts: Vec::new(),
            env_existed: false,
            image: None,
            annotations_existed: true,
            patch,
            inverse: Vec::new(),
            images: BTreeMap::new(),
            replicas: 2,
        },
    }
}

fn inject_in(region: &str) -> Action {
    Action::Inject {
        region: Region::new(region),
        injection: Box::new(injection()),
    }
}

/// Carries out acts; every region is the same server.
async fn act(server: &MockServer, actions: &[Action]) -> Vec<Receipt> {
    let (policy, intent) = (policy(), intent());
    let regions = ["ore", "nrt"]
        .map(|name| (Region::new(name), writer(server)))
        .into();
    let scene = Scene {
        hub: writer(server),
        policy: &policy,
        rollouts: &[],
        frozen: Some(&intent.frozen),
        regions,
    };
    let committed = Committed {
        policy_version: "42".to_owned(),
        ..Committed::default()
    };
    carry_out(&scene, &committed, actions).await
}

async fn outcome(server: &MockServer, action: Action) -> Outcome {
    let mut receipts = act(server, &[action]).await;
    assert_eq!(receipts.len(), 1);
    receipts.remove(0).outcome
}

fn after_patch() -> Value {
    json!({"metadata": {"managedFields": [
        {"manager": "kubectl", "operation": "Apply"},
        {"manager": "heapfleet", "operation": "Update", "subresource": "status"},
        {"manager": "heapfleet", "operation": "Update"},
    ]}})
}

#[tokio::test]
async fn a_change_is_journalled_made_and_disowned_in_this_order() {
    let server = MockServer::start().await;
    answer(&server, "POST", REVISIONS, ok(json!({}))).await;
    answer(&server, "PATCH", DEPLOYMENT, ok(after_patch())).await;
    assert_eq!(outcome(&server, inject_in("ore")).await, Outcome::Applied);

    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| {
        request.url.query() == Some("fieldManager=heapfleet&fieldValidation=Strict")
    }));
    assert_eq!(
        requests[1].headers["content-type"],
        "application/json-patch+json"
    );
    let record = serde_json::to_value(injection().record).unwrap();
    let sent = sent(&server).await;
    let journal = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "heapfleet-trace-server-1",
            "namespace": "trace",
            "labels": {"heapfleet.dev/journal": "true"},
            "annotations": {"heapfleet.dev/stage": "intent"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "trace-server",
                "uid": "w-1", "controller": false, "blockOwnerDeletion": false,
            }],
        },
        "revision": 1,
        "data": record,
    });
    let disown = json!([
        {"op": "test", "path": "/metadata/managedFields/2/manager", "value": "heapfleet"},
        {"op": "test", "path": "/metadata/managedFields/2/operation", "value": "Update"},
        {"op": "remove", "path": "/metadata/managedFields/2"},
    ]);
    assert_eq!(
        sent,
        [
            ("POST".to_owned(), REVISIONS.to_owned(), journal),
            (
                "PATCH".to_owned(),
                DEPLOYMENT.to_owned(),
                json!(injection().record.patch)
            ),
            ("PATCH".to_owned(), DEPLOYMENT.to_owned(), disown),
        ]
    );
}

#[tokio::test]
async fn a_journal_that_stands_is_used_only_with_the_same_record() {
    let exists = || failure(409, "AlreadyExists", "exists");
    let server = MockServer::start().await;
    answer(&server, "POST", REVISIONS, exists()).await;
    answer(&server, "PATCH", JOURNAL, ok(json!({}))).await;
    answer(&server, "PATCH", DEPLOYMENT, ok(json!({"metadata": {}}))).await;
    assert_eq!(outcome(&server, inject_in("ore")).await, Outcome::Applied);
    let compared = sent(&server).await.remove(1);
    assert_eq!(compared.1, JOURNAL);
    assert_eq!(
        compared.2,
        json!([
            {"op": "test", "path": "/metadata/labels/heapfleet.dev~1journal", "value": "true"},
            {"op": "test", "path": "/data", "value": serde_json::to_value(injection().record).unwrap()},
        ])
    );

    let server = MockServer::start().await;
    answer(&server, "POST", REVISIONS, exists()).await;
    answer(
        &server,
        "PATCH",
        JOURNAL,
        failure(422, "Invalid", TEST_FAILED),
    )
    .await;
    assert_eq!(outcome(&server, inject_in("ore")).await, Outcome::LookAgain);
    assert!(
        sent(&server)
            .await
            .iter()
            .all(|(_, path, _)| path != DEPLOYMENT)
    );
}

#[tokio::test]
async fn without_a_journal_nothing_is_changed() {
    let server = MockServer::start().await;
    answer(&server, "POST", REVISIONS, failure(403, "Forbidden", "no")).await;
    let refused = outcome(&server, inject_in("ore")).await;
    assert_eq!(refused.class(), Some(Class::Forbidden));
    assert_eq!(sent(&server).await.len(), 1);
}

#[tokio::test]
async fn a_test_that_fails_asks_for_another_look_and_a_bad_patch_does_not() {
    let undo = || Action::Undo {
        region: Region::new("ore"),
        workload: workload(),
        patch: vec![json!({"op": "test", "path": "/metadata/uid", "value": "w-1"})],
    };
    let cases = [
        (failure(422, "Invalid", TEST_FAILED), Outcome::LookAgain),
        (
            failure(409, "Conflict", "the object has been modified"),
            Outcome::LookAgain,
        ),
        (failure(404, "NotFound", "gone"), Outcome::LookAgain),
    ];
    for (answered, expected) in cases {
        let server = MockServer::start().await;
        answer(&server, "PATCH", DEPLOYMENT, answered).await;
        assert_eq!(outcome(&server, undo()).await, expected);
    }
    let server = MockServer::start().await;
    answer(
        &server,
        "PATCH",
        DEPLOYMENT,
        failure(422, "Invalid", "spec.x: Required value"),
    )
    .await;
    let refused = outcome(&server, undo()).await;
    assert!(
        matches!(&refused, Outcome::Refused { class: Class::Invalid, message } if message.contains("Required value")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_failure_to_disown_is_no_failure_of_the_change() {
    let server = MockServer::start().await;
    let first = ok(after_patch());
    Mock::given(method("PATCH"))
        .respond_with(first)
        .up_to_n_times(1)
        .mount(&server)
        .await;
    answer(
        &server,
        "PATCH",
        DEPLOYMENT,
        failure(422, "Invalid", TEST_FAILED),
    )
    .await;
    let undo = Action::Undo {
        region: Region::new("ore"),
        workload: workload(),
        patch: Vec::new(),
    };
    assert_eq!(outcome(&server, undo).await, Outcome::Applied);
    let disown = Action::Disown {
        region: Region::new("ore"),
        workload: workload(),
        entry: 2,
    };
    assert_eq!(outcome(&server, disown).await, Outcome::LookAgain);
}

#[tokio::test]
async fn a_lost_reply_holds_up_its_own_region_alone() {
    let (slow, fast) = (MockServer::start().await, MockServer::start().await);
    answer(
        &slow,
        "POST",
        REVISIONS,
        ok(json!({})).set_delay(Duration::from_secs(2)),
    )
    .await;
    answer(&fast, "POST", REVISIONS, ok(json!({}))).await;
    answer(&fast, "PATCH", DEPLOYMENT, ok(json!({"metadata": {}}))).await;
    let (policy, intent) = (policy(), intent());
    let regions = [
        (Region::new("nrt"), writer(&slow)),
        (Region::new("ore"), writer(&fast)),
    ]
    .into();
    let scene = Scene {
        hub: writer(&fast),
        policy: &policy,
        rollouts: &[],
        frozen: Some(&intent.frozen),
        regions,
    };
    let actions = [
        inject_in("nrt"),
        inject_in("nrt"),
        inject_in("ore"),
        inject_in("sin"),
    ];
    let receipts = carry_out(&scene, &Committed::default(), &actions).await;
    let told: Vec<(&str, &str, Option<Class>)> = receipts
        .iter()
        .map(|receipt| {
            let region = receipt.region.as_ref().map_or("", Region::as_str);
            (region, receipt.outcome.as_str(), receipt.outcome.class())
        })
        .collect();
    // The second act in nrt waits for the next pass; sin was not reached in this one.
    assert_eq!(
        told,
        [
            ("nrt", "failed", Some(Class::Transient)),
            ("ore", "applied", None),
            ("sin", "failed", Some(Class::Transient)),
        ]
    );
}

#[tokio::test]
async fn journals_are_marked_and_dropped() {
    let server = MockServer::start().await;
    answer(&server, "PATCH", JOURNAL, ok(json!({}))).await;
    answer(&server, "DELETE", JOURNAL, failure(404, "NotFound", "gone")).await;
    let region = Region::new("ore");
    let journal = "heapfleet-trace-server-1".to_owned();
    let mark = Action::MarkJournal {
        region: region.clone(),
        journal: journal.clone(),
        stage: JournalStage::Applied,
    };
    assert_eq!(outcome(&server, mark).await, Outcome::Applied);
    assert_eq!(
        outcome(&server, Action::DropJournal { region, journal }).await,
        Outcome::AlreadyDone
    );
    assert_eq!(
        sent(&server).await[0].2,
        json!([
            {"op": "test", "path": "/metadata/labels/heapfleet.dev~1journal", "value": "true"},
            {"op": "add", "path": "/metadata/annotations/heapfleet.dev~1stage", "value": "applied"},
        ])
    );
}

#[tokio::test]
async fn an_eviction_tests_the_uid_and_a_budget_is_no_error() {
    let at = "/api/v1/namespaces/trace/pods/trace-server-1/eviction";
    let cases = [
        (
            ResponseTemplate::new(201).set_body_json(json!({})),
            Outcome::Applied,
        ),
        (
            failure(429, "TooManyRequests", "disruption budget"),
            Outcome::LookAgain,
        ),
        (failure(404, "NotFound", "gone"), Outcome::AlreadyDone),
        (
            failure(409, "Conflict", "uid in precondition"),
            Outcome::AlreadyDone,
        ),
    ];
    for (answered, expected) in cases {
        let server = MockServer::start().await;
        answer(&server, "POST", at, answered).await;
        let evict = Action::Evict {
            region: Region::new("ore"),
            pod: "trace-server-1".to_owned(),
            uid: "pod-uid".to_owned(),
        };
        assert_eq!(outcome(&server, evict).await, expected);
        let body = sent(&server).await.remove(0).2;
        assert_eq!(body["deleteOptions"]["preconditions"]["uid"], "pod-uid");
    }
}

#[tokio::test]
async fn the_finalizer_goes_on_and_off_by_patches_on_the_version_just_written() {
    let server = MockServer::start().await;
    answer(&server, "PATCH", POLICY, ok(json!({}))).await;
    assert_eq!(
        outcome(&server, Action::AddFinalizer).await,
        Outcome::Applied
    );
    assert_eq!(
        sent(&server).await[0].2,
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "42"},
            {"op": "add", "path": "/metadata/finalizers", "value": ["heapfleet.dev/finalizer"]},
        ])
    );
    assert_eq!(
        outcome(&server, Action::RemoveFinalizer).await,
        Outcome::AlreadyDone
    );
    assert_eq!(
        json!(bodies::add_finalizer("42", false)[1]),
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": "heapfleet.dev/finalizer"})
    );
    assert_eq!(
        json!(bodies::remove_finalizer("42", 1)),
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "42"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": "heapfleet.dev/finalizer"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ])
    );
}

#[tokio::test]
async fn an_attempt_is_made_once_and_only_of_the_plan_that_was_decided_on() {
    let create = |plan: CorePlan| Action::CreateAttempt {
        name: "trace-00-2".to_owned(),
        plan: Box::new(plan),
    };
    let plan = CorePlan {
        attempt: 2,
        ..intent().plan
    };
    let server = MockServer::start().await;
    answer(&server, "POST", ROLLOUTS, ok(json!({}))).await;
    assert_eq!(
        outcome(&server, create(plan.clone())).await,
        Outcome::Applied
    );
    let body = sent(&server).await.remove(0).2;
    assert_eq!(
        body["metadata"]["labels"],
        json!({"heapfleet.dev/policy": "trace"})
    );
    assert_eq!(
        body["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "heapfleet.dev/v1alpha1", "kind": "AllocatorPolicy", "name": "trace",
            "uid": "policy-uid", "controller": true, "blockOwnerDeletion": false,
        }])
    );
    assert_eq!(
        body["metadata"]["finalizers"],
        json!(["heapfleet.dev/finalizer"])
    );
    assert_eq!(body["spec"]["plan"]["attempt"], 2);
    assert_eq!(body["spec"]["state"], "Run");

    let server = MockServer::start().await;
    answer(
        &server,
        "POST",
        ROLLOUTS,
        failure(409, "AlreadyExists", "exists"),
    )
    .await;
    let existing = format!("{ROLLOUTS}/trace-00-2");
    answer(&server, "PATCH", &existing, ok(json!({}))).await;
    assert_eq!(
        outcome(&server, create(plan.clone())).await,
        Outcome::AlreadyDone
    );
    let other = CorePlan {
        hash: PlanHash::new("v1-ff"),
        ..plan.clone()
    };
    assert_eq!(outcome(&server, create(other)).await, Outcome::LookAgain);
    let sent = sent(&server).await;
    assert_eq!(sent.len(), 2);
    let owner =
        json!([{"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": "policy-uid"}]);
    assert_eq!(sent[1].2, owner);

    let server = MockServer::start().await;
    answer(
        &server,
        "POST",
        ROLLOUTS,
        failure(409, "AlreadyExists", "exists"),
    )
    .await;
    answer(
        &server,
        "PATCH",
        &existing,
        failure(422, "Invalid", TEST_FAILED),
    )
    .await;
    let refused = outcome(&server, create(plan)).await;
    assert_eq!(refused.class(), Some(Class::Invalid));
}

fn decision() -> Decision {
    Decision {
        commit: Some(Commit {
            attempt: "trace-00-1".to_owned(),
            position: Position::new(Timestamp::UNIX_EPOCH),
            report: RolloutReport {
                phase: "Baseline".to_owned(),
                ..RolloutReport::default()
            },
        }),
        policy: PolicyReport {
            phase: "Baseline".to_owned(),
            ..PolicyReport::default()
        },
        actions: Vec::new(),
        events: Vec::new(),
        findings: Vec::new(),
        looks: Vec::new(),
        running: std::collections::BTreeMap::new(),
        wake_at: Timestamp::UNIX_EPOCH,
    }
}

fn rollout() -> AllocatorRollout {
    let spec = crds::AllocatorRolloutSpec {
        plan: intent().frozen,
        state: crds::RolloutState::Run,
        approvals: Vec::new(),
    };
    let mut rollout = AllocatorRollout::new("trace-00-1", spec);
    rollout.metadata.namespace = Some("trace".to_owned());
    rollout.metadata.resource_version = Some("7".to_owned());
    rollout.metadata.generation = Some(1);
    rollout
}

async fn commit_on(
    server: &MockServer,
    policy: &AllocatorPolicy,
    rollout: AllocatorRollout,
) -> Result<Committed, ActError> {
    let scene = Scene {
        hub: writer(server),
        policy,
        rollouts: &[rollout],
        frozen: None,
        regions: BTreeMap::new(),
    };
    commit(&scene, &decision(), Timestamp::UNIX_EPOCH).await
}

#[tokio::test]
async fn a_commit_carries_the_observed_version_and_writes_nothing_twice() {
    let server = MockServer::start().await;
    let status = |at: &str| format!("{at}/status");
    let rollout_status = status(&format!("{ROLLOUTS}/trace-00-1"));
    answer(
        &server,
        "PUT",
        &rollout_status,
        ok(json!({"metadata": {"resourceVersion": "8"}})),
    )
    .await;
    answer(
        &server,
        "PUT",
        &status(POLICY),
        ok(json!({"metadata": {"resourceVersion": "43"}})),
    )
    .await;
    let done = commit_on(&server, &policy(), rollout()).await.unwrap();
    let expected = Committed {
        attempt: true,
        policy: true,
        moved: false,
        policy_version: "43".to_owned(),
    };
    assert_eq!(done, expected);
    let sent_once = sent(&server).await;
    assert_eq!(sent_once[0].2["metadata"]["resourceVersion"], "7");
    assert_eq!(sent_once[1].2["metadata"]["resourceVersion"], "41");

    // The same decision on what now stands: nothing to write.
    let mut written = policy();
    written.status = serde_json::from_value(sent_once[1].2["status"].clone()).unwrap();
    let mut stored = rollout();
    stored.status = serde_json::from_value(sent_once[0].2["status"].clone()).unwrap();
    let done = commit_on(&server, &written, stored).await.unwrap();
    assert!(!done.attempt && !done.policy && !done.moved);
    assert_eq!(done.policy_version, "41");
    assert_eq!(sent(&server).await.len(), 2);
}

#[tokio::test]
async fn a_conflict_stops_the_commit_where_it_is() {
    let moved = || failure(409, "Conflict", "the object has been modified");
    let rollout_status = format!("{ROLLOUTS}/trace-00-1/status");
    let server = MockServer::start().await;
    answer(&server, "PUT", &rollout_status, moved()).await;
    let done = commit_on(&server, &policy(), rollout()).await.unwrap();
    assert!(done.moved && !done.attempt && !done.stands());
    assert_eq!(
        sent(&server).await.len(),
        1,
        "the policy's status is not written after a conflict"
    );

    let server = MockServer::start().await;
    answer(&server, "PUT", &rollout_status, ok(json!({}))).await;
    answer(&server, "PUT", &format!("{POLICY}/status"), moved()).await;
    let done = commit_on(&server, &policy(), rollout()).await.unwrap();
    assert!(done.moved && done.attempt && done.stands());

    let server = MockServer::start().await;
    answer(
        &server,
        "PUT",
        &rollout_status,
        failure(500, "InternalError", "etcd"),
    )
    .await;
    let error = commit_on(&server, &policy(), rollout()).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
}

#[tokio::test]
async fn an_attempt_that_is_deleted_goes_when_a_later_one_has_taken_over() {
    let server = MockServer::start().await;
    for name in ["trace-00-1", "trace-00-2"] {
        answer(
            &server,
            "PATCH",
            &format!("{ROLLOUTS}/{name}"),
            ok(json!({})),
        )
        .await;
        answer(
            &server,
            "DELETE",
            &format!("{ROLLOUTS}/{name}"),
            ok(json!({})),
        )
        .await;
    }
    answer(&server, "PATCH", POLICY, ok(json!({}))).await;
    let mut rollouts = [rollout(), rollout()];
    for (rollout, name) in rollouts.iter_mut().zip(["trace-00-1", "trace-00-2"]) {
        rollout.metadata.name = Some(name.to_owned());
        rollout.metadata.uid = Some(name.to_owned());
        rollout.metadata.deletion_timestamp = Some(meta::Time(Timestamp::UNIX_EPOCH));
        rollout.metadata.finalizers =
            Some(vec!["other".to_owned(), translate::FINALIZER.to_owned()]);
    }
    let mut policy = policy();
    policy.metadata.finalizers = Some(vec![translate::FINALIZER.to_owned()]);
    let scene = Scene {
        hub: writer(&server),
        policy: &policy,
        rollouts: &rollouts,
        frozen: None,
        regions: BTreeMap::new(),
    };
    let none = carry_out(&scene, &Committed::default(), &[]).await;
    assert!(none.is_empty());
    let release = json!([
        {"op": "test", "path": "/metadata/finalizers/1", "value": "heapfleet.dev/finalizer"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]);
    let first = format!("{ROLLOUTS}/trace-00-1");
    let expected = [("PATCH".to_owned(), first.clone(), release.clone())];
    assert_eq!(sent(&server).await, expected);

    server.reset().await;
    answer(
        &server,
        "PATCH",
        &format!("{ROLLOUTS}/trace-00-1"),
        ok(json!({})),
    )
    .await;
    answer(
        &server,
        "PATCH",
        &format!("{ROLLOUTS}/trace-00-2"),
        ok(json!({})),
    )
    .await;
    answer(&server, "PATCH", POLICY, ok(json!({}))).await;
    let receipts = carry_out(&scene, &Committed::default(), &[Action::RemoveFinalizer]).await;
    assert_eq!(receipts[0].outcome, Outcome::Applied);
    let paths: Vec<String> = sent(&server)
        .await
        .into_iter()
        .map(|(_, path, _)| path)
        .collect();
    let second = format!("{ROLLOUTS}/trace-00-2");
    assert_eq!(paths, [first.clone(), first, second, POLICY.to_owned()]);
}
