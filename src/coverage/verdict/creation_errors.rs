//! Why a container cannot be created or started, by what the kubelet and the container runtime say.

use super::admission_changes::{of_object, of_profile};
use super::cause::{Also, CONTAINER_TOOLKIT, Cause, FixIn, cause, platform, quoted_after};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, Step, TemplatePart, describe_bound_node, describe_pod, edit};
use super::images::{is_image_pull_failure, other_platform, template_of};
use super::roles::{Role, has_started};
use super::sentence::Sentence;
use super::webhook;
use crate::model::pod::{Container, ContainerStatus, Pod};
use crate::model::snapshot::Kind;
use crate::model::template_parts::{containers, volumes};
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// What a mount needs whose target is in a read-only file system of the container.
const IN_READ_ONLY: &str =
    "mount at a path that exists or can be created: the file system that the container has there is read-only";

/// What a disk needs that Linux has made read-only after an error.
pub const READ_ONLY_DISK: &str = "check the disk of the node: its file system has become read-only";

/// What to do about a container runtime that is too slow.
pub const RUNTIME_IS_SLOW: &str = "check the container runtime of the node and its disk: it does not answer in time";

/// What runc says if the kernel has no memory left for the seccomp filters of containers (ENOTSUPP).
pub const BPF_MEMORY: Cause = cause(
    FixIn::Node,
    &["seccomp… errno 524"],
    "restart the node, or raise sysctl net.core.bpf_jit_limit there: its kernel has no memory left for seccomp filters; a newer kernel \
     frees it",
);

/// What runtimes say of profiles that they cannot apply.
pub const PROFILE: Cause = cause(
    FixIn::Host,
    &["apparmor", "seccomp"],
    "install the profile on the node, or correct it in the securityContext",
)
.and(Also::Profile);

/// What to do if no profile of the template is meant.
pub const PROFILE_OF_RUNTIME: &str = "correct or upgrade the container runtime of the node, or its support for the profile: the template \
                                      names no profile of the node (type Localhost)";

/// Returns whether a cause is about a profile although the template names none: it is up to the container runtime, to which the kubelet
/// passes the type. The API server demands a name with type Localhost and forbids it otherwise (`ValidateAppArmorProfileField`,
/// pkg/apis/core/validation/validation.go, release 1.37.2).
pub fn is_profile_of_runtime(cause: &Cause, subject: &Subject, pod: &Pod, said: &str) -> bool {
    let template = template_of(subject, pod).value();
    let kind = if said.to_lowercase().contains("apparmor") { "apparmor" } else { "seccomp" };
    let field = if kind == "apparmor" { "appArmorProfile" } else { "seccompProfile" };
    let mut parts = containers(template).chain([&template["spec"]]);
    let annotations = template["metadata"]["annotations"].as_object().into_iter().flatten();
    let mut of_annotations = annotations.filter(|(key, _)| key.contains(&format!("{kind}.security.")));
    cause.also == Some(Also::Profile)
        && !parts.any(|part| part["securityContext"][field]["type"] == "Localhost")
        && !of_annotations.any(|(_, value)| value.as_str().is_some_and(|value| value.starts_with("localhost/")))
}

/// Returns whether a message is about a profile of the node, of type Localhost, although the template names none.
fn is_added_profile(subject: &Subject, pod: &Pod, said: &str) -> bool {
    let of_node = ["/seccomp/", "localhost/"].iter().any(|words| said.contains(words));
    of_node && is_profile_of_runtime(&PROFILE, subject, pod, said)
}

/// What runc says if even its own start needs more memory than the limit allows.
pub const MEMORY_TOO_LOW: &[&str] = &[
    "memory limit too low",
    "oom-killed (memory limit",
    "container init was oom-killed",
    "memory.limit_in_bytes… device or resource busy",
    "memory.max… device or resource busy",
];

