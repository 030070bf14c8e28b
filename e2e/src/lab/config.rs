//! Takes nothing or a few choices, gives what a lab shall be; must never choose a folder that is not named after the
//! lab.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::{images::ImageSpec, progress::Progress};

/// What a lab shall be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The state folder, an absolute path; the lab deletes it in the end.
    pub root: PathBuf,
    /// First part of cgroup names.
    pub name_prefix: String,
    /// The regions: 1 to 20 names of lower-case letters and digits.
    pub regions: Vec<String>,
    /// Whether each region has a node, with containers.
    pub kubelets: bool,
    /// Whether each region has a Prometheus.
    pub prometheus: bool,
    /// Images for every node.
    pub images: Vec<ImageSpec>,
    /// How often Prometheus scrapes, as a Prometheus duration.
    pub scrape_interval: String,
    /// Whether steps are told on standard error.
    pub progress: Progress,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            root: default_root(),
            name_prefix: "hf".to_owned(),
            regions: ["ore", "fra", "nrt"].map(str::to_owned).to_vec(),
            kubelets: true,
            prometheus: true,
            images: Vec::new(),
            scrape_interval: "250ms".to_owned(),
            progress: Progress::Shown,
        }
    }
}

impl Config {
    /// A lab with one region and no node: an API server with its controllers.
    pub fn planes(root: PathBuf) -> Self {
        Self {
            root,
            regions: vec!["ore".to_owned()],
            kubelets: false,
            prometheus: false,
            ..Self::default()
        }
    }

    /// Refuses what cannot be built.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            (1..=20).contains(&self.regions.len()),
            "a lab has 1 to 20 regions, not {}",
            self.regions.len()
        );
        for (i, name) in self.regions.iter().enumerate() {
            let fit = !name.is_empty()
                && name.len() <= 12
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            ensure!(
                fit,
                "`{name}` is no name of a region: 1 to 12 lower-case letters and digits"
            );
            ensure!(
                !self.regions.iter().take(i).any(|other| other == name),
                "the region `{name}` comes twice"
            );
        }
        let prefix_fit = !self.name_prefix.is_empty()
            && self.name_prefix.chars().all(|c| c.is_ascii_alphanumeric());
        ensure!(
            prefix_fit,
            "`{}` is no prefix: letters and digits only",
            self.name_prefix
        );
        Ok(())
    }
}

/// `${XDG_STATE_HOME}/heapfleet-lab`, else `/var/lib/heapfleet-lab`, else a folder of that name among the temporary
/// ones.
pub fn default_root() -> PathBuf {
    let xdg = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let system = || Some(PathBuf::from("/var/lib")).filter(|p| p.is_dir());
    xdg.or_else(system)
        .unwrap_or_else(std::env::temp_dir)
        .join("heapfleet-lab")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfit_regions_are_refused() {
        let with = |regions: &[&str]| {
            Config {
                regions: regions.iter().map(|r| (*r).to_owned()).collect(),
                ..Config::default()
            }
            .check()
        };
        assert!(with(&["ore", "fra"]).is_ok());
        for bad in [
            &[][..],
            &["Ore"],
            &["ore", "ore"],
            &["../x"],
            &["a-region-with-a-long-name"],
        ] {
            assert!(with(bad).is_err(), "{bad:?}");
        }
    }
}
