//! Why a pod is not bound: what the scheduler reports, and what is recomputed.

use super::admission_changes::{SCHEDULING_GATES, injected_node_selector, of_gate, of_scheduler, raised_request};
use super::claims::waits_for_claim;
use super::daemon_set_context::Subject;
use super::filters::{FILTERS, Filtered, filtered};
use super::finding::{Finding, Lack, Origin, delete_pod, describe_pod, edit};
use super::fit::{NodeRoom, fits_now, port_conflicts, single_pod_node};
use super::preemption::{Simulation, is_of_room, names};
use super::scheduler_message::{PluginInput, Preemption, code_of, is_same_plugin};
use super::scheduler_report::{self, LastReport, last_report};
use super::sentence::Sentence;
use super::terminating::{self, CLEANUP};
use crate::facts::controller::{DEFAULT_SCHEDULER, check_scheduler, is_default_scheduler, scheduler_log};
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::fix::Fix;
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::preemption::{Victim, Victims, is_terminating_by_preemption, priority};
use crate::scheduling::resources::pod_requests;
use crate::scheduling::taints::repels;

/// Finds why a pod that is meant for a node is not bound to it; the rule that the scheduler names comes first.
pub fn findings(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    if let Some(gated) = scheduling_gated(subject, pod) {
        return vec![gated];
    }
    let last = last_report(subject, pod);
    let mut recomputed = recomputed(subject, node, pod);
    let mut findings = Vec::new();
    findings.extend(waiting_for_preemption(subject, node, pod));
    match &last {
        // A scheduler that has nominated a node has tried the pod.
        None if !findings.is_empty() => {}
        None => match waits_for_claim(subject, pod) {
            Some(waits) => {
                recomputed.retain(|finding| finding.code != waits.code);
                findings.push(waits);
            }
            None => findings.extend(scheduler_silent(subject, pod)),
        },
        Some(last) => findings.extend(scheduler_report::findings(subject, node, pod, last, &recomputed)),
    }
    // What the scheduler names goes before what was only recomputed: it is what it acts on.
    let named: Vec<ReasonCode> =
        last.iter().flat_map(|last| last.message.reasons.iter().map(|reason| code_of(reason))).collect();
    let (confirmed, others): (Vec<Finding>, Vec<Finding>) =
        recomputed.into_iter().partition(|finding| named.iter().any(|code| is_same_plugin(*code, finding.code)));
    let reported = findings
        .split_off(findings.iter().take_while(|finding| finding.code == ReasonCode::WaitingForPreemption).count());
    findings.extend(confirmed.into_iter().chain(reported).chain(others));
    if findings.is_empty() {
        findings.push(unexplained(pod));
    }
    findings
}

