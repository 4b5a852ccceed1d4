//! Why a bound pod is not available: from its node down to its containers.

use jiff::Timestamp;

use super::containers;
use super::daemon_set_context::Subject;
use super::finding::{Finding, delete_pod, describe_pod};
use super::node_health;
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::{format_age, seconds_between};
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// The kubelet's reasons for rejecting a pod that was bound to its node, besides `OutOf…`.
///
/// `admissionRejectionReasons`, pkg/kubelet/kubelet.go, release 1.37.2, and the names of the filters of
/// pkg/kubelet/lifecycle/predicate.go. One that has a code of its own is found before.
const REJECTIONS: &[&str] = &[
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "UnexpectedAdmissionError",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "AppArmor",
    "SysctlForbidden",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "VolumeAttachmentLimitExceeded",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "InitContainerRestartPolicyForbidden",
    "UnknownReason",
    "UnexpectedPredicateFailureType",
    "SupplementalGroupsPolicyNotSupported",
    "NodeShutdown",
    "InvalidNodeInfo",
];

/// Finds why a bound pod is not available, the root cause first.
pub fn findings(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(node.and_then(|node| node_health::node_unreachable(subject.index.now(), node)));
    if pod.is_terminal() {
        findings.extend(evicted(pod).or_else(|| kubelet_rejected(pod)));
        findings.push(failed_pod_backoff(subject, pod));
        return findings;
    }
    if pod.is_ready() {
        findings.extend(not_yet_available(subject, pod));
        return findings;
    }
    let events = subject.index.events_about("Pod", &pod.metadata);
    if containers::none_started(pod) {
        findings.extend(sandbox_failed(subject, &events));
        findings.extend(mount_failed(subject, &events));
    }
    findings.extend(containers::findings(subject, pod, &events));
    findings.extend(readiness_gate(pod));
    if findings.is_empty() {
        findings.push(not_ready(pod));
    }
    findings
}

/// Finds that the pod was evicted.
fn evicted(pod: &Pod) -> Option<Finding> {
    if !matches!(pod.status.reason.as_str(), "Evicted" | "Preempting") {
        return None;
    }
    let message = Sentence::from("evicted by the kubelet: ").value(pod.status.message.trim());
    Some(Finding::new(
        ReasonCode::Evicted,
        message,
        "set requests to what the pods use, or free the node; pods of a higher priority are evicted later",
    ))
}

/// Finds that the kubelet rejected the pod.
fn kubelet_rejected(pod: &Pod) -> Option<Finding> {
    let reason = pod.status.reason.as_str();
    let rejected = reason.starts_with("OutOf")
        || REJECTIONS.contains(&reason)
        || (!reason.is_empty() && pod.status.message.starts_with("Pod was rejected"));
    if !rejected {
        return None;
    }
    let cause = pod.status.message.trim().trim_start_matches("Pod was rejected: ");
    let message = Sentence::from(format!("the kubelet rejected the pod: {reason}"));
    let message = if cause.is_empty() { message } else { message.words(": ").value(cause) };
    let advice = match reason {
        "OutOfpods" => "raise maxPods in the kubelet configuration, or move pods to other nodes",
        _ if reason.starts_with("OutOf") => {
            "the node has less free than the scheduler knew: free some, or look for pods that it does not count, such \
             as static pods"
        }
        "NodeAffinity" | "TaintToleration" => {
            "no action needed: labels or taints changed after the pod was bound, and a new pod is judged by them"
        }
        "NodeShutdown" => "wait until the node is up again",
        "UnexpectedAdmissionError" => "check the device plugins on the node, and the kubelet log",
        "TopologyAffinityError" | "SMTAlignmentError" => "request cpus that fit the kubelet's topology policy",
        "AppArmor" | "SysctlForbidden" => "allow it in the kubelet configuration, or remove it from the template",
        _ => "check the kubelet log on the node",
    };
    Some(Finding::new(ReasonCode::KubeletRejected, message, advice))
}

/// Finds a pod that has failed or succeeded and was not deleted yet.
fn failed_pod_backoff(subject: &Subject, pod: &Pod) -> Finding {
    if pod.status.phase == "Succeeded" {
        let message = "the pod has succeeded; the controller deletes and recreates it";
        let advice = "use containers that keep running";
        return Finding::new(ReasonCode::FailedPodBackoff, message, advice);
    }
    let mut message = Sentence::from("the pod has failed");
    if let Some(end) = containers::last_end(pod) {
        message = message.words(" (").value(end).words(")");
    } else if !pod.status.reason.is_empty() {
        message = message.words(" (").value(&pod.status.reason).words(")");
    }
    if let Some(at) = failed_at(pod) {
        message = message.words(" ").age(seconds_between(at, subject.index.now())).words(" ago");
    }
    let message = message.words("; the controller waits up to 15m before it recreates it");
    let advice = "fix the cause; to retry now, delete the failed pod";
    Finding::new(ReasonCode::FailedPodBackoff, message, advice).with_command(delete_pod(pod))
}

