//! A snapshot that follows the cluster: watches produce changes, the store applies them, and the snapshot is taken from it.
//!
//! [`Live::watch`] returns once everything is listed. A command then shows the snapshot whenever something has changed, and
//! periodically, since ages grow and `minReadySeconds` elapse:
//!
//! ```text
//! let mut watch = live.watch(query).await?;
//! loop {
//!     let report = report(watch.snapshot().await);
//!     show(report, watch.failure(), watch.unwatched());
//!     let _ = tokio::time::timeout(Duration::from_secs(1), watch.changed()).await;
//! }
//! ```
//!
//! A busy cluster changes several times a second: wait a little between two calls of `changed`, which loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use futures::{FutureExt, future};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::follow::{ListChange, follow};
use super::list::{List, permission};
use super::prune::{DaemonSetMatcher, ForeignPods};
use super::read::{CONTROLLER_MANAGER, by_name, is_answer, missing_nodes, unreadable_lease};
use super::reader::{Reader, add_gap};
use super::writes::{keep_written, written_list};
use super::{Live, advanced};
use crate::cluster::error::ClusterError;
use crate::cluster::needs::{Cluster, Pods};
use crate::cluster::object::Object;
use crate::cluster::projection::keep_node;
use crate::cluster::{Flavors, Query, Wanted};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Admission, Gap, GapCause, Kind, PodsComplete, Snapshot};
use crate::model::written::{WrittenNode, WrittenObject};

/// The most updates that are combined in one change.
const MAX_BATCH: usize = 1_000;

/// How long to wait after a failure before nodes are requested by name again.
const NODES_PAUSE: Duration = Duration::from_secs(5);

/// The DaemonSets of a query, followed with their revisions, pods and events, and the nodes.
///
/// A failed request is retried forever: until then, the store is as old as [`Watch::failure`] says. A list replaces
/// objects only once it is complete. Nothing is read unless [`Watch::changed`] or [`Watch::snapshot`] is awaited; both
/// can be dropped at any point without losing anything.
pub struct Watch<'a> {
    live: &'a Live,
    query: Query,
    followed: BTreeMap<Subject, Followed<'a>>,
    /// The objects, each kind sorted by namespace and name.
    snapshot: Snapshot,
    identities: Vec<(String, String)>,
    nodes: NamedNodes,
    has_changed: bool,
}

/// A followed list: of events, the kind that they are about, and its kind.
type Subject = (&'static str, Kind);

/// The state of one followed list.
struct Followed<'a> {
    updates: Pin<Box<dyn Stream<Item = Update<'a>> + 'a>>,
    /// The namespace of the list.
    namespace: Option<String>,
    /// Whether the list was read once, or is known to be forbidden.
    is_listed: bool,
    /// Why it is listed at intervals instead of watched.
    unwatched: Option<ClusterError>,
    failure: Option<ClusterError>,
}

/// Applies a change to the objects of its kind.
type Update<'a> = Box<dyn FnOnce(&mut Snapshot) -> Outcome + 'a>;

/// The nodes that pods name: the watch of pods may be ahead of the watch of nodes, and pods outlive their nodes.
#[derive(Default)]
struct NamedNodes {
    /// Whether pods may name nodes that were not requested yet.
    are_due: bool,
    /// How many nodes there were when one was last added or deleted.
    counted: usize,
    /// Those that do not exist.
    gone: BTreeSet<String>,
    /// Why they could not be read, and when to try again.
    failure: Option<(ClusterError, Instant)>,
}

