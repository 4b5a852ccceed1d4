//! The rules of the scheduler that were checked for a node, passed or failed, with the values that were compared.

use super::admission;
use super::claims;
use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::fit::{NodeRoom, port_conflicts, port_text};
use super::node_health;
use super::other_pods;
use super::pod_claims;
use super::scheduler_message::{PluginInput, SchedulerPlugin};
use super::scheduler_report::{LastReport, is_recomputed, node_feature_missing};
use super::unscheduled_pod;
use crate::model::node::Node;
use crate::model::pod::{Pod, PodSpec};
use crate::report::node_coverage::Check;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods;
use crate::scheduling::declared_features;
use crate::scheduling::neighborhood::{Obstacle, Outcome};
use crate::scheduling::ports::host_ports;
use crate::scheduling::resources::{Amounts, amount, format_amount, pod_requests};

pub(super) fn passed(rule: &str, detail: impl Into<String>) -> Check {
    Check { rule: rule.to_owned(), passed: Some(true), detail: detail.into(), code: None, trivial: false }
}

/// Returns a check that passes because there is nothing to check.
pub(super) fn nothing(rule: &str) -> Check {
    Check { trivial: true, ..passed(rule, "none") }
}

pub(super) fn failed(rule: &str, detail: impl Into<String>, code: Option<ReasonCode>) -> Check {
    Check { passed: Some(false), code, ..passed(rule, detail) }
}

/// Returns a check that fails because of this finding.
fn found(rule: &str, finding: &Finding) -> Check {
    failed(rule, finding.message.to_string(), Some(finding.code))
}

fn unknown(rule: &str, detail: impl Into<String>) -> Check {
    Check { passed: None, ..passed(rule, detail) }
}

/// Lists the rules of the scheduler, for the pod that is pending or for one that is not created yet; a bound pod
/// has passed them.
pub fn scheduling(subject: &Subject, node: &Node, pods: &[&Pod], last: Option<&LastReport>) -> Vec<Check> {
    let waiting = pods.iter().copied().find(|pod| pod.spec.node_name.is_empty() && !pod.metadata.is_terminating());
    if waiting.is_none() && !pods.is_empty() {
        return Vec::new();
    }
    let new;
    let (pod, mut checks) = match waiting {
        Some(pod) => (pod, waiting_pod(subject, node, pod, last)),
        None => {
            let admitted = admission::admitted(subject.index.snapshot, subject.daemon_set);
            let hash = subject.current_hash().unwrap_or_default();
            new = daemon_pods::meant_for(&admission::created(admitted, subject.daemon_set, hash), &node.metadata.name);
            (&new, Vec::new())
        }
    };
    let room = NodeRoom::of(subject.index, node, pod);
    let largest = subject.largest_allocatable();
    let room = room.map(|room| room.surging(subject.old_pods_on(&node.metadata.name, pod).next()).among(largest));
    checks.extend(ports(&pod.spec, room.as_ref()));
    let never = || NodeRoom::empty(subject.index, node, pod).among(largest).never_fitting(pod);
    let requests = subject.index.device_claims.classes.without(&pod_requests(pod), node);
    checks.extend(resources(node, &requests, room.as_ref(), never));
    let volumes = pod_claims::of_pending(subject, node, pod);
    let finding = |_| pod_claims::finding(subject, node, pod);
    checks.extend(volumes.and_then(|outcome| claimed("volumes", outcome, pod_claims::unread_text, finding)));
    checks.extend(other_pods(subject, node, pod));
    let (devices, finding) = (claims::of_pending(subject, node, pod), |why| Some(claims::told(&why, pod)));
    checks.extend(devices.and_then(|outcome| claimed("devices", outcome, claims::open_text, finding)));
    checks.extend(features(subject, node, pod));
    checks
}

/// Lists whether the kubelet declares the features that the pod needs, if it needs any.
fn features(subject: &Subject, node: &Node, pod: &Pod) -> Option<Check> {
    const RULE: &str = "kubelet features";
    let required: Vec<&str> = declared_features::required(&pod.spec).collect();
    let named = (!required.is_empty()).then(|| required.join(", "))?;
    Some(match declared_features::declared(&pod.spec, node, &subject.index.nodes) {
        Outcome::Passes => passed(RULE, named),
        Outcome::Unknown => {
            unknown(RULE, format!("{named}: whether the scheduler looks at what kubelets declare is not known"))
        }
        Outcome::Rejects(missing) => found(RULE, &node_feature_missing(node, &missing)),
    })
}

/// Lists whether the node can have what the pod has claims to.
fn claimed<R, U>(
    rule: &str,
    outcome: Result<(), Obstacle<R, U>>,
    text: fn(&U) -> String,
    finding: impl FnOnce(R) -> Option<Finding>,
) -> Option<Check> {
    Some(match outcome {
        Ok(()) => passed(rule, "the node can have them"),
        Err(Obstacle::Unknown(open)) => unknown(rule, text(&open)),
        Err(Obstacle::Rejects(why)) => found(rule, &finding(why)?),
    })
}

