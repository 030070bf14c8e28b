//! Version `v1alpha1` of the four kinds: takes nothing, gives types; must never hold behaviour.

#![expect(
    unreachable_pub,
    reason = "the schema derive repeats each struct, `pub` and all, inside a function"
)]

mod analysis;
mod class;
mod conditions;
mod defaults;
mod plan;
mod policy;
mod policy_status;
mod reasons;
mod region;
mod rollout;
mod rollout_status;
mod rules;
mod selector;
mod series;
mod strategy;
mod text;

pub use analysis::*;
pub use class::*;
pub use conditions::*;
pub use plan::*;
pub use policy::*;
pub use policy_status::*;
pub use reasons::*;
pub use region::*;
pub use rollout::*;
pub use rollout_status::*;
pub use selector::*;
pub use series::*;
pub use strategy::*;
pub use text::*;

/// The API group of all kinds.
pub const GROUP: &str = "heapfleet.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";
