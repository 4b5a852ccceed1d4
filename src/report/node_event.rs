//! What happens on nodes while a rollout is followed, and the summary of it.

use jiff::Timestamp;

use super::reason::ReasonCode;

/// Something that happened on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// When it was seen.
    pub at: Timestamp,
    /// The node.
    pub node: String,
    /// The pod, if the node has one.
    pub pod: Option<String>,
    /// What happened.
    pub change: NodeEventKind,
}

/// What can happen on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEventKind {
    /// The node became eligible.
    Added,
    /// The node is no longer eligible, or was deleted.
    Removed,
    /// The pod is being replaced, or a new one is starting.
    Updating,
    /// A pod of the current revision is available, after this many seconds without an available pod, if known.
    Updated(Option<i64>),
    /// A pod of an older revision is available.
    OldAvailable,
    /// The pod fails.
    Failing(Option<ReasonCode>),
    /// Containers were restarted; holds the number of restarts of the pod.
    Restarted(i64),
}

/// What happened to a rollout while it was followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FollowSummary {
    /// For how many seconds it was followed.
    pub seconds: i64,
    /// How many nodes were updated.
    pub updated: usize,
    /// The updated nodes that were without an available pod longest, with the seconds.
    pub slowest: Vec<(String, i64)>,
    /// The nodes whose pods restarted, with the number of restarts, most restarts first.
    pub restarts: Vec<(String, i64)>,
    /// The reasons for which nodes failed, most nodes first.
    pub failed: Vec<FailedNodes>,
}

/// Nodes that failed for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedNodes {
    /// The reason; `None` if there was none.
    pub code: Option<ReasonCode>,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// How many of them do not fail any more.
    pub recovered: usize,
}
