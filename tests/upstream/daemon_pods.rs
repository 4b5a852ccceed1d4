//! pkg/controller/daemon/daemon_controller_test.go and util/daemonset_util_test.go: who owns a pod, and what a sync
//! does about it.

use jiff::Timestamp;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::Pod;
use kubectl_ds::scheduling::daemon_pods::{
    NodeContext, claim, is_deleted_terminal, is_updated, is_without_node, pods_should_be_on_node, target_node,
};
use kubectl_ds::scheduling::should_run::DaemonPod;
use serde::Deserialize;
use serde_json::{Value, json};

use super::rows;

/// TestGetTargetNodeName
#[test]
fn pods_have_the_target_that_they_have_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        pod: Pod,
        want: Option<String>,
    }
    for Row { name, pod, want } in rows(include_str!("target_nodes.json")) {
        assert_eq!(target_node(&pod), want.as_deref(), "{name}");
    }
}

/// TestIsPodUpdated
#[test]
fn pods_are_updated_as_they_are_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        pod: Pod,
        hash: String,
        generation: i64,
        want: bool,
    }
    for Row { name, pod, hash, generation, want } in rows(include_str!("updated_pods.json")) {
        let annotations = json!({"deprecated.daemonset.template.generation": generation.to_string()});
        let daemon_set = DaemonSet::from_object(json!({"metadata": {"annotations": annotations}})).unwrap();
        assert_eq!(is_updated(&daemon_set, Some(&hash), &pod), want, "{name}");
    }
}

/// TestGetNodesToDaemonPods
#[test]
fn pods_are_claimed_as_they_are_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        name: String,
        include_deleted_terminal: bool,
        daemon_set: Value,
        wanted: Vec<Pod>,
        ignored: Vec<Pod>,
    }
    for row in rows::<Row>(include_str!("nodes_to_pods.json")) {
        let daemon_set = DaemonSet::from_object(row.daemon_set).unwrap();
        let counts = |pod: &Pod| {
            claim(&daemon_set, pod).is_claimed() && (row.include_deleted_terminal || !is_deleted_terminal(pod))
        };
        for pod in &row.wanted {
            assert!(counts(pod), "{}: {} is not counted", row.name, pod.metadata.name);
        }
        for pod in &row.ignored {
            assert!(!counts(pod), "{}: {} is counted", row.name, pod.metadata.name);
        }
    }
}

/// Every sync that daemon_controller_test.go expects to make or delete so many pods, for each update
/// strategy; without those of DaemonSets that are being deleted or select everything, which never come
/// this far, and of more than 20 nodes.
#[test]
fn syncs_make_and_delete_as_many_pods_as_they_do_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        name: String,
        daemon_set: Value,
        nodes: Vec<Node>,
        pods: Vec<Pod>,
        hash: String,
        in_backoff: Vec<String>,
        now: Timestamp,
        creates: usize,
        deletes: usize,
    }
    for row in rows::<Row>(include_str!("syncs.json")) {
        let daemon_set = DaemonSet::from_object(row.daemon_set).unwrap();
        let daemon_pod = DaemonPod::new(&daemon_set.spec.template);
        let claimed: Vec<&Pod> =
            row.pods.iter().filter(|pod| claim(&daemon_set, pod).is_claimed() && !is_deleted_terminal(pod)).collect();
        let (mut creates, mut deletes) = (0, 0);
        for node in &row.nodes {
            let name = node.metadata.name.as_str();
            let context = NodeContext {
                daemon_set: &daemon_set,
                decision: daemon_pod.decide(node),
                current_hash: &row.hash,
                in_backoff: row.in_backoff.iter().any(|node| node == name),
                now: row.now,
            };
            let pods: Vec<&Pod> = claimed.iter().copied().filter(|pod| target_node(pod) == Some(name)).collect();
            let result = pods_should_be_on_node(&context, &pods);
            creates += usize::from(result.create);
            deletes += result.delete.len();
        }
        let exists = |name: &str| row.nodes.iter().any(|node| node.metadata.name == name);
        deletes += claimed.iter().filter(|pod| is_without_node(pod, exists)).count();
        let strategy = &daemon_set.spec.update_strategy;
        assert_eq!((creates, deletes), (row.creates, row.deletes), "{} ({strategy:?})", row.name);
    }
}
