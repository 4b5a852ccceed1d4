//! Which container keeps a pod from being ready, and why.

use jiff::Timestamp;
use serde_json::Value;

use super::cause::{Cause, INOTIFY, Mends, TOO_MANY_OPEN_FILES, cause};
use super::creation_errors::{
    creation_failed, other_nodes, same_elsewhere, start_failed, start_has_failed, start_origin,
};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, delete_pod, describe_node, describe_pod, edit, logs};
use super::fit::{instead_of_surge, single_pod_node};
use super::images::{image_pull_failed, template_of};
use super::probes;
use super::sentence::Sentence;
use super::services::of_service;
use super::telling::{DECISIVE, LONGEST_MESSAGE, last_line, telling_line};
use super::workload::workload;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use crate::model::template::Template;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods;
use crate::scheduling::rolling_update::allows_surge;

/// For how many seconds at least a probe has succeeded that is not wrong itself.
const PASSED: i64 = 600;

/// For how many seconds after a restart the last termination counts as the current problem.
const RECENT_END: i64 = 600;

/// What programs say last that is not about themselves: errors of Go's network and of client-go, and of the node.
const LAST_WORDS: &[Cause] = &[
    INOTIFY,
    TOO_MANY_OPEN_FILES,
    cause(
        Mends::Node,
        &["no space left on device"],
        "free space where the container writes: in the volume, or on the disk of the node",
    ),
    // ETXTBSY: the kernel lets nobody write to a program while it runs.
    cause(
        Mends::Node,
        &["text file busy"],
        "end the process on the node that runs the file, and write it anew under another name, then rename it (`install`, or `cp \
         --remove-destination`): a program that runs cannot be written to",
    ),
    cause(
        Mends::Node,
        &["address already in use"],
        "free the port, or change it in the template: another process has it, on the node if the pod uses the host network",
    ),
    cause(
        Mends::Node,
        &["cpu does not support x86-64", "does not support x86-64-v", "can only be run on amd64 processors with v"],
        "use an image for older CPUs, or exclude these nodes with a nodeSelector: their CPU lacks instructions that the program needs",
    ),
    cause(
        Mends::Template,
        &["error while loading shared libraries", "glibc_… not found"],
        "correct the image: its program needs a library that is not in it, or another version",
    ),
    cause(
        Mends::Template,
        &[
            "do you need to insmod",
            "can't change directory to '/lib/modules'",
            "failed to initialize nft: protocol not supported",
        ],
        "load the kernel module that it needs on the node, or mount /lib/modules, so that the container can load it",
    ),
    cause(
        Mends::Node,
        &["driver/library version mismatch"],
        "restart the node, or reload the kernel module of its GPU driver: it is of another version than the driver's library",
    ),
    cause(
        Mends::Template,
        &["argument list too long"],
        "set enableServiceLinks: false in the template: every Service of the namespace adds variables to the environment",
    ),
    cause(
        Mends::Object,
        &["yaml: line ", "yaml: unmarshal errors", "error converting yaml to json"],
        "correct the YAML that it reads, usually in a ConfigMap that the template mounts",
    ),
    cause(
        Mends::Cluster,
        &["is forbidden: user \"system:serviceaccount:"],
        "give the service account a role that allows what the message says",
    ),
];

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A regular container.
    Container,
    /// It must complete before the others start.
    Init,
    /// It starts before the others and runs as long as the pod.
    Sidecar,
}

impl Role {
    /// Returns the role as a report has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Container => "container",
            Role::Init => "init",
            Role::Sidecar => "sidecar",
        }
    }

    /// Returns what a container of the role is called.
    pub fn noun(self) -> &'static str {
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

/// Returns whether no container of the pod has ever started, or waits for anything that comes after the sandbox and the volumes of
/// the pod, such as its image.
pub fn none_created(pod: &Pod) -> bool {
    let waits_later = |status: &ContainerStatus| {
        let waiting = status.state.waiting.as_ref().filter(|waiting| !waiting.reason.is_empty());
        waiting.is_some() && !status.is_being_created()
    };
    walk(pod).all(|(_, _, status)| !status.is_some_and(|status| has_started(status) || waits_later(status)))
}

