//! Whose fault missing nodes are, and which of these faults are accepted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Question, answer};
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::PodsComplete;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{BlockedBy, Fault, FaultCounts, RolloutStatus, SuspectKind, Verdict};

/// Returns the status of the DaemonSet, with what is accepted.
pub(super) fn status(world: World, accept: &[&str]) -> RolloutStatus {
    let accept: Vec<_> = accept.iter().map(|one| one.parse().unwrap()).collect();
    answer(&world.finish(), &Question { accept: &accept, ..Question::default() }).daemon_sets.remove(0)
}

/// A pod of the revision before the current one.
pub(super) fn old() -> Value {
    json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
}

/// A node that is down, with a pod that the controller no longer counts as available.
pub(super) fn down(world: World, name: &str, pod: Value) -> World {
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "lastTransitionTime": at("11:00:00")}]);
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
    let running = json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
    let node = json!({"status": {"conditions": unknown}, "spec": {"taints": taints}});
    world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, pod)
}

pub(super) fn crashing(world: World, node: &str) -> World {
    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:50:00")}]);
    let pod = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"conditions": since}});
    world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, crashes, pod)
}

/// A pod of another workload that has failed since this time.
pub(super) fn another(world: World, name: &str, node: &str, since: Option<&str>) -> World {
    let (status, since) = since.map_or(("True", "10:00:00"), |since| ("False", since));
    let ready = json!([{"type": "Ready", "status": status, "lastTransitionTime": at(since)}]);
    world.other_pod(name, node, json!({"status": {"phase": "Running", "conditions": ready}}))
}

fn rolled_out(nodes: &[&str]) -> World {
    nodes
        .iter()
        .fold(two_revisions(), |world, node| world.node(node, json!({})).pod(&format!("agent-{node}"), node, json!({})))
}

fn two_revisions() -> World {
    let mut world = world();
    world.snapshot.controller_revisions.clear();
    world.revision_of_image("hash1", 1, "agent:1").revision_of_image("hash2", 2, "agent:2")
}

/// Sets when the rollout of the current revision started.
pub(super) fn began(mut world: World, time: &str) -> World {
    let current = world.snapshot.controller_revisions.last_mut().unwrap();
    current.metadata.creation_timestamp = serde_json::from_value(json!(at(time))).unwrap();
    world
}

fn faults(status: &RolloutStatus) -> [usize; 5] {
    let FaultCounts { node, cluster, revision, unknown, waiting } = status.faults.unwrap();
    [node, cluster, revision, unknown, waiting]
}

fn is_complete(status: &RolloutStatus) -> bool {
    status.counts_as_complete()
}

/// Returns the commands of the ways out.
pub(super) fn commands(status: &RolloutStatus) -> Vec<String> {
    status.way_out.iter().filter_map(|fix| fix.command.as_ref()).map(ToString::to_string).collect()
}

#[test]
fn nodes_that_are_down_are_at_fault_themselves() {
    let world = || down(down(rolled_out(&["a", "b", "c", "d"]), "e", json!({})), "f", old());
    let all = status(world(), &[]);
    assert_eq!((faults(&all), all.accepted.is_none()), ([2, 0, 0, 0, 0], true));
    assert!(!is_complete(&all));
    assert!(all.problems.iter().all(|cause| cause.fault == Some(Fault::Node)), "{:?}", all.problems);
    for (accept, is_accepted) in [
        (&["node"][..], true),
        (&["node=2"], true),
        (&["node=1"], false),
        // A third of six nodes is two, and 33%, rounded down, is one.
        (&["node=34%"], true),
        (&["node=33%"], false),
        (&["cluster"], false),
        (&["NodeUnreachable"], true),
        (&["on-delete"], false),
        (&["fewer-nodes"], false),
    ] {
        let status = status(world(), accept);
        assert_eq!(is_complete(&status), is_accepted, "{accept:?} {:?}", status.accepted);
        assert_ne!(status.verdict, Verdict::Complete);
    }
}

/// A node that waits for the budget is not missing because of itself, and is never accepted.
#[test]
fn nodes_that_wait_for_a_budget_that_dead_nodes_hold_are_not_accepted() {
    let mut deleted = old();
    deleted["metadata"]["deletionTimestamp"] = json!(at("11:30:00"));
    let world = down(down(rolled_out(&["a", "b"]), "c", deleted.clone()), "e", deleted);
    let world = world.node("d", json!({})).pod("agent-d", "d", old());
    let status = status(world, &["node"]);
    assert_eq!(status.verdict, Verdict::Blocked, "{status:?}");
    assert_eq!(faults(&status), [3, 0, 0, 0, 1]);
    assert!(!is_complete(&status));
    assert_eq!(status.accepted.unwrap().not_accepted.len(), 1);
}

#[test]
fn a_revision_that_fails_wherever_it_runs_is_never_accepted() {
    let accept = ["node", "cluster", "on-delete", "CrashLooping"];
    let alone = status(crashing(crashing(two_revisions(), "a"), "b"), &accept);
    assert_eq!((faults(&alone), is_complete(&alone)), ([0, 0, 2, 0, 0], false));
    let beside_old = crashing(two_revisions(), "a").node("b", json!({})).pod("agent-b", "b", old());
    let beside_old = status(down(beside_old, "c", old()), &accept);
    let beside_old_faults = beside_old.faults.unwrap();
    assert_eq!((beside_old_faults.revision, is_complete(&beside_old)), (1 + beside_old_faults.waiting, false));
    // It works on most nodes: why it fails on one is unknown, but the reason may be accepted.
    let works = || crashing(rolled_out(&["b", "c"]), "a");
    let unknown = status(works(), &["node", "cluster"]);
    assert_eq!((faults(&unknown), is_complete(&unknown)), ([0, 0, 0, 1, 0], false));
    assert!(is_complete(&status(works(), &["CrashLooping"])));
}

#[test]
fn a_pod_that_crashes_where_everything_else_crashes_is_the_nodes_fault() {
    let fault = |others: [Option<&str>; 2], runs_elsewhere: bool| {
        let world = if runs_elsewhere {
            rolled_out(&["b", "c"])
        } else {
            two_revisions().node("b", json!({})).pod("agent-b", "b", old())
        };
        let world = others.into_iter().enumerate().fold(crashing(world, "a"), |world, (number, since)| {
            another(world, &format!("other-{number}"), "a", since)
        });
        status(began(world, "11:45:00"), &[])
            .problems
            .iter()
            .find(|cause| cause.code == ReasonCode::CrashLooping)
            .unwrap()
            .fault
    };
    let (before, after) = (Some("11:30:00"), Some("11:55:00"));
    assert_eq!(fault([before, before], true), Some(Fault::Node));
    // Its pod may differ from the one that made the others fail, but works elsewhere.
    let between = Some("11:47:00");
    assert_eq!(fault([before, between], true), Some(Fault::Node));
    assert_eq!(fault([between, between], false), Some(Fault::Revision));
    // Crashing pods of a network plugin make all others fail.
    assert_eq!(fault([after, after], true), Some(Fault::Unknown));
    assert_eq!(fault([before, after], false), Some(Fault::Revision));
    // They already failed when it was rolled out.
    assert_eq!(fault([before, before], false), Some(Fault::Node));
    assert_eq!(fault([before, None], true), Some(Fault::Unknown));
    assert_eq!(fault([before, None], false), Some(Fault::Revision));
}

/// A node on which everything fails is often the first one that is updated.
#[test]
fn no_revision_is_blamed_or_rolled_back_because_of_a_node_on_which_everything_failed_before() {
    let of = |since: Option<&str>| {
        let world = two_revisions().node("b", json!({})).pod("agent-b", "b", old());
        let world = another(another(crashing(world, "a"), "one", "a", since), "two", "a", since);
        let status = status(began(world, "11:45:00"), &[]);
        (status.suspect.as_ref().unwrap().what, commands(&status))
    };
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let (suspect, commands) = of(Some("11:44:00"));
    assert_eq!(suspect, SuspectKind::Nodes);
    assert_eq!(commands, ["kubectl ds set --max-unavailable 2 -n default agent"]);
    assert_eq!(of(None), (SuspectKind::Revision, vec![undo.to_owned()]));
}

