use super::*;

fn containerd(kind: &str) -> String {
    format!(
        r#"{{"ociVersion":"1.0.2-dev","process":{{"env":["SECRET=s3cr3t","LD_PRELOAD=/opt/a.so"]}},
            "annotations":{{"io.kubernetes.cri.container-name":"server",
              "io.kubernetes.cri.container-type":"{kind}",
              "io.kubernetes.cri.image-name":"lab.local/trace:1",
              "io.kubernetes.cri.sandbox-id":"0a",
              "io.kubernetes.cri.sandbox-name":"trace-5d8f-x2x",
              "io.kubernetes.cri.sandbox-namespace":"shop",
              "io.kubernetes.cri.sandbox-uid":"6f1e0a52-8f1d-4a53-9d5e-0a1b2c3d4e5f"}},
            "linux":{{"cgroupsPath":"/kubepods/pod6f1e0a52-8f1d-4a53-9d5e-0a1b2c3d4e5f/4f"}}}}"#
    )
}

fn settings() -> Settings {
    Settings {
        preload: Some("/opt/a.so".into()),
        options: Vec::new(),
    }
}

fn identity() -> Identity {
    Identity {
        namespace: "shop".into(),
        pod: "trace-5d8f-x2x".into(),
        uid: "6f1e0a52-8f1d-4a53-9d5e-0a1b2c3d4e5f".into(),
        container: "server".into(),
    }
}

#[test]
fn containerd_record() {
    let kind = record(containerd("container").as_bytes()).unwrap();
    assert_eq!(kind, Kind::Container(Arc::new(identity()), settings()));
    assert!(!format!("{kind:?}").contains("s3cr3t"));
}

#[test]
fn crio_record() {
    let text = r#"{"annotations":{"io.kubernetes.cri-o.ContainerType":"container",
        "io.kubernetes.container.name":"server","io.kubernetes.pod.name":"trace-5d8f-x2x",
        "io.kubernetes.pod.namespace":"shop",
        "io.kubernetes.pod.uid":"6f1e0a52-8f1d-4a53-9d5e-0a1b2c3d4e5f"}}"#;
    assert_eq!(
        record(text.as_bytes()).unwrap(),
        Kind::Container(Arc::new(identity()), Settings::default())
    );
}

#[test]
fn the_uid_is_found_in_the_cgroup_path_of_older_records() {
    for path in [
        "/hf-ore/kubepods/besteffort/pod6f1e0a52-8f1d-4a53-9d5e-0a1b2c3d4e5f/4f",
        "kubepods-besteffort-pod6f1e0a52_8f1d_4a53_9d5e_0a1b2c3d4e5f.slice:cri-containerd:4f",
    ] {
        let mut text: serde_json::Value = serde_json::from_str(&containerd("container")).unwrap();
        text["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("io.kubernetes.cri.sandbox-uid");
        text["linux"]["cgroupsPath"] = path.into();
        let kind = record(text.to_string().as_bytes()).unwrap();
        assert_eq!(
            kind,
            Kind::Container(Arc::new(identity()), settings()),
            "{path}"
        );
    }
    assert_eq!(uid_in_path("/kubepods/podium/4f"), None);
    assert_eq!(uid_in_path(""), None);
}

#[test]
fn sandboxes_and_strangers_are_not_containers_of_pods() {
    assert_eq!(
        record(containerd("sandbox").as_bytes()).unwrap(),
        Kind::Other
    );
    assert_eq!(record(b"{}").unwrap(), Kind::Other);
    assert_eq!(
        record(br#"{"annotations":{"a":"b"},"linux":{}}"#).unwrap(),
        Kind::Other
    );
}

#[test]
fn nonsense_is_an_error() {
    assert!(record(b"").is_err());
    assert!(record(br#"{"annotations":{"#).is_err());
    assert!(record(br#"{"annotations":[]}"#).is_err());
}

#[test]
fn both_layouts_are_found_and_forgotten() {
    let state = tempfile::tempdir().unwrap();
    let put = |place: &str, text: &str| {
        let file = state.path().join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    put("aa/config.json", &containerd("container"));
    put("bb/userdata/config.json", &containerd("container"));
    put("cc/config.json", &containerd("sandbox"));
    put("dd/notes", "no record yet");
    let missing = state.path().join("missing");
    let mut runtime = Runtime::new(vec![missing, state.path().to_owned()]);
    let mut errors = Errors::default();
    runtime.refresh(&mut errors);
    assert_eq!(runtime.identity("aa").map(|i| &**i), Some(&identity()));
    assert!(runtime.identity("bb").is_some());
    assert!(runtime.identity("cc").is_none());
    assert!(runtime.identity("dd").is_none());
    assert_eq!(errors, Errors::default());

    put("dd/config.json", &containerd("container"));
    std::fs::remove_dir_all(state.path().join("aa")).unwrap();
    runtime.refresh(&mut errors);
    assert!(runtime.identity("aa").is_none());
    assert!(runtime.identity("dd").is_some());
    assert_eq!(errors, Errors::default());
}

#[test]
fn a_broken_record_is_counted_and_tried_again() {
    let state = tempfile::tempdir().unwrap();
    std::fs::create_dir(state.path().join("aa")).unwrap();
    std::fs::write(state.path().join("aa/config.json"), "{").unwrap();
    let mut runtime = Runtime::new(vec![state.path().to_owned()]);
    let mut errors = Errors::default();
    runtime.refresh(&mut errors);
    assert_eq!(errors.of(Stage::Record), 1);
    std::fs::write(state.path().join("aa/config.json"), containerd("container")).unwrap();
    runtime.refresh(&mut errors);
    assert_eq!(errors.of(Stage::Record), 1);
    assert!(runtime.identity("aa").is_some());
}

#[test]
fn no_folder_at_all_is_an_error() {
    let mut errors = Errors::default();
    let mut runtime = Runtime::new(vec!["/nonexistent/state".into()]);
    runtime.refresh(&mut errors);
    assert_eq!(errors.of(Stage::Runtime), 1);
    assert!(runtime.is_empty());
}
