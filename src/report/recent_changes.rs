//! The report of `changes`.

use jiff::Timestamp;
use serde::Serialize;

use super::coverage::Incomplete;

/// What has changed in the cluster that DaemonSets depend on, the latest change first, as far as the API keeps times.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangesReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The time of `--since`: changes before it are left out; absent if all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The changes, the latest first.
    pub changes: Vec<ClusterChange>,
    /// How many rollouts have an unknown time: they may be later than any change.
    pub rollouts_without_time: usize,
    /// How many nodes have no managed fields, so that changes of their labels, taints and cordons are not known.
    pub nodes_without_managed_fields: usize,
    /// How many other objects have none, so that changes of update strategies, quotas and labels are not known.
    pub others_without_managed_fields: usize,
}

impl super::Report for ChangesReport {
    const KINDS: &'static [&'static str] = &["ChangesReport"];
}

/// A change of an object, or the same change of several nodes within 30 seconds of each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterChange {
    /// When it happened; of several objects, that of the last one.
    pub at: Timestamp,
    /// When the first of several objects was changed; absent if that is the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Timestamp>,
    /// The kind of the objects.
    pub kind: ChangedKind,
    /// The namespace; absent for nodes and namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The names of the objects, sorted.
    pub names: Vec<String>,
    /// What happened.
    pub what: ChangeOf,
    /// What was changed, in fragments: of a template each change; if `what` is `Written`, the fields that may have been changed.
    pub details: Vec<String>,
    /// The field manager that made the change, such as `helm`; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The kind of an object that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum ChangedKind {
    /// A DaemonSet, or an Advanced DaemonSet of OpenKruise.
    DaemonSet,
    /// A node.
    Node,
    /// A LimitRange of a namespace with DaemonSets.
    LimitRange,
    /// A ResourceQuota of a namespace with DaemonSets.
    ResourceQuota,
    /// A namespace with DaemonSets.
    Namespace,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum ChangeOf {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// The template of a DaemonSet got the highest revision number: it was changed, or rolled back.
    RolledOut,
    /// A node was cordoned: the node controller tainted it for that.
    Cordoned,
    /// A taint was added to a node, or a controller that found it there set its time again: the node controller does so when it
    /// starts.
    Tainted,
    /// A node was uncordoned, which only `--watch` can tell.
    Uncordoned,
    /// A taint was removed from a node, which only `--watch` can tell.
    Untainted,
    /// A field manager changed the object. What it changed is not kept: perhaps some of the fields that it owns.
    Written,
}
