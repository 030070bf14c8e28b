//! Takes the maps and the environment of a process, gives the allocator that it has mapped and the allocator settings
//! it was started with; must never give any other part of the environment.
//!
//! A mapped library is strong evidence, not proof: a program may carry a second allocator inside. An allocator that is
//! linked into the program is not seen here; such a process is `glibc`, `musl` or `static`.

/// Settings are cut to so many characters.
const SETTING_CHARS: usize = 256;
/// So many settings of a process are taken.
const SETTINGS: usize = 16;

/// The allocator that answers `malloc` in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocator {
    /// The GNU C library's own.
    Glibc,
    /// `libjemalloc*.so`.
    Jemalloc,
    /// `libmimalloc*.so`.
    Mimalloc,
    /// `libtcmalloc*.so`, gperftools' or Google's.
    Tcmalloc,
    /// musl's own.
    Musl,
    /// A program without dynamic loader, to which nothing can be preloaded.
    Static,
    /// The process was just starting, has an allocator that we do not know, or has more than one.
    Unknown,
}

impl Allocator {
    /// The value of the metric's label.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Musl => "musl",
            Self::Static => "static",
            Self::Unknown => "unknown",
        }
    }
}

/// What the maps of a process show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// The allocator.
    pub(super) allocator: Allocator,
    /// File names of the libraries that were recognised, comma-separated; empty when there is none.
    pub(super) library: String,
}

/// Libraries whose names begin so replace `malloc`; `Unknown` are those that no class names.
const REPLACEMENTS: [(&str, Allocator); 10] = [
    ("libjemalloc", Allocator::Jemalloc),
    ("libmimalloc", Allocator::Mimalloc),
    ("libtcmalloc", Allocator::Tcmalloc),
    ("libsnmalloc", Allocator::Unknown),
    ("libhoard", Allocator::Unknown),
    ("librpmalloc", Allocator::Unknown),
    ("libscudo", Allocator::Unknown),
    ("libmesh.so", Allocator::Unknown),
    ("libtbbmalloc_proxy", Allocator::Unknown),
    ("libsupermalloc", Allocator::Unknown),
];

/// Recognises the allocator in the text of `/proc/<pid>/maps`. `preload` is the value of `LD_PRELOAD`: the first library
/// that it names answers when several are mapped.
pub(super) fn mapped(maps: &[u8], preload: Option<&str>) -> Mapped {
    let mut found: Vec<(&str, Allocator)> = Vec::new();
    let (mut glibc, mut musl, mut loader, mut any) = (None, None, false, false);
    for name in executable_files(maps) {
        any = true;
        let replacement = REPLACEMENTS
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix) && name.contains(".so"))
            .map(|&(_, allocator)| allocator);
        if let Some(allocator) = replacement {
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name, allocator));
            }
        } else if name == "libc.so.6" || name.starts_with("libc-2.") {
            glibc = Some(name);
        } else if name.starts_with("ld-musl-") || name.starts_with("libc.musl-") {
            musl = Some(name);
        } else if name.starts_with("ld-") || name.starts_with("ld64.so") || name == "ld.so.1" {
            loader = true;
        }
    }
    let result = |allocator, library: &str| Mapped {
        allocator,
        library: library.to_owned(),
    };
    if let Some(first) = found.first() {
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        let allocator = preload
            .and_then(|preload| first_preloaded(preload, &found))
            .or_else(|| {
                found
                    .iter()
                    .all(|(_, other)| *other == first.1)
                    .then_some(first.1)
            })
            .unwrap_or(Allocator::Unknown);
        return result(allocator, &names.join(","));
    }
    match (musl, glibc) {
        (Some(name), _) => result(Allocator::Musl, name),
        (None, Some(name)) => result(Allocator::Glibc, name),
        // The loader maps what is preloaded first and the C library last: without the latter it is still at work.
        (None, None) if loader || !any => result(Allocator::Unknown, ""),
        (None, None) => result(Allocator::Static, ""),
    }
}

/// Which of the found libraries the loader puts first. `LD_PRELOAD` is separated by colons or spaces (ld.so(8)).
fn first_preloaded(preload: &str, found: &[(&str, Allocator)]) -> Option<Allocator> {
    preload.split([':', ' ']).find_map(|path| {
        let file = path.rsplit('/').next()?;
        // A preloaded link may point to a file with a longer version: libmimalloc.so.2 is mapped as libmimalloc.so.2.0.
        found
            .iter()
            .find(|(name, _)| {
                let longer = name.strip_prefix(file);
                longer.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .map(|&(_, allocator)| allocator)
    })
}

/// File names of executable mappings; a library that is only read as data does not count.
fn executable_files(maps: &[u8]) -> impl Iterator<Item = &str> {
    maps.split(|&byte| byte == b'\n').filter_map(|line| {
        // address perms offset dev inode path: no slash before the path (proc(5)).
        let line = std::str::from_utf8(line).ok()?;
        let permissions = line.split_ascii_whitespace().nth(1)?;
        let (_, path) = line.split_once('/')?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        permissions
            .contains('x')
            .then(|| path.rsplit('/').next().unwrap_or(path))
    })
}

/// Allocator settings in the environment of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// `LD_PRELOAD`, as it was given.
    pub(super) preload: Option<String>,
    /// Variables that an allocator reads, and their values, by name.
    pub(super) options: Vec<(String, String)>,
}

/// Picks the allocator settings out of `/proc/<pid>/environ` (`NAME=value`, separated by zero bytes).
pub(super) fn settings(environ: &[u8]) -> Settings {
    settings_of(environ.split(|&byte| byte == 0))
}

/// Picks the allocator settings out of entries `NAME=value`. Of several with one name the loader takes the last and
/// everybody else the first.
pub(super) fn settings_of<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Settings {
    let mut settings = Settings::default();
    for entry in entries {
        let Some(at) = entry.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, value) = (entry.get(..at), entry.get(at + 1..));
        let (Some(Ok(name)), Some(value)) = (name.map(std::str::from_utf8), value) else {
            continue;
        };
        if name == "LD_PRELOAD" {
            settings.preload = Some(printable(value));
        } else if is_option(name)
            && settings.options.len() < SETTINGS
            && !settings.options.iter().any(|(known, _)| known == name)
        {
            settings.options.push((name.to_owned(), printable(value)));
        }
    }
    settings.options.sort();
    settings
}

/// Whether an allocator reads this variable: glibc's, jemalloc's with any prefix, mimalloc's, tcmalloc's.
fn is_option(name: &str) -> bool {
    name.len() <= 64
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && (name == "GLIBC_TUNABLES"
            || name.ends_with("MALLOC_CONF")
            || name.starts_with("MALLOC_")
            || name.starts_with("TCMALLOC_")
            || name.to_ascii_uppercase().starts_with("MIMALLOC_"))
}

fn printable(value: &[u8]) -> String {
    String::from_utf8_lossy(value)
        .chars()
        .take(SETTING_CHARS)
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "allocator_tests.rs"]
mod tests;
