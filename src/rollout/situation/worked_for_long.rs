//! Whether the current revision has worked for long: if so, something else has broken, and new failures are hardly its fault.

use jiff::Timestamp;

use super::fault::was_lost_after_update;
use super::verdict::FINISHED;
use super::{RolloutNode, Situation};
use crate::coverage::{Lack, Origin};
use crate::model::pod::Pod;
use crate::report::age::seconds_between;

/// How many seconds a pod must have run for each of its restarts: one that crashes repeatedly has not worked for long.
const RUN: i64 = 3_600;

/// Returns whether the containers of a pod have run for that long on average since its creation.
pub(super) fn is_steady(pod: &Pod, created: Timestamp, now: Timestamp) -> bool {
    pod.restarts().saturating_mul(RUN) <= seconds_between(created, now)
}

/// Returns whether the current revision was available for a day on at least half as many nodes as there are others on which it
/// fails: fewer may be canaries. Nodes that have joined since the rollout do not count as failing.
pub(super) fn has_worked_for_long(situation: &Situation<'_>) -> bool {
    let (lasted, others): (Vec<_>, Vec<_>) =
        situation.nodes.iter().partition(|node| has_worked_for_long_on(situation, node));
    let failing = others.into_iter().filter(|node| newly_fails(situation, node)).count();
    !lasted.is_empty() && 2 * lasted.len() >= failing
}

/// Returns whether the pod of the current revision on a node is available, or was until it failed, for a day.
fn has_worked_for_long_on(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let lasted = |pod: &Pod| {
        let created = pod.metadata.creation_timestamp.get()?;
        let ready = pod.condition("Ready")?;
        let (since, now) = (ready.last_transition_time.get()?, situation.now());
        // Until it is ready for the first time, it has been not ready since its creation.
        let (from, to) = if ready.status == "True" { (since, now) } else { (created, since) };
        Some(is_steady(pod, created, now) && seconds_between(from, to) >= FINISHED)
    };
    node.updated.and_then(lasted).unwrap_or(false)
}

fn newly_fails(situation: &Situation<'_>, node: &RolloutNode<'_>) -> bool {
    let has_joined_since =
        node.joined().zip(situation.rollout_began_at()).is_some_and(|(joined, began)| joined > began);
    let is_of_pod = || {
        let only_with = node.diagnosis.as_ref().and_then(|it| it.only_with.clone());
        let is_new = || only_with.is_some_and(|part| !situation.has_in_common(&Origin::Template(part)));
        let is_of_node = matches!(node.origin(), None | Some(Origin::Node | Origin::Room(Lack::OwnUsage))) && !is_new();
        !is_of_node && !situation.recovers(node)
    };
    !has_joined_since
        && (node.eligible && node.is_on_current() && is_of_pod() || was_lost_after_update(situation, node))
}
