//! Patches a DaemonSet, and reads it again to see what became of the patch.

use serde_json::Value;

use super::{Live, list};
use crate::cluster::error::ClusterError;
use crate::model::daemon_set::DaemonSet;
use crate::plan::{DaemonSetPatch, FIELD_MANAGER};

impl Live {
    /// Sends a patch once; see [`super::super::Source::patch_daemon_set`].
    pub(in crate::cluster) async fn patch_daemon_set(
        &self,
        patch: &DaemonSetPatch,
        is_dry_run: bool,
    ) -> Result<Value, ClusterError> {
        let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager={FIELD_MANAGER}{dry_run}", path(patch));
        let body = serde_json::to_vec(&patch.patch())
            .map_err(|error| ClusterError::config(format!("cannot write the patch: {error}")))?;
        self.transport.patch_object("patch daemonsets", &path, body).await
    }

    /// Reads the DaemonSet of a patch; see [`super::super::Source::read_daemon_set`].
    pub(in crate::cluster) async fn read_daemon_set(
        &self,
        patch: &DaemonSetPatch,
    ) -> Result<Option<DaemonSet>, ClusterError> {
        let broken = |problem: String| ClusterError::Answer { request: "get daemonsets".to_owned(), problem };
        let object: Value = match self.transport.get_object("get daemonsets", &path(patch)).await {
            Err(ClusterError::Api { code: 404, reason, .. }) if reason == "NotFound" => return Ok(None),
            object => object?,
        };
        if object.get("kind").and_then(Value::as_str) != Some("DaemonSet") {
            return Err(broken("it is not a DaemonSet".to_owned()));
        }
        let daemon_set = DaemonSet::from_object(object).map_err(|error| broken(error.to_string()))?;
        let metadata = &daemon_set.metadata;
        if metadata.uid.is_empty() || (&metadata.namespace, &metadata.name) != (&patch.namespace, &patch.name) {
            return Err(broken("it is another object".to_owned()));
        }
        Ok(Some(daemon_set))
    }
}

fn path(patch: &DaemonSetPatch) -> String {
    let (namespace, name) = (list::escape(&patch.namespace), list::escape(&patch.name));
    format!("/apis/{}/namespaces/{namespace}/daemonsets/{name}", patch.api_version)
}
