//! What `coverage` answers with.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::fix::Fix;
use super::reason::{Reason, ReasonCode};

/// Which nodes should have a pod of each DaemonSet, which have one, and why the others have none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoverageReport {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// Always `CoverageReport`.
    pub kind: String,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, so that the answer is partial.
    pub incomplete: Vec<Incomplete>,
    /// The DaemonSets, by namespace and name.
    pub daemon_sets: Vec<DaemonSetCoverage>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incomplete {
    /// The resource, such as `events`.
    pub resource: String,
    /// The namespace; absent where the resource could be read nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The permission that reading it takes; absent where a dump lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// A sentence: what could not be read, and what the answer therefore leaves open.
    pub message: String,
    /// Whether nodes or pods may be missing from the numbers, so that `--exit-code` cannot pass.
    pub affects_counts: bool,
}

/// One DaemonSet's coverage.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetCoverage {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Numbers of nodes.
    #[serde(flatten)]
    pub counts: Counts,
    /// The hash of the current revision; absent where the revisions are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The update strategy in short, such as `RollingUpdate 10%` or `OnDelete`.
    pub strategy: String,
    /// How the status of the DaemonSet compares with what was recomputed.
    pub status: StatusCheck,
    /// What concerns the DaemonSet as a whole: that it is being deleted, that the controller has not observed its
    /// spec or refuses its selector, or a likely mistake that makes no node eligible. Usually empty.
    pub concerns: Vec<Reason>,
    /// The primary reasons of nodes that lack an available pod, run one they should not, or whose
    /// second pod cannot come up while the first one is available; most nodes first.
    pub groups: Vec<ReasonGroup>,
    /// The primary reasons of the other nodes: those not eligible and without a pod; most nodes first.
    pub not_eligible_groups: Vec<ReasonGroup>,
    /// The counts by the value of a label, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<CountsBy>,
    /// Every node, eligible or not, by name; empty where only groups were asked for.
    pub nodes: Vec<NodeCoverage>,
}

/// Numbers of nodes, as docs/reports.md defines them. A number that could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Nodes of the cluster, or those that were selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_total: Option<usize>,
    /// Nodes that should run a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eligible: Option<usize>,
    /// Eligible nodes with at least one pod, in whatever state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<usize>,
    /// Eligible nodes whose first pod is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<usize>,
    /// Eligible nodes in the state `Available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<usize>,
    /// Eligible nodes without any pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<usize>,
    /// Eligible nodes whose first pod is of the current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<usize>,
    /// Eligible nodes with a pod, the first of which is of an older revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outdated: Option<usize>,
    /// Nodes that should not run a pod and have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misscheduled: Option<usize>,
    /// Nodes that should not run a pod, including the misscheduled ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_eligible: Option<usize>,
    /// Whether numbers that could not be counted are those of the DaemonSet's status.
    pub from_status: bool,
}

impl Counts {
    /// Returns whether every eligible node has an available pod; `None` if they could not be counted.
    pub fn all_available(&self) -> Option<bool> {
        if self.from_status { None } else { Some(self.available? == self.eligible?) }
    }
}

/// The counts by the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountsBy {
    /// The label.
    pub label: String,
    /// A row per value, by value; nodes without the label come last.
    pub rows: Vec<CountsByRow>,
}

/// The counts of the nodes with one value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountsByRow {
    /// The value; absent for nodes without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Numbers of nodes.
    #[serde(flatten)]
    pub counts: Counts,
    /// The primary reasons of these nodes' troubles, with the number of nodes; most nodes first.
    pub troubles: Vec<Trouble>,
}

/// A reason code and how many nodes it concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trouble {
    /// The code.
    pub code: ReasonCode,
    /// The number of nodes; 0 for what concerns the DaemonSet as a whole and no node in particular.
    pub count: usize,
}

/// How the status of a DaemonSet compares with what was recomputed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCheck {
    /// Whether every counter agrees; absent where pods or nodes could not be read, or only some
    /// nodes were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
    /// The desired number in the status.
    pub desired: i64,
    /// The counters that differ.
    pub differences: Vec<StatusDifference>,
}

/// A counter of the status that differs from what was recomputed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatusDifference {
    /// The status field, such as `desiredNumberScheduled`.
    pub field: String,
    /// What the status says.
    pub status: i64,
    /// What was recomputed.
    pub recomputed: i64,
}

/// Nodes with the same primary reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonGroup {
    /// The reason code.
    pub code: ReasonCode,
    /// The number of nodes.
    pub count: usize,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// A sentence with the real values, or their range where they differ from node to node.
    pub message: String,
    /// What to do.
    pub fix: Fix,
}

