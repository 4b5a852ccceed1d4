//! Why a bound pod is not available: from its node down to its containers.

use jiff::Timestamp;

use super::admission_changes::{READINESS_GATES, of_gate};
use super::claims::preparation_failed;
use super::containers;
use super::crashes::crash_looping;
use super::creation_errors::READ_ONLY_DISK;
use super::daemon_set_context::Subject;
use super::finding::{Finding, Lack, Origin, TemplatePart, delete_pod, describe_bound_node, describe_pod, edit};
use super::fit::single_pod_node;
use super::node_health;
use super::roles::{Role, lost_its_sandbox, none_created, walk};
use super::sandbox::sandbox_failed;
use super::sentence::Sentence;
use super::volumes::mount_failed;
use super::{PROGRESS_DEADLINE, WAITS_FOR_DELETION};
use crate::facts::controller::{Controller, FAILED_POD_BACKOFF};
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStateTerminated, Pod};
use crate::model::quantity::Quantity;
use crate::report::age::{format_age, seconds_between};
use crate::report::reason::{Passing, ReasonCode};

/// The kubelet's reasons for rejecting a pod that was bound to its node for what its template has, which this kubelet does not allow
/// or support.
///
/// `admissionRejectionReasons`, pkg/kubelet/kubelet.go, release 1.37.2. One that has a code of its own is found before.
const OF_TEMPLATE: &[&str] = &[
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "AppArmor",
    "SysctlForbidden",
    "TopologyAffinityError",
    "SMTAlignmentError",
    "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported",
    "InitContainerRestartPolicyForbidden",
    "SupplementalGroupsPolicyNotSupported",
];

/// The kubelet's other reasons, besides `OutOf…`: what the node has, its labels and its taints, or its devices, are not as they were
/// when the pod was bound, and it would reject pods of any template. They include the names of the filters of
/// pkg/kubelet/lifecycle/predicate.go.
const OF_NODE: &[&str] = &[
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "UnexpectedAdmissionError",
    "VolumeAttachmentLimitExceeded",
    "UnknownReason",
    "UnexpectedPredicateFailureType",
    "NodeShutdown",
    "InvalidNodeInfo",
];

/// What the kubelet says of pods that it ends because the node is shutting down: `processShutdownEvent`,
/// pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go, release 1.37.2.
const SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";

