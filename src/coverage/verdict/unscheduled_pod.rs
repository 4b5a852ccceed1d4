//! Why a pod is not bound: what the scheduler reports, and what is recomputed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::admission;
use super::claims::{device_claim_unsatisfied, missing_device_class, waits_for_claim};
use super::daemon_set_context::Subject;
use super::eligibility::label_setter;
use super::finding::{Finding, Lack, Origin, delete_pod, describe_node, describe_pod, edit};
use super::fit::{NEVER_BESIDE_OLD, NodeRoom, fits_now, instead_of_surge, port_conflicts, single_pod_node};
use super::images::template_of;
use super::pod_claims::{get_claims, shared_claims, volumes_not_bound};
use super::preemption::{Simulation, is_of_room, names};
use super::scheduler_message::{PluginInput, Preemption, SchedulerMessage, SchedulerPlugin, code_of, is_same_plugin};
use super::sentence::Sentence;
use super::terminating;
use super::workload::workload;
use crate::facts::controller::{DEFAULT_SCHEDULER, check_scheduler};
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::quantity::Quantity;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{LimitRange, NODE_SELECTOR_ANNOTATIONS, RuntimeClass, Snapshot};
use crate::report::age::seconds_between;
use crate::report::fix::{Command, Fix};
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::RequiredNodeAffinity;
use crate::scheduling::daemon_pods;
use crate::scheduling::preemption::{Victim, Victims, is_terminating_by_preemption, priority};
use crate::scheduling::resources::{NodeUsage, amount, fits, pod_requests, template_requests};
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::taints::tolerates;

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

/// Finds why a pod that is meant for a node is not bound to it; the rule that the scheduler names comes first.
pub fn findings(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    if let Some(gated) = scheduling_gated(pod) {
        return vec![gated];
    }
    let last = last_report(subject, pod);
    let recomputed = recomputed(subject, node, pod);
    let mut findings = Vec::new();
    findings.extend(waiting_for_preemption(subject, node, pod));
    match &last {
        // A scheduler that has nominated a node has tried the pod.
        None if !findings.is_empty() => {}
        None => findings.extend(waits_for_claim(subject, pod).or_else(|| scheduler_silent(subject, pod))),
        Some(last) => findings.extend(not_recomputed_here(subject, node, pod, last, &recomputed)),
    }
    // What the scheduler names goes before what was only recomputed: it is what it acts on.
    let named: Vec<ReasonCode> =
        last.iter().flat_map(|last| last.message.reasons.iter().map(|reason| code_of(reason))).collect();
    let (confirmed, others): (Vec<Finding>, Vec<Finding>) =
        recomputed.into_iter().partition(|finding| named.iter().any(|code| is_same_plugin(*code, finding.code)));
    let reported = findings
        .split_off(findings.iter().take_while(|finding| finding.code == ReasonCode::WaitingForPreemption).count());
    findings.extend(confirmed.into_iter().chain(reported).chain(others));
    if findings.is_empty() {
        findings.push(unexplained(pod));
    }
    findings
}

/// Recomputes every rule of the scheduler that the snapshot knows enough for, in the scheduler's order.
pub fn recomputed(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    if !subject.nodes_known {
        return Vec::new();
    }
    let mut findings = untolerated_by_the_pod(subject, node, pod);
    findings.extend(injected_node_selector(subject.index.snapshot, subject.daemon_set, node, &pod.spec.node_selector));
    let room = NodeRoom::of(subject.index, node, pod);
    // Not all pods of the node may be known, but those of the DaemonSet are.
    let others = room.as_ref().map_or_else(|| subject.index.bound_to(&node.metadata.name), |room| room.pods.clone());
    let kin = |other: &Pod| daemon_pods::claim(subject.daemon_set, other).is_claimed();
    let others: Vec<&Pod> = others.into_iter().filter(|pod| !pod.is_terminal()).collect();
    let conflicts = port_conflicts(&others, &pod.spec, allows_surge(subject.daemon_set), kin);
    let Some(room) = room.map(|room| room.surging(allows_surge(subject.daemon_set), kin)) else {
        findings.extend(conflicts);
        findings.extend(NodeRoom::never_fits_on(subject.index, node, pod).into_iter().map(|(_, finding)| finding));
        return findings;
    };
    let requests = pod_requests(pod);
    // Preemption does not help a pod that does not tolerate the node, or does not match it.
    let simulation = findings.is_empty().then(|| Simulation::new(subject.index, &room, pod, &requests)).flatten();
    let is_expected = simulation.is_some() && expects_preemption(subject, pod);
    let told = |finding: Finding| match &simulation {
        Some(simulation) => simulation.told_of_pending(finding, is_expected),
        None => finding,
    };
    // Beside the old pod that a surge pod is to replace, preemption does not help, either.
    let (short, shortages): (Vec<String>, Vec<Finding>) = room.shortages(&requests).into_iter().unzip();
    let shortages = shortages.into_iter().map(|finding| match finding.origin {
        Origin::Room(Lack::BesideOldPod) | Origin::Node => finding,
        _ => told(finding),
    });
    let shortages =
        shortages.zip(&short).map(|(finding, resource)| raised_by_admission(subject, &room, pod, resource, finding));
    findings.extend(conflicts.into_iter().map(told).chain(shortages));
    findings
}

