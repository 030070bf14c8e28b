//! Takes nothing, gives three regions with Heapfleet installed from `manifests/` and the workload running in each.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};

use super::build;
use super::workload::Server;
use crate::lab::{Config, Lab, Progress, static_image, trace_images, wait};

/// The namespace of workload and policy, in every region.
pub const NAMESPACE: &str = "trace";
/// The region whose cluster is also the hub.
pub(super) const HUB: &str = "fra";
/// Name of the operator's image in the lab; `manifests/` name the same.
const IMAGE: &str = "heapfleet.local/heapfleet:dev";
/// The class of glibc itself, set up by environment alone.
const GLIBC: &str = r#"apiVersion: heapfleet.dev/v1alpha1
kind: AllocatorClass
metadata: {name: glibc}
spec:
  allocator: glibc
  version: "2.36"
  delivery: Tunables
  platforms: [{arch: amd64, libc: glibc, minLibc: "2.34", maxPageSize: 4Ki}]
  options: {allowed: [glibc.malloc.mxfast]}
  verify: {by: Probe}
"#;

/// A fleet under Heapfleet.
#[derive(Debug)]
pub struct Fleet {
    /// The clusters.
    pub lab: Lab,
    /// What is told meanwhile.
    pub progress: Progress,
    manifests: PathBuf,
    generated: PathBuf,
}

impl Fleet {
    /// Builds the programs, starts the clusters, installs the operator, the probe, the rights, the regions, the classes
    /// and the servers, and waits until all of it is ready.
    pub fn up(mut config: Config, servers: &[Server]) -> Result<Self> {
        let progress = config.progress;
        let programs = build::programs(progress)?;
        let [_, full] = trace_images(&programs.trace_server)?;
        let operator = static_image(IMAGE, &programs.heapfleet, &[])?;
        config.images.extend([full, operator]);
        let lab = Lab::up(&config)?;
        let root = build::workspace()?;
        let fleet = Self {
            lab,
            progress,
            manifests: root.join("manifests"),
            generated: root.join("crds/generated"),
        };
        progress.during("installing Heapfleet", || fleet.install())?;
        progress.during("starting the workload in every region", || {
            fleet.serve(servers)
        })?;
        Ok(fleet)
    }

    fn read(&self, name: &str) -> Result<String> {
        let file = self.manifests.join(name);
        fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    }

    fn install(&self) -> Result<()> {
        let generated = self.generated.display().to_string();
        self.lab.kubectl_ok(HUB, &["apply", "-f", &generated])?;
        self.lab.kubectl_ok(
            HUB,
            &[
                "wait",
                "--for=condition=Established",
                "--timeout=30s",
                "-f",
                &generated,
            ],
        )?;
        self.lab.apply(HUB, &self.read("install.yaml")?)?;
        for region in self.lab.regions() {
            self.install_region(&region)?;
        }
        self.regions_and_classes()?;
        self.rolled_out(HUB, "deployment/heapfleet")?;
        for region in self.lab.regions() {
            self.rolled_out(&region, "daemonset/heapfleet-probe")?;
        }
        Ok(())
    }

    fn rolled_out(&self, region: &str, what: &str) -> Result<()> {
        let args = [
            "-n",
            "heapfleet-system",
            "rollout",
            "status",
            what,
            "--timeout=120s",
        ];
        let output = self
            .lab
            .kubectl_with(region, &args, None, Duration::from_secs(150))?;
        if output.status.success() {
            return Ok(());
        }
        let pods = self
            .lab
            .kubectl_ok(region, &["-n", "heapfleet-system", "describe", "pods"])?;
        anyhow::bail!("{what} in {region} did not become ready:\n{pods}")
    }

    /// The hub's rights and the probe in one region.
    fn install_region(&self, region: &str) -> Result<()> {
        if region != HUB {
            self.lab.apply(region, &self.read("member.yaml")?)?;
        }
        // The lab's container runtime keeps its state elsewhere than a node's does.
        let tasks = "io.containerd.runtime.v2.task/k8s.io";
        let here = self
            .lab
            .region(region)?
            .path("containerd/state")
            .join(tasks);
        let probe = self.read("probe.yaml")?.replace(
            &format!("path: /run/containerd/{tasks}"),
            &format!("path: {}", here.display()),
        );
        self.lab.apply(region, &probe)?;
        Ok(())
    }

