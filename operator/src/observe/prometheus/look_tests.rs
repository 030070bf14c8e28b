//! Looks at a Prometheus that answers well, badly, late or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heapfleet_core::names::{Kind, WorkloadId};
use heapfleet_core::world::SeriesId;
use tokio::sync::Semaphore;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::clusters::{Class, PrometheusLink};
use crate::observe::series::{Aggregate, Guardrail, Series, SeriesSpec, Source};

const NOW: i64 = 1_700_000_000_000;

fn series(metric: &str, by_container: bool) -> Series {
    Series {
        source: Source::Metric(metric.to_owned()),
        matchers: BTreeMap::new(),
        pod_label: "pod".to_owned(),
        aggregate: Aggregate::Sum,
        by_container,
    }
}

fn spec() -> SeriesSpec {
    SeriesSpec {
        judged: vec![
            (SeriesId::Rss, series("heapfleet_probe_rss_bytes", true)),
            (SeriesId::Cache, series("cache_bytes", false)),
        ],
        guardrails: Vec::new(),
        proof: series("heapfleet_probe_allocator_info", true),
        start: series("heapfleet_probe_start_time_seconds", true),
        block: Duration::from_mins(1),
    }
}

struct Scene {
    spec: SeriesSpec,
    workloads: BTreeMap<WorkloadId, String>,
    known: BTreeMap<String, WorkloadId>,
    region: BTreeMap<String, String>,
}

impl Scene {
    fn new() -> Self {
        let id = |name: &str| WorkloadId {
            kind: Kind::Deployment,
            name: name.to_owned(),
        };
        Self {
            spec: spec(),
            workloads: BTreeMap::from([(id("trace"), "server".to_owned())]),
            known: BTreeMap::from([("trace-bcd-fghjk".to_owned(), id("other"))]),
            region: BTreeMap::from([("region".to_owned(), "nrt\"".to_owned())]),
        }
    }

    fn ask(&self, seconds: i64) -> Ask<'_> {
        Ask {
            spec: &self.spec,
            proof_only: false,
            namespace: "trace",
            workloads: &self.workloads,
            known: &self.known,
            region: &self.region,
            allow_raw: false,
            from: NOW - seconds * 1_000,
            to: NOW,
        }
    }
}

fn prometheus(url: &str, deadline: Duration, limits: Limits) -> Prometheus {
    let link = PrometheusLink {
        who: "Prometheus of region nrt".to_owned(),
        region: "nrt".to_owned(),
        url: url.to_owned(),
        http: reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()
            .unwrap(),
        slots: Semaphore::new(4),
        deadline,
    };
    Prometheus::new(Arc::new(link), limits).unwrap()
}

fn at(server: &MockServer) -> Prometheus {
    prometheus(&server.uri(), Duration::from_secs(5), Limits::default())
}

async fn answering(
    reply: impl Fn(&Asked) -> ResponseTemplate + Send + Sync + 'static,
) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/api/v1/query"))
        .respond_with(move |request: &Request| reply(&Asked::of(request)))
        .mount(&server)
        .await;
    server
}

/// A query as it went over the wire.
struct Asked {
    query: String,
    time: String,
    timeout: String,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let body = String::from_utf8(request.body.clone()).unwrap();
        let url = reqwest::Url::parse(&format!("http://x/?{body}")).unwrap();
        let fields: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        Self {
            query: field("query"),
            time: field("time"),
            timeout: field("timeout"),
        }
    }

    /// The stretch that is asked for, milliseconds since the epoch.
    fn stretch(&self) -> (i64, i64) {
        let to = millis(&self.time);
        let (_, window) = self.query.rsplit_once('[').unwrap();
        let millis: i64 = window.split("ms").next().unwrap().parse().unwrap();
        (to - millis, to)
    }
}

/// Seconds with at most three decimals, as milliseconds.
fn millis(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<3}").parse().unwrap()
}

fn matrix(result: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(
        format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}"#),
        "application/json",
    )
}

