//! Properties of judge.md part C that are tables of cases: what is missing or closed is never a Pass (5, 8, 9), the order of
//! verdicts (10), the diagnosis (23), the cost of a look (24).
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use heapfleet_core::judge::{
    Capacity, Code, ControlRestart, GuardrailSeries, Identity, Look, LookInput, Seen, Series,
    Settings, Verdict, look,
};
use world::{BLOCK, World, all_series, map, pods};

/// A world that passes.
fn passing(seed: u64, identity: Identity) -> (World, Settings, LookInput) {
    let world = World {
        seed,
        effect: -0.4,
        latency: true,
        identity,
        ..World::default()
    };
    let (settings, input) = (world.settings(), world.input());
    (world, settings, input)
}

fn judge(settings: &Settings, input: &LookInput) -> Look {
    look(settings, None, input)
}

/// Everything a look says, less what is only carried, as text.
fn said(look: &Look) -> String {
    serde_json::to_string(look).unwrap()
}

/// 5. No verdict from empty data.
#[test]
fn nothing_is_no_verdict() {
    let world = World::default();
    let (settings, full) = (world.settings(), world.input());
    let clear = |input: &mut LookInput, keep: &dyn Fn(f64) -> bool| {
        for pod in pods(input) {
            for series in all_series(pod) {
                series.replicas[0].retain(|(t, _)| keep(*t));
            }
        }
    };
    let since = world.change().began;
    let mut cases: Vec<(&str, LookInput)> = vec![("nothing at all", LookInput::default())];
    let mut none = full.clone();
    none.canary.pods.clear();
    cases.push(("no canary", none));
    let mut none = full.clone();
    none.controls.clear();
    cases.push(("no control region", none));
    let mut none = full.clone();
    none.controls[0].pods.clear();
    cases.push(("no control pods", none));
    let mut none = full.clone();
    clear(&mut none, &|_| false);
    cases.push(("no samples", none));
    let mut none = full.clone();
    clear(&mut none, &|t| t > since);
    cases.push(("no baseline", none));
    let mut none = full.clone();
    clear(&mut none, &|t| t < since);
    cases.push(("no bake", none));
    let mut none = full.clone();
    for pod in pods(&mut none) {
        map(&mut pod.rss, |(t, _)| (t, f64::NAN));
    }
    cases.push(("all NaN", none));
    let mut none = full.clone();
    for pod in pods(&mut none) {
        map(&mut pod.rss, |(t, _)| (t, 1e9));
    }
    cases.push(("all stuck", none));
    let mut none = full.clone();
    for pod in pods(&mut none) {
        map(&mut pod.cache, |(t, _)| (t, 0.0));
    }
    cases.push(("zero cache", none));
    let mut none = full.clone();
    none.now = f64::NAN;
    cases.push(("no clock", none));
    let mut none = full.clone();
    none.change.as_mut().unwrap().ended = f64::INFINITY;
    cases.push(("an endless restart", none));
    let mut none = full;
    none.now = since - 1e5;
    cases.push(("a clock that steps back", none));
    for (name, input) in cases {
        let seen = judge(&settings, &input);
        assert_eq!(
            seen.verdict,
            Verdict::InsufficientData,
            "{name}: {}",
            seen.sentence()
        );
        assert!(seen.next_look.is_nan() == input.now.is_nan(), "{name}");
    }
}

/// How a gate is closed.
type Close = (Code, Box<dyn Fn(&mut LookInput)>);

