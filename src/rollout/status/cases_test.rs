//! Situations that real clusters have shown to be easily misjudged, and those that each rule distinguishes.

use std::collections::BTreeSet;

use serde_json::{Value, from_value, json};

use super::coverage::add_blame;
use super::fault_test::{began, commands, old};
use super::{Question, answer, rollout_status};
use crate::coverage::options::Options;
use crate::coverage::test_support::{World, at, world};
use crate::coverage::walk::coverage;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::snapshot::{Admission, Gap, GapCause, Kind, Snapshot};
use crate::model::written::Written;
use crate::plan::SpecFields;
use crate::report::list::Status;
use crate::report::node_map::MapState;
use crate::report::plan::WarningCode;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{BlockedBy, RolloutStatus, SuspectKind, Verdict};
use crate::rollout::history::histories;
use crate::rollout::set::{SetRequest, set};
use crate::rollout::situation::Situation;
use crate::rollout::undo::undo;

fn status(world: World) -> RolloutStatus {
    rollout_status(&world.finish(), None).daemon_sets.remove(0)
}

fn ready_since(time: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(time)}]}})
}

/// A template's requirement is not the fault of the node, whose other pods run; nor of the revision, if the one before has it, too.
#[test]
fn a_revision_that_kubelets_reject_is_rolled_back() {
    let asking = || {
        let asks = json!({"containers": [{"name": "agent", "image": "agent:2"}], "securityContext":
            {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}});
        with_images(&[("hash1", 1, "agent:1")]).template(asks).revision_of_image("hash2", 2, "agent:2")
    };
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let reasons = ["AppArmor", "PodFeatureUnsupported", "PodLevelResourcesNotSupported", "SysctlForbidden"];
    for (reason, revisions, expected) in
        reasons.into_iter().flat_map(|reason| [(reason, asking(), vec![undo]), (reason, two_revisions(), vec![])])
    {
        let rejected = json!({"phase": "Failed", "reason": reason, "containerStatuses": null, "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]});
        let world =
            with_states(with_strategy(revisions, json!({"rollingUpdate": {"maxUnavailable": 1}})), &["old", "old"]);
        let status = status(world.node("b", json!({})).pod("agent-b", "b", json!({ "status": rejected })));
        assert_eq!(status.verdict, Verdict::Blocked, "{reason}");
        assert_eq!(commands(&status), expected, "{reason}");
    }
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

    // A later API server may add defaults to the live template that the controller's revision lacks.
    let revision = || without_revisions().revision_of_image("hash2", 2, "agent:2").pod("agent-a", "a", json!({}));
    let default = json!({"spec": {"template": {"spec": {"setByALaterServer": true}}}});
    assert_eq!(status(revision().daemon_set(default)).verdict, Verdict::Complete);
}

/// A rolling update also deletes the old pods of nodes that are not eligible, such as those that were tainted since.
#[test]
fn pods_that_will_not_be_recreated_are_told_before_they_are_deleted() {
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
    let world = world().node("a", tainted).pod("agent-a", "a", old()).node("b", json!({})).pod("agent-b", "b", old());
    let next = status(world).next;
    assert_eq!((next.candidates.len(), next.replace), (2, 1));
    assert_eq!(next.not_recreated_on, ["a"]);
}

/// Coverage counts a ready pod as available until it is deleted (`KUBECTL_DS_SEED=2000`, rollout 0).
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

/// After its containers are killed, the kubelet still has to clean up.
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
    assert_eq!((cleaning_up.verdict, cleaning_up.problems[0].passing), (Verdict::Progressing, true));
    let stuck = waiting("11:58:50");
    assert_eq!((stuck.verdict, stuck.problems[0].passing), (Verdict::Blocked, false));
}

#[test]
fn why_the_next_stage_would_get_no_pods_is_told() {
    let quota = "pods \"agent-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3";
    let advice = |refusal: Option<&str>| {
        let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}"});
        let held = on_delete(two_revisions()).daemon_set(json!({"metadata": {"annotations": annotations}}));
        let status = status(with_states(tried(held, refusal, None), &["new", "old", "old"]));
        status.way_out.into_iter().map(|fix| fix.advice).collect::<Vec<_>>()
    };
    let told = advice(Some(quota));
    assert!(told[0].starts_with("a new pod would be refused (QuotaExceeded: exceeded quota q"), "{told:#?}");
    assert!(!advice(None).iter().any(|advice| advice.contains("refused")));
}

/// The victims of a preemption have their grace period, and nothing but their finalizers ends what comes after it.
#[test]
fn a_rollout_waits_for_a_preempted_pod_as_long_as_its_grace_period() {
    let waiting = |deadline: &str| {
        let victim = json!({"metadata": {"deletionTimestamp": at(deadline), "finalizers": ["example.com/hold"]}, "status": {
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}});
        let nominated = json!({"spec": {"priority": 100}, "status": {"nominatedNodeName": "a"}});
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2}}))
            .node("a", json!({}))
            .pending_pod("agent-a", "a", "0/2 nodes are available: 1 Insufficient cpu.", nominated)
            .other_pod("victim", "a", victim)
            .node("b", json!({}))
            .pod("agent-b", "b", old());
        let status = status(world);
        (status.verdict, status.problems[0].code, status.problems[0].passing)
    };
    let waits = ReasonCode::WaitingForPreemption;
    assert_eq!(waiting("12:00:20"), (Verdict::Progressing, waits, true));
    assert_eq!(waiting("11:58:50"), (Verdict::Blocked, waits, false));
}

/// Three nodes became available on the new revision, at intervals of a quarter of an hour; two may be unavailable.
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

/// A node whose old pod is terminating has no pod either, but its new one is not refused.
#[test]
fn pods_that_crash_are_not_refused() {
    let mut terminating = old();
    terminating["metadata"]["deletionTimestamp"] = json!(at("12:00:20"));
    let suspect = |world: World| status(world.node("z", json!({})).pod("agent-z", "z", old())).suspect.unwrap();
    let crash = crashing(world(), "a").node("b", json!({})).pod("agent-b", "b", terminating);
    assert!(!suspect(crash).is_refused);
    let refused = tried(refused(two_revisions()), Some("no"), None);
    assert!(suspect(refused.node("a", json!({}))).is_refused);
}

#[test]
fn there_is_no_time_left_for_what_cannot_go_on() {
    let eta = |world: World| {
        let status = status(world);
        assert_eq!(status.verdict, Verdict::Progressing);
        status.eta.map(|eta| eta.seconds)
    };
    // Of 30 minutes for two nodes, 15 have passed since the last one.
    assert_eq!(eta(with_a_pace()), Some(900));
    // A node that does not change is ignored.
    assert_eq!(eta(crashing(with_a_pace(), "x")), Some(900));
    // So is one whose old pod stays next to a surge pod that does not change.
    let surging = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}}});
    let surging = with_a_pace().daemon_set(surging);
    assert_eq!(eta(with_states(surging, &["old + new crashing"])), Some(900));
    // So is one that a stage keeps as it is.
    let stage = |keep: &str| {
        let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
            "kubectl-ds/held-since": at("11:00:00"), "kubectl-ds/partition": keep});
        let held = json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        with_a_pace().node("kept", json!({})).pod("agent-kept", "kept", old()).daemon_set(held)
    };
    assert_eq!([eta(stage("1")), eta(stage("0"))], [Some(900), Some(1_800)]);
    // The old pod waits for two that do not change.
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

/// The taints are removed a moment after the node has become ready (`KUBECTL_DS_SEED=70001`, rollout 19).
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

/// The scheduler retries a moment after the taints were removed (`KUBECTL_DS_SEED=500000`, rollout 130). Those that the pod tolerates
/// do not matter.
#[test]
fn a_rollout_waits_for_the_scheduler_to_notice_that_the_taints_are_gone() {
    let waiting = |taints: &Value, tolerations: Value| {
        let world = world()
            .daemon_set(json!({"status": {"observedGeneration": 2}}))
            .node("a", json!({"spec": {"taints": taints}}));
        let message = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";
        status(world.pending_pod("agent-new", "a", message, json!({"spec": {"tolerations": tolerations}}))).verdict
    };
    assert_eq!(waiting(&json!([]), json!([])), Verdict::Progressing);
    let taint = json!([{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]);
    assert_eq!(waiting(&taint, json!([{"operator": "Exists"}])), Verdict::Progressing);
    assert_eq!(waiting(&taint, json!([])), Verdict::Blocked);
}

/// So it is with what the scheduler has reported of other pods, volumes or devices, and is no longer true.
#[test]
fn a_rollout_waits_for_the_scheduler_to_notice_that_what_it_reported_is_over() {
    let waiting = |group: &str| {
        let rule = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"group": group}}, "topologyKey": "kubernetes.io/hostname"}]}});
        let other = json!({"metadata": {"labels": {"group": "others"}}});
        let world = world().node("a", json!({})).other_pod("other", "a", other);
        let message = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.";
        status(world.pending_pod("agent-new", "a", message, json!({"spec": {"affinity": rule}}))).verdict
    };
    assert_eq!(waiting("others"), Verdict::Blocked);
    assert_eq!(waiting("gone"), Verdict::Progressing);
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

/// While all old pods are available, rolling back only deletes the surge pods.
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

/// `KUBECTL_DS_SEED=993497318`, rollout 12: 7,229 failed pods within 15 minutes on a node that was ready again; at any
/// time, either the controller was about to create the next one, or that was starting.
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

    // Nor does one created before the node became ineligible.
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
    let young = failed(&json!({"metadata": {"creationTimestamp": at("11:59:30")}}));
    let leaving = world().daemon_set(json!({"spec": {"updateStrategy": surge(1)}})).node("b", json!({}));
    let leaving = leaving.pod("agent-b", "b", old()).node("x", tainted).pod("agent-x", "x", old());
    let leaving = (0..3).fold(leaving, |world, number| world.pod(&format!("agent-x-{number}"), "x", young.clone()));
    assert_eq!(status(leaving).verdict, Verdict::Blocked);

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

/// `KUBECTL_DS_SEED=100`, rollout 16 of the random rollouts: `maxSurge` 1, `minReadySeconds` 1, 3 of 18 nodes updated,
/// and no more progress.
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
    // A pod that is about to become ready triggers another sync.
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

/// Adds nodes `n0`, `n1`, … each with pods in these states, joined by ` + `. A `tainted` node is not eligible but keeps
/// its pod, an `evicting` one does not, and an `unreachable` one has lost contact.
fn with_states(world: World, nodes: &[&str]) -> World {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "dedicated", "effect": effect}]}});
    nodes.iter().enumerate().fold(world, |world, (number, states)| {
        let node = format!("n{number}");
        let object = match states.split(' ').next() {
            Some("tainted") => taint("NoSchedule"),
            Some("evicting") => taint("NoExecute"),
            Some("unreachable") => {
                let unknown = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")}]);
                json!({"status": {"conditions": unknown}})
            }
            _ => json!({}),
        };
        states.split(" + ").fold(world.node(&node, object), |world, state| {
            let state = ["tainted ", "evicting ", "unreachable "].into_iter().fold(state, str::trim_start_matches);
            // The surge pod is the younger one.
            let (pod, created, mut patch) = match state.starts_with("old") {
                true => (format!("{node}-old"), "11:30:00", old()),
                false => (format!("{node}-new"), "11:40:00", json!({})),
            };
            patch["metadata"]["creationTimestamp"] = json!(at(created));
            match state {
                "old" | "new" => world.pod(&pod, &node, patch),
                "old crashing" | "new crashing" => {
                    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
                    world.unready_pod(&pod, &node, crashes, patch)
                }
                "new starting" => {
                    patch["metadata"]["creationTimestamp"] = json!(at("11:59:55"));
                    patch["status"]["conditions"] =
                        json!([{"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:55")}]);
                    let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
                    world.unready_pod(&pod, &node, starting, patch)
                }
                "new terminating" => {
                    patch["metadata"]["deletionTimestamp"] = json!(at("12:00:20"));
                    world.pod(&pod, &node, patch)
                }
                "no pod" => world,
                state => panic!("{state}"),
            }
        })
    })
}

