//! Nodes that an autoscaler is removing, whose object is being deleted, or that somebody takes down.

use jiff::Timestamp;

use crate::model::held_pod::Autoscaler;
use crate::model::node::{Node, Taint};
use crate::report::age::seconds_between;

/// The taint of Cluster Autoscaler, whose value is the time in seconds since 1970.
const CLUSTER_AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

/// After how many seconds a removal is stuck: Cluster Autoscaler gives pods ten minutes to terminate.
const STUCK: i64 = 900;

/// Returns the autoscaler that sets the taint with this key on nodes that it removes.
pub fn autoscaler(key: &str) -> Option<Autoscaler> {
    match key {
        CLUSTER_AUTOSCALER => Some(Autoscaler::ClusterAutoscaler),
        "karpenter.sh/disrupted" | "karpenter.sh/disruption" => Some(Autoscaler::Karpenter),
        _ => None,
    }
}

/// Returns whether an autoscaler sets the taint with this key on nodes that it removes.
pub fn is_by_autoscaler(key: &str) -> bool {
    autoscaler(key).is_some()
}

/// Returns whether Cluster Autoscaler sets the taint with this key, whose value is a time.
pub fn is_of_cluster_autoscaler(key: &str) -> bool {
    matches!(key, CLUSTER_AUTOSCALER | "DeletionCandidateOfClusterAutoscaler")
}

/// Returns whether a taint is there for the state that a node is in, or what becomes of it, rather than for good.
pub fn is_of_state(taint: &Taint) -> bool {
    let domain = taint.key.split_once('/').map_or("", |(domain, _)| domain);
    is_by_autoscaler(&taint.key)
        || is_of_cluster_autoscaler(&taint.key)
        || matches!(domain, "node.kubernetes.io" | "node.cloudprovider.kubernetes.io")
}

/// Returns when an autoscaler started to remove a node, at the latest, if known: Karpenter's taint has no time, but it is followed by the
/// deletion of the Node object, or by its end.
pub fn began_at(node: &Node, taint: &Taint) -> Option<Timestamp> {
    let value = || taint.value.parse().ok().filter(|_| taint.key == CLUSTER_AUTOSCALER);
    let from_value = || Timestamp::from_second(value()?).ok();
    let not_ready = || node.not_ready()?.last_transition_time.get();
    taint.time_added.get().or_else(from_value).or_else(|| node.metadata.deleted_at()).or_else(not_ready)
}

/// The taint of a node whose machine is off, as its cloud provider says: `monitorNodes` of k8s.io/cloud-provider,
/// controllers/nodelifecycle/node_lifecycle_controller.go, release 1.37.
pub const SHUT_DOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The taint of a node that is cordoned (`doNoScheduleTaintingPass`, pkg/controller/nodelifecycle/node_lifecycle_controller.go, release
/// 1.37.2): `kubectl drain`, which comes before a restart, does that first.
pub const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// What the kubelet reports while the machine shuts down in order (`ShutdownStatus`, pkg/kubelet/nodeshutdown, release 1.37.2).
pub const SHUTS_DOWN: &str = "node is shutting down";

/// Returns whether a node was already being removed at a time, as far as that is known.
pub fn is_leaving(node: &Node, at: Timestamp) -> bool {
    let mut taints = node.spec.taints.iter().filter(|taint| is_by_autoscaler(&taint.key));
    taints.any(|taint| began_at(node, taint).is_none_or(|began| began <= at))
        || node.metadata.deleted_at().is_some_and(|began| began <= at)
}

/// Returns whether somebody has taken a node down that became not ready at a time: it was being removed, was cordoned between its update
/// and then, or shut down in order.
pub fn was_taken_down(node: &Node, updated: Timestamp, at: Timestamp) -> bool {
    let taints = || node.spec.taints.iter();
    let mut cordoned = taints().filter(|taint| taint.key == CORDONED).filter_map(|taint| taint.time_added.get());
    is_leaving(node, at)
        || cordoned.any(|began| (updated..=at).contains(&began))
        || taints().any(|taint| taint.key == SHUT_DOWN)
        || node.not_ready().is_some_and(|ready| ready.message.contains(SHUTS_DOWN))
}

/// Returns whether a removal has been taking too long.
pub fn is_stuck(began: Timestamp, now: Timestamp) -> bool {
    seconds_between(began, now) > STUCK
}

/// Returns the autoscaler's taint on a node whose drain is taking too long.
pub fn stuck_drain(node: &Node, now: Timestamp) -> Option<&Taint> {
    let mut taints = node.spec.taints.iter().filter(|taint| is_by_autoscaler(&taint.key));
    taints.find(|taint| began_at(node, taint).is_some_and(|began| is_stuck(began, now)))
}

/// Returns when the deletion of the Node object started, if it is taking too long.
pub fn stuck_deletion(node: &Node, now: Timestamp) -> Option<Timestamp> {
    node.metadata.deleted_at().filter(|began| is_stuck(*began, now))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{is_leaving, was_taken_down};
    use crate::facts::test_support::at;
    use crate::model::node::Node;

    #[test]
    fn what_somebody_takes_down_after_its_update_is_not_lost_to_it() {
        let tainted = |key: &str, time: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule", "timeAdded": at(time)}]}});
        let ready = |message: &str| json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": message}]}});
        let (cordon, shutdown) = ("node.kubernetes.io/unschedulable", "node.cloudprovider.kubernetes.io/shutdown");
        for (node, is_taken_down, leaves) in [
            (tainted("karpenter.sh/disrupted", "11:40:00"), true, true),
            (tainted("karpenter.sh/disrupted", "11:56:00"), false, false),
            (tainted(cordon, "11:50:00"), true, false),
            // A canary may be cordoned before its update, and a node that is down afterwards.
            (tainted(cordon, "11:40:00"), false, false),
            (tainted(cordon, "11:56:00"), false, false),
            (tainted(shutdown, "11:56:00"), true, false),
            (json!({"metadata": {"deletionTimestamp": at("11:50:00")}}), true, true),
            (ready("node is shutting down"), true, false),
            (ready("container runtime is down"), false, false),
        ] {
            let read: Node = from_value(Value::clone(&node)).unwrap();
            let [updated, lost] = ["11:45:00", "11:55:00"].map(|time| at(time).parse().unwrap());
            assert_eq!(
                (was_taken_down(&read, updated, lost), is_leaving(&read, lost)),
                (is_taken_down, leaves),
                "{node}"
            );
        }
    }
}
