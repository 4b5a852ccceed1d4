//! Nodes that an autoscaler is removing, or whose object is being deleted.

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

/// Returns when an autoscaler started to remove a node, if known: Karpenter's taint has no time, but it is followed by
/// the deletion of the Node object.
pub fn began_at(node: &Node, taint: &Taint) -> Option<Timestamp> {
    let value = || taint.value.parse().ok().filter(|_| taint.key == CLUSTER_AUTOSCALER);
    let from_value = || Timestamp::from_second(value()?).ok();
    taint.time_added.get().or_else(from_value).or_else(|| node.metadata.deleted_at())
}

/// The taint of a node whose machine is off, as its cloud provider says: `monitorNodes` of k8s.io/cloud-provider,
/// controllers/nodelifecycle/node_lifecycle_controller.go, release 1.37.
pub const SHUT_DOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The taint of a node that is cordoned: `kubectl drain`, which comes before a restart, does that first.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// What the kubelet reports while the machine shuts down in order (`ShutdownStatus`, pkg/kubelet/nodeshutdown, release 1.37.2).
const SHUTS_DOWN: &str = "node is shutting down";

/// Returns whether a node was already being removed, emptied or shut down at a time, as far as that is known: what goes down then was
/// taken down by somebody.
pub fn is_leaving(node: &Node, at: Timestamp) -> bool {
    let takes_down = |taint: &&Taint| is_by_autoscaler(&taint.key) || taint.key == CORDONED;
    let mut taints = node.spec.taints.iter().filter(takes_down);
    taints.any(|taint| began_at(node, taint).is_none_or(|began| began <= at))
        || node.metadata.deleted_at().is_some_and(|began| began <= at)
        || node.spec.taints.iter().any(|taint| taint.key == SHUT_DOWN)
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
