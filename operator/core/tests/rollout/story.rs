//! The product's story on the simulated fleet: promotion, regression, a library that is not there, crashes of the
//! operator after every act, outages, people's verbs.

use heapfleet_core::decision::Reason;
use heapfleet_core::names::Region;
use heapfleet_core::plan::{Delivery, Mounted};
use heapfleet_core::rollout::Outcome;
use heapfleet_core::status::{ConditionType, Truth};
use heapfleet_core::world::{Update, Verb};
use jiff::SignedDuration;

use super::sim::{Sim, plan};

fn condition(sim: &mut Sim, kind: ConditionType) -> (Truth, Reason, String) {
    let decision = sim.pass();
    let found = decision
        .policy
        .conditions
        .into_iter()
        .find(|condition| condition.kind == kind);
    let found = found.unwrap_or_else(|| panic!("no condition {}", kind.as_str()));
    (found.status, found.reason, found.message)
}

#[test]
fn a_better_allocator_is_promoted_region_by_region() {
    let mut sim = Sim::new("jemalloc");
    let mut order = Vec::new();
    sim.run_until(900, |sim| {
        for (name, region) in &sim.regions {
            if region.claim().is_some() && !order.contains(name) {
                order.push(name.clone());
            }
        }
        sim.outcome().is_some()
    });
    assert_eq!(
        sim.outcome(),
        Some(Outcome::Promoted),
        "{}",
        sim.log.join("\n")
    );
    let order: Vec<&str> = order.iter().map(Region::as_str).collect();
    assert_eq!(order, ["ore", "nrt", "fra"]);
    assert_eq!(condition(&mut sim, ConditionType::Promoted).0, Truth::True);
    assert_eq!(
        condition(&mut sim, ConditionType::AllocatorVerified).0,
        Truth::True
    );
    let writes: Vec<u32> = sim.regions.values().map(|region| region.writes).collect();
    assert_eq!(writes, [1, 1, 1], "one patch per region");
}

#[test]
fn a_worse_allocator_is_rolled_back_exactly() {
    let mut sim = Sim::new("mimalloc");
    let before = sim.region("ore").object.clone();
    sim.run_until(900, |sim| sim.outcome().is_some());
    assert_eq!(
        sim.outcome(),
        Some(Outcome::RolledBack),
        "{}",
        sim.log.join("\n")
    );
    let (status, reason, _) = condition(&mut sim, ConditionType::RolledBack);
    assert_eq!((status, reason), (Truth::True, Reason::ExactRestore));
    assert_eq!(sim.region("ore").object, before);
    let now = sim.now.as_duration().as_secs_f64();
    let young = |pod: &&super::sim::SimPod| pod.died.is_none() && pod.born + 2.0 > now;
    assert_eq!(
        sim.region("ore").pods.iter().filter(young).count(),
        0,
        "said to be restored before the old pods were back"
    );
    assert_eq!(sim.region("nrt").generation, 1);
    assert_eq!(sim.region("fra").generation, 1);
    assert!(sim.log.iter().any(|line| line.starts_with("CanaryFailed")));
    // A failed plan cools down: nothing is tried again by itself.
    for _ in 0..20 {
        let _looked = sim.pass();
        sim.advance(30);
    }
    assert_eq!(sim.attempts.len(), 1);
    assert_eq!(sim.region("ore").object, before);
}

/// Both arms prove glibc: what an arm's template says tells them apart.
#[test]
fn tuned_glibc_is_judged_against_glibc() {
    for (ratio, end) in [(1.2, Outcome::Promoted), (4.0, Outcome::RolledBack)] {
        let mut sim = Sim::new("glibc");
        sim.ratios.insert("glibc-tuned".to_owned(), ratio);
        let before = sim.region("ore").object.clone();
        sim.run_until(900, |sim| sim.outcome().is_some());
        assert_eq!(sim.outcome(), Some(end), "{}", sim.log.join("\n"));
        let restored = sim.region("ore").object == before;
        assert_eq!(restored, end == Outcome::RolledBack);
        let verified = condition(&mut sim, ConditionType::AllocatorVerified).0;
        assert_eq!(verified == Truth::True, end == Outcome::Promoted);
    }
}

