//! The rolling update: how many pods may be unavailable, how many nodes may have two, and which are replaced next.

use jiff::Timestamp;

use super::daemon_pods::{self, NodePods};
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;

/// How fast a rolling update may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateLimits {
    /// How many nodes may be without an available pod.
    pub max_unavailable: i64,
    /// How many nodes may have a second pod.
    pub max_surge: i64,
}

/// Returns how fast a rolling update may go if `desired` nodes should have a pod.
///
/// If both numbers come to 0, one pod may be unavailable all the same. Ported from
/// `updatedDesiredNodeCounts`, pkg/controller/daemon/update.go, release 1.37.2.
pub fn limits(daemon_set: &DaemonSet, desired: i64) -> UpdateLimits {
    let max_surge = surge_count(daemon_set, desired);
    match unavailable_count(daemon_set, desired) {
        0 if max_surge == 0 && desired > 0 => UpdateLimits { max_unavailable: 1, max_surge },
        max_unavailable => UpdateLimits { max_unavailable, max_surge },
    }
}

/// Returns `maxUnavailable` of `desired` nodes, rounded up; 0 under OnDelete.
///
/// Ported from `UnavailableCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2. Unset fields have
/// the API's defaults here, which the API server has always set upstream.
pub fn unavailable_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.max_unavailable.scaled_up(desired),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => 0,
    }
}

/// Returns `maxSurge` of `desired` nodes, rounded up; 0 under OnDelete.
///
/// Ported from `SurgeCount`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2.
pub fn surge_count(daemon_set: &DaemonSet, desired: i64) -> i64 {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => rolling.max_surge.scaled_up(desired),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => 0,
    }
}

/// Returns whether a node may have two pods of the DaemonSet.
///
/// Ported from `AllowsSurge`, pkg/controller/daemon/util/daemonset_util.go, release 1.37.2.
pub fn allows_surge(daemon_set: &DaemonSet) -> bool {
    surge_count(daemon_set, 1) > 0
}

/// What the rolling update does next.
///
/// The controller visits nodes in the random order of a Go map, so which of the candidates it takes is open; how many
/// is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateStep<'a> {
    /// Whether nodes get a second pod before the old one is deleted.
    pub surges: bool,
    /// How many nodes may be unavailable, or with surge may have a second pod, at a time.
    pub allowed: i64,
    /// The nodes that count against `allowed` now.
    pub used_by: Vec<&'a str>,
    /// Old pods that are deleted now, whatever the budget: unavailable ones, and with surge those whose successor is
    /// available.
    pub delete: Vec<&'a Pod>,
    /// With surge: nodes that get a second pod now, whatever the budget, because their old pod is unavailable.
    pub create: Vec<&'a str>,
    /// Old available pods that wait for the budget, with their nodes.
    pub candidates: Vec<Candidate<'a>>,
    /// How many of `candidates` are replaced now: deleted, or with surge joined by a second pod.
    pub replaced_now: usize,
    /// With surge: old available pods on nodes that should not run one.
    pub not_eligible: Vec<Candidate<'a>>,
    /// How many of `not_eligible` are deleted now.
    pub not_eligible_deleted_now: usize,
    /// Of an Advanced DaemonSet: the nodes whose old pods the partition or the selector retains.
    pub retained: Vec<&'a str>,
}

/// An old pod that may be replaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate<'a> {
    /// Its node.
    pub node: &'a str,
    /// The pod.
    pub pod: &'a Pod,
}

/// A pod of an older revision is on a node that does not exist; while it is there, the controller updates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeNotFound<'a> {
    /// The node's name.
    pub node: &'a str,
}

