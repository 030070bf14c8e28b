//! Takes a reference to a metric as a user writes it, gives its type; must never hold a query that we would pass on
//! unchecked: the query is built by the operator from the reference.

use super::{ByteSize, LabelText, defaults, rules};
use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric in Prometheus, by reference. The operator builds the query: it adds the region's matchers, the namespace and
/// the pods, and escapes every value.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(rules::exactly_one(&["metric", "promql"]))
        .message("must have exactly one of metric and promql: name a metric (promql only where the region allows raw queries)"),
    validation = rules::rule_at(".matchers", "!has(self.promql) || !has(self.matchers)",
        "'matchers belong to metric, not to promql: write them into the query beside $matchers, or use metric'"),
)]
pub struct SeriesRef {
    /// The metric's name, such as `trace_cache_accounted_bytes`. At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = metric_name())]
    pub metric: Option<String>,

    /// Further labels that the series must have, each with exactly this value. The region's matchers, the namespace and
    /// the pods are added by the operator and cannot be set here. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = matcher_keys(), validation = matcher_scope())]
    pub matchers: BTreeMap<String, LabelText>,

    /// The label that holds the pod's name. Default `pod`.
    #[serde(default = "defaults::pod_label")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = label_name())]
    pub pod_label: String,

    /// How several series of one pod become one number: `sum` or `max`. Default `sum`.
    #[serde(default)]
    pub aggregate: Aggregate,

    /// A raw query instead of `metric`; it must contain `$matchers` in every selector, which the operator replaces by the
    /// scope of the pods. Accepted only where the region has `prometheus.allowRawQueries`. At most 2048 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = raw_query())]
    pub promql: Option<String>,
}

/// The capacity of a cache: a metric, or a fixed number of bytes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(rules::exactly_one(&["metric", "promql", "value"]))
        .message("must have exactly one of metric, promql and value: a series of the capacity, or a fixed value such as 36Gi"),
    validation = rules::rule_at(".matchers", "has(self.metric) || !has(self.matchers)",
        "'matchers belong to metric: add metric, or remove them'"),
)]
pub struct CapacityRef {
    /// The metric's name, in bytes per pod, summed over a pod's caches. At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = metric_name())]
    pub metric: Option<String>,

    /// Further labels that the series must have, each with exactly this value. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = matcher_keys(), validation = matcher_scope())]
    pub matchers: BTreeMap<String, LabelText>,

    /// The label that holds the pod's name. Default `pod`.
    #[serde(default = "defaults::pod_label")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = label_name())]
    pub pod_label: String,

    /// How several series of one pod become one number: `sum` or `max`. Default `sum`.
    #[serde(default)]
    pub aggregate: Aggregate,

    /// A raw query instead of `metric`, as in the other series. At most 2048 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = raw_query())]
    pub promql: Option<String>,

    /// The capacity of every pod's cache in bytes, such as `36Gi`, where no series says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ByteSize>,
}

/// How several series of one pod become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// The values are added up: several caches in one process.
    #[default]
    Sum,
    /// The largest value counts: an information series with the value 0 or 1.
    Max,
}

impl SeriesRef {
    /// A reference to a metric with the default pod label and sum.
    pub fn metric(name: &str) -> Self {
        Self {
            metric: Some(name.to_owned()),
            matchers: BTreeMap::new(),
            pod_label: defaults::pod_label(),
            aggregate: Aggregate::Sum,
            promql: None,
        }
    }
}

/// A metric's name, not a query.
pub(super) fn metric_name() -> Rule {
    Rule::new("self.matches('^[a-zA-Z_:][a-zA-Z0-9_:]*$')").message(
        "must be the name of a metric, such as trace_cache_accounted_bytes: labels go into matchers, functions are added by the operator",
    )
}

/// A label's name.
pub(super) fn label_name() -> Rule {
    Rule::new("self.matches('^[a-zA-Z_][a-zA-Z0-9_]*$')")
        .message("must be the name of a Prometheus label: letters, digits and '_'")
}

/// Keys of a matchers map are label names.
pub(super) fn matcher_keys() -> Rule {
    rules::keys(
        128,
        "^[a-zA-Z_][a-zA-Z0-9_]*$",
        "the name of a Prometheus label: letters, digits and '_', at most 128 characters; values are compared exactly",
    )
}

/// The scope of a query is not the user's to set.
fn matcher_scope() -> Rule {
    Rule::new("!('__name__' in self) && !('namespace' in self)").message(
        "must not hold namespace or __name__: the operator adds the policy's namespace, and metric is the name",
    )
}

/// A raw query has to leave room for its scope.
fn raw_query() -> Rule {
    Rule::new("self.contains('$matchers')")
        .message("must contain $matchers in every selector, such as my_metric{$matchers}: the operator puts the scope of the pods there")
}
