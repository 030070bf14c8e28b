//! The running state against the full look (judge.md §3.8, property 4): block by block both say the same, whatever goes wrong
//! in between; and what ends a bake is never said by the running state.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/tale.rs"]
mod tale;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests change worlds")]
mod world;

use std::collections::BTreeMap;

use heapfleet_core::judge::{Broken, Identity, Interim, Look, Numbers, Running, Verdict, look};
use proptest::prelude::*;
use tale::{Tale, Troubles};
use world::World;

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
        (any::<u64>(), flag(), flag(), flag(), flag(), flag()),
        (rare(), rare(), rare()),
        (flag(), flag(), flag()),
        (some(), some(), some(), some(), some(), some()),
        prop_oneof![Just(0.0), 0.0..0.3_f64],
    )
        .prop_map(
            |(
                (seed, third, measured, told, filling, dirty),
                silent,
                guardrails,
                (restarts, gaps, stuck, outliers, born, gone),
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
                outliers,
                born,
                gone,
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
            let anew = tale.from + index(anew, world.after as usize) as i64;
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
        let troubles = Troubles { seed, late, third, guardrails, ..Troubles::default() };
        let tale = Tale::new(&world, &troubles);
        let told = tale.map(|tale| bake(&tale, 1, 0)).unwrap_or_default();
        prop_assert!(told.broken.is_empty(), "{told:?}");
        prop_assert!(told.open + told.decides > 0, "{told:?}");
    }
}
