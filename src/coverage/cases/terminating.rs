//! Cases of terminating pods, and of surplus pods.

use serde_json::{Value, json};

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at, world};
use crate::report::node_coverage::NodeState::{Available, Terminating, ToBeDeleted};
use crate::report::reason::ReasonCode as R;

fn going(deadline: &str, patch: Value) -> World {
    let mut pod = json!({"metadata": {"deletionTimestamp": at(deadline)}});
    for (key, value) in patch.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    plain().unready_pod("agent-x", "n", json!({}), pod)
}

/// A pod that should be gone by a time, on a ready node whose status was last posted at another one.
fn overdue(deadline: &str, posted: &str) -> World {
    let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": at(posted)});
    let pod = json!({"metadata": {"deletionTimestamp": at(deadline)}});
    world().node("n", json!({"status": {"conditions": [ready]}})).unready_pod("agent-x", "n", json!({}), pod)
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "pod_is_within_its_grace_period",
            going("12:00:20", json!({})),
            (Terminating, R::Terminating),
            &["20s"],
            "",
        ),
        case(
            "scheduler_preempts_the_pod_for_another_daemon_set",
            plain()
                .unready_pod("agent-x", "n", json!({}), json!({"metadata": {"deletionTimestamp": at("12:00:20")},
                    "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}))
                .other_pod("other-x", "", json!({"spec": {"priority": 1000, "priorityClassName": "high"},
                    "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "other", "uid": "o", "controller": true}]},
                    "status": {"nominatedNodeName": "n"}})),
            (Terminating, R::Terminating),
            &["preempted by a pod of higher priority: default/other, priority 1000 (PriorityClass high)"],
            "",
        ),
        case(
            "finalizer_holds_the_pod",
            going("11:50:00", json!({"finalizers": ["example.com/hold"]})),
            (Terminating, R::StuckTerminating),
            &["10m", "example.com/hold"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "finalizer_holds_a_pod_for_a_moment_that_still_claims_to_be_available",
            plain().pod(
                "agent-x",
                "n",
                json!({"metadata": {"deletionTimestamp": at("11:59:56"), "finalizers": ["example.com/hold"]}}),
            ),
            (Terminating, R::Terminating),
            &["4s past its grace period", "example.com/hold"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "finalizer_holds_a_pod_that_still_claims_to_be_available",
            plain().pod(
                "agent-x",
                "n",
                json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}}),
            ),
            (Terminating, R::StuckTerminating),
            &["10m", "example.com/hold"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "kubelet_does_not_end_the_pod",
            going("11:50:00", json!({})),
            (Terminating, R::StuckTerminating),
            &["10m"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "kubelet_that_works_does_not_end_the_pod",
            overdue("11:50:00", "11:56:00"),
            (Terminating, R::StuckTerminating),
            &["10m", "although it works"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "kubelet_may_have_died_with_the_pod",
            overdue("11:59:30", "11:56:00"),
            (Terminating, R::StuckTerminating),
            &["30s", "still Ready"],
            "kubectl describe pod -n default agent-x",
        ),
        case(
            "finalizer_holds_the_old_pod_beside_the_new_one",
            plain().pod("agent-x", "n", json!({})).pod(
                "agent-old",
                "n",
                json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"],
                    "labels": {"controller-revision-hash": "hash1"}}}),
            ),
            (Available, R::StuckTerminating),
            &["10m", "agent-old", "example.com/hold"],
            "kubectl get pod -o yaml -n default agent-old",
        ),
        case(
            "second_pod_is_one_too_many",
            plain().pod("agent-x", "n", json!({})).pod(
                "agent-y",
                "n",
                json!({"metadata": {"creationTimestamp": at("11:59:00")}}),
            ),
            (Available, R::DuplicatePod),
            &["60s"],
            "",
        ),
        case(
            "node_of_a_bound_pod_is_gone",
            world().pod("agent-x", "n", json!({})),
            (ToBeDeleted, R::OrphanedTarget),
            &[],
            "",
        ),
        case(
            "finalizer_keeps_the_pod_of_a_node_that_is_gone",
            world().pod(
                "agent-x",
                "n",
                json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}}),
            ),
            (ToBeDeleted, R::OrphanedTarget),
            &["10m", "example.com/hold", "its node does not exist", "counts as unavailable"],
            "kubectl get pod -o yaml -n default agent-x",
        ),
        case(
            "nothing_collects_the_pod_of_a_node_that_is_gone",
            world().pod("agent-x", "n", json!({"metadata": {"deletionTimestamp": at("11:57:00")}})),
            (ToBeDeleted, R::OrphanedTarget),
            &["3m", "its node does not exist", "counts as unavailable"],
            "kubectl get lease -o yaml -n kube-system kube-controller-manager",
        ),
        case(
            "node_of_an_unbound_pod_is_gone",
            world().pending_pod("agent-x", "n", "", json!({})),
            (ToBeDeleted, R::OrphanedTarget),
            &[],
            "",
        ),
        case(
            "kubelet_has_a_moment_after_the_grace_period",
            going("11:59:55", json!({})),
            (Terminating, R::Terminating),
            &["0s"],
            "",
        ),
        case(
            "kubelet_has_had_its_moment_after_the_grace_period",
            going("11:59:54", json!({})),
            (Terminating, R::StuckTerminating),
            &["6s"],
            "kubectl describe pod -n default agent-x",
        ),
    ]
}
