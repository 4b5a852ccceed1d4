//! Situations of which real clusters have shown that they are easily told wrong.

use serde_json::{Value, json};

use super::rollout_status;
use crate::coverage::test_support::{World, at, world};
use crate::model::snapshot::Snapshot;
use crate::report::reason::ReasonCode;
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

/// Revisions may have been read, or watched, before the controller created the newest one.
#[test]
fn a_template_whose_revision_was_not_read_is_not_rolled_out() {
    let without_revisions = || {
        let mut world = world().node("a", json!({}));
        world.snapshot.controller_revisions.clear();
        world
    };
    let before = without_revisions().revision_of_image("hash1", 1, "agent:1").pod("agent-a", "a", old());
    let before = status(before);
    assert_eq!((before.verdict, before.counts.updated), (Verdict::NotObserved, Some(0)));
    assert_eq!(before.concerns[0].code, ReasonCode::ControllerNotObserved);

    let both = without_revisions().revision_of_image("hash1", 1, "agent:1").revision_of_image("hash2", 2, "agent:2");
    assert_eq!(status(both.pod("agent-a", "a", old())).verdict, Verdict::Progressing);

    // An API server of a later release may add to the live template what the controller's revision lacks.
    let unknown_defaults = without_revisions().revision_of_image("hash2", 2, "agent:1").pod("agent-a", "a", json!({}));
    assert_eq!(status(unknown_defaults).verdict, Verdict::Complete);
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

/// Once its containers are killed, the kubelet still has to clean up.
#[test]
fn a_rollout_waits_for_pods_that_are_a_little_past_their_grace_period() {
    let waiting = |deadline: &str| {
        let mut terminating = old();
        terminating["metadata"]["deletionTimestamp"] = json!(at(deadline));
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2}}))
            .node("a", json!({}))
            .unready_pod("agent-a", "a", json!({}), terminating)
            .node("b", json!({}))
            .pod("agent-b", "b", old());
        status(world)
    };
    let cleaning_up = waiting("11:59:20");
    assert_eq!((cleaning_up.verdict, cleaning_up.causes[0].passing), (Verdict::Progressing, true));
    let stuck = waiting("11:58:50");
    assert_eq!((stuck.verdict, stuck.causes[0].passing), (Verdict::Blocked, false));
}

/// Three nodes became available on the new revision, a quarter of an hour apart from each other; two may be unavailable.
fn with_a_pace() -> World {
    let mut world = world().node("old", json!({})).pod("agent-old", "old", old()).daemon_set(json!({
        "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}}}}));
    for time in ["11:15:00", "11:30:00", "11:45:00"] {
        world = world.node(time, json!({})).pod(&format!("agent-{time}"), time, ready_since(time));
    }
    world.node("starting", json!({})).unready_pod(
        "agent-starting",
        "starting",
        json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
        json!({"metadata": {"creationTimestamp": at("11:58:30")},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:58:30")}]}}),
    )
}

fn crashing(world: World, node: &str) -> World {
    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, crashes, json!({}))
}

/// A node whose old pod is just terminating has no pod either, and nothing refuses its new one.
#[test]
fn pods_that_crash_are_not_refused() {
    let mut terminating = old();
    terminating["metadata"]["deletionTimestamp"] = json!(at("12:00:20"));
    let suspect = |world: World| status(world.node("z", json!({})).pod("agent-z", "z", old())).suspect.unwrap();
    let crash = crashing(world(), "a").node("b", json!({})).pod("agent-b", "b", terminating);
    assert!(!suspect(crash).is_refused);
    let refused =
        world().node("a", json!({})).refusal("pods \"agent-x\" is forbidden: violates PodSecurity \"baseline\"");
    assert!(suspect(refused).is_refused);
}

#[test]
fn there_is_no_time_left_for_what_cannot_go_on() {
    let eta = |world: World| {
        let status = status(world);
        assert_eq!(status.verdict, Verdict::Progressing);
        status.eta.map(|eta| eta.seconds)
    };
    assert_eq!(eta(with_a_pace()), Some(1800));
    // A node that stays as it is does not count.
    assert_eq!(eta(crashing(with_a_pace(), "x")), Some(1800));
    // The old pod waits behind two that stay as they are.
    assert_eq!(eta(crashing(crashing(with_a_pace(), "x"), "y")), None);
    let refused = with_a_pace().node("refused", json!({}));
    assert_eq!(eta(refused.refusal("pods \"agent-x\" is forbidden: exceeded quota: few-pods")), None);
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

/// The scheduler tries again a moment after the taints have gone (`KUBECTL_DS_SEED=500000`, rollout 130).
#[test]
fn a_rollout_waits_for_the_scheduler_to_notice_that_the_taints_are_gone() {
    let waiting = |taints: Value| {
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2}}))
            .node("a", json!({"spec": {"taints": taints}}));
        let message = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
        status(world.pending_pod("agent-new", "a", message, json!({}))).verdict
    };
    assert_eq!(waiting(json!([])), Verdict::Progressing);
    let taint = json!([{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]);
    assert_eq!(waiting(taint), Verdict::Blocked);
}

/// The controller also waits for its pod if the node is no longer eligible (`KUBECTL_DS_SEED=500000`, rollout 146).
#[test]
fn a_surge_waits_for_the_new_pod_of_a_node_that_is_no_longer_eligible() {
    let waiting = |created: &str| {
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let young = json!({"metadata": {"creationTimestamp": at(created)},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(created)}]}});
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2},
                "spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}))
            .node("a", json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}))
            .pod("agent-old", "a", old())
            .unready_pod("agent-new", "a", starting, young)
            .node("b", json!({}))
            .pod("agent-b", "b", json!({}));
        status(world).verdict
    };
    assert_eq!(waiting("11:59:50"), Verdict::Progressing);
    assert_eq!(waiting("11:50:00"), Verdict::Blocked);
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

