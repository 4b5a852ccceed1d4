//! Whether a pod fits on a node, recomputed from all pods of the node.

use std::collections::BTreeMap;

use super::finding::{Finding, Lack, Origin, describe_pod};
use super::sentence::Sentence;
use super::workload::{told_priority, workload};
use crate::facts::index::Index;
use crate::model::daemon_set::ADVANCED_GROUP;
use crate::model::node::Node;
use crate::model::pod::{ContainerPort, Pod, PodSpec};
use crate::report::fix::Command;
use crate::report::reason::{Passing, ReasonCode};
use crate::report::rollout_status::RaisedRequest;
use crate::scheduling::devices::Devices;
use crate::scheduling::ports::{conflicts, host_ports};
use crate::scheduling::preemption::{Contest, NEVER, is_terminating_by_preemption, priority};
use crate::scheduling::resources::{
    Amounts, Insufficient, NodeUsage, amount, fits, format_amount, pod_requests, requests_more, template_requests,
};

/// The pods that use resources of a node: bound, or nominated for it, and neither succeeded nor failed.
pub struct NodeRoom<'a> {
    pub node: &'a Node,
    pub pods: Vec<&'a Pod>,
    usage: NodeUsage,
    /// What the pods request that the scheduler may preempt for the pod.
    preemptible: Amounts,
    /// What device classes may provide.
    pub devices: &'a Devices,
    /// What the RuntimeClass of the pod adds to its requests.
    overhead: Amounts,
    /// The old pod that the pod is to replace, and beside which it is to run until then.
    pub old: Option<&'a Pod>,
    /// The most that a node has of each resource on which the pods are to run, if known.
    largest: Option<&'a Amounts>,
    /// The priority of the pod.
    priority: i32,
}

impl<'a> NodeRoom<'a> {
    /// Returns what a node has for a pod that is not bound, or `None` if not all pods of the node were read.
    pub fn of(index: &'a Index<'_>, node: &'a Node, pod: &Pod) -> Option<Self> {
        NodeRoom::without(index, node, pod, |_| false)
    }

    /// Returns the same without the pods that leave.
    pub fn without(index: &'a Index<'_>, node: &'a Node, pod: &Pod, leaves: impl Fn(&Pod) -> bool) -> Option<Self> {
        index.snapshot.knows_all_pods_on(&node.metadata.name).then(|| NodeRoom::beside(index, node, pod, leaves))
    }

    /// Finds each resource of which a pod requests more than the node has, whatever else runs there, with its name.
    pub fn never_fitting(&self, pod: &Pod) -> Vec<(String, Finding)> {
        let mut shortages = self.shortages(&pod_requests(pod));
        shortages.retain(|(_, finding)| finding.code == ReasonCode::NeverFits);
        shortages
    }

    /// Returns what a node has for a pod if no other is there.
    pub fn empty(index: &'a Index<'_>, node: &'a Node, pod: &Pod) -> Self {
        NodeRoom::beside(index, node, pod, |_| true)
    }

    fn beside(index: &'a Index<'_>, node: &'a Node, pod: &Pod, leaves: impl Fn(&Pod) -> bool) -> Self {
        let name = &node.metadata.name;
        let all = index.bound_to(name).into_iter().chain(nominated(index, name, pod));
        let pods: Vec<&Pod> = all.filter(|pod| !pod.is_terminal() && !leaves(pod)).collect();
        let usage = NodeUsage::of(pods.iter().copied());
        let overhead = pod.spec.overhead.iter().map(|(name, quantity)| (name.clone(), amount(name, quantity)));
        let may_preempt = pod.spec.preemption_policy != NEVER;
        let lower = pods.iter().filter(|other| may_preempt && priority(other) < priority(pod));
        let preemptible = NodeUsage::of(lower.copied()).requested;
        let (devices, overhead) = (&index.device_claims.classes, overhead.collect());
        NodeRoom {
            node,
            pods,
            usage,
            preemptible,
            devices,
            overhead,
            old: None,
            largest: None,
            priority: priority(pod),
        }
    }

    /// Notes the old pod that stays until the pod is available, if the DaemonSet surges.
    pub fn surging(self, old: Option<&'a Pod>) -> Self {
        NodeRoom { old, ..self }
    }

    /// Notes the most that a node has of each resource on which the pods are to run, if known.
    pub fn among(self, largest: Option<&'a Amounts>) -> Self {
        NodeRoom { largest, ..self }
    }

