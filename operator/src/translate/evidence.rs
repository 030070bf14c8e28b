//! Takes what the judge froze and saw in one region, gives the bounded text of it that a status holds, and back. What is read
//! back is checked; what is unreadable is an error, never a fresh start.

use std::collections::BTreeMap;

use heapfleet_core::judge::constants::EVIDENCE_BYTES;
use heapfleet_core::judge::{Stored, StoredError, restore, store as fold};
use heapfleet_core::names::{Region, WorkloadId};
use heapfleet_core::rollout::RegionState;
use heapfleet_crds as crds;

/// Form of the stored evidence: JSON of what the judge folds, by workload.
const EVIDENCE_VERSION: i32 = 2;

/// Folds what is kept of a region's workloads into what a status may hold; `None`: there is nothing to keep. What was frozen
/// comes first; where not even that has room, it is left out and read again from Prometheus.
pub(super) fn pack(name: &Region, region: &RegionState) -> Result<Option<crds::Evidence>, String> {
    let (frozen, evidence) = (&region.frozen, &region.evidence);
    if frozen.is_empty() {
        return Ok(None);
    }
    let mut room = EVIDENCE_BYTES.saturating_sub("{}".len());
    let mut kept = BTreeMap::new();
    for (id, own) in frozen {
        let frame = frame(id)?;
        if let Ok(stored) = fold(own, &[], room.saturating_sub(frame)) {
            room = room.saturating_sub(frame + size(&stored));
            kept.insert(id, stored);
        }
    }
    let share = room.checked_div(kept.len()).unwrap_or(0);
    for (id, stored) in &mut kept {
        let (own, seen) = (frozen.get(*id), evidence.get(*id));
        let all = own
            .zip(seen)
            .map(|(own, seen)| fold(own, seen, size(stored) + share));
        if let Some(Ok(all)) = all {
            *stored = all;
        }
    }
    let data = serde_json::to_string(&kept).map_err(|error| error.to_string())?;
    Ok(Some(crds::Evidence {
        region: name.as_str().to_owned(),
        version: EVIDENCE_VERSION,
        data,
    }))
}

/// Characters of one workload's entry without what is folded; base64 needs no escapes.
fn frame(id: &WorkloadId) -> Result<usize, String> {
    let empty = Stored {
        version: u32::MAX,
        frozen: String::new(),
        evidence: String::new(),
    };
    let entry = BTreeMap::from([(id, empty)]);
    let text = serde_json::to_string(&entry).map_err(|error| error.to_string())?;
    Ok(text.len())
}

fn size(stored: &Stored) -> usize {
    stored.frozen.len() + stored.evidence.len()
}

/// Puts what was kept back into its region. Evidence in a form of another version is left out: what was frozen is read again
/// from Prometheus then.
pub(super) fn unpack(evidence: &crds::Evidence, region: &mut RegionState) -> Result<(), String> {
    if evidence.version != EVIDENCE_VERSION {
        return Ok(());
    }
    let kept: BTreeMap<WorkloadId, Stored> =
        serde_json::from_str(&evidence.data).map_err(|error| error.to_string())?;
    for (id, stored) in kept {
        let (frozen, seen) = match restore(&stored) {
            Ok(kept) => kept,
            Err(StoredError::Version(_)) => continue,
            Err(error) => return Err(format!("{id}: {error}")),
        };
        region.frozen.insert(id.clone(), frozen);
        if !seen.is_empty() {
            region.evidence.insert(id, seen);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use heapfleet_core::judge::{MetricEvidence, constants::EVIDENCE_BYTES};
    use heapfleet_core::names::Kind;
    use heapfleet_core::rollout::Position;

    use super::*;
    use crate::translate::tests::{frozen_by_the_judge, position};

    fn region() -> RegionState {
        let Position { regions, .. } = position();
        regions.into_values().next().unwrap()
    }

    fn evidence(blocks: u16) -> Vec<MetricEvidence> {
        let one = |metric: &str| MetricEvidence {
            metric: metric.to_owned(),
            columns: (0..i64::from(blocks)).collect(),
            // No two alike, so that they do not fold well.
            d: (0..blocks).map(|i| (f32::from(i) * 0.37).sin()).collect(),
            sum: 1.5,
            tau2: 0.001,
        };
        vec![one("ratio"), one("p99")]
    }

    fn workload(n: usize) -> WorkloadId {
        WorkloadId {
            kind: Kind::Deployment,
            name: format!("trace-server-{n}"),
        }
    }

    #[test]
    fn what_was_kept_comes_back_as_it_was() {
        let mut before = region();
        for n in 0..3 {
            before.frozen.insert(workload(n), frozen_by_the_judge());
            before.evidence.insert(workload(n), evidence(288));
        }
        let packed = pack(&Region::new("ore"), &before).unwrap().unwrap();
        assert!(packed.data.len() <= EVIDENCE_BYTES, "{}", packed.data.len());
        let mut after = RegionState {
            frozen: BTreeMap::new(),
            evidence: BTreeMap::new(),
            ..before.clone()
        };
        unpack(&packed, &mut after).unwrap();
        assert_eq!(after, before);
    }

    #[test]
    fn what_has_no_room_is_left_out_whole() {
        let mut before = region();
        for n in 0..200 {
            before.frozen.insert(workload(n), frozen_by_the_judge());
            before.evidence.insert(workload(n), evidence(288));
        }
        let packed = pack(&Region::new("ore"), &before).unwrap().unwrap();
        assert!(packed.data.len() <= EVIDENCE_BYTES, "{}", packed.data.len());
        let mut after = region();
        after.frozen.clear();
        unpack(&packed, &mut after).unwrap();
        assert!(!after.frozen.is_empty() && after.frozen.len() < 200);
        for (id, frozen) in &after.frozen {
            assert_eq!(Some(frozen), before.frozen.get(id));
        }
    }

    #[test]
    fn another_version_is_read_anew() {
        let mut packed = pack(&Region::new("ore"), &region()).unwrap().unwrap();
        packed.version += 1;
        let mut after = region();
        after.frozen.clear();
        unpack(&packed, &mut after).unwrap();
        assert!(after.frozen.is_empty());
    }
}
