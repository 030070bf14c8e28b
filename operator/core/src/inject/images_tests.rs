//! The image map: which image is chosen, or why there is none.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::image_for;
use crate::decision::Reason;
use crate::names::{Kind, WorkloadId};
use crate::plan::{Allocator, Delivery, ImageMap, ImageVariant, OnExisting, Platform};
use crate::world::{Node, Workload};

pub(super) fn id(kind: Kind) -> WorkloadId {
    WorkloadId {
        kind,
        name: "server".to_owned(),
    }
}

pub(super) fn platform(arch: &str, max_page_size: u64) -> Platform {
    Platform {
        arch: arch.to_owned(),
        max_page_size,
    }
}

/// A node with the labels that a kubelet and an admin give it.
pub(super) fn node(arch: &str, kernel: &str, label: &str) -> Node {
    let mut labels = BTreeMap::from([("kubernetes.io/arch".to_owned(), arch.to_owned())]);
    if !label.is_empty() {
        labels.insert("heapfleet.dev/page-size".to_owned(), label.to_owned());
    }
    let kibibytes = label
        .strip_suffix("Ki")
        .and_then(|size| size.parse::<u64>().ok());
    Node {
        arch: arch.to_owned(),
        page_size_label: kibibytes.map(|size| size * 1024),
        kernel: kernel.to_owned(),
        runtime: String::new(),
        kubelet: String::new(),
        labels,
        taints: Vec::new(),
        unschedulable: false,
    }
}

/// Nodes `n0`, `n1`, … of these architectures, kernels and labels.
pub(super) fn fleet(kinds: &[(&str, &str, &str)]) -> BTreeMap<String, Node> {
    let named = kinds.iter().enumerate();
    named
        .map(|(i, kind)| (format!("n{i}"), node(kind.0, kind.1, kind.2)))
        .collect()
}

/// `from`, then its variants: architecture, KiB, image.
type Map<'a> = (&'a str, &'a [(&'a str, u64, &'a str)]);

/// Nodes, the deployed image, the map, and reason and words of the refusal.
type Case<'a> = (
    &'a [(&'a str, &'a str, &'a str)],
    &'a str,
    &'a [Map<'a>],
    Reason,
    &'a str,
);

