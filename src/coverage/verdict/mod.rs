//! The state of a node as one DaemonSet sees it, and why it is not Available.
//!
//! [`daemon_set_context`] is what is known of the DaemonSet. The rules are [`eligibility`], [`missing_pod`] (with
//! [`create_failure`]), [`unscheduled_pod`] (with [`fit`], [`filters`] and [`scheduler_message`]), [`bound_pod`] (with [`sandbox`], [`volumes`]
//! and [`containers`]), [`former_pods`], [`node_health`] and [`terminating`]. What messages of the kubelet and the container runtime tell is in
//! tables of [`cause`]. A rule returns a [`finding`], whose [`sentence`] merges with those of other nodes.

pub mod admission;
pub mod admission_changes;
pub mod bound_pod;
pub mod cause;
pub mod checks;
pub mod claims;
pub mod containers;
pub mod crashes;
pub mod create_events;
pub mod create_failure;
pub mod creation_errors;
pub mod daemon_set_context;
pub mod daemon_set_findings;
pub mod eligibility;
pub mod explain;
pub mod filters;
pub mod finding;
pub mod fit;
pub mod former_pods;
pub mod images;
pub mod label_setter;
pub mod limit_range;
pub mod missing_pod;
pub mod near_miss;
pub mod node_health;
pub mod node_images;
pub mod node_plugin;
pub mod node_removal;
pub mod other_pods;
pub mod pod_claims;
pub mod pod_security;
pub mod pod_story;
pub mod preemption;
pub mod probes;
pub mod quota;
pub mod roles;
pub mod sandbox;
pub mod scheduler_message;
pub mod scheduler_report;
pub mod sentence;
pub mod services;
pub mod telling;
pub mod terminating;
pub mod unscheduled_pod;
pub mod untolerated;
pub mod volumes;
pub mod webhook;
pub mod workload;

use std::cell::LazyCell;

use super::log_fold::pattern;
use crate::facts::Current;
use crate::facts::revisions::Doubt;
use crate::model::daemon_set::UpdateStrategy;
use crate::model::hold::Hold;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{GapCause, Kind};
use crate::report::fix::Command;
use crate::report::node_coverage::NodeState;
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::daemon_pods::keeps_failing;
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::Decision;
use crashes::last_words;
use daemon_set_context::Subject;
use finding::{Finding, Origin, TemplatePart};
use roles::walk;
use sentence::Sentence;

/// The state of a node as one DaemonSet sees it.
pub struct NodeVerdict {
    /// What the controller decides.
    pub decision: Decision,
    pub state: NodeState,
    /// Why it is not Available, the primary finding first.
    pub findings: Vec<Finding>,
}

/// Judges a node that the controller decides so about, and its pods in the controller's order.
pub fn judge(subject: &Subject, node: &Node, decision: Decision, pods: &[&Pod]) -> NodeVerdict {
    if !subject.pods_known {
        return without_pods(subject, node, decision);
    }
    let (state, findings) =
        if !decision.should_run { not_eligible(subject, node, pods, decision) } else { eligible(subject, node, pods) };
    NodeVerdict { decision, state, findings }
}

/// Returns whether a node needs no second look: it has one pod, which is available and not being deleted, as its kubelet
/// keeps reporting.
pub fn is_plainly_available(subject: &Subject, node: &Node, pods: &[&Pod]) -> bool {
    match pods {
        [pod] => {
            !pod.metadata.is_terminating()
                && subject.is_available(pod)
                && node.posts_status()
                && former_pods::evicted_again(subject, node).is_none()
        }
        _ => false,
    }
}

/// Judges a node if the pods could not be read.
fn without_pods(subject: &Subject, node: &Node, decision: Decision) -> NodeVerdict {
    if !decision.should_run {
        let findings = why_not_eligible(subject, node);
        return NodeVerdict { decision, state: NodeState::NotEligible, findings };
    }
    let namespace = &subject.daemon_set.metadata.namespace;
    let gap = subject.index.snapshot.gap(Kind::Pods, namespace);
    let unknown = if gap.is_some_and(|gap| gap.cause == GapCause::NotInDump) {
        Finding::new(
            ReasonCode::Unexplained,
            format!("the dump has no pods of namespace {namespace}, so whether it has one is not known"),
            "take a dump that includes them",
        )
        .with_command(Command::kubectl(&["ds", "snapshot", "-A"]))
    } else {
        Finding::new(
            ReasonCode::Unexplained,
            "the pods could not be read, so whether it has one is not known",
            format!("get permission to list pods in namespace {namespace}"),
        )
    };
    NodeVerdict { decision, state: NodeState::Unknown, findings: vec![unknown] }
}

