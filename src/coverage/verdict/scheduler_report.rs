//! What the scheduler last reported of a pod, and what follows from its reasons for a node that are not recomputed.

use jiff::Timestamp;

use super::claims::{device_claim_unsatisfied, missing_device_class};
use super::create_failure::Refused;
use super::daemon_set_context::Subject;
use super::filters::{Filtered, filtered};
use super::finding::{Finding, Origin, TemplatePart, edit};
use super::fit::{NEVER_BESIDE_OLD, instead_of_surge, single_pod_node};
use super::other_pods;
use super::pod_claims::{self, volumes_not_bound};
use super::scheduler_message::{PluginInput, Preemption, SchedulerMessage, SchedulerPlugin, code_of, is_same_plugin};
use super::sentence::Sentence;
use super::webhook;
use crate::facts::controller::is_default_scheduler;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::affinity::RequiredNodeAffinity;
use crate::scheduling::daemon_pods;
use crate::scheduling::declared_features;
use crate::scheduling::resources::{NodeUsage, fits, pod_requests};

/// The scheduler's last report on a pod.
pub struct LastReport {
    /// Its whole message.
    pub text: String,
    /// The message, parsed.
    pub message: SchedulerMessage,
    /// When it was last reported.
    pub at: Option<Timestamp>,
    /// Whether the scheduler itself failed.
    pub is_scheduler_error: bool,
}

/// Returns the scheduler's last report on a pod, or `None` if it has not tried it.
pub fn last_report(subject: &Subject, pod: &Pod) -> Option<LastReport> {
    let events = subject.index.events_about("Pod", &pod.metadata);
    let event = events.iter().find(|event| event.reason == "FailedScheduling");
    let condition = pod.condition("PodScheduled").filter(|condition| condition.status == "False");
    // The condition has the whole message; the event is cut at 1024 bytes, but has the time.
    let text = match (condition, event) {
        (Some(condition), _) if !condition.message.is_empty() => &condition.message,
        (_, Some(event)) => &event.message,
        (Some(condition), None) => &condition.message,
        (None, None) => return None,
    };
    let at = event
        .and_then(|event| event.last_seen())
        .max(condition.and_then(|condition| condition.last_transition_time.get()));
    let target = daemon_pods::target_node(pod).and_then(|node| subject.index.node(node));
    let selects_target = target.is_some_and(|node| RequiredNodeAffinity::new(&pod.spec).matches(node));
    Some(LastReport {
        text: text.clone(),
        message: SchedulerMessage::parse(text, selects_target),
        at,
        is_scheduler_error: condition.is_some_and(|condition| condition.reason == "SchedulerError"),
    })
}

