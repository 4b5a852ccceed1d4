//! Recent changes to everything that DaemonSets depend on: templates and strategies, taints, labels, cordons, and the
//! nodes themselves.
//!
//! The API keeps few timestamps: of revisions, of the creation of objects, of taints, of events, and for each field
//! manager of an object that of its last change to any field ([`Written`]). Only changes that follow from them are
//! reported, plus anything that nodes lose while they are watched ([`FollowedChanges`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::known_rollouts::{Rollout, known_rollouts};
use crate::coverage::gaps;
use crate::facts::index::Index;
use crate::facts::node_removal::CORDONED;
use crate::facts::revisions::name_of;
use crate::model::controller_revision::REACTION;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::{ABOUT_TO_BE_DELETED, Event};
use crate::model::hold::Hold;
use crate::model::metadata::ObjectMeta;
use crate::model::node::{Node, NodeSpec, Taint};
use crate::model::server_side_apply::managed_fields;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::written::{Written, WrittenObject};
use crate::plan::{FIELD_MANAGER, RETRIED_ANNOTATION};
use crate::report::reason::Class;
use crate::report::recent_changes::{ChangeOf, ChangedKind, ChangesReport, ClusterChange, RolloutNumbers};
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport, Verdict};

/// How long after its creation a node is being set up: writes until then do not count as changes.
const SETUP: SignedDuration = SignedDuration::from_secs(30);

/// How far apart the same change to two nodes may be to be reported as one.
const SAME_CHANGE: SignedDuration = SignedDuration::from_secs(30);

/// How far apart two times from a single request may be.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(2);

/// How long the node controller takes at most to add its taint after a cordon.
const CORDON_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// The prefix of the taints that the node controller adds for conditions.
const CONDITION_TAINTS: &str = "node.kubernetes.io/";

/// How long before a rollout a change may explain why it is blocked, and the most changes that are reported.
const SHORTLY: SignedDuration = SignedDuration::from_mins(15);
const MOST_AROUND_ROLLOUT: usize = 5;

/// The fields of a DaemonSet's spec whose changes are reported, and their names.
const TOLD_FIELDS: [(&str, &str); 3] =
    [("template", "template"), ("updateStrategy", "update strategy"), ("minReadySeconds", "minReadySeconds")];

/// The label that the API server sets on each namespace, which cannot be changed.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How long after the last look earlier changes may still appear: controllers report deleted nodes late, and clocks differ.
const LATE: SignedDuration = SignedDuration::from_mins(10);

/// The identity of a change each time it is found: when, of what object, and by whom or what.
type Identity = (Timestamp, ChangedKind, Option<String>, Vec<String>, ChangeOf, Option<String>);

/// The changes in a followed cluster: each is reported once.
#[derive(Debug, Default)]
pub struct FollowedChanges {
    told: BTreeSet<Identity>,
    looked_at: Option<Timestamp>,
    /// The nodes at the last look, by their UID.
    nodes: BTreeMap<String, NodeSpec>,
}

impl FollowedChanges {
    /// Returns the changes that were not returned before, the latest first.
    pub fn update(&mut self, snapshot: &Snapshot, since: Option<Timestamp>) -> ChangesReport {
        let earliest = self.looked_at.replace(snapshot.now).and_then(|at| at.checked_sub(LATE).ok());
        let mut report = changes(snapshot, since.max(earliest), &self.nodes);
        report.changes.extend(self.removed_from_nodes(snapshot));
        self.told.retain(|(at, ..)| earliest.is_none_or(|earliest| *at >= earliest));
        report.changes.retain(|change| self.told.insert(identity(change)));
        ChangesReport { since, changes: grouped(report.changes), ..report }
    }

    /// Returns which nodes were uncordoned and lost taints since the last look: the API keeps no times for these.
    fn removed_from_nodes(&mut self, snapshot: &Snapshot) -> Vec<ClusterChange> {
        let nodes = snapshot.nodes.iter().map(|node| (node.metadata.uid.clone(), node.spec.clone())).collect();
        let before: BTreeMap<String, NodeSpec> = std::mem::replace(&mut self.nodes, nodes);
        let mut changes = Vec::new();
        for (node, before) in snapshot.nodes.iter().filter_map(|node| Some((node, before.get(&node.metadata.uid)?))) {
            let change = |what| of_named_node(&node.metadata.name, snapshot.now, what);
            if before.unschedulable && !node.spec.unschedulable {
                changes.push(change(ChangeOf::Uncordoned));
            }
            let is_left = |taint: &&Taint| {
                node.spec.taints.iter().any(|left| (&left.key, &left.effect) == (&taint.key, &taint.effect))
            };
            let removed = before.taints.iter().filter(|taint| taint.key != CORDONED && !is_left(taint));
            changes.extend(
                removed.map(|taint| ClusterChange { details: vec![taint.to_string()], ..change(ChangeOf::Untainted) }),
            );
        }
        changes
    }
}

fn identity(change: &ClusterChange) -> Identity {
    let ClusterChange { at, kind, namespace, names, what, details, by, .. } = change;
    let of = match what {
        ChangeOf::Written => by.clone(),
        ChangeOf::Tainted | ChangeOf::Untainted => details.first().cloned(),
        ChangeOf::Created
        | ChangeOf::Deleted
        | ChangeOf::Terminating
        | ChangeOf::Held
        | ChangeOf::RolledOut
        | ChangeOf::Cordoned
        | ChangeOf::Uncordoned
        | ChangeOf::Rebooted => None,
    };
    (*at, *kind, namespace.clone(), names.clone(), *what, of)
}

/// Returns the changes, the latest first, except those before a time.
pub fn recent_changes(snapshot: &Snapshot, since: Option<Timestamp>) -> ChangesReport {
    let report = changes(snapshot, since, &BTreeMap::new());
    ChangesReport { changes: grouped(report.changes), ..report }
}

