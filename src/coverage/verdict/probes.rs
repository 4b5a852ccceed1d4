//! Containers that the kubelet kills because a probe or a hook fails.

use jiff::Timestamp;
use serde_json::Value;

use super::cause::{Also, Cause, FixIn, cause};
use super::crashes::{about_last_words, last_words};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, describe_bound_node, edit, logs};
use super::images::template_of;
use super::roles::{Observed, walk};
use super::sandbox::pods_of_node;
use super::sentence::Sentence;
use super::telling::{quoted, telling_line, tells_of_failure};
use crate::model::event::Event;
use crate::model::pod::{Container, ContainerStateTerminated, ContainerStatus, Pod, Probe};
use crate::model::template_parts::containers;
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

/// What a kubelet says of its own connection to a pod if that is neither answered nor refused: what listens there has no part in it.
const CONNECTIONS: &[Cause] = &[
    cause(
    FixIn::Node,
    &[
        "dial tcp …: connect: no route to host",
        "dial tcp …: connect: network is unreachable",
        "dial tcp …: connect: invalid argument",
        "dial tcp …: connect: operation not permitted",
        "dial tcp …: connect: permission denied",
    ],
    "check the firewall, the routes and the network plugin of the node: its kubelet gets no connection to the pod, whatever the program \
     does; see whether the probes of other pods there fail, too",
    )
    .and(Also::ShowPodsOfNode),
    // A program that accepts no more connections is not told from a network that loses them.
    cause(
        FixIn::Host,
        &["dial tcp …: connect: connection timed out", "dial tcp …: i/o timeout"],
        "see whether the probes of other pods of the node fail, too: then check its firewall and network plugin; otherwise the program \
         accepts no connections, as if it hung",
    )
    .and(Also::ShowPodsOfNode),
];

/// What a container runtime says of the command of a probe that it cannot start.
const COMMANDS: &[Cause] = &[
    cause(
        FixIn::Template,
        &[
            "exec: \"…executable file not found",
            "executable file `…` not found",
            "exec: \"…no such file or directory",
            "exec: \"…permission denied",
        ],
        "correct the command of the probe in the template: the image does not have it, or its user may not execute it",
    ),
    cause(
        FixIn::Node,
        &["error executing setns process", "nsexec", "failed to start exec", "exec failed: ", "container_linux.go"],
        "check the container runtime of the node, and restart it, or the node: it cannot start the command of the probe in the container, \
         whatever the program does",
    ),
];

/// How failures of the kubelet's own connections begin: `DoHTTPProbe`, pkg/probe/http, `DoTCPProbe`, pkg/probe/tcp, and `Probe`,
/// pkg/probe/grpc, release 1.37.2. The output of a command may have anything.
const CONNECTS: [&str; 4] = ["Get \"http", "dial tcp ", "timeout: failed to connect", "error: failed to connect"];

/// What the runtime says of a command that was to run in a container that has just ended.
const ENDED: [&str; 4] = ["not running", "stopped", "EXITED", "not found: not found"];

/// Returns why a probe of that kind fails before it gets to the program of its container, by what the kubelet says of it.
pub fn unreached(
    subject: &Subject,
    pod: &Pod,
    container: &Container,
    kind: &str,
    said: &str,
) -> Option<&'static Cause> {
    if said.contains(" probe errored") || said.contains(" probe failed: OCI runtime exec failed") {
        return Cause::of(COMMANDS, said).filter(|_| !ENDED.iter().any(|words| said.contains(words)));
    }
    let (_, error) = said.split_once(" probe failed: ")?;
    let probe = own_probe(subject, pod, container, kind);
    // It may be any other than the pod.
    let names_host = ["httpGet", "tcpSocket"].iter().any(|of| probe.is_some_and(|it| it[of]["host"].is_string()));
    let connects = CONNECTS.iter().any(|begins| error.starts_with(begins));
    Cause::among(CONNECTIONS, error).filter(|_| connects && !names_host)
}

/// Returns the probe of that kind as the template has it.
fn own_probe<'s>(subject: &'s Subject, pod: &Pod, container: &Container, kind: &str) -> Option<&'s Value> {
    let own = containers(template_of(subject, pod).value()).find(|own| own["name"] == container.name.as_str())?;
    Some(&own[format!("{kind}Probe")])
}

