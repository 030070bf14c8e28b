//! Takes the types, gives the manifests under `crds/generated`: prints them, writes them (`--write`) or compares them
//! (`--check`); must never talk to a cluster.

use heapfleet_crds::{all, to_yaml};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// How to bring the files up to date.
const REMEDY: &str = "run: cargo run -p heapfleet-crds --bin crdgen -- --write";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(
        &arguments,
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/generated")),
    ) {
        Ok(code) => code,
        Err(error) => {
            tell(&format!("crdgen: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// One pass over all kinds, in the mode that the arguments name.
fn run(arguments: &[&str], folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    match arguments {
        [] => print(),
        ["--write"] => write(folder),
        ["--check"] => check(folder),
        _ => {
            tell("usage: crdgen [--write | --check]");
            Ok(ExitCode::from(2))
        }
    }
}

/// Prints every manifest as one YAML stream, fit for `kubectl apply -f -`.
fn print() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for (_, definition) in all() {
        write!(out, "---\n{}", to_yaml(&definition)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes every manifest that differs.
fn write(folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for (file, definition) in all() {
        let wanted = to_yaml(&definition)?;
        let path = folder.join(file);
        if std::fs::read_to_string(&path).ok().as_deref() != Some(wanted.as_str()) {
            std::fs::write(&path, wanted)?;
            tell(&format!("wrote {file}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which manifests are not what the types give.
fn check(folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let mut stale = false;
    for (file, definition) in all() {
        let found = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        if found != to_yaml(&definition)? {
            stale = true;
            tell(&format!("crds/generated/{file} is not what the types give"));
        }
    }
    if stale {
        tell(REMEDY);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for people.
#[expect(
    clippy::print_stderr,
    reason = "a command line tool speaks to people on standard error"
)]
fn tell(line: &str) {
    eprintln!("{line}");
}
