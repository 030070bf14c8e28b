//! Runs files of judge vectors: `cargo run --release -p heapfleet-core --example vectors -- FILE…`.
//!
//! Prints each failure with what was expected and what came out, then `N passed, N failed`; the exit code is 0 when
//! nothing failed and something passed.
#![expect(
    clippy::print_stdout,
    reason = "a command line tool reports on its standard output"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a command line tool reads the files it is given"
)]

mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        println!("usage: vectors FILE…");
        return ExitCode::FAILURE;
    }
    let (mut passed, mut failed) = (0_usize, 0_usize);
    for file in &files {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                println!("FAIL {file}: {error}");
                failed += 1;
                continue;
            }
        };
        let report = run::check(&text);
        for failure in &report.failures {
            println!("FAIL {file}: {failure}");
        }
        passed += report.passed;
        failed += report.failures.len();
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