fn why_not_eligible(subject: &Subject, node: &Node) -> Vec<Finding> {
    eligibility::findings(subject.index, subject.daemon_set, node, &subject.daemon_pod.explain(node))
}

/// Judges a node that should not run a pod.
fn not_eligible(subject: &Subject, node: &Node, pods: &[&Pod], decision: Decision) -> (NodeState, Vec<Finding>) {
    let why = why_not_eligible(subject, node);
    if pods.is_empty() {
        return (NodeState::NotEligible, why);
    }
    let stays = decision.should_continue_running;
    let live = pods.iter().find(|pod| !pod.metadata.is_terminating());
    let why_there =
        |pod: &&Pod| if stays { misscheduled(pod, &why) } else { pod_on_ineligible_node(subject, pod, &why) };
    let mut findings: Vec<Finding> = live.map(why_there).into_iter().collect();
    let mut ending: Vec<Finding> =
        pods.iter().filter_map(|pod| terminating::terminating(subject, Some(node), pod)).collect();
    for finding in ending.iter_mut().filter(|finding| finding.code == ReasonCode::Terminating) {
        finding.advice = "wait; the pod is not recreated, because the node is not eligible".into();
    }
    if live.is_none() {
        // What keeps it is all that is left to happen.
        findings.append(&mut ending);
    }
    let state = if stays { NodeState::Misscheduled } else { NodeState::ToBeDeleted };
    // A node that is not ready or being removed is the cause; that its pod is misscheduled follows from it.
    if why.iter().all(|finding| finding.code.is_state_of_node()) {
        findings.splice(0..0, why);
    } else {
        findings.extend(why);
    }
    findings.extend(ending);
    (state, findings)
}

/// Finds a pod that may stay and would not be recreated, so deleting one that runs is never advised.
fn misscheduled(pod: &Pod, why: &[Finding]) -> Finding {
    let message = Sentence::from("pod ").name(&pod.metadata.name, "there");
    let (message, keep) = if pod.is_terminal() {
        (message.words(" has ended, and the controller deletes it without recreating it: "), "")
    } else if pod.spec.node_name.is_empty() {
        (message.words(" is not scheduled and would not be recreated: "), "")
    } else if pod.status.phase == "Pending" {
        (message.words(" is starting but would not be recreated: "), "do not delete the pod; ")
    } else {
        (message.words(" is running but would not be recreated: "), "do not delete the pod; ")
    };
    let (because, advice) = why.first().map(|why| (why.message.clone(), why.advice.clone())).unwrap_or_default();
    Finding::new(ReasonCode::Misscheduled, message.then(because), Sentence::from(keep).then(advice))
}

/// Finds a pod that the controller deletes because its node is not eligible.
fn pod_on_ineligible_node(subject: &Subject, pod: &Pod, why: &[Finding]) -> Finding {
    let mut message = Sentence::from("pod ").name(&pod.metadata.name, "there");
    message = message.words(match subject.deletion_refusal() {
        Some(_) => " is to be deleted, which the API server has refused: ",
        None => " will be deleted: ",
    });
    if let Some(first) = why.first() {
        message = message.then(first.message.clone());
    }
    if subject.daemon_set.metadata.is_terminating() {
        message = message.words(" (not while the DaemonSet itself is being deleted)");
    }
    Finding::new(ReasonCode::PodOnIneligibleNode, message, until_it_is_deleted(subject))
}

