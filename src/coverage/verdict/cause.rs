//! What the messages of kubelets, container runtimes, network plugins and drivers tell: tables of their words, each with what to do.
//!
//! A message is looked up among what ends anything on a node, then in the table of what has failed, and the first row wins: more
//! specific words come first. What no row knows gets advice that fits whatever the message says.

use super::finding::{Origin, TemplatePart};
use super::telling::unescaped;

/// A cause that messages tell.
#[derive(Debug)]
pub struct Cause {
    /// Words in lower case, of which one has to occur in a message; `…` stands for any text.
    says: &'static [&'static str],
    /// What to do.
    pub advice: &'static str,
    /// What has to change.
    pub fix_in: FixIn,
    /// What else there is to do or to show.
    pub also: Option<Also>,
}

/// What a cause has beyond its advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Also {
    /// The pod is deleted, so that the controller creates another one in its place.
    DeletePod,
    /// Tell whether the template demands that containers do not run as root.
    DemandNonRoot,
    /// What it is about may lie on the node: where the same pod runs on others, the node differs from them.
    MayBeNode,
    /// It is about the image of the container.
    OfImage,
    /// It is about a profile, which the template may name.
    Profile,
    /// Only pods with the volume that it is about meet it.
    OfVolume,
    /// A path in the message is to become a shared mount.
    ShareMount,
    /// The credentials for a registry are missing or not valid.
    Credentials,
    /// Show the pods of the node, among them that of the network plugin.
    ShowPodsOfNode,
    /// Show them, too: the pod of the network plugin is what has to be fixed, unless that is the pod in question.
    MendNetworkPlugin,
    /// Show the objects of a resource in the namespace.
    List(&'static str),
}

/// Where the fix of a cause belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixIn {
    /// The template: what it names, or what it asks for.
    Template,
    /// The template, for what it asks beside its programs: no image changes that.
    Asked,
    /// Which nodes the template selects.
    Placement,
    /// The node, or what runs on it: pods of every template fare alike there.
    Node,
    /// The node, for what this template asks of it.
    Host,
    /// A registry, the network, or another part of the cluster.
    Cluster,
    /// An object that the template names and that may be created.
    Object,
    /// What a program finds by what it is told, whatever its image: a file, another process or a server.
    Found,
}

impl FixIn {
    /// Returns where a cause comes from that a part of the template may have brought about.
    pub fn origin(self, part: TemplatePart) -> Origin {
        match self {
            FixIn::Node => Origin::Node,
            FixIn::Placement => Origin::Placement,
            FixIn::Asked => Origin::Template(TemplatePart::AskedOfNode),
            FixIn::Found => Origin::Template(TemplatePart::BesideImage),
            FixIn::Host if may_be_any(&part) => Origin::Template(TemplatePart::AskedOfNode),
            // No template has to do with it.
            FixIn::Cluster if may_be_any(&part) => Origin::ControlPlane,
            FixIn::Host | FixIn::Template | FixIn::Cluster | FixIn::Object => Origin::Template(part),
        }
    }
}

/// Returns whether a part is what is taken for the cause if nothing tells more.
fn may_be_any(part: &TemplatePart) -> bool {
    use TemplatePart as P;
    matches!(part, P::Anything | P::Container(..) | P::Mounted { .. })
}

/// Declares a row of a table.
pub const fn cause(fix_in: FixIn, says: &'static [&'static str], advice: &'static str) -> Cause {
    Cause { says, advice, fix_in, also: None }
}

/// Declares a row of a table that is about a platform that is not the image's: what to do follows from the nodes.
pub const fn platform(says: &'static [&'static str]) -> Cause {
    cause(FixIn::Placement, says, "")
}

