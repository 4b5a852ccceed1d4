//! One DaemonSet at one moment: every node with its pods by revision, and why it is not available.

use std::collections::HashMap;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};

use super::next_step::{self, NextStep};
use crate::coverage::index::Index;
use crate::coverage::options::{Detail, Options};
use crate::coverage::revisions::Revisions;
use crate::coverage::walk::daemon_set_coverage;
use crate::coverage::{PROGRESS_DEADLINE, creation_is_refused, excess, expired_lease, fits_without_terminating};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::report::age::seconds_between;
use crate::report::coverage::{DaemonSetCoverage, NodeCoverage};
use crate::report::reason::{Passes, ReasonCode};
use crate::report::rollout_status::RaisedRequest;
use crate::scheduling::daemon_pods::{self, NodePods, PILE};

/// For how many seconds a pod that was just created may be not ready without counting as a problem.
const STARTUP: i64 = 60;

/// For how many seconds past its grace period a pod may still be there without blocking the rollout: killed containers take
/// the kubelet some time to clean up.
const CLEANUP: i64 = 60;

/// How many seconds after a pod has become available the controller must have acted on it.
const REACTION: i64 = 10;

/// One DaemonSet at one moment.
pub(in crate::rollout) struct Situation<'a> {
    pub(in crate::rollout) index: &'a Index<'a>,
    pub(in crate::rollout) daemon_set: &'a DaemonSet,
    pub(in crate::rollout) revisions: Rc<Revisions<'a>>,
    /// The revision of the live template, if it is known.
    pub(in crate::rollout) current: Option<&'a ControllerRevision>,
    /// What coverage says.
    pub(in crate::rollout) coverage: DaemonSetCoverage,
    /// Every node that exists or has a pod, by name; those that do not exist come last.
    pub(in crate::rollout) nodes: Vec<RolloutNode<'a>>,
    /// The same as the controller's rules take it.
    pub(in crate::rollout) node_pods: Vec<NodePods<'a>>,
    /// Whether nodes, pods and their revisions are known.
    pub(in crate::rollout) is_known: bool,
    /// Whether the API server refuses new pods.
    pub(in crate::rollout) creation_is_refused: bool,
    /// Since when the controller manager has not renewed its lease, if that is too long.
    pub(in crate::rollout) controller_silent_since: Option<Timestamp>,
}

/// A node and its pods by revision. Pods that are being deleted count as neither.
pub(in crate::rollout) struct RolloutNode<'a> {
    pub(in crate::rollout) name: &'a str,
    /// Whether it should run a pod.
    pub(in crate::rollout) eligible: bool,
    /// Whether it exists.
    pub(in crate::rollout) exists: bool,
    /// Whether it has its one pod, which is updated and available.
    pub(in crate::rollout) is_done: bool,
    pub(in crate::rollout) updated: Option<&'a Pod>,
    pub(in crate::rollout) old: Option<&'a Pod>,
    pub(in crate::rollout) updated_is_available: bool,
    pub(in crate::rollout) old_is_available: bool,
    /// The pods that are being deleted.
    pub(in crate::rollout) terminating: Vec<&'a Pod>,
    /// The pods that have failed and are not being deleted.
    pub(in crate::rollout) failed: Vec<&'a Pod>,
    /// Whether pods of the current revision fail as fast as they are created.
    pub(in crate::rollout) keeps_failing: bool,
    /// The primary reason that coverage gives.
    pub(in crate::rollout) reason: Option<ReasonCode>,
    /// What the updated pod requests beyond what the older pods do, if they would fit where it does not; empty if it is
    /// about host ports.
    pub(in crate::rollout) excess: Option<Vec<RaisedRequest>>,
    /// Since when the node has had no available pod, if that is known.
    pub(in crate::rollout) since: Option<Timestamp>,
}

