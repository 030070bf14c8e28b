//! A node made of files, for tests: takes what a test puts there, gives the flags to scan it.

use super::Args;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A line of `maps` with the C library.
pub(super) const LIBC: &str = "7f00-7f01 r-xp 00000000 fe:00 7 /usr/lib/libc.so.6\n";
/// A line of `maps` with jemalloc.
pub(super) const JEMALLOC: &str = "7f02-7f03 r-xp 00000000 fe:00 8 /usr/lib/libjemalloc.so.2\n";

/// A node made of files: `proc/`, `sys/` and `state/`.
pub(super) struct Node(TempDir);

impl Node {
    pub(super) fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        let words: Vec<u8> = [6_usize, 4096, 17, 100, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        node.put("proc/self/auxv", &words);
        node.put("proc/stat", b"cpu 1 2\nbtime 1700000000\n");
        node.put(
            "sys/kernel/mm/transparent_hugepage/enabled",
            b"always [madvise] never\n",
        );
        fs::create_dir_all(node.path("state")).unwrap();
        node
    }

    pub(super) fn path(&self, place: &str) -> PathBuf {
        self.0.path().join(place)
    }

    pub(super) fn put(&self, place: &str, bytes: &[u8]) {
        let file = self.path(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    pub(super) fn remove(&self, place: &str) {
        let path = self.path(place);
        let removed = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.unwrap();
    }

    pub(super) fn container(&self, id: &str, pod: &str) {
        let record = format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"container",
            "io.kubernetes.cri.container-name":"server","io.kubernetes.cri.sandbox-name":"{pod}",
            "io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-uid":"u-{pod}"}},
            "process":{{"env":["LD_PRELOAD=/opt/a.so","SECRET=s"]}}}}"#
        );
        self.put(&format!("state/{id}/config.json"), record.as_bytes());
    }

    /// A process with `kib` of memory, all of it anonymous, a peak twice that, and three threads.
    pub(super) fn process(&self, pid: u32, id: &str, start: u64, kib: u64) {
        self.stat(pid, 'S', start);
        let at = format!("proc/{pid}");
        self.put(
            &format!("{at}/cgroup"),
            format!("4:memory:/kubepods/podx/{id}\n").as_bytes(),
        );
        let status = format!(
            "Name:\tx\nVmHWM:\t{} kB\nVmRSS:\t{kib} kB\nRssAnon:\t{kib} kB\nThreads:\t3\n",
            2 * kib
        );
        self.put(&format!("{at}/status"), status.as_bytes());
        self.put(&format!("{at}/maps"), LIBC.as_bytes());
        self.put(&format!("{at}/environ"), b"PATH=/bin\0");
    }

    pub(super) fn stat(&self, pid: u32, state: char, start: u64) {
        let line = format!("{pid} (x) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0\n");
        self.put(&format!("proc/{pid}/stat"), line.as_bytes());
    }

    pub(super) fn program(&self, pid: u32, program: &str) {
        let link = self.path(&format!("proc/{pid}/exe"));
        drop(fs::remove_file(&link));
        std::os::unix::fs::symlink(program, link).unwrap();
    }

    pub(super) fn args(&self) -> Args {
        Args {
            listen: ([127, 0, 0, 1], 0).into(),
            proc: self.path("proc"),
            sys: self.path("sys"),
            runtime_state: vec![self.path("state")],
            node_name: "ore-1".into(),
            max_containers: 1000,
        }
    }
}
