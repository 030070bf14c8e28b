//! Takes regions, gives the one client of each region's Prometheus; made anew when the region or a Secret that it names
//! changes. Never sends a credential in the open or to where a redirect points.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use heapfleet_crds::{AllocatorRegion, PrometheusAccess, PrometheusAuth, SecretKeyRef};
use kube::ResourceExt as _;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use super::error::{ClusterError, Refused};
use super::link::{Limits, connect_timeout};
use super::secrets::{SecretValue, Secrets};

/// Queries in flight to one Prometheus.
const IN_FLIGHT: usize = 4;

/// The way to the Prometheus of one region.
pub struct PrometheusLink {
    /// How people call it.
    pub who: String,
    /// The region.
    pub region: String,
    /// Its address, without `/api/v1`.
    pub url: String,
    /// A client with credentials, authorities and timeouts of this Prometheus alone.
    pub http: reqwest::Client,
    /// So many queries may be in flight.
    pub slots: Semaphore,
    /// How long one query may take.
    pub deadline: Duration,
}

// The client may hold credentials.
impl std::fmt::Debug for PrometheusLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrometheusLink")
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

/// The ways to the Prometheus of every region.
#[derive(Debug)]
pub(super) struct Prometheuses {
    secrets: Secrets,
    limits: Limits,
    entries: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Entry>>>>,
}

#[derive(Debug, Default)]
struct Entry {
    spec: String,
    versions: String,
    checked: Option<Instant>,
    link: Option<Arc<PrometheusLink>>,
}

impl Prometheuses {
    /// A registry whose Secrets are read through `secrets`.
    pub(super) fn new(secrets: Secrets, limits: Limits) -> Self {
        Self {
            secrets,
            limits,
            entries: Mutex::default(),
        }
    }

    /// The Prometheus of a region. Nothing is asked of it yet.
    pub(super) async fn of(
        &self,
        region: &AllocatorRegion,
    ) -> Result<Arc<PrometheusLink>, ClusterError> {
        let name = region.name_any();
        let entry = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(name.clone()).or_default())
        };
        let access = &region.spec.prometheus;
        let spec = serde_json::to_string(access).unwrap_or_default();
        let mut entry = entry.lock().await;
        let fresh = entry
            .checked
            .is_some_and(|at| at.elapsed() < self.limits.recheck)
            && entry.spec == spec;
        if let (Some(link), true) = (&entry.link, fresh) {
            return Ok(Arc::clone(link));
        }
        let secret = read(&name, access, &self.secrets).await?;
        let versions = secret.versions();
        let link = match &entry.link {
            Some(link) if entry.spec == spec && entry.versions == versions => Arc::clone(link),
            Some(_) | None => Arc::new(PrometheusLink {
                who: format!("Prometheus of region {name}"),
                url: access.url.clone(),
                http: http_client(access, &secret, self.limits.deadline).map_err(|refused| {
                    ClusterError::Refused {
                        region: name.clone(),
                        refused,
                    }
                })?,
                region: name,
                slots: Semaphore::new(IN_FLIGHT),
                deadline: self.limits.deadline,
            }),
        };
        *entry = Entry {
            spec,
            versions,
            checked: Some(Instant::now()),
            link: Some(Arc::clone(&link)),
        };
        Ok(link)
    }

    /// Drops the clients of regions that are not among `names` any more.
    pub(super) fn retain(&self, names: &BTreeSet<String>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|name, _| names.contains(name));
    }
}

/// The values that a region's Secrets hold.
#[derive(Default)]
struct Secret {
    ca: Option<SecretValue>,
    bearer: Option<SecretValue>,
    basic: Option<(SecretValue, SecretValue)>,
    headers: Vec<(String, SecretValue)>,
}

impl Secret {
    fn versions(&self) -> String {
        let basic = self
            .basic
            .iter()
            .flat_map(|(user, password)| [user, password]);
        let headers = self.headers.iter().map(|(_, value)| value);
        let all = self
            .ca
            .iter()
            .chain(&self.bearer)
            .chain(basic)
            .chain(headers);
        let versions: Vec<String> = all
            .map(|value| format!("{} {}", value.origin(), value.version()))
            .collect();
        versions.join(";")
    }
}

