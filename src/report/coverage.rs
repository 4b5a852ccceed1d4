//! The reports of `coverage`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter;

use jiff::Timestamp;

use super::common_cause::CommonCause;
use super::fix::Fix;
use super::incident::{Incident, Refuser};
use super::named;
use super::node_coverage::NodeCoverage;
use super::node_map::NodeMap;
use super::reason::{Class, Reason, ReasonCode};
use super::rollout_status::{Fault, Suspect};
use crate::model::daemon_set::UpdateStrategy;

/// Which nodes should have a pod of each DaemonSet, which have one, and why the others have none.
#[apply(answer!)]
pub struct CoverageReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The node, if one was asked for.
    pub node: Option<NodeOverview>,
    /// What explains the troubles of several DaemonSets at once; usually empty.
    pub incidents: Vec<Incident>,
    /// The reasons of all DaemonSets' `problems` and `concerns`: most nodes first, and last what merely takes time.
    pub problems: Vec<Affected>,
    /// The DaemonSets, by namespace and name.
    pub daemon_sets: Vec<DaemonSetCoverage>,
}

impl super::Report for CoverageReport {
    const KINDS: &'static [&'static str] = &["CoverageReport"];

    const LIST: &'static str = "CoverageReportList";

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.incidents.iter_mut().for_each(|incident| visit(&mut incident.fix));
        for daemon_set in &mut self.daemon_sets {
            let DaemonSetCoverage {
                concerns,
                removed_nodes,
                lost_pods,
                nodes,
                problems,
                restarting,
                not_eligible,
                common_causes,
                rollback,
                suspect,
                ..
            } = daemon_set;
            suspect.iter_mut().for_each(|suspect| suspect.suggestions(&mut *visit));
            removed_nodes.iter_mut().for_each(|removed| visit(&mut removed.fix));
            lost_pods.iter_mut().for_each(|lost| visit(&mut lost.fix));
            let reasons = concerns.iter_mut().chain(nodes.iter_mut().flat_map(|node| &mut node.reasons));
            reasons.for_each(|reason| visit(&mut reason.fix));
            problems.iter_mut().chain(restarting).chain(not_eligible).for_each(|group| visit(&mut group.fix));
            common_causes.iter_mut().flat_map(|cause| &mut cause.fixes).chain(rollback).for_each(&mut *visit);
        }
    }

    /// Of one node, those of DaemonSets that have to do with it.
    fn names(&self) -> Vec<String> {
        let is_it = |row: &NodeCoverage, node: &str| row.name == node && (row.should_run || !row.pods.is_empty());
        let concerns = |one: &&DaemonSetCoverage| {
            self.node.as_ref().is_none_or(|node| one.nodes.iter().any(|row| is_it(row, &node.name)))
        };
        self.daemon_sets.iter().filter(concerns).map(|one| format!("daemonset.apps/{}", one.name)).collect()
    }
}

/// The state of a node, and how many DaemonSets it should run pods of.
#[apply(answer!)]
pub struct NodeOverview {
    /// The node's name.
    pub name: String,
    /// The only namespace whose DaemonSets were looked at; absent for all of them, and if they were named.
    pub namespace: Option<String>,
    /// Whether the node exists; else pods are still bound to it.
    pub exists: bool,
    /// Of how many DaemonSets it should run a pod; absent if the node could not be read.
    pub should_run: Option<usize>,
    /// On how many of them a pod is available there.
    pub available: usize,
    /// How and since when it has not been ready; absent if it is ready.
    pub not_ready: Option<String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints, such as `dedicated=gpu:NoSchedule`.
    pub taints: Vec<String>,
}

/// Something that could not be read.
#[apply(answer!)]
pub struct Incomplete {
    /// The resource, such as `events`.
    pub resource: String,
    /// The namespace; absent if the resource could not be read in any namespace.
    pub namespace: Option<String>,
    /// The missing permission; absent for dumps.
    pub permission: Option<String>,
    /// A sentence: what could not be read, and what is therefore unknown.
    pub message: String,
    /// What is therefore unknown.
    #[serde(skip)]
    pub left_open: String,
    /// Whether nodes or pods may be missing from the numbers, so that `--exit-code` cannot pass.
    pub affects_counts: bool,
}

impl Incomplete {
    /// Returns what is not known about a resource in any namespace, other than for lack of a permission.
    pub(crate) fn new(resource: &str, message: String, affects_counts: bool) -> Self {
        let left_open = String::new();
        Self { resource: resource.to_owned(), namespace: None, permission: None, message, left_open, affects_counts }
    }

