//! Takes a class whose library comes beside the application, gives what is added to the pod template for it: a volume, its
//! mount in the container, and for a copy an init container. Gives the operations that add them and those that take exactly
//! them away again. Never touches an item of somebody else.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::eligible::{Ineligible, refuse};
use super::patch;
use super::version::version;
use crate::decision::Reason;
use crate::names::WorkloadId;
use crate::plan::{Allocator, Delivery, Mounted};
use crate::world::ClusterView;

/// The volume that holds the library.
pub(super) const VOLUME: &str = "heapfleet-allocator";
/// The init container that copies it.
pub(super) const COPY: &str = "heapfleet-copy";
/// Where the init container has the empty volume.
const TARGET: &str = "/heapfleet-out";
/// More than any allocator's library needs.
const VOLUME_SIZE: &str = "32Mi";
/// The user that copies, where the pod names none: no root, no user of the application.
const COPY_USER: u32 = 65_532;

/// Copies to another name, compares and renames, so that the library is there whole or not at all: a truncated library
/// kills the process without a message. `$1` is the library in the image, `$2` where it belongs.
const SCRIPT: &str =
    r#"mkdir -p "${2%/*}"; cp "$1" "$2.part"; cmp "$1" "$2.part"; mv "$2.part" "$2""#;

/// The oldest runtimes that mount images, and the oldest kubelet that asks them to.
const RUNTIMES: [(&str, (u32, u32, u32)); 2] =
    [("containerd://", (2, 1, 0)), ("cri-o://", (1, 31, 0))];
const KUBELET: (u32, u32, u32) = (1, 34, 0);

/// A list of the pod template that an item is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartList {
    /// `spec.volumes`.
    Volumes,
    /// `spec.initContainers`.
    InitContainers,
    /// `volumeMounts` of the container that is changed.
    Mounts,
}

/// One item that was added to a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The list.
    pub list: PartList,
    /// The item as it was written.
    pub value: Value,
    /// Whether the list was there before.
    pub existed: bool,
}

impl PartList {
    /// Its place below a template, as a JSON pointer.
    fn pointer(self, container: usize) -> String {
        match self {
            Self::Volumes => "/spec/volumes".to_owned(),
            Self::InitContainers => "/spec/initContainers".to_owned(),
            Self::Mounts => format!("/spec/containers/{container}/volumeMounts"),
        }
    }

    /// The field by which an item is told from the others.
    fn key(self) -> &'static str {
        match self {
            Self::Volumes | Self::InitContainers => "name",
            Self::Mounts => "mountPath",
        }
    }
}

impl Part {
    /// As messages name it.
    pub(super) fn label(&self) -> String {
        let what = match self.list {
            PartList::Volumes => "volume",
            PartList::InitContainers => "init container",
            PartList::Mounts => "mount",
        };
        let key = self.value.get(self.list.key()).and_then(Value::as_str);
        format!("{what} {}", key.unwrap_or_default())
    }

    /// Where it stands in a template, and how it stands there.
    pub(super) fn find<'a>(
        &self,
        template: &'a Value,
        container: Option<usize>,
    ) -> Option<(usize, &'a Value)> {
        let index = match (self.list, container) {
            (PartList::Mounts, None) => return None,
            (_, index) => index.unwrap_or_default(),
        };
        let key = self.list.key();
        let wanted = self.value.get(key)?;
        items(template, &self.list.pointer(index))
            .iter()
            .enumerate()
            .find(|(_, item)| item.get(key) == Some(wanted))
    }

    /// Whether it stands there as it was written; what the API server filled in besides does not matter.
    pub(super) fn intact(&self, template: &Value, container: Option<usize>) -> bool {
        self.find(template, container)
            .is_some_and(|(_, now)| contains(now, &self.value))
    }
}

fn items<'a>(template: &'a Value, pointer: &str) -> &'a [Value] {
    template
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Whether everything that was written is in what stands there now.
fn contains(now: &Value, written: &Value) -> bool {
    match (now, written) {
        (Value::Object(now), Value::Object(written)) => written
            .iter()
            .all(|(key, value)| now.get(key).is_some_and(|now| contains(now, value))),
        _ => now == written,
    }
}

/// The library's path in the process, where it comes beside the application.
pub(super) fn library_path(mounted: &Mounted) -> String {
    format!("{}/{}", mounted.mount_path, mounted.path)
}