/// What a node is to a DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub enum NodeState {
    /// It should not run a pod, and has none.
    NotEligible,
    /// It should run a pod, and has none.
    Missing,
    /// Its pod is not bound to it.
    Pending,
    /// Its pod is bound, and its containers have not all started.
    Starting,
    /// Its pod's containers have started, and the pod is not ready.
    NotReady,
    /// Its pod is ready, but not for long enough to be available.
    Ready,
    /// Its pod is available.
    Available,
    /// Its only pod is on its way out.
    Terminating,
    /// Its pod has failed or ended.
    Failed,
    /// It should not run a pod, but its pod may stay.
    Misscheduled,
    /// It should not run a pod, and its pod will be deleted.
    ToBeDeleted,
    /// It should run a pod, but the pods could not be read; only in a partial report.
    Unknown,
}

/// One node, as one DaemonSet sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCoverage {
    /// The node's name.
    pub name: String,
    /// Whether the controller makes a pod for it.
    pub should_run: bool,
    /// Whether the controller lets a pod stay on it.
    pub should_continue_running: bool,
    /// The state.
    pub state: NodeState,
    /// The pods, in the order in which the controller looks at them.
    pub pods: Vec<PodSummary>,
    /// Why the node is not Available, the primary reason first. Where it is, empty, or why a second
    /// pod on it cannot come up.
    pub reasons: Vec<Reason>,
    /// Set where the node itself could not be read: it is known by its pod alone, and whether it should
    /// run one is taken on trust.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub eligibility_unknown: bool,
    /// The full explanation, where one node was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// A pod in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSummary {
    /// The name.
    pub name: String,
    /// The revision hash on the pod, empty where it has none.
    pub revision: String,
    /// Whether it counts as updated; absent where the revisions are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<bool>,
    /// The phase.
    pub phase: String,
    /// Whether it is bound to the node.
    pub bound: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is available: ready for minReadySeconds, and not past the deadline of its deletion.
    pub available: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// How often its containers were restarted in all.
    pub restarts: i64,
    /// When it was created; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
}

/// A node explained in full: every rule that was checked, and the pods' own stories.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The answer in a sentence.
    pub summary: String,
    /// The rules of eligibility, in the controller's order.
    pub eligibility: Vec<Check>,
    /// The rules of scheduling, in the scheduler's order.
    pub scheduling: Vec<Check>,
    /// What the scheduler said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_says: Option<SchedulerVerdict>,
    /// What is so close to matching that it is likely a mistake, a sentence each.
    pub near_misses: Vec<String>,
    /// The pods' own stories.
    pub pods: Vec<PodStory>,
    /// The latest events about the DaemonSet that concern this node, newest first.
    pub events: Vec<EventLine>,
}

/// One rule that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The rule, such as `taints` or `cpu`.
    pub rule: String,
    /// Whether it holds; absent where too little is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The values that were compared, and what came of it.
    pub detail: String,
    /// The code of the reason that follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ReasonCode>,
}

/// What the scheduler said last of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerVerdict {
    /// Its words on the target node, without the filler about other nodes.
    pub message: String,
    /// When it reported that; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Whether it agrees with what was recomputed; absent where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
}

/// A pod's own story.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStory {
    /// The pod's name.
    pub name: String,
    /// The phase, with reason and message where there are any.
    pub phase: String,
    /// The containers: init containers and sidecars first, in their order.
    pub containers: Vec<ContainerStory>,
    /// The conditions that are not as they should be, with their reasons.
    pub conditions: Vec<String>,
    /// The readiness gates, and whether each is met.
    pub readiness_gates: Vec<String>,
    /// What holds the pod's deletion.
    pub finalizers: Vec<String>,
    /// The latest events about the pod, newest first.
    pub events: Vec<EventLine>,
}

/// A container's story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStory {
    /// The container's name.
    pub name: String,
    /// `container`, `init` or `sidecar`.
    pub role: String,
    /// The state in words, such as `waiting: CrashLoopBackOff`.
    pub state: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i32,
    /// The end of the run before, in words; empty where there was none.
    pub last_end: String,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// When it last happened; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// How often it happened.
    pub count: i32,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: String,
    /// A word for what happened.
    pub reason: String,
    /// A sentence for what happened.
    pub message: String,
}

/// What would change if a manifest were applied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfReport {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// Always `WhatIfReport`.
    pub kind: String,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, so that the answer is partial.
    pub incomplete: Vec<Incomplete>,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Whether the cluster has a DaemonSet of that name.
    pub exists: bool,
    /// Nodes that were looked at.
    pub nodes_total: usize,
    /// Nodes that should run a pod of the live DaemonSet, 0 where there is none.
    pub eligible_now: usize,
    /// Nodes that would run a pod of the manifest's.
    pub eligible_then: usize,
    /// Nodes that keep a pod, by name.
    pub keeps: Vec<String>,
    /// Nodes that would gain a pod, by name.
    pub gains: Vec<String>,
    /// Nodes that would lose their pod, or not get it again, by why.
    pub loses: Vec<ReasonGroup>,
    /// Nodes that would run a pod for which there is no room, by why.
    pub does_not_fit: Vec<ReasonGroup>,
}
