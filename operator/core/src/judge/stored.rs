//! The bounded form in which a region's evidence is kept (reading 14): frozen baseline and D per metric and block, single
//! precision, deflated, base64. A look in, at most [`EVIDENCE_BYTES`] of text out, and back; must never trust what it
//! reads, and never panic on it.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};

use super::carried::Frozen;
use super::constants::{EVIDENCE_BYTES, EVIDENCE_TOLERANCE, FROZEN_VERSION};
use super::noise;
use super::num;
use super::outcome::{Code, Look, Reason, Verdict};
use super::rule::Rule;
use super::verdict::{self, Weighed};

/// Most bytes that one stored part may unfold to.
const UNFOLDED: u64 = 1 << 22;

/// One metric's accepted differences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetricEvidence {
    /// `ratio`, `peak` or a guardrail's name.
    pub metric: String,
    /// The accepted blocks, ascending (windows since the change for the peak).
    pub columns: Vec<i64>,
    /// D of each.
    pub d: Vec<f32>,
    /// Sum of D.
    pub sum: f64,
    /// The one-off variance at the last block.
    pub tau2: f64,
}

impl MetricEvidence {
    /// Weighs what is stored, with the frozen noise; equals the look it came from up to single precision. R4 needs the
    /// pods and is not part of it.
    pub fn weigh(&self, rule: &Rule, frozen: &Frozen, min_gain: f64) -> Option<Weighed> {
        let metric = frozen.metric(&rule.name)?;
        let d: Vec<f64> = self.d.iter().map(|d| f64::from(*d)).collect();
        let omega2 = metric.omega2 * noise::inflation(&d, metric.lagged, rule.lag);
        Some(verdict::weigh(rule, &d, omega2, self.tau2, min_gain))
    }
}

/// What is kept of a region in judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stored {
    /// Version of this layout.
    pub version: u32,
    /// The frozen baseline.
    pub frozen: String,
    /// The differences.
    pub evidence: String,
}

/// Why stored evidence is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// It was written by another version.
    #[error("stored evidence has version {0}")]
    Version(u32),
    /// It cannot be read.
    #[error("stored evidence cannot be read: {0}")]
    Unreadable(&'static str),
    /// It would be larger than a status may hold.
    #[error("the frozen baseline needs {0} bytes, more than a status may hold")]
    TooLarge(usize),
    /// It differs from what was recomputed.
    #[error("stored evidence of {metric} differs from the recomputed one in block {block}")]
    Mismatch {
        /// The metric.
        metric: String,
        /// The first block that differs.
        block: i64,
    },
}

fn fold(bytes: &[u8]) -> Option<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    Some(STANDARD.encode(encoder.finish().ok()?))
}

fn unfold(text: &str) -> Result<Vec<u8>, StoredError> {
    if text.len() > 2 * EVIDENCE_BYTES {
        return Err(StoredError::Unreadable("too long"));
    }
    let folded = STANDARD
        .decode(text)
        .map_err(|_| StoredError::Unreadable("no base64"))?;
    let mut out = Vec::new();
    let read = DeflateDecoder::new(folded.as_slice())
        .take(UNFOLDED + 1)
        .read_to_end(&mut out);
    match read {
        Ok(n) if u64::try_from(n).is_ok_and(|n| n <= UNFOLDED) => Ok(out),
        Ok(_) => Err(StoredError::Unreadable("unfolds to too much")),
        Err(_) => Err(StoredError::Unreadable("not deflated")),
    }
}

/// Head of the binary form: the names and block numbers, as JSON; the differences follow as little-endian floats.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    metric: String,
    first: i64,
    /// Distance to the next block, and for how many blocks in a row it holds.
    steps: Vec<(i64, usize)>,
    sum: f64,
    tau2: f64,
}

