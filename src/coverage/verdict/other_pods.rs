//! Whether other pods keep a pod from a node: the scheduler's filters PodTopologySpread and InterPodAffinity.

use super::daemon_set_context::Subject;
use super::finding::{Finding, describe_node, describe_pod, edit};
use super::fit::{beside_old_pod, nominated};
use super::label_setter::label_setter;
use super::scheduler_report::without_nodes;
use super::sentence::Sentence;
use super::workload::workload;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::int_or_percent::int;
use crate::model::node::{HOSTNAME, Node};
use crate::model::pod::{Pod, PodSpec};
use crate::model::selector::LabelSelector;
use crate::report::reason::ReasonCode;
use crate::scheduling::neighborhood::Outcome;
use crate::scheduling::pod_affinity::{AffinityRejection, InterPodAffinity};
use crate::scheduling::topology_spread::{PodTopologySpread, SpreadRejection};

/// Why one of the filters rejects a node.
#[derive(Debug, PartialEq)]
pub enum Rejection<'a> {
    /// The pods would be spread too unevenly.
    Spread(SpreadRejection),
    /// A pod is missing, or in the way.
    Affinity(AffinityRejection<'a>),
}

/// Applies both filters, in the scheduler's order.
pub fn filter<'a>(
    index: &Index<'a>,
    spread: &PodTopologySpread<'a>,
    affinity: &InterPodAffinity<'a>,
    node: &Node,
    pod: &Pod,
) -> Outcome<Rejection<'a>> {
    let nominated: Vec<&Pod> = nominated(index, &node.metadata.name, pod).collect();
    match (spread.on(node, &nominated, index), affinity.on(node, &nominated, index)) {
        (Outcome::Rejects(rejection), _) => Outcome::Rejects(Rejection::Spread(rejection)),
        (_, Outcome::Rejects(rejection)) => Outcome::Rejects(Rejection::Affinity(rejection)),
        (Outcome::Passes, Outcome::Passes) => Outcome::Passes,
        (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
    }
}

/// Applies both filters to a pod that is meant for a node.
pub fn of_pending<'a>(subject: &Subject<'_, 'a>, node: &Node, pod: &Pod) -> Outcome<Rejection<'a>> {
    match of_pods_read(subject, node, pod) {
        // Pods of nodes that were not requested may exclude it from the whole zone.
        Outcome::Passes if subject.index.snapshot.nodes_limited => Outcome::Unknown,
        outcome => outcome,
    }
}

/// Returns whether a reason of the scheduler is about rules of the pod itself that let it run on the node by now.
pub fn is_over(subject: &Subject, node: &Node, pod: &Pod, reason: &str) -> bool {
    !reason.contains("existing pods") && of_pods_read(subject, node, pod) == Outcome::Passes
}

fn of_pods_read<'a>(subject: &Subject<'_, 'a>, node: &Node, pod: &Pod) -> Outcome<Rejection<'a>> {
    if !subject.nodes_known {
        return Outcome::Unknown;
    }
    let spread = PodTopologySpread::new(pod, subject.index, |_| false);
    filter(subject.index, &spread, &subject.pod_affinity(pod), node, pod)
}

/// Returns whether a pod has rules about other pods.
pub fn has_rules(spec: &PodSpec) -> bool {
    !spec.required_pod_affinity().is_empty()
        || !spec.required_pod_anti_affinity().is_empty()
        || !spec.topology_spread_constraints.is_empty()
}

/// Finds what keeps a pod that is meant for a node from it.
pub fn finding(subject: &Subject, node: &Node, pod: &Pod, rejection: &Rejection) -> Finding {
    if let Rejection::Affinity(AffinityRejection::Excludes(_, other) | AffinityRejection::IsExcluded(_, other)) =
        rejection
        && subject.old_pods_on(&node.metadata.name, pod).any(|old| old.metadata.uid == other.metadata.uid)
    {
        let message = Sentence::from(format!("the node {}", without_nodes(rejection.reason())));
        let why = "exclude each other by their anti-affinity";
        return beside_old_pod(ReasonCode::PodAffinityBlocked, message, other, why);
    }
    rejection.finding(subject.daemon_set, node)
}