    /// What the hub is told of the fleet: regions with least-rights credentials, and the classes.
    fn regions_and_classes(&self) -> Result<()> {
        for region in self.lab.regions() {
            let cluster = if region == HUB {
                "local: {}".to_owned()
            } else {
                self.credentials(&region)?;
                format!("kubeconfigSecretRef: {{name: region-{region}, key: kubeconfig}}")
            };
            let url = self.lab.prometheus_inner_url(&region)?;
            self.lab.apply(HUB, &format!(
                "apiVersion: heapfleet.dev/v1alpha1\nkind: AllocatorRegion\nmetadata: {{name: {region}}}\nspec:\n  cluster:\n    {cluster}\n  \
                 namespaceSelector: {{matchLabels: {{heapfleet.dev/enabled: \"true\"}}}}\n  prometheus: {{url: \"{url}\", matchers: {{region: {region}}}}}\n"
            ))?;
        }
        for (class, allocator, version, path, options) in [
            (
                "jemalloc",
                "jemalloc",
                "5.3.0",
                "libjemalloc.so.2",
                "[background_thread, dirty_decay_ms, thp]",
            ),
            ("mimalloc", "mimalloc", "2.0.9", "libmimalloc.so.2", "[]"),
            (
                "absent",
                "jemalloc",
                "5.3.0",
                "/opt/absent/libjemalloc.so.2",
                "[]",
            ),
        ] {
            self.lab.apply(HUB, &format!(
                "apiVersion: heapfleet.dev/v1alpha1\nkind: AllocatorClass\nmetadata: {{name: {class}}}\nspec:\n  allocator: {allocator}\n  version: {version}\n  \
                 delivery: Preload\n  preload: {{library: {{source: InImage, path: {path}}}}}\n  platforms: [{{arch: amd64, libc: glibc, minLibc: \"2.34\", maxPageSize: 4Ki}}]\n  \
                 verify: {{by: Probe}}\n  options: {{allowed: {options}}}\n"
            ))?;
        }
        self.lab.apply(HUB, GLIBC)?;
        Ok(())
    }

    fn credentials(&self, region: &str) -> Result<()> {
        let token = self.lab.kubectl_ok(
            region,
            &[
                "-n",
                "heapfleet-system",
                "create",
                "token",
                "heapfleet-hub",
                "--duration=24h",
            ],
        )?;
        let kubeconfig = self
            .lab
            .inner_kubeconfig(region, "heapfleet-hub", token.trim())?;
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("region-{region}"), "namespace": "heapfleet-system"},
            "stringData": {"kubeconfig": kubeconfig},
        });
        self.lab.apply(HUB, &secret.to_string())?;
        Ok(())
    }

    fn serve(&self, servers: &[Server]) -> Result<()> {
        for region in self.lab.regions() {
            for server in servers {
                self.lab.apply(&region, &server.manifest())?;
            }
        }
        for region in self.lab.regions() {
            for server in servers {
                let deployment = format!("deployment/{}", server.name);
                let args = [
                    "-n",
                    NAMESPACE,
                    "rollout",
                    "status",
                    &deployment,
                    "--timeout=60s",
                ];
                self.lab.kubectl_ok(&region, &args)?;
            }
        }
        Ok(())
    }

    /// Waits until every pod of a server is as old as a baseline, so that a story begins with a steady fleet.
    pub fn steady(&self, server: &str) -> Result<()> {
        let label = format!("app={server}");
        let old = Duration::from_secs(70);
        self.progress
            .during("waiting until every pod has run for a baseline", || {
                wait::until(
                    "every pod to be 70 s old",
                    Duration::from_mins(3),
                    None,
                    || {
                        for region in self.lab.regions() {
                            let args = [
                                "-n",
                                NAMESPACE,
                                "get",
                                "pods",
                                "-l",
                                &label,
                                "-o",
                                "jsonpath={.items[*].status.startTime}",
                            ];
                            let starts = self.lab.kubectl_ok(&region, &args)?;
                            let young = starts
                                .split_whitespace()
                                .any(|start| age(start).is_none_or(|age| age < old));
                            if young || starts.trim().is_empty() {
                                return Ok(wait::Look::Again(format!(
                                    "{region} has pods that started at {starts}"
                                )));
                            }
                        }
                        Ok(wait::Look::Done(()))
                    },
                )
            })
    }

    /// Waits until the operator has written a status for every region, so that a story begins with all of them ready.
    pub fn regions_ready(&self) -> Result<()> {
        wait::until(
            "every AllocatorRegion to be Ready",
            Duration::from_mins(1),
            None,
            || {
                let args = [
                    "wait",
                    "--for=condition=Ready",
                    "--timeout=1s",
                    "areg",
                    "--all",
                ];
                let output = self.lab.kubectl(HUB, &args)?;
                Ok(if output.status.success() {
                    wait::Look::Done(())
                } else {
                    wait::Look::Again(String::from_utf8_lossy(&output.stderr).into_owned())
                })
            },
        )
    }
}

/// How long ago an instant such as `2026-11-30T12:00:00Z` was.
fn age(start: &str) -> Option<Duration> {
    let start: jiff::Timestamp = start.parse().ok()?;
    jiff::Timestamp::now().duration_since(start).try_into().ok()
}
