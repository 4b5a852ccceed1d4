//! What a command that changes a DaemonSet is about to do, and what became of it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::change::Change;
use super::history::DaemonSetName;

/// A change of a DaemonSet's template: back to a revision (`undo`), or a restart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// `UndoPlan` or `RestartPlan`.
    pub kind: String,
    /// Whose template is changed.
    pub daemon_set: DaemonSetName,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// The revision that the live template is; absent where it is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_revision: Option<i64>,
    /// The revision that the template is taken from; absent for a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<i64>,
    /// When that revision was last rolled out; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_out_at: Option<Timestamp>,
    /// Why it is that revision, a sentence; absent where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether there is anything to do: not where the live template means what it would become.
    pub needed: bool,
    /// How the template changes.
    pub changes: Vec<Change>,
    /// The JSON Patch that is sent, locked on the version that was read; empty where there is nothing to do.
    pub patch: Vec<Value>,
    /// What will keep the change from having an effect, or take it back.
    pub warnings: Vec<Warning>,
    /// The pods that stay on another revision until they are deleted; only under OnDelete.
    pub pods_left: Vec<PodLeft>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Something to know before the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// A word for programs.
    pub code: WarningCode,
    /// A sentence for people.
    pub message: String,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum WarningCode {
    /// Another object controls the DaemonSet.
    Owner,
    /// An Argo CD application manages it.
    ArgoCd,
    /// Flux manages it.
    Flux,
    /// A Helm release made it.
    Helm,
    /// The manifest that was last applied has another template.
    LastApplied,
    /// Somebody manages fields of the template by server-side apply.
    ServerSideApply,
    /// It is being deleted, and its controller has let go of it.
    Deleting,
    /// Pods are replaced only once somebody deletes them.
    OnDelete,
    /// The rolling update of an Advanced DaemonSet is paused.
    Paused,
    /// A part of the pods of an Advanced DaemonSet is kept as it is.
    Partition,
    /// Pods of an Advanced DaemonSet are changed in place, so that their containers do not restart.
    InPlace,
    /// No revisions are kept.
    NoHistory,
}

/// A pod that stays on another revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodLeft {
    /// The node.
    pub node: String,
    /// The name of the pod.
    pub pod: String,
    /// The number of its revision; absent where that is not kept any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// What became of a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How far it went.
    pub stage: Stage,
    /// The number that the template has as a revision; absent until the controller has given it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Whether that is the very revision that the template was taken from, under a new number.
    pub is_target: bool,
    /// Whether the revision before the change is still kept, so that there is a way back to it.
    pub can_return: bool,
    /// Whether somebody has changed the DaemonSet again before the controller acted.
    pub changed_again: bool,
    /// How the server's own result differs from what was planned, through webhooks and defaults.
    pub made_by_server: Vec<Change>,
}

/// How far a change went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Stage {
    /// There was nothing to do.
    #[default]
    NotNeeded,
    /// It was planned here, and nothing was sent.
    Planned,
    /// The server tried it out, and kept nothing.
    TriedOut,
    /// The server has taken it.
    Applied,
    /// The server has taken it, and the controller has made a revision of it.
    Observed,
}
