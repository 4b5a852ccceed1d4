//! Sends changes: one JSON Patch each, locked on the version that was read.

use serde_json::Value;

use super::{Live, list};
use crate::cluster::error::ClusterError;
use crate::cluster::write::Sending;
use crate::plan::Write;

/// The name under which the API server notes who has changed which field.
const FIELD_MANAGER: &str = "kubectl-ds";

impl Live {
    /// Sends a change; see [`super::super::Source::write`].
    pub(in crate::cluster) async fn write(&self, write: &Write, sending: Sending) -> Result<Value, ClusterError> {
        let (namespace, name) = (list::escape(&write.namespace), list::escape(&write.name));
        let mut path = format!("/apis/{}/namespaces/{namespace}/daemonsets/{name}", write.api_version);
        path.push_str("?fieldManager=");
        path.push_str(FIELD_MANAGER);
        if sending == Sending::DryRun {
            path.push_str("&dryRun=All");
        }
        let patch = serde_json::to_vec(&write.patch())
            .map_err(|error| ClusterError::config(format!("cannot write the patch: {error}")))?;
        self.transport.patch_object("patch daemonsets", &path, patch).await
    }
}
