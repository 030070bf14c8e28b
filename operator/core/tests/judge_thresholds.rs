//! Thresholds: gates at theirs and just beyond, hard limits, what settings make of the rules' numbers, and every term of the
//! one-off variance.

#[path = "judge/good.rs"]
mod good;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use good::{good, judge, said};
use heapfleet_core::judge::gates::{self, ArmFacts, Churn, Facts};
use heapfleet_core::judge::noise::{self, OneOff};
use heapfleet_core::judge::num;
use heapfleet_core::judge::rule::{self, Rule};
use heapfleet_core::judge::{
    Code, ControlRuns, Guardrail, GuardrailKind, Identity, Pod, Series, Settings, Verdict,
};
use world::{BLOCK, World, map};

/// Facts that close no gate.
fn open() -> Facts {
    let arm = || ArmFacts {
        reported: true,
        pods: 10,
        expected: 10,
        version: Some("v".to_owned()),
        verified: true,
        full: true,
        evicting: true,
        ..ArmFacts::default()
    };
    Facts {
        canary: arm(),
        controls: vec![arm(), arm()],
        baseline: true,
        load: Some(1.0),
        blocks: 3,
        churn: Churn::Turnovers(1.0, 1.0),
    }
}

/// The gates that one change closes.
fn closed(change: &dyn Fn(&mut Facts)) -> Vec<Code> {
    let mut facts = open();
    change(&mut facts);
    gates::closed(&facts)
}

/// Every gate at its threshold and just beyond.
#[test]
fn gates_at_their_thresholds() {
    assert_eq!(gates::closed(&open()), []);
    for (load, shut) in [
        (1.25, false),
        (0.8, false),
        (1.26, true),
        (0.79, true),
        (f64::NAN, true),
    ] {
        assert_eq!(
            !closed(&|f| f.load = Some(load)).is_empty(),
            shut,
            "load {load}"
        );
    }
    for (age, shut) in [(6.0, false), (7.0, true), (f64::INFINITY, true)] {
        let codes = closed(&|f| f.controls[1].age_blocks = age);
        assert_eq!(codes.contains(&Code::StaleData), shut, "age {age}");
    }
    for (stuck, shut) in [(4, false), (5, true)] {
        let codes = closed(&|f| f.canary.stuck = stuck);
        assert_eq!(codes.contains(&Code::StuckExporter), shut, "stuck {stuck}");
    }
    for (pods, shut) in [(6, false), (5, true)] {
        let codes = closed(&|f| f.controls[0].pods = pods);
        assert_eq!(codes.contains(&Code::LowCoverage), shut, "pods {pods}");
    }
    for (blocks, shut) in [(3, false), (2, true)] {
        let codes = closed(&|f| f.blocks = blocks);
        assert_eq!(
            codes.contains(&Code::TooFewSamples),
            shut,
            "blocks {blocks}"
        );
    }
}

/// Churn, fill and coverage at their thresholds.
#[test]
fn churn_and_fill_at_their_thresholds() {
    for (churn, shut) in [
        // A quarter of its own, half of the control's, and three are enough.
        (Churn::Turnovers(0.25, 0.5), None),
        (Churn::Turnovers(0.24, 0.1), Some(Code::ChurnParity)),
        (Churn::Turnovers(1.0, 2.0), None),
        (Churn::Turnovers(0.99, 2.0), Some(Code::ChurnParity)),
        (Churn::Turnovers(3.0, 100.0), None),
        (Churn::Turnovers(2.99, 100.0), Some(Code::ChurnParity)),
        (Churn::Turnovers(50.0, 1.0), None),
        (Churn::Ages(1.09, 1.0), None),
        (Churn::Ages(1.11, 1.0), Some(Code::ChurnParity)),
        (Churn::Ages(0.89, 1.0), Some(Code::ChurnParity)),
        (Churn::Unknowable, Some(Code::ChurnUnknown)),
        (Churn::Missing, Some(Code::ChurnParity)),
    ] {
        let codes = closed(&|f| f.churn = churn);
        assert_eq!(codes.first().copied(), shut, "{churn:?}");
    }
    for (fill, was, full) in [
        (0.95, false, true),
        (0.949, false, false),
        (0.90, true, true),
        (0.899, true, false),
    ] {
        assert_eq!(gates::is_full(fill, was), full, "{fill} {was}");
    }
    for (expected, least) in [(0, 1), (1, 1), (2, 2), (3, 2), (5, 3), (10, 6)] {
        assert_eq!(gates::quorum(expected), least, "{expected}");
    }
}

