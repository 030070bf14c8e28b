//! Whole looks, case by case: facts that decide, undeclared series, ends of a bake, stored evidence.

#[path = "judge/good.rs"]
mod good;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use good::{good, judge, said};
use heapfleet_core::judge::constants::EVIDENCE_BYTES;
use heapfleet_core::judge::{
    Assumption, Capacity, Change, Code, ControlRestart, ControlRuns, Guardrail, GuardrailKind,
    Identity, LookInput, Seen, Series, Settings, Verdict, agrees, look, restore, store,
};
use world::{BLOCK, World, map, pods};

#[test]
fn proof_of_another_allocator_fails_after_the_deadline_even_for_one_pod() {
    let (world, settings, input) = good();
    let ready = world.change().began + 1.0;
    for seen in [Seen::Source, Seen::Other("tcmalloc".to_owned())] {
        for (later, want) in [(899.0, Verdict::Pass), (901.0, Verdict::Fail)] {
            let mut input = input.clone();
            let pod = &mut input.canary.pods[0];
            pod.allocator.seen = seen.clone();
            pod.ready_at = Some(input.now - later);
            let got = judge(&settings, &input);
            if want == Verdict::Fail {
                assert_eq!(said(&got), "Fail(AllocatorNotActive)");
                assert!(got.is_final && got.frozen.unwrap().failed.is_some());
            } else {
                assert_ne!(got.verdict, Verdict::Fail);
            }
        }
    }
    // No proof either way is a closed gate for ever, and so is a pod that never became ready.
    for (seen, ready) in [(Seen::Unknown, Some(ready)), (Seen::Source, None)] {
        let mut input = input.clone();
        for pod in &mut input.canary.pods {
            pod.allocator.seen = seen.clone();
            pod.ready_at = ready;
        }
        assert_eq!(
            said(&judge(&settings, &input)),
            "InsufficientData(AllocatorUnverified)"
        );
    }
    // A control pod with the target is as wrong, unless the control is of converted regions.
    let mut input = input;
    for pod in &mut input.controls[0].pods {
        pod.allocator.seen = Seen::Target;
        pod.ready_at = Some(ready);
    }
    assert_eq!(said(&judge(&settings, &input)), "Fail(AllocatorNotActive)");
    let converted = Settings {
        control_runs: ControlRuns::Target,
        ..settings
    };
    assert_eq!(said(&judge(&converted, &input)), "Pass(NonInferior)");
}

#[test]
fn hard_limits_need_no_statistics() {
    let (_, settings, input) = good();
    let check = |change: &dyn Fn(&mut Settings, &mut LookInput), want: &str| {
        let (mut settings, mut input) = (settings.clone(), input.clone());
        change(&mut settings, &mut input);
        let got = judge(&settings, &input);
        assert_eq!(said(&got), want);
    };
    check(
        &|_, i| i.canary.pods[1].oom_killed = true,
        "Fail(HardLimit:OOMKilled)",
    );
    check(
        &|_, i| i.canary.pods[1].crash_loop = true,
        "Fail(HardLimit:CrashLoop)",
    );
    check(
        &|_, i| i.canary.pods[1].memory_limit = Some(1e9),
        "Fail(HardLimit:MemoryLimit)",
    );
    check(
        &|_, i| i.canary.pods[1].memory_limit = Some(1e12),
        "Pass(NonInferior)",
    );
    check(
        &|_, i| i.controls[0].pods[1].oom_killed = true,
        "Pass(NonInferior)",
    );
    check(
        &|s, _| s.ratio_ceiling = Some(0.5),
        "Fail(HardLimit:RatioCeiling)",
    );
    check(&|s, _| s.ratio_ceiling = Some(5.0), "Pass(NonInferior)");
    // Without a baseline too.
    let mut none = input.clone();
    none.canary.pods[0].oom_killed = true;
    none.controls.clear();
    assert_eq!(said(&judge(&settings, &none)), "Fail(HardLimit:OOMKilled)");
}

#[test]
fn undeclared_series_fall_back_and_are_listed() {
    let world = World {
        effect: -0.4,
        before: 90,
        after: 66,
        ..World::default()
    };
    let undeclared = |world: &World| {
        let mut input = world.input();
        for pod in pods(&mut input) {
            pod.capacity = Capacity::Unknown;
            pod.evictions = Series::default();
            pod.requests = Series::default();
        }
        input
    };
    let mut settings = Settings {
        declared: heapfleet_core::judge::Declared::default(),
        baseline_seconds: 60.0 * BLOCK,
        ..world.settings()
    };
    assert!((settings.lead() - 25.0 * BLOCK).abs() < 1e-9);
    let input = undeclared(&world);
    let got = judge(&settings, &input);
    // The minimum bake is doubled to 48; a cache is only known to be flat after 24 blocks.
    assert_eq!(said(&got), "Inconclusive(MinBake)", "{got:#?}");
    for assumption in [
        Assumption::FullByBaseline,
        Assumption::ChurnByTime,
        Assumption::LoadUnchecked,
    ] {
        assert!(got.assumptions.contains(&assumption));
    }
    let longer = World { after: 90, ..world };
    let mut input = undeclared(&longer);
    let frozen = judge(&settings, &input).frozen;
    assert_eq!(said(&judge(&settings, &input)), "Pass(NonInferior)");
    // Ages apart by more than a tenth.
    for pod in &mut input.controls[0].pods {
        pod.starts = vec![pod.starts[0], pod.starts[1] - 20.0 * BLOCK];
    }
    assert_eq!(
        said(&look(&settings, frozen.as_ref(), &input)),
        "InsufficientData(ChurnParity)"
    );
    // And no Pass at all where neither churn nor age can be told.
    settings.control_restart = ControlRestart::None;
    assert_eq!(
        said(&look(&settings, frozen.as_ref(), &input)),
        "InsufficientData(ChurnUnknown)"
    );
}

