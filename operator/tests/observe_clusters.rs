//! The clients of clusters on the wire: what they send, how they follow their Secrets, what they make of answers.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use heapfleet::clusters::{Class, ClusterError, Clusters, Deleted, Evicted, Limits, ResourcePath};
use heapfleet_core::names::{Kind, WorkloadId};
use heapfleet_crds::AllocatorRegion;
use serde_json::{Value, json};
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

const SECRETS: &str = "/api/v1/namespaces/heapfleet-system/secrets";
const IDENTITY: &str = "/api/v1/namespaces/kube-system";

fn region(spec: Value) -> AllocatorRegion {
    AllocatorRegion::new("nrt", serde_json::from_value(spec).unwrap())
}

fn local() -> AllocatorRegion {
    region(json!({"cluster": {"local": {}}, "prometheus": {"url": "http://prometheus:9090"}}))
}

fn limits() -> Limits {
    Limits {
        in_flight: 2,
        deadline: Duration::from_millis(500),
        recheck: Duration::ZERO,
    }
}

fn clusters(hub: &MockServer) -> Clusters {
    let config = kube::Config::new(hub.uri().parse().unwrap());
    Clusters::new(config, "heapfleet-system", limits()).unwrap()
}

async fn mount(server: &MockServer, at: &str, body: Value) {
    Mock::given(method("GET"))
        .and(path(at))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .mount(server)
        .await;
}

async fn hub() -> MockServer {
    let server = MockServer::start().await;
    mount(
        &server,
        IDENTITY,
        json!({"metadata": {"name": "kube-system", "uid": "uid-1"}}),
    )
    .await;
    server
}

fn secret(version: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value))))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "uid": "u", "resourceVersion": version}, "data": data,
    })
}

fn failure(code: u16, reason: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    }))
}

#[tokio::test]
async fn the_identity_is_read_and_another_than_the_pinned_one_is_refused() {
    let hub = hub().await;
    let clusters = clusters(&hub);
    let cluster = clusters.cluster(&local()).await.unwrap();
    assert_eq!((cluster.name(), cluster.uid().as_str()), ("nrt", "uid-1"));
    assert!(cluster.health().answered.is_some());

    let mut pinned = local();
    pinned.status = Some(serde_json::from_value(json!({"clusterUID": "uid-0"})).unwrap());
    let error = clusters.cluster(&pinned).await.unwrap_err();
    assert!(
        matches!(error, ClusterError::IdentityMismatch { .. }),
        "{error}"
    );
    assert_eq!(error.class(), Class::Invalid);
}

#[tokio::test]
async fn a_region_whose_secret_is_missing_or_unfit_says_field_value_and_remedy() {
    let hub = hub().await;
    let clusters = clusters(&hub);
    let region = region(json!({
        "cluster": {"kubeconfigSecretRef": {"name": "nrt", "key": "kubeconfig"}},
        "prometheus": {"url": "http://prometheus:9090"},
    }));
    let error = clusters.cluster(&region).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "region nrt: spec.cluster.kubeconfigSecretRef is nrt: there is no such Secret; create it in namespace heapfleet-system"
    );
    // A failure stands for a moment, so that many who ask do not queue for the same deadline.
    assert_eq!(clusters.cluster(&region).await.unwrap_err(), error);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    mount(
        &hub,
        &format!("{SECRETS}/nrt"),
        secret("1", &[("config", "x")]),
    )
    .await;
    let error = clusters.cluster(&region).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nrt, key kubeconfig: the Secret has no such key"),
        "{error}"
    );
}

#[tokio::test]
async fn a_rotated_token_is_used_without_a_restart() {
    let (hub, prometheus) = (hub().await, MockServer::start().await);
    let clusters = clusters(&hub);
    let region = region(json!({
        "cluster": {"local": {}},
        "prometheus": {
            "url": prometheus.uri().replace("http://", "https://"),
            "auth": {"bearerTokenSecretRef": {"name": "prom", "key": "token"}},
        },
    }));
    let serve = async |version: &str, token: &str| {
        hub.reset().await;
        mount(
            &hub,
            &format!("{SECRETS}/prom"),
            secret(version, &[("token", token)]),
        )
        .await;
    };
    serve("1", "a").await;
    let first = clusters.prometheus(&region).await.unwrap();
    let again = clusters.prometheus(&region).await.unwrap();
    assert!(
        std::sync::Arc::ptr_eq(&first, &again),
        "an unchanged Secret keeps the client"
    );
    serve("2", "b").await;
    let second = clusters.prometheus(&region).await.unwrap();
    assert!(
        !std::sync::Arc::ptr_eq(&first, &second),
        "a changed Secret makes another client"
    );
}

