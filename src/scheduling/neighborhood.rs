//! What the rules about other pods ask of a cluster, and what they answer if not all of it was read.

use std::collections::BTreeMap;

use crate::model::node::{HOSTNAME, Node};
use crate::model::pod::{Pod, PodSpec, TopologySpreadConstraint};
use crate::model::selector::{LabelSelector, LabelSelectorRequirement};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The nodes of a cluster and the pods that run on them.
pub trait Neighborhood<'a> {
    /// Returns the nodes.
    fn nodes(&self) -> &[&'a Node];
    /// Returns the node of that name.
    fn node(&self, name: &str) -> Option<&'a Node>;
    /// Returns the pods that are bound to a node, ended ones among them.
    fn pods_on(&self, node: &str) -> Vec<&'a Pod>;
    /// Returns the pods that have a required anti-affinity.
    fn with_anti_affinity(&self) -> impl Iterator<Item = &'a Pod>;
    /// Returns the pods that have volumes by which the scheduler filters nodes.
    fn with_volumes(&self) -> impl Iterator<Item = &'a Pod>;
    /// Returns the labels of a namespace, if they were read.
    fn labels_of_namespace(&self, name: &str) -> Option<&'a Labels>;
    /// Returns whether these are all nodes of the cluster.
    fn knows_all_nodes(&self) -> bool;
    /// Returns whether all pods of a node were read.
    fn knows_all_pods_on(&self, node: &str) -> bool;

    /// Returns whether all pods of these nodes were read.
    fn knows_all_pods(&self) -> bool;

    /// Returns whether all nodes and all pods of the cluster were read.
    fn knows_all(&self) -> bool {
        self.knows_all_nodes() && self.knows_all_pods()
    }

    /// Returns whether all pods were read that run in the domain of a node: on the nodes with the same value of a label.
    fn knows_domain(&self, node: &Node, topology_key: &str) -> bool {
        let value = node.metadata.labels.get(topology_key);
        let is_in = |other: &Node| other.metadata.labels.get(topology_key) == value;
        let is_read = |other: &&'a Node| !is_in(other) || self.knows_all_pods_on(&other.metadata.name);
        self.knows_all()
            || self.knows_all_pods_on(&node.metadata.name)
                && (topology_key == HOSTNAME || (self.knows_all_nodes() && self.nodes().iter().all(is_read)))
    }
}

/// Whether a filter lets a pod run on a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// It does.
    Passes,
    /// It does not, for this reason.
    Rejects(T),
    /// Something that decides was not read.
    Unknown,
}

/// What keeps a pod from a node, or leaves open whether something does.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle<R, U> {
    /// A filter rejects the node, for this reason.
    Rejects(R),
    /// This is not known, and decides.
    Unknown(U),
}

impl<R: Clone, U: Clone> Obstacle<R, U> {
    /// Returns the first rejection among the outcomes of filters, or else the first of what is not known.
    pub(super) fn first<const N: usize>(outcomes: [Result<(), Self>; N]) -> Result<(), Self> {
        let rejection = outcomes.iter().find(|outcome| matches!(outcome, Err(Obstacle::Rejects(_))));
        rejection.cloned().unwrap_or_else(|| outcomes.into_iter().collect())
    }
}

/// Returns the label that a node lacks, without which a rule of a pod about other pods rejects it, wherever they run: `Filter` of
/// PodTopologySpread, and `nodeTopologyMatchesAffinity` of InterPodAffinity.
pub fn missing_domain<'s>(spec: &'s PodSpec, node: &Node) -> Option<&'s str> {
    let spread = spec.topology_spread_constraints.iter().filter(|constraint| must_hold(constraint));
    let keys = spread.map(|it| &it.topology_key).chain(spec.required_pod_affinity().iter().map(|it| &it.topology_key));
    keys.map(String::as_str).find(|key| !node.metadata.labels.contains_key(*key))
}

/// Returns whether a constraint keeps pods from nodes.
pub(super) fn must_hold(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == "DoNotSchedule"
}

/// Returns whether a selector that may be absent, which selects nothing, selects these labels.
///
/// Ported from `LabelSelectorAsSelector`, k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go, release 1.37.2.
pub(super) fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| selector.matches(labels))
}

/// Adds to the selectors of a new pod what its keys of labels require, with the pod's own values.
///
/// Ported from `mutatePodAffinity` and `mutateTopologySpreadConstraints`, pkg/registry/core/pod/strategy.go, release 1.37.2.
pub fn apply_label_keys(spec: &mut PodSpec, labels: &Labels) {
    let affinity = spec.affinity.iter_mut();
    let of_pods = affinity.flat_map(|affinity| [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity]).flatten();
    for term in of_pods.flat_map(|affinity| affinity.required_during_scheduling_ignored_during_execution.iter_mut()) {
        add_label_keys(&mut term.label_selector, &term.match_label_keys, "In", labels);
        add_label_keys(&mut term.label_selector, &term.mismatch_label_keys, "NotIn", labels);
    }
    for constraint in &mut spec.topology_spread_constraints {
        add_label_keys(&mut constraint.label_selector, &constraint.match_label_keys, "In", labels);
    }
}

/// Ported from `applyLabelKeysToLabelSelector`, pkg/registry/core/pod/strategy.go, release 1.37.2.
pub(super) fn add_label_keys(selector: &mut Option<LabelSelector>, keys: &[String], operator: &str, labels: &Labels) {
    let Some(selector) = selector else { return };
    let found = keys.iter().filter_map(|key| Some((key, labels.get(key)?)));
    selector.match_expressions.extend(found.map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: operator.to_owned(),
        values: vec![value.clone()],
    }));
}
