//! Takes a workload and who else has a say in it: a controller that writes its template, an older policy. Gives the refusal,
//! for one workload and for a whole policy. Never asks who is right: the older one is.

use std::collections::BTreeMap;

use super::eligible::{Ineligible, refuse};
use crate::decision::Reason;
use crate::names::{Region, WorkloadId};
use crate::plan::Target;
use crate::world::{Refusal, RegionView, Workload};

/// Refuses a workload that belongs to somebody else.
pub(super) fn check_standing(id: &WorkloadId, workload: &Workload) -> Result<(), Ineligible> {
    if let Some(older) = &workload.older_policy {
        return Err(refuse(
            Reason::OverlappingPolicy,
            format!(
                "{id} belongs to the older policy {older}; leave it out here (spec.target.exclude), or there."
            ),
        ));
    }
    if let Some(controller) = &workload.controller {
        return Err(refuse(
            Reason::OwnedByController,
            format!(
                "{id} is made by {controller}, which would set its template back; set the allocator up there, or leave the workload out (spec.target.exclude)."
            ),
        ));
    }
    Ok(())
}

/// Why a policy cannot be accepted as long as an older one selects the same workload; the first of them by region and name.
/// What is not seen cannot be told; the claim on the workload keeps the two apart then.
pub fn overlap(target: &Target, regions: &BTreeMap<Region, RegionView>) -> Option<Refusal> {
    regions.iter().find_map(|(region, view)| {
        let cluster = view.cluster.as_ref().ok()?;
        let meant = |id: &WorkloadId| {
            target.kinds.contains(&id.kind) && !target.exclude.contains(&id.name)
        };
        cluster.workloads.iter().find_map(|(id, workload)| {
            let older = workload.older_policy.as_ref().filter(|_| meant(id))?;
            Some(Refusal {
                reason: Reason::OverlappingPolicy,
                message: format!(
                    "spec.target.selector: {id} in region {region} belongs to the older policy {older}; narrow the selector, name it in spec.target.exclude, or leave it out of {older}."
                ),
            })
        })
    })
}
