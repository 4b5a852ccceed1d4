//! Situations of which real clusters have shown that they are easily told wrong.

use serde_json::{Value, json};

use super::rollout_status;
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::Snapshot;
use crate::report::rollout_status::{RolloutStatus, Verdict};

fn status(world: World) -> RolloutStatus {
    rollout_status(&world.finish(), None).daemon_sets.remove(0)
}

fn old() -> Value {
    json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}})
}

fn ready_since(time: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(time)}]}})
}

fn commands(status: &RolloutStatus) -> Vec<String> {
    status.way_out.iter().filter_map(|fix| fix.command.as_ref()).map(ToString::to_string).collect()
}

/// A ready pod is available to coverage until it is gone (`KUBECTL_DS_SEED=2000`, rollout 0).
#[test]
fn a_rollout_waits_for_ready_pods_that_are_terminating() {
    let mut terminating = old();
    terminating["metadata"]["deletionTimestamp"] = json!(at("12:00:20"));
    let waiting = world()
        .daemon_set(json!({"status": {"observedGeneration": 2}}))
        .node("a", json!({}))
        .pod("agent-a", "a", terminating)
        .node("b", json!({}))
        .pod("agent-b", "b", old());
    assert_eq!(status(waiting).verdict, Verdict::Progressing);
}

/// `set` refuses to delete surge pods unless it is told to (`KUBECTL_DS_SEED=2000`, rollout 17).
#[test]
fn the_command_that_ends_a_blocked_surge_deletes_the_surge_pods() {
    let port = json!({"spec": {"containers": [{"name": "agent", "ports": [{"hostPort": 9100, "protocol": "TCP"}]}]}});
    let mut old = old();
    old["spec"] = port["spec"].clone();
    let blocked = world()
        .revision("hash2", 2)
        .daemon_set(json!({"status": {"observedGeneration": 2},
            "spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
        .node("a", json!({}))
        .pod("agent-old", "a", old)
        .pending_pod("agent-new", "a", "0/1 nodes are available: 1 node(s) didn't have free ports.", port);
    let blocked = status(blocked);
    assert_eq!(blocked.verdict, Verdict::Blocked);
    assert_eq!(commands(&blocked), ["kubectl ds set --max-unavailable 1 -n default --delete-surge-pods agent"]);
}

/// The scheduler has not noticed yet that the port is free (`KUBECTL_DS_SEED=5000`, rollout 59).
#[test]
fn a_rollout_waits_for_the_scheduler_to_notice_that_there_is_room() {
    let port = json!({"spec": {"containers": [{"name": "agent", "ports": [{"hostPort": 9100, "protocol": "TCP"}]}]}});
    let waiting = |holder: Option<Value>| {
        let world = world().daemon_set(json!({"status": {"observedGeneration": 2}})).node("a", json!({})).pending_pod(
            "agent-new",
            "a",
            "0/1 nodes are available: 1 node(s) didn't have free ports.",
            port.clone(),
        );
        match holder {
            Some(holder) => status(world.other_pod("other", "a", holder)).verdict,
            None => status(world).verdict,
        }
    };
    let mut terminating = port.clone();
    terminating["metadata"] = json!({"deletionTimestamp": at("12:00:20")});
    assert_eq!(waiting(None), Verdict::Progressing);
    assert_eq!(waiting(Some(terminating)), Verdict::Progressing);
    assert_eq!(waiting(Some(port.clone())), Verdict::Blocked);
}

/// The taints go a moment after the node has become ready (`KUBECTL_DS_SEED=70001`, rollout 19).
#[test]
fn a_rollout_waits_for_the_taints_of_a_node_that_is_ready_again() {
    let waiting = |ready: &str| {
        let node = json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at("11:59:50")}]}});
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2},
                "spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
            .node("a", node)
            .pod("agent-old", "a", old())
            .unready_pod("agent-new", "a", starting, json!({}));
        status(world).verdict
    };
    assert_eq!(waiting("Unknown"), Verdict::Blocked);
    assert_eq!(waiting("True"), Verdict::Progressing);
}

