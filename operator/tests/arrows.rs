//! Who may depend on whom, read off the sources. What this test forbids, exactly (a *mention* is any `crate::x`, `super::x`
//! at the top, `heapfleet_x` or crate name in a line that is not a comment):
//!
//! * `core` mentions no crate through which a cluster, a clock, the network or another room could come in;
//! * `crds` mentions neither the core nor the shell;
//! * `act` and `observe` do not mention each other, nor what comes after them (`report`, `reconcile`, `runtime`, `cli`);
//! * `report` mentions neither `observe` nor `act`, nor the CRD types (it tells of domain values);
//! * `clusters` mentions no other room; `translate` and `receipt` mention only what is beneath them;
//! * nothing mentions `main`, and only `main` and `cli` mention `anyhow` (the probe has its own command line);
//! * the CRD types and the core's types meet in `translate` alone: elsewhere no `From`/`TryFrom` between them is written.
//!   Other rooms may carry CRD objects to where they are read or written.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test may break where sources are not as expected"
)]

use std::path::{Path, PathBuf};

struct Source {
    /// Path below the operator's folder, with `/`.
    path: String,
    /// Lines that are not comments, with their numbers.
    lines: Vec<(usize, String)>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(source(&path));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {}", folder.display());
    found
}

fn source(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim().to_owned()))
        .filter(|(_, line)| !line.starts_with("//"))
        .collect();
    Source {
        path: path.display().to_string().replace('\\', "/"),
        lines,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the line has `word` as a whole word, followed by `::`, `;`, `,`, `{`, `}` or white space.
fn mentions(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether the line leads into another room of the crate: by path, or in a grouped `use crate::{…}`.
fn leads_to(line: &str, room: &str) -> bool {
    let grouped = line.starts_with("use crate::{") && mentions(line, room);
    grouped
        || mentions(line, &format!("crate::{room}"))
        || mentions(line, &format!("heapfleet::{room}"))
}

/// All offending lines of the sources of `room` (a file or a folder below `src`).
fn offending(room: &str, forbidden: impl Fn(&str) -> bool) -> Vec<String> {
    let src = root().join("src");
    let folder = src.join(room);
    let sources = if folder.is_dir() {
        sources(&folder)
    } else {
        vec![source(&src.join(format!("{room}.rs")))]
    };
    lines(&sources, forbidden)
}

fn lines(sources: &[Source], forbidden: impl Fn(&str) -> bool) -> Vec<String> {
    sources
        .iter()
        .flat_map(|source| {
            source
                .lines
                .iter()
                .map(move |(number, line)| (source, number, line))
        })
        .filter(|(_, _, line)| forbidden(line))
        .map(|(source, number, line)| format!("{}:{number}: {line}", source.path))
        .collect()
}

fn no_arrows(from: &str, to: &[&str]) {
    let found = offending(from, |line| to.iter().any(|room| leads_to(line, room)));
    assert!(
        found.is_empty(),
        "{from} must not lead to {to:?}:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_core_knows_no_cluster_no_clock_and_no_other_room() {
    const FORBIDDEN: [&str; 14] = [
        "heapfleet_crds",
        "heapfleet",
        "kube",
        "k8s_openapi",
        "tokio",
        "futures",
        "axum",
        "reqwest",
        "prometheus_http_query",
        "prometheus_client",
        "tracing",
        "anyhow",
        "rand",
        "schemars",
    ];
    let core = sources(&root().join("core/src"));
    let used = |line: &str, name: &str| {
        mentions(line, &format!("{name}::")) || line.starts_with(&format!("use {name}"))
    };
    let found = lines(&core, |line| {
        FORBIDDEN.iter().any(|name| {
            line.match_indices(name).count() > 0 && path_root(line, name) && used(line, name)
        })
    });
    assert!(
        found.is_empty(),
        "the core must stay pure:\n{}",
        found.join("\n")
    );
    let manifest = std::fs::read_to_string(root().join("core/Cargo.toml")).unwrap();
    for name in FORBIDDEN {
        let dependency = name.replace('_', "-");
        let listed = manifest
            .lines()
            .any(|line| line.split(['.', ' ', '=']).next() == Some(dependency.as_str()));
        assert!(!listed, "the core must not depend on {dependency}");
    }
}

/// Whether `name` begins a path in the line, rather than being a part of one (`crate::x::name`).
fn path_root(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = &line[..at];
        !before.ends_with("::") && !before.chars().next_back().is_some_and(is_word)
    })
}

#[test]
fn the_kinds_know_no_behaviour() {
    let crds = sources(&root().join("../crds/src"));
    let found = lines(&crds, |line| {
        ["heapfleet_core", "tokio"]
            .iter()
            .any(|name| mentions(line, name))
            || line.contains("heapfleet::")
    });
    assert!(
        found.is_empty(),
        "crds must hold types only:\n{}",
        found.join("\n")
    );
}

#[test]
fn reading_and_writing_do_not_know_each_other() {
    no_arrows(
        "act",
        &["observe", "report", "reconcile", "runtime", "cli", "probe"],
    );
    no_arrows(
        "observe",
        &[
            "act",
            "report",
            "receipt",
            "reconcile",
            "runtime",
            "cli",
            "probe",
        ],
    );
}

#[test]
fn telling_people_leads_nowhere() {
    no_arrows(
        "report",
        &[
            "observe",
            "act",
            "translate",
            "reconcile",
            "runtime",
            "cli",
            "probe",
        ],
    );
    let found = offending("report", |line| mentions(line, "heapfleet_crds"));
    assert!(
        found.is_empty(),
        "report tells of domain values:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_rooms_beneath_know_none_above() {
    let above = [
        "act",
        "observe",
        "report",
        "reconcile",
        "runtime",
        "cli",
        "probe",
    ];
    no_arrows("clusters", &above);
    no_arrows("clusters", &["translate", "receipt"]);
    no_arrows("translate", &above);
    no_arrows("translate", &["clusters", "receipt"]);
    no_arrows("receipt", &above);
    no_arrows("reconcile", &["runtime", "cli", "probe"]);
    no_arrows("runtime", &["cli", "probe"]);
    no_arrows(
        "probe",
        &[
            "act",
            "observe",
            "report",
            "reconcile",
            "runtime",
            "cli",
            "clusters",
            "translate",
            "receipt",
        ],
    );
}

#[test]
fn nothing_leads_to_main_and_only_the_outside_gives_up_types_of_errors() {
    let all = sources(&root().join("src"));
    let found = lines(&all, |line| {
        line.contains("crate::main") || line.contains("heapfleet::main")
    });
    assert!(
        found.is_empty(),
        "nothing may lead to main:\n{}",
        found.join("\n")
    );
    for room in [
        "act",
        "clusters",
        "observe",
        "report",
        "translate",
        "receipt",
        "reconcile",
        "runtime",
    ] {
        let found = offending(room, |line| mentions(line, "anyhow"));
        assert!(
            found.is_empty(),
            "{room} has errors of its own:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn kinds_and_domain_meet_in_one_place() {
    let names = |line: &str| {
        let conversion =
            line.starts_with("impl") && (line.contains("From<") || line.contains("Into<"));
        conversion && (line.contains("crds::") || line.contains("heapfleet_core::"))
    };
    for room in [
        "act",
        "clusters",
        "observe",
        "report",
        "reconcile",
        "runtime",
        "cli",
    ] {
        let found = offending(room, names);
        assert!(
            found.is_empty(),
            "conversions belong into translate:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn reading_cannot_write_and_writing_cannot_list() {
    let found = offending("observe", |line| {
        mentions(line, "Writer") || line.contains(".writer()")
    });
    assert!(
        found.is_empty(),
        "observe gets readers:\n{}",
        found.join("\n")
    );
    let found = offending("act", |line| {
        mentions(line, "Reader") || line.contains(".reader()") || line.contains("hub_reader()")
    });
    assert!(found.is_empty(), "act gets writers:\n{}", found.join("\n"));
}

#[test]
fn the_four_calls_are_short() {
    let text = std::fs::read_to_string(root().join("src/reconcile.rs")).unwrap();
    let body = text
        .lines()
        .skip_while(|line| !line.starts_with("pub async fn pass("));
    let length = body.take_while(|line| *line != "}").count() + 1;
    assert!(length <= 60, "the pass has {length} lines");
}

#[test]
fn the_test_itself_sees_an_arrow() {
    assert!(leads_to("use crate::observe::world;", "observe"));
    assert!(leads_to("use crate::{act, observe};", "observe"));
    assert!(leads_to("let x = crate::act::commit(&y);", "act"));
    assert!(!leads_to("use crate::action::Act;", "act"));
    assert!(!leads_to("use heapfleet_core::decision::act;", "act"));
    assert!(path_root("use kube::Api;", "kube"));
    assert!(!path_root("use crate::kube::x;", "kube"));
}
