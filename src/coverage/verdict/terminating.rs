//! Terminating pods, and pods whose node does not exist.

use jiff::Timestamp;

use super::daemon_set_context::Subject;
use super::finding::{Finding, describe_node, describe_pod};
use super::node_health;
use super::node_plugin::{is_named_plugin, is_own_plugin};
use super::sandbox::{of_network, pods_of_node};
use super::sentence::Sentence;
use super::workload::{told_priority, workload};
use crate::facts::Facts;
use crate::facts::controller::Controller;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::age::seconds_between;
use crate::report::fix::{Command, Fix};
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::preemption::{is_terminating_by_preemption, priority};

/// How many seconds past its grace period a pod is not stuck yet: the kubelet needs a moment.
const SLACK: i64 = 5;

/// How many seconds past its grace period a pod may still exist without blocking what waits for it: the kubelet takes some time to clean
/// up killed containers.
pub(crate) const CLEANUP: i64 = 60;

/// How many seconds a node that is down may still be called ready: `NodeMonitorGracePeriod` is 50 s, and nodes are looked at every 5 s
/// (pkg/controller/nodelifecycle, release 1.37.2).
const UNNOTICED: i64 = 60;

/// How many seconds a kubelet that works, and has nothing new to say of its node, may not post its status: `NodeStatusReportFrequency` is
/// 5 min, and up to half a minute is added (pkg/kubelet/apis/config/v1beta1/defaults.go, release 1.37.2).
const LONGEST_SILENCE: i64 = 360;

/// How many seconds past its grace period a pod may still be there whose node does not exist: the pod garbage collector looks every 20 s,
/// and gives a missing node 40 s to show up (`gcCheckPeriod` and `quarantineTime`, pkg/controller/podgc/gc_controller.go, release
/// 1.37.2).
pub(crate) const COLLECTION: i64 = 120;

/// Finds why all pods of an eligible node are terminating.
pub fn findings(subject: &Subject, node: &Node, pods: &[&Pod]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = node_health::node_unreachable(subject, node).into_iter().collect();
    findings.extend(pods.iter().filter_map(|pod| terminating(subject, Some(node), pod)));
    findings
}

/// Returns whether a pod is still there past its grace period, which needs no wait if a finalizer holds it.
pub fn is_overdue(facts: &Facts<'_>, pod: &Pod) -> bool {
    let slack = if pod.metadata.finalizers.is_empty() { SLACK } else { 0 };
    pod.metadata.deletion_timestamp.get().is_some_and(|deadline| facts.now().as_second() - deadline.as_second() > slack)
}

/// Finds that a pod is terminating, and whether it is stuck.
pub fn terminating(subject: &Subject, node: Option<&Node>, pod: &Pod) -> Option<Finding> {
    let deadline = pod.metadata.deletion_timestamp.get()?;
    if is_overdue(subject, pod) {
        return Some(stuck_terminating(subject, node, pod, deadline));
    }
    let left = seconds_between(subject.now(), deadline);
    let mut message = Sentence::from("pod ")
        .name(&pod.metadata.name, "there")
        .words(" is terminating; grace period left: ")
        .age(left);
    if let Some(disruption) = disruption(pod) {
        message = message.words(" (").value(disruption);
        message = match preemptor(subject, pod) {
            Some(preemptor) => message
                .words(": ")
                .value(workload(preemptor))
                .words(", priority ")
                .value(told_priority(preemptor))
                .words(")"),
            None => message.words(")"),
        };
    }
    if let Some(failed) = failed_hook(subject, pod) {
        message = message
            .words("; its preStop hook has failed, so its containers end without it")
            .seen(failed, subject.now());
    }
    let advice = match subject.terminating_namespace() {
        Some(_) => "no action needed: no pod is recreated, because the namespace is being deleted",
        None => "wait; the pod is recreated once it is deleted",
    };
    Some(Finding::new(ReasonCode::Terminating, message, advice))
}

/// Returns the event that the preStop hook of a terminating pod has failed: the kubelet tells the container to end at once then
/// (`killContainer`, pkg/kubelet/kuberuntime/kuberuntime_container.go, release 1.37.2). One that hangs has no event.
fn failed_hook<'a>(subject: &Subject<'_, 'a>, pod: &Pod) -> Option<&'a Event> {
    let events = subject.index.events_about("Pod", &pod.metadata).into_iter();
    let deleted = pod.metadata.deleted_at()?;
    // The kubelet runs the hook before it restarts a container, too.
    let since_deletion = |event: &&Event| event.last_seen().is_some_and(|at| at >= deleted);
    events.filter(|event| event.reason == "FailedPreStopHook").find(since_deletion)
}

