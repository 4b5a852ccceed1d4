//! One DaemonSet at one moment: its facts, and why each node is not available. They determine the controller's next step
//! ([`next_step`](mod@next_step)), the [`verdict`], what is to blame ([`suspect`]), and whose [`fault`] each node is.

mod configuration;
pub(super) mod fault;
pub(super) mod judgement;
pub(super) mod next_step;
mod parts_in_common;
pub(super) mod severity;
pub(super) mod simulation;
pub(super) mod suspect;
pub(super) mod unchanged;
pub(super) mod verdict;
mod worked_for_long;

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use jiff::Timestamp;
use serde_json::Value;

use crate::coverage::options::Options;
use crate::coverage::walk::{Judged, judge_daemon_set};
use crate::coverage::{
    CLEANUP, COLLECTION, Diagnosis, Lack, Origin, PROGRESS_DEADLINE, TemplatePart, admitted, allows, creation_refusal,
    excess, has_room_for, keeps_ending, lacks_only_network, newest_refusal,
};
use crate::facts::index::{Index, STARTUP};
use crate::facts::revisions::Doubt;
use crate::facts::{ByRevision, Facts};
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::node::Node;
use crate::model::pod::{ContainerStatus, Pod};
use crate::model::template::Template;
use crate::report::age::seconds_between;
use crate::report::coverage::DaemonSetCoverage;
use crate::report::fix::Fix;
use crate::report::reason::{Passing, ReasonCode};
use crate::report::rollout_status::{RaisedRequest, Verdict};
use crate::scheduling::daemon_pods::{self, NodePods, PILE};
use crate::scheduling::rolling_update::allows_surge;
use fault::Raised;
use next_step::NextStep;

/// How long a text of a template must be at least to stand for what a refusal quotes.
const SHORTEST_QUOTE: usize = 4;

/// Within how many seconds of its creation a node first reports that it is not ready.
const REGISTRATION: i64 = 10;

/// Within how many seconds after a pod has become available the controller must have acted on it.
const REACTION: i64 = 10;

/// Why no rollback is suggested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rollout) enum NoRollback {
    /// There is no readable revision to roll back to.
    NoTarget,
    /// The pods of all other revisions fail, too, or they were replaced so soon that probably none was ever available.
    NeverWorked,
    /// The current revision has worked for long: whatever has broken since also breaks the pods of other revisions.
    HasLasted,
    /// No failure is due to the revision: it is due to the node, or the other revision has the same part.
    NotTheRevision,
    /// Its pods would not start: an object that they need does not exist.
    Lacks,
    /// The API server refuses the pods of the other revision, or is not known to accept them.
    Refused,
    /// The writer of the DaemonSet reverts the rollback: the revision must be changed there.
    Reverted,
    /// According to the rules, no node would get an available pod.
    NoNodeRecovers,
}

/// The facts of a DaemonSet, with why its nodes are not available.
pub struct Situation<'a> {
    facts: Facts<'a>,
    pub(in crate::rollout) coverage: DaemonSetCoverage,
    /// Every node that exists or has a pod, by name; deleted ones come last.
    pub(in crate::rollout) nodes: Vec<RolloutNode<'a>>,
    /// Whether nodes, pods and their revisions are known.
    pub(in crate::rollout) is_known: bool,
    pub(in crate::rollout) known: Known,
}

/// What is derived from a situation when it is first asked for.
#[derive(Default)]
pub(in crate::rollout) struct Known {
    /// A result of [`fault`] about all nodes.
    works_on_most: OnceCell<bool>,
    has_worked_for_long: OnceCell<bool>,
    raised: OnceCell<Raised>,
    /// The result of [`rollback`](super::rollback::rollback), which simulates the controller.
    pub(in crate::rollout) rollback: OnceCell<Result<Fix, NoRollback>>,
    only_restarts: OnceCell<bool>,
    unchanged_since: OnceCell<Option<Timestamp>>,
    another_is_admitted: OnceCell<bool>,
    /// Results of [`parts_in_common`] for each part of a template.
    in_common: RefCell<BTreeMap<TemplatePart, bool>>,
}

