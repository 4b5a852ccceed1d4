//! Simulates the controller on a changed DaemonSet: computes its next steps and applies them one after the other.

use std::collections::BTreeSet;

use super::next_step::{NextStep, next_step};
use super::{RolloutNode, Situation};
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::{CONTROLLER_REVISION_HASH_LABEL, ObjectMeta};
use crate::model::pod::{Pod, PodCondition, PodStatus};
use crate::model::time::Time;
use crate::scheduling::daemon_pods::{self, NodePods};
use crate::scheduling::should_run::{DaemonPod, Decision};

/// Within how many steps a node must become updated: deleting whatever is in the way, creating, and replacing. Slower
/// nodes come last ([`visited`]).
const STEPS: usize = 6;

/// A node whose pods the simulation changes.
#[derive(Clone)]
pub(in crate::rollout) struct SimulatedNode<'s> {
    pub(in crate::rollout) name: &'s str,
    pub(in crate::rollout) decision: Option<Decision>,
    pub(in crate::rollout) pods: Vec<Pod>,
    /// Whether the selector of the update strategy matches it.
    pub(in crate::rollout) selected: bool,
    /// Whether new pods become available there.
    pub(in crate::rollout) works: bool,
    /// Whether deleted pods disappear immediately.
    pub(in crate::rollout) lets_go: bool,
}

impl SimulatedNode<'_> {
    /// Returns the node in the form used by the controller's rules.
    pub(in crate::rollout) fn node_pods(&self) -> NodePods<'_> {
        let pods = self.pods.iter().collect();
        NodePods { node: self.name, decision: self.decision, pods, selected: self.selected }
    }
}

/// What counts as an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rollout) enum Advance {
    /// A node becomes updated.
    Updates,
    /// The same, or a node with an available pod loses a pod of another revision: the only effect of a rollback while a surge
    /// fails.
    Recovers,
}