/// What the kubelet and container runtimes say of containers that they cannot create or start.
///
/// The kubelet's own words are those of `generateContainerConfig` and its callers, pkg/kubelet/kuberuntime/kuberuntime_container.go,
/// `verifyRunAsNonRoot`, security_context_others.go, and `makeMounts`, pkg/kubelet/kubelet_pods.go, release 1.37.2; the others are
/// those of containerd 1.7 and 2, CRI-O and runc.
const CAUSES: &[Cause] = &[
    cause(FixIn::Host, &["not a shared mount", "not a shared or slave mount"], "").and(Also::ShareMount),
    // `mount_setattr(2)`, which runc calls for each volume of a pod with a user namespace.
    cause(
        FixIn::Template,
        &["mount_attr_idmap"],
        "remove hostUsers: false from the template, or the volume that the message names: its file system cannot be used in a user namespace",
    ),
    platform(&["exec format error", "does not match the host operating system", "cannot be used on this platform"]),
    cause(
        FixIn::Template,
        &["image has non-numeric user"],
        "set securityContext.runAsUser to the number of the image's user: that a name is not root cannot be verified",
    )
    .and(Also::DemandNonRoot),
    cause(
        FixIn::Template,
        &["runasnonroot", "verify user is non-root", "image will run as root"],
        "set securityContext.runAsUser to a user ID other than 0, or use an image whose user is not root",
    )
    .and(Also::DemandNonRoot),
    cause(
        FixIn::Template,
        &[
            "unable to find user",
            "unable to find group",
            "no users found",
            "no groups found",
            "no matching entries in passwd file",
        ],
        "correct the user: the image does not have it; a numeric runAsUser needs no entry there",
    ),
    cause(
        FixIn::Template,
        &["no command specified", "no command or entrypoint"],
        "set command in the template: the image has none",
    ),
    cause(
        FixIn::Host,
        &[
            "apparmor_parser",
            "exec: \"containerd-shim",
            "failed to start shim… executable file not found",
            "exec: \"runc\"",
            "exec: \"crun\"",
        ],
        "install on the node the program that the message names: its container runtime does not find it",
    ),
    cause(
        FixIn::Node,
        &["containerd-shim", "failed to start shim", "failed to create shim task: ttrpc"],
        "restart the container runtime of the node: it cannot start what runs its containers",
    ),
    // hcsshim: internal/jobcontainers, and what Windows says of CreateProcess.
    cause(
        FixIn::Template,
        &["failed to get application name from commandline", "failed to find executable"],
        "correct the command in the template: the Windows host does not have this file; a HostProcess container has the files of its image \
         below %CONTAINER_SANDBOX_MOUNT_POINT%",
    ),
    cause(
        FixIn::Template,
        &["hcs… the system cannot find the file specified", "hcs… the system cannot find the path specified"],
        "correct the command or workingDir in the template: the image does not have it",
    ),
    cause(
        FixIn::Template,
        &["executable file not found", "executable file `…` not found", "exec: …: no such file or directory", "exec: … not found"],
        "correct the command: the image does not have this file",
    ),
    cause(
        FixIn::Template,
        &["exec: …: permission denied", "exec: … is a directory"],
        "correct the command, or make the file executable in the image: its user may not execute it",
    ),
    cause(
        FixIn::Template,
        &["chdir to cwd", "working directory"],
        "correct workingDir: the user of the container cannot change to it",
    ),
    cause(
        FixIn::Node,
        &["/proc/…/ns/… no such file or directory"],
        "delete the pod, so that it gets a new sandbox: the processes of the old one are gone, which the kubelet has not noticed",
    )
    .and(Also::DeletePod),
    // `GetNodeHostIPs`, pkg/util/node/node.go, for variables that have status.hostIP.
    cause(
        FixIn::Node,
        &["host ip unknown"],
        "give the node an address (InternalIP in its status), which the kubelet (--node-ip) or the cloud controller manager sets: it has \
         none, and a variable of the container is to have it",
    ),
    cause(
        FixIn::Node,
        &["create container log directory"],
        "see why the kubelet of the node cannot make the directory that the message names, which is for logs of pods",
    ),
    cause(
        FixIn::Cluster,
        &[
            "failed to sync configmap cache",
            "failed to sync secret cache",
            "not registered",
            "services have not yet been read",
        ],
        "wait; if it persists, check that the kubelet of the node reaches the API server",
    ),
    cause(
        FixIn::Template,
        &["mount a directory onto a file", "mounting … not a directory", "mounting … is a directory"],
        "correct the mount: one of the paths is a directory, and the other is a file",
    )
    .and(Also::MayBeNode),
    cause(
        FixIn::Node,
        &["transport endpoint is not connected"],
        "check the pod of the volume's driver on the node, and then delete this pod: what served its mount has ended, and the mount is dead",
    ),
    cause(
        FixIn::Asked,
        &["subpath"],
        "correct subPath: it must be a relative path that exists, or may be created, in the volume",
    )
    .and(Also::MayBeNode),
    // containerd: pkg/cri/opts, CRI-O: server/container_create_linux.go, and Moby: volume/mounts.
    cause(
        FixIn::Asked,
        &["/attr/keycreate… invalid argument", "/attr/exec… invalid argument"],
        "correct seLinuxOptions in the securityContext of the template, or install the policy module that has the type: the SELinux policy of \
         the node does not know the label",
    )
    .and(Also::MayBeNode),
    cause(
        FixIn::Asked,
        &["relabel … lsetxattr", "relabel failed", "setting label on mount source", "failed to set file label"],
        "mount another path, or remove seLinuxOptions from the template if they call for it: SELinux labels are to be set on the files that \
         the message names, and the file system there does not let them be set",
    ),
    cause(FixIn::Template, &["rootfs… read-only file system", "/merged/… read-only file system"], IN_READ_ONLY),
    cause(
        FixIn::Node,
        &[
            "/var/lib/containerd… read-only file system",
            "/var/lib/docker… read-only file system",
            "/var/lib/containers… read-only file system",
            "/run/containerd… read-only file system",
            "/var/lib/kubelet… read-only file system",
        ],
        READ_ONLY_DISK,
    ),
    cause(FixIn::Template, &["read-only file system"], IN_READ_ONLY),
    // runc and crun.
    cause(
        FixIn::Asked,
        &["unable to apply caps", "unable to apply bounding set", "unable to set capabilities", "capset: ", "unknown capability"],
        "correct capabilities in the securityContext of the template: the container runtime cannot set what it has there",
    )
    .and(Also::MayBeNode),
    BPF_MEMORY,
    PROFILE,
    cause(FixIn::Template, MEMORY_TOO_LOW, "raise the memory limit: the container does not start with so little"),
    cause(
        FixIn::Template,
        &["requirement error", "unsatisfied condition"],
        "use an image for the driver that the nodes have, or upgrade that: the image demands another version (NVIDIA_REQUIRE_…)",
    ),
    // The toolkit mounts the driver's files into the container.
    cause(
        FixIn::Template,
        &["mount error: file creation failed: … file exists", "mount error: file creation failed: … no such device or address"],
        "rebuild the image without the files of the driver (libcuda, libnvidia-…), which the container toolkit of the node mounts there",
    )
    .and(Also::OfImage),
    cause(FixIn::Host, &["could not select device driver", "exec: \"nvidia-container-runtime"], CONTAINER_TOOLKIT),
    cause(
        FixIn::Host,
        &["nvidia-container-cli", "nvidia-container-runtime", "cdi device", "nvml"],
        "check the GPU driver and the container toolkit on the node",
    ),
    cause(
        FixIn::Host,
        &["gathering device information", "no such device", "not a device node", "stat /dev/"],
        "check why the node does not have the device, or exclude these nodes with a nodeSelector",
    ),
    cause(
        FixIn::Node,
        &["/tmpmounts/… no such file", "failed to extract layer", "error unpacking image"],
        "remove the image from the node, so that it is pulled again: its copy there is damaged",
    ),
    cause(
        FixIn::Node,
        &["is already in use by container"],
        "remove the container that the runtime of the node has left behind: `crictl ps -a` there shows it",
    ),
    cause(
        FixIn::Node,
        &["bpf_prog_query(bpf_cgroup_device)", "bpf_prog_attach(bpf_cgroup_device)"],
        "upgrade the kernel of the node, or boot it with cgroup v1: its kernel does not let the container runtime filter devices by cgroup v2",
    ),
    cause(
        FixIn::Node,
        &["cpuset.cpus… permission denied", "cpuset.cpus… invalid argument", "cpuset.mems… permission denied", "cpuset.cpus… device or resource busy"],
        "see which CPUs the cgroup above the container's has on the node: the CPU manager of the kubelet (its file cpu_manager_state), or an \
         agent that writes cgroups, such as koordlet, gives it other ones",
    ),
    cause(
        FixIn::Node,
        &["cgroup"],
        "check that the kubelet and the container runtime of the node use the same cgroup driver and version",
    ),
    cause(
        FixIn::Node,
        &["failed to reserve container name", "name is reserved", "due to system load", "deadline exceeded", "containerd.sock", "crio.sock", "dial unix"],
        RUNTIME_IS_SLOW,
    ),
    cause(FixIn::Template, &["lifecycle hook", "poststarthook"], "correct the postStart hook in the template"),
];

