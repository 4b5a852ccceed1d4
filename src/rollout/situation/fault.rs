//! Whose fault it is that a node has no available pod of the current revision: the node's, the cluster's or the revision's.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::next_step::NextStep;
use super::worked_for_long::is_steady;
use super::{RolloutNode, Situation, was_never_ready};
use crate::coverage::{Diagnosis, Lack, Origin, PROGRESS_DEADLINE, TemplatePart, creation_refusal};
use crate::facts::controller::is_default_scheduler;
use crate::facts::node_removal::was_taken_down;
use crate::model::amounts::is_pod_level;
use crate::model::pod::{Pod, PodSpec};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{BlockedBy, Fault, FaultCounts, Suspect, SuspectKind, Verdict};
use crate::scheduling::daemon_pods;
use crate::scheduling::ports::needs_more_ports;
use crate::scheduling::resources::{exact_limits, requests_more};

/// How many other pods of a node must fail, and none work, so that the node is to blame.
const MIN_OTHER_PODS: usize = 2;

/// For how many seconds after a node has joined its first pods are created and started.
const JOINING: i64 = 300;

/// The significance level for blaming the update for lost nodes.
const IMPROBABLE: f64 = 0.05;

/// How many seconds a pod must have been unready to count as failing.
const FAILING: i64 = 60;

/// The longest time in seconds that the kubelet waits before it restarts a container; the first one is 10 seconds.
const MOST_BACKOFF: i64 = 300;

/// The most restarts of a pod that are considered.
const MOST_RESTARTS: i64 = 100;

/// The faults of a DaemonSet's nodes.
pub(in crate::rollout) struct Faults<'s> {
    by_node: BTreeMap<&'s str, Fault>,
    /// Whose fault a refusal of new pods is, if the API server refuses them.
    pub(in crate::rollout) of_refusal: Option<Fault>,
    /// The missing nodes without a fault of their own that wait for others, and whose fault the waiting is.
    waiting: Option<(usize, Fault)>,
}

impl<'s> Faults<'s> {
    /// Judges all nodes that keep the rollout from being complete, those that their state excludes, and those that count against the budget.
    ///
    /// They are more than those that hold it up ([`problems`](crate::rollout::status)): an old pod that is available on a node that is no
    /// longer eligible is missing a replacement, but neither takes of the budget nor has a problem.
    pub(super) fn new(
        situation: &'s Situation<'_>,
        step: &NextStep<'_>,
        judged: Result<Verdict, BlockedBy>,
        suspect: Option<&Suspect>,
    ) -> Self {
        let used_by = step.update().map_or(&[][..], |update| &update.used_by);
        let is_judged = |node: &&RolloutNode<'_>| match node.eligible {
            true => !node.is_done,
            false => {
                node.is_missing()
                    || is_excluded_by_its_state(node)
                    || used_by.contains(&node.name)
                    || step.node_not_found() == Some(node.name)
            }
        };
        let nodes = situation.nodes.iter().filter(is_judged);
        let by_node: BTreeMap<&str, Fault> =
            nodes.filter_map(|node| Some((node.name, of_node(situation, suspect, node)?))).collect();
        let of_refusal =
            creation_refusal(situation).map(|refusal| blame(situation, suspect, &refusal.diagnosis(), None));
        let waits = |node: &&RolloutNode<'_>| {
            node.is_missing() && !by_node.contains_key(node.name) && !situation.recovers(node)
        };
        let fault = judged.err().map(|blocked_by| match blocked_by {
            BlockedBy::MissedSurgePods
            | BlockedBy::ControllerDown
            | BlockedBy::CreationBackoff
            | BlockedBy::DeletionRefused
            | BlockedBy::NoProgress => Fault::Cluster,
            BlockedBy::Budget => worst(used_by.iter().filter_map(|name| by_node.get(name))),
            BlockedBy::NodeNotFound => Fault::Node,
            // With surge, there may be no node that is missing because of that.
            BlockedBy::CreationRefused => worst(by_node.values().chain(&of_refusal)),
            BlockedBy::UnavailablePods => worst(by_node.values()),
        });
        let waiting = fault.map(|fault| (situation.nodes.iter().filter(waits).count(), fault));
        Faults { by_node, of_refusal, waiting: waiting.filter(|(nodes, _)| *nodes > 0) }
    }

    /// Returns whose fault it is that a node is not done; `None` if it is done, is about to be, or waits for others.
    pub(in crate::rollout) fn of(&self, node: &str) -> Option<Fault> {
        self.by_node.get(node).copied()
    }

    /// Counts the missing nodes by fault, including those that wait for others.
    pub(in crate::rollout) fn counts(&self, situation: &Situation<'_>) -> FaultCounts {
        let mut counts = FaultCounts::default();
        // A node that is down may be the revision's fault even if its taint makes it ineligible.
        let counts_too = |node: &RolloutNode<'_>| may_be_taken_down(situation, node);
        for node in situation.nodes.iter().filter(|node| node.is_missing() || counts_too(node)) {
            self.of(node.name).iter().for_each(|fault| *counts.of(*fault) += 1);
        }
        if let Some((nodes, fault)) = self.waiting {
            *counts.of(fault) += nodes;
            counts.waiting = nodes;
        }
        counts
    }

    /// Returns whether a rollout is blocked or degraded only by nodes that are down, and at fault themselves.
    pub(super) fn are_only_down_nodes(&self, situation: &Situation<'_>, verdict: Verdict) -> bool {
        let mut missing = situation.nodes.iter().filter(|node| node.is_missing()).peekable();
        let is_down = |node: &RolloutNode<'_>| !node.is_ready() || node.code().is_some_and(ReasonCode::is_node_down);
        matches!(verdict, Verdict::Blocked | Verdict::Degraded)
            && missing.peek().is_some()
            && missing.all(|node| self.of(node.name) == Some(Fault::Node) && is_down(node))
    }
}

