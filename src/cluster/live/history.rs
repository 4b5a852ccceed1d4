//! Reads DaemonSets with their revisions and pods, and what else a change of them affects.

use std::time::Duration;

use tokio::time::timeout;

use super::list::List;
use super::prune::DaemonSetMatcher;
use super::read::{missing_nodes, note_missing_nodes};
use super::reader::Reader;
use crate::cluster::error::ClusterError;
use crate::cluster::projection::keep_node;
use crate::cluster::{CoverageScope, PodsOf};
use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::snapshot::{GapCause, Kind, Snapshot};

/// How long to wait before a change for what it does not need.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let (nodes, pods, budgets, events) = futures::join!(
            self.if_possible(Kind::Nodes, self.list_or_gap(List::of(Kind::Nodes), keep)),
            self.if_possible(Kind::Pods, self.own_pods(&all, &matcher, "")),
            self.if_possible(Kind::PodDisruptionBudgets, self.list_or_gap(budgets, Some)),
            self.if_possible(Kind::Events, self.events(&matcher, &scope)),
        );
        (snapshot.nodes, snapshot.pods, snapshot.pod_disruption_budgets, snapshot.events) =
            (nodes, pods, budgets, events);
        snapshot.gaps.extend(self.take_gaps());
        if snapshot.gap(Kind::Nodes, "").is_none() {
            let missing = missing_nodes(&snapshot);
            snapshot.nodes.extend(self.if_possible(Kind::Nodes, live.nodes_named(&missing, keep)).await);
            snapshot.gaps.extend(self.take_gaps());
            note_missing_nodes(&mut snapshot);
        }
        Ok(snapshot)
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
