//! The manifests against what the code does: the rights that are asked for are those that are granted, and no others than
//! were argued for.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_yaml::Value;

const INSTALL: &str = include_str!("../../manifests/install.yaml");
const MEMBER: &str = include_str!("../../manifests/member.yaml");

#[cfg(test)]
mod manifests {
    use super::*;

    fn documents(text: &str) -> Vec<Value> {
        let documents = serde_yaml::Deserializer::from_str(text);
        documents
            .map(|document| Value::deserialize(document).unwrap())
            .collect()
    }

    fn find(text: &str, kind: &str, name: &str) -> Value {
        let found = documents(text).into_iter().find(|document| {
            document["kind"].as_str() == Some(kind)
                && document["metadata"]["name"].as_str() == Some(name)
        });
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    fn words(value: &Value) -> Vec<String> {
        value
            .as_sequence()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    }

    /// `verb resource.group` of every rule.
    fn rights(role: &Value) -> BTreeSet<String> {
        let mut rights = BTreeSet::new();
        for rule in role["rules"].as_sequence().unwrap() {
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    for verb in words(&rule["verbs"]) {
                        rights.insert(format!("{verb} {resource}.{group}"));
                    }
                }
            }
        }
        rights
    }

    fn set(rights: &[&str]) -> BTreeSet<String> {
        rights.iter().map(|right| (*right).to_owned()).collect()
    }

    #[test]
    fn a_member_gives_what_is_needed_and_no_more() {
        let expected = set(&[
            "get deployments.apps",
            "list deployments.apps",
            "patch deployments.apps",
            "get statefulsets.apps",
            "list statefulsets.apps",
            "patch statefulsets.apps",
            "get daemonsets.apps",
            "list daemonsets.apps",
            "patch daemonsets.apps",
            "get replicasets.apps",
            "list replicasets.apps",
            "get controllerrevisions.apps",
            "list controllerrevisions.apps",
            "create controllerrevisions.apps",
            "patch controllerrevisions.apps",
            "delete controllerrevisions.apps",
            "get pods.",
            "list pods.",
            "create pods/eviction.",
            "get nodes.",
            "list nodes.",
            "get namespaces.",
        ]);
        for text in [INSTALL, MEMBER] {
            assert_eq!(
                rights(&find(text, "ClusterRole", "heapfleet-member")),
                expected
            );
        }
    }

    #[test]
    fn the_hub_gives_no_right_on_workloads_and_none_to_list_secrets() {
        let hub = rights(&find(INSTALL, "ClusterRole", "heapfleet-hub"));
        assert!(hub.iter().all(|right| {
            right.ends_with(".heapfleet.dev") || right.ends_with(" events.events.k8s.io")
        }));
        let changing: BTreeSet<String> = hub
            .into_iter()
            .filter(|right| {
                !["get ", "list ", "watch "]
                    .iter()
                    .any(|verb| right.starts_with(verb))
            })
            .collect();
        let expected = set(&[
            "patch allocatorpolicies.heapfleet.dev",
            "create allocatorrollouts.heapfleet.dev",
            "patch allocatorrollouts.heapfleet.dev",
            "delete allocatorrollouts.heapfleet.dev",
            "update allocatorpolicies/status.heapfleet.dev",
            "update allocatorrollouts/status.heapfleet.dev",
            "update allocatorregions/status.heapfleet.dev",
            "create events.events.k8s.io",
            "patch events.events.k8s.io",
        ]);
        assert_eq!(changing, expected);
        let credentials = find(INSTALL, "Role", "heapfleet-credentials");
        assert_eq!(
            credentials["metadata"]["namespace"].as_str(),
            Some("heapfleet-system")
        );
        assert_eq!(rights(&credentials), set(&["get secrets."]));
        for text in [INSTALL, MEMBER] {
            assert!(!text.contains("\"*\"") && !text.contains("['*']") && !text.contains("[*]"));
        }
    }

    #[test]
    fn the_operator_runs_restricted_and_is_probed_where_it_serves() {
        let deployment = find(INSTALL, "Deployment", "heapfleet");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(
            deployment["spec"]["strategy"]["type"].as_str(),
            Some("Recreate")
        );
        assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"].as_str(),
            Some("RuntimeDefault")
        );
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"].as_bool(), Some(false));
        assert_eq!(security["readOnlyRootFilesystem"].as_bool(), Some(true));
        assert_eq!(words(&security["capabilities"]["drop"]), ["ALL"]);
        assert_eq!(words(&container["args"]), ["run"]);
        assert_eq!(
            container["readinessProbe"]["httpGet"]["path"].as_str(),
            Some("/readyz")
        );
        assert_eq!(
            container["livenessProbe"]["httpGet"]["path"].as_str(),
            Some("/healthz")
        );
        assert_eq!(container["ports"][0]["containerPort"].as_i64(), Some(8080));
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(annotations["prometheus.io/port"].as_str(), Some("8080"));
    }

    #[test]
    fn the_member_names_the_account_whose_token_the_hub_holds() {
        let secret = find(MEMBER, "Secret", "heapfleet-hub");
        assert_eq!(
            secret["type"].as_str(),
            Some("kubernetes.io/service-account-token")
        );
        let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
        assert_eq!(account.as_str(), Some("heapfleet-hub"));
        let binding = find(MEMBER, "ClusterRoleBinding", "heapfleet-hub-member");
        assert_eq!(
            binding["subjects"][0]["name"].as_str(),
            Some("heapfleet-hub")
        );
        assert_eq!(
            binding["roleRef"]["name"].as_str(),
            Some("heapfleet-member")
        );
    }
}
