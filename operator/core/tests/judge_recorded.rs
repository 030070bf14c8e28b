//! Recorded bakes of real processes, judged second by second with one-second blocks (judge.md B7).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/recording.rs"]
mod recording;

use heapfleet_core::judge::{Code, Frozen, Look, LookInput, Settings, Verdict, look};
use recording::{CHANGE, Recording};

/// Looks every second from the change on; the looks until the first final one.
fn bake(settings: &Settings, recording: &Recording, factor: f64) -> Vec<Look> {
    let frozen = baseline(settings, recording);
    let mut out = Vec::new();
    for second in 0..150_i32 {
        let input = recording.input(CHANGE + 8.0 + f64::from(second) + 1.01, factor);
        let look = look(settings, Some(&frozen), &input);
        let ends = look.is_final;
        out.push(look);
        if ends {
            break;
        }
    }
    out
}

fn baseline(settings: &Settings, recording: &Recording) -> Frozen {
    let input = LookInput {
        change: None,
        ..recording.input(CHANGE + 0.9, 1.0)
    };
    let look = look(settings, None, &input);
    assert_eq!(look.reason.code, Code::NotStarted, "{look:#?}");
    look.frozen.unwrap()
}

#[test]
fn a_gain_of_half_passes_at_the_minimum_bake() {
    let recording = Recording::q_jemalloc();
    for noise in [0.015, 0.04] {
        for min_bake in [60, 72] {
            let looks = bake(&recording::settings(noise, min_bake), &recording, 1.0);
            let last = looks.last().unwrap();
            assert_eq!(last.verdict, Verdict::Pass, "{} {last:#?}", last.sentence());
            assert_eq!(last.accepted, usize::try_from(min_bake).unwrap());
            let theta = last.numbers[0].theta.exp_m1();
            assert!((-0.58..-0.50).contains(&theta), "{theta}");
        }
    }
}

#[test]
fn the_same_allocator_twice_neither_fails_nor_passes() {
    let recording = Recording::cq_glibc();
    for noise in [0.015, 0.04] {
        let looks = bake(&recording::settings(noise, 60), &recording, 1.0);
        let last = looks.last().unwrap();
        assert_eq!(looks.len(), 150);
        assert_eq!(last.verdict, Verdict::Inconclusive, "{}", last.sentence());
        let theta = last.numbers[0].theta.exp_m1();
        assert!(theta.abs() < 0.01, "{theta}");
    }
}

#[test]
fn a_regression_of_twelve_percent_and_more_fails() {
    let recording = Recording::cq_glibc();
    for factor in [1.12, 1.2, 1.3] {
        let looks = bake(&recording::settings(0.015, 60), &recording, factor);
        let last = looks.last().unwrap();
        assert_eq!(last.verdict, Verdict::Fail, "{factor} {}", last.sentence());
        assert_eq!(last.reason.to_string(), "Regression:ratio");
        assert!(
            last.accepted <= 20,
            "{factor}: after {} blocks",
            last.accepted
        );
    }
}

/// Such processes stand still to the byte for up to a minute; an exporter that does so for two is stuck.
#[test]
fn an_exporter_that_stands_still_is_never_judged() {
    let recording = Recording::cq_glibc();
    let settings = recording::settings(0.015, 60);
    let frozen = baseline(&settings, &recording);
    let mut input = recording.input(CHANGE + 157.0, 1.3);
    for pod in &mut input.canary.pods {
        for (t, v) in pod.rss.replicas.iter_mut().flatten() {
            if *t > CHANGE + 5.0 {
                *v = 1e8;
            }
        }
    }
    let seen = look(&settings, Some(&frozen), &input);
    assert!(
        seen.closed.contains(&Code::StuckExporter),
        "{:?}",
        seen.closed
    );
}
