//! Takes the workspace, gives the programs that go into images; must never use a program of another checkout.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::lab::{Progress, child};

/// The target whose C library may be linked statically.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A cold release build of the operator on two cores takes some minutes.
const LIMIT: Duration = Duration::from_mins(30);

/// Programs for images.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// The operator, static.
    pub(super) heapfleet: PathBuf,
    /// The workload, linked to glibc.
    pub(super) trace_server: PathBuf,
}

/// The root of the workspace that this program was built from.
pub fn workspace() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .parent()
        .with_context(|| format!("{} has no parent", here.display()))?;
    Ok(root.to_owned())
}

/// Builds both programs, with progress: the operator in the profile `lab`, the workload as this program was built.
pub(super) fn programs(progress: Progress) -> Result<Programs> {
    let root = workspace()?;
    let out = target_dir(&root);
    progress.during("building the operator as a static program", || {
        let args = [
            "-p",
            "heapfleet",
            "--bin",
            "heapfleet",
            "--profile",
            "lab",
            "--target",
            TARGET,
        ];
        cargo(&root, &args, "-C target-feature=+crt-static")
    })?;
    progress.during("building the workload", || {
        cargo(&root, &["-p", "heapfleet-e2e", "--bin", "trace-server"], "")
    })?;
    let programs = Programs {
        heapfleet: out.join(TARGET).join("lab/heapfleet"),
        trace_server: out.join("debug/trace-server"),
    };
    for file in [&programs.heapfleet, &programs.trace_server] {
        ensure!(file.is_file(), "cargo built no {}", file.display());
    }
    Ok(programs)
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// The cargo that runs this program, else the one on the path, in the workspace.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

fn cargo(root: &Path, args: &[&str], flags: &str) -> Result<()> {
    let mut command = cargo_command(root);
    command.args(["build", "--locked", "--quiet"]).args(args);
    if !flags.is_empty() {
        command.env("RUSTFLAGS", flags);
    }
    let output = child::run(&mut command, LIMIT)?;
    ensure!(
        output.status.success(),
        "cargo build {} failed:\n{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