/// Returns each change to each object, in no order; `before` are the nodes as last seen, by UID.
fn changes(snapshot: &Snapshot, since: Option<Timestamp>, before: &BTreeMap<String, NodeSpec>) -> ChangesReport {
    let index = Index::new(snapshot);
    let has_no_time = |rollout: &Rollout| {
        let may_be_later = rollout.not_after.zip(since).is_none_or(|(latest, since)| latest >= since);
        rollout.began_at.is_none() && !rollout.pending && !rollout.keeps_pods && may_be_later
    };
    let is_recent = |change: &ClusterChange| since.is_none_or(|since| change.at >= since);
    let (mut changes, mut rollouts_without_time) = (Vec::new(), Vec::new());
    for daemon_set in index.daemon_sets_of_any_flavor() {
        let rollouts = known_rollouts(&index, daemon_set);
        rollouts_without_time.extend(rollouts.iter().any(has_no_time).then(|| name_of(daemon_set)));
        changes.extend(of_daemon_set(daemon_set, &rollouts));
    }
    for node in &index.nodes {
        let written = snapshot.node_writes.get(&node.metadata.name).map_or(&[][..], Vec::as_slice);
        // There may be many nodes, with many labels.
        changes.extend(of_node(node, written, before.get(&node.metadata.uid)).into_iter().filter(&is_recent));
    }
    changes.extend(removed_nodes(&index));
    changes.extend(rebooted_nodes(&index));
    let is_unmanaged = |daemon_set: &&DaemonSet| managed_fields(&daemon_set.object).is_empty();
    let mut without_managed_fields = snapshot.daemon_sets_of_any_flavor().filter(is_unmanaged).count();
    let daemon_sets = snapshot.daemon_sets_of_any_flavor();
    let namespaces = daemon_sets.map(|daemon_set| daemon_set.metadata.namespace.as_str()).collect();
    for (kind, object) in written_objects(snapshot, &namespaces) {
        changes.extend(of_object(kind, object));
        without_managed_fields += usize::from(object.written.is_none());
    }
    changes.retain(&is_recent);
    let is_unmanaged = |node: &&&Node| !snapshot.node_writes.contains_key(&node.metadata.name);
    ChangesReport {
        now: snapshot.now,
        incomplete: gaps::incomplete_for_changes(snapshot),
        since,
        changes,
        elsewhere: latest_elsewhere(snapshot).filter(is_recent),
        rollouts_without_time,
        nodes_without_managed_fields: index.nodes.iter().filter(is_unmanaged).count(),
        others_without_managed_fields: without_managed_fields,
    }
}

/// Adds to each DaemonSet whose pods fail the changes that may explain it: since shortly before its rollout started or, if that is over,
/// before they failed.
pub fn add_to_failing(report: &mut RolloutStatusReport, snapshot: &Snapshot) {
    let fails =
        |one: &&mut RolloutStatus| one.verdict == Verdict::Blocked || one.problems.iter().any(|cause| !cause.passing);
    let mut failing = report.daemon_sets.iter_mut().filter(fails).peekable();
    if failing.peek().is_none() {
        return;
    }
    let index = Index::new(snapshot);
    for rollout in failing {
        let is_it = |one: &&DaemonSet| {
            one.metadata.is_named(&rollout.namespace, &rollout.name) && one.api_version() == rollout.api_version
        };
        let Some(daemon_set) = snapshot.daemon_sets_of_any_flavor().find(is_it) else { continue };
        let mut began = rollout.revision.as_ref().and_then(|revision| revision.rolled_out_at);
        if matches!(rollout.verdict, Verdict::Degraded | Verdict::Complete) {
            let failed = rollout.problems.iter().filter(|cause| !cause.passing).filter_map(|cause| cause.since);
            began = failed.min().or(began);
        }
        let nodes = rollout.problems.iter().filter(|cause| !cause.passing).flat_map(|cause| &cause.nodes);
        let nodes = nodes.map(String::as_str).collect();
        let failing = rollout.problems.iter().filter(|cause| !cause.passing && cause.code.class() != Class::Node);
        let failing = failing.flat_map(|cause| &cause.nodes).map(String::as_str).collect();
        rollout.recent_changes = around_rollout(&index, daemon_set, began, (&nodes, &failing));
    }
}

fn around_rollout(
    index: &Index<'_>,
    daemon_set: &DaemonSet,
    began: Option<Timestamp>,
    (nodes, failing): (&BTreeSet<&str>, &BTreeSet<&str>),
) -> Vec<ClusterChange> {
    let snapshot = index.snapshot;
    let since = began.unwrap_or(snapshot.now).checked_sub(SHORTLY).ok();
    let mut changes = of_daemon_set(daemon_set, &known_rollouts(index, daemon_set));
    // The rollout itself is already reported.
    changes.retain(|change| change.what == ChangeOf::Written);
    for node in nodes.iter().filter_map(|node| index.node(node)) {
        let written = snapshot.node_writes.get(&node.metadata.name).map_or(&[][..], Vec::as_slice);
        // So are the conditions of nodes, from which these taints follow.
        let is_told = |change: &ClusterChange| {
            change.what == ChangeOf::Tainted && change.details.iter().all(|taint| taint.starts_with(CONDITION_TAINTS))
        };
        // The creation of a node explains nothing, unless pods fail there.
        let was_there = |change: &ClusterChange| {
            change.what == ChangeOf::Created
                && began.is_some_and(|began| change.at < began)
                && !failing.contains(node.metadata.name.as_str())
        };
        let changed = of_node(node, written, None).into_iter();
        changes.extend(changed.filter(|change| !is_told(change) && !was_there(change)));
    }
    changes
        .extend(rebooted_nodes(index).filter(|change| change.names.iter().all(|node| nodes.contains(node.as_str()))));
    let namespace = BTreeSet::from([daemon_set.metadata.namespace.as_str()]);
    changes.extend(written_objects(snapshot, &namespace).flat_map(|(kind, object)| of_object(kind, object)));
    changes.retain(|change| since.is_none_or(|since| change.at >= since));
    let mut changes = grouped(changes);
    changes.truncate(MOST_AROUND_ROLLOUT);
    changes
}

/// Returns the objects that limit, label, admit and change the pods of namespaces.
fn written_objects<'a>(
    snapshot: &'a Snapshot,
    namespaces: &BTreeSet<&str>,
) -> impl Iterator<Item = (ChangedKind, &'a WrittenObject)> {
    let kinds = [
        (Kind::LimitRanges, ChangedKind::LimitRange),
        (Kind::ResourceQuotas, ChangedKind::ResourceQuota),
        (Kind::Namespaces, ChangedKind::Namespace),
        (Kind::ValidatingAdmissionPolicies, ChangedKind::ValidatingAdmissionPolicy),
        (Kind::ValidatingAdmissionPolicyBindings, ChangedKind::ValidatingAdmissionPolicyBinding),
        (Kind::MutatingAdmissionPolicies, ChangedKind::MutatingAdmissionPolicy),
        (Kind::MutatingAdmissionPolicyBindings, ChangedKind::MutatingAdmissionPolicyBinding),
        (Kind::ValidatingWebhookConfigurations, ChangedKind::ValidatingWebhookConfiguration),
        (Kind::MutatingWebhookConfigurations, ChangedKind::MutatingWebhookConfiguration),
    ];
    let all = kinds.into_iter().flat_map(|(kind, changed)| {
        snapshot.written_objects.get(&kind).into_iter().flatten().map(move |object| (changed, object))
    });
    all.filter(move |(kind, object)| {
        let ObjectMeta { namespace, name, .. } = &object.metadata;
        match kind {
            ChangedKind::Namespace => namespaces.contains(name.as_str()),
            ChangedKind::LimitRange | ChangedKind::ResourceQuota => namespaces.contains(namespace.as_str()),
            _ => object.concerns_pods,
        }
    })
}

