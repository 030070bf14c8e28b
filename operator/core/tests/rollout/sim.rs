//! A fleet in memory: applies the acts of a decision as an API server and its controllers would, and answers with the
//! world as it then is. Every difference from the real thing that matters is a test of the lab.

use std::collections::BTreeMap;

use heapfleet_core::decide::{attempt_name, decide, needs};
use heapfleet_core::decision::{Action, Decision};
use heapfleet_core::inject::{CLAIM, apply, canonical_hash};
use heapfleet_core::judge;
use heapfleet_core::names::{
    Claim, ClusterUid, GENERATED_LETTERS, Kind, PlanHash, Region, WorkloadId,
};
use heapfleet_core::plan::{
    Allocator, Delivery, Limit, OnExisting, OnRegression, OnUnreachable, Plan, Platform,
    RegressionAction, Scope, Target, Wave,
};
use heapfleet_core::rollout::{Outcome, RegionState, Stage};
use heapfleet_core::world::{
    Attempt, ClusterView, Journal, JournalStage, Metrics, MetricsNeed, Node, Pod, PodSeries,
    Policy, Refusal, RegionView, Revision, Running, SeriesId, Unseen, Update, Verb, Workload,
    World,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) const CAPACITY: f64 = 64.0 * 1024.0 * 1024.0;

#[derive(Clone, Debug)]
pub(crate) struct SimPod {
    pub name: String,
    pub uid: String,
    pub hash: String,
    pub born: f64,
    pub died: Option<f64>,
    /// When its process was started again in place.
    pub restarted: Option<f64>,
    pub allocator: String,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one fault that a test may switch on"
)]
pub(crate) struct SimRegion {
    pub reachable: bool,
    pub prometheus: bool,
    /// What a preload of the wanted library leads to in this region's image.
    pub loads: bool,
    /// Whether the probe says nothing of this region's pods.
    pub silent: bool,
    pub object: Value,
    pub generation: i64,
    pub revisions: Vec<(String, Value)>,
    pub pods: Vec<SimPod>,
    pub journals: BTreeMap<String, Journal>,
    pub crash: bool,
    pub update: Update,
    pub older_policy: Option<String>,
    pub writes: u32,
    serial: u32,
}

pub(crate) struct Sim {
    pub now: Timestamp,
    pub intent: Result<Plan, Refusal>,
    pub policy: Policy,
    pub attempts: Vec<Attempt>,
    pub regions: BTreeMap<Region, SimRegion>,
    /// RSS ÷ cache by allocator.
    pub ratios: BTreeMap<String, f64>,
    /// By how much a region's pods are worse than that, from an instant on.
    pub worse: Option<(Region, f64, f64)>,
    /// What the process remembers from pass to pass.
    pub running: Running,
    /// Every how many passes it forgets that; 0: never.
    pub forgets: u32,
    /// Passes so far, and of those that asked for samples after a change how many asked for all of them.
    pub passes: u32,
    pub asked: (u32, u32),
    pub log: Vec<String>,
    /// Acts that are lost although they were decided: the process was killed after the commit.
    pub lose_acts: bool,
    pub deleted: bool,
    /// Old observations that are answered instead of what is there.
    pub replayed: BTreeMap<Region, ClusterView>,
}

pub(crate) fn id() -> WorkloadId {
    WorkloadId {
        kind: Kind::Deployment,
        name: "trace-server".to_owned(),
    }
}

