//! Where snapshots come from: a live cluster, or a dump of one.

use crate::model::selector::LabelSelector;

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
