//! Takes the environment that the owner of a container wrote, gives the conflict with what we would write there. What the
//! owner set is theirs: it is joined where the class says so, else left alone, never replaced.

use serde_json::Value;

use super::eligible::{Ineligible, refuse};
use super::env::{EnvValue, GLIBC_TUNABLES, LD_PRELOAD, wanted_env};
use super::patch;
use super::preload::{Preloaded, preloaded};
use crate::decision::Reason;
use crate::names::WorkloadId;
use crate::plan::{Allocator, OnExisting};

/// The older names of glibc's tunables (`mallopt(3)`). Which of the two wins depends on glibc's version.
pub(super) const ALIASES: [(&str, &str); 8] = [
    ("glibc.malloc.arena_max", "MALLOC_ARENA_MAX"),
    ("glibc.malloc.arena_test", "MALLOC_ARENA_TEST"),
    ("glibc.malloc.check", "MALLOC_CHECK_"),
    ("glibc.malloc.mmap_max", "MALLOC_MMAP_MAX_"),
    ("glibc.malloc.mmap_threshold", "MALLOC_MMAP_THRESHOLD_"),
    ("glibc.malloc.perturb", "MALLOC_PERTURB_"),
    ("glibc.malloc.top_pad", "MALLOC_TOP_PAD_"),
    ("glibc.malloc.trim_threshold", "MALLOC_TRIM_THRESHOLD_"),
];

/// What the owner says of one variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned<'a> {
    /// A plain value, maybe empty.
    Plain(&'a str),
    /// It comes from somewhere else, or is put together from other variables.
    Elsewhere,
    /// It is there more than once; the last one counts, and a replaced first one would be no change at all.
    Twice,
}

/// What the owner says of the variable `name`; `None`: nothing. mimalloc reads its variables in any case.
pub(super) fn owned<'a>(env: &'a [Value], name: &str) -> Option<Owned<'a>> {
    let any_case = name.starts_with("MIMALLOC_");
    let mut found = env.iter().filter(|entry| {
        let written = entry
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        written == name || (any_case && written.eq_ignore_ascii_case(name))
    });
    let entry = found.next()?;
    if found.next().is_some() {
        return Some(Owned::Twice);
    }
    if entry.get("valueFrom").is_some_and(|from| !from.is_null()) {
        return Some(Owned::Elsewhere);
    }
    let value = entry
        .get("value")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(if value.contains("$(") {
        Owned::Elsewhere
    } else {
        Owned::Plain(value)
    })
}

/// A container, as messages name it.
struct Place<'a> {
    id: &'a WorkloadId,
    container: &'a str,
    env: &'a [Value],
    allocator: &'a Allocator,
}

/// Refuses a container in which something that we would write is the owner's already, or whose `malloc` another library
/// answers.
pub(super) fn check_env(
    id: &WorkloadId,
    container: &str,
    template: &Value,
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    let place = Place {
        id,
        container,
        env: patch::env_of(template, container),
        allocator,
    };
    place.check_preload()?;
    place.check_same()?;
    place.check_aliases()?;
    for (name, wanted) in wanted_env(allocator) {
        match wanted {
            EnvValue::Exactly(_) => place.check_exactly(&name)?,
            // Looked at whatever the delivery is.
            EnvValue::Preload(_) => {}
        }
    }
    Ok(())
}