pub(crate) fn plan(allocator: &str) -> Plan {
    let region = |name: &str| Region::new(name);
    let wave = |name: &str, regions: &[&str]| Wave {
        name: name.to_owned(),
        regions: regions.iter().map(|name| region(name)).collect(),
        max_concurrent_regions: 1,
        bake_blocks: 60,
        gates: Vec::new(),
    };
    let judge = judge::Settings {
        block_seconds: 1.0,
        scrape_seconds: 0.25,
        delay_seconds: 1.0,
        baseline_seconds: 60.0,
        min_bake_blocks: 60,
        max_bake_blocks: 300,
        gate_timeout_seconds: 600.0,
        verify_deadline_seconds: 10.0,
        restart_noise: Some(0.015),
        declared: judge::Declared {
            capacity: true,
            evictions: true,
            requests: true,
            peak: false,
        },
        ..judge::Settings::default()
    };
    Plan {
        hash: PlanHash::new(format!("v1-{allocator}00000000")),
        attempt: 1,
        allocator: Allocator {
            class: allocator.to_owned(),
            name: allocator.to_owned(),
            delivery: if allocator == "glibc" {
                Delivery::Tunables
            } else {
                Delivery::PreloadInImage {
                    path: format!("lib{allocator}.so.2"),
                }
            },
            on_existing: OnExisting::Skip,
            options: if allocator == "glibc" {
                BTreeMap::from([("glibc.malloc.arena_max".to_owned(), "2".to_owned())])
            } else {
                BTreeMap::new()
            },
            env: Vec::new(),
            platforms: vec![Platform {
                arch: "amd64".to_owned(),
                max_page_size: 4096,
            }],
            symbol_prefix: String::new(),
            images: Vec::new(),
        },
        target: Target {
            kinds: vec![Kind::Deployment],
            selector: "app=trace-server".to_owned(),
            containers: Vec::new(),
            exclude: Vec::new(),
        },
        waves: vec![
            wave("canary", &["ore"]),
            wave("asia", &["nrt"]),
            wave("control", &["fra"]),
        ],
        control: vec![region("fra")],
        restart_control: true,
        max_concurrent_workloads: Limit::Count(2),
        workload_deadline: SignedDuration::from_secs(60),
        stability_window: SignedDuration::from_secs(600),
        verify_deadline: SignedDuration::from_secs(10),
        on_unreachable: OnUnreachable::Wait,
        unreachable_deadline: SignedDuration::from_secs(3600),
        on_regression: OnRegression {
            action: RegressionAction::Rollback,
            scope: Scope::Region,
        },
        fixed_capacity: None,
        judge,
    }
}

/// Hexadecimal digits in the letters of which Kubernetes makes names.
fn letters(digits: &str) -> String {
    let letter = |c: char| {
        GENERATED_LETTERS
            .chars()
            .nth(usize::try_from(c.to_digit(16).unwrap()).unwrap())
            .unwrap()
    };
    digits.chars().map(letter).collect()
}

pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(seconds)
}

impl Sim {
    pub(crate) fn new(allocator: &str) -> Self {
        let now = at(1_800_000_000.0);
        let regions = ["ore", "nrt", "fra"]
            .map(|name| (Region::new(name), SimRegion::new(name, seconds(now))));
        Self {
            now,
            intent: Ok(plan(allocator)),
            policy: Policy {
                namespace: "trace".to_owned(),
                name: "trace".to_owned(),
                uid: "policy-uid".to_owned(),
                generation: 1,
                deleting: false,
                finalizer: false,
                suspend: false,
                restore_on_delete: true,
                history_limit: 10,
                accepted: None,
            },
            attempts: Vec::new(),
            regions: regions.into_iter().collect(),
            ratios: BTreeMap::from([
                ("glibc".to_owned(), 3.2),
                ("jemalloc".to_owned(), 1.5),
                ("mimalloc".to_owned(), 4.1),
                ("glibc-tuned".to_owned(), 1.2),
            ]),
            worse: None,
            running: Running::new(),
            forgets: 0,
            passes: 0,
            asked: (0, 0),
            log: Vec::new(),
            lose_acts: false,
            deleted: false,
            replayed: BTreeMap::new(),
        }
    }

    pub(crate) fn region(&mut self, name: &str) -> &mut SimRegion {
        self.regions.get_mut(&Region::new(name)).unwrap()
    }

    /// One pass: look, decide, commit, act. Gives the decision.
    pub(crate) fn pass(&mut self) -> Decision {
        self.passes += 1;
        if self.forgets > 0 && self.passes.is_multiple_of(self.forgets) {
            self.running.clear();
        }
        let mut world = self.world();
        for (region, need) in needs(&world) {
            self.count(&world, &region, &need);
            let metrics = self.metrics(&region, &need);
            world.regions.get_mut(&region).unwrap().metrics = Some(metrics);
        }
        let mut decision = decide(&world);
        self.running = std::mem::take(&mut decision.running);
        if let Some(commit) = &decision.commit {
            let attempt = self
                .attempts
                .iter_mut()
                .find(|attempt| attempt.name == commit.attempt)
                .unwrap();
            // What is stored is what a restarted process reads.
            let text = serde_json::to_string(&commit.position).unwrap();
            attempt.position = Some(serde_json::from_str(&text).unwrap());
        }
        for event in &decision.events {
            self.log.push(format!("{} {}", event.reason, event.note));
        }
        if !self.lose_acts {
            for action in decision.actions.clone() {
                self.act(action);
            }
        }
        decision
    }

