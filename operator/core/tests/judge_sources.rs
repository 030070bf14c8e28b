//! The four source changes, with the verdicts that the specification gives them and the sentence that a person reads.
#[path = "judge/good.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod good;
#[path = "judge/world.rs"]
#[expect(dead_code, reason = "other tests need the rest of it")]
mod world;

use good::{judge, said};
use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::{
    Code, ControlRestart, Declared, Finding, Guardrail, GuardrailKind, GuardrailSeries, Identity,
    LookInput, Settings,
};
use world::{BLOCK, ORIGIN, SCRAPE, World, map, pods};

/// Canary over control, each RSS over cache.
fn ratio(canary: f64, control: f64) -> World {
    World {
        effect: (canary / control).ln(),
        noise: 0.002,
        canary: 10,
        control: 10,
        ..World::default()
    }
}

fn reads(settings: &Settings, input: &LookInput, verdict: &str, sentence: &str) {
    let seen = judge(settings, input);
    assert_eq!(said(&seen), verdict, "{:#?}", seen.numbers);
    assert_eq!(seen.sentence(), sentence);
}

#[test]
fn memory_where_both_caches_are_full() {
    let passed = "Passed: memory is shown to be no worse than asked for; the ratio changed by";
    for (world, verdict, sentence) in [
        // The trace server in the lab, RSS over accounted MiB.
        (
            ratio(1043.0 / 1018.0, 1974.0 / 1017.0),
            "Pass(NonInferior)",
            format!("{passed} -47 % over 60 blocks."),
        ),
        // The same in ORE, both full.
        (
            ratio(1.02, 2.53),
            "Pass(NonInferior)",
            format!("{passed} -60 % over 60 blocks."),
        ),
        // Mooncake, bytes per key.
        (
            ratio(612.0, 1120.8),
            "Pass(NonInferior)",
            format!("{passed} -45 % over 60 blocks."),
        ),
        // Dynamo, the frontend with mimalloc and huge pages.
        (
            ratio(703.0, 469.0),
            "Fail(Regression:ratio)",
            "Failed: it is worse than tolerated beyond doubt (ratio); the ratio changed by +50 % over 60 blocks.".to_owned(),
        ),
    ] {
        reads(&world.settings(), &world.input(), verdict, &sentence);
    }
}

/// Parity is no gain: what was measured for shape S, jemalloc without its decay.
#[test]
fn a_percent_less_is_no_gain() {
    let world = ratio(0.99, 1.0);
    let seen = judge(&world.settings(), &world.input());
    assert_eq!(said(&seen), "Inconclusive(NoGain)");
    let sentence = seen.sentence();
    let start = "No decision yet: the gain asked for is not shown; the ratio changed by -1";
    assert!(sentence.starts_with(start), "{sentence}");
    assert!(
        sentence.contains("; the change lies between -"),
        "{sentence}"
    );
}

/// ORE, days after a mere restart: 1.02 against 2.53, and the cache holds 21.9 of 36 GiB.
#[test]
fn a_cache_that_still_fills_is_no_statement() {
    let world = ratio(1.02, 2.53);
    let (settings, mut input) = (world.settings(), world.input());
    let since = world.change().began;
    let fill = |full: f64| move |(t, v): (f64, f64)| (t, if t > since { full * v } else { v });
    for pod in &mut input.canary.pods {
        map(&mut pod.cache, fill(0.608));
        map(&mut pod.rss, fill(0.608));
        map(&mut pod.evictions, fill(0.0));
    }
    let said = "No statement possible: the caches are not full yet.";
    reads(&settings, &input, "InsufficientData(CacheNotFull)", said);
    let seen = judge(&settings, &input);
    assert!(seen.diagnosis.contains(&Finding::CacheFilling));
    assert!(seen.numbers[0].blocks == 0 && seen.closed.contains(&Code::NotEvicting));
    // The numbers that tempt are shown, and decide nothing.
    assert!(seen.ratio_canary.unwrap() < 0.5 * seen.ratio_control.unwrap());
}

/// ORE's jemalloc against a control that was not restarted: a sixth of its churn, and not three turnovers.
#[test]
fn a_young_canary_beside_an_old_control_is_no_statement() {
    let world = ratio(1.02, 2.53);
    let (mut settings, mut input) = (world.settings(), world.input());
    settings.control_restart = ControlRestart::None;
    for pod in &mut input.controls[0].pods {
        pod.starts.truncate(1);
        map(&mut pod.evictions, |(t, _)| (t, 3e7 * (t - ORIGIN)));
    }
    for pod in &mut input.canary.pods {
        map(&mut pod.evictions, |(t, v)| (t, v / 10.0));
    }
    let said = "No statement possible: the canary's cache has not turned over enough; the ratio changed by -60 % over 60 blocks.";
    reads(&settings, &input, "InsufficientData(ChurnParity)", said);
}

