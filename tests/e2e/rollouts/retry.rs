//! `retry` deletes the pods of a crash loop within maxUnavailable, and nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::NODES;
use super::cluster;
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
fn a_crash_loop_is_retried_within_max_unavailable_and_nothing_else_is_deleted() {
    for (max_unavailable, deleted) in [(1, 1), (2, 2)] {
        let workload = create(max_unavailable, &json!({"metadata": {"annotations": {FATE: CRASHING}}}));
        let control_plane = &workload.cluster.control_plane;
        control_plane.wait_until("all pods crash", || crash_loops(&workload).then_some(()));
        let (before, generation) = (uids(&workload), workload.live()["metadata"]["generation"].clone());
        for dry_run in ["--dry-run=client", "--dry-run=server"] {
            workload.run(&["retry", dry_run]).expect(0).must_say("in CrashLoopBackOff will be deleted");
            assert_eq!(uids(&workload), before, "{dry_run}");
        }
        let run = workload.run(&["retry", "-o", "json"]).expect(0);
        let report = run.json();
        let left = report["backoffs"].as_array().unwrap().iter().filter(|it| it["left"] == "MaxUnavailable").count();
        assert_eq!((report["outcome"]["stage"].as_str(), left), (Some("Applied"), NODES - deleted), "{run}");
        control_plane.wait_until("they were recreated, and crash", || crash_loops(&workload).then_some(()));
        let after = uids(&workload);
        assert_eq!(before.intersection(&after).count(), NODES - deleted);
        // It began no rollout.
        assert_eq!((workload.live()["metadata"]["generation"].clone(), workload.revisions().len()), (generation, 1));
    }
}

#[test]
fn available_pods_are_left_alone() {
    let workload = create(1, &json!({}));
    workload.settle();
    let before = uids(&workload);
    workload.run(&["retry"]).expect(0).must_say("nothing is known to back off");
    workload.settle();
    assert_eq!(uids(&workload), before);
}
