//! Judges a canary against its control: settings, a frozen baseline and samples up to `now` in; one verdict, its numbers
//! and the next look out. No clock, no I/O, no randomness; must never touch a cluster, and never pass by default.
//!
//! How it is called: before the change with `change: None`, until [`Look::frozen`] is there (its [`Look::preflight`] says
//! what the arms can show); keep that, and from the end of the restart on give it back with every look, at
//! [`Look::next_look`] or whenever one likes. Every look is recomputed from samples, so that looking twice, late or after a
//! restart changes nothing. What is kept in between is bounded by [`store`]; [`Look::confirmed`] holds a final verdict that
//! the stored evidence contradicts.
//!
//! The rooms follow the procedure:
//!
//! | room | step |
//! |---|---|
//! | [`input`], [`settings`], [`rule`], [`constants`] | what is told, asked for, and fixed |
//! | [`hygiene`], [`track`], `walk` | samples to clean blocks of one pod (§3) |
//! | [`period`], [`gates`], `facts` | arms over time; which blocks are accepted (§4) |
//! | [`panel`], [`difference`], [`baseline`], [`freeze`] | values per pod, their arms, the frozen profile (§5) |
//! | [`noise`], [`evidence`], [`bake`], `measure` | ω², τ², E and B of each metric (§6, §7) |
//! | [`guardrails`], [`counts`] | the owner's metrics (§9) |
//! | [`verdict`], `conclude` | the decision and the order of verdicts (§8, §10) |
//! | [`diagnosis`], [`preflight`] | what the curves look like; what the arms can show (§11, §12) |
//! | [`carried`], [`stored`] | what goes from look to look, and its bounded form |
//! | [`look`](fn@look) | the sequence |
//! | [`running`] | the same from a bounded state, for cheap looks in between (§3.8) |

pub mod bake;
pub mod baseline;
pub mod carried;
mod conclude;
pub mod constants;
pub mod counts;
pub mod diagnosis;
pub mod difference;
pub mod evidence;
mod facts;
pub mod freeze;
pub mod gates;
pub mod guardrails;
pub mod hygiene;
pub mod input;
mod look;
mod measure;
pub mod noise;
pub mod normal;
pub mod num;
pub mod outcome;
pub mod panel;
pub mod period;
pub mod preflight;
pub mod rule;
pub mod running;
mod sentence;
pub mod settings;
pub mod stored;
pub mod track;
pub mod verdict;
mod walk;

pub use carried::Frozen;
pub use diagnosis::Finding;
pub use input::{
    AllocatorStats, Arm, Capacity, Change, GuardrailSeries, LookInput, Pod, Proof, Sample, Seen,
    Series,
};
pub use look::look;
pub use outcome::{Assumption, Code, CountNumbers, Look, Numbers, Reason, Verdict};
pub use preflight::Preflight;
pub use running::{Broken, Interim, Running};
pub use settings::{
    ControlRestart, ControlRuns, Declared, Guardrail, GuardrailKind, Identity, Settings,
    SettingsError,
};
pub use stored::{MetricEvidence, Stored, StoredError, agrees, restore, store};
