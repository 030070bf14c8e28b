use super::*;
use crate::probe::allocator::{Allocator, Mapped, Settings};
use crate::probe::errors::Errors;
use crate::probe::procfs::Status;
use crate::probe::runtime::Identity;
use crate::probe::scan::Origin;
use std::collections::BTreeSet;
use std::time::Duration;

fn container(pod: &str) -> Container {
    Container {
        identity: Arc::new(Identity {
            namespace: "shop".into(),
            pod: pod.into(),
            uid: "6f1e".into(),
            container: "server".into(),
        }),
        memory: Status {
            rss: 100,
            rss_anon: 90,
            rss_peak: 120,
            threads: 17,
        },
        processes: 2,
        start_seconds: 1_700_000_123.5,
        mapped: Some(Mapped {
            allocator: Allocator::Jemalloc,
            library: "libjemalloc.so.2".into(),
        }),
        settings: Some((
            Settings {
                preload: Some("/lib/\"x\"\\libjemalloc.so.2".into()),
                options: vec![("MALLOC_CONF".into(), "background_thread:true".into())],
            },
            Origin::Process,
        )),
    }
}

fn page(containers: Vec<Container>) -> String {
    let mut errors = Errors::default();
    errors.add(Stage::Vanished);
    text(Arc::new(Snapshot {
        node: "ore-1".into(),
        containers,
        page_size: Some(4096),
        thp: Some("madvise".into()),
        took: Duration::from_millis(12),
        errors,
    }))
    .unwrap()
}

#[test]
fn every_series_of_a_container_has_its_labels() {
    let text = page(vec![container("trace-1")]);
    let labels = r#"namespace="shop",pod="trace-1",uid="6f1e",container="server",node="ore-1""#;
    for line in [
        format!("heapfleet_probe_rss_bytes{{{labels}}} 100"),
        format!("heapfleet_probe_rss_anon_bytes{{{labels}}} 90"),
        format!("heapfleet_probe_rss_peak_bytes{{{labels}}} 120"),
        format!("heapfleet_probe_processes{{{labels}}} 2"),
        format!("heapfleet_probe_threads{{{labels}}} 17"),
        format!(
            "heapfleet_probe_allocator_info{{{labels},allocator=\"jemalloc\",library=\"libjemalloc.so.2\"}} 1"
        ),
        format!(
            r#"heapfleet_probe_preload_info{{{labels},preload="/lib/\"x\"\\libjemalloc.so.2",origin="process"}} 1"#
        ),
        format!(
            "heapfleet_probe_option_info{{{labels},variable=\"MALLOC_CONF\",value=\"background_thread:true\",origin=\"process\"}} 1"
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let start = format!("heapfleet_probe_start_time_seconds{{{labels}}} ");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap();
    assert!(
        (value.parse::<f64>().unwrap() - 1_700_000_123.5).abs() < 1e-3,
        "{value}"
    );
}

#[test]
fn the_node_has_its_series_without_containers() {
    let text = page(Vec::new());
    for line in [
        r#"heapfleet_probe_page_size_bytes{node="ore-1"} 4096"#,
        r#"heapfleet_probe_thp_info{node="ore-1",mode="madvise"} 1"#,
        r#"heapfleet_probe_scan_errors_total{node="ore-1",stage="vanished"} 1"#,
        r#"heapfleet_probe_scan_errors_total{node="ore-1",stage="maps"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(
        text.contains("\nheapfleet_probe_scan_seconds{node=\"ore-1\"} "),
        "{text}"
    );
}

#[test]
fn families_are_together_and_named_once() {
    let text = page(vec![container("trace-1"), container("trace-2")]);
    let types: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE "))
        .collect();
    assert_eq!(types.len(), types.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(types.len(), 13);
    assert_eq!(
        text.lines()
            .filter(|l| l.starts_with("heapfleet_probe_rss_bytes{"))
            .count(),
        2
    );
}

#[test]
fn what_cannot_be_read_is_absent_and_not_set_is_empty() {
    let hidden = Container {
        mapped: None,
        settings: None,
        ..container("hidden")
    };
    let unset = Container {
        settings: Some((Settings::default(), Origin::Record)),
        ..container("unset")
    };
    let text = page(vec![hidden, unset]);
    assert!(!text.contains(r#"allocator_info{namespace="shop",pod="hidden""#));
    assert!(!text.contains(r#"preload_info{namespace="shop",pod="hidden""#));
    assert!(
        text.contains(r#"node="ore-1",preload="",origin="record"} 1"#),
        "{text}"
    );
}
