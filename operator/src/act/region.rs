//! Takes a region and its status after a look, writes the status by compare-and-swap if it is another one.

use heapfleet_crds::{AllocatorRegion, AllocatorRegionStatus, GROUP, VERSION};
use kube::ResourceExt as _;

use super::{ActError, MANAGER};
use crate::clusters::{ClusterError, ResourcePath, Writer};

/// Whether something was written. A region that somebody else wrote meanwhile is looked at again soon anyway.
pub async fn region(
    hub: &Writer,
    region: &AllocatorRegion,
    status: AllocatorRegionStatus,
) -> Result<bool, ActError> {
    if region.status.as_ref() == Some(&status) {
        return Ok(false);
    }
    let path = ResourcePath::collection(&format!("{GROUP}/{VERSION}"), None, "allocatorregions")?
        .named(&region.name_any())?;
    let mut body = AllocatorRegion {
        status: Some(status),
        ..region.clone()
    };
    body.metadata.managed_fields = None;
    match hub.replace_status(&path, &body, MANAGER).await {
        Ok(_) => Ok(true),
        Err(ClusterError::Moved { .. } | ClusterError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
