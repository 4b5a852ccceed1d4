//! Where snapshots come from: a live cluster, or a dump of one.
//!
//! A [`Query`] is answered with a [`Snapshot`](crate::model::snapshot::Snapshot). `live` reads an API server, and
//! connects as kubectl does with the same kubeconfig; [`file`](mod@file) reads a dump and works without a client.

mod archive;
mod dump_header;
mod dump_logs;
mod dump_reader;
pub mod error;
pub mod file;
mod json_document;
mod known_text;
pub mod live;
pub(crate) mod log;
mod log_section;
pub mod manifest;
mod needs;
mod newest_time;
mod object;
mod objects;
mod pieces;
mod projection;
mod redact;
mod replace_file;
mod suggestions;
pub mod text;
mod type_meta;
mod unpack;
pub mod write_dump;
pub mod yaml;

pub(crate) use replace_file::replace_file;
pub(crate) use suggestions::near as similar_names;

use std::collections::BTreeSet;

use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::metadata::ObjectMeta;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::{Neighbor, Snapshot, UnknownName};
use error::ClusterError;
use object::Object;

/// What to read: which DaemonSets, and which other objects of the cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The namespace of the DaemonSets; `None` for all.
    pub namespace: Option<String>,
    /// The names of the DaemonSets; empty for all.
    pub names: Vec<String>,
    /// Labels that the DaemonSets must have.
    pub selector: LabelSelector,
    /// Which flavors of DaemonSets; [`Wanted::Everything`] always includes both.
    pub flavors: Flavors,
    /// Which other objects to read.
    pub wanted: Wanted,
}

/// Which objects to read besides DaemonSets.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// Objects that explain why nodes have no available pod: revisions, nodes, pods, events and leases.
    Coverage(CoverageScope),
    /// Revisions, including those of other owners that match the selector.
    Revisions,
    /// Revisions, like [`Wanted::Revisions`], and the pods of the DaemonSets.
    History,
    /// Revisions, like [`Wanted::Revisions`], nodes, pods, events and PodDisruptionBudgets: everything that a change to a DaemonSet affects.
    Change,
    /// Revisions, nodes with the contents of their managed fields, and events about nodes: what has changed, and when.
    RecentChanges,
    /// Every object of every kind in a snapshot, complete, for a dump.
    Everything,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted::Coverage(CoverageScope::default())
    }
}

/// The nodes that coverage covers, and what is read to explain them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoverageScope {
    /// The only node; `None` for all.
    pub node: Option<String>,
    /// Labels that the nodes must have.
    pub node_selector: LabelSelector,
    /// Whether to read LimitRanges, runtime classes and priority classes, to simulate new pods.
    pub admission: bool,
    /// Whether to read the metadata of the ConfigMaps that templates use, and when containers have started.
    pub config: bool,
    /// Whether to read the metadata of the Secrets that templates use, too.
    pub secrets: bool,
    /// Whether not to read what prevents pods from being evicted from nodes whose drain is stuck.
    pub without_held_pods: bool,
    /// Whether not to read which ConfigMaps were changed before pods failed: nothing is blamed.
    pub without_blame: bool,
}

/// Which flavors of DaemonSets to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavors {
    /// Kubernetes' own.
    #[default]
    Apps,
    /// OpenKruise's Advanced DaemonSets.
    Advanced,
    /// Both. A name means Kubernetes' own DaemonSet, or OpenKruise's if there is no other.
    Any,
}

impl From<Flavor> for Flavors {
    fn from(flavor: Flavor) -> Self {
        match flavor {
            Flavor::Apps => Flavors::Apps,
            Flavor::Advanced => Flavors::Advanced,
        }
    }
}

impl Flavors {
    /// Returns whether DaemonSets of a flavor are read.
    pub fn include(self, flavor: Flavor) -> bool {
        self == Flavors::Any || self == flavor.into()
    }
}

impl Query {
    /// Queries one DaemonSet.
    pub(crate) fn of(daemon_set: &DaemonSet) -> Self {
        let ObjectMeta { namespace, name, .. } = daemon_set.metadata.clone();
        let flavors = daemon_set.flavor().into();
        Query { namespace: Some(namespace), names: vec![name], flavors, ..Query::default() }
    }

