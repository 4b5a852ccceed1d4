//! Which container keeps a pod from being ready, and why.

use super::PROGRESS_DEADLINE;
use super::admission_changes::of_container;
use super::cause::{Cause, FixIn, cause};
use super::crashes::{
    all_restarting, beside_old_pod, crash, crash_looping, end_text, is_log_of_previous, out_of_memory, sandbox_changes,
};
use super::creation_errors::creation_failed;
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, describe_node, describe_pod, edit, log_before, logs};
use super::images::image_pull_failed;
use super::node_images::{long_pull, of_digest};
use super::probes;
use super::roles::{
    Observed, Role, all_started, first_part, has_started, is_done, lost_its_sandbox, reached_part, walk,
};
use super::sentence::Sentence;
use super::services::{gpu_links, of_gpu, of_service};
use super::telling::{only_follows, telling_line};
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use crate::report::age::seconds_between;
use crate::report::reason::{Passing, ReasonCode};
use jiff::Timestamp;

/// For how many seconds at least a probe has succeeded that is not wrong itself.
const PASSED: i64 = 600;

/// Returns how the first container that failed terminated.
pub fn last_end(pod: &Pod) -> Option<String> {
    walk(pod).find_map(|(_, container, status)| {
        let end = status?.state.terminated.as_ref().filter(|end| end.exit_code != 0)?;
        Some(format!("{}: {}", container.name, end_text(end)))
    })
}

/// Finds why the containers of a bound pod are not ready.
pub fn findings(subject: &Subject, node: Option<&Node>, pod: &Pod, events: &[&Event]) -> Vec<Finding> {
    let now = subject.now();
    let mut found = Vec::new();
    for (role, container, status) in walk(pod) {
        let Some(status) = status else { continue };
        let this = (role, container, status);
        let before = image_pull_failed(subject, pod, this, events).into_iter();
        let before = before.chain(creation_failed(subject, pod, this)).map(|finding| (Says::Why, finding));
        let mut ran = None;
        let ended = crash(pod, now, this).map(|end| {
            let (says, ended) = why_ended(subject, node, pod, this, end, events);
            ran = end.and_then(ran_for);
            (says, of_digest(subject, pod, container, status, ended))
        });
        let of_this = before.chain(ended);
        found.extend(of_this.map(|(says, finding)| {
            let finding = of_container(subject, pod, container, finding).depends_on(first_part(pod, role, container));
            (says, ran, container, finding)
        }));
    }
    // It may be killed because that one does not answer for it.
    let answering = probes::answering(pod, events);
    let crashes = |finding: &Finding| finding.code == ReasonCode::CrashLooping;
    // A container may crash only because another one has not started, or was killed; what has waited for that ends later.
    found.sort_by_key(|(says, ran, container, finding)| {
        let ran = ran.filter(|_| *says == Says::Nothing).unwrap_or_default();
        (answering != Some(container.name.as_str()), *says, crashes(finding), ran)
    });
    let others = found.iter().skip(1).filter(|(says, .., finding)| *says == Says::Nothing && crashes(finding));
    let others: Vec<(&str, Option<i64>)> =
        others.map(|(_, ran, container, _)| (container.name.as_str(), *ran)).collect();
    // Nothing tells which of them is the cause.
    if let Some((Says::Nothing, _, _, first)) = found.first_mut().filter(|(.., first)| crashes(first)) {
        for (name, ran) in others {
            let also = Sentence::from(format!("; container {name} also crashes"));
            let also = ran.into_iter().fold(also, |also, ran| also.words(" after running for ").age(ran));
            *first = first.clone().and(also);
        }
    }
    // What they wait for may run without answering.
    let all_follow = found.first().is_some_and(|(says, ..)| *says == Says::OfAnother);
    let awaited = all_follow.then(|| readiness_failing(subject, pod, events)).flatten();
    let mut findings: Vec<Finding> =
        awaited.into_iter().chain(found.into_iter().map(|(.., finding)| finding)).collect();
    if !findings.is_empty() {
        findings.splice(0..0, sandbox_changes(subject, pod, events));
    }
    findings.extend(all_restarting(pod));
    findings.extend(init_blocked(subject, pod, events, !findings.is_empty()));
    if !findings.is_empty() {
        return findings;
    }
    if !all_started(pod) {
        return vec![containers_starting(subject, pod, events).depends_on(reached_part(pod, events))];
    }
    readiness_failing(subject, pod, events).into_iter().collect()
}

