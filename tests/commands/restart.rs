//! `restart` without a cluster: what would be done. With one: tests/e2e/rollouts.

use serde_json::Value;

use super::history::{on_revisions, printed, refused};

const DRY: &str = "--dry-run=client";

#[test]
fn the_time_of_the_restart_goes_into_the_template() {
    assert_eq!(
        printed(&["restart", "agent", DRY], 100),
        "\
shop/agent restarts, now on revision 5

+ metadata.annotations[kubectl.kubernetes.io/restartedAt]  \"2026-11-21T07:00:00Z\"

daemonset.apps/agent restarted (dry run)
"
    );
    let object: Value = serde_json::from_str(&printed(&["restart", "agent", DRY, "-o", "json"], 80)).unwrap();
    let annotations = &object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "2026-11-21T07:00:00Z");
}

#[test]
fn under_on_delete_the_nodes_are_named_on_which_nothing_restarts() {
    let ended = on_revisions(&["restart", "logs", DRY], 100);
    assert!(
        ended.out.contains("\n3 pods stay as they are until deleted, on node-1, node-2, node-3\n"),
        "{}",
        ended.out
    );
    assert!(
        ended.err.contains("warning: the update strategy is OnDelete: nothing restarts by itself"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("warning: Argo CD application \"platform\" manages this object"), "{}", ended.err);
    let plan: Value = serde_json::from_str(&on_revisions(&["restart", "logs", DRY, "-o", "plan"], 80).out).unwrap();
    assert_eq!(plan["kind"], "RestartPlan");
    let left: Vec<_> = plan["podsLeft"].as_array().unwrap().iter().map(|pod| &pod["revision"]).collect();
    assert_eq!(left, [1, 1, 1]);
}

#[test]
fn a_dump_is_not_restarted() {
    assert_eq!(
        refused(&["restart", "agent"]),
        (Some(2), "error: a dump cannot be changed\nhint: add --dry-run=client to see what would be done\n".to_owned())
    );
}
