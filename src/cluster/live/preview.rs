//! Dry runs: what the API server would store if a manifest were applied, and whether it would admit its pods.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::list::List;
use super::request::ChangeRequest;
use super::write::change;
use super::{Live, list};
use crate::cluster::error::{ClusterError, is_about_permission, is_dry_run_unsupported};
use crate::cluster::manifest::{Apply, Manifest};
use crate::cluster::object::JSON;
use crate::cluster::similar_names;
use crate::model::daemon_set::DaemonSet;
use crate::model::server_side_apply;
use crate::model::snapshot::{Kind, Namespace};
use crate::plan::FIELD_MANAGER;

/// The server's answer to a yes-or-no question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Yes,
    /// No, for this reason.
    No(String),
    /// Unknown: the server could not be asked, for this reason.
    Unknown(String),
    /// Unknown: what was a dry run was carried out.
    NotDry(String),
}

/// Returns whether an object has the version that only a stored one has.
fn is_stored(object: &Value) -> bool {
    object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
}

impl Live {
    /// Returns what the server would store if a manifest were applied, with its defaults. Fails if the server refuses or cannot be
    /// reached, or rejects the DaemonSet.
    pub(crate) async fn preview(
        &self,
        manifest: &Manifest,
        live: Option<&DaemonSet>,
        how: Apply,
    ) -> Result<Value, ClusterError> {
        let strict = "fieldValidation=Strict&dryRun=All";
        let collection = list::collection("apps/v1", Some(manifest.namespace()), "daemonsets");
        let path = list::object("apps/v1", Some(manifest.namespace()), "daemonsets", manifest.name());
        match (live, how) {
            (_, Apply::ServerSide { force_conflicts }) => {
                let path = format!("{path}?fieldManager=kubectl&force={force_conflicts}&{strict}");
                let applied: Value =
                    self.dry_run(manifest, "patch", Method::PATCH, &path, APPLY, manifest.object()).await?;
                // kubectl takes over the fields of a client-side apply, and applies again.
                match server_side_apply::without_abandoned(&applied, manifest.object()) {
                    Some(left) => self.replace(manifest, &left).await,
                    None => Ok(applied),
                }
            }
            (Some(live), Apply::ClientSide) => {
                let patch = manifest.client_side_patch(live)?;
                if patch == json!({}) {
                    return Ok(live.object.clone());
                }
                let path = format!("{path}?fieldManager=kubectl-client-side-apply&{strict}");
                self.dry_run(manifest, "patch", Method::PATCH, &path, STRATEGIC_MERGE, &patch).await
            }
            (Some(_), Apply::Replace) => self.replace(manifest, manifest.object()).await,
            (None, Apply::ClientSide | Apply::Replace) => {
                let path = format!("{collection}?fieldManager=kubectl-client-side-apply&{strict}");
                self.dry_run(manifest, "create", Method::POST, &path, JSON, &manifest.without_nulls()).await
            }
        }
    }

