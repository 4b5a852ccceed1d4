//! The state of every eligible node, by the value of a label.

use std::collections::BTreeMap;

use super::situation::{RolloutNode, Situation};
use crate::model::pod::Pod;
use crate::report::node_map::{MapNode, NodeMap, NodeMapGroup, NodeState};
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods::NodePods;

/// Returns the eligible nodes by the value of a label.
pub(super) fn node_map(situation: &Situation<'_>, label: &str) -> NodeMap {
    let mut groups: BTreeMap<Option<&str>, Vec<MapNode>> = BTreeMap::new();
    for (node, pods) in situation.nodes.iter().zip(&situation.node_pods).filter(|(node, _)| node.eligible) {
        let labels = situation.index.node(node.name).map(|node| &node.metadata.labels);
        let value = labels.and_then(|labels| labels.get(label)).map(String::as_str);
        groups.entry(value).or_default().push(map_node(situation, node, pods));
    }
    // `None` sorts before every value.
    let without = groups.remove_entry(&None);
    let groups = groups.into_iter().chain(without);
    NodeMap {
        label: label.to_owned(),
        groups: groups.map(|(value, nodes)| NodeMapGroup { value: value.map(str::to_owned), nodes }).collect(),
    }
}

fn map_node(situation: &Situation<'_>, node: &RolloutNode<'_>, pods: &NodePods<'_>) -> MapNode {
    let state = state(situation, node, pods);
    let pod = node.updated.or(node.old).or(pods.pods.first().copied());
    let is_available = matches!(state, NodeState::Updated | NodeState::Old);
    MapNode {
        name: node.name.to_owned(),
        state,
        pod: pod.map(|pod| pod.metadata.name.clone()),
        restarts: pod.map_or(0, restarts),
        reason: node.reason.filter(|_| !is_available),
        since: node.since.filter(|_| !is_available),
    }
}

fn state(situation: &Situation<'_>, node: &RolloutNode<'_>, pods: &NodePods<'_>) -> NodeState {
    match node {
        _ if node.updated_is_available => NodeState::Updated,
        _ if node.old_is_available && node.updated.is_none() => NodeState::Old,
        // Its pod is about to be created.
        _ if pods.pods.is_empty() && matches!(node.reason, None | Some(ReasonCode::Unexplained)) => NodeState::NoPod,
        _ if node.reason.is_some() && !situation.is_passing(node) => NodeState::Failing,
        _ if pods.pods.is_empty() => NodeState::NoPod,
        _ => NodeState::Updating,
    }
}

fn restarts(pod: &Pod) -> i64 {
    let status = &pod.status;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    containers.map(|container| i64::from(container.restart_count)).sum()
}
