//! The cache server of the lab: flags in, load and metrics out; ends at once on SIGTERM.

use clap::Parser as _;
use heapfleet_e2e::trace_server::{Args, run};

fn main() -> anyhow::Result<()> {
    run(&Args::parse())?;
    // The workers never end by themselves.
    std::process::exit(0)
}