impl RolloutNode<'_> {
    /// Returns whether pods of another revision may do better on the node as it is.
    pub(in crate::rollout) fn may_be_the_revisions(&self) -> bool {
        let is_about_the_pod = |code: ReasonCode| code.can_be_template() && !code.is_lack_of_room();
        self.excess.is_some() || self.reason.is_some_and(is_about_the_pod)
    }
}

impl<'a> Situation<'a> {
    /// Computes the situation of a DaemonSet in a snapshot.
    pub(in crate::rollout) fn new(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Self {
        let options = Options { detail: Detail::Nodes, ..Options::default() };
        let coverage = daemon_set_coverage(index, daemon_set, &options);
        let revisions = index.revisions(daemon_set);
        let current = revisions.current().map(|revision| revision.object);
        let node_pods = index.nodes_with_pods(daemon_set);
        let namespace = &daemon_set.metadata.namespace;
        let knows_pods = index.knows(Kind::Nodes, "") && index.knows(Kind::Pods, namespace);
        // A list without any node, beside pods that are bound to nodes, is no list of all nodes.
        let knows_pods = knows_pods && (!index.nodes.is_empty() || node_pods.is_empty());
        let is_known = knows_pods && (current.is_some() || daemon_set.template_generation().is_some());
        let mut situation = Situation {
            index,
            daemon_set,
            revisions,
            current,
            nodes: Vec::new(),
            is_known,
            creation_is_refused: creation_is_refused(index, daemon_set),
            // The lease is not that of OpenKruise's controller.
            controller_silent_since: expired_lease(index.snapshot).filter(|_| daemon_set.flavor() == Flavor::Apps),
            node_pods: Vec::new(),
            coverage,
        };
        let rows: HashMap<&str, &NodeCoverage> =
            situation.coverage.nodes.iter().map(|row| (row.name.as_str(), row)).collect();
        let nodes = node_pods.iter().map(|pods| {
            let node = index.node(pods.node);
            situation.rollout_node(node, pods, rows.get(pods.node).copied())
        });
        situation.nodes = nodes.collect();
        situation.node_pods = node_pods;
        situation.find_excess();
        situation
    }

    fn rollout_node(&self, node: Option<&Node>, pods: &NodePods<'a>, row: Option<&NodeCoverage>) -> RolloutNode<'a> {
        let hash = self.current.map(ControllerRevision::hash);
        let is_updated = |pod: &Pod| daemon_pods::is_updated(self.daemon_set, hash, pod);
        let of = |updated: bool| {
            let live = pods.pods.iter().copied().filter(|pod| !pod.metadata.is_terminating());
            let of_revision: Vec<&Pod> = live.filter(|pod| is_updated(pod) == updated).collect();
            let available = of_revision.iter().copied().find(|pod| self.is_available(pod));
            (available.or(of_revision.first().copied()), available.is_some())
        };
        let ((updated, updated_is_available), (old, old_is_available)) = (of(true), of(false));
        let eligible = pods.decision.is_some_and(|decision| decision.should_run);
        let reason = row.and_then(|row| row.reasons.first()).map(|reason| reason.code);
        RolloutNode {
            name: pods.node,
            eligible,
            exists: pods.decision.is_some(),
            is_done: eligible && updated_is_available && pods.pods.len() == 1,
            updated,
            old,
            updated_is_available,
            old_is_available,
            terminating: pods.pods.iter().copied().filter(|pod| pod.metadata.is_terminating()).collect(),
            failed: pods.pods.iter().copied().filter(|pod| daemon_pods::has_failed(pod)).collect(),
            keeps_failing: daemon_pods::keeps_failing(self.daemon_set, hash, &pods.pods),
            since: reason.and_then(|code| unavailable_since(code, node, &pods.pods)),
            excess: None,
            reason,
        }
    }

    /// Compares what the pods that find no room request with what those of the revision to return to do.
    fn find_excess(&mut self) {
        let Some(hash) = self.revisions.proven().map(|(revision, _)| revision.object.hash().to_owned()) else { return };
        let is_proven = |pod: &&Pod| pod.revision_hash() == hash;
        let mut available = self.nodes.iter().filter(|node| node.old_is_available).filter_map(|node| node.old);
        let Some(older) = available.find(is_proven) else { return };
        let index = self.index;
        let waits = |node: &&mut RolloutNode<'_>| {
            let has_no_room = |code: ReasonCode| code.is_lack_of_room() || code == ReasonCode::NeverFits;
            node.reason.is_some_and(has_no_room)
        };
        for node in self.nodes.iter_mut().filter(waits) {
            let pod = node.updated.filter(|pod| pod.spec.node_name.is_empty()).zip(index.node(node.name));
            node.excess = pod.and_then(|(pod, object)| excess(index, object, pod, node.old, older));
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        daemon_pods::is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now())
    }

    /// Returns the time of the snapshot.
    pub(in crate::rollout) fn now(&self) -> Timestamp {
        self.index.now()
    }

    /// Returns when the rollout of the current revision began.
    pub(in crate::rollout) fn rolled_out_at(&self) -> Option<Timestamp> {
        self.current?.rollout_began_at()
    }

    /// Computes the next step of the controller.
    pub(in crate::rollout) fn next_step(&self) -> NextStep<'a> {
        let hash = self.current.map_or("", ControllerRevision::hash);
        next_step::next_step(self.daemon_set, hash, &self.node_pods, self.now())
    }

