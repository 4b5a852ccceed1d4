//! Volumes: what a pod mounts, and the objects that decide on which nodes it can.

use std::collections::BTreeMap;

use super::metadata::{AnnotatedMeta, ObjectMeta};
use super::pod::{NodeSelector, ResourceList, ResourceRequirements};
use super::quantity::Quantity;
use super::selector::LabelSelector;
use super::wire::is_default;

/// The annotation of a claim that is bound for good.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a claim with the node for which its volume is provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation that precedes the field for the storage class of a claim or volume.
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The annotation of a CSINode with the in-tree plugins whose volumes CSI drivers attach.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// The annotation of the storage class of claims that name none.
const IS_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The annotations above.
pub const STORAGE_ANNOTATIONS: [&str; 5] =
    [BIND_COMPLETED, SELECTED_NODE, BETA_STORAGE_CLASS, MIGRATED_PLUGINS, IS_DEFAULT_CLASS];

wire! {
    /// A volume of a pod.
    pub struct Volume {
        /// The name.
        name: String = 1,
        /// What it is.
        #[serde(flatten)]
        source: VolumeSource = 2,
    }

    /// The kinds of volumes by which the scheduler filters nodes.
    pub struct VolumeSource {
        /// A disk of Google.
        gce_persistent_disk: Option<GcePersistentDiskVolumeSource> = 3,
        /// A disk of Amazon.
        aws_elastic_block_store: Option<AwsElasticBlockStoreVolumeSource> = 4,
        /// An iSCSI disk.
        iscsi: Option<IscsiVolumeSource> = 8,
        /// A claim.
        persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource> = 10,
        /// A Ceph image.
        rbd: Option<RbdVolumeSource> = 11,
        /// A disk of OpenStack.
        cinder: Option<UnreadVolumeSource> = 13,
        /// A disk of Azure.
        azure_disk: Option<UnreadVolumeSource> = 22,
        /// A volume of Portworx.
        portworx_volume: Option<UnreadVolumeSource> = 24,
        /// A claim that is created for the pod.
        ephemeral: Option<EphemeralVolumeSource> = 29,
    }

    /// A disk of Google.
    pub struct GcePersistentDiskVolumeSource {
        /// Its name.
        pd_name: String = 1,
        /// Whether it is mounted read-only.
        read_only: bool = 4,
    }

    /// A disk of Amazon.
    pub struct AwsElasticBlockStoreVolumeSource {
        /// Its id.
        #[serde(rename = "volumeID")]
        volume_id: String = 1,
    }

    /// An iSCSI disk.
    pub struct IscsiVolumeSource {
        /// The qualified name of the target.
        iqn: String = 2,
        /// Whether it is mounted read-only.
        read_only: bool = 6,
    }

    /// A Ceph image.
    pub struct RbdVolumeSource {
        /// The addresses of the monitors.
        monitors: Vec<String> = 1,
        /// Its name.
        image: String = 2,
        /// Its pool.
        pool: String = 4,
        /// Whether it is mounted read-only.
        read_only: bool = 8,
    }

    /// A volume of which it is only known that there is one.
    pub struct UnreadVolumeSource {
    }

    /// The name of a claim.
    pub struct PersistentVolumeClaimVolumeSource {
        /// The claim.
        claim_name: String = 1,
    }

    /// A claim that is created for a pod.
    pub struct EphemeralVolumeSource {
        /// What it is created from.
        volume_claim_template: Option<PersistentVolumeClaimTemplate> = 1,
    }

    /// What a claim is created from.
    pub struct PersistentVolumeClaimTemplate {
        /// The spec of the claim.
        spec: PersistentVolumeClaimSpec = 2,
    }

    /// The spec of a claim.
    pub struct PersistentVolumeClaimSpec {
        /// Such as `ReadWriteOncePod`.
        access_modes: Vec<String> = 1,
        /// How much storage is requested.
        resources: ResourceRequirements = 2,
        /// The volume that it is bound to, or wants to be.
        volume_name: String = 3,
        /// The labels of the volumes that it may be bound to.
        selector: Option<LabelSelector> = 4,
        /// The storage class.
        storage_class_name: Option<String> = 5,
        /// `Filesystem` (also if absent) or `Block`.
        volume_mode: Option<String> = 6,
        /// The class of attributes.
        volume_attributes_class_name: Option<String> = 9,
    }
}

impl Volume {
    /// Returns whether a filter of the scheduler looks at it.
    pub fn is_filtered_by(&self) -> bool {
        !is_default(&self.source)
    }