/// Decides which pods a rolling update replaces next.
///
/// `nodes` are all nodes that exist, and those that do not but have pods. Ported from `rollingUpdate`,
/// pkg/controller/daemon/update.go, release 1.37.2; the controller calls it only after `manage` had nothing to do.
///
/// # Errors
///
/// Fails like upstream if, with surge, an old pod is on a node that does not exist.
pub fn rolling_update<'a>(
    daemon_set: &DaemonSet,
    current_hash: &str,
    nodes: &[NodePods<'a>],
    now: Timestamp,
) -> Result<UpdateStep<'a>, NodeNotFound<'a>> {
    let desired = nodes.iter().filter(|node| node.should_run()).count();
    let visited = nodes.iter().filter(|node| node.should_run() || !node.pods.is_empty());
    let desired = int(desired);
    let UpdateLimits { max_unavailable, max_surge } = limits(daemon_set, desired);
    let available = |pod: &Pod| daemon_pods::is_available(pod, daemon_set.spec.min_ready_seconds, now);
    let mut step = UpdateStep { surges: max_surge > 0, ..UpdateStep::default() };
    if !step.surges {
        step.allowed = max_unavailable;
        for node in visited {
            match UpdatedPods::on(daemon_set, current_hash, &node.pods) {
                UpdatedPods::New(pod) if available(pod) => {}
                UpdatedPods::Old(pod) if available(pod) => step.candidates.push(Candidate { node: node.node, pod }),
                UpdatedPods::Old(pod) => {
                    step.delete.push(pod);
                    step.used_by.push(node.node);
                }
                UpdatedPods::New(_) | UpdatedPods::None | UpdatedPods::Both { .. } | UpdatedPods::TooMany => {
                    step.used_by.push(node.node);
                }
            }
        }
    } else {
        step.allowed = max_surge;
        let mut available_nodes = 0;
        for node in visited {
            let pods = UpdatedPods::on(daemon_set, current_hash, &node.pods);
            available_nodes += i64::from(match pods {
                UpdatedPods::Old(pod) | UpdatedPods::Both { old: pod, .. } | UpdatedPods::New(pod) => available(pod),
                UpdatedPods::None | UpdatedPods::TooMany => false,
            });
            match pods {
                UpdatedPods::New(_) | UpdatedPods::None => {}
                UpdatedPods::TooMany => step.used_by.push(node.node),
                UpdatedPods::Both { new, old } if available(new) => step.delete.push(old),
                UpdatedPods::Both { .. } => step.used_by.push(node.node),
                UpdatedPods::Old(pod) => {
                    let decision = node.decision.ok_or(NodeNotFound { node: node.node })?;
                    let candidate = Candidate { node: node.node, pod };
                    match (decision.should_run, available(pod)) {
                        (true, true) => step.candidates.push(candidate),
                        (true, false) => step.create.push(node.node),
                        (false, true) => step.not_eligible.push(candidate),
                        (false, false) => step.delete.push(pod),
                    }
                }
            }
        }
        let spare = usize::try_from(available_nodes - desired).unwrap_or(0);
        step.not_eligible_deleted_now = spare.min(step.not_eligible.len());
    }
    let used = int(step.used_by.len());
    step.replaced_now = usize::try_from(step.allowed - used).unwrap_or(0).min(step.candidates.len());
    Ok(step)
}

/// The pods of one node that are not being deleted, by revision.
#[derive(Debug, Clone, Copy)]
pub(super) enum UpdatedPods<'a> {
    None,
    New(&'a Pod),
    Old(&'a Pod),
    Both {
        new: &'a Pod,
        old: &'a Pod,
    },
    /// Several of one revision: the controller deletes the surplus first.
    TooMany,
}

impl<'a> UpdatedPods<'a> {
    /// Ported from `findUpdatedPodsOnNode`, pkg/controller/daemon/update.go, release 1.37.2.
    pub(super) fn on(daemon_set: &DaemonSet, current_hash: &str, pods: &[&'a Pod]) -> Self {
        let (mut new, mut old) = (None, None);
        for pod in pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()) {
            let updated = daemon_pods::is_updated(daemon_set, Some(current_hash), pod);
            let kept = if updated { &mut new } else { &mut old };
            if kept.replace(pod).is_some() {
                return UpdatedPods::TooMany;
            }
        }
        match (new, old) {
            (None, None) => UpdatedPods::None,
            (Some(new), None) => UpdatedPods::New(new),
            (None, Some(old)) => UpdatedPods::Old(old),
            (Some(new), Some(old)) => UpdatedPods::Both { new, old },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{UpdateLimits, limits};
    use crate::model::daemon_set::DaemonSet;

    #[test]
    fn one_pod_may_be_unavailable_where_nothing_else_would_go_on() {
        let limits = |max_surge: i64, max_unavailable: i64, desired: i64| {
            let rolling = json!({"maxSurge": max_surge, "maxUnavailable": max_unavailable});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
            limits(&DaemonSet::from_object(json!({"spec": {"updateStrategy": strategy}})).unwrap(), desired)
        };
        assert_eq!(limits(0, 0, 3), UpdateLimits { max_unavailable: 1, max_surge: 0 });
        assert_eq!(limits(0, 0, 0), UpdateLimits { max_unavailable: 0, max_surge: 0 });
        assert_eq!(limits(2, 0, 3), UpdateLimits { max_unavailable: 0, max_surge: 2 });
    }
}
