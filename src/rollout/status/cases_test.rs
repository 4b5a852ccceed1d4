//! Situations of which real clusters have shown that they are easily told wrong.

use serde_json::{Value, json};

use super::rollout_status;
use crate::coverage::test_support::{World, at, world};
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
