//! Every constant of the judge with its source; gives numbers, must never hold a rule.
//!
//! "§" is a section of the judge's specification, "reading" one of its binding readings, "measured" the simulation
//! study behind it. Times are counted in blocks of which there are twelve to the (nominal) hour (reading 2).

/// Blocks in one nominal hour (§Units: a block is 300 s).
pub const HOUR: usize = 12;
/// Share of a block's expected scrapes that must remain (§3.3).
pub const BLOCK_SHARE: f64 = 0.5;
/// Expected scrapes without a change after which an exporter counts as stuck (§3.4, reading 2: 600 s at 15 s).
pub const STUCK_SCRAPES: f64 = 40.0;
/// And never less than this, seconds: scraped every 250 ms, glibc under a steady load stands still to the byte for up to
/// 59 s (recorded bake `cq-glibc`, which §B7 judges). Only scrapes of less than 3 s are affected.
pub const STUCK_SECONDS: f64 = 120.0;
/// Share of an arm's expected pods that must have a valid block (§3.7).
pub const COVERAGE: f64 = 0.6;
/// Share cut off each side of an arm of [`TRIM_FROM`] and more pods (§3.7).
pub const TRIM: f64 = 0.2;
/// Number of pods from which the mean of an arm is trimmed (§3.7).
pub const TRIM_FROM: usize = 5;

/// Blocks without data after which an arm is stale: 30 min (§4).
pub const STALE: i64 = 6;
/// Share of an arm's expected pods that may be stuck (§4).
pub const STUCK_SHARE: f64 = 0.4;
/// Fill at which a cache becomes full (§4).
pub const FULL: f64 = 0.95;
/// Fill below which a full cache is no longer full (§4).
pub const NOT_FULL: f64 = 0.90;
/// Without a capacity: share of the arm's baseline median that counts as full (reading 1).
pub const FULL_OF_BASELINE: f64 = 0.90;
/// Without a capacity: growth per hour below which a cache counts as full (reading 1).
pub const FULL_GROWTH: f64 = 0.01;
/// Without a capacity: blocks over which that growth is measured (reading 1).
pub const FULL_GROWTH_BLOCKS: i64 = 24;
/// Blocks over which evictions must increase: 15 min (§4).
pub const EVICTING: i64 = 3;
/// Largest quotient of the two arms' load, each against its own baseline (§4).
pub const LOAD: f64 = 1.25;
/// Turnovers the canary must have seen (§4).
pub const CHURN: f64 = 0.25;
/// Share of the control's turnovers the canary must have seen (§4).
pub const CHURN_SHARE: f64 = 0.5;
/// Turnovers that are enough, however old the control is (§4: Mooncake's day had about one, ORE a sixth of glibc's).
pub const CHURN_ENOUGH: f64 = 3.0;
/// Without evictions: how far the ages of the two arms may differ (reading 1).
pub const AGE_PARITY: f64 = 0.10;
/// Change of the replica count inside one block that excludes it (research T-51).
pub const POPULATION: f64 = 0.2;

/// Baseline that is enough, seconds: 24 h (§4).
pub const BASELINE_ENOUGH_S: f64 = 86_400.0;
/// Share of a shorter configured baseline that must be accepted: a window never is without a single hole
/// (measured: one outage of 5 to 10 min per region and day).
pub const BASELINE_SHARE: f64 = 0.9;
/// Accepted blocks a baseline needs (reading 2).
pub const BASELINE_BLOCKS: usize = 36;
/// Accepted windows a baseline needs for a peak (reference: `run_metric`).
pub const BASELINE_WINDOWS: usize = 12;
/// Blocks of a window of peaks: 2 h (§5).
pub const WINDOW: i64 = 24;
/// Valid blocks such a window needs (§5).
pub const WINDOW_VALID: usize = 18;
/// Profile with 24 h and 12 h harmonics: seconds and accepted blocks needed (§5).
pub const HARMONICS_2: (f64, usize) = (172_800.0, 100);
/// Profile with 24 h harmonics: seconds and accepted blocks needed (§5).
pub const HARMONICS_1: (f64, usize) = (86_400.0, 60);
/// Accepted blocks an incarnation needs to speak for its pod (§5), and, three times, the weight's half-way point.
pub const INCARNATION: usize = 12;
/// Most blocks that one look works through; bounds memory for any settings (a week of 1 s blocks is 604 800).
pub const MOST_BLOCKS: i64 = 1_000_000;

