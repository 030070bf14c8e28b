//! The node probe.