/// Returns whether a node has a pod that is not available and updated, and is ineligible only because it is down or
/// about to be removed: it would be missing if its pod tolerated the taints.
pub(in crate::rollout) fn is_excluded_by_its_state(node: &RolloutNode<'_>) -> bool {
    let has_pod = node.updated.is_some() || node.old.is_some() || !node.terminating.is_empty();
    !node.eligible && !node.updated_is_available && node.object.is_some() && has_pod && node.is_of_node()
}

/// Returns the fault that must be fixed first.
fn worst<'f>(faults: impl Iterator<Item = &'f Fault>) -> Fault {
    faults.copied().max().unwrap_or(Fault::Unknown)
}

/// Judges a node that is not done; `None` if it has no problem.
pub(super) fn of_node(situation: &Situation<'_>, suspect: Option<&Suspect>, node: &RolloutNode<'_>) -> Option<Fault> {
    let diagnosis = node.diagnosis.as_ref()?;
    if situation.controller_silent_since().is_some() && diagnosis.code == ReasonCode::CreatePending {
        return Some(Fault::Cluster);
    }
    (!situation.recovers(node)).then(|| blame(situation, suspect, diagnosis, Some(node)))
}

/// Returns the number of eligible nodes on which pods fail, if each of these nodes is at fault itself.
pub(in crate::rollout) fn failing_by_node(situation: &Situation<'_>, suspect: Option<&Suspect>) -> Option<usize> {
    let fails =
        |node: &&RolloutNode<'_>| !node.updated_is_available && node.updated.is_some() && !situation.recovers(node);
    let failing: Vec<_> = situation.eligible().filter(fails).collect();
    let is_of_node = |node: &&RolloutNode<'_>| of_node(situation, suspect, node) == Some(Fault::Node);
    (!failing.is_empty() && failing.iter().all(is_of_node)).then_some(failing.len())
}

