//! Takes what a platform admin allows inside other people's processes, gives the kind `AllocatorClass`; must never hold
//! anything that one policy may choose on its own.

use super::{
    OptionName, OptionValue, PinnedImage, SeriesRef, VariableName, policy::option_names, rules,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may run inside other people's processes: which library in which build, where it can run, which options are
/// allowed, and how it is proved.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "heapfleet.dev",
    version = "v1alpha1",
    kind = "AllocatorClass",
    plural = "allocatorclasses",
    shortname = "acls",
    category = "heapfleet",
    derive = "PartialEq",
    doc = "An allocator that policies may choose: which library in which build, where it can run, which options are allowed, and how it is proved. Written by a platform admin.",
    validation = rules::rule_of("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 63 characters, such as jemalloc-5-3: policies name it'"),
    printcolumn(name = "Allocator", type_ = "string", json_path = ".spec.allocator", description = "The allocator."),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version", description = "The allocator's version."),
    printcolumn(name = "Delivery", type_ = "string", json_path = ".spec.delivery", description = "How it gets into the process."),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.preload.library.source", description = "Where the library comes from."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Path", type_ = "string", json_path = ".spec.preload.library.path", priority = 1, description = "The library's path."),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".preload", "(self.delivery == 'Preload') == has(self.preload)",
        "'delivery ' + self.delivery + (self.delivery == 'Preload' ? ' needs preload: say where the library is' : ' takes no preload: remove it, or use delivery Preload')"),
    validation = rules::rule_at(".delivery", "(self.allocator == 'glibc') == (self.delivery == 'Tunables')",
        "'delivery ' + self.delivery + ' does not fit allocator ' + self.allocator + ': glibc takes Tunables, every other allocator Preload or Linked'"),
    validation = rules::rule_at(".build.symbolPrefix",
        "self.allocator == 'jemalloc' || !has(self.build) || !has(self.build.symbolPrefix) || self.build.symbolPrefix == ''",
        "'symbolPrefix belongs to jemalloc, not to ' + self.allocator + ': remove it'"),
)]
pub struct AllocatorClassSpec {
    /// The allocator: `glibc`, `jemalloc`, `mimalloc` or `tcmalloc`. Cannot be changed: policies rely on it.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message(Message::Expression("'cannot be changed from ' + oldSelf + ' to ' + self + ', because policies rely on it: create another class'".into())))]
    pub allocator: Allocator,

    /// The allocator's version, such as `5.3.0`; it decides which options exist. At most 32 characters.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]+([.][0-9]+){1,3}([-+][0-9A-Za-z.-]+)?$')")
        .message("must be the allocator's version, such as 5.3.0, in quotes if it looks like a number"))]
    pub version: String,

    /// How the library was built.
    #[serde(default)]
    pub build: Build,

    /// How the allocator gets into the process. `Preload`: through `LD_PRELOAD`. `Linked`: the image has it, chosen by the
    /// policy's `images`. `Tunables`: glibc itself, by environment only.
    pub delivery: Delivery,

    /// Where the library comes from. Required for `delivery: Preload`, not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<Preload>,

    /// On which processors, C libraries and page sizes it runs. One to 8.
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["arch".into(), "libc".into()]))]
    pub platforms: Vec<Platform>,

    /// Which options policies may set.
    #[serde(default)]
    pub options: ClassOptions,

    /// Environment variables that policies may set as an application's own switch. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allowed_env: Vec<VariableName>,

    /// How it is proved that a process runs this allocator. Default: by the node probe.
    #[serde(default)]
    pub verify: Verify,
}

/// How the library was built: it decides the variable's name and which options are valid.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// The prefix of jemalloc's symbols, such as `_rjem_`; it decides the variable's name (`MALLOC_CONF`, or
    /// `_RJEM_MALLOC_CONF`). Empty (the default) for an unprefixed build. At most 32 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^([A-Za-z_][A-Za-z0-9_]*)?$')")
        .message("must be a prefix of C symbols, such as _rjem_, or empty"))]
    pub symbol_prefix: String,

    /// Whether heap profiling is built in; without it profiling options are refused. Default false.
    #[serde(default)]
    pub prof: bool,

    /// Whether statistics are built in. Default false.
    #[serde(default)]
    pub stats: bool,
}

/// Where the preloaded library comes from and what to do beside others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preload {
    /// Where the library comes from.
    pub library: Library,

    /// What to do where `LD_PRELOAD` is already set. `Skip` (the default): refuse the workload. `Prepend`: put ours first.
    #[serde(default)]
    pub on_existing: OnExisting,
}

/// Where the preloaded library comes from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::rule_at(".image", "(self.source == 'InImage') == !has(self.image)",
        "'source ' + self.source + (self.source == 'InImage' ? ' takes no image: the library is in the application image; remove it' : ' needs image: the OCI image of the library, by digest')"),
    validation = rules::rule_at(".mountPath", "(self.source == 'InImage') == !has(self.mountPath)",
        "'source ' + self.source + (self.source == 'InImage' ? ' takes no mountPath: remove it' : ' needs mountPath: where the library is mounted, such as /opt/heapfleet')"),
    validation = rules::rule_at(".path", "self.source == 'InImage' || !self.path.startsWith('/')",
        "'path ' + self.path + ' must be relative to mountPath for source ' + self.source + ': drop the leading slash'"),
)]
pub struct Library {
    /// `InImage`: the application image has it. `ImageVolume`: an OCI image of the library is mounted (Kubernetes 1.34 and
    /// containerd 2.1 or CRI-O 1.31). `InitCopy`: an init container copies it into an empty volume (anywhere).
    pub source: LibrarySource,

