//! Tier A: the judge gives the right verdict on real processes, under the shipped rights. Needs root; fails without it.
//!
//! Four shapes of load on one fleet of two regions, each with a policy of its own, one after the other, since two cores
//! carry one judgement at a time. That jemalloc passes on shape Q and mimalloc fails there is the story's
//! (`tests/story.rs`) and not repeated here.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value gives null for what is absent"
)]

mod common;

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context as _, Result, ensure};
use heapfleet_e2e::demo::{Fleet, NAMESPACE, Policy, Seen, Server, Workload};
use heapfleet_e2e::lab::Config;
use serde_json::Value;

/// Shape CQ: one group of workers without turns. glibc wastes little on it, jemalloc more, and with `thp:always` most.
const CQ: Server = Server {
    name: "steady",
    shape: &[("TRACE_GROUPS", "1")],
};

/// Shape S without end and at a rate that shows its CPU time in blocks of a second: two groups with large values. Memory
/// goes back quickly where background threads purge it, and what is purged costs page faults when it is used again.
const S: Server = Server {
    name: "large-values",
    shape: &[
        ("TRACE_CACHE", "280M"),
        ("TRACE_GROUPS", "2"),
        ("TRACE_FILLS", "150"),
        ("TRACE_MIN", "8k"),
        ("TRACE_MAX", "100k"),
        ("TRACE_CHUNKS", "1"),
        ("TRACE_RATE", "12000"),
    ],
};

/// CQ again, for a trial of glibc against glibc.
const SAME: Server = Server {
    name: "same",
    shape: CQ.shape,
};

/// CPU seconds per request, as a policy for this workload names them.
const CPU_PER_REQUEST: &str = "[{name: cpuPerRequest, ratio: {numerator: {metric: process_cpu_seconds_total}, \
    denominator: {metric: trace_requests_total}, of: Amount}, maxIncrease: 8%}]";

type Before = BTreeMap<String, Workload>;

/// A policy for the two regions of this test.
fn policy(name: &'static str, class: &'static str, server: Server) -> Policy {
    Policy {
        server: server.name,
        waves: "[{regions: [fra]}]",
        ..Policy::of(name, class)
    }
}

/// Tells a policy from its beginning to its end and deletes it, with everything that is known when that fails.
fn case<T>(
    fleet: &Fleet,
    title: &str,
    policy: &Policy,
    told: impl FnOnce(&Before) -> Result<T>,
) -> Result<T> {
    let all = || {
        let before = fleet.begin(title, policy)?;
        let end = told(&before)?;
        fleet.delete(policy, &before)?;
        Ok(end)
    };
    fleet.explained(policy, all()).context(title.to_owned())
}

/// A percentage such as `-33.1%` as a fraction.
fn fraction(text: &str) -> Result<f64> {
    let number = text.trim().trim_end_matches('%').trim();
    let percent: f64 = number
        .parse()
        .with_context(|| format!("{text:?} is no percentage"))?;
    Ok(percent / 100.0)
}

/// Both ends of the canary's interval, as fractions.
fn interval(seen: &Seen) -> Result<(f64, f64)> {
    let text = seen.text("ore", "interval");
    let (low, high) = text
        .split_once('…')
        .with_context(|| format!("{text:?} is no interval"))?;
    Ok((fraction(low)?, fraction(high)?))
}

/// What the canary's row says, on one line.
fn row(seen: &Seen) -> String {
    let text = |key: &str| seen.text("ore", key);
    format!(
        "{} {}: ratio {} against {} in the control, change {} [{}] over {} blocks: {}",
        text("verdict"),
        text("reason"),
        text("ratio"),
        text("controlRatio"),
        text("change"),
        text("interval"),
        seen.blocks("ore"),
        text("message")
    )
}

/// A steady cache on huge pages holds more than it needs: the ratio itself fails.
fn huge_pages_are_rolled_back(fleet: &Fleet) -> Result<String> {
    let policy = Policy {
        options: r#"{thp: "always"}"#,
        ..policy("steady-thp", "jemalloc", CQ)
    };
    let title = "CQ: jemalloc with thp:always holds more; rolled back";
    case(fleet, title, &policy, |before| {
        let seen = fleet.rolled_back_exactly(&policy, before)?;
        let (message, change) = (seen.text("ore", "message"), seen.text("ore", "change"));
        ensure!(
            message.contains("(ratio)"),
            "it is not the ratio that failed: {message}"
        );
        // jemalloc alone adds a tenth.
        ensure!(fraction(&change)? > 0.20, "the ratio changed by {change}");
        Ok(row(&seen))
    })
}

