//! A replaced image: that an undo gives back what was there to the byte, and what an owner's or a tool's image leads to.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::images_tests::{allocator, id, workload};
use super::{
    CLAIM, ImageWrite, Injection, JournalRecord, Presence, Restored, inject, presence, reapply,
    restored, undo, version,
};
use crate::names::{Claim, Kind, PlanHash};
use crate::world::{Journal, JournalStage, Pod, Revision, Workload};

fn object(workload: &Workload) -> Value {
    json!({
        "metadata": {"uid": workload.uid, "generation": workload.generation, "annotations": workload.annotations},
        "spec": {"template": workload.template},
    })
}

fn apply(workload: &Workload, ops: &[Value]) -> Option<Workload> {
    let after = super::apply(&object(workload), ops)?;
    Some(Workload {
        generation: workload.generation + 1,
        template: after["spec"]["template"].clone(),
        annotations: serde_json::from_value(after["metadata"]["annotations"].clone()).unwrap(),
        ..workload.clone()
    })
}

fn change(workload: &Workload, image: Option<&str>) -> Injection {
    let (claim, plan) = (Claim::new("hub/policy"), PlanHash::new("v1-1"));
    let allocator = allocator(&[]);
    inject(
        &id(Kind::Deployment),
        workload,
        "server",
        &allocator,
        image,
        &claim,
        &plan,
        1,
    )
    .unwrap()
}

fn shipped(workload: &Workload, image: &str) -> Workload {
    let mut edited = workload.clone();
    edited.template["spec"]["containers"][1]["image"] = json!(image);
    edited.generation += 1;
    edited
}

#[test]
fn an_image_is_replaced_and_comes_back_to_the_byte() {
    let before = workload("registry.example/app:1", json!({}));
    let record = change(&before, Some("registry.example/app:je")).record;
    let write = ImageWrite {
        value: "registry.example/app:je".to_owned(),
        prior: "registry.example/app:1".to_owned(),
    };
    assert_eq!(record.image, Some(write));
    let after = apply(&before, &record.patch).unwrap();
    assert_eq!(
        after.template["spec"]["containers"][1]["image"],
        json!("registry.example/app:je")
    );
    assert_eq!(
        after.template["spec"]["containers"][0],
        before.template["spec"]["containers"][0]
    );
    assert_eq!(presence(&after, &record), Presence::Present);
    assert!(
        restored(
            &Workload {
                annotations: before.annotations.clone(),
                ..after.clone()
            },
            &record
        )
        .is_err()
    );
    let back = apply(&after, &undo(&after, &record).unwrap()).unwrap();
    assert_eq!(back.template, before.template);
    assert_eq!(restored(&back, &record), Ok(Restored::Exact));
    let half = shipped(&back, "registry.example/app:je");
    let blocked = restored(&half, &record).unwrap_err();
    assert_eq!(
        blocked.because,
        "the image is still registry.example/app:je"
    );
    let sent = undo(&after, &record).unwrap();
    assert_eq!(&sent[3..sent.len() - 1], record.inverse.as_slice());
    // The patch is void once the owner has shipped, even under the same generation.
    let mut raced = shipped(&before, "registry.example/app:2");
    raced.generation = before.generation;
    assert!(apply(&raced, &record.patch).is_none());
}

#[test]
fn a_record_without_an_image_reads_and_writes_as_before() {
    let before = workload("app:1", json!({}));
    for image in [None, Some("app:1")] {
        let record = change(&before, image).record;
        assert_eq!(record.image, None);
        let json = serde_json::to_value(&record).unwrap();
        assert!(json.get("image").is_none());
        assert_eq!(
            serde_json::from_value::<JournalRecord>(json).unwrap(),
            record
        );
    }
}

#[test]
fn what_became_of_the_image_is_told_apart() {
    let before = workload("app:1", json!({}));
    let record = change(&before, Some("app:je")).record;
    let after = apply(&before, &record.patch).unwrap();
    assert_eq!(presence(&before, &record), Presence::Absent);
    assert_eq!(
        presence(&shipped(&after, "app:1"), &record),
        Presence::ImageBack
    );
    assert_eq!(
        presence(&shipped(&after, "app:2"), &record),
        Presence::ImageReplaced("app:2".to_owned())
    );
    // All of it gone is a veto, the image included.
    let vetoed = Workload {
        template: before.template.clone(),
        ..after.clone()
    };
    assert_eq!(presence(&vetoed, &record), Presence::Reverted);
    // The image stands, a key does not.
    let mut taken = after.clone();
    taken.template["spec"]["containers"][1]
        .as_object_mut()
        .unwrap()
        .remove("env");
    assert_eq!(
        presence(&taken, &record),
        Presence::Taken("LD_PRELOAD".to_owned())
    );
    let unclaimed = Workload {
        annotations: before.annotations,
        ..after
    };
    assert_eq!(
        presence(&unclaimed, &record),
        Presence::Taken(CLAIM.to_owned())
    );
}

