//! The order in which the nodes of a stage are updated.

use std::collections::BTreeMap;

use super::plan::{StageRefusal, StageRequest};
use crate::model::node::ZONE;
use crate::rollout::situation::fault::was_broken;
use crate::rollout::situation::{RolloutNode, Situation};

/// Returns the eligible nodes with pods of older revisions, in the order in which they are updated: nodes without an available
/// pod first, then one of each zone after the other, and last nodes on which everything fails.
///
/// Nodes that are updated already have their place in that order too, so that it is the same after some were updated.
pub(super) fn order<'s, 'a>(
    situation: &'s Situation<'a>,
    request: &StageRequest,
) -> Result<Vec<&'s RolloutNode<'a>>, StageRefusal> {
    let mut order: Vec<&RolloutNode<'a>> = Vec::new();
    if request.nodes.is_empty() {
        let label = request.spread_by.as_deref().unwrap_or(ZONE);
        let mut groups: BTreeMap<Option<&str>, Vec<&RolloutNode<'a>>> = BTreeMap::new();
        for node in situation.eligible() {
            let Some(labels) = node.object.map(|node| &node.metadata.labels) else { continue };
            if request.node_selector.matches(labels) {
                groups.entry(labels.get(label).map(String::as_str)).or_default().push(node);
            }
        }
        let longest = groups.values().map(Vec::len).max().unwrap_or(0);
        for round in 0..longest {
            order.extend(groups.values().filter_map(|group| group.get(round)));
        }
        // What fails with everything else on its node tells nothing about the revision.
        order.sort_by_key(|node| match node.old.is_none() || node.old_is_available {
            true => 1,
            false if was_broken(situation, node) => 2,
            false => 0,
        });
    } else {
        for name in &request.nodes {
            let node = situation
                .eligible()
                .find(|node| node.name == name)
                .ok_or_else(|| StageRefusal::NoSuchNode(name.clone()))?;
            if !order.iter().any(|listed| listed.name == node.name) {
                order.push(node);
            }
        }
    }
    order.retain(|node| node.old.is_some());
    Ok(order)
}