/// A node that joins during a rollout says nothing about the revision if nothing has ever worked there.
#[test]
fn a_node_on_which_everything_has_failed_since_it_joined_is_at_fault() {
    let of = |joined: &str, is_restart: bool, works: bool| {
        let mut world = two_revisions();
        if is_restart {
            let restarted = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}});
            world.snapshot.controller_revisions.clear();
            let first = world.revision_of_template("hash1", 1);
            world = first.daemon_set(json!({"spec": {"template": restarted}})).revision_of_template("hash2", 2);
        }
        let world = world.node("b", json!({})).pod("agent-b", "b", if works { json!({}) } else { old() });
        let since = Some("11:50:00");
        let world = another(another(crashing(world, "a"), "one", "a", since), "two", "a", since);
        let mut snapshot = began(world, "11:45:00").finish();
        let node = snapshot.nodes.iter_mut().find(|node| node.metadata.name == "a").unwrap();
        node.metadata.creation_timestamp = serde_json::from_value(json!(at(joined))).unwrap();
        let suspect = answer(&snapshot, &Question::default()).daemon_sets.remove(0).suspect;
        suspect.map(|suspect| suspect.what).filter(|what| *what != SuspectKind::Nodes)
    };
    assert_eq!(of("11:49:00", false, true), None);
    assert_eq!(of("09:00:00", false, false), Some(SuspectKind::Revision));
    assert_eq!(of("11:49:00", true, false), None);
    assert_eq!(of("09:00:00", true, false), Some(SuspectKind::Surroundings), "something worked there for hours");
}

/// client-go drops events about one object after the first 25.
#[test]
fn a_refusal_from_before_the_last_change_counts_while_a_pod_is_still_missing() {
    let verdict = |changed: &str, has_pod: bool| {
        let refusal = "Error creating: pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
        let world =
            two_revisions().node("a", json!({})).event("DaemonSet", "agent", "FailedCreate", refusal, "11:40:00");
        let world = if has_pod { world.pod("agent-a", "a", json!({})) } else { world };
        status(began(world, changed), &[]).verdict
    };
    assert_eq!(verdict("11:45:00", false), Verdict::Blocked);
    // It may be about to be created.
    assert_eq!(verdict("11:59:50", false), Verdict::Progressing);
    assert_eq!(verdict("11:45:00", true), Verdict::Complete);
}

/// Pods that have been running for a long time prove nothing about recent changes to the cluster.
#[test]
fn pods_that_have_run_since_before_prove_nothing_about_those_that_start() {
    let since_before = |started: &str| {
        let running = json!({"metadata": {"creationTimestamp": started}, "status": {"containerStatuses": [
            {"name": "agent", "ready": true, "started": true, "state": {"running": {"startedAt": started}}}]}});
        let world = ["b", "c"].into_iter().fold(crashing(two_revisions(), "a"), |world, node| {
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, running.clone())
        });
        let suspect = status(world, &[]).suspect.unwrap();
        assert_eq!(suspect.what, SuspectKind::Nodes);
        suspect.works_since_before
    };
    assert!(since_before("2026-02-01T00:00:00Z"));
    assert!(!since_before(&at("11:20:00")) && !since_before(&at("11:55:00")));
}

/// Without a readiness probe, each restart makes a pod ready for a moment.
#[test]
fn pods_that_crash_again_and_again_have_failed_since_the_first_crash() {
    let fault = |restarts: i64| {
        let crashes = |world: World, name: &str| {
            let ready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:55")}]);
            let statuses = json!([{"name": "other", "restartCount": restarts}]);
            let status = json!({"phase": "Running", "conditions": ready, "containerStatuses": statuses});
            let created = json!({"creationTimestamp": at("11:30:00")});
            world.other_pod(name, "a", json!({"metadata": created, "status": status}))
        };
        let world = two_revisions().node("b", json!({})).pod("agent-b", "b", old());
        let world = crashes(crashes(crashing(world, "a"), "one"), "two");
        status(began(world, "11:45:00"), &[]).problems[0].fault
    };
    assert_eq!(fault(8), Some(Fault::Node));
    assert_eq!(fault(7), Some(Fault::Revision));
}

#[test]
fn old_pods_under_on_delete_are_accepted_up_to_an_age() {
    let world = |annotation: Option<&str>| {
        let annotations = annotation.map_or(json!({}), |text| json!({"kubectl-ds/accept": text}));
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let mut pod = old();
        pod["metadata"]["creationTimestamp"] = json!(at("06:00:00"));
        rolled_out(&["a"]).daemon_set(patch).node("b", json!({})).pod("agent-b", "b", pod)
    };
    for (accept, is_accepted) in
        [("on-delete", true), ("on-delete=7h", true), ("on-delete=6h", false), ("on-delete=1d", true), ("node", false)]
    {
        assert_eq!(is_complete(&status(world(None), &[accept])), is_accepted, "{accept}");
        let annotated = status(world(Some(accept)), &[]);
        assert_eq!(is_complete(&annotated), is_accepted, "{accept}");
        assert!(annotated.accepted.is_some_and(|accepted| accepted.by_annotation), "{accept}");
        // The command takes precedence.
        assert!(!is_complete(&status(world(Some(accept)), &["cluster"])), "{accept}");
    }
    // A slow clock makes no pod younger.
    let mut behind = world(None);
    behind.snapshot.clock_difference = jiff::SignedDuration::from_hours(-20);
    assert!(!is_complete(&status(behind, &["on-delete=7h"])));
    // Here, nothing.
    let nothing = status(world(Some("on-delete")), &["none"]);
    assert_eq!((is_complete(&nothing), nothing.accepted), (false, None));
    let invalid = status(world(Some("on-delete, nodes")), &[]);
    assert!(!is_complete(&invalid) && invalid.accepted.unwrap().invalid.is_some());
    assert!(is_complete(&status(world(Some("node=1, on-delete")), &[])));
    // Deliberately, nothing is updated yet, and another node is down.
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    let untouched = two_revisions().daemon_set(on_delete).node("a", json!({})).pod("agent-a", "a", old());
    assert!(is_complete(&status(down(untouched, "b", old()), &["node=1", "on-delete"])));
}