    /// The library: a file name that the loader finds, or an absolute path, with `InImage`; else a path below `mountPath`.
    /// No space, no colon (the loader splits there), no `..`. At most 256 characters.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9_./+-]+$') && !self.contains('..') && !self.endsWith('/')")
        .message("must be the library's file name or path, such as libjemalloc.so.2: letters, digits and . _ + - / only, without '..'"))]
    pub path: String,

    /// The OCI image of the library, by digest. Required for `ImageVolume` and `InitCopy`, not allowed otherwise. For
    /// `InitCopy` it needs `/bin/sh`, `cp`, `cmp` and `mv` besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PinnedImage>,

    /// Where the library is mounted, read-only, such as `/opt/heapfleet`. Required for `ImageVolume` and `InitCopy`, not
    /// allowed otherwise. At most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 128))]
    #[x_kube(
        validation = Rule::new("self.matches('^(/[A-Za-z0-9_.-]+)+$') && !self.contains('..')")
            .message("must be an absolute path such as /opt/heapfleet, without '..', spaces, colons or a slash at its end"),
        validation = Rule::new("!self.matches('^/(bin|boot|dev|etc|lib|lib64|proc|run|sbin|sys|tmp|usr|var)(/|$)')")
            .message("must not hide a folder that images need: choose one of its own, such as /opt/heapfleet"),
    )]
    pub mount_path: Option<String>,
}

/// One platform on which the allocator runs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// The processor architecture: `amd64` or `arm64`.
    pub arch: Arch,

    /// The C library of the images: `glibc` or `musl`. A library for one never loads in the other.
    pub libc: Libc,

    /// The oldest version of that C library, such as "2.34", in quotes. At most 16 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]+([.][0-9]+){1,2}$')")
        .message("must be a version such as \"2.34\", in quotes"))]
    pub min_libc: Option<String>,

    /// The largest page size of a kernel on which it runs: `4Ki`, `16Ki` or `64Ki`. jemalloc fixes it when it is built.
    pub max_page_size: PageSize,
}

/// Which options policies may set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".defaults",
    "!has(self.defaults) || self.defaults.all(k, has(self.allowed) && k in self.allowed)",
    "'defaults holds ' + self.defaults.map(k, k).filter(k, !has(self.allowed) || !(k in self.allowed))[0] + ', which is not in allowed: add it there, or remove the default'"))]
pub struct ClassOptions {
    /// Options that are set unless a policy sets them otherwise. Only names from `allowed`. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = option_names())]
    pub defaults: BTreeMap<String, OptionValue>,

    /// The options that may be set, by their names in the allocator's own notation. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allowed: Vec<OptionName>,
}

/// How it is proved that a process runs the allocator. There is no way to pass without proof.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::rule_at(".series", "(self.by == 'Metric') == has(self.series)",
    "'by ' + self.by + (self.by == 'Metric' ? ' needs series: a metric that is 1 where the allocator is active' : ' takes no series: remove it, or use by: Metric')"))]
pub struct Verify {
    /// `Probe` (the default): the node probe looks at the process. `Metric`: the service's own series says so.
    #[serde(default)]
    pub by: VerifyBy,

    /// The series for `by: Metric`: it is 1 where the allocator is active and serves the heap, 0 or absent where not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesRef>,
}

/// An allocator.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// The C library's own.
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
    /// tcmalloc of gperftools.
    Tcmalloc,
}

/// How the allocator gets into the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Delivery {
    /// Through `LD_PRELOAD`.
    Preload,
    /// The image has it.
    Linked,
    /// glibc itself, by environment only.
    Tunables,
}

/// Where a preloaded library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LibrarySource {
    /// The application image.
    InImage,
    /// An OCI image, mounted as a volume.
    ImageVolume,
    /// An OCI image, copied by an init container.
    InitCopy,
}

/// What to do where `LD_PRELOAD` is already set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnExisting {
    /// The workload is refused.
    #[default]
    Skip,
    /// Ours is put first.
    Prepend,
}

/// A processor architecture, as nodes are labelled.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// A C library.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Libc {
    /// The GNU C library.
    Glibc,
    /// musl.
    Musl,
}

/// The page size of a kernel.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PageSize {
    /// 4096 bytes.
    #[serde(rename = "4Ki")]
    Size4Ki,
    /// 16384 bytes.
    #[serde(rename = "16Ki")]
    Size16Ki,
    /// 65536 bytes.
    #[serde(rename = "64Ki")]
    Size64Ki,
}

impl PageSize {
    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Size4Ki => 4_096,
            Self::Size16Ki => 16_384,
            Self::Size64Ki => 65_536,
        }
    }
}

/// How an allocator is proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VerifyBy {
    /// The node probe looks at the process.
    #[default]
    Probe,
    /// The service's own series says so.
    Metric,
}
