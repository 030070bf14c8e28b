//! Takes names of objects, gives paths of the Kubernetes API. Never lets a name change the path's shape.

use heapfleet_core::names::{Kind, WorkloadId};

use super::error::Refused;

/// The path of a collection or of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    collection: String,
    name: Option<String>,
}

impl ResourcePath {
    /// A collection: `api` is `v1` or `group/version`, `plural` the resource, `namespace` none for cluster scope.
    pub fn collection(api: &str, namespace: Option<&str>, plural: &str) -> Result<Self, Refused> {
        let root = if api.contains('/') { "apis" } else { "api" };
        for part in api.split('/').chain([plural]) {
            check(part)?;
        }
        let collection = match namespace {
            Some(namespace) => {
                check(namespace)?;
                format!("/{root}/{api}/namespaces/{namespace}/{plural}")
            }
            None => format!("/{root}/{api}/{plural}"),
        };
        Ok(Self {
            collection,
            name: None,
        })
    }

    /// One object of this collection.
    pub fn named(&self, name: &str) -> Result<Self, Refused> {
        check(name)?;
        Ok(Self {
            collection: self.collection.clone(),
            name: Some(name.to_owned()),
        })
    }

    /// A workload.
    pub fn workload(namespace: &str, id: &WorkloadId) -> Result<Self, Refused> {
        Self::workloads(namespace, id.kind)?.named(&id.name)
    }

    /// The workloads of one kind.
    pub fn workloads(namespace: &str, kind: Kind) -> Result<Self, Refused> {
        let plural = match kind {
            Kind::Deployment => "deployments",
            Kind::StatefulSet => "statefulsets",
            Kind::DaemonSet => "daemonsets",
        };
        Self::collection("apps/v1", Some(namespace), plural)
    }

    /// The pods of a namespace.
    pub fn pods(namespace: &str) -> Result<Self, Refused> {
        Self::collection("v1", Some(namespace), "pods")
    }

    /// The controller revisions of a namespace; journals are among them.
    pub fn revisions(namespace: &str) -> Result<Self, Refused> {
        Self::collection("apps/v1", Some(namespace), "controllerrevisions")
    }

    /// The name of the object, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// As the API takes it.
    pub fn url(&self) -> String {
        match &self.name {
            Some(name) => format!("{}/{name}", self.collection),
            None => self.collection.clone(),
        }
    }

    /// The path of the collection.
    pub fn collection_url(&self) -> &str {
        &self.collection
    }
}

/// Kubernetes names are DNS names (RBAC's also hold `:`); nothing else may come into a path.
fn check(part: &str) -> Result<(), Refused> {
    let sound = !part.is_empty()
        && part.len() <= 253
        && part != ".."
        && part != "."
        && part
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':'));
    if sound {
        Ok(())
    } else {
        Err(Refused::new(
            "name",
            format!("{:?}", part.chars().take(64).collect::<String>()),
            "it is not the name of a Kubernetes object",
            "use lower case letters, digits, '-' and '.'",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let id = WorkloadId {
            kind: Kind::Deployment,
            name: "trace-server".to_owned(),
        };
        assert_eq!(
            ResourcePath::workload("trace", &id).unwrap().url(),
            "/apis/apps/v1/namespaces/trace/deployments/trace-server"
        );
        assert_eq!(
            ResourcePath::pods("trace").unwrap().url(),
            "/api/v1/namespaces/trace/pods"
        );
        assert_eq!(
            ResourcePath::collection("v1", None, "nodes").unwrap().url(),
            "/api/v1/nodes"
        );
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for bad in ["", "..", "a/b", "a?b", "a%2fb", "a b", "a#b"] {
            assert!(ResourcePath::pods(bad).is_err(), "{bad}");
            assert!(
                ResourcePath::pods("trace").unwrap().named(bad).is_err(),
                "{bad}"
            );
        }
    }
}
