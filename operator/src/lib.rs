//! The shell round `heapfleet-core`: reads the world, acts on decisions, reports to people.

pub mod act;
pub mod cli;
pub mod clusters;
pub mod observe;
pub mod probe;
pub mod receipt;
pub mod reconcile;
pub mod report;
pub mod runtime;
pub mod translate;
