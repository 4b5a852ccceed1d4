//! The revisions of a DaemonSet: which belong to it, which one is current, which one to roll back to, and how users
//! refer to them.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::hold::Hold;
use crate::model::metadata::{OwnerReference, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::node::Node;
use crate::model::pod::{ContainerStateWaiting, ContainerStatus, Pod};
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::report::age::seconds_between;
use crate::report::history::{DaemonSetName, RevisionPods, SkippedRevision};
use crate::report::partition::SKIP_LABEL;
use crate::scheduling::daemon_pods;

use super::ready_clock::ready_clock;

/// The revisions of one DaemonSet.
#[derive(Debug)]
pub struct Revisions<'a> {
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// The live template.
    pub live: Template,
    /// The revisions, the newest first.
    pub all: Vec<Revision<'a>>,
    /// Revisions that match the selector but belong to another owner.
    pub skipped: Vec<SkippedRevision>,
    /// Number of pods that belong to none of the revisions.
    pub other_pods: usize,
    /// On how many nodes pods of one such revision are available, at most.
    pub other_available: usize,
    /// The time for deciding whether a pod has been ready for long enough.
    pub(super) ready_clock: Timestamp,
    times: OnceCell<HashMap<String, Times>>,
}

/// What the other revisions tell of one.
#[derive(Debug)]
struct Times {
    /// When it was last rolled out, if that is known.
    rolled_out: Option<Timestamp>,
    /// The same, or a time before it.
    began: Option<Timestamp>,
    /// The place of the oldest revision of the same template.
    oldest_alike: usize,
    was_rolled_back: OnceCell<bool>,
}

/// A revision with its template.
#[derive(Debug)]
pub struct Revision<'a> {
    /// The revision.
    pub object: &'a ControllerRevision,
    /// Its template, or the error.
    pub template: Result<Template, String>,
    /// Whether it is the revision of the live template.
    pub is_current: bool,
    /// Number of nodes on which one of its pods is available.
    pub available: usize,
    /// Number of its pods that are failing.
    pub failing: usize,
    /// Number of its pods.
    pub pods: RevisionPods,
}

/// How many seconds a revision must have been current if none of its pods shows that it works: one that was replaced
/// earlier was probably bad, since updates are tried in quick succession.
pub(crate) const MIN_CURRENT: i64 = 3_600;

/// How many seconds a revision must have been current to avoid a warning.
pub(crate) const BRIEF: i64 = 600;

/// How many seconds a container may run without being ready until its pod counts against the revision. A screen tells of the pod much
/// earlier (`STARTUP`), when it may still be starting; that decides which revision is rolled back to no sooner.
const MOST_UNREADY: i64 = 300;

/// A reason not to roll back to a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It was rolled back from.
    RolledBack,
    /// This many of its pods are failing, and no more than that are available.
    Failing(usize),
    /// A newer one was rolled out this many seconds later, and none of its pods proves that it works.
    ReplacedAfter(i64),
}

impl Revision<'_> {
    /// Returns the number.
    pub fn number(&self) -> i64 {
        self.object.revision
    }

    /// Returns whether its pods prove that it works.
    pub(crate) fn is_proven(&self) -> bool {
        self.available > self.failing
    }

    /// Returns the template.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn readable(&self) -> Result<&Template, NoTemplate> {
        self.template.as_ref().map_err(|problem| NoTemplate::Unreadable(self.number(), problem.clone()))
    }

    fn is_same_template(&self, other: &Revision<'_>) -> bool {
        matches!((&self.template, &other.template), (Ok(one), Ok(other)) if one.same_meaning(other))
    }
}

/// How a user refers to a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// The revision with this number.
    Number(i64),
    /// N revisions before the current one.
    Back(usize),
    /// The template of the DaemonSet itself.
    Live,
}

/// Why no template was found at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTemplate {
    /// The revision does not exist.
    NoSuchRevision,
    /// The revision's template cannot be read, with the problem as a fragment.
    Unreadable(i64, String),
}

impl<'a> Revisions<'a> {
    /// Finds the revisions of a DaemonSet in a snapshot.
    pub fn of(daemon_set: &'a DaemonSet, snapshot: &'a Snapshot) -> Self {
        Revisions::among(daemon_set, &snapshot.controller_revisions, &snapshot.pods, snapshot)
    }