/// Says of a pod that requests more of a resource than its template, for which there is room, that admission has added it.
fn raised_by_admission(subject: &Subject, room: &NodeRoom<'_>, pod: &Pod, resource: &str, finding: Finding) -> Finding {
    let template = subject.revisions.of_pod(pod).and_then(|revision| revision.template.as_ref().ok());
    let Some(template) = template else { return finding };
    let of_template = template_requests(&subject.daemon_set.with_template(template).spec.template.spec);
    let own = of_template.get(resource).copied().unwrap_or(0);
    let overhead = pod.spec.overhead.get(resource).map_or(0, |quantity| amount(resource, quantity));
    let requested = pod_requests(pod).get(resource).copied().unwrap_or(0).saturating_sub(overhead);
    // What the template asks for may be too much by itself.
    let is_too_much = || room.shortages(&of_template).iter().any(|(short, _)| short == resource);
    if requested <= own || finding.origin == Origin::Room(Lack::BesideOldPod) || (own > 0 && is_too_much()) {
        return finding;
    }
    if own > 0 {
        let message = finding.message.words("; the template requests ").amount(resource, own);
        let advice = "limit what raises the request as pods are created (a VerticalPodAutoscaler, or another mutating webhook), or free \
                      some on the node: no change of the template lowers it";
        return Finding::new(finding.code, message, advice).with_origin(Origin::Unknown);
    }
    let of_containers = |default: &Quantity| {
        let mut own = pod.spec.containers.iter().filter_map(|container| container.resources.requests.get(resource));
        own.any(|own| own.nanos() == default.nanos())
    };
    let is_default = |range: &&LimitRange| {
        let mut items = range.spec.limits.iter().filter(|item| item.type_ == "Container");
        range.metadata.namespace == subject.daemon_set.metadata.namespace
            && items.any(|item| item.default_request.get(resource).is_some_and(of_containers))
    };
    let range = subject.index.snapshot.limit_ranges.iter().find(is_default).map(|range| &range.metadata);
    let (by, advice, origin) = match range {
        // A template with a request of its own may fit.
        Some(range) => (
            format!("limitrange {} sets this by default", range.name),
            format!(
                "set the {resource} request that the pods need in the template, or change limitrange {}",
                range.name
            ),
            finding.origin.clone(),
        ),
        None => {
            let adds = match resource {
                "vpc.amazonaws.com/pod-eni" => "the SecurityGroupPolicy that selects them",
                _ => {
                    "what adds it: a mutating webhook, or a LimitRange, whose default a request in the template replaces"
                }
            };
            ("admission adds this".to_owned(), format!("exempt these pods from {adds}"), Origin::Unknown)
        }
    };
    let advice = Sentence::from(advice);
    let advice = match finding.code {
        ReasonCode::NeverFits => {
            advice.words(", or exclude nodes such as ").example(&room.node.metadata.name).words(" with a nodeSelector")
        }
        _ => advice.words(format!(", or free {resource} on the node")),
    };
    let message = finding.message.words(format!("; the template requests none: {by}"));
    let told = Finding::new(finding.code, message, advice).with_origin(origin);
    match range {
        Some(range) => told
            .with_command(Command::kubectl(&["describe", "limitrange"]).namespace(&range.namespace).name(&range.name)),
        None => told,
    }
}

/// Returns whether the scheduler will preempt other pods for a pod if the simulation finds that this makes room: the default
/// scheduler lacks nothing but room for it, and has not reported that preemption failed.
fn expects_preemption(subject: &Subject, pod: &Pod) -> bool {
    let Some(LastReport { message, .. }) = last_report(subject, pod) else { return false };
    matches!(pod.spec.scheduler_name.as_str(), "" | DEFAULT_SCHEDULER)
        && message.preemption == Preemption::NotReported
        && !message.reasons.is_empty()
        && message.reasons.iter().all(|reason| is_of_room(code_of(reason)))
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
    let selects_target = target.is_some_and(|node| selects(pod, node));
    Some(LastReport {
        text: text.clone(),
        message: SchedulerMessage::parse(text, selects_target),
        at,
        is_scheduler_error: condition.is_some_and(|condition| condition.reason == "SchedulerError"),
    })
}

