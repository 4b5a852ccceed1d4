//! What the rules about other pods ask of a cluster, and what they answer if not all of it was read.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use super::ports::host_ports;
use crate::model::node::{HOSTNAME, Node};
use crate::model::pod::{Pod, PodSpec, TopologySpreadConstraint};
use crate::model::selector::{LabelSelector, LabelSelectorRequirement};
use crate::model::snapshot::{Kind, Namespace, Snapshot};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The nodes of a cluster and the pods that run on them.
pub struct Neighborhood<'a> {
    /// The nodes, by name.
    pub nodes: Vec<&'a Node>,
    /// The namespaces, by name.
    pub namespaces: HashMap<&'a str, &'a Namespace>,
    snapshot: &'a Snapshot,
    numbers: HashMap<&'a str, usize>,
    bound: Sorted,
    with_anti_affinity: Selected,
    with_volumes: Selected,
    knows_all_pods: OnceCell<bool>,
}

impl<'a> Neighborhood<'a> {
    /// Indexes a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut nodes: Vec<&Node> = snapshot.nodes.iter().collect();
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Neighborhood {
            snapshot,
            numbers: nodes.iter().enumerate().map(|(number, node)| (node.metadata.name.as_str(), number)).collect(),
            nodes,
            namespaces: snapshot.namespaces.iter().map(|namespace| (&*namespace.metadata.name, namespace)).collect(),
            bound: Sorted::default(),
            with_anti_affinity: Selected::default(),
            with_volumes: Selected::default(),
            knows_all_pods: OnceCell::new(),
        }
    }

    /// Returns the node with a name.
    pub fn node(&self, name: &str) -> Option<&'a Node> {
        self.number(name).map(|number| self.nodes[number])
    }

    /// Returns the index of the node with a name in [`nodes`](Self::nodes).
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Returns the pods that are bound to a node, including terminated ones.
    pub fn bound_to(&self, node: &str) -> Vec<&'a Pod> {
        self.bound.find(&self.snapshot.pods, |pod| pod.spec.node_name.as_str(), &node)
    }

    /// Returns the pods that are bound to a node, have not terminated, and declare a host port of that number.
    pub fn declaring(&self, node: &str, port: i32) -> impl Iterator<Item = &'a Pod> {
        let declares = move |pod: &&Pod| host_ports(&pod.spec).any(|declared| declared.host_port == port);
        self.bound_to(node).into_iter().filter(|pod| !pod.is_terminal()).filter(declares)
    }

    /// Returns the pods that have a required anti-affinity.
    pub(super) fn with_anti_affinity(&self) -> impl Iterator<Item = &'a Pod> {
        let has_it = |pod: &Pod| !pod.spec.required_pod_anti_affinity().is_empty();
        self.with_anti_affinity.among(self.snapshot.pods.iter(), has_it)
    }

    /// Returns the pods that have volumes.
    pub(super) fn with_volumes(&self) -> impl Iterator<Item = &'a Pod> {
        self.with_volumes.among(self.snapshot.pods.iter(), |pod| !pod.spec.volumes.is_empty())
    }

    /// Returns the labels of a namespace, if they were read.
    pub(super) fn labels_of_namespace(&self, name: &str) -> Option<&'a Labels> {
        Some(&self.namespaces.get(name)?.metadata.labels)
    }

    /// Returns whether all requested nodes were read.
    pub fn nodes_are_read(&self) -> bool {
        self.snapshot.gap(Kind::Nodes, "").is_none()
    }

    /// Returns whether these are all nodes of the cluster.
    pub fn knows_all_nodes(&self) -> bool {
        !self.snapshot.nodes_limited && self.nodes_are_read()
    }

    /// Returns whether all pods of a node were read.
    pub(super) fn knows_all_pods_on(&self, node: &str) -> bool {
        self.snapshot.knows_all_pods_on(node)
    }

    /// Returns whether all pods of these nodes were read.
    pub(super) fn knows_all_pods(&self) -> bool {
        let knows = |node: &&Node| self.knows_all_pods_on(&node.metadata.name);
        *self.knows_all_pods.get_or_init(|| self.nodes.iter().all(knows))
    }

    /// Returns whether all nodes and all pods of the cluster were read.
    pub(super) fn knows_all(&self) -> bool {
        self.knows_all_nodes() && self.knows_all_pods()
    }

    /// Returns whether all pods were read that run in the domain of a node: on the nodes with the same value of a label.
    pub(super) fn knows_domain(&self, node: &Node, topology_key: &str) -> bool {
        let value = node.metadata.labels.get(topology_key);
        let is_in = |other: &Node| other.metadata.labels.get(topology_key) == value;
        let is_read = |other: &&'a Node| !is_in(other) || self.knows_all_pods_on(&other.metadata.name);
        self.knows_all()
            || self.knows_all_pods_on(&node.metadata.name)
                && (topology_key == HOSTNAME || (self.knows_all_nodes() && self.nodes.iter().all(is_read)))
    }
}

/// The positions of objects sorted by a key, computed on first use. It borrows nothing, so a hypothetical DaemonSet,
/// whose lifetime is shorter than the snapshot's, can use the same index.
#[derive(Default)]
pub(crate) struct Sorted(OnceCell<Vec<usize>>);

impl Sorted {
    /// Returns the objects with this key, in the order in which they were read.
    pub(crate) fn find<'a, T, K: Ord>(&self, objects: &'a [T], key: impl Fn(&'a T) -> K, wanted: &K) -> Vec<&'a T> {
        let positions = self.0.get_or_init(|| {
            let mut positions: Vec<usize> = (0..objects.len()).collect();
            positions.sort_by(|one, other| key(&objects[*one]).cmp(&key(&objects[*other])));
            positions
        });
        let first = positions.partition_point(|at| key(&objects[*at]) < *wanted);
        positions[first..].iter().map(|at| &objects[*at]).take_while(|object| key(object) == *wanted).collect()
    }
}

/// The positions of the objects that meet a condition, computed on first use, like [`Sorted`].
#[derive(Default)]
pub(crate) struct Selected(OnceCell<Vec<usize>>);

impl Selected {
    /// Returns those of all objects that meet the condition.
    pub(crate) fn among<'a, T: 'a>(
        &self,
        all: impl Iterator<Item = &'a T> + Clone,
        meets: impl Fn(&T) -> bool,
    ) -> impl Iterator<Item = &'a T> {
        let select = || all.clone().enumerate().filter(|(_, one)| meets(one)).map(|(at, _)| at).collect();
        self.0.get_or_init(select).iter().filter_map(move |at| all.clone().nth(*at))
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