    /// Returns a sentence for each gap, but a single one for many missing permissions: a role of one namespace lacks most of them.
    pub(crate) fn sentences<'a>(gaps: impl IntoIterator<Item = &'a Incomplete>) -> Vec<String> {
        let (forbidden, others): (Vec<&Incomplete>, Vec<&Incomplete>) =
            gaps.into_iter().partition(|gap| gap.permission.is_some());
        let sentences = |gaps: &[&Incomplete]| gaps.iter().map(|gap| gap.message.clone()).collect::<Vec<String>>();
        if forbidden.len() < MANY_GAPS {
            return [sentences(&forbidden), sentences(&others)].concat();
        }
        let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for gap in &forbidden {
            let permission = gap.permission.as_deref().unwrap_or_default();
            places.entry(permission).or_default().extend(gap.namespace.as_deref());
        }
        let mut permissions: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        places.into_iter().for_each(|(permission, places)| permissions.entry(places).or_default().push(permission));
        let what = permissions.into_iter().map(|(places, permissions)| {
            let place = match places.as_slice() {
                [] => String::new(),
                [one] => format!(" in namespace {one}"),
                several => format!(" in namespaces {}", named(several)),
            };
            format!("{}{place}", permissions.join(", "))
        });
        let mut left_open: Vec<&str> = Vec::new();
        for gap in &forbidden {
            if !left_open.contains(&gap.left_open.as_str()) {
                left_open.push(&gap.left_open);
            }
        }
        let what: Vec<String> = what.collect();
        let sentence = format!("forbidden: {}: {}", what.join("; "), left_open.join("; "));
        iter::once(sentence).chain(sentences(&others)).collect()
    }
}

/// From how many missing permissions a single sentence names them all.
const MANY_GAPS: usize = 3;

/// One DaemonSet's coverage.
#[apply(answer!)]
pub struct DaemonSetCoverage {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Node counts.
    pub counts: Counts,
    /// Whether every node of the cluster was examined, and not only those of `--node` or `--node-selector`.
    pub every_node: bool,
    /// The hash of the current revision; absent if the revisions are unknown.
    pub current_revision: Option<String>,
    /// The update strategy, such as `RollingUpdate 10%` or `OnDelete`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub strategy: UpdateStrategy,
    /// Whether the counters of its status agree with the recomputed ones.
    pub counters: Counters,
    /// What concerns the DaemonSet as a whole: that it is being deleted, that the controller has not observed its
    /// spec or refuses its selector, or a likely mistake that makes no node eligible. Usually empty.
    pub concerns: Vec<Reason>,
    /// The nodes that a revision has removed within the last day; absent if there are none.
    pub removed_nodes: Option<RemovedNodes>,
    /// The nodes that have lost their pod within the last hour because they are no longer eligible, unless a revision was rolled out, or
    /// else that are not eligible although most others of their pool are; absent if there are none.
    pub lost_pods: Option<LostPods>,
    /// What failing nodes have in common and available ones lack; usually empty.
    pub common_causes: Vec<CommonCause>,
    /// Whether the current revision or the nodes are likely to blame, as `status` says; absent if no pod of the current revision fails,
    /// if there are too few to tell, or if only some nodes were examined.
    pub suspect: Option<Suspect>,
    /// How to roll back, if that helps.
    pub rollback: Option<Fix>,
    /// The primary reasons of nodes that have no available pod, run one they should not, or whose
    /// surge pod cannot start while the old one is available; most nodes first.
    pub problems: Vec<ReasonGroup>,
    /// Why containers of available pods keep failing, and are restarted each time; most nodes first.
    pub restarting: Vec<ReasonGroup>,
    /// The primary reasons of the other nodes: those not eligible and without a pod; most nodes first.
    pub not_eligible: Vec<ReasonGroup>,
    /// The counts by the value of a label, if requested.
    pub by: Option<CountsBy>,
    /// All nodes by the value of a label, if requested.
    pub map: Option<NodeMap>,
    /// All nodes, eligible or not, by name; empty if only groups were requested.
    pub nodes: Vec<NodeCoverage>,
    /// Whether the cluster does not work without it.
    #[serde(skip)]
    pub is_critical: bool,
}

/// How urgent it is to look at a DaemonSet, as far as its nodes tell, the most urgent first: what is wrong, whether nothing
/// explains it, whether the DaemonSet is not critical, and the permille of eligible nodes without an available pod.
pub type Urgency = (Attention, bool, bool, Reverse<usize>);