/// AISIX: the allocator landed together with another build; nobody can attribute that.
#[test]
fn another_build_at_the_same_time_is_no_statement() {
    let world = ratio(1.02, 2.53);
    let (settings, mut input) = (world.settings(), world.input());
    for pod in &mut input.canary.pods {
        pod.version = Some("sha256:with-lto".to_owned());
    }
    let said = "No statement possible: the arms do not run the same version.";
    reads(&settings, &input, "InsufficientData(VersionMismatch)", said);
}

/// Dynamo: memory falls by 45 %, but the median time to the first token rises by 39 %, and lookups under overload are 83
/// times as slow at their 99th percentile. The event latency that falls to 7 % stands in nobody's way.
#[test]
fn latency_decides_beside_memory() {
    let worse = |name: &str, by: &str| {
        format!(
            "Failed: it is worse than tolerated beyond doubt ({name}); the ratio changed by -45 % over 60 blocks, {name} by {by}."
        )
    };
    for (name, kind, factor, verdict, sentence) in [
        (
            "ttft",
            GuardrailKind::Continuous,
            1.39,
            "Fail(Regression:ttft)",
            worse("ttft", "+39 %"),
        ),
        (
            "p99",
            GuardrailKind::P99,
            83.5,
            "Fail(Regression:p99)",
            worse("p99", "+8250 %"),
        ),
        (
            "update",
            GuardrailKind::P99,
            0.071,
            "Pass(NonInferior)",
            "Passed: memory is shown to be no worse than asked for; the ratio changed by -45 % over 60 blocks.".to_owned(),
        ),
    ] {
        let world = ratio(0.55, 1.0);
        let (mut settings, mut input) = (world.settings(), world.input());
        settings.guardrails = vec![Guardrail {
            name: name.to_owned(),
            kind,
            max_increase: 0.08,
            dry_run: false,
        }];
        let (since, canary) = (world.change().began, input.canary.pods.len());
        for (i, pod) in pods(&mut input).enumerate() {
            let seconds = |t: f64| if i < canary && t > since { factor } else { 1.0 };
            let samples: Vec<_> = pod.rss.replicas[0]
                .iter()
                .map(|(t, _)| (*t, 0.02 * seconds(*t)))
                .collect();
            let series = GuardrailSeries::Gauge(samples.into());
            pod.guardrails.insert(name.to_owned(), series);
        }
        reads(&settings, &input, verdict, &sentence);
    }
}

/// A week of baseline, twelve windows of peaks after it, and the product's settings; in the idle mean the canary takes
/// 3.8 % less and in its peaks `peak` times as much. Times are counted in blocks, so that these may be of a minute.
fn peaks(pods_each: u32, peak: f64, noise: Option<f64>) -> (Settings, LookInput) {
    let world = World {
        before: 2016,
        after: 288,
        effect: 0.962_f64.ln(),
        noise: 0.005,
        canary: pods_each,
        control: pods_each,
        identity: Identity::Stable,
        ..World::default()
    };
    let mut input = world.input();
    let (since, canary) = (world.change().began, input.canary.pods.len());
    for (i, pod) in pods(&mut input).enumerate() {
        // Every tenth block one scrape stands out by a fifth, before and after, in both regions.
        map(&mut pod.rss, |(t, v)| {
            let burst = (t / SCRAPE).floor().rem_euclid(40.0) < 1.0;
            let more = if i < canary && t > since {
                peak / 0.962
            } else {
                1.0
            };
            (t, if burst { 1.2 * more * v } else { v })
        });
    }
    let settings = Settings {
        block_seconds: BLOCK,
        scrape_seconds: SCRAPE,
        delay_seconds: 30.0,
        baseline_seconds: 2016.0 * BLOCK,
        min_gain: 0.0,
        identity: world.identity,
        restart_noise: noise,
        declared: Declared {
            capacity: true,
            evictions: true,
            requests: true,
            peak: true,
        },
        ..Settings::default()
    };
    (settings, input)
}

/// A dearer peak inside the margin of 10 % passes and is shown, whether the restart noise is declared or learned from caches
/// that are nine tenths of RSS.
#[test]
fn a_peak_inside_its_margin_passes_and_is_shown() {
    for noise in [Some(0.015), None] {
        let (settings, input) = peaks(10, 1.05, noise);
        let said = "Passed: memory is shown to be no worse than asked for; the ratio changed by -3.6 % over 288 blocks, peak by +4.9 %.";
        reads(&settings, &input, "Pass(NonInferior)", said);
    }
}