/// Returns the latest change to a DaemonSet in another namespace. Only what is known about their writers is kept, so a
/// rollout is reported as a template that may have changed. If nothing is known, the creation of one need not be its
/// latest change.
fn latest_elsewhere(snapshot: &Snapshot) -> Option<ClusterChange> {
    let others = snapshot.written_objects.get(&Kind::DaemonSets).into_iter().flatten();
    let others = others.filter(|other| other.written.is_some());
    others.flat_map(|other| of_object(ChangedKind::DaemonSet, other)).max_by_key(|change| change.at)
}

/// Returns the rollouts of a DaemonSet with known times, and the changes to its update strategy.
fn of_daemon_set(daemon_set: &DaemonSet, rollouts: &[Rollout]) -> Vec<ClusterChange> {
    let created = daemon_set.metadata.creation_timestamp.get();
    let change = |at: Timestamp, what: ChangeOf| change(ChangedKind::DaemonSet, &daemon_set.metadata, at, what);
    let is_creation = |at: Timestamp| is_until(at, created, REACTION);
    let held = Hold::in_force(daemon_set).and_then(|hold| {
        let kept = hold.partition.map(|partition| partition.to_string());
        Some(ClusterChange { details: kept.into_iter().collect(), ..change(hold.since?, ChangeOf::Held) })
    });
    let rolled_out = rollouts.iter().filter(|rollout| !rollout.keeps_pods).filter_map(|rollout| {
        // The first one is the creation; anything before that was rolled out by a former DaemonSet.
        let RolloutNumbers { revision, compared_with, .. } = rollout.numbers;
        let is_first = |at: Timestamp| compared_with.is_none() && (revision == Some(1) || is_creation(at));
        let at = rollout.began_at.filter(|at| !is_first(*at) && created.is_none_or(|created| *at >= created))?;
        let (details, by) = (rollout.summary.clone(), rollout.by.clone());
        Some(ClusterChange { rollout: Some(rollout.numbers), details, by, ..change(at, ChangeOf::RolledOut) })
    });
    // A change to the template is a rollout, and reported as such.
    let is_told = |written: &Written| {
        let is_its_rollout = |began: Timestamp| is_soon_after(began, written.at, REACTION);
        is_creation(written.at)
            || (written.has("template") && rollouts.iter().filter_map(|it| it.began_at).any(is_its_rollout))
    };
    // This is not reported, because only the annotation was written, and a hold as such.
    let retried = daemon_set.annotations.get(RETRIED_ANNOTATION).and_then(|at| at.parse::<Timestamp>().ok());
    let own: Vec<Timestamp> = retried.into_iter().chain(held.as_ref().map(|held| held.at)).collect();
    let is_told = |written: &Written| {
        let is_own = written.manager.as_deref() == Some(FIELD_MANAGER);
        is_told(written) || (is_own && own.iter().any(|at| is_soon_after(written.at, *at, REACTION)))
    };
    // No rollout with a time tells of it.
    let is_untold = rollouts.last().is_some_and(|last| last.began_at.is_none());
    let written = Written::all(&daemon_set.object).unwrap_or_default().into_iter();
    let written = written.filter(|written| !is_told(written)).filter_map(|written| {
        let details: Vec<String> =
            told_fields(&written).filter(|name| is_untold || *name != "template").map(str::to_owned).collect();
        let change = ClusterChange { details, by: written.manager, ..change(written.at, ChangeOf::Written) };
        (!change.details.is_empty()).then_some(change)
    });
    let lifetime = creation_and_deletion(ChangedKind::DaemonSet, &daemon_set.metadata);
    lifetime.chain(held).chain(rolled_out).chain(written).collect()
}

/// Returns which of the reported fields of a DaemonSet a field manager owns.
fn told_fields(written: &Written) -> impl Iterator<Item = &'static str> {
    TOLD_FIELDS.into_iter().filter(|(field, _)| written.has(field)).map(|(_, name)| name)
}

fn change(kind: ChangedKind, metadata: &ObjectMeta, at: Timestamp, what: ChangeOf) -> ClusterChange {
    ClusterChange::new(at, kind, (&metadata.namespace, &metadata.name), what)
}

fn of_named_node(name: &str, at: Timestamp, what: ChangeOf) -> ClusterChange {
    ClusterChange::new(at, ChangedKind::Node, ("", name), what)
}

/// Returns the creation of an object, and the request to delete it.
fn creation_and_deletion(kind: ChangedKind, metadata: &ObjectMeta) -> impl Iterator<Item = ClusterChange> {
    let created = metadata.creation_timestamp.get().map(|at| change(kind, metadata, at, ChangeOf::Created));
    let deleted = metadata.deleted_at().map(|at| change(kind, metadata, at, ChangeOf::Terminating));
    created.into_iter().chain(deleted)
}

