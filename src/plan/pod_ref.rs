//! The pod that a step deletes or evicts.

use serde_json::{Value, json};

use crate::model::pod::Pod;

/// A pod as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID, so that a different pod with the same name is not affected.
    pub uid: String,
    /// The version of the pod on which the decision was based.
    pub resource_version: String,
}

impl PodRef {
    pub(crate) fn of(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        PodRef {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }

    /// Returns the body of a deletion: for any other version of the pod, the API server responds with a conflict (409).
    pub(crate) fn delete_options(&self, is_dry_run: bool) -> Value {
        let preconditions = json!({"uid": self.uid, "resourceVersion": self.resource_version});
        let dry_run = dry_run(is_dry_run);
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions, "dryRun": dry_run})
    }

    /// Returns the body of an eviction, which the API server refuses (429) if a PodDisruptionBudget does not allow it.
    ///
    /// It has no resource version: the eviction itself changes the pod before deleting it.
    pub(crate) fn eviction(&self, is_dry_run: bool) -> Value {
        json!({
            "kind": "Eviction", "apiVersion": "policy/v1",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "deleteOptions": {"preconditions": {"uid": self.uid}, "dryRun": dry_run(is_dry_run)},
        })
    }
}

/// Returns the `dryRun` field of a body: if there is a body, the API server ignores the URL parameters.
fn dry_run(is_dry_run: bool) -> &'static [&'static str] {
    if is_dry_run { &["All"] } else { &[] }
}
