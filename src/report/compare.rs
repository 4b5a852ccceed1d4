//! The report of `compare`.

use jiff::Timestamp;

use super::Report;
use super::coverage::{Counts, Incomplete};
use super::fix::Fix;
use super::list::Status;
use super::overhead::Amount;
use super::reason::{Reason, ReasonCode, named_values};
use crate::model::daemon_set::UpdateStrategy;

/// How the DaemonSets of a cluster compare with an earlier state.
#[apply(answer!)]
pub struct CompareReport {
    /// When BEFORE was read; absent if the dump does not say.
    pub before: Option<Timestamp>,
    /// The time that ages are relative to: when AFTER was read, or the newest time in a dump that does not say.
    pub now: Timestamp,
    /// How many seconds BEFORE is older than AFTER, negative if the two were swapped; absent if a dump does not say when it was read.
    pub seconds: Option<i64>,
    /// The overall verdict: the worst of all DaemonSets and pools.
    pub verdict: Comparison,
    /// Whether BEFORE and AFTER are most likely different clusters.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub different_clusters: bool,
    /// Resources that only AFTER has, such as `events`; differences that depend on them are not compared.
    pub not_in_before: Vec<String>,
    /// Resources that only BEFORE has.
    pub not_in_after: Vec<String>,
    /// What is missing on both sides, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The number of nodes in BEFORE; absent if they could not be read.
    pub nodes_before: Option<usize>,
    /// The number of nodes in AFTER; absent if they could not be read.
    pub nodes: Option<usize>,
    /// The node pools to which nodes were added, or from which nodes were removed.
    pub pools: Vec<PoolComparison>,
    /// The DaemonSets, worst first, then by namespace and name.
    pub daemon_sets: Vec<DaemonSetComparison>,
    /// DaemonSets, as `NAMESPACE/NAME`, that only one side has, while the other one was not read completely.
    pub not_compared: Vec<String>,
    /// What is left for other pods, by instance type, if it has changed; empty if only some DaemonSets were compared.
    pub headroom: Vec<Headroom>,
}

impl Report for CompareReport {
    const KINDS: &'static [&'static str] = &["CompareReport"];

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        for one in &mut self.daemon_sets {
            let concerns = one.new_concerns.iter_mut().chain(&mut one.unconfirmed_concerns);
            concerns.for_each(|concern| visit(&mut concern.fix));
            one.details.iter_mut().for_each(&mut *visit);
        }
    }
}

named_values! {
    /// How AFTER compares with BEFORE, worst first.
    #[derive(Default)]
    Comparison {
        /// Something is worse.
        Worse,
        /// Nothing is known to be worse, but what could not be read on one side may be.
        #[default]
        Unknown,
        /// Nothing is worse or better.
        Same,
        /// Something is better, and nothing is worse.
        Better,
    }
}

