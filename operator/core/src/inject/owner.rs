//! Takes the environment that the owner of a container wrote, gives the conflict with what we would write there. What the
//! owner set is theirs: it is joined where the class says so, else left alone, never replaced.

use serde_json::Value;

use super::eligible::{Ineligible, refuse};
use super::env::{EnvValue, GLIBC_TUNABLES, wanted_env};
use super::patch;
use crate::decision::Reason;
use crate::names::WorkloadId;
use crate::plan::{Allocator, OnExisting};

/// The older names of glibc's tunables (`mallopt(3)`). Which of the two wins depends on glibc's version.
const ALIASES: [(&str, &str); 8] = [
    ("glibc.malloc.arena_max", "MALLOC_ARENA_MAX"),
    ("glibc.malloc.arena_test", "MALLOC_ARENA_TEST"),
    ("glibc.malloc.check", "MALLOC_CHECK_"),
    ("glibc.malloc.mmap_max", "MALLOC_MMAP_MAX_"),
    ("glibc.malloc.mmap_threshold", "MALLOC_MMAP_THRESHOLD_"),
    ("glibc.malloc.perturb", "MALLOC_PERTURB_"),
    ("glibc.malloc.top_pad", "MALLOC_TOP_PAD_"),
    ("glibc.malloc.trim_threshold", "MALLOC_TRIM_THRESHOLD_"),
];

/// Refuses a container in which a variable that we would write is the owner's already.
pub(super) fn check_env(
    id: &WorkloadId,
    container: &str,
    template: &Value,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    let present = patch::env_of(template, container);
    let of = |name: &str| {
        present
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
    };
    for (name, wanted) in wanted_env(allocator) {
        if name == GLIBC_TUNABLES {
            check_aliases(id, container, &of, allocator)?;
        }
        let Some(entry) = of(&name) else {
            continue;
        };
        if entry.get("valueFrom").is_some() {
            return Err(refuse(
                Reason::InjectionConflict,
                format!(
                    "{id}: container {container} takes {name} from valueFrom; set it as a plain value or remove it."
                ),
            ));
        }
        let value = value_of(entry);
        match wanted {
            EnvValue::Exactly(_) => {
                return Err(refuse(
                    Reason::InjectionConflict,
                    format!(
                        "{id}: container {container} sets {name}={value} itself, which class {} would replace; remove it there, or leave the workload out (spec.target.exclude).",
                        allocator.class
                    ),
                ));
            }
            EnvValue::Preload(_) if value.is_empty() => {}
            EnvValue::Preload(_) => check_preload(id, container, value, allocator)?,
        }
    }
    Ok(())
}

fn value_of(entry: &Value) -> &str {
    entry
        .get("value")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A tunable that is set under its older name besides would leave open which of the two counts.
fn check_aliases<'a>(
    id: &WorkloadId,
    container: &str,
    of: &impl Fn(&str) -> Option<&'a Value>,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    for (tunable, alias) in ALIASES {
        let Some(wanted) = allocator.options.get(tunable) else {
            continue;
        };
        if let Some(entry) = of(alias) {
            let value = value_of(entry);
            return Err(refuse(
                Reason::InjectionConflict,
                format!(
                    "{id}: container {container} sets {alias}={value} itself, the older name of {tunable}, which class {} would set to {wanted}; remove it there, or leave the option out.",
                    allocator.class
                ),
            ));
        }
    }
    Ok(())
}

/// Two allocators in one process are refused whatever the class says.
fn check_preload(
    id: &WorkloadId,
    container: &str,
    value: &str,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    const ALLOCATORS: [&str; 5] = ["jemalloc", "mimalloc", "tcmalloc", "hoard", "snmalloc"];
    if let Some(other) = ALLOCATORS.iter().find(|known| value.contains(**known)) {
        return Err(refuse(
            Reason::InjectionConflict,
            format!(
                "{id}: container {container} preloads {other} already (LD_PRELOAD={value}); two allocators in one process are refused, remove it there first."
            ),
        ));
    }
    match allocator.on_existing {
        OnExisting::Prepend => Ok(()),
        OnExisting::Skip => Err(refuse(
            Reason::InjectionConflict,
            format!(
                "{id}: container {container} sets LD_PRELOAD={value} and class {} says onExisting: Skip; remove it or use a class with Prepend.",
                allocator.class
            ),
        )),
    }
}
