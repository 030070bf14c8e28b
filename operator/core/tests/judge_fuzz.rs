//! Anything at all as input: never a panic, never a Pass by default, always a reason, the same twice. Runs for some seconds,
//! or for as long as `BOLERO_RANDOM_TEST_TIME_MS` says; `BOLERO_RANDOM_SEED` repeats a find, and `cargo bolero test
//! any_bytes` lets a fuzzer that sees coverage choose the bytes.
#![expect(
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/bytes.rs"]
mod bytes;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, kept, told};
use heapfleet_core::judge::{
    Code, Frozen, Look, LookInput, Numbers, Pod, Settings, Verdict, agrees, look,
};
use world::Chance;

/// How long it runs where nobody says.
const USUAL: Duration = Duration::from_secs(3);
/// How often it says how far it is.
const EVERY: Duration = Duration::from_secs(10);

/// Codes that each verdict may have.
fn allowed(verdict: Verdict) -> &'static [Code] {
    match verdict {
        Verdict::Pass => &[Code::NonInferior],
        Verdict::Fail => &[Code::HardLimit, Code::AllocatorNotActive, Code::Regression],
        Verdict::Inconclusive => &[
            Code::SinglePodOutlier,
            Code::Underpowered,
            Code::RecentAboveMargin,
            Code::TrendRising,
            Code::TrendUnknown,
            Code::NoGain,
            Code::MinBake,
        ],
        Verdict::InsufficientData => &[
            Code::InvalidSettings,
            Code::NotStarted,
            Code::NoCanaryData,
            Code::NoControlData,
            Code::StaleData,
            Code::StuckExporter,
            Code::LowCoverage,
            Code::PopulationChanged,
            Code::NoBaseline,
            Code::VersionMismatch,
            Code::AllocatorUnverified,
            Code::CacheNotFull,
            Code::NotEvicting,
            Code::LoadUnsteady,
            Code::TooFewSamples,
            Code::ChurnParity,
            Code::ChurnUnknown,
            Code::EvidenceMismatch,
        ],
    }
}

/// What must hold of any look, whatever it was told.
fn is_sound(settings: &Settings, input: &LookInput, carried: Option<&Frozen>, seen: &Look) {
    let sentence = seen.sentence();
    assert!(
        allowed(seen.verdict).contains(&seen.reason.code),
        "{sentence}"
    );
    assert!(sentence.contains(seen.reason.code.meaning()), "{sentence}");
    assert!(
        !sentence.contains("NaN") && !sentence.contains("inf"),
        "{sentence}"
    );
    assert!(seen.next_look.is_finite() || !input.now.is_finite());
    for n in &seen.numbers {
        let all = [
            n.theta, n.lower, n.upper, n.ln_e, n.b, n.b_n, n.omega, n.tau,
        ];
        assert!(all.iter().all(|v| v.is_finite()), "{n:?}");
    }
    match seen.verdict {
        Verdict::Pass => is_earned(settings, input, seen),
        Verdict::Fail => {
            // A Fail of an earlier look stays whatever this one sees.
            let before = carried.is_some_and(|f| f.failed.as_ref() == Some(&seen.reason));
            let shown = before || seen.reason.code != Code::Regression || crosses(seen);
            assert!(seen.is_final && shown, "{sentence}");
        }
        Verdict::Inconclusive => assert!(seen.closed.is_empty()),
        Verdict::InsufficientData => {}
    }
}

fn acting(seen: &Look) -> impl Iterator<Item = &Numbers> {
    seen.numbers.iter().filter(|n| !n.dry_run)
}

/// Does any metric or count show a regression?
fn crosses(seen: &Look) -> bool {
    acting(seen).any(|n| n.ln_e >= n.ln_e_needed || n.b >= n.b_needed) || counts_cross(seen)
}

fn counts_cross(seen: &Look) -> bool {
    let mut acting = seen.counts.iter().filter(|c| !c.dry_run);
    acting.any(|c| c.ln_e >= c.ln_e_needed)
}