impl Live {
    /// Follows the DaemonSets in the query, and returns once everything readable has been listed.
    ///
    /// Other objects that the query wants are ignored, unless they are recent changes: a watch always covers coverage of all nodes.
    /// Fails if the only DaemonSet of the query does not exist, if DaemonSets are forbidden, or if a first request fails.
    pub async fn watch(&self, query: Query) -> Result<Watch<'_>, ClusterError> {
        let wanted = if query.wanted == Wanted::RecentChanges { query.wanted } else { Wanted::default() };
        let query = Query { wanted, ..query };
        let reader = Reader::new(self, &query);
        // The first response tells how far the clocks are apart.
        let found = reader.daemon_sets().await?;
        let mut snapshot = Snapshot { now: self.now(), ..found };
        // A name that may refer to either flavor keeps its current meaning.
        let is_advanced = query.flavors == Flavors::Advanced || !snapshot.advanced_daemon_sets.is_empty();
        let advanced = if is_advanced { advanced::kind(&reader).await? } else { None };
        snapshot.gaps = reader.take_gaps();
        let mut watch = Watch {
            live: self,
            query,
            followed: BTreeMap::new(),
            identities: identities(&snapshot),
            snapshot,
            nodes: NamedNodes { are_due: true, ..NamedNodes::default() },
            has_changed: false,
        };
        watch.follow_cluster(advanced);
        watch.follow_objects_of_daemon_sets();
        watch.settle().await;
        watch.has_changed = false;
        // A watch that breaks after its list is resumed later.
        let unlisted = watch.followed.values_mut().find(|followed| !followed.is_listed);
        let failure = unlisted.and_then(|followed| followed.failure.take());
        match failure.or_else(|| Some(watch.nodes.failure.take()?.0)) {
            Some(failure) => Err(failure),
            None => Ok(watch),
        }
    }
}

impl<'a> Watch<'a> {
    /// Waits until something has changed: an object, which lists may be watched, or whether requests fail.
    ///
    /// Leases are ignored: they are renewed every other second.
    pub async fn changed(&mut self) {
        while !self.has_changed {
            match self.nodes.failure {
                None => self.update().await,
                Some((_, again)) => {
                    if timeout_at(again, self.update()).await.is_err() {
                        self.has_changed = true;
                    }
                }
            }
        }
        self.catch_up().await;
    }

    /// Applies everything that has arrived.
    async fn catch_up(&mut self) {
        for _ in 0..MAX_BATCH {
            if self.update().now_or_never().is_some() {
                continue;
            }
            // A connection delivers one piece of a response at a time, and makes progress only while this task waits.
            yield_now().await;
            if self.update().now_or_never().is_none() {
                break;
            }
        }
        self.settle().await;
        self.has_changed = false;
    }

    /// Returns the current state of the cluster, as far as known.
    ///
    /// Waits if a change is incomplete, such as a new DaemonSet whose pods are not listed yet. While requests for
    /// essential lists fail, its time stands still: stale data must not make anything available or overdue.
    pub async fn snapshot(&mut self) -> &Snapshot {
        self.catch_up().await;
        if self.staleness().is_none() {
            self.snapshot.now = self.live.now().max(self.snapshot.now);
            self.snapshot.clock_difference = self.live.observed().clock_difference();
        }
        &self.snapshot
    }

    /// Records the API server's answers about pods that it has refused.
    pub(crate) fn note_admissions(&mut self, admissions: Vec<Admission>) {
        self.snapshot.admissions = admissions;
    }

    /// Records that the cluster could not be read until now: what was not heard of meanwhile may have been renewed.
    pub(crate) fn note_unreachable(&mut self) {
        self.snapshot.reachable_since = Some(self.live.now());
    }

    /// Returns what is watched.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Returns the snapshot as it is, without waiting.
    pub fn last_snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns why the snapshot may be stale: a request failed, and is being retried.
    pub fn failure(&self) -> Option<&ClusterError> {
        self.failures().next().map(|(_, failure)| failure)
    }

    /// Returns why what decides verdicts may be stale: events and leases only explain them.
    pub fn staleness(&self) -> Option<&ClusterError> {
        let mut failures = self.failures().filter(|(kind, _)| !matches!(kind, Kind::Events | Kind::Leases));
        failures.next().map(|(_, failure)| failure)
    }

    /// Returns which requests failed, and are being retried.
    pub fn failures(&self) -> impl Iterator<Item = (Kind, &ClusterError)> {
        let of_nodes = self.nodes.failure.as_ref().map(|(error, _)| (Kind::Nodes, error));
        let failures = self.followed.iter();
        failures.filter_map(|((_, kind), followed)| Some((*kind, followed.failure.as_ref()?))).chain(of_nodes)
    }

