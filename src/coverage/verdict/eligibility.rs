//! The rules of eligibility on a node: what each was checked with, why it excludes the node, and what almost matches.

use super::admission;
use super::checks::{failed, nothing, passed};
use super::finding::{Finding, describe_node, edit};
use super::near_miss;
use super::node_health;
use super::node_plugin::{NodePlugin, with_network_plugin};
use super::node_removal;
use super::sentence::Sentence;
use crate::coverage::startup_taints::{Startup, startup};
use crate::facts::index::Index;
use crate::facts::node_removal::is_by_autoscaler;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::pod::{NodeSelectorTerm, Toleration};
use crate::model::startup_taint::{UNINITIALIZED, initializes_nodes};
use crate::report::coverage::Check;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;
use crate::scheduling::affinity::{AffinityOutcome, FailingRequirement, TermOutcome};
use crate::scheduling::should_run::{Eligibility, LabelCheck};
use crate::scheduling::taints::{TaintOutcome, tolerates};

/// What a rule comes to on a node.
pub struct Told {
    /// The values that were compared.
    pub check: Check,
    /// Why the rule excludes the node; `None` if it does not, or if another outcome tells it.
    pub finding: Option<Finding>,
    /// What almost matches, so that it is likely a mistake.
    pub near_misses: Vec<String>,
}

impl Told {
    fn of(check: Check) -> Self {
        Told { check, finding: None, near_misses: Vec::new() }
    }

    fn failed(rule: &str, detail: String, finding: Finding) -> Self {
        Told { finding: Some(finding.clone()), ..Told::of(failed(rule, detail, Some(finding.code))) }
    }

    fn near(mut self, near_misses: impl IntoIterator<Item = String>) -> Self {
        self.near_misses.extend(near_misses);
        self
    }
}

