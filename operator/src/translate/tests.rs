//! Policies and classes of the examples, frozen, thawed, stored and read again.

use std::collections::BTreeMap;

use heapfleet_core::decision::Commit;
use heapfleet_core::judge;
use heapfleet_core::names::{Kind, Region, WorkloadId};
use heapfleet_core::plan::{Delivery, Limit, Scope};
use heapfleet_core::rollout::{Position, RegionState, Stage};
use heapfleet_core::status::{
    Condition, ConditionType, PolicyReport, RegionRow, RolloutReport, Truth,
};
use heapfleet_core::world::Verb;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde_json::{Value, json};

use super::*;

/// Of its own, so that an edit of an example does not move the golden hash.
const CLASS: &str = r#"
apiVersion: heapfleet.dev/v1alpha1
kind: AllocatorClass
metadata:
  name: jemalloc
spec:
  allocator: jemalloc
  version: 5.3.0
  build: {symbolPrefix: "", prof: false, stats: true}
  delivery: Preload
  preload:
    library: {source: InImage, path: libjemalloc.so.2}
    onExisting: Skip
  platforms:
  - {arch: amd64, libc: glibc, minLibc: "2.34", maxPageSize: 4Ki}
  - {arch: arm64, libc: glibc, minLibc: "2.34", maxPageSize: 64Ki}
  options:
    defaults: {background_thread: "true"}
    allowed: [background_thread, dirty_decay_ms, muzzy_decay_ms, narenas, metadata_thp]
  allowedEnv: [DYN_JEMALLOC, DYN_FRONTEND_JEMALLOC]
  verify: {by: Probe}
"#;
const DEMO: &str = r"
apiVersion: heapfleet.dev/v1alpha1
kind: AllocatorPolicy
metadata: {name: trace-demo, namespace: trace}
spec:
  allocator: {class: jemalloc}
  target: {selector: {matchLabels: {app: trace-server}}}
  rollout:
    canary: ore
    control: [fra]
    waves: [{regions: [nrt], bake: 30s}, {regions: [fra], bake: 30s}]
    stabilityWindow: 60s
  analysis:
    cache: {metric: trace_cache_accounted_bytes}
    cacheCapacity: {metric: trace_cache_capacity_bytes}
    evictions: {metric: trace_cache_evicted_bytes_total}
    requests: {metric: trace_requests_total}
    blockDuration: 1s
    delay: 1s
    baseline: 60s
    minBake: 60s
    maxBake: 10m
    restartNoise: 1.5%

";
pub(super) const COMPLETE: &str = include_str!("../../../manifests/examples/policy-complete.yaml");

pub(super) fn class() -> crds::AllocatorClass {
    serde_yaml::from_str(CLASS).unwrap()
}

pub(super) fn policy_of(text: &str) -> crds::AllocatorPolicy {
    let mut policy: crds::AllocatorPolicy = serde_yaml::from_str(text).unwrap();
    policy.metadata.uid = Some("p-1".to_owned());
    policy.metadata.generation = Some(3);
    policy
}

pub(super) fn regions() -> BTreeSet<String> {
    ["ore", "fra", "lhr", "nrt", "sin"]
        .map(str::to_owned)
        .into()
}

/// The demo's policy with one field set; `path` is a JSON pointer below `spec`.
pub(super) fn demo_with(path: &str, value: Value) -> crds::AllocatorPolicy {
    let mut json = serde_json::to_value(policy_of(DEMO)).unwrap();
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = json.pointer_mut(&format!("/spec{parent}")).unwrap();
    match parent {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            panic!("{path} is not a field")
        }
    }
    serde_json::from_value(json).unwrap()
}

fn demo() -> Intent {
    intent(&policy_of(DEMO), Some(&class()), &regions()).unwrap()
}

pub(super) fn refusal(policy: &crds::AllocatorPolicy) -> Refusal {
    intent(policy, Some(&class()), &regions()).unwrap_err()
}

