//! Gives the closed set of condition types, each with its meaning; must never be bypassed by a type written as text.

/// Declares a closed set of words: an enum whose variants are written as their names, with the documentation of each
/// available as text (for the runbook and for tests).
macro_rules! closed_set {
    ($(#[$doc:meta])* $set:ident { $($(#[doc = $meaning:literal])+ $word:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set {
            $($(#[doc = $meaning])+ $word,)+
        }

        impl $set {
            /// Every word of the set, in the order of its documentation.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The word as it is written into objects.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }

            /// What the word means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$word => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $set {
            type Err = super::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or(super::UnknownWord)
            }
        }
    };
}
pub(super) use closed_set;

/// The text is not a word of the closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWord;

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a word of the closed set")
    }
}

impl std::error::Error for UnknownWord {}

closed_set! {
    /// The types of conditions. `Unknown` is a real third value of each and satisfies no wait.
    ConditionType {
        /// The whole rollout is complete; of a region: it can take part.
        Ready,
        /// Work is going on. Present only while it is (kstatus).
        Reconciling,
        /// It cannot go on without a person. Present only while it cannot (kstatus).
        Stalled,
        /// What is asked for is possible and allowed: class, options, regions, overlap.
        Accepted,
        /// Every region that is needed now is reachable.
        RegionsReachable,
        /// Every eligible workload of the regions in work is changed, and its own rollout complete.
        Injected,
        /// Every changed pod has proved the allocator that it should run.
        AllocatorVerified,
        /// The canary holds: within all bounds so far, or promoted.
        CanaryHealthy,
        /// All waves are complete.
        Promoted,
        /// What was there before was restored. Present only after a rollback was asked for.
        RolledBack,
        /// The policy is suspended by a person, or waits for a window.
        Suspended,
        /// Of a region: its API server answers.
        Reachable,
        /// Of a region: every right that is needed is granted.
        Authorized,
        /// Of a region: its Prometheus answers.
        PrometheusReachable,
        /// Of a region: the cluster is still the one that was met first.
        IdentityMatches,
    }
}
