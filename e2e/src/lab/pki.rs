//! Takes a region, gives its certificate authority, the certificates of its programs and kubeconfigs; must never give
//! two regions one authority, since then a credential of one would be valid in the other.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::state::Region;

/// The authority of one region.
#[derive(Debug)]
pub(super) struct Authority {
    dir: PathBuf,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
#[derive(Debug)]
pub(super) struct Identity {
    /// The certificate.
    pub(super) cert: String,
    /// The private key.
    pub(super) key: String,
}

fn subject(common_name: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}

impl Authority {
    /// A new authority, with `ca.crt` and the key pair for service account tokens written into the region's
    /// `certs` folder.
    pub(super) fn create(region: &Region) -> Result<Self> {
        let dir = region.path("certs");
        fs::create_dir_all(&dir)?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = subject(&format!("heapfleet-lab-{}", region.name), None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        fs::write(dir.join("ca.crt"), &pem)?;
        let tokens = KeyPair::generate()?;
        write_secret(&dir.join("sa.key"), &tokens.serialize_pem())?;
        fs::write(dir.join("sa.pub"), tokens.public_key_pem())?;
        Ok(Self {
            dir,
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    /// A certificate for serving under `names` (DNS names and addresses) and for being a client.
    pub(super) fn issue(
        &self,
        common_name: &str,
        organisation: Option<&str>,
        names: &[String],
    ) -> Result<Identity> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = subject(common_name, organisation);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !names.is_empty() {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Identity {
            cert: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Issues and writes `FILE.crt` and `FILE.key`.
    pub(super) fn write_pair(&self, file: &str, identity: &Identity) -> Result<()> {
        fs::write(self.dir.join(format!("{file}.crt")), &identity.cert)?;
        write_secret(&self.dir.join(format!("{file}.key")), &identity.key)
    }

    /// Writes a kubeconfig for a new client certificate.
    pub(super) fn write_kubeconfig(
        &self,
        file: &Path,
        server: &str,
        common_name: &str,
        organisation: Option<&str>,
    ) -> Result<()> {
        let id = self.issue(common_name, organisation, &[])?;
        let user = json!({
            "client-certificate-data": BASE64_STANDARD.encode(id.cert),
            "client-key-data": BASE64_STANDARD.encode(id.key),
        });
        write_secret(file, &kubeconfig(server, &self.pem, common_name, &user))
    }
}

/// A kubeconfig (JSON, which every reader of kubeconfigs takes) with one cluster and one user.
pub(super) fn kubeconfig(server: &str, ca: &str, name: &str, user: &serde_json::Value) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {
            "server": server, "certificate-authority-data": BASE64_STANDARD.encode(ca)}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
        "current-context": "lab",
    });
    format!("{config:#}\n")
}

/// Writes a file that only its owner may read.
pub(super) fn write_secret(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(out.write_all(text.as_bytes())?)
}
