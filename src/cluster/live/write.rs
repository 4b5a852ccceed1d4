//! Patches a DaemonSet, deletes pods, and reads both again to see what became of that; creates events.

use http::Method;
use serde::Serialize;
use serde_json::Value;

use super::transport::{Change, JSON};
use super::{Live, list};
use crate::cluster::error::ClusterError;
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::plan::{DaemonSetPatch, FIELD_MANAGER, PodDeletion};

impl Live {
    /// Sends a patch once; see [`super::super::Source::patch_daemon_set`].
    pub(in crate::cluster) async fn patch_daemon_set(
        &self,
        patch: &DaemonSetPatch,
        is_dry_run: bool,
    ) -> Result<Value, ClusterError> {
        let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
        let path = format!("{}?fieldManager={FIELD_MANAGER}{dry_run}", path(patch));
        let change = change(Method::PATCH, "application/json-patch+json", &patch.patch())?;
        self.transport.change("patch daemonsets", &path, change).await
    }

    /// Deletes or evicts a pod once; see [`super::super::Source::delete_pod`].
    pub(in crate::cluster) async fn delete_pod(&self, pod: &PodDeletion, evicts: bool) -> Result<Value, ClusterError> {
        let path = pod_path(pod);
        if evicts {
            // An eviction that a PodDisruptionBudget does not allow is no sign of an overloaded server.
            let change = Change { retries: false, ..change(Method::POST, JSON, &pod.eviction())? };
            return self.transport.change("create pods/eviction", &format!("{path}/eviction"), change).await;
        }
        self.transport.change("delete pods", &path, change(Method::DELETE, JSON, &pod.delete_options())?).await
    }

    /// Reads the pod of a deletion; see [`super::super::Source::read_pod`].
    pub(in crate::cluster) async fn read_pod(&self, pod: &PodDeletion) -> Result<Option<Pod>, ClusterError> {
        let found: Value = match self.transport.get_object("get pods", &pod_path(pod)).await {
            Err(ClusterError::Api { code: 404, reason, .. }) if reason == "NotFound" => return Ok(None),
            object => object?,
        };
        let broken = |problem: String| ClusterError::Answer { request: "get pods".to_owned(), problem };
        if found.get("kind").and_then(Value::as_str) != Some("Pod") {
            return Err(broken("it is not a pod".to_owned()));
        }
        let found: Pod = serde_json::from_value(found).map_err(|error| broken(error.to_string()))?;
        if found.metadata.uid.is_empty() || found.metadata.name != pod.name {
            return Err(broken("it is another object".to_owned()));
        }
        Ok(Some(found))
    }

    /// Creates an event; see [`super::super::Source::create_event`].
    pub(in crate::cluster) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), ClusterError> {
        let path = format!("/api/v1/namespaces/{}/events?fieldManager={FIELD_MANAGER}", list::escape(namespace));
        let change = change(Method::POST, JSON, event)?;
        self.transport.change::<Value>("create events", &path, change).await.map(drop)
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

fn change(method: Method, content_type: &'static str, body: &impl Serialize) -> Result<Change, ClusterError> {
    let body = serde_json::to_vec(body)
        .map_err(|error| ClusterError::config(format!("cannot write the body of a request: {error}")))?;
    Ok(Change { method, content_type, body: body.into(), retries: true })
}

fn pod_path(pod: &PodDeletion) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", list::escape(&pod.namespace), list::escape(&pod.name))
}

fn path(patch: &DaemonSetPatch) -> String {
    let (namespace, name) = (list::escape(&patch.namespace), list::escape(&patch.name));
    format!("/apis/{}/namespaces/{namespace}/daemonsets/{name}", patch.api_version)
}
