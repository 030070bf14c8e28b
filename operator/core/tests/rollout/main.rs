//! Whole rollouts against a simulated fleet: the core alone, no clock but the simulated one.

mod sim;
mod story;
