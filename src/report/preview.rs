//! What would change if manifests were applied, DaemonSets edited, or nodes labeled and tainted.

use jiff::Timestamp;

use super::Report;
use super::change::Change;
use super::coverage::{Incomplete, ReasonGroup};
use super::fix::Fix;
use super::overhead::StartupTaintReport;
use super::plan::{Warning, WarningCode};
use super::reason::Reason;

/// What would change for DaemonSets, each without what the others would change.
#[apply(answer!)]
pub struct PreviewReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The changes that were given with `--if`.
    pub changes: Vec<String>,
    /// Whether some of them are changes of nodes.
    pub changes_nodes: bool,
    /// The nodes that were examined, and that would be changed if nodes are.
    pub nodes: Vec<String>,
    /// The DaemonSets: in the order of the manifests, or those that lose pods first if nodes are changed.
    pub daemon_sets: Vec<DaemonSetPreview>,
    /// Taints of changed nodes that a DaemonSet would remove once it runs, and does not because another taint keeps it away.
    pub startup_taints: Vec<StartupTaintReport>,
}

impl PreviewReport {
    /// Returns whether every pod would start and fit, and no rollout would block or delete pods that are not recreated; at most half of
    /// the nodes may lose their pods, and none if nodes are changed.
    pub fn passes(&self) -> bool {
        let may_lose = |one: &DaemonSetPreview| if self.changes_nodes { 0 } else { one.eligible_now / 2 };
        let passes = |one: &DaemonSetPreview| {
            let starts = one.does_not_fit.is_empty() && one.does_not_start.is_empty();
            let harms = |warning: &Warning| {
                matches!(warning.code, WarningCode::Blocks | WarningCode::QuotaExceeded | WarningCode::NotRecreated)
            };
            starts && !one.warnings.iter().any(harms) && one.evicted.is_empty() && nodes_of(&one.loses) <= may_lose(one)
        };
        self.daemon_sets.iter().all(passes) && self.startup_taints.is_empty()
    }
}

/// Returns the number of nodes.
pub(crate) fn nodes_of(groups: &[ReasonGroup]) -> usize {
    groups.iter().map(|group| group.count).sum()
}

impl Report for PreviewReport {
    const KINDS: &'static [&'static str] = &["PreviewReport"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        for one in &mut self.daemon_sets {
            let DaemonSetPreview {
                warnings,
                loses,
                fits_by_preemption,
                does_not_fit,
                does_not_start,
                not_eligible,
                nodes,
                ..
            } = one;
            warnings.iter_mut().filter_map(|warning| warning.fix.as_mut()).for_each(&mut *visit);
            let groups = loses
                .iter_mut()
                .chain(fits_by_preemption)
                .chain(does_not_fit)
                .chain(does_not_start)
                .chain(not_eligible);
            groups.for_each(|group| visit(&mut group.fix));
            nodes.iter_mut().filter_map(|node| node.reason.as_mut()).for_each(|reason| visit(&mut reason.fix));
        }
        self.startup_taints.iter_mut().filter_map(|taint| taint.fix.as_mut()).for_each(visit);
    }
}

/// What would change for one DaemonSet.
#[apply(answer!)]
#[derive(Default)]
pub struct DaemonSetPreview {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What is previewed of it.
    pub preview: Preview,
    /// Nodes that should run a pod of the live DaemonSet; 0 if it does not exist.
    pub eligible_now: usize,
    /// Nodes that would run a pod.
    pub eligible_then: usize,
    /// Whether the template differs from the live one; absent if there is none.
    pub template_changes: Option<bool>,
    /// Whether the DaemonSet exists, and the change makes no difference to its spec and metadata.
    pub nothing_changes: bool,
    /// The nodes whose pod has the changed template already, that of an older revision.
    pub updated_already: usize,
    /// How the template differs from the live one; empty if there is none.
    pub differences: Vec<Change>,
    /// Whether the update strategy would be OnDelete, so that pods keep their template until they are deleted.
    pub on_delete: bool,
    /// Whether that is because the rollout would be paused or partitioned by `kubectl ds`.
    pub held: bool,
    /// How many nodes may be without an available pod during a rollout of the live DaemonSet; absent if it does not exist,
    /// and unless all nodes were examined.
    pub may_be_unavailable_now: Option<i64>,
    /// How many may be then; absent unless all nodes were examined.
    pub may_be_unavailable_then: Option<i64>,
    /// Whether the API server was asked whether it would admit the pods, and whether what they mount exists.
    pub admission_checked: bool,
    /// Problems that would occur now when the pods are replaced.
    pub warnings: Vec<Warning>,
    /// Nodes that keep a pod, by name.
    pub keeps: Vec<String>,
    /// Nodes that should run a pod both before and after the change, but have none now, by name.
    pub missing: Vec<String>,
    /// Nodes that would gain a pod that fits and starts, as far as is known, by name.
    pub gains: Vec<String>,
    /// Nodes that would lose their pod, now or once it is deleted, or no longer get one, by reason.
    pub loses: Vec<ReasonGroup>,
    /// Those of them on which the running pod stays until it is deleted, by name.
    pub stays: Vec<String>,
    /// Nodes from which the pod would be evicted again and again, because it tolerates a taint only for some time, the shortest first;
    /// without those from which the live pod is evicted already.
    pub evicted: Vec<EvictedPods>,
    /// Nodes that would run a pod that fits because the scheduler preempts other pods for it.
    pub fits_by_preemption: Vec<ReasonGroup>,
    /// Nodes that would run a pod that does not fit, by reason.
    pub does_not_fit: Vec<ReasonGroup>,
    /// How many of these have a pod of the live DaemonSet that no node has room for now, either.
    pub does_not_fit_now: usize,
    /// Nodes that would run a pod that would not start even if it fits, by reason.
    pub does_not_start: Vec<ReasonGroup>,
    /// Why nodes would not be eligible; empty if one would be and the DaemonSet exists already, and for several DaemonSets if nodes are
    /// changed.
    pub not_eligible: Vec<ReasonGroup>,
    /// The nodes by the value of a label; absent unless requested.
    pub by: Option<ChangesBy>,
    /// Each node, by name; empty for several DaemonSets if nodes are changed, unless `--nodes` is given.
    pub nodes: Vec<NodeChange>,
}

