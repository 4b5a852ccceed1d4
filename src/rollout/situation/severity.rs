//! How a DaemonSet is doing, and its rank in a list of several: `list` and `status` use the same order.

use crate::report::coverage::{Affected, Attention, Counts, DaemonSetCoverage, RemovedNodes, Urgency};
use crate::report::list::{Severity, Status};
use crate::report::rollout_status::{RolloutHold, Verdict};

/// Returns a DaemonSet's status, and its rank in a list, most severe first.
pub(in crate::rollout) fn severity(
    coverage: &DaemonSetCoverage,
    problems: &[Affected],
    verdict: Verdict,
    are_down: bool,
    hold: Option<&RolloutHold>,
) -> (Status, Severity) {
    let has_lost_most = RemovedNodes::are_most(&coverage.removed_nodes);
    let status = match fleet_status(verdict, &coverage.counts, problems) {
        Status::Healthy | Status::NoNodes if has_lost_most => Status::Degraded,
        // Those whose pods are still there are not worse.
        Status::Healthy | Status::NoNodes if coverage.is_excluded_from_down_nodes() => Status::NodesDown,
        Status::Blocked | Status::Degraded if are_down && !has_lost_most => Status::NodesDown,
        // The next revision will not be rolled out.
        Status::Healthy if hold.is_some_and(|hold| hold.in_force) => Status::Paused,
        status => status,
    };
    let (attention, is_unexplained, is_not_critical, unavailable): Urgency = coverage.urgency(problems);
    let is_settled = matches!(status, Status::NotObserved | Status::Deleting | Status::Unknown);
    // Pods may be missing regardless of the rollout.
    let rank = match (status, attention) {
        (Status::Blocked | Status::NodesDown, _) => status,
        _ if is_settled => status,
        (_, Attention::Fails) => Status::Degraded,
        // It must not hide failures of its own pods.
        (_, Attention::NodesFail) => Status::NodesDown,
        (_, Attention::Passes) => status,
    };
    (status, (rank, is_unexplained, is_not_critical, unavailable))
}

/// Returns how a DaemonSet is doing: the verdict on its rollout, or how its nodes are doing if the rollout is complete.
fn fleet_status(verdict: Verdict, counts: &Counts, problems: &[Affected]) -> Status {
    match verdict {
        Verdict::Deleting => Status::Deleting,
        Verdict::NotObserved => Status::NotObserved,
        Verdict::Unknown => Status::Unknown,
        Verdict::Blocked => Status::Blocked,
        Verdict::Degraded => Status::Degraded,
        Verdict::Paused => Status::Paused,
        Verdict::Progressing => Status::Progressing,
        Verdict::Complete if counts.eligible == Some(0) && problems.iter().all(|problem| problem.count == 0) => {
            Status::NoNodes
        }
        Verdict::Complete if problems.is_empty() => Status::Healthy,
        // Most pods do not tolerate the taints of such nodes, so none is missing.
        Verdict::Complete if problems.iter().all(|problem| problem.code.is_node_down()) => Status::NodesDown,
        Verdict::Complete => Status::Degraded,
    }
}
