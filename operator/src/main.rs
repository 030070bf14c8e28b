//! Entry point of the `heapfleet` binary: crypto provider, arguments, run; nothing else.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use heapfleet::cli::Cli;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if standard error is closed.
            writeln!(std::io::stderr(), "heapfleet: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // Two providers could be compiled in one day; the choice is made here, before any connection.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider was installed before the operator's own"))?;
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(cli.run())
}
