//! The cells in which the world is not as the judge assumes, at parity.

use crate::bake::Asked;
use crate::cells::{Table, Target};
use crate::world::World;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn assumptions(t: &mut Table) {
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