/// What is to be added for the allocator, in the order in which it is written.
fn wanted(template: &Value, allocator: &Allocator) -> Vec<(PartList, Value)> {
    let mount = |mounted: &Mounted| {
        let mount = json!({"name": VOLUME, "mountPath": mounted.mount_path, "readOnly": true});
        (PartList::Mounts, mount)
    };
    match &allocator.delivery {
        Delivery::PreloadImageVolume(mounted) => {
            let image = json!({"reference": mounted.image, "pullPolicy": "IfNotPresent"});
            vec![
                (PartList::Volumes, json!({"name": VOLUME, "image": image})),
                mount(mounted),
            ]
        }
        Delivery::PreloadInitCopy(mounted) => {
            let empty = json!({"sizeLimit": VOLUME_SIZE});
            vec![
                (
                    PartList::Volumes,
                    json!({"name": VOLUME, "emptyDir": empty}),
                ),
                (PartList::InitContainers, copy(template, mounted)),
                mount(mounted),
            ]
        }
        Delivery::PreloadInImage { .. }
        | Delivery::Linked
        | Delivery::Tunables
        | Delivery::Unsupported { .. } => Vec::new(),
    }
}

/// The init container, with everything that the API server would fill in, so that it reads back as it was written.
/// Restricted as Pod Security asks it (`restricted`).
fn copy(template: &Value, mounted: &Mounted) -> Value {
    let mut security = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let pod_user = template
        .pointer("/spec/securityContext/runAsUser")
        .and_then(Value::as_u64);
    if pod_user.is_none_or(|user| user == 0)
        && let Some(fields) = security.as_object_mut()
    {
        fields.insert("runAsUser".to_owned(), json!(COPY_USER));
    }
    json!({
        "name": COPY,
        "image": mounted.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/bin/sh", "-ec", SCRIPT, "copy",
            format!("/{}", mounted.path),
            format!("{TARGET}/{}", mounted.path),
        ],
        "resources": resources(template),
        "securityContext": security,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": VOLUME, "mountPath": TARGET}],
    })
}

