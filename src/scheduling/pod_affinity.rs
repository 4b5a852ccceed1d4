//! Required affinity and anti-affinity to other pods, of a new pod and of those that are there: the filter InterPodAffinity.
//!
//! Ported from pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, release 1.37.2, with its feature gates at their defaults.

use std::collections::{HashMap, HashSet};

use super::neighborhood::{Labels, Neighborhood, Outcome, selects};
use crate::model::node::{HOSTNAME, Node};
use crate::model::pod::{Pod, PodAffinityTerm};
use crate::model::selector::LabelSelector;

/// Why the filter rejects a node.
#[derive(Debug, Clone, PartialEq)]
pub enum AffinityRejection<'a> {
    /// The node does not have the label of a term of the pod's affinity.
    NoDomain(PodAffinityTerm),
    /// No pod in the domain of the node is one that all terms of the pod's affinity select; the term is the first without.
    NoneInDomain(PodAffinityTerm),
    /// A pod in the domain is one that a term of the pod's anti-affinity selects.
    Excludes(PodAffinityTerm, &'a Pod),
    /// A pod in the domain has an anti-affinity with a term that selects the pod.
    IsExcluded(PodAffinityTerm, &'a Pod),
}

impl AffinityRejection<'_> {
    /// Returns the words of the scheduler: `ErrReasonAffinityRulesNotMatch` and the like.
    pub fn reason(&self) -> &'static str {
        match self {
            AffinityRejection::NoDomain(_) | AffinityRejection::NoneInDomain(_) => {
                "node(s) didn't match pod affinity rules"
            }
            AffinityRejection::Excludes(..) => "node(s) didn't match pod anti-affinity rules",
            AffinityRejection::IsExcluded(..) => "node(s) didn't satisfy existing pods anti-affinity rules",
        }
    }
}

/// What the filter knows before it looks at a node: in which domains which pods are.
#[derive(Debug)]
pub struct InterPodAffinity<'a> {
    namespace: String,
    labels: Labels,
    affinity: Vec<PodAffinityTerm>,
    anti_affinity: Vec<PodAffinityTerm>,
    /// Pods that all terms of the affinity select, by the number of each term and the value of its label.
    selected: Domains<'a, usize>,
    /// Pods that a term of the anti-affinity selects.
    excluded: Domains<'a, usize>,
    /// Pods with a term that selects the pod, by the label of the term and its value.
    excluding: Domains<'a, &'a str>,
    /// `None` if that depends on a namespace that was not read.
    selects_itself: Option<bool>,
}

/// Pods by a domain.
#[derive(Debug)]
struct Domains<'a, K> {
    pods: HashMap<(K, &'a str), (&'a Pod, usize)>,
    /// Those that have pods of which it is not known whether they count, because their namespace was not read.
    perhaps: HashSet<(K, &'a str)>,
}

impl<K> Default for Domains<'_, K> {
    fn default() -> Self {
        Domains { pods: HashMap::new(), perhaps: HashSet::new() }
    }
}

impl<'a, K: std::hash::Hash + Eq + Copy> Domains<'a, K> {
    /// Adds a pod on a node, unless `is_selected` is false, to the domain of a label.
    fn add(
        &mut self,
        key: K,
        topology_key: &str,
        node: &'a Node,
        pod: &'a Pod,
        term: usize,
        is_selected: Option<bool>,
    ) {
        let Some(value) = node.metadata.labels.get(topology_key) else { return };
        match is_selected {
            Some(true) => drop(self.pods.entry((key, value)).or_insert((pod, term))),
            Some(false) => {}
            None => drop(self.perhaps.insert((key, value))),
        }
    }
}

