//! Small readings of raw API objects. Never changes one.

use std::collections::BTreeMap;

use serde_json::Value;

/// The text at a JSON pointer.
pub(super) fn text<'a>(raw: &'a Value, pointer: &str) -> Option<&'a str> {
    raw.pointer(pointer).and_then(Value::as_str)
}

/// The number at a JSON pointer; absent counts as zero, as the API omits zeros.
pub(super) fn count(raw: &Value, pointer: &str) -> u32 {
    raw.pointer(pointer)
        .and_then(Value::as_u64)
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or_default()
}

/// A map of strings at a JSON pointer; `None` when it is absent.
pub(super) fn strings(raw: &Value, pointer: &str) -> Option<BTreeMap<String, String>> {
    let map = raw.pointer(pointer)?.as_object()?;
    Some(
        map.iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    )
}

/// Whether the object with this uid controls it.
pub(super) fn owned_by(raw: &Value, uid: &str) -> bool {
    let owners = raw
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| {
        owner.get("controller").and_then(Value::as_bool) == Some(true)
            && owner.get("uid").and_then(Value::as_str) == Some(uid)
    })
}