/// Returns whether every container of the pod has started, and every init container has completed.
pub fn all_started(pod: &Pod) -> bool {
    walk(pod).all(|(role, _, status)| match role {
        Role::Init => status.is_some_and(is_done),
        _ => status.is_some_and(|status| has_started(status) && !status.is_being_created()),
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

/// Returns how the first container that failed terminated.
pub fn last_end(pod: &Pod) -> Option<String> {
    walk(pod).find_map(|(_, container, status)| {
        let end = status?.state.terminated.as_ref().filter(|end| end.exit_code != 0)?;
        Some(format!("{}: {}", container.name, end_text(end)))
    })
}

/// Finds why the containers of a bound pod are not ready.
pub fn findings(subject: &Subject, node: Option<&Node>, pod: &Pod, events: &[&Event]) -> Vec<Finding> {
    let now = subject.index.now();
    let mut findings = Vec::new();
    for (role, container, status) in walk(pod) {
        let Some(status) = status else { continue };
        let this = (role, container, status);
        let crashed = crash(pod, now, this).map(|end| {
            out_of_memory(subject, node, pod, this, end)
                .or_else(|| probes::hook_failed(subject, pod, this, end, events))
                .or_else(|| probes::killed(subject, pod, this, end, events))
                .unwrap_or_else(|| {
                    let crash = beside_old_pod(subject, pod, crash_looping(subject, pod, this, end), end);
                    of_service(subject, pod, crash, end)
                })
        });
        let pulled = image_pull_failed(subject, pod, this, events);
        let found = pulled.into_iter().chain(creation_failed(subject, pod, this)).chain(crashed);
        findings.extend(found.map(|finding| of_injected(subject, pod, &container.name, finding)));
    }
    findings.extend(all_restarting(pod));
    findings.extend(init_blocked(subject, pod));
    if !findings.is_empty() {
        return findings;
    }
    if !all_started(pod) {
        return vec![containers_starting(subject, pod, events)];
    }
    readiness_failing(subject, pod, events).into_iter().collect()
}

/// What programs say that do not get the lock that another instance holds.
const LOCKED: &[&str] = &[
    "already locked",
    "locked by another",
    "lock is held",
    "lock held by",
    "could not lock",
    "cannot lock",
    "failed to lock",
    "acquire lock",
    "obtain lock",
    "acquire the lock",
    "another instance",
    "another process",
    "already running",
];

/// What such lines have if the lock is not in a directory of the node.
const ELSEWHERE: &[&str] = &["leases", " lease", "forbidden", "connection", "timed out", "timeout", "http"];

/// Returns whether a program did not find free what another instance on the node may hold: a port of the node, or a lock in one of its
/// directories.
fn is_held(pod: &Pod, template: &Template, said: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
    let volumes = template.value()["spec"]["volumes"].as_array();
    let has_host_path = volumes.into_iter().flatten().any(|volume| volume["hostPath"].is_object());
    (pod.spec.host_network && has(&["address already in use", "address in use"]))
        || (has_host_path && has(LOCKED) && !has(ELSEWHERE))
}

/// Says of a surge pod that needs what the old pod of its node still holds that the two exclude each other.
fn beside_old_pod(subject: &Subject, pod: &Pod, finding: Finding, end: Option<&ContainerStateTerminated>) -> Finding {
    let said = end.and_then(|end| telling_line(&end.message)).unwrap_or_default().to_lowercase();
    if !allows_surge(subject.daemon_set) || !is_held(pod, template_of(subject, pod), &said) {
        return finding;
    }
    let is_old = |other: &&Pod| {
        daemon_pods::claim(subject.daemon_set, other).is_claimed()
            && other.metadata.uid != pod.metadata.uid
            && other.is_ready()
            && !other.metadata.is_terminating()
    };
    let Some(old) = subject.index.bound_to(&pod.spec.node_name).into_iter().find(is_old) else { return finding };
    let message = finding.message.words("; the old pod ").name(&old.metadata.name, workload(old));
    let message = message.words(" runs on the node until this one is available, and may hold it");
    let advice = "use maxUnavailable instead of maxSurge: two such pods exclude each other on a node";
    instead_of_surge(Finding { message, advice: advice.into(), ..finding }, old)
}

/// Says of a container that its pod's template does not have that admission adds it: no revision is to blame for it, and none is without.
fn of_injected(subject: &Subject, pod: &Pod, container: &str, finding: Finding) -> Finding {
    let template = subject.revisions.of_pod(pod).and_then(|revision| revision.template.as_ref().ok());
    let spec = template.map(|template| &template.value()["spec"]).filter(|spec| spec["containers"].is_array());
    let has_it = |spec: &Value| {
        let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
        lists.flatten().any(|other| other["name"] == container)
    };
    if finding.origin == Origin::Node || spec.is_none_or(has_it) {
        return finding;
    }
    let message = finding.message.words(format!("; the template has no container {container}: admission adds it"));
    let has_started = |other: &&Pod| walk(other).any(|(_, it, _)| it.name == container);
    let nodes = same_elsewhere(subject, pod).filter(has_started).count();
    if nodes > 0 {
        let advice = format!(
            "delete the pod, so that it is created again: on {} the same pod runs with this container; if it fails again, compare the \
             node with those",
            other_nodes(nodes)
        );
        return Finding::new(finding.code, message, advice).with_origin(Origin::Node).with_command(delete_pod(pod));
    }
    let advice = "mend what adds the container to pods (a mutating webhook, such as that of a service mesh), or exclude these pods \
                  from it: no revision of the template is without it";
    let runs = matches!(finding.code, ReasonCode::CrashLooping | ReasonCode::ReadinessFailing);
    let command = if runs { logs(subject.daemon_set, pod, container, false) } else { describe_pod(pod) };
    Finding::new(finding.code, message, advice).with_origin(Origin::Unknown).with_command(command)
}

/// A container with its role and its status.
pub type Observed<'p> = (Role, &'p Container, &'p ContainerStatus);

/// Returns whether a container crashes, and its end, if that is known.
///
/// What the kubelet ended because of another container does not crash.
fn crash<'p>(
    pod: &'p Pod,
    now: Timestamp,
    (role, container, status): Observed<'p>,
) -> Option<Option<&'p ContainerStateTerminated>> {
    let end = current_termination(now, role, status);
    let follows = end.is_some_and(|end| follows_another(pod, container, end));
    (!follows && (is_backing_off(status) || end.is_some())).then_some(end)
}

/// Returns the termination that is a container's current problem: it waits for a restart, is terminated, or was
/// restarted a short while ago and is not ready again.
fn current_termination(now: Timestamp, role: Role, status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    if let Some(waiting) = &status.state.waiting {
        let waits_for_restart = status.restart_count > 0 && waiting.message.is_empty() && !status.is_being_created();
        let back_off = waiting.reason == "CrashLoopBackOff" || waits_for_restart;
        return status.last_state.terminated.as_ref().filter(|_| back_off);
    }
    if let Some(end) = &status.state.terminated {
        return (role != Role::Init || end.exit_code != 0).then_some(end);
    }
    let end = status.last_state.terminated.as_ref().filter(|_| !status.ready)?;
    let at = end.finished_at.get()?;
    (seconds_between(at, now) < RECENT_END).then_some(end)
}

/// The reason of containers that the kubelet has removed to restart all containers of a pod: pkg/kubelet/kubelet_pods.go, release
/// 1.37.2.
const RESTARTING_ALL: &str = "RestartingAllContainers";

/// For how many seconds after a container has ended the kubelet ends the others at most, without a grace period.
const ENDS_OTHERS: i64 = 60;

/// Returns whether the kubelet has ended a container because another one ended for which its restart rule is to restart all.
///
/// As `ShouldAllContainersRestart`, pkg/kubelet/container/helpers.go, release 1.37.2, does, it is decided by the exit codes.
fn follows_another(pod: &Pod, container: &Container, end: &ContainerStateTerminated) -> bool {
    if end.reason == RESTARTING_ALL {
        return true;
    }
    let ends = walk(pod).filter_map(|(_, other, status)| {
        let state = status?;
        let end = state.state.terminated.as_ref().or(state.last_state.terminated.as_ref())?;
        other.restarts_all(end.exit_code).then_some((other, end))
    });
    let first = ends.min_by_key(|(_, end)| end.finished_at.get());
    first.is_some_and(|(first, its_end)| {
        let ends = its_end.finished_at.get().zip(end.finished_at.get());
        let after = ends.map(|(first, other)| other.duration_since(first).as_secs());
        first.name != container.name && after.is_none_or(|after| (0..=ENDS_OTHERS).contains(&after))
    })
}

/// Finds that the kubelet restarts all containers of a pod, if it has removed the one whose end made it do so.
fn all_restarting(pod: &Pod) -> Option<Finding> {
    let is_removed =
        |status: &ContainerStatus| status.state.waiting.as_ref().is_some_and(|it| it.reason == RESTARTING_ALL);
    walk(pod).find(|(_, _, status)| status.is_some_and(is_removed))?;
    let with_rule =
        walk(pod).filter(|(_, container, _)| container.restart_policy_rules.iter().any(|rule| rule.restarts_all()));
    let names: Vec<&str> = with_rule.map(|(_, container, _)| container.name.as_str()).collect();
    let message = format!(
        "the kubelet restarts all containers: {} ended with an exit code for which its restart rule is RestartAllContainers",
        names.join(" or ")
    );
    let advice = "find out why it ends with that exit code: the others only follow it";
    Some(Finding::new(ReasonCode::CrashLooping, message, advice).with_command(describe_pod(pod)))
}

/// Finds a container that was OOMKilled, because of its own limit or because the node ran out of memory.
fn out_of_memory(
    subject: &Subject,
    node: Option<&Node>,
    pod: &Pod,
    (role, container, status): Observed,
    end: Option<&ContainerStateTerminated>,
) -> Option<Finding> {
    let end = end?;
    let is_oom_killed = end.reason == "OOMKilled";
    let of_node = node.and_then(|node| Some((node, node_out_of_memory(subject, node, end)?)));
    let killed = Sentence::from(format!("{} {} ", role.noun(), container.name));
    let restarts = |message: Sentence| message.words("; restarts: ").number(i64::from(status.restart_count));
    let limits = status.resources.as_ref().map(|resources| &resources.limits);
    let limit = limits.and_then(|limits| limits.get("memory")).or_else(|| container.resources.limits.get("memory"));
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.limits.get("memory"));
    match (of_node, limit.map(|limit| ("", limit)).or_else(|| of_pod.map(|limit| (" of the pod", limit)))) {
        (Some((node, why)), limit) if is_oom_killed || end.exit_code == 137 => {
            let limit = match limit {
                Some((of, limit)) => format!("not necessarily its memory limit{of} {limit}"),
                None => "it has no memory limit".to_owned(),
            };
            let message =
                killed.words("killed because the node ran out of memory (").value(why).words(format!("); {limit}"));
            let advice = "free memory on the node: request what the pods there use, and limit those that use more";
            Some(Finding::new(ReasonCode::OOMKilled, restarts(message), advice).with_command(describe_node(node)))
        }
        (_, Some((of, limit))) if is_oom_killed => {
            let message = killed.words(format!("OOMKilled; memory limit{of} {limit}"));
            let advice = "raise the memory limit, or find out what uses the memory";
            Some(Finding::new(ReasonCode::OOMKilled, restarts(message), advice).with_command(edit(subject.daemon_set)))
        }
        (_, None) if is_oom_killed => {
            let message = killed.words("OOMKilled; no memory limit, so the node likely ran out of memory");
            let advice = "find out what uses the memory of the node, and set a memory request";
            Some(Finding::new(ReasonCode::OOMKilled, restarts(message), advice).with_command(edit(subject.daemon_set)))
        }
        _ => None,
    }
}

