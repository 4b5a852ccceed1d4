//! Reads a dump of a cluster.

use super::Query;
use super::error::ReadError;
use super::names;
use crate::model::snapshot::Snapshot;

/// A dump that was read whole.
#[derive(Debug, Clone)]
pub struct Dump {
    /// Everything in the dump.
    pub snapshot: Snapshot,
}

impl Dump {
    /// Returns what the query asks for.
    ///
    /// # Errors
    ///
    /// Fails where the query names a DaemonSet that is not in the dump.
    pub fn read(&self, query: &Query) -> Result<Snapshot, ReadError> {
        names::check_daemon_sets(query, &self.snapshot.daemon_sets)?;
        let mut snapshot = self.snapshot.clone();
        snapshot.daemon_sets.retain(|daemon_set| query.wants(&daemon_set.metadata));
        Ok(snapshot)
    }
}
