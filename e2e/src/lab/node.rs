//! Takes a region whose API server is up, gives it a node: containerd, kubelet, kube-proxy; must never let a kubelet
//! use the machine's own cgroups, logs or runtime.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{
    child, kubectl,
    netns::in_region,
    state::{Daemon, Region},
    tools::{Tools, need},
    wait,
};

/// Name of the sandbox image.
pub(super) const PAUSE_IMAGE: &str = "lab.local/pause:1";
/// How long the import of one image may take.
const IMPORT: Duration = Duration::from_mins(2);

fn socket(region: &Region) -> PathBuf {
    region.path("containerd.sock")
}

/// Writes the configuration of the node's programs.
pub(super) fn prepare(region: &Region) -> Result<()> {
    for dir in [
        "cni",
        "kubelet",
        "containerd",
        "podlogs",
        "certs/kubelet-own",
    ] {
        fs::create_dir_all(region.path(dir))?;
    }
    // The longest path of a Unix socket.
    let length = socket(region).as_os_str().len();
    ensure!(
        length < 108,
        "the state folder's path is too long for a socket: {}",
        socket(region).display()
    );
    fs::write(region.path("containerd.toml"), containerd_config(region)?)?;
    fs::write(region.path("cni/10-lab.conflist"), cni_config(region))?;
    fs::write(region.path("kubelet.yaml"), kubelet_config(region))?;
    fs::write(region.path("kube-proxy.yaml"), kube_proxy_config(region))?;
    Ok(())
}

fn containerd_config(region: &Region) -> Result<String> {
    let dir = region.path("containerd");
    let dir = dir.display();
    let filesystem = nix::sys::statfs::statfs(&region.dir)
        .context("statfs of the state folder")?
        .filesystem_type();
    let snapshotter = if filesystem == nix::sys::statfs::OVERLAYFS_SUPER_MAGIC {
        "native"
    } else {
        "overlayfs"
    };
    Ok(format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"#,
        socket = socket(region).display(),
        cni = region.path("cni").display(),
    ))
}

fn cni_config(region: &Region) -> String {
    let bridge = json!({
        "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": region.pod_cidr()}]], "routes": [{"dst": "0.0.0.0/0"}]},
    });
    json!({"cniVersion": "0.4.0", "name": "lab", "plugins": [bridge]}).to_string()
}

fn kubelet_config(region: &Region) -> String {
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", region.cgroup),
        "containerRuntimeEndpoint": format!("unix://{}", socket(region).display()),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": region.path("certs/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": region.path("certs/kubelet.crt"),
        "tlsPrivateKeyFile": region.path("certs/kubelet.key"),
        "resolvConf": "",
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "address": region.ip(),
        "healthzBindAddress": "127.0.0.1",
        "maxPods": 200,
        "podLogsDir": region.path("podlogs"),
        "volumePluginDir": region.path("kubelet/plugins-exec"),
    });
    format!("{config:#}\n")
}

fn kube_proxy_config(region: &Region) -> String {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": region.path("certs/kube-proxy.kubeconfig")},
        "mode": "iptables",
        "clusterCIDR": region.pod_cidr(),
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "hostnameOverride": region.node(),
    });
    format!("{config:#}\n")
}

/// The command of one program of the node.
pub(super) fn command(region: &Region, tools: &Tools, daemon: Daemon) -> Result<Command> {
    let mut command;
    if daemon == Daemon::Containerd {
        command = in_region(
            region,
            &need("containerd", "install the package containerd")?,
        )?;
        command.arg("--config").arg(region.path("containerd.toml"));
    } else if daemon == Daemon::KubeProxy {
        command = in_region(region, &tools.kubernetes.join("kube-proxy"))?;
        command.arg("--config").arg(region.path("kube-proxy.yaml"));
    } else {
        command = in_region(region, &tools.kubernetes.join("kubelet"))?;
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        command
            .arg(flag("kubeconfig", &region.path("certs/kubelet.kubeconfig")))
            .arg(flag("config", &region.path("kubelet.yaml")))
            .arg(flag("root-dir", &region.path("kubelet")))
            .arg(flag("cert-dir", &region.path("certs/kubelet-own")))
            .arg(flag("containerd", &socket(region)))
            .arg("--containerd-namespace=k8s.io")
            .arg(format!("--hostname-override={}", region.node()))
            .arg(format!("--node-ip={}", region.ip()));
    }
    Ok(command)
}

/// Waits until containerd answers.
pub(super) fn await_containerd(region: &Region, alive: impl Fn() -> bool) -> Result<()> {
    let log = region.log(Daemon::Containerd);
    let what = format!("containerd of {}", region.name);
    wait::until(&what, Duration::from_mins(1), Some(&log), || {
        ensure!(alive(), "{what} ended{}", wait::tail_note(&log));
        if !socket(region).exists() {
            return Ok(wait::Look::Again("no socket yet".to_owned()));
        }
        let answer = child::run(ctr(region)?.arg("version"), Duration::from_secs(10))?;
        Ok(if answer.status.success() {
            wait::Look::Done(())
        } else {
            wait::Look::Again(String::from_utf8_lossy(&answer.stderr).trim().to_owned())
        })
    })
}

fn ctr(region: &Region) -> Result<Command> {
    let mut command = in_region(region, &need("ctr", "install the package containerd")?)?;
    command
        .arg("--address")
        .arg(socket(region))
        .args(["--namespace", "k8s.io"]);
    Ok(command)
}

/// Gives the node an image from an OCI archive.
pub(super) fn import(region: &Region, archive: &Path) -> Result<()> {
    child::run_ok(ctr(region)?.args(["images", "import"]).arg(archive), IMPORT)
        .with_context(|| format!("importing {} into {}", archive.display(), region.name))
        .map(drop)
}

/// Waits until the node is Ready.
pub(super) fn await_ready(region: &Region, alive: impl Fn() -> bool) -> Result<()> {
    let log = region.log(Daemon::Kubelet);
    let node = region.node();
    let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}"#;
    wait::until(
        &format!("node {node} to be Ready"),
        super::cluster::READY,
        Some(&log),
        || {
            ensure!(
                alive(),
                "the kubelet of {} ended{}",
                region.name,
                wait::tail_note(&log)
            );
            let answer = kubectl::run(
                region,
                &["get", "node", &node, "-o", path],
                None,
                Duration::from_secs(10),
            )?;
            let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            Ok(if said.starts_with("True") {
                wait::Look::Done(())
            } else {
                let error = String::from_utf8_lossy(&answer.stderr);
                wait::Look::Again(format!("{said} {}", error.trim()))
            })
        },
    )
}
