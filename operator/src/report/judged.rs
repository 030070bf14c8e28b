//! Takes what the judge said last of each region in judgement, gives it as metrics at each scrape. A region that is judged
//! no more has no series any more. Never computes a number of its own.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heapfleet_core::decision::{Decision, Judged};
use heapfleet_core::judge::Numbers;
use heapfleet_core::judge::num::real;
use heapfleet_core::names::{Region, WorkloadId};
use heapfleet_core::rollout::Stage;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::PolicyKey;

type Subject = (PolicyKey, Region, WorkloadId);

/// What the judge said last, by policy, region and workload.
#[derive(Clone, Debug, Default)]
pub(super) struct JudgeMetrics(Arc<Mutex<BTreeMap<Subject, Judged>>>);

impl JudgeMetrics {
    /// Takes over what one pass over a policy judged, and drops the regions that are judged no more.
    pub(super) fn tell(&self, key: &PolicyKey, decision: &Decision) {
        let position = decision.commit.as_ref().map(|commit| &commit.position);
        let judged = |region: &Region| {
            let position = position.filter(|position| position.ending.is_none());
            let state = position.and_then(|position| position.regions.get(region));
            state.is_some_and(|state| match state.stage {
                Stage::Baseline | Stage::Injecting | Stage::Verifying | Stage::Baking => true,
                Stage::Passed => !state.frozen.is_empty(),
                Stage::Nothing
                | Stage::Undoing
                | Stage::Undone
                | Stage::Unverified
                | Stage::Failed => false,
            })
        };
        let mut all = self.all();
        for look in &decision.looks {
            let subject = (key.clone(), look.region.clone(), look.workload.clone());
            all.insert(subject, look.clone());
        }
        all.retain(|(of, region, _), _| of != key || judged(region));
    }

