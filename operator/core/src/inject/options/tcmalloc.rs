//! The options of gperftools' tcmalloc, read from its `docs/tcmalloc.adoc` and `src` at 2.18. All of them are ignored
//! without a word where they are wrong. Google's tcmalloc has none for users.

use super::value::Kind::{Bool, Fraction, Number};
use super::{Book, Known, Needs};

pub(super) const BOOK: Book = Book {
    options: &[OPTIONS],
    majors: (2, 2),
    gone: &[],
};

/// The largest number of 64 bits with a sign.
const MAX: i128 = 0x7fff_ffff_ffff_ffff;

const OPTIONS: &[Known] = &[
    Known::always("sample_parameter", Number(0, MAX)).needs(Needs::Prof),
    Known::always("release_rate", Fraction(10)),
    Known::always("large_alloc_report_threshold", Number(0, MAX)),
    Known::always("max_total_thread_cache_bytes", Number(0, MAX)),
    Known::always("aggressive_decommit", Bool),
    Known::always("override_pagesize", Number(4096, 1 << 30)).since((2, 15, 0)),
    Known::always("heap_limit_mb", Number(0, MAX)),
    Known::always("skip_mmap", Bool),
    Known::always("skip_sbrk", Bool),
    Known::always("disable_memory_release", Bool),
    Known::always("transfer_num_obj", Number(1, 1 << 20)),
    Known::always("enable_sized_delete", Bool),
];
