//! Which pods belong to a DaemonSet, and which of them the controller keeps.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::rolling_update::allows_surge;
use super::should_run::Decision;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::metadata::{OwnerReference, POD_TEMPLATE_GENERATION_LABEL};
use crate::model::pod::{NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod};

/// Returns the node that a daemon pod is bound to or meant for.
///
/// Ported from `GetTargetNodeName`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2.
pub fn target_node(pod: &Pod) -> Option<&str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let terms = &pod.spec.required_node_affinity()?.node_selector_terms;
    let name = terms
        .iter()
        .flat_map(|term| &term.match_fields)
        .find(|field| field.key == "metadata.name" && field.operator == "In")?;
    if let [node] = name.values.as_slice() { Some(node) } else { None }
}

/// Returns a new pod as it is meant for a node.
///
/// Ported from `ReplaceDaemonSetPodNodeNameNodeAffinity`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2.
pub fn meant_for(pod: &Pod, node: &str) -> Pod {
    let (key, operator) = ("metadata.name".to_owned(), "In".to_owned());
    let named = NodeSelectorRequirement { key, operator, values: vec![node.to_owned()] };
    let term = NodeSelectorTerm { match_fields: vec![named], ..NodeSelectorTerm::default() };
    let mut pod = pod.clone();
    pod.spec.affinity.get_or_insert_default().node_affinity = Some(NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: vec![term] }),
    });
    pod
}

/// Returns whether an unbound pod is meant for a node that does not exist, so that the
/// controller deletes it. Bound pods are left to the pod garbage collector.
///
/// Ported from `getUnscheduledPodsWithoutNode`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
pub fn is_without_node(pod: &Pod, exists: impl Fn(&str) -> bool) -> bool {
    pod.spec.node_name.is_empty() && target_node(pod).is_some_and(|name| !exists(name))
}

/// The relation of a pod to a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It belongs to the DaemonSet.
    Owned,
    /// It belongs to the DaemonSet, but its labels no longer match: the controller releases it.
    Released,
    /// It has no controller and its labels match: the controller adopts it.
    Adopted,
    /// It does not belong to the DaemonSet.
    Foreign,
}

impl Claim {
    /// Returns whether the controller counts it as a pod of the DaemonSet.
    pub fn is_claimed(self) -> bool {
        matches!(self, Claim::Owned | Claim::Adopted)
    }
}

/// Returns whether the controller counts a pod among a DaemonSet's.
///
/// Ported from `getDaemonPods` and `getNodesToDaemonPods`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
pub fn is_counted(daemon_set: &DaemonSet, pod: &Pod) -> bool {
    claim(daemon_set, pod).is_claimed() && !is_deleted_terminal(pod) && target_node(pod).is_some()
}

/// Returns the relation of a pod to a DaemonSet.
///
/// Ported from `FilterPodsByOwner`, pkg/controller/controller_utils.go, and
/// `BaseControllerRefManager.ClaimObject`, pkg/controller/controller_ref_manager.go, release 1.37.2.
pub fn claim(daemon_set: &DaemonSet, pod: &Pod) -> Claim {
    let owner = &daemon_set.metadata;
    if pod.metadata.namespace != owner.namespace {
        return Claim::Foreign;
    }
    let matches = daemon_set.spec.selector.matches(&pod.metadata.labels);
    match pod.metadata.controller() {
        Some(controller) if !is_reference_to(controller, daemon_set) => Claim::Foreign,
        Some(_) if matches => Claim::Owned,
        Some(_) if owner.is_terminating() => Claim::Foreign,
        Some(_) => Claim::Released,
        None if matches && !owner.is_terminating() && !pod.metadata.is_terminating() => Claim::Adopted,
        None => Claim::Foreign,
    }
}

fn is_reference_to(reference: &OwnerReference, daemon_set: &DaemonSet) -> bool {
    let owner = &daemon_set.metadata;
    reference.kind == "DaemonSet" && reference.name == owner.name && reference.uid == owner.uid
}

/// Returns whether the controller ignores a pod, because it is terminal and terminating.
///
/// Ported from `getNodesToDaemonPods`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
pub fn is_deleted_terminal(pod: &Pod) -> bool {
    pod.is_terminal() && pod.metadata.is_terminating()
}