/// Recomputes every rule of the scheduler that the snapshot knows enough for, in the scheduler's order.
pub fn recomputed(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    if !subject.nodes_known {
        return Vec::new();
    }
    let mut findings = untolerated_by_the_pod(subject, node, pod);
    findings.extend(injected_node_selector(subject.index.snapshot, subject.daemon_set, node, &pod.spec.node_selector));
    let room = NodeRoom::of(subject.index, node, pod);
    // Not all pods of the node may be known, but those of the DaemonSet are.
    let others = room.as_ref().map_or_else(|| subject.index.bound_to(&node.metadata.name), |room| room.pods.clone());
    let old = subject.old_pods_on(&node.metadata.name, pod).next();
    let others: Vec<&Pod> = others.into_iter().filter(|pod| !pod.is_terminal()).collect();
    let conflicts = port_conflicts(&others, &pod.spec, old);
    let by_others = || -> Vec<Finding> {
        let rejects = |(input, _): (PluginInput, &str)| match filtered(subject, node, pod, input)? {
            Filtered::Rejects(finding) => Some(finding),
            Filtered::Passes(_) | Filtered::Unknown(_) => None,
        };
        FILTERS.into_iter().filter_map(rejects).collect()
    };
    let largest = subject.largest_allocatable();
    let Some(room) = room.map(|room| room.surging(old).among(largest)) else {
        findings.extend(conflicts);
        let room = NodeRoom::empty(subject.index, node, pod).among(largest);
        let never_fits = room.never_fitting(pod).into_iter();
        let never_fits = never_fits.map(|(short, finding)| raised_request(subject, &room, pod, &short, finding));
        findings.extend(together(never_fits));
        findings.extend(by_others());
        return findings;
    };
    let requests = pod_requests(pod);
    let by_others = by_others();
    // Preemption does not help a pod that does not tolerate the node, or does not match it. Whether it helps one that
    // its volumes, other pods or the kubelet keep from the node is not simulated.
    let simulation = (findings.is_empty() && by_others.is_empty())
        .then(|| Simulation::new(subject.index, &room, pod, &requests))
        .flatten();
    let is_expected = simulation.is_some() && expects_preemption(subject, pod);
    let ends = |pod: &&Pod| {
        pod.metadata.deletion_timestamp.get().is_some_and(|deadline| subject.seconds_since(deadline) < CLEANUP)
    };
    let told = |finding: Finding| match &simulation {
        Some(simulation) => {
            let leaving = simulation.leaving().filter(|_| is_of_room(finding.code));
            let told = simulation.told_of_pending(finding, is_expected);
            let told = Finding { waits_for_leaving: leaving.is_some(), ..told };
            match leaving.map(|pods| pods.iter().find(|pod| !ends(pod))) {
                Some(None) => told.with_passing(Passing::Always),
                Some(Some(stuck)) => {
                    let why = Sentence::from("see why pod ").value(stuck.metadata.full_name());
                    told.with_advice(why.words(" is not gone: check its finalizers, and the kubelet of its node"))
                        .with_command(describe_pod(stuck))
                }
                None => told,
            }
        }
        None => finding,
    };
    // Beside the old pod that a surge pod is to replace, preemption does not help, either.
    let (short, shortages): (Vec<String>, Vec<Finding>) = room.shortages(&requests).into_iter().unzip();
    let shortages = shortages.into_iter().map(|finding| match finding.origin {
        Origin::Room(Lack::BesideOldPod) | Origin::Node => finding,
        Origin::Room(Lack::Pods) if single_pod_node(node).is_some() => finding.with_command(edit(subject.daemon_set)),
        _ => told(finding),
    });
    let shortages =
        shortages.zip(&short).map(|(finding, resource)| raised_request(subject, &room, pod, resource, finding));
    findings.extend(conflicts.into_iter().map(told).chain(together(shortages)).chain(by_others));
    findings
}

/// Says of several resources that never fit in one finding that all of them have to change.
fn together(shortages: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for next in shortages {
        let is_alike = |last: &&mut Finding| {
            (last.code, next.code) == (ReasonCode::NeverFits, ReasonCode::NeverFits) && last.origin == next.origin
        };
        match all.last_mut().filter(is_alike) {
            Some(last) => {
                last.message = std::mem::take(&mut last.message).words("; ").then(next.message);
                if last.advice != next.advice {
                    last.advice = std::mem::take(&mut last.advice).words("; ").then(next.advice);
                }
            }
            None => all.push(next),
        }
    }
    all
}

/// Returns whether the scheduler will preempt other pods for a pod if the simulation finds that this makes room: the default
/// scheduler lacks nothing but room for it, and has not reported that preemption failed.
fn expects_preemption(subject: &Subject, pod: &Pod) -> bool {
    let Some(LastReport { message, .. }) = last_report(subject, pod) else { return false };
    is_default_scheduler(&pod.spec.scheduler_name)
        && message.preemption == Preemption::NotReported
        && !message.reasons.is_empty()
        && message.reasons.iter().all(|reason| is_of_room(code_of(reason)))
}

fn scheduling_gated(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
    let first = gates.first()?;
    let finding = Finding::new(
        ReasonCode::SchedulingGated,
        format!("scheduling gate {} keeps the pod from being scheduled", gates.join(", ")),
        "check the controller that owns the gate; if there is none, remove the gate from the template",
    );
    Some(of_gate(subject, pod, SCHEDULING_GATES, first, finding))
}

/// For how many seconds a scheduler that works may not have come to a pod: then it is suspected. That it is silent counts as trouble as
/// late as other trouble of starting pods.
pub const SCHEDULED: i64 = 30;

