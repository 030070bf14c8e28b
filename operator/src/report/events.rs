//! Takes decided events and what acts came to, gives `events.k8s.io/v1` events regarding the policy. A failure to publish
//! is counted, never passed on: an event is a courtesy, not state.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use heapfleet_core::decision;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::metrics::Metrics;
use crate::clusters::Class;
use crate::receipt::{Outcome, Receipt};

/// Longest note that the API takes, bytes.
const NOTE_BYTES: usize = 1024;
/// Longest wait for one event.
const DEADLINE: Duration = Duration::from_secs(5);
/// At most so many events come from one pass, so that a fleet in trouble does not flood the API server.
const PER_PASS: usize = 32;

/// A trouble that stands is told again after this long.
const TELL_AGAIN: Duration = Duration::from_mins(5);

/// Publishes events; one for the whole process, because it aggregates what repeats.
pub struct Events {
    recorder: Recorder,
    told: Told,
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
            told: Told::default(),
        }
    }

    /// Publishes the transitions of one pass in order.
    pub async fn publish(
        &self,
        policy: &ObjectReference,
        attempt: Option<&ObjectReference>,
        decided: &[decision::Event],
        metrics: &Metrics,
    ) {
        for event in decided.iter().take(PER_PASS) {
            self.send(policy, to_event(event, attempt.cloned()), metrics)
                .await;
        }
    }

    /// Publishes what stands in the way, once in a while and not in every pass; nobody would see it otherwise.
    pub async fn trouble(
        &self,
        policy: &ObjectReference,
        trouble: decision::Event,
        metrics: &Metrics,
    ) {
        let uid = policy.uid.as_deref().unwrap_or_default();
        if !self.told.anew(
            &format!("{uid} {} {}", trouble.reason, trouble.note),
            Instant::now(),
        ) {
            return;
        }
        let name = policy.name.as_deref().unwrap_or_default();
        tracing::warn!(policy = name, reason = trouble.reason, "{}", trouble.note);
        self.send(policy, to_event(&trouble, None), metrics).await;
    }

    async fn send(&self, policy: &ObjectReference, event: Event, metrics: &Metrics) {
        let sending = self.recorder.publish(&event, policy);
        let because = match tokio::time::timeout(DEADLINE, sending).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        metrics.event_failed();
        tracing::debug!(reason = event.reason, because, "event not published");
    }
}

/// When what was told; bounded by forgetting what is old.
#[derive(Debug, Default)]
struct Told(Mutex<HashMap<String, Instant>>);

impl Told {
    fn anew(&self, what: &str, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.duration_since(*at) < TELL_AGAIN);
        if told.contains_key(what) {
            return false;
        }
        told.insert(what.to_owned(), now);
        true
    }
}

/// The recorder folds events of equal action, reason and objects into the first one, and keeps the first note. The action
/// carries a digest of the note, so that only what reads the same is folded; the attempt, as the related object, keeps two
/// attempts apart.
fn to_event(event: &decision::Event, attempt: Option<ObjectReference>) -> Event {
    let mut digest = DefaultHasher::new();
    event.note.hash(&mut digest);
    Event {
        type_: if event.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: event.reason.clone(),
        note: Some(clip(&event.note, NOTE_BYTES)),
        action: format!("{}-{:016x}", clip(&event.reason, 100), digest.finish()),
        secondary: attempt,
    }
}

/// A no of an API server, which would otherwise be seen only as work that never goes on.
pub(super) fn refusal(receipt: &Receipt) -> Option<decision::Event> {
    let Outcome::Refused { class, message } = &receipt.outcome else {
        return None;
    };
    let kind = match class {
        Class::Forbidden => "ActForbidden",
        Class::Invalid => "ActInvalid",
        Class::Transient | Class::Throttled | Class::Conflict => return None,
    };
    Some(trouble(
        kind,
        &format!("{} of {}: {message}", receipt.action, receipt.object),
    ))
}

/// A warning that is no transition.
pub(super) fn trouble(kind: &str, note: &str) -> decision::Event {
    decision::Event {
        warning: true,
        reason: kind.to_owned(),
        note: note.to_owned(),
        region: None,
    }
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
        let note = event.note.as_ref().unwrap();
        assert_eq!(note.len(), 1023);
        assert!(event.action.starts_with("BakeStarted-") && event.action.len() < 128);
    }

    #[test]
    fn only_what_reads_the_same_is_folded() {
        let action = |note: &str| to_event(&event(note), None).action;
        assert_eq!(action("one"), action("one"));
        assert_ne!(action("one"), action("two"));
    }

    #[test]
    fn a_trouble_that_stands_is_told_once_in_a_while() {
        let told = Told::default();
        let now = Instant::now();
        assert!(told.anew("a", now));
        assert!(!told.anew("a", now + Duration::from_mins(1)));
        assert!(told.anew("b", now + Duration::from_mins(1)));
        assert!(told.anew("a", now + TELL_AGAIN));
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
        assert_eq!(refusal(&receipt(Class::Throttled)), None);
        let seen = refusal(&receipt(Class::Forbidden)).unwrap();
        assert_eq!(seen.note, "Evict of trace-0: no");
    }
}