impl Rejection<'_> {
    /// Returns the words of the scheduler.
    fn reason(&self) -> &'static str {
        match self {
            Rejection::Spread(rejection) => rejection.reason(),
            Rejection::Affinity(rejection) => rejection.reason(),
        }
    }

    /// Finds that a node is rejected, and by what.
    pub fn finding(&self, daemon_set: &DaemonSet, node: &Node) -> Finding {
        let message = Sentence::from(format!("the node {}", without_nodes(self.reason())));
        let code = ReasonCode::PodAffinityBlocked;
        let with_edit =
            |message: Sentence, advice: &str| Finding::new(code, message, advice).with_command(edit(daemon_set));
        match self {
            Rejection::Spread(SpreadRejection::NoDomain(constraint)) => {
                no_domain(message, &constraint.topology_key, node)
            }
            Rejection::Affinity(AffinityRejection::NoDomain(term)) => no_domain(message, &term.topology_key, node),
            Rejection::Spread(SpreadRejection::Skew { constraint, value, pods, fewest }) => {
                let message = message
                    .words(format!("; {}=", constraint.topology_key))
                    .value(value)
                    .words(" has ")
                    .number(int(*pods))
                    .words(if *pods == 1 { " matching pod" } else { " matching pods" })
                    .words(", and the domain with the fewest has ")
                    .number(int(*fewest))
                    .words(format!("; maxSkew: {}", constraint.max_skew));
                with_edit(
                    message,
                    "check which pods the constraint counts; relax it only if the pod may run without it",
                )
            }
            Rejection::Affinity(AffinityRejection::NoneInDomain(term)) => {
                let selector = term.label_selector.as_ref().map(LabelSelector::to_string).unwrap_or_default();
                let message =
                    message.words(format!("; no pod with {selector} runs ")).then(place(&term.topology_key, node));
                with_edit(message, "run such a pod there, or relax the rule, if the pod may run without it")
            }
            Rejection::Affinity(AffinityRejection::Excludes(term, other)) => {
                let message = message
                    .words("; it excludes ")
                    .name(other.metadata.full_name(), workload(other))
                    .words(", which runs ")
                    .then(place(&term.topology_key, node));
                with_edit(message, "check which pods the rule selects; relax it only if the pod may run without it")
            }
            Rejection::Affinity(AffinityRejection::IsExcluded(term, other)) => {
                let message = message
                    .words("; excluded by ")
                    .name(other.metadata.full_name(), workload(other))
                    .words(", which runs ")
                    .then(place(&term.topology_key, node));
                let advice =
                    Sentence::from("change the anti-affinity of ").name(other.metadata.full_name(), workload(other));
                Finding::new(code, message, advice).with_command(describe_pod(other))
            }
        }
    }
}

/// Returns where the pods of a domain of a node run.
fn place(topology_key: &str, node: &Node) -> Sentence {
    let value = node.metadata.labels.get(topology_key).cloned().unwrap_or_default();
    match topology_key {
        HOSTNAME => "on the node".into(),
        _ => Sentence::from(format!("in the same {topology_key} (")).value(value).words(")"),
    }
}

/// Finds that a node does not have the label by which a rule goes.
fn no_domain(message: Sentence, missing: &str, node: &Node) -> Finding {
    let message = message.words(format!("; it has no label {missing}"));
    let by = label_setter(missing).map(|by| format!(", which {by} sets")).unwrap_or_default();
    let advice = format!(
        "set label {missing} on the node{by}, or remove from the template the constraint with this topologyKey, if the pods may run \
         without it"
    );
    Finding::new(ReasonCode::PodAffinityBlocked, message, advice).with_command(describe_node(node))
}

/// Finds that other pods exclude a node, by the scheduler's reason: which ones is not known.
pub fn reported(subject: &Subject, reason: &str) -> Finding {
    let message = format!("the node {}", without_nodes(reason));
    if reason.contains("existing pods") {
        let advice = "change the anti-affinity of the pods that are on the node";
        return Finding::new(ReasonCode::PodAffinityBlocked, message, advice);
    }
    let advice = "check which pods the rule selects; relax it only if the pod may run without it";
    Finding::new(ReasonCode::PodAffinityBlocked, message, advice).with_command(edit(subject.daemon_set))
}
