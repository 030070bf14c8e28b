use super::*;

const ID: &str = "4f2c1a9be0d34c5f8a7b6e5d4c3b2a190f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn find(cgroup: &str) -> Option<String> {
    container_id(cgroup.as_bytes(), |candidate| candidate == ID).map(str::to_owned)
}

#[test]
fn identity_survives_any_name() {
    let line = |name: &str, state: &str| {
        format!(
            "77 ({name}) {state} 1 77 77 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 4 0 12345 999 5\n"
        )
    };
    let expected = Stat {
        ended: false,
        start_ticks: 12345,
    };
    for name in ["server", "a b", "a) S 1 2", "((", ")", "\n"] {
        assert_eq!(stat(line(name, "S").as_bytes()), Some(expected), "{name:?}");
    }
    assert!(stat(line("server", "Z").as_bytes()).unwrap().ended);
    let not_utf8 = [b"77 (\xff\xfe".as_slice(), &line("x", "S").as_bytes()[5..]].concat();
    assert_eq!(stat(&not_utf8), Some(expected));
}

#[test]
fn a_cut_stat_is_nothing() {
    for text in [
        "",
        "77",
        "77 (a",
        "77 (a)",
        "77 (a) S 1 2 3",
        "77 (a) S 1 x",
    ] {
        assert_eq!(stat(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn memory_is_in_bytes() {
    let text = "Name:\tserver\nVmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n\
                RssAnon:\t  150 kB\nRssFile:\t   50 kB\nThreads:\t17\n";
    assert_eq!(
        status(text.as_bytes()),
        Some(Status {
            rss: 204_800,
            rss_anon: 153_600,
            rss_peak: 307_200,
            threads: 17
        })
    );
}

#[test]
fn without_memory_there_is_no_status() {
    assert_eq!(status(b"Name:\tkthreadd\nThreads:\t1\n"), None);
    assert_eq!(status(b""), None);
    assert_eq!(status(b"VmRSS:\t99999999999999999999 kB\n"), None);
}

#[test]
fn ids_in_the_paths_of_all_runtimes() {
    for path in [
        // containerd with cgroupfs, version 1 and below an own root
        format!("9:name=systemd:/\n4:memory:/kubepods/burstable/pod0f-1/{ID}\n"),
        format!("4:memory:/hf-ore/kubepods/besteffort/pod0f-1/{ID}\n0::/\n"),
        // version 2
        format!("0::/kubepods/pod0f-1/{ID}\n"),
        format!("0::/kubepods.slice/kubepods-podx.slice/cri-containerd-{ID}.scope\n"),
        format!("0::/kubepods.slice/kubepods-podx.slice/crio-{ID}.scope\n"),
        format!("0::/kubepods.slice/kubepods-podx.slice/crio-{ID}.scope/container\n"),
        format!("0::/system.slice/docker-{ID}.scope/init.scope\n"),
        format!("1:cpu:/system.slice/containerd.service/kubepods-podx.slice:cri-containerd:{ID}\n"),
        // seen from a cgroup namespace
        format!("0::/../../kubepods-podx.slice/cri-containerd-{ID}.scope\n"),
    ] {
        assert_eq!(find(&path).as_deref(), Some(ID), "{path}");
    }
}

#[test]
fn other_paths_have_no_container() {
    for path in [
        String::new(),
        "0::/\n".into(),
        "0::/init.scope\n".into(),
        "nonsense\n".into(),
        format!("0::/kubepods/pod0f-1/{}\n", ID.replace('4', "5")),
        format!("0::/kubepods/{ID}x/y\n"),
    ] {
        assert_eq!(find(&path), None, "{path}");
    }
    assert_eq!(container_id(b"0::/\xff", |_| true), None);
}

#[test]
fn the_innermost_known_container_wins() {
    let nested = format!("0::/docker/{ID}/kubepods/podx/inner\n");
    let found = container_id(nested.as_bytes(), |c| c == ID || c == "inner");
    assert_eq!(found, Some("inner"));
}

#[test]
fn page_size_and_ticks_of_the_auxiliary_vector() {
    let words: Vec<u8> = [33_usize, 1, 6, 65_536, 17, 100, 0, 0]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    assert_eq!(
        auxv(&words),
        Some(Auxv {
            page_size: 65_536,
            ticks_per_second: 100
        })
    );
    assert_eq!(auxv(&words[..24]), None);
    assert_eq!(auxv(&[]), None);
}

#[test]
fn boot_time_and_huge_pages() {
    assert_eq!(
        boot_seconds(b"cpu 1 2\nbtime 1700000000\nprocesses 5\n"),
        Some(1_700_000_000)
    );
    assert_eq!(boot_seconds(b"cpu 1 2\n"), None);
    assert_eq!(thp_mode(b"always [madvise] never\n"), Some("madvise"));
    assert_eq!(thp_mode(b"[always] madvise never\n"), Some("always"));
    assert_eq!(thp_mode(b"always madvise never\n"), None);
    assert_eq!(thp_mode(b"[]"), None);
}
