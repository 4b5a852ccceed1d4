//! Whose fault it is that nodes are missing, and what of that is accepted.

use serde_json::{Value, json};

use super::{Question, answer};
use crate::coverage::test_support::{World, at, world};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{Fault, FaultCounts, RolloutStatus, Verdict};

fn status(world: World, accept: &[&str]) -> RolloutStatus {
    let accept: Vec<_> = accept.iter().map(|one| one.parse().unwrap()).collect();
    answer(&world.finish(), &Question { accept: &accept, ..Question::default() }).daemon_sets.remove(0)
}

fn old() -> Value {
    json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
}

/// A node that is down, with a pod that the controller no longer counts as available.
fn down(world: World, name: &str, pod: Value) -> World {
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "lastTransitionTime": at("11:00:00")}]);
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
    let running = json!({"ready": false, "state": {"running": {"startedAt": at("10:00:00")}}});
    let node = json!({"status": {"conditions": unknown}, "spec": {"taints": taints}});
    world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, pod)
}

fn crashing(world: World, node: &str) -> World {
    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:50:00")}]);
    let pod = json!({"metadata": {"creationTimestamp": at("11:50:00")}, "status": {"conditions": since}});
    world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, crashes, pod)
}

/// A pod of another workload that has failed since then.
fn another(world: World, name: &str, node: &str, since: Option<&str>) -> World {
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

/// Says when the rollout of the current revision began.
fn began(mut world: World, time: &str) -> World {
    let current = world.snapshot.controller_revisions.last_mut().unwrap();
    current.metadata.creation_timestamp = serde_json::from_value(json!(at(time))).unwrap();
    world
}

fn faults(status: &RolloutStatus) -> [usize; 5] {
    let FaultCounts { node, cluster, revision, unknown, waiting } = status.faults;
    [node, cluster, revision, unknown, waiting]
}

fn is_complete(status: &RolloutStatus) -> bool {
    status.counts_as_complete()
}

#[test]
fn nodes_that_are_down_are_at_fault_themselves() {
    let world = || down(down(rolled_out(&["a", "b", "c", "d"]), "e", json!({})), "f", old());
    let all = status(world(), &[]);
    assert_eq!((faults(&all), all.accepted.is_none()), ([2, 0, 0, 0, 0], true));
    assert!(!is_complete(&all));
    assert!(all.causes.iter().all(|cause| cause.fault == Some(Fault::Node)), "{:?}", all.causes);
    for (accept, is_accepted) in [
        (&["node"][..], true),
        (&["node=2"], true),
        (&["node=1"], false),
        // A third of six nodes is two, and what remains of 33% is one.
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

/// What waits for the budget is not missing because of itself, and is never accepted.
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
    assert_eq!(status.accepted.unwrap().not_accepted, 1);
}

#[test]
fn a_revision_that_fails_wherever_it_runs_is_never_accepted() {
    let accept = ["node", "cluster", "on-delete", "CrashLooping"];
    let alone = status(crashing(crashing(two_revisions(), "a"), "b"), &accept);
    assert_eq!((faults(&alone), is_complete(&alone)), ([0, 0, 2, 0, 0], false));
    let beside_old = crashing(two_revisions(), "a").node("b", json!({})).pod("agent-b", "b", old());
    let beside_old = status(down(beside_old, "c", old()), &accept);
    assert_eq!((beside_old.faults.revision, is_complete(&beside_old)), (1 + beside_old.faults.waiting, false));
    // It works on most nodes: why it does not on one is not known, and a reason may be accepted.
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
            .causes
            .iter()
            .find(|cause| cause.code == ReasonCode::CrashLooping)
            .unwrap()
            .fault
    };
    let (before, after) = (Some("11:30:00"), Some("11:55:00"));
    assert_eq!(fault([before, before], true), Some(Fault::Node));
    // Its pod may be another one than the one that the others failed with.
    assert_eq!(fault([before, Some("11:47:00")], true), Some(Fault::Unknown));
    // The pods of a network plugin that crashes make all others fail.
    assert_eq!(fault([after, after], true), Some(Fault::Unknown));
    assert_eq!(fault([before, after], false), Some(Fault::Revision));
    assert_eq!(fault([before, before], false), Some(Fault::Revision));
    assert_eq!(fault([before, None], true), Some(Fault::Unknown));
    assert_eq!(fault([before, None], false), Some(Fault::Revision));
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
        // What the command says counts.
        assert!(!is_complete(&status(world(Some(accept)), &["cluster"])), "{accept}");
    }
    let invalid = status(world(Some("on-delete, nodes")), &[]);
    assert!(!is_complete(&invalid) && invalid.accepted.unwrap().invalid.is_some());
    assert!(is_complete(&status(world(Some("node=1, on-delete")), &[])));
}