#[test]
fn a_quota_is_the_clusters_fault() {
    let refused = rolled_out(&["a", "b"])
        .node("c", json!({}))
        .refusal("pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
    let status = status(refused, &["cluster"]);
    assert_eq!((faults(&status), is_complete(&status)), ([0, 1, 0, 0, 0], true), "{status:?}");
}

/// The pod of an ineligible node was not created by the rollout.
#[test]
fn a_rollout_that_no_node_is_to_run_is_accepted_as_it_is_complete() {
    let world = world().template(json!({"nodeSelector": {"lights": "yes"}}));
    let taint = json!([{"key": "team", "effect": "NoSchedule"}]);
    let labels = json!({"metadata": {"labels": {"lights": "yes"}}, "spec": {"taints": taint}});
    let status = status(world.node("a", labels).pod("agent-a", "a", json!({})), &["node"]);
    assert_eq!((status.verdict, is_complete(&status)), (Verdict::Complete, true), "{status:?}");
}

/// Its pods may take the nodes down, whatever the reason looks like.
#[test]
fn a_revision_that_is_available_nowhere_or_takes_nodes_down_is_not_accepted() {
    let nowhere = status(down(down(two_revisions(), "a", json!({})), "b", json!({})), &["node"]);
    assert_eq!((nowhere.faults.unwrap().node, is_complete(&nowhere)), (2, false));
    let lost_with = |world: World, name: &str, pod: Value| {
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00")}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let node = json!({"status": {"conditions": since}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, pod)
    };
    let lost_after = |world: World, name: &str| lost_with(world, name, json!({}));
    // Neither a recreated pod nor a terminating one hides it, unless the node was lost before the rollout.
    let pods = [json!({"creationTimestamp": at("11:40:00")}), json!({"deletionTimestamp": at("11:59:50")})];
    let deleted_since = |pod: &Value| lost_with(rolled_out(&["a"]), "b", json!({ "metadata": pod }));
    for (pod, rolled_out_at, expected) in
        [(0, "11:00:00", Fault::Unknown), (0, "11:35:00", Fault::Node), (1, "11:00:00", Fault::Unknown)]
    {
        let status = status(began(deleted_since(&pods[pod]), rolled_out_at), &["node"]);
        let fault = status.problems.iter().find(|cause| cause.nodes == ["b"]).and_then(|cause| cause.fault);
        assert_eq!((fault, is_complete(&status)), (Some(expected), expected == Fault::Node), "{pod} {status:?}");
    }
    // With a larger budget, or at the end of a hold, it would only take down more.
    let commands = |available: &[&str], annotations: Value| {
        let world = lost_after(rolled_out(available), "x").node("y", json!({})).pod("agent-y", "y", old());
        let strategy = if annotations.is_null() { "RollingUpdate" } else { "OnDelete" };
        let status = status(
            world.daemon_set(json!({"metadata": {"annotations": annotations},
                "spec": {"updateStrategy": {"type": strategy}}})),
            &[],
        );
        commands(&status)
    };
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let resume = "kubectl ds resume -n default agent";
    assert_eq!(commands(&["a"], json!(null)), [undo]);
    assert_eq!(commands(&["a", "b"], json!(null)), ["kubectl ds set --max-unavailable 2 -n default agent"]);
    let hold = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
        "kubectl-ds/held-since": at("11:30:00")});
    // That is, once the template is fixed.
    assert_eq!(commands(&["a"], hold.clone()), [undo, resume]);
    assert!(commands(&["a", "b"], hold).iter().any(|command| command.contains("partition")));
    let by_code = status(lost_after(lost_after(rolled_out(&["a"]), "b"), "c"), &["NodeUnreachable"]);
    assert!(!is_complete(&by_code));
    let most = status(lost_after(lost_after(rolled_out(&["a"]), "b"), "c"), &["node"]);
    assert_eq!((faults(&most), is_complete(&most)), ([0, 0, 0, 2, 0], false));
    assert_eq!(most.verdict, Verdict::Blocked);
    let few = status(lost_after(rolled_out(&["a", "b", "c"]), "d"), &["node"]);
    assert_eq!((faults(&few), is_complete(&few)), ([1, 0, 0, 0, 0], true));
    assert_eq!(few.verdict, Verdict::Degraded);
}

/// By chance, others would have been lost, too.
#[test]
fn nodes_that_are_lost_only_after_they_were_updated_are_a_reason_to_roll_back() {
    let lost = |world: World, name: &str, pod: Value| {
        let since = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:34:00")}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        world.node(name, json!({"status": {"conditions": since}})).unready_pod(name, name, running, pod)
    };
    let of = |waiting: usize, taken_down: &[&str], other: bool| {
        let world = taken_down.iter().fold(rolled_out(&["a", "b", "c"]), |world, name| lost(world, name, json!({})));
        let world = (0..waiting)
            .map(|number| format!("w{number}"))
            .fold(world, |world, name| world.node(&name, json!({})).pod(&name, &name, old()));
        let world = if other { lost(world, "z", old()) } else { world };
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
        let world = began(world, "11:20:00").daemon_set(json!({"spec": {"updateStrategy": strategy}}));
        commands(&status(world, &[])).first().cloned().unwrap_or_default()
    };
    let (undo, raise) = ("kubectl ds undo --to-revision 1 ", "kubectl ds set --max-unavailable ");
    for (waiting, taken_down, other, expected) in [
        (25, &["x", "y"][..], false, undo),
        // Too few wait to tell.
        (10, &["x", "y"], false, raise),
        // One that waits is lost, too.
        (25, &["x", "y"], true, ""),
    ] {
        let command = of(waiting, taken_down, other);
        let is_expected = command.starts_with(expected) && command.is_empty() == expected.is_empty();
        assert!(is_expected, "{waiting} {taken_down:?} {other}: {command}");
    }
}

#[test]
fn limits_are_used_in_any_order_and_the_last_of_the_same_name_counts() {
    let world = || down(down(rolled_out(&["a", "b", "c", "d"]), "e", json!({})), "f", json!({}));
    for (accept, is_accepted) in [
        (&["node=1", "NodeUnreachable=5"][..], true),
        (&["NodeUnreachable=5", "node=1"], true),
        (&["node=1", "NodeUnreachable=1"], true),
        (&["NodeUnreachable=1", "node=1"], true),
        (&["node=1", "node=3"], true),
        (&["node=3", "node=1"], false),
    ] {
        assert_eq!(is_complete(&status(world(), accept)), is_accepted, "{accept:?}");
    }
}

/// Pods tolerate the taints of down nodes only if they tolerate everything: by default, such a node needs no pod.
#[test]
fn a_limit_holds_for_nodes_that_are_excluded_because_they_are_down() {
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
    let down = |world: World, name: &str, pod: Value| {
        let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "lastTransitionTime": at("10:50:00")}]);
        let node = json!({"status": {"conditions": unknown}, "spec": {"taints": taints}});
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, pod)
    };
    for (pod, verdict) in [(json!({}), Verdict::Complete), (old(), Verdict::Blocked)] {
        let world =
            || down(down(rolled_out(&["a", "b", "c", "d", "e", "f", "g", "h"]), "y", pod.clone()), "z", pod.clone());
        for (accept, is_accepted) in [
            (&["node"][..], true),
            // A fifth of ten nodes, of which eight are eligible.
            (&["node=20%"], true),
            (&["node=19%"], false),
            (&["node=1"], false),
            (&["NodeNotReadyTaint=1", "node=1"], true),
            (&["cluster=0"], verdict == Verdict::Complete),
        ] {
            let status = status(world(), accept);
            assert_eq!(is_complete(&status), is_accepted, "{accept:?} {:?} {:?}", status.verdict, status.accepted);
            assert_eq!(status.verdict == Verdict::Complete, verdict == Verdict::Complete);
        }
        assert_eq!(is_complete(&status(world(), &[])), verdict == Verdict::Complete);
    }
}

#[test]
fn a_revision_that_may_have_taken_excluded_nodes_down_is_not_accepted() {
    let taints = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let lost = |world: World, name: &str| {
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00")}]);
        let node = json!({"status": {"conditions": since}, "spec": {"taints": taints}});
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, json!({}))
    };
    let of = |available: &[&str], down: &[&str], accept: &[&str]| {
        let status = status(down.iter().fold(rolled_out(available), |world, name| lost(world, name)), accept);
        (status.verdict, is_complete(&status), status.accepted.map(|accepted| accepted.not_accepted.len()))
    };
    for accept in ["node", "node=5", "cluster", "NodeNotReadyTaint"] {
        assert_eq!(of(&["a"], &["x", "y", "z"], &[accept]), (Verdict::Complete, false, Some(3)), "{accept}");
        assert_eq!(of(&[], &["x", "y", "z"], &[accept]), (Verdict::Complete, false, Some(3)), "{accept}");
    }
    // It works on more nodes than were lost.
    assert_eq!(of(&["a", "b", "c", "d"], &["x", "y", "z"], &["node"]), (Verdict::Complete, true, Some(0)));
    assert_eq!(of(&["a", "b", "c", "d"], &["x", "y", "z"], &["node=2"]), (Verdict::Complete, false, Some(3)));
}