#[test]
fn the_allocator_and_the_target_are_those_of_class_and_policy() {
    let plan = demo().plan;
    assert_eq!(plan.attempt, 1);
    assert_eq!(plan.allocator.class, "jemalloc");
    assert_eq!(plan.allocator.name, "jemalloc");
    assert_eq!(
        plan.allocator.delivery,
        Delivery::PreloadInImage {
            path: "libjemalloc.so.2".to_owned()
        }
    );
    assert_eq!(
        plan.allocator.options,
        BTreeMap::from([("background_thread".to_owned(), "true".to_owned())])
    );
    assert_eq!(plan.allocator.platforms[1].max_page_size, 65_536);
    assert_eq!(plan.target.kinds, [Kind::Deployment]);
    assert_eq!(plan.target.selector, "app=trace-server");
}

#[test]
fn the_order_and_the_durations_are_those_of_the_policy() {
    let plan = demo().plan;
    let waves: Vec<(&str, Vec<&str>, u32, bool)> = plan
        .waves
        .iter()
        .map(|wave| {
            let regions = wave.regions.iter().map(Region::as_str).collect();
            (
                wave.name.as_str(),
                regions,
                wave.bake_blocks,
                wave.gates.is_empty(),
            )
        })
        .collect();
    assert_eq!(
        waves,
        [
            ("canary", vec!["ore"], 60, true),
            ("wave-1", vec!["nrt"], 30, true),
            ("wave-2", vec!["fra"], 30, true)
        ]
    );
    assert_eq!(plan.control, [Region::new("fra")]);
    assert!(plan.restart_control);
    assert_eq!(plan.max_concurrent_workloads, Limit::Count(1));
    assert_eq!(plan.workload_deadline, SignedDuration::from_mins(15));
    assert_eq!(plan.stability_window, SignedDuration::from_secs(60));
    assert_eq!(plan.fixed_capacity, None);
    let judge = &plan.judge;
    assert_eq!((judge.min_bake_blocks, judge.max_bake_blocks), (60, 600));
    assert_eq!((judge.block_seconds, judge.scrape_seconds), (1.0, 0.25));
    assert_eq!((judge.delay_seconds, judge.baseline_seconds), (1.0, 60.0));
    assert_eq!((judge.max_regression, judge.min_gain), (0.03, 0.05));
    assert_eq!(judge.restart_noise, Some(0.015));
    let declared = judge::Declared {
        capacity: true,
        evictions: true,
        requests: true,
        peak: false,
    };
    assert_eq!(judge.declared, declared);
}

#[test]
fn every_knob_of_the_complete_example_arrives() {
    let mut policy = policy_of(COMPLETE);
    // What this version does not carry out is taken out; see the refusals below.
    policy.spec.rollout.windows.clear();
    policy.spec.allocator.class = "jemalloc".into();
    let plan = intent(&policy, Some(&class()), &regions()).unwrap().plan;
    assert_eq!(plan.target.kinds, [Kind::Deployment, Kind::StatefulSet]);
    assert_eq!(
        plan.target.selector,
        "app.kubernetes.io/part-of=trace,tier in (cache,frontend),!heapfleet.dev/skip"
    );
    assert_eq!(plan.target.containers, ["server"]);
    assert_eq!(plan.target.exclude, ["trace-legacy"]);
    assert_eq!(
        plan.allocator.env,
        [("DYN_JEMALLOC".to_owned(), "1".to_owned())]
    );
    assert_eq!(plan.allocator.options["dirty_decay_ms"], "5000");
    assert_eq!(plan.max_concurrent_workloads, Limit::Percent(25));
    assert_eq!(plan.on_regression.scope, Scope::Region);
    assert_eq!(plan.fixed_capacity, Some(38_654_705_664.0));
    assert_eq!(plan.waves[1].bake_blocks, 24);
    // Both the canary and the wave after it ask for a person; the last one does not.
    let gates: Vec<&[String]> = plan
        .waves
        .iter()
        .map(|wave| wave.gates.as_slice())
        .collect();
    assert_eq!(gates[0].len(), 2);
    assert!(gates[1..].iter().all(|gates| gates.is_empty()));
    let guardrails: Vec<_> = plan
        .judge
        .guardrails
        .iter()
        .map(|guardrail| (guardrail.name.as_str(), guardrail.kind, guardrail.dry_run))
        .collect();
    assert_eq!(
        guardrails,
        [
            ("p99", judge::GuardrailKind::P99, false),
            ("errors", judge::GuardrailKind::Count, false),
            ("cpuPerRequest", judge::GuardrailKind::Continuous, true),
            ("timeouts", judge::GuardrailKind::Count, false),
        ]
    );
    assert!((plan.judge.scrape_seconds - 15.0).abs() < 1e-9);
}