/// Volumes, mounts and init containers go in and come out by the same road as variables.
#[test]
fn a_library_beside_the_application_is_rolled_out_and_back() {
    let mounted = |name: &str| Mounted {
        image: "registry.example/allocators@sha256:0".to_owned(),
        mount_path: "/opt/heapfleet".to_owned(),
        path: format!("lib/lib{name}.so.2"),
    };
    for (allocator, end) in [
        ("jemalloc", Outcome::Promoted),
        ("mimalloc", Outcome::RolledBack),
    ] {
        for delivery in [
            Delivery::PreloadImageVolume(mounted(allocator)),
            Delivery::PreloadInitCopy(mounted(allocator)),
        ] {
            let mut sim = Sim::new(allocator);
            sim.intent = Ok(plan(allocator)).map(|mut plan| {
                plan.allocator.delivery = delivery;
                plan
            });
            let before = sim.region("ore").object.clone();
            sim.run_until(900, |sim| sim.outcome().is_some());
            assert_eq!(sim.outcome(), Some(end), "{}", sim.log.join("\n"));
            if end == Outcome::RolledBack {
                assert_eq!(sim.region("ore").object, before);
            } else {
                let volumes = &sim.region("ore").template()["spec"]["volumes"];
                assert_eq!(volumes[0]["name"], "heapfleet-allocator");
            }
        }
    }
}

/// An owner who replaces pods by hand is waited for, there and back.
#[test]
fn pods_that_the_owner_holds_back_are_waited_for_without_a_clock() {
    let mut sim = Sim::new("jemalloc");
    sim.region("ore").update = Update::OnDelete;
    let before = sim.region("ore").object.clone();
    let delete = |sim: &mut Sim| {
        let now = sim.now.as_duration().as_secs_f64();
        let pods = sim.region("ore").pods.clone();
        for pod in pods.iter().filter(|pod| pod.died.is_none()) {
            sim.region("ore").evict(&pod.uid, now);
        }
    };
    sim.run_until(120, |sim| {
        sim.regions[&Region::new("ore")].claim().is_some()
    });
    sim.pass_for(300);
    let (status, reason, message) = condition(&mut sim, ConditionType::Injected);
    assert_eq!((status, reason), (Truth::False, Reason::WorkloadsPending));
    assert!(message.contains("OnDelete"), "{message}");
    delete(&mut sim);
    sim.pass_for(30);
    assert_eq!(condition(&mut sim, ConditionType::Injected).0, Truth::True);
    sim.attempts.last_mut().unwrap().state = Verb::Abort;
    sim.pass_for(300);
    assert_eq!(sim.outcome(), None, "the old pods are not back");
    delete(&mut sim);
    sim.run_until(60, |sim| sim.outcome().is_some());
    assert_eq!(sim.outcome(), Some(Outcome::RolledBack));
    assert_eq!(sim.region("ore").object, before);
}

#[test]
fn a_workload_of_an_older_policy_is_left_alone() {
    let mut sim = Sim::new("jemalloc");
    sim.region("ore").older_policy = Some("older".to_owned());
    sim.pass_for(10);
    assert_eq!(sim.region("ore").writes, 0);
    let told = |line: &String| line.contains("belongs to the older policy older");
    assert!(sim.log.iter().any(told), "{}", sim.log.join("\n"));
}

/// What the owner does between the choice and the change counts: nothing is joined that was not looked at.
#[test]
fn an_owner_who_gets_in_the_way_before_the_change_is_left_alone() {
    let mut sim = Sim::new("jemalloc");
    sim.run_until(60, |sim| {
        let position = sim.attempts.last().and_then(|one| one.position.as_ref());
        position.is_some_and(|position| !position.regions.is_empty())
    });
    let now = sim.now.as_duration().as_secs_f64();
    let ore = sim.region("ore");
    ore.object["spec"]["template"]["spec"]["containers"][0]["env"] =
        serde_json::json!([{"name": "LD_PRELOAD", "value": "libmimalloc.so.2"}]);
    ore.generation += 1;
    ore.settle(now);
    let before = sim.region("ore").object.clone();
    sim.pass_for(120);
    assert_eq!(sim.region("ore").object, before);
    let told = |line: &String| line.starts_with("InjectionConflict") && line.contains("mimalloc");
    assert!(sim.log.iter().any(told), "{}", sim.log.join("\n"));
}

#[test]
fn a_library_that_does_not_load_is_never_a_pass() {
    let mut sim = Sim::new("jemalloc");
    sim.region("ore").loads = false;
    sim.run_until(300, |sim| sim.outcome().is_some());
    assert_eq!(
        sim.outcome(),
        Some(Outcome::RolledBack),
        "{}",
        sim.log.join("\n")
    );
    let (status, reason, _) = condition(&mut sim, ConditionType::AllocatorVerified);
    assert_eq!((status, reason), (Truth::False, Reason::PreloadIgnored));
    assert!(!sim.log.iter().any(|line| line.starts_with("CanaryPassed")));
}

