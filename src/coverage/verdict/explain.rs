//! One node explained in full: every rule that was checked, its resources, and its pods.

use super::NodeVerdict;
use super::checks;
use super::daemon_set_context::Subject;
use super::eligibility;
use super::finding::Finding;
use super::pod_story::{newest, story};
use super::scheduler_message::{SchedulerPlugin, code_of, is_before, is_same_plugin};
use super::scheduler_report::{LastReport, is_recomputed, last_report};
use super::unscheduled_pod;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::node_coverage::{EventLine, Explanation, NodeState, SchedulerVerdict};
use crate::report::reason::ReasonCode;

/// Explains the state of a node, and why it is so.
pub fn explain(subject: &Subject, node: &Node, pods: &[&Pod], verdict: &NodeVerdict) -> Explanation {
    let outcomes =
        eligibility::rule_outcomes(subject.index, subject.daemon_set, node, &subject.daemon_pod.explain(node));
    let failing: Vec<ReasonCode> =
        outcomes.iter().filter_map(|outcomes| Some(outcomes.finding.as_ref()?.code)).collect();
    let only = match failing[..] {
        [only] => Some(format!("{only} is the only failing rule")),
        _ => None,
    };
    let waiting = pods.iter().copied().find(|pod| pod.waits_for_node());
    let last = waiting.and_then(|pod| last_report(subject, pod));
    Explanation {
        summary: summary(subject, node, pods, verdict),
        near_misses: only
            .into_iter()
            .chain(outcomes.iter().flat_map(|outcomes| outcomes.near_misses.clone()))
            .collect(),
        eligibility: outcomes.into_iter().map(|outcomes| outcomes.check).collect(),
        scheduling: checks::scheduling(subject, node, pods, last.as_ref()),
        not_ready: checks::readiness(subject, node),
        scheduler_says: last.zip(waiting).map(|(last, pod)| scheduler_verdict(subject, node, pod, &last)),
        pods: pods.iter().map(|pod| story(subject, pod)).collect(),
        events: events(subject, node, verdict.decision.should_run, pods),
    }
}

/// Returns the answer as a sentence.
fn summary(subject: &Subject, node: &Node, pods: &[&Pod], verdict: &NodeVerdict) -> String {
    let (posts_status, node, daemon_set) =
        (node.posts_status(), &node.metadata.name, subject.daemon_set.metadata.full_name());
    let because = verdict.findings.first().map(|finding| finding.message.to_string()).unwrap_or_default();
    let pod = pods.first().map_or("", |pod| pod.metadata.name.as_str());
    let state = match verdict.state {
        NodeState::NotEligible | NodeState::Misscheduled | NodeState::ToBeDeleted => {
            // How its pod ends is not why.
            let is_end = |code| matches!(code, ReasonCode::Terminating | ReasonCode::StuckTerminating);
            let why = verdict.findings.iter().find(|finding| !is_end(finding.code));
            let why = why.map(|finding| finding.message.to_string());
            return format!("{node} should not run {daemon_set}: {}", why.unwrap_or(because));
        }
        NodeState::Missing => return format!("{node} should run {daemon_set} but has no pod: {because}"),
        NodeState::Unknown => return format!("{node} should run {daemon_set}: {because}"),
        NodeState::Available if because.is_empty() => {
            return format!("{node} should run {daemon_set}, and its pod {pod} is available");
        }
        NodeState::Available if !posts_status => "was last reported as available, but",
        NodeState::Available => "is available, but",
        NodeState::Pending => "is not scheduled",
        NodeState::Starting => "has not started",
        NodeState::NotReady => "is not ready",
        NodeState::Ready => "is ready, but not yet available",
        NodeState::Terminating => "is being deleted",
        NodeState::Failed => "has failed",
    };
    let pod = pods.iter().find(|pod| gives_state(pod, verdict.state)).map_or(pod, |pod| pod.metadata.name.as_str());
    let colon = if verdict.state == NodeState::Available { "" } else { ":" };
    format!("{node} should run {daemon_set}; its pod {pod} {state}{colon} {because}")
}

/// Returns whether a pod can be the one that gives a node its state.
fn gives_state(pod: &Pod, state: NodeState) -> bool {
    match state {
        NodeState::Pending => pod.waits_for_node(),
        NodeState::Terminating => pod.metadata.is_terminating(),
        NodeState::Failed => pod.is_terminal(),
        _ => !pod.metadata.is_terminating() && !pod.is_terminal(),
    }
}

