//! The volumes that other pods have, and whether a node can have more: the filters VolumeRestrictions and NodeVolumeLimits.

use std::collections::BTreeSet;

use super::volumes::{Claimed, InTreePlugin, NOT_MIGRATED, Obstacle, Rejection, Unread, VolumeFilters};
use crate::model::pod::Pod;
use crate::model::storage::{CsiDriver, CsiNode, PersistentVolumeClaim, VolumeSource};

/// The access mode of claims that one pod may use at a time.
const ONE_POD: &str = "ReadWriteOncePod";

/// A volume that a CSI driver attaches: the driver, and what it calls the volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attachable {
    driver: String,
    handle: Handle,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Handle {
    Volume(String),
    /// The volume does not exist yet, or is not known; this is the claim.
    Claim(String, String),
    /// A volume of an in-tree plugin, whose handle is not known; this is its name.
    InTree(String),
}

impl<'a, L: Fn(&Pod) -> bool> VolumeFilters<'_, 'a, L> {
    /// Ported from `Filter`, `satisfyVolumeConflicts` and `calPreFilterState`, `volumerestrictions/volume_restrictions.go`.
    pub(super) fn volume_restrictions(&self, claims: &[Claimed<'a>]) -> Result<(), Obstacle<'a>> {
        for volume in self.pod.spec.volumes.iter().filter(|volume| is_exclusive(&volume.source)) {
            let mut pods = self.pods_on_node(self.nominated);
            let has_it = |pod: &&Pod| pod.spec.volumes.iter().any(|it| is_volume_conflict(&volume.source, &it.source));
            if let Some(pod) = pods.find(has_it) {
                return Err(Rejection::DiskConflict(volume.name.clone(), pod).into());
            }
        }
        let namespace = &self.pod.metadata.namespace;
        let has_exclusive = self.pod.spec.volumes.iter().any(|volume| is_exclusive(&volume.source));
        if has_exclusive && !self.neighborhood.knows_all_pods_on(&self.node.metadata.name) {
            return Err(Unread::Pods.into());
        }
        for Claimed { claim, .. } in claims.iter().filter(|it| !it.is_ephemeral && is_for_one_pod(&it.claim)) {
            let name = &claim.metadata.name;
            let names_it = |pod: &&Pod| pod.spec.volumes.iter().any(|it| names(&it.source, name));
            let uses_it = |pod: &&Pod| {
                let is_there = !pod.spec.node_name.is_empty() && !pod.is_terminal() && !(self.leaves)(pod);
                is_there && pod.metadata.namespace == *namespace && names_it(pod)
            };
            // Of a nominated pod, upstream compares the name of the claim alone, and only if the filter is not skipped.
            let nominated = || self.nominated.iter().copied().filter(|_| has_exclusive).find(names_it);
            if let Some(pod) = self.neighborhood.with_volumes().find(uses_it).or_else(nominated) {
                return Err(Rejection::InUse(name.clone(), pod).into());
            }
            if !self.neighborhood.knows_all() {
                return Err(Unread::Pods.into());
            }
        }
        Ok(())
    }

    /// Ported from `Filter`, `filterAttachableVolumes` and `getNodeVolumeAttachmentInfo`, nodevolumelimits/csi.go.
    pub(super) fn node_volume_limits(&self, claims: &[Claimed<'a>], nominated: &[&'a Pod]) -> Result<(), Obstacle<'a>> {
        let is_counted = |source: &VolumeSource| InTreePlugin::of_pod(source).is_some();
        if claims.is_empty() && !self.pod.spec.volumes.iter().any(|it| is_counted(&it.source)) {
            return Ok(());
        }
        let csi_node = self.storage.csi_node(self.node)?;
        let mut new: BTreeSet<Attachable> = inline(self.pod, csi_node).collect();
        for Claimed { claim, .. } in claims {
            new.extend(self.attachable(claim, csi_node)?);
        }
        let drivers: BTreeSet<String> = new.iter().map(|it| it.driver.clone()).collect();
        for driver in &drivers {
            let avoids = |it: &CsiDriver| it.spec.prevent_pod_scheduling_if_missing == Some(true);
            let is_there = csi_node.is_some_and(|node| node.spec.drivers.iter().any(|it| it.name == *driver));
            if self.storage.csi_driver(driver)?.is_some_and(avoids) && !is_there {
                return Err(Rejection::NoDriver(driver.clone()).into());
            }
        }
        let limit = |driver: String| csi_node?.limit(&driver).map(|limit| (driver, limit));
        let limits: Vec<(String, usize)> = drivers.into_iter().filter_map(limit).collect();
        if limits.is_empty() {
            return Ok(());
        }
        if !self.neighborhood.knows_all_pods_on(&self.node.metadata.name) {
            return Err(Unread::Pods.into());
        }
        let of_pods = self.attachables(self.pods_on_node(nominated), csi_node)?;
        let leave = self.neighborhood.bound_to(&self.node.metadata.name).into_iter().filter(|pod| (self.leaves)(pod));
        let detached = self.attachables(leave, csi_node)?;
        let mut attached = of_pods.clone();
        for attachment in self.storage.attachments(self.node)? {
            let Some(volume) = &attachment.spec.source.persistent_volume_name else { continue };
            if let Some(csi) = self.storage.volume(volume)?.and_then(|it| it.spec.csi.as_ref()) {
                let (driver, handle) = (attachment.spec.attacher.clone(), Handle::Volume(csi.volume_handle.clone()));
                let volume = Some(Attachable { driver, handle });
                attached.extend(volume.filter(|it| !it.driver.is_empty() && !detached.contains(it)));
            }
        }
        for (driver, limit) in limits {
            let of_driver = |all: &BTreeSet<Attachable>| all.iter().filter(|it| it.driver == driver).cloned().collect();
            let (new, of_pods, attached): (BTreeSet<_>, BTreeSet<_>, BTreeSet<_>) =
                (of_driver(&new), of_driver(&of_pods), of_driver(&attached));
            let in_tree = new.iter().chain(&attached).find_map(|it| match &it.handle {
                Handle::InTree(volume) => Some(volume.clone()),
                Handle::Volume(_) | Handle::Claim(..) => None,
            });
            // It may be one of the others.
            if let Some(volume) = in_tree {
                return Err(Unread::InTree(volume).into());
            }
            let added = new.difference(&of_pods).count();
            if added > 0 && attached.len() + added > limit {
                return Err(Rejection::TooMany { driver, attached: attached.len(), added, limit }.into());
            }
        }
        Ok(())
    }

    /// Returns the volumes that pods have.
    fn attachables(
        &self,
        pods: impl Iterator<Item = &'a Pod>,
        csi_node: Option<&CsiNode>,
    ) -> Result<BTreeSet<Attachable>, Unread> {
        let mut all = BTreeSet::new();
        for pod in pods {
            all.extend(inline(pod, csi_node));
            for name in pod.spec.volumes.iter().filter_map(|it| it.claim_of(&pod.metadata.name)) {
                if let Some(claim) = self.storage.claim(&pod.metadata.namespace, &name)? {
                    all.extend(self.attachable(claim, csi_node)?);
                }
            }
        }
        Ok(all)
    }

    /// Returns the volume that a claim is or will be bound to: `getCSIDriverInfo` and `getCSIDriverInfoFromSC`.
    fn attachable(
        &self,
        claim: &PersistentVolumeClaim,
        csi_node: Option<&CsiNode>,
    ) -> Result<Option<Attachable>, Unread> {
        let name = &claim.spec.volume_name;
        let volume = if name.is_empty() { None } else { self.storage.volume(name)? };
        let Some(volume) = volume else {
            let class = if claim.class().is_empty() { None } else { self.storage.class(claim.class())? };
            let Some(class) = class else { return Ok(None) };
            let driver = match InTreePlugin::named(&class.provisioner) {
                Some(_) if csi_node.is_none() => return Ok(None),
                Some(plugin) => plugin.driver,
                None if NOT_MIGRATED.contains(&&*class.provisioner) => return Ok(None),
                None => &class.provisioner,
            };
            let handle = Handle::Claim(claim.metadata.namespace.clone(), claim.metadata.name.clone());
            return Ok(Some(Attachable { driver: driver.to_owned(), handle }).filter(|it| !it.driver.is_empty()));
        };
        if let Some(csi) = &volume.spec.csi {
            let (driver, handle) = (csi.driver.clone(), Handle::Volume(csi.volume_handle.clone()));
            let is_named = !csi.driver.is_empty() && !csi.volume_handle.is_empty();
            return Ok(Some(Attachable { driver, handle }).filter(|_| is_named));
        }
        let plugin = InTreePlugin::of(volume).filter(|_| csi_node.is_some());
        Ok(plugin.map(|it| Attachable { driver: it.driver.to_owned(), handle: Handle::InTree(name.clone()) }))
    }
}

