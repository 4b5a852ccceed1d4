//! Containers that the kubelet kills because a probe or a hook fails.

use jiff::Timestamp;

use super::containers::Observed;
use super::daemon_set_context::Subject;
use super::finding::{Finding, edit, logs};
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::pod::{Container, ContainerStateTerminated, Pod, Probe};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// The grace period of pods that set none, in seconds.
const GRACE_PERIOD: i64 = 30;

/// How many seconds after the grace period of a container that was killed its end is at most.
const SLACK: i64 = 60;

/// The exit codes of containers that were told to end: by SIGKILL or SIGTERM, or of their own accord because of it.
const KILLED: [i32; 3] = [137, 143, 0];

/// The probes that restart a container, with what their events begin with.
const PROBES: [(&str, &str); 2] = [("liveness", "Liveness probe "), ("startup", "Startup probe ")];

/// Finds that the kubelet has killed a container because its liveness or startup probe fails.
///
/// The events are those of `computePodActions`, pkg/kubelet/kuberuntime/kuberuntime_manager.go, and `probe`,
/// pkg/kubelet/prober/prober.go, release 1.37.2. The first one, `Killing`, is no warning, and not read for an overview.
pub fn killed(
    subject: &Subject,
    pod: &Pod,
    (role, container, status): Observed,
    end: Option<&ContainerStateTerminated>,
    events: &[&Event],
) -> Option<Finding> {
    let end = end?;
    let find = |reason: &str, says: &dyn Fn(&str) -> bool| {
        own_events(pod, container, end, events).find(|event| event.reason == reason && says(&event.message))
    };
    let (kind, failure) = PROBES.into_iter().find_map(|(kind, begins)| {
        let is_killed = find("Killing", &|said| said.contains(&format!("failed {kind} probe"))).is_some();
        let failure = find("Unhealthy", &|said| said.starts_with(begins));
        let is_likely = failure.is_some() && probe(container, kind).is_some() && KILLED.contains(&end.exit_code);
        (is_killed || is_likely).then_some((kind, failure))
    })?;
    let timeout = probe(container, kind).map_or(1, |probe| probe.timeout_seconds.max(1));
    let said = failure.map_or("", |failure| failure.message.as_str()).to_lowercase();
    // `grpc_health_probe` has a timeout of its own for the connection: nothing listens.
    let is_slow = ["timed out", "timeout", "deadline exceeded"].iter().any(|words| said.contains(words))
        && !said.contains("failed to connect");
    let within = if is_slow { format!(" (timeoutSeconds: {timeout})") } else { String::new() };
    let mut message = Sentence::from(format!(
        "{} {} is killed by the kubelet because its {kind} probe fails{within}",
        role.noun(),
        container.name
    ));
    if let Some(failure) = failure {
        message = message.words(": ").event(failure, subject.index.now());
    }
    let message = message.words("; restarts: ").number(i64::from(status.restart_count));
    let finding = |advice: String| Finding::new(ReasonCode::LivenessFailing, message.clone().apart(&advice), advice);
    Some(match (is_slow, kind) {
        (true, _) => finding(format!(
            "raise timeoutSeconds of the {kind} probe, or give the container more cpu: it answers too late, which its log does not show"
        ))
        .with_command(edit(subject.daemon_set)),
        (false, "startup") => finding(
            "correct the startup probe, or raise its failureThreshold if the container takes longer to start".to_owned(),
        )
        .with_command(edit(subject.daemon_set)),
        (false, _) => finding(format!("correct the {kind} probe, or find out why the container does not pass it"))
            .with_command(logs(subject.daemon_set, pod, &container.name, true)),
    })
}

/// Finds that the kubelet has killed a container because its postStart hook failed.
///
/// The event is that of `startContainer`, pkg/kubelet/kuberuntime/kuberuntime_container.go, release 1.37.2, which does not tell why.
pub fn hook_failed(
    subject: &Subject,
    pod: &Pod,
    (role, container, status): Observed,
    end: Option<&ContainerStateTerminated>,
    events: &[&Event],
) -> Option<Finding> {
    let failed = own_events(pod, container, end?, events).find(|event| event.reason == "FailedPostStartHook")?;
    let killed =
        format!("{} {} is killed by the kubelet because its postStart hook fails: ", role.noun(), container.name);
    let message = Sentence::from(killed).event(failed, subject.index.now());
    let message = message.words("; restarts: ").number(i64::from(status.restart_count));
    let advice = "correct the postStart hook in the template: its command has to end with exit code 0, or its request to succeed; \
                  the log of the container does not show why";
    Some(Finding::new(ReasonCode::ContainerConfigError, message, advice).with_command(edit(subject.daemon_set)))
}

/// Returns the events about a container that may be about its last end.
fn own_events<'e>(
    pod: &Pod,
    container: &Container,
    end: &ContainerStateTerminated,
    events: &[&'e Event],
) -> impl Iterator<Item = &'e Event> {
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_PERIOD) + SLACK;
    let ended = end.finished_at.get();
    let is_then = move |at: Timestamp| ended.is_none_or(|ended| seconds_between(at, ended) <= grace);
    let own = format!("{{{}}}", container.name);
    let is_own =
        move |event: &&Event| event.involved_object.field_path.ends_with(&own) && event.last_seen().is_none_or(is_then);
    events.iter().copied().filter(is_own)
}

/// Returns the probe of a container that restarts it.
fn probe<'c>(container: &'c Container, kind: &str) -> Option<&'c Probe> {
    match kind {
        "startup" => container.startup_probe.as_ref(),
        _ => container.liveness_probe.as_ref(),
    }
}
