//! Whole metrics against the specification's reference implementation (numpy): values per pod and block in, every number
//! of several looks out. The file holds its inputs, quantised, and its outputs: one to ten pods an arm, one to five terms
//! of the profile, restarts in the baseline, outliers, late onsets, windows of peaks.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::io::Read;

use heapfleet_core::judge::Identity;
use heapfleet_core::judge::bake::{self, After};
use heapfleet_core::judge::baseline::{self, Before};
use heapfleet_core::judge::gates::quorum;
use heapfleet_core::judge::panel::{Panel, PanelPod, Point};
use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::track::Window;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    metric: String,
    /// Length of a column, seconds.
    block: f64,
    /// Middle of the first column, seconds.
    first: f64,
    /// Columns before the change.
    baseline: i64,
    sigma0: f64,
    canary: Vec<PodValues>,
    control: Vec<PodValues>,
    looks: Vec<Expected>,
    d_last: f64,
}

#[derive(Deserialize)]
struct PodValues {
    y: Vec<Option<f64>>,
    inc: Vec<u32>,
}

#[derive(Deserialize)]
struct Expected {
    blocks: usize,
    /// Last column, counted from the change.
    upto: i64,
    theta: f64,
    omega2: f64,
    tau2: f64,
    log_e: f64,
    line: f64,
    promote: f64,
    fail: bool,
    single: bool,
}

fn panel(pods: &[PodValues], region: &str, window: Window) -> Panel {
    let pods = pods
        .iter()
        .enumerate()
        .map(|(i, pod)| PanelPod {
            name: format!("{region}-{i}"),
            points: (0..)
                .zip(pod.y.iter().zip(&pod.inc))
                .filter(|(column, _)| window.place(*column).is_some())
                .filter_map(|(column, (y, inc))| {
                    y.map(|y| Point {
                        column,
                        incarnation: *inc,
                        y,
                    })
                })
                .collect(),
        })
        .collect();
    Panel {
        region: region.to_owned(),
        pods,
    }
}

fn near(got: f64, want: f64, what: &str) {
    assert!(
        (got - want).abs() <= 1e-9 + 1e-7 * want.abs(),
        "{what}: {got} {want}"
    );
}

#[test]
fn every_number_of_every_look_agrees() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("judge/reference.json.gz")[..])
        .read_to_string(&mut text)
        .unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 8);
    for (number, case) in cases.iter().enumerate() {
        check(number, case);
    }
}

fn check(number: usize, case: &Case) {
    let mut rule = match case.metric.as_str() {
        "peak" => Rule::peak(),
        "p99" => Rule::guardrail("p99", 0.02, 0.15, 0.010),
        _ => Rule::ratio(0.03),
    };
    rule.prior.sigma0 = case.sigma0;
    let times = |w: Window| -> Vec<f64> {
        (w.from..w.to)
            .map(|c| case.first + case.block * f64::from(i32::try_from(c).unwrap()))
            .collect()
    };
    let quorums = |w: Window| {
        vec![
            vec![quorum(case.canary.len()); w.len()],
            vec![quorum(case.control.len()); w.len()],
        ]
    };
    let window = Window {
        from: 0,
        to: case.baseline,
    };
    let frozen = baseline::freeze(
        &rule,
        &Before {
            canary: &panel(&case.canary, "c", window),
            controls: &[panel(&case.control, "k", window)],
            window,
            quorum: &quorums(window),
            times: &times(window),
            seconds: case.block * f64::from(i32::try_from(case.baseline).unwrap()),
            least: 12,
            identity: Identity::Stable,
        },
    )
    .unwrap();
    for want in &case.looks {
        let window = Window {
            from: case.baseline,
            to: case.baseline + want.upto + 1,
        };
        let run = bake::run(
            &rule,
            &frozen,
            &After {
                canary: &panel(&case.canary, "c", window),
                controls: &[panel(&case.control, "k", window)],
                window,
                quorum: &quorums(window),
                times: &times(window),
                open: &vec![true; window.len()],
                identity: Identity::Stable,
                min_gain: 0.0,
            },
        );
        let at = format!("case {number}, {} blocks", want.blocks);
        assert_eq!(run.d.len(), want.blocks, "{at}");
        near(run.weighed.theta, want.theta, &at);
        near(run.omega2, want.omega2, &at);
        near(run.tau2, want.tau2, &at);
        near(run.weighed.log_e, want.log_e, &at);
        near(run.weighed.line, want.line, &at);
        near(run.weighed.line_promote, want.promote, &at);
        assert_eq!(
            run.weighed.crosses && run.weighed.survives,
            want.fail,
            "{at}"
        );
        assert_eq!(
            run.weighed.crosses && !run.weighed.survives,
            want.single,
            "{at}"
        );
        if want.upto == case.looks.last().unwrap().upto {
            near(*run.d.last().unwrap(), case.d_last, &at);
        }
    }
}
