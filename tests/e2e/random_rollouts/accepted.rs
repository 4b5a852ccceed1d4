//! The faults that a status accepts, compared with what was done to the nodes, without the library's rules.

use jiff::Timestamp;
use kubectl_ds::model::daemon_set::UpdateStrategy;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::Pod;
use kubectl_ds::report::acceptance::Accept;
use kubectl_ds::report::reason::ReasonCode;
use kubectl_ds::report::rollout_status::{AcceptedNodes, Fault, RolloutStatus, Verdict};
use kubectl_ds::scheduling::daemon_pods::{is_available, target_node};

use super::state::{State, is_eligible};

fn accepts(status: &RolloutStatus, is: impl Fn(Accept) -> bool) -> bool {
    status.accepted.iter().flat_map(|accepted| &accepted.by).any(|one| is(one.what.what))
}

fn accepts_nodes(status: &RolloutStatus) -> bool {
    accepts(status, |what| matches!(what, Accept::Fault(Fault::Node) | Accept::Code(ReasonCode::NodeUnreachable)))
}

fn is_down(node: &Node) -> bool {
    node.condition("Ready").is_none_or(|ready| ready.status != "True")
}

/// Returns whether the kubelet of a node has rejected a pod: it does so whatever the template is, unless that requests more.
fn has_rejected(state: &State, node: &Node) -> bool {
    let is_rejected = |pod: &Pod| pod.status.phase == "Failed" && pod.status.reason.starts_with("OutOf");
    state.pods().any(|pod| target_node(pod) == Some(&node.metadata.name) && is_rejected(pod))
}

/// Returns whether a rollout counts as complete although it lacks more than nodes that are down, pods that no scheduler has seen
/// and, under OnDelete, pods that nobody has deleted.
pub fn is_wrongly_accepted(state: &State, status: &RolloutStatus, now: Timestamp) -> bool {
    let is_accepted = status.accepted.as_ref().is_some_and(|accepted| accepted.complete);
    if !is_accepted || status.verdict == Verdict::Complete {
        return false;
    }
    let daemon_set = state.daemon_set().unwrap();
    let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
    let is_old = |pod: &&&Pod| !state.is_new(pod) && is_available(pod, daemon_set.spec.min_ready_seconds, now);
    let is_kept = |pods: &[&Pod]| pods.iter().any(|pod| is_old(&pod)) && !pods.iter().any(|pod| state.is_new(pod));
    let missing = state.missing(now);
    let may_be_accepted = |(node, pods): &(&Node, Vec<&Pod>)| {
        let is_kept_on_purpose = || is_on_delete && is_kept(pods) && accepts(status, |what| what == Accept::OnDelete);
        // On a busy machine, the scheduler may take long.
        let is_unscheduled = pods.iter().all(|pod| pod.spec.node_name.is_empty());
        let is_by_cluster = || is_unscheduled && accepts(status, |what| what == Accept::Fault(Fault::Cluster));
        let is_of_node = is_down(node) || has_rejected(state, node);
        (is_of_node && accepts_nodes(status)) || is_kept_on_purpose() || is_by_cluster()
    };
    let eligible = state.nodes().filter(|node| is_eligible(node)).count();
    let is_available_somewhere = missing.iter().filter(|(node, _)| is_eligible(node)).count() < eligible;
    // Under OnDelete, no node has to be updated: the others keep what they have, unless they are down.
    let is_kept_where_up = missing.iter().all(|(node, pods)| is_kept(pods) || is_down(node));
    let is_kept_somewhere = missing.iter().any(|(_, pods)| is_kept(pods));
    !missing.iter().all(may_be_accepted) || !(is_available_somewhere || is_kept_where_up && is_kept_somewhere)
}

/// Returns the nodes that count as at fault themselves although they are up: what fails there is the revision or the pod.
pub fn nodes_blamed_in_vain<'a>(state: &State, status: &'a RolloutStatus) -> Vec<&'a str> {
    let by_cause =
        status.problems.iter().filter(|cause| cause.fault == Some(Fault::Node)).flat_map(|cause| &cause.nodes);
    let accepted = status.accepted.iter().flat_map(|accepted| &accepted.by);
    let accepted = accepted.filter(|one| one.what.what == Accept::Fault(Fault::Node)).flat_map(|one| &one.nodes);
    let is_up = |name: &&str| {
        let node = state.nodes().find(|node| node.metadata.name == **name);
        // The controllers remove taints of their own after the node is ready again.
        let has_own_taint = |node: &Node| {
            let of_state = ["not-ready", "unreachable"].map(|state| format!("node.kubernetes.io/{state}"));
            node.spec.taints.iter().any(|taint| of_state.contains(&taint.key))
        };
        node.is_some_and(|node| !is_down(node) && !has_own_taint(node) && !has_rejected(state, node))
    };
    by_cause.chain(accepted).map(String::as_str).filter(is_up).collect()
}

/// Returns whether a rollout that stands still does not count as complete although it lacks only nodes that are down, which are
/// accepted: they do not come up by themselves.
pub fn waits_in_vain(state: &State, status: &RolloutStatus, now: Timestamp) -> bool {
    let exceeds = || status.accepted.iter().flat_map(|accepted| &accepted.by).any(AcceptedNodes::exceeds);
    if status.counts_as_complete() || !accepts_nodes(status) || exceeds() {
        return false;
    }
    let missing = state.missing(now);
    let eligible = state.nodes().filter(|node| is_eligible(node)).count();
    let down = state.nodes().filter(|node| is_down(node)).count();
    // A revision that runs on fewer nodes than have gone down after it reached them may be what takes them down.
    missing.iter().all(|(node, _)| is_eligible(node) && is_down(node)) && eligible - missing.len() > down
}

/// Returns whether pods may only be slow to start, for which a watch waits.
pub fn may_still_start(status: &RolloutStatus) -> bool {
    status.accepted.as_ref().is_some_and(|accepted| accepted.may_still_start)
}
