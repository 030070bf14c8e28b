//! A real API server and the four kinds: the definitions install plainly, every example and good manifest is accepted,
//! every bad one is rejected with the words that its first lines promise (`crds/tests/bad/README.md`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panic"
)]

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use heapfleet_e2e::lab::{Config, Lab};
use serde::Deserialize;
use serde_json::Value;

mod common;

const REGION: &str = "ore";
const NAMESPACE: &str = "manifests";
const LIMIT: Duration = Duration::from_secs(30);

/// A folder of the workspace.
fn workspace(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join(folder)
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace(folder)).expect(folder);
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

/// One manifest file.
struct File {
    name: String,
    expect: Vec<String>,
    update: bool,
    documents: Vec<String>,
}

impl File {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let comments = || text.lines().take_while(|line| line.starts_with('#'));
        let mut documents = vec![String::new()];
        for line in text.lines() {
            if line == "---" {
                documents.push(String::new());
            } else {
                let last = documents.last_mut().unwrap();
                last.push_str(line);
                last.push('\n');
            }
        }
        documents.retain(|document| {
            document
                .lines()
                .any(|line| !line.starts_with('#') && !line.is_empty())
        });
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            expect: comments()
                .filter_map(|l| l.strip_prefix("# expect: "))
                .map(str::to_owned)
                .collect(),
            update: comments().any(|line| line.trim_end() == "# update"),
            documents,
        }
    }
}

fn parse(document: &str) -> Value {
    let first = serde_yaml::Deserializer::from_str(document).next();
    Value::deserialize(first.expect("a document")).expect("YAML")
}

/// Runs kubectl in the namespace that the document names, or in the table's.
fn kubectl(lab: &Lab, args: &[&str], input: &str) -> Output {
    let parsed = parse(input);
    let named = parsed
        .pointer("/metadata/namespace")
        .and_then(Value::as_str);
    let mut all = vec!["--namespace", named.unwrap_or(NAMESPACE)];
    all.extend(args);
    lab.kubectl_with(REGION, &all, Some(input), LIMIT).unwrap()
}

fn verdict(output: &Output) -> Result<(), String> {
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Writes a document, and then its status if it has one.
fn write(lab: &Lab, verb: &str, document: &str) -> Result<(), String> {
    verdict(&kubectl(lab, &[verb, "-f", "-"], document))?;
    let parsed = parse(document);
    let Some(status) = parsed.get("status") else {
        return Ok(());
    };
    let patch = serde_json::json!({"status": status}).to_string();
    verdict(&kubectl(
        lab,
        &[
            "patch",
            "-f",
            "-",
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch,
        ],
        document,
    ))
}

/// Makes the namespaces that a file's documents name.
fn make_namespaces(lab: &Lab, file: &File) {
    for document in &file.documents {
        if let Some(name) = parse(document)
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
        {
            let namespace = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            lab.apply(REGION, &namespace.to_string()).unwrap();
        }
    }
}

/// Writes all documents of a file in turn and deletes the object again; gives what became of each.
fn play(lab: &Lab, file: &File) -> Vec<Result<(), String>> {
    let verbs = std::iter::once("create").chain(std::iter::repeat("replace"));
    let results = verbs
        .zip(&file.documents)
        .map(|(verb, document)| write(lab, verb, document))
        .collect();
    let first = file.documents.first().unwrap();
    verdict(&kubectl(
        lab,
        &["delete", "-f", "-", "--ignore-not-found", "--timeout=20s"],
        first,
    ))
    .unwrap();
    results
}

/// What is wrong with how a good file was answered; empty if nothing is.
fn wrong_with_good(results: &[Result<(), String>]) -> String {
    let refused = results
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, r.as_ref().err()?)));
    refused
        .map(|(i, why)| format!("document {}: {why}", i + 1))
        .collect::<Vec<_>>()
        .join("; ")
}

/// What is wrong with how a bad file was answered; empty if nothing is.
fn wrong_with_bad(file: &File, results: &[Result<(), String>]) -> String {
    let (last, before) = results.split_last().unwrap();
    if file.expect.is_empty() {
        return "it promises no words".to_owned();
    }
    if file.update != (results.len() > 1) {
        return format!(
            "{} documents, but `# update` is {}",
            results.len(),
            file.update
        );
    }
    let early = wrong_with_good(before);
    if !early.is_empty() {
        return format!("rejected too early: {early}");
    }
    match last {
        Ok(()) => "accepted".to_owned(),
        Err(said) => {
            let absent: Vec<_> = file
                .expect
                .iter()
                .filter(|text| !said.contains(*text))
                .collect();
            if absent.is_empty() {
                String::new()
            } else {
                format!("lacks {absent:?}: {said}")
            }
        }
    }
}

#[test]
fn manifests_are_judged_by_a_real_api_server() {
    let _turn = common::turn();
    let lab = Lab::up(&Config::planes(common::fresh_root("manifests"))).unwrap();
    let definitions = workspace("crds/generated").display().to_string();
    lab.kubectl_ok(REGION, &["apply", "-f", &definitions])
        .unwrap();
    let established = [
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=30s",
    ];
    lab.kubectl_ok(REGION, &established).unwrap();
    lab.kubectl_ok(REGION, &["create", "namespace", NAMESPACE])
        .unwrap();

    let mut table = String::new();
    let mut tell = |name: &str, wrong: &str| {
        if !wrong.is_empty() {
            writeln!(table, "{name:50} {wrong}").unwrap();
        }
    };
    for folder in ["manifests/examples", "crds/tests/good"] {
        let files = yaml_files(folder);
        assert!(!files.is_empty(), "no manifests in {folder}");
        for path in files {
            let file = File::read(&path);
            make_namespaces(&lab, &file);
            tell(&file.name, &wrong_with_good(&play(&lab, &file)));
        }
    }
    let bad = yaml_files("crds/tests/bad");
    assert!(bad.len() >= 40, "only {} bad manifests", bad.len());
    for path in &bad {
        let file = File::read(path);
        tell(&file.name, &wrong_with_bad(&file, &play(&lab, &file)));
    }
    lab.down().unwrap();
    assert!(
        table.is_empty(),
        "manifests that were not judged as they should be:\n{table}"
    );
}