/// A node, its pods by revision, and why it is not available.
pub(in crate::rollout) struct RolloutNode<'a> {
    pub(in crate::rollout) name: &'a str,
    /// The Node object; `None` if it was deleted.
    pub(in crate::rollout) object: Option<&'a Node>,
    /// Whether it should run a pod.
    pub(in crate::rollout) eligible: bool,
    /// Whether it has exactly one pod, which is updated and available.
    pub(in crate::rollout) is_done: bool,
    pub(in crate::rollout) updated: Option<&'a Pod>,
    pub(in crate::rollout) old: Option<&'a Pod>,
    pub(in crate::rollout) updated_is_available: bool,
    pub(in crate::rollout) old_is_available: bool,
    pub(in crate::rollout) terminating: Vec<&'a Pod>,
    /// The failed pods that are not terminating.
    pub(in crate::rollout) failed: Vec<&'a Pod>,
    /// Whether pods of the current revision fail as fast as they are created.
    pub(in crate::rollout) keeps_failing: bool,
    /// The primary finding of coverage; `None` if there is no problem.
    pub(in crate::rollout) diagnosis: Option<Diagnosis>,
    /// The resources of which the updated pod requests more than older pods did; empty if it needs other host ports.
    /// `None` unless it does not fit on the node although an older pod would.
    pub(in crate::rollout) excess: Option<Vec<RaisedRequest>>,
    /// Whether the updated pod does not fit next to the old one during a surge, but would if it requested no more than that.
    pub(in crate::rollout) is_excess_surge: bool,
    /// Whether the updated pod was compared with an older one to find `excess`.
    pub(in crate::rollout) is_compared: bool,
    /// Since when the node has had no available pod, if known.
    pub(in crate::rollout) since: Option<Timestamp>,
}

impl<'a> RolloutNode<'a> {
    fn new(facts: &Facts<'a>, object: Option<&'a Node>, node: &NodePods<'a>, diagnosis: Option<Diagnosis>) -> Self {
        let ByRevision { updated, old, updated_is_available, old_is_available } =
            facts.by_revision(&node.pods).unwrap_or_default();
        RolloutNode {
            name: node.node,
            object,
            eligible: node.should_run(),
            is_done: node.should_run() && updated_is_available && node.pods.len() == 1,
            updated,
            old,
            updated_is_available,
            old_is_available,
            terminating: node.pods.iter().copied().filter(|pod| pod.metadata.is_terminating()).collect(),
            failed: node.pods.iter().copied().filter(|pod| daemon_pods::has_failed(pod)).collect(),
            keeps_failing: daemon_pods::keeps_failing(facts.daemon_set, facts.current_hash(), &node.pods),
            since: diagnosis.as_ref().and_then(|it| unavailable_since(it.code, object, &node.pods)),
            excess: None,
            is_excess_surge: false,
            is_compared: false,
            diagnosis,
        }
    }

    /// Returns the code of the primary finding.
    pub(in crate::rollout) fn code(&self) -> Option<ReasonCode> {
        self.diagnosis.as_ref().map(|diagnosis| diagnosis.code)
    }

    /// Returns the origin of the primary finding.
    pub(in crate::rollout) fn origin(&self) -> Option<&Origin> {
        self.diagnosis.as_ref().map(|diagnosis| &diagnosis.origin)
    }

    /// Returns whether pods of another revision may do better on the node in its current state.
    pub(in crate::rollout) fn may_be_the_revisions(&self) -> bool {
        // Pods of an older revision were compared with the node and do not fit either.
        let fits_neither =
            self.is_compared && !self.is_excess_surge && self.origin() == Some(&Origin::Room(Lack::Allocatable));
        let can_be = |it: &Diagnosis| it.can_be_template() && !self.lacks_room() && !fits_neither;
        self.excess.is_some() || self.diagnosis.as_ref().is_some_and(can_be)
    }

    /// Returns whether the primary finding is the node, or its effect on pods of any template.
    pub(in crate::rollout) fn is_of_node(&self) -> bool {
        self.origin() == Some(&Origin::Node)
    }

    /// Returns whether its pod meets what one without a new part of the template would not meet.
    fn meets_what_is_new(&self) -> bool {
        let is_of = |it: &Diagnosis| it.only_with.clone().is_some_and(|part| it.origin == Origin::Template(part));
        self.diagnosis.as_ref().is_some_and(is_of)
    }

