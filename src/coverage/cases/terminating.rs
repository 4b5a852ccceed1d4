//! Cases of pods on their way out, and of pods too many.

use serde_json::{Value, json};

use super::{Case, case, plain};
use crate::coverage::test_support::{World, at, world};
use crate::report::coverage::NodeState::{Available, Terminating, ToBeDeleted};
use crate::report::reason::ReasonCode as R;

fn going(deadline: &str, patch: Value) -> World {
    let mut pod = json!({"metadata": {"deletionTimestamp": at(deadline)}});
    for (key, value) in patch.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    plain().unready_pod("agent-x", "n", json!({}), pod)
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "pod_is_within_its_grace_period",
            going("12:00:20", json!({})),
            (Terminating, R::Terminating),
            "pod agent-x is being deleted, within 20s",
            "wait; the next pod is made once it is gone",
        ),
        case(
            "finalizer_holds_the_pod",
            going("11:50:00", json!({"finalizers": ["example.com/hold"]})),
            (Terminating, R::StuckTerminating),
            "pod agent-x should have been gone for 10m, held by finalizer example.com/hold",
            "whoever set it must remove it; if nobody does: kubectl patch pod -n default agent-x --type=merge -p \
             '{\"metadata\":{\"finalizers\":null}}'",
        ),
        case(
            "finalizer_holds_a_pod_that_still_claims_to_be_available",
            plain().pod(
                "agent-x",
                "n",
                json!({"metadata": {"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}}),
            ),
            (Terminating, R::StuckTerminating),
            "pod agent-x should have been gone for 10m, held by finalizer example.com/hold",
            "whoever set it must remove it; if nobody does: kubectl patch pod -n default agent-x --type=merge -p \
             '{\"metadata\":{\"finalizers\":null}}'",
        ),
        case(
            "kubelet_does_not_end_the_pod",
            going("11:50:00", json!({})),
            (Terminating, R::StuckTerminating),
            "pod agent-x should have been gone for 10m, and its kubelet has not ended it",
            "see the kubelet's log on the node; as the last resort: kubectl delete pod -n default agent-x --grace-period=0 \
             --force",
        ),
        case(
            "second_pod_is_one_too_many",
            plain().pod("agent-x", "n", json!({})).pod(
                "agent-y",
                "n",
                json!({"metadata": {"creationTimestamp": at("11:59:00")}}),
            ),
            (Available, R::DuplicatePod),
            "a pod too many: agent-y, 60s old; the controller keeps the oldest bound one and deletes the others",
            "wait; if it stays, check kube-controller-manager",
        ),
        case(
            "node_of_a_bound_pod_is_gone",
            world().pod("agent-x", "n", json!({})),
            (ToBeDeleted, R::OrphanedTarget),
            "pod agent-x is on a node that is gone",
            "wait: the pod garbage collector deletes it; to be rid of it at once: kubectl delete pod -n default agent-x \
             --grace-period=0 --force",
        ),
        case(
            "node_of_an_unbound_pod_is_gone",
            world().pending_pod("agent-x", "n", "", json!({})),
            (ToBeDeleted, R::OrphanedTarget),
            "pod agent-x is meant for a node that is gone",
            "wait: the controller deletes it",
        ),
    ]
}