pub(super) fn allocator(images: &[Map<'_>]) -> Allocator {
    Allocator {
        class: "jemalloc".to_owned(),
        name: "jemalloc".to_owned(),
        delivery: Delivery::PreloadInImage {
            path: "libjemalloc.so.2".to_owned(),
        },
        on_existing: OnExisting::Prepend,
        options: BTreeMap::new(),
        env: Vec::new(),
        platforms: vec![platform("amd64", 65_536), platform("arm64", 65_536)],
        symbol_prefix: String::new(),
        images: images
            .iter()
            .map(|(from, variants)| ImageMap {
                from: (*from).to_owned(),
                variants: variants
                    .iter()
                    .map(|(arch, kibibytes, image)| ImageVariant {
                        arch: (*arch).to_owned(),
                        page_size: kibibytes * 1024,
                        image: (*image).to_owned(),
                    })
                    .collect(),
            })
            .collect(),
    }
}

pub(super) fn workload(image: &str, mut spec: Value) -> Workload {
    if spec.is_null() {
        spec = json!({});
    }
    spec["containers"] =
        json!([{"name": "side", "image": "side:1"}, {"name": "server", "image": image}]);
    Workload {
        template: json!({"metadata": {"labels": {"app": "x"}}, "spec": spec}),
        ..super::tests::workload(&Value::Null, Some(&[("x", "y")]))
    }
}

const A4: (&str, &str, &str) = ("amd64", "6.1", "");
const R4: (&str, &str, &str) = ("arm64", "6.1", "4Ki");
const R16: (&str, &str, &str) = ("arm64", "6.1", "16Ki");
const R64: (&str, &str, &str) = ("arm64", "6.1", "64Ki");

fn choose(
    kinds: &[(&str, &str, &str)],
    deployed: &str,
    images: &[Map<'_>],
) -> Result<Option<String>, (Reason, String)> {
    let seen = workload(deployed, json!({}));
    image_for(
        &id(Kind::Deployment),
        &seen,
        "server",
        &fleet(kinds),
        &allocator(images),
    )
    .map_err(|refused| (refused.reason, refused.message))
}

#[test]
fn the_smallest_sufficient_image_is_chosen() {
    let trace: &[Map<'_>] = &[
        ("other:1", &[("amd64", 4, "other:je")]),
        (
            "app:1",
            &[
                ("amd64", 4, "app:je"),
                ("arm64", 64, "app:je-64k"),
                ("arm64", 4, "app:je"),
                ("arm64", 16, "app:je-16k"),
                ("amd64", 64, "app:je-64k"),
            ],
        ),
    ];
    for (kinds, expected) in [
        (vec![A4], "app:je"),
        (vec![R4], "app:je"),
        (vec![A4, R4], "app:je"),
        (vec![R16], "app:je-16k"),
        (vec![R4, R16], "app:je-16k"),
        (vec![R64], "app:je-64k"),
        (vec![R4, R16, R64], "app:je-64k"),
        // Only the largest is there for both architectures.
        (vec![A4, R16], "app:je-64k"),
    ] {
        assert_eq!(
            choose(&kinds, "app:1", trace),
            Ok(Some(expected.to_owned())),
            "{kinds:?}"
        );
    }
    assert_eq!(
        choose(&[A4], "other:1", trace),
        Ok(Some("other:je".to_owned()))
    );
    // One image for the smallest and the largest pages is one for the largest where both are needed.
    let twice: &[Map<'_>] = &[(
        "app:1",
        &[
            ("arm64", 4, "app:x"),
            ("arm64", 64, "app:x"),
            ("arm64", 16, "app:y"),
        ],
    )];
    for (kinds, expected) in [(vec![R4], "app:x"), (vec![R4, R16], "app:y")] {
        let chosen = choose(&kinds, "app:1", twice);
        assert_eq!(chosen, Ok(Some(expected.to_owned())), "{kinds:?}");
    }
    assert_eq!(
        choose(&[A4], "app:1", &[]),
        Ok(None),
        "no map, no replacement"
    );
    let digest = "app@sha256:0000000000000000000000000000000000000000000000000000000000000001";
    assert_eq!(
        choose(&[A4], digest, &[(digest, &[("amd64", 4, "app:je")])]),
        Ok(Some("app:je".to_owned()))
    );
}

#[test]
fn an_image_that_the_owner_took_into_the_source_stays_if_it_fits() {
    let images: &[Map<'_>] = &[(
        "app:1",
        &[
            ("amd64", 4, "app:je"),
            ("arm64", 4, "app:je"),
            ("arm64", 64, "app:je-64k"),
        ],
    )];
    assert_eq!(choose(&[A4, R4], "app:je", images), Ok(None));
    assert_eq!(choose(&[R4], "app:je-64k", images), Ok(None));
    let (reason, message) = choose(&[R64], "app:je", images).unwrap_err();
    assert_eq!(reason, Reason::PageSizeUnsupported, "{message}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_refusal_has_its_reason_and_its_words() {
    let cases: &[Case<'_>] = &[
        (
            &[A4],
            "app:2",
            &[
                ("app:1", &[("amd64", 4, "app:je")]),
                ("b:1", &[]),
                ("c:1", &[]),
                ("d:1", &[]),
            ],
            Reason::ImageNotMapped,
            "container server runs app:2, which is no from of spec.images (there: app:1, b:1, c:1 and 1 more); add an entry for it",
        ),
        (
            // A tag and the digest behind it are two names: nobody here asks a registry.
            &[A4],
            "docker.io/library/app:1",
            &[("app:1", &[("amd64", 4, "app:je")])],
            Reason::ImageNotMapped,
            "written exactly as in the pod template",
        ),
        (
            &[R4],
            "app:1",
            &[("app:1", &[("amd64", 4, "app:je")])],
            Reason::PageSizeUnsupported,
            "may land on node n0 (arm64 with 4Ki pages), and spec.images has no variant of app:1 for that (there: amd64/4Ki); add one",
        ),
        (
            &[R64],
            "app:1",
            &[(
                "app:1",
                &[("arm64", 4, "app:je"), ("arm64", 16, "app:je-16k")],
            )],
            Reason::PageSizeUnsupported,
            "(there: arm64/16Ki, arm64/4Ki)",
        ),
        (
            &[R4, R64],
            "app:1",
            &[("app:1", &[("arm64", 4, "app:je")])],
            Reason::MixedPageSizes,
            "may land on node n1 (arm64 with 64Ki pages) and on node n0 (arm64 with 4Ki pages), and spec.images has no variant of app:1 for the larger pages (there: arm64/4Ki)",
        ),
        (
            &[A4, R64],
            "app:1",
            &[(
                "app:1",
                &[("amd64", 4, "app:je"), ("arm64", 64, "app:je-64k")],
            )],
            Reason::MixedPageSizes,
            "may land on nodes n0, n1 (amd64 with 4Ki pages, arm64 with 64Ki pages), and no single image of spec.images for app:1 of container server runs on all of them",
        ),
        (
            &[A4, R4],
            "app:1",
            &[(
                "app:1",
                &[
                    ("amd64", 4, "app:x"),
                    ("arm64", 16, "app:x"),
                    ("amd64", 16, "app:y"),
                    ("arm64", 4, "app:y"),
                ],
            )],
            Reason::InvalidSpec,
            "spec.images has app:x, app:y, none of which is the smallest on every architecture; keep one of them",
        ),
        (
            &[A4],
            "app:1",
            &[("app:1", &[("amd64", 4, "app:x"), ("amd64", 4, "app:y")])],
            Reason::InvalidSpec,
            "app:x, app:y",
        ),
        (
            &[("arm64", "6.8", "")],
            "app:1",
            &[("app:1", &[("arm64", 64, "app:je")])],
            Reason::PageSizeUnknown,
            "label it heapfleet.dev/page-size",
        ),
    ];
    for (kinds, deployed, images, reason, words) in cases {
        let (got, message) = choose(kinds, deployed, images).unwrap_err();
        assert_eq!(got, *reason, "{kinds:?} {deployed}: {message}");
        assert!(message.contains(words), "{message}");
        assert!(
            message.starts_with("Deployment/server: ") && message.ends_with('.'),
            "{message}"
        );
    }
}

#[test]
fn the_classs_word_holds_for_images_too() {
    let images: &[Map<'_>] = &[("app:1", &[("arm64", 64, "app:je")])];
    let mut small = allocator(images);
    small.platforms = vec![platform("arm64", 4_096)];
    let seen = workload("app:1", json!({}));
    let refused = image_for(
        &id(Kind::Deployment),
        &seen,
        "server",
        &fleet(&[R64]),
        &small,
    )
    .unwrap_err();
    assert_eq!(refused.reason, Reason::PageSizeUnsupported);
    assert!(
        refused.message.contains("maxPageSize: 4Ki"),
        "{}",
        refused.message
    );
}

fn any_kinds() -> impl Strategy<Value = Vec<(&'static str, &'static str, &'static str)>> {
    prop::collection::vec(prop::sample::select(vec![A4, R4, R16, R64]), 1..5)
}

fn any_variants() -> impl Strategy<Value = Vec<(&'static str, u64, &'static str)>> {
    let arch = prop::sample::select(vec!["amd64", "arm64"]);
    let size = prop::sample::select(vec![4, 16, 64]);
    let image = prop::sample::select(vec!["app:x", "app:y", "app:z"]);
    prop::collection::vec((arch, size, image), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_chosen_runs_everywhere_and_nothing_that_does_is_smaller(kinds in any_kinds(), variants in any_variants()) {
        let images: &[Map<'_>] = &[("app:1", &variants)];
        let nodes = fleet(&kinds);
        let runs = |image: &str| nodes.values().all(|node| {
            let size = node.page_size_label.unwrap_or(4_096);
            variants.iter().any(|(arch, max, name)| *name == image && *arch == node.arch && max * 1024 >= size)
        });
        let any = ["app:x", "app:y", "app:z"].iter().any(|image| runs(image));
        match choose(&kinds, "app:1", images) {
            Ok(Some(image)) => {
                prop_assert!(runs(&image));
                // With the variants of the others alone, nothing smaller is found on any one kind of node.
                for kind in &kinds {
                    let size = |image: &str| {
                        let node = node(kind.0, kind.1, kind.2);
                        let need = node.page_size_label.unwrap_or(4_096);
                        variants.iter().filter(|v| v.2 == image && v.0 == kind.0 && v.1 * 1024 >= need).map(|v| v.1).min()
                    };
                    if nodes.len() == 1 {
                        for other in ["app:x", "app:y", "app:z"].into_iter().filter(|other| runs(other)) {
                            prop_assert!(size(&image) <= size(other));
                        }
                    }
                }
            }
            Ok(None) => prop_assert!(false, "a mapped image is always replaced"),
            Err((Reason::InvalidSpec, message)) => prop_assert!(any, "{}", message),
            Err((Reason::MixedPageSizes | Reason::PageSizeUnsupported, message)) => prop_assert!(!any, "{}", message),
            Err((reason, message)) => prop_assert!(false, "{} {}", reason, message),
        }
    }
}
