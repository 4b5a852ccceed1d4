//! k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity_test.go

use std::collections::BTreeMap;

use kubectl_ds::model::daemon_set::PodTemplate;
use kubectl_ds::model::metadata::ObjectMeta;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::{NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec};
use kubectl_ds::scheduling::affinity::{AffinityOutcome, RequiredNodeAffinity, TermOutcome};
use kubectl_ds::scheduling::should_run::DaemonPod;
use serde::Deserialize;
use serde_json::json;

use super::rows;

fn node(name: &str, labels: BTreeMap<String, String>) -> Node {
    Node {
        metadata: ObjectMeta { name: name.to_owned(), labels: labels.into(), ..ObjectMeta::default() },
        ..Node::default()
    }
}

fn affinity(terms: &[NodeSelectorTerm]) -> RequiredNodeAffinity {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    RequiredNodeAffinity::new(&PodSpec::deserialize(json!({"affinity": {"nodeAffinity": required}})).unwrap())
}

fn is_invalid(outcome: &AffinityOutcome) -> bool {
    let AffinityOutcome::NoMatch { terms } = outcome else { return false };
    terms.iter().any(|term| matches!(term, TermOutcome::Invalid { .. }))
}

/// TestNodeSelectorMatch, without the row whose node is nil. Upstream parses strictly here, so a row
/// that is invalid says nothing of a match.
#[test]
fn node_selectors_match_as_they_do_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        terms: Vec<NodeSelectorTerm>,
        #[serde(default)]
        node: Node,
        invalid: bool,
        want: bool,
    }
    for Row { name, terms, node, invalid, want } in rows(include_str!("node_selectors.json")) {
        let affinity = affinity(&terms);
        let outcome = affinity.explain(&node);
        assert_eq!(is_invalid(&outcome), invalid, "{name}");
        if !invalid {
            assert_eq!((affinity.matches(&node), outcome.is_match()), (want, want), "{name}");
        }
    }
}

/// TestNodeSelectorRequirementsAsSelector
#[test]
fn requirements_are_parsed_as_they_are_upstream() {
    #[derive(Deserialize)]
    struct Row {
        requirements: Vec<NodeSelectorRequirement>,
        invalid: bool,
    }
    for Row { requirements, invalid } in rows(include_str!("requirements.json")) {
        let term = NodeSelectorTerm { match_expressions: requirements.clone(), match_fields: Vec::new() };
        let affinity = affinity(&[term]);
        let labels = |foo: &str, bar: &str| {
            BTreeMap::from([("foo", foo), ("bar", bar)].map(|(key, value)| (key.to_owned(), value.to_owned())))
        };
        let outcome = affinity.explain(&node("n", labels("1", "7")));
        assert_eq!(is_invalid(&outcome), invalid, "{requirements:?}");
        // Each valid selector upstream (foo in (bar,baz), foo>1, bar<7) matches exactly one of these nodes.
        let matching = [labels("baz", "7"), labels("2", "7"), labels("1", "6")];
        let count = matching.into_iter().filter(|labels| affinity.matches(&node("n", labels.clone()))).count();
        assert_eq!(count, usize::from(!invalid && !requirements.is_empty()), "{requirements:?}");
        assert!(!outcome.is_match(), "{requirements:?}");
    }
}

/// TestPodMatchesNodeSelectorAndAffinityTerms
#[test]
fn pods_match_nodes_as_they_do_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Row {
        name: String,
        pod: Pod,
        node_name: String,
        labels: BTreeMap<String, String>,
        want: bool,
    }
    for Row { name, pod, node_name, labels, want } in rows(include_str!("required_node_affinity.json")) {
        let template = PodTemplate { spec: pod.spec, ..PodTemplate::default() };
        let node = node(&node_name, labels);
        let pod = DaemonPod::new(&template);
        assert_eq!((pod.decide(&node).should_run, pod.explain(&node).decision.should_run), (want, want), "{name}");
    }
}
