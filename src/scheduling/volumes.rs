//! Whether the volumes of a pod let it run on a node: the filters VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.
//!
//! Ported from pkg/scheduler/framework/plugins/{volumerestrictions,nodevolumelimits,volumebinding,volumezone}, release 1.37.2, with their
//! feature gates at their defaults. Here is what they have in common, and what they do before they look at a node.

use std::borrow::Cow;
use std::collections::HashMap;

use super::neighborhood::{self, Neighborhood};
use super::volume_binding::Conflict;
use super::volume_limits::is_for_one_pod;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, Volume,
    VolumeAttachment, VolumeSource,
};

/// What was read about the storage of a cluster.
#[derive(Debug)]
pub struct Storage<'a> {
    snapshot: &'a Snapshot,
    claims: HashMap<(&'a str, &'a str), &'a PersistentVolumeClaim>,
    volumes: HashMap<&'a str, &'a PersistentVolume>,
    csi_nodes: HashMap<&'a str, &'a CsiNode>,
    attachments: HashMap<&'a str, Vec<&'a VolumeAttachment>>,
}

/// What was not read, so that it is not known whether the volumes of a pod let it run on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// Objects of this kind.
    Kind(Kind),
    /// Pods of other nodes.
    Pods,
    /// What the CSI driver calls this volume, which is one of an in-tree plugin.
    InTree(String),
    /// The claim of this name, which is created for the pod and is bound before the pod has a node.
    NewClaim(String),
}

/// Why the volumes of a pod keep it from all nodes, or from one.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection<'a> {
    /// There is no claim of this name.
    ClaimNotFound(String),
    /// The claim of this name has not been created for the pod.
    AwaitsClaim(String),
    /// A claim has lost its volume.
    ClaimLost {
        /// The claim.
        claim: String,
        /// The volume.
        volume: String,
    },
    /// The claim of this name is being deleted.
    ClaimDeleted(String),
    /// The claim that would be created for the pod is that of another object.
    NotOwner(String),
    /// The claim of this name is not bound, although its class does not wait for a pod.
    Unbound(String),
    /// The volume of this name, to which a claim is bound, does not exist.
    VolumeNotFound(String),
    /// The volume of this name is one that another pod of the node has.
    DiskConflict(String, &'a Pod),
    /// The claim of this name may be used by one pod at a time, and another one uses it.
    InUse(String, &'a Pod),
    /// The node has no CSI driver of this name.
    NoDriver(String),
    /// The node has too many volumes.
    TooMany {
        /// The driver that attaches them.
        driver: String,
        /// How many it has attached.
        attached: usize,
        /// How many the pod adds.
        added: usize,
        /// How many it can attach.
        limit: usize,
    },
    /// Claims are bound to, or need, volumes that the node cannot have.
    Binding(Vec<Conflict<'a>>),
    /// A volume has a label with zones or regions that are not those of the node.
    Zone {
        /// The volume.
        volume: &'a PersistentVolume,
        /// The label.
        label: &'static str,
    },
}

impl Rejection<'_> {
    /// Returns what the scheduler says.
    pub fn reasons(&self, pod: &Pod) -> Vec<String> {
        let ObjectMeta { name, namespace, .. } = &pod.metadata;
        vec![match self {
            Rejection::ClaimNotFound(claim) => format!("persistentvolumeclaim {claim:?} not found"),
            Rejection::DiskConflict(..) => "node(s) had no available disk".to_owned(),
            Rejection::InUse(..) => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
                    .to_owned()
            }
            Rejection::NoDriver(driver) => format!("{driver} CSI driver is not installed on the node"),
            Rejection::TooMany { .. } => "node(s) exceed max volume count".to_owned(),
            Rejection::AwaitsClaim(claim) => {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}")
            }
            Rejection::ClaimLost { claim, volume } => {
                format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}")
            }
            Rejection::ClaimDeleted(claim) => format!("persistentvolumeclaim {claim:?} is being deleted"),
            Rejection::NotOwner(claim) => {
                format!("PVC {namespace}/{claim} was not created for pod {namespace}/{name} (pod is not owner)")
            }
            Rejection::Unbound(_) => "pod has unbound immediate PersistentVolumeClaims".to_owned(),
            Rejection::VolumeNotFound(volume) => format!("persistentvolume {volume:?} not found"),
            Rejection::Zone { .. } => "node(s) had no available volume zone".to_owned(),
            Rejection::Binding(conflicts) => {
                return conflicts.iter().map(|conflict| conflict.reason().to_owned()).collect();
            }
        }]
    }
}

/// What keeps a pod from a node because of its volumes, or what was not read.
pub type Obstacle<'a> = neighborhood::Obstacle<Rejection<'a>, Unread>;

