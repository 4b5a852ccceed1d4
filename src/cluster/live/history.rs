//! Reads DaemonSets with their revisions and pods, and what else a change of them affects.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::timeout;

use super::list::{List, permission};
use super::prune::DaemonSetMatcher;
use super::read::{by_name, missing_nodes, note_missing_nodes};
use super::reader::{Reader, is_forbidden};
use crate::cluster::error::ClusterError;
use crate::cluster::projection::{SharedKeys, keep_node};
use crate::cluster::{CoverageScope, PodsOf};
use crate::model::daemon_set::DaemonSet;
use crate::model::event::{Event, REMOVAL_EVENTS};
use crate::model::node::Node;
use crate::model::snapshot::{GapCause, Kind, Snapshot};
use crate::model::written::{WrittenNode, WrittenObject};

/// How long to wait before a change for what it does not need.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for what other namespaces have, while all else is read.
const ELSEWHERE: Duration = Duration::from_secs(3);

/// Returns the list of the objects of a kind of [`Kind::WRITTEN`] that matter in a namespace, or in all.
pub(super) fn written_list(kind: Kind, namespace: Option<&str>) -> List {
    match (kind, namespace) {
        (Kind::Namespaces, Some(name)) => List { field_selector: by_name(name), ..List::of(kind) },
        (Kind::Namespaces, None) => List::of(kind),
        _ => List { namespace: namespace.map(str::to_owned), ..List::of(kind) },
    }
}

/// Returns the list of the events about nodes, which are in the namespace `default`.
pub(super) fn events_about_nodes() -> List {
    let field_selector = "involvedObject.kind=Node".to_owned();
    List { namespace: Some("default".to_owned()), field_selector, ..List::of(Kind::Events) }
}

pub(super) fn keep_removal(event: Event) -> Option<Event> {
    REMOVAL_EVENTS.contains(&event.reason.as_str()).then_some(event)
}

/// Returns what keeps of each node who has written it.
pub(super) fn keep_written() -> impl Fn(WrittenNode) -> Option<WrittenNode> {
    let shared = RefCell::new(SharedKeys::default());
    move |mut node| {
        shared.borrow_mut().share(&mut node);
        Some(WrittenNode { node: keep_node(node.node, false), ..node })
    }
}

impl Reader<'_> {
    /// Reads the snapshot of [`crate::cluster::Wanted::History`].
    pub(super) async fn history(&self, pods: PodsOf) -> Result<Snapshot, ClusterError> {
        let mut snapshot = Snapshot::empty(self.live.now());
        (snapshot.daemon_sets, snapshot.advanced_daemon_sets) = self.daemon_sets().await?;
        let all: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().collect();
        let with_pods: Vec<&DaemonSet> = all.iter().copied().filter(|_| pods == PodsOf::All).collect();
        let (any_owner, own) = (DaemonSetMatcher::new(&all, true), DaemonSetMatcher::new(&with_pods, false));
        let (revisions, pods) =
            futures::try_join!(self.controller_revisions(&all, &any_owner), self.own_pods(&with_pods, &own, ""))?;
        (snapshot.controller_revisions, snapshot.pods) = (revisions, pods);
        snapshot.gaps = self.take_gaps();
        Ok(snapshot)
    }

    /// Reads the snapshot of [`crate::cluster::Wanted::Change`].
    ///
    /// What is read besides the DaemonSet and its revisions shows the effect of the change and warns of it: a rollback must
    /// not fail because it cannot be read.
    pub(super) async fn change(self) -> Result<Snapshot, ClusterError> {
        let mut snapshot = self.history(PodsOf::None).await?;
        let all: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().collect();
        let (matcher, scope) = (DaemonSetMatcher::new(&all, false), CoverageScope::default());
        let (live, namespace) = (self.live, self.query.namespace.clone());
        let keep = |node: Node| Some(keep_node(node, false));
        let budgets = List { namespace, ..List::of(Kind::PodDisruptionBudgets) };
        let (nodes, pods, budgets, events, leases) = futures::join!(
            self.if_possible(Kind::Nodes, self.list_or_gap(List::of(Kind::Nodes), keep)),
            self.if_possible(Kind::Pods, self.own_pods(&all, &matcher, "")),
            self.if_possible(Kind::PodDisruptionBudgets, self.list_or_gap(budgets, Some)),
            self.if_possible(Kind::Events, self.events(&matcher, &scope)),
            self.if_possible(Kind::Leases, self.leases()),
        );
        (snapshot.nodes, snapshot.pods, snapshot.pod_disruption_budgets, snapshot.events, snapshot.leases) =
            (nodes, pods, budgets, events, leases);
        snapshot.gaps.extend(self.take_gaps());
        if snapshot.gap(Kind::Nodes, "").is_none() {
            let missing = missing_nodes(&snapshot);
            snapshot.nodes.extend(self.if_possible(Kind::Nodes, live.nodes_named(&missing, keep)).await);
            snapshot.gaps.extend(self.take_gaps());
            note_missing_nodes(&mut snapshot);
        }
        Ok(snapshot)
    }

    /// Reads the snapshot of [`crate::cluster::Wanted::RecentChanges`].
    pub(super) async fn recent_changes(&self) -> Result<Snapshot, ClusterError> {
        let written = |kind| {
            let list = written_list(kind, self.query.namespace.as_deref());
            async move { Ok((kind, self.list_or_gap(list, Some::<WrittenObject>).await?)) }
        };
        let (mut snapshot, written, nodes, events, elsewhere) = futures::try_join!(
            self.history(PodsOf::None),
            try_join_all(Kind::WRITTEN.map(written)),
            self.list_or_gap(List::of(Kind::Nodes), keep_written()),
            self.list_or_gap(events_about_nodes(), keep_removal),
            async { Ok(self.daemon_sets_elsewhere().await) },
        )?;
        snapshot.nodes = nodes.into_iter().map(|node| snapshot.note_writes(node)).collect();
        snapshot.written_objects = written.into_iter().collect();
        snapshot.written_objects.insert(Kind::DaemonSets, elsewhere);
        snapshot.events = events;
        snapshot.gaps.extend(self.take_gaps());
        Ok(snapshot)
    }

    /// Reads who has changed the DaemonSets of other namespaces, if all of one are asked about. That they cannot be read within a few
    /// seconds is noted.
    async fn daemon_sets_elsewhere(&self) -> Vec<WrittenObject> {
        let Some(namespace) = self.query.namespace_beside_others() else { return Vec::new() };
        let kind = Kind::DaemonSets;
        let field_selector = format!("metadata.namespace!={namespace}");
        let list = List { field_selector, label_selector: self.label_selector(), ..List::of(kind) };
        let keep = |object: WrittenObject| (object.metadata.namespace != namespace).then_some(object);
        let cause = match timeout(ELSEWHERE, self.live.list(list, keep)).await {
            Ok(Ok(objects)) => return objects,
            Ok(Err(error)) if is_forbidden(&error) => GapCause::ForbiddenElsewhere(permission("list", kind)),
            Ok(Err(error)) => GapCause::Failed(error.to_string()),
            Err(_) => GapCause::Failed(format!("no answer within {} s", ELSEWHERE.as_secs())),
        };
        self.note_gap(kind, None, cause);
        Vec::new()
    }

    /// Returns what is read, or notes why nothing was.
    async fn if_possible<T>(&self, kind: Kind, read: impl Future<Output = Result<Vec<T>, ClusterError>>) -> Vec<T> {
        let problem = match timeout(PATIENCE, read).await {
            Ok(Ok(items)) => return items,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        self.note_gap(kind, None, GapCause::Failed(problem));
        Vec::new()
    }
}