/// The order in which closed gates are told is that of the specification.
#[test]
fn the_first_closed_gate_is_told() {
    let nothing = gates::closed(&Facts::default());
    assert_eq!(
        nothing,
        [
            Code::NoCanaryData,
            Code::NoControlData,
            Code::NoBaseline,
            Code::VersionMismatch,
            Code::AllocatorUnverified,
            Code::CacheNotFull,
            Code::NotEvicting,
            Code::LoadUnsteady,
            Code::TooFewSamples,
            Code::ChurnParity,
        ]
    );
    let ordered: Vec<usize> = nothing
        .iter()
        .filter_map(|code| Code::ALL.iter().position(|c| c == code))
        .collect();
    assert!(ordered.is_sorted());
}

/// Near its memory limit for three blocks in a row, not for three of many, and from 95 % on.
#[test]
fn a_memory_limit_is_hit_by_three_blocks_in_a_row() {
    let (world, settings, input) = good();
    let ended = world.change().ended;
    let near = |blocks: &'static [f64], share: f64| {
        let mut input = input.clone();
        let pod = &mut input.canary.pods[0];
        pod.memory_limit = Some(8e9);
        map(&mut pod.rss, |(t, v)| {
            let block = ((t - ended) / BLOCK).floor();
            let high = blocks.iter().any(|b| (*b - block).abs() < 0.5);
            (t, if high { share * 8e9 + v / 1e9 } else { v })
        });
        judge(&settings, &input).reason.to_string()
    };
    assert_eq!(near(&[20.0, 21.0, 22.0], 0.951), "HardLimit:MemoryLimit");
    for (blocks, share) in [
        (&[20.0, 21.0, 22.0][..], 0.945),
        (&[20.0, 21.0], 0.951),
        (&[20.0, 22.0, 24.0], 0.951),
    ] {
        assert_ne!(
            near(blocks, share),
            "HardLimit:MemoryLimit",
            "{blocks:?} {share}"
        );
    }
    // Nor where the block between was not seen.
    let mut gap = input.clone();
    let pod = &mut gap.canary.pods[0];
    pod.memory_limit = Some(8e9);
    let at = |t: f64| ((t - ended) / BLOCK).floor();
    pod.rss.replicas[0].retain(|(t, _)| (at(*t) - 22.0).abs() > 0.5);
    map(&mut pod.rss, |(t, v)| {
        let high = (20.0..24.0).contains(&at(t));
        (t, if high { 7.9e9 + v / 1e9 } else { v })
    });
    assert_ne!(
        judge(&settings, &gap).reason.to_string(),
        "HardLimit:MemoryLimit"
    );
}

/// What settings make of the rules (readings 5, 9, 10 and §13).
#[test]
fn shares_of_the_error_and_priors() {
    let guardrail = |name: &str, kind| Guardrail {
        name: name.to_owned(),
        kind,
        max_increase: 0.08,
        dry_run: false,
    };
    let settings = Settings {
        workloads: 4,
        control_runs: ControlRuns::Target,
        guardrails: vec![
            guardrail("a", GuardrailKind::Continuous),
            guardrail("b", GuardrailKind::Continuous),
            guardrail("c", GuardrailKind::P99),
            guardrail("d", GuardrailKind::Count),
        ],
        ..Settings::default()
    };
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} {want}");
    let rules = rule::rules(&settings, 0.04);
    for (rule, (alpha, region)) in rules.iter().zip([
        (0.025, 0.0025),
        (0.010, 0.005),
        (0.005, 0.005),
        (0.005, 0.005),
        (0.010, 0.005),
    ]) {
        near(rule.alpha, alpha / 4.0);
        near(rule.prior.region, 2.0 * region);
    }
    near(rule::count_rules(&settings)[0].alpha, 0.005 / 4.0);
    near(rules[0].prior.sigma0, 0.04);
    near(rules[2].prior.sigma0, 0.015);
    for (identity, share, lottery, want) in [
        (Identity::Stable, 0.79, (0.0, 0.0), (0.04, true)),
        (Identity::Stable, 0.80, (0.0, 0.0), (0.015, false)),
        (Identity::Stable, 0.1, (0.0, 5.0), (0.015, false)),
        (Identity::None, 0.99, (0.0, 4.9), (0.04, true)),
        (Identity::None, 0.1, (0.005, 5.0), (0.001_f64.sqrt(), false)),
        (Identity::None, 0.1, (0.0, 5.0), (0.015, false)),
    ] {
        let (sigma0, cold) = noise::restart_prior(identity, share, lottery);
        near(sigma0, want.0);
        assert_eq!(cold, want.1);
    }
}

