//! The state of every eligible node, by the value of a label.

use crate::model::pod::Pod;
use crate::report::node_map::{MapNode, MapState, NodeMap};
use crate::report::reason::ReasonCode;
use crate::rollout::situation::{RolloutNode, Situation};
use crate::scheduling::daemon_pods::NodePods;

/// Returns the eligible nodes by the value of a label.
pub(super) fn node_map(situation: &Situation<'_>, label: &str) -> NodeMap {
    let eligible = situation.nodes.iter().zip(&situation.node_pods).filter(|(node, _)| node.eligible);
    let nodes = eligible.map(|(node, pods)| {
        let labels = node.object.map(|node| &node.metadata.labels);
        (labels.and_then(|labels| labels.get(label)).map(String::as_str), map_node(situation, node, pods))
    });
    NodeMap::grouped(label, false, nodes)
}

fn map_node(situation: &Situation<'_>, node: &RolloutNode<'_>, pods: &NodePods<'_>) -> MapNode {
    let state = state(situation, node, pods);
    let pod = node.updated.or(node.old).or(pods.pods.first().copied());
    let is_available = matches!(state, MapState::Updated | MapState::Old);
    MapNode {
        name: node.name.to_owned(),
        state,
        pod: pod.map(|pod| pod.metadata.name.clone()),
        restarts: pod.map_or(0, Pod::restarts),
        reason: node.code().filter(|_| !is_available),
        since: node.since.filter(|_| !is_available),
    }
}

fn state(situation: &Situation<'_>, node: &RolloutNode<'_>, pods: &NodePods<'_>) -> MapState {
    match node {
        _ if node.updated_is_available => MapState::Updated,
        _ if node.old_is_available && node.updated.is_none() => MapState::Old,
        // Its pod is about to be created.
        _ if pods.pods.is_empty() && matches!(node.code(), None | Some(ReasonCode::Unexplained)) => MapState::NoPod,
        _ if node.code().is_some() && !situation.recovers(node) => MapState::Failing,
        _ if pods.pods.is_empty() => MapState::NoPod,
        _ => MapState::Updating,
    }
}
