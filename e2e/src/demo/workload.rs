//! Takes the shape of a load, gives the Deployment that serves it in every region, and what such a Deployment is at a
//! moment. Must never know which allocator is tried on it.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value gives null for what is absent"
)]

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::fleet::{Fleet, NAMESPACE};

/// A cache server of one shape: a Deployment of two replicas on glibc, the same in every region.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// The Deployment's name and the value of its label `app`.
    pub name: &'static str,
    /// What differs from the workload's own defaults, which are shape Q: variables such as `TRACE_GROUPS`.
    pub shape: &'static [(&'static str, &'static str)],
}

impl Server {
    /// Shape Q without end: glibc wastes most of what it holds, jemalloc little.
    pub const Q: Self = Self {
        name: "trace-server",
        shape: &[],
    };

    /// The objects of one region.
    pub(super) fn manifest(&self) -> String {
        let pairs: Vec<String> = self
            .shape
            .iter()
            .map(|(name, value)| format!("{{name: {name}, value: \"{value}\"}}"))
            .collect();
        let env = if pairs.is_empty() {
            String::new()
        } else {
            format!("\n        env: [{}]", pairs.join(", "))
        };
        let name = self.name;
        format!(
            r#"apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels: {{heapfleet.dev/enabled: "true"}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {NAMESPACE}
  labels: {{app: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
      annotations: {{prometheus.io/scrape: "true", prometheus.io/port: "8080"}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: server
        image: lab.local/trace-server:allocators
        imagePullPolicy: Never{env}
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe:
          httpGet: {{path: /healthz, port: http}}
          periodSeconds: 1
        resources:
          requests: {{cpu: 50m, memory: 256Mi}}
          limits: {{memory: 2Gi}}
"#
        )
    }
}

/// A Deployment as it matters to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.template`.
    pub template: Value,
    /// Name and hash of the ReplicaSet that runs.
    pub replica_set: (String, String),
    /// Annotations but the revision counter.
    pub annotations: BTreeMap<String, String>,
}

impl Workload {
    /// The same template and annotations, run by the same ReplicaSet.
    pub fn is_as_before(&self, region: &str, was: &Self) -> Result<()> {
        ensure!(
            self.template == was.template,
            "{region}: the template is not as before"
        );
        ensure!(
            self.replica_set == was.replica_set,
            "{region}: {:?} runs instead of {:?}",
            self.replica_set,
            was.replica_set
        );
        ensure!(
            self.annotations == was.annotations,
            "{region}: annotations {:?} instead of {:?}",
            self.annotations,
            was.annotations
        );
        Ok(())
    }
}

impl Fleet {
    /// A server in one region as it is now.
    pub fn workload_of(&self, region: &str, server: &str) -> Result<Workload> {
        let get = |args: &[&str]| -> Result<Value> {
            Ok(serde_json::from_str(&self.lab.kubectl_ok(region, args)?)?)
        };
        let object = get(&["-n", NAMESPACE, "get", "deployment", server, "-o", "json"])?;
        let label = format!("app={server}");
        let sets = get(&[
            "-n",
            NAMESPACE,
            "get",
            "replicasets",
            "-l",
            &label,
            "-o",
            "json",
        ])?;
        let running = sets["items"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|set| set["spec"]["replicas"].as_i64().unwrap_or(0) > 0);
        let running = running.context("no ReplicaSet runs")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut annotations: BTreeMap<String, String> =
            serde_json::from_value(object["metadata"]["annotations"].clone()).unwrap_or_default();
        annotations.remove("deployment.kubernetes.io/revision");
        Ok(Workload {
            generation: object["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default(),
            template: object["spec"]["template"].clone(),
            replica_set: (
                text(&running["metadata"]["name"]),
                text(&running["metadata"]["labels"]["pod-template-hash"]),
            ),
            annotations,
        })
    }

    /// A server in every region as it is now.
    pub fn workloads(&self, server: &str) -> Result<BTreeMap<String, Workload>> {
        self.lab
            .regions()
            .into_iter()
            .map(|region| Ok((region.clone(), self.workload_of(&region, server)?)))
            .collect()
    }
}