/// Returns the pod for which the scheduler preempts a pod, as far as pods were read: it has nominated the node for it.
fn preemptor<'a>(subject: &Subject<'_, 'a>, pod: &Pod) -> Option<&'a Pod> {
    let nominated = is_terminating_by_preemption(pod).then(|| subject.index.nominated_for(&pod.spec.node_name));
    nominated?.into_iter().filter(|other| priority(other) > priority(pod)).max_by_key(|other| priority(other))
}

fn past_its_grace_period(facts: &Facts<'_>, pod: &Pod, deadline: jiff::Timestamp) -> Sentence {
    let past = facts.seconds_since(deadline);
    let message = Sentence::from("pod ").name(&pod.metadata.name, "there");
    let message = message.words(if past > SLACK { " is stuck terminating, " } else { " is terminating, " });
    message.age(past).words(" past its grace period")
}

/// Finds a pod that is still there past its grace period.
///
/// No command removes it: a forced deletion or a removed finalizer leaves behind what they were to wait for.
pub fn stuck_terminating(facts: &Facts<'_>, node: Option<&Node>, pod: &Pod, deadline: jiff::Timestamp) -> Finding {
    let (metadata, message) = (&pod.metadata, past_its_grace_period(facts, pod, deadline));
    if !metadata.finalizers.is_empty() {
        let finalizers = metadata.finalizers.join(", ");
        let advice =
            format!("check the controller that owns finalizer {finalizers}: it removes the finalizer when it is done");
        let get = Command::kubectl(&["get", "pod", "-o", "yaml"]).namespace(&metadata.namespace).name(&metadata.name);
        let message = message.words(format!("; finalizer {finalizers}"));
        // Its controller may be about to remove it.
        let is_stuck = facts.seconds_since(deadline) > SLACK;
        let code = if is_stuck { ReasonCode::StuckTerminating } else { ReasonCode::Terminating };
        return Finding::new(code, message, advice).with_command(get);
    }
    let now = facts.now();
    let not_ready = node.and_then(|node| Some((node, node_health::not_ready(facts.index, node)?)));
    // The kubelet lives.
    let events = facts.index.events_about("Pod", metadata);
    // Before, it was to restart a container.
    let is_since = |event: &&&Event| event.last_seen() >= metadata.deleted_at();
    if let Some(failed) = events.iter().filter(is_since).find(|event| event.reason == "FailedKillPod") {
        let message = message.words(", and its kubelet cannot end it: ").event(failed, now);
        let finding = |advice: &str| Finding::new(ReasonCode::StuckTerminating, message, advice.to_owned());
        return match of_network(&failed.message) {
            Some(advice) => finding(advice).with_command(pods_of_node(pod)),
            None => finding(match failed.message.contains("unable to signal init: permission denied") {
                true => {
                    "correct or disable the AppArmor profile of the container runtime on the node (`dmesg` there shows what it denies), \
                     and on nodes that are set up alike before their pods are replaced: it forbids to end containers"
                }
                false => "check the container runtime of the node, and restart it: it does not end the pod",
            })
            .with_command(describe_pod(pod)),
        };
    }
    let mut statuses = pod.status.container_statuses.iter();
    if not_ready.is_none() && statuses.len() > 0 && statuses.all(|status| status.state.terminated.is_some()) {
        let message = message
            .words(", although its containers have ended: its kubelet has not cleaned up its volumes or its sandbox");
        // The kubelet waits for the volumes before it ends a pod, too: `SyncTerminatingPod`, pkg/kubelet/kubelet.go, release 1.37.2.
        let waits = |event: &&&Event| {
            matches!(event.reason.as_str(), "FailedMount" | "FailedAttachVolume") && event.is_recent(now)
        };
        if let Some(event) = events.iter().find(waits) {
            let message = message.words("; ").value(&event.reason).words(": ").event(event, now);
            let advice = "fix what the kubelet warns of, such as an object that the pod mounts and that was deleted: it does so before it \
                          ends the pod";
            return Finding::new(ReasonCode::StuckTerminating, message, advice).with_command(describe_pod(pod));
        }
        let advice =
            "see the log of the kubelet for what it cannot clean up, often a volume that is busy; restart the kubelet";
        return Finding::new(ReasonCode::StuckTerminating, message, advice).with_command(describe_pod(pod));
    }
    let is_reported = |node: &Node| node.condition("Ready").is_some_and(|ready| ready.status == "False");
    if let Some((node, not_ready)) = not_ready {
        let repair = node_health::repair(now, node);
        let advice = match is_reported(node) {
            true => repair.to_owned(),
            false => format!(
                "{repair}; only if the machine is shut down for certain, taint it node.kubernetes.io/out-of-service"
            ),
        };
        return Finding::new(ReasonCode::StuckTerminating, message.words("; ").then(not_ready), advice)
            .with_command(describe_node(node));
    }
    let message = message.words(", and its kubelet has not terminated it");
    let ready = node.and_then(|node| node.condition("Ready")).filter(|ready| ready.status == "True");
    let posted = node.filter(|_| ready.is_some()).and_then(|node| facts.index.last_posted(node));
    let ago = |at| Sentence::from(", last posted ").age(seconds_between(at, now)).words(" ago");
    let lives = |at: Timestamp| {
        at > deadline || (seconds_between(deadline, now) > UNNOTICED && seconds_between(at, now) <= LONGEST_SILENCE)
    };
    if let Some(at) = posted.filter(|at| lives(*at)) {
        let message = message.words(", although it works").then(ago(at));
        let advice =
            "see what the kubelet of the node waits for, such as a preStop hook: its log, and the events of the pod";
        return Finding::new(ReasonCode::StuckTerminating, message, advice).with_command(describe_pod(pod));
    }
    // The node counts as ready until its lease has expired.
    let message = match ready {
        Some(_) => message
            .words(": it may be down already, although the node is still Ready")
            .then(posted.map_or_else(Sentence::new, ago)),
        None => message.words(": it may be down"),
    };
    Finding::new(ReasonCode::StuckTerminating, message, "check the kubelet and the network of the node")
        .with_command(describe_pod(pod))
}

