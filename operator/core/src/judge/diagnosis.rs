//! The diagnosis (§11): what the curves of one arm look like. First and last values of a window in, findings out;
//! explains, must never decide.

use serde::{Deserialize, Serialize};

/// One finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Finding {
    /// The cache is still filling, and memory grows with it.
    CacheFilling,
    /// Live memory grows while the caches stand still.
    Leak,
    /// Freed pages stay resident and nothing is purged.
    DecayNotRunning,
    /// Active pages hold much less than they could.
    Fragmentation,
    /// Memory outside the allocator grows.
    NonAllocatorGrowth,
    /// No allocator statistics, and memory far above the caches.
    ArenaRetention,
    /// None of these.
    Healthy,
}

impl Finding {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CacheFilling => "CacheFilling",
            Self::Leak => "Leak",
            Self::DecayNotRunning => "DecayNotRunning",
            Self::Fragmentation => "Fragmentation",
            Self::NonAllocatorGrowth => "NonAllocatorGrowth",
            Self::ArenaRetention => "ArenaRetention",
            Self::Healthy => "Healthy",
        }
    }
}

/// Values at one end of the window, in any one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ends {
    /// Resident memory.
    pub rss: f64,
    /// Accounted caches.
    pub cache: f64,
    /// The allocator's statistics, where it has them.
    pub allocated: Option<f64>,
    /// Bytes in active pages.
    pub active: Option<f64>,
    /// Resident according to the allocator.
    pub resident: Option<f64>,
    /// Its metadata.
    pub metadata: Option<f64>,
}

/// A window of at least an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// At its start.
    pub a: Ends,
    /// At its end.
    pub b: Ends,
    /// Capacity of the caches, where known.
    pub capacity: Option<f64>,
    /// Purges in the window.
    pub purges: f64,
}

/// All findings, in order; `Healthy` alone when there is none.
pub fn diagnose(span: &Span) -> Vec<Finding> {
    let (a, b) = (span.a, span.b);
    let mut out = Vec::new();
    let (d_rss, d_cache) = (b.rss - a.rss, b.cache - a.cache);
    let unfilled = span.capacity.is_some_and(|c| c > 0.0 && b.cache / c < 0.95);
    let together = d_cache > 0.01 * a.cache && (d_rss - d_cache).abs() <= 0.15 * d_cache;
    if unfilled || together {
        out.push(Finding::CacheFilling);
    }
    let Some(allocated) = b.allocated else {
        if out.is_empty() && b.rss / b.cache >= 1.5 {
            out.push(Finding::ArenaRetention);
        }
        return or_healthy(out);
    };
    let before = a.allocated.unwrap_or(allocated);
    let d_allocated = allocated - before;
    if d_allocated > 0.02 * before && d_cache <= 0.2 * d_allocated && d_allocated >= 0.5 * d_rss {
        out.push(Finding::Leak);
    }
    let resident = b.resident.unwrap_or(b.rss);
    let active = b.active.unwrap_or(allocated);
    let idle = (resident - active - b.metadata.unwrap_or(0.0)) / resident;
    if idle >= 0.10 && span.purges <= 0.0 {
        out.push(Finding::DecayNotRunning);
    }
    if active / allocated >= 1.15 {
        out.push(Finding::Fragmentation);
    }
    if let (Some(ra), Some(rb)) = (a.resident, b.resident)
        && d_rss > 0.02 * a.rss
        && (b.rss - rb) - (a.rss - ra) >= 0.5 * d_rss
    {
        out.push(Finding::NonAllocatorGrowth);
    }
    or_healthy(out)
}

fn or_healthy(findings: Vec<Finding>) -> Vec<Finding> {
    if findings.is_empty() {
        vec![Finding::Healthy]
    } else {
        findings
    }
}