/// Returns whether the nodeSelector and the node affinity of a pod match a node.
fn selects(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && RequiredNodeAffinity::new(pod.spec.required_node_affinity()).matches(node)
}

/// Finds scheduling gates.
fn scheduling_gated(pod: &Pod) -> Option<Finding> {
    let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
    if gates.is_empty() {
        return None;
    }
    Some(Finding::new(
        ReasonCode::SchedulingGated,
        format!("scheduling gate {} keeps the pod from being scheduled", gates.join(", ")),
        "check the controller that owns the gate; if there is none, remove the gate from the template",
    ))
}

/// For how many seconds a scheduler that works may not have come to a pod.
const JUST_CREATED: i64 = 15;

/// Finds that no scheduler has tried to schedule the pod.
fn scheduler_silent(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let scheduler = if pod.spec.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &pod.spec.scheduler_name };
    let mut message = Sentence::from(format!("scheduler {scheduler:?} has not tried to schedule the pod"));
    if let Some(created) = pod.metadata.creation_timestamp.get() {
        message = message.words(", created ").age(seconds_between(created, subject.index.now())).words(" ago");
    }
    let age = pod.metadata.creation_timestamp.get().map(|created| seconds_between(created, subject.index.now()));
    if scheduler == DEFAULT_SCHEDULER && age.is_some_and(|age| age < JUST_CREATED) {
        return Some(Finding::new(ReasonCode::SchedulerSilent, message, "wait: the pod was created just now"));
    }
    let events = subject.index.events_about("Pod", &pod.metadata);
    // What a policy only reports keeps no pod from a node.
    let keeps = |event: &&&Event| {
        event.type_ == "Warning" && event.reason != "PolicyViolation" && event.is_recent(subject.index.now())
    };
    if let Some(event) = events.iter().find(keeps) {
        // In a virtual cluster, it is the host cluster that schedules.
        let message =
            Sentence::from("the pod has no node; ").value(&event.reason).words(": ").example(event.message.trim());
        let message = message.seen(event, subject.index.now());
        let advice = "mend what it says: who reports it places such pods, or keeps them from being placed";
        let finding = Finding::new(ReasonCode::SchedulerSilent, message, advice).with_origin(Origin::Unknown);
        return Some(finding.with_command(describe_pod(pod)));
    }
    let Fix { advice, command } = match scheduler {
        DEFAULT_SCHEDULER => check_scheduler(),
        other => Fix::new(format!("start scheduler {other:?}, or correct schedulerName"), edit(subject.daemon_set)),
    };
    Some(Finding { command, ..Finding::new(ReasonCode::SchedulerSilent, message, advice) })
}

/// Finds that the scheduler has nominated the node for the pod, and which lower-priority pods are being preempted for it.
///
/// Since release 1.35, the node is also nominated before a binding that takes long: `bindingCycle`, pkg/scheduler/schedule_one.go.
fn waiting_for_preemption(subject: &Subject, node: &Node, pod: &Pod) -> Option<Finding> {
    if pod.status.nominated_node_name != node.metadata.name {
        return None;
    }
    let message = Sentence::from("the scheduler has nominated the node for the pod");
    let is_victim =
        |other: &&Pod| is_terminating_by_preemption(other) && !other.is_terminal() && priority(other) < priority(pod);
    let victims = subject.index.bound_to(&node.metadata.name).into_iter().filter(is_victim);
    let certain: Vec<Victim<'_>> = victims.map(|pod| Victim { pod, violates_budget: None }).collect();
    if certain.is_empty() && fits_now(subject.index, node, pod) == Some(true) {
        return Some(Finding::new(ReasonCode::WaitingForPreemption, message, "wait until the pod is bound"));
    }
    if let Some(held) = certain.iter().find_map(|victim| terminating::held_victim(subject, victim.pod)) {
        return Some(held);
    }
    let message = message.words(", and waits for ");
    let message = if certain.is_empty() {
        message.words("the pods that it preempts to terminate")
    } else {
        message.value(names(&Victims { certain, choices: Vec::new() })).words(" to terminate, which it preempts")
    };
    Some(Finding::new(ReasonCode::WaitingForPreemption, message, "wait for their grace period"))
}