/// Finds that a pod waits for one that it preempts, and that is still there past its grace period.
pub fn stuck_victim(subject: &Subject, node: &Node, victim: &Pod) -> Option<Finding> {
    let deadline = victim.metadata.deletion_timestamp.get().filter(|_| is_overdue(subject, victim))?;
    let stuck = stuck_terminating(subject, Some(node), victim, deadline);
    let message =
        Sentence::from("the scheduler has nominated the node for the pod, but the preempted ").then(stuck.message);
    let events = subject.index.events_about("Pod", &victim.metadata);
    let is_of_own_network = |event: &Event| {
        event.reason == "FailedKillPod"
            && of_network(&event.message).is_some()
            && (is_own_plugin(subject.daemon_set, victim, &event.message)
                || is_named_plugin(subject.index, subject.daemon_set, &event.message))
    };
    let waits_for_own_network = events.into_iter().any(is_of_own_network);
    let (advice, command) = match waits_for_own_network {
        true => (
            "force-delete that pod if its containers have ended: its network can only be removed with the plugin that this DaemonSet \
             installs, which waits for its place"
                .into(),
            Some(describe_pod(victim)),
        ),
        false => (stuck.advice, stuck.command),
    };
    let finding = Finding::new(ReasonCode::WaitingForPreemption, message, advice).with_command(command);
    // What holds up the victim holds up its place.
    Some(if stuck.passing == Passing::Never { finding.with_passing(stuck.passing) } else { finding })
}

/// Returns what disrupts the pod, if a condition tells.
pub fn disruption(pod: &Pod) -> Option<String> {
    let condition = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True")?;
    let words = match condition.reason.as_str() {
        "PreemptionByScheduler" => "preempted by a pod of higher priority",
        "DeletionByTaintManager" => "evicted because of a NoExecute taint",
        "EvictionByEvictionAPI" => "evicted through the API, as kubectl drain does",
        "DeletionByPodGC" => "deleted by the pod garbage collector",
        "TerminationByKubelet" => "terminated by the kubelet: eviction, node shutdown or a critical pod",
        reason => reason,
    };
    Some(words.to_owned())
}

/// Finds that the pod garbage collector has not deleted a pod. It is a part of kube-controller-manager, which has nothing else to do
/// with the pods of another controller.
fn past_collection(subject: &Subject, message: Sentence) -> Finding {
    let deletes = "pod garbage collector deletes such pods within two minutes";
    let (advice, command) = match subject.controller {
        Controller::Kubernetes => {
            let Fix { advice, command } = subject.controller.check();
            (format!("{advice}: its {deletes}"), command)
        }
        Controller::Kruise => (format!("check the controllers of the cluster: the {deletes}"), None),
    };
    Finding::new(ReasonCode::OrphanedTarget, message, advice).with_command(command)
}

