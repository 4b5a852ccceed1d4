//! Decides which of the nodes, pods, revisions and events that arrive are kept, and how much of them.
//!
//! A big cluster has 5,000 nodes and several pods on each, nearly all of which are fine: what they do
//! not say weighs more than what they do. Lists also arrive with room to grow in, which is given back.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use crate::model::selector::LabelSelector;

/// The longest beginning of a name that the API server puts random letters behind.
///
/// `maxGeneratedNameLength` of k8s.io/apiserver/pkg/storage/names/generate.go, release 1.36.
const LONGEST_GENERATED_START: usize = 58;

/// The conditions that say of a ready pod only how it came so far.
const STEPS: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"];

/// Which pods besides the DaemonSets' own are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignPods {
    /// None of them.
    Drop,
    /// Those that take room on a node, and of them no more than arithmetic needs.
    ForArithmetic,
    /// All of them, whole.
    Whole,
}

/// The DaemonSets that were asked for, as far as it takes to know what is theirs.
#[derive(Debug, Default)]
pub(super) struct DaemonSetMatcher {
    /// Whether their pods are kept whole even where they are fine.
    whole: bool,
    uids: BTreeSet<String>,
    by_namespace: BTreeMap<String, Vec<(String, LabelSelector)>>,
}

impl DaemonSetMatcher {
    /// Remembers what it takes; `whole` tells whether pods that are fine are kept whole, too.
    pub(super) fn new(daemon_sets: &[&DaemonSet], whole: bool) -> Self {
        let mut matcher = DaemonSetMatcher { whole, ..DaemonSetMatcher::default() };
        for DaemonSet { metadata, spec, .. } in daemon_sets {
            matcher.uids.insert(metadata.uid.clone());
            let namespace = matcher.by_namespace.entry(metadata.namespace.clone()).or_default();
            namespace.push((metadata.name.clone(), spec.selector.clone()));
        }
        matcher
    }

    /// Returns the namespaces of the DaemonSets.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.by_namespace.keys()
    }

    /// Tells whether a pod is one of the DaemonSets', or could be adopted by one.
    fn may_own(&self, pod: &ObjectMeta) -> bool {
        match pod.controller() {
            Some(controller) => self.uids.contains(&controller.uid),
            None => self.select(pod),
        }
    }

    /// Tells whether a DaemonSet's selector matches an object, whosever it is.
    fn select(&self, object: &ObjectMeta) -> bool {
        let namespace = self.by_namespace.get(&object.namespace);
        namespace.into_iter().flatten().any(|(_, selector)| selector.matches(&object.labels))
    }

    /// Returns what is kept of a pod, nothing where it is of no use.
    pub(super) fn keep_pod(&self, pod: Pod, foreign: ForeignPods) -> Option<Pod> {
        if foreign == ForeignPods::Whole {
            return Some(pod);
        }
        if self.may_own(&pod.metadata) {
            return Some(if self.whole || !is_fine(&pod) { pod } else { fine_pod(pod) });
        }
        let takes_room = !pod.spec.node_name.is_empty() || !pod.status.nominated_node_name.is_empty();
        (foreign == ForeignPods::ForArithmetic && takes_room && !pod.is_terminal()).then(|| other_pod(pod))
    }

    /// Tells whether a revision is one of the DaemonSets', or could be adopted by one. Whoever wants everything is also
    /// told of those that are somebody else's and that a selector matches.
    pub(super) fn keeps_revision(&self, revision: &ControllerRevision) -> bool {
        let metadata = &revision.metadata;
        match metadata.controller() {
            Some(controller) => self.uids.contains(&controller.uid) || (self.whole && self.select(metadata)),
            None => self.by_namespace.contains_key(&metadata.namespace),
        }
    }

    /// Tells whether an event is about one of the DaemonSets, or a pod with a name of theirs.
    pub(super) fn concerns(&self, event: &Event) -> bool {
        let object = &event.involved_object;
        let Some(daemon_sets) = self.by_namespace.get(&object.namespace) else { return false };
        match object.kind.as_str() {
            "DaemonSet" => daemon_sets.iter().any(|(name, _)| *name == object.name),
            "Pod" => daemon_sets.iter().any(|(name, _)| is_generated_from(&object.name, name)),
            _ => false,
        }
    }
}

/// Tells whether a pod's name was made from a DaemonSet's.
fn is_generated_from(pod: &str, daemon_set: &str) -> bool {
    let start = format!("{daemon_set}-");
    pod.starts_with(start.get(..LONGEST_GENERATED_START).unwrap_or(&start))
}

/// Returns what is kept of a node: conditions that are as they should be say nothing.
pub(super) fn keep_node(mut node: Node, whole: bool) -> Node {
    if !whole {
        node.status.conditions.retain(|condition| condition.type_ == "Ready" || condition.status != "False");
    }
    node.status.conditions.shrink_to_fit();
    node.spec.taints.shrink_to_fit();
    node.status.declared_features.shrink_to_fit();
    node
}

