//! The fields of nodes and pods that reports use, live or from a dump; all others are dropped.
//!
//! A big cluster has 5,000 nodes with several pods each. Most are healthy, and most of their fields are never used.

use std::collections::BTreeMap;

use crate::model::metadata::{ObjectMeta, OwnerReference};
use crate::model::node::Node;
use crate::model::pod::{
    Affinity, Container, ContainerStatus, Pod, PodAffinity, PodAffinityTerm, PodSpec, PodStatus, ResourceRequirements,
};
use crate::model::shared::Shared;
use crate::model::storage::Volume;
use crate::model::written::WrittenNode;

/// The conditions of a ready pod that follow from its readiness.
const STEPS: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"];

/// Drops the conditions of a node that report no problem.
pub(super) fn keep_node(mut node: Node, whole: bool) -> Node {
    if !whole {
        node.status.conditions.retain(|condition| condition.type_ == "Ready" || condition.status != "False");
    }
    // Other conditions fail merely because the node is down.
    if node.not_ready().is_none() {
        node.status.addresses = Vec::new();
    }
    node.status.conditions.shrink_to_fit();
    node.spec.taints.shrink_to_fit();
    node.status.declared_features.shrink_to_fit();
    node
}

/// Returns what is kept of a DaemonSet's pod: all of it if `whole` is set.
pub(super) fn own_pod(mut pod: Pod, whole: bool) -> Pod {
    drop_unfiltered_volumes(&mut pod);
    if whole || !is_fine(&pod) { pod } else { fine_pod(pod) }
}

/// Drops the volumes that every node can have, such as the one with the token of each pod, and their mounts.
pub(super) fn drop_unfiltered_volumes(pod: &mut Pod) {
    pod.spec.volumes.retain(Volume::is_filtered_by);
    pod.spec.volumes.shrink_to_fit();
    for container in pod.spec.containers.iter_mut().chain(&mut pod.spec.init_containers) {
        container.volume_mounts.retain(|mount| !mount.bind_mount_options.is_empty());
        container.volume_mounts.shrink_to_fit();
    }
}

/// Returns whether a pod needs no explanation: it is bound, ready, and never restarted.
fn is_fine(pod: &Pod) -> bool {
    pod.status.phase == "Running"
        && pod.is_ready()
        && !pod.metadata.is_terminating()
        && !pod.spec.node_name.is_empty()
        && pod.status.container_statuses.iter().all(|status| status.ready)
        && pod.container_statuses().all(|status| status.restart_count == 0)
}

/// Drops the fields of a DaemonSet's pod that no report uses if the pod is healthy.
fn fine_pod(mut pod: Pod) -> Pod {
    // A bound pod was accepted by its node.
    pod.spec.affinity = pod.spec.affinity.and_then(anti_affinity);
    pod.spec.topology_spread_constraints = Vec::new();
    pod.spec.node_selector = BTreeMap::new();
    pod.spec.tolerations = Vec::new();
    pod.spec.scheduler_name = String::new();
    pod.spec.service_account_name = String::new();
    // The containers are ready and were never restarted.
    keep_image_ids(&mut pod);
    drop_equal_allocations(&mut pod);
    for container in pod.spec.containers.iter_mut().chain(&mut pod.spec.init_containers) {
        // Limits are reported only with a failure, and the API server has defaulted requests to them.
        container.resources.limits = BTreeMap::new();
        container.ports.retain(|port| port.host_port != 0);
    }
    pod.status.conditions.retain(|condition| condition.status != "True" || !STEPS.contains(&condition.type_.as_str()));
    shrunk(pod)
}

/// Keeps which image each container runs, beside the image's name, which most pods share.
fn keep_image_ids(pod: &mut Pod) {
    for container in pod.spec.containers.iter_mut() {
        let status = pod.status.container_statuses.iter().find(|status| status.name == container.name);
        container.image_id = status.map(|status| status.image_id.clone()).unwrap_or_default();
    }
}

/// Drops the statuses of containers if the node has allocated exactly what each requests, or does not report it.
///
/// While a resize is pending they all stay: if it is infeasible, the requests of a container are ignored and only its
/// status counts.
fn drop_equal_allocations(pod: &mut Pod) {
    if pod.condition("PodResizePending").is_some() {
        return;
    }
    let Pod { spec, status, .. } = pod;
    for (containers, statuses) in [
        (&*spec.containers, &mut status.container_statuses),
        (&spec.init_containers, &mut status.init_container_statuses),
    ] {
        if statuses.iter().all(|status| has_its_requests(status, containers)) {
            *statuses = Vec::new();
        }
    }
}