/// What is wrong with a DaemonSet, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attention {
    /// It fails because of itself, or a revision has removed most of its nodes.
    Fails,
    /// Nodes are at fault, which may concern every DaemonSet of the cluster and must not hide what fails because of itself.
    NodesFail,
    /// Nothing, or only what passes by itself.
    Passes,
}

/// Nodes that a revision has removed: they are eligible under the template before it, and neither under its own nor under the
/// current one.
#[apply(answer!)]
pub struct RemovedNodes {
    /// The number of the revision.
    pub revision: i64,
    /// The number of the revision before it.
    pub previous: i64,
    /// When the revision was rolled out.
    pub at: Timestamp,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// How many nodes are eligible under the revision before it.
    pub eligible_before: usize,
    /// What it has changed that decides about nodes, in short, such as `nodeSelector pool: general → gpu`.
    pub changes: Vec<String>,
    /// Whether they are more than half of the nodes.
    pub most: bool,
    /// What gives the nodes their pods back.
    pub fix: Fix,
    /// Whether `--accept fewer-nodes` accepts that.
    pub accepted: bool,
}

/// Nodes that have lost their pod because they are no longer eligible, or are likely to have.
#[apply(answer!)]
pub struct LostPods {
    /// The number of nodes, according to events.
    pub nodes: usize,
    /// When the controller deleted the last of the pods; absent if no event tells that it has.
    pub at: Option<Timestamp>,
    /// Why they are likely to have lost their pod although no event tells; absent if events do.
    pub unlike: Option<UnlikePool>,
    /// What shows what has changed.
    pub fix: Fix,
}

/// Nodes that are not eligible although most others of their pools are.
#[apply(answer!)]
pub struct UnlikePool {
    /// How many nodes of the same pools are eligible.
    pub others: usize,
    /// What excludes them and not the others, such as `taint maintenance:NoExecute`.
    pub by: Vec<String>,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

impl RemovedNodes {
    /// Returns whether a revision removed enough nodes to be reported as a problem, and nobody has accepted that.
    pub fn needs_attention(&self) -> bool {
        self.most && !self.accepted
    }

    /// Returns whether a DaemonSet has lost enough nodes to be reported as a problem.
    pub fn are_most(removed: &Option<RemovedNodes>) -> bool {
        removed.as_ref().is_some_and(RemovedNodes::needs_attention)
    }
}

/// Numbers of nodes, as docs/reports.md defines them. A number that could not be read is absent.
#[apply(answer!)]
#[derive(Default)]
pub struct Counts {
    /// Nodes of the cluster, or those that were selected.
    pub nodes_total: Option<usize>,
    /// Nodes that should run a pod.
    pub eligible: Option<usize>,
    /// Eligible nodes with at least one pod, in whatever state.
    pub current: Option<usize>,
    /// Eligible nodes whose first pod is ready.
    pub ready: Option<usize>,
    /// Eligible nodes in the state `Available`.
    pub available: Option<usize>,
    /// Eligible nodes without any pod.
    pub missing: Option<usize>,
    /// Eligible nodes with a pod of the current revision that is not being deleted.
    pub updated: Option<usize>,
    /// Eligible nodes with an available pod of the current revision that is not being deleted.
    pub updated_available: Option<usize>,
    /// Eligible nodes with a pod of an older revision that is not being deleted.
    pub outdated: Option<usize>,
    /// Nodes that should not run a pod and have one.
    pub misscheduled: Option<usize>,
    /// Nodes that should not run a pod, including the misscheduled ones.
    pub not_eligible: Option<usize>,
    /// Whether numbers that could not be counted are those of the DaemonSet's status.
    pub from_status: bool,
}

impl Counts {
    /// Returns whether every eligible node has an available pod; `None` if they could not be counted.
    pub fn all_available(&self) -> Option<bool> {
        if self.from_status { None } else { Some(self.available? == self.eligible?) }
    }

    /// Returns whether every eligible node has an available pod of the current revision by the status of the DaemonSet;
    /// `None` if they could be counted, or the status does not tell.
    pub fn is_complete_by_status(&self) -> Option<bool> {
        let least = self.available?.min(self.updated?);
        self.from_status.then_some(least >= self.eligible?)
    }

