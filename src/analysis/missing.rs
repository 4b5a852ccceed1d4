//! Eligible, and no pod object: why none was made.

use jiff::Timestamp;

use super::age::seconds_between;
use super::concerns;
use super::create_failure;
use super::finding::Finding;
use super::index::Index;
use super::sentence::Sentence;
use super::subject::Subject;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::snapshot::Kind;
use crate::report::reason::ReasonCode;

/// For how many seconds after a change a missing pod is taken to be on its way.
const SETTLING: i64 = 300;

/// How many seconds a success must be younger than a refusal to cast doubt on it: the pods of one batch
/// are made at once, and their events come in no order.
const SAME_BATCH: i64 = 5;

/// How many different refusals are told.
const REFUSALS_TOLD: usize = 3;

/// Finds why an eligible node has no pod.
pub fn findings(subject: &Subject, node: &Node) -> Vec<Finding> {
    let mut findings = subject.concerns.clone();
    if findings.iter().any(|finding| matches!(finding.code, ReasonCode::DaemonSetDeleting | ReasonCode::SelectingAll)) {
        return findings;
    }
    findings.extend_from_slice(&subject.history().refusals);
    if findings.is_empty() {
        findings.extend(concerns::controller_seems_down(subject.index.snapshot));
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

/// What the events say of the making of a DaemonSet's pods.
pub struct History {
    /// Why the API server refused pods, newest refusal first; empty where no event says so.
    pub refusals: Vec<Finding>,
    /// When a pod was made last.
    pub made: Option<Timestamp>,
}

impl History {
    /// Reads the events about a DaemonSet.
    pub fn new(index: &Index, daemon_set: &DaemonSet) -> Self {
        let events = index.events_about("DaemonSet", &daemon_set.metadata);
        let made = events.iter().find(|event| event.reason == "SuccessfulCreate").and_then(|event| event.last_seen());
        History { refusals: refusals(index, daemon_set, &events, made), made }
    }
}

/// Tells whether a node is so young that its missing pod may just not have been made yet.
pub fn is_young(node: &Node, now: Timestamp) -> bool {
    node.metadata.creation_timestamp.get().is_some_and(|at| seconds_between(at, now) < SETTLING)
}

/// Finds why the API server refused pods, newest refusal first.
fn refusals(index: &Index, daemon_set: &DaemonSet, events: &[&Event], made: Option<Timestamp>) -> Vec<Finding> {
    let changed = index.current_revision(daemon_set).and_then(|revision| revision.metadata.creation_timestamp.get());
    let mut findings: Vec<Finding> = Vec::new();
    for event in events.iter().filter(|event| event.reason == "FailedCreate") {
        let mut finding = create_failure::classify(index.snapshot, daemon_set, &event.message);
        if findings.iter().any(|known| known.code == finding.code) {
            continue;
        }
        let at = event.last_seen();
        let since = |later: Option<Timestamp>| at.zip(later).map_or(0, |(at, later)| seconds_between(at, later));
        if since(made) > SAME_BATCH || since(changed) > 0 {
            finding.message =
                Sentence::from("likely ").then(finding.message).words(" (a pod was made, or the spec changed, since)");
        }
        findings.push(with_age(finding, event, index));
        if findings.len() == REFUSALS_TOLD {
            break;
        }
    }
    findings
}

/// Adds when the refusal was last seen.
fn with_age(mut finding: Finding, event: &Event, index: &Index) -> Finding {
    if let Some(at) = event.last_seen() {
        finding.message = finding.message.words(" (").age(seconds_between(at, index.now())).words(" ago)");
    }
    finding
}

/// Finds that the pod is likely still to be made, because something changed a short while ago.
fn create_pending(subject: &Subject, node: &Node) -> Option<Finding> {
    let now = subject.index.now();
    let recent = |at: Option<Timestamp>| at.filter(|at| seconds_between(*at, now) < SETTLING);
    let age = |at: Timestamp| seconds_between(at, now);
    let (metadata, made) = (&subject.daemon_set.metadata, subject.history().made);
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
