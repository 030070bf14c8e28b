//! How often the judge is wrong and how soon it is right, on made bakes of a day with a look every quarter of an hour: T-81 and
//! T-82 on block values of the ratio. The whole study, with samples, all metrics and a look every block, is the example
//! `study`.
#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    reason = "a test stops at what it did not expect"
)]

#[path = "judge/world.rs"]
#[expect(dead_code, reason = "only its random numbers are needed here")]
mod world;

use heapfleet_core::judge::Identity;
use heapfleet_core::judge::bake::{After, Bake};
use heapfleet_core::judge::baseline::{self, Before};
use heapfleet_core::judge::gates::quorum;
use heapfleet_core::judge::panel::{Panel, PanelPod, Point};
use heapfleet_core::judge::rule::Rule;
use heapfleet_core::judge::track::Window;
use world::Chance;

/// Blocks before and after the change: a day each.
const DAY: i64 = 288;

/// A stationary series of standard deviation `sd` with lag-one autocorrelation `keep`.
struct Wander {
    keep: f64,
    sd: f64,
    now: f64,
}

impl Wander {
    fn new(keep: f64, sd: f64, chance: &mut Chance) -> Self {
        Self {
            keep,
            sd,
            now: sd * chance.normal(),
        }
    }

    fn next(&mut self, chance: &mut Chance) -> f64 {
        let push = self.sd * (1.0 - self.keep * self.keep).sqrt();
        self.now = self.keep * self.now + push * chance.normal();
        self.now
    }
}

/// One arm over two days: lasting levels of pods, a restart lottery of 1 % at the change, a shift of the region by 0.3 %,
/// noise of pods and of the region, a day of 1 to 2 %.
fn arm(pods: u32, keep: f64, effect: f64, chance: &mut Chance) -> Panel {
    let mut region = Wander::new(keep, 0.005, chance);
    let (shift, phase) = (0.003 * chance.normal(), 6.3 * chance.uniform());
    let swing = 0.01 + 0.01 * chance.uniform();
    let common: Vec<f64> = (0..2 * DAY)
        .map(|b| {
            let hour = f64::from(i32::try_from(b).unwrap()) / 12.0;
            let day = swing * (hour / 24.0 * std::f64::consts::TAU + phase).sin();
            let moved = if b >= DAY { shift + effect } else { 0.0 };
            region.next(chance) + day + moved
        })
        .collect();
    let pod = |i: u32, chance: &mut Chance| {
        let level = 0.02 * chance.normal();
        let (old, new) = (0.01 * chance.normal(), 0.01 * chance.normal());
        let mut own = Wander::new(keep, 0.015, chance);
        let points = (0..2 * DAY)
            .zip(&common)
            .map(|(column, common)| Point {
                column,
                incarnation: u32::from(column >= DAY),
                y: level + if column < DAY { old } else { new } + common + own.next(chance),
            })
            .collect();
        PanelPod {
            name: i.to_string(),
            points,
        }
    };
    Panel {
        region: format!("r{}", chance.0),
        pods: (0..pods).map(|i| pod(i, chance)).collect(),
    }
}

fn half(panel: &Panel, late: bool) -> Panel {
    let mut out = panel.clone();
    for pod in &mut out.pods {
        pod.points.retain(|p| (p.column >= DAY) == late);
    }
    out
}

/// The block after which one bake was rolled back, of looks every `every` blocks up to `until`.
fn rolled_back(pods: u32, effect: f64, (every, until): (i64, i64), seed: u64) -> Option<i64> {
    let mut chance = Chance(seed);
    let keep = 0.97 * chance.uniform();
    let canary = arm(pods, keep, effect, &mut chance);
    let control = arm(pods, keep, 0.0, &mut chance);
    let rule = Rule::ratio(0.03);
    let size = usize::try_from(DAY).unwrap();
    let quorums = vec![vec![quorum(usize::try_from(pods).unwrap()); size]; 2];
    let times = |w: Window| -> Vec<f64> {
        (w.from..w.to)
            .map(|c| 300.0 * (f64::from(i32::try_from(c).unwrap()) + 0.5))
            .collect()
    };
    let (before, after) = (
        Window { from: 0, to: DAY },
        Window {
            from: DAY,
            to: 2 * DAY,
        },
    );
    let frozen = baseline::freeze(
        &rule,
        &Before {
            canary: &half(&canary, false),
            controls: &[half(&control, false)],
            window: before,
            quorum: &quorums,
            times: &times(before),
            seconds: 86_400.0,
            least: 36,
            identity: Identity::Stable,
        },
    )
    .unwrap();
    let (canary, controls) = (half(&canary, true), [half(&control, true)]);
    let (times, open) = (times(after), vec![true; size]);
    let told = After {
        canary: &canary,
        controls: &controls,
        window: after,
        quorum: &quorums,
        times: &times,
        open: &open,
        identity: Identity::Stable,
        min_gain: 0.05,
    };
    let bake = Bake::new(&rule, &frozen, &told);
    let mut looks = (1..=until / every).map(|i| i * every);
    looks.find(|block| {
        let weighed = bake.at(DAY + block).weighed;
        weighed.crosses && weighed.survives
    })
}

/// T-81: 2 000 bakes without an effect, lag-one autocorrelations up to 0.97, pod effects, a diurnal load: at most 1 % are
/// rolled back at all looks together.
#[test]
fn without_an_effect_hardly_any_bake_is_rolled_back() {
    for pods in [1, 3] {
        let wrong = (0..1000)
            .filter(|seed| {
                rolled_back(pods, 0.0, (3, DAY), 1_000 * u64::from(pods) + seed).is_some()
            })
            .count();
        assert!(wrong <= 10, "{wrong} of 1000 with {pods} pods a side");
    }
}

/// T-82: with 20 pods a side a regression of 5 % is caught within 4 h in at least 90 %, one of 20 % within 45 min.
#[test]
fn regressions_are_caught_in_time() {
    for (percent, until) in [(5.0, 48), (20.0, 9)] {
        let effect = f64::ln_1p(percent / 100.0);
        let caught = (0..100)
            .filter(|seed| rolled_back(20, effect, (1, until), 77_000 + seed).is_some())
            .count();
        assert!(caught >= 90, "+{percent} %: {caught} of 100");
    }
}
