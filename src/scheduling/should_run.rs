//! Eligibility: whether a DaemonSet should have a pod on a node.

use super::affinity::{AffinityOutcome, RequiredNodeAffinity};
use super::taints::{
    TaintOutcome, TolerationRef, automatic_tolerations, daemon_tolerations, repels, tolerates,
    tolerates_with_comparison_operators,
};
use crate::model::daemon_set::PodTemplate;
use crate::model::node::{Node, Taint};
use crate::model::pod::Toleration;

/// What the controller decides about a DaemonSet's pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the node should have a pod, so that the controller creates one if there is none.
    pub should_run: bool,
    /// Whether an existing pod may stay.
    pub should_continue_running: bool,
}

impl Decision {
    const NEITHER: Decision = Decision { should_run: false, should_continue_running: false };
}

/// The pod that a DaemonSet would have on a node, parsed once and evaluated for many nodes.
#[derive(Debug, Clone)]
pub struct DaemonPod {
    node_name: String,
    affinity: RequiredNodeAffinity,
    tolerations: Vec<Toleration>,
    automatic: Vec<Toleration>,
}

/// Every rule of eligibility for a DaemonSet on a node, whether it holds or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Eligibility {
    /// The decision.
    pub decision: Decision,
    /// The `spec.nodeName` of the template, if set.
    pub pinned_to: Option<String>,
    /// The labels that the template's node selector requires.
    pub node_selector: Vec<LabelCheck>,
    /// The result of the required node affinity.
    pub affinity: AffinityOutcome,
    /// The node's taints that can keep pods away: NoSchedule and NoExecute.
    pub taints: Vec<TaintOutcome>,
}

impl Eligibility {
    /// Returns whether nothing but taints excludes the node, if anything does.
    pub fn is_up_to_taints(&self) -> bool {
        self.pinned_to.is_none() && self.node_selector.iter().all(|check| check.matches) && self.affinity.is_match()
    }
}

/// A label that a node selector requires, and the node's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelCheck {
    /// The label's key.
    pub key: String,
    /// The value that the node selector requires.
    pub wanted: String,
    /// The node's value, if it has the label.
    pub actual: Option<String>,
    /// Whether they are equal.
    pub matches: bool,
}

impl DaemonPod {
    /// Creates the pod of a template: parses its affinity, and adds the automatic tolerations.
    ///
    /// Ported from `NewPod`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
    pub fn new(template: &PodTemplate) -> Self {
        let spec = &template.spec;
        DaemonPod {
            node_name: spec.node_name.clone(),
            affinity: RequiredNodeAffinity::new(spec),
            tolerations: daemon_tolerations(spec),
            automatic: automatic_tolerations(spec.host_network),
        }
    }

    /// Returns the pod's tolerations: the template's, after adding the automatic ones.
    pub fn tolerations(&self) -> &[Toleration] {
        &self.tolerations
    }

    /// Decides whether the pod should be on a node, without allocating.
    ///
    /// Ported from `NodeShouldRunDaemonPod`, pkg/controller/daemon/daemon_controller.go, release
    /// 1.37.2, with its feature gates at their defaults.
    pub fn decide(&self, node: &Node) -> Decision {
        if !self.fits_node_name(node) || !self.affinity.matches(node) {
            return Decision::NEITHER;
        }
        let mut should_run = true;
        for taint in &node.spec.taints {
            match taint.effect.as_str() {
                "NoExecute" if repels(taint, &self.tolerations) => return Decision::NEITHER,
                "NoSchedule" if should_run => should_run = !repels(taint, &self.tolerations),
                _ => {}
            }
        }
        Decision { should_run, should_continue_running: true }
    }

    /// Evaluates every rule on a node.
    pub fn explain(&self, node: &Node) -> Eligibility {
        let node_selector = self.affinity.node_selector.iter().map(|(key, wanted)| {
            let actual = node.metadata.labels.get(key);
            LabelCheck {
                key: key.clone(),
                wanted: wanted.clone(),
                actual: actual.cloned(),
                matches: actual == Some(wanted),
            }
        });
        let node_selector: Vec<LabelCheck> = node_selector.collect();
        let affinity = self.affinity.explain(node);
        let taints: Vec<TaintOutcome> = node
            .spec
            .taints
            .iter()
            .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
            .map(|taint| self.explain_taint(taint))
            .collect();
        // Derived from what is explained, so that tests hold that against `decide`.
        let fits = self.fits_node_name(node) && node_selector.iter().all(|check| check.matches) && affinity.is_match();
        let untolerated =
            |effect: &str| taints.iter().any(|outcome| outcome.is_untolerated() && outcome.taint.effect == effect);
        let should_continue_running = fits && !untolerated("NoExecute");
        let decision =
            Decision { should_run: should_continue_running && !untolerated("NoSchedule"), should_continue_running };
        let pinned_to = Some(self.node_name.clone()).filter(|name| !name.is_empty());
        Eligibility { decision, pinned_to, node_selector, affinity, taints }
    }

