//! How a DaemonSet is doing, and where it comes in a list of several: `list` and `status` have the same order.

use crate::report::coverage::{Affected, Attention, Counts, DaemonSetCoverage, RemovedNodes, Urgency};
use crate::report::list::{FleetStatus, Severity};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{RolloutHold, Verdict};

/// Returns how a DaemonSet is doing, and where it comes among others, most severe first.
pub(in crate::rollout) fn severity(
    coverage: &DaemonSetCoverage,
    troubles: &[Affected],
    verdict: Verdict,
    lacks_nodes: bool,
    hold: Option<&RolloutHold>,
) -> (FleetStatus, Severity) {
    let has_lost_most = coverage.removed_nodes.as_ref().is_some_and(RemovedNodes::needs_attention);
    let status = match fleet_status(verdict, &coverage.counts, troubles) {
        FleetStatus::Healthy | FleetStatus::NoNodes if has_lost_most => FleetStatus::Degraded,
        FleetStatus::Blocked | FleetStatus::Degraded if lacks_nodes && !has_lost_most => FleetStatus::NodesDown,
        // The next revision will not be rolled out.
        FleetStatus::Healthy if hold.is_some_and(|hold| hold.in_force) => FleetStatus::Paused,
        status => status,
    };
    let (attention, is_unexplained, is_not_critical, unavailable): Urgency = coverage.urgency(troubles);
    let is_settled = matches!(status, FleetStatus::NotObserved | FleetStatus::Deleting | FleetStatus::Unknown);
    // A stopped rollout is no worse than pods that are missing, whatever else is under way.
    let rank = match (status, attention) {
        (FleetStatus::Blocked, _) => status,
        _ if is_settled => status,
        // It must not hide what fails because of itself.
        (FleetStatus::NodesDown, _) => FleetStatus::Degraded,
        (_, Attention::Fails) => FleetStatus::Blocked,
        (_, Attention::NodesFail) => FleetStatus::Degraded,
        (_, Attention::Passes) => status,
    };
    (status, (rank, is_unexplained, is_not_critical, unavailable))
}

/// Returns whether a node is down, whatever its pod tolerates.
fn is_down(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::NodeUnreachable | ReasonCode::NodeNotReadyTaint | ReasonCode::NetworkUnavailable)
}

/// Returns how a DaemonSet is doing: the verdict on its rollout, or how its nodes are doing if the rollout is complete.
fn fleet_status(verdict: Verdict, counts: &Counts, troubles: &[Affected]) -> FleetStatus {
    match verdict {
        Verdict::Deleting => FleetStatus::Deleting,
        Verdict::NotObserved => FleetStatus::NotObserved,
        Verdict::Unknown => FleetStatus::Unknown,
        Verdict::Blocked => FleetStatus::Blocked,
        Verdict::Degraded => FleetStatus::Degraded,
        Verdict::Paused => FleetStatus::Paused,
        Verdict::Progressing => FleetStatus::Progressing,
        Verdict::Complete if counts.eligible == Some(0) && troubles.iter().all(|trouble| trouble.count == 0) => {
            FleetStatus::NoNodes
        }
        Verdict::Complete if troubles.is_empty() => FleetStatus::Healthy,
        // Most pods do not tolerate the taints that such nodes get, so that none is missing.
        Verdict::Complete if troubles.iter().all(|trouble| is_down(trouble.code)) => FleetStatus::NodesDown,
        Verdict::Complete => FleetStatus::Degraded,
    }
}