/// Returns what to do about a pod that the controller is to delete.
fn until_it_is_deleted(subject: &Subject) -> Sentence {
    if let Some(deleting) = subject.concerns.iter().find(|concern| concern.code == ReasonCode::DaemonSetDeleting) {
        return deleting.advice.clone();
    }
    if subject.deletion_refusal().is_some() {
        return "let the controller delete pods (DeletionRefused): it deletes this one at its next try".into();
    }
    let does_not_act = subject.controller_silent_since().is_some() || !subject.concerns.is_empty();
    let otherwise = if does_not_act { "the controller does not act: " } else { "wait; if the pod remains, " };
    Sentence::from(format!("{otherwise}{}", subject.controller.check().advice))
}

/// Judges a node that should run a pod.
pub fn eligible(subject: &Subject, node: &Node, pods: &[&Pod]) -> (NodeState, Vec<Finding>) {
    let (state, mut findings) = eligible_by_its_pods(subject, node, pods);
    let passes = findings.first().is_some_and(|finding| finding.passing != Passing::Never);
    // The kubelet has not admitted a pod that is not bound.
    if passes && matches!(state, NodeState::Missing | NodeState::Pending) {
        findings.splice(0..0, former_pods::rejected_again(subject, node));
    }
    if let Some((finding, seconds)) = former_pods::evicted_again(subject, node) {
        // Beside what else is wrong, it tells only that a pod comes no further.
        let leads = findings.is_empty() || (passes && seconds < former_pods::TOO_SHORT);
        findings.insert(if leads { 0 } else { findings.len() }, finding);
    }
    // A DaemonSet that is being deleted explains why nothing recovers.
    let is_known = findings.iter().any(|finding| finding.code == ReasonCode::DaemonSetDeleting);
    if state != NodeState::Available && !is_known {
        let deleting = subject.concerns.iter().filter(|finding| finding.code == ReasonCode::DaemonSetDeleting);
        findings.splice(0..0, deleting.cloned().collect::<Vec<_>>());
    }
    (state, findings)
}

fn eligible_by_its_pods(subject: &Subject, node: &Node, pods: &[&Pod]) -> (NodeState, Vec<Finding>) {
    let Some(first) = pods.first().copied() else {
        let mut findings = missing_pod::findings(subject, node);
        findings.extend(node_health::node_unreachable(subject, node));
        return (NodeState::Missing, findings);
    };
    let live: Vec<&Pod> = pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()).collect();
    if live.is_empty() && terminating::is_overdue(subject, first) {
        return (NodeState::Terminating, terminating::findings(subject, node, pods));
    }
    if subject.is_available(first) {
        return (NodeState::Available, beside_an_available_pod(subject, node, first, pods));
    }
    if live.is_empty() {
        return (NodeState::Terminating, terminating::findings(subject, node, pods));
    }
    // The controller counts the first pod alone, so that an available one behind it is not counted.
    if live.iter().any(|pod| subject.is_available(pod)) {
        let (state, mut findings) = if first.metadata.is_terminating() {
            (NodeState::Terminating, terminating::findings(subject, node, &pods[..1]))
        } else {
            of_pod(subject, node, first)
        };
        findings.extend(duplicate_pod(subject, pods));
        return (state, findings);
    }
    // Where pods fail as fast as they are created, the newest is about to fail, too.
    let keeps_failing = keeps_failing(subject.daemon_set, subject.current_hash(), &live);
    let current = live.iter().copied().find(|pod| !pod.is_terminal() && !keeps_failing).unwrap_or(live[0]);
    let (state, mut findings) = of_pod(subject, node, current);
    let others = pods.iter().filter(|pod| !std::ptr::eq(**pod, current));
    findings.extend(others.flat_map(|pod| {
        if pod.metadata.is_terminating() {
            terminating::terminating(subject, Some(node), pod).into_iter().collect()
        } else {
            of_pod(subject, node, pod).1
        }
    }));
    findings.extend(duplicate_pod(subject, pods));
    let mut seen = Vec::new();
    findings.retain(|finding| {
        let new = !seen.contains(&finding.code);
        seen.push(finding.code);
        new
    });
    (state, findings)
}

