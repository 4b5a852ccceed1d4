//! The report of `partition`.

use jiff::Timestamp;

use super::change::Change;
use super::coverage::Incomplete;
use super::fix::Fix;
use super::history::DaemonSetName;
use super::plan::Warning;
use super::reason::ReasonCode;
use crate::model::daemon_set::UpdateStrategy;

/// The label of nodes whose pods `partition` does not replace, whatever its value.
pub(crate) const SKIP_LABEL: &str = "kubectl-ds/skip";

/// One stage of a staged rollout: what is planned, and what became of it.
#[apply(answer!)]
pub struct PartitionReport {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// The number of the revision that nodes are updated to; absent until the controller has created it.
    pub revision: Option<i64>,
    /// Whether `undo` rolls the DaemonSet back.
    pub rolls_back: bool,
    /// The number of the revision that it rolls back to, before that got another one; absent if it is no rollback.
    pub to_revision: Option<i64>,
    /// Whether it restarts the pods with the template that they have.
    pub restarts: bool,
    /// How the DaemonSet is changed before the first pod is replaced.
    pub changes: Vec<Change>,
    /// What admission, such as a webhook, changes in the template on top of that, as a dry run by the API server has shown.
    pub made_by_server: Vec<Change>,
    /// The JSON Patch of that, with the resource version that was read as its precondition; empty if not needed.
    pub patch: Vec<serde_json::Value>,
    /// What else differs between the DaemonSet and the manifest whose template is rolled out; it is not changed.
    pub not_applied: Vec<Change>,
    /// How many pods stay on older revisions, as requested, such as `5` or `90%`.
    pub partition: String,
    /// How many nodes should have a pod.
    pub desired: i64,
    /// The nodes that become eligible with the new template and get a pod at once, by name.
    pub nodes_gained: Vec<String>,
    /// The nodes that the new template excludes, so that they lose their pod at once, by name.
    pub nodes_lost: Vec<String>,
    /// The number of pods that stay on older revisions.
    pub keep: i64,
    /// The nodes that have a pod of an older revision.
    pub old: i64,
    /// The nodes that have a pod of the revision already, and none of an older one.
    pub already_updated: i64,
    /// The nodes that should have a pod and have none.
    pub without_pod: i64,
    /// How many nodes are updated in this stage.
    pub update: i64,
    /// The nodes that are updated in this stage, in this order; empty for an Advanced DaemonSet, whose controller chooses.
    pub nodes: Vec<String>,
    /// Nodes with a pod of an older revision that would be updated, but are not ready.
    pub not_ready: Vec<String>,
    /// Nodes with a pod of an older revision that are skipped because of the label `kubectl-ds/skip`.
    pub skipped: Vec<String>,
    /// Whether pods are evicted, so that PodDisruptionBudgets apply, instead of deleted.
    pub evicts: bool,
    /// How many nodes may be without an available pod at a time.
    pub max_unavailable: i64,
    /// Of the nodes that are without an available pod now, how many do not count: in this run, only those count that become so.
    pub not_counted: i64,
    /// How many nodes are without an available pod now.
    pub unavailable: i64,
    /// What has to hold before the next pod is replaced.
    pub gates: Gates,
    /// The stages of the rollout; absent if only one stage was requested.
    pub staged: Option<StagedRollout>,
    /// The update strategy that is restored after the last stage, such as `RollingUpdate 10%`.
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub original_strategy: UpdateStrategy,
    /// Whether the update strategy is restored at the end.
    pub restores_strategy: bool,
    /// What may revert the change, and what it may break.
    pub warnings: Vec<Warning>,
    /// What could not be read, so that the plan may be wrong.
    pub incomplete: Vec<Incomplete>,
    /// The outcome.
    pub outcome: PartitionOutcome,
}

impl super::Report for PartitionReport {
    const KINDS: &'static [&'static str] = &["PartitionReport"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        self.warnings.iter_mut().filter_map(|warning| warning.fix.as_mut()).for_each(&mut *visit);
        self.outcome.way_out.iter_mut().for_each(visit);
    }
}

/// A rollout in several stages.
#[apply(answer!)]
pub struct StagedRollout {
    /// The stages, in their order.
    pub stages: Vec<RolloutStage>,
    /// The nodes that the canary has to update yet, in this order.
    pub canary: Vec<CanaryNode>,
    /// What no node of the canary has, because none of those nodes can be updated now, such as `kernel 6.8.0`.
    pub uncovered: Vec<String>,
}

