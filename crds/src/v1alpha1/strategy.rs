//! Takes the order of regions and the brakes of a rollout, as a user writes them; gives their types. Must never hold
//! anything about what is measured (that is `analysis`).

use super::{DnsLabel, TimeSpan, defaults, rules};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{KubeSchema, core::Rule};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Which regions, in which order, how fast, and what happens when one is worse. Regions are named as their
/// `AllocatorRegion` is.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".control", "!(self.canary in self.control)",
        "'control must not hold the canary region ' + self.canary + ': compare it with another region'"),
    validation = rules::rule_at(".waves", "!has(self.waves) || !self.waves.exists(w, self.canary in w.regions)",
        "'waves must not hold the canary region ' + self.canary + ': it is converted before all waves; remove it'"),
    validation = rules::rule_at(".waves",
        "!has(self.waves) || self.waves.map(w, w.regions.size()).sum() > 768 || self.waves.all(w, w.regions.all(r, self.waves.exists_one(v, r in v.regions)))",
        "'waves must hold each region once, not ' + self.waves.map(w, w.regions.exists(r, !self.waves.exists_one(v, r in v.regions)) ? w.regions.filter(r, !self.waves.exists_one(v, r in v.regions))[0] : '').filter(r, r != '')[0] + ' twice: name every region in one wave only'"),
    validation = rules::rule_at(".waves",
        "!has(self.waves) || self.control.all(c, !self.waves.exists(w, c in w.regions) || c in self.waves[self.waves.size() - 1].regions)",
        "'control region ' + self.control.filter(c, self.waves.exists(w, c in w.regions) && !(c in self.waves[self.waves.size() - 1].regions))[0] + ' may only be in the last wave: it is what the others are compared with; move it there'"),
    validation = rules::rule_at(".waves",
        "!has(self.waves) || self.waves.all(w, !has(w.name) || (w.name != 'canary' && self.waves.exists_one(v, has(v.name) && v.name == w.name)))",
        "'waves must have different names, none of them canary (that is wave 0), which ' + self.waves.map(w, has(w.name) ? w.name : '').filter(n, n == 'canary' || (n != '' && !self.waves.exists_one(v, has(v.name) && v.name == n)))[0] + ' breaks: rename the wave or drop its name'"),
)]
pub struct RolloutStrategy {
    /// The region that is converted first and judged against the control regions.
    pub canary: DnsLabel,

    /// The regions that stay as they are while the others are judged against them. One to five; two or more are advised,
    /// because one region alone cannot tell its own weather from the allocator.
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub control: Vec<DnsLabel>,

    /// Whether the control's pods are restarted once, unchanged, together with the canary's. `Matched` (the default): yes,
    /// by eviction, so that both arms have the same age. `None`: no; then only caches that have turned over are compared.
    #[serde(default)]
    pub control_restart: ControlRestart,

    /// The regions after the canary, wave by wave, in this order. Control regions may only be in the last wave. Without
    /// waves the rollout ends with the canary. At most 32. A region in two waves is refused here up to 768 regions, and by the
    /// operator beyond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub waves: Vec<Wave>,

    /// How many workloads of one region change at the same time: a number from 1 to 1000, or a percentage of the region's
    /// workloads such as "25%" (rounded down, at least 1). Default 1.
    #[serde(default)]
    pub max_concurrent_workloads: CountOrPercent,

    /// How long one workload's own rollout may take before it is undone. Default 15m, from 10s to 24h.
    #[serde(default = "defaults::workload_deadline")]
    #[x_kube(validation = rules::span_between("10s", "24h", "the time in which one workload has to be rolled out"))]
    pub workload_deadline: TimeSpan,

    /// A crash of a changed pod this soon after its start undoes its workload at once. Default 1h, from 1s to 7d.
    #[serde(default = "defaults::stability_window")]
    #[x_kube(validation = rules::span_between("1s", "168h", "the time after a pod's start in which a crash undoes its workload"))]
    pub stability_window: TimeSpan,

    /// Whether a person has to approve after the canary has passed. `None` (the default): no. `Required`: yes, by an entry
    /// for the gate `canary` in the rollout's `spec.approvals`.
    #[serde(default)]
    pub approval: Approval,

    /// What to do with regions that hold selected workloads but are in no wave. `Ignore` (the default): leave them.
    /// `Fail`: do not start. `LastWave`: convert them with the last wave.
    #[serde(default)]
    pub unassigned_regions: UnassignedRegions,

    /// What to do when a region cannot be reached before its turn. `Wait` (the default): wait for it. `Skip`: go on without
    /// it and remember it. `Fail`: stop after `unreachableDeadline`. A region that is lost in the middle is always waited for.
    #[serde(default)]
    pub on_unreachable: OnUnreachable,

    /// How long an unreachable region is waited for before `onUnreachable` takes effect. Default 1h, from 1s to 30d.
    #[serde(default = "defaults::unreachable_deadline")]
    #[x_kube(validation = rules::span_between("1s", "720h", "the time for which an unreachable region is waited for"))]
    pub unreachable_deadline: TimeSpan,

    /// What happens when a region is worse beyond doubt. Default: roll that region back and stop.
    #[serde(default)]
    pub on_regression: OnRegression,

    /// When new regions may start; none (the default) means always. A rollback never waits for a window. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub windows: Vec<Window>,
}