/// Lists the rules about other pods, if the pod has any or is kept away by those of others.
fn other_pods(subject: &Subject, node: &Node, pod: &Pod) -> Option<Check> {
    const RULE: &str = "other pods";
    let has_rules = other_pods::has_rules(&pod.spec);
    match other_pods::of_pending(subject, node, pod) {
        Outcome::Rejects(_) => Some(found(RULE, &other_pods::finding(subject, node, pod)?)),
        Outcome::Passes if has_rules => {
            Some(passed(RULE, "affinity, anti-affinity and topology spread let it run here"))
        }
        Outcome::Unknown if has_rules => {
            Some(unknown(RULE, "the rules depend on pods of other nodes, or on namespaces, that were not read"))
        }
        Outcome::Passes | Outcome::Unknown => None,
    }
}

/// Lists the rules that only a pod that exists can fail on.
fn waiting_pod(subject: &Subject, node: &Node, pod: &Pod, last: Option<&LastReport>) -> Vec<Check> {
    // What is recomputed from pods has checks of its own.
    let is_arithmetic = |code| match SchedulerPlugin::of(code).map(|plugin| plugin.input) {
        Some(PluginInput::Pods) => true,
        Some(
            input @ (PluginInput::OtherPods | PluginInput::Volumes | PluginInput::Devices | PluginInput::Features),
        ) => is_recomputed(subject, node, pod, input),
        Some(PluginInput::Node) | None => false,
    };
    let mut checks: Vec<Check> = unscheduled_pod::findings(subject, node, pod)
        .iter()
        .filter(|finding| !is_arithmetic(finding.code))
        .map(|finding| found("scheduler", finding))
        .collect();
    if last.is_none() && checks.is_empty() {
        checks.push(unknown("scheduler", "has not reported on the pod"));
    }
    checks
}

fn ports(spec: &PodSpec, room: Option<&NodeRoom>) -> Vec<Check> {
    const RULE: &str = "host ports";
    let wanted: Vec<_> = host_ports(spec).collect();
    if wanted.is_empty() {
        return vec![nothing(RULE)];
    }
    let texts: Vec<String> = wanted.iter().map(|port| port_text(port)).collect();
    let Some(room) = room else {
        return vec![unknown(RULE, format!("{}; the node's other pods were not read", texts.join(", ")))];
    };
    let conflicts = port_conflicts(&room.pods, spec, room.old);
    if conflicts.is_empty() {
        return vec![passed(RULE, format!("{} free", texts.join(", ")))];
    }
    conflicts.iter().map(|finding| found(RULE, finding)).collect()
}

/// Lists the resources, without those that devices may provide.
fn resources(
    node: &Node,
    requests: &Amounts,
    room: Option<&NodeRoom>,
    never: impl Fn() -> Vec<(String, Finding)>,
) -> Vec<Check> {
    let allocatable =
        |resource: &str| node.status.allocatable.get(resource).map_or(0, |quantity| amount(resource, quantity));
    let Some(room) = room else {
        let never = never();
        let check = |(resource, asked): (&String, &i64)| match never.iter().find(|(short, _)| short == resource) {
            Some((_, finding)) => found(resource, finding),
            None => unknown(
                resource,
                format!(
                    "requests {}; node allocatable: {}; its other pods were not read",
                    format_amount(resource, *asked),
                    format_amount(resource, allocatable(resource))
                ),
            ),
        };
        return requests.iter().map(check).collect();
    };
    let shortages = room.shortages(requests);
    let shortage = |resource: &str| shortages.iter().find(|(short, _)| short == resource).map(|(_, finding)| finding);
    let mut checks = Vec::new();
    let slots = allocatable("pods");
    let taken = room.pods.len();
    checks.push(match shortage("pods") {
        Some(finding) => found("pods", finding),
        None => passed("pods", format!("{taken} of {slots}")),
    });
    for (resource, asked) in requests {
        if let Some(finding) = shortage(resource) {
            checks.push(found(resource, finding));
        } else {
            let all = allocatable(resource);
            let free = (all - room.used(resource)).max(0);
            let detail = format!(
                "requests {}; {} free of {} allocatable",
                format_amount(resource, *asked),
                format_amount(resource, free),
                format_amount(resource, all)
            );
            checks.push(passed(resource, detail));
        }
    }
    checks
}

/// Lists whether the node is ready, which no rule of eligibility depends on.
pub fn readiness(subject: &Subject, node: &Node) -> Option<Check> {
    let not_ready = node_health::not_ready(subject.index, node)?;
    Some(failed("node ready", not_ready.to_string(), Some(ReasonCode::NodeUnreachable)))
}
