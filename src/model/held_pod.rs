//! Pods on nodes that an autoscaler removes, and the annotations that make it keep them.

use serde_json::Value;

use super::pod::Pod;

/// An autoscaler that removes nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autoscaler {
    /// Cluster Autoscaler.
    ClusterAutoscaler,
    /// Karpenter.
    Karpenter,
}

impl Autoscaler {
    /// Returns the annotation, with its value, that makes it keep a pod. Karpenter: `HasDoNotDisrupt`, pkg/utils/pod/scheduling.go.
    pub fn annotation(self) -> (&'static str, &'static str) {
        match self {
            Autoscaler::ClusterAutoscaler => ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            Autoscaler::Karpenter => ("karpenter.sh/do-not-disrupt", "true"),
        }
    }
}

/// A pod on a node that an autoscaler removes.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPod {
    /// The pod.
    pub pod: Pod,
    /// The autoscalers that keep it because of an annotation.
    pub left_by: Vec<Autoscaler>,
}

read_from_object!(HeldPod);

impl HeldPod {
    /// Reads a pod. Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        let leaves = |autoscaler: &Autoscaler| {
            let (key, value) = autoscaler.annotation();
            object["metadata"]["annotations"][key] == value
        };
        let left_by = [Autoscaler::ClusterAutoscaler, Autoscaler::Karpenter].into_iter().filter(leaves).collect();
        let pod = serde_path_to_error::deserialize(object).map_err(|error| error.to_string())?;
        Ok(HeldPod { pod, left_by })
    }
}
