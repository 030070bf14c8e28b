//! The gates (§4): which of them are closed, in the order in which they are reported. Facts of arms in, codes out;
//! must never see RSS, so that accepting blocks does not select on the outcome.

use super::constants as k;
use super::num;
use super::outcome::Code;

/// Is a cache full now, given whether it was?
pub fn is_full(fill: f64, was: bool) -> bool {
    fill >= if was { k::NOT_FULL } else { k::FULL }
}

/// Pods of `expected` that make an arm: 60 %, at least one.
pub fn quorum(expected: usize) -> usize {
    num::ceil(k::COVERAGE * num::real(expected)).max(1)
}

/// Facts of one arm in one block.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one gate of the specification"
)]
pub struct ArmFacts {
    /// It has reported at all.
    pub reported: bool,
    /// Pods with a clean block.
    pub pods: usize,
    /// Pods it should have.
    pub expected: usize,
    /// Pods whose exporter stands still.
    pub stuck: usize,
    /// Blocks since the newest data.
    pub age_blocks: f64,
    /// The number of pods changed inside the block.
    pub population_changed: bool,
    /// The one version of its pods; `None` when unknown or mixed.
    pub version: Option<String>,
    /// All of its pods are gone, and nobody knows their version any more: it contradicts nothing.
    pub gone: bool,
    /// Enough pods prove their allocator.
    pub verified: bool,
    /// Enough caches are full.
    pub full: bool,
    /// Enough caches evict (true where evictions are not declared).
    pub evicting: bool,
}

/// Facts of one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The canary.
    pub canary: ArmFacts,
    /// The control regions.
    pub controls: Vec<ArmFacts>,
    /// The baseline suffices.
    pub baseline: bool,
    /// The quotient of loads, each against its baseline; `None` closes the gate.
    pub load: Option<f64>,
    /// Accepted blocks of the ratio.
    pub blocks: usize,
    /// Churn parity.
    pub churn: Churn,
}

/// What is known of churn (§4, reading 1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Churn {
    /// Turnovers of canary and control.
    Turnovers(f64, f64),
    /// Ages of canary and control, where evictions are not declared.
    Ages(f64, f64),
    /// Evictions are not declared and the control was not restarted.
    Unknowable,
    /// Nothing is known.
    #[default]
    Missing,
}

impl Churn {
    /// The gate that it closes.
    fn closed(self) -> Option<Code> {
        let open = match self {
            Self::Turnovers(c, k) => {
                c >= k::CHURN && c >= (k::CHURN_SHARE * k).min(k::CHURN_ENOUGH)
            }
            Self::Ages(c, k) => k > 0.0 && (c / k - 1.0).abs() <= k::AGE_PARITY,
            Self::Unknowable => return Some(Code::ChurnUnknown),
            Self::Missing => false,
        };
        (!open).then_some(Code::ChurnParity)
    }
}

/// Every closed gate, in order.
pub fn closed(facts: &Facts) -> Vec<Code> {
    let arms = || std::iter::once(&facts.canary).chain(&facts.controls);
    let any = |shut: &dyn Fn(&ArmFacts) -> bool| arms().any(shut);
    let mut versions = arms().filter(|a| !a.gone).map(|a| a.version.as_ref());
    let version = versions.next();
    let mixed = version.is_some_and(|v| v.is_none() || versions.any(|o| o != v));
    let load = facts
        .load
        .is_some_and(|l| (1.0 / k::LOAD..=k::LOAD).contains(&l));
    let churn = facts.churn.closed();
    let stale = num::real_signed(k::STALE);
    let too_many =
        |a: &ArmFacts| num::real(a.stuck) > k::STUCK_SHARE * num::real(a.expected.max(1));
    let no_control = facts.controls.is_empty() || facts.controls.iter().any(|a| !a.reported);
    [
        (!facts.canary.reported, Code::NoCanaryData),
        (no_control, Code::NoControlData),
        (any(&|a| a.age_blocks > stale), Code::StaleData),
        (any(&too_many), Code::StuckExporter),
        (
            any(&|a| a.reported && a.pods < quorum(a.expected)),
            Code::LowCoverage,
        ),
        (any(&|a| a.population_changed), Code::PopulationChanged),
        (!facts.baseline, Code::NoBaseline),
        (mixed, Code::VersionMismatch),
        (any(&|a| !a.verified), Code::AllocatorUnverified),
        (any(&|a| !a.full), Code::CacheNotFull),
        (any(&|a| !a.evicting), Code::NotEvicting),
        (!load, Code::LoadUnsteady),
        (facts.blocks < 3, Code::TooFewSamples),
        (churn.is_some(), churn.unwrap_or(Code::ChurnParity)),
    ]
    .into_iter()
    .filter(|(shut, _)| *shut)
    .map(|(_, code)| code)
    .collect()
}
