//! The report of `list`.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::coverage::{Affected, Counters, Counts, Incomplete, LostPods, RemovedNodes};
use super::fix::Fix;
use super::incident::Incident;
use super::reason::named_values;
use super::rollout_status::RolloutHold;
use crate::model::daemon_set::UpdateStrategy;

/// A row per DaemonSet, unhealthy ones first.
#[apply(answer!)]
pub struct ListReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// Nodes of the cluster; absent if they could not be read.
    pub nodes_total: Option<usize>,
    /// Nodes whose condition `Ready` is not `True`; absent if the nodes could not be read.
    pub nodes_not_ready: Option<usize>,
    /// What explains the troubles of several DaemonSets at once; usually empty.
    pub incidents: Vec<Incident>,
    /// The DaemonSets, most severe status first.
    pub daemon_sets: Vec<ListRow>,
}

impl super::Report for ListReport {
    const KINDS: &'static [&'static str] = &["ListReport"];

    const LIST: &'static str = "ListReportList";

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.incidents.iter_mut().for_each(|incident| visit(&mut incident.fix));
        let removed = self.daemon_sets.iter_mut().filter_map(|row| row.removed_nodes.as_mut());
        removed.for_each(|removed| visit(&mut removed.fix));
        let lost = self.daemon_sets.iter_mut().filter_map(|row| row.lost_pods.as_mut());
        lost.for_each(|lost| visit(&mut lost.fix));
    }

    fn names(&self) -> Vec<String> {
        self.daemon_sets.iter().map(|row| format!("daemonset.apps/{}", row.name)).collect()
    }
}

named_values! {
    /// How a DaemonSet is doing, most severe first.
    Status {
        /// Its rollout is not finished, and blocked: see `status`.
        Blocked,
        /// No rollout is under way, and nodes need attention: eligible ones without an available pod, others with one, or most of
        /// the nodes that the last revision has removed.
        Degraded,
        /// Nodes are down; all others have an available pod of the current revision.
        NodesDown,
        /// The controller has not observed the current spec.
        NotObserved,
        /// It is being deleted.
        Deleting,
        /// Nodes or pods could not be read.
        Unknown,
        /// Its rollout is complete, because no node is eligible.
        NoNodes,
        /// Its rollout is progressing: pods are starting, terminating or being replaced.
        Progressing,
        /// Its rollout is paused: the update strategy does not replace pods of older revisions, or `pause` or `partition` has
        /// suspended it.
        Paused,
        /// Its rollout is complete: every eligible node has an available pod of the current revision.
        Healthy,
    }
}

/// The rank of a DaemonSet among others, the most severe first, and what decides between equals, as in
/// [`Urgency`](super::coverage::Urgency).
pub type Severity = (Status, bool, bool, Reverse<usize>);

impl ListRow {
    /// Returns whether the DaemonSet needs attention: as `coverage` counts it, or because its rollout is blocked or nodes are down.
    pub fn needs_attention(&self) -> bool {
        let is_removed = RemovedNodes::are_most(&self.removed_nodes);
        let has_reason = !self.problems.is_empty() || is_removed;
        matches!(self.status, Status::Blocked | Status::NodesDown) || self.counts.need_attention(has_reason, true)
    }
}

/// One DaemonSet.
#[apply(answer!)]
pub struct ListRow {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The status.
    pub status: Status,
    /// Node counts.
    pub counts: Counts,
    /// The update strategy, such as `RollingUpdate 10%` or `OnDelete`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub strategy: UpdateStrategy,
    /// The hold of `pause` or `partition`; absent if there is none.
    pub hold: Option<RolloutHold>,
    /// When it was created; absent if unknown.
    pub created_at: Option<Timestamp>,
    /// Images of the template, in the order of its containers.
    pub images: Vec<String>,
    /// The node selector as `key=value` pairs.
    pub node_selector: Vec<String>,
    /// Whether the counters of its status agree with the recomputed ones.
    pub counters: Counters,
    /// The nodes that a revision has removed within the last day; absent if there are none.
    pub removed_nodes: Option<RemovedNodes>,
    /// The nodes that have lost their pod within the last hour because they are no longer eligible; absent if there are none.
    pub lost_pods: Option<LostPods>,
    /// The primary reasons of its unhealthy nodes: what takes time and what is about other nodes than the eligible ones last,
    /// then most nodes first.
    pub problems: Vec<Affected>,
    /// Why containers of available pods keep failing, and are restarted each time; most nodes first.
    pub restarting: Vec<Affected>,
    /// The primary reasons of the nodes that are not eligible and have no pod, most nodes first.
    pub not_eligible: Vec<Affected>,
    /// Where it comes among others.
    #[serde(skip)]
    pub severity: Severity,
}
