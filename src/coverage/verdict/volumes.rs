//! Why a volume of a bound pod cannot be mounted or attached, by the events of the kubelet and of the attach-detach controller.

use serde_json::Value;

use super::admission_changes::of_volume;
use super::cause::{Also, Cause, FixIn, cause, platform, quoted_after};
use super::creation_errors::{Missing, READ_ONLY_DISK, runs_elsewhere};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, TemplatePart, delete_pod, describe_pod, edit};
use super::images::{other_platform, template_of};
use super::node_plugin::{self, Lacks};
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::template_parts::{Reference, Referrer, references, volumes};
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;

/// What kubelets, mount programs and drivers say of volumes that they cannot mount.
///
/// The kubelet's own words are those of pkg/volume/hostpath/host_path.go, pkg/volume/csi, pkg/volume/util/operationexecutor and
/// pkg/kubelet/token, those of the controller of pkg/controller/volume/attachdetach/reconciler/reconciler.go, release 1.37.2.
const CAUSES: &[Cause] = &[
    cause(
        FixIn::Cluster,
        &[
            "multi-attach error",
            "already used by pod(s)",
            "already exclusively attached",
            "pod(s) in different namespaces",
        ],
        "the volume is attached to another node, and its access mode allows one: give each node a volume of its own, or use a \
         claim whose access mode is ReadWriteMany",
    ),
    cause(
        FixIn::Cluster,
        &["failed to fetch token… no relationship found"],
        "check the identity of the kubelet: the API server gives tokens only to the node that the pod is bound to, so its client \
         certificate may be that of another node",
    ),
    cause(
        FixIn::Cluster,
        &["failed to sync configmap cache", "failed to sync secret cache", "object … not registered"],
        "wait; if it persists, check that the kubelet of the node reaches the API server",
    ),
    // Admission refuses pods whose account is not there: it was deleted since.
    cause(
        FixIn::Cluster,
        &["serviceaccounts … not found"],
        "create the service account of the pod: the kubelet gets no token without it",
    )
    .and(Also::List("serviceaccounts")),
    cause(
        FixIn::Node,
        &["does not match the uid in record"],
        "delete the pod: the kubelet asks for the token of one that was deleted and created again",
    )
    .and(Also::DeletePod),
    cause(
        FixIn::Cluster,
        &[
            "failed to fetch token… dial tcp",
            "failed to fetch token… deadline exceeded",
            "failed to fetch token… timeout",
        ],
        "check that the kubelet of the node reaches the API server",
    ),
    cause(
        FixIn::Cluster,
        &["failed to fetch token"],
        "check why the API server gives the kubelet no token for the pod: the reason is in the message",
    ),
    platform(&["the system cannot find the path specified"]),
    cause(
        FixIn::Cluster,
        &["provider not found: provider"],
        "install the provider that the message names for the Secrets Store CSI driver, or see why its pod is not on the node",
    ),
    cause(
        FixIn::Object,
        &["persistentvolumeclaim … not found", "persistentvolumeclaim is not bound", "can only mount bound"],
        "create the claim, or correct its name in the template",
    )
    .and(Also::List("pvc")),
    // A share has no superblock.
    cause(
        FixIn::Host,
        &["superblock on /dev/", "superblock on device", "bad magic number in super-block", "structure needs cleaning"],
        "check the file system on the device that the message names (fsck, while no pod uses it): it is damaged, or not of the type that the \
         volume says (fsType)",
    ),
    cause(
        FixIn::Host,
        &["bad option", "need a /sbin/mount", "unknown filesystem type", "no such device", "program not found"],
        "install on the node what mounts such file systems, such as nfs-common or cifs-utils, and their kernel module",
    ),
    cause(
        FixIn::Cluster,
        &[
            "access denied by server",
            "permission denied by server",
            "nt_status",
            "mount error(13)",
            "mount error(1)",
            "mount.nfs… operation not permitted",
            "mount.nfs… permission denied",
        ],
        "allow the node on the file server: it refuses the mount",
    ),
    cause(
        FixIn::Node,
        &["secrets store objects… dial unix"],
        "check the pod of the provider on the node, and its log: the Secrets Store CSI driver does not reach its socket",
    )
    .and(Also::OfVolume),
    cause(
        FixIn::Cluster,
        &[
            "secrets store objects… permission denied",
            "secrets store objects… code: 403",
            "secrets store objects… accessdenied",
        ],
        "allow the service account of the pod in the provider that the message names: it refuses the pod",
    ),
    cause(
        FixIn::Cluster,
        &[
            "rbd: map failed… operation not permitted",
            "rbd: map failed… permission denied",
            "mount error 13 =",
            "mount error 1 =",
        ],
        "check the key with which the volume is mounted, and what it may do: its storage refuses it",
    ),
    cause(FixIn::Node, &["/var/lib/kubelet… read-only file system"], READ_ONLY_DISK),
    cause(
        FixIn::Template,
        &["read-only file system"],
        "use a path that the node can write to: the file system is read-only, as on an immutable operating system",
    ),
    cause(
        FixIn::Template,
        &["subpath"],
        "correct subPath: it must be a relative path that exists, or may be created, in the volume",
    ),
    // The kubelet gives a token to the user of the pod if all containers have the same one: `FsUserFrom`, pkg/volume/util/util.go.
    cause(
        FixIn::Asked,
        &["chown …not supported by windows"],
        "remove runAsUser and fsGroup from the securityContext of the template and its containers: Windows has no such users, only \
         windowsOptions.runAsUserName",
    ),
    cause(
        FixIn::Template,
        &["permission denied", "operation not permitted", "applyfsgroup failed", "lchown"],
        "check who may write to the volume: its file server or fsGroup in the securityContext does not allow it",
    ),
    cause(
        FixIn::Host,
        &["input/output error", "bad superblock", "fsck"],
        "check the disk behind the volume: its file system is damaged",
    ),
    cause(
        FixIn::Cluster,
        &[
            "connection refused",
            "connection timed out",
            "no route to host",
            "network is unreachable",
            "i/o timeout",
            "no such host",
            "failed to resolve",
            "host is down",
        ],
        "check that the node reaches the file server or storage of the volume",
    ),
    cause(
        FixIn::Cluster,
        &["external-attacher", "volumeattachment", "attachvolume"],
        "check the controller of the volume's driver, which attaches volumes",
    ),
    cause(
        FixIn::Object,
        &["secretproviderclass", "storageclass … not found"],
        "create the object that the message names, or correct its name in the template",
    ),
    cause(
        FixIn::Host,
        &["deadline exceeded", "an operation with the given volume", "driver", "csi"],
        "check the pod of the volume's driver on the node, and its log",
    ),
];

