//! Takes the hub's API, says what is missing there: a kind, or a field of a kind. An operator that ran on older CRDs would
//! have its fields dropped in silence by the API server. Never writes.

use heapfleet_crds::{GROUP, VERSION, all};
use serde_json::Value;

use crate::clusters::{ClusterError, Reader};

/// How to install what is missing.
const REMEDY: &str = "apply the CRDs of this version: heapfleet crds | kubectl apply -f -";

/// The first thing that is missing, with the remedy; `None`: all is there.
pub(super) async fn missing(hub: &Reader) -> Option<String> {
    match hub
        .raw(&format!("/openapi/v3/apis/{GROUP}/{VERSION}"))
        .await
    {
        Ok(served) => lacking(&served),
        Err(ClusterError::NotFound { .. }) => {
            Some(format!("the kinds of {GROUP} are not installed; {REMEDY}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn lacking(served: &Value) -> Option<String> {
    all().into_iter().find_map(|(_, definition)| {
        let kind = &definition.spec.names.kind;
        let Some(served) = served_schema(served, kind) else {
            return Some(format!("the kind {kind} is not installed; {REMEDY}"));
        };
        let version = definition.spec.versions.first()?;
        let ours = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        let ours = serde_json::to_value(ours).ok()?;
        let field = ["spec", "status"].into_iter().find_map(|part| {
            let ours = ours.pointer(&format!("/properties/{part}"))?;
            absent(ours, served.pointer(&format!("/properties/{part}")), part)
        })?;
        Some(format!(
            "the installed {kind} lacks the field {field}; {REMEDY}"
        ))
    })
}

fn served_schema<'a>(served: &'a Value, kind: &str) -> Option<&'a Value> {
    let schemas = served.pointer("/components/schemas")?.as_object()?;
    schemas.values().find(|schema| {
        let kinds = schema
            .get("x-kubernetes-group-version-kind")
            .and_then(Value::as_array);
        kinds.into_iter().flatten().any(|gvk| {
            gvk.get("kind").and_then(Value::as_str) == Some(kind)
                && gvk.get("group").and_then(Value::as_str) == Some(GROUP)
        })
    })
}

/// The path of the first field that `ours` has and `served` has not.
fn absent(ours: &Value, served: Option<&Value>, path: &str) -> Option<String> {
    let Some(served) = served else {
        return Some(path.to_owned());
    };
    if let Some(items) = ours.get("items") {
        return absent(items, served.get("items"), &format!("{path}[]"));
    }
    let properties = ours.get("properties").and_then(Value::as_object)?;
    properties.iter().find_map(|(name, ours)| {
        let served = served
            .get("properties")
            .and_then(|properties| properties.get(name));
        absent(ours, served, &format!("{path}.{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served() -> Value {
        let schemas: serde_json::Map<String, Value> = all()
            .into_iter()
            .map(|(file, definition)| {
                let kind = &definition.spec.names.kind;
                let schema = definition.spec.versions[0].schema.as_ref().unwrap();
                let mut schema = serde_json::to_value(&schema.open_api_v3_schema).unwrap();
                schema["x-kubernetes-group-version-kind"] =
                    json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
                (file.to_owned(), schema)
            })
            .collect();
        json!({"components": {"schemas": schemas}})
    }

    #[test]
    fn nothing_is_missing_where_all_is_served() {
        assert_eq!(lacking(&served()), None);
    }

    #[test]
    fn a_kind_or_a_field_that_is_missing_is_named() {
        let mut without = served();
        without
            .pointer_mut("/components/schemas")
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove("allocatorregions.yaml");
        let missing = lacking(&without).unwrap();
        assert!(
            missing.starts_with("the kind AllocatorRegion is not installed; apply"),
            "{missing}"
        );

        let mut older = served();
        let waves = "/components/schemas/allocatorpolicies.yaml/properties/spec/properties/rollout/properties/waves/items/properties";
        older
            .pointer_mut(waves)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove("bake");
        let missing = lacking(&older).unwrap();
        assert!(
            missing.starts_with(
                "the installed AllocatorPolicy lacks the field spec.rollout.waves[].bake;"
            ),
            "{missing}"
        );
    }
}
