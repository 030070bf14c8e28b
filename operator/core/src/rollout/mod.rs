//! One attempt as a state machine: which region is in turn, what it waits for, when it is done or undone.
//! Takes a [`crate::world::World`], gives the next [`Position`] and the acts. Never reads a clock or talks to anybody.

mod arms;
mod bake;
mod control;
mod image;
mod looks;
mod needs;
mod pace;
mod position;
mod region;
mod step;
mod undo;
mod watch;
mod workload;

pub use needs::needs;
pub use position::{
    ControlRestart, Ending, Hold, Learned, LookSummary, Outcome, Position, Reapplied, RegionState,
    Stage, UndoOrder, WorkStage, WorkState,
};
pub use step::{Stepped, step};
