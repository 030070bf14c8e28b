//! The running state against the full look (judge.md §3.8, property 4): block by block both say the same, whatever goes wrong
//! in between; and what ends a bake is never said by the running state.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/tale.rs"]
mod tale;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests change worlds")]
mod world;

use std::collections::BTreeMap;

use heapfleet_core::judge::{
    Broken, Frozen, Identity, Interim, Look, LookInput, Numbers, Running, Settings, Verdict, look,
};
use proptest::prelude::*;
use tale::{Tale, Troubles};
use world::{BLOCK, World};

pub(crate) fn index(share: f64, of: usize) -> usize {
    (share * of as f64) as usize
}

pub(crate) fn floor(x: f64) -> i64 {
    x.floor() as i64
}

pub(crate) fn real(n: i64) -> f64 {
    n as f64
}

fn near(what: &str, a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()), "{what}: {a} {b}");
}

fn same_numbers(a: &Numbers, b: &Numbers) {
    assert_eq!(
        (&a.metric, a.dry_run, a.blocks),
        (&b.metric, b.dry_run, b.blocks)
    );
    for (what, x, y) in [
        ("theta", a.theta, b.theta),
        ("lower", a.lower, b.lower),
        ("upper", a.upper, b.upper),
        ("ln E", a.ln_e, b.ln_e),
        ("B", a.b, b.b),
        ("B_N", a.b_n, b.b_n),
        ("omega", a.omega, b.omega),
        ("tau", a.tau, b.tau),
        ("detectable", a.detectable, b.detectable),
    ] {
        near(&format!("{} of {}", what, a.metric), x, y);
    }
}

/// The look from the running state is the full look, less what is only carried.
fn same(full: &Look, interim: &Look) {
    let said = |l: &Look| (l.verdict, l.reason.to_string(), l.is_final);
    assert_eq!(said(full), said(interim));
    assert_eq!(
        (full.accepted, &full.refused),
        (interim.accepted, &interim.refused)
    );
    assert_eq!(full.closed, interim.closed);
    assert_eq!(full.assumptions, interim.assumptions);
    assert_eq!(full.preflight, interim.preflight);
    near("next look", full.next_look, interim.next_look);
    assert_eq!(full.numbers.len(), interim.numbers.len());
    for (a, b) in full.numbers.iter().zip(&interim.numbers) {
        same_numbers(a, b);
    }
    for (a, b) in full.evidence.iter().zip(&interim.evidence) {
        assert_eq!((&a.metric, &a.columns), (&b.metric, &b.columns));
    }
    for (a, b) in [
        (full.ratio_canary, interim.ratio_canary),
        (full.ratio_control, interim.ratio_control),
        (full.learned.map(|l| l.0), interim.learned.map(|l| l.0)),
        (full.learned.map(|l| l.1), interim.learned.map(|l| l.1)),
    ] {
        assert_eq!(a.is_some(), b.is_some());
        near("ratio or lottery", a.unwrap_or(0.0), b.unwrap_or(0.0));
    }
}

/// What a bake's looks came to.
#[derive(Debug, Default)]
struct Told {
    open: usize,
    decides: usize,
    broken: BTreeMap<Broken, usize>,
}

/// Looks at each block of a bake (at every `stride`-th), and begins anew at `anew`.
fn bake(tale: &Tale, stride: usize, anew: i64) -> Told {
    let (settings, frozen) = (&tale.settings, &tale.frozen);
    let mut told = Told::default();
    let mut state: Option<Running> = None;
    for end in (tale.from + 1..=tale.to).step_by(stride) {
        let whole = tale.input(end, None);
        let full = look(settings, Some(frozen), &whole);
        let interim = state.as_mut().map(|running| {
            let input = tale.input(end, Some(running.since()));
            running.look(settings, frozen, &input)
        });
        if full.is_final || matches!(full.verdict, Verdict::Pass | Verdict::Fail) {
            assert!(
                interim.as_ref().is_none_or(Interim::full_needed),
                "{}",
                full.sentence()
            );
        }
        match interim {
            Some(Interim::Open(interim)) => {
                same(&full, &interim);
                told.open += 1;
            }
            Some(Interim::Decides) => {
                let crosses =
                    |n: &Numbers| n.ln_e >= n.ln_e_needed - 1e-9 || n.b >= n.b_needed - 1e-9;
                assert!(
                    full.is_final || full.numbers.iter().any(crosses),
                    "{}",
                    full.sentence()
                );
                told.decides += 1;
            }
            Some(Interim::Broken(why)) => {
                *told.broken.entry(why).or_default() += 1;
                state = None;
            }
            None => {}
        }
        if state.is_none() || end == anew {
            state = Running::new(settings, frozen, &whole).ok();
            assert!(state.is_some() || end < tale.from + 2, "no state at {end}");
        }
        if full.verdict == Verdict::Fail {
            break;
        }
    }
    told
}

