//! Tables over options: what a build takes, what it would reject, clip, wrap, cut short or ignore. The rows with a message
//! are those that were tried on the real libraries.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{BOOKS, Build, check_options};

fn build<'a>(allocator: &'a str, version: &'a str) -> Build<'a> {
    Build {
        allocator,
        version,
        prof: false,
        stats: true,
    }
}

fn check(build: &Build<'_>, key: &str, value: &str) -> Result<(), String> {
    let options = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    check_options(build, &options).map_err(|bad| {
        assert_eq!((bad.key.as_str(), bad.value.as_str()), (key, value));
        bad.because
    })
}

#[test]
fn what_a_build_takes_is_let_through() {
    let good = [
        ("jemalloc", "5.3.0", "background_thread", "true"),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "-1"),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "0"),
        ("jemalloc", "5.3.0", "narenas", "default"),
        ("jemalloc", "5.3.0", "narenas", "4094"),
        ("jemalloc", "5.3.0", "narenas_ratio", "0.5"),
        ("jemalloc", "5.3.0", "percpu_arena", "phycpu"),
        ("jemalloc", "5.3.0", "hpa_dirty_mult", "-1"),
        ("jemalloc", "5.3.0", "hpa_sec_bytes_after_flush", "131072"),
        ("jemalloc", "5.3.0", "stats_print_opts", "Jmd"),
        ("jemalloc", "5.3.1", "cache_oblivious", "false"),
        (
            "jemalloc",
            "5.3.1-12-gabcdef",
            "calloc_madvise_threshold",
            "0",
        ),
        ("jemalloc", "5.2.1", "oversize_threshold", "8388608"),
        ("jemalloc", "5.0", "muzzy_decay_ms", "10000"),
        ("glibc", "2.36", "glibc.malloc.arena_max", "2"),
        ("glibc", "2.41", "glibc.malloc.tcache_max", "1032"),
        ("glibc", "2.42", "glibc.malloc.tcache_max", "4194304"),
        ("glibc", "2.33", "glibc.malloc.check", "3"),
        ("mimalloc", "2.0.9", "allow_decommit", "1"),
        ("mimalloc", "2.2.4", "purge_delay", "-1"),
        ("mimalloc", "3.3.2", "allow_thp", "2"),
        ("tcmalloc", "2.10", "release_rate", "2.5"),
        ("tcmalloc", "2.15", "override_pagesize", "65536"),
    ];
    for (allocator, version, key, value) in good {
        assert_eq!(
            check(&build(allocator, version), key, value),
            Ok(()),
            "{allocator} {version} {key}={value}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_a_build_would_not_take_as_written_is_refused_with_the_remedy() {
    let bad = [
        // <jemalloc>: Invalid conf pair
        (
            "jemalloc",
            "5.3.0",
            "backround_thread",
            "true",
            "has no such option",
        ),
        (
            "jemalloc",
            "5.3.0",
            "lg_dirty_mult",
            "3",
            "use dirty_decay_ms",
        ),
        ("jemalloc", "5.3.0", "xmalloc", "true", "--enable-xmalloc"),
        ("jemalloc", "5.3.0", "prof", "false", "spec.build.prof"),
        (
            "jemalloc",
            "5.3.0",
            "cache_oblivious",
            "false",
            "came with 5.3.1",
        ),
        ("jemalloc", "5.2.1", "narenas_ratio", "2", "came with 5.3;"),
        (
            "jemalloc",
            "5.3.1",
            "hpa_sec_bytes_after_flush",
            "131072",
            "any more since 5.3.1",
        ),
        // <jemalloc>: Invalid conf value
        (
            "jemalloc",
            "5.3.0",
            "background_thread",
            "True",
            "true or false",
        ),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "5s", "from -1 to"),
        (
            "jemalloc",
            "5.3.0",
            "tcache_max",
            "32K",
            "from 0 to 8388608",
        ),
        (
            "jemalloc",
            "5.3.0",
            "metadata_thp",
            "a",
            "one of disabled, auto, always",
        ),
        // Out of range, wrapped, clipped, octal.
        ("jemalloc", "5.3.0", "narenas", "0", "from 1 to 4094"),
        ("jemalloc", "5.3.0", "narenas", "-1", "from 1 to 4094"),
        ("jemalloc", "5.3.0", "narenas", "4095", "from 1 to 4094"),
        (
            "jemalloc",
            "5.3.0",
            "max_background_threads",
            "0",
            "from 1 to",
        ),
        (
            "jemalloc",
            "5.3.0",
            "dirty_decay_ms",
            "010000",
            "without leading zeros",
        ),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "0x10", "decimal"),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "-2", "from -1 to"),
        ("jemalloc", "5.3.0", "dirty_decay_ms", "-0", "from -1 to"),
        (
            "jemalloc",
            "5.3.0",
            "narenas_ratio",
            "-1",
            "decimal fraction",
        ),
        (
            "jemalloc",
            "5.3.0",
            "hpa_hugification_threshold_ratio",
            "1.01",
            "from 0 to 1",
        ),
        (
            "jemalloc",
            "5.3.0",
            "stats_print_opts",
            "JJ",
            "at most once",
        ),
        ("jemalloc", "4.5.0", "narenas", "1", "are not known"),
        ("jemalloc", "six", "narenas", "1", "are not known"),
        // Silent in glibc, mimalloc and tcmalloc.
        (
            "glibc",
            "2.36",
            "glibc.malloc.arenas",
            "2",
            "has no such option",
        ),
        (
            "glibc",
            "2.36",
            "glibc.rtld.optional_static_tls",
            "16384",
            "has no such option",
        ),
        ("glibc", "2.36", "glibc.malloc.arena_max", "0", "from 1 to"),
        (
            "glibc",
            "2.36",
            "glibc.malloc.check",
            "3",
            "any more since 2.34",
        ),
        (
            "glibc",
            "2.30",
            "glibc.malloc.mxfast",
            "0",
            "came with 2.31",
        ),
        (
            "glibc",
            "2.41",
            "glibc.malloc.tcache_max",
            "4194304",
            "from 0 to 1032",
        ),
        ("mimalloc", "2.0.9", "purge_delay", "5", "came with 2.1"),
        (
            "mimalloc",
            "2.2.4",
            "allow_decommit",
            "1",
            "any more since 2.1",
        ),
        ("mimalloc", "3.1.5", "allow_thp", "0", "came with 3.1.6"),
        ("mimalloc", "2.2.4", "purge_decommits", "2", "one of 1, 0"),
        ("tcmalloc", "2.10", "release_rate", "11", "from 0 to 10"),
        (
            "tcmalloc",
            "2.10",
            "sample_parameter",
            "524288",
            "spec.build.prof",
        ),
        (
            "tcmalloc",
            "2.14",
            "override_pagesize",
            "65536",
            "came with 2.15",
        ),
        ("hoard", "3.0.0", "x", "1", "there is no allocator hoard"),
    ];
    for (allocator, version, key, value, says) in bad {
        let because = check(&build(allocator, version), key, value).unwrap_err();
        assert!(
            because.contains(says),
            "{allocator} {version} {key}={value}: {because}"
        );
    }
}