/// For how many seconds before and after a container has ended what is known of its node's memory tells why.
const SAME_OOM: i64 = 120;

/// Returns what shows that a node ran out of memory when a container ended: the event of the kubelet's OOM watcher, or the condition.
///
/// The event is that of `Start`, pkg/kubelet/oom/oom_watcher_linux.go, release 1.37.2; it refers to the node by its name, not by its
/// UID.
fn node_out_of_memory(subject: &Subject, node: &Node, end: &ContainerStateTerminated) -> Option<String> {
    let mut about = node.metadata.clone();
    about.uid.clear();
    let ended = end.finished_at.get();
    let is_then = |at: Timestamp| ended.is_none_or(|ended| at.duration_since(ended).as_secs().abs() <= SAME_OOM);
    let events = subject.index.events_about("Node", &about);
    let oom = events.iter().find(|event| event.reason == "SystemOOM" && event.last_seen().is_none_or(is_then));
    let pressure = || node.condition("MemoryPressure").filter(|condition| condition.status == "True");
    oom.map(|event| format!("SystemOOM: {}", event.message.trim()))
        .or_else(|| pressure().map(|_| "MemoryPressure=True".to_owned()))
}

/// Finds a container that crashes repeatedly.
pub fn crash_looping(
    subject: &Subject,
    pod: &Pod,
    (role, container, status): Observed,
    end: Option<&ContainerStateTerminated>,
) -> Finding {
    let restarts_all = end.is_some_and(|end| container.restarts_all(end.exit_code));
    // The containers of a DaemonSet always restart, unless they have a restart policy of their own.
    let completes = role != Role::Init && end.is_some_and(|end| end.exit_code == 0);
    let verb = if completes || restarts_all { "ends" } else { "crashes" };
    let mut message = Sentence::from(format!("{} {} {verb}", role.noun(), container.name));
    if let Some(end) = end {
        message = message.words(": ").value(end_text(end));
        if let Some((from, to)) = end.started_at.get().zip(end.finished_at.get()) {
            message = message.words(" after ").age(seconds_between(from, to));
        }
    }
    if restarts_all {
        message = message.words(", for which its rule is to restart all containers of the pod");
    }
    let last_words = end.and_then(last_words);
    if let Some(text) = &last_words {
        message = message.words(", ").example(format!("{text:?}"));
    }
    message = message.words("; restarts: ").number(i64::from(status.restart_count));
    let not_started = end.and_then(|end| start_failed(subject, pod, &end.reason, &end.message));
    // With all containers, the kubelet removes their logs.
    let is_last = status.state.terminated.is_some() || restarts_all;
    let command = logs(subject.daemon_set, pod, &container.name, !is_last);
    let said = end.and_then(|end| telling_line(&end.message));
    let decisive = said.and_then(|said| Cause::among(DECISIVE, said)).filter(|cause| cause.mends == Mends::Node);
    let is_of_node = decisive.is_some();
    let told = decisive.map_or_else(|| about_last_words(said), |cause| cause.advice.to_owned());
    let (advice, command) = match completes {
        _ if not_started.is_some() => not_started.unwrap_or_default(),
        true => ("its command must not end: check command and args, and read the log".to_owned(), Some(command)),
        false if said.is_some_and(|said| looks_up_cluster_names(subject, pod, said)) => {
            (CLUSTER_DNS.to_owned(), Some(edit(subject.daemon_set)))
        }
        false => (told, Some(command)),
    };
    let finding = Finding::new(ReasonCode::CrashLooping, message.apart(&advice), advice);
    let finding = match end.and_then(|end| start_origin(container, &end.reason, &end.message)) {
        Some(origin) => finding.with_origin(origin),
        None => finding,
    };
    match command {
        _ if is_of_node => finding.with_origin(Origin::Node).with_command(delete_pod(pod)),
        Some(command) => finding.with_command(command),
        None => finding,
    }
}

