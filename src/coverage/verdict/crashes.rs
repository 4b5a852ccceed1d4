//! How a container crashes, and why.

use jiff::Timestamp;

use super::cause::{Cause, FixIn, INOTIFY, TOO_MANY_OPEN_FILES, cause};
use super::creation_errors::{start_failed, start_has_failed, start_origin};
use super::daemon_set_context::Subject;
use super::finding::{
    Finding, Origin, Step, TemplatePart, delete_pod, describe_bound_node, describe_node, describe_pod, edit, logs,
};
use super::fit::instead_of_surge;
use super::images::template_of;
use super::roles::{Observed, Role, walk};
use super::sentence::Sentence;
use super::telling::{DECISIVE, LONGEST_MESSAGE, last_line, quoted, telling_line};
use super::workload::workload;
use crate::model::event::Event;
use crate::model::mounted_paths::{Mounted, missing_in};
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use crate::model::template::Template;
use crate::model::template_parts::volumes;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// For how many seconds after a restart the last termination counts as the current problem.
const RECENT_END: i64 = 600;

/// What programs say last that is not about themselves: errors of Go's network and of client-go, and of the node.
const LAST_WORDS: &[Cause] = &[
    INOTIFY,
    TOO_MANY_OPEN_FILES,
    cause(
        FixIn::Template,
        &["/dev/shm…no space left on device"],
        "mount an emptyDir with medium: Memory at /dev/shm in the template: what every container gets has 64 MB",
    ),
    cause(
        FixIn::Host,
        &["no space left on device", "disk quota exceeded"],
        "free space where the container writes: in the volume, or on the disk of the node",
    ),
    cause(
        FixIn::Host,
        &[
            "pthread_create… resource temporarily unavailable",
            "fork… resource temporarily unavailable",
            "can't start new thread",
        ],
        "find what has used up the processes: those of the pod (podPidsLimit of the kubelet), or those of the node (kernel.pid_max)",
    ),
    // ETXTBSY: the kernel lets nobody write to a program while it runs.
    cause(
        FixIn::Found,
        &["text file busy"],
        "have the template write the file under another name and rename it (`install`, or `cp --remove-destination`): a program that runs, \
         such as that of the pod before, cannot be written to",
    ),
    cause(
        FixIn::Template,
        &["vxlan…address already in use", "set interface …address already in use"],
        "remove the network device of another network plugin from the node, or give the two different UDP ports: VXLAN devices share none",
    ),
    cause(
        FixIn::Node,
        &["listen unix …address already in use"],
        "remove the socket that it names on the node, if no process uses it: one that was killed leaves it behind",
    ),
    cause(
        FixIn::Template,
        &["address already in use"],
        "free the port, or change it in the template: another process has it, on the node if the pod uses the host network",
    ),
    cause(
        FixIn::Template,
        &[
            "listen tcp …bind: permission denied",
            "listen udp …bind: permission denied",
            "bind() to 0.…permission denied",
            "bind() to 1…permission denied",
            "bind() to […permission denied",
        ],
        "have it listen on a port above 1023, or give the container capability NET_BIND_SERVICE, which a program that does not run as root \
         gets only from its file, and not with allowPrivilegeEscalation: false; or set net.ipv4.ip_unprivileged_port_start",
    ),
    cause(
        FixIn::Template,
        &["listen …cannot assign requested address", "bind…cannot assign requested address"],
        "have it listen on all addresses, or on one that the pod has: on the host network, those of the node (an IPv6 address needs IPv6 there)",
    ),
    cause(
        FixIn::Template,
        &["cpu does not support x86-64", "does not support x86-64-v", "can only be run on amd64 processors with v"],
        OLD_CPU,
    ),
    cause(
        FixIn::Template,
        &["error while loading shared libraries", "glibc_… not found"],
        "correct the image: its program needs a library that is not in it, or another version",
    ),
    cause(
        FixIn::Template,
        &[
            "do you need to insmod",
            "can't change directory to '/lib/modules'",
            "failed to initialize nft: protocol not supported",
            "modprobe: fatal: module ",
        ],
        "load the kernel module that it needs on the node, or mount /lib/modules, so that the container can load it",
    ),
    // Of two times in such a message, the first is the node's.
    cause(
        FixIn::Node,
        &["not yet valid: current time … is before "],
        "correct the clock of the node: by it, the certificate is not valid yet",
    ),
    cause(
        FixIn::Found,
        &["certificate has expired or is not yet valid", "certificate has expired"],
        "renew the certificate of the server that it connects to, or its own; or correct the clock of the node",
    ),
    cause(
        FixIn::Object,
        &["no matches for kind \""],
        "install the CustomResourceDefinition of the kind that it names: a chart may not upgrade those",
    ),
    cause(
        FixIn::Template,
        &[
            "exec user process caused: no such file or directory",
            "exec user process caused \"no such file or directory\"",
        ],
        "correct the command or the image: the program, the interpreter that its first line names, or its loader is not in the image",
    ),
    cause(
        FixIn::Found,
        &[
            "lookup … on …: read udp …i/o timeout",
            "lookup … on …connection refused",
            "lookup … on …server misbehaving",
            "temporary failure in name resolution",
        ],
        "check the DNS servers of the pod, and its way to them: they do not answer",
    ),
    // The in-cluster configuration of client-go has the address of the Service, never a name.
    cause(
        FixIn::Cluster,
        &["https://1…:443/api…dial tcp ", "https://[…:443/api…dial tcp "],
        "check kube-proxy, or what replaces it, and the network plugin on the node: the pod does not reach the API server through its \
         Service",
    ),
    // What the NVIDIA device plugin says: internal/plugin/factory.go, github.com/NVIDIA/k8s-device-plugin.
    cause(
        FixIn::Host,
        &["nvml: error_library_not_found", "could not load nvml library", "failed to initialize nvml: could not load"],
        "if the node has a GPU, install its driver, and have the NVIDIA runtime run these pods (runtimeClassName, or the default of the \
         container runtime); exclude nodes without GPUs with a nodeSelector",
    ),
    // Longhorn.
    cause(
        FixIn::Host,
        &["failed to execute iscsiadm", "iscsiadm/open-iscsi", "iscsiadm: not found"],
        "install open-iscsi (iscsi-initiator-utils) on the node, and start iscsid: the node itself attaches its volumes",
    ),
    // CoreDNS, which forwards to the name servers of its node unless its configuration names others.
    cause(
        FixIn::Host,
        &["plugin/loop: loop ("],
        "correct the resolv.conf of the node, or the servers to which its configuration forwards: the queries that it forwards come back to it",
    ),
    // flannel.
    cause(
        FixIn::Cluster,
        &["pod cidr not assigned"],
        "give the node a podCIDR: kube-controller-manager does with --allocate-node-cidrs and --cluster-cidr, unless that range is used up \
         (event CIDRNotAvailable of the node)",
    ),
    // kube-proxy on a node that is a container itself, as in kind.
    cause(
        FixIn::Host,
        &[
            "nf_conntrack_max: permission denied",
            "nf_conntrack_max\": permission denied",
            "nf_conntrack_max: read-only",
        ],
        "set conntrack.maxPerCore: 0 in the configuration of kube-proxy, and the value on the host: a node that is a container may not change it",
    ),
    cause(
        FixIn::Template,
        &["argument list too long"],
        "set enableServiceLinks: false in the template: every Service of the namespace adds variables to the environment",
    ),
    cause(
        FixIn::Object,
        &["yaml: line ", "yaml: unmarshal errors", "error converting yaml to json"],
        "correct the YAML that it reads, usually in a ConfigMap that the template mounts",
    ),
    cause(
        FixIn::Cluster,
        &["is forbidden: user \"system:serviceaccount:"],
        "give the service account a role that allows what the message says",
    ),
];

