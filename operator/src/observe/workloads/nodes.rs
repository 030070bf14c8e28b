//! Takes a node as the API has it, gives what of it matters. Never guesses a page size: only the label's word is taken
//! here, the rest is the core's inference.

use heapfleet_core::inject::PAGE_SIZE;
use heapfleet_core::world;
use serde_json::Value;

use super::raw::{strings, text};
use crate::observe::quantity;

/// Name and view of a node; `None` for an object without a name.
pub(super) fn node(raw: &Value) -> Option<(String, world::Node)> {
    let name = text(raw, "/metadata/name")?.to_owned();
    let labels = strings(raw, "/metadata/labels").unwrap_or_default();
    let label = labels
        .get(PAGE_SIZE)
        .and_then(|size| quantity::bytes(size))
        .filter(|size| size.is_power_of_two() && *size >= 4_096);
    let arch = text(raw, "/status/nodeInfo/architecture")
        .filter(|arch| !arch.is_empty())
        .or_else(|| labels.get("kubernetes.io/arch").map(String::as_str))
        .unwrap_or_default()
        .to_owned();
    let info = |field: &str| {
        let pointer = format!("/status/nodeInfo/{field}");
        text(raw, &pointer).unwrap_or_default().to_owned()
    };
    let taints = raw.pointer("/spec/taints").and_then(Value::as_array);
    let unschedulable = raw.pointer("/spec/unschedulable").and_then(Value::as_bool);
    Some((
        name,
        world::Node {
            arch,
            page_size_label: label,
            kernel: info("kernelVersion"),
            runtime: info("containerRuntimeVersion"),
            kubelet: info("kubeletVersion"),
            labels,
            taints: taints.into_iter().flatten().map(taint).collect(),
            unschedulable: unschedulable.unwrap_or(false),
        },
    ))
}

fn taint(raw: &Value) -> world::Taint {
    let field = |key: &str| {
        raw.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    world::Taint {
        key: field("key"),
        value: field("value"),
        effect: field("effect"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labelled(size: &str) -> Value {
        json!({
            "metadata": {"name": "n1", "labels": {"heapfleet.dev/page-size": size}},
            "status": {"nodeInfo": {"architecture": "arm64", "kernelVersion": "6.8.0-31-generic",
                "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.3"}},
        })
    }

    #[test]
    fn the_label_gives_bytes_and_nonsense_gives_nothing() {
        for (size, expected) in [
            ("4Ki", Some(4_096)),
            ("16Ki", Some(16_384)),
            ("64Ki", Some(65_536)),
            ("64K", None),
            ("5Ki", None),
            ("1Ki", None),
            ("", None),
        ] {
            let (name, node) = node(&labelled(size)).unwrap();
            assert_eq!(name, "n1");
            assert_eq!(node.page_size_label, expected, "{size}");
            assert_eq!(node.arch, "arm64");
            assert_eq!(node.kernel, "6.8.0-31-generic");
            assert_eq!(node.runtime, "containerd://2.1.4");
            assert_eq!(node.kubelet, "v1.36.3");
        }
    }

    #[test]
    fn a_node_that_has_not_reported_still_has_its_label() {
        let raw = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "amd64"}}});
        assert_eq!(node(&raw).unwrap().1.arch, "amd64");
        assert!(!node(&raw).unwrap().1.unschedulable);
        assert!(node(&json!({"metadata": {}})).is_none());
    }

    #[test]
    fn what_decides_where_pods_may_land_is_carried() {
        let mut raw = labelled("64K");
        raw["spec"] = json!({"unschedulable": true, "taints": [
            {"key": "dedicated", "value": "cache", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        ]});
        let (_, node) = node(&raw).unwrap();
        assert_eq!(node.labels[PAGE_SIZE], "64K", "as written, for the message");
        assert!(node.unschedulable);
        let taints: Vec<(&str, &str, &str)> = node
            .taints
            .iter()
            .map(|taint| {
                (
                    taint.key.as_str(),
                    taint.value.as_str(),
                    taint.effect.as_str(),
                )
            })
            .collect();
        assert_eq!(
            taints,
            [
                ("dedicated", "cache", "NoSchedule"),
                ("node.kubernetes.io/unreachable", "", "NoExecute")
            ]
        );
    }
}
