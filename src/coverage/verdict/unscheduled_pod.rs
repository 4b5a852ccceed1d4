//! A pod that is not bound: what the scheduler says, and what the recomputed arithmetic says.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::admission;
use super::daemon_set_context::Subject;
use super::eligibility::taint_text;
use super::finding::Finding;
use super::fit::Room;
use super::scheduler_message::{Preemption, SchedulerWords, code_of};
use super::sentence::Sentence;
use super::workload::full_name;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, RuntimeClass, Snapshot};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods;
use crate::scheduling::resources::pod_requests;
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::taints::tolerates;
/// What the scheduler said last of a pod.
pub struct Said {
    /// Its whole message.
    pub message: String,
    /// The message taken apart.
    pub words: SchedulerWords,
    /// When it said so last.
    pub at: Option<Timestamp>,
    /// Whether it failed at its own work, rather than at the pod's.
    pub failed_itself: bool,
}

/// Finds why a pod that is meant for a node is not bound to it; the answer of the rule that the
/// scheduler names comes first.
pub fn findings(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    if let Some(gated) = scheduling_gated(pod) {
        return vec![gated];
    }
    let said = last_said(subject, pod);
    let recomputed = recomputed(subject, node, pod);
    let mut findings = Vec::new();
    findings.extend(waiting_for_preemption(subject, node, pod));
    match &said {
        None => findings.extend(scheduler_silent(subject, pod)),
        Some(said) => findings.extend(in_the_schedulers_words(subject, node, pod, said, &recomputed)),
    }
    // What the scheduler names goes before what was only recomputed: it is what it acts on.
    let named: Vec<ReasonCode> =
        said.iter().flat_map(|said| said.words.reasons.iter().map(|word| code_of(word))).collect();
    let (confirmed, others): (Vec<Finding>, Vec<Finding>) =
        recomputed.into_iter().partition(|finding| named.iter().any(|code| same_plugin(*code, finding.code)));
    let words = findings
        .split_off(findings.iter().take_while(|finding| finding.code == ReasonCode::WaitingForPreemption).count());
    findings.extend(confirmed.into_iter().chain(words).chain(others));
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
    let mut findings = untolerated_by_the_pod(node, pod);
    findings.extend(injected_node_selector(subject.index.snapshot, subject.daemon_set, node, &pod.spec.node_selector));
    if let Some(room) = Room::of(subject.index, node) {
        let kin = |other: &Pod| daemon_pods::claim(subject.daemon_set, other).is_claimed();
        findings.extend(room.port_conflicts(&pod.spec, allows_surge(subject.daemon_set), kin));
        findings.extend(room.shortages(&pod_requests(pod)).into_iter().map(|(_, finding)| finding));
    }
    findings
}

/// Tells whether two codes speak of the same plugin of the scheduler.
pub fn same_plugin(a: ReasonCode, b: ReasonCode) -> bool {
    use ReasonCode as R;
    let plugin = |code| match code {
        R::NeverFits => R::InsufficientResource,
        R::SurgeHostPortDeadlock => R::HostPortConflict,
        R::UntoleratedNoExecute => R::UntoleratedNoSchedule,
        other => other,
    };
    plugin(a) == plugin(b)
}

/// Returns what the scheduler said last of a pod, or nothing where it has not tried it.
pub fn last_said(subject: &Subject, pod: &Pod) -> Option<Said> {
    let events = subject.index.events_about("Pod", &pod.metadata);
    let event = events.iter().find(|event| event.reason == "FailedScheduling");
    let condition = pod.condition("PodScheduled").filter(|condition| condition.status == "False");
    // The condition has the message whole; the event is cut at 1024 bytes, but tells when it was last said.
    let message = match (condition, event) {
        (Some(condition), _) if !condition.message.is_empty() => &condition.message,
        (_, Some(event)) => &event.message,
        (Some(condition), None) => &condition.message,
        (None, None) => return None,
    };
    let at = event
        .and_then(|event| event.last_seen())
        .max(condition.and_then(|condition| condition.last_transition_time.get()));
    Some(Said {
        message: message.clone(),
        words: SchedulerWords::parse(message),
        at,
        failed_itself: condition.is_some_and(|condition| condition.reason == "SchedulerError"),
    })
}

/// Finds gates that hold the pod back from the scheduler.
fn scheduling_gated(pod: &Pod) -> Option<Finding> {
    let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
    if gates.is_empty() {
        return None;
    }
    Some(Finding::new(
        ReasonCode::SchedulingGated,
        format!("held back by scheduling gate {}", gates.join(", ")),
        "whoever set the gate must remove it from the pod; if nobody does, take it out of the template",
    ))
}

