//! What people are told of a pass.

use super::*;
use crate::clusters::Class;
use crate::receipt::Outcome;
use heapfleet_core::decision::{Event, Finding, Reason};
use heapfleet_core::names::Region;
use heapfleet_core::status::PolicyReport;

fn decision() -> Decision {
    Decision {
        commit: None,
        policy: PolicyReport {
            phase: "Injecting".to_owned(),
            summary: "canary ore: being changed".to_owned(),
            ..PolicyReport::default()
        },
        actions: Vec::new(),
        events: Vec::new(),
        looks: Vec::new(),
        running: std::collections::BTreeMap::new(),
        findings: vec![Finding {
            region: Some(Region::new("ore")),
            reason: Reason::WorkloadsPending,
            message: "waits for 1 workload".to_owned(),
        }],
        wake_at: Timestamp::UNIX_EPOCH,
    }
}

fn receipt(action: &'static str, outcome: Outcome) -> Receipt {
    Receipt {
        action,
        region: Some(Region::new("ore")),
        object: "Deployment/trace".to_owned(),
        outcome,
    }
}

fn line_of(
    decision: &Decision,
    receipts: &[Receipt],
    committed: bool,
    told: bool,
) -> Option<log::Line> {
    let key = ("trace".to_owned(), "trace".to_owned());
    log::line(&Pass {
        key: &key,
        policy: &ObjectReference::default(),
        class: "jemalloc",
        now: Timestamp::UNIX_EPOCH,
        decision,
        settled: true,
        committed,
        told,
        receipts,
        result: PassResult::Changed,
        took: Duration::ZERO,
    })
}

#[test]
fn a_pass_that_changes_nothing_is_silent() {
    let waiting = [
        receipt("Inject", Outcome::AlreadyDone),
        receipt("Evict", Outcome::LookAgain),
    ];
    assert_eq!(line_of(&decision(), &waiting, false, false), None);
}

#[test]
fn a_pass_that_changes_something_has_one_line_with_all_fields() {
    let mut decision = decision();
    let receipts = [
        receipt("Evict", Outcome::Applied),
        receipt("Evict", Outcome::Applied),
        receipt(
            "Inject",
            Outcome::Failed {
                class: Class::Transient,
                message: "no answer".to_owned(),
            },
        ),
    ];
    let line = line_of(&decision, &receipts, true, true).unwrap();
    assert_eq!(line.policy, "trace/trace");
    assert_eq!(line.region, "ore");
    assert_eq!(line.phase, "Injecting");
    assert_eq!(line.decision, "commit, Evict x2, Inject");
    assert_eq!(line.reason, "WorkloadsPending");
    assert_eq!(line.message, "waits for 1 workload");

    decision.events.push(Event {
        warning: false,
        reason: "BakeStarted".to_owned(),
        note: "ore bakes".to_owned(),
        region: Some(Region::new("ore")),
    });
    let line = line_of(&decision, &[], false, true).unwrap();
    assert_eq!(
        (line.decision.as_str(), line.reason.as_str()),
        ("report", "BakeStarted")
    );
}