#[test]
fn what_the_build_holds_decides() {
    let all = Build {
        prof: true,
        ..build("jemalloc", "5.3.0")
    };
    assert_eq!(check(&all, "prof", "false"), Ok(()));
    let none = Build {
        stats: false,
        ..all
    };
    assert!(
        check(&none, "stats_print", "true")
            .unwrap_err()
            .contains("spec.build.stats")
    );
}

/// A name stands once for any version, so that the first that fits is the only one.
#[test]
fn no_version_has_one_name_twice() {
    for (allocator, book) in BOOKS {
        let all: Vec<_> = book.options.iter().copied().flatten().collect();
        for (i, one) in all.iter().enumerate() {
            assert!(one.since < one.until, "{allocator} {}", one.name);
            assert!(
                !book.gone.iter().any(|(gone, _)| *gone == one.name),
                "{allocator} {}",
                one.name
            );
            for other in &all[i + 1..] {
                let apart = one.until <= other.since || other.until <= one.since;
                assert!(one.name != other.name || apart, "{allocator} {}", one.name);
            }
        }
    }
}

proptest! {
    /// What is let through holds no separator of any allocator's string, so that no option can bring another along.
    #[test]
    fn nothing_that_is_let_through_splits_the_string(
        which in 0_usize..4,
        at in 0_usize..200,
        value in "[ -~]{1,16}",
    ) {
        let (allocator, book) = &BOOKS[which];
        let all: Vec<_> = book.options.iter().copied().flatten().collect();
        let known = all[at % all.len()];
        let version = format!("{}.999", book.majors.1);
        let build = Build { prof: true, ..build(allocator, &version) };
        if check(&build, known.name, &value).is_ok() {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            prop_assert!(value.chars().all(plain), "{}={}", known.name, value);
        }
    }

    /// Numbers are taken by their value alone: what is let through reads as itself in C with any base.
    #[test]
    fn a_number_reads_as_itself(number in any::<i64>(), pad in 0_usize..3) {
        let text = format!("{}{number}", "0".repeat(pad));
        let build = build("jemalloc", "5.3.0");
        let taken = check(&build, "dirty_decay_ms", &text).is_ok();
        prop_assert_eq!(taken, pad == 0 && (-1..=18_446_744_072_000).contains(&number));
    }
}