/// Finds what the scheduler reports and what is not recomputed, by its reasons.
pub fn findings(subject: &Subject, node: &Node, pod: &Pod, last: &LastReport, recomputed: &[Finding]) -> Vec<Finding> {
    if last.text.contains("binding volumes: ") {
        return vec![volumes_not_bound(subject, &last.text)];
    }
    if last.is_scheduler_error {
        // The other plugins judge the pod.
        let judges = last.text.starts_with("running ") && !last.text.starts_with("running Bind plugin");
        let part = if judges { TemplatePart::AskedOfNode } else { TemplatePart::Scheduler };
        let finding = scheduler_rejected(&last.text).with_origin(Origin::Template(part));
        // The API server calls webhooks for the binding, too.
        let refused = Refused { snapshot: subject.index.snapshot, daemon_set: subject.daemon_set, message: &last.text };
        return vec![match webhook::unavailable(refused) {
            Some(by) => finding.with_advice(by.advice).with_command(by.command),
            None => finding,
        }];
    }
    if last.message.knows_only_other_nodes {
        return vec![node_not_seen(subject, node, pod, last)];
    }
    let mut findings: Vec<Finding> = Vec::new();
    for reason in &last.message.reasons {
        let code = code_of(reason);
        if recomputed.iter().chain(&findings).any(|finding| is_same_plugin(finding.code, code)) {
            continue;
        }
        if let Some(finding) = not_offered(subject, node, reason) {
            findings.push(finding);
            continue;
        }
        let input = SchedulerPlugin::of(code).map(|plugin| plugin.input);
        let is_over = |input| match input {
            input if is_recomputed(subject, node, pod, input) => true,
            PluginInput::OtherPods => other_pods::is_over(subject, node, pod, reason),
            _ => false,
        };
        if input.is_some_and(is_over) {
            // What is computed to keep the pod from the node holds now.
            if recomputed.is_empty() {
                findings.push(no_longer_true(subject, code, reason, last));
            }
            continue;
        }
        findings.push(match input {
            None => scheduler_rejected(reason),
            Some(PluginInput::OtherPods) => other_pods::reported(subject, reason),
            Some(PluginInput::Features) => node_feature_missing(node, &[]),
            Some(PluginInput::Devices) => {
                missing_device_class(reason).unwrap_or_else(|| device_claim_unsatisfied(pod, reason))
            }
            Some(PluginInput::Volumes) => pod_claims::reported(subject, node, pod, reason),
            Some(PluginInput::Node | PluginInput::Pods) => {
                let single = single_pod_node(node).filter(|_| code == ReasonCode::TooManyPods);
                let told = |advice: Sentence| not_recomputed(subject, code, reason, last, advice);
                match (single, never_beside_old(subject, node, pod, reason)) {
                    (Some(single), _) => single.told(told("".into()), node).with_command(edit(subject.daemon_set)),
                    (None, Some(old)) => instead_of_surge(told(NEVER_BESIDE_OLD.into()), old),
                    (None, None) => told(if_unread(code).into()),
                }
            }
        });
    }
    findings
}

/// Finds that the node itself does not offer a resource; whether a device class provides it is not known.
fn not_offered(subject: &Subject, node: &Node, reason: &str) -> Option<Finding> {
    let resource = reason.strip_prefix("Insufficient ")?;
    subject.index.device_claims.classes.may_provide(resource, node).then(|| {
        let message = format!("the scheduler reports: {reason}; the node itself offers none");
        let advice = format!(
            "check the pod of the device plugin on the node that registers {resource}, and its log; or, if a DeviceClass provides it \
             (kubectl get deviceclasses), the devices that its driver has published there"
        );
        Finding::new(ReasonCode::InsufficientResource, message, advice)
    })
}

/// Returns whether all was read from which a filter is recomputed.
pub fn is_recomputed(subject: &Subject, node: &Node, pod: &Pod, input: PluginInput) -> bool {
    subject.nodes_known
        && match input {
            PluginInput::Node => true,
            PluginInput::Pods => subject.index.snapshot.knows_all_pods_on(&node.metadata.name),
            input => matches!(filtered(subject, node, pod, input), Some(Filtered::Passes(_) | Filtered::Rejects(_))),
        }
}

/// Returns the old pod beside which a surge pod never fits: both together request more of what the scheduler misses than the node has,
/// whatever else runs there.
fn never_beside_old<'a>(subject: &Subject<'_, 'a>, node: &Node, pod: &Pod, reason: &str) -> Option<&'a Pod> {
    let resource = reason.strip_prefix("Insufficient ")?;
    let requests = pod_requests(pod);
    subject.old_pods_on(&node.metadata.name, pod).find(|old| {
        let mut short = fits(&requests, node, &NodeUsage::of(std::iter::once(*old))).into_iter();
        short.any(|it| it.resource == resource && it.never_fits_beside(it.used))
    })
}

/// For how many seconds the scheduler may not know a new node: it retries pods that it could not place within five minutes.
const NEW_TO_SCHEDULER: i64 = 300;

