//! The volumes of a pod that is not bound: whether the node can have them, as the filters of the scheduler decide, and what it says of them.

use super::daemon_set_context::Subject;
use super::eligibility::term_text;
use super::finding::{Finding, Origin, TemplatePart, describe_pod};
use super::fit::{beside_old_pod, nominated};
use super::node_plugin::{self, Lacks};
use super::scheduler_report::without_nodes;
use super::sentence::Sentence;
use super::workload::workload;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::int_or_percent::int;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::storage::PersistentVolume;
use crate::report::fix::Command;
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::volume_binding::{Conflict, WhyNot};
use crate::scheduling::volumes::{Obstacle, Rejection, Unread, VolumeFilters};

/// Applies the filters to a pod, without those that leave.
pub fn filter<'a>(
    index: &Index<'a>,
    node: &Node,
    pod: &Pod,
    leaves: impl Fn(&Pod) -> bool,
) -> Result<(), Obstacle<'a>> {
    let nominated: Vec<&Pod> = nominated(index, &node.metadata.name, pod).collect();
    let (storage, neighborhood, nominated) = (&index.storage, index, nominated.as_slice());
    VolumeFilters { pod, node, storage, neighborhood, nominated, leaves }.filter()
}

/// Finds what keeps a pod that is meant for a node from it.
pub fn finding(subject: &Subject, node: &Node, pod: &Pod, rejection: &Rejection) -> Finding {
    let is_old =
        |other: &Pod| subject.old_pods_on(&node.metadata.name, pod).any(|old| old.metadata.uid == other.metadata.uid);
    let finding = told(rejection, subject.daemon_set, node, pod);
    match rejection {
        Rejection::InUse(_, other) if is_old(other) => surge(finding.message, other),
        Rejection::NoDriver(driver) => {
            node_plugin::without_driver(subject.index, Some(node), driver, Lacks::Registration, finding)
        }
        _ => finding,
    }
}

fn surge(message: Sentence, old: &Pod) -> Finding {
    beside_old_pod(ReasonCode::VolumeUnsatisfiable, message, old, "cannot use the claim together")
}