/// One stage of a rollout.
#[apply(answer!)]
pub struct RolloutStage {
    /// The stage as it was requested, such as `canary` or `10%`.
    pub stage: String,
    /// How far it is.
    pub state: StageState,
    /// How many nodes are updated at its end; absent if it is done.
    pub nodes: Option<i64>,
}

/// How far a stage of a rollout is.
#[apply(value!)]
pub enum StageState {
    /// It has passed its gates.
    Done,
    /// Its nodes are updated, or its gates are checked.
    Now,
    /// It comes later.
    Next,
    /// It has no more nodes than one before.
    Skipped,
}

/// A node of the canary.
#[apply(answer!)]
pub struct CanaryNode {
    /// The node.
    pub node: String,
    /// What no node before it has, such as `kernel 6.8.0`; empty if all nodes are alike.
    pub stands_for: Vec<String>,
}

/// What has to hold before the next pod is replaced.
#[apply(answer!)]
pub struct Gates {
    /// For how many seconds a new pod must be ready.
    pub min_ready_seconds: i64,
    /// How often a new pod may restart.
    pub max_restarts: Option<i32>,
    /// For how many seconds all new pods must be available at the end of the stage.
    pub soak_seconds: i64,
    /// After how many seconds without progress the stage is stopped.
    pub progress_deadline_seconds: i64,
    /// The command that each updated node has to pass; absent if none was given.
    pub verify: Option<String>,
}

/// The outcome of a stage.
#[apply(answer!)]
#[derive(Default)]
pub struct PartitionOutcome {
    /// How far the stage has come.
    pub stage: PartitionStage,
    /// The nodes whose pod was replaced by this run, in this order.
    pub replaced: Vec<String>,
    /// The nodes that have a pod of the revision.
    pub updated: i64,
    /// The nodes that have a pod of an older revision.
    pub old: i64,
    /// The nodes whose pod was deleted or evicted by this run, and that have no new one yet.
    pub being_replaced: Vec<String>,
    /// The nodes that got a pod of the revision during this run, and not by it, in this order: they are new, or their pod was
    /// deleted or evicted or has failed.
    pub leaked: Vec<String>,
    /// The nodes of the stage that are no longer eligible, or were deleted.
    pub gone: Vec<String>,
    /// Why the stage was stopped, or what is wrong although a rollback had no pod left to replace.
    pub failures: Vec<GateFailure>,
    /// How to continue, and how to go back.
    pub way_out: Vec<Fix>,
    /// The warnings in the responses of the API server.
    pub server_warnings: Vec<String>,
}

/// How far a stage has come.
#[apply(value!)]
#[derive(Default)]
pub enum PartitionStage {
    /// It was planned; nothing was sent.
    #[default]
    Planned,
    /// It was sent, and it is not known whether it was applied.
    Unknown,
    /// It was begun; an error says why it has not ended.
    Begun,
    /// A gate has stopped it.
    Stopped,
    /// All its nodes are updated.
    Complete,
    /// No ready node is left to update, and the update strategy is restored.
    Finished,
}

/// A gate that did not hold.
#[apply(answer!)]
pub struct GateFailure {
    /// The gate.
    pub gate: Gate,
    /// The node; absent if it is about several.
    pub node: Option<String>,
    /// The name of the pod; absent if there is none.
    pub pod: Option<String>,
    /// The reason code of coverage; absent if it finds none.
    pub reason: Option<ReasonCode>,
    /// A sentence with the actual values.
    pub message: String,
}

impl GateFailure {
    /// Makes one that is not about a node.
    pub(crate) fn new(gate: Gate, message: String) -> Self {
        GateFailure { gate, node: None, pod: None, reason: None, message }
    }

    /// Returns what has failed, with its node.
    pub(crate) fn in_words(&self) -> String {
        self.node.as_ref().map_or_else(|| self.message.clone(), |node| format!("{node}: {}", self.message))
    }
}

/// What has to hold.
#[apply(value!)]
pub enum Gate {
    /// New pods start.
    Starts,
    /// New pods do not restart.
    Restarts,
    /// Something progresses within the deadline.
    ProgressDeadline,
    /// Updated nodes stay ready.
    NodeReady,
    /// Pods of older revisions stay ready.
    OldPodsReady,
    /// The command of `--verify` succeeds.
    Verify,
    /// Pods of other DaemonSets stay available on the updated nodes.
    OtherDaemonSets,
}
