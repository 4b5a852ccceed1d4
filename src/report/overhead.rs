//! The report of `overhead`.

use super::Report;
use super::coverage::Incomplete;
use super::fix::Fix;

/// What DaemonSets cost on nodes, computed from their templates.
#[apply(answer!)]
pub struct OverheadReport {
    /// What could not be read, and is therefore unknown.
    pub incomplete: Vec<Incomplete>,
    /// How many DaemonSets were counted.
    pub daemon_sets_total: usize,
    /// How many nodes were looked at.
    pub nodes_total: usize,
    /// The label by whose values the nodes are grouped; absent for a single node.
    pub by: Option<String>,
    /// What is known of the node beyond its overhead, if it is a single one.
    pub node: Option<SingleNode>,
    /// The requests of the pod that was asked about; absent if there is none.
    pub pod: Option<Vec<Amount>>,
    /// The nodes by the value of the label.
    pub groups: Vec<OverheadGroup>,
    /// DaemonSets whose pods stay Pending on a node that is full of other pods; absent if not all pods were read.
    pub unprotected: Option<Vec<Unprotected>>,
}

impl Report for OverheadReport {
    const KINDS: &'static [&'static str] = &["OverheadReport"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        let shapes = self.groups.iter_mut().flat_map(|group| &mut group.shapes);
        shapes.flat_map(|shape| &mut shape.startup_taints).filter_map(|taint| taint.fix.as_mut()).for_each(&mut *visit);
        self.unprotected.iter_mut().flatten().for_each(|one| visit(&mut one.fix));
    }
}

/// A node that is looked at alone.
#[apply(answer!)]
pub struct SingleNode {
    /// The name.
    pub name: String,
    /// Whether it exists.
    pub exists: bool,
    /// The node that a new one is like; absent if it has a manifest or exists.
    pub like: Option<String>,
    /// Taints of that node that a new one does not have.
    pub left_out_taints: Vec<String>,
    /// DaemonSets that do not run there, and why.
    pub not_eligible: Vec<NotEligible>,
    /// What the pods request that are neither of DaemonSets nor static; absent unless the node exists and all of them were read.
    pub other_pods: Option<OtherPods>,
}

/// Pods of a node that are neither of DaemonSets nor static.
#[apply(answer!)]
pub struct OtherPods {
    /// How many.
    pub count: usize,
    /// Their requests.
    pub requests: Vec<Amount>,
    /// How many pods that were asked about fit beside them; absent if none was.
    pub pod_fits: Option<usize>,
}

/// A DaemonSet that does not run on a node.
#[apply(answer!)]
pub struct NotEligible {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Why.
    pub message: String,
    /// Whether a pod that is there already stays.
    pub may_stay: bool,
}

/// An amount of a resource.
#[apply(answer!)]
pub struct Amount {
    /// The resource.
    pub resource: String,
    /// The amount: `cpu` in thousandths of a core, everything else in units (bytes).
    pub value: i64,
    /// The same as people read it, rounded down.
    pub text: String,
}

/// Nodes with one value of a label.
#[apply(answer!)]
pub struct OverheadGroup {
    /// The value; absent for nodes without the label, and for a single node.
    pub value: Option<String>,
    /// How many nodes.
    pub nodes: usize,
    /// The nodes, those together that run the same DaemonSets.
    pub shapes: Vec<OverheadShape>,
}

/// Nodes that run the same DaemonSets.
#[apply(answer!)]
pub struct OverheadShape {
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// DaemonSets that run there, the largest requests first.
    pub runs: Vec<DaemonSetRequests>,
    /// DaemonSets of which some do not fit: it depends on which of them are scheduled first.
    pub may_run: Vec<DaemonSetRequests>,
    /// DaemonSets that should run there and do not fit, whatever else is on the node.
    pub does_not_fit: Vec<DaemonSetRequests>,
    /// Static pods, which also take room; absent if not all pods were read.
    pub static_pods: Option<usize>,
    /// How many pods the DaemonSets and static pods are.
    pub pods: usize,
    /// How many pods a node may have: the least and the most of the nodes.
    pub pods_allowed: Range,
    /// The resources of a node.
    pub resources: Vec<ResourceOverhead>,
    /// Taints that a DaemonSet removes once it runs, or would.
    pub startup_taints: Vec<StartupTaintReport>,
    /// How many pods that were asked about fit beside these pods, on the nodes with the least and with the most room; absent if none was.
    pub pod_fits: Option<Range>,
}

/// A least and a greatest number.
#[apply(answer!)]
#[derive(Copy)]
pub struct Range {
    /// The least.
    pub least: usize,
    /// The most.
    pub most: usize,
}

/// What a DaemonSet requests for each pod.
#[apply(answer!)]
pub struct DaemonSetRequests {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The priority; absent if its class could not be read.
    pub priority: Option<i32>,
    /// The requests, with what admission adds.
    pub requests: Vec<Amount>,
    /// The resources and host ports that the node lacks, such as `memory` or `port 9100`; only of those that do not fit.
    pub lacks: Vec<String>,
}

/// A resource of nodes, and what is left of it.
#[apply(answer!)]
pub struct ResourceOverhead {
    /// The resource.
    pub resource: String,
    /// What the DaemonSets request that run for certain.
    pub daemon_sets: Amount,
    /// What static pods request.
    pub static_pods: Amount,
    /// Their share of what is allocatable on the smallest node, in percent; absent if that is nothing.
    pub percent: Option<i64>,
    /// What is allocatable: on the node with the least, and on that with the most.
    pub allocatable: AmountRange,
    /// What is left for other pods: on the node with the least, beside all DaemonSets that may run, and on that with the most.
    pub left: AmountRange,
}

/// A least and a greatest amount.
#[apply(answer!)]
pub struct AmountRange {
    /// The least.
    pub least: Amount,
    /// The most.
    pub most: Amount,
}

/// A taint that a DaemonSet removes once it runs.
#[apply(answer!)]
pub struct StartupTaintReport {
    /// The taint.
    pub taint: String,
    /// The DaemonSets that remove it, as `NAMESPACE/NAME`.
    pub removed_by: Vec<String>,
    /// Whether it stays for ever, because none of them runs on the node.
    pub stays: bool,
    /// The taints that keep them away, if it stays.
    pub kept_by: Vec<String>,
    /// What to do if it stays.
    pub fix: Option<Fix>,
}

/// DaemonSets of a priority that other pods have, too.
#[apply(answer!)]
pub struct Unprotected {
    /// The DaemonSets, as `NAMESPACE/NAME`.
    pub daemon_sets: Vec<String>,
    /// Their priority.
    pub priority: i32,
    /// Whether their pods may not preempt others whatever their priority is.
    pub never_preempts: bool,
    /// How many pods of workloads have at least that priority.
    pub pods_not_lower: usize,
    /// How many pods of workloads there are.
    pub workload_pods: usize,
    /// What to do.
    pub fix: Fix,
}