/// Finds taints that the pod does not tolerate, and whether its template does by now.
fn untolerated_by_the_pod(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    let outcomes = subject.daemon_pod.explain(node).taints.into_iter();
    outcomes
        .filter(|outcome| !pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, &outcome.taint)))
        .map(|outcome| {
            let code = if outcome.taint.effect == "NoExecute" {
                ReasonCode::UntoleratedNoExecute
            } else {
                ReasonCode::UntoleratedNoSchedule
            };
            let message = format!("the pod does not tolerate taint {}", outcome.taint);
            if outcome.is_untolerated() {
                return Finding::new(code, message, "no action needed: the node is not eligible");
            }
            let advice = "delete the pending pod: it is recreated from the current template";
            Finding::new(code, format!("{message}, although the template does"), advice).with_command(delete_pod(pod))
        })
        .collect()
}

/// Finds a node selector that the pod has, its template does not have, and the node does not match.
pub fn injected_node_selector(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    node: &Node,
    node_selector: &BTreeMap<String, String>,
) -> Option<Finding> {
    let template = &daemon_set.spec.template.spec;
    let injected: Vec<(&str, &str)> = node_selector
        .iter()
        .filter(|(key, value)| node.metadata.labels.get(*key) != Some(value))
        .filter(|(key, value)| template.node_selector.get(*key) != Some(value))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    if injected.is_empty() {
        return None;
    }
    let pairs: Vec<String> = injected.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let adds = |class: &&RuntimeClass| {
        let added = class.scheduling.as_ref().map(|scheduling| &scheduling.node_selector);
        added.is_some_and(|added| injected.iter().any(|(key, _)| added.contains_key(*key)))
    };
    let class = admission::runtime_class(snapshot, template).filter(adds);
    let (by, advice, command) = match class {
        Some(class) => (
            format!("runtime class {}", class.metadata.name),
            "add the same nodeSelector to the template, so that the node is not eligible".to_owned(),
            edit(daemon_set),
        ),
        None => (
            "admission".to_owned(),
            selector_of_namespace(snapshot, &daemon_set.metadata.namespace, &pairs),
            Command::kubectl(&["get", "namespace", "-o", "yaml"]).name(&daemon_set.metadata.namespace),
        ),
    };
    let message = format!("{by} added nodeSelector {} to the pod, which the node does not match", pairs.join(","));
    Some(Finding::new(ReasonCode::InjectedNodeSelector, message, advice).with_command(command))
}

/// Returns what helps with a node selector that a namespace adds to its pods: OpenShift takes its own annotation or the cluster's
/// default, and the plugin PodNodeSelector the other one or its configuration.
fn selector_of_namespace(snapshot: &Snapshot, namespace: &str, pairs: &[String]) -> String {
    const IN_TEMPLATE: &str = "put the selector into the template, so that the node is not eligible";
    let [of_openshift, of_plugin] = NODE_SELECTOR_ANNOTATIONS;
    let anywhere =
        format!("if the DaemonSet is to run anywhere, set {of_openshift} to \"\" there and delete the pending pods");
    let Some(found) = snapshot.namespaces.iter().find(|it| it.metadata.name == namespace) else {
        return format!(
            "see which annotation of the namespace has it: {of_openshift}, which may be set to \"\", or {of_plugin}; or {IN_TEMPLATE}"
        );
    };
    let has = |annotation: &str| {
        let selector = found.metadata.annotations.get(annotation);
        selector.is_some_and(|selector| selector.split(',').any(|pair| pairs.iter().any(|added| added == pair.trim())))
    };
    match NODE_SELECTOR_ANNOTATIONS.into_iter().find(|annotation| has(annotation)) {
        Some(annotation) if annotation == of_openshift => {
            format!("annotation {of_openshift} of namespace {namespace} has it: {IN_TEMPLATE}; {anywhere}")
        }
        Some(_) => format!(
            "annotation {of_plugin} of namespace {namespace} has it: {IN_TEMPLATE}; if the DaemonSet is to run anywhere, move it \
             to a namespace without it"
        ),
        // Both are read when a pod is created, and OpenShift's own one replaces its default.
        None if found.metadata.annotations.contains_key(of_openshift) => format!(
            "no annotation of namespace {namespace} has it now: delete the pending pod, which may be older than the annotation; if the \
             new one has it, too, a mutating webhook or the configuration of the API server adds it"
        ),
        None => format!(
            "no annotation of namespace {namespace} has it, so the default of the cluster or a mutating webhook adds it: \
             {IN_TEMPLATE}; on OpenShift, {anywhere}"
        ),
    }
}