    fn count(&mut self, world: &World, region: &Region, need: &MetricsNeed) {
        let position = world.attempts.last().and_then(|a| a.position.as_ref());
        let state = position.and_then(|position| position.regions.get(region));
        let state = state.filter(|state| state.stage == Stage::Baking);
        if let Some(changed) = state.and_then(|state| state.changed_at) {
            self.asked.0 += 1;
            self.asked.1 += u32::from(need.from <= changed);
        }
    }

    /// So many passes, a second apart.
    pub(crate) fn pass_for(&mut self, passes: u32) {
        for _ in 0..passes {
            let _looked = self.pass();
            self.advance(1);
        }
    }

    /// Passes until `done`, at most `limit` simulated seconds.
    pub(crate) fn run_until(&mut self, limit: i64, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + SignedDuration::from_secs(limit);
        while !done(self) {
            assert!(
                self.now < end,
                "not done within {limit} s:\n{}\n{:?}",
                self.log.join("\n"),
                self.pass().findings
            );
            let decision = self.pass();
            assert!(decision.wake_at > self.now, "wakes in the past");
            self.advance(1);
        }
    }

    pub(crate) fn advance(&mut self, secs: i64) {
        self.now += SignedDuration::from_secs(secs);
        let now = seconds(self.now);
        for region in self.regions.values_mut() {
            region.settle(now);
        }
    }

    /// A region's state in the newest attempt.
    pub(crate) fn state(&self, name: &str) -> Option<&RegionState> {
        let position = self.attempts.last()?.position.as_ref()?;
        position.regions.get(&Region::new(name))
    }

    /// Whether an event of that reason was told.
    pub(crate) fn told(&self, reason: &str) -> bool {
        self.log.iter().any(|line| line.starts_with(reason))
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let position = self.attempts.last()?.position.as_ref()?;
        position.ending.as_ref().map(|ending| ending.outcome)
    }

    pub(crate) fn world(&self) -> World {
        let regions = self.regions.iter().map(|(name, region)| {
            let cluster = if let Some(old) = self.replayed.get(name) {
                Ok(old.clone())
            } else if region.reachable {
                Ok(region.view(name, seconds(self.now)))
            } else {
                Err(Unseen {
                    because: "connection refused".to_owned(),
                })
            };
            (
                name.clone(),
                RegionView {
                    cluster,
                    metrics: None,
                },
            )
        });
        World {
            now: self.now,
            policy: self.policy.clone(),
            intent: self.intent.clone(),
            attempts: self.attempts.clone(),
            regions: regions.collect(),
            claim: Claim::new("hub/policy-uid"),
            running: self.running.clone(),
        }
    }

    fn metrics(&self, name: &Region, need: &MetricsNeed) -> Result<Metrics, Unseen> {
        let region = &self.regions[name];
        if !region.prometheus {
            return Err(Unseen {
                because: "connection refused".to_owned(),
            });
        }
        let (from, to) = (seconds(need.from), seconds(self.now));
        let mut metrics = Metrics::default();
        for pod in &region.pods {
            if pod.died.is_some_and(|died| died < from) {
                continue;
            }
            let mut series = PodSeries {
                starts: std::iter::once(pod.born).chain(pod.restarted).collect(),
                ..PodSeries::default()
            };
            let end = pod.died.unwrap_or(to).min(to);
            if end > pod.born + 1.0 && !region.silent {
                // The probe sees which library serves a process, not how it is set up.
                let name = pod.allocator.trim_end_matches("-tuned");
                series.allocators.insert(name.to_owned(), end);
            }
            if !need.proof_only {
                self.samples(name, pod, from.max(pod.born), end, &mut series);
            }
            metrics.pods.insert(pod.name.clone(), series);
        }
        Ok(metrics)
    }

    fn samples(&self, region: &Region, pod: &SimPod, from: f64, to: f64, out: &mut PodSeries) {
        let ratio = self.ratios[&pod.allocator];
        let mut t = (from * 4.0).ceil() / 4.0;
        while t <= to {
            let began = pod.restarted.filter(|at| *at <= t).unwrap_or(pod.born);
            let age = t - began;
            let cache = CAPACITY * (age / 5.0).min(0.985);
            // A reproducible wobble of half a percent that no two pods share.
            let wobble = 1.0
                + 0.005
                    * ((t * 1.7 + f64::from(u32::try_from(pod.name.len()).unwrap()) + pod.born)
                        .sin()
                        + (t * 0.31).cos() * 0.5);
            let worse = self
                .worse
                .as_ref()
                .filter(|(of, since, _)| of == region && t >= *since);
            let ratio = ratio * worse.map_or(1.0, |(_, _, factor)| *factor);
            let flow = 20e6 * (age - 5.0).max(0.0);
            let mut put =
                |id: SeriesId, value: f64| out.series.entry(id).or_default().push((t, value));
            put(SeriesId::Rss, cache * ratio * wobble);
            put(SeriesId::Cache, cache);
            put(SeriesId::Capacity, CAPACITY);
            put(SeriesId::Evictions, flow);
            put(SeriesId::Requests, age * 1000.0);
            t += 0.25;
        }
    }

