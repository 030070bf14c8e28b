//! Takes a fleet, gives one story each: a policy is applied, followed to its end, checked against what was there before,
//! and deleted. Must never look into the operator: only into what it did.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value gives null for what is absent"
)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::attempt::LONG;
use super::fleet::{Fleet, HUB, NAMESPACE};
use super::watch::{Policy, Seen};

/// Longest wait for one step.
const STEP: Duration = Duration::from_mins(4);

/// How a story ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was tried.
    pub title: &'static str,
    /// The policy and attempt at the end.
    pub seen: Seen,
    /// One line for the table.
    pub outcome: String,
}

impl Fleet {
    /// The policy's events tell the attempt's turns in the order in which they happened.
    fn tells_in_order(&self, policy: &str) -> Result<()> {
        let selector = format!("regarding.kind=AllocatorPolicy,regarding.name={policy}");
        let args = [
            "-n",
            NAMESPACE,
            "get",
            "events.events.k8s.io",
            "--field-selector",
            &selector,
            "-o",
            "json",
        ];
        let list: Value = serde_json::from_str(&self.lab.kubectl_ok(HUB, &args)?)?;
        let mut events: Vec<(String, String)> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|event| {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                (text("eventTime"), text("reason"))
            })
            .collect();
        events.sort();
        let told: Vec<&str> = events.iter().map(|(_, reason)| reason.as_str()).collect();
        let turns = [
            "RolloutStarted",
            "BaselineReady",
            "WorkloadInjected",
            "AllocatorVerified",
            "BakeStarted",
            "CanaryPassed",
            "WaveCompleted",
            "RolloutCompleted",
        ];
        let mut rest = told.iter();
        for turn in turns {
            ensure!(
                rest.any(|reason| *reason == turn),
                "no event {turn} in its place among {}",
                told.join(", ")
            );
        }
        Ok(())
    }

    fn wait_for_condition(&self, condition: &str, policy: &str) -> Result<()> {
        let wanted = format!("--for=condition={condition}");
        let name = format!("apol/{policy}");
        self.lab.kubectl_ok(
            HUB,
            &["-n", NAMESPACE, "wait", &wanted, &name, "--timeout=10s"],
        )?;
        Ok(())
    }
}

fn failed_early(seen: &Seen) -> Result<()> {
    if let Some((status, reason, message)) = seen.condition("RolledBack") {
        ensure!(status != "True", "rolled back, {reason}: {message}");
    }
    Ok(())
}

/// Stories (a) and (d) and two outages: jemalloc is promoted region by region. On the way the operator is killed three
/// times, and the canary's Prometheus and API server are stopped in the middle of its bake.
pub fn promotion(fleet: &Fleet) -> Result<Ended> {
    let policy = Policy::of("trace", "jemalloc");
    let before = fleet.begin(
        "jemalloc: better; promoted region by region, through outages and kills",
        &policy,
    )?;
    reach(fleet, &policy, "ore", "Injecting", 0)?;
    kill(fleet)?;
    reach(fleet, &policy, "ore", "Baking", 5)?;
    outages(fleet, &policy)?;
    kill(fleet)?;
    reach(fleet, &policy, "nrt", "Baking", 5)?;
    kill(fleet)?;
    let mut order: Vec<String> = Vec::new();
    let seen = fleet.follow(policy.name, "Promoted=True", LONG, |seen| {
        failed_early(seen)?;
        for region in ["ore", "nrt", "fra"] {
            if !order.iter().any(|known| known == region) && seen.stage(region) == "Promoted" {
                order.push(region.to_owned());
            }
        }
        Ok(seen.is("Promoted", "True"))
    })?;
    ensure!(
        order == ["ore", "nrt", "fra"],
        "regions passed in the order {}",
        order.join(", ")
    );
    ensure!(
        seen.is("AllocatorVerified", "True"),
        "AllocatorVerified is {:?}",
        seen.condition("AllocatorVerified")
    );
    fleet.wait_for_condition("Promoted", policy.name)?;
    let canary = seen.row("ore").context("no row for the canary")?;
    ensure!(
        canary["verdict"] == "Pass",
        "the canary's verdict is {}",
        canary["verdict"]
    );
    let ratio = |key: &str| {
        canary[key]
            .as_str()
            .and_then(|text| text.parse::<f64>().ok())
    };
    let (own, control) = ratio("ratio")
        .zip(ratio("controlRatio"))
        .context("no ratios")?;
    ensure!(
        own / control < 0.7,
        "the canary's ratio is {own} against {control}"
    );
    let change = canary["change"].as_str().unwrap_or_default();
    let outcome = format!(
        "promoted, ore then nrt then fra; ratio {own:.2} against {control:.2}, change {change}; through 3 kills and 2 outages"
    );
    fleet.tells_in_order(policy.name)?;
    fleet.delete(&policy, &before)?;
    Ok(Ended {
        title: "jemalloc",
        seen,
        outcome,
    })
}

