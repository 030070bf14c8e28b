//! Takes the kernel settings that a kubelet changes for the whole machine, remembers and restores them; must never
//! touch another setting.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result};

/// What `kubelet` sets when it starts, and no namespace separates.
const CHANGED: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}

/// The present values.
pub(super) fn remember() -> BTreeMap<String, String> {
    CHANGED
        .into_iter()
        .filter_map(|name| {
            Some((
                name.to_owned(),
                fs::read_to_string(file(name)).ok()?.trim().to_owned(),
            ))
        })
        .collect()
}

/// Writes the values that differ.
pub(super) fn restore(values: &BTreeMap<String, String>) -> Result<()> {
    for name in CHANGED {
        let Some(value) = values.get(name) else {
            continue;
        };
        let now = fs::read_to_string(file(name)).unwrap_or_default();
        if now.trim() != value {
            fs::write(file(name), value)
                .with_context(|| format!("restoring the kernel setting {name}"))?;
        }
    }
    Ok(())
}