/// The DaemonSet of `agent:2` with the revisions of these images, the last of which is the current one.
fn with_images(revisions: &[(&str, i64, &str)]) -> World {
    let mut world = world();
    world.snapshot.controller_revisions.clear();
    revisions.iter().fold(world, |world, (hash, number, image)| world.revision_of_image(hash, *number, image))
}

fn two_revisions() -> World {
    with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")])
}

fn with_strategy(world: World, strategy: Value) -> World {
    world.daemon_set(json!({"spec": {"updateStrategy": strategy}}))
}

fn on_delete(world: World) -> World {
    with_strategy(world, json!({"type": "OnDelete"}))
}

fn surge(number: usize) -> Value {
    json!({"rollingUpdate": {"maxSurge": number, "maxUnavailable": 0}})
}

fn refused(world: World) -> World {
    world.refusal("pods \"agent-x\" is forbidden: violates PodSecurity \"restricted:latest\": privileged")
}

/// Adds the API server's answers to dry runs of pods of the current and the previous revision.
fn tried(mut world: World, current: Option<&str>, before: Option<&str>) -> World {
    for (hash, refusal) in [("hash2", current), ("hash1", before)] {
        let (daemon_set_uid, hash) = ("agent-uid".to_owned(), hash.to_owned());
        world.snapshot.admissions.push(Admission {
            daemon_set_uid,
            hash,
            refusal: refusal.map(str::to_owned),
            lacks: Vec::new(),
        });
    }
    world
}

#[test]
fn why_surge_pods_are_refused_is_told_though_every_old_pod_is_available() {
    let status_of = |world: World| status(with_states(with_strategy(refused(world), surge(1)), &["old", "old"]));
    let blocked = status_of(two_revisions());
    assert_eq!((blocked.verdict, blocked.creation_accepted), (Verdict::Blocked, None));
    let causes: Vec<_> = blocked.problems.iter().map(|cause| (cause.code, cause.nodes.len())).collect();
    assert_eq!(causes, [(ReasonCode::PodSecurityDenied, 2)]);
    assert_eq!(commands(&blocked), [""; 0]);
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    assert_eq!(commands(&status_of(tried(two_revisions(), Some("no"), None))), [undo]);
    let fixed = status_of(tried(two_revisions(), None, None));
    assert_eq!(fixed.creation_accepted, Some(true));
    assert!(
        fixed.problems[0].message.starts_with("the API server accepts such a pod now"),
        "{}",
        fixed.problems[0].message
    );
}

/// Nobody has asked the API server about pods of the older revision.
#[test]
fn pods_that_are_refused_for_what_only_this_revision_has_are_rolled_back() {
    let baseline =
        |why: &str| format!("pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": {why}");
    let constraint = |why: &str| {
        let other = "provider \"privileged\": Forbidden: not usable by user or serviceaccount";
        format!(
            "pods \"agent-x\" is forbidden: unable to validate against any security context constraint: [{why}, {other}]"
        )
    };
    let volume = || json!({"volumes": [{"name": "host", "hostPath": {"path": "/var"}}]});
    let ports = || json!({"containers": [{"name": "agent", "image": "agent:2", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let of_volume = baseline("hostPath volumes (volume \"host\")");
    let both = baseline("host namespaces (hostNetwork=true), hostPath volumes (volume \"host\")");
    let restricted =
        of_volume.replace(")", "), restricted volume types (volume \"host\" uses restricted volume type \"hostPath\")");
    let of_path = |path: &str| json!({"volumes": [{"name": "files", "hostPath": {"path": path}}]});
    let webhook = |why: &str| format!("admission webhook \"pods.example.com\" denied the request: {why}");
    let of_webhook = webhook("hostPath volume with '/etc/agent' is not allowed");
    let of_policy =
        "pods \"agent-x\" is forbidden: ValidatingAdmissionPolicy 'paths' with binding 'all' denied request: \
                     /etc/agent is not allowed"
            .to_owned();
    let of_class = "pods \"agent-x\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In \
                    [system-node-critical system-cluster-critical]}]"
        .to_owned();
    let negative = of_volume.replace(")", "), runAsNonRoot != true (pod must set securityContext.runAsNonRoot=true)");
    for (before, current, message, is_rolled_back) in [
        (json!({}), volume(), &of_volume, true),
        (json!({}), volume(), &restricted, true),
        (
            json!({"hostNetwork": false}),
            json!({"hostNetwork": true}),
            &baseline("host namespaces (hostNetwork=true)"),
            true,
        ),
        (json!({}), ports(), &baseline("hostPort (container \"agent\" uses hostPort 80)"), true),
        (
            json!({}),
            volume(),
            &constraint("spec.volumes[0]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used"),
            true,
        ),
        (
            json!({}),
            json!({"hostPID": true}),
            &"Pod \"agent-x\" is invalid: spec.hostPID: Forbidden: no".to_owned(),
            true,
        ),
        // Whoever wrote the webhook, the policy or the quota quotes what it is about.
        (json!({}), of_path("/etc/agent"), &of_webhook, true),
        (json!({}), of_path("/etc/agent"), &of_policy, true),
        (json!({}), json!({"priorityClassName": "system-node-critical"}), &of_class, true),
        (of_path("/etc/agent"), json!({"hostPID": true}), &of_webhook, false),
        (json!({}), of_path("/etc/other"), &of_webhook, false),
        (json!({}), volume(), &webhook("image agent:2 has no signature"), false),
        // The older revision has it, too, or has a part of it.
        (volume(), json!({"hostPID": true}), &of_volume, false),
        (json!({"hostNetwork": true}), volume(), &both, false),
        // Admission has added it.
        (json!({}), json!({"hostPID": true}), &of_volume, false),
        // What pods lack, others may lack, too.
        (json!({}), volume(), &negative, false),
        (json!({}), volume(), &"admission webhook \"a.example.com\" denied the request: no hostPath".to_owned(), false),
    ] {
        let expected = if is_rolled_back {
            vec!["kubectl ds undo --to-revision 1 -n default agent".to_owned()]
        } else {
            Vec::new()
        };
        for states in [&["old", "old", "no pod"][..], &["no pod", "no pod"]] {
            let mut world = world().template(before.clone());
            world.snapshot.controller_revisions.clear();
            let world = world.revision_of_image("hash1", 1, "agent:1").template(current.clone());
            let world = with_states(world.revision_of_image("hash2", 2, "agent:2"), states).refusal(message);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let told = rollout_status(&snapshot, None).daemon_sets.remove(0);
            // Without an older pod that is available, nothing shows that its revision worked.
            let expected = if states.contains(&"old") { expected.clone() } else { Vec::new() };
            assert_eq!(commands(&told), expected, "{message} {states:?}");
            let faults = told.faults.unwrap();
            assert_eq!(faults.revision > 0, is_rolled_back, "{faults:?} {message} {states:?}");
            // Undoing it gives the nodes their pods.
            let back = undo(&situation, Some(1)).unwrap().report;
            let is_warned = back.warnings.iter().any(|warning| warning.code == WarningCode::CreationRefused);
            let gained = back.effect.unwrap().nodes_gained.len();
            let waiting = states.iter().filter(|state| **state == "no pod").count();
            assert_eq!((is_warned, gained), if is_rolled_back { (false, waiting) } else { (true, 0) }, "{message}");
        }
    }
}

#[test]
fn a_kind_of_node_on_which_the_only_revision_fails_is_named() {
    let one: &[_] = &[("hash2", 1, "agent:2")];
    let two: &[_] = &[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")];
    for (revisions, failing, working, field, is_named) in [
        (one, 3, 3, "architecture", true),
        (one, 1, 3, "architecture", true),
        (one, 2, 2, "kernelVersion", true),
        // A single node may differ from all others by chance.
        (one, 1, 3, "kernelVersion", false),
        (one, 3, 1, "kernelVersion", false),
        (two, 3, 3, "architecture", false),
    ] {
        let states = [vec!["new crashing"; failing], vec!["new"; working]].concat();
        let mut world = with_states(with_images(revisions), &states);
        for (number, node) in world.snapshot.nodes.iter_mut().enumerate() {
            let value = if number < failing { "one" } else { "other" };
            node.status.node_info = from_value(json!({ field: value })).unwrap();
        }
        let suspect = status(world).suspect;
        let on = suspect.as_ref().and_then(|suspect| suspect.on.as_ref()).map(|on| on.value.as_str());
        assert_eq!(on, is_named.then_some("one"), "{failing} {working} {field} {suspect:?}");
        assert!(!is_named || suspect.unwrap().what == SuspectKind::Nodes);
    }
}

#[test]
fn another_revision_is_not_said_to_fix_what_admission_makes_of_pods() {
    let limited = |memory: &str| json!({"containers": [{"name": "agent", "image": "agent:2", "resources": {"limits": {"memory": memory}}}]});
    for (made, is_told) in [("64Mi", true), ("1Gi", false)] {
        let mut world = world().template(limited("1Gi"));
        world.snapshot.controller_revisions.clear();
        let world = world.revision_of_image("hash1", 1, "agent:1").revision_of_image("hash2", 2, "agent:2");
        let killed = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at("11:59:00")}}});
        let pod = json!({"metadata": {"creationTimestamp": at("11:40:00")}, "spec": limited(made)});
        let world = with_states(world, &["old", "old"]).node("z", json!({})).unready_pod("agent-z", "z", killed, pod);
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let back = undo(&Situation::new(&index, &snapshot.daemon_sets[0]), Some(1)).unwrap().report;
        let is_warned = back.warnings.iter().any(|it| it.message.contains("what admission adds to the pods"));
        assert_eq!(is_warned, is_told, "{made}: {:?}", back.warnings);
    }
}

/// Nodes that were upgraded differ from the others in several ways: only what can be why is named, and all of that.
#[test]
fn of_several_differences_between_nodes_those_that_can_be_why_are_named() {
    use crate::report::common_cause::Feature as F;
    let pulls = json!({"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message":
        "Back-off pulling image \"agent:2\": ErrImagePull: media type is no longer supported since containerd v2.1"}}});
    let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let lost = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1,
        "message": "Get \"https://10.96.0.1:443/api/v1/nodes/n\": dial tcp 10.96.0.1:443: i/o timeout", "finishedAt": at("11:59:00")}}});
    let all = ["kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"];
    for (state, fields, expected) in [
        (&pulls, &all[..], vec![F::ContainerRuntime, F::KubeletVersion]),
        (&pulls, &all[..2], vec![]),
        (&pulls, &["architecture", "osImage", "containerRuntimeVersion"], vec![F::Architecture]),
        (&crashes, &all[..], vec![F::OsImage, F::KernelVersion, F::ContainerRuntime, F::KubeletVersion]),
        (&crashes, &all[..1], vec![F::KernelVersion]),
        (&lost, &all[..], vec![]),
        // Neither of these is what programs depend on.
        (&crashes, &all[2..], vec![]),
        (&crashes, &["architecture", "kernelVersion"], vec![F::Architecture]),
    ] {
        let mut world = with_states(
            with_images(&[("hash2", 1, "agent:2")]),
            &["new crashing", "new crashing", "new crashing", "new", "new", "new"],
        );
        for pod in world.snapshot.pods.iter_mut().take(3) {
            let mut status = state.clone();
            status["name"] = json!("agent");
            pod.status.container_statuses = from_value(json!([status])).unwrap();
        }
        for (number, node) in world.snapshot.nodes.iter_mut().enumerate() {
            let value = if number < 3 { "one" } else { "other" };
            let info: serde_json::Map<String, Value> =
                fields.iter().map(|field| ((*field).to_owned(), json!(value))).collect();
            node.status.node_info = from_value(Value::Object(info)).unwrap();
        }
        let suspect = status(world).suspect;
        let kinds = suspect.iter().flat_map(|suspect| suspect.on.iter().chain(&suspect.also));
        let named: Vec<F> = kinds.map(|kind| kind.feature).collect();
        assert_eq!(named, expected, "{state} {fields:?}");
    }
}