/// Returns what to do about what a container has said last, beside its log.
pub fn about_last_words(said: Option<&str>) -> String {
    let cause = said.and_then(|said| Cause::among(DECISIVE, said).or_else(|| Cause::among(LAST_WORDS, said)));
    cause.map_or("read the log".to_owned(), |cause| format!("{}; to read the log", cause.advice))
}

/// What a pod on the host network lacks that looks up names of the cluster.
const CLUSTER_DNS: &str = "set dnsPolicy: ClusterFirstWithHostNet in the template: on the host network, names of the cluster are not \
                           resolved otherwise";

/// Returns whether a pod on the host network has failed to resolve a name of the cluster: it has the DNS servers of its node unless its
/// policy says otherwise (`getPodDNSType`, pkg/kubelet/network/dns/dns.go, release 1.37.2).
fn looks_up_cluster_names(subject: &Subject, pod: &Pod, said: &str) -> bool {
    let unresolved = ["no such host", "not resolve", "name resolution", "name or service not known", "bad address"];
    let (said, policy) = (said.to_lowercase(), &template_of(subject, pod).value()["spec"]["dnsPolicy"]);
    let is_of_cluster = said.contains(".svc") && unresolved.iter().any(|words| said.contains(words));
    is_of_cluster && pod.spec.host_network && matches!(policy.as_str(), None | Some("ClusterFirst" | "Default"))
}