impl Place<'_> {
    fn refuse(&self, reason: Reason, rest: &str) -> Ineligible {
        let Self { id, container, .. } = self;
        refuse(reason, format!("{id}: container {container} {rest}"))
    }

    fn unclear(&self, name: &str, owned: Owned<'_>) -> Option<Ineligible> {
        match owned {
            Owned::Plain(_) => None,
            Owned::Elsewhere => Some(self.refuse(
                Reason::VariableFromSource,
                &format!("takes {name} from elsewhere (valueFrom, or $(…) in its value), so that nothing can be joined to it; set it as a plain value or remove it."),
            )),
            Owned::Twice => Some(self.refuse(
                Reason::InjectionConflict,
                &format!("sets {name} more than once; leave one of them, or leave the workload out (spec.target.exclude)."),
            )),
        }
    }

    /// Two allocators in one process are refused whatever the class says.
    fn check_preload(&self) -> Result<(), Ineligible> {
        let writes = wanted_env(self.allocator).contains_key(LD_PRELOAD);
        let Some(owned) = owned(self.env, LD_PRELOAD) else {
            return Ok(());
        };
        let Owned::Plain(value) = owned else {
            return match self.unclear(LD_PRELOAD, owned) {
                Some(refused) if writes => Err(refused),
                Some(_) | None => Ok(()),
            };
        };
        let class = &self.allocator.class;
        match preloaded(value) {
            Preloaded::Nothing => Ok(()),
            Preloaded::Allocator { file, name } if name == self.allocator.name => {
                Err(self.refuse(
                    Reason::NoChange,
                    &format!("preloads {name} already ({file} in LD_PRELOAD={value}), so that there is nothing to change and no glibc to compare with; leave it out (spec.target.exclude), or remove it there to have it rolled out."),
                ))
            }
            Preloaded::Allocator { file, name } => Err(self.refuse(
                Reason::InjectionConflict,
                &format!("preloads {name} already ({file} in LD_PRELOAD={value}); two allocators in one process are refused, remove it there first."),
            )),
            Preloaded::Sanitizer { file } => Err(self.refuse(
                Reason::InjectionConflict,
                &format!("preloads the sanitizer {file} (LD_PRELOAD={value}), which answers malloc itself; roll out a build without it."),
            )),
            Preloaded::Others if !writes => Ok(()),
            Preloaded::Others => match self.allocator.on_existing {
                OnExisting::Prepend => Ok(()),
                OnExisting::Skip => Err(self.refuse(
                    Reason::PreloadAlreadySet,
                    &format!("sets LD_PRELOAD={value} and class {class} says onExisting: Skip; remove it or use a class with Prepend."),
                )),
            },
        }
    }

    /// Everything that we would write stands there already.
    fn check_same(&self) -> Result<(), Ineligible> {
        let wanted = wanted_env(self.allocator);
        let same = |(name, wanted): (&String, &EnvValue)| match wanted {
            EnvValue::Exactly(value) => owned(self.env, name) == Some(Owned::Plain(value)),
            EnvValue::Preload(_) => false,
        };
        if wanted.is_empty() || !wanted.iter().all(same) {
            return Ok(());
        }
        let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
        Err(self.refuse(
            Reason::NoChange,
            &format!(
                "sets {} as class {} would, so that there is nothing to change and nothing to compare with; leave it out (spec.target.exclude), or remove it there to have it rolled out.",
                names.join(" and "),
                self.allocator.class
            ),
        ))
    }

    /// A tunable that is set under its older name besides would leave open which of the two counts.
    fn check_aliases(&self) -> Result<(), Ineligible> {
        if !wanted_env(self.allocator).contains_key(GLIBC_TUNABLES) {
            return Ok(());
        }
        let class = &self.allocator.class;
        for (tunable, alias) in ALIASES {
            let Some(wanted) = self.allocator.options.get(tunable) else {
                continue;
            };
            let value = match owned(self.env, alias) {
                None => continue,
                Some(Owned::Plain(value)) => value,
                Some(Owned::Elsewhere | Owned::Twice) => "…",
            };
            return Err(self.refuse(
                Reason::InjectionConflict,
                &format!("sets {alias}={value} itself, the older name of {tunable}, which class {class} would set to {wanted}; remove it there, or leave the option out."),
            ));
        }
        Ok(())
    }

    fn check_exactly(&self, name: &str) -> Result<(), Ineligible> {
        let Some(owned) = owned(self.env, name) else {
            return Ok(());
        };
        if let Some(refused) = self.unclear(name, owned) {
            return Err(refused);
        }
        let Owned::Plain(value) = owned else {
            return Ok(());
        };
        Err(self.refuse(
            Reason::InjectionConflict,
            &format!(
                "sets {name}={value} itself, which class {} would replace; remove it there, or leave the workload out (spec.target.exclude).",
                self.allocator.class
            ),
        ))
    }
}
