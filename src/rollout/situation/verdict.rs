//! The verdict on a rollout.

use super::fault::of_node;
use super::next_step::NextStep;
use super::unchanged::last_change;
use super::{RolloutNode, Situation};
use crate::coverage::{COLLECTION, Lack, Origin};
use crate::facts::Facts;
use crate::model::daemon_set::UpdateStrategy;
use crate::model::int_or_percent::int;
use crate::report::coverage::Counts;
use crate::report::rollout_status::{BlockedBy, Fault, Verdict};
use crate::scheduling::rolling_update::UpdateStep;

/// Number of seconds after which failing pods no longer count as part of a rollout that has replaced all pods: a day.
pub(super) const FINISHED: i64 = 86_400;

/// Returns the verdict on a rollout.
pub(in crate::rollout) fn verdict_of(situation: &Situation<'_>) -> Verdict {
    verdict(situation, &situation.next_step()).unwrap_or(Verdict::Blocked)
}

/// Judges a rollout; fails with what blocks it.
///
/// It is Blocked only if it is not finished, and the controller has nothing to do that the API server would accept, and no pod is
/// about to become available by itself; or if the controller does not notice that it has something to do; or if nothing has come of
/// all this for so long that something must be down. Recreating failed pods with a growing delay does not count as something to do:
/// they fail like crashing containers that are restarted.
pub(super) fn verdict(situation: &Situation<'_>, step: &NextStep<'_>) -> Result<Verdict, BlockedBy> {
    let daemon_set = situation.daemon_set;
    if let Some(not_judged) = not_judged(situation) {
        return Ok(not_judged);
    }
    if !situation.nodes.iter().any(RolloutNode::is_missing) {
        // The controller has nothing to do, but its pods do not have the template.
        let is_complete = situation.counted_by_generation().is_empty();
        return Ok(if is_complete { Verdict::Complete } else { Verdict::Degraded });
    }
    if situation.stalled_since(step).is_some() {
        return Err(BlockedBy::MissedSurgePods);
    }
    let acts = || step.acts(situation.creation_is_refused(), situation.deletion_refusal().is_some());
    let is_acting = situation.controller_silent_since().is_none() && acts();
    if is_acting || is_waiting_for_pods(situation, step) {
        return match situation.unchanged_since() {
            None => Ok(Verdict::Progressing),
            Some(_) if situation.controller_silent_since().is_some() => Err(BlockedBy::ControllerDown),
            Some(_) => Err(BlockedBy::NoProgress),
        };
    }
    let has_old_pods = situation.nodes.iter().any(|node| node.old.is_some());
    let is_suspended = match &daemon_set.spec.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => true,
        UpdateStrategy::RollingUpdate(_) => {
            step.update.is_none()
                || step.update().is_some_and(|update| !update.retained.is_empty() && update.candidates.is_empty())
        }
    };
    match () {
        () if has_old_pods && is_suspended => Ok(Verdict::Paused),
        () if is_finished(situation) => Ok(Verdict::Degraded),
        () => Err(blocked_by(situation, step)),
    }
}

/// Returns the verdict on a rollout that is not judged by its nodes.
fn not_judged(facts: &Facts<'_>) -> Option<Verdict> {
    match () {
        () if facts.daemon_set.metadata.is_terminating() => Some(Verdict::Deleting),
        () if !facts.daemon_set.is_observed() || facts.awaits_revision() => Some(Verdict::NotObserved),
        () if !facts.is_known() => Some(Verdict::Unknown),
        () => None,
    }
}

/// Returns whether a rollout is complete, if the counts alone tell: every eligible node has exactly one pod, of the current revision and
/// available, and no other node has one. Of most DaemonSets, nothing else needs to be derived.
pub(in crate::rollout) fn is_complete_by_counts(facts: &Facts<'_>, counts: &Counts) -> bool {
    let Counts { eligible, available, updated, outdated, .. } = *counts;
    not_judged(facts).is_none()
        && counts.all_available() == Some(true)
        && (updated, outdated) == (eligible, Some(0))
        && Some(facts.pods().count()) == available
        && facts.counted_by_generation().is_empty()
}