/// τ² term by term (§6): pods of both arms, the region or what the control regions show, the control's own movement, the
/// baseline's error.
#[test]
fn every_term_of_the_one_off_variance_counts() {
    let prior = Rule::ratio(0.03).prior;
    let (canary, one_region) = ([0.0; 2], [vec![0.0; 4]]);
    let base = OneOff {
        canary: &canary,
        controls: &one_region,
        draws: 1.0,
        omega2: 1e-4,
        terms: 5,
        baseline: 1000,
        moved: 0.0,
        spread: 0.0,
        lottery: (0.0, 0.0),
    };
    // Four degrees of freedom at zero beside ten at 1.5 %.
    let s2 = 10.0 * 0.015_f64.powi(2) / 14.0;
    let expect = s2 * (0.5 + 0.25) + 2.0 * 0.0025_f64.powi(2) + 1e-4 * 5.0 / 1000.0;
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-15, "{got} {want}");
    near(noise::one_off(&prior, &base), expect);
    let more = |change: &dyn Fn(&mut OneOff<'_>)| {
        let mut one = base.clone();
        change(&mut one);
        noise::one_off(&prior, &one) - expect
    };
    near(more(&|o| o.moved = 0.8), 0.04_f64.powi(2));
    near(more(&|o| o.spread = 0.001), 0.0);
    near(
        more(&|o| o.spread = 0.01),
        2.0 * (1e-4 - 0.0025_f64.powi(2)),
    );
    near(
        more(&|o| o.lottery = (0.014, 14.0)),
        0.75 * ((14.0 * s2 + 0.014) / 28.0 - s2),
    );
    // Arms that are compared with themselves draw twice.
    let with = |draws: f64| {
        more(&|o| {
            o.canary = &[0.02, -0.02];
            o.draws = draws;
        })
    };
    near(with(1.0), 0.75 * 0.0008 / 14.0);
    near(with(2.0), 0.75 * 0.0016 / 14.0);
}

/// Evictions that ended are seen after fifteen minutes, and a process whose proof is younger than a block does not count in it.
#[test]
fn facts_of_pods_hold_only_while_they_hold() {
    let (world, settings, input) = good();
    let ended = world.change().ended;
    for (stop, shut) in [(58.5, false), (54.5, true)] {
        let mut input = input.clone();
        for pod in &mut input.canary.pods {
            map(&mut pod.evictions, |(t, v)| {
                let until = ended + stop * BLOCK;
                (t, if t > until { v - 1e7 * (t - until) } else { v })
            });
        }
        let closed = judge(&settings, &input).closed;
        assert_eq!(closed.contains(&Code::NotEvicting), shut, "{stop}");
    }
    let mut late = input.clone();
    for pod in &mut late.canary.pods {
        pod.allocator.since = ended + 30.5 * BLOCK;
    }
    let seen = judge(&settings, &late);
    assert_eq!(
        (seen.accepted, said(&seen).as_str()),
        (29, "Pass(NonInferior)")
    );
    assert_eq!(seen.refused.get(&Code::AllocatorUnverified), Some(&31));
    // No evidence at all is not what anybody decides on.
    let mut none = input;
    none.canary
        .pods
        .iter_mut()
        .for_each(|p| p.cache = Series::default());
    assert_eq!(judge(&settings, &none).verdict, Verdict::InsufficientData);
}

