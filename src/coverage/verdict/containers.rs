//! What the containers of a pod say: which one keeps it from being ready.

use super::daemon_set_context::Subject;
use super::finding::Finding;
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::pod::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// For how many seconds the end of a container before counts as its present trouble.
const RECENT_END: i64 = 600;

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It does the pod's work.
    Container,
    /// It must end well before the others start.
    Init,
    /// It starts before the others and runs as long as the pod.
    Sidecar,
}

impl Role {
    /// Returns the role as people say it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Container => "container",
            Role::Init => "init",
            Role::Sidecar => "sidecar",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Role::Container => "container",
            Role::Init => "init container",
            Role::Sidecar => "sidecar",
        }
    }
}

/// Returns the containers in the order in which they start, each with its role and its status.
pub fn walk(pod: &Pod) -> impl Iterator<Item = (Role, &Container, Option<&ContainerStatus>)> {
    let find = |statuses: &'_ [ContainerStatus], name: &str| statuses.iter().position(|status| status.name == name);
    let init = pod.spec.init_containers.iter().map(move |container| {
        let role = if container.is_sidecar() { Role::Sidecar } else { Role::Init };
        let statuses = &pod.status.init_container_statuses;
        (role, container, find(statuses, &container.name).map(|at| &statuses[at]))
    });
    let main = pod.spec.containers.iter().map(move |container| {
        let statuses = &pod.status.container_statuses;
        (Role::Container, container, find(statuses, &container.name).map(|at| &statuses[at]))
    });
    init.chain(main)
}

/// Tells whether no container of the pod has ever started.
pub fn none_started(pod: &Pod) -> bool {
    walk(pod).all(|(_, _, status)| !status.is_some_and(has_started))
}

/// Tells whether every container of the pod has started, and every init container has done its work.
pub fn all_started(pod: &Pod) -> bool {
    walk(pod).all(|(role, _, status)| match role {
        Role::Init => status.is_some_and(is_done),
        _ => status.is_some_and(has_started),
    })
}

fn has_started(status: &ContainerStatus) -> bool {
    status.state.running.is_some()
        || status.state.terminated.is_some()
        || status.last_state.terminated.is_some()
        || status.restart_count > 0
}

fn is_done(status: &ContainerStatus) -> bool {
    status.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0)
}

/// Returns how the first container that ended badly did so.
pub fn last_end(pod: &Pod) -> Option<String> {
    walk(pod).find_map(|(_, container, status)| {
        let end = status?.state.terminated.as_ref().filter(|end| end.exit_code != 0)?;
        Some(format!("{}: {}", container.name, end_text(end)))
    })
}

/// Finds why the containers of a bound, living pod do not make it ready.
pub fn findings(subject: &Subject, pod: &Pod, events: &[&Event]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (role, container, status) in walk(pod) {
        let Some(status) = status else { continue };
        findings.extend(image_pull_failed(subject, role, container, status));
        findings.extend(container_config_error(subject, role, container, status));
        findings.extend(oom_killed(subject, pod, role, container, status));
        findings.extend(crash_looping(subject, pod, role, container, status));
    }
    findings.extend(init_blocked(subject, pod));
    if !findings.is_empty() {
        return findings;
    }
    if !all_started(pod) {
        return vec![containers_starting(subject, pod)];
    }
    readiness_failing(subject, pod, events).into_iter().collect()
}

/// Finds an image that cannot be pulled.
fn image_pull_failed(
    subject: &Subject,
    role: Role,
    container: &Container,
    status: &ContainerStatus,
) -> Option<Finding> {
    let waiting = status.state.waiting.as_ref()?;
    let failed = matches!(
        waiting.reason.as_str(),
        "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed"
    );
    if !failed {
        return None;
    }
    let mut message = Sentence::from(format!("{} {}: cannot pull {} (", role.noun(), container.name, container.image))
        .value(&waiting.reason)
        .words(")");
    // The back-off's own words only repeat the image; what follows them is the cause.
    let cause = match waiting.message.trim().strip_prefix("Back-off pulling image ") {
        Some(rest) => rest.split_once(": ").map_or("", |(_, cause)| cause),
        None => waiting.message.trim(),
    };
    if !cause.is_empty() {
        message = message.words(": ").value(cause);
    }
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    Some(Finding::new(
        ReasonCode::ImagePullFailed,
        message,
        format!(
            "correct the image, or add its registry's imagePullSecrets: \
             kubectl set image ds/{name} -n {namespace} {}=IMAGE",
            container.name
        ),
    ))
}