#[test]
fn a_plugin_that_waits_for_a_node_may_be_what_has_taken_it_down() {
    let taints = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00"),
        "message": "container runtime network not ready: cni plugin not initialized"}]);
    let node = json!({"status": {"conditions": since}, "spec": {"taints": taints}});
    let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
    let plugin = json!({"hostNetwork": true, "tolerations": []});
    let world = rolled_out(&["a"]).template(plugin).node("x", node).unready_pod("agent-x", "x", running, json!({}));
    let status = status(world, &["node"]);
    assert!(!is_complete(&status), "{status:?}");
}

#[test]
fn a_limit_on_faults_is_left_for_nodes_that_no_reason_code_accepts() {
    // The first node has the reason, the second only the fault.
    let pressure = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("10:00:00")},
        {"type": "MemoryPressure", "status": "True", "lastTransitionTime": at("10:00:00")}]);
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": null,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
    let world = || {
        let world = down(rolled_out(&["b", "c", "d"]), "a", json!({}));
        world.node("e", json!({"status": {"conditions": pressure}})).pod("agent-e", "e", evicted.clone())
    };
    for accept in [["node=1", "NodeUnreachable=1"], ["NodeUnreachable=1", "node=1"]] {
        let status = status(world(), &accept);
        assert!(is_complete(&status), "{accept:?} {:?} {:?}", status.accepted, status.problems);
    }
}

/// Its pods lack resources because of its own requests, whatever refuses them.
#[test]
fn a_revision_that_requests_more_than_the_one_before_is_at_fault_for_what_does_not_fit() {
    let template = |world: World, image: &str, cpu: &str| {
        let containers = json!([{"name": "agent", "image": image, "resources": {"requests": {"cpu": cpu}}}]);
        world.template(json!({ "containers": containers }))
    };
    let faults_of = |before: &str, refusal: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = template(world, "agent:1", before).revision_of_image("hash1", 1, "agent:1");
        let world = template(world, "agent:2", "1").revision_of_image("hash2", 2, "agent:2");
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, json!({})));
        let status = status(world.node("c", json!({})).refusal(refusal), &["cluster"]);
        (faults(&status), is_complete(&status))
    };
    let quota = |of: &str| {
        format!("pods \"agent-x\" is forbidden: exceeded quota: q, requested: {of}=1, used: {of}=2, limited: {of}=2")
    };
    assert_eq!(faults_of("1", &quota("requests.cpu")), ([0, 1, 0, 0, 0], true));
    assert_eq!(faults_of("2", &quota("requests.cpu")), ([0, 1, 0, 0, 0], true));
    assert_eq!(faults_of("500m", &quota("requests.cpu")), ([0, 0, 1, 0, 0], false));
}

#[test]
fn a_node_is_at_fault_for_an_eviction_if_it_was_short_before_it_got_the_pod() {
    let fault = |pressure_since: Option<&str>| {
        let pressure =
            |since: &str| json!({"type": "MemoryPressure", "status": "True", "lastTransitionTime": at(since)});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at("10:00:00")});
        let conditions: Vec<Value> = [ready].into_iter().chain(pressure_since.map(pressure)).collect();
        let evicted = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"phase": "Failed", "reason": "Evicted",
            "containerStatuses": null, "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
        let world = rolled_out(&["b", "c"]).node("a", json!({"status": {"conditions": conditions}}));
        let status = status(began(world.pod("agent-a", "a", evicted), "11:45:00"), &[]);
        status.problems.iter().find(|cause| cause.code == ReasonCode::Evicted).unwrap().fault
    };
    assert_eq!(fault(Some("11:40:00")), Some(Fault::Node));
    assert_eq!(fault(Some("11:52:00")), Some(Fault::Unknown));
    // The pod may have been recreated after the first eviction.
    assert_eq!(fault(Some("11:47:00")), Some(Fault::Unknown));
    assert_eq!(fault(None), Some(Fault::Unknown));
}

/// Its own pods may fill the disk: more of them would fill others.
#[test]
fn no_larger_budget_is_offered_because_of_a_pod_that_was_evicted_through_the_revision() {
    let offered = |pressure_since: &str| {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("10:00:00")},
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": at(pressure_since)}]);
        let evicted = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"reason": "Evicted",
            "phase": "Failed", "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
        let world = rolled_out(&["b"]).node("a", json!({"status": {"conditions": conditions}}));
        let world = world.pod("agent-a", "a", evicted).node("d", json!({})).pod("agent-d", "d", old());
        let status = status(began(world, "11:45:00"), &[]);
        assert_eq!(status.verdict, Verdict::Blocked, "{status:?}");
        commands(&status)
    };
    assert_eq!(offered("11:40:00"), ["kubectl ds set --max-unavailable 2 -n default agent"]);
    assert_eq!(offered("11:52:00"), ["kubectl ds undo --to-revision 1 -n default agent"]);
}

