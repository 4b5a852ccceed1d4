//! The report of `compare`.

use jiff::Timestamp;

use super::Report;
use super::coverage::{Counts, Incomplete};
use super::fix::Fix;
use super::list::Status;
use super::overhead::Amount;
use super::reason::{Reason, ReasonCode, named_values};
use super::strategy::Strategy;

/// Whether DaemonSets are worse off than before, and by what: the difference of two assessments.
#[apply(answer!)]
pub struct CompareReport {
    /// When BEFORE was read; absent if the dump does not say.
    pub before: Option<Timestamp>,
    /// The time that ages are relative to: when AFTER was read, or the newest time in a dump that does not say.
    pub now: Timestamp,
    /// How many seconds BEFORE is older than AFTER, negative if the two were swapped; absent if a dump does not say when it was read.
    pub seconds: Option<i64>,
    /// The answer.
    pub verdict: Comparison,
    /// Whether the two are most likely of different clusters.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub different_clusters: bool,
    /// What was read of the cluster as it is now only, such as `events`: what depends on it is not compared.
    pub not_in_before: Vec<String>,
    /// What was read of the cluster as it was before only.
    pub not_in_after: Vec<String>,
    /// What neither of both has, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// How many nodes there were before; absent if they could not be read.
    pub nodes_before: Option<usize>,
    /// How many nodes there are; absent if they could not be read.
    pub nodes: Option<usize>,
    /// The pools of which nodes were added or removed.
    pub pools: Vec<PoolComparison>,
    /// The DaemonSets, the worst first, and else by namespace and name.
    pub daemon_sets: Vec<DaemonSetComparison>,
    /// DaemonSets, as `NAMESPACE/NAME`, that only one side has, while the other one was not read completely.
    pub not_compared: Vec<String>,
    /// What is left for other pods where that has changed; empty if only some DaemonSets were compared.
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
    /// How something is, compared with before; the worst first.
    Comparison {
        /// It is worse.
        Worse,
        /// It is not known: nodes or pods could not be read on one of the sides.
        Unknown,
        /// It is neither worse nor better.
        Same,
        /// It is better, and nothing is worse.
        Better,
    }
}

/// Nodes of a pool.
#[apply(answer!)]
pub struct PoolComparison {
    /// The pool, by the label of a cloud or an autoscaler; absent for nodes without one.
    pub pool: Option<String>,
    /// How many nodes it had.
    pub before: usize,
    /// How many nodes it has.
    pub now: usize,
    /// How many of its nodes were removed.
    pub removed: usize,
    /// How many nodes have joined it.
    pub added: usize,
    /// Whether it is gone, and fewer nodes like its own were added to other pools than it had.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// If it is gone: the pools that have grown by nodes like its own, which are assumed to replace it. Nodes are alike with the same
    /// operating system, architecture, roles and lasting taints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_by: Vec<String>,
    /// Whether that is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// One DaemonSet before and now.
#[apply(answer!)]
pub struct DaemonSetComparison {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// How it is, compared with before.
    pub verdict: Comparison,
    /// How it was doing; absent if it did not exist.
    pub status_before: Option<Status>,
    /// How it is doing; absent if it no longer exists.
    pub status: Option<Status>,
    /// Whether its rollout is blocked or degraded, or no node is eligible, which was not so before and is not accepted; absent if it may
    /// have been so before.
    pub stopped: Option<bool>,
    /// Whether it no longer exists, which is not accepted.
    pub gone: bool,
    /// Node counts before; absent if it did not exist.
    pub counts_before: Option<Counts>,
    /// Node counts; absent if it no longer exists.
    pub counts: Option<Counts>,
    /// The nodes that are worse off, by reason; most nodes first, and last what is accepted.
    pub setbacks: Vec<Setback>,
    /// Nodes that had no available pod, and have one.
    pub gained: Vec<String>,
    /// The reasons with another number of nodes than before; empty if something was read on one side only.
    pub reasons: Vec<ReasonChange>,
    /// Problems of the DaemonSet as a whole that are new.
    pub new_concerns: Vec<Reason>,
    /// Problems of the DaemonSet as a whole that may not be new, because BEFORE lacks what they may follow from.
    pub unconfirmed_concerns: Vec<Reason>,
    /// What differs in the template, in short. What a redacted dump hides is not compared.
    pub template_changes: Vec<String>,
    /// The update strategy before, if it has changed.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub strategy_before: Option<Strategy>,
    /// The update strategy, if it has changed.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<String>"))]
    pub strategy: Option<Strategy>,
    /// How often containers were restarted since.
    pub restarts: i64,
    /// Nodes whose pod was restarted at least three times, at least once a day on average, and at least twice as often as before.
    pub restarting: Vec<String>,
    /// How many seconds after its creation a pod was ready: the median before.
    pub seconds_to_ready_before: Option<i64>,
    /// The same of pods that were created since, if that is at least twice as long, and half a minute longer.
    pub seconds_to_ready: Option<i64>,
    /// What shows more, if it is worse.
    pub details: Option<Fix>,
}

impl DaemonSetComparison {
    /// Returns the setbacks that are certain and not accepted.
    pub fn counted(&self) -> impl Iterator<Item = &Setback> {
        self.setbacks.iter().filter(|setback| !setback.accepted && !setback.unconfirmed)
    }
}

/// Nodes that are worse off than before for the same reason.
#[apply(answer!)]
pub struct Setback {
    /// The reason; absent if nothing is known of it.
    pub code: Option<ReasonCode>,
    /// Whether the nodes had an available pod, or the nodes of the pool that they have replaced.
    pub had_pod: bool,
    /// Whether the nodes have joined the cluster since.
    pub new_nodes: bool,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// A sentence with the actual values.
    pub message: String,
    /// Whether it only takes time.
    pub passing: bool,
    /// Whether it may have been so before, because BEFORE lacks what it may follow from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// Whether it is accepted.
    pub accepted: bool,
}

/// A reason with another number of nodes than before.
#[apply(answer!)]
#[derive(Copy)]
pub struct ReasonChange {
    /// The reason.
    pub code: ReasonCode,
    /// How many nodes it was about; 0 also if it was about the DaemonSet as a whole.
    pub before: usize,
    /// How many nodes it is about.
    pub now: usize,
}

/// What is left of a resource beside DaemonSets, on the node of a shape with the least.
#[apply(answer!)]
pub struct Headroom {
    /// The instance type of the nodes; absent for those without the label.
    pub instance_type: Option<String>,
    /// What was left.
    pub before: Amount,
    /// What is left.
    pub now: Amount,
}
