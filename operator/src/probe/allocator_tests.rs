use super::*;
use std::fmt::Write as _;

const HEAD: &str = "55d0c0e00000-55d0c0f00000 r--p 00000000 fe:00 100    /srv/trace-server\n\
                    55d0c0f00000-55d0c1000000 r-xp 00100000 fe:00 100    /srv/trace-server\n\
                    55d0c2000000-55d0c2100000 rw-p 00000000 00:00 0      [heap]\n\
                    7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0      [stack]\n\
                    7ffd000f0000-7ffd000f2000 r-xp 00000000 00:00 0      [vdso]\n";

fn maps(paths: &[&str]) -> String {
    let mut text = HEAD.to_owned();
    for path in paths {
        for permissions in ["r--p", "r-xp", "rw-p"] {
            writeln!(
                text,
                "7f0000000000-7f0000001000 {permissions} 00000000 fe:00 7  {path}"
            )
            .unwrap();
        }
    }
    text
}

const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const LD: &str = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
const MIMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0";

fn check(paths: &[&str], preload: Option<&str>, allocator: Allocator, library: &str) {
    let expected = Mapped {
        allocator,
        library: library.to_owned(),
    };
    assert_eq!(
        mapped(maps(paths).as_bytes(), preload),
        expected,
        "{paths:?} {preload:?}"
    );
}

#[test]
fn the_mapped_library_decides() {
    check(&[LIBC, LD], None, Allocator::Glibc, "libc.so.6");
    check(
        &["/lib/libc-2.31.so", "/lib/ld-2.31.so"],
        None,
        Allocator::Glibc,
        "libc-2.31.so",
    );
    check(
        &[JEMALLOC, LIBC, LD],
        None,
        Allocator::Jemalloc,
        "libjemalloc.so.2",
    );
    check(
        &[MIMALLOC, LIBC, LD],
        None,
        Allocator::Mimalloc,
        "libmimalloc.so.2.0",
    );
    let tcmalloc = "/opt/libtcmalloc_minimal.so.4.5.10";
    check(
        &[tcmalloc, LIBC, LD],
        None,
        Allocator::Tcmalloc,
        "libtcmalloc_minimal.so.4.5.10",
    );
    check(
        &["/opt/libhoard.so", LIBC, LD],
        None,
        Allocator::Unknown,
        "libhoard.so",
    );
    check(
        &["/lib/ld-musl-x86_64.so.1"],
        None,
        Allocator::Musl,
        "ld-musl-x86_64.so.1",
    );
    check(&[], None, Allocator::Static, "");
}

#[test]
fn a_preload_that_did_not_load_is_glibc() {
    check(
        &[LIBC, LD],
        Some("/nonexistent/libjemalloc.so.2"),
        Allocator::Glibc,
        "libc.so.6",
    );
}

#[test]
fn while_the_loader_works_nothing_is_known() {
    check(&[LD], None, Allocator::Unknown, "");
    assert_eq!(mapped(b"", None).allocator, Allocator::Unknown);
}

#[test]
fn of_several_the_preloaded_one_answers() {
    let both = "libjemalloc.so.2,libmimalloc.so.2.0";
    let paths = [JEMALLOC, MIMALLOC, LIBC, LD];
    check(&paths, None, Allocator::Unknown, both);
    check(
        &paths,
        Some("/opt/x.so:/usr/lib/libmimalloc.so.2"),
        Allocator::Mimalloc,
        both,
    );
    check(
        &paths,
        Some("libjemalloc.so.2 libmimalloc.so.2"),
        Allocator::Jemalloc,
        both,
    );
    check(&paths, Some(""), Allocator::Unknown, both);
    let tcmalloc = ["/a/libtcmalloc.so.4", "/a/libtcmalloc_minimal.so.4", LIBC];
    check(
        &tcmalloc,
        None,
        Allocator::Tcmalloc,
        "libtcmalloc.so.4,libtcmalloc_minimal.so.4",
    );
}

#[test]
fn data_deleted_files_and_look_alikes() {
    let data = format!(
        "{}7f00-7f01 r--p 00000000 fe:00 7 {JEMALLOC}\n",
        maps(&[LIBC, LD])
    );
    assert_eq!(mapped(data.as_bytes(), None).allocator, Allocator::Glibc);
    let deleted = format!("{JEMALLOC} (deleted)");
    check(
        &[&deleted, LIBC, LD],
        None,
        Allocator::Jemalloc,
        "libjemalloc.so.2",
    );
    check(
        &["/opt/libjemalloc-notes", LIBC, LD],
        None,
        Allocator::Glibc,
        "libc.so.6",
    );
    check(
        &["/opt/libjemalloc.so.2/plugin.so", LIBC, LD],
        None,
        Allocator::Glibc,
        "libc.so.6",
    );
}

#[test]
fn only_allocator_settings_leave_the_environment() {
    let environ = b"PATH=/bin\0LD_PRELOAD=/usr/lib/libjemalloc.so.2\0PASSWORD=s3cr3t\0\
        _RJEM_MALLOC_CONF=background_thread:true\0GLIBC_TUNABLES=glibc.malloc.arena_max=2\0\
        MALLOC_ARENA_MAX=2\0mimalloc_show_errors=1\0MY_MALLOC_LIKE=x\0=odd\0broken\0";
    let found = settings(environ);
    assert_eq!(found.preload.as_deref(), Some("/usr/lib/libjemalloc.so.2"));
    let names: Vec<&str> = found
        .options
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let expected = [
        "GLIBC_TUNABLES",
        "MALLOC_ARENA_MAX",
        "_RJEM_MALLOC_CONF",
        "mimalloc_show_errors",
    ];
    assert_eq!(names, expected);
    assert_eq!(found.options[0].1, "glibc.malloc.arena_max=2");
    assert!(!format!("{found:?}").contains("s3cr3t"));
    assert_eq!(settings(b""), Settings::default());
}

#[test]
fn of_equal_names_the_loader_takes_the_last_and_others_the_first() {
    let found = settings(b"LD_PRELOAD=a\0MALLOC_CONF=a\0LD_PRELOAD=b\0MALLOC_CONF=b\0");
    assert_eq!(found.preload.as_deref(), Some("b"));
    assert_eq!(found.options, [("MALLOC_CONF".to_owned(), "a".to_owned())]);
}

#[test]
fn settings_are_bounded_and_printable() {
    let long = [b"LD_PRELOAD=".as_slice(), &[b'a'; 5000]].concat();
    assert_eq!(settings(&long).preload.unwrap().len(), 256);
    assert_eq!(
        settings(b"MALLOC_CONF=a\nb\xff").options[0].1,
        "a\u{fffd}b\u{fffd}"
    );
    let many: Vec<u8> = (0..100)
        .flat_map(|n| format!("MALLOC_X{n}=1\0").into_bytes())
        .collect();
    assert_eq!(settings(&many).options.len(), 16);
}
