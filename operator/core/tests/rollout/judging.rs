//! What goes from look to look and from region to region: evidence that must be confirmed, what was frozen and is lost, what
//! restarts taught, and the watch over regions that passed.

use heapfleet_core::names::Region;
use heapfleet_core::rollout::{Outcome, Position, RegionState, Stage};

use super::sim::{Sim, id, seconds};

fn position(sim: &Sim) -> Option<&Position> {
    sim.attempts.last()?.position.as_ref()
}

fn state<'a>(sim: &'a Sim, region: &str) -> Option<&'a RegionState> {
    position(sim)?.regions.get(&Region::new(region))
}

fn state_mut<'a>(sim: &'a mut Sim, region: &str) -> &'a mut RegionState {
    let position = sim.attempts.last_mut().unwrap().position.as_mut().unwrap();
    position.regions.get_mut(&Region::new(region)).unwrap()
}

/// Blocks that are accepted in a region's bake.
fn accepted(sim: &Sim, region: &str) -> usize {
    let evidence = state(sim, region).and_then(|state| state.evidence.get(&id()));
    evidence.map_or(0, |all| all.first().map_or(0, |ratio| ratio.d.len()))
}

fn bake_to(sim: &mut Sim, region: &str, blocks: usize) {
    sim.run_until(400, |sim| accepted(sim, region) >= blocks);
}

fn ended(sim: &mut Sim) {
    sim.run_until(900, |sim| sim.outcome().is_some());
}

/// One pod of each arm goes in the middle of the canary's bake, in two ways; no block that was accepted is lost by it.
#[test]
fn blocks_stay_accepted_when_their_pods_go() {
    for in_place in [false, true] {
        let mut sim = Sim::new("jemalloc");
        bake_to(&mut sim, "ore", 45);
        let before = accepted(&sim, "ore");
        let now = seconds(sim.now);
        for name in ["ore", "fra"] {
            let region = sim.region(name);
            let mut live = region.pods.iter_mut().filter(|pod| pod.died.is_none());
            let pod = live.next().unwrap();
            if in_place {
                pod.restarted = Some(now);
            } else {
                let uid = pod.uid.clone();
                region.evict(&uid, now);
            }
        }
        for _ in 0..5 {
            sim.pass_for(1);
            let after = accepted(&sim, "ore");
            assert!(after + 2 >= before, "{after} of {before}: {in_place}");
        }
        ended(&mut sim);
        let log = sim.log.join("\n");
        assert_eq!(sim.outcome(), Some(Outcome::Promoted), "{log}");
    }
}

#[test]
fn evidence_that_was_altered_holds_the_verdict() {
    let mut sim = Sim::new("jemalloc");
    bake_to(&mut sim, "ore", 45);
    let evidence = &mut state_mut(&mut sim, "ore").evidence;
    evidence.get_mut(&id()).unwrap()[0].d[3] += 0.01;
    sim.run_until(200, |sim| position(sim).unwrap().held.is_some());
    let held = position(&sim).unwrap().held.clone().unwrap();
    assert!(
        held.message.contains("the stored evidence differs"),
        "{}",
        held.message
    );
    assert!(!sim.log.iter().any(|line| line.starts_with("CanaryPassed")));
    // A person who looked at it lets it pass.
    let approvals = &mut sim.attempts.last_mut().unwrap().approvals;
    approvals.push("hold-ore".to_owned());
    ended(&mut sim);
    assert_eq!(sim.outcome(), Some(Outcome::Promoted));
}

#[test]
fn what_was_frozen_and_is_lost_is_read_again() {
    let mut sim = Sim::new("jemalloc");
    bake_to(&mut sim, "ore", 20);
    let kept = state(&sim, "ore").unwrap().frozen[&id()].clone();
    let lost = state_mut(&mut sim, "ore");
    lost.frozen.clear();
    lost.evidence.clear();
    bake_to(&mut sim, "ore", 25);
    let again = &state(&sim, "ore").unwrap().frozen[&id()];
    let (kept, again) = (&kept.metrics[0], &again.metrics[0]);
    assert!((kept.omega2 - again.omega2).abs() < 0.2 * kept.omega2);
    ended(&mut sim);
    assert_eq!(sim.outcome(), Some(Outcome::Promoted));
}