/// While the old pods are all available, rolling back only deletes the surge pods.
#[test]
fn a_surge_of_a_failing_revision_is_rolled_back() {
    let crashing = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let revision = |hash: &str, number: i64| {
        crate::model::controller_revision::ControllerRevision::from_object(json!({
            "metadata": {"name": format!("agent-{hash}"), "namespace": "default", "labels": {"controller-revision-hash": hash},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent-uid",
                    "controller": true}]},
            "data": {"spec": {"template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": format!("agent:{number}")}]}}}},
            "revision": number,
        }))
        .unwrap()
    };
    let mut world = world()
        .daemon_set(json!({"status": {"observedGeneration": 2},
            "spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
        .node("a", json!({}))
        .pod("agent-old", "a", old())
        .unready_pod("agent-new", "a", crashing, json!({}))
        .node("b", json!({}))
        .pod("agent-b", "b", old());
    world.snapshot.controller_revisions = vec![revision("hash1", 1), revision("hash2", 2)];
    let blocked = status(world);
    assert_eq!(blocked.verdict, Verdict::Blocked);
    assert_eq!(commands(&blocked), ["kubectl ds undo --to-revision 1 -n default agent"]);
}

/// `KUBECTL_DS_SEED=100`, rollout 16 of the random rollouts: `maxSurge` 1, `minReadySeconds` 1, 3 of 18 nodes updated, and
/// nothing happened any more.
#[test]
fn a_controller_that_misses_that_a_surge_pod_has_become_available_blocks_the_rollout() {
    let surging = |ready: &str| {
        world()
            .daemon_set(json!({"status": {"observedGeneration": 2}, "spec": {"minReadySeconds": 1,
                "updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
            .node("a", json!({}))
            .pod("agent-old", "a", old())
            .pod("agent-new", "a", ready_since(ready))
            .node("b", json!({}))
            .pod("agent-b", "b", old())
    };
    let just_now = status(surging("11:59:55"));
    assert_eq!((just_now.verdict, just_now.stalled_since), (Verdict::Progressing, None));
    let missed = status(surging("11:59:40"));
    assert_eq!(missed.verdict, Verdict::Blocked);
    assert_eq!(missed.stalled_since.map(|since| since.to_string()), Some(at("11:59:41")));
    assert_eq!(commands(&missed), ["kubectl delete pod -n default agent-old"]);
    // A pod that is about to become ready makes the controller look again.
    let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let young = json!({"metadata": {"creationTimestamp": at("11:59:58")},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:58")}]}});
    let moving = status(surging("11:59:40").unready_pod("agent-b-new", "b", starting, young));
    assert_eq!((moving.verdict, moving.stalled_since), (Verdict::Progressing, None));
}

/// Three nodes of an Advanced DaemonSet, the last `updated` of which are updated.
fn advanced(rolling: &Value, updated: usize) -> Snapshot {
    let mut world = world().revision("hash2", 2).revision("hash1", 1).daemon_set(json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 3},
    }));
    for (number, node) in ["a", "b", "c"].into_iter().enumerate() {
        let is_old = number < 3 - updated;
        world = world.node(node, json!({"metadata": {"labels": {"stage": if is_old { "late" } else { "early" }}}}));
        world = world.pod(&format!("agent-{node}"), node, if is_old { old() } else { json!({}) });
    }
    let mut snapshot = world.finish();
    snapshot.advanced_daemon_sets = std::mem::take(&mut snapshot.daemon_sets);
    snapshot
}

fn advanced_status(rolling: &Value, updated: usize) -> RolloutStatus {
    rollout_status(&advanced(rolling, updated), None).daemon_sets.remove(0)
}

#[test]
fn an_advanced_daemon_set_is_paused_when_it_has_updated_what_it_may() {
    let half_way = advanced_status(&json!({"partition": 1}), 1);
    assert_eq!((half_way.verdict, half_way.next.replace), (Verdict::Progressing, 1));
    assert_eq!((half_way.next.candidates, half_way.retained), (vec!["b".to_owned()], vec!["a".to_owned()]));
    let done = advanced_status(&json!({"partition": 2}), 1);
    assert_eq!(done.verdict, Verdict::Paused);
    assert_eq!(
        commands(&done),
        [
            "kubectl delete pod -n default agent-a",
            "kubectl patch daemonsets.apps.kruise.io --type merge -p \
             '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"partition\":null,\"selector\":null}}}}' -n default agent",
        ]
    );
    let selected = advanced_status(&json!({"selector": {"matchLabels": {"stage": "early"}}}), 1);
    assert_eq!((selected.verdict, selected.retained.len()), (Verdict::Paused, 2));
    let paused = advanced_status(&json!({"paused": true}), 1);
    assert_eq!((paused.verdict, paused.budget.is_none()), (Verdict::Paused, true));
    assert_eq!(commands(&paused)[1], "kubectl ds resume -n default ads/agent");
    assert_eq!(advanced_status(&json!({"partition": 2}), 3).verdict, Verdict::Complete);
    let in_place = advanced_status(&json!({"rollingUpdateType": "InPlaceIfPossible"}), 1);
    assert!(
        in_place.next.in_place && in_place.strategy.to_string() == "RollingUpdate 1 in place",
        "{}",
        in_place.strategy
    );
}
