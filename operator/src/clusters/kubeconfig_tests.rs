//! Kubeconfigs that must be refused by name, and those that are taken.

use super::kubeconfig::{parse, secure};

const ORIGIN: &str = "Secret heapfleet-system/nrt, key kubeconfig";

fn ca() -> String {
    use base64::Engine as _;
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["nrt".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    base64::engine::general_purpose::STANDARD.encode(certificate.pem())
}

fn text(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{{cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    )
}

#[test]
fn an_inline_token_and_authority_are_taken() {
    let cluster = format!(
        "server: \"https://10.0.0.1:6443\", tls-server-name: kubernetes, certificate-authority-data: {}",
        ca()
    );
    let config = parse(&text(&cluster, "token: abc"), ORIGIN).unwrap();
    assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
    assert_eq!(config.tls_server_name.as_deref(), Some("kubernetes"));
    assert_eq!(config.root_cert.unwrap().len(), 1);
    assert!(config.auth_info.token.is_some());
    assert!(config.proxy_url.is_none() && !config.accept_invalid_certs);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table, read row by row")]
fn whatever_runs_reads_or_trusts_more_is_refused_by_name() {
    let server = "server: \"https://h:6443\"";
    let cases = [
        (
            server,
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}",
            "user.exec",
            "aws",
        ),
        (
            server,
            "auth-provider: {name: gcp, config: {}}",
            "user.auth-provider",
            "gcp",
        ),
        (
            server,
            "tokenFile: /var/run/token",
            "user.tokenFile",
            "/var/run/token",
        ),
        (
            server,
            "client-certificate: /c.pem, client-key-data: a",
            "user.client-certificate",
            "/c.pem",
        ),
        (
            server,
            "client-certificate-data: a, client-key: /k.pem",
            "user.client-key",
            "/k.pem",
        ),
        (server, "token: t, as: admin", "user.as", "admin"),
        (
            server,
            "token: t, as-groups: [\"system:masters\"]",
            "user.as",
            "set",
        ),
        (
            server,
            "username: root, password: x",
            "user.username",
            "root",
        ),
        (server, "token: t, surprise: 1", "user.surprise", "set"),
        (
            "server: \"https://h:6443\", insecure-skip-tls-verify: true",
            "token: t",
            "cluster.insecure-skip-tls-verify",
            "true",
        ),
        (
            "server: \"https://h:6443\", certificate-authority: /ca.pem",
            "token: t",
            "cluster.certificate-authority",
            "/ca.pem",
        ),
        (
            "server: \"https://h:6443\", proxy-url: \"http://me:secret@proxy:3128\"",
            "token: t",
            "cluster.proxy-url",
            "http://…@proxy:3128",
        ),
        (
            "server: \"http://h:6443\"",
            "token: t",
            "cluster.server",
            "http://h:6443",
        ),
        (
            "server: \"https://u:p@h:6443\"",
            "token: t",
            "cluster.server",
            "https://…@h:6443",
        ),
        (
            "server: \"https://h:6443\", certificate-authority-data: \"!\"",
            "token: t",
            "authority-data",
            "set",
        ),
        (
            server,
            "client-certificate-data: a",
            "user.client-certificate-data",
            "set",
        ),
        (server, "token: null", ": user", "without credentials"),
    ];
    for (cluster, user, field, value) in cases {
        let refused = parse(&text(cluster, user), ORIGIN).unwrap_err();
        assert!(refused.field.starts_with(ORIGIN), "{refused}");
        assert!(refused.field.contains(field), "{field}: {refused}");
        assert!(refused.value.contains(value), "{value}: {refused}");
        assert!(
            !refused.to_string().contains("secret@") && !refused.remedy.is_empty(),
            "{refused}"
        );
    }
}

#[test]
fn a_context_must_lead_to_a_cluster_and_a_user() {
    for broken in [
        "{",
        "apiVersion: v1\nkind: Config\n",
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: []\n",
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n",
    ] {
        assert!(parse(broken, ORIGIN).is_err(), "{broken}");
    }
    assert!(secure("https://api.ore.example.net:6443/base", "f").is_ok());
    assert!(secure("api.ore.example.net", "f").is_err());
}