    /// Returns the name of the claim, if it is one, in a pod of this name: for an ephemeral volume `VolumeClaimName`,
    /// k8s.io/component-helpers/storage/ephemeral/ephemeral.go, release 1.37.2.
    pub fn claim_of(&self, pod: &str) -> Option<String> {
        match &self.source {
            VolumeSource { persistent_volume_claim: Some(claim), .. } => Some(claim.claim_name.clone()),
            VolumeSource { ephemeral: Some(_), .. } => Some(format!("{pod}-{}", self.name)),
            _ => None,
        }
    }
}

json_object! {
    /// A claim to a volume.
    pub struct PersistentVolumeClaim {
        /// Name, namespace and annotations.
        metadata: AnnotatedMeta,
        /// What is claimed.
        spec: PersistentVolumeClaimSpec,
        /// Whether it is bound.
        status: Phase,
    }

    /// The phase of a claim or volume.
    pub struct Phase {
        /// Such as `Available`, `Bound` or `Lost`.
        phase: String,
    }

    /// A volume that claims are bound to.
    pub struct PersistentVolume {
        /// Name, labels and annotations.
        metadata: AnnotatedMeta,
        /// What it is.
        spec: PersistentVolumeSpec,
        /// Whether it is free.
        status: Phase,
    }

    /// The spec of a volume.
    pub struct PersistentVolumeSpec {
        /// How much it stores.
        capacity: ResourceList,
        /// Such as `ReadWriteOnce`.
        access_modes: Vec<String>,
        /// The claim that it is bound to, or reserved for.
        claim_ref: Option<ClaimReference>,
        /// The storage class.
        storage_class_name: String,
        /// `Filesystem` (also if absent) or `Block`.
        volume_mode: Option<String>,
        /// The class of attributes.
        volume_attributes_class_name: Option<String>,
        /// The nodes that can mount it; all if absent.
        node_affinity: Option<VolumeNodeAffinity>,
        /// The volume of a CSI driver.
        csi: Option<CsiSource>,
        /// A disk of Amazon.
        aws_elastic_block_store: Option<UnreadVolumeSource>,
        /// A disk of Google.
        gce_persistent_disk: Option<UnreadVolumeSource>,
        /// A disk of Azure.
        azure_disk: Option<UnreadVolumeSource>,
        /// A disk of OpenStack.
        cinder: Option<UnreadVolumeSource>,
        /// A volume of Portworx.
        portworx_volume: Option<UnreadVolumeSource>,
    }

    /// A reference to a claim.
    pub struct ClaimReference {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The uid; empty for any.
        uid: String,
    }

    /// The nodes that can mount a volume.
    pub struct VolumeNodeAffinity {
        /// Their labels; all nodes if absent.
        required: Option<NodeSelector>,
    }

    /// The volume of a CSI driver.
    pub struct CsiSource {
        /// The driver.
        driver: String,
        /// The volume.
        volume_handle: String,
    }

    /// How volumes are provisioned.
    pub struct StorageClass {
        /// Name and annotations.
        metadata: AnnotatedMeta,
        /// Who provisions them.
        provisioner: String,
        /// `Immediate` (also if empty) or `WaitForFirstConsumer`.
        volume_binding_mode: String,
        /// The nodes that can mount them; all if empty.
        allowed_topologies: Vec<TopologySelectorTerm>,
    }

    /// Labels of nodes that must all have one of some values.
    pub struct TopologySelectorTerm {
        /// The labels.
        match_label_expressions: Vec<TopologySelectorLabelRequirement>,
    }

    /// A label of nodes that must have one of some values.
    pub struct TopologySelectorLabelRequirement {
        /// The label.
        key: String,
        /// The values.
        values: Vec<String>,
    }

    /// The CSI drivers of a node.
    pub struct CsiNode {
        /// The name of the node, and annotations.
        metadata: AnnotatedMeta,
        /// The drivers.
        spec: CsiNodeSpec,
    }

    /// The spec of a CSINode.
    pub struct CsiNodeSpec {
        /// The drivers that are registered with the kubelet.
        drivers: Vec<CsiNodeDriver>,
    }

    /// A CSI driver of a node.
    pub struct CsiNodeDriver {
        /// The name.
        name: String,
        /// How many volumes it attaches to the node; no limit if absent.
        allocatable: Option<VolumeNodeResources>,
    }

    /// How many volumes a driver attaches to a node.
    pub struct VolumeNodeResources {
        /// The number; no limit if absent.
        count: Option<usize>,
    }

    /// A CSI driver.
    pub struct CsiDriver {
        /// The name.
        metadata: ObjectMeta,
        /// What it asks of the scheduler.
        spec: CsiDriverSpec,
    }

    /// The spec of a CSI driver.
    pub struct CsiDriverSpec {
        /// Whether the scheduler is to look for free storage.
        storage_capacity: Option<bool>,
        /// Whether it is to avoid nodes without the driver.
        prevent_pod_scheduling_if_missing: Option<bool>,
    }

    /// How much storage a CSI driver has left for volumes of a storage class in a part of the cluster.
    pub struct CsiStorageCapacity {
        /// The name.
        metadata: ObjectMeta,
        /// The storage class.
        storage_class_name: String,
        /// The labels of the nodes that can mount the volumes; no nodes if absent.
        node_topology: Option<LabelSelector>,
        /// How much is left.
        capacity: Option<Quantity>,
        /// How large a volume may be.
        maximum_volume_size: Option<Quantity>,
    }

    /// A volume that is attached to a node, or is to be.
    pub struct VolumeAttachment {
        /// The name.
        metadata: ObjectMeta,
        /// What is attached where.
        spec: VolumeAttachmentSpec,
    }

    /// The spec of a volume attachment.
    pub struct VolumeAttachmentSpec {
        /// The driver.
        attacher: String,
        /// The node.
        node_name: String,
        /// What is attached.
        source: VolumeAttachmentSource,
    }

    /// What is attached to a node.
    pub struct VolumeAttachmentSource {
        /// The volume.
        persistent_volume_name: Option<String>,
    }
}

