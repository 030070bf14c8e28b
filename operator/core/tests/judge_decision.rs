//! The decision by itself: the table a to h with its order, and the rules P1 to P5.
#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use heapfleet_core::judge::Code;
use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::verdict::{self, Case, CountWeighed, Trend, Weighed, decide};

/// A metric that stands in nobody's way.
fn fine(name: &str) -> Weighed {
    Weighed {
        name: name.to_owned(),
        blocks: 100,
        enough: true,
        line_promote: 1.97,
        line_gain: 1.97,
        survives: true,
        trend: (name == "ratio").then_some(Trend {
            projected: 0.04,
            growth: 0.011,
        }),
        ..Weighed::default()
    }
}

/// A case that passes by a hair.
fn passing() -> Case {
    Case {
        metrics: vec![fine("ratio"), fine("p99")],
        counts: vec![CountWeighed {
            name: "errors".to_owned(),
            known: true,
            log_e: 5.2,
            log_e_needed: 5.3,
            ..CountWeighed::default()
        }],
        bake_blocks: 72,
        min_bake: 72,
        gain_asked: true,
        alpha_promote: 0.05,
        ..Case::default()
    }
}

type Change = fn(&mut Case);

/// What is wrong, and what is said of it; the first of several is said.
const ROWS: [(&str, Change); 16] = [
    ("Fail(HardLimit:OOMKilled)", |c| {
        c.hard = Some("OOMKilled".to_owned());
    }),
    ("Fail(AllocatorNotActive)", |c| c.not_active = true),
    ("Fail(Regression:ratio)", |c| c.metrics[0].crosses = true),
    ("Fail(Regression:p99)", |c| c.metrics[1].crosses = true),
    ("Fail(Regression:errors)", |c| c.counts[0].log_e = 5.3),
    ("InsufficientData(CacheNotFull)", |c| {
        c.closed = vec![Code::CacheNotFull, Code::NotEvicting];
    }),
    ("InsufficientData(TooFewSamples:p99)", |c| {
        c.metrics[1].enough = false;
    }),
    ("InsufficientData(TooFewSamples:errors)", |c| {
        c.counts[0].known = false;
    }),
    ("Inconclusive(Underpowered:ratio)", |c| {
        c.metrics[0].line_promote = 1.95;
    }),
    ("Inconclusive(RecentAboveMargin:ratio)", |c| {
        c.metrics[0].recent_above = true;
    }),
    ("Inconclusive(TrendRising)", |c| {
        c.metrics[0].trend = Some(Trend {
            projected: 0.04,
            growth: 0.0121,
        });
    }),
    ("Inconclusive(Underpowered:p99)", |c| {
        c.metrics[1].line_promote = 1.95;
    }),
    ("Inconclusive(RecentAboveMargin:p99)", |c| {
        c.metrics[1].recent_above = true;
    }),
    ("Inconclusive(RecentAboveMargin:errors)", |c| {
        c.counts[0].above_margin = true;
    }),
    ("Inconclusive(NoGain)", |c| c.metrics[0].line_gain = 1.95),
    ("Inconclusive(MinBake)", |c| c.bake_blocks = 71),
];

fn decided(case: &Case) -> String {
    let (verdict, reason) = decide(case);
    format!("{verdict}({reason})")
}

#[test]
fn the_first_row_that_matches_decides() {
    assert_eq!(decided(&passing()), "Pass(NonInferior)");
    for (i, (want, change)) in ROWS.iter().enumerate() {
        let mut one = passing();
        change(&mut one);
        assert_eq!(decided(&one), *want);
        for (_, later) in ROWS.iter().skip(i + 1) {
            let mut two = one.clone();
            later(&mut two);
            // A count that is not known cannot cross.
            let want = if two.counts[0].known || !want.ends_with("errors)") {
                want
            } else {
                "InsufficientData(TooFewSamples:errors)"
            };
            assert_eq!(decided(&two), want);
        }
    }
}

/// R4 of the table: one pod alone is no Fail, no Pass, and less than a closed gate and a metric without blocks.
#[test]
fn one_pod_alone_is_no_decision() {
    let mut case = passing();
    (case.metrics[0].crosses, case.metrics[0].survives) = (true, false);
    assert_eq!(decided(&case), "Inconclusive(SinglePodOutlier:ratio)");
    for (want, change) in ROWS.iter().filter(|(want, _)| !want.starts_with("Inc")) {
        let mut case = case.clone();
        change(&mut case);
        if *want != "Fail(Regression:ratio)" {
            assert_eq!(decided(&case), *want);
        }
    }
    for (_, change) in ROWS.iter().filter(|(want, _)| want.starts_with("Inc")) {
        let mut case = case.clone();
        change(&mut case);
        assert_eq!(decided(&case), "Inconclusive(SinglePodOutlier:ratio)");
    }
}

#[test]
fn dry_runs_and_gains_that_nobody_asks_for_decide_nothing() {
    for (want, change) in ROWS
        .iter()
        .filter(|(want, _)| want.contains("p99") || want.contains("errors"))
    {
        let mut case = passing();
        change(&mut case);
        (case.metrics[1].dry_run, case.counts[0].dry_run) = (true, true);
        assert_eq!(decided(&case), "Pass(NonInferior)", "{want}");
    }
    let mut case = passing();
    (case.metrics[0].line_gain, case.gain_asked) = (-9.0, false);
    assert_eq!(decided(&case), "Pass(NonInferior)");
    case.metrics.clear();
    assert_eq!(decided(&case), "InsufficientData(TooFewSamples)");
}

/// P2 and P3 from the differences: the last two hours above the margin, growth that is shown, flatness that is not.
#[test]
fn the_last_two_hours_and_the_trend() {
    let rule = Rule::ratio(0.03);
    let weigh = |d: &[f64], omega2: f64| verdict::weigh(&rule, d, omega2, 1e-4, 0.0);
    let steps = |last: f64, n: usize| [vec![-0.1; 200], vec![last; n]].concat();
    assert!(weigh(&steps(0.031, 24), 1e-4).recent_above);
    assert!(!weigh(&steps(0.029, 24), 1e-4).recent_above);
    assert!(!weigh(&steps(0.05, 12), 1e-4).recent_above);
    let line = |per_hour: f64| -> Vec<f64> {
        (0..288)
            .map(|b| -0.4 + per_hour * f64::from(b) / 12.0)
            .collect()
    };
    let reason = |d: &[f64], omega2: f64| {
        let mut case = passing();
        case.metrics[0].trend = weigh(d, omega2).trend;
        decided(&case)
    };
    // 2.8 standard errors of the slope over twelve hours are 0.0003 with ω of 0.1 %.
    assert_eq!(reason(&line(0.0), 1e-6), "Pass(NonInferior)");
    assert_eq!(reason(&line(0.001), 1e-6), "Pass(NonInferior)");
    assert_eq!(reason(&line(0.0014), 1e-6), "Inconclusive(TrendRising)");
    assert_eq!(reason(&line(-0.01), 1e-6), "Pass(NonInferior)");
    // With ω of 20 % they are 0.057: from parity it may go beyond ln 1.05.
    assert_eq!(reason(&[0.0; 288], 0.04), "Inconclusive(TrendUnknown)");
    assert_eq!(reason(&[0.0; 288], 0.02), "Pass(NonInferior)");
    assert_eq!(reason(&line(0.0), 0.04), "Pass(NonInferior)");
}
