//! One pod in detail: its phase, containers, conditions, gates, finalizers and events.

use super::crashes::end_text;
use super::create_failure;
use super::daemon_set_context::Subject;
use super::roles::walk;
use super::scheduler_report::last_report;
use super::terminating;
use crate::model::event::Event;
use crate::model::pod::{ContainerStatus, Pod};
use crate::report::age::{format_age, seconds_between};
use crate::report::node_coverage::{ContainerStory, EventLine, PodStory};

/// How many events are reported for a pod or DaemonSet.
const MAX_EVENTS: usize = 5;

/// Returns a pod in detail.
pub fn story(subject: &Subject, pod: &Pod) -> PodStory {
    PodStory {
        name: pod.metadata.name.clone(),
        phase: phase(subject, pod),
        containers: walk(pod)
            .map(|(role, container, status)| ContainerStory {
                name: container.name.clone(),
                role: role.name().to_owned(),
                state: status.map_or_else(|| "not started".to_owned(), |status| state(subject, status)),
                ready: status.is_some_and(|status| status.ready),
                restarts: status.map_or(0, |status| status.restart_count),
                last_end: status.map(|status| last_end(subject, status)).unwrap_or_default(),
            })
            .collect(),
        conditions: conditions(subject, pod),
        readiness_gates: readiness_gates(pod),
        finalizers: pod.metadata.finalizers.clone(),
        events: newest(subject.index.events_about("Pod", &pod.metadata).into_iter()),
    }
}

fn phase(subject: &Subject, pod: &Pod) -> String {
    let now = subject.now();
    let mut text = pod.status.phase.clone();
    for detail in [&pod.status.reason, &pod.status.message] {
        if !detail.is_empty() {
            text = format!("{text}: {}", detail.trim_end_matches('.'));
        }
    }
    if let Some(deadline) = pod.metadata.deletion_timestamp.get() {
        let left = deadline.as_second() - now.as_second();
        let when = if left >= 0 {
            format!("grace period left: {}", format_age(left))
        } else {
            format!("{} past its grace period", format_age(-left))
        };
        text = format!("{text}, terminating ({when})");
    }
    if let Some(created) = pod.metadata.creation_timestamp.get() {
        text = format!("{text}, created {} ago", format_age(seconds_between(created, now)));
    }
    text
}

fn state(subject: &Subject, status: &ContainerStatus) -> String {
    let ago = |at: Option<jiff::Timestamp>| {
        at.map(|at| format!(" {} ago", format_age(subject.seconds_since(at)))).unwrap_or_default()
    };
    let state = &status.state;
    if let Some(waiting) = &state.waiting {
        let reason = if waiting.reason.is_empty() { "not started" } else { &waiting.reason };
        return match waiting.message.trim() {
            "" => format!("waiting: {reason}"),
            message => format!("waiting: {reason}: {message}"),
        };
    }
    if let Some(end) = &state.terminated {
        return format!("terminated: {}{}", end_text(end), ago(end.finished_at.get()));
    }
    match &state.running {
        Some(running) => {
            let since = running.started_at.get();
            let since = since.map(|at| format!(" for {}", format_age(subject.seconds_since(at))));
            format!("running{}", since.unwrap_or_default())
        }
        None => "not started".to_owned(),
    }
}

fn last_end(subject: &Subject, status: &ContainerStatus) -> String {
    let Some(end) = &status.last_state.terminated else { return String::new() };
    let mut text = end_text(end);
    if let Some((from, to)) = end.started_at.get().zip(end.finished_at.get()) {
        text = format!("{text} after {}", format_age(seconds_between(from, to)));
    }
    if let Some(at) = end.finished_at.get() {
        text = format!("{text}, {} ago", format_age(subject.seconds_since(at)));
    }
    match end.message.trim() {
        "" => text,
        message => format!("{text}: {message}"),
    }
}

/// Returns the conditions that need attention.
fn conditions(subject: &Subject, pod: &Pod) -> Vec<String> {
    let healthy = |type_: &str| match type_ {
        "DisruptionTarget" | "PodResizePending" | "PodResizeInProgress" => "False",
        _ => "True",
    };
    pod.status
        .conditions
        .iter()
        .filter(|condition| condition.status != healthy(&condition.type_))
        // What the scheduler reports is told apart, as far as it is about the target node.
        .filter(|condition| condition.type_ != "PodScheduled" || last_report(subject, pod).is_none())
        .map(|condition| {
            let mut text = format!("{}={}", condition.type_, condition.status);
            if !condition.reason.is_empty() {
                text = format!("{text} ({})", condition.reason);
            }
            if let Some(since) = condition.last_transition_time.get() {
                text = format!("{text} for {}", format_age(subject.seconds_since(since)));
            }
            let disruption = terminating::disruption(pod).filter(|_| condition.type_ == "DisruptionTarget");
            match disruption.as_deref().unwrap_or(&condition.message) {
                "" => text,
                detail => format!("{text}: {detail}"),
            }
        })
        .collect()
}

