//! How evenly pods are to be spread over the domains of a cluster: the filter PodTopologySpread.
//!
//! Ported from pkg/scheduler/framework/plugins/podtopologyspread/filtering.go and common.go, release 1.37.2, with its feature gates at
//! their defaults. Those defaults spread no pod without a constraint of its own in a way that keeps it from a node.

use std::collections::BTreeMap;

use super::affinity::RequiredNodeAffinity;
use super::daemon_pods::target_node;
use super::neighborhood::{Labels, Neighborhood, Outcome, add_label_keys, must_hold, selects};
use super::taints::repels;
use crate::model::node::Node;
use crate::model::pod::{Pod, TopologySpreadConstraint};
use crate::model::selector::LabelSelector;

/// Why the filter rejects a node.
#[derive(Debug, Clone, PartialEq)]
pub enum SpreadRejection {
    /// The node does not have the label of a constraint.
    NoDomain(TopologySpreadConstraint),
    /// The domain of the node would have too many pods.
    Skew {
        /// The constraint.
        constraint: TopologySpreadConstraint,
        /// The domain.
        value: String,
        /// How many pods it has.
        pods: usize,
        /// How many the domain with the fewest has.
        fewest: usize,
    },
}

impl SpreadRejection {
    /// Returns the words of the scheduler: `ErrReasonConstraintsNotMatch` and `ErrReasonNodeLabelNotMatch` of plugin.go.
    pub fn reason(&self) -> &'static str {
        match self {
            SpreadRejection::Skew { .. } => "node(s) didn't match pod topology spread constraints",
            SpreadRejection::NoDomain(_) => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
        }
    }
}

/// What the filter knows before it looks at a node: how many pods are in which domains.
#[derive(Debug)]
pub struct PodTopologySpread<'a> {
    pod: Pod,
    affinity: RequiredNodeAffinity,
    /// The constraints that must hold, with the selectors that their keys of labels complete, and the number of pods of each domain.
    constraints: Vec<(TopologySpreadConstraint, Domains<'a>)>,
}

type Domains<'a> = BTreeMap<&'a str, usize>;

impl<'a> PodTopologySpread<'a> {
    /// Counts the pods of the domains for a new pod, without those that leave.
    ///
    /// Ported from `calPreFilterState`.
    pub fn new(pod: &Pod, neighborhood: &Neighborhood<'a>, leaves: impl Fn(&Pod) -> bool) -> Self {
        let required = pod.spec.topology_spread_constraints.iter().filter(|it| must_hold(it));
        let constraints =
            required.map(|constraint| (with_label_keys(constraint, &pod.metadata.labels), Domains::new())).collect();
        let affinity = RequiredNodeAffinity::new(&pod.spec);
        let mut spread = PodTopologySpread { pod: pod.clone(), affinity, constraints };
        let is_alone = spread.constraints.iter().all(|(constraint, _)| honors_affinity(constraint));
        let only = target_node(pod).filter(|_| is_alone).and_then(|name| neighborhood.node(name));
        let nodes = match &only {
            _ if spread.constraints.is_empty() => &[],
            Some(only) => std::slice::from_ref(only),
            None => &neighborhood.nodes,
        };
        for node in nodes.iter().copied() {
            let mut pods = None;
            let counts: Vec<usize> =
                (0..spread.constraints.len()).filter(|number| spread.counts(*number, node)).collect();
            for number in counts {
                let pods = pods.get_or_insert_with(|| neighborhood.bound_to(&node.metadata.name));
                let count = pods.iter().filter(|pod| !pod.is_terminal() && !leaves(pod)).filter(|pod| {
                    let (constraint, _) = &spread.constraints[number];
                    let is_empty = constraint.label_selector.as_ref().is_some_and(LabelSelector::is_empty);
                    !is_empty && !pod.metadata.is_terminating() && spread.selects(constraint, pod)
                });
                let count = count.count();
                let (constraint, domains) = &mut spread.constraints[number];
                *domains.entry(&node.metadata.labels[&constraint.topology_key]).or_default() += count;
            }
        }
        spread
    }

    /// Returns the label of a constraint that spreads pods of the same kind over all nodes: of the pods of a DaemonSet, which ones have a
    /// place may depend on their order then.
    pub fn binds_its_kind(&self) -> Option<&str> {
        let binds = |constraint: &TopologySpreadConstraint| {
            !honors_affinity(constraint) && selects(constraint.label_selector.as_ref(), &self.pod.metadata.labels)
        };
        let mut constraints = self.constraints.iter().map(|(constraint, _)| constraint);
        constraints.find(|constraint| binds(constraint)).map(|constraint| constraint.topology_key.as_str())
    }

