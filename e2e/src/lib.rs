//! The lab.

pub mod trace_server;
