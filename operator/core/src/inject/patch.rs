//! Takes a workload as seen and an allocator, gives the JSON patch that changes it, the record that undoes it, and the
//! proof that it was undone. Every patch begins with tests of what was observed, so that repeating it is harmless.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::CLAIM;
use super::apply::apply;
use super::eligible::{Ineligible, check_template, refuse};
use super::env::{EnvWrite, env_entry, env_ops, value_of};
use super::hash::{canonical_hash, template_hash};
use super::images::{self, ImageWrite, Runs};
use super::parts::{Part, add_ops, mounted_elsewhere, remove_ops};
use crate::decision::Reason;
use crate::names::{Claim, PlanHash, WorkloadId};
use crate::plan::Allocator;
use crate::world::{Revision, Workload};

/// The record of one change: written before it, immutable, the only source of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Form of this record, 1.
    pub version: u32,
    /// Hub and policy.
    pub claim: Claim,
    /// What was to be done.
    pub plan: PlanHash,
    /// To which workload.
    pub workload: WorkloadId,
    /// Its uid.
    pub uid: String,
    /// Its generation before.
    pub generation: i64,
    /// Hash of its template before.
    pub template_hash: String,
    /// The revision that it ran before.
    pub revision: Option<Revision>,
    /// The container that is changed.
    pub container: String,
    /// What is written into its environment.
    pub env: Vec<EnvWrite>,
    /// What is added besides, where the library comes beside the application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Whether the container had an `env` list.
    pub env_existed: bool,
    /// Which image is replaced in it; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageWrite>,
    /// Whether the workload had annotations.
    pub annotations_existed: bool,
    /// The exact patch.
    pub patch: Vec<Value>,
    /// Its inverse, as of the moment of the patch; see [`undo`] for the one that is sent.
    pub inverse: Vec<Value>,
    /// Image digests that ran before, by container.
    pub images: BTreeMap<String, String>,
    /// Replicas at that time.
    pub replicas: u32,
}

/// A change that is ready to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// Name of the journal's ControllerRevision.
    pub journal: String,
    /// What the journal holds.
    pub record: JournalRecord,
}

/// What is left of our change in a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Neither claim nor keys.
    Absent,
    /// Claim and keys as written.
    Present,
    /// Our claim went and our keys with it: somebody put the old template back.
    Reverted,
    /// The named key has another value, or none, while others of ours stand.
    Taken(String),
    /// Everything of ours stands but the image, which is the old one again: another tool applied its source once more.
    ImageBack,
    /// Everything of ours stands but the image, which is one that nobody told us of: its owner shipped another version.
    ImageReplaced(String),
    /// Another hub or policy holds the claim.
    Foreign(String),
}

/// How a workload came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restored {
    /// The recorded template and the recorded revision.
    Exact,
    /// The user's newer template, without our keys.
    OnNewerTemplate,
}

/// Why an undo cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoBlocked {
    /// One clause for people.
    pub because: String,
}

/// Names of the containers of a template, in order.
pub(super) fn container_names(template: &Value) -> Vec<String> {
    containers(template)
        .iter()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .map(str::to_owned)
        .collect()
}

fn containers(template: &Value) -> &[Value] {
    template
        .pointer("/spec/containers")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn container_at<'a>(template: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    containers(template)
        .iter()
        .enumerate()
        .find(|(_, container)| container.get("name").and_then(Value::as_str) == Some(name))
}

/// A container as the template has it.
pub(super) fn container<'a>(template: &'a Value, name: &str) -> Option<&'a Value> {
    container_at(template, name).map(|(_, container)| container)
}

/// The `env` list of a container; empty when absent.
pub(super) fn env_of<'a>(template: &'a Value, container: &str) -> &'a [Value] {
    container_at(template, container)
        .and_then(|(_, container)| container.get("env"))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The image of a container; `None` when the container is gone.
pub(super) fn image_of<'a>(template: &'a Value, name: &str) -> Option<&'a str> {
    let image = container(template, name)?.get("image");
    Some(image.and_then(Value::as_str).unwrap_or_default())
}

/// Name of the journal of one workload under one attempt of one plan. At most 253 characters.
pub fn journal_name(id: &WorkloadId, uid: &str, plan: &PlanHash, attempt: u32) -> String {
    let hash = canonical_hash(&json!([uid, plan.as_str(), attempt]));
    let short: String = hash.chars().take(10).collect();
    let name: String = id.name.chars().take(200).collect();
    format!("heapfleet-{name}-{short}")
}

