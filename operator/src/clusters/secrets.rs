//! Takes names of Secrets in the operator's own namespace, gives their data as of now. Never lists or watches them, and
//! never shows a value.

use k8s_openapi::api::core::v1::Secret;

use super::error::{ClusterError, Refused};
use super::path::ResourcePath;
use super::reader::Reader;
use heapfleet_crds::SecretKeyRef;

/// The Secrets that regions may name.
#[derive(Clone, Debug)]
pub struct Secrets {
    hub: Reader,
    namespace: String,
}

/// A value out of a Secret. Its text form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    bytes: Vec<u8>,
    version: String,
    origin: String,
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretValue")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl SecretValue {
    /// The value.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value as text without white space around it, as editors and `echo` leave it there.
    pub fn text(&self) -> Result<&str, Refused> {
        let text = std::str::from_utf8(&self.bytes)
            .map(str::trim)
            .unwrap_or_default();
        if text.is_empty() {
            return Err(Refused::new(
                &self.origin,
                "set",
                "it is empty or not text",
                "put the value there as plain text",
            ));
        }
        Ok(text)
    }

    /// `uid/resourceVersion` of the Secret: another one means that it was written again.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Secrets {
    /// Secrets of `namespace`, read through the hub.
    pub fn new(hub: Reader, namespace: impl Into<String>) -> Self {
        Self {
            hub,
            namespace: namespace.into(),
        }
    }

    /// The value that `reference` names; `field` says where the reference stands and `region` in which region.
    pub async fn value(
        &self,
        region: &str,
        field: &str,
        reference: &SecretKeyRef,
    ) -> Result<SecretValue, ClusterError> {
        let (name, key) = (reference.name.as_str(), reference.key.as_str());
        let refuse = |value: String, problem: &str, remedy: String| ClusterError::Refused {
            region: region.to_owned(),
            refused: Refused::new(field, value, problem, remedy),
        };
        let path = ResourcePath::collection("v1", Some(&self.namespace), "secrets")
            .and_then(|all| all.named(name))
            .map_err(|refused| ClusterError::Refused {
                region: region.to_owned(),
                refused,
            })?;
        let secret: Secret = self.hub.get(&path).await?.ok_or_else(|| {
            refuse(
                name.to_owned(),
                "there is no such Secret",
                format!("create it in namespace {}", self.namespace),
            )
        })?;
        let version = format!(
            "{}/{}",
            secret.metadata.uid.as_deref().unwrap_or_default(),
            secret
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default(),
        );
        let bytes = secret
            .data
            .unwrap_or_default()
            .remove(key)
            .map(|value| value.0);
        let bytes = bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
            refuse(
                format!("{name}, key {key}"),
                "the Secret has no such key, or nothing in it",
                format!(
                    "put the value under {key} in Secret {}/{name}",
                    self.namespace
                ),
            )
        })?;
        Ok(SecretValue {
            bytes,
            version,
            origin: format!("Secret {}/{name}, key {key}", self.namespace),
        })
    }
}
