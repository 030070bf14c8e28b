//! Takes a policy, its class and the names of all regions, gives the plan that is frozen into an attempt, or one refusal.
//! Never looks at a cluster: what needs a look (eligibility, namespaces) is decided later, by the core.

use std::collections::BTreeSet;

use heapfleet_core::decision::Reason;
use heapfleet_core::inject::canonical_hash;
use heapfleet_core::world::Refusal;
use heapfleet_crds as crds;
use kube::ResourceExt as _;
use serde_json::json;

use super::choice::check_choice;
use super::values::invalid;

/// Hexadecimal digits of a plan's hash.
const HASH_DIGITS: usize = 16;

/// The plan of a first attempt, with a copy of everything that it needs.
pub fn freeze(
    policy: &crds::AllocatorPolicy,
    class: &crds::AllocatorClassSpec,
    regions: &BTreeSet<String>,
) -> Result<crds::Plan, Refusal> {
    let spec = &policy.spec;
    check_choice(spec, class)?;
    check_carried_out(spec, class)?;
    check_images(&spec.images, class)?;
    let waves = waves(spec, regions)?;
    check_regions(&waves, &spec.rollout.control, regions)?;
    let mut plan = crds::Plan {
        hash: String::new(),
        policy_name: policy.name_any().into(),
        policy_uid: policy.uid().unwrap_or_default(),
        policy_generation: policy.metadata.generation.unwrap_or(1),
        attempt: 1,
        allocator: spec.allocator.clone(),
        class: class.clone(),
        target: spec.target.clone(),
        images: spec.images.clone(),
        waves,
        control: spec.rollout.control.clone(),
        rollout: (&spec.rollout).into(),
        analysis: spec.analysis.clone(),
        on_delete: spec.on_delete,
    };
    plan.hash = plan_hash(&plan);
    Ok(plan)
}

/// SHA-256 over the canonical JSON of what the attempt does: class, options, environment, target, images, order of
/// regions, brakes, judge. Who asked for it, `suspend`, `onDelete`, `historyLimit` and the number of the attempt are not
/// in it: they do not change what is done.
fn plan_hash(plan: &crds::Plan) -> String {
    let what = json!({
        "allocator": plan.allocator,
        "class": plan.class,
        "target": plan.target,
        "images": plan.images,
        "waves": plan.waves,
        "control": plan.control,
        "rollout": plan.rollout,
        "analysis": plan.analysis,
    });
    canonical_hash(&what).chars().take(HASH_DIGITS).collect()
}

/// What the API has and this version does not carry out is refused: a wish that is silently dropped would be a trap.
fn check_carried_out(
    spec: &crds::AllocatorPolicySpec,
    class: &crds::AllocatorClassSpec,
) -> Result<(), Refusal> {
    if class.verify.by == crds::VerifyBy::Metric {
        return Err(Refusal {
            reason: Reason::DeliveryUnsupported,
            message: format!(
                "spec.allocator.class: class {} proves by Metric, which this version does not carry out; use a class with verify.by Probe.",
                spec.allocator.class
            ),
        });
    }
    if let Some(window) = spec.rollout.windows.first() {
        return Err(invalid(format!(
            "spec.rollout.windows: the window {} is not carried out by this version; remove it, and use spec.suspend to keep the rollout from starting.",
            window.cron
        )));
    }
    if !spec.analysis.preset.is_empty() {
        return Err(invalid(format!(
            "spec.analysis.preset: there is no preset {}; remove it and name the series one by one.",
            spec.analysis.preset
        )));
    }
    Ok(())
}

/// Whatever can be seen of the image map without a cluster: that each variant has a build of the class behind it, and that
/// no variant is replaced in turn.
fn check_images(
    images: &[crds::ImageMapping],
    class: &crds::AllocatorClassSpec,
) -> Result<(), Refusal> {
    for mapping in images {
        let from = &mapping.from;
        for variant in &mapping.variants {
            let image = &variant.image;
            if images.iter().any(|other| other.from == *image) {
                return Err(invalid(format!(
                    "spec.images ({from}): the variant {image} is itself a from of spec.images, so that it would be replaced in turn; name the image that runs in the end, and remove the other entry."
                )));
            }
            if !class
                .platforms
                .iter()
                .any(|platform| platform.arch == variant.arch)
            {
                return Err(invalid(format!(
                    "spec.images ({from}): the variant {image} is for an architecture that the class does not list in spec.platforms; remove the variant, or have the platform added to the class."
                )));
            }
        }
    }
    Ok(())
}

