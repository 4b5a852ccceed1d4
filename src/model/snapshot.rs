//! What was read from a cluster or a dump: the only input of every analysis.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config_object::ConfigObject;
use super::controller_revision::ControllerRevision;
use super::daemon_set::DaemonSet;
use super::device_claim::{ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use super::event::Event;
use super::held_pod::HeldPod;
pub use super::kind::Kind;
use super::metadata::{AnnotatedMeta, ObjectMeta};
use super::node::Node;
use super::pod::{Pod, ResourceList, Toleration};
use super::pod_disruption_budget::PodDisruptionBudget;
use super::resource_quota::ResourceQuota;
use super::server_side_apply::{managed_fields, time_of};
use super::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use super::time::Time;
use super::written::{Written, WrittenNode, WrittenObject};

/// The contents of a cluster, as read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The time from which ages are counted.
    pub now: Timestamp,
    /// Whether that is only the newest time in a dump that does not say when it was made.
    pub is_now_estimated: bool,
    /// Whether it is a dump of a kind that contains no logs.
    pub lacks_logs: bool,
    /// How far the clock of `now` is ahead of this machine's; either may be wrong.
    pub clock_difference: SignedDuration,
    /// Since when a watch reads leases again that it could not read for a while, if so.
    pub reachable_since: Option<Timestamp>,
    /// The only namespace whose DaemonSets a dump contains: it says so, or it has no objects of other namespaces.
    pub only_namespace: Option<String>,
    /// The requested DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// DaemonSets that were not requested but that pods of others depend on: they install a kubelet plugin, such as a
    /// CSI driver, or remove a startup taint of a node.
    pub node_agents: Vec<DaemonSet>,
    /// The requested Advanced DaemonSets of OpenKruise. Only `rollout` uses them.
    pub advanced_daemon_sets: Vec<DaemonSet>,
    /// The revisions in the DaemonSets' namespaces, including those of other owners.
    pub controller_revisions: Vec<ControllerRevision>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Whether only some of the nodes were asked for.
    pub nodes_limited: bool,
    /// Who last changed the labels and the spec of a node, by its name, if it has managed fields; read only for recent changes.
    pub node_writes: BTreeMap<String, Vec<Written>>,
    /// LimitRanges, ResourceQuotas and namespaces, and the DaemonSets of namespaces that were not requested, with their
    /// last writers; read only for recent changes.
    pub written_objects: BTreeMap<Kind, Vec<WrittenObject>>,
    /// The pods; see [`Snapshot::pods_complete`].
    pub pods: Vec<Pod>,
    /// The nodes for which all pods were read.
    pub pods_complete: PodsComplete,
    /// For a query about one node: pods on other nodes of the DaemonSets that fail on it, for comparison.
    pub peers: Vec<Pod>,
    /// Events about DaemonSets, pods and nodes.
    pub events: Vec<Event>,
    /// The namespaces; from a live server only those of DaemonSets with missing pods.
    pub namespaces: Vec<Namespace>,
    /// DaemonSets that were not requested, in the namespaces of the requested ones.
    pub neighbors: Vec<Neighbor>,
    /// Defaults and limits for pods of a namespace.
    pub limit_ranges: Vec<LimitRange>,
    /// ResourceQuotas, for changes: from a live server those of the DaemonSets' namespaces.
    pub resource_quotas: Vec<ResourceQuota>,
    /// Runtime classes.
    pub runtime_classes: Vec<RuntimeClass>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClass>,
    /// Device classes, which may provide extended resources.
    pub device_classes: Vec<DeviceClass>,
    /// Claims to devices.
    pub resource_claims: Vec<ResourceClaim>,
    /// What claims to devices are created from.
    pub resource_claim_templates: Vec<ResourceClaimTemplate>,
    /// The devices.
    pub resource_slices: Vec<ResourceSlice>,
    /// Claims to volumes.
    pub persistent_volume_claims: Vec<PersistentVolumeClaim>,
    /// Volumes that claims are bound to.
    pub persistent_volumes: Vec<PersistentVolume>,
    /// Storage classes.
    pub storage_classes: Vec<StorageClass>,
    /// The CSI drivers of nodes.
    pub csi_nodes: Vec<CsiNode>,
    /// The CSI drivers.
    pub csi_drivers: Vec<CsiDriver>,
    /// How much storage CSI drivers have left.
    pub csi_storage_capacities: Vec<CsiStorageCapacity>,
    /// The volumes that are attached to nodes.
    pub volume_attachments: Vec<VolumeAttachment>,
    /// Which of [`Kind::ON_DEMAND`] were read.
    pub read_on_demand: BTreeSet<Kind>,
    /// Leases that components renew while they run.
    pub leases: Vec<Lease>,
    /// PodDisruptionBudgets: those in the DaemonSets' namespaces for changes to the update strategy, and all of them if
    /// there are `held_pods`, or a preemption is simulated.
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
    /// Whether these are all PodDisruptionBudgets of the cluster.
    pub budgets_complete: bool,
    /// The pods on nodes whose drain is stuck, with what may prevent their eviction; not in dumps.
    pub held_pods: Vec<HeldPod>,
    /// Why the held pods could not be read, if so.
    pub held_pods_unread: Option<GapCause>,
    /// ConfigMaps that the DaemonSets use; read only to compare their changes with pods.
    pub config_maps: Vec<ConfigObject>,
    /// Secrets, like ConfigMaps.
    pub secrets: Vec<ConfigObject>,
    /// Names of objects in a dump: of ServiceAccounts, ConfigMaps, Secrets and PersistentVolumeClaims, by kind,
    /// namespace and name. For a live server, only the relevant ones are requested.
    pub object_names: BTreeSet<(String, String, String)>,
    /// The API server's answers to dry runs of pods that it had refused.
    pub admissions: Vec<Admission>,
    /// Nodes that have pods and are in no list, and of which the API server, asked for them by name, says that they do not exist.
    pub deleted_nodes: BTreeSet<String>,
    /// What could not be read, and why.
    pub gaps: Vec<Gap>,
    /// DaemonSets that were requested by name, together with others, and do not exist.
    pub unknown_names: Vec<UnknownName>,
}

