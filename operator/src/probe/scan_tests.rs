use super::*;
use crate::probe::fixture::{JEMALLOC, LIBC, Node};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn scan(scanner: &mut Scanner) -> Snapshot {
    let now = Instant::now();
    scanner.scan(now, now + Duration::from_mins(1)).unwrap()
}

fn allocator(container: &Container) -> Option<Allocator> {
    container.mapped.as_ref().map(|mapped| mapped.allocator)
}

#[test]
fn processes_are_summed_and_the_largest_names_the_allocator() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 12_345, 100); // a shell, older and smaller
    node.process(11, "aa", 12_400, 5_000);
    node.put("proc/11/maps", format!("{JEMALLOC}{LIBC}").as_bytes());
    node.put(
        "proc/11/environ",
        b"LD_PRELOAD=/usr/lib/libjemalloc.so.2\0SECRET=s\0",
    );
    node.process(12, "stranger", 1, 9_000);
    node.put("proc/uptime", b"not a process");
    let snapshot = scan(&mut Scanner::new(node.args()));
    let [container] = snapshot.containers.as_slice() else {
        panic!("{snapshot:?}")
    };
    assert_eq!(container.identity.pod, "trace-1");
    assert_eq!(
        container.memory,
        Status {
            rss: 5_100 << 10,
            rss_anon: 5_100 << 10,
            rss_peak: 10_200 << 10,
            threads: 6
        }
    );
    assert_eq!(container.processes, 2);
    assert!((container.start_seconds - 1_700_000_123.45).abs() < 1e-6);
    assert_eq!(allocator(container), Some(Allocator::Jemalloc));
    let (settings, origin) = container.settings.as_ref().unwrap();
    assert_eq!(
        settings.preload.as_deref(),
        Some("/usr/lib/libjemalloc.so.2")
    );
    assert_eq!(*origin, Origin::Process);
    assert_eq!(
        (snapshot.page_size, snapshot.thp.as_deref()),
        (Some(4096), Some("madvise"))
    );
    assert_eq!(snapshot.errors, Errors::default());
}

#[test]
fn a_node_without_containers_is_an_answer() {
    let node = Node::new();
    node.process(10, "aa", 1, 100);
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert!(snapshot.containers.is_empty());
    assert_eq!(snapshot.errors, Errors::default());
}

#[test]
fn processes_that_go_are_counted_and_not_reported() {
    let node = Node::new();
    node.container("aa", "trace-1");
    for (pid, gone) in [(10, "stat"), (11, "status"), (12, "cgroup")] {
        node.process(pid, "aa", 1, 100);
        node.remove(&format!("proc/{pid}/{gone}"));
    }
    node.process(13, "aa", 1, 100);
    node.stat(13, 'Z', 1);
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert!(snapshot.containers.is_empty());
    assert_eq!(snapshot.errors.of(Stage::Vanished), 3);
    assert_eq!(snapshot.errors.of(Stage::Process), 0);
}

#[test]
fn nonsense_in_stat_is_a_fault() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    node.put("proc/10/stat", b"?");
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert!(snapshot.containers.is_empty());
    assert_eq!(snapshot.errors.of(Stage::Process), 1);
}

#[test]
fn a_pid_used_again_is_not_mixed_up() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    let mut scanner = Scanner::new(node.args());
    scan(&mut scanner);
    // The same pid, younger: what was found in the maps of the older one does not hold.
    node.process(10, "aa", 500, 100);
    node.put("proc/10/maps", format!("{JEMALLOC}{LIBC}").as_bytes());
    assert_eq!(
        allocator(&scan(&mut scanner).containers[0]),
        Some(Allocator::Jemalloc)
    );
}

/// The start time changes all the time, as if the pid were used again between any two reads.
#[test]
fn reuse_between_two_reads_gives_no_mixed_numbers() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut start = 1;
            while !stop.load(Relaxed) {
                start += 100;
                // Renamed into place, as no process has half a line either.
                node.stat(9_999_999, 'S', start);
                let from = node.path("proc/9999999/stat");
                fs::rename(from, node.path("proc/10/stat")).unwrap();
            }
        });
        let mut scanner = Scanner::new(node.args());
        let begin = Instant::now();
        while scanner.errors().of(Stage::Vanished) < 20 {
            scan(&mut scanner);
            assert!(
                begin.elapsed() < Duration::from_mins(1),
                "{:?}",
                scanner.errors()
            );
        }
        assert_eq!(scanner.errors().of(Stage::Process), 0);
        stop.store(true, Relaxed);
    });
}

