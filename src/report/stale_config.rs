//! Which pods are older than the last change of a ConfigMap or Secret that they use.

use jiff::Timestamp;

use super::fix::Fix;
use crate::model::config_object::Use;

/// The pods of a DaemonSet, and what they use.
#[apply(answer!)]
pub struct StaleConfig {
    /// How many pods were looked at: those that are bound to a node and are not being deleted. Absent if pods could not be read.
    pub pods: Option<usize>,
    /// How many of them have something that is older than its last change and is not refreshed; at least so many if there is
    /// something in `unknown` or `unknownPods`. Absent if none is known to have, but not of each pod.
    pub stale_pods: Option<usize>,
    /// How many of them use what is not known, because their revision could not be read.
    pub unknown_pods: usize,
    /// The ConfigMaps and Secrets that were changed after a pod had started, what is not refreshed first.
    pub changed: Vec<ChangedObject>,
    /// Those that the template requires and that do not exist: new pods would not start.
    pub missing: Vec<ConfigName>,
    /// Those of which it is not known when they were changed.
    pub unknown: Vec<ConfigName>,
    /// How to restart the pods, or why that is not safe now; absent if nothing was changed or is missing.
    pub fix: Option<Fix>,
}

/// Names a ConfigMap or Secret.
#[apply(answer!)]
#[derive(Eq, PartialOrd, Ord)]
pub struct ConfigName {
    /// `ConfigMap` or `Secret`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
}

/// A ConfigMap or Secret that was changed after a pod had started.
#[apply(answer!)]
pub struct ChangedObject {
    /// Which one.
    #[serde(flatten)]
    pub object: ConfigName,
    /// When whoever owns its data has last set a field; that may have been a label.
    pub changed_at: Timestamp,
    /// How the pods use it: `Env`, which is set when a container starts; `SubPath`, a mounted part of a volume, which stays as it was
    /// then; `InitVolume`, a volume of an init container, which has read it once; `ImmutableVolume`, a volume with an immutable object that
    /// was created again, of which the kubelet keeps the former files; or `Volume`, whose files it refreshes.
    #[cfg_attr(feature = "schemas", schemars(with = "Vec<String>"))]
    pub by: Vec<Use>,
    /// Whether the kubelet refreshes all that they use of it. The process may have to read the files again.
    pub refreshed: bool,
    /// How many pods have started before the change.
    pub pods: usize,
    /// Their nodes.
    pub nodes: Vec<String>,
}