/// Finds a container that cannot be created or started.
pub fn creation_failed(
    subject: &Subject,
    pod: &Pod,
    (role, container, status): (Role, &Container, &ContainerStatus),
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
    // A kubelet that is not the usual one may have reasons of its own. Before its first start, a container may wait for anything.
    let is_other = || {
        let is_told = matches!(waiting.reason.as_str(), "" | "CrashLoopBackOff" | "RestartingAllContainers");
        !is_told && !is_image_pull_failure(&waiting.reason) && has_started(status) && !status.is_being_created()
    };
    if !failed && !is_other() {
        return None;
    }
    let said = waiting.message.trim();
    let mut message = Sentence::from(format!("{} {}: {}", role.noun(), container.name, waiting.reason));
    if !said.is_empty() {
        message = message.words(": ").said(said);
    }
    let missing = Missing::of(said);
    let of_missing = || missing.as_ref().map(|missing| missing.remedy(subject));
    let host_path = || {
        let (volume, advice) = host_path_source(subject, pod, said)?;
        Some((Origin::Template(TemplatePart::Volume(volume)), advice, Some(edit(subject.daemon_set))))
    };
    let (origin, advice, command) = of_missing().or_else(host_path).unwrap_or_else(|| {
        // A hook may say anything.
        let cause = Cause::of(CAUSES, &waiting.reason).or_else(|| Cause::of(CAUSES, said));
        let origin = match cause {
            // What it runs may need anything.
            _ if waiting.reason == "PostStartHookError" => Origin::Template(TemplatePart::Anything),
            Some(cause) if is_demanded_by_admission(cause, subject, pod) => Origin::Unknown,
            Some(cause) => origin_of(cause, subject, pod, container, said),
            // The kubelet itself fails, before it knows more of the container than its environment and its mounts.
            None if waiting.reason == "CreateContainerConfigError" => Origin::Template(TemplatePart::AskedOfNode),
            None if failed => Origin::Template(to_start(container)),
            None => Origin::Unknown,
        };
        if origin == Origin::Unknown && !failed {
            let advice = "check the pod, and the log of the kubelet on its node".to_owned();
            return (origin, advice, Some(describe_pod(pod)));
        }
        let (advice, command) = remedy(subject, pod, said, cause);
        (origin, advice, command)
    });
    let finding = Finding::new(ReasonCode::ContainerConfigError, message.apart(&advice), advice);
    let finding = finding.with_origin(origin).with_command(command);
    let of_profile_of_runtime = is_profile_of_runtime(&PROFILE, subject, pod, said)
        && Cause::of(CAUSES, said).is_some_and(|it| it.also == PROFILE.also);
    let finding = finding.only_with(of_profile_of_runtime.then_some(TemplatePart::Profiles));
    Some(match missing {
        Some(Missing { kind, name, .. }) => of_object(subject, pod, (kind, name), finding),
        None if is_added_profile(subject, pod, said) => of_profile(finding),
        None => finding,
    })
}

