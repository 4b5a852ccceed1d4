//! Eligible, and no pod object: why none was made.

use jiff::Timestamp;

use super::daemon_set_context::Subject;
use super::daemon_set_findings;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::model::node::Node;
use crate::model::snapshot::Kind;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// For how many seconds after a change a missing pod is taken to be on its way.
const SETTLING: i64 = 300;

/// Finds why an eligible node has no pod.
pub fn findings(subject: &Subject, node: &Node) -> Vec<Finding> {
    let mut findings = subject.concerns.clone();
    if findings.iter().any(|finding| matches!(finding.code, ReasonCode::DaemonSetDeleting | ReasonCode::SelectingAll)) {
        return findings;
    }
    findings.extend_from_slice(&subject.creations().refusals);
    if findings.is_empty() {
        findings.extend(daemon_set_findings::controller_seems_down(subject.index.snapshot));
    }
    if findings.is_empty() {
        findings.push(create_pending(subject, node).unwrap_or_else(|| unexplained(subject)));
    }
    findings
}

/// Finds why pods are missing where the nodes are not known.
pub fn findings_of_unknown_nodes(subject: &Subject) -> Vec<Finding> {
    let nowhere = Node::default();
    findings(subject, &nowhere)
}

/// Tells whether a node is so young that its missing pod may just not have been made yet.
pub fn is_young(node: &Node, now: Timestamp) -> bool {
    node.metadata.creation_timestamp.get().is_some_and(|at| seconds_between(at, now) < SETTLING)
}

/// Finds that the pod is likely still to be made, because something changed a short while ago.
fn create_pending(subject: &Subject, node: &Node) -> Option<Finding> {
    let now = subject.index.now();
    let recent = |at: Option<Timestamp>| at.filter(|at| seconds_between(*at, now) < SETTLING);
    let age = |at: Timestamp| seconds_between(at, now);
    let (metadata, made) = (&subject.daemon_set.metadata, subject.creations().made);
    let message = if let Some(at) = recent(metadata.creation_timestamp.get()) {
        Sentence::from("the pod is still to be made: the DaemonSet is ").age(age(at)).words(" old")
    } else if let Some(at) = recent(node.metadata.creation_timestamp.get()) {
        Sentence::from("the pod is still to be made: the node is ").age(age(at)).words(" old")
    } else if let Some(at) = recent(made) {
        Sentence::from("the pod is still to be made: the controller made others ").age(age(at)).words(" ago")
    } else {
        return None;
    };
    Some(Finding::new(ReasonCode::CreatePending, message, "wait: the controller makes at most 250 pods at a time"))
}

/// Says that nothing was read that would explain why there is no pod.
fn unexplained(subject: &Subject) -> Finding {
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    if subject.index.knows(Kind::Events, namespace) {
        return Finding::new(
            ReasonCode::Unexplained,
            "no pod was made, and no event says why (events are kept for an hour, and a namespace that is being \
             deleted has none)",
            format!(
                "look at the namespace and the controller: kubectl get namespace {namespace}; \
                 kubectl describe ds {name} -n {namespace}"
            ),
        );
    }
    Finding::new(
        ReasonCode::Unexplained,
        "no pod was made; the events that would say why could not be read",
        format!(
            "kubectl get events -n {namespace} --field-selector involvedObject.kind=DaemonSet,involvedObject.name={name}"
        ),
    )
}
