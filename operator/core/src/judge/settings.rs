//! What the owner asks for: plain settings in, the rule of each metric out. Must never read a sample.
//!
//! Fractions are fractions (0.03 is 3 %), times are seconds unless they are counted in blocks.

use serde::{Deserialize, Serialize};

use super::constants as k;

/// All settings of one bake, with the product's defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Length of a block, seconds, 1 and more (`blockDuration`).
    pub block_seconds: f64,
    /// Time between two scrapes, seconds, at most the block.
    pub scrape_seconds: f64,
    /// How long after its end a block is judged, seconds; never less than two scrapes.
    pub delay_seconds: f64,
    /// How far the baseline looks back, seconds (`baseline`).
    pub baseline_seconds: f64,
    /// Accepted blocks before a Pass, at least 24 (`minBake`, or a wave's `bake`).
    pub min_bake_blocks: u32,
    /// Accepted blocks after which an Inconclusive is final (`maxBake`).
    pub max_bake_blocks: u32,
    /// Longest stretch without an accepted block, seconds (`gateTimeout`).
    pub gate_timeout_seconds: f64,
    /// How long a proof of a wrong allocator must stand after readiness, seconds (`verifyDeadline`).
    pub verify_deadline_seconds: f64,
    /// Margin of the ratio, fraction (`maxRegression`).
    pub max_regression: f64,
    /// Gain needed for a Pass, fraction below 1; 0 turns the rule off (`minGain`).
    pub min_gain: f64,
    /// Standard deviation of RSS/cache between two restarts of one pod, fraction (`restartNoise`); learned or the
    /// default when absent.
    pub restart_noise: Option<f64>,
    /// Weight of `restart_noise` in degrees of freedom: 10, and more once regions have taught it (at most 40).
    pub restart_noise_weight: f64,
    /// Whether the control was restarted together with the canary.
    pub control_restart: ControlRestart,
    /// What the control arm runs: the source allocator, or (last region) the target.
    pub control_runs: ControlRuns,
    /// Whether a pod keeps its name across the restart.
    pub identity: Identity,
    /// Which optional series the policy or its preset declares.
    pub declared: Declared,
    /// The owner's guardrails, in order.
    pub guardrails: Vec<Guardrail>,
    /// Workloads judged in this region; alpha is divided by it (reading 5).
    pub workloads: u32,
    /// Absolute ceiling of RSS/cache, a hard limit.
    pub ratio_ceiling: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_seconds: 300.0,
            scrape_seconds: 15.0,
            delay_seconds: 60.0,
            baseline_seconds: 604_800.0,
            min_bake_blocks: 72,
            max_bake_blocks: 288,
            gate_timeout_seconds: 259_200.0,
            verify_deadline_seconds: 900.0,
            max_regression: 0.03,
            min_gain: 0.05,
            restart_noise: None,
            restart_noise_weight: k::NU0,
            control_restart: ControlRestart::Matched,
            control_runs: ControlRuns::Source,
            identity: Identity::None,
            declared: Declared::default(),
            guardrails: Vec::new(),
            workloads: 1,
            ratio_ceiling: None,
        }
    }
}

/// `controlRestart`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlRestart {
    /// The control is restarted once, unchanged, together with the canary.
    #[default]
    Matched,
    /// It is not; only churn parity protects.
    None,
}

/// What the control arm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlRuns {
    /// The allocator that is to be replaced.
    #[default]
    Source,
    /// The target: no region of the source is left (§13); the shift of a region counts double.
    Target,
}

/// Whether pods keep their identity across a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// They do (`StatefulSet`): each pod is compared with itself.
    Stable,
    /// They do not (`Deployment`): each arm is compared with itself (reading 4).
    #[default]
    None,
}

/// Optional series that are declared; what is declared and absent closes its gate (reading 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts of a policy"
)]
pub struct Declared {
    /// `cacheCapacity`.
    pub capacity: bool,
    /// `evictions`.
    pub evictions: bool,
    /// `requests`.
    pub requests: bool,
    /// The peak ratio must be judged; otherwise it is as soon as the baseline is long enough for it.
    pub peak: bool,
}