    /// Returns what helps besides a lower request: to exclude the node, unless none on which the pods are to run has more.
    pub fn exclude_or_add(&self, resource: &str, requested: i64) -> Sentence {
        match self.largest {
            Some(largest) if largest.get(resource).is_none_or(|most| *most < requested) => {
                format!("use larger nodes: none on which the pods are to run has as much {resource}").into()
            }
            _ => {
                Sentence::from("exclude nodes such as ").example(&self.node.metadata.name).words(" with a nodeSelector")
            }
        }
    }

    /// Returns the sum of the requests for a resource.
    pub fn used(&self, resource: &str) -> i64 {
        self.usage.requested.get(resource).copied().unwrap_or(0)
    }

    /// Finds each resource that is short for a pod with these requests, with its name. Of those that devices may provide, it is not
    /// known.
    pub fn shortages(&self, requests: &Amounts) -> Vec<(String, Finding)> {
        let short = fits(&self.devices.without(requests, self.node), self.node, &self.usage);
        short
            .iter()
            .map(|shortage| {
                let finding = match shortage.resource.as_str() {
                    "pods" => {
                        let finding = too_many_pods(shortage, self.node);
                        // On a node for one pod, nothing but to exclude it helps.
                        match single_pod_node(self.node) {
                            Some(_) => finding,
                            None => self.beside_old(finding, shortage, 1),
                        }
                    }
                    _ if shortage.never_fits() => self.never_fits(shortage),
                    _ if lacks_devices(shortage) => self.fewer_devices(shortage),
                    _ => self.insufficient_resource(shortage, &short),
                };
                (shortage.resource.clone(), finding)
            })
            .collect()
    }

    /// Finds that pods of the node have more devices than its device plugin offers now: to free one would not help.
    fn fewer_devices(&self, shortage: &Insufficient) -> Finding {
        let Insufficient { resource, requested, allocatable, used } = shortage;
        let message = Sentence::from("requests ")
            .amount(resource, *requested)
            .words(format!(" {resource}; the node offers "))
            .amount(resource, *allocatable)
            .words(", although its pods have ")
            .amount(resource, *used);
        let advice = format!(
            "restart the pod of the device plugin on the node that registers {resource}, and check its log: devices are missing"
        );
        Finding::new(ReasonCode::InsufficientResource, message, advice).with_origin(Origin::Node)
    }

    /// Finds that too little of a resource is free, who requests the most of it, and with which priority if it outranks the pod; and what
    /// else the pod lacks, as there is one finding per code.
    fn insufficient_resource(&self, shortage: &Insufficient, all: &[Insufficient]) -> Finding {
        let Insufficient { resource, requested, allocatable, .. } = shortage;
        let mut message = Sentence::from("requests ")
            .amount(resource, *requested)
            .words(format!(" {resource}; "))
            .amount(resource, shortage.free())
            .words(" free of ")
            .amount(resource, *allocatable)
            .words(" allocatable");
        if let Some((holder, pods, amount)) = self.largest_consumer(resource) {
            message =
                message.words("; largest consumer: ").value(workload(holder)).words(" (").amount(resource, amount);
            message = if pods > 1 { message.words(", ").number(pods).words(" pods)") } else { message.words(")") };
            if priority(holder) > self.priority {
                message = message.words(", which has a higher priority: ").value(told_priority(holder));
            }
        }
        let is_other = |other: &&Insufficient| {
            other.resource != *resource && other.resource != "pods" && !other.never_fits() && !lacks_devices(other)
        };
        let mut advice = format!("lower the {resource} request, or free {resource} on the node");
        for other in all.iter().filter(is_other) {
            let Insufficient { resource, requested, .. } = other;
            message = message
                .words("; also requests ")
                .amount(resource, *requested)
                .words(format!(" {resource}; "))
                .amount(resource, other.free())
                .words(" free");
            advice += &format!(", and the same for {resource}");
        }
        let finding = Finding::new(ReasonCode::InsufficientResource, message, advice);
        let held = self.old.and_then(|old| pod_requests(old).get(resource).copied()).unwrap_or(0);
        self.beside_old(finding, shortage, held)
    }