/// Tells whether there is nothing to explain about a pod: it is bound, ready, and never failed.
fn is_fine(pod: &Pod) -> bool {
    let PodStatus { phase, container_statuses, init_container_statuses, .. } = &pod.status;
    let statuses = || container_statuses.iter().chain(init_container_statuses);
    phase == "Running"
        && pod.is_ready()
        && !pod.metadata.is_terminating()
        && !pod.spec.node_name.is_empty()
        && container_statuses.iter().all(|status| status.ready)
        && statuses().all(|status| status.restart_count == 0)
}

/// Drops what says nothing in a DaemonSet's own pod that is fine.
fn fine_pod(mut pod: Pod) -> Pod {
    // A bound pod was accepted by its node: what it asked of nodes is history.
    pod.spec.affinity = None;
    pod.spec.node_selector = BTreeMap::new();
    pod.spec.tolerations = Vec::new();
    pod.spec.scheduler_name = String::new();
    pod.spec.service_account_name = String::new();
    // Their containers are ready and were never restarted; what the node has set aside for them
    // counts only where it is not what they ask for.
    for (containers, statuses) in [
        (&pod.spec.containers, &mut pod.status.container_statuses),
        (&pod.spec.init_containers, &mut pod.status.init_container_statuses),
    ] {
        if statuses.iter().all(|status| has_what_it_asks_for(status, containers)) {
            *statuses = Vec::new();
        }
    }
    for container in pod.spec.containers.iter_mut().chain(&mut pod.spec.init_containers) {
        // Limits are told beside a failure, and the API server has made requests of them.
        container.resources.limits = BTreeMap::new();
        container.ports.retain(|port| port.host_port != 0);
    }
    pod.status.conditions.retain(|condition| condition.status != "True" || !STEPS.contains(&condition.type_.as_str()));
    without_room_to_grow(pod)
}

/// Tells whether a node has set aside for a container just what it asks for, or does not say.
fn has_what_it_asks_for(status: &ContainerStatus, containers: &[Container]) -> bool {
    let container = containers.iter().find(|container| container.name == status.name);
    let asked = container.map(|container| &container.resources.requests);
    (status.allocated_resources.is_empty() || Some(&status.allocated_resources) == asked)
        && status.resources.as_ref().is_none_or(|resources| Some(&resources.requests) == asked)
}

