//! Takes a fleet and a policy, gives what its objects say, and tells a person each change. Never writes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::fleet::{Fleet, HUB, NAMESPACE};
use super::workload::Server;

/// What is asked for: everything else is a default or a shortened time.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Its name.
    pub name: &'static str,
    /// The class.
    pub class: &'static str,
    /// The server that it selects.
    pub server: &'static str,
    /// The allocator's options, as a YAML mapping.
    pub options: &'static str,
    /// The waves after the canary `ore`, as a YAML list.
    pub waves: &'static str,
    /// The guardrails, as a YAML list.
    pub guardrails: &'static str,
    /// The shortest bake.
    pub min_bake: &'static str,
    /// The longest bake.
    pub max_bake: &'static str,
}

impl Policy {
    /// A story's policy: the server of shape Q in three regions, no options, no guardrails, a minute of bake.
    pub const fn of(name: &'static str, class: &'static str) -> Self {
        Self {
            name,
            class,
            server: Server::Q.name,
            options: "{}",
            waves: "[{regions: [nrt]}, {regions: [fra]}]",
            guardrails: "[]",
            min_bake: "60s",
            max_bake: "10m",
        }
    }

    /// The object, with durations for a person who waits.
    pub fn manifest(&self) -> String {
        let Self {
            name,
            class,
            server,
            options,
            waves,
            guardrails,
            min_bake,
            max_bake,
        } = self;
        format!(
            r"apiVersion: heapfleet.dev/v1alpha1
kind: AllocatorPolicy
metadata: {{name: {name}, namespace: {NAMESPACE}}}
spec:
  allocator: {{class: {class}, options: {options}}}
  target: {{selector: {{matchLabels: {{app: {server}}}}}}}
  rollout: {{canary: ore, control: [fra], waves: {waves}, stabilityWindow: 60s}}
  analysis:
    cache: {{metric: trace_cache_accounted_bytes}}
    cacheCapacity: {{metric: trace_cache_capacity_bytes}}
    evictions: {{metric: trace_cache_evicted_bytes_total}}
    requests: {{metric: trace_requests_total}}
    guardrails: {guardrails}
    blockDuration: 1s
    delay: 1s
    baseline: 60s
    minBake: {min_bake}
    maxBake: {max_bake}
    verifyDeadline: 15s
    restartNoise: 1.5%
"
        )
    }
}

/// What was seen of a policy and its newest attempt.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The policy.
    pub policy: Value,
    /// The attempt that speaks for it.
    pub rollout: Value,
}

impl Seen {
    /// A condition of the policy as (status, reason, message).
    pub fn condition(&self, kind: &str) -> Option<(String, String, String)> {
        let all = self.policy.pointer("/status/conditions")?.as_array()?;
        let found = all.iter().find(|condition| condition["type"] == kind)?;
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Whether a condition has the status.
    pub fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind)
            .is_some_and(|(now, _, _)| now == status)
    }

    /// The row of a region in the attempt.
    pub fn row(&self, region: &str) -> Option<&Value> {
        let rows = self.rollout.pointer("/status/regions")?.as_array()?;
        rows.iter().find(|row| row["name"] == region)
    }

    /// A text of a region's row; empty where it is absent.
    pub fn text(&self, region: &str, key: &str) -> String {
        self.row(region)
            .and_then(|row| row[key].as_str())
            .unwrap_or_default()
            .to_owned()
    }

    /// The stage of a region.
    pub fn stage(&self, region: &str) -> String {
        self.text(region, "state")
    }

    /// Accepted blocks of a region.
    pub fn blocks(&self, region: &str) -> i64 {
        self.row(region)
            .and_then(|row| row["blocks"].as_i64())
            .unwrap_or_default()
    }

    fn lines(&self) -> BTreeMap<String, String> {
        let mut lines = BTreeMap::new();
        for condition in self
            .policy
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            lines.insert(
                text("type").to_owned(),
                format!(
                    "{}={} {}: {}",
                    text("type"),
                    text("status"),
                    text("reason"),
                    text("message")
                ),
            );
        }
        lines
    }

    fn numbers(&self) -> String {
        let rows = self
            .rollout
            .pointer("/status/regions")
            .and_then(Value::as_array);
        let moving = rows.into_iter().flatten().filter(|row| {
            let state = row["state"].as_str().unwrap_or_default();
            !matches!(state, "" | "Pending" | "Promoted" | "RolledBack")
        });
        let lines: Vec<String> = moving
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default();
                format!(
                    "{} {}: ratio {} against {} in the control, change {} [{}], {} of {} blocks, {} {}",
                    text("name"), text("state"), text("ratio"), text("controlRatio"), text("change"), text("interval"),
                    row["blocks"], row["blocksNeeded"], text("verdict"), text("reason")
                )
            })
            .collect();
        lines.join("; ")
    }
}

impl Fleet {
    /// The policy and its newest attempt as they are now.
    pub fn look(&self, policy: &str) -> Result<Seen> {
        let get = |args: &[&str]| -> Result<Value> {
            let text = self.lab.kubectl_ok(HUB, args)?;
            serde_json::from_str(&text).context("reading kubectl's JSON")
        };
        let object = get(&["-n", NAMESPACE, "get", "apol", policy, "-o", "json"])?;
        let rollout = match object
            .pointer("/status/currentRollout")
            .and_then(Value::as_str)
        {
            Some(name) => get(&["-n", NAMESPACE, "get", "arol", name, "-o", "json"])?,
            None => Value::Null,
        };
        Ok(Seen {
            policy: object,
            rollout,
        })
    }

    /// Looks every second until `done`, telling each changed condition at once and the moving numbers every five
    /// seconds; an error that names the last conditions when `limit` is over.
    pub fn follow(
        &self,
        policy: &str,
        what: &str,
        limit: Duration,
        mut done: impl FnMut(&Seen) -> Result<bool>,
    ) -> Result<Seen> {
        let begun = Instant::now();
        let mut told = BTreeMap::new();
        let mut spoke: Option<Instant> = None;
        loop {
            let seen = self.look(policy)?;
            let lines = seen.lines();
            for (kind, line) in &lines {
                if told.get(kind) != Some(line) {
                    self.progress.say(&format!("  {line}"));
                }
            }
            told = lines;
            if done(&seen)? {
                return Ok(seen);
            }
            if let Some((_, reason, message)) = seen
                .condition("Stalled")
                .filter(|(status, _, _)| status == "True")
            {
                bail!("{policy}: stalled while waiting for {what}: {reason}: {message}");
            }
            if spoke.is_none_or(|at| at.elapsed() > Duration::from_secs(5)) {
                let numbers = seen.numbers();
                if !numbers.is_empty() {
                    self.progress
                        .say(&format!("  {:>4} s  {numbers}", begun.elapsed().as_secs()));
                }
                spoke = Some(Instant::now());
            }
            if begun.elapsed() > limit {
                let last: Vec<&str> = told.values().map(String::as_str).collect();
                bail!(
                    "{policy}: waited {} s for {what}; last seen:\n{}\n{}",
                    limit.as_secs(),
                    last.join("\n"),
                    seen.numbers()
                );
            }
            // Polling with a deadline: the objects are elsewhere, and `kubectl wait` waits for one condition only.
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}
