//! Takes what went wrong with a Prometheus, gives one error with a class and a stable clause for people. Never passes on
//! text that changes from try to try.

use std::time::Duration;

use crate::clusters::{Class, ClusterError, Refused, human};

/// Why a Prometheus could not be asked, or what it answered instead of samples.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrometheusError {
    /// No connection, or it broke.
    #[error("{who}: {clause}")]
    Unreachable {
        /// Which Prometheus, as people call it.
        who: String,
        /// What is wrong with the connection.
        clause: String,
    },
    /// No whole answer in time.
    #[error("{who}: no answer within {}", human(*.deadline))]
    Deadline {
        /// Which Prometheus, as people call it.
        who: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// An HTTP status that is not the API's.
    #[error("{who}: {clause}")]
    Status {
        /// Which Prometheus, as people call it.
        who: String,
        /// HTTP status.
        code: u16,
        /// What it means.
        clause: String,
    },
    /// The query was refused or could not be carried out.
    #[error("{who}: {clause}")]
    Query {
        /// Which Prometheus, as people call it.
        who: String,
        /// Whether the same query will fail again.
        lasting: bool,
        /// What it said.
        clause: String,
    },
    /// Samples came, and a warning that they are not all.
    #[error("{who}: partial answer: {warning}")]
    Partial {
        /// Which Prometheus, as people call it.
        who: String,
        /// The first warning.
        warning: String,
    },
    /// An answer that is not what it should be, or too large.
    #[error("{who}: {because}")]
    Answer {
        /// Which Prometheus, as people call it.
        who: String,
        /// What is wrong with it.
        because: String,
    },
    /// A series of the plan cannot be asked of the region as things stand.
    #[error("region {region}: {refused}")]
    Refused {
        /// The region.
        region: String,
        /// What is refused.
        refused: Refused,
    },
    /// The region's Secrets or settings do not lead to its Prometheus.
    #[error(transparent)]
    Link(#[from] ClusterError),
}

impl PrometheusError {
    /// What is wrong, without saying of whom: `connection refused`, `no answer within 5s`.
    pub fn clause(&self) -> String {
        let text = self.to_string();
        let whose = match self {
            Self::Unreachable { who, .. }
            | Self::Deadline { who, .. }
            | Self::Status { who, .. }
            | Self::Query { who, .. }
            | Self::Partial { who, .. }
            | Self::Answer { who, .. } => format!("{who}: "),
            Self::Refused { region, .. } => format!("region {region}: "),
            Self::Link(cause) => return cause.clause(),
        };
        text.strip_prefix(&whose)
            .map_or_else(|| text.clone(), str::to_owned)
    }

    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Status {
                code: 401 | 403, ..
            } => Class::Forbidden,
            Self::Status { code: 429, .. } => Class::Throttled,
            Self::Unreachable { .. }
            | Self::Deadline { .. }
            | Self::Partial { .. }
            | Self::Status {
                code: 500..=599, ..
            }
            | Self::Query { lasting: false, .. } => Class::Transient,
            Self::Status { .. }
            | Self::Query { lasting: true, .. }
            | Self::Answer { .. }
            | Self::Refused { .. } => Class::Invalid,
            Self::Link(cause) => cause.class(),
        }
    }
}

/// What an HTTP status means where Prometheus' API was expected.
pub(super) fn status_clause(code: u16) -> String {
    let known = match code {
        401 | 403 => "the credentials are not accepted",
        404 => "there is no Prometheus API at this address",
        429 => "too many requests",
        502..=504 => "it is not ready, or nothing answers behind its address",
        _ => return format!("answered {code}"),
    };
    format!("{known} ({code})")
}

/// A message of a server without what changes from try to try: words with three digits or more, which are addresses,
/// ids, times and amounts; at most 160 characters.
pub(super) fn stable(message: &str) -> String {
    let calm: Vec<&str> = message
        .split_whitespace()
        .map(|word| {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            if digits >= 3 { "…" } else { word }
        })
        .collect();
    let mut text = calm.join(" ");
    if text.chars().count() > 160 {
        text = text.chars().take(159).chain(['…']).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stand_still() {
        let first =
            "receive series from Addr: 10.2.3.4:10901 LabelSets: {} failed after 5.002s: rpc error";
        let then =
            "receive series from Addr: 10.2.3.9:10901 LabelSets: {} failed after 4.981s: rpc error";
        assert_eq!(stable(first), stable(then));
        assert_eq!(
            stable(first),
            "receive series from Addr: … LabelSets: {} failed after … rpc error"
        );
        assert_eq!(stable(&"ab ".repeat(100)).chars().count(), 160);
    }
}
