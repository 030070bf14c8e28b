//! Whole worlds: a hub that is a region itself, a region where nobody listens, one that never answers, one that does not
//! exist, and a Prometheus, all on the wire.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heapfleet::clusters::{Class, Clusters, Limits};
use heapfleet::observe;
use heapfleet::translate;
use heapfleet_core::decision::Reason;
use heapfleet_core::names::{Kind, Region, WorkloadId};
use heapfleet_core::rollout::{Position, RegionState, Stage, WorkStage, WorkState};
use heapfleet_core::world::{Running, SeriesId};
use heapfleet_crds::{AllocatorClass, AllocatorPolicy};
use jiff::Timestamp;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const OURS: &str = "/apis/heapfleet.dev/v1alpha1";

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

fn policy() -> Value {
    let mut policy = yaml(include_str!("../../manifests/examples/policy-minimal.yaml"));
    policy["metadata"]["uid"] = json!("policy-uid");
    policy["metadata"]["generation"] = json!(1);
    policy["metadata"]["resourceVersion"] = json!("7");
    policy
}

fn class() -> Value {
    yaml(include_str!("../../manifests/examples/class-jemalloc.yaml"))
}

fn now() -> Timestamp {
    "2026-12-01T00:40:00Z".parse().unwrap()
}

/// A world to be looked at: one server for the hub and region `ore`, other regions by address.
struct Lab {
    hub: MockServer,
    prometheus: MockServer,
    // Accepts connections into its backlog and never answers one.
    silent: std::net::TcpListener,
}

impl Lab {
    async fn up() -> Self {
        let lab = Self {
            hub: MockServer::start().await,
            prometheus: MockServer::start().await,
            silent: std::net::TcpListener::bind("127.0.0.1:0").unwrap(),
        };
        lab.get(
            "/api/v1/namespaces/kube-system",
            json!({"metadata": {"uid": "hub-uid"}}),
        )
        .await;
        lab.get(
            &format!("{OURS}/namespaces/trace/allocatorpolicies/trace"),
            policy(),
        )
        .await;
        lab.get(&format!("{OURS}/allocatorclasses/jemalloc"), class())
            .await;
        lab.policies(vec![policy()], 10).await;
        lab.cluster(include_str!("fixtures/observe/settled.json"))
            .await;
        lab.credentials().await;
        lab
    }

    async fn get(&self, at: &str, body: Value) {
        Mock::given(method("GET"))
            .and(path(at))
            .respond_with(ResponseTemplate::new(200).set_body_json(body))
            .mount(&self.hub)
            .await;
    }

    async fn list(&self, at: &str, items: Vec<Value>) {
        self.get(at, json!({"metadata": {}, "items": items})).await;
    }

    async fn cluster(&self, fixture: &str) {
        let all: BTreeMap<String, Value> = serde_json::from_str(fixture).unwrap();
        for (key, value) in all {
            let at = match key.as_str() {
                "namespace" => {
                    self.get("/api/v1/namespaces/trace", value).await;
                    continue;
                }
                "nodes" => "/api/v1/nodes".to_owned(),
                "pods" => "/api/v1/namespaces/trace/pods".to_owned(),
                apps => format!("/apis/apps/v1/namespaces/trace/{apps}"),
            };
            self.list(&at, value.as_array().unwrap().clone()).await;
        }
    }