/// It may have reached all nodes already, or most nodes that have it may evict it; a revision that has worked for a day is not the
/// cause.
#[test]
fn a_revision_whose_pods_are_evicted_is_rolled_back_wherever_the_rollout_is() {
    let evicted = |world: World, name: &str, pod: &str, more: Value| {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("10:00:00")},
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": at("11:52:00")}]);
        let mut failed = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"reason": "Evicted",
            "phase": "Failed", "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
        crate::coverage::test_support::merge(&mut failed, more);
        world.node(name, json!({"status": {"conditions": conditions}})).pod(pod, name, failed)
    };
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let young = || {
        json!({"metadata": {"creationTimestamp": at("11:46:00")}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": at("11:46:10")}]}})
    };
    let updated = |nodes: &[&str]| {
        nodes.iter().fold(two_revisions(), |world, node| {
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, young())
        })
    };
    let of = |world: World| {
        let status = status(began(world, "11:45:00"), &[]);
        (status.verdict, commands(&status))
    };
    let everywhere = evicted(updated(&["b"]), "a", "agent-a", json!({}));
    assert_eq!(of(everywhere), (Verdict::Degraded, vec![undo.to_owned()]));
    let held = json!({"metadata": {"annotations": {"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
        "kubectl-ds/partition": "1"}}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
    let canary = || evicted(two_revisions(), "a", "agent-a", json!({})).node("d", json!({})).pod("agent-d", "d", old());
    assert_eq!(of(canary()).1, [undo]);
    let (_, of_hold) = of(canary().daemon_set(held));
    assert!(of_hold[0] == undo && !of_hold.iter().any(|command| command.contains("partition")), "{of_hold:?}");
    // One of them was an older pod.
    let other = evicted(updated(&["b", "c"]), "a", "agent-a", old()).node("d", json!({})).pod("agent-d", "d", old());
    assert!(!of(other).1.contains(&undo.to_owned()));
    let lasted = json!({"metadata": {"creationTimestamp": "2026-02-20T00:00:00Z"}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-02-20T00:00:10Z"}]}});
    let lasting = two_revisions().node("b", json!({})).pod("agent-b", "b", lasted);
    assert_eq!(of(evicted(lasting, "a", "agent-a", json!({}))).1, [""; 0]);
}

/// One evicted pod among many that work says little about the revision, and without a condition nothing about the node.
#[test]
fn an_evicted_pod_of_a_revision_that_works_elsewhere_takes_back_nothing() {
    let of = |works: &[&str], old_nodes: &[&str], pressure: Value| {
        let young = || json!({"metadata": {"creationTimestamp": at("11:46:00")}});
        let add = |world: World, node: &&str, pod: Value| {
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, pod)
        };
        let world = works.iter().fold(two_revisions(), |world, node| add(world, node, young()));
        let world = old_nodes.iter().fold(world, |world, node| add(world, node, old()));
        let failed = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"reason": "Evicted",
            "phase": "Failed", "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("10:00:00")}, pressure]);
        let world = world.node("a", json!({"status": {"conditions": conditions}})).pod("agent-a", "a", failed);
        let status = status(began(world, "11:45:00"), &[]);
        let undo = status
            .way_out
            .into_iter()
            .find(|fix| fix.command.as_ref().is_some_and(|it| it.to_string().contains("undo")));
        (status.verdict, undo.map(|fix| fix.advice))
    };
    let pressure = |status: &str, since: &str| json!({"type": "MemoryPressure", "status": status, "lastTransitionTime": at(since)});
    let over = || pressure("False", "11:56:00");
    assert_eq!(of(&["b", "c"], &[], over()), (Verdict::Degraded, None));
    assert_eq!(of(&["b", "c"], &[], pressure("True", "11:52:00")), (Verdict::Degraded, None));
    assert_eq!(of(&["b", "c"], &["d"], over()), (Verdict::Blocked, None));
    let advice = "to roll back, because pods of this revision were evicted";
    assert_eq!(of(&["b"], &[], over()), (Verdict::Degraded, Some(advice.to_owned())));
    let with_room = format!("{advice} from nodes that had room before");
    assert_eq!(of(&["b"], &[], pressure("True", "11:52:00")), (Verdict::Degraded, Some(with_room)));
}

/// A node that has joined and was never ready was not taken down.
#[test]
fn a_node_that_was_never_ready_is_at_fault_itself() {
    let fault = |created: &str| {
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00")}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let node = json!({"metadata": {"creationTimestamp": at(created)}, "status": {"conditions": since}});
        let world = rolled_out(&["a"]).node("b", node).unready_pod("agent-b", "b", running, json!({}));
        let status = status(began(world, "11:00:00"), &["node"]);
        (faults(&status), is_complete(&status))
    };
    assert_eq!(fault("11:31:58"), ([1, 0, 0, 0, 0], true));
    assert_eq!(fault("10:00:00"), ([0, 0, 0, 1, 0], false));
}

#[test]
fn a_pod_that_does_not_end_is_the_fault_of_a_node_that_is_down_only() {
    let fault = |is_down: bool| {
        let mut pod = old();
        pod["metadata"]["deletionTimestamp"] = json!(at("11:30:00"));
        let world = rolled_out(&["b", "c"]);
        let world = match is_down {
            true => down(world, "a", pod),
            false => world.node("a", json!({})).pod("agent-a", "a", pod),
        };
        let status = status(world, &["node"]);
        (faults(&status), is_complete(&status))
    };
    assert_eq!(fault(true), ([1, 0, 0, 0, 0], true));
    assert_eq!(fault(false), ([0, 0, 0, 1, 0], false));
}

/// Such a pod blocks the rollout, although its node is not counted.
#[test]
fn an_old_pod_on_a_node_that_is_not_eligible_is_missing_too() {
    let taint = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    let world = || rolled_out(&["a", "b"]).node("x", json!({"spec": {"taints": taint}})).pod("agent-x", "x", old());
    let all = status(world(), &["node", "cluster"]);
    assert_ne!(all.verdict, Verdict::Complete);
    assert_eq!(faults(&all), [0, 0, 0, 1, 0]);
    assert!(!is_complete(&all) && all.accepted.unwrap().not_accepted.len() == 1);
}

#[test]
fn of_what_is_not_known_nothing_is_counted_or_accepted() {
    let generation = |observed: i64| json!({"metadata": {"generation": 3}, "status": {"observedGeneration": observed}});
    let of = |observed: i64, accept: &[&str]| {
        status(down(rolled_out(&["a"]), "b", json!({})).daemon_set(generation(observed)), accept)
    };
    let known = of(3, &["node"]);
    assert_eq!((known.faults.map(|faults| faults.node), is_complete(&known)), (Some(1), true));
    let unknown = of(2, &["node"]);
    assert_eq!((unknown.verdict, unknown.faults, unknown.accepted), (Verdict::NotObserved, None, None));
}

#[test]
fn what_is_accepted_of_removed_nodes_says_nothing_about_nodes_that_are_missing() {
    let world = || down(rolled_out(&["a", "b"]), "c", json!({}));
    assert_eq!(status(world(), &["fewer-nodes"]).accepted, None);
    // An annotation would also accept it for all later revisions.
    let annotations = json!({"metadata": {"annotations": {"kubectl-ds/accept": "node, fewer-nodes"}}});
    let annotated = status(world().daemon_set(annotations), &[]).accepted.unwrap();
    assert_eq!(annotated.invalid.as_deref(), Some("fewer-nodes is accepted by --accept only"));
    assert!(annotated.by.is_empty() && !annotated.complete);
    let by = status(world(), &["fewer-nodes", "node"]).accepted.unwrap().by;
    assert_eq!(by.iter().map(|one| one.what.to_string()).collect::<Vec<_>>(), ["node"]);
}

/// This includes host ports and limits, and a part that cannot be compared is no excuse.
#[test]
fn a_revision_that_takes_more_than_the_one_before_is_at_fault_whatever_it_takes() {
    let template = |world: World, more: &Value| {
        let mut container =
            json!({"name": "agent", "image": "agent:2", "resources": {"limits": {"cpu": "1"}}, "ports": []});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.template(json!({ "containers": [container] }))
    };
    let fault_of = |before: Option<Value>, after: Value, number: i64, refusal: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        if let Some(before) = &before {
            world = template(world, before).revision_of_image("hash1", 1, "agent:1");
        }
        let world = template(world, &after).revision_of_image("hash2", number, "agent:2");
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, json!({})));
        let status = status(world.node("c", json!({})).refusal(refusal), &["cluster"]);
        (faults(&status), is_complete(&status))
    };
    let quota = "pods \"agent-x\" is forbidden: exceeded quota: q, requested: limits.cpu=2, used: limits.cpu=2, \
        limited: limits.cpu=2";
    let limit = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}, "requests": {"cpu": "100m"}}});
    let none = || json!({"resources": {"requests": {"cpu": "100m"}}});
    let (cluster, revision, unknown) = ([0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]);
    assert_eq!(fault_of(Some(limit("2")), limit("2"), 2, quota), (cluster, true));
    assert_eq!(fault_of(Some(limit("2")), limit("1"), 2, quota), (cluster, true));
    assert_eq!(fault_of(Some(limit("1")), limit("2"), 2, quota), (revision, false));
    assert_eq!(
        fault_of(
            Some(limit("1")),
            none(),
            2,
            "pods \"agent-x\" is forbidden: failed quota: q: must specify limits.cpu"
        ),
        (revision, false)
    );
    assert_eq!(fault_of(None, limit("2"), 1, quota), (cluster, true));
    assert_eq!(fault_of(None, limit("2"), 2, quota), (unknown, false));
}

#[test]
fn a_host_port_that_is_new_is_the_revisions_fault() {
    let port = |port: i64| json!({"containers": [{"name": "agent", "image": "agent:2", "ports": [{"hostPort": port, "protocol": "TCP"}]}]});
    let fault = |before: i64, knows_pods: bool| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(port(before)).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(port(9100)).revision_of_image("hash2", 2, "agent:2");
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, json!({})));
        let waits = "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        let world = world.node("c", json!({})).other_pod("other", "c", json!({"spec": port(9100)}));
        let mut world = world.pending_pod("agent-c", "c", waits, json!({"spec": port(9100)}));
        if !knows_pods {
            world.snapshot.pods_complete = PodsComplete::On(BTreeSet::new());
        }
        let status = status(world, &["cluster"]);
        assert_eq!(status.problems[0].code, ReasonCode::HostPortConflict);
        (status.problems[0].fault, is_complete(&status))
    };
    for knows_pods in [true, false] {
        assert_eq!(fault(9100, knows_pods), (Some(Fault::Cluster), true));
        assert_eq!(fault(9200, knows_pods), (Some(Fault::Revision), false));
    }
}

