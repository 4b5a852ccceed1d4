//! Resources: pods' requests, nodes' allocatable, and whether one more pod fits.
//!
//! Amounts are added up exactly and rounded up once, as the scheduler does. Beyond 2^63 - 1 they are
//! capped, where upstream overflows.

use std::collections::BTreeMap;

use crate::model::amounts::{Exact, add, exact, greatest, is_hugepages, is_pod_level};
use crate::model::int_or_percent::int;
use crate::model::names::is_label_key;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStatus, Pod, PodSpec};
use crate::model::quantity::Quantity;

/// Amounts by resource name: `cpu` in thousandths of a core, everything else in units (bytes).
///
/// Only resources that the scheduler counts are there, and only if their amount is not 0.
pub type Amounts = BTreeMap<String, i64>;

/// Returns the requests that a pod of a template is given when it is created.
pub fn template_requests(spec: &PodSpec) -> Amounts {
    spec.with_pod_level_defaults().map_or_else(|| unscheduled_requests(spec), |spec| unscheduled_requests(&spec))
}

/// Returns whether a pod of a template requests more of a resource than one of another.
pub fn requests_more(new: &PodSpec, old: &PodSpec) -> bool {
    let had = template_requests(old);
    template_requests(new).iter().any(|(resource, amount)| had.get(resource).is_none_or(|had| amount > had))
}

/// Returns the requests of a pod that is not scheduled yet.
///
/// Ported from `computePodResourceRequest`,
/// pkg/scheduler/framework/plugins/noderesources/fit.go, release 1.37.2.
fn unscheduled_requests(spec: &PodSpec) -> Amounts {
    let mut amounts = rounded(&exact_requests(spec, None));
    amounts.retain(|_, amount| *amount > 0);
    amounts
}

/// Returns the requests of a pod; if it is bound, its status counts too.
///
/// Ported from `PodInfo.CalculateResource`, pkg/scheduler/framework/types.go, release 1.37.2.
pub fn pod_requests(pod: &Pod) -> Amounts {
    if pod.spec.node_name.is_empty() {
        return unscheduled_requests(&pod.spec);
    }
    rounded(&exact_requests(&pod.spec, Some(pod)))
}

/// The total requests of the pods of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// The sum of their requests.
    pub requested: Amounts,
    /// Their number.
    pub pods: usize,
}

impl NodeUsage {
    /// Adds up the pods that are bound to a node; terminal ones do not count.
    ///
    /// Ported from `NodeInfo.update`, pkg/scheduler/framework/types.go, release 1.37.2.
    pub fn of<'a>(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut usage = NodeUsage::default();
        pods.for_each(|pod| usage.add(pod));
        usage
    }

    /// Adds a pod that is bound to the node, unless it is terminal.
    pub fn add(&mut self, pod: &Pod) {
        if pod.is_terminal() {
            return;
        }
        self.add_requests(&pod_requests(pod));
    }

    /// Adds a pod with these requests.
    pub fn add_requests(&mut self, requests: &Amounts) {
        self.pods += 1;
        for (resource, amount) in requests {
            let sum = self.requested.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
}

/// A resource that is insufficient on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insufficient {
    /// The resource's name; `pods` if the node's pod limit is reached.
    pub resource: String,
    /// The pod's request, in the units of [`Amounts`]; 1 for `pods`.
    pub requested: i64,
    /// The total requests of the node's pods.
    pub used: i64,
    /// The node's allocatable amount.
    pub allocatable: i64,
}

impl Insufficient {
    /// Returns how much is free; 0 if the node is overcommitted.
    pub fn free(&self) -> i64 {
        self.allocatable.saturating_sub(self.used).max(0)
    }

    /// Returns whether the request exceeds the node's allocatable amount.
    pub fn never_fits(&self) -> bool {
        self.requested > self.allocatable
    }

    /// Returns whether the pod, which would fit alone, never fits beside another one that takes so much, whatever else is on the node.
    pub fn never_fits_beside(&self, held: i64) -> bool {
        held > 0 && !self.never_fits() && held.saturating_add(self.requested) > self.allocatable
    }
}

