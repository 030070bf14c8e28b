//! Takes an object and a JSON patch, gives the object as the API server would leave it. Never talks to one.

use serde_json::Value;

/// The object after the patch, or `None` where a test fails or a path does not exist: nothing changes then.
///
/// RFC 6902, but as the API server reads it: a test for `null` also passes where the key is absent.
pub fn apply(object: &Value, ops: &[Value]) -> Option<Value> {
    let absent = |op: &&Value| {
        let path = op.get("path").and_then(Value::as_str).unwrap_or_default();
        let tests_null = op.get("op").is_some_and(|name| name == "test")
            && op.get("value").is_none_or(Value::is_null);
        tests_null && object.pointer(path).is_none()
    };
    let ops: Vec<&Value> = ops.iter().filter(|op| !absent(op)).collect();
    let patch: json_patch::Patch = serde_json::from_value(serde_json::json!(ops)).ok()?;
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).ok()?;
    Some(after)
}
