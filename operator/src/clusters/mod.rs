//! Takes `AllocatorRegion`s, gives the one client of each region's cluster: limited, with a deadline, with its identity
//! checked against the pinned one. Never retries by itself and never keeps what a decision reads.

mod access;
mod clause;
mod error;
#[cfg(test)]
mod error_tests;
mod gate;
mod kubeconfig;
#[cfg(test)]
mod kubeconfig_tests;
mod link;
mod path;
mod prometheus;
mod reader;
mod secrets;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heapfleet_core::names::ClusterUid;
use heapfleet_crds::AllocatorRegion;
use kube::ResourceExt as _;
use serde_json::Value;

pub use clause::transport_clause;
pub use error::{Class, ClusterError, Refused, human};
pub use gate::Health;
pub use link::Limits;
pub use path::ResourcePath;
pub use prometheus::PrometheusLink;
pub use reader::Reader;
pub use secrets::{SecretValue, Secrets};
pub use writer::{Deleted, Evicted, Writer};

use link::Link;
use prometheus::Prometheuses;

/// How long a failure to connect stands for those who ask next, so that they do not queue for the same deadline.
const FAILURE_STANDS: Duration = Duration::from_secs(1);

/// One cluster, reachable when last asked.
#[derive(Clone, Debug)]
pub struct Cluster {
    name: String,
    uid: ClusterUid,
    link: Arc<Link>,
}

impl Cluster {
    /// The region's name; `hub` for the hub itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The uid of its `kube-system` namespace.
    pub fn uid(&self) -> &ClusterUid {
        &self.uid
    }

    /// Reads.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.link))
    }

    /// Writes.
    pub fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.link))
    }

    /// Whether its API server has answered lately; for people.
    pub fn health(&self) -> Health {
        self.link.gate.health()
    }
}

/// What is known of one region's way.
#[derive(Debug, Default)]
struct Entry {
    made_from: String,
    link: Option<Arc<Link>>,
    checked: Option<(Instant, ClusterUid)>,
    failed: Option<(Instant, String, ClusterError)>,
}

/// The clusters of all regions, and the hub.
#[derive(Debug)]
pub struct Clusters {
    hub_config: kube::Config,
    hub: Arc<Link>,
    hub_uid: tokio::sync::OnceCell<ClusterUid>,
    secrets: Secrets,
    prometheuses: Prometheuses,
    limits: Limits,
    entries: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Entry>>>>,
}

impl Clusters {
    /// A registry whose hub is reached by `hub_config` and whose Secrets live in `namespace`.
    pub fn new(
        hub_config: kube::Config,
        namespace: impl Into<String>,
        limits: Limits,
    ) -> Result<Self, ClusterError> {
        let hub = Arc::new(Link::new(who("hub"), hub_config.clone(), limits)?);
        let secrets = Secrets::new(Reader::new(Arc::clone(&hub)), namespace);
        Ok(Self {
            hub_config,
            hub,
            hub_uid: tokio::sync::OnceCell::new(),
            prometheuses: Prometheuses::new(secrets.clone(), limits),
            secrets,
            limits,
            entries: Mutex::default(),
        })
    }

