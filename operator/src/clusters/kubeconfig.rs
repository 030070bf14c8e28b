//! Takes the text of a kubeconfig from a Secret, gives a client's configuration. Never runs a program, reads a file,
//! follows a proxy or an impersonation, or trusts a server without its certificate: each is refused by name.

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig};

use super::error::Refused;

/// The configuration that a kubeconfig's current context describes. `origin` says where the text came from, as
/// `Secret heapfleet-system/nrt, key kubeconfig`.
pub(super) fn parse(text: &str, origin: &str) -> Result<kube::Config, Refused> {
    let config: Kubeconfig = serde_yaml::from_str(text).map_err(|error| {
        let at = error.location().map_or_else(String::new, |at| {
            format!(" at line {} column {}", at.line(), at.column())
        });
        Refused::new(
            origin,
            "not a kubeconfig",
            format!("it cannot be read as YAML of kind Config{at}"),
            "put the output of `kubectl config view --raw --minify --flatten` there",
        )
    })?;
    let context = current(&config, origin)?;
    let cluster = config
        .clusters
        .iter()
        .find(|named| named.name == context.cluster)
        .and_then(|named| named.cluster.as_ref())
        .ok_or_else(|| absent(origin, "clusters", &context.cluster))?;
    let user_name = context.user.as_deref().unwrap_or_default();
    let user = config
        .auth_infos
        .iter()
        .find(|named| named.name == user_name)
        .and_then(|named| named.auth_info.as_ref())
        .ok_or_else(|| absent(origin, "users", user_name))?;
    check_cluster(cluster, origin)?;
    check_user(user, origin)?;
    assemble(cluster, user, origin)
}

fn current<'a>(config: &'a Kubeconfig, origin: &str) -> Result<&'a Context, Refused> {
    let name = config
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| {
            Refused::new(
                format!("{origin}: current-context"),
                "empty",
                "it does not say which cluster is meant",
                "set current-context",
            )
        })?;
    config
        .contexts
        .iter()
        .find(|named| named.name == name)
        .and_then(|named| named.context.as_ref())
        .ok_or_else(|| absent(origin, "contexts", name))
}

fn absent(origin: &str, list: &str, name: &str) -> Refused {
    Refused::new(
        format!("{origin}: {list}"),
        format!("without {name:?}"),
        "the current context names it",
        format!("add {name:?} to {list} or correct the context"),
    )
}

/// One row per field that must be absent: its path, its value for people, the remedy.
type Banned = (&'static str, Option<String>, &'static str);

fn check_cluster(cluster: &Cluster, origin: &str) -> Result<(), Refused> {
    let rows: [Banned; 3] = [
        (
            "insecure-skip-tls-verify",
            cluster
                .insecure_skip_tls_verify
                .filter(|set| *set)
                .map(|set| set.to_string()),
            "put the authority's certificate into certificate-authority-data",
        ),
        (
            "certificate-authority",
            cluster.certificate_authority.clone(),
            "put the certificate itself into certificate-authority-data",
        ),
        (
            "proxy-url",
            cluster.proxy_url.as_deref().map(without_credentials),
            "give the server an address that the hub reaches directly",
        ),
    ];
    refuse_first(origin, "cluster", rows)?;
    refuse_unknown(origin, "cluster", cluster.other.keys())
}

fn check_user(user: &AuthInfo, origin: &str) -> Result<(), Refused> {
    let impersonated = user.impersonate.clone().or_else(|| {
        let others = user.impersonate_uid.is_some()
            || user
                .impersonate_groups
                .as_ref()
                .is_some_and(|all| !all.is_empty())
            || user
                .impersonate_user_extra
                .as_ref()
                .is_some_and(|all| !all.is_empty());
        others.then(|| "set".to_owned())
    });
    let rows: [Banned; 8] = [
        (
            "exec",
            user.exec
                .as_ref()
                .map(|exec| exec.command.clone().unwrap_or_default()),
            "the operator runs no programs; use a service account token or a client certificate",
        ),
        (
            "auth-provider",
            user.auth_provider
                .as_ref()
                .map(|provider| provider.name.clone()),
            "use a service account token or a client certificate",
        ),
        (
            "tokenFile",
            user.token_file.clone(),
            "put the token itself into token",
        ),
        (
            "client-certificate",
            user.client_certificate.clone(),
            "put the certificate itself into client-certificate-data",
        ),
        (
            "client-key",
            user.client_key.clone(),
            "put the key itself into client-key-data",
        ),
        ("as", impersonated, "grant the rights to the user itself"),
        (
            "username",
            user.username.clone(),
            "Kubernetes knows no passwords any more; use a token or a client certificate",
        ),
        (
            "password",
            user.password.as_ref().map(|_| "set".to_owned()),
            "Kubernetes knows no passwords any more; use a token or a client certificate",
        ),
    ];
    refuse_first(origin, "user", rows)?;
    refuse_unknown(origin, "user", user.other.keys())
}