#[test]
fn crashing_pods_are_undone_at_once() {
    let mut sim = Sim::new("jemalloc");
    sim.region("ore").crash = true;
    sim.run_until(300, |sim| sim.outcome().is_some());
    assert_eq!(sim.outcome(), Some(Outcome::RolledBack));
    assert_eq!(
        condition(&mut sim, ConditionType::CanaryHealthy).1,
        Reason::CrashLoop
    );
}

/// The process is killed after the commit of pass k, before any act: the next process repeats what is missing.
#[test]
fn acts_lost_after_any_commit_change_nothing_about_the_end() {
    for stride in [2, 3, 5] {
        for (allocator, end) in [
            ("jemalloc", Outcome::Promoted),
            ("mimalloc", Outcome::RolledBack),
        ] {
            let mut sim = Sim::new(allocator);
            let mut pass = 0;
            sim.run_until(1800, |sim| {
                sim.outcome().is_some() || {
                    pass += 1;
                    pass > 3600
                }
            });
            assert_eq!(sim.outcome(), Some(end));
            let mut sim = Sim::new(allocator);
            let limit = sim.now + SignedDuration::from_secs(1800);
            let mut count = 0;
            while sim.outcome().is_none() {
                assert!(
                    sim.now < limit,
                    "{allocator} {stride}: {}",
                    sim.log.join("\n")
                );
                count += 1;
                sim.lose_acts = count % stride == 0;
                let _looked = sim.pass();
                sim.advance(1);
            }
            assert_eq!(sim.outcome(), Some(end), "{allocator} {stride}");
        }
    }
}

#[test]
fn an_unreachable_prometheus_or_api_server_waits_and_goes_on() {
    for api in [false, true] {
        let mut sim = Sim::new("jemalloc");
        sim.run_until(200, |sim| {
            sim.log.iter().any(|line| line.starts_with("BakeStarted"))
        });
        sim.pass_for(10);
        if api {
            sim.region("ore").reachable = false;
        } else {
            sim.region("ore").prometheus = false;
        }
        sim.pass_for(100);
        let (status, reason, message) = condition(&mut sim, ConditionType::RegionsReachable);
        let wanted = if api {
            Reason::SomeUnreachable
        } else {
            Reason::PrometheusUnreachable
        };
        assert_eq!((status, reason), (Truth::False, wanted));
        assert!(
            message.contains("ore") && message.contains("connection refused"),
            "{message}"
        );
        assert_eq!(sim.outcome(), None);
        assert_eq!(sim.region("nrt").generation, 1);
        sim.region("ore").reachable = true;
        sim.region("ore").prometheus = true;
        sim.run_until(900, |sim| sim.outcome().is_some());
        assert_eq!(
            sim.outcome(),
            Some(Outcome::Promoted),
            "{}",
            sim.log.join("\n")
        );
    }
}

#[test]
fn abort_from_any_point_leaves_everything_as_before() {
    for stop in [1, 3, 5, 8, 20, 80, 130, 200] {
        let mut sim = Sim::new("jemalloc");
        let before: Vec<_> = sim
            .regions
            .values()
            .map(|region| region.object.clone())
            .collect();
        sim.pass_for(stop);
        let Some(attempt) = sim.attempts.last_mut() else {
            continue;
        };
        attempt.state = Verb::Abort;
        sim.run_until(300, |sim| {
            sim.outcome()
                .is_some_and(|outcome| outcome != Outcome::Promoted)
        });
        let after: Vec<_> = sim
            .regions
            .values()
            .map(|region| region.object.clone())
            .collect();
        assert_eq!(before, after, "aborted after pass {stop}");
    }
}

