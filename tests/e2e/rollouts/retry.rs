//! `retry` shows a crash loop, suggests deleting some of its pods, and deletes nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::NODES;
use super::cluster;
use super::program::Run;
use super::workload::{Api, CRASHING, FATE, Workload};

fn uids(workload: &Workload) -> BTreeSet<String> {
    workload.pods().iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

fn crash_loops(workload: &Workload) -> bool {
    let reason = |pod: &Value| {
        pod.pointer("/status/containerStatuses/0/state/waiting/reason") == Some(&"CrashLoopBackOff".into())
    };
    let pods = workload.pods();
    pods.len() == NODES && pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null() && reason(pod))
}

fn create(max_unavailable: usize, template: &Value) -> Workload {
    let cluster = cluster();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable}});
    let more = json!({"updateStrategy": strategy, "template": template});
    Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &more)
}

#[test]
fn the_pods_of_a_crash_loop_are_deleted_only_by_the_command_that_is_suggested() {
    let workload = create(1, &json!({"metadata": {"annotations": {FATE: CRASHING}}}));
    let control_plane = &workload.cluster.control_plane;
    control_plane.wait_until("all pods crash", || crash_loops(&workload).then_some(()));
    let (before, generation) = (uids(&workload), workload.live()["metadata"]["generation"].clone());
    for dry_run in ["--dry-run=client", "--dry-run=server"] {
        workload.run(&["retry", dry_run]).expect(0).must_say("in CrashLoopBackOff");
    }
    let run = workload.run(&["retry", "-o", "json"]).expect(0);
    let report = run.json();
    // No pod was refused.
    assert_eq!(report["outcome"]["stage"], "NotNeeded", "{run}");
    assert_eq!(uids(&workload), before, "{run}");
    let command = report["replacePods"]["command"].as_str().unwrap().to_owned();
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let names = arguments.iter().filter(|argument| argument.starts_with("agent-")).count();
    assert!((1..=5).contains(&names), "{command}");
    control_plane.kubectl(&arguments);
    control_plane.wait_until("they were recreated, and crash", || crash_loops(&workload).then_some(()));
    assert_eq!(before.intersection(&uids(&workload)).count(), NODES - names);
    // It began no rollout.
    assert_eq!((workload.live()["metadata"]["generation"].clone(), workload.revisions().len()), (generation, 1));
}

/// Returns what speaks against deleting each pod that backs off.
fn obstacles(run: &Run) -> Vec<Value> {
    run.json()["backoffs"].as_array().unwrap().iter().map(|backoff| backoff["obstacle"].clone()).collect()
}

#[test]
fn no_deletion_is_suggested_until_new_pods_are_accepted() {
    let template = json!({"metadata": {"annotations": {FATE: CRASHING}}, "spec": {"hostPID": true}});
    let workload = create(2, &template);
    let control_plane = &workload.cluster.control_plane;
    control_plane.wait_until("all pods crash", || crash_loops(&workload).then_some(()));
    let before = uids(&workload);
    let enforce = |level: &str| {
        let level = format!("pod-security.kubernetes.io/enforce={level}");
        control_plane.kubectl(&["label", "namespace", &workload.namespace, "--overwrite", &level]);
    };
    enforce("baseline");
    // The API server takes a moment to heed it. No event tells of a refusal.
    control_plane.wait_until("new pods are refused", || {
        let run = workload.run(&["retry", "-o", "json", "--dry-run=server"]).expect(0);
        (obstacles(&run) == vec![json!("CreationRefused"); NODES]).then_some(())
    });
    let run = workload.run(&["retry"]).expect(0);
    run.must_say("do not delete: the API server refuses new pods").must_say("PodSecurityDenied");
    assert_eq!(uids(&workload), before, "{run}");
    enforce("privileged");
    control_plane.wait_until("new pods are accepted", || {
        let run = workload.run(&["retry", "-o", "json", "--dry-run=server"]).expect(0);
        obstacles(&run).contains(&Value::Null).then_some(())
    });
    workload.run(&["retry"]).expect(0).must_say("kubectl delete pod -n");
    assert_eq!(uids(&workload), before);
}

/// They would come back in the new revision.
#[test]
fn no_deletion_of_an_older_revision_is_suggested_while_the_rollout_is_paused() {
    let workload = create(2, &json!({"metadata": {"annotations": {FATE: CRASHING}}}));
    let control_plane = &workload.cluster.control_plane;
    control_plane.wait_until("all pods crash", || crash_loops(&workload).then_some(()));
    workload.run(&["pause"]).expect(0);
    let before = uids(&workload);
    let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "agent:9"}]);
    let (namespace, patch) = (&workload.namespace, patch.to_string());
    control_plane.kubectl(&["patch", "ds", "agent", "-n", namespace, "--type", "json", "-p", &patch]);
    let run = workload.run(&["retry", "-o", "json"]).expect(0);
    assert_eq!(obstacles(&run), vec![json!("OtherRevision"); NODES], "{run}");
    assert_eq!(uids(&workload), before);
}

#[test]
fn available_pods_are_left_alone() {
    let workload = create(1, &json!({}));
    workload.settle();
    let before = uids(&workload);
    workload.run(&["retry"]).expect(0).must_say("every node has its pod");
    workload.settle();
    assert_eq!(uids(&workload), before);
}