fn is_backing_off(status: &ContainerStatus) -> bool {
    status.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff")
}

/// The container whose log tells most about a pod, and whether that of its previous run does, with its termination message if it
/// crashes; empty if it has none.
type TellingLog<'a> = (&'a str, bool, &'a str);

/// Returns the container whose log tells most about a pod: the first that crashes, or else keeps the pod from being ready, or else is
/// no init container. With `only`, that container; `None` if the pod has none of that name.
pub fn telling_log<'a>(pod: &'a Pod, only: Option<&str>, now: Timestamp) -> Option<TellingLog<'a>> {
    let containers = || walk(pod).filter(|(_, container, _)| only.is_none_or(|only| only == container.name));
    let crashed = containers().find_map(|(role, container, status)| {
        let status = status?;
        let end = crash(pod, now, (role, container, status))?;
        let previous = status.state.terminated.is_none();
        Some((container.name.as_str(), previous, end.map_or("", |end| &end.message)))
    });
    let is_unready = |(role, _, status): &(Role, _, Option<&ContainerStatus>)| {
        status.is_some_and(|status| has_started(status) && !status.ready && !(*role == Role::Init && is_done(status)))
    };
    let name = |(_, container, _): (Role, &'a Container, _)| (container.name.as_str(), false, "");
    crashed
        .or_else(|| containers().find(is_unready).map(name))
        .or_else(|| containers().find(|(role, ..)| *role == Role::Container).map(name))
        .or_else(|| containers().next().map(name))
}

