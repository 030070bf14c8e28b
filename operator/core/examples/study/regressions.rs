//! The cells in which memory, peak or latency get worse.

use crate::bake::Asked;
use crate::cells::{Table, Target, level, with};
use crate::world::Effect;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn regressions(t: &mut Table) {
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
