//! Takes the command line, gives arguments and runs the command that it names. Never holds logic of its own.

mod crds;
mod logging;

use std::net::SocketAddr;

use clap::{Parser, Subcommand, ValueEnum};

pub use crds::CrdsArgs;

/// Swaps the memory allocator of workloads across regions: injects, proves, canaries, judges, rolls back exactly.
#[derive(Debug, Parser)]
#[command(name = "heapfleet", version, about)]
pub struct Cli {
    /// The form of the log on standard error.
    #[arg(
        long,
        global = true,
        env = "HEAPFLEET_LOG_FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,
    /// What is logged, as for tracing's `EnvFilter`.
    #[arg(
        long,
        global = true,
        env = "HEAPFLEET_LOG",
        default_value = "info,kube_client=warn,kube_runtime=warn"
    )]
    pub log: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator; needs the hub's API server.
    Run(RunArgs),
    /// Run the node probe; needs /proc of the node.
    Probe(crate::probe::Args),
    /// Print the custom resource definitions; needs nothing.
    Crds(CrdsArgs),
}

/// How the operator runs.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The operator's own namespace: Secrets that regions refer to are read here and nowhere else.
    #[arg(long, env = "POD_NAMESPACE", default_value = "heapfleet-system")]
    pub namespace: String,
    /// The name of the operator's own pod, for events.
    #[arg(long, env = "POD_NAME")]
    pub pod_name: Option<String>,
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    #[arg(long, env = "HEAPFLEET_LISTEN", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
}

impl Cli {
    /// Runs the command until it ends or a signal asks it to.
    pub async fn run(self) -> anyhow::Result<()> {
        logging::start(self.log_format, &self.log)?;
        match self.command {
            Command::Run(args) => Ok(crate::runtime::run(args.into()).await?),
            Command::Probe(args) => crate::probe::run(args).await,
            Command::Crds(args) => crds::print(&args),
        }
    }
}

impl From<RunArgs> for crate::runtime::Settings {
    fn from(args: RunArgs) -> Self {
        Self {
            namespace: args.namespace,
            pod_name: args.pod_name,
            listen: args.listen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_the_whole_may_follow_the_command() {
        let cli = Cli::try_parse_from([
            "heapfleet",
            "run",
            "--namespace",
            "x",
            "--log-format",
            "json",
        ]);
        let cli = cli.unwrap();
        assert_eq!(cli.log_format, LogFormat::Json);
        let Command::Run(args) = cli.command else {
            panic!("not run")
        };
        assert_eq!(args.namespace, "x");
        assert_eq!(args.listen.port(), 8080);
    }
}
