//! What is known of one DaemonSet, derived from a snapshot once: every other room reads it here.
//!
//! An [`index`] looks a snapshot up. From it, [`Facts`] has the nodes with the controller's decisions and the pods in its
//! order, what is available and what is updated, the [`revisions`] with the one that is current, whether the API server
//! refuses new pods, and whether the controller is down.

pub mod index;
pub mod node_removal;
pub mod ready_clock;
pub mod revisions;
#[cfg(test)]
pub(crate) mod test_support;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::age::seconds_between;
use crate::scheduling::daemon_pods::{self, NodePods};
use crate::scheduling::should_run::DaemonPod;
use index::Index;
use ready_clock::ready_clock;
use revisions::Revisions;

/// How many seconds past its duration a lease may be before its holder counts as down.
const LEASE_SLACK: i64 = 45;

/// What is known of one DaemonSet.
pub struct Facts<'a> {
    /// The snapshot.
    pub index: &'a Index<'a>,
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// The pod that the controller would create.
    pub daemon_pod: DaemonPod,
    /// Its revisions.
    pub revisions: Revisions<'a>,
    /// The revision of the live template; `None` if it is not known, or if the controller has not created it yet.
    pub current: Option<&'a ControllerRevision>,
    /// Every node as the rules of a rolling update take it: the nodes of the snapshot, by name, and then those that do not
    /// exist but have pods.
    pub node_pods: Vec<NodePods<'a>>,
    /// Whether its pods could be read.
    pub pods_known: bool,
    /// Whether the nodes could be read.
    pub nodes_known: bool,
    ready_clock: Timestamp,
    creation_is_refused: OnceCell<bool>,
}

/// The pods of a node by revision. Those that are being deleted count as neither.
#[derive(Debug, Clone, Copy)]
pub struct ByRevision<'a> {
    /// A pod of the current revision, an available one if there is one.
    pub updated: Option<&'a Pod>,
    /// A pod of an older revision, an available one if there is one.
    pub old: Option<&'a Pod>,
    /// Whether the updated pod is available.
    pub updated_is_available: bool,
    /// Whether the old pod is available.
    pub old_is_available: bool,
}

#[cfg(test)]
thread_local! {
    /// How many facts this thread has built.
    pub(crate) static BUILT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl<'a> Facts<'a> {
    /// Derives what is known of a DaemonSet, which may be one of the snapshot that was changed.
    pub fn new(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Self {
        #[cfg(test)]
        BUILT.set(BUILT.get() + 1);
        let daemon_pod = DaemonPod::new(&daemon_set.spec.template);
        let revisions = index.revisions(daemon_set);
        Facts {
            index,
            daemon_set,
            current: revisions.current().map(|revision| revision.object),
            revisions,
            node_pods: node_pods(index, daemon_set, &daemon_pod),
            daemon_pod,
            pods_known: index.knows(Kind::Pods, &daemon_set.metadata.namespace),
            nodes_known: !index.nodes.is_empty() || index.knows(Kind::Nodes, ""),
            ready_clock: ready_clock(daemon_set, index.pods_of(daemon_set).map(|(_, pod)| pod), index.snapshot),
            creation_is_refused: OnceCell::new(),
        }
    }

    /// Returns every node with its pods; `None` for the Node object of one that does not exist.
    pub fn nodes(&self) -> impl Iterator<Item = (Option<&'a Node>, &NodePods<'a>)> {
        let objects = self.index.nodes.iter().copied().map(Some).chain(std::iter::repeat(None));
        objects.zip(&self.node_pods)
    }

    /// Returns the pods that the controller counts as the DaemonSet's.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.node_pods.iter().flat_map(|node| node.pods.iter().copied())
    }

    /// Returns the hash of the current revision, if it is known.
    pub fn current_hash(&self) -> Option<&'a str> {
        self.current.map(ControllerRevision::hash)
    }

    /// Returns the time of the snapshot.
    pub fn now(&self) -> Timestamp {
        self.index.now()
    }

    /// Returns the time at which it is decided whether a pod has been ready for long enough.
    pub fn ready_clock(&self) -> Timestamp {
        self.ready_clock
    }

    /// Returns whether a pod counts as available now.
    pub fn is_available(&self, pod: &Pod) -> bool {
        daemon_pods::is_available(pod, self.daemon_set.spec.min_ready_seconds, self.ready_clock)
    }

    /// Returns whether the controller counts a pod as updated, as far as the revisions are known.
    pub fn counts_as_updated(&self, pod: &Pod) -> bool {
        daemon_pods::is_updated(self.daemon_set, self.current_hash(), pod)
    }

    /// Returns whether a pod counts as updated; `None` if the revisions are not known.
    pub fn is_updated(&self, pod: &Pod) -> Option<bool> {
        let updated = self.counts_as_updated(pod);
        let not_observed = || !self.daemon_set.is_observed() && self.knows(Kind::ControllerRevisions);
        let not_created_yet = || not_observed() || self.awaits_revision();
        // Without the current hash, the template generation of a pod can only show that it is updated.
        (updated || self.current.is_some() || not_created_yet()).then_some(updated)
    }

    /// Sorts the pods of a node by revision.
    pub fn by_revision<'p>(&self, pods: &[&'p Pod]) -> ByRevision<'p> {
        let of = |updated: bool| {
            let live = || pods.iter().copied().filter(|pod| !pod.metadata.is_terminating());
            let mut of_revision = live().filter(|pod| self.counts_as_updated(pod) == updated);
            let first = of_revision.next();
            let available = first.into_iter().chain(of_revision).find(|pod| self.is_available(pod));
            (available.or(first), available.is_some())
        };
        let ((updated, updated_is_available), (old, old_is_available)) = (of(true), of(false));
        ByRevision { updated, old, updated_is_available, old_is_available }
    }

    /// Returns whether a kind of object could be read in the namespace of the DaemonSet.
    pub fn knows(&self, kind: Kind) -> bool {
        self.index.knows(kind, &self.daemon_set.metadata.namespace)
    }

    /// Returns whether the controller has observed a template whose revision is not among those that were read.
    pub fn awaits_revision(&self) -> bool {
        self.daemon_set.is_observed()
            && !self.revisions.all.is_empty()
            && self.knows(Kind::ControllerRevisions)
            && self.current.is_none()
    }

    /// Returns whether the API server refuses new pods: it refused one after the last one was created and after the
    /// revision was rolled out.
    ///
    /// On many nodes client-go's spam filter drops events about created pods, so the pods count, too.
    pub fn creation_is_refused(&self) -> bool {
        *self.creation_is_refused.get_or_init(|| {
            let Some(refused) = self.last_event("FailedCreate") else { return false };
            let newest_pod = self.pods().filter_map(|pod| pod.metadata.creation_timestamp.get()).max();
            let created = self.last_event("SuccessfulCreate").max(newest_pod);
            let began = self.current.and_then(|current| current.rollout_began_at(self.daemon_set));
            Some(refused) > created && Some(refused) >= began
        })
    }

    /// Returns when an event with a reason was last seen about the DaemonSet.
    pub fn last_event(&self, reason: &str) -> Option<Timestamp> {
        let events = self.index.events_about("DaemonSet", &self.daemon_set.metadata);
        events.into_iter().find(|event| event.reason == reason)?.last_seen()
    }

    /// Returns whether the API server would create a pod of the current revision now; `None` if it was not asked.
    pub fn is_accepted(&self) -> Option<bool> {
        self.index.snapshot.is_admitted(self.daemon_set, self.current?.hash())
    }

    /// Returns whether the API server would create a pod of the revision to return to, and none of the current one.
    pub fn another_is_admitted(&self) -> bool {
        let target = self.revisions.target().map(|(target, _)| target.object.hash());
        let admits = |hash| self.index.snapshot.is_admitted(self.daemon_set, hash);
        target.and_then(admits) == Some(true) && self.is_accepted() == Some(false)
    }

    /// Returns whether the API server refuses new pods, and is not known to accept them by now.
    pub fn still_refuses_pods(&self) -> bool {
        self.creation_is_refused() && self.is_accepted() != Some(true)
    }

    /// Returns since when the controller has not renewed its lease, if that is too long.
    pub fn controller_silent_since(&self) -> Option<Timestamp> {
        // The lease is not that of OpenKruise's controller.
        expired_lease(self.index.snapshot).filter(|_| self.daemon_set.flavor() == Flavor::Apps)
    }
}

