//! The nodes of a rollout by a label, each with its state.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::reason::ReasonCode;

/// The eligible nodes of a rollout, grouped by the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMap {
    /// The label.
    pub label: String,
    /// A group per value, sorted; nodes without the label come last.
    pub groups: Vec<NodeMapGroup>,
}

/// The nodes that have the same value of the label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMapGroup {
    /// The value; absent if the nodes do not have the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The nodes, by name.
    pub nodes: Vec<MapNode>,
}

/// How far the rollout is on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MapNode {
    /// The name.
    pub name: String,
    /// The state.
    pub state: NodeState,
    /// The pod, of the current revision if there is one; absent if the node has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// How often containers of the pod were restarted.
    pub restarts: i64,
    /// Why the node has no available pod, or why its new pod cannot start; absent if nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonCode>,
    /// Since when the node has had no available pod; absent if it has one, or that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The state of a node in a rollout, in the order of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[schemars(rename = "RolloutNodeState")]
pub enum NodeState {
    /// It has an available pod of the current revision.
    Updated,
    /// Its pod is starting or being replaced.
    Updating,
    /// Its pod fails, or cannot be created, and waiting will not help.
    Failing,
    /// It has no pod yet.
    NoPod,
    /// It has an available pod of an older revision.
    Old,
}

impl NodeState {
    /// All states, in the order of a map.
    pub const ALL: [NodeState; 5] =
        [NodeState::Updated, NodeState::Updating, NodeState::Failing, NodeState::NoPod, NodeState::Old];
}

impl NodeMapGroup {
    /// Returns how many nodes are in a state.
    pub fn count(&self, state: NodeState) -> usize {
        self.nodes.iter().filter(|node| node.state == state).count()
    }
}
