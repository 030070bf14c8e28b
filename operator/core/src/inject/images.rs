//! Takes the image that a container runs, the places where its pods may land and the policy's image map, gives the image
//! that is to run instead, or one reason why there is none; and what was written, with its inverse. Never touches an image
//! that the map does not name.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::eligible::{Ineligible, refuse};
use super::pages::{self, Build, Cause, Place, misfit, nodes_of};
use super::patch::{self, JournalRecord};
use crate::decision::Reason;
use crate::names::WorkloadId;
use crate::plan::{Allocator, ImageMap, ImageVariant};
use crate::world::{JournalStage, Node, Pod, Workload};

/// One image as it was and as we wrote it; both exactly as in the pod template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageWrite {
    /// What we wrote.
    pub value: String,
    /// What was there.
    pub prior: String,
}

/// Whose image a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// Ours, as written.
    Ours,
    /// The one that was there before.
    Prior,
    /// Another one; nothing is known of it.
    Other,
}

/// The image that `container` is to run instead of the deployed one; `None`: what is deployed stays.
///
/// Also the check of every page size question: the nodes on which pods may land, the class, and the image map.
pub fn image_for(
    id: &WorkloadId,
    workload: &Workload,
    container: &str,
    nodes: &BTreeMap<String, Node>,
    allocator: &Allocator,
) -> Result<Option<String>, Ineligible> {
    let places = pages::places(id, workload, nodes, allocator)?;
    if allocator.images.is_empty() {
        return Ok(None);
    }
    let who = Who { id, container };
    let deployed = patch::image_of(&workload.template, container).unwrap_or_default();
    choose(&who, deployed, &places, &allocator.images)
}

/// For messages.
struct Who<'a> {
    id: &'a WorkloadId,
    container: &'a str,
}

fn choose(
    who: &Who<'_>,
    deployed: &str,
    places: &[Place<'_>],
    images: &[ImageMap],
) -> Result<Option<String>, Ineligible> {
    if let Some(map) = images.iter().find(|map| map.from == deployed) {
        let all: Vec<&ImageVariant> = map.variants.iter().collect();
        return smallest(who, deployed, places, &all).map(Some);
    }
    // The owner may have taken a variant into the source: then there is nothing to replace, but it must fit.
    let shipped: Vec<&ImageVariant> = images
        .iter()
        .flat_map(|map| &map.variants)
        .filter(|variant| variant.image == deployed)
        .collect();
    if shipped.is_empty() {
        return Err(unmapped(who, deployed, images));
    }
    smallest(who, deployed, places, &shipped).map(|_| None)
}

fn unmapped(who: &Who<'_>, deployed: &str, images: &[ImageMap]) -> Ineligible {
    let Who { id, container } = who;
    let from: Vec<&str> = images.iter().map(|map| map.from.as_str()).collect();
    refuse(
        Reason::ImageNotMapped,
        format!(
            "{id}: container {container} runs {deployed}, which is no from of spec.images (there: {}); add an entry for it, written exactly as in the pod template, or leave the workload out by spec.target.exclude.",
            pages::named(&from)
        ),
    )
}

/// Of the images that run at every place, the one that was built for the smallest sufficient pages.
fn smallest(
    who: &Who<'_>,
    deployed: &str,
    places: &[Place<'_>],
    variants: &[&ImageVariant],
) -> Result<String, Ineligible> {
    let names: BTreeSet<&str> = variants.iter().map(|v| v.image.as_str()).collect();
    let candidates: Vec<(&str, Needs<'_>)> = names
        .into_iter()
        .filter_map(|image| Some((image, needs(image, places, variants)?)))
        .collect();
    let best: Vec<&str> = candidates
        .iter()
        .filter(|(_, needs)| candidates.iter().all(|(_, other)| no_larger(needs, other)))
        .map(|(image, _)| *image)
        .collect();
    match (best.as_slice(), candidates.is_empty()) {
        ([image], _) => Ok((*image).to_owned()),
        (_, true) => Err(none_fits(who, deployed, places, variants)),
        (_, false) => Err(ambiguous(who, deployed, &candidates)),
    }
}

/// By architecture, the smallest sufficient page size for which an image was built.
type Needs<'a> = BTreeMap<&'a str, u64>;

/// What `image` was built for at all places; `None` where it does not run at one of them.
fn needs<'a>(image: &str, places: &[Place<'a>], variants: &[&ImageVariant]) -> Option<Needs<'a>> {
    let mut needs = Needs::new();
    for place in places {
        let sufficient = variants
            .iter()
            .filter(|variant| variant.image == image && build(variant).runs_at(place))
            .map(|variant| variant.page_size)
            .min()?;
        let need = needs.entry(place.arch).or_insert(sufficient);
        *need = sufficient.max(*need);
    }
    Some(needs)
}

/// All candidates have the same architectures: those of the places.
fn no_larger(a: &Needs<'_>, b: &Needs<'_>) -> bool {
    a.iter()
        .all(|(arch, size)| b.get(arch).is_none_or(|other| size <= other))
}

fn build(variant: &ImageVariant) -> Build<'_> {
    Build {
        arch: &variant.arch,
        page_size: variant.page_size,
    }
}