/// AISIX takes 7.9 % more at its peaks on purpose. Ten pods a side show that it is below the margin of 10 %, and also that it
/// is above the tolerance of 3 %, which comes first (table a to h): a Fail, and the number is said.
#[test]
fn a_peak_above_its_tolerance_fails_although_it_is_below_its_margin() {
    let (settings, input) = peaks(10, 1.079, Some(0.015));
    let seen = judge(&settings, &input);
    let peak = &seen.numbers[1];
    assert_eq!((peak.metric.as_str(), peak.blocks), ("peak", 12));
    assert!(
        peak.b_n > peak.b_n_needed && peak.b > peak.b_needed,
        "{peak:?}"
    );
    let said = "Failed: it is worse than tolerated beyond doubt (peak); the ratio changed by -3.5 % over 288 blocks, peak by +7.8 %.";
    reads(&settings, &input, "Fail(Regression:peak)", said);
}

/// B and B_N have one factor f: B = f (θ - tolerance), B_N = f (margin - θ). Whatever the noise, the pods and the windows,
/// the largest effect that can pass is the one at which both reach their thresholds: +7.0 % of peaks, +5.5 % of p99 where
/// 8 % are allowed, and +9.4 % where 15 % are. AISIX' 7.9 % is never a Pass: it is no decision, or a Fail.
#[test]
fn the_largest_effect_that_can_pass() {
    let p99 = |margin| Rule::guardrail("p99", 0.02, margin, 0.010);
    for (rule, percent) in [(Rule::peak(), 7.0), (p99(0.08), 5.5), (p99(0.15), 9.4)] {
        let (fail, pass) = (rule.line_needed(), Rule::promote_needed(0.05));
        let share = fail / (fail + pass);
        let most = rule.tolerance + share * (rule.margin - rule.tolerance);
        let most = 100.0 * most.exp_m1();
        assert!((most - percent).abs() < 0.05, "{}: {most}", rule.name);
    }
}

/// T-83: what could not have seen the margin is no decision, and says how far it is. Regions alone move by 0.7 % in their
/// peaks at a restart (√2 σ_reg), three pods a side with a restart noise of 4 % by 2.9 % more; time does not help.
#[test]
fn a_peak_that_cannot_be_shown_is_no_decision() {
    let (settings, input) = peaks(3, 1.079, Some(0.04));
    let seen = judge(&settings, &input);
    assert_eq!(said(&seen), "Inconclusive(Underpowered:peak)");
    let sentence = seen.sentence();
    let start = "No decision yet: it is not yet shown to stay below the margin (peak); the ratio changed by -";
    assert!(sentence.starts_with(start), "{sentence}");
    assert!(
        sentence.contains(" over 288 blocks, peak by +"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("; the evidence is 0.7 of 2.0."),
        "{sentence}"
    );
    let peak = &seen.numbers[1];
    assert!(peak.tau > 0.0169 && peak.b_n < peak.b_n_needed);
    assert!(peak.lower < peak.theta && peak.theta < peak.upper && peak.detectable > 0.10);
    // The maximum bake is over: a Hold, not a Pass.
    assert!(seen.is_final);
}

/// Dynamo's mock worker peaks 20 % higher: a Fail, although its mean is lower.
#[test]
fn a_peak_beyond_its_margin_fails() {
    let (settings, input) = peaks(10, 1.20, Some(0.015));
    let said = "Failed: it is worse than tolerated beyond doubt (peak); the ratio changed by -3.2 % over 288 blocks, peak by +20 %.";
    reads(&settings, &input, "Fail(Regression:peak)", said);
}

/// A window of peaks counts with eighteen of its twenty-four blocks, not with fewer: a peak may have been in those.
#[test]
fn a_window_with_holes_has_no_peak() {
    for (holes, windows) in [(6.0, 12), (7.0, 0)] {
        let (settings, mut input) = peaks(2, 1.0, Some(0.015));
        let ended = input.change.unwrap().ended;
        for pod in &mut input.canary.pods {
            pod.rss.replicas[0].retain(|(t, _)| {
                let block = ((t - ended) / BLOCK).floor().rem_euclid(24.0);
                *t < ended || block < 5.0 || block >= 5.0 + holes
            });
        }
        let seen = judge(&settings, &input);
        assert_eq!(seen.numbers[1].blocks, windows);
        let thin = said(&seen) == "InsufficientData(TooFewSamples:peak)";
        assert_eq!(thin, windows == 0, "{}", seen.sentence());
    }
}