/// Judges whose fault a cause is, from its origin and from the state of all nodes; without a node, it affects the pods that a surge
/// does not get.
///
/// Nothing else decides this: acceptance and advice call it.
fn blame(
    situation: &Situation<'_>,
    suspect: Option<&Suspect>,
    diagnosis: &Diagnosis,
    node: Option<&RolloutNode<'_>>,
) -> Fault {
    let raised = || situation.raised();
    // Pods that were admitted before are refused because of something newer.
    let is_of_cluster = situation.has_worked_for_long();
    match &diagnosis.origin {
        Origin::Node => node.map_or(Fault::Node, |node| of_state(situation, node, diagnosis.code)),
        Origin::Surplus | Origin::Admission | Origin::Unknown => Fault::Unknown,
        Origin::ControlPlane | Origin::Quota | Origin::Policy(_) if is_of_cluster => Fault::Cluster,
        Origin::ControlPlane | Origin::Quota | Origin::Policy(_) if situation.another_is_admitted() => Fault::Revision,
        Origin::ControlPlane => Fault::Cluster,
        // A quota may count limits, and require them to be set.
        Origin::Quota if raised().limits == Some(true) => Fault::Revision,
        Origin::Quota => of_raised(raised().requests),
        Origin::Policy(_) => of_admission(situation),
        Origin::Room(lack) => node.map_or(Fault::Unknown, |node| of_lack(situation, suspect, *lack, node)),
        Origin::Template(TemplatePart::Scheduler) if is_of_cluster => Fault::Cluster,
        Origin::Template(TemplatePart::Scheduler) => of_raised(raised().scheduler),
        // Both revisions need the missing object.
        Origin::Template(TemplatePart::Object { .. } | TemplatePart::Registry(_))
            if situation.has_in_common(&diagnosis.origin) =>
        {
            Fault::Cluster
        }
        Origin::Template(_) | Origin::Placement | Origin::Time => match node {
            Some(node) => of_template(situation, suspect, &diagnosis.origin, node),
            None if is_of_cluster || situation.has_in_common(&diagnosis.origin) => Fault::Unknown,
            None => Fault::Revision,
        },
    }
}

/// Returns whose fault it is that a pod does not run because of its template, or because of its node.
fn of_template(situation: &Situation<'_>, suspect: Option<&Suspect>, origin: &Origin, node: &RolloutNode<'_>) -> Fault {
    let blamed = |kind| suspect.is_some_and(|suspect| suspect.what == kind);
    if !node.is_on_current() {
        // The old pod fails, and is replaced.
        return if was_broken(situation, node) && works_on_most(situation) { Fault::Node } else { Fault::Unknown };
    }
    match everything_fails_since(situation, node) {
        _ if was_lost_before(situation, node) => Fault::Node,
        Some(since) if was_before_rollout(situation, since) => Fault::Node,
        // This pod may be of a DaemonSet that makes the others fail, such as a network plugin, unless they failed before it existed.
        Some(since) if blamed(SuspectKind::Nodes) && was_before_pod(node, since) => Fault::Node,
        _ if suspect.is_some_and(|suspect| suspect.what != SuspectKind::Revision) => Fault::Unknown,
        _ if situation.has_worked_for_long() || situation.only_restarts() => Fault::Unknown,
        _ if situation.has_in_common(origin) => Fault::Unknown,
        _ => Fault::Revision,
    }
}

/// Returns whose fault it is that a node has insufficient resources.
fn of_lack(situation: &Situation<'_>, suspect: Option<&Suspect>, lack: Lack, node: &RolloutNode<'_>) -> Fault {
    let raised = situation.raised();
    let requests_too_much = node.is_on_current() && (node.excess.is_some() || node.is_excess_surge);
    match lack {
        // It would fit if the revision had the requests of the other ones, or did not surge.
        Lack::Pods | Lack::Requests | Lack::HostPorts | Lack::BesideOldPod
            if requests_too_much && !situation.has_worked_for_long() =>
        {
            Fault::Revision
        }
        // Two pods of any revision exclude each other: the update strategy is the cause.
        Lack::BesideOldPod => Fault::Unknown,
        Lack::OwnUsage => match may_exceed_itself(situation, node) {
            true => Fault::Unknown,
            false => Fault::Node,
        },
        Lack::HostPorts if !node.is_compared => of_raised(raised.ports),
        Lack::Requests if !node.is_compared => of_raised(raised.requests),
        Lack::Allocatable if !node.is_compared && raised.requests != Some(false) => of_raised(raised.requests),
        // The node has less than it had, or never had enough.
        Lack::Allocatable if requests_as_much_as_another(situation, node) => Fault::Cluster,
        Lack::Allocatable if node.excess.is_some() || suspect.is_none_or(|it| it.what != SuspectKind::Nodes) => {
            of_template(situation, suspect, &Origin::Room(lack), node)
        }
        Lack::Pods | Lack::Requests | Lack::HostPorts | Lack::Allocatable => Fault::Cluster,
    }
}

