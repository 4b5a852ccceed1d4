//! The API server as steps are applied to it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::Source;
use crate::cluster::error::ClusterError;
use crate::error::CommandError;
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::plan::{DaemonSetPatch, PodDeletion};
use crate::rollout::apply::{Failed, Server};

/// The API server of a session.
pub(super) struct ApiServer<'a> {
    pub(super) source: &'a Source,
    /// Whether the server runs admission, defaults and validation, and persists nothing.
    pub(super) is_dry_run: bool,
    /// Whether pods are evicted instead of deleted.
    pub(super) evicts: bool,
}

fn failed(error: ClusterError) -> Failed<CommandError> {
    match error {
        error if error.is_conflict() => Failed::Conflict(error.into()),
        error if error.outcome_unknown() => Failed::OutcomeUnknown(error.into()),
        error => Failed::Refused(error.into()),
    }
}

impl Server for ApiServer<'_> {
    type Error = CommandError;

    async fn patch(&self, patch: &DaemonSetPatch) -> Result<Value, Failed<CommandError>> {
        let answer = self.source.patch_daemon_set(patch, self.is_dry_run).await;
        answer.map_err(failed)
    }

    async fn read(&self, patch: &DaemonSetPatch) -> Result<Option<DaemonSet>, CommandError> {
        Ok(self.source.read_daemon_set(patch).await?)
    }

    async fn delete_pod(&self, pod: &PodDeletion) -> Result<Value, Failed<CommandError>> {
        let answer = self.source.delete_pod(pod, self.evicts).await;
        answer.or_else(|error| match error {
            ClusterError::Api { code: 404, reason, .. } if reason == "NotFound" => {
                Ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            // Upstream's eviction answers with 429 if a budget does not allow it.
            error @ ClusterError::Api { code: 429, .. } if self.evicts => Err(Failed::Blocked(error.into())),
            error => Err(failed(error)),
        })
    }

    async fn read_pod(&self, pod: &PodDeletion) -> Result<Option<Pod>, CommandError> {
        Ok(self.source.read_pod(pod).await?)
    }

    async fn pause(&self, pause: Duration) {
        tokio::time::sleep(pause).await;
    }

    fn unexpected(&self, problem: &str) -> CommandError {
        ClusterError::Answer { request: "patch daemonsets".to_owned(), problem: problem.to_owned() }.into()
    }
}