#[test]
fn maps_are_read_again_after_exec_and_while_they_are_inconclusive() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    node.program(10, "/bin/sh");
    node.put(
        "proc/10/maps",
        b"7f00-7f01 r-xp 00000000 fe:00 7 /lib/ld-linux-x86-64.so.2\n",
    );
    let mut scanner = Scanner::new(node.args());
    assert_eq!(
        allocator(&scan(&mut scanner).containers[0]),
        Some(Allocator::Unknown)
    );
    node.put("proc/10/maps", LIBC.as_bytes());
    assert_eq!(
        allocator(&scan(&mut scanner).containers[0]),
        Some(Allocator::Glibc)
    );
    node.put("proc/10/maps", format!("{JEMALLOC}{LIBC}").as_bytes());
    assert_eq!(
        allocator(&scan(&mut scanner).containers[0]),
        Some(Allocator::Glibc),
        "cached"
    );
    node.program(10, "/srv/trace-server");
    assert_eq!(
        allocator(&scan(&mut scanner).containers[0]),
        Some(Allocator::Jemalloc)
    );
}

#[test]
fn of_two_containers_with_one_identity_the_younger_counts() {
    let node = Node::new();
    for (id, pid, start, kib) in [("aa", 10, 100, 7), ("bb", 11, 900, 8)] {
        node.container(id, "trace-1");
        node.process(pid, id, start, kib);
    }
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert_eq!(snapshot.containers.len(), 1);
    assert_eq!(snapshot.containers[0].memory.rss, 8 << 10);
}

#[test]
fn containers_beyond_the_limit_are_counted() {
    let node = Node::new();
    for n in 0..5 {
        node.container(&format!("c{n}"), &format!("trace-{n}"));
        node.process(10 + n, &format!("c{n}"), 1, 100);
    }
    let mut scanner = Scanner::new(Args {
        max_containers: 3,
        ..node.args()
    });
    let snapshot = scan(&mut scanner);
    let pods: Vec<&str> = snapshot
        .containers
        .iter()
        .map(|c| c.identity.pod.as_str())
        .collect();
    assert_eq!(pods, ["trace-0", "trace-1", "trace-2"]);
    assert_eq!(snapshot.errors.of(Stage::Limit), 2);
}

#[test]
fn after_the_deadline_there_is_no_answer_and_the_next_scan_is_whole() {
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    let mut scanner = Scanner::new(node.args());
    let now = Instant::now();
    assert_eq!(scanner.scan(now, now).unwrap_err(), Late);
    assert_eq!(scanner.errors().of(Stage::Deadline), 1);
    assert_eq!(scan(&mut scanner).containers.len(), 1);
}

#[test]
fn without_proc_there_is_an_error() {
    let node = Node::new();
    node.container("aa", "trace-1");
    let mut scanner = Scanner::new(Args {
        proc: "/nonexistent/proc".into(),
        ..node.args()
    });
    let snapshot = scan(&mut scanner);
    assert_eq!(snapshot.errors.of(Stage::Proc), 1);
    assert_eq!(snapshot.page_size, None);
}

#[test]
fn five_thousand_processes_make_no_errors() {
    let node = Node::new();
    for n in 0..50 {
        node.container(&format!("c{n}"), &format!("trace-{n}"));
    }
    for pid in 0..5000 {
        // Most belong to no container; the stranger's other files are never touched.
        if pid % 10 == 0 {
            node.process(pid, &format!("c{}", pid / 10 % 50), 1, 10);
        } else {
            node.put(
                &format!("proc/{pid}/cgroup"),
                b"0::/system.slice/x.service\n",
            );
        }
    }
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert_eq!(snapshot.containers.len(), 50);
    assert!(
        snapshot
            .containers
            .iter()
            .all(|c| c.processes == 10 && c.memory.threads == 30)
    );
    assert_eq!(snapshot.errors, Errors::default());
}

/// Whoever runs this as root can open the file all the same; then the other branch is what is tested.
#[test]
fn settings_come_from_the_record_only_where_the_environment_is_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let node = Node::new();
    node.container("aa", "trace-1");
    node.process(10, "aa", 1, 100);
    let environ = node.path("proc/10/environ");
    fs::set_permissions(&environ, fs::Permissions::from_mode(0o0)).unwrap();
    let open = fs::read(&environ).is_ok();
    let snapshot = scan(&mut Scanner::new(node.args()));
    let (settings, origin) = snapshot.containers[0].settings.clone().unwrap();
    let expected = if open {
        (None, Origin::Process)
    } else {
        (Some("/opt/a.so"), Origin::Record)
    };
    assert_eq!((settings.preload.as_deref(), origin), expected);
    assert_eq!(snapshot.errors, Errors::default());

    fs::remove_file(&environ).unwrap();
    let snapshot = scan(&mut Scanner::new(node.args()));
    assert_eq!(snapshot.containers[0].settings, None);
    assert_eq!(snapshot.errors.of(Stage::Vanished), 1);
}