#[test]
fn nodes_that_are_ready_are_not_called_down() {
    let rejected = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough \
        resource: cpu, requested: 100, used: 4000, capacity: 4000", "conditions": [], "containerStatuses": []}});
    let nodes = || with_states(with_images(&[("hash2", 1, "agent:2")]), &["new", "new"]);
    let ready = nodes().node("z", json!({})).pod("agent-z", "z", rejected.clone());
    let down = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:00:00")}]}});
    let down = nodes().node("z", down).pod("agent-z", "z", rejected);
    for (world, expected) in [(ready, false), (down, true)] {
        let told = status(world);
        assert_eq!(told.faults.map(|faults| faults.node), Some(1), "{told:?}");
        assert_eq!(told.status == Status::NodesDown, expected, "{told:?}");
    }
}

/// Without surge, the old pod is deleted first, and the quota admits the new one: the API server counts it from then on.
#[test]
fn a_surge_that_a_quota_stops_continues_without_surge_if_the_old_pods_free_enough() {
    let commands_of = |resource: &str, used: &str, old: Value, states: &[&str]| {
        let message = format!(
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: {resource}=1, used: {resource}={used}, limited: {resource}=2"
        );
        let mut world = with_states(with_strategy(two_revisions().refusal(&message), surge(1)), states);
        for pod in &mut world.snapshot.pods {
            pod.spec.containers = serde_json::from_value(old.clone()).unwrap();
        }
        let status = status(world);
        (status.verdict, commands(&status))
    };
    let same = || json!([{"name": "agent", "image": "agent:2"}]);
    let smaller = json!([{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": "1"}}}]);
    let without_surge = vec!["kubectl ds set --max-unavailable 1 -n default agent".to_owned()];
    for resource in ["pods", "count/pods", "requests.cpu"] {
        let told = commands_of(resource, "2", same(), &["old", "old"]);
        assert_eq!(told, (Verdict::Blocked, without_surge.clone()), "{resource}");
    }
    let nothing = (Verdict::Blocked, Vec::new());
    assert_eq!(commands_of("requests.cpu", "2", smaller, &["old", "old"]), nothing, "another request");
    assert_eq!(commands_of("pods", "3", same(), &["old", "old"]), nothing, "overdrawn");
    assert_eq!(commands_of("pods", "2", same(), &["old", "old", "no pod"]), nothing, "a node waits for its first pod");
}

#[test]
fn the_revision_that_is_asked_about_is_the_current_one_or_not() {
    let snapshot = with_states(world(), &["new"]).finish();
    let current = |number| rollout_status(&snapshot, Some(number)).daemon_sets[0].requested.and_then(|it| it.current);
    assert_eq!((current(2), current(1)), (Some(true), Some(false)));
}

#[test]
fn pods_of_another_template_that_count_as_updated_by_their_generation_are_told() {
    let revisions = [("hash1", 1, "agent:1"), ("twin", 2, "agent:2"), ("hash2", 3, "agent:2")];
    let pod = |world: World, node: &str, labels: Value| {
        world.node(node, json!({})).pod(&format!("agent-{node}"), node, json!({"metadata": {"labels": labels}}))
    };
    let world = pod(with_images(&revisions), "current", json!({}));
    let world = pod(world, "other", json!({"controller-revision-hash": "hash1"}));
    let world = pod(world, "unknown", json!({"controller-revision-hash": "gone"}));
    let world = pod(world, "same", json!({"controller-revision-hash": "twin"}));
    let world = pod(world, "outdated", json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"}));
    let tainted = json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}});
    let world = world.node("tainted", tainted);
    let labels = json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}}});
    assert_eq!(status(world.pod("agent-tainted", "tainted", labels)).counted_by_generation, ["other", "unknown"]);
    assert!(status(with_states(crate::coverage::test_support::world(), &["new"])).counted_by_generation.is_empty());
}

#[test]
fn a_map_has_the_restarts_of_each_pod_and_the_reason_where_none_is_available() {
    let statuses = |restarts: i64| json!([{"name": "agent", "ready": true, "started": true, "restartCount": restarts}]);
    let restarted = json!({"status": {"initContainerStatuses": statuses(1), "containerStatuses": statuses(2)}});
    let young = json!({"metadata": {"creationTimestamp": at("11:59:55")}});
    let world = with_states(world(), &["new crashing", "new", "old"]).node("restarted", json!({})).node("young", young);
    let snapshot = world.pod("agent", "restarted", restarted).finish();
    let map = answer(&snapshot, &Question { map_label: Some("zone"), ..Question::default() })
        .daemon_sets
        .remove(0)
        .map
        .unwrap();
    let nodes: Vec<_> = map.groups[0].nodes.iter().map(|it| (it.state, it.restarts, it.reason, it.since)).collect();
    let since = Some(at("11:50:00").parse().unwrap());
    assert_eq!(
        nodes,
        [
            (MapState::Failing, 9, Some(ReasonCode::CrashLooping), since),
            (MapState::Updated, 0, None, None),
            (MapState::Old, 0, None, None),
            (MapState::Updated, 3, None, None),
            (MapState::NoPod, 0, Some(ReasonCode::CreatePending), None),
        ]
    );
}

#[test]
fn a_rollout_that_is_blocked_says_by_what() {
    let silent = |mut world: World| {
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at("11:48:00"), "leaseDurationSeconds": 15}});
        world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
        world
    };
    let surging = |states: &[&str]| with_states(with_strategy(world(), surge(1)), states);
    let missed = with_strategy(world(), surge(1)).daemon_set(json!({"spec": {"minReadySeconds": 1}}));
    let missed = missed.node("a", json!({})).pod("agent-old", "a", old());
    let is_refused = &["no pod", "old", "old"];
    let protected = |refused: &str, deleted: Option<&str>| {
        let world = with_states(two_revisions(), &["old", "old"]);
        let message =
            "Error deleting: pods \"n0-old\" is forbidden: ValidatingAdmissionPolicy 'protect' denied request";
        let world = world.event("DaemonSet", "agent", "FailedDelete", message, refused);
        deleted
            .into_iter()
            .fold(world, |world, at| world.event("DaemonSet", "agent", "SuccessfulDelete", "Deleted pod: agent-1", at))
    };
    // One was deleted since, or the controller would have tried again, or its clock is wrong.
    for (refused, deleted) in [("11:58:00", Some("11:59:00")), ("11:20:00", None), ("12:05:00", None)] {
        let status = status(protected(refused, deleted));
        assert_eq!((status.verdict, status.concerns.len()), (Verdict::Progressing, 0));
    }
    // The pod is gone, whoever has deleted it, or one of a message that names none was replaced.
    let gone = protected("11:59:00", None).finish();
    let mut replaced = gone.clone();
    let unnamed = "Error deleting: admission webhook \"protect\" denied the request";
    replaced.events.iter_mut().for_each(|event| unnamed.clone_into(&mut event.message));
    let kept = replaced.clone();
    replaced.pods[1].metadata.creation_timestamp = serde_json::from_value(json!(at("11:59:30"))).unwrap();
    let mut gone_of_name = gone.clone();
    gone_of_name.events[0].message = gone.events[0].message.replace("n0-old", "n0-former");
    for (snapshot, is_told) in [(gone, true), (gone_of_name, false), (kept, true), (replaced, false)] {
        let concerns = rollout_status(&snapshot, None).daemon_sets.remove(0).concerns;
        assert_eq!(!concerns.is_empty(), is_told, "{concerns:?} {:?}", snapshot.events);
    }
    let concern = &status(protected("11:59:00", None)).concerns[0];
    assert_eq!(concern.code, ReasonCode::DeletionRefused);
    // The API server fails as it does when pods are to be created.
    for (message, advice) in [
        ("Unauthorized", "check kube-apiserver"),
        ("Timeout: request did not complete within requested timeout - context deadline exceeded", "is slow"),
        ("etcdserver: mvcc: database space exceeded", "etcdctl alarm disarm"),
        ("the server is currently unable to handle the request (delete pods n0-old)", "check kube-apiserver"),
        ("Operation cannot be fulfilled on pods \"n0-old\": the object has been modified", "passes by itself"),
        ("Internal error occurred: admission plugin \"X\" failed to complete delete in 13s", "check kube-apiserver"),
        (
            "pods \"n0-old\" is forbidden: User \"x\" cannot delete resource \"pods\" in API group \"\"",
            "lacks a permission",
        ),
        ("pods \"n0-old\" is forbidden: not yet ready to handle request", "check kube-apiserver"),
        ("admission webhook \"protect\" denied the request: no", "correct the policy or webhook"),
    ] {
        let mut failed = protected("11:59:00", None).finish();
        failed.events[0].message = format!("Error deleting: {message}");
        let status = rollout_status(&failed, None).daemon_sets.remove(0);
        assert_eq!(status.blocked_by, Some(BlockedBy::DeletionRefused), "{message}");
        let concern = &status.concerns[0];
        assert_eq!(concern.code, ReasonCode::DeletionRefused, "{message}");
        assert!(concern.fix.advice.contains(advice), "{message}: {}", concern.fix.advice);
    }
    let concern = &status(protected("11:59:00", None)).concerns[0];
    assert!(concern.message.contains("ValidatingAdmissionPolicy 'protect'"), "{}", concern.message);
    // To raise the budget lets the controller delete no pod either.
    let failed = json!({"status": {"phase": "Failed"}});
    let held_up = status(protected("11:59:00", None).pod("agent-failed", "n0", failed));
    let way_out: Vec<String> = held_up.way_out.iter().map(|fix| fix.command.as_ref().unwrap().to_string()).collect();
    assert_eq!((held_up.verdict, way_out), (Verdict::Blocked, vec!["kubectl ds retry -n default agent".to_owned()]));
    // What has refused may have been removed since.
    assert!(concern.message.contains("refused to") && concern.message.contains("next try"), "{}", concern.message);
    // No node lacks its pod.
    let surge_refused = || refused(surging(&["old", "old"]));
    let coverage = surge_refused().coverage().concerns;
    assert_eq!(coverage.iter().map(|concern| concern.code).collect::<Vec<_>>(), [ReasonCode::PodSecurityDenied]);
    let refused_surge = status(surge_refused());
    assert!(refused_surge.problems[0].is_told_by(&refused_surge.concerns), "{refused_surge:?}");
    // An old pod is left of a deleted node, and the last change before that was then.
    let orphan = |world: World, changed: &str| {
        world.pod("agent-gone", "gone", old()).event("DaemonSet", "agent", "SuccessfulCreate", "Created", changed)
    };
    for (world, by) in [
        (missed.pod("agent-new", "a", ready_since("11:59:40")), BlockedBy::MissedSurgePods),
        (silent(with_states(world(), &["new crashing", "old"])), BlockedBy::ControllerDown),
        (with_states(tried(refused(two_revisions()), None, None), is_refused), BlockedBy::CreationBackoff),
        (with_states(tried(refused(two_revisions()), Some("no"), None), is_refused), BlockedBy::CreationRefused),
        (with_states(refused(two_revisions()), is_refused), BlockedBy::CreationRefused),
        (protected("11:59:00", None), BlockedBy::DeletionRefused),
        (
            surging(&["old + new", "old"]).event(
                "DaemonSet",
                "agent",
                "FailedDelete",
                "Error deleting: pods \"n0-old\" is forbidden: ValidatingAdmissionPolicy 'protect' denied request",
                "11:59:00",
            ),
            BlockedBy::DeletionRefused,
        ),
        (with_states(world(), &["new crashing", "new", "new", "old"]), BlockedBy::Budget),
        (surging(&["old + new crashing", "old"]), BlockedBy::Budget),
        (orphan(surging(&["old"]), "11:57:59"), BlockedBy::NodeNotFound),
        (with_states(world(), &["new crashing", "new crashing"]), BlockedBy::UnavailablePods),
    ] {
        let status = status(world);
        assert_eq!((status.verdict, status.blocked_by), (Verdict::Blocked, Some(by)));
    }
    // The pod garbage collector is about to delete it.
    assert_eq!(status(orphan(surging(&["old"]), "11:58:01")).verdict, Verdict::Progressing);
    assert_eq!(status(silent(orphan(surging(&["old"]), "11:58:01"))).blocked_by, Some(BlockedBy::ControllerDown));
    // The controller of a paused Advanced DaemonSet updates nothing, and no deleted node is the cause.
    let mut paused = with_states(world(), &["new crashing"]).finish();
    let mut object = paused.daemon_sets.remove(0).object;
    object["apiVersion"] = json!("apps.kruise.io/v1beta1");
    object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"paused": true}});
    paused.advanced_daemon_sets.push(DaemonSet::from_object(object).unwrap());
    let paused = rollout_status(&paused, None).daemon_sets.remove(0);
    assert_eq!((paused.verdict, paused.blocked_by), (Verdict::Blocked, Some(BlockedBy::UnavailablePods)));
    assert_eq!(status(with_states(world(), &["old"])).blocked_by, None);
}

