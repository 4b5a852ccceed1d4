//! Nodes by a label, each with its state.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::reason::{ReasonCode, named_values};

/// Nodes, grouped by the value of a label: the eligible nodes for a rollout, all nodes for coverage.
#[apply(answer!)]
pub struct NodeMap {
    /// Whether it shows coverage instead of a rollout.
    #[serde(skip)]
    pub is_coverage: bool,
    /// The label.
    pub label: String,
    /// A group per value, sorted; nodes without the label come last.
    pub groups: Vec<NodeMapGroup>,
}

/// The nodes that have the same value of the label.
#[apply(answer!)]
pub struct NodeMapGroup {
    /// The value; absent if the nodes do not have the label.
    pub value: Option<String>,
    /// The nodes, by name.
    pub nodes: Vec<MapNode>,
}

/// A node with its state and its pod.
#[apply(answer!)]
pub struct MapNode {
    /// The name.
    pub name: String,
    /// The state.
    pub state: MapState,
    /// The pod, of the current revision if there is one; absent if the node has none.
    pub pod: Option<String>,
    /// How many times containers of the pod have restarted.
    pub restarts: i64,
    /// Why the node has no available pod, or why its new pod cannot start; absent if nothing is wrong.
    pub reason: Option<ReasonCode>,
    /// Since when the node has had no available pod; absent if it has one, or if the time is unknown.
    pub since: Option<Timestamp>,
}

named_values! {
    /// The state of a node, in the order of a map: of a rollout, or of coverage.
    MapState {
        /// It has an available pod of the current revision.
        Updated,
        /// It has an available pod (in a map of coverage).
        Available,
        /// Its pod is starting or being replaced.
        Updating,
        /// Its pod is starting or terminating (in a map of coverage).
        Starting,
        /// Its pod fails, or cannot be created, and waiting will not help.
        Failing,
        /// It has no pod yet.
        NoPod,
        /// It has an available pod of an older revision.
        Old,
        /// It should not run a pod (in a map of coverage).
        NotEligible,
    }
}

/// Returns what belongs to each value of a label; what belongs to nodes without the label comes last.
pub(crate) fn by_value<T>(mut values: BTreeMap<Option<&str>, T>) -> impl Iterator<Item = (Option<String>, T)> {
    // `None` sorts before every value.
    let without = values.remove_entry(&None);
    values.into_iter().chain(without).map(|(value, of_value)| (value.map(str::to_owned), of_value))
}

impl NodeMap {
    /// Groups nodes by their value of a label.
    pub(crate) fn grouped<'a>(
        label: &str,
        is_coverage: bool,
        nodes: impl Iterator<Item = (Option<&'a str>, MapNode)>,
    ) -> Self {
        let mut groups: BTreeMap<Option<&str>, Vec<MapNode>> = BTreeMap::new();
        nodes.for_each(|(value, node)| groups.entry(value).or_default().push(node));
        let groups = by_value(groups).map(|(value, nodes)| NodeMapGroup { value, nodes }).collect();
        NodeMap { is_coverage, label: label.to_owned(), groups }
    }
}

impl NodeMapGroup {
    /// Returns how many nodes are updated (for coverage: available).
    pub fn count_fine(&self) -> usize {
        self.count(MapState::Updated) + self.count(MapState::Available)
    }

    /// Returns how many nodes are eligible.
    pub fn count_eligible(&self) -> usize {
        self.nodes.len() - self.count(MapState::NotEligible)
    }

    /// Returns how many nodes are in a state.
    pub fn count(&self, state: MapState) -> usize {
        self.nodes.iter().filter(|node| node.state == state).count()
    }
}
