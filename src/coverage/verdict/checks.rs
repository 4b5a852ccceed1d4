//! Every rule that was checked for a node, passed or failed, with the values that were compared.

use super::admission;
use super::daemon_set_context::Subject;
use super::eligibility::{requirement_text, taint_text, untolerated};
use super::fit::{Room, port_conflicts, port_text};
use super::node_health;
use super::unscheduled_pod::{self, LastReport};
use crate::model::node::Node;
use crate::model::pod::{NodeSelectorTerm, Pod, PodSpec, Toleration};
use crate::report::coverage::Check;
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::{AffinityOutcome, FailingRequirement, TermOutcome};
use crate::scheduling::daemon_pods;
use crate::scheduling::ports::host_ports;
use crate::scheduling::resources::{Amounts, amount, format_amount, pod_requests};
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::{Eligibility, LabelCheck};
use crate::scheduling::taints::TaintOutcome;

fn check(rule: &str, passed: bool, detail: impl Into<String>) -> Check {
    Check { rule: rule.to_owned(), passed: Some(passed), detail: detail.into(), code: None, trivial: false }
}

/// Returns a check that passes because there is nothing to check.
fn nothing(rule: &str) -> Check {
    Check { trivial: true, ..check(rule, true, "none") }
}

fn failed(rule: &str, detail: impl Into<String>, code: Option<ReasonCode>) -> Check {
    Check { rule: rule.to_owned(), passed: Some(false), detail: detail.into(), code, trivial: false }
}

fn unknown(rule: &str, detail: impl Into<String>) -> Check {
    Check { rule: rule.to_owned(), passed: None, detail: detail.into(), code: None, trivial: false }
}

/// Lists every rule of the controller, in its order.
pub fn eligibility(subject: &Subject, node: &Node, eligibility: &Eligibility) -> Vec<Check> {
    let mut checks = vec![node_name(node, eligibility)];
    if eligibility.node_selector.is_empty() {
        checks.push(nothing("nodeSelector"));
    }
    checks.extend(eligibility.node_selector.iter().map(label));
    checks.extend(affinity(subject, &eligibility.affinity));
    checks.extend(taints(subject, node, eligibility));
    checks
}

fn node_name(node: &Node, eligibility: &Eligibility) -> Check {
    match &eligibility.pinned_to {
        None => nothing("nodeName"),
        Some(pinned) if *pinned == node.metadata.name => check("nodeName", true, format!("{pinned}: this node")),
        Some(pinned) => failed("nodeName", format!("{pinned}: another node"), Some(ReasonCode::NodeNameMismatch)),
    }
}

fn label(outcome: &LabelCheck) -> Check {
    let LabelCheck { key, wanted, actual, matches } = outcome;
    match actual {
        _ if *matches => check("nodeSelector", true, format!("{key}={wanted} matches")),
        None => {
            let detail = format!("{key}={wanted}: label missing");
            failed("nodeSelector", detail, Some(ReasonCode::NodeSelectorLabelMissing))
        }
        Some(actual) => {
            let detail = format!("{key}={wanted}: the node has {key}={actual}");
            failed("nodeSelector", detail, Some(ReasonCode::NodeSelectorValueMismatch))
        }
    }
}

fn affinity(subject: &Subject, outcome: &AffinityOutcome) -> Vec<Check> {
    const RULE: &str = "node affinity";
    let selector = subject.daemon_set.spec.template.spec.required_node_affinity();
    let written = |number: usize| selector.and_then(|selector| selector.node_selector_terms.get(number));
    let terms = match outcome {
        AffinityOutcome::NotSet => return vec![nothing(RULE)],
        AffinityOutcome::Matches { term } => {
            let text = written(*term).map(term_text).unwrap_or_default();
            return vec![check(RULE, true, format!("term {} matches: {text}", term + 1))];
        }
        AffinityOutcome::NoTerms => {
            return vec![failed(RULE, "no terms, which matches no node", Some(ReasonCode::AffinityEmptyTerms))];
        }
        AffinityOutcome::NoMatch { terms } => terms,
    };
    terms
        .iter()
        .enumerate()
        .map(|(number, term)| {
            let number = number + 1;
            match term {
                TermOutcome::Empty => failed(
                    RULE,
                    format!("term {number} is empty and matches no node"),
                    Some(ReasonCode::AffinityEmptyTerms),
                ),
                TermOutcome::Invalid { error } => {
                    failed(RULE, format!("term {number} never matches: {error}"), Some(ReasonCode::AffinityTermInvalid))
                }
                TermOutcome::Mismatch { failing, matching } => {
                    let failing: Vec<String> = failing.iter().map(failing_text).collect();
                    let total = failing.len() + matching;
                    let detail =
                        format!("term {number} requires {} ({matching} of {total} match)", failing.join(" and "));
                    failed(RULE, detail, Some(ReasonCode::AffinityTermMismatch))
                }
            }
        })
        .collect()
}

