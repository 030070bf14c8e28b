//! Takes what must hold for a region to be promoted, as a user writes it; gives its types. The meaning of every number is
//! the judge's. Must never hold a default that the description does not name.

use super::{CapacityRef, GuardrailName, LabelText, Percent, SeriesRef, TimeSpan, defaults, rules};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What must hold: the series that are looked at, how long, and how much worse or better is acceptable. RSS divided by
/// the bytes that the cache accounts for is compared between the canary and the control regions, each against its own
/// time before the change.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".cache", "has(self.cache) || (has(self.preset) && self.preset != '')",
        "'cache is required: name the metric of the bytes that the cache accounts for, such as {metric: trace_cache_accounted_bytes}, or name a preset that has it'"),
    validation = rules::rule_at(".minBake", rules::at_most("self.minBake", "self.maxBake"),
        "'minBake ' + self.minBake + ' must not be longer than maxBake ' + self.maxBake + ': lower minBake or raise maxBake'"),
    validation = rules::rule_at(".minBake", rules::at_least_times("self.minBake", "self.blockDuration", 12),
        "'minBake ' + self.minBake + ' must be at least 12 blocks of blockDuration ' + self.blockDuration + ': raise minBake or shorten the block'"),
    validation = rules::rule_at(".baseline", rules::at_least_times("self.baseline", "self.blockDuration", 36),
        "'baseline ' + self.baseline + ' must be at least 36 blocks of blockDuration ' + self.blockDuration + ': raise baseline or shorten the block'"),
    validation = rules::rule_at(".dryRun",
        "!has(self.dryRun) || self.dryRun.all(d, has(self.guardrails) && self.guardrails.exists(g, g.name == d))",
        "'dryRun names ' + self.dryRun.filter(d, !has(self.guardrails) || !self.guardrails.exists(g, g.name == d))[0] + ', which is not the name of a guardrail: correct it or add the guardrail'"),
)]
pub struct Analysis {
    /// A named set of series for a known exporter; the series below override single ones. Empty (the default) for none.
    /// At most 63 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')")
        .message("must be the name of a preset: lower case letters, digits and '-'"))]
    pub preset: String,

    /// Resident memory per pod: a gauge in bytes. Default: the node probe's series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<SeriesRef>,

    /// The highest resident memory per pod: a gauge in bytes. Shown, never decided on. Default: the node probe's series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_peak: Option<SeriesRef>,

    /// The bytes that the application's caches account for, per pod: a gauge in bytes. Required, here or by the preset:
    /// without it nobody can tell a fuller cache from a wasteful allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<SeriesRef>,

    /// The capacity of the caches per pod: a gauge in bytes, or a fixed value. Only pods with full caches are compared.
    /// Undeclared: a cache counts as full at 90 % of the median of its own baseline, once it has stopped growing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_capacity: Option<CapacityRef>,

    /// Evicted bytes per pod: a counter. Only pods that evict are compared. Undeclared: the minimum bake is doubled, and
    /// `controlRestart: None` can never pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evictions: Option<SeriesRef>,

    /// Requests per pod: a counter. Blocks in which the arms' loads diverge are not counted. Undeclared: load is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<SeriesRef>,

    /// The length of one block of evidence. All other times of the judge are counted in blocks. Default 5m, from 1s to 1h.
    #[serde(default = "defaults::block_duration")]
    #[x_kube(validation = rules::span_between("1s", "1h", "one block of evidence, best a few scrapes long"))]
    pub block_duration: TimeSpan,

    /// How long after the end of a block it is looked at, so that late scrapes and remote writes have arrived. It must
    /// never be less than two scrape intervals. Default 60s, from 0s to 30m.
    #[serde(default = "defaults::delay")]
    #[x_kube(validation = rules::span_between("0s", "30m", "the time for late scrapes to arrive, at least two scrape intervals"))]
    pub delay: TimeSpan,

    /// How far back the time before the change is looked up in Prometheus; nothing waits for it. At least 36 blocks.
    /// Default 7d (which also reveals the daily rhythm), from 30s to 90d.
    #[serde(default = "defaults::baseline")]
    #[x_kube(validation = rules::span_between("30s", "2160h", "the time before the change, as far as Prometheus keeps it"))]
    pub baseline: TimeSpan,

    /// The shortest bake of the canary, counted in accepted blocks. At least 12 blocks. Default 6h, from 12s to 30d.
    #[serde(default = "defaults::min_bake")]
    #[x_kube(validation = rules::span_between("12s", "720h", "the shortest bake of the canary"))]
    pub min_bake: TimeSpan,

    /// The longest bake, counted in accepted blocks; an undecided region is held at its end, never promoted. Default 24h,
    /// from 12s to 90d, not shorter than `minBake`.
    #[serde(default = "defaults::max_bake")]
    #[x_kube(validation = rules::span_between("12s", "2160h", "the longest bake, after which an undecided region is held"))]
    pub max_bake: TimeSpan,

    /// How long a ready pod may be without proof of its allocator before the region fails. Default 15m, from 1s to 24h.
    #[serde(default = "defaults::verify_deadline")]
    #[x_kube(validation = rules::span_between("1s", "24h", "the time in which a ready pod has to prove its allocator"))]
    pub verify_deadline: TimeSpan,

    /// The longest stretch of wall clock without an accepted block (caches filling, no data) before the region is held.
    /// Default 72h, from 1s to 30d.
    #[serde(default = "defaults::gate_timeout")]
    #[x_kube(validation = rules::span_between("1s", "720h", "the longest stretch without an accepted block"))]
    pub gate_timeout: TimeSpan,

    /// The standard deviation of RSS/cache between two restarts of one pod, until the service's own restarts teach it.
    /// Default: 4%, or 1.5% where the caches are at least 80 % of RSS. From 0.1% to 50%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::percent_between("0.1", "50", "the spread of RSS/cache between two restarts of one pod"))]
    pub restart_noise: Option<Percent>,

    /// The largest increase of RSS/cache that is acceptable: a region is promoted only when more than this is excluded.
    /// Default 3%, from 0.1% to 100%.
    #[serde(default = "defaults::max_regression")]
    #[x_kube(validation = rules::percent_between("0.1", "100", "the largest acceptable increase of RSS/cache"))]
    pub max_regression: Percent,

    /// The least decrease of RSS/cache that must be shown for a promotion; parity is then held. 0% promotes at parity.
    /// Default 5%, from 0% to 90%.
    #[serde(default = "defaults::min_gain")]
    #[x_kube(validation = rules::percent_between("0", "90", "the least decrease of RSS/cache to be shown; 0% promotes at parity"))]
    pub min_gain: Percent,

    /// What must not get worse beside memory: latency, errors, CPU per request. None is invented. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub guardrails: Vec<Guardrail>,

    /// Names of guardrails that are judged and shown, but never acted on. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub dry_run: Vec<GuardrailName>,
}

