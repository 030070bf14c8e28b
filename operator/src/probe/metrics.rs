//! Takes a [`Snapshot`], gives the text that Prometheus reads; must never put anything into a label that changes while a
//! container lives, except what the process itself changes.

use super::errors::Stage;
use super::scan::{Container, Snapshot};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The content type of [`text`].
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of a snapshot in the Prometheus text format 0.0.4.
///
/// # Errors
/// Never in practice: writing to a string cannot fail.
pub(super) fn text(snapshot: Arc<Snapshot>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Nodes(snapshot)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Nodes(Arc<Snapshot>);

/// Labels that every series of a container has.
fn labels<'a>(node: &'a str, container: &'a Container) -> [(&'static str, &'a str); 5] {
    let identity = &container.identity;
    [
        ("namespace", &identity.namespace),
        ("pod", &identity.pod),
        ("uid", &identity.uid),
        ("container", &identity.container),
        ("node", node),
    ]
}

impl Collector for Nodes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.amounts(encoder)?;
        self.infos(encoder)?;
        self.node(encoder)
    }
}

impl Nodes {
    fn amounts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.each(
            encoder,
            "rss_bytes",
            "Resident memory (VmRSS), summed over its processes.",
            |c| c.memory.rss,
        )?;
        self.each(
            encoder,
            "rss_anon_bytes",
            "Anonymous resident memory (RssAnon), summed over its processes.",
            |c| c.memory.rss_anon,
        )?;
        self.each(
            encoder,
            "rss_peak_bytes",
            "Highest resident memory so far (VmHWM), summed over the processes that live.",
            |c| c.memory.rss_peak,
        )?;
        self.each(encoder, "processes", "Processes of the container.", |c| {
            c.processes
        })?;
        self.each(encoder, "threads", "Threads of the container.", |c| {
            c.memory.threads
        })?;
        self.each(
            encoder,
            "start_time_seconds",
            "Start of the container's oldest process, seconds since 1970.",
            |c| c.start_seconds,
        )
    }

    fn infos(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.0;
        let allocators = snapshot.containers.iter().filter_map(|container| {
            let mapped = container.mapped.as_ref()?;
            Some((
                container,
                ("allocator", mapped.allocator.as_str()),
                ("library", mapped.library.as_str()),
            ))
        });
        family(
            encoder,
            "allocator_info",
            "1 for the allocator that the container's largest process has mapped.",
            allocators.map(|(c, allocator, library)| {
                (
                    extended(labels(&snapshot.node, c), [allocator, library]),
                    1_u64,
                )
            }),
        )?;
        let settings = snapshot.containers.iter().filter_map(|c| {
            let (settings, origin) = c.settings.as_ref()?;
            Some((c, settings, ("origin", origin.as_str())))
        });
        family(
            encoder,
            "preload_info",
            "1 for LD_PRELOAD of the container's largest process; empty when it is not set, origin says where it was read.",
            settings.clone().map(|(c, settings, origin)| {
                let value = settings.preload.as_deref().unwrap_or_default();
                (
                    extended(labels(&snapshot.node, c), [("preload", value), origin]),
                    1_u64,
                )
            }),
        )?;
        family(
            encoder,
            "option_info",
            "1 for each variable of the container's largest process that an allocator reads.",
            settings.flat_map(|(c, settings, origin)| {
                settings.options.iter().map(move |(variable, value)| {
                    let option = [
                        ("variable", variable.as_str()),
                        ("value", value.as_str()),
                        origin,
                    ];
                    (extended(labels(&snapshot.node, c), option), 1_u64)
                })
            }),
        )
    }

    fn node(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.0;
        let node = ("node", snapshot.node.as_str());
        family(
            encoder,
            "page_size_bytes",
            "Page size of the node's kernel.",
            snapshot.page_size.into_iter().map(|bytes| ([node], bytes)),
        )?;
        family(
            encoder,
            "thp_info",
            "1 for the node's mode of transparent huge pages.",
            snapshot
                .thp
                .iter()
                .map(|mode| ([node, ("mode", mode.as_str())], 1_u64)),
        )?;
        let seconds = snapshot.took.as_secs_f64();
        family(
            encoder,
            "scan_seconds",
            "Time that this scan took.",
            [([node], seconds)],
        )?;
        let mut errors = encoder.encode_descriptor(
            "heapfleet_probe_scan_errors",
            "Reads that failed, by stage; 'vanished' is normal: the process ended meanwhile.",
            None,
            MetricType::Counter,
        )?;
        for stage in Stage::ALL {
            let labels = [node, ("stage", stage.as_str())];
            let count = snapshot.errors.of(stage);
            errors
                .encode_family(&labels)?
                .encode_counter(&count, NO_EXEMPLAR)?;
        }
        Ok(())
    }

    fn each<N: EncodeGaugeValue>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        value: impl Fn(&Container) -> N,
    ) -> fmt::Result {
        let snapshot = &self.0;
        let samples = snapshot
            .containers
            .iter()
            .map(|c| (labels(&snapshot.node, c), value(c)));
        family(encoder, name, help, samples)
    }
}

/// Counters here have no exemplars; the type must be named all the same.
const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], u64>> = None;

/// Writes one gauge `heapfleet_probe_<name>` with all its series.
fn family<L: EncodeLabelSet, N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, N)>,
) -> fmt::Result {
    let name = format!("heapfleet_probe_{name}");
    let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn extended<'a, const N: usize>(
    labels: [(&'static str, &'a str); 5],
    more: [(&'static str, &'a str); N],
) -> Vec<(&'static str, &'a str)> {
    labels.into_iter().chain(more).collect()
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