    /// Finds the revisions of a DaemonSet among objects that may belong to others.
    ///
    /// Like `controlledHistory` in k8s.io/kubectl/pkg/polymorphichelpers/history.go, release 0.37.2, it returns those that the
    /// DaemonSet controls: the controller has not yet adopted one without an owner.
    pub(super) fn among<'p>(
        daemon_set: &'a DaemonSet,
        objects: impl IntoIterator<Item = &'a ControllerRevision>,
        pods: impl IntoIterator<Item = &'p Pod>,
        snapshot: &Snapshot,
    ) -> Self {
        let live = daemon_set.template();
        let (mut all, mut skipped) = (Vec::new(), Vec::new());
        let in_namespace =
            |revision: &&ControllerRevision| revision.metadata.namespace == daemon_set.metadata.namespace;
        for object in objects.into_iter().filter(in_namespace) {
            let matches = daemon_set.spec.selector.matches(&object.metadata.labels);
            match object.metadata.controller() {
                Some(owner) if owner.uid == daemon_set.metadata.uid => all.push(object),
                owner if matches => {
                    let reason =
                        owner.map_or_else(|| "it has no owner".to_owned(), |owner| belongs_to(owner, daemon_set));
                    skipped.push(SkippedRevision { name: object.metadata.name.clone(), reason });
                }
                _ => {}
            }
        }
        all.sort_by_key(|object| Reverse((object.revision, object.metadata.name.as_str())));
        skipped.sort_by(|one, other| one.name.cmp(&other.name));
        let pods: Vec<&Pod> = pods.into_iter().filter(|pod| daemon_pods::is_counted(daemon_set, pod)).collect();
        let mut counts: HashMap<&str, RevisionPods> = HashMap::new();
        for pod in &pods {
            let counted = counts.entry(pod.revision_hash()).or_default();
            counted.total += 1;
            counted.ready += usize::from(pod.is_ready());
        }
        let mut nodes: HashMap<&str, BTreeSet<Option<&str>>> = HashMap::new();
        let mut failing: HashMap<&str, usize> = HashMap::new();
        let ready_clock = ready_clock(daemon_set, pods.iter().copied(), snapshot);
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating() && !pod.revision_hash().is_empty()) {
            if daemon_pods::is_available(pod, daemon_set.spec.min_ready_seconds, ready_clock) {
                nodes.entry(pod.revision_hash()).or_default().insert(daemon_pods::target_node(pod));
            } else if fails(pod, snapshot.now) {
                *failing.entry(pod.revision_hash()).or_default() += 1;
            }
        }
        let all = all.into_iter().map(|object| Revision {
            object,
            template: object.template(),
            is_current: false,
            available: nodes.get(object.hash()).map_or(0, BTreeSet::len),
            failing: failing.get(object.hash()).copied().unwrap_or_default(),
            pods: counts.remove(object.hash()).unwrap_or_default(),
        });
        let mut all: Vec<Revision<'a>> = all.collect();
        if let Some(current) = current(daemon_set, &live, &all, &pods) {
            all[current].is_current = true;
        }
        let other_pods = counts.values().map(|pods| pods.total).sum();
        let of_others = nodes.iter().filter(|(hash, _)| counts.contains_key(*hash));
        let other_available = of_others.map(|(_, nodes)| nodes.len()).max().unwrap_or_default();
        Revisions { daemon_set, live, all, skipped, other_pods, other_available, ready_clock, times: OnceCell::new() }
    }

    /// Returns the revisions that were rolled out, newest first: the controller gives the current one the highest number, so another one
    /// above it that is unreadable may never have been.
    pub(crate) fn rolled_out(&self) -> impl DoubleEndedIterator<Item = &Revision<'a>> {
        let current = self.current().map_or(i64::MAX, Revision::number);
        self.all.iter().filter(move |revision| revision.template.is_ok() || revision.number() <= current)
    }

    /// Returns whether every revision still has its first number: one that is rolled out again gets another, and its former one stays free. If
    /// only 1 is free, and none is of a former DaemonSet, the one that had it would be the oldest.
    pub(crate) fn none_is_renumbered(&self) -> bool {
        let begin_at = |first: i64| self.rolled_out().rev().zip(first..).all(|(it, number)| it.number() == number);
        let created = || self.rolled_out().rev().map(|revision| revision.object.metadata.creation_timestamp.get());
        let owner = self.daemon_set.metadata.creation_timestamp.get();
        begin_at(1) || begin_at(2) && std::iter::once(owner).chain(created()).is_sorted()
    }

    /// Returns when a revision was last rolled out, if that is known. That is at its creation if none was rolled out again.
    pub(crate) fn rolled_out_at(&self, revision: &ControllerRevision) -> Option<Timestamp> {
        self.times(revision)?.rolled_out
    }

    /// Returns when a revision was last rolled out, or a time before it: when it was created, or one that it replaced later.
    pub(crate) fn rollout_began_at(&self, revision: &ControllerRevision) -> Option<Timestamp> {
        self.times(revision)?.began
    }

    fn times(&self, revision: &ControllerRevision) -> Option<&Times> {
        self.times.get_or_init(|| self.find_times()).get(&*revision.metadata.name)
    }

    /// Finds the times of all revisions at once, since there may be thousands.
    fn find_times(&self) -> HashMap<String, Times> {
        let created = |revision: &Revision<'_>| created(revision);
        let newest_rolled_out = self.current().map_or(i64::MAX, Revision::number);
        let is_rolled_out = |it: &Revision<'_>| it.template.is_ok() || it.number() <= newest_rolled_out;
        // By the place from which, or to which, the revisions are looked at.
        let (mut oldest_created, mut rolled_out_created) = (vec![None], vec![None]);
        for revision in self.all.iter().rev() {
            let last = |of: &Vec<Option<Timestamp>>| of.last().copied().flatten();
            rolled_out_created
                .push(last(&rolled_out_created).max(created(revision).filter(|_| is_rolled_out(revision))));
            oldest_created.push(last(&oldest_created).max(created(revision)));
        }
        oldest_created.reverse();
        rolled_out_created.reverse();
        let mut newer_numbered: Vec<Option<Timestamp>> = vec![None];
        for revision in &self.all {
            let numbered = revision.object.numbered_at_latest().filter(|_| is_rolled_out(revision));
            newer_numbered.push(newer_numbered.last().copied().flatten().into_iter().chain(numbered).min());
        }
        let awaiting = self.current().filter(|_| !self.has_newest_number()).map(Revision::number);
        let none_is_renumbered = self.none_is_renumbered();
        let of = |at: usize, revision: &Revision<'a>| {
            let number = revision.number();
            let from = self.all.partition_point(|other| other.number() > number);
            let older = self.all.partition_point(|other| other.number() >= number);
            // It has become current again, and the controller has not given it a new number yet.
            let awaits_number = awaiting == Some(number);
            let rolled_out = match none_is_renumbered {
                _ if awaits_number => None,
                true => created(revision).filter(|at| rolled_out_created[older] <= Some(*at)),
                // A number is older than all higher ones: somebody else has written the object since.
                false => revision
                    .object
                    .numbered_at(self.daemon_set)
                    .filter(|at| newer_numbered[from].is_none_or(|newer| newer >= *at)),
            };
            let began = rolled_out.or(oldest_created[if awaits_number { 0 } else { from }]);
            let oldest_alike = self.all.iter().rposition(|other| other.is_same_template(revision)).unwrap_or(at);
            Times { rolled_out, began, oldest_alike, was_rolled_back: OnceCell::new() }
        };
        let named = |(at, revision): (usize, &Revision<'a>)| (revision.object.metadata.name.clone(), of(at, revision));
        self.all.iter().enumerate().map(named).collect()
    }

    /// Returns the revision of the live template; `None` if the controller has not created it yet.
    pub fn current(&self) -> Option<&Revision<'a>> {
        self.all.iter().find(|revision| revision.is_current)
    }

    /// Returns whether the revision of the live template has the highest number among those that can be read.
    pub fn has_newest_number(&self) -> bool {
        let newest = self.all.iter().find(|revision| revision.template.is_ok());
        self.current().is_some_and(|current| newest.is_none_or(|newest| newest.number() <= current.number()))
    }

    /// Returns the revision that a pod was created from; `None` if it no longer exists.
    pub(crate) fn of_pod(&self, pod: &Pod) -> Option<&Revision<'a>> {
        self.of_hash(Some(pod.revision_hash()).filter(|hash| !hash.is_empty())?)
    }

    /// Returns the revision with a hash.
    pub(crate) fn of_hash(&self, hash: &str) -> Option<&Revision<'a>> {
        self.all.iter().find(|revision| revision.object.hash() == hash)
    }

    /// Returns the template from which a pod was created, if that is known and can be read.
    pub(crate) fn template_of_pod(&self, pod: &Pod) -> Option<&Template> {
        self.of_pod(pod)?.template.as_ref().ok()
    }

    /// Returns the revision with a number.
    pub fn number(&self, number: i64) -> Option<&Revision<'a>> {
        self.all.iter().find(|revision| revision.number() == number)
    }

    /// Returns the current revision if it once had a number that no revision has now: rolled out again, it gets a new one.
    pub(crate) fn renumbered(&self, number: i64) -> Option<&Revision<'a>> {
        let current = self.current().filter(|_| self.number(number).is_none())?;
        // The revision before the last one that was rolled back from must be the one that was rolled back to.
        let is_left = |left: &Revision<'a>| left.number() == current.number() - 1 && self.was_rolled_back(left);
        // It keeps the annotations from its creation. Both numbers increase together, unless the controller misses a template.
        let created = current.object.annotations.get(TEMPLATE_GENERATION_ANNOTATION);
        let counts_up = self.daemon_set.template_generation() == Some(current.number());
        let is_first = counts_up && created.is_some_and(|created| *created == number.to_string());
        (is_first || self.number(number + 1).is_some_and(is_left)).then_some(current)
    }

    /// Returns the revision that the last stage of a hold rolls back to, if that is known: the current one, unless the template was changed
    /// since.
    pub(crate) fn rolled_back_to(&self) -> Option<&Revision<'a>> {
        let hold = Hold::of(self.daemon_set)?;
        let is_another = hold.is_of_another_template(self.daemon_set);
        let target = hold.flags.filter(|flags| flags.is_undo)?.target_revision;
        let target = || self.of_hash(target.as_deref()?);
        if is_another { target() } else { self.current().or_else(target) }
    }

    /// Returns the revision `steps` before the current one, or before the live template if it is not a revision yet.
    pub fn back(&self, steps: usize) -> Option<&Revision<'a>> {
        match self.all.iter().position(|revision| revision.is_current) {
            Some(current) => self.all.get(current + steps),
            None => self.all.get(steps.checked_sub(1)?),
        }
    }

    /// Returns the revision to roll back to: the one whose pods are available on the most nodes, and on more than they
    /// fail on; if there is none, the newest other one without a [doubt](Self::doubt), or else the newest one. A
    /// revision that was rolled back from is never returned, although its pods may still be available on some nodes, nor is any if
    /// another one, which no longer exists, is available on more nodes: going further back than that would be a guess.
    pub fn target(&self) -> Option<(&Revision<'a>, &Template)> {
        let doubted = || self.others().map(|(revision, template)| (self.doubt(revision), (revision, template)));
        let kept = || doubted().filter(|(doubt, _)| *doubt != Some(Doubt::RolledBack));
        let without =
            |is_out: fn(&Option<Doubt>) -> bool| kept().find(|(doubt, _)| !is_out(doubt)).map(|(_, found)| found);
        most_available(kept().map(|(_, found)| found))
            .or_else(|| without(Option::is_some))
            .or_else(|| without(|doubt| matches!(doubt, Some(Doubt::Failing(_) | Doubt::ReplacedAfter(..BRIEF)))))
            .or_else(|| without(|doubt| matches!(doubt, Some(Doubt::Failing(_)))))
            .or_else(|| without(|_| false))
            .filter(|(target, _)| target.available >= self.other_available)
    }

    /// Returns the revision whose template the last stage was to replace, if that is known and the stage is no rollback.
    pub(crate) fn replaced_by_stage(&self) -> Option<&Revision<'a>> {
        let flags = Hold::in_force(self.daemon_set)?.flags.filter(|flags| !flags.is_undo)?;
        self.of_hash(&flags.replaced_revision?).filter(|revision| !revision.is_current)
    }

    /// Returns the template that a rollback under a hold leaves.
    pub(crate) fn left_by_rollback(&self) -> Option<&Template> {
        let flags = Hold::in_force(self.daemon_set)?.flags.filter(|flags| flags.is_undo)?;
        self.of_hash(&flags.replaced_revision?)?.template.as_ref().ok()
    }

    /// Returns the revision with which the current one is compared to tell what it asks more for: the [target](Self::target), or, after a
    /// rollback, the one that was rolled back from, if no other still exists: preferably one that is [proven](Self::proven).
    pub(crate) fn compared(&self) -> Option<(&Revision<'a>, &Template)> {
        self.target().or_else(|| self.proven()).or_else(|| self.readable().find(|(revision, _)| !revision.is_current))
    }

    /// Returns the reason not to roll back to a revision.
    pub fn doubt(&self, revision: &Revision<'_>) -> Option<Doubt> {
        if self.was_rolled_back(revision) {
            return Some(Doubt::RolledBack);
        }
        if revision.is_proven() {
            return None;
        }
        if revision.failing > 0 {
            return Some(Doubt::Failing(revision.failing));
        }
        let newer = self.all.iter().rev().find(|other| other.number() > revision.number())?;
        let began = |revision: &Revision<'_>| self.rollout_began_at(revision.object);
        let lasted = began(newer)?.duration_since(began(revision)?).as_secs();
        let is_another = !newer.is_same_template(revision);
        (is_another && (0..MIN_CURRENT).contains(&lasted)).then_some(Doubt::ReplacedAfter(lasted))
    }

    /// Returns whether a revision was rolled back from, by any client, however many rollouts followed: a revision with a
    /// higher number existed when it was last rolled out, or has the template of an older one. The controller gives a known
    /// template a new number (`constructHistory`, pkg/controller/daemon/update.go, release 1.37.2).
    pub fn was_rolled_back(&self, revision: &Revision<'_>) -> bool {
        let newer = || self.all.iter().take_while(|other| other.object.hash() != revision.object.hash());
        let times = self.times(revision.object);
        times
            .is_some_and(|it| *it.was_rolled_back.get_or_init(|| newer().any(|next| self.was_left_for(revision, next))))
    }

    /// Returns whether a revision was rolled back from when a newer one was rolled out, which may itself have been rolled back from before.
    pub(crate) fn was_left_for(&self, revision: &Revision<'_>, next: &Revision<'_>) -> bool {
        let Some((left, newer)) = self.times(revision.object).zip(self.times(next.object)) else { return false };
        newer.oldest_alike != left.oldest_alike
            && !self.goes_forward(next, revision)
            && (self.existed_before(next, revision) || self.all[newer.oldest_alike].number() < revision.number())
    }

    /// Returns whether a revision existed when another one was last rolled out.
    fn existed_before(&self, revision: &Revision<'_>, other: &Revision<'_>) -> bool {
        let began = self.rollout_began_at(other.object);
        // Within one second, only one that was rolled out again is known to be older.
        let is_again =
            |at: Timestamp| self.rolled_out_at(revision.object).is_some_and(|last| seconds_between(at, last) > 1);
        let is_before =
            |(created, began): (Timestamp, Timestamp)| created < began || (created == began && is_again(created));
        created(revision).zip(began).is_some_and(is_before)
    }

    /// Returns whether the current revision, even if its template is an older one, was rolled out to replace another one rather than rolled
    /// back to: a stage says so, or it fails while the other one works, or fails anywhere and was rolled back from to it before.
    fn goes_forward(&self, next: &Revision<'_>, replaced: &Revision<'_>) -> bool {
        let is_of_stage = || self.replaced_by_stage().is_some_and(|of_stage| of_stage.number() == replaced.number());
        let is_worse = || !next.is_proven() && replaced.is_proven();
        let fails = next.failing > 0 && (is_worse() || self.both_came_back(replaced, next));
        next.is_current && (fails || is_of_stage())
    }

    /// Returns whether a revision was left for a younger one, from which it had been rolled back to before: whether the younger one was
    /// rolled out again or rolled back to, nothing tells.
    pub(crate) fn both_came_back(&self, left: &Revision<'_>, next: &Revision<'_>) -> bool {
        created(left) < created(next) && self.existed_before(next, left)
    }

    /// Returns the revision whose pods are available on the most nodes, and on more than they fail on, other than the
    /// current one: it is proven to work, unlike a revision that may never have run. The newest one wins a tie.
    ///
    /// Unlike the [target](Self::target), it may be one that was rolled back from: the current one may be an older one
    /// that was rolled out again on purpose, and fails.
    pub fn proven(&self) -> Option<(&Revision<'a>, &Template)> {
        most_available(self.others())
    }

    /// Returns the [proven](Self::proven) revision unless it was rolled back from: if the rollout in stages is that rollback, it
    /// must not be reverted.
    pub(crate) fn proven_not_rolled_back(&self) -> Option<(&Revision<'a>, &Template)> {
        self.proven().filter(|(revision, _)| !self.was_rolled_back(revision))
    }

    /// Returns the number of the revision to which a stage is taken back that has replaced pods: the one that is [left](Self::proven_not_rolled_back)
    /// on most nodes, or, if there is none, or only on nodes that a stage does not update, the one that was `before` the stage. One that has
    /// none is not taken back.
    pub(crate) fn way_back(&self, before: Option<i64>, snapshot: &Snapshot) -> Option<i64> {
        let is_updated = |node: &&Node| node.is_ready() && !node.metadata.labels.contains_key(SKIP_LABEL);
        let nodes = snapshot.nodes.iter().filter(is_updated).map(|node| node.metadata.name.as_str());
        let nodes: HashSet<&str> = nodes.collect();
        let is_left = |revision: &Revision<'_>| {
            let is_own = |pod: &&Pod| daemon_pods::is_counted(self.daemon_set, pod);
            let mut pods =
                snapshot.pods.iter().filter(is_own).filter(|pod| pod.revision_hash() == revision.object.hash());
            pods.any(|pod| daemon_pods::target_node(pod).is_some_and(|node| nodes.contains(node)))
        };
        let left = self.proven_not_rolled_back().filter(|(left, _)| is_left(left));
        before.map(|before| left.map_or(before, |(left, _)| left.number()))
    }

    /// Returns the revision whose pods are available on the most nodes, excluding those of a template.
    pub(crate) fn proven_besides(&self, template: &Template) -> Option<(&Revision<'a>, &Template)> {
        most_available(self.readable().filter(|(_, other)| !other.same_meaning(template)))
    }

    /// Returns the revision whose pods are available on the most nodes, excluding a failing one.
    pub(crate) fn works_besides(&self, failing: &Revision<'a>) -> Option<(&Revision<'a>, &Template)> {
        match failing.is_current {
            true => self.proven(),
            false => most_available(self.readable().filter(|(revision, _)| revision.object != failing.object)),
        }
    }

    /// Returns the revision that the controller uses for a template; the order of lists matters.
    pub(crate) fn of_template(&self, template: &Template) -> Option<&Revision<'a>> {
        let normal = template.normal();
        self.readable().find(|(_, other)| other.normal() == normal).map(|(revision, _)| revision)
    }

    /// Returns the revisions whose templates differ semantically from the live one, the newest first.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&Revision<'a>, &Template)> {
        self.readable().filter(|(revision, template)| !revision.is_current && !template.same_meaning(&self.live))
    }

    fn readable(&self) -> impl Iterator<Item = (&Revision<'a>, &Template)> {
        self.all.iter().filter_map(|revision| Some((revision, revision.template.as_ref().ok()?)))
    }

    /// Returns the template at an address, and its revision if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the revision does not exist or its template cannot be read.
    pub fn find(&self, address: Address) -> Result<(Option<&Revision<'a>>, &Template), NoTemplate> {
        let revision = match address {
            Address::Live => return Ok((self.current(), &self.live)),
            Address::Number(number) => self.number(number),
            Address::Back(steps) => self.back(steps),
        };
        let revision = revision.ok_or(NoTemplate::NoSuchRevision)?;
        Ok((Some(revision), revision.readable()?))
    }
}

