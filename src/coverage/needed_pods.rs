//! Which pods of others coverage needs.

use std::collections::BTreeSet;

use crate::facts::index::Index;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;

/// Returns the nodes whose free room must be known although not all of their pods were read: those that a pod waits for.
pub fn nodes_needing_all_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = Index::new(snapshot);
    let waits = |pod: &Pod| pod.spec.node_name.is_empty() && !pod.is_terminal();
    let mut nodes = BTreeSet::new();
    for daemon_set in &snapshot.daemon_sets {
        let waiting = index.pods_of(daemon_set).filter(|(_, pod)| waits(pod)).map(|(node, _)| node);
        let needed = waiting.filter(|node| index.node(node).is_some() && !snapshot.knows_all_pods_on(node));
        nodes.extend(needed.map(str::to_owned));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::nodes_needing_all_pods;
    use crate::coverage::test_support::world;
    use crate::model::snapshot::PodsComplete;

    #[test]
    fn all_pods_are_needed_of_the_nodes_that_a_pod_waits_for_and_whose_pods_were_not_read() {
        let mut snapshot = world()
            .node("bound", json!({}))
            .pod("agent-bound", "bound", json!({}))
            .node("ended", json!({}))
            .pending_pod("agent-ended", "ended", "", json!({"status": {"phase": "Failed"}}))
            .node("read", json!({}))
            .pending_pod("agent-read", "read", "", json!({}))
            .node("waits", json!({}))
            .pending_pod("agent-waits", "waits", "", json!({}))
            .pending_pod("agent-gone", "gone", "", json!({}))
            .finish();
        snapshot.pods_complete = PodsComplete::On(["read".to_owned()].into());
        assert_eq!(nodes_needing_all_pods(&snapshot), ["waits".to_owned()].into());
    }
}