/// One guardrail of the owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guardrail {
    /// Its name, unique in the policy, and the key of its samples.
    pub name: String,
    /// What it measures.
    pub kind: GuardrailKind,
    /// Margin, fraction above 0 (`maxIncrease`).
    pub max_increase: f64,
    /// Judged and shown, never acted on.
    #[serde(default)]
    pub dry_run: bool,
}

/// Kinds of guardrails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardrailKind {
    /// The 99th percentile of latency: one of the four named metrics.
    P99,
    /// Anything continuous and positive: a further latency, CPU per request.
    Continuous,
    /// Events: errors, restarts.
    Count,
}

/// Why settings cannot be judged by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is out of range")]
pub struct SettingsError(pub &'static str);

impl Settings {
    /// Are all values finite and in range?
    pub fn check(&self) -> Result<(), SettingsError> {
        let within = |v: f64, low: f64, high: f64| v.is_finite() && v >= low && v <= high;
        let checks = [
            ("blockSeconds", within(self.block_seconds, 1.0, 86_400.0)),
            (
                "scrapeSeconds",
                within(self.scrape_seconds, 0.01, self.block_seconds),
            ),
            ("delaySeconds", within(self.delay_seconds, 0.0, 86_400.0)),
            (
                "baselineSeconds",
                within(self.baseline_seconds, self.block_seconds, 1e8),
            ),
            ("minBakeBlocks", self.min_bake_blocks >= k::WAVE_BAKE),
            (
                "gateTimeoutSeconds",
                within(self.gate_timeout_seconds, 0.0, 1e9),
            ),
            (
                "verifyDeadlineSeconds",
                within(self.verify_deadline_seconds, 0.0, 1e9),
            ),
            ("maxRegression", within(self.max_regression, 0.0, 10.0)),
            ("minGain", within(self.min_gain, 0.0, 0.99)),
            (
                "restartNoise",
                self.restart_noise.is_none_or(|v| within(v, 0.0, 1.0)),
            ),
            (
                "restartNoiseWeight",
                within(self.restart_noise_weight, 1.0, k::NU0_MOST),
            ),
            ("workloads", self.workloads >= 1),
            (
                "ratioCeiling",
                self.ratio_ceiling.is_none_or(|v| within(v, 0.0, 1e6)),
            ),
            ("guardrails", self.names_differ()),
            (
                "guardrails",
                self.guardrails
                    .iter()
                    .all(|g| within(g.max_increase, 1e-6, 100.0)),
            ),
        ];
        checks
            .into_iter()
            .find(|(_, good)| !good)
            .map_or(Ok(()), |(name, _)| Err(SettingsError(name)))
    }

    /// Guardrails have names of their own, none that of a metric that every bake has.
    fn names_differ(&self) -> bool {
        let names: std::collections::BTreeSet<&str> = self
            .guardrails
            .iter()
            .map(|g| g.name.as_str())
            .chain(["ratio", "peak"])
            .collect();
        names.len() == self.guardrails.len() + 2
    }

    /// The delay in force: at least two scrapes (reading 2).
    pub fn delay(&self) -> f64 {
        self.delay_seconds.max(2.0 * self.scrape_seconds)
    }

    /// Samples to fetch before a window so that its first block can be judged, seconds: what fill, evictions and a stuck
    /// exporter look back over, and what a sample needs to be found in.
    pub fn lead(&self) -> f64 {
        let blocks = if self.declared.capacity {
            k::EVICTING
        } else {
            k::FULL_GROWTH_BLOCKS
        };
        let look_back = super::num::real_signed(blocks + 1) * self.block_seconds;
        look_back.max((k::STUCK_SCRAPES + 1.0) * self.scrape_seconds)
    }

    /// The youngest blocks, which may still change (§3.8).
    pub fn young(&self) -> usize {
        let blocks = super::num::ceil(k::EVIDENCE_YOUNG_S / self.block_seconds);
        blocks.max(k::EVIDENCE_YOUNG)
    }

    /// The minimum bake in force: doubled where evictions are not declared (reading 1).
    pub fn min_bake(&self) -> u32 {
        if self.declared.evictions {
            self.min_bake_blocks
        } else {
            self.min_bake_blocks.saturating_mul(2)
        }
    }

    /// The maximum bake in force, never below the minimum.
    pub fn max_bake(&self) -> u32 {
        self.max_bake_blocks.max(self.min_bake())
    }
}