    /// Forgets a policy that is gone.
    pub(super) fn forget(&self, key: &PolicyKey) {
        self.all().retain(|(of, _, _), _| of != key);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Subject, Judged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Labels beyond those of the subject, and a value.
type Sample = (Vec<(&'static str, String)>, f64);

/// One family: name, help, and what it shows of one look.
type Family = (&'static str, &'static str, fn(&Judged) -> Vec<Sample>);

const FAMILIES: [Family; 7] = [
    (
        "judge_ratio",
        "Resident memory divided by accounted cache bytes at the last look, by arm",
        |look| {
            let arms = [("canary", look.ratio), ("control", look.control_ratio)];
            let known = arms.into_iter().filter_map(|(arm, v)| Some((arm, v?)));
            known
                .map(|(arm, v)| (vec![("arm", arm.to_owned())], v))
                .collect()
        },
    ),
    (
        "judge_change",
        "Change of a metric against the control, each against its own baseline, as a fraction, with anytime-valid bounds",
        |look| {
            measured(look, |n| {
                vec![
                    ("bound", "estimate", n.theta.exp_m1()),
                    ("bound", "lower", n.lower.exp_m1()),
                    ("bound", "upper", n.upper.exp_m1()),
                ]
            })
        },
    ),
    (
        "judge_detectable_effect",
        "Smallest regression of a metric that would be shown now in half of all cases, as a fraction",
        |look| measured(look, |n| vec![("", "", n.detectable)]),
    ),
    (
        "judge_evidence",
        "Evidence of a metric by test: against the tolerance (ln E and the line), below the margin (promotion)",
        |look| {
            measured(look, |n| {
                vec![
                    ("test", "e-process", n.ln_e),
                    ("test", "line", n.b),
                    ("test", "promotion", n.b_n),
                ]
            })
        },
    ),
    (
        "judge_evidence_needed",
        "Evidence at which each test decides",
        |look| {
            measured(look, |n| {
                vec![
                    ("test", "e-process", n.ln_e_needed),
                    ("test", "line", n.b_needed),
                    ("test", "promotion", n.b_n_needed),
                ]
            })
        },
    ),
    (
        "judge_blocks_accepted",
        "Blocks accepted since the change",
        |look| vec![(Vec::new(), real(look.accepted))],
    ),
    (
        "judge_blocks_refused",
        "Blocks refused since the change, by the first reason",
        |look| {
            let each = look.refused.iter();
            each.map(|(code, n)| (vec![("reason", code.to_string())], real(*n)))
                .collect()
        },
    ),
];

/// Samples of every metric that has a block; an empty label name stands for none.
fn measured(
    look: &Judged,
    of: impl Fn(&Numbers) -> Vec<(&'static str, &'static str, f64)>,
) -> Vec<Sample> {
    let metrics = look.numbers.iter().filter(|n| n.blocks > 0);
    metrics
        .flat_map(|n| of(n).into_iter().map(move |sample| (n, sample)))
        .map(|(n, (label, value, number))| {
            let mut labels = vec![("metric", n.metric.clone())];
            if !label.is_empty() {
                labels.push((label, value.to_owned()));
            }
            (labels, number)
        })
        .collect()
}

impl Collector for JudgeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let all = self.all();
        for (name, help, of) in FAMILIES {
            if all.is_empty() {
                return Ok(());
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (((namespace, policy), region, workload), look) in all.iter() {
                for (own, value) in of(look) {
                    let mut labels = vec![
                        ("namespace", namespace.clone()),
                        ("policy", policy.clone()),
                        ("region", region.to_string()),
                        ("workload", workload.to_string()),
                    ];
                    labels.extend(own);
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use heapfleet_core::decision::Commit;
    use heapfleet_core::judge::Code;
    use heapfleet_core::names::Kind;
    use heapfleet_core::rollout::{Ending, Outcome, Position, RegionState};
    use heapfleet_core::status::{PolicyReport, RolloutReport};
    use jiff::Timestamp;

    use super::*;
    use crate::report::Metrics;

    fn position() -> Position {
        let state: RegionState = serde_json::from_value(serde_json::json!({
            "stage": "Baking", "since": "2026-11-30T12:00:00Z", "workloads": {}, "refused": {}, "changed_at": null,
            "bake_started": null, "look": null, "failed": null, "unreachable_since": null, "sizes": {}, "frozen": {},
        }))
        .unwrap();
        let mut position = Position::new(Timestamp::UNIX_EPOCH);
        position.regions.insert(Region::new("ore"), state);
        position
    }

    fn decision() -> Decision {
        let look = Judged {
            region: Region::new("ore"),
            workload: WorkloadId {
                kind: Kind::Deployment,
                name: "trace-server".to_owned(),
            },
            numbers: vec![Numbers {
                metric: "ratio".to_owned(),
                theta: -0.7,
                blocks: 12,
                b_n: 4.5,
                b_n_needed: 1.96,
                detectable: 0.06,
                ..Numbers::default()
            }],
            accepted: 12,
            refused: BTreeMap::from([(Code::CacheNotFull, 3)]),
            ratio: Some(1.5),
            control_ratio: None,
            whole: true,
        };
        Decision {
            commit: Some(Commit {
                attempt: "trace-1".to_owned(),
                position: position(),
                report: RolloutReport::default(),
            }),
            policy: PolicyReport::default(),
            actions: Vec::new(),
            events: Vec::new(),
            findings: Vec::new(),
            looks: vec![look],
            running: BTreeMap::new(),
            wake_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_region_shows_its_numbers_while_it_is_judged() {
        let metrics = Metrics::new();
        let key = ("trace".to_owned(), "demo".to_owned());
        let mut decision = decision();
        metrics.judge.tell(&key, &decision);
        let text = metrics.text().unwrap();
        let of =
            r#"namespace="trace",policy="demo",region="ore",workload="Deployment/trace-server""#;
        for line in [
            format!("heapfleet_judge_ratio{{{of},arm=\"canary\"}} 1.5"),
            format!("heapfleet_judge_change{{{of},metric=\"ratio\",bound=\"estimate\"}} -0.503"),
            format!("heapfleet_judge_detectable_effect{{{of},metric=\"ratio\"}} 0.06"),
            format!("heapfleet_judge_evidence{{{of},metric=\"ratio\",test=\"promotion\"}} 4.5"),
            format!(
                "heapfleet_judge_evidence_needed{{{of},metric=\"ratio\",test=\"promotion\"}} 1.96"
            ),
            format!("heapfleet_judge_blocks_accepted{{{of}}} 12"),
            format!("heapfleet_judge_blocks_refused{{{of},reason=\"CacheNotFull\"}} 3"),
        ] {
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("arm=\"control\""), "not known, not shown");
        // A pass without a look changes nothing; the end of the rollout takes all of it away.
        decision.looks.clear();
        metrics.judge.tell(&key, &decision);
        assert_eq!(metrics.text().unwrap(), text);
        if let Some(commit) = &mut decision.commit {
            commit.position.ending = Some(Ending {
                outcome: Outcome::Promoted,
                reason: heapfleet_core::decision::Reason::AllWavesComplete,
                message: String::new(),
                at: Timestamp::UNIX_EPOCH,
            });
        }
        metrics.judge.tell(&key, &decision);
        assert!(!metrics.text().unwrap().contains("judge_ratio"));
    }
}