impl PersistentVolumeClaim {
    /// Returns the name of the storage class; empty if it has none: `GetPersistentVolumeClaimClass`,
    /// k8s.io/component-helpers/storage/volume/helpers.go, release 1.37.2.
    pub fn class(&self) -> &str {
        let beta = self.metadata.annotations.get(BETA_STORAGE_CLASS);
        beta.or(self.spec.storage_class_name.as_ref()).map_or("", String::as_str)
    }

    /// Returns how much storage it requests.
    pub fn request(&self) -> Option<&Quantity> {
        self.spec.resources.requests.get("storage")
    }

    /// Returns whether it is bound for good: `isPVCFullyBound`, pkg/scheduler/framework/plugins/volumebinding/binder.go, release 1.37.2.
    pub fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotations.contains_key(BIND_COMPLETED)
    }
}

impl PersistentVolume {
    /// Returns the name of the storage class: `GetPersistentVolumeClass`, k8s.io/component-helpers/storage/volume/helpers.go, release 1.37.2.
    pub fn class(&self) -> &str {
        self.metadata.annotations.get(BETA_STORAGE_CLASS).unwrap_or(&self.spec.storage_class_name)
    }
}

impl StorageClass {
    /// Returns whether volumes are bound once a pod has a node.
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Returns whether claims that name no class have this one.
    pub fn is_default(&self) -> bool {
        self.metadata.annotations.get(IS_DEFAULT_CLASS).is_some_and(|is| is == "true")
    }

    /// Returns whether a node with these labels can mount the volumes: `MatchTopologySelectorTerms`, pkg/apis/core/v1/helper/helpers.go,
    /// release 1.37.2.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> bool {
        let is_met =
            |it: &TopologySelectorLabelRequirement| labels.get(&it.key).is_some_and(|value| it.values.contains(value));
        let matches = |term: &TopologySelectorTerm| {
            !term.match_label_expressions.is_empty() && term.match_label_expressions.iter().all(is_met)
        };
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().any(matches)
    }
}

impl CsiNode {
    /// Returns how many volumes a driver attaches to the node, if that is limited.
    pub fn limit(&self, driver: &str) -> Option<usize> {
        self.spec.drivers.iter().find(|it| it.name == driver)?.allocatable.as_ref()?.count
    }

    /// Returns whether a CSI driver attaches the volumes of an in-tree plugin.
    pub fn has_migrated(&self, plugin: &str) -> bool {
        let plugins = self.metadata.annotations.get(MIGRATED_PLUGINS);
        plugins.is_some_and(|plugins| plugins.split(',').any(|one| one == plugin))
    }
}

impl CsiStorageCapacity {
    /// Returns how large a volume may be, if that is known: `volumeLimit`, pkg/scheduler/framework/plugins/volumebinding/binder.go,
    /// release 1.37.2.
    pub fn volume_limit(&self) -> Option<&Quantity> {
        self.maximum_volume_size.as_ref().or(self.capacity.as_ref())
    }
}
