//! Takes a node as the API has it, gives what of it matters. Never guesses a page size: only the label's word is taken
//! here, the rest is the core's inference.

use heapfleet_core::world;
use serde_json::Value;

use crate::observe::quantity;

/// The label with which an admin says a node's page size.
const PAGE_SIZE: &str = "heapfleet.dev/page-size";

/// Name and view of a node; `None` for an object without a name.
pub(super) fn node(raw: &Value) -> Option<(String, world::Node)> {
    let text = |pointer: &str| raw.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name")?.to_owned();
    let label = raw
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(PAGE_SIZE))
        .and_then(Value::as_str)
        .and_then(quantity::bytes)
        .filter(|size| size.is_power_of_two() && *size >= 4_096);
    let arch = text("/status/nodeInfo/architecture")
        .filter(|arch| !arch.is_empty())
        .or_else(|| {
            raw.pointer("/metadata/labels")
                .and_then(|labels| labels.get("kubernetes.io/arch"))
                .and_then(Value::as_str)
        })
        .unwrap_or_default()
        .to_owned();
    let info = |field: &str| {
        let pointer = format!("/status/nodeInfo/{field}");
        text(&pointer).unwrap_or_default().to_owned()
    };
    Some((
        name,
        world::Node {
            arch,
            page_size_label: label,
            kernel: info("kernelVersion"),
            runtime: info("containerRuntimeVersion"),
            kubelet: info("kubeletVersion"),
        },
    ))
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
        assert!(node(&json!({"metadata": {}})).is_none());
    }
}
