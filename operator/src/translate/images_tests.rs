//! The image map from a policy to the plan that the core decides by.

use serde_json::json;

use super::tests::{COMPLETE, class, demo_with, policy_of, refusal, regions, rollout_of};
use super::*;

#[test]
fn the_image_map_of_the_complete_example_arrives() {
    let mut policy = policy_of(COMPLETE);
    policy.spec.rollout.windows.clear();
    let plan = intent(&policy, Some(&class()), &regions()).unwrap().plan;
    let [images] = plan.allocator.images.as_slice() else {
        panic!("one deployed image is mapped: {:?}", plan.allocator.images);
    };
    assert_eq!(images.from, "registry.example/trace:2.0.20");
    let variants: Vec<(&str, u64, &str)> = images
        .variants
        .iter()
        .map(|variant| {
            (
                variant.arch.as_str(),
                variant.page_size,
                variant.image.as_str(),
            )
        })
        .collect();
    assert_eq!(
        variants,
        [
            ("amd64", 4_096, "registry.example/trace:2.0.20-jemalloc"),
            (
                "arm64",
                65_536,
                "registry.example/trace:2.0.20-jemalloc-64k"
            ),
        ]
    );
}

#[test]
fn a_variant_is_not_replaced_in_turn() {
    let chained = demo_with(
        "/images",
        json!([
            {"from": "a:1", "variants": [{"arch": "amd64", "pageSize": "4Ki", "image": "a:2"}]},
            {"from": "a:2", "variants": [{"arch": "amd64", "pageSize": "4Ki", "image": "a:3"}]},
        ]),
    );
    let refusal = refusal(&chained);
    assert_eq!(refusal.reason, Reason::InvalidSpec);
    assert!(
        refusal
            .message
            .starts_with("spec.images (a:1): the variant a:2 is itself a from"),
        "{}",
        refusal.message
    );
}

#[test]
fn a_variant_needs_a_build_of_the_class() {
    let mapped = demo_with(
        "/images",
        json!([{"from": "a:1", "variants": [{"arch": "arm64", "pageSize": "4Ki", "image": "a:2"}]}]),
    );
    let mut class = class();
    class.spec.platforms.truncate(1);
    let refusal = intent(&mapped, Some(&class), &regions()).unwrap_err();
    assert_eq!(refusal.reason, Reason::InvalidSpec);
    assert!(
        refusal
            .message
            .contains("(a:1): the variant a:2 is for an architecture"),
        "{}",
        refusal.message
    );
}

#[test]
fn a_frozen_image_map_is_read_as_it_was_frozen() {
    let mapped = demo_with(
        "/images",
        json!([{"from": "a:1", "variants": [{"arch": "arm64", "pageSize": "64Ki", "image": "a:2"}]}]),
    );
    let intent = intent(&mapped, Some(&class()), &regions()).unwrap();
    let json = serde_json::to_string(&rollout_of(&intent.frozen)).unwrap();
    let read: crds::AllocatorRollout = serde_json::from_str(&json).unwrap();
    let images = attempt(&read).unwrap().plan.allocator.images;
    assert_eq!(images[0].variants[0].page_size, 65_536);
    assert_eq!(images, intent.plan.allocator.images);
}
