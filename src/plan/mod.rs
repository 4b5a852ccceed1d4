//! Writes as data: what `--dry-run` shows, and what is sent, are the same value.
//!
//! A plan is made from what was read ([`undo`], [`restart`]) and holds the version of the object that was
//! read, so that it can only be applied to that very version: whatever another has changed meanwhile is
//! never overwritten.

pub mod restart;
pub mod undo;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use crate::model::daemon_set::DaemonSet;

/// A change of one DaemonSet, locked on the version of it that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The group and version, such as `apps/v1`.
    pub api_version: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The version of the object that the operations are made for.
    pub resource_version: String,
    operations: Vec<PatchOperation>,
}

impl Write {
    fn new(daemon_set: &DaemonSet, operations: Vec<PatchOperation>) -> Self {
        let metadata = &daemon_set.metadata;
        Write {
            api_version: daemon_set.api_version().to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            resource_version: metadata.resource_version.clone(),
            operations,
        }
    }

    /// Returns the JSON Patch (RFC 6902) that is sent.
    ///
    /// It begins with the lock: the API server refuses an object that names another version than the stored one
    /// with a conflict (409), where a failed `test` would give a bare 422.
    pub fn patch(&self) -> Patch {
        let lock = replace(["metadata", "resourceVersion"], self.resource_version.clone());
        Patch(std::iter::once(lock).chain(self.operations.iter().cloned()).collect())
    }

    /// Returns the same change for another version of the object.
    #[must_use]
    pub fn locked_on(&self, resource_version: &str) -> Self {
        Write { resource_version: resource_version.to_owned(), ..self.clone() }
    }

    /// Returns what the object becomes, as far as that can be told without the API server.
    ///
    /// # Errors
    ///
    /// Fails where the object lacks a field that the change is about.
    pub fn applied_to(&self, object: &Value) -> Result<Value, json_patch::PatchError> {
        let mut object = object.clone();
        json_patch::patch(&mut object, &self.operations)?;
        Ok(object)
    }
}

fn replace<const N: usize>(path: [&str; N], value: impl Into<Value>) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation { path: PointerBuf::from_tokens(path), value: value.into() })
}
