//! The state of every node of a DaemonSet, by the value of a label.

use crate::facts::index::Index;
use crate::report::node_coverage::{NodeCoverage, NodeState};
use crate::report::node_map::{MapNode, MapState, NodeMap};
use crate::report::reason::ReasonCode;

/// Returns the nodes of these rows by the value of a label; unreadable nodes are omitted.
pub(super) fn node_map(index: &Index<'_>, rows: &[NodeCoverage], label: &str) -> NodeMap {
    let nodes = rows.iter().filter_map(|row| {
        let labels = index.node(&row.name).map(|node| &node.metadata.labels);
        Some((labels.and_then(|labels| labels.get(label)).map(String::as_str), map_node(row)?))
    });
    NodeMap::grouped(label, true, nodes)
}

fn map_node(row: &NodeCoverage) -> Option<MapNode> {
    let first = row.reasons.first();
    let is_expected = first.is_none_or(|reason| reason.passing);
    let reason = first.map(|reason| reason.code);
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
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::node_map::MapState::{Available, Failing, NoPod, NotEligible, Starting};
    use crate::report::reason::ReasonCode;

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

    #[test]
    fn a_missing_pod_that_is_refused_fails_and_only_a_node_that_should_run_one_has_a_reason() {
        let quota =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let taints = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        let world = world()
            .refusal(quota)
            .node("a", json!({}))
            .node("b", json!({"spec": {"taints": taints}}))
            .node("c", json!({}))
            .pod("agent-c", "c", json!({}));
        let options = Options { detail: Detail::Nodes, map: Some("zone".to_owned()), ..Options::default() };
        let report = coverage(&world.finish(), &options);
        let nodes = &report.daemon_sets[0].map.as_ref().unwrap().groups[0].nodes;
        let nodes: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.state, node.reason)).collect();
        assert_eq!(
            nodes,
            [("a", Failing, Some(ReasonCode::QuotaExceeded)), ("b", NotEligible, None), ("c", Available, None)]
        );
    }

    #[test]
    fn without_nodes_or_pods_there_is_no_map() {
        for kind in [Kind::Nodes, Kind::Pods] {
            let mut world = world().pod("agent-a", "a", json!({}));
            if kind == Kind::Pods {
                world = world.node("a", json!({}));
            }
            world.snapshot.gaps.push(Gap { kind, namespace: None, cause: GapCause::NotInDump });
            let options = Options { detail: Detail::Nodes, map: Some("zone".to_owned()), ..Options::default() };
            assert_eq!(coverage(&world.finish(), &options).daemon_sets[0].map, None, "{kind:?}");
        }
    }
}
