//! Odd input, case by case, with the verdict and the reason that it must have. What nobody thought of is `judge_fuzz.rs`'s.
#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/good.rs"]
mod good;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use good::{good, judge, said};
use heapfleet_core::judge::baseline::{Centre, FrozenMetric};
use heapfleet_core::judge::constants::EVIDENCE_BYTES;
use heapfleet_core::judge::{
    Code, Frozen, Look, LookInput, Pod, Series, Settings, Verdict, look, restore, store,
};
use world::{BLOCK, ORIGIN, SCRAPE, World, all_series, map, pods};

const GOOD: &str = "Pass(NonInferior)";

/// One case: what is done to a look that passes, and what is said then.
type Case<'a> = (&'a str, &'a dyn Fn(&mut LookInput), &'a str);

fn check(cases: &[Case<'_>]) {
    let (_, settings, input) = good();
    for (name, odd, want) in cases {
        let mut input = input.clone();
        odd(&mut input);
        let seen = judge(&settings, &input);
        is_sane(name, &seen);
        assert_eq!(
            said(&seen),
            *want,
            "{name}: {} {:?}",
            seen.sentence(),
            seen.refused
        );
    }
}

/// Every number is a number, and there is a sentence.
fn is_sane(name: &str, seen: &Look) {
    for n in &seen.numbers {
        let all = [
            n.theta, n.lower, n.upper, n.ln_e, n.b, n.b_n, n.omega, n.tau,
        ];
        assert!(all.iter().all(|v| v.is_finite()), "{name}: {n:?}");
    }
    assert!(
        seen.sentence().contains(seen.reason.code.meaning()),
        "{name}"
    );
}

/// Sets the canary's RSS after the change, every `step`-th sample.
fn put(input: &mut LookInput, step: usize, value: f64) {
    let since = after();
    for pod in &mut input.canary.pods {
        let samples = pod.rss.replicas[0].iter_mut().filter(|(t, _)| *t > since);
        samples.step_by(step).for_each(|s| s.1 = value);
    }
}

fn after() -> f64 {
    World::default().change().began
}

/// Moves what was scraped in the second half of the bake, and what is now.
fn step_clock(pods: &mut [Pod], by: f64) {
    let since = World::default().change().ended + 30.0 * BLOCK;
    for pod in pods {
        for series in all_series(pod) {
            map(series, |(t, v)| (if t > since { t + by } else { t }, v));
        }
    }
}

#[test]
fn samples_that_are_no_memory() {
    // One of three in every block is dropped and the rest counts; all of them are no data.
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -4e9, 0.0, -0.0] {
        check(&[
            (&format!("every third {odd}"), &|i| put(i, 3, odd), GOOD),
            (
                &format!("all {odd}"),
                &|i| put(i, 1, odd),
                "InsufficientData(NoCanaryData)",
            ),
        ]);
    }
    check(&[
        (
            "no cache at all",
            &|i| pods(i).for_each(|p| map(&mut p.cache, |(t, _)| (t, 0.0))),
            "InsufficientData(NoCanaryData)",
        ),
        (
            "the cache is emptied at the end",
            &|i| {
                let since = i.now - 3.0 * BLOCK;
                for pod in &mut i.canary.pods {
                    map(&mut pod.cache, |(t, v)| {
                        (t, if t > since { 0.0 } else { v })
                    });
                }
            },
            "InsufficientData(LowCoverage)",
        ),
        (
            // Until it stands still for so long that nobody believes it.
            "memory at the edge of floats",
            &|i| put(i, 1, f64::MAX),
            "Fail(Regression:ratio)",
        ),
        (
            "all values are identical",
            &|i| pods(i).for_each(|p| map(&mut p.rss, |(t, _)| (t, 5e9))),
            "InsufficientData(StuckExporter)",
        ),
        (
            "all of the canary's values are identical",
            &|i| put(i, 1, 3e9),
            "InsufficientData(StuckExporter)",
        ),
    ]);
}

#[test]
fn counters_that_are_reset() {
    let reset = |every: f64| {
        move |i: &mut LookInput| {
            for pod in pods(i) {
                for series in [&mut pod.evictions, &mut pod.requests] {
                    map(series, |(t, v)| (t, v.rem_euclid(every)));
                }
            }
        }
    };
    check(&[
        // The resets of all pods lose less than what is left: rates stay alike in both arms.
        ("now and then", &reset(2e10), GOOD),
        (
            "at every scrape",
            &|i| {
                for pod in pods(i) {
                    map(&mut pod.evictions, |(t, _)| (t, 0.0));
                }
            },
            "InsufficientData(NoBaseline)",
        ),
        (
            "at every scrape of the canary",
            &|i| {
                let since = after();
                for pod in &mut i.canary.pods {
                    map(&mut pod.evictions, |(t, v)| {
                        (t, if t > since { 0.0 } else { v })
                    });
                }
            },
            "InsufficientData(NotEvicting)",
        ),
        (
            "backwards",
            &|i| {
                let since = after();
                for pod in &mut i.canary.pods {
                    map(&mut pod.evictions, |(t, v)| {
                        (t, if t > since { 1e12 - v } else { v })
                    });
                }
            },
            GOOD,
        ),
    ]);
}