/// Returns what to do about a container that the runtime could not start, by the message of its end; `None` if it has run.
pub fn start_failed(subject: &Subject, pod: &Pod, reason: &str, said: &str) -> Option<(String, Option<Command>)> {
    let cause = Cause::of(CAUSES, said);
    match start_has_failed(reason) {
        true => Some(remedy(subject, pod, said, cause)),
        // A shell says it of the program that it was to become.
        false => {
            cause.filter(|_| said.contains("exec format error")).map(|cause| remedy(subject, pod, said, Some(cause)))
        }
    }
}

/// Returns where the end of a container comes from that the runtime could not start; `None` if it has run.
pub fn start_origin(subject: &Subject, pod: &Pod, container: &Container, reason: &str, said: &str) -> Option<Origin> {
    let cause = Cause::of(CAUSES, said);
    let origin = || cause.map(|cause| origin_of(cause, subject, pod, container, said));
    start_has_failed(reason).then(|| origin().unwrap_or(Origin::Template(to_start(container))))
}

/// Returns what it depends on whether a container starts.
fn to_start(container: &Container) -> TemplatePart {
    TemplatePart::Container(container.name.clone(), Step::Start)
}

/// Returns where a cause comes from: what works for the same pod on other nodes is not the template's.
fn origin_of(cause: &Cause, subject: &Subject, pod: &Pod, container: &Container, said: &str) -> Origin {
    let part = match cause.also {
        Some(Also::OfImage) => TemplatePart::Image(container.image.clone()),
        _ => to_start(container),
    };
    match is_of_node(cause, subject, pod) || is_profile_of_runtime(cause, subject, pod, said) {
        true => Origin::Node,
        false => cause.fix_in.origin(part),
    }
}

