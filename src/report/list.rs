//! The report of `list`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::coverage::{Counts, Incomplete, Trouble};

/// A row per DaemonSet, unhealthy ones first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListReport {
    /// Always `kubectl-ds/v1`.
    pub api_version: String,
    /// Always `ListReport`.
    pub kind: String,
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The DaemonSets: most unhealthy nodes first, then by namespace and name.
    pub daemon_sets: Vec<ListRow>,
}

/// One DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRow {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Node counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The update strategy, such as `RollingUpdate 10%` or `OnDelete`.
    pub strategy: String,
    /// When it was created; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Images of the template, in the order of its containers.
    pub images: Vec<String>,
    /// The node selector as `key=value` pairs.
    pub node_selector: Vec<String>,
    /// The primary reasons of its unhealthy nodes, most nodes first.
    pub troubles: Vec<Trouble>,
}
