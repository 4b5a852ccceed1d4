//! The rules of eligibility on a node: what each was checked with, why it excludes the node, and what almost matches.

use super::checks::{failed, nothing, passed};
use super::finding::{Finding, describe_node, edit};
use super::label_setter::{node_label_advice, where_to_change};
use super::near_miss;
use super::sentence::Sentence;
use super::untolerated::untolerated;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::pod::{NodeSelectorRequirement, NodeSelectorTerm, Toleration};
use crate::report::fix::Command;
use crate::report::node_coverage::Check;
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::{AffinityOutcome, FailingRequirement, TermOutcome};
use crate::scheduling::should_run::{Eligibility, LabelCheck};
use crate::scheduling::taints::TaintOutcome;

/// What a rule comes to on a node.
pub struct RuleOutcome {
    /// The values that were compared.
    pub check: Check,
    /// Why the rule excludes the node; `None` if it does not, or if another outcome tells it.
    pub finding: Option<Finding>,
    /// What almost matches, so that it is likely a mistake.
    pub near_misses: Vec<String>,
}

impl RuleOutcome {
    fn of(check: Check) -> Self {
        RuleOutcome { check, finding: None, near_misses: Vec::new() }
    }

    fn failed(rule: &str, detail: String, finding: Finding) -> Self {
        RuleOutcome { finding: Some(finding.clone()), ..RuleOutcome::of(failed(rule, detail, Some(finding.code))) }
    }

    fn near(mut self, near_misses: impl IntoIterator<Item = String>) -> Self {
        self.near_misses.extend(near_misses);
        self
    }
}

/// Applies every rule of the controller, in its order.
pub fn rule_outcomes(
    index: &Index<'_>,
    daemon_set: &DaemonSet,
    node: &Node,
    eligibility: &Eligibility,
) -> Vec<RuleOutcome> {
    let mut outcomes = vec![node_name(daemon_set, node, eligibility)];
    if eligibility.node_selector.is_empty() {
        outcomes.push(RuleOutcome::of(nothing("nodeSelector")));
    }
    let is_all = lacks_one_label(eligibility);
    outcomes.extend(eligibility.node_selector.iter().map(|outcome| label(index, daemon_set, node, outcome, is_all)));
    outcomes.extend(affinity(daemon_set, node, &eligibility.affinity));
    outcomes.extend(eligibility.taints.iter().map(|outcome| taint(index, daemon_set, node, outcome)));
    let preferences = node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    outcomes.extend(preferences.map(|taint| RuleOutcome::of(passed("taint", format!("{taint} is only a preference")))));
    if !outcomes.iter().any(|outcome| outcome.check.rule == "taint") {
        outcomes.push(RuleOutcome::of(nothing("taint")));
    }
    if node.spec.unschedulable {
        outcomes.push(RuleOutcome::of(passed("cordon", "the node is cordoned, which DaemonSets ignore")));
    }
    outcomes
}

