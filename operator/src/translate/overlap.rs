//! Takes a policy and all policies of its namespace, gives those that are older and where each of them acts. Two policies
//! never share a workload: the older one has it.

use std::collections::BTreeSet;

use heapfleet_core::names::Kind;
use heapfleet_crds as crds;
use kube::ResourceExt as _;

use super::thaw::kinds;

/// An older policy, as far as it tells which workloads are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    /// Its name.
    pub name: String,
    /// Kinds of its workloads.
    pub kinds: Vec<Kind>,
    /// Its selector over their labels.
    pub selector: crds::Selector,
    /// Names that it leaves out.
    pub exclude: BTreeSet<String>,
    /// Regions in which it acts or compares; `None`: all.
    pub regions: Option<BTreeSet<String>>,
}

impl Older {
    /// Whether it acts or compares in a region.
    pub fn acts_in(&self, region: &str) -> bool {
        self.regions
            .as_ref()
            .is_none_or(|regions| regions.contains(region))
    }
}

/// The policies of `all` that are older than `policy`, oldest first. Of two of one second the name decides, so that never
/// both give way.
pub fn older(policy: &crds::AllocatorPolicy, all: &[crds::AllocatorPolicy]) -> Vec<Older> {
    let age = |one: &crds::AllocatorPolicy| {
        let made = one.metadata.creation_timestamp.as_ref();
        (made.map(|made| made.0), one.name_any())
    };
    let ours = age(policy);
    let mut older: Vec<&crds::AllocatorPolicy> = all
        .iter()
        .filter(|one| one.uid() != policy.uid() && age(one) < ours)
        .collect();
    older.sort_by_key(|one| age(one));
    older
        .into_iter()
        .map(|one| Older {
            name: one.name_any(),
            kinds: kinds(&one.spec.target),
            selector: one.spec.target.selector.clone(),
            exclude: one
                .spec
                .target
                .exclude
                .iter()
                .map(ToString::to_string)
                .collect(),
            regions: regions(&one.spec.rollout),
        })
        .collect()
}

fn regions(rollout: &crds::RolloutStrategy) -> Option<BTreeSet<String>> {
    match rollout.unassigned_regions {
        crds::UnassignedRegions::LastWave => None,
        crds::UnassignedRegions::Ignore | crds::UnassignedRegions::Fail => Some(
            rollout
                .waves
                .iter()
                .flat_map(|wave| wave.regions.iter())
                .chain(&rollout.control)
                .chain([&rollout.canary])
                .map(ToString::to_string)
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

    use super::*;

    fn policy(name: &str, at: i64) -> crds::AllocatorPolicy {
        let text = include_str!("../../../manifests/examples/policy-minimal.yaml");
        let mut policy: crds::AllocatorPolicy = serde_yaml::from_str(text).unwrap();
        policy.metadata.name = Some(name.to_owned());
        policy.metadata.uid = Some(name.to_owned());
        policy.metadata.creation_timestamp = Some(meta::Time(Timestamp::from_second(at).unwrap()));
        policy
    }

    #[test]
    fn of_any_two_exactly_one_is_older() {
        let all = [
            policy("b", 10),
            policy("a", 10),
            policy("c", 5),
            policy("d", 20),
        ];
        let names = |one: &crds::AllocatorPolicy| -> Vec<String> {
            older(one, &all)
                .into_iter()
                .map(|older| older.name)
                .collect()
        };
        assert_eq!(names(&all[0]), ["c", "a"]);
        assert_eq!(names(&all[1]), ["c"]);
        assert_eq!(names(&all[2]), Vec::<String>::new());
        assert_eq!(names(&all[3]), ["c", "a", "b"]);
    }

    #[test]
    fn it_acts_in_the_regions_that_it_names() {
        let mut one = policy("a", 1);
        let regions = |one: &crds::AllocatorPolicy| {
            let found = older(&policy("z", 2), std::slice::from_ref(one));
            ["ore", "fra", "nrt", "syd"].map(|region| found[0].acts_in(region))
        };
        assert_eq!(regions(&one), [true, true, true, false]);
        one.spec.rollout.unassigned_regions = crds::UnassignedRegions::LastWave;
        assert_eq!(regions(&one), [true; 4]);
    }
}
