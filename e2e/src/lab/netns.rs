//! Takes regions, gives each its own namespaces and a wire to the others; must never give the machine's own network
//! namespace an address, a bridge, a route or an interface.
//!
//! No namespace has a name in the file system: each lives as long as its holder process (see [`super::holder`]), so
//! nothing of the network outlives the processes.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};

use super::{
    child::{self, Ident},
    lab_program,
    state::Region,
    wait,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Which namespaces a holder makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Only a network.
    Network,
    /// A network, processes and mounts: what looks like a machine from inside.
    Machine,
}

/// Starts a holder and waits until its namespaces are ready. `dir` is its folder, `keep` are folders that must stay
/// visible inside.
pub(super) fn hold(root: &Path, dir: &Path, scope: Scope, keep: &[&Path]) -> Result<Ident> {
    std::fs::create_dir_all(dir)?;
    let log = dir.join("holder.log");
    let ready = dir.join("holder.ready");
    let mut command = Command::new(lab_program()?);
    command
        .arg("hold")
        .arg("--ready")
        .arg(&ready)
        .env(child::MARK, root);
    command.arg("--log").arg(&log);
    if scope == Scope::Machine {
        command.arg("--machine");
        for path in keep {
            command.arg("--keep").arg(path);
        }
    }
    let pid: i32 = child::run_ok(&mut command, LIMIT)?
        .trim()
        .parse()
        .context("reading the holder's pid")?;
    wait::until("the namespaces of a region", LIMIT, Some(&log), || {
        let Some(holder) = Ident::of(pid) else {
            anyhow::bail!(
                "the holder of a region's namespaces ended{}",
                wait::tail_note(&log)
            );
        };
        Ok(if ready.exists() {
            wait::Look::Done(holder)
        } else {
            wait::Look::Again(String::new())
        })
    })
}

/// A command that runs inside the network of a holder, but sees the machine's files and processes.
pub(super) fn in_network(holder: Ident, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{}/ns/net", holder.pid))
        .arg("--")
        .arg(program);
    command
}

/// A command that runs inside all namespaces of a region, with nothing of this process's environment.
pub(super) fn in_region(region: &Region, program: &Path) -> Result<Command> {
    let holder = region.holder.context("the region has no namespaces yet")?;
    let mut command = Command::new("nsenter");
    command
        .args([
            "--target",
            &holder.pid.to_string(),
            "--net",
            "--mount",
            "--pid",
            "--",
        ])
        .arg(program)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("LANG", "C.UTF-8")
        .env("HOME", &region.dir)
        .env("TMPDIR", region.path("tmp"));
    Ok(command)
}

fn ip(holder: Ident, args: &str) -> Result<()> {
    child::run_ok(
        in_network(holder, "ip").args(args.split_whitespace()),
        LIMIT,
    )
    .map(drop)
}

/// Makes the bridge that joins the regions.
pub(super) fn build_hub(hub: Ident) -> Result<()> {
    ip(hub, "link set lo up")?;
    ip(hub, "link add hfbr0 type bridge")?;
    ip(hub, "addr add 198.18.0.1/24 dev hfbr0")?;
    ip(hub, "link set hfbr0 up")
}

/// Joins a region to the bridge.
pub(super) fn join_hub(hub: Ident, region: &Region) -> Result<()> {
    let holder = region.holder.context("the region has no namespaces yet")?;
    let wire = wire(region);
    ip(
        hub,
        &format!(
            "link add {wire} type veth peer name eth0 netns {}",
            holder.pid
        ),
    )?;
    ip(hub, &format!("link set {wire} master hfbr0 up"))?;
    ip(holder, "link set lo up")?;
    ip(holder, &format!("addr add {}/24 dev eth0", region.ip()))?;
    ip(holder, "link set eth0 up")?;
    ip(holder, "route add default via 198.18.0.1")?;
    child::run_ok(
        in_network(holder, "sysctl").args(["-qw", "net.ipv4.ip_forward=1"]),
        LIMIT,
    )
    .map(drop)
}

/// Cuts a region off from the others, or joins it again. The forwards to 127.0.0.1 go on working.
pub(super) fn partition(hub: Ident, region: &Region, cut: bool) -> Result<()> {
    ip(
        hub,
        &format!(
            "link set {} {}",
            wire(region),
            if cut { "down" } else { "up" }
        ),
    )
}

/// Name of the hub's end of a region's wire (at most 15 bytes).
fn wire(region: &Region) -> String {
    format!("v{}", region.number)
}