/// Returns for how many seconds a container has run.
fn ran_for(end: &ContainerStateTerminated) -> Option<i64> {
    let (from, to) = end.started_at.get().zip(end.finished_at.get())?;
    Some(seconds_between(from, to))
}

/// What is said of the end of a container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Why,
    /// It may only lack another container, which says why.
    Nothing,
    /// Another container has ended.
    OfAnother,
}

fn said_of(end: &ContainerStateTerminated) -> Says {
    match telling_line(&end.message) {
        _ if end.reason == "OOMKilled" => Says::Why,
        Some(said) if only_follows(said) => Says::OfAnother,
        Some(_) => Says::Why,
        None => Says::Nothing,
    }
}

/// Returns why a container has ended, and what is said of that.
fn why_ended(
    subject: &Subject,
    node: Option<&Node>,
    pod: &Pod,
    this: Observed,
    end: Option<&ContainerStateTerminated>,
    events: &[&Event],
) -> (Says, Finding) {
    // The kubelet says what it has killed itself.
    let by_kubelet = || {
        let hook = probes::hook_failed(subject, pod, this, end, events);
        hook.or_else(|| probes::killed(subject, pod, this, end, events))
    };
    let no_memory = || out_of_memory(subject, node, pod, this, end);
    let killed = match end.is_some_and(|end| end.reason == "OOMKilled") {
        true => no_memory().or_else(by_kubelet),
        false => by_kubelet().or_else(no_memory),
    };
    if let Some(killed) = killed {
        return (Says::Why, killed);
    }
    let crash = beside_old_pod(subject, pod, crash_looping(subject, pod, this, end), end);
    let says = end.map_or(Says::Nothing, said_of);
    (says, of_service(subject, pod, crash, end))
}

/// After how many restarts a container that is ready, or was just now, does not count as working: a node that reboots restarts each once.
pub const MANY_RESTARTS: i64 = 3;

/// In how many seconds at most it must have been restarted once on average: nodes reboot once in a while.
const LONGEST_INTERVAL: i64 = 86_400;

/// Returns whether so many restarts in so many seconds are those of something that keeps failing.
pub fn restarts_often(restarts: i64, seconds: i64) -> bool {
    restarts >= MANY_RESTARTS && restarts.saturating_mul(LONGEST_INTERVAL) >= seconds
}

/// How many seconds ago at most a container must have failed the last time to be told of, although it runs.
const ENDED_LATELY: i64 = 6 * 3600;

/// Returns how a container has ended the last time, if it ends again and again, and that was within so many seconds.
fn ended_again<'a>(
    pod: &Pod,
    status: &'a ContainerStatus,
    now: Timestamp,
    within: i64,
) -> Option<&'a ContainerStateTerminated> {
    let age = seconds_between(pod.metadata.creation_timestamp.get()?, now);
    let end = status.last_state.terminated.as_ref().filter(|_| restarts_often(i64::from(status.restart_count), age))?;
    // The sandboxes of a node that reboots leave ends that are unknown.
    let is_late = |at: Timestamp| seconds_between(at, now) <= within;
    Some(end).filter(|end| !end.is_unknown() && end.finished_at.get().is_some_and(is_late))
}

/// Returns whether a container of a pod ends again and again, and just has: even if it is ready, it is likely to end again.
pub(crate) fn keeps_ending(pod: &Pod, now: Timestamp) -> bool {
    pod.container_statuses().any(|status| ended_again(pod, status, now, PROGRESS_DEADLINE).is_some())
}

/// Finds a container of an available pod that keeps failing, although it runs at the moment.
pub fn keeps_restarting(subject: &Subject, node: &Node, pod: &Pod) -> Option<Finding> {
    if pod.restarts() < MANY_RESTARTS {
        return None;
    }
    let (role, container, status, end) = walk(pod).find_map(|(role, container, status)| {
        let status = status.filter(|_| role != Role::Init)?;
        let end = ended_again(pod, status, subject.now(), ENDED_LATELY).filter(|end| end.exit_code != 0)?;
        Some((role, container, status, end))
    })?;
    let events = subject.index.events_about("Pod", &pod.metadata);
    let (_, ended) = why_ended(subject, Some(node), pod, (role, container, status), Some(end), &events);
    let finding = of_container(subject, pod, container, ended);
    // The log of a container that runs does not tell how it ended before.
    let is_log = finding.command.as_ref().is_some_and(|command| command.verbs() == ("ds", "logs"));
    Some(if is_log { finding.with_command(log_before(pod, &container.name)) } else { finding })
}