#[test]
fn time_alone_never_promotes() {
    let (world, settings, input) = good();
    // The caches never fill: waiting, then final at the gate timeout, never a Pass.
    let mut cold = input.clone();
    for pod in pods(&mut cold) {
        let since = world.change().began;
        map(&mut pod.cache, |(t, v)| {
            (t, if t > since { 0.5 * v } else { v })
        });
    }
    let frozen = judge(&settings, &cold).frozen;
    for (timeout, ends) in [(BLOCK * 59.0, true), (BLOCK * 62.0, false)] {
        let settings = Settings {
            gate_timeout_seconds: timeout,
            ..settings.clone()
        };
        let got = look(&settings, frozen.as_ref(), &cold);
        assert_eq!(
            (said(&got).as_str(), got.is_final),
            ("InsufficientData(CacheNotFull)", ends)
        );
    }
    // Parity with a gain asked for: Inconclusive, final at the maximum bake.
    let parity = World {
        effect: 0.0,
        noise: 0.002,
        canary: 8,
        control: 8,
        ..World::default()
    }
    .input();
    for (most, ends) in [(1000, false), (40, true)] {
        let settings = Settings {
            max_bake_blocks: most,
            ..settings.clone()
        };
        let got = judge(&settings, &parity);
        assert_eq!(
            (got.verdict, got.is_final),
            (Verdict::Inconclusive, ends),
            "{}",
            got.sentence()
        );
    }
    // Any bake ends after three maximum bakes of wall clock.
    let late = LookInput {
        now: input.now + 3.0 * 1000.0 * BLOCK,
        ..input
    };
    let got = judge(&settings, &late);
    assert_eq!(
        (said(&got).as_str(), got.is_final),
        ("InsufficientData(StaleData)", true)
    );
}

#[test]
fn a_bake_that_has_just_begun_has_too_few_blocks() {
    let (world, settings, input) = good();
    let change = world.change();
    for (blocks, want) in [(0.0, "TooFewSamples"), (2.0, "TooFewSamples")] {
        let now = change.ended + blocks * BLOCK + 31.0;
        let got = judge(
            &settings,
            &LookInput {
                now,
                ..input.clone()
            },
        );
        assert_eq!(said(&got), format!("InsufficientData({want})"));
        assert!(got.next_look > now && got.next_look <= now + BLOCK);
    }
}

#[test]
fn a_baseline_is_asked_for_before_anything_is_touched() {
    let world = World {
        identity: Identity::None,
        ..World::default()
    };
    let (settings, mut input) = (world.settings(), world.input());
    input.change = None;
    input.now = world.change().began;
    let got = judge(&settings, &input);
    assert_eq!(said(&got), "InsufficientData(NotStarted)");
    let preflight = got.preflight.unwrap();
    assert_eq!(
        (preflight.canary, preflight.controls.as_slice()),
        (3, [3].as_slice())
    );
    // Three pods a side with 1.5 %: about +4 % is rolled back in half of all bakes, parity passes a margin of 3.7 %.
    assert!(
        (0.03..0.06).contains(&preflight.rolled_back_half),
        "{preflight:?}"
    );
    assert!(
        (0.025..0.055).contains(&preflight.parity_margin),
        "{preflight:?}"
    );
    assert!(preflight.rolled_back_most > preflight.rolled_back_half);
    let short = Settings {
        baseline_seconds: 40.0 * BLOCK,
        ..settings.clone()
    };
    assert!(judge(&short, &input).frozen.is_some());
    input.now = world::ORIGIN + 20.0 * BLOCK;
    let got = judge(&settings, &input);
    assert_eq!(said(&got), "InsufficientData(NoBaseline)");
    assert!(got.frozen.is_none());
}

#[test]
fn wrong_settings_are_named() {
    let (_, settings, mut input) = good();
    let check = |settings: Settings, field: &str| {
        let got = judge(&settings, &input);
        assert_eq!(
            said(&got),
            format!("InsufficientData(InvalidSettings:{field})")
        );
    };
    check(
        Settings {
            block_seconds: f64::NAN,
            ..settings.clone()
        },
        "blockSeconds",
    );
    check(
        Settings {
            min_bake_blocks: 1,
            ..settings.clone()
        },
        "minBakeBlocks",
    );
    check(
        Settings {
            min_gain: 1.0,
            ..settings.clone()
        },
        "minGain",
    );
    check(
        Settings {
            scrape_seconds: 0.0,
            ..settings.clone()
        },
        "scrapeSeconds",
    );
    let twice = Guardrail {
        name: "ratio".to_owned(),
        kind: GuardrailKind::P99,
        max_increase: 0.1,
        dry_run: false,
    };
    check(
        Settings {
            guardrails: vec![twice],
            ..Settings::default()
        },
        "guardrails",
    );
    input.controls[0].region = input.canary.region.clone();
    assert_eq!(
        said(&judge(&settings, &input)),
        "InsufficientData(InvalidSettings:regions)"
    );
}

