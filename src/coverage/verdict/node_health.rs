//! Whether a node is ready, by its `Ready` condition.

use jiff::Timestamp;

use super::cause::{Also, Cause, FixIn, cause};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, describe_node};
use super::node_plugin::with_network_plugin;
use super::node_removal;
use super::sentence::Sentence;
use crate::facts::index::Index;
use crate::facts::node_removal::{SHUT_DOWN, SHUTS_DOWN, is_by_autoscaler, stuck_deletion, stuck_drain};
use crate::model::node::Node;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// For how many seconds a node must have been not ready before deleting it is mentioned: reboots and upgrades take less.
const MAY_BE_GONE: i64 = 3600;

/// What a kubelet says of its node that it reports as not ready: `runtimeState` of pkg/kubelet/runtime.go, `updateRuntimeUp` of
/// pkg/kubelet/kubelet.go, `ShutdownStatus` of pkg/kubelet/nodeshutdown and pkg/volume/csi/csi_plugin.go, release 1.37.2.
const REPORTED: &[Cause] = &[
    cause(FixIn::Node, &[SHUTS_DOWN], "wait until the node is up again"),
    // Without a runtime, what it last said of the network stays.
    cause(
        FixIn::Node,
        &["container runtime is down", "container runtime not ready", "pleg is not healthy", "runtimeready=false"],
        MEND_RUNTIME,
    ),
    cause(
        FixIn::Node,
        &["network not ready", "cni plugin not initialized", "network plugin is not ready"],
        "check the pod of the network plugin on the node: it has not configured the node yet",
    )
    .and(Also::ShowPodsOfNode),
    cause(
        FixIn::Node,
        &["container runtime status check may not have completed yet"],
        "wait: its kubelet has just started; if it persists, check the container runtime of the node",
    ),
    cause(FixIn::Node, &["container runtime", "containerd", "crio", "docker"], MEND_RUNTIME),
    cause(
        FixIn::Cluster,
        &["csinode is not yet initialized"],
        "wait; if it persists, check that the kubelet of the node reaches the API server",
    ),
];

const MEND_RUNTIME: &str =
    "check the container runtime of the node, and restart it: its kubelet works, and gets no answers from it";

/// What to do about a Node object whose deletion takes too long.
pub const CHECK_FINALIZERS: &str = "the Node object is being deleted: check the controllers of its finalizers";

/// Returns what becomes of a node that is not to be repaired, and what to do: it is being removed, or its machine is off.
pub fn leaving(now: Timestamp, node: &Node) -> Option<(&'static str, &'static str)> {
    if node.metadata.is_terminating() {
        let advice =
            if stuck_deletion(node, now).is_some() { CHECK_FINALIZERS } else { "wait: the node is being removed" };
        return Some(("the Node object is being deleted", advice));
    }
    if node.spec.taints.iter().any(|taint| is_by_autoscaler(&taint.key)) && stuck_drain(node, now).is_none() {
        return Some(("the autoscaler is removing the node", "wait: the autoscaler is removing the node"));
    }
    node.spec.taints.iter().find(|taint| taint.key == SHUT_DOWN).map(|_| {
        (
            "its machine is shut down, as the cloud provider says",
            "start the machine of the node, or delete it together with the Node object",
        )
    })
}

/// Says of a finding that is the node's, or that only time tells of, that the node is going away.
pub fn on_leaving_node(now: Timestamp, node: Option<&Node>, finding: Finding) -> Finding {
    let is_of_node = matches!(finding.origin, Origin::Node | Origin::Time);
    match node.and_then(|node| leaving(now, node)).filter(|_| is_of_node) {
        Some((why, advice)) => {
            finding.and(format!("; {why}")).with_advice(advice).with_command(None).with_origin(Origin::Node)
        }
        None => finding,
    }
}

/// Finds that the kubelet stopped posting status, or reports that the node is not ready.
pub fn node_unreachable(subject: &Subject, node: &Node) -> Option<Finding> {
    let now = subject.now();
    let message = not_ready(subject.index, node)?;
    let finding =
        Finding::new(ReasonCode::NodeUnreachable, message, repair(now, node)).with_command(describe_node(node));
    match reported(node).and_then(|message| Cause::among(REPORTED, message)) {
        _ if leaving(now, node).is_some() => Some(finding),
        Some(Cause { also: Some(Also::ShowPodsOfNode), .. }) => {
            Some(with_network_plugin(subject.index, subject.daemon_set, Some(node), finding))
        }
        _ => Some(finding),
    }
}

