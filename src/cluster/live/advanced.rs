//! Reads OpenKruise's Advanced DaemonSets, in the newest version that the cluster serves.

use serde::Deserialize;

use super::list::List;
use super::reader::{Reader, is_forbidden};
use crate::cluster::error::ClusterError;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::snapshot::Kind;

/// The group in the versions that are understood, newest first.
const VERSIONS: [&str; 2] = ["apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"];

/// Lists the Advanced DaemonSets in the query's namespace; a cluster without OpenKruise has none.
pub(super) async fn list(reader: &Reader<'_>) -> Result<Vec<DaemonSet>, ClusterError> {
    let Some(list) = kind(reader).await? else { return Ok(Vec::new()) };
    let list = List { namespace: reader.query.namespace.clone(), label_selector: reader.label_selector(), ..list };
    reader.list_or_gap(list, Some).await
}

/// Reads one Advanced DaemonSet; `None` if it does not exist.
pub(super) async fn get(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Option<DaemonSet>, ClusterError> {
    let Some(list) = kind(reader).await? else { return Ok(None) };
    reader.get(&List { namespace: Some(namespace.to_owned()), ..list }, name).await
}

/// Returns the kind in the newest version that the cluster serves and that is understood here.
pub(super) async fn kind(reader: &Reader<'_>) -> Result<Option<List>, ClusterError> {
    #[derive(Deserialize)]
    struct Group {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        group_version: String,
    }
    let path = format!("/apis/{}", ADVANCED_GROUP.trim_end_matches('/'));
    match reader.live.transport.get_object::<Group>("get the versions of apps.kruise.io", &path).await {
        Ok(Group { versions }) => {
            let served = |known: &&str| versions.iter().any(|version| version.group_version == *known);
            let api_version = VERSIONS.into_iter().find(served);
            Ok(api_version.map(|api_version| List { api_version, ..List::of(Kind::AdvancedDaemonSets) }))
        }
        // Whoever may not read the group may not read its objects either.
        Err(ClusterError::Api { code: 404, .. }) => Ok(None),
        Err(error) if is_forbidden(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