#[test]
fn a_host_port_on_more_addresses_is_the_revisions_fault() {
    let port = |address: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "ports": [{"hostPort": 9100, "hostIP": address}]}]});
    let fault = |before: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(port(before)).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(port("")).revision_of_image("hash2", 2, "agent:2");
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, json!({})));
        let waits = "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        let world = world.node("c", json!({})).other_pod("other", "c", json!({"spec": port("10.0.0.5")}));
        let status = status(world.pending_pod("agent-c", "c", waits, json!({"spec": port("")})), &[]);
        assert_eq!(status.problems[0].code, ReasonCode::HostPortConflict);
        status.problems[0].fault
    };
    assert_eq!(fault("127.0.0.1"), Some(Fault::Revision));
    assert_eq!(fault("0.0.0.0"), Some(Fault::Cluster));
}

#[test]
fn pods_that_are_slow_to_start_may_still_start_until_they_are_restarted_or_old() {
    let may_start = |created: &str, restarts: i64, crashes: bool, is_old: bool| {
        let container =
            json!({"restartCount": restarts, "started": true, "state": {"running": {"startedAt": at("11:51:30")}}});
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:58:00")}]);
        let old = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
        let labels = if is_old { old } else { json!({}) };
        let metadata = json!({"creationTimestamp": at(created), "labels": labels});
        let pod = json!({"metadata": metadata, "status": {"conditions": since}});
        let world = down(rolled_out(&["b", "c"]), "d", json!({}));
        let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        let world = if is_old { world.daemon_set(on_delete) } else { world };
        let world = world.node("a", json!({})).unready_pod("agent-a", "a", container, pod);
        let world = if crashes { crashing(world, "e") } else { world };
        let status = status(world, &["node"]);
        let accepted = status.accepted.as_ref().unwrap();
        assert!(!accepted.complete && !accepted.not_accepted.is_empty());
        accepted.may_still_start
    };
    let may_still_start = |created: &str, restarts: i64, crashes: bool| {
        let of = [false, true].map(|is_old| may_start(created, restarts, crashes, is_old));
        assert_eq!(of[0], of[1], "{created} {restarts} {crashes}");
        of[0]
    };
    assert!(may_still_start("11:51:00", 0, false));
    assert!(!may_still_start("11:49:00", 0, false));
    assert!(!may_still_start("11:51:00", 1, false));
    assert!(!may_still_start("11:51:00", 0, true));
}

/// In this case no node lacks a pod: all wait.
#[test]
fn what_refuses_surge_pods_is_at_fault_for_nodes_that_keep_their_old_pods() {
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
    let world = |refusal: &str| {
        let world = two_revisions().daemon_set(surge.clone());
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, old()));
        status(world.refusal(refusal), &[])
    };
    let quota =
        world("pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
    assert_eq!(faults(&quota), [0, 2, 0, 0, 2], "{quota:?}");
    assert_eq!(quota.problems[0].fault, Some(Fault::Cluster));
    let account = world(
        "pods \"agent-\" is forbidden: error looking up service account default/none: serviceaccount \"none\" not found",
    );
    assert_eq!(faults(&account), [0, 0, 2, 0, 2], "{account:?}");
}

#[test]
fn a_revision_is_not_at_fault_for_a_resource_that_the_one_before_would_lack_too() {
    let resources = |cpu: &str, memory: &str| {
        let requests = json!({"cpu": cpu, "memory": memory});
        json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": requests}}]})
    };
    let fault = |cpu_before: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(resources(cpu_before, "64Mi")).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(resources("500m", "128Mi")).revision_of_image("hash2", 2, "agent:2");
        let mut before = old();
        before["spec"] = resources(cpu_before, "64Mi");
        let world = ["a", "b"]
            .into_iter()
            .fold(world, |world, node| world.node(node, json!({})).pod(node, node, before.clone()));
        let world = world.node("c", json!({})).other_pod("other", "c", json!({"spec": resources("3800m", "64Mi")}));
        let waits = "0/3 nodes are available: 1 Insufficient cpu.";
        let status = status(world.pending_pod("agent-c", "c", waits, json!({"spec": resources("500m", "128Mi")})), &[]);
        let cause = status.problems.into_iter().find(|cause| cause.code == ReasonCode::InsufficientResource);
        cause.and_then(|cause| cause.fault)
    };
    assert_eq!(fault("500m"), Some(Fault::Cluster));
    assert_eq!(fault("100m"), Some(Fault::Revision));
}

/// A surge pod has to fit next to the one that it replaces.
#[test]
fn a_revision_is_at_fault_for_surge_pods_that_request_too_much_to_start_beside_the_old_ones() {
    let resources = |cpu: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": cpu}}}]});
    let judged = |cpu_before: &str, others: &str, surge: i64| {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": i64::from(surge == 0)}});
        let mut world = world().daemon_set(json!({"spec": {"updateStrategy": strategy}}));
        world.snapshot.controller_revisions.clear();
        let world = world.template(resources(cpu_before)).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(resources("2")).revision_of_image("hash2", 2, "agent:2");
        let mut before = old();
        before["spec"] = resources(cpu_before);
        let world = world.node("a", json!({})).pod("agent-old", "a", before);
        let world = world.other_pod("other", "a", json!({"spec": resources(others)}));
        let world = ["b", "c"].into_iter().fold(world, |world, node| {
            world.node(node, json!({})).pod(&format!("agent-{node}"), node, json!({"spec": resources("2")}))
        });
        let waits = "0/3 nodes are available: 1 Insufficient cpu.";
        let status = status(world.pending_pod("agent-a", "a", waits, json!({"spec": resources("2")})), &["cluster"]);
        let cause = status.problems.iter().find(|cause| cause.code == ReasonCode::InsufficientResource);
        (cause.and_then(|cause| cause.fault), is_complete(&status))
    };
    // 4 are allocatable: a second old pod would fit.
    assert_eq!(judged("1", "1500m", 1), (Some(Fault::Revision), false));
    // It would fit in neither revision, which is due to the update strategy.
    assert_eq!(judged("2", "1500m", 1), (Some(Fault::Unknown), false));
    assert_eq!(judged("1", "2500m", 1).0, Some(Fault::Revision));
}

/// The scheduler only considers requests. Without an available older pod, nothing was compared on the node itself.
#[test]
fn higher_limits_are_no_fault_of_a_revision_whose_requests_do_not_fit() {
    let resources = |cpu: &str, limit: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": limit}});
        json!({"containers": [{"name": "agent", "image": "agent:2", "resources": resources}]})
    };
    let fault = |before: Value, needs: &str| {
        let after = resources(needs, "9");
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(before).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(after.clone()).revision_of_image("hash2", 2, "agent:2");
        let world = world.node("c", json!({})).other_pod("other", "c", json!({"spec": resources("3800m", "4")}));
        let waits = "0/1 nodes are available: 1 Insufficient cpu.";
        let status = status(world.pending_pod("agent-c", "c", waits, json!({ "spec": after })), &[]);
        (status.problems[0].code, status.problems[0].fault)
    };
    for (needs, code) in [("500m", ReasonCode::InsufficientResource), ("100", ReasonCode::NeverFits)] {
        assert_eq!(fault(resources("100m", "9"), needs), (code, Some(Fault::Revision)));
        assert_eq!(fault(resources(needs, "4"), needs), (code, Some(Fault::Cluster)));
    }
}

#[test]
fn a_scheduler_that_the_revision_names_first_is_the_revisions_fault() {
    let fault = |before: &str, after: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(json!({"schedulerName": before})).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(json!({"schedulerName": after})).revision_of_image("hash2", 2, "agent:2");
        let pod = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "spec": {"schedulerName": after}});
        let world = world.node("a", json!({})).pending_pod("agent-a", "a", "", pod);
        let status = status(world, &[]);
        (status.problems[0].code, status.problems[0].fault)
    };
    let silent = ReasonCode::SchedulerSilent;
    assert_eq!(fault("default-scheduler", "default-scheduler"), (silent, Some(Fault::Cluster)));
    assert_eq!(fault("own", "own"), (silent, Some(Fault::Cluster)));
    assert_eq!(fault("default-scheduler", "own"), (silent, Some(Fault::Revision)));
}