/// The exit code of a program that SIGILL has ended.
const ILLEGAL_INSTRUCTION: i32 = 132;

const OLD_CPU: &str = "use an image for older CPUs, or exclude these nodes with a nodeSelector: their CPU lacks instructions that the program needs";

/// Returns whether a container crashes, and its end, if that is known.
///
/// What the kubelet ended because of another container does not crash, nor does what was lost with its sandbox.
pub fn crash<'p>(
    pod: &'p Pod,
    now: Timestamp,
    (role, container, status): Observed<'p>,
) -> Option<Option<&'p ContainerStateTerminated>> {
    let end = current_termination(now, role, status).filter(|end| !end.is_unknown() || is_backing_off(status));
    let follows = end.is_some_and(|end| follows_another(pod, container, end));
    (!follows && (is_backing_off(status) || end.is_some())).then_some(end)
}

/// Returns whether the log of a run of a container that has ended so is that of its previous one: with all containers, the kubelet
/// removes their logs.
pub(super) fn is_log_of_previous(
    container: &Container,
    status: &ContainerStatus,
    end: Option<&ContainerStateTerminated>,
) -> bool {
    status.state.terminated.is_none() && !end.is_some_and(|end| container.restarts_all(end.exit_code))
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

/// How often a kubelet replaces the sandbox of a pod that does not keep one.
const REPLACED: i32 = 3;

const NOT_RESTARTED: &str = "delete the pod: the kubelet does not restart the container, and should after 5m at the latest; if a new pod \
     ends like this, too, restart or upgrade the kubelet of the node";

/// Returns when a container ended that the kubelet of a node that answers should have restarted since: it waits 5 minutes at most
/// (`MaxCrashLoopBackOff`, pkg/kubelet/kubelet.go, release 1.37.2).
fn not_restarted_since(
    subject: &Subject,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
) -> Option<Timestamp> {
    let restarts = container.restart_policy.as_deref().is_none_or(|policy| policy == "Always");
    let answers = || subject.index.node(&pod.spec.node_name).is_some_and(Node::is_ready);
    let ended = status.state.terminated.as_ref()?.finished_at.get()?;
    let is_late = subject.seconds_since(ended) > RECENT_END;
    (is_late && restarts && !pod.metadata.is_terminating() && answers()).then_some(ended)
}

/// Finds that the kubelet ends the containers of a pod again and again because it replaces their sandbox: `SyncPod`,
/// pkg/kubelet/kuberuntime/kuberuntime_manager.go, release 1.37.2.
pub fn sandbox_changes(subject: &Subject, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let now = subject.now();
    let is_one =
        |event: &&&Event| event.reason == "SandboxChanged" && event.times() >= REPLACED && event.is_recent(now);
    let event = events.iter().find(is_one)?;
    // What began after that and has ended crashed by itself.
    let ended = walk(pod).filter_map(|(_, _, status)| {
        let state = status?;
        state.state.terminated.as_ref().or(state.last_state.terminated.as_ref())
    });
    if ended.filter_map(|end| end.started_at.get()).max() > event.last_seen() {
        return None;
    }
    let message =
        Sentence::from("the containers do not crash by themselves, the kubelet ends them with their sandbox: ")
            .event(event, now);
    let advice = "check the container runtime of the node and its log: its cgroup driver must be that of the kubelet (SystemdCgroup for \
                  systemd)";
    let finding = Finding::new(ReasonCode::CrashLooping, message, advice).with_origin(Origin::Node);
    Some(finding.with_command(describe_bound_node(pod)))
}

/// Finds that the kubelet restarts all containers of a pod, if it has removed the one whose end made it do so.
pub fn all_restarting(pod: &Pod) -> Option<Finding> {
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
pub fn out_of_memory(
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
            let finding = Finding::new(ReasonCode::OOMKilled, restarts(message), advice);
            let is_own = of.is_empty();
            let part = is_own.then(|| TemplatePart::Container(container.name.clone(), Step::Alone));
            Some(finding.depends_on(part).with_command(edit(subject.daemon_set)))
        }
        (_, None) if is_oom_killed => {
            let message = killed.words("OOMKilled; no memory limit, so the node likely ran out of memory");
            let (advice, command) = match container.resources.requests.contains_key("memory") {
                true => ("find out what uses the memory of the node", describe_bound_node(pod)),
                false => {
                    ("find out what uses the memory of the node, and set a memory request", edit(subject.daemon_set))
                }
            };
            Some(Finding::new(ReasonCode::OOMKilled, restarts(message), advice).with_command(command))
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
    let ended = end.finished_at.get();
    let is_then = |at: Timestamp| ended.is_none_or(|ended| at.duration_since(ended).as_secs().abs() <= SAME_OOM);
    let events = subject.index.events_named("Node", "", &node.metadata.name);
    let oom = events.iter().find(|event| event.reason == "SystemOOM" && event.last_seen().is_none_or(is_then));
    let was_then = |since: Timestamp| ended.is_none_or(|ended| since.duration_since(ended).as_secs() <= SAME_OOM);
    let pressure = node.condition("MemoryPressure").filter(|condition| condition.status == "True");
    let pressure = pressure.filter(|condition| condition.last_transition_time.get().is_none_or(was_then));
    oom.map(|event| format!("SystemOOM: {}", event.message.trim()))
        .or_else(|| pressure.map(|_| "MemoryPressure=True".to_owned()))
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
        message = message.words(", ").example(quoted(text));
    }
    message = message.words("; restarts: ").number(i64::from(status.restart_count));
    if let Some(ended) = not_restarted_since(subject, pod, container, status) {
        let message = message.words("; not restarted for ").age(subject.seconds_since(ended));
        let finding = Finding::new(ReasonCode::CrashLooping, message, NOT_RESTARTED);
        return finding.with_origin(Origin::Node).with_command(delete_pod(pod));
    }
    let not_started = end.and_then(|end| start_failed(subject, pod, &end.reason, &end.message));
    let command = logs(subject, pod, &container.name, is_log_of_previous(container, status, end));
    let said = end.and_then(|end| telling_line(&end.message));
    let waits_for_lock = said.is_some_and(|said| is_locked(template_of(subject, pod), &said.to_lowercase()));
    let decisive = said.and_then(|said| Cause::among(DECISIVE, said)).filter(|cause| cause.fix_in == FixIn::Node);
    let of_node = said.and_then(|said| Cause::among(LAST_WORDS, said)).map(|cause| cause.fix_in);
    let of_node = of_node.filter(|fix_in| matches!(fix_in, FixIn::Node | FixIn::Host | FixIn::Found));
    let told = decisive.map_or_else(|| about_last_words(said), |cause| cause.advice.to_owned());
    let told = match told == READ_THE_LOG && end.is_some_and(|end| end.exit_code == ILLEGAL_INSTRUCTION) {
        true => format!("{OLD_CPU}; to read the log"),
        false => told,
    };
    let told = match told == READ_THE_LOG && waits_for_lock {
        true => LOCKED_PATH.to_owned(),
        false => told,
    };
    let missing = said.and_then(|said| missing_in(template_of(subject, pod).value(), &container.name, said));
    let told = match missing.as_ref().filter(|_| told == READ_THE_LOG) {
        Some((path, mounted)) => format!("{}; to read the log", provide(path, mounted)),
        None => told,
    };
    let told = match told == READ_THE_LOG && role == Role::Container && stale_volumes(subject, pod) {
        true => format!(
            "{told}; if it does not help, delete the pod: only a new one has empty volumes and runs its init containers again"
        ),
        false => told,
    };
    // Without its events, nothing tells whether the kubelet has ended it.
    let may_be_killed =
        container.liveness_probe.is_some() && subject.index.events_about("Pod", &pod.metadata).is_empty();
    let (advice, command) = match completes {
        _ if not_started.is_some() => not_started.unwrap_or_default(),
        true if may_be_killed => (
            "check its liveness probe, which may have ended it, and command and args: it must not end by itself; read the log"
                .to_owned(),
            Some(command),
        ),
        true => ("its command must not end: check command and args, and read the log".to_owned(), Some(command)),
        false if said.is_some_and(|said| looks_up_cluster_names(subject, pod, said)) => {
            (CLUSTER_DNS.to_owned(), Some(edit(subject.daemon_set)))
        }
        false => (told, Some(command)),
    };
    let is_loop = said.is_some_and(|said| said.contains("plugin/loop"));
    let is_read_only = said.is_some_and(|said| is_read_only_on_node(template_of(subject, pod), &container.name, said));
    let part = match said.and_then(port_in_use).filter(|_| pod.spec.host_network) {
        Some(address) => TemplatePart::Port(address.to_owned()),
        // A program may be told where it forwards to.
        None if waits_for_lock || is_loop || is_read_only => TemplatePart::BesideImage,
        None => match missing {
            Some((path, _)) => {
                let exists = said.is_some_and(|said| said.to_lowercase().contains("connection refused"));
                TemplatePart::Mounted { container: container.name.clone(), path, exists }
            }
            None if said.map_or(completes && !may_be_killed, names_no_neighbor) => {
                TemplatePart::Container(container.name.clone(), Step::Alone)
            }
            None => TemplatePart::Anything,
        },
    };
    let finding = Finding::new(ReasonCode::CrashLooping, message.apart(&advice), advice);
    let finding = finding.with_origin(Origin::Template(part.clone()));
    let finding = match end.and_then(|end| start_origin(subject, pod, container, &end.reason, &end.message)) {
        Some(origin) => finding.with_origin(origin),
        None => finding,
    };
    match of_node.filter(|_| command.is_some()) {
        _ if decisive.is_some() => finding.with_origin(Origin::Node).with_command(delete_pod(pod)),
        Some(fix_in) => finding.with_origin(fix_in.origin(part)).with_command(command),
        None => finding.with_command(command),
    }
}

/// Returns what to do about a path that a container mounts and that does not exist.
fn provide(path: &str, mounted: &Mounted<'_>) -> String {
    match (mounted.of_object(), mounted.of_node()) {
        (Some((kind, name)), _) => {
            format!("see whether {kind} {name}, which is mounted at {}, has the file", mounted.mount_path())
        }
        (_, Some(of_node)) if path.contains("pipe\\") || path.ends_with(".sock") => {
            format!("start what serves it on the node: the template mounts {of_node} of the node there")
        }
        (_, of_node) => {
            let of_node = of_node.unwrap_or_default();
            format!("provide it on the node, or start there what does: the template mounts {of_node} of the node there")
        }
    }
}

/// Returns the address on which a program could not listen, as Go says it: `listen tcp :9100: bind: address already in use`.
fn port_in_use(said: &str) -> Option<&str> {
    let (before, _) = said.split_once(": bind: address already in use")?;
    let (_, address) = before.rsplit_once("listen ")?.1.split_once(' ')?;
    address.rsplit_once(':')?.1.chars().all(|c| c.is_ascii_digit()).then_some(address)
}

/// Returns whether a program could not write to a path of its node that it mounts, and may write to as far as the template says.
fn is_read_only_on_node(template: &Template, container: &str, said: &str) -> bool {
    let is_refused = said.to_lowercase().contains("read-only file system");
    let mut paths = said.split([' ', ':', '\'', '"', '`']).filter(|word| word.starts_with('/'));
    is_refused
        && paths.any(|path| Mounted::at(template.value(), container, path).is_some_and(|it| it.is_writable_on_node()))
}

/// Returns whether what a program says has to do with nothing that another container of its pod may serve.
fn names_no_neighbor(said: &str) -> bool {
    // On the network of a pod, only its containers take ports.
    const NEIGHBORS: [&str; 8] =
        ["localhost", "127.0.0.1", "[::1]", "unix", ".sock", "address already in use", "address in use", "eaddrinuse"];
    let said = said.to_lowercase();
    !NEIGHBORS.iter().any(|words| said.contains(words))
}

/// Returns whether a pod has volumes that outlive its containers, filled by init containers, and the same template works elsewhere.
fn stale_volumes(subject: &Subject, pod: &Pod) -> bool {
    let has_init = !pod.spec.init_containers.is_empty();
    let has_empty_dir = || volumes(template_of(subject, pod).value()).any(|volume| volume["emptyDir"].is_object());
    let works = |other: &Pod| other.is_ready() && other.revision_hash() == pod.revision_hash();
    has_init && has_empty_dir() && subject.pods().any(works)
}

/// What to do if another process holds a lock in a directory of the node.
const LOCKED_PATH: &str = "see which other process on the node uses the directory that it names, such as a pod with the same hostPath, and \
                           give each its own; to read the log";

const READ_THE_LOG: &str = "read the log";

/// Returns what to do about what a container has said last, beside its log.
pub fn about_last_words(said: Option<&str>) -> String {
    let cause = said.and_then(|said| Cause::among(DECISIVE, said).or_else(|| Cause::among(LAST_WORDS, said)));
    cause.map_or(READ_THE_LOG.to_owned(), |cause| format!("{}; to read the log", cause.advice))
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

/// What programs say of a lock that another process holds.
const HELD: &[&str] = &["locked by another", "lock is held by", "lock held by", "held by another process"];

/// What they say that do not get one, or find another instance of themselves.
const LOCKED: &[&str] = &[
    "already locked",
    "lock is held",
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
const ELSEWHERE: &[&str] =
    &["lock memory", "leases", " lease", "forbidden", "connection", "timed out", "timeout", "http"];

/// Returns whether a program did not find free what another instance on the node may hold: a port of the node, or a lock in one of its
/// directories.
fn is_held(pod: &Pod, template: &Template, said: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
    let has_host_path = has_host_path(template);
    (pod.spec.host_network && has(&["address already in use", "address in use"]))
        || (has_host_path && said.contains("listen unix") && has(&["address already in use"]))
        || is_locked(template, said)
}

/// Returns whether a program says that another one holds a lock, which may be in a directory of the node.
fn is_locked(template: &Template, said: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
    // `flock(2)` of a file.
    let is_of_file = has(&["open /", "lock /"]) && has(&["resource temporarily unavailable"]);
    has_host_path(template) && (is_of_file || ((has(HELD) || has(LOCKED)) && !has(ELSEWHERE)))
}

fn has_host_path(template: &Template) -> bool {
    volumes(template.value()).any(|volume| volume["hostPath"].is_object())
}

/// Says of a surge pod that needs what the old pod of its node still holds that the two exclude each other.
pub fn beside_old_pod(
    subject: &Subject,
    pod: &Pod,
    finding: Finding,
    end: Option<&ContainerStateTerminated>,
) -> Finding {
    let said = end.and_then(|end| telling_line(&end.message)).unwrap_or_default().to_lowercase();
    let mut old = subject.old_pods_on(&pod.spec.node_name, pod).filter(|old| old.is_ready());
    let Some(old) = old.next().filter(|_| is_held(pod, template_of(subject, pod), &said)) else { return finding };
    let holds = Sentence::from("; the old pod ").name(&old.metadata.name, workload(old));
    let holds = holds.words(" runs on the node until this one is available, and may hold it");
    let advice = "use maxUnavailable instead of maxSurge: two such pods exclude each other on a node";
    instead_of_surge(finding.and(holds).with_advice(advice), old)
}
