//! Takes a region and arguments, gives what `kubectl` answers; must never run without a time limit or leave a cache in
//! the home folder, where a later lab on the same port would find it.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{child, state::Region};

/// A `kubectl` of the region's administrator.
pub(super) fn command(region: &Region, args: &[&str]) -> Command {
    let mut command = Command::new(&region.kubectl);
    command
        .arg("--kubeconfig")
        .arg(region.kubeconfig())
        .arg("--cache-dir")
        .arg(region.path("kubectl-cache"))
        .args(args);
    command
}

/// Runs `kubectl` to its end, with `input` as standard input; an exit status other than 0 is no error here.
pub(super) fn run(
    region: &Region,
    args: &[&str],
    input: Option<&str>,
    limit: Duration,
) -> Result<Output> {
    child::run_with(&mut command(region, args), input, limit)
        .with_context(|| format!("kubectl in region {}", region.name))
}

/// [`run`], but an exit status other than 0 is an error; gives standard output.
pub(super) fn run_ok(
    region: &Region,
    args: &[&str],
    input: Option<&str>,
    limit: Duration,
) -> Result<String> {
    let output = run(region, args, input, limit)?;
    if !output.status.success() {
        bail!(
            "kubectl {} in region {}: {}",
            args.join(" "),
            region.name,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Becomes `kubectl`: for a person, so without a limit, with the terminal as input and output.
///
/// # Errors
/// Only when it cannot be started; otherwise this does not return.
pub(super) fn become_kubectl(region: &Region, args: &[String]) -> Result<()> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    Err(command(region, &args).exec()).context("starting kubectl")
}