    async fn credentials(&self) {
        let key = rcgen::KeyPair::generate().unwrap();
        let ca = rcgen::CertificateParams::new(vec!["x".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        let data = json!({"ca.crt": STANDARD.encode(ca.pem()), "token": STANDARD.encode("t")});
        let secret =
            json!({"metadata": {"name": "far", "uid": "s", "resourceVersion": "1"}, "data": data});
        self.get("/api/v1/namespaces/heapfleet-system/secrets/far", secret)
            .await;
    }

    fn region(&self, name: &str, cluster: &Value) -> Value {
        json!({
            "apiVersion": "heapfleet.dev/v1alpha1", "kind": "AllocatorRegion", "metadata": {"name": name},
            "spec": {"cluster": cluster, "prometheus": {"url": self.prometheus.uri()}},
        })
    }

    fn far(&self, name: &str, port: u16) -> Value {
        let reference = |key: &str| json!({"name": "far", "key": key});
        self.region(
            name,
            &json!({"endpoint": {
                "server": format!("https://127.0.0.1:{port}"),
                "caSecretRef": reference("ca.crt"), "tokenSecretRef": reference("token"),
            }}),
        )
    }

    /// `ore` answers, at `nrt` nobody listens, `fra` never answers, and there is no `sin` unless `all`.
    async fn regions(&self, all: bool) {
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let silent = self.silent.local_addr().unwrap().port();
        let mut regions = vec![
            self.region("ore", &json!({"local": {}})),
            self.far("nrt", closed),
            self.far("fra", silent),
        ];
        if all {
            regions.push(self.region("sin", &json!({"local": {}})));
        }
        self.list(&format!("{OURS}/allocatorregions"), regions)
            .await;
    }

    /// The policies of the namespace; the lower priority is the one that answers.
    async fn policies(&self, items: Vec<Value>, priority: u8) {
        Mock::given(method("GET"))
            .and(path(format!("{OURS}/namespaces/trace/allocatorpolicies")))
            .respond_with(
                ResponseTemplate::new(200).set_body_json(json!({"metadata": {}, "items": items})),
            )
            .with_priority(priority)
            .mount(&self.hub)
            .await;
    }

    async fn rollouts(&self, items: Vec<Value>) {
        self.list(&format!("{OURS}/namespaces/trace/allocatorrollouts"), items)
            .await;
    }

    fn clusters(&self) -> Clusters {
        let config = kube::Config::new(self.hub.uri().parse().unwrap());
        let limits = Limits {
            deadline: Duration::from_millis(600),
            ..Limits::default()
        };
        Clusters::new(config, "heapfleet-system", limits).unwrap()
    }
}

/// An attempt at the policy, in the middle of its canary's baseline.
fn rollout(name: &str, policy_uid: &str) -> Value {
    let mut policy: AllocatorPolicy = serde_json::from_value(policy()).unwrap();
    policy.metadata.uid = Some(policy_uid.to_owned());
    let class: AllocatorClass = serde_json::from_value(class()).unwrap();
    let regions: BTreeSet<String> = ["ore", "fra", "nrt", "sin"].map(str::to_owned).into();
    let frozen = translate::freeze(&policy, &class.spec, &regions).unwrap();
    json!({
        "apiVersion": "heapfleet.dev/v1alpha1", "kind": "AllocatorRollout",
        "metadata": {"name": name, "namespace": "trace", "creationTimestamp": "2026-12-01T00:30:00Z"},
        "spec": {"plan": frozen, "state": "Run"},
        "status": {"position": {"version": 1, "data": serde_json::to_string(&position()).unwrap()}},
    })
}

fn position() -> Position {
    let since = now();
    let work = WorkState {
        reapplied: Vec::new(),
        uid: "w".to_owned(),
        container: "server".to_owned(),
        journal: "j".to_owned(),
        stage: WorkStage::Waiting,
        since,
        best_progress: 0,
        progressed_at: since,
        assumptions: Vec::new(),
    };
    let state = RegionState {
        stage: Stage::Baseline,
        since,
        workloads: BTreeMap::from([(trace(), work)]),
        refused: BTreeMap::new(),
        changed_at: None,
        bake_started: None,
        look: None,
        failed: None,
        unreachable_since: None,
        sizes: BTreeMap::new(),
        frozen: BTreeMap::new(),
        evidence: BTreeMap::new(),
        learned: BTreeMap::new(),
    };
    Position {
        version: 1,
        started: since,
        wave: 0,
        regions: BTreeMap::from([(Region::new("ore"), state)]),
        control: BTreeMap::new(),
        learned: BTreeMap::new(),
        undo: None,
        held: None,
        ending: None,
    }
}

fn trace() -> WorkloadId {
    WorkloadId {
        kind: Kind::Deployment,
        name: "trace-server".to_owned(),
    }
}

#[tokio::test]
async fn a_policy_that_is_gone_has_no_world() {
    let lab = Lab::up().await;
    assert!(
        observe::world(&lab.clusters(), "trace", "gone", now(), Running::new())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn every_region_is_seen_or_says_why_not_and_none_waits_for_another() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    lab.rollouts(Vec::new()).await;
    let began = Instant::now();
    let seen = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap()
        .unwrap();
    // Two requests to the hub, then the silent region's one deadline.
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    let world = seen.world;
    assert_eq!(world.claim.as_str(), "hub-uid/trace/trace");
    assert_eq!(
        (world.policy.uid.as_str(), world.policy.generation),
        ("policy-uid", 1)
    );
    assert_eq!(seen.policy.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(world.intent.as_ref().unwrap().waves.len(), 3);
    assert!(seen.frozen.is_some() && world.attempts.is_empty());
    let because = |name: &str| {
        world.regions[&Region::new(name)]
            .cluster
            .clone()
            .unwrap_err()
            .because
    };
    assert_eq!(because("nrt"), "connection refused");
    assert_eq!(because("fra"), "the connection timed out");
    let ore = world.regions[&Region::new("ore")].cluster.as_ref().unwrap();
    assert!(ore.namespace_opted_in && ore.workloads[&trace()].settled);
    assert_eq!(
        ore.workloads.len(),
        1,
        "only what the selector and the kinds name"
    );
    assert_eq!(
        seen.clusters.keys().map(Region::as_str).collect::<Vec<_>>(),
        ["ore", "sin"]
    );
    assert!(
        world
            .regions
            .values()
            .all(|region| region.metrics.is_none()),
        "nothing was needed"
    );
}

#[tokio::test]
async fn of_two_policies_with_one_workload_the_older_has_it_and_the_other_says_so() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    lab.rollouts(Vec::new()).await;
    let mut ours = policy();
    ours["metadata"]["creationTimestamp"] = json!("2026-11-30T12:00:00Z");
    let mut other = policy();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("other-uid");
    let looked = async |other: &Value, priority: u8| {
        lab.policies(vec![ours.clone(), other.clone()], priority)
            .await;
        observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
            .await
            .unwrap()
            .unwrap()
            .world
    };
    Mock::given(method("GET"))
        .and(path(format!(
            "{OURS}/namespaces/trace/allocatorpolicies/trace"
        )))
        .respond_with(ResponseTemplate::new(200).set_body_json(&ours))
        .with_priority(1)
        .mount(&lab.hub)
        .await;
    other["metadata"]["creationTimestamp"] = json!("2026-11-30T13:00:00Z");
    assert!(looked(&other, 4).await.intent.is_ok(), "a younger one");
    other["metadata"]["creationTimestamp"] = json!("2026-11-30T11:00:00Z");
    let world = looked(&other, 3).await;
    let refusal = world.intent.unwrap_err();
    assert_eq!(refusal.reason, Reason::OverlappingPolicy);
    assert!(
        refusal.message.starts_with(
            "spec.target.selector: Deployment/trace-server in region ore belongs to the older policy other;"
        ),
        "{}",
        refusal.message
    );
    other["spec"]["target"]["exclude"] = json!(["trace-server"]);
    assert!(looked(&other, 2).await.intent.is_ok(), "it leaves it out");
}

#[tokio::test]
async fn what_does_not_exist_refuses_the_intent_and_is_seen_as_absent() {
    let lab = Lab::up().await;
    lab.regions(false).await;
    lab.rollouts(vec![rollout("trace-1", "policy-uid")]).await;
    let seen = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap()
        .unwrap();
    let refusal = seen.world.intent.unwrap_err();
    assert_eq!(refusal.reason, Reason::RegionNotFound);
    assert!(
        refusal.message.contains("there is no AllocatorRegion sin"),
        "{}",
        refusal.message
    );
    assert!(seen.frozen.is_none());
    let sin = seen.world.regions[&Region::new("sin")]
        .cluster
        .clone()
        .unwrap_err();
    assert_eq!(sin.because, "there is no AllocatorRegion sin");
}

#[tokio::test]
async fn samples_are_read_for_the_regions_that_the_decision_needs() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    let other = rollout("trace-0", "an-older-policy-of-that-name");
    lab.rollouts(vec![rollout("trace-1", "policy-uid"), other])
        .await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    Mock::given(path("/api/v1/query"))
        .respond_with(move |request: &wiremock::Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            let body = String::from_utf8_lossy(&request.body);
            let at = now().as_second();
            let result = if body.contains("query=trace_cache_accounted_bytes") {
                json!([{
                    "metric": {"pod": "trace-server-864d54f7b9-85shx", "namespace": "trace"},
                    "values": [[at - 10, "67108864"], [at, "67108864"]],
                }])
            } else {
                json!([])
            };
            ResponseTemplate::new(200).set_body_json(
                json!({"status": "success", "data": {"resultType": "matrix", "result": result}}),
            )
        })
        .mount(&lab.prometheus)
        .await;
    let seen = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        seen.world.attempts.len(),
        1,
        "the other one is of another policy"
    );
    assert_eq!(seen.rollouts.len(), 1);
    let metrics = |name: &str| seen.world.regions[&Region::new(name)].metrics.clone();
    let ore = metrics("ore").unwrap().unwrap();
    let pod = &ore.pods["trace-server-864d54f7b9-85shx"];
    assert_eq!(pod.series[&SeriesId::Cache].len(), 2);
    assert!(!pod.series.contains_key(&SeriesId::Rss), "absent is absent");
    assert!(
        metrics("fra").unwrap().is_ok(),
        "the control's, although its API server is silent"
    );
    assert!(metrics("nrt").is_none() && metrics("sin").is_none());
    assert!(asked.load(Ordering::Relaxed) >= 8);
}