/// The change of `container`, with its record, or why it cannot be made in the template as it stands. `image`: what the
/// container is to run instead of the deployed one.
#[expect(
    clippy::too_many_arguments,
    reason = "all of it is written down in the record"
)]
pub fn inject(
    id: &WorkloadId,
    workload: &Workload,
    container: &str,
    allocator: &Allocator,
    image: Option<&str>,
    claim: &Claim,
    plan: &PlanHash,
    attempt: u32,
) -> Result<Injection, Ineligible> {
    let gone = || {
        refuse(
            Reason::ContainerNotFound,
            format!("{id}: container {container} is gone; name another in spec.target.containers."),
        )
    };
    let (index, body) = container_at(&workload.template, container).ok_or_else(gone)?;
    check_template(id, container, &workload.template, allocator)?;
    let env_existed = body.get("env").is_some();
    let root = format!("/spec/template/spec/containers/{index}");

    let (mut ops, writes) = env_ops(&root, body.get("env"), allocator);
    let (added, parts) = add_ops(&workload.template, index, allocator);
    ops.extend(added);
    let image =
        image_of(&workload.template, container).and_then(|deployed| images::write(deployed, image));
    ops.extend(
        image
            .iter()
            .flat_map(|write| images::write_ops(&root, write)),
    );

    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": workload.uid}),
        json!({"op": "test", "path": "/metadata/generation", "value": workload.generation}),
        json!({"op": "test", "path": format!("{root}/name"), "value": container}),
    ];
    patch.extend(claim_ops(workload, claim));
    let object = json!({"spec": {"template": workload.template}});
    let after = apply(&object, &ops).ok_or_else(gone)?;
    patch.extend(ops);

    let mut record = JournalRecord {
        version: 1,
        claim: claim.clone(),
        plan: plan.clone(),
        workload: id.clone(),
        uid: workload.uid.clone(),
        generation: workload.generation,
        template_hash: template_hash(&workload.template),
        revision: workload.revision.clone(),
        container: container.to_owned(),
        env: writes,
        parts,
        env_existed,
        image,
        annotations_existed: workload.annotations.is_some(),
        patch,
        inverse: Vec::new(),
        images: workload
            .pods
            .iter()
            .flat_map(|pod| pod.images.clone())
            .collect(),
        replicas: workload.replicas,
    };
    record.inverse = inverse_ops(after.pointer("/spec/template").ok_or_else(gone)?, &record);
    Ok(Injection {
        journal: journal_name(id, &workload.uid, plan, attempt),
        record,
    })
}

/// Operations that put our claim where there is none.
fn claim_ops(workload: &Workload, claim: &Claim) -> [Value; 2] {
    let (path, value) = match workload.annotations {
        Some(_) => (claim_path(), json!(claim)),
        None => ("/metadata/annotations".to_owned(), json!({CLAIM: claim})),
    };
    [
        json!({"op": "test", "path": path, "value": null}),
        json!({"op": "add", "path": path, "value": value}),
    ]
}

pub(super) fn claim_path() -> String {
    format!(
        "/metadata/annotations/{}",
        CLAIM.replace('~', "~0").replace('/', "~1")
    )
}

/// What is left of the recorded change.
pub fn presence(workload: &Workload, record: &JournalRecord) -> Presence {
    let held = workload.claim();
    if let Some(other) = held
        && other != record.claim.as_str()
    {
        return Presence::Foreign(other.to_owned());
    }
    let image = image_of(&workload.template, &record.container);
    let runs = record
        .image
        .as_ref()
        .map(|write| images::runs(image, write));
    let mut differing = differing(&workload.template, record);
    if held.is_some() && differing.is_empty() {
        return match (runs, image) {
            (Some(Runs::Prior), _) => Presence::ImageBack,
            (Some(Runs::Other), Some(image)) => Presence::ImageReplaced(image.to_owned()),
            (Some(Runs::Other), None) => Presence::Reverted,
            (Some(Runs::Ours) | None, _) => Presence::Present,
        };
    }
    let total = record.env.len() + record.parts.len() + usize::from(runs.is_some());
    let lost = runs.filter(|runs| *runs != Runs::Ours);
    differing.extend(lost.map(|_| "image".to_owned()));
    match (held.is_some(), differing.first()) {
        (true, Some(_)) if differing.len() == total => Presence::Reverted,
        (true | false, Some(key)) if differing.len() < total => Presence::Taken(key.clone()),
        (false, None) if total > 0 => Presence::Taken(CLAIM.to_owned()),
        (true | false, Some(_) | None) => Presence::Absent,
    }
}

/// Names of what we wrote, but for the image, that does not stand as it was written.
fn differing(template: &Value, record: &JournalRecord) -> Vec<String> {
    let at = container_at(template, &record.container).map(|(at, _)| at);
    let env = env_of(template, &record.container);
    let of_env = record.env.iter().filter(|write| {
        env_entry(env, &write.name).and_then(|(_, e)| value_of(e)) != Some(write.value.as_str())
    });
    let of_parts = record
        .parts
        .iter()
        .filter(|part| !part.intact(template, at));
    of_env
        .map(|write| write.name.clone())
        .chain(of_parts.map(Part::label))
        .collect()
}

