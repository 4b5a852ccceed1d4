//! Why an eligible node has no pod object.

use super::daemon_set_context::Subject;
use super::daemon_set_findings;
use super::finding::{Finding, resource};
use super::sentence::Sentence;
use crate::facts::TO_CREATE;
use crate::facts::controller::BURST;
use crate::facts::ready_clock::status_written_at;
use crate::facts::revisions::name_of;
use crate::model::int_or_percent::int;
use crate::model::node::Node;
use crate::model::snapshot::{GapCause, Kind};
use crate::report::age::seconds_between;
use crate::report::count;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;
use jiff::Timestamp;

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
        let pending = || create_pending(subject, node);
        findings.push(pods_not_read(subject).or_else(pending).unwrap_or_else(|| unexplained(subject)));
    }
    findings
}

/// Returns how many nodes have a pod according to the status, how many have one, and since when the status says so.
///
/// A node that should run a pod counts whatever its pod does (`updateDaemonSetStatus`, pkg/controller/daemon/daemon_controller.go,
/// release 1.37.2).
fn status_and_pods(subject: &Subject) -> Option<(i64, i64, Option<Timestamp>)> {
    let daemon_set = subject.daemon_set;
    let read = subject.node_pods.iter().filter(|node| node.should_run() && !node.pods.is_empty()).count();
    let is_known = subject.nodes_known && !subject.index.snapshot.nodes_limited && daemon_set.is_observed();
    is_known.then(|| (daemon_set.status.current_number_scheduled, int(read), status_written_at(daemon_set)))
}

/// Returns how many nodes have a pod according to the status, and since when it says so, if fewer pods were read than that.
fn counted_in_status(subject: &Subject) -> Option<(i64, Option<Timestamp>)> {
    let (counted, read, written) = status_and_pods(subject)?;
    (read < counted).then_some((counted, written))
}

/// Returns whether the controller has known for longer than it takes to create a pod that one is missing.
fn is_long_known(subject: &Subject) -> bool {
    let is_past = |written: Timestamp| seconds_between(written, subject.index.now()) > TO_CREATE;
    status_and_pods(subject).is_some_and(|(counted, read, written)| read >= counted && written.is_some_and(is_past))
}

fn told_of_status((counted, written): (i64, Option<Timestamp>), now: Timestamp) -> Sentence {
    let message = match written {
        Some(at) => Sentence::from("the status, written ").age(seconds_between(at, now)).words(" ago,"),
        None => Sentence::from("the status"),
    };
    message.words(format!(" counts {} with a pod", count(counted, "node")))
}

/// Tells that a pod was deleted since the status was written, if it was written at such a time.
fn deleted_since_status(subject: &Subject, was_written: impl Fn(Option<Timestamp>) -> bool) -> Option<Sentence> {
    let counted = counted_in_status(subject).filter(|(_, written)| was_written(*written))?;
    let told = told_of_status(counted, subject.now());
    Some(told.words(": one was deleted since, and the controller has not replaced it"))
}

