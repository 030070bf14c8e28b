//! Whole looks from samples where gates must hold: cold caches, no canary data, a stuck exporter, a mere restart. None may
//! be promoted or rolled back.

use heapfleet_core::judge::{
    Capacity, ControlRestart, Frozen, LookInput, Series, Settings, Verdict, look,
};

use crate::samples::{World, map, pods};

/// A case by name: changes settings and input.
type Change = fn(&mut Settings, &mut LookInput);

const CASES: [(&str, Change); 5] = [
    ("cold caches: never full", |_, input| {
        for pod in pods(input) {
            pod.capacity = Capacity::Fixed(8e9);
        }
    }),
    ("no canary data after the change", |_, input| {
        let since = input.change.map_or(0.0, |c| c.began);
        for pod in &mut input.canary.pods {
            pod.rss
                .replicas
                .iter_mut()
                .for_each(|r| r.retain(|(t, _)| *t < since));
        }
    }),
    ("no cache series at all", |_, input| {
        for pod in pods(input) {
            pod.cache = Series::default();
        }
    }),
    ("stuck canary exporter", |_, input| {
        let since = input.change.map_or(0.0, |c| c.began);
        for pod in &mut input.canary.pods {
            map(&mut pod.rss, |(t, v)| (t, if t > since { 3e9 } else { v }));
        }
    }),
    ("a mere restart: the control is old", |settings, input| {
        settings.control_restart = ControlRestart::None;
        for pod in input.controls.iter_mut().flat_map(|a| &mut a.pods) {
            pod.starts.truncate(1);
            map(&mut pod.evictions, |(t, _)| {
                (t, 1e7 * (t - crate::samples::ORIGIN))
            });
        }
        for pod in &mut input.canary.pods {
            map(&mut pod.evictions, |(t, v)| (t, v / 10.0));
        }
    }),
];

/// Runs every case `repetitions` times; a line each, and whether all held.
pub(crate) fn run(repetitions: u32) -> (Vec<String>, bool) {
    let (mut lines, mut all) = (Vec::new(), true);
    for (name, change) in CASES {
        let mut wrong = 0;
        let mut said = String::new();
        for seed in 0..repetitions {
            let canary = 1 + seed % 4;
            // Half of them with a gain that a rule without gates would promote.
            let effect: f64 = if seed % 2 == 0 { -0.5 } else { 0.4 };
            let effect = if name.contains("restart") {
                -effect.abs()
            } else {
                effect
            };
            let world = World {
                seed: u64::from(seed),
                canary,
                effect,
                ..World::default()
            };
            let (mut settings, mut input) = (world.settings(), world.input());
            let frozen = look(&settings, None, &input)
                .frozen
                .map(|f| Frozen { failed: None, ..f });
            change(&mut settings, &mut input);
            let seen = look(&settings, frozen.as_ref(), &input);
            wrong += u32::from(seen.verdict != Verdict::InsufficientData);
            said = seen.reason.to_string();
        }
        all &= wrong == 0;
        let met = if wrong == 0 { "met" } else { "NOT MET" };
        lines.push(format!(
            "{name:<40} {repetitions:>5}  decided {wrong}  ({said})  {met}"
        ));
    }
    (lines, all)
}
