//! Nodes.

use std::collections::BTreeMap;
use std::fmt;

use super::metadata::ObjectMeta;
use super::quantity::Quantity;
use super::time::Time;

/// The label that every node has with its own name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with the zone; nodes are grouped by it unless another one is requested.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label with the instance type; a report on overhead groups nodes by it unless another one is requested.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

wire! {
    /// A node.
    pub struct Node {
        /// Name and labels.
        metadata: ObjectMeta = 1,
        /// Taints.
        spec: NodeSpec = 2,
        /// Allocatable resources and conditions.
        status: NodeStatus = 3,
    }

    /// A node's spec.
    pub struct NodeSpec {
        /// Whether the node is cordoned. DaemonSets ignore this, but not the taint.
        unschedulable: bool = 4,
        /// The taints.
        taints: Vec<Taint> = 5,
    }

    /// A taint: keeps pods away unless they tolerate it.
    pub struct Taint {
        /// The key.
        key: String = 1,
        /// The value, often empty.
        value: String = 2,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String = 3,
        /// When the taint was added; only set for NoExecute.
        time_added: Time = 4,
    }

    /// A node's status.
    pub struct NodeStatus {
        /// The allocatable resources, by name.
        allocatable: BTreeMap<String, Quantity> = 2,
        /// The conditions; the kubelet's heartbeat is in `Ready`.
        conditions: Vec<NodeCondition> = 4,
        /// Its addresses; only kept while it is not ready.
        addresses: Vec<NodeAddress> = 5,
        /// The kubelet's version and platform.
        node_info: NodeSystemInfo = 7,
        /// Features that the kubelet declares, sorted (since 1.35).
        declared_features: Vec<String> = 14,
    }

    /// An address of a node.
    pub struct NodeAddress {
        /// An IP address, or a name.
        address: String = 2,
    }

    /// One condition of a node.
    pub struct NodeCondition {
        /// The kind of condition, such as `Ready`.
        #[serde(rename = "type")]
        type_: String = 1,
        /// `True`, `False` or `Unknown`.
        status: String = 2,
        /// When the kubelet last reported it.
        last_heartbeat_time: Time = 3,
        /// When the status last changed.
        last_transition_time: Time = 4,
        /// A CamelCase reason.
        reason: String = 5,
        /// A sentence with the reason.
        message: String = 6,
    }

    /// The platform of a node.
    pub struct NodeSystemInfo {
        /// The kernel's version, such as `6.8.0-1021-aws`.
        kernel_version: String = 4,
        /// The operating system's name and version.
        os_image: String = 5,
        /// The container runtime and its version, such as `containerd://2.1.4`.
        container_runtime_version: String = 6,
        /// The kubelet's version, such as `v1.37.2`.
        kubelet_version: String = 7,
        /// The CPU architecture, such as `amd64`.
        architecture: String = 10,
    }
}

impl fmt::Display for Taint {
    /// Writes it as kubectl does: `key=value:effect`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taint { key, value, effect, .. } = self;
        let equals = if value.is_empty() { "" } else { "=" };
        write!(formatter, "{key}{equals}{value}:{effect}")
    }
}

impl Node {
    /// Returns the condition with a type.
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns whether the `Ready` condition is `True`: a kubelet that has never posted one is not ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Returns whether its label says that it runs Windows.
    pub fn is_windows(&self) -> bool {
        self.metadata.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows")
    }

    /// Returns the `Ready` condition of a node that is known not to be ready.
    pub fn not_ready(&self) -> Option<&NodeCondition> {
        self.condition("Ready").filter(|ready| ready.status != "True")
    }

    /// Returns whether the node controller still hears from the kubelet, so that the status of pods is not stale.
    pub fn posts_status(&self) -> bool {
        self.condition("Ready").is_none_or(|condition| condition.status != "Unknown")
    }
}
