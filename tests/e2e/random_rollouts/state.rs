//! The objects of a rollout after each recorded change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kubectl_ds::model::controller_revision::ControllerRevision;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::node::{Node, NodeSpec};
use kubectl_ds::model::pod::Pod;
use kubectl_ds::model::snapshot::{PodsComplete, Snapshot};
use kubectl_ds::report::rollout_status::RolloutStatus;
use kubectl_ds::rollout::status::rollout_status;
use kubectl_ds::scheduling::daemon_pods::{is_available, target_node};

use super::recorder::{Change, Object};

/// The objects of a rollout at one resource version.
#[derive(Clone)]
pub struct State {
    pub pods: BTreeMap<String, Arc<Change>>,
    pub nodes: Arc<BTreeMap<String, Arc<Change>>>,
    pub revisions: Arc<BTreeMap<String, Arc<Change>>>,
    daemon_set: Option<Arc<Change>>,
}

impl State {
    fn empty() -> Self {
        State { pods: BTreeMap::new(), nodes: Arc::default(), revisions: Arc::default(), daemon_set: None }
    }

    fn apply(&mut self, change: &Arc<Change>) {
        let put = |map: &mut BTreeMap<String, Arc<Change>>| {
            if change.is_deleted {
                map.remove(&change.name);
            } else {
                map.insert(change.name.clone(), change.clone());
            }
        };
        match &change.object {
            Object::Pod(_) => put(&mut self.pods),
            Object::Node(_) => put(Arc::make_mut(&mut self.nodes)),
            Object::Revision(_) => put(Arc::make_mut(&mut self.revisions)),
            Object::DaemonSet(_) => self.daemon_set = (!change.is_deleted).then(|| change.clone()),
        }
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter_map(|change| match &change.object {
            Object::Pod(pod) => Some(pod.as_ref()),
            _ => None,
        })
    }

    pub fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods().find(|pod| pod.metadata.name == name)
    }

    /// Returns whether a pod of the current revision has failed on a node.
    pub fn has_failed_on(&self, node: &str) -> bool {
        let newest = self.revisions().max_by_key(|revision| revision.revision).map(ControllerRevision::hash);
        self.pods().any(|pod| {
            let hash = pod.metadata.labels.get("controller-revision-hash").map(String::as_str);
            target_node(pod) == Some(node) && pod.status.phase == "Failed" && hash == newest
        })
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter_map(|change| match &change.object {
            Object::Node(node) => Some(node.as_ref()),
            _ => None,
        })
    }

    /// Returns whether the nodes are the same but for what the controller does not look at, as after a heartbeat.
    pub fn has_same_nodes(&self, other: &State) -> bool {
        fn seen(state: &State) -> impl Iterator<Item = (&str, &NodeSpec, Option<&str>)> {
            state.nodes().map(|node| {
                let ready = node.condition("Ready").map(|ready| ready.status.as_str());
                (node.metadata.name.as_str(), &node.spec, ready)
            })
        }
        seen(self).eq(seen(other))
    }

    /// Returns whether a node exists and is eligible.
    pub fn is_eligible(&self, name: &str) -> bool {
        self.nodes().any(|node| node.metadata.name == name && is_eligible(node))
    }

    pub fn revisions(&self) -> impl Iterator<Item = &ControllerRevision> {
        self.revisions.values().filter_map(|change| match &change.object {
            Object::Revision(revision) => Some(revision.as_ref()),
            _ => None,
        })
    }

    /// Returns the resource versions of the pods, the nodes and the DaemonSet.
    pub fn versions(&self) -> BTreeSet<u64> {
        let objects = self.pods.values().chain(self.nodes.values()).chain(&self.daemon_set);
        objects.map(|change| change.version).collect()
    }

    pub fn daemon_set(&self) -> Option<&DaemonSet> {
        match &self.daemon_set.as_ref()?.object {
            Object::DaemonSet(daemon_set) => Some(daemon_set.as_ref()),
            _ => None,
        }
    }

    /// Returns the states after each of the changes.
    pub fn all(changes: &[Arc<Change>]) -> Vec<State> {
        let mut state = State::empty();
        changes
            .iter()
            .map(|change| {
                state.apply(change);
                state.clone()
            })
            .collect()
    }

    /// Returns the state after all changes.
    pub fn last(changes: &[Arc<Change>]) -> State {
        let mut state = State::empty();
        changes.iter().for_each(|change| state.apply(change));
        state
    }

    /// Returns what `status` says of this state.
    pub fn status(&self, now: Timestamp) -> Option<RolloutStatus> {
        self.status_with(self, self, now)
    }

    /// Returns what `status` says of the pods of this state, with the nodes and the DaemonSet of others.
    pub fn status_with(&self, nodes: &State, config: &State, now: Timestamp) -> Option<RolloutStatus> {
        let snapshot = Snapshot {
            daemon_sets: vec![config.daemon_set()?.clone()],
            controller_revisions: config.revisions().cloned().collect(),
            nodes: nodes.nodes().cloned().collect(),
            pods: self.pods().cloned().collect(),
            pods_complete: PodsComplete::Everywhere,
            ..Snapshot::empty(now)
        };
        rollout_status(&snapshot, None).daemon_sets.pop()
    }

    /// Returns whether the rollout is complete, without the library's rules.
    pub fn is_complete(&self, now: Timestamp) -> bool {
        let daemon_set = self.daemon_set().unwrap();
        let observed = daemon_set.status.observed_generation == daemon_set.metadata.generation;
        observed && self.missing(now).is_empty()
    }

    /// Returns whether a pod is one of the newest revision.
    pub fn is_new(&self, pod: &Pod) -> bool {
        let newest = self.revisions().max_by_key(|revision| revision.revision).map(ControllerRevision::hash);
        pod.metadata.labels.get("controller-revision-hash").map(String::as_str) == newest
    }

    /// Returns the nodes that keep the rollout from being complete, with their pods, without the library's rules.
    pub fn missing(&self, now: Timestamp) -> Vec<(&Node, Vec<&Pod>)> {
        let min_ready = self.daemon_set().map_or(0, |daemon_set| daemon_set.spec.min_ready_seconds);
        let mut on_nodes: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        // As `getNodesToDaemonPods` of the controller leaves out terminal pods that are being deleted.
        let is_over =
            |pod: &&Pod| pod.metadata.is_terminating() && matches!(pod.status.phase.as_str(), "Failed" | "Succeeded");
        for pod in self.pods().filter(|pod| !is_over(pod)) {
            on_nodes.entry(target_node(pod).unwrap_or_default()).or_default().push(pod);
        }
        let of_node = self.nodes().map(|node| (node, on_nodes.remove(node.metadata.name.as_str()).unwrap_or_default()));
        let is_missing = |(node, pods): &(&Node, Vec<&Pod>)| match pods.as_slice() {
            [pod] if is_eligible(node) => {
                !self.is_new(pod) || !is_available(pod, min_ready, now) || pod.metadata.is_terminating()
            }
            pods => is_eligible(node) || pods.iter().any(|pod| !self.is_new(pod) && !pod.metadata.is_terminating()),
        };
        of_node.filter(is_missing).collect()
    }
}

/// Returns whether daemon pods tolerate the taints of a node.
pub fn is_eligible(node: &Node) -> bool {
    node.spec.taints.iter().all(|taint| match taint.key.strip_prefix("node.kubernetes.io/") {
        Some("not-ready" | "unreachable") => taint.effect == "NoExecute",
        key => key.is_some(),
    })
}