/// Returns the last line of a termination message, which may be the end of the log.
pub fn last_words(end: &ContainerStateTerminated) -> Option<String> {
    // A container runtime puts its own context before the cause, so the end of the message matters most.
    if start_has_failed(&end.reason) {
        let line = end.message.trim();
        let tails = line.match_indices(": ").map(|(at, _)| &line[at + 2..]);
        let tail = std::iter::once(line).chain(tails).find(|tail| tail.chars().count() <= LONGEST_MESSAGE);
        return tail.map(str::to_owned).or_else(|| last_line(line)).filter(|tail| !tail.is_empty());
    }
    last_line(&end.message)
}

/// Writes how a container terminated: `exit code 137 (killed)`.
pub fn end_text(end: &ContainerStateTerminated) -> String {
    let hint = match (end.reason.as_str(), end.exit_code) {
        ("OOMKilled", _) => "OOMKilled",
        ("" | "Error", 126) => "cannot be executed",
        ("" | "Error", 127) => "command or shared library not found",
        ("" | "Error", 132) => "illegal instruction",
        ("" | "Error", 134) => "aborted",
        ("" | "Error", 135) => "bus error",
        ("" | "Error", 137) => "killed",
        ("" | "Error", 139) => "segmentation fault",
        ("" | "Error", 143) => "SIGTERM",
        ("" | "Error" | "Completed", _) => "",
        (reason, _) => reason,
    };
    if hint.is_empty() {
        format!("exit code {}", end.exit_code)
    } else {
        format!("exit code {} ({hint})", end.exit_code)
    }
}