    /// Tells in the finding of a surge pod that it would fit if the old pod, which has some of what is short, were gone.
    fn beside_old(&self, finding: Finding, shortage: &Insufficient, held: i64) -> Finding {
        let Insufficient { resource, requested, allocatable, used } = shortage;
        let fits_alone = *requested <= allocatable.saturating_sub(used.saturating_sub(held));
        let Some(old) = self.old.filter(|_| held > 0 && fits_alone) else { return finding };
        let has = Sentence::from("; the old pod ")
            .name(&old.metadata.name, workload(old))
            .words(" has ")
            .amount(resource, held)
            .words(" of it until the surge pod is available");
        let advice = match shortage.never_fits_beside(held) {
            true => NEVER_BESIDE_OLD.into(),
            false => Sentence::from("use maxUnavailable instead of maxSurge, or ").then(finding.advice.clone()),
        };
        instead_of_surge(finding.and(has).with_advice(advice), old)
    }

    /// Finds that a pod requests more than the node has. What is to be lowered is the request without the overhead.
    fn never_fits(&self, shortage: &Insufficient) -> Finding {
        let Insufficient { resource, requested, allocatable, .. } = shortage;
        let overhead = self.overhead.get(resource).copied().unwrap_or(0);
        let mut message = Sentence::from("requests ").amount(resource, *requested).words(format!(" {resource}"));
        if overhead > 0 {
            message = message.words(", ").amount(resource, overhead).words(" of it overhead of its RuntimeClass");
        }
        let message = message.words("; node allocatable: ").amount(resource, *allocatable);
        let exclude = self.exclude_or_add(resource, *requested);
        // Beside the other pods if there is room, else on a node that is empty.
        let free = allocatable.saturating_sub(shortage.used);
        let free = free.saturating_add(self.preemptible.get(resource).copied().unwrap_or(0)).max(0);
        let most = [free, *allocatable].into_iter().map(|room| room.saturating_sub(overhead));
        let advice = match { most }.find(|most| *most > 0) {
            None if *allocatable == 0 && resource.starts_with("hugepages-") => {
                Sentence::from("allocate them on the node (vm.nr_hugepages) and restart its kubelet, or ").then(exclude)
            }
            None if *allocatable == 0 => {
                Sentence::from(format!("check why the node offers no {resource}, or ")).then(exclude)
            }
            None => Sentence::from("use a RuntimeClass with less overhead, or ").then(exclude),
            Some(most) => Sentence::from(format!("lower the {resource} request to "))
                .at_most(resource, most)
                .words(", or ")
                .then(exclude),
        };
        Finding::new(ReasonCode::NeverFits, message, advice)
    }

    /// Returns the first pod of the workload that requests the most of a resource on the node, how many pods of it do, and how much.
    fn largest_consumer(&self, resource: &str) -> Option<(&'a Pod, i64, i64)> {
        let mut by_workload: BTreeMap<String, (&Pod, i64, i64)> = BTreeMap::new();
        for pod in &self.pods {
            let Some(amount) = pod_requests(pod).get(resource).copied().filter(|amount| *amount > 0) else { continue };
            let (_, pods, sum) = by_workload.entry(workload(pod)).or_insert((pod, 0, 0));
            (*pods, *sum) = (*pods + 1, sum.saturating_add(amount));
        }
        by_workload.into_values().rev().max_by_key(|(.., amount)| *amount)
    }
}

/// Returns the pods for which the scheduler keeps room on a node before it places a pod.
///
/// Ported from `addGENominatedPods`, pkg/scheduler/framework/runtime/framework.go, release 1.37.2.
pub fn nominated<'a>(index: &Index<'a>, node: &str, pod: &Pod) -> impl Iterator<Item = &'a Pod> {
    let goes_first = |other: &&Pod| {
        priority(other) >= priority(pod) && other.metadata.uid != pod.metadata.uid && !other.is_terminal()
    };
    index.nominated_for(node).into_iter().filter(goes_first)
}

/// Returns whether a pod that is not bound fits on a node as it is; `None` if not all pods of the node were read.
pub fn fits_now(index: &Index<'_>, node: &Node, pod: &Pod) -> Option<bool> {
    fits_after(index, node, pod, |_| false, None)
}

/// Returns whether it does after other pods have left the node, and one has come; `None` if not all pods of the node were read.
pub(crate) fn fits_after(
    index: &Index<'_>,
    node: &Node,
    pod: &Pod,
    leaves: impl Fn(&Pod) -> bool,
    added: Option<&Pod>,
) -> Option<bool> {
    let room = NodeRoom::without(index, node, pod, leaves)?;
    let others: Vec<&Pod> = room.pods.into_iter().chain(added).collect();
    Some(contest(index, node, pod, &others).fits())
}