/// The command of the group is about its first node, which has another cause.
#[test]
fn nodes_with_the_same_reason_and_another_fault_get_no_command_for_another_node() {
    let lost = |world: World, name: &str, since: &str| {
        let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "lastTransitionTime": at(since)}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let node = json!({"status": {"conditions": unknown}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, json!({}))
    };
    let status = status(lost(lost(rolled_out(&["a"]), "y", "10:50:00"), "z", "11:32:00"), &[]);
    let causes = status.problems.iter().map(|cause| (cause.nodes.join(" "), cause.fault, cause.fix.command.is_some()));
    let expected = [("z".to_owned(), Some(Fault::Unknown), false), ("y".to_owned(), Some(Fault::Node), true)];
    assert_eq!(causes.collect::<Vec<_>>(), expected);
}

/// A time of day last month.
fn long_ago(time: &str) -> String {
    format!("2026-02-01T{time}Z")
}

/// A rollout that started last month.
fn began_long_ago(world: World) -> World {
    let mut world = world.daemon_set(json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}));
    for revision in &mut world.snapshot.controller_revisions {
        revision.metadata.creation_timestamp = serde_json::from_value(json!(long_ago("09:00:00"))).unwrap();
    }
    world
}

/// A node whose pod has been available since last month, or until it started to crash today, with this many restarts.
fn lasted(world: World, name: &str, crashes: Option<(&str, i64)>) -> World {
    let node = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    let ready = |status: &str, since: String| json!({"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]});
    let pod = |status: Value| json!({"metadata": {"creationTimestamp": long_ago("10:00:00")}, "status": status});
    let (world, agent) = (world.node(name, node), format!("agent-{name}"));
    match crashes {
        None => world.pod(&agent, name, pod(ready("True", long_ago("10:01:00")))),
        Some((since, restarts)) => {
            let waiting = json!({"restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            world.unready_pod(&agent, name, waiting, pod(ready("False", since.to_owned())))
        }
    }
}

/// The node is as old as the others; only its pod is new.
fn crashing_anew(world: World, name: &str) -> World {
    let mut world = crashing(world, name);
    let joined = json!("2026-01-01T00:00:00Z");
    world.snapshot.nodes.last_mut().unwrap().metadata.creation_timestamp = serde_json::from_value(joined).unwrap();
    world
}

fn undoes(status: &RolloutStatus) -> bool {
    commands(status).iter().any(|command| command.contains(" undo "))
}

#[test]
fn a_revision_that_has_worked_for_long_is_not_at_fault_for_what_breaks_then() {
    use std::ops::Range;
    let until_today = || Some(("2026-03-01T11:50:00Z", 5));
    // Ranges of nodes on which it works, worked until today, has crashed since last month, and on which new pods crash.
    let of = |works: Range<u8>, worked: Range<u8>, never: Range<u8>, anew: Range<u8>| {
        let world = began_long_ago(two_revisions());
        let world = works.fold(world, |world, n| lasted(world, &format!("works-{n}"), None));
        let world = worked.fold(world, |world, n| lasted(world, &format!("worked-{n}"), until_today()));
        let never_ready = Some(("2026-02-01T10:00:05Z", 6000));
        let world = never.fold(world, |world, n| lasted(world, &format!("never-{n}"), never_ready));
        let world = anew.fold(world, |world, n| crashing_anew(world, &format!("anew-{n}")));
        // One has been waiting for the budget since then, so the rollout is not finished.
        let status = status(world.node("old", json!({})).pod("agent-old", "old", old()), &[]);
        let FaultCounts { revision, unknown, .. } = status.faults.unwrap();
        assert_eq!(status.verdict, Verdict::Blocked, "{status:?}");
        assert!(revision == 0 || unknown == 0);
        (revision > 0, undoes(&status))
    };
    // Its registry or something that it depends on is down, or nodes were upgraded.
    assert_eq!(of(0..3, 0..0, 0..0, 0..4), (false, false));
    assert_eq!(of(0..0, 0..6, 0..0, 0..0), (false, false));
    assert_eq!(of(0..1, 0..2, 0..0, 0..5), (false, false));
    // A canary proves little, and one that has crashed all the time proves nothing.
    assert_eq!(of(0..1, 0..0, 0..0, 0..3), (true, true));
    assert_eq!(of(0..0, 0..0, 0..3, 0..1), (true, true));
    // It was rolled out a few minutes ago.
    assert_eq!(of(0..0, 0..0, 0..0, 0..3), (true, true));
}

#[test]
fn a_revision_that_has_worked_for_long_is_not_what_takes_new_nodes_down() {
    let joined = |world: World, name: &str| {
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00")}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let node = json!({"metadata": {"creationTimestamp": at("11:20:00")}, "status": {"conditions": since}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, json!({}))
    };
    let of = |world: World| {
        let world = ["x", "y", "z"].into_iter().fold(world, joined);
        let status = status(world, &["node"]);
        (faults(&status), is_complete(&status), undoes(&status))
    };
    assert_eq!(of(lasted(began_long_ago(two_revisions()), "a", None)), ([3, 0, 0, 0, 0], true, false));
    // A revision that works for half an hour on one node may have taken three others down.
    assert_eq!(of(began(rolled_out(&["a"]), "11:20:00")), ([0, 0, 0, 3, 0], false, true));
}

#[test]
fn what_refuses_or_crowds_out_a_revision_after_a_long_time_is_at_fault_itself() {
    let container = |cpu: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": cpu}}}]});
    let quota = "pods \"agent-x\" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=2, \
        limited: requests.cpu=2";
    let account = "pods \"agent-\" is forbidden: error looking up service account default/none: serviceaccount \"none\" not found";
    let fault = |has_worked_for_long: bool, refusal: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(container("500m")).revision_of_image("hash1", 1, "agent:1");
        let world = began_long_ago(world.template(container("1")).revision_of_image("hash2", 2, "agent:2"));
        let world = match has_worked_for_long {
            true => lasted(world, "a", None),
            false => world.node("a", json!({})).pod("agent-a", "a", json!({})),
        };
        faults(&status(world.node("b", json!({})).refusal(refusal), &[]))
    };
    assert_eq!(fault(true, quota), [0, 1, 0, 0, 0]);
    assert_eq!(fault(false, quota), [0, 0, 1, 0, 0]);
    // It is unknown who has deleted it.
    assert_eq!(fault(true, account), [0, 0, 0, 1, 0]);
    assert_eq!(fault(false, account), [0, 0, 1, 0, 0]);
}

/// They are available in turns.
#[test]
fn pods_that_have_just_come_up_again_after_many_crashes_prove_nothing() {
    let of = |restarts: i64, since: &str, created: &str| {
        let flapping = |world: World, name: &str| {
            let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(since)}]);
            let container = json!({"name": "agent", "ready": true, "restartCount": restarts,
                "state": {"running": {"startedAt": at(since)}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": at(since)}}});
            let pod = json!({"metadata": {"creationTimestamp": created},
                "status": {"conditions": conditions, "containerStatuses": [container]}});
            world.node(name, json!({})).pod(&format!("agent-{name}"), name, pod)
        };
        let world = ["a", "b", "c"].into_iter().fold(two_revisions(), flapping);
        // Everything else has crashed there since before it got the pod.
        let others = |world: World, name: &str| another(world, name, "d", Some("11:48:00"));
        let world = ["other-1", "other-2"].into_iter().fold(crashing(world, "d"), others);
        let status = status(world.node("e", json!({})).pod("agent-e", "e", old()), &["node"]);
        status.problems.iter().find(|cause| cause.code == ReasonCode::CrashLooping).unwrap().fault
    };
    assert_eq!(of(4, "11:59:00", &at("11:30:00")), Some(Fault::Revision));
    assert_eq!(of(4, "11:40:00", &at("11:30:00")), Some(Fault::Node));
    assert_eq!(of(1, "11:59:00", &at("11:30:00")), Some(Fault::Node));
    // Nodes reboot once in a while.
    assert_eq!(of(4, "11:59:00", "2025-03-01T11:30:00Z"), Some(Fault::Node));
}

#[test]
fn a_node_that_has_just_joined_is_waited_for() {
    let of = |joined: &str| {
        let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(joined)}]);
        let node = json!({"metadata": {"creationTimestamp": at(joined)}, "status": {"conditions": conditions}});
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = rolled_out(&["a", "b"]).node("c", node);
        let pod = json!({"metadata": {"creationTimestamp": at(joined)}});
        let status = status(world.unready_pod("agent-c", "c", starting, pod), &["node"]);
        (status.verdict, is_complete(&status))
    };
    assert_eq!(of("11:52:00"), (Verdict::Progressing, false));
    assert_eq!(of("11:40:00"), (Verdict::Degraded, true));
}

