//! Takes an allocator, gives the environment variables that load and configure it, and the operations that write them
//! beside those of the owner.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::parts::library_path;
use super::preload::separator;
use crate::plan::{Allocator, Delivery};

/// The variable that names libraries to load first.
pub(super) const LD_PRELOAD: &str = "LD_PRELOAD";
/// The variable that sets up glibc.
pub(super) const GLIBC_TUNABLES: &str = "GLIBC_TUNABLES";

/// One environment variable as it was and as we wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvWrite {
    /// Its name.
    pub name: String,
    /// What we wrote.
    pub value: String,
    /// What was there; `None`: the variable was absent.
    pub prior: Option<String>,
}

/// A variable that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// Exactly this value; a value that is there already belongs to the owner and is a conflict.
    Exactly(String),
    /// A library that joins what `LD_PRELOAD` holds already.
    Preload(String),
}

/// The variables that `allocator` needs, by name.
///
/// The options' variable is that of the build: `MALLOC_CONF` with the symbol prefix in capitals for jemalloc
/// (`_rjem_` reads `_RJEM_MALLOC_CONF`), `GLIBC_TUNABLES` for glibc (colons separate, a comma does not: `ld.so(8)`), one
/// `MIMALLOC_*` or `TCMALLOC_*` variable per option for the others.
pub fn wanted_env(allocator: &Allocator) -> BTreeMap<String, EnvValue> {
    let mut env = BTreeMap::new();
    let library = match &allocator.delivery {
        Delivery::PreloadInImage { path } => Some(path.clone()),
        Delivery::PreloadImageVolume(mounted) | Delivery::PreloadInitCopy(mounted) => {
            Some(library_path(mounted))
        }
        Delivery::Linked | Delivery::Tunables | Delivery::Unsupported { .. } => None,
    };
    if let Some(path) = library {
        env.insert(LD_PRELOAD.to_owned(), EnvValue::Preload(path));
    }
    match allocator.name.as_str() {
        "jemalloc" => {
            if !allocator.options.is_empty() {
                let name = format!("{}MALLOC_CONF", allocator.symbol_prefix.to_uppercase());
                let pairs: Vec<String> = allocator
                    .options
                    .iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                env.insert(name, EnvValue::Exactly(pairs.join(",")));
            }
        }
        "glibc" => {
            if !allocator.options.is_empty() {
                let pairs: Vec<String> = allocator
                    .options
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                env.insert(
                    GLIBC_TUNABLES.to_owned(),
                    EnvValue::Exactly(pairs.join(":")),
                );
            }
        }
        other => {
            for (key, value) in &allocator.options {
                let name = format!("{}_{}", other.to_uppercase(), key.to_uppercase());
                env.insert(name, EnvValue::Exactly(value.clone()));
            }
        }
    }
    for (name, value) in &allocator.env {
        env.insert(name.clone(), EnvValue::Exactly(value.clone()));
    }
    env
}

/// Where a variable stands in an `env` list, and how.
pub(super) fn env_entry<'a>(env: &'a [Value], name: &str) -> Option<(usize, &'a Value)> {
    env.iter()
        .enumerate()
        .find(|(_, entry)| entry.get("name").and_then(Value::as_str) == Some(name))
}

/// The plain value of an entry.
pub(super) fn value_of(entry: &Value) -> Option<&str> {
    entry.get("value").and_then(Value::as_str)
}

/// The operations that write what `allocator` needs into the container at `root`, and what they write.
pub(super) fn env_ops(
    root: &str,
    env: Option<&Value>,
    allocator: &Allocator,
) -> (Vec<Value>, Vec<EnvWrite>) {
    let present = env.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut ops = Vec::new();
    let mut writes = Vec::new();
    let mut appended = Vec::new();
    for (name, wanted) in wanted_env(allocator) {
        let there = env_entry(present, &name);
        let prior = there
            .and_then(|(_, entry)| value_of(entry))
            .map(str::to_owned);
        let value = match (&wanted, &prior) {
            (EnvValue::Preload(library), Some(prior)) if !prior.is_empty() => {
                format!("{library}{}{prior}", separator(prior))
            }
            (EnvValue::Preload(value) | EnvValue::Exactly(value), _) => value.clone(),
        };
        match there {
            Some((at, entry)) => {
                let path = format!("{root}/env/{at}");
                ops.push(json!({"op": "test", "path": path, "value": entry}));
                ops.push(
                    json!({"op": "replace", "path": path, "value": {"name": name, "value": value}}),
                );
            }
            None => appended.push(json!({"name": name, "value": value})),
        }
        let prior = there.map(|_| prior.unwrap_or_default());
        writes.push(EnvWrite { name, value, prior });
    }
    if env.is_some() {
        for entry in appended {
            ops.push(json!({"op": "add", "path": format!("{root}/env/-"), "value": entry}));
        }
    } else if !appended.is_empty() {
        ops.push(json!({"op": "add", "path": format!("{root}/env"), "value": appended}));
    }
    (ops, writes)
}