    /// Returns since when the controller could have deleted old pods whose surge pods are available, if it has missed that.
    ///
    /// A pod becomes available by time alone if `minReadySeconds` is set. The controller then looks again at one later time
    /// only, the earliest that it has noted (`AddAfter`, client-go/util/workqueue/delaying_queue.go, release 0.36.3), and
    /// its status, which would make it look once more, counts the old pods while it surges (`updateDaemonSetStatus`,
    /// pkg/controller/daemon/daemon_controller.go, release 1.36.3). It stands still until another event of the DaemonSet.
    pub(in crate::rollout) fn stalled_since(&self, step: &NextStep<'_>) -> Option<Timestamp> {
        let min_ready = self.daemon_set.spec.min_ready_seconds;
        let deletes: Vec<&Pod> =
            step.upkeep.delete.iter().copied().filter(|pod| !pod.metadata.is_terminating()).collect();
        // OpenKruise's controller notes the time of each pod.
        let is_advanced = self.daemon_set.flavor() == Flavor::Advanced;
        if is_advanced || min_ready == 0 || deletes.is_empty() || !step.upkeep.create.is_empty() {
            return None;
        }
        let is_replaced = |node: &&RolloutNode<'_>| {
            node.eligible
                && node.updated_is_available
                && node.old.is_some_and(|old| deletes.iter().any(|pod| pod.metadata.uid == old.metadata.uid))
        };
        let replaced: Vec<&RolloutNode<'_>> = self.nodes.iter().filter(is_replaced).collect();
        let is_moving = |node: &RolloutNode<'_>| node.eligible && !node.is_done && self.is_passing(node);
        if replaced.len() < deletes.len() || self.nodes.iter().any(|node| !is_replaced(&node) && is_moving(node)) {
            return None;
        }
        let available_at = |node: &&RolloutNode<'_>| {
            let ready = node.updated?.condition("Ready")?.last_transition_time.get()?;
            ready.checked_add(SignedDuration::from_secs(min_ready)).ok()
        };
        let since = replaced.iter().map(available_at).min().flatten()?;
        (seconds_between(since, self.now()) > REACTION).then_some(since)
    }

    /// Returns whether a node is about to become available, or to stop counting against the budget.
    pub(in crate::rollout) fn is_passing(&self, node: &RolloutNode<'_>) -> bool {
        if node.updated_is_available && !node.failed.is_empty() {
            // The controller deletes them one by one, each after a longer backoff.
            return node.failed.len() < PILE && self.is_recent(node.since, STARTUP);
        }
        match node.reason {
            _ if node.keeps_failing => false,
            Some(code) if code.is_lack_of_room() && self.has_room(node) => true,
            Some(ReasonCode::StuckTerminating) => node.terminating.iter().all(|pod| {
                pod.metadata.finalizers.is_empty() && self.is_recent(pod.metadata.deletion_timestamp.get(), CLEANUP)
            }),
            // The pod of a surge on a node that is no longer eligible: the controller waits for it.
            Some(ReasonCode::Misscheduled) if !node.updated_is_available => {
                let surge = node.updated.filter(|_| node.old.is_some());
                surge.is_some_and(|pod| self.is_recent(pod.metadata.creation_timestamp.get(), STARTUP))
            }
            // The scheduler has yet to notice that the node has lost the taint.
            Some(ReasonCode::UntoleratedNoSchedule) => self.index.node(node.name).is_some_and(has_no_taint),
            // The node controller removes the taint of a node that is ready again.
            Some(ReasonCode::NodeNotReadyTaint) => self.index.node(node.name).is_some_and(is_ready),
            Some(code) => self.passes(code, node.since),
            // Coverage finds nothing: the pod beside the old one is starting, or a ready pod is terminating.
            None => (node.updated.is_some() || !node.terminating.is_empty()) && !node.is_done,
        }
    }

    /// Returns whether the pod that waits for room gets it as soon as others have terminated; the scheduler may still have
    /// to notice.
    fn has_room(&self, node: &RolloutNode<'_>) -> bool {
        let pod = node.updated.or(node.old).filter(|pod| pod.spec.node_name.is_empty());
        let object = self.index.node(node.name);
        pod.zip(object).and_then(|(pod, object)| fits_without_terminating(self.index, object, pod)).unwrap_or(false)
    }

    /// Returns whether a time is known, and was less than this number of seconds ago.
    fn is_recent(&self, since: Option<Timestamp>, seconds: i64) -> bool {
        since.is_some_and(|since| seconds_between(since, self.now()) < seconds)
    }

    /// Returns whether a reason is expected to pass by itself.
    pub(in crate::rollout) fn passes(&self, code: ReasonCode, since: Option<Timestamp>) -> bool {
        match code.passes() {
            Passes::Never => false,
            Passes::AtStart => self.is_recent(since, STARTUP),
            Passes::InTime => since.is_none() || self.is_recent(since, PROGRESS_DEADLINE),
            Passes::Always => true,
        }
    }
}