#[test]
fn restarts_teach_the_regions_that_follow() {
    let mut sim = Sim::new("jemalloc");
    bake_to(&mut sim, "nrt", 3);
    let taught = position(&sim).unwrap().learned[&id()];
    assert!(taught.sigma > 0.0 && taught.sigma < 0.015, "{taught:?}");
    assert!(taught.weight > 10.0 && taught.weight <= 40.0, "{taught:?}");
    assert_eq!(state(&sim, "nrt").unwrap().learned[&id()], taught);
    assert!(state(&sim, "ore").unwrap().learned.is_empty());
}

#[test]
fn a_region_that_passed_is_watched_until_its_control_goes() {
    let mut sim = Sim::new("jemalloc");
    bake_to(&mut sim, "nrt", 10);
    assert!(!state(&sim, "ore").unwrap().frozen.is_empty());
    assert!(
        state(&sim, "ore").unwrap().evidence.is_empty(),
        "a finished region keeps no evidence"
    );
    let look = state(&sim, "ore").unwrap().look.clone().unwrap();
    assert_eq!(
        (look.verdict.as_str(), look.reason.as_str()),
        ("Pass", "NonInferior")
    );
    let since = seconds(sim.now);
    sim.worse = Some((Region::new("ore"), since, 3.0));
    ended(&mut sim);
    assert_eq!(
        sim.outcome(),
        Some(Outcome::RolledBack),
        "{}",
        sim.log.join("\n")
    );
    let failed = sim.log.iter().find(|line| line.starts_with("CanaryFailed"));
    let failed = failed.unwrap();
    assert!(failed.contains("in ore, after it had passed"), "{failed}");
    assert_eq!(state(&sim, "ore").unwrap().stage, Stage::Undone);
    assert!(sim.region("ore").claim().is_none());
    assert_eq!(sim.region("fra").generation, 1, "the rollout stopped");

    let mut sim = Sim::new("jemalloc");
    sim.run_until(900, |sim| {
        state(sim, "fra").is_some_and(|state| state.stage == Stage::Injecting)
    });
    sim.pass_for(2);
    assert!(state(&sim, "ore").unwrap().frozen.is_empty());
}

#[test]
fn a_watch_that_sees_nothing_holds_nothing_up() {
    let mut sim = Sim::new("jemalloc");
    bake_to(&mut sim, "nrt", 10);
    sim.region("ore").prometheus = false;
    sim.run_until(400, |sim| {
        state(sim, "nrt").is_some_and(|state| state.stage == Stage::Passed)
    });
}

/// What a process remembers spares samples and changes nothing: not the end, not the blocks, not what was found.
#[test]
fn what_is_remembered_changes_nothing() {
    for allocator in ["jemalloc", "mimalloc"] {
        let run = |forgets: u32| {
            let mut sim = Sim::new(allocator);
            sim.forgets = forgets;
            ended(&mut sim);
            sim
        };
        let (remembers, never, sometimes) = (run(0), run(1), run(7));
        for sim in [&remembers, &sometimes] {
            assert_eq!(sim.outcome(), never.outcome());
            let told = |sim: &Sim| {
                let lines = sim.log.iter();
                let verdicts = lines.filter(|line| line.starts_with("Canary"));
                // The full look comes with the pass after, which is a second and a block later here.
                let less =
                    verdicts.map(|line| line.split("; the ratio").next().unwrap().to_owned());
                less.collect::<Vec<_>>()
            };
            assert_eq!(told(sim), told(&never));
        }
        assert_eq!(never.asked.0, never.asked.1, "nothing is remembered");
        if allocator == "jemalloc" {
            let (all, whole) = remembers.asked;
            // Each of three bakes: until a block is settled, after thirty seconds, and once at its end.
            assert!(whole <= 3 * 33, "{whole} of {all} looks read all of a bake");
            assert!(all >= 3 * 60);
        }
    }
}

#[test]
fn a_row_names_the_metric_that_failed() {
    let mut sim = Sim::new("mimalloc");
    ended(&mut sim);
    let decision = sim.pass();
    let report = decision.commit.unwrap().report;
    let row = report.regions.iter().find(|row| row.name.as_str() == "ore");
    assert_eq!(row.unwrap().reason, "Regression:ratio");
}
