//! The deliveries of the example classes, frozen and thawed.

use std::collections::BTreeSet;

use heapfleet_core::plan::{Allocator, Delivery};

use super::*;

const POLICY: &str = include_str!("../../../manifests/examples/policy-minimal.yaml");

fn class(text: &str) -> crds::AllocatorClass {
    serde_yaml::from_str(text).unwrap()
}

fn policy() -> crds::AllocatorPolicy {
    serde_yaml::from_str(POLICY).unwrap()
}

fn thawed(class: &crds::AllocatorClass) -> Result<Allocator, Refusal> {
    let regions: BTreeSet<String> = ["ore", "fra", "nrt", "sin", "lhr"]
        .map(str::to_owned)
        .into();
    intent(&policy(), Some(class), &regions).map(|intent| intent.plan.allocator)
}

#[test]
fn glibc_is_set_up_by_tunables() {
    let allocator = thawed(&class(include_str!(
        "../../../manifests/examples/class-glibc-tuned.yaml"
    )))
    .unwrap();
    assert_eq!(allocator.name, "glibc");
    assert_eq!(allocator.delivery, Delivery::Tunables);
    assert_eq!(allocator.options["glibc.malloc.arena_max"], "2");
}