/// Finds that the kubelet no longer reports what has become of a pod that was available.
pub fn pod_is_out_of_date(subject: &Subject, node: &Node) -> Option<Finding> {
    if node.posts_status() {
        return None;
    }
    Some(node_unreachable(subject, node)?.and("; whether its pod still runs is unknown"))
}

/// Returns how and for how long a node has not been ready, or `None` if it is ready.
pub fn not_ready(index: &Index<'_>, node: &Node) -> Option<Sentence> {
    let (now, ready) = (index.now(), node.not_ready()?);
    let mut sentence = Sentence::from(format!("node Ready={}", ready.status));
    if let Some(since) = ready.last_transition_time.get() {
        sentence = sentence.words(" for ").age(seconds_between(since, now));
    }
    if ready.status == "Unknown" {
        // The transition is when the controller noticed, some time after the last status.
        let is_new = ready.reason == "NodeStatusNeverUpdated";
        let what =
            if is_new { " (the kubelet has never posted its status" } else { " (kubelet stopped posting status" };
        sentence = sentence.words(what);
        if let Some(posted) = index.last_posted(node).filter(|_| !is_new) {
            sentence = sentence.words("; last posted ").age(seconds_between(posted, now)).words(" ago");
        }
        sentence = sentence.words(")");
    } else if !ready.message.is_empty() {
        sentence = sentence.words(": ").said(&ready.message);
    }
    let Some(began) = stuck_deletion(node, now) else {
        let leaves = leaving(now, node).map(|(why, _)| format!("; {why}"));
        return Some(sentence.words(leaves.unwrap_or_default()));
    };
    sentence = sentence.words("; the Node object has been terminating for ").age(seconds_between(began, now));
    Some(node_removal::with_finalizers(sentence, &node.metadata.finalizers))
}

/// Returns what to do about a node that is not ready.
pub fn repair(now: Timestamp, node: &Node) -> &'static str {
    if let Some((_, advice)) = leaving(now, node) {
        return advice;
    }
    if let Some(reported) = reported(node) {
        let told = Cause::among(REPORTED, reported).map(|cause| cause.advice);
        return told.unwrap_or(
            "see what the kubelet of the node reports, and its log there: it works, and calls the node not ready",
        );
    }
    let since = node.condition("Ready").and_then(|ready| ready.last_transition_time.get());
    if since.is_some_and(|since| seconds_between(since, now) >= MAY_BE_GONE) {
        "check the kubelet and the network of the node; if its machine no longer exists, delete the Node object"
    } else {
        "check the kubelet and the network of the node"
    }
}

/// Returns whether the kubelet of a node works and calls it not ready for nothing but its pod network.
pub fn lacks_only_network(node: &Node) -> bool {
    let cause = Cause::among(REPORTED, reported(node).unwrap_or_default());
    cause.is_some_and(|cause| cause.also == Some(Also::ShowPodsOfNode))
}

/// Returns whether nothing is known that keeps a node from being ready but its pod network: nothing else waits for a pod.
pub fn may_wait_for_plugin(node: &Node) -> bool {
    reported(node).is_none_or(|said| said.is_empty()) || lacks_only_network(node)
}

