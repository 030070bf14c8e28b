//! Tables over what owners set themselves: what stands in the way, what is joined, what is only assumed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::owner;
use super::preload::{Preloaded, preloaded};
use super::tests::{allocator, apply, change, id, workload};
use super::{assumptions, undo};
use crate::decision::Reason;
use crate::plan::{Allocator, Delivery, OnExisting};

fn linked() -> Allocator {
    Allocator {
        class: "jemalloc-linked".to_owned(),
        delivery: Delivery::Linked,
        symbol_prefix: "_rjem_".to_owned(),
        images: Vec::new(),
        env: Vec::new(),
        ..allocator()
    }
}

fn glibc() -> Allocator {
    Allocator {
        class: "glibc-tuned".to_owned(),
        name: "glibc".to_owned(),
        delivery: Delivery::Tunables,
        options: BTreeMap::from([("glibc.malloc.arena_max".to_owned(), "2".to_owned())]),
        env: Vec::new(),
        ..allocator()
    }
}

fn mimalloc() -> Allocator {
    Allocator {
        name: "mimalloc".to_owned(),
        options: BTreeMap::from([("purge_delay".to_owned(), "5".to_owned())]),
        env: Vec::new(),
        ..allocator()
    }
}

fn template(env: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "server", "env": env}]}})
}

fn check(allocator: &Allocator, env: &Value) -> Result<(), (Reason, String)> {
    owner::check_env(&id(), "server", &template(env), allocator)
        .map_err(|refused| (refused.reason, refused.message))
}

fn preload(value: &str) -> Value {
    json!([{"name": "LD_PRELOAD", "value": value}])
}

#[test]
fn a_preload_that_names_an_allocator_is_never_joined() {
    let cases = [
        ("libjemalloc.so.2", Reason::NoChange),
        ("libx.so:/usr/lib/libjemalloc.so.1", Reason::NoChange),
        ("/opt/lib/libmimalloc.so", Reason::InjectionConflict),
        (
            "libx.so libtcmalloc_minimal.so.4",
            Reason::InjectionConflict,
        ),
        ("libsnmallocshim.so", Reason::InjectionConflict),
        ("libhoard.so", Reason::InjectionConflict),
        ("libc_malloc_debug.so.0", Reason::InjectionConflict),
        ("libasan.so.8", Reason::InjectionConflict),
        (
            "/usr/lib/clang/17/lib/libclang_rt.asan-x86_64.so",
            Reason::InjectionConflict,
        ),
    ];
    for (value, reason) in cases {
        let (refused, message) = check(&allocator(), &preload(value)).unwrap_err();
        assert_eq!(refused, reason, "{message}");
        assert!(message.contains(value), "{message}");
    }
    for value in [
        "",
        " : ",
        "/opt/jemalloc-tools/libx.so",
        "libnss_wrapper.so:libx.so",
    ] {
        assert_eq!(check(&allocator(), &preload(value)), Ok(()), "{value}");
    }
}