/// Judges one pod of an eligible node that is not being deleted.
fn of_pod(subject: &Subject, node: &Node, pod: &Pod) -> (NodeState, Vec<Finding>) {
    let state = match () {
        () if pod.is_terminal() => NodeState::Failed,
        () if pod.spec.node_name.is_empty() => NodeState::Pending,
        () if pod.is_ready() => NodeState::Ready,
        () if roles::all_started(pod) => NodeState::NotReady,
        () => NodeState::Starting,
    };
    let mut findings = match state {
        // Whatever the scheduler says of a node whose kubelet is gone: no pod starts there.
        NodeState::Pending if !node.posts_status() => {
            let unreachable = node_health::node_unreachable(subject, node);
            unreachable.into_iter().chain(unscheduled_pod::findings(subject, node, pod)).collect()
        }
        NodeState::Pending => unscheduled_pod::findings(subject, node, pod),
        _ => bound_pod::findings(subject, Some(node), pod),
    };
    of_former_template(subject, pod, &mut findings);
    let since = pod.unready_since().or(pod.metadata.creation_timestamp.get());
    if since.is_some_and(|since| subject.seconds_since(since) > PROGRESS_DEADLINE) {
        for finding in findings.iter_mut().filter(|finding| finding.code == ReasonCode::ContainersStarting) {
            finding.passing = Passing::Never;
        }
    }
    (state, findings)
}

/// What has to happen before the controller replaces a pod that it is not allowed to delete.
const WAITS_FOR_DELETION: &str = "it is replaced once the API server lets the controller delete pods";

/// Advises about a pod of a former template: what is wrong with that is not in the present one, and to edit it would not help.
fn of_former_template(subject: &Subject, pod: &Pod, findings: &mut [Finding]) {
    let revision = subject.revisions.of_pod(pod).filter(|revision| !revision.is_current);
    let Some(revision) = revision.filter(|_| subject.is_updated(pod) == Some(false)) else { return };
    let is_held = match &subject.daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.keeps_pods(),
        _ => false,
    };
    let is_by_hand = subject.daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
    // The new pod would be of what a stage or a pause keeps from the node.
    let is_suspended = Hold::in_force(subject.daemon_set).is_some();
    // A present one that ends in the same way will not do better.
    let is_in_common = LazyCell::new(|| {
        let end = failed_end(pod);
        let is_one = |other: &Pod| !other.is_ready() && subject.is_updated(other) == Some(true);
        end.is_some() && subject.pods().any(|other| is_one(other) && failed_end(other) == end)
    });
    // The new pod does not start without it either, nor is it scheduled if its scheduler does nothing.
    let lacks_the_same = |finding: &Finding| match &finding.origin {
        Origin::Template(TemplatePart::Object { kind, name, key }) => {
            subject.revisions.live.needs(kind, name, key.as_deref())
        }
        Origin::Template(TemplatePart::Scheduler) => {
            subject.daemon_set.spec.template.spec.scheduler_name == pod.spec.scheduler_name
        }
        _ => false,
    };
    let is_about_template =
        |finding: &&mut Finding| matches!(finding.origin, Origin::Template(_)) && !lacks_the_same(finding);
    for finding in findings.iter_mut().filter(is_about_template) {
        let rolled_back = match subject.revisions.doubt(revision) {
            Some(Doubt::RolledBack) => ", which was rolled back",
            _ => "",
        };
        let still = format!("; the pod is still of revision {}{rolled_back}", revision.number());
        finding.message = std::mem::take(&mut finding.message).words(still);
        if *is_in_common {
            continue;
        }
        (finding.advice, finding.command) = match is_by_hand {
            _ if is_suspended => ("it is replaced once the rollout, which is held back, goes on".into(), None),
            _ if is_held => (
                "it is replaced only once the partition, selector or pause of the update strategy lets it".into(),
                None,
            ),
            true => ("it is replaced only when it is deleted".into(), Some(finding::delete_pod(pod))),
            false if subject.deletion_refusal().is_some() => (WAITS_FOR_DELETION.into(), None),
            // As long as the controller fails to create pods, it does not get to the rolling update.
            false if subject.still_refuses_pods() => {
                ("it is replaced once the API server accepts new pods".into(), None)
            }
            false => ("wait: the controller replaces it".into(), None),
        };
    }
}