/// Returns what keeps the controller from acting: the first cause that applies must be removed before the others.
fn blocked_by(situation: &Situation<'_>, step: &NextStep<'_>) -> BlockedBy {
    let is_used_up = |update: &UpdateStep<'_>| {
        let waits = !update.candidates.is_empty() || !update.not_eligible.is_empty();
        waits && i64::try_from(update.used_by.len()).is_ok_and(|used| used >= update.allowed)
    };
    match () {
        () if situation.controller_silent_since().is_some() => BlockedBy::ControllerDown,
        () if situation.creation_is_refused() && situation.refusal_is_over() => BlockedBy::CreationBackoff,
        () if situation.creation_is_refused() => BlockedBy::CreationRefused,
        () if step.acts(false, false) && situation.deletion_refusal().is_some() => BlockedBy::DeletionRefused,
        () if step.node_not_found().is_some() => BlockedBy::NodeNotFound,
        () if step.update().is_some_and(is_used_up) => BlockedBy::Budget,
        () => BlockedBy::UnavailablePods,
    }
}

/// Returns whether the rollout is over, although not every node has an available pod: no pod of an older revision
/// remains, and either only nodes are at fault, or it started long ago.
fn is_finished(situation: &Situation<'_>) -> bool {
    if situation.controller_silent_since().is_some() || situation.nodes.iter().any(|node| node.old.is_some()) {
        return false;
    }
    let began = situation.rollout_began_at();
    let is_long_ago = began.is_some_and(|began| situation.seconds_since(began) >= FINISHED);
    let is_at_fault = |node: &RolloutNode<'_>| match node.origin() {
        Some(Origin::Node) => of_node(situation, None, node) == Some(Fault::Node),
        // An evicted pod is replaced, regardless of the fault.
        origin => origin == Some(&Origin::Room(Lack::OwnUsage)),
    };
    is_long_ago || situation.nodes.iter().all(|node| !node.eligible || node.is_done || is_at_fault(node))
}

/// Returns whether a pod is about to become available, or a node to stop counting against the budget or the rolling update.
fn is_waiting_for_pods(situation: &Situation<'_>, step: &NextStep<'_>) -> bool {
    // Since when its node has not existed is not known, only that the pod garbage collector needs no longer than that.
    let is_recent = || {
        let last = last_change(situation).filter(|at| *at <= situation.now());
        situation.is_recent(last, COLLECTION)
    };
    let is_gone = |node: &RolloutNode<'_>| node.terminating.is_empty() || situation.recovers(node);
    let is_gone = step.node_not_found().and_then(|node| situation.node(node)).is_some_and(is_gone);
    if is_gone && situation.controller_silent_since().is_none() && is_recent() {
        return true;
    }
    let used_by = step.update().map_or(&[][..], |update| &update.used_by);
    // When the pods of deleted nodes are collected, that helps only candidates whose budget no other node uses.
    let exists = |node: &&&str| situation.node(node).is_some_and(|node| node.object.is_some());
    let used_by_others = used_by.iter().filter(exists).count();
    let waits_for_budget =
        |update: &UpdateStep<'_>| !update.candidates.is_empty() && int(used_by_others) < update.allowed;
    let waits_for_budget = step.update().is_some_and(waits_for_budget);
    situation
        .nodes
        .iter()
        .filter(|node| (node.eligible && !node.is_done) || used_by.contains(&node.name))
        .filter(|node| node.object.is_some() || waits_for_budget)
        // All that is left there is to delete the old pod.
        .filter(|node| !(node.updated_is_available && situation.deletion_refusal().is_some()))
        .any(|node| situation.recovers(node))
}
