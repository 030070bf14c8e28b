//! Takes a frozen plan, gives the plan that the core decides by. The only way from one to the other, for a new attempt and
//! for one that has run for days, so that what runs is what was frozen. Never reads the policy or the class.

use heapfleet_core::judge;
use heapfleet_core::names::{Kind, PlanHash, Region};
use heapfleet_core::plan::{
    Allocator, Delivery, ImageMap, ImageVariant, Mounted, OnExisting, OnRegression, OnUnreachable,
    Plan, Platform, RegressionAction, Scope, Target, Wave,
};
use heapfleet_core::world::Refusal;
use heapfleet_crds as crds;
use jiff::SignedDuration;

use super::values::{
    blocks_down, blocks_up, count, duration, fraction, invalid, limit, selector_text,
};

/// Version of the form over which a plan is hashed.
const HASH_VERSION: &str = "v1-";
/// The longest time between two scrapes that is reckoned with, seconds: the usual setting of a Prometheus.
const LONGEST_SCRAPE: f64 = 15.0;
/// A block holds at least so many scrapes.
const SCRAPES_PER_BLOCK: f64 = 4.0;

/// The plan that the core decides by.
pub fn thaw(plan: &crds::Plan) -> Result<Plan, Refusal> {
    let knobs = &plan.rollout;
    let block = duration("spec.analysis.blockDuration", &plan.analysis.block_duration)?;
    let capacity = plan
        .analysis
        .cache_capacity
        .as_ref()
        .and_then(|capacity| capacity.value.as_ref());
    Ok(Plan {
        hash: hash_from_stored(&plan.hash),
        attempt: count(plan.attempt),
        allocator: allocator(plan),
        target: target(&plan.target),
        waves: waves(plan, block)?,
        control: regions(&plan.control),
        restart_control: knobs.control_restart == crds::ControlRestart::Matched,
        max_concurrent_workloads: limit(
            "spec.rollout.maxConcurrentWorkloads",
            &knobs.max_concurrent_workloads,
        )?,
        workload_deadline: duration("spec.rollout.workloadDeadline", &knobs.workload_deadline)?,
        stability_window: duration("spec.rollout.stabilityWindow", &knobs.stability_window)?,
        verify_deadline: duration(
            "spec.analysis.verifyDeadline",
            &plan.analysis.verify_deadline,
        )?,
        on_unreachable: match knobs.on_unreachable {
            crds::OnUnreachable::Wait => OnUnreachable::Wait,
            crds::OnUnreachable::Skip => OnUnreachable::Skip,
            crds::OnUnreachable::Fail => OnUnreachable::Fail,
        },
        unreachable_deadline: duration(
            "spec.rollout.unreachableDeadline",
            &knobs.unreachable_deadline,
        )?,
        on_regression: OnRegression {
            action: match knobs.on_regression.action {
                crds::RegressionAction::Rollback => RegressionAction::Rollback,
                crds::RegressionAction::Freeze => RegressionAction::Freeze,
            },
            scope: match knobs.on_regression.scope {
                crds::RegressionScope::Region => Scope::Region,
                crds::RegressionScope::Wave => Scope::Wave,
                crds::RegressionScope::Fleet => Scope::Fleet,
            },
        },
        fixed_capacity: capacity.map(bytes).transpose()?,
        judge: settings(plan, block)?,
    })
}

/// The hash as the core has it: the schema stores its digits alone.
pub(super) fn hash_from_stored(digits: &str) -> PlanHash {
    PlanHash::new(format!("{HASH_VERSION}{digits}"))
}

/// The hash as the schema stores it.
pub(super) fn hash_to_store(hash: &str) -> &str {
    hash.strip_prefix(HASH_VERSION).unwrap_or(hash)
}

fn bytes(size: &crds::ByteSize) -> Result<f64, Refusal> {
    // Every size up to 2^53 is exact; the cast goes through the text form to say so without a lossy conversion.
    let read = size
        .bytes()
        .and_then(|bytes| bytes.to_string().parse::<f64>().ok());
    read.ok_or_else(|| {
        invalid(format!(
            "spec.analysis.cacheCapacity.value: {size} is not a number of bytes; write it as 36Gi."
        ))
    })
}

fn regions(names: &[crds::DnsLabel]) -> Vec<Region> {
    names
        .iter()
        .map(|name| Region::new(name.as_str()))
        .collect()
}

