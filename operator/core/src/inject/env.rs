//! Takes an allocator, gives the environment variables that load and configure it. Never looks at a workload.

use std::collections::BTreeMap;

use crate::plan::{Allocator, Delivery};

/// The variable that names libraries to load first.
pub(super) const LD_PRELOAD: &str = "LD_PRELOAD";
/// The variable that sets up glibc.
pub(super) const GLIBC_TUNABLES: &str = "GLIBC_TUNABLES";

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
    if let Delivery::PreloadInImage { path } = &allocator.delivery {
        env.insert(LD_PRELOAD.to_owned(), EnvValue::Preload(path.clone()));
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
