//! Takes the value of an `LD_PRELOAD`, gives what it means for an allocator. The loader splits at spaces and colons, and
//! has no quoting (`ld.so(8)`). Never changes the value.

/// What a value of `LD_PRELOAD` loads, as far as `malloc` is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preloaded<'a> {
    /// It is empty.
    Nothing,
    /// A library that replaces `malloc`; the first one answers.
    Allocator {
        /// Its file name.
        file: &'a str,
        /// The allocator, as classes name it where they do.
        name: &'static str,
    },
    /// The runtime of a sanitizer, which has to come first and replaces `malloc` too.
    Sanitizer {
        /// Its file name.
        file: &'a str,
    },
    /// Other libraries only.
    Others,
}

/// File names of libraries that replace `malloc` begin so, after `lib`.
const ALLOCATORS: [(&str, &str); 12] = [
    ("jemalloc", "jemalloc"),
    ("mimalloc", "mimalloc"),
    ("tcmalloc", "tcmalloc"),
    ("snmalloc", "snmalloc"),
    ("hoard", "hoard"),
    ("rpmalloc", "rpmalloc"),
    ("scudo", "scudo"),
    ("mesh.so", "mesh"),
    ("tbbmalloc", "tbbmalloc"),
    ("supermalloc", "supermalloc"),
    ("c_malloc_debug", "glibc's malloc debugging"),
    ("efence", "electric fence"),
];

/// File names of sanitizers' runtimes begin so, after `lib`.
const SANITIZERS: [&str; 6] = ["asan", "tsan", "lsan", "msan", "hwasan", "clang_rt."];

/// The separator that a list of libraries uses already: a colon unless it holds only spaces.
pub(super) fn separator(existing: &str) -> char {
    if existing.contains(' ') && !existing.contains(':') {
        ' '
    } else {
        ':'
    }
}

/// What `value` loads.
pub(super) fn preloaded(value: &str) -> Preloaded<'_> {
    let files = || {
        value
            .split([' ', ':'])
            .filter_map(|path| path.rsplit('/').next())
            .filter(|file| !file.is_empty())
    };
    let stem = |file: &'_ str| -> usize { if file.starts_with("lib") { 3 } else { 0 } };
    let found = files().find_map(|file| {
        let rest = file.get(stem(file)..)?;
        ALLOCATORS
            .iter()
            .find(|(begin, _)| rest.starts_with(begin))
            .map(|&(_, name)| Preloaded::Allocator { file, name })
    });
    let sanitizer = || {
        files().find_map(|file| {
            let rest = file.get(stem(file)..)?;
            SANITIZERS
                .iter()
                .any(|begin| rest.starts_with(begin))
                .then_some(Preloaded::Sanitizer { file })
        })
    };
    found.or_else(sanitizer).unwrap_or_else(|| {
        if files().next().is_none() {
            Preloaded::Nothing
        } else {
            Preloaded::Others
        }
    })
}