/// Finds what the scheduler reports and what is not recomputed, by its reasons.
fn not_recomputed_here(
    subject: &Subject,
    node: &Node,
    pod: &Pod,
    last: &LastReport,
    recomputed: &[Finding],
) -> Vec<Finding> {
    if last.is_scheduler_error {
        if last.text.contains("binding volumes: ") {
            return vec![volumes_not_bound(subject, &last.text)];
        }
        return vec![scheduler_rejected(&last.text)];
    }
    if last.message.knows_only_other_nodes {
        return vec![node_not_seen(subject, node, pod, last)];
    }
    let is_read = |input: PluginInput| {
        subject.nodes_known
            && (input == PluginInput::Node || subject.index.snapshot.knows_all_pods_on(&node.metadata.name))
    };
    let mut findings: Vec<Finding> = Vec::new();
    for reason in &last.message.reasons {
        let code = code_of(reason);
        if recomputed.iter().chain(&findings).any(|finding| is_same_plugin(finding.code, code)) {
            continue;
        }
        let plugin = SchedulerPlugin::of(code).and_then(|plugin| Some((plugin.input?, plugin.advice)));
        findings.push(match (plugin, code) {
            // Whether a device class provides the resource is not known.
            (Some(_), _)
                if reason
                    .strip_prefix("Insufficient ")
                    .is_some_and(|resource| subject.index.devices.may_provide(resource, node)) =>
            {
                scheduler_rejected(reason)
            }
            (Some((input, _)), _) if is_read(input) => no_longer_true(subject, code, reason, last),
            (Some((_, advice)), _) => {
                let single = single_pod_node(node).filter(|_| code == ReasonCode::TooManyPods);
                let told = |advice: Sentence| not_recomputed(subject, code, reason, last, advice);
                match (single, never_beside_old(subject, node, pod, reason)) {
                    (Some(single), _) => told(single.advice(node)),
                    (None, Some(old)) => instead_of_surge(told(NEVER_BESIDE_OLD.into()), old),
                    (None, None) => told(advice.into()),
                }
            }
            (_, ReasonCode::VolumeUnsatisfiable) => volume_unsatisfiable(subject, node, pod, reason),
            (_, ReasonCode::PodAffinityBlocked) => pod_affinity_blocked(subject, node, pod, reason),
            (_, ReasonCode::DeviceClaimUnsatisfied) => device_claim_unsatisfied(pod, reason),
            (_, ReasonCode::NodeFeatureMissing) => node_feature_missing(node, reason),
            _ => missing_device_class(reason).unwrap_or_else(|| scheduler_rejected(reason)),
        });
    }
    findings
}

/// Returns the old pod beside which a surge pod never fits: both together request more of what the scheduler misses than the node has,
/// whatever else runs there.
fn never_beside_old<'a>(subject: &Subject<'_, 'a>, node: &Node, pod: &Pod, reason: &str) -> Option<&'a Pod> {
    let resource = reason.strip_prefix("Insufficient ").filter(|_| allows_surge(subject.daemon_set))?;
    let requests = pod_requests(pod);
    let is_old = |other: &&Pod| {
        let is_own = other.metadata.controller().is_some_and(|owner| owner.uid == subject.daemon_set.metadata.uid);
        let short = || fits(&requests, node, &NodeUsage::of(std::iter::once(*other))).into_iter();
        is_own && short().any(|it| it.resource == resource && it.never_fits_beside(it.used))
    };
    subject.index.bound_to(&node.metadata.name).into_iter().find(is_old)
}

/// For how many seconds the scheduler may not know a new node: it retries pods that it could not place within five minutes.
const NEW_TO_SCHEDULER: i64 = 300;

/// Finds that the scheduler has not looked at the node: it gives reasons for other nodes alone. Every node that it looks at has a reason
/// (`FitError`, pkg/scheduler/framework/types.go, release 1.37.2), and no filter reads the condition Ready.
fn node_not_seen(subject: &Subject, node: &Node, pod: &Pod, last: &LastReport) -> Finding {
    let now = subject.index.now();
    let mut message = Sentence::from("the scheduler did not look at the node when it last tried");
    if let Some(at) = last.at {
        message = message.words(", ").age(seconds_between(at, now)).words(" ago");
    }
    message = message.words(": all its reasons are about other nodes");
    let created = node.metadata.creation_timestamp.get();
    // The time of the condition is when the pod was first not placed.
    let known_for = created.zip(last.at).map(|(created, at)| seconds_between(created, at));
    let is_new = known_for.is_none_or(|known_for| known_for < NEW_TO_SCHEDULER);
    let scheduler = match pod.spec.scheduler_name.as_str() {
        "" | DEFAULT_SCHEDULER => "kube-scheduler",
        other => other,
    };
    if is_new {
        let advice = format!("wait: the scheduler retries within 5 minutes; if it persists, restart {scheduler}");
        return Finding::new(ReasonCode::SchedulerRejected, message, advice);
    }
    if let Some(created) = created {
        message = message.words("; the node is ").age(seconds_between(created, now)).words(" old");
    }
    let advice = format!("restart {scheduler}: it has lost the node, which exists and matches the pod");
    let pods = Command::kubectl(&["get", "pods"]).namespace("kube-system").flag("-l", "component=kube-scheduler");
    Finding::new(ReasonCode::SchedulerRejected, message, advice).with_command(pods)
}