/// One thing that must not get worse, compared between the arms like RSS. Exactly one of `histogram`, `ratio` and `count`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".name", rules::exactly_one(&["histogram", "ratio", "count"]),
    "'guardrail ' + self.name + ' must have exactly one of histogram (a latency), ratio (errors or CPU per request) and count (events)'"))]
pub struct Guardrail {
    /// The guardrail's name, shown in reasons: letters and digits, such as `p99`. At most 32 characters.
    pub name: GuardrailName,

    /// A quantile of a classic histogram, such as the 99th percentile of request durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<HistogramRef>,

    /// The rate of one counter divided by the rate of another, such as errors or CPU seconds per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<RatioRef>,

    /// A counter of events; they are related to requests where `requests` is declared, else to the pods' running time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<SeriesRef>,

    /// The largest increase that is acceptable: a region is promoted only when more than this is excluded, and rolled back
    /// when more than a quarter of it is certain. Default 8%, from 0.1% to 900%.
    #[serde(default = "defaults::max_increase")]
    #[x_kube(validation = rules::percent_between("0.1", "900", "the largest acceptable increase against the control"))]
    pub max_increase: Percent,
}

/// A quantile of a classic histogram.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistogramRef {
    /// The histogram's name without `_bucket`, such as `http_request_duration_seconds`. At most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(
        validation = super::series::metric_name(),
        validation = Rule::new("!self.endsWith('_bucket')")
            .message("must be the histogram's own name: drop the ending _bucket, the operator adds it"),
    )]
    pub metric: String,

    /// Further labels that the series must have, each with exactly this value. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = super::series::matcher_keys())]
    pub matchers: BTreeMap<String, LabelText>,

    /// The label that holds the pod's name. Default `pod`.
    #[serde(default = "defaults::pod_label")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = super::series::label_name())]
    pub pod_label: String,

    /// The quantile, in quotes: from "0.5" to "0.9999", such as "0.99".
    #[schemars(length(min = 1, max = 6))]
    #[x_kube(validation = Rule::new("self.matches('^0[.][5-9][0-9]{0,3}$')")
        .message("must be a quantile from \"0.5\" to \"0.9999\", in quotes, such as \"0.99\""))]
    pub quantile: String,
}

/// The rate of one counter divided by the rate of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RatioRef {
    /// The counter above the line: errors, CPU seconds.
    pub numerator: SeriesRef,

    /// The counter below the line: requests.
    pub denominator: SeriesRef,

    /// What the numerator counts. `Events` (the default): single events such as errors, judged by their numbers. `Amount`:
    /// a quantity such as CPU seconds, judged by its level like a latency.
    #[serde(default)]
    pub of: RatioOf,
}

/// What the numerator of a ratio counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RatioOf {
    /// Single events, such as errors.
    #[default]
    Events,
    /// A quantity, such as CPU seconds.
    Amount,
}