#[tokio::test]
async fn a_credential_is_never_sent_in_the_open() {
    let hub = hub().await;
    mount(
        &hub,
        &format!("{SECRETS}/prom"),
        secret("1", &[("token", "a")]),
    )
    .await;
    let region = region(json!({
        "cluster": {"local": {}},
        "prometheus": {"url": "http://p:9090", "auth": {"bearerTokenSecretRef": {"name": "prom", "key": "token"}}},
    }));
    let error = clusters(&hub).prometheus(&region).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a credential would be sent in the open"),
        "{error}"
    );
}

#[tokio::test]
async fn headers_go_along_and_redirects_are_not_followed() {
    let (hub, prometheus) = (hub().await, MockServer::start().await);
    Mock::given(header("x-scope-orgid", "cache"))
        .respond_with(ResponseTemplate::new(302).insert_header("location", "/elsewhere"))
        .expect(1)
        .mount(&prometheus)
        .await;
    let region = region(json!({
        "cluster": {"local": {}},
        "prometheus": {"url": prometheus.uri(), "auth": {"headers": [{"name": "X-Scope-OrgID", "value": "cache"}]}},
    }));
    let link = clusters(&hub).prometheus(&region).await.unwrap();
    let answer = link.http.get(&link.url).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 302);
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let hub = hub().await;
    let at = "/api/v1/namespaces/trace/pods";
    let page = |name: &str, next: &str| {
        ResponseTemplate::new(200).set_body_json(json!({
            "metadata": {"continue": next}, "items": [{"metadata": {"name": name}}],
        }))
    };
    Mock::given(path(at))
        .and(query_param("continue", "more"))
        .and(query_param("labelSelector", "app in (a,b)"))
        .respond_with(page("second", ""))
        .mount(&hub)
        .await;
    Mock::given(path(at))
        .and(query_param("limit", "500"))
        .respond_with(page("first", "more"))
        .mount(&hub)
        .await;
    let reader = clusters(&hub).hub_reader();
    let pods = reader
        .list_raw(&ResourcePath::pods("trace").unwrap(), Some("app in (a,b)"))
        .await
        .unwrap();
    let names: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["first", "second"]);
}

#[tokio::test]
async fn reads_tell_absent_from_forbidden_and_from_broken() {
    let hub = hub().await;
    let pods = ResourcePath::pods("trace").unwrap();
    let answer = async |name: &str, reply: ResponseTemplate| {
        Mock::given(path(format!("/api/v1/namespaces/trace/pods/{name}")))
            .respond_with(reply)
            .mount(&hub)
            .await;
    };
    answer(
        "absent",
        failure(404, "NotFound", "pods \"absent\" not found"),
    )
    .await;
    answer("forbidden", failure(403, "Forbidden", "pods is forbidden")).await;
    answer(
        "broken",
        ResponseTemplate::new(200).set_body_string("<html>"),
    )
    .await;
    answer(
        "odd",
        ResponseTemplate::new(200).set_body_json(json!({"metadata": {"name": "odd"}, "spec": 1})),
    )
    .await;
    answer("down", ResponseTemplate::new(503).set_body_string("no")).await;
    answer(
        "slow",
        ResponseTemplate::new(200).set_delay(Duration::from_secs(20)),
    )
    .await;
    let reader = clusters(&hub).hub_reader();
    assert_eq!(
        reader
            .get_raw(&pods.named("absent").unwrap())
            .await
            .unwrap(),
        None
    );
    let began = Instant::now();
    for (name, class, words) in [
        (
            "forbidden",
            Class::Forbidden,
            "API server of the hub: pods is forbidden",
        ),
        (
            "broken",
            Class::Invalid,
            "API server of the hub: an answer that is not the JSON",
        ),
        (
            "odd",
            Class::Invalid,
            "API server of the hub: odd cannot be read as it stands",
        ),
        (
            "down",
            Class::Transient,
            "API server of the hub: answered 503",
        ),
        (
            "slow",
            Class::Transient,
            "API server of the hub: no answer within 500ms",
        ),
    ] {
        let read = reader
            .get::<k8s_openapi::api::core::v1::Pod>(&pods.named(name).unwrap())
            .await;
        let error = read.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().starts_with(words), "{error}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "nothing was tried again"
    );
}

