//! Asks for what a query needs, all at once, and makes gaps of what the server forbids.

use std::collections::BTreeSet;

use futures::future::{join_all, try_join_all};
use futures::stream::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::Live;
use super::advanced;
use super::list::{self, Item, List};
use super::prune::{Others, Owners, keep_node};
use super::reader::{
    AT_ONCE, ONE_BY_ONE, Reader, add_missing_pods, add_missing_revisions, broken, complete, is_forbidden, permission,
};
use crate::cluster::Query;
use crate::cluster::error::ClusterError;
use crate::cluster::suggestions;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{
    Gap, GapCause, Kind, Lease, LimitRange, PodsComplete, PriorityClass, RuntimeClass, Snapshot, UnknownName,
};

/// The most nodes whose pods are asked for node by node; beyond that all pods are.
const NODE_BY_NODE: usize = 20;

/// The lease that the controller manager keeps, and its namespace.
const CONTROLLER_MANAGER: (&str, &str) = ("kube-system", "kube-controller-manager");

impl Reader<'_> {
    /// Reads the snapshot. Whatever needs no DaemonSet to be asked for is asked for at once.
    pub(super) async fn snapshot(self) -> Result<Snapshot, ClusterError> {
        let mut snapshot = Snapshot::empty((self.live.clock)());
        let of_daemon_sets = async {
            let (daemon_sets, pods) = futures::try_join!(self.daemon_sets(), self.open_all_pods())?;
            let owners = Owners::new(&daemon_sets, self.is_whole());
            let (pods, revisions, events, limit_ranges) = futures::try_join!(
                self.pods(&daemon_sets, &owners, pods),
                self.controller_revisions(&daemon_sets, &owners),
                self.events(&owners),
                self.limit_ranges(&owners),
            )?;
            Ok((daemon_sets, pods, revisions, events, limit_ranges))
        };
        let (of_daemon_sets, nodes, leases, runtime_classes, priority_classes) = futures::try_join!(
            of_daemon_sets,
            self.nodes(),
            self.leases(),
            self.classes::<RuntimeClass>(Kind::RuntimeClasses),
            self.classes::<PriorityClass>(Kind::PriorityClasses),
        )?;
        let (pods, limit_ranges);
        (snapshot.daemon_sets, pods, snapshot.controller_revisions, snapshot.events, limit_ranges) = of_daemon_sets;
        (snapshot.pods, snapshot.pods_complete) = pods;
        (snapshot.nodes, snapshot.leases, snapshot.limit_ranges) = (nodes, leases, limit_ranges);
        (snapshot.runtime_classes, snapshot.priority_classes) = (runtime_classes, priority_classes);
        if self.query.everything {
            snapshot.advanced_daemon_sets = advanced::list(&self).await?;
            let owners = Owners::new(&snapshot.advanced_daemon_sets, true);
            let revisions = self.controller_revisions(&snapshot.advanced_daemon_sets, &owners).await?;
            add_missing_revisions(&mut snapshot.controller_revisions, revisions);
        }
        snapshot.gaps = self.take_gaps();
        snapshot.unknown_names = self.unknown_names.take();
        self.check_node(&snapshot).await?;
        Ok(snapshot)
    }

    /// Tells whether objects that are fine are wanted whole: for a dump, or to explain one node.
    fn is_whole(&self) -> bool {
        self.query.everything || self.query.node.is_some()
    }

    /// Reads the DaemonSets: by name where few are named.
    async fn daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError> {
        let Query { namespace, names, .. } = self.query;
        let mut daemon_sets = match namespace {
            Some(namespace) if (1..=ONE_BY_ONE).contains(&names.len()) => {
                let unique: BTreeSet<&String> = names.iter().collect();
                let is_one = unique.len() == 1;
                let mut daemon_sets = Vec::new();
                for found in join_all(unique.into_iter().map(|name| self.daemon_set(namespace, name))).await {
                    match found {
                        Ok(daemon_set) => daemon_sets.push(daemon_set),
                        Err(ClusterError::NotFound { name, near, elsewhere, .. }) if !is_one => {
                            self.unknown_names.borrow_mut().push(UnknownName { name, near, elsewhere });
                        }
                        Err(error) => return Err(error),
                    }
                }
                daemon_sets
            }
            _ => {
                let existing = self.list_daemon_sets().await?;
                self.unknown_names.borrow_mut().extend(suggestions::unknown_names(self.query, &existing)?);
                existing
            }
        };
        daemon_sets.retain(|daemon_set| self.query.wants(&daemon_set.metadata));
        daemon_sets.sort_by(|one, other| {
            let key =
                |daemon_set: &DaemonSet| (daemon_set.metadata.namespace.clone(), daemon_set.metadata.name.clone());
            key(one).cmp(&key(other))
        });
        Ok(daemon_sets)
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        let Query { node, node_selector, .. } = self.query;
        let field_selector = node.as_ref().map(|node| format!("metadata.name={node}")).unwrap_or_default();
        let list =
            List { label_selector: node_selector.to_string(), field_selector, from_cache: true, ..List::default() };
        let keep = |node| Some(keep_node(node, self.is_whole()));
        let nodes = match self.live.list(Kind::Nodes, list, keep).await {
            Err(error) if is_forbidden(&error) => {
                self.note_forbidden(Kind::Nodes, None);
                return Ok(Vec::new());
            }
            nodes => nodes?,
        };
        Ok(nodes)
    }

    /// Checks that the node that was asked for exists, or that pods have outlived it.
    async fn check_node(&self, snapshot: &Snapshot) -> Result<(), ClusterError> {
        let Some(node) = &self.query.node else { return Ok(()) };
        let is_known = !snapshot.nodes.is_empty()
            || snapshot.gap(Kind::Nodes, "").is_some()
            || snapshot.pods.iter().any(|pod| suggestions::is_for_node(pod, node));
        if is_known {
            return Ok(());
        }
        let list = List { from_cache: true, ..List::default() };
        let all = self.live.list(Kind::Nodes, list, |node: Node| Some(node.metadata.name)).await;
        let existing: Vec<String> = all.unwrap_or_default();
        if existing.contains(node) {
            return Ok(());
        }
        Err(suggestions::unknown_node(node, existing.iter().map(String::as_str)))
    }

    /// Asks for all pods of the cluster, or of the one node, where the query needs them.
    ///
    /// They begin to arrive while the DaemonSets do, without which none can be kept or dropped.
    async fn open_all_pods(&self) -> Result<Option<list::Opened<'_>>, ClusterError> {
        let Query { namespace, node, everything, .. } = self.query;
        let field_selector = match node {
            Some(node) if !everything => format!("spec.nodeName={node}"),
            _ if *everything || namespace.is_none() => String::new(),
            _ => return Ok(None),
        };
        let list = List { field_selector, from_cache: true, ..List::default() };
        match list::open::<Pod>(&self.live.transport, Kind::Pods, list).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if is_forbidden(&error) => {
                let cause = GapCause::ForbiddenElsewhere(permission(Kind::Pods));
                self.gaps.borrow_mut().push(Gap { kind: Kind::Pods, namespace: None, cause });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn pods(
        &self,
        daemon_sets: &[DaemonSet],
        owners: &Owners,
        all: Option<list::Opened<'_>>,
    ) -> Result<(Vec<Pod>, PodsComplete), ClusterError> {
        let others = if self.query.everything { Others::Whole } else { Others::ForArithmetic };
        let all_arrive = async {
            match all {
                Some(all) => all.collect(&self.live.tally, |pod| owners.keep_pod(pod, others)).await.map(Some),
                None => Ok(None),
            }
        };
        let one_node = self.query.node.as_ref().filter(|_| !self.query.everything);
        match (one_node, all_arrive.await?) {
            (Some(node), Some(mut pods)) => {
                // The pods that no node has yet are no node's: they are asked for apart.
                let unbound = self.own_pods(daemon_sets, owners, "spec.nodeName=").await?;
                add_missing_pods(&mut pods, unbound);
                Ok((pods, PodsComplete::On(BTreeSet::from([node.clone()]))))
            }
            (None, Some(pods)) => Ok((pods, PodsComplete::Everywhere)),
            (_, None) => Ok((self.own_pods(daemon_sets, owners, "").await?, PodsComplete::On(BTreeSet::new()))),
        }
    }

    async fn controller_revisions(
        &self,
        daemon_sets: &[DaemonSet],
        owners: &Owners,
    ) -> Result<Vec<ControllerRevision>, ClusterError> {
        let keep = |object: Value| match ControllerRevision::from_object(complete(object, Kind::ControllerRevisions)) {
            Ok(revision) => owners.keeps_revision(&revision).then_some(Ok(revision)),
            Err(error) => Some(Err(broken(Kind::ControllerRevisions, &error))),
        };
        let found = if self.query.namespace.is_some() && daemon_sets.len() <= ONE_BY_ONE {
            let lists = daemon_sets.iter().map(|DaemonSet { metadata, spec, .. }| {
                let (namespace, label_selector) = (Some(metadata.namespace.clone()), spec.selector.to_string());
                self.list_or_gap(Kind::ControllerRevisions, List { namespace, label_selector, ..List::default() }, keep)
            });
            try_join_all(lists).await?.into_iter().flatten().collect()
        } else {
            self.list_scope(Kind::ControllerRevisions, List::default(), owners, keep).await?
        };
        let mut revisions = Vec::new();
        // Selectors may overlap.
        add_missing_revisions(&mut revisions, found.into_iter().collect::<Result<_, _>>()?);
        Ok(revisions)
    }

    /// Reads the events: those about the DaemonSets, and the warnings about their pods; all about the
    /// pods where one node is asked about, and about that node.
    async fn events(&self, owners: &Owners) -> Result<Vec<Event>, ClusterError> {
        let Query { names, node, everything, .. } = self.query;
        let list = |field_selector: String| List { field_selector, ..List::default() };
        if *everything {
            return self.list_scope(Kind::Events, list(String::new()), owners, Some).await;
        }
        let keep = |event| owners.concerns(&event).then_some(event);
        let about_daemon_sets = match names.as_slice() {
            [name] => format!("involvedObject.kind=DaemonSet,involvedObject.name={name}"),
            _ => "involvedObject.kind=DaemonSet".to_owned(),
        };
        let about_pods =
            if node.is_some() { "involvedObject.kind=Pod" } else { "involvedObject.kind=Pod,type!=Normal" };
        let about_node = async {
            let Some(node) = node else { return Ok(Vec::new()) };
            let list = List {
                namespace: Some("default".to_owned()),
                ..list(format!("involvedObject.kind=Node,involvedObject.name={node}"))
            };
            self.list_or_gap(Kind::Events, list, Some).await
        };
        let (mut events, pods, node) = futures::try_join!(
            self.list_scope(Kind::Events, list(about_daemon_sets), owners, keep),
            self.list_scope(Kind::Events, list(about_pods.to_owned()), owners, keep),
            about_node,
        )?;
        events.extend(pods);
        events.extend(node);
        Ok(events)
    }

    async fn limit_ranges(&self, owners: &Owners) -> Result<Vec<LimitRange>, ClusterError> {
        if !self.query.admission {
            return Ok(Vec::new());
        }
        self.list_scope(Kind::LimitRanges, List::default(), owners, Some).await
    }

    /// Reads a kind of class, where admission is to be simulated.
    async fn classes<T: Item>(&self, kind: Kind) -> Result<Vec<T>, ClusterError> {
        if !self.query.admission {
            return Ok(Vec::new());
        }
        self.list_or_gap(kind, List::default(), Some).await
    }

    async fn leases(&self) -> Result<Vec<Lease>, ClusterError> {
        let (namespace, name) = CONTROLLER_MANAGER;
        let path = format!("{}/{name}", list::collection(Kind::Leases, Some(namespace)));
        match self.live.transport.get_object("get leases", &path).await {
            Ok(lease) => Ok(vec![lease]),
            // Not every cluster's controllers keep this lease.
            Err(ClusterError::Api { code: 404, .. }) => Ok(Vec::new()),
            Err(error) if is_forbidden(&error) => {
                let cause = GapCause::Forbidden("get leases.coordination.k8s.io".to_owned());
                let gap = Gap { kind: Kind::Leases, namespace: Some(namespace.to_owned()), cause };
                self.gaps.borrow_mut().push(gap);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }
}

/// Adds every pod of the nodes to a snapshot: node by node while they are few.
pub(super) async fn pods_on(
    live: &Live,
    snapshot: &mut Snapshot,
    nodes: &BTreeSet<String>,
) -> Result<(), ClusterError> {
    let wanted: BTreeSet<String> = nodes.iter().filter(|node| !snapshot.knows_all_pods_on(node)).cloned().collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let owners = Owners::new(&snapshot.daemon_sets, false);
    let keep = |pod| owners.keep_pod(pod, Others::ForArithmetic);
    let one_by_one = wanted.len() <= NODE_BY_NODE;
    let selectors: Vec<String> = if one_by_one {
        wanted.iter().map(|node| format!("spec.nodeName={node}")).collect()
    } else {
        vec![String::new()]
    };
    let lists =
        selectors.into_iter().map(|field_selector| List { field_selector, from_cache: true, ..List::default() });
    let found = futures::stream::iter(lists)
        .map(|list| live.list(Kind::Pods, list, keep))
        .buffer_unordered(AT_ONCE)
        .try_concat();
    match found.await {
        Ok(found) => {
            add_missing_pods(&mut snapshot.pods, found);
            match &mut snapshot.pods_complete {
                PodsComplete::On(complete) if one_by_one => complete.extend(wanted),
                complete => *complete = PodsComplete::Everywhere,
            }
        }
        Err(error) if is_forbidden(&error) => {
            let cause = GapCause::ForbiddenElsewhere(permission(Kind::Pods));
            let gap = Gap { kind: Kind::Pods, namespace: None, cause };
            if !snapshot.gaps.contains(&gap) {
                snapshot.gaps.push(gap);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