    async fn replace(&self, manifest: &Manifest, object: &Value) -> Result<Value, ClusterError> {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // The manifest may be an older copy of the live object.
            metadata.retain(|field, _| !matches!(field.as_str(), "resourceVersion" | "uid" | "managedFields"));
        }
        let path = list::object("apps/v1", Some(manifest.namespace()), "daemonsets", manifest.name());
        let path = format!("{path}?fieldManager=kubectl-replace&fieldValidation=Strict&dryRun=All");
        self.dry_run(manifest, "update", Method::PUT, &path, JSON, &object).await
    }

    /// Sends a dry run, and returns the DaemonSet that the server would store.
    async fn dry_run(
        &self,
        manifest: &Manifest,
        verb: &str,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &Value,
    ) -> Result<Value, ClusterError> {
        let request = format!("{verb} daemonsets");
        let stored: Value = self.transport.change(&request, path, change(method, content_type, body)?).await?;
        // A proxy may return anything.
        let list = List { namespace: Some(manifest.namespace().to_owned()), ..List::of(Kind::DaemonSets) };
        match list.check_requested(&stored, manifest.name()) {
            Ok(()) if verb == "create" && is_stored(&stored) => {
                let problem = "the DaemonSet was created although this was a dry run: the API server, or a proxy before it, ignores dryRun";
                Err(ClusterError::Answer { request, problem: problem.to_owned() })
            }
            Ok(()) => Ok(stored),
            Err(problem) => Err(ClusterError::Answer { request, problem }),
        }
    }

    /// Asks whether the server would admit a pod.
    pub(crate) async fn would_admit(&self, namespace: &str, pod: &Value) -> Result<Asked, ClusterError> {
        let path =
            format!("{}?fieldManager={FIELD_MANAGER}&dryRun=All", list::collection("v1", Some(namespace), "pods"));
        let change = change(Method::POST, JSON, pod)?;
        // A proxy may return anything.
        let is_same = |created: &Value| {
            let [created_as, sent_as] = [created, pod].map(|pod| &pod["metadata"]["generateName"]);
            let is_elsewhere = created["metadata"]["namespace"].as_str().is_some_and(|other| other != namespace);
            created["kind"] == "Pod" && !is_elsewhere && created_as == sent_as
        };
        match self.transport.change::<Value>("create pods", &path, change).await {
            Ok(created) if !is_same(&created) => Ok(Asked::Unknown("the answer is not this pod".to_owned())),
            // A dry run stores nothing, and so returns no version (`DryRunnableStorage.Create`,
            // k8s.io/apiserver/pkg/registry/generic/registry/dryrun.go, release 0.37.2).
            Ok(created) if is_stored(&created) => Ok(Asked::NotDry(format!(
                "pod {namespace}/{} was created although this was a dry run: the API server, or a proxy before it, ignores dryRun; \
                 delete the pod",
                created["metadata"]["name"].as_str().unwrap_or_default()
            ))),
            Ok(_) => Ok(Asked::Yes),
            Err(ClusterError::Api { message, .. }) if is_refusal(&message) => Ok(Asked::No(message)),
            Err(ClusterError::Api { message, .. }) => Ok(Asked::Unknown(message)),
            Err(error) => Err(error),
        }
    }

    /// Asks whether the user may delete, or evict, pods in a namespace; `None` if there is no answer within a few seconds.
    pub(crate) async fn may_replace_pods(&self, namespace: &str, evicts: bool) -> Option<bool> {
        let [verb, subresource] = if evicts { ["create", "eviction"] } else { ["delete", ""] };
        let asked = json!({"namespace": namespace, "verb": verb, "resource": "pods", "subresource": subresource});
        let kind = "SelfSubjectAccessReview";
        let review = json!({"apiVersion": REVIEWS, "kind": kind, "spec": {"resourceAttributes": asked}});
        let change = ChangeRequest { retries: false, ..change(Method::POST, JSON, &review).ok()? };
        let path = list::collection(REVIEWS, None, "selfsubjectaccessreviews");
        let answer = self.transport.change::<Value>("create selfsubjectaccessreviews", &path, change);
        let answer = timeout(REVIEWED, answer).await.ok()?.ok()?;
        // A proxy may return anything.
        let is_it = answer["kind"] == kind && answer["spec"]["resourceAttributes"]["verb"] == verb;
        answer["status"]["allowed"].as_bool().filter(|_| is_it)
    }

    /// Returns namespaces with a similar name, if they may be listed.
    pub(crate) async fn similar_namespaces(&self, name: &str) -> Vec<String> {
        let listed: Vec<Namespace> = self.list(List::of(Kind::Namespaces), Some).await.unwrap_or_default();
        similar_names(name, listed.iter().map(|namespace| namespace.metadata.name.as_str()))
    }

    /// Asks whether an object of a kind of the core API exists.
    pub(crate) async fn exists(&self, kind: &str, namespace: Option<&str>, name: &str) -> Result<Asked, ClusterError> {
        let resource = format!("{}s", kind.to_lowercase());
        let path = list::object("v1", namespace, &resource, name);
        let error = match self.transport.get_object::<Value>(&format!("get {resource}"), &path, JSON).await {
            Ok(found) if found["kind"] == kind && found["metadata"]["name"] == name => return Ok(Asked::Yes),
            // A proxy may return anything.
            Ok(_) => return Ok(Asked::Unknown("the answer is not the requested object".to_owned())),
            Err(error) => error,
        };
        let is_absent = error.is_absence_of(&resource, name);
        match error {
            ClusterError::Api { message, .. } if is_absent => Ok(Asked::No(message)),
            ClusterError::Api { message, .. } => Ok(Asked::Unknown(message)),
            error => Err(error),
        }
    }
}

/// The API group and version of access reviews.
const REVIEWS: &str = "authorization.k8s.io/v1";

/// The timeout of an access review.
const REVIEWED: Duration = Duration::from_secs(3);

const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// Tells whether admission or validation refused a pod, and not an earlier stage. A user who may not create pods says
/// nothing about the DaemonSet controller.
fn is_refusal(message: &str) -> bool {
    let is_about_the_pod = message.starts_with("pods \"") || message.starts_with("Pod \"");
    let is_of_a_webhook = message.contains("admission webhook \"") || message.contains("failed calling webhook");
    (is_about_the_pod || is_of_a_webhook) && !is_dry_run_unsupported(message) && !is_about_permission(message, "create")
}