/// The patch that undoes the recorded change in the workload as it stands: tests on uid, generation, claim and on every
/// value that we wrote, then the removal. Keys whose value is another one now belong to the user and stay.
pub fn undo(workload: &Workload, record: &JournalRecord) -> Result<Vec<Value>, UndoBlocked> {
    if workload.uid != record.uid {
        return Err(UndoBlocked {
            because: "the workload was recreated".to_owned(),
        });
    }
    let held = workload.claim();
    if held.is_none_or(|held| held != record.claim.as_str()) {
        return Err(UndoBlocked {
            because: "our claim is not on the workload".to_owned(),
        });
    }
    if let Some(other) = mounted_elsewhere(&workload.template, &record.container, &record.parts) {
        return Err(UndoBlocked {
            because: format!(
                "container {other} mounts our volume; remove that mount, and what we added can go"
            ),
        });
    }
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": workload.uid}),
        json!({"op": "test", "path": "/metadata/generation", "value": workload.generation}),
        json!({"op": "test", "path": claim_path(), "value": record.claim}),
    ];
    patch.extend(inverse_ops(&workload.template, record));
    patch.push(release_op(workload, record));
    Ok(patch)
}

/// The patch that gives up the claim and leaves the template as it is.
pub fn release(workload: &Workload, record: &JournalRecord) -> Vec<Value> {
    vec![
        json!({"op": "test", "path": "/metadata/uid", "value": workload.uid}),
        json!({"op": "test", "path": claim_path(), "value": record.claim}),
        release_op(workload, record),
    ]
}

fn release_op(workload: &Workload, record: &JournalRecord) -> Value {
    let alone = workload
        .annotations
        .as_ref()
        .is_some_and(|all| all.len() == 1);
    if alone && !record.annotations_existed {
        json!({"op": "remove", "path": "/metadata/annotations"})
    } else {
        json!({"op": "remove", "path": claim_path()})
    }
}

fn inverse_ops(template: &Value, record: &JournalRecord) -> Vec<Value> {
    let Some((index, body)) = container_at(template, &record.container) else {
        // The container went, and our keys with it.
        return remove_ops(template, None, &record.parts);
    };
    let root = format!("/spec/template/spec/containers/{index}");
    let env = body
        .get("env")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut replaced = Vec::new();
    let mut removed = Vec::new();
    for write in &record.env {
        let Some((at, entry)) = env_entry(env, &write.name) else {
            continue;
        };
        if value_of(entry) != Some(write.value.as_str()) {
            continue;
        }
        match &write.prior {
            Some(prior) => {
                let path = format!("{root}/env/{at}");
                replaced.push(json!({"op": "test", "path": path, "value": entry}));
                replaced.push(
                    json!({"op": "replace", "path": path, "value": plain(&write.name, prior)}),
                );
            }
            None => removed.push((at, entry)),
        }
    }
    let mut ops =
        vec![json!({"op": "test", "path": format!("{root}/name"), "value": record.container})];
    if let Some(write) = &record.image {
        let image = image_of(template, &record.container);
        ops.extend(images::undo_ops(&root, image, write));
    }
    ops.extend(replaced);
    if removed.len() == env.len() && !record.env_existed && !env.is_empty() {
        ops.push(json!({"op": "test", "path": format!("{root}/env"), "value": env}));
        ops.push(json!({"op": "remove", "path": format!("{root}/env")}));
    } else {
        // From the end, so that the indices before stay what they were.
        removed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, entry) in removed {
            let path = format!("{root}/env/{at}");
            ops.push(json!({"op": "test", "path": path, "value": entry}));
            ops.push(json!({"op": "remove", "path": path}));
        }
    }
    ops.extend(remove_ops(template, Some(index), &record.parts));
    ops
}

/// An entry as the API server keeps it: without an empty value.
fn plain(name: &str, value: &str) -> Value {
    if value.is_empty() {
        json!({"name": name})
    } else {
        json!({"name": name, "value": value})
    }
}

/// How the workload came back after the undo, or why that is not proved. Looks at the template only;
/// that the old revision runs again and the injected pods are gone is the caller's look at the world.
pub fn restored(workload: &Workload, record: &JournalRecord) -> Result<Restored, UndoBlocked> {
    let held = workload.claim();
    if held.is_some_and(|held| held == record.claim.as_str()) {
        return Err(UndoBlocked {
            because: "our claim is still there".to_owned(),
        });
    }
    let env = env_of(&workload.template, &record.container);
    let left = record.env.iter().find(|write| {
        let now = env_entry(env, &write.name).and_then(|(_, entry)| value_of(entry));
        now == Some(write.value.as_str()) && write.prior.as_deref() != now
    });
    if let Some(write) = left {
        return Err(UndoBlocked {
            because: format!("{} still has our value", write.name),
        });
    }
    let at = container_at(&workload.template, &record.container).map(|(at, _)| at);
    if let Some(part) = record
        .parts
        .iter()
        .find(|part| part.intact(&workload.template, at))
    {
        return Err(UndoBlocked {
            because: format!("the {} is still there", part.label()),
        });
    }
    let image = image_of(&workload.template, &record.container);
    if let Some(write) = &record.image
        && images::runs(image, write) == Runs::Ours
    {
        return Err(UndoBlocked {
            because: format!("the image is still {}", write.value),
        });
    }
    if template_hash(&workload.template) == record.template_hash {
        if workload.revision == record.revision {
            return Ok(Restored::Exact);
        }
        return Err(UndoBlocked {
            because: "the template is as before, but another revision runs".to_owned(),
        });
    }
    Ok(Restored::OnNewerTemplate)
}