/// Pods that tolerate a NoExecute taint only for some time. Their DaemonSet recreates them.
#[apply(answer!)]
pub struct EvictedPods {
    /// After how many seconds they are evicted.
    pub after_seconds: i64,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// What of a DaemonSet is previewed.
#[apply(value!)]
#[derive(Default)]
pub enum Preview {
    /// Nothing: nodes alone would be changed.
    #[default]
    Unchanged,
    /// Fields of the live DaemonSet would be changed.
    Edit,
    /// The DaemonSet would be created.
    Create,
    /// `kubectl apply`: fields that the last applied manifest does not have stay as they are.
    ClientSideApply,
    /// `kubectl apply --server-side`: fields of other managers stay as they are.
    ServerSideApply,
    /// `kubectl replace`: what the manifest does not have gets the default.
    Replace,
}

/// What would change on one node.
#[apply(answer!)]
pub struct NodeChange {
    /// The name.
    pub name: String,
    /// What would happen to its pod.
    pub change: PodChange,
    /// Whether the pod would start and the node has room for it, or the scheduler makes some by preemption; absent if it would not
    /// run one, if that is not known, and if a pod is missing that the change has nothing to do with.
    pub fits: Option<bool>,
    /// The pods that the scheduler would preempt to make room; absent if it need not, or if that would not help.
    pub preemption: Option<NodePreemption>,
    /// Why the pod would not start or fit, or fits only by preemption, or why the node would not run one.
    pub reason: Option<Reason>,
}

/// The pods of a node that the scheduler would preempt.
#[apply(answer!)]
pub struct NodePreemption {
    /// Those that it would preempt for certain, the highest priority first.
    pub pods: Vec<PreemptedPod>,
    /// Pods of which it would preempt some: equally important ones, or all if the PodDisruptionBudgets are not known.
    pub some_of: Vec<PreemptedSome>,
}

/// A pod that the scheduler would preempt.
#[apply(answer!)]
pub struct PreemptedPod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The priority.
    pub priority: i32,
    /// Whether that violates a PodDisruptionBudget; absent if it is not known.
    pub violates_disruption_budget: Option<bool>,
}

/// Pods of which the scheduler would preempt some.
#[apply(answer!)]
pub struct PreemptedSome {
    /// How many at least.
    pub at_least: usize,
    /// How many at most.
    pub at_most: usize,
    /// The pods.
    pub pods: Vec<PreemptedPod>,
}

/// What would happen to the pod of a node.
#[apply(value!)]
#[derive(PartialOrd, Ord)]
pub enum PodChange {
    /// The node would lose its pod.
    Loses,
    /// The node would no longer get a pod; none runs there now, as far as is known.
    Excluded,
    /// The pod would stay, but would not be recreated once it is gone.
    Stays,
    /// The pod would be evicted again and again.
    Evicted,
    /// The node would gain a pod that fits and starts, as far as is known.
    Gains,
    /// The node should run a pod both before and after the change, but has none now.
    Missing,
    /// The node would keep its pod.
    Keeps,
    /// The node runs no pod, and would run none.
    None,
}

/// What would change by the value of a node label.
#[apply(answer!)]
pub struct ChangesBy {
    /// The label.
    pub label: String,
    /// A row for each value.
    pub rows: Vec<ChangesByRow>,
}

/// What would change on the nodes with one value of a label.
#[apply(answer!)]
#[derive(Default)]
pub struct ChangesByRow {
    /// The value; absent for nodes without the label.
    pub value: Option<String>,
    /// Nodes that should run a pod of the live DaemonSet.
    pub eligible_now: usize,
    /// Nodes that would run a pod.
    pub eligible_then: usize,
    /// Nodes that would run a pod that does not fit.
    pub does_not_fit: usize,
    /// Nodes that would run a pod that would not start.
    pub does_not_start: usize,
}