fn has_no_taint(node: &Node) -> bool {
    node.spec.taints.iter().all(|taint| taint.effect == "PreferNoSchedule")
}

fn is_ready(node: &Node) -> bool {
    node.condition("Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns since when a node has had no available pod, for a reason that coverage found.
fn unavailable_since(code: ReasonCode, node: Option<&Node>, pods: &[&Pod]) -> Option<Timestamp> {
    let of_pod = |pod: &Pod, condition: &str| {
        let condition = pod.condition(condition).filter(|condition| condition.status != "True")?;
        condition.last_transition_time.get()
    };
    if matches!(code, ReasonCode::NodeUnreachable | ReasonCode::NodeNotReadyTaint) {
        let ready = node?.condition("Ready").filter(|ready| ready.status != "True")?;
        return ready.last_transition_time.get();
    }
    let live = pods.iter().copied().filter(|pod| !pod.metadata.is_terminating());
    // Beside an available pod, the reason is that of another one.
    let pod = live.min_by_key(|pod| pod.is_ready()).or_else(|| pods.first().copied())?;
    if pod.metadata.is_terminating() {
        return pod.metadata.deleted_at();
    }
    of_pod(pod, "Ready").or_else(|| of_pod(pod, "PodScheduled")).or_else(|| pod.metadata.creation_timestamp.get())
}
