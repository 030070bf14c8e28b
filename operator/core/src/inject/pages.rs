//! Takes a workload, the nodes on which its pods may land and an allocator, gives architecture and page size of each of
//! these nodes, or one reason why the build cannot run on all of them. Never guesses a page size: a jemalloc that was built
//! for smaller pages than the kernel's fails at start, or worse, runs without memory.

use std::collections::{BTreeMap, BTreeSet};

use super::eligible::{Ineligible, refuse};
use super::placement::{Moment, landing};
use crate::decision::Reason;
use crate::names::WorkloadId;
use crate::plan::{Allocator, Platform};
use crate::world::{Node, Workload};

/// The label with which an admin says a node's page size: `4Ki`, `16Ki` or `64Ki`.
pub const PAGE_SIZE: &str = "heapfleet.dev/page-size";
/// So many nodes are named in a message; the rest is counted.
const NAMED: usize = 3;

/// A node on which pods may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a> {
    /// `amd64`, `arm64`, …
    pub(super) arch: &'a str,
    /// Of its kernel, bytes.
    pub(super) page_size: u64,
    /// The node's name.
    pub(super) node: &'a str,
}

impl Place<'_> {
    /// For people: `arm64 with 64Ki pages`.
    pub(super) fn kind(&self) -> String {
        format!("{} with {} pages", self.arch, size(self.page_size))
    }
}

/// A page size as the API writes it.
pub(super) fn size(bytes: u64) -> String {
    format!("{}Ki", bytes / 1024)
}

/// Up to three names; the rest is counted.
pub(super) fn named<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// [`named`] nodes of places, with the right number of the noun.
pub(super) fn nodes_of(places: &[Place<'_>]) -> String {
    let names: Vec<&str> = places.iter().map(|place| place.node).collect();
    let noun = if names.len() == 1 { "node" } else { "nodes" };
    format!("{noun} {}", named(&names))
}

/// The page size of a node in bytes: the admin's label, else the certain rows of the inference table (amd64 is 4Ki, a
/// kernel version ending in `+64k` is 64Ki). A label that cannot be read is nobody's word, but it shows that somebody
/// knows better than the table.
pub(super) fn page_size(node: &Node) -> Option<u64> {
    if node.page_size_label.is_some() || node.labels.contains_key(PAGE_SIZE) {
        return node.page_size_label;
    }
    if node.arch == "amd64" {
        Some(4096)
    } else if node.kernel.ends_with("+64k") {
        Some(65536)
    } else {
        None
    }
}

/// The places where pods of `workload` may land, all of which the class supports.
pub(super) fn places<'a>(
    id: &WorkloadId,
    workload: &Workload,
    nodes: &'a BTreeMap<String, Node>,
    allocator: &Allocator,
) -> Result<Vec<Place<'a>>, Ineligible> {
    if nodes.is_empty() {
        return Err(refuse(
            Reason::PageSizeUnknown,
            format!(
                "{id}: no node could be seen, so the page size is not known; allow the hub to list nodes."
            ),
        ));
    }
    let landing = landing(id.kind, &workload.template, nodes, Moment::Later);
    if landing.is_empty() {
        return Err(refuse(
            Reason::PageSizeUnknown,
            format!(
                "{id}: its pods may land on none of the cluster's nodes, so the page size is not known; check nodeSelector, affinity and tolerations in spec.template.spec against the labels and taints of nodes."
            ),
        ));
    }
    let mut places = Vec::new();
    let mut unknown = Vec::new();
    for (name, node) in landing {
        match page_size(node) {
            Some(page_size) => places.push(Place {
                arch: &node.arch,
                page_size,
                node: name,
            }),
            None => unknown.push(why_unknown(name, node)),
        }
    }
    if !unknown.is_empty() {
        let (noun, each) = if unknown.len() == 1 {
            ("node", "it")
        } else {
            ("nodes", "each")
        };
        return Err(refuse(
            Reason::PageSizeUnknown,
            format!(
                "{id}: the page size of {noun} {} is not known; label {each} {PAGE_SIZE}=4Ki, 16Ki or 64Ki, or keep the pods away by nodeSelector or affinity in spec.template.spec.",
                named(&unknown)
            ),
        ));
    }
    supported(id, &places, allocator)?;
    Ok(places)
}

fn why_unknown(name: &str, node: &Node) -> String {
    match node.labels.get(PAGE_SIZE) {
        Some(label) => format!("{name} (its label says \"{label}\", which is no page size)"),
        None => format!("{name} ({}, kernel {})", node.arch, node.kernel),
    }
}

