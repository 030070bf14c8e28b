//! The cells of the study: which world, how often, under which settings, and what is asked of it. Targets are those of
//! the specification (parts B2 to B6 and D, reading 17) and of research tests T-81 and T-82.

use crate::bake::Asked;
use crate::world::{Effect, World};

/// What is asked of one cell; shares in percent, minutes from the onset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Target {
    /// Rolled back in at most this share.
    pub(crate) rolled_most: Option<f64>,
    /// Rolled back in at least this share.
    pub(crate) rolled_least: Option<f64>,
    /// Median time to the rollback at most this long.
    pub(crate) minutes: Option<f64>,
    /// Promoted in at most this share.
    pub(crate) promoted_most: Option<f64>,
    /// Promoted in at least this share.
    pub(crate) promoted_least: Option<f64>,
}

impl Target {
    const NONE: Self = Self {
        rolled_most: None,
        rolled_least: None,
        minutes: None,
        promoted_most: None,
        promoted_least: None,
    };

    const fn safe(share: f64) -> Self {
        Self {
            rolled_most: Some(share),
            ..Self::NONE
        }
    }

    const fn found(share: f64, minutes: f64) -> Self {
        Self {
            rolled_least: Some(share),
            minutes: Some(minutes),
            ..Self::NONE
        }
    }

    const fn promotes(self, least: f64) -> Self {
        Self {
            promoted_least: Some(least),
            ..self
        }
    }

    const fn never_promotes(self, most: f64) -> Self {
        Self {
            promoted_most: Some(most),
            ..self
        }
    }
}

/// One cell.
pub(crate) struct Cell {
    /// Place in the whole list: the stream of its random numbers.
    pub(crate) number: usize,
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) world: World,
    pub(crate) asked: Asked,
    pub(crate) repetitions: usize,
    pub(crate) target: Target,
}

struct Table(Vec<Cell>);

impl Table {
    fn add(
        &mut self,
        group: &'static str,
        name: &str,
        world: World,
        asked: Asked,
        repetitions: usize,
        target: Target,
    ) {
        let name = format!("{name}, n={}", world.pods);
        let number = self.0.len();
        self.0.push(Cell {
            number,
            group,
            name,
            world,
            asked,
            repetitions,
            target,
        });
    }
}

fn with(pods: usize, effect: Effect) -> World {
    World {
        effect,
        ..World::new(pods)
    }
}

fn level(percent: f64) -> Effect {
    Effect {
        level: (percent / 100.0).ln_1p(),
        ..Effect::default()
    }
}

/// Every cell, in the order of the report.
pub(crate) fn all() -> Vec<Cell> {
    let mut t = Table(Vec::new());
    parity(&mut t);
    regressions(&mut t);
    gains(&mut t);
    assumptions(&mut t);
    deployments(&mut t);
    t.0
}

