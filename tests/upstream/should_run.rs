//! pkg/controller/daemon/daemon_controller_test.go and update_test.go: eligibility, and the pace of
//! rolling updates.

use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::node::Node;
use kubectl_ds::scheduling::rolling_update::{UpdateLimits, limits};
use kubectl_ds::scheduling::should_run::{DaemonPod, Decision};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rows;

/// TestNodeShouldRunDaemonPod; the update strategies and the pods on the node change nothing.
#[test]
fn nodes_are_eligible_as_they_are_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        name: String,
        daemon_set: Value,
        node: Node,
        should_run: bool,
        should_continue_running: bool,
    }
    for Row { name, daemon_set, node, should_run, should_continue_running } in rows(include_str!("should_run.json")) {
        let pod = DaemonPod::new(&DaemonSet::from_object(daemon_set).unwrap().spec.template);
        let decision = Decision { should_run, should_continue_running };
        assert_eq!((pod.decide(&node), pod.explain(&node).decision), (decision, decision), "{name}");
    }
}

/// TestGetUnavailableNumbers, where the nodes that should run a pod are counted already.
#[test]
fn rolling_updates_have_the_pace_that_they_have_upstream() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        name: String,
        update_strategy: Value,
        desired: i64,
        max_surge: i64,
        max_unavailable: i64,
    }
    for Row { name, update_strategy, desired, max_surge, max_unavailable } in rows(include_str!("counts.json")) {
        let daemon_set = DaemonSet::from_object(json!({"spec": {"updateStrategy": update_strategy}})).unwrap();
        assert_eq!(limits(&daemon_set, desired), UpdateLimits { max_unavailable, max_surge }, "{name}");
    }
}
