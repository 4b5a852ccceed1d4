//! Patches a DaemonSet, deletes pods, and reads both again to see what became of that; creates events, and Jobs that pull images.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::list::List;
use super::request::{ChangeRequest, JSON};
use super::{Live, list};
use crate::cluster::error::ClusterError;
use crate::connection::error::ConnectionError;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::plan::{FIELD_MANAGER, JobRef, PodRef, Step};

impl Live {
    /// Sends a step once, and returns the server's answer, unchecked. In a dry run the server does everything but
    /// persist it.
    ///
    /// # Errors
    ///
    /// Fails if the object is another version than the step was made for (see [`ClusterError::is_conflict`]), and if the
    /// server refuses the step or cannot be reached.
    pub(crate) async fn send(&self, step: &Step, is_dry_run: bool) -> Result<Value, ClusterError> {
        let (path, change) = match step {
            Step::PatchDaemonSet(patch) => {
                let path = path(&patch.api_version, &patch.namespace, &patch.name);
                let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
                let strict = if patch.refuses_unknown_fields { "&fieldValidation=Strict" } else { "" };
                let path = format!("{path}?fieldManager={FIELD_MANAGER}{strict}{dry_run}");
                (path, change(Method::PATCH, "application/json-patch+json", &patch.patch())?)
            }
            Step::DeletePod(pod) => (pod_path(pod), change(Method::DELETE, JSON, &pod.delete_options(is_dry_run))?),
            // An eviction that a PodDisruptionBudget does not allow is no sign of an overloaded server.
            Step::EvictPod(pod) => {
                let change = ChangeRequest { retries: false, ..change(Method::POST, JSON, &pod.eviction(is_dry_run))? };
                (format!("{}/eviction", pod_path(pod)), change)
            }
            Step::CreateJob(job) => {
                let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
                let path = format!("{}?fieldManager={FIELD_MANAGER}{dry_run}", jobs_path(&job.job.namespace));
                (path, change(Method::POST, JSON, &job.manifest)?)
            }
            Step::DeleteJob(job) => {
                let dry_run: &[&str] = if is_dry_run { &["All"] } else { &[] };
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
                    "dryRun": dry_run});
                let path = format!("{}/{}", jobs_path(&job.namespace), list::escape(&job.name));
                (path, change(Method::DELETE, JSON, &options)?)
            }
        };
        self.transport.change(step.request(), &path, change).await
    }

    /// Reads a pod again; `None` if none of its name exists.
    pub(crate) async fn read_pod(&self, pod: &PodRef) -> Result<Option<Pod>, ClusterError> {
        let list = List { namespace: Some(pod.namespace.clone()), ..List::of(Kind::Pods) };
        match self.get::<Pod>(&list, &pod.name).await? {
            Some(found) if found.metadata.uid.is_empty() => {
                Err(ClusterError::Answer { request: "get pods".to_owned(), problem: "it has no uid".to_owned() })
            }
            found => Ok(found),
        }
    }

    /// Creates an event.
    pub(crate) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), ClusterError> {
        let path = format!("/api/v1/namespaces/{}/events?fieldManager={FIELD_MANAGER}", list::escape(namespace));
        let change = change(Method::POST, JSON, event)?;
        self.transport.change::<Value>("create events", &path, change).await.map(drop)
    }

    /// Lists the Jobs of a namespace with a label.
    pub(crate) async fn list_jobs(&self, namespace: &str, selector: &str) -> Result<Vec<JobRef>, ClusterError> {
        #[derive(Deserialize)]
        struct Job {
            metadata: ObjectMeta,
        }
        let path = format!("{}?labelSelector={}", jobs_path(namespace), list::escape(selector));
        let broken = |problem: String| ClusterError::Answer { request: "list jobs".to_owned(), problem };
        let mut found: Value = self.transport.get_object("list jobs", &path).await?;
        if found["kind"] != "JobList" {
            return Err(broken("it is not a JobList".to_owned()));
        }
        let jobs: Option<Vec<Job>> =
            serde_json::from_value(found["items"].take()).map_err(|error| broken(error.to_string()))?;
        let job = |Job { metadata }| JobRef { namespace: namespace.to_owned(), name: metadata.name };
        Ok(jobs.into_iter().flatten().map(job).collect())
    }

    /// Lists the pods of a namespace with a label.
    pub(crate) async fn list_job_pods(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>, ClusterError> {
        let (namespace, label_selector) = (Some(namespace.to_owned()), selector.to_owned());
        self.list(List { namespace, label_selector, ..List::of(Kind::Pods) }, Some).await
    }

    /// Lists the events of a namespace about Jobs whose pods could not be created.
    pub(crate) async fn list_failed_creates(&self, namespace: &str) -> Result<Vec<Event>, ClusterError> {
        let field_selector = "involvedObject.kind=Job,reason=FailedCreate".to_owned();
        self.list(List { namespace: Some(namespace.to_owned()), field_selector, ..List::of(Kind::Events) }, Some).await
    }

    /// Reads a DaemonSet again; `None` if none of its name exists.
    pub(crate) async fn read_daemon_set(&self, before: &DaemonSet) -> Result<Option<DaemonSet>, ClusterError> {
        let (namespace, name) = (&before.metadata.namespace, &before.metadata.name);
        let path = path(before.api_version(), namespace, name);
        let broken = |problem: String| ClusterError::Answer { request: "get daemonsets".to_owned(), problem };
        let object: Value = match self.transport.get_object("get daemonsets", &path).await {
            Err(error) if error.is_absence_of("daemonsets", name) => return Ok(None),
            object => object?,
        };
        if object.get("kind").and_then(Value::as_str) != Some("DaemonSet") {
            return Err(broken("it is not a DaemonSet".to_owned()));
        }
        let daemon_set = DaemonSet::from_object(object).map_err(|error| broken(error.to_string()))?;
        let metadata = &daemon_set.metadata;
        if metadata.uid.is_empty() || (&metadata.namespace, &metadata.name) != (namespace, name) {
            return Err(broken("it is another object".to_owned()));
        }
        Ok(Some(daemon_set))
    }
}

pub(super) fn change(
    method: Method,
    content_type: &'static str,
    body: &impl Serialize,
) -> Result<ChangeRequest, ClusterError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| ConnectionError::config(format!("cannot write the body of a request: {error}")))?;
    Ok(ChangeRequest { method, content_type, body: body.into(), retries: true })
}

fn jobs_path(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs", list::escape(namespace))
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", list::escape(&pod.namespace), list::escape(&pod.name))
}

fn path(api_version: &str, namespace: &str, name: &str) -> String {
    format!("/apis/{api_version}/namespaces/{}/daemonsets/{}", list::escape(namespace), list::escape(name))
}
