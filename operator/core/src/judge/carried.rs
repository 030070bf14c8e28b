//! What is carried from look to look: the frozen baseline and an absorbing Fail. Plain, versioned data; what comes back
//! from storage is checked before it is used, and must never be able to cause a Pass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::baseline::{Centre, FrozenMetric};
use super::constants::FROZEN_VERSION;
use super::outcome::Reason;
use super::settings::Identity;

/// Frozen when the bake starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Frozen {
    /// Version of this layout.
    pub version: u32,
    /// Blocks of the baseline: first, and first after.
    pub window: (i64, i64),
    /// The metrics that could be fitted, the ratio first.
    pub metrics: Vec<FrozenMetric>,
    /// The prior of ratio and peak, σ₀.
    pub sigma0: f64,
    /// It is the cold-start default.
    pub cold: bool,
    /// Median cache bytes per region, where the capacity is not declared.
    pub cache_median: BTreeMap<String, f64>,
    /// Requests per second and pod, per region, where requests are declared.
    pub load: BTreeMap<String, LoadBaseline>,
    /// Turnovers of each arm's caches at the end of the baseline, by region, where evictions are declared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub turnovers: BTreeMap<String, f64>,
    /// Counts by guardrail, then region.
    pub counts: BTreeMap<String, BTreeMap<String, CountBaseline>>,
    /// Fail, once reached, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Reason>,
}

/// Load of an arm in the baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBaseline {
    /// Mean.
    pub mean: f64,
    /// Mean by hour of day (UTC), with a day and more of baseline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hours: BTreeMap<u8, f64>,
}

/// One count of an arm in the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CountBaseline {
    /// Events per exposure.
    pub rate: f64,
    /// Overdispersion of the events per block, at least 1.
    pub dispersion: f64,
}

impl Frozen {
    /// One metric's frozen baseline, if it is there and sound.
    pub fn metric(&self, name: &str) -> Option<&FrozenMetric> {
        self.metrics
            .iter()
            .find(|m| m.metric == name)
            .filter(|m| m.is_sound())
    }

    /// Whether pods or arms are compared with themselves: what the ratio's centres hold.
    pub fn identity(&self) -> Identity {
        let arm = |m: &FrozenMetric| m.centres.values().any(|c| matches!(c, Centre::Arm(_)));
        if self.metrics.first().is_some_and(arm) {
            Identity::None
        } else {
            Identity::Stable
        }
    }

    /// Can this be judged by?
    pub fn is_sound(&self) -> bool {
        self.version == FROZEN_VERSION
            && (0.0..=1e4).contains(&self.sigma0)
            && self.metric("ratio").is_some()
    }
}
