//! The pace of a rolling update: how many pods may be missing, and how many nodes may have two.

use crate::model::daemon_set::DaemonSet;

/// How fast a rolling update may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many nodes may be without an available pod.
    pub max_unavailable: i64,
    /// How many nodes may have a second pod.
    pub max_surge: i64,
}

/// Returns how fast a rolling update may go where so many nodes should have a pod.
///
/// Where both numbers come to 0 one pod may be unavailable all the same. Ported from
/// `updatedDesiredNodeCounts`, pkg/controller/daemon/update.go, release 1.36.3.
pub fn pace(daemon_set: &DaemonSet, desired: i64) -> Pace {
    let max_surge = surge_count(daemon_set, desired);
    match unavailable_count(daemon_set, desired) {
        0 if max_surge == 0 && desired > 0 => Pace { max_unavailable: 1, max_surge },
        max_unavailable => Pace { max_unavailable, max_surge },
    }
}

/// Returns `maxUnavailable` of so many nodes, rounded up; 0 where pods are replaced on deletion only.
///
/// Ported from `UnavailableCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3; what
/// is not set counts as the API's default, which upstream is always filled in.
pub fn unavailable_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    let strategy = &daemon_set.spec.update_strategy;
    if strategy.type_ == "RollingUpdate" { strategy.max_unavailable().scaled_up(desired) } else { 0 }
}

/// Returns `maxSurge` of so many nodes, rounded up; 0 where pods are replaced on deletion only.
///
/// Ported from `SurgeCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3.
pub fn surge_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    let strategy = &daemon_set.spec.update_strategy;
    if strategy.type_ == "RollingUpdate" { strategy.max_surge().scaled_up(desired) } else { 0 }
}

/// Tells whether a node may have two pods of the DaemonSet.
///
/// Ported from `AllowsSurge`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3.
pub fn allows_surge(daemon_set: &DaemonSet) -> bool {
    surge_count(daemon_set, 1) > 0
}