/// Returns whether a container has ended for this reason because the runtime could not start it.
pub fn start_has_failed(reason: &str) -> bool {
    matches!(reason, "StartError" | "ContainerCannotRun")
}

fn remedy(subject: &Subject, pod: &Pod, said: &str, cause: Option<&Cause>) -> (String, Option<Command>) {
    let edit = || Some(edit(subject.daemon_set));
    let Some(cause) = cause else {
        let status = &subject.daemon_set.status;
        let old = status.current_number_scheduled.saturating_sub(status.updated_number_scheduled);
        let nodes = match same_elsewhere(subject, pod).count() {
            0 if !subject.index.snapshot.nodes_limited => None,
            // The pods of other nodes were not read; those that are ready may be of an older revision.
            0 => Some("others".to_owned()).filter(|_| status.number_ready > old.max(0)),
            nodes => Some(format!("others: the same pod runs on {}", other_nodes(nodes))),
        };
        return match nodes {
            None => ("read the message, and correct in the template what it names".to_owned(), edit()),
            Some(nodes) => (format!("compare the node with {nodes}"), Some(describe_bound_node(pod))),
        };
    };
    match cause.fix_in {
        FixIn::Placement => (other_platform(subject, pod), edit()),
        FixIn::Template | FixIn::Asked if is_of_node(cause, subject, pod) => {
            let others = other_nodes(same_elsewhere(subject, pod).count());
            (
                format!("compare the node with others: the same pod runs on {others}; else {}", cause.advice),
                Some(describe_bound_node(pod)),
            )
        }
        FixIn::Template if is_demanded_by_admission(cause, subject, pod) => (
            format!("{}; runAsNonRoot is not in the template: a mutating webhook or policy adds it", cause.advice),
            Some(webhook::mutating()),
        ),
        FixIn::Template | FixIn::Asked | FixIn::Object => (cause.advice.to_owned(), edit()),
        _ if cause.also == Some(Also::ShareMount) => (shared_mount(said), None),
        _ if is_profile_of_runtime(cause, subject, pod, said) => (PROFILE_OF_RUNTIME.to_owned(), None),
        FixIn::Node | FixIn::Host | FixIn::Cluster | FixIn::Found => (cause.advice.to_owned(), None),
    }
}

/// Returns whether the node is the cause: what depends on it works for the same pod on other nodes.
fn is_of_node(cause: &Cause, subject: &Subject, pod: &Pod) -> bool {
    let may_be = cause.fix_in == FixIn::Host || cause.also == Some(Also::MayBeNode);
    may_be && runs_elsewhere(subject, pod)
}

/// Returns whether something other than the template demands that containers do not run as root.
fn is_demanded_by_admission(cause: &Cause, subject: &Subject, pod: &Pod) -> bool {
    let template = template_of(subject, pod).value();
    let mut parts = containers(template).chain([&template["spec"]]);
    cause.also == Some(Also::DemandNonRoot) && !parts.any(|part| part["securityContext"]["runAsNonRoot"] == true)
}