/// Tells every rule of the controller, in its order.
pub fn told(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> Vec<Told> {
    let mut told = vec![node_name(daemon_set, node, eligibility)];
    if eligibility.node_selector.is_empty() {
        told.push(Told::of(nothing("nodeSelector")));
    }
    let is_all = lacks_one_label(eligibility);
    told.extend(eligibility.node_selector.iter().map(|outcome| label(daemon_set, node, outcome, is_all)));
    told.extend(affinity(daemon_set, node, &eligibility.affinity));
    told.extend(eligibility.taints.iter().map(|outcome| taint(index, daemon_set, node, outcome)));
    let preferences = node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    told.extend(preferences.map(|taint| Told::of(passed("taint", format!("{taint} is only a preference")))));
    if !told.iter().any(|told| told.check.rule == "taint") {
        told.push(Told::of(nothing("taint")));
    }
    if node.spec.unschedulable {
        told.push(Told::of(passed("cordon", "the node is cordoned, which DaemonSets ignore")));
    }
    told
}

/// Finds every rule that excludes a node, permanent ones before those that pass by themselves.
pub fn findings(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> Vec<Finding> {
    let told = told(index, daemon_set, node, eligibility);
    let mut findings: Vec<Finding> = told.into_iter().filter_map(|told| told.finding).collect();
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
fn node_name(daemon_set: &DaemonSet, node: &Node, eligibility: &Eligibility) -> Told {
    match &eligibility.pinned_to {
        None => Told::of(nothing("nodeName")),
        Some(pinned) if *pinned == node.metadata.name => Told::of(passed("nodeName", format!("{pinned}: this node"))),
        Some(pinned) => {
            let finding = Finding::new(
                ReasonCode::NodeNameMismatch,
                format!("nodeName in the template pins the pods to node {pinned}"),
                "if the pods should run on other nodes too, remove nodeName from the template",
            );
            Told::failed("nodeName", format!("{pinned}: another node"), finding.with_command(edit(daemon_set)))
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

/// Tells whether the node has a label of the node selector; `is_all` says that nothing else excludes it.
fn label(daemon_set: &DaemonSet, node: &Node, outcome: &LabelCheck, is_all: bool) -> Told {
    const RULE: &str = "nodeSelector";
    const MISTAKE: &str = "check the nodeSelector for a mistake";
    let LabelCheck { key, wanted, actual, matches } = outcome;
    if *matches {
        return Told::of(passed(RULE, format!("{key}={wanted} matches")));
    }
    let requires = format!("nodeSelector requires {key}={wanted}");
    let Some(actual) = actual else {
        let code = ReasonCode::NodeSelectorLabelMissing;
        let message = format!("label {key} is missing; {requires}");
        let near = near_miss::near_key(key, &node.metadata.labels);
        let finding = match near {
            Some((near, _)) => {
                Finding::mistake(daemon_set, code, format!("{message}; the node has label {near}"), MISTAKE)
            }
            None => {
                let advice = node_label_advice(key, &format!("set label {key}={wanted} on it"));
                try_label(Finding::new(code, message, advice), node, key, wanted, is_all)
            }
        };
        let near = near.map(|(near, value)| format!("{requires}; the node has {near}={value}"));
        return Told::failed(RULE, format!("{key}={wanted}: label missing"), finding).near(near);
    };
    let code = ReasonCode::NodeSelectorValueMismatch;
    let message = Sentence::from(format!("label {key} is ")).value(quote_empty(actual));
    let message = message.words(format!("; nodeSelector requires {}", quote_empty(wanted)));
    let is_near = near_miss::is_near_value(wanted, actual);
    let finding = if is_near {
        Finding::mistake(daemon_set, code, message.words(" (likely a typo)"), MISTAKE)
    } else {
        let change = format!("change label {key} to {}", quote_empty(wanted));
        if key.starts_with("nvidia.com/") && OPERATOR_STATES.iter().any(|state| actual.starts_with(state)) {
            let advice =
                "wait for the operator that has set this value while it works on the node, or see what keeps it";
            let told = format!("{key}={wanted}: the node has {key}={actual}");
            return Told::failed(RULE, told, Finding::new(code, message, advice).with_command(describe_node(node)));
        }
        try_label(Finding::new(code, message, node_label_advice(key, &change)), node, key, wanted, is_all)
    };
    let near = is_near.then(|| format!("{requires}; the node has {key}={actual}"));
    Told::failed(RULE, format!("{key}={wanted}: the node has {key}={actual}"), finding).near(near)
}

/// Adds to the advice to change a label how to see what else that would change: the label may steer other DaemonSets, too.
fn try_label(mut finding: Finding, node: &Node, key: &str, wanted: &str, is_all: bool) -> Finding {
    let is_to_be_changed =
        is_all && [SET_LABEL, CHANGE_LABEL].iter().any(|start| finding.advice.to_string().starts_with(start));
    if !is_to_be_changed {
        return finding;
    }
    finding.advice = finding.advice.words("; to see first what else that changes");
    let command = Command::kubectl(&["ds", "preview"]).flag("--if", format!("label {key}={wanted}"));
    finding.with_command(command.flag("--node", &node.metadata.name))
}

/// How the values begin that operators give labels while they work on a node, such as `paused-for-driver-upgrade` of NVIDIA's GPU operator.
const OPERATOR_STATES: [&str; 2] = ["paused-for-", "upgrade-"];

/// How the advice to change a label begins.
const SET_LABEL: &str = "if the node should run these pods, set label ";
const CHANGE_LABEL: &str = "if the node should run these pods, change label ";

/// Returns the advice for a node that its labels exclude.
///
/// There is no command that changes it: exclusion is usually intentional, and a label may steer other workloads too.
fn node_label_advice(key: &str, change: &str) -> String {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if let Some(setter) = label_setter(key) {
        return format!("if the node should run these pods, change the template: label {key} is set by {setter}");
    }
    if key.starts_with("nvidia.com/gpu.deploy.") {
        return format!("if the node should run these pods, check the GPU operator, which sets label {key}");
    }
    if let Some(discovery) = feature_discovery(domain) {
        return format!(
            "no action needed if the node lacks the device or feature; otherwise check {discovery}, which sets label {key}"
        );
    }
    if is_csi_topology(domain) {
        return format!(
            "if the node should run these pods, check the CSI driver's pod on the node: the driver sets label {key}"
        );
    }
    format!("if the node should run these pods, {change}")
}

/// Returns what sets a label of nodes, if that belongs to the cluster or its provider.
pub fn label_setter(key: &str) -> Option<&'static str> {
    if KUBELET_LABELS.contains(&key) {
        return Some("the kubelet or the cloud provider");
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    NODE_POOL_DOMAINS.contains(&domain).then_some("the node's pool or provider")
}

/// The labels that the kubelet and the cloud controller manager set, and no others of their domains, which people use, too.
///
/// `kubeletLabels` of k8s.io/kubelet/pkg/apis/well_known_labels.go, release 1.37, and the label of Windows' build.
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

/// Returns whether the labels of a domain tell where a CSI driver can provide volumes: the kubelet sets those that the driver
/// answers it with.
fn is_csi_topology(domain: &str) -> bool {
    let others = ["topology.gke.io", "topology.topolvm.io", "csi.hetzner.cloud"];
    let is_by_convention = || {
        let mut parts = domain.split('.');
        parts.next() == Some("topology") && parts.any(|part| part == "csi")
    };
    others.contains(&domain) || is_by_convention()
}

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

/// Tells whether a term of the required node affinity matches, or why each does not. The closest one stands for all that
/// do not match.
fn affinity(daemon_set: &DaemonSet, node: &Node, outcome: &AffinityOutcome) -> Vec<Told> {
    const RULE: &str = "node affinity";
    let terms = match outcome {
        AffinityOutcome::NotSet => return vec![Told::of(nothing(RULE))],
        AffinityOutcome::Matches { term } => {
            let selector = daemon_set.spec.template.spec.required_node_affinity();
            let text = selector.and_then(|selector| selector.node_selector_terms.get(*term)).map(term_text);
            let detail = format!("term {} matches: {}", term + 1, text.unwrap_or_default());
            return vec![Told::of(passed(RULE, detail))];
        }
        AffinityOutcome::NoTerms => {
            let detail = "no terms, which matches no node".to_owned();
            return vec![Told::failed(RULE, detail, affinity_empty_terms(daemon_set))];
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
            TermOutcome::Empty => Told {
                finding: (all_are_empty && at == 0).then(|| affinity_empty_terms(daemon_set)),
                ..Told::of(failed(
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
                Told::failed(RULE, format!("term {number} {never}"), finding)
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
                let only = only
                    .map(|only| format!("term {number} of the node affinity fails only on {}", requirement_text(only)));
                let keys = failing.iter().zip(&near).filter_map(|(requirement, near)| {
                    let ((near, value), text) = ((*near)?, requirement_text(requirement));
                    Some(format!("node affinity requires {text}; the node has {near}={value}"))
                });
                let finding =
                    (closest == Some(at)).then(|| affinity_term_mismatch(daemon_set, terms.len() == 1, failing, &near));
                let check = failed(RULE, detail, Some(ReasonCode::AffinityTermMismatch));
                Told { finding, ..Told::of(check).near(only).near(keys) }
            }
        }
    };
    terms.iter().enumerate().map(tell).collect()
}

/// Returns the label of the node that was likely meant by a requirement whose label it does not have, and its value.
fn near_label<'n>(node: &'n Node, requirement: &FailingRequirement) -> Option<(&'n str, &'n str)> {
    let is_missing = requirement.actual.is_none() && !requirement.field;
    is_missing.then(|| near_miss::near_key(&requirement.key, &node.metadata.labels)).flatten()
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
        message = message.words(requirement_text(requirement));
        if let Some(actual) = requirement.actual.as_ref().filter(|_| !requirement.field) {
            message = message.words("; the node has ").value(quote_empty(actual));
            has_near_miss |= requirement.operator == "In"
                && requirement.values.iter().any(|it| near_miss::is_near_value(it, actual));
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
        [only] => label_change(only).map(|change| node_label_advice(&only.key, &change)),
        _ => None,
    };
    let change = || "if the node should run these pods, change the node affinity or the node's labels".to_owned();
    Finding::new(code, message, advice.unwrap_or_else(change))
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
    let written = requirements.map(|requirement| requirement_text(&FailingRequirement::new(requirement, false, None)));
    written.collect::<Vec<_>>().join(" and ")
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

/// Tells whether a taint is tolerated.
fn taint(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, outcome: &TaintOutcome) -> Told {
    let text = &outcome.taint;
    if let Some(by) = &outcome.tolerated_by {
        let who = match by.automatic {
            true => "tolerated (added by the controller)".to_owned(),
            false => format!("tolerated by {}", toleration_text(&by.toleration)),
        };
        return Told::of(passed("taint", format!("{text} {who}")));
    }
    let near = near_miss::near_toleration(&outcome.taint, &daemon_set.spec.template.spec.tolerations);
    let finding = untolerated(index, daemon_set, node, outcome, near.as_ref().map(|(_, wrong)| wrong.as_str()));
    let near = near.map(|(toleration, wrong)| format!("toleration {} has {wrong}", toleration_text(toleration)));
    Told::failed("taint", format!("{text} is not tolerated"), finding).near(near)
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

/// Finds what a taint that is not tolerated does; `near` is what is wrong with the toleration that was likely meant.
fn untolerated(
    index: &Index<'_>,
    daemon_set: &DaemonSet,
    node: &Node,
    outcome: &TaintOutcome,
    near: Option<&str>,
) -> Finding {
    let taint = &outcome.taint;
    match (taint.key.as_str(), taint.effect.as_str()) {
        _ if outcome.depends_on_gate => comparison_operator_unknown(taint),
        (key, _) if is_by_autoscaler(key) => node_removal::finding(index, node, taint),
        ("node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable", "NoSchedule") => {
            node_not_ready_taint(index, daemon_set, node, taint)
        }
        ("node.kubernetes.io/network-unavailable", "NoSchedule") => network_unavailable(index, daemon_set, node),
        (UNINITIALIZED, _) if near.is_none() && initializes_nodes(daemon_set) => {
            let message = format!(
                "taint {taint} is not tolerated by the cloud controller manager, which removes it: it waits for itself"
            );
            let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
            Finding::mistake(daemon_set, ReasonCode::UntoleratedNoSchedule, message, advice)
        }
        (_, effect) => {
            let (code, does) = match effect {
                "NoExecute" => (ReasonCode::UntoleratedNoExecute, "evicts pods and excludes the node"),
                _ => (ReasonCode::UntoleratedNoSchedule, "is not tolerated"),
            };
            let message = format!("taint {taint} {does}");
            let class = admission::runtime_class(index.snapshot, &daemon_set.spec.template.spec).filter(|class| {
                let scheduling = class.scheduling.as_ref();
                scheduling.is_some_and(|it| it.tolerations.iter().any(|toleration| tolerates(toleration, taint)))
            });
            if let Some(class) = class {
                let name = &class.metadata.name;
                let message =
                    format!("{message}; runtimeclass {name} does, which admission adds only to pods that are created");
                let advice = format!("add to the template's tolerations, too: {}", toleration_for(taint));
                return Finding::mistake(daemon_set, code, message, advice);
            }
            let Some(wrong) = near else {
                let of_startup =
                    startup(index, node, taint).map(|startup| of_startup(daemon_set, node, taint, code, startup));
                return of_startup.unwrap_or_else(|| Finding::new(code, message, taint_advice(taint)));
            };
            let message = format!("{message}; a toleration comes close, but has {wrong}");
            let advice = format!("if it was meant for this taint, correct it: {}", toleration_for(taint));
            Finding::mistake(daemon_set, code, message, advice)
        }
    }
}

/// Finds what becomes of a taint that a DaemonSet removes once it runs: to tolerate it elsewhere leaves the node closed to all other
/// pods.
fn of_startup(daemon_set: &DaemonSet, node: &Node, taint: &Taint, code: ReasonCode, startup: Startup<'_>) -> Finding {
    let is_same = |remover: &DaemonSet| remover.metadata.full_name() == daemon_set.metadata.full_name();
    let begin = |remover: &DaemonSet| {
        format!("taint {taint} is not tolerated; DaemonSet {} removes it", remover.metadata.full_name())
    };
    let on_node = |remover: &DaemonSet| {
        let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&remover.metadata.namespace);
        coverage.flag("--node", &node.metadata.name).name(&remover.metadata.name)
    };
    match startup {
        Startup::Unread(remover) => {
            let message = format!("{} when it starts there", begin(remover));
            let advice = "see whether its pod is ready there: if so, the taint was put back since, and restarting that pod or \
                          removing the taint helps: it keeps all other pods off the node";
            Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(on_node(remover)) }
        }
        Startup::PutBack { remover, pod, ready_for } => {
            let message = Sentence::from(begin(remover)).words(" when it starts, and its pod ");
            let message = message.name(&pod.metadata.name, "there").words(" has been ready for ").age(ready_for);
            let message = message.words(": the taint was put back since");
            let advice = "restart the pod of that DaemonSet on the node, or remove the taint: it keeps all other pods \
                          off the node";
            Finding { likely_mistake: true, ..Finding::new(code, message, advice) }
        }
        Startup::Starting(remover) => {
            let message = format!("{} once it is ready on the node", begin(remover));
            let advice = "wait; if it takes long, see why it is not ready there";
            Finding::new(code, message, advice).with_command(on_node(remover))
        }
        Startup::Kept { remover, .. } if is_same(remover) => {
            let message = format!("taint {taint} is not tolerated by this DaemonSet, which removes it once it runs");
            let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
            Finding::mistake(daemon_set, code, message, advice)
        }
        Startup::Kept { remover, by, circle } => {
            let taints: Vec<String> = by.iter().map(ToString::to_string).collect();
            let message = match taints.as_slice() {
                [] => format!("{} once it runs, and it does not match the node", begin(remover)),
                taints => format!("{} once it runs, and it does not tolerate {}", begin(remover), taints.join(" and ")),
            };
            let mut advice = match by.as_slice() {
                [] => format!("check the nodeSelector and affinity of DaemonSet {}", remover.metadata.full_name()),
                taints => format!(
                    "add to the tolerations of DaemonSet {}: {}",
                    remover.metadata.full_name(),
                    taints.iter().map(toleration_for).collect::<Vec<_>>().join(", ")
                ),
            };
            let mut message = Sentence::from(message);
            if let [_, .., (last, _)] = circle.as_slice() {
                let names: Vec<String> = circle.iter().map(|(waiting, _)| waiting.metadata.full_name()).collect();
                message = message.words(format!("; {} wait for each other", names.join(" and ")));
                let toleration = toleration_for(taint);
                advice = format!(
                    "{advice}; or to those of {}: {toleration}; either ends the circle",
                    last.metadata.full_name()
                );
            }
            Finding { likely_mistake: true, ..Finding::new(code, message, advice).with_command(edit(remover)) }
        }
    }
}

/// Finds that an `Lt` or `Gt` toleration would decide, which takes a feature gate.
fn comparison_operator_unknown(taint: &Taint) -> Finding {
    Finding::new(
        ReasonCode::ComparisonOperatorUnknown,
        format!(
            "taint {taint} is tolerated only by an Lt or Gt toleration, which needs feature gate \
             TaintTolerationComparisonOperators"
        ),
        "use operator Equal or Exists",
    )
}

/// Finds that a node that is not ready is excluded from the desired number; that is news for a DaemonSet without which
/// the node cannot become ready.
fn node_not_ready_taint(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node, taint: &Taint) -> Finding {
    let now = index.now();
    let state = node_health::not_ready(now, node).unwrap_or_else(|| Sentence::from("node was not ready"));
    if taint.key == "node.kubernetes.io/not-ready"
        && let Some(plugin) = NodePlugin::of(daemon_set)
    {
        let message = state.words(format!(
            "; this is {}, but it does not tolerate {taint}, so the node may be waiting for it",
            plugin.noun()
        ));
        let advice = format!("add to the template's tolerations: {}", toleration_for(taint));
        return Finding::mistake(daemon_set, ReasonCode::NotReadyNotTolerated, message, advice);
    }
    let message = state.words(format!("; taint {taint} excludes the node from desiredNumberScheduled"));
    Finding::new(ReasonCode::NodeNotReadyTaint, message, node_health::repair(now, node))
        .with_command(describe_node(node))
}

/// Finds that the node's network is not up.
fn network_unavailable(index: &Index<'_>, daemon_set: &DaemonSet, node: &Node) -> Finding {
    const MESSAGE: &str = "the node's network is not up (taint node.kubernetes.io/network-unavailable), and the pods do \
                           not use the host network";
    if NodePlugin::of(daemon_set) == Some(NodePlugin::Network) {
        let message = format!("{MESSAGE}, although this is a network plugin (CNI)");
        let advice = "set hostNetwork: true in the template";
        return Finding::mistake(daemon_set, ReasonCode::NetworkUnavailable, message, advice);
    }
    const PLUGIN: &str = "check the network plugin on the node";
    let condition = node.condition("NetworkUnavailable").filter(|condition| !condition.reason.is_empty());
    let Some(condition) = condition else {
        let finding = Finding::new(ReasonCode::NetworkUnavailable, MESSAGE, PLUGIN);
        return with_network_plugin(index, daemon_set, Some(node), finding);
    };
    let mut message = Sentence::from(MESSAGE).words(format!("; condition NetworkUnavailable={}: ", condition.status));
    message = message.value(format!("{} ({})", condition.reason, condition.message));
    let finding = |message, advice: &str| {
        Finding::new(ReasonCode::NetworkUnavailable, message, advice.to_owned()).with_command(describe_node(node))
    };
    if condition.status != "True" {
        return finding(message, "check kube-controller-manager: it removes the taint of a node with such a condition");
    }
    if condition.reason != "NoRouteCreated" {
        return with_network_plugin(index, daemon_set, Some(node), finding(message, PLUGIN));
    }
    // `reconcile`, controllers/route/route_controller.go of k8s.io/cloud-provider, release 1.37.2; older ones put the name for the UID.
    let mut about = node.metadata.clone();
    about.uid.clear();
    if let Some(event) = index.events_about("Node", &about).iter().find(|event| event.reason == "FailedToCreateRoute") {
        message = message.words("; ").event(event, index.now());
    }
    let advice = "check the route controller of the cloud provider (cloud-controller-manager), and its log: it makes the route to the pods of \
                  the node; if the network plugin needs no such routes, run it with --configure-cloud-routes=false";
    finding(message, advice)
}

/// Returns what to do about a taint: wait for whoever set it for the time being, or tolerate it.
fn taint_advice(taint: &Taint) -> String {
    match taint.key.as_str() {
        "node.kubernetes.io/out-of-service" => {
            "remove the taint once the node is back in service; do not tolerate it".to_owned()
        }
        UNINITIALIZED => {
            "wait for the cloud controller manager to initialize the node; if it does not, check its pods".to_owned()
        }
        "node.cloudprovider.kubernetes.io/shutdown" => "start the machine, or remove it".to_owned(),
        "karpenter.sh/unregistered" => "wait for the node to register".to_owned(),
        "node.cluster.x-k8s.io/uninitialized" => {
            "wait for Cluster API to initialize the node; if it does not, check its controllers in the management cluster".to_owned()
        }
        key if key.starts_with("startup-taint.cluster-autoscaler.kubernetes.io/") => {
            "wait for what the node starts with to remove the taint; if it stays, see why that is not ready there".to_owned()
        }
        _ => format!("if the node should run these pods, add to the template's tolerations: {}", toleration_for(taint)),
    }
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
            ("topology.ebs.csi.aws.com/zone", "the driver sets"),
            ("topology.gke.io/zone", "the driver sets"),
            ("topology.hostpath.csi/node", "the driver sets"),
            ("topology.example.com/zone", people),
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

    /// The controller has no pod yet to which admission could add it.
    #[test]
    fn a_toleration_that_only_the_runtime_class_has_is_to_be_in_the_template() {
        let exists = || json!({"key": "kata", "operator": "Exists", "effect": "NoSchedule"});
        for (class, tolerations, effect, is_told) in [
            ("kata", json!([exists()]), "NoSchedule", true),
            ("kata", json!([{"operator": "Exists"}]), "NoSchedule", true),
            ("kata", json!([{"key": "kata", "operator": "Exists"}]), "NoExecute", true),
            ("kata", json!([{"key": "kata", "value": "true"}]), "NoSchedule", true),
            ("kata", json!([{"key": "kata", "value": "no"}]), "NoSchedule", false),
            ("kata", json!([exists()]), "NoExecute", false),
            ("gvisor", json!([exists()]), "NoSchedule", false),
            ("kata", json!([]), "NoSchedule", false),
        ] {
            let node = json!({"spec": {"taints": [{"key": "kata", "value": "true", "effect": effect}]}});
            let mut world = world().template(json!({"runtimeClassName": class})).node("n", node);
            let kata = json!({"metadata": {"name": "kata"}, "scheduling": {"tolerations": tolerations}});
            world.snapshot.runtime_classes.push(serde_json::from_value(kata).unwrap());
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.message.contains("runtimeclass kata does"), is_told, "{}", reason.message);
            assert!(reason.fix.advice.contains("{key: kata"), "{}", reason.fix.advice);
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