fn contest<'a>(index: &Index<'_>, node: &'a Node, pod: &'a Pod, others: &[&'a Pod]) -> Contest<'a> {
    Contest::new(pod, &index.device_claims.classes.without(&pod_requests(pod), node), node, others)
}

/// Returns whether the pods of a node have more devices than its device plugin offers now.
fn lacks_devices(shortage: &Insufficient) -> bool {
    is_device(&shortage.resource) && shortage.used > shortage.allocatable
}

/// Returns whether a resource is one of a device plugin, and not one that a controller of nodes computes from what they have.
fn is_device(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/")
}

/// Returns the resources of which a pod that is not bound requests more than `other` does, and therefore too much for a
/// node on which `other` would fit; empty if only its host ports are in use. The pod that it replaces counts as gone: to
/// find room beside it is up to the update strategy. `None` if it fits, or if `other` would not fit
/// either. If not all pods of the node were read, it is presumed of a pod that requests more, or whose host port one of them uses.
pub(crate) fn excess(
    index: &Index<'_>,
    node: &Node,
    pod: &Pod,
    replaces: Option<&Pod>,
    other: &Pod,
) -> Option<Vec<RaisedRequest>> {
    let is_replaced = |other: &Pod| replaces.is_some_and(|replaced| replaced.metadata.uid == other.metadata.uid);
    let others = template_requests(&other.spec);
    // What is preempted for it keeps its room until it has left: the other pod may fit beside that.
    let leaves = |pod: &Pod| pod.metadata.is_terminating() && !is_terminating_by_preemption(pod);
    let Some(room) = NodeRoom::without(index, node, pod, |pod: &Pod| leaves(pod) || is_replaced(pod)) else {
        let known = index.bound_to(&node.metadata.name);
        let conflicts = |spec: &PodSpec| !port_conflicts(&known, spec, None).is_empty();
        if conflicts(&pod.spec) && !conflicts(&other.spec) {
            return Some(Vec::new());
        }
        // Which resource is missing is not known, and so not named.
        return requests_more(&pod.spec, &other.spec).then(Vec::new);
    };
    let lacks = |pod: &Pod| {
        let requests = index.device_claims.classes.without(&template_requests(&pod.spec), node);
        let shortages = fits(&requests, node, &room.usage);
        (!port_conflicts(&room.pods, &pod.spec, None).is_empty(), shortages)
    };
    let (conflicts, shortages) = lacks(pod);
    if (!conflicts && shortages.is_empty()) || lacks(other) != (false, Vec::new()) {
        return None;
    }
    let excess = |Insufficient { resource, requested, .. }| {
        let from = format_amount(&resource, others.get(&resource).copied().unwrap_or(0));
        RaisedRequest { from, to: format_amount(&resource, requested), resource }
    };
    Some(shortages.into_iter().map(excess).collect())
}

/// Finds each host port that one of these pods of the node uses; `old` is the one that a surge pod is to replace.
pub fn port_conflicts(pods: &[&Pod], spec: &PodSpec, old: Option<&Pod>) -> Vec<Finding> {
    let is_surged = |pod: &Pod| old.is_some_and(|old| std::ptr::eq(old, pod));
    host_ports(spec)
        .filter_map(|wanted| {
            let holds = |pod: &&&Pod| host_ports(&pod.spec).any(|held| conflicts(wanted, held));
            // The old pod goes first: whoever else uses the port, it never gives it up.
            let mut holders = pods.iter().filter(holds);
            let holder = holders.clone().find(|pod| is_surged(pod)).or_else(|| holders.next())?;
            let others: Vec<&Pod> =
                pods.iter().filter(holds).copied().filter(|pod| !std::ptr::eq(*pod, *holder)).collect();
            Some(match is_surged(holder) {
                true => surge_host_port_deadlock(wanted, holder),
                false => host_port_conflict(wanted, holder, &others),
            })
        })
        .collect()
}

/// Nodes that run one pod each, which is the workload: their labels, and what they are.
///
/// docs.aws.amazon.com/eks/latest/userguide/fargate.html, and github.com/virtual-kubelet/virtual-kubelet: node/nodeutil.
const VIRTUAL_NODES: [(&str, &str, &str); 2] = [
    ("eks.amazonaws.com/compute-type", "fargate", "an AWS Fargate node"),
    ("type", "virtual-kubelet", "a virtual node"),
];

/// The taint of virtual nodes, whatever their provider.
const VIRTUAL_TAINT: &str = "virtual-kubelet.io/provider";

/// What is known of a node that has no room for pods of DaemonSets beside the one that it is for.
pub struct SinglePodNode {
    what: &'static str,
    /// The requirement of a node affinity that excludes it.
    excludes: Option<String>,
    /// The taint that keeps other pods away.
    taint: Option<String>,
}

/// Returns what is known of a node that is for one pod: a virtual one, or one that takes no second pod.
pub fn single_pod_node(node: &Node) -> Option<SinglePodNode> {
    let has = |(key, value, _): &&(&str, &str, &str)| node.metadata.labels.get(*key).is_some_and(|own| own == value);
    let known = VIRTUAL_NODES.iter().find(has);
    let taint = node.spec.taints.iter().find(|taint| match known {
        Some((key, ..)) => taint.key == *key || taint.key == VIRTUAL_TAINT,
        None => taint.key == VIRTUAL_TAINT,
    });
    let takes_one = node.status.allocatable.get("pods").is_some_and(|pods| pods.value() <= 1);
    let what = match (known, taint) {
        (Some((.., what)), _) => what,
        (None, Some(_)) => "a virtual node",
        (None, None) if takes_one => "a node for one pod",
        (None, None) => return None,
    };
    let excludes = known.map(|(key, value, _)| format!("{key} NotIn [{value}]"));
    Some(SinglePodNode { what, excludes, taint: taint.map(ToString::to_string) })
}

impl SinglePodNode {
    /// Says of a pod of a DaemonSet that does not run there how to exclude such nodes: no other template runs there, and no time helps.
    pub fn told(&self, finding: Finding, node: &Node) -> Finding {
        finding.with_advice(self.advice(node)).with_origin(Origin::Room(Lack::Pods)).with_passing(Passing::Never)
    }

    /// Returns how to exclude such nodes.
    fn advice(&self, node: &Node) -> Sentence {
        let exclude = match &self.excludes {
            Some(excludes) => Sentence::from(format!("exclude these nodes with a node affinity ({excludes})")),
            None => {
                Sentence::from("exclude nodes such as ").example(&node.metadata.name).words(" with a node affinity")
            }
        };
        match &self.taint {
            Some(taint) => exclude.words(format!(", or with tolerations that do not match taint {taint}")),
            None => exclude,
        }
    }
}

/// Finds that the node has its maximum number of pods.
fn too_many_pods(shortage: &Insufficient, node: &Node) -> Finding {
    let message =
        Sentence::from("the node has ").number(shortage.used).words(" of ").number(shortage.allocatable).words(" pods");
    match single_pod_node(node) {
        Some(single) => {
            let message = message.words(format!(": it is {}, which has no place for pods of DaemonSets", single.what));
            single.told(Finding::new(ReasonCode::TooManyPods, message, ""), node)
        }
        None => Finding::new(
            ReasonCode::TooManyPods,
            message,
            "move pods to other nodes, or raise maxPods in the kubelet configuration",
        ),
    }
}

/// Finds that another pod uses a host port.
fn host_port_conflict(wanted: &ContainerPort, holder: &Pod, others: &[&Pod]) -> Finding {
    let message = Sentence::from(format!("{} is in use by ", port_text(wanted)))
        .name(holder.metadata.full_name(), workload(holder));
    let message = if holder.metadata.is_terminating() { message.words(", which is terminating") } else { message };
    let message = others
        .iter()
        .fold(message, |message, other| message.words(" and by ").name(other.metadata.full_name(), workload(other)));
    let advice = match holder.metadata.controller().map(|owner| owner.kind.as_str()) {
        _ if !others.is_empty() => Some("change the host port in the template: each of these pods uses it"),
        Some("DaemonSet") => Some(
            "remove one of the two DaemonSets if it is a second installation of the other; otherwise change the host port of one, or give \
             them nodeSelectors that exclude each other",
        ),
        Some("Node") => Some("change the host port in the template, or in the manifest of the static pod on the node"),
        Some(_) => Some("change the host port of one of them"),
        None => None,
    };
    if let Some(advice) = advice {
        return Finding::new(ReasonCode::HostPortConflict, message, advice);
    }
    let advice = Sentence::new().name(holder.metadata.full_name(), "the pod that uses it").words(
        " is a bare pod, which nothing recreates: delete it if nobody needs it, or change one of the host ports",
    );
    Finding::new(ReasonCode::HostPortConflict, message.words(", a bare pod"), advice).with_command(describe_pod(holder))
}

/// Finds a surge pod whose host port is in use by the pod that it is to replace.
fn surge_host_port_deadlock(wanted: &ContainerPort, holder: &Pod) -> Finding {
    let message = Sentence::from(format!("{} is in use by the old pod ", port_text(wanted)))
        .name(&holder.metadata.name, workload(holder))
        .words(", which is deleted only once the surge pod is available: the rollout cannot continue");
    let finding = Finding::new(ReasonCode::SurgeHostPortDeadlock, message, "use maxUnavailable instead of maxSurge");
    instead_of_surge(finding, holder)
}

/// The advice for a surge on a node that has not enough for two pods, whatever else runs there.
pub const NEVER_BESIDE_OLD: &str = "use maxUnavailable instead of maxSurge: two such pods never fit on the node";

/// Says that a surge pod and the pod that it is to replace exclude each other, whatever their revisions, and how to end the surge. The
/// surge pod never ran, so that nothing is lost with it.
pub fn instead_of_surge(finding: Finding, old: &Pod) -> Finding {
    let finding = finding.with_origin(Origin::Room(Lack::BesideOldPod));
    let Some(owner) = old.metadata.controller() else { return finding };
    let is_advanced = owner.api_version.starts_with(ADVANCED_GROUP);
    let name = if is_advanced { format!("ads/{}", owner.name) } else { owner.name.clone() };
    let set = Command::kubectl(&["ds", "set", "--max-unavailable", "1"]).namespace(&old.metadata.namespace);
    finding.with_command(set.switch("--delete-surge-pods").name(name))
}

/// Finds that a surge pod cannot be placed beside the pod that it is to replace, although it could take its place.
pub fn beside_old_pod(code: ReasonCode, message: Sentence, old: &Pod, why: &str) -> Finding {
    let message = message
        .words("; old pod ")
        .name(&old.metadata.name, workload(old))
        .words(" is deleted only once the surge pod is available: the rollout cannot continue");
    let advice = format!("use maxUnavailable instead of maxSurge: the old and the new pod {why}");
    instead_of_surge(Finding::new(code, message, advice), old)
}

/// Writes a port such as `port 9100/TCP`, with its address if it has one.
pub fn port_text(port: &ContainerPort) -> String {
    let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
    let address = match port.host_ip.as_str() {
        "" | "0.0.0.0" => String::new(),
        address => format!(" on {address}"),
    };
    format!("port {}/{protocol}{address}", port.host_port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::port_text;
    use crate::coverage::test_support::world;
    use crate::model::pod::ContainerPort;
    use crate::report::reason::ReasonCode;

    #[test]
    fn a_request_is_to_be_lowered_only_to_what_the_node_has() {
        let found_with = |priority: i32, resource: &str, requested: &str, overhead: &str, others: &str| {
            let container = |amount: &str| json!({"name": "agent", "resources": {"requests": {resource: amount}}});
            let pod = json!({"spec": {"priority": priority, "containers": [container(requested)],
                "overhead": {resource: overhead}}});
            let other = json!({"spec": {"containers": [container(others)]}});
            let world = world().node("n", json!({})).other_pod("other", "n", other);
            let reason = world.pending_pod("agent-x", "n", "", pod).only_node().reasons.remove(1);
            assert_eq!(reason.code, ReasonCode::NeverFits);
            (reason.message, reason.fix.advice)
        };
        let found = |resource: &str, requested: &str, overhead: &str, others: &str| {
            found_with(0, resource, requested, overhead, others)
        };
        // It preempts the others.
        assert!(found_with(1, "cpu", "6", "0", "3").1.contains("lower the cpu request to 4 at most"));
        for (requested, overhead, others, most) in [
            ("6", "0", "0", "lower the cpu request to 4 at most"),
            ("6", "0", "100m", "lower the cpu request to 3900m at most"),
            ("6", "0", "4", "lower the cpu request to 4 at most"),
            ("3", "1500m", "0", "lower the cpu request to 2500m at most"),
            ("3", "1500m", "500m", "lower the cpu request to 2 at most"),
            ("1", "4", "0", "use a RuntimeClass with less overhead"),
        ] {
            let (message, advice) = found("cpu", requested, overhead, others);
            assert!(advice.contains(most), "{requested} {overhead} {others}: {advice}");
            assert_eq!(message.contains("overhead of its RuntimeClass"), overhead != "0", "{message}");
        }
        let (_, advice) = found("example.com/gpu", "1", "0", "0");
        assert!(!advice.contains(" 0 "), "{advice}");
    }

    #[test]
    fn nodes_are_to_be_excluded_only_if_others_are_large_enough() {
        let advice = |labels: &str, cpu: &str| {
            let container = json!({"name": "agent", "resources": {"requests": {"cpu": "6"}}});
            let other = json!({"metadata": {"labels": {"pool": labels}}, "status": {"allocatable": {"cpu": cpu}}});
            let world = world()
                .template(json!({"nodeSelector": {"pool": "a"}}))
                .node("n", json!({"metadata": {"labels": {"pool": "a"}}}))
                .pending_pod(
                    "agent-x",
                    "n",
                    "0/2 nodes are available: 2 Insufficient cpu.",
                    json!({"spec": {"containers": [container]}}),
                )
                .node("other", other);
            let world = if labels == "a" { world.pod("agent-y", "other", json!({})) } else { world };
            world.coverage().problems[0].fix.advice.clone()
        };
        let lower = "lower the cpu request to 4 at most, or ";
        let add = format!("{lower}use larger nodes: none on which the pods are to run has as much cpu");
        assert_eq!(advice("a", "8"), format!("{lower}exclude nodes such as n with a nodeSelector"));
        assert_eq!([advice("a", "5"), advice("b", "8")], [add.clone(), add]);
    }

    #[test]
    fn the_largest_consumer_is_a_workload_and_not_one_pod_of_it() {
        let asks =
            |cpu: &str| json!({"spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": cpu}}}]}});
        let mut alone = asks("2");
        alone["metadata"] = json!({"ownerReferences": []});
        let world = world().node("n", json!({})).other_pod("single", "n", alone);
        let world = world.other_pod("other-0", "n", asks("1")).other_pod("other-1", "n", asks("1500m"));
        let says = "0/1 nodes are available: 1 Insufficient cpu.";
        let reason = world.pending_pod("agent-x", "n", says, asks("1")).only_node().reasons.remove(0);
        assert_eq!(reason.code, ReasonCode::InsufficientResource);
        assert!(reason.message.contains("largest consumer: default/other (2500m, 2 pods)"), "{}", reason.message);
    }

    #[test]
    fn a_stray_pod_that_holds_a_host_port_may_be_deleted_and_one_of_a_workload_may_not() {
        let ports = json!([{"name": "agent", "ports": [{"containerPort": 9100, "hostPort": 9100}]}]);
        let waiting = |owners: serde_json::Value| {
            let holder = json!({"metadata": {"ownerReferences": owners}, "spec": {"containers": ports}});
            let world = world().node("n", json!({})).other_pod("netcat", "n", holder);
            let says = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
            let pod = json!({"spec": {"containers": ports}});
            world.pending_pod("agent-x", "n", says, pod).only_node().reasons.remove(0)
        };
        let stray = waiting(json!([]));
        assert_eq!(stray.code, ReasonCode::HostPortConflict);
        assert!(stray.message.contains("default/netcat"), "{}", stray.message);
        assert!(
            stray.fix.advice.contains("default/netcat") && stray.fix.advice.contains("delete"),
            "{}",
            stray.fix.advice
        );
        assert_eq!(stray.fix.command.unwrap().to_string(), "kubectl describe pod -n default netcat");
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "other", "uid": "o", "controller": true}]);
        assert!(!waiting(owner).fix.advice.contains("delete"));
    }

    #[test]
    fn a_port_has_an_address_unless_it_is_every_one() {
        for (address, text) in [("", "9100/TCP"), ("0.0.0.0", "9100/TCP"), ("10.0.0.1", " 10.0.0.1")] {
            let port = ContainerPort { host_port: 9100, host_ip: address.to_owned(), ..ContainerPort::default() };
            assert!(port_text(&port).ends_with(text), "{}", port_text(&port));
        }
    }
}
