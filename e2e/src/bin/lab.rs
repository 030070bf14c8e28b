//! Takes a command line, gives a lab, a look at one, or its end; must never hold logic that the library should have.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use heapfleet_e2e::lab::{
    Config, Lab, Progress, child::Ident, cleanup, default_root, discovery, forward, holder,
    interrupt, wait, watchdog,
};
use heapfleet_e2e::{demo, suite};

/// Real Kubernetes clusters, one per region, on this machine.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
struct Cli {
    /// State folder of the lab.
    #[arg(long, global = true, env = "HEAPFLEET_LAB_ROOT", default_value_os_t = default_root())]
    root: PathBuf,
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Start the lab and leave it running.
    Up(Up),
    /// Show each region: API server, node, Prometheus, where they are reached.
    Status,
    /// Run kubectl as a region's administrator.
    Kubectl {
        /// The region.
        region: String,
        /// Arguments of kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Print a log, or name all logs.
    Logs {
        /// For example `ore/apiserver`.
        what: Option<String>,
    },
    /// End the lab and remove everything of it.
    Down,
    /// Start a fleet, tell the product's whole story on it, end it.
    Demo,
    /// Run every test of the workspace; ends with the counts.
    Test,
    /// The first process of a region's namespaces.
    #[command(hide = true)]
    Hold(Hold),
    /// The process that listens on 127.0.0.1.
    #[command(hide = true)]
    Forward {
        #[arg(long)]
        out: PathBuf,
        forwards: Vec<forward::Forward>,
    },
    /// The process that finds the pods to scrape.
    #[command(hide = true)]
    Discover {
        #[arg(long)]
        kubectl: PathBuf,
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        region: String,
    },
    /// The process that cleans up when the lab's owner vanishes.
    #[command(hide = true)]
    Watchdog {
        #[arg(long)]
        pid: i32,
        #[arg(long)]
        start_time: u64,
    },
}

#[derive(Debug, Args)]
struct Up {
    /// The regions, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "ore,fra,nrt")]
    regions: Vec<String>,
    /// Control planes only: no nodes, no containers.
    #[arg(long)]
    planes: bool,
    /// No Prometheus.
    #[arg(long)]
    no_prometheus: bool,
    /// How often Prometheus scrapes.
    #[arg(long, default_value = "250ms")]
    scrape_interval: String,
    /// Stay, and end the lab with this command (Ctrl-C, or however it ends).
    #[arg(long)]
    foreground: bool,
}

#[derive(Debug, Args)]
struct Hold {
    #[arg(long)]
    machine: bool,
    #[arg(long)]
    inner: bool,
    #[arg(long)]
    ready: PathBuf,
    #[arg(long)]
    log: PathBuf,
    #[arg(long)]
    keep: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // With standard error closed there is nobody to tell.
            let _closed = writeln!(io::stderr(), "lab: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let root = cli.root;
    match cli.command {
        Commands::Up(up) => start(root, up),
        Commands::Status => status(&Lab::attach(&root)?),
        Commands::Kubectl { region, args } => Lab::attach(&root)?.become_kubectl(&region, &args),
        Commands::Logs { what: Some(what) } => {
            let file = Lab::attach(&root)?.log(&what)?;
            let mut log = std::fs::File::open(&file)
                .with_context(|| format!("opening {}", file.display()))?;
            io::copy(&mut log, &mut io::stdout().lock())
                .map(drop)
                .context("printing the log")
        }
        Commands::Logs { what: None } => {
            let names = Lab::attach(&root)?.logs();
            writeln!(io::stdout(), "{}", names.join("\n")).context("printing the names")
        }
        Commands::Down => cleanup::cleanup(&root),
        Commands::Demo => {
            interrupt::install()?;
            let told = demo::run(Config {
                root,
                ..Config::default()
            })?;
            write!(io::stdout(), "{}", told.table()).context("printing the table")
        }
        Commands::Test => suite::run(),
        Commands::Hold(h) => holder::answer(holder::run(&holder::Hold {
            machine: h.machine,
            inner: h.inner,
            ready: h.ready,
            log: h.log,
            keep: h.keep,
        })?),
        Commands::Forward { out, forwards } => forward::serve(&out, &forwards),
        Commands::Discover {
            kubectl,
            kubeconfig,
            folder,
            region,
        } => discovery::run(&discovery::Discovery {
            kubectl,
            kubeconfig,
            folder,
            region,
        }),
        Commands::Watchdog { pid, start_time } => watchdog::watch(
            &root,
            Ident {
                pid,
                start: start_time,
            },
        ),
    }
}

fn start(root: PathBuf, up: Up) -> Result<()> {
    interrupt::install()?;
    let config = Config {
        root,
        regions: up.regions,
        kubelets: !up.planes,
        prometheus: !up.no_prometheus,
        scrape_interval: up.scrape_interval,
        progress: Progress::Shown,
        ..Config::default()
    };
    let lab = Lab::up(&config)?;
    status(&lab)?;
    if !up.foreground {
        return lab.keep();
    }
    Progress::Shown.say("running until Ctrl-C");
    let forever = Duration::from_secs(u64::from(u32::MAX));
    let ended = wait::until("Ctrl-C", forever, None, || {
        Ok(wait::Look::<()>::Again(String::new()))
    });
    Progress::Shown.say("ending the lab");
    lab.down()?;
    if interrupt::requested() {
        Ok(())
    } else {
        ended
    }
}

fn status(lab: &Lab) -> Result<()> {
    let head = [
        "REGION",
        "API SERVER",
        "NODE",
        "PROMETHEUS",
        "API URL",
        "PROMETHEUS URL",
        "KUBECONFIG",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(lab.status().into_iter().map(|r| {
        [
            r.region,
            r.api_server,
            r.node,
            r.prometheus,
            r.api_url,
            r.prometheus_url,
            r.kubeconfig,
        ]
    }));
    let mut out = io::stdout().lock();
    for row in &rows {
        for (i, cell) in row.iter().enumerate() {
            let width = rows
                .iter()
                .filter_map(|r| r.get(i))
                .map(String::len)
                .max()
                .unwrap_or_default();
            write!(out, "{cell:width$}  ")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