/// Returns the hostPath volume whose path on the node a runtime cannot use, and what to do about it. containerd and CRI-O look whether
/// the path is there, and else make it (`WithMounts`, containerd pkg/cri/opts, and `addOCIBindMounts`, CRI-O
/// server/container_create_linux.go).
fn host_path_source(subject: &Subject, pod: &Pod, said: &str) -> Option<(String, String)> {
    let words = [
        "failed to stat \"",
        "failed to mkdir \"",
        "creating mount source path '",
        "mkdir ",
        "failed to resolve symlink \"",
        "bind source path does not exist: ",
    ];
    let path = words.into_iter().find_map(|words| {
        let (_, rest) = said.split_once(words)?;
        let path = rest.split(['"', '\'', ':', ' ']).next().filter(|path| path.starts_with('/'))?;
        Some(path.trim_end_matches('/'))
    })?;
    let of_volume = |volume: &&serde_json::Value| {
        let source = volume["hostPath"]["path"].as_str().map(|source| source.trim_end_matches('/'));
        source.is_some_and(|source| !source.is_empty() && (source == path || source.starts_with(&format!("{path}/"))))
    };
    let volume = volumes(template_of(subject, pod).value()).find(of_volume)?;
    let source = volume["hostPath"]["path"].as_str()?;
    let why = [
        ("read-only file system", "cannot be created on these nodes, whose file system is read-only there"),
        ("not a directory", "is not a directory on these nodes, or lies in a file"),
        ("permission denied", "is not accessible on these nodes"),
        ("no such file or directory", "does not exist on these nodes"),
        ("does not exist", "does not exist on these nodes"),
    ];
    let why =
        why.into_iter().find(|(words, _)| said.contains(words)).map_or("cannot be used on these nodes", |(_, why)| why);
    let advice = match same_elsewhere(subject, pod).count() {
        0 => "use another path in the hostPath volume, or exclude these nodes with a nodeSelector".to_owned(),
        nodes => format!(
            "make {source} usable on these nodes, or exclude them with a nodeSelector: the same pod runs on {}",
            other_nodes(nodes)
        ),
    };
    Some((volume["name"].as_str()?.to_owned(), format!("{advice}; {source} {why}")))
}

/// Returns what a mount with `mountPropagation` needs on the node (`ensureShared`, containerd pkg/cri/opts, and CRI-O,
/// server/container_create_linux.go): that the file system that the path is on is a shared mount.
fn shared_mount(said: &str) -> String {
    let is_plain = |path: &&str| path.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.'));
    let mount =
        quoted_after(said, "is mounted on").filter(|path| path.starts_with('/')).filter(is_plain).unwrap_or("/");
    format!(
        "on these nodes, run `mount --make-rshared {mount}`, or set MountFlags=shared in the systemd unit of the container runtime"
    )
}

/// Returns the ready pods of the same revision on other nodes that have the same containers, as far as pods were read. Those of an
/// older one may have started when things were different.
pub fn same_elsewhere<'s, 'a>(subject: &'s Subject<'_, 'a>, pod: &'s Pod) -> impl Iterator<Item = &'a Pod> + 's {
    // Of a pod that is well, no more is kept than arithmetic needs.
    fn images(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
        pod.spec.containers.iter().map(|it| (&*it.name, &*it.image))
    }
    let is_same = |other: &&Pod| other.revision_hash() == pod.revision_hash() && images(pod).eq(images(other));
    subject.ready_pods().iter().copied().filter(is_same)
}

/// For how many seconds before a pod others must have been created at most to show that it might run, too: older ones may have an image
/// that the registry no longer has.
const RECENT: i64 = 3600;

/// Returns how many pods on other nodes are the same and were created not long before this one, or later.
pub fn recent_elsewhere(subject: &Subject, pod: &Pod) -> usize {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.get();
    let is_recent = |other: &&Pod| match created(other).zip(created(pod)) {
        Some((other, own)) => seconds_between(other, own) <= RECENT,
        None => true,
    };
    same_elsewhere(subject, pod).filter(is_recent).count()
}

