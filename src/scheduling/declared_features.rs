//! Features that a pod needs of the kubelet, and that the kubelet declares: the filter NodeDeclaredFeatures.
//!
//! Ported from pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go, and `InferForScheduling` of
//! k8s.io/component-helpers/nodedeclaredfeatures/features, release 1.37.2: the other features there do not matter for new pods.

use super::devices::minor;
use super::neighborhood::Outcome;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerRestartRule, PodSpec};

/// What the filter says: `errReasonUnsatisfiedRequirements`.
pub const REASON: &str = "node(s) didn't match Pod's required features";

/// The first minor release in which the scheduler has the filter by default: `NodeDeclaredFeatures`, pkg/features/kube_features.go, release
/// 1.37.
const ON_BY_DEFAULT: u32 = 36;

/// Returns the features that a pod needs.
pub fn required(spec: &PodSpec) -> impl Iterator<Item = &'static str> {
    let any = |has: fn(&Container) -> bool| spec.all_containers().any(has);
    let restarts_all = any(|container| container.restart_policy_rules.iter().any(ContainerRestartRule::restarts_all));
    let has_options = any(|container| container.volume_mounts.iter().any(|it| !it.bind_mount_options.is_empty()));
    let needs = [
        ("RestartAllContainersOnContainerExits", restarts_all),
        ("UserNamespacesHostNetworkSupport", spec.host_network && spec.host_users == Some(false)),
        ("VolumeBindMountOptions", has_options),
    ];
    needs.into_iter().filter(|(_, is_needed)| *is_needed).map(|(feature, _)| feature)
}

/// Tells whether a node declares the features that a pod needs; it is rejected with those that it does not declare. If no node is
/// known that declares any, or would, the scheduler may have no such filter.
pub fn declared(spec: &PodSpec, node: &Node, nodes: &[&Node]) -> Outcome<Vec<&'static str>> {
    let is_declared = |feature: &&str| node.status.declared_features.iter().any(|declared| declared == feature);
    let missing: Vec<&str> = required(spec).filter(|feature| !is_declared(feature)).collect();
    let shows_filter =
        |node: &&Node| !node.status.declared_features.is_empty() || minor(node).is_some_and(|it| it >= ON_BY_DEFAULT);
    match missing.as_slice() {
        [] => Outcome::Passes,
        _ if nodes.iter().any(shows_filter) => Outcome::Rejects(missing),
        _ => Outcome::Unknown,
    }
}