/// Returns whether the revision to roll back to requests as much on a node.
fn requests_as_much_as_another(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    node.excess.is_none() && situation.revisions.target().is_some() && situation.raised().requests == Some(false)
}

/// Returns the nodes that have no available pod although they are not to blame, by reason: any other pods that the
/// rollout replaces would fail in the same way.
pub(in crate::rollout) fn not_by_their_node<'s>(
    situation: &'s Situation<'_>,
    suspect: Option<&Suspect>,
) -> BTreeMap<ReasonCode, Vec<&'s str>> {
    let nodes_are_to_blame = suspect.is_some_and(|suspect| suspect.what == SuspectKind::Nodes);
    let spreads = |node: &RolloutNode<'_>, diagnosis: &Diagnosis| {
        let fault = blame(situation, suspect, diagnosis, Some(node));
        let has_old_pod_only = node.updated.is_none() && node.old.is_some();
        match &diagnosis.origin {
            Origin::ControlPlane | Origin::Quota | Origin::Template(TemplatePart::Scheduler) => true,
            _ if may_be_taken_down(situation, node) => true,
            // The rollout replaces the old pod.
            _ if fault == Fault::Node || has_old_pod_only => false,
            // The termination of a pod says nothing about new ones.
            Origin::Node => diagnosis.code != ReasonCode::StuckTerminating,
            Origin::Room(Lack::OwnUsage) | Origin::Surplus | Origin::Admission | Origin::Unknown => true,
            Origin::Room(Lack::Allocatable) => !nodes_are_to_blame && !requests_as_much_as_another(situation, node),
            Origin::Room(_) => node.excess.is_some(),
            Origin::Template(_) | Origin::Placement | Origin::Policy(_) | Origin::Time => !nodes_are_to_blame,
        }
    };
    let waiting = situation.eligible().filter(|node| !node.updated_is_available);
    let mut others: BTreeMap<ReasonCode, Vec<&str>> = BTreeMap::new();
    for node in waiting.filter(|node| !situation.recovers(node)) {
        if let Some(diagnosis) = node.diagnosis.as_ref().filter(|diagnosis| spreads(node, diagnosis)) {
            others.entry(diagnosis.code).or_default().push(node.name);
        }
    }
    others
}

/// Returns whose fault it is that the state of a node prevents pods from running.
fn of_state(situation: &Situation<'_>, node: &RolloutNode<'_>, code: ReasonCode) -> Fault {
    match code {
        // A finalizer, a container that does not stop or a pod's own limit is not the fault of a healthy node.
        ReasonCode::StuckTerminating if node.object.is_some() && node.is_ready() => Fault::Unknown,
        // The revision may take nodes down, unless it is available on more nodes than it took down.
        _ if may_be_taken_down(situation, node) => Fault::Unknown,
        _ => Fault::Node,
    }
}

/// Returns whether a node has become not ready soon after it got the current revision, which works on too few nodes to be excused.
pub(in crate::rollout) fn may_be_taken_down(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    was_lost_after_update(situation, node) && !works_on_most(situation)
}

/// Returns whether the current revision is available on more nodes than have become not ready soon after they got it,
/// and that may be chance. Nodes count even if their taints make them ineligible.
fn works_on_most(situation: &Situation<'_>) -> bool {
    *situation.known.works_on_most.get_or_init(|| {
        let available = situation.working().count();
        let lost = situation.nodes.iter().filter(|node| was_lost_after_update(situation, node)).count();
        situation.has_worked_for_long() || available > lost && !spares_the_others(situation, available, lost)
    })
}