/// It may exist until the pod garbage collector runs.
#[test]
fn an_old_pod_of_a_deleted_node_does_not_show_that_a_revision_is_available() {
    let world = down(down(two_revisions(), "a", old()), "b", old());
    let with_pod = |world: World, node: &str| world.pod("agent-gone", node, old());
    let status = status(with_pod(world, "gone"), &["node"]);
    assert!(!is_complete(&status), "{:?}", status.accepted);
}

#[test]
fn nothing_is_about_to_be_created_by_a_controller_that_is_down() {
    let of = |renewed: &str| {
        let mut world = rolled_out(&["a", "b"]).node("c", json!({}));
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15}});
        world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
        let status = status(world, &["cluster"]);
        (status.verdict, status.blocked_by, faults(&status), is_complete(&status))
    };
    let (verdict, ..) = of("11:59:50");
    assert_eq!(verdict, Verdict::Progressing);
    let expected = (Verdict::Blocked, Some(BlockedBy::ControllerDown), [0, 1, 0, 0, 0], true);
    assert_eq!(of("11:48:00"), expected);
}

/// Their pods count against the budget until a controller removes them, or the taint.
#[test]
fn nothing_is_about_to_be_removed_by_a_controller_that_is_down() {
    let of = |renewed: &str, is_gone: bool| {
        let taint = json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
        let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = rolled_out(&["a"]).node("b", json!({})).pod("agent-b", "b", old());
        let world = if is_gone { world } else { world.node("x", taint) };
        let mut world = world.unready_pod("agent-x", "x", crashes, json!({}));
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15}});
        world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
        status(world, &[]).verdict
    };
    for is_gone in [false, true] {
        assert_eq!(of("11:59:50", is_gone), Verdict::Progressing, "{is_gone}");
        assert_eq!(of("11:48:00", is_gone), Verdict::Blocked, "{is_gone}");
    }
}

#[test]
fn an_annotation_that_cannot_be_read_accepts_nothing_and_is_shown_in_short() {
    let of = |text: &str| {
        let annotations = json!({"metadata": {"annotations": {"kubectl-ds/accept": text}}});
        let status = status(down(rolled_out(&["a", "b"]), "c", json!({})).daemon_set(annotations), &[]);
        (is_complete(&status), status.accepted.unwrap().invalid)
    };
    for text in ["", "nodes", "node=10 %", "node,,cluster", "node=1000%", "node=0.5", "node=\u{1b}[31m", "fewer-nodes"]
    {
        let (is_complete, invalid) = of(text);
        assert!(!is_complete && invalid.is_some(), "{text:?}");
    }
    let (_, invalid) = of(&"x".repeat(100_000));
    assert!(invalid.unwrap().len() < 300);
    assert!(!of(" node , cluster = 1").0);
    assert_eq!(of(" node ,\ncluster=0"), (true, None));
}

#[test]
fn a_limit_of_nothing_and_a_percentage_of_few_nodes_accept_none() {
    let of = |nodes: &[&str], accept: &str| is_complete(&status(down(rolled_out(nodes), "z", json!({})), &[accept]));
    for (nodes, accept, expected) in [
        (&["a", "b"][..], "node=0", false),
        (&["a", "b"], "node=0%", false),
        // 33% of three nodes is less than one.
        (&["a", "b"], "node=33%", false),
        (&["a", "b"], "node=34%", true),
        (&["a", "b"], "node=100%", true),
        (&["a", "b", "c", "d", "e", "f", "g", "h", "i"], "node=10%", true),
        (&["a", "b", "c", "d", "e", "f", "g", "h"], "node=10%", false),
    ] {
        assert_eq!(of(nodes, accept), expected, "{accept} of {}", nodes.len() + 1);
    }
    // Nothing is missing.
    assert!(is_complete(&status(rolled_out(&["a"]), &["node=0%"])));
}

/// The pods of the older revision run because they were started before the registry or the network broke.
#[test]
fn a_revision_that_changes_nothing_about_what_fails_is_not_at_fault() {
    let container = |more: Value| {
        let mut container = json!({"name": "agent", "image": "agent:1"});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "containers": [container] })
    };
    let fails = |after: Value, waiting: &str, message: &str| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(container(json!({}))).revision_of_image("hash1", 1, "agent:1");
        let image = after["containers"][0]["image"].as_str().unwrap().to_owned();
        let world = world.template(after).revision_of_image("hash2", 2, &image);
        let container = json!({"state": {"waiting": {"reason": waiting, "message": message}}});
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:45:00")}]);
        let spec = json!({"containers": [{"name": "agent", "image": image}]});
        let pod =
            json!({"metadata": {"creationTimestamp": at("11:45:00")}, "spec": spec, "status": {"conditions": since}});
        let world = world.node("a", json!({})).unready_pod("agent-a", "a", container, pod);
        let world = match waiting {
            "ContainerCreating" => world.event("Pod", "agent-a", "FailedCreatePodSandBox", message, "11:59:30"),
            _ => world,
        };
        let status = status(world.node("b", json!({})).pod("agent-b", "b", old()), &["node", "cluster"]);
        assert_eq!(status.verdict, Verdict::Blocked, "{status:?}");
        (status.problems[0].code, status.problems[0].fault, undoes(&status))
    };
    let pull = |after: Value| fails(container(after), "ImagePullBackOff", "Back-off pulling image");
    let (image, revision) = (ReasonCode::ImagePullFailed, Some(Fault::Revision));
    assert_eq!(pull(json!({"env": [{"name": "A", "value": "1"}]})), (image, Some(Fault::Unknown), false));
    assert_eq!(pull(json!({"image": "agent:2"})), (image, revision, true));
    assert_eq!(pull(json!({"imagePullPolicy": "Always"})), (image, revision, true));
    let mut with_secret = container(json!({}));
    with_secret["imagePullSecrets"] = json!([{"name": "none"}]);
    assert_eq!(fails(with_secret, "ImagePullBackOff", "Back-off pulling image"), (image, revision, true));
    let sandbox = |after: Value| {
        fails(after, "ContainerCreating", "Failed to create pod sandbox: plugin type=\"x\" failed (add): no addresses")
    };
    let of_sandbox = ReasonCode::SandboxFailed;
    assert_eq!(sandbox(container(json!({"image": "agent:2"}))), (of_sandbox, Some(Fault::Unknown), false));
    let mut other_runtime = container(json!({}));
    other_runtime["runtimeClassName"] = json!("other");
    assert_eq!(sandbox(other_runtime), (of_sandbox, revision, true));
}