/// Finds a pod whose node does not exist.
pub fn orphaned_target(subject: &Subject, pod: &Pod) -> Finding {
    let overdue = pod.metadata.deletion_timestamp.get().filter(|_| is_overdue(subject, pod));
    if let Some(deadline) = overdue {
        const COUNTS: &str = ", and its node does not exist: until it is gone, it counts as unavailable";
        if !pod.metadata.finalizers.is_empty() {
            let stuck = stuck_terminating(subject, None, pod, deadline);
            return Finding { code: ReasonCode::OrphanedTarget, ..stuck.and(COUNTS) };
        }
        if subject.seconds_since(deadline) >= COLLECTION {
            let message = past_its_grace_period(subject, pod, deadline).words(COUNTS);
            return past_collection(subject, message);
        }
    }
    let name = Sentence::from("pod ").name(&pod.metadata.name, "there");
    let (message, advice) = if pod.spec.node_name.is_empty() {
        (name.words(" is meant for a node that does not exist"), "wait: the controller deletes it".to_owned())
    } else {
        let wait = "wait: the pod garbage collector deletes it about a minute after the node is gone";
        let advice = match subject.controller {
            Controller::Kubernetes => format!("{wait}; if it does not, {}", subject.controller.check().advice),
            Controller::Kruise => wait.to_owned(),
        };
        (name.words(" is bound to a node that does not exist"), advice)
    };
    Finding::new(ReasonCode::OrphanedTarget, message, advice)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::disruption;

    #[test]
    fn a_hook_that_has_failed_is_told_if_it_did_since_the_deletion() {
        use crate::coverage::test_support::{at, world};
        // 11:59:50 is when the pod was deleted.
        for (time, is_told) in [("11:59:55", true), ("11:40:00", false)] {
            let going = json!({"metadata": {"deletionTimestamp": at("12:00:20"), "deletionGracePeriodSeconds": 30}});
            let world = world().node("a", json!({})).unready_pod("agent-a", "a", json!({}), going);
            let node = world.event("Pod", "agent-a", "FailedPreStopHook", "PreStopHook failed", time).only_node();
            let reason = &node.reasons[0];
            assert_eq!(reason.code, crate::report::reason::ReasonCode::Terminating);
            assert_eq!(reason.message.contains("its preStop hook has failed"), is_told, "{time}: {}", reason.message);
        }
    }

    /// The event is that of `killPod`, pkg/kubelet/kubelet_pods.go, release 1.37.2.
    #[test]
    fn a_kubelet_that_cannot_end_a_pod_lives() {
        use crate::coverage::test_support::{at, world};
        for ready in ["True", "False"] {
            let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": at("11:00:00")}]);
            let overdue = json!({"metadata": {"deletionTimestamp": at("11:20:00")}});
            let world = world().node("a", json!({"status": {"conditions": conditions}})).pod("agent-a", "a", overdue);
            let failed =
                "error killing pod: dial unix /run/containerd/containerd.sock: connect: no such file or directory";
            let node = world.event("Pod", "agent-a", "FailedKillPod", failed, "11:59:00").only_node();
            let reason =
                node.reasons.into_iter().find(|it| it.code == crate::report::reason::ReasonCode::StuckTerminating);
            let reason = reason.unwrap();
            assert!(reason.message.contains("its kubelet cannot end it: error killing pod"), "{}", reason.message);
            assert!(reason.fix.advice.starts_with("check the container runtime"), "{}", reason.fix.advice);
        }
    }

    #[test]
    fn a_disruption_is_told_in_words_while_it_lasts() {
        let told = |status: &str, reason: &str| {
            let condition = json!({"type": "DisruptionTarget", "status": status, "reason": reason});
            disruption(&from_value(json!({"status": {"conditions": [condition]}})).unwrap())
        };
        for reason in [
            "PreemptionByScheduler",
            "DeletionByTaintManager",
            "EvictionByEvictionAPI",
            "DeletionByPodGC",
            "TerminationByKubelet",
        ] {
            assert!(told("True", reason).is_some_and(|words| words != reason), "{reason}");
            assert_eq!(told("False", reason), None);
        }
        assert_eq!(told("True", "NewReason").as_deref(), Some("NewReason"));
    }

    /// The node of a kubelet that is down is still Ready until its lease expires.
    #[test]
    fn a_pod_past_its_grace_period_says_that_the_kubelet_may_be_down() {
        use crate::coverage::test_support::{at, world};
        let told = |posted: &str| {
            let conditions = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": at(posted),
                "lastTransitionTime": at("11:00:00")}]);
            let overdue = json!({"metadata": {"deletionTimestamp": at("11:59:50")}});
            let world = world().node("a", json!({"status": {"conditions": conditions}})).pod("agent-a", "a", overdue);
            world.only_node().reasons.remove(0).message
        };
        let message = told("11:59:20");
        assert!(message.contains("it may be down already") && message.ends_with("last posted 40s ago"), "{message}");
        let message = told("11:59:55");
        assert!(message.ends_with("although it works, last posted 5s ago"), "{message}");
    }
}
