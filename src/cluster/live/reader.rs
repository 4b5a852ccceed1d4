//! One read of a cluster: lists and objects, with gaps for whatever the server forbids.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::timeout;

use super::list::{self, List, permission};
use super::prune::{DaemonSetMatcher, ForeignPods};
use super::{Live, advanced};
use crate::cluster::error::ClusterError;
use crate::cluster::needs::{Needs, Pods};
use crate::cluster::object::{JSON, Object};
use crate::cluster::{Flavors, Query, Wanted, neighbor, suggestions};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Gap, GapCause, Kind, Neighbor, Snapshot};

/// The most objects to read one by one; for more, a whole list is cheaper.
pub(super) const ONE_BY_ONE: usize = 8;

/// The most concurrent requests for one kind.
pub(super) const AT_ONCE: usize = 6;

/// One read of a cluster.
pub(super) struct Reader<'a> {
    pub(super) live: &'a Live,
    pub(super) query: &'a Query,
    pub(super) needs: Needs,
    gaps: RefCell<Vec<Gap>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(live: &'a Live, query: &'a Query) -> Self {
        Reader { live, query, needs: query.needs(), gaps: RefCell::default() }
    }

    /// Records what cannot be read.
    pub(super) fn note_gap(&self, kind: Kind, namespace: Option<String>, cause: GapCause) {
        self.gaps.borrow_mut().push(Gap { kind, namespace, cause });
    }

    /// Returns what could not be read so far, each gap once.
    pub(super) fn take_gaps(&self) -> Vec<Gap> {
        let mut gaps = self.gaps.take();
        gaps.sort_by(|one, other| (one.kind, &one.namespace).cmp(&(other.kind, &other.namespace)));
        gaps.dedup();
        gaps
    }

    /// Returns a snapshot of the DaemonSets, Kubernetes' own and OpenKruise's, with the others in their namespaces; by name if few are
    /// named.
    pub(super) async fn daemon_sets(&self) -> Result<Snapshot, ClusterError> {
        let Query { namespace, names, flavors, .. } = self.query;
        let (mut all, mut neighbors) = (Snapshot::default(), Vec::new());
        match namespace {
            Some(namespace) if (1..=ONE_BY_ONE).contains(&names.len()) => {
                let unique: BTreeSet<&String> = names.iter().collect();
                let reads = join_all(unique.iter().map(|name| self.daemon_set(namespace, name)));
                let named;
                (named, neighbors) = futures::join!(reads, self.neighbors(namespace));
                let found = named.into_iter().collect::<Result<Vec<_>, _>>()?;
                let absent = unique.iter().zip(&found).filter(|(_, found)| found.is_none());
                let absent: BTreeSet<&String> = absent.map(|(name, _)| *name).collect();
                if !absent.is_empty() {
                    (all.daemon_sets, all.advanced_daemon_sets) = self.perhaps_meant(namespace).await;
                    // A DaemonSet in the list that cannot be read by name is gone; one of the other flavor becomes a suggestion.
                    let is_absent = |it: &DaemonSet| {
                        let is_asked = it.metadata.namespace == *namespace && flavors.include(it.flavor());
                        is_asked && absent.contains(&it.metadata.name)
                    };
                    all.daemon_sets.retain(|one| !is_absent(one));
                    all.advanced_daemon_sets.retain(|one| !is_absent(one));
                }
                let (own, advanced) = found.into_iter().flatten().partition(|one| one.flavor() == Flavor::Apps);
                add_missing(&mut all.daemon_sets, own);
                add_missing(&mut all.advanced_daemon_sets, advanced);
            }
            _ => (all.daemon_sets, all.advanced_daemon_sets) = self.list_daemon_sets().await?,
        }
        if let Err(error) = self.query.choose(&mut all) {
            let has_none = *flavors == Flavors::Advanced && matches!(advanced::kind(self).await, Ok(None));
            return Err(self.or_a_node(if has_none { suggestions::without_openkruise(error) } else { error }).await);
        }
        if all.neighbors.is_empty() {
            all.neighbors = neighbors;
        }
        for daemon_sets in [&mut all.daemon_sets, &mut all.advanced_daemon_sets] {
            daemon_sets.sort_by(|one, other| one.key().cmp(&other.key()));
        }
        Ok(all)
    }

    /// Returns the other DaemonSets of a namespace, if the findings about one depend on them. A failure does not
    /// prevent an answer about one that can be read.
    async fn neighbors(&self, namespace: &str) -> Vec<Neighbor> {
        if !matches!(self.query.wanted, Wanted::Coverage(_)) || !self.query.flavors.include(Flavor::Apps) {
            return Vec::new();
        }
        let list = List { namespace: Some(namespace.to_owned()), ..List::of(Kind::DaemonSets) };
        let others: Vec<DaemonSet> = self.live.list(list, Some).await.unwrap_or_default();
        others.iter().filter(|other| !self.query.names.contains(&other.metadata.name)).map(neighbor).collect()
    }

    /// Adds to the error for a DaemonSet that a node has this name, if so.
    async fn or_a_node(&self, error: ClusterError) -> ClusterError {
        let ClusterError::NotFound { name, .. } = &error else { return error };
        let node: Result<Option<Node>, _> = self.live.get(&List::of(Kind::Nodes), name).await;
        if matches!(node, Ok(Some(_))) { suggestions::is_a_node(error) } else { error }
    }

    async fn list_daemon_sets(&self) -> Result<(Vec<DaemonSet>, Vec<DaemonSet>), ClusterError> {
        let flavors = if self.needs.everything { Flavors::Any } else { self.query.flavors };
        let own = async {
            let (namespace, label_selector) = (self.query.namespace.clone(), self.label_selector());
            let list = List { namespace, label_selector, ..List::of(Kind::DaemonSets) };
            if flavors.include(Flavor::Apps) { self.live.list(list, Some).await } else { Ok(Vec::new()) }
        };
        let advanced =
            async { if flavors.include(Flavor::Advanced) { advanced::list(self).await } else { Ok(Vec::new()) } };
        futures::try_join!(own, advanced)
    }

    /// Returns the label selector for listing DaemonSets. Similar names are searched among all of them.
    pub(super) fn label_selector(&self) -> String {
        if self.query.names.is_empty() { self.query.selector.to_string() } else { String::new() }
    }

    /// Reads a DaemonSet of the flavors in the query; `None` if there is none with this name.
    async fn daemon_set(&self, namespace: &str, name: &str) -> Result<Option<DaemonSet>, ClusterError> {
        let flavors = self.query.flavors;
        let list = List { namespace: Some(namespace.to_owned()), ..List::of(Kind::DaemonSets) };
        if flavors.include(Flavor::Apps)
            && let Some(found) = self.live.get(&list, name).await?
        {
            return Ok(Some(found));
        }
        if flavors.include(Flavor::Advanced) { advanced::get(self, namespace, name).await } else { Ok(None) }
    }

    /// Returns candidates for a DaemonSet name that does not exist in a namespace, if they may be listed.
    async fn perhaps_meant(&self, namespace: &str) -> (Vec<DaemonSet>, Vec<DaemonSet>) {
        let own = match self.live.list(List::of(Kind::DaemonSets), Some).await {
            Ok(own) => own,
            Err(_) => {
                let list = List { namespace: Some(namespace.to_owned()), ..List::of(Kind::DaemonSets) };
                self.live.list(list, Some).await.unwrap_or_default()
            }
        };
        (own, advanced::list(self).await.unwrap_or_default())
    }

    /// Reads the DaemonSets' own pods: by selector if there are few DaemonSets, else by namespace.
    pub(super) async fn own_pods(
        &self,
        daemon_sets: &[&DaemonSet],
        matcher: &DaemonSetMatcher,
    ) -> Result<Vec<Pod>, ClusterError> {
        let lists = match daemon_sets.len() {
            ..=ONE_BY_ONE => daemon_sets.iter().map(|daemon_set| List::of_selected(Kind::Pods, daemon_set)).collect(),
            _ => in_each(matcher.namespaces(), &List::of(Kind::Pods)),
        };
        let foreign = if self.needs.everything { ForeignPods::Whole } else { ForeignPods::Drop };
        self.list_all(lists, |pod| matcher.keep_pod(pod, foreign)).await
    }

    /// Reads revisions: those that match a selector if there are few DaemonSets, else all in scope.
    pub(super) async fn controller_revisions(
        &self,
        daemon_sets: &[&DaemonSet],
        matcher: &DaemonSetMatcher,
    ) -> Result<Vec<ControllerRevision>, ClusterError> {
        let keep = |revision| matcher.keeps_revision(&revision).then_some(revision);
        let few = match self.needs.pods {
            Pods::None | Pods::Own => daemon_sets.len() <= 1,
            Pods::All => self.query.namespace.is_some() && daemon_sets.len() <= ONE_BY_ONE,
        };
        if !few {
            return self.list_scope(List::of(Kind::ControllerRevisions), matcher, keep).await;
        }
        let lists = daemon_sets.iter().map(|daemon_set| List::of_selected(Kind::ControllerRevisions, daemon_set));
        self.list_all(lists.collect(), keep).await
    }

    /// Lists a kind in the query's namespace, or in all; if that is forbidden, in each namespace
    /// that has a DaemonSet.
    pub(super) async fn list_scope<T: Object>(
        &self,
        list: List,
        matcher: &DaemonSetMatcher,
        keep: impl Fn(T) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        // Events about nodes are in the namespace `default`.
        let all_namespaces = self.needs.everything && list.kind == Kind::Events;
        let namespace = self.query.namespace.clone().filter(|_| !all_namespaces);
        if namespace.is_some() {
            return self.list_or_gap(List { namespace, ..list }, keep).await;
        }
        match self.live.list(list.clone(), &keep).await {
            Err(error) if error.is_forbidden() => {}
            found => return found,
        }
        self.list_all(in_each(matcher.namespaces(), &list), keep).await
    }

    /// Returns the objects in several lists, each once: selectors may overlap. What is forbidden is recorded.
    async fn list_all<T: Object>(
        &self,
        lists: Vec<List>,
        keep: impl Fn(T) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        let found = futures::stream::iter(lists).map(|list| self.list_or_gap(list, &keep)).buffered(AT_ONCE);
        let mut all = Vec::new();
        add_missing(&mut all, found.try_concat().await?);
        Ok(all)
    }

    /// Returns the result or, if the query does not require it, records why it could not be read. Leases and events are never required
    /// if they do not come at all; a dump has them, or fails.
    pub(super) async fn if_possible<T: Default>(
        &self,
        kind: Kind,
        read: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let is_evidence = matches!(kind, Kind::Leases | Kind::Events) && !self.needs.everything;
        let limit = self.needs.optional_timeout.or(is_evidence.then_some(EVIDENCE_TIMEOUT));
        let Some(limit) = limit else { return read.await };
        let problem = match timeout(limit, read).await {
            Ok(Err(error)) if self.needs.optional_timeout.is_some() => error.to_string(),
            Ok(read) => return read,
            Err(_) => format!("no answer within {} s", limit.as_secs()),
        };
        self.note_gap(kind, None, GapCause::Failed(problem));
        Ok(T::default())
    }

    /// Lists a kind, or records that it is forbidden, or that an optional kind is not served.
    pub(super) async fn list_or_gap<T: Object>(
        &self,
        list: List,
        keep: impl Fn(T) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        let (kind, namespace) = (list.kind, list.namespace.clone());
        let cause = match self.live.list(list, keep).await {
            Err(error) if error.is_forbidden() => GapCause::Forbidden(permission("list", kind)),
            // An API group may be disabled, or the response is not from an API server.
            Err(error) if error.is_not_served() && is_optional(kind) => GapCause::Failed(error.to_string()),
            found => return found,
        };
        self.note_gap(kind, namespace, cause);
        Ok(Vec::new())
    }
}