/// How many seconds apart two attempts of the kubelet may be that are about the same trouble.
const AT_A_TIME: i64 = 120;

/// The reasons of events about volumes.
const REASONS: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];

/// Returns whether the kubelet has got as far as the volumes of a pod since what an event about its sandbox says: it waits for the network,
/// mounts the volumes, and then creates the sandbox (`SyncPod`, pkg/kubelet/kubelet.go, release 1.37.2).
pub fn is_past(sandbox: &Event, events: &[&Event]) -> bool {
    let of_volumes = events.iter().filter(|event| REASONS.contains(&event.reason.as_str()));
    let newest = of_volumes.filter_map(|event| event.last_seen()).max();
    newest.zip(sandbox.last_seen()).is_some_and(|(newest, at)| newest.duration_since(at).as_secs() > AT_A_TIME)
}

/// Finds that a volume cannot be mounted or attached, whether the template has it or admission has added it.
pub fn mount_failed(subject: &Subject, node: Option<&Node>, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let mut failures = events.iter().filter(|event| REASONS.contains(&event.reason.as_str()));
    // That of all volumes together has no cause.
    let is_about_one = |event: &&&Event| !event.message.starts_with("Unable to attach or mount volumes");
    let event = failures.clone().find(is_about_one).or_else(|| failures.next())?;
    // The kubelet mounts several volumes at a time: what is certainly the node's decides.
    let is_of_node = |other: &&&Event| {
        let ago = event.last_seen().zip(other.last_seen()).map(|(newest, at)| newest.duration_since(at).as_secs());
        ago.is_some_and(|ago| ago <= AT_A_TIME)
            && Cause::of(CAUSES, &other.message).is_some_and(|cause| cause.fix_in == FixIn::Node)
    };
    let event =
        events.iter().filter(|event| REASONS.contains(&event.reason.as_str())).find(is_of_node).unwrap_or(event);
    let said = event.message.trim();
    let volume = quoted_after(said, "for volume").or_else(|| quoted_after(said, "of volume"));
    let finding = not_mounted(subject, node, pod, event, volume);
    let only_with = only_with(subject, pod, said, volume).filter(|_| !matches!(finding.origin, Origin::Template(_)));
    let finding = finding.depends_on(TemplatePart::AskedOfNode).only_with(only_with);
    Some(match volume {
        Some(volume) => of_volume(subject, pod, volume, finding),
        None => finding,
    })
}

/// Returns the part of the template without which the kubelet would have nothing to mount.
fn only_with(subject: &Subject, pod: &Pod, said: &str, volume: Option<&str>) -> Option<TemplatePart> {
    let is_of_volume = || Cause::of(CAUSES, said).is_some_and(|cause| cause.also == Some(Also::OfVolume));
    let mut own = volumes(template_of(subject, pod).value());
    match volume {
        _ if said.contains("failed to fetch token") => Some(TemplatePart::ServiceAccount),
        _ if absent_driver(said).is_none() && !is_of_volume() => None,
        Some(volume) if own.any(|it| it["name"] == volume) => Some(TemplatePart::Volume(volume.to_owned())),
        _ => Some(TemplatePart::AttachedVolumes),
    }
}