/// Returns whether a container of a pod fails. On a node that is down, containers keep their last reported state.
pub(crate) fn fails(pod: &Pod, now: Timestamp) -> bool {
    let is_late =
        |began: Option<Timestamp>| began.is_some_and(|began| now.duration_since(began).as_secs() > MOST_UNREADY);
    let is_failing = |status: &&ContainerStatus| {
        let state = &status.state;
        let is_stuck = |waiting: &ContainerStateWaiting| !waiting.reason.is_empty() && !status.is_being_created();
        let ended = state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code != 0);
        let is_unready = state.running.as_ref().is_some_and(|running| is_late(running.started_at.get()));
        !status.ready
            && !status.is_lost()
            && (ended || is_unready || status.restart_count > 0 || state.waiting.as_ref().is_some_and(is_stuck))
    };
    let status = &pod.status;
    daemon_pods::has_failed(pod)
        || status
            .init_container_statuses
            .iter()
            .filter(|status| status.state.running.is_none())
            .any(|it| is_failing(&it))
        || status.container_statuses.iter().any(|status| is_failing(&status))
}

fn created(revision: &Revision<'_>) -> Option<Timestamp> {
    revision.object.metadata.creation_timestamp.get()
}

fn most_available<'r, 'a: 'r>(
    revisions: impl Iterator<Item = (&'r Revision<'a>, &'r Template)>,
) -> Option<(&'r Revision<'a>, &'r Template)> {
    let proven = revisions.filter(|(revision, _)| revision.is_proven());
    proven.max_by_key(|(revision, _)| (revision.available, revision.number()))
}