/// Finds an init container that has not completed.
fn init_blocked(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let started = walk(pod).any(|(role, _, status)| role != Role::Container && status.is_some_and(has_started));
    let (role, container, status) = walk(pod).find(|(role, _, status)| match role {
        Role::Container => false,
        Role::Init => !status.is_some_and(is_done),
        Role::Sidecar => !status.is_some_and(|status| status.started == Some(true) || status.ready),
    })?;
    let status = status?;
    let waits_for_a_reason = status.state.waiting.as_ref().is_some_and(|waiting| !waiting.reason.is_empty());
    if !started && (!waits_for_a_reason || status.is_being_created()) {
        return None;
    }
    let mut message = Sentence::from(format!("{} {} has not completed", role.noun(), container.name));
    if role == Role::Sidecar {
        message = Sentence::from(format!("sidecar {} has not started", container.name));
    }
    if let Some(since) = status.state.running.as_ref().and_then(|running| running.started_at.get()) {
        message = message.words(", running for ").age(seconds_between(since, subject.index.now()));
    }
    Some(Finding::new(ReasonCode::InitBlocked, message, "read the log").with_command(logs(
        subject.daemon_set,
        pod,
        &container.name,
        false,
    )))
}

/// What the kubelet warns of while it starts a pod, and that has no finding of its own.
const AT_START: &[Cause] = &[
    cause(
        Mends::Template,
        &["consider using onrootmismatch"],
        "wait: the kubelet gives every file of the volume to fsGroup; with fsGroupChangePolicy: OnRootMismatch in the securityContext of \
         the template, it does so only once",
    ),
    cause(
        Mends::Node,
        &["error determining status", "unable to ensure pod container exists", "error making pod data directories"],
        "restart the container runtime and the kubelet of the node, and check its disk: they cannot tell or make what the pod needs there",
    ),
];

