//! The options of jemalloc 5, read from its sources at 5.0.0 to 5.3.1 (`src/jemalloc.c`, `malloc_conf_init_helper`) and
//! tried on 5.3.0 and 5.3.1: with what it prints an error, what it clips without a word, what depends on the build.

use super::value::Kind::{Bool, Fraction, FractionOr, Letters, Number, NumberOr, Text, Words};
use super::{Book, Known, NEVER, Needs};

pub(super) const BOOK: Book = Book {
    options: &[GENERAL, TCACHE, PAGES, STATS, PROF],
    majors: (5, 5),
    gone: &[
        ("lg_chunk", "chunks went with 5.0; remove it"),
        ("lg_dirty_mult", "it went with 5.0; use dirty_decay_ms"),
        ("purge", "it went with 5.0; use dirty_decay_ms"),
        (
            "decay_time",
            "it went with 5.0; use dirty_decay_ms, in milliseconds",
        ),
        ("quarantine", "it went with 5.0; remove it"),
        ("redzone", "it went with 5.0; remove it"),
        ("valgrind", "it went with 5.0; remove it"),
        (
            "bin_shards",
            "its values hold separators, which no option of a policy can; remove it",
        ),
        (
            "slab_sizes",
            "its values hold separators, which no option of a policy can; remove it",
        ),
        (
            "tcache_ncached_max",
            "its values hold separators, which no option of a policy can; remove it",
        ),
        (
            "utrace",
            "only builds with utrace(2) have it, which Linux has not; remove it",
        ),
        (
            "xmalloc",
            "only builds with --enable-xmalloc have it, which a class cannot say; remove it",
        ),
        (
            "experimental_infallible_new",
            "only some builds have it, which a class cannot say; remove it",
        ),
        (
            "lg_san_uaf_align",
            "only some builds have it, which a class cannot say; remove it",
        ),
        (
            "log",
            "only builds with --enable-log have it, which a class cannot say; remove it",
        ),
    ],
};

/// The largest size of any number of 64 bits with a sign.
const MAX: i128 = 0x7fff_ffff_ffff_ffff;
/// The largest size class.
const LARGE: i128 = 0x7000_0000_0000_0000;
/// The longest decay, milliseconds: what fits into nanoseconds of 64 bits.
const DECAY: i128 = 18_446_744_072_000;
/// The most arenas.
const ARENAS: i128 = 4094;
/// The largest cached size.
const CACHED: i128 = 8 * 1024 * 1024;
/// A huge page.
const HUGE: i128 = 2 * 1024 * 1024;

const V5_1: super::Version = (5, 1, 0);
const V5_2: super::Version = (5, 2, 0);
const V5_3: super::Version = (5, 3, 0);
const V5_3_1: super::Version = (5, 3, 1);

const GENERAL: &[Known] = &[
    Known::always("abort", Bool),
    Known::always("abort_conf", Bool),
    Known::always("confirm_conf", Bool).since(V5_2),
    Known::always("background_thread", Bool),
    Known::always("max_background_threads", Number(1, ARENAS)).since(V5_1),
    Known::always("narenas", NumberOr("default", 1, ARENAS)),
    Known::always("narenas_ratio", Fraction(4094)).since(V5_3),
    Known::always("percpu_arena", Words(&["disabled", "percpu", "phycpu"])),
    Known::always("mutex_max_spin", Number(-1, MAX)).since(V5_3),
    Known::always("zero_realloc", Words(&["alloc", "free", "abort"])).since(V5_3),
    Known::always("junk", Words(&["true", "false", "alloc", "free"])),
    Known::always("zero", Bool),
    Known::always("san_guard_small", Number(0, MAX)).since(V5_3),
    Known::always("san_guard_large", Number(0, MAX)).since(V5_3),
    Known::always("debug_double_free_max_scan", Number(0, 0xffff_ffff)).since(V5_3_1),
];

const TCACHE: &[Known] = &[
    Known::always("tcache", Bool),
    Known::always("tcache_max", Number(0, CACHED)).since(V5_3),
    Known::always("lg_tcache_max", Number(0, 23)),
    Known::always("tcache_nslots_small_min", Number(1, 2048)).since(V5_3),
    Known::always("tcache_nslots_small_max", Number(1, 2048)).since(V5_3),
    Known::always("tcache_nslots_large", Number(1, 2048)).since(V5_3),
    Known::always("lg_tcache_nslots_mul", Number(-16, 16)).since(V5_3),
    Known::always("tcache_gc_incr_bytes", Number(1024, MAX)).since(V5_3),
    Known::always("tcache_gc_delay_bytes", Number(0, MAX)).since(V5_3),
    Known::always("lg_tcache_flush_small_div", Number(1, 16)).since(V5_3),
    Known::always("lg_tcache_flush_large_div", Number(1, 16)).since(V5_3),
    Known::always("experimental_tcache_gc", Bool).since(V5_3_1),
];

