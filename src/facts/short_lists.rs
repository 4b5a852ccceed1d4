//! Lists that lack objects although the API server, or a dump, does not say so: the status of a DaemonSet counts more.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use super::{Facts, GIVEN_UP, NodePods};
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::int_or_percent::int;
use crate::model::metadata::OwnerReference;
use crate::model::pod::Pod;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::age::seconds_between;
use crate::scheduling::rolling_update::limits;

/// Returns a gap for each list of nodes, pods and revisions in which objects are missing that a current status counts, and in which
/// everything seems to be well: without them, a rollout would be complete, or only the controller could be at fault.
///
/// Lists are read at different moments, and the controller takes a moment to update a status. So of a live cluster, only what is
/// returned again after a pause is missing.
pub fn short_lists(snapshot: &Snapshot) -> Vec<Gap> {
    if snapshot.nodes_limited {
        return Vec::new();
    }
    let index = Index::new(snapshot);
    let mut gaps: Vec<Gap> = Vec::new();
    for daemon_set in snapshot.daemon_sets.iter().filter(|it| it.is_observed() && !it.metadata.is_terminating()) {
        if !counts_more_than_pods(&index, daemon_set) && !lacks_revision(&index, daemon_set) {
            continue;
        }
        // Nobody concludes from them that all is well, and a dump of what fails is more than nothing.
        let fails = |pod: &Pod| !pod.is_ready() || pod.metadata.is_terminating();
        let is_shown = |node: &str| index.node(node).is_some() || !index.nodes_are_read();
        if index.pods_of(daemon_set).any(|(node, pod)| is_shown(node) && fails(pod)) {
            continue;
        }
        let facts = Facts::new(&index, daemon_set);
        // The status of a controller that is down is old.
        if facts.controller_silent_since().is_some() {
            continue;
        }
        for (kind, status) in missing(&facts) {
            let namespace = (kind != Kind::Nodes).then(|| daemon_set.metadata.namespace.clone());
            if gaps.iter().all(|gap| (gap.kind, &gap.namespace) != (kind, &namespace)) {
                let of = format!("{}/{}", daemon_set.metadata.namespace, daemon_set.metadata.name);
                gaps.push(Gap { kind, namespace, cause: GapCause::LessThanStatus { of, status } });
            }
        }
    }
    gaps
}