/// Returns what tells failures for the same reason apart: a container that failed with its image or registry if it cannot be pulled, or
/// else with its exit code and what it said last, but for times, numbers and names; `None` if it said nothing.
pub(crate) fn failed_end(pod: &Pod) -> Option<(&str, i32, String)> {
    let not_pulled = walk(pod).find_map(|(_, container, status)| images::not_pulled(container, status?));
    not_pulled.map(|(container, what)| (container, 0, what.to_owned())).or_else(|| {
        let (name, end) = pod.container_statuses().find_map(|status| {
            let ends = [&status.state, &status.last_state].into_iter().filter_map(|state| state.terminated.as_ref());
            Some((status.name.as_str(), ends.into_iter().find(|end| end.exit_code != 0)?))
        })?;
        let said = pattern(&last_words(end)?, [&pod.spec.node_name, &pod.metadata.name]);
        Some((name, end.exit_code, said))
    })
}

/// After how many seconds starting containers count as a problem, and a stage without progress ends by default: the default
/// `progressDeadlineSeconds` of Deployments.
pub(crate) const PROGRESS_DEADLINE: i64 = 600;

/// Finds what is wrong with other pods beside one that is available.
fn beside_an_available_pod(subject: &Subject, node: &Node, first: &Pod, pods: &[&Pod]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = node_health::pod_is_out_of_date(subject, node).into_iter().collect();
    let others = pods
        .iter()
        .copied()
        .filter(|pod| !std::ptr::eq(*pod, first) && !pod.metadata.is_terminating() && !subject.is_available(pod))
        .flat_map(|pod| {
            let mut findings = of_pod(subject, node, pod).1;
            // A pod that only takes its time is no trouble yet.
            let age = pod.metadata.creation_timestamp.get().map(|at| subject.seconds_since(at));
            let is_late = age.is_some_and(|age| age > PROGRESS_DEADLINE);
            findings.retain(|finding| match finding.passing {
                Passing::Never | Passing::AtStart => true,
                Passing::InTime => is_late,
                // What the scheduler has yet to notice may be something else.
                Passing::Always => is_late && finding.origin != Origin::Time,
            });
            findings.truncate(1);
            for finding in &mut findings {
                let prefix = Sentence::from("the surge pod is not available: ");
                finding.message = prefix.then(finding.message.clone());
            }
            findings
        });
    findings.extend(others);
    let stuck = pods.iter().filter(|pod| terminating::is_overdue(subject, pod));
    findings.extend(stuck.filter_map(|pod| terminating::terminating(subject, Some(node), pod)));
    findings.extend(duplicate_pod(subject, pods));
    findings
}