/// The API server's answer to a dry run of a new pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The DaemonSet of the pod.
    pub daemon_set_uid: String,
    /// The hash of its revision; empty for a template that has no revision yet.
    pub hash: String,
    /// The message with which the pod was refused; `None` if it would be created.
    pub refusal: Option<String>,
    /// Objects that it needs to start but that do not exist: kinds, such as `ConfigMap`, and names.
    pub lacks: Vec<(&'static str, String)>,
}

/// The name of a DaemonSet that does not exist, and suggestions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Similar existing names, nearest first.
    pub near: Vec<String>,
    /// Other namespaces that have a DaemonSet of this name.
    pub elsewhere: Vec<String>,
}

/// A DaemonSet that was not requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbor {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels of its pods.
    pub pod_labels: BTreeMap<String, String>,
}

/// The nodes whose pods in a snapshot are complete, so that free resources can be computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodsComplete {
    /// All pods of the cluster.
    Everywhere,
    /// All pods of these nodes; for other nodes, only those of the DaemonSets.
    #[serde(rename = "onNodes")]
    On(BTreeSet<String>),
}

impl Default for PodsComplete {
    fn default() -> Self {
        PodsComplete::On(BTreeSet::new())
    }
}

/// Something that could not be read, which makes reports that need it partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The kind of object.
    pub kind: Kind,
    /// The namespace; `None` means all namespaces.
    pub namespace: Option<String>,
    /// Why it could not be read.
    pub cause: GapCause,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GapCause {
    /// Forbidden; holds the missing permission, such as `list nodes`.
    Forbidden(String),
    /// Forbidden in all namespaces (holds the missing permission), but allowed in the DaemonSets' own: only objects
    /// of other namespaces are missing.
    ForbiddenElsewhere(String),
    /// The dump has no object of the kind.
    NotInDump,
    /// Reading failed, for this reason, and the result did not depend on it.
    Failed(String),
    /// There is no object of the kind, although the status of a DaemonSet counts some.
    NoneReturned,
    /// There are some objects of the kind, but not all that the status of a DaemonSet tells of.
    LessThanStatus {
        /// The DaemonSet, such as `kube-system/cni`.
        of: String,
        /// How many its status counts; of revisions, the generation that it has observed.
        status: i64,
    },
    /// An object has an unexpected shape, or an object requested by name could not be read, and was skipped.
    Unreadable {
        /// Its kind and name, such as `Pod kube-system/cni-x7v2p`.
        object: String,
        /// Its position and the error.
        problem: String,
    },
}