    /// Reads of the hub.
    pub fn hub_reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.hub))
    }

    /// Writes to the hub.
    pub fn hub_writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.hub))
    }

    /// Whether the hub's API server has answered lately; for people.
    pub fn hub_health(&self) -> Health {
        self.hub.gate.health()
    }

    /// The uid of the hub. The process lives in it, so that it is asked for once.
    pub async fn hub_uid(&self) -> Result<ClusterUid, ClusterError> {
        self.hub_uid
            .get_or_try_init(|| async { identity(&self.hub_reader()).await })
            .await
            .cloned()
    }

    /// The way to a region's Prometheus; nothing is asked of it yet.
    pub async fn prometheus(
        &self,
        region: &AllocatorRegion,
    ) -> Result<Arc<PrometheusLink>, ClusterError> {
        self.prometheuses.of(region).await
    }

    /// The Secrets of the operator's namespace.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The cluster of a region. Its Secrets are read again when the last look is older than [`Limits::recheck`], and the
    /// client is made anew when they changed; likewise the cluster's identity, which must be the pinned one.
    pub async fn cluster(&self, region: &AllocatorRegion) -> Result<Arc<Cluster>, ClusterError> {
        let name = region.name_any();
        let entry = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(name.clone()).or_default())
        };
        let spec = serde_json::to_string(&region.spec.cluster).unwrap_or_default();
        let mut entry = entry.lock().await;
        if let Some((at, of, error)) = &entry.failed
            && at.elapsed() < FAILURE_STANDS
            && *of == spec
        {
            return Err(error.clone());
        }
        let refreshed = self.refresh(region, &spec, &mut entry).await;
        entry.failed = match &refreshed {
            Ok(_) => None,
            Err(error) => Some((Instant::now(), spec, error.clone())),
        };
        let (link, uid) = refreshed?;
        drop(entry);
        pinned(region, &uid)?;
        Ok(Arc::new(Cluster { name, uid, link }))
    }

    /// Drops the clients of regions that are not among `names` any more.
    pub fn retain(&self, names: &std::collections::BTreeSet<String>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|name, _| names.contains(name));
        drop(entries);
        self.prometheuses.retain(names);
    }

    async fn refresh(
        &self,
        region: &AllocatorRegion,
        spec: &str,
        entry: &mut Entry,
    ) -> Result<(Arc<Link>, ClusterUid), ClusterError> {
        if let (Some(link), Some((at, uid))) = (&entry.link, &entry.checked)
            && at.elapsed() < self.limits.recheck
            && entry.made_from.starts_with(spec)
        {
            return Ok((Arc::clone(link), uid.clone()));
        }
        let access = access::resolve(region, &self.hub_config, &self.secrets).await?;
        let made_from = format!("{spec} {}", access.made_from);
        let link = match &entry.link {
            Some(link) if entry.made_from == made_from => Arc::clone(link),
            Some(_) | None => Arc::new(Link::new(
                who(&region.name_any()),
                access.config,
                self.limits,
            )?),
        };
        entry.link = Some(Arc::clone(&link));
        entry.made_from = made_from;
        entry.checked = None;
        let uid = identity(&Reader::new(Arc::clone(&link))).await?;
        entry.checked = Some((Instant::now(), uid.clone()));
        Ok((link, uid))
    }
}

/// How people call an API server.
fn who(name: &str) -> String {
    if name == "hub" {
        "API server of the hub".to_owned()
    } else {
        format!("API server of region {name}")
    }
}

fn pinned(region: &AllocatorRegion, found: &ClusterUid) -> Result<(), ClusterError> {
    let pinned = region
        .status
        .as_ref()
        .and_then(|status| status.cluster_uid.as_deref());
    match pinned {
        Some(pinned) if pinned != found.as_str() => Err(ClusterError::IdentityMismatch {
            region: region.name_any(),
            pinned: pinned.to_owned(),
            found: found.to_string(),
        }),
        Some(_) | None => Ok(()),
    }
}

async fn identity(reader: &Reader) -> Result<ClusterUid, ClusterError> {
    let path = ResourcePath::collection("v1", None, "namespaces")
        .and_then(|all| all.named("kube-system"))
        .map_err(|refused| ClusterError::Answer {
            who: reader.who().to_owned(),
            because: refused.to_string(),
        })?;
    let found = reader.get_raw(&path).await?;
    found
        .as_ref()
        .and_then(|raw| raw.pointer("/metadata/uid"))
        .and_then(Value::as_str)
        .filter(|uid| !uid.is_empty())
        .map(ClusterUid::new)
        .ok_or_else(|| ClusterError::Answer {
            who: reader.who().to_owned(),
            because: "it has no namespace kube-system, whose uid is the cluster's identity"
                .to_owned(),
        })
}
