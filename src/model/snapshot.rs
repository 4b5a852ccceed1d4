//! What was read of a cluster, live or from a dump: the only input of every analysis.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::controller_revision::ControllerRevision;
use super::daemon_set::DaemonSet;
use super::event::Event;
use super::metadata::ObjectMeta;
use super::node::Node;
use super::pod::{Pod, ResourceList, Toleration};
use super::time::Time;
use super::wire::null_is_default;

/// What was read of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The point in time that ages are counted from.
    pub now: Timestamp,
    /// The DaemonSets that were asked for.
    pub daemon_sets: Vec<DaemonSet>,
    /// The Advanced DaemonSets of OpenKruise that were asked for. Only what is about templates and revisions
    /// looks at them.
    pub advanced_daemon_sets: Vec<DaemonSet>,
    /// The revisions in the DaemonSets' namespaces, other owners' among them.
    pub controller_revisions: Vec<ControllerRevision>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The pods; [`Snapshot::pods_complete`] says how many of them.
    pub pods: Vec<Pod>,
    /// Which nodes' pods are all there.
    pub pods_complete: PodsComplete,
    /// Events about DaemonSets, pods and nodes.
    pub events: Vec<Event>,
    /// Defaults and limits for pods of a namespace.
    pub limit_ranges: Vec<LimitRange>,
    /// Runtime classes.
    pub runtime_classes: Vec<RuntimeClass>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClass>,
    /// Leases that components keep while they live.
    pub leases: Vec<Lease>,
    /// What could not be read, and why.
    pub gaps: Vec<Gap>,
    /// DaemonSets that were asked for by name, together with others, and do not exist.
    pub unknown_names: Vec<UnknownName>,
}

/// The name of a DaemonSet that does not exist, and what may have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Similar names that do exist, nearest first.
    pub near: Vec<String>,
    /// Other namespaces that have a DaemonSet of this name.
    pub elsewhere: Vec<String>,
}

/// Which nodes' pods are all in a snapshot, so that free room can be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodsComplete {
    /// Every pod of the cluster is there.
    Everywhere,
    /// Every pod of these nodes is there; of other nodes only the DaemonSets' own.
    On(BTreeSet<String>),
}

/// A kind of object that a snapshot can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// apps/v1 DaemonSets.
    DaemonSets,
    /// apps/v1 ControllerRevisions.
    ControllerRevisions,
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Events.
    Events,
    /// LimitRanges.
    LimitRanges,
    /// RuntimeClasses.
    RuntimeClasses,
    /// PriorityClasses.
    PriorityClasses,
    /// Leases.
    Leases,
    /// OpenKruise's Advanced DaemonSets. Few clusters have them, so that they are no part of [`Kind::ALL`], and
    /// a dump without them lacks nothing.
    AdvancedDaemonSets,
}

impl Kind {
    /// Every kind that each cluster has, in the order in which a snapshot is written.
    pub const ALL: [Kind; 9] = [
        Kind::DaemonSets,
        Kind::ControllerRevisions,
        Kind::Nodes,
        Kind::Pods,
        Kind::Events,
        Kind::LimitRanges,
        Kind::RuntimeClasses,
        Kind::PriorityClasses,
        Kind::Leases,
    ];

    /// Returns the group and version, the kind, and the resource as the API names them.
    pub fn api_names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::DaemonSets => ("apps/v1", "DaemonSet", "daemonsets"),
            Kind::ControllerRevisions => ("apps/v1", "ControllerRevision", "controllerrevisions"),
            Kind::Nodes => ("v1", "Node", "nodes"),
            Kind::Pods => ("v1", "Pod", "pods"),
            Kind::Events => ("v1", "Event", "events"),
            Kind::LimitRanges => ("v1", "LimitRange", "limitranges"),
            Kind::RuntimeClasses => ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses"),
            Kind::PriorityClasses => ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
            Kind::Leases => ("coordination.k8s.io/v1", "Lease", "leases"),
            Kind::AdvancedDaemonSets => ("apps.kruise.io/v1beta1", "DaemonSet", "daemonsets.apps.kruise.io"),
        }
    }

    /// Returns the resource's name, such as `pods`.
    pub fn resource(self) -> &'static str {
        self.api_names().2
    }
}

