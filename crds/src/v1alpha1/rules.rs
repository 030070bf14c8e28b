//! Takes field paths and bounds, gives the text of CEL rules; must never be used outside schemas.
//!
//! Durations, percentages and sizes are strings, so every comparison has to read them. A rule that reads a string first
//! asks whether it is well formed: a malformed one is reported once, by the rule of its type, and not a second time as
//! an evaluation error.

use kube::core::{Message, Rule};

/// `7d`, or hours, minutes, seconds and milliseconds in this order: `1h30m`, `250ms`. Digits are bounded so that the
/// sum fits CEL's duration of 64 bit nanoseconds.
pub(super) const SPAN: &str =
    "^([0-9]{1,4}d|([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?([0-9]{1,10}ms)?)$";
/// `3%`, `2.5%`: at most three digits before and two after the point.
pub(super) const PERCENT: &str = "^[0-9]{1,3}([.][0-9]{1,2})?%$";
/// Bytes with an optional SI or binary suffix: `36Gi`, `1.5Ti`, `1073741824`.
pub(super) const BYTES: &str = "^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$";
/// One label of a DNS name.
pub(super) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Variables that the operator itself writes, or that steer an allocator behind its back.
pub(super) const OWN_VARIABLES: &str = "^(LD_PRELOAD|LD_AUDIT|LD_LIBRARY_PATH|GLIBC_TUNABLES|MALLOC_.*|[A-Z0-9_]*MALLOC_CONF|MIMALLOC_.*|TCMALLOC_.*)$";

/// CEL: does the string at `field` match `pattern`?
pub(super) fn matches(field: &str, pattern: &str) -> String {
    format!("{field}.matches(r'{pattern}')")
}

/// CEL: the milliseconds written at `field`. `d` is a day of 24 hours, which CEL's own `duration` does not know.
fn millis(field: &str) -> String {
    format!(
        "({field}.endsWith('d') ? int({field}.substring(0, {field}.size() - 1)) * 86400000 : duration({field}).getMilliseconds())"
    )
}

/// CEL: `condition`, unless one of the durations at `fields` is malformed (its own rule says so).
fn where_spans(fields: &[&str], condition: &str) -> String {
    let malformed: Vec<String> = fields
        .iter()
        .map(|field| format!("!{}", matches(field, SPAN)))
        .collect();
    format!("{} || {condition}", malformed.join(" || "))
}

/// The duration at `self` lies between `min` and `max` (Go notation, no days); `why` says what the field is for.
pub(super) fn span_between(min: &str, max: &str, why: &str) -> Rule {
    let value = millis("self");
    let condition = format!(
        "({value} >= duration('{min}').getMilliseconds() && {value} <= duration('{max}').getMilliseconds())"
    );
    Rule::new(where_spans(&["self"], &condition))
        .message(format!("must be between {min} and {max}: {why}").as_str())
}

/// The percentage at `self` lies between `min` and `max` per cent; `why` says what the field is for.
pub(super) fn percent_between(min: &str, max: &str, why: &str) -> Rule {
    let value = "double(self.substring(0, self.size() - 1))";
    let well_formed = matches("self", PERCENT);
    Rule::new(format!(
        "!{well_formed} || ({value} >= double({min}) && {value} <= double({max}))"
    ))
    .message(format!("must be between {min}% and {max}%: {why}").as_str())
}

/// The duration at `longer` is at least `times` the one at `unit`.
pub(super) fn at_least_times(longer: &str, unit: &str, times: i32) -> String {
    let condition = format!("{} >= {} * {times}", millis(longer), millis(unit));
    where_spans(&[longer, unit], &condition)
}

/// The duration at `shorter` is at most the one at `longer`.
pub(super) fn at_most(shorter: &str, longer: &str) -> String {
    where_spans(
        &[shorter, longer],
        &format!("{} <= {}", millis(shorter), millis(longer)),
    )
}

/// A rule of a whole object whose message is a CEL expression; used for names, which the schema does not describe.
pub(super) fn rule_of(rule: impl Into<String>, message: &str) -> Rule {
    Rule::new(rule).message(Message::Expression(message.to_owned()))
}

/// A rule whose message is a CEL expression, reported at `path` relative to the struct that carries it.
pub(super) fn rule_at(path: &str, rule: impl Into<String>, message: &str) -> Rule {
    Rule::new(rule)
        .field_path(path)
        .message(Message::Expression(message.to_owned()))
}

/// Every key of the map at `self` has at most `length` characters and matches `pattern`; the message names the first that
/// does not, and says what keys `must` be.
pub(super) fn keys(length: u32, pattern: &str, must: &str) -> Rule {
    let good = format!("k.size() <= {length} && k.matches(r'{pattern}')");
    Rule::new(format!("self.all(k, {good})")).message(Message::Expression(format!(
        "'key ' + self.map(k, k).filter(k, !({good}))[0] + ' must be {}'",
        must.replace('\'', "\\'")
    )))
}

/// CEL: exactly one of the optional fields is set.
pub(super) fn exactly_one(fields: &[&str]) -> String {
    let counted: Vec<String> = fields
        .iter()
        .map(|field| format!("(has(self.{field}) ? 1 : 0)"))
        .collect();
    format!("{} == 1", counted.join(" + "))
}