/// A node pool whose nodes have changed.
#[apply(answer!)]
#[derive(Default)]
pub struct PoolComparison {
    /// The name of the pool, from a label of the cloud provider or autoscaler; absent for nodes without such a label.
    pub pool: Option<String>,
    /// The number of nodes in BEFORE.
    pub before: usize,
    /// The number of nodes in AFTER.
    pub now: usize,
    /// The number of nodes that were removed.
    pub removed: usize,
    /// The number of nodes that were added.
    pub added: usize,
    /// Whether it is gone, and fewer nodes like its own were added to other pools than it had.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// If it is gone: the pools that have grown by nodes like its own, which are assumed to replace it. Nodes are alike with the same
    /// operating system, architecture, roles and lasting taints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_by: Vec<String>,
    /// Whether `--accept fewer-nodes` accepts that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// One DaemonSet in BEFORE and AFTER.
#[apply(answer!)]
#[derive(Default)]
pub struct DaemonSetComparison {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// How the DaemonSet compares with BEFORE.
    pub verdict: Comparison,
    /// The status in BEFORE; absent if the DaemonSet did not exist.
    pub status_before: Option<Status>,
    /// The status in AFTER; absent if the DaemonSet no longer exists.
    pub status: Option<Status>,
    /// Whether its rollout is blocked or degraded, or no node is eligible, which was not so before and is not accepted; absent if it may
    /// have been so before.
    pub stopped: Option<bool>,
    /// Whether the DaemonSet no longer exists and that is not accepted.
    pub gone: bool,
    /// Node counts in BEFORE; absent if the DaemonSet did not exist.
    pub counts_before: Option<Counts>,
    /// Node counts in AFTER; absent if the DaemonSet no longer exists.
    pub counts: Option<Counts>,
    /// The nodes that are worse off, grouped by reason; largest group first, accepted groups last.
    pub setbacks: Vec<Setback>,
    /// Nodes that had no available pod and now have one.
    pub gained: Vec<String>,
    /// Reasons whose number of nodes has changed; empty if a resource was read on one side only.
    pub reasons: Vec<ReasonChange>,
    /// New problems of the DaemonSet as a whole.
    pub new_concerns: Vec<Reason>,
    /// Problems of the DaemonSet as a whole that may not be new, because BEFORE lacks what they may follow from.
    pub unconfirmed_concerns: Vec<Reason>,
    /// Short descriptions of what changed in the pod template; redacted values are not compared.
    pub template_changes: Vec<String>,
    /// The update strategy in BEFORE, if it has changed.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub strategy_before: Option<UpdateStrategy>,
    /// The update strategy in AFTER, if it has changed.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub strategy: Option<UpdateStrategy>,
    /// The number of container restarts since BEFORE.
    pub restarts: i64,
    /// Nodes whose pod was restarted at least three times, at least once a day on average, and at least twice as often as before.
    pub restarting: Vec<String>,
    /// The median time from the creation of a pod until it was ready, in seconds, in BEFORE; set with `secondsToReady`.
    pub seconds_to_ready_before: Option<i64>,
    /// The median of the pods created since, if it is at least twice as long and 30 seconds longer.
    pub seconds_to_ready: Option<i64>,
    /// The command that shows details, if the verdict is Worse or Unknown.
    pub details: Option<Fix>,
}

impl DaemonSetComparison {
    /// Returns the setbacks that are certain and not accepted.
    pub fn counted(&self) -> impl Iterator<Item = &Setback> {
        self.setbacks.iter().filter(|setback| !setback.accepted && !setback.unconfirmed)
    }
}

/// Nodes that are worse off than in BEFORE for the same reason.
#[apply(answer!)]
pub struct Setback {
    /// The reason code; absent if the reason is not known.
    pub code: Option<ReasonCode>,
    /// Whether the nodes, or the nodes that they replace, had an available pod.
    pub had_pod: bool,
    /// Whether the nodes were added since BEFORE.
    pub new_nodes: bool,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// A sentence with the actual values.
    pub message: String,
    /// Whether it passes by itself, such as pods that are starting.
    pub passing: bool,
    /// Whether it may have been so before, because BEFORE lacks what it may follow from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// Whether `--accept` accepts it.
    pub accepted: bool,
}

/// A reason whose number of nodes has changed.
#[apply(answer!)]
#[derive(Copy)]
pub struct ReasonChange {
    /// The reason code.
    pub code: ReasonCode,
    /// The number of nodes in BEFORE; 0 also for a reason about the DaemonSet as a whole.
    pub before: usize,
    /// The number of nodes in AFTER.
    pub now: usize,
}

/// What DaemonSets leave of a resource for other pods, on the node of an instance type with the least.
#[apply(answer!)]
pub struct Headroom {
    /// The instance type; absent for nodes without the label.
    pub instance_type: Option<String>,
    /// The amount in BEFORE.
    pub before: Amount,
    /// The amount in AFTER.
    pub now: Amount,
}
