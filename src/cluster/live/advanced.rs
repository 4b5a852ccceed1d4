//! Asks for OpenKruise's Advanced DaemonSets, in the newest version that the cluster serves.

use serde::Deserialize;
use serde_json::Value;

use super::list;
use super::reader::{Reader, broken, is_forbidden};
use crate::cluster::error::ClusterError;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::snapshot::Kind;

/// The versions that are understood, the newest first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// Lists the Advanced DaemonSets that the reader's query asks for; a cluster without OpenKruise has none.
pub(super) async fn list(reader: &Reader<'_>) -> Result<Vec<DaemonSet>, ClusterError> {
    #[derive(Deserialize)]
    struct Found {
        #[serde(default)]
        items: Vec<Value>,
    }
    let Some(version) = version(reader).await? else { return Ok(Vec::new()) };
    let mut path = collection(version, reader.query.namespace.as_deref());
    let selector = reader.query.selector.to_string();
    if !selector.is_empty() {
        path.push_str("?labelSelector=");
        list::escape(&selector, &mut path);
    }
    match reader.live.transport.get_object::<Found>("list daemonsets.apps.kruise.io", &path).await {
        Ok(found) => found.items.into_iter().map(|object| daemon_set(version, object)).collect(),
        Err(error) if is_forbidden(&error) => {
            reader.note_forbidden(Kind::AdvancedDaemonSets, reader.query.namespace.clone());
            Ok(Vec::new())
        }
        Err(ClusterError::Api { code: 404, .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads one Advanced DaemonSet; nothing where there is none of that name.
pub(super) async fn get(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Option<DaemonSet>, ClusterError> {
    let Some(version) = version(reader).await? else { return Ok(None) };
    let mut path = collection(version, Some(namespace));
    path.push('/');
    list::escape(name, &mut path);
    match reader.live.transport.get_object("get daemonsets.apps.kruise.io", &path).await {
        Ok(object) => daemon_set(version, object).map(Some),
        Err(ClusterError::Api { code: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the newest version that the cluster serves and that is understood here.
async fn version(reader: &Reader<'_>) -> Result<Option<&'static str>, ClusterError> {
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let path = format!("/apis/{}", ADVANCED_GROUP.trim_end_matches('/'));
    match reader.live.transport.get_object::<Group>("get the versions of apps.kruise.io", &path).await {
        Ok(Group { versions }) => {
            Ok(VERSIONS.into_iter().find(|known| versions.iter().any(|Version { version }| version == known)))
        }
        // Where even the group may not be looked at, its objects may not either.
        Err(ClusterError::Api { code: 404 | 403, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn collection(version: &str, namespace: Option<&str>) -> String {
    let mut path = format!("/apis/{ADVANCED_GROUP}{version}");
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        list::escape(namespace, &mut path);
    }
    path + "/daemonsets"
}

fn daemon_set(version: &str, mut object: Value) -> Result<DaemonSet, ClusterError> {
    if let Value::Object(fields) = &mut object {
        fields.entry("apiVersion").or_insert_with(|| format!("{ADVANCED_GROUP}{version}").into());
        fields.entry("kind").or_insert_with(|| "DaemonSet".into());
    }
    DaemonSet::from_object(object).map_err(|error| broken(Kind::AdvancedDaemonSets, &error))
}
