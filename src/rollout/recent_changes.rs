//! What has changed lately in what DaemonSets depend on: templates and strategies, taints, labels, cordons, and the nodes
//! themselves.
//!
//! The API keeps few times: those of revisions, of the creation of objects, of taints that a controller has added, of events,
//! and for each field manager of an object that of its last change. Nothing else is told.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::timeline::{REACTION, known_rollouts};
use crate::coverage::gaps;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::REMOVAL_EVENTS;
use crate::model::metadata::ObjectMeta;
use crate::model::node::{Node, Taint};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::written::{Written, WrittenObject};
use crate::report::recent_changes::{ChangeOf, ChangedKind, ChangesReport, ClusterChange};
use crate::report::timeline::Rollout;

/// How long after its creation an object is still being set up: what is written then is no change.
const SETUP: SignedDuration = SignedDuration::from_secs(30);

/// How far apart the same change of two nodes may be at most to be told as one.
const SAME_CHANGE: SignedDuration = SignedDuration::from_secs(30);

/// How far apart two times may be that one request has written.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(2);

/// How long after a cordon the node controller adds its taint at most.
const CORDON_TAINT_DELAY: SignedDuration = SignedDuration::from_secs(10);

/// The taint that the node controller adds to a node that is cordoned.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Returns what has changed, the latest first, without what changed before a time.
pub fn recent_changes(snapshot: &Snapshot, since: Option<Timestamp>) -> ChangesReport {
    let index = Index::new(snapshot);
    let has_no_time = |rollout: &&Rollout| {
        let may_be_later = rollout.not_after.zip(since).is_none_or(|(latest, since)| latest >= since);
        rollout.began_at.is_none() && !rollout.pending && !rollout.keeps_pods && may_be_later
    };
    let (mut changes, mut rollouts_without_time): (Vec<ClusterChange>, usize) = (Vec::new(), 0);
    for daemon_set in index.daemon_sets_of_any_flavor() {
        let rollouts = known_rollouts(&index, daemon_set);
        rollouts_without_time += rollouts.iter().filter(has_no_time).count();
        changes.extend(of_daemon_set(daemon_set, &rollouts));
    }
    for node in &index.nodes {
        let written = snapshot.node_writes.get(&node.metadata.name).map_or(&[][..], Vec::as_slice);
        changes.extend(of_node(node, written));
    }
    changes.extend(removed_nodes(&index));
    let daemon_sets = snapshot.daemon_sets_of_any_flavor();
    let namespaces: BTreeSet<&str> = daemon_sets.map(|daemon_set| daemon_set.metadata.namespace.as_str()).collect();
    for (kind, objects) in &snapshot.written_objects {
        let kind = match kind {
            Kind::LimitRanges => ChangedKind::LimitRange,
            Kind::ResourceQuotas => ChangedKind::ResourceQuota,
            _ => ChangedKind::Namespace,
        };
        let has_daemon_sets = |object: &&WrittenObject| {
            let ObjectMeta { namespace, name, .. } = &object.metadata;
            namespaces.contains(if kind == ChangedKind::Namespace { name } else { namespace }.as_str())
        };
        changes.extend(objects.iter().filter(has_daemon_sets).flat_map(|object| of_object(kind, object)));
    }
    changes.retain(|change| since.is_none_or(|since| change.at >= since));
    let is_unmanaged = |node: &&&Node| !snapshot.node_writes.contains_key(&node.metadata.name);
    ChangesReport {
        now: snapshot.now,
        incomplete: gaps::incomplete_for_changes(snapshot),
        since,
        changes: grouped(changes),
        rollouts_without_time,
        nodes_without_managed_fields: index.nodes.iter().filter(is_unmanaged).count(),
    }
}

