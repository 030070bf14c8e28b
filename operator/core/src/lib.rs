//! What Heapfleet decides, as pure functions of what was seen: no clock, no environment, no I/O, no randomness.

pub mod judge;
