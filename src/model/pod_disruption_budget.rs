//! PodDisruptionBudgets, and whether they allow the API server to evict a pod.

use std::collections::BTreeMap;

use super::metadata::ObjectMeta;
use super::pod::{Pod, PodCondition};
use super::selector::LabelSelector;
use super::time::Time;

json_object! {
    /// A PodDisruptionBudget of policy/v1.
    pub struct PodDisruptionBudget {
        /// Name and namespace.
        metadata: ObjectMeta,
        /// The spec.
        spec: PodDisruptionBudgetSpec,
        /// The status.
        status: PodDisruptionBudgetStatus,
    }

    /// A PodDisruptionBudget's spec.
    pub struct PodDisruptionBudgetSpec {
        /// Selects the pods: an empty selector matches all in the namespace, an absent one none.
        selector: Option<LabelSelector>,
        /// When unready pods may be evicted: `IfHealthyBudget` (also if absent), or `AlwaysAllow`.
        unhealthy_pod_eviction_policy: Option<String>,
    }

    /// A PodDisruptionBudget's status, as the disruption controller last wrote it.
    pub struct PodDisruptionBudgetStatus {
        /// The number of pods that may be evicted now.
        disruptions_allowed: i64,
        /// Eviction times of pods that still exist, by name.
        disrupted_pods: BTreeMap<String, Time>,
        /// The number of pods that the budget counts.
        expected_pods: i64,
        /// The number of healthy pods.
        current_healthy: i64,
        /// The number of pods that must be healthy.
        desired_healthy: i64,
        /// The generation of the spec from which the numbers were computed.
        observed_generation: i64,
        /// Whether it allows disruptions, and whether that can be computed.
        conditions: Vec<PodCondition>,
    }
}

impl PodDisruptionBudget {
    /// Returns how many of its pods may be unavailable; `None` if the controller has not computed that.
    ///
    /// It cannot compute a percentage, or `maxUnavailable`, for pods whose owner has no scale subresource, such as a
    /// DaemonSet: `getExpectedPodCount`, pkg/controller/disruption/disruption.go, release 1.37.2.
    pub fn allowed_unavailable(&self) -> Option<i64> {
        let PodDisruptionBudgetStatus { expected_pods, desired_healthy, observed_generation, .. } = self.status;
        let is_computed = expected_pods > 0 && observed_generation >= self.metadata.generation;
        is_computed.then(|| (expected_pods - desired_healthy).max(0))
    }

    /// Returns why the controller cannot compute how many pods may be evicted, so that none may: `failSafe`,
    /// pkg/controller/disruption/disruption.go, release 1.37.2.
    pub fn failure(&self) -> Option<&str> {
        let failed = self.status.conditions.iter().find(|condition| condition.reason == "SyncFailed");
        failed.filter(|condition| condition.status == "False").map(|condition| condition.message.as_str())
    }

    /// Returns whether it selects pods with these labels in a namespace.
    pub fn selects(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.metadata.namespace == namespace
            && self.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Returns whether the API server currently refuses to evict a running pod that no other budget selects.
    fn refuses(&self, pod: &Pod) -> bool {
        let status = &self.status;
        if !pod.is_ready() {
            let always = self.spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow");
            let is_healthy = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
            if always || is_healthy {
                return false;
            }
        }
        status.observed_generation < self.metadata.generation
            || status.disruptions_allowed <= 0
            || status.disrupted_pods.len() > MAX_DISRUPTED_PODS
    }
}

/// The most evicted pods that may still exist: `MaxDisruptedPodSize`, pkg/registry/core/pod/storage/eviction.go, release 1.37.2.
const MAX_DISRUPTED_PODS: usize = 2000;

/// Whether the PodDisruptionBudgets of a cluster allow a pod to be evicted now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Eviction<'a> {
    /// They do.
    Allowed,
    /// This one does not allow it.
    RefusedBy(&'a PodDisruptionBudget),
    /// Several select the pod, which the API server does not support: it never evicts the pod.
    SeveralBudgets,
}

/// Returns whether the budgets allow a pod to be evicted now.
///
/// Ported from `Create`, `canIgnorePDB` and `checkAndDecrement`, pkg/registry/core/pod/storage/eviction.go, release 1.37.2.
pub fn eviction<'a>(budgets: &'a [PodDisruptionBudget], pod: &Pod) -> Eviction<'a> {
    if pod.is_terminal() || pod.status.phase == "Pending" || pod.metadata.is_terminating() {
        return Eviction::Allowed;
    }
    let metadata = &pod.metadata;
    let mut selecting = budgets.iter().filter(|budget| budget.selects(&metadata.namespace, &metadata.labels));
    match (selecting.next(), selecting.next()) {
        (Some(_), Some(_)) => Eviction::SeveralBudgets,
        (Some(budget), None) if budget.refuses(pod) => Eviction::RefusedBy(budget),
        _ => Eviction::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{Eviction, PodDisruptionBudget, eviction};
    use crate::model::pod::Pod;

    fn budget(policy: Value, status: Value) -> PodDisruptionBudget {
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "unhealthyPodEvictionPolicy": policy});
        let metadata = json!({"name": "web", "namespace": "shop", "generation": 2});
        from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn pod(phase: &str, ready: &str) -> Pod {
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        from_value(
            json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}}, "status": status}),
        )
        .unwrap()
    }

    fn status(current: i64, desired: i64, allowed: i64) -> Value {
        json!({"observedGeneration": 2, "currentHealthy": current, "desiredHealthy": desired, "disruptionsAllowed": allowed})
    }

    #[test]
    fn an_unready_pod_is_evicted_without_a_disruption_only_if_enough_others_are_healthy() {
        for (policy, status, ready, is_allowed) in [
            (json!(null), status(3, 3, 0), "True", false),
            (json!(null), status(4, 3, 1), "True", true),
            // The others are those that the budget protects.
            (json!(null), status(3, 3, 0), "False", true),
            (json!("IfHealthyBudget"), status(3, 3, 0), "False", true),
            (json!(null), status(2, 3, 0), "False", false),
            (json!(null), status(0, 0, 0), "False", false),
            (json!("IfHealthyBudget"), status(2, 3, 0), "False", false),
            (json!("AlwaysAllow"), status(2, 3, 0), "False", true),
            (json!("AlwaysAllow"), status(3, 3, 0), "True", false),
            (json!(null), json!({"observedGeneration": 1, "disruptionsAllowed": 1}), "True", false),
        ] {
            let budgets = [budget(policy, status)];
            let expected = if is_allowed { Eviction::Allowed } else { Eviction::RefusedBy(&budgets[0]) };
            assert_eq!(eviction(&budgets, &pod("Running", ready)), expected);
            for phase in ["Pending", "Succeeded", "Failed"] {
                assert_eq!(eviction(&budgets, &pod(phase, ready)), Eviction::Allowed);
            }
        }
    }

    #[test]
    fn a_pod_that_several_budgets_select_is_never_evicted() {
        let allows = || budget(json!("AlwaysAllow"), status(9, 3, 6));
        let mut of_others = allows();
        of_others.metadata.namespace = "other".to_owned();
        assert_eq!(eviction(&[allows(), of_others], &pod("Running", "False")), Eviction::Allowed);
        assert_eq!(eviction(&[allows(), allows()], &pod("Running", "False")), Eviction::SeveralBudgets);
    }
}