fn waves(
    spec: &crds::AllocatorPolicySpec,
    regions: &BTreeSet<String>,
) -> Result<Vec<crds::PlanWave>, Refusal> {
    let strategy = &spec.rollout;
    let canary = crds::PlanWave {
        name: "canary".into(),
        regions: vec![strategy.canary.clone()],
        max_concurrent_regions: 1,
        bake: spec.analysis.min_bake.clone(),
        approval: strategy.approval,
    };
    let mut waves = vec![canary];
    for (i, wave) in (1..).zip(&strategy.waves) {
        waves.push(crds::PlanWave {
            name: wave
                .name
                .clone()
                .unwrap_or_else(|| format!("wave-{i}").into()),
            regions: wave.regions.clone(),
            max_concurrent_regions: wave.max_concurrent_regions,
            bake: wave
                .bake
                .clone()
                .unwrap_or_else(|| spec.analysis.min_bake.clone()),
            approval: wave.approval,
        });
    }
    let named = |region: &String| {
        let name = region.as_str();
        waves
            .iter()
            .any(|wave| wave.regions.iter().any(|known| known == name))
            || strategy.control.iter().any(|known| known == name)
    };
    let unassigned: Vec<crds::DnsLabel> = regions
        .iter()
        .filter(|region| !named(region))
        .cloned()
        .map(crds::DnsLabel::from)
        .collect();
    if let Some(region) = unassigned.first() {
        assign(
            &mut waves,
            strategy.unassigned_regions,
            region,
            &unassigned,
            spec,
        )?;
    }
    Ok(waves)
}

fn assign(
    waves: &mut Vec<crds::PlanWave>,
    how: crds::UnassignedRegions,
    first: &crds::DnsLabel,
    unassigned: &[crds::DnsLabel],
    spec: &crds::AllocatorPolicySpec,
) -> Result<(), Refusal> {
    match how {
        crds::UnassignedRegions::Ignore => Ok(()),
        crds::UnassignedRegions::Fail => Err(invalid(format!(
            "spec.rollout.unassignedRegions is Fail and region {first} is in no wave; add it to a wave, or use Ignore or LastWave."
        ))),
        crds::UnassignedRegions::LastWave => {
            let own_wave = waves.len() == 1;
            match waves.last_mut() {
                Some(last) if !own_wave => last.regions.extend_from_slice(unassigned),
                // The canary goes alone, so the others need a wave of their own.
                Some(_) | None => waves.push(crds::PlanWave {
                    name: "wave-1".into(),
                    regions: unassigned.to_vec(),
                    max_concurrent_regions: 1,
                    bake: spec.analysis.min_bake.clone(),
                    approval: crds::Approval::None,
                }),
            }
            Ok(())
        }
    }
}

fn check_regions(
    waves: &[crds::PlanWave],
    control: &[crds::DnsLabel],
    regions: &BTreeSet<String>,
) -> Result<(), Refusal> {
    let missing = |region: &&crds::DnsLabel| !regions.contains(region.as_str());
    let refuse = |field: String, region: &crds::DnsLabel| {
        Err(Refusal {
            reason: Reason::RegionNotFound,
            message: format!(
                "{field}: there is no AllocatorRegion {region}; create it, or name one that exists."
            ),
        })
    };
    for (i, wave) in waves.iter().enumerate() {
        if let Some(region) = wave.regions.iter().find(missing) {
            let field = if i == 0 {
                "spec.rollout.canary".to_owned()
            } else {
                format!("spec.rollout.waves ({})", wave.name)
            };
            return refuse(field, region);
        }
    }
    match control.iter().find(missing) {
        Some(region) => refuse("spec.rollout.control".to_owned(), region),
        None => Ok(()),
    }
}