    /// Returns whether the pod does not fit next to the other pods of the node.
    pub(in crate::rollout) fn lacks_room(&self) -> bool {
        use Lack::{BesideOldPod, HostPorts, Pods, Requests};
        matches!(self.origin(), Some(Origin::Room(Pods | Requests | HostPorts | BesideOldPod)))
    }

    /// Returns whether deleted pods stay on the node: they disappear only when its kubelet confirms it. The primary
    /// reason may be different, such as a taint.
    pub(in crate::rollout) fn keeps_pods(&self) -> bool {
        // Of a pod on the network of the node, its kubelet can take down all.
        let needs_no_network = self.updated.or(self.old).is_some_and(|pod| pod.spec.host_network);
        let is_up = |node: &Node| node.is_ready() || (needs_no_network && lacks_only_network(node));
        self.code() == Some(ReasonCode::StuckTerminating) || self.object.is_some_and(|node| !is_up(node))
    }

    /// Returns whether the node prevents the rollout from being complete.
    pub(in crate::rollout) fn is_missing(&self) -> bool {
        if self.eligible { !self.is_done } else { self.object.is_some() && self.old.is_some() }
    }

    /// Returns whether it is up to a pod of the current revision that none is available: no old pod has to be replaced
    /// first. The next pod of a node without any is of the current revision, too.
    pub(in crate::rollout) fn is_on_current(&self) -> bool {
        !self.updated_is_available && (self.updated.is_some() || self.old.is_none())
    }

    /// Returns whether a pod is available on the node, of whatever revision.
    pub(in crate::rollout) fn has_available_pod(&self) -> bool {
        self.updated_is_available || self.old_is_available
    }

    /// Returns when the node joined the cluster.
    pub(in crate::rollout) fn joined(&self) -> Option<Timestamp> {
        self.object?.metadata.creation_timestamp.get()
    }

    /// Returns whether the kubelet of the node reports that it is ready.
    pub(in crate::rollout) fn is_ready(&self) -> bool {
        self.object.is_some_and(Node::is_ready)
    }
}

impl<'a> Deref for Situation<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.facts
    }
}

impl<'a> Situation<'a> {
    /// Computes the situation of a DaemonSet in a snapshot.
    pub fn new(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> Self {
        let facts = Facts::new(index, daemon_set);
        let judged = judge_daemon_set(&facts, &Options::default());
        Situation::of(facts, judged)
    }

    /// Adds the coverage of all nodes to the facts.
    pub(in crate::rollout) fn of(facts: Facts<'a>, judged: Judged) -> Self {
        let Judged { coverage, diagnoses } = judged;
        let nodes = facts.nodes().zip(diagnoses);
        let nodes = nodes.map(|((object, node), diagnosis)| RolloutNode::new(&facts, object, node, diagnosis));
        let nodes = nodes.collect();
        let is_known = facts.is_known();
        let mut situation = Situation { facts, coverage, nodes, is_known, known: Known::default() };
        situation.find_excess();
        situation.find_what_is_new();
        situation
    }

    pub(in crate::rollout) fn node(&self, name: &str) -> Option<&RolloutNode<'a>> {
        match self.index.number(name) {
            Some(number) => self.nodes.get(number),
            None => self.nodes[self.index.nodes.len()..].iter().find(|node| node.name == name),
        }
    }

