//! Sends the steps of plans to where snapshots come from.

use serde_json::Value;

use super::Source;
use super::error::ClusterError;
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::plan::{DaemonSetPatch, PodDeletion};

impl Source {
    /// Sends a patch once, and returns the server's answer, unchecked. In a dry run the server does everything but
    /// persist it.
    ///
    /// # Errors
    ///
    /// Fails if the object has another resource version (see [`ClusterError::is_conflict`]), if the server refuses the
    /// patch or cannot be reached, and for a dump.
    pub async fn patch_daemon_set(&self, patch: &DaemonSetPatch, is_dry_run: bool) -> Result<Value, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.patch_daemon_set(patch, is_dry_run).await,
            Source::File(dump) => {
                let _ = (patch, is_dry_run);
                Err(dump.refuse_write())
            }
        }
    }

    /// Deletes a pod once, or evicts it, and returns the server's answer, unchecked.
    ///
    /// # Errors
    ///
    /// Fails if the pod has another UID or resource version (see [`ClusterError::is_conflict`]), if the server or a
    /// PodDisruptionBudget refuses, if the server cannot be reached, and for a dump.
    pub async fn delete_pod(&self, pod: &PodDeletion, evicts: bool) -> Result<Value, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.delete_pod(pod, evicts).await,
            Source::File(dump) => {
                let _ = (pod, evicts);
                Err(dump.refuse_write())
            }
        }
    }

    /// Reads the pod that a deletion is for; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn read_pod(&self, pod: &PodDeletion) -> Result<Option<Pod>, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.read_pod(pod).await,
            Source::File(dump) => {
                let _ = pod;
                Err(dump.refuse_write())
            }
        }
    }

    /// Creates an event.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.create_event(namespace, event).await,
            Source::File(dump) => {
                let _ = (namespace, event);
                Err(dump.refuse_write())
            }
        }
    }

    /// Reads the DaemonSet that a patch is for; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn read_daemon_set(&self, patch: &DaemonSetPatch) -> Result<Option<DaemonSet>, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.read_daemon_set(patch).await,
            Source::File(dump) => {
                let _ = patch;
                Err(dump.refuse_write())
            }
        }
    }
}