/// Something that could not be read, so that answers which need it are partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The kind of object.
    pub kind: Kind,
    /// The namespace, or nothing where the gap is everywhere.
    pub namespace: Option<String>,
    /// Why it could not be read.
    pub cause: GapCause,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapCause {
    /// The server refused; the permission that it takes, such as `list nodes`.
    Forbidden(String),
    /// The server refused to give the kind in every namespace, with the permission that takes, but
    /// gave it in the DaemonSets' own: what is missing is other namespaces' alone.
    ForbiddenElsewhere(String),
    /// The dump has no object of the kind.
    NotInDump,
}

impl Snapshot {
    /// Makes a snapshot in which nothing was read, to which what is read is added.
    pub fn empty(now: Timestamp) -> Self {
        Snapshot {
            now,
            daemon_sets: Vec::new(),
            advanced_daemon_sets: Vec::new(),
            controller_revisions: Vec::new(),
            nodes: Vec::new(),
            pods: Vec::new(),
            pods_complete: PodsComplete::On(BTreeSet::new()),
            events: Vec::new(),
            limit_ranges: Vec::new(),
            runtime_classes: Vec::new(),
            priority_classes: Vec::new(),
            leases: Vec::new(),
            gaps: Vec::new(),
            unknown_names: Vec::new(),
        }
    }

    /// Returns Kubernetes' own DaemonSets, and then OpenKruise's.
    pub fn daemon_sets_of_any_flavor(&self) -> impl Iterator<Item = &DaemonSet> {
        self.daemon_sets.iter().chain(&self.advanced_daemon_sets)
    }

    /// Returns the gap that keeps a kind from being known in a namespace that holds DaemonSets.
    pub fn gap(&self, kind: Kind, namespace: &str) -> Option<&Gap> {
        let hides = |gap: &&Gap| {
            gap.kind == kind
                && gap.namespace.as_deref().is_none_or(|gap| gap == namespace)
                && !matches!(gap.cause, GapCause::ForbiddenElsewhere(_))
        };
        self.gaps.iter().find(hides)
    }

    /// Tells whether every pod of a node is there.
    pub fn knows_all_pods_on(&self, node: &str) -> bool {
        match &self.pods_complete {
            PodsComplete::Everywhere => true,
            PodsComplete::On(nodes) => nodes.contains(node),
        }
    }
}

/// Defaults and limits for the pods of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRange {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// The limits.
    pub spec: LimitRangeSpec,
}

/// The limits of a LimitRange.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRangeSpec {
    /// A limit each for containers, pods and claims.
    #[serde(deserialize_with = "null_is_default")]
    pub limits: Vec<LimitRangeItem>,
}

/// The limits for one type of object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Limits of containers that give none.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub default: ResourceList,
    /// Requests of containers that give none.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub default_request: ResourceList,
}

/// A runtime class: what it adds to the pods that name it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    /// The name.
    pub metadata: ObjectMeta,
    /// What the runtime itself needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
    /// Where such pods may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<RuntimeScheduling>,
}

/// What a runtime itself needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overhead {
    /// The amounts per pod.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_fixed: ResourceList,
}

/// Where pods of a runtime class may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    /// Labels that are added to the pods' node selector.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations that are added to the pods' own.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// A priority class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// The name.
    pub metadata: ObjectMeta,
    /// The priority of pods that name it.
    pub value: i32,
    /// Whether pods that name none get it.
    pub global_default: bool,
}

/// A lease that a component keeps while it lives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// When it was kept last.
    pub spec: LeaseSpec,
}

/// When a lease was kept last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// The last time that the holder was alive.
    pub renew_time: Time,
    /// How long in seconds the holder is taken to live from then.
    pub lease_duration_seconds: Option<i64>,
}