/// Returns when a pod failed: the last change of its conditions.
fn failed_at(pod: &Pod) -> Option<Timestamp> {
    pod.status.conditions.iter().filter_map(|condition| condition.last_transition_time.get()).max()
}

/// Finds a pod that is ready, but not for long enough.
fn not_yet_available(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let required = subject.daemon_set.spec.min_ready_seconds;
    let since = pod.condition("Ready")?.last_transition_time.get()?;
    let ready = seconds_between(since, subject.ready_clock());
    if ready >= required {
        return None;
    }
    let message = Sentence::from("ready for ")
        .age(ready)
        .words(format!("; minReadySeconds is {}: available in ", format_age(required)))
        .age(required - ready);
    Some(Finding::new(ReasonCode::NotYetAvailable, message, "wait"))
}

/// Finds that the pod's sandbox cannot be created, by the kubelet's events.
fn sandbox_failed(subject: &Subject, events: &[&Event]) -> Option<Finding> {
    let event = events.iter().find(|event| event.reason == "FailedCreatePodSandBox")?;
    let message = Sentence::from("the pod sandbox cannot be created: ").event(event, subject.index.now());
    Some(Finding::new(
        ReasonCode::SandboxFailed,
        message,
        "check the network plugin and the container runtime on the node",
    ))
}

/// Finds that a volume cannot be mounted or attached, by the kubelet's events.
fn mount_failed(subject: &Subject, events: &[&Event]) -> Option<Finding> {
    let event = events.iter().find(|event| matches!(event.reason.as_str(), "FailedMount" | "FailedAttachVolume"))?;
    let message = Sentence::from("a volume cannot be mounted: ").event(event, subject.index.now());
    let (advice, resources) = if event.message.contains("configmap") || event.message.contains("secret") {
        ("create what is missing, or correct its name in the template", "configmaps,secrets")
    } else {
        ("check the volume and its driver", "pvc")
    };
    let list = Command::kubectl(&["get", resources]).namespace(&subject.daemon_set.metadata.namespace);
    Some(Finding::new(ReasonCode::MountFailed, message, advice).with_command(list))
}

/// Finds readiness gates that are not met.
fn readiness_gate(pod: &Pod) -> Option<Finding> {
    let unmet: Vec<&str> = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| gate.condition_type.as_str())
        .filter(|gate| pod.condition(gate).is_none_or(|condition| condition.status != "True"))
        .collect();
    let first = unmet.first()?;
    let mut message = Sentence::from(format!("readiness gate {} is not met", unmet.join(", ")));
    match pod.condition(first) {
        None => message = message.words(": the condition was never set"),
        Some(condition) if !condition.message.is_empty() => message = message.words(": ").value(&condition.message),
        Some(_) => {}
    }
    Some(Finding::new(ReasonCode::ReadinessGate, message, format!("check the controller that sets condition {first}")))
}

/// Finds a pod that is not ready for a reason that nothing explains.
fn not_ready(pod: &Pod) -> Finding {
    let condition = pod.condition("Ready").map_or("", |ready| ready.message.as_str());
    let message = Sentence::from("the pod is not ready, and nothing that was read explains why");
    let message = if condition.is_empty() { message } else { message.words(": ").value(condition) };
    Finding::new(ReasonCode::Unexplained, message, "look at the pod").with_command(describe_pod(pod))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use crate::coverage::test_support::world;
    use crate::report::reason::ReasonCode;

    #[test]
    fn rejections_of_the_kubelet_get_advice_by_their_cause() {
        let advice = |reason: &&str| {
            let status = json!({"phase": "Failed", "reason": reason, "conditions": [], "containerStatuses": []});
            let world = world().node("n", json!({})).pod("agent-x", "n", json!({"status": status}));
            let rejected = world.only_node().reasons.remove(0);
            assert_eq!(rejected.code, ReasonCode::KubeletRejected, "{reason}");
            rejected.fix.advice
        };
        let causes: [&[&str]; 8] = [
            &["OutOfpods"],
            &["OutOfcpu", "OutOfmemory"],
            &["NodeAffinity", "TaintToleration"],
            &["NodeShutdown"],
            &["UnexpectedAdmissionError"],
            &["TopologyAffinityError", "SMTAlignmentError"],
            &["AppArmor", "SysctlForbidden"],
            &["NodePorts"],
        ];
        let advice: Vec<BTreeSet<String>> = causes.iter().map(|reasons| reasons.iter().map(advice).collect()).collect();
        assert!(advice.iter().all(|same| same.len() == 1), "{advice:?}");
        assert_eq!(advice.iter().flatten().collect::<BTreeSet<_>>().len(), causes.len(), "{advice:?}");
    }
}