impl From<Unread> for Obstacle<'_> {
    fn from(unread: Unread) -> Self {
        Obstacle::Unknown(unread)
    }
}

impl<'a> From<Rejection<'a>> for Obstacle<'a> {
    fn from(rejection: Rejection<'a>) -> Self {
        Obstacle::Rejects(rejection)
    }
}

impl<'a> Storage<'a> {
    /// Indexes what was read.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut attachments: HashMap<&str, Vec<&VolumeAttachment>> = HashMap::new();
        for attachment in &snapshot.volume_attachments {
            attachments.entry(&attachment.spec.node_name).or_default().push(attachment);
        }
        let key = |claim: &'a PersistentVolumeClaim| (&*claim.metadata.namespace, &*claim.metadata.name);
        Storage {
            snapshot,
            claims: snapshot.persistent_volume_claims.iter().map(|it| (key(it), it)).collect(),
            volumes: snapshot.persistent_volumes.iter().map(|it| (&*it.metadata.name, it)).collect(),
            csi_nodes: snapshot.csi_nodes.iter().map(|it| (&*it.metadata.name, it)).collect(),
            attachments,
        }
    }

    /// Returns an object that was found, if any; fails if none was, and not all of its kind were read.
    fn all<T>(&self, kind: Kind, found: T) -> Result<T, Unread> {
        let is_read = self.snapshot.read_on_demand.contains(&kind);
        if is_read { Ok(found) } else { Err(Unread::Kind(kind)) }
    }

    /// Returns the claim of a name.
    pub(super) fn claim(&self, namespace: &str, name: &str) -> Result<Option<&'a PersistentVolumeClaim>, Unread> {
        let kind = Kind::PersistentVolumeClaims;
        if let Some(found) = self.claims.get(&(namespace, name)) {
            return Ok(Some(found));
        }
        if self.snapshot.has_all(kind, namespace) { Ok(None) } else { Err(Unread::Kind(kind)) }
    }

    /// Returns the claim of a pod that one pod may use at a time, or that will be bound to a volume of the node of the first.
    pub fn claim_for_the_first(&self, pod: &Pod) -> Option<String> {
        let sources = pod.spec.volumes.iter().filter_map(|volume| volume.source.persistent_volume_claim.as_ref());
        let claims = sources.filter_map(|it| self.claims.get(&(&*pod.metadata.namespace, &*it.claim_name)));
        let mut claims = claims.filter(|claim| is_for_one_pod(claim) || !claim.is_bound());
        claims.next().map(|claim| claim.metadata.name.clone())
    }

    /// Returns the volume of a name.
    pub(super) fn volume(&self, name: &str) -> Result<Option<&'a PersistentVolume>, Unread> {
        self.all(Kind::PersistentVolumes, self.volumes.get(name).copied())
    }

    /// Returns the volumes.
    pub(super) fn volumes(&self) -> Result<&'a [PersistentVolume], Unread> {
        self.all(Kind::PersistentVolumes, &self.snapshot.persistent_volumes)
    }

    /// Returns the storage class of a name.
    pub(super) fn class(&self, name: &str) -> Result<Option<&'a StorageClass>, Unread> {
        let mut classes = self.snapshot.storage_classes.iter();
        self.all(Kind::StorageClasses, classes.find(|class| class.metadata.name == name))
    }

    /// Returns the name of the class of claims that name none: `GetDefaultClass`, pkg/volume/util/storageclass.go, release 1.37.2.
    fn default_class(&self) -> Result<Option<String>, Unread> {
        let defaults = self.snapshot.storage_classes.iter().filter(|class| class.is_default());
        let newest = defaults
            .max_by_key(|class| (class.metadata.creation_timestamp.get(), std::cmp::Reverse(&*class.metadata.name)));
        self.all(Kind::StorageClasses, newest.map(|class| class.metadata.name.clone()))
    }

    /// Returns the CSI drivers of a node.
    pub(super) fn csi_node(&self, node: &Node) -> Result<Option<&'a CsiNode>, Unread> {
        self.all(Kind::CsiNodes, self.csi_nodes.get(&*node.metadata.name).copied())
    }

    /// Returns the CSI driver of a name.
    pub(super) fn csi_driver(&self, name: &str) -> Result<Option<&'a CsiDriver>, Unread> {
        let mut drivers = self.snapshot.csi_drivers.iter();
        self.all(Kind::CsiDrivers, drivers.find(|driver| driver.metadata.name == name))
    }

    /// Returns whether any of what CSI drivers have left is enough. They keep it in their own namespaces.
    pub(super) fn has_capacity(&self, is_enough: impl Fn(&CsiStorageCapacity) -> bool) -> Result<bool, Unread> {
        let kind = Kind::CsiStorageCapacities;
        match self.snapshot.csi_storage_capacities.iter().any(is_enough) {
            false if self.snapshot.only_namespace.is_some() => Err(Unread::Kind(kind)),
            found => self.all(kind, found),
        }
    }

    /// Returns what is attached to a node.
    pub(super) fn attachments(&self, node: &Node) -> Result<&[&'a VolumeAttachment], Unread> {
        let found = self.attachments.get(&*node.metadata.name).map_or(&[][..], Vec::as_slice);
        self.all(Kind::VolumeAttachments, found)
    }
}

