//! The top of the core: takes a [`World`], gives a [`Decision`]. Short on purpose: attempts are made and ended here, and
//! walked by [`crate::rollout`]. Cannot fail: waiting is a finding, never an error.

use jiff::SignedDuration;

use crate::decision::{Action, Commit, Decision, Event, Finding};
use crate::plan::Plan;
pub use crate::rollout::needs;
use crate::rollout::{Outcome, Stepped, step};
use crate::status::{PolicyReport, Subject, policy_report, rollout_report};
use crate::world::{Attempt, Running, Verb, World};

/// How often a policy with nothing to do is looked at.
const RESYNC: SignedDuration = SignedDuration::from_secs(60);
/// How soon an object that was just asked for is looked at.
const SOON: SignedDuration = SignedDuration::from_millis(500);

/// What to do about one policy.
pub fn decide(world: &World) -> Decision {
    let last = world.attempts.last();
    if !world.policy.finalizer {
        return if world.policy.deleting {
            quiet(world, "Deleted.")
        } else {
            with_action(
                world,
                Action::AddFinalizer,
                "The policy was accepted for a look.",
            )
        };
    }
    let Some(attempt) = last else {
        return first(world);
    };
    let stepped = step(world, attempt);
    let settled = stepped.next.ending.is_some() && attempt.position.as_ref() == Some(&stepped.next);
    let mut decision = report(world, attempt, stepped);
    if settled {
        after_the_end(world, attempt, &mut decision);
    }
    decision
}

fn first(world: &World) -> Decision {
    if world.policy.deleting {
        return with_action(world, Action::RemoveFinalizer, "Nothing had been changed.");
    }
    match &world.intent {
        Ok(plan) => with_action(world, create(world, plan, 1), "The plan is frozen."),
        Err(refusal) => quiet(world, &refusal.message),
    }
}

/// The act that makes an attempt of a plan.
fn create(world: &World, plan: &Plan, attempt: u32) -> Action {
    let plan = Plan {
        attempt,
        ..plan.clone()
    };
    Action::CreateAttempt {
        name: attempt_name(&world.policy.name, &plan),
        plan: Box::new(plan),
    }
}

/// The name of an attempt: a function of policy, plan and number, so that two makers make one object.
pub fn attempt_name(policy: &str, plan: &Plan) -> String {
    let policy: String = policy.chars().take(200).collect();
    let hash = plan.hash.as_str().rsplit('-').next().unwrap_or_default();
    let hash: String = hash.chars().take(8).collect();
    format!("{policy}-{hash}-{}", plan.attempt)
}

/// What follows an attempt that has ended and was committed as such.
fn after_the_end(world: &World, attempt: &Attempt, decision: &mut Decision) {
    if world.policy.deleting {
        decision.actions.push(Action::RemoveFinalizer);
        return;
    }
    let keep = usize::try_from(world.policy.history_limit)
        .unwrap_or(usize::MAX)
        .max(1);
    let surplus = world.attempts.len().saturating_sub(keep);
    for old in world.attempts.iter().take(surplus) {
        decision.actions.push(Action::DeleteAttempt {
            name: old.name.clone(),
        });
    }
    let Ok(intent) = &world.intent else { return };
    let number = if intent.hash != attempt.plan.hash {
        let same = world
            .attempts
            .iter()
            .filter(|old| old.plan.hash == intent.hash);
        same.map(|old| old.plan.attempt).max().unwrap_or(0) + 1
    } else if attempt.state == Verb::Retry {
        attempt.plan.attempt + 1
    } else {
        return;
    };
    decision.actions.push(create(world, intent, number));
    decision.wake_at = world.now + SOON;
}

fn report(world: &World, attempt: &Attempt, stepped: Stepped) -> Decision {
    let Stepped {
        next,
        actions,
        events,
        findings,
        looks,
        running,
        wake_at,
    } = stepped;
    let subject = Subject {
        world,
        plan: &attempt.plan,
        position: &next,
        findings: &findings,
    };
    let policy = policy_report(&subject, &attempt.name);
    let rollout = rollout_report(&subject);
    let ended = next
        .ending
        .as_ref()
        .is_some_and(|ending| ending.outcome == Outcome::Promoted);
    let wake_at = if ended {
        wake_at.max(world.now + RESYNC)
    } else {
        wake_at
    };
    // The report is part of the commit even when the position stands still: people watch the numbers move.
    let commit = Commit {
        attempt: attempt.name.clone(),
        position: next,
        report: rollout,
    };
    Decision {
        commit: Some(commit),
        policy,
        actions,
        events,
        findings,
        looks,
        running,
        wake_at,
    }
}

fn quiet(world: &World, summary: &str) -> Decision {
    let (findings, wake_at) = match &world.intent {
        Ok(_) => (Vec::new(), world.now + RESYNC),
        Err(refusal) => (
            vec![Finding {
                region: None,
                reason: refusal.reason,
                message: refusal.message.clone(),
            }],
            world.now + SignedDuration::from_secs(10),
        ),
    };
    let policy = PolicyReport::before_any_attempt(world, summary);
    Decision {
        commit: None,
        policy,
        actions: Vec::new(),
        events: refusals(world),
        findings,
        looks: Vec::new(),
        running: Running::new(),
        wake_at,
    }
}

/// A refusal is an event only where nothing runs; the condition carries it in any case.
fn refusals(world: &World) -> Vec<Event> {
    match &world.intent {
        Err(refusal) if world.policy.accepted.as_deref() != Some(refusal.reason.as_str()) => {
            vec![Event {
                warning: true,
                reason: refusal.reason.as_str().to_owned(),
                note: refusal.message.clone(),
                region: None,
            }]
        }
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn with_action(world: &World, action: Action, summary: &str) -> Decision {
    let mut decision = quiet(world, summary);
    decision.actions.push(action);
    decision.wake_at = world.now + SOON;
    decision
}
