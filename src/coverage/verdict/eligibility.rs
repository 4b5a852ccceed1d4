//! Why the controller does not want a pod on a node: from the outcome of each rule to reasons.

use jiff::Timestamp;

use super::finding::Finding;
use super::near_miss;
use super::sentence::Sentence;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::{AffinityOutcome, FailingRequirement, TermOutcome};
use crate::scheduling::should_run::{Eligibility, LabelCheck};
use crate::scheduling::taints::TaintOutcome;

/// Finds every rule that keeps a node from being eligible, the lasting ones before the passing ones.
pub fn findings(daemon_set: &DaemonSet, now: Timestamp, node: &Node, eligibility: &Eligibility) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(node_name_mismatch(daemon_set, node, eligibility));
    for check in eligibility.node_selector.iter().filter(|check| !check.matches) {
        findings.push(match &check.actual {
            None => node_selector_label_missing(node, check),
            Some(actual) => node_selector_value_mismatch(node, check, actual),
        });
    }
    findings.extend(affinity_findings(daemon_set, node, &eligibility.affinity));
    let mut taints: Vec<Finding> = eligibility
        .taints
        .iter()
        .filter(|outcome| outcome.is_untolerated())
        .map(|outcome| untolerated(daemon_set, now, node, outcome))
        .collect();
    taints.sort_by_key(|finding| match finding.code {
        ReasonCode::UntoleratedNoExecute => 0,
        ReasonCode::UntoleratedNoSchedule | ReasonCode::ComparisonOperatorUnknown => 1,
        _ => 2,
    });
    findings.extend(taints);
    findings
}

