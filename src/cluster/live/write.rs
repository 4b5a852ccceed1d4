//! Patches a DaemonSet, deletes pods, and reads both again to see the outcome; creates events.

use http::Method;
use serde::Serialize;
use serde_json::Value;

use super::list::List;
use super::request::ChangeRequest;
use super::{Live, list};
use crate::cluster::error::ClusterError;
use crate::cluster::object::{JSON, Object};
use crate::connection::error::ConnectionError;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::metadata::OwnerReference;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::plan::{FIELD_MANAGER, PodRef, Step};

impl Live {
    /// Sends a step once, and returns the server's response, unchecked. In a dry run the server does everything but
    /// persist it. Fails if the object has another version than the step was planned for (see
    /// [`ClusterError::is_conflict`]), or if the server refuses the step or cannot be reached.
    pub(crate) async fn send(&self, step: &Step, is_dry_run: bool) -> Result<Value, ClusterError> {
        let (path, change) = match step {
            Step::PatchDaemonSet(patch) => {
                let path = list::object(&patch.api_version, Some(&patch.namespace), "daemonsets", &patch.name);
                let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
                let strict = if patch.refuses_unknown_fields { "&fieldValidation=Strict" } else { "" };
                let path = format!("{path}?fieldManager={FIELD_MANAGER}{strict}{dry_run}");
                (path, change(Method::PATCH, "application/json-patch+json", &patch.patch())?)
            }
            Step::DeletePod(pod) => (path_of(pod), change(Method::DELETE, JSON, &pod.delete_options(is_dry_run))?),
            // An eviction that a PodDisruptionBudget does not allow does not mean that the server is overloaded.
            Step::EvictPod(pod) => {
                let change = ChangeRequest { retries: false, ..change(Method::POST, JSON, &pod.eviction(is_dry_run))? };
                (format!("{}/eviction", path_of(pod)), change)
            }
        };
        let change = ChangeRequest { is_step: !is_dry_run, ..change };
        self.transport.change(step.request(), &path, change).await
    }

    /// Reads a pod again; `None` if it does not exist.
    pub(crate) async fn read_pod(&self, pod: &PodRef) -> Result<Option<Pod>, ClusterError> {
        self.read_again(Kind::Pods, "v1", &pod.namespace, &pod.name).await
    }

    /// Reads a DaemonSet again; `None` if it does not exist.
    pub(crate) async fn read_daemon_set(&self, before: &DaemonSet) -> Result<Option<DaemonSet>, ClusterError> {
        let kind = match before.flavor() {
            Flavor::Apps => Kind::DaemonSets,
            Flavor::Advanced => Kind::AdvancedDaemonSets,
        };
        self.read_again(kind, before.api_version(), &before.metadata.namespace, &before.metadata.name).await
    }

    /// Reads the DaemonSet that controls an object of a namespace; `None` if it does not exist.
    pub(crate) async fn read_controller(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<DaemonSet>, ClusterError> {
        self.read_again(Kind::DaemonSets, &owner.api_version, namespace, &owner.name).await
    }

    async fn read_again<T: Object>(
        &self,
        kind: Kind,
        api_version: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, ClusterError> {
        let list =
            List { namespace: Some(namespace.to_owned()), api_version: api_version.to_owned(), ..List::of(kind) };
        match self.get::<T>(&list, name).await? {
            Some(found) if found.metadata().uid.is_empty() => {
                let request = format!("get {}", kind.resource());
                Err(ClusterError::Answer { request, problem: "it has no uid".to_owned() })
            }
            found => Ok(found),
        }
    }

    pub(crate) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), ClusterError> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", list::collection("v1", Some(namespace), "events"));
        let change = change(Method::POST, JSON, event)?;
        self.transport.change::<Value>("create events", &path, change).await.map(drop)
    }
}

pub(super) fn change(
    method: Method,
    content_type: &'static str,
    body: &impl Serialize,
) -> Result<ChangeRequest, ClusterError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| ConnectionError::config(format!("cannot write the body of a request: {error}")))?;
    Ok(ChangeRequest { method, content_type, body: body.into(), retries: true, is_step: false })
}

fn path_of(pod: &PodRef) -> String {
    list::object("v1", Some(&pod.namespace), "pods", &pod.name)
}
