//! The shell round `heapfleet-core`: reads the world, acts on decisions, reports to people.

pub mod probe;