    fn act(&mut self, action: Action) {
        let now = seconds(self.now);
        match action {
            Action::AddFinalizer => self.policy.finalizer = true,
            Action::RemoveFinalizer => {
                self.policy.finalizer = false;
                self.deleted = true;
            }
            Action::CreateAttempt { name, plan } => {
                assert_eq!(name, attempt_name(&self.policy.name, &plan));
                if !self.attempts.iter().any(|attempt| attempt.name == name) {
                    self.attempts.push(Attempt {
                        name,
                        plan: *plan,
                        state: Verb::Run,
                        approvals: Vec::new(),
                        position: None,
                    });
                }
            }
            Action::DeleteAttempt { name } => self.attempts.retain(|attempt| attempt.name != name),
            Action::Inject { region, injection } => {
                let region = self.regions.get_mut(&region).unwrap();
                let journal = Journal {
                    name: injection.journal.clone(),
                    stage: JournalStage::Intent,
                    record: injection.record.clone(),
                };
                region
                    .journals
                    .entry(injection.journal.clone())
                    .or_insert(journal);
                region.patch(&injection.record.patch, now);
            }
            Action::Undo { region, patch, .. } | Action::Reapply { region, patch, .. } => {
                self.regions.get_mut(&region).unwrap().patch(&patch, now);
            }
            Action::MarkJournal {
                region,
                journal,
                stage,
            } => {
                if let Some(journal) = self
                    .regions
                    .get_mut(&region)
                    .unwrap()
                    .journals
                    .get_mut(&journal)
                {
                    journal.stage = stage;
                }
            }
            Action::DropJournal { region, journal } => {
                self.regions
                    .get_mut(&region)
                    .unwrap()
                    .journals
                    .remove(&journal);
            }
            Action::Evict { region, uid, .. } => {
                self.regions.get_mut(&region).unwrap().evict(&uid, now);
            }
            Action::Disown { .. } => {}
        }
    }
}

impl SimRegion {
    fn new(name: &str, now: f64) -> Self {
        let template = json!({
            "metadata": {"labels": {"app": "trace-server"}},
            "spec": {"containers": [{"name": "server", "image": "trace-server:1", "env": [{"name": "REGION", "value": name}]}]}
        });
        let mut region = Self {
            reachable: true,
            prometheus: true,
            loads: true,
            silent: false,
            object: json!({
                "metadata": {"uid": format!("{name}-uid"), "annotations": {"deployment.kubernetes.io/revision": "1"}},
                "spec": {"template": template}
            }),
            generation: 1,
            revisions: Vec::new(),
            pods: Vec::new(),
            journals: BTreeMap::new(),
            crash: false,
            update: Update::Rolling,
            older_policy: None,
            writes: 0,
            serial: 0,
        };
        region.settle(now - 120.0);
        region
    }

    pub(crate) fn template(&self) -> &Value {
        &self.object["spec"]["template"]
    }

    pub(crate) fn claim(&self) -> Option<&str> {
        self.object["metadata"]["annotations"]
            .get(CLAIM)
            .and_then(Value::as_str)
    }

    fn hash(&self) -> String {
        canonical_hash(self.template()).chars().take(10).collect()
    }

    /// The digest of the image that pods of a revision run.
    fn digest(&self, hash: &str) -> String {
        let (_, template) = self
            .revisions
            .iter()
            .find(|(known, _)| known == hash)
            .unwrap();
        let image = &template["spec"]["containers"][0]["image"];
        format!("sha256:{}", image.as_str().unwrap())
    }

    /// What an owner or another tool does to the image.
    pub(crate) fn ship(&mut self, image: &str, now: Timestamp) {
        self.object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        self.generation += 1;
        self.settle(seconds(now));
    }