/// Finds a container that cannot be made from its configuration.
fn container_config_error(
    subject: &Subject,
    role: Role,
    container: &Container,
    status: &ContainerStatus,
) -> Option<Finding> {
    let waiting = status.state.waiting.as_ref()?;
    let failed = matches!(
        waiting.reason.as_str(),
        "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "PreCreateHookError"
            | "PreStartHookError"
            | "PostStartHookError"
    );
    if !failed {
        return None;
    }
    let mut message = Sentence::from(format!("{} {}: {}", role.noun(), container.name, waiting.reason));
    if !waiting.message.is_empty() {
        message = message.words(": ").value(waiting.message.trim());
    }
    let (namespace, name) = (&subject.daemon_set.metadata.namespace, &subject.daemon_set.metadata.name);
    let fix = match missing_object(&waiting.message) {
        Some((kind @ "configmap", object)) => {
            format!("create it: kubectl create {kind} {object} -n {namespace} --from-file=…")
        }
        Some((_, object)) => format!("create it: kubectl create secret generic {object} -n {namespace} --from-file=…"),
        None => format!("correct the template: kubectl edit ds {name} -n {namespace}"),
    };
    Some(Finding::new(ReasonCode::ContainerConfigError, message, fix))
}

/// Returns the kind and name of the object that the kubelet did not find: `secret "token" not found`.
fn missing_object(message: &str) -> Option<(&'static str, &str)> {
    ["configmap", "secret"].into_iter().find_map(|kind| {
        let (_, rest) = message.split_once(kind)?;
        let (name, rest) = rest.strip_prefix(" \"")?.split_once('"')?;
        rest.trim_start().starts_with("not found").then_some((kind, name))
    })
}

/// Returns the end that is a container's present trouble: it waits to be started again, has ended, or
/// ended a short while ago and is not ready again.
fn present_end<'a>(subject: &Subject, role: Role, status: &'a ContainerStatus) -> Option<&'a ContainerStateTerminated> {
    if let Some(waiting) = &status.state.waiting {
        let back_off = waiting.reason == "CrashLoopBackOff" || (status.restart_count > 0 && waiting.message.is_empty());
        return status.last_state.terminated.as_ref().filter(|_| back_off);
    }
    if let Some(end) = &status.state.terminated {
        return (role != Role::Init || end.exit_code != 0).then_some(end);
    }
    let end = status.last_state.terminated.as_ref().filter(|_| !status.ready)?;
    let at = end.finished_at.get()?;
    (seconds_between(at, subject.index.now()) < RECENT_END).then_some(end)
}

/// Finds a container that was killed for want of memory.
fn oom_killed(
    subject: &Subject,
    pod: &Pod,
    role: Role,
    container: &Container,
    status: &ContainerStatus,
) -> Option<Finding> {
    present_end(subject, role, status).filter(|end| end.reason == "OOMKilled")?;
    let limit = container.resources.limits.get("memory");
    let limit =
        limit.map_or("it has no limit, so likely the node ran out".to_owned(), |limit| format!("its limit is {limit}"));
    let message = Sentence::from(format!(
        "{} {} was killed for want of memory; {limit}; restarts: ",
        role.noun(),
        container.name
    ))
    .number(i64::from(status.restart_count));
    let (namespace, name) = (&pod.metadata.namespace, &subject.daemon_set.metadata.name);
    Some(Finding::new(
        ReasonCode::OOMKilled,
        message,
        format!(
            "raise the limit: kubectl set resources ds/{name} -n {namespace} -c {} --limits=memory=…",
            container.name
        ),
    ))
}

/// Finds a container that ends again and again.
fn crash_looping(
    subject: &Subject,
    pod: &Pod,
    role: Role,
    container: &Container,
    status: &ContainerStatus,
) -> Option<Finding> {
    let back_off = status.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
    let end = present_end(subject, role, status);
    if !back_off && end.is_none() {
        return None;
    }
    let mut message = Sentence::from(format!("{} {} ends", role.noun(), container.name));
    if let Some(end) = end {
        message = message.words(" with ").value(end_text(end));
        if let Some((from, to)) = end.started_at.get().zip(end.finished_at.get()) {
            message = message.words(" after ").age(seconds_between(from, to));
        }
    }
    message = message.words("; restarts: ").number(i64::from(status.restart_count));
    let fix = Sentence::from(format!("kubectl logs -n {} ", pod.metadata.namespace))
        .example(&pod.metadata.name)
        .words(format!(" -c {}{}", container.name, if status.state.terminated.is_some() { "" } else { " -p" }));
    Some(Finding::new(ReasonCode::CrashLooping, message, fix))
}