/// Returns whether any node advances if the DaemonSet is changed, and its revision has this hash.
///
/// `stays` tells whether the problem of a node remains. On all other nodes, new pods become available. If one node can
/// be replaced in spite of those whose problem remains, so can all others.
pub(in crate::rollout) fn advances(
    situation: &Situation<'_>,
    changed: &DaemonSet,
    hash: &str,
    stays: impl Fn(&RolloutNode<'_>) -> bool,
    by: Advance,
) -> bool {
    let daemon_pod = DaemonPod::new(&changed.spec.template);
    let mut nodes: Vec<SimulatedNode<'_>> = situation
        .nodes
        .iter()
        .zip(&situation.node_pods)
        .map(|(node, pods)| {
            let (has_problem, is_down) =
                (node.diagnosis.is_some() && !situation.recovers(node), situation.is_down(node));
            let stays_there = |pod: &&&Pod| is_down || !pod.metadata.is_terminating();
            SimulatedNode {
                name: node.name,
                decision: node.object.map(|node| daemon_pod.decide(node)),
                pods: pods.pods.iter().filter(stays_there).map(|pod| (*pod).clone()).collect(),
                selected: pods.selected,
                works: !(has_problem && stays(node)),
                lets_go: !is_down,
            }
        })
        .collect();
    nodes.sort_by_key(visited);
    let min_ready = changed.spec.min_ready_seconds;
    let is_done = |pod: &&Pod| {
        daemon_pods::is_updated(changed, Some(hash), pod)
            && daemon_pods::is_available(pod, min_ready, situation.ready_clock())
            && !pod.metadata.is_terminating()
    };
    let updated = |nodes: &[SimulatedNode<'_>]| {
        let of = |node: &SimulatedNode<'_>| node.pods.iter().filter(is_done).count();
        nodes.iter().filter(|node| of(node) > 0 && (by == Advance::Updates || of(node) == node.pods.len())).count()
    };
    let before = updated(&nodes);
    (0..STEPS).any(|_| {
        let is_changed = advance(&mut nodes, changed, hash, situation.ready_clock());
        is_changed && updated(&nodes) > before
    })
}

/// Returns when a node is visited. The controller's order is random: the worst comes first, which are pods of ineligible nodes that
/// use up the budget forever once they are deleted. Pods that disappear immediately only take time.
fn visited(node: &SimulatedNode<'_>) -> u8 {
    match (node.decision.is_some_and(|decision| decision.should_run), node.lets_go) {
        (false, false) => 0,
        (true, _) => 1,
        (false, true) => 2,
    }
}

/// Applies the controller's next step, and returns whether it changed anything.
pub(in crate::rollout) fn advance(
    nodes: &mut [SimulatedNode<'_>],
    daemon_set: &DaemonSet,
    hash: &str,
    now: jiff::Timestamp,
) -> bool {
    let (create, delete) = {
        let node_pods: Vec<NodePods<'_>> = nodes.iter().map(SimulatedNode::node_pods).collect();
        let step = next_step(daemon_set, hash, &node_pods, now);
        if !step.acts(false, false) {
            return false;
        }
        changes(&step)
    };
    for node in nodes {
        let deleted = |pod: &Pod| delete.contains(&pod.metadata.uid);
        if node.lets_go {
            node.pods.retain(|pod| !deleted(pod));
        } else {
            let deleted = node.pods.iter_mut().filter(|pod| deleted(pod));
            deleted.for_each(|pod| pod.metadata.deletion_timestamp = Time::from(now));
        }
        if create.contains(node.name) {
            node.pods.push(created(node.name, hash, node.works, now));
        }
    }
    true
}

/// Returns the nodes that get a pod, and the UIDs of the deleted pods.
pub(in crate::rollout) fn changes(step: &NextStep<'_>) -> (BTreeSet<String>, BTreeSet<String>) {
    let uid = |pod: &Pod| pod.metadata.uid.clone();
    let mut create: BTreeSet<String> = step.upkeep.create.iter().map(|node| (*node).to_owned()).collect();
    let mut delete: BTreeSet<String> = step.upkeep.delete.iter().map(|pod| uid(pod)).collect();
    if let Some(update) = step.update().filter(|_| step.reaches_update()) {
        let replaced = update.candidates.iter().take(update.replaced_now);
        create.extend(update.create.iter().map(|node| (*node).to_owned()));
        delete.extend(update.delete.iter().map(|pod| uid(pod)));
        delete.extend(update.not_eligible.iter().take(update.not_eligible_deleted_now).map(|old| uid(old.pod)));
        if update.surges {
            create.extend(replaced.map(|old| old.node.to_owned()));
        } else {
            delete.extend(replaced.map(|old| uid(old.pod)));
        }
    }
    (create, delete)
}

/// Returns a pod as the controller creates it, after it has started.
fn created(node: &str, hash: &str, works: bool, now: jiff::Timestamp) -> Pod {
    let mut pod = Pod {
        metadata: ObjectMeta {
            uid: format!("new on {node}"),
            creation_timestamp: Time::from(now),
            ..ObjectMeta::default()
        },
        status: PodStatus { phase: "Running".to_owned(), ..PodStatus::default() },
        ..Pod::default()
    };
    pod.metadata.labels.insert(CONTROLLER_REVISION_HASH_LABEL.to_owned(), hash.to_owned());
    node.clone_into(&mut pod.spec.node_name);
    if works {
        make_available(&mut pod);
    }
    pod
}

/// Makes a pod ready for so long that it is available, whatever minReadySeconds is.
pub(in crate::rollout) fn make_available(pod: &mut Pod) {
    pod.status.conditions.retain(|condition| condition.type_ != "Ready");
    pod.status.conditions.push(PodCondition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Time { seconds: 1, nanos: 0 },
        ..PodCondition::default()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Advance, advances};
    use crate::coverage::test_support::{CURRENT, at, world};
    use crate::facts::index::Index;
    use crate::rollout::situation::Situation;

    /// A pod that is a little past its grace period is about to be gone.
    #[test]
    fn a_pod_that_terminates_is_in_the_way_only_if_it_is_stuck() {
        for (deadline, expected) in [("11:59:40", true), ("11:58:40", false)] {
            let old = json!({"metadata": {"labels": {"controller-revision-hash": "hash1",
                "pod-template-generation": "1"}, "deletionTimestamp": at(deadline)}});
            let world = world().revision_of_image("hash1", 1, "agent:1");
            let snapshot = world.node("a", json!({})).unready_pod("agent-a", "a", json!({}), old).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let is_seen = advances(&situation, situation.daemon_set, CURRENT, |_| true, Advance::Updates);
            assert_eq!(is_seen, expected, "{deadline}");
        }
    }
}