/// Returns for how many seconds at most the startup probe of a container may fail before the kubelet restarts it.
pub fn longest_start(subject: &Subject, pod: &Pod, container: &Container) -> Option<i64> {
    let probe = own_probe(subject, pod, container, "startup").filter(|probe| probe.is_object())?;
    let field = |name: &str, default: i64| probe[name].as_i64().filter(|value| *value > 0).unwrap_or(default);
    Some(field("initialDelaySeconds", 0) + field("periodSeconds", 10) * field("failureThreshold", 3))
}

/// What answers tell of a request that is wrong.
const ANSWERS: &[Cause] = &[
    cause(
        FixIn::Template,
        &[
            "malformed http response",
            "server gave http response to https client",
            "client sent an http request to an https server",
        ],
        "correct scheme of the probe in the template: one side speaks TLS, and the other does not",
    ),
    cause(
        FixIn::Template,
        &["statuscode: 401", "statuscode: 403"],
        "use a path that needs no credentials in the probe, or give it some (httpHeaders), and check what the program demands",
    ),
    cause(
        FixIn::Template,
        &["statuscode: 404"],
        "correct path or port of the probe in the template, or the argument of the program that sets them: what answers there does not have it",
    ),
];

/// Returns what to do about a readiness probe that gets to the program, by what the kubelet says of it, and the timeout of a probe that
/// is answered too late.
pub fn answered(
    subject: &Subject,
    pod: &Pod,
    container: &Container,
    kind: &str,
    said: &str,
) -> Option<(String, Option<u64>)> {
    if let Some(cause) = Cause::among(ANSWERS, said) {
        return Some((cause.advice.to_owned(), None));
    }
    let timeout = own_probe(subject, pod, container, kind)?["timeoutSeconds"].as_u64();
    is_slow(said).then(|| (too_slow(kind), Some(timeout.unwrap_or(1).max(1))))
}

/// Returns whether a probe that got to the program was answered too late, in words of the kubelet or the container runtime: what a
/// command writes may have any.
///
/// `ExecSync`, k8s.io/cri-client/pkg/remote_runtime.go; `Probe`, pkg/probe/grpc/grpc.go; and the client of net/http; release 1.37.2.
fn is_slow(said: &str) -> bool {
    let Some((_, error)) = said.split_once(" probe failed: ") else {
        return said.contains(" probe errored")
            && ["timed out", "deadline exceeded"].iter().any(|it| said.contains(it));
    };
    let of_client = ["Client.Timeout", "context deadline exceeded"];
    (error.starts_with("command ") && error.contains("timed out"))
        || error.starts_with("timeout: health rpc did not complete within")
        || (error.starts_with("Get \"http") && of_client.iter().any(|words| error.contains(words)))
}

fn too_slow(kind: &str) -> String {
    format!(
        "raise timeoutSeconds of the {kind} probe, or give the container more cpu: it answers too late, which its log does not show"
    )
}

/// Says in the finding of a probe what to do about its cause, if it does not get to the program.
pub fn of_unreached(subject: &Subject, pod: &Pod, finding: Finding, cause: &Cause) -> Finding {
    let finding = finding.and(Sentence::new().apart(cause.advice)).with_advice(cause.advice);
    match (cause.fix_in, cause.also) {
        (FixIn::Template, _) => finding.with_command(edit(subject.daemon_set)),
        (FixIn::Host, _) => finding.with_command(pods_of_node(pod)),
        (_, Some(Also::ShowPodsOfNode)) => finding.with_origin(Origin::Node).with_command(pods_of_node(pod)),
        _ => finding.with_origin(Origin::Node).with_command(describe_bound_node(pod)),
    }
}

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
    let unreached = failure.and_then(|failure| unreached(subject, pod, container, kind, &failure.message));
    let timeout = probe(container, kind).map_or(1, |probe| probe.timeout_seconds.max(1));
    let is_slow = unreached.is_none() && failure.is_some_and(|failure| is_slow(&failure.message));
    let within = if is_slow { format!(" (timeoutSeconds: {timeout})") } else { String::new() };
    let mut message = Sentence::from(format!(
        "{} {} is killed by the kubelet because its {kind} probe fails{within}",
        role.noun(),
        container.name
    ));
    if let Some(failure) = failure {
        message = message.words(": ").event(failure, subject.now());
    }
    let said = telling_line(&end.message).filter(|line| tells_of_failure(line));
    let said = said.filter(|_| end.exit_code != 0 && unreached.is_none() && !is_slow);
    if let Some(text) = said.and_then(|_| last_words(end)) {
        message = message.words("; it said last: ").example(quoted(&text));
    }
    let message = message.words("; restarts: ").number(i64::from(status.restart_count));
    let finding = |advice: String| Finding::new(ReasonCode::LivenessFailing, message.clone().apart(&advice), advice);
    if let Some(cause) = unreached {
        return Some(of_unreached(subject, pod, finding(String::new()), cause));
    }
    Some(match (is_slow, kind) {
        (true, _) => finding(too_slow(kind)).with_command(edit(subject.daemon_set)),
        (false, _) if said.is_some() => {
            finding(format!("find out why the container does not pass its {kind} probe: {}", about_last_words(said)))
                .with_command(logs(subject, pod, &container.name, true))
        }
        (false, "startup") => finding(
            "find out why the container does not pass its startup probe; if it only takes longer to start, raise failureThreshold"
                .to_owned(),
        )
        .with_command(logs(subject, pod, &container.name, true)),
        (false, _) => finding(format!("correct the {kind} probe, or find out why the container does not pass it"))
            .with_command(logs(subject, pod, &container.name, true)),
    })
}

