//! The core's reasons and condition types are words of the API's closed sets.

use std::str::FromStr as _;

use heapfleet_core::{decision, judge, status};

#[test]
fn every_reason_of_the_core_is_a_word_of_the_api() {
    let unknown: Vec<&str> = decision::Reason::ALL
        .iter()
        .map(|reason| reason.as_str())
        .chain(judge::Code::ALL.iter().map(|code| code.as_str()))
        .filter(|word| heapfleet_crds::Reason::from_str(word).is_err())
        .collect();
    assert!(
        unknown.is_empty(),
        "not in crds/src/v1alpha1/reasons.rs: {}",
        unknown.join(", ")
    );
}

#[test]
fn every_condition_type_of_the_core_is_a_word_of_the_api() {
    let unknown: Vec<&str> = status::ConditionType::ALL
        .iter()
        .map(|kind| kind.as_str())
        .filter(|word| heapfleet_crds::ConditionType::from_str(word).is_err())
        .collect();
    assert!(
        unknown.is_empty(),
        "not in crds/src/v1alpha1/conditions.rs: {}",
        unknown.join(", ")
    );
}
