//! Nodes.

use std::collections::BTreeMap;

use super::metadata::ObjectMeta;
use super::quantity::Quantity;
use super::time::Time;

wire! {
    /// A node: what eligibility, fit and liveness are decided on.
    pub struct Node {
        /// Name and labels.
        metadata: ObjectMeta = 1,
        /// Taints.
        spec: NodeSpec = 2,
        /// Allocatable resources and conditions.
        status: NodeStatus = 3,
    }

    /// What is wanted of a node.
    pub struct NodeSpec {
        /// Whether the node is cordoned. DaemonSets do not look at this, only at the taint.
        unschedulable: bool = 4,
        /// The taints.
        taints: Vec<Taint> = 5,
    }

    /// A mark that keeps pods away unless they tolerate it.
    pub struct Taint {
        /// The key.
        key: String = 1,
        /// The value, often empty.
        value: String = 2,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String = 3,
        /// When the taint was set; only NoExecute taints say so.
        time_added: Time = 4,
    }

    /// What the kubelet says of its node.
    pub struct NodeStatus {
        /// What pods may ask for in all, by resource name.
        allocatable: BTreeMap<String, Quantity> = 2,
        /// Conditions; `Ready` is the kubelet's pulse.
        conditions: Vec<NodeCondition> = 4,
        /// The kubelet's version and platform.
        node_info: NodeSystemInfo = 7,
        /// Features that the kubelet declares, sorted (since 1.35).
        declared_features: Vec<String> = 14,
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
        /// A word for why.
        reason: String = 5,
        /// A sentence for why.
        message: String = 6,
    }

    /// The platform of a node.
    pub struct NodeSystemInfo {
        /// The kubelet's version, such as `v1.36.3`.
        kubelet_version: String = 7,
    }
}

impl Node {
    /// Returns the condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}
