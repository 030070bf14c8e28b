//! What a user may write: the four kinds of `heapfleet.dev`, as types with their schema. No behaviour: nothing here
//! reads a cluster or decides anything; the only functions turn a written value (`5m`, `3%`, `36Gi`) into a number.
//!
//! The schemas carry a description on every field, so that `kubectl explain` is the manual, and every rule that one
//! object can show as CEL. [`all`] gives the manifests that a cluster is given.

mod manifests;
pub mod v1alpha1;

pub use manifests::{ManifestError, all, to_yaml};
pub use v1alpha1::*;
