//! The rules of the DaemonSet controller and the scheduler, as pure functions.
//!
//! The controller decides where a pod should be ([`should_run`], made of [`affinity`] and
//! [`taints`]), which pods are a DaemonSet's and which of them stay ([`daemon_pods`]), and how fast
//! they are replaced ([`rolling_update`]). The scheduler then decides whether there is room for one
//! ([`resources`], [`devices`], [`ports`]), whether it can have its volumes and devices there ([`volumes`], [`device_claims`]), whether other pods keep it away
//! ([`pod_affinity`], [`topology_spread`]), whether the kubelet has what it needs ([`declared_features`]), and which other pods it deletes if there is none ([`preemption`]), so that it is known what
//! runs on a node of which all pods are new ([`empty_node`]). Every rule names the function upstream that it was ported from; the
//! differential test holds them against those functions themselves.

pub mod advanced_update;
pub mod affinity;
pub mod critical;
pub mod daemon_pods;
pub mod declared_features;
pub mod device_claims;
pub mod devices;
pub mod empty_node;
pub mod neighborhood;
pub mod pod_affinity;
pub mod ports;
pub mod preemption;
pub mod resources;
pub mod rolling_update;
pub mod should_run;
pub mod taints;
pub mod topology_spread;
pub mod volume_binding;
mod volume_limits;
pub mod volumes;
