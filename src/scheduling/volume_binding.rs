//! The volumes that claims are bound to or need, and whether a node can have them: the filters VolumeBinding and VolumeZone.

use std::borrow::Cow;

use super::affinity::RequiredNodeAffinity;
use super::neighborhood::selects;
use super::volumes::{Claimed, InTreePlugin, Obstacle, Rejection, Unread, VolumeFilters};
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::quantity::Quantity;
use crate::model::storage::{PersistentVolume, PersistentVolumeClaim, SELECTED_NODE};

/// A claim because of which VolumeBinding rejects a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict<'a> {
    /// The claim.
    pub claim: String,
    /// Why the node cannot have its volume.
    pub why: WhyNot<'a>,
}

/// Why a node cannot have the volume of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum WhyNot<'a> {
    /// The volume is for other nodes.
    NodeAffinity(&'a PersistentVolume),
    /// The volume of this name does not exist.
    NoVolume(String),
    /// The volume is being provisioned for the node of this name.
    OtherNode(String),
    /// No volume is free that the claim may be bound to, and its class provisions none.
    NoneProvisioned(String),
    /// No volume is free that the claim may be bound to, and no storage for one is left that this node can use.
    NoSpace {
        /// The class of the claim.
        class: String,
        /// How much it requests.
        requested: Quantity,
    },
    /// No volume is free that the claim may be bound to, and its class provisions none for this node.
    Topology(String),
}

impl Conflict<'_> {
    /// Returns the words of the scheduler: `ConflictReason`, binder.go.
    pub fn reason(&self) -> &'static str {
        match self.why {
            WhyNot::NodeAffinity(_) => "node(s) didn't match PersistentVolume's node affinity",
            WhyNot::NoVolume(_) => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            WhyNot::OtherNode(_) | WhyNot::NoneProvisioned(_) | WhyNot::Topology(_) => {
                "node(s) didn't find available persistent volumes to bind"
            }
            WhyNot::NoSpace { .. } => "node(s) did not have enough free storage",
        }
    }
}

/// The provisioner of classes for which none provisions volumes: `NotSupportedProvisioner`,
/// k8s.io/component-helpers/storage/volume/pv_helpers.go, release 1.37.2.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The labels of volumes and nodes that VolumeZone compares, with the one that follows each.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

