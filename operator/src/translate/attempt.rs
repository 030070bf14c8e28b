//! Takes an `AllocatorRollout`, gives the attempt that the core decides by, and back: the position as JSON, with what the
//! judge froze and its evidence put aside for each region. What cannot be read is an error that names object and field; it
//! is never replaced by a start from zero.

use heapfleet_core::names::Region;
use heapfleet_core::rollout::{Position, RegionState, Stage};
use heapfleet_core::world::{Attempt, Verb};
use heapfleet_crds as crds;
use kube::ResourceExt as _;

use super::TranslateError;
use super::evidence;
use super::thaw::thaw;

/// Form of the stored position.
const POSITION_VERSION: i32 = 1;
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
    for stored in &status.evidence {
        // A region that the position does not know has no judgement to resume.
        let Some(region) = position
            .regions
            .get_mut(&Region::new(stored.region.as_str()))
        else {
            continue;
        };
        evidence::unpack(stored, region).map_err(|because| TranslateError::Evidence {
            attempt: attempt.to_owned(),
            region: stored.region.clone(),
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
    let mut kept = Vec::new();
    for (name, region) in &mut bare.regions {
        let packed = if finished(region) {
            None
        } else {
            evidence::pack(name, region).map_err(|because| failed(name.as_str(), because))?
        };
        kept.extend(packed);
        region.frozen.clear();
        region.evidence.clear();
    }
    let data =
        serde_json::to_string(&bare).map_err(|error| failed("position", error.to_string()))?;
    Ok((
        crds::Position {
            version: POSITION_VERSION,
            data,
        },
        kept,
    ))
}

/// Finished regions keep their row alone; of one that passed what was frozen is kept as long as it is watched.
fn finished(region: &RegionState) -> bool {
    region.stage.settled() && region.stage != Stage::Passed
}
