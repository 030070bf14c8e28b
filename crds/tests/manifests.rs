//! The manifests that people read: examples are read completely, bad and good files have their form.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod common;

use common::{crate_folder, documents, yaml_files};
use heapfleet_crds::{AllocatorClass, AllocatorPolicy, AllocatorRegion, AllocatorRollout, all};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Reads a document as its kind and writes it again.
fn through_its_type(document: &Value) -> Result<Value, String> {
    fn through<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
        document: &Value,
    ) -> Result<Value, String> {
        let read: T = serde_json::from_value(document.clone()).map_err(|e| e.to_string())?;
        let written = serde_json::to_value(&read).map_err(|e| e.to_string())?;
        let again: T = serde_json::from_value(written.clone()).map_err(|e| e.to_string())?;
        assert_eq!(read, again, "reads back as it was written");
        Ok(written)
    }
    match document["kind"].as_str() {
        Some("AllocatorPolicy") => through::<AllocatorPolicy>(document),
        Some("AllocatorRollout") => through::<AllocatorRollout>(document),
        Some("AllocatorClass") => through::<AllocatorClass>(document),
        Some("AllocatorRegion") => through::<AllocatorRegion>(document),
        other => Err(format!("the kind is {other:?}")),
    }
}

/// Everything of `small` is in `large`: no field was ignored. An empty list, map or text may be absent.
fn contained(path: &str, small: &Value, large: &Value) {
    match (small, large) {
        (Value::Object(small), Value::Object(large)) => {
            for (key, value) in small {
                let empty = value == &json!([]) || value == &json!({}) || value == &json!("");
                match large.get(key) {
                    Some(other) => contained(&format!("{path}.{key}"), value, other),
                    None => assert!(empty, "{path}.{key} is not a field of its kind"),
                }
            }
        }
        (Value::Array(small), Value::Array(large)) => {
            assert_eq!(small.len(), large.len(), "{path}");
            for (index, (small, large)) in small.iter().zip(large).enumerate() {
                contained(&format!("{path}[{index}]"), small, large);
            }
        }
        _ => assert_eq!(small, large, "{path}"),
    }
}

/// Fills in the schema's defaults, as an API server does.
fn defaulted(value: &mut Value, schema: &Value) {
    if let (Some(object), Some(properties)) =
        (value.as_object_mut(), schema["properties"].as_object())
    {
        for (name, property) in properties {
            if !object.contains_key(name)
                && let Some(default) = property.get("default")
            {
                object.insert(name.clone(), default.clone());
            }
            if let Some(value) = object.get_mut(name) {
                defaulted(value, property);
            }
        }
    }
    for item in value.as_array_mut().into_iter().flatten() {
        defaulted(item, &schema["items"]);
    }
}

/// A document without its nulls, which an API server drops.
fn without_nulls(value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
        object.values_mut().for_each(without_nulls);
    }
}

#[test]
fn every_example_is_read_completely() {
    let examples = crate_folder().join("../manifests/examples");
    let mut kinds = std::collections::BTreeSet::new();
    for path in yaml_files(&examples) {
        for document in documents(&path) {
            let written = through_its_type(&document)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            contained(&path.display().to_string(), &document, &written);
            kinds.insert(document["kind"].to_string());
        }
    }
    assert_eq!(
        kinds.len(),
        3,
        "policies, classes and regions, not rollouts: {kinds:?}"
    );
}

#[test]
fn the_complete_policy_has_every_field() {
    let path = crate_folder().join("../manifests/examples/policy-complete.yaml");
    let document = documents(&path).remove(0);
    let (_, definition) = all().remove(0);
    let definition = serde_json::to_value(&definition).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for part in ["allocator", "target", "rollout", "analysis"] {
        let properties = schema["spec"]["properties"][part]["properties"]
            .as_object()
            .unwrap();
        for field in properties.keys() {
            assert!(
                document["spec"][part].get(field).is_some(),
                "spec.{part}.{field} is missing"
            );
        }
    }
    for field in schema["spec"]["properties"].as_object().unwrap().keys() {
        assert!(
            document["spec"].get(field).is_some(),
            "spec.{field} is missing"
        );
    }
}

#[test]
fn types_and_schemas_have_the_same_defaults() {
    let schemas: Vec<(String, Value)> = all()
        .into_iter()
        .map(|(_, definition)| {
            let kind = definition.spec.names.kind.clone();
            let definition = serde_json::to_value(definition).unwrap();
            (
                kind,
                definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone(),
            )
        })
        .collect();
    let mut files = yaml_files(&crate_folder().join("../manifests/examples"));
    files.extend(yaml_files(&crate_folder().join("tests/good")));
    for path in files {
        for mut document in documents(&path) {
            without_nulls(&mut document);
            let by_type = through_its_type(&document).unwrap();
            let (_, schema) = schemas
                .iter()
                .find(|(kind, _)| document["kind"] == kind.as_str())
                .unwrap();
            defaulted(&mut document, schema);
            let by_schema = through_its_type(&document).unwrap();
            assert_eq!(by_type, by_schema, "{}", path.display());
        }
    }
}

#[test]
fn bad_files_have_their_form() {
    let files = yaml_files(&crate_folder().join("tests/bad"));
    assert!(files.len() >= 45, "{} bad manifests", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let documents = documents(&path);
        let expects = text
            .lines()
            .filter_map(|line| line.strip_prefix("# expect: "))
            .count();
        assert!(expects >= 1, "{} expects nothing", path.display());
        let update = text.lines().any(|line| line == "# update");
        assert_eq!(update, documents.len() > 1, "{}", path.display());
        for document in &documents {
            assert_eq!(
                document["apiVersion"],
                "heapfleet.dev/v1alpha1",
                "{}",
                path.display()
            );
            assert_eq!(
                document["metadata"]["name"],
                documents[0]["metadata"]["name"]
            );
            assert!(
                document["metadata"].get("namespace").is_none(),
                "{}",
                path.display()
            );
        }
    }
}

/// A word that YAML 1.1, which many tools read, takes for a boolean.
fn is_old_boolean(word: &str) -> bool {
    let word = word.trim().trim_start_matches("- ").to_lowercase();
    matches!(word.as_str(), "y" | "n" | "yes" | "no" | "on" | "off")
}

#[test]
fn no_plain_word_is_a_boolean_to_an_older_reader() {
    let root = crate_folder();
    for folder in ["../manifests/examples", "tests/bad", "tests/good"] {
        for path in yaml_files(&root.join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text
                .lines()
                .filter(|line| !line.trim_start().starts_with('#'))
            {
                for word in line.split([':', ',', '[', ']', '{', '}']) {
                    assert!(
                        !is_old_boolean(word),
                        "{}: quote {word}: {line}",
                        path.display()
                    );
                }
            }
        }
    }
    // Prose in block scalars may end in such a word; a value stands alone behind its key or dash.
    for path in yaml_files(&root.join("generated")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let value = line.split_once(": ").map_or(line, |(key, value)| {
                if key.trim().contains(' ') { "" } else { value }
            });
            let listed = line.trim_start().starts_with("- ") || line.contains(": ");
            assert!(
                !(listed && is_old_boolean(value)),
                "{}: quote {line}",
                path.display()
            );
        }
    }
}