    /// Returns what cannot be watched, such as `watch pods`, and why. It is listed every five seconds instead, or less
    /// often if that takes long.
    pub fn unwatched(&self) -> BTreeMap<String, &ClusterError> {
        let unwatched = self
            .followed
            .iter()
            .filter_map(|((_, kind), followed)| Some((permission("watch", *kind), followed.unwatched.as_ref()?)));
        unwatched.collect()
    }

    /// Follows DaemonSets, Advanced ones in the given version, and cluster-wide lists.
    fn follow_cluster(&mut self, advanced: Option<List>) {
        let of_query = |list: List| List {
            namespace: self.query.namespace.clone(),
            label_selector: self.query.selector.to_string(),
            field_selector: if let [name] = self.query.names.as_slice() { by_name(name) } else { String::new() },
            ..list
        };
        let own = of_query(List::of(Kind::DaemonSets));
        let name = |daemon_set: &DaemonSet| (daemon_set.metadata.namespace.clone(), daemon_set.metadata.name.clone());
        let is_own: BTreeSet<(String, String)> = self.snapshot.daemon_sets.iter().map(name).collect();
        let is_of_one_flavor = self.query.flavors != Flavors::Any || !self.query.names.is_empty();
        let is_only_advanced = advanced.is_some() && is_own.is_empty() && is_of_one_flavor;
        if let Some(advanced) = advanced.map(of_query) {
            let query = self.query.clone();
            let keep = move |daemon_set: DaemonSet| {
                let is_wanted = query.wants(&daemon_set.metadata) && !is_own.contains(&name(&daemon_set));
                is_wanted.then_some(daemon_set)
            };
            self.follow_kind(advanced, keep, |all| &mut all.advanced_daemon_sets);
        }
        if !is_only_advanced {
            let query = self.query.clone();
            let keep = move |daemon_set: DaemonSet| query.wants(&daemon_set.metadata).then_some(daemon_set);
            self.follow_kind(own, keep, |all| &mut all.daemon_sets);
        }
        if self.query.needs().cluster == Cluster::Writes {
            return self.follow_writes();
        }
        self.follow_kind(List::of(Kind::Nodes), |node| Some(keep_node(node, false)), |all| &mut all.nodes);
        let (namespace, name) = CONTROLLER_MANAGER;
        let namespace = Some(namespace.to_owned());
        let leases = List { namespace, field_selector: by_name(name), ..List::of(Kind::Leases) };
        self.follow_kind(leases, Some, |all| &mut all.leases);
    }

    /// Follows the objects that reveal recent changes besides DaemonSets and their revisions.
    fn follow_writes(&mut self) {
        self.follow("", List::of(Kind::Nodes), keep_written(), apply_written);
        for kind in Kind::WRITTEN {
            let list = written_list(kind, self.query.namespace.as_deref());
            self.follow_kind(list, Some::<WrittenObject>, move |all| all.written_objects.entry(kind).or_default());
        }
    }

    /// Follows the DaemonSets' objects from the start: which objects are kept depends on all DaemonSets.
    fn follow_objects_of_daemon_sets(&mut self) {
        let daemon_sets: Vec<&DaemonSet> = self.snapshot.daemon_sets_of_any_flavor().collect();
        let namespace = self.query.namespace.clone();
        let selector = match (&namespace, daemon_sets.as_slice()) {
            (Some(_), [daemon_set]) => daemon_set.spec.selector.to_string(),
            _ => String::new(),
        };
        let foreign = if namespace.is_some() { ForeignPods::Drop } else { ForeignPods::ForArithmetic };
        let matcher = Rc::new(DaemonSetMatcher::new(&daemon_sets, false));
        let list = |kind| List { namespace: namespace.clone(), ..List::of(kind) };
        let keep = matcher.clone();
        self.follow_kind(
            List { label_selector: selector.clone(), ..list(Kind::ControllerRevisions) },
            move |revision| keep.keeps_revision(&revision).then_some(revision),
            |all| &mut all.controller_revisions,
        );
        let needs = Rc::new(self.query.needs());
        if needs.pods != Pods::None {
            let keep = matcher.clone();
            self.follow_kind(
                List { label_selector: selector, ..list(Kind::Pods) },
                move |pod| keep.keep_pod(pod, foreign),
                |all| &mut all.pods,
            );
        }
        for events in needs.events.clone() {
            let (keep, needs, about) = (matcher.clone(), needs.clone(), events.about);
            let namespace = events.namespace().or_else(|| namespace.clone());
            self.follow(
                about,
                List { namespace, field_selector: events.field_selector.clone(), ..List::of(Kind::Events) },
                move |event| keep.keeps_event(&needs, &events, &event).then_some(event),
                move |change, all| apply(change, &mut all.events, |event| event.involved_object.kind == about),
            );
        }
    }

