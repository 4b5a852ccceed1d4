//! Why a node is not eligible: from the outcome of each rule to reasons.

use jiff::Timestamp;

use super::finding::{Finding, describe_node, edit};
use super::near_miss;
use super::node_health;
use super::node_plugin::NodePlugin;
use super::node_removal;
use super::sentence::Sentence;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::{AffinityOutcome, FailingRequirement, TermOutcome};
use crate::scheduling::should_run::{Eligibility, LabelCheck};
use crate::scheduling::taints::TaintOutcome;

/// Finds every rule that excludes a node, permanent ones before those that pass by themselves.
pub fn findings(daemon_set: &DaemonSet, now: Timestamp, node: &Node, eligibility: &Eligibility) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(node_name_mismatch(daemon_set, node, eligibility));
    for check in eligibility.node_selector.iter().filter(|check| !check.matches) {
        findings.push(match &check.actual {
            None => node_selector_label_missing(daemon_set, node, check),
            Some(actual) => node_selector_value_mismatch(daemon_set, check, actual),
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
    let finding = Finding::new(
        ReasonCode::NodeNameMismatch,
        format!("nodeName in the template pins the pods to node {pinned}"),
        "if the pods should run on other nodes too, remove nodeName from the template",
    );
    Some(finding.with_command(edit(daemon_set)))
}

/// Finds that the node is missing a label of the node selector.
fn node_selector_label_missing(daemon_set: &DaemonSet, node: &Node, check: &LabelCheck) -> Finding {
    let LabelCheck { key, wanted, .. } = check;
    let message = format!("label {key} is missing; nodeSelector requires {key}={wanted}");
    match near_miss::near_key(key, &node.metadata.labels) {
        Some((near, _)) => Finding::new(
            ReasonCode::NodeSelectorLabelMissing,
            format!("{message}; the node has label {near}"),
            "check the nodeSelector for a mistake",
        )
        .with_command(edit(daemon_set))
        .likely_mistake_if(true),
        None => {
            let advice = node_label_advice(key, &format!("set label {key}={wanted} on it"));
            Finding::new(ReasonCode::NodeSelectorLabelMissing, message, advice)
        }
    }
}

/// Finds that the node has another value for a label of the node selector.
fn node_selector_value_mismatch(daemon_set: &DaemonSet, check: &LabelCheck, actual: &str) -> Finding {
    let LabelCheck { key, wanted, .. } = check;
    let message = Sentence::from(format!("label {key} is ")).value(quote_empty(actual));
    let message = message.words(format!("; nodeSelector requires {}", quote_empty(wanted)));
    if near_miss::is_near_value(wanted, actual) {
        return Finding::new(
            ReasonCode::NodeSelectorValueMismatch,
            message.words(" (likely a typo)"),
            "check the nodeSelector for a mistake",
        )
        .with_command(edit(daemon_set))
        .likely_mistake_if(true);
    }
    let advice = node_label_advice(key, &format!("change label {key} to {}", quote_empty(wanted)));
    Finding::new(ReasonCode::NodeSelectorValueMismatch, message, advice)
}

/// Returns the advice for a node that its labels exclude.
///
/// There is no command: exclusion is usually intentional, and a label may steer other workloads too.
fn node_label_advice(key: &str, change: &str) -> String {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if KUBELET_LABELS.contains(&key) {
        return format!(
            "if the node should run these pods, change the template: label {key} is set by the kubelet or the cloud \
             provider"
        );
    }
    if NODE_POOL_DOMAINS.contains(&domain) {
        return format!(
            "if the node should run these pods, change the template: label {key} is set by the node's pool or provider"
        );
    }
    if let Some(discovery) = feature_discovery(domain) {
        return format!(
            "no action needed if the node lacks the device or feature; otherwise check {discovery}, which sets label {key}"
        );
    }
    format!("if the node should run these pods, {change}")
}

/// The labels that the kubelet and the cloud controller manager set, and no others of their domains, which people use, too.
///
/// `kubeletLabels` of k8s.io/kubelet/pkg/apis/well_known_labels.go, release 1.36, and the label of Windows' build.
const KUBELET_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The domains of labels that autoscalers and managed node pools set.
const NODE_POOL_DOMAINS: [&str; 5] =
    ["karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com", "cloud.google.com", "kubernetes.azure.com"];

/// Returns what sets the labels of a domain that tell the devices and features of nodes.
fn feature_discovery(domain: &str) -> Option<&'static str> {
    match domain {
        "nvidia.com" => Some("NVIDIA's GPU feature discovery"),
        "amd.com" => Some("AMD's node labeller"),
        "gpu.intel.com" | "intel.feature.node.kubernetes.io" => Some("Intel's device plugins"),
        "feature.node.kubernetes.io" => Some("node feature discovery"),
        _ => None,
    }
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
    Finding::new(
        ReasonCode::AffinityEmptyTerms,
        "the required node affinity has no term with a requirement, so it matches no node",
        "add a requirement; without the required node affinity, the pods run on every node that the other rules allow",
    )
    .with_command(edit(daemon_set))
    .likely_mistake_if(true)
}

/// Finds a term that cannot match any node.
fn affinity_term_invalid(daemon_set: &DaemonSet, number: usize, error: &str) -> Finding {
    Finding::new(
        ReasonCode::AffinityTermInvalid,
        format!("term {} of the required node affinity never matches: {error}", number + 1),
        "correct the value",
    )
    .with_command(edit(daemon_set))
    .likely_mistake_if(true)
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
        "node affinity requires "
    } else {
        "no term of the required node affinity matches; the closest requires "
    });
    let mut has_near_miss = false;
    for (position, requirement) in failing.iter().enumerate() {
        if position > 0 {
            message = message.words(" and ");
        }
        message = message.words(requirement_text(requirement));
        if let Some(actual) = requirement.actual.as_ref().filter(|_| !requirement.field) {
            message = message.words("; the node has ").value(quote_empty(actual));
            has_near_miss |= requirement.operator == "In"
                && requirement.values.iter().any(|it| near_miss::is_near_value(it, actual));
        } else if let Some((near, _)) = near_miss::near_key(&requirement.key, &node.metadata.labels) {
            message = message.words(format!("; the node has label {near}"));
            has_near_miss = true;
        }
    }
    let finding = |advice: String| Finding::new(ReasonCode::AffinityTermMismatch, message, advice);
    if has_near_miss {
        let finding = finding("check the node affinity for a mistake".to_owned());
        return Some(finding.with_command(edit(daemon_set)).likely_mistake_if(true));
    }
    let advice = match failing.as_slice() {
        [only] => label_change(only).map(|change| node_label_advice(&only.key, &change)),
        _ => None,
    };
    let change = || "if the node should run these pods, change the node affinity or the node's labels".to_owned();
    Some(finding(advice.unwrap_or_else(change)))
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

