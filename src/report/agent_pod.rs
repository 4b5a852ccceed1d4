//! The report of `pod`.

use serde::Serialize;

use super::coverage::PodSummary;

/// The pod that a DaemonSet has on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// The namespace of the DaemonSet and of the pod.
    pub namespace: String,
    /// The name of the DaemonSet.
    pub daemon_set: String,
    /// The node.
    pub node: String,
    /// The pod; of several, one that is available.
    pub pod: PodSummary,
}

impl super::Report for PodReport {
    const KINDS: &'static [&'static str] = &["PodReport"];
}