/// Regions that are converted in one step of the rollout.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// The wave's name, used as the gate of its approval. Default `wave-1`, `wave-2` and so on, by position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DnsLabel>,

    /// The regions of the wave, in order. One to 64.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub regions: Vec<DnsLabel>,

    /// How many of the wave's regions change or bake at the same time. Default 1, from 1 to 64.
    #[serde(default = "defaults::max_concurrent_regions")]
    #[schemars(range(min = 1, max = 64))]
    pub max_concurrent_regions: i32,

    /// The shortest bake of each of the wave's regions, at least 24 blocks. Default: `analysis.minBake`. At most 30d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::span_between("1s", "720h", "the shortest bake of the wave's regions"))]
    pub bake: Option<TimeSpan>,

    /// Whether a person has to approve before this wave starts. `None` (the default): no. `Required`: yes, by an entry for
    /// the gate of this wave's name in the rollout's `spec.approvals`.
    #[serde(default)]
    pub approval: Approval,
}

/// What happens when a region is worse beyond doubt, or a hard limit is hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnRegression {
    /// `Rollback` (the default): restore what was there before. `Freeze`: change nothing any more and wait for a person.
    #[serde(default)]
    pub action: RegressionAction,

    /// Which regions the action is for. `Region` (the default): the one that failed. `Wave`: all of its wave. `Fleet`: all
    /// that this rollout has changed. The rollout stops in any case.
    #[serde(default)]
    pub scope: RegressionScope,
}

/// A stretch of time in which new regions may start.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When the window opens: minute, hour, day of month, month, day of week, as in cron. At most 64 characters.
    #[schemars(length(min = 9, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9*,/-]+ [0-9*,/-]+ [0-9*,/-]+ [0-9A-Za-z*,/-]+ [0-9A-Za-z*,/-]+$')")
        .message("must be five cron fields with single spaces (minute hour day month weekday), such as \"0 8 * * 1-4\""))]
    pub cron: String,

    /// How long the window stays open. From 1m to 7d.
    #[x_kube(validation = rules::span_between("1m", "168h", "how long the window stays open"))]
    pub duration: TimeSpan,

    /// The IANA time zone in which `cron` is read, such as `Europe/Berlin`. Default UTC. At most 64 characters.
    #[serde(default = "defaults::time_zone")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$')")
        .message("must be an IANA time zone such as UTC or Europe/Berlin"))]
    pub time_zone: String,
}

/// Whether the control arm is restarted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ControlRestart {
    /// Once, unchanged, so that both arms have the same age.
    #[default]
    Matched,
    /// Not at all.
    None,
}

/// Whether a person has to approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Nobody has to.
    #[default]
    None,
    /// An approval for this gate and this plan is waited for.
    Required,
}

/// What happens to regions in no wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnassignedRegions {
    /// They are left alone.
    #[default]
    Ignore,
    /// The policy is not accepted.
    Fail,
    /// They join the last wave.
    LastWave,
}

/// What happens when a region cannot be reached before its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnUnreachable {
    /// The rollout waits.
    #[default]
    Wait,
    /// The rollout goes on, the region is remembered.
    Skip,
    /// The rollout stops.
    Fail,
}

/// What is done when a region is worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RegressionAction {
    /// What was there before is restored.
    #[default]
    Rollback,
    /// Nothing is changed any more.
    Freeze,
}

/// For which regions it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RegressionScope {
    /// The region that failed.
    #[default]
    Region,
    /// All regions of its wave.
    Wave,
    /// All regions that the rollout has changed.
    Fleet,
}

/// A number of things, or a percentage of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CountOrPercent(pub IntOrString);

impl Default for CountOrPercent {
    fn default() -> Self {
        Self(IntOrString::Int(1))
    }
}

impl CountOrPercent {
    /// How many of `total`: a percentage is rounded down, and the answer is at least 1. `None` if it is neither a number
    /// from 1 to 1000 nor a percentage from 1% to 100%.
    pub fn of(&self, total: u32) -> Option<u32> {
        match &self.0 {
            IntOrString::Int(count) => u32::try_from(*count)
                .ok()
                .filter(|count| (1..=1_000).contains(count)),
            IntOrString::String(text) => {
                let digits = text.strip_suffix('%')?;
                let plain = digits.bytes().all(|b| b.is_ascii_digit());
                let percent: u64 = digits
                    .parse()
                    .ok()
                    .filter(|p| plain && (1..=100).contains(p))?;
                u32::try_from(u64::from(total) * percent / 100)
                    .ok()
                    .map(|count| count.max(1))
            }
        }
    }
}

impl JsonSchema for CountOrPercent {
    fn schema_name() -> Cow<'static, str> {
        "CountOrPercent".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rule = Rule::new(
            "type(self) == int ? self >= 1 && self <= 1000 : string(self).matches('^(100|[1-9][0-9]?)%$')",
        )
        .message("must be a number from 1 to 1000 or a percentage from \"1%\" to \"100%\"");
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "maxLength": 4,
            "x-kubernetes-validations": [rule],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_down_to_at_least_one() {
        let percent = |text: &str| CountOrPercent(IntOrString::String(text.to_owned()));
        assert_eq!(percent("25%").of(10), Some(2));
        assert_eq!(percent("25%").of(3), Some(1));
        assert_eq!(percent("100%").of(7), Some(7));
        assert_eq!(percent("101%").of(7), None);
        assert_eq!(percent("+5%").of(7), None);
        assert_eq!(percent("5").of(7), None);
        assert_eq!(CountOrPercent(IntOrString::Int(3)).of(10), Some(3));
        assert_eq!(CountOrPercent(IntOrString::Int(0)).of(10), None);
    }
}
