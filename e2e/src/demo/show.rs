//! Takes a lab's configuration, gives the whole demonstration to the person in front of it.

use std::fmt::Write as _;

use anyhow::Result;

use super::fleet::{Fleet, HUB, NAMESPACE};
use super::story::{self, Ended};
use super::workload::Server;
use crate::lab::{Config, Lab};

/// What a demonstration told.
#[derive(Debug)]
pub struct Told {
    /// The stories, in order.
    pub stories: Vec<Ended>,
}

impl Told {
    /// The table at the end.
    pub fn table(&self) -> String {
        let mut table = String::from("\nSTORY            OUTCOME\n");
        for story in &self.stories {
            // Writing into a String cannot fail.
            let _never = writeln!(table, "{:<16} {}", story.title, story.outcome);
        }
        table
    }
}

/// Starts the fleet, tells all stories, ends the fleet.
pub fn run(config: Config) -> Result<Told> {
    let progress = config.progress;
    let fleet = Fleet::up(config, &[Server::Q])?;
    fleet.regions_ready()?;
    let kubeconfig = fleet.lab.kubeconfig(HUB)?;
    progress.say(&format!(
        "watch it yourself: kubectl --kubeconfig {} -n {NAMESPACE} get apol,arol -w",
        kubeconfig.display()
    ));
    let stories = vec![
        story::unloaded_library(&fleet)?,
        story::exact_rollback(&fleet)?,
        story::promotion(&fleet)?,
    ];
    let lab: Lab = fleet.lab;
    progress.during("ending the fleet", || lab.down())?;
    Ok(Told { stories })
}