fn head(evidence: &MetricEvidence) -> Head {
    let mut steps: Vec<(i64, usize)> = Vec::new();
    for (a, b) in evidence.columns.iter().zip(evidence.columns.iter().skip(1)) {
        let step = b - a;
        match steps.last_mut() {
            Some((last, times)) if *last == step => *times += 1,
            _ => steps.push((step, 1)),
        }
    }
    Head {
        metric: evidence.metric.clone(),
        first: evidence.columns.first().copied().unwrap_or(0),
        steps,
        sum: evidence.sum,
        tau2: evidence.tau2,
    }
}

fn columns(head: &Head, count: usize) -> Result<Vec<i64>, StoredError> {
    let wrong = StoredError::Unreadable("block numbers do not fit");
    let mut out = if count == 0 {
        Vec::new()
    } else {
        vec![head.first]
    };
    let mut at = head.first;
    for (step, times) in &head.steps {
        for _ in 0..*times {
            if *step <= 0 || out.len() >= count {
                return Err(wrong);
            }
            at = at.checked_add(*step).ok_or_else(|| wrong.clone())?;
            out.push(at);
        }
    }
    if out.len() == count {
        Ok(out)
    } else {
        Err(wrong)
    }
}

/// Length-prefixed JSON head, then the floats.
fn write_metric(out: &mut Vec<u8>, evidence: &MetricEvidence) -> Option<()> {
    let text = serde_json::to_vec(&head(evidence)).ok()?;
    for length in [text.len(), evidence.d.len()] {
        out.extend(u32::try_from(length).ok()?.to_le_bytes());
    }
    out.extend(text);
    // Byte planes: the exponents of neighbours are alike and fold well.
    for plane in 0..4_usize {
        out.extend(
            evidence
                .d
                .iter()
                .filter_map(|d| d.to_le_bytes().get(plane).copied()),
        );
    }
    Some(())
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], StoredError> {
    let (head, rest) = bytes
        .split_at_checked(n)
        .ok_or(StoredError::Unreadable("cut off"))?;
    *bytes = rest;
    Ok(head)
}

fn length(bytes: &mut &[u8]) -> Result<usize, StoredError> {
    let word = take(bytes, 4)?
        .try_into()
        .map_err(|_| StoredError::Unreadable("cut off"))?;
    usize::try_from(u32::from_le_bytes(word)).map_err(|_| StoredError::Unreadable("too long"))
}

fn read_metric(bytes: &mut &[u8]) -> Result<MetricEvidence, StoredError> {
    let (text, count) = (length(bytes)?, length(bytes)?);
    let head: Head = serde_json::from_slice(take(bytes, text)?)
        .map_err(|_| StoredError::Unreadable("no head"))?;
    let size = count
        .checked_mul(4)
        .ok_or(StoredError::Unreadable("too long"))?;
    let planes = take(bytes, size)?;
    let byte = |plane: usize, i: usize| planes.get(plane * count + i).copied().unwrap_or(0);
    let d: Vec<f32> = (0..count)
        .map(|i| f32::from_le_bytes([byte(0, i), byte(1, i), byte(2, i), byte(3, i)]))
        .collect();
    if !(d.iter().all(|d| d.is_finite()) && head.sum.is_finite() && head.tau2.is_finite()) {
        return Err(StoredError::Unreadable("not finite"));
    }
    let columns = columns(&head, count)?;
    Ok(MetricEvidence {
        metric: head.metric,
        columns,
        d,
        sum: head.sum,
        tau2: head.tau2,
    })
}

/// Folds what is to be kept into at most `bytes` of text. Where all of it would be too large, the last metrics' differences
/// are left out: they are recomputed anyway before any final verdict.
pub fn store(
    frozen: &Frozen,
    evidence: &[MetricEvidence],
    bytes: usize,
) -> Result<Stored, StoredError> {
    let text = serde_json::to_vec(frozen).map_err(|_| StoredError::Unreadable("not finite"))?;
    let frozen = fold(&text).ok_or(StoredError::Unreadable("cannot be folded"))?;
    let room = bytes
        .checked_sub(frozen.len())
        .ok_or(StoredError::TooLarge(frozen.len()))?;
    for kept in (0..=evidence.len()).rev() {
        let mut bytes = Vec::new();
        let all = evidence
            .iter()
            .take(kept)
            .all(|e| write_metric(&mut bytes, e).is_some());
        if let Some(text) = fold(&bytes).filter(|text| all && text.len() <= room) {
            return Ok(Stored {
                version: FROZEN_VERSION,
                frozen,
                evidence: text,
            });
        }
    }
    Err(StoredError::TooLarge(frozen.len()))
}

