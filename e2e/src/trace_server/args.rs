//! Takes command line and environment, gives [`Args`]; must never read anything else.

use clap::Parser;
use std::net::SocketAddr;
use std::str::FromStr;

/// A number of bytes, written plainly or with the suffix `k` (1024) or `M` (1024²).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1 << 10),
            None => text
                .strip_suffix(['m', 'M'])
                .map_or((text, 1), |digits| (digits, 1 << 20)),
        };
        digits
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(unit))
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a size such as 4096, 64k or 64M"))
    }
}

/// A cache server whose resident memory depends on the allocator.
///
/// The defaults are the lab's shape Q without end. Every flag can be given as an environment variable.
#[derive(Clone, Debug, Parser)]
#[command(name = "trace-server", version)]
pub struct Args {
    /// Address of /metrics and /healthz.
    #[arg(long, env = "TRACE_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// Byte budget of the cache.
    #[arg(long, env = "TRACE_CACHE", default_value = "64M")]
    pub cache: Size,
    /// Groups of workers that take turns.
    #[arg(long, env = "TRACE_GROUPS", default_value_t = 4)]
    pub groups: u32,
    /// Workers per group.
    #[arg(long, env = "TRACE_THREADS", default_value_t = 4)]
    pub threads: u32,
    /// Turns of every group, after which the server is idle; 0: turns without end.
    #[arg(long, env = "TRACE_ROT", default_value_t = 0)]
    pub rot: u32,
    /// Percent of the cache's bytes that a group inserts in a turn.
    #[arg(long, env = "TRACE_FILLS", default_value_t = 100)]
    pub fills: u32,
    /// Smallest block of an entry; sizes are log-uniform.
    #[arg(long, env = "TRACE_MIN", default_value = "64")]
    pub min: Size,
    /// Largest block of an entry.
    #[arg(long, env = "TRACE_MAX", default_value = "4096")]
    pub max: Size,
    /// An entry has 1 to this many blocks.
    #[arg(long, env = "TRACE_CHUNKS", default_value_t = 4)]
    pub chunks: u32,
    /// Requests per second over all workers of the group at work; 0: as fast as possible.
    #[arg(long, env = "TRACE_RATE", default_value_t = 12_000)]
    pub rate: u32,
    /// Scratch blocks of 100 to 4099 bytes per request.
    #[arg(long, env = "TRACE_TMP", default_value_t = 4)]
    pub tmp: u32,
    /// Every n-th request of a worker replaces one of its big buffers; 0: never.
    #[arg(long, env = "TRACE_BURST", default_value_t = 0)]
    pub burst: u32,
    /// Size of a big buffer: between half and one and a half of this.
    #[arg(long, env = "TRACE_BURST_SIZE", default_value = "4M")]
    pub burst_size: Size,
    /// Big buffers per worker, freed at the end of its turn.
    #[arg(long, env = "TRACE_BURST_SLOTS", default_value_t = 1)]
    pub burst_slots: u32,
    /// Seed of the random numbers.
    #[arg(long, env = "TRACE_SEED", default_value_t = 1)]
    pub seed: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes() {
        assert_eq!("4096".parse(), Ok(Size(4096)));
        assert_eq!("64k".parse(), Ok(Size(65_536)));
        assert_eq!("64M".parse(), Ok(Size(67_108_864)));
    }

    #[test]
    fn other_sizes_are_refused_with_the_remedy() {
        for text in ["", "M", "-1", "1.5M", "64G", "99999999999999M"] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains("is not a size such as"), "{error}");
        }
    }

    #[test]
    fn the_defaults_are_shape_q_without_end() {
        let args = Args::parse_from(["trace-server"]);
        assert_eq!(
            (args.cache, args.groups, args.threads, args.rot),
            (Size(64 << 20), 4, 4, 0)
        );
        assert_eq!(
            (args.fills, args.min, args.max),
            (100, Size(64), Size(4096))
        );
        assert_eq!((args.chunks, args.rate, args.burst), (4, 12_000, 0));
    }
}