/// As if the controller or the scheduler were down, whose lease was not read.
#[test]
fn a_rollout_in_which_nothing_has_happened_for_more_than_an_hour_does_not_progress() {
    let later = |world: World, minutes: i64| {
        let mut snapshot = world.finish();
        snapshot.now += jiff::SignedDuration::from_mins(minutes);
        snapshot
    };
    let status = |snapshot: &Snapshot| rollout_status(snapshot, None).daemon_sets.remove(0);
    let to_schedule =
        || world().node("a", json!({})).pending_pod("agent-a", "a", "0/1 nodes: 1 Too many pods.", json!({}));
    let controller = "kubectl get lease -o yaml -n kube-system kube-controller-manager";
    // The latest known change, at which time of the day.
    for (world, changed, command) in [
        (with_states(world(), &["new", "old"]), "11:40", controller),
        (with_states(world(), &["new", "no pod"]), "11:40", controller),
        (with_states(with_strategy(world(), surge(1)), &["old"]), "11:31", controller),
        (
            with_states(world(), &["new", "old"]).event(
                "DaemonSet",
                "agent",
                "SuccessfulCreate",
                "Created",
                "11:45:00",
            ),
            "11:45",
            controller,
        ),
        (to_schedule(), "11:57", "kubectl get lease -o yaml -n kube-system kube-scheduler"),
    ] {
        let minute: i64 = changed[3..].parse().unwrap();
        let mut snapshot = later(world, minute);
        let progressing = status(&snapshot);
        assert_eq!((progressing.verdict, progressing.blocked_by), (Verdict::Progressing, None), "{changed}");
        snapshot.now += jiff::SignedDuration::from_mins(1);
        let stuck = status(&snapshot);
        assert_eq!((stuck.verdict, stuck.blocked_by), (Verdict::Blocked, Some(BlockedBy::NoProgress)), "{changed}");
        assert_eq!(commands(&stuck), [command]);
        assert!(stuck.lacks.unwrap().contains("kube-controller-manager"));
        // A node may have become eligible since, which only its writers tell.
        let missing = stuck
            .problems
            .iter()
            .flat_map(|problem| &problem.nodes)
            .chain(stuck.outdated.iter().flat_map(|old| &old.nodes));
        for node in missing.cloned().collect::<BTreeSet<_>>() {
            let written = Written {
                manager: None,
                at: snapshot.now,
                applied: false,
                labels: Vec::new().into(),
                spec: Vec::new(),
            };
            snapshot.node_writes.insert(node, vec![written]);
        }
        assert_eq!(status(&snapshot).verdict, Verdict::Progressing, "{changed}");
    }
    // A pod that becomes available merely by the passage of time, and one with a long grace period.
    let slow = with_states(with_strategy(world(), json!({"rollingUpdate": {"maxUnavailable": 1}})), &["new", "old"]);
    let slow = later(slow.daemon_set(json!({"spec": {"minReadySeconds": 36_000}})), 120);
    assert_eq!(status(&slow).verdict, Verdict::Progressing);
}

#[test]
fn a_container_that_admission_adds_is_not_helped_by_another_revision() {
    let told = |name: &str, own_crashes: bool, template: Value| {
        let crashes = |name: &str| {
            json!({"name": name, "restartCount": 9, "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:59:00")}}})
        };
        let own = if own_crashes {
            crashes("agent")
        } else {
            json!({"name": "agent", "ready": true, "state": {"running": {}}})
        };
        let pod = json!({
            "metadata": {"creationTimestamp": at("11:40:00")},
            "spec": {"containers": [{"name": "agent", "image": "agent:2"}, {"name": name, "image": "proxy:1"}]},
            "status": {"containerStatuses": [own, crashes(name)]},
        });
        let world = with_states(
            with_strategy(two_revisions(), json!({"rollingUpdate": {"maxUnavailable": 2}})),
            &["old", "old"],
        );
        let world = ["b", "c"].iter().fold(world, |world, node| {
            world.node(node, json!({})).unready_pod(&format!("agent-{node}"), node, json!({}), pod.clone())
        });
        let snapshot = world.daemon_set(json!({"spec": {"template": template}})).finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let warnings = undo(&situation, Some(1)).unwrap().report.warnings;
        let is_warned = warnings.iter().any(|warning| warning.message.starts_with(&format!("container {name} fails")));
        let offers =
            commands(&rollout_status(&snapshot, None).daemon_sets[0]).iter().any(|command| command.contains("undo"));
        (is_warned, offers)
    };
    let same = || json!({});
    assert_eq!(told("istio-proxy", false, same()), (true, false));
    assert_eq!(told("vault-agent", false, same()), (true, false));
    // Each may be the cause.
    assert!(!told("istio-proxy", true, same()).0);
    assert!(!told("agent", false, same()).0);
    // The revision may be why it is added.
    let injects = json!({"metadata": {"annotations": {"vault.hashicorp.com/agent-inject": "true"}}});
    assert!(!told("vault-agent", false, injects).0);
    assert!(!told("istio-proxy", false, json!({"metadata": {"labels": {"sidecar.istio.io/inject": "true"}}})).0);
    assert!(!told("proxy", false, json!({"spec": {"serviceAccountName": "meshed"}})).0);
}

#[test]
fn nodes_whose_pods_are_refused_or_fail_one_after_the_other_have_none_for_at_least_as_long_as_events_tell() {
    let first = |mut world: World, time: &str| {
        world.snapshot.events.iter_mut().for_each(|event| event.first_timestamp = from_value(json!(at(time))).unwrap());
        world
    };
    let young = json!({"metadata": {"creationTimestamp": at("11:45:00")}});
    let found = "Found failed daemon pod default/agent-1 on node a, will try to kill it";
    let failing = |node: Value, message: &str| {
        let failed = json!({"metadata": {"creationTimestamp": at("11:59:30")}, "status": {"phase": "Failed", "reason": "Rejected",
            "containerStatuses": null, "conditions": null}});
        let world = two_revisions().node("a", node).pod("agent-a", "a", failed);
        first(world.event("DaemonSet", "agent", "FailedDaemonPod", message, "11:59:30"), "11:10:00")
    };
    let other = found.replace("node a", "node b");
    for (world, expected) in [
        // The last one was created at 11:40:00.
        (first(with_states(refused(two_revisions()), &["no pod", "new"]), "11:50:00"), ("11:50:00", true)),
        (first(with_states(refused(two_revisions()), &["no pod", "new"]), "11:20:00"), ("11:40:00", true)),
        (first(refused(two_revisions()).node("a", young.clone()), "11:20:00"), ("11:45:00", true)),
        // What was refused, or has failed, before the rollout may have been another pod; this one was deleted.
        (
            began(first(with_states(refused(two_revisions()), &["no pod", "new"]), "11:50:00"), "11:55:00"),
            ("11:55:00", true),
        ),
        (
            first(with_states(refused(two_revisions()), &["no pod", "new"]), "11:50:00").event(
                "DaemonSet",
                "agent",
                "SuccessfulDelete",
                "Deleted pod: agent-n0",
                "11:57:00",
            ),
            ("11:57:00", true),
        ),
        (began(failing(json!({}), found), "11:20:00"), ("11:20:00", true)),
        (failing(json!({}), found), ("11:10:00", true)),
        (failing(young, found), ("11:45:00", true)),
        (failing(json!({}), &other), ("11:59:30", false)),
    ] {
        let status = status(world);
        let problem = &status.problems[0];
        assert_eq!((problem.since.unwrap(), problem.since_at_latest), (at(expected.0).parse().unwrap(), expected.1));
    }
}