#[test]
fn several_control_regions_must_all_be_seen() {
    let (_, settings, mut input) = good();
    let mut second = World {
        seed: 9,
        ..World::default()
    }
    .input()
    .controls
    .remove(0);
    second.region = "lhr".to_owned();
    input.controls.push(second);
    assert_eq!(said(&judge(&settings, &input)), "Pass(NonInferior)");
    input.controls[1].pods.clear();
    let got = judge(&settings, &input);
    assert_eq!(got.verdict, Verdict::InsufficientData);
    assert!(got.closed.contains(&Code::NoControlData));
}

/// T-51: a block in which the number of pods changed by more than a fifth does not count.
#[test]
fn a_changed_population_is_left_out() {
    let (world, settings, mut input) = good();
    let ended = world.change().ended;
    input.canary.expected = vec![
        (ended, 3),
        (ended + 10.5 * BLOCK, 4),
        (ended + 20.5 * BLOCK, 3),
    ];
    let got = judge(&settings, &input);
    assert_eq!(got.refused.get(&Code::PopulationChanged), Some(&2));
    // Two of five is no quorum of 60 %.
    input.canary.expected = vec![(ended, 6)];
    assert_eq!(
        said(&judge(&settings, &input)),
        "InsufficientData(LowCoverage)"
    );
}

#[test]
fn stored_evidence_is_never_trusted() {
    let (_, settings, input) = good();
    let seen = judge(&settings, &input);
    let frozen = seen.frozen.clone().unwrap();
    let stored = store(&frozen, &seen.evidence, EVIDENCE_BYTES).unwrap();
    assert!(stored.frozen.len() + stored.evidence.len() < 4096);
    for cut in 0..stored.evidence.len() {
        let mut broken = stored.clone();
        broken.evidence.truncate(cut);
        if let Ok((_, evidence)) = restore(&broken) {
            assert!(
                evidence.len() < seen.evidence.len()
                    || agrees(&evidence, &seen.evidence, 2).is_ok()
            );
        }
        let mut broken = stored.clone();
        broken.frozen.truncate(cut.min(broken.frozen.len() - 1));
        assert!(restore(&broken).is_err());
    }
    let mut other = stored;
    other.version += 1;
    assert!(restore(&other).is_err());
    // Final verdicts that rest on statistics are held when the evidence differs; hard limits are not.
    let mut wrong = seen.evidence.clone();
    wrong[0].d[0] += 0.5;
    let held = seen.clone().confirmed(&wrong, 2);
    assert_eq!(said(&held), "InsufficientData(EvidenceMismatch:ratio)");
    assert_eq!(
        said(&seen.clone().confirmed(&seen.evidence, 2)),
        "Pass(NonInferior)"
    );
    // A frozen baseline of another version is fitted anew; an absorbing Fail in it stays.
    let old = heapfleet_core::judge::Frozen {
        version: 0,
        ..frozen
    };
    assert_eq!(
        said(&look(&settings, Some(&old), &input)),
        "Pass(NonInferior)"
    );
}

#[test]
fn sentences_are_for_people() {
    let (_, settings, input) = good();
    let got = judge(&settings, &input);
    assert_eq!(
        got.sentence(),
        "Passed: memory is shown to be no worse than asked for; the ratio changed by -33 % over 60 blocks."
    );
    let worse = World {
        effect: 0.3,
        ..World::default()
    };
    let got = judge(&worse.settings(), &worse.input());
    assert!(
        got.sentence()
            .starts_with("Failed: it is worse than tolerated beyond doubt (ratio)")
    );
    for pod in input.canary.pods {
        assert!(!got.sentence().contains(&pod.name));
    }
    let parity = World::default();
    let got = judge(&parity.settings(), &parity.input());
    assert!(
        got.sentence().starts_with("No decision yet: "),
        "{}",
        got.sentence()
    );
}

/// A change that took no time is still a change, and one that never ended is an error of the caller.
#[test]
fn changes_at_the_edge() {
    let (_, settings, mut input) = good();
    let now = input.now;
    input.change = Some(Change {
        began: now,
        ended: now,
    });
    assert_eq!(judge(&settings, &input).verdict, Verdict::InsufficientData);
    input.change = Some(Change {
        began: now,
        ended: now - 1.0,
    });
    assert_eq!(
        said(&judge(&settings, &input)),
        "InsufficientData(InvalidSettings:change)"
    );
    input.change = Some(Change {
        began: now + 1e6,
        ended: now + 2e6,
    });
    assert_eq!(judge(&settings, &input).verdict, Verdict::InsufficientData);
}
