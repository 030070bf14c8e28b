//! Takes the bytes of files below `/proc` and `/sys`, gives their meaning; must never read a file itself, and must
//! answer `None` instead of a guess.

/// What `/proc/<pid>/stat` says about the identity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Whether it is a zombie or dead: it has no memory any more.
    pub(super) ended: bool,
    /// Start since boot, in clock ticks. With the pid this names a process until the next boot.
    pub(super) start_ticks: u64,
}

/// Parses `/proc/<pid>/stat`. The name in parentheses may hold anything, so fields are counted from the last one
/// (proc(5): state is field 3, starttime 22).
pub(super) fn stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    let start_ticks = fields.nth(22 - 4)?.parse().ok()?;
    Some(Stat { ended, start_ticks })
}

/// Memory and threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// `VmRSS`, bytes.
    pub(super) rss: u64,
    /// `RssAnon`, bytes.
    pub(super) rss_anon: u64,
    /// `VmHWM`, bytes: the highest `VmRSS` so far.
    pub(super) rss_peak: u64,
    /// `Threads`.
    pub(super) threads: u64,
}

/// Parses `/proc/<pid>/status`. `None` when it has no memory (kernel thread, or it is just ending).
pub(super) fn status(bytes: &[u8]) -> Option<Status> {
    let (mut rss, mut anon, mut peak, mut threads) = (None, None, None, None);
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some((name, value)) = std::str::from_utf8(line)
            .ok()
            .and_then(|l| l.split_once(':'))
        else {
            continue;
        };
        match name {
            "VmRSS" => rss = kib(value),
            "RssAnon" => anon = kib(value),
            "VmHWM" => peak = kib(value),
            "Threads" => threads = value.trim().parse().ok(),
            _ => {}
        }
    }
    Some(Status {
        rss: rss?,
        rss_anon: anon?,
        rss_peak: peak?,
        threads: threads?,
    })
}

fn kib(value: &str) -> Option<u64> {
    value
        .trim()
        .strip_suffix("kB")?
        .trim_end()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Finds the container of a process in `/proc/<pid>/cgroup`: the first name in a path, from the end, that `known`
/// accepts. All runtimes end the path with the container's id, some with a prefix (`cri-containerd-<id>.scope`,
/// `crio-<id>.scope`, `<slice>:cri-containerd:<id>`), and a container may make cgroups of its own below.
pub(super) fn container_id(bytes: &[u8], known: impl Fn(&str) -> bool) -> Option<&str> {
    std::str::from_utf8(bytes)
        .ok()?
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .flat_map(|path| path.rsplit('/'))
        .filter(|segment| !segment.is_empty())
        .map(|segment| segment.strip_suffix(".scope").unwrap_or(segment))
        .flat_map(|segment| {
            let tails = segment
                .match_indices(['-', ':'])
                .filter_map(|(at, _)| segment.get(at + 1..));
            std::iter::once(segment).chain(tails)
        })
        .find(|candidate| known(candidate))
}

/// What the kernel told this process at its start (getauxval(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Auxv {
    /// `AT_PAGESZ`: page size, bytes.
    pub(super) page_size: u64,
    /// `AT_CLKTCK`: clock ticks per second.
    pub(super) ticks_per_second: u32,
}

/// Parses `/proc/self/auxv`: pairs of native words.
pub(super) fn auxv(bytes: &[u8]) -> Option<Auxv> {
    let (words, _) = bytes.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = words.as_chunks::<2>();
    let find = |wanted: usize| {
        pairs
            .iter()
            .map(|[tag, value]| (usize::from_ne_bytes(*tag), usize::from_ne_bytes(*value)))
            .find_map(|(tag, value)| (tag == wanted && value > 0).then_some(value))
    };
    Some(Auxv {
        page_size: u64::try_from(find(6)?).ok()?,
        ticks_per_second: u32::try_from(find(17)?).ok()?,
    })
}

/// Time of boot from `/proc/stat`, seconds since 1970.
pub(super) fn boot_seconds(bytes: &[u8]) -> Option<u32> {
    bytes
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"btime "))
        .and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok())
}

/// The mode in brackets of `/sys/kernel/mm/transparent_hugepage/enabled`: `always`, `madvise` or `never`.
pub(super) fn thp_mode(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mode = text.split_once('[')?.1.split_once(']')?.0;
    (!mode.is_empty() && mode.len() <= 16).then_some(mode)
}

#[cfg(test)]
#[path = "procfs_tests.rs"]
mod tests;
