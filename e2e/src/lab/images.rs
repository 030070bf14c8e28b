//! Takes files of this machine, gives OCI archives that containerd imports; must never need a registry or a builder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{elf, hash};

/// Libraries of the allocators, by the names under which a preload asks for them.
pub const ALLOCATORS: [&str; 3] = [
    "libjemalloc.so.2",
    "libmimalloc.so.2",
    "libtcmalloc_minimal.so.4",
];

/// One file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Where it is on this machine; links are followed.
    pub from: PathBuf,
    /// Its absolute path in the image.
    pub to: PathBuf,
    /// Its permission bits.
    pub mode: u32,
}

/// An image of one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Its name with its tag, for example `lab.local/trace-server:plain`. Pods use it with `imagePullPolicy: Never`.
    pub name: String,
    /// Its files.
    pub files: Vec<ImageFile>,
    /// The program and its fixed arguments.
    pub entrypoint: Vec<String>,
    /// Environment, `NAME=value`.
    pub env: Vec<String>,
    /// Numeric user, with an optional group: `65532:65532`; empty for root.
    pub user: String,
}

impl ImageSpec {
    /// Adds a file at the path that it has on this machine, with all libraries that it needs.
    pub fn add_with_libraries(&mut self, file: &Path) -> Result<()> {
        self.add(file, file);
        for library in elf::closure(file)? {
            self.add(&library, &library);
        }
        Ok(())
    }

    /// Adds an executable file under another path; a path that is there already is left alone.
    pub fn add(&mut self, from: &Path, to: &Path) {
        if !self.files.iter().any(|f| f.to == to) {
            self.files.push(ImageFile {
                from: from.to_owned(),
                to: to.to_owned(),
                mode: 0o755,
            });
        }
    }

    /// Name of the archive's file.
    pub fn file_name(&self) -> String {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' || c == '-' {
                c
            } else {
                '_'
            }
        };
        format!("{}.tar", self.name.chars().map(safe).collect::<String>())
    }
}

/// The image of the workload in two forms: `lab.local/trace-server:plain` has the program and what it links,
/// `lab.local/trace-server:allocators` also jemalloc, mimalloc and tcmalloc with what these link, in the loader's
/// standard folders, so that a bare name such as `libjemalloc.so.2` in `LD_PRELOAD` is found.
pub fn trace_images(program: &Path) -> Result<[ImageSpec; 2]> {
    let mut plain = ImageSpec {
        name: "lab.local/trace-server:plain".to_owned(),
        entrypoint: vec!["/trace-server".to_owned()],
        user: "65532:65532".to_owned(),
        ..ImageSpec::default()
    };
    plain.add(program, Path::new("/trace-server"));
    for library in elf::closure(program)? {
        plain.add(&library, &library);
    }
    let mut full = ImageSpec {
        name: "lab.local/trace-server:allocators".to_owned(),
        ..plain.clone()
    };
    for name in ALLOCATORS {
        full.add_with_libraries(&elf::find_library(name)?)?;
    }
    Ok([plain, full])
}

/// An image that holds nothing but a static program, at `/` and its own name, and `extra` files.
pub fn static_image(name: &str, program: &Path, extra: &[ImageFile]) -> Result<ImageSpec> {
    let needs = elf::closure(program)?;
    ensure!(
        needs.is_empty(),
        "{} is no static program: it needs {needs:?}",
        program.display()
    );
    let file = program
        .file_name()
        .with_context(|| format!("{} names no file", program.display()))?;
    let to = Path::new("/").join(file);
    let mut spec = ImageSpec {
        name: name.to_owned(),
        entrypoint: vec![to.display().to_string()],
        user: "65532:65532".to_owned(),
        ..ImageSpec::default()
    };
    spec.add(program, &to);
    spec.files.extend_from_slice(extra);
    Ok(spec)
}

/// `lab.local/busybox:1`: a shell and its tools, for tests that need something inside a pod.
pub fn busybox_image() -> Result<ImageSpec> {
    let mut spec = static_image("lab.local/busybox:1", Path::new("/bin/busybox"), &[])
        .context("busybox for tests (package busybox-static)")?;
    spec.user = String::new();
    Ok(spec)
}

struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn of(bytes: Vec<u8>) -> Self {
        let digest = hash::sha256(&bytes);
        Self { digest, bytes }
    }

    fn json(value: &Value) -> Self {
        Self::of(value.to_string().into_bytes())
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len()})
    }
}

/// Writes the image as an OCI archive into `folder` and gives its path. The same files give the same bytes.
pub fn write_archive(spec: &ImageSpec, folder: &Path) -> Result<PathBuf> {
    let layer = Blob::of(layer(spec)?);
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = Blob::json(&json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": spec.entrypoint, "Env": spec.env, "User": spec.user},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)]},
    }));
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    }));
    let mut listed = manifest.descriptor(manifest_type);
    if let Some(fields) = listed.as_object_mut() {
        fields.insert(
            "annotations".to_owned(),
            json!({"io.containerd.image.name": spec.name}),
        );
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed],
    });
    let path = folder.join(spec.file_name());
    let file = fs::File::create(&path).with_context(|| format!("writing {}", path.display()))?;
    let mut archive = tar::Builder::new(std::io::BufWriter::new(file));
    append(
        &mut archive,
        "oci-layout",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
        0o644,
    )?;
    append(
        &mut archive,
        "index.json",
        index.to_string().as_bytes(),
        0o644,
    )?;
    for blob in [&layer, &config, &manifest] {
        append(
            &mut archive,
            format!("blobs/sha256/{}", blob.digest),
            &blob.bytes,
            0o644,
        )?;
    }
    std::io::Write::flush(&mut archive.into_inner()?)?;
    Ok(path)
}

fn layer(spec: &ImageSpec) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut folders = BTreeSet::from([PathBuf::from("tmp")]);
    for file in &spec.files {
        ensure!(
            file.to.is_absolute(),
            "{} is no absolute path in an image",
            file.to.display()
        );
        let inside = file.to.strip_prefix("/")?;
        folders.extend(
            inside
                .ancestors()
                .skip(1)
                .filter(|a| !a.as_os_str().is_empty())
                .map(Path::to_owned),
        );
    }
    for folder in &folders {
        let mode = if folder == Path::new("tmp") {
            0o1777
        } else {
            0o755
        };
        let mut header = header(tar::EntryType::Directory, 0, mode);
        tar.append_data(&mut header, folder, std::io::empty())?;
    }
    for file in &spec.files {
        let bytes =
            fs::read(&file.from).with_context(|| format!("reading {}", file.from.display()))?;
        append(&mut tar, file.to.strip_prefix("/")?, &bytes, file.mode)?;
    }
    Ok(tar.into_inner()?)
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append<W: std::io::Write>(
    tar: &mut tar::Builder<W>,
    path: impl AsRef<Path>,
    bytes: &[u8],
    mode: u32,
) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, u64::try_from(bytes.len())?, mode);
    Ok(tar.append_data(&mut header, path, bytes)?)
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