/// Unfolds what was kept.
pub fn restore(stored: &Stored) -> Result<(Frozen, Vec<MetricEvidence>), StoredError> {
    if stored.version != FROZEN_VERSION {
        return Err(StoredError::Version(stored.version));
    }
    let frozen: Frozen = serde_json::from_slice(&unfold(&stored.frozen)?)
        .map_err(|_| StoredError::Unreadable("no frozen baseline"))?;
    let bytes = unfold(&stored.evidence)?;
    let mut rest = bytes.as_slice();
    let mut out = Vec::new();
    while !rest.is_empty() {
        out.push(read_metric(&mut rest)?);
    }
    Ok((frozen, out))
}

/// Does the stored evidence equal the recomputed one? The youngest stored blocks may still have changed
/// ([`super::Settings::young`]).
pub fn agrees(
    stored: &[MetricEvidence],
    recomputed: &[MetricEvidence],
    young: usize,
) -> Result<(), StoredError> {
    for old in stored {
        let settled = old.columns.len().saturating_sub(young);
        let now = recomputed.iter().find(|n| n.metric == old.metric);
        for (block, d) in old.columns.iter().zip(&old.d).take(settled) {
            let same = now
                .and_then(|n| n.d.get(n.columns.binary_search(block).ok()?))
                .is_some_and(|n| (f64::from(*n) - f64::from(*d)).abs() <= EVIDENCE_TOLERANCE);
            if !same {
                return Err(StoredError::Mismatch {
                    metric: old.metric.clone(),
                    block: *block,
                });
            }
        }
        // And no settled block may have appeared in between.
        let last = settled.checked_sub(1).and_then(|i| old.columns.get(i));
        let extra = now.zip(last).and_then(|(n, last)| {
            let until = n.columns.partition_point(|c| c <= last);
            let all = n.columns.get(..until)?;
            all.iter().find(|c| old.columns.binary_search(c).is_err())
        });
        if let Some(block) = extra {
            return Err(StoredError::Mismatch {
                metric: old.metric.clone(),
                block: *block,
            });
        }
    }
    Ok(())
}

impl Look {
    /// The look if the stored evidence agrees with it. A final verdict that rests on statistics is held where it does
    /// not (reading 14): that is an alarm, and a person decides.
    #[must_use]
    pub fn confirmed(mut self, stored: &[MetricEvidence], young: usize) -> Self {
        let statistical = matches!(self.reason.code, Code::NonInferior | Code::Regression);
        if !(self.is_final && statistical) {
            return self;
        }
        if let Err(error) = agrees(stored, &self.evidence, young) {
            let about = if let StoredError::Mismatch { metric, .. } = error {
                Some(metric)
            } else {
                None
            };
            self.verdict = Verdict::InsufficientData;
            self.reason = Reason {
                code: Code::EvidenceMismatch,
                about,
            };
            if let Some(frozen) = &mut self.frozen {
                frozen.failed = None;
            }
        }
        self
    }
}

/// A difference as it is stored.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the evidence is stored in single precision"
)]
pub fn single(d: f64) -> f32 {
    d as f32
}

impl MetricEvidence {
    /// From one metric's run.
    pub fn of(metric: &str, run: &super::bake::Run) -> Self {
        Self {
            metric: metric.to_owned(),
            columns: run.columns.clone(),
            d: run.d.iter().map(|d| single(*d)).collect(),
            sum: num::mean(&run.d) * num::real(run.d.len()),
            tau2: run.tau2,
        }
    }
}