#[tokio::test]
async fn a_prometheus_that_is_not_ready_is_a_clause_of_its_region() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    lab.rollouts(vec![rollout("trace-1", "policy-uid")]).await;
    Mock::given(path("/api/v1/query"))
        .respond_with(ResponseTemplate::new(503))
        .mount(&lab.prometheus)
        .await;
    let seen = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap()
        .unwrap();
    let unseen = seen.world.regions[&Region::new("ore")]
        .metrics
        .clone()
        .unwrap()
        .unwrap_err();
    assert_eq!(
        unseen.because,
        "it is not ready, or nothing answers behind its address (503)"
    );
    let region = serde_json::from_value(lab.region("ore", &json!({"local": {}}))).unwrap();
    let answers = observe::prometheus_answers(&lab.clusters(), &region).await;
    assert_eq!(
        answers.unwrap_err().because,
        format!("Prometheus of region ore: {}", unseen.because)
    );
}

#[tokio::test]
async fn a_stored_position_that_cannot_be_read_stops_everything() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    let mut broken = rollout("trace-1", "policy-uid");
    broken["status"]["position"]["data"] = json!("{");
    lab.rollouts(vec![broken]).await;
    let error = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(error.to_string().contains("trace-1"), "{error}");
}

#[tokio::test]
async fn a_list_that_is_forbidden_hides_the_region_and_is_named() {
    let lab = Lab::up().await;
    lab.regions(true).await;
    lab.rollouts(Vec::new()).await;
    Mock::given(path("/apis/apps/v1/namespaces/trace/daemonsets"))
        .respond_with(ResponseTemplate::new(403).set_body_json(json!({
            "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "daemonsets.apps is forbidden",
        })))
        .with_priority(1)
        .mount(&lab.hub)
        .await;
    let seen = observe::world(&lab.clusters(), "trace", "trace", now(), Running::new())
        .await
        .unwrap()
        .unwrap();
    let unseen = seen.world.regions[&Region::new("ore")]
        .cluster
        .clone()
        .unwrap_err();
    assert_eq!(unseen.because, "daemonsets.apps is forbidden");
}
