//! Reads DaemonSets with their revisions, and the pods of some of them.

use super::prune::DaemonSetMatcher;
use super::reader::Reader;
use crate::cluster::PodsOf;
use crate::cluster::error::ClusterError;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;

impl Reader<'_> {
    /// Reads the snapshot of [`crate::cluster::Wanted::History`].
    pub(super) async fn history(self, pods: PodsOf) -> Result<Snapshot, ClusterError> {
        let mut snapshot = Snapshot::empty((self.live.clock)());
        (snapshot.daemon_sets, snapshot.advanced_daemon_sets) = self.daemon_sets().await?;
        let all: Vec<&DaemonSet> = snapshot.daemon_sets_of_any_flavor().collect();
        let with_pods: Vec<&DaemonSet> = all.iter().copied().filter(|daemon_set| pods.include(daemon_set)).collect();
        let (any_owner, own) = (DaemonSetMatcher::new(&all, true), DaemonSetMatcher::new(&with_pods, false));
        let (revisions, pods) =
            futures::try_join!(self.controller_revisions(&all, &any_owner), self.own_pods(&with_pods, &own, ""))?;
        (snapshot.controller_revisions, snapshot.pods) = (revisions, pods);
        snapshot.gaps = self.take_gaps();
        Ok(snapshot)
    }
}