/// R4 on whole looks, where much is known of restarts so that one pod of three makes evidence: without the loudest pod of
/// either arm none is left, and that is no decision; two such pods are a regression.
#[test]
fn one_loud_pod_of_either_arm_is_no_decision() {
    let world = World {
        noise: 0.002,
        ..World::default()
    };
    let settings = Settings {
        restart_noise_weight: 40.0,
        ..world.settings()
    };
    let since = world.change().began;
    let moved = |pods: &mut [Pod], factor: f64| {
        for pod in pods {
            map(&mut pod.rss, |(t, v)| {
                (t, if t > since { factor * v } else { v })
            });
        }
    };
    let single = "Inconclusive(SinglePodOutlier:ratio)";
    let mut loud = world.input();
    moved(&mut loud.canary.pods[..1], 1.35);
    assert_eq!(said(&judge(&settings, &loud)), single);
    let mut quiet = world.input();
    moved(&mut quiet.controls[0].pods[..1], 1.0 / 1.35);
    assert_eq!(said(&judge(&settings, &quiet)), single);
    let mut both = world.input();
    moved(&mut both.canary.pods[..2], 1.35);
    assert_eq!(said(&judge(&settings, &both)), "Fail(Regression:ratio)");
}

/// A baseline may have holes of a tenth, and never has fewer than 36 blocks.
#[test]
fn a_baseline_may_have_few_holes() {
    let (world, settings, input) = good();
    let began = world.change().began;
    for (blocks, holes, enough) in [
        (60.0, 6.0, true),
        (60.0, 7.0, false),
        (36.0, 0.0, true),
        (36.0, 1.0, false),
        (40.0, 4.0, true),
    ] {
        let settings = Settings {
            baseline_seconds: blocks * BLOCK,
            ..settings.clone()
        };
        let mut input = input.clone();
        let from = began - 20.0 * BLOCK;
        for pod in &mut input.canary.pods {
            pod.rss.replicas[0].retain(|(t, _)| *t < from || *t >= from + holes * BLOCK);
        }
        let closed = judge(&settings, &input).closed;
        assert_eq!(
            !closed.contains(&Code::NoBaseline),
            enough,
            "{blocks} {holes}"
        );
    }
}

/// T-51 at its threshold: one pod of five more is no other population, one of three is.
#[test]
fn a_fifth_more_pods_are_no_other_population() {
    for (pods, refused) in [(5, None), (3, Some(&1))] {
        let world = World {
            canary: pods,
            ..World::default()
        };
        let (settings, mut input) = (world.settings(), world.input());
        let ended = world.change().ended;
        input.canary.expected = vec![(ended, pods), (ended + 10.5 * BLOCK, pods + 1)];
        let seen = judge(&settings, &input);
        assert_eq!(
            seen.refused.get(&Code::PopulationChanged),
            refused,
            "{pods}"
        );
    }
}

/// Pods that keep their identity are compared with themselves, so that one restart is in each effect; others with their arm,
/// and each effect holds two draws (§6, reading 4).
#[test]
fn pods_without_identity_draw_twice() {
    for (identity, draws) in [(Identity::Stable, 1.0), (Identity::None, 2.0)] {
        let world = World {
            identity,
            noise: 0.0,
            ..World::default()
        };
        let (settings, input) = (world.settings(), world.input());
        let seen = judge(&settings, &input);
        let (sum, df) = seen.frozen.unwrap().metrics[0].lottery;
        let since = world.change().began;
        let spread = |pods: &[Pod]| {
            let means: Vec<f64> = pods
                .iter()
                .filter_map(|pod| {
                    let all = pod.rss.replicas[0].iter().zip(&pod.cache.replicas[0]);
                    let level = |late: bool| {
                        let mut logs = all.clone().filter(|((t, _), _)| (*t > since) == late);
                        logs.next().map(|((_, rss), (_, cache))| (rss / cache).ln())
                    };
                    let own = if draws < 2.0 { level(false)? } else { 0.0 };
                    Some(level(true)? - own)
                })
                .collect();
            num::variance(&means).unwrap()
        };
        let both = spread(&input.canary.pods) + spread(&input.controls[0].pods);
        let want = (10.0 * 0.015_f64.powi(2) + sum + 2.0 * draws * both) / (10.0 + df + 4.0);
        let (sd, freedom) = seen.learned.unwrap();
        // Pods with identity weigh their baseline by its length, the same for all: their spread is as it is.
        assert!(
            (sd.powi(2) / want - 1.0).abs() < 1e-6,
            "{identity:?} {} {want}",
            sd.powi(2)
        );
        assert!((freedom - df - 4.0).abs() < 1e-9);
    }
}