fn allocator(plan: &crds::Plan) -> Allocator {
    let class = &plan.class;
    let mut options = class.options.defaults.clone();
    options.extend(plan.allocator.options.clone());
    Allocator {
        class: plan.allocator.class.to_string(),
        name: allocator_name(class.allocator).to_owned(),
        delivery: delivery(class),
        on_existing: match class.preload.as_ref().map(|preload| preload.on_existing) {
            Some(crds::OnExisting::Prepend) => OnExisting::Prepend,
            Some(crds::OnExisting::Skip) | None => OnExisting::Skip,
        },
        options: options
            .into_iter()
            .map(|(key, value)| (key, value.to_string()))
            .collect(),
        env: plan
            .allocator
            .env
            .iter()
            .map(|variable| (variable.name.to_string(), variable.value.to_string()))
            .collect(),
        platforms: class.platforms.iter().map(platform).collect(),
        symbol_prefix: class.build.symbol_prefix.clone(),
        images: plan.images.iter().map(images).collect(),
    }
}

/// The allocator as the core and the probe name it.
pub(super) fn allocator_name(allocator: crds::Allocator) -> &'static str {
    match allocator {
        crds::Allocator::Glibc => "glibc",
        crds::Allocator::Jemalloc => "jemalloc",
        crds::Allocator::Mimalloc => "mimalloc",
        crds::Allocator::Tcmalloc => "tcmalloc",
    }
}

fn delivery(class: &crds::AllocatorClassSpec) -> Delivery {
    let unsupported = |name: &str| Delivery::Unsupported {
        name: name.to_owned(),
    };
    match (class.delivery, &class.preload) {
        (crds::Delivery::Preload, Some(preload)) => match preload.library.source {
            crds::LibrarySource::InImage => Delivery::PreloadInImage {
                path: preload.library.path.clone(),
            },
            crds::LibrarySource::ImageVolume => mounted(&preload.library).map_or_else(
                || unsupported("Preload/ImageVolume without image and mountPath"),
                Delivery::PreloadImageVolume,
            ),
            crds::LibrarySource::InitCopy => mounted(&preload.library).map_or_else(
                || unsupported("Preload/InitCopy without image and mountPath"),
                Delivery::PreloadInitCopy,
            ),
        },
        (crds::Delivery::Preload, None) => unsupported("Preload without a library"),
        (crds::Delivery::Linked, _) => Delivery::Linked,
        (crds::Delivery::Tunables, _) => Delivery::Tunables,
    }
}

/// The library of an image of its own; the schema asks for both fields.
fn mounted(library: &crds::Library) -> Option<Mounted> {
    Some(Mounted {
        image: library.image.as_ref()?.to_string(),
        mount_path: library.mount_path.clone()?,
        path: library.path.clone(),
    })
}

/// A processor as nodes report it.
pub(super) fn arch_name(arch: crds::Arch) -> &'static str {
    match arch {
        crds::Arch::Amd64 => "amd64",
        crds::Arch::Arm64 => "arm64",
    }
}

fn images(mapping: &crds::ImageMapping) -> ImageMap {
    let variant = |variant: &crds::ImageVariant| ImageVariant {
        arch: arch_name(variant.arch).to_owned(),
        page_size: u64::from(variant.page_size.bytes()),
        image: variant.image.to_string(),
    };
    ImageMap {
        from: mapping.from.to_string(),
        variants: mapping.variants.iter().map(variant).collect(),
    }
}

fn platform(platform: &crds::Platform) -> Platform {
    Platform {
        arch: arch_name(platform.arch).to_owned(),
        max_page_size: u64::from(platform.max_page_size.bytes()),
    }
}

/// The kinds that a target names.
pub(super) fn kinds(target: &crds::Target) -> Vec<Kind> {
    target
        .kinds
        .iter()
        .map(|kind| match kind {
            crds::TargetKind::Deployment => Kind::Deployment,
            crds::TargetKind::StatefulSet => Kind::StatefulSet,
            crds::TargetKind::DaemonSet => Kind::DaemonSet,
        })
        .collect()
}

fn target(target: &crds::Target) -> Target {
    Target {
        kinds: kinds(target),
        selector: selector_text(&target.selector),
        containers: target.containers.iter().map(ToString::to_string).collect(),
        exclude: target.exclude.iter().map(ToString::to_string).collect(),
    }
}

fn waves(plan: &crds::Plan, block: SignedDuration) -> Result<Vec<Wave>, Refusal> {
    plan.waves
        .iter()
        .enumerate()
        .map(|(i, wave)| {
            let bake = duration("spec.rollout.waves[].bake", &wave.bake)?;
            Ok(Wave {
                name: wave.name.to_string(),
                regions: regions(&wave.regions),
                max_concurrent_regions: count(wave.max_concurrent_regions),
                bake_blocks: blocks_up(bake, block),
                gates: gates_after(plan, i),
            })
        })
        .collect()
}