/// Returns whether the same pod runs on other nodes.
pub fn runs_elsewhere(subject: &Subject, pod: &Pod) -> bool {
    same_elsewhere(subject, pod).next().is_some()
}

/// Writes a number of other nodes.
pub fn other_nodes(nodes: usize) -> String {
    if nodes == 1 { "another node".to_owned() } else { format!("{nodes} other nodes") }
}

/// A ConfigMap or Secret that does not exist, or a key that it does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing<'m> {
    kind: &'static str,
    name: &'m str,
    key: Option<&'m str>,
}

impl<'m> Missing<'m> {
    /// Returns what the kubelet did not find: `secret "token" not found`, or `couldn't find key ca in ConfigMap monitoring/trust`.
    pub fn of(message: &'m str) -> Option<Self> {
        let kinds = [("configmap", "ConfigMap"), ("secret", "Secret")];
        kinds.into_iter().find_map(|(kind, title)| {
            // A volume may have the kind in its name, too.
            let named = |(at, _): (usize, &str)| {
                let rest = &message[at + kind.len()..];
                let (name, rest) = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(" \"")?.split_once('"')?;
                rest.trim_start().starts_with("not found").then_some(Missing { kind, name, key: None })
            };
            let object = || message.match_indices(kind).find_map(named);
            let key = || {
                let (key, rest) = message.split_once("couldn't find key ")?.1.split_once(" in ")?;
                let (_, name) = rest.strip_prefix(title)?.trim().split_once('/')?;
                Some(Missing { kind, name: name.split_whitespace().next()?, key: Some(key) })
            };
            object().or_else(key)
        })
    }

    /// Returns a key that a ConfigMap or Secret does not have.
    pub fn key(kind: &'static str, name: &'m str, key: &'m str) -> Self {
        Missing { kind, name, key: Some(key) }
    }

    /// Returns who makes the object in every namespace: pkg/controller/certificates/rootcacertpublisher/publisher.go, release 1.37.2, and
    /// the service CA operator of OpenShift.
    fn publisher(&self) -> Option<&'static str> {
        match (self.kind, self.name) {
            ("configmap", "kube-root-ca.crt") => Some("kube-controller-manager"),
            ("configmap", "openshift-service-ca.crt") => Some("the service CA operator of OpenShift"),
            _ => None,
        }
    }

    /// Returns who has to fix it, how, and the command for that or that shows which there are: what controllers publish in every namespace is
    /// not named by any template, and what exists by now passes.
    pub fn remedy(&self, subject: &Subject) -> (Origin, String, Option<Command>) {
        let Missing { kind, name, key } = *self;
        let (snapshot, namespace) = (subject.index.snapshot, &subject.daemon_set.metadata.namespace);
        let (title, of_kind) =
            if kind == "secret" { ("Secret", Kind::Secrets) } else { ("ConfigMap", Kind::ConfigMaps) };
        let found = snapshot.config_object(of_kind, namespace, name);
        let of_template =
            Origin::Template(TemplatePart::Object { kind: title, name: name.to_owned(), key: key.map(str::to_owned) });
        let get = Command::kubectl(&["get", kind]).namespace(namespace);
        let show = key.map_or(get, |_| Command::kubectl(&["describe", kind]).namespace(namespace).name(name));
        match key {
            None if found.is_some() || snapshot.has_name(title, namespace, name) => (
                Origin::Time,
                format!("wait: {kind} {name} exists by now, and the kubelet tries again every few minutes"),
                None,
            ),
            _ if let Some(publisher) = self.publisher() => {
                let advice =
                    format!("wait: {publisher} creates it in each namespace; if it does not, check that, and its log");
                (Origin::ControlPlane, advice, Some(show))
            }
            Some(key) if found.is_some_and(|found| found.immutable) => {
                let advice = format!(
                    "correct the key in the template, or create a {kind} under another name that has key {key}, and use that in the \
                     template: {kind} {name} is immutable"
                );
                (of_template, advice, Some(edit(subject.daemon_set)))
            }
            Some(key) => {
                let advice = format!("add key {key} to {kind} {name}, or correct the key in the template");
                (of_template, advice, Some(show))
            }
            None => (of_template, format!("create {kind} {name}, or correct its name in the template"), Some(show)),
        }
    }
}
