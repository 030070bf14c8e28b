//! Reads the world: the policy and its attempts from the hub, workloads from the regions' API servers, samples from their
//! Prometheus. Takes clients and the time, gives plain values; never writes, and never fills in what could not be seen.

pub mod prometheus;
mod quantity;
pub mod series;
pub mod workloads;