    /// Follows all objects of a kind in a snapshot.
    fn follow_kind<T: Object + 'a>(
        &mut self,
        list: List,
        keep: impl Fn(T) -> Option<T> + 'a,
        objects: impl Fn(&mut Snapshot) -> &mut Vec<T> + Copy + 'a,
    ) {
        self.follow("", list, keep, move |change, all| apply(change, objects(all), |_| true));
    }

    fn follow<T: Object + 'a>(
        &mut self,
        about: &'static str,
        list: List,
        keep: impl Fn(T) -> Option<T> + 'a,
        apply: impl Fn(ListChange<T>, &mut Snapshot) -> Outcome + Copy + 'a,
    ) {
        let (subject, namespace) = ((about, list.kind), list.namespace.clone());
        let changes = follow(&self.live.transport, list, keep);
        let updates = changes.map(move |change| Box::new(move |all: &mut Snapshot| apply(change, all)) as Update<'a>);
        let updates = Box::pin(updates);
        let followed = Followed { updates, namespace, is_listed: false, unwatched: None, failure: None };
        self.followed.insert(subject, followed);
    }

    /// Reads what the last updates made necessary: the objects of a new DaemonSet, and nodes that pods name.
    async fn settle(&mut self) {
        while self.followed.values().any(|followed| !followed.is_listed && followed.failure.is_none()) {
            self.update().await;
        }
        self.find_nodes().await;
    }

    /// Waits for the next update, and applies it.
    async fn update(&mut self) {
        let updates = self.followed.iter_mut().map(|(subject, followed)| {
            let subject = *subject;
            (&mut followed.updates).map(move |update| (subject, update))
        });
        let Some((subject, update)) = stream::select_all(updates).next().await else { return future::pending().await };
        let outcome = update(&mut self.snapshot);
        self.note(subject, outcome);
    }

    /// Records the outcome of an update, and what it makes necessary.
    fn note(&mut self, subject: Subject, outcome: Outcome) {
        let (_, kind) = subject;
        let Some(followed) = self.followed.get_mut(&subject) else { return };
        let failure = std::mem::take(&mut followed.failure);
        let snapshot = &mut self.snapshot;
        let is_listed = matches!(outcome, Outcome::Listed { .. });
        match outcome {
            Outcome::Listed { has_changed } => {
                followed.is_listed = true;
                let gaps = snapshot.gaps.len();
                snapshot.gaps.retain(|gap| gap.kind != kind);
                self.has_changed |= has_changed && kind != Kind::Leases || snapshot.gaps.len() < gaps;
            }
            Outcome::Applied { has_changed } => self.has_changed |= has_changed && kind != Kind::Leases,
            Outcome::Forbidden => {
                followed.is_listed = true;
                let cause = GapCause::Forbidden(permission("list", kind));
                self.has_changed |= add_gap(snapshot, Gap { kind, namespace: followed.namespace.clone(), cause });
            }
            Outcome::Unwatched(error) => {
                self.has_changed |= followed.unwatched.replace(error).is_none();
                // Cleared by the next list.
                followed.failure.clone_from(&failure);
            }
            Outcome::Resumed => self.has_changed |= followed.unwatched.take().is_some(),
            Outcome::Failed(error) => {
                let is_unknown = !followed.is_listed || snapshot.gaps.iter().any(|gap| gap.kind == kind);
                let cause = match kind {
                    Kind::Leases if is_unknown => unreadable_lease(&error),
                    // They may be stored apart from everything else.
                    Kind::Events if !followed.is_listed && is_answer(&error) => {
                        Some(GapCause::Failed(error.to_string()))
                    }
                    _ => None,
                };
                followed.failure = Some(error).filter(|_| cause.is_none() || kind == Kind::Events);
                if let Some(cause) = cause {
                    followed.is_listed = true;
                    let gap = Gap { kind, namespace: followed.namespace.clone(), cause };
                    self.has_changed |= add_gap(snapshot, gap);
                }
            }
        }
        self.has_changed |= followed.failure != failure;
        // What else cannot be read says nothing about what was renewed meanwhile.
        if kind == Kind::Leases && (followed.failure.is_some() || failure.is_some()) {
            snapshot.reachable_since = Some(self.live.now());
        }
        if followed.is_listed && matches!(kind, Kind::Nodes | Kind::DaemonSets | Kind::AdvancedDaemonSets) {
            snapshot.note_missing_nodes();
        }
        match kind {
            Kind::Nodes => {
                let counted = std::mem::replace(&mut self.nodes.counted, snapshot.nodes.len());
                self.nodes.are_due |= is_listed || counted != self.nodes.counted;
            }
            Kind::Pods => {
                self.nodes.are_due = true;
                let knows_all = self.query.namespace.is_none() && snapshot.gap(Kind::Pods, "").is_none();
                snapshot.pods_complete =
                    if knows_all { PodsComplete::Everywhere } else { PodsComplete::On(BTreeSet::new()) };
            }
            Kind::DaemonSets | Kind::AdvancedDaemonSets => {
                let mut unknown_names = std::mem::take(&mut snapshot.unknown_names);
                let is_known =
                    |name: &str| snapshot.daemon_sets_of_any_flavor().any(|known| known.metadata.name == name);
                unknown_names.retain(|unknown| !is_known(&unknown.name));
                snapshot.unknown_names = unknown_names;
                let identities = identities(snapshot);
                if identities != self.identities {
                    self.identities = identities;
                    self.follow_objects_of_daemon_sets();
                }
            }
            _ => {}
        }
    }

    /// Reads the nodes that pods name but the watch of nodes has not shown yet.
    async fn find_nodes(&mut self) {
        let is_pausing = self.nodes.failure.as_ref().is_some_and(|(_, again)| Instant::now() < *again);
        if !self.nodes.are_due || is_pausing || self.snapshot.gap(Kind::Nodes, "").is_some() {
            return;
        }
        let mut missing = missing_nodes(&self.snapshot);
        self.nodes.gone.retain(|node| missing.contains(node));
        self.snapshot.deleted_nodes.retain(|node| missing.contains(node));
        missing.retain(|node| !self.nodes.gone.contains(node));
        match self.live.nodes_named(&missing, |node| Some(keep_node(node, false))).await {
            Ok((found, deleted)) => {
                self.snapshot.deleted_nodes.extend(deleted);
                for node in found {
                    missing.remove(&node.metadata.name);
                    apply(ListChange::Applied(Box::new(node)), &mut self.snapshot.nodes, |_| true);
                }
                for removal in self.live.removals(&missing).await {
                    apply(ListChange::Applied(Box::new(removal)), &mut self.snapshot.events, |_| true);
                }
                self.nodes.gone.extend(missing);
                (self.nodes.are_due, self.nodes.failure) = (false, None);
            }
            Err(error) => self.nodes.failure = Some((error, Instant::now() + NODES_PAUSE)),
        }
    }
}

