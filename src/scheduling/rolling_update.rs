//! The pace of a rolling update: how many pods may be unavailable, and how many nodes may have two.

use crate::model::daemon_set::{DaemonSet, UpdateStrategy};

/// How fast a rolling update may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How many nodes may be without an available pod.
    pub max_unavailable: i64,
    /// How many nodes may have a second pod.
    pub max_surge: i64,
}

/// Returns how fast a rolling update may go if `desired` nodes should have a pod.
///
/// If both numbers come to 0, one pod may be unavailable all the same. Ported from
/// `updatedDesiredNodeCounts`, pkg/controller/daemon/update.go, release 1.36.3.
pub fn pace(daemon_set: &DaemonSet, desired: i64) -> Pace {
    let max_surge = surge_count(daemon_set, desired);
    match unavailable_count(daemon_set, desired) {
        0 if max_surge == 0 && desired > 0 => Pace { max_unavailable: 1, max_surge },
        max_unavailable => Pace { max_unavailable, max_surge },
    }
}

/// Returns `maxUnavailable` of `desired` nodes, rounded up; 0 under OnDelete.
///
/// Ported from `UnavailableCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3. Unset fields have
/// the API's defaults here, which the API server has always set upstream.
pub fn unavailable_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.max_unavailable.scaled_up(desired),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => 0,
    }
}

/// Returns `maxSurge` of `desired` nodes, rounded up; 0 under OnDelete.
///
/// Ported from `SurgeCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3.
pub fn surge_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.max_surge.scaled_up(desired),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => 0,
    }
}

/// Tells whether a node may have two pods of the DaemonSet.
///
/// Ported from `AllowsSurge`, pkg/controller/daemon/util/daemonset_util.go, release 1.36.3.
pub fn allows_surge(daemon_set: &DaemonSet) -> bool {
    surge_count(daemon_set, 1) > 0
}
