//! Takes files of this machine, gives real clusters and a real workload to try the operator on; must never need the
//! outside world once its programs are built.

pub mod demo;
pub mod lab;
pub mod suite;
pub mod trace_server;