/// Orders the pods of a node as the controller does: bound ones first, then older ones, then by name.
///
/// Ported from `podByCreationTimestampAndPhase`, pkg/controller/daemon/daemon_controller.go,
/// release 1.37.2.
pub fn controller_order(a: &Pod, b: &Pod) -> Ordering {
    let unbound = |pod: &Pod| pod.spec.node_name.is_empty();
    unbound(a)
        .cmp(&unbound(b))
        .then_with(|| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

/// Returns whether a pod has been ready for at least `min_ready_seconds` at that time.
///
/// Ported from `IsPodAvailable`, pkg/api/v1/pod/util.go, release 1.37.2.
pub fn is_available(pod: &Pod, min_ready_seconds: i64, now: Timestamp) -> bool {
    let Some(ready) = pod.condition("Ready").filter(|condition| condition.status == "True") else { return false };
    let ready_since = ready.last_transition_time.get();
    min_ready_seconds == 0
        || ready_since.is_some_and(|since| now.duration_since(since) >= SignedDuration::from_secs(min_ready_seconds))
}

/// Returns since when a pod that is ready counts as available, if that is known.
pub fn available_since(pod: &Pod, min_ready_seconds: i64) -> Option<Timestamp> {
    let ready = pod.condition("Ready")?.last_transition_time.get()?;
    ready.checked_add(SignedDuration::from_secs(min_ready_seconds)).ok()
}

/// Returns whether a pod has the current template, by its hash or its template generation.
///
/// Ported from `IsPodUpdated`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2.
pub fn is_updated(daemon_set: &DaemonSet, current_hash: Option<&str>, pod: &Pod) -> bool {
    let hash_matches = current_hash.is_some_and(|hash| !hash.is_empty() && pod.revision_hash() == hash);
    let generation_matches = |generation: i64| {
        pod.metadata.labels.get(POD_TEMPLATE_GENERATION_LABEL).is_some_and(|label| *label == generation.to_string())
    };
    hash_matches || daemon_set.template_generation().is_some_and(generation_matches)
}

/// How many failed pods on a node are a pile: that many do not go away by themselves soon.
pub(crate) const PILE: usize = 3;

/// Returns whether a pod has failed, and is not being deleted.
pub(crate) fn has_failed(pod: &Pod) -> bool {
    pod.status.phase == "Failed" && !pod.metadata.is_terminating()
}

/// Returns whether pods of the current revision fail on a node as fast as they are created.
///
/// While surging, the controller creates a pod on a node without a running one at once, whether or not the backoff of those
/// that have failed there is over: `podsShouldBeOnNode`, pkg/controller/daemon/daemon_controller.go, release 1.37.2, and
/// issue 124388 of kubernetes/kubernetes. They pile up, since it deletes one for each backoff.
pub(crate) fn keeps_failing(daemon_set: &DaemonSet, current_hash: Option<&str>, pods: &[&Pod]) -> bool {
    let is_current = |pod: &&&Pod| is_updated(daemon_set, current_hash, pod);
    pods.iter().filter(|pod| has_failed(pod)).filter(is_current).count() >= PILE
}

/// What the controller does about the pods of one node, besides a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodsOnNode {
    /// Whether it creates a pod.
    pub create: bool,
    /// The pods that it deletes, as indices.
    pub delete: Vec<usize>,
    /// The failed pods that it leaves until the backoff is over, as indices.
    pub failed_in_backoff: Vec<usize>,
}

/// What the controller knows about a node when it handles its pods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeContext<'a> {
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// Whether the DaemonSet should have a pod on the node.
    pub decision: Decision,
    /// The hash of the current revision.
    pub current_hash: &'a str,
    /// Whether the backoff for failed pods on the node is still running.
    pub in_backoff: bool,
    /// The time.
    pub now: Timestamp,
}

/// The pods that a DaemonSet has on one node, and what the controller decides about the node.
#[derive(Debug, Clone)]
pub struct NodePods<'a> {
    /// The node's name.
    pub node: &'a str,
    /// Whether a pod belongs there; `None` if the node does not exist.
    pub decision: Option<Decision>,
    /// The claimed pods, without the [deleted terminal](is_deleted_terminal) ones.
    pub pods: Vec<&'a Pod>,
    /// Whether the selector of the update strategy matches the node; only Advanced DaemonSets have one.
    pub selected: bool,
}

impl NodePods<'_> {
    /// Returns whether the node should have a pod.
    pub fn should_run(&self) -> bool {
        self.decision.is_some_and(|decision| decision.should_run)
    }

    /// Returns whether the controller of the DaemonSet creates a pod on the node.
    pub fn lacks_pod(&self, daemon_set: &DaemonSet) -> bool {
        self.should_run() && needs_pod(daemon_set, &self.pods)
    }
}