/// Returns the resources that are insufficient for one more pod; none if it fits.
///
/// The order is pods, cpu, memory, ephemeral-storage, then the others by name. Ported from `Fits`,
/// pkg/scheduler/framework/plugins/noderesources/fit.go, release 1.37.2, without its device classes: what they may provide is
/// to be left out of the requests, see [`Devices::without`](super::devices::Devices::without).
pub fn fits(requests: &Amounts, node: &Node, usage: &NodeUsage) -> Vec<Insufficient> {
    let mut insufficient = Vec::new();
    let allowed = node.status.allocatable.get("pods").map_or(0, Quantity::value);
    let pods = int(usage.pods);
    if pods >= allowed {
        insufficient.push(Insufficient { resource: "pods".to_owned(), requested: 1, used: pods, allocatable: allowed });
    }
    let main = ["cpu", "memory", "ephemeral-storage"];
    let others = requests.keys().map(String::as_str).filter(|resource| !main.contains(resource));
    for resource in main.into_iter().chain(others) {
        let requested = requests.get(resource).copied().unwrap_or(0);
        let allocatable = node.status.allocatable.get(resource).map_or(0, |quantity| amount(resource, quantity));
        let used = usage.requested.get(resource).copied().unwrap_or(0);
        if requested > 0 && is_counted(resource) && requested > allocatable.saturating_sub(used) {
            insufficient.push(Insufficient { resource: resource.to_owned(), requested, used, allocatable });
        }
    }
    insufficient
}

/// Returns whether the scheduler counts a resource; `pods` is counted separately.
///
/// Ported from `Resource.Add`, pkg/scheduler/framework/types.go, and `IsScalarResourceName`,
/// pkg/scheduler/util/utils.go, release 1.37.2.
pub fn is_counted(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || is_hugepages(resource)
        || resource.starts_with("attachable-volumes-")
        || resource.contains("kubernetes.io/")
        || is_extended(resource)
}

/// Ported from `IsExtendedResourceName`, pkg/apis/core/v1/helper/helpers.go, release 1.37.2.
pub(super) fn is_extended(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && is_label_key(&format!("requests.{resource}"))
}

/// Returns an amount in the units of [`Amounts`].
pub fn amount(resource: &str, quantity: &Quantity) -> i64 {
    if resource == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// Writes an amount as people read it: `600m` and `4` for cpu, `1.5Gi` for bytes, `2` for the rest.
pub fn format_amount(resource: &str, amount: i64) -> String {
    let bytes = matches!(resource, "memory" | "ephemeral-storage") || is_hugepages(resource);
    match resource {
        "cpu" if amount % 1_000 == 0 => (amount / 1_000).to_string(),
        "cpu" => format!("{amount}m"),
        _ if bytes => format_bytes(amount),
        _ => amount.to_string(),
    }
}

/// Truncates to one decimal instead of rounding, so that too little never looks like enough.
fn format_bytes(bytes: i64) -> String {
    let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let size = i128::from(bytes);
    let Some((unit, bits)) = units.into_iter().find(|(_, bits)| size.abs() >= 1 << bits) else {
        return bytes.to_string();
    };
    let tenths = size * 10 / (1 << bits);
    match tenths % 10 {
        0 => format!("{}{unit}", tenths / 10),
        tenth => format!("{}.{}{unit}", tenths / 10, tenth.abs()),
    }
}

/// Adds up a pod's requests exactly; for a `bound` pod its status counts too.
///
/// While a pod is resized in place, each resource is the greatest of what the whole pod asks for, was
/// allocated and uses. Kubernetes 1.36 takes the greatest for each container and does not count what was allocated to
/// the whole pod, to which its kubelets add the overhead: it counts less for a pod with an overhead, and while several
/// containers are resized at once. Ported from `PodRequests`, `AggregateContainerRequests` and
/// `effectivePodLevelResources`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2.
pub fn exact_requests<'a>(spec: &'a PodSpec, bound: Option<&'a Pod>) -> Exact<'a> {
    let mut requests = if let Some(pod) = bound { container_requests(pod) } else { spec.aggregate(exact_of) };
    if let Some(resources) = &spec.resources
        && resources.requests.keys().any(|resource| is_pod_level(resource))
    {
        let mut effective = exact(&resources.requests);
        if let Some(pod) = bound
            && let Some(actuated) = &pod.status.resources
        {
            if is_resize_infeasible(pod) {
                effective.clear();
            }
            greatest(&mut effective, &exact(&actuated.requests));
            greatest(&mut effective, &exact(&pod.status.allocated_resources));
        }
        requests.extend(effective.into_iter().filter(|(resource, _)| is_pod_level(resource)));
    }
    add(&mut requests, &exact(&spec.overhead));
    requests
}

/// Returns the limits of a pod.
///
/// Ported from `PodLimits`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2, without what is in force while a pod is resized.
pub fn exact_limits(spec: &PodSpec) -> Exact<'_> {
    let mut all = spec.aggregate(|container| exact(&container.resources.limits));
    if let Some(resources) = &spec.resources {
        all.extend(exact(&resources.limits).into_iter().filter(|(resource, _)| is_pod_level(resource)));
    }
    let mut overhead = exact(&spec.overhead);
    // It adds to a limit, and never creates one.
    overhead.retain(|resource, _| all.get(resource).is_some_and(|limit| *limit > 0));
    add(&mut all, &overhead);
    all
}