impl Snapshot {
    /// Returns the earlier of the server's time and this machine's, for what must have lasted: a proxy may state any date.
    pub(crate) fn earlier_now(&self) -> Timestamp {
        self.now.checked_sub(self.clock_difference.max(SignedDuration::ZERO)).unwrap_or(self.now)
    }

    /// Returns the names of a kind in a namespace of a dump: see [`Snapshot::object_names`].
    pub(crate) fn names(&self, kind: &str, namespace: &str) -> impl Iterator<Item = &str> {
        let first = (kind.to_owned(), namespace.to_owned(), String::new());
        let (kind, namespace) = (first.0.clone(), first.1.clone());
        self.object_names
            .range(first..)
            .take_while(move |(of, place, _)| (of, place) == (&kind, &namespace))
            .map(|(.., name)| name.as_str())
    }

    /// Returns a ConfigMap or Secret, if it was read.
    pub(crate) fn config_object(&self, kind: Kind, namespace: &str, name: &str) -> Option<&ConfigObject> {
        let objects = if kind == Kind::Secrets { &self.secrets } else { &self.config_maps };
        objects.iter().find(|object| object.metadata.is_named(namespace, name))
    }

    /// Returns whether a dump has an object with this name.
    pub(crate) fn has_name(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.object_names.contains(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    /// Records who has changed a node, and returns it.
    pub fn note_writes(&mut self, node: WrittenNode) -> Node {
        let WrittenNode { node, written } = node;
        let latest = |written: &[Written]| written.iter().map(|it| it.at).max();
        if let Some(written) = written {
            let known = self.node_writes.entry(node.metadata.name.clone()).or_default();
            // A dump may have several versions of an object.
            if latest(&written) >= latest(known) {
                *known = written;
            }
        }
        node
    }

    /// Creates an empty snapshot.
    pub fn empty(now: Timestamp) -> Self {
        Snapshot { now, ..Snapshot::default() }
    }

    /// Returns the API server's answer about a pod of a revision; `None` if it was not asked.
    pub fn admission(&self, daemon_set: &DaemonSet, hash: &str) -> Option<&Admission> {
        let is_asked =
            |admission: &&Admission| admission.daemon_set_uid == daemon_set.metadata.uid && admission.hash == hash;
        self.admissions.iter().find(is_asked)
    }

    /// Returns whether the API server would create a pod of a revision now; `None` if unknown.
    pub fn is_admitted(&self, daemon_set: &DaemonSet, hash: &str) -> Option<bool> {
        self.admission(daemon_set, hash).map(|admission| admission.refusal.is_none())
    }

    /// Returns the Kubernetes DaemonSet with a name.
    pub fn daemon_set(&self, namespace: &str, name: &str) -> Option<&DaemonSet> {
        self.daemon_sets.iter().find(|one| one.metadata.is_named(namespace, name))
    }

    /// Returns Kubernetes' own DaemonSets, and then OpenKruise's.
    pub fn daemon_sets_of_any_flavor(&self) -> impl Iterator<Item = &DaemonSet> {
        self.daemon_sets.iter().chain(&self.advanced_daemon_sets)
    }

    /// Returns the gap for a kind in a namespace that has DaemonSets.
    pub fn gap(&self, kind: Kind, namespace: &str) -> Option<&Gap> {
        let hides = |gap: &&Gap| {
            let is_elsewhere = match gap.cause {
                GapCause::ForbiddenElsewhere(_) => true,
                // A pod of another controller.
                GapCause::Unreadable { .. } => gap.kind == Kind::Pods && gap.namespace.is_none(),
                GapCause::Forbidden(_)
                | GapCause::Failed(_)
                | GapCause::NotInDump
                | GapCause::NoneReturned
                | GapCause::LessThanStatus { .. } => false,
            };
            gap.kind == kind && gap.namespace.as_deref().is_none_or(|gap| gap == namespace) && !is_elsewhere
        };
        self.gaps.iter().find(hides)
    }

    /// Returns whether all objects were read of a kind that is read on demand, of one namespace.
    pub(crate) fn has_all(&self, kind: Kind, namespace: &str) -> bool {
        let is_own = || self.daemon_sets.iter().any(|it| it.metadata.namespace == namespace);
        let has_gap = self.gaps.iter().any(|gap| gap.kind == kind);
        let is_readable = !has_gap || self.gap(kind, namespace).is_none() && is_own();
        let is_dumped = |only: &String| namespace.is_empty() || only == namespace;
        self.read_on_demand.contains(&kind) && is_readable && self.only_namespace.as_ref().is_none_or(is_dumped)
    }

    /// Notes that there are no nodes, if the status of a DaemonSet counts some and nothing else says why.
    pub(crate) fn note_missing_nodes(&mut self) {
        let is_counted = self.daemon_sets_of_any_flavor().any(|one| one.status.desired_number_scheduled > 0);
        let gap = Gap { kind: Kind::Nodes, namespace: None, cause: GapCause::NoneReturned };
        self.gaps.retain(|known| *known != gap);
        if self.nodes.is_empty() && is_counted && self.gap(Kind::Nodes, "").is_none() {
            self.gaps.push(gap);
        }
    }

    /// Returns whether all pods of a node were read.
    pub fn knows_all_pods_on(&self, node: &str) -> bool {
        match &self.pods_complete {
            PodsComplete::Everywhere => true,
            PodsComplete::On(nodes) => nodes.contains(node),
        }
    }
}

json_object! {
    /// A namespace.
    pub struct Namespace {
        /// The name, the deletion timestamp, and what it adds to pods.
        metadata: AnnotatedMeta,
        /// What blocks its deletion.
        status: NamespaceStatus,
    }

    /// A namespace's status.
    pub struct NamespaceStatus {
        /// The namespace controller's conditions about the deletion.
        conditions: Vec<NamespaceCondition>,
    }

    /// A condition of a namespace.
    pub struct NamespaceCondition {
        /// Such as `NamespaceFinalizersRemaining`.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// The message of the namespace controller.
        message: String,
    }

    /// Defaults and limits for the pods of a namespace.
    pub struct LimitRange {
        /// Name and namespace.
        metadata: ObjectMeta,
        /// The limits.
        spec: LimitRangeSpec,
    }

    /// The limits of a LimitRange.
    pub struct LimitRangeSpec {
        /// The limits for containers, pods and claims.
        limits: Vec<LimitRangeItem>,
    }

    /// The limits for one type of object.
    pub struct LimitRangeItem {
        /// `Container`, `Pod` or `PersistentVolumeClaim`.
        #[serde(rename = "type")]
        type_: String,
        /// Default limits of containers.
        default: ResourceList,
        /// Default requests of containers.
        default_request: ResourceList,
        /// The minimum requests.
        min: ResourceList,
        /// The maximum limits.
        max: ResourceList,
        /// The maximum ratio of limits to requests.
        max_limit_request_ratio: ResourceList,
    }

    /// A runtime class: what it adds to pods that use it.
    pub struct RuntimeClass {
        /// The name.
        metadata: ObjectMeta,
        /// The overhead of the runtime.
        overhead: Option<Overhead>,
        /// The nodes that such pods may run on.
        scheduling: Option<RuntimeScheduling>,
    }

    /// The overhead of a runtime.
    pub struct Overhead {
        /// The amounts per pod.
        pod_fixed: ResourceList,
    }

    /// The nodes that pods of a runtime class may run on.
    pub struct RuntimeScheduling {
        /// Labels that are added to the pods' node selector.
        node_selector: BTreeMap<String, String>,
        /// Tolerations that are added to the pods' own.
        tolerations: Vec<Toleration>,
    }

    /// A priority class.
    pub struct PriorityClass {
        /// The name.
        metadata: ObjectMeta,
        /// The priority of pods that use it.
        value: i32,
        /// Whether it is the default for pods without a priority class.
        global_default: bool,
        /// Whether its pods preempt others, as in a pod's spec.
        preemption_policy: String,
    }

    /// A class of devices that are allocated by dynamic resource allocation.
    pub struct DeviceClass {
        /// The name.
        metadata: ObjectMeta,
        /// What it provides.
        spec: DeviceClassSpec,
    }

    /// A device class's spec.
    pub struct DeviceClassSpec {
        /// The extended resource that its devices provide (KEP-5004).
        extended_resource_name: Option<String>,
    }

    /// A lease's spec.
    pub struct LeaseSpec {
        /// When the holder last renewed it.
        renew_time: Time,
        /// How many seconds it is valid from then.
        lease_duration_seconds: Option<i64>,
    }
}

/// The annotations with the node selector that admission adds to the namespace's pods: for OpenShift, and for the
/// plugin PodNodeSelector (plugin/pkg/admission/podnodeselector/admission.go, release 1.37.2).
pub const NODE_SELECTOR_ANNOTATIONS: [&str; 2] =
    ["openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector"];

/// A lease that a component renews while it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Lease {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// When it was last renewed.
    pub spec: LeaseSpec,
    /// When `renewTime` was last written, by the clock of the API server; that of its holder may differ.
    #[serde(skip)]
    pub written_at: Time,
}

read_from_object!(Lease);

impl Lease {
    /// Reads a lease. Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Slim {
            metadata: ObjectMeta,
            spec: LeaseSpec,
        }
        // Anyone may write another field, such as an annotation.
        let is_renewal = |entry: &&Value| entry["fieldsV1"]["f:spec"].get("f:renewTime").is_some();
        let renewed = managed_fields(&object).iter().filter(is_renewal).filter_map(time_of).max();
        let Slim { metadata, spec } = serde_path_to_error::deserialize(&object).map_err(|error| error.to_string())?;
        Ok(Lease { metadata, spec, written_at: renewed.map(Time::from).unwrap_or_default() })
    }

    /// Returns when it was last renewed, by its holder's clock or by that of the API server, whichever is later.
    pub fn renewed_at(&self) -> Option<Timestamp> {
        self.spec.renew_time.get().map(|renewed| self.written_at.get().map_or(renewed, |written| renewed.max(written)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Gap, GapCause, Kind, Lease, Snapshot};
    use crate::model::daemon_set::DaemonSet;

    #[test]
    fn nodes_that_are_forbidden_are_not_said_to_be_none() {
        let causes = |cause: Option<GapCause>| {
            let mut snapshot = Snapshot::empty("2026-03-01T12:00:00Z".parse().unwrap());
            let daemon_set = json!({"metadata": {"name": "a"}, "status": {"desiredNumberScheduled": 3}});
            snapshot.daemon_sets.push(DaemonSet::from_object(daemon_set).unwrap());
            snapshot.gaps.extend(cause.map(|cause| Gap { kind: Kind::Nodes, namespace: None, cause }));
            snapshot.note_missing_nodes();
            snapshot.gaps.into_iter().map(|gap| gap.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(None), [GapCause::NoneReturned]);
        let forbidden = GapCause::Forbidden("list nodes".to_owned());
        assert_eq!(causes(Some(forbidden.clone())), [forbidden]);
    }

    #[test]
    fn a_lease_is_renewed_by_whoever_writes_the_time_and_not_by_an_annotation() {
        let written = |minute: u8, fields: &serde_json::Value| json!({"time": format!("2026-03-01T12:0{minute}:00Z"), "fieldsV1": fields});
        let entries = [
            written(2, &json!({"f:spec": {"f:holderIdentity": {}, "f:renewTime": {}}})),
            written(3, &json!({"f:metadata": {"f:annotations": {}}})),
            written(4, &json!({"f:spec": {"f:holderIdentity": {}}})),
        ];
        let lease = json!({"metadata": {"name": "a", "managedFields": entries}, "spec": {"renewTime": "2026-03-01T12:01:00.000000Z"}});
        let lease: Lease = serde_json::from_value(lease).unwrap();
        assert_eq!(lease.renewed_at(), "2026-03-01T12:02:00Z".parse().ok());
    }
}