#[test]
fn the_hash_is_stable() {
    // A change of this value supersedes every rollout that runs when the operator is upgraded.
    assert_eq!(demo().plan.hash.as_str(), "v1-645b1cee221b69a8");
}

#[test]
fn the_hash_changes_with_what_is_done_and_with_nothing_else() {
    let before = demo().plan.hash;
    let same = [
        ("/suspend", json!(true)),
        ("/onDelete", json!("Retain")),
        ("/historyLimit", json!(3)),
    ];
    for (path, value) in same {
        let now = intent(&demo_with(path, value), Some(&class()), &regions()).unwrap();
        assert_eq!(now.plan.hash, before, "{path}");
    }
    let other = [
        ("/allocator/options", json!({"dirty_decay_ms": "5000"})),
        (
            "/allocator/env",
            json!([{"name": "DYN_JEMALLOC", "value": "1"}]),
        ),
        ("/target/selector", json!({"matchLabels": {"app": "other"}})),
        ("/target/kinds", json!(["StatefulSet"])),
        ("/target/containers", json!(["server"])),
        ("/target/exclude", json!(["legacy"])),
        (
            "/images",
            json!([{"from": "a:1", "variants": [{"arch": "amd64", "pageSize": "4Ki", "image": "a:2"}]}]),
        ),
        ("/rollout/canary", json!("lhr")),
        ("/rollout/control", json!(["fra", "lhr"])),
        ("/rollout/controlRestart", json!("None")),
        ("/rollout/waves", json!([{"regions": ["nrt"]}])),
        ("/rollout/waves/0/bake", json!("40s")),
        ("/rollout/waves/0/approval", json!("Required")),
        ("/rollout/maxConcurrentWorkloads", json!("50%")),
        ("/rollout/workloadDeadline", json!("10m")),
        ("/rollout/stabilityWindow", json!("2h")),
        ("/rollout/approval", json!("Required")),
        ("/rollout/onUnreachable", json!("Skip")),
        ("/rollout/unreachableDeadline", json!("2h")),
        ("/rollout/onRegression", json!({"action": "Freeze"})),
        ("/analysis/rss", json!({"metric": "rss"})),
        ("/analysis/cache", json!({"metric": "other"})),
        ("/analysis/cacheCapacity", json!({"value": "36Gi"})),
        ("/analysis/blockDuration", json!("2s")),
        ("/analysis/delay", json!("2s")),
        ("/analysis/baseline", json!("90s")),
        ("/analysis/minBake", json!("70s")),
        ("/analysis/maxBake", json!("20m")),
        ("/analysis/verifyDeadline", json!("1m")),
        ("/analysis/gateTimeout", json!("1h")),
        ("/analysis/restartNoise", json!("2%")),
        ("/analysis/maxRegression", json!("4%")),
        ("/analysis/minGain", json!("0%")),
        (
            "/analysis/guardrails",
            json!([{"name": "e", "count": {"metric": "errors_total"}}]),
        ),
    ];
    let mut seen = BTreeSet::from([before]);
    for (path, value) in other {
        let now = intent(&demo_with(path, value), Some(&class()), &regions()).unwrap();
        assert!(seen.insert(now.plan.hash), "{path}");
    }
    let mut class = class();
    class.spec.version = "5.3.1".to_owned();
    assert!(
        seen.insert(
            intent(&policy_of(DEMO), Some(&class), &regions())
                .unwrap()
                .plan
                .hash
        )
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_field_value_and_remedy() {
    let cases = [
        (
            "/allocator/options",
            json!({"prof": "true"}),
            Reason::OptionNotAllowed,
            "spec.allocator.options: prof=true is not allowed by class jemalloc, which allows background_thread,",
        ),
        (
            "/allocator/env",
            json!([{"name": "OTHER", "value": "1"}]),
            Reason::EnvNotAllowed,
            "spec.allocator.env: OTHER is not allowed by class jemalloc, which allows DYN_JEMALLOC,",
        ),
        (
            "/rollout/canary",
            json!("syd"),
            Reason::RegionNotFound,
            "spec.rollout.canary: there is no AllocatorRegion syd; create it",
        ),
        (
            "/rollout/control",
            json!(["syd"]),
            Reason::RegionNotFound,
            "spec.rollout.control: there is no AllocatorRegion syd",
        ),
        (
            "/rollout/waves/0/regions",
            json!(["syd"]),
            Reason::RegionNotFound,
            "spec.rollout.waves (wave-1): there is no AllocatorRegion syd",
        ),
        (
            "/rollout/unassignedRegions",
            json!("Fail"),
            Reason::InvalidSpec,
            "spec.rollout.unassignedRegions is Fail and region lhr is in no wave",
        ),
        (
            "/rollout/windows",
            json!([{"cron": "0 8 * * 1-4", "duration": "8h"}]),
            Reason::InvalidSpec,
            "spec.rollout.windows: the window 0 8 * * 1-4",
        ),
        (
            "/analysis/preset",
            json!("redis"),
            Reason::InvalidSpec,
            "spec.analysis.preset: there is no preset redis",
        ),
        (
            "/analysis/minBake",
            json!("12s"),
            Reason::InvalidSpec,
            "spec.analysis: minBakeBlocks is out of range",
        ),
    ];
    for (path, value, reason, start) in cases {
        let refusal = refusal(&demo_with(path, value));
        assert_eq!(refusal.reason, reason, "{path}: {}", refusal.message);
        assert!(
            refusal.message.starts_with(start),
            "{path}: {}",
            refusal.message
        );
    }
    let refusal = intent(&policy_of(DEMO), None, &regions()).unwrap_err();
    assert_eq!(refusal.reason, Reason::ClassNotFound);
    let mut class = class();
    class.spec.verify.by = crds::VerifyBy::Metric;
    let refusal = intent(&policy_of(DEMO), Some(&class), &regions()).unwrap_err();
    assert_eq!(refusal.reason, Reason::DeliveryUnsupported);
}

#[test]
fn regions_in_no_wave_can_join_the_last_one() {
    let joined = demo_with("/rollout/unassignedRegions", json!("LastWave"));
    let plan = intent(&joined, Some(&class()), &regions()).unwrap().plan;
    let last: Vec<&str> = plan.waves[2].regions.iter().map(Region::as_str).collect();
    assert_eq!(last, ["fra", "lhr", "sin"]);
}

pub(super) fn rollout_of(frozen: &crds::Plan) -> crds::AllocatorRollout {
    let spec = crds::AllocatorRolloutSpec {
        plan: frozen.clone(),
        state: crds::RolloutState::Run,
        approvals: Vec::new(),
    };
    let mut rollout = crds::AllocatorRollout::new("trace-demo-0123abcd-1", spec);
    rollout.metadata.generation = Some(1);
    rollout
}

#[test]
fn a_frozen_plan_gives_the_plan_that_was_frozen() {
    let intent = demo();
    let json = serde_json::to_string(&rollout_of(&intent.frozen)).unwrap();
    let read: crds::AllocatorRollout = serde_json::from_str(&json).unwrap();
    let attempt = attempt(&read).unwrap();
    assert_eq!(attempt.plan, intent.plan);
    assert_eq!((attempt.state, attempt.position), (Verb::Run, None));
    let second = Plan {
        attempt: 2,
        ..intent.plan.clone()
    };
    assert_eq!(as_attempt(&intent.frozen, &second).unwrap().attempt, 2);
    let other = Plan {
        hash: heapfleet_core::names::PlanHash::new("v1-00"),
        ..intent.plan
    };
    assert_eq!(as_attempt(&intent.frozen, &other), None);
}

#[test]
fn the_canary_asks_after_itself_and_a_wave_before_itself() {
    let mut policy = demo_with("/rollout/waves/0/approval", json!("Required"));
    policy.spec.rollout.approval = crds::Approval::Required;
    let frozen = intent(&policy, Some(&class()), &regions()).unwrap().frozen;
    let mut rollout = rollout_of(&frozen);
    rollout.spec.approvals.push(crds::ApprovalRecord {
        gate: "canary".into(),
        by: "sam".to_owned(),
        at: meta::Time(Timestamp::UNIX_EPOCH),
    });
    let attempt = attempt(&rollout).unwrap();
    assert_eq!(attempt.plan.waves[0].gates, ["canary", "wave-1"]);
    assert_eq!(attempt.approvals, ["canary"]);
}

pub(super) fn position() -> Position {
    let now: Timestamp = "2026-11-30T12:00:00.25Z".parse().unwrap();
    let mut position = Position::new(now);
    let region = RegionState {
        stage: Stage::Baking,
        since: now,
        workloads: BTreeMap::new(),
        refused: BTreeMap::new(),
        changed_at: Some(now),
        bake_started: Some(now),
        look: None,
        failed: None,
        unreachable_since: None,
        sizes: BTreeMap::new(),
        frozen: BTreeMap::from([(
            WorkloadId {
                kind: Kind::Deployment,
                name: "trace-server".to_owned(),
            },
            frozen_by_the_judge(),
        )]),
        evidence: BTreeMap::new(),
        learned: BTreeMap::new(),
    };
    position.regions.insert(Region::new("ore"), region);
    position
}

pub(super) fn frozen_by_the_judge() -> judge::Frozen {
    serde_json::from_value(json!({
        "version": 1, "window": [0, 60], "metrics": [], "sigma0": 0.04, "cold": true,
        "cacheMedian": {"ore": 1.5e9}, "load": {"ore": {"mean": 12.5}}, "counts": {},
    }))
    .unwrap()
}

fn commit() -> Commit {
    let condition = Condition {
        kind: ConditionType::Ready,
        status: Truth::False,
        reason: Reason::Progressing,
        message: "The attempt is at work.".to_owned(),
    };
    let row = RegionRow {
        name: Region::new("ore"),
        wave: "canary".to_owned(),
        state: "Baking".to_owned(),
        workloads: 1,
        injected: 1,
        proven: "2/2".to_owned(),
        bake_started: Some("2026-11-30T12:00:00.25Z".parse().unwrap()),
        blocks: 12,
        blocks_needed: 60,
        ratio: "1.04".to_owned(),
        control_ratio: "2.31".to_owned(),
        change: "-55.0%".to_owned(),
        interval: "-56.1% … -51.9%".to_owned(),
        verdict: "Inconclusive".to_owned(),
        reason: "MinBake".to_owned(),
        message: "12 of 60 blocks.".to_owned(),
        assumptions: Vec::new(),
        diagnosis: Vec::new(),
    };
    Commit {
        attempt: "trace-demo-0123abcd-1".to_owned(),
        position: position(),
        report: RolloutReport {
            phase: "Baking".to_owned(),
            region: "ore".to_owned(),
            verdict: "Inconclusive".to_owned(),
            regions: vec![row],
            conditions: vec![condition],
        },
    }
}

#[test]
fn a_position_is_put_together_again_as_it_was() {
    let now: Timestamp = "2026-11-30T12:00:05.75Z".parse().unwrap();
    let mut rollout = rollout_of(&demo().frozen);
    let status = rollout_status(&rollout, &commit(), now).unwrap();
    assert!(
        !status.position.as_ref().unwrap().data.contains("sigma0"),
        "evidence is apart"
    );
    assert_eq!(status.evidence.len(), 1);
    rollout.status = Some(serde_json::from_value(serde_json::to_value(&status).unwrap()).unwrap());
    assert_eq!(attempt(&rollout).unwrap().position, Some(position()));
    // What was read back is what would be written again: a pass without news writes nothing.
    let later: Timestamp = "2026-11-30T12:00:09Z".parse().unwrap();
    assert_eq!(
        rollout.status.as_ref(),
        Some(&rollout_status(&rollout, &commit(), later).unwrap())
    );
}

#[test]
fn finished_regions_keep_no_evidence() {
    let mut commit = commit();
    commit
        .position
        .regions
        .get_mut(&Region::new("ore"))
        .unwrap()
        .stage = Stage::Failed;
    let status = rollout_status(&rollout_of(&demo().frozen), &commit, Timestamp::UNIX_EPOCH);
    assert!(status.unwrap().evidence.is_empty());
}

#[test]
fn what_cannot_be_read_is_an_error_and_never_a_fresh_start() {
    let now = Timestamp::UNIX_EPOCH;
    let fresh = rollout_of(&demo().frozen);
    let status = rollout_status(&fresh, &commit(), now).unwrap();
    let with = |change: &dyn Fn(&mut crds::AllocatorRolloutStatus)| {
        let mut rollout = fresh.clone();
        let mut status = status.clone();
        change(&mut status);
        rollout.status = Some(status);
        attempt(&rollout).unwrap_err().to_string()
    };
    let error = with(&|status| status.position.as_mut().unwrap().version = 2);
    assert!(
        error.contains("form 2 is not known to this version"),
        "{error}"
    );
    let error = with(&|status| status.position.as_mut().unwrap().data = "{".to_owned());
    assert!(error.contains("status.position cannot be read"), "{error}");
    let error = with(&|status| status.evidence[0].data = "AAAA".to_owned());
    assert!(
        error.contains("status.evidence of ore cannot be read"),
        "{error}"
    );
    let mut rollout = fresh.clone();
    rollout.spec.plan.analysis.block_duration = "soon".into();
    let error = attempt(&rollout).unwrap_err().to_string();
    assert!(
        error.contains("spec.analysis.blockDuration: soon"),
        "{error}"
    );
}

#[test]
fn a_transition_time_moves_only_with_a_flip() {
    let mut rollout = rollout_of(&demo().frozen);
    let at = |second| Timestamp::from_second(second).unwrap();
    rollout.status = Some(rollout_status(&rollout, &commit(), at(100)).unwrap());
    rollout.metadata.generation = Some(2);
    let mut next = commit();
    next.report.conditions[0].message = "Other words.".to_owned();
    let same = rollout_status(&rollout, &next, at(200)).unwrap().conditions;
    assert_eq!(same[0].last_transition_time.0, at(100));
    assert_eq!(
        (same[0].observed_generation, same[0].message.as_str()),
        (Some(2), "Other words.")
    );
    next.report.conditions[0].status = Truth::True;
    let flipped = rollout_status(&rollout, &next, at(300)).unwrap().conditions;
    assert_eq!(flipped[0].last_transition_time.0, at(300));
}

#[test]
fn a_policy_status_is_printable() {
    let report = PolicyReport {
        phase: "Promoted".to_owned(),
        summary: "All waves are done.".to_owned(),
        attempt: Some("trace-demo-0123abcd-1".to_owned()),
        plan_hash: Some("v1-0123abcd01234567".to_owned()),
        canary: commit().report.regions.pop(),
        waves: "3/3".to_owned(),
        ..PolicyReport::default()
    };
    let status = policy_status(&policy_of(DEMO), &report, Timestamp::UNIX_EPOCH);
    assert_eq!(status.phase, Some(crds::Phase::Complete));
    assert_eq!(status.plan_hash.as_deref(), Some("0123abcd01234567"));
    assert_eq!(status.class.as_deref(), Some("jemalloc"));
    assert_eq!(status.observed_generation, Some(3));
    let canary = status.canary.unwrap();
    assert_eq!(canary.ratios.as_deref(), Some("1.04 / 2.31"));
    assert_eq!(canary.verdict, Some(crds::Verdict::Inconclusive));
    let policy = policy(&policy_of(DEMO));
    assert!(!policy.finalizer && policy.restore_on_delete && !policy.deleting);
    assert_eq!((policy.history_limit, policy.generation), (10, 3));
}
