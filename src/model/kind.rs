//! The kinds of objects in a snapshot: one table for reading, counting, sorting and writing them.

use super::snapshot::Snapshot;

/// Declares the kinds, one per line: the group and version, the kind and the resource as named in the API, and the
/// snapshot's list of them. The order is the one in which a snapshot is written.
macro_rules! kinds {
    ($d:tt $(
        $(#[doc = $set_doc:literal])+
        $set:ident { $($(#[doc = $doc:literal])* $kind:ident: $version:literal $name:literal $resource:literal $list:ident,)+ }
    )+; $(#[doc = $writers_doc:literal])+ $writers:ident {
        $($written:ident: $written_version:literal $written_name:literal $written_resource:literal,)+
    }) => {
        /// A kind of object in a snapshot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = concat!("The resource `", $resource, "`.")] $(#[doc = $doc])* $kind,)+)+
            $(#[doc = concat!("The resource `", $written_resource, "`.")] $written,)+
        }

        impl Kind {
            $($(#[doc = $set_doc])+ pub const $set: [Kind; [$($name),+].len()] = [$(Kind::$kind),+];)+

            $(#[doc = $writers_doc])+
            pub const $writers: [Kind; [$($written_name),+].len()] = [$(Kind::$written),+];

            /// Returns every kind that dumps contain, in the order in which a snapshot is written.
            pub fn every() -> impl Iterator<Item = Kind> {
                [$(&Kind::$set[..]),+].concat().into_iter()
            }

            /// Returns the group and version, the kind, and the resource as named in the API.
            pub fn api_names(self) -> (&'static str, &'static str, &'static str) {
                match self {
                    $($(Kind::$kind => ($version, $name, $resource),)+)+
                    $(Kind::$written => ($written_version, $written_name, $written_resource),)+
                }
            }
        }

        /// Evaluates an expression with the snapshot's list of the objects of a kind, whatever their type; returns
        /// `None` for a kind without one.
        macro_rules! with_place {
            ($d kind:expr, $d place:ident => $d do:expr) => {
                match $d kind {
                    $($($crate::model::kind::Kind::$kind => {
                        let $d place = $crate::model::kind::Place { of: |all| &all.$list, of_mut: |all| &mut all.$list };
                        Some($d do)
                    })+)+
                    $($crate::model::kind::Kind::$written => None,)+
                }
            };
        }
    };
}

kinds! { $
    /// Every kind that each cluster has, in the order in which a snapshot is written.
    ALL {
        DaemonSets: "apps/v1" "DaemonSet" "daemonsets" daemon_sets,
        ControllerRevisions: "apps/v1" "ControllerRevision" "controllerrevisions" controller_revisions,
        Nodes: "v1" "Node" "nodes" nodes,
        Pods: "v1" "Pod" "pods" pods,
        Events: "v1" "Event" "events" events,
        LimitRanges: "v1" "LimitRange" "limitranges" limit_ranges,
        RuntimeClasses: "node.k8s.io/v1" "RuntimeClass" "runtimeclasses" runtime_classes,
        PriorityClasses: "scheduling.k8s.io/v1" "PriorityClass" "priorityclasses" priority_classes,
        Leases: "coordination.k8s.io/v1" "Lease" "leases" leases,
    }
    /// Kinds without which a dump is complete.
    OPTIONAL {
        /// Few clusters have them.
        AdvancedDaemonSets: "apps.kruise.io/v1beta1" "DaemonSet" "daemonsets.apps.kruise.io" advanced_daemon_sets,
        /// They are only used for changes to the update strategy and simulated preemptions.
        PodDisruptionBudgets: "policy/v1" "PodDisruptionBudget" "poddisruptionbudgets" pod_disruption_budgets,
    }
    /// The kinds that are read only if an answer depends on them: without any object, only [`Snapshot::read_on_demand`] tells whether
    /// they were.
    ON_DEMAND {
        /// They are read only if a pod requests an extended resource that nodes do not advertise.
        DeviceClasses: "resource.k8s.io/v1" "DeviceClass" "deviceclasses" device_classes,
        /// They and what belongs to them are read only if a pod that is not bound needs devices.
        ResourceClaims: "resource.k8s.io/v1" "ResourceClaim" "resourceclaims" resource_claims,
        ResourceClaimTemplates: "resource.k8s.io/v1" "ResourceClaimTemplate" "resourceclaimtemplates" resource_claim_templates,
        ResourceSlices: "resource.k8s.io/v1" "ResourceSlice" "resourceslices" resource_slices,
        /// They and what belongs to them are read only if a pod that is not bound uses one.
        PersistentVolumeClaims: "v1" "PersistentVolumeClaim" "persistentvolumeclaims" persistent_volume_claims,
        PersistentVolumes: "v1" "PersistentVolume" "persistentvolumes" persistent_volumes,
        StorageClasses: "storage.k8s.io/v1" "StorageClass" "storageclasses" storage_classes,
        CsiNodes: "storage.k8s.io/v1" "CSINode" "csinodes" csi_nodes,
        CsiDrivers: "storage.k8s.io/v1" "CSIDriver" "csidrivers" csi_drivers,
        CsiStorageCapacities: "storage.k8s.io/v1" "CSIStorageCapacity" "csistoragecapacities" csi_storage_capacities,
        VolumeAttachments: "storage.k8s.io/v1" "VolumeAttachment" "volumeattachments" volume_attachments,
    }
    /// Kinds that few answers use, so that a dump without them is complete.
    RARELY_USED {
        /// Without their data. Only `status NAME` uses them.
        ConfigMaps: "v1" "ConfigMap" "configmaps" config_maps,
        /// Without their data, like ConfigMaps.
        Secrets: "v1" "Secret" "secrets" secrets,
        /// Only changes look at them.
        ResourceQuotas: "v1" "ResourceQuota" "resourcequotas" resource_quotas,
        /// Only those with missing pods are used.
        Namespaces: "v1" "Namespace" "namespaces" namespaces,
    }
    ;
    /// The kinds that admit and change pods as they are created, of which only the writers are read.
    ADMISSION {
        ValidatingAdmissionPolicies: "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "validatingadmissionpolicies",
        ValidatingAdmissionPolicyBindings: "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "validatingadmissionpolicybindings",
        MutatingAdmissionPolicies: "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicy" "mutatingadmissionpolicies",
        MutatingAdmissionPolicyBindings: "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicyBinding" "mutatingadmissionpolicybindings",
        ValidatingWebhookConfigurations: "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations",
        MutatingWebhookConfigurations: "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations",
    }
}

impl Kind {
    /// The kinds that limit and label a namespace's pods, whose managers are read.
    pub const WRITTEN: [Kind; 3] = [Kind::LimitRanges, Kind::ResourceQuotas, Kind::Namespaces];

    /// Returns whether these are claims of pods, or what they are created from.
    pub(crate) fn is_claim(self) -> bool {
        matches!(self, Kind::PersistentVolumeClaims | Kind::ResourceClaims | Kind::ResourceClaimTemplates)
    }

    /// Returns the resource's name, such as `pods`.
    pub fn resource(self) -> &'static str {
        self.api_names().2
    }

    /// Returns whether a group and version and a kind's name refer to this kind.
    pub(crate) fn is(self, api_version: &str, name: &str) -> bool {
        let (known_version, known_name, _) = self.api_names();
        (known_version, known_name) == (api_version, name)
    }
}

/// Access to a snapshot's list of the objects of a kind.
pub(crate) struct Place<T> {
    /// Returns the objects.
    pub of: fn(&Snapshot) -> &Vec<T>,
    /// Returns the objects mutably.
    pub of_mut: fn(&mut Snapshot) -> &mut Vec<T>,
}

pub(crate) use with_place;
