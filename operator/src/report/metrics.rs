//! Takes what a pass did, gives numbers about the operator itself. The registry is a value, not a global; what it holds
//! of a policy or a region goes with it. Never decides; nothing reads these numbers back but a scraper.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::judged::JudgeMetrics;
use crate::receipt::Receipt;

/// Buckets of the duration of a pass, seconds: a pass reads some clusters, each with a deadline of seconds.
const PASS_SECONDS: [f64; 9] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActLabels {
    action: &'static str,
    outcome: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegionLabels {
    region: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    namespace: String,
    policy: String,
    class: String,
    phase: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RatioLabels {
    namespace: String,
    policy: String,
    arm: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookLabels {
    read: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: String,
}

/// Namespace and name of a policy.
pub type PolicyKey = (String, String);

/// What of a policy stands in the registry now.
#[derive(Debug, Default)]
struct Shown {
    info: Option<PolicyLabels>,
    verdicts: BTreeMap<String, String>,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassResult {
    /// Something was written.
    Changed,
    /// Nothing was to be written.
    Unchanged,
    /// Somebody else wrote in between; the pass stopped.
    Conflict,
    /// The policy is gone.
    Gone,
    /// The pass could not look or could not write.
    Failed,
}

impl PassResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

/// The canary's numbers in one pass; `None`: not known now, so the series goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ratios {
    /// RSS ÷ cache of the canary.
    pub canary: Option<f64>,
    /// RSS ÷ cache of its control.
    pub control: Option<f64>,
}

/// The operator's numbers.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<PassLabels, Counter>,
    acts: Family<ActLabels, Counter>,
    reachable: Family<RegionLabels, Gauge>,
    policies: Family<PolicyLabels, Gauge>,
    ratios: Family<RatioLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    rollbacks: Family<ReasonLabels, Counter>,
    verdicts: Family<VerdictLabels, Counter>,
    looks: Family<LookLabels, Counter>,
    events_failed: Counter,
    seconds: Histogram,
    shown: Mutex<BTreeMap<PolicyKey, Shown>>,
    /// What the judge said last.
    pub(super) judge: JudgeMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// An empty registry with every family registered.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("heapfleet"),
            passes: Family::default(),
            acts: Family::default(),
            reachable: Family::default(),
            policies: Family::default(),
            ratios: Family::default(),
            rollbacks: Family::default(),
            verdicts: Family::default(),
            looks: Family::default(),
            events_failed: Counter::default(),
            seconds: Histogram::new(PASS_SECONDS),
            shown: Mutex::default(),
            judge: JudgeMetrics::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "passes",
            "Passes over a policy, by how they ended",
            self.passes.clone(),
        );
        registry.register(
            "acts",
            "Acts after a decision, by outcome",
            self.acts.clone(),
        );
        registry.register(
            "region_reachable",
            "1 if the region's API server answers, else 0",
            self.reachable.clone(),
        );
        registry.register(
            "policy_info",
            "Always 1; class and phase of each policy",
            self.policies.clone(),
        );
        registry.register(
            "canary_ratio",
            "Resident memory divided by accounted cache bytes, by arm",
            self.ratios.clone(),
        );
        registry.register(
            "rollbacks",
            "Rollbacks begun, by reason",
            self.rollbacks.clone(),
        );
        registry.register(
            "verdicts",
            "Changes of a region's verdict",
            self.verdicts.clone(),
        );
        registry.register(
            "judge_looks",
            "Looks of the judge, by what was read for them: the whole bake or its youngest blocks",
            self.looks.clone(),
        );
        registry.register(
            "events_failed",
            "Events that could not be published",
            self.events_failed.clone(),
        );
        registry.register_with_unit(
            "pass_duration",
            "How long a pass took",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register_collector(Box::new(self.judge.clone()));
    }

    /// All numbers in the OpenMetrics text form.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts one pass.
    pub fn pass(&self, result: PassResult, took: Duration) {
        self.passes
            .get_or_create(&PassLabels {
                result: result.as_str(),
            })
            .inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts what an act came to.
    pub fn act(&self, receipt: &Receipt) {
        let labels = ActLabels {
            action: receipt.action,
            outcome: receipt.outcome.as_str(),
            class: receipt.outcome.class().map_or("", |class| class.as_str()),
        };
        self.acts.get_or_create(&labels).inc();
    }

    /// Says whether a region answers.
    pub fn region(&self, region: &str, reachable: bool) {
        let labels = RegionLabels {
            region: region.to_owned(),
        };
        self.reachable
            .get_or_create(&labels)
            .set(i64::from(reachable));
    }

    /// Forgets a region that is gone.
    pub fn forget_region(&self, region: &str) {
        self.reachable.remove(&RegionLabels {
            region: region.to_owned(),
        });
    }

    /// Says what a policy is doing.
    pub fn policy(&self, key: &PolicyKey, class: &str, phase: &str, ratios: Ratios) {
        let labels = PolicyLabels {
            namespace: key.0.clone(),
            policy: key.1.clone(),
            class: class.to_owned(),
            phase: phase.to_owned(),
        };
        let mut shown = self.shown();
        let shown = shown.entry(key.clone()).or_default();
        if shown.info.as_ref() != Some(&labels) {
            if let Some(old) = shown.info.replace(labels.clone()) {
                self.policies.remove(&old);
            }
            self.policies.get_or_create(&labels).set(1);
        }
        for (arm, value) in [("canary", ratios.canary), ("control", ratios.control)] {
            let labels = ratio_labels(key, arm);
            match value {
                Some(value) => {
                    self.ratios.get_or_create(&labels).set(value);
                }
                None => {
                    self.ratios.remove(&labels);
                }
            }
        }
    }

    /// Counts a region's verdict if it is another one than in the pass before.
    pub fn verdict(&self, key: &PolicyKey, region: &str, verdict: &str) {
        let mut shown = self.shown();
        let verdicts = &mut shown.entry(key.clone()).or_default().verdicts;
        if verdicts.get(region).map(String::as_str) == Some(verdict) {
            return;
        }
        verdicts.insert(region.to_owned(), verdict.to_owned());
        self.verdicts
            .get_or_create(&VerdictLabels {
                verdict: verdict.to_owned(),
            })
            .inc();
    }

    /// Counts a look of the judge.
    pub fn look(&self, whole: bool) {
        let read = if whole { "whole" } else { "youngest" };
        self.looks.get_or_create(&LookLabels { read }).inc();
    }

    /// Counts a rollback that begins.
    pub fn rollback(&self, reason: &str) {
        self.rollbacks
            .get_or_create(&ReasonLabels {
                reason: reason.to_owned(),
            })
            .inc();
    }

    /// Counts an event that could not be published.
    pub fn event_failed(&self) {
        self.events_failed.inc();
    }

    /// Forgets a policy that is gone.
    pub fn forget_policy(&self, key: &PolicyKey) {
        self.judge.forget(key);
        if let Some(Shown {
            info: Some(labels), ..
        }) = self.shown().remove(key)
        {
            self.policies.remove(&labels);
        }
        for arm in ["canary", "control"] {
            self.ratios.remove(&ratio_labels(key, arm));
        }
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<PolicyKey, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ratio_labels(key: &PolicyKey, arm: &'static str) -> RatioLabels {
    RatioLabels {
        namespace: key.0.clone(),
        policy: key.1.clone(),
        arm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PolicyKey {
        ("trace".to_owned(), "trace".to_owned())
    }

    #[test]
    fn a_policy_shows_one_phase_at_a_time_and_goes_whole() {
        let metrics = Metrics::new();
        let ratios = Ratios {
            canary: Some(1.04),
            control: Some(2.31),
        };
        metrics.policy(&key(), "jemalloc", "Baseline", Ratios::default());
        metrics.policy(&key(), "jemalloc", "Baking", ratios);
        let text = metrics.text().unwrap();
        assert!(!text.contains("Baseline"), "{text}");
        assert!(text.contains(r#"heapfleet_policy_info{namespace="trace",policy="trace",class="jemalloc",phase="Baking"} 1"#), "{text}");
        assert!(
            text.contains(
                r#"heapfleet_canary_ratio{namespace="trace",policy="trace",arm="control"} 2.31"#
            ),
            "{text}"
        );
        metrics.forget_policy(&key());
        let text = metrics.text().unwrap();
        assert!(
            !text.contains("jemalloc") && !text.contains("arm="),
            "{text}"
        );
    }

    #[test]
    fn a_verdict_counts_when_it_changes() {
        let metrics = Metrics::new();
        for verdict in ["Inconclusive", "Inconclusive", "Pass"] {
            metrics.verdict(&key(), "ore", verdict);
        }
        let text = metrics.text().unwrap();
        assert!(
            text.contains(r#"heapfleet_verdicts_total{verdict="Inconclusive"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"heapfleet_verdicts_total{verdict="Pass"} 1"#),
            "{text}"
        );
    }
}
