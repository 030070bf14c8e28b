//! Takes an allocator's build and the options that are wanted, gives the first that this build would reject, clip, wrap,
//! cut short or ignore. Stricter than the allocators themselves: most of them pass over a bad option without a word. Never
//! looks at a workload.

mod glibc;
mod jemalloc;
mod mimalloc;
mod tcmalloc;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

use super::version::{Version, version};
use value::Kind;

/// Which build the options are for: it decides which of them exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build<'a> {
    /// `glibc`, `jemalloc`, `mimalloc` or `tcmalloc`.
    pub allocator: &'a str,
    /// Its version as the class has it: `5.3.0`, `2.36`, `2.10-1`.
    pub version: &'a str,
    /// Whether heap profiling is built in.
    pub prof: bool,
    /// Whether statistics are built in.
    pub stats: bool,
}

/// An option that is not valid for a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Its name.
    pub key: String,
    /// The value that was wanted.
    pub value: String,
    /// What is wrong, and what to do: one sentence.
    pub because: String,
}

/// What an option needs of the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Prof,
    Stats,
}

/// One option that an allocator has.
#[derive(Clone, Copy, Debug)]
struct Known {
    name: &'static str,
    kind: Kind,
    /// The first version that has it.
    since: Version,
    /// The first version that has it no more.
    until: Version,
    needs: Needs,
}

/// No version that could be meant.
const NEVER: Version = (u32::MAX, 0, 0);

impl Known {
    /// An option of every version that is known here.
    const fn always(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            since: (0, 0, 0),
            until: NEVER,
            needs: Needs::Nothing,
        }
    }

    const fn since(self, since: Version) -> Self {
        Self { since, ..self }
    }

    const fn until(self, until: Version) -> Self {
        Self { until, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }
}

/// What is known of one allocator.
struct Book {
    options: &'static [&'static [Known]],
    /// The first and the last major version whose options are known.
    majors: (u32, u32),
    /// Names that went, or that no build described by a class has, and what to do instead.
    gone: &'static [(&'static str, &'static str)],
}

/// The allocators whose options are known.
const BOOKS: [(&str, &Book); 4] = [
    ("glibc", &glibc::BOOK),
    ("jemalloc", &jemalloc::BOOK),
    ("mimalloc", &mimalloc::BOOK),
    ("tcmalloc", &tcmalloc::BOOK),
];

/// The first option that the build does not take as it is written, by name.
pub fn check_options(
    build: &Build<'_>,
    options: &BTreeMap<String, String>,
) -> Result<(), BadOption> {
    options
        .iter()
        .try_for_each(|(key, value)| check(build, key, value))
}

fn check(build: &Build<'_>, key: &str, value: &str) -> Result<(), BadOption> {
    let what = format!("{} {}", build.allocator, build.version);
    let bad = |because: String| BadOption {
        key: key.to_owned(),
        value: value.to_owned(),
        because,
    };
    let (_, book) = BOOKS
        .iter()
        .find(|(name, _)| *name == build.allocator)
        .ok_or_else(|| bad(format!("there is no allocator {}", build.allocator)))?;
    let version = version(build.version)
        .filter(|(major, _, _)| (book.majors.0..=book.majors.1).contains(major))
        .ok_or_else(|| {
            bad(format!(
                "the options of {what} are not known, so that none can be checked; remove it or use a known version"
            ))
        })?;
    if let Some((_, instead)) = book.gone.iter().find(|(name, _)| *name == key) {
        return Err(bad(format!("{what} does not take it: {instead}")));
    }
    let named: Vec<&Known> = book
        .options
        .iter()
        .copied()
        .flatten()
        .filter(|known| known.name == key)
        .collect();
    let Some(known) = named
        .iter()
        .find(|known| known.since <= version && version < known.until)
    else {
        return Err(bad(absent(&what, version, &named)));
    };
    match known.needs {
        Needs::Prof if !build.prof => {
            return Err(bad(format!(
                "it needs a build with profiling (spec.build.prof of the class), which {what} is not said to be; remove it"
            )));
        }
        Needs::Stats if !build.stats => {
            return Err(bad(format!(
                "it needs a build with statistics (spec.build.stats of the class), which {what} is not said to be; remove it"
            )));
        }
        Needs::Nothing | Needs::Prof | Needs::Stats => {}
    }
    known.kind.check(value).map_err(bad)
}

fn absent(what: &str, version: Version, named: &[&Known]) -> String {
    let dotted = |(major, minor, patch): Version| {
        if patch == 0 {
            format!("{major}.{minor}")
        } else {
            format!("{major}.{minor}.{patch}")
        }
    };
    match named {
        [] => format!("{what} has no such option and would ignore or refuse it; remove it"),
        [.., known] if version < known.since => format!(
            "{what} does not have it yet, it came with {}; remove it",
            dotted(known.since)
        ),
        [.., known] => format!(
            "{what} does not have it any more since {}; remove it",
            dotted(known.until)
        ),
    }
}