/// Returns the rollouts of a DaemonSet whose time is known, and the changes of its update strategy.
fn of_daemon_set(daemon_set: &DaemonSet, rollouts: &[Rollout]) -> Vec<ClusterChange> {
    let created = daemon_set.metadata.creation_timestamp.get();
    let change = |at: Timestamp, what: ChangeOf, details: Vec<String>, by: Option<String>| ClusterChange {
        at,
        first_at: None,
        kind: ChangedKind::DaemonSet,
        namespace: Some(daemon_set.metadata.namespace.clone()),
        names: vec![daemon_set.metadata.name.clone()],
        what,
        details,
        by,
    };
    let is_creation = |at: Timestamp| created.is_some_and(|created| is_soon_after(at, created, REACTION));
    let creation = created.map(|at| change(at, ChangeOf::Created, Vec::new(), None));
    let rolled_out = rollouts.iter().filter(|rollout| !rollout.keeps_pods).filter_map(|rollout| {
        let at = rollout.began_at.filter(|at| !is_creation(*at))?;
        Some(change(at, ChangeOf::RolledOut, rollout.summary.clone(), rollout.by.clone()))
    });
    // A change of the template is a rollout, which is told as such.
    let is_told = |written: &Written| {
        let is_its_rollout = |began: Timestamp| is_soon_after(began, written.at, REACTION);
        is_creation(written.at)
            || (written.has("template") && rollouts.iter().filter_map(|it| it.began_at).any(is_its_rollout))
    };
    let is_pending = rollouts.iter().any(|rollout| rollout.pending);
    let written =
        Written::all(&daemon_set.object).into_iter().filter(|written| !is_told(written)).filter_map(|written| {
            let mut details: Vec<String> = [
                ("template", "template", is_pending),
                ("updateStrategy", "update strategy", true),
                ("minReadySeconds", "minReadySeconds", true),
            ]
            .into_iter()
            .filter(|(field, _, counts)| *counts && written.has(field))
            .map(|(_, name, _)| name.to_owned())
            .collect();
            let is_of_interest = !details.is_empty();
            let has_others = written.has_others || !written.labels.is_empty() || written.spec.len() > details.len();
            details.extend(has_others.then(|| OTHERS.to_owned()));
            is_of_interest.then(|| change(written.at, ChangeOf::OneOf, details, Some(written.manager)))
        });
    creation.into_iter().chain(rolled_out).chain(written).collect()
}

/// How fields are called that DaemonSets do not depend on.
const OTHERS: &str = "other fields";

/// Returns the changes of a node that exists.
fn of_node(node: &Node, written: &[Written]) -> Vec<ClusterChange> {
    let created = node.metadata.creation_timestamp.get();
    let change = |at: Timestamp, what: ChangeOf, details: Vec<String>, by: Option<&str>| ClusterChange {
        at,
        first_at: None,
        kind: ChangedKind::Node,
        namespace: None,
        names: vec![node.metadata.name.clone()],
        what,
        details,
        by: by.map(str::to_owned),
    };
    let is_setup = |at: Timestamp| created.is_some_and(|created| is_soon_after(at, created, SETUP));
    let creation = created.map(|at| change(at, ChangeOf::Created, Vec::new(), None));
    let is_cordon = |written: &Written| node.spec.unschedulable && is_only(written, "unschedulable");
    let cordoned: Vec<Timestamp> = written.iter().filter(|it| is_cordon(it)).map(|it| it.at).collect();
    let follows_cordon = |taint: &Taint, at: Timestamp| {
        taint.key == CORDON_TAINT && cordoned.iter().any(|it| is_soon_after(at, *it, CORDON_TAINT_DELAY))
    };
    let added: Vec<(Timestamp, &Taint)> =
        node.spec.taints.iter().filter_map(|taint| Some((taint.time_added.get()?, taint))).collect();
    let is_at_once = |one: Timestamp, other: Timestamp| one.duration_since(other).abs() <= AT_ONCE;
    let tainted =
        added.iter().filter(|(at, taint)| !is_setup(*at) && !follows_cordon(taint, *at)).map(|(at, taint)| {
            let by = written.iter().find(|it| it.has("taints") && is_at_once(it.at, *at));
            change(*at, ChangeOf::TaintAdded, vec![taint.to_string()], by.map(|it| it.manager.as_str()))
        });
    // Who has added a taint at that time has explained it.
    let is_told =
        |it: &&Written| is_setup(it.at) || (it.has("taints") && added.iter().any(|(at, _)| is_at_once(it.at, *at)));
    let fields = written.iter().filter(|it| !is_told(it)).filter_map(|it| {
        if is_cordon(it) {
            return Some(change(it.at, ChangeOf::Cordoned, Vec::new(), Some(&it.manager)));
        }
        let mut details = Vec::new();
        if !it.labels.is_empty() {
            details.push(format!("labels {}", it.labels.join(", ")));
        }
        if it.has("taints") {
            let taints: Vec<String> = node.spec.taints.iter().map(Taint::to_string).collect();
            details.push(format!("taints {}", taints.join(", ")));
        }
        details.extend(it.has("unschedulable").then(|| "unschedulable".to_owned()));
        let is_of_interest = !details.is_empty();
        let is_known = |field: &String| field == "taints" || field == "unschedulable";
        let has_others = it.has_others || !it.spec.iter().all(is_known);
        details.extend(has_others.then(|| OTHERS.to_owned()));
        is_of_interest.then(|| change(it.at, ChangeOf::OneOf, details, Some(&it.manager)))
    });
    creation.into_iter().chain(tainted).chain(fields).collect()
}