/// Finds why a volume cannot be mounted or attached by what an event says, and the volume that it names.
fn not_mounted(subject: &Subject, node: Option<&Node>, pod: &Pod, event: &Event, volume: Option<&str>) -> Finding {
    let said = event.message.trim();
    let message = Sentence::from("a volume cannot be mounted: ").event(event, subject.now());
    let finding = |advice: String| Finding::new(ReasonCode::MountFailed, message.clone().apart(&advice), advice);
    let volumes = || volumes(template_of(subject, pod).value());
    let part = || match volume {
        Some(volume) if volumes().any(|it| it["name"] == volume) => TemplatePart::Volume(volume.to_owned()),
        // No template has that of the service account's token; others are named by their PersistentVolume.
        Some(volume) if !volume.starts_with("kube-api-access-") => TemplatePart::AskedOfNode,
        _ => TemplatePart::Anything,
    };
    if let Some(missing) = Missing::of(said).or_else(|| missing_key(subject, pod, said)) {
        let (origin, advice, command) = missing.remedy(subject);
        return finding(advice).with_origin(origin).with_command(command);
    }
    if let Some((driver, lacks)) = absent_driver(said) {
        // The template is right: it is up to the DaemonSet of the driver.
        let drivers = Command::kubectl(&["get", "csinode", "-o", "yaml"]).name(&pod.spec.node_name);
        let finding = Finding::new(ReasonCode::MountFailed, message, "").with_command(drivers);
        return node_plugin::without_driver(subject.index, node, driver, lacks, finding)
            .with_origin(Origin::ControlPlane);
    }
    // A template for Windows means a path of Windows.
    let is_for_windows = pod.spec.node_selector.get("kubernetes.io/os").is_some_and(|os| os == "windows");
    let is_on_windows = node.is_some_and(Node::is_windows);
    if is_on_windows && !is_for_windows && checked_path(said).is_some_and(|path| path.starts_with('/')) {
        let finding = finding(other_platform(subject, pod)).with_origin(FixIn::Placement.origin(part()));
        return finding.with_command(edit(subject.daemon_set));
    }
    if let Some(advice) = other_type(said, volumes()) {
        return finding(advice).with_origin(Origin::Template(part())).with_command(describe_pod(pod));
    }
    if let Some(advice) = kubelet_root(subject, node, pod, said).or_else(|| host_path(said)) {
        return finding(advice).with_origin(Origin::Template(part())).with_command(edit(subject.daemon_set));
    }
    let cause = Cause::of(CAUSES, said).filter(|cause| cause.fix_in != FixIn::Placement || !is_for_windows);
    let Some(cause) = cause else {
        let finding = finding("check the volume, and what provides it".to_owned());
        return finding.with_origin(Origin::Template(part())).with_command(describe_pod(pod));
    };
    let finding = match cause.fix_in {
        FixIn::Placement => finding(other_platform(subject, pod)),
        _ => finding(cause.advice.to_owned()),
    };
    let finding = finding.with_origin(cause.fix_in.origin(part()));
    match (cause.also, cause.fix_in) {
        (Some(Also::DeletePod), _) => finding.with_command(delete_pod(pod)),
        (Some(Also::List(resource)), _) => {
            let namespace = &subject.daemon_set.metadata.namespace;
            finding.with_command(Command::kubectl(&["get", resource]).namespace(namespace))
        }
        (_, FixIn::Template | FixIn::Asked | FixIn::Placement) => finding.with_command(edit(subject.daemon_set)),
        (_, FixIn::Node | FixIn::Host) => finding,
        (_, FixIn::Object | FixIn::Cluster | FixIn::Found) => finding.with_command(describe_pod(pod)),
    }
}

/// Returns the driver that is not there for the kubelet of the node, and what it lacks: it is not registered (`newCsiDriverClient`,
/// pkg/volume/csi/csi_client.go, release 1.37.2), or its CSINode does not have it (`Attach` of the external attacher), or nothing listens
/// on its socket, which is in a directory of its own below `plugins`.
pub(super) fn absent_driver(said: &str) -> Option<(&str, Lacks)> {
    let between =
        |before: &str, after: &str| said.split_once(before)?.1.split_once(after).map(|(driver, _)| driver.trim());
    let csi_node = || said.split_once("does not contain driver ")?.1.split_whitespace().next();
    let registered = between("driver name ", " not found in the list of registered CSI drivers").or_else(csi_node);
    let socket = || {
        let (path, why) = said.split_once("dial unix ")?.1.split_once(".sock: ")?;
        let (_, below) = path.rsplit_once("/plugins/")?;
        let is_down = why.contains("connection refused") || why.contains("no such file");
        below.split('/').next().filter(|driver| is_down && !driver.is_empty())
    };
    registered.map(|driver| (driver, Lacks::Registration)).or_else(|| Some((socket()?, Lacks::Listener)))
}

