//! Where snapshots come from: a live cluster, or a dump of one.
//!
//! A [`Source`] answers a [`Query`] with a [`Snapshot`]. `live` asks an API server and acts as
//! kubectl does with the same kubeconfig; [`file`](mod@file) reads a dump and works without a client.

mod dump_header;
pub mod error;
pub mod file;
mod json_document;
#[cfg(feature = "live")]
pub mod live;
pub mod manifest;
mod manifest_validation;
mod newest_time;
mod objects;
mod redact;
mod suggestions;
pub mod text;
pub(crate) mod write;
pub mod write_dump;
pub mod yaml;

use std::collections::BTreeSet;

use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::metadata::ObjectMeta;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{Snapshot, UnknownName};
use error::ClusterError;

/// What is asked of a source, so that it reads no more than the question needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The namespace of the DaemonSets; every one where absent.
    pub namespace: Option<String>,
    /// The names of the DaemonSets; all of them where empty.
    pub names: Vec<String>,
    /// Labels that the DaemonSets must have.
    pub selector: LabelSelector,
    /// The one node that is asked about; every one where absent.
    pub node: Option<String>,
    /// Labels that the nodes must have.
    pub node_selector: LabelSelector,
    /// Whether LimitRanges, runtime classes and priority classes are wanted, to simulate new pods.
    pub admission: bool,
    /// Whether every pod and every event of the cluster is wanted, for a dump.
    pub everything: bool,
}

impl Query {
    /// Tells whether the query asks for a DaemonSet: by namespace, name and labels.
    pub fn wants(&self, metadata: &ObjectMeta) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == metadata.namespace)
            && (self.names.is_empty() || self.names.contains(&metadata.name))
            && self.selector.matches(&metadata.labels)
    }
}

/// What is asked of a source about templates and revisions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryQuery {
    /// The namespace of the DaemonSets; every one where absent.
    pub namespace: Option<String>,
    /// The name of the DaemonSet; all of them where absent.
    pub name: Option<String>,
    /// Labels that the DaemonSets must have.
    pub selector: LabelSelector,
    /// Whose DaemonSets.
    pub flavors: Flavors,
    /// Of which of them the pods are read, too: of a big DaemonSet they are many.
    pub pods: PodsOf,
}

/// Of which DaemonSets pods are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodsOf {
    /// Of all that are read.
    #[default]
    All,
    /// Of those whose update strategy is `OnDelete`.
    OnDelete,
    /// Of none.
    None,
}

impl PodsOf {
    /// Tells whether a DaemonSet's pods are read.
    pub fn include(self, daemon_set: &DaemonSet) -> bool {
        match self {
            PodsOf::All => true,
            PodsOf::OnDelete => daemon_set.spec.update_strategy == UpdateStrategy::OnDelete,
            PodsOf::None => false,
        }
    }
}

/// Whose DaemonSets are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavors {
    /// Kubernetes' own.
    Apps,
    /// OpenKruise's.
    Advanced,
    /// Both; of a name, Kubernetes' own, and where there is none OpenKruise's.
    #[default]
    Any,
}

impl Flavors {
    /// Tells whether DaemonSets of a flavor are asked for.
    pub fn include(self, flavor: Flavor) -> bool {
        match self {
            Flavors::Apps => flavor == Flavor::Apps,
            Flavors::Advanced => flavor == Flavor::Advanced,
            Flavors::Any => true,
        }
    }
}

impl HistoryQuery {
    /// Tells whether the query asks for a DaemonSet: by namespace, name and labels.
    pub fn wants(&self, metadata: &ObjectMeta) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == metadata.namespace)
            && self.name.as_ref().is_none_or(|name| *name == metadata.name)
            && self.selector.matches(&metadata.labels)
    }

    /// Keeps of what a name matches the DaemonSets that it means: Kubernetes' own go before OpenKruise's.
    pub(crate) fn choose(&self, daemon_sets: &mut Vec<DaemonSet>, advanced_daemon_sets: &mut Vec<DaemonSet>) {
        for daemon_sets in [&mut *daemon_sets, &mut *advanced_daemon_sets] {
            daemon_sets
                .retain(|daemon_set| self.flavors.include(daemon_set.flavor()) && self.wants(&daemon_set.metadata));
        }
        if self.name.is_some() {
            let namespaces: BTreeSet<_> = daemon_sets.iter().map(|own| own.metadata.namespace.clone()).collect();
            advanced_daemon_sets.retain(|advanced| !namespaces.contains(&advanced.metadata.namespace));
        }
    }
}

/// Where snapshots come from.
#[derive(Debug)]
pub enum Source {
    /// A live cluster.
    #[cfg(feature = "live")]
    Live(live::Live),
    /// A dump.
    File(file::Dump),
}

impl Source {
    /// Reads what the query asks for, and no more than it needs.
    ///
    /// What the server forbids and what the dump lacks become gaps of the snapshot.
    ///
    /// # Errors
    ///
    /// Fails where the source cannot be read at all, the DaemonSets are forbidden, or a DaemonSet or
    /// node that is asked for by name is not there.
    pub async fn read(&self, query: &Query) -> Result<Snapshot, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => Box::pin(live.read(query)).await,
            Source::File(dump) => dump.read(query),
        }
    }

    /// Returns the error for a DaemonSet that was asked for by name and does not exist.
    pub fn unknown_daemon_set(&self, namespace: Option<&str>, unknown: UnknownName) -> ClusterError {
        let error = suggestions::unknown_daemon_set(namespace, unknown);
        match self {
            #[cfg(feature = "live")]
            Source::Live(_) => error,
            Source::File(dump) => dump.not_found(error),
        }
    }

    /// Reads DaemonSets with their revisions, with their pods where the query wants them, and nothing else.
    ///
    /// Revisions that only match a DaemonSet's selector are there too, whosever they are.
    ///
    /// # Errors
    ///
    /// Fails where the source cannot be read at all, the DaemonSets are forbidden, or the one that is asked
    /// for by name is not there.
    pub async fn read_history(&self, query: &HistoryQuery) -> Result<Snapshot, ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => Box::pin(live.read_history(query)).await,
            Source::File(dump) => dump.read_history(query),
        }
    }

    /// Adds every pod of these nodes to the snapshot, so that free room on them can be computed.
    ///
    /// A dump has no more pods than it has, so that nothing happens there.
    ///
    /// # Errors
    ///
    /// Fails where the server cannot be read; pods that it forbids become a gap.
    pub async fn read_pods_on(&self, snapshot: &mut Snapshot, nodes: &BTreeSet<String>) -> Result<(), ClusterError> {
        match self {
            #[cfg(feature = "live")]
            Source::Live(live) => live.read_pods_on(snapshot, nodes).await,
            Source::File(_) => {
                let _ = (snapshot, nodes);
                Ok(())
            }
        }
    }
}