fn readiness_gates(pod: &Pod) -> Vec<String> {
    pod.spec
        .readiness_gates
        .iter()
        .map(|gate| match pod.condition(&gate.condition_type) {
            Some(condition) if condition.status == "True" => format!("{} is met", gate.condition_type),
            Some(condition) => format!("{} is not met: {}", gate.condition_type, condition.status),
            None => format!("{} is not met: the condition was never set", gate.condition_type),
        })
        .collect()
}

/// Returns the newest events, without older ones that repeat them.
pub fn newest<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<EventLine> {
    let mut seen: Vec<(&str, String)> = Vec::new();
    let mut lines = Vec::new();
    for event in events {
        let key = (event.reason.as_str(), without_variable_parts(&event.message));
        if lines.len() < MAX_EVENTS && !seen.contains(&key) {
            seen.push(key);
            lines.push(event_line(event));
        }
    }
    lines
}

/// Returns a message without numbers and pod names, which differ between attempts.
fn without_variable_parts(message: &str) -> String {
    let message = create_failure::refusal(message);
    message.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns an event as a report has it.
fn event_line(event: &Event) -> EventLine {
    EventLine {
        at: event.last_seen(),
        count: event.times(),
        type_: event.type_.clone(),
        reason: event.reason.clone(),
        message: event.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};
    use crate::report::node_coverage::PodStory;

    fn told(world: World) -> PodStory {
        world.only_node().explanation.unwrap().pods.remove(0)
    }

    fn plain() -> World {
        world().node("n", json!({}))
    }

    #[test]
    fn the_grace_period_is_told_until_it_is_over_and_then_how_long_ago_that_was() {
        for (deadline, words) in [("12:00:20", "left: 20s"), ("12:00:00", "left: 0s"), ("11:50:00", "10m past")] {
            let pod = json!({"metadata": {"deletionTimestamp": at(deadline)}});
            let phase = told(plain().pod("agent-x", "n", pod)).phase;
            assert!(phase.contains(words), "{phase}");
        }
    }

    #[test]
    fn a_waiting_container_is_told_with_what_the_kubelet_says_of_it() {
        let state = |waiting: Value| {
            let status = json!({"state": {"waiting": waiting}});
            told(plain().unready_pod("agent-x", "n", status, json!({}))).containers.remove(0).state
        };
        assert_eq!(state(json!({"reason": "ContainerCreating"})), "waiting: ContainerCreating");
        let message = json!({"reason": "ErrImagePull", "message": "no such image\n"});
        assert_eq!(state(message), "waiting: ErrImagePull: no such image");
    }

    #[test]
    fn what_the_scheduler_reports_is_not_told_again_as_a_condition() {
        let conditions = json!([
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Too many pods."},
            {"type": "example.com/approved", "status": "False"},
        ]);
        let pod = json!({"status": {"conditions": conditions}});
        assert_eq!(told(plain().pending_pod("agent-x", "n", "", pod)).conditions, ["example.com/approved=False"]);
    }

    #[test]
    fn each_readiness_gate_is_told_with_its_condition() {
        let pod = json!({
            "spec": {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]},
            "status": {"conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]},
        });
        let gates = told(plain().pod("agent-x", "n", pod)).readiness_gates;
        assert_eq!(gates, ["a is met", "b is not met: False", "c is not met: the condition was never set"]);
    }

    #[test]
    fn events_that_differ_in_numbers_alone_are_told_once() {
        let world = plain()
            .pod("agent-x", "n", json!({}))
            .event("Pod", "agent-x", "Pulling", "attempt 1", "11:57:00")
            .event("Pod", "agent-x", "Pulling", "attempt 2", "11:58:00")
            .event("Pod", "agent-x", "Pulling", "done", "11:59:00");
        let events = told(world).events;
        assert_eq!(events.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), ["done", "attempt 2"]);
    }

    #[test]
    fn the_five_newest_events_are_told() {
        let world = ["a", "b", "c", "d", "e", "f"]
            .iter()
            .zip(51..)
            .fold(plain().pod("agent-x", "n", json!({})), |world, (reason, minute)| {
                world.event("Pod", "agent-x", reason, "", &format!("11:{minute}:00"))
            });
        let reasons: Vec<String> = told(world).events.into_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["f", "e", "d", "c", "b"]);
    }
}
