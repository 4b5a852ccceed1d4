//! Why an eligible node has no pod object.

use jiff::Timestamp;

use super::daemon_set_context::Subject;
use super::daemon_set_findings;
use super::finding::{Finding, resource};
use super::sentence::Sentence;
use crate::facts::controller::BURST;
use crate::facts::revisions::name_of;
use crate::model::node::Node;
use crate::model::snapshot::{GapCause, Kind};
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::report::history::Subcommand;
use crate::report::reason::ReasonCode;

/// For how many seconds after a change a missing pod counts as not created yet.
const SETTLING: i64 = 300;

/// Finds why an eligible node has no pod.
pub fn findings(subject: &Subject, node: &Node) -> Vec<Finding> {
    let mut findings = subject.concerns.clone();
    if findings.iter().any(|finding| matches!(finding.code, ReasonCode::DaemonSetDeleting | ReasonCode::SelectingAll)) {
        return findings;
    }
    let is_new = |finding: &&Finding| subject.concerns.iter().all(|known| known.code != finding.code);
    findings.extend(subject.creations().refusals.iter().filter(is_new).cloned());
    if findings.is_empty() {
        findings.extend(daemon_set_findings::controller_seems_down(subject));
    }
    if findings.is_empty() {
        findings.push(create_pending(subject, node).unwrap_or_else(|| unexplained(subject)));
    }
    findings
}

/// Finds why pods are missing if the nodes are not known.
pub fn findings_of_unknown_nodes(subject: &Subject) -> Vec<Finding> {
    findings(subject, &Node::default())
}

/// Returns whether a node is so young that its pod may not have been created yet.
pub fn is_young(node: &Node, now: Timestamp) -> bool {
    node.metadata.creation_timestamp.get().is_some_and(|at| seconds_between(at, now) < SETTLING)
}

/// Finds that the pod is likely not created yet, because something changed a short while ago.
///
/// Without events a refused creation looks the same, so it cannot be told.
fn create_pending(subject: &Subject, node: &Node) -> Option<Finding> {
    if !subject.index.knows(Kind::Events, &subject.daemon_set.metadata.namespace) {
        return None;
    }
    let now = subject.index.now();
    let recent = |at: Option<Timestamp>| at.filter(|at| seconds_between(*at, now) < SETTLING);
    let age = |at: Timestamp| seconds_between(at, now);
    let (metadata, created) = (&subject.daemon_set.metadata, subject.creations().created);
    let message = if let Some(at) = recent(metadata.creation_timestamp.get()) {
        Sentence::from("pod not created yet: the DaemonSet was created ").age(age(at)).words(" ago")
    } else if let Some(at) = recent(node.metadata.creation_timestamp.get()) {
        Sentence::from("pod not created yet: the node was created ").age(age(at)).words(" ago")
    } else if let Some(at) = recent(created) {
        Sentence::from("pod not created yet: the controller created another ").age(age(at)).words(" ago")
    } else if let Some(at) = recent(subject.creations().deleted) {
        Sentence::from("pod not created yet: the controller deleted one ").age(age(at)).words(" ago")
    } else {
        return None;
    };
    let advice = match subject.creations().missing > BURST {
        true => format!("wait: the controller creates at most {BURST} pods per sync"),
        false => "wait".to_owned(),
    };
    Some(Finding::new(ReasonCode::CreatePending, message, advice))
}

/// Returns whether the namespace is known to be active, and the controller to run.
fn is_alive(subject: &Subject) -> bool {
    let (index, daemon_set) = (subject.index, subject.daemon_set);
    index.namespaces.get(&*daemon_set.metadata.namespace).is_some_and(|namespace| !namespace.metadata.is_terminating())
        // A controller that is down is found before.
        && subject.controller.lease(index.snapshot).is_some()
}

/// Finds a missing pod that nothing explains.
fn unexplained(subject: &Subject) -> Finding {
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    match subject.index.snapshot.gap(Kind::Events, namespace) {
        None if is_alive(subject) => Finding::new(
            ReasonCode::Unexplained,
            "no pod was created, and nothing is known that prevents it: no event of the last hour explains why, the namespace is active, \
             and the controller runs",
            "make the controller look at the DaemonSet again; if no pod follows, read its log, and restart it",
        )
        .with_command(name_of(subject.daemon_set).command(Subcommand::Retry)),
        None => Finding::new(
            ReasonCode::Unexplained,
            "no pod was created, and no event explains why (events expire after an hour, and a terminating namespace \
             has none)",
            "check the namespace and the events of the DaemonSet",
        )
        .with_command(Command::kubectl(&["describe", resource(subject.daemon_set)]).namespace(namespace).name(name)),
        Some(gap) => {
            let message = match gap.cause {
                GapCause::NotInDump => "no pod was created; the dump has no events that would explain why",
                _ => "no pod was created; the events that would explain why could not be read",
            };
            let involved = format!("involvedObject.kind=DaemonSet,involvedObject.name={name}");
            let events = Command::kubectl(&["get", "events"]).namespace(namespace).flag("--field-selector", involved);
            Finding::new(ReasonCode::Unexplained, message, "look at the events of the DaemonSet").with_command(events)
        }
    }
}