/// Finds that no pod was read, although the status counts some: that there is none is not certain.
fn pods_not_read(subject: &Subject) -> Option<Finding> {
    let counted = counted_in_status(subject).filter(|_| subject.node_pods.iter().all(|node| node.pods.is_empty()))?;
    let message = Sentence::from("no pod was read, but ").then(told_of_status(counted, subject.now()));
    let message = message.words(": all were deleted since, or the API server has answered from different states");
    let advice = "look again; if that stays, ask the API server without the proxy or the load balancer before it";
    Some(Finding::new(ReasonCode::Unexplained, message, advice))
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
    let now = subject.now();
    let recent = |at: Option<Timestamp>| at.filter(|at| seconds_between(*at, now) < SETTLING);
    let age = |at: Timestamp| seconds_between(at, now);
    let (metadata, created) = (&subject.daemon_set.metadata, subject.creations().created);
    // What the controller has done elsewhere since a status was written that counts the pods as they are has not helped this node.
    let is_acting = !is_long_known(subject);
    let of_controller = recent(subject.creations().deleted).filter(|_| is_acting);
    let message = if let Some(at) = recent(node.metadata.creation_timestamp.get()) {
        Sentence::from("pod not created yet: the node was created ").age(age(at)).words(" ago")
    } else if let (None, Some(told)) =
        (of_controller, deleted_since_status(subject, |written| recent(written).is_some()))
    {
        Sentence::from("pod not created yet: ").then(told)
    } else if let Some(at) = recent(metadata.creation_timestamp.get()) {
        Sentence::from("pod not created yet: the DaemonSet was created ").age(age(at)).words(" ago")
    } else if let Some(at) = recent(created).filter(|_| is_acting) {
        Sentence::from("pod not created yet: the controller created another ").age(age(at)).words(" ago")
    } else if let Some(at) = of_controller {
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
    let deleted = deleted_since_status(subject, |_| true);
    match subject.index.snapshot.gap(Kind::Events, namespace) {
        None if is_alive(subject) && let Some(deleted) = deleted => Finding::new(
            ReasonCode::Unexplained,
            deleted,
            "look again; if no pod follows, make the controller look at the DaemonSet again",
        )
        .with_command(name_of(subject.daemon_set).command("retry")),
        None if is_alive(subject) => Finding::new(
            ReasonCode::Unexplained,
            "no pod was created, and nothing is known that prevents it: no event of the last hour explains why, the namespace is active, \
             and the controller runs",
            "make the controller look at the DaemonSet again; if no pod follows, read its log, and restart it",
        )
        .with_command(name_of(subject.daemon_set).command("retry")),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{World, at, world};
    use crate::report::reason::ReasonCode;

    #[test]
    fn a_pod_that_was_deleted_since_the_status_was_written_is_about_to_be_replaced() {
        let message = |current: i64, change: fn(World) -> World| {
            let managed = json!([{"manager": "kcm", "subresource": "status", "time": at("11:59:40"), "fieldsV1": {}}]);
            let status = json!({"metadata": {"managedFields": managed}, "status": {"currentNumberScheduled": current}});
            let world = world().node("a", json!({})).node("b", json!({})).pod("agent-b", "b", json!({}));
            change(world.daemon_set(status)).coverage().problems[0].message.clone()
        };
        let told = "pod not created yet: the status, written 20s ago, counts 2 nodes with a pod: one was deleted since, and the \
                    controller has not replaced it";
        assert_eq!(message(2, |world| world), told);
        assert!(!message(1, |world| world).contains("the status"));
        let young = |world: World| world.daemon_set(json!({"metadata": {"creationTimestamp": at("11:59:00")}}));
        assert_eq!(message(2, young), told);
        let by_controller = |world: World| world.event("DaemonSet", "agent", "SuccessfulDelete", "m", "11:59:50");
        assert!(message(2, by_controller).ends_with("the controller deleted one 10s ago"));
    }

    /// client-go's spam filter drops events, and what is created elsewhere does not help a node whose pod is refused.
    #[test]
    fn a_pod_is_about_to_be_created_as_long_as_the_status_does_not_tell_that_it_has_been_missing() {
        let code = |created: &str, status: Option<(&str, i64)>| {
            let world = world().node("a", json!({})).node("b", json!({}));
            let world = world.pod("agent-b", "b", json!({"metadata": {"creationTimestamp": at(created)}}));
            let Some((written, current)) = status else { return world.coverage().problems[0].code };
            let managed = json!([{"manager": "kcm", "subresource": "status", "time": at(written), "fieldsV1": {}}]);
            let status = json!({"metadata": {"managedFields": managed}, "status": {"currentNumberScheduled": current}});
            world.daemon_set(status).coverage().problems[0].code
        };
        assert_eq!(code("11:58:00", None), ReasonCode::CreatePending);
        assert_eq!(code("11:30:00", None), ReasonCode::Unexplained);
        assert_eq!(code("11:58:00", Some(("11:59:40", 1))), ReasonCode::CreatePending);
        assert_eq!(code("11:58:00", Some(("11:58:30", 1))), ReasonCode::Unexplained);
        assert_eq!(code("11:58:00", Some(("11:58:30", 2))), ReasonCode::CreatePending);
    }
}
