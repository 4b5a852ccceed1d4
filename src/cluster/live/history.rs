//! Asks for DaemonSets with their revisions, and with their pods where those are wanted.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use serde_json::Value;

use super::Live;
use super::advanced;
use super::list::List;
use super::prune::Owners;
use super::reader::{Reader, broken, complete};
use crate::cluster::error::ClusterError;
use crate::cluster::{Flavors, HistoryQuery, Query, suggestions};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{Kind, Snapshot};

pub(super) async fn read(live: &Live, query: &HistoryQuery) -> Result<Snapshot, ClusterError> {
    let HistoryQuery { namespace, name, selector, flavors, pods } = query;
    let names = name.iter().cloned().collect();
    let reading = Query { namespace: namespace.clone(), names, selector: selector.clone(), ..Query::default() };
    let reader = Reader::new(live, &reading);
    let mut snapshot = Snapshot::empty((live.clock)());
    (snapshot.daemon_sets, snapshot.advanced_daemon_sets) = match (namespace, name) {
        (Some(namespace), Some(name)) => by_name(&reader, *flavors, namespace, name).await?,
        _ => {
            let (mut own, mut advanced) = match flavors {
                Flavors::Apps => (reader.list_daemon_sets().await?, Vec::new()),
                Flavors::Advanced => (Vec::new(), advanced::list(&reader).await?),
                Flavors::Any => futures::try_join!(reader.list_daemon_sets(), advanced::list(&reader))?,
            };
            let existing: Vec<DaemonSet> = match name {
                Some(_) => own.iter().chain(&advanced).cloned().collect(),
                None => Vec::new(),
            };
            query.choose(&mut own, &mut advanced);
            if let (Some(name), true) = (name, own.is_empty() && advanced.is_empty()) {
                return Err(suggestions::unknown_daemon_set_of(*flavors, name, None, &existing));
            }
            (own, advanced)
        }
    };
    let all: Vec<DaemonSet> = snapshot.daemon_sets_of_any_flavor().cloned().collect();
    let with_pods: Vec<DaemonSet> = all.iter().filter(|daemon_set| pods.include(daemon_set)).cloned().collect();
    let owners = Owners::new(&with_pods, false);
    (snapshot.controller_revisions, snapshot.pods) =
        futures::try_join!(controller_revisions(&reader, &all), reader.own_pods(&with_pods, &owners, ""))?;
    snapshot.gaps = reader.take_gaps();
    Ok(snapshot)
}

async fn by_name(
    reader: &Reader<'_>,
    flavors: Flavors,
    namespace: &str,
    name: &str,
) -> Result<(Vec<DaemonSet>, Vec<DaemonSet>), ClusterError> {
    match flavors {
        Flavors::Apps => match reader.daemon_set(namespace, name).await {
            Ok(own) => Ok((vec![own], Vec::new())),
            Err(ClusterError::NotFound { resource, name, namespace: place, mut near, elsewhere }) => {
                // An Advanced one of this name is the likeliest to be meant.
                if matches!(advanced::get(reader, namespace, &name).await, Ok(Some(_))) {
                    near.insert(0, format!("ads/{name}"));
                }
                Err(ClusterError::NotFound { resource, name, namespace: place, near, elsewhere })
            }
            Err(error) => Err(error),
        },
        Flavors::Any => match reader.daemon_set(namespace, name).await {
            Ok(own) => Ok((vec![own], Vec::new())),
            Err(error @ ClusterError::NotFound { .. }) => match advanced::get(reader, namespace, name).await? {
                Some(advanced) => Ok((Vec::new(), vec![advanced])),
                None => Err(error),
            },
            Err(error) => Err(error),
        },
        Flavors::Advanced => match advanced::get(reader, namespace, name).await? {
            Some(advanced) => Ok((Vec::new(), vec![advanced])),
            None => {
                let existing = advanced::list(reader).await?;
                let own = reader.daemon_set(namespace, name).await;
                Err(suggestions::unknown_daemon_set_of(flavors, name, Some(namespace), existing.iter().chain(&own)))
            }
        },
    }
}

/// Reads the revisions that the DaemonSets' selectors match, whosever they are.
async fn controller_revisions(
    reader: &Reader<'_>,
    daemon_sets: &[DaemonSet],
) -> Result<Vec<ControllerRevision>, ClusterError> {
    let keep = |object: Value| {
        let object = complete(object, Kind::ControllerRevisions);
        Some(ControllerRevision::from_object(object).map_err(|error| broken(Kind::ControllerRevisions, &error)))
    };
    let lists: Vec<List> = match daemon_sets {
        [DaemonSet { metadata, spec, .. }] => vec![List {
            namespace: Some(metadata.namespace.clone()),
            label_selector: spec.selector.to_string(),
            ..List::default()
        }],
        several => {
            let namespaces: BTreeSet<_> = several.iter().map(|daemon_set| &daemon_set.metadata.namespace).collect();
            let of = |namespace: &String| List { namespace: Some(namespace.clone()), ..List::default() };
            namespaces.into_iter().map(of).collect()
        }
    };
    let lists = lists.into_iter().map(|list| reader.list_or_gap(Kind::ControllerRevisions, list, keep));
    try_join_all(lists).await?.into_iter().flatten().collect()
}