/// Finds that a node is rejected, and by what.
pub fn told(rejection: &Rejection, daemon_set: &DaemonSet, node: &Node, pod: &Pod) -> Finding {
    let namespace = &daemon_set.metadata.namespace;
    let reasons = rejection.reasons(pod);
    let message = match reasons.as_slice() {
        [reason] if !reason.starts_with("node(s)") => Sentence::from(reason.clone()),
        [reason] if reason.starts_with("node(s) unavailable") => {
            format!("the node is {}", without_nodes(reason)).into()
        }
        [reason] if reason.starts_with("node(s) exceed") => "the node would exceed its max volume count".into(),
        reasons => {
            let reasons: Vec<&str> = reasons.iter().map(|reason| without_nodes(reason)).collect();
            Sentence::from(format!("the node {}", reasons.join(", ")))
        }
    };
    let finding = |message: Sentence, advice: &str| Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice);
    let claims = |message: Sentence, advice: &str| finding(message, advice).with_command(get_claims(namespace));
    let of_claim = |message: Sentence, name: &str, advice: &str| {
        let describe = Command::kubectl(&["describe", "pvc"]).namespace(namespace);
        finding(message, advice).with_command(describe.name(name))
    };
    let of_template = |name: &str| Origin::object("PersistentVolumeClaim", name);
    match rejection {
        Rejection::ClaimNotFound(claim) => {
            claims(message, "create the claim, or correct its name in the template").with_origin(of_template(claim))
        }
        Rejection::AwaitsClaim(_) => {
            let advice = "wait; if it persists, check kube-controller-manager, which creates the claims of ephemeral volumes, and its log";
            claims(message, advice).with_origin(Origin::ControlPlane).with_passing(Passing::AtStart)
        }
        Rejection::ClaimLost { claim, .. } => {
            let advice = "restore the volume, or create the claim again: its data is lost with the volume";
            of_claim(message, claim, advice).with_origin(of_template(claim))
        }
        Rejection::ClaimDeleted(claim) => {
            let advice = "wait until it is gone, and create it again: it stays as long as a pod uses it";
            of_claim(message, claim, advice).with_origin(of_template(claim))
        }
        Rejection::NotOwner(claim) => {
            let advice = "delete the claim if nothing needs it, or rename the volume in the template";
            of_claim(message, claim, advice)
        }
        Rejection::Unbound(claim) => {
            let message = message.words("; claim ").value(claim).words(" is not bound");
            let advice = "see the events of the claim: no volume that exists matches it, and none has been provisioned";
            of_claim(message, claim, advice).with_origin(of_template(claim))
        }
        Rejection::VolumeNotFound(_) => claims(message, "restore the volume, or create its claim again"),
        Rejection::DiskConflict(volume, other) => {
            let message = message.words(format!("; volume {volume} is one that "));
            let message = message.name(other.metadata.full_name(), workload(other)).words(" has");
            finding(message, "mount it read-only in both pods, if it may be, or give each pod a volume of its own")
                .with_command(describe_pod(other))
        }
        Rejection::InUse(claim, other) => {
            let message = message.words("; claim ").value(claim).words(" is used by ");
            claims(message.name(other.metadata.full_name(), workload(other)), &advice_on(&reasons[0], pod))
        }
        Rejection::NoDriver(driver) => {
            let advice =
                format!("find the DaemonSet of driver {driver}: its pod on the node has to register the driver");
            finding(message, &advice).with_origin(Origin::ControlPlane)
        }
        Rejection::TooMany { driver, attached, added, limit } => {
            let message = message.words(format!("; driver {driver} has attached ")).number(int(*attached));
            let message = message.words(" of ").number(int(*limit)).words(" to it, and the pod needs ");
            too_many(message.number(int(*added)).words(" more"), node)
        }
        Rejection::Binding(conflicts) => {
            let message = conflicts.iter().fold(message, |message, conflict| message.then(conflict_text(conflict)));
            let advice = match conflicts.first().map(|conflict| &conflict.why) {
                Some(WhyNot::NoneProvisioned(_)) => {
                    "create a volume for each node that runs these pods, or use a storage class that provisions them"
                        .to_owned()
                }
                Some(WhyNot::Topology(_)) => {
                    "add the node to allowedTopologies of the storage class, or select nodes that it allows".to_owned()
                }
                Some(WhyNot::NoSpace { class, .. }) => format!(
                    "free or add storage for class {class} near the node: its driver has none that is large enough \
                     (csistoragecapacities)"
                ),
                Some(WhyNot::OtherNode(_)) => advice_on("node affinity", pod),
                Some(WhyNot::NodeAffinity(_) | WhyNot::NoVolume(_)) | None => advice_on(&reasons[0], pod),
            };
            claims(message, &advice)
        }
        Rejection::Zone { volume, label } => {
            let value = |labels: &std::collections::BTreeMap<String, String>| labels.get(*label).cloned();
            let message = message.words(format!("; volume {} has {label}=", volume.metadata.name));
            let message = message.words(value(&volume.metadata.labels).unwrap_or_default());
            claims(message, &advice_on("volume node affinity conflict", pod))
        }
    }
}

fn conflict_text(Conflict { claim, why }: &Conflict) -> Sentence {
    match why {
        WhyNot::NodeAffinity(volume) => Sentence::from(format!("; claim {claim} is bound to volume "))
            .value(&volume.metadata.name)
            .words(format!(", which is for nodes with {}", affinity_text(volume))),
        WhyNot::NoVolume(volume) => {
            Sentence::from(format!("; claim {claim} is bound to volume ")).value(volume).words(", which does not exist")
        }
        WhyNot::OtherNode(node) => {
            Sentence::from(format!("; the volume of claim {claim} is provisioned for ")).value(node)
        }
        WhyNot::NoneProvisioned(class) => {
            format!("; no volume is free for claim {claim}, and storage class {class} provisions none").into()
        }
        WhyNot::NoSpace { class, requested } => format!(
            "; claim {claim} requests {}, and no capacity of storage class {class} for this node is that large",
            requested.text
        )
        .into(),
        WhyNot::Topology(class) => {
            format!("; storage class {class} of claim {claim} provisions no volumes for this node (allowedTopologies)")
                .into()
        }
    }
}

fn affinity_text(volume: &PersistentVolume) -> String {
    let required = volume.spec.node_affinity.iter().filter_map(|affinity| affinity.required.as_ref());
    let terms: Vec<String> = required.flat_map(|required| &required.node_selector_terms).map(term_text).collect();
    terms.join(" or ")
}

