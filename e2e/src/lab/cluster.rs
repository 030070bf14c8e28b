//! Takes a region, gives the commands of its control plane and starts them; must never give a program more rights than
//! its standard identity has.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};

use super::{
    kubectl,
    netns::in_region,
    pki::Authority,
    state::{Daemon, Region},
    tools::Tools,
    wait,
};

/// First address of the services' range: the API server as pods see it.
const API_SERVICE: &str = "10.96.0.1";
/// How long a program of the control plane may take until it is ready, on a busy machine.
pub(super) const READY: Duration = Duration::from_mins(2);

const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
";

/// Makes folders, certificates and kubeconfigs.
pub(super) fn prepare(region: &Region) -> Result<()> {
    for dir in ["logs", "certs", "etcd", "tmp"] {
        fs::create_dir_all(region.path(dir))
            .with_context(|| format!("creating {dir} of {}", region.name))?;
    }
    let authority = Authority::create(region)?;
    let names = [
        &region.ip(),
        "127.0.0.1",
        API_SERVICE,
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    authority.write_pair(
        "serving",
        &authority.issue("kube-apiserver", None, &names.map(str::to_owned))?,
    )?;
    let masters = Some("system:masters");
    authority.write_pair(
        "kubelet-client",
        &authority.issue("kube-apiserver-kubelet-client", masters, &[])?,
    )?;
    let node = format!("system:node:{}", region.node());
    let kubelet_names = [region.ip(), region.node()];
    authority.write_pair(
        "kubelet",
        &authority.issue(&node, Some("system:nodes"), &kubelet_names)?,
    )?;
    let server = region.inner_server();
    for (file, name, organisation) in [
        ("controller-manager", "system:kube-controller-manager", None),
        ("scheduler", "system:kube-scheduler", None),
        ("kubelet", node.as_str(), Some("system:nodes")),
        ("kube-proxy", "system:kube-proxy", None),
        ("prometheus", "heapfleet-lab-prometheus", None),
    ] {
        let path = region.path("certs").join(format!("{file}.kubeconfig"));
        authority.write_kubeconfig(&path, &server, name, organisation)?;
    }
    fs::write(region.path("audit.yaml"), AUDIT_POLICY)?;
    let outside = format!("https://127.0.0.1:{}", region.api_port);
    authority.write_kubeconfig(
        &region.kubeconfig(),
        &outside,
        "heapfleet-lab-admin",
        masters,
    )
}

fn flags(command: &mut Command, flags: &[(&str, &str)]) {
    command.args(
        flags
            .iter()
            .map(|(name, value)| format!("--{name}={value}")),
    );
}

fn file_flags(command: &mut Command, dir: &Path, flags: &[(&str, &str)]) {
    command.args(
        flags
            .iter()
            .map(|(name, file)| format!("--{name}={}", dir.join(file).display())),
    );
}

/// The command of one program of the control plane.
pub(super) fn command(region: &Region, tools: &Tools, daemon: Daemon) -> Result<Command> {
    match daemon {
        Daemon::Etcd => etcd(region, tools),
        Daemon::Apiserver => apiserver(region, tools),
        Daemon::ControllerManager => controller_manager(region, tools),
        Daemon::Scheduler => scheduler(region, tools),
        Daemon::Containerd | Daemon::Kubelet | Daemon::KubeProxy => {
            super::node::command(region, tools, daemon)
        }
        Daemon::Prometheus | Daemon::Discovery => super::prometheus::command(region, daemon),
    }
}

fn etcd(region: &Region, tools: &Tools) -> Result<Command> {
    let mut command = in_region(region, &tools.etcd.join("etcd"))?;
    file_flags(&mut command, &region.dir, &[("data-dir", "etcd")]);
    flags(
        &mut command,
        &[
            ("listen-client-urls", "http://127.0.0.1:2379"),
            ("advertise-client-urls", "http://127.0.0.1:2379"),
            ("listen-peer-urls", "http://127.0.0.1:2380"),
            ("unsafe-no-fsync", "true"),
        ],
    );
    Ok(command)
}

fn apiserver(region: &Region, tools: &Tools) -> Result<Command> {
    let mut command = in_region(region, &tools.kubernetes.join("kube-apiserver"))?;
    flags(
        &mut command,
        &[
            ("etcd-servers", "http://127.0.0.1:2379"),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            ("secure-port", "6443"),
            ("bind-address", "0.0.0.0"),
            ("advertise-address", &region.ip()),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("authorization-mode", "Node,RBAC"),
            ("enable-admission-plugins", "NodeRestriction"),
            ("allow-privileged", "true"),
            ("kubelet-preferred-address-types", "InternalIP"),
            ("audit-log-maxsize", "100"),
            ("audit-log-maxbackup", "2"),
        ],
    );
    file_flags(
        &mut command,
        &region.dir,
        &[
            ("tls-cert-file", "certs/serving.crt"),
            ("tls-private-key-file", "certs/serving.key"),
            ("client-ca-file", "certs/ca.crt"),
            ("kubelet-certificate-authority", "certs/ca.crt"),
            ("kubelet-client-certificate", "certs/kubelet-client.crt"),
            ("kubelet-client-key", "certs/kubelet-client.key"),
            ("service-account-key-file", "certs/sa.pub"),
            ("service-account-signing-key-file", "certs/sa.key"),
            ("audit-policy-file", "audit.yaml"),
            ("audit-log-path", "logs/audit.log"),
        ],
    );
    Ok(command)
}

fn controller_manager(region: &Region, tools: &Tools) -> Result<Command> {
    let mut command = in_region(region, &tools.kubernetes.join("kube-controller-manager"))?;
    flags(
        &mut command,
        &[
            ("use-service-account-credentials", "true"),
            ("leader-elect", "false"),
            ("bind-address", "127.0.0.1"),
        ],
    );
    file_flags(
        &mut command,
        &region.dir,
        &[
            ("kubeconfig", "certs/controller-manager.kubeconfig"),
            (
                "authentication-kubeconfig",
                "certs/controller-manager.kubeconfig",
            ),
            (
                "authorization-kubeconfig",
                "certs/controller-manager.kubeconfig",
            ),
            ("service-account-private-key-file", "certs/sa.key"),
            ("root-ca-file", "certs/ca.crt"),
            ("cert-dir", "tmp/controller-manager"),
            // Its default is a folder of the machine, which it would make.
            ("flex-volume-plugin-dir", "tmp/flex-volumes"),
        ],
    );
    Ok(command)
}

fn scheduler(region: &Region, tools: &Tools) -> Result<Command> {
    let mut command = in_region(region, &tools.kubernetes.join("kube-scheduler"))?;
    flags(
        &mut command,
        &[("leader-elect", "false"), ("bind-address", "127.0.0.1")],
    );
    file_flags(
        &mut command,
        &region.dir,
        &[
            ("kubeconfig", "certs/scheduler.kubeconfig"),
            ("authentication-kubeconfig", "certs/scheduler.kubeconfig"),
            ("authorization-kubeconfig", "certs/scheduler.kubeconfig"),
            ("cert-dir", "tmp/scheduler"),
        ],
    );
    Ok(command)
}

/// Waits until the API server answers `/readyz`. `alive` says whether its process still runs.
pub(super) fn await_ready(region: &Region, alive: impl Fn() -> bool) -> Result<()> {
    let log = region.log(Daemon::Apiserver);
    let what = format!("the API server of {}", region.name);
    wait::until(&what, READY, Some(&log), || {
        anyhow::ensure!(alive(), "{what} ended{}", wait::tail_note(&log));
        let answer = kubectl::run(
            region,
            &["get", "--raw", "/readyz"],
            None,
            Duration::from_secs(10),
        )?;
        Ok(if answer.status.success() {
            wait::Look::Done(())
        } else {
            wait::Look::Again(String::from_utf8_lossy(&answer.stderr).trim().to_owned())
        })
    })
}