/// The gates between wave `i` and the next: the canary's own, and the next wave's, which is asked for before it starts.
fn gates_after(plan: &crds::Plan, i: usize) -> Vec<String> {
    let required = |wave: &&crds::PlanWave| wave.approval == crds::Approval::Required;
    let own = plan.waves.get(i).filter(|_| i == 0).filter(required);
    let next = plan.waves.get(i + 1).filter(required);
    own.into_iter()
        .chain(next)
        .map(|wave| wave.name.to_string())
        .collect()
}

fn settings(plan: &crds::Plan, block: SignedDuration) -> Result<judge::Settings, Refusal> {
    let analysis = &plan.analysis;
    let seconds = |field: &str, span: &crds::TimeSpan| {
        duration(field, span).map(|duration| duration.as_secs_f64())
    };
    let min_bake = duration("spec.analysis.minBake", &analysis.min_bake)?;
    let max_bake = duration("spec.analysis.maxBake", &analysis.max_bake)?;
    let stable = plan
        .target
        .kinds
        .iter()
        .all(|kind| *kind == crds::TargetKind::StatefulSet);
    let settings = judge::Settings {
        block_seconds: block.as_secs_f64(),
        scrape_seconds: LONGEST_SCRAPE.min(block.as_secs_f64() / SCRAPES_PER_BLOCK),
        delay_seconds: seconds("spec.analysis.delay", &analysis.delay)?,
        baseline_seconds: seconds("spec.analysis.baseline", &analysis.baseline)?,
        min_bake_blocks: blocks_up(min_bake, block),
        max_bake_blocks: blocks_down(max_bake, block),
        gate_timeout_seconds: seconds("spec.analysis.gateTimeout", &analysis.gate_timeout)?,
        verify_deadline_seconds: seconds(
            "spec.analysis.verifyDeadline",
            &analysis.verify_deadline,
        )?,
        max_regression: fraction("spec.analysis.maxRegression", &analysis.max_regression)?,
        min_gain: fraction("spec.analysis.minGain", &analysis.min_gain)?,
        restart_noise: analysis
            .restart_noise
            .as_ref()
            .map(|noise| fraction("spec.analysis.restartNoise", noise))
            .transpose()?,
        control_restart: match plan.rollout.control_restart {
            crds::ControlRestart::Matched => judge::ControlRestart::Matched,
            crds::ControlRestart::None => judge::ControlRestart::None,
        },
        identity: if stable {
            judge::Identity::Stable
        } else {
            judge::Identity::None
        },
        declared: judge::Declared {
            capacity: analysis.cache_capacity.is_some(),
            evictions: analysis.evictions.is_some(),
            requests: analysis.requests.is_some(),
            peak: false,
        },
        guardrails: guardrails(analysis)?,
        ..judge::Settings::default()
    };
    settings.check().map_err(|error| {
        invalid(format!(
            "spec.analysis: {error}; blockDuration is {}, minBake {}, baseline {}: adjust the one that it speaks of.",
            analysis.block_duration, analysis.min_bake, analysis.baseline
        ))
    })?;
    Ok(settings)
}

fn guardrails(analysis: &crds::Analysis) -> Result<Vec<judge::Guardrail>, Refusal> {
    let mut p99_seen = false;
    analysis
        .guardrails
        .iter()
        .map(|guardrail| {
            let kind = kind(guardrail, &mut p99_seen).ok_or_else(|| {
                invalid(format!(
                    "spec.analysis.guardrails: {} has none of histogram, ratio and count; give exactly one.",
                    guardrail.name
                ))
            })?;
            let field = format!("spec.analysis.guardrails ({}).maxIncrease", guardrail.name);
            Ok(judge::Guardrail {
                name: guardrail.name.to_string(),
                kind,
                max_increase: fraction(&field, &guardrail.max_increase)?,
                dry_run: analysis.dry_run.contains(&guardrail.name),
            })
        })
        .collect()
}

/// The first 99th percentile is the named metric of the judge; further ones are like any other latency.
fn kind(guardrail: &crds::Guardrail, p99_seen: &mut bool) -> Option<judge::GuardrailKind> {
    if let Some(histogram) = &guardrail.histogram {
        let p99 = histogram.quantile == "0.99" && !*p99_seen;
        *p99_seen |= p99;
        return Some(if p99 {
            judge::GuardrailKind::P99
        } else {
            judge::GuardrailKind::Continuous
        });
    }
    if let Some(ratio) = &guardrail.ratio {
        return Some(match ratio.of {
            crds::RatioOf::Events => judge::GuardrailKind::Count,
            crds::RatioOf::Amount => judge::GuardrailKind::Continuous,
        });
    }
    guardrail
        .count
        .as_ref()
        .map(|_| judge::GuardrailKind::Count)
}