/// Exponent and factor of the number of cosines: 0.4 M^(2/3) (§6; "HAR inference: recommendations for practice", 2018).
pub const COSINES: (f64, f64) = (0.4, 2.0 / 3.0);
/// Number of lowest cosines that answer for slow wandering (§6).
pub const COSINES_LOW: usize = 8;
/// Smallest long-run variance per block (§6).
pub const OMEGA2_FLOOR: f64 = 1e-8;
/// Standard normal quantile of 0.90, for the Wilson-Hilferty approximation (§6).
pub const Z_90: f64 = 1.281_551_565_544_600_4;
/// Standard deviation of one pod's change across a restart at a cold start (§6).
pub const SIGMA0_COLD: f64 = 0.04;
/// The same where caches dominate or own restarts are known, and for latency always (§6, reading 10).
pub const SIGMA0_KNOWN: f64 = 0.015;
/// Share of RSS that caches must have for [`SIGMA0_KNOWN`] (§6).
pub const CACHE_DOMINATES: f64 = 0.8;
/// Degrees of freedom of own restarts that are enough for [`SIGMA0_KNOWN`] (§6).
pub const OWN_RESTARTS: f64 = 5.0;
/// Weight of the prior, degrees of freedom (§6).
pub const NU0: f64 = 10.0;
/// Largest weight of a learned prior, degrees of freedom (§6).
pub const NU0_MOST: f64 = 40.0;
/// Smallest standard deviation of one pod's change (§6).
pub const SIGMA_FLOOR: f64 = 0.005;
/// Shift of a whole region at a restart: ratio (§6).
pub const SIGMA_REGION: f64 = 0.0025;
/// Shift of a whole region at a restart: peak and guardrails (§6).
pub const SIGMA_REGION_LOOSE: f64 = 0.005;
/// Distrust of the level per unit that the control moved (§6).
pub const SLACK: f64 = 0.05;

/// Error shares for a rollback: ratio, peak, p99 or the users' guardrails together, counts (§9, reading 9).
pub const ALPHA_RATIO: f64 = 0.025;
/// See [`ALPHA_RATIO`].
pub const ALPHA_PEAK: f64 = 0.010;
/// See [`ALPHA_RATIO`].
pub const ALPHA_P99: f64 = 0.010;
/// See [`ALPHA_RATIO`].
pub const ALPHA_OTHERS: f64 = 0.010;
/// See [`ALPHA_RATIO`].
pub const ALPHA_COUNTS: f64 = 0.005;
/// Share of alpha that E gets, the rest is the line's (§7).
pub const E_SHARE: f64 = 0.4;
/// Error of a promotion, per metric (§8 P1).
pub const ALPHA_PROMOTE: f64 = 0.05;
/// Scale of a level effect (§7).
pub const G_LEVEL: f64 = 0.05;
/// Scale of a drift, per hour (§7).
pub const G_RAMP: f64 = 0.01;
/// Weights of level and ramp in the mixture of E; the onsets get the rest (§7).
pub const WEIGHTS: (f64, f64) = (0.5, 0.2);
/// The same for the peak (§7).
pub const WEIGHTS_PEAK: (f64, f64) = (0.6, 0.0);
/// Number of onsets, one an hour (§7).
pub const ONSETS: usize = 24;
/// Number of onsets of the peak, one a window (§7).
pub const ONSETS_PEAK: usize = 12;
/// Standard errors that the last hour must stand out by where only drift or onset speaks (R3).
pub const RECENT_Z: f64 = 2.326;
/// Share of the evidence that must remain without the loudest pod (R4).
pub const KEEP: f64 = 0.5;
/// Factors of the odds in the evidence of counts (§9).
pub const COUNT_FACTORS: [f64; 3] = [1.5, 2.0, 4.0];

/// Tolerance and margin of the peak ratio (§9).
pub const PEAK: (f64, f64) = (0.03, 0.10);
/// Tolerance of the ratio (§9).
pub const RATIO_TOLERANCE: f64 = 0.01;
/// Tolerance of p99 latency (§9).
pub const P99_TOLERANCE: f64 = 0.02;
/// Tolerance of other guardrails as a share of their `maxIncrease` (reading 9).
pub const TOLERANCE_SHARE: f64 = 0.25;

/// Standard errors of the slope (P3).
pub const TREND_Z: f64 = 2.8;
/// Horizon over which a trend is projected, blocks: 12 h (P3).
pub const TREND_HORIZON: f64 = 144.0;
/// Established growth per horizon that still counts as flat (P3).
pub const TREND_DRIFT: f64 = 0.012;
/// Level that may be reached at the horizon (P3).
pub const TREND_LEVEL: f64 = 0.05;
/// Fewest blocks of any bake (reading 3).
pub const WAVE_BAKE: u32 = 24;
/// Wall clock after which any bake ends, in multiples of `maxBake` (reading 12).
pub const WALL_CLOCK: f64 = 3.0;

/// Share of the memory limit that is a hard limit (§9).
pub const MEMORY_LIMIT: f64 = 0.95;

/// Version of [`super::Frozen`].
pub const FROZEN_VERSION: u32 = 1;
/// How far stored and recomputed differences may lie apart: single precision of values about 1.
pub const EVIDENCE_TOLERANCE: f64 = 1e-6;
/// Blocks that may still change: late scrapes (§3.8).
pub const EVIDENCE_YOUNG: usize = 2;
/// And how long they may at least, seconds, where blocks are short: three times the longest scrape that a Prometheus waits
/// for by default.
pub const EVIDENCE_YOUNG_S: f64 = 30.0;
/// Pods' centres over all metrics beyond which arms are compared instead of pods, so that the frozen baseline stays
/// small.
pub const MOST_CENTRES: usize = 600;
/// Most bytes of evidence per region in judgement (reading 14).
pub const EVIDENCE_BYTES: usize = 16 * 1024;