/// Returns the change to a label that makes a node meet a requirement, if a label alone does it.
fn label_change(requirement: &FailingRequirement) -> Option<String> {
    if requirement.field {
        return None;
    }
    let key = &requirement.key;
    match (requirement.operator.as_str(), requirement.values.first()) {
        ("In", Some(value)) => Some(format!("set label {key}={value} on it")),
        ("Exists", _) => Some(format!("set label {key} on it")),
        ("DoesNotExist", _) => Some(format!("remove label {key} from it")),
        ("NotIn", _) => Some(format!("change label {key}")),
        _ => None,
    }
}

/// Finds what a taint that is not tolerated does.
pub fn untolerated(daemon_set: &DaemonSet, now: Timestamp, node: &Node, outcome: &TaintOutcome) -> Finding {
    let taint = &outcome.taint;
    match (taint.key.as_str(), taint.effect.as_str()) {
        _ if outcome.depends_on_gate => comparison_operator_unknown(taint),
        (key, _) if node_removal::is_by_autoscaler(key) => node_removal::finding(now, node, taint),
        ("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable", "NoSchedule") => {
            node_not_ready_taint(daemon_set, now, node, taint)
        }
        ("node.kubernetes.io/network-unavailable", "NoSchedule") => network_unavailable(daemon_set),
        (_, "NoExecute") => untolerated_no_execute(daemon_set, taint),
        _ => untolerated_no_schedule(daemon_set, taint),
    }
}

