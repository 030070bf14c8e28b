//! Takes what a region says about its cluster, gives a client's configuration and the versions of the Secrets that went
//! into it. Never accepts a setting that could run, read or trust more than the region's author may decide.

use heapfleet_crds::{AllocatorRegion, ClusterAccess, Endpoint};
use kube::ResourceExt as _;

use super::error::{ClusterError, Refused};
use super::kubeconfig;
use super::secrets::Secrets;

/// A configuration, and what it was made from.
pub(super) struct Access {
    pub(super) config: kube::Config,
    /// The spec and the versions of its Secrets; equal texts mean an equal configuration.
    pub(super) made_from: String,
}

/// The configuration for a region's cluster; `hub` is that of the cluster in which the operator runs.
pub(super) async fn resolve(
    region: &AllocatorRegion,
    hub: &kube::Config,
    secrets: &Secrets,
) -> Result<Access, ClusterError> {
    let name = region.name_any();
    let refused = |refused| ClusterError::Refused {
        region: name.clone(),
        refused,
    };
    match &region.spec.cluster {
        ClusterAccess { local: Some(_), .. } => Ok(Access {
            config: hub.clone(),
            made_from: "local".to_owned(),
        }),
        ClusterAccess {
            kubeconfig_secret_ref: Some(reference),
            ..
        } => {
            let field = "spec.cluster.kubeconfigSecretRef";
            let value = secrets.value(&name, field, reference).await?;
            let config = value
                .text()
                .and_then(|text| kubeconfig::parse(text, value.origin()))
                .map_err(refused)?;
            Ok(Access {
                config,
                made_from: format!("{} {}", value.origin(), value.version()),
            })
        }
        ClusterAccess {
            endpoint: Some(endpoint),
            ..
        } => from_endpoint(&name, endpoint, secrets).await,
        ClusterAccess {
            local: None,
            kubeconfig_secret_ref: None,
            endpoint: None,
        } => Err(refused(Refused::new(
            "spec.cluster",
            "empty",
            "it does not say how the cluster is reached",
            "set one of local, kubeconfigSecretRef and endpoint",
        ))),
    }
}

async fn from_endpoint(
    name: &str,
    endpoint: &Endpoint,
    secrets: &Secrets,
) -> Result<Access, ClusterError> {
    let refused = |refused| ClusterError::Refused {
        region: name.to_owned(),
        refused,
    };
    let (ca, token) = futures::future::try_join(
        secrets.value(
            name,
            "spec.cluster.endpoint.caSecretRef",
            &endpoint.ca_secret_ref,
        ),
        secrets.value(
            name,
            "spec.cluster.endpoint.tokenSecretRef",
            &endpoint.token_secret_ref,
        ),
    )
    .await?;
    let server =
        kubeconfig::secure(&endpoint.server, "spec.cluster.endpoint.server").map_err(refused)?;
    let mut config = kube::Config::new(server);
    config.root_cert = Some(kubeconfig::authorities(ca.bytes(), ca.origin()).map_err(refused)?);
    config.auth_info.token = Some(token.text().map_err(refused)?.to_owned().into());
    let made_from = format!("{} {} {}", endpoint.server, ca.version(), token.version());
    Ok(Access { config, made_from })
}