/// Returns whether nodes have become not ready only soon after they got the current revision, although most nodes still
/// wait for it: if all nodes were equally likely to be lost, that would be improbable.
fn spares_the_others(situation: &Situation<'_>, available: usize, lost: usize) -> bool {
    let began = situation.rollout_began_at();
    let is_lost_otherwise = |node: &RolloutNode<'_>| {
        let since = lost_since(node).filter(|_| !was_lost_after_update(situation, node));
        since.is_some_and(|since| began.is_none_or(|began| since >= began))
    };
    let waiting = situation.eligible().filter(|node| node.is_ready() && node.old.is_some() && node.updated.is_none());
    let count = |nodes: usize| u32::try_from(nodes).unwrap_or(u32::MAX);
    let (updated, waiting) = (f64::from(count(available + lost)), f64::from(count(waiting.count())));
    // A single node may be lost at any time.
    lost > 1
        && (updated / (updated + waiting)).powf(f64::from(count(lost))) < IMPROBABLE
        && !situation.nodes.iter().any(is_lost_otherwise)
}

/// Returns since when the Node object reports that a node is not ready, if so.
fn lost_since(node: &RolloutNode<'_>) -> Option<Timestamp> {
    node.object?.not_ready()?.last_transition_time.get()
}

/// Returns whether the current revision may make nodes go down; a larger budget or another pace must not be advised then.
pub(in crate::rollout) fn takes_nodes_down(situation: &Situation<'_>) -> bool {
    situation.nodes.iter().any(|node| may_be_taken_down(situation, node))
}

/// Returns whether the kubelet has evicted pods of the current revision, because of their own usage, from as many nodes
/// as it works on, and the nodes may not be the cause: another revision may do better.
pub(in crate::rollout) fn gets_evicted(situation: &Situation<'_>) -> bool {
    let evicted = situation.eligible().filter(|node| may_evict_itself(situation, node)).count();
    evicted > 0 && evicted >= situation.working().count()
}

/// Returns whether the nodes from which pods of the current revision were evicted are known to have had enough resources before its
/// rollout.
pub(in crate::rollout) fn had_room_before_evictions(situation: &Situation<'_>) -> bool {
    let mut evicted = situation.eligible().filter(|node| may_evict_itself(situation, node));
    evicted.all(|node| {
        let mut since = under_pressure_since(node).peekable();
        since.peek().is_some() && since.all(|since| situation.rollout_began_at().is_some_and(|began| since > began))
    })
}

/// Returns whether the kubelet has evicted a pod of the current revision because of its own usage, unless its node is
/// known to have been under pressure before the rollout.
pub(in crate::rollout) fn may_evict_itself(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let uses_too_much = node.origin() == Some(&Origin::Room(Lack::OwnUsage));
    node.eligible && node.is_on_current() && uses_too_much && may_exceed_itself(situation, node)
}

/// Returns whether a pod's own usage may be why it was evicted: its node is not known to have been under pressure
/// before the rollout of a revision that works on most nodes.
fn may_exceed_itself(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    !(was_under_pressure_before(situation, node) && works_on_most(situation)) || may_be_taken_down(situation, node)
}

/// Returns whether a node has become not ready soon after it got a pod of the current revision: only then it can be blamed. The gate of a
/// stage stops earlier (`lost_after_update` of `partition`), even if somebody may have taken the node down, or the new pod does not exist yet.
pub(super) fn was_lost_after_update(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let Some(object) = node.object else { return false };
    let Some(lost) = lost_since(node) else { return false };
    if was_never_ready(object) {
        return false;
    }
    let terminating = node.terminating.iter().copied().filter(|pod| situation.is_updated(pod) == Some(true));
    let of_current = node.updated.into_iter().chain(terminating);
    let created = of_current.filter_map(|pod| pod.metadata.creation_timestamp.get());
    let Some(first) = created.min().filter(|first| !was_taken_down(object, *first, lost)) else { return false };
    match lost.duration_since(first).as_secs() {
        // It is unknown when it got the pods before this one.
        ..0 => situation.rollout_began_at().is_none_or(|began| began < lost),
        seconds => seconds < PROGRESS_DEADLINE,
    }
}