/// Finds that what the scheduler reported is no longer true.
fn no_longer_true(subject: &Subject, code: ReasonCode, reason: &str, last: &LastReport) -> Finding {
    let mut message = Sentence::from(format!("the scheduler reported {reason:?}"));
    if let Some(at) = last.at {
        message = message.words(" ").age(seconds_between(at, subject.index.now())).words(" ago");
    }
    Finding::new(code, message.words(", which is no longer true"), "wait: the scheduler retries within 5 minutes")
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

/// Finds a volume that the node cannot have, by the scheduler's reason.
fn volume_unsatisfiable(subject: &Subject, node: &Node, pod: &Pod, reason: &str) -> Finding {
    let message = format!("the scheduler rejects the node for a volume of the pod: {}", without_nodes(reason));
    if let Some(old) = old_pod(subject, node, pod).filter(|_| reason.contains("ReadWriteOncePod")) {
        return beside_old_pod(ReasonCode::VolumeUnsatisfiable, message.into(), old, "cannot use the claim together");
    }
    if reason.contains("exceed max volume count") {
        let advice = "move pods with volumes of the same driver to other nodes: the node has as many attached as it may (CSINode)";
        let node = Command::kubectl(&["get", "csinode", "-o", "yaml"]).name(&node.metadata.name);
        return Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice)
            .with_origin(Origin::Node)
            .with_command(node);
    }
    // `ErrReasonConflict` and `ErrReasonNodeConflict` of pkg/scheduler/framework/plugins, release 1.37.2, and ReadWriteOncePod: what else the
    // scheduler says of a claim has nothing to do with who shares it.
    let is_elsewhere = ["volume node affinity conflict", "match PersistentVolume's node affinity"]
        .iter()
        .any(|it| reason.contains(it));
    let advice = match shared_claims(subject) {
        Some(claims) if reason.contains("ReadWriteOncePod") => format!(
            "all pods of a DaemonSet share {claims}, and only one pod may have such a claim at a time: use an ephemeral volume or a hostPath \
             instead"
        ),
        Some(claims) if is_elsewhere => format!(
            "all pods of a DaemonSet share {claims}, so that only nodes to which the volume can be attached may have one: use an ephemeral \
             volume or a hostPath instead, or select those nodes"
        ),
        _ => "check the claims".to_owned(),
    };
    Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice).with_command(get_claims(subject))
}

/// Finds rules about other pods that exclude the node, by the scheduler's reason.
fn pod_affinity_blocked(subject: &Subject, node: &Node, pod: &Pod, reason: &str) -> Finding {
    let message = format!("the node {}", without_nodes(reason));
    let excludes = |old: &&Pod| reason.contains("anti-affinity") && excludes_itself(subject, old);
    if let Some(old) = old_pod(subject, node, pod).filter(excludes) {
        let why = "exclude each other by their anti-affinity";
        return beside_old_pod(ReasonCode::PodAffinityBlocked, message.into(), old, why);
    }
    if reason.contains("existing pods") {
        let advice = "change the anti-affinity of the pods that are on the node";
        return Finding::new(ReasonCode::PodAffinityBlocked, message, advice);
    }
    if let Some(missing) = missing_topology(subject, node, pod, reason) {
        let message = format!("{message}; it has no label {missing}");
        let by = label_setter(&missing).map(|by| format!(", which {by} sets")).unwrap_or_default();
        let advice = format!(
            "set label {missing} on the node{by}, or remove from the template the constraint with this topologyKey, if the pods may run \
             without it"
        );
        return Finding::new(ReasonCode::PodAffinityBlocked, message, advice).with_command(describe_node(node));
    }
    let advice = "check which pods the rule selects; relax it only if the pod may run without it";
    Finding::new(ReasonCode::PodAffinityBlocked, message, advice).with_command(edit(subject.daemon_set))
}