    /// Tells whether the filter lets the pod run on a node, for which the scheduler has nominated other pods that go first.
    ///
    /// Ported from `Filter` and `minMatchNum`, and for nominated pods `updateWithPod` and `RunFilterPluginsWithNominatedPods`,
    /// pkg/scheduler/framework/runtime/framework.go.
    pub fn on(&self, node: &Node, nominated: &[&Pod], neighborhood: &Neighborhood<'a>) -> Outcome<SpreadRejection> {
        let mut is_known = true;
        let turns: &[&[&Pod]] = if nominated.is_empty() { &[&[]] } else { &[nominated, &[]] };
        for nominated in turns {
            for (number, (constraint, domains)) in self.constraints.iter().enumerate() {
                let Some(value) = node.metadata.labels.get(&constraint.topology_key) else {
                    return Outcome::Rejects(SpreadRejection::NoDomain(constraint.clone()));
                };
                let counts = self.counts(number, node);
                is_known &= self.knows(constraint, node, neighborhood);
                let added = nominated.iter().filter(|pod| counts && self.selects(constraint, pod)).count();
                let of = |(domain, pods): (&&str, &usize)| *pods + if domain == value { added } else { 0 };
                let least = usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(0);
                let fewest = if domains.len() < least { 0 } else { domains.iter().map(of).min().unwrap_or(0) };
                let pods = domains.get(value.as_str()).copied().unwrap_or(0) + added;
                let own = usize::from(selects(constraint.label_selector.as_ref(), &self.pod.metadata.labels));
                let max_skew = usize::try_from(constraint.max_skew).unwrap_or(0);
                if pods + own > fewest + max_skew && is_known {
                    let (constraint, value) = (constraint.clone(), value.clone());
                    return Outcome::Rejects(SpreadRejection::Skew { constraint, value, pods, fewest });
                }
            }
        }
        if is_known { Outcome::Passes } else { Outcome::Unknown }
    }

    /// Returns whether a node counts for a constraint: it has the labels of all of them, and meets the policies of this one.
    ///
    /// Ported from `nodeLabelsMatchSpreadConstraints` and `matchNodeInclusionPolicies`.
    fn counts(&self, number: usize, node: &Node) -> bool {
        let labels = &node.metadata.labels;
        let constraint = &self.constraints[number].0;
        let is_repelled = || node.spec.taints.iter().any(|taint| repels(taint, &self.pod.spec.tolerations));
        self.constraints.iter().all(|(constraint, _)| labels.contains_key(&constraint.topology_key))
            && (!honors_affinity(constraint) || self.affinity.matches(node))
            && (constraint.node_taints_policy.as_deref() != Some("Honor") || !is_repelled())
    }

    fn selects(&self, constraint: &TopologySpreadConstraint, pod: &Pod) -> bool {
        pod.metadata.namespace == self.pod.metadata.namespace
            && selects(constraint.label_selector.as_ref(), &pod.metadata.labels)
    }

    /// Returns whether all pods that count for a constraint were read. A pod that is meant for one node, as those of DaemonSets are, is
    /// spread over this node alone, unless the affinity of nodes is ignored.
    fn knows(&self, constraint: &TopologySpreadConstraint, node: &Node, neighborhood: &Neighborhood<'a>) -> bool {
        match honors_affinity(constraint) {
            true if target_node(&self.pod) == Some(&node.metadata.name) => {
                neighborhood.knows_all_pods_on(&node.metadata.name)
            }
            true => {
                let mut nodes = neighborhood.nodes.iter().filter(|node| self.affinity.matches(node));
                neighborhood.knows_all_nodes() && nodes.all(|node| neighborhood.knows_all_pods_on(&node.metadata.name))
            }
            false => neighborhood.knows_all(),
        }
    }
}

fn honors_affinity(constraint: &TopologySpreadConstraint) -> bool {
    constraint.node_affinity_policy.as_deref().is_none_or(|policy| policy == "Honor")
}

/// Ported from `filterTopologySpreadConstraints`.
fn with_label_keys(constraint: &TopologySpreadConstraint, labels: &Labels) -> TopologySpreadConstraint {
    let mut constraint = constraint.clone();
    add_label_keys(&mut constraint.label_selector, &constraint.match_label_keys, "In", labels);
    constraint
}
