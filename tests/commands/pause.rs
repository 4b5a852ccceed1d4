//! `pause`, `resume` and `set` without a cluster: each change can be reverted. With one: tests/e2e/rollouts.

use serde_json::{Value, json};

use super::{NOW, ROLLOUTS, run, run_with_input};

const DRY: [&str; 5] = ["-n", "infra", "--dry-run=client", "-o", "json"];

fn plan(ended: &crate::screens::Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

fn object(ended: &crate::screens::Ended) -> Value {
    plan(ended)["object"].take()
}

/// Runs a command on a dump of one DaemonSet.
fn on_object(arguments: &[&str], object: &Value) -> Value {
    let dump = json!({"apiVersion": "v1", "kind": "List", "items": [object]}).to_string();
    self::object(&run_with_input(&[arguments, &DRY, &["--from", "-", "--now", NOW]].concat(), dump.as_bytes()))
}

fn on_rollouts(arguments: &[&str]) -> Value {
    object(&run(&[arguments, &DRY, &["--from", ROLLOUTS, "--now", NOW]].concat()))
}

#[test]
fn what_is_paused_is_resumed_with_the_same_strategy() {
    let paused = on_rollouts(&["pause", "moving"]);
    assert_eq!(paused["spec"]["updateStrategy"]["type"], "OnDelete");
    let resumed = on_object(&["resume", "moving"], &paused);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    assert_eq!(resumed["spec"]["updateStrategy"], strategy);
    assert_eq!(resumed["metadata"]["annotations"], json!({"deprecated.daemonset.template.generation": "2"}));
}

#[test]
fn the_command_that_reverts_a_change_restores_the_values() {
    let arguments = ["set", "moving", "--max-surge=2", "--min-ready-seconds=5"];
    let changed = on_rollouts(&arguments);
    let strategy = &changed["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!((&strategy["maxSurge"], &strategy["maxUnavailable"]), (&json!(2), &json!(0)));
    let planned = plan(&run(&[&arguments[..], &DRY, &["--from", ROLLOUTS]].concat()));
    let revert = planned["revert"]["command"].as_str().unwrap().to_owned();
    let words = shlex::split(revert.strip_prefix("kubectl ds ").unwrap()).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !["-n", "infra"].contains(word)).collect();
    let reverted = on_object(&words, &changed);
    let pace = &reverted["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!((&pace["maxSurge"], &pace["maxUnavailable"]), (&json!(0), &json!(1)));
    assert_eq!(reverted["spec"]["minReadySeconds"].as_i64().unwrap_or(0), 0);
}