/// What keeps a node from anything, whatever has failed there.
const OF_NODES: &[Cause] = &[
    // Before Linux 4.19, memory cgroups that were deleted took one of 65,535 numbers until the node was restarted.
    cause(
        FixIn::Node,
        &["/sys/fs/cgroup… cannot allocate memory", "/sys/fs/cgroup… no space left on device"],
        "restart the node, and upgrade its kernel: it has no memory cgroups left, which old kernels leak",
    ),
    // `SizeMemoryBackedVolumes`: `calculateEmptyDirMemorySize`, pkg/volume/emptydir, whose limit is that of the pod's containers together.
    cause(
        FixIn::Template,
        &[
            "write …kubernetes.io~projected/…no space left on device",
            "write …kubernetes.io~secret/…no space left on device",
            "write …kubernetes.io~downward-api/…no space left on device",
        ],
        "raise limits.memory in the template (its suffix m stands for thousandths, Mi for mebibytes): this volume is kept in memory, and \
         is no larger than the limits of the pod's containers together",
    ),
    // systemd writes below /run, and watches the cgroups.
    cause(
        FixIn::Node,
        &["unable to start unit… no space left on device"],
        "free space on the node, on its disk and below /run (`df`), and raise fs.inotify.max_user_watches: systemd cannot make the cgroup of \
         the pod",
    ),
    cause(
        FixIn::Node,
        &["/run/…no space left on device"],
        "free space below /run on the node, which is kept in memory: containers that are not removed, or a process that writes logs there",
    ),
    cause(
        FixIn::Node,
        &["no space left on device", "disk quota exceeded"],
        "free disk space on the node, such as that of unused images, or enlarge its disk",
    ),
    TOO_MANY_OPEN_FILES,
    // NVIDIA's library, which nvidia-smi, the device plugin and the container toolkit use: `nvmlErrorString`.
    cause(
        FixIn::Node,
        &["driver/library version mismatch"],
        "restart the node, or reload the kernel module of its GPU driver: it is of another version than the driver's library",
    ),
    cause(
        FixIn::Host,
        &[
            "nvml error: driver not loaded",
            "couldn't communicate with the nvidia driver",
            "load library failed: libnvidia-ml",
        ],
        "install or load the GPU driver on the node, where it is missing or its kernel module is not loaded; if a DaemonSet such as that of \
         NVIDIA's GPU operator installs it, check its pod there",
    ),
    // The kubelet runs `mount` in a unit of its own, and runtimes make one of each container's cgroup.
    cause(
        FixIn::Node,
        &[
            "failed to start transient scope unit",
            "failed to start transient service unit",
            "failed to activate service 'org.freedesktop.systemd1'",
            "unable to start unit… timed out",
            "unable to start unit… timeout",
            "unable to start unit… disconnected",
            "failed to connect to bus",
        ],
        "restart systemd of the node (`systemctl daemon-reexec`, or D-Bus), or the node: it does not start the unit that the kubelet or \
         the container runtime asks for",
    ),
    cause(
        FixIn::Node,
        // Overlay file systems have stale handles of their own.
        &["stat /…stale nfs file handle", "stat /…stale file handle"],
        "unmount the path that the message names on the node (`umount -l`), and mount it again: the file server no longer knows it; once it \
         is unmounted, deleting the pod mounts a volume again",
    )
    .and(Also::OfVolume),
    cause(
        FixIn::Node,
        &["resource temporarily unavailable"],
        "find what has used up the processes of the node (kernel.pid_max, or TasksMax of the container runtime's unit)",
    ),
    // ERROR_NO_SYSTEM_RESOURCES, ERROR_COMMITMENT_LIMIT, ERROR_NOT_ENOUGH_MEMORY and ERROR_NOT_ENOUGH_QUOTA.
    cause(
        FixIn::Node,
        &[
            "the paging file is too small",
            "insufficient system resources",
            "not enough memory resources are available",
            "not enough quota is available",
            "insufficient memory resources",
        ],
        "free memory on the node, or enlarge its paging file: Windows has no memory left to commit, which containers without a memory limit \
         may use up",
    ),
    cause(
        FixIn::Node,
        &["hcsshim::preparelayer", "hcsshim::activatelayer"],
        "restart the container runtime of the node, or the node: Windows does not mount the layers of the image there; if it persists, \
         check its disk",
    ),
    cause(
        FixIn::Node,
        &["cannot allocate memory"],
        "free memory on the node: request what the pods there use, and limit those that use more",
    ),
];

/// What is missing where a container runtime does not know NVIDIA's: docs.nvidia.com/datacenter/cloud-native/container-toolkit.
pub const CONTAINER_TOOLKIT: &str = "install the NVIDIA Container Toolkit on the node, and configure the container runtime for it \
                                     (`nvidia-ctk runtime configure`), then restart that; exclude nodes without GPUs with a nodeSelector";

/// The limit that agents which watch files reach first: 128 instances per user.
pub const INOTIFY: Cause = cause(
    FixIn::Node,
    // Fluent Bit names its file, and ENOSPC by its number.
    &["inotify", "fsnotify", "tail_fs…errno=28", "number of file watchers reached"],
    "raise the inotify limits of the node: fs.inotify.max_user_instances, and fs.inotify.max_user_watches",
);

/// Whoever watches files gets this, too, and does not say that it is about inotify.
pub const TOO_MANY_OPEN_FILES: Cause = cause(
    FixIn::Node,
    &["too many open files"],
    "raise fs.inotify.max_user_instances on the node, which runs out first, or its limits of open files (fs.file-max, LimitNOFILE)",
);

impl Cause {
    /// Says what else there is to do or to show.
    pub const fn and(self, also: Also) -> Self {
        Cause { also: Some(also), ..self }
    }

    /// Finds the cause that a message of a node tells.
    pub fn of(causes: &'static [Cause], message: &str) -> Option<&'static Cause> {
        Cause::among(OF_NODES, message).or_else(|| Cause::among(causes, message))
    }

    /// Finds the cause that a message of anything else tells.
    pub fn among(causes: &'static [Cause], message: &str) -> Option<&'static Cause> {
        let message = unescaped(message).to_lowercase();
        causes.iter().find(|cause| cause.says.iter().any(|says| occurs(says, &message)))
    }
}

/// Returns whether the words occur in a message, those between `…` one after the other.
fn occurs(says: &str, message: &str) -> bool {
    let mut rest = Some(message);
    for words in says.split('…') {
        rest = rest.and_then(|rest| rest.split_once(words)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// Returns the first text in double quotes after the words in a message.
pub fn quoted_after<'m>(message: &'m str, words: &str) -> Option<&'m str> {
    message.split_once(words)?.1.trim_start().strip_prefix('"')?.split_once('"').map(|(quoted, _)| quoted)
}

#[cfg(test)]
mod tests {
    use super::{occurs, quoted_after};

    #[test]
    fn words_occur_in_their_order() {
        for (says, message, expected) in [
            ("no such host", "dial tcp: lookup r on 10.0.0.2:53: no such host", true),
            ("lookup …: i/o timeout", "lookup r on 10.0.0.2:53: read udp: i/o timeout", true),
            ("lookup …: i/o timeout", "i/o timeout after lookup r", false),
        ] {
            assert_eq!(occurs(says, message), expected, "{says}: {message}");
        }
    }

    #[test]
    fn a_name_is_what_is_quoted_behind_its_kind() {
        assert_eq!(quoted_after("for volume \"data\" : timed out", "for volume"), Some("data"));
        assert_eq!(quoted_after("for volume data", "for volume"), None);
    }
}
