//! A bound pod that is not available: from the node it is on down to its containers.

use jiff::Timestamp;

use super::containers;
use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::{format_age, seconds_between};
use crate::report::reason::ReasonCode;

/// Reasons with which a kubelet refuses a pod that was bound to its node, besides `OutOf…`.
///
/// pkg/kubelet/lifecycle/predicate.go and pkg/kubelet/kubelet.go, release 1.36.3.
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
    "PodLevelResourcesNotAdmittedReason",
    "SupplementalGroupsPolicyNotSupported",
    "NodeShutdown",
    "InvalidNodeInfo",
];

/// Finds why a bound pod is not available, the cause that lies deepest first.
pub fn findings(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(node.and_then(|node| node_unreachable(subject.index.now(), node)));
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

/// Finds that the node's kubelet is silent, or says that the node is not ready.
pub fn node_unreachable(now: Timestamp, node: &Node) -> Option<Finding> {
    Some(Finding::new(ReasonCode::NodeUnreachable, node_silence(now, node)?, repair(node)))
}

/// Says how a node is not ready and since when, or nothing where it is ready.
pub fn node_silence(now: Timestamp, node: &Node) -> Option<Sentence> {
    let ready = node.condition("Ready").filter(|ready| ready.status != "True")?;
    let sentence = Sentence::from(if ready.status == "Unknown" { "kubelet silent" } else { "node not ready" });
    let sentence = match ready.last_transition_time.get() {
        Some(since) => sentence.words(" for ").age(seconds_between(since, now)),
        None => sentence,
    };
    if ready.status == "Unknown" || ready.message.is_empty() {
        return Some(sentence);
    }
    Some(sentence.words(": ").value(&ready.message))
}

/// Says what to do about a node that is not ready.
pub fn repair(node: &Node) -> Sentence {
    Sentence::from("repair the node, or if it is gone for good: kubectl delete node ").node(&node.metadata.name)
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
        "request what the pods really use, or free the node; a higher priority class is evicted later",
    ))
}

/// Finds that the kubelet refused the pod.
fn kubelet_rejected(pod: &Pod) -> Option<Finding> {
    let reason = pod.status.reason.as_str();
    let rejected = reason.starts_with("OutOf")
        || REJECTIONS.contains(&reason)
        || (!reason.is_empty() && pod.status.message.starts_with("Pod was rejected"));
    if !rejected {
        return None;
    }
    let words = pod.status.message.trim().trim_start_matches("Pod was rejected: ");
    let message = Sentence::from(format!("the kubelet refused the pod: {reason}"));
    let message = if words.is_empty() { message } else { message.words(": ").value(words) };
    let fix = match reason {
        "OutOfpods" => "raise maxPods in the kubelet's configuration, or move pods away",
        _ if reason.starts_with("OutOf") => {
            "the scheduler saw more room than there is: free the node, or look for pods that it does not count \
             (static ones)"
        }
        "NodeAffinity" | "TaintToleration" => {
            "the node's labels or taints changed after the pod was bound: nothing, a new pod is judged anew"
        }
        "NodeShutdown" => "wait until the node is up again",
        "UnexpectedAdmissionError" => "look at the device plugins of the node and the kubelet's log",
        "TopologyAffinityError" | "SMTAlignmentError" => "ask for cpus that fit the kubelet's topology policy",
        "AppArmor" | "SysctlForbidden" => "allow it in the kubelet's configuration, or take it out of the template",
        _ => "see the kubelet's log on the node",
    };
    Some(Finding::new(ReasonCode::KubeletRejected, message, fix))
}

/// Finds a pod that has failed or ended and is still there.
fn failed_pod_backoff(subject: &Subject, pod: &Pod) -> Finding {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let delete =
        Sentence::from(format!("fix the cause; to try at once: kubectl delete pod -n {namespace} ")).example(name);
    if pod.status.phase == "Succeeded" {
        let message = "the pod has ended (Succeeded); the controller deletes it and makes a new one";
        return Finding::new(ReasonCode::FailedPodBackoff, message, delete);
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
    Finding::new(ReasonCode::FailedPodBackoff, message.words("; the controller waits up to 15m between tries"), delete)
}

/// Returns when a pod failed: the last change of its conditions.
fn failed_at(pod: &Pod) -> Option<Timestamp> {
    pod.status.conditions.iter().filter_map(|condition| condition.last_transition_time.get()).max()
}

/// Finds a pod that is ready, but not for long enough.
fn not_yet_available(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let wanted = subject.daemon_set.spec.min_ready_seconds;
    let since = pod.condition("Ready")?.last_transition_time.get()?;
    let ready = seconds_between(since, subject.index.now());
    if ready >= wanted {
        return None;
    }
    let message = Sentence::from("ready for ")
        .age(ready)
        .words(format!(" of the {} that minReadySeconds asks for: available in ", format_age(wanted)))
        .age(wanted - ready);
    Some(Finding::new(ReasonCode::NotYetAvailable, message, "wait"))
}

/// Finds that the pod's sandbox cannot be made, by the kubelet's events.
fn sandbox_failed(subject: &Subject, events: &[&Event]) -> Option<Finding> {
    let event = events.iter().find(|event| event.reason == "FailedCreatePodSandBox")?;
    let message = Sentence::from("the sandbox cannot be made: ").event(event, subject.index.now());
    Some(Finding::new(ReasonCode::SandboxFailed, message, "look at the network plugin and the runtime on the node"))
}

/// Finds that a volume cannot be mounted or attached, by the kubelet's events.
fn mount_failed(subject: &Subject, events: &[&Event]) -> Option<Finding> {
    let event = events.iter().find(|event| matches!(event.reason.as_str(), "FailedMount" | "FailedAttachVolume"))?;
    let message = Sentence::from("a volume cannot be mounted: ").event(event, subject.index.now());
    let namespace = &subject.daemon_set.metadata.namespace;
    let fix = if event.message.contains("configmap") || event.message.contains("secret") {
        format!("create what is missing: kubectl get configmaps,secrets -n {namespace}")
    } else {
        format!("look at the volume: kubectl get pvc -n {namespace}")
    };
    Some(Finding::new(ReasonCode::MountFailed, message, fix))
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
        None => message = message.words(": nobody has set the condition"),
        Some(condition) if !condition.message.is_empty() => message = message.words(": ").value(&condition.message),
        Some(_) => {}
    }
    Some(Finding::new(ReasonCode::ReadinessGate, message, format!("look at whoever sets the condition {first}")))
}

/// Says that a pod is not ready, although nothing about it explains it.
fn not_ready(pod: &Pod) -> Finding {
    let words = pod.condition("Ready").map_or("", |ready| ready.message.as_str());
    let message = Sentence::from("the pod is not ready, and nothing that was read says why");
    let message = if words.is_empty() { message } else { message.words(": ").value(words) };
    let fix =
        Sentence::from(format!("kubectl describe pod -n {} ", pod.metadata.namespace)).example(&pod.metadata.name);
    Finding::new(ReasonCode::Unexplained, message, fix)
}