/// Returns the label that a node lacks and that a required rule of the pod goes by, if that is why the scheduler rejects it: `Filter` of
/// pkg/scheduler/framework/plugins/podtopologyspread, and `satisfyPodAffinity` of …/interpodaffinity, release 1.37.2.
fn missing_topology(subject: &Subject, node: &Node, pod: &Pod, reason: &str) -> Option<String> {
    let spec = &template_of(subject, pod).value()["spec"];
    let is_of_spread = reason.contains("(missing required label)");
    let rules = match is_of_spread {
        true => &spec["topologySpreadConstraints"],
        false if reason.contains("didn't match pod affinity rules") => {
            &spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        }
        false => return None,
    };
    let required = rules.as_array().into_iter().flatten().filter(|rule| rule["whenUnsatisfiable"] != "ScheduleAnyway");
    let mut keys = required.filter_map(|rule| rule["topologyKey"].as_str());
    keys.find(|key| !node.metadata.labels.contains_key(*key)).map(str::to_owned)
}

/// Returns the pod that a surge pod is to replace: it stays until the surge pod is available.
fn old_pod<'a>(subject: &Subject<'_, 'a>, node: &Node, pod: &Pod) -> Option<&'a Pod> {
    let stays = |other: &&Pod| {
        other.metadata.uid != pod.metadata.uid
            && !other.metadata.is_terminating()
            && !other.is_terminal()
            && daemon_pods::claim(subject.daemon_set, other).is_claimed()
    };
    let on_node = || subject.index.bound_to(&node.metadata.name).into_iter().find(stays);
    allows_surge(subject.daemon_set).then(on_node).flatten()
}

/// Finds that a surge pod cannot be placed beside the pod that it is to replace, although it could take its place.
fn beside_old_pod(code: ReasonCode, message: Sentence, old: &Pod, why: &str) -> Finding {
    let message = message
        .words("; old pod ")
        .name(&old.metadata.name, workload(old))
        .words(" is deleted only once the surge pod is available: the rollout cannot continue");
    let advice = format!("use maxUnavailable instead of maxSurge: the old and the new pod {why}");
    instead_of_surge(Finding::new(code, message, advice), old)
}

/// Returns whether the pods of a DaemonSet exclude each other from a node, whatever their revision, by a required anti-affinity to
/// labels that they all have.
fn excludes_itself(subject: &Subject, old: &Pod) -> bool {
    let terms = "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = subject.daemon_set.object.pointer(terms).and_then(Value::as_array);
    let new_labels = &subject.daemon_set.spec.template.metadata.labels;
    terms.into_iter().flatten().any(|term| {
        let selector =
            LabelSelector::deserialize(&term["labelSelector"]).ok().filter(|_| !term["labelSelector"].is_null());
        let by_revision = term["matchLabelKeys"].as_array().is_some_and(|keys| {
            keys.iter().filter_map(Value::as_str).any(|key| old.metadata.labels.get(key) != new_labels.get(key))
        });
        !by_revision
            && selector.is_some_and(|selector| selector.matches(&old.metadata.labels) && selector.matches(new_labels))
    })
}

