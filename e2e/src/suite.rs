//! Takes the workspace, gives the result of every test in it as counts; must never call a test passed that did not run.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use anyhow::{Context, Result, bail, ensure};

use crate::demo::{cargo_command, workspace};

/// How long the fuzz target of the judge runs, as its engine is told. It says every ten seconds how far it is.
const FUZZ: (&str, &str) = ("BOLERO_RANDOM_TEST_TIME_MS", "60000");

/// Counts of finished tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    suites: u64,
}

impl Counts {
    /// Adds a line `test result: ok. 3 passed; 0 failed; 1 ignored; …`; other lines change nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line
            .trim_start()
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        let number = |word: &str| {
            let part = counts
                .split("; ")
                .find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|number| number.trim().parse::<u64>().ok())
                .unwrap_or_default()
        };
        self.passed += number("passed");
        self.failed += number("failed");
        self.ignored += number("ignored");
        self.suites += 1;
    }
}

/// Runs `cargo test` over the workspace, one test program after the other, and prints its output as it comes; the last
/// line is `N passed, N failed`. The fuzz target, some seconds long in a plain `cargo test`, runs for a minute.
///
/// # Errors
/// When a test failed, was ignored, or cargo itself failed.
pub fn run() -> Result<()> {
    let mut child = cargo_command(&workspace()?)
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .env(FUZZ.0, FUZZ.1)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading the output of cargo test")?;
        counts.add(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    let status = child.wait().context("waiting for cargo test")?;
    writeln!(
        std::io::stdout(),
        "\n{} passed, {} failed",
        counts.passed,
        counts.failed
    )?;
    ensure!(counts.suites > 0, "no test ran");
    ensure!(counts.ignored == 0, "{} tests were ignored", counts.ignored);
    if !status.success() || counts.failed > 0 {
        bail!("{} tests failed ({status})", counts.failed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_suites() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            counts.add(line);
        }
        assert_eq!(
            counts,
            Counts {
                passed: 5,
                failed: 5,
                ignored: 1,
                suites: 2
            }
        );
    }
}
