//! The verdict on a rollout.

use super::next_step::NextStep;
use super::situation::Situation;
use crate::model::daemon_set::UpdateStrategy;
use crate::report::rollout_status::Verdict;

/// Judges a rollout.
///
/// It is Blocked only if the controller has nothing to do that the API server would accept, and no pod is about to
/// become available by itself; or if the controller does not notice that it has something to do. That it recreates pods
/// that have failed, with a growing delay, does not count: they fail like crashing containers that are restarted.
pub(super) fn verdict(situation: &Situation<'_>, step: &NextStep<'_>) -> Verdict {
    let daemon_set = situation.daemon_set;
    if daemon_set.metadata.is_terminating() {
        return Verdict::Deleting;
    }
    if !daemon_set.is_observed() || situation.index.awaits_revision(daemon_set) {
        return Verdict::NotObserved;
    }
    if !situation.is_known {
        return Verdict::Unknown;
    }
    if is_complete(situation) {
        return Verdict::Complete;
    }
    if situation.stalled_since(step).is_some() {
        return Verdict::Blocked;
    }
    let is_acting = situation.controller_silent_since.is_none() && step.acts(situation.creation_is_refused);
    if is_acting || is_waiting_for_pods(situation, step) {
        return Verdict::Progressing;
    }
    let has_old_pods = situation.nodes.iter().any(|node| node.old.is_some());
    let is_suspended = match &daemon_set.spec.update_strategy {
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => true,
        UpdateStrategy::RollingUpdate(_) => {
            step.update.is_none()
                || step.update().is_some_and(|update| !update.retained.is_empty() && update.candidates.is_empty())
        }
    };
    if has_old_pods && is_suspended { Verdict::Paused } else { Verdict::Blocked }
}

fn is_complete(situation: &Situation<'_>) -> bool {
    situation.nodes.iter().all(|node| if node.eligible { node.is_done } else { !node.exists || node.old.is_none() })
}

/// Returns whether a pod is about to become available, or a node to stop counting against the budget.
fn is_waiting_for_pods(situation: &Situation<'_>, step: &NextStep<'_>) -> bool {
    let used_by = step.update().map_or(&[][..], |update| &update.used_by);
    situation
        .nodes
        .iter()
        .filter(|node| (node.eligible && !node.is_done) || used_by.contains(&node.name))
        .any(|node| situation.is_passing(node))
}
