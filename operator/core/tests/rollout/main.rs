//! Whole rollouts against a simulated fleet: the core alone, no clock but the simulated one.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a simulation stops at what it did not expect"
)]

mod evidence;
mod images;
mod judging;
mod sim;
mod story;