/// The container whose log tells most about a pod, and whether that of its previous run does, with its termination message if it
/// crashes; empty if it has none.
type TellingLog<'a> = (&'a str, bool, &'a str);

/// Returns the container whose log tells most about a pod: of those that crash, the one that is not seen to follow another, or else one
/// that keeps the pod from being ready, or else one that is no init container. With `only`, that container; `None` if the pod has none of
/// that name.
pub fn telling_log<'a>(pod: &'a Pod, only: Option<&str>, now: Timestamp) -> Option<TellingLog<'a>> {
    let containers = || walk(pod).filter(|(_, container, _)| only.is_none_or(|only| only == container.name));
    let crashed = containers().filter_map(|(role, container, status)| {
        let status = status?;
        let end = crash(pod, now, (role, container, status))?;
        let previous = is_log_of_previous(container, status, end);
        let (says, ran) = end.map_or((Says::Nothing, None), |end| (said_of(end), ran_for(end)));
        let is_killed = end.is_some_and(|end| end.reason == "OOMKilled");
        let order = (says, !is_killed, ran.filter(|_| says == Says::Nothing).unwrap_or_default());
        Some((order, (container.name.as_str(), previous, end.map_or("", |end| &end.message))))
    });
    let crashed = crashed.min_by_key(|(order, _)| *order).map(|(_, log)| log);
    let is_unready = |(role, _, status): &(Role, _, Option<&ContainerStatus>)| {
        status.is_some_and(|status| has_started(status) && !status.ready && !(*role == Role::Init && is_done(status)))
    };
    let name = |(_, container, _): (Role, &'a Container, _)| (container.name.as_str(), false, "");
    crashed
        .or_else(|| containers().find(is_unready).map(name))
        .or_else(|| containers().find(|(role, ..)| *role == Role::Container).map(name))
        .or_else(|| containers().next().map(name))
}

/// Finds an init container that has not completed; if another finding tells why it is not created, there is no more to say.
fn init_blocked(subject: &Subject, pod: &Pod, events: &[&Event], is_told: bool) -> Option<Finding> {
    // What has started after a sidecar shows that it had started, whatever has become of it since.
    let runs = pod.status.container_statuses.iter().any(|status| status.state.running.is_some());
    let (role, container, status) = walk(pod).find(|(role, _, status)| match role {
        Role::Container => false,
        Role::Init => !status.is_some_and(is_done),
        Role::Sidecar => !runs && !status.is_some_and(|status| status.started == Some(true) || status.ready),
    })?;
    let status = status?;
    let waits_for_a_reason = status.state.waiting.as_ref().is_some_and(|waiting| !waiting.reason.is_empty());
    // It has no log yet.
    if !has_started(status) && (is_told || !waits_for_a_reason || status.is_being_created()) {
        return None;
    }
    let is_of_probe = |event: &&Event| event.reason == "Unhealthy" && event.container() == Some(&container.name);
    if role == Role::Sidecar && status.started == Some(false) && events.iter().any(is_of_probe) {
        return Some(readiness_failing(subject, pod, events)?.depends_on(first_part(pod, role, container)));
    }
    let mut message = Sentence::from(format!("{} {} has not completed", role.noun(), container.name));
    if role == Role::Sidecar {
        message = Sentence::from(format!("sidecar {} has not started", container.name));
    }
    if let Some(since) = status.state.running.as_ref().and_then(|running| running.started_at.get()) {
        message = message.words(", running for ").age(subject.seconds_since(since));
    }
    let finding = Finding::new(ReasonCode::InitBlocked, message, "read the log");
    let finding = finding.with_command(logs(subject, pod, &container.name, false));
    let first = gpu_links(&container.name).and_then(|links| of_gpu(subject, pod, links, &finding));
    Some(first.unwrap_or(finding).depends_on(first_part(pod, role, container)))
}