/// Returns what the kubelet says about a path on the host that is not of the type that the template demands: the path comes first
/// (`typeMatchedOrError`, pkg/volume/hostpath/host_path.go, release 1.37.2).
fn checked_path(said: &str) -> Option<&str> {
    Some(said.split_once("hostPath type check failed")?.1.trim_start_matches([':', ',', ' ']))
}

/// Returns what to do about a path below the usual root of kubelets that is not there: theirs may be another one.
fn kubelet_root(subject: &Subject, node: Option<&Node>, pod: &Pod, said: &str) -> Option<String> {
    if !checked_path(said)?.starts_with("/var/lib/kubelet/") || runs_elsewhere(subject, pod) {
        return None;
    }
    let version = node.map_or("", |node| node.status.node_info.kubelet_version.as_str());
    Some(match version.contains("+k0s") {
        true => "correct the paths in the template (often a value kubeletDir of the chart): the kubelet of k0s has its root at \
                 /var/lib/k0s/kubelet"
            .to_owned(),
        false => "correct the paths in the template (often a value kubeletDir of the chart) if the kubelet has another root, such as \
                  /var/lib/k0s/kubelet on k0s or /var/snap/microk8s/common/var/lib/kubelet on MicroK8s; create the directory only if \
                  its root is /var/lib/kubelet"
            .to_owned(),
    })
}

/// Returns what to do about a path on the host that the kubelet would create if nothing were there (type `FileOrCreate` or
/// `DirectoryOrCreate`).
fn other_type<'v>(said: &str, mut volumes: impl Iterator<Item = &'v Value>) -> Option<String> {
    let (path, kind) = checked_path(said)?.split_once(" is not a ")?;
    let kind = kind.split([',', ' ']).next().unwrap_or(kind);
    let creates = |volume: &'v Value| {
        let source = &volume["hostPath"];
        source["path"] == path && source["type"].as_str().is_some_and(|kind| kind.ends_with("OrCreate"))
    };
    volumes.any(creates).then(|| {
        format!(
            "if nothing uses {path} on these nodes, remove it there: it is not a {kind}, and the kubelet creates one if the path is free; \
             often another pod mounted the same path first, without a type"
        )
    })
}

/// Returns what to do about a path on the host that is not of the type that the template demands. Before release 1.37.2, the kubelet did
/// not tell what the path is.
fn host_path(said: &str) -> Option<String> {
    let (path, kind) = checked_path(said)?.split_once(" is not a ")?;
    let (kind, is) = kind.split_once(", it's a ").map_or((kind, None), |(kind, is)| (kind, Some(is)));
    let kind = kind.split(',').next().unwrap_or(kind).trim();
    Some(match is.map(str::trim).filter(|is| !is.is_empty()) {
        Some(is) => format!(
            "{path} is a {is} on these nodes: replace it by a {kind} there, or correct the type of the hostPath volume in the template"
        ),
        // Nobody makes these by hand.
        None if kind.contains("socket") => format!(
            "these nodes have no socket {path}: mount the one that they have, such as that of their container runtime, or exclude \
             them with a nodeSelector"
        ),
        None if kind.contains("device") => {
            format!(
                "exclude these nodes with a nodeSelector, or load the driver there: they do not have the device {path}"
            )
        }
        None => {
            format!("create the {kind} {path} on these nodes, or relax the type of the hostPath volume in the template")
        }
    })
}

/// Returns the key of a ConfigMap or Secret that a volume names and that does not exist (`MakePayload`,
/// pkg/volume/configmap/configmap.go and pkg/volume/secret/secret.go, release 1.37.2).
fn missing_key<'m>(subject: &'m Subject, pod: &Pod, said: &'m str) -> Option<Missing<'m>> {
    let key_of =
        |kind: &str| said.split_once(&format!("references non-existent {kind} key: ")).map(|(_, key)| key.trim());
    let (kind, key) = key_of("config").map(|key| ("configmap", key)).or_else(|| Some(("secret", key_of("secret")?)))?;
    let volume = quoted_after(said, "for volume")?;
    let references = references(template_of(subject, pod).value());
    let is_in = |it: &&Reference<'_>| matches!(it.by, Referrer::Files(of) if of["name"] == volume);
    let objects = || references.iter().filter(is_in).filter(|it| it.kind.eq_ignore_ascii_case(kind));
    let name = objects().find(|it| it.has_key(key)).or_else(|| objects().next())?.name;
    Some(Missing::key(kind, name, key))
}
