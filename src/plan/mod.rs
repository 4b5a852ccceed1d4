//! Writes as data: `--dry-run` shows the same value that is sent.
//!
//! A [`Plan`] has at most one [`Step`]. A step that changes an object has a precondition, the version or the identity that it was
//! planned for, so that a concurrent edit is never overwritten.

mod edits;
mod hold;
mod pod_ref;
mod restart;
mod retry;
mod set;
mod undo;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use crate::model::daemon_set::DaemonSet;
pub use pod_ref::PodRef;
pub(crate) use retry::RETRIED_ANNOTATION;
pub use set::{SpecFields, StrategyType};

/// The name under which the API server records the fields that this tool has changed.
pub const FIELD_MANAGER: &str = "kubectl-ds";

/// How to change a DaemonSet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What to send; `None` if there is nothing to do.
    pub step: Option<Step>,
}

/// One request that changes one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Patches the DaemonSet, if nothing but its status has changed since it was read.
    PatchDaemonSet(DaemonSetPatch),
    /// Deletes a pod, if nothing has changed since it was read.
    DeletePod(PodRef),
    /// Evicts a pod, if it was not recreated and its PodDisruptionBudgets allow it.
    EvictPod(PodRef),
}

/// A patch of one DaemonSet.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSetPatch {
    /// The group and version, such as `apps/v1`.
    pub api_version: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version of the object for which the operations were computed.
    pub resource_version: String,
    /// Whether the API server should reject unknown fields, as for `kubectl apply`: they come from a manifest.
    pub refuses_unknown_fields: bool,
    operations: Vec<PatchOperation>,
}

impl Plan {
    /// Makes the API server reject unknown fields.
    #[must_use]
    pub(crate) fn refusing_unknown_fields(mut self) -> Self {
        if let Some(Step::PatchDaemonSet(patch)) = &mut self.step {
            patch.refuses_unknown_fields = true;
        }
        self
    }

    /// Returns the resulting DaemonSet, as far as it is known without the API server.
    ///
    /// # Errors
    ///
    /// Fails if the object lacks a field that the step changes.
    pub fn applied_to(&self, object: &Value) -> Result<Value, json_patch::PatchError> {
        self.patch().map_or_else(|| Ok(object.clone()), |patch| patch.applied_to(object))
    }

    /// Returns the patch of the DaemonSet, if there is anything to change.
    pub(crate) fn patch(&self) -> Option<&DaemonSetPatch> {
        match &self.step {
            Some(Step::PatchDaemonSet(patch)) => Some(patch),
            Some(Step::DeletePod(_) | Step::EvictPod(_)) | None => None,
        }
    }
}

impl Step {
    /// Returns the name of the request in errors: a verb and a resource.
    pub(crate) fn request(&self) -> &'static str {
        match self {
            Step::PatchDaemonSet(_) => "patch daemonsets",
            Step::DeletePod(_) => "delete pods",
            Step::EvictPod(_) => "create pods/eviction",
        }
    }
}

impl DaemonSetPatch {
    fn new(daemon_set: &DaemonSet, operations: Vec<PatchOperation>) -> Self {
        let metadata = &daemon_set.metadata;
        DaemonSetPatch {
            api_version: daemon_set.api_version().to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            resource_version: metadata.resource_version.clone(),
            refuses_unknown_fields: false,
            operations,
        }
    }

    /// Returns the JSON Patch (RFC 6902) to send.
    ///
    /// It begins with the precondition: if the resource version differs from the stored one, the API server responds
    /// with a conflict (409), whereas a failed `test` would result in a bare 422.
    pub fn patch(&self) -> Patch {
        let precondition = replace(["metadata", "resourceVersion"], self.resource_version.clone());
        Patch(std::iter::once(precondition).chain(self.operations.iter().cloned()).collect())
    }

    /// Returns the JSON Pointers of the changed fields.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().map(|operation| operation.path().as_str())
    }

    /// Returns the same patch for another version of the object.
    #[must_use]
    pub fn with_resource_version(&self, resource_version: &str) -> Self {
        DaemonSetPatch { resource_version: resource_version.to_owned(), ..self.clone() }
    }

    /// Returns the resulting object, as far as it is known without the API server.
    ///
    /// # Errors
    ///
    /// Fails if the object lacks a field that the patch changes.
    pub fn applied_to(&self, object: &Value) -> Result<Value, json_patch::PatchError> {
        let mut object = object.clone();
        json_patch::patch(&mut object, &self.operations)?;
        Ok(object)
    }
}

fn replace<const N: usize>(path: [&str; N], value: impl Into<Value>) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation { path: PointerBuf::from_tokens(path), value: value.into() })
}