#[tokio::test]
async fn more_requests_than_slots_wait_their_turn_within_the_deadline() {
    let hub = hub().await;
    Mock::given(path("/version"))
        .respond_with(
            ResponseTemplate::new(200)
                .set_body_json(json!({}))
                .set_delay(Duration::from_millis(200)),
        )
        .mount(&hub)
        .await;
    let reader = clusters(&hub).hub_reader();
    let answers = futures::future::join_all((0..8).map(|_| reader.raw("/version"))).await;
    let done = answers.iter().filter(|answer| answer.is_ok()).count();
    // Two at a time, 200 ms each, 500 ms for all.
    assert!((2..=4).contains(&done), "{done}");
    let late = answers.into_iter().find_map(Result::err).unwrap();
    assert_eq!(
        late.to_string(),
        "API server of the hub: no answer within 500ms"
    );
}

#[tokio::test]
async fn patches_go_over_the_wire_as_they_were_made() {
    let hub = hub().await;
    let patch = json!([
        {"op": "test", "path": "/metadata/annotations/heapfleet.dev~1claim", "value": null},
        {"op": "add", "path": "/spec/x", "value": "y"},
    ]);
    Mock::given(method("PATCH"))
        .and(path(
            "/apis/apps/v1/namespaces/trace/deployments/trace-server",
        ))
        .and(query_param("fieldManager", "heapfleet"))
        .and(query_param("fieldValidation", "Strict"))
        .and(header("content-type", "application/json-patch+json"))
        .and(body_json(&patch))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(json!({"metadata": {"name": "trace-server"}})),
        )
        .expect(1)
        .mount(&hub)
        .await;
    let id = WorkloadId {
        kind: Kind::Deployment,
        name: "trace-server".to_owned(),
    };
    let target = ResourcePath::workload("trace", &id).unwrap();
    let writer = clusters(&hub).hub_writer();
    let after = writer
        .json_patch(&target, patch.as_array().unwrap(), "heapfleet")
        .await
        .unwrap();
    assert_eq!(after["metadata"]["name"], "trace-server");
}

#[tokio::test]
async fn a_test_that_does_not_hold_means_look_again() {
    let hub = hub().await;
    let said = "the server rejected our request due to an error in our request";
    Mock::given(method("PATCH"))
        .respond_with(failure(422, "Invalid", said))
        .mount(&hub)
        .await;
    let writer = clusters(&hub).hub_writer();
    let target = ResourcePath::pods("trace").unwrap().named("p").unwrap();
    let error = writer
        .json_patch(&target, &[json!({})], "heapfleet")
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
}

#[tokio::test]
async fn evictions_and_deletions_name_the_uid_and_have_their_own_outcomes() {
    let hub = hub().await;
    let evict = async |pod: &str, reply: ResponseTemplate| {
        Mock::given(method("POST"))
            .and(path(format!(
                "/api/v1/namespaces/trace/pods/{pod}/eviction"
            )))
            .and(body_json(json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod, "namespace": "trace"},
                "deleteOptions": {"preconditions": {"uid": "u"}},
            })))
            .respond_with(reply)
            .mount(&hub)
            .await;
    };
    let done =
        ResponseTemplate::new(201).set_body_json(json!({"kind": "Status", "status": "Success"}));
    evict("well", done.clone()).await;
    evict("gone", failure(404, "NotFound", "not found")).await;
    evict(
        "other",
        failure(
            409,
            "Conflict",
            "the UID in the precondition does not match",
        ),
    )
    .await;
    evict(
        "held",
        failure(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        ),
    )
    .await;
    let writer = clusters(&hub).hub_writer();
    for (pod, outcome) in [
        ("well", Evicted::Accepted),
        ("gone", Evicted::Gone),
        ("other", Evicted::Gone),
        ("held", Evicted::Blocked),
    ] {
        assert_eq!(
            writer.evict("trace", pod, "u").await.unwrap(),
            outcome,
            "{pod}"
        );
    }
    Mock::given(method("DELETE"))
        .and(body_json(json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": "u"},
        })))
        .respond_with(done)
        .expect(1)
        .mount(&hub)
        .await;
    let journal = ResourcePath::revisions("trace")
        .unwrap()
        .named("j")
        .unwrap();
    assert_eq!(
        writer.delete(&journal, Some("u")).await.unwrap(),
        Deleted::Accepted
    );
}