/// Returns what was not read, in words.
pub fn unread_text(unread: &Unread) -> String {
    match unread {
        Unread::Kind(kind) => format!("{} were not read", kind.resource()),
        Unread::Pods => "not all pods were read".to_owned(),
        Unread::InTree(volume) => {
            format!(
                "what the CSI driver of volume {volume}, which is one of an in-tree plugin, makes of it is not known"
            )
        }
        Unread::NewClaim(claim) => format!("claim {claim} will be bound before the pod has a node"),
    }
}

/// Finds a volume that the node cannot have, by the scheduler's reason.
pub fn reported(subject: &Subject, node: &Node, pod: &Pod, reason: &str) -> Finding {
    let message =
        Sentence::from(format!("the scheduler rejects the node for a volume of the pod: {}", without_nodes(reason)));
    let mut old = subject.old_pods_on(&node.metadata.name, pod).filter(|_| reason.contains("ReadWriteOncePod"));
    if let Some(old) = old.next() {
        return surge(message, old);
    }
    if reason.contains("exceed max volume count") {
        return too_many(message, node);
    }
    if let Some((driver, _)) = reason.split_once(" CSI driver is not installed on the node") {
        let finding = Finding::new(ReasonCode::VolumeUnsatisfiable, message, "").with_command(get_csi_node(node));
        return node_plugin::without_driver(subject.index, Some(node), driver, Lacks::Registration, finding);
    }
    let advice = advice_on(reason, pod);
    let claims = get_claims(&subject.daemon_set.metadata.namespace);
    Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice).with_command(claims)
}

fn get_csi_node(node: &Node) -> Command {
    Command::kubectl(&["get", "csinode", "-o", "yaml"]).name(&node.metadata.name)
}

fn too_many(message: Sentence, node: &Node) -> Finding {
    let advice =
        "move pods with volumes of the same driver to other nodes: the node has as many attached as it may (CSINode)";
    let finding = Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice).with_origin(Origin::Node);
    finding.only_with(TemplatePart::AttachedVolumes).with_command(get_csi_node(node))
}

/// Returns what to do about a reason that may have to do with who shares a claim: `ErrReasonConflict` and `ErrReasonNodeConflict` of
/// pkg/scheduler/framework/plugins, release 1.37.2, and ReadWriteOncePod.
fn advice_on(reason: &str, pod: &Pod) -> String {
    let is_elsewhere = ["volume node affinity conflict", "match PersistentVolume's node affinity", "node affinity"]
        .iter()
        .any(|it| reason.contains(it));
    let claims = pod.spec.volumes.iter().filter_map(|volume| volume.source.persistent_volume_claim.as_ref());
    let claims = claims.map(|it| format!("claim {}", it.claim_name)).reduce(|all, one| format!("{all} and {one}"));
    match claims {
        Some(claims) if reason.contains("ReadWriteOncePod") => format!(
            "all pods of a DaemonSet share {claims}, and only one pod may have such a claim at a time: use an ephemeral volume or a hostPath \
             instead"
        ),
        Some(claims) if is_elsewhere => format!(
            "all pods of a DaemonSet share {claims}, so that only nodes to which the volume can be attached may have one: use an ephemeral \
             volume or a hostPath instead, or select those nodes"
        ),
        _ => "check the claims".to_owned(),
    }
}

fn get_claims(namespace: &str) -> Command {
    Command::kubectl(&["get", "pvc"]).namespace(namespace)
}

/// Finds that the volumes of a pod that has a node were not provisioned or bound in time: `BindPodVolumes`,
/// pkg/scheduler/framework/plugins/volumebinding/binder.go, release 1.37.2.
pub fn volumes_not_bound(subject: &Subject, text: &str) -> Finding {
    let message = Sentence::from("the volumes of the pod were not provisioned in time: ").said(text);
    let advice = "see the events of the claims: the provisioner of their storage class has not made the volumes";
    let events = Command::kubectl(&["get", "events", "--field-selector", "involvedObject.kind=PersistentVolumeClaim"]);
    let events = events.namespace(&subject.daemon_set.metadata.namespace);
    Finding::new(ReasonCode::VolumeUnsatisfiable, message, advice).with_command(events)
}