/// Finds why a bound pod is not available, the root cause first. On a virtual node, pods of DaemonSets that have not started by now
/// never will, whatever the node says of it.
pub fn findings(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Vec<Finding> {
    let findings = by_state(subject, node, pod);
    let created = pod.metadata.creation_timestamp.get();
    let is_late = || created.is_some_and(|created| subject.seconds_since(created) > PROGRESS_DEADLINE);
    let has_said_why = || pod.is_terminal() || !pod.status.reason.is_empty();
    let never_starts = || !pod.is_ready() && (has_said_why() || none_created(pod) && is_late());
    let Some((node, single)) = node.and_then(|node| Some((node, single_pod_node(node)?))).filter(|_| never_starts())
    else {
        return findings;
    };
    let told = |finding: Finding| match finding.code.is_state_of_node() {
        true => finding,
        false => single.told(finding, node).with_command(edit(subject.daemon_set)),
    };
    findings.into_iter().map(told).collect()
}

fn by_state(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Vec<Finding> {
    let unreachable = node.and_then(|node| node_health::node_unreachable(subject, node));
    // A pod of the host network starts without the network plugin: that it does not may be why the node is not ready.
    let is_of_pod = pod.spec.host_network && node.is_some_and(node_health::lacks_only_network);
    let is_of_pod = is_of_pod && !pod.is_terminal() && !pod.is_ready();
    let mut findings: Vec<Finding> = unreachable.clone().filter(|_| !is_of_pod).into_iter().collect();
    let now = subject.now();
    if pod.is_terminal() {
        let ended = evicted(pod).or_else(|| ended_by_shutdown(subject, node, pod)).or_else(|| kubelet_rejected(pod));
        let ended = ended.map(|finding| node_health::on_leaving_node(now, node, finding));
        let is_explained = ended.is_some() && pod.status.phase == "Succeeded";
        findings.extend(ended);
        if !is_explained {
            findings.push(failed_pod_backoff(subject, node, pod));
        }
        return findings;
    }
    if pod.is_ready() {
        findings.extend(not_yet_available(subject, pod));
        return findings;
    }
    let mut events = subject.index.events_about("Pod", &pod.metadata);
    if none_created(pod) {
        let before = findings.len();
        let has_sandbox = pod.condition("PodReadyToStartContainers").filter(|condition| condition.status == "True");
        let has_sandbox = has_sandbox.and_then(|condition| condition.last_transition_time.get());
        if let Some(since) = pod.unready_since().filter(|_| lost_its_sandbox(pod)).max(has_sandbox) {
            // What kept it from starting the first time, or its sandbox from being created, is over.
            events.retain(|event| event.last_seen().is_none_or(|at| at >= since));
        }
        findings.extend(sandbox_failed(subject, pod, &events));
        findings.extend(mount_failed(subject, node, pod, &events));
        findings.extend(preparation_failed(subject, node, pod, &events));
        if findings.len() > before {
            return findings;
        }
    }
    let of_containers = containers::findings(subject, node, pod, &events).into_iter();
    match findings.is_empty() {
        true => findings.extend(of_containers.map(|finding| node_health::on_leaving_node(now, node, finding))),
        // The first one says it.
        false => findings.extend(of_containers),
    }
    findings.extend(readiness_gate(subject, pod));
    if findings.is_empty() {
        findings.push(unreachable.unwrap_or_else(|| not_ready(pod)));
    }
    findings
}

/// Finds that the pod was evicted, or rejected because the node lacks something.
///
/// The messages are those of pkg/kubelet/eviction/helpers.go and pkg/kubelet/preemption/preemption.go, release 1.37.2. That of an
/// eviction names each container that used more than it requests, so that one without a name is the node's alone.
pub(super) fn evicted(pod: &Pod) -> Option<Finding> {
    let (reason, says) = (pod.status.reason.as_str(), pod.status.message.trim());
    if !matches!(reason, "Evicted" | "Preempting") {
        return None;
    }
    let node = &pod.spec.node_name;
    let rejected = says.trim_start_matches("Pod was rejected: ").strip_prefix("The node had condition: ");
    let exceeds = says.contains(" exceeds the ") || says.contains(" exceeded its ");
    let (origin, advice) = match () {
        () if reason == "Preempting" => (
            Origin::Node,
            Sentence::from(
                "free the node: it made room for a critical pod; pods with a critical priority class are not preempted",
            ),
        ),
        () if rejected.is_some() => {
            // Under memory pressure alone, pods that request memory are admitted (`Admit`, pkg/kubelet/eviction/eviction_manager.go).
            let until = match rejected.is_some_and(|conditions| conditions.starts_with("[MemoryPressure]")) {
                true => "; until then, the kubelet admits only pods that request memory or are critical",
                false => "; until then, the kubelet admits only critical pods, whatever the others request",
            };
            let what = match rejected {
                Some(conditions) if conditions.contains("DiskPressure") => "free disk space on ",
                Some(conditions) if conditions.contains("PIDPressure") => "find out what uses up the process IDs of ",
                _ => "free memory on ",
            };
            (Origin::Node, Sentence::from(what).example(node).words(until))
        }
        () if exceeds => {
            (Origin::Room(Lack::OwnUsage), Sentence::from("raise the limit, or find out what the pod fills it with"))
        }
        // For these, no pod requests anything: `rankPIDPressure` and `rankDiskPressureFunc`, pkg/kubelet/eviction/helpers.go, release 1.37.2.
        () if says.contains("low on resource: pids") => (
            Origin::Node,
            Sentence::from("find out what starts so many processes on ").example(node).words(
                ": of the pods with the lowest priority, those with the most are evicted first",
            ),
        ),
        () if is_of_disk(says) && says.contains("low on resource: inodes") => (
            Origin::Node,
            Sentence::from("delete small files on ").example(node).words(
                ", such as those of unused images: inodes are short, and pods with many files are evicted first",
            ),
        ),
        () if is_of_disk(says) => (
            Origin::Node,
            Sentence::from("free disk space on ").example(node).words(
                "; the pods that exceed their ephemeral-storage requests most are evicted first, and one without a request exceeds it",
            ),
        ),
        () if says.is_empty() || says.contains(" was using ") => (
            Origin::Room(Lack::OwnUsage),
            Sentence::from(
                "set requests to what the pods use, or free the node; pods of a higher priority are evicted later",
            ),
        ),
        () => {
            let free = Sentence::from("free what is short on ").example(node);
            (Origin::Node, free.words(": no container is named, so none used more than it requests"))
        }
    };
    let message = match rejected {
        Some(_) => Sentence::from("rejected by the kubelet: ").said(says.trim_start_matches("Pod was rejected: ")),
        None => Sentence::from("evicted by the kubelet: ").said(says),
    };
    // `Preemptable`, pkg/kubelet/types/pod_update.go, and `evictPod` and `Admit`, pkg/kubelet/eviction/eviction_manager.go, release 1.37.2.
    let spared = (origin == Origin::Node).then_some(TemplatePart::CriticalPriority);
    let finding = Finding::new(ReasonCode::Evicted, message, advice).with_origin(origin).only_with(spared);
    Some(finding.with_command(rejected.map(|_| describe_bound_node(pod))))
}

/// Returns whether the disk of a node was full, and would have been without what the evicted pod used, too.
fn is_of_disk(says: &str) -> bool {
    let Some((_, low)) = says.split_once("low on resource: ") else { return false };
    let amount = |text: &str| Quantity::new(text.trim_matches([',', '.', ' '])).nanos();
    let after = |words: &str| amount(low.split_once(words)?.1.split([',', ' ']).next()?);
    let used = low.split(" was using ").skip(1).filter_map(|rest| amount(rest.split(',').next()?));
    let lacking = after("Threshold quantity: ").zip(after("available: ")).map(|(threshold, free)| threshold - free);
    let disk = ["ephemeral-storage", "inodes", "nodefs", "imagefs"];
    disk.iter().any(|resource| low.starts_with(resource)) && lacking.is_some_and(|lacking| used.sum::<i128>() < lacking)
}

/// Finds that the kubelet ended the pod because the node was shutting down: a pod whose containers end with 0 has succeeded then.
fn ended_by_shutdown(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Option<Finding> {
    let of_kubelet = pod.condition("DisruptionTarget").is_some_and(|it| it.message == SHUTDOWN);
    if !of_kubelet && pod.status.reason != "Terminated" {
        return None;
    }
    let message = Sentence::from("the kubelet ended the pod because the node was shutting down");
    if node.is_none_or(|node| node.not_ready().is_some()) && pod.status.phase == "Failed" {
        let advice = "wait until the node is up again: the controller recreates the pod";
        return Some(Finding::new(ReasonCode::KubeletRejected, message, advice).with_origin(Origin::Node));
    }
    Some(recreated(subject, pod, Finding::new(ReasonCode::KubeletRejected, message, "").with_origin(Origin::Node)))
}

/// How many seconds the controller may take to delete a pod that has ended: the longest backoff, and some time to notice it.
pub const TO_RECREATE: i64 = FAILED_POD_BACKOFF + 120;

/// Adds to a finding about a pod that has ended, whatever its containers do, when the controller recreates it, or that it has not.
///
/// `podsShouldBeOnNode`, pkg/controller/daemon/daemon_controller.go, release 1.37.2, deletes one that has succeeded without backoff.
fn recreated(subject: &Subject, pod: &Pod, finding: Finding) -> Finding {
    let (controller, has_succeeded) = (subject.controller, pod.status.phase == "Succeeded");
    if has_succeeded && controller == Controller::Kruise {
        let finding = finding.and(format!("; {} leaves it alone", controller.name()));
        return finding.with_advice("delete the pod: it is created again").with_command(delete_pod(pod));
    }
    let ago = ended_at(pod).map(|at| subject.seconds_since(at));
    if let Some(ago) = ago.filter(|ago| *ago > TO_RECREATE) {
        let ended = Sentence::from("; it ended ").age(ago).words(" ago, and the controller has not recreated it");
        let advice = format!("delete the pod; if no other one is created, {}", controller.check().advice);
        return finding.and(ended).with_advice(advice).with_command(delete_pod(pod));
    }
    match has_succeeded {
        true => finding
            .and("; the controller deletes and recreates it")
            .with_advice(format!("wait; if the pod remains, check {}", controller.program()))
            .with_passing(Passing::AtStart),
        false => finding
            .and(format!("; the controller recreates it within {}", format_age(FAILED_POD_BACKOFF)))
            .with_advice("wait"),
    }
}

pub fn kubelet_rejected(pod: &Pod) -> Option<Finding> {
    let reason = pod.status.reason.as_str();
    let is_of_template = OF_TEMPLATE.contains(&reason);
    // The policies of the CPU, memory and topology managers judge what containers request by how the node is divided.
    let is_of_topology = matches!(reason, "TopologyAffinityError" | "SMTAlignmentError");
    let is_of_node = reason.starts_with("OutOf") || OF_NODE.contains(&reason);
    let is_other = !reason.is_empty() && pod.status.message.starts_with("Pod was rejected");
    if !is_of_template && !is_of_node && !is_other {
        return None;
    }
    let cause = pod.status.message.trim().trim_start_matches("Pod was rejected: ");
    let message = Sentence::from(format!("the kubelet rejected the pod: {reason}"));
    let message = if cause.is_empty() { message } else { message.words(": ").said(cause) };
    let advice = match reason {
        "OutOfpods" => "raise maxPods in the kubelet configuration, or move pods to other nodes",
        _ if reason.starts_with("OutOf") && cause.ends_with("capacity: 0") => {
            "the node offers none of it now: check the pod of the device plugin there, which registers the devices with the kubelet"
        }
        _ if reason.starts_with("OutOf") => {
            "the node has less free than the scheduler knew: free some, or look for pods that it does not count, such \
             as static pods"
        }
        "NodeAffinity" | "TaintToleration" => {
            "no action needed if it happens once: labels or taints changed, or the kubelet had just started and did not know them yet; if it \
             happens again and again, restart the kubelet"
        }
        "NodeShutdown" => "wait: once the node is up again, the controller replaces the pod within 15m",
        "UnexpectedAdmissionError" if cause.contains("not enough cpus available") => {
            "free exclusive CPUs on the node (static CPU manager policy), or request fewer; a container whose cpu request is not a whole \
             number needs none"
        }
        "UnexpectedAdmissionError" if cause.contains("no space left on device") => {
            "free space on the disk of the node that has the kubelet's root directory, usually /var/lib/kubelet"
        }
        "UnexpectedAdmissionError" if cause.contains("read-only file system") => READ_ONLY_DISK,
        "UnexpectedAdmissionError" if cause.contains("no set of running pods found to reclaim resources") => {
            "free on the node the resource that the message names (pods is the number of pods): this pod is critical, and the kubelet \
             finds no pods there that it may preempt for it"
        }
        "UnexpectedAdmissionError" if cause.contains("[memorymanager]") => {
            "request memory that one NUMA node has free, or change the kubelet's memory manager policy on the node"
        }
        "UnexpectedAdmissionError" => "check the device plugins on the node, and the kubelet log",
        "TopologyAffinityError" | "SMTAlignmentError" => "request cpus that fit the kubelet's topology policy",
        "AppArmor" if cause.contains("not enabled on the host") => {
            "remove the AppArmor profile from the template, or exclude nodes without AppArmor with a nodeSelector"
        }
        "AppArmor" => "install the profile on the node, or correct it in the template",
        "SysctlForbidden" => {
            "allow it in the kubelet configuration (allowedUnsafeSysctls), or remove it from the template"
        }
        "NodePorts" => {
            "free the host port on the node, or change it in the template: a pod that the scheduler does not count has it, such as a \
             static pod"
        }
        "PodOSNotSupported" | "PodOSSelectorNodeLabelDoesNotMatch" => {
            "make os.name and nodeSelector kubernetes.io/os of the template agree with the nodes that it is for"
        }
        "PodFeatureUnsupported"
        | "PodLevelResourcesNotSupported"
        | "InitContainerRestartPolicyForbidden"
        | "SupplementalGroupsPolicyNotSupported" => {
            "remove from the template what this kubelet or its container runtime does not support, or upgrade them on the node"
        }
        "VolumeAttachmentLimitExceeded" => "detach volumes from the node: it has reached the limit of the driver",
        _ => "check the kubelet log on the node",
    };
    let origin = match () {
        () if is_of_topology => Origin::Template(TemplatePart::Requests),
        () if is_of_template => Origin::Template(TemplatePart::AskedOfNode),
        () if is_of_node => Origin::Node,
        () => Origin::Unknown,
    };
    let asked = is_of_node.then(|| asked(reason, cause)).flatten();
    Some(Finding::new(ReasonCode::KubeletRejected, message, advice).with_origin(origin).only_with(asked))
}

/// Returns the part of the template for which the kubelet of a node rejects a pod, by its reason and its words.
///
/// `InsufficientResourceError`, pkg/kubelet/lifecycle/predicate.go, `devicesToAllocate`, pkg/kubelet/cm/devicemanager/manager.go, and the
/// static policies of pkg/kubelet/cm/cpumanager and memorymanager, release 1.37.2.
fn asked(reason: &str, said: &str) -> Option<TemplatePart> {
    let number = |before: &str| -> Option<i64> {
        said.split_once(before)?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let requested = |resource: &str, free| Some(TemplatePart::Requested { resource: resource.to_owned(), free });
    match reason {
        "NodeAffinity" => Some(TemplatePart::NodeSelection),
        "NodePorts" => Some(TemplatePart::HostPorts),
        "VolumeAttachmentLimitExceeded" => Some(TemplatePart::AttachedVolumes),
        "UnexpectedAdmissionError" if said.contains("not enough cpus available") => requested("cpu", None),
        "UnexpectedAdmissionError" if said.contains("[memorymanager]") => requested("memory", None),
        "UnexpectedAdmissionError" => match said.split_once("requested number of devices unavailable for ") {
            Some((_, rest)) => requested(rest.split_once(". ")?.0, number(", Available: ")),
            None => said.contains("Allocate failed due to rpc error").then_some(TemplatePart::Devices),
        },
        _ => {
            let resource = reason.strip_prefix("OutOf").filter(|resource| *resource != "pods")?;
            let free = number(", capacity: ").zip(number(", used: ")).map(|(capacity, used)| capacity - used);
            requested(resource, free)
        }
    }
}

/// Finds a pod that has failed or succeeded and was not deleted yet.
fn failed_pod_backoff(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Finding {
    if pod.status.phase == "Succeeded" {
        let finding = recreated(subject, pod, Finding::new(ReasonCode::FailedPodBackoff, "the pod has succeeded", ""));
        // A container with a restart policy of its own may end by itself; others are restarted unless the kubelet ends the pod.
        let may_end = |container: &Container| container.restart_policy.as_deref().is_some_and(|it| it != "Always");
        return match pod.spec.containers.iter().any(may_end) {
            true => {
                finding.with_advice("use containers that keep running").with_command(None).with_passing(Passing::Never)
            }
            false => finding,
        };
    }
    let mut message = Sentence::from("the pod has failed");
    if let Some(end) = containers::last_end(pod) {
        message = message.words(" (").value(end).words(")");
    } else if !pod.status.reason.is_empty() {
        message = message.words(" (").value(&pod.status.reason);
        if !pod.status.message.trim().is_empty() {
            message = message.words(": ").said(pod.status.message.trim());
        }
        message = message.words(")");
    }
    if subject.deletion_refusal().is_some() {
        return Finding::new(ReasonCode::FailedPodBackoff, message, WAITS_FOR_DELETION);
    }
    if let Some(at) = ended_at(pod) {
        let ago = subject.seconds_since(at);
        if ago > TO_RECREATE && node.is_none_or(|node| single_pod_node(node).is_none()) {
            return recreated(subject, pod, Finding::new(ReasonCode::FailedPodBackoff, message, ""));
        }
        message = message.words(" ").age(ago).words(" ago");
    }
    let longest = format_age(FAILED_POD_BACKOFF);
    let message = message.words(format!("; the controller waits up to {longest} before it recreates it"));
    let advice = "fix the cause; to retry now, delete the failed pod";
    Finding::new(ReasonCode::FailedPodBackoff, message, advice).with_command(delete_pod(pod))
}

/// Returns when a pod ended: the last change of its conditions, or when its last container did. One that the kubelet rejects has neither,
/// and ends as it was created.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let changes = pod.status.conditions.iter().filter_map(|condition| condition.last_transition_time.get());
    let ends = pod.container_statuses().filter_map(|status| status.state.terminated.as_ref()?.finished_at.get());
    changes.chain(ends).max().or_else(|| pod.metadata.creation_timestamp.get())
}

/// Finds a pod that is ready, but not for long enough, and whose containers have never run for that long.
fn never_ready_for_long(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let required = subject.daemon_set.spec.min_ready_seconds;
    let ran = |end: &ContainerStateTerminated| {
        end.started_at.get().zip(end.finished_at.get()).map(|(from, to)| seconds_between(from, to))
    };
    let mut containers = walk(pod).filter(|(role, ..)| *role != Role::Init);
    let (this, end) = containers.find_map(|(role, container, status)| {
        let status = status.filter(|status| i64::from(status.restart_count) >= containers::MANY_RESTARTS)?;
        let runs_for = status.state.running.as_ref()?.started_at.get().map(|at| subject.seconds_since(at))?;
        // What has outlived its last run may be well.
        let is_short = |ran: i64| ran < required && runs_for <= ran;
        let end = status.last_state.terminated.as_ref().filter(|end| ran(end).is_some_and(is_short))?;
        Some(((role, container, status), end))
    })?;
    let never = format!("; it never runs for minReadySeconds ({})", format_age(required));
    Some(crash_looping(subject, pod, this, Some(end)).and(never))
}

/// After how many failures a readiness probe that succeeds now is expected to fail again.
const FAILURES: i32 = 3;

/// Finds a pod that is ready for so many seconds, and whose readiness probe has failed again and again until shortly before.
fn keeps_failing(subject: &Subject, pod: &Pod, ready: i64) -> Option<Finding> {
    let required = subject.daemon_set.spec.min_ready_seconds;
    let (now, created) = (subject.now(), pod.metadata.creation_timestamp.get()?);
    // A program may need some time until it works.
    if seconds_between(created, now) < 3 * required.max(ready) {
        return None;
    }
    let fails = |event: &&Event| {
        let is_late = event.last_seen().is_some_and(|at| seconds_between(created, at) > required);
        event.reason == "Unhealthy" && event.message.starts_with("Readiness probe ") && is_late && event.is_recent(now)
    };
    let events = subject.index.events_about("Pod", &pod.metadata);
    let event = events.into_iter().filter(fails).find(|event| event.times() >= FAILURES)?;
    let message = Sentence::from("ready for ")
        .age(ready)
        .words("; its readiness probe fails again and again: ")
        .event(event, now);
    let message = message.words(format!("; it is never ready for minReadySeconds ({})", format_age(required)));
    let advice = "fix the probe, or what keeps it from succeeding; or lower minReadySeconds";
    Some(Finding::new(ReasonCode::ReadinessFailing, message, advice).with_command(describe_pod(pod)))
}

/// Finds a pod that is ready, but not for long enough.
fn not_yet_available(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let required = subject.daemon_set.spec.min_ready_seconds;
    let since = pod.condition("Ready")?.last_transition_time.get()?;
    let ready = subject.ready_clock().duration_since(since).as_secs();
    if ready >= required {
        return None;
    }
    if let Some(failing) = never_ready_for_long(subject, pod).or_else(|| keeps_failing(subject, pod, ready)) {
        return Some(failing);
    }
    let message = match ready < 0 {
        true => Sentence::from("by its node, ready only in ").age(-ready).words(" (the clock of the node is ahead)"),
        false => Sentence::from("ready for ").age(ready),
    };
    let message = message
        .words(format!("; minReadySeconds is {}: available in ", format_age(required)))
        .age(required.saturating_sub(ready));
    Some(Finding::new(ReasonCode::NotYetAvailable, message, "wait"))
}

/// Finds readiness gates that are not met.
fn readiness_gate(subject: &Subject, pod: &Pod) -> Option<Finding> {
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
        Some(condition) if !condition.message.is_empty() => message = message.words(": ").said(&condition.message),
        Some(_) => {}
    }
    let advice = format!("check the controller that sets condition {first}");
    Some(of_gate(subject, pod, READINESS_GATES, first, Finding::new(ReasonCode::ReadinessGate, message, advice)))
}

/// Finds a pod that is not ready for a reason that nothing explains.
fn not_ready(pod: &Pod) -> Finding {
    let condition = pod.condition("Ready").map_or("", |ready| ready.message.as_str());
    let message = Sentence::from("the pod is not ready, and nothing that was read explains why");
    let message = if condition.is_empty() { message } else { message.words(": ").said(condition) };
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
        let causes: [&[&str]; 12] = [
            &["OutOfpods"],
            &["OutOfcpu", "OutOfmemory"],
            &["NodeAffinity", "TaintToleration"],
            &["NodeShutdown"],
            &["UnexpectedAdmissionError"],
            &["TopologyAffinityError", "SMTAlignmentError"],
            &["AppArmor"],
            &["SysctlForbidden"],
            &["NodePorts"],
            &["PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"],
            &["PodFeatureUnsupported", "PodLevelResourcesNotSupported", "SupplementalGroupsPolicyNotSupported"],
            &["VolumeAttachmentLimitExceeded"],
        ];
        let advice: Vec<BTreeSet<String>> = causes.iter().map(|reasons| reasons.iter().map(advice).collect()).collect();
        assert!(advice.iter().all(|same| same.len() == 1), "{advice:?}");
        assert_eq!(advice.iter().flatten().collect::<BTreeSet<_>>().len(), causes.len(), "{advice:?}");
    }
}