    fn fits_node_name(&self, node: &Node) -> bool {
        self.node_name.is_empty() || self.node_name == node.metadata.name
    }

    fn explain_taint(&self, taint: &Taint) -> TaintOutcome {
        let tolerated_by = self.tolerations.iter().find(|toleration| tolerates(toleration, taint));
        let by_comparison =
            || self.tolerations.iter().any(|toleration| tolerates_with_comparison_operators(toleration, taint));
        TaintOutcome {
            taint: taint.clone(),
            tolerated_by: tolerated_by.map(|toleration| TolerationRef {
                toleration: toleration.clone(),
                automatic: self.automatic.contains(toleration),
            }),
            depends_on_gate: tolerated_by.is_none() && by_comparison(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::{DaemonPod, Eligibility};
    use crate::model::daemon_set::PodTemplate;
    use crate::model::node::Node;
    use crate::scheduling::affinity::{AffinityOutcome, TermOutcome};

    fn explain(spec: Value, node: Value) -> Eligibility {
        let template = PodTemplate::deserialize(json!({"spec": spec})).unwrap();
        let node = Node::deserialize(node).unwrap();
        let pod = DaemonPod::new(&template);
        let eligibility = pod.explain(&node);
        assert_eq!(eligibility.decision, pod.decide(&node));
        eligibility
    }

    fn affinity(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}})
    }

    #[test]
    fn every_label_of_the_node_selector_is_explained() {
        let spec = json!({"nodeName": "n2", "nodeSelector": {"a": "1", "b": "2", "c": "3"}});
        let eligibility = explain(spec, json!({"metadata": {"name": "n1", "labels": {"a": "1", "b": "x"}}}));
        assert_eq!(eligibility.pinned_to.as_deref(), Some("n2"));
        let labels: Vec<_> = eligibility
            .node_selector
            .iter()
            .map(|check| (check.key.as_str(), check.wanted.as_str(), check.actual.as_deref(), check.matches))
            .collect();
        assert_eq!(labels, [("a", "1", Some("1"), true), ("b", "2", Some("x"), false), ("c", "3", None, false)]);
    }

    #[test]
    fn every_term_that_fails_is_explained() {
        let terms = json!([
            {},
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]},
            {
                "matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "In", "values": ["2"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}],
            },
        ]);
        let eligibility = explain(affinity(terms), json!({"metadata": {"name": "n1", "labels": {"a": "1"}}}));
        let AffinityOutcome::NoMatch { terms } = eligibility.affinity else { panic!("a term matches") };
        assert_eq!(terms[0], TermOutcome::Empty);
        let error = "matchExpressions[0]: Gt needs an integer of 64 bits, not \"many\"".to_owned();
        assert_eq!(terms[1], TermOutcome::Invalid { error });
        let TermOutcome::Mismatch { failing, matching } = &terms[2] else { panic!("{:?}", terms[2]) };
        let failing: Vec<_> = failing
            .iter()
            .map(|failing| (failing.written.key.as_str(), failing.field, failing.actual.as_deref()))
            .collect();
        assert_eq!(failing, [("b", false, None), ("metadata.name", true, Some("n1"))]);
        assert_eq!(*matching, 1);
    }

    #[test]
    fn no_terms_and_no_affinity_are_told_apart() {
        let node = json!({"metadata": {"name": "n1", "labels": {"a": "1"}}});
        assert_eq!(explain(json!({}), node.clone()).affinity, AffinityOutcome::NotSet);
        assert_eq!(explain(affinity(json!([])), node.clone()).affinity, AffinityOutcome::NoTerms);
        let terms = json!([{}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]);
        assert_eq!(explain(affinity(terms), node).affinity, AffinityOutcome::Matches { term: 1 });
    }

    #[test]
    fn taints_name_the_toleration_that_bears_them_and_whose_it_is() {
        let spec = json!({"tolerations": [
            {"key": "dedicated", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
            {"key": "sla", "operator": "Lt", "value": "9"},
        ]});
        let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
        let eligibility = explain(
            spec,
            json!({"metadata": {"name": "n1"}, "spec": {"taints": [
                taint("dedicated", "gpu", "NoSchedule"),
                taint("node.kubernetes.io/not-ready", "", "NoExecute"),
                taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
                taint("preferred", "", "PreferNoSchedule"),
                taint("sla", "5", "NoSchedule"),
                taint("sla", "9", "NoSchedule"),
            ]}}),
        );
        let outcomes: Vec<_> = eligibility
            .taints
            .iter()
            .map(|outcome| {
                let automatic = outcome.tolerated_by.as_ref().map(|by| by.automatic);
                (outcome.taint.key.as_str(), automatic, outcome.depends_on_gate)
            })
            .collect();
        assert_eq!(
            outcomes,
            [
                ("dedicated", Some(false), false),
                ("node.kubernetes.io/not-ready", Some(true), false),
                ("node.kubernetes.io/unschedulable", Some(true), false),
                ("sla", None, true),
                ("sla", None, false),
            ]
        );
    }
}
