//! Takes a decision and the objects as observed, writes the new status by compare-and-swap on the observed
//! `resourceVersion`, before anything else is done. What is equal to what stands is not written. Never goes on after a 409:
//! somebody else moved, and what was decided is out of date.

use heapfleet_core::decision::Decision;
use heapfleet_crds::{AllocatorPolicy, AllocatorRollout};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::{ActError, MANAGER, Scene, hub_path};
use crate::clusters::{ClusterError, ResourcePath};
use crate::translate;

/// How far a commit came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The attempt's status was written.
    pub attempt: bool,
    /// The policy's status was written.
    pub policy: bool,
    /// Somebody else wrote in between: no act may follow.
    pub moved: bool,
    /// `resourceVersion` of the policy after the commit.
    pub policy_version: String,
}

impl Committed {
    /// Whether the state of the attempt stands as decided, so that its transitions may be told.
    pub fn stands(&self) -> bool {
        !self.moved || self.attempt
    }
}

/// Writes the attempt's status, then the policy's.
pub async fn commit(
    scene: &Scene<'_>,
    decision: &Decision,
    now: Timestamp,
) -> Result<Committed, ActError> {
    let mut done = Committed {
        policy_version: scene.policy.resource_version().unwrap_or_default(),
        ..Committed::default()
    };
    if let Some(commit) = &decision.commit {
        let rollout = scene
            .rollouts
            .iter()
            .find(|rollout| rollout.name_any() == commit.attempt)
            .ok_or_else(|| ActError::Unseen(format!("AllocatorRollout {}", commit.attempt)))?;
        let status = translate::rollout_status(rollout, commit, now)?;
        if rollout.status.as_ref() != Some(&status) {
            let body = AllocatorRollout {
                status: Some(status),
                ..bare_rollout(rollout)
            };
            let path = hub_path(&body, "allocatorrollouts")?;
            match replace(scene, &path, &body).await? {
                Some(_) => done.attempt = true,
                None => {
                    return Ok(Committed {
                        moved: true,
                        ..done
                    });
                }
            }
        }
    }
    let status = translate::policy_status(scene.policy, &decision.policy, now);
    if scene.policy.status.as_ref() != Some(&status) {
        let body = AllocatorPolicy {
            status: Some(status),
            ..bare_policy(scene.policy)
        };
        let path = hub_path(&body, "allocatorpolicies")?;
        match replace(scene, &path, &body).await? {
            Some(version) => {
                done.policy = true;
                done.policy_version = version;
            }
            None => done.moved = true,
        }
    }
    Ok(done)
}

/// The new `resourceVersion`, or `None` if the object is not as observed any more.
async fn replace<T: serde::Serialize + Sync>(
    scene: &Scene<'_>,
    path: &ResourcePath,
    body: &T,
) -> Result<Option<String>, ActError> {
    match scene.hub.replace_status(path, body, MANAGER).await {
        Ok(written) => Ok(Some(super::version_of(&written))),
        Err(ClusterError::Moved { .. } | ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

// The server keeps `managedFields` by itself; sent back, they only make the request large.
fn bare_rollout(rollout: &AllocatorRollout) -> AllocatorRollout {
    let mut bare = rollout.clone();
    bare.metadata.managed_fields = None;
    bare
}

fn bare_policy(policy: &AllocatorPolicy) -> AllocatorPolicy {
    let mut bare = policy.clone();
    bare.metadata.managed_fields = None;
    bare
}
