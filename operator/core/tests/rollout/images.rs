//! Whole rollouts in which the image is replaced: by the page size of the nodes, against other tools, and back.

use heapfleet_core::decision::Reason;
use heapfleet_core::plan::{ImageMap, ImageVariant};
use heapfleet_core::rollout::Outcome;
use heapfleet_core::world::Verb;
use serde_json::Value;

use crate::sim::Sim;

/// A fleet whose policy maps the deployed image.
fn mapped() -> Sim {
    let mut sim = Sim::new("jemalloc");
    let variant = |arch: &str, page_size, image: &str| ImageVariant {
        arch: arch.to_owned(),
        page_size,
        image: image.to_owned(),
    };
    sim.intent.as_mut().unwrap().allocator.images = vec![ImageMap {
        from: "trace-server:1".to_owned(),
        variants: vec![
            variant("amd64", 65_536, "trace-server:1-je-64k"),
            variant("amd64", 4_096, "trace-server:1-je"),
        ],
    }];
    sim
}

fn image(sim: &mut Sim) -> Value {
    sim.region("ore").template()["spec"]["containers"][0]["image"].clone()
}

fn told(sim: &Sim, word: &str) -> usize {
    sim.log.iter().filter(|line| line.starts_with(word)).count()
}

/// Until the canary's pods run the mapped image.
fn injected(sim: &mut Sim) {
    sim.run_until(200, |sim| told(sim, "WorkloadInjected") == 1);
    assert_eq!(
        image(sim),
        "trace-server:1-je",
        "the smallest that suffices"
    );
}

fn ship(sim: &mut Sim, image: &str) {
    let now = sim.now;
    sim.region("ore").ship(image, now);
}

#[test]
fn a_mapped_image_is_replaced_and_an_abort_gives_it_back() {
    let mut sim = mapped();
    let before = sim.region("ore").object.clone();
    injected(&mut sim);
    sim.attempts.last_mut().unwrap().state = Verb::Abort;
    sim.run_until(100, |sim| sim.outcome().is_some());
    assert_eq!(sim.region("ore").object, before);
    assert_eq!(told(&sim, "WorkloadRestored"), 1, "{:?}", sim.log);
}

#[test]
fn another_tool_that_puts_the_image_back_is_answered_twice_and_then_left_alone() {
    let mut sim = mapped();
    let before = sim.region("ore").object.clone();
    injected(&mut sim);
    for round in 1..=2 {
        ship(&mut sim, "trace-server:1");
        sim.pass_for(10);
        assert_eq!(image(&mut sim), "trace-server:1-je", "round {round}");
        assert_eq!(told(&sim, "ImageReapplied"), round);
    }
    ship(&mut sim, "trace-server:1");
    sim.pass_for(10);
    assert_eq!(image(&mut sim), "trace-server:1");
    assert_eq!(told(&sim, "ImageReapplied"), 2);
    assert_eq!(told(&sim, "ReconcileFight"), 1, "{:?}", sim.log);
    assert_eq!(sim.region("ore").object, before, "nothing of ours is left");
}

#[test]
fn a_fight_that_is_given_up_leaves_nothing_even_if_an_act_is_lost() {
    let mut sim = mapped();
    let before = sim.region("ore").object.clone();
    injected(&mut sim);
    for _ in 1..=2 {
        ship(&mut sim, "trace-server:1");
        sim.pass_for(10);
    }
    ship(&mut sim, "trace-server:1");
    sim.lose_acts = true;
    sim.pass_for(5);
    assert!(sim.region("ore").claim().is_some());
    sim.lose_acts = false;
    sim.pass_for(10);
    assert_eq!(told(&sim, "ReconcileFight"), 1, "{:?}", sim.log);
    assert_eq!(told(&sim, "UserReverted"), 0, "{:?}", sim.log);
    assert_eq!(sim.region("ore").object, before);
}

#[test]
fn a_reapplied_image_that_does_not_arrive_is_no_fight() {
    let mut sim = mapped();
    injected(&mut sim);
    ship(&mut sim, "trace-server:1");
    sim.lose_acts = true;
    sim.pass_for(10);
    sim.lose_acts = false;
    sim.pass_for(10);
    assert_eq!(image(&mut sim), "trace-server:1-je");
    assert_eq!(told(&sim, "ImageReapplied"), 1);
    assert_eq!(told(&sim, "ReconcileFight"), 0);
}

#[test]
fn times_that_lie_far_apart_are_no_fight() {
    let mut sim = mapped();
    // So long a bake that the region is looked after all the time.
    let plan = sim.intent.as_mut().unwrap();
    plan.waves[0].bake_blocks = 3_000;
    plan.judge.min_bake_blocks = 3_000;
    plan.judge.max_bake_blocks = 6_000;
    plan.judge.gate_timeout_seconds = 6_000.0;
    injected(&mut sim);
    for round in 1..=3 {
        ship(&mut sim, "trace-server:1");
        sim.pass_for(10);
        assert_eq!(told(&sim, "ImageReapplied"), round, "{:?}", sim.log);
        sim.advance(8 * 60);
    }
    assert_eq!(image(&mut sim), "trace-server:1-je");
    assert_eq!(told(&sim, "ReconcileFight"), 0);
}

#[test]
fn an_image_that_the_owner_ships_is_told_of_and_never_replaced_by_an_old_one() {
    let mut sim = mapped();
    injected(&mut sim);
    ship(&mut sim, "trace-server:2");
    sim.advance(5);
    let decision = sim.pass();
    let finding = decision
        .findings
        .iter()
        .find(|finding| finding.reason == Reason::ImageNotMapped)
        .unwrap();
    assert!(
        finding.message.contains("runs trace-server:2 now"),
        "{}",
        finding.message
    );
    sim.pass_for(5);
    assert_eq!(image(&mut sim), "trace-server:2");
    sim.attempts.last_mut().unwrap().state = Verb::Abort;
    sim.run_until(100, |sim| sim.outcome().is_some());
    assert_eq!(image(&mut sim), "trace-server:2");
    assert_eq!(sim.region("ore").claim(), None);
    let env = &sim.region("ore").template()["spec"]["containers"][0]["env"];
    assert_eq!(env.as_array().unwrap().len(), 1, "only the owner's: {env}");
}

#[test]
fn an_image_that_is_not_mapped_is_refused_before_and_after_the_choice() {
    let mut sim = mapped();
    ship(&mut sim, "trace-server:0");
    sim.pass_for(5);
    assert_eq!(told(&sim, "WorkloadIneligible"), 1, "{:?}", sim.log);
    assert_eq!(sim.region("ore").writes, 0);
    assert!(
        sim.log
            .iter()
            .any(|line| line.contains("runs trace-server:0, which is no from of spec.images")),
        "{:?}",
        sim.log
    );

    let mut sim = mapped();
    sim.run_until(50, |sim| told(sim, "RegionStarted") == 1);
    assert_eq!(sim.region("ore").writes, 0, "the past is read first");
    ship(&mut sim, "trace-server:2");
    sim.pass_for(100);
    assert_eq!(told(&sim, "ImageNotMapped"), 1, "{:?}", sim.log);
    assert_eq!(image(&mut sim), "trace-server:2");
    assert_eq!(sim.region("ore").claim(), None);
}

#[test]
fn a_mapped_image_is_judged_as_the_version_that_it_stands_for() {
    let mut sim = mapped();
    sim.run_until(900, |sim| sim.outcome().is_some());
    assert_eq!(sim.outcome(), Some(Outcome::Promoted), "{:?}", sim.log);
}
