//! What would change if manifests were applied.

use jiff::Timestamp;
use serde::Serialize;

use super::Report;
use super::coverage::{Incomplete, ReasonGroup};
use super::fix::Fix;
use super::plan::Warning;
use super::reason::Reason;

/// What would change if each of several DaemonSets were applied, each without the others, in the order of the manifests.
pub type WhatIfReportList = super::ReportList<WhatIfReport>;

/// What would change if a manifest were applied.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WhatIfReport {
    /// The time that ages are relative to.
    pub now: Timestamp,
    /// What could not be read, which makes the report partial.
    pub incomplete: Vec<Incomplete>,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Whether a DaemonSet with this name exists.
    pub exists: bool,
    /// What is previewed.
    pub preview: Preview,
    /// Nodes that were examined.
    pub nodes_total: usize,
    /// Nodes that should run a pod of the live DaemonSet; 0 if it does not exist.
    pub eligible_now: usize,
    /// Nodes that would run a pod of the manifest.
    pub eligible_then: usize,
    /// Whether the template differs from the live one; `null` if there is none.
    pub template_changes: Option<bool>,
    /// Whether the update strategy would be OnDelete, so that pods keep their template until they are deleted.
    pub on_delete: bool,
    /// Whether the API server was asked whether it would admit the pods, and whether what they mount exists.
    pub admission_checked: bool,
    /// Problems that would occur now when the pods are replaced.
    pub warnings: Vec<Warning>,
    /// Nodes that keep a pod, by name.
    pub keeps: Vec<String>,
    /// Nodes that should run a pod both before and after the change, but have none now, by name.
    pub missing: Vec<String>,
    /// Nodes that would gain a pod that fits and starts, as far as is known, by name.
    pub gains: Vec<String>,
    /// Nodes that would lose their pod, now or once it is deleted, by reason.
    pub loses: Vec<ReasonGroup>,
    /// Nodes that would run a pod that fits because the scheduler preempts other pods for it.
    pub fits_by_preemption: Vec<ReasonGroup>,
    /// Nodes that would run a pod that does not fit, by reason.
    pub does_not_fit: Vec<ReasonGroup>,
    /// Nodes that would run a pod that would not start even if it fits, by reason.
    pub does_not_start: Vec<ReasonGroup>,
    /// Why nodes would not be eligible; empty if one would be and the DaemonSet exists already.
    pub not_eligible: Vec<ReasonGroup>,
    /// The nodes by the value of a label; `null` unless requested.
    pub by: Option<ChangesBy>,
    /// Each node, by name.
    pub nodes: Vec<NodeChange>,
}

impl WhatIfReport {
    /// Returns whether every pod would start, and no more than half of the nodes would lose theirs.
    pub fn passes(&self) -> bool {
        let lost: usize = self.loses.iter().map(|group| group.count).sum();
        self.does_not_fit.is_empty() && self.does_not_start.is_empty() && lost * 2 <= self.eligible_now
    }
}

impl Report for WhatIfReport {
    const KINDS: &'static [&'static str] = &["WhatIfReport"];
    const LIST: &'static str = "WhatIfReportList";

    fn suggestions(&mut self, visit: &mut dyn FnMut(&mut Fix)) {
        let WhatIfReport {
            warnings, loses, fits_by_preemption, does_not_fit, does_not_start, not_eligible, nodes, ..
        } = self;
        warnings.iter_mut().filter_map(|warning| warning.fix.as_mut()).for_each(&mut *visit);
        let groups =
            loses.iter_mut().chain(fits_by_preemption).chain(does_not_fit).chain(does_not_start).chain(not_eligible);
        groups.for_each(|group| visit(&mut group.fix));
        nodes.iter_mut().filter_map(|node| node.reason.as_mut()).for_each(|reason| visit(&mut reason.fix));
    }
}

/// What of a manifest is previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum Preview {
    /// The DaemonSet would be created.
    Create,
    /// `kubectl apply`: fields that the last applied manifest does not have stay as they are.
    ClientSideApply,
    /// `kubectl apply --server-side`: fields of other managers stay as they are.
    ServerSideApply,
    /// `kubectl replace`: what the manifest does not have gets the default.
    Replace,
}

/// What would change on one node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeChange {
    /// The name.
    pub name: String,
    /// What would happen to its pod.
    pub change: PodChange,
    /// Whether the pod would start and the node has room for it, or the scheduler makes some by preemption; `null` if it would not
    /// run one, or if that is not known.
    pub fits: Option<bool>,
    /// The pods that the scheduler would preempt to make room; `null` if it need not, or if that would not help.
    pub preemption: Option<NodePreemption>,
    /// Why the pod would not start or fit, or fits only by preemption, or why the node would not run one.
    pub reason: Option<Reason>,
}

/// The pods of a node that the scheduler would preempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodePreemption {
    /// Those that it would preempt for certain, the highest priority first.
    pub pods: Vec<PreemptedPod>,
    /// Pods of which it would preempt some: equally important ones, or all if the PodDisruptionBudgets are not known.
    pub some_of: Vec<PreemptedSome>,
}

/// A pod that the scheduler would preempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PreemptedPod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The priority.
    pub priority: i32,
    /// Whether that violates a PodDisruptionBudget; `null` if it is not known.
    pub violates_disruption_budget: Option<bool>,
}

/// Pods of which the scheduler would preempt some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PreemptedSome {
    /// How many at least.
    pub at_least: usize,
    /// How many at most.
    pub at_most: usize,
    /// The pods.
    pub pods: Vec<PreemptedPod>,
}

/// What would happen to the pod of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum PodChange {
    /// The node would lose its pod, or it would not be recreated.
    Loses,
    /// The node would gain a pod that fits and starts, as far as is known.
    Gains,
    /// The node should run a pod both before and after the change, but has none now.
    Missing,
    /// The node would keep its pod.
    Keeps,
    /// The node runs no pod, and would run none.
    None,
}

/// What would change by the value of a node label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangesBy {
    /// The label.
    pub label: String,
    /// A row for each value.
    pub rows: Vec<ChangesByRow>,
}

/// What would change on the nodes with one value of a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangesByRow {
    /// The value; `null` for nodes without the label.
    pub value: Option<String>,
    /// Nodes that should run a pod of the live DaemonSet.
    pub eligible_now: usize,
    /// Nodes that would run a pod of the manifest.
    pub eligible_then: usize,
    /// Nodes that would run a pod that does not fit.
    pub does_not_fit: usize,
    /// Nodes that would run a pod that would not start.
    pub does_not_start: usize,
}
