//! What happens to pod after pod of a node, so that the present one only seems to be starting, or well.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::bound_pod::{TO_RECREATE, evicted, kubelet_rejected};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, edit};
use super::sentence::Sentence;
use crate::facts::Facts;
use crate::model::event::Event;
use crate::model::node::{Node, Taint};
use crate::model::pod::{Pod, PodSpec, PodStatus};
use crate::report::reason::ReasonCode;
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::taints::tolerates;

/// How many pods of a node must have failed so that the next one is expected to.
const PODS: i32 = 3;

/// For how many seconds a taint has to be tolerated so that a pod may become available in the meantime.
pub const TOO_SHORT: i64 = 60;

/// Returns for how many seconds a pod tolerates taints, and the taint that ends that; `None` if for ever.
///
/// Ported from `getMinTolerationTime`, pkg/controller/tainteviction/taint_eviction.go, release 1.37.2.
pub fn tolerated_for<'t>(pod: &DaemonPod, taints: &'t [Taint]) -> Option<(i64, &'t Taint)> {
    let no_execute = taints.iter().filter(|taint| taint.effect == "NoExecute");
    let used =
        no_execute.filter_map(|taint| Some((pod.tolerations().iter().find(|one| tolerates(one, taint))?, taint)));
    used.filter_map(|(toleration, taint)| Some((toleration.toleration_seconds?.max(0), taint))).min_by_key(|it| it.0)
}

/// Finds a taint that evicts each pod of the node again, after so many seconds.
pub fn evicted_again(subject: &Subject, node: &Node) -> Option<(Finding, i64)> {
    let (seconds, taint) = tolerated_for(&subject.daemon_pod, &node.spec.taints)?;
    let message = Sentence::from("taint ")
        .value(taint.to_string())
        .words(format!(" is tolerated for {seconds}s only, so the pod is evicted and recreated every {seconds}s"));
    let advice = "remove tolerationSeconds from the toleration, or the toleration if the node should run no pod";
    let finding = Finding::new(ReasonCode::Evicted, message, advice).with_origin(Origin::Unknown);
    Some((finding.with_command(edit(subject.daemon_set)), seconds))
}

/// Returns whether something is known about the former pods of a node that may not be true of other nodes.
pub fn are_told_of(subject: &Subject, node: &Node) -> bool {
    subject.rejections().contains_key(&node.metadata.name)
        || tolerated_for(&subject.daemon_pod, &node.spec.taints).is_some()
}

/// What the kubelets did to former pods of a DaemonSet, as recent events tell, by node.
pub type Rejections = BTreeMap<String, Rejected>;

/// The outcome of the last pods of a node.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// How many have failed.
    pods: i32,
    /// The last that the kubelet said of one of them.
    says: (String, String),
}

/// Collects what the kubelets said of pods that have failed and that the controller has deleted since.
pub fn rejections(facts: &Facts<'_>) -> Rejections {
    let mut found = Rejections::new();
    for (event, pod, node) in failures(facts) {
        let times = times(event);
        if let Some(known) = found.get_mut(node) {
            known.pods = known.pods.saturating_add(times);
            continue;
        }
        let of_pod = facts.index.events_named("Pod", &facts.daemon_set.metadata.namespace, pod);
        if let Some(said) = of_pod.into_iter().find(|event| event.type_ == "Warning") {
            found.insert(node.to_owned(), Rejected { pods: times, says: (said.reason.clone(), said.message.clone()) });
        }
    }
    found
}

/// Returns whether an event stands for what has happened on many nodes after the tenth.
fn is_combined(event: &Event) -> bool {
    event.message.starts_with("(combined from similar events)")
}

/// Returns for how many pods of its node an event stands, at least.
fn times(event: &Event) -> i32 {
    if is_combined(event) { 1 } else { event.times() }
}

/// Returns the events of the controller about pods that have failed, each with the pod and its node, as long as another one may follow.
///
/// `podsShouldBeOnNode`, pkg/controller/daemon/daemon_controller.go, release 1.37.2.
fn failures<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (&'a Event, &'a str, &'a str)> {
    let lasts = |event: &&Event| event.last_seen().is_some_and(|at| facts.seconds_since(at) <= TO_RECREATE);
    let events = facts.events().into_iter().filter(|event| event.reason == "FailedDaemonPod").filter(lasts);
    events.collect::<Vec<_>>().into_iter().filter_map(|event| {
        let (_, rest) = event.message.split_once("Found failed daemon pod ")?;
        let (pod, rest) = rest.split_once(" on node ")?;
        let (_, pod) = pod.split_once('/')?;
        Some((event, pod, rest.split([',', ' ']).next()?))
    })
}

/// Returns since when the pods of a node have failed one after the other, as far as there are events.
pub(crate) fn failed_again_since(facts: &Facts<'_>, node: &str) -> Option<Timestamp> {
    let of_node: Vec<_> = failures(facts).filter(|(.., it)| *it == node).map(|(event, ..)| event).collect();
    let pods = of_node.iter().map(|event| times(event)).fold(0, i32::saturating_add);
    // The first of a combined event may have been on another node.
    let first = |event: &&Event| if is_combined(event) { event.last_seen() } else { event.first_seen() };
    of_node.iter().filter_map(first).min().filter(|_| pods >= PODS)
}

/// Finds that the kubelet of a node has rejected one pod after the other, so that the next one will fare the same.
pub fn rejected_again(subject: &Subject, node: &Node) -> Option<Finding> {
    let name = &node.metadata.name;
    let Rejected { pods, says: (reason, message) } = subject.rejections().get(name).filter(|it| it.pods >= PODS)?;
    let spec = PodSpec { node_name: name.clone(), ..PodSpec::default() };
    let status = PodStatus {
        phase: "Failed".to_owned(),
        reason: reason.clone(),
        message: message.clone(),
        ..PodStatus::default()
    };
    let pod = Pod { spec, status, ..Pod::default() };
    let alike = Sentence::from("; the last ").number((*pods).into()).words(" pods on the node have failed so");
    Some(evicted(&pod).or_else(|| kubelet_rejected(&pod))?.and(alike))
}
