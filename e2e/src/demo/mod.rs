//! The product's story on a real fleet: takes a lab, gives Heapfleet installed in it as a user would install it, and what
//! happened to each policy. Must never give the operator more rights than `manifests/` does.

mod attempt;
mod build;
mod fleet;
mod operator;
mod show;
mod story;
mod watch;
mod workload;

pub(crate) use build::cargo_command;
pub use build::workspace;
pub use fleet::{Fleet, NAMESPACE};
pub use show::{Told, run};
pub use story::{Ended, exact_rollback, promotion, unloaded_library};
pub use watch::{Policy, Seen};
pub use workload::{Server, Workload};
