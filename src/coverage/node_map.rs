//! The state of every node of a DaemonSet, by the value of a label.

use super::index::Index;
use crate::report::coverage::{NodeCoverage, NodeState};
use crate::report::node_map::{MapNode, MapState, NodeMap};
use crate::report::reason::ReasonCode;

/// Returns the nodes of these rows by the value of a label; nodes that could not be read are left out.
pub(super) fn node_map(index: &Index<'_>, rows: &[NodeCoverage], label: &str) -> NodeMap {
    let nodes = rows.iter().filter_map(|row| {
        let labels = index.node(&row.name).map(|node| &node.metadata.labels);
        Some((labels.and_then(|labels| labels.get(label)).map(String::as_str), map_node(row)?))
    });
    NodeMap::grouped(label, true, nodes)
}

fn map_node(row: &NodeCoverage) -> Option<MapNode> {
    let reason = row.reasons.first().map(|reason| reason.code);
    let is_expected = reason.is_none_or(|code| code.takes_time());
    let state = match row.state {
        NodeState::Unknown => return None,
        NodeState::NotEligible | NodeState::Misscheduled | NodeState::ToBeDeleted => MapState::NotEligible,
        NodeState::Available => MapState::Available,
        // Its pod is about to be created.
        NodeState::Missing if is_expected || reason == Some(ReasonCode::Unexplained) => MapState::NoPod,
        _ if is_expected => MapState::Starting,
        _ => MapState::Failing,
    };
    let pod = row.pods.first();
    Some(MapNode {
        name: row.name.clone(),
        state,
        pod: pod.map(|pod| pod.name.clone()),
        restarts: row.pods.iter().map(|pod| pod.restarts).sum(),
        reason: reason.filter(|_| !matches!(state, MapState::Available | MapState::NotEligible)),
        since: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::options::{Detail, Options};
    use crate::coverage::test_support::world;
    use crate::coverage::walk::coverage;
    use crate::report::node_map::MapState::{Available, Failing, NoPod, NotEligible, Starting};

    #[test]
    fn each_node_has_a_state() {
        let zone = |zone: &str| json!({"metadata": {"labels": {"disk": "ssd", "zone": zone}}});
        let crashing = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = world()
            .template(json!({"nodeSelector": {"disk": "ssd"}}))
            .node("a", zone("1"))
            .pod("agent-a", "a", json!({}))
            .node("b", zone("1"))
            .unready_pod("agent-b", "b", crashing, json!({}))
            .node("c", zone("2"))
            .unready_pod("agent-c", "c", starting, json!({}))
            .node("d", zone("2"))
            .node("e", json!({}));
        let options = Options { detail: Detail::Nodes, map: Some("zone".to_owned()), ..Options::default() };
        let report = coverage(&world.finish(), &options);
        let map = report.daemon_sets[0].map.as_ref().unwrap();
        let groups: Vec<_> = map
            .groups
            .iter()
            .map(|group| (group.value.as_deref(), group.nodes.iter().map(|node| node.state).collect::<Vec<_>>()))
            .collect();
        assert_eq!(
            groups,
            [(Some("1"), vec![Available, Failing]), (Some("2"), vec![Starting, NoPod]), (None, vec![NotEligible])]
        );
    }
}
