//! Volumes: what a pod mounts, and the objects that decide on which nodes it can.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metadata::{AnnotatedMeta, ObjectMeta};
use super::pod::{NodeSelector, ResourceList, ResourceRequirements};
use super::quantity::Quantity;
use super::selector::LabelSelector;
use super::wire::{is_default, null_is_default};

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

/// A claim to a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Name, namespace and annotations.
    pub metadata: AnnotatedMeta,
    /// What is claimed.
    pub spec: PersistentVolumeClaimSpec,
    /// Whether it is bound.
    pub status: Phase,
}

/// The phase of a claim or volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Such as `Available`, `Bound` or `Lost`.
    pub phase: String,
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

/// A volume that claims are bound to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// Name, labels and annotations.
    pub metadata: AnnotatedMeta,
    /// What it is.
    pub spec: PersistentVolumeSpec,
    /// Whether it is free.
    pub status: Phase,
}

/// The spec of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// How much it stores.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: ResourceList,
    /// Such as `ReadWriteOnce`.
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    /// The claim that it is bound to, or reserved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimReference>,
    /// The storage class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_class_name: String,
    /// `Filesystem` (also if absent) or `Block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// The class of attributes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// The nodes that can mount it; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// The volume of a CSI driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiSource>,
    /// A disk of Amazon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<UnreadVolumeSource>,
    /// A disk of Google.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gce_persistent_disk: Option<UnreadVolumeSource>,
    /// A disk of Azure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_disk: Option<UnreadVolumeSource>,
    /// A disk of OpenStack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cinder: Option<UnreadVolumeSource>,
    /// A volume of Portworx.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portworx_volume: Option<UnreadVolumeSource>,
}

/// A reference to a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The nodes that can mount a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// Their labels; all nodes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

/// The volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// The driver.
    pub driver: String,
    /// The volume.
    pub volume_handle: String,
}

impl PersistentVolume {
    /// Returns the name of the storage class: `GetPersistentVolumeClass`, k8s.io/component-helpers/storage/volume/helpers.go, release 1.37.2.
    pub fn class(&self) -> &str {
        self.metadata.annotations.get(BETA_STORAGE_CLASS).unwrap_or(&self.spec.storage_class_name)
    }
}

/// How volumes are provisioned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Name and annotations.
    pub metadata: AnnotatedMeta,
    /// Who provisions them.
    pub provisioner: String,
    /// `Immediate` (also if empty) or `WaitForFirstConsumer`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_binding_mode: String,
    /// The nodes that can mount them; all if empty.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Labels of nodes that must all have one of some values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    /// The labels.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_expressions: Vec<TopologySelectorLabelRequirement>,
}

/// A label of nodes that must have one of some values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologySelectorLabelRequirement {
    /// The label.
    pub key: String,
    /// The values.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
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

/// The CSI drivers of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    /// The name of the node, and annotations.
    pub metadata: AnnotatedMeta,
    /// The drivers.
    pub spec: CsiNodeSpec,
}

/// The spec of a CSINode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers that are registered with the kubelet.
    #[serde(deserialize_with = "null_is_default")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// A CSI driver of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver {
    /// The name.
    pub name: String,
    /// How many volumes it attaches to the node; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

/// How many volumes a driver attaches to a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeResources {
    /// The number; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
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

/// A CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// The name.
    pub metadata: ObjectMeta,
    /// What it asks of the scheduler.
    pub spec: CsiDriverSpec,
}

/// The spec of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether the scheduler is to look for free storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_capacity: Option<bool>,
    /// Whether it is to avoid nodes without the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}

/// How much storage a CSI driver has left for volumes of a storage class in a part of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiStorageCapacity {
    /// The name.
    pub metadata: ObjectMeta,
    /// The storage class.
    pub storage_class_name: String,
    /// The labels of the nodes that can mount the volumes; no nodes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_topology: Option<LabelSelector>,
    /// How much is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// How large a volume may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_volume_size: Option<Quantity>,
}

impl CsiStorageCapacity {
    /// Returns how large a volume may be, if that is known: `volumeLimit`, pkg/scheduler/framework/plugins/volumebinding/binder.go,
    /// release 1.37.2.
    pub fn volume_limit(&self) -> Option<&Quantity> {
        self.maximum_volume_size.as_ref().or(self.capacity.as_ref())
    }
}

/// A volume that is attached to a node, or is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// The name.
    pub metadata: ObjectMeta,
    /// What is attached where.
    pub spec: VolumeAttachmentSpec,
}

/// The spec of a volume attachment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    /// The driver.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    /// What is attached.
    pub source: VolumeAttachmentSource,
}

/// What is attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<String>,
}
