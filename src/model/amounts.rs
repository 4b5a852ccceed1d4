//! Exact sums of the resources of a pod's containers.

use std::collections::BTreeMap;

use super::pod::{Container, PodSpec, ResourceList};

/// Amounts by resource name, in billionths of a unit, before rounding.
pub type Exact<'a> = BTreeMap<&'a str, i128>;

impl PodSpec {
    /// Returns the most that the containers use at any time.
    pub fn aggregate<'a>(&'a self, amounts: impl Fn(&'a Container) -> Exact<'a>) -> Exact<'a> {
        let initial = self.init_containers.iter().map(|container| (amounts(container), container.is_sidecar()));
        aggregate(self.containers.iter().map(&amounts), initial)
    }
}

/// Returns the most that the containers of a pod use at any time: all regular ones, or the init containers that start before them, each
/// with whether it is a sidecar.
///
/// Ported from `aggregateContainerResourcesByFn`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2.
pub fn aggregate<'a>(
    containers: impl Iterator<Item = Exact<'a>>,
    init_containers: impl Iterator<Item = (Exact<'a>, bool)>,
) -> Exact<'a> {
    let (mut all_running, mut sidecars, mut while_starting) = (Exact::new(), Exact::new(), Exact::new());
    for amounts in containers {
        add(&mut all_running, &amounts);
    }
    for (mut amounts, is_sidecar) in init_containers {
        if is_sidecar {
            add(&mut all_running, &amounts);
            add(&mut sidecars, &amounts);
            greatest(&mut while_starting, &sidecars);
        } else {
            add(&mut amounts, &sidecars);
            greatest(&mut while_starting, &amounts);
        }
    }
    greatest(&mut all_running, &while_starting);
    all_running
}

/// Returns exact amounts.
pub fn exact(list: &ResourceList) -> Exact<'_> {
    list.iter().map(|(resource, quantity)| (resource.as_str(), quantity.nanos().unwrap_or(0))).collect()
}

/// Adds amounts to a sum.
pub fn add<'a>(sum: &mut Exact<'a>, more: &Exact<'a>) {
    for (resource, amount) in more {
        *sum.entry(resource).or_default() += amount;
    }
}

/// Raises each amount to another that is greater.
pub fn greatest<'a>(result: &mut Exact<'a>, other: &Exact<'a>) {
    for (resource, amount) in other {
        result.entry(resource).and_modify(|greatest| *greatest = *amount.max(greatest)).or_insert(*amount);
    }
}

/// Returns whether a resource can be set for a whole pod.
///
/// Ported from `IsSupportedPodLevelResource`, k8s.io/component-helpers/resource/helpers.go, release 1.37.2.
pub fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_hugepages(resource)
}

/// Returns whether a resource is huge pages of some size.
pub fn is_hugepages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}