/// Finds that the node is missing a feature that the pod needs, by the scheduler's reason.
fn node_feature_missing(node: &Node, reason: &str) -> Finding {
    let declared = match node.status.declared_features.as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    let message = Sentence::from(format!("the node {}; kubelet ", without_nodes(reason)))
        .value(&node.status.node_info.kubelet_version)
        .words(" declares ")
        .value(declared);
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

/// Finds an unbound pod that nothing explains.
fn unexplained(pod: &Pod) -> Finding {
    let message = "the pod is not bound, and nothing that was read explains why";
    Finding::new(ReasonCode::Unexplained, message, "look at the pod").with_command(describe_pod(pod))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use crate::coverage::test_support::world;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::reason::ReasonCode as R;

    fn says(reason: &str) -> String {
        format!("0/2 nodes are available: 1 {reason}, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].")
    }

    #[test]
    fn taints_of_both_effects_are_what_the_scheduler_calls_untolerated() {
        for (effect, code) in [("NoSchedule", R::UntoleratedNoSchedule), ("NoExecute", R::UntoleratedNoExecute)] {
            let world = world()
                .template(json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
                .node("n", json!({"spec": {"taints": [{"key": "dedicated", "effect": effect}]}}))
                .pending_pod(
                    "agent-x",
                    "n",
                    &says("node(s) had untolerated taint(s)"),
                    json!({"spec": {"tolerations": []}}),
                );
            let codes: Vec<R> = world.only_node().reasons.iter().map(|reason| reason.code).collect();
            assert_eq!(codes, [code]);
        }
    }

    #[test]
    fn a_pod_on_a_node_that_is_not_eligible_tolerates_no_less_than_its_template() {
        let taints = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        let world = world().node("n", json!({"spec": {"taints": taints}})).pending_pod(
            "agent-x",
            "n",
            &says("node(s) had untolerated taint(s)"),
            json!({"spec": {"tolerations": []}}),
        );
        let node = world.only_node();
        let reason = &node.reasons[0];
        assert_eq!(reason.code, R::Misscheduled);
        assert!(reason.message.contains("is not scheduled"), "{}", reason.message);
        assert!(!reason.fix.advice.contains("do not delete"), "{}", reason.fix.advice);
        let checks = node.explanation.unwrap().scheduling;
        let untolerated = checks.iter().find(|check| check.code == Some(R::UntoleratedNoSchedule)).unwrap();
        assert!(!untolerated.detail.contains("although the template does"), "{}", untolerated.detail);
    }

    /// The scheduler leaves room for pods that it has nominated for a node, unless their priority is lower.
    #[test]
    fn room_that_is_kept_for_a_nominated_pod_is_taken() {
        for (priority, kept) in [(0, true), (100, true), (-1, false)] {
            let asks = |cpu: &str| json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]);
            let nominated = json!({"spec": {"nodeName": null, "priority": priority, "containers": asks("3")},
                "status": {"phase": "Pending", "nominatedNodeName": "n"}});
            let world = world().node("n", json!({})).other_pod("other-x", "n", nominated).pending_pod(
                "agent-x",
                "n",
                &says("Insufficient cpu"),
                json!({"spec": {"containers": asks("2")}}),
            );
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, R::InsufficientResource);
            assert_eq!(!reason.message.contains("no longer true"), kept, "{priority}: {}", reason.message);
            assert_eq!(reason.message.contains("default/other"), kept, "{priority}: {}", reason.message);
        }
    }

    #[test]
    fn preemption_is_expected_only_of_a_scheduler_that_lacks_nothing_but_room_and_has_not_tried() {
        let asks = |cpu: &str| json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]);
        let told = |report: &str| {
            let pod = json!({"spec": {"priority": 100, "containers": asks("2")}});
            let world = world().node("n", json!({})).pending_pod("agent-x", "n", report, pod);
            let world = world.other_pod("other-a", "n", json!({"spec": {"containers": asks("3")}}));
            let mut reasons = world.only_node().reasons.into_iter();
            let reason = reasons.find(|reason| reason.code == R::InsufficientResource).unwrap();
            assert_eq!(reason.message.contains("would make room"), !reason.message.contains("will preempt"));
            (reason.message.contains("will preempt"), reason.fix.advice)
        };
        let (wait, lower) =
            ("wait: the scheduler tries the pod again within 5 minutes", "lower the cpu request, or free");
        for (report, is_expected) in [
            (says("Insufficient cpu"), true),
            // It has not reported anything.
            (String::new(), false),
            (
                says("Insufficient cpu")
                    + " preemption: 0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
                false,
            ),
            (says("node(s) didn't match pod anti-affinity rules"), false),
        ] {
            let (will, advice) = told(&report);
            assert_eq!(will, is_expected, "{report}");
            assert!(advice.starts_with(if is_expected { wait } else { lower }), "{advice}");
        }
    }

    #[test]
    fn a_node_that_is_nominated_and_has_room_waits_for_no_other_pod() {
        let nominated = json!({"status": {"nominatedNodeName": "n"}});
        let reasons = world().node("n", json!({})).pending_pod("agent-x", "n", "", nominated).only_node().reasons;
        let told: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
        assert_eq!(told, ["the scheduler has nominated the node for the pod"]);
    }

    #[test]
    fn what_the_scheduler_says_of_a_node_that_was_not_read_gets_advice_by_its_cause() {
        let mut advice = BTreeSet::new();
        let causes = [
            ("Insufficient cpu", R::InsufficientResource),
            ("Too many pods", R::TooManyPods),
            ("node(s) didn't have free ports for the requested pod ports", R::HostPortConflict),
            ("node(s) had untolerated taint(s)", R::UntoleratedNoSchedule),
            ("node(s) didn't match Pod's node affinity/selector", R::InjectedNodeSelector),
        ];
        for (cause, code) in causes {
            let mut world = world().pending_pod("agent-x", "n", &says(cause), json!({}));
            let forbidden = GapCause::Forbidden("list nodes".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause: forbidden });
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, code, "{cause}");
            advice.insert(reason.fix.advice);
        }
        assert_eq!(advice.len(), causes.len(), "{advice:?}");
    }

    #[test]
    fn what_the_scheduler_says_comes_before_another_rule_that_fails_by_now() {
        let container = json!({"name": "agent", "resources": {"requests": {"cpu": "6"}}});
        let says = says("node(s) didn't have free ports for the requested pod ports");
        let pod = json!({"spec": {"containers": [container]}});
        let node = world().node("n", json!({})).pending_pod("agent-x", "n", &says, pod).only_node();
        let codes: Vec<R> = node.reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes, [R::HostPortConflict, R::NeverFits]);
    }
}
