//! The workload that a pod belongs to.

use crate::model::pod::Pod;
use crate::scheduling::preemption::priority;

/// The letters of the hashes in names, `SafeEncodeString` of k8s.io/apimachinery/pkg/util/rand/rand.go.
const HASH_LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns `namespace/name` of what a pod belongs to: its controller, the Deployment that a ReplicaSet
/// is named after, a static pod's name without its node, or the pod itself.
pub fn workload(pod: &Pod) -> String {
    let Some(owner) = pod.metadata.controller() else { return pod.metadata.full_name() };
    let name = match owner.kind.as_str() {
        "ReplicaSet" => without_hash(&owner.name),
        // A static pod is its node's, and named after the two.
        "Node" => pod.metadata.name.strip_suffix(&format!("-{}", owner.name)).unwrap_or(&pod.metadata.name),
        _ => &owner.name,
    };
    format!("{}/{name}", pod.metadata.namespace)
}

/// Returns the priority of a pod with the class that gives it, such as `1000 (PriorityClass high)`.
pub fn told_priority(pod: &Pod) -> String {
    let priority = priority(pod);
    match pod.spec.priority_class_name.as_str() {
        "" => priority.to_string(),
        class => format!("{priority} (PriorityClass {class})"),
    }
}

/// Returns the name of the Deployment of a ReplicaSet; other names are kept.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((deployment, hash)) if hash.len() >= 6 && hash.chars().all(|c| HASH_LETTERS.contains(c)) => deployment,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::workload;

    #[test]
    fn a_pod_is_named_after_what_people_made() {
        let of = |pod: &str, kind: &str, owner: &str| {
            let owner = json!([{"kind": kind, "name": owner, "uid": "u", "controller": true}]);
            workload(
                &from_value(json!({"metadata": {"name": pod, "namespace": "a", "ownerReferences": owner}})).unwrap(),
            )
        };
        assert_eq!(of("web-5d4f9c8b7d-x2x4z", "ReplicaSet", "web-5d4f9c8b7d"), "a/web");
        assert_eq!(of("web-front-x2x4z", "ReplicaSet", "web-front"), "a/web-front");
        assert_eq!(of("web-frontend-x2x4z", "ReplicaSet", "web-frontend"), "a/web-frontend");
        assert_eq!(of("web-5d4f9c-x2x4z", "ReplicaSet", "web-5d4f9c"), "a/web");
        assert_eq!(of("web-5d4f9-x2x4z", "ReplicaSet", "web-5d4f9"), "a/web-5d4f9");
        assert_eq!(of("db-0", "StatefulSet", "db"), "a/db");
        assert_eq!(of("etcd-node-1", "Node", "node-1"), "a/etcd");
        assert_eq!(workload(&from_value(json!({"metadata": {"name": "bare", "namespace": "a"}})).unwrap()), "a/bare");
    }
}
