//! Decides which of the arriving nodes, pods, revisions and events are kept, and how much of each.
//!
//! A big cluster has 5,000 nodes with several pods each, nearly all healthy: most fields of a healthy pod are never
//! used. Vectors are also shrunk to fit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::needs::{Cluster, Events, Needs};
use crate::cluster::projection::{SharedParts, drop_unfiltered_volumes, foreign_pod, own_pod, takes_room};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::{ObjectMeta, generated_suffix};
use crate::model::pod::Pod;
use crate::model::selector::LabelSelector;

/// Which pods besides the DaemonSets' own are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignPods {
    /// None of them.
    Drop,
    /// Those that use resources of a node, with only the fields needed for arithmetic.
    ForArithmetic,
    /// All of them, whole.
    Whole,
}

/// The requested DaemonSets, with what is needed to recognize their objects.
#[derive(Debug, Default)]
pub(super) struct DaemonSetMatcher {
    /// Whether their pods are kept whole even if they are healthy.
    whole: bool,
    /// Whether revisions of other owners that match the selector are kept.
    pub(super) any_owner: bool,
    uids: BTreeSet<String>,
    by_namespace: BTreeMap<String, Vec<(String, LabelSelector)>>,
    shared: RefCell<SharedParts>,
}

impl DaemonSetMatcher {
    /// Collects the needed fields; `whole` tells whether healthy pods are kept whole, too.
    pub(super) fn new(daemon_sets: &[&DaemonSet], whole: bool) -> Self {
        let mut matcher = DaemonSetMatcher { whole, any_owner: whole, ..DaemonSetMatcher::default() };
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

    /// Tells whether a pod belongs to one of the DaemonSets, or could be adopted by one.
    fn may_own(&self, pod: &ObjectMeta) -> bool {
        if let Some(controller) = pod.controller() { self.uids.contains(&controller.uid) } else { self.select(pod) }
    }

    /// Returns whether a DaemonSet's selector matches an object, regardless of its owner.
    fn select(&self, object: &ObjectMeta) -> bool {
        let namespace = self.by_namespace.get(&object.namespace);
        namespace.into_iter().flatten().any(|(_, selector)| selector.matches(&object.labels))
    }

    /// Returns the part of a pod that is kept; `None` if none is.
    pub(super) fn keep_pod(&self, mut pod: Pod, foreign: ForeignPods) -> Option<Pod> {
        let mut kept = match foreign {
            ForeignPods::Whole => {
                drop_unfiltered_volumes(&mut pod);
                pod
            }
            _ if self.may_own(&pod.metadata) => own_pod(pod, self.whole),
            ForeignPods::ForArithmetic if takes_room(&pod) => foreign_pod(pod),
            ForeignPods::ForArithmetic | ForeignPods::Drop => return None,
        };
        self.shared.borrow_mut().share(&mut kept);
        Some(kept)
    }

    /// Tells whether a revision belongs to one of the DaemonSets, or could be adopted by one.
    pub(super) fn keeps_revision(&self, revision: &ControllerRevision) -> bool {
        let metadata = &revision.metadata;
        match metadata.controller() {
            Some(controller) => self.uids.contains(&controller.uid) || (self.any_owner && self.select(metadata)),
            None => self.by_namespace.contains_key(&metadata.namespace),
        }
    }

    /// Returns whether an event is kept.
    pub(super) fn keeps_event(&self, needs: &Needs, of: &Events, event: &Event) -> bool {
        match of.about {
            "" => true,
            "Node" => needs.cluster != Cluster::Writes || event.is_removal_of_node(),
            _ => self.concerns(event),
        }
    }

    /// Tells whether an event is about one of the DaemonSets, or a pod with a name generated from theirs.
    fn concerns(&self, event: &Event) -> bool {
        let object = &event.involved_object;
        let Some(daemon_sets) = self.by_namespace.get(&object.namespace) else { return false };
        match object.kind.as_str() {
            "DaemonSet" => daemon_sets.iter().any(|(name, _)| *name == object.name),
            "Pod" => daemon_sets.iter().any(|(name, _)| generated_suffix(&object.name, name).is_some()),
            _ => false,
        }
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
                    "containerStatuses": [{"name": "c", "ready": true, "restartCount": restarts, "imageID": "i@sha256:a"}],
                },
            }))
            .unwrap()
        };
        let kept = matcher().keep_pod(fine(0), ForeignPods::Drop).unwrap();
        assert_eq!((kept.spec.tolerations.len(), kept.spec.node_selector.len()), (0, 0));
        assert_eq!((kept.metadata.labels.len(), kept.spec.containers[0].resources.requests.len()), (1, 1));
        let conditions: Vec<&str> = kept.status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(conditions, ["Ready", "DisruptionTarget"]);
        assert_eq!((kept.status.container_statuses.len(), kept.image_id("c")), (0, Some("i@sha256:a")));
        let mut resized = fine(0);
        resized.status.container_statuses[0].allocated_resources.insert("cpu".to_owned(), Quantity::new("3"));
        let kept = matcher().keep_pod(resized.clone(), ForeignPods::Drop).unwrap();
        assert_eq!(kept.status.container_statuses, resized.status.container_statuses);
        assert_eq!(matcher().keep_pod(fine(1), ForeignPods::Drop), Some(fine(1)), "it has a story");
        let whole = DaemonSetMatcher { whole: true, ..matcher() };
        assert_eq!(whole.keep_pod(fine(0), ForeignPods::Drop), Some(fine(0)));
    }

    #[test]
    fn others_pods_keep_what_arithmetic_needs_and_that_they_are_not_ready() {
        for metadata in [
            json!({"name": "a", "namespace": "team", "labels": {"app": "agent"},
                "ownerReferences": [{"uid": "u2", "name": "web", "controller": true}, {"uid": "u3"}]}),
            json!({"name": "b", "namespace": "other", "labels": {"app": "agent"}}),
        ] {
            let pod = pod(metadata);
            assert_eq!(matcher().keep_pod(pod.clone(), ForeignPods::Drop), None);
            assert_eq!(matcher().keep_pod(pod.clone(), ForeignPods::Whole), Some(pod.clone()));
            let kept = matcher().keep_pod(pod.clone(), ForeignPods::ForArithmetic).unwrap();
            assert_eq!((&kept.metadata.name, &kept.metadata.labels), (&pod.metadata.name, &pod.metadata.labels));
            assert_eq!(kept.metadata.controller(), pod.metadata.controller());
            let container = &kept.spec.containers[0];
            assert_eq!((container.ports.len(), container.ports[0].host_port), (1, 9100));
            assert_eq!((container.resources.requests.len(), container.resources.limits.len()), (1, 0));
            let conditions = |pod: Pod| pod.status.conditions.len();
            assert_eq!((conditions(kept), pod.is_ready()), (2, false));
            let mut ready = pod;
            ready.status.conditions.iter_mut().for_each(|condition| "True".clone_into(&mut condition.status));
            let kept = matcher().keep_pod(ready, ForeignPods::ForArithmetic).unwrap();
            assert_eq!((conditions(kept.clone()), kept.is_ready()), (1, false));
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
        assert!(super::generated_suffix(&format!("{}x7k2p", "a".repeat(58)), &"a".repeat(63)).is_some());
    }
}
