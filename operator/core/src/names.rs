//! Takes text, gives the small named values that the rest of the core speaks in. Never does more than hold and compare.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a value as it stands.
            pub fn new(value: impl Into<String>) -> Self {
                Self(value.into())
            }

            /// The value as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_newtype! {
    /// The name of an `AllocatorRegion`.
    Region
}
text_newtype! {
    /// The uid of a cluster: that of its `kube-system` namespace.
    ClusterUid
}
text_newtype! {
    /// Versioned SHA-256 over the canonical JSON of what an attempt does (see [`crate::plan`]).
    PlanHash
}
text_newtype! {
    /// The value of the annotation `heapfleet.dev/claim`: one hub and one policy.
    Claim
}

/// Which kind of workload is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `apps/v1` DaemonSet.
    DaemonSet,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        })
    }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet];
}

/// A workload within the policy's namespace of one region. Stored as `Kind/name`, so that it can be a key in JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WorkloadId {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl From<WorkloadId> for String {
    fn from(id: WorkloadId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for WorkloadId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('/');
        let read = parts.and_then(|(kind, name)| {
            let kind = Kind::ALL
                .into_iter()
                .find(|known| known.to_string() == kind)?;
            (!name.is_empty()).then(|| Self {
                kind,
                name: name.to_owned(),
            })
        });
        read.ok_or_else(|| format!("{text} is not a workload such as Deployment/trace"))
    }
}

/// A closed set of words: the enum, the list of all of them, and their spelling.
macro_rules! words {
    ($(#[$set_doc:meta])* $set:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $set {
            $($(#[$doc])* $name,)*
        }

        impl $set {
            /// All of them, in the order of this file.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As the API spells it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}
pub(crate) use words;

/// The longest stem of a name that the API server generates; what is longer is cut before the random ending.
pub const GENERATED_STEM: usize = 58;
/// The letters and digits of which Kubernetes makes hashes and random endings: no vowels, nothing that is easily misread.
pub const GENERATED_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

impl WorkloadId {
    /// Whether a pod of this name can be one of the workload's, by the way its kind names pods; those of the past are
    /// told by nothing else.
    pub fn names_pod(&self, pod: &str) -> bool {
        let safe = |text: &str| text.chars().all(|c| GENERATED_LETTERS.contains(c));
        if self.kind == Kind::Deployment && self.name.len() + 12 > GENERATED_STEM {
            let stem: String = self.name.chars().take(GENERATED_STEM).collect();
            return pod
                .strip_prefix(&stem)
                .is_some_and(|rest| (5..=17).contains(&rest.len()));
        }
        let Some(rest) = pod
            .strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('-'))
        else {
            return false;
        };
        match self.kind {
            Kind::Deployment => rest.split_once('-').is_some_and(|(hash, tail)| {
                (1..=10).contains(&hash.len()) && tail.len() == 5 && safe(hash) && safe(tail)
            }),
            Kind::StatefulSet => !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()),
            Kind::DaemonSet => rest.len() == 5 && safe(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_workload_is_a_key_in_json() {
        let id = WorkloadId {
            kind: Kind::StatefulSet,
            name: "trace".to_owned(),
        };
        let map: BTreeMap<WorkloadId, u8> = [(id, 1)].into();
        let json = serde_json::to_string(&map).unwrap();
        assert_eq!(json, r#"{"StatefulSet/trace":1}"#);
        assert_eq!(
            serde_json::from_str::<BTreeMap<WorkloadId, u8>>(&json).unwrap(),
            map
        );
        for bad in ["trace", "Pod/trace", "Deployment/"] {
            assert!(WorkloadId::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