/// Upstream's `rollingUpdate` returns an error in this case.
#[test]
fn a_surge_is_stopped_by_the_old_pod_of_a_node_that_is_gone() {
    let surging = with_states(with_strategy(world(), surge(1)), &["old"]);
    let stopped = status(surging.pod("agent-gone", "gone", old()));
    assert_eq!(stopped.verdict, Verdict::Blocked);
    let causes: Vec<_> =
        stopped.problems.iter().map(|cause| (cause.code, cause.nodes.as_slice(), cause.passing)).collect();
    assert_eq!(causes, [(ReasonCode::OrphanedTarget, &["gone".to_owned()][..], false)]);
    // No kubelet would confirm the deletion, so `kubectl delete pod` would wait for the garbage collector, too.
    assert_eq!(commands(&stopped), [""; 0]);
}

/// It counts against the budget, and the garbage collector can do no more, or is not running.
#[test]
fn the_pod_of_a_node_that_is_gone_is_no_progress_if_nothing_deletes_it() {
    let kept = |deleted: &str, finalizers: &Value| {
        let pod = json!({"metadata": {"deletionTimestamp": at(deleted), "finalizers": finalizers}});
        let world =
            with_states(with_strategy(world(), json!({"rollingUpdate": {"maxUnavailable": 1}})), &["old", "old"]);
        status(world.pod("agent-gone", "gone", pod))
    };
    let (held, free) = (json!(["example.com/hold"]), json!([]));
    for (deleted, finalizers) in [("11:59:50", &held), ("11:58:30", &free)] {
        assert_eq!(kept(deleted, finalizers).verdict, Verdict::Progressing);
    }
    for (deleted, finalizers) in [("11:58:30", &held), ("11:50:00", &free)] {
        let stuck = kept(deleted, finalizers);
        assert_eq!((stuck.verdict, stuck.blocked_by), (Verdict::Blocked, Some(BlockedBy::Budget)));
        assert_eq!(commands(&stuck), ["kubectl ds set --max-unavailable 2 -n default agent"]);
    }
}

/// It is ready until its containers have ended, which may take long.
#[test]
fn a_pod_that_a_rollout_waits_for_until_it_is_gone_is_named() {
    for (states, strategy, deleted, expected) in [
        (&["new", "old"][..], json!({"rollingUpdate": {"maxUnavailable": 1}}), &["n1-old"][..], Some("pod n1-old is ")),
        (&["new", "old + new"], surge(1), &["n1-old"], Some("pod n1-old is ")),
        (
            &["old", "old"],
            json!({"rollingUpdate": {"maxUnavailable": 2}}),
            &["n0-old", "n1-old"],
            Some("the last one, pod n1-old on n1, is "),
        ),
        (&["new", "old"], json!({"rollingUpdate": {"maxUnavailable": 1}}), &[], None),
    ] {
        let mut snapshot = with_states(with_strategy(two_revisions(), strategy), states).finish();
        for (minute, name) in deleted.iter().enumerate() {
            let pod = snapshot.pods.iter_mut().find(|pod| pod.metadata.name == *name).unwrap();
            pod.metadata.deletion_timestamp = from_value(json!(at(&format!("12:2{minute}:00")))).unwrap();
            pod.metadata.deletion_grace_period_seconds = Some(1_800);
        }
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let ending: Vec<_> = status.problems.iter().filter(|it| it.code == ReasonCode::Terminating).collect();
        let Some(expected) = expected else {
            assert!(ending.is_empty(), "{ending:?}");
            continue;
        };
        let [ending] = ending[..] else { panic!("{states:?} {:?}", status.problems) };
        let until = format!("{expected}terminating until 2026-03-01 12:2{}:00 UTC at the latest", deleted.len() - 1);
        assert_eq!(ending.message, until);
        assert_eq!(
            (ending.count, ending.passing, ending.since),
            (deleted.len(), true, Some(at("11:50:00").parse().unwrap()))
        );
        assert!(status.budget.iter().flat_map(|budget| &budget.by).all(|by| by.code == ReasonCode::Terminating));
    }
}

#[test]
fn what_happens_on_nodes_that_are_not_eligible_is_no_progress() {
    let of =
        |strategy: &Value, nodes: &[&str]| status(with_states(with_strategy(world(), strategy.clone()), nodes)).verdict;
    let on_delete = json!({"type": "OnDelete"});
    assert_eq!(of(&on_delete, &["old", "evicting new terminating"]), Verdict::Paused);
    assert_eq!(of(&on_delete, &["old", "new starting"]), Verdict::Progressing);
    assert_eq!(of(&on_delete, &["old", "new"]), Verdict::Paused);
    // Until the pod is deleted, it counts against the budget.
    let one_unavailable = json!({"rollingUpdate": {"maxUnavailable": 1}});
    assert_eq!(of(&one_unavailable, &["old", "evicting new terminating"]), Verdict::Progressing);
    // The controller could delete the old pod of the ineligible node, which does not advance the surge.
    assert_eq!(of(&surge(1), &["old + new crashing", "tainted old"]), Verdict::Blocked);
    assert_eq!(of(&surge(1), &["new", "tainted old"]), Verdict::Progressing);
}

#[test]
fn a_controller_has_missed_nothing_while_it_deletes_other_pods() {
    let missed = |ready: &str, others: &[&str]| {
        let world = with_strategy(world(), surge(1)).daemon_set(json!({"spec": {"minReadySeconds": 1}}));
        let world = world.node("a", json!({})).pod("agent-old", "a", old());
        let status = status(with_states(world.pod("agent-new", "a", ready_since(ready)), others));
        (status.verdict, status.stalled_since.is_some())
    };
    // The pod has been available for 11 s, and for 10 s.
    assert_eq!(missed("11:59:48", &["old"]), (Verdict::Blocked, true));
    assert_eq!(missed("11:59:49", &["old"]), (Verdict::Progressing, false));
    assert_eq!(missed("11:59:40", &["old", "evicting new"]), (Verdict::Progressing, false));
    // A pod that is no longer ready triggers another sync.
    assert_eq!(missed("11:59:40", &["old", "old crashing + new crashing"]), (Verdict::Progressing, false));
}

#[test]
fn a_start_that_takes_too_long_is_no_progress() {
    let starting = |since: &str| {
        let waiting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(since)}]);
        let patch = json!({"metadata": {"creationTimestamp": at(since)}, "status": {"conditions": conditions}});
        let status = status(world().node("a", json!({})).unready_pod("agent-a", "a", waiting, patch));
        (status.verdict, status.problems[0].code)
    };
    assert_eq!(starting("11:50:10"), (Verdict::Progressing, ReasonCode::ContainersStarting));
    assert_eq!(starting("11:50:00"), (Verdict::Blocked, ReasonCode::ContainersStarting));
}

#[test]
fn only_its_own_controller_counts_as_silent() {
    let silent = |mut snapshot: Snapshot| {
        let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
            "spec": {"renewTime": at("11:48:00"), "leaseDurationSeconds": 15}});
        snapshot.leases.push(serde_json::from_value(lease).unwrap());
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let ways = status.way_out.iter().map(|fix| fix.advice.clone()).collect::<Vec<_>>().join("; ");
        let since = status.controller_silent_since.map(|since| since.to_string());
        ((status.verdict, since, status.way_out.len()), ways)
    };
    // A change helps only if a controller reconciles it.
    let blocked = || with_states(world(), &["new crashing", "new", "new", "old"]);
    assert_eq!(status(blocked()).way_out.len(), 1);
    let (blocked, ways) = silent(blocked().finish());
    assert_eq!((blocked, &*ways), ((Verdict::Blocked, Some(at("11:48:00")), 1), "check kube-controller-manager"));
    let fails = with_states(two_revisions(), &["new crashing", "new crashing", "old", "old"]);
    let (_, ways) = silent(fails.finish());
    assert!(ways.ends_with("; to roll back, once kube-controller-manager is back"), "{ways}");
    // That it is held does not hide it: whatever is done then waits for the controller.
    let original = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#});
    let held = on_delete(with_states(two_revisions(), &["new", "old", "old"]));
    let (held, ways) = silent(held.daemon_set(json!({"metadata": {"annotations": original}})).finish());
    assert_eq!((held.0, ways.split("; ").next()), (Verdict::Paused, Some("check kube-controller-manager")));
    assert!(ways.split("; ").skip(1).all(|way| way.ends_with(", once kube-controller-manager is back")), "{ways}");
    assert!(held.2 > 1, "{ways}");
    let silent = |snapshot| silent(snapshot).0;
    assert_eq!(silent(advanced(&json!({}), 1)), (Verdict::Progressing, None, 0));
    // It would have to delete the old pod of a surge, and no other event is expected.
    for min_ready in [0, 5] {
        let surge = json!({"spec": {"minReadySeconds": min_ready,
            "updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
        let replaced = with_states(world().daemon_set(surge), &["old + new", "new", "old"]).finish();
        assert_eq!(silent(replaced.clone()).0, Verdict::Blocked, "{min_ready}");
        let status = rollout_status(&replaced, None).daemon_sets.remove(0);
        assert_eq!(status.verdict == Verdict::Progressing, min_ready == 0, "{:?}", status.stalled_since);
    }
}

#[test]
fn the_revision_or_the_nodes_are_to_blame_as_pods_of_both_revisions_do() {
    use SuspectKind::{EveryRevision, Nodes, Revision};
    let suspect = |world: World, nodes: &[&str]| {
        let suspect = status(with_states(world, nodes)).suspect;
        suspect.map(|it| (it.what, it.failing, it.old_failing, it.is_refused))
    };
    for (nodes, expected) in [
        (&["new crashing", "old"][..], Some((Revision, 1, 0, false))),
        (&["new crashing", "new", "old"], Some((Revision, 1, 0, false))),
        (&["new crashing", "new", "new", "old"], Some((Nodes, 1, 0, false))),
        (&["new crashing", "old crashing", "old"], Some((EveryRevision, 1, 1, false))),
        (&["old crashing", "old"], None),
        // There is nothing to compare with.
        (&["new crashing"], None),
        (&["new crashing", "new"], None),
    ] {
        assert_eq!(suspect(world(), nodes), expected, "{nodes:?}");
    }
    for (nodes, expected) in [
        (&["no pod", "old"][..], Some((Revision, 1, 0, true))),
        (&["no pod", "new", "old"], Some((Revision, 1, 0, true))),
        (&["no pod", "new", "new", "old"], None),
    ] {
        let refused = || refused(two_revisions());
        assert_eq!(suspect(tried(refused(), Some("no"), None), nodes), expected, "refused {nodes:?}");
        // The policy or the limit may be new, rather than the template.
        assert_eq!(suspect(refused(), nodes), None, "not tried {nodes:?}");
        assert_eq!(suspect(tried(refused(), Some("no"), Some("no")), nodes), None, "both refused {nodes:?}");
        assert_eq!(suspect(tried(refused(), None, None), nodes), None, "both accepted {nodes:?}");
    }
}

#[test]
fn a_way_out_is_the_revision_that_works_on_most_nodes() {
    let revisions = [("hash0", 1, "agent:0"), ("hash1", 2, "agent:1"), ("hash2", 3, "agent:2")];
    let oldest = json!({"metadata": {"labels": {"controller-revision-hash": "hash0", "pod-template-generation": "0"}}});
    let world = with_states(with_images(&revisions), &["new crashing", "old"]);
    let world = world.node("a", json!({})).pod("agent-a", "a", oldest.clone());
    let snapshot = world.node("b", json!({})).pod("agent-b", "b", oldest).finish();
    let failing = rollout_status(&snapshot, None).daemon_sets.remove(0);
    assert_eq!(failing.verdict, Verdict::Blocked);
    assert_eq!(commands(&failing), ["kubectl ds undo --to-revision 1 -n default agent"]);
}

#[test]
fn a_way_out_spreads_no_revision_that_fails_and_changes_nothing_in_vain() {
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let resume = "kubectl ds resume -n default agent";
    let raise = "kubectl ds set --max-unavailable 2 -n default agent";
    let retry = "kubectl ds retry -n default agent";
    let partition = "kubectl ds partition -n default agent 0";
    let held = |world: World| {
        let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
            "kubectl-ds/held-since": at("11:30:00")});
        on_delete(world.daemon_set(json!({"metadata": {"annotations": annotations}})))
    };
    let failing = ["new crashing", "new crashing", "old", "old"];
    let not_observed = json!({"metadata": {"generation": 3}});
    for (world, nodes, verdict, expected) in [
        (held(two_revisions()), &failing[..], Verdict::Paused, &[undo, resume][..]),
        (held(two_revisions()).daemon_set(not_observed), &failing, Verdict::NotObserved, &[]),
        (two_revisions(), &failing, Verdict::Blocked, &[undo]),
        (world(), &["new crashing", "new", "new", "old"], Verdict::Blocked, &[raise]),
        // The revision works on other nodes.
        (two_revisions(), &["new crashing", "new", "new", "old"], Verdict::Blocked, &[raise]),
        (world(), &["unreachable new crashing", "old"], Verdict::Blocked, &[raise]),
        // A node without contact keeps its pod.
        (world(), &["unreachable new crashing", "unreachable old"], Verdict::Blocked, &[]),
        // Another revision does not repair a node.
        (
            with_strategy(two_revisions(), json!({"rollingUpdate": {"maxUnavailable": 2}})),
            &["unreachable new crashing", "new"],
            Verdict::Degraded,
            &[],
        ),
        (tried(refused(two_revisions()), Some("no"), None), &["no pod", "old", "old"], Verdict::Blocked, &[undo]),
        (tried(refused(two_revisions()), Some("no"), Some("no")), &["no pod", "old", "old"], Verdict::Blocked, &[]),
        (refused(two_revisions()), &["no pod", "old", "old"], Verdict::Blocked, &[]),
        (tried(refused(two_revisions()), None, None), &["no pod", "old", "old"], Verdict::Blocked, &[retry]),
        (
            tried(refused(held(two_revisions())), None, None),
            &["no pod", "old", "old"],
            Verdict::Paused,
            &[retry, partition, resume],
        ),
        // Without surge, the pod that crashes next to the old one would crash alone.
        (
            with_strategy(world().revision("hash1", 1), surge(1)),
            &["old + new crashing", "new", "new", "old"],
            Verdict::Blocked,
            &[],
        ),
    ] {
        let status = status(with_states(world, nodes));
        let commands = commands(&status);
        assert_eq!(
            (status.verdict, commands.iter().map(String::as_str).collect()),
            (verdict, expected.to_vec()),
            "{nodes:?}"
        );
    }
    // Once deleted, the pod of an ineligible node is not recreated.
    let paused = status(with_states(on_delete(world()), &["tainted old", "old"]));
    assert_eq!(
        (paused.verdict, commands(&paused)[0].as_str()),
        (Verdict::Paused, "kubectl delete pod -n default n1-old")
    );
}

