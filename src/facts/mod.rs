//! Everything known about one DaemonSet, derived once from a snapshot for all other modules.
//!
//! An [`index`] provides lookups in a snapshot. From it, [`Facts`] derives the nodes with the controller's decisions,
//! the pods in its order, which are available and updated, the [`revisions`] including the current one, whether the API
//! server refuses new pods, and which [`controller`] reconciles it.

pub mod controller;
pub mod exceeded_quota;
pub mod index;
pub mod node_removal;
pub mod ready_clock;
pub mod revisions;
pub mod short_lists;
#[cfg(test)]
pub(crate) mod test_support;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Namespace};
use crate::report::age::seconds_between;
use crate::scheduling::critical::{SYSTEM_CRITICAL, has_priority};
use crate::scheduling::daemon_pods::{self, NodePods};
use crate::scheduling::resources::Amounts;
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::DaemonPod;
use controller::Controller;
use exceeded_quota::ExceededQuota;
use index::Index;
use revisions::Revisions;

/// For how many seconds at most the controller waits before it syncs a DaemonSet again whose sync failed
/// (`DefaultTypedControllerRateLimiter`, client-go/util/workqueue, release 0.37.2).
pub(crate) const LONGEST_DELAY: i64 = 1_000;

/// After how many seconds without an event about a refusal the controller does not try any more.
pub(crate) const GIVEN_UP: i64 = 2 * LONGEST_DELAY;

/// How many seconds the controller may take to create a pod after a template change before an earlier refusal is considered.
pub(crate) const TO_CREATE: i64 = 30;

/// How many seconds a success must be newer than a refusal to cast doubt on it: the pods of one batch
/// are created at once, and their events come in no order.
const SAME_BATCH: i64 = 5;

/// By how many seconds the clocks of the machines of a control plane may differ.
const CLOCKS_DIFFER: i64 = 60;

/// Everything known about one DaemonSet.
pub struct Facts<'a> {
    /// The snapshot.
    pub index: &'a Index<'a>,
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// The pod that the controller would create.
    pub daemon_pod: DaemonPod,
    /// Its revisions.
    pub revisions: Revisions<'a>,
    /// The controller that reconciles it.
    pub controller: Controller,
    /// The revision of the live template.
    pub current: Current<'a>,
    /// Every node in the form that the rolling update rules use: the nodes of the snapshot, by name, and then deleted
    /// nodes that still have pods.
    pub node_pods: Vec<NodePods<'a>>,
    /// Whether its pods could be read.
    pub pods_known: bool,
    /// Whether the nodes could be read.
    pub nodes_known: bool,
    creation_is_refused: OnceCell<bool>,
    largest_allocatable: OnceCell<Option<Amounts>>,
}

/// The revision of the live template, if known.
#[derive(Debug, Clone, Copy)]
pub enum Current<'a> {
    /// It is this one.
    Known(&'a ControllerRevision),
    /// The revisions were read, and the controller has not created it yet.
    NotCreatedYet,
    /// The revisions were not read.
    Unread,
}

impl<'a> Current<'a> {
    /// Returns the revision, if it is known.
    pub fn known(self) -> Option<&'a ControllerRevision> {
        if let Current::Known(revision) = self { Some(revision) } else { None }
    }
}

/// The pods of a node by revision. Terminating pods count as neither.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByRevision<'a> {
    /// A pod of the current revision, preferably an available one.
    pub updated: Option<&'a Pod>,
    /// A pod of an older revision, preferably an available one.
    pub old: Option<&'a Pod>,
    /// Whether the updated pod is available.
    pub updated_is_available: bool,
    /// Whether the old pod is available.
    pub old_is_available: bool,
}