/// Writes how a container ended: `exit 137 (killed)`.
pub fn end_text(end: &ContainerStateTerminated) -> String {
    let hint = match (end.reason.as_str(), end.exit_code) {
        ("OOMKilled", _) => "out of memory",
        ("" | "Error", 126) => "cannot be executed",
        ("" | "Error", 127) => "command not found",
        ("" | "Error", 137) => "killed",
        ("" | "Error", 139) => "segmentation fault",
        ("" | "Error", 143) => "asked to stop",
        ("" | "Error" | "Completed", _) => "",
        (reason, _) => reason,
    };
    if hint.is_empty() { format!("exit {}", end.exit_code) } else { format!("exit {} ({hint})", end.exit_code) }
}

/// Finds an init container that has not done its work.
fn init_blocked(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let started = walk(pod).any(|(role, _, status)| role != Role::Container && status.is_some_and(has_started));
    let (role, container, status) = walk(pod).find(|(role, _, status)| match role {
        Role::Container => false,
        Role::Init => !status.is_some_and(is_done),
        Role::Sidecar => !status.is_some_and(|status| status.started == Some(true) || status.ready),
    })?;
    let status = status?;
    let waiting = status.state.waiting.as_ref().map_or("", |waiting| waiting.reason.as_str());
    if !started && matches!(waiting, "" | "PodInitializing" | "ContainerCreating") {
        return None;
    }
    let mut message = Sentence::from(format!("{} {} is not done", role.noun(), container.name));
    if role == Role::Sidecar {
        message = Sentence::from(format!("sidecar {} has not started", container.name));
    }
    if let Some(since) = status.state.running.as_ref().and_then(|running| running.started_at.get()) {
        message = message.words(", running for ").age(seconds_between(since, subject.index.now()));
    }
    let fix = Sentence::from(format!("kubectl logs -n {} ", pod.metadata.namespace))
        .example(&pod.metadata.name)
        .words(format!(" -c {}", container.name));
    Some(Finding::new(ReasonCode::InitBlocked, message, fix))
}

/// Says that the containers are on their way.
fn containers_starting(subject: &Subject, pod: &Pod) -> Finding {
    let waiting = walk(pod).find_map(|(_, _, status)| status?.state.waiting.as_ref()).map(|waiting| &waiting.reason);
    let words = match waiting {
        Some(reason) if !reason.is_empty() => format!("the containers are being made ({reason})"),
        Some(_) => "the containers are being made".to_owned(),
        None => "the kubelet has not taken the pod on".to_owned(),
    };
    let since = pod.status.start_time.get().or_else(|| {
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time.get());
        bound.or_else(|| pod.metadata.creation_timestamp.get())
    });
    let message = match since {
        Some(since) => Sentence::from(words).words(" for ").age(seconds_between(since, subject.index.now())),
        None => Sentence::from(words),
    };
    let fix = Sentence::from(format!("wait; if it lasts: kubectl describe pod -n {} ", pod.metadata.namespace))
        .example(&pod.metadata.name);
    Finding::new(ReasonCode::ContainersStarting, message, fix)
}

/// Finds containers that run and are not ready: a probe fails.
fn readiness_failing(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let (role, container, status) =
        walk(pod).filter(|(role, ..)| *role != Role::Init).find(|(_, _, status)| status.is_some_and(|s| !s.ready))?;
    let probe = if status?.started == Some(false) { "startup" } else { "readiness" };
    let mut message = Sentence::from(format!("{} {} runs, and its {probe} probe fails", role.noun(), container.name));
    let since = pod.condition("Ready").and_then(|ready| ready.last_transition_time.get());
    if let Some(since) = since {
        message = message.words(" for ").age(seconds_between(since, subject.index.now()));
    }
    let said = events.iter().find(|event| {
        event.reason == "Unhealthy" && event.involved_object.field_path.contains(&format!("{{{}}}", container.name))
    });
    if let Some(said) = said.or_else(|| events.iter().find(|event| event.reason == "Unhealthy")) {
        message = message.words(": ").event(said, subject.index.now());
    }
    let fix = Sentence::from(format!("fix the probe or what it asks: kubectl logs -n {} ", pod.metadata.namespace))
        .example(&pod.metadata.name)
        .words(format!(" -c {}", container.name));
    Some(Finding::new(ReasonCode::ReadinessFailing, message, fix))
}
