//! Whose a pod is, as people name it.

use crate::model::pod::Pod;

/// Returns `namespace/name` of what a pod belongs to: its controller, a Deployment where it is named
/// after one, or the pod itself.
pub fn workload(pod: &Pod) -> String {
    let namespace = &pod.metadata.namespace;
    let Some(owner) = pod.metadata.controller() else { return full_name(pod) };
    // A ReplicaSet of a Deployment has the Deployment's name and a hash that its pods carry too.
    let hash = pod.metadata.labels.get("pod-template-hash");
    let name = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')).unwrap_or(&owner.name);
    format!("{namespace}/{name}")
}

/// Returns `namespace/name` of a pod.
pub fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
