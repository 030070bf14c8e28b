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

#[test]
fn every_example_class_can_be_chosen_as_it_is() {
    for text in [
        include_str!("../../../manifests/examples/class-glibc-tuned.yaml"),
        include_str!("../../../manifests/examples/class-jemalloc.yaml"),
        include_str!("../../../manifests/examples/class-jemalloc-volume.yaml"),
        include_str!("../../../manifests/examples/class-jemalloc-copy.yaml"),
        include_str!("../../../manifests/examples/class-mimalloc.yaml"),
    ] {
        let class = class(text);
        // Every option that the class allows is one that its build has: only the value is bad.
        for option in &class.spec.options.allowed {
            let mut choice = policy();
            choice
                .spec
                .allocator
                .options
                .insert(option.to_string(), "%".to_owned().into());
            let refused = choice::check_choice(&choice.spec, &class.spec).unwrap_err();
            assert!(
                refused.message.contains("it must be"),
                "{}",
                refused.message
            );
        }
        assert!(thawed(&class).is_ok(), "{text}");
    }
}

#[test]
fn a_library_beside_the_application_keeps_image_and_paths() {
    let text = include_str!("../../../manifests/examples/class-jemalloc-volume.yaml");
    let Delivery::PreloadImageVolume(mounted) = thawed(&class(text)).unwrap().delivery else {
        panic!("{text}")
    };
    assert!(mounted.image.contains("/jemalloc@sha256:0123"));
    assert_eq!(mounted.mount_path, "/opt/heapfleet");
    assert_eq!(mounted.path, "lib/libjemalloc.so.2");
    let text = include_str!("../../../manifests/examples/class-jemalloc-copy.yaml");
    let Delivery::PreloadInitCopy(copied) = thawed(&class(text)).unwrap().delivery else {
        panic!("{text}")
    };
    assert_eq!(copied.mount_path, "/opt/heapfleet");
}

#[test]
fn what_the_class_cannot_mean_is_refused() {
    let jemalloc = || {
        class(include_str!(
            "../../../manifests/examples/class-jemalloc.yaml"
        ))
    };
    let refused = |edit: &dyn Fn(&mut crds::AllocatorClass)| {
        let mut class = jemalloc();
        edit(&mut class);
        thawed(&class).map_err(|refused| (refused.reason, refused.message))
    };
    let (reason, message) = refused(&|class| {
        class
            .spec
            .options
            .defaults
            .insert("background_thread".to_owned(), "True".to_owned().into());
    })
    .unwrap_err();
    assert_eq!(reason, Reason::OptionNotAllowed);
    assert_eq!(
        message,
        "class jemalloc: spec.options.defaults: background_thread=True: it must be true or false, in small letters."
    );
    let (reason, message) = refused(&|class| {
        if let Some(preload) = &mut class.spec.preload {
            preload.library.path = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2".to_owned();
        }
    })
    .unwrap_err();
    assert_eq!(reason, Reason::InvalidSpec);
    assert!(
        message.contains("names x86_64, but its platforms list arm64"),
        "{message}"
    );
    let (reason, message) = refused(&|class| {
        class.spec.delivery = crds::Delivery::Linked;
        class.spec.preload = None;
        class.spec.options.defaults.clear();
    })
    .unwrap_err();
    assert_eq!(reason, Reason::InvalidSpec);
    assert!(message.contains("nothing would be changed"), "{message}");
    let linked = refused(&|class| {
        class.spec.delivery = crds::Delivery::Linked;
        class.spec.preload = None;
        class.spec.build.symbol_prefix = "_rjem_".to_owned();
    })
    .unwrap();
    assert_eq!(linked.delivery, Delivery::Linked);
    assert_eq!(linked.symbol_prefix, "_rjem_");
}