#[test]
fn samples_twice_and_in_any_order() {
    check(&[
        (
            "every sample twice, with another value",
            &|i| {
                for pod in pods(i) {
                    for series in all_series(pod) {
                        let again: Vec<_> = series.replicas[0]
                            .iter()
                            .map(|(t, v)| (*t, 7.0 * v))
                            .collect();
                        series.replicas[0].extend(again);
                    }
                }
            },
            GOOD,
        ),
        (
            "newest first",
            &|i| {
                for pod in pods(i) {
                    for series in all_series(pod) {
                        series.replicas[0].reverse();
                    }
                }
            },
            GOOD,
        ),
        (
            "all at one time",
            &|i| {
                for pod in pods(i) {
                    for series in all_series(pod) {
                        map(series, |(_, v)| (ORIGIN + 100.0, v));
                    }
                }
            },
            "InsufficientData(NoCanaryData)",
        ),
    ]);
}

/// A clock that steps by ten minutes leaves a hole or a fold in the samples; neither decides anything, and no gate opens
/// before its time.
#[test]
fn clocks_that_step() {
    check(&[
        (
            "the canary's forward: what is not yet now is not looked at",
            &|i| step_clock(&mut i.canary.pods, 600.0),
            GOOD,
        ),
        (
            "the canary's back: ten minutes are missing",
            &|i| step_clock(&mut i.canary.pods, -600.0),
            "InsufficientData(StaleData)",
        ),
        (
            "the control's back",
            &|i| step_clock(&mut i.controls[0].pods, -600.0),
            "InsufficientData(StaleData)",
        ),
        (
            "ours forward",
            &|i| i.now += 600.0,
            "InsufficientData(StaleData)",
        ),
        ("ours back", &|i| i.now -= 600.0, GOOD),
        (
            "ours back, beyond the minimum bake",
            &|i| i.now = World::default().change().ended + 23.0 * BLOCK + 31.0,
            "Inconclusive(MinBake)",
        ),
        (
            "ours back, before the restart was over",
            &|i| i.now = World::default().change().ended - 200.0,
            "InsufficientData(TooFewSamples)",
        ),
    ]);
}

#[test]
fn pods_that_come_and_go() {
    let gone = |from: f64, to: f64| {
        move |i: &mut LookInput| {
            let ended = World::default().change().ended;
            let away = |t: f64| t > ended + from * BLOCK && t < ended + to * BLOCK;
            for pod in &mut i.canary.pods {
                for series in all_series(pod) {
                    series.replicas[0].retain(|(t, _)| !away(*t));
                }
            }
        }
    };
    let new_from = |block: f64| {
        move |i: &mut LookInput| {
            let ended = World::default().change().ended;
            for (n, pod) in (0_u8..).zip(&mut i.canary.pods) {
                let block = block + 5.0 * f64::from(n);
                pod.starts.push(ended + block * BLOCK);
            }
        }
    };
    check(&[
        ("all of them, for ten blocks", &gone(20.0, 30.0), GOOD),
        (
            "all of them, for the last ten",
            &gone(50.0, 99.0),
            "InsufficientData(StaleData)",
        ),
        ("one after the other is new", &new_from(10.0), GOOD),
        (
            "one after the other is new, and has not churned enough since",
            &new_from(45.0),
            "InsufficientData(ChurnParity)",
        ),
        (
            "a new one without a baseline",
            &|i| {
                let mut pod = i.canary.pods[0].clone();
                pod.name = "ore-99".to_owned();
                pod.starts = vec![after() + 1.0];
                let since = after();
                for series in all_series(&mut pod) {
                    series.replicas[0].retain(|(t, _)| *t > since);
                }
                i.canary.pods.push(pod);
            },
            GOOD,
        ),
        (
            "two of one name",
            &|i| {
                let again = i.canary.pods[0].clone();
                i.canary.pods.push(again);
            },
            GOOD,
        ),
    ]);
}

#[test]
fn arms_of_one_pod_and_of_none() {
    check(&[
        (
            "no control region",
            &|i| i.controls.clear(),
            "InsufficientData(NoControlData)",
        ),
        (
            "no control pod",
            &|i| i.controls[0].pods.clear(),
            "InsufficientData(NoControlData)",
        ),
        (
            "no canary pod",
            &|i| i.canary.pods.clear(),
            "InsufficientData(NoCanaryData)",
        ),
        (
            "one pod each",
            &|i| {
                i.canary.pods.truncate(1);
                i.controls[0].pods.truncate(1);
            },
            GOOD,
        ),
        (
            "nothing",
            &|i| *i = LookInput::default(),
            "InsufficientData(NoCanaryData)",
        ),
    ]);
}