fn parity(t: &mut Table) {
    let group = "A/A: nothing changed";
    for (pods, promoted, n) in [
        (1, 25.0, 1000),
        (3, 66.0, 1000),
        (10, 95.0, 1000),
        (50, 99.0, 200),
    ] {
        let target = Target::safe(0.5).promotes(promoted);
        t.add(group, "parity", World::new(pods), Asked::STUDY, n, target);
    }
    for pods in [1, 3, 10] {
        let staircase = Effect {
            staircase: true,
            ..Effect::default()
        };
        t.add(
            group,
            "both climb a staircase",
            with(pods, staircase),
            Asked::STUDY,
            200,
            Target::safe(0.5),
        );
        let target = Target::safe(1.0).never_promotes(0.0);
        t.add(
            group,
            "parity, gain of 5 % asked",
            World::new(pods),
            Asked::PRODUCT,
            200,
            target,
        );
        t.add(
            group,
            "the same, cold start",
            World::new(pods),
            Asked::COLD,
            100,
            target,
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn regressions(t: &mut Table) {
    let group = "Regressions";
    for (pods, most) in [(1, 5.0), (3, 5.0), (10, 5.0)] {
        t.add(
            group,
            "+1 % (the tolerance)",
            with(pods, level(1.0)),
            Asked::STUDY,
            300,
            Target::safe(most),
        );
    }
    let shown = [
        (3.0, 3, 18.0, 320.0),
        (3.0, 10, 50.0, 325.0),
        (5.0, 1, 26.0, 180.0),
        (5.0, 3, 75.0, 152.0),
        (5.0, 10, 100.0, 95.0),
        (5.0, 20, 90.0, 240.0),
        (10.0, 1, 94.0, 70.0),
        (10.0, 3, 100.0, 30.0),
        (10.0, 10, 100.0, 20.0),
        (20.0, 1, 90.0, 45.0),
        (20.0, 3, 100.0, 45.0),
        (20.0, 10, 100.0, 45.0),
    ];
    for (percent, pods, share, minutes) in shown {
        let target =
            Target::found(share, minutes).never_promotes(if percent > 4.0 { 1.0 } else { 5.0 });
        t.add(
            group,
            &format!("+{percent} %"),
            with(pods, level(percent)),
            Asked::STUDY,
            200,
            target,
        );
    }
    for (pods, minutes) in [(1, 500.0), (3, 390.0), (10, 345.0)] {
        let drift = Effect {
            slope: 0.01,
            ..Effect::default()
        };
        t.add(
            group,
            "+1 % an hour",
            with(pods, drift),
            Asked::STUDY,
            160,
            Target::found(100.0, minutes),
        );
    }
    for (pods, minutes) in [(1, 75.0), (3, 45.0), (10, 35.0)] {
        let late = Effect {
            onset: 12.0,
            ..level(10.0)
        };
        t.add(
            group,
            "+10 % from hour 12",
            with(pods, late),
            Asked::STUDY,
            160,
            Target::found(99.0, minutes),
        );
    }
    for (pods, share) in [(1, 44.0), (3, 95.0), (10, 100.0)] {
        let p99 = Effect {
            p99: 1.1_f64.ln(),
            ..Effect::default()
        };
        let target = Target {
            rolled_least: Some(share),
            ..Target::default()
        }
        .never_promotes(1.0);
        t.add(
            group,
            "p99 +10 %, margin 8 %",
            with(pods, p99),
            Asked::PRODUCT,
            160,
            target,
        );
    }
    for (pods, share) in [(1, 49.0), (3, 81.0), (10, 90.0)] {
        let bursts = Effect {
            peak: 1.12_f64.ln(),
            ..Effect::default()
        };
        let target = Target {
            rolled_least: Some(share),
            ..Target::default()
        };
        t.add(
            group,
            "+12 % in bursts only",
            with(pods, bursts),
            Asked::STUDY,
            160,
            target,
        );
    }
}

fn gains(t: &mut Table) {
    let group = "Gains";
    for (pods, least) in [(1, 85.0), (3, 100.0), (10, 100.0)] {
        let gain = Effect {
            gain: true,
            ..Effect::default()
        };
        let target = Target::safe(0.5);
        t.add(
            group,
            "true gain",
            with(pods, gain.clone()),
            Asked::STUDY,
            100,
            target.promotes(100.0),
        );
        t.add(
            group,
            "true gain, gain of 5 % asked",
            with(pods, gain.clone()),
            Asked::PRODUCT,
            100,
            target.promotes(least),
        );
        t.add(
            group,
            "the same, cold start",
            with(pods, gain),
            Asked::COLD,
            100,
            target.promotes(least),
        );
    }
    for (pods, most) in [(1, 1.0), (3, 5.0), (10, 0.5)] {
        let fade = Effect {
            fade: -0.36,
            ..Effect::default()
        };
        t.add(
            group,
            "-30 % fading to parity",
            with(pods, fade),
            Asked::STUDY,
            100,
            Target::safe(most),
        );
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn assumptions(t: &mut Table) {
    let group = "Wrong assumptions, at parity";
    for pods in [1, 3, 10] {
        for rho in [0.0_f64, 0.5, 0.9, 0.97] {
            // Correlation of neighbouring blocks of five minutes.
            let memory = if rho > 0.0 { -5.0 / rho.ln() } else { 0.0 };
            let world = World {
                memory_pod: memory,
                memory_region: memory,
                ..World::new(pods)
            };
            t.add(
                group,
                &format!("autocorrelation {rho}"),
                world,
                Asked::STUDY,
                200,
                Target::safe(1.0),
            );
        }
        let diurnal = World {
            diurnal: (0.05, 0.08),
            ..World::new(pods)
        };
        t.add(
            group,
            "diurnal 5 to 8 %",
            diurnal,
            Asked::STUDY,
            200,
            Target::safe(1.0),
        );
        let often = World {
            restarts_per_day: 1.0,
            ..World::new(pods)
        };
        t.add(
            group,
            "a restart per pod and day",
            often,
            Asked::STUDY,
            200,
            Target::safe(1.0),
        );
        let short = World {
            baseline_hours: 24,
            ..World::new(pods)
        };
        t.add(
            group,
            "24 h of baseline",
            short,
            Asked::STUDY,
            200,
            Target::safe(1.5),
        );
        let wide = World {
            control_pods: 30,
            ..World::new(pods)
        };
        t.add(
            group,
            "30 control pods",
            wide,
            Asked::STUDY,
            100,
            Target::safe(0.5),
        );
    }
    // The design knows that this costs something ("use two or more control regions"): within the 5 % of all alphas.
    for (pods, most) in [(1, 5.0), (3, 5.0), (10, 5.0)] {
        let shifted = World {
            region_shift: 0.01,
            ..World::new(pods)
        };
        t.add(
            group,
            "region shift 1 %",
            shifted,
            Asked::STUDY,
            200,
            Target::safe(most),
        );
    }
    for (pods, known) in [(1, 10.0), (3, 2.9), (10, 0.5)] {
        let drawn = World {
            lottery: 0.03,
            ..World::new(pods)
        };
        t.add(
            group,
            "lottery 4 %, prior 1.5 %",
            drawn.clone(),
            Asked::STUDY,
            200,
            Target::safe(known),
        );
        t.add(
            group,
            "lottery 4 %, cold start",
            drawn,
            Asked::COLD,
            200,
            Target::safe(1.0),
        );
    }
}

fn deployments(t: &mut Table) {
    let group = "Deployments: every pod is new after the change";
    let new = |pods: usize, effect: Effect| World {
        replaced: true,
        ..with(pods, effect)
    };
    for pods in [1, 3, 10] {
        let target = Target::safe(1.0).never_promotes(0.0);
        t.add(
            group,
            "parity",
            new(pods, Effect::default()),
            Asked::OWN,
            400,
            target,
        );
        t.add(
            group,
            "parity, cold start",
            new(pods, Effect::default()),
            Asked::COLD,
            200,
            target,
        );
        let gain = Effect {
            gain: true,
            ..Effect::default()
        };
        let least = if pods == 1 { 85.0 } else { 100.0 };
        let target = Target::safe(0.5).promotes(least);
        t.add(
            group,
            "true gain",
            new(pods, gain.clone()),
            Asked::OWN,
            100,
            target,
        );
        t.add(
            group,
            "true gain, cold start",
            new(pods, gain),
            Asked::COLD,
            100,
            target,
        );
        let worse = Target::NONE.never_promotes(1.0);
        t.add(group, "+5 %", new(pods, level(5.0)), Asked::OWN, 100, worse);
        t.add(
            group,
            "+10 %",
            new(pods, level(10.0)),
            Asked::OWN,
            100,
            worse,
        );
    }
}
