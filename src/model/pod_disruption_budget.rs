//! What may keep pods from being evicted: PodDisruptionBudgets, and annotations for autoscalers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metadata::ObjectMeta;
use super::pod::Pod;
use super::selector::LabelSelector;
use super::time::Time;
use super::wire::null_is_default;

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
    /// How many pods may be evicted now.
    pub disruptions_allowed: i64,
    /// When pods were evicted that have not left yet, by name.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Time>,
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
        let PodDisruptionBudgetStatus { expected_pods, desired_healthy, observed_generation, .. } = self.status;
        let is_computed = expected_pods > 0 && observed_generation >= self.metadata.generation;
        is_computed.then(|| (expected_pods - desired_healthy).max(0))
    }

    /// Returns whether the API server refuses now to evict a ready pod because of it: `Create` and `checkAndDecrement`,
    /// pkg/registry/core/pod/storage/eviction.go, release 1.37.2. An unready pod may be evicted all the same.
    pub fn keeps(&self, pod: &HeldPod) -> bool {
        let PodDisruptionBudgetStatus { disruptions_allowed, observed_generation, .. } = self.status;
        let allows_none = disruptions_allowed <= 0 || observed_generation < self.metadata.generation;
        let selects = self.spec.selector.as_ref().is_some_and(|selector| selector.matches(&pod.pod.metadata.labels));
        allows_none
            && selects
            && pod.pod.metadata.namespace == self.metadata.namespace
            && pod.pod.is_ready()
            && pod.pod.status.phase == "Running"
    }
}

/// A pod on a node that an autoscaler removes.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPod {
    /// The pod.
    pub pod: Pod,
    /// The annotation by which it is not to be evicted, with its value; `None` without one.
    pub annotation: Option<String>,
}

impl HeldPod {
    /// The annotations by which Karpenter (`HasDoNotDisrupt`, pkg/utils/pod/scheduling.go) and Cluster Autoscaler leave a pod, with
    /// their values.
    const ANNOTATIONS: [(&str, &str); 2] =
        [("karpenter.sh/do-not-disrupt", "true"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")];

    /// Reads a pod.
    ///
    /// # Errors
    ///
    /// Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        let has = |(key, value): &&(&str, &str)| object["metadata"]["annotations"][*key] == *value;
        let annotation = HeldPod::ANNOTATIONS.iter().find(has).map(|(key, value)| format!("{key}={value}"));
        let pod = serde_path_to_error::deserialize(object).map_err(|error| error.to_string())?;
        Ok(HeldPod { pod, annotation })
    }
}
