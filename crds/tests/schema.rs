//! The definitions themselves: golden, small, described and bounded everywhere.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panic"
)]

use heapfleet_crds::{all, to_yaml};
use serde_json::{Map, Value};

/// An object of a schema and where it is.
struct Place<'a> {
    path: String,
    schema: &'a Map<String, Value>,
}

/// Every schema below `schema`, itself included; the conditions' own schema is Kubernetes'.
fn places<'a>(path: &str, schema: &'a Value, found: &mut Vec<Place<'a>>) {
    let Some(schema) = schema.as_object() else {
        return;
    };
    found.push(Place {
        path: path.to_owned(),
        schema,
    });
    if path.ends_with(".conditions") {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            places(&format!("{path}.{name}"), property, found);
        }
    }
    if let Some(items) = schema.get("items") {
        places(&format!("{path}[]"), items, found);
    }
    if let Some(values) = schema.get("additionalProperties") {
        places(&format!("{path}{{}}"), values, found);
    }
}

/// Calls `look` with the kind and the root schema of each definition.
fn for_each_schema(mut look: impl FnMut(&str, &Value)) {
    for (_, definition) in all() {
        let kind = definition.spec.names.kind.clone();
        let definition = serde_json::to_value(&definition).unwrap();
        look(
            &kind,
            &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        );
    }
}

/// Every schema of every kind.
fn for_each_place(mut look: impl FnMut(&str, &Place<'_>)) {
    for_each_schema(|kind, root| {
        let mut found = Vec::new();
        places("", root, &mut found);
        assert!(found.len() > 20, "{kind} has a schema");
        for place in &found {
            look(kind, place);
        }
    });
}

#[test]
fn the_committed_files_are_what_the_types_give() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    for (file, definition) in all() {
        let found = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        assert!(
            found == to_yaml(&definition).unwrap(),
            "crds/generated/{file} is stale; run: cargo run -p heapfleet-crds --bin crdgen -- --write"
        );
        let read: Value = serde_yaml::from_str(&found).unwrap();
        assert_eq!(
            read,
            serde_json::to_value(&definition).unwrap(),
            "{file} reads back"
        );
    }
}

#[test]
fn plain_apply_can_carry_each_definition() {
    for (file, definition) in all() {
        let bytes = serde_json::to_vec(&definition).unwrap().len();
        assert!(bytes < 128 * 1024, "{file} is {bytes} bytes as JSON");
    }
}

#[test]
fn every_field_is_described() {
    for_each_place(|kind, place| {
        let field = place.path.rsplit('.').next().unwrap_or_default();
        let is_property = !field.is_empty() && !field.ends_with("[]") && !field.ends_with("{}");
        if is_property && place.path != ".metadata" {
            let description = place
                .schema
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            assert!(
                description.len() >= 10,
                "{kind}{} says: {description:?}",
                place.path
            );
            assert!(
                description.ends_with('.'),
                "{kind}{} says: {description:?}",
                place.path
            );
        }
    });
}

#[test]
fn every_default_is_in_its_description() {
    for_each_place(|kind, place| {
        let Some(default) = place.schema.get("default") else {
            return;
        };
        let word = match default {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                "efault".to_owned()
            }
        };
        let description = place
            .schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let in_status = place.path.starts_with(".status");
        let frozen = kind == "AllocatorRollout" && place.path.starts_with(".spec.plan");
        let nested = default.is_object();
        assert!(
            in_status || frozen || nested || description.contains(&word),
            "{kind}{} has the default {word}, but says: {description:?}",
            place.path
        );
    });
}

#[test]
fn every_list_map_and_text_is_bounded() {
    for_each_place(|kind, place| {
        let at = format!("{kind}{}", place.path);
        let has = |key: &str| place.schema.contains_key(key);
        match place.schema.get("type").and_then(Value::as_str) {
            Some("string") => {
                let dated = place
                    .schema
                    .get("format")
                    .is_some_and(|format| format == "date-time");
                assert!(
                    has("maxLength") || has("enum") || dated,
                    "{at} is an unbounded string"
                );
            }
            Some("array") => assert!(has("maxItems"), "{at} is an unbounded list"),
            Some("object") => assert!(
                !has("additionalProperties") || has("maxProperties"),
                "{at} is an unbounded map"
            ),
            Some("integer" | "boolean") => {}
            other => assert!(
                has("x-kubernetes-int-or-string"),
                "{at} has the type {other:?}"
            ),
        }
        assert!(
            !has("x-kubernetes-preserve-unknown-fields"),
            "{at} keeps unknown fields"
        );
        assert!(!has("nullable"), "{at} is nullable");
        let format = place.schema.get("format").and_then(Value::as_str);
        assert!(
            matches!(format, None | Some("int32" | "int64" | "date-time")),
            "{at} has the format {format:?}"
        );
    });
}

#[test]
fn every_list_says_how_it_merges() {
    for_each_place(|kind, place| {
        if place.schema.get("type").is_some_and(|kind| kind == "array") {
            assert!(
                place.schema.contains_key("x-kubernetes-list-type"),
                "{kind}{} has no list type",
                place.path
            );
        }
    });
}

#[test]
fn every_rule_has_a_message() {
    for_each_place(|kind, place| {
        let rules = place
            .schema
            .get("x-kubernetes-validations")
            .and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            let spoken = rule
                .get("message")
                .or_else(|| rule.get("messageExpression"));
            assert!(spoken.is_some(), "{kind}{}: {rule}", place.path);
        }
    });
}

#[test]
fn names_are_as_users_type_them() {
    let expected = [
        ("AllocatorPolicy", "apol", "Namespaced", true),
        ("AllocatorRollout", "arol", "Namespaced", true),
        ("AllocatorClass", "acls", "Cluster", false),
        ("AllocatorRegion", "areg", "Cluster", true),
    ];
    for ((_, definition), (kind, short, scope, status)) in all().into_iter().zip(expected) {
        let names = &definition.spec.names;
        assert_eq!(names.kind, kind);
        assert_eq!(
            names.short_names.as_deref(),
            Some(&[short.to_owned()][..]),
            "{kind}"
        );
        assert_eq!(
            names.categories.as_deref(),
            Some(&["heapfleet".to_owned()][..]),
            "{kind}"
        );
        assert_eq!(definition.spec.scope, scope, "{kind}");
        assert_eq!(definition.spec.group, heapfleet_crds::GROUP);
        let [version] = definition.spec.versions.as_slice() else {
            panic!("{kind} has one version");
        };
        assert_eq!(version.name, heapfleet_crds::VERSION);
        assert!(version.served && version.storage);
        let subresource = version
            .subresources
            .as_ref()
            .is_some_and(|subresources| subresources.status.is_some());
        assert_eq!(subresource, status, "{kind}");
    }
}

#[test]
fn columns_are_those_of_the_story() {
    let columns = |index: usize, wide: bool| -> Vec<String> {
        let (_, definition) = all().swap_remove(index);
        let columns = definition.spec.versions[0]
            .additional_printer_columns
            .clone();
        let columns = columns.unwrap_or_default().into_iter();
        columns
            .filter(|column| (column.priority.unwrap_or(0) > 0) == wide)
            .map(|column| column.name.to_uppercase())
            .collect()
    };
    assert_eq!(
        columns(0, false),
        ["CLASS", "PHASE", "CANARY", "RATIO", "WAVES", "READY", "AGE"]
    );
    assert_eq!(columns(0, true), ["REASON", "ROLLOUT"]);
    assert_eq!(
        columns(1, false),
        ["POLICY", "PHASE", "REGION", "VERDICT", "AGE"]
    );
}
