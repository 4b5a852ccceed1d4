//! Sends the steps of plans to where snapshots come from.

use serde_json::Value;

use super::Source;
use super::error::ClusterError;
use super::live::Live;
use super::manifest::Manifest;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::pod::Pod;
use crate::plan::{JobRef, PodRef, Step};

impl Source {
    /// Returns the live cluster; a dump cannot be changed.
    fn live(&self) -> Result<&Live, ClusterError> {
        match self {
            Source::Live(live) => Ok(live),
            Source::File(dump) => Err(dump.refuse_write()),
        }
    }

    /// Sends a step once, and returns the server's answer, unchecked. In a dry run the server does everything but
    /// persist it.
    ///
    /// # Errors
    ///
    /// Fails if the object is another version than the step was made for (see [`ClusterError::is_conflict`]), if the
    /// server refuses the step or cannot be reached, and for a dump.
    pub async fn send(&self, step: &Step, is_dry_run: bool) -> Result<Value, ClusterError> {
        self.live()?.send(step, is_dry_run).await
    }

    /// Reads a pod again; `None` if none of its name exists.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn read_pod(&self, pod: &PodRef) -> Result<Option<Pod>, ClusterError> {
        self.live()?.read_pod(pod).await
    }

    /// Creates an event.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), ClusterError> {
        self.live()?.create_event(namespace, event).await
    }

    /// Lists the Jobs of a namespace with a label.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn list_jobs(&self, namespace: &str, selector: &str) -> Result<Vec<JobRef>, ClusterError> {
        self.live()?.list_jobs(namespace, selector).await
    }

    /// Lists the pods of a namespace with a label.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn list_job_pods(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>, ClusterError> {
        self.live()?.list_job_pods(namespace, selector).await
    }

    /// Lists the events of a namespace about Jobs whose pods could not be created.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn list_failed_creates(&self, namespace: &str) -> Result<Vec<Event>, ClusterError> {
        self.live()?.list_failed_creates(namespace).await
    }

    /// Reads a DaemonSet again; `None` if none of its name exists.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses or cannot be reached, and for a dump.
    pub async fn read_daemon_set(&self, before: &DaemonSet) -> Result<Option<DaemonSet>, ClusterError> {
        self.live()?.read_daemon_set(before).await
    }

    /// Returns what the server would store if a whole DaemonSet were applied, with its defaults; `None` for a dump.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects the DaemonSet or cannot be reached.
    pub async fn dry_run(&self, manifest: &Manifest) -> Result<Option<Value>, ClusterError> {
        match self {
            Source::Live(live) => live.dry_run(manifest).await.map(Some),
            Source::File(_) => Ok(None),
        }
    }
}