/// Returns the changes to an existing node. If its state `before` is known, a field manager may only have changed what
/// the node has gained.
fn of_node(node: &Node, written: &[Written], before: Option<&NodeSpec>) -> Vec<ClusterChange> {
    let created = node.metadata.creation_timestamp.get();
    let change = |at: Timestamp, what: ChangeOf| of_named_node(&node.metadata.name, at, what);
    let is_setup = |at: Timestamp| is_until(at, created, SETUP);
    let creation = created.map(|at| change(at, ChangeOf::Created));
    let taints: Vec<(Timestamp, &Taint)> =
        node.spec.taints.iter().filter_map(|taint| Some((taint.time_added.get()?, taint))).collect();
    let is_of_cordon = |taint: &Taint| node.spec.unschedulable && taint.key == CORDONED;
    let cordoned = taints.iter().find(|(_, taint)| is_of_cordon(taint)).map(|(at, _)| *at);
    // The owner of the field has set it, unless by an apply; and has set it before, unless the node was uncordoned in between.
    let mut owners = written.iter().filter(|it| it.has("unschedulable"));
    let owner = owners.next().filter(|it| owners.next().is_none() && !it.applied && Some(it.at) <= cordoned);
    let by = owner.and_then(|owner| owner.manager.clone());
    let cordon = cordoned.filter(|at| !is_setup(*at));
    let cordon = cordon.map(|at| ClusterChange { by, ..change(at, ChangeOf::Cordoned) });
    let tainted = taints.iter().filter(|(at, taint)| !is_setup(*at) && !is_of_cordon(taint));
    let tainted =
        tainted.map(|(at, taint)| ClusterChange { details: vec![taint.to_string()], ..change(*at, ChangeOf::Tainted) });
    // A cordon, or a taint with its own timestamp.
    let is_told = |it: &&Written| {
        let is_at_once = |(at, _): &(Timestamp, &Taint)| it.at.duration_since(*at).abs() <= AT_ONCE;
        let is_cordon = |at: Timestamp| is_soon_after(at, it.at, CORDON_DELAY);
        it.labels.is_empty()
            && (!it.has("taints") || taints.iter().any(is_at_once))
            && (!it.has("unschedulable") || cordoned.is_some_and(is_cordon))
    };
    let fields = written.iter().filter(|it| !is_setup(it.at) && !is_told(it)).map(|it| {
        let mut details = Vec::new();
        if !it.labels.is_empty() {
            details.push(format!("labels {}", it.labels.join(", ")));
        }
        let is_new = |taint: &&Taint| before.is_none_or(|before| !before.taints.contains(taint));
        let gained: Vec<String> = node.spec.taints.iter().filter(is_new).map(Taint::to_string).collect();
        if it.has("taints") && !(gained.is_empty() && before.is_some()) {
            details.push(format!("taints {}", gained.join(", ")));
        }
        let may_be_cordoned = before.is_none_or(|before| node.spec.unschedulable && !before.unschedulable);
        details.extend((it.has("unschedulable") && may_be_cordoned).then(|| "unschedulable".to_owned()));
        ClusterChange { details, by: it.manager.clone(), ..change(it.at, ChangeOf::Written) }
    });
    let fields = fields.filter(|change| !change.details.is_empty());
    creation.into_iter().chain(cordon).chain(tainted).chain(fields).collect()
}

/// Returns the changes to an object that limits or labels a namespace's pods, or to a DaemonSet whose revisions are not read.
fn of_object(kind: ChangedKind, object: &WrittenObject) -> Vec<ClusterChange> {
    let created = object.metadata.creation_timestamp.get();
    let written = object.written.iter().flatten().filter(|it| !is_until(it.at, created, AT_ONCE));
    let fields = written.filter_map(|it| {
        let details: Vec<String> = match kind {
            // Finalizers and the like do not affect pods.
            ChangedKind::Namespace => {
                let labels: Vec<&str> = it.labels.iter().map(String::as_str).filter(|it| *it != NAME_LABEL).collect();
                (!labels.is_empty()).then(|| format!("labels {}", labels.join(", "))).into_iter().collect()
            }
            ChangedKind::DaemonSet => told_fields(it).map(str::to_owned).collect(),
            ChangedKind::ValidatingWebhookConfiguration | ChangedKind::MutatingWebhookConfiguration => it.spec.clone(),
            _ => it.spec.iter().map(|field| format!("spec.{field}")).collect(),
        };
        let change = change(kind, &object.metadata, it.at, ChangeOf::Written);
        (!details.is_empty()).then(|| ClusterChange { details, by: it.manager.clone(), ..change })
    });
    creation_and_deletion(kind, &object.metadata).chain(fields).collect()
}

/// Returns the nodes that were deleted according to an event, unless there is one with the name that is older than the event.
fn removed_nodes(index: &Index<'_>) -> Vec<ClusterChange> {
    // A node that is about to be deleted may still exist.
    let knows_nodes = index.nodes_are_read();
    let mut removed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for event in &index.snapshot.events {
        let name = event.involved_object.name.as_str();
        let is_removal = event.is_removal_of_node() && (knows_nodes || event.reason != ABOUT_TO_BE_DELETED);
        let Some(at) = event.last_seen().filter(|_| is_removal) else { continue };
        let existing = index.node(name).map(|node| node.metadata.creation_timestamp.get());
        if existing.is_none_or(|created| created.is_some_and(|created| created > at)) {
            removed.entry(name).and_modify(|known| *known = at.max(*known)).or_insert(at);
        }
    }
    removed.into_iter().map(|(name, at)| of_named_node(name, at, ChangeOf::Deleted)).collect()
}

/// Returns the nodes whose kubelet has found that they were rebooted (`rebootEvent`, pkg/kubelet/nodestatus/setters.go, release 1.37.2),
/// unless they joined since.
fn rebooted_nodes(index: &Index<'_>) -> impl Iterator<Item = ClusterChange> {
    let rebooted = |event: &Event| event.involved_object.kind == "Node" && event.reason == "Rebooted";
    index.snapshot.events.iter().filter(move |event| rebooted(event)).filter_map(|event| {
        let node = index.node(&event.involved_object.name)?;
        let at =
            event.last_seen().filter(|at| node.metadata.creation_timestamp.get().is_none_or(|joined| joined <= *at))?;
        Some(of_named_node(&node.metadata.name, at, ChangeOf::Rebooted))
    })
}

/// Returns whether a time is the same as another one, or later by at most a duration.
fn is_soon_after(at: Timestamp, other: Timestamp, most: SignedDuration) -> bool {
    (SignedDuration::ZERO..=most).contains(&at.duration_since(other))
}

/// Returns whether a time is at most a duration after the creation of an object, or before it: an object restored from
/// a backup has times from its former existence.
fn is_until(at: Timestamp, created: Option<Timestamp>, most: SignedDuration) -> bool {
    created.is_some_and(|created| at.duration_since(created) <= most)
}

/// Merges the same change to several nodes, and sorts the changes, the latest first.
fn grouped(mut changes: Vec<ClusterChange>) -> Vec<ClusterChange> {
    changes.sort_by(|one, other| {
        let key = |it: &'_ ClusterChange| (it.kind, it.what);
        let order = key(one).cmp(&key(other)).then_with(|| one.namespace.cmp(&other.namespace));
        let order = order.then_with(|| one.details.cmp(&other.details)).then_with(|| one.by.cmp(&other.by));
        order.then_with(|| other.at.cmp(&one.at))
    });
    let mut groups: Vec<ClusterChange> = Vec::new();
    for change in changes {
        match groups.last_mut() {
            Some(group) if is_same(group, &change) => {
                let first = group.first_at.unwrap_or(group.at).min(change.at);
                group.first_at = Some(first).filter(|first| *first < group.at);
                group.names.extend(change.names);
            }
            _ => groups.push(change),
        }
    }
    groups.iter_mut().for_each(|group| group.names.sort_unstable());
    groups.sort_by_key(|group| Reverse((group.at, group.rollout.and_then(|rollout| rollout.revision))));
    groups
}