/// Returns how a container has ended, now and before.
fn ends(status: &ContainerStatus) -> impl Iterator<Item = &ContainerStateTerminated> {
    [&status.state, &status.last_state].into_iter().filter_map(|state| state.terminated.as_ref())
}

/// The sidecar of CSI drivers that answers their probes, by the end of its image's name (github.com/kubernetes-csi/livenessprobe).
const LIVENESS_PROBE: &str = "livenessprobe";

/// Returns the container that should answer the probe of another one but does not run, according to the kubelet, which was refused a
/// connection: the sidecar that is made for that, or one that has failed to listen on the port. `None` if the one that is killed says
/// itself what it has failed of.
pub fn answering<'p>(pod: &'p Pod, events: &[&Event]) -> Option<&'p str> {
    let (own, port) = events.iter().filter(|event| event.reason == "Unhealthy").find_map(|event| {
        let (before, _) = event.message.split_once(": connect: connection refused")?;
        let (_, port) = before.rsplit_once("dial tcp ")?.1.rsplit_once(':')?;
        Some((event.container()?, port))
    })?;
    let is_sidecar = |container: &Container| {
        let name = container.image.split('@').next().and_then(|name| name.rsplit('/').next());
        name.and_then(|name| name.split(':').next()) == Some(LIVENESS_PROBE)
    };
    let did_not_listen = |status: &ContainerStatus| {
        let words = format!(":{port}: bind: ");
        ends(status).any(|end| end.message.contains("listen ") && end.message.contains(&words))
    };
    let says_why = |end: &ContainerStateTerminated| telling_line(&end.message).is_some_and(tells_of_failure);
    let mut own_ends = pod.container_statuses().filter(|status| status.name == own).flat_map(ends);
    if own_ends.any(says_why) {
        return None;
    }
    let mut others = walk(pod).filter(|(_, container, _)| container.name != own);
    let answers = |container: &Container, status: &ContainerStatus| is_sidecar(container) || did_not_listen(status);
    let found = others.find(|(_, container, status)| status.is_some_and(|status| answers(container, status)));
    found.map(|(_, container, _)| container.name.as_str())
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
    // The hook runs in the container: if that ends by itself, it fails, too, and the events are the same.
    let ends_as_killed = |end: &&ContainerStateTerminated| {
        matches!(end.exit_code, 0 | 137 | 143) && !telling_line(&end.message).is_some_and(tells_of_failure)
    };
    let end = end.filter(ends_as_killed)?;
    let failed = own_events(pod, container, end, events).find(|event| event.reason == "FailedPostStartHook")?;
    let killed =
        format!("{} {} is killed by the kubelet because its postStart hook fails: ", role.noun(), container.name);
    let message = Sentence::from(killed).event(failed, subject.now());
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
    let own = container.name.clone();
    let is_own = move |event: &&Event| event.container() == Some(&own) && event.last_seen().is_none_or(is_then);
    events.iter().copied().filter(is_own)
}

/// Returns the probe of a container that restarts it.
fn probe<'c>(container: &'c Container, kind: &str) -> Option<&'c Probe> {
    match kind {
        "startup" => container.startup_probe.as_ref(),
        _ => container.liveness_probe.as_ref(),
    }
}