fn none_fits(
    who: &Who<'_>,
    deployed: &str,
    places: &[Place<'_>],
    variants: &[&ImageVariant],
) -> Ineligible {
    let Who { id, container } = who;
    let builds: Vec<Build<'_>> = variants.iter().map(|variant| build(variant)).collect();
    let have: BTreeSet<String> = variants
        .iter()
        .map(|variant| format!("{}/{}", variant.arch, pages::size(variant.page_size)))
        .collect();
    let have: Vec<String> = have.into_iter().collect();
    let have = have.join(", ");
    let Some(misfit) = misfit(places, &builds) else {
        // Each place has an image, but one pod template holds one.
        return refuse(
            Reason::MixedPageSizes,
            format!(
                "{id}: its pods may land on {} ({}), and no single image of spec.images for {deployed} of container {container} runs on all of them; name one image for all (built for the largest pages, or of several architectures), or pin the pods to nodes of one kind by nodeSelector or affinity in spec.template.spec.",
                nodes_of(places),
                pages::kinds(places)
            ),
        );
    };
    let nodes = nodes_of(&misfit.places);
    let kind = misfit.kind();
    let message = match &misfit.cause {
        Cause::Mixed(fitting) => format!(
            "{id}: its pods may land on {nodes} ({kind}) and on {} ({}), and spec.images has no variant of {deployed} for the larger pages (there: {have}); add one, or pin the pods to nodes of one page size by nodeSelector or affinity in spec.template.spec.",
            nodes_of(fitting),
            pages::kinds(fitting)
        ),
        Cause::Arch | Cause::TooLarge => format!(
            "{id}: its pods may land on {nodes} ({kind}), and spec.images has no variant of {deployed} for that (there: {have}); add one, or pin the pods to other nodes by nodeSelector or affinity in spec.template.spec.",
        ),
    };
    refuse(misfit.reason, message)
}

fn ambiguous(who: &Who<'_>, deployed: &str, candidates: &[(&str, Needs<'_>)]) -> Ineligible {
    let Who { id, container } = who;
    let images: Vec<&str> = candidates.iter().map(|(image, _)| *image).collect();
    refuse(
        Reason::InvalidSpec,
        format!(
            "{id}: container {container} runs {deployed}, for which spec.images has {}, none of which is the smallest on every architecture; keep one of them.",
            pages::named(&images)
        ),
    )
}

/// What is to be written into a container that runs `prior`; `None`: nothing.
pub(super) fn write(prior: &str, image: Option<&str>) -> Option<ImageWrite> {
    image
        .filter(|value| *value != prior)
        .map(|value| ImageWrite {
            value: value.to_owned(),
            prior: prior.to_owned(),
        })
}

/// Operations that write it below `root`, the path of its container.
pub(super) fn write_ops(root: &str, write: &ImageWrite) -> [Value; 2] {
    replace(root, &write.prior, &write.value)
}

/// Operations that put back what was there; none where the image is not ours any more: an old image is never put over a
/// newer one of the owner.
pub(super) fn undo_ops(root: &str, image: Option<&str>, write: &ImageWrite) -> Vec<Value> {
    match runs(image, write) {
        Runs::Ours => replace(root, &write.value, &write.prior).to_vec(),
        Runs::Prior | Runs::Other => Vec::new(),
    }
}

fn replace(root: &str, from: &str, to: &str) -> [Value; 2] {
    let path = format!("{root}/image");
    [
        json!({"op": "test", "path": path, "value": from}),
        json!({"op": "replace", "path": path, "value": to}),
    ]
}

/// The patch that writes the recorded image again where the prior one is back, with tests of uid, generation and claim;
/// `None` when there is nothing to write.
pub fn reapply(workload: &Workload, record: &JournalRecord) -> Option<Vec<Value>> {
    let write = record.image.as_ref()?;
    let (index, _) = patch::container_at(&workload.template, &record.container)?;
    let image = patch::image_of(&workload.template, &record.container);
    if runs(image, write) != Runs::Prior {
        return None;
    }
    let root = format!("/spec/template/spec/containers/{index}");
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": workload.uid}),
        json!({"op": "test", "path": "/metadata/generation", "value": workload.generation}),
        json!({"op": "test", "path": patch::claim_path(), "value": record.claim}),
        json!({"op": "test", "path": format!("{root}/name"), "value": record.container}),
    ];
    patch.extend(write_ops(&root, write));
    Some(patch)
}

/// Whose image a container runs.
pub(super) fn runs(image: Option<&str>, write: &ImageWrite) -> Runs {
    match image {
        Some(image) if image == write.value => Runs::Ours,
        Some(image) if image == write.prior => Runs::Prior,
        Some(_) | None => Runs::Other,
    }
}

/// The version of the application that a pod runs, for the comparison of arms: a variant is the same application as the
/// image that it stands for, so it counts as that image's digest of before the change.
pub fn version<'a>(workload: &'a Workload, pod: &'a Pod, container: &str) -> Option<&'a str> {
    let image = patch::image_of(&workload.template, container);
    let ours = |record: &&JournalRecord| {
        let write = record.image.as_ref();
        record.container == container && write.is_some_and(|w| runs(image, w) == Runs::Ours)
    };
    let current = workload.revision.as_ref().map(|revision| &revision.hash);
    let replaced = workload
        .journals
        .iter()
        .filter(|journal| journal.stage != JournalStage::Removed)
        .map(|journal| &journal.record)
        .find(ours)
        .filter(|_| current == Some(&pod.revision_hash));
    let images = replaced.map_or(&pod.images, |record| &record.images);
    images.get(container).map(String::as_str)
}
