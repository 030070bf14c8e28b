//! Page sizes of nodes and the class's platforms: a table of fleets with the reason and the words that people need.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::images_tests::{allocator, fleet, id, node, platform, workload};
use super::pages::{page_size, places};
use crate::decision::Reason;
use crate::names::Kind;
use crate::world::Node;

type Refused = (Reason, String);

fn check(
    spec: Value,
    nodes: &BTreeMap<String, Node>,
    platforms: &[(&str, u64)],
) -> Result<usize, Refused> {
    let mut allocator = allocator(&[]);
    allocator.platforms = platforms.iter().map(|p| platform(p.0, p.1)).collect();
    let seen = workload("app:1", spec);
    places(&id(Kind::Deployment), &seen, nodes, &allocator)
        .map(|places| places.len())
        .map_err(|refused| (refused.reason, refused.message))
}

#[test]
fn a_page_size_is_the_labels_word_or_certain() {
    for (arch, kernel, label, expected) in [
        ("amd64", "6.1", "", Some(4_096)),
        ("amd64", "6.1", "16Ki", Some(16_384)),
        ("amd64", "6.1", "64K", None),
        ("arm64", "6.1", "", None),
        ("arm64", "6.1", "4Ki", Some(4_096)),
        (
            "arm64",
            "5.14.0-284.41.1.el9_2.aarch64+64k",
            "",
            Some(65_536),
        ),
        (
            "arm64",
            "5.14.0-284.41.1.el9_2.aarch64+64k",
            "4Ki",
            Some(4_096),
        ),
        ("arm64", "5.14.0-284.41.1.el9_2.aarch64+64k", "big", None),
        // Likely, but not certain: nobody's word.
        ("arm64", "6.8.0-1009-nvidia-64k", "", None),
        ("arm64", "4.18.0-553.el8_10.aarch64", "", None),
        ("ppc64le", "6.1", "", None),
        ("", "", "", None),
    ] {
        assert_eq!(
            page_size(&node(arch, kernel, label)),
            expected,
            "{arch} {kernel} {label}"
        );
    }
}

const ARM_4K: (&str, &str, &str) = ("arm64", "6.1", "4Ki");
const ARM_16K: (&str, &str, &str) = ("arm64", "6.1", "16Ki");
const ARM_64K: (&str, &str, &str) = ("arm64", "6.1+64k", "");
const ARM: (&str, &str, &str) = ("arm64", "6.8", "");
const AMD: (&str, &str, &str) = ("amd64", "6.1", "");

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_fleet_has_one_answer() {
    let (unknown, unsupported, mixed) = (
        Reason::PageSizeUnknown,
        Reason::PageSizeUnsupported,
        Reason::MixedPageSizes,
    );
    let both: &[(&str, u64)] = &[("amd64", 4_096), ("arm64", 65_536)];
    let small: &[(&str, u64)] = &[("amd64", 4_096), ("arm64", 4_096)];
    let amd: &[(&str, u64)] = &[("amd64", 4_096)];
    let cases = [
        (vec![AMD], amd, Ok(1)),
        (vec![AMD, ARM_4K, ARM_64K], both, Ok(3)),
        (vec![], both, Err((unknown, "no node could be seen"))),
        (
            vec![AMD, ARM],
            both,
            Err((
                unknown,
                "the page size of node n1 (arm64, kernel 6.8) is not known; label it heapfleet.dev/page-size=4Ki, 16Ki or 64Ki",
            )),
        ),
        (
            vec![ARM, ARM, ARM, ARM, ARM],
            both,
            Err((
                unknown,
                "the page size of nodes n0 (arm64, kernel 6.8), n1 (arm64, kernel 6.8), n2 (arm64, kernel 6.8) and 2 more is not known; label each",
            )),
        ),
        (
            vec![("amd64", "6.1", "64K")],
            both,
            Err((
                unknown,
                "n0 (its label says \"64K\", which is no page size)",
            )),
        ),
        (
            vec![AMD, ARM_4K],
            amd,
            Err((
                unsupported,
                "its pods may land on node n1 (arm64 with 4Ki pages), and class jemalloc does not list arm64 in spec.platforms; add a build",
            )),
        ),
        (
            vec![ARM_64K, ARM_64K],
            small,
            Err((unsupported, "nodes n0, n1 (arm64 with 64Ki pages)")),
        ),
        (
            vec![ARM_64K],
            small,
            Err((
                unsupported,
                "which says maxPageSize: 4Ki for arm64 in spec.platforms; use a class whose build takes them",
            )),
        ),
        (
            vec![ARM_4K, ARM_64K],
            small,
            Err((
                mixed,
                "its pods may land on node n1 (arm64 with 64Ki pages) and on node n0 (arm64 with 4Ki pages), and class jemalloc says maxPageSize: 4Ki for arm64 in spec.platforms; pin the pods to nodes of one page size",
            )),
        ),
        (
            vec![AMD, ARM_64K, ARM_16K],
            small,
            Err((
                mixed,
                "may land on node n2 (arm64 with 16Ki pages) and on node n0 (amd64 with 4Ki pages)",
            )),
        ),
        // A build that is missing altogether goes first.
        (
            vec![AMD, ARM_64K, ("ppc64le", "6.1", "64Ki")],
            small,
            Err((
                unsupported,
                "node n2 (ppc64le with 64Ki pages), and class jemalloc does not list ppc64le",
            )),
        ),
    ];
    for (kinds, platforms, expected) in cases {
        let got = check(json!({}), &fleet(&kinds), platforms);
        match (&got, &expected) {
            (Ok(places), Ok(wanted)) => assert_eq!(places, wanted, "{kinds:?}"),
            (Err((reason, message)), Err((wanted, words))) => {
                assert_eq!(reason, wanted, "{kinds:?}: {message}");
                assert!(message.contains(words), "{kinds:?}: {message}");
                assert!(message.starts_with("Deployment/server: "), "{message}");
                assert!(message.ends_with('.'), "{message}");
            }
            (Ok(_) | Err(_), _) => panic!("{kinds:?}: {got:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn a_template_that_pins_its_nodes_is_judged_by_them_alone() {
    let nodes = fleet(&[AMD, ARM_4K, ARM_64K, ARM]);
    let platforms: &[(&str, u64)] = &[("amd64", 4_096), ("arm64", 4_096)];
    let amd = json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}});
    assert_eq!(check(amd, &nodes, platforms), Ok(1));
    let by_size = |values: &[&str]| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "heapfleet.dev/page-size", "operator": "In", "values": values}]}
        ]}}}})
    };
    assert_eq!(check(by_size(&["4Ki"]), &nodes, platforms), Ok(1));
    let (reason, message) = check(by_size(&["128Ki"]), &nodes, platforms).unwrap_err();
    assert_eq!(reason, Reason::PageSizeUnknown);
    assert!(
        message.contains("may land on none of the cluster's nodes"),
        "{message}"
    );
    // A taint keeps pods away, a cordon only for now.
    let mut tainted = fleet(&[AMD, ARM]);
    let taint = crate::world::Taint {
        key: "dedicated".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    tainted.get_mut("n1").unwrap().taints.push(taint);
    assert_eq!(check(json!({}), &tainted, platforms), Ok(1));
    let mut cordoned = fleet(&[AMD, ARM]);
    cordoned.get_mut("n1").unwrap().unschedulable = true;
    let (reason, _) = check(json!({}), &cordoned, platforms).unwrap_err();
    assert_eq!(reason, Reason::PageSizeUnknown);
}