/// Finds that no scheduler has tried to schedule the pod.
fn scheduler_silent(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let scheduler = if pod.spec.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &pod.spec.scheduler_name };
    let mut message = Sentence::from(format!("scheduler {scheduler:?} has not tried to schedule the pod"));
    let age = pod.metadata.creation_timestamp.get().map(|created| subject.seconds_since(created));
    if let Some(age) = age {
        message = message.words(", created ").age(age).words(" ago");
    }
    if let Some(since) = subject.scheduler_silent_since() {
        let message = message
            .words("; kube-scheduler seems to be down: it renewed its lease ")
            .age(subject.seconds_since(since))
            .words(" ago");
        let Fix { advice, command } = check_scheduler();
        let finding = Finding::new(ReasonCode::SchedulerSilent, message, advice).with_passing(Passing::Never);
        return Some(finding.with_origin(Origin::ControlPlane).with_command(command));
    }
    if scheduler == DEFAULT_SCHEDULER && age.is_some_and(|age| age < SCHEDULED) {
        return Some(Finding::new(ReasonCode::SchedulerSilent, message, "wait: the pod was created just now"));
    }
    let events = subject.index.events_about("Pod", &pod.metadata);
    // What a policy only reports keeps no pod from a node.
    let keeps = |event: &&&Event| {
        event.type_ == "Warning" && event.reason != "PolicyViolation" && event.is_recent(subject.now())
    };
    if let Some(event) = events.iter().find(keeps) {
        // In a virtual cluster, it is the host cluster that schedules.
        let message =
            Sentence::from("the pod has no node; ").value(&event.reason).words(": ").example(event.message.trim());
        let message = message.seen(event, subject.now());
        let advice = "fix what it says: who reports it places such pods, or keeps them from being placed";
        let finding = Finding::new(ReasonCode::SchedulerSilent, message, advice).with_origin(Origin::Unknown);
        return Some(finding.with_command(describe_pod(pod)));
    }
    let Fix { advice, command } = match scheduler {
        DEFAULT_SCHEDULER if subject.scheduler_renewed_at().is_some() => scheduler_log(),
        DEFAULT_SCHEDULER => check_scheduler(),
        other => Fix::new(format!("start scheduler {other:?}, or correct schedulerName"), edit(subject.daemon_set)),
    };
    let finding = Finding::new(ReasonCode::SchedulerSilent, message, advice).with_command(command);
    Some(of_scheduler(subject, pod, finding))
}

/// Finds that the scheduler has nominated the node for the pod, and which lower-priority pods are being preempted for it.
///
/// Since release 1.35, the node is also nominated before a binding that takes long: `bindingCycle`, pkg/scheduler/schedule_one.go.
fn waiting_for_preemption(subject: &Subject, node: &Node, pod: &Pod) -> Option<Finding> {
    if pod.status.nominated_node_name != node.metadata.name {
        return None;
    }
    let message = Sentence::from("the scheduler has nominated the node for the pod");
    let is_victim =
        |other: &&Pod| is_terminating_by_preemption(other) && !other.is_terminal() && priority(other) < priority(pod);
    let victims = subject.index.bound_to(&node.metadata.name).into_iter().filter(is_victim);
    let certain: Vec<Victim<'_>> = victims.map(|pod| Victim { pod, violates_budget: None }).collect();
    if certain.is_empty() && fits_now(subject.index, node, pod) == Some(true) {
        return Some(Finding::new(ReasonCode::WaitingForPreemption, message, "wait until the pod is bound"));
    }
    if let Some(stuck) = certain.iter().find_map(|victim| terminating::stuck_victim(subject, node, victim.pod)) {
        return Some(stuck);
    }
    let message = message.words(", and waits for ");
    let message = if certain.is_empty() {
        message.words("the pods that it preempts to terminate")
    } else {
        message.value(names(&Victims { certain, choices: Vec::new() })).words(" to terminate, which it preempts")
    };
    Some(Finding::new(ReasonCode::WaitingForPreemption, message, "wait for their grace period"))
}

/// Finds taints that the pod does not tolerate, and whether its template does by now.
fn untolerated_by_the_pod(subject: &Subject, node: &Node, pod: &Pod) -> Vec<Finding> {
    let outcomes = subject.daemon_pod.explain(node).taints.into_iter();
    outcomes
        .filter(|outcome| repels(&outcome.taint, &pod.spec.tolerations))
        .map(|outcome| {
            let code = if outcome.taint.effect == "NoExecute" {
                ReasonCode::UntoleratedNoExecute
            } else {
                ReasonCode::UntoleratedNoSchedule
            };
            let message = format!("the pod does not tolerate taint {}", outcome.taint);
            if outcome.is_untolerated() {
                return Finding::new(code, message, "no action needed: the node is not eligible");
            }
            let advice = "delete the pending pod: it is recreated from the current template";
            Finding::new(code, format!("{message}, although the template does"), advice).with_command(delete_pod(pod))
        })
        .collect()
}