#[test]
fn another_library_is_joined_only_where_the_class_says_so() {
    let skip = Allocator {
        on_existing: OnExisting::Skip,
        ..allocator()
    };
    let (reason, message) = check(&skip, &preload("libx.so")).unwrap_err();
    assert_eq!(reason, Reason::PreloadAlreadySet);
    assert_eq!(
        message,
        "Deployment/server: container server sets LD_PRELOAD=libx.so and class jemalloc says onExisting: Skip; remove it or use a class with Prepend."
    );
    // Deliveries that load nothing leave it alone, but not an allocator in it.
    for loads_nothing in [linked(), glibc()] {
        assert_eq!(check(&loads_nothing, &preload("libx.so")), Ok(()));
        let (reason, _) = check(&loads_nothing, &preload("libmimalloc.so")).unwrap_err();
        assert_eq!(reason, Reason::InjectionConflict);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_would_be_replaced_is_a_conflict() {
    let from = json!({"fieldRef": {"fieldPath": "x"}});
    let cases = [
        (
            allocator(),
            json!([{"name": "LD_PRELOAD", "valueFrom": from}]),
            Reason::VariableFromSource,
        ),
        (
            allocator(),
            json!([{"name": "LD_PRELOAD", "value": "$(OTHER)"}]),
            Reason::VariableFromSource,
        ),
        (
            allocator(),
            json!([{"name": "LD_PRELOAD", "value": "a.so"}, {"name": "LD_PRELOAD", "value": "b.so"}]),
            Reason::InjectionConflict,
        ),
        (
            allocator(),
            json!([{"name": "MALLOC_CONF", "value": "narenas:1"}]),
            Reason::InjectionConflict,
        ),
        (
            allocator(),
            json!([{"name": "MALLOC_CONF", "valueFrom": from}]),
            Reason::VariableFromSource,
        ),
        (
            allocator(),
            json!([{"name": "DYN_JEMALLOC", "value": "0"}]),
            Reason::InjectionConflict,
        ),
        (
            linked(),
            json!([{"name": "_RJEM_MALLOC_CONF", "value": "narenas:1"}]),
            Reason::InjectionConflict,
        ),
        (
            mimalloc(),
            json!([{"name": "mimalloc_purge_delay", "value": "1"}]),
            Reason::InjectionConflict,
        ),
        (
            glibc(),
            json!([{"name": "GLIBC_TUNABLES", "value": "glibc.cpu.hwcaps=x"}]),
            Reason::InjectionConflict,
        ),
        (
            glibc(),
            json!([{"name": "MALLOC_ARENA_MAX", "valueFrom": from}]),
            Reason::InjectionConflict,
        ),
        // Written already, to the letter.
        (
            linked(),
            json!([{"name": "_RJEM_MALLOC_CONF", "value": "background_thread:true,dirty_decay_ms:5000"}]),
            Reason::NoChange,
        ),
        (
            glibc(),
            json!([{"name": "GLIBC_TUNABLES", "value": "glibc.malloc.arena_max=2"}]),
            Reason::NoChange,
        ),
    ];
    for (allocator, env, reason) in cases {
        let (refused, message) = check(&allocator, &env).unwrap_err();
        assert_eq!(refused, reason, "{env}: {message}");
        assert!(
            message.starts_with("Deployment/server: container server "),
            "{message}"
        );
        assert!(message.ends_with('.'), "{message}");
    }
    // Not written by this class, hence not in the way.
    for (allocator, env) in [
        (
            linked(),
            json!([{"name": "MALLOC_CONF", "value": "narenas:1"}]),
        ),
        (
            allocator(),
            json!([{"name": "_RJEM_MALLOC_CONF", "value": "narenas:1"}]),
        ),
        (
            allocator(),
            json!([{"name": "MALLOC_ARENA_MAX", "value": "2"}]),
        ),
        (glibc(), json!([{"name": "MALLOC_TOP_PAD_", "value": "2"}])),
    ] {
        assert_eq!(check(&allocator, &env), Ok(()), "{env}");
    }
}

#[test]
fn what_the_owner_set_says_what_the_control_is() {
    let told = |allocator: &Allocator, body: Value| -> Vec<(Reason, String)> {
        let mut container = body;
        container["name"] = json!("server");
        let template = json!({"spec": {"containers": [container]}});
        assumptions(&template, "server", allocator)
            .into_iter()
            .map(|one| {
                assert!(!one.message.is_empty());
                (one.reason, one.what)
            })
            .collect()
    };
    let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
    let one = |reason: Reason, what: &str| vec![(reason, what.to_owned())];
    let bare = Allocator {
        options: BTreeMap::new(),
        ..allocator()
    };
    assert_eq!(
        told(&allocator(), env("MALLOC_ARENA_MAX", "2")),
        one(Reason::ControlTuned, "MALLOC_ARENA_MAX=2")
    );
    assert_eq!(
        told(&allocator(), env("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")),
        one(Reason::ControlTuned, "GLIBC_TUNABLES=glibc.malloc.mxfast=0")
    );
    assert_eq!(
        told(&allocator(), env("GLIBC_TUNABLES", "glibc.cpu.x=1")),
        []
    );
    assert_eq!(
        told(&glibc(), env("MALLOC_TRIM_THRESHOLD_", "1")),
        one(Reason::ControlTuned, "MALLOC_TRIM_THRESHOLD_=1")
    );
    assert_eq!(
        told(&bare, env("MALLOC_CONF", "narenas:1")),
        one(Reason::OwnerOptions, "MALLOC_CONF=narenas:1")
    );
    assert_eq!(
        told(&allocator(), env("_RJEM_MALLOC_CONF", "narenas:1")),
        one(Reason::ControlTuned, "_RJEM_MALLOC_CONF=narenas:1")
    );
    assert_eq!(
        told(&mimalloc(), env("mimalloc_verbose", "1")),
        one(Reason::OwnerOptions, "mimalloc_verbose=1")
    );
    assert_eq!(told(&allocator(), env("OTHER", "1")), []);
    // Only a prefix that none of the watched names begins with is known to be harmless.
    let from = |prefix: Option<&str>| {
        let mut source = json!({"configMapRef": {"name": "settings"}});
        if let Some(prefix) = prefix {
            source["prefix"] = json!(prefix);
        }
        json!({"envFrom": [source]})
    };
    let unseen = one(Reason::EnvUnseen, "envFrom ConfigMap settings");
    assert_eq!(told(&allocator(), from(None)), unseen);
    assert_eq!(told(&allocator(), from(Some("MALLOC_"))), unseen);
    assert_eq!(told(&allocator(), from(Some("APP_"))), []);
    let forked = json!({"command": ["/usr/bin/gunicorn"], "args": ["app:app"]});
    assert_eq!(
        told(&allocator(), forked.clone()),
        one(Reason::ForkedChildren, "gunicorn")
    );
    assert_eq!(told(&bare, forked), []);
}

#[test]
fn a_linked_allocator_gets_its_variable_and_the_switch_and_nothing_is_loaded() {
    let allocator = Allocator {
        env: vec![("DYN_JEMALLOC".to_owned(), "1".to_owned())],
        ..linked()
    };
    let wanted: Vec<String> = super::wanted_env(&allocator).into_keys().collect();
    assert_eq!(wanted, ["DYN_JEMALLOC", "_RJEM_MALLOC_CONF"]);
    let unprefixed = Allocator {
        symbol_prefix: String::new(),
        images: Vec::new(),
        ..allocator
    };
    let wanted: Vec<String> = super::wanted_env(&unprefixed).into_keys().collect();
    assert_eq!(wanted, ["DYN_JEMALLOC", "MALLOC_CONF"]);
}

proptest! {
    /// Whatever other libraries are there: their order, their separators and empty entries are kept behind ours, ours comes
    /// first, and the undo gives the value back to the byte.
    #[test]
    fn a_joined_preload_keeps_every_byte_of_the_owner(prior in "[a-z./ :]{0,24}") {
        prop_assume!(matches!(preloaded(&prior), Preloaded::Nothing | Preloaded::Others));
        let mut entry = json!({"name": "LD_PRELOAD"});
        if !prior.is_empty() {
            entry["value"] = json!(prior);
        }
        let before = workload(&json!([{"name": "server", "env": [entry]}]), None);
        let record = change(&before).record;
        let after = apply(&before, &record.patch).unwrap();
        let written = record.env.iter().find(|write| write.name == "LD_PRELOAD").unwrap();
        prop_assert!(written.value.starts_with("libjemalloc.so.2"));
        prop_assert!(written.value.ends_with(&prior));
        let between = written.value.len() - "libjemalloc.so.2".len() - prior.len();
        prop_assert_eq!(between, usize::from(!prior.is_empty()));
        let back = apply(&after, &undo(&after, &record).unwrap()).unwrap();
        prop_assert_eq!(back.template, before.template);
    }
}
