//! Scrapes of a made world to what the judge sees: blocks of five minutes, windows of two hours, latency.

use std::f64::consts::PI;

use heapfleet_core::judge::num::{real, signed};
use heapfleet_core::judge::panel::{Panel, Point};

use crate::chance::Chance;
use crate::world::{PER_BLOCK, Scrapes, Wander, World, split};

/// Scrapes to blocks and windows of two hours.
pub(crate) fn cut(world: &World, seen: &Scrapes) -> (Vec<Point>, Vec<Point>) {
    let mut blocks = Vec::new();
    let mut windows: Vec<(usize, f64)> =
        vec![(0, f64::NEG_INFINITY); (world.before() + world.after()) / 24];
    let parts = seen
        .y
        .chunks(PER_BLOCK)
        .zip(seen.usable.chunks(PER_BLOCK))
        .zip(seen.full.chunks(PER_BLOCK));
    for (i, (((y, usable), full), process)) in parts.zip(&seen.process).enumerate() {
        let kept: Vec<f64> = y
            .iter()
            .zip(usable)
            .filter(|(_, u)| **u)
            .map(|(y, _)| *y)
            .collect();
        if kept.len() < PER_BLOCK / 2 || !full.iter().all(|f| *f) {
            continue;
        }
        let y = kept.iter().sum::<f64>() / real(kept.len());
        // The change itself is a new process.
        let incarnation = process + u32::from(i >= world.before()) * 1000;
        blocks.push(Point {
            column: signed(i),
            incarnation,
            y,
        });
        if let Some(w) = windows.get_mut(i / 24) {
            w.0 += 1;
            w.1 = kept.iter().copied().fold(w.1, f64::max);
        }
    }
    let last = |w: usize| seen.process.get(w * 24 + 23).copied().unwrap_or(0);
    let peaks = windows
        .iter()
        .enumerate()
        .filter(|(_, w)| w.0 >= 18)
        .map(|(w, (_, y))| Point {
            column: signed(w),
            incarnation: last(w) + u32::from(w >= world.before() / 24) * 1000,
            y: *y,
        })
        .collect();
    (blocks, peaks)
}

/// p99 latency, block by block.
pub(crate) fn latency(world: &World, canary: bool, pods: usize, chance: &mut Chance) -> Panel {
    let blocks = world.before() + world.after();
    let (level, phase) = (0.1 * chance.normal(), chance.uniform());
    let amplitude = chance.between(0.05, 0.15);
    let mut wander = Wander {
        keep: (-0.25_f64).exp(),
        push: 0.02 * (1.0 - (-0.5_f64).exp()).sqrt(),
        now: 0.02 * chance.normal(),
    };
    let common: Vec<f64> = (0..blocks)
        .map(|b| {
            let day = (real(b) + 0.5) / 288.0;
            level + amplitude * (2.0 * PI * (day - phase)).sin() + wander.next(chance)
        })
        .collect();
    let shift = 0.005 * chance.normal() + if canary { world.effect.p99 } else { 0.0 };
    let mut out = Panel {
        region: if canary { "canary" } else { "control" }.to_owned(),
        pods: Vec::new(),
    };
    for i in 0..pods {
        let own = 0.01 * chance.normal();
        let mut wander = Wander {
            keep: (-0.5_f64).exp(),
            push: 0.05 * (1.0 - (-1.0_f64).exp()).sqrt(),
            now: 0.05 * chance.normal(),
        };
        let mut points = Vec::new();
        for (b, common) in common.iter().enumerate() {
            let after = b >= world.before();
            let y = common + wander.next(chance) + if after { own + shift } else { 0.0 };
            if chance.uniform() >= 0.005 {
                points.push(Point {
                    column: signed(b),
                    incarnation: u32::from(after),
                    y,
                });
            }
        }
        out.pods.extend(split(
            world,
            &format!("{i}"),
            points,
            signed(world.before()),
        ));
    }
    out
}