fn failing_text(requirement: &FailingRequirement) -> String {
    let text = requirement_text(requirement);
    match &requirement.actual {
        Some(actual) => format!("{text}; the node has {actual:?}"),
        None => format!("{text}; label missing"),
    }
}

fn term_text(term: &NodeSelectorTerm) -> String {
    let requirements = term.match_expressions.iter().chain(&term.match_fields);
    let texts: Vec<String> = requirements
        .map(|requirement| {
            requirement_text(&FailingRequirement {
                key: requirement.key.clone(),
                operator: requirement.operator.clone(),
                values: requirement.values.clone(),
                field: false,
                actual: None,
            })
        })
        .collect();
    texts.join(" and ")
}

fn taints(subject: &Subject, node: &Node, eligibility: &Eligibility) -> Vec<Check> {
    let mut checks: Vec<Check> = eligibility.taints.iter().map(|outcome| taint(subject, node, outcome)).collect();
    checks.extend(
        node.spec
            .taints
            .iter()
            .filter(|taint| taint.effect == "PreferNoSchedule")
            .map(|taint| check("taint", true, format!("{} is only a preference", taint_text(taint)))),
    );
    if checks.is_empty() {
        checks.push(nothing("taint"));
    }
    if node.spec.unschedulable {
        checks.push(check("cordon", true, "the node is cordoned, which DaemonSets ignore"));
    }
    checks
}

fn taint(subject: &Subject, node: &Node, outcome: &TaintOutcome) -> Check {
    let text = taint_text(&outcome.taint);
    if let Some(by) = &outcome.tolerated_by {
        let who = if by.automatic {
            "tolerated (added by the controller)".to_owned()
        } else {
            format!("tolerated by {}", toleration_text(&by.toleration))
        };
        return check("taint", true, format!("{text} {who}"));
    }
    let finding = untolerated(subject.daemon_set, subject.index.now(), node, outcome);
    failed("taint", format!("{text} is not tolerated"), Some(finding.code))
}

/// Writes a toleration.
pub fn toleration_text(toleration: &Toleration) -> String {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let key = if key.is_empty() { "every key" } else { key };
    let effect = if effect.is_empty() { "every effect" } else { effect };
    let text = match operator.as_str() {
        "" | "Equal" => format!("{key}={value}:{effect}"),
        "Exists" => format!("{key}:{effect}"),
        operator => format!("{key} {operator} {value}:{effect}"),
    };
    match toleration_seconds {
        Some(seconds) => format!("{text} for {seconds}s only"),
        None => text,
    }
}

/// Lists the rules of the scheduler, for the pod that is pending or for one that is not created yet; a bound pod
/// has passed them.
pub fn scheduling(subject: &Subject, node: &Node, pods: &[&Pod], last: Option<&LastReport>) -> Vec<Check> {
    let waiting = pods.iter().copied().find(|pod| pod.spec.node_name.is_empty() && !pod.metadata.is_terminating());
    if waiting.is_none() && !pods.is_empty() {
        return Vec::new();
    }
    let own = |pod: &Pod| daemon_pods::claim(subject.daemon_set, pod).is_claimed();
    let new;
    let (pod, mut checks) = match waiting {
        Some(pod) => (pod, waiting_pod(subject, node, pod, last)),
        None => {
            new = admission::admitted(subject.index.snapshot, subject.daemon_set);
            (&new, Vec::new())
        }
    };
    let room = Room::of(subject.index, node, pod);
    checks.extend(ports(subject, &pod.spec, room.as_ref(), own));
    checks.extend(resources(node, &pod_requests(pod), room.as_ref()));
    checks
}