    /// Returns the namespace, if the query covers all of its DaemonSets: others may have changed, too.
    fn namespace_beside_others(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|_| self.names.is_empty())
    }

    /// Returns whether the query includes a DaemonSet, by namespace, name and labels.
    pub fn wants(&self, metadata: &ObjectMeta) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == metadata.namespace)
            && (self.names.is_empty() || self.names.contains(&metadata.name))
            && self.selector.matches(&metadata.labels)
    }

    /// Returns whether a DaemonSet of the other flavor may be suggested for an unknown name: the command takes both.
    fn suggests_other_flavor(&self) -> bool {
        self.flavors == Flavors::Advanced || matches!(self.wanted, Wanted::Revisions | Wanted::History | Wanted::Change)
    }

    /// Retains the DaemonSets of a snapshot that the query selects, and records the others in their namespaces, and the names that
    /// do not exist. A name prefers Kubernetes' own DaemonSet over OpenKruise's. Fails if the query has a single name, which does
    /// not exist.
    fn choose(&self, snapshot: &mut Snapshot) -> Result<(), ClusterError> {
        let Snapshot { daemon_sets, advanced_daemon_sets, .. } = snapshot;
        let unknown = match self.names.as_slice() {
            [name] if self.suggests_other_flavor() => {
                let existing = || daemon_sets.iter().chain(advanced_daemon_sets.iter());
                let is_meant = |daemon_set: &DaemonSet| {
                    self.flavors.include(daemon_set.flavor()) && self.wants(&daemon_set.metadata)
                };
                if !existing().any(is_meant) {
                    let namespace = self.namespace.as_deref();
                    return Err(suggestions::unknown_daemon_set_of(self.flavors, name, namespace, existing()));
                }
                Vec::new()
            }
            _ => {
                let existing = daemon_sets.iter().chain(advanced_daemon_sets.iter());
                let existing = existing.filter(|existing| self.flavors.include(existing.flavor()));
                suggestions::unknown_names(self, existing)
                    .map_err(|error| suggestions::or_an_advanced(error, advanced_daemon_sets))?
            }
        };
        snapshot.unknown_names = unknown;
        let neighbors: Vec<Neighbor> =
            daemon_sets.iter().filter(|one| !self.wants(&one.metadata)).map(neighbor).collect();
        let flavors = if self.wanted == Wanted::Everything { Flavors::Any } else { self.flavors };
        for daemon_sets in [&mut *daemon_sets, &mut *advanced_daemon_sets] {
            daemon_sets.retain(|daemon_set| flavors.include(daemon_set.flavor()) && self.wants(&daemon_set.metadata));
        }
        if !self.names.is_empty() {
            let own: BTreeSet<_> = daemon_sets.iter().map(Object::key).collect();
            advanced_daemon_sets.retain(|advanced| !own.contains(&advanced.key()));
        }
        let namespaces: BTreeSet<_> = daemon_sets.iter().map(|one| one.metadata.namespace.clone()).collect();
        snapshot.neighbors = neighbors.into_iter().filter(|one| namespaces.contains(&one.namespace)).collect();
        Ok(())
    }
}

/// Returns the relevant fields of a DaemonSet that was not requested.
fn neighbor(daemon_set: &DaemonSet) -> Neighbor {
    let DaemonSet { metadata, spec, .. } = daemon_set;
    let pod_labels = spec.template.metadata.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    Neighbor { namespace: metadata.namespace.clone(), name: metadata.name.clone(), pod_labels }
}

/// Where snapshots come from.
#[derive(Debug)]
pub enum Source {
    /// A live cluster.
    Live(Box<live::Live>),
    /// A dump.
    File(file::Dump),
}

impl Source {
    /// Returns the live cluster. Fails for a dump, which cannot be changed.
    pub(crate) fn live(&self) -> Result<&live::Live, ClusterError> {
        match self {
            Source::Live(live) => Ok(live),
            Source::File(dump) => Err(dump.refuse_write()),
        }
    }

    /// Returns the error for a DaemonSet that was requested by name and does not exist.
    pub fn unknown_daemon_set(&self, namespace: Option<&str>, unknown: UnknownName) -> ClusterError {
        let error = suggestions::unknown_daemon_set(namespace, unknown);
        match self {
            Source::Live(_) => error,
            Source::File(dump) => dump.not_found(error),
        }
    }
}