/// Applies a change to the nodes, and to the record of who has written them.
fn apply_written(change: ListChange<WrittenNode>, all: &mut Snapshot) -> Outcome {
    let (change, differs) = match change {
        ListChange::Listed(listed) => {
            let before = std::mem::take(&mut all.node_writes);
            let nodes = listed.into_iter().map(|node| all.note_writes(node)).collect();
            (ListChange::Listed(nodes), before != all.node_writes)
        }
        ListChange::Applied(written) => {
            let before = all.node_writes.remove(&written.node.metadata.name);
            let node = all.note_writes(*written);
            let differs = before.as_ref() != all.node_writes.get(&node.metadata.name);
            (ListChange::Applied(Box::new(node)), differs)
        }
        ListChange::Deleted { namespace, name } => {
            let differs = all.node_writes.remove(&name).is_some();
            (ListChange::Deleted { namespace, name }, differs)
        }
        ListChange::Forbidden => {
            all.node_writes.clear();
            (ListChange::Forbidden, false)
        }
        ListChange::Unwatched(error) => (ListChange::Unwatched(error), false),
        ListChange::Failed(error) => (ListChange::Failed(error), false),
        ListChange::Resumed => (ListChange::Resumed, false),
    };
    match apply(change, &mut all.nodes, |_| true) {
        Outcome::Listed { has_changed } => Outcome::Listed { has_changed: has_changed || differs },
        Outcome::Applied { has_changed } => Outcome::Applied { has_changed: has_changed || differs },
        outcome => outcome,
    }
}

