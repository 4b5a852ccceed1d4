//! Pods on their way out, and pods whose node is gone.

use super::bound_pod;
use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// How many seconds past its deadline a pod is still taken to be going: the kubelet needs a moment.
const SLACK: i64 = 5;

/// Finds why an eligible node's pods are all going.
pub fn findings(subject: &Subject, node: &Node, pods: &[&Pod]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = bound_pod::node_unreachable(subject.index.now(), node).into_iter().collect();
    findings.extend(pods.iter().filter_map(|pod| terminating(subject, Some(node), pod)));
    findings
}

/// Tells whether a pod that is being deleted should be gone by now.
pub fn is_overdue(subject: &Subject, pod: &Pod) -> bool {
    pod.metadata
        .deletion_timestamp
        .get()
        .is_some_and(|deadline| subject.index.now().as_second() - deadline.as_second() > SLACK)
}

/// Finds that a pod is being deleted, and whether it takes too long.
pub fn terminating(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Option<Finding> {
    let deadline = pod.metadata.deletion_timestamp.get()?;
    if is_overdue(subject, pod) {
        return Some(stuck_terminating(subject, node, pod, deadline));
    }
    let left = seconds_between(subject.index.now(), deadline);
    let mut message =
        Sentence::from("pod ").name(&pod.metadata.name, "there").words(" is being deleted, within ").age(left);
    if let Some(disruption) = disruption(pod) {
        message = message.words(" (").value(disruption).words(")");
    }
    Some(Finding::new(ReasonCode::Terminating, message, "wait; the next pod is made once it is gone"))
}

/// Finds a pod that should be gone by now.
fn stuck_terminating(subject: &Subject, node: Option<&Node>, pod: &Pod, deadline: jiff::Timestamp) -> Finding {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let message = Sentence::from("pod ")
        .name(name, "there")
        .words(" should have been gone for ")
        .age(seconds_between(deadline, subject.index.now()));
    if !pod.metadata.finalizers.is_empty() {
        let fix = Sentence::from("whoever set it must remove it; if nobody does: kubectl patch pod -n ")
            .words(namespace)
            .words(" ")
            .example(name)
            .words(" --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
        let message = message.words(format!(", held by finalizer {}", pod.metadata.finalizers.join(", ")));
        return Finding::new(ReasonCode::StuckTerminating, message, fix);
    }
    let silent = node.and_then(|node| Some((node, bound_pod::node_silence(subject.index.now(), node)?)));
    if let Some((node, silence)) = silent {
        let fix = Sentence::from("if the node is down for good: kubectl taint node ")
            .node(&node.metadata.name)
            .words(" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute");
        return Finding::new(ReasonCode::StuckTerminating, message.words(", and the ").then(silence), fix);
    }
    let fix = Sentence::from("see the kubelet's log on the node; as the last resort: kubectl delete pod -n ")
        .words(namespace)
        .words(" ")
        .example(name)
        .words(" --grace-period=0 --force");
    Finding::new(ReasonCode::StuckTerminating, message.words(", and its kubelet has not ended it"), fix)
}

/// Returns who disrupts the pod, where a condition says so.
pub fn disruption(pod: &Pod) -> Option<String> {
    let condition = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True")?;
    let words = match condition.reason.as_str() {
        "PreemptionByScheduler" => "preempted by a pod of higher priority",
        "DeletionByTaintManager" => "removed because of a NoExecute taint",
        "EvictionByEvictionAPI" => "evicted through the API, as kubectl drain does",
        "DeletionByPodGC" => "removed by the pod garbage collector",
        "TerminationByKubelet" => "ended by the kubelet: eviction, shutdown or a critical pod",
        reason => reason,
    };
    Some(words.to_owned())
}

/// Finds that the node a pod is on or meant for is gone.
pub fn orphaned_target(pod: &Pod) -> Finding {
    let name = Sentence::from("pod ").name(&pod.metadata.name, "there");
    if pod.spec.node_name.is_empty() {
        let message = name.words(" is meant for a node that is gone");
        return Finding::new(ReasonCode::OrphanedTarget, message, "wait: the controller deletes it");
    }
    let message = name.words(" is on a node that is gone");
    let fix =
        Sentence::from("wait: the pod garbage collector deletes it; to be rid of it at once: kubectl delete pod -n ")
            .words(&pod.metadata.namespace)
            .words(" ")
            .example(&pod.metadata.name)
            .words(" --grace-period=0 --force");
    Finding::new(ReasonCode::OrphanedTarget, message, fix)
}
