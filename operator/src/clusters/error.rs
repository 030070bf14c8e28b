//! Takes what went wrong in a request, gives one error with a class and a stable clause for people. Never carries volatile
//! text (ports, request ids, times): what is written into a condition must not change from pass to pass.

use std::error::Error as StdError;
use std::time::Duration;

use super::clause::transport_clause;

/// What kind of failure it is; the back-off is chosen from it in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// May be gone the next time: network, overload of the server's own, deadline.
    Transient,
    /// The server asks for fewer requests.
    Throttled,
    /// What was observed no longer holds: look again.
    Conflict,
    /// The credentials do not suffice.
    Forbidden,
    /// The same request will fail again until somebody changes something.
    Invalid,
}

impl Class {
    /// As metrics and the log spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
        }
    }
}

/// A setting of a region, or of a Secret that it names, which is not used as it stands. Never holds a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: {problem}; {remedy}")]
pub struct Refused {
    /// Where it stands, as a person would look for it.
    pub field: String,
    /// What stands there, or a word for it where it is secret.
    pub value: String,
    /// Why it is not used.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Refused {
    /// A refusal from its four parts.
    pub fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            value: value.into(),
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// Why a cluster could not be asked, or what it answered instead of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No connection, or it broke.
    #[error("{who}: {clause}")]
    Unreachable {
        /// Which server, as people call it.
        who: String,
        /// What is wrong with the connection.
        clause: String,
    },
    /// No whole answer in time, waiting for a free slot included.
    #[error("{who}: no answer within {}", human(*.deadline))]
    Deadline {
        /// Which server, as people call it.
        who: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// 429.
    #[error("{who}: too many requests")]
    Throttled {
        /// Which server, as people call it.
        who: String,
    },
    /// 5xx, 410: the server's own trouble.
    #[error("{who}: answered {code} {reason}")]
    Server {
        /// Which server, as people call it.
        who: String,
        /// HTTP status.
        code: u16,
        /// The API's word for it.
        reason: String,
    },
    /// 409, or a `test` of a JSON patch that did not hold.
    #[error("{who}: the object is not as it was observed: {message}")]
    Moved {
        /// Which server, as people call it.
        who: String,
        /// What the server said.
        message: String,
    },
    /// 409 `AlreadyExists`.
    #[error("{who}: {message}")]
    Exists {
        /// Which server, as people call it.
        who: String,
        /// What the server said.
        message: String,
    },
    /// 404.
    #[error("{who}: {message}")]
    NotFound {
        /// Which server, as people call it.
        who: String,
        /// What the server said.
        message: String,
    },
    /// 401 and 403.
    #[error("{who}: {message}")]
    Forbidden {
        /// Which server, as people call it.
        who: String,
        /// What the server said.
        message: String,
    },
    /// Any other refusal: the request itself is wrong.
    #[error("{who}: refused with {code}: {message}")]
    Rejected {
        /// Which server, as people call it.
        who: String,
        /// HTTP status.
        code: u16,
        /// What the server said.
        message: String,
    },
    /// An answer that is not what it should be.
    #[error("{who}: {because}")]
    Answer {
        /// Which server, as people call it.
        who: String,
        /// What is wrong with it.
        because: String,
    },
    /// The region, or a Secret that it names, cannot be used as it stands.
    #[error("region {region}: {refused}")]
    Refused {
        /// The region.
        region: String,
        /// What is refused.
        refused: Refused,
    },
    /// The region's cluster is another one than at first contact.
    #[error(
        "region {region}: its cluster has the uid {found}, pinned at first contact was {pinned}; \
         point the region at the old cluster again, or delete and create the AllocatorRegion"
    )]
    IdentityMismatch {
        /// The region.
        region: String,
        /// The uid of `status.clusterUID`.
        pinned: String,
        /// The uid of the cluster that answers.
        found: String,
    },
}