/// Returns which of the revisions, the newest first, is that of the live template; `None` if the controller has not
/// created it yet.
///
/// After observing a generation, the controller has given the highest number to the revision of its template
/// (`constructHistory`, pkg/controller/daemon/update.go, release 1.37.2). The revisions may have been read before that,
/// so confirmation is needed: from the template, from the template generation that a revision copies from the
/// DaemonSet's annotations when it is created, or from updated pods. The template does not match if it cannot be read, or has an unknown
/// default; if it differs otherwise, it is another one, whatever else says.
fn current(daemon_set: &DaemonSet, live: &Template, all: &[Revision<'_>], pods: &[&Pod]) -> Option<usize> {
    let is_live =
        |revision: &Revision<'_>| revision.template.as_ref().is_ok_and(|template| template.same_meaning(live));
    let was_created_for_it = |revision: &Revision<'_>| {
        let generation = daemon_set.annotations.get(TEMPLATE_GENERATION_ANNOTATION);
        generation.is_some() && revision.object.annotations.get(TEMPLATE_GENERATION_ANNOTATION) == generation
    };
    let has_updated_pods = |revision: &Revision<'_>| {
        let hash = revision.object.hash();
        pods.iter().any(|pod| pod.revision_hash() == hash && daemon_pods::is_updated(daemon_set, None, pod))
    };
    let may_be_live = |revision: &Revision<'_>| revision.template.as_ref().map_or(true, |it| it.may_be_same(live));
    let is_confirmed = |revision: &Revision<'_>| {
        is_live(revision) || may_be_live(revision) && (was_created_for_it(revision) || has_updated_pods(revision))
    };
    let newest = all.first().filter(|_| daemon_set.is_observed());
    match newest {
        Some(newest) if is_confirmed(newest) => Some(0),
        // An unreadable one may have the template if no other one has it.
        Some(newest) => all.iter().position(is_live).or(newest.template.is_err().then_some(0)),
        None => all.iter().position(is_live),
    }
}

