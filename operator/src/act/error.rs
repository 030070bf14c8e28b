//! Takes what went wrong in a write, gives one error with its class, and what that means for a single act.

use heapfleet_core::names::Region;

use crate::clusters::{Class, ClusterError, Refused};
use crate::receipt::Outcome;
use crate::translate::TranslateError;

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// An API server did not take it, or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The state cannot be put into the form of the API.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// A name cannot be part of a path.
    #[error(transparent)]
    Path(#[from] Refused),
    /// The region was not reached in this pass.
    #[error("region {0} was not reached in this pass")]
    Unreached(Region),
    /// The object was not seen in this pass.
    #[error("{0} was not seen in this pass")]
    Unseen(String),
    /// The body cannot be written as JSON.
    #[error("{what} cannot be written: {error}")]
    Json {
        /// Which body.
        what: &'static str,
        /// Why.
        error: serde_json::Error,
    },
}

impl ActError {
    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Cluster(error) => error.class(),
            Self::Translate(_) | Self::Path(_) | Self::Json { .. } => Class::Invalid,
            Self::Unreached(_) => Class::Transient,
            Self::Unseen(_) => Class::Conflict,
        }
    }

    /// What the failure of one act means: a conflict asks for another look, a lost reply leaves open what happened, and
    /// the rest is a no that stands.
    pub(super) fn outcome(&self) -> Outcome {
        let class = self.class();
        match class {
            Class::Conflict => Outcome::LookAgain,
            Class::Transient | Class::Throttled => Outcome::Failed {
                class,
                message: self.to_string(),
            },
            Class::Forbidden | Class::Invalid => Outcome::Refused {
                class,
                message: self.to_string(),
            },
        }
    }
}