#[test]
fn deleting_the_policy_restores_and_lets_it_go() {
    let mut sim = Sim::new("jemalloc");
    let before: Vec<_> = sim
        .regions
        .values()
        .map(|region| region.object.clone())
        .collect();
    sim.run_until(900, |sim| sim.outcome().is_some());
    sim.policy.deleting = true;
    sim.run_until(300, |sim| sim.deleted);
    let after: Vec<_> = sim
        .regions
        .values()
        .map(|region| region.object.clone())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn another_plan_takes_over_after_the_old_one_is_undone() {
    let mut sim = Sim::new("mimalloc");
    sim.run_until(200, |sim| {
        sim.log
            .iter()
            .any(|line| line.starts_with("WorkloadInjected"))
    });
    sim.intent = Ok(plan("jemalloc"));
    sim.run_until(1200, |sim| {
        sim.attempts.len() == 2 && sim.outcome().is_some()
    });
    assert_eq!(
        sim.outcome(),
        Some(Outcome::Promoted),
        "{}",
        sim.log.join("\n")
    );
}

#[test]
fn a_user_who_puts_the_old_template_back_is_left_alone() {
    let mut sim = Sim::new("jemalloc");
    let before = sim.region("ore").object.clone();
    sim.run_until(200, |sim| {
        sim.log.iter().any(|line| line.starts_with("BakeStarted"))
    });
    let now = sim.now.as_duration().as_secs_f64();
    let region = sim.region("ore");
    region.object = before.clone();
    region.generation += 1;
    region.settle(now);
    sim.pass_for(30);
    assert_eq!(sim.region("ore").object, before);
    assert_eq!(
        condition(&mut sim, ConditionType::Injected).1,
        Reason::UserReverted
    );
    assert_eq!(sim.outcome(), None, "held for a person");
    sim.attempts.last_mut().unwrap().state = Verb::Abort;
    sim.run_until(100, |sim| sim.outcome().is_some());
    assert_eq!(sim.region("ore").object, before);
}

#[test]
fn a_probe_that_says_nothing_is_neither_proof_nor_disproof() {
    let mut sim = Sim::new("jemalloc");
    sim.region("ore").silent = true;
    sim.pass_for(120);
    assert!(sim.region("ore").claim().is_some(), "changed");
    let (status, reason, _) = condition(&mut sim, ConditionType::AllocatorVerified);
    assert_eq!((status, reason), (Truth::Unknown, Reason::ProofMissing));
    assert!(!sim.log.iter().any(|line| line.starts_with("BakeStarted")));
    sim.region("ore").silent = false;
    sim.run_until(900, |sim| sim.outcome().is_some());
    assert_eq!(sim.outcome(), Some(Outcome::Promoted));
}

#[test]
fn the_control_is_restarted_once_and_never_written_to_before_its_turn() {
    let mut sim = Sim::new("jemalloc");
    let old: Vec<String> = sim
        .region("fra")
        .pods
        .iter()
        .map(|pod| pod.uid.clone())
        .collect();
    sim.run_until(200, |sim| {
        sim.log.iter().any(|line| line.starts_with("BakeStarted"))
    });
    let fra = sim.region("fra");
    assert_eq!((fra.generation, fra.writes), (1, 0));
    assert!(
        fra.pods
            .iter()
            .filter(|pod| old.contains(&pod.uid))
            .all(|pod| pod.died.is_some())
    );
    assert_eq!(fra.pods.len(), 4, "each pod was replaced once");
}

#[test]
fn regions_of_a_wave_go_one_after_the_other() {
    let mut sim = Sim::new("jemalloc");
    let mut plan = plan("jemalloc");
    let last = plan.waves.pop().unwrap();
    plan.waves[1].regions.extend(last.regions);
    sim.intent = Ok(plan);
    let mut together = 0;
    sim.run_until(900, |sim| {
        let passed = |name: &str| {
            sim.log
                .iter()
                .any(|line| line.starts_with("CanaryPassed") && line.contains(name))
        };
        let changed = |name: &str| sim.regions[&Region::new(name)].claim().is_some();
        together += u32::from(changed("nrt") && changed("fra") && !passed("in nrt"));
        sim.outcome().is_some()
    });
    assert_eq!(
        sim.outcome(),
        Some(Outcome::Promoted),
        "{}",
        sim.log.join("\n")
    );
    assert_eq!(together, 0);
}

#[test]
fn a_gate_waits_for_its_approval_and_asks_once() {
    let mut sim = Sim::new("jemalloc");
    let mut plan = plan("jemalloc");
    plan.waves[0].gates = vec!["canary".to_owned(), "asia".to_owned()];
    sim.intent = Ok(plan);
    let asked = |sim: &Sim| {
        sim.log
            .iter()
            .filter(|line| line.starts_with("ApprovalRequired"))
            .count()
    };
    sim.run_until(400, |sim| asked(sim) == 1);
    for gate in ["canary", "asia"] {
        sim.pass_for(20);
        assert_eq!(
            sim.region("nrt").generation,
            1,
            "not before {gate} was approved"
        );
        let (status, reason, message) = condition(&mut sim, ConditionType::Promoted);
        assert_eq!((status, reason), (Truth::False, Reason::AwaitingApproval));
        assert!(message.contains(gate), "{message}");
        sim.attempts
            .last_mut()
            .unwrap()
            .approvals
            .push(gate.to_owned());
    }
    sim.run_until(900, |sim| sim.outcome().is_some());
    assert_eq!(sim.outcome(), Some(Outcome::Promoted));
    assert_eq!(asked(&sim), 1);
}