/// Lists the rules that only a pod that exists can fail on.
fn waiting_pod(subject: &Subject, node: &Node, pod: &Pod, last: Option<&LastReport>) -> Vec<Check> {
    let arithmetic = |code: ReasonCode| {
        use ReasonCode as R;
        matches!(
            code,
            R::InsufficientResource | R::NeverFits | R::TooManyPods | R::HostPortConflict | R::SurgeHostPortDeadlock
        )
    };
    let mut checks: Vec<Check> = unscheduled_pod::findings(subject, node, pod)
        .iter()
        .filter(|finding| !arithmetic(finding.code))
        .map(|finding| failed("scheduler", finding.message.to_string(), Some(finding.code)))
        .collect();
    if last.is_none() && checks.is_empty() {
        checks.push(unknown("scheduler", "has not reported on the pod"));
    }
    checks
}

fn ports(subject: &Subject, spec: &PodSpec, room: Option<&Room>, own: impl Fn(&Pod) -> bool) -> Vec<Check> {
    const RULE: &str = "host ports";
    let wanted: Vec<_> = host_ports(spec).collect();
    if wanted.is_empty() {
        return vec![nothing(RULE)];
    }
    let texts: Vec<String> = wanted.iter().map(|port| port_text(port)).collect();
    let Some(room) = room else {
        return vec![unknown(RULE, format!("{}; the node's other pods could not be read", texts.join(", ")))];
    };
    let conflicts = port_conflicts(&room.pods, spec, allows_surge(subject.daemon_set), own);
    if conflicts.is_empty() {
        return vec![check(RULE, true, format!("{} free", texts.join(", ")))];
    }
    conflicts.iter().map(|finding| failed(RULE, finding.message.to_string(), Some(finding.code))).collect()
}

/// Lists the resources.
fn resources(node: &Node, requests: &Amounts, room: Option<&Room>) -> Vec<Check> {
    let allocatable =
        |resource: &str| node.status.allocatable.get(resource).map_or(0, |quantity| amount(resource, quantity));
    let Some(room) = room else {
        return requests
            .iter()
            .map(|(resource, asked)| {
                unknown(
                    resource,
                    format!(
                        "requests {}; node allocatable: {}; its other pods could not be read",
                        format_amount(resource, *asked),
                        format_amount(resource, allocatable(resource))
                    ),
                )
            })
            .collect();
    };
    let shortages = room.shortages(requests);
    let shortage = |resource: &str| shortages.iter().find(|(short, _)| short == resource).map(|(_, finding)| finding);
    let mut checks = Vec::new();
    let slots = allocatable("pods");
    let taken = room.pods.len();
    checks.push(match shortage("pods") {
        Some(finding) => failed("pods", finding.message.to_string(), Some(finding.code)),
        None => check("pods", true, format!("{taken} of {slots}")),
    });
    for (resource, asked) in requests {
        if let Some(finding) = shortage(resource) {
            checks.push(failed(resource, finding.message.to_string(), Some(finding.code)));
        } else {
            let all = allocatable(resource);
            let free = (all - room.used(resource)).max(0);
            let detail = format!(
                "requests {}; {} free of {} allocatable",
                format_amount(resource, *asked),
                format_amount(resource, free),
                format_amount(resource, all)
            );
            checks.push(check(resource, true, detail));
        }
    }
    checks
}

/// Lists whether the node is ready, which no rule of eligibility depends on.
pub fn readiness(subject: &Subject, node: &Node) -> Option<Check> {
    let not_ready = node_health::not_ready(subject.index.now(), node)?;
    Some(failed("node ready", not_ready.to_string(), Some(ReasonCode::NodeUnreachable)))
}
