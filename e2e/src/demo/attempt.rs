//! Takes a fleet and a policy, gives the ends that an attempt can have: begun, rolled back exactly, held, deleted. Must
//! never call an end reached that the objects do not show.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::fleet::{Fleet, HUB, NAMESPACE};
use super::watch::{Policy, Seen};
use super::workload::Workload;

/// Longest attempt: three regions, a bake each.
pub(super) const LONG: Duration = Duration::from_mins(15);
/// Lines of the operator's log that a failure quotes.
const LOG_LINES: &str = "--tail=60";

impl Fleet {
    /// Applies a policy to a server that is old enough for a baseline; gives what the server was before.
    pub fn begin(&self, title: &str, policy: &Policy) -> Result<BTreeMap<String, Workload>> {
        self.progress.say(&format!("--- {title}"));
        self.steady(policy.server)?;
        let before = self.workloads(policy.server)?;
        self.lab.apply(HUB, &policy.manifest())?;
        Ok(before)
    }

    /// Follows a policy until its canary is judged `Fail` and restored to the very ReplicaSet, with no other region ever
    /// written to.
    pub fn rolled_back_exactly(
        &self,
        policy: &Policy,
        before: &BTreeMap<String, Workload>,
    ) -> Result<Seen> {
        let seen = self.follow(policy.name, "RolledBack=True", LONG, |seen| {
            ensure!(
                !seen.is("Promoted", "True"),
                "a worse allocator was promoted"
            );
            Ok(seen.is("RolledBack", "True"))
        })?;
        let (_, reason, _) = seen
            .condition("RolledBack")
            .context("no condition RolledBack")?;
        ensure!(
            reason == "ExactRestore",
            "RolledBack has the reason {reason}"
        );
        let verdict = seen.text("ore", "verdict");
        ensure!(verdict == "Fail", "the canary's verdict is {verdict}");
        self.others_untouched(policy, before, true)?;
        Ok(seen)
    }

    /// Follows a policy until its canary is held for a person, with no look that passed or failed on the way.
    pub fn held(&self, policy: &Policy, before: &BTreeMap<String, Workload>) -> Result<Seen> {
        let seen = self.follow(policy.name, "Stalled=True", LONG, |seen| {
            let verdict = seen.text("ore", "verdict");
            let acted = ["Promoted", "RolledBack"]
                .into_iter()
                .find(|kind| seen.is(kind, "True"));
            ensure!(
                acted.is_none() && !matches!(verdict.as_str(), "Pass" | "Fail"),
                "the canary's verdict is {verdict}, {acted:?}: {}",
                seen.text("ore", "message")
            );
            Ok(seen.is("Stalled", "True"))
        })?;
        self.others_untouched(policy, before, false)?;
        Ok(seen)
    }

    /// No region but the canary was written to; the canary is as before where it should be.
    fn others_untouched(
        &self,
        policy: &Policy,
        before: &BTreeMap<String, Workload>,
        canary_too: bool,
    ) -> Result<()> {
        let after = self.workloads(policy.server)?;
        for (region, was) in before {
            let is = after.get(region).context("a region went away")?;
            if region != "ore" {
                ensure!(
                    is.generation == was.generation,
                    "{region} was written to: generation {} instead of {}",
                    is.generation,
                    was.generation
                );
            }
            if region != "ore" || canary_too {
                is.is_as_before(region, was)?;
            }
        }
        Ok(())
    }

    /// Deletes a policy and waits until it is gone and its server is as it was in every region.
    pub fn delete(&self, policy: &Policy, before: &BTreeMap<String, Workload>) -> Result<()> {
        let name = policy.name;
        self.progress.during(
            "deleting the policy, which restores what it changed",
            || {
                let args = ["-n", NAMESPACE, "delete", "apol", name, "--timeout=120s"];
                let output = self
                    .lab
                    .kubectl_with(HUB, &args, None, Duration::from_secs(150))?;
                ensure!(
                    output.status.success(),
                    "deleting {name}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                Ok(())
            },
        )?;
        for (region, was) in before {
            self.workload_of(region, policy.server)?
                .is_as_before(region, was)?;
        }
        Ok(())
    }

    /// The same result; an error also says what the policy, its attempt and the operator's log hold.
    pub fn explained<T>(&self, policy: &Policy, result: Result<T>) -> Result<T> {
        let error = match result {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let ask = |args: &[&str]| match self.lab.kubectl(HUB, args) {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(silent) => format!("{silent:#}"),
        };
        let status = self.look(policy.name).map_or_else(
            |silent| format!("{silent:#}"),
            |seen| {
                format!(
                    "policy {:#}\nattempt {:#}",
                    seen.policy.pointer("/status").unwrap_or_default(),
                    seen.rollout.pointer("/status/regions").unwrap_or_default()
                )
            },
        );
        let log = ask(&[
            "-n",
            "heapfleet-system",
            "logs",
            "deployment/heapfleet",
            LOG_LINES,
        ]);
        let pods = ask(&["-n", NAMESPACE, "get", "pods", "-o", "wide"]);
        bail!("{error:#}\n{status}\n--- pods in {HUB}\n{pods}\n--- the operator's log\n{log}")
    }
}