/// A Pass is never the default: all of it must be there.
fn is_earned(settings: &Settings, input: &LookInput, seen: &Look) {
    assert!(seen.is_final && seen.closed.is_empty() && seen.frozen.is_some());
    assert!(u32::try_from(seen.accepted).is_ok_and(|n| n >= settings.min_bake().max(24)));
    assert!(acting(seen).all(|n| n.b_n >= n.b_n_needed && n.blocks >= n.blocks_needed));
    // Evidence of hours ago may stand (R2, R3); a count that crosses may not.
    assert!(acting(seen).any(|n| n.metric == "ratio") && !counts_cross(seen));
    let mut arms = std::iter::once(&input.canary).chain(&input.controls);
    assert!(!input.controls.is_empty() && arms.all(|arm| !arm.pods.is_empty()));
    let broken = |p: &Pod| p.oom_killed || p.crash_loop;
    assert!(!input.canary.pods.iter().any(broken));
    for g in settings.guardrails.iter().filter(|g| !g.dry_run) {
        let measured = acting(seen).any(|n| n.metric == g.name)
            || seen.counts.iter().any(|c| c.metric == g.name);
        assert!(measured, "{} was not measured", g.name);
    }
}

/// One look from nothing, and one with what was kept of it. Gives the first verdict.
fn check(bytes: &[u8]) -> Verdict {
    let mut bytes = Bytes(bytes);
    let (settings, input) = told(&mut bytes);
    let first = look(&settings, None, &input);
    is_sound(&settings, &input, None, &first);
    assert_eq!(text(&first), text(&look(&settings, None, &input)));
    let Some(frozen) = &first.frozen else {
        return first.verdict;
    };
    let (back, untouched) = kept(&mut bytes, frozen, &first.evidence);
    let (back, evidence) = match back {
        Ok(back) => back,
        Err(error) => {
            assert!(
                !untouched,
                "{error}: {}",
                serde_json::to_string(frozen).unwrap_or_default()
            );
            return first.verdict;
        }
    };
    let again = look(&settings, Some(&back), &input);
    is_sound(&settings, &input, Some(&back), &again);
    assert_eq!(text(&again), text(&look(&settings, Some(&back), &input)));
    if untouched {
        assert_eq!(
            (first.verdict, &first.reason),
            (again.verdict, &again.reason)
        );
    }
    assert!(back.failed.is_none() || again.verdict == Verdict::Fail);
    let differs = agrees(&evidence, &again.evidence, settings.young()).is_err();
    let confirmed = again.confirmed(&evidence, settings.young());
    assert!(!differs || confirmed.verdict != Verdict::Pass);
    first.verdict
}

/// A look as text, to the last bit of what is not NaN.
fn text(look: &Look) -> String {
    serde_json::to_string(look).unwrap_or_default()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this test measures time")]
fn any_bytes() {
    let started = Instant::now();
    let seen: Mutex<(Duration, BTreeMap<Verdict, u64>)> = Mutex::default();
    let say = |seen: &BTreeMap<Verdict, u64>| {
        let counts: Vec<String> = seen.iter().map(|(v, n)| format!("{n} {v}")).collect();
        // Past the harness, which would hold it back.
        writeln!(
            std::io::stderr(),
            "any_bytes: {} s, {}",
            started.elapsed().as_secs(),
            counts.join(", ")
        )
    };
    bolero::check!()
        .with_test_time(USUAL)
        .for_each(|bytes: &[u8]| {
            let verdict = check(bytes);
            let (said, counts) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(verdict).or_default() += 1;
            if started.elapsed() >= *said + EVERY {
                *said = started.elapsed();
                let _closed = say(counts);
            }
        });
    let _closed = say(&seen.lock().unwrap_or_else(PoisonError::into_inner).1);
}

/// The bytes reach every verdict, each after something went wrong and after nothing did.
#[test]
fn bytes_reach_every_verdict() {
    let mut chance = Chance(1);
    let mut seen: BTreeMap<Verdict, u32> = BTreeMap::new();
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                (0..=u8::MAX)
                    .find(|b| f64::from(*b) >= 255.0 * chance.uniform())
                    .unwrap_or(0)
            })
            .collect();
        *seen.entry(check(&bytes)).or_default() += 1;
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}