/// Finds that no scheduler has tried the pod.
fn scheduler_silent(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let scheduler = if pod.spec.scheduler_name.is_empty() { "default-scheduler" } else { &pod.spec.scheduler_name };
    let mut message = Sentence::from(format!("{scheduler} has not tried the pod"));
    if let Some(made) = pod.metadata.creation_timestamp.get() {
        message = message.words(", made ").age(seconds_between(made, subject.index.now())).words(" ago");
    }
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    let fix = if scheduler == "default-scheduler" {
        "check that kube-scheduler runs: kubectl get lease -n kube-system kube-scheduler".to_owned()
    } else {
        format!("start {scheduler}, or correct schedulerName: kubectl edit ds {name} -n {namespace}")
    };
    Some(Finding::new(ReasonCode::SchedulerSilent, message, fix))
}

/// Finds that lesser pods of the node are being removed for the pod.
fn waiting_for_preemption(subject: &Subject, node: &Node, pod: &Pod) -> Option<Finding> {
    if pod.status.nominated_node_name != node.metadata.name {
        return None;
    }
    let bound = subject.index.bound_to(&node.metadata.name);
    let victim = bound.iter().find(|other| other.metadata.is_terminating() && !other.is_terminal());
    let message = match victim {
        Some(victim) => Sentence::from("waits for ")
            .name(full_name(victim), "pods of lower priority")
            .words(", being removed to make room for it"),
        None => Sentence::from("waits for pods of lower priority, being removed to make room for it"),
    };
    Some(Finding::new(ReasonCode::WaitingForPreemption, message, "wait for their grace period to end"))
}

/// Finds taints that the pod itself does not tolerate, although its DaemonSet's template does.
fn untolerated_by_the_pod(node: &Node, pod: &Pod) -> Vec<Finding> {
    node.spec
        .taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .filter(|taint| !pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        .map(|taint| {
            let code = if taint.effect == "NoExecute" {
                ReasonCode::UntoleratedNoExecute
            } else {
                ReasonCode::UntoleratedNoSchedule
            };
            Finding::new(
                code,
                format!("the pod itself does not tolerate taint {}", taint_text(taint)),
                Sentence::from("it was made before the template tolerated it: delete the pod: kubectl delete pod -n ")
                    .words(&pod.metadata.namespace)
                    .words(" ")
                    .example(&pod.metadata.name),
            )
        })
        .collect()
}

/// Finds a node selector that the pod has and its template has not, and that the node does not meet.
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
    let namespace = &daemon_set.metadata.namespace;
    let (by, fix) = match class {
        Some(class) => (
            format!("runtime class {}", class.metadata.name),
            Sentence::from(
                "add the same nodeSelector to the template, so that it is not wanted there, or label the node: \
                 kubectl label node ",
            )
            .node(&node.metadata.name)
            .words(format!(" {}", pairs.join(" "))),
        ),
        None => (
            "admission".to_owned(),
            Sentence::from(format!(
                "see scheduler.alpha.kubernetes.io/node-selector: kubectl get namespace {namespace} -o yaml; \
                 or label the node: kubectl label node "
            ))
            .node(&node.metadata.name)
            .words(format!(" {}", pairs.join(" "))),
        ),
    };
    let message = format!("{by} added node selector {} to the pod, which the node does not meet", pairs.join(","));
    Some(Finding::new(ReasonCode::InjectedNodeSelector, message, fix))
}

/// Finds what the scheduler says and was not recomputed, in its own words.
fn in_the_schedulers_words(
    subject: &Subject,
    node: &Node,
    pod: &Pod,
    said: &Said,
    recomputed: &[Finding],
) -> Vec<Finding> {
    if said.failed_itself {
        return vec![scheduler_rejected(&said.message)];
    }
    if said.words.knows_only_other_nodes {
        return vec![Finding::new(
            ReasonCode::SchedulerRejected,
            "the scheduler did not know the node when it last tried",
            "wait; if it lasts, check that kube-scheduler sees the node",
        )];
    }
    let known = subject.nodes_known && subject.index.snapshot.knows_all_pods_on(&node.metadata.name);
    let mut findings: Vec<Finding> = Vec::new();
    for words in &said.words.reasons {
        let code = code_of(words);
        if recomputed.iter().chain(&findings).any(|finding| same_plugin(finding.code, code)) {
            continue;
        }
        let recomputable =
            matches!(code, ReasonCode::InsufficientResource | ReasonCode::TooManyPods | ReasonCode::HostPortConflict);
        findings.push(match code {
            _ if recomputable && known => no_longer_so(subject, code, words, said),
            ReasonCode::UntoleratedNoSchedule | ReasonCode::InjectedNodeSelector if subject.nodes_known => {
                no_longer_so(subject, code, words, said)
            }
            ReasonCode::UntoleratedNoSchedule | ReasonCode::InjectedNodeSelector => {
                not_recomputed(subject, code, words, said)
            }
            _ if recomputable => not_recomputed(subject, code, words, said),
            ReasonCode::VolumeUnsatisfiable => volume_unsatisfiable(subject, pod, words),
            ReasonCode::PodAffinityBlocked => pod_affinity_blocked(subject, words),
            ReasonCode::DeviceClaimUnsatisfied => device_claim_unsatisfied(pod, words),
            ReasonCode::NodeFeatureMissing => node_feature_missing(node, words),
            _ => scheduler_rejected(words),
        });
    }
    findings
}