#[cfg(test)]
thread_local! {
    /// Number of facts that this thread has built.
    pub(crate) static BUILT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl<'a> Facts<'a> {
    /// Derives the facts of a DaemonSet, which may be a changed one of the snapshot.
    pub fn new(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Self {
        #[cfg(test)]
        BUILT.set(BUILT.get() + 1);
        let daemon_pod = DaemonPod::new(&daemon_set.spec.template);
        let revisions = index.revisions(daemon_set);
        // An observed template has a revision: if there is none at all, they were not read.
        let were_read = index.knows(Kind::ControllerRevisions, &daemon_set.metadata.namespace)
            && !(daemon_set.is_observed() && revisions.all.is_empty());
        let current = match revisions.current() {
            Some(revision) => Current::Known(revision.object),
            None if were_read => Current::NotCreatedYet,
            None => Current::Unread,
        };
        Facts {
            index,
            daemon_set,
            controller: Controller::of(daemon_set),
            current,
            revisions,
            node_pods: node_pods(index, daemon_set, &daemon_pod),
            daemon_pod,
            pods_known: index.knows(Kind::Pods, &daemon_set.metadata.namespace),
            nodes_known: index.knows_some_nodes(),
            creation_is_refused: OnceCell::new(),
            largest_allocatable: OnceCell::new(),
        }
    }

    /// Returns the most that a node has of each resource on which its pods are to run, if all nodes were read.
    pub fn largest_allocatable(&self) -> Option<&Amounts> {
        self.largest_allocatable.get_or_init(|| self.index.largest_allocatable(&self.daemon_pod)).as_ref()
    }

    /// Returns whether all nodes and pods were read.
    pub fn knows_nodes_and_pods(&self) -> bool {
        self.index.nodes_are_read() && self.pods_known
    }

    /// Returns whether enough was read to tell whether a rollout is complete. A list of nodes that is empty although
    /// pods are bound to nodes is incomplete.
    pub fn is_known(&self) -> bool {
        let knows_pods = self.knows_nodes_and_pods() && (!self.index.nodes.is_empty() || self.node_pods.is_empty());
        let knows_revision = self.current.known().is_some() || self.daemon_set.template_generation().is_some();
        knows_pods && knows_revision && self.hash_for_rules().is_some()
    }

    /// Returns every node with its pods; the Node object is `None` for a deleted one.
    pub fn nodes(&self) -> impl Iterator<Item = (Option<&'a Node>, &NodePods<'a>)> {
        let objects = self.index.nodes.iter().copied().map(Some).chain(std::iter::repeat(None));
        objects.zip(&self.node_pods)
    }

    /// Returns whether the cluster depends on it: its pods are critical, or it is in kube-system.
    pub fn is_critical(&self) -> bool {
        let DaemonSet { metadata, spec, .. } = self.daemon_set;
        metadata.namespace == "kube-system"
            || has_priority(&spec.template.spec, SYSTEM_CRITICAL)
            || self.pods().any(|pod| has_priority(&pod.spec, SYSTEM_CRITICAL))
    }

    /// Returns the pods that the controller counts as the DaemonSet's.
    pub fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.node_pods.iter().flat_map(|node| node.pods.iter().copied())
    }

    /// Returns the hash of the current revision, if known.
    pub fn current_hash(&self) -> Option<&'a str> {
        self.current.known().map(ControllerRevision::hash)
    }

    /// Returns the hash that the controller's rules use for the current revision; `None` if it was not read but is needed. It is
    /// empty, which matches no pod, if the revision has not been created yet, or if every pod is known to be updated.
    pub fn hash_for_rules(&self) -> Option<&'a str> {
        let is_alone = |node: &NodePods<'_>| node.pods.len() < 2 || !allows_surge(self.daemon_set);
        match self.current {
            Current::Known(revision) => Some(revision.hash()),
            Current::NotCreatedYet => Some(""),
            Current::Unread => {
                let is_needed =
                    |node: &NodePods<'_>| !is_alone(node) || node.pods.iter().any(|pod| self.is_updated(pod).is_none());
                (!self.node_pods.iter().any(is_needed)).then_some("")
            }
        }
    }

    /// Returns the time of the snapshot.
    pub fn now(&self) -> Timestamp {
        self.index.now()
    }

    /// Returns how long ago something was, in seconds.
    pub fn seconds_since(&self, at: Timestamp) -> i64 {
        seconds_between(at, self.now())
    }

    /// Returns the time for deciding whether a pod has been ready for long enough.
    pub fn ready_clock(&self) -> Timestamp {
        self.revisions.ready_clock
    }

    /// Returns whether a pod is available now.
    pub fn is_available(&self, pod: &Pod) -> bool {
        daemon_pods::is_available(pod, self.daemon_set.spec.min_ready_seconds, self.ready_clock())
    }

    /// Returns whether the controller counts a pod as updated; `None` if the necessary revisions were not read.
    pub fn is_updated(&self, pod: &Pod) -> Option<bool> {
        let updated = daemon_pods::is_updated(self.daemon_set, self.current_hash(), pod);
        // Without the current hash, the template generation of a pod can only prove that it is updated.
        (updated || !matches!(self.current, Current::Unread)).then_some(updated)
    }

    /// Sorts the pods of a node by revision; `None` if the necessary revisions were not read.
    pub fn by_revision<'p>(&self, pods: &[&'p Pod]) -> Option<ByRevision<'p>> {
        let mut sorted = ByRevision::default();
        for pod in pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()) {
            let (kept, kept_is_available) = match self.is_updated(pod)? {
                true => (&mut sorted.updated, &mut sorted.updated_is_available),
                false => (&mut sorted.old, &mut sorted.old_is_available),
            };
            let is_available = self.is_available(pod);
            if kept.is_none() || (is_available && !*kept_is_available) {
                (*kept, *kept_is_available) = (Some(pod), is_available);
            }
        }
        Some(sorted)
    }

    /// Returns whether a kind could be read in the namespace of the DaemonSet.
    pub fn knows(&self, kind: Kind) -> bool {
        self.index.knows(kind, &self.daemon_set.metadata.namespace)
    }

    /// Returns whether the controller has observed a template whose revision is not among those that were read.
    pub fn awaits_revision(&self) -> bool {
        self.daemon_set.is_observed() && matches!(self.current, Current::NotCreatedYet)
    }

    /// Returns its namespace, if that is known to be terminating.
    pub fn terminating_namespace(&self) -> Option<&'a Namespace> {
        let namespace = self.index.namespaces.get(&*self.daemon_set.metadata.namespace).copied();
        namespace.filter(|namespace| namespace.metadata.is_terminating())
    }

    /// Returns the pods of eligible nodes that the controller counts as updated by their template generation, with their nodes,
    /// although they have the hash of another template: they were left by a deleted DaemonSet of the same name.
    pub fn counted_by_generation(&self) -> Vec<(&'a str, &'a Pod)> {
        let Some(current) = self.current_hash() else { return Vec::new() };
        let is_of_template = |pod: &Pod| {
            let template = self.revisions.template_of_pod(pod);
            pod.revision_hash() == current || template.is_some_and(|it| it.same_meaning(&self.revisions.live))
        };
        let eligible = self.node_pods.iter().filter(|node| node.should_run());
        let updated = eligible.filter_map(|node| Some((node.node, self.by_revision(&node.pods)?.updated?)));
        updated.filter(|(_, pod)| !is_of_template(pod)).collect()
    }

    /// Returns whether the API server refuses new pods: their namespace is terminating; or it refused one after the last
    /// one was created, and did so during this rollout, or a node still lacks its pod `TO_CREATE` seconds into it.
    ///
    /// With many nodes and many refusals, client-go's spam filter drops events (`EventSourceObjectSpamFilter`,
    /// tools/record/events_cache.go, release 0.37.2), so the pods are considered, too.
    pub fn creation_is_refused(&self) -> bool {
        *self.creation_is_refused.get_or_init(|| {
            if self.terminating_namespace().is_some() || (self.is_accepted() == Some(false) && self.waits_for_pods()) {
                return true;
            }
            let Some(refused) = self.last_event("FailedCreate") else { return false };
            let began = self.rollout_began_at();
            // If that had fixed it, the pod would have been created at once; events may have been dropped.
            let is_late = || began.is_none_or(|began| self.seconds_since(began) > TO_CREATE);
            let is_last =
                Some(refused) > self.last_created() || (!self.has_created_since(refused) && self.waits_for_pods());
            is_last && (Some(refused) >= began || (is_late() && self.lacks_pods()))
        })
    }

    /// Returns whether a pod was created after another one was refused, and not just in the same batch.
    pub fn has_created_since(&self, refused: Timestamp) -> bool {
        self.last_created().is_some_and(|created| seconds_between(refused, created) > SAME_BATCH)
    }

    /// Returns whether the controller has to create a pod before it replaces others.
    pub fn lacks_pods(&self) -> bool {
        self.node_pods.iter().any(|node| node.lacks_pod(self.daemon_set))
    }

    /// Returns when a pod was last created: its event may have been dropped, and it may have been deleted.
    pub fn last_created(&self) -> Option<Timestamp> {
        let newest_pod = self.pods().filter_map(|pod| pod.metadata.creation_timestamp.get()).max();
        self.last_event("SuccessfulCreate").max(newest_pod)
    }

    /// Returns whether a node lacks its pod for longer than the controller takes to create one, although that runs: whether it is
    /// refused may have no event, because client-go's spam filter has dropped it.
    pub fn waits_for_pods(&self) -> bool {
        let is_past = |at: Option<Timestamp>| at.is_none_or(|at| self.seconds_since(at) > TO_CREATE);
        let lacks_pod = |(node, pods): &(Option<&Node>, &NodePods<'_>)| {
            let joined = node.and_then(|node| node.metadata.creation_timestamp.get());
            pods.lacks_pod(self.daemon_set) && is_past(joined)
        };
        self.pods_known
            && self.nodes().any(|node| lacks_pod(&node))
            && is_past(self.last_created().max(self.last_event("SuccessfulDelete")))
            && is_past(self.rollout_began_at().max(self.daemon_set.metadata.creation_timestamp.get()))
            && self.controller_silent_since().is_none()
    }

    /// Returns the event which tells that the API server does not delete a pod for the controller; `None` if that pod is gone or was
    /// replaced, if another one was deleted since, or if it is so old that the controller would have tried again.
    ///
    /// `DeletePod`, pkg/controller/controller_utils.go, release 1.37.2, writes it after any error but NotFound.
    pub fn deletion_refusal(&self) -> Option<&'a Event> {
        let deleted = self.last_event("SuccessfulDelete");
        let still_stands = |event: &&'a Event| {
            let Some(at) = event.last_seen().filter(|at| deleted.is_none_or(|deleted| deleted < *at)) else {
                return false;
            };
            let ago = self.index.now().duration_since(at).as_secs();
            let is_left = match event.message.split_once("pods \"").and_then(|(_, rest)| rest.split_once('"')) {
                Some((name, _)) => self.pods().any(|pod| pod.metadata.name == name && !pod.metadata.is_terminating()),
                None => !self.has_replaced_since(at),
            };
            (-CLOCKS_DIFFER..=GIVEN_UP).contains(&ago) && is_left
        };
        self.events().into_iter().filter(|event| event.reason == "FailedDelete").find(still_stands)
    }

    /// Returns whether a node that is older than a time has a pod that is younger: another one was deleted there.
    fn has_replaced_since(&self, at: Timestamp) -> bool {
        let is_younger = |created: Option<Timestamp>| created.is_some_and(|created| created > at);
        self.node_pods.iter().any(|node| {
            let object = self.index.node(node.node);
            let is_new_node = is_younger(object.and_then(|node| node.metadata.creation_timestamp.get()));
            !is_new_node && node.pods.iter().any(|pod| is_younger(pod.metadata.creation_timestamp.get()))
        })
    }

    /// Returns when the rollout of the current revision began, or a time before it.
    pub fn rollout_began_at(&self) -> Option<Timestamp> {
        self.revisions.rollout_began_at(self.current.known()?)
    }

    /// Returns the events about the DaemonSet, newest first.
    pub fn events(&self) -> Vec<&'a Event> {
        self.index.events_about("DaemonSet", &self.daemon_set.metadata)
    }

    /// Returns the newest event with a reason about the DaemonSet.
    pub fn newest_event(&self, reason: &str) -> Option<&'a Event> {
        self.events().into_iter().find(|event| event.reason == reason)
    }

    /// Returns when an event with a reason was last seen about the DaemonSet.
    pub fn last_event(&self, reason: &str) -> Option<Timestamp> {
        self.newest_event(reason)?.last_seen()
    }

    /// Returns since when the API server has refused pods, and created none, as far as there are events.
    pub fn refused_since(&self) -> Option<Timestamp> {
        let refused = self.events().into_iter().filter(|event| event.reason == "FailedCreate");
        let first = refused.filter_map(Event::first_seen).min().filter(|_| self.creation_is_refused())?;
        Some(self.last_created().map_or(first, |created| created.max(first)))
    }

    /// Returns whether the API server would create a pod of the current revision now; `None` if it was not asked.
    pub fn is_accepted(&self) -> Option<bool> {
        self.index.snapshot.is_admitted(self.daemon_set, self.current_hash()?)
    }

    /// Returns whether the API server refuses new pods, and is not known to accept them now.
    pub fn still_refuses_pods(&self) -> bool {
        self.creation_is_refused() && !self.refusal_is_over()
    }

    /// Returns whether the API server is not known to refuse new pods any more: it would create one, or, if it was not asked, the quota
    /// that refused the last one has room for it.
    pub fn refusal_is_over(&self) -> bool {
        self.is_accepted().unwrap_or_else(|| self.quota_has_room())
    }

    /// Returns whether the quota that refused the last pod of the current revision is known to have room for it now.
    fn quota_has_room(&self) -> bool {
        let refused = self.newest_event("FailedCreate").filter(|event| event.last_seen() >= self.rollout_began_at());
        let exceeded = refused.and_then(|event| ExceededQuota::of(&event.message));
        let of_namespace = self.index.snapshot.resource_quotas.iter();
        let mut quotas = of_namespace.filter(|quota| quota.metadata.namespace == self.daemon_set.metadata.namespace);
        exceeded.is_some_and(|it| quotas.any(|quota| quota.metadata.name == it.name && it.has_room(quota)))
    }

    /// Returns since when the controller has not renewed its lease, if that is too long.
    pub fn controller_silent_since(&self) -> Option<Timestamp> {
        self.controller.silent_since(self.index.snapshot)
    }

    /// Returns since when the scheduler of the pods has not renewed its lease, if that is too long; the lease is only
    /// read for the default scheduler.
    pub fn scheduler_silent_since(&self) -> Option<Timestamp> {
        let is_default = controller::is_default_scheduler(&self.daemon_set.spec.template.spec.scheduler_name);
        controller::scheduler_silent_since(self.index.snapshot).filter(|_| is_default)
    }

    /// Returns when the default scheduler last renewed its lease, if that was read.
    pub fn scheduler_renewed_at(&self) -> Option<Timestamp> {
        controller::scheduler_renewed_at(self.index.snapshot)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Facts;
    use super::index::Index;
    use super::test_support::{World, world};
    use crate::model::snapshot::{Gap, GapCause, Kind};

    /// Whether the revisions could be read.
    #[derive(Clone, Copy)]
    enum Read {
        Yes,
        None,
        Forbidden,
    }

    fn with_revisions(mut world: World, read: Read) -> World {
        if !matches!(read, Read::Yes) {
            world.snapshot.controller_revisions.clear();
        }
        if matches!(read, Read::Forbidden) {
            let cause = GapCause::Forbidden("list controllerrevisions.apps".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
        }
        world
    }

    fn of(hash: &str, generation: Option<&str>) -> Value {
        json!({"metadata": {"labels": {"controller-revision-hash": hash, "pod-template-generation": generation}}})
    }

    #[test]
    fn whether_a_pod_is_updated_is_unknown_unless_what_tells_it_was_read() {
        let (none, surge) =
            (json!({}), json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}));
        for (situation, read, spec, pods, updated, has_step) in [
            ("read", Read::Yes, &none, vec![of("hash2", Some("2"))], vec![Some(true)], true),
            ("read, old", Read::Yes, &none, vec![of("hash1", Some("1"))], vec![Some(false)], true),
            ("rolled back: the hash counts", Read::Yes, &none, vec![of("hash2", Some("1"))], vec![Some(true)], true),
            (
                "forbidden, of the generation",
                Read::Forbidden,
                &none,
                vec![of("hash2", Some("2"))],
                vec![Some(true)],
                true,
            ),
            (
                "forbidden, of another generation",
                Read::Forbidden,
                &none,
                vec![of("hash1", Some("1"))],
                vec![None],
                false,
            ),
            ("none of them returned", Read::None, &none, vec![of("hash1", Some("1"))], vec![None], false),
            ("forbidden, without a generation", Read::Forbidden, &none, vec![of("hash1", None)], vec![None], false),
            (
                "a surge whose pods may be of either",
                Read::Forbidden,
                &surge,
                vec![of("hash1", Some("1")), of("hash2", Some("2"))],
                vec![None, Some(true)],
                false,
            ),
            (
                "two pods of the generation: which hash is current decides",
                Read::Forbidden,
                &surge,
                vec![of("hash1", Some("2")), of("hash2", Some("2"))],
                vec![Some(true), Some(true)],
                false,
            ),
            ("a surge that is over", Read::Forbidden, &surge, vec![of("hash2", Some("2"))], vec![Some(true)], true),
            ("no pods", Read::Forbidden, &surge, vec![], vec![], true),
        ] {
            let mut world = with_revisions(world().daemon_set(json!({"spec": spec})).node("a", json!({})), read);
            for (number, pod) in pods.into_iter().enumerate() {
                world = world.pod(&format!("agent-{number}"), "a", pod);
            }
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let facts = Facts::new(&index, &snapshot.daemon_sets[0]);
            let found: Vec<Option<bool>> = facts.pods().map(|pod| facts.is_updated(pod)).collect();
            assert_eq!((found, facts.hash_for_rules().is_some()), (updated, has_step), "{situation}");
        }
    }

    #[test]
    fn a_daemon_set_is_critical_by_its_class_the_priority_of_its_pods_or_its_namespace() {
        let pod = |priority: i64| json!({"spec": {"priority": priority}});
        for (class, pod, is_critical) in [
            ("", pod(0), false),
            ("high", pod(1_000_000_000), false),
            ("system-cluster-critical", pod(0), true),
            ("system-node-critical", pod(2_000_001_000), true),
            // A class with another name has the value, or admission has set it.
            ("", pod(2_000_000_000), true),
            ("own", pod(2_000_001_000), true),
        ] {
            let world = world().template(json!({"priorityClassName": class})).node("a", json!({}));
            let snapshot = world.pod("agent-a", "a", pod).finish();
            let index = Index::new(&snapshot);
            assert_eq!(Facts::new(&index, &snapshot.daemon_sets[0]).is_critical(), is_critical, "{class}");
        }
    }
}