/// What Prometheus itself says of the CPU time per request of a server's pods in a region, microseconds, over the blocks
/// that the judge had.
fn cpu_per_request(fleet: &Fleet, region: &str, server: Server, seen: &Seen) -> Result<f64> {
    let from: jiff::Timestamp = seen.text("ore", "bakeStarted").parse()?;
    let seconds = seen.blocks("ore");
    let at = from.as_second() + seconds;
    let pods = format!("namespace=\"{NAMESPACE}\",pod=~\"{}-.*\"", server.name);
    let increase = |metric: &str| format!("sum(increase({metric}{{{pods}}}[{seconds}s]))");
    let (cpu, requests) = (
        increase("process_cpu_seconds_total"),
        increase("trace_requests_total"),
    );
    let mut path = format!("/api/v1/query?time={at}&query=");
    for byte in format!("1e6*{cpu}/{requests}").bytes() {
        write!(path, "%{byte:02X}")?;
    }
    let answer: Value = serde_json::from_str(&fleet.lab.prometheus_get(region, &path)?)?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    Ok(value.with_context(|| answer.to_string())?.parse()?)
}

/// Quick purging halves what is wasted and nearly doubles the CPU time per request: the guardrail fails.
fn a_gain_that_costs_cpu_is_rolled_back(fleet: &Fleet) -> Result<String> {
    let policy = Policy {
        options: r#"{background_thread: "true", dirty_decay_ms: "1000"}"#,
        guardrails: CPU_PER_REQUEST,
        ..policy("large-values-purged", "jemalloc", S)
    };
    let title = "S: jemalloc that purges after a second gains memory and costs CPU; rolled back";
    case(fleet, title, &policy, |before| {
        let seen = fleet.rolled_back_exactly(&policy, before)?;
        let message = seen.text("ore", "message");
        ensure!(
            message.contains("(cpuPerRequest)"),
            "it is not the guardrail that failed: {message}"
        );
        let costs = message
            .split_once("cpuPerRequest by ")
            .and_then(|(_, rest)| rest.split_once(" %"))
            .with_context(|| format!("the cost is not told: {message}"))?;
        ensure!(fraction(costs.0)? > 0.25, "the cost rose by {} %", costs.0);
        let (_, high) = interval(&seen)?;
        ensure!(
            high < 0.0,
            "the gain in memory is not shown: at most {high:+.3}"
        );
        let number = |key: &str| -> Result<f64> { Ok(seen.text("ore", key).parse()?) };
        let (ratio, control) = (number("ratio")?, number("controlRatio")?);
        ensure!(
            ratio < 0.9 * control,
            "the canary's ratio is {ratio} against {control}"
        );
        let cost = |region| cpu_per_request(fleet, region, S, &seen);
        let (own, other) = (cost("ore")?, cost("fra")?);
        ensure!(
            own > 1.25 * other,
            "a request costs {own:.2} us against {other:.2} us"
        );
        Ok(format!(
            "{} A request costs {own:.2} us against {other:.2} us.",
            row(&seen)
        ))
    })
}

/// glibc with one tunable at its default against glibc: neither a gain nor a regression can be shown.
fn the_same_allocator_is_held(fleet: &Fleet) -> Result<String> {
    let policy = Policy {
        options: r#"{glibc.malloc.mxfast: "128"}"#,
        min_bake: "30s",
        max_bake: "60s",
        ..policy("same-glibc", "glibc", SAME)
    };
    let title = "A/A: glibc against glibc; neither promoted nor rolled back";
    case(fleet, title, &policy, |before| {
        let seen = fleet.held(&policy, before)?;
        let reason = seen.text("ore", "reason");
        ensure!(
            seen.text("ore", "verdict") == "Inconclusive"
                && matches!(reason.as_str(), "NoGain" | "Underpowered:ratio"),
            "the bake ended as {}",
            row(&seen)
        );
        let (low, high) = interval(&seen)?;
        ensure!(low < 0.0 && high > 0.0, "{low:+.3} to {high:+.3}");
        let blocks = seen.blocks("ore");
        ensure!(blocks >= 60, "held after {blocks} blocks");
        let metrics = fleet.operator_metrics()?;
        let of = |start: &str| -> Result<&str> {
            let line = metrics.lines().find(|line| line.starts_with(start));
            line.with_context(|| format!("no line {start} in\n{metrics}"))
        };
        let accepted = of("heapfleet_judge_blocks_accepted{")?;
        // A bake of twice as long as blocks may change is looked at by its youngest blocks in its second half.
        let youngest = of("heapfleet_judge_looks_total{read=\"youngest\"}")?;
        Ok(format!("{}\n{accepted}\n{youngest}", row(&seen)))
    })
}

#[test]
fn real_processes_are_judged_rightly() {
    let _turn = common::turn();
    let config = Config {
        root: common::fresh_root("judge"),
        regions: ["ore", "fra"].map(str::to_owned).to_vec(),
        ..Config::default()
    };
    let fleet = Fleet::up(config, &[CQ, S, SAME]).expect("a fleet of two regions");
    fleet.regions_ready().unwrap();
    let ends = [
        huge_pages_are_rolled_back(&fleet),
        a_gain_that_costs_cpu_is_rolled_back(&fleet),
        the_same_allocator_is_held(&fleet),
    ];
    for end in &ends {
        let told = end.as_ref().map_or_else(|e| format!("{e:#}"), Clone::clone);
        fleet.progress.say(&told);
    }
    fleet.lab.down().expect("the lab ends");
    for end in ends {
        end.unwrap();
    }
}