/// Returns whether one of a node's pods is missing: without surge, it waits until the last one is gone.
fn needs_pod(daemon_set: &DaemonSet, pods: &[&Pod]) -> bool {
    pods.is_empty() || (allows_surge(daemon_set) && !pods.iter().any(|pod| runs(daemon_set, pod)))
}

/// Returns whether a pod is neither terminating nor has ended; OpenKruise leaves those alone that have succeeded.
fn runs(daemon_set: &DaemonSet, pod: &Pod) -> bool {
    let has_succeeded = pod.status.phase == "Succeeded" && daemon_set.flavor() == Flavor::Apps;
    !has_succeeded && !has_failed(pod) && !pod.metadata.is_terminating()
}

/// Decides what happens to a DaemonSet's pods on a node.
///
/// `pods` are those that are claimed, without the [deleted terminal](is_deleted_terminal) ones.
/// Ported from `podsShouldBeOnNode`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
pub fn pods_should_be_on_node(context: &NodeContext<'_>, pods: &[&Pod]) -> PodsOnNode {
    let NodeContext { daemon_set, decision, mut in_backoff, .. } = *context;
    let mut result = PodsOnNode { create: decision.should_run && needs_pod(daemon_set, pods), ..PodsOnNode::default() };
    let live = (0..pods.len()).filter(|&index| !pods[index].metadata.is_terminating());
    if !decision.should_continue_running {
        result.delete = live.collect();
        return result;
    }
    let (mut running, ended): (Vec<usize>, Vec<usize>) = live.partition(|&index| runs(daemon_set, pods[index]));
    for index in ended {
        match has_failed(pods[index]) && in_backoff {
            true => result.failed_in_backoff.push(index),
            false => result.delete.push(index),
        }
        // The deletion starts the next backoff, so several failed pods are deleted one at a time.
        in_backoff |= has_failed(pods[index]);
    }
    running.sort_by(|&a, &b| controller_order(pods[a], pods[b]));
    if !allows_surge(daemon_set) {
        result.delete.extend(running.iter().skip(1));
    } else {
        delete_surplus_of_surge(context, pods, &running, &mut result.delete);
    }
    result
}

/// Keeps the oldest new and the oldest old pod, and the old one only while it is ready and the new one is unavailable.
fn delete_surplus_of_surge(context: &NodeContext<'_>, pods: &[&Pod], running: &[usize], delete: &mut Vec<usize>) {
    let NodeContext { daemon_set, current_hash, now, .. } = *context;
    let (mut new, mut old) = (None, None);
    for &index in running {
        let kept = if pods[index].revision_hash() == current_hash { &mut new } else { &mut old };
        match kept {
            None => *kept = Some(index),
            Some(_) => delete.push(index),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!pods[old].is_ready() || is_available(pods[new], daemon_set.spec.min_ready_seconds, now))
    {
        delete.push(old);
    }
}

/// What the controller does besides a rolling update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Upkeep<'a> {
    /// The nodes that get a pod.
    pub create: Vec<&'a str>,
    /// The pods that are deleted.
    pub delete: Vec<&'a Pod>,
    /// The failed pods that stay until their node's backoff is over.
    pub failed_in_backoff: Vec<&'a Pod>,
}