fn worlds() -> impl Strategy<Value = World> {
    (
        any::<u64>(),
        (1_u32..7, 1_u32..7),
        20_u32..70,
        prop_oneof![Just(0.0), -0.5..0.1_f64],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(seed, (canary, control), after, effect, stable, latency, long)| World {
                seed,
                canary,
                control,
                // From 288 blocks on the peak is judged, too.
                before: if long { 300 } else { 60 },
                after,
                effect,
                identity: if stable {
                    Identity::Stable
                } else {
                    Identity::None
                },
                latency,
                ..World::default()
            },
        )
}

fn troubles() -> impl Strategy<Value = Troubles> {
    let flag = || any::<bool>();
    let some = || prop_oneof![3 => Just(0_u32), 1 => 1_u32..3];
    let rare = || prop::bool::weighted(0.2);
    (
        (any::<u64>(), flag(), flag(), flag(), flag(), flag(), flag()),
        (rare(), rare(), rare()),
        (flag(), flag(), flag()),
        (some(), some(), some(), some(), some(), some(), some()),
        prop_oneof![Just(0.0), 0.0..0.3_f64],
    )
        .prop_map(
            |(
                (seed, third, measured, told, filling, dirty, slow),
                silent,
                guardrails,
                (restarts, gaps, stuck, idle, outliers, born, gone),
                late,
            )| Troubles {
                seed,
                third,
                silent,
                measured,
                guardrails,
                told,
                restarts,
                gaps,
                stuck,
                idle,
                outliers,
                born,
                gone,
                slow,
                filling,
                late,
                dirty,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// 4. A look from the running state equals the look from all samples, whatever goes wrong.
    #[test]
    fn a_look_from_the_state_equals_the_full_look(
        world in worlds(),
        troubles in troubles(),
        stride in 1_usize..4,
        anew in 0.0..1.0_f64,
    ) {
        if let Some(tale) = Tale::new(&world, &troubles) {
            let anew = tale.from + floor(anew * f64::from(world.after));
            bake(&tale, stride, anew);
        }
    }

    /// And where nothing goes wrong the state is never given up.
    #[test]
    fn a_calm_bake_needs_no_other_state(
        world in worlds(),
        seed in any::<u64>(),
        late in 0.0..0.2_f64,
        third in any::<bool>(),
        guardrails in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let world = World { after: world.after.max(30), ..world };
        let troubles = Troubles { seed, third, guardrails, late, ..Troubles::default() };
        let tale = Tale::new(&world, &troubles);
        let told = tale.map(|tale| bake(&tale, 1, 0)).unwrap_or_default();
        prop_assert!(told.broken.is_empty(), "{told:?}");
        prop_assert!(told.open + told.decides > 0, "{told:?}");
    }
}

/// A calm bake of some blocks: its tale, and the state when it was half over.
fn half() -> (Tale, Running) {
    let world = World {
        effect: -0.02,
        ..World::default()
    };
    let tale = Tale::new(&world, &Troubles::default()).expect("a baseline");
    let input = tale.input(tale.from + 30, None);
    let state = Running::new(&tale.settings, &tale.frozen, &input).expect("a state");
    (tale, state)
}

/// Whatever the state was not made for breaks it, and it stays as it was.
#[test]
fn what_does_not_continue_the_state_breaks_it() {
    type Case = (
        &'static str,
        Broken,
        fn(&mut Settings, &mut Frozen, &mut LookInput),
    );
    let cases: [Case; 13] = [
        ("settings", Broken::Settings, |s, _, _| s.min_gain = 0.1),
        ("settings out of range", Broken::Settings, |s, _, _| {
            s.min_gain = 7.0;
        }),
        ("a number of the baseline", Broken::Frozen, |_, f, _| {
            f.metrics[0].omega2 *= 2.0;
        }),
        ("another version", Broken::Frozen, |_, f, _| f.version += 1),
        ("a Fail", Broken::Frozen, |_, f, _| {
            f.failed = Some(heapfleet_core::judge::Code::Regression.into());
        }),
        ("the change", Broken::Change, |_, _, i| {
            i.change.as_mut().expect("a change").ended += BLOCK;
        }),
        ("another control", Broken::Change, |_, _, i| {
            i.controls[0].region.push('2');
        }),
        ("one control more", Broken::Change, |_, _, i| {
            let mut more = i.controls[0].clone();
            more.region.push('2');
            i.controls.push(more);
        }),
        ("the clock", Broken::Clock, |_, _, i| i.now -= 3.0 * BLOCK),
        ("a version told late", Broken::Told, |_, _, i| {
            i.canary.pods[0].version = Some("sha256:b".to_owned());
        }),
        ("sizes told late", Broken::Told, |_, _, i| {
            let ended = i.change.expect("a change").ended;
            i.canary.expected.push((ended, 9));
        }),
        ("a pod from nowhere", Broken::UnknownPod, |_, _, i| {
            i.canary.pods[0].name.push('2');
        }),
        ("replicas of a counter", Broken::Replicas, |_, _, i| {
            let series = &mut i.canary.pods[0].evictions.replicas;
            series.push(series[0].clone());
        }),
    ];
    let (tale, state) = half();
    for (what, why, change) in cases {
        let mut state = state.clone();
        let before = state.clone();
        let (mut settings, mut frozen) = (tale.settings.clone(), tale.frozen.clone());
        let mut input = tale.input(tale.from + 31, Some(state.since()));
        change(&mut settings, &mut frozen, &mut input);
        let said = state.look(&settings, &frozen, &input);
        assert_eq!(said, Interim::Broken(why), "{what}");
        assert_eq!(format!("{state:?}"), format!("{before:?}"), "{what}");
    }
}

/// A pod that was silent, and hence not expected where sizes are not told, breaks the state when it speaks again.
#[test]
fn a_pod_that_speaks_again_breaks_the_state() {
    let (tale, _) = half();
    let mut input = tale.input(tale.from + 30, None);
    let pod = &mut input.canary.pods[0];
    for series in [&mut pod.rss, &mut pod.cache] {
        series.replicas[0].retain(|(t, _)| *t < BLOCK * real(tale.from + 20));
    }
    let look_on = |input: &LookInput| {
        let state = Running::new(&tale.settings, &tale.frozen, input);
        let mut state = state.expect("a state");
        let next = tale.input(tale.from + 31, Some(state.since()));
        // Its size told, the arm expected the pod all along.
        let next = LookInput {
            canary: heapfleet_core::judge::Arm {
                expected: input.canary.expected.clone(),
                ..next.canary
            },
            ..next
        };
        state.look(&tale.settings, &tale.frozen, &next)
    };
    assert_eq!(look_on(&input), Interim::Broken(Broken::Silence));
    input.canary.expected = vec![(0.0, 3)];
    assert!(matches!(look_on(&input), Interim::Open(_)));
}

/// Hard limits and proofs of a wrong allocator are the full look's, too.
#[test]
fn what_fails_at_once_is_left_to_the_full_look() {
    type Case = (&'static str, fn(&mut LookInput));
    let cases: [Case; 3] = [
        ("an OOM kill", |i| i.canary.pods[0].oom_killed = true),
        ("a memory limit", |i| {
            i.canary.pods[0].memory_limit = Some(4.4e9);
        }),
        ("a wrong allocator", |i| {
            i.controls[0].pods[0].allocator.seen = heapfleet_core::judge::Seen::Target;
        }),
    ];
    let (tale, state) = half();
    for (what, change) in cases {
        let mut state = state.clone();
        let mut input = tale.input(tale.from + 31, Some(state.since()));
        change(&mut input);
        assert!(
            state
                .look(&tale.settings, &tale.frozen, &input)
                .full_needed(),
            "{what}"
        );
    }
}

/// Where nothing is settled there is no state, and none where counts are weighed.
#[test]
fn some_bakes_have_no_state() {
    let (tale, _) = half();
    let young = tale.input(tale.from + 1, None);
    let new = |s: &Settings, i: &LookInput| Running::new(s, &tale.frozen, i).err();
    assert_eq!(new(&tale.settings, &young), Some(Broken::Young));
    let input = tale.input(tale.from + 30, None);
    let mut settings = tale.settings.clone();
    settings.guardrails.push(heapfleet_core::judge::Guardrail {
        name: "errors".to_owned(),
        kind: heapfleet_core::judge::GuardrailKind::Count,
        max_increase: 0.5,
        dry_run: true,
    });
    assert_eq!(new(&settings, &input), Some(Broken::Counts));
    let before = LookInput {
        change: None,
        ..input
    };
    assert_eq!(new(&tale.settings, &before), Some(Broken::Change));
}

/// A hundred pods a side and a day of blocks stay below 64 KiB, and looking on does not let the state grow by more than the
/// new blocks.
#[test]
fn a_state_is_small() {
    let world = World {
        canary: 100,
        control: 100,
        before: 300,
        after: 292,
        effect: -0.02,
        ..World::default()
    };
    let tale = Tale::new(&world, &Troubles::default()).expect("a baseline");
    let (settings, frozen) = (&tale.settings, &tale.frozen);
    let input = tale.input(tale.to - 2, None);
    let mut state = Running::new(settings, frozen, &input).expect("a state");
    let before = state.bytes();
    for end in [tale.to - 1, tale.to] {
        let input = tale.input(end, Some(state.since()));
        let said = state.look(settings, frozen, &input);
        assert!(!matches!(said, Interim::Broken(_)), "{said:?}");
    }
    let after = state.bytes();
    assert!(
        after < 64 * 1024 && after - before < 256,
        "{before} {after}"
    );
    // One number per block and 24 bytes per pod would already be half of it.
    assert!(after > 16 * 1024, "{after}");
}