/// The requests of the containers of a bound pod: for each resource the greatest of what they ask for (unless the node
/// can never give it), was allocated to them, and is in force.
fn container_requests<'a>(pod: &'a Pod) -> Exact<'a> {
    let infeasible = is_resize_infeasible(pod);
    let wanted = |container: &'a Container| if infeasible { Exact::new() } else { exact_of(container) };
    let status = &pod.status;
    let mut requests = match &status.resources {
        Some(actuated) if !status.allocated_resources.is_empty() && !actuated.requests.is_empty() => {
            let mut requests = exact(&status.allocated_resources);
            greatest(&mut requests, &exact(&actuated.requests));
            requests
        }
        _ => {
            let allocated = |container| {
                let status = container_status(pod, container).map(|status| &status.allocated_resources);
                status.filter(|allocated| !allocated.is_empty())
            };
            let actuated = |container| {
                let requests = &container_status(pod, container)?.resources.as_ref()?.requests;
                Some(requests).filter(|requests| !requests.is_empty())
            };
            let mut requests =
                pod.spec.aggregate(|container| allocated(container).map_or_else(|| wanted(container), exact));
            greatest(
                &mut requests,
                &pod.spec.aggregate(|container| {
                    actuated(container).or_else(|| allocated(container)).map_or_else(|| wanted(container), exact)
                }),
            );
            requests
        }
    };
    if !infeasible {
        greatest(&mut requests, &pod.spec.aggregate(exact_of));
    }
    requests
}

fn exact_of(container: &Container) -> Exact<'_> {
    exact(&container.resources.requests)
}

/// Finds the status of a container.
///
/// Ported from `findContainerStatus`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2.
fn container_status<'a>(pod: &'a Pod, container: &Container) -> Option<&'a ContainerStatus> {
    // In the order of upstream: names of both lists may be equal.
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    statuses.into_iter().find(|status| status.name == container.name)
}

/// Ported from `IsPodResizeInfeasible`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2.
fn is_resize_infeasible(pod: &Pod) -> bool {
    pod.condition("PodResizePending").is_some_and(|condition| condition.reason == "Infeasible")
}

fn rounded(exact: &Exact<'_>) -> Amounts {
    exact
        .iter()
        .filter(|(resource, _)| is_counted(resource))
        .map(|(resource, nanos)| {
            let unit = if *resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
            let rounded_up = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) != 0);
            ((*resource).to_owned(), i64::try_from(rounded_up).unwrap_or(i64::MAX))
        })
        .filter(|(_, amount)| *amount != 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Insufficient, format_amount};

    #[test]
    fn amounts_are_written_as_people_read_them() {
        for (resource, amount, text) in [
            ("cpu", 600, "600m"),
            ("cpu", 4_000, "4"),
            ("cpu", 1_500, "1500m"),
            ("cpu", -250, "-250m"),
            ("memory", 0, "0"),
            ("memory", 1_000, "1000"),
            ("memory", 64 << 20, "64Mi"),
            ("memory", 1 << 30, "1Gi"),
            ("memory", 3 << 29, "1.5Gi"),
            ("ephemeral-storage", (1 << 30) - 1, "1023.9Mi"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("memory", -(3 << 29), "-1.5Gi"),
            ("memory", -(1 << 30) + 1, "-1023.9Mi"),
            ("example.com/gpu", 2_048, "2048"),
            ("pods", 110, "110"),
        ] {
            assert_eq!(format_amount(resource, amount), text, "{resource} {amount}");
        }
    }

    #[test]
    fn what_exceeds_the_whole_node_never_fits() {
        let mut lacking = Insufficient { resource: "cpu".to_owned(), requested: 4, used: 3, allocatable: 4 };
        assert_eq!((lacking.free(), lacking.never_fits()), (1, false));
        lacking.requested = 5;
        assert!(lacking.never_fits());
        lacking.used = 9;
        assert_eq!(lacking.free(), 0);
    }
}
