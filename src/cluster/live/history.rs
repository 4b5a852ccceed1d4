//! Reads DaemonSets with their revisions and pods, and what else a change of them affects.

use std::time::Duration;

use tokio::time::timeout;

use super::list::List;
use super::prune::DaemonSetMatcher;
use super::read::missing_nodes;
use super::reader::Reader;
use crate::cluster::error::ClusterError;
use crate::cluster::projection::keep_node;
use crate::cluster::{CoverageScope, PodsOf};
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};

/// How long to wait for events before a change.
const PATIENCE_FOR_EVENTS: Duration = Duration::from_secs(5);

impl Reader<'_> {
    /// Reads the snapshot of [`crate::cluster::Wanted::History`].
    pub(super) async fn history(&self, pods: PodsOf) -> Result<Snapshot, ClusterError> {
        let mut snapshot = Snapshot::empty((self.live.clock)());
        (snapshot.daemon_sets, snapshot.advanced_daemon_sets) = self.daemon_sets().await?;
        let all: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().collect();
        let with_pods: Vec<&DaemonSet> = all.iter().copied().filter(|_| pods.include()).collect();
        let (any_owner, own) = (DaemonSetMatcher::new(&all, true), DaemonSetMatcher::new(&with_pods, false));
        let (revisions, pods) =
            futures::try_join!(self.controller_revisions(&all, &any_owner), self.own_pods(&with_pods, &own, ""))?;
        (snapshot.controller_revisions, snapshot.pods) = (revisions, pods);
        snapshot.gaps = self.take_gaps();
        Ok(snapshot)
    }

    /// Reads the snapshot of [`crate::cluster::Wanted::Change`].
    pub(super) async fn change(self) -> Result<Snapshot, ClusterError> {
        let (live, namespace) = (self.live, self.query.namespace.clone());
        let keep = |node: Node| Some(keep_node(node, false));
        let nodes = self.list_or_gap(List::of(Kind::Nodes), keep);
        let budgets = self.list_or_gap(List { namespace, ..List::of(Kind::PodDisruptionBudgets) }, Some);
        let (nodes, budgets) = futures::try_join!(nodes, budgets)?;
        let gaps = self.take_gaps();
        let mut snapshot = self.history(PodsOf::All).await?;
        let all: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().collect();
        let (matcher, scope) = (DaemonSetMatcher::new(&all, false), CoverageScope::default());
        // They only add warnings, so that a change does not wait for them, nor fail because of them.
        let events = match timeout(PATIENCE_FOR_EVENTS, self.events(&matcher, &scope)).await {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => self.without_events(error.to_string()),
            Err(_) => self.without_events("the server did not answer in time".to_owned()),
        };
        (snapshot.nodes, snapshot.pod_disruption_budgets, snapshot.events) = (nodes, budgets, events);
        snapshot.gaps.extend(gaps);
        snapshot.gaps.extend(self.take_gaps());
        if snapshot.gap(Kind::Nodes, "").is_none() {
            snapshot.nodes.extend(live.nodes_named(&missing_nodes(&snapshot), keep).await?);
        }
        Ok(snapshot)
    }

    /// Notes why no events were read.
    fn without_events(&self, problem: String) -> Vec<Event> {
        let cause = GapCause::Unreadable { object: Kind::Events.resource().to_owned(), problem };
        self.gaps.borrow_mut().push(Gap { kind: Kind::Events, namespace: None, cause });
        Vec::new()
    }
}