/// Whether the class has a build for every place.
fn supported(
    id: &WorkloadId,
    places: &[Place<'_>],
    allocator: &Allocator,
) -> Result<(), Ineligible> {
    let builds: Vec<Build<'_>> = allocator.platforms.iter().map(Build::from).collect();
    let Some(misfit) = misfit(places, &builds) else {
        return Ok(());
    };
    let class = &allocator.class;
    let largest = |arch: &str| {
        let sizes = builds.iter().filter(|build| build.arch == arch);
        sizes.map(|build| build.page_size).max().map(size)
    };
    let nodes = nodes_of(&misfit.places);
    let kind = misfit.kind();
    let message = match (&misfit.cause, largest(misfit.arch())) {
        (Cause::Mixed(fitting), Some(largest)) => format!(
            "{id}: its pods may land on {nodes} ({kind}) and on {} ({}), and class {class} says maxPageSize: {largest} for {} in spec.platforms; pin the pods to nodes of one page size by nodeSelector or affinity in spec.template.spec, or use a class whose build takes the larger pages.",
            nodes_of(fitting),
            kinds(fitting),
            misfit.arch(),
        ),
        (Cause::TooLarge, Some(largest)) => format!(
            "{id}: {nodes} ({kind}) have larger pages than class {class} supports, which says maxPageSize: {largest} for {} in spec.platforms; use a class whose build takes them, or pin the pods to other nodes.",
            misfit.arch(),
        ),
        (Cause::Arch | Cause::Mixed(_) | Cause::TooLarge, _) => format!(
            "{id}: its pods may land on {nodes} ({kind}), and class {class} does not list {} in spec.platforms; add a build for it, or pin the pods to other nodes by nodeSelector kubernetes.io/arch.",
            misfit.arch(),
        ),
    };
    Err(refuse(misfit.reason, message))
}

/// Something that runs on one architecture up to a page size: a build of a class, a variant of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build<'a> {
    pub(super) arch: &'a str,
    pub(super) page_size: u64,
}

impl<'a> From<&'a Platform> for Build<'a> {
    fn from(platform: &'a Platform) -> Self {
        Self {
            arch: &platform.arch,
            page_size: platform.max_page_size,
        }
    }
}

impl Build<'_> {
    pub(super) fn runs_at(&self, place: &Place<'_>) -> bool {
        self.arch == place.arch && self.page_size >= place.page_size
    }
}

/// Places of one kind for which there is no build.
#[derive(Clone, Debug)]
pub(super) struct Misfit<'a> {
    pub(super) reason: Reason,
    pub(super) cause: Cause<'a>,
    /// Never empty; all of one architecture and page size.
    pub(super) places: Vec<Place<'a>>,
}

/// Why there is none.
#[derive(Clone, Debug)]
pub(super) enum Cause<'a> {
    /// No build for the architecture.
    Arch,
    /// The pages are larger than any build for the architecture takes, and so it is everywhere.
    TooLarge,
    /// The same, but other places fit: to pin the pods there would do.
    Mixed(Vec<Place<'a>>),
}

impl<'a> Misfit<'a> {
    pub(super) fn arch(&self) -> &'a str {
        self.places.first().map_or("", |place| place.arch)
    }

    pub(super) fn kind(&self) -> String {
        kinds(&self.places)
    }
}

/// What kinds of nodes the places are, each once.
pub(super) fn kinds(places: &[Place<'_>]) -> String {
    let kinds: BTreeSet<String> = places.iter().map(Place::kind).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

/// The first kind of places that no build fits, those of an unknown architecture before all; `None`: every place has one.
pub(super) fn misfit<'a>(places: &[Place<'a>], builds: &[Build<'_>]) -> Option<Misfit<'a>> {
    let known = |place: &Place<'_>| builds.iter().any(|build| build.arch == place.arch);
    let fits = |place: &Place<'_>| builds.iter().any(|build| build.runs_at(place));
    let (fitting, mut failing): (Vec<Place<'a>>, Vec<Place<'a>>) =
        places.iter().partition(|place| fits(place));
    failing.sort_by_key(|place| (known(place), *place));
    let first = *failing.first()?;
    failing.retain(|place| (place.arch, place.page_size) == (first.arch, first.page_size));
    let mixed = fitting
        .iter()
        .any(|place| place.page_size != first.page_size);
    let (reason, cause) = if !known(&first) {
        (Reason::PageSizeUnsupported, Cause::Arch)
    } else if mixed {
        (Reason::MixedPageSizes, Cause::Mixed(fitting))
    } else {
        (Reason::PageSizeUnsupported, Cause::TooLarge)
    };
    Some(Misfit {
        reason,
        cause,
        places: failing,
    })
}