/// Returns the name of a DaemonSet for a report.
pub fn name_of(daemon_set: &DaemonSet) -> DaemonSetName {
    DaemonSetName {
        api_version: daemon_set.api_version().to_owned(),
        namespace: daemon_set.metadata.namespace.clone(),
        name: daemon_set.metadata.name.clone(),
    }
}

fn belongs_to(owner: &OwnerReference, daemon_set: &DaemonSet) -> String {
    let (version, name) = (daemon_set.api_version(), &daemon_set.metadata.name);
    if (owner.kind.as_str(), owner.api_version.as_str(), &owner.name) == ("DaemonSet", version, name) {
        return "it belongs to a former DaemonSet of this name".to_owned();
    }
    let kind = match owner.kind.as_str() {
        "DaemonSet" if owner.api_version.starts_with(ADVANCED_GROUP) => "Advanced DaemonSet",
        kind => kind,
    };
    format!("it belongs to {kind} {}", owner.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Revisions;
    use crate::facts::test_support::{at, world};
    use crate::model::controller_revision::ControllerRevision;

    /// Without managed fields, only numbers tell whether a revision was rolled out again.
    #[test]
    fn a_revision_was_rolled_out_at_its_creation_unless_it_may_have_been_rolled_out_again() {
        for (revisions, expected) in [
            (&[(1, "11:00:00"), (2, "11:10:00")][..], Some("11:10:00")),
            (&[(2, "11:00:00"), (3, "11:10:00")], Some("11:10:00")),
            // All may have been rolled out again, in the order in which they were before.
            (&[(7, "11:00:00"), (8, "11:05:00"), (9, "11:10:00")], None),
            // The first was rolled back to.
            (&[(2, "11:10:00"), (3, "11:00:00")], None),
            (&[(1, "11:00:00"), (3, "11:05:00"), (4, "11:10:00")], None),
            (&[(9, "11:10:00")], None),
        ] {
            let mut snapshot = world().finish();
            let one = snapshot.controller_revisions.pop().unwrap();
            snapshot.controller_revisions.extend(revisions.iter().map(|(number, created)| {
                let mut revision = one.clone();
                revision.revision = *number;
                revision.metadata.name = format!("agent-{number}");
                revision.metadata.creation_timestamp = serde_json::from_value(json!(at(created))).unwrap();
                revision
            }));
            let found = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            let newest = found.all[0].object;
            let at = found.rolled_out_at(newest);
            assert_eq!(at, expected.map(at_time), "{revisions:?}");
        }
    }

    /// Until the controller has acted, what has become current again has the number and the time of its first rollout.
    #[test]
    fn a_revision_that_has_no_new_number_yet_was_rolled_out_after_all_others() {
        let time = |time: &str| serde_json::from_value(json!(at(time))).unwrap();
        let world = world().revision_of_template("hash2", 2).revision_of_image("hash3", 3, "agent:3");
        let mut snapshot = world.finish();
        snapshot.controller_revisions.remove(0);
        let times = ["11:00:00", "11:30:00"];
        for (revision, created) in snapshot.controller_revisions.iter_mut().zip(times) {
            revision.metadata.creation_timestamp = time(created);
        }
        let found = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
        let current = found.current().unwrap();
        assert_eq!(current.number(), 2);
        assert_eq!(
            (found.rolled_out_at(current.object), found.rollout_began_at(current.object)),
            (None, Some(at_time("11:30:00")))
        );
        assert_eq!(found.rolled_out_at(found.all[0].object), Some(at_time("11:30:00")));
    }

    /// Lists of different ages may say anything of its number, its generation and its pods.
    #[test]
    fn a_revision_with_another_template_is_not_the_current_one() {
        let same = json!({});
        let defaulted = json!({"spec": {"template": {"spec": {"setByANewerRelease": true}}}});
        let started_again = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}});
        let limited = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "agent", "image": "agent:2", "resources": {"limits": {"cpu": "1"}}, "command": ["run"]}]}}}});
        for (image, patch, is_current) in [
            ("agent:2", &same, true),
            ("agent:2", &defaulted, true),
            ("agent:1", &same, false),
            ("agent:1", &defaulted, false),
            ("agent:2", &started_again, false),
            ("agent:3", &limited, false),
        ] {
            let world = world().revision_of_image("hash3", 3, image).daemon_set(patch.clone());
            let pod = json!({"metadata": {"labels": {"controller-revision-hash": "hash3"}}});
            let mut snapshot = world.node("n", json!({})).pod("agent-n", "n", pod).finish();
            snapshot.controller_revisions.remove(0);
            let found = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            assert_eq!(found.current().is_some(), is_current, "{image} {patch}");
        }
    }

    fn at_time(time: &str) -> jiff::Timestamp {
        at(time).parse().unwrap()
    }

    #[test]
    fn revisions_of_others_are_skipped_with_the_reason_if_their_labels_match() {
        let owner = |kind: &str, api_version: &str, name: &str, uid: &str| {
            let owner = json!({"kind": kind, "apiVersion": api_version, "name": name, "uid": uid, "controller": true});
            json!([owner])
        };
        let matching = || json!({"labels": {"app": "agent"}});
        for (mut metadata, owners, taken, skipped) in [
            (matching(), owner("DaemonSet", "apps/v1", "agent", "agent-uid"), 1, None),
            // The controller adopts a revision without an owner: before, it is not the DaemonSet's.
            (matching(), json!([]), 0, Some("it has no owner")),
            (json!({}), json!([]), 0, None),
            (
                matching(),
                owner("DaemonSet", "apps/v1", "agent", "former"),
                0,
                Some("it belongs to a former DaemonSet of this name"),
            ),
            (matching(), owner("DaemonSet", "apps/v1", "other", "o"), 0, Some("it belongs to DaemonSet other")),
            (matching(), owner("StatefulSet", "apps/v1", "agent", "o"), 0, Some("it belongs to StatefulSet agent")),
            (
                matching(),
                owner("DaemonSet", "apps.kruise.io/v1beta1", "agent", "o"),
                0,
                Some("it belongs to Advanced DaemonSet agent"),
            ),
            (json!({}), owner("StatefulSet", "apps/v1", "db", "o"), 0, None),
        ] {
            metadata["name"] = json!("r");
            metadata["namespace"] = json!("default");
            metadata["ownerReferences"] = owners;
            let mut world = world();
            let revision: Value = json!({"metadata": metadata, "revision": 1});
            world.snapshot.controller_revisions = vec![ControllerRevision::from_object(revision.clone()).unwrap()];
            let snapshot = world.finish();
            let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            let reasons: Vec<&str> = revisions.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
            assert_eq!((revisions.all.len(), reasons), (taken, skipped.into_iter().collect()), "{revision}");
        }
    }
}
