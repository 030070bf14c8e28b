//! Re-runs the judge's simulation study: `cargo run --release -p heapfleet-core --example study -- [OPTIONS]`.
//!
//! `--scale F` share of the repetitions (1: all, about an hour on two cores; 0.1: minutes), `--seed N`, `--threads N`,
//! `--only TEXT` cells whose group or name holds it. Prints each cell beside its target and whether it is met within
//! Monte-Carlo error (R rolled back and median minutes, P promoted first and median hours); the exit code is 0 when all
//! are. Progress goes to standard error.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool reports on its standard streams"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a command line tool reads its arguments"
)]

mod assumptions;
mod bake;
mod blocks;
mod cells;
mod chance;
mod crossings;
mod faults;
mod gates;
mod regressions;
mod report;
#[path = "../../tests/judge/world.rs"]
#[expect(
    dead_code,
    reason = "the tests' world of samples; only part of it is needed here"
)]
mod samples;
mod world;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bake::Outcome;
use cells::Cell;
use chance::Chance;
use heapfleet_core::judge::num;

/// What was asked for on the command line.
struct Options {
    scale: f64,
    seed: u64,
    threads: usize,
    only: String,
}

fn options() -> Result<Options, String> {
    let mut out = Options {
        scale: 1.0,
        seed: 20_261_130,
        threads: 2,
        only: String::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let wrong = |_| format!("{name}: {value} is no number");
        match name.as_str() {
            "--scale" => out.scale = value.parse().map_err(|_| format!("{value} is no number"))?,
            "--seed" => out.seed = value.parse().map_err(wrong)?,
            "--threads" => out.threads = value.parse().map_err(wrong)?,
            "--only" => out.only = value,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(out)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = |text: &str| text.to_lowercase().contains(&options.only.to_lowercase());
    let mut all = true;
    if wanted("crossings") {
        let (lines, met) = crossings::run(options.seed, num::ceil(20_000.0 * options.scale));
        println!(
            "\n## crossings: paths exactly at the tolerance, every look\n{}",
            lines.join("\n")
        );
        all &= met;
    }
    if wanted("gates") {
        let (lines, met) = gates::run(40);
        println!("\n## gates: whole looks from samples\n{}", lines.join("\n"));
        all &= met;
    }
    let cells: Vec<Cell> = cells::all()
        .into_iter()
        .filter(|c| wanted(&format!("{} {}", c.group, c.name)))
        .collect();
    let outcomes = simulate(&cells, &options);
    let mut group = "";
    for (cell, outcomes) in cells.iter().zip(&outcomes) {
        if cell.group != group {
            group = cell.group;
            println!("\n## {group}");
        }
        let measured = report::measure(cell, outcomes);
        println!("{}", measured.line);
        all &= measured.met;
    }
    println!(
        "\n{}",
        if all {
            "every target is met"
        } else {
            "some targets are not met"
        }
    );
    if all {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Simulates all bakes on all threads; the result does not depend on their number.
fn simulate(cells: &[Cell], options: &Options) -> Vec<Vec<Outcome>> {
    let jobs: Vec<(usize, usize)> = cells
        .iter()
        .enumerate()
        .flat_map(|(i, cell)| {
            let n = num::ceil(num::real(cell.repetitions) * options.scale).max(4);
            (0..n).map(move |r| (i, r))
        })
        .collect();
    let mut empty: Vec<Vec<Outcome>> = cells.iter().map(|_| Vec::new()).collect();
    for (cell, _) in &jobs {
        if let Some(list) = empty.get_mut(*cell) {
            list.push(Outcome::default());
        }
    }
    let results = Mutex::new(empty);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((i, repetition)) = jobs.get(at) else {
                        break;
                    };
                    let Some(cell) = cells.get(*i) else { break };
                    let outcome = one(cell, options.seed, *repetition);
                    if let Ok(mut results) = results.lock()
                        && let Some(slot) = results.get_mut(*i).and_then(|l| l.get_mut(*repetition))
                    {
                        *slot = outcome;
                    }
                    if at % 200 == 199 {
                        eprintln!("{}/{} bakes, now {}", at + 1, jobs.len(), cell.name);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}

fn one(cell: &Cell, seed: u64, repetition: usize) -> Outcome {
    let id = |n: usize| u64::try_from(n).unwrap_or(0);
    let mut chance = Chance::new(seed, id(cell.number) + 1, id(repetition));
    let arms = [
        world::arm(&cell.world, true, &mut chance),
        world::arm(&cell.world, false, &mut chance),
    ];
    bake::judge(&cell.world, &arms, cell.asked)
}
