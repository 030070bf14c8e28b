//! The tunables of glibc's malloc, read from its `elf/dl-tunables.list` at every tag from 2.25 to 2.42. An unknown name is
//! ignored by every version without a word, and a bad value by all before 2.39.

use super::value::Kind::Number;
use super::{Book, Known};

pub(super) const BOOK: Book = Book {
    options: &[TUNABLES],
    majors: (2, 2),
    gone: &[],
};

/// The largest number of 64 bits without a sign.
const SIZE: i128 = 0xffff_ffff_ffff_ffff;
/// The largest number of 32 bits with a sign.
const INT: i128 = 0x7fff_ffff;
/// Tunables came with it.
const FIRST: super::Version = (2, 25, 0);

const TUNABLES: &[Known] = &[
    // Since 2.34 it needs libc_malloc_debug.so besides, and does nothing without it.
    Known::always("glibc.malloc.check", Number(0, 3))
        .since(FIRST)
        .until((2, 34, 0)),
    Known::always("glibc.malloc.top_pad", Number(0, SIZE)).since(FIRST),
    Known::always("glibc.malloc.perturb", Number(0, 255)).since(FIRST),
    Known::always("glibc.malloc.mmap_threshold", Number(0, SIZE)).since(FIRST),
    Known::always("glibc.malloc.trim_threshold", Number(0, SIZE)).since(FIRST),
    Known::always("glibc.malloc.mmap_max", Number(0, INT)).since(FIRST),
    Known::always("glibc.malloc.arena_max", Number(1, SIZE)).since(FIRST),
    Known::always("glibc.malloc.arena_test", Number(1, SIZE)).since(FIRST),
    Known::always("glibc.malloc.tcache_max", Number(0, 1032))
        .since((2, 26, 0))
        .until((2, 42, 0)),
    Known::always("glibc.malloc.tcache_max", Number(0, 4_194_304)).since((2, 42, 0)),
    Known::always("glibc.malloc.tcache_count", Number(0, 65_535)).since((2, 26, 0)),
    Known::always("glibc.malloc.tcache_unsorted_limit", Number(0, SIZE)).since((2, 26, 0)),
    // There are no fast bins any more in 2.43.
    Known::always("glibc.malloc.mxfast", Number(0, 160))
        .since((2, 31, 0))
        .until((2, 43, 0)),
    Known::always("glibc.malloc.hugetlb", Number(0, SIZE)).since((2, 35, 0)),
    Known::always("glibc.mem.tagging", Number(0, 255)).since((2, 33, 0)),
    Known::always("glibc.mem.decorate_maps", Number(0, 1)).since((2, 39, 0)),
];
