//! Takes a container that can be changed, gives what is assumed about it: what its owner set up already, what cannot be
//! seen. Never refuses; what stands in the way is a conflict (see `owner`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::env::{GLIBC_TUNABLES, LD_PRELOAD, wanted_env};
use super::owner::{ALIASES, Owned, owned};
use super::patch;
use crate::decision::Reason;
use crate::plan::Allocator;

/// Something that is taken for granted because nobody can see it, or because it is the owner's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumption {
    /// One word of the closed set.
    pub reason: Reason,
    /// What it rests on, in a few words: `MALLOC_ARENA_MAX=2`.
    pub what: String,
    /// One clause for people, without the workload's name.
    pub message: String,
}

/// Servers that fork children which allocate.
const PREFORK: [&str; 5] = ["gunicorn", "unicorn", "php-fpm", "uwsgi", "celery"];

/// What is assumed about a container.
pub fn assumptions(template: &Value, container: &str, allocator: &Allocator) -> Vec<Assumption> {
    let env = patch::env_of(template, container);
    let body = patch::container(template, container);
    let mut all = tuned(env, allocator);
    all.extend(options(env, allocator));
    all.extend(unseen(env, body, allocator));
    all.extend(forked(body, allocator));
    all
}

fn shown(name: &str, owned: Owned<'_>) -> String {
    match owned {
        Owned::Plain(value) => format!("{name}={value}"),
        Owned::Elsewhere => format!("{name} from elsewhere"),
        Owned::Twice => format!("{name} more than once"),
    }
}

/// glibc as the owner has set it up: that is what the change is measured against.
fn tuned(env: &[Value], allocator: &Allocator) -> Vec<Assumption> {
    let written = wanted_env(allocator);
    let names = ALIASES
        .iter()
        .map(|(_, alias)| *alias)
        .chain([GLIBC_TUNABLES]);
    names
        .filter(|name| !written.contains_key(*name))
        .filter_map(|name| Some((name, owned(env, name)?)))
        .filter(|(name, owned)| {
            // Tunables of other parts of glibc are no allocator's.
            *name != GLIBC_TUNABLES
                || !matches!(owned, Owned::Plain(value) if !value.contains("glibc.m"))
        })
        .map(|(name, owned)| {
            let what = shown(name, owned);
            let message = if allocator.name == "glibc" {
                format!("its owner sets {what}, which stays in force in both arms")
            } else {
                format!(
                    "its owner sets {what}, so that the control is glibc with that, and {} does not read it",
                    allocator.name
                )
            };
            Assumption {
                reason: Reason::ControlTuned,
                what,
                message,
            }
        })
        .collect()
}

/// Options of other allocators than glibc that the owner set.
fn options(env: &[Value], allocator: &Allocator) -> Vec<Assumption> {
    let written = wanted_env(allocator);
    let own_conf = format!("{}MALLOC_CONF", allocator.symbol_prefix.to_uppercase());
    let mut out = Vec::new();
    for entry in env {
        let Some(name) = entry.get("name").and_then(Value::as_str) else {
            continue;
        };
        let upper = name.to_ascii_uppercase();
        let of = if name.ends_with("MALLOC_CONF") {
            "jemalloc"
        } else if upper.starts_with("MIMALLOC_") {
            "mimalloc"
        } else if name.starts_with("TCMALLOC_") {
            "tcmalloc"
        } else {
            continue;
        };
        let Some(owned) = owned(env, name).filter(|_| !written.contains_key(name)) else {
            continue;
        };
        let what = shown(name, owned);
        let read = of == allocator.name && (of != "jemalloc" || name == own_conf);
        let (reason, message) = if read {
            (
                Reason::OwnerOptions,
                format!("its owner sets {what}, which {of} reads besides our options"),
            )
        } else {
            (
                Reason::ControlTuned,
                format!(
                    "its owner sets {what}, as for a {of} that the program links itself: the control may not be plain glibc"
                ),
            )
        };
        let note = Assumption {
            reason,
            what,
            message,
        };
        if !out.contains(&note) {
            out.push(note);
        }
    }
    out
}

/// Variables that come from elsewhere, of which nobody can tell whether they set an allocator up. What we write ourselves
/// wins over `envFrom`.
fn unseen(env: &[Value], body: Option<&Value>, allocator: &Allocator) -> Vec<Assumption> {
    let written = wanted_env(allocator);
    let watched = || {
        ALIASES
            .iter()
            .map(|(_, alias)| *alias)
            .chain([LD_PRELOAD, GLIBC_TUNABLES])
            .chain(written.keys().map(String::as_str))
    };
    let sources = body
        .and_then(|body| body.get("envFrom"))
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut out: Vec<Assumption> = sources
        .iter()
        .filter(|source| {
            let prefix = source
                .get("prefix")
                .and_then(Value::as_str)
                .unwrap_or_default();
            watched().any(|name| name.starts_with(prefix))
        })
        .map(|source| {
            let name = |kind: &str| {
                source
                    .get(kind)
                    .and_then(|named| named.get("name"))
                    .and_then(Value::as_str)
            };
            let what = match (name("configMapRef"), name("secretRef")) {
                (Some(name), _) => format!("envFrom ConfigMap {name}"),
                (None, Some(name)) => format!("envFrom Secret {name}"),
                (None, None) => "envFrom".to_owned(),
            };
            let message = format!(
                "it takes variables from {what}, which is not read: that none of them is LD_PRELOAD or sets an allocator up is assumed"
            );
            Assumption {
                reason: Reason::EnvUnseen,
                what,
                message,
            }
        })
        .collect();
    let preload = owned(env, LD_PRELOAD).filter(|owned| !matches!(owned, Owned::Plain(_)));
    if let Some(preload) = preload {
        let what = shown(LD_PRELOAD, preload);
        out.push(Assumption {
            reason: Reason::EnvUnseen,
            message: format!("its owner has {what}: that no allocator is in it is assumed"),
            what,
        });
    }
    out
}

/// Threads do not survive a fork: what a child leaves dirty stays.
fn forked(body: Option<&Value>, allocator: &Allocator) -> Option<Assumption> {
    let threads = allocator.name == "jemalloc"
        && allocator
            .options
            .get("background_thread")
            .is_some_and(|value| value == "true");
    let words = ["command", "args"]
        .iter()
        .filter_map(|key| body?.get(*key)?.as_array())
        .flatten()
        .filter_map(Value::as_str);
    let server = words
        .flat_map(|word| PREFORK.iter().filter(|known| word.contains(**known)))
        .next()
        .filter(|_| threads)?;
    Some(Assumption {
        reason: Reason::ForkedChildren,
        what: (*server).to_owned(),
        message: format!(
            "{server} forks its workers, in which background_thread does nothing: they may keep memory that they freed"
        ),
    })
}