/// Returns the changes of an object that limits or labels the pods of a namespace.
fn of_object(kind: ChangedKind, object: &WrittenObject) -> Vec<ClusterChange> {
    let ObjectMeta { name, namespace, creation_timestamp, .. } = &object.metadata;
    let created = creation_timestamp.get();
    let change = |at: Timestamp, what: ChangeOf, details: Vec<String>, by: Option<&str>| ClusterChange {
        at,
        first_at: None,
        kind,
        namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
        names: vec![name.clone()],
        what,
        details,
        by: by.map(str::to_owned),
    };
    let is_setup = |at: Timestamp| created.is_some_and(|created| is_soon_after(at, created, AT_ONCE));
    let creation = created.map(|at| change(at, ChangeOf::Created, Vec::new(), None));
    let fields = object.written.iter().filter(|it| !is_setup(it.at)).filter_map(|it| {
        let mut details: Vec<String> = it.spec.iter().map(|field| format!("spec.{field}")).collect();
        if kind == ChangedKind::Namespace {
            // Finalizers and the like do not matter to pods.
            details.clear();
            details.extend((!it.labels.is_empty()).then(|| format!("labels {}", it.labels.join(", "))));
        }
        let is_of_interest = !details.is_empty();
        let has_other_labels = kind != ChangedKind::Namespace && !it.labels.is_empty();
        let has_other_spec = kind == ChangedKind::Namespace && !it.spec.is_empty();
        details.extend((it.has_others || has_other_labels || has_other_spec).then(|| OTHERS.to_owned()));
        is_of_interest.then(|| change(it.at, ChangeOf::OneOf, details, Some(&it.manager)))
    });
    creation.into_iter().chain(fields).collect()
}

/// Returns whether a field of the spec is all that a manager has set.
fn is_only(written: &Written, field: &str) -> bool {
    written.labels.is_empty() && !written.has_others && matches!(written.spec.as_slice(), [only] if only == field)
}

/// Returns the nodes that an event says are gone, unless there is one of the name that is older than the event.
fn removed_nodes(index: &Index<'_>) -> Vec<ClusterChange> {
    let mut removed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for event in &index.snapshot.events {
        let name = event.involved_object.name.as_str();
        let is_removal = event.involved_object.kind == "Node" && REMOVAL_EVENTS.contains(&event.reason.as_str());
        let Some(at) = event.last_seen().filter(|_| is_removal) else { continue };
        let existing = index.node(name).map(|node| node.metadata.creation_timestamp.get());
        if existing.is_none_or(|created| created.is_some_and(|created| created > at)) {
            removed.entry(name).and_modify(|known| *known = at.max(*known)).or_insert(at);
        }
    }
    let change = |(name, at): (&str, Timestamp)| ClusterChange {
        at,
        first_at: None,
        kind: ChangedKind::Node,
        namespace: None,
        names: vec![name.to_owned()],
        what: ChangeOf::Deleted,
        details: Vec::new(),
        by: None,
    };
    removed.into_iter().map(change).collect()
}

/// Returns whether a time is another one, or at most so much later.
fn is_soon_after(at: Timestamp, other: Timestamp, most: SignedDuration) -> bool {
    (SignedDuration::ZERO..=most).contains(&at.duration_since(other))
}

/// Joins the same change of several nodes, and sorts the changes, the latest first.
fn grouped(mut changes: Vec<ClusterChange>) -> Vec<ClusterChange> {
    let key = |change: &ClusterChange| {
        let ClusterChange { kind, namespace, what, details, by, .. } = change;
        (*kind, namespace.clone(), *what, details.clone(), by.clone())
    };
    changes.sort_by_cached_key(|change| (key(change), Reverse(change.at)));
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
    groups.sort_by_key(|group| Reverse(group.at));
    groups
}