/// Finds that the containers are still starting.
fn containers_starting(subject: &Subject, pod: &Pod, events: &[&Event]) -> Finding {
    let waiting = walk(pod).find_map(|(_, _, status)| status?.state.waiting.as_ref()).map(|waiting| &waiting.reason);
    let state = match waiting {
        Some(reason) if !reason.is_empty() => format!("the containers have not started ({reason})"),
        Some(_) => "the containers have not started".to_owned(),
        None => "the kubelet has not started the pod".to_owned(),
    };
    let since = pod.status.start_time.get().or_else(|| {
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time.get());
        bound.or_else(|| pod.metadata.creation_timestamp.get())
    });
    let message = match since {
        Some(since) => Sentence::from(state).words(" for ").age(seconds_between(since, subject.index.now())),
        None => Sentence::from(state),
    };
    let finding =
        |message: Sentence, advice: &str| Finding::new(ReasonCode::ContainersStarting, message, advice.to_owned());
    const LOOK: &str = "wait; if it persists, look at the pod";
    // A provider of virtual nodes says here why it does not run the pod (node/pod.go, github.com/virtual-kubelet/virtual-kubelet).
    if !pod.status.reason.is_empty() {
        let message = message.words("; ").value(&pod.status.reason).words(": ").value(pod.status.message.trim());
        let node = subject.index.node(&pod.spec.node_name);
        return match node.and_then(|node| Some(single_pod_node(node)?.advice(node))) {
            Some(advice) => {
                Finding::new(ReasonCode::ContainersStarting, message, advice).with_command(edit(subject.daemon_set))
            }
            None => finding(message, LOOK).with_command(describe_pod(pod)),
        };
    }
    // What was said of the scheduling is over.
    let now = subject.index.now();
    let warns =
        |event: &&&Event| event.type_ == "Warning" && event.reason != "FailedScheduling" && event.is_recent(now);
    let Some(event) = events.iter().find(warns) else { return finding(message, LOOK).with_command(describe_pod(pod)) };
    let message = message.words("; ").value(&event.reason).words(": ").event(event, subject.index.now());
    match Cause::among(AT_START, &event.message) {
        Some(cause) if cause.mends == Mends::Node => finding(message, cause.advice).with_origin(Origin::Node),
        Some(cause) => finding(message, cause.advice).with_command(edit(subject.daemon_set)),
        None => finding(message, LOOK).with_command(describe_pod(pod)),
    }
}

/// Finds a container that runs but is not ready: its probe fails.
fn readiness_failing(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let (role, container, status) =
        walk(pod).filter(|(role, ..)| *role != Role::Init).find(|(_, _, status)| status.is_some_and(|s| !s.ready))?;
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
        message = message.words(" for ").age(seconds_between(since, subject.index.now()));
    }
    if let Some(seconds) = passed_for {
        message = message.words(", and succeeded for ").age(seconds).words(" before");
    }
    let own = format!("{{{}}}", container.name);
    let unhealthy = || events.iter().copied().filter(|event| event.reason == "Unhealthy");
    let failed =
        unhealthy().find(|event| event.involved_object.field_path.contains(&own)).or_else(|| unhealthy().next());
    if let Some(event) = failed {
        message = message.words(": ").event(event, subject.index.now());
    }
    if let Some((address, down)) = failed.and_then(|event| subject.index.down_in(&event.message)) {
        let name = &down.metadata.name;
        let message = message.words(format!("; {address} is node {name}, which is not ready"));
        let advice = format!(
            "repair node {name}, or delete its Node object if its machine no longer exists: the container works, and waits for it"
        );
        return Some(Finding::new(ReasonCode::ReadinessFailing, message, advice).with_command(describe_node(down)));
    }
    let advice = match passed_for {
        Some(_) => {
            "find out what has changed since: what the program depends on, its node, or its load; the log may tell"
        }
        None => "fix the probe, or what keeps it from succeeding",
    };
    let finding = Finding::new(ReasonCode::ReadinessFailing, message, advice);
    let unreached = failed.and_then(|event| probes::unreached(subject, pod, container, probe, &event.message));
    if let Some(cause) = unreached {
        return Some(probes::of_unreached(subject, pod, finding, cause));
    }
    Some(of_injected(
        subject,
        pod,
        &container.name,
        finding.with_command(logs(subject.daemon_set, pod, &container.name, false)),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{all_started, last_words, none_created, telling_log};
    use crate::coverage::test_support::{at, world};
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
        let running = json!({"ready": true, "state": {"running": {}}});
        let unready = json!({"state": {"running": {}}});
        let ended = json!({"state": {"terminated": {"exitCode": 1}}});
        let done = json!({"state": {"terminated": {"exitCode": 0}}});
        for (init, main, side, expected) in [
            (&done, &running, &running, ("main", false)),
            (&done, &running, &crashing, ("side", true)),
            (&done, &unready, &crashing, ("side", true)),
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
