//! The report of `history` about several DaemonSets.

use jiff::Timestamp;
use serde::Serialize;

use super::change::Change;
use super::coverage::Incomplete;
use super::history::DaemonSetName;
use super::list::FleetStatus;

/// The rollouts of several DaemonSets, the latest first, as far as their revisions tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TimelineReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The time of `--since`: rollouts that began before it are left out; absent if all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How many DaemonSets were looked at.
    pub daemon_sets: usize,
    /// The DaemonSets whose revisions could not be read: they may have been rolled out, too.
    pub unknown: Vec<DaemonSetName>,
    /// The rollouts, the latest first. Those that are not known to have begun at a time are placed by `notBefore`, and the last one
    /// of a DaemonSet by `notAfter`.
    pub rollouts: Vec<Rollout>,
    /// Revisions that cannot be read and have a higher number than the current one: they are not known to have been rolled out.
    pub unreadable: Vec<UnreadableRevision>,
}

impl super::Report for TimelineReport {
    const KINDS: &'static [&'static str] = &["TimelineReport"];

    const LIST: &'static str = "TimelineReportList";
}

/// A revision whose template cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRevision {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// Its number.
    pub revision: i64,
    /// The name of the ControllerRevision.
    pub name: String,
    /// Why it cannot be read, a fragment.
    pub problem: String,
}

/// One rollout of a DaemonSet: the first one of a revision, or the last one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The DaemonSet.
    pub daemon_set: DaemonSetName,
    /// The number that the revision got; absent if it has another one by now and the former one is unknown, and as long as
    /// the controller has not given it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The name of the ControllerRevision; absent if there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the controller has yet to act on the template.
    pub pending: bool,
    /// When it began, which is when the revision got the number; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// The earliest time that it can have begun; only if `beganAt` is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The latest time that it can have begun; only if `beganAt` is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// The field manager that changed the template, such as `helm`; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The change-cause annotation at the time the revision was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_cause: Option<String>,
    /// The number of the rollout that `changes` compares with, the last one before it that is known; absent if unknown. The revision
    /// may have another number by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<i64>,
    /// Whether other rollouts may have come between the one that `changes` compares with and this one.
    pub others_between: bool,
    /// What it changed; empty if it is the first one that is known.
    pub changes: Vec<Change>,
    /// A short summary of each change.
    pub summary: Vec<String>,
    /// Whether the template had been rolled out before, as by `undo`.
    pub again: bool,
    /// The number of the last rollout before it with an equivalent template; absent if there is none, or it is unknown. The
    /// revision may have another number by now, or have been deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<i64>,
    /// Whether it replaces no pods, because the template is equivalent to that of the rollout right before it: so after an upgrade
    /// of the control plane.
    pub keeps_pods: bool,
    /// Why the template cannot be read, a fragment; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether a later rollout of the DaemonSet is known, other than such as keep the pods.
    pub superseded: bool,
    /// How many pods of the revision there are; absent if unknown, and if the revision has another number by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<usize>,
    /// How far it is; absent unless it is the current one, or those after it keep the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RolloutProgress>,
    /// Its place among others in time.
    #[serde(skip)]
    pub place: Timestamp,
}

/// How far the current rollout of a DaemonSet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgress {
    /// The status of the DaemonSet, as `list` has it.
    pub status: FleetStatus,
    /// Eligible nodes with a pod of the current revision that is not being deleted; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<usize>,
    /// Nodes that should run a pod; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eligible: Option<usize>,
}