/// Returns whether a node has allocated exactly what a container requests, or does not report it.
fn has_its_requests(status: &ContainerStatus, containers: &[Container]) -> bool {
    let container = containers.iter().find(|container| container.name == status.name);
    let asked = container.map(|container| &container.resources.requests);
    (status.allocated_resources.is_empty() || Some(&status.allocated_resources) == asked)
        && status.resources.as_ref().is_none_or(|resources| Some(&resources.requests) == asked)
}

/// Shrinks vectors to fit.
fn shrunk(mut pod: Pod) -> Pod {
    pod.metadata.owner_references.shrink_to_fit();
    for container in pod.spec.containers.iter_mut().chain(&mut pod.spec.init_containers) {
        container.ports.shrink_to_fit();
    }
    pod.spec.containers.shrink_to_fit();
    pod.spec.init_containers.shrink_to_fit();
    pod.status.conditions.shrink_to_fit();
    pod.status.container_statuses.shrink_to_fit();
    pod.status.init_container_statuses.shrink_to_fit();
    pod
}

/// The most variants of the containers of one revision that are shared.
const MOST_VARIANTS: usize = 8;

/// What the pods of a controller have in common, by its uid and their revision.
#[derive(Debug, Default)]
pub(super) struct SharedParts(BTreeMap<(String, String), PodParts>);

#[derive(Debug)]
struct PodParts {
    labels: Shared<BTreeMap<String, String>>,
    owner_references: Shared<Vec<OwnerReference>>,
    /// Those of pods that are well, and of others, by the image that a tag stands for on the node.
    containers: Vec<Shared<Vec<Container>>>,
    anti_affinity: Option<Shared<Vec<PodAffinityTerm>>>,
}

impl SharedParts {
    /// Lets a pod share common values with an earlier one of the same controller and revision.
    pub(super) fn share(&mut self, pod: &mut Pod) {
        let Some(controller) = pod.metadata.controller() else { return };
        let key = (controller.uid.clone(), pod.revision_hash().to_owned());
        let earlier = self.0.entry(key).or_insert_with(|| PodParts {
            labels: pod.metadata.labels.clone(),
            owner_references: pod.metadata.owner_references.clone(),
            containers: Vec::new(),
            anti_affinity: anti_affinity_terms(pod).map(|terms| terms.clone()),
        });
        pod.metadata.labels.share(&earlier.labels);
        pod.metadata.owner_references.share(&earlier.owner_references);
        match earlier.containers.iter().find(|known| ***known == *pod.spec.containers) {
            Some(known) => pod.spec.containers.share(known),
            None if earlier.containers.len() < MOST_VARIANTS => earlier.containers.push(pod.spec.containers.clone()),
            None => {}
        }
        if let (Some(terms), Some(earlier)) = (anti_affinity_terms(pod), &earlier.anti_affinity) {
            terms.share(earlier);
        }
    }
}

fn anti_affinity_terms(pod: &mut Pod) -> Option<&mut Shared<Vec<PodAffinityTerm>>> {
    let anti = pod.spec.affinity.as_mut()?.pod_anti_affinity.as_mut()?;
    Some(&mut anti.required_during_scheduling_ignored_during_execution)
}

/// The labels of nodes that field managers own, by their keys: most nodes have the same.
#[derive(Debug, Default)]
pub(super) struct SharedKeys(BTreeMap<Vec<String>, Shared<Vec<String>>>);

impl SharedKeys {
    /// Lets the record of a node's managers share the keys with an earlier node.
    pub(super) fn share(&mut self, node: &mut WrittenNode) {
        for labels in node.written.iter_mut().flatten().map(|written| &mut written.labels) {
            match self.0.get(&**labels) {
                Some(known) => labels.share(known),
                None => drop(self.0.insert(labels.to_vec(), labels.clone())),
            }
        }
    }
}

/// Tells whether a pod uses resources of a node, or will.
pub(super) fn takes_room(pod: &Pod) -> bool {
    let is_bound = !pod.spec.node_name.is_empty() || !pod.status.nominated_node_name.is_empty();
    is_bound && !pod.is_terminal()
}

