//! What `list` answers with.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::coverage::{Counts, Incomplete, Trouble};

/// The fleet: a row per DaemonSet, those in trouble first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListReport {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// Always `ListReport`.
    pub kind: String,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, so that the answer is partial.
    pub incomplete: Vec<Incomplete>,
    /// The DaemonSets: most nodes in trouble first, then by namespace and name.
    pub daemon_sets: Vec<ListRow>,
}

/// One DaemonSet of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRow {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Numbers of nodes.
    #[serde(flatten)]
    pub counts: Counts,
    /// The update strategy in short, such as `RollingUpdate 10%` or `OnDelete`.
    pub strategy: String,
    /// When it was created; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Images of the template, in the order of its containers.
    pub images: Vec<String>,
    /// The node selector as `key=value` pairs.
    pub node_selector: Vec<String>,
    /// The primary reasons of its troubles, most nodes first.
    pub troubles: Vec<Trouble>,
}