/// Decides which pods are created and deleted besides a rolling update.
///
/// `nodes` are all nodes that exist, and those that do not but have pods. `in_backoff` tells whether a failed pod was
/// deleted on a node so recently that the next one waits. Ported from `manage`,
/// pkg/controller/daemon/daemon_controller.go, release 1.37.2, without its limit of 250 creations and deletions per
/// sync.
pub fn manage<'a>(
    daemon_set: &DaemonSet,
    current_hash: &str,
    nodes: &[NodePods<'a>],
    in_backoff: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Upkeep<'a> {
    let mut upkeep = Upkeep::default();
    for NodePods { node, decision, pods, .. } in nodes {
        let Some(decision) = *decision else {
            upkeep.delete.extend(pods.iter().copied().filter(|pod| is_without_node(pod, |_| false)));
            continue;
        };
        let context = NodeContext { daemon_set, decision, current_hash, in_backoff: in_backoff(node), now };
        let on_node = pods_should_be_on_node(&context, pods);
        if on_node.create {
            upkeep.create.push(node);
        }
        upkeep.delete.extend(on_node.delete.iter().map(|&index| pods[index]));
        upkeep.failed_in_backoff.extend(on_node.failed_in_backoff.iter().map(|&index| pods[index]));
    }
    upkeep
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{Claim, NodeContext, NodePods, PodsOnNode, claim, pods_should_be_on_node};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::pod::Pod;
    use crate::scheduling::should_run::Decision;

    #[test]
    fn a_pod_is_owned_adopted_or_released_by_its_controller_and_its_labels() {
        let claimed = |owner: Option<&str>, label: &str, is_deleted: bool, pod_is_deleted: bool| {
            let deleted = |is_deleted: bool| is_deleted.then_some("2026-03-01T12:00:00Z");
            let daemon_set = json!({
                "metadata": {"name": "agent", "namespace": "team", "uid": "u", "deletionTimestamp": deleted(is_deleted)},
                "spec": {"selector": {"matchLabels": {"app": "agent"}}}});
            let owners =
                owner.map(|uid| json!([{"kind": "DaemonSet", "name": "agent", "uid": uid, "controller": true}]));
            let pod = json!({"metadata": {"namespace": "team", "labels": {"app": label},
                "deletionTimestamp": deleted(pod_is_deleted), "ownerReferences": owners.unwrap_or(json!([]))}});
            claim(&DaemonSet::from_object(daemon_set).unwrap(), &from_value::<Pod>(pod).unwrap())
        };
        for (owner, label, is_deleted, pod_is_deleted, expected) in [
            (Some("u"), "agent", false, false, Claim::Owned),
            (Some("u"), "agent", true, false, Claim::Owned),
            (Some("u"), "other", false, false, Claim::Released),
            (Some("u"), "other", true, false, Claim::Foreign),
            (Some("earlier"), "agent", false, false, Claim::Foreign),
            (None, "agent", false, false, Claim::Adopted),
            (None, "agent", true, false, Claim::Foreign),
            (None, "agent", false, true, Claim::Foreign),
            (None, "other", false, false, Claim::Foreign),
        ] {
            assert_eq!(claimed(owner, label, is_deleted, pod_is_deleted), expected, "{owner:?} {label}");
        }
    }

    /// `podsShouldBeOnNode`: "We are surging so we need to have at least one non-deleted pod on the node".
    #[test]
    fn a_node_without_a_running_pod_lacks_one_while_surging() {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}});
        for (surge, pods, lacks) in [
            (0, vec![], true),
            (0, vec![deleted.clone()], false),
            (0, vec![json!({"status": {"phase": "Failed"}})], false),
            (1, vec![], true),
            (1, vec![deleted.clone()], true),
            (1, vec![json!({"status": {"phase": "Failed"}}), json!({"status": {"phase": "Succeeded"}})], true),
            (1, vec![deleted, json!({"status": {"phase": "Pending"}})], false),
        ] {
            let daemon_set = json!({"apiVersion": "apps/v1", "metadata": {"name": "agent", "namespace": "default"},
                "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}}});
            let daemon_set = DaemonSet::from_object(daemon_set).unwrap();
            let pods: Vec<Pod> = pods.into_iter().map(|pod| from_value(pod).unwrap()).collect();
            let pods: Vec<&Pod> = pods.iter().collect();
            let decision = Decision { should_run: true, should_continue_running: true };
            let (current_hash, now) = ("new", "2026-03-01T12:00:00Z".parse().unwrap());
            let context = NodeContext { daemon_set: &daemon_set, decision, current_hash, in_backoff: true, now };
            assert_eq!(pods_should_be_on_node(&context, &pods).create, lacks, "{surge} {pods:?}");
            let node = NodePods { node: "n", decision: Some(decision), pods, selected: true };
            assert_eq!(node.lacks_pod(&daemon_set), lacks, "{surge} {:?}", node.pods);
        }
    }

    #[test]
    fn a_pod_that_has_succeeded_is_deleted_unless_openkruise_controls_it() {
        let pod: Pod = from_value(json!({"status": {"phase": "Succeeded"}})).unwrap();
        for (api_version, delete) in [("apps/v1", vec![0]), ("apps.kruise.io/v1beta1", Vec::new())] {
            let daemon_set = json!({"apiVersion": api_version, "metadata": {"name": "agent", "namespace": "default"},
                "spec": {"updateStrategy": {"type": "RollingUpdate"}}});
            let context = NodeContext {
                daemon_set: &DaemonSet::from_object(daemon_set).unwrap(),
                decision: Decision { should_run: true, should_continue_running: true },
                current_hash: "new",
                in_backoff: false,
                now: "2026-03-01T12:00:00Z".parse().unwrap(),
            };
            let expected = PodsOnNode { delete, ..PodsOnNode::default() };
            assert_eq!(pods_should_be_on_node(&context, &[&pod]), expected, "{api_version}");
        }
    }
}
