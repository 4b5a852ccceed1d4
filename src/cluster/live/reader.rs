//! One reading of a cluster: lists and objects, with gaps for what the server forbids.

use std::cell::RefCell;
use std::collections::BTreeSet;

use futures::future::join_all;
use futures::stream::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::Live;
use super::list::{self, Item, List};
use super::prune::{Others, Owners};
use crate::cluster::Query;
use crate::cluster::error::ClusterError;
use crate::cluster::suggestions;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::pod::Pod;
use crate::model::snapshot::{Gap, GapCause, Kind, UnknownName};

/// The most objects that are asked for one by one; beyond that a whole list costs less.
pub(super) const ONE_BY_ONE: usize = 8;

/// How many questions of one kind are under way at once.
pub(super) const AT_ONCE: usize = 6;

/// One reading of a cluster.
pub(super) struct Reader<'a> {
    pub(super) live: &'a Live,
    pub(super) query: &'a Query,
    pub(super) gaps: RefCell<Vec<Gap>>,
    pub(super) unknown_names: RefCell<Vec<UnknownName>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(live: &'a Live, query: &'a Query) -> Self {
        Reader { live, query, gaps: RefCell::default(), unknown_names: RefCell::default() }
    }

    /// Returns what could not be read so far, each gap once.
    pub(super) fn take_gaps(&self) -> Vec<Gap> {
        let mut gaps = self.gaps.take();
        gaps.sort_by(|one, other| (one.kind, &one.namespace).cmp(&(other.kind, &other.namespace)));
        gaps.dedup();
        gaps
    }

    pub(super) async fn list_daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError> {
        // Near names are looked for among all of them, so that labels are compared here.
        let label_selector = if self.query.names.is_empty() { self.query.selector.to_string() } else { String::new() };
        let list = List { namespace: self.query.namespace.clone(), label_selector, ..List::default() };
        let objects: Vec<Value> = self.live.list(Kind::DaemonSets, list, Some).await?;
        objects.into_iter().map(daemon_set).collect()
    }

    pub(super) async fn daemon_set(&self, namespace: &str, name: &str) -> Result<DaemonSet, ClusterError> {
        let mut path = list::collection(Kind::DaemonSets, Some(namespace));
        path.push('/');
        list::escape(name, &mut path);
        match self.live.transport.get_object("get daemonsets", &path).await {
            Ok(object) => {
                self.live.tally.add(Kind::DaemonSets, 1, 0);
                daemon_set(object)
            }
            Err(ClusterError::Api { code: 404, .. }) => {
                // It may be in another namespace.
                let all: Result<Vec<Value>, _> = self.live.list(Kind::DaemonSets, List::default(), Some).await;
                let existing = match all {
                    Ok(all) => all.into_iter().filter_map(|object| daemon_set(object).ok()).collect(),
                    Err(_) => self.list_daemon_sets().await.unwrap_or_default(),
                };
                let existing = existing.iter().map(|daemon_set| &daemon_set.metadata);
                let unknown = suggestions::unknown_name(name, Some(namespace), existing);
                Err(suggestions::unknown_daemon_set(Some(namespace), unknown))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the DaemonSets' own pods: by selector where few are asked for, else by namespace.
    pub(super) async fn own_pods(
        &self,
        daemon_sets: &[DaemonSet],
        owners: &Owners,
        field_selector: &str,
    ) -> Result<Vec<Pod>, ClusterError> {
        let list = |namespace: &str, label_selector: String| List {
            namespace: Some(namespace.to_owned()),
            label_selector,
            field_selector: field_selector.to_owned(),
            from_cache: true,
        };
        let lists: Vec<List> = if daemon_sets.len() <= ONE_BY_ONE {
            daemon_sets
                .iter()
                .map(|daemon_set| list(&daemon_set.metadata.namespace, daemon_set.spec.selector.to_string()))
                .collect()
        } else {
            owners.namespaces().map(|namespace| list(namespace, String::new())).collect()
        };
        let keep = |pod| owners.keep_pod(pod, if self.query.everything { Others::Whole } else { Others::Drop });
        let mut pods = Vec::new();
        let mut found =
            futures::stream::iter(lists).map(|list| self.list_or_gap(Kind::Pods, list, keep)).buffered(AT_ONCE);
        while let Some(found) = found.try_next().await? {
            // Selectors may overlap.
            add_missing_pods(&mut pods, found);
        }
        Ok(pods)
    }

    /// Lists a kind in the query's namespace, or everywhere; where that is forbidden, in each namespace
    /// that has a DaemonSet.
    pub(super) async fn list_scope<T: Item, U>(
        &self,
        kind: Kind,
        list: List,
        owners: &Owners,
        keep: impl Fn(T) -> Option<U>,
    ) -> Result<Vec<U>, ClusterError> {
        let namespace = self.query.namespace.clone().filter(|_| !(self.query.everything && kind == Kind::Events));
        if namespace.is_some() {
            return self.list_or_gap(kind, List { namespace, ..list }, keep).await;
        }
        match self.live.list(kind, list.clone(), &keep).await {
            Err(error) if is_forbidden(&error) => {}
            found => return found,
        }
        let lists = owners.namespaces().map(|namespace| {
            self.list_or_gap(kind, List { namespace: Some(namespace.clone()), ..list.clone() }, &keep)
        });
        let mut found = Vec::new();
        for part in join_all(lists).await {
            found.extend(part?);
        }
        Ok(found)
    }

    /// Lists a kind, or notes that it is forbidden. A kind that the server does not know is empty.
    pub(super) async fn list_or_gap<T: Item, U>(
        &self,
        kind: Kind,
        list: List,
        keep: impl Fn(T) -> Option<U>,
    ) -> Result<Vec<U>, ClusterError> {
        let namespace = list.namespace.clone();
        match self.live.list(kind, list, keep).await {
            Err(error) if is_forbidden(&error) => {
                self.note_forbidden(kind, namespace);
                Ok(Vec::new())
            }
            Err(ClusterError::Api { code: 404, .. }) => Ok(Vec::new()),
            found => found,
        }
    }

    pub(super) fn note_forbidden(&self, kind: Kind, namespace: Option<String>) {
        self.gaps.borrow_mut().push(Gap { kind, namespace, cause: GapCause::Forbidden(permission(kind)) });
    }
}

impl Live {
    /// Lists a kind, and returns what `keep` makes of each object.
    pub(super) async fn list<T: Item, U>(
        &self,
        kind: Kind,
        list: List,
        keep: impl Fn(T) -> Option<U>,
    ) -> Result<Vec<U>, ClusterError> {
        list::open::<T>(&self.transport, kind, list).await?.collect(&self.tally, keep).await
    }
}

/// Adds the pods that are not there yet.
pub(super) fn add_missing_pods(pods: &mut Vec<Pod>, found: Vec<Pod>) {
    add_missing_by(|pod| &pod.metadata, pods, found);
}

/// Adds the revisions that are not there yet.
pub(super) fn add_missing_revisions(revisions: &mut Vec<ControllerRevision>, found: Vec<ControllerRevision>) {
    add_missing_by(|revision| &revision.metadata, revisions, found);
}

fn add_missing_by<T>(metadata: impl Fn(&T) -> &ObjectMeta, objects: &mut Vec<T>, found: Vec<T>) {
    let key = |object: &T| (metadata(object).namespace.clone(), metadata(object).name.clone());
    let mut known: BTreeSet<_> = objects.iter().map(key).collect();
    objects.extend(found.into_iter().filter(|object| known.insert(key(object))));
}

pub(super) fn is_forbidden(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Api { code: 403, .. })
}

/// Returns the permission that listing a kind takes, as `kubectl auth can-i` takes it.
pub(super) fn permission(kind: Kind) -> String {
    let (api_version, _, resource) = kind.api_names();
    match api_version.split_once('/') {
        Some((group, _)) => format!("list {resource}.{group}"),
        None => format!("list {resource}"),
    }
}

fn daemon_set(object: Value) -> Result<DaemonSet, ClusterError> {
    DaemonSet::from_object(complete(object, Kind::DaemonSets)).map_err(|error| broken(Kind::DaemonSets, &error))
}

/// Adds what items of a list leave out: their kind.
pub(super) fn complete(mut object: Value, kind: Kind) -> Value {
    let (api_version, kind, _) = kind.api_names();
    if let Value::Object(fields) = &mut object {
        fields.entry("apiVersion").or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}

pub(super) fn broken(kind: Kind, error: &serde_json::Error) -> ClusterError {
    ClusterError::Answer { request: format!("list {}", kind.resource()), problem: error.to_string() }
}
