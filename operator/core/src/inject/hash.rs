//! Takes JSON, gives its SHA-256 in our own canonical form: keys sorted, no white space, numbers as `serde_json` writes them.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of the canonical form, as 64 hexadecimal digits.
pub fn canonical_hash(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        let _never = write!(text, "{byte:02x}");
        text
    })
}

/// [`canonical_hash`] of a pod template.
pub fn template_hash(template: &Value) -> String {
    canonical_hash(template)
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                if let Some(inner) = map.get(key) {
                    write_canonical(inner, out);
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}