/// Resources of the init container that leave the pod in the quality-of-service class that it has: another class would be
/// another difference between the arms than the allocator. A pod needs the larger of its init containers' and its
/// containers' requests, so that so little does not change where it fits.
fn resources(template: &Value) -> Value {
    let all: Vec<&Value> = ["/spec/containers", "/spec/initContainers"]
        .iter()
        .flat_map(|pointer| items(template, pointer))
        .collect();
    let some = |kind: &str, container: &Value| {
        container
            .pointer(&format!("/resources/{kind}"))
            .and_then(Value::as_object)
            .is_some_and(|map| !map.is_empty())
    };
    let any = all
        .iter()
        .any(|one| some("requests", one) || some("limits", one));
    let of_pod = template.pointer("/spec/resources").is_some();
    if !any && !of_pod {
        return json!({});
    }
    let equal = |container: &Value, resource: &str| {
        let of = |kind: &str| container.pointer(&format!("/resources/{kind}/{resource}"));
        of("limits").is_some_and(|limit| of("requests").is_none_or(|request| request == limit))
    };
    let guaranteed = all
        .iter()
        .all(|one| equal(one, "cpu") && equal(one, "memory"));
    if guaranteed {
        json!({
            "limits": {"cpu": "100m", "memory": "64Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        })
    } else {
        json!({
            "limits": {"memory": "64Mi"},
            "requests": {"cpu": "10m", "memory": "16Mi"},
        })
    }
}

/// Refuses a template in which a name or a path of ours is taken already.
pub(super) fn check_parts(
    id: &WorkloadId,
    container: &str,
    template: &Value,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    let (Delivery::PreloadImageVolume(mounted) | Delivery::PreloadInitCopy(mounted)) =
        &allocator.delivery
    else {
        return Ok(());
    };
    let taken = |what: &str, remedy: &str| {
        Err(refuse(
            Reason::InjectionConflict,
            format!(
                "{id}: {what}, which class {} needs; {remedy}.",
                allocator.class
            ),
        ))
    };
    let named = |pointer: &str, name: &str| {
        items(template, pointer)
            .iter()
            .any(|item| item.get("name").and_then(Value::as_str) == Some(name))
    };
    if named("/spec/volumes", VOLUME) {
        return taken(
            &format!("it has a volume {VOLUME} already"),
            "rename that one",
        );
    }
    if named("/spec/initContainers", COPY) || named("/spec/containers", COPY) {
        return taken(
            &format!("it has a container {COPY} already"),
            "rename that one",
        );
    }
    let body = patch::container(template, container);
    let paths = [
        ("volumeMounts", "mountPath"),
        ("volumeDevices", "devicePath"),
    ];
    let used = paths.iter().find_map(|(list, key)| {
        body?
            .get(*list)?
            .as_array()?
            .iter()
            .filter_map(|item| item.get(*key)?.as_str())
            .find(|path| overlap(path, &mounted.mount_path))
    });
    match used {
        Some(path) => taken(
            &format!(
                "container {container} mounts {path}, which overlaps {}",
                mounted.mount_path
            ),
            "have the class mount elsewhere (spec.preload.library.mountPath)",
        ),
        None => Ok(()),
    }
}

/// Whether one path is the other, or below it.
fn overlap(one: &str, other: &str) -> bool {
    let below = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let (one, other) = (one.trim_end_matches('/'), other.trim_end_matches('/'));
    below(one, other) || below(other, one)
}

/// Refuses nodes whose runtime cannot mount images: the API takes such a pod, and it never starts.
pub(super) fn check_nodes(
    id: &WorkloadId,
    cluster: &ClusterView,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    if !matches!(allocator.delivery, Delivery::PreloadImageVolume(_)) {
        return Ok(());
    }
    let able = |runtime: &str, kubelet: &str| {
        let of_runtime = RUNTIMES.iter().any(|(scheme, oldest)| {
            let found = runtime.strip_prefix(scheme).and_then(version);
            found.is_some_and(|found| found >= *oldest)
        });
        let of_kubelet = version(kubelet.trim_start_matches('v'));
        of_runtime && of_kubelet.is_some_and(|found| found >= KUBELET)
    };
    let unable = cluster
        .nodes
        .iter()
        .find(|(_, node)| !able(&node.runtime, &node.kubelet));
    match unable {
        None => Ok(()),
        Some((name, node)) => Err(refuse(
            Reason::ImageVolumeUnsupported,
            format!(
                "{id}: node {name} runs {} and kubelet {}, which cannot mount images (Kubernetes 1.34 with containerd 2.1 or CRI-O 1.31 can); use a class with source InitCopy, or update the node.",
                or_unknown(&node.runtime),
                or_unknown(&node.kubelet)
            ),
        )),
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() {
        "an unknown version"
    } else {
        text
    }
}

/// The operations on an object that add what is wanted, and what they add.
pub(super) fn add_ops(
    template: &Value,
    container: usize,
    allocator: &Allocator,
) -> (Vec<Value>, Vec<Part>) {
    wanted(template, allocator)
        .into_iter()
        .map(|(list, value)| {
            let pointer = list.pointer(container);
            let existed = template.pointer(&pointer).is_some();
            let path = format!("/spec/template{pointer}");
            let op = if existed {
                json!({"op": "add", "path": format!("{path}/-"), "value": value})
            } else {
                json!({"op": "add", "path": path, "value": [value]})
            };
            let part = Part {
                list,
                value,
                existed,
            };
            (op, part)
        })
        .unzip()
}

/// The operations on an object that take away what was added and still stands as it was written, each behind a test of
/// what stands there. A list that came with our item goes with it.
pub(super) fn remove_ops(template: &Value, container: Option<usize>, parts: &[Part]) -> Vec<Value> {
    let mut ops = Vec::new();
    for part in parts.iter().rev() {
        let Some((at, now)) = part.find(template, container) else {
            continue;
        };
        if !contains(now, &part.value) {
            continue;
        }
        let pointer = part.list.pointer(container.unwrap_or_default());
        let list = format!("/spec/template{pointer}");
        let alone = items(template, &pointer).len() == 1 && !part.existed;
        let path = if alone { list } else { format!("{list}/{at}") };
        let value = if alone { json!([now]) } else { now.clone() };
        ops.push(json!({"op": "test", "path": path, "value": value}));
        ops.push(json!({"op": "remove", "path": path}));
    }
    ops
}

/// A container other than ours that mounts our volume: without the volume the template would not be valid.
pub(super) fn mounted_elsewhere<'a>(
    template: &'a Value,
    container: &str,
    parts: &[Part],
) -> Option<&'a str> {
    if !parts.iter().any(|part| part.list == PartList::Volumes) {
        return None;
    }
    let name = |one: &'a Value| one.get("name").and_then(Value::as_str);
    ["/spec/containers", "/spec/initContainers"]
        .iter()
        .flat_map(|pointer| items(template, pointer))
        .filter(|one| !matches!(name(one), Some(known) if known == container || known == COPY))
        .find(|one| {
            one.get("volumeMounts")
                .and_then(Value::as_array)
                .is_some_and(|mounts| {
                    mounts
                        .iter()
                        .any(|mount| mount.get("name").and_then(Value::as_str) == Some(VOLUME))
                })
        })
        .and_then(name)
}