#[test]
fn an_advanced_daemon_set_gets_no_advice_after_which_it_stands_still_all_the_same() {
    let commands_of = |world: World, rolling: Value, nodes: &[&str]| {
        let world = with_states(world, nodes).daemon_set(json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
            "status": {"desiredNumberScheduled": nodes.len()},
        }));
        let mut snapshot = world.finish();
        snapshot.advanced_daemon_sets = std::mem::take(&mut snapshot.daemon_sets);
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        assert_eq!(status.verdict, Verdict::Paused);
        commands(&status)
    };
    let nodes = ["old", "new", "new", "new crashing"];
    // Without the partition, the crashing pod uses up the budget.
    let delete = "kubectl delete pod -n default n0-old";
    assert_eq!(commands_of(world(), json!({"partition": 1}), &nodes), [delete]);
    // After a rollback, the controller replaces no pod until it is resumed.
    let undo = "kubectl ds undo --to-revision 1 -n default ads/agent";
    let resume = "kubectl ds resume -n default ads/agent";
    assert_eq!(commands_of(two_revisions(), json!({"paused": true}), &["old", "old", "new crashing"]), [undo, resume]);
}

#[test]
fn causes_are_those_of_nodes_that_are_not_done_or_use_up_the_budget() {
    let causes = |world: World, nodes: &[&str]| {
        let causes = status(with_states(world, nodes)).problems;
        causes.into_iter().map(|cause| (cause.code, cause.nodes.join(" "))).collect::<Vec<_>>()
    };
    let crashing = |node: &str| (ReasonCode::CrashLooping, node.to_owned());
    let misscheduled = |node: &str| (ReasonCode::Misscheduled, node.to_owned());
    assert_eq!(causes(on_delete(world()), &["new crashing", "old"]), [crashing("n0")]);
    assert_eq!(causes(world(), &["old", "tainted old crashing"]), [misscheduled("n1")]);
    assert_eq!(causes(world(), &["old", "tainted new"]), []);
}

#[test]
fn a_cause_that_was_there_before_the_rollout_is_told() {
    // The rollout started at 11:00.
    let before = |times: &[&str]| {
        let world = times.iter().fold(world(), |world, time| {
            let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(time)}]);
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            let patch = json!({"status": {"conditions": conditions}});
            world.node(time, json!({})).unready_pod(&format!("agent-{time}"), time, crashes, patch)
        });
        status(world).problems[0].before_rollout
    };
    assert_eq!(before(&["10:50:00"]), Some(true));
    assert_eq!(before(&["11:00:00"]), Some(false));
    assert_eq!(before(&["11:10:00"]), Some(false));
    assert_eq!(before(&["10:50:00", "11:10:00"]), Some(false));
}

#[test]
fn troubles_that_hold_nothing_up_are_added_up_by_their_code() {
    let other = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let world = with_states(world(), &["new crashing", "new", "tainted new", "tainted new"]);
    let beside = status(world.node("a", other("other")).pod("agent-a", "a", json!({})));
    let others: Vec<_> = beside.other_problems.iter().map(|problem| (problem.code, problem.count)).collect();
    assert_eq!(others, [(ReasonCode::Misscheduled, 3)]);
    assert_eq!(beside.problems.len(), 1);
}

/// Its pod was not created, or is gone: nothing else tells why the node counts no longer.
#[test]
fn a_node_that_is_down_is_named_although_it_has_no_pod() {
    let unknown = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:00:00")}]);
    let taints = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
    let world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
    let told = status(world.node("b", json!({"status": {"conditions": unknown}, "spec": {"taints": taints}})));
    let others: Vec<_> = told.other_problems.iter().map(|problem| (problem.code, problem.nodes.join(","))).collect();
    assert_eq!(others, [(ReasonCode::NodeNotReadyTaint, "b".to_owned())]);
}

#[test]
fn a_surge_pod_that_is_ready_and_not_available_yet_uses_up_the_budget() {
    let world = with_strategy(world(), surge(2)).daemon_set(json!({"spec": {"minReadySeconds": 600}}));
    let world = with_states(world, &["old + new starting"]).node("a", json!({})).pod("agent-old", "a", old());
    let mut new = ready_since("11:59:00");
    new["metadata"]["creationTimestamp"] = json!(at("11:58:00"));
    let budget = status(world.pod("agent-new", "a", new)).budget.unwrap();
    let mut by: Vec<_> = budget.by.into_iter().map(|used| (used.nodes.join(" "), used.code)).collect();
    by.sort();
    let expected = [("a", ReasonCode::NotYetAvailable), ("n0", ReasonCode::ContainersStarting)];
    assert_eq!(by, expected.map(|(node, code)| (node.to_owned(), code)));
}

/// Until the controller has observed the spec, every pod may turn out to be old.
#[test]
fn the_unavailable_pods_that_a_new_spec_replaces_at_once_are_counted() {
    let at_once = |world: World, nodes: &[&str]| status(with_states(world, nodes)).replaced_at_once;
    let nodes = ["new crashing", "new crashing", "old crashing", "old", "new"];
    assert_eq!(at_once(world().daemon_set(json!({"metadata": {"generation": 3}})), &nodes), Some(3));
    // One may be unavailable anyway.
    assert_eq!(at_once(world(), &nodes), None);
    assert_eq!(at_once(world(), &["new crashing", "old crashing", "old crashing"]), Some(2));
    for (unready, stops) in [("11:50:00", true), ("10:50:00", false)] {
        let world = ["b", "c", "d"].into_iter().fold(with_states(world(), &["new"]), |world, node| {
            let mut pod = old();
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(unready)}]);
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            world.node(node, json!({})).unready_pod(&format!("old-{node}"), node, crashes, pod)
        });
        let status = status(world);
        assert_eq!(status.replaced_at_once, Some(3), "{status:?}");
        assert_eq!(commands(&status).contains(&"kubectl ds pause -n default agent".to_owned()), stops, "{status:?}");
    }
}

/// Coverage, status, the default of `undo`, and the way back of `partition` name the same target revision.
#[test]
fn of_two_old_revisions_that_are_available_on_as_many_nodes_the_newer_one_is_returned_to() {
    for hashes in [["hash0", "hash1"], ["hash1", "hash0"]] {
        let [older, newer] = hashes;
        let revisions = [(older, 1, "agent:0"), (newer, 2, "agent:1"), ("hash2", 3, "agent:2")];
        let mut world = with_states(with_images(&revisions), &["new crashing"; 8]);
        for number in 0..10 {
            let labels = json!({"controller-revision-hash": hashes[number % 2], "pod-template-generation": "0"});
            let node = format!("old-{number}");
            world = world.node(&node, json!({}));
            world = world.pod(&format!("agent-{number}"), &node, json!({"metadata": {"labels": labels}}));
        }
        let snapshot = world.finish();
        let roll_back = "kubectl ds undo --to-revision 2 -n default agent";
        assert_eq!(commands(&rollout_status(&snapshot, None).daemon_sets[0]), [roll_back]);
        let mut coverage = coverage(&snapshot, &Options::default());
        add_blame(&snapshot, &mut coverage);
        let coverage = &coverage.daemon_sets[0];
        let fixes = coverage.common_causes[0].fixes.iter().chain(&coverage.rollback);
        let fixes: Vec<String> = fixes.filter_map(|fix| Some(fix.command.as_ref()?.to_string())).collect();
        assert!(fixes[0].contains("--diff 2..3") && fixes[1] == roll_back, "{fixes:?}");
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        assert_eq!(undo(&situation, None).unwrap().report.to_revision, Some(2));
    }
}

