//! The cells of the study: which world, how often, under which settings, and what is asked of it. Targets are those of
//! the specification (parts B2 to B6 and D, reading 17) and of research tests T-81 and T-82.

use crate::assumptions::assumptions;
use crate::bake::Asked;
use crate::regressions::regressions;
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
    pub(crate) const NONE: Self = Self {
        rolled_most: None,
        rolled_least: None,
        minutes: None,
        promoted_most: None,
        promoted_least: None,
    };

    pub(crate) const fn safe(share: f64) -> Self {
        Self {
            rolled_most: Some(share),
            ..Self::NONE
        }
    }

    pub(crate) const fn found(share: f64, minutes: f64) -> Self {
        Self {
            rolled_least: Some(share),
            minutes: Some(minutes),
            ..Self::NONE
        }
    }

    pub(crate) const fn promotes(self, least: f64) -> Self {
        Self {
            promoted_least: Some(least),
            ..self
        }
    }

    pub(crate) const fn never_promotes(self, most: f64) -> Self {
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

pub(crate) struct Table(Vec<Cell>);

impl Table {
    pub(crate) fn add(
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

pub(crate) fn with(pods: usize, effect: Effect) -> World {
    World {
        effect,
        ..World::new(pods)
    }
}

pub(crate) fn level(percent: f64) -> Effect {
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