/// Returns whose fault an insufficient resource is, of which the current revision may use more.
fn of_raised(raised: Option<bool>) -> Fault {
    match raised {
        Some(true) => Fault::Revision,
        Some(false) => Fault::Cluster,
        None => Fault::Unknown,
    }
}

/// Whether the current revision uses more than the [compared](crate::facts::revisions::Revisions::compared) one, whose pods may no longer
/// exist, and is not known to have used it for long; `None` if it is not the first revision and there is none to compare with.
pub(super) struct Raised {
    /// Higher requests.
    requests: Option<bool>,
    /// Higher limits, or limits of other resources.
    limits: Option<bool>,
    /// A host port, or an address of one, that the other revision does not use.
    ports: Option<bool>,
    /// Another scheduler, which may not exist.
    pub(super) scheduler: Option<bool>,
}

impl Raised {
    pub(super) fn of(situation: &Situation<'_>) -> Self {
        let revisions = &situation.revisions;
        if situation.has_worked_for_long() {
            let no = Some(false);
            return Raised { requests: no, limits: no, ports: no, scheduler: no };
        }
        let current = &situation.daemon_set.spec.template.spec;
        let Some((_, template)) = revisions.compared() else {
            let is_first = situation.current.known().is_some_and(|current| current.revision == 1).then_some(false);
            let scheduler = if is_default_scheduler(&current.scheduler_name) { Some(false) } else { is_first };
            return Raised { requests: is_first, limits: is_first, ports: is_first, scheduler };
        };
        let other = situation.daemon_set.with_template(template).spec.template.spec;
        Raised {
            requests: Some(requests_more(current, &other)),
            limits: Some(limits_more(current, &other)),
            ports: Some(needs_more_ports(current, &other)),
            scheduler: Some(current.scheduler_name != other.scheduler_name),
        }
    }
}

/// Returns whether a pod has higher limits than another, or a limit where the other one has none, or vice versa: without that of a
/// container, a pod has none.
fn limits_more(current: &PodSpec, other: &PodSpec) -> bool {
    let limits = |spec: &'_ PodSpec| -> BTreeMap<String, i128> {
        let of_pod = |resource: &str| {
            is_pod_level(resource) && spec.resources.as_ref().is_some_and(|all| all.limits.contains_key(resource))
        };
        let is_limited = |resource: &str| {
            of_pod(resource) || spec.all_containers().all(|one| one.resources.limits.contains_key(resource))
        };
        let all = exact_limits(spec).into_iter().filter(|(resource, _)| is_limited(resource));
        all.map(|(resource, limit)| (resource.to_owned(), limit)).collect()
    };
    let (current, other) = (limits(current), limits(other));
    let is_more = |(resource, limit): (&String, &i128)| other.get(resource).is_none_or(|other| limit > other);
    current.iter().any(is_more) || other.keys().any(|resource| !current.contains_key(resource))
}

/// Returns whose fault it is that a policy refuses the pods: if it also refuses those of the revision to roll back to,
/// it is not the revision's.
fn of_admission(situation: &Situation<'_>) -> Fault {
    let target = situation.revisions.target().map(|(target, _)| target.object.hash());
    let is_refused = |hash| situation.index.snapshot.is_admitted(situation.daemon_set, hash) == Some(false);
    if target.is_some_and(is_refused) { Fault::Cluster } else { Fault::Unknown }
}

/// Returns whether something was the case before the rollout of the current revision started. The age of a pod proves
/// nothing: it may have been recreated.
fn was_before_rollout(situation: &Situation<'_>, since: Timestamp) -> bool {
    situation.rollout_began_at().is_some_and(|began| since < began)
}