/// What the kubelet warns of while it starts a pod, and that has no finding of its own.
const AT_START: &[Cause] = &[
    cause(
        FixIn::Template,
        &["consider using onrootmismatch", "setting volume ownership for "],
        "wait: the kubelet gives every file of the volume to fsGroup; with fsGroupChangePolicy: OnRootMismatch in the securityContext of \
         the template, it does so only once",
    ),
    cause(
        FixIn::Node,
        &["error determining status", "unable to ensure pod container exists", "error making pod data directories"],
        "restart the container runtime and the kubelet of the node, and check its disk: they cannot tell or make what the pod needs there",
    ),
];

/// Finds that the containers are still starting.
fn containers_starting(subject: &Subject, pod: &Pod, events: &[&Event]) -> Finding {
    let waiting = walk(pod).find_map(|(role, container, status)| {
        let reason = &status?.state.waiting.as_ref()?.reason;
        let is_first = !walk(pod).any(|(_, _, status)| status.is_some_and(has_started));
        let what =
            if is_first { "the containers have".to_owned() } else { format!("{} {} has", role.noun(), container.name) };
        Some((what, reason))
    });
    let state = match waiting {
        _ if lost_its_sandbox(pod) => {
            "the sandbox of the pod was lost, as when its node is rebooted, and the containers have not started again"
                .to_owned()
        }
        Some((what, reason)) if !reason.is_empty() => format!("{what} not started ({reason})"),
        Some((what, _)) => format!("{what} not started"),
        None => "the kubelet has not started the pod".to_owned(),
    };
    let started = pod.status.start_time.get().or_else(|| {
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time.get());
        bound.or_else(|| pod.metadata.creation_timestamp.get())
    });
    let before = pod.unready_since().filter(|_| lost_its_sandbox(pod) || pod.restarts() > 0);
    let since = before.or(started);
    let message = match since {
        Some(since) => Sentence::from(state).words(" for ").age(subject.seconds_since(since)),
        None => Sentence::from(state),
    };
    let finding =
        |message: Sentence, advice: &str| Finding::new(ReasonCode::ContainersStarting, message, advice.to_owned());
    const LOOK: &str = "wait; if it persists, look at the pod";
    const LATE: &str = "look at the pod; if its events do not tell why, read the logs of the kubelet and the container runtime on its node";
    // A provider of virtual nodes says here why it does not run the pod (node/pod.go, github.com/virtual-kubelet/virtual-kubelet).
    if !pod.status.reason.is_empty() {
        let message = message.words("; ").value(&pod.status.reason).words(": ").value(pod.status.message.trim());
        let finding = match pod.status.reason == "ProviderFailed" {
            true => finding(message, "see why the provider of the node does not run the pod, or exclude the node")
                .with_origin(Origin::Node)
                .with_passing(Passing::Never),
            false => finding(message, LOOK),
        };
        return finding.with_command(describe_pod(pod));
    }
    // What was said of the scheduling is over.
    let now = subject.now();
    let warns =
        |event: &&&Event| event.type_ == "Warning" && event.reason != "FailedScheduling" && event.is_recent(now);
    let Some(event) = events.iter().find(warns) else {
        let look = || match since.is_some_and(|since| seconds_between(since, now) > PROGRESS_DEADLINE) {
            true => finding(message.clone(), LATE),
            false => finding(message.clone(), LOOK),
        };
        return long_pull(subject, pod, &message, events).unwrap_or_else(look).with_command(describe_pod(pod));
    };
    let message = message.words("; ").value(&event.reason).words(": ").event(event, subject.now());
    match Cause::among(AT_START, &event.message) {
        Some(cause) if cause.fix_in == FixIn::Node => finding(message, cause.advice).with_origin(Origin::Node),
        Some(cause) => finding(message, cause.advice).with_command(edit(subject.daemon_set)),
        None => finding(message, LOOK).with_command(describe_pod(pod)),
    }
}