/// Returns what decides which pods, revisions and events are kept: the DaemonSets' UIDs and selectors.
fn identities(snapshot: &Snapshot) -> Vec<(String, String)> {
    let identity = |daemon_set: &DaemonSet| (daemon_set.metadata.uid.clone(), daemon_set.spec.selector.to_string());
    snapshot.daemon_sets_of_any_flavor().map(identity).collect()
}

/// The effect of a change.
#[derive(Debug, PartialEq)]
enum Outcome {
    Listed { has_changed: bool },
    Applied { has_changed: bool },
    Forbidden,
    Unwatched(ClusterError),
    Failed(ClusterError),
    Resumed,
}

/// Applies a change to the objects for which `belongs` returns true.
fn apply<T: Object>(change: ListChange<T>, objects: &mut Vec<T>, belongs: impl Fn(&T) -> bool) -> Outcome {
    fn place<T: Object>(objects: &[T], wanted: (&str, &str)) -> Result<usize, usize> {
        objects.binary_search_by(|object| object.key().cmp(&wanted))
    }
    match change {
        ListChange::Listed(mut listed) => {
            listed.extend(objects.iter().filter(|object| !belongs(object)).cloned());
            listed.sort_by(|one, other| one.key().cmp(&other.key()));
            listed.shrink_to_fit();
            let has_changed = *objects != listed;
            *objects = listed;
            Outcome::Listed { has_changed }
        }
        ListChange::Applied(object) => {
            let has_changed = match place(objects, object.key()) {
                Ok(index) => std::mem::replace(&mut objects[index], *object) != objects[index],
                Err(index) => {
                    objects.insert(index, *object);
                    true
                }
            };
            Outcome::Applied { has_changed }
        }
        ListChange::Deleted { namespace, name } => {
            let found = place(objects, (&namespace, &name));
            Outcome::Applied { has_changed: found.map(|index| objects.remove(index)).is_ok() }
        }
        ListChange::Forbidden => {
            objects.retain(|object| !belongs(object));
            Outcome::Forbidden
        }
        ListChange::Unwatched(error) => Outcome::Unwatched(error),
        ListChange::Failed(error) => Outcome::Failed(error),
        ListChange::Resumed => Outcome::Resumed,
    }
}

#[cfg(test)]
mod tests {
    use super::{ListChange, Outcome, apply};
    use crate::cluster::live::protobuf::tests::node;
    use crate::model::node::Node;

    #[test]
    fn only_what_differs_counts_as_a_change() {
        let mut nodes: Vec<Node> = Vec::new();
        let mut changed =
            |change: ListChange<Node>| match apply(change, &mut nodes, |node| node.metadata.name != "other") {
                Outcome::Listed { has_changed } | Outcome::Applied { has_changed } => has_changed,
                outcome => panic!("{outcome:?}"),
            };
        let deleted = |name: &str| ListChange::Deleted { namespace: String::new(), name: name.to_owned() };
        let applied = |name: &str| ListChange::Applied(Box::new(node(name)));
        assert!(changed(ListChange::Listed(vec![node("b"), node("a")])));
        assert!(!changed(ListChange::Listed(vec![node("a"), node("b")])));
        assert!(!changed(applied("a")));
        assert!(changed(applied("other")));
        assert!(!changed(deleted("c")));
        assert!(changed(deleted("a")));
        assert!(changed(ListChange::Listed(Vec::new())));
        assert_eq!(nodes, [node("other")]);
    }
}
