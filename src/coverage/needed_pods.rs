//! Which pods of others coverage needs.

use std::collections::BTreeSet;

use super::index::Index;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::scheduling::daemon_pods::target_node;

/// Returns the nodes whose free room must be known although not all of their pods were read: those that a pod waits for.
pub fn nodes_needing_all_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = Index::new(snapshot);
    let waits = |pod: &&Pod| pod.spec.node_name.is_empty() && !pod.is_terminal();
    let mut nodes = BTreeSet::new();
    for daemon_set in &snapshot.daemon_sets {
        let pods = index.pods_of(daemon_set);
        nodes.extend(
            pods.iter()
                .filter(waits)
                .filter_map(target_node)
                .filter(|node| index.node(node).is_some() && !snapshot.knows_all_pods_on(node))
                .map(str::to_owned),
        );
    }
    nodes
}
