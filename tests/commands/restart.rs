//! `restart` without a cluster: what it would do. With one: tests/e2e/rollouts.

use serde_json::{Value, json};

use super::history::{on_revisions, printed};

const DRY: &str = "--dry-run=client";

#[test]
fn the_time_of_the_restart_goes_into_the_template() {
    let plan: Value = serde_json::from_str(&printed(&["restart", "agent", DRY, "-o", "json"], 80)).unwrap();
    let annotations = &plan["object"]["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "2026-11-21T07:00:00Z");
}

#[test]
fn under_gates_it_is_a_stage_of_all_nodes() {
    let gates = ["restart", "agent", "--soak=30s", "--verify=check", DRY, "-o", "json"];
    let plan: Value = serde_json::from_str(&on_revisions(&gates, 80).out).unwrap();
    assert_eq!((&plan["kind"], &plan["update"], &plan["keep"]), (&json!("PartitionReport"), &json!(3), &json!(0)));
    assert_eq!((&plan["gates"]["soakSeconds"], &plan["gates"]["verify"]), (&json!(30), &json!("check")));
    assert_eq!(plan["restoresStrategy"], true);
}

#[test]
fn on_delete_leaves_pods_on_their_revision() {
    let plan: Value = serde_json::from_str(&on_revisions(&["restart", "logs", DRY, "-o", "json"], 80).out).unwrap();
    assert_eq!(plan["kind"], "RestartPlan");
    let left: Vec<_> = plan["podsLeft"].as_array().unwrap().iter().map(|pod| &pod["revision"]).collect();
    assert_eq!(left, [1, 1, 1]);
}