impl<'a, L: Fn(&Pod) -> bool> VolumeFilters<'_, 'a, L> {
    /// Ported from `Filter` and `FindPodVolumes`, volumebinding/binder.go.
    pub(super) fn volume_binding(&self, claims: &[Claimed<'a>]) -> Result<(), Obstacle<'a>> {
        let bound = self.check_bound_claims(claims)?;
        let unbound = claims.iter().map(|it| &it.claim).filter(|claim| !claim.is_bound());
        let unbound = self.check_unbound_claims(unbound.collect())?;
        let conflicts: Vec<Conflict<'_>> = bound.into_iter().chain(unbound).collect();
        if conflicts.is_empty() { Ok(()) } else { Err(Rejection::Binding(conflicts).into()) }
    }

    /// Ported from `checkBoundClaims`.
    fn check_bound_claims(&self, claims: &[Claimed<'a>]) -> Result<Option<Conflict<'a>>, Unread> {
        for Claimed { claim, volume, .. } in claims.iter().filter(|it| it.claim.is_bound()) {
            let of_claim = &claim.spec.volume_name;
            let conflict = |why| Ok(Some(Conflict { claim: claim.metadata.name.clone(), why }));
            let Some(volume) = volume else { return conflict(WhyNot::NoVolume(of_claim.clone())) };
            // What its node affinity is translated to is not known.
            if volume.spec.node_affinity.is_some()
                && let Some(plugin) = InTreePlugin::of(volume)
                && self.storage.csi_node(self.node)?.is_some_and(|node| node.has_migrated(plugin.name))
            {
                return Err(Unread::InTree(of_claim.clone()));
            }
            if !can_be_on(volume, self.node) {
                return conflict(WhyNot::NodeAffinity(volume));
            }
        }
        Ok(None)
    }

    /// Finds volumes for claims that wait for a pod, or whether they would be provisioned.
    ///
    /// Ported from `FindPodVolumes` and `findMatchingVolumes`.
    fn check_unbound_claims(
        &self,
        claims: Vec<&Cow<'a, PersistentVolumeClaim>>,
    ) -> Result<Option<Conflict<'a>>, Unread> {
        let selected = |claim: &PersistentVolumeClaim| claim.metadata.annotations.get(SELECTED_NODE).cloned();
        for claim in &claims {
            if let Some(node) = selected(claim).filter(|node| *node != self.node.metadata.name) {
                return Ok(Some(Conflict { claim: claim.metadata.name.clone(), why: WhyNot::OtherNode(node) }));
            }
        }
        let (mut to_provision, mut to_match): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| selected(claim).is_some());
        to_match.sort_by_key(|claim| nanos(claim.request()));
        let mut chosen: Vec<&str> = Vec::new();
        for claim in to_match {
            let volumes = self.storage.volumes()?.iter().filter(|volume| volume.class() == claim.class());
            match find_matching_volume(claim, volumes, self.node, &chosen) {
                Some(volume) => chosen.push(&volume.metadata.name),
                None => to_provision.push(claim),
            }
        }
        self.check_volume_provisions(&to_provision)
    }

    /// Ported from `checkVolumeProvisions`.
    fn check_volume_provisions(
        &self,
        claims: &[&Cow<'a, PersistentVolumeClaim>],
    ) -> Result<Option<Conflict<'a>>, Unread> {
        for claim in claims {
            let class = claim.class().to_owned();
            let conflict = |why| Ok(Some(Conflict { claim: claim.metadata.name.clone(), why }));
            let Some(found) = self.storage.class(&class)? else { continue };
            if found.provisioner.is_empty() || found.provisioner == NO_PROVISIONER {
                return conflict(WhyNot::NoneProvisioned(class));
            }
            if !found.allows(&self.node.metadata.labels) {
                return conflict(WhyNot::Topology(class));
            }
            let Some(requested) = claim.request() else { continue };
            if !self.has_enough_capacity(&found.provisioner, requested, &class)? {
                return conflict(WhyNot::NoSpace { class, requested: requested.clone() });
            }
        }
        Ok(None)
    }

    /// Ported from `hasEnoughCapacity`, `capacitySufficient` and `nodeHasAccess`.
    fn has_enough_capacity(&self, provisioner: &str, requested: &Quantity, class: &str) -> Result<bool, Unread> {
        let driver = self.storage.csi_driver(provisioner)?;
        if driver.is_none_or(|it| it.spec.storage_capacity != Some(true)) {
            return Ok(true);
        }
        self.storage.has_capacity(|it| {
            it.storage_class_name == class
                && it.volume_limit().is_some_and(|limit| limit.value() >= requested.value())
                && selects(it.node_topology.as_ref(), &self.node.metadata.labels)
        })
    }

    /// Ported from `Filter` and `getPVTopologies`, `volumezone/volume_zone.go`.
    pub(super) fn volume_zone(&self, claims: &[Claimed<'a>]) -> Result<(), Obstacle<'a>> {
        let labels = &self.node.metadata.labels;
        if !TOPOLOGY_LABELS.iter().any(|(label, _)| labels.contains_key(*label)) {
            return Ok(());
        }
        for volume in claims.iter().filter(|it| !it.is_ephemeral).filter_map(|it| it.volume) {
            for (label, successor) in TOPOLOGY_LABELS {
                let Some(zones) = volume.metadata.labels.get(label) else { continue };
                let zones: Vec<&str> = zones.split("__").map(str::trim).collect();
                let own = labels.get(label).or_else(|| labels.get(successor));
                // A label that cannot be read is ignored.
                if !zones.contains(&"") && !own.is_some_and(|own| zones.contains(&own.as_str())) {
                    return Err(Rejection::Zone { volume, label }.into());
                }
            }
        }
        Ok(())
    }
}

fn nanos(quantity: Option<&Quantity>) -> i128 {
    quantity.and_then(Quantity::nanos).unwrap_or(0)
}

/// Ported from `CheckNodeAffinity`, k8s.io/component-helpers/storage/volume/helpers.go, release 1.37.2.
fn can_be_on(volume: &PersistentVolume, node: &Node) -> bool {
    let Some(required) = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref()) else {
        return true;
    };
    // The name of the node is left out.
    let metadata = ObjectMeta { labels: node.metadata.labels.clone(), ..ObjectMeta::default() };
    RequiredNodeAffinity::of_terms(required).matches(&Node { metadata, ..Node::default() })
}

/// Returns the smallest volume that a claim may be bound to on a node. Of equally small ones upstream takes any.
///
/// Ported from `FindMatchingVolume`, k8s.io/component-helpers/storage/volume/pv_helpers.go, release 1.37.2.
fn find_matching_volume<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl Iterator<Item = &'a PersistentVolume>,
    node: &Node,
    chosen: &[&str],
) -> Option<&'a PersistentVolume> {
    const FILESYSTEM: &str = "Filesystem";
    let requested = nanos(claim.request());
    let mode = |mode: &Option<String>| mode.as_deref().unwrap_or(FILESYSTEM).to_owned();
    let attributes = |class: &Option<String>| class.clone().unwrap_or_default();
    let mut smallest: Option<&PersistentVolume> = None;
    let capacity = |volume: &PersistentVolume| nanos(volume.spec.capacity.get("storage"));
    for volume in volumes {
        let spec = &volume.spec;
        let is_reserved = spec.claim_ref.is_some();
        if chosen.contains(&&*volume.metadata.name)
            || (is_reserved && !is_bound_to(volume, claim))
            || capacity(volume) < requested
            || mode(&spec.volume_mode) != mode(&claim.spec.volume_mode)
            || attributes(&spec.volume_attributes_class_name) != attributes(&claim.spec.volume_attributes_class_name)
            || volume.metadata.is_terminating()
        {
            continue;
        }
        if is_reserved {
            return can_be_on(volume, node).then_some(volume);
        }
        let is_selected = claim.spec.selector.as_ref().is_none_or(|it| it.matches(&volume.metadata.labels));
        let has_modes = claim.spec.access_modes.iter().all(|mode| spec.access_modes.contains(mode));
        let is_smaller = smallest.is_none_or(|smallest| capacity(smallest) > capacity(volume));
        // What costs most comes last.
        let is_candidate = volume.status.phase == "Available" && is_selected && has_modes && is_smaller;
        if is_candidate && can_be_on(volume, node) {
            smallest = Some(volume);
        }
    }
    smallest
}

/// Ported from `IsVolumeBoundToClaim`, k8s.io/component-helpers/storage/volume/pv_helpers.go, release 1.37.2.
fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        claim.metadata.is_named(&reference.namespace, &reference.name)
            && (reference.uid.is_empty() || reference.uid == claim.metadata.uid)
    })
}