fn refuse_first<const N: usize>(
    origin: &str,
    part: &str,
    rows: [Banned; N],
) -> Result<(), Refused> {
    for (field, value, remedy) in rows {
        if let Some(value) = value {
            return Err(Refused::new(
                format!("{origin}: {part}.{field}"),
                value,
                "it is not used in a kubeconfig of a region",
                remedy,
            ));
        }
    }
    Ok(())
}

fn refuse_unknown<'a>(
    origin: &str,
    part: &str,
    mut keys: impl Iterator<Item = &'a String>,
) -> Result<(), Refused> {
    keys.next().map_or(Ok(()), |key| {
        Err(Refused::new(
            format!("{origin}: {part}.{key}"),
            "set",
            "the field is not known",
            "remove it",
        ))
    })
}

fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

fn assemble(cluster: &Cluster, user: &AuthInfo, origin: &str) -> Result<kube::Config, Refused> {
    let server = cluster.server.as_deref().unwrap_or_default();
    let mut config = kube::Config::new(secure(server, &format!("{origin}: cluster.server"))?);
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    if let Some(data) = &cluster.certificate_authority_data {
        let field = format!("{origin}: cluster.certificate-authority-data");
        config.root_cert = Some(authorities(&decode(data, &field)?, &field)?);
    }
    let with_token = user.token.is_some();
    let with_certificate = user.client_certificate_data.is_some();
    if with_certificate != user.client_key_data.is_some() {
        return Err(Refused::new(
            format!("{origin}: user.client-certificate-data"),
            if with_certificate { "set" } else { "absent" },
            "a client certificate and its key go together",
            "set both client-certificate-data and client-key-data",
        ));
    }
    if !with_token && !with_certificate {
        return Err(Refused::new(
            format!("{origin}: user"),
            "without credentials",
            "the operator does not ask as anonymous",
            "set token, or client-certificate-data with client-key-data",
        ));
    }
    config.auth_info.token.clone_from(&user.token);
    config
        .auth_info
        .client_certificate_data
        .clone_from(&user.client_certificate_data);
    config
        .auth_info
        .client_key_data
        .clone_from(&user.client_key_data);
    Ok(config)
}

/// An `https` URL without credentials in it.
pub(super) fn secure(server: &str, field: &str) -> Result<http::Uri, Refused> {
    let refuse = |problem: &str| {
        Refused::new(
            field,
            format!("{:?}", without_credentials(server)),
            problem,
            "use the form https://host:port",
        )
    };
    let uri: http::Uri = server.parse().map_err(|_| refuse("it is not a URL"))?;
    if uri.scheme_str() != Some("https") {
        return Err(refuse("credentials are sent over https only"));
    }
    if uri
        .authority()
        .is_none_or(|authority| authority.as_str().contains('@'))
    {
        return Err(refuse("it must name a host and hold no credentials"));
    }
    Ok(uri)
}

fn decode(data: &str, field: &str) -> Result<Vec<u8>, Refused> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(data.trim())
        .map_err(|_| {
            Refused::new(
                field,
                "set",
                "it is not base64",
                "encode the PEM text as base64",
            )
        })
}

/// The certificates of a PEM text, as DER.
pub(super) fn authorities(pem: &[u8], field: &str) -> Result<Vec<Vec<u8>>, Refused> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(all) if !all.is_empty() => Ok(all.into_iter().map(|der| der.to_vec()).collect()),
        Ok(_) | Err(_) => Err(Refused::new(
            field,
            "set",
            "it holds no certificate in PEM form",
            "put the text from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE----- there",
        )),
    }
}