/// Drops the fields of a foreign pod, except those needed to compute the free resources of its node and preemption
/// there, to tell whether it is ready, and to tell what blocks its deletion.
pub(super) fn foreign_pod(mut pod: Pod) -> Pod {
    drop_equal_allocations(&mut pod);
    drop_unfiltered_volumes(&mut pod);
    let Pod { metadata, spec, mut status } = pod;
    let is_terminating = metadata.deletion_timestamp.get().is_some();
    let metadata = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        labels: metadata.labels,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        finalizers: if is_terminating { metadata.finalizers } else { Default::default() },
        owner_references: metadata.owner_references.into_inner().into_iter().filter(|owner| owner.controller).collect(),
        ..ObjectMeta::default()
    };
    for status in status.container_statuses.iter_mut().chain(&mut status.init_container_statuses) {
        status.image_id = String::new();
        status.state = Default::default();
        status.last_state = Default::default();
    }
    // An in-place resize is reported in conditions. A pod counts as ready unless its condition says otherwise.
    status.conditions.retain(|one| {
        one.type_.starts_with("PodResize")
            || (one.type_ == "Ready" && one.status != "True")
            || (one.type_ == "DisruptionTarget" && is_terminating)
    });
    let status = PodStatus {
        phase: status.phase,
        conditions: status.conditions,
        start_time: status.start_time,
        container_statuses: status.container_statuses,
        init_container_statuses: status.init_container_statuses,
        nominated_node_name: status.nominated_node_name,
        resize: status.resize,
        allocated_resources: status.allocated_resources,
        resources: status.resources,
        ..PodStatus::default()
    };
    let spec = PodSpec {
        volumes: spec.volumes,
        containers: spec.containers.into_inner().into_iter().map(foreign_container).collect(),
        init_containers: spec.init_containers.into_iter().map(foreign_container).collect(),
        node_name: spec.node_name,
        host_network: spec.host_network,
        priority: spec.priority,
        priority_class_name: spec.priority_class_name,
        overhead: spec.overhead,
        resources: spec.resources,
        affinity: spec.affinity.and_then(anti_affinity),
        ..PodSpec::default()
    };
    shrunk(Pod { metadata, spec, status })
}

/// Returns what of the affinity of a pod that has a place keeps others away.
fn anti_affinity(affinity: Affinity) -> Option<Affinity> {
    let required = |anti: &PodAffinity| !anti.required_during_scheduling_ignored_during_execution.is_empty();
    let anti = affinity.pod_anti_affinity.filter(required)?;
    Some(Affinity { pod_anti_affinity: Some(anti), ..Affinity::default() })
}

fn foreign_container(container: Container) -> Container {
    let Container { name, ports, resources, restart_policy, .. } = container;
    Container {
        name,
        ports: ports.into_iter().filter(|port| port.host_port != 0).collect(),
        // The API server has defaulted requests to limits.
        resources: ResourceRequirements { requests: resources.requests, ..ResourceRequirements::default() },
        restart_policy,
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{fine_pod, foreign_pod};
    use crate::model::pod::{Pod, PodStatus};

    #[test]
    fn what_is_allocated_to_containers_stays_while_a_resize_is_pending() {
        let names = |status: &PodStatus| -> Vec<String> {
            let statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
            statuses.map(|status| status.name.clone()).collect()
        };
        for (condition, kept) in [("PodResizePending", vec!["app", "proxy"]), ("PodResizeInProgress", vec!["proxy"])] {
            let pod: Pod = from_value(json!({
                "spec": {
                    "nodeName": "a",
                    "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
                    "initContainers": [
                        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100"}}},
                    ],
                },
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": condition, "status": "True", "reason": "Infeasible"}],
                    "containerStatuses": [{"name": "app", "ready": true, "allocatedResources": {"cpu": "1"}}],
                    "initContainerStatuses": [{"name": "proxy", "ready": true, "allocatedResources": {"cpu": "100m"}}],
                },
            }))
            .unwrap();
            assert_eq!(names(&fine_pod(pod.clone()).status), kept, "{condition}");
            assert_eq!(names(&foreign_pod(pod).status), kept, "{condition}");
        }
    }
}