/// Returns the scheduler's last report, and whether what was recomputed agrees.
fn scheduler_verdict(subject: &Subject, node: &Node, pod: &Pod, last: &LastReport) -> SchedulerVerdict {
    let reasons = &last.message.reasons;
    let message = if reasons.is_empty() { last.text.clone() } else { reasons.join(", ") };
    SchedulerVerdict { message, at: last.at, agrees: agrees(subject, node, pod, last) }
}

/// Returns whether the scheduler's last report agrees with what was recomputed.
fn agrees(subject: &Subject, node: &Node, pod: &Pod, last: &LastReport) -> Option<bool> {
    if !subject.index.snapshot.knows_all_pods_on(&node.metadata.name) || last.message.reasons.is_empty() {
        return None;
    }
    let recomputed = unscheduled_pod::recomputed(subject, node, pod);
    let codes = last.message.reasons.iter().map(|reason| code_of(reason));
    let (checked, others): (Vec<ReasonCode>, Vec<ReasonCode>) = codes.partition(|code| {
        let input = SchedulerPlugin::of(*code).map(|plugin| plugin.input);
        input.is_some_and(|input| is_recomputed(subject, node, pod, input))
    });
    if !others.is_empty() && checked.is_empty() {
        // It names a rule that is not recomputed, so that those before it passed.
        let fails_before = |finding: &Finding| others.iter().all(|other| is_before(finding.code, *other));
        return recomputed.iter().any(fails_before).then_some(false);
    }
    let found = |code: &ReasonCode| recomputed.iter().any(|finding| is_same_plugin(finding.code, *code));
    Some(checked.iter().all(found))
}