/// 8. Every gate, closed on its own in a case that passes, prevents the Pass.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of every gate")]
fn a_closed_gate_is_never_a_pass() {
    for identity in [Identity::Stable, Identity::None] {
        let (world, settings, input) = passing(5, identity);
        assert_eq!(judge(&settings, &input).verdict, Verdict::Pass);
        let since = world.change().began;
        let late = move |t: f64, from: f64| t > since + from * BLOCK;
        let closes: Vec<Close> = vec![
            (
                Code::NoCanaryData,
                Box::new(move |i| each(&mut i.canary.pods, |t, v| (!late(t, 0.0)).then_some(v))),
            ),
            (
                Code::NoControlData,
                Box::new(move |i| {
                    each(&mut i.controls[0].pods, |t, v| (!late(t, 0.0)).then_some(v));
                }),
            ),
            (
                Code::StaleData,
                Box::new(move |i| each(&mut i.canary.pods, |t, v| (!late(t, 50.0)).then_some(v))),
            ),
            (
                Code::StuckExporter,
                Box::new(move |i| {
                    each(&mut i.canary.pods, |t, v| {
                        Some(if late(t, 50.0) { 3e9 } else { v })
                    });
                }),
            ),
            (
                Code::LowCoverage,
                Box::new(move |i| each(&mut i.canary.pods, |t, v| (!late(t, 62.0)).then_some(v))),
            ),
            (
                Code::NoBaseline,
                Box::new(move |i| each(&mut i.canary.pods, |t, v| late(t, 0.0).then_some(v))),
            ),
            (
                Code::VersionMismatch,
                Box::new(|i| {
                    for pod in &mut i.canary.pods {
                        pod.version = Some("sha256:b".to_owned());
                    }
                }),
            ),
            (
                Code::AllocatorUnverified,
                Box::new(|i| {
                    for pod in &mut i.canary.pods {
                        pod.allocator.seen = Seen::Unknown;
                    }
                }),
            ),
            (
                Code::CacheNotFull,
                Box::new(|i| {
                    for pod in &mut i.canary.pods {
                        pod.capacity = Capacity::Fixed(8e9);
                    }
                }),
            ),
            (
                Code::NotEvicting,
                Box::new(move |i| {
                    for pod in &mut i.controls[0].pods {
                        map(&mut pod.evictions, |(t, v)| {
                            (t, if late(t, 50.0) { 5e9 } else { v.min(5e9) })
                        });
                    }
                }),
            ),
            (
                Code::LoadUnsteady,
                Box::new(move |i| {
                    for pod in &mut i.canary.pods {
                        map(&mut pod.requests, |(t, v)| {
                            (t, if late(t, 50.0) { 5.0 * v } else { v })
                        });
                    }
                }),
            ),
            (
                Code::ChurnParity,
                Box::new(|i| {
                    for pod in &mut i.canary.pods {
                        map(&mut pod.evictions, |(t, v)| (t, v / 100.0));
                    }
                }),
            ),
        ];
        for (code, close) in closes {
            let mut input = input.clone();
            close(&mut input);
            let seen = judge(&settings, &input);
            assert_eq!(
                seen.verdict,
                Verdict::InsufficientData,
                "{code}: {}",
                seen.sentence()
            );
            assert!(seen.closed.contains(&code), "{code}: {:?}", seen.closed);
        }
    }
}

/// Keeps or changes each RSS sample.
fn each(pods: &mut [heapfleet_core::judge::Pod], change: impl Fn(f64, f64) -> Option<f64>) {
    for pod in pods {
        for replica in &mut pod.rss.replicas {
            *replica = replica
                .iter()
                .filter_map(|(t, v)| change(*t, *v).map(|v| (*t, v)))
                .collect();
        }
    }
}

/// 9. Removing any required series from a passing case yields `InsufficientData`.
#[test]
fn a_missing_series_is_never_a_pass() {
    for identity in [Identity::Stable, Identity::None] {
        let (_, settings, input) = passing(6, identity);
        for series in ["rss", "cache", "capacity", "evictions", "requests", "p99"] {
            for arm in 0..2 {
                let mut input = input.clone();
                let pods = if arm == 0 {
                    &mut input.canary.pods
                } else {
                    &mut input.controls[0].pods
                };
                for pod in pods {
                    match series {
                        "rss" => pod.rss = Series::default(),
                        "cache" => pod.cache = Series::default(),
                        "capacity" => pod.capacity = Capacity::Unknown,
                        "evictions" => pod.evictions = Series::default(),
                        "requests" => pod.requests = Series::default(),
                        _ => pod.guardrails.clear(),
                    }
                }
                let seen = judge(&settings, &input);
                assert_eq!(
                    seen.verdict,
                    Verdict::InsufficientData,
                    "{series}: {}",
                    seen.sentence()
                );
            }
        }
    }
}

/// 10. Adding a required metric never lowers the verdict; the join is the maximum.
#[test]
fn more_metrics_never_lower_the_verdict() {
    for seed in 0..12 {
        let effect = [-0.4, 0.0, 0.3][usize::try_from(seed).unwrap() % 3];
        let world = World {
            seed,
            effect,
            latency: true,
            ..World::default()
        };
        let (with, input) = (world.settings(), world.input());
        let without = Settings {
            guardrails: Vec::new(),
            ..with.clone()
        };
        assert!(judge(&with, &input).verdict >= judge(&without, &input).verdict);
    }
    let all = [
        Verdict::Pass,
        Verdict::Inconclusive,
        Verdict::InsufficientData,
        Verdict::Fail,
    ];
    assert_eq!(Verdict::join_all([]), Verdict::InsufficientData);
    for a in all {
        assert_eq!((a.join(a), a.join(Verdict::Pass)), (a, a));
        for b in all {
            assert_eq!(a.join(b), b.join(a));
            assert_eq!(Verdict::join_all([a, b]), a.max(b));
        }
    }
}

