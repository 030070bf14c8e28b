//! Takes an `AllocatorRollout`, gives the attempt that the core decides by, and back: the position as JSON, with what the
//! judge froze put aside as evidence of each region. What cannot be read is an error that names object and field; it is
//! never replaced by a start from zero.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use heapfleet_core::names::Region;
use heapfleet_core::rollout::{Position, RegionState};
use heapfleet_core::world::{Attempt, Verb};
use heapfleet_crds as crds;
use kube::ResourceExt as _;

use super::TranslateError;
use super::thaw::thaw;

/// Form of the stored position.
const POSITION_VERSION: i32 = 1;
/// Form of the stored evidence.
const EVIDENCE_VERSION: i32 = 1;
/// The most that evidence of one region may unpack to, bytes: far above what 16 KiB of it can honestly hold.
const UNPACKED: u64 = 4 << 20;

type Frozen = BTreeMap<heapfleet_core::names::WorkloadId, heapfleet_core::judge::Frozen>;

/// The attempt as the core decides by it.
pub fn attempt(rollout: &crds::AllocatorRollout) -> Result<Attempt, TranslateError> {
    let name = rollout.name_any();
    let plan = thaw(&rollout.spec.plan).map_err(|refusal| TranslateError::Plan {
        attempt: name.clone(),
        because: refusal.message,
    })?;
    let position = match &rollout.status {
        Some(status) => position(&name, status)?,
        None => None,
    };
    Ok(Attempt {
        plan,
        state: match rollout.spec.state {
            crds::RolloutState::Run => Verb::Run,
            crds::RolloutState::Pause => Verb::Pause,
            crds::RolloutState::Abort => Verb::Abort,
            crds::RolloutState::Retry => Verb::Retry,
        },
        approvals: rollout
            .spec
            .approvals
            .iter()
            .map(|approval| approval.gate.to_string())
            .collect(),
        position,
        name,
    })
}

fn position(
    attempt: &str,
    status: &crds::AllocatorRolloutStatus,
) -> Result<Option<Position>, TranslateError> {
    let Some(stored) = &status.position else {
        return Ok(None);
    };
    let unreadable = |because: String| TranslateError::Position {
        attempt: attempt.to_owned(),
        because,
    };
    if stored.version != POSITION_VERSION {
        return Err(unreadable(format!(
            "form {} is not known to this version, which knows {POSITION_VERSION}",
            stored.version
        )));
    }
    let mut position: Position =
        serde_json::from_str(&stored.data).map_err(|error| unreadable(error.to_string()))?;
    for evidence in &status.evidence {
        // A region that the position does not know has no judgement to resume.
        let Some(region) = position
            .regions
            .get_mut(&Region::new(evidence.region.as_str()))
        else {
            continue;
        };
        region.frozen = unpack(evidence).map_err(|because| TranslateError::Evidence {
            attempt: attempt.to_owned(),
            region: evidence.region.clone(),
            because,
        })?;
    }
    Ok(Some(position))
}

/// The position and the evidence as they are stored.
pub(super) fn store(
    position: &Position,
) -> Result<(crds::Position, Vec<crds::Evidence>), TranslateError> {
    let failed = |what: &str, because: String| TranslateError::Store {
        what: what.to_owned(),
        because,
    };
    let mut bare = position.clone();
    let mut evidence = Vec::new();
    for (name, region) in &mut bare.regions {
        let frozen = std::mem::take(&mut region.frozen);
        if frozen.is_empty() || finished(region) {
            continue;
        }
        let data = pack(&frozen).map_err(|because| failed(name.as_str(), because))?;
        evidence.push(crds::Evidence {
            region: name.as_str().to_owned(),
            version: EVIDENCE_VERSION,
            data,
        });
    }
    let data =
        serde_json::to_string(&bare).map_err(|error| failed("position", error.to_string()))?;
    Ok((
        crds::Position {
            version: POSITION_VERSION,
            data,
        },
        evidence,
    ))
}

/// Finished regions keep their row alone.
fn finished(region: &RegionState) -> bool {
    region.stage.settled()
}

fn pack(frozen: &Frozen) -> Result<String, String> {
    let json = serde_json::to_vec(frozen).map_err(|error| error.to_string())?;
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated
        .write_all(&json)
        .map_err(|error| error.to_string())?;
    let deflated = deflated.finish().map_err(|error| error.to_string())?;
    Ok(STANDARD.encode(deflated))
}

fn unpack(evidence: &crds::Evidence) -> Result<Frozen, String> {
    if evidence.version != EVIDENCE_VERSION {
        return Err(format!(
            "form {} is not known to this version, which knows {EVIDENCE_VERSION}",
            evidence.version
        ));
    }
    let deflated = STANDARD
        .decode(&evidence.data)
        .map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    DeflateDecoder::new(deflated.as_slice())
        .take(UNPACKED)
        .read_to_end(&mut json)
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}
