//! What Heapfleet decides, as pure functions of what was seen: no clock, no environment, no I/O, no randomness.
//!
//! [`decide::decide`] takes a [`world::World`] and gives a [`decision::Decision`]; [`inject`] says what a container should
//! look like and how it gets back; [`judge`] says whether the change may stay.

pub mod decide;
pub mod decision;
pub mod inject;
pub mod judge;
pub mod names;
pub mod plan;
pub mod rollout;
pub mod status;
pub mod world;