/// One pod per arm that gets worse fails, and one that stays as it is does neither.
#[test]
fn one_pod_is_judged_by_what_it_can_show() {
    for (effect, want) in [
        (0.3, "Fail(Regression:ratio)"),
        (0.0, "Inconclusive(Underpowered:ratio)"),
    ] {
        let world = World {
            canary: 1,
            control: 1,
            effect,
            ..World::default()
        };
        assert_eq!(said(&judge(&world.settings(), &world.input())), want);
    }
}

/// Ten thousand series: 1 667 pods of six. Judged like three, and within the time of a block.
#[test]
fn ten_thousand_series() {
    let world = World {
        before: 40,
        after: 24,
        effect: -0.4,
        canary: 1,
        control: 1,
        latency: true,
        ..World::default()
    };
    let (settings, mut input) = (world.settings(), world.input());
    let settings = Settings {
        baseline_seconds: 40.0 * BLOCK,
        ..settings
    };
    let mut series = 0;
    for arm in [&mut input.canary, &mut input.controls[0]] {
        let first = arm.pods[0].clone();
        for n in 1..1000 {
            let mut pod = first.clone();
            pod.name = format!("{}-{n}", pod.name);
            let factor = 1.0 + f64::from(n % 7) / 1000.0;
            map(&mut pod.rss, |(t, v)| (t, factor * v));
            arm.pods.push(pod);
        }
        series += arm.pods.len() * 5;
    }
    assert_eq!(series, 10_000);
    let seen = judge(&settings, &input);
    is_sane("ten thousand", &seen);
    assert_eq!(said(&seen), GOOD, "{:?}", seen.numbers);
}

/// Samples of no process, of none that is known, and of one that begins with every scrape.
#[test]
fn processes_that_never_last() {
    check(&[
        (
            "no start is known",
            &|i| i.canary.pods.iter_mut().for_each(|p| p.starts.clear()),
            "InsufficientData(LowCoverage)",
        ),
        (
            "a start in every block",
            &|i| {
                let (since, now) = (after(), i.now);
                for pod in &mut i.canary.pods {
                    let mut at = since;
                    while at < now {
                        pod.starts.push(at + SCRAPE);
                        at += BLOCK;
                    }
                }
            },
            "InsufficientData(LowCoverage)",
        ),
    ]);
}

/// A sample more or less at the edge of a series changes the verdict of nothing.
#[test]
fn empty_and_single_samples() {
    check(&[
        (
            "a replica without samples",
            &|i| {
                for pod in pods(i) {
                    pod.rss.replicas.insert(0, Vec::new());
                }
            },
            GOOD,
        ),
        (
            "no replica at all",
            &|i| pods(i).for_each(|p| p.rss = Series::default()),
            "InsufficientData(NoCanaryData)",
        ),
        (
            "one sample each",
            &|i| {
                for pod in pods(i) {
                    pod.rss.replicas[0].truncate(1);
                }
            },
            "InsufficientData(NoCanaryData)",
        ),
    ]);
    // Codes of gates are told in their order: the first is the reason.
    let (_, settings, mut input) = good();
    input.controls.clear();
    input.canary.pods.clear();
    let seen = judge(&settings, &input);
    assert_eq!(seen.verdict, Verdict::InsufficientData);
    assert_eq!(seen.closed[..2], [Code::NoCanaryData, Code::NoControlData]);
}

/// What is frozen can be stored and read back, whatever was counted; what was stored and cannot be is not judged by.
#[test]
fn what_is_frozen_can_be_stored() {
    let (_, settings, input) = good();
    let mut huge = input.clone();
    for pod in &mut huge.canary.pods {
        map(&mut pod.requests, |(t, v)| (t, 1e302 * v));
    }
    let seen = judge(&settings, &huge);
    assert_eq!(said(&seen), "InsufficientData(LoadUnsteady)");
    let frozen = seen.frozen.unwrap();
    let (back, _) = restore(&store(&frozen, &seen.evidence, EVIDENCE_BYTES).unwrap()).unwrap();
    assert_eq!(back, frozen);
    // Numbers that JSON can hold and that no fit ever gave: they are fitted anew.
    let good = judge(&settings, &input).frozen.unwrap();
    let break_metric = |how: &dyn Fn(&mut FrozenMetric)| {
        let mut out = good.clone();
        how(&mut out.metrics[0]);
        out
    };
    for broken in [
        Frozen {
            sigma0: 1e300,
            ..good.clone()
        },
        break_metric(&|m| m.omega2 = 1e300),
        break_metric(&|m| m.omega2 = -1.0),
        break_metric(&|m| m.omega2 = 4e-93),
        break_metric(&|m| m.lottery = (1e300, 3.0)),
        break_metric(&|m| m.lottery = (1.0, -20.0)),
        break_metric(&|m| m.lagged = -1.0),
        break_metric(&|m| m.profile = vec![1e300]),
        break_metric(&|m| m.profile = vec![0.0; 2]),
        break_metric(&|m| m.centres.values_mut().for_each(|c| *c = Centre::Arm(1e300))),
    ] {
        let seen = look(&settings, Some(&broken), &input);
        is_sane("broken", &seen);
        assert_eq!(
            (said(&seen).as_str(), seen.frozen.as_ref()),
            (GOOD, Some(&good))
        );
    }
}
