use std::{collections::BTreeMap, io::Read};

use super::*;

fn entries(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let read = |entry: std::io::Result<tar::Entry<'_, fs::File>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    archive.entries().unwrap().map(read).collect()
}

fn sample(dir: &Path) -> ImageSpec {
    let from = dir.join("program");
    fs::write(&from, "#!").unwrap();
    let mut spec = ImageSpec {
        name: "lab.local/x:1".to_owned(),
        ..ImageSpec::default()
    };
    spec.add(&from, Path::new("/usr/bin/program"));
    spec
}

#[test]
fn an_archive_is_reproducible_and_its_digests_hold() {
    let dir = tempfile::tempdir().unwrap();
    let spec = sample(dir.path());
    let path = write_archive(&spec, dir.path()).unwrap();
    let first = fs::read(&path).unwrap();
    assert_eq!(
        first,
        fs::read(write_archive(&spec, dir.path()).unwrap()).unwrap()
    );

    let files = entries(&path);
    let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    assert_eq!(
        index["manifests"][0]["annotations"]["io.containerd.image.name"],
        "lab.local/x:1"
    );
    let blobs = files
        .iter()
        .filter_map(|(name, bytes)| Some((name.strip_prefix("blobs/sha256/")?, bytes)));
    let mut count = 0;
    for (digest, bytes) in blobs {
        assert_eq!(digest, Blob::of(bytes.clone()).digest);
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn a_layer_has_the_folders_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = layer(&sample(dir.path())).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let names: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["tmp", "usr", "usr/bin", "usr/bin/program"]);
}

#[test]
fn a_dynamic_program_is_no_static_image() {
    let own = std::env::current_exe().unwrap();
    let message = static_image("lab.local/x:1", &own, &[])
        .unwrap_err()
        .to_string();
    assert!(message.contains("is no static program"), "{message}");
}