#[test]
fn a_quota_is_the_clusters_fault() {
    let refused = rolled_out(&["a", "b"])
        .node("c", json!({}))
        .refusal("pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
    let status = status(refused, &["cluster"]);
    assert_eq!((faults(&status), is_complete(&status)), ([0, 1, 0, 0, 0], true), "{status:?}");
}

/// Its pods may be what takes the nodes down, whatever the reason looks like.
#[test]
fn a_revision_that_is_available_nowhere_or_takes_nodes_down_is_not_accepted() {
    let nowhere = status(down(down(two_revisions(), "a", json!({})), "b", json!({})), &["node"]);
    assert_eq!((nowhere.faults.node, is_complete(&nowhere)), (2, false));
    let lost_with = |world: World, name: &str, pod: Value| {
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:32:00")}]);
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let node = json!({"status": {"conditions": since}});
        world.node(name, node).unready_pod(&format!("agent-{name}"), name, running, pod)
    };
    let lost_after = |world: World, name: &str| lost_with(world, name, json!({}));
    // Neither a pod that was recreated nor one that is deleted hides it, unless the node was lost before the rollout.
    let pods = [json!({"creationTimestamp": at("11:40:00")}), json!({"deletionTimestamp": at("11:59:50")})];
    let deleted_since = |pod: &Value| lost_with(rolled_out(&["a"]), "b", json!({ "metadata": pod }));
    for (pod, rolled_out_at, expected) in
        [(0, "11:00:00", Fault::Unknown), (0, "11:35:00", Fault::Node), (1, "11:00:00", Fault::Unknown)]
    {
        let status = status(began(deleted_since(&pods[pod]), rolled_out_at), &["node"]);
        let fault = status.causes.iter().find(|cause| cause.nodes == ["b"]).and_then(|cause| cause.fault);
        assert_eq!((fault, is_complete(&status)), (Some(expected), expected == Fault::Node), "{pod} {status:?}");
    }
    // It would only take down more with a larger budget.
    let commands = |available: &[&str]| {
        let world = lost_after(rolled_out(available), "x").node("y", json!({})).pod("agent-y", "y", old());
        let status = status(world, &[]);
        assert_eq!(status.verdict, Verdict::Blocked);
        let commands = status.way_out.into_iter().filter_map(|fix| fix.command);
        commands.map(|command| command.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(commands(&["a"]), [""; 0]);
    assert_eq!(commands(&["a", "b"]), ["kubectl ds set --max-unavailable 2 -n default agent"]);
    let most = status(lost_after(lost_after(rolled_out(&["a"]), "b"), "c"), &["node"]);
    assert_eq!((faults(&most), is_complete(&most)), ([0, 0, 0, 2, 0], false));
    let few = status(lost_after(rolled_out(&["a", "b", "c"]), "d"), &["node"]);
    assert_eq!((faults(&few), is_complete(&few)), ([1, 0, 0, 0, 0], true));
}

#[test]
fn limits_are_used_in_any_order_and_the_last_of_the_same_name_counts() {
    let world = || down(down(rolled_out(&["a", "b", "c", "d"]), "e", json!({})), "f", json!({}));
    for (accept, is_accepted) in [
        (&["node=1", "NodeUnreachable=5"][..], true),
        (&["NodeUnreachable=5", "node=1"], true),
        (&["node=1", "NodeUnreachable=1"], true),
        (&["node=1", "node=3"], true),
        (&["node=3", "node=1"], false),
    ] {
        assert_eq!(is_complete(&status(world(), accept)), is_accepted, "{accept:?}");
    }
}

/// What its pods lack is its own fault, whatever refuses them.
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
        status.causes.iter().find(|cause| cause.code == ReasonCode::Evicted).unwrap().fault
    };
    assert_eq!(fault(Some("11:40:00")), Some(Fault::Node));
    assert_eq!(fault(Some("11:52:00")), Some(Fault::Unknown));
    // The pod may have been recreated after the first eviction.
    assert_eq!(fault(Some("11:47:00")), Some(Fault::Unknown));
    assert_eq!(fault(None), Some(Fault::Unknown));
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

/// Such a pod holds the rollout up, although its node counts nowhere.
#[test]
fn an_old_pod_on_a_node_that_is_not_eligible_is_missing_too() {
    let taint = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    let world = || rolled_out(&["a", "b"]).node("x", json!({"spec": {"taints": taint}})).pod("agent-x", "x", old());
    let all = status(world(), &["node", "cluster"]);
    assert_ne!(all.verdict, Verdict::Complete);
    assert!(!is_complete(&all) && all.accepted.unwrap().not_accepted == 1);
}

#[test]
fn what_is_accepted_of_removed_nodes_says_nothing_about_nodes_that_are_missing() {
    let world = || down(rolled_out(&["a", "b"]), "c", json!({}));
    assert_eq!(status(world(), &["fewer-nodes"]).accepted, None);
    let by = status(world(), &["fewer-nodes", "node"]).accepted.unwrap().by;
    assert_eq!(by.iter().map(|one| one.what.to_string()).collect::<Vec<_>>(), ["node"]);
}

/// Host ports and limits are taken, too, and what cannot be compared excuses nothing.
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
    let fault = |before: i64| {
        let mut world = world();
        world.snapshot.controller_revisions.clear();
        let world = world.template(port(before)).revision_of_image("hash1", 1, "agent:1");
        let world = world.template(port(9100)).revision_of_image("hash2", 2, "agent:2");
        let world =
            ["a", "b"].into_iter().fold(world, |world, node| world.node(node, json!({})).pod(node, node, json!({})));
        let waits = "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
        let world = world.node("c", json!({})).other_pod("other", "c", json!({"spec": port(9100)}));
        let status = status(world.pending_pod("agent-c", "c", waits, json!({"spec": port(9100)})), &["cluster"]);
        assert_eq!(status.causes[0].code, ReasonCode::HostPortConflict);
        (status.causes[0].fault, is_complete(&status))
    };
    assert_eq!(fault(9100), (Some(Fault::Cluster), true));
    assert_eq!(fault(9200), (Some(Fault::Revision), false));
}

#[test]
fn pods_that_are_slow_to_start_may_still_start_until_they_are_restarted_or_old() {
    let may_still_start = |created: &str, restarts: i64, crashes: bool| {
        let container =
            json!({"restartCount": restarts, "started": true, "state": {"running": {"startedAt": at("11:51:30")}}});
        let since = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:58:00")}]);
        let pod = json!({"metadata": {"creationTimestamp": at(created)}, "status": {"conditions": since}});
        let world = down(rolled_out(&["b", "c"]), "d", json!({}));
        let world = world.node("a", json!({})).unready_pod("agent-a", "a", container, pod);
        let world = if crashes { crashing(world, "e") } else { world };
        let status = status(world, &["node"]);
        let accepted = status.accepted.as_ref().unwrap();
        assert!(!accepted.complete && accepted.not_accepted > 0);
        accepted.may_still_start
    };
    assert!(may_still_start("11:51:00", 0, false));
    assert!(!may_still_start("11:49:00", 0, false));
    assert!(!may_still_start("11:51:00", 1, false));
    assert!(!may_still_start("11:51:00", 0, true));
}