/// Gives back the room that lists were made with to grow in: four items at least.
fn without_room_to_grow(mut pod: Pod) -> Pod {
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

/// Drops what arithmetic on its node does not need of another's pod.
fn other_pod(pod: Pod) -> Pod {
    let Pod { metadata, spec, status } = pod;
    let ObjectMeta { name, namespace, uid, owner_references, deletion_timestamp, creation_timestamp, .. } = metadata;
    let metadata = ObjectMeta {
        name,
        namespace,
        uid,
        creation_timestamp,
        deletion_timestamp,
        owner_references: owner_references.into_iter().filter(|owner| owner.controller).collect(),
        ..ObjectMeta::default()
    };
    let PodStatus {
        phase,
        conditions,
        mut container_statuses,
        mut init_container_statuses,
        nominated_node_name,
        resize,
        allocated_resources,
        resources,
        ..
    } = status;
    for (containers, statuses) in
        [(&spec.containers, &mut container_statuses), (&spec.init_containers, &mut init_container_statuses)]
    {
        if statuses.iter().all(|status| has_what_it_asks_for(status, containers)) {
            *statuses = Vec::new();
        }
        for status in statuses {
            status.state = Default::default();
            status.last_state = Default::default();
        }
    }
    let status = PodStatus {
        phase,
        // A change of resources in place is told by conditions.
        conditions: conditions.into_iter().filter(|condition| condition.type_.starts_with("PodResize")).collect(),
        container_statuses,
        init_container_statuses,
        nominated_node_name,
        resize,
        allocated_resources,
        resources,
        ..PodStatus::default()
    };
    let PodSpec { containers, init_containers, node_name, host_network, priority, overhead, resources, .. } = spec;
    let spec = PodSpec {
        containers: containers.into_iter().map(other_container).collect(),
        init_containers: init_containers.into_iter().map(other_container).collect(),
        node_name,
        host_network,
        priority,
        overhead,
        resources,
        ..PodSpec::default()
    };
    without_room_to_grow(Pod { metadata, spec, status })
}

fn other_container(container: Container) -> Container {
    let Container { name, ports, resources, restart_policy, .. } = container;
    Container {
        name,
        ports: ports.into_iter().filter(|port| port.host_port != 0).collect(),
        // The API server has made requests of limits already.
        resources: ResourceRequirements { requests: resources.requests, ..ResourceRequirements::default() },
        restart_policy,
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{DaemonSetMatcher, ForeignPods};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::event::Event;
    use crate::model::pod::Pod;
    use crate::model::quantity::Quantity;

    fn matcher() -> DaemonSetMatcher {
        let daemon_set = DaemonSet::from_object(json!({
            "metadata": {"name": "agent", "namespace": "team", "uid": "u1"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}},
        }));
        DaemonSetMatcher::new(&[&daemon_set.unwrap()], false)
    }

    fn pod(metadata: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"hostPort": 9100}],
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "PodResizePending"}]},
        }))
        .unwrap()
    }

    #[test]
    fn own_and_adoptable_pods_that_are_not_fine_stay_whole() {
        for metadata in [
            json!({"name": "a", "namespace": "team", "ownerReferences": [{"uid": "u1", "controller": true}]}),
            json!({"name": "b", "namespace": "team", "labels": {"app": "agent"}}),
        ] {
            let pod = pod(metadata);
            assert_eq!(matcher().keep_pod(pod.clone(), ForeignPods::Drop), Some(pod));
        }
    }

    #[test]
    fn pods_that_are_fine_keep_what_counts() {
        let fine = |restarts: i32| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "a", "namespace": "team", "labels": {"app": "agent"}},
                "spec": {
                    "nodeName": "n1",
                    "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {"a": "b"},
                    "containers": [{"name": "c", "image": "i",
                        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
                },
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"},
                        {"type": "DisruptionTarget", "status": "True"}],
                    "containerStatuses": [{"name": "c", "ready": true, "restartCount": restarts}],
                },
            }))
            .unwrap()
        };
        let kept = matcher().keep_pod(fine(0), ForeignPods::Drop).unwrap();
        assert_eq!((kept.spec.tolerations.len(), kept.spec.node_selector.len()), (0, 0));
        assert_eq!((kept.metadata.labels.len(), kept.spec.containers[0].resources.requests.len()), (1, 1));
        let conditions: Vec<&str> = kept.status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(conditions, ["Ready", "DisruptionTarget"]);
        assert_eq!(kept.status.container_statuses, []);
        let mut resized = fine(0);
        resized.status.container_statuses[0].allocated_resources.insert("cpu".to_owned(), Quantity::new("3"));
        let kept = matcher().keep_pod(resized.clone(), ForeignPods::Drop).unwrap();
        assert_eq!(kept.status.container_statuses, resized.status.container_statuses);
        assert_eq!(matcher().keep_pod(fine(1), ForeignPods::Drop), Some(fine(1)), "it has a story");
        let whole = DaemonSetMatcher { whole: true, ..matcher() };
        assert_eq!(whole.keep_pod(fine(0), ForeignPods::Drop), Some(fine(0)));
    }

    #[test]
    fn others_pods_keep_what_arithmetic_needs_and_no_more() {
        for metadata in [
            json!({"name": "a", "namespace": "team", "labels": {"app": "agent"},
                "ownerReferences": [{"uid": "u2", "name": "web", "controller": true}, {"uid": "u3"}]}),
            json!({"name": "b", "namespace": "other", "labels": {"app": "agent"}}),
        ] {
            let pod = pod(metadata);
            assert_eq!(matcher().keep_pod(pod.clone(), ForeignPods::Drop), None);
            assert_eq!(matcher().keep_pod(pod.clone(), ForeignPods::Whole), Some(pod.clone()));
            let kept = matcher().keep_pod(pod.clone(), ForeignPods::ForArithmetic).unwrap();
            assert_eq!((&kept.metadata.name, kept.metadata.labels.len()), (&pod.metadata.name, 0));
            assert_eq!(kept.metadata.controller(), pod.metadata.controller());
            let container = &kept.spec.containers[0];
            assert_eq!((container.ports.len(), container.ports[0].host_port), (1, 9100));
            assert_eq!((container.resources.requests.len(), container.resources.limits.len()), (1, 0));
            assert_eq!(kept.status.conditions.len(), 1);
        }
    }

    #[test]
    fn others_pods_that_take_no_room_are_dropped() {
        let mut ended = pod(json!({"name": "a", "namespace": "team"}));
        ended.status.phase = "Succeeded".to_owned();
        assert_eq!(matcher().keep_pod(ended, ForeignPods::ForArithmetic), None);
        let mut unbound = pod(json!({"name": "a", "namespace": "team"}));
        unbound.spec.node_name.clear();
        assert_eq!(matcher().keep_pod(unbound, ForeignPods::ForArithmetic), None);
    }

    #[test]
    fn events_are_kept_by_the_name_of_what_they_are_about() {
        for (kind, namespace, name, kept) in [
            ("DaemonSet", "team", "agent", true),
            ("DaemonSet", "team", "other", false),
            ("Pod", "team", "agent-x7k2p", true),
            ("Pod", "team", "agenta-x7k2p", false),
            ("Pod", "other", "agent-x7k2p", false),
            ("Node", "team", "agent", false),
        ] {
            let event: Event = serde_json::from_value(json!({
                "involvedObject": {"kind": kind, "namespace": namespace, "name": name},
            }))
            .unwrap();
            assert_eq!(matcher().concerns(&event), kept, "{kind} {namespace}/{name}");
        }
        assert!(super::is_generated_from(&format!("{}x7k2p", "a".repeat(58)), &"a".repeat(63)));
    }
}
