//! Extended resources that the scheduler takes from devices instead of from the node (KEP-5004).
//!
//! A node need not list such a resource. Whether it has devices for it is up to [`device_claims`](super::device_claims).

use std::collections::BTreeSet;

use super::resources::{Amounts, is_extended, pod_requests};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::quantity::Quantity;
use crate::model::snapshot::{DeviceClass, Kind, Snapshot};

/// What the name of the resource of each device class begins with: `ResourceDeviceClassPrefix`, k8s.io/api/resource/v1/types.go,
/// release 1.37.
const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// The first minor release in which the scheduler does so by default: `DRAExtendedResource`, pkg/features/kube_features.go, release 1.37.
const ON_BY_DEFAULT: u32 = 36;

/// Which resources device classes may provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// These, perhaps none.
    Known(BTreeSet<String>),
    /// Any extended resource: the device classes were not read.
    Unread,
}

impl Devices {
    /// Returns what is known from a snapshot. Servers do not keep `extendedResourceName` while the feature is off.
    pub fn of(snapshot: &Snapshot) -> Self {
        if !snapshot.read_on_demand.contains(&Kind::DeviceClasses) {
            let is_on = snapshot.nodes.iter().any(|node| minor(node).is_some_and(|minor| minor >= ON_BY_DEFAULT));
            return if is_on { Devices::Unread } else { Devices::Known(BTreeSet::new()) };
        }
        let names = |DeviceClass { metadata, spec }: &DeviceClass| {
            [Some(format!("{CLASS_PREFIX}{}", metadata.name)), spec.extended_resource_name.clone()]
        };
        Devices::Known(snapshot.device_classes.iter().flat_map(names).flatten().collect())
    }

    /// Returns whether a resource may come from devices of a node.
    ///
    /// Ported from `shouldDelegateResourceToDRA`, pkg/scheduler/framework/plugins/noderesources/fit.go, release 1.37.2.
    pub fn may_provide(&self, resource: &str, node: &Node) -> bool {
        !is_offered(resource, node)
            && match self {
                Devices::Known(names) => names.contains(resource),
                Devices::Unread => may_be_device(resource),
            }
    }

    /// Returns the resources of some requests that may come from devices of a node.
    pub fn of_requests<'r>(&self, requests: &'r Amounts, node: &Node) -> impl Iterator<Item = &'r str> {
        requests.keys().map(String::as_str).filter(|resource| self.may_provide(resource, node))
    }

    /// Returns the resources that a pod takes from devices of a node, each with the number of devices.
    ///
    /// Ported from `filterExtendedResources` and `createRequestsAndMappings`, extendeddynamicresources.go, release 1.37.2: containers count
    /// as for any resource, the overhead does not.
    pub fn of_pod(&self, pod: &Pod, node: &Node) -> impl Iterator<Item = (String, usize)> {
        let is_none = matches!(self, Devices::Known(names) if names.is_empty());
        let requests = if is_none { Amounts::new() } else { pod_requests(pod) };
        requests.into_iter().filter(|(resource, _)| self.may_provide(resource, node)).filter_map(
            |(resource, requested)| {
                let overhead = pod.spec.overhead.get(&resource).map_or(0, Quantity::value);
                let devices =
                    usize::try_from(requested.saturating_sub(overhead)).ok().filter(|devices| *devices > 0)?;
                Some((resource, devices))
            },
        )
    }

    /// Returns what of some requests is taken from a node itself.
    pub fn without(&self, requests: &Amounts, node: &Node) -> Amounts {
        let of_node = requests.iter().filter(|(resource, _)| !self.may_provide(resource, node));
        of_node.map(|(resource, amount)| (resource.clone(), *amount)).collect()
    }
}

fn is_offered(resource: &str, node: &Node) -> bool {
    node.status.allocatable.get(resource).is_some_and(|quantity| Quantity::value(quantity) > 0)
}

fn may_be_device(resource: &str) -> bool {
    resource.starts_with(CLASS_PREFIX) || is_extended(resource)
}

/// Returns the minor release of a node's kubelet, which is never newer than the API server.
pub(super) fn minor(node: &Node) -> Option<u32> {
    let version = node.status.node_info.kubelet_version.trim_start_matches('v');
    version.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::Devices;
    use crate::model::node::Node;
    use crate::model::snapshot::{Kind, Snapshot};

    #[test]
    fn what_a_device_class_may_provide_is_not_the_nodes() {
        let snapshot = |kubelet: &str, classes: Option<Value>| Snapshot {
            nodes: vec![from_value(json!({"status": {"nodeInfo": {"kubeletVersion": kubelet}}})).unwrap()],
            read_on_demand: classes.iter().map(|_| Kind::DeviceClasses).collect(),
            device_classes: classes.map(|classes| from_value(classes).unwrap()).unwrap_or_default(),
            ..Snapshot::default()
        };
        let class = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "vendor.example/gpu"}}]);
        let node = |amount: &str| -> Node {
            from_value(json!({"status": {"allocatable": {"vendor.example/gpu": amount}}})).unwrap()
        };
        for (kubelet, classes, resource, offered, may) in [
            ("v1.37.2", Some(class.clone()), "vendor.example/gpu", "0", true),
            ("v1.37.2", Some(class.clone()), "vendor.example/gpu", "1", false),
            ("v1.37.2", Some(class.clone()), "vendor.example/nic", "0", false),
            ("v1.37.2", Some(class.clone()), "deviceclass.resource.kubernetes.io/gpu", "0", true),
            ("v1.37.2", Some(class.clone()), "deviceclass.resource.kubernetes.io/nic", "0", false),
            ("v1.37.2", Some(json!([])), "vendor.example/gpu", "0", false),
            ("v1.37.2", None, "vendor.example/gpu", "0", true),
            ("v1.36.0-gke.1", None, "vendor.example/nic", "0", true),
            ("v1.36.0", None, "deviceclass.resource.kubernetes.io/nic", "0", true),
            ("v1.36.0", None, "cpu", "0", false),
            ("v1.36.0", None, "hugepages-2Mi", "0", false),
            ("v1.35.4", None, "vendor.example/gpu", "0", false),
            ("v1.34.0", Some(class.clone()), "vendor.example/gpu", "0", true),
            ("", None, "vendor.example/gpu", "0", false),
        ] {
            let devices = Devices::of(&snapshot(kubelet, classes));
            assert_eq!(devices.may_provide(resource, &node(offered)), may, "{kubelet} {resource} {offered}");
        }
    }
}