/// Says that what the scheduler said no longer holds.
fn no_longer_so(subject: &Subject, code: ReasonCode, words: &str, said: &Said) -> Finding {
    let mut message = Sentence::from(format!("the scheduler said {words:?}"));
    if let Some(at) = said.at {
        message = message.words(" ").age(seconds_between(at, subject.index.now())).words(" ago");
    }
    Finding::new(code, message.words(", which no longer holds"), "wait: the scheduler tries again within 5 minutes")
}

/// Repeats the scheduler, where the node or its other pods are not known.
fn not_recomputed(subject: &Subject, code: ReasonCode, words: &str, said: &Said) -> Finding {
    let hint = match said.words.preemption {
        Preemption::NoVictims => "; room would do, but no pod there has a lower priority",
        _ => "",
    };
    let fix = match code {
        ReasonCode::HostPortConflict => "change the port of one of the pods",
        ReasonCode::TooManyPods => "raise maxPods in the kubelet's configuration, or move pods away",
        ReasonCode::UntoleratedNoSchedule => "look at the node's taints",
        ReasonCode::InjectedNodeSelector => "look at the node's labels, and at the pod's own nodeSelector",
        _ => "lower the request, or give the pods a higher priority class",
    };
    let unread = if subject.nodes_known { "the node's other pods" } else { "the node" };
    Finding::new(code, format!("the scheduler says {words:?}{hint} ({unread} could not be read)"), fix)
}

/// Finds a volume that cannot be had on the node, in the scheduler's words.
fn volume_unsatisfiable(subject: &Subject, pod: &Pod, words: &str) -> Finding {
    let namespace = &subject.daemon_set.metadata.namespace;
    let fix = Sentence::from(format!(
        "look at the claims: kubectl get pvc -n {namespace}; kubectl describe pod -n {namespace} "
    ))
    .example(&pod.metadata.name);
    Finding::new(ReasonCode::VolumeUnsatisfiable, format!("volume: {}", without_nodes(words)), fix)
}

/// Finds rules about other pods that keep the pod away, in the scheduler's words.
fn pod_affinity_blocked(subject: &Subject, words: &str) -> Finding {
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    let fix = if words.contains("existing pods") {
        "a pod that is there wants no such neighbour: edit its anti-affinity".to_owned()
    } else {
        format!("a DaemonSet needs no such rule: kubectl edit ds {name} -n {namespace}")
    };
    Finding::new(ReasonCode::PodAffinityBlocked, format!("the node {}", without_nodes(words)), fix)
}

/// Finds a device claim that cannot be met on the node, in the scheduler's words.
fn device_claim_unsatisfied(pod: &Pod, words: &str) -> Finding {
    let namespace = &pod.metadata.namespace;
    Finding::new(
        ReasonCode::DeviceClaimUnsatisfied,
        format!("devices: {}", without_nodes(words)),
        format!(
            "look at the claims and the drivers: kubectl get resourceclaims -n {namespace}; kubectl get resourceslices"
        ),
    )
}

/// Finds that the node lacks a feature that the pod needs, in the scheduler's words.
fn node_feature_missing(node: &Node, words: &str) -> Finding {
    let declared = match node.status.declared_features.as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    let message = Sentence::from(format!("the node {}; kubelet ", without_nodes(words)))
        .value(&node.status.node_info.kubelet_version)
        .words(" declares ")
        .value(declared);
    Finding::new(
        ReasonCode::NodeFeatureMissing,
        message,
        "upgrade the kubelet, or do without the feature in the template",
    )
}

/// Finds that the scheduler refuses the node for a reason without a code of its own.
fn scheduler_rejected(words: &str) -> Finding {
    let fix = if words.contains("scheduler-enforced") {
        "the scheduler's configuration (NodeAffinityArgs.addedAffinity) excludes the node: change it or the label"
    } else {
        "see the scheduler's log"
    };
    Finding::new(ReasonCode::SchedulerRejected, format!("the scheduler says: {words}"), fix)
}

/// Returns the scheduler's words without the `node(s)` that stands for however many.
fn without_nodes(words: &str) -> &str {
    words.strip_prefix("node(s) ").unwrap_or(words)
}

/// Says that nothing was read that would explain why the pod is not bound.
fn unexplained(pod: &Pod) -> Finding {
    let fix =
        Sentence::from(format!("kubectl describe pod -n {} ", pod.metadata.namespace)).example(&pod.metadata.name);
    Finding::new(ReasonCode::Unexplained, "the pod is not bound, and nothing that was read says why", fix)
}

/// Tells whether the events that could add to the scheduler's words were read.
pub fn events_known(subject: &Subject) -> bool {
    subject.index.knows(Kind::Events, &subject.daemon_set.metadata.namespace)
}
