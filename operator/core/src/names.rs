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
