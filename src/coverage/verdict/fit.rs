//! What of a pod does not fit on a node, recomputed from all pods of the node.

use std::cmp::Reverse;

use super::finding::Finding;
use super::sentence::Sentence;
use super::workload::{full_name, workload};
use crate::coverage::index::Index;
use crate::model::node::Node;
use crate::model::pod::{ContainerPort, Pod, PodSpec};
use crate::report::reason::ReasonCode;
use crate::scheduling::ports::{conflicts, host_ports};
use crate::scheduling::resources::{Amounts, Insufficient, NodeUsage, fits, pod_requests};

/// The pods of a node that take room: bound, and not ended.
pub struct Room<'a> {
    /// The node.
    pub node: &'a Node,
    /// The pods.
    pub pods: Vec<&'a Pod>,
    usage: NodeUsage,
}

impl<'a> Room<'a> {
    /// Returns the room on a node, or nothing where not all of its pods were read.
    pub fn of(index: &'a Index<'_>, node: &'a Node) -> Option<Self> {
        Room::without(index, node, |_| false)
    }

    /// Returns the room on a node once some of its pods are gone.
    pub fn without(index: &'a Index<'_>, node: &'a Node, leaves: impl Fn(&Pod) -> bool) -> Option<Self> {
        if !index.snapshot.knows_all_pods_on(&node.metadata.name) {
            return None;
        }
        let bound = index.bound_to(&node.metadata.name);
        let pods: Vec<&Pod> = bound.iter().copied().filter(|pod| !pod.is_terminal() && !leaves(pod)).collect();
        let usage = NodeUsage::of(pods.iter().copied());
        Some(Room { node, pods, usage })
    }

    /// Returns how much of a resource the pods ask for in all.
    pub fn used(&self, resource: &str) -> i64 {
        self.usage.requested.get(resource).copied().unwrap_or(0)
    }

    /// Finds each resource that is short for a pod with these requests, with its name.
    pub fn shortages(&self, requests: &Amounts) -> Vec<(String, Finding)> {
        fits(requests, self.node, &self.usage)
            .into_iter()
            .map(|shortage| {
                let finding = match shortage.resource.as_str() {
                    "pods" => too_many_pods(&shortage),
                    _ if shortage.never_fits() => never_fits(self.node, &shortage),
                    _ => self.insufficient_resource(&shortage),
                };
                (shortage.resource, finding)
            })
            .collect()
    }

    /// Finds that the node has too little of a resource free, and who holds the most of it.
    fn insufficient_resource(&self, shortage: &Insufficient) -> Finding {
        let Insufficient { resource, requested, allocatable, .. } = shortage;
        let mut message = Sentence::from("asks for ")
            .amount(resource, *requested)
            .words(format!(" {resource}, "))
            .amount(resource, shortage.free())
            .words(" free of ")
            .amount(resource, *allocatable);
        if let Some((holder, amount)) = self.biggest_user(resource) {
            message = message
                .words("; most is held by ")
                .value(workload(holder))
                .words(" (")
                .amount(resource, amount)
                .words(")");
        }
        Finding::new(
            ReasonCode::InsufficientResource,
            message,
            format!("lower the {resource} request, or give the pods a higher priority class"),
        )
    }

    /// Returns the pod that asks for most of a resource, and how much.
    fn biggest_user(&self, resource: &str) -> Option<(&'a Pod, i64)> {
        let asks = |pod: &Pod| pod_requests(pod).get(resource).copied().unwrap_or(0);
        let users = self.pods.iter().map(|pod| (*pod, asks(pod))).filter(|(_, amount)| *amount > 0);
        users.min_by_key(|(pod, amount)| (Reverse(*amount), full_name(pod)))
    }

    /// Finds each port that a pod wants and another pod of the node holds; `kin` tells the pods of the
    /// same DaemonSet.
    pub fn port_conflicts(&self, spec: &PodSpec, surges: bool, kin: impl Fn(&Pod) -> bool) -> Vec<Finding> {
        host_ports(spec)
            .filter_map(|wanted| {
                let holds = |pod: &&&Pod| host_ports(&pod.spec).any(|held| conflicts(wanted, held));
                let holder = self.pods.iter().find(holds)?;
                if surges && kin(holder) && !holder.metadata.is_terminating() {
                    Some(surge_host_port_deadlock(wanted, holder))
                } else {
                    Some(host_port_conflict(wanted, holder))
                }
            })
            .collect()
    }
}

/// Finds that a pod asks for more than the node has in all.
fn never_fits(node: &Node, shortage: &Insufficient) -> Finding {
    let Insufficient { resource, requested, allocatable, .. } = shortage;
    let message = Sentence::from("asks for ")
        .amount(resource, *requested)
        .words(format!(" {resource}, the node has "))
        .amount(resource, *allocatable)
        .words(" in all");
    let exclude =
        Sentence::from("keep the pods off such nodes as ").node(&node.metadata.name).words(" by a nodeSelector");
    let fix = if *allocatable == 0 {
        Sentence::from(format!("see why the node offers no {resource}, or ")).then(exclude)
    } else {
        Sentence::from(format!("lower the {resource} request to "))
            .amount(resource, *allocatable)
            .words(" at most, or ")
            .then(exclude)
    };
    Finding::new(ReasonCode::NeverFits, message, fix)
}

/// Finds that the node has as many pods as it may.
fn too_many_pods(shortage: &Insufficient) -> Finding {
    let message =
        Sentence::from("the node has ").number(shortage.used).words(" of ").number(shortage.allocatable).words(" pods");
    Finding::new(ReasonCode::TooManyPods, message, "raise maxPods in the kubelet's configuration, or move pods away")
}

/// Finds that another pod holds a port of the node.
fn host_port_conflict(wanted: &ContainerPort, holder: &Pod) -> Finding {
    let message =
        Sentence::from(format!("{} is held by ", port_text(wanted))).name(full_name(holder), workload(holder));
    let message = if holder.metadata.is_terminating() { message.words(", which is being deleted") } else { message };
    Finding::new(ReasonCode::HostPortConflict, message, "change the port of one of them, or keep them apart")
}

/// Finds that a surging pod wants the port that its own predecessor holds until it is replaced.
fn surge_host_port_deadlock(wanted: &ContainerPort, holder: &Pod) -> Finding {
    let message = Sentence::from(format!("{} is held by its own predecessor ", port_text(wanted)))
        .name(&holder.metadata.name, workload(holder))
        .words(", which stays until the new pod is available: the update cannot go on");
    let fix = holder.metadata.controller().map_or_else(
        || "use maxUnavailable in place of maxSurge".to_owned(),
        |owner| {
            format!(
                "use maxUnavailable: kubectl patch ds {} -n {} --type=merge -p \
                 '{{\"spec\":{{\"updateStrategy\":{{\"rollingUpdate\":{{\"maxSurge\":0,\"maxUnavailable\":1}}}}}}}}'",
                owner.name, holder.metadata.namespace
            )
        },
    );
    Finding::new(ReasonCode::SurgeHostPortDeadlock, message, fix)
}

/// Writes a port as people do: `9100/TCP`, with the address where there is one.
pub fn port_text(port: &ContainerPort) -> String {
    let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
    let address = match port.host_ip.as_str() {
        "" | "0.0.0.0" => String::new(),
        address => format!(" on {address}"),
    };
    format!("port {}/{protocol}{address}", port.host_port)
}