/// Finds one pod too many: the controller keeps one, and while surging one of each revision.
fn duplicate_pod(subject: &Subject, pods: &[&Pod]) -> Option<Finding> {
    let running = |pod: &&&Pod| !pod.metadata.is_terminating() && !pod.is_terminal();
    let live: Vec<&Pod> = pods.iter().filter(running).copied().collect();
    let is_alike = |one: &Pod, other: &Pod| match subject.current {
        _ if !allows_surge(subject.daemon_set) => true,
        Current::NotCreatedYet => true,
        Current::Known(current) => (one.revision_hash() == current.hash()) == (other.revision_hash() == current.hash()),
        // Two of different revisions are what a surge makes, whichever is the current one.
        Current::Unread => one.revision_hash() == other.revision_hash(),
    };
    let is_surplus = |at: &usize| live[..*at].iter().any(|kept| is_alike(kept, live[*at]));
    let surplus = live[(0..live.len()).rfind(is_surplus)?];
    let mut message = Sentence::from("one pod too many: ").name(&surplus.metadata.name, "the younger one");
    if let Some(created) = surplus.metadata.creation_timestamp.get() {
        message = message.words(", created ").age(subject.seconds_since(created)).words(" ago");
    }
    let message = message.words(match subject.daemon_set.metadata.is_terminating() {
        true => "; the controller deletes no pods while the DaemonSet itself is being deleted",
        false => "; the controller keeps the oldest bound one and deletes the others",
    });
    Some(Finding::new(ReasonCode::DuplicatePod, message, until_it_is_deleted(subject)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};
    use crate::report::reason::ReasonCode;

    #[test]
    fn nobody_waits_for_the_controller_of_a_daemon_set_that_is_being_deleted() {
        let of = |metadata: Value| {
            let world = world().node("n", json!({})).daemon_set(json!({"metadata": metadata}));
            let younger = json!({"metadata": {"creationTimestamp": at("11:59:00")}});
            let node = world.pod("agent-x", "n", json!({})).pod("agent-y", "n", younger).only_node();
            let found = node.reasons.into_iter().find(|reason| reason.code == ReasonCode::DuplicatePod).unwrap();
            (found.message, found.fix.advice)
        };
        let (message, advice) = of(json!({}));
        assert!(message.contains("deletes the others") && advice.starts_with("wait; if the pod remains"), "{advice}");
        let (message, advice) = of(json!({"deletionTimestamp": at("11:50:00"), "finalizers": ["example.com/hold"]}));
        assert!(message.ends_with("while the DaemonSet itself is being deleted"), "{message}");
        assert!(advice.contains("finalizer example.com/hold") && !advice.contains("wait"), "{advice}");
    }

    /// What is wrong with it is not in the present template, unless that needs the same object.
    #[test]
    fn a_pod_of_a_former_template_waits_for_what_replaces_it() {
        let strategy = |strategy: Value| json!({"spec": {"updateStrategy": strategy}});
        let waiting =
            |message: &str| json!({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}});
        let missing = "configmap \"settings\" not found";
        let uses = json!({"containers": [{"name": "agent", "image": "agent:2",
            "envFrom": [{"configMapRef": {"name": "settings"}}]}]});
        let plain = || json!({"containers": [{"name": "agent", "image": "agent:2"}]});
        let advanced = |rolling: Value| json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}});
        let held = json!({"metadata": {"annotations": {"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#}},
            "spec": {"updateStrategy": {"type": "OnDelete"}}});
        for (template, daemon_set, message, expected) in [
            (plain(), json!({}), "something new", "wait: the controller replaces it"),
            (plain(), strategy(json!({"type": "OnDelete"})), "something new", "replaced only when it is deleted"),
            (plain(), held, "something new", "held back"),
            (plain(), advanced(json!({"partition": 1})), "something new", "partition, selector or pause"),
            (plain(), advanced(json!({"paused": true})), "something new", "partition, selector or pause"),
            (plain(), advanced(json!({"partition": 0})), "something new", "wait: the controller replaces it"),
            (plain(), json!({}), missing, "wait: the controller replaces it"),
            (uses.clone(), json!({}), missing, "create configmap settings"),
        ] {
            let old =
                json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
            let world = world().template(uses.clone()).revision_of_image("hash1", 1, "agent:1").template(template);
            let world = world.daemon_set(daemon_set.clone());
            let world = world.node("n", json!({})).unready_pod("agent-x", "n", waiting(message), old);
            let coverage = world.coverage();
            let reason = &coverage.nodes[0].reasons[0];
            assert!(reason.fix.advice.contains(expected), "{daemon_set} {message}: {}", reason.fix.advice);
        }
    }

    /// What replaces it ends in the same way.
    #[test]
    fn a_pod_of_a_former_template_that_fails_like_the_present_ones_is_not_waited_for() {
        let ended = |message: &str| {
            json!({"restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated":
                {"exitCode": 1, "reason": "Error", "message": message, "finishedAt": at("11:59:00")}}})
        };
        for (present, waits) in [("no such flag", false), ("no such file", true)] {
            let old =
                json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
            let world = world().revision_of_image("hash1", 1, "agent:1").revision_of_image("hash2", 2, "agent:2");
            let world = world.node("a", json!({})).unready_pod("agent-a", "a", ended("no such flag"), old);
            let world = world.node("b", json!({})).unready_pod("agent-b", "b", ended(present), json!({}));
            let reason = &world.coverage().nodes[0].reasons[0];
            assert!(reason.message.contains("the pod is still of revision 1"), "{}", reason.message);
            assert_eq!(reason.fix.advice == "wait: the controller replaces it", waits, "{}", reason.fix.advice);
        }
    }

    /// The containers that start after a sidecar run only once it has started.
    #[test]
    fn a_sidecar_that_crashes_beside_running_containers_has_started() {
        let started = json!({"ready": true, "started": true, "state": {"running": {"startedAt": at("10:00:00")}}});
        for (main, is_blocked) in
            [(started, false), (json!({"state": {"waiting": {"reason": "PodInitializing"}}}), true)]
        {
            let sidecar = json!({"name": "side", "ready": false, "started": false, "restartCount": 30,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": at("11:59:00")}}});
            let pod = json!({"spec": {"initContainers": [{"name": "side", "restartPolicy": "Always"}]},
                "status": {"initContainerStatuses": [sidecar]}});
            let codes = codes(world().node("n", json!({})).unready_pod("agent-n", "n", main, pod));
            assert_eq!(codes.contains(&ReasonCode::InitBlocked), is_blocked, "{codes:?}");
        }
    }

    #[test]
    fn a_pod_has_ended_when_its_containers_have() {
        let container =
            json!({"name": "agent", "state": {"terminated": {"exitCode": 137, "finishedAt": at("11:58:21")}}});
        let pod = json!({"metadata": {"creationTimestamp": at("11:52:00")}, "status": {"phase": "Failed", "reason": "Evicted",
            "message": "The node was low on resource: memory.", "conditions": [], "containerStatuses": [container]}});
        let reasons = world().node("n", json!({})).pod("agent-n", "n", pod).only_node().reasons;
        let backoff = reasons.iter().find(|reason| reason.code == ReasonCode::FailedPodBackoff).unwrap();
        assert!(backoff.message.contains("99s ago"), "{}", backoff.message);
    }

    fn codes(world: World) -> Vec<ReasonCode> {
        world.only_node().reasons.iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_pod_that_is_leaving_is_no_trouble_beside_an_available_one() {
        let going = json!({"metadata": {"creationTimestamp": at("11:45:00"), "deletionTimestamp": at("12:00:20")}});
        let crashing = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let world = world().node("n", json!({})).pod("agent-x", "n", json!({}));
        assert_eq!(codes(world.unready_pod("agent-y", "n", crashing, going)), []);
    }

    #[test]
    fn a_surge_pod_may_take_ten_minutes_to_start() {
        let beside = |created: &str| {
            let world = world()
                .daemon_set(
                    json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}}),
                )
                .node("n", json!({}))
                .pod("agent-old", "n", json!({"metadata": {"labels": {"controller-revision-hash": "hash1"}}}));
            let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
            let created = json!({"metadata": {"creationTimestamp": at(created)}});
            codes(world.unready_pod("agent-new", "n", starting, created))
        };
        assert_eq!(beside("11:50:00"), []);
        assert_eq!(beside("11:49:59"), [ReasonCode::ContainersStarting]);
    }

    #[test]
    fn a_pod_on_an_ineligible_node_stays_as_long_as_deletions_are_refused() {
        let world = world().template(json!({"nodeSelector": {"disk": "ssd"}})).node("n", json!({}));
        let world = world.pod("agent-x", "n", json!({}));
        let denied = "Error deleting: admission webhook \"protect\" denied the request: no";
        let reason =
            world.event("DaemonSet", "agent", "FailedDelete", denied, "11:59:00").only_node().reasons.remove(0);
        assert_eq!(reason.code, ReasonCode::PodOnIneligibleNode);
        assert!(reason.message.contains("which the API server has refused"), "{}", reason.message);
        assert!(reason.fix.advice.starts_with("let the controller delete pods"), "{}", reason.fix.advice);
    }

    #[test]
    fn a_pod_on_an_ineligible_node_is_not_to_be_waited_for_if_the_controller_does_not_act() {
        let advice = |daemon_set: Value, renewed: &str| {
            let mut world = world()
                .template(json!({"nodeSelector": {"disk": "ssd"}}))
                .daemon_set(daemon_set)
                .node("n", json!({}))
                .pod("agent-x", "n", json!({}));
            let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
                "spec": {"renewTime": at(renewed), "leaseDurationSeconds": 15}});
            world.snapshot.leases.push(serde_json::from_value(lease).unwrap());
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, ReasonCode::PodOnIneligibleNode);
            reason.fix.advice
        };
        let down = advice(json!({}), "11:48:00");
        assert_ne!(advice(json!({}), "11:59:55"), down);
        assert_eq!(advice(json!({"metadata": {"generation": 3}}), "11:59:55"), down);
    }
}