#[test]
fn an_undo_never_puts_an_old_image_over_a_newer_one() {
    let before = workload("app:1", json!({}));
    let record = change(&before, Some("app:je")).record;
    let after = apply(&before, &record.patch).unwrap();
    let newer = shipped(&after, "app:2");
    let back = apply(&newer, &undo(&newer, &record).unwrap()).unwrap();
    assert_eq!(
        back.template["spec"]["containers"][1],
        json!({"name": "server", "image": "app:2"})
    );
    assert_eq!(restored(&back, &record), Ok(Restored::OnNewerTemplate));
    let old = shipped(&after, "app:1");
    let back = apply(&old, &undo(&old, &record).unwrap()).unwrap();
    assert_eq!(back.template, before.template);
}

#[test]
fn an_image_that_another_tool_put_back_is_written_again_and_no_other() {
    let before = workload("app:1", json!({}));
    let record = change(&before, Some("app:je")).record;
    let after = apply(&before, &record.patch).unwrap();
    let fought = shipped(&after, "app:1");
    let patch = reapply(&fought, &record).unwrap();
    let again = apply(&fought, &patch).unwrap();
    assert_eq!(again.template, after.template);
    assert_eq!(presence(&again, &record), Presence::Present);
    assert!(apply(&again, &patch).is_none(), "a repeat changes nothing");
    assert!(reapply(&after, &record).is_none());
    assert!(reapply(&shipped(&after, "app:2"), &record).is_none());
    let plain = change(&before, None).record;
    assert!(reapply(&fought, &plain).is_none());
}

#[test]
fn a_variant_counts_as_the_version_that_it_stands_for() {
    let pod = |hash: &str, digest: &str| Pod {
        name: "p".to_owned(),
        uid: "p".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        revision_hash: hash.to_owned(),
        ready_since: None,
        terminating: false,
        restarts: 0,
        crash_loop: None,
        oom_killed: false,
        images: BTreeMap::from([("server".to_owned(), digest.to_owned())]),
        memory_limits: BTreeMap::new(),
    };
    let mut before = workload("app:1", json!({}));
    before.pods = vec![pod("1", "sha256:old")];
    let record = change(&before, Some("app:je")).record;
    let mut after = apply(&before, &record.patch).unwrap();
    after.revision = Some(Revision {
        name: "server-2".to_owned(),
        hash: "2".to_owned(),
    });
    let (old, new) = (pod("1", "sha256:old"), pod("2", "sha256:je"));
    assert_eq!(version(&after, &new, "server"), Some("sha256:je"));
    let journalled = |workload: &Workload, record: &JournalRecord, stage| {
        let mut workload = workload.clone();
        workload.journals.push(Journal {
            name: "j".to_owned(),
            stage,
            record: record.clone(),
        });
        workload
    };
    let seen = journalled(&after, &record, JournalStage::Applied);
    assert_eq!(version(&seen, &new, "server"), Some("sha256:old"));
    assert_eq!(version(&seen, &old, "server"), Some("sha256:old"));
    assert_eq!(version(&seen, &new, "side"), None);
    let older = pod("0", "sha256:older");
    assert_eq!(version(&seen, &older, "server"), Some("sha256:older"));
    let undone = journalled(&after, &record, JournalStage::Removed);
    assert_eq!(version(&undone, &new, "server"), Some("sha256:je"));
    let plain = journalled(&after, &change(&before, None).record, JournalStage::Applied);
    assert_eq!(version(&plain, &new, "server"), Some("sha256:je"));
    // What the owner shipped since is another version.
    let newer = shipped(&seen, "app:2");
    assert_eq!(
        version(&newer, &pod("2", "sha256:2"), "server"),
        Some("sha256:2")
    );
}

fn any_env() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!([]),
        json!([{"name": "A", "value": "1"}]),
        json!([{"name": "A"}, {"name": "LD_PRELOAD", "value": "x.so"}, {"name": "B", "value": "2"}]),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_after_apply_is_nothing(
        prior in "[a-z.]{1,9}(:[0-9]{1,3})?",
        value in "[a-z.]{1,9}(@sha256:[0-9a-f]{64}|:[a-z0-9.-]{1,9})",
        env in any_env(),
        replaced in any::<bool>(),
    ) {
        let mut before = workload(&prior, json!({}));
        if !env.is_null() {
            before.template["spec"]["containers"][1]["env"] = env;
        }
        let record = change(&before, replaced.then_some(value.as_str())).record;
        let after = apply(&before, &record.patch).unwrap();
        prop_assert_eq!(presence(&after, &record), Presence::Present);
        let back = apply(&after, &undo(&after, &record).unwrap()).unwrap();
        prop_assert_eq!(&back.template, &before.template);
        prop_assert_eq!(&back.annotations, &before.annotations);
        prop_assert_eq!(restored(&back, &record), Ok(Restored::Exact));
    }
}
