//! Takes nothing from the outside; gives the types of a frozen plan: what one attempt does, to whom, in which order, and
//! what must hold. A plan never changes after it was made.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::judge;
use crate::names::{Kind, PlanHash, Region};

/// One attempt: what is injected, where, in which order, judged by which settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Identity of what the attempt does; equal specs give equal hashes.
    pub hash: PlanHash,
    /// Counts the attempts of one hash from 1.
    pub attempt: u32,
    /// What is loaded and how, with the options of the policy merged in.
    pub allocator: Allocator,
    /// Which workloads.
    pub target: Target,
    /// The canary is wave 0; the others follow in order.
    pub waves: Vec<Wave>,
    /// The glibc reference of the canary and of the waves before the control's own.
    pub control: Vec<Region>,
    /// Whether the control arm is restarted once, unchanged, together with the canary.
    pub restart_control: bool,
    /// How many workloads of one region may be in change at once.
    pub max_concurrent_workloads: Limit,
    /// Longest time without net progress of a workload's rollout.
    pub workload_deadline: SignedDuration,
    /// A crash of an injected pod inside it undoes the workload at once.
    pub stability_window: SignedDuration,
    /// Proof of the allocator is due so long after readiness.
    pub verify_deadline: SignedDuration,
    /// What to do about a region that cannot be reached.
    pub on_unreachable: OnUnreachable,
    /// How long a region may stay unreachable before `on_unreachable` acts.
    pub unreachable_deadline: SignedDuration,
    /// What a regression leads to.
    pub on_regression: OnRegression,
    /// A fixed capacity of the cache in bytes, where the policy gives one instead of a series.
    pub fixed_capacity: Option<f64>,
    /// How the evidence is judged, for the canary; [`Wave::bake_blocks`] replaces the minimum in later waves.
    pub judge: judge::Settings,
}

impl Plan {
    /// The wave in whose turn a region is changed.
    pub fn wave_of(&self, region: &Region) -> Option<&Wave> {
        self.waves.iter().find(|wave| wave.regions.contains(region))
    }
}

/// What is loaded into the target container, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocator {
    /// The name of the `AllocatorClass`, for messages.
    pub class: String,
    /// The allocator that must be proved: `glibc`, `jemalloc`, `mimalloc`, `tcmalloc`.
    pub name: String,
    /// How the library comes into the process.
    pub delivery: Delivery,
    /// What to do where `LD_PRELOAD` is already set.
    pub on_existing: OnExisting,
    /// Options, defaults of the class overlaid by the policy's.
    pub options: BTreeMap<String, String>,
    /// Further environment of the application's own (allowed by the class).
    pub env: Vec<(String, String)>,
    /// Where the build runs.
    pub platforms: Vec<Platform>,
    /// The prefix of a prefixed jemalloc build (`_rjem_`), else empty.
    pub symbol_prefix: String,
    /// Images to run instead of the deployed ones, keyed by what is deployed now; empty: no image is replaced.
    pub images: Vec<ImageMap>,
}

/// The images that stand for one deployed image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMap {
    /// The image that is deployed now, exactly as in the pod template.
    pub from: String,
    /// What may run instead.
    pub variants: Vec<ImageVariant>,
}

/// An image for one processor architecture and page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageVariant {
    /// `amd64`, `arm64`, …
    pub arch: String,
    /// Largest page size of a kernel on which it starts, in bytes.
    pub page_size: u64,
    /// The image, with a tag or a digest.
    pub image: String,
}

/// How the library comes into the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// `LD_PRELOAD` of a library that the image holds.
    PreloadInImage {
        /// Path or bare soname, as `LD_PRELOAD` takes it.
        path: String,
    },
    /// `LD_PRELOAD` of a library from an OCI image that is mounted as a volume.
    PreloadImageVolume(Mounted),
    /// `LD_PRELOAD` of a library that an init container copies from an OCI image into an empty volume.
    PreloadInitCopy(Mounted),
    /// Nothing is loaded: the image has the allocator in the program, and only what sets it up is written.
    Linked,
    /// Nothing is loaded: glibc is set up by `GLIBC_TUNABLES` alone.
    Tunables,
    /// A delivery that this version cannot carry out; named in the refusal.
    Unsupported {
        /// As written in the class.
        name: String,
    },
}

/// A library that comes beside the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The OCI image that holds it, by digest.
    pub image: String,
    /// Where its volume is mounted in the container, without a slash at its end.
    pub mount_path: String,
    /// The library below that, and below the root of the image.
    pub path: String,
}

/// What to do where `LD_PRELOAD` is already set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnExisting {
    /// Leave the workload alone.
    Skip,
    /// Put our library first, keep the rest.
    Prepend,
}

/// A platform on which the build runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `amd64`, `arm64`, …
    pub arch: String,
    /// Largest page size of a kernel on which it starts, in bytes.
    pub max_page_size: u64,
}

/// Which workloads of the policy's namespace are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Kinds looked at.
    pub kinds: Vec<Kind>,
    /// A label selector in its text form, as the API takes it.
    pub selector: String,
    /// Names of containers; empty: the only one, else the one named like the workload.
    pub containers: Vec<String>,
    /// Names of workloads left alone.
    pub exclude: Vec<String>,
}

/// Regions that go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// For people and approvals; the canary's is `canary`.
    pub name: String,
    /// In the order in which they start.
    pub regions: Vec<Region>,
    /// How many of them may be in change at once, at least 1.
    pub max_concurrent_regions: u32,
    /// Minimum bake in blocks.
    pub bake_blocks: u32,
    /// Gates between this wave and the next: each needs an entry in `spec.approvals`.
    pub gates: Vec<String>,
}

/// A number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// Of all, rounded down, at least one.
    Percent(u32),
}

impl Limit {
    /// The limit for `total` workloads, at least one.
    pub fn of(self, total: usize) -> usize {
        let limit = match self {
            Self::Count(n) => usize::try_from(n).unwrap_or(usize::MAX),
            Self::Percent(p) => {
                total.saturating_mul(usize::try_from(p).unwrap_or(usize::MAX)) / 100
            }
        };
        limit.max(1)
    }
}

/// What to do about a region that stays unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnUnreachable {
    /// Wait for ever.
    Wait,
    /// Leave it out after the deadline.
    Skip,
    /// End the attempt after the deadline.
    Fail,
}

/// What a regression leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnRegression {
    /// Undo, or stop and keep.
    pub action: RegressionAction,
    /// How far an undo reaches.
    pub scope: Scope,
}

/// Undo, or stop and keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegressionAction {
    /// Change back what the scope names.
    Rollback,
    /// Touch nothing more.
    Freeze,
}

/// How far an undo reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The region that failed.
    Region,
    /// All regions of its wave.
    Wave,
    /// All regions that were changed in this attempt.
    Fleet,
}
