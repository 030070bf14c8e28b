//! Takes decided events and what acts came to, gives `events.k8s.io/v1` events regarding the policy. A failure to publish
//! is counted, never passed on: an event is a courtesy, not state.

use std::time::Duration;

use heapfleet_core::decision;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::metrics::Metrics;
use crate::receipt::{Outcome, Receipt};

/// Longest note that the API takes, bytes.
const NOTE_BYTES: usize = 1024;
/// Longest wait for one event.
const DEADLINE: Duration = Duration::from_secs(5);
/// At most so many events come from one pass, so that a fleet in trouble does not flood the API server.
const PER_PASS: usize = 32;

/// Publishes events; one for the whole process, because it aggregates what repeats.
pub struct Events {
    recorder: Recorder,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// A publisher in the hub; `instance` is the name of our own pod.
    pub fn new(hub: Client, instance: Option<String>) -> Self {
        let reporter = Reporter {
            controller: "heapfleet".to_owned(),
            instance,
        };
        Self {
            recorder: Recorder::new(hub, reporter),
        }
    }

    /// Publishes the transitions of one pass in order, then what was refused by an API server.
    pub async fn publish(
        &self,
        policy: &ObjectReference,
        attempt: Option<&ObjectReference>,
        decided: &[decision::Event],
        receipts: &[Receipt],
        metrics: &Metrics,
    ) {
        let refused = receipts.iter().filter_map(refusal);
        let all = decided.iter().cloned().chain(refused).take(PER_PASS);
        for event in all {
            let event = to_event(&event, attempt.cloned());
            let sending = self.recorder.publish(&event, policy);
            let because = match tokio::time::timeout(DEADLINE, sending).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(late) => late.to_string(),
            };
            metrics.event_failed();
            tracing::debug!(reason = event.reason, because, "event not published");
        }
    }
}

/// The recorder folds events of equal action, reason and objects into the first one, note included. The action carries
/// the region, so that the same transition in two regions stays two events; the attempt, as the related object, keeps
/// two attempts apart.
fn to_event(event: &decision::Event, attempt: Option<ObjectReference>) -> Event {
    Event {
        type_: if event.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: event.reason.clone(),
        note: Some(clip(&event.note, NOTE_BYTES)),
        action: match &event.region {
            Some(region) => clip(&format!("{}In-{region}", event.reason), 128),
            None => clip(&event.reason, 128),
        },
        secondary: attempt,
    }
}

/// A no of an API server would otherwise be seen only as work that never goes on.
fn refusal(receipt: &Receipt) -> Option<decision::Event> {
    let Outcome::Refused { class, message } = &receipt.outcome else {
        return None;
    };
    let kind = match class {
        crate::clusters::Class::Forbidden => "ActForbidden",
        crate::clusters::Class::Invalid => "ActInvalid",
        crate::clusters::Class::Transient
        | crate::clusters::Class::Throttled
        | crate::clusters::Class::Conflict => return None,
    };
    Some(decision::Event {
        warning: true,
        reason: kind.to_owned(),
        note: format!("{} of {}: {message}", receipt.action, receipt.object),
        region: receipt.region.clone(),
    })
}

/// At most `bytes` bytes of `text`, cut between characters.
fn clip(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapfleet_core::names::Region;

    fn event(note: &str) -> decision::Event {
        decision::Event {
            warning: false,
            reason: "BakeStarted".to_owned(),
            note: note.to_owned(),
            region: Some(Region::new("ore")),
        }
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = "…".repeat(600);
        let event = to_event(&event(&note), None);
        let note = event.note.unwrap();
        assert_eq!(note.len(), 1023);
        assert_eq!(event.action, "BakeStartedIn-ore");
    }

    #[test]
    fn waiting_for_a_disruption_budget_is_no_event() {
        let receipt = |class| Receipt {
            action: "Evict",
            region: None,
            object: "trace-0".to_owned(),
            outcome: Outcome::Refused {
                class,
                message: "no".to_owned(),
            },
        };
        assert_eq!(refusal(&receipt(crate::clusters::Class::Throttled)), None);
        let seen = refusal(&receipt(crate::clusters::Class::Forbidden)).unwrap();
        assert_eq!(seen.note, "Evict of trace-0: no");
    }
}