    /// Returns the nodes that should run a pod.
    pub(in crate::rollout) fn eligible(&self) -> impl Iterator<Item = &RolloutNode<'a>> {
        self.nodes.iter().filter(|node| node.eligible)
    }

    /// Finds what only pods meet that have a part of the current template which the revision to roll back to does not have.
    fn find_what_is_new(&mut self) {
        let part = |node: &RolloutNode<'_>| node.diagnosis.as_ref()?.only_with.clone().filter(|_| node.is_on_current());
        if !self.nodes.iter().any(|node| part(node).is_some())
            || self.revisions.target().is_none()
            || self.has_worked_for_long()
        {
            return;
        }
        let origins = self.nodes.iter().enumerate().filter_map(|(number, node)| {
            let origin = Origin::Template(part(node)?);
            (!self.has_in_common(&origin)).then_some((number, origin))
        });
        for (number, origin) in origins.collect::<Vec<_>>() {
            self.nodes[number].diagnosis.iter_mut().for_each(|diagnosis| diagnosis.origin = origin.clone());
        }
    }

    /// Compares the requests of pods that do not fit with those of the [compared](Revisions::compared) revision.
    fn find_excess(&mut self) {
        let waits = |node: &RolloutNode<'_>| matches!(node.origin(), Some(Origin::Room(_)));
        if !self.nodes.iter().any(waits) {
            return;
        }
        let Some(older) = self.older_pod() else { return };
        let older = &*older;
        let (index, surges) = (self.facts.index, allows_surge(self.facts.daemon_set));
        for node in self.nodes.iter_mut().filter(|node| waits(node)) {
            let pod = node.updated.filter(|pod| pod.spec.node_name.is_empty()).zip(node.object);
            // Without the pods of the node, only earlier results are known.
            let knows_pods = |object: &Node| index.snapshot.knows_all_pods_on(&object.metadata.name);
            node.is_compared = pod.is_some_and(|(_, object)| knows_pods(object));
            let beside = |replaced| pod.and_then(|(pod, object)| excess(index, object, pod, replaced, older));
            node.excess = beside(node.old);
            node.is_excess_surge = surges && node.excess.is_none() && beside(None).is_some();
        }
    }

    /// Returns a pod of the compared revision: an available one or, if there is none, one made from its template.
    fn older_pod(&self) -> Option<Cow<'a, Pod>> {
        let (older, template) = self.revisions.compared()?;
        let is_doubted = || matches!(self.revisions.doubt(older), Some(Doubt::RolledBack | Doubt::Failing(_)));
        if !older.is_proven() && is_doubted() {
            return None;
        }
        let mut available = self.nodes.iter().filter(|node| node.old_is_available).filter_map(|node| node.old);
        let available = available.find(|pod| pod.revision_hash() == older.object.hash()).map(Cow::Borrowed);
        let made = || Cow::Owned(admitted(self.index.snapshot, &self.daemon_set.with_template(template)));
        Some(available.unwrap_or_else(made))
    }

    /// Returns whether a rollout is not finished according to its verdict, or has pods of older revisions, whether it is paused or not;
    /// `None` if unknown.
    pub(in crate::rollout) fn is_in_rollout(&self, verdict: Verdict) -> Option<bool> {
        match verdict {
            // While the controller is down, every rollout is blocked, whether it has replaced all pods or not.
            Verdict::Progressing | Verdict::Blocked if self.controller_silent_since().is_none() => Some(true),
            // If all nodes are down, the pods on them count as misscheduled, and may be terminating.
            _ if self.coverage.counts.eligible == Some(0) => {
                Some(self.pods().any(|pod| self.is_updated(pod) == Some(false)))
            }
            _ => self.coverage.counts.outdated.map(|_| self.outdated().any(|(node, _)| node.object.is_some())),
        }
    }

    /// Returns the eligible nodes with a pod of an older revision.
    pub(in crate::rollout) fn outdated_nodes(&self) -> impl Iterator<Item = &RolloutNode<'a>> {
        self.eligible().filter(|node| node.old.is_some())
    }

    /// Returns the nodes with a pod of an older revision, whether they are eligible or not.
    pub(in crate::rollout) fn outdated(&self) -> impl Iterator<Item = (&RolloutNode<'a>, &'a Pod)> {
        self.nodes.iter().filter_map(|node| Some((node, node.old?)))
    }

    /// Returns whether the current revision has worked for long, so that something else has broken: it is not at fault,
    /// and another one would not do better.
    pub(in crate::rollout) fn has_worked_for_long(&self) -> bool {
        *self.known.has_worked_for_long.get_or_init(|| worked_for_long::has_worked_for_long(self))
    }

    /// Returns whether the cause is a part of the template that the revision to roll back to has, too: its pods would fail for the same
    /// reason if they started now.
    pub(in crate::rollout) fn has_in_common(&self, origin: &Origin) -> bool {
        let Origin::Template(part) = origin else { return false };
        if let Some(known) = self.known.in_common.borrow().get(part) {
            return *known;
        }
        let found = parts_in_common::is_in_common(self, part);
        self.known.in_common.borrow_mut().insert(part.clone(), found);
        found
    }

    /// Returns whether the API server would create a pod of a DaemonSet with another template, whose revision has this hash; `None` if
    /// unknown. If it was not asked, and refuses the present pods for what only their template has, it creates these.
    pub(in crate::rollout) fn admits(&self, after: &DaemonSet, hash: &str) -> Option<bool> {
        let lacks_what_is_refused = || {
            let template = after.template();
            let refusal = creation_refusal(self)?;
            let said = &newest_refusal(self)?.message;
            let spec = || admitted(self.index.snapshot, after).spec;
            match refusal.origin {
                _ if refusal.code == ReasonCode::WebhookDenied => {
                    self.quotes_what_is_not_in(&template).or_else(|| self.names_what_is_not_in(&template))
                }
                _ if refusal.code == ReasonCode::QuotaExceeded => {
                    has_room_for(said, &spec()).or_else(|| self.quotes_what_is_not_in(&template))
                }
                _ if refusal.code == ReasonCode::LimitRangeViolation => allows(said, &spec()),
                Origin::Policy(fields) if fields.is_empty() => None,
                Origin::Policy(fields) => Some(!fields.iter().any(|field| template.sets(field))),
                Origin::Template(TemplatePart::Object { kind, name, key }) => {
                    Some(!template.needs(kind, &name, key.as_deref()))
                }
                _ => None,
            }
        };
        let asked = self.index.snapshot.is_admitted(after, hash);
        asked.or_else(|| lacks_what_is_refused().filter(|lacks| *lacks && self.still_refuses_pods()))
    }

    /// Returns whether pods are refused with a text that only their template has, apart from the tags of images; `None` if unknown.
    fn quotes_what_is_not_in(&self, template: &Template) -> Option<bool> {
        let said = &newest_refusal(self)?.message;
        let is_end = |end: Option<char>| end.is_none_or(|end| !end.is_alphanumeric());
        let is_quoted = |text: &&str| {
            let mut places = said.match_indices(*text).map(|(at, _)| (&said[..at], &said[at + text.len()..]));
            text.len() >= SHORTEST_QUOTE
                && places.any(|(before, after)| is_end(before.chars().next_back()) && is_end(after.chars().next()))
        };
        let others: BTreeSet<&str> = template.texts().into_iter().map(without_tag).collect();
        let current = self.daemon_set.template();
        let mut quoted = current.texts().into_iter().filter(is_quoted);
        quoted.any(|text| !others.contains(without_tag(text))).then_some(true)
    }

    /// Returns whether pods are refused for a field that is otherwise in a template, apart from the tags of images; `None` if unknown.
    fn names_what_is_not_in(&self, template: &Template) -> Option<bool> {
        let said = &newest_refusal(self)?.message;
        let path = said.split_once(" path ")?.1.split([' ', '\'', '"', ',']).next()?.trim_end_matches('/');
        let text =
            |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| without_tag(text).to_owned());
        let at = |template: &Template| template.value().pointer(path).map(text);
        (path.starts_with("/spec/") && at(&self.revisions.live) != at(template)).then_some(true)
    }

    /// Returns whether the API server would create a pod of the revision to roll back to, but none of the current one.
    pub(in crate::rollout) fn another_is_admitted(&self) -> bool {
        *self.known.another_is_admitted.get_or_init(|| {
            let Some((target, template)) = self.revisions.target() else { return false };
            let admits = || self.admits(&self.daemon_set.with_template(template), target.object.hash());
            (self.is_accepted() == Some(false) || self.still_refuses_pods()) && admits() == Some(true)
        })
    }

    /// Returns whether the current revision differs from the one to roll back to only by a restart.
    pub(in crate::rollout) fn only_restarts(&self) -> bool {
        *self.known.only_restarts.get_or_init(|| parts_in_common::only_restarts(self))
    }

    /// Returns when the first revision was rolled out that is newer than the one to roll back to.
    fn replaced_at(&self) -> Option<Timestamp> {
        let target = self.revisions.target().map_or(0, |(target, _)| target.number());
        let newer = self.revisions.all.iter().filter(|revision| revision.number() > target);
        newer.filter_map(|revision| self.revisions.rollout_began_at(revision.object)).min()
    }

    /// Returns whether the current revision uses more than the compared one.
    fn raised(&self) -> &Raised {
        self.known.raised.get_or_init(|| Raised::of(self))
    }

    /// Computes the next step of the controller; without any action if its input was not read.
    pub(in crate::rollout) fn next_step(&self) -> NextStep<'a> {
        let step = |hash| next_step::next_step(self.daemon_set, hash, &self.node_pods, self.ready_clock());
        self.hash_for_rules().map(step).unwrap_or_default()
    }

    /// Returns since when the controller could have deleted old pods whose surge pods are available, if it has missed that.
    ///
    /// With `minReadySeconds`, a pod becomes available merely by the passage of time. The controller then syncs again at only one
    /// time, the earliest that it has recorded (`AddAfter`, client-go/util/workqueue/delaying_queue.go, release 0.37.2), and its
    /// status, whose change would trigger another sync, counts the old pods while it surges (`updateDaemonSetStatus`,
    /// pkg/controller/daemon/daemon_controller.go, release 1.37.2). It stays idle until another event of the DaemonSet.
    pub(in crate::rollout) fn stalled_since(&self, step: &NextStep<'_>) -> Option<Timestamp> {
        let min_ready = self.daemon_set.spec.min_ready_seconds;
        let deletes: Vec<&Pod> =
            step.upkeep.delete.iter().copied().filter(|pod| !pod.metadata.is_terminating()).collect();
        // OpenKruise's controller records the time of each pod.
        let is_advanced = self.daemon_set.flavor() == Flavor::Advanced;
        let is_idle = is_advanced || self.controller_silent_since().is_some();
        if is_idle || min_ready == 0 || deletes.is_empty() || !step.upkeep.create.is_empty() {
            return None;
        }
        let is_replaced = |node: &&RolloutNode<'_>| {
            node.eligible
                && node.updated_is_available
                && node.old.is_some_and(|old| deletes.iter().any(|pod| pod.metadata.uid == old.metadata.uid))
        };
        let replaced: Vec<&RolloutNode<'_>> = self.nodes.iter().filter(is_replaced).collect();
        let is_moving = |node: &RolloutNode<'_>| node.eligible && !node.is_done && self.recovers(node);
        if replaced.len() < deletes.len() || self.nodes.iter().any(|node| !is_replaced(&node) && is_moving(node)) {
            return None;
        }
        let available_at = |node: &&RolloutNode<'_>| daemon_pods::available_since(node.updated?, min_ready);
        let since = replaced.iter().map(available_at).min().flatten()?;
        (seconds_between(since, self.ready_clock()) > REACTION).then_some(since)
    }

    /// Returns the finalizers that keep deleted pods on nodes that are ready, and not just for a moment: other pods that have them stay as
    /// long once they are deleted.
    fn stuck_finalizers(&self) -> BTreeSet<&'a str> {
        let lasts = |pod: &&&Pod| !self.is_recent(pod.metadata.deletion_timestamp.get(), CLEANUP);
        let pods =
            self.nodes.iter().filter(|node| node.is_ready()).flat_map(|node| node.terminating.iter().filter(lasts));
        pods.flat_map(|pod| &pod.metadata.finalizers).map(String::as_str).collect()
    }

    /// Returns a test for pods that such a finalizer would keep.
    pub(in crate::rollout) fn would_be_held(&self) -> impl Fn(&Pod) -> bool {
        let stuck = self.stuck_finalizers();
        move |pod| pod.metadata.finalizers.iter().any(|finalizer| stuck.contains(&**finalizer))
    }

    /// Returns whether a node is about to become available, or to stop counting against the budget. The rule that finds a cause only says how
    /// it ends ([`Passing`]): here it is known besides for how long it has lasted, whether the controller acts, and what the rollout is to do.
    pub(in crate::rollout) fn recovers(&self, node: &RolloutNode<'_>) -> bool {
        if node.updated_is_available && !node.failed.is_empty() {
            // The controller deletes them one by one, each after a longer backoff.
            return node.failed.len() < PILE && self.is_recent(node.since, STARTUP);
        }
        let is_up_to_the_controller = |code| {
            use ReasonCode as R;
            matches!(code, R::PodOnIneligibleNode | R::OrphanedTarget | R::NodeNotReadyTaint)
        };
        match node.code() {
            _ if node.keeps_failing => false,
            Some(code) if is_up_to_the_controller(code) && self.controller_silent_since().is_some() => false,
            // The pod garbage collector can do no more if a finalizer blocks the deletion, or is not running. It is
            // unknown since when the node of a pod that nobody has deleted has not existed.
            Some(ReasonCode::OrphanedTarget) => node.terminating.iter().all(|pod| {
                let most = if pod.metadata.finalizers.is_empty() { COLLECTION } else { CLEANUP };
                self.is_recent(pod.metadata.deletion_timestamp.get(), most)
            }),
            // A node takes a moment to become ready for the first time.
            Some(ReasonCode::NodeUnreachable | ReasonCode::NetworkUnavailable) => node.object.is_some_and(|object| {
                was_never_ready(object) && self.is_recent(object.metadata.creation_timestamp.get(), PROGRESS_DEADLINE)
            }),
            // The pod that a surge is to replace is not deleted first.
            Some(_) if node.origin() == Some(&Origin::Room(Lack::BesideOldPod)) => false,
            Some(ReasonCode::StuckTerminating) => node.terminating.iter().all(|pod| {
                pod.metadata.finalizers.is_empty() && self.is_recent(pod.metadata.deletion_timestamp.get(), CLEANUP)
            }),
            // The surge pod on a node that is no longer eligible: the controller waits for it.
            Some(ReasonCode::Misscheduled) if !node.updated_is_available => {
                let surge = node.updated.filter(|_| node.old.is_some());
                surge.is_some_and(|pod| self.is_recent(pod.metadata.creation_timestamp.get(), STARTUP))
            }
            // The node controller removes the taint of a node that is ready again.
            Some(ReasonCode::NodeNotReadyTaint) => node.is_ready(),
            Some(_) => self.passes(node),
            // Coverage finds no problem: the pod next to the old one is starting, or a ready pod is terminating.
            None => {
                let waits_for_controller =
                    node.updated_is_available && node.old.is_some() && node.terminating.is_empty();
                let is_moving = (node.updated.is_some() || !node.terminating.is_empty()) && !node.is_done;
                is_moving && !(waits_for_controller && self.controller_silent_since().is_some())
            }
        }
    }

    /// Returns whether a node keeps deleted pods and starts no new ones, and not just for a moment.
    pub(in crate::rollout) fn is_down(&self, node: &RolloutNode<'_>) -> bool {
        node.keeps_pods() && !self.recovers(node)
    }

    /// Returns whether the pod of the current revision works on a node: it is available, and not just until it crashes again.
    pub(in crate::rollout) fn works_on(&self, node: &RolloutNode<'_>) -> bool {
        node.updated_is_available && node.updated.is_some_and(|pod| !keeps_ending(pod, self.now()))
    }

    /// Returns the eligible nodes on which the pod of the current revision works.
    pub(in crate::rollout) fn working(&self) -> impl Iterator<Item = &RolloutNode<'a>> {
        self.eligible().filter(|node| self.works_on(node))
    }

    /// Returns whether an eligible node has no available pod, and waiting does not help.
    pub(in crate::rollout) fn fails_on(&self, node: &RolloutNode<'_>) -> bool {
        node.eligible && node.diagnosis.is_some() && !node.has_available_pod() && !self.recovers(node)
    }

    /// Returns whether pods of the current revision fail on more than one ready node, and on more than they work on, or on all that were
    /// updated last: each node may be at fault, but other replaced pods are unlikely to do better.
    pub(in crate::rollout) fn fails_widely(&self) -> bool {
        let tried = self.eligible().filter(|node| node.updated.is_some() && node.is_ready());
        let (working, failing): (Vec<_>, Vec<_>) =
            tried.partition(|node| node.updated_is_available || self.recovers(node));
        let created = |node: &&RolloutNode<'_>| node.updated?.metadata.creation_timestamp.get();
        let last = working.iter().filter_map(created).max();
        // What a node rejects or evicts is created again and again.
        let (all, doubted) = (failing.len(), failing.into_iter().filter(|node| node.may_be_the_revisions()));
        let doubted: Vec<_> = doubted.collect();
        let are_last = doubted.len() > 1 && doubted.iter().filter_map(created).min() > last;
        all > 1 && (all > working.len() || are_last)
    }

    /// Returns whether a time is known, and was less than this number of seconds ago.
    pub(in crate::rollout) fn is_recent(&self, since: Option<Timestamp>, seconds: i64) -> bool {
        since.is_some_and(|since| self.seconds_since(since) < seconds)
    }

    /// Returns whether the cause of a node still passes by itself, as its rule says; whether the node [recovers](Self::recovers) may depend on more.
    pub(in crate::rollout) fn passes(&self, node: &RolloutNode<'_>) -> bool {
        node.diagnosis.as_ref().is_some_and(|diagnosis| match diagnosis.passing {
            Passing::Never => false,
            Passing::AtStart => self.is_recent(node.since, STARTUP),
            Passing::InTime => node.since.is_none() || self.is_recent(node.since, PROGRESS_DEADLINE),
            Passing::Always => true,
        })
    }
}

