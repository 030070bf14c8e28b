//! Takes nothing, gives the words in which the writing side says what an act came to. Plain values: they carry no client
//! and lead to no decision; the effect of an act is seen in the next pass.

use heapfleet_core::names::Region;

use crate::clusters::Class;

/// What one act came to.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Kind of the act, as in the decision: `Inject`, `Undo`, …
    pub action: &'static str,
    /// Where; `None`: in the hub.
    pub region: Option<Region>,
    /// The object that was meant: a name or `Kind/name`.
    pub object: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server accepted it.
    Applied,
    /// It was so already.
    AlreadyDone,
    /// What was observed no longer holds: nothing was changed, look again.
    LookAgain,
    /// The API server says no, and will say so again until something else changes.
    Refused {
        /// What kind of no.
        class: Class,
        /// One sentence.
        message: String,
    },
    /// Nobody knows whether it was done; looking again shows.
    Failed {
        /// What kind of failure.
        class: Class,
        /// One sentence.
        message: String,
    },
}

impl Outcome {
    /// As metrics and the log spell it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::AlreadyDone => "already_done",
            Self::LookAgain => "look_again",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
        }
    }

    /// The class of a no or a failure.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Refused { class, .. } | Self::Failed { class, .. } => Some(*class),
            Self::Applied | Self::AlreadyDone | Self::LookAgain => None,
        }
    }

    /// What the API server or the network said.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Refused { message, .. } | Self::Failed { message, .. } => Some(message),
            Self::Applied | Self::AlreadyDone | Self::LookAgain => None,
        }
    }
}
