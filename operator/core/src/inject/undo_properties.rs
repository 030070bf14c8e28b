//! Any template comes back to the byte, whatever the delivery, and whatever its owner did meanwhile.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::parts_tests::{change, copy, of_pod, volume, with};
use super::tests::{allocator, apply, object, workload};
use super::{JournalRecord, Presence, Restored, presence, restored, undo};
use crate::plan::{Allocator, Delivery};

/// A list that is absent, empty or holds items of the owner's.
fn list(item: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Option<Vec<Value>>> {
    prop_oneof![Just(None), prop::collection::vec(item, 0..3).prop_map(Some)]
}

fn named(prefix: &'static str) -> impl Strategy<Value = Value> {
    (0_u8..100).prop_map(move |n| json!({"name": format!("{prefix}{n}")}))
}

fn env() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0_u8..100).prop_map(|n| json!({"name": format!("VAR{n}"), "value": n.to_string()})),
        (0_u8..100).prop_map(
            |n| json!({"name": format!("REF{n}"), "valueFrom": {"fieldRef": {"fieldPath": "x"}}})
        ),
        Just(json!({"name": "LD_PRELOAD", "value": "libnss_wrapper.so libx.so"})),
        Just(json!({"name": "LD_PRELOAD"})),
    ]
}

fn mount() -> impl Strategy<Value = Value> {
    (0_u8..100).prop_map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/data/{n}")}))
}

fn put(into: &mut Value, key: &str, list: Option<Vec<Value>>) {
    if let Some(list) = list {
        into[key] = Value::from(list);
    }
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    (list(env()), list(mount()), any::<bool>()).prop_map(move |(env, mounts, limits)| {
        let mut container = json!({"name": name, "image": "app:1"});
        put(&mut container, "env", env);
        put(&mut container, "volumeMounts", mounts);
        if limits {
            container["resources"] = json!({"limits": {"memory": "1Gi"}});
        }
        container
    })
}

/// Pod specs of any shape that matters here; `server` is the container that is changed.
fn pod() -> impl Strategy<Value = Value> {
    let containers = prop_oneof![
        container("server").prop_map(|one| vec![one]),
        (container("side"), container("server")).prop_map(|(a, b)| vec![a, b]),
        (container("server"), container("side")).prop_map(|(a, b)| vec![a, b]),
    ];
    (containers, list(named("v")), list(named("init"))).prop_map(|(containers, volumes, init)| {
        let mut pod = json!({"containers": containers});
        put(&mut pod, "volumes", volumes);
        put(&mut pod, "initContainers", init);
        pod
    })
}

fn annotations() -> impl Strategy<Value = Option<Vec<(&'static str, &'static str)>>> {
    prop_oneof![
        Just(None),
        Just(Some(Vec::new())),
        Just(Some(vec![("owner", "them")])),
    ]
}

fn deliveries() -> impl Strategy<Value = Allocator> {
    prop_oneof![
        Just(volume()),
        Just(copy()),
        Just(allocator()),
        Just(with(Delivery::PreloadInImage {
            path: "libjemalloc.so.2".to_owned()
        })),
        Just(Allocator {
            options: allocator().options,
            ..with(Delivery::Linked)
        }),
    ]
}

/// What an owner may do to a template while our change is in it.
#[derive(Clone, Debug)]
enum Edit {
    Image,
    Add(&'static str, bool),
    AddToServer(&'static str, bool),
    NewContainer,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        Just(Edit::Image),
        (
            prop::sample::select(vec!["volumes", "initContainers"]),
            any::<bool>()
        )
            .prop_map(|(list, front)| Edit::Add(list, front)),
        (
            prop::sample::select(vec!["env", "volumeMounts"]),
            any::<bool>()
        )
            .prop_map(|(list, front)| Edit::AddToServer(list, front)),
        Just(Edit::NewContainer),
    ];
    prop::collection::vec(edit, 0..4)
}

fn make(edits: &[Edit], pod: &mut Value) {
    let insert = |into: &mut Value, key: &str, front: bool, item: Value| {
        let list = &mut into[key];
        if list.is_null() {
            *list = json!([]);
        }
        let list = list.as_array_mut().unwrap();
        // At the end would be behind ours, at the front before the owner's own: both keep the owner's order.
        let at = if front { 0 } else { list.len() };
        list.insert(at, item);
    };
    for (i, edit) in edits.iter().enumerate() {
        let server = pod["containers"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .find(|one| one["name"] == "server")
            .unwrap();
        match edit {
            Edit::Image => server["image"] = json!("app:2"),
            Edit::Add(key, front) => {
                insert(pod, key, *front, json!({"name": format!("new{i}")}));
            }
            Edit::AddToServer(key, front) => {
                let item = json!({"name": format!("NEW{i}"), "mountPath": format!("/new/{i}")});
                insert(server, key, *front, item);
            }
            Edit::NewContainer => pod["containers"]
                .as_array_mut()
                .unwrap()
                .insert(0, json!({"name": format!("new{i}")})),
        }
    }
}

/// Whether the template has no variable twice, which is refused.
fn plain(pod: &Value) -> bool {
    let server = pod["containers"].as_array().unwrap();
    let server = server.iter().find(|one| one["name"] == "server").unwrap();
    let empty = Vec::new();
    let env = server["env"].as_array().unwrap_or(&empty);
    env.iter()
        .filter(|entry| entry["name"] == "LD_PRELOAD")
        .count()
        < 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// undo(apply(x)) = x, byte for byte, for any delivery and any template; the journalled inverse is what is sent.
    #[test]
    fn any_template_comes_back_to_the_byte(pod in pod(), annotations in annotations(), allocator in deliveries()) {
        prop_assume!(plain(&pod));
        let mut before = workload(&json!([]), annotations.as_deref());
        before.template["spec"] = pod;
        let record = change(&before, &allocator).record;
        let after = apply(&before, &record.patch).unwrap();
        prop_assert_eq!(presence(&before, &record), Presence::Absent);
        prop_assert_eq!(presence(&after, &record), Presence::Present);
        prop_assert!(apply(&after, &record.patch).is_none(), "a repeat changes nothing");
        let stored: JournalRecord =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        prop_assert_eq!(&stored, &record);
        let sent = undo(&after, &stored).unwrap();
        prop_assert_eq!(&sent[3..sent.len() - 1], record.inverse.as_slice());
        let back = apply(&after, &sent).unwrap();
        prop_assert_eq!(object(&back)["spec"].to_string(), object(&before)["spec"].to_string());
        prop_assert_eq!(&back.annotations, &before.annotations);
        prop_assert_eq!(presence(&back, &record), Presence::Absent);
        prop_assert_eq!(restored(&back, &record), Ok(Restored::Exact));
    }

    /// undo(edit(apply(x))) = edit(x): the owner's work meanwhile stays, and nothing of ours.
    #[test]
    fn what_the_owner_adds_meanwhile_stays(pod in pod(), edits in edits(), allocator in deliveries()) {
        prop_assume!(plain(&pod));
        let before = of_pod(&pod);
        let record = change(&before, &allocator).record;
        let mut seen = apply(&before, &record.patch).unwrap();
        make(&edits, &mut seen.template["spec"]);
        let mut expected = before;
        make(&edits, &mut expected.template["spec"]);
        let back = apply(&seen, &undo(&seen, &record).unwrap()).unwrap();
        prop_assert_eq!(&back.template, &expected.template);
    }
}
