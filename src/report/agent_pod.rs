//! The report of `pod`.

use super::node_coverage::PodSummary;

/// The pod that a DaemonSet has on a node.
#[apply(answer!)]
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

    fn names(&self) -> Vec<String> {
        vec![format!("pod/{}", self.pod.name)]
    }
}