/// Finds that the template pins its pods to another node.
fn node_name_mismatch(daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> Option<Finding> {
    let pinned = eligibility.pinned_to.as_ref().filter(|pinned| **pinned != node.metadata.name)?;
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    Some(Finding::new(
        ReasonCode::NodeNameMismatch,
        format!("the template pins its pods to node {pinned}"),
        format!(
            "remove nodeName: kubectl patch ds {name} -n {namespace} --type=json \
             -p '[{{\"op\":\"remove\",\"path\":\"/spec/template/spec/nodeName\"}}]'"
        ),
    ))
}

/// Finds that the node lacks a label of the node selector.
fn node_selector_label_missing(node: &Node, check: &LabelCheck) -> Finding {
    let LabelCheck { key, wanted, .. } = check;
    let mut message = Sentence::from(format!("label {key} is missing, needs {key}={wanted}"));
    if let Some((near, _)) = near_miss::near_key(key, &node.metadata.labels) {
        message = message.words(format!("; {near} is there"));
    }
    let fix = label_node(node).words(format!(" {key}={wanted}"));
    Finding::new(ReasonCode::NodeSelectorLabelMissing, message, fix)
}

/// Finds that the node has another value for a label of the node selector.
fn node_selector_value_mismatch(node: &Node, check: &LabelCheck, actual: &str) -> Finding {
    let LabelCheck { key, wanted, .. } = check;
    let mut message = Sentence::from(format!("label {key} is ")).value(quote_empty(actual));
    message = message.words(format!(", needs {}", quote_empty(wanted)));
    if near_miss::is_near_value(wanted, actual) {
        message = message.words(" (a slip of the pen?)");
    }
    let fix = label_node(node).words(format!(" {key}={wanted} --overwrite"));
    Finding::new(ReasonCode::NodeSelectorValueMismatch, message, fix)
}

/// Begins the command that labels a node. That a node is not eligible is what is wanted as a rule.
fn label_node(node: &Node) -> Sentence {
    Sentence::from("if pods belong there: kubectl label node ").node(&node.metadata.name)
}

/// Writes a value so that an empty one can be seen.
fn quote_empty(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

/// Finds what is wrong with the required node affinity.
fn affinity_findings(daemon_set: &DaemonSet, node: &Node, affinity: &AffinityOutcome) -> Vec<Finding> {
    let terms = match affinity {
        AffinityOutcome::NotSet | AffinityOutcome::Matches { .. } => return Vec::new(),
        AffinityOutcome::NoTerms => return vec![affinity_empty_terms(daemon_set)],
        AffinityOutcome::NoMatch { terms } => terms,
    };
    if terms.iter().all(|term| matches!(term, TermOutcome::Empty)) {
        return vec![affinity_empty_terms(daemon_set)];
    }
    let mut findings = Vec::new();
    findings.extend(affinity_term_mismatch(daemon_set, node, terms));
    findings.extend(terms.iter().enumerate().filter_map(|(number, term)| match term {
        TermOutcome::Invalid { error } => Some(affinity_term_invalid(daemon_set, number, error)),
        _ => None,
    }));
    findings
}

/// Finds that the required node affinity has no term that could match anything.
fn affinity_empty_terms(daemon_set: &DaemonSet) -> Finding {
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    Finding::new(
        ReasonCode::AffinityEmptyTerms,
        "the required node affinity has no term with a requirement, so it matches no node",
        format!(
            "remove it: kubectl patch ds {name} -n {namespace} --type=json \
             -p '[{{\"op\":\"remove\",\"path\":\"/spec/template/spec/affinity/nodeAffinity/\
             requiredDuringSchedulingIgnoredDuringExecution\"}}]'"
        ),
    )
}

/// Finds a term that can never match on any node.
fn affinity_term_invalid(daemon_set: &DaemonSet, number: usize, error: &str) -> Finding {
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    Finding::new(
        ReasonCode::AffinityTermInvalid,
        format!("term {} of the node affinity can never match: {error}", number + 1),
        format!("correct the value: kubectl edit ds {name} -n {namespace}"),
    )
}

/// Finds that no term of the node affinity matches, and what the closest one fails on.
fn affinity_term_mismatch(daemon_set: &DaemonSet, node: &Node, terms: &[TermOutcome]) -> Option<Finding> {
    let closest = terms
        .iter()
        .filter_map(|term| match term {
            TermOutcome::Mismatch { failing, matching } => Some((failing, *matching)),
            _ => None,
        })
        .min_by_key(|(failing, matching)| (failing.len(), std::cmp::Reverse(*matching)))?;
    let (failing, _) = closest;
    let mut message = Sentence::from(if terms.len() == 1 {
        "node affinity fails on "
    } else {
        "no term of the node affinity matches; the closest fails on "
    });
    for (position, requirement) in failing.iter().enumerate() {
        if position > 0 {
            message = message.words(" and ");
        }
        message = message.words(requirement_text(requirement));
        if let Some(actual) = requirement.actual.as_ref().filter(|_| !requirement.field) {
            message = message.words(", which is ").value(quote_empty(actual));
        } else if let Some((near, _)) = near_miss::near_key(&requirement.key, &node.metadata.labels) {
            message = message.words(format!(" ({near} is there)"));
        }
    }
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    let edit = Sentence::from(format!("edit the term: kubectl edit ds {name} -n {namespace}"));
    let fix = match failing.as_slice() {
        [only] => label_command(node, only).unwrap_or(edit),
        _ => edit,
    };
    Some(Finding::new(ReasonCode::AffinityTermMismatch, message, fix))
}

/// Writes a requirement as selectors are written.
pub fn requirement_text(requirement: &FailingRequirement) -> String {
    let FailingRequirement { key, operator, values, .. } = requirement;
    let values = values.join(",");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.clone(),
        "DoesNotExist" => format!("!{key}"),
        "Gt" => format!("{key} > {values}"),
        "Lt" => format!("{key} < {values}"),
        operator => format!("{key} {operator} ({values})"),
    }
}

/// Returns the command that makes a node meet a requirement, where a label alone does it.
fn label_command(node: &Node, requirement: &FailingRequirement) -> Option<Sentence> {
    if requirement.field {
        return None;
    }
    let command = label_node(node);
    let key = &requirement.key;
    let overwrite = if requirement.actual.is_some() { " --overwrite" } else { "" };
    match (requirement.operator.as_str(), requirement.values.first()) {
        ("In", Some(value)) => Some(command.words(format!(" {key}={value}{overwrite}"))),
        ("Exists", _) => Some(command.words(format!(" {key}="))),
        ("DoesNotExist" | "NotIn", _) => Some(command.words(format!(" {key}-"))),
        _ => None,
    }
}

/// Finds what a taint that is not tolerated does.
fn untolerated(daemon_set: &DaemonSet, now: Timestamp, node: &Node, outcome: &TaintOutcome) -> Finding {
    let taint = &outcome.taint;
    match (taint.key.as_str(), taint.effect.as_str()) {
        _ if outcome.depends_on_gate => comparison_operator_unknown(taint),
        ("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable", "NoSchedule") => {
            node_not_ready_taint(now, node, taint)
        }
        ("node.kubernetes.io/network-unavailable", "NoSchedule") => network_unavailable(),
        (_, "NoExecute") => untolerated_no_execute(daemon_set, taint),
        _ => untolerated_no_schedule(daemon_set, taint),
    }
}

/// Finds that an `Lt` or `Gt` toleration would decide, which takes a feature gate.
fn comparison_operator_unknown(taint: &Taint) -> Finding {
    Finding::new(
        ReasonCode::ComparisonOperatorUnknown,
        format!(
            "taint {} is tolerated by an Lt or Gt toleration only, which counts only with the feature gate \
             TaintTolerationComparisonOperators",
            taint_text(taint)
        ),
        "use operator Equal or Exists",
    )
}

/// Finds that a node that is not ready drops out of the desired number.
fn node_not_ready_taint(now: Timestamp, node: &Node, taint: &Taint) -> Finding {
    let silence = super::bound_pod::node_silence(now, node).unwrap_or_else(|| Sentence::from("the node was not ready"));
    let message = silence.words(format!("; taint {} takes it out of the desired number", taint_text(taint)));
    Finding::new(ReasonCode::NodeNotReadyTaint, message, super::bound_pod::repair(node))
}

/// Finds that the node's network is not up.
fn network_unavailable() -> Finding {
    Finding::new(
        ReasonCode::NetworkUnavailable,
        "the node's network is not up (taint node.kubernetes.io/network-unavailable), and the pods do not use \
         the node's own network",
        "fix the network plugin; if this is the network plugin itself, set hostNetwork: true",
    )
}

/// Finds a NoExecute taint that removes pods and keeps them away.
fn untolerated_no_execute(daemon_set: &DaemonSet, taint: &Taint) -> Finding {
    let message = format!("taint {} removes pods and keeps them away", taint_text(taint));
    Finding::new(ReasonCode::UntoleratedNoExecute, near_toleration(daemon_set, taint, message), tolerate(taint))
}

/// Finds a NoSchedule taint that keeps pods away.
fn untolerated_no_schedule(daemon_set: &DaemonSet, taint: &Taint) -> Finding {
    let message = format!("taint {} is not tolerated", taint_text(taint));
    Finding::new(ReasonCode::UntoleratedNoSchedule, near_toleration(daemon_set, taint, message), tolerate(taint))
}

/// Adds the toleration of the template that was likely meant for the taint.
fn near_toleration(daemon_set: &DaemonSet, taint: &Taint, message: String) -> String {
    match near_miss::near_toleration(taint, &daemon_set.spec.template.spec.tolerations) {
        Some((_, wrong)) => format!("{message}; a toleration comes close, but has {wrong}"),
        None => message,
    }
}

/// Writes a taint as kubectl does: `key=value:effect`.
pub fn taint_text(taint: &Taint) -> String {
    let Taint { key, value, effect, .. } = taint;
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

/// Returns the toleration to add for a taint.
fn tolerate(taint: &Taint) -> String {
    let Taint { key, value, effect, .. } = taint;
    let matching = if value.is_empty() { "operator: Exists".to_owned() } else { format!("value: {value:?}") };
    format!("if pods belong there, add to tolerations: {{key: {key}, {matching}, effect: {effect}}}")
}