fn one(labels: &str, samples: &str) -> String {
    format!(r#"{{"metric":{{{labels}}},"values":[{samples}]}}"#)
}

#[tokio::test]
async fn samples_go_to_the_pods_that_they_are_of() {
    let server = answering(|asked| {
        let pod = r#""pod":"trace-6d5c7f8b9d-x7k2p""#;
        let t = "1699999990";
        if asked.query.starts_with("heapfleet_probe_rss_bytes{") {
            return matrix(&[
                one(&format!(r#"{pod},"container":"server""#), &format!(r#"[{t}.25,"100"],[1699999991.25,"NaN"]"#)),
                one(&format!(r#"{pod},"container":"side""#), &format!(r#"[{t},"7"]"#)),
                // Another workload's pod, whose name could be one of ours.
                one(r#""pod":"trace-bcd-fghjk","container":"server""#, &format!(r#"[{t},"8"]"#)),
            ].join(","));
        }
        if asked.query.starts_with("cache_bytes{") {
            return matrix(&[
                one(&format!(r#"{pod},"cache":"a""#), &format!(r#"[{t},"40"]"#)),
                one(&format!(r#"{pod},"cache":"b""#), &format!(r#"[{t},"2"]"#)),
                one(r#""pod":"trace-server-x7k2p""#, &format!(r#"[{t},"1"]"#)),
            ].join(","));
        }
        if asked.query.starts_with("heapfleet_probe_allocator_info{") {
            return matrix(&[
                one(&format!(r#"{pod},"container":"server","allocator":"glibc""#), r#"[1699999980,"1"]"#),
                one(&format!(r#"{pod},"container":"server","allocator":"jemalloc""#), r#"[1699999985,"1"],[1699999995,"1"]"#),
                one(&format!(r#"{pod},"container":"server","allocator":"mimalloc""#), r#"[1699999995,"0"]"#),
            ].join(","));
        }
        matrix(&one(
            &format!(r#"{pod},"container":"server""#),
            r#"[1699999980,"1699999000.02"],[1699999985,"1699999000.03"],[1699999995,"1699999500"]"#,
        ))
    })
    .await;
    let scene = Scene::new();
    let seen = look(&at(&server), &scene.ask(60)).await.unwrap();
    assert_eq!(
        seen.pods.keys().collect::<Vec<_>>(),
        ["trace-6d5c7f8b9d-x7k2p"]
    );
    let pod = &seen.pods["trace-6d5c7f8b9d-x7k2p"];
    assert_eq!(pod.series[&SeriesId::Rss], [(1_699_999_990.25, 100.0)]);
    assert_eq!(pod.series[&SeriesId::Cache], [(1_699_999_990.0, 42.0)]);
    assert_eq!(pod.starts, [1_699_999_000.02, 1_699_999_500.0]);
    assert_eq!(
        pod.allocators
            .iter()
            .map(|(name, at)| (name.as_str(), *at))
            .collect::<Vec<_>>(),
        [("glibc", 1_699_999_980.0), ("jemalloc", 1_699_999_995.0)]
    );
}

#[tokio::test]
async fn queries_carry_their_scope_escaped_and_end_at_the_time_of_the_look() {
    let server = answering(|_| matrix("")).await;
    let scene = Scene::new();
    let seen = look(&at(&server), &scene.ask(60)).await.unwrap();
    assert!(seen.pods.is_empty());
    let asked: Vec<Asked> = server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .map(Asked::of)
        .collect();
    assert_eq!(asked.len(), 4);
    let rss = asked
        .iter()
        .find(|asked| asked.query.starts_with("heapfleet_probe_rss"))
        .unwrap();
    assert_eq!(
        rss.query,
        "heapfleet_probe_rss_bytes{namespace=\"trace\",pod=~\"trace-[bcdfghjklmnpqrstvwxz2456789]{1,10}-\
         [bcdfghjklmnpqrstvwxz2456789]{5}\",container=~\"server\",region=\"nrt\\\"\"}[60000ms]"
    );
    assert_eq!(
        (rss.time.as_str(), rss.timeout.as_str()),
        ("1700000000", "5000ms")
    );
    let cache = asked
        .iter()
        .find(|asked| asked.query.starts_with("cache_bytes"))
        .unwrap();
    assert!(!cache.query.contains("container"), "{}", cache.query);
}

#[tokio::test]
async fn only_the_proof_is_asked_for_when_nothing_else_is_wanted() {
    let server = answering(|_| matrix("")).await;
    let scene = Scene::new();
    let ask = Ask {
        proof_only: true,
        ..scene.ask(60)
    };
    look(&at(&server), &ask).await.unwrap();
    assert_eq!(server.received_requests().await.unwrap().len(), 2);
}

/// A server with a sample every `every` milliseconds, both edges included as Prometheus 2 has it.
fn dense(asked: &Asked, every: i64) -> ResponseTemplate {
    let (from, to) = asked.stretch();
    let first = (from + every - 1).div_euclid(every) * every;
    let samples: Vec<String> = (first..=to)
        .step_by(usize::try_from(every).unwrap())
        .map(|at| format!(r#"[{}.{:03},"5"]"#, at / 1_000, at % 1_000))
        .collect();
    let labels = r#""pod":"trace-6d5c7f8b9d-x7k2p","container":"server""#;
    matrix(&one(labels, &samples.join(",")))
}

#[tokio::test]
async fn a_long_window_is_read_in_stretches_that_meet_without_gap_or_repetition() {
    let server = answering(|asked| dense(asked, 250)).await;
    let mut scene = Scene::new();
    scene.spec.judged.truncate(1);
    let limits = Limits {
        points: 2_000,
        ..Limits::default()
    };
    let prometheus = prometheus(&server.uri(), Duration::from_secs(5), limits);
    let seen = look(&prometheus, &scene.ask(3_600)).await.unwrap();
    let samples = &seen.pods["trace-6d5c7f8b9d-x7k2p"].series[&SeriesId::Rss];
    assert_eq!(samples.len(), 4 * 3_600 + 1);
    assert!(
        samples
            .windows(2)
            .all(|pair| (pair[1].0 - pair[0].0 - 0.25).abs() < 1e-6)
    );
    let asked = server.received_requests().await.unwrap();
    let rss: Vec<(i64, i64)> = asked
        .iter()
        .map(Asked::of)
        .filter(|asked| asked.query.starts_with("heapfleet_probe_rss"))
        .map(|asked| asked.stretch())
        .collect();
    assert_eq!(
        rss[0],
        (NOW - 300_000, NOW),
        "the newest first, up to the time of the look"
    );
    assert!(
        rss.len() > 5 && rss[1..].iter().all(|(from, to)| to - from <= 500_000),
        "{rss:?}"
    );
}

#[tokio::test]
async fn a_look_that_holds_too_much_is_refused_with_a_remedy() {
    let server = answering(|asked| dense(asked, 250)).await;
    let limits = Limits {
        most: 5_000,
        ..Limits::default()
    };
    let prometheus = prometheus(&server.uri(), Duration::from_secs(5), limits);
    let error = look(&prometheus, &Scene::new().ask(3_600))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("more than 5000 samples of one series; shorten"),
        "{error}"
    );
    assert_eq!(error.class(), Class::Invalid);
}

#[tokio::test]
async fn guardrails_are_asked_for_by_block_and_stand_in_its_middle() {
    let server = answering(|asked| {
        if asked.query.contains("histogram_quantile") {
            return matrix(&one(
                r#""pod":"trace-6d5c7f8b9d-x7k2p""#,
                r#"[1699999980,"0.25"],[1700000040,"NaN"]"#,
            ));
        }
        matrix("")
    })
    .await;
    let mut scene = Scene::new();
    let labelled = |metric: &str, label: &str| Series {
        pod_label: label.to_owned(),
        ..series(metric, false)
    };
    scene.spec.guardrails = vec![
        (
            "p99".to_owned(),
            Guardrail::Quantile {
                buckets: series("d_bucket", false),
                quantile: 0.99,
            },
        ),
        (
            "cpu".to_owned(),
            Guardrail::Quotient {
                numerator: series("cpu_total", false),
                denominator: labelled("req_total", "kube_pod"),
            },
        ),
        (
            "errors".to_owned(),
            Guardrail::Count {
                events: series("err_total", false),
                per: Some(series("all_total", false)),
            },
        ),
    ];
    let seen = look(&at(&server), &scene.ask(120)).await.unwrap();
    let p99 = &seen.pods["trace-6d5c7f8b9d-x7k2p"].series[&SeriesId::Guardrail("p99".to_owned())];
    assert_eq!(*p99, [(1_699_999_950.0, 0.25)]);
    let asked: Vec<String> = server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .map(|request| Asked::of(request).query)
        .collect();
    let with = |start: &str| {
        asked
            .iter()
            .find(|query| query.starts_with(start))
            .unwrap()
            .clone()
    };
    assert!(
        with("(histogram_quantile(0.99, sum by (pod,le) (rate(d_bucket{")
            .ends_with("[60000ms]))))[120000ms:60000ms]")
    );
    let quotient = with("((sum by (pod) (rate(cpu_total{");
    assert!(
        quotient
            .contains("sum by (pod) (label_replace(rate(req_total{namespace=\"trace\",kube_pod=~"),
        "{quotient}"
    );
    assert!(
        quotient.contains("\"pod\", \"$1\", \"kube_pod\", \"(.*)\"))"),
        "{quotient}"
    );
    assert!(with("err_total{").ends_with("}[120000ms]"));
    assert!(with("all_total{").ends_with("}[120000ms]"));
}

#[tokio::test]
async fn raw_queries_need_the_regions_leave_and_get_their_scope() {
    let server = answering(|_| matrix("")).await;
    let mut scene = Scene::new();
    scene.spec.judged[1].1.source = Source::Raw("max by (pod) (m{$matchers,x=\"y\"})".to_owned());
    let refused = look(&at(&server), &scene.ask(60)).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("region nrt: spec.prometheus.allowRawQueries is false"),
        "{refused}"
    );
    assert!(
        server.received_requests().await.unwrap().is_empty(),
        "nothing was asked"
    );
    look(
        &at(&server),
        &Ask {
            allow_raw: true,
            ..scene.ask(60)
        },
    )
    .await
    .unwrap();
    let asked = server.received_requests().await.unwrap();
    let raw = asked
        .iter()
        .map(Asked::of)
        .find(|asked| asked.query.contains("max by"))
        .unwrap();
    assert!(
        raw.query
            .starts_with("((max by (pod) (m{namespace=\"trace\",pod=~"),
        "{}",
        raw.query
    );
    assert!(
        raw.query
            .ends_with(",region=\"nrt\\\"\",x=\"y\"})))[60000ms:15000ms]"),
        "{}",
        raw.query
    );
}

/// What a look says of an answer to the query of `metric`; the others find nothing.
async fn says_of(metric: &'static str, result: String, raw: bool) -> String {
    let server = answering(move |asked| {
        if asked.query.contains(metric) {
            return matrix(&result);
        }
        matrix("")
    })
    .await;
    let mut scene = Scene::new();
    if raw {
        scene.spec.judged[1].1.source = Source::Raw("max(cache_bytes{$matchers})".to_owned());
    }
    let ask = Ask {
        allow_raw: raw,
        ..scene.ask(60)
    };
    let error = look(&at(&server), &ask).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    error.to_string()
}

/// T-4: a label of the declared set is missing.
#[tokio::test]
async fn a_series_of_no_pod_is_an_error_with_examples() {
    let series: Vec<String> = (0..7)
        .map(|i| one(&format!(r#""zone":"z{i}""#), r#"[1699999990,"1"]"#))
        .collect();
    assert_eq!(
        says_of("cache_bytes", series.join(","), true).await,
        "Prometheus of region nrt: spec.analysis.cache: 7 series without the label pod, such as {zone=\"z0\"}, {zone=\"z1\"}, \
         {zone=\"z2\"}, {zone=\"z3\"}, {zone=\"z4\"}, …; keep the label in the query, as with `by (pod)`, or set podLabel"
    );
    let empty = one(r#""pod":"""#, r#"[1699999990,"1"]"#);
    let said = says_of("heapfleet_probe_rss_bytes", empty, false).await;
    assert!(
        said.contains("spec.analysis.rss: 1 series without the label pod"),
        "{said}"
    );
}

/// T-6: more than the declared series is never "take one of them".
#[tokio::test]
async fn two_things_scraped_at_once_in_one_pod_are_an_error() {
    let samples: Vec<String> = (0..20)
        .map(|i| format!(r#"[{},"{i}"]"#, 1_699_999_950 + i))
        .collect();
    let pod = r#""pod":"trace-6d5c7f8b9d-x7k2p""#;
    let of = |target: &str| one(&format!("{pod},{target}"), &samples.join(","));
    let both = [of(r#""instance":"a:1""#), of(r#""instance":"a:2""#)].join(",");
    assert_eq!(
        says_of("cache_bytes", both, false).await,
        "Prometheus of region nrt: spec.analysis.cache: 1 pods have series of two targets at once: \
         trace-6d5c7f8b9d-x7k2p (instance=\"a:1\" and instance=\"a:2\"); add matchers that leave one"
    );
}

async fn fails_with(reply: ResponseTemplate) -> PrometheusError {
    let server = answering(move |_| reply.clone()).await;
    look(&at(&server), &Scene::new().ask(60)).await.unwrap_err()
}

#[tokio::test]
async fn bad_answers_are_told_apart_in_stable_words() {
    let json = |code: u16, body: &str| {
        ResponseTemplate::new(code).set_body_raw(body.to_owned(), "application/json")
    };
    let cases = [
        (
            ResponseTemplate::new(503).set_body_string("Service Unavailable"),
            Class::Transient,
            "Prometheus of region nrt: it is not ready, or nothing answers behind its address (503)",
        ),
        (
            ResponseTemplate::new(302).insert_header("location", "http://elsewhere/"),
            Class::Invalid,
            "Prometheus of region nrt: answered 302",
        ),
        (
            ResponseTemplate::new(401),
            Class::Forbidden,
            "Prometheus of region nrt: the credentials are not accepted (401)",
        ),
        (
            json(
                200,
                r#"{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["store gave up"]}"#,
            ),
            Class::Transient,
            "Prometheus of region nrt: partial answer: store gave up",
        ),
        (
            json(
                400,
                r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#,
            ),
            Class::Invalid,
            "Prometheus of region nrt: the query was refused: parse error: unexpected end",
        ),
        (
            json(200, "{\"status\":\"succ"),
            Class::Invalid,
            "Prometheus of region nrt: an answer that is not a matrix of samples",
        ),
    ];
    for (reply, class, words) in cases {
        let error = fails_with(reply).await;
        assert_eq!((error.class(), error.to_string().as_str()), (class, words));
    }
}

#[tokio::test]
async fn a_slow_answer_ends_at_the_deadline() {
    let server = answering(|_| matrix("").set_delay(Duration::from_secs(30))).await;
    let prometheus = prometheus(&server.uri(), Duration::from_millis(300), Limits::default());
    let began = Instant::now();
    let error = look(&prometheus, &Scene::new().ask(60)).await.unwrap_err();
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        error.to_string(),
        "Prometheus of region nrt: no answer within 300ms"
    );
    assert_eq!(error.class(), Class::Transient);
}

/// A server that begins an answer and then says nothing more.
#[tokio::test]
async fn a_body_that_stops_midway_ends_at_the_deadline() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0_u8; 1_024];
            let read = socket.read(&mut request).await.unwrap();
            assert!(read > 0);
            let begun = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{\"status\":\"succ";
            socket.write_all(begun.as_bytes()).await.unwrap();
            held.push(socket);
        }
    });
    let prometheus = prometheus(&url, Duration::from_millis(300), Limits::default());
    let error = look(&prometheus, &Scene::new().ask(60)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Prometheus of region nrt: no answer within 300ms"
    );
    serving.abort();
}

#[tokio::test]
async fn nobody_there_reads_as_connection_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let prometheus = prometheus(&url, Duration::from_secs(5), Limits::default());
    let error = look(&prometheus, &Scene::new().ask(60)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Prometheus of region nrt: connection refused"
    );
    assert_eq!(error.class(), Class::Transient);
}

#[tokio::test]
async fn a_path_before_the_api_is_kept() {
    let server = MockServer::start().await;
    Mock::given(path("/tenant/prometheus/api/v1/query"))
        .respond_with(matrix(""))
        .mount(&server)
        .await;
    let url = format!("{}/tenant/prometheus/", server.uri());
    let prometheus = prometheus(&url, Duration::from_secs(5), Limits::default());
    prometheus.answers(NOW).await.unwrap();
}

#[tokio::test]
async fn nothing_is_asked_of_nobody() {
    let server = answering(|_| ResponseTemplate::new(500)).await;
    let mut scene = Scene::new();
    assert!(
        look(&at(&server), &scene.ask(0))
            .await
            .unwrap()
            .pods
            .is_empty()
    );
    scene.workloads.clear();
    assert!(
        look(&at(&server), &scene.ask(60))
            .await
            .unwrap()
            .pods
            .is_empty()
    );
    assert!(server.received_requests().await.unwrap().is_empty());
}