/// Returns the latest events about the DaemonSet that concern a node.
fn events(subject: &Subject, node: &Node, should_run: bool, pods: &[&Pod]) -> Vec<EventLine> {
    let names = |text: &str| {
        text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | '/')).any(|word| {
            let word = word.trim_end_matches([':', '.']);
            word == node.metadata.name || pods.iter().any(|pod| word == pod.metadata.name)
        })
    };
    newest(subject.events().into_iter().filter(|event| match event.reason.as_str() {
        "FailedCreate" => should_run && pods.is_empty(),
        "SelectingAll" => true,
        _ => names(&event.message),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};
    use crate::report::node_coverage::{Check, Explanation};
    use crate::report::reason::ReasonCode;

    fn explained(world: World) -> Explanation {
        world.only_node().explanation.unwrap()
    }

    fn asking(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}})
    }

    fn insufficient() -> &'static str {
        "0/24 nodes are available: 1 Insufficient cpu, 23 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    }

    /// An older pod may be stuck in its deletion before it was ever scheduled.
    #[test]
    fn the_pod_that_is_not_scheduled_is_not_the_one_that_is_deleted() {
        let stuck = json!({"metadata": {"creationTimestamp": at("11:00:00"), "deletionTimestamp": at("11:30:00"),
            "finalizers": ["example.com/keep"]}});
        let world = world().node("n", json!({})).pending_pod("agent-stuck", "n", insufficient(), stuck).pending_pod(
            "agent-x",
            "n",
            insufficient(),
            asking("600m"),
        );
        let summary = explained(world).summary;
        assert!(summary.contains("its pod agent-x is not scheduled"), "{summary}");
    }

    #[test]
    fn an_available_pod_is_as_old_as_what_its_kubelet_last_posted() {
        let ready = |status: &str| {
            json!({"status": {"conditions": [{"type": "Ready", "status": status,
                "lastHeartbeatTime": at("11:55:00"), "lastTransitionTime": at("11:56:00")}]}})
        };
        let summary = |status| explained(world().node("n", ready(status)).pod("agent-n", "n", json!({}))).summary;
        assert_eq!(summary("True"), "n should run default/agent, and its pod agent-n is available");
        assert_eq!(
            summary("Unknown"),
            "n should run default/agent; its pod agent-n was last reported as available, but node Ready=Unknown for 4m \
             (kubelet stopped posting status; last posted 5m ago); whether its pod still runs is unknown"
        );
        // This kubelet still reports on its pods.
        assert_eq!(summary("False"), summary("True"));
        let silent = world().node("n", ready("Unknown")).pod("agent-n", "n", json!({})).coverage();
        assert_eq!((silent.counts.available, silent.problems[0].code), (Some(1), ReasonCode::NodeUnreachable));
    }

    #[test]
    fn a_pending_pod_is_explained_with_the_arithmetic_of_each_resource() {
        let world = world()
            .template(json!({"nodeSelector": {"kubernetes.io/hostname": "n"}}))
            .node(
                "n",
                json!({"spec": {"unschedulable": true,
                "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
            )
            .other_pod("other-a", "n", asking("3500m"))
            .pending_pod("agent-x", "n", insufficient(), asking("600m"));
        let explanation = explained(world);
        for value in ["default/agent", "agent-x", "600m", "500m", "default/other (3500m)"] {
            assert!(explanation.summary.contains(value), "{value}: {}", explanation.summary);
        }
        let rules = |checks: &[Check]| -> Vec<(String, Option<bool>, Option<ReasonCode>)> {
            checks.iter().map(|check| (check.rule.clone(), check.passed, check.code)).collect()
        };
        let passed = |rule: &str| (rule.to_owned(), Some(true), None);
        assert_eq!(
            rules(&explanation.eligibility),
            ["nodeName", "nodeSelector", "node affinity", "taint", "cordon"].map(passed)
        );
        let cpu = ("cpu".to_owned(), Some(false), Some(ReasonCode::InsufficientResource));
        assert_eq!(rules(&explanation.scheduling), [passed("host ports"), passed("pods"), cpu, passed("memory")]);
        let memory = &explanation.scheduling[3].detail;
        assert!(["64Mi", "7.9Gi", "8Gi"].iter().all(|value| memory.contains(value)), "{memory}");
        let says = explanation.scheduler_says.unwrap();
        assert_eq!((says.message.as_str(), says.agrees), ("Insufficient cpu", Some(true)));
    }

    #[test]
    fn a_scheduler_that_saw_less_room_than_there_is_does_not_agree() {
        let world = world().node("n", json!({})).pending_pod("agent-x", "n", insufficient(), asking("600m"));
        assert_eq!(explained(world).scheduler_says.unwrap().agrees, Some(false));
    }

    #[test]
    fn a_missing_pod_is_held_against_the_room_that_there_is() {
        let world =
            world().template(json!({"containers": [{"name": "agent", "resources": {"requests": {"cpu": "9"}}}]}));
        let explanation = explained(world.node("n", json!({})));
        let cpu = explanation.scheduling.iter().find(|check| check.rule == "cpu").unwrap();
        assert_eq!((cpu.passed, cpu.code), (Some(false), Some(ReasonCode::NeverFits)));
    }

    #[test]
    fn every_failing_rule_is_checked_and_its_code_named() {
        let world = world()
            .template(json!({
                "nodeSelector": {"beta.kubernetes.io/os": "linux"},
                "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                    {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}]}}},
            }))
            .node(
                "n",
                json!({
                    "metadata": {"labels": {"kubernetes.io/os": "linux"}},
                    "spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]},
                }),
            );
        let node = world.only_node();
        let codes: Vec<ReasonCode> = node.reasons.iter().map(|reason| reason.code).collect();
        use ReasonCode as R;
        let expected =
            [R::NodeSelectorLabelMissing, R::AffinityTermMismatch, R::AffinityTermInvalid, R::UntoleratedNoSchedule];
        assert_eq!(codes, expected);
        let explanation = node.explanation.unwrap();
        let failed: Vec<_> = explanation.eligibility.iter().filter(|check| check.passed == Some(false)).collect();
        assert_eq!(failed.iter().filter_map(|check| check.code).collect::<Vec<_>>(), expected);
        assert_eq!(explanation.near_misses.len(), 2, "{:?}", explanation.near_misses);
        for (miss, value) in explanation.near_misses.iter().zip([" kubernetes.io/os=linux", "dedicated:NoExecute"]) {
            assert!(miss.contains(value), "{miss}");
        }
    }

    #[test]
    fn one_rule_short_is_a_near_miss() {
        let world = world().template(json!({"nodeSelector": {"disk": "ssd"}})).node("n", json!({}));
        let misses = explained(world).near_misses;
        assert!(misses.len() == 1 && misses[0].contains("NodeSelectorLabelMissing"), "{misses:?}");
    }

    #[test]
    fn a_pods_story_tells_containers_gates_and_disruption() {
        let world = world().node("n", json!({})).unready_pod(
            "agent-x",
            "n",
            json!({"restartCount": 2, "state": {"running": {"startedAt": "2026-03-01T11:58:00Z"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                    "startedAt": "2026-03-01T11:50:00Z", "finishedAt": "2026-03-01T11:57:00Z"}}}),
            json!({
                "metadata": {"finalizers": ["example.com/hold"]},
                "spec": {
                    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "migrate"}],
                    "readinessGates": [{"conditionType": "example.com/balancer"}],
                },
                "status": {
                    "initContainerStatuses": [
                        {"name": "proxy", "ready": true, "started": true, "state": {"running": {}}},
                        {"name": "migrate", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    ],
                    "conditions": [
                        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
                        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    ],
                },
            }),
        );
        let explanation = explained(world.event("Pod", "agent-x", "Unhealthy", "Readiness probe failed", "11:59:00"));
        let story = &explanation.pods[0];
        let containers: Vec<_> =
            story.containers.iter().map(|c| format!("{} {} {} {}", c.role, c.name, c.state, c.last_end)).collect();
        assert_eq!(
            containers,
            [
                "sidecar proxy running ",
                "init migrate terminated: exit code 0 ",
                "container agent running for 2m exit code 137 (OOMKilled) after 7m, 3m ago",
            ]
        );
        assert_eq!(
            story.conditions,
            [
                "DisruptionTarget=True (EvictionByEvictionAPI): evicted through the API, as kubectl drain does",
                "Ready=False (ContainersNotReady)",
            ]
        );
        assert_eq!(story.readiness_gates, ["example.com/balancer is not met: the condition was never set"]);
        assert_eq!(story.finalizers, ["example.com/hold"]);
        assert_eq!(story.events[0].reason, "Unhealthy");
    }

    #[test]
    fn the_pod_that_gives_the_state_is_the_one_that_is_named() {
        let failed = json!({"status": {"phase": "Failed", "conditions": [], "containerStatuses": []}});
        let crashing = json!({"status": {"conditions": [], "containerStatuses": [
            {"name": "agent", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        let going = json!({"metadata": {"deletionTimestamp": at("12:00:20")}, "status": {"conditions": []}});
        for (old, new, named, other) in [
            (&failed, &crashing, "agent-new", "agent-old"),
            (&going, &failed, "agent-new", "agent-old"),
            (&going, &json!({}), "agent-old", "agent-new"),
        ] {
            let mut new = new.clone();
            new["metadata"]["creationTimestamp"] = json!(at("11:45:00"));
            let world = world().node("n", json!({})).pod("agent-old", "n", old.clone()).pod("agent-new", "n", new);
            let summary = explained(world).summary;
            assert!(summary.contains(named) && !summary.contains(other), "{summary}");
        }
    }

    #[test]
    fn a_report_of_the_scheduler_is_held_against_the_rules_before_the_one_that_it_names() {
        for (says, cpu, agrees) in [
            ("1 cannot allocate all claims", "1", None),
            ("1 cannot allocate all claims", "6", Some(false)),
            ("1 Insufficient cpu, 1 cannot allocate all claims", "6", Some(true)),
            ("2 node(s) didn't satisfy plugin(s) [NodeAffinity]", "1", None),
        ] {
            let says = format!("0/2 nodes are available: {says}.");
            let world = world().node("n", json!({})).pending_pod("agent-x", "n", &says, asking(cpu));
            assert_eq!(explained(world).scheduler_says.unwrap().agrees, agrees, "{says} {cpu}");
        }
    }

    #[test]
    fn only_a_label_that_comes_close_is_a_near_miss() {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}});
        for (template, misses) in [
            (json!({"nodeSelector": {"os": "linux"}}), 2),
            (json!({"nodeSelector": {"os": "windows"}}), 1),
            // The node has the label itself, too.
            (json!({"affinity": affinity}), 1),
        ] {
            let labels = json!({"os": "Linux", "kubernetes.io/os": "plan9", "beta.kubernetes.io/os": "plan9"});
            let explanation =
                explained(world().template(template.clone()).node("n", json!({"metadata": {"labels": labels}})));
            assert_eq!(explanation.near_misses.len(), misses, "{template}: {:?}", explanation.near_misses);
        }
    }

    #[test]
    fn rules_that_pass_are_told_with_what_they_were_checked_against() {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}});
        let explanation = explained(
            world()
                .template(json!({"affinity": affinity, "tolerations": [{"key": "dedicated", "value": "gpu"}]}))
                .node(
                    "n",
                    json!({
                        "metadata": {"labels": {"zone": "a"}},
                        "spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]},
                    }),
                ),
        );
        for (rule, value) in [("node affinity", "zone in (a)"), ("taint", "by dedicated=gpu:")] {
            let check = explanation.eligibility.iter().find(|check| check.rule == rule).unwrap();
            assert!(check.passed == Some(true) && check.detail.contains(value), "{check:?}");
        }
    }

    #[test]
    fn an_available_pod_is_told_with_what_is_wrong_beside_it() {
        let available = || world().node("n", json!({})).pod("agent-x", "n", json!({}));
        let summary = explained(available()).summary;
        assert!(summary.contains("agent-x") && !summary.contains("but"), "{summary}");
        let second = json!({"metadata": {"creationTimestamp": at("11:45:00")}});
        let summary = explained(available().pod("agent-y", "n", second)).summary;
        assert!(["agent-x", "but", "agent-y"].iter().all(|word| summary.contains(word)), "{summary}");
    }

    #[test]
    fn the_scheduler_is_not_quoted_about_a_pod_that_is_bound() {
        let world = world().node("n", json!({})).pod("agent-x", "n", json!({}));
        let explanation = explained(world.event("Pod", "agent-x", "FailedScheduling", insufficient(), "11:29:00"));
        assert_eq!(explanation.scheduler_says, None);
    }

    #[test]
    fn a_term_that_fails_on_one_requirement_is_a_near_miss_with_the_label_that_was_meant() {
        let expressions = json!([{"key": "kubernetes.io/hostname", "operator": "Exists"},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]);
        let explanation = explained(
            world()
                .template(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}}))
                .node("n", json!({"metadata": {"labels": {"beta.kubernetes.io/os": "linux"}}})),
        );
        let values = ["AffinityTermMismatch", "kubernetes.io/os in (linux)", "beta.kubernetes.io/os=linux"];
        let misses = &explanation.near_misses;
        assert_eq!(misses.len(), values.len(), "{misses:?}");
        assert!(misses.iter().zip(values).all(|(miss, value)| miss.contains(value)), "{misses:?}");
        let affinity = explanation.eligibility.iter().find(|check| check.rule == "node affinity").unwrap();
        assert_eq!((affinity.passed, affinity.code), (Some(false), Some(ReasonCode::AffinityTermMismatch)));
        assert!(affinity.detail.contains(values[1]) && affinity.detail.contains("1 of 2"), "{}", affinity.detail);
    }

    #[test]
    fn events_of_the_daemon_set_are_told_if_they_concern_the_node() {
        let told = |has_pod: bool| {
            let node = world().node("n", json!({}));
            let world = if has_pod { node.pod("agent-x", "n", json!({})) } else { node };
            let event = |world: World, reason: &str, message: &str, time: &str| {
                world.event("DaemonSet", "agent", reason, message, time)
            };
            let world = event(world, "SuccessfulCreate", "Created pod: agent-x", "11:31:00");
            let world = event(world, "SuccessfulDelete", "Deleted pod: agent-y", "11:32:00");
            let world = event(world, "SelectingAll", "This daemon set is selecting all pods.", "11:33:00");
            let world = event(world, "FailedCreate", "Error creating: timeout", "11:34:00");
            let events = explained(world).events;
            events.into_iter().map(|event| event.reason).collect::<Vec<_>>()
        };
        assert_eq!(told(true), ["SelectingAll", "SuccessfulCreate"]);
        assert_eq!(told(false), ["FailedCreate", "SelectingAll"]);
    }

    #[test]
    fn the_node_that_the_template_names_is_checked() {
        for (name, passed, code) in [("n", true, None), ("other", false, Some(ReasonCode::NodeNameMismatch))] {
            let explanation = explained(world().template(json!({"nodeName": name})).node("n", json!({})));
            let check = &explanation.eligibility[0];
            assert_eq!((check.rule.as_str(), check.passed, check.code), ("nodeName", Some(passed), code));
        }
    }

    #[test]
    fn what_the_scheduler_and_the_kubelet_say_is_checked_beside_the_arithmetic() {
        let not_ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": at("11:50:00")});
        let world = world()
            .node("n", json!({"status": {"conditions": [not_ready]}}))
            .other_pod("other-a", "n", asking("1500m"))
            .pending_pod("agent-x", "n", "0/1 nodes are available: 1 cannot allocate all claims.", asking("500m"));
        let explanation = explained(world);
        assert_eq!(explanation.not_ready.unwrap().code, Some(ReasonCode::NodeUnreachable));
        let checks = explanation.scheduling;
        let of = |rule: &str| checks.iter().find(|check| check.rule == rule).map(|check| (check.passed, check.code));
        assert_eq!(of("scheduler"), Some((Some(false), Some(ReasonCode::DeviceClaimUnsatisfied))));
        // The scheduler looks at the taints alone.
        assert_eq!(of("node ready"), None);
        let cpu = checks.iter().find(|check| check.rule == "cpu").unwrap();
        assert!(cpu.passed == Some(true) && cpu.detail.contains("2500m"), "{cpu:?}");
    }
}
