use super::*;

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"uid": "u1", "name": "trace-0", "namespace": "shop", "annotations": annotations},
        "spec": {"nodeName": "ore-1", "containers": [
            {"name": "side"},
            {"name": "cache", "ports": [{"containerPort": 8080}, {"containerPort": 9000}]},
        ]},
        "status": {"podIP": "10.111.0.7"},
    })
}

#[test]
fn the_annotated_port_gives_address_and_container() {
    let annotations = json!({"prometheus.io/scrape": "true", "prometheus.io/port": "9000", "prometheus.io/path": "/m"});
    let entry = target(&pod(&annotations), "ore", false).unwrap();
    assert_eq!(entry["targets"], json!(["10.111.0.7:9000"]));
    let labels = json!({"__metrics_path__": "/m", "region": "ore", "node": "ore-1", "namespace": "shop",
        "pod": "trace-0", "container": "cache"});
    assert_eq!(entry["labels"], labels);
}

#[test]
fn without_the_port_annotation_the_first_declared_port_counts() {
    let entry = target(&pod(&json!({"prometheus.io/scrape": "true"})), "ore", false).unwrap();
    assert_eq!(entry["targets"], json!(["10.111.0.7:8080"]));
}

#[test]
fn a_pod_is_in_one_list_and_only_when_it_asks() {
    let quiet = pod(&json!({}));
    let honored =
        pod(&json!({"prometheus.io/scrape": "true", "prometheus.io/honor-labels": "true"}));
    assert!(target(&quiet, "ore", false).is_none() && target(&quiet, "ore", true).is_none());
    assert!(target(&honored, "ore", false).is_none() && target(&honored, "ore", true).is_some());
}

#[test]
fn events_add_replace_and_remove() {
    let mut pods = BTreeMap::new();
    let text = format!(
        r#"{{"type":"ADDED","object":{0}}} {{"type":"MODIFIED","object":{0}}}{{"type":"DELETED","object":{0}}} nonsense"#,
        pod(&json!({}))
    );
    let (send, receive) = channel();
    read(text.as_bytes(), &send);
    drop(send);
    let sizes: Vec<_> = receive
        .into_iter()
        .map(|event| {
            note(&mut pods, event);
            pods.len()
        })
        .collect();
    assert_eq!(sizes, [1, 1, 0]);
}
