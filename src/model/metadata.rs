//! Object metadata.

use std::collections::BTreeMap;
use std::ops::Deref;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

use super::shared::Shared;
use super::snapshot::NODE_SELECTOR_ANNOTATIONS;
use super::storage::STORAGE_ANNOTATIONS;
use super::time::Time;
use super::wire::null_is_default;

/// The label on a DaemonSet's pods and revisions with the hash of their template.
pub const CONTROLLER_REVISION_HASH_LABEL: &str = "controller-revision-hash";

/// The label on pods that predates revisions: the generation of the template that they were created from.
pub const POD_TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";

/// The annotation that numbers the templates of a DaemonSet; it predates revisions.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// The annotation in which `kubectl apply` stores the last applied manifest.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation of a pod template that restarts the pods when changed, as set by `kubectl rollout restart`.
pub const RESTARTED_AT_ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";

/// The number of random characters at the end of a generated name (`SimpleNameGenerator`,
/// k8s.io/apiserver/pkg/storage/names/generate.go, release 0.37.2).
pub(crate) const GENERATED_LENGTH: usize = 5;

/// The maximum length of what precedes them (`MaxGeneratedNameLength` in the same file).
const MAX_BASE_LENGTH: usize = 58;

/// Returns what follows the part of a pod's name that was generated from the name of its controller; `None` if it was not.
pub(crate) fn generated_suffix<'n>(pod: &'n str, controller: &str) -> Option<&'n str> {
    let base = format!("{controller}-");
    pod.strip_prefix(base.get(..MAX_BASE_LENGTH).unwrap_or(&base))
}

wire! {
    /// An object's `metadata`, without annotations and managed fields.
    pub struct ObjectMeta {
        /// The name, unique in the namespace.
        name: String = 1,
        /// The namespace; empty for nodes.
        namespace: String = 3,
        /// The uid, which differs after the object is recreated.
        uid: String = 5,
        /// The version of the last write.
        resource_version: String = 6,
        /// The generation of the spec.
        generation: i64 = 7,
        /// When the object was created.
        creation_timestamp: Time = 8,
        /// When the grace period ends; set once deletion has been requested.
        deletion_timestamp: Time = 9,
        /// The grace period of the deletion in seconds.
        deletion_grace_period_seconds: Option<i64> = 10,
        /// The labels.
        labels: Shared<BTreeMap<String, String>> = 11,
        /// The owners, of which at most one is the controller.
        owner_references: Shared<Vec<OwnerReference>> = 13,
        /// What must be removed before the object can be deleted.
        finalizers: Vec<String> = 14,
    }

    /// A reference from an object to one of its owners.
    pub struct OwnerReference {
        /// The owner's kind.
        kind: String = 1,
        /// The owner's name.
        name: String = 3,
        /// The owner's uid.
        uid: String = 4,
        /// The owner's group and version.
        api_version: String = 5,
        /// Whether this owner manages the object.
        controller: bool = 6,
    }
}

impl ObjectMeta {
    /// Returns whether the object is older than a resource version, if they can be compared.
    pub fn is_older_than(&self, version: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        number(&self.resource_version).zip(number(version)).is_some_and(|(own, other)| own < other)
    }

    /// Returns `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns whether the object has this name and namespace.
    pub fn is_named(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.as_str(), self.name.as_str()) == (namespace, name)
    }

    /// Returns the owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Returns when deletion started: `deletionTimestamp` is the end of the grace period.
    pub fn deleted_at(&self) -> Option<Timestamp> {
        let grace = SignedDuration::from_secs(self.deletion_grace_period_seconds.unwrap_or(0));
        self.deletion_timestamp.get()?.checked_sub(grace).ok()
    }

    /// Returns whether deletion has started.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_set()
    }
}

/// An object's metadata, with the annotations that rules read: [`NODE_SELECTOR_ANNOTATIONS`] and [`STORAGE_ANNOTATIONS`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnnotatedMeta {
    #[serde(flatten)]
    meta: ObjectMeta,
    /// The annotations.
    #[serde(deserialize_with = "read_annotations", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl From<ObjectMeta> for AnnotatedMeta {
    fn from(meta: ObjectMeta) -> Self {
        AnnotatedMeta { meta, annotations: BTreeMap::new() }
    }
}

impl Deref for AnnotatedMeta {
    type Target = ObjectMeta;

    fn deref(&self) -> &ObjectMeta {
        &self.meta
    }
}

fn read_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let mut annotations: BTreeMap<String, String> = null_is_default(deserializer)?;
    let is_read = |key: &str| NODE_SELECTOR_ANNOTATIONS.contains(&key) || STORAGE_ANNOTATIONS.contains(&key);
    annotations.retain(|key, _| is_read(key));
    Ok(annotations)
}