    /// Returns whether a DaemonSet needs attention: a node or the DaemonSet as a whole has a reason, no node is eligible,
    /// or the nodes could not be counted and its status does not say that all is well.
    pub fn need_attention(&self, has_reason: bool, every_node: bool) -> bool {
        let is_well = self.all_available() == Some(true) || self.is_complete_by_status() == Some(true);
        has_reason || (every_node && self.eligible == Some(0)) || !is_well
    }
}

impl DaemonSetCoverage {
    /// Returns whether the DaemonSet needs attention.
    pub fn needs_attention(&self) -> bool {
        let has_reason = !self.problems.is_empty() || !self.concerns.is_empty();
        let is_removed = RemovedNodes::are_most(&self.removed_nodes);
        self.counts.need_attention(has_reason || is_removed, self.every_node)
    }

    /// Counts the nodes by reason. What concerns the whole DaemonSet is a trouble even while every pod is still available.
    pub fn problems_by_code(&self) -> Vec<Affected> {
        let concerns = self.concerns.iter().map(|concern| Affected::new(concern.code, 0, concern.passing));
        Affected::by_code(self.problems.iter().map(Affected::of_group).chain(concerns))
    }

    /// Returns how urgent it is to look at the DaemonSet.
    pub fn urgency(&self, problems: &[Affected]) -> Urgency {
        let failing = || problems.iter().filter(|problem| problem.count > 0 && !problem.passing);
        let has_lost_most = RemovedNodes::are_most(&self.removed_nodes);
        let is_deleted = self.concerns.iter().any(|concern| concern.code == ReasonCode::DaemonSetDeleting);
        let attention = match () {
            // Somebody has done with it.
            () if is_deleted => Attention::Passes,
            () if has_lost_most || failing().any(|problem| problem.code.class() != Class::Node) => Attention::Fails,
            () if failing().next().is_some() => Attention::NodesFail,
            () => Attention::Passes,
        };
        let eligible = self.counts.eligible.unwrap_or_default();
        // What is not known is no reason to come first.
        let unavailable = self.counts.available.map_or(0, |available| eligible.saturating_sub(available));
        let is_urgent = self.is_critical && self.counts.is_complete_by_status() != Some(true);
        (attention, problems.is_empty(), !is_urgent, Reverse(unavailable * 1000 / eligible.max(1)))
    }

    /// Returns whether nodes without a pod of it are not eligible only because they are down.
    pub fn is_excluded_from_down_nodes(&self) -> bool {
        self.excluded_by_down_nodes().next().is_some()
    }

    /// Returns the nodes without a pod of it that are not eligible only because they are down.
    pub(crate) fn excluded_by_down_nodes(&self) -> impl Iterator<Item = &ReasonGroup> {
        self.not_eligible.iter().filter(|group| group.code.excludes_node() && group.count > 0)
    }

    /// Returns whether no node is eligible.
    pub fn has_no_eligible_node(&self) -> bool {
        self.counts.eligible == Some(0) && self.every_node
    }

    /// Returns whether no node is eligible among the selected ones.
    pub fn has_none_selected(&self) -> bool {
        self.counts.eligible == Some(0) && !self.every_node
    }
}

/// The counts by the value of a label.
#[apply(answer!)]
pub struct CountsBy {
    /// The label.
    pub label: String,
    /// A row per value, by value; nodes without the label come last.
    pub rows: Vec<CountsByRow>,
}

/// The counts of the nodes with one value of a label.
#[apply(answer!)]
pub struct CountsByRow {
    /// The value; absent for nodes without the label.
    pub value: Option<String>,
    /// Node counts.
    pub counts: Counts,
    /// The primary reasons of the unhealthy nodes among them; most nodes first.
    pub problems: Vec<Affected>,
}

/// What a reason affects.
#[apply(answer!)]
pub struct Affected {
    /// The reason code.
    pub code: ReasonCode,
    /// The number of nodes; 0 if it is about the DaemonSet as a whole.
    pub count: usize,
    /// The nodes, each once; absent if they are only counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The DaemonSets, as `NAMESPACE/NAME`; absent if it is about one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub daemon_sets: Vec<String>,
    /// That it passes by itself, because something only takes its time; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
}

impl Affected {
    /// Creates the number of nodes that a reason affects.
    pub(crate) fn new(code: ReasonCode, count: usize, passing: bool) -> Affected {
        Affected { code, count, nodes: Vec::new(), daemon_sets: Vec::new(), passing }
    }

    fn of_group(group: &ReasonGroup) -> Affected {
        Affected::new(group.code, group.count, group.passing)
    }