const PAGES: &[Known] = &[
    Known::always("dirty_decay_ms", Number(-1, DECAY)),
    Known::always("muzzy_decay_ms", Number(-1, DECAY)),
    Known::always("oversize_threshold", Number(0, LARGE)).since(V5_2),
    Known::always("lg_extent_max_active_fit", Number(0, 64)).since(V5_1),
    Known::always("retain", Bool),
    Known::always("dss", Words(&["disabled", "primary", "secondary"])),
    Known::always("thp", Words(&["default", "always", "never"])).since(V5_1),
    Known::always("metadata_thp", Words(&["disabled", "auto", "always"])).since(V5_1),
    Known::always("huge_arena_pac_thp", Bool).since(V5_3_1),
    Known::always("trust_madvise", Bool).since(V5_3),
    Known::always("process_madvise_max_batch", Number(0, 1024)).since(V5_3_1),
    Known::always("calloc_madvise_threshold", Number(0, LARGE)).since(V5_3_1),
    Known::always("disable_large_size_classes", Bool).since(V5_3_1),
    // Readable in 5.3.0, settable only after it.
    Known::always("cache_oblivious", Bool).since(V5_3_1),
    Known::always("hpa", Bool).since(V5_3),
    Known::always("hpa_slab_max_alloc", Number(4096, HUGE)).since(V5_3),
    Known::always("hpa_hugification_threshold", Number(4096, HUGE)).since(V5_3),
    Known::always("hpa_hugification_threshold_ratio", Fraction(1)).since(V5_3),
    Known::always("hpa_hugify_delay_ms", Number(0, MAX)).since(V5_3),
    Known::always("hpa_min_purge_interval_ms", Number(0, MAX)).since(V5_3),
    Known::always("hpa_dirty_mult", FractionOr("-1", 1 << 16)).since(V5_3),
    Known::always("hpa_hugify_sync", Bool).since(V5_3_1),
    Known::always(
        "hpa_hugify_style",
        Words(&["auto", "none", "eager", "lazy"]),
    )
    .since(V5_3_1),
    Known::always("hpa_min_purge_delay_ms", Number(0, MAX)).since(V5_3_1),
    Known::always("hpa_purge_threshold", Number(4096, HUGE)).since(V5_3_1),
    Known::always("hpa_purge_threshold_ratio", Fraction(1)).since(V5_3_1),
    Known::always("hpa_sec_nshards", Number(0, MAX)).since(V5_3),
    Known::always("hpa_sec_max_alloc", Number(4096, CACHED)).since(V5_3),
    Known::always("hpa_sec_max_bytes", Number(4096, MAX)).since(V5_3),
    Known::always("hpa_sec_batch_fill_extra", Number(0, 512)).since(V5_3),
    Known::always("hpa_sec_bytes_after_flush", Number(4096, MAX))
        .since(V5_3)
        .until(V5_3_1),
    Known::always("experimental_hpa_start_huge_if_thp_always", Bool).since(V5_3_1),
    Known::always("experimental_hpa_enforce_hugify", Bool).since(V5_3_1),
    Known::always("experimental_hpa_max_purge_nhp", Number(-1, MAX)).since(V5_3_1),
];

/// The letters of `stats_print_opts`: what is left out.
const LETTERS: &str = "Jgmdablxeh";

const STATS: &[Known] = &[
    Known::always("stats_print", Bool).needs(Needs::Stats),
    Known::always("stats_print_opts", Letters(LETTERS)).needs(Needs::Stats),
    Known::always("stats_interval", Number(-1, MAX))
        .since(V5_3)
        .needs(Needs::Stats),
    Known::always("stats_interval_opts", Letters(LETTERS))
        .since(V5_3)
        .needs(Needs::Stats),
];

const PROF: &[Known] = &[
    prof("prof", Bool),
    prof("prof_active", Bool),
    prof("prof_accum", Bool),
    prof("prof_final", Bool),
    prof("prof_gdump", Bool),
    prof("prof_leak", Bool),
    prof("prof_leak_error", Bool).since(V5_3),
    prof("prof_log", Bool).since(V5_2),
    prof("prof_stats", Bool).since(V5_3),
    prof("prof_sys_thread_name", Bool).since(V5_3),
    prof("prof_thread_active_init", Bool),
    prof("prof_unbias", Bool).since(V5_3),
    prof("prof_prefix", Text),
    prof("prof_recent_alloc_max", Number(-1, MAX)).since(V5_3),
    prof("prof_time_resolution", Words(&["default", "high"])).since(V5_3),
    prof("prof_bt_max", Number(1, 256)).since(V5_3_1),
    prof("prof_pid_namespace", Bool).since(V5_3_1),
    prof("lg_prof_sample", Number(0, 63)),
    prof("lg_prof_interval", Number(-1, 63)),
];

const fn prof(name: &'static str, kind: super::Kind) -> Known {
    Known {
        name,
        kind,
        since: (0, 0, 0),
        until: NEVER,
        needs: Needs::Prof,
    }
}