async fn read(
    region: &str,
    access: &PrometheusAccess,
    secrets: &Secrets,
) -> Result<Secret, ClusterError> {
    let value =
        async |field: &str, reference: &SecretKeyRef| secrets.value(region, field, reference).await;
    let mut out = Secret::default();
    if let Some(reference) = &access.ca_secret_ref {
        out.ca = Some(value("spec.prometheus.caSecretRef", reference).await?);
    }
    let Some(auth) = &access.auth else {
        return Ok(out);
    };
    if let Some(reference) = &auth.bearer_token_secret_ref {
        out.bearer = Some(value("spec.prometheus.auth.bearerTokenSecretRef", reference).await?);
    }
    if let Some(basic) = &auth.basic {
        let user = value(
            "spec.prometheus.auth.basic.usernameSecretRef",
            &basic.username_secret_ref,
        );
        let user = user.await?;
        let password = value(
            "spec.prometheus.auth.basic.passwordSecretRef",
            &basic.password_secret_ref,
        )
        .await?;
        out.basic = Some((user, password));
    }
    for header in &auth.headers {
        if let Some(reference) = &header.value_secret_ref {
            let held = value("spec.prometheus.auth.headers", reference).await?;
            out.headers.push((header.name.clone(), held));
        }
    }
    Ok(out)
}

fn http_client(
    access: &PrometheusAccess,
    secret: &Secret,
    deadline: Duration,
) -> Result<reqwest::Client, Refused> {
    let encrypted = access.url.starts_with("https://");
    let builder = reqwest::Client::builder()
        // The deadline itself is held where the query is made; this one only catches what would slip through.
        .timeout(deadline.saturating_mul(2))
        .connect_timeout(connect_timeout(deadline))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .https_only(encrypted)
        .default_headers(headers(access.auth.as_ref(), secret, encrypted)?);
    let builder = match &secret.ca {
        Some(ca) => {
            let authorities = reqwest::Certificate::from_pem_bundle(ca.bytes());
            let authorities = authorities.ok().filter(|all| !all.is_empty()).ok_or_else(|| {
                Refused::new(
                    ca.origin(),
                    "set",
                    "it holds no certificate in PEM form",
                    "put the text from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE----- there",
                )
            })?;
            builder.tls_certs_only(authorities)
        }
        // Without TLS nothing is verified; asking for the system's authorities would fail in an image that has none.
        None if !encrypted => builder.tls_certs_only([]),
        None => builder,
    };
    builder.build().map_err(|_| {
        Refused::new(
            "spec.prometheus.url",
            access.url.clone(),
            "there are no certificate authorities in the operator's image to verify it by",
            "name its authority in spec.prometheus.caSecretRef",
        )
    })
}

fn headers(
    auth: Option<&PrometheusAuth>,
    secret: &Secret,
    encrypted: bool,
) -> Result<HeaderMap, Refused> {
    let mut out = HeaderMap::new();
    let authorization = match (&secret.bearer, &secret.basic) {
        (Some(bearer), _) => Some((bearer, format!("Bearer {}", bearer.text()?))),
        (None, Some((user, password))) => {
            let pair = format!("{}:{}", user.text()?, password.text()?);
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            Some((password, format!("Basic {encoded}")))
        }
        (None, None) => None,
    };
    if let Some((from, value)) = authorization {
        if !encrypted {
            return Err(Refused::new(
                "spec.prometheus.url",
                "not https",
                "a credential would be sent in the open",
                "use https, or remove spec.prometheus.auth",
            ));
        }
        out.insert(AUTHORIZATION, header_value(&value, from.origin())?);
    }
    let open = auth
        .into_iter()
        .flat_map(|auth| &auth.headers)
        .filter_map(|header| {
            Some((
                header.name.as_str(),
                header.value.as_ref()?.as_str(),
                "spec.prometheus.auth.headers",
            ))
        });
    for (name, value, origin) in open {
        out.insert(header_name(name)?, header_value(value, origin)?);
    }
    for (name, held) in &secret.headers {
        out.insert(
            header_name(name)?,
            header_value(held.text()?, held.origin())?,
        );
    }
    Ok(out)
}

fn header_name(name: &str) -> Result<HeaderName, Refused> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        Refused::new(
            "spec.prometheus.auth.headers",
            format!("{name:?}"),
            "it is not the name of a header",
            "use letters, digits and '-'",
        )
    })
}

fn header_value(value: &str, origin: &str) -> Result<HeaderValue, Refused> {
    let mut header = HeaderValue::from_str(value).map_err(|_| {
        Refused::new(
            origin,
            "set",
            "it cannot be sent in a header",
            "use one line of plain characters",
        )
    })?;
    header.set_sensitive(true);
    Ok(header)
}