/// Finds every rule that excludes a node, permanent ones before those that pass by themselves.
pub fn findings(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> Vec<Finding> {
    let outcomes = rule_outcomes(index, daemon_set, node, eligibility);
    let mut findings: Vec<Finding> = outcomes.into_iter().filter_map(|outcome| outcome.finding).collect();
    findings.sort_by_key(|finding| match finding.code {
        ReasonCode::AffinityTermInvalid => 1,
        ReasonCode::UntoleratedNoExecute => 2,
        ReasonCode::UntoleratedNoSchedule | ReasonCode::ComparisonOperatorUnknown => 3,
        code if code.is_state_of_node() => 4,
        _ => 0,
    });
    findings
}

/// Tells whether the template pins its pods to another node.
fn node_name(daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> RuleOutcome {
    match &eligibility.pinned_to {
        None => RuleOutcome::of(nothing("nodeName")),
        Some(pinned) if *pinned == node.metadata.name => {
            RuleOutcome::of(passed("nodeName", format!("{pinned}: this node")))
        }
        Some(pinned) => {
            let finding = Finding::new(
                ReasonCode::NodeNameMismatch,
                format!("nodeName in the template pins the pods to node {pinned}"),
                "if the pods should run on other nodes too, remove nodeName from the template",
            );
            RuleOutcome::failed("nodeName", format!("{pinned}: another node"), finding.with_command(edit(daemon_set)))
        }
    }
}

/// Returns whether a node lacks at most one label: to change that is enough then.
fn lacks_one_label(eligibility: &Eligibility) -> bool {
    eligibility.pinned_to.is_none()
        && eligibility.node_selector.iter().filter(|outcome| !outcome.matches).count() <= 1
        && matches!(eligibility.affinity, AffinityOutcome::NotSet | AffinityOutcome::Matches { .. })
        && !eligibility.taints.iter().any(TaintOutcome::is_untolerated)
}

/// How the values begin that operators give labels while they work on a node, such as `paused-for-driver-upgrade` of NVIDIA's GPU operator.
const OPERATOR_STATES: [&str; 2] = ["paused-for-", "upgrade-"];

/// Tells whether the node has a label of the node selector; `is_all` says that nothing else excludes it.
fn label(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, outcome: &LabelCheck, is_all: bool) -> RuleOutcome {
    const RULE: &str = "nodeSelector";
    let LabelCheck { key, wanted, actual, matches } = outcome;
    if *matches {
        return RuleOutcome::of(passed(RULE, format!("{key}={wanted} matches")));
    }
    let requires = format!("nodeSelector requires {key}={wanted}");
    let Some(actual) = actual else {
        let code = ReasonCode::NodeSelectorLabelMissing;
        let message = format!("label {key} is missing; {requires}");
        let near = near_miss::near_key(key, &node.metadata.labels);
        // A key that no node has may be a mistake on all of them, whichever have the right one.
        let others = index.node_labels();
        let near_elsewhere = || near_miss::near_key(key, others).filter(|_| !others.contains_key(key));
        let mistake = |whose: &str, near: &str| {
            let advice = format!("if label {near} is meant, correct the nodeSelector");
            Finding::mistake(daemon_set, code, format!("{message}; {whose} label {near}"), advice)
        };
        let finding = match (near, near_elsewhere()) {
            (Some((near, _)), _) => mistake("the node has", near),
            (None, Some((near, _))) => mistake("no node has it, but others have", near),
            (None, None) => {
                let advice = node_label_advice(key, &format!("set label {key}={wanted} on it"));
                try_label(Finding::new(code, message, advice), node, key, wanted, is_all)
            }
        };
        let near = near.map(|(near, value)| format!("{requires}; the node has {near}={value}"));
        return RuleOutcome::failed(RULE, format!("{key}={wanted}: label missing"), finding).near(near);
    };
    let code = ReasonCode::NodeSelectorValueMismatch;
    let message = Sentence::from(format!("label {key} is ")).value(quote_empty(actual));
    let message = message.words(format!("; nodeSelector requires {}", quote_empty(wanted)));
    let is_near = near_miss::is_near_value(wanted, actual);
    let finding = if is_near {
        let advice = format!("if {key}={actual} is meant, correct the nodeSelector");
        Finding::mistake(daemon_set, code, message.words(" (likely a mistake)"), advice)
    } else {
        let change = format!("change label {key} to {}", quote_empty(wanted));
        if key.starts_with("nvidia.com/") && OPERATOR_STATES.iter().any(|state| actual.starts_with(state)) {
            let advice =
                "wait for the operator that has set this value while it works on the node, or see what keeps it";
            let detail = format!("{key}={wanted}: the node has {key}={actual}");
            return RuleOutcome::failed(
                RULE,
                detail,
                Finding::new(code, message, advice).with_command(describe_node(node)),
            );
        }
        try_label(Finding::new(code, message, node_label_advice(key, &change)), node, key, wanted, is_all)
    };
    let near = is_near.then(|| format!("{requires}; the node has {key}={actual}"));
    RuleOutcome::failed(RULE, format!("{key}={wanted}: the node has {key}={actual}"), finding).near(near)
}

/// Adds to the advice to change a label how to see what else that would change: the label may steer other DaemonSets, too.
fn try_label(mut finding: Finding, node: &Node, key: &str, wanted: &str, is_all: bool) -> Finding {
    if !is_all || where_to_change(key).is_some() {
        return finding;
    }
    finding.advice = finding.advice.words("; to see first what else that changes");
    let command = Command::kubectl(&["ds", "preview"]).flag("--if", format!("label {key}={wanted}"));
    finding.with_command(command.flag("--node", &node.metadata.name))
}

/// Writes a value so that an empty one can be seen.
fn quote_empty(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

/// Tells whether a term of the required node affinity matches, or why each does not. The closest one stands for all that
/// do not match.
fn affinity(daemon_set: &DaemonSet, node: &Node, outcome: &AffinityOutcome) -> Vec<RuleOutcome> {
    const RULE: &str = "node affinity";
    let terms = match outcome {
        AffinityOutcome::NotSet => return vec![RuleOutcome::of(nothing(RULE))],
        AffinityOutcome::Matches { term } => {
            let selector = daemon_set.spec.template.spec.required_node_affinity();
            let text = selector.and_then(|selector| selector.node_selector_terms.get(*term)).map(term_text);
            let detail = format!("term {} matches: {}", term + 1, text.unwrap_or_default());
            return vec![RuleOutcome::of(passed(RULE, detail))];
        }
        AffinityOutcome::NoTerms => {
            let detail = "no terms, which matches no node".to_owned();
            return vec![RuleOutcome::failed(RULE, detail, affinity_empty_terms(daemon_set))];
        }
        AffinityOutcome::NoMatch { terms } => terms,
    };
    let all_are_empty = terms.iter().all(|term| *term == TermOutcome::Empty);
    let distance = |(at, term): (usize, &TermOutcome)| match term {
        TermOutcome::Mismatch { failing, matching } => Some((failing.len(), std::cmp::Reverse(*matching), at)),
        _ => None,
    };
    let closest = terms.iter().enumerate().filter_map(distance).min().map(|(.., at)| at);
    let tell = |(at, term): (usize, &TermOutcome)| {
        let number = at + 1;
        match term {
            TermOutcome::Empty => RuleOutcome {
                finding: (all_are_empty && at == 0).then(|| affinity_empty_terms(daemon_set)),
                ..RuleOutcome::of(failed(
                    RULE,
                    format!("term {number} is empty and matches no node"),
                    Some(ReasonCode::AffinityEmptyTerms),
                ))
            },
            TermOutcome::Invalid { error } => {
                let never = format!("never matches: {error}");
                let message = format!("term {number} of the required node affinity {never}");
                let code = ReasonCode::AffinityTermInvalid;
                let finding = Finding::mistake(daemon_set, code, message, "correct the value");
                RuleOutcome::failed(RULE, format!("term {number} {never}"), finding)
            }
            TermOutcome::Mismatch { failing, matching } => {
                let near: Vec<_> = failing.iter().map(|requirement| near_label(node, requirement)).collect();
                let texts: Vec<String> = failing.iter().map(failing_text).collect();
                let total = failing.len() + matching;
                let detail = format!("term {number} requires {} ({matching} of {total} match)", texts.join(" and "));
                let only = match failing.as_slice() {
                    [only] if *matching > 0 => Some(only),
                    _ => None,
                };
                let only = only.map(|only| {
                    format!("term {number} of the node affinity fails only on {}", requirement_text(&only.written))
                });
                let keys = failing.iter().zip(&near).filter_map(|(requirement, near)| {
                    let ((near, value), text) = ((*near)?, requirement_text(&requirement.written));
                    Some(format!("node affinity requires {text}; the node has {near}={value}"))
                });
                let finding =
                    (closest == Some(at)).then(|| affinity_term_mismatch(daemon_set, terms.len() == 1, failing, &near));
                let check = failed(RULE, detail, Some(ReasonCode::AffinityTermMismatch));
                RuleOutcome { finding, ..RuleOutcome::of(check).near(only).near(keys) }
            }
        }
    };
    terms.iter().enumerate().map(tell).collect()
}

/// Returns the label of the node that was likely meant by a requirement whose label it does not have, and its value.
fn near_label<'n>(node: &'n Node, requirement: &FailingRequirement) -> Option<(&'n str, &'n str)> {
    let is_missing = requirement.actual.is_none() && !requirement.field;
    is_missing.then(|| near_miss::near_key(&requirement.written.key, &node.metadata.labels)).flatten()
}

/// Finds that the required node affinity has no term that could match anything.
fn affinity_empty_terms(daemon_set: &DaemonSet) -> Finding {
    Finding::mistake(
        daemon_set,
        ReasonCode::AffinityEmptyTerms,
        "the required node affinity has no term with a requirement, so it matches no node",
        "add a requirement; without the required node affinity, the pods run on every node that the other rules allow",
    )
}

/// Finds what the closest term of the node affinity fails on; `near` are the labels that were likely meant.
fn affinity_term_mismatch(
    daemon_set: &DaemonSet,
    is_only_term: bool,
    failing: &[FailingRequirement],
    near: &[Option<(&str, &str)>],
) -> Finding {
    let mut message = Sentence::from(match is_only_term {
        true => "node affinity requires ",
        false => "no term of the required node affinity matches; the closest requires ",
    });
    let mut has_near_miss = false;
    for (position, (requirement, near)) in failing.iter().zip(near).enumerate() {
        if position > 0 {
            message = message.words(" and ");
        }
        message = message.words(requirement_text(&requirement.written));
        if let Some(actual) = requirement.actual.as_ref().filter(|_| !requirement.field) {
            message = message.words("; the node has ").value(quote_empty(actual));
            has_near_miss |= requirement.written.operator == "In"
                && requirement.written.values.iter().any(|it| near_miss::is_near_value(it, actual));
        } else if let Some((near, _)) = near {
            message = message.words(format!("; the node has label {near}"));
            has_near_miss = true;
        }
    }
    let code = ReasonCode::AffinityTermMismatch;
    if has_near_miss {
        return Finding::mistake(daemon_set, code, message, "check the node affinity for a mistake");
    }
    let advice = match failing {
        [only] => label_change(only).map(|change| node_label_advice(&only.written.key, &change)),
        _ => None,
    };
    let change = || "if the node should run these pods, change the node affinity or the node's labels".to_owned();
    Finding::new(code, message, advice.unwrap_or_else(change))
}

fn failing_text(requirement: &FailingRequirement) -> String {
    let text = requirement_text(&requirement.written);
    match &requirement.actual {
        Some(actual) => format!("{text}; the node has {actual:?}"),
        None => format!("{text}; label missing"),
    }
}

/// Writes a term of a node affinity.
pub fn term_text(term: &NodeSelectorTerm) -> String {
    let requirements = term.match_expressions.iter().chain(&term.match_fields);
    requirements.map(requirement_text).collect::<Vec<_>>().join(" and ")
}

/// Writes a requirement as selectors are written.
pub fn requirement_text(NodeSelectorRequirement { key, operator, values }: &NodeSelectorRequirement) -> String {
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

/// Returns the change to a label that makes a node meet a requirement, if a label alone does it.
fn label_change(requirement: &FailingRequirement) -> Option<String> {
    if requirement.field {
        return None;
    }
    let NodeSelectorRequirement { key, operator, values } = &requirement.written;
    match (operator.as_str(), values.first()) {
        ("In", Some(value)) => Some(format!("set label {key}={value} on it")),
        ("Exists", _) => Some(format!("set label {key} on it")),
        ("DoesNotExist", _) => Some(format!("remove label {key} from it")),
        ("NotIn", _) => Some(format!("change label {key}")),
        _ => None,
    }
}

/// Tells whether a taint is tolerated.
fn taint(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, outcome: &TaintOutcome) -> RuleOutcome {
    let text = &outcome.taint;
    if let Some(by) = &outcome.tolerated_by {
        let who = match by.automatic {
            true => "tolerated (added by the controller)".to_owned(),
            false => format!("tolerated by {}", toleration_text(&by.toleration)),
        };
        return RuleOutcome::of(passed("taint", format!("{text} {who}")));
    }
    let near = near_miss::near_toleration(&outcome.taint, &daemon_set.spec.template.spec.tolerations);
    let finding = untolerated(index, daemon_set, node, outcome, near.as_ref().map(|(_, wrong)| wrong.as_str()));
    let near = near.map(|(toleration, wrong)| format!("toleration {} has {wrong}", toleration_text(toleration)));
    RuleOutcome::failed("taint", format!("{text} is not tolerated"), finding).near(near)
}

/// Writes a toleration.
fn toleration_text(toleration: &Toleration) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::requirement_text;
    use crate::coverage::test_support::world;
    use crate::model::pod::NodeSelectorRequirement;
    use crate::report::reason::{Reason, ReasonCode};

    fn reasons(template: Value, node: Value) -> Vec<Reason> {
        world().template(template).node("n", node).only_node().reasons
    }

    #[test]
    fn taints_that_stay_come_before_those_that_pass() {
        let taints = json!([
            {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"},
            {"key": "dedicated", "effect": "NoSchedule"},
            {"key": "retired", "effect": "NoExecute"},
        ]);
        let reasons = reasons(json!({}), json!({"spec": {"taints": taints}}));
        let codes: Vec<ReasonCode> = reasons.iter().map(|reason| reason.code).collect();
        use ReasonCode as R;
        assert_eq!(codes, [R::UntoleratedNoExecute, R::UntoleratedNoSchedule, R::NetworkUnavailable]);
    }

    #[test]
    fn a_node_affinity_is_checked_for_a_mistake_only_if_it_nearly_matches() {
        let required = |key: &str, value: &str| {
            let terms = json!([{"matchExpressions": [{"key": key, "operator": "In", "values": [value]},
                {"key": "pool", "operator": "Exists"}]}]);
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            json!({"affinity": {"nodeAffinity": required}})
        };
        let labels = json!({"metadata": {"labels": {"example.com/storage": "nvme", "nvidia.com/gpu": "true"}}});
        for (key, value, is_near) in [
            ("example.com/storage", "ssd", false),
            ("example.com/storage", "NVMe", true),
            ("example.com/stroage", "nvme", true),
            ("gpu.intel.com/gpu", "true", false),
        ] {
            let Reason { code, fix, .. } = reasons(required(key, value), labels.clone()).remove(0);
            assert_eq!(code, ReasonCode::AffinityTermMismatch);
            assert_eq!(fix.advice.contains("mistake"), is_near, "{key}={value}: {}", fix.advice);
            assert_eq!(fix.command.is_some(), is_near);
        }
    }

    /// Whichever nodes have the right label: to label the others would keep the mistake.
    #[test]
    fn a_key_that_no_node_has_is_corrected_if_one_has_almost_the_same() {
        let node = |key: &str| json!({"metadata": {"labels": {key: "ssd"}}});
        for (wanted, other, corrects) in [
            ("example.com/stroage", "example.com/storage", true),
            ("example.com/storage", "example.com/storage", false),
            ("example.com/disk", "example.com/storage", false),
        ] {
            let world = world().template(json!({"nodeSelector": {wanted: "ssd"}}));
            let coverage = world.node("n", json!({})).node("other", node(other)).coverage();
            let reason = &coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0];
            assert_eq!(reason.code, ReasonCode::NodeSelectorLabelMissing);
            assert_eq!(reason.fix.advice.contains("correct the nodeSelector"), corrects, "{wanted}: {reason:?}");
            assert_eq!(reason.fix.advice.contains("set label"), !corrects, "{wanted}: {reason:?}");
        }
    }

    #[test]
    fn requirements_are_written_as_selectors_are() {
        for (operator, values, text) in [
            ("In", vec!["a", "b"], "zone in (a,b)"),
            ("NotIn", vec!["a"], "zone notin (a)"),
            ("Exists", vec![], "zone"),
            ("DoesNotExist", vec![], "!zone"),
            ("Gt", vec!["5"], "zone > 5"),
            ("Lt", vec!["5"], "zone < 5"),
        ] {
            let values = values.into_iter().map(str::to_owned).collect();
            let (key, operator) = ("zone".to_owned(), operator.to_owned());
            let requirement = NodeSelectorRequirement { key, operator, values };
            assert_eq!(requirement_text(&requirement), text);
        }
    }
}
