//! Takes a fleet, gives the operator's process; must never end a process of another container.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};

use super::fleet::{Fleet, HUB};
use crate::lab::{child, wait};

impl Fleet {
    /// Ends the operator's process with SIGKILL, as a node that runs out of memory would, and waits for its successor.
    pub fn kill_operator(&self) -> Result<()> {
        let before = self
            .operator_process()?
            .context("the operator does not run")?;
        before.kill();
        wait::until(
            "the operator to be started again",
            Duration::from_mins(1),
            None,
            || {
                Ok(match self.operator_process()? {
                    Some(now) if now != before => wait::Look::Done(()),
                    Some(_) | None => wait::Look::Again("no new process yet".to_owned()),
                })
            },
        )
    }

    /// What the operator says of itself at `/metrics`, through the API server.
    pub fn operator_metrics(&self) -> Result<String> {
        let pod = self.operator_pod("name")?;
        let path = format!(
            "/api/v1/namespaces/heapfleet-system/pods/{}:8080/proxy/metrics",
            pod.trim()
        );
        self.lab.kubectl_ok(HUB, &["get", "--raw", &path])
    }

    /// A field of the metadata of the operator's pods.
    fn operator_pod(&self, field: &str) -> Result<String> {
        let path = format!("jsonpath={{.items[*].metadata.{field}}}");
        let label = "app.kubernetes.io/component=operator";
        let args = [
            "-n",
            "heapfleet-system",
            "get",
            "pods",
            "-l",
            label,
            "-o",
            &path,
        ];
        self.lab.kubectl_ok(HUB, &args)
    }

    fn operator_process(&self) -> Result<Option<child::Ident>> {
        let uid = self.operator_pod("uid")?;
        let uid = uid.trim();
        let mut found = child::pids().into_iter().filter(|pid| {
            let proc = Path::new("/proc").join(pid.to_string());
            let text = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
            !uid.is_empty()
                && text("cmdline")
                    .replace('\0', " ")
                    .starts_with("/heapfleet run")
                && text("cgroup").contains(uid)
        });
        Ok(found.find_map(child::Ident::of))
    }
}
