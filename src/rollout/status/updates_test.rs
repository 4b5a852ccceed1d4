//! The sequences of pkg/controller/daemon/update_test.go, release 1.37.2, with upstream's names: how many pods each
//! sync creates and deletes. Upstream's syncs observe their own creations and deletions immediately, so one sync covers
//! both the controller's other work and the rolling update after it.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::rollout::situation::next_step::{NextStep, next_step};
use crate::rollout::situation::simulation::changes;
use crate::scheduling::daemon_pods::{NodePods, target_node};
use crate::scheduling::should_run::DaemonPod;

struct Cluster {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    strategy: Value,
    min_ready_seconds: i64,
    tolerations: Value,
    /// The number of the current template.
    template: usize,
    created: usize,
    /// In seconds since the epoch.
    now: i64,
}

fn unavailable(number: usize) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": number}})
}

fn surge(number: usize) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": number}})
}

impl Cluster {
    /// A new DaemonSet on this many nodes, whose pods are not created yet.
    fn new(nodes: usize) -> Self {
        let node = |number| Node::deserialize(json!({"metadata": {"name": format!("node-{number}")}})).unwrap();
        Cluster {
            nodes: (0..nodes).map(node).collect(),
            pods: Vec::new(),
            strategy: json!({"type": "OnDelete"}),
            min_ready_seconds: 0,
            tolerations: json!([]),
            template: 1,
            created: 0,
            now: 0,
        }
    }

    /// The same with its pods, which are ready.
    fn running(nodes: usize) -> Self {
        let mut cluster = Cluster::new(nodes);
        cluster.sync(nodes, 0);
        cluster.mark_pods_ready();
        cluster
    }

    fn hash(&self) -> String {
        format!("hash-{}", self.template)
    }

    fn is_current(&self, pod: &Pod) -> bool {
        pod.revision_hash() == self.hash()
    }

    fn update(&mut self, strategy: Value) {
        self.template += 1;
        self.strategy = strategy;
    }

    fn mark_pods_ready(&mut self) {
        let all = self.pods.iter().filter(|pod| !pod.is_ready()).count();
        self.set_ready(true, all, |_| true);
    }

    /// Changes the readiness of some pods.
    fn set_ready(&mut self, ready: bool, number: usize, which: impl Fn(&Pod) -> bool) {
        let mut left = number;
        for pod in self.pods.iter_mut().filter(|pod| pod.is_ready() != ready && which(pod)).take(number) {
            let since = Timestamp::from_second(self.now).unwrap().to_string();
            let condition =
                json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": since});
            pod.status.conditions = vec![Deserialize::deserialize(condition).unwrap()];
            left -= 1;
        }
        assert_eq!(left, 0, "too few pods to make them ready={ready}");
    }

    /// Syncs the controller once, and checks how many pods it creates and deletes.
    fn sync(&mut self, creates: usize, deletes: usize) {
        let first = self.step();
        let second = if first.2 { (0, 0, true) } else { self.step() };
        assert_eq!((first.0 + second.0, first.1 + second.1), (creates, deletes), "template {}", self.template);
        assert!(second.2, "nothing remains to do besides the rolling update");
    }

    fn sync_at(&mut self, now: i64, creates: usize, deletes: usize) {
        self.now = now;
        self.sync(creates, deletes);
    }

    /// Applies the next step; returns how many pods it created and deleted, and whether it reached the rolling update.
    fn step(&mut self) -> (usize, usize, bool) {
        let daemon_set = DaemonSet::from_object(json!({
            "metadata": {"name": "foo", "namespace": "default", "uid": "foo-uid"},
            "spec": {"updateStrategy": self.strategy, "minReadySeconds": self.min_ready_seconds,
                "template": {"spec": {"tolerations": self.tolerations}}},
        }))
        .unwrap();
        let daemon_pod = DaemonPod::new(&daemon_set.spec.template);
        let on_node = |node: &str| self.pods.iter().filter(|pod| target_node(pod) == Some(node)).collect();
        let nodes: Vec<NodePods<'_>> = self
            .nodes
            .iter()
            .map(|node| NodePods {
                node: &node.metadata.name,
                decision: Some(daemon_pod.decide(node)),
                pods: on_node(&node.metadata.name),
                selected: true,
            })
            .collect();
        let step: NextStep<'_> =
            next_step(&daemon_set, &self.hash(), &nodes, Timestamp::from_second(self.now).unwrap());
        let reaches_update = step.reaches_update();
        let (create, delete) = changes(&step);
        self.pods.retain(|pod| !delete.contains(&pod.metadata.uid));
        for node in &create {
            self.created += 1;
            let pod = json!({
                "metadata": {"name": format!("foo-{}", self.created), "uid": format!("uid-{}", self.created),
                    "creationTimestamp": Timestamp::from_second(self.now).unwrap().to_string(),
                    "labels": {"controller-revision-hash": self.hash()}},
                "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}},
            });
            self.pods.push(Pod::deserialize(pod).unwrap());
        }
        (create.len(), delete.len(), reaches_update)
    }
}

#[test]
fn daemon_set_updates_pods() {
    let mut cluster = Cluster::running(5);
    cluster.update(unavailable(2));
    for pods in [2, 2, 1] {
        cluster.sync(0, pods);
        cluster.sync(pods, 0);
        cluster.mark_pods_ready();
    }
    cluster.sync(0, 0);
}

#[test]
fn daemon_set_updates_pods_with_max_surge() {
    let mut cluster = Cluster::running(5);
    cluster.update(surge(2));
    for (creates, deletes) in [(2, 0), (2, 2), (1, 2), (0, 1)] {
        cluster.sync(creates, deletes);
        cluster.sync(0, 0);
        cluster.mark_pods_ready();
    }
}