/// A rollback of all nodes would bring them what only some were meant to have.
#[test]
fn what_a_hold_keeps_on_an_older_revision_is_not_updated_by_a_rollback() {
    let revisions = [("hash0", 1, "agent:0"), ("hash1", 2, "agent:1"), ("hash2", 3, "agent:2")];
    let of = |partition: Option<&str>, updated: &str| {
        let annotations = json!({"kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
            "kubectl-ds/held-since": at("11:40:00"), "kubectl-ds/partition": partition});
        let strategy =
            json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let world =
            if partition.is_some() { with_images(&revisions).daemon_set(strategy) } else { with_images(&revisions) };
        let mut world = with_states(world, &[updated]);
        for (number, hash) in ["hash0", "hash0", "hash1", "hash1", "hash1"].into_iter().enumerate() {
            let labels = json!({"controller-revision-hash": hash, "pod-template-generation": "0"});
            let node = format!("old-{number}");
            world = world.node(&node, json!({}));
            world = world.pod(&format!("agent-{number}"), &node, json!({"metadata": {"labels": labels}}));
        }
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let planned = undo(&Situation::new(&index, &snapshot.daemon_sets[0]), Some(2)).unwrap();
        let mut warnings = planned.report.warnings.into_iter();
        let ends = warnings.find(|warning| warning.code == WarningCode::HoldEnds).map(|warning| warning.message);
        let back = commands(&rollout_status(&snapshot, None).daemon_sets[0]).remove(0);
        (back, ends.map(|message| message[..message.find(" get ").unwrap()].to_owned()))
    };
    let all = "kubectl ds undo --to-revision 2 -n default agent";
    let some = "kubectl ds partition -n default --to-revision 2 agent 2";
    let held = Some("2 nodes that are held on older revisions".to_owned());
    assert_eq!(of(Some("50%"), "new crashing"), (some.to_owned(), held.clone()));
    assert_eq!(of(None, "new crashing"), (all.to_owned(), None));
}

/// No older pod is left to prove that the revision before worked, but it ran for hours, and these never did.
#[test]
fn a_revision_that_fails_on_all_nodes_from_the_start_is_to_blame() {
    let of = |ran_since: &str, restarts: i32, nodes: &[&str]| {
        let mut world = with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]);
        for (revision, created) in world.snapshot.controller_revisions.iter_mut().zip([ran_since, "11:50:00"]) {
            revision.metadata.creation_timestamp = at(created).parse::<jiff::Timestamp>().unwrap().into();
        }
        let mut world = with_states(world, nodes);
        for pod in &mut world.snapshot.pods {
            pod.metadata.creation_timestamp = at("11:50:00").parse::<jiff::Timestamp>().unwrap().into();
            pod.status.container_statuses.iter_mut().for_each(|status| status.restart_count = restarts);
        }
        let status = status(world);
        (
            status.suspect.map(|suspect| suspect.what),
            status.way_out.iter().any(|fix| fix.command.as_ref().is_some_and(|it| it.is_rollback())),
        )
    };
    let crashing = ["new crashing"; 3];
    assert_eq!(of("09:00:00", 6, &crashing), (Some(SuspectKind::Revision), true));
    assert_eq!(of("11:45:00", 6, &crashing), (None, false), "the revision before may never have worked");
    assert_eq!(of("09:00:00", 6, &["new crashing", "new crashing", "new starting"]).0, None, "one may yet work");
}

/// The same finalizer keeps each further pod that is deleted.
#[test]
fn no_larger_budget_helps_where_deleted_pods_stay() {
    let of = |finalizer: &str, deleted: &str| {
        let strategy = json!({"rollingUpdate": {"maxUnavailable": 1}});
        let world = with_strategy(two_revisions(), strategy).node("a", json!({})).node("b", json!({}));
        let mut ending = old();
        ending["metadata"]["deletionTimestamp"] = json!(at(deleted));
        ending["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let mut next = old();
        next["metadata"]["finalizers"] = json!([finalizer]);
        let world = world.node("c", json!({})).pod("agent-c", "c", next.clone());
        let snapshot = world.pod("agent-a", "a", ending).pod("agent-b", "b", next).finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let request = |enough| SetRequest {
            fields: SpecFields { max_unavailable: Some(IntOrPercent::Int(enough)), ..SpecFields::default() },
            force: false,
            delete_surge_pods: false,
        };
        let planned = set(&situation, &request(2)).unwrap();
        let blocks = planned.report.warnings.iter().any(|warning| warning.code == WarningCode::Blocks);
        (commands(&rollout_status(&snapshot, None).daemon_sets[0]), blocks)
    };
    let raise = vec!["kubectl ds set --max-unavailable 2 -n default agent".to_owned()];
    assert_eq!(of("example.com/hold", "11:50:00"), (Vec::new(), true));
    assert_eq!(of("example.com/other", "11:50:00"), (raise, false));
}

/// All commands must give the same answer to one question.
#[test]
fn coverage_blames_whom_status_blames_and_offers_the_same_rollback() {
    let images = || with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]);
    for (nodes, what, rolls_back) in [
        (&["new crashing", "old", "old"][..], Some(SuspectKind::Revision), true),
        (&["new crashing", "new crashing", "new crashing", "old", "old", "old"], Some(SuspectKind::Revision), true),
        (&["new crashing", "new", "new", "old"], Some(SuspectKind::Nodes), false),
        (&["new crashing", "old crashing", "old"], Some(SuspectKind::EveryRevision), false),
        (&["new crashing", "new crashing"], None, false),
        (&["new", "old", "old"], None, false),
    ] {
        let snapshot = with_states(images(), nodes).finish();
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let mut report = coverage(&snapshot, &Options::default());
        add_blame(&snapshot, &mut report);
        let coverage = report.daemon_sets.remove(0);
        assert_eq!(status.suspect.as_ref().map(|suspect| suspect.what), what, "{nodes:?}");
        assert_eq!(json!(coverage.suspect), json!(status.suspect), "{nodes:?}");
        let offered = status.way_out.iter().find(|fix| fix.command.as_ref().is_some_and(|it| it.is_rollback()));
        assert_eq!(coverage.rollback.is_some(), rolls_back, "{nodes:?}");
        assert_eq!(json!(coverage.rollback), json!(offered), "{nodes:?}");
    }
}

/// Somebody has changed the image to fix an earlier failure, and it still fails.
#[test]
fn a_rollout_that_was_to_mend_what_failed_before_is_not_to_blame() {
    let unready = |mut world: World, events: &[(&str, &str, &str, &str)]| {
        for (pod, reason, first, last) in events {
            let message = match *reason {
                "BackOff" => "Back-off restarting failed container agent in pod x",
                _ => "Readiness probe failed: HTTP probe failed with statuscode: 500",
            };
            world = world.event("Pod", pod, reason, message, last);
            world.snapshot.events.last_mut().unwrap().first_timestamp = from_value(json!(at(first))).unwrap();
        }
        let status = status(began(with_states(world, &["new crashing", "new crashing", "old", "old"]), "11:40:00"));
        let undo = status.way_out.iter().any(|fix| fix.command.as_ref().is_some_and(|it| it.is_rollback()));
        (status.suspect.unwrap().what, undo)
    };
    let images = || with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]);
    let [one, other] = ["agent-aaaaa", "agent-bbbbb"];
    for (events, blamed) in [
        (&[][..], true),
        (&[(one, "BackOff", "11:00:00", "11:38:00"), (other, "BackOff", "11:00:00", "11:38:00")], false),
        // One of two pods may have failed for its own reason.
        (&[(one, "BackOff", "11:00:00", "11:38:00")], true),
        (&[("agent-0", "BackOff", "11:00:00", "11:38:00"), ("agent-1", "BackOff", "11:00:00", "11:38:00")], true),
        // It failed differently, only while starting, long before, or in another DaemonSet.
        (&[(one, "Unhealthy", "11:00:00", "11:38:00")], true),
        (&[(one, "BackOff", "11:37:00", "11:38:00")], true),
        (&[(one, "BackOff", "11:00:00", "11:10:00")], true),
        (&[("agent-gpu-aaaaa", "BackOff", "11:00:00", "11:38:00")], true),
        // This is one of its own pods.
        (&[("n0-new", "BackOff", "11:00:00", "11:38:00")], true),
    ] {
        let expected = if blamed { (SuspectKind::Revision, true) } else { (SuspectKind::EveryRevision, false) };
        assert_eq!(unready(images(), events), expected, "{events:?}");
    }
}

/// The controller replaces unavailable pods first, so that a node where any pod crashes is the only one that runs the new revision. But
/// the rollout may have mended that crash, and brought another.
#[test]
fn nobody_is_blamed_for_a_node_on_which_the_replaced_pod_crashed_to_the_end() {
    let status = |revisions: &[(&str, i64, &str)], host: &str, first: &str, last: &str| {
        let message = "Back-off restarting failed container agent in pod x";
        let mut world = with_images(revisions).event("Pod", "agent-aaaaa", "BackOff", message, last);
        let event = world.snapshot.events.last_mut().unwrap();
        event.first_timestamp = from_value(json!(at(first))).unwrap();
        event.source.host = host.to_owned();
        for (revision, time) in world.snapshot.controller_revisions.iter_mut().zip(["11:00:00", "11:39:00"]) {
            revision.metadata.creation_timestamp = from_value(json!(at(time))).unwrap();
        }
        let status = status(began(with_states(world, &["new crashing", "old", "old"]), "11:40:00"));
        (status.suspect.as_ref().map(|suspect| suspect.what), commands(&status))
    };
    let (revision, every) = (Some(SuspectKind::Revision), Some(SuspectKind::EveryRevision));
    let two = &[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")][..];
    // The one between them was an attempt at the same change: it failed for the same reason.
    let between = &[("hash1", 1, "agent:1"), ("hash9", 2, "agent:9"), ("hash2", 3, "agent:2")][..];
    for (revisions, host, first, last, what) in [
        (two, "n0", "11:39:20", "11:39:57", None),
        (two, "n0", "11:39:20", "11:40:03", None),
        (two, "n1", "11:39:20", "11:39:57", revision),
        (two, "", "11:39:20", "11:39:57", revision),
        // It was available again.
        (two, "n0", "11:37:20", "11:38:57", revision),
        (between, "n0", "11:39:20", "11:39:57", revision),
        (between, "n0", "11:38:20", "11:38:57", None),
        // Long enough to be no start, wherever that was.
        (between, "", "11:30:20", "11:38:57", every),
        (between, "", "11:39:02", "11:52:57", revision),
    ] {
        let way = if what == every { "set --max-unavailable 2" } else { "undo --to-revision 1" };
        let expected = (what, vec![format!("kubectl ds {way} -n default agent")]);
        assert_eq!(status(revisions, host, first, last), expected, "{revisions:?} {host} {first} {last}");
    }
}

/// A later API server may add defaults to the live template that the controller's revision lacks.
#[test]
fn a_revision_that_lacks_a_default_of_the_live_template_is_current_for_every_command() {
    let later = json!({"fieldOfALaterRelease": "Default"});
    for is_known_by_its_pods in [true, false] {
        let mut world = with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]).template(later.clone());
        world = world.node("a", json!({}));
        if is_known_by_its_pods {
            world = world.pod("agent-a", "a", json!({}));
        } else {
            let generation = ("deprecated.daemonset.template.generation".to_owned(), "2".to_owned());
            world.snapshot.controller_revisions.last_mut().unwrap().annotations.extend([generation]);
            world = world.pod("agent-a", "a", old());
        }
        let snapshot = world.finish();
        let status = rollout_status(&snapshot, None).daemon_sets.remove(0);
        let verdict = if is_known_by_its_pods { Verdict::Complete } else { Verdict::Progressing };
        assert_eq!((status.verdict, status.revision.map(|revision| revision.number)), (verdict, Some(2)));
        let history = histories(&snapshot).remove(0);
        assert_eq!((history.revisions[0].current, history.notes.as_slice()), (true, &[][..]));
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let plan = undo(&situation, None).unwrap().report;
        assert_eq!((plan.from_revision, plan.to_revision), (Some(2), Some(1)));
        assert_eq!(situation.revisions.back(1).map(|revision| revision.number()), Some(1));
    }
}

