//! Judges one made bake, a look every five minutes: when it was rolled back and when it was promoted.

use heapfleet_core::judge::bake::{After, Bake};
use heapfleet_core::judge::baseline::{self, Before, FrozenMetric};
use heapfleet_core::judge::gates::quorum;
use heapfleet_core::judge::noise::restart_prior;
use heapfleet_core::judge::num::{real, signed};
use heapfleet_core::judge::panel::{Panel, PanelPod, Point};
use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::track::Window;
use heapfleet_core::judge::verdict::{self, Case};
use heapfleet_core::judge::{Identity, Verdict};

use crate::world::{Arm, World};

/// Settings that are compared on the same traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    /// σ₀ of ratio and peak; as the product chooses it when absent.
    pub(crate) sigma0: Option<f64>,
    /// Latency margin, fraction.
    pub(crate) latency: f64,
    /// Gain asked for, fraction.
    pub(crate) gain: f64,
}

impl Asked {
    /// Those of the study.
    pub(crate) const STUDY: Self = Self {
        sigma0: Some(0.015),
        latency: 0.15,
        gain: 0.0,
    };
    /// The product's, with restarts known.
    pub(crate) const PRODUCT: Self = Self {
        sigma0: Some(0.015),
        latency: 0.08,
        gain: 0.05,
    };
    /// The product's as it comes.
    pub(crate) const OWN: Self = Self {
        sigma0: None,
        ..Self::PRODUCT
    };
    /// The product's at a cold start.
    pub(crate) const COLD: Self = Self {
        sigma0: Some(0.04),
        latency: 0.08,
        gain: 0.05,
    };
}

/// When it ended, in blocks since the change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// First Fail.
    pub(crate) rolled_back: Option<usize>,
    /// First Pass.
    pub(crate) promoted: Option<usize>,
}

/// One metric's two panels, cut at the change.
struct Metric {
    rule: Rule,
    before: [Panel; 2],
    after: [Panel; 2],
    change: i64,
    columns: usize,
    /// Length of a column, seconds.
    length: f64,
    quorum: [usize; 2],
}

fn halves(panel: &Panel, change: i64) -> [Panel; 2] {
    let half = |late: bool| Panel {
        region: panel.region.clone(),
        pods: panel
            .pods
            .iter()
            .map(|pod| {
                let points: Vec<Point> = pod
                    .points
                    .iter()
                    .filter(|p| (p.column >= change) == late)
                    .copied()
                    .collect();
                PanelPod {
                    name: pod.name.clone(),
                    points,
                }
            })
            .collect(),
    };
    [half(false), half(true)]
}

fn metric(rule: Rule, world: &World, arms: [&Panel; 2], blocks: usize) -> Metric {
    let change = signed(world.before() / blocks);
    let [c, k] = arms.map(|panel| halves(panel, change));
    let ([cb, ca], [kb, ka]) = (c, k);
    Metric {
        rule,
        before: [cb, kb],
        after: [ca, ka],
        change,
        columns: world.after() / blocks,
        length: 300.0 * real(blocks),
        quorum: [quorum(world.pods), quorum(world.control_pods)],
    }
}

impl Metric {
    fn times(&self, window: Window) -> Vec<f64> {
        (window.from..window.to)
            .map(|c| self.length * (heapfleet_core::judge::num::real_signed(c) + 0.5))
            .collect()
    }

    fn quorums(&self, window: Window) -> Vec<Vec<usize>> {
        self.quorum.iter().map(|q| vec![*q; window.len()]).collect()
    }

    fn freeze(&self, identity: Identity) -> Option<FrozenMetric> {
        let window = Window {
            from: 0,
            to: self.change,
        };
        let [canary, control] = &self.before;
        baseline::freeze(
            &self.rule,
            &Before {
                canary,
                controls: std::slice::from_ref(control),
                window,
                quorum: &self.quorums(window),
                times: &self.times(window),
                seconds: self.length * real(window.len()),
                least: 12,
                identity,
            },
        )
    }
}

/// Judges one bake.
pub(crate) fn judge(world: &World, arms: &[Arm; 2], asked: Asked) -> Outcome {
    let [c, k] = arms;
    let (ratio, peak) = (Rule::ratio(0.03), Rule::peak());
    let p99 = Rule::guardrail("p99", 0.02, asked.latency, 0.010);
    let mut metrics = [
        metric(ratio, world, [&c.ratio, &k.ratio], 1),
        metric(peak, world, [&c.peak, &k.peak], 24),
        metric(p99, world, [&c.p99, &k.p99], 1),
    ];
    let identity = if world.replaced {
        Identity::None
    } else {
        Identity::Stable
    };
    let frozen: Option<Vec<FrozenMetric>> = metrics.iter().map(|m| m.freeze(identity)).collect();
    let Some(frozen) = frozen else {
        return Outcome::default();
    };
    // The caches of this world are 92 % of RSS.
    let lottery = frozen.first().map_or((0.0, 0.0), |f| f.lottery);
    let sigma0 = asked
        .sigma0
        .unwrap_or_else(|| restart_prior(identity, 0.92, lottery).0);
    for metric in metrics.iter_mut().filter(|m| m.rule.name != "p99") {
        metric.rule.prior.sigma0 = sigma0;
    }
    let windows: Vec<Window> = metrics
        .iter()
        .map(|m| Window {
            from: m.change,
            to: m.change + signed(m.columns),
        })
        .collect();
    let times: Vec<Vec<f64>> = metrics
        .iter()
        .zip(&windows)
        .map(|(m, w)| m.times(*w))
        .collect();
    let quorums: Vec<Vec<Vec<usize>>> = metrics
        .iter()
        .zip(&windows)
        .map(|(m, w)| m.quorums(*w))
        .collect();
    let open: Vec<Vec<bool>> = windows.iter().map(|w| vec![true; w.len()]).collect();
    let afters: Vec<After<'_>> = metrics
        .iter()
        .zip(&windows)
        .zip(times.iter().zip(&quorums).zip(&open))
        .map(|((m, window), ((times, quorum), open))| {
            let [canary, control] = &m.after;
            After {
                canary,
                controls: std::slice::from_ref(control),
                window: *window,
                quorum,
                times,
                open,
                identity,
                min_gain: asked.gain,
            }
        })
        .collect();
    let bakes: Vec<Bake<'_>> = metrics
        .iter()
        .zip(&frozen)
        .zip(&afters)
        .map(|((m, f), a)| Bake::new(&m.rule, f, a))
        .collect();
    looks(world, &metrics, &bakes, asked)
}

/// A look after every block.
fn looks(world: &World, metrics: &[Metric], bakes: &[Bake<'_>], asked: Asked) -> Outcome {
    let mut out = Outcome::default();
    for block in 1..=world.after() {
        let ends = |m: &Metric| {
            let blocks = world.after() / m.columns.max(1);
            m.change + signed(block / blocks.max(1))
        };
        let runs = metrics
            .iter()
            .zip(bakes)
            .map(|(m, b)| b.at(ends(m)).weighed)
            .collect::<Vec<_>>();
        let case = Case {
            bake_blocks: runs.first().map_or(0, |r| r.blocks),
            metrics: runs,
            min_bake: 72,
            gain_asked: asked.gain > 0.0,
            alpha_promote: 0.05,
            ..Case::default()
        };
        match verdict::decide(&case).0 {
            Verdict::Fail => {
                out.rolled_back = Some(block);
                return out;
            }
            Verdict::Pass => out.promoted = out.promoted.or(Some(block)),
            Verdict::Inconclusive | Verdict::InsufficientData => {}
        }
    }
    out
}
