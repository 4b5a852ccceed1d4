//! Reads the metadata of ConfigMaps and Secrets, never their data.

use std::collections::BTreeSet;

use futures::stream::StreamExt;
use serde::Deserialize;

use super::Live;
use super::list::{self, List, permission};
use super::reader::{AT_ONCE, Reader};
use crate::cluster::error::ClusterError;
use crate::cluster::{CoverageScope, Query, Wanted};
use crate::model::config_object::{ConfigObject, ConfigUse, uses};
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{GapCause, Kind, Snapshot};

/// The only accepted format. A server that does not support it returns an error instead of sending data.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The metadata of an object.
#[derive(Deserialize)]
struct PartialObject {
    #[serde(default)]
    kind: String,
    #[serde(flatten)]
    object: ConfigObject,
}

impl Live {
    /// Adds to a snapshot the ConfigMaps that some of its DaemonSets use, given their UIDs.
    pub async fn read_config_maps(&self, snapshot: &mut Snapshot, uids: &BTreeSet<String>) {
        let scope = CoverageScope { config: true, ..CoverageScope::default() };
        let query = Query { wanted: Wanted::Coverage(scope), ..Query::default() };
        let reader = Reader::new(self, &query);
        let is_one = |daemon_set: &&DaemonSet| uids.contains(&*daemon_set.metadata.uid);
        let of = snapshot.daemon_sets_of_any_flavor().filter(is_one).collect::<Vec<_>>();
        let (config_maps, _) = reader.config_objects(&of).await;
        snapshot.config_maps.extend(config_maps);
        snapshot.gaps.extend(reader.take_gaps());
    }
}

impl Reader<'_> {
    /// Reads the ConfigMaps and Secrets that the templates of DaemonSets use, if needed and if they exist. Each is read
    /// by name: `resourceNames` can permit that, and most objects in a namespace belong to other workloads.
    ///
    /// A dump is made without Secrets: permission to read their metadata is permission to read their data, so few users
    /// have it, and audit logs would show a read of every Secret.
    pub(super) async fn config_objects(&self, daemon_sets: &[&DaemonSet]) -> (Vec<ConfigObject>, Vec<ConfigObject>) {
        let mut wanted: BTreeSet<(Kind, String, String)> = BTreeSet::new();
        for daemon_set in daemon_sets.iter().filter(|_| self.needs.scope.config) {
            let is_read = |used: &ConfigUse| used.kind != Kind::Secrets || self.needs.scope.secrets;
            let used = uses(&daemon_set.template()).into_iter().filter(is_read);
            wanted.extend(used.map(|used| (used.kind, daemon_set.metadata.namespace.clone(), used.name)));
        }
        let (mut config_maps, mut secrets) = (Vec::new(), Vec::new());
        let read = |(kind, namespace, name): (Kind, String, String)| async move {
            let found = self.config_object(kind, &namespace, &name).await;
            (kind, namespace, name, found)
        };
        let mut reads = futures::stream::iter(wanted).map(read).buffered(AT_ONCE);
        while let Some((kind, namespace, name, found)) = reads.next().await {
            let cause = match found {
                Ok(object) if kind == Kind::Secrets => {
                    secrets.extend(object);
                    continue;
                }
                Ok(object) => {
                    config_maps.extend(object);
                    continue;
                }
                Err(error) if error.is_forbidden() => GapCause::Forbidden(permission("get", kind)),
                // A failure affects only this object.
                Err(error) => {
                    let object = format!("{} {namespace}/{name}", kind.api_names().1);
                    GapCause::Unreadable { object, problem: error.to_string() }
                }
            };
            self.note_gap(kind, Some(namespace), cause);
        }
        (config_maps, secrets)
    }

    async fn config_object(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ConfigObject>, ClusterError> {
        let list = List { namespace: Some(namespace.to_owned()), ..List::of(kind) };
        let decode = |text: &str| match serde_json::from_str(text) {
            Ok(PartialObject { kind, object }) if kind == "PartialObjectMetadata" => Ok(object),
            Ok(_) => Err("it is not the metadata of the requested object".to_owned()),
            Err(error) => Err(list::json_problem(&error)),
        };
        self.live.get_as(&list, name, METADATA, decode).await
    }
}
