//! Anything at all as input: never a panic, never a Pass by default, always a reason. Also run for a minute as the `garbage`
//! job: `JUDGE_CASES=100000 cargo test --release -p heapfleet-core --test judge_garbage`.
#![expect(
    clippy::disallowed_methods,
    reason = "the number of cases may be told from outside"
)]

use std::collections::BTreeMap;

use heapfleet_core::judge::{
    AllocatorStats, Arm, Capacity, Change, ControlRestart, ControlRuns, Declared, Guardrail,
    GuardrailKind, GuardrailSeries, Identity, LookInput, Pod, Proof, Sample, Seen, Series,
    Settings, Verdict, look,
};
use proptest::prelude::*;

/// Numbers that have broken programs before, and ordinary ones.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..2000.0_f64,
        2 => (0_u32..40).prop_map(|i| 60.0 * f64::from(i)),
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE,
            1e300, -1e300, 1e11, -1e11, 1e-300, 9.2e18,
        ]),
        1 => any::<f64>(),
    ]
}

fn series() -> impl Strategy<Value = Series> {
    let sample = (number(), number()).prop_map(|(t, v)| -> Sample { (t, v) });
    let steady = (0_u32..3000, number()).prop_map(|(n, v)| -> Vec<Sample> {
        (0..n / 10)
            .map(|i| (15.0 * f64::from(i), v + f64::from(i % 7)))
            .collect()
    });
    let replica = prop_oneof![prop::collection::vec(sample, 0..30), steady];
    prop::collection::vec(replica, 0..3).prop_map(|replicas| Series { replicas })
}

fn guardrail() -> impl Strategy<Value = GuardrailSeries> {
    prop_oneof![
        series().prop_map(GuardrailSeries::Gauge),
        (number(), prop::collection::vec((number(), series()), 0..4))
            .prop_map(|(quantile, buckets)| GuardrailSeries::Histogram { quantile, buckets }),
        (series(), series()).prop_map(|(numerator, denominator)| GuardrailSeries::Quotient {
            numerator,
            denominator
        }),
        (series(), prop::option::of(series()))
            .prop_map(|(events, exposure)| GuardrailSeries::Count { events, exposure }),
    ]
}

fn guardrails() -> impl Strategy<Value = BTreeMap<String, GuardrailSeries>> {
    prop::collection::btree_map("[abc]", guardrail(), 0..3)
}

fn pod() -> impl Strategy<Value = Pod> {
    let facts = (
        "[ab]",
        prop::collection::vec(number(), 0..3),
        any::<bool>(),
        prop::option::of(number()),
        prop::option::of("[vw]"),
        (0_u8..4, number()),
        prop::option::of(number()),
        any::<bool>(),
    );
    let samples = (
        series(),
        series(),
        series(),
        series(),
        series(),
        number(),
        guardrails(),
        any::<bool>(),
    );
    (facts, samples).prop_map(|(facts, samples)| {
        let (name, starts, exists, ready_at, version, (seen, since), memory_limit, bad) = facts;
        let (rss, cache, capacity, evictions, requests, fixed, guardrails, told) = samples;
        let seen = match seen {
            0 => Seen::Target,
            1 => Seen::Source,
            2 => Seen::Other("x".to_owned()),
            _ => Seen::Unknown,
        };
        Pod {
            name,
            starts,
            exists,
            ready_at,
            version,
            allocator: Proof { seen, since },
            memory_limit,
            oom_killed: bad && exists,
            crash_loop: bad && !exists,
            stats: told.then(|| AllocatorStats {
                allocated: rss.clone(),
                ..AllocatorStats::default()
            }),
            rss,
            cache,
            capacity: if told {
                Capacity::Fixed(fixed)
            } else {
                Capacity::Series(capacity)
            },
            evictions,
            requests,
            guardrails,
        }
    })
}

fn arm() -> impl Strategy<Value = Arm> {
    let expected = prop::collection::vec((number(), any::<u32>()), 0..3);
    (
        "[opq]",
        expected,
        prop::collection::vec(pod(), 0..4),
        guardrails(),
    )
        .prop_map(|(region, expected, pods, guardrails)| Arm {
            region,
            expected,
            pods,
            guardrails,
        })
}

fn input() -> impl Strategy<Value = LookInput> {
    let change =
        prop::option::of((number(), number()).prop_map(|(began, ended)| Change { began, ended }));
    (number(), change, arm(), prop::collection::vec(arm(), 0..3)).prop_map(
        |(now, change, mut canary, controls)| {
            // Mostly told apart, so that most cases get past the border.
            if controls.iter().all(|c| c.region != "canary") {
                "canary".clone_into(&mut canary.region);
            }
            LookInput {
                now,
                change,
                canary,
                controls,
            }
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let kind = prop::sample::select(vec![
        GuardrailKind::P99,
        GuardrailKind::Continuous,
        GuardrailKind::Count,
    ]);
    let guardrail =
        ("[abc]", kind, number(), any::<bool>()).prop_map(|(name, kind, max_increase, dry_run)| {
            Guardrail {
                name,
                kind,
                max_increase,
                dry_run,
            }
        });
    let lengths = (
        prop::sample::select(vec![1.0, 60.0, 300.0]),
        prop::sample::select(vec![0.25, 1.0, 15.0]),
        number(),
    );
    (
        lengths,
        any::<[bool; 6]>(),
        prop::collection::vec(guardrail, 0..2),
        number(),
        number(),
    )
        .prop_map(
            |((block, scrape, baseline), flags, guardrails, noise, margin)| Settings {
                block_seconds: block,
                scrape_seconds: scrape,
                delay_seconds: 0.0,
                baseline_seconds: baseline.abs(),
                min_bake_blocks: 24,
                max_bake_blocks: 50,
                max_regression: margin.abs().min(1.0),
                restart_noise: flags[0].then_some(noise.abs().min(1.0)),
                control_restart: if flags[1] {
                    ControlRestart::None
                } else {
                    ControlRestart::Matched
                },
                control_runs: if flags[2] {
                    ControlRuns::Target
                } else {
                    ControlRuns::Source
                },
                identity: if flags[3] {
                    Identity::Stable
                } else {
                    Identity::None
                },
                declared: Declared {
                    capacity: flags[4],
                    evictions: flags[5],
                    requests: flags[0],
                    peak: flags[1],
                },
                guardrails,
                ..Settings::default()
            },
        )
}

fn cases() -> u32 {
    std::env::var("JUDGE_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(256)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_has_a_reason(settings in settings(), input in input()) {
        let first = look(&settings, None, &input);
        prop_assert!(first.verdict != Verdict::Pass || first.accepted >= 24);
        prop_assert!(!first.sentence().is_empty());
        for n in &first.numbers {
            prop_assert!([n.theta, n.lower, n.upper, n.ln_e, n.b, n.b_n, n.omega, n.tau].iter().all(|v| v.is_finite()));
        }
        // And again with what it gave.
        if let Some(frozen) = &first.frozen {
            let text = serde_json::to_string(frozen).unwrap_or_default();
            let back: Option<heapfleet_core::judge::Frozen> = serde_json::from_str(&text).ok();
            prop_assert_eq!(back.as_ref(), Some(frozen));
            let again = look(&settings, Some(frozen), &input);
            prop_assert!(first.verdict != Verdict::Fail || again.verdict == Verdict::Fail);
        }
    }
}