/// Returns the volumes of in-tree plugins that a pod names itself: `checkAttachableInlineVolume`.
fn inline(pod: &Pod, csi_node: Option<&CsiNode>) -> impl Iterator<Item = Attachable> {
    let is_on = csi_node.is_some();
    pod.spec.volumes.iter().filter(move |_| is_on).filter_map(|volume| {
        let plugin = InTreePlugin::of_pod(&volume.source)?;
        Some(Attachable { driver: plugin.driver.to_owned(), handle: Handle::InTree(volume.name.clone()) })
    })
}

pub(super) fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.access_modes.iter().any(|mode| mode == ONE_POD)
}

fn names(source: &VolumeSource, claim: &str) -> bool {
    source.persistent_volume_claim.as_ref().is_some_and(|it| it.claim_name == claim)
}

/// Ported from `needsRestrictionsCheck`.
fn is_exclusive(source: &VolumeSource) -> bool {
    source.gce_persistent_disk.is_some()
        || source.aws_elastic_block_store.is_some()
        || source.rbd.is_some()
        || source.iscsi.is_some()
}

/// Ported from `isVolumeConflict`.
fn is_volume_conflict(one: &VolumeSource, other: &VolumeSource) -> bool {
    let gce = one.gce_persistent_disk.as_ref().zip(other.gce_persistent_disk.as_ref());
    let aws = one.aws_elastic_block_store.as_ref().zip(other.aws_elastic_block_store.as_ref());
    let iscsi = one.iscsi.as_ref().zip(other.iscsi.as_ref());
    let rbd = one.rbd.as_ref().zip(other.rbd.as_ref());
    gce.is_some_and(|(a, b)| a.pd_name == b.pd_name && !(a.read_only && b.read_only))
        || aws.is_some_and(|(a, b)| a.volume_id == b.volume_id)
        || iscsi.is_some_and(|(a, b)| a.iqn == b.iqn && !(a.read_only && b.read_only))
        || rbd.is_some_and(|(a, b)| {
            let shares_monitor = a.monitors.iter().any(|it| b.monitors.contains(it));
            shares_monitor && a.pool == b.pool && a.image == b.image && !(a.read_only && b.read_only)
        })
}
