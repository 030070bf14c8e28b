//! Tables over delivery Tunables: glibc against glibc, set up by environment alone.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tests::{allocator, apply, id, object, workload};
use super::{Presence, Restored, inject, owner, presence, restored, undo, wanted_env};
use crate::decision::Reason;
use crate::names::{Claim, PlanHash};
use crate::plan::{Allocator, Delivery};

fn tuned() -> Allocator {
    Allocator {
        class: "glibc-tuned".to_owned(),
        name: "glibc".to_owned(),
        delivery: Delivery::Tunables,
        options: BTreeMap::from([
            ("glibc.malloc.arena_max".to_owned(), "2".to_owned()),
            (
                "glibc.malloc.trim_threshold".to_owned(),
                "131072".to_owned(),
            ),
        ]),
        env: Vec::new(),
        ..allocator()
    }
}

#[test]
fn tunables_are_one_variable_and_nothing_is_loaded() {
    let before = workload(&json!([{"name": "server", "image": "a"}]), None);
    let (claim, plan) = (Claim::new("hub/policy"), PlanHash::new("v1-1"));
    let change = inject(&id(), &before, "server", &tuned(), None, &claim, &plan, 1).unwrap();
    let after = apply(&before, &change.record.patch).unwrap();
    assert_eq!(
        after.template["spec"]["containers"],
        json!([{"name": "server", "image": "a", "env": [
            {"name": "GLIBC_TUNABLES", "value": "glibc.malloc.arena_max=2:glibc.malloc.trim_threshold=131072"},
        ]}])
    );
    assert_eq!(presence(&after, &change.record), Presence::Present);
    let back = apply(&after, &undo(&after, &change.record).unwrap()).unwrap();
    assert_eq!(object(&back)["spec"], object(&before)["spec"]);
    assert_eq!(restored(&back, &change.record), Ok(Restored::Exact));
}

#[test]
fn no_option_means_no_variable() {
    let plain = Allocator {
        options: BTreeMap::new(),
        ..tuned()
    };
    assert!(wanted_env(&plain).is_empty());
}

#[test]
fn what_the_owner_set_up_already_is_a_conflict_where_we_would_replace_it() {
    let check = |env: Value| {
        let template = json!({"spec": {"containers": [{"name": "server", "env": [env]}]}});
        owner::check_env(&id(), "server", &template, &tuned())
            .map_err(|refused| (refused.reason, refused.message))
    };
    let cases = [
        (
            Reason::InjectionConflict,
            json!({"name": "GLIBC_TUNABLES", "value": "glibc.malloc.mxfast=0"}),
            "Deployment/server: container server sets GLIBC_TUNABLES=glibc.malloc.mxfast=0 itself",
        ),
        (
            Reason::InjectionConflict,
            json!({"name": "MALLOC_ARENA_MAX", "value": "4"}),
            "Deployment/server: container server sets MALLOC_ARENA_MAX=4 itself, the older name of glibc.malloc.arena_max, which class glibc-tuned would set to 2",
        ),
        (
            Reason::VariableFromSource,
            json!({"name": "GLIBC_TUNABLES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}),
            "Deployment/server: container server takes GLIBC_TUNABLES from elsewhere",
        ),
    ];
    for (expected, env, start) in cases {
        let (reason, message) = check(env).unwrap_err();
        assert_eq!(reason, expected);
        assert!(message.starts_with(start), "{message}");
    }
    // Neither is replaced: a preload stays in force, and a tunable that the class leaves alone is the owner's.
    for env in [
        json!({"name": "MALLOC_PERTURB_", "value": "1"}),
        json!({"name": "LD_PRELOAD", "value": "libx.so"}),
    ] {
        assert_eq!(check(env), Ok(()));
    }
}