/// Returns the nodes with the controller's decisions, and the pods that it counts as the DaemonSet's in its order.
fn node_pods<'a>(index: &Index<'a>, daemon_set: &DaemonSet, daemon_pod: &DaemonPod) -> Vec<NodePods<'a>> {
    let selector = match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.selector.as_ref(),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => None,
    };
    let existing = index.nodes.iter().map(|node| NodePods {
        node: &node.metadata.name,
        decision: Some(daemon_pod.decide(node)),
        pods: Vec::new(),
        selected: selector.is_none_or(|selector| selector.matches(&node.metadata.labels)),
    });
    let mut nodes: Vec<NodePods<'a>> = existing.collect();
    let mut elsewhere: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for (target, pod) in index.pods_of(daemon_set) {
        match index.number(target) {
            Some(number) => nodes[number].pods.push(pod),
            None => elsewhere.entry(target).or_default().push(pod),
        }
    }
    nodes.extend(elsewhere.into_iter().map(|(node, pods)| NodePods { node, decision: None, pods, selected: false }));
    nodes.iter_mut().for_each(|node| node.pods.sort_by(|a, b| daemon_pods::controller_order(a, b)));
    nodes
}

/// Returns when the controller manager last renewed its lease, if that is too long ago.
pub fn expired_lease(snapshot: &Snapshot) -> Option<Timestamp> {
    let lease = snapshot
        .leases
        .iter()
        .find(|lease| lease.metadata.namespace == "kube-system" && lease.metadata.name == "kube-controller-manager")?;
    let renewed = lease.spec.renew_time.get()?;
    let duration = lease.spec.lease_duration_seconds.unwrap_or(15);
    (seconds_between(renewed, snapshot.now) > duration + LEASE_SLACK).then_some(renewed)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::expired_lease;
    use super::test_support::{at, world};

    #[test]
    fn a_lease_has_expired_a_while_after_its_duration() {
        let expired = |renewed: &str| {
            let mut snapshot = world().finish();
            // That of the scheduler does not count.
            for (name, renewed) in [("kube-scheduler", "11:00:00"), ("kube-controller-manager", renewed)] {
                let lease = json!({
                    "metadata": {"name": name, "namespace": "kube-system"},
                    "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15},
                });
                snapshot.leases.push(from_value(lease).unwrap());
            }
            expired_lease(&snapshot).is_some()
        };
        assert_eq!((expired("11:59:00"), expired("11:58:59")), (false, true));
    }
}
