//! Takes the state of a lab, gives what each region says of itself now; must never change anything.

use std::{thread, time::Duration};

use super::{
    kubectl, prometheus,
    state::{Region, State},
};

const LIMIT: Duration = Duration::from_secs(10);

/// How a region is.
#[derive(Clone, Debug)]
pub struct RegionStatus {
    /// Its name.
    pub region: String,
    /// `ready`, or what is wrong with its API server.
    pub api_server: String,
    /// `Ready`, what is wrong, or `-` without a node.
    pub node: String,
    /// `ready`, what is wrong, or `-` without one.
    pub prometheus: String,
    /// Where this machine reaches its API server.
    pub api_url: String,
    /// Where this machine reaches its Prometheus, or `-`.
    pub prometheus_url: String,
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
}

/// Asks all regions at once.
pub(super) fn all(state: &State) -> Vec<RegionStatus> {
    thread::scope(|scope| {
        let asked: Vec<_> = state
            .regions
            .iter()
            .map(|region| scope.spawn(|| one(state, region)))
            .collect();
        asked
            .into_iter()
            .filter_map(|handle| handle.join().ok())
            .collect()
    })
}

fn one(state: &State, region: &Region) -> RegionStatus {
    let ask = |args: &[&str]| match kubectl::run(region, args, None, LIMIT) {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(first_line(&String::from_utf8_lossy(&output.stderr))),
        Err(e) => Err(first_line(&e.to_string())),
    };
    let api = ask(&["get", "--raw", "/readyz"]);
    let node = match (&api, state.kubelets) {
        (_, false) => "-".to_owned(),
        (Err(_), true) => "unknown".to_owned(),
        (Ok(_), true) => {
            let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            match ask(&["get", "node", &region.node(), "-o", path]) {
                Ok(ready) if ready == "True" => "Ready".to_owned(),
                Ok(_) => "not ready".to_owned(),
                Err(e) => e,
            }
        }
    };
    let (prometheus, prometheus_url) = if state.prometheus {
        let answer = match prometheus::get(region.prometheus_port, "/-/ready") {
            Ok(text) if text.contains(" 200 ") => "ready".to_owned(),
            Ok(text) if text.is_empty() => "no answer".to_owned(),
            Ok(text) => first_line(&text),
            Err(e) => first_line(&e.to_string()),
        };
        (
            answer,
            format!("http://127.0.0.1:{}", region.prometheus_port),
        )
    } else {
        ("-".to_owned(), "-".to_owned())
    };
    RegionStatus {
        region: region.name.clone(),
        api_server: api.map_or_else(|e| e, |_| "ready".to_owned()),
        node,
        prometheus,
        api_url: format!("https://127.0.0.1:{}", region.api_port),
        prometheus_url,
        kubeconfig: region.kubeconfig().display().to_string(),
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or("no answer")
        .chars()
        .take(60)
        .collect()
}
