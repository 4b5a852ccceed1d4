//! The report of `coverage --if`.

use serde::Serialize;

use super::Report;
use super::coverage::{Incomplete, ReasonGroup};
use super::fix::Fix;
use super::overhead::StartupTaintReport;

/// What would change for DaemonSets if labels and taints of nodes were changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeWhatIfReport {
    /// What could not be read, and is therefore unknown.
    pub incomplete: Vec<Incomplete>,
    /// The nodes that would be changed.
    pub nodes: Vec<String>,
    /// The changes, as they were given.
    pub changes: Vec<String>,
    /// The DaemonSets, those that lose pods first.
    pub daemon_sets: Vec<DaemonSetOnNodes>,
    /// Taints that a DaemonSet would remove once it runs, and does not because another taint keeps it away.
    pub startup_taints: Vec<StartupTaintReport>,
}

impl NodeWhatIfReport {
    /// Returns whether no pod is lost, replaced or without room, and no taint stays that an agent should remove.
    pub fn passes(&self) -> bool {
        let is_fine = |one: &DaemonSetOnNodes| {
            one.loses.is_empty() && one.does_not_fit.is_empty() && one.stays.is_empty() && one.evicted.is_none()
        };
        self.daemon_sets.iter().all(is_fine) && self.startup_taints.is_empty()
    }
}

impl Report for NodeWhatIfReport {
    const KINDS: &'static [&'static str] = &["NodeWhatIfReport"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        for one in &mut self.daemon_sets {
            one.loses.iter_mut().chain(&mut one.does_not_fit).for_each(|group| visit(&mut group.fix));
        }
        self.startup_taints.iter_mut().filter_map(|taint| taint.fix.as_mut()).for_each(visit);
    }
}

/// What would change for one DaemonSet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetOnNodes {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Nodes that keep running its pod, or should run it before and after the change.
    pub keeps: Vec<String>,
    /// Nodes that would run a pod that does not run there now, as far as is known.
    pub gains: Vec<String>,
    /// Nodes that would lose its pod, or get none any more, and why.
    pub loses: Vec<ReasonGroup>,
    /// Nodes on which its pod stays, but is not created again once it is gone.
    pub stays: Vec<String>,
    /// Nodes that should run a pod and have no room for it.
    pub does_not_fit: Vec<ReasonGroup>,
    /// Nodes from which its pod is evicted again and again, because it tolerates a taint only for some time; `null` if there are none.
    pub evicted: Option<EvictedPods>,
}

/// Pods that tolerate a NoExecute taint only for some time. Their DaemonSet recreates them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EvictedPods {
    /// After how many seconds they are evicted.
    pub after_seconds: i64,
    /// The nodes.
    pub nodes: Vec<String>,
}