/// Returns whether a node has not been ready since before any revision was rolled out that is newer than the one to roll back to.
fn was_lost_before(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    lost_since(node)
        .zip(situation.replaced_at())
        .is_some_and(|(lost, began)| lost < began && was_before_rollout(situation, lost))
}

/// Returns whether the node has been short of memory, disk space or process IDs, which evicts pods, since before the rollout.
fn was_under_pressure_before(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    under_pressure_since(node).any(|since| was_before_rollout(situation, since))
}

/// Returns since when the node has been short of memory, disk space or process IDs, for each that applies.
fn under_pressure_since(node: &RolloutNode<'_>) -> impl Iterator<Item = Timestamp> {
    let since = |kind| node.object?.condition(kind).filter(|it| it.status == "True")?.last_transition_time.get();
    ["MemoryPressure", "DiskPressure", "PIDPressure"].into_iter().filter_map(since)
}

/// Returns whether the pod of the current revision on a node was created after a time.
fn was_before_pod(node: &RolloutNode<'_>, since: Timestamp) -> bool {
    node.updated.and_then(|pod| pod.metadata.creation_timestamp.get()).is_some_and(|created| since < created)
}

/// Returns whether all other pods on a node fail, and most did before the rollout started: if so, it is the node's
/// fault, regardless of the current revision elsewhere. The same is true if they have failed since the node joined the cluster, and
/// the template works on another node, and if the node itself has not been ready since before.
pub(in crate::rollout) fn was_broken(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let works =
        |other: &RolloutNode<'_>| situation.works_on(other) || (other.old_is_available && situation.only_restarts());
    if was_lost_before(situation, node) {
        return true;
    }
    everything_fails_since(situation, node).is_some_and(|since| {
        let from_the_start = node.joined().is_some_and(|joined| seconds_between(joined, since) <= JOINING);
        was_before_rollout(situation, since) || (from_the_start && situation.eligible().any(works))
    })
}

/// Returns since when most other pods on a node have been failing; `None` if one of them does not fail, or if there are too few to
/// tell.
fn everything_fails_since(situation: &Situation<'_>, node: &RolloutNode<'_>) -> Option<Timestamp> {
    if !situation.index.snapshot.knows_all_pods_on(node.name) {
        return None;
    }
    let now = situation.now();
    let own = [node.updated, node.old].into_iter().flatten().chain(node.terminating.iter().copied());
    let own: Vec<&str> = own.chain(node.failed.iter().copied()).map(|pod| pod.metadata.uid.as_str()).collect();
    let is_other = |pod: &&Pod| {
        let is_own = own.contains(&pod.metadata.uid.as_str());
        !is_own && !pod.metadata.is_terminating() && !pod.is_terminal() && !daemon_pods::has_failed(pod)
    };
    let others: Vec<&Pod> = situation.index.bound_to(node.name).into_iter().filter(is_other).collect();
    let since: Option<Vec<Timestamp>> = others.iter().map(|pod| failing_since(pod, now)).collect();
    let mut since = since.filter(|since| since.len() >= MIN_OTHER_PODS)?;
    since.sort();
    // One of them may have been recreated since.
    since.get(since.len() / 2).copied()
}

/// Returns by when, at the latest, a pod had begun to fail; `None` if it is ready, or may be starting.
///
/// Each crash makes it not ready again, but the kubelet waits before each restart, longer each time: the number of
/// restarts tells when the first one was, if they form a loop.
pub(super) fn failing_since(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let since = pod.unready_since()?;
    let waits = (1..pod.restarts().min(MOST_RESTARTS)).map(|restart| (10 << (restart - 1).min(5)).min(MOST_BACKOFF));
    let in_loop = now.checked_sub(SignedDuration::from_secs(waits.sum())).ok();
    let created = pod.metadata.creation_timestamp.get();
    let is_loop = created.is_some_and(|created| !is_steady(pod, created, now));
    let since = in_loop.filter(|_| is_loop).map_or(since, |in_loop| in_loop.max(created.unwrap_or(in_loop)).min(since));
    (pod.restarts() > 0 || seconds_between(since, now) >= FAILING).then_some(since)
}