/// Returns an image without its tag or digest; other texts may lose what is behind a colon, too.
fn without_tag(text: &str) -> &str {
    let end = text.rfind(['@', ':']).filter(|end| !text[*end..].contains('/'));
    &text[..end.unwrap_or(text.len())]
}

/// Returns whether a node has joined, or rejoined under its name, and has not been ready since, as far as known. One whose kubelet has
/// stopped posting its status (`tryUpdateNodeHealth`, pkg/controller/nodelifecycle, release 1.37.2) has posted one before.
fn was_never_ready(node: &Node) -> bool {
    let since = node.not_ready().filter(|ready| ready.reason != "NodeStatusUnknown");
    let since = since.and_then(|ready| ready.last_transition_time.get());
    let joined = node.metadata.creation_timestamp.get();
    since.zip(joined).is_some_and(|(since, joined)| since.duration_since(joined).as_secs() <= REGISTRATION)
}

/// Returns since when a node has had no available pod, given the reason.
fn unavailable_since(code: ReasonCode, node: Option<&Node>, pods: &[&Pod]) -> Option<Timestamp> {
    let of_pod = |pod: &Pod, condition: &str| {
        let condition = pod.condition(condition).filter(|condition| condition.status != "True")?;
        condition.last_transition_time.get()
    };
    if matches!(code, ReasonCode::NodeUnreachable | ReasonCode::NodeNotReadyTaint) {
        return node?.not_ready()?.last_transition_time.get();
    }
    let live = pods.iter().copied().filter(|pod| !pod.metadata.is_terminating());
    // Next to an available pod, the reason is that of another one.
    let pod = live.min_by_key(|pod| pod.is_ready()).or_else(|| pods.first().copied())?;
    if pod.metadata.is_terminating() {
        return pod.metadata.deleted_at();
    }
    let finished = |status: &ContainerStatus| status.state.terminated.as_ref()?.finished_at.get();
    let ended = || pod.container_statuses().filter_map(finished).max();
    let created = pod.metadata.creation_timestamp.get();
    // A kubelet that starts rejects pods that have been ready for long, and removes their conditions.
    let started = || node?.condition("Ready")?.last_transition_time.get();
    let of_condition = of_pod(pod, "Ready").or_else(|| of_pod(pod, "PodScheduled"));
    if pod.is_ready() {
        // What ended a container made it unready; that its node is gone leaves no time.
        let last_ended = |status: &ContainerStatus| status.last_state.terminated.as_ref()?.finished_at.get();
        let ready = pod.condition("Ready").and_then(|ready| ready.last_transition_time.get());
        let is_before = |at: &Timestamp| ready.is_none_or(|ready| seconds_between(*at, ready) <= PROGRESS_DEADLINE);
        let ends = pod.container_statuses().filter_map(last_ended).chain(created);
        return ends.max().filter(is_before).or(ready).filter(|_| code == ReasonCode::NotYetAvailable);
    }
    of_condition.or_else(|| match pod.is_terminal() {
        true => ended().or_else(|| created.max(started())),
        false => created,
    })
}