impl<'a> InterPodAffinity<'a> {
    /// Looks for pods that count for a new pod among all that are bound and have not ended, without those that leave.
    ///
    /// Ported from `PreFilter`.
    pub fn new(pod: &Pod, neighborhood: &Neighborhood<'a>, leaves: impl Fn(&Pod) -> bool) -> Self {
        let namespace = pod.metadata.namespace.as_str();
        let (affinity, anti_affinity) = (pod.spec.required_pod_affinity(), pod.spec.required_pod_anti_affinity());
        let counts = |other: &Pod| !other.is_terminal() && !leaves(other);
        let mut excluding = Domains::default();
        for other in neighborhood.with_anti_affinity().filter(|other| counts(other)) {
            let Some(node) = neighborhood.node(&other.spec.node_name) else { continue };
            let of_namespace = || neighborhood.labels_of_namespace(namespace);
            for (number, term) in other.spec.required_pod_anti_affinity().iter().enumerate() {
                let is_selected =
                    matches(term, &other.metadata.namespace, namespace, &pod.metadata.labels, of_namespace);
                excluding.add(term.topology_key.as_str(), &term.topology_key, node, other, number, is_selected);
            }
        }
        let (mut selected, mut excluded) = (Domains::default(), Domains::default());
        let has_terms = !affinity.is_empty() || !anti_affinity.is_empty();
        for node in neighborhood.nodes.iter().copied().filter(|_| has_terms) {
            for other in neighborhood.bound_to(&node.metadata.name).into_iter().filter(|other| counts(other)) {
                let of_namespace = || neighborhood.labels_of_namespace(&other.metadata.namespace);
                let is_selected = |term: &PodAffinityTerm| {
                    matches(term, namespace, &other.metadata.namespace, &other.metadata.labels, of_namespace)
                };
                let by_all = all(affinity.iter().map(is_selected));
                for (number, term) in affinity.iter().enumerate() {
                    selected.add(number, &term.topology_key, node, other, number, by_all);
                }
                for (number, term) in anti_affinity.iter().enumerate() {
                    excluded.add(number, &term.topology_key, node, other, number, is_selected(term));
                }
            }
        }
        let of_own_namespace = || neighborhood.labels_of_namespace(namespace);
        let selects_pod =
            |term: &PodAffinityTerm| matches(term, namespace, namespace, &pod.metadata.labels, of_own_namespace);
        InterPodAffinity {
            namespace: namespace.to_owned(),
            labels: (*pod.metadata.labels).clone(),
            selects_itself: if affinity.is_empty() { Some(false) } else { all(affinity.iter().map(selects_pod)) },
            affinity: affinity.to_vec(),
            anti_affinity: anti_affinity.to_vec(),
            selected,
            excluded,
            excluding,
        }
    }

    /// Returns whether a pod has the same terms, labels and namespace.
    pub fn is_of(&self, pod: &Pod) -> bool {
        self.namespace == pod.metadata.namespace
            && self.labels == *pod.metadata.labels
            && self.affinity == pod.spec.required_pod_affinity()
            && self.anti_affinity == pod.spec.required_pod_anti_affinity()
    }