/// Seven DaemonSets that wait for two dead nodes must not hide the one whose rollout is stuck.
#[test]
fn only_a_rollout_that_is_not_finished_is_blocked() {
    let long_ago = |mut world: World| {
        for revision in &mut world.snapshot.controller_revisions {
            revision.metadata.creation_timestamp = serde_json::from_value(json!("2026-02-01T00:00:00Z")).unwrap();
        }
        world
    };
    let nodes = |states: &[&str]| status(with_states(two_revisions(), states)).verdict;
    assert_eq!(nodes(&["unreachable new crashing", "new", "new"]), Verdict::Degraded);
    assert_eq!(nodes(&["unreachable new crashing", "old", "new"]), Verdict::Blocked);
    // The new revision has replaced all pods, and fails.
    assert_eq!(nodes(&["unreachable new crashing", "new crashing", "new"]), Verdict::Blocked);
    assert_eq!(nodes(&["new crashing", "new crashing"]), Verdict::Blocked);
    let since = status(long_ago(with_states(two_revisions(), &["new crashing", "new"])));
    assert_eq!((since.verdict, since.problems[0].code), (Verdict::Degraded, ReasonCode::CrashLooping));
    assert_eq!(status(long_ago(with_states(two_revisions(), &["new crashing", "old"]))).verdict, Verdict::Blocked);
}

/// Two nodes with old pods, and one with a new pod that requests this much cpu and waits next to a pod that uses this
/// much; if the update surges, next to an old one, too.
fn waiting_for_room(requests: &str, taken: &str, surges: bool) -> RolloutStatus {
    let asks =
        |cpu: &str| json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]}});
    let old_asks = |cpu: &str| {
        let mut pod = old();
        pod["spec"] = asks(cpu)["spec"].clone();
        pod
    };
    let of = |cpu: &str| asks(cpu)["spec"].clone();
    let mut both = world();
    both.snapshot.controller_revisions.clear();
    let both = both.template(of("50m")).revision_of_image("hash1", 1, "agent:1");
    let both = both.template(of(requests)).revision_of_image("hash2", 2, "agent:2");
    let world = if surges { with_strategy(both, surge(1)) } else { both };
    let with_old = |world: World, node: &str| world.pod(&format!("agent-{node}"), node, old_asks("50m"));
    let world = ["a", "b", "c"].into_iter().fold(world, |world, node| world.node(node, json!({})));
    let nodes: &[&str] = if surges { &["a", "b", "c"] } else { &["a", "b"] };
    let world = nodes.iter().fold(world, |world, node| with_old(world, node));
    let message = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.";
    let world = world.pending_pod("agent-c-new", "c", message, asks(requests));
    status(world.other_pod("other", "c", asks(taken)))
}

#[test]
fn a_revision_that_requests_what_is_missing_is_rolled_back_and_its_rollout_gets_no_more_budget() {
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    let raise = "kubectl ds set --max-unavailable 2 -n default agent";
    let without = "kubectl ds set --max-unavailable 1 -n default --delete-surge-pods agent";
    for (requests, taken, surges, kind, raised, expected) in [
        // Of 4 cores, the old pod's 50m would be free.
        ("3200m", "3900m", false, Some(SuspectKind::Revision), &[("cpu", "50m", "3200m")][..], &[undo][..]),
        // More than the node has.
        ("9", "1", false, Some(SuspectKind::Revision), &[("cpu", "50m", "9")], &[undo]),
        // Another pod has used the old one's resources: only this node is affected.
        ("50m", "4", false, None, &[], &[raise]),
        // Neither revision would fit.
        ("100m", "4", false, None, &[], &[raise]),
        ("3200m", "3900m", true, Some(SuspectKind::Revision), &[("cpu", "50m", "3200m")], &[undo]),
        // It fits instead of the old pod, but not next to it.
        ("100m", "3900m", true, None, &[], &[without]),
    ] {
        let status = waiting_for_room(requests, taken, surges);
        let suspect = status.suspect.as_ref();
        let found: Vec<_> = suspect.into_iter().flat_map(|suspect| &suspect.raised_requests).collect();
        let found: Vec<_> =
            found.iter().map(|raised| (raised.resource.as_str(), raised.from.as_str(), raised.to.as_str())).collect();
        assert_eq!((suspect.map(|suspect| suspect.what), found), (kind, raised.to_vec()), "{requests} {taken}");
        assert_eq!(
            (status.verdict, commands(&status)),
            (Verdict::Blocked, expected.iter().map(|it| (*it).to_owned()).collect())
        );
    }
}

/// Pods of any revision would wait for it.
#[test]
fn a_rollout_that_the_scheduler_holds_up_gets_no_more_budget() {
    let waiting = |scheduler: &str| {
        let world = two_revisions().node("a", json!({})).pod("agent-a", "a", old()).node("b", json!({}));
        let world = world.pending_pod("agent-b", "b", scheduler, json!({}));
        status(world.node("c", json!({})).pod("agent-c", "c", old()))
    };
    let silent = waiting("");
    assert_eq!(silent.problems[0].code, ReasonCode::SchedulerSilent);
    assert_eq!((silent.verdict, commands(&silent)), (Verdict::Blocked, Vec::new()));
}

#[test]
fn a_pace_that_was_raised_for_a_blocked_rollout_is_offered_back_once_nothing_is_left_to_replace() {
    let raised = |unavailable: usize| {
        let annotation = "maxUnavailable=1 -> maxUnavailable=2";
        with_strategy(two_revisions(), json!({"rollingUpdate": {"maxUnavailable": unavailable}}))
            .daemon_set(json!({"metadata": {"annotations": {"kubectl-ds/raised-pace": annotation}}}))
    };
    let restore = "kubectl ds set --max-unavailable 1 -n default agent";
    for (unavailable, nodes, verdict, expected) in [
        (2, &["new", "new", "new"][..], Verdict::Complete, &[restore][..]),
        // A node that is lost forever does not keep the pace raised.
        (2, &["new", "new", "unreachable new crashing"], Verdict::Degraded, &[restore]),
        (2, &["new", "old", "old"], Verdict::Progressing, &[]),
        // Somebody has set another pace since.
        (3, &["new", "new", "new"], Verdict::Complete, &[]),
    ] {
        let status = status(with_states(raised(unavailable), nodes));
        let commands = commands(&status);
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        assert_eq!((status.verdict, commands), (verdict, expected.to_vec()), "{nodes:?}");
    }
}

/// A user without permission to read nodes still sees the status of the pods.
#[test]
fn what_pods_say_is_told_even_if_nodes_could_not_be_read() {
    let told = |failing: usize, available: usize, working: usize| {
        let mut world = with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]);
        for number in 0..failing {
            let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
            world = world.unready_pod(&format!("agent-{number}"), &format!("n{number}"), crashes, json!({}));
        }
        for number in 0..available {
            world = world.pod(&format!("agent-old-{number}"), &format!("o{number}"), old());
        }
        for number in 0..working {
            world = world.pod(&format!("agent-new-{number}"), &format!("w{number}"), json!({}));
        }
        let cause = GapCause::Forbidden("list nodes".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause });
        let status = status(world);
        let commands = commands(&status);
        let problems: Vec<_> =
            status.problems.iter().map(|it| (it.code, it.count, it.on_current_revision.unwrap())).collect();
        assert_eq!((status.verdict, problems), (Verdict::Unknown, vec![(ReasonCode::CrashLooping, failing, failing)]));
        commands
    };
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    assert_eq!(told(2, 3, 0), [undo]);
    // A node may be at fault, or all of them, and somewhere it works.
    for (failing, available, working) in [(5, 0, 0), (3, 3, 0), (1, 3, 0), (2, 3, 1)] {
        assert_eq!(told(failing, available, working), [""; 0], "{failing} {available} {working}");
    }
}

/// The explanation of a pod names the revision that introduced a bad image, and how to roll back.
#[test]
fn an_image_that_cannot_be_pulled_names_the_revision_that_brought_it() {
    let fix = |world: World, old_pod: bool| {
        let waiting = json!({"state": {"waiting": {"reason": "ErrImagePull"}}});
        let world = world.node("a", json!({})).unready_pod("agent-a", "a", waiting, json!({}));
        let world = if old_pod { world.node("b", json!({})).pod("agent-b", "b", old()) } else { world };
        let snapshot = world.finish();
        let mut report = coverage(&snapshot, &Options::default());
        add_blame(&snapshot, &mut report);
        let mut coverage = report.daemon_sets.remove(0);
        let rollback = coverage.rollback.map(|fix| fix.command.unwrap().to_string());
        (coverage.problems.remove(0).message.contains("revision 2 changed the image"), rollback)
    };
    let revisions = || with_images(&[("hash1", 1, "agent:1"), ("hash2", 2, "agent:2")]);
    let undo = "kubectl ds undo --to-revision 1 -n default agent";
    assert_eq!(fix(revisions(), true), (true, Some(undo.to_owned())));
    // No pod proves that another revision works.
    assert_eq!(fix(revisions(), false), (false, None));
}

/// A deleted pod on a node that is down does not terminate, and a refused pod is not recreated.
#[test]
fn under_on_delete_only_a_pod_that_is_replaced_is_to_be_deleted() {
    let deletes = |world: World| {
        let commands = commands(&status(on_delete(world)));
        commands.into_iter().filter(|command| command.starts_with("kubectl delete pod")).collect::<Vec<_>>()
    };
    let world = || with_states(two_revisions(), &["old", "old"]);
    let lost = deletes(super::fault_test::down(world(), "down", super::fault_test::old()));
    assert!(lost.len() == 1 && !lost[0].contains("agent-down"), "{lost:?}");
    assert_eq!(deletes(refused(world())), [""; 0]);
}

/// Nothing could not be read, and nothing else tells why the answer is unknown.
#[test]
fn what_is_missing_is_named_if_the_answer_is_unknown_without_a_gap() {
    let lacks = |mut world: World| {
        world.snapshot.controller_revisions.clear();
        let world = world.daemon_set(json!({"metadata": {"annotations": null}}));
        status(world.node("a", json!({})).pod("agent-a", "a", json!({}))).lacks
    };
    let cause = GapCause::NotInDump;
    let mut unread = world();
    unread.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
    assert!(lacks(unread).unwrap().starts_with("neither a ControllerRevision nor a template generation"));
    let mut unread = world();
    unread.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause: GapCause::NotInDump });
    assert_eq!(lacks(unread), None);
}