impl ClusterError {
    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Server { .. } => {
                Class::Transient
            }
            Self::Throttled { .. } => Class::Throttled,
            Self::Moved { .. } | Self::Exists { .. } | Self::NotFound { .. } => Class::Conflict,
            Self::Forbidden { .. } => Class::Forbidden,
            Self::Rejected { .. }
            | Self::Answer { .. }
            | Self::Refused { .. }
            | Self::IdentityMismatch { .. } => Class::Invalid,
        }
    }

    /// What is wrong, without saying of whom: `connection refused`, `no answer within 5s`.
    pub fn clause(&self) -> String {
        let text = self.to_string();
        let whose = match self {
            Self::Unreachable { who, .. }
            | Self::Deadline { who, .. }
            | Self::Throttled { who }
            | Self::Server { who, .. }
            | Self::Moved { who, .. }
            | Self::Exists { who, .. }
            | Self::NotFound { who, .. }
            | Self::Forbidden { who, .. }
            | Self::Rejected { who, .. }
            | Self::Answer { who, .. } => format!("{who}: "),
            Self::Refused { region, .. } | Self::IdentityMismatch { region, .. } => {
                format!("region {region}: ")
            }
        };
        text.strip_prefix(&whose)
            .map_or_else(|| text.clone(), str::to_owned)
    }

    /// A label for metrics: the kind of failure, never its text.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Deadline { .. } => "deadline",
            Self::Throttled { .. } => "throttled",
            Self::Server { .. } => "server",
            Self::Moved { .. } => "moved",
            Self::Exists { .. } => "exists",
            Self::NotFound { .. } => "not_found",
            Self::Forbidden { .. } => "forbidden",
            Self::Rejected { .. } => "rejected",
            Self::Answer { .. } => "answer",
            Self::Refused { .. } => "refused",
            Self::IdentityMismatch { .. } => "identity_mismatch",
        }
    }

    /// Whether the cluster was there to answer at all.
    pub fn answered(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Refused { .. } => false,
            Self::Throttled { .. }
            | Self::Server { .. }
            | Self::Moved { .. }
            | Self::Exists { .. }
            | Self::NotFound { .. }
            | Self::Forbidden { .. }
            | Self::Rejected { .. }
            | Self::Answer { .. }
            | Self::IdentityMismatch { .. } => true,
        }
    }
}

/// The API server's message for a JSON patch of which a `test` did not hold (Kubernetes 1.36: 422 `Invalid`).
const TEST_FAILED: &str = "the server rejected our request due to an error in our request";

/// Classifies what the Kubernetes client reports.
pub(super) fn from_kube(who: &str, error: &kube::Error) -> ClusterError {
    let who = who.to_owned();
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else there is, it is a matter of the connection"
    )]
    match error {
        kube::Error::Api(status) => from_status(who, status),
        kube::Error::SerdeError(cause) => ClusterError::Answer {
            who,
            because: format!(
                "an answer that is not the JSON that was asked for ({:?})",
                cause.classify()
            ),
        },
        kube::Error::FromUtf8(_) => ClusterError::Answer {
            who,
            because: "an answer that is not text".to_owned(),
        },
        other => {
            let cause: &(dyn StdError + 'static) = other;
            ClusterError::Unreachable {
                who,
                clause: transport_clause(cause),
            }
        }
    }
}

fn from_status(who: String, status: &kube::core::Status) -> ClusterError {
    let message = status.message.clone();
    let code = status.code;
    match (code, status.reason.as_str()) {
        (401, _) => ClusterError::Forbidden {
            who,
            message: "the credentials are not accepted (401 Unauthorized)".to_owned(),
        },
        (403, _) => ClusterError::Forbidden { who, message },
        (404, _) => ClusterError::NotFound { who, message },
        (409, "AlreadyExists") => ClusterError::Exists { who, message },
        (409, _) => ClusterError::Moved { who, message },
        (422, _) if message.contains(TEST_FAILED) => ClusterError::Moved {
            who,
            message: "a test of the patch did not hold".to_owned(),
        },
        (429, _) => ClusterError::Throttled { who },
        (410 | 500..=599, reason) => ClusterError::Server {
            who,
            code,
            reason: reason.to_owned(),
        },
        _ => ClusterError::Rejected { who, code, message },
    }
}

/// A duration as people write it: `5s`, `1m30s`, `250ms`.
pub fn human(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (seconds, rest) = (millis / 1_000, millis % 1_000);
    match (seconds / 60, seconds % 60, rest) {
        (0, 0, rest) => format!("{rest}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, rest) => format!("{seconds}.{rest:03}s"),
        (minutes, 0, _) => format!("{minutes}m"),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}