/// Finds that an `Lt` or `Gt` toleration would decide, which takes a feature gate.
fn comparison_operator_unknown(taint: &Taint) -> Finding {
    Finding::new(
        ReasonCode::ComparisonOperatorUnknown,
        format!(
            "taint {} is tolerated only by an Lt or Gt toleration, which needs feature gate \
             TaintTolerationComparisonOperators",
            taint_text(taint)
        ),
        "use operator Equal or Exists",
    )
}

/// Finds that a node that is not ready is excluded from the desired number; that is news for a DaemonSet without which
/// the node cannot become ready.
fn node_not_ready_taint(daemon_set: &DaemonSet, now: Timestamp, node: &Node, taint: &Taint) -> Finding {
    let state = node_health::not_ready(now, node).unwrap_or_else(|| Sentence::from("node was not ready"));
    let text = taint_text(taint);
    if taint.key == "node.kubernetes.io/not-ready"
        && let Some(plugin) = NodePlugin::of(daemon_set)
    {
        let message = state.words(format!(
            "; this is {}, but it does not tolerate {text}, so the node may be waiting for it",
            plugin.noun()
        ));
        let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
        return Finding::new(ReasonCode::NotReadyNotTolerated, message, advice)
            .with_command(edit(daemon_set))
            .likely_mistake_if(true);
    }
    let message = state.words(format!("; taint {text} excludes the node from desiredNumberScheduled"));
    Finding::new(ReasonCode::NodeNotReadyTaint, message, node_health::repair(now, node))
        .with_command(describe_node(node))
}

/// Finds that the node's network is not up.
fn network_unavailable(daemon_set: &DaemonSet) -> Finding {
    const MESSAGE: &str = "the node's network is not up (taint node.kubernetes.io/network-unavailable), and the pods do \
                           not use the host network";
    if NodePlugin::of(daemon_set) == Some(NodePlugin::Network) {
        return Finding::new(
            ReasonCode::NetworkUnavailable,
            format!("{MESSAGE}, although this is a network plugin (CNI)"),
            "set hostNetwork: true in the template",
        )
        .with_command(edit(daemon_set))
        .likely_mistake_if(true);
    }
    Finding::new(ReasonCode::NetworkUnavailable, MESSAGE, "check the network plugin on the node")
}

/// Finds a NoExecute taint that evicts pods and excludes the node.
fn untolerated_no_execute(daemon_set: &DaemonSet, taint: &Taint) -> Finding {
    let message = format!("taint {} evicts pods and excludes the node", taint_text(taint));
    with_near_toleration(daemon_set, taint, ReasonCode::UntoleratedNoExecute, message)
}

/// Finds a NoSchedule taint that excludes the node.
fn untolerated_no_schedule(daemon_set: &DaemonSet, taint: &Taint) -> Finding {
    let message = format!("taint {} is not tolerated", taint_text(taint));
    with_near_toleration(daemon_set, taint, ReasonCode::UntoleratedNoSchedule, message)
}

/// Finds an untolerated taint, and the toleration of the template that was likely meant for it.
fn with_near_toleration(daemon_set: &DaemonSet, taint: &Taint, code: ReasonCode, message: String) -> Finding {
    match near_miss::near_toleration(taint, &daemon_set.spec.template.spec.tolerations) {
        Some((_, wrong)) => Finding::new(
            code,
            format!("{message}; a toleration comes close, but has {wrong}"),
            format!("if it was meant for this taint, correct it: {}", toleration_for(taint)),
        )
        .with_command(edit(daemon_set))
        .likely_mistake_if(true),
        None => Finding::new(code, message, taint_advice(taint)),
    }
}