/// Finds a container that runs but is not ready: its probe fails.
fn readiness_failing(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let runs = |status: &ContainerStatus| status.state.waiting.is_none() && status.state.terminated.is_none();
    let mut containers = walk(pod).filter(|(role, ..)| *role != Role::Init);
    let (role, container, status) =
        containers.find(|(_, _, status)| status.is_some_and(|status| !status.ready && runs(status)))?;
    let probe = if status?.started == Some(false) { "startup" } else { "readiness" };
    let mut message = Sentence::from(format!(
        "{} {} is running, but its {probe} probe has been failing",
        role.noun(),
        container.name
    ));
    let since = pod.condition("Ready").and_then(|ready| ready.last_transition_time.get());
    let started = status.and_then(|status| status.state.running.as_ref()?.started_at.get());
    // A pod that is not ready from the start has no other time of that.
    let passed_for = started.zip(since).map(|(started, since)| seconds_between(started, since));
    let passed_for = passed_for.filter(|seconds| *seconds > PASSED && probe == "readiness");
    if let Some(since) = since {
        message = message.words(" for ").age(subject.seconds_since(since));
    }
    if let Some(seconds) = passed_for {
        message = message.words(", and succeeded for ").age(seconds).words(" before");
    }
    let unhealthy = || events.iter().copied().filter(|event| event.reason == "Unhealthy");
    let failed = unhealthy().find(|event| event.container() == Some(&container.name)).or_else(|| unhealthy().next());
    if let Some(event) = failed {
        message = message.words(": ").event(event, subject.now());
    }
    // A pod of the host network has the address of its own node, which may wait for it.
    let down = failed.and_then(|event| subject.index.down_in(&event.message));
    if let Some((address, down)) = down.filter(|(_, down)| down.metadata.name != pod.spec.node_name) {
        let name = &down.metadata.name;
        let message = message.words(format!("; {address} is node {name}, which is not ready"));
        let advice = format!(
            "repair node {name}, or delete its Node object if its machine no longer exists: the container works, and waits for it"
        );
        return Some(Finding::new(ReasonCode::ReadinessFailing, message, advice).with_command(describe_node(down)));
    }
    let unreached = failed.and_then(|event| probes::unreached(subject, pod, container, probe, &event.message));
    let answered = failed.filter(|_| unreached.is_none()).and_then(|event| {
        let (advice, timeout) = probes::answered(subject, pod, container, probe, &event.message)?;
        let within = timeout.map_or(String::new(), |seconds| format!(" (timeoutSeconds: {seconds})"));
        Some((message.clone().words(within), advice))
    });
    if let Some((message, advice)) = answered.filter(|_| passed_for.is_none()) {
        let finding = Finding::new(ReasonCode::ReadinessFailing, message.apart(&advice), advice);
        return Some(of_container(subject, pod, container, finding.with_command(edit(subject.daemon_set))));
    }
    let is_starting = started.is_some_and(|started| {
        let longest = probes::longest_start(subject, pod, container);
        probe == "startup" && longest.is_some_and(|longest| subject.seconds_since(started) < longest)
    });
    let advice = match passed_for {
        Some(_) => {
            "find out what has changed since: what the program depends on, its node, or its load; the log may tell"
        }
        None if is_starting => "wait: the kubelet restarts the container only if its startup probe keeps failing",
        None => "fix the probe, or what keeps it from succeeding",
    };
    let finding = Finding::new(ReasonCode::ReadinessFailing, message, advice);
    if let Some(cause) = unreached {
        return Some(probes::of_unreached(subject, pod, finding, cause));
    }
    Some(of_container(subject, pod, container, finding.with_command(logs(subject, pod, &container.name, false))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::telling_log;
    use crate::coverage::test_support::{at, merge, world};
    use crate::coverage::verdict::crashes::last_words;
    use crate::coverage::verdict::roles::{all_started, none_created};
    use crate::model::pod::{ContainerStateTerminated, Pod};
    use crate::report::reason::{Reason, ReasonCode};

    /// Returns the reasons for a pod whose container has that status.
    fn reasons(status: Value) -> Vec<Reason> {
        world().node("n", json!({})).unready_pod("agent-x", "n", status, json!({})).only_node().reasons
    }

    #[test]
    fn a_container_that_was_restarted_has_started() {
        for (status, none) in [
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), true),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 2}), false),
            (json!({"state": {"running": {}}}), false),
            (json!({"lastState": {"terminated": {"exitCode": 1}}}), false),
        ] {
            let mut pod =
                json!({"spec": {"containers": [{"name": "agent"}]}, "status": {"containerStatuses": [status]}});
            pod["status"]["containerStatuses"][0]["name"] = json!("agent");
            assert_eq!(none_created(&from_value::<Pod>(pod.clone()).unwrap()), none, "{pod}");
        }
    }

    #[test]
    fn the_last_end_counts_while_it_is_why_the_container_does_not_run() {
        let status = |state: Value, ended: &str| {
            json!({"restartCount": 3, "state": state,
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(ended)}}})
        };
        let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        for (status, code) in [
            (status(waiting("", ""), "11:40:00"), ReasonCode::CrashLooping),
            // The node has rebooted.
            (status(waiting("ContainerCreating", ""), "11:59:40"), ReasonCode::ContainersStarting),
            (status(waiting("PodInitializing", ""), "11:40:00"), ReasonCode::ContainersStarting),
            (status(waiting("ImagePullBackOff", "no such image"), "11:59:00"), ReasonCode::ImagePullFailed),
            (status(json!({"running": {}}), "11:50:01"), ReasonCode::CrashLooping),
            (status(json!({"running": {}}), "11:50:00"), ReasonCode::ReadinessFailing),
        ] {
            let codes: Vec<ReasonCode> = reasons(status.clone()).iter().map(|reason| reason.code).collect();
            assert_eq!(codes, [code], "{status}");
        }
    }

    #[test]
    fn the_log_of_the_container_that_is_at_fault_tells_most() {
        let now = at("12:00:00").parse().unwrap();
        let last = json!({"terminated": {"exitCode": 1, "message": "no route"}});
        let crashing =
            json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last});
        let mut killed = crashing.clone();
        killed["lastState"]["terminated"]["reason"] = json!("OOMKilled");
        let running = json!({"ready": true, "state": {"running": {}}});
        let unready = json!({"state": {"running": {}}});
        let ended = json!({"state": {"terminated": {"exitCode": 1}}});
        let done = json!({"state": {"terminated": {"exitCode": 0}}});
        for (init, main, side, expected) in [
            (&done, &running, &running, ("main", false)),
            (&done, &running, &crashing, ("side", true)),
            (&done, &unready, &crashing, ("side", true)),
            (&done, &crashing, &killed, ("side", true)),
            (&done, &running, &unready, ("side", false)),
            (&done, &running, &ended, ("side", false)),
            (&crashing, &json!({}), &json!({}), ("init", true)),
            (&unready, &json!({}), &json!({}), ("init", false)),
            (&json!({}), &json!({}), &json!({}), ("main", false)),
        ] {
            let named = |name: &str, status: &Value| {
                let mut status = status.clone();
                status["name"] = json!(name);
                status
            };
            let pod = json!({
                "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}, {"name": "side"}]},
                "status": {"initContainerStatuses": [named("init", init)],
                    "containerStatuses": [named("main", main), named("side", side)]},
            });
            let pod: Pod = from_value(pod).unwrap();
            let expected = (expected.0, expected.1, if expected.1 { "no route" } else { "" });
            assert_eq!(telling_log(&pod, None, now), Some(expected), "{pod:?}");
            assert_eq!(telling_log(&pod, Some("absent"), now), None);
            assert_eq!(telling_log(&pod, Some(expected.0), now), Some(expected));
        }
    }

    /// The kubelet has removed it with all containers.
    #[test]
    fn a_container_whose_end_restarts_all_has_no_log_of_its_previous_run() {
        let rule = |values: Value| json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": values}}]);
        let status = json!({"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}}});
        for (values, previous) in [(json!([1]), false), (json!([2]), true)] {
            let container = json!({"name": "main", "restartPolicyRules": rule(values)});
            let pod = json!({"spec": {"containers": [container]}, "status": {"containerStatuses": [status]}});
            let pod: Pod = from_value(pod).unwrap();
            assert_eq!(telling_log(&pod, None, at("12:00:00").parse().unwrap()), Some(("main", previous, "")));
        }
    }

    #[test]
    fn a_command_that_ends_by_itself_needs_other_advice_than_one_that_fails() {
        let advice = |exit_code: i32| {
            let status = json!({"state": {"terminated": {"exitCode": exit_code}}});
            reasons(status).remove(0).fix.advice
        };
        assert_ne!(advice(0), advice(1));
    }

    #[test]
    fn the_last_line_of_a_termination_message_is_cut_if_it_is_long() {
        let words = |message: &str| {
            last_words(&ContainerStateTerminated { message: message.to_owned(), ..ContainerStateTerminated::default() })
        };
        assert_eq!(words("first\nlast \n\n").as_deref(), Some("last"));
        let longest = "x".repeat(320);
        assert_eq!(words(&longest).as_ref(), Some(&longest));
        let half = "x".repeat(160);
        assert_eq!(words(&format!("{half}yyy{half}")), Some(format!("{half}…{half}")));
    }

    #[test]
    fn the_event_of_a_containers_own_probe_comes_before_newer_ones() {
        let mut world = world()
            .node("n", json!({}))
            .unready_pod("agent-x", "n", json!({"started": true, "state": {"running": {}}}), json!({}))
            .event("Pod", "agent-x", "Unhealthy", "HTTP 503", "11:57:00")
            .event("Pod", "agent-x", "Unhealthy", "HTTP 404", "11:58:00")
            .event("Pod", "agent-x", "Pulled", "HTTP 200", "11:59:00");
        for (event, container) in world.snapshot.events.iter_mut().zip(["agent", "proxy", "agent"]) {
            event.involved_object.field_path = format!("spec.containers{{{container}}}");
        }
        let reason = world.only_node().reasons.remove(0);
        assert!(reason.code == ReasonCode::ReadinessFailing && reason.message.contains("503"), "{reason:?}");
    }

    #[test]
    fn a_pod_that_runs_at_the_moment_is_told_if_it_keeps_failing() {
        let restarting = |restarts: i32, end: Value, created: &str| {
            let mut status = json!({"name": "agent", "ready": true, "restartCount": restarts, "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at("11:20:00")}}});
            merge(&mut status["lastState"]["terminated"], end);
            let pod = json!({"metadata": {"creationTimestamp": created}, "status": {"containerStatuses": [status]}});
            let coverage = world().node("n", json!({})).pod("agent-x", "n", pod).coverage();
            assert!(coverage.problems.is_empty() && coverage.counts.available == Some(1));
            coverage.restarting.into_iter().map(|group| (group.code, group.fix.command.unwrap().to_string())).next()
        };
        let (at_eleven, an_age_ago) = (at("11:00:00"), "2026-02-20T00:00:00Z");
        let log = "kubectl logs -n default -c agent --previous agent-x";
        let told = |code, command: &str| Some((code, command.to_owned()));
        assert_eq!(restarting(3, json!({}), &at_eleven), told(ReasonCode::CrashLooping, log));
        let killed = restarting(3, json!({"reason": "OOMKilled"}), &at_eleven);
        assert_eq!(killed, told(ReasonCode::OOMKilled, "kubectl edit ds -n default agent"));
        assert_eq!(restarting(2, json!({}), &at_eleven), None, "twice");
        assert_eq!(restarting(3, json!({}), an_age_ago), None, "three times in nine days");
        assert_eq!(restarting(30, json!({}), an_age_ago), told(ReasonCode::CrashLooping, log));
        assert_eq!(restarting(9, json!({"finishedAt": at("05:00:00")}), &at_eleven), None, "long ago");
        assert_eq!(restarting(9, json!({"exitCode": 0}), &at_eleven), None, "by itself");
        let rebooted = json!({"exitCode": 255, "reason": "Unknown"});
        assert_eq!(restarting(9, rebooted, &at_eleven), None, "with its node");
    }

    #[test]
    fn containers_that_wait_without_a_reason_are_starting() {
        let reason = reasons(json!({"state": {"waiting": {}}})).remove(0);
        assert!(reason.code == ReasonCode::ContainersStarting && !reason.message.contains("()"), "{reason:?}");
    }

    #[test]
    fn a_pod_has_started_once_its_init_containers_have_completed() {
        for (state, all) in [
            (json!({"running": {}}), false),
            (json!({"terminated": {"exitCode": 1}}), false),
            (json!({"terminated": {"exitCode": 0}}), true),
        ] {
            let pod = json!({
                "spec": {"initContainers": [{"name": "migrate"}], "containers": [{"name": "agent"}]},
                "status": {
                    "initContainerStatuses": [{"name": "migrate", "state": state}],
                    "containerStatuses": [{"name": "agent", "restartCount": 1}],
                },
            });
            assert_eq!(all_started(&from_value::<Pod>(pod.clone()).unwrap()), all, "{pod}");
        }
    }
}
