//! The plan of a change to a DaemonSet, and its outcome.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::change::Change;
use super::history::DaemonSetName;

/// A change of a DaemonSet's template: a rollback to a revision (`undo`), or a restart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// What is done.
    pub kind: PlanKind,
    /// Whose template is changed.
    pub daemon_set: DaemonSetName,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// The revision that the live template is; absent if it has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_revision: Option<i64>,
    /// The revision that the template is taken from; absent for a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<i64>,
    /// When that revision was last rolled out; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_out_at: Option<Timestamp>,
    /// Why that revision was chosen, a sentence; absent if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether there is anything to do; `false` if the live template already has the same meaning.
    pub needed: bool,
    /// How the template changes.
    pub changes: Vec<Change>,
    /// The JSON Patch that is sent, with the resource version that was read as its precondition; empty if not needed.
    pub patch: Vec<Value>,
    /// What will prevent the change from having an effect, or revert it.
    pub warnings: Vec<Warning>,
    /// The pods that keep another revision until they are deleted; only under OnDelete.
    pub pods_left: Vec<PodLeft>,
    /// The outcome.
    pub outcome: Outcome,
}

/// What a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum PlanKind {
    /// Rolls back to the template of a revision.
    UndoPlan,
    /// Restarts all pods.
    RestartPlan,
}

/// Something to know before the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// A code for programs.
    pub code: WarningCode,
    /// A sentence for people.
    pub message: String,
}

/// The kind of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum WarningCode {
    /// Another object controls the DaemonSet.
    Owner,
    /// An Argo CD application manages it.
    ArgoCd,
    /// Flux manages it.
    Flux,
    /// A Helm release manages it.
    Helm,
    /// The last applied manifest has another template.
    LastApplied,
    /// Fields of the template are managed with server-side apply.
    ServerSideApply,
    /// It is being deleted, so its controller no longer reconciles it.
    Deleting,
    /// Pods are only replaced when they are deleted.
    OnDelete,
    /// The rolling update of an Advanced DaemonSet is paused.
    Paused,
    /// The partition of an Advanced DaemonSet keeps some pods on the old revision.
    Partition,
    /// Pods of an Advanced DaemonSet are updated in place, so their containers do not restart.
    InPlace,
    /// No old revisions are retained.
    NoHistory,
}

/// A pod that keeps another revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodLeft {
    /// The node.
    pub node: String,
    /// The name of the pod.
    pub pod: String,
    /// The number of its revision; absent if it is no longer retained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The stage that was reached.
    pub stage: Stage,
    /// The revision number of the template; absent until the controller has assigned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Whether that is the target revision itself, renumbered.
    pub is_target: bool,
    /// Whether the revision before the change is still retained, so that it can be rolled back to.
    pub can_return: bool,
    /// Whether the DaemonSet was changed again before the controller acted.
    pub changed_again: bool,
    /// The differences between the plan and the server's result, due to webhooks and defaults.
    pub made_by_server: Vec<Change>,
    /// What others changed after the DaemonSet was read, so that the plan was not carried out.
    pub changed_by_others: Vec<Change>,
}

/// The stages of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Stage {
    /// No change was needed.
    #[default]
    NotNeeded,
    /// It was planned; nothing was sent.
    Planned,
    /// The server has processed it without persisting it.
    TriedOut,
    /// It was not applied: the server refused it, or the DaemonSet had changed.
    Refused,
    /// It was sent, and whether it was applied is not known.
    Unknown,
    /// The server has applied it; the controller was not seen to act on it.
    Applied,
    /// The server has applied it, and the controller has created a revision of it.
    Observed,
}
