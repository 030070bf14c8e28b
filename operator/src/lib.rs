//! The shell round `heapfleet-core`: reads the world, acts on decisions, reports to people.

pub mod act;
pub mod clusters;
pub mod observe;
pub mod probe;
pub mod receipt;
pub mod report;
pub mod translate;
