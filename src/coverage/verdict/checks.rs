//! The rules of the scheduler that were checked for a node, passed or failed, with the values that were compared.

use super::admission;
use super::daemon_set_context::Subject;
use super::filters::{FILTERS, Filtered, filtered};
use super::finding::Finding;
use super::fit::{NodeRoom, port_conflicts, port_text};
use super::node_health;
use super::other_pods::has_rules;
use super::scheduler_message::{PluginInput, SchedulerPlugin};
use super::scheduler_report::{LastReport, is_recomputed};
use super::unscheduled_pod;
use crate::model::node::Node;
use crate::model::pod::{Pod, PodSpec};
use crate::report::node_coverage::Check;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods;
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
    let waiting = pods.iter().copied().find(|pod| pod.waits_for_node());
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
    checks.extend(FILTERS.iter().filter_map(|(input, rule)| match filtered(subject, node, pod, *input)? {
        Filtered::Rejects(finding) => Some(found(rule, &finding)),
        // The rules of other pods keep away those that have none themselves.
        _ if *input == PluginInput::OtherPods && !has_rules(&pod.spec) => None,
        Filtered::Passes(detail) => Some(passed(rule, detail)),
        Filtered::Unknown(detail) => Some(unknown(rule, detail)),
    }));
    checks
}

/// Lists the rules that only a pod that exists can fail on.
fn waiting_pod(subject: &Subject, node: &Node, pod: &Pod, last: Option<&LastReport>) -> Vec<Check> {
    // What is recomputed from pods has checks of its own.
    let is_arithmetic = |code| match SchedulerPlugin::of(code).map(|plugin| plugin.input) {
        Some(PluginInput::Pods) => true,
        Some(PluginInput::Node) | None => false,
        Some(input) => is_recomputed(subject, node, pod, input),
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
