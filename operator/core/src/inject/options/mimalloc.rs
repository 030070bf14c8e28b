//! The options of mimalloc, read from its `src/options.c` at 2.0.9, 2.2.4, 3.3.2 and 3.4.3. An unknown name and a bad
//! value are ignored without a word unless `MIMALLOC_SHOW_ERRORS` is set; what a version calls deprecated does nothing.

use super::value::Kind::{self, Number, Words};
use super::{Book, Known};

pub(super) const BOOK: Book = Book {
    options: &[SINCE_2_0, SINCE_2_1, SINCE_3],
    majors: (2, 3),
    gone: &[],
};

/// As mimalloc reads a switch; any case, of which one is enough here.
const SWITCH: Kind = Words(&["1", "0", "true", "false", "yes", "no", "on", "off"]);
/// The largest number of 64 bits with a sign.
const MAX: i128 = 0x7fff_ffff_ffff_ffff;
/// A number that may not be below 0.
const COUNT: Kind = Number(0, MAX);
/// Milliseconds; -1 is never.
const DELAY: Kind = Number(-1, MAX);

const V2_1: super::Version = (2, 1, 0);
const V3: super::Version = (3, 0, 0);

const SINCE_2_0: &[Known] = &[
    Known::always("show_errors", SWITCH),
    Known::always("show_stats", SWITCH),
    Known::always("verbose", Number(0, 3)),
    Known::always("eager_commit", SWITCH).until(V3),
    Known::always("large_os_pages", SWITCH).until(V2_1),
    Known::always("reserve_huge_os_pages", COUNT),
    Known::always("reserve_huge_os_pages_at", Number(-1, MAX)),
    Known::always("reserve_os_memory", COUNT),
    Known::always("allow_decommit", SWITCH).until(V2_1),
    Known::always("decommit_delay", COUNT).until(V2_1),
    Known::always("segment_decommit_delay", COUNT).until(V2_1),
    Known::always("decommit_extend_delay", COUNT).until(V2_1),
    Known::always("abandoned_page_decommit", SWITCH).until(V2_1),
    Known::always("page_reset", SWITCH).until(V2_1),
    Known::always("eager_commit_delay", COUNT).until(V3),
    Known::always("max_segment_reclaim", COUNT).until(V3),
    Known::always("use_numa_nodes", COUNT),
    Known::always("limit_os_alloc", SWITCH).until(V2_1),
    Known::always("os_tag", COUNT),
    Known::always("max_errors", COUNT),
    Known::always("max_warnings", COUNT),
    Known::always("destroy_on_exit", SWITCH),
];

const SINCE_2_1: &[Known] = &[
    Known::always("arena_eager_commit", Number(0, 2)).since(V2_1),
    Known::always("purge_decommits", SWITCH).since(V2_1),
    Known::always("purge_delay", DELAY).since(V2_1),
    Known::always("arena_purge_mult", COUNT).since(V2_1),
    Known::always("purge_extend_delay", COUNT)
        .since(V2_1)
        .until(V3),
    Known::always("allow_large_os_pages", SWITCH).since(V2_1),
    Known::always("arena_reserve", COUNT).since(V2_1),
    Known::always("abandoned_page_purge", SWITCH)
        .since(V2_1)
        .until(V3),
    Known::always("abandoned_reclaim_on_free", SWITCH)
        .since(V2_1)
        .until(V3),
    Known::always("target_segments_per_thread", COUNT).since(V2_1),
    Known::always("generic_collect", COUNT).since(V2_1),
    Known::always("disallow_os_alloc", SWITCH).since(V2_1),
    Known::always("disallow_arena_alloc", SWITCH).since(V2_1),
    Known::always("visit_abandoned", SWITCH).since(V2_1),
    // Newer ones leave huge pages to the system; older ones switch them off for the whole process tree.
    Known::always("allow_thp", SWITCH)
        .since((2, 2, 6))
        .until(V3),
];

const SINCE_3: &[Known] = &[
    Known::always("minimal_purge_size", COUNT).since(V3),
    Known::always("allow_thp", Number(0, 2)).since((3, 1, 6)),
    Known::always("arena_max_object_size", COUNT).since(V3),
    Known::always("page_reclaim_on_free", Number(-1, 1)).since(V3),
    Known::always("page_full_retain", Number(-1, MAX)).since(V3),
    Known::always("page_max_candidates", COUNT).since(V3),
    Known::always("page_max_reclaim", Number(-1, MAX)).since(V3),
    Known::always("page_cross_thread_max_reclaim", COUNT).since(V3),
    Known::always("page_commit_on_demand", SWITCH).since(V3),
    Known::always("pagemap_commit", SWITCH).since(V3),
    Known::always("arena_is_numa_local", SWITCH).since(V3),
    Known::always("max_vabits", Number(0, 64)).since(V3),
];
