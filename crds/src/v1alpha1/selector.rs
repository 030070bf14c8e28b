//! Takes a label selector as a user writes it, gives the bounded type of it; must never match anything itself.

use super::{LabelText, rules};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value of a label.
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

/// A selector over labels: every entry of `matchLabels` and of `matchExpressions` has to hold. An empty selector selects
/// everything, where that is allowed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels that have to be present with exactly this value. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(
        validation = rules::keys(317, "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            "the name of a label, such as app or example.com/app"),
        validation = Rule::new(format!("self.all(k, self[k].matches(r'{LABEL_VALUE}'))"))
            .message(Message::Expression(format!("'value ' + self[self.map(k, k).filter(k, !self[k].matches(r'{LABEL_VALUE}'))[0]] + ' must be the value of a label: at most 63 letters, digits, \\'-\\', \\'_\\' and \\'.\\''"))),
    )]
    pub match_labels: BTreeMap<String, LabelText>,

    /// Conditions on labels, for what equality cannot say. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<SelectorExpression>,
}

/// One condition on a label.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".values",
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
    "'operator ' + self.operator + (self.operator in ['In', 'NotIn'] ? ' needs at least one entry in values' : ' takes no values: remove them')"))]
pub struct SelectorExpression {
    /// The label's name, such as `app` or `example.com/app`. At most 317 characters.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// How the label is compared: `In` and `NotIn` with `values`, `Exists` and `DoesNotExist` without.
    pub operator: SelectorOperator,

    /// The values for `In` and `NotIn`. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub values: Vec<LabelText>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl SelectorOperator {
    /// The word as written in a selector.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

impl Selector {
    /// A selector for labels with these values.
    pub fn labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let match_labels = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        Self {
            match_labels,
            match_expressions: Vec::new(),
        }
    }
}

impl From<&Selector> for meta::LabelSelector {
    fn from(selector: &Selector) -> Self {
        let labels: BTreeMap<String, String> = selector
            .match_labels
            .iter()
            .map(|(k, v)| (k.clone(), v.0.clone()))
            .collect();
        let expressions: Vec<meta::LabelSelectorRequirement> = selector
            .match_expressions
            .iter()
            .map(|expression| meta::LabelSelectorRequirement {
                key: expression.key.clone(),
                operator: expression.operator.as_str().to_owned(),
                values: (!expression.values.is_empty()).then(|| {
                    expression
                        .values
                        .iter()
                        .map(|value| value.0.clone())
                        .collect()
                }),
            })
            .collect();
        Self {
            match_labels: (!labels.is_empty()).then_some(labels),
            match_expressions: (!expressions.is_empty()).then_some(expressions),
        }
    }
}