    /// Returns the sort key for lists about several DaemonSets: most nodes first, and last what only takes time.
    pub fn rank(&self) -> (bool, Reverse<(usize, usize)>, ReasonCode) {
        (self.passing, Reverse((self.count, self.daemon_sets.len())), self.code)
    }

    /// Counts the nodes of groups by code.
    pub(crate) fn of(groups: &[ReasonGroup]) -> Vec<Affected> {
        Affected::by_code(groups.iter().map(Affected::of_group))
    }

    /// Adds up nodes by code: what takes time and what is about pods that should not be there comes last, else most nodes
    /// first.
    pub(crate) fn by_code(parts: impl IntoIterator<Item = Affected>) -> Vec<Affected> {
        let mut by_code: Vec<Affected> = Vec::new();
        for part in parts {
            match by_code.iter_mut().find(|affected| affected.code == part.code) {
                Some(affected) => {
                    affected.count += part.count;
                    affected.nodes.extend(part.nodes);
                    affected.passing &= part.passing;
                }
                None => by_code.push(part),
            }
        }
        by_code.sort_by_key(|Affected { code, count, passing, .. }| {
            (code.is_about_surplus_pods() || *passing, code.excludes_node(), Reverse(*count), *code)
        });
        by_code
    }
}

/// Whether the counters in the status of a DaemonSet agree with the recomputed ones.
#[apply(answer!)]
#[derive(Default)]
pub struct Counters {
    /// Whether all counters agree; absent if pods or nodes could not be read, or only some
    /// nodes were examined.
    pub agrees: Option<bool>,
    /// `desiredNumberScheduled` of the status.
    pub desired: i64,
    /// The counters that differ.
    pub differences: Vec<CounterDifference>,
}

/// A counter of the status that differs from the recomputed one.
#[apply(answer!)]
pub struct CounterDifference {
    /// The status field, such as `desiredNumberScheduled`.
    pub field: String,
    /// The value in the status.
    pub status: i64,
    /// The recomputed value.
    pub recomputed: i64,
}

/// Nodes with the same primary reason.
#[apply(answer!)]
pub struct ReasonGroup {
    /// The reason code.
    pub code: ReasonCode,
    /// The number of nodes.
    pub count: usize,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// A sentence with the actual values, or their range if they differ between nodes.
    pub message: String,
    /// What refuses the pods, if that is known; absent for other reasons.
    pub refused_by: Option<Refuser>,
    /// The object that does not exist, as its resource and its name, if that is why.
    #[serde(skip)]
    pub missing: Option<(&'static str, String)>,
    /// What to do.
    pub fix: Fix,
    /// When the first of the nodes became unavailable; absent if unknown. This and what follows is of the rollout, in `status`.
    pub since: Option<Timestamp>,
    /// Whether it may have been unavailable before `since`, too; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub since_at_latest: bool,
    /// Whether all of them were unavailable before the rollout began; absent if unknown.
    pub before_rollout: Option<bool>,
    /// How many of the nodes have a pod of the current revision.
    pub on_current_revision: Option<usize>,
    /// Whose fault it is; absent if it is expected to pass by itself.
    pub fault: Option<Fault>,
    /// That it is expected to pass by itself, or outside of `status`, that something only takes its time; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
}

impl ReasonGroup {
    /// Returns whether what concerns the DaemonSet as a whole says the same.
    pub fn is_told_by(&self, concerns: &[Reason]) -> bool {
        concerns.iter().any(|concern| concern.code == self.code && concern.message == self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn what_could_not_be_counted_needs_attention_unless_the_status_says_that_all_is_well() {
        let needs = |from_status: bool, available: Option<usize>, updated: Option<usize>| {
            let counts = Counts { eligible: Some(4), available, updated, from_status, ..Counts::default() };
            (counts.is_complete_by_status(), counts.need_attention(false, true))
        };
        assert_eq!(needs(true, Some(4), Some(4)), (Some(true), false));
        // The status may count pods that are to be deleted.
        assert_eq!(needs(true, Some(5), Some(4)), (Some(true), false));
        assert_eq!(needs(true, Some(3), Some(4)), (Some(false), true));
        assert_eq!(needs(true, Some(4), Some(1)), (Some(false), true));
        assert_eq!(needs(true, None, Some(4)), (None, true));
        assert_eq!(needs(false, Some(4), Some(4)), (None, false));
        assert_eq!(needs(false, Some(4), None), (None, false));
        assert_eq!(needs(false, Some(3), Some(4)), (None, true));
    }
}
