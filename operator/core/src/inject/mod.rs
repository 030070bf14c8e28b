//! What a container should look like, what it looked like before, and how to get from one to the other and back.
//! Takes workloads as seen, gives refusals with one reason, JSON patches and records. Never talks to a cluster.

mod apply;
mod assumed;
mod eligible;
mod env;
mod hash;
#[cfg(test)]
mod image_writes_tests;
mod images;
#[cfg(test)]
mod images_tests;
mod options;
mod owner;
#[cfg(test)]
mod owner_tests;
mod pages;
#[cfg(test)]
mod pages_tests;
mod parts;
#[cfg(test)]
mod parts_tests;
mod patch;
mod placement;
#[cfg(test)]
mod placement_properties;
#[cfg(test)]
mod placement_tests;
mod preload;
mod standing;
#[cfg(test)]
mod standing_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tunables_tests;
#[cfg(test)]
mod undo_properties;
mod version;

pub use apply::apply;
pub use assumed::{Assumption, assumptions};
pub use eligible::{Ineligible, eligible};
pub use env::{EnvValue, EnvWrite, wanted_env};
pub use hash::{canonical_hash, template_hash};
pub use images::{ImageWrite, image_for, reapply, version};
pub use options::{BadOption, Build, check_options};
pub use pages::PAGE_SIZE;
pub use parts::{Part, PartList};
pub use patch::{
    Injection, JournalRecord, Presence, Restored, UndoBlocked, inject, journal_name, presence,
    release, restored, undo,
};
pub use placement::{Moment, landing};
pub use standing::overlap;

/// The annotation that marks a workload as changed by one hub and one policy.
pub const CLAIM: &str = "heapfleet.dev/claim";
/// The field manager under which writes are made, before they are disowned.
pub const MANAGER: &str = "heapfleet";