/// Returns whether a change is the same as that of a group of nodes, shortly before.
fn is_same(group: &ClusterChange, change: &ClusterChange) -> bool {
    let first = group.first_at.unwrap_or(group.at);
    group.kind == ChangedKind::Node
        && (change.kind, change.what, &change.details, &change.by)
            == (group.kind, group.what, &group.details, &group.by)
        && first.duration_since(change.at) <= SAME_CHANGE
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use std::collections::BTreeSet;

    use super::{ChangesReport, FollowedChanges, add_to_failing, around_rollout, recent_changes};
    use crate::facts::index::Index;
    use crate::facts::test_support::{World, at, merge, world};
    use crate::model::controller_revision::ControllerRevision;
    use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
    use crate::model::written::{Written, WrittenObject};
    use crate::report::rollout_status::Verdict;
    use crate::rollout::status::rollout_status;

    fn entry(manager: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "time": at(time), "fieldsV1": fields})
    }

    /// Adds a node that was created at 11:00:00, with these managed fields.
    fn with_node(world: World, name: &str, patch: Value, entries: &[Value]) -> World {
        let mut world = world.node(name, patch);
        let object = json!({"metadata": {"managedFields": entries}});
        world.snapshot.node_writes.insert(name.to_owned(), Written::all(&object).unwrap_or_default());
        world
    }

    /// Describes each change: when, of which object, by whom, and what.
    fn told(world: World, since: &str) -> Vec<String> {
        told_of(&world.finish(), since)
    }

    fn told_of(snapshot: &Snapshot, since: &str) -> Vec<String> {
        lines(recent_changes(snapshot, at(since).parse().ok()))
    }

    fn lines(report: ChangesReport) -> Vec<String> {
        let time = |time: Timestamp| time.strftime("%H:%M:%S").to_string();
        let one = report.changes.iter().map(|change| {
            let first = change.first_at.map(|first| format!("{}..", time(first))).unwrap_or_default();
            let (names, details) = (change.names.join("+"), change.details.join(" or "));
            let by = change.by.as_deref().unwrap_or("?");
            format!("{first}{} {names} {:?} {by}: {details}", time(change.at), change.what)
        });
        one.collect()
    }

    fn labels(key: &str) -> Value {
        json!({"f:metadata": {"f:labels": {(format!("f:{key}")): {}}}})
    }

    #[test]
    fn a_node_that_was_rebooted_since_it_joined_is_told() {
        let rebooted =
            |time: &str| world().node("a", json!({})).event("Node", "a", "Rebooted", "Node a has been rebooted", time);
        assert_eq!(told(rebooted("11:50:00"), "11:30:00"), ["11:50:00 a Rebooted ?: "]);
        assert_eq!(told(rebooted("10:50:00"), "10:30:00").iter().filter(|line| line.contains("Rebooted")).count(), 0);
    }

    #[test]
    fn who_has_written_a_node_is_told_with_what_may_have_been_changed() {
        let both = json!({"f:metadata": {"f:annotations": {"f:a": {}}, "f:labels": {"f:pool": {}}}, "f:spec": {"f:taints": {}}});
        let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}});
        let world = with_node(world(), "a", tainted, &[entry("karpenter", "11:50:00", both)]);
        let world = with_node(world, "b", json!({}), &[entry("kubectl-label", "11:55:00", labels("pool"))]);
        let annotated = json!({"f:metadata": {"f:annotations": {"f:a": {}}}});
        let world = with_node(world, "c", json!({}), &[entry("kubectl-annotate", "11:56:00", annotated)]);
        assert_eq!(
            told(world, "11:30:00"),
            [
                "11:55:00 b Written kubectl-label: labels pool",
                "11:50:00 a Written karpenter: labels pool or taints dedicated=db:NoSchedule",
            ]
        );
    }

    #[test]
    fn who_owns_the_only_field_of_a_cordon_need_not_have_cordoned_the_node_when_it_wrote_last() {
        let cordon = |time: &str| entry("node-agent", time, json!({"f:spec": {"f:unschedulable": {}}}));
        let taint = |time: &str| json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at(time)});
        let cordoned = |taints: Value| json!({"spec": {"unschedulable": true, "taints": taints}});
        // The agent cordoned it at 11:10, and at 11:50 set an annotation that somebody else has overwritten since.
        let world = with_node(world(), "a", cordoned(json!([taint("11:10:00")])), &[cordon("11:50:00")]);
        let world = with_node(world, "b", cordoned(json!([])), &[cordon("11:45:00")]);
        let world = with_node(world, "c", cordoned(json!([taint("11:40:00")])), &[cordon("11:39:00")]);
        assert_eq!(
            told(world, "11:00:30"),
            [
                "11:50:00 a Written node-agent: unschedulable",
                "11:45:00 b Written node-agent: unschedulable",
                "11:40:00 c Cordoned node-agent: ",
                "11:39:00 c Written node-agent: unschedulable",
                "11:10:00 a Cordoned ?: ",
            ]
        );
    }

    #[test]
    fn a_cordon_is_told_once_and_a_taint_with_its_own_time_by_that() {
        let taint = |key: &str, effect: &str, time: &str| json!({"key": key, "effect": effect, "timeAdded": at(time)});
        let controller = |time: &str| {
            let fields = json!({"f:metadata": {"f:annotations": {}}, "f:spec": {"f:podCIDR": {}, "f:taints": {}}});
            entry("kube-controller-manager", time, fields)
        };
        let taints = json!([taint("node.kubernetes.io/unschedulable", "NoSchedule", "11:50:01")]);
        let cordoned = json!({"spec": {"unschedulable": true, "taints": taints}});
        let cordon = entry("kubectl", "11:50:00", json!({"f:spec": {"f:unschedulable": {}}}));
        let world = with_node(world(), "a", cordoned, &[cordon, controller("11:50:01")]);
        // The owner of the list has written it last, but need not have added each of the taints.
        let taints = json!([taint("node.kubernetes.io/unreachable", "NoExecute", "11:52:00")]);
        let world = with_node(world, "b", json!({"spec": {"taints": taints}}), &[controller("11:52:00")]);
        assert_eq!(
            told(world, "11:30:00"),
            ["11:52:00 b Tainted ?: node.kubernetes.io/unreachable:NoExecute", "11:50:01 a Cordoned kubectl: "]
        );
    }

    #[test]
    fn managers_that_the_api_server_has_made_up_are_not_named_and_times_before_the_creation_are_not_told() {
        let taints = json!([{"key": "a", "effect": "NoExecute", "timeAdded": at("10:30:00")}]);
        let world = with_node(
            world(),
            "a",
            json!({"spec": {"taints": taints}}),
            &[
                entry("ancient-changes", "11:50:00", labels("pool")),
                // The first apply of an object without managed fields writes this, whatever it changes.
                entry("before-first-apply", "11:55:00", labels("zone")),
                // A backup was restored.
                entry("kubectl-label", "10:00:00", labels("rack")),
            ],
        );
        let of_nodes: Vec<String> =
            told(world, "09:00:00").into_iter().filter(|line| !line.contains("agent")).collect();
        assert_eq!(of_nodes, ["11:50:00 a Written ?: labels pool", "11:00:00 a Created ?: "]);
    }

    #[test]
    fn a_node_that_was_about_to_be_deleted_is_not_gone_if_nodes_are_not_known() {
        let mut world = world().event("Node", "a", "DeletingNode", "m", "11:40:00").event(
            "Node",
            "b",
            "RemovingNode",
            "m",
            "11:41:00",
        );
        let cause = GapCause::Forbidden("list nodes".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
        assert_eq!(told(world, "11:30:00"), ["11:41:00 b Deleted ?: "]);
    }

    #[test]
    fn nodes_that_came_and_went_are_told_and_what_sets_a_node_up_is_not() {
        let young = json!({"metadata": {"creationTimestamp": at("11:50:00")}});
        let mut world = with_node(world(), "a", young.clone(), &[entry("kubelet", "11:50:20", labels("zone"))])
            .event("Node", "gone", "RemovingNode", "m", "11:40:00")
            // It was recreated.
            .event("Node", "a", "RemovingNode", "m", "11:45:00")
            // It still exists.
            .event("Node", "b", "RemovingNode", "m", "11:46:00")
            .event("Node", "a", "NodeNotReady", "m", "11:55:00");
        world = with_node(world, "b", json!({}), &[]);
        assert_eq!(
            told(world, "11:30:00"),
            ["11:50:00 a Created ?: ", "11:45:00 a Deleted ?: ", "11:40:00 gone Deleted ?: "]
        );
    }

    #[test]
    fn that_a_node_was_created_before_a_rollout_explains_only_what_fails_there() {
        let snapshot = with_node(world(), "a", json!({}), &[]).finish();
        let index = Index::new(&snapshot);
        let told = |began: &str, failing: &[&str]| {
            let (nodes, failing) = (BTreeSet::from(["a"]), failing.iter().copied().collect());
            let began = at(began).parse().ok();
            around_rollout(&index, &snapshot.daemon_sets[0], began, (&nodes, &failing)).len()
        };
        assert_eq!([told("10:59:00", &[]), told("11:05:00", &[]), told("11:05:00", &["a"])], [1, 0, 1]);
    }

    #[test]
    fn around_a_rollout_only_what_may_explain_its_trouble_is_told() {
        let taint = |key: &str, time: &str| json!({"key": key, "effect": "NoSchedule", "timeAdded": at(time)});
        let taints = json!([taint("node.kubernetes.io/unreachable", "11:50:00"), taint("dedicated", "11:51:00")]);
        let tainted = json!({"spec": {"taints": taints}});
        let strategy = entry("kubectl-edit", "11:40:00", json!({"f:spec": {"f:updateStrategy": {}}}));
        let mut world = ["a", "b"].iter().fold(world(), |world, name| world.node(name, tainted.clone()));
        world = world.daemon_set(json!({"metadata": {"managedFields": [strategy]}}));
        let hard = entry("quotas", "11:45:00", json!({"f:spec": {"f:hard": {}}}));
        let quotas = ["default", "other"].map(|namespace| {
            let metadata = json!({"name": "pods", "namespace": namespace, "creationTimestamp": at("11:00:00"), "managedFields": [hard]});
            WrittenObject::from_object(json!({"metadata": metadata})).unwrap()
        });
        world.snapshot.written_objects.insert(Kind::ResourceQuotas, quotas.into());
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let told = |began: &str| {
            let began = at(began).parse().ok();
            let nodes = BTreeSet::from(["a", "gone"]);
            let changes = around_rollout(&index, &snapshot.daemon_sets[0], began, (&nodes, &nodes));
            lines(ChangesReport { changes, ..recent_changes(&snapshot, None) })
        };
        let all = [
            "11:51:00 a Tainted ?: dedicated:NoSchedule",
            "11:45:00 pods Written quotas: spec.hard",
            "11:40:00 agent Written kubectl-edit: update strategy",
        ];
        assert_eq!(told("11:30:00"), all);
        assert_eq!(told("11:58:00"), all[..2]);
    }

    #[test]
    fn policies_and_webhooks_for_pods_may_explain_the_trouble_of_a_rollout() {
        let object = |name: &str, manager: &str, fields: Value, rest: Value| {
            let managed = entry(manager, "11:45:00", fields);
            let mut object =
                json!({"metadata": {"name": name, "creationTimestamp": at("11:00:00"), "managedFields": [managed]}});
            merge(&mut object, rest);
            WrittenObject::from_object(object).unwrap()
        };
        let rules = |resource: &str| json!([{"apiGroups": [""], "resources": [resource]}]);
        let policy = |resource: &str| json!({"spec": {"matchConstraints": {"resourceRules": rules(resource)}}});
        let webhooks = |resource: &str| json!({"webhooks": [{"rules": rules("nodes")}, {"rules": rules(resource)}]});
        let (of_spec, of_webhooks) = (|| json!({"f:spec": {"f:validations": {}}}), || json!({"f:webhooks": {}}));
        let mut world = world();
        for (kind, objects) in [
            (
                Kind::ValidatingAdmissionPolicies,
                vec![
                    object("pods", "kubectl", of_spec(), policy("pods")),
                    object("nodes", "kubectl", of_spec(), policy("nodes")),
                ],
            ),
            (
                Kind::MutatingWebhookConfigurations,
                vec![
                    object("all", "helm", of_webhooks(), webhooks("*/*")),
                    object("none", "helm", of_webhooks(), webhooks("services")),
                ],
            ),
            (
                Kind::ValidatingAdmissionPolicyBindings,
                vec![object("bound", "kubectl", json!({"f:spec": {"f:policyName": {}}}), json!({}))],
            ),
        ] {
            world.snapshot.written_objects.insert(kind, objects);
        }
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let none = BTreeSet::new();
        let changes = around_rollout(&index, &snapshot.daemon_sets[0], at("11:50:00").parse().ok(), (&none, &none));
        assert_eq!(
            lines(ChangesReport { changes, ..recent_changes(&snapshot, None) }),
            [
                "11:45:00 pods Written kubectl: spec.validations",
                "11:45:00 bound Written kubectl: spec.policyName",
                "11:45:00 all Written helm: webhooks",
            ]
        );
    }

    /// The revision has outlived its DaemonSet, so that its own time may be that of its adoption.
    #[test]
    fn a_rollout_without_a_time_is_told_by_who_may_have_changed_the_template() {
        let managed = json!([entry("helm", "11:40:00", json!({"f:spec": {"f:template": {}}}))]);
        let metadata = json!({"creationTimestamp": at("11:30:00"), "managedFields": managed});
        let mut world = world().daemon_set(json!({ "metadata": metadata }));
        let mut adopted = world.snapshot.controller_revisions[0].object.clone();
        adopted["metadata"]["managedFields"] =
            json!([entry("kube-controller-manager", "11:55:00", json!({"f:revision": {}}))]);
        world.snapshot.controller_revisions[0] = ControllerRevision::from_object(adopted).unwrap();
        assert!(told(world, "11:35:00").contains(&"11:40:00 agent Written helm: template".to_owned()));
    }

    /// The rollout is over, so that it does not matter when it began.
    #[test]
    fn what_changed_before_pods_of_a_finished_rollout_failed_is_told() {
        let told = |written: &str| {
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let world = with_node(world(), "a", json!({}), &[entry("nfd", written, labels("pool"))]);
            let world = world.unready_pod("agent-a", "a", crashes, json!({})).node("b", json!({})).pod(
                "agent-b",
                "b",
                json!({}),
            );
            let mut snapshot = world.finish();
            snapshot.now += jiff::SignedDuration::from_hours(48);
            let mut report = rollout_status(&snapshot, None);
            assert_eq!(report.daemon_sets[0].verdict, Verdict::Degraded);
            add_to_failing(&mut report, &snapshot);
            let changes = report.daemon_sets.remove(0).recent_changes;
            lines(ChangesReport { changes, ..recent_changes(&snapshot, None) })
        };
        // It has not been ready since 11:50:00.
        assert_eq!(told("11:40:00"), ["11:40:00 a Written nfd: labels pool"]);
        assert_eq!(told("11:30:00"), [""; 0]);
    }

    #[test]
    fn what_is_followed_is_told_once() {
        let mut followed = FollowedChanges::default();
        let mut look = |nodes: &[(&str, &str, &str)], now: &str| {
            let world = nodes.iter().fold(world(), |world, (name, manager, time)| {
                with_node(world, name, json!({}), &[entry(manager, time, labels("pool"))])
            });
            let snapshot = Snapshot { now: at(now).parse().unwrap(), ..world.finish() };
            lines(followed.update(&snapshot, at("11:30:00").parse().ok()))
        };
        let first = [("a", "nfd", "11:50:00"), ("b", "nfd", "11:20:00")];
        assert_eq!(look(&first, "12:00:00"), ["11:50:00 a Written nfd: labels pool"]);
        assert!(look(&first, "12:00:01").is_empty());
        // The same manager has written it again, and another one somewhat earlier.
        let again = [("a", "nfd", "12:00:02"), ("b", "other", "11:52:00"), ("c", "nfd", "12:00:03")];
        let told = ["12:00:02..12:00:03 a+c Written nfd: labels pool", "11:52:00 b Written other: labels pool"];
        assert_eq!(look(&again, "12:00:04"), told);
        // While requests fail, time stands still: changes in that time are reported, and none is reported again.
        assert!(look(&[], "12:00:05").is_empty());
        assert!(look(&again, "12:40:00").is_empty());
        // An event older than the last look may have been reported.
        assert!(look(&[("d", "nfd", "12:20:00")], "12:40:01").is_empty());
    }

    #[test]
    fn what_is_removed_from_nodes_is_told_to_those_who_watch() {
        let mut followed = FollowedChanges::default();
        let mut look = |spec: Value, now: &str| {
            let fields = json!({"f:spec": {"f:taints": {}, "f:unschedulable": {}}});
            let world = with_node(world(), "a", json!({ "spec": spec }), &[entry("kubectl", now, fields)]);
            let snapshot = Snapshot { now: at(now).parse().unwrap(), ..world.finish() };
            lines(followed.update(&snapshot, at("11:59:00").parse().ok()))
        };
        let team = json!({"key": "team", "value": "ml", "effect": "NoSchedule"});
        let gpu = json!({"key": "gpu", "effect": "NoSchedule"});
        let first = look(json!({"unschedulable": true, "taints": [team, gpu]}), "12:00:00");
        assert_eq!(first, ["12:00:00 a Written kubectl: taints team=ml:NoSchedule, gpu:NoSchedule or unschedulable"]);
        // The writer is unknown: nobody owns what was removed.
        let told = ["12:00:01 a Uncordoned ?: ", "12:00:01 a Untainted ?: team=ml:NoSchedule"];
        assert_eq!(look(json!({"taints": [gpu]}), "12:00:01"), told);
        assert!(look(json!({"taints": [gpu]}), "12:00:02").is_empty());
        // The node's writer has added what is new.
        let added = look(json!({"unschedulable": true, "taints": [gpu, team]}), "12:00:03");
        assert_eq!(added, ["12:00:03 a Written kubectl: taints team=ml:NoSchedule or unschedulable"]);
    }

    #[test]
    fn without_events_or_managed_fields_it_is_said_what_is_not_known() {
        let mut world = world().node("bare", json!({}));
        let cause = GapCause::Forbidden("list events".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::Events, namespace: Some("default".to_owned()), cause });
        let mut snapshot = world.finish();
        snapshot.daemon_sets.clear();
        let report = recent_changes(&snapshot, None);
        assert_eq!((report.nodes_without_managed_fields, report.others_without_managed_fields), (1, 0));
        assert!(report.incomplete[0].message.ends_with("which nodes were deleted is not known"));
    }

    #[test]
    fn quotas_and_labels_of_namespaces_with_daemon_sets_are_told() {
        let mut world = world();
        let object = |namespace: Option<&str>, name: &str, entries: &[Value]| {
            let metadata = json!({"name": name, "namespace": namespace, "creationTimestamp": at("11:00:00"), "managedFields": entries});
            WrittenObject::from_object(json!({"metadata": metadata})).unwrap()
        };
        let hard = entry("kubectl-edit", "11:50:00", json!({"f:spec": {"f:hard": {"f:pods": {}}}}));
        let quotas = ["default", "other"].map(|namespace| object(Some(namespace), "pods", std::slice::from_ref(&hard)));
        world.snapshot.written_objects.insert(Kind::ResourceQuotas, quotas.into());
        let labeled = entry("kubectl-label", "11:55:00", labels("pod-security.kubernetes.io/enforce"));
        // The API server set this label when the namespace was created.
        let created = entry("helm", "11:56:00", labels("kubernetes.io/metadata.name"));
        let entries = [labeled, created];
        let mut namespaces = ["default", "other"].map(|name| object(None, name, &entries));
        namespaces[0].metadata.deletion_timestamp = serde_json::from_value(json!(at("11:57:00"))).unwrap();
        let elsewhere = [("cni", "11:40:00"), ("csi", "11:45:00")].map(|(name, time)| {
            let fields = json!({"f:spec": {"f:template": {}, "f:selector": {}}});
            object(Some("other"), name, &[entry("helm", time, fields)])
        });
        // When it was created is not when it was last written, which is unknown.
        let created = json!({"metadata": {"name": "new", "namespace": "other", "creationTimestamp": at("11:55:00")}});
        let elsewhere = elsewhere.into_iter().chain(WrittenObject::from_object(created));
        world.snapshot.written_objects.insert(Kind::DaemonSets, elsewhere.collect());
        world.snapshot.written_objects.insert(Kind::Namespaces, namespaces.into());
        world.snapshot.written_objects.insert(Kind::LimitRanges, vec![object(Some("default"), "bare", &[])]);
        let mut snapshot = world.finish();
        assert_eq!(
            told_of(&snapshot, "11:30:00"),
            [
                "11:57:00 default Terminating ?: ",
                "11:55:00 default Written kubectl-label: labels pod-security.kubernetes.io/enforce",
                "11:50:00 pods Written kubectl-edit: spec.hard",
            ]
        );
        let elsewhere = |since: &str| recent_changes(&snapshot, at(since).parse().ok()).elsewhere;
        let latest = elsewhere("11:30:00").unwrap();
        assert_eq!((latest.names, latest.details), (vec!["csi".to_owned()], vec!["template".to_owned()]));
        assert_eq!(elsewhere("11:50:00"), None);
        // The DaemonSet and the LimitRange.
        assert_eq!(recent_changes(&snapshot, None).others_without_managed_fields, 2);
        snapshot.written_objects.clear();
        assert_eq!(recent_changes(&snapshot, None).others_without_managed_fields, 1);
    }

    #[test]
    fn a_hold_is_told_while_it_is_in_force_and_its_own_write_is_not_told_again() {
        let held = |strategy: &str, partition: Option<&str>| {
            let annotations = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
                "kubectl-ds/held-since": at("11:40:00"), "kubectl-ds/partition": partition});
            let written = entry("kubectl-ds", "11:40:01", json!({"f:spec": {"f:updateStrategy": {}}}));
            let metadata = json!({"annotations": annotations, "managedFields": [written]});
            let patch = json!({"metadata": metadata, "spec": {"updateStrategy": {"type": strategy}}});
            told(world().daemon_set(patch), "11:30:00")
        };
        assert_eq!(held("OnDelete", None), ["11:40:00 agent Held ?: "]);
        assert_eq!(held("OnDelete", Some("75%")), ["11:40:00 agent Held ?: 75%"]);
        assert_eq!(held("RollingUpdate", None), ["11:40:01 agent Written kubectl-ds: update strategy"]);
    }

    #[test]
    fn the_same_change_of_several_nodes_is_one_if_they_are_near_in_time() {
        let nodes = [("a", "11:50:00"), ("b", "11:49:30"), ("c", "11:49:10"), ("d", "11:45:00")];
        let world = nodes.iter().fold(world(), |world, (name, time)| {
            with_node(world, name, json!({}), &[entry("nfd", time, labels("cpu"))])
        });
        assert_eq!(
            told(world, "11:30:00"),
            ["11:49:10..11:50:00 a+b+c Written nfd: labels cpu", "11:45:00 d Written nfd: labels cpu"]
        );
    }

    #[test]
    fn a_rollout_explains_a_change_of_the_template_and_only_other_fields_are_told_beside_it() {
        let fields = |fields: &[&str]| {
            let set: serde_json::Map<String, Value> = fields.iter().map(|it| (format!("f:{it}"), json!({}))).collect();
            json!({"f:spec": set})
        };
        let changed = |entries: &[Value]| {
            let mut world = world()
                .template(json!({"containers": [{"name": "agent", "image": "agent:2"}]}))
                .daemon_set(json!({"metadata": {"managedFields": entries}}));
            world.snapshot.controller_revisions.clear();
            for (tag, number, time) in [("1", 1, "11:00:00"), ("2", 2, "11:50:01")] {
                world = world.revision_of_image(tag, number, &format!("agent:{tag}"));
                let revision = world.snapshot.controller_revisions.last_mut().unwrap();
                let mut object = revision.object.clone();
                object["metadata"]["creationTimestamp"] = json!(at(time));
                *revision = ControllerRevision::from_object(object).unwrap();
            }
            told(world, "11:30:00")
        };
        let helm = |time: &str| entry("helm", time, fields(&["template", "updateStrategy"]));
        let rolled_out = "11:50:01 agent RolledOut helm: image agent 1 → 2";
        assert_eq!(changed(&[helm("11:50:00")]), [rolled_out]);
        // Its last change is not to the template, and it is not recorded whether it changed that earlier.
        assert_eq!(
            changed(&[helm("11:55:00")]),
            ["11:55:00 agent Written helm: update strategy", "11:50:01 agent RolledOut ?: image agent 1 → 2"]
        );
        let patch = entry("kubectl-patch", "11:40:00", fields(&["updateStrategy"]));
        assert_eq!(
            changed(&[helm("11:50:00"), patch]),
            [rolled_out, "11:40:00 agent Written kubectl-patch: update strategy"]
        );
    }
}