/// 23. The diagnosis never changes a verdict.
#[test]
fn the_diagnosis_decides_nothing() {
    let (_, settings, input) = passing(7, Identity::Stable);
    let plain = judge(&settings, &input);
    let mut told = input;
    for pod in pods(&mut told) {
        let stat = |factor: f64| -> Series {
            pod.cache.replicas[0]
                .iter()
                .map(|(t, v)| (*t, factor * v))
                .collect::<Vec<_>>()
                .into()
        };
        pod.stats = Some(heapfleet_core::judge::AllocatorStats {
            allocated: stat(1.0),
            active: stat(1.3),
            resident: stat(2.0),
            metadata: stat(0.01),
            purges: Series::default(),
        });
    }
    let seen = judge(&settings, &told);
    assert_ne!(seen.diagnosis, plain.diagnosis);
    let same = Look {
        diagnosis: plain.diagnosis.clone(),
        ..seen
    };
    assert_eq!(said(&same), said(&plain));
}

/// 24. The cost of one look over 50 + 50 pods and a day, from its samples (asserted where the build is optimised).
#[test]
fn a_look_is_quick() {
    let pods = if cfg!(debug_assertions) { 3 } else { 50 };
    let after = if cfg!(debug_assertions) { 60 } else { 288 };
    let world = World {
        canary: pods,
        control: pods,
        after,
        ..World::default()
    };
    let (settings, input) = (world.settings(), world.input());
    let frozen = judge(&settings, &input).frozen.unwrap();
    #[expect(clippy::disallowed_methods, reason = "this test measures time")]
    let started = std::time::Instant::now();
    let seen = look(&settings, Some(&frozen), &input);
    let took = started.elapsed();
    assert!(seen.accepted > 50);
    assert!(cfg!(debug_assertions) || took.as_millis() < 50, "{took:?}");
}

/// T-9. With only dry-run guardrails beside the ratio nothing is decided by them; a count without events is no evidence.
#[test]
fn dry_runs_are_shown_and_decide_nothing() {
    let world = World {
        effect: -0.4,
        latency: true,
        ..World::default()
    };
    let (mut settings, mut input) = (world.settings(), world.input());
    settings.guardrails[0].dry_run = true;
    let since = world.change().began;
    for pod in &mut input.canary.pods {
        if let Some(GuardrailSeries::Gauge(series)) = pod.guardrails.get_mut("p99") {
            map(series, |(t, v)| (t, if t > since { 2.0 * v } else { v }));
        }
    }
    let seen = judge(&settings, &input);
    assert_eq!(seen.verdict, Verdict::Pass, "{}", seen.sentence());
    let shown = seen.numbers.iter().find(|n| n.metric == "p99").unwrap();
    assert!(shown.dry_run && shown.ln_e > shown.ln_e_needed);
    settings.guardrails[0].dry_run = false;
    let seen = judge(&settings, &input);
    assert_eq!(seen.reason.to_string(), "Regression:p99");
}

/// How much slower caches turn over.
const SLOWER: f64 = 0.2;

/// §4: a control that was not restarted has turned its contents over in the baseline already; the canary has to turn over its
/// own half as often, or three times.
#[test]
fn a_control_that_was_not_restarted_is_as_old_as_it_is() {
    let (_, mut settings, mut input) = passing(5, Identity::None);
    settings.control_restart = ControlRestart::None;
    // Slower, so that the canary turns over once or twice in its bake.
    for pod in pods(&mut input) {
        map(&mut pod.evictions, |(t, v)| (t, v * SLOWER));
    }
    let seen = judge(&settings, &input);
    let mut frozen = seen.frozen.unwrap();
    let region = input.controls[0].region.clone();
    assert!(frozen.turnovers[&region] > 0.0, "{:?}", frozen.turnovers);
    let mut closed = |before: f64| {
        frozen.turnovers.insert(region.clone(), before);
        let look = look(&settings, Some(&frozen), &input);
        look.closed.contains(&Code::ChurnParity)
    };
    assert!(!closed(0.0));
    assert!(closed(5.0) && closed(1e9));
    let mut matched = settings.clone();
    matched.control_restart = ControlRestart::Matched;
    assert!(
        !look(&matched, Some(&frozen), &input)
            .closed
            .contains(&Code::ChurnParity),
        "both arms began anew"
    );
}