impl Live {
    /// Lists a kind; an error is returned as the cause of a gap.
    pub(super) async fn list_or_cause<T: Object>(&self, list: List) -> Result<Vec<T>, GapCause> {
        let kind = list.kind;
        self.list(list, Some).await.map_err(|error| unread("list", kind, &error))
    }

    /// Reads one object; `None` if it does not exist.
    pub(super) async fn get<T: Object>(&self, list: &List, name: &str) -> Result<Option<T>, ClusterError> {
        self.get_as(list, name, JSON, |text| list.decode_object(text)).await
    }

    /// Reads one object in a form of its own; `None` if it does not exist.
    pub(super) async fn get_as<T: Object>(
        &self,
        list: &List,
        name: &str,
        accept: &'static str,
        decode: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ClusterError> {
        let request = format!("get {}", list.kind.resource());
        let mut answer = match self.transport.get(&request, &list.object(name), accept).await {
            Ok(answer) => answer,
            Err(error) if error.is_absence_of(list::plural(list.kind), name) => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = answer.text(list::MAX_JSON).await?;
        self.transport.progress(list.kind, 1, text.len());
        let object = decode(&text).map_err(|problem| answer.broken(problem))?;
        let ObjectMeta { namespace, name: found, .. } = object.metadata();
        if (namespace.as_str(), found.as_str()) != (list.namespace.as_deref().unwrap_or_default(), name) {
            return Err(answer.broken(list::NOT_REQUESTED));
        }
        Ok(Some(object))
    }

    /// Lists a kind, and returns the result of `keep` for each object.
    pub(super) async fn list<T: Object>(
        &self,
        list: List,
        keep: impl Fn(T) -> Option<T>,
    ) -> Result<Vec<T>, ClusterError> {
        Ok(list::open::<T>(&self.transport, list).await?.collect(keep).await?.items)
    }
}

/// Returns a list in each of some namespaces.
fn in_each<'a>(namespaces: impl Iterator<Item = &'a String>, list: &List) -> Vec<List> {
    namespaces.map(|namespace| List { namespace: Some(namespace.clone()), ..list.clone() }).collect()
}

/// Returns why objects of a kind could not be read.
pub(super) fn unread(verb: &str, kind: Kind, error: &ClusterError) -> GapCause {
    if error.is_forbidden() { GapCause::Forbidden(permission(verb, kind)) } else { GapCause::Failed(error.to_string()) }
}

/// Adds a gap, and returns whether it is new.
pub(super) fn add_gap(snapshot: &mut Snapshot, gap: Gap) -> bool {
    let is_new = !snapshot.gaps.contains(&gap);
    if is_new {
        snapshot.gaps.push(gap);
        snapshot.gaps.sort_by_key(|gap| gap.kind);
    }
    is_new
}

/// How long to wait for leases and events.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether a kind is optional in a cluster: a custom resource, or in an API group that can be disabled.
fn is_optional(kind: Kind) -> bool {
    !matches!(kind.api_names().0, "v1" | "apps/v1")
}

/// Adds the objects that are not in the list yet.
pub(super) fn add_missing<T: Object>(objects: &mut Vec<T>, found: Vec<T>) {
    let key = |object: &T| (object.metadata().namespace.clone(), object.metadata().name.clone());
    let mut known: BTreeSet<_> = objects.iter().map(key).collect();
    objects.extend(found.into_iter().filter(|object| known.insert(key(object))));
}