#[test]
fn daemon_set_updates_pods_not_match_taints_with_max_surge() {
    let mut cluster = Cluster::new(5);
    let key = "node-role.kubernetes.io/control-plane";
    cluster.strategy = surge(1);
    cluster.tolerations = json!([{"key": key, "operator": "Exists"}]);
    let tainted = json!({"metadata": {"name": "node-0"}, "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    cluster.nodes[0] = Node::deserialize(tainted).unwrap();
    cluster.sync(5, 0);
    cluster.mark_pods_ready();
    cluster.tolerations = json!([]);
    cluster.update(surge(1));
    for (creates, deletes) in [(1, 1), (1, 1), (1, 1), (1, 1), (0, 1)] {
        cluster.sync(creates, deletes);
        cluster.sync(0, 0);
        cluster.mark_pods_ready();
    }
}

#[test]
fn daemon_set_updates_when_new_pod_is_not_ready() {
    let mut cluster = Cluster::running(5);
    cluster.update(unavailable(3));
    cluster.sync(0, 3);
    cluster.sync(3, 0);
    cluster.sync(0, 0);
}

#[test]
fn daemon_set_updates_some_old_pods_not_ready() {
    let mut cluster = Cluster::running(5);
    // At first, all old pods are available. Then two are not, and the three available ones remain.
    for _ in 0..2 {
        cluster.update(unavailable(2));
        cluster.sync(0, 2);
        cluster.sync(2, 0);
        cluster.sync(0, 0);
    }
    assert_eq!(cluster.pods.iter().filter(|pod| pod.is_ready()).count(), 3);
}

#[test]
fn daemon_set_updates_save_old_healthy_pods() {
    let mut cluster = Cluster::running(20);
    let ready = |cluster: &Cluster| -> HashSet<String> {
        let ready = cluster.pods.iter().filter(|pod| pod.is_ready());
        ready.map(|pod| pod.metadata.name.clone()).collect()
    };
    cluster.update(unavailable(10));
    cluster.sync(0, 10);
    cluster.sync(10, 0);
    cluster.sync(0, 0);
    let old = ready(&cluster);
    assert_eq!(old.len(), 10);
    // Upstream takes random numbers below 10; only the 10 unavailable pods are replaced.
    for number in 0..10 {
        cluster.update(unavailable(number));
        cluster.sync(0, 10);
        cluster.sync(10, 0);
        cluster.sync(0, 0);
        assert_eq!(ready(&cluster), old);
    }
    cluster.update(unavailable(11));
    cluster.sync(0, 11);
    cluster.sync(11, 0);
    cluster.sync(0, 0);
    assert_eq!(ready(&cluster).len(), 9);
}

#[test]
fn daemon_set_updates_all_old_not_ready_pods_and_new_not_ready_pods() {
    let mut cluster = Cluster::running(100);
    let old = cluster.hash();
    cluster.update(unavailable(10));
    for _ in 0..10 {
        cluster.sync(0, 10);
        cluster.sync(10, 0);
        cluster.mark_pods_ready();
    }
    cluster.sync(0, 0);
    // 10 available old pods, 2 unavailable old ones, and 88 unavailable new ones.
    for (number, pod) in cluster.pods.iter_mut().enumerate() {
        if number >= 10 {
            pod.status.conditions.clear();
        }
        if number < 12 {
            pod.metadata.labels.insert("controller-revision-hash".to_owned(), old.clone());
        }
    }
    let unavailable: Vec<String> = cluster.pods[10..12].iter().map(|pod| pod.metadata.name.clone()).collect();
    cluster.sync(0, 2);
    cluster.sync(2, 0);
    cluster.sync(0, 0);
    assert!(cluster.pods.iter().all(|pod| !unavailable.contains(&pod.metadata.name)));
}

#[test]
fn daemon_set_updates_all_old_pods_not_ready() {
    let mut cluster = Cluster::new(5);
    cluster.sync(5, 0);
    cluster.update(unavailable(3));
    cluster.sync(0, 5);
    cluster.sync(5, 0);
    cluster.sync(0, 0);
}

#[test]
fn daemon_set_updates_all_old_pods_not_ready_max_surge() {
    let mut cluster = Cluster::new(5);
    cluster.sync(5, 0);
    cluster.update(surge(3));
    cluster.sync_at(100, 5, 0);
    cluster.sync_at(200, 0, 5);
    cluster.mark_pods_ready();
    cluster.min_ready_seconds = 15;
    cluster.update(surge(3));
    cluster.sync_at(300, 3, 0);
    let hash = cluster.hash();
    let is_current = |pod: &Pod| pod.revision_hash() == hash;
    let updated = cluster.pods.iter().filter(|pod| cluster.is_current(pod));
    let updated: HashSet<String> = updated.filter_map(target_node).map(str::to_owned).collect();
    cluster.set_ready(true, 2, is_current);
    cluster.set_ready(false, 1, |pod| !updated.contains(target_node(pod).unwrap()));
    // The ready surge pods are not available yet, and the unready old pod gets a successor regardless of the budget.
    cluster.sync_at(310, 1, 0);
    cluster.sync_at(320, 1, 3);
    cluster.set_ready(true, 3, is_current);
    cluster.sync_at(340, 0, 2);
    cluster.sync_at(350, 0, 0);
}

#[test]
fn daemon_set_updates_no_template_changed() {
    let mut cluster = Cluster::new(5);
    cluster.sync(5, 0);
    cluster.strategy = unavailable(3);
    cluster.sync(0, 0);
}