/// A pod that is not bound, and a node on which it may run.
pub struct VolumeFilters<'c, 'a, L> {
    /// The pod; one that does not exist yet has no name.
    pub pod: &'c Pod,
    /// The node.
    pub node: &'c Node,
    /// The storage.
    pub storage: &'c Storage<'a>,
    /// The other nodes and pods.
    pub neighborhood: &'c Neighborhood<'a>,
    /// The pods that the scheduler has nominated for the node, and that go first.
    pub nominated: &'c [&'a Pod],
    /// Tells which pods leave.
    pub leaves: L,
}

/// A claim of a pod, and the volume that it is bound to.
pub(super) struct Claimed<'a> {
    pub claim: Cow<'a, PersistentVolumeClaim>,
    pub volume: Option<&'a PersistentVolume>,
    pub is_ephemeral: bool,
}

impl<'a, L: Fn(&Pod) -> bool> VolumeFilters<'_, 'a, L> {
    /// Applies the four filters.
    ///
    /// # Errors
    /// Returns the first that rejects the node, or else what was not read.
    pub fn filter(&self) -> Result<(), Obstacle<'a>> {
        Obstacle::first([self.beside_nominated(), self.without_nominated()])
    }

    /// Applies them as long as the nominated pods count.
    ///
    /// # Errors
    /// Returns the first that rejects the node, or else what was not read.
    pub fn beside_nominated(&self) -> Result<(), Obstacle<'a>> {
        if self.pod.spec.volumes.is_empty() {
            return Ok(());
        }
        let claims = self.pre_filter()?;
        Obstacle::first([
            self.volume_restrictions(&claims),
            self.node_volume_limits(&claims, self.nominated),
            self.volume_binding(&claims),
            self.volume_zone(&claims),
        ])
    }

    /// Applies what may reject the node only if the nominated pods never come: a volume that they have, too, need not be attached once more.
    /// The scheduler tries that once all other filters have let the pod pass.
    fn without_nominated(&self) -> Result<(), Obstacle<'a>> {
        if self.nominated.is_empty() || self.pod.spec.volumes.is_empty() {
            return Ok(());
        }
        self.node_volume_limits(&self.pre_filter()?, &[])
    }

    /// Returns the pods that are on the node when the pod arrives, if these come first.
    pub(super) fn pods_on_node(&self, nominated: &[&'a Pod]) -> impl Iterator<Item = &'a Pod> {
        let bound = self.neighborhood.bound_to(&self.node.metadata.name).into_iter();
        bound.filter(|pod| !pod.is_terminal() && !(self.leaves)(pod)).chain(nominated.iter().copied())
    }

    /// Returns the claims, if they do not keep the pod from all nodes.
    ///
    /// Ported from the four `PreFilter`, and `GetPodVolumeClaims`, volumebinding/binder.go.
    fn pre_filter(&self) -> Result<Vec<Claimed<'a>>, Obstacle<'a>> {
        let ObjectMeta { name: pod, namespace, .. } = &self.pod.metadata;
        for source in self.pod.spec.volumes.iter().filter_map(|it| it.source.persistent_volume_claim.as_ref()) {
            if self.storage.claim(namespace, &source.claim_name)?.is_none() {
                return Err(Rejection::ClaimNotFound(source.claim_name.clone()).into());
            }
        }
        let mut claims = Vec::new();
        for volume in &self.pod.spec.volumes {
            let Some(name) = volume.claim_of(pod) else { continue };
            let is_ephemeral = volume.source.ephemeral.is_some();
            let claim = match self.storage.claim(namespace, &name) {
                _ if is_ephemeral && pod.is_empty() => Cow::Owned(self.new_claim(volume, name)?),
                found => Cow::Borrowed(found?.ok_or(Rejection::AwaitsClaim(name))?),
            };
            let (name, of_claim) = (claim.metadata.name.clone(), &claim.spec.volume_name);
            if claim.status.phase == "Lost" {
                return Err(Rejection::ClaimLost { claim: name, volume: of_claim.clone() }.into());
            }
            if claim.metadata.is_terminating() {
                return Err(Rejection::ClaimDeleted(name).into());
            }
            let is_owned = || claim.metadata.controller().is_some_and(|owner| owner.uid == self.pod.metadata.uid);
            if is_ephemeral && !pod.is_empty() && !is_owned() {
                return Err(Rejection::NotOwner(name).into());
            }
            let volume = if claim.is_bound() { self.storage.volume(of_claim)? } else { None };
            claims.push(Claimed { claim, volume, is_ephemeral });
        }
        for Claimed { claim, is_ephemeral, .. } in claims.iter().filter(|it| !it.claim.is_bound()) {
            let class = if claim.class().is_empty() { None } else { self.storage.class(claim.class())? };
            let waits = class.is_some_and(StorageClass::waits_for_consumer) && claim.spec.volume_name.is_empty();
            match waits {
                true => {}
                false if *is_ephemeral && pod.is_empty() => {
                    return Err(Unread::NewClaim(claim.metadata.name.clone()).into());
                }
                false => return Err(Rejection::Unbound(claim.metadata.name.clone()).into()),
            }
        }
        let is_lost = |it: &&Claimed| it.claim.is_bound() && it.volume.is_none() && !it.is_ephemeral;
        match claims.iter().find(is_lost) {
            Some(lost) => Err(Rejection::VolumeNotFound(lost.claim.spec.volume_name.clone()).into()),
            None => Ok(claims),
        }
    }

    /// Returns the claim that will be created for a pod that does not exist yet: `handleVolume`,
    /// pkg/controller/volume/ephemeral/controller.go, release 1.37.2, and the admission plugin DefaultStorageClass.
    fn new_claim(&self, volume: &Volume, name: String) -> Result<PersistentVolumeClaim, Unread> {
        let template = volume.source.ephemeral.as_ref().and_then(|it| it.volume_claim_template.clone());
        let mut spec = template.unwrap_or_default().spec;
        if spec.storage_class_name.is_none() {
            spec.storage_class_name = self.storage.default_class()?;
        }
        let metadata = ObjectMeta { name, namespace: self.pod.metadata.namespace.clone(), ..ObjectMeta::default() };
        Ok(PersistentVolumeClaim { metadata: metadata.into(), spec, ..PersistentVolumeClaim::default() })
    }
}

/// An in-tree plugin whose volumes a CSI driver attaches: `isCSIMigrationOnForPlugin`, volumebinding/binder.go, and the names of
/// k8s.io/csi-translation-lib/plugins, release 1.37.2.
pub(super) struct InTreePlugin {
    pub name: &'static str,
    pub driver: &'static str,
}

const EBS: InTreePlugin = InTreePlugin { name: "kubernetes.io/aws-ebs", driver: "ebs.csi.aws.com" };
const GCE: InTreePlugin = InTreePlugin { name: "kubernetes.io/gce-pd", driver: "pd.csi.storage.gke.io" };
const AZURE: InTreePlugin = InTreePlugin { name: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com" };
const CINDER: InTreePlugin = InTreePlugin { name: "kubernetes.io/cinder", driver: "cinder.csi.openstack.org" };
const PORTWORX: InTreePlugin = InTreePlugin { name: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com" };

/// In-tree plugins whose volumes no CSI driver is known to attach.
pub(super) const NOT_MIGRATED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

impl InTreePlugin {
    /// Returns the plugin of a provisioner.
    pub(super) fn named(name: &str) -> Option<Self> {
        [EBS, GCE, AZURE, CINDER, PORTWORX].into_iter().find(|plugin| plugin.name == name)
    }

    /// Returns the plugin of a volume.
    pub(super) fn of(volume: &PersistentVolume) -> Option<Self> {
        let spec = &volume.spec;
        Self::of_fields([
            spec.aws_elastic_block_store.is_some(),
            spec.gce_persistent_disk.is_some(),
            spec.azure_disk.is_some(),
            spec.cinder.is_some(),
            spec.portworx_volume.is_some(),
        ])
    }

    /// Returns the plugin of a volume that a pod names itself.
    pub(super) fn of_pod(source: &VolumeSource) -> Option<Self> {
        Self::of_fields([
            source.aws_elastic_block_store.is_some(),
            source.gce_persistent_disk.is_some(),
            source.azure_disk.is_some(),
            source.cinder.is_some(),
            source.portworx_volume.is_some(),
        ])
    }

    /// Returns the plugin whose field is set.
    fn of_fields(is_set: [bool; 5]) -> Option<Self> {
        let plugins = [EBS, GCE, AZURE, CINDER, PORTWORX];
        plugins.into_iter().zip(is_set).find_map(|(plugin, is_set)| is_set.then_some(plugin))
    }
}
