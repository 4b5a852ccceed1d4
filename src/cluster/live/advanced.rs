//! Reads OpenKruise's Advanced DaemonSets, in the newest version that the cluster serves.

use serde::Deserialize;

use super::list::{List, plural};
use super::reader::Reader;
use crate::cluster::error::ClusterError;
use crate::cluster::object::JSON;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::snapshot::{GapCause, Kind};

/// The path of all API groups.
const GROUPS: &str = "/apis";

/// The supported versions of the group, newest first.
const VERSIONS: [&str; 2] = ["apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"];

/// Lists the Advanced DaemonSets in the query's namespace; a cluster without OpenKruise has none.
pub(super) async fn list(reader: &Reader<'_>) -> Result<Vec<DaemonSet>, ClusterError> {
    match kind(reader).await {
        Ok(Some(list)) => {
            let namespace = reader.query.namespace.clone();
            reader.list_or_gap(List { namespace, label_selector: reader.label_selector(), ..list }, Some).await
        }
        Ok(None) => Ok(Vec::new()),
        Err(error) if error.is_forbidden() => {
            reader.note_gap(Kind::AdvancedDaemonSets, None, GapCause::Forbidden(format!("get {GROUPS}")));
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Reads one Advanced DaemonSet; `None` if it does not exist.
pub(super) async fn get(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Option<DaemonSet>, ClusterError> {
    let list = match kind(reader).await {
        Err(error) if error.is_forbidden() => None,
        list => list?,
    };
    let Some(list) = list else { return Ok(None) };
    reader.live.get(&List { namespace: Some(namespace.to_owned()), ..list }, name).await
}

/// Returns the kind in the newest version that both the cluster and this program support.
///
/// A missing group alone proves nothing: without OpenKruise, `/apis/apps.kruise.io` returns the same "404 page not
/// found" as many load balancers do, so the list of all groups is read.
pub(super) async fn kind(reader: &Reader<'_>) -> Result<Option<List>, ClusterError> {
    #[derive(Deserialize)]
    struct Groups {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        name: String,
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        group_version: String,
    }
    #[derive(Deserialize)]
    struct Resources {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        name: String,
    }
    let transport = &reader.live.transport;
    let Groups { groups } = transport.get_object("list API groups", GROUPS, JSON).await?;
    let group = groups.into_iter().find(|group| group.name == ADVANCED_GROUP.trim_end_matches('/'));
    let versions = group.map(|group| group.versions).unwrap_or_default();
    for api_version in VERSIONS {
        if versions.iter().any(|version| version.group_version == api_version) {
            let path = format!("{GROUPS}/{api_version}");
            // In older releases, the newer version contains only other kinds.
            let Resources { resources } = transport.get_object("list API resources", &path, JSON).await?;
            let list = List { api_version: api_version.to_owned(), ..List::of(Kind::AdvancedDaemonSets) };
            if resources.iter().any(|resource| resource.name == plural(list.kind)) {
                return Ok(Some(list));
            }
        }
    }
    Ok(None)
}