    /// Tells whether the filter lets the pod run on a node, for which the scheduler has nominated other pods that go first.
    ///
    /// Ported from `Filter`, and of `RunFilterPluginsWithNominatedPods`, pkg/scheduler/framework/runtime/framework.go, the two runs with and
    /// without the nominated pods: these do not count where they would be of help.
    pub fn on(
        &self,
        node: &Node,
        nominated: &[&'a Pod],
        neighborhood: &Neighborhood<'a>,
    ) -> Outcome<AffinityRejection<'a>> {
        let affinity = self.satisfies_affinity(node, neighborhood);
        let selected = |pod: &&Pod| {
            let of_namespace = || neighborhood.labels_of_namespace(&pod.metadata.namespace);
            let Pod { metadata, .. } = pod;
            let selects = |term| {
                matches(term, &self.namespace, &metadata.namespace, &metadata.labels, of_namespace) == Some(true)
            };
            self.affinity.iter().all(selects)
        };
        match &affinity {
            Outcome::Rejects(AffinityRejection::NoneInDomain(_)) if nominated.iter().any(selected) => {}
            Outcome::Rejects(_) => return affinity,
            Outcome::Passes | Outcome::Unknown => {}
        }
        match (self.satisfies_anti_affinity(node, nominated, neighborhood), affinity) {
            (rejects @ Outcome::Rejects(_), _) | (_, rejects @ Outcome::Rejects(_)) => rejects,
            (Outcome::Passes, Outcome::Passes) => Outcome::Passes,
            (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
        }
    }

    /// Returns whether a pod of the same kind on another node may keep this one from a node.
    pub fn spans_nodes(&self) -> bool {
        !self.affinity.is_empty() || self.anti_affinity.iter().any(|term| term.topology_key != HOSTNAME)
    }

    /// Returns the label of a term by which a pod of the same kind on another node keeps this one from a node: of the anti-affinity if both are
    /// in a domain, or of the affinity, if there is no such pod yet, and they are not.
    pub fn binds_its_kind(&self, node: &Node, other: &Node) -> Option<&str> {
        let selects_own = |term: &&PodAffinityTerm| {
            matches(term, &self.namespace, &self.namespace, &self.labels, || None) != Some(false)
        };
        let is_shared = |term: &&PodAffinityTerm| {
            let [own, others] = [node, other].map(|node| node.metadata.labels.get(&term.topology_key));
            own.is_some() && own == others
        };
        let is_first = self.selects_itself == Some(true) && self.selected.pods.is_empty();
        let first = self.affinity.iter().find(|term| is_first && !is_shared(term));
        let excludes = || self.anti_affinity.iter().filter(is_shared).find(selects_own);
        first.or_else(excludes).map(|term| term.topology_key.as_str())
    }

    /// Ported from `nodeTopologyMatchesAffinity` and `satisfiesSelfAffinityCheck`.
    fn satisfies_affinity(&self, node: &Node, neighborhood: &Neighborhood<'a>) -> Outcome<AffinityRejection<'a>> {
        let mut without = None;
        let mut is_known = true;
        for (number, term) in self.affinity.iter().enumerate() {
            let Some(value) = node.metadata.labels.get(&term.topology_key) else {
                return Outcome::Rejects(AffinityRejection::NoDomain(term.clone()));
            };
            if !self.selected.pods.contains_key(&(number, value.as_str())) {
                without = without.or(Some(term));
                let is_read = neighborhood.knows_domain(node, &term.topology_key);
                is_known &= is_read && !self.selected.perhaps.contains(&(number, value.as_str()));
            }
        }
        let Some(term) = without else { return Outcome::Passes };
        if !is_known {
            return Outcome::Unknown;
        }
        let rejects = Outcome::Rejects(AffinityRejection::NoneInDomain(term.clone()));
        match self.selects_itself {
            _ if !self.selected.pods.is_empty() => rejects,
            // The first of its kind.
            Some(true) if neighborhood.knows_all() && self.selected.perhaps.is_empty() => Outcome::Passes,
            Some(true) | None => Outcome::Unknown,
            Some(false) => rejects,
        }
    }

    /// Ported from `satisfyPodAntiAffinity` and `satisfyExistingPodsAntiAffinity`.
    fn satisfies_anti_affinity(
        &self,
        node: &Node,
        nominated: &[&'a Pod],
        neighborhood: &Neighborhood<'a>,
    ) -> Outcome<AffinityRejection<'a>> {
        let labels = &node.metadata.labels;
        let mut is_known = true;
        for (number, term) in self.anti_affinity.iter().enumerate() {
            let Some(value) = labels.get(&term.topology_key) else { continue };
            let selects = |pod: &&&Pod| {
                let of_namespace = || neighborhood.labels_of_namespace(&pod.metadata.namespace);
                let Pod { metadata, .. } = pod;
                matches(term, &self.namespace, &metadata.namespace, &metadata.labels, of_namespace) == Some(true)
            };
            let found = self.excluded.pods.get(&(number, value.as_str())).map(|(pod, _)| *pod);
            if let Some(pod) = found.or_else(|| nominated.iter().find(selects).copied()) {
                return Outcome::Rejects(AffinityRejection::Excludes(term.clone(), pod));
            }
            is_known &= !self.excluded.perhaps.contains(&(number, value.as_str()))
                && neighborhood.knows_domain(node, &term.topology_key);
        }
        let of_pod = |pod: &'a Pod, number: usize| {
            Outcome::Rejects(AffinityRejection::IsExcluded(pod.spec.required_pod_anti_affinity()[number].clone(), pod))
        };
        let is_any = !self.excluding.pods.is_empty() || !self.excluding.perhaps.is_empty();
        for (key, value) in labels.iter().filter(|_| is_any) {
            let domain = (key.as_str(), value.as_str());
            if let Some((pod, number)) = self.excluding.pods.get(&domain) {
                return of_pod(pod, *number);
            }
            is_known &= !self.excluding.perhaps.contains(&domain);
        }
        // `PreFilter` skips the filter if nothing that is there concerns the pod.
        let is_skipped = self.affinity.is_empty() && self.anti_affinity.is_empty() && self.excluding.pods.is_empty();
        for pod in nominated.iter().filter(|_| !is_skipped) {
            let of_namespace = || neighborhood.labels_of_namespace(&self.namespace);
            let excludes = |term: &PodAffinityTerm| {
                labels.contains_key(&term.topology_key)
                    && matches(term, &pod.metadata.namespace, &self.namespace, &self.labels, of_namespace) == Some(true)
            };
            if let Some(number) = pod.spec.required_pod_anti_affinity().iter().position(excludes) {
                return of_pod(pod, number);
            }
        }
        // The anti-affinity of pods on nodes that were not asked for does not count: else no answer about a part of the nodes would be known.
        if is_known && neighborhood.knows_all_pods() { Outcome::Passes } else { Outcome::Unknown }
    }
}

/// Returns whether all hold; `None` if some are not known and no other fails.
fn all(of: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for one in of {
        match one {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

/// Returns whether a term of a pod in the namespace `own` selects a pod with these labels in a namespace; `None` if that depends on the
/// labels of the namespace and they are not known.
///
/// Ported from `AffinityTerm.Matches` and `getNamespacesFromPodAffinityTerm`, k8s.io/kube-scheduler/framework/types.go, and
/// `mergeAffinityTermNamespacesIfNotEmpty`, plugin.go, release 1.37.2.
fn matches<'l>(
    term: &PodAffinityTerm,
    own: &str,
    namespace: &str,
    labels: &Labels,
    of_namespace: impl Fn() -> Option<&'l Labels>,
) -> Option<bool> {
    if !selects(term.label_selector.as_ref(), labels) {
        return Some(false);
    }
    let is_named = match (term.namespaces.as_slice(), &term.namespace_selector) {
        ([], None) => own == namespace,
        (named, _) => named.iter().any(|name| name == namespace),
    };
    match &term.namespace_selector {
        _ if is_named => Some(true),
        None => Some(false),
        Some(selector) if LabelSelector::is_empty(selector) => Some(true),
        Some(selector) => of_namespace().map(|labels| selector.matches(labels)),
    }
}
