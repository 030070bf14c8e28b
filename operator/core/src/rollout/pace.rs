//! Takes a workload whose template was changed, gives what its owner still has to do before all pods follow: an update
//! strategy that holds pods back is the owner's word, and no deadline runs against it. Never replaces a pod.

use crate::world::{Update, Workload};

/// What the owner is waited for, as a clause with the remedy; `None`: the controller does it all.
pub(super) fn waits_for_owner(workload: &Workload) -> Option<String> {
    match workload.update {
        Update::Rolling => None,
        Update::OnDelete => Some(
            "its updateStrategy is OnDelete, so that its owner deletes the pods one by one"
                .to_owned(),
        ),
        Update::Partition(partition) => {
            // Those above the partition are the controller's to replace, and its deadline runs.
            let moving = workload.replicas.saturating_sub(partition);
            let held = partition.min(workload.replicas);
            (workload.progress >= moving && held > 0).then(|| {
                format!(
                    "its updateStrategy holds {held} of {} pods back (partition {partition}), so that its owner lowers it",
                    workload.replicas
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(update: Update, replicas: u32, progress: u32) -> Workload {
        Workload {
            uid: "uid".to_owned(),
            generation: 2,
            annotations: None,
            managed_entry: None,
            template: json!({}),
            replicas,
            paused: false,
            deleting: false,
            settled: false,
            progress,
            max_unavailable: 1,
            update,
            controller: None,
            older_policy: None,
            revision: None,
            journals: Vec::new(),
            pods: Vec::new(),
        }
    }

    #[test]
    fn only_what_the_owner_holds_back_is_waited_for_without_a_clock() {
        let waits = |update, replicas, progress| {
            waits_for_owner(&workload(update, replicas, progress)).is_some()
        };
        assert!(!waits(Update::Rolling, 3, 0));
        assert!(waits(Update::OnDelete, 3, 0));
        assert!(
            !waits(Update::Partition(2), 3, 0),
            "one is the controller's"
        );
        assert!(waits(Update::Partition(2), 3, 1));
        assert!(waits(Update::Partition(5), 3, 0), "all are held back");
        assert!(!waits(Update::Partition(0), 3, 3));
    }
}