fn any_fleet() -> impl Strategy<Value = Vec<(&'static str, &'static str, &'static str)>> {
    prop::collection::vec(
        prop::sample::select(vec![AMD, ARM, ARM_4K, ARM_16K, ARM_64K]),
        0..6,
    )
}

fn any_platforms() -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    let arch = prop::sample::select(vec!["amd64", "arm64"]);
    let size = prop::sample::select(vec![4_096, 16_384, 65_536]);
    prop::collection::vec((arch, size), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_passes_runs_everywhere(kinds in any_fleet(), platforms in any_platforms()) {
        let nodes = fleet(&kinds);
        let runs = |node: &Node| page_size(node).is_some_and(|size| {
            platforms.iter().any(|(arch, max)| *arch == node.arch && *max >= size)
        });
        let everywhere = !nodes.is_empty() && nodes.values().all(runs);
        prop_assert_eq!(check(json!({}), &nodes, &platforms).is_ok(), everywhere);
    }

    #[test]
    fn another_node_never_makes_a_refusal_go_away(kinds in any_fleet(), platforms in any_platforms(), more in any_fleet()) {
        prop_assume!(!kinds.is_empty());
        let wider: Vec<_> = kinds.iter().chain(&more).copied().collect();
        if check(json!({}), &fleet(&kinds), &platforms).is_err() {
            let refused = check(json!({}), &fleet(&wider), &platforms).is_err();
            prop_assert!(refused);
        }
    }

    #[test]
    fn mixed_means_that_there_are_two_sizes_and_pinning_helps(kinds in any_fleet(), platforms in any_platforms()) {
        let nodes = fleet(&kinds);
        if let Err((Reason::MixedPageSizes, _)) = check(json!({}), &nodes, &platforms) {
            let sizes: std::collections::BTreeSet<_> = nodes.values().map(page_size).collect();
            prop_assert!(sizes.len() > 1);
            let alone = |(name, node): (&String, &Node)| {
                let one = BTreeMap::from([(name.clone(), node.clone())]);
                check(json!({}), &one, &platforms).is_ok()
            };
            prop_assert!(nodes.iter().any(alone));
        }
    }
}