/// Returns whether a change is that of the nodes of a group, shortly before.
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

    use super::recent_changes;
    use crate::facts::test_support::{World, at, world};
    use crate::model::controller_revision::ControllerRevision;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::model::written::{Written, WrittenObject};

    fn entry(manager: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "time": at(time), "fieldsV1": fields})
    }

    /// Adds a node that was created at 11:00:00, with what its managed fields keep.
    fn with_node(world: World, name: &str, patch: Value, entries: &[Value]) -> World {
        let mut world = world.node(name, patch);
        let object = json!({"metadata": {"managedFields": entries}});
        world.snapshot.node_writes.insert(name.to_owned(), Written::all(&object));
        world
    }

    /// Says of each change when it was, of what, by whom, and what it was.
    fn told(world: World, since: &str) -> Vec<String> {
        let time = |time: Timestamp| time.strftime("%H:%M:%S").to_string();
        let report = recent_changes(&world.finish(), at(since).parse().ok());
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
    fn of_several_fields_of_a_manager_any_may_have_changed() {
        let both = json!({"f:metadata": {"f:annotations": {"f:a": {}}, "f:labels": {"f:pool": {}}}, "f:spec": {"f:taints": {}}});
        let tainted = json!({"spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}});
        let world = with_node(world(), "a", tainted, &[entry("karpenter", "11:50:00", both)]);
        let world = with_node(world, "b", json!({}), &[entry("kubectl-label", "11:55:00", labels("pool"))]);
        let annotated = json!({"f:metadata": {"f:annotations": {"f:a": {}}}});
        let world = with_node(world, "c", json!({}), &[entry("kubectl-annotate", "11:56:00", annotated)]);
        assert_eq!(
            told(world, "11:30:00"),
            [
                "11:55:00 b OneOf kubectl-label: labels pool",
                "11:50:00 a OneOf karpenter: labels pool or taints dedicated=db:NoSchedule or other fields",
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
        let taints = json!([taint("node.kubernetes.io/unreachable", "NoExecute", "11:52:00")]);
        let world = with_node(world, "b", json!({"spec": {"taints": taints}}), &[controller("11:52:00")]);
        assert_eq!(
            told(world, "11:30:00"),
            [
                "11:52:00 b TaintAdded kube-controller-manager: node.kubernetes.io/unreachable:NoExecute",
                "11:50:00 a Cordoned kubectl: ",
            ]
        );
    }

    #[test]
    fn nodes_that_came_and_went_are_told_and_what_sets_a_node_up_is_not() {
        let young = json!({"metadata": {"creationTimestamp": at("11:50:00")}});
        let mut world = with_node(world(), "a", young.clone(), &[entry("kubelet", "11:50:20", labels("zone"))])
            .event("Node", "gone", "RemovingNode", "m", "11:40:00")
            // It was created again.
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
    fn without_events_or_managed_fields_it_is_said_what_is_not_known() {
        let mut world = world().node("bare", json!({}));
        let cause = GapCause::Forbidden("list events".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::Events, namespace: Some("default".to_owned()), cause });
        let mut snapshot = world.finish();
        snapshot.daemon_sets.clear();
        let report = recent_changes(&snapshot, None);
        assert_eq!(report.nodes_without_managed_fields, 1);
        assert!(report.incomplete[0].message.ends_with("which nodes were deleted is not known"));
    }

    #[test]
    fn quotas_and_labels_of_namespaces_with_daemon_sets_are_told() {
        let mut world = world();
        let object = |namespace: Option<&str>, name: &str, entries: &[Value]| {
            let metadata = json!({"name": name, "namespace": namespace, "creationTimestamp": at("11:00:00"), "managedFields": entries});
            WrittenObject::from_object(&json!({"metadata": metadata})).unwrap()
        };
        let hard = entry("kubectl-edit", "11:50:00", json!({"f:spec": {"f:hard": {"f:pods": {}}}}));
        let quotas = ["default", "other"].map(|namespace| object(Some(namespace), "pods", std::slice::from_ref(&hard)));
        world.snapshot.written_objects.insert(Kind::ResourceQuotas, quotas.into());
        let labeled = entry("kubectl-label", "11:55:00", labels("pod-security.kubernetes.io/enforce"));
        let namespaces = ["default", "other"].map(|name| object(None, name, std::slice::from_ref(&labeled)));
        world.snapshot.written_objects.insert(Kind::Namespaces, namespaces.into());
        assert_eq!(
            told(world, "11:30:00"),
            [
                "11:55:00 default OneOf kubectl-label: labels pod-security.kubernetes.io/enforce",
                "11:50:00 pods OneOf kubectl-edit: spec.hard",
            ]
        );
    }

    #[test]
    fn the_same_change_of_several_nodes_is_one_if_they_are_near_in_time() {
        let nodes = [("a", "11:50:00"), ("b", "11:49:30"), ("c", "11:49:10"), ("d", "11:45:00")];
        let world = nodes.iter().fold(world(), |world, (name, time)| {
            with_node(world, name, json!({}), &[entry("nfd", time, labels("cpu"))])
        });
        assert_eq!(
            told(world, "11:30:00"),
            ["11:49:10..11:50:00 a+b+c OneOf nfd: labels cpu", "11:45:00 d OneOf nfd: labels cpu"]
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
        // What it has changed last is not the template, and whether it was the one that did that before is not kept.
        assert_eq!(
            changed(&[helm("11:55:00")]),
            [
                "11:55:00 agent OneOf helm: update strategy or other fields",
                "11:50:01 agent RolledOut ?: image agent 1 → 2"
            ]
        );
        let patch = entry("kubectl-patch", "11:40:00", fields(&["updateStrategy"]));
        assert_eq!(
            changed(&[helm("11:50:00"), patch]),
            [rolled_out, "11:40:00 agent OneOf kubectl-patch: update strategy"]
        );
    }
}
