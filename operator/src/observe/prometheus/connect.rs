//! Takes regions, gives the one client of each region's Prometheus; made anew when the region or a Secret that it names
//! changes. Never sends a credential in the open or to where a redirect points.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use heapfleet_crds::{AllocatorRegion, PrometheusAccess, PrometheusAuth, SecretKeyRef};
use kube::ResourceExt as _;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::client::{Limits, Prometheus};
use super::error::PrometheusError;
use crate::clusters::{Refused, SecretValue, Secrets};

/// How old a look at the Secrets may be.
const RECHECK: Duration = Duration::from_secs(10);

/// The Prometheus of every region.
#[derive(Debug)]
pub struct Prometheuses {
    secrets: Secrets,
    limits: Limits,
    entries: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Entry>>>>,
}

#[derive(Debug, Default)]
struct Entry {
    spec: String,
    versions: String,
    checked: Option<Instant>,
    client: Option<Arc<Prometheus>>,
}

impl Prometheuses {
    /// A registry whose Secrets are read through `secrets`.
    pub fn new(secrets: Secrets, limits: Limits) -> Self {
        Self { secrets, limits, entries: Mutex::default() }
    }

    /// The Prometheus of a region. Nothing is asked of it yet.
    pub async fn of(&self, region: &AllocatorRegion) -> Result<Arc<Prometheus>, PrometheusError> {
        let name = region.name_any();
        let entry = {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(name.clone()).or_default())
        };
        let access = &region.spec.prometheus;
        let spec = serde_json::to_string(access).unwrap_or_default();
        let mut entry = entry.lock().await;
        let fresh = entry.checked.is_some_and(|at| at.elapsed() < RECHECK) && entry.spec == spec;
        if let (Some(client), true) = (&entry.client, fresh) {
            return Ok(Arc::clone(client));
        }
        let secret = read(&name, access, &self.secrets).await?;
        let versions = secret.versions();
        let client = match &entry.client {
            Some(client) if entry.spec == spec && entry.versions == versions => Arc::clone(client),
            Some(_) | None => {
                let http = http_client(access, &secret, self.limits)
                    .map_err(|refused| PrometheusError::Refused { region: name.clone(), refused })?;
                let who = format!("Prometheus of region {name}");
                Arc::new(Prometheus::new(who, http, &access.url, self.limits)?)
            }
        };
        *entry = Entry { spec, versions, checked: Some(Instant::now()), client: Some(Arc::clone(&client)) };
        Ok(client)
    }

    /// Drops the clients of regions that are not among `names` any more.
    pub fn retain(&self, names: &std::collections::BTreeSet<String>) {
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
        let basic = self.basic.iter().flat_map(|(user, password)| [user, password]);
        let headers = self.headers.iter().map(|(_, value)| value);
        let all = self.ca.iter().chain(&self.bearer).chain(basic).chain(headers);
        all.map(|value| format!("{} {};", value.origin(), value.version())).collect()
    }
}

async fn read(
    region: &str,
    access: &PrometheusAccess,
    secrets: &Secrets,
) -> Result<Secret, PrometheusError> {
    let value = async |field: &str, reference: &SecretKeyRef| {
        secrets.value(region, field, reference).await.map_err(PrometheusError::Secret)
    };
    let mut out = Secret::default();
    if let Some(reference) = &access.ca_secret_ref {
        out.ca = Some(value("spec.prometheus.caSecretRef", reference).await?);
    }
    let Some(auth) = &access.auth else { return Ok(out) };
    if let Some(reference) = &auth.bearer_token_secret_ref {
        out.bearer = Some(value("spec.prometheus.auth.bearerTokenSecretRef", reference).await?);
    }
    if let Some(basic) = &auth.basic {
        let user = value("spec.prometheus.auth.basic.usernameSecretRef", &basic.username_secret_ref);
        let user = user.await?;
        let password =
            value("spec.prometheus.auth.basic.passwordSecretRef", &basic.password_secret_ref).await?;
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
    limits: Limits,
) -> Result<reqwest::Client, Refused> {
    let encrypted = access.url.starts_with("https://");
    let builder = reqwest::Client::builder()
        .timeout(limits.deadline)
        .connect_timeout(limits.deadline)
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
    let open = auth.into_iter().flat_map(|auth| &auth.headers).filter_map(|header| {
        Some((header.name.as_str(), header.value.as_ref()?.as_str(), "spec.prometheus.auth.headers"))
    });
    for (name, value, origin) in open {
        out.insert(header_name(name)?, header_value(value, origin)?);
    }
    for (name, held) in &secret.headers {
        out.insert(header_name(name)?, header_value(held.text()?, held.origin())?);
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
        Refused::new(origin, "set", "it cannot be sent in a header", "use one line of plain characters")
    })?;
    header.set_sensitive(true);
    Ok(header)
}
