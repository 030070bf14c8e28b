//! Takes where a region is and how to reach it, gives the kind `AllocatorRegion`; must never hold a credential itself,
//! only names of Secrets in the operator's namespace.

use super::{LabelText, ObjectName, Selector, defaults, rules};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a region is, how to reach it, and which Prometheus sees it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "heapfleet.dev",
    version = "v1alpha1",
    kind = "AllocatorRegion",
    plural = "allocatorregions",
    shortname = "areg",
    category = "heapfleet",
    status = "AllocatorRegionStatus",
    derive = "PartialEq",
    doc = "A region: a cluster or a part of one, how to reach it, and which Prometheus sees it. Policies name it. Written by a platform admin.",
    validation = rules::rule_of("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 63 characters, such as ore: policies name it'"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status", description = "Whether the region can take part."),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version", description = "The version of the region's API server."),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend", description = "Whether nothing is changed in the region."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", priority = 1, description = "Why it is ready or not."),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".status.clusterUID", priority = 1, description = "The pinned identity of the cluster."),
    printcolumn(name = "Prometheus", type_ = "string", json_path = ".spec.prometheus.url", priority = 1, description = "Where its metrics are."),
)]
#[serde(rename_all = "camelCase")]
pub struct AllocatorRegionSpec {
    /// Which cluster, and how to reach it. Exactly one of `local`, `kubeconfigSecretRef` and `endpoint`.
    pub cluster: ClusterAccess,

    /// Which workloads of the cluster belong to the region, by their labels; several regions can live in one cluster.
    /// Empty (the default): all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_selector: Option<Selector>,

    /// Which namespaces of the cluster have opted in, by their labels. Default `heapfleet.dev/enabled: "true"`; an empty
    /// selector `{}` means every namespace.
    #[serde(default = "defaults::opted_in")]
    pub namespace_selector: Selector,

    /// Which Prometheus sees the region.
    pub prometheus: PrometheusAccess,

    /// Change nothing in the region: rollouts hold before it; restoring is still done. Default false.
    #[serde(default)]
    pub suspend: bool,
}

/// How a cluster is reached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(rules::exactly_one(&["local", "kubeconfigSecretRef", "endpoint"]))
    .message("must have exactly one of local (this cluster), kubeconfigSecretRef and endpoint: keep one"))]
pub struct ClusterAccess {
    /// The cluster in which the operator itself runs: `{}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalCluster>,

    /// A Secret in the operator's namespace that holds a kubeconfig. It is read strictly: server, CA and a token or client
    /// certificate, all inline; no exec, no auth provider, no file paths, no insecure TLS, no impersonation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<SecretKeyRef>,

    /// An API server with a CA and a token: the preferred way, because nothing in it can execute or read files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
}

/// The cluster in which the operator runs: nothing to say about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalCluster {}

/// An API server.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The API server's address, such as `https://api.ore.example.net:6443`. At most 512 characters.
    #[schemars(length(min = 9, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^https://[A-Za-z0-9.:\\\\[\\\\]-]+(/[A-Za-z0-9._/-]*)?$')")
        .message("must be an https address such as https://api.ore.example.net:6443, without user, query or fragment"))]
    pub server: String,

    /// The Secret's key that holds the CA of the API server, in PEM.
    pub ca_secret_ref: SecretKeyRef,

    /// The Secret's key that holds the bearer token. It is read again when it changes.
    pub token_secret_ref: SecretKeyRef,
}

/// A key of a Secret in the operator's namespace.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// The Secret's name, in the operator's namespace.
    pub name: ObjectName,

    /// The key in the Secret. At most 253 characters.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]+$')")
        .message("must be a key of a Secret, such as token: letters, digits, '-', '_' and '.'"))]
    pub key: String,
}

/// Which Prometheus sees the region, or which tenant of a shared one.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".caSecretRef", "!has(self.caSecretRef) || self.url.startsWith('https://')",
        "'caSecretRef needs an https url, which ' + self.url + ' is not: use https, or remove it'"),
    validation = rules::rule_at(".url",
        "!has(self.auth) || !(has(self.auth.basic) || has(self.auth.bearerTokenSecretRef)) || self.url.startsWith('https://')",
        "'url ' + self.url + ' must be https when auth sends a password or token: use https, or remove the credential'"),
)]
pub struct PrometheusAccess {
    /// The address of the Prometheus API without `/api/v1`, such as `https://prometheus.ore.example.net`. At most 512
    /// characters.
    #[schemars(length(min = 8, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^https?://[A-Za-z0-9.:\\\\[\\\\]-]+(/[A-Za-z0-9._/-]*)?$') && !self.endsWith('/api/v1')")
        .message("must be an http or https address such as https://prometheus.ore.example.net, without user, query, fragment or /api/v1"))]
    pub url: String,

    /// Labels that tell this region's series apart, added to every selector: for a Prometheus that sees several regions.
    /// At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = super::series::matcher_keys())]
    pub matchers: BTreeMap<String, LabelText>,

    /// How to authenticate. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<PrometheusAuth>,

    /// The Secret's key that holds the CA of the Prometheus, in PEM. Default: the CAs of the operator's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,

    /// Whether policies may use raw `promql` for this region. Default false: only references, whose queries are built here.
    #[serde(default)]
    pub allow_raw_queries: bool,
}

/// How to authenticate against Prometheus: at most one of `basic` and `bearerTokenSecretRef`, and further headers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.basic) || !has(self.bearerTokenSecretRef)")
    .message("must have at most one of basic and bearerTokenSecretRef: remove one"))]
pub struct PrometheusAuth {
    /// A user and a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,

    /// The Secret's key that holds a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token_secret_ref: Option<SecretKeyRef>,

    /// Further headers, such as a tenant's `X-Scope-OrgID`. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,
}

/// A user and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The Secret's key that holds the user's name.
    pub username_secret_ref: SecretKeyRef,

    /// The Secret's key that holds the password.
    pub password_secret_ref: SecretKeyRef,
}

/// A header with a value in the open or in a Secret.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".name", rules::exactly_one(&["value", "valueSecretRef"]),
    "'header ' + self.name + ' must have exactly one of value and valueSecretRef'"))]
pub struct Header {
    /// The header's name, such as `X-Scope-OrgID`. At most 64 characters.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = Rule::new("self.matches('^[A-Za-z0-9-]+$')")
            .message("must be a header's name: letters, digits and '-'"),
        validation = Rule::new("!(self.lowerAscii() in ['authorization', 'host', 'cookie', 'content-length', 'content-type', 'transfer-encoding', 'connection'])")
            .message("must not be a header that the client itself sets: credentials go into basic or bearerTokenSecretRef"),
    )]
    pub name: String,

    /// The value. At most 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<LabelText>,

    /// The Secret's key that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_secret_ref: Option<SecretKeyRef>,
}

/// What was found out about a region.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatorRegionStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The UID of the cluster's namespace `kube-system`, pinned at first contact. Another cluster behind the same name stops
    /// everything.
    #[serde(
        default,
        rename = "clusterUID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub cluster_uid: Option<String>,

    /// The version of the region's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,

    /// `Ready`, `Reachable`, `Authorized`, `PrometheusReachable`, `IdentityMatches`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
