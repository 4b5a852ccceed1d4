//! The report of `logs`.

use serde::Serialize;

/// What the pods of a DaemonSet have logged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LogsReport {
    /// The namespace of the DaemonSet.
    pub namespace: String,
    /// The name of the DaemonSet.
    pub daemon_set: String,
    /// The logs, by node.
    pub logs: Vec<PodLog>,
    /// The lines by the nodes that have them, those of most nodes first. Lines of several pods that are equal but for times, numbers
    /// and names are one line, that of the first pod.
    pub blocks: Vec<LogBlock>,
}

impl super::Report for LogsReport {
    const KINDS: &'static [&'static str] = &["LogsReport"];
}

/// A log that was read, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodLog {
    /// The node.
    pub node: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// Whether it is the log of the run before the last restart.
    pub previous: bool,
    /// Whether earlier lines, which were requested, are left out because there are too many.
    pub truncated: bool,
    /// Why it, or its end, could not be read; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl LogBlock {
    /// Returns every line of the only log; of an empty one, no block.
    pub(crate) fn of_one(nodes: &[String], text: &str) -> Vec<LogBlock> {
        let block = LogBlock { nodes: nodes.to_vec(), lines: text.lines().map(str::to_owned).collect() };
        Some(block).filter(|block| !block.lines.is_empty()).into_iter().collect()
    }
}

/// Lines that the logs of some nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LogBlock {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// The lines.
    pub lines: Vec<String>,
}
