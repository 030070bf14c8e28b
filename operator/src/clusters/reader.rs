//! Takes paths, gives what the API server holds now (most recent, never from a cache). Has no way to write.

use std::sync::Arc;

use kube::api::ListParams;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ClusterError;
use super::link::Link;
use super::path::ResourcePath;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Objects of one list at most; a namespace with more is not what this operator is for.
const MOST: usize = 20_000;

/// Reads of one cluster.
#[derive(Clone, Debug)]
pub struct Reader {
    link: Arc<Link>,
}

/// One page of a list, as raw objects.
#[derive(serde::Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Vec<Value>,
}

#[derive(Default, serde::Deserialize)]
struct PageMeta {
    #[serde(rename = "continue", default)]
    next: Option<String>,
}

impl Reader {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// The server, as people call it.
    pub fn who(&self) -> &str {
        self.link.gate.who()
    }

    /// One object as it stands in the API, or `None` if there is none.
    pub async fn get_raw(&self, path: &ResourcePath) -> Result<Option<Value>, ClusterError> {
        match self.raw(&path.url()).await {
            Ok(value) => Ok(Some(value)),
            Err(ClusterError::NotFound { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// One object, or `None` if there is none.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &ResourcePath,
    ) -> Result<Option<T>, ClusterError> {
        match self.get_raw(path).await? {
            Some(raw) => self.decode(raw).map(Some),
            None => Ok(None),
        }
    }

    /// All objects of a collection that a label selector (in its text form) matches, as they stand in the API.
    pub async fn list_raw(
        &self,
        path: &ResourcePath,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, ClusterError> {
        let mut all = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = selector.map(str::to_owned);
        loop {
            let request = kube::core::Request::new(path.collection_url())
                .list(&params)
                .map_err(|error| self.unfit(&error))?;
            let page: Page = self
                .link
                .gate
                .pass(self.link.client.request(request))
                .await?;
            all.extend(page.items);
            if all.len() > MOST {
                return Err(ClusterError::Answer {
                    who: self.who().to_owned(),
                    because: format!("more than {MOST} objects in one list"),
                });
            }
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// All objects of a collection that a label selector (in its text form) matches.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &ResourcePath,
        selector: Option<&str>,
    ) -> Result<Vec<T>, ClusterError> {
        let raw = self.list_raw(path, selector).await?;
        raw.into_iter().map(|item| self.decode(item)).collect()
    }

    /// Whatever a GET of this path answers, as `/version`.
    pub async fn raw(&self, url: &str) -> Result<Value, ClusterError> {
        let request = http::Request::get(url)
            .body(Vec::new())
            .map_err(|error| self.unfit(&error))?;
        self.link.gate.pass(self.link.client.request(request)).await
    }

    fn decode<T: DeserializeOwned>(&self, raw: Value) -> Result<T, ClusterError> {
        let name = raw
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .map_or_else(|| "an object".to_owned(), str::to_owned);
        serde_json::from_value(raw).map_err(|error| ClusterError::Answer {
            who: self.who().to_owned(),
            because: format!("{name} cannot be read as it stands: {error}"),
        })
    }

    fn unfit(&self, error: &dyn std::fmt::Display) -> ClusterError {
        ClusterError::Answer {
            who: self.who().to_owned(),
            because: format!("the request could not be built: {error}"),
        }
    }
}
