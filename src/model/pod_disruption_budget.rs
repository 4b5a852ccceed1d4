//! PodDisruptionBudgets: how many pods of a selector may be down at a time because of evictions.

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::selector::LabelSelector;

/// A PodDisruptionBudget of policy/v1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodDisruptionBudgetSpec,
    /// The status.
    pub status: PodDisruptionBudgetStatus,
}

/// A PodDisruptionBudget's spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudgetSpec {
    /// Selects the pods: an empty selector all of the namespace, and none no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A PodDisruptionBudget's status, as the disruption controller last wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// How many pods the budget counts.
    pub expected_pods: i64,
    /// How many of them must be healthy.
    pub desired_healthy: i64,
    /// The generation of the spec that the numbers are computed from.
    pub observed_generation: i64,
}

impl PodDisruptionBudget {
    /// Returns how many of its pods may be unavailable; `None` if the controller has not computed that.
    ///
    /// It computes nothing for a percentage, or for `maxUnavailable`, of pods whose owner has no scale subresource, such
    /// as a DaemonSet: `getExpectedPodCount`, pkg/controller/disruption/disruption.go, release 1.37.2.
    pub fn allowed_unavailable(&self) -> Option<i64> {
        let PodDisruptionBudgetStatus { expected_pods, desired_healthy, observed_generation } = self.status;
        let is_computed = expected_pods > 0 && observed_generation >= self.metadata.generation;
        is_computed.then(|| (expected_pods - desired_healthy).max(0))
    }
}