/// Returns the DaemonSets, with their namespaces, that control pods and that the list lacks. They were deleted a moment ago, or it is short.
pub fn unlisted_controllers(snapshot: &Snapshot) -> Vec<(&str, &OwnerReference)> {
    let listed: BTreeSet<&str> = snapshot.daemon_sets.iter().map(|it| it.metadata.uid.as_str()).collect();
    let is_unlisted = |owner: &&OwnerReference| {
        Kind::DaemonSets.is(&owner.api_version, &owner.kind) && !listed.contains(owner.uid.as_str())
    };
    let pods = snapshot.pods.iter().filter(|pod| !pod.metadata.is_terminating());
    let owners =
        pods.filter_map(|pod| Some((&*pod.metadata.namespace, pod.metadata.controller().filter(is_unlisted)?)));
    owners.map(|one| (&*one.1.uid, one)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Returns whether the status counts more nodes than have a pod: of most DaemonSets, nothing else needs to be derived.
fn counts_more_than_pods(index: &Index<'_>, daemon_set: &DaemonSet) -> bool {
    let status = &daemon_set.status;
    let nodes: BTreeSet<&str> = index.pods_of(daemon_set).map(|(node, _)| node).collect();
    let existing = nodes.into_iter().filter(|node| index.node(node).is_some()).count();
    int(existing) < status.desired_number_scheduled.max(status.current_number_scheduled) + status.number_misscheduled
}

/// Returns whether some revisions were read, but not the one that the controller creates before it observes a template.
fn lacks_revision(index: &Index<'_>, daemon_set: &DaemonSet) -> bool {
    let revisions = index.revisions(daemon_set);
    !revisions.all.is_empty() && revisions.current().is_none()
}

/// Returns the kinds of which objects are missing, and what the status tells of them.
fn missing(facts: &Facts<'_>) -> Vec<(Kind, i64)> {
    let status = &facts.daemon_set.status;
    let mut missing = Vec::new();
    // Of a node without a pod that is no longer eligible, or no longer exists, the controller hears nothing until it tries again to create
    // pods (`syncNodeUpdate`, pkg/controller/daemon/daemon_controller.go, release 1.37.2).
    let may_be_old = facts.creation_is_refused();
    let is_counted = |node: &&NodePods<'_>| node.should_run() || (may_be_old && !node.pods.is_empty());
    let eligible = int(facts.node_pods.iter().filter(is_counted).count());
    // The controller does not watch for deleted nodes: it counts one until its pod is gone, too.
    let mut with_pods: BTreeMap<&str, bool> = BTreeMap::new();
    for (node, pod) in facts.index.pods_of(facts.daemon_set) {
        *with_pods.entry(node).or_insert(true) &= pod.metadata.is_terminating();
    }
    let is_gone = |node: &str| facts.index.node(node).is_none();
    let deleted = || {
        let gone = with_pods.iter().filter(|(node, _)| is_gone(node));
        gone.filter(|(node, ends)| **ends || is_told_to_be_deleted(facts, node)).count()
    };
    let desired = status.desired_number_scheduled;
    let wanted = if may_be_old { status.current_number_scheduled.min(desired) } else { desired };
    if facts.index.nodes_are_read() && eligible < wanted && eligible + int(deleted()) < wanted {
        missing.push((Kind::Nodes, wanted));
    }
    let counted = status.current_number_scheduled + status.number_misscheduled;
    // Before a refused pod, some controllers stop without updating the status.
    let is_tried = |at| seconds_between(at, facts.now()) < GIVEN_UP;
    let stops = facts.creation_is_refused() && facts.last_event("FailedCreate").is_some_and(is_tried);
    if facts.pods_known && !stops && int(with_pods.len()) + replaced_at_once(facts.daemon_set) < counted {
        missing.push((Kind::Pods, counted));
    }
    if facts.awaits_revision() && !facts.revisions.all.is_empty() {
        missing.push((Kind::ControllerRevisions, status.observed_generation));
    }
    missing
}

/// Returns whether the API server, or an event a few seconds later, tells that a node was deleted. Its pods are being deleted a minute
/// later (`gcOrphaned`, pkg/controller/podgc/gc_controller.go, release 1.37.2).
fn is_told_to_be_deleted(facts: &Facts<'_>, node: &str) -> bool {
    facts.index.snapshot.deleted_nodes.contains(node)
        || facts.index.events_named("Node", "", node).into_iter().any(Event::is_removal_of_node)
}

/// Returns how many nodes may have lost their pod since the status was written, because a rollout replaces it.
fn replaced_at_once(daemon_set: &DaemonSet) -> i64 {
    let (status, desired) = (&daemon_set.status, daemon_set.status.desired_number_scheduled);
    if status.updated_number_scheduled < desired { limits(daemon_set, desired).max_unavailable } else { 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::short_lists;
    use crate::facts::test_support::{World, at, world};
    use crate::model::snapshot::{Gap, GapCause, Kind};

    /// Three nodes, each with a pod, and a status that counts this many more of each.
    fn counted(nodes: i64, pods: i64, change: fn(World) -> World) -> Vec<Kind> {
        let status = json!({"desiredNumberScheduled": 3 + nodes, "currentNumberScheduled": 3 + pods,
            "updatedNumberScheduled": 3 + nodes});
        let mut world = world().daemon_set(json!({ "status": status }));
        for node in ["a", "b", "c"] {
            world = world.node(node, json!({})).pod(&format!("agent-{node}"), node, json!({}));
        }
        short_lists(&change(world).finish()).into_iter().map(|gap| gap.kind).collect()
    }

    fn status(world: World, status: Value) -> World {
        world.daemon_set(json!({ "status": status }))
    }

    #[test]
    fn what_a_current_status_counts_and_no_list_has_is_missing() {
        let same = |world: World| world;
        assert_eq!(counted(0, 0, same), []);
        assert_eq!(counted(-1, -1, same), []);
        assert_eq!(counted(1, 0, same), [Kind::Nodes]);
        assert_eq!(counted(0, 1, same), [Kind::Pods]);
        assert_eq!(counted(2, 2, same), [Kind::Nodes, Kind::Pods]);
        let misscheduled = |world| status(world, json!({"numberMisscheduled": 1}));
        assert_eq!(counted(0, 0, misscheduled), [Kind::Pods]);
    }

    #[test]
    fn a_pod_on_a_node_that_no_list_has_does_not_tell_that_the_node_was_deleted() {
        let is_hidden = |world: World| world.pod("agent-d", "d", json!({}));
        assert_eq!(counted(1, 1, is_hidden), [Kind::Nodes]);
        // Who believes in a deletion says that all is well.
        let fails_there = |world: World| world.unready_pod("agent-d", "d", json!({}), json!({}));
        assert_eq!(counted(1, 1, fails_there), [Kind::Nodes]);
        // A status that does not count it was written after the deletion.
        assert_eq!(counted(0, 0, is_hidden), []);
    }

    #[test]
    fn a_status_that_is_old_or_about_to_change_tells_nothing() {
        let is_old = |world| status(world, json!({"observedGeneration": 1}));
        assert_eq!(counted(2, 2, is_old), []);
        let is_deleted = |world: World| {
            world.daemon_set(
                json!({"metadata": {"deletionTimestamp": at("11:59:00"), "finalizers": ["foregroundDeletion"]}}),
            )
        };
        assert_eq!(counted(2, 2, is_deleted), []);
        let is_down = |mut world: World| {
            let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
                "spec": {"renewTime": at("11:55:00"), "leaseDurationSeconds": 15}});
            world.snapshot.leases.push(from_value(lease).unwrap());
            world
        };
        assert_eq!(counted(2, 2, is_down), []);
        let is_removed = |world: World| {
            world.pod("agent-gone", "gone", json!({})).event("Node", "gone", "RemovingNode", "m", "11:59:50")
        };
        assert_eq!(counted(1, 1, is_removed), []);
        let is_known_to_be = |mut world: World| {
            world.snapshot.deleted_nodes.insert("gone".to_owned());
            world.pod("agent-gone", "gone", json!({}))
        };
        assert_eq!(counted(1, 1, is_known_to_be), []);
        let is_collected =
            |world: World| world.pod("agent-gone", "gone", json!({"metadata": {"deletionTimestamp": at("11:59:00")}}));
        assert_eq!(counted(1, 1, is_collected), []);
        let replaces = |world| status(world, json!({"updatedNumberScheduled": 0}));
        assert_eq!((counted(0, 1, replaces), counted(0, 2, replaces)), (vec![], vec![Kind::Pods]));
        let fails = |world: World| world.node("d", json!({})).unready_pod("agent-d", "d", json!({}), json!({}));
        assert_eq!(counted(2, 2, fails), []);
        let is_refused = |world: World| world.event("DaemonSet", "agent", "FailedCreate", "no", "11:59:00");
        assert_eq!((counted(0, 2, is_refused), counted(2, 0, is_refused)), (vec![], vec![]));
        let is_over = |world: World| {
            let world = world.event("DaemonSet", "agent", "FailedCreate", "no", "11:50:00");
            world.event("DaemonSet", "agent", "SuccessfulCreate", "yes", "11:58:00")
        };
        assert_eq!(counted(0, 2, is_over), [Kind::Pods]);
    }

    #[test]
    fn what_is_known_to_be_unread_is_not_missing() {
        let without = |kind: Kind| {
            move |mut world: World| {
                world.snapshot.gaps.push(Gap { kind, namespace: None, cause: GapCause::NotInDump });
                world
            }
        };
        let snapshot = |kind: Kind| {
            let world = status(world(), json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3}));
            let world = world.node("a", json!({})).pod("agent-a", "a", json!({}));
            short_lists(&without(kind)(world).finish()).into_iter().map(|gap| gap.kind).collect::<Vec<_>>()
        };
        assert_eq!((snapshot(Kind::Nodes), snapshot(Kind::Pods)), (vec![Kind::Pods], vec![Kind::Nodes]));
        let one_node = |mut world: World| {
            world.snapshot.nodes_limited = true;
            world
        };
        assert_eq!(counted(2, 2, one_node), []);
    }

    #[test]
    fn an_observed_template_has_a_revision_unless_none_was_read() {
        let with = |revisions: fn(World) -> World| {
            let mut world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
            world.snapshot.controller_revisions.clear();
            short_lists(&revisions(world).finish()).into_iter().map(|gap| gap.kind).collect::<Vec<_>>()
        };
        assert_eq!(with(|world| world), []);
        assert_eq!(with(|world| world.revision_of_image("hash2", 2, "agent:2")), []);
        assert_eq!(with(|world| world.revision_of_image("hash1", 1, "agent:1")), [Kind::ControllerRevisions]);
    }
}