/// Returns what to do about a taint: wait for whoever set it for the time being, or tolerate it.
fn taint_advice(taint: &Taint) -> String {
    match taint.key.as_str() {
        "node.kubernetes.io/out-of-service" => {
            "remove the taint once the node is back in service; do not tolerate it".to_owned()
        }
        "node.cloudprovider.kubernetes.io/uninitialized" => {
            "wait for the cloud controller manager to initialize the node; if it does not, check its pods".to_owned()
        }
        "node.cloudprovider.kubernetes.io/shutdown" => "start the machine, or remove it".to_owned(),
        "karpenter.sh/unregistered" => "wait for the node to register".to_owned(),
        _ => format!("if the node should run these pods, add to the template's tolerations: {}", toleration_for(taint)),
    }
}

/// Writes a taint as kubectl does: `key=value:effect`.
pub fn taint_text(taint: &Taint) -> String {
    let Taint { key, value, effect, .. } = taint;
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

/// Writes the toleration for a taint as YAML.
fn toleration_for(taint: &Taint) -> String {
    let Taint { key, value, effect, .. } = taint;
    let matching = if value.is_empty() { "operator: Exists".to_owned() } else { format!("value: {value:?}") };
    format!("{{key: {key}, {matching}, effect: {effect}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::requirement_text;
    use crate::coverage::test_support::world;
    use crate::report::reason::{Reason, ReasonCode};
    use crate::scheduling::affinity::FailingRequirement;

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
    fn only_a_label_that_people_set_is_to_be_set() {
        let people = "";
        for (key, by) in [
            ("disk", people),
            ("example.com/disk", people),
            ("mykubernetes.io/disk", people),
            ("node-role.kubernetes.io/edge", people),
            ("node-restriction.kubernetes.io/team", people),
            ("example.com.node-restriction.kubernetes.io/team", people),
            ("kubernetes.io/arch", "kubelet"),
            ("topology.kubernetes.io/zone", "kubelet"),
            ("node.kubernetes.io/instance-type", "kubelet"),
            ("ovn.kubernetes.io/bgp", people),
            ("node.kubernetes.io/exclude-from-external-load-balancers", people),
            ("karpenter.sh/nodepool", "pool"),
            ("nvidia.com/gpu.present", "NVIDIA"),
            ("amd.com/gpu.family", "AMD"),
            ("gpu.intel.com/family", "Intel"),
            ("intel.feature.node.kubernetes.io/gpu", "Intel"),
            ("feature.node.kubernetes.io/cpu-model.id", "node feature discovery"),
        ] {
            let advice = &reasons(json!({"nodeSelector": {key: "a"}}), json!({}))[0].fix.advice;
            assert_eq!(advice.contains(&format!("{key}=a")), by == people, "{key}: {advice}");
            assert!(advice.contains(by), "{key}: {advice}");
        }
    }

    #[test]
    fn a_taint_that_passes_or_warns_is_not_to_be_tolerated() {
        for (key, tolerate) in [
            ("dedicated", true),
            ("node.kubernetes.io/out-of-service", false),
            ("node.cloudprovider.kubernetes.io/uninitialized", false),
            ("node.cloudprovider.kubernetes.io/shutdown", false),
            ("ToBeDeletedByClusterAutoscaler", false),
            ("karpenter.sh/disrupted", false),
            ("karpenter.sh/unregistered", false),
        ] {
            let taint = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
            let advice = &reasons(json!({}), taint)[0].fix.advice;
            assert_eq!(advice.contains(&format!("key: {key}")), tolerate, "{key}: {advice}");
        }
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
            let requirement = FailingRequirement { key, operator, values, field: false, actual: None };
            assert_eq!(requirement_text(&requirement), text);
        }
    }
}