    fn patch(&mut self, ops: &[Value], now: f64) {
        let mut object = self.object.clone();
        object["metadata"]["generation"] = json!(self.generation);
        let Some(mut object) = apply(&object, ops) else {
            return;
        };
        let before = self.template().clone();
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("generation");
        self.object = object;
        self.writes += 1;
        if *self.template() != before {
            self.generation += 1;
            self.settle(now);
        }
    }

    pub(crate) fn evict(&mut self, uid: &str, now: f64) {
        for pod in &mut self.pods {
            if pod.uid == uid && pod.died.is_none() {
                pod.died = Some(now);
            }
        }
        self.settle(now);
    }

    /// The controllers: one revision per template, two pods of the current one.
    pub(crate) fn settle(&mut self, now: f64) {
        let hash = self.hash();
        if !self.revisions.iter().any(|(known, _)| *known == hash) {
            self.revisions.push((hash.clone(), self.template().clone()));
        }
        let env = self.template()["spec"]["containers"][0]["env"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let preload = env
            .iter()
            .find(|entry| entry["name"] == "LD_PRELOAD")
            .and_then(|entry| entry["value"].as_str());
        let allocator = match preload {
            Some(path) if self.loads => path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .trim_start_matches("lib")
                .split('.')
                .next()
                .unwrap_or("glibc")
                .to_owned(),
            Some(_) | None if env.iter().any(|entry| entry["name"] == "GLIBC_TUNABLES") => {
                "glibc-tuned".to_owned()
            }
            Some(_) | None => "glibc".to_owned(),
        };
        for pod in &mut self.pods {
            let replaced = self.update == Update::Rolling;
            if replaced && pod.hash != hash && pod.died.is_none() {
                pod.died = Some(now);
            }
        }
        while self.pods.iter().filter(|pod| pod.died.is_none()).count() < 2 {
            self.serial += 1;
            self.pods.push(SimPod {
                name: format!(
                    "trace-server-{}-{}",
                    letters(&hash),
                    letters(&format!("{:05}", self.serial))
                ),
                uid: format!("pod-{}", self.serial),
                hash: hash.clone(),
                born: now,
                died: None,
                restarted: None,
                allocator: allocator.clone(),
            });
        }
    }

    fn view(&self, name: &Region, now: f64) -> ClusterView {
        let hash = self.hash();
        let live: Vec<&SimPod> = self.pods.iter().filter(|pod| pod.died.is_none()).collect();
        let ready =
            |pod: &SimPod| now >= pod.born + 2.0 && !(self.crash && pod.allocator != "glibc");
        let pods = live.iter().map(|pod| Pod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            created: at(pod.born),
            revision_hash: pod.hash.clone(),
            ready_since: ready(pod).then(|| at(pod.born + 2.0)),
            terminating: false,
            restarts: 0,
            crash_loop: (self.crash && pod.allocator != "glibc")
                .then(|| "CrashLoopBackOff".to_owned()),
            oom_killed: false,
            images: BTreeMap::from([("server".to_owned(), self.digest(&pod.hash))]),
            memory_limits: BTreeMap::new(),
        });
        let annotations = self.object["metadata"]["annotations"]
            .as_object()
            .map(|map| {
                map.iter()
                    .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
                    .collect()
            });
        let workload = Workload {
            uid: self.object["metadata"]["uid"].as_str().unwrap().to_owned(),
            generation: self.generation,
            annotations,
            managed_entry: None,
            template: self.template().clone(),
            replicas: 2,
            paused: false,
            deleting: false,
            settled: live.iter().all(|pod| ready(pod)),
            progress: u32::try_from(live.iter().filter(|pod| ready(pod)).count()).unwrap(),
            max_unavailable: 0,
            update: self.update,
            controller: None,
            older_policy: self.older_policy.clone(),
            revision: Some(Revision {
                name: format!("trace-server-{hash}"),
                hash,
            }),
            journals: self.journals.values().cloned().collect(),
            pods: pods.collect(),
        };
        ClusterView {
            uid: ClusterUid::new(name.as_str()),
            namespace_opted_in: true,
            nodes: BTreeMap::from([(
                "node".to_owned(),
                Node {
                    arch: "amd64".to_owned(),
                    page_size_label: None,
                    kernel: "6.1".to_owned(),
                    runtime: "containerd://2.1.4".to_owned(),
                    kubelet: "v1.36.3".to_owned(),
                    labels: BTreeMap::new(),
                    taints: Vec::new(),
                    unschedulable: false,
                },
            )]),
            workloads: BTreeMap::from([(id(), workload)]),
        }
    }
}
