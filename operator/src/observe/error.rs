//! Takes what kept the hub's part of the world from being read, gives one error with a class. What a region did not show
//! is no error: it is part of the world.

use crate::clusters::{Class, ClusterError, Refused};
use crate::translate::TranslateError;

/// Why there is no world to decide on.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The hub's API server did not show the policy, its class, the regions or its attempts.
    #[error(transparent)]
    Hub(#[from] ClusterError),
    /// A name cannot stand in a path.
    #[error(transparent)]
    Name(#[from] Refused),
    /// What is stored of an attempt cannot be read; nothing is done until it can.
    #[error(transparent)]
    Stored(#[from] TranslateError),
}

impl ObserveError {
    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self {
            Self::Hub(error) => error.class(),
            Self::Name(_) | Self::Stored(_) => Class::Invalid,
        }
    }
}
