//! Guardrails on whole looks.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/good.rs"]
mod good;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use good::{good, judge, said};
use heapfleet_core::judge::{
    Guardrail, GuardrailKind, GuardrailSeries, LookInput, Series, Settings, Verdict,
};
use world::pods;

/// What a guardrail shows of one pod: canary after the change?, its ages in seconds.
type Shown<'a> = &'a dyn Fn(bool, &[(f64, f64)]) -> GuardrailSeries;

/// Adds one guardrail to settings and to every pod after `change` applied to (canary after the change?, age seconds).
fn guarded(kind: GuardrailKind, max_increase: f64, series: Shown<'_>) -> (Settings, LookInput) {
    let (world, mut settings, mut input) = good();
    settings.guardrails = vec![Guardrail {
        name: "guarded".to_owned(),
        kind,
        max_increase,
        dry_run: false,
    }];
    let since = world.change().began;
    let canary = input.canary.pods.len();
    for (i, pod) in pods(&mut input).enumerate() {
        let requests = pod.requests.replicas[0].clone();
        let (old, new): (Vec<_>, Vec<_>) = requests.into_iter().partition(|(t, _)| *t <= since);
        let mut all = series(false, &old);
        merge(&mut all, series(i < canary, &new));
        pod.guardrails.insert("guarded".to_owned(), all);
    }
    (settings, input)
}

/// Appends one guardrail's samples to another's of the same form.
fn merge(into: &mut GuardrailSeries, more: GuardrailSeries) {
    let join = |a: &mut Series, b: &Series| a.replicas[0].extend(&b.replicas[0]);
    match (into, more) {
        (
            GuardrailSeries::Quotient {
                numerator,
                denominator,
            },
            GuardrailSeries::Quotient {
                numerator: n,
                denominator: d,
            },
        ) => {
            join(numerator, &n);
            join(denominator, &d);
        }
        (
            GuardrailSeries::Count {
                events,
                exposure: Some(exposure),
            },
            GuardrailSeries::Count {
                events: e,
                exposure: Some(x),
            },
        ) => {
            join(events, &e);
            join(exposure, &x);
        }
        (
            GuardrailSeries::Histogram { buckets, .. },
            GuardrailSeries::Histogram { buckets: more, .. },
        ) => {
            for ((_, a), (_, b)) in buckets.iter_mut().zip(&more) {
                join(a, b);
            }
        }
        (into, more) => panic!("{into:?} and {more:?} differ"),
    }
}

fn scaled(samples: &[(f64, f64)], factor: f64) -> Series {
    samples
        .iter()
        .map(|(t, v)| (*t, factor * v))
        .collect::<Vec<_>>()
        .into()
}

/// CPU seconds per request, the guardrail that stops a memory gain bought with CPU (shape S).
#[test]
fn a_quotient_guards() {
    for (factor, want) in [
        (1.0, "Pass(NonInferior)"),
        (1.69, "Fail(Regression:guarded)"),
    ] {
        let (settings, input) = guarded(GuardrailKind::Continuous, 0.10, &|canary, requests| {
            GuardrailSeries::Quotient {
                numerator: scaled(requests, if canary { factor * 1e-3 } else { 1e-3 }),
                denominator: scaled(requests, 1.0),
            }
        });
        assert_eq!(said(&judge(&settings, &input)), want);
    }
}

#[test]
fn a_histogram_guards() {
    for (slow, want) in [
        (0.02, "Pass(NonInferior)"),
        (0.05, "Fail(Regression:guarded)"),
    ] {
        let (settings, input) = guarded(GuardrailKind::P99, 0.08, &|canary, requests| {
            let share = |s: f64| scaled(requests, s);
            let slow = if canary { slow } else { 0.02 };
            GuardrailSeries::Histogram {
                quantile: 0.99,
                buckets: vec![
                    (0.1, share(1.0 - slow)),
                    (0.5, share(1.0)),
                    (f64::INFINITY, share(1.0)),
                ],
            }
        });
        let got = judge(&settings, &input);
        assert_eq!(said(&got), want, "{:#?}", got.numbers);
    }
}

#[test]
fn counts_guard() {
    for (rate, want) in [
        (1e-3, "Pass(NonInferior)"),
        (0.0, "Pass(NonInferior)"),
        (1e-2, "Fail(Regression:guarded)"),
    ] {
        let (settings, mut input) = guarded(GuardrailKind::Count, 0.05, &|canary, requests| {
            GuardrailSeries::Count {
                events: scaled(requests, if canary { rate } else { 1e-3 }),
                exposure: Some(scaled(requests, 1.0)),
            }
        });
        let got = judge(&settings, &input);
        assert_eq!(said(&got), want, "{:#?}", got.counts);
        // Without its series nothing passes.
        for pod in &mut input.controls[0].pods {
            pod.guardrails.clear();
        }
        assert_eq!(
            said(&judge(&settings, &input)),
            "InsufficientData(TooFewSamples:guarded)"
        );
    }
    // No event at all in either arm is no evidence, and no obstacle.
    let (settings, input) = guarded(GuardrailKind::Count, 0.05, &|_, requests| {
        GuardrailSeries::Count {
            events: scaled(requests, 0.0),
            exposure: Some(scaled(requests, 1.0)),
        }
    });
    assert_eq!(said(&judge(&settings, &input)), "Pass(NonInferior)");
}

/// More events than the margin allows, and too few of them to be sure: no Pass, no Fail.
#[test]
fn a_count_above_its_margin_is_no_pass() {
    let (settings, input) = guarded(GuardrailKind::Count, 0.05, &|canary, requests| {
        GuardrailSeries::Count {
            events: scaled(requests, if canary { 1.6e-5 } else { 1e-5 }),
            exposure: Some(scaled(requests, 1.0)),
        }
    });
    let seen = judge(&settings, &input);
    assert_eq!(
        said(&seen),
        "Inconclusive(RecentAboveMargin:guarded)",
        "{:?}",
        seen.counts
    );
    assert!(seen.counts[0].ln_e < seen.counts[0].ln_e_needed);
}

/// T-8: the order in which the owner names guardrails changes no verdict, and each has its share of the error either way.
#[test]
fn the_order_of_guardrails_changes_nothing() {
    for (slow, want) in [(1.0, Verdict::Pass), (1.2, Verdict::Fail)] {
        let (mut settings, mut input) =
            guarded(GuardrailKind::Continuous, 0.10, &|canary, requests| {
                GuardrailSeries::Quotient {
                    numerator: scaled(requests, if canary { slow } else { 1.0 }),
                    denominator: scaled(requests, 1.0),
                }
            });
        for name in ["a", "z"] {
            settings.guardrails.push(Guardrail {
                name: name.to_owned(),
                ..settings.guardrails[0].clone()
            });
            for pod in pods(&mut input) {
                let mut flat = pod.rss.clone();
                world::map(&mut flat, |(t, _)| (t, 1.0));
                pod.guardrails
                    .insert(name.to_owned(), GuardrailSeries::Gauge(flat));
            }
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            settings.guardrails.rotate_left(1);
            let look = judge(&settings, &input);
            let mut numbers = look.numbers.clone();
            numbers.sort_by(|a, b| a.metric.cmp(&b.metric));
            assert_eq!(look.verdict, want, "{}", look.sentence());
            seen.push((look.reason, numbers));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
