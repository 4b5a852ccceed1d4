//! Classes of nodes that a DaemonSet cannot distinguish, so that one finding covers thousands of them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::facts::node_removal::is_by_autoscaler;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::startup_taint::is_startup;

/// What the findings about a node's eligibility depend on, besides taints and label keys.
pub struct NodeClasses<'a> {
    keys: BTreeSet<&'a str>,
    by_name: bool,
}

impl<'a> NodeClasses<'a> {
    /// Collects the labels that a DaemonSet's template depends on.
    pub fn new(daemon_set: &'a DaemonSet) -> Self {
        let spec = &daemon_set.spec.template.spec;
        let terms = || spec.required_node_affinity().into_iter().flat_map(|selector| &selector.node_selector_terms);
        let expressions = terms().flat_map(|term| &term.match_expressions);
        let keys = spec.node_selector.keys().chain(expressions.map(|expression| &expression.key));
        NodeClasses {
            keys: keys.map(String::as_str).collect(),
            by_name: terms().any(|term| !term.match_fields.is_empty()),
        }
    }

    /// Returns whether the template depends on a label.
    pub fn depends_on(&self, label: &str) -> bool {
        self.keys.contains(label)
    }

    /// Returns a number that two nodes share only if the findings about them are the same; `None` if that is not known in advance.
    pub fn of(&self, node: &Node) -> Option<u64> {
        // The findings mention how long a node has not been ready, or has been under removal, and the pod that removes
        // a startup taint or installs the network.
        let has_its_own = |taint: &Taint| {
            is_by_autoscaler(&taint.key)
                || is_startup(&taint.key)
                || taint.key == "node.kubernetes.io/network-unavailable"
        };
        if self.by_name || node.spec.taints.iter().any(has_its_own) || node.not_ready().is_some() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for taint in &node.spec.taints {
            (&taint.key, &taint.value, &taint.effect).hash(&mut hasher);
        }
        for (key, value) in &node.metadata.labels {
            key.hash(&mut hasher);
            if self.depends_on(key) {
                value.hash(&mut hasher);
            }
        }
        Some(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::NodeClasses;
    use crate::coverage::test_support::world;

    #[test]
    fn only_what_the_template_depends_on_tells_ready_nodes_apart() {
        let snapshot = world()
            .template(json!({"nodeSelector": {"disk": "ssd"}}))
            .node("a", json!({"metadata": {"labels": {"disk": "hdd"}}}))
            .node("b", json!({"metadata": {"labels": {"disk": "hdd"}}}))
            .node("c", json!({"metadata": {"labels": {"disk": "none"}}}))
            .node("d", json!({"metadata": {"labels": {"disk": "hdd", "disc": "ssd"}}}))
            .node("e", json!({"metadata": {"labels": {"disk": "hdd"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}))
            .node("f", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}))
            .node("g", json!({"spec": {"taints": [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]}}))
            .finish();
        let classes = NodeClasses::new(&snapshot.daemon_sets[0]);
        let of = |number: usize| classes.of(&snapshot.nodes[number]);
        assert!(of(0).is_some());
        assert_eq!(of(0), of(1));
        for other in [2, 3, 4] {
            assert_ne!(of(0), of(other));
        }
        assert_eq!([of(5), of(6)], [None, None]);
    }

    #[test]
    fn a_node_affinity_tells_nodes_apart_by_the_labels_of_its_expressions_or_by_their_names() {
        let classes_of = |term| {
            let required = json!({"nodeSelectorTerms": [term]});
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            let snapshot = world()
                .template(json!({"affinity": affinity}))
                .node("a", json!({"metadata": {"labels": {"disk": "ssd"}}}))
                .node("b", json!({"metadata": {"labels": {"disk": "ssd"}}}))
                .node("c", json!({"metadata": {"labels": {"disk": "hdd"}}}))
                .finish();
            let classes = NodeClasses::new(&snapshot.daemon_sets[0]);
            snapshot.nodes.iter().map(|node| classes.of(node)).collect::<Vec<_>>()
        };
        let by_label = classes_of(json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}));
        assert!(by_label[0].is_some() && by_label[0] == by_label[1] && by_label[0] != by_label[2], "{by_label:?}");
        let by_name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}]});
        assert_eq!(classes_of(by_name), [None, None, None]);
    }
}