/// `KUBECTL_DS_SEED=993497318`, rollout 12: 7,229 failed pods within 15 minutes on a node that was ready again, and all the time
/// either the controller was to create the next one, or that was starting.
#[test]
fn a_controller_that_creates_pods_as_fast_as_they_fail_makes_no_progress() {
    let failed = |revision: &Value| {
        let mut pod = revision.clone();
        pod["status"] = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:30")}]});
        pod
    };
    let surging = |world: World| {
        world.revision("hash1", 1).daemon_set(json!({"status": {"observedGeneration": 2},
            "spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}}))
    };
    let revision = json!({"metadata": {"labels": {}}});
    let failing = |number: usize| {
        let world =
            surging(world()).node("b", json!({})).pod("agent-b", "b", old()).pod("agent-b-new", "b", failed(&revision));
        let world = world.node("c", json!({})).pod("agent-c", "c", old()).node("a", json!({}));
        (0..number).fold(world, |world, number| world.pod(&format!("agent-a-{number}"), "a", failed(&revision)))
    };
    assert_eq!(status(failing(2)).verdict, Verdict::Progressing);
    let piling_up = status(failing(3));
    assert_eq!((piling_up.verdict, piling_up.next.create_on.as_slice()), (Verdict::Blocked, &["a".to_owned()][..]));
    let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
    let young = json!({"metadata": {"creationTimestamp": at("11:59:59")},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:59")}]}});
    assert_eq!(status(failing(3).unready_pod("agent-next", "a", starting, young)).verdict, Verdict::Blocked);
    // The budget allows another node.
    let mut roomy = failing(3);
    roomy.snapshot.pods.retain(|pod| pod.metadata.name != "agent-b-new");
    assert_eq!(status(roomy).verdict, Verdict::Progressing);

    let rolled_back = |number: usize| {
        let world = surging(world()).node("a", json!({})).pod("agent-a", "a", json!({}));
        (0..number).fold(world, |world, number| world.pod(&format!("agent-a-{number}"), "a", failed(&old())))
    };
    assert_eq!(status(rolled_back(2)).verdict, Verdict::Progressing);
    let left = status(rolled_back(3));
    assert_eq!(left.verdict, Verdict::Blocked);
    assert_eq!(
        commands(&left),
        [
            "kubectl delete pod --field-selector 'status.phase=Failed' -l 'app=agent,controller-revision-hash=hash1' -n default"
        ]
    );
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