/// Finds an unbound pod that nothing explains.
fn unexplained(pod: &Pod) -> Finding {
    let message = "the pod is not bound, and nothing that was read explains why";
    Finding::new(ReasonCode::Unexplained, message, "look at the pod").with_command(describe_pod(pod))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use crate::coverage::test_support::world;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::reason::ReasonCode as R;

    fn says(reason: &str) -> String {
        format!("0/2 nodes are available: 1 {reason}, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].")
    }

    #[test]
    fn taints_of_both_effects_are_what_the_scheduler_calls_untolerated() {
        for (effect, code) in [("NoSchedule", R::UntoleratedNoSchedule), ("NoExecute", R::UntoleratedNoExecute)] {
            let world = world()
                .template(json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
                .node("n", json!({"spec": {"taints": [{"key": "dedicated", "effect": effect}]}}))
                .pending_pod(
                    "agent-x",
                    "n",
                    &says("node(s) had untolerated taint(s)"),
                    json!({"spec": {"tolerations": []}}),
                );
            let codes: Vec<R> = world.only_node().reasons.iter().map(|reason| reason.code).collect();
            assert_eq!(codes, [code]);
        }
    }

    #[test]
    fn a_pod_on_a_node_that_is_not_eligible_tolerates_no_less_than_its_template() {
        let taints = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        let world = world().node("n", json!({"spec": {"taints": taints}})).pending_pod(
            "agent-x",
            "n",
            &says("node(s) had untolerated taint(s)"),
            json!({"spec": {"tolerations": []}}),
        );
        let node = world.only_node();
        let reason = &node.reasons[0];
        assert_eq!(reason.code, R::Misscheduled);
        assert!(reason.message.contains("is not scheduled"), "{}", reason.message);
        assert!(!reason.fix.advice.contains("do not delete"), "{}", reason.fix.advice);
        let checks = node.explanation.unwrap().scheduling;
        let untolerated = checks.iter().find(|check| check.code == Some(R::UntoleratedNoSchedule)).unwrap();
        assert!(!untolerated.detail.contains("although the template does"), "{}", untolerated.detail);
    }

    /// The scheduler leaves room for pods that it has nominated for a node, unless their priority is lower.
    #[test]
    fn room_that_is_kept_for_a_nominated_pod_is_taken() {
        for (priority, kept) in [(0, true), (100, true), (-1, false)] {
            let asks = |cpu: &str| json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]);
            let nominated = json!({"spec": {"nodeName": null, "priority": priority, "containers": asks("3")},
                "status": {"phase": "Pending", "nominatedNodeName": "n"}});
            let world = world().node("n", json!({})).other_pod("other-x", "n", nominated).pending_pod(
                "agent-x",
                "n",
                &says("Insufficient cpu"),
                json!({"spec": {"containers": asks("2")}}),
            );
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, R::InsufficientResource);
            assert_eq!(!reason.message.contains("no longer true"), kept, "{priority}: {}", reason.message);
            assert_eq!(reason.message.contains("default/other"), kept, "{priority}: {}", reason.message);
        }
    }

    #[test]
    fn preemption_is_expected_only_of_a_scheduler_that_lacks_nothing_but_room_and_has_not_tried() {
        let asks = |cpu: &str| json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]);
        let told = |report: &str| {
            let pod = json!({"spec": {"priority": 100, "containers": asks("2")}});
            let world = world().node("n", json!({})).pending_pod("agent-x", "n", report, pod);
            let world = world.other_pod("other-a", "n", json!({"spec": {"containers": asks("3")}}));
            let mut reasons = world.only_node().reasons.into_iter();
            let reason = reasons.find(|reason| reason.code == R::InsufficientResource).unwrap();
            assert_eq!(reason.message.contains("would make room"), !reason.message.contains("will preempt"));
            (reason.message.contains("will preempt"), reason.fix.advice)
        };
        let (wait, lower) =
            ("wait: the scheduler tries the pod again within 5 minutes", "lower the cpu request, or free");
        for (report, is_expected) in [
            (says("Insufficient cpu"), true),
            // It has not reported anything.
            (String::new(), false),
            (
                says("Insufficient cpu")
                    + " preemption: 0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
                false,
            ),
            (says("node(s) didn't match pod anti-affinity rules"), false),
        ] {
            let (will, advice) = told(&report);
            assert_eq!(will, is_expected, "{report}");
            assert!(advice.starts_with(if is_expected { wait } else { lower }), "{advice}");
        }
    }

    #[test]
    fn a_node_that_is_nominated_and_has_room_waits_for_no_other_pod() {
        let nominated = json!({"status": {"nominatedNodeName": "n"}});
        let reasons = world().node("n", json!({})).pending_pod("agent-x", "n", "", nominated).only_node().reasons;
        let told: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
        assert_eq!(told, ["the scheduler has nominated the node for the pod"]);
    }

    #[test]
    fn what_the_scheduler_says_of_a_node_that_was_not_read_gets_advice_by_its_cause() {
        let mut advice = BTreeSet::new();
        let causes = [
            ("Insufficient cpu", R::InsufficientResource),
            ("Too many pods", R::TooManyPods),
            ("node(s) didn't have free ports for the requested pod ports", R::HostPortConflict),
            ("node(s) had untolerated taint(s)", R::UntoleratedNoSchedule),
            ("node(s) didn't match Pod's node affinity/selector", R::InjectedNodeSelector),
        ];
        for (cause, code) in causes {
            let mut world = world().pending_pod("agent-x", "n", &says(cause), json!({}));
            let forbidden = GapCause::Forbidden("list nodes".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::Nodes, namespace: None, cause: forbidden });
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, code, "{cause}");
            advice.insert(reason.fix.advice);
        }
        assert_eq!(advice.len(), causes.len(), "{advice:?}");
    }

    #[test]
    fn a_webhook_that_keeps_the_scheduler_from_binding_is_told_as_one_that_keeps_the_controller_from_creating() {
        let said = "running Bind plugin \"DefaultBinder\": Internal error occurred: failed calling webhook \"bind.example.com\": failed to \
                    call webhook: Post \"https://hook.ops.svc:443/bind?timeout=10s\": no endpoints available for service \"hook\"";
        let condition =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": said}]);
        let pod = json!({"status": {"conditions": condition}});
        let reason = world().node("n", json!({})).pending_pod("agent-x", "n", said, pod).only_node().reasons.remove(0);
        assert_eq!(reason.code, R::SchedulerRejected);
        let command = reason.fix.command.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(!reason.fix.advice.contains("log") && command.contains("endpointslices"), "{reason:?}");
    }

    #[test]
    fn what_the_scheduler_said_and_is_over_is_not_told_beside_another_rule_that_fails_by_now() {
        let container = json!({"name": "agent", "resources": {"requests": {"cpu": "6"}}});
        let says = says("node(s) didn't have free ports for the requested pod ports");
        let pod = json!({"spec": {"containers": [container]}});
        let node = world().node("n", json!({})).pending_pod("agent-x", "n", &says, pod).only_node();
        let codes: Vec<R> = node.reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes, [R::NeverFits]);
    }

    /// With `--node`, pods of other nodes are not known: they decide only by their own rules.
    #[test]
    fn a_rule_of_the_pod_itself_about_its_node_is_known_without_other_nodes() {
        let rule = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"group": "agents"}}, "topologyKey": "kubernetes.io/hostname"}]}});
        for (reason, is_over) in [
            ("node(s) didn't match pod anti-affinity rules", true),
            ("node(s) didn't satisfy existing pods anti-affinity rules", false),
        ] {
            let pod = json!({"spec": {"affinity": rule}});
            let mut world = world().node("n", json!({})).pending_pod("agent-x", "n", &says(reason), pod);
            world.snapshot.nodes_limited = true;
            let reason = world.only_node().reasons.remove(0);
            assert_eq!(reason.code, R::PodAffinityBlocked);
            assert_eq!(reason.message.contains("no longer true"), is_over, "{}", reason.message);
        }
    }

    #[test]
    fn a_resource_that_the_node_itself_does_not_offer_is_up_to_its_device_plugin() {
        let gpu = json!({"example.com/gpu": "1"});
        let container = json!({"name": "agent", "resources": {"requests": gpu, "limits": gpu}});
        let pod = json!({"spec": {"containers": [container]}});
        let node = json!({"status": {"nodeInfo": {"kubeletVersion": "v1.37.2"}}});
        let mut world = world().node("n", node).pending_pod("agent-x", "n", &says("Insufficient example.com/gpu"), pod);
        world.snapshot.read_on_demand.remove(&Kind::DeviceClasses);
        let reason = world.only_node().reasons.remove(0);
        assert_eq!(reason.code, R::InsufficientResource);
        assert!(reason.fix.advice.starts_with("check the pod of the device plugin"), "{}", reason.fix.advice);
    }
}