/// Follows a policy until a region is in a stage with so many accepted blocks.
fn reach(fleet: &Fleet, policy: &Policy, region: &str, stage: &str, blocks: i64) -> Result<Seen> {
    fleet.follow(policy.name, &format!("{region} {stage}"), STEP, |seen| {
        failed_early(seen)?;
        Ok(seen.stage(region) == stage && seen.blocks(region) >= blocks)
    })
}

fn kill(fleet: &Fleet) -> Result<()> {
    fleet
        .progress
        .during("killing the operator (SIGKILL)", || fleet.kill_operator())
}

/// Prometheus, then the API server of the canary are stopped in the middle of its bake; the attempt waits, says for whom
/// and why, and goes on afterwards.
fn outages(fleet: &Fleet, policy: &Policy) -> Result<()> {
    let answers = |seen: &Seen| {
        failed_early(seen)?;
        Ok(seen.is("RegionsReachable", "True"))
    };
    fleet.progress.during("stopping Prometheus of ore", || {
        fleet.lab.stop_prometheus("ore")
    })?;
    waits(fleet, policy, "PrometheusUnreachable")?;
    fleet.progress.during("starting Prometheus of ore", || {
        fleet.lab.start_prometheus("ore")
    })?;
    fleet.follow(policy.name, "the bake to go on", STEP, answers)?;
    fleet
        .progress
        .during("stopping the API server of ore", || {
            fleet.lab.stop_apiserver("ore")
        })?;
    waits(fleet, policy, "SomeUnreachable")?;
    fleet
        .progress
        .during("starting the API server of ore", || {
            fleet.lab.start_apiserver("ore")
        })?;
    fleet.follow(policy.name, "the bake to go on", STEP, answers)?;
    Ok(())
}

fn waits(fleet: &Fleet, policy: &Policy, reason: &str) -> Result<()> {
    fleet.follow(policy.name, reason, Duration::from_mins(1), |seen| {
        failed_early(seen)?;
        let Some((status, now, message)) = seen.condition("RegionsReachable") else {
            return Ok(false);
        };
        if status == "False" && now == reason {
            ensure!(
                message.contains("ore"),
                "the message names no region: {message}"
            );
            return Ok(true);
        }
        Ok(false)
    })?;
    Ok(())
}

/// Story (b): mimalloc is worse for this workload and is rolled back exactly.
pub fn exact_rollback(fleet: &Fleet) -> Result<Ended> {
    let policy = Policy::of("trace-mimalloc", "mimalloc");
    let before = fleet.begin(
        "mimalloc: worse than glibc here; rolled back exactly",
        &policy,
    )?;
    let seen = fleet.rolled_back_exactly(&policy, &before)?;
    let outcome = format!(
        "rolled back, ExactRestore: ReplicaSet {} again; change was {}",
        before.get("ore").map_or("", |ore| &ore.replica_set.0),
        seen.text("ore", "change")
    );
    fleet.delete(&policy, &before)?;
    Ok(Ended {
        title: "mimalloc",
        seen,
        outcome,
    })
}

/// Story (c): the image lacks the library, the loader goes on with glibc, the attempt is rolled back for want of proof.
pub fn unloaded_library(fleet: &Fleet) -> Result<Ended> {
    let policy = Policy::of("trace-absent", "absent");
    let before = fleet.begin("a library that the image lacks: never a pass", &policy)?;
    let mut disproved = false;
    let seen = fleet.follow(policy.name, "RolledBack=True", LONG, |seen| {
        disproved |= seen.is("AllocatorVerified", "False") && seen.stage("ore") != "Pending";
        ensure!(
            seen.stage("ore") != "Promoted",
            "an allocator that did not load passed"
        );
        Ok(seen.is("RolledBack", "True"))
    })?;
    ensure!(disproved, "AllocatorVerified was never False");
    let (status, reason, message) = seen
        .condition("AllocatorVerified")
        .context("no condition AllocatorVerified")?;
    ensure!(
        status == "False" && reason == "PreloadIgnored",
        "AllocatorVerified={status} {reason}"
    );
    fleet.delete(&policy, &before)?;
    Ok(Ended {
        title: "absent library",
        seen,
        outcome: format!("rolled back: {message}"),
    })
}
