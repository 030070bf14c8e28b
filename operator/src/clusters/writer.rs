//! Takes patches, bodies and names, gives what the API server made of them. Cannot list or watch: what to write was
//! decided on what a [`super::Reader`] saw.

use std::sync::Arc;

use http::Method;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::ClusterError;
use super::link::Link;
use super::path::ResourcePath;

/// Writes to one cluster.
#[derive(Clone, Debug)]
pub struct Writer {
    link: Arc<Link>,
}

/// What became of a request to evict a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is on its way out.
    Accepted,
    /// It was gone, or is another pod of that name.
    Gone,
    /// A `PodDisruptionBudget` does not allow it now.
    Blocked,
}

/// What became of a request to delete an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or on its way.
    Accepted,
    /// It was not there.
    Gone,
}

impl Writer {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// The server, as people call it.
    pub fn who(&self) -> &str {
        self.link.gate.who()
    }

    /// Sends a JSON patch (RFC 6902, operations as they are to go over the wire) and gives the object after it.
    /// A `test` that does not hold is [`ClusterError::Moved`].
    pub async fn json_patch<Op: Serialize + Sync>(
        &self,
        path: &ResourcePath,
        operations: &[Op],
        manager: &str,
    ) -> Result<Value, ClusterError> {
        let url = Self::managed(&path.url(), manager);
        self.send(
            Method::PATCH,
            &url,
            "application/json-patch+json",
            &operations,
        )
        .await
    }

    /// Makes an object. That it exists already is [`ClusterError::Exists`].
    pub async fn create<T: Serialize + Sync>(
        &self,
        collection: &ResourcePath,
        body: &T,
        manager: &str,
    ) -> Result<Value, ClusterError> {
        let url = Self::managed(collection.collection_url(), manager);
        self.send(Method::POST, &url, "application/json", body)
            .await
    }

    /// Replaces the status of an object; the body carries the observed `resourceVersion`, so that a status which
    /// somebody else wrote meanwhile is [`ClusterError::Moved`].
    pub async fn replace_status<T: Serialize + Sync>(
        &self,
        path: &ResourcePath,
        body: &T,
        manager: &str,
    ) -> Result<Value, ClusterError> {
        let url = Self::managed(&format!("{}/status", path.url()), manager);
        self.send(Method::PUT, &url, "application/json", body).await
    }

    /// Deletes an object; with `uid`, only the one of that uid.
    pub async fn delete(
        &self,
        path: &ResourcePath,
        uid: Option<&str>,
    ) -> Result<Deleted, ClusterError> {
        let mut body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if let (Some(uid), Some(options)) = (uid, body.as_object_mut()) {
            options.insert("preconditions".to_owned(), json!({"uid": uid}));
        }
        match self
            .send::<_, Value>(Method::DELETE, &path.url(), "application/json", &body)
            .await
        {
            Ok(_) => Ok(Deleted::Accepted),
            Err(ClusterError::NotFound { .. }) => Ok(Deleted::Gone),
            Err(other) => Err(other),
        }
    }

    /// Asks for the eviction of the pod with this name and uid; the API server obeys `PodDisruptionBudgets`.
    pub async fn evict(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
    ) -> Result<Evicted, ClusterError> {
        let path = ResourcePath::pods(namespace)
            .and_then(|pods| pods.named(pod))
            .map_err(|refused| self.unfit(&refused))?;
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let url = format!("{}/eviction", path.url());
        match self
            .send::<_, Value>(Method::POST, &url, "application/json", &body)
            .await
        {
            Ok(_) => Ok(Evicted::Accepted),
            Err(ClusterError::NotFound { .. } | ClusterError::Moved { .. }) => Ok(Evicted::Gone),
            Err(ClusterError::Throttled { .. }) => Ok(Evicted::Blocked),
            Err(other) => Err(other),
        }
    }

    /// Unknown fields are refused, not dropped: a typing error of ours must not look like a success.
    fn managed(url: &str, manager: &str) -> String {
        let sound: String = manager
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
            .take(64)
            .collect();
        format!("{url}?fieldManager={sound}&fieldValidation=Strict")
    }

    async fn send<T: Serialize + ?Sized, R: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        url: &str,
        content_type: &str,
        body: &T,
    ) -> Result<R, ClusterError> {
        let bytes = serde_json::to_vec(body).map_err(|error| self.unfit(&error))?;
        let request = http::Request::builder()
            .method(method)
            .uri(url)
            .header(CONTENT_TYPE, content_type)
            .body(bytes)
            .map_err(|error| self.unfit(&error))?;
        self.link.gate.pass(self.link.client.request(request)).await
    }

    fn unfit(&self, error: &dyn std::fmt::Display) -> ClusterError {
        ClusterError::Rejected {
            who: self.who().to_owned(),
            code: 0,
            message: format!("the request could not be built: {error}"),
        }
    }
}