/// Returns what the kubelet says of its node that it reports as not ready.
fn reported(node: &Node) -> Option<&str> {
    node.condition("Ready").filter(|ready| ready.status == "False").map(|ready| ready.message.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{not_ready, repair};
    use crate::coverage::test_support::at;
    use crate::facts::index::Index;
    use crate::model::snapshot::Snapshot;

    #[test]
    fn a_node_is_not_to_be_deleted_before_it_was_gone_for_an_hour() {
        let may_delete = |since: &str| {
            let ready = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": at(since)});
            let node = from_value(json!({"status": {"conditions": [ready]}})).unwrap();
            repair(at("12:00:00").parse().unwrap(), &node).contains("delete")
        };
        assert_eq!((may_delete("11:00:01"), may_delete("11:00:00")), (false, true));
    }

    #[test]
    fn a_kubelet_has_last_posted_when_it_renewed_its_lease() {
        let told = |renewed: Option<&str>| {
            let ready = json!({"type": "Ready", "status": "Unknown", "lastHeartbeatTime": at("11:50:00")});
            let node = from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [ready]}})).unwrap();
            let mut snapshot = Snapshot::empty(at("12:00:00").parse().unwrap());
            let lease = |renewed| {
                let metadata = json!({"namespace": "kube-node-lease", "name": "n"});
                from_value(json!({"metadata": metadata, "spec": {"renewTime": at(renewed)}})).unwrap()
            };
            snapshot.leases.extend(renewed.map(lease));
            not_ready(&Index::new(&snapshot), &node).unwrap().to_string()
        };
        for (renewed, ago) in [(None, "10m"), (Some("11:54:00"), "6m"), (Some("11:45:00"), "10m")] {
            assert!(told(renewed).contains(&format!("last posted {ago} ago")), "{renewed:?}");
        }
    }

    #[test]
    fn a_kubelet_that_reports_its_node_is_not_looked_for() {
        for (message, expected) in [
            (
                "container runtime is down, PLEG is not healthy: pleg was last seen active 41m12s ago",
                "container runtime",
            ),
            ("PLEG is not healthy: pleg was last seen active 4m12s ago; threshold is 3m0s", "container runtime"),
            // What the runtime last said of the network stays.
            (
                "[container runtime is down, PLEG is not healthy: pleg was last seen active 5m0s ago; threshold is 3m0s, container runtime \
                 network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized]",
                "container runtime of the node, and restart it",
            ),
            ("container runtime status check may not have completed yet", "wait: its kubelet"),
            (
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns \
                 error: cni plugin not initialized",
                "network plugin",
            ),
            ("container runtime not ready: RuntimeReady=false reason:KubeletNotReady message:rpc error", "restart it"),
            ("node is shutting down", "up again"),
            ("CSINode is not yet initialized", "API server"),
            ("something new", "its log there"),
        ] {
            let ready =
                json!({"type": "Ready", "status": "False", "lastTransitionTime": at("10:00:00"), "message": message});
            let node = from_value(json!({"status": {"conditions": [ready]}})).unwrap();
            let advice = repair(at("12:00:00").parse().unwrap(), &node);
            assert!(advice.contains(expected) && !advice.contains("delete"), "{message}: {advice}");
        }
    }

    #[test]
    fn a_node_object_that_is_stuck_in_deletion_names_its_finalizers() {
        let told = |deleted: &str| {
            let ready = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": at("10:00:00")});
            let metadata = json!({"deletionTimestamp": at(deleted), "finalizers": ["karpenter.sh/termination"]});
            let node = from_value(json!({"metadata": metadata, "status": {"conditions": [ready]}})).unwrap();
            let snapshot = Snapshot::empty(at("12:00:00").parse().unwrap());
            let told = not_ready(&Index::new(&snapshot), &node).unwrap().to_string();
            (told, repair(snapshot.now, &node).contains("finalizers"))
        };
        let (message, is_held) = told("11:44:59");
        assert!(message.ends_with("has been terminating for 15m; finalizer karpenter.sh/termination"), "{message}");
        assert!(is_held);
        let (message, is_held) = told("11:45:00");
        assert!(message.ends_with("posting status); the Node object is being deleted") && !is_held, "{message}");
    }

    #[test]
    fn a_node_that_leaves_is_not_to_be_repaired() {
        let told = |taint: serde_json::Value, metadata: serde_json::Value| {
            let ready = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:50:00")});
            let node = json!({"metadata": metadata, "spec": {"taints": [taint]}, "status": {"conditions": [ready]}});
            repair(at("12:00:00").parse().unwrap(), &from_value(node).unwrap())
        };
        let began = |time: &str| at(time).parse::<jiff::Timestamp>().unwrap().as_second().to_string();
        let removed =
            |time: &str| json!({"key": "ToBeDeletedByClusterAutoscaler", "value": began(time), "effect": "NoSchedule"});
        for (taint, metadata, expected) in [
            (json!({"key": "a", "effect": "NoSchedule"}), json!({}), "check the kubelet"),
            (
                json!({"key": "a", "effect": "NoSchedule"}),
                json!({"deletionTimestamp": at("11:55:00")}),
                "being removed",
            ),
            (removed("11:55:00"), json!({}), "autoscaler is removing"),
            (removed("11:30:00"), json!({}), "check the kubelet"),
            (json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}), json!({}), "autoscaler is removing"),
            (removed("11:50:00"), json!({}), "autoscaler is removing"),
            (
                json!({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}),
                json!({}),
                "start the machine",
            ),
        ] {
            assert!(told(taint.clone(), metadata).contains(expected), "{taint}: {expected}");
        }
    }
}
