//! Whether the current revision or the nodes are to blame for failing pods.

use std::collections::BTreeSet;

use super::situation::{RolloutNode, Situation};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{Suspect, SuspectKind};

/// Compares how pods of the current revision and of older ones do; `None` if no pod of the current revision fails, or
/// there are too few to tell.
pub(super) fn suspect(situation: &Situation<'_>) -> Option<Suspect> {
    let eligible = || situation.nodes.iter().filter(|node| node.eligible);
    let of_current: Vec<_> = failing_nodes(situation).collect();
    let codes: BTreeSet<ReasonCode> = of_current.iter().filter_map(|node| node.reason).collect();
    let failing = of_current.len();
    let old_failing = eligible()
        .filter(|node| node.updated.is_none() && node.old.is_some() && !node.old_is_available)
        .filter(|node| node.reason.is_some_and(|code| codes.contains(&code)))
        .count();
    let is_refused = of_current.iter().all(|node| node.updated.is_none());
    let available = eligible().filter(|node| node.updated_is_available).count();
    let old_available = situation.nodes.iter().filter(|node| node.old_is_available).count();
    let what = match () {
        () if failing == 0 => return None,
        () if old_failing > 0 => SuspectKind::EveryRevision,
        // A node whose pod is refused is not to blame for that.
        () if available > failing && situation.creation_is_refused => return None,
        () if available > failing => SuspectKind::Nodes,
        () if old_available > 0 => SuspectKind::Revision,
        () => return None,
    };
    Some(Suspect { what, failing, is_refused, available, old_available, old_failing })
}

/// Returns why pods of the current revision fail, or are refused: a reason that is about the pod for each eligible node.
pub(super) fn failing(situation: &Situation<'_>) -> Vec<ReasonCode> {
    failing_nodes(situation).filter_map(|node| node.reason).collect()
}

fn failing_nodes<'s, 'a>(situation: &'s Situation<'a>) -> impl Iterator<Item = &'s RolloutNode<'a>> {
    let fails = |node: &&RolloutNode<'_>| {
        node.reason.is_some_and(|code| is_about_the_pod(code) && !situation.passes(code, node.since))
    };
    // A node without any pod fails on the current revision: the API server refuses it.
    let is_on_current =
        |node: &&RolloutNode<'_>| !node.updated_is_available && (node.updated.is_some() || node.old.is_none());
    let eligible = situation.nodes.iter().filter(|node| node.eligible);
    eligible.filter(is_on_current).filter(fails)
}

/// Returns whether another revision may do better on the same node, as it is.
pub(super) fn is_about_the_pod(code: ReasonCode) -> bool {
    code.can_be_template() && !code.is_lack_of_room()
}