/// Finds that the scheduler has not looked at the node: it gives reasons for other nodes alone. Every node that it looks at has a reason
/// (`FitError`, pkg/scheduler/framework/types.go, release 1.37.2), and no filter reads the condition Ready.
fn node_not_seen(subject: &Subject, node: &Node, pod: &Pod, last: &LastReport) -> Finding {
    let now = subject.now();
    let mut message = Sentence::from("the scheduler did not look at the node when it last tried");
    if let Some(at) = last.at {
        message = message.words(", ").age(seconds_between(at, now)).words(" ago");
    }
    message = message.words(": all its reasons are about other nodes");
    let created = node.metadata.creation_timestamp.get();
    // The time of the condition is when the pod was first not placed.
    let known_for = created.zip(last.at).map(|(created, at)| seconds_between(created, at));
    let is_new = known_for.is_none_or(|known_for| known_for < NEW_TO_SCHEDULER);
    let own = pod.spec.scheduler_name.as_str();
    let scheduler = if is_default_scheduler(own) { "kube-scheduler" } else { own };
    if is_new {
        let advice = format!("wait: the scheduler retries within 5 minutes; if it persists, restart {scheduler}");
        return Finding::new(ReasonCode::SchedulerRejected, message, advice);
    }
    if let Some(created) = created {
        message = message.words("; the node is ").age(seconds_between(created, now)).words(" old");
    }
    let advice = format!("restart {scheduler}: it has lost the node, which exists and matches the pod");
    let pods = Command::kubectl(&["get", "pods"]).namespace("kube-system").flag("-l", "component=kube-scheduler");
    let finding = Finding::new(ReasonCode::SchedulerRejected, message, advice).with_origin(Origin::ControlPlane);
    finding.with_command(pods)
}

/// Finds that what the scheduler reported is no longer true.
fn no_longer_true(subject: &Subject, code: ReasonCode, reason: &str, last: &LastReport) -> Finding {
    let mut message = Sentence::from(format!("the scheduler reported {reason:?}"));
    if let Some(at) = last.at {
        message = message.words(" ").age(subject.seconds_since(at)).words(" ago");
    }
    let message = message.words(", which is no longer true");
    Finding::new(code, message, "wait: the scheduler retries within 5 minutes").with_passing(Passing::Always)
}

/// Returns what to do about a reason if the node or its other pods are not known.
fn if_unread(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::UntoleratedNoSchedule => "check the node's taints",
        ReasonCode::InjectedNodeSelector => "check the node's labels and the pod's nodeSelector",
        ReasonCode::HostPortConflict => "change the port of one of the pods",
        ReasonCode::TooManyPods => "move pods to other nodes, or raise maxPods in the kubelet configuration",
        _ => "lower the request, or free some on the node",
    }
}

/// Finds what the scheduler reports, if the node or its other pods are not known.
fn not_recomputed(
    subject: &Subject,
    code: ReasonCode,
    reason: &str,
    last: &LastReport,
    advice: impl Into<Sentence>,
) -> Finding {
    let hint = match last.message.preemption {
        Preemption::NoVictims => "; the pod stays Pending: no pod on the node has a lower priority",
        _ => "",
    };
    let unread = if subject.nodes_known { "the node's other pods were" } else { "the node was" };
    Finding::new(code, format!("the scheduler reports {reason:?}{hint} ({unread} not read)"), advice)
}

/// Finds that the node is missing features that the pod needs, as far as they are known.
pub fn node_feature_missing(node: &Node, missing: &[&str]) -> Finding {
    let declared = match node.status.declared_features.as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    let message = Sentence::from(format!("the node {}", without_nodes(declared_features::REASON)));
    let message = match missing {
        [] => message,
        missing => message.words(format!("; the pod needs {}", missing.join(", "))),
    };
    let message =
        message.words("; kubelet ").value(&node.status.node_info.kubelet_version).words(" declares ").value(declared);
    Finding::new(ReasonCode::NodeFeatureMissing, message, "upgrade the kubelet, or do not use the feature")
}

/// Finds that the scheduler rejects the node for a reason without a code of its own.
fn scheduler_rejected(reason: &str) -> Finding {
    let advice = if reason.contains("scheduler-enforced") {
        "addedAffinity in the scheduler's NodeAffinityArgs excludes the node: change it or the node's labels"
    } else if reason.starts_with("Pod not supported on Fargate") {
        "a Fargate profile selects these pods, and Fargate runs no DaemonSets: take their namespace or labels out of the profile"
    } else {
        "check the scheduler log"
    };
    Finding::new(ReasonCode::SchedulerRejected, format!("the scheduler reports: {reason}"), advice)
}

/// Returns a reason without the `node(s)` it begins with.
pub fn without_nodes(reason: &str) -> &str {
    reason.strip_prefix("node(s) ").unwrap_or(reason)
}
