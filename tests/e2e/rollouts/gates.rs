//! `restart` and `undo` with gates: this program, not the controller, replaces the pods one after another.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::partition::{annotations, pods, printed, run_until_not_killed, strategy, wait_until_available_on};
use super::program::program;
use super::workload::{Api, RESTARTED_AT, Workload};
use super::{NODES, cluster};

/// Creates a DaemonSet whose controller would replace all pods at once.
fn create() -> Workload {
    let cluster = cluster();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}});
    let spec = json!({"updateStrategy": strategy});
    let workload = Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &spec);
    wait_until_available_on(NODES, &workload);
    workload
}

fn restarted_at(workload: &Workload) -> Value {
    workload.template()["metadata"]["annotations"][RESTARTED_AT].take()
}

/// Returns when each pod was created and when it became ready, in order.
fn lives(workload: &Workload) -> Vec<(Timestamp, Timestamp)> {
    let time = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
        conditions.clone().find(|one| one["type"] == "Ready").map(|one| time(&one["lastTransitionTime"])).unwrap()
    };
    let mut pods = workload.pods();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let mut lives: Vec<_> = pods.iter().map(|pod| (time(&pod["metadata"]["creationTimestamp"]), ready(pod))).collect();
    lives.sort();
    lives
}

/// Fails unless the pods were replaced one after another: each was created once the one before was ready.
fn must_be_one_after_another(workload: &Workload) {
    let lives = lives(workload);
    assert_eq!(lives.len(), NODES);
    assert!(lives.windows(2).all(|two| two[1].0 >= two[0].1 && two[1].0 > two[0].0), "{lives:?}");
}

#[test]
fn a_restart_under_gates_replaces_one_pod_after_another_and_soaks() {
    let workload = create();
    let (before, original) = (pods(&workload).0, strategy(&workload));
    let arguments = ["restart", "--max-unavailable=1", "--soak=4s", "--verify=sleep 1"];
    let mut command = program(&cluster().control_plane.kubeconfig(), &workload.arguments(&arguments));
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut said, mut available) = (String::new(), None);
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        said += &(line.unwrap() + "\n");
        if said.matches("the new pod is available").count() == NODES {
            available.get_or_insert_with(Instant::now);
        }
    }
    assert_eq!(client.wait().unwrap().code(), Some(0), "{said}");
    // The last pod is verified while it soaks.
    assert!(available.unwrap().elapsed() > Duration::from_millis(3500), "{said}");
    let (after, updated) = pods(&workload);
    assert_eq!((updated, before.intersection(&after).count()), (NODES, 0), "{said}");
    assert!(restarted_at(&workload).is_string(), "{said}");
    must_be_one_after_another(&workload);
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()), "{said}");
    // It has ended, so that the same command begins another one.
    workload.run(&["restart", "--max-unavailable=1"]).expect(0);
    assert_eq!(after.intersection(&pods(&workload).0).count(), 0);
}

#[test]
fn a_restart_that_a_gate_has_stopped_is_continued_or_rolled_back() {
    let workload = create();
    let (before, original) = (pods(&workload).0, strategy(&workload));
    let arguments = ["restart", "--max-unavailable=1", "--soak=1s", "--verify=false"];
    workload.run(&arguments).expect(3).must_say("stopped after 1 node").must_say("the --verify command failed");
    let at = restarted_at(&workload);
    assert_eq!(before.difference(&pods(&workload).0).count(), 1);
    let command = printed(&workload, "to continue");
    assert!(command.contains("--max-unavailable 1 --soak 1s --verify \"${VERIFY:?}\""), "{command}");
    assert!(command.contains(" partition ") && command.ends_with(" agent 0"), "{command}");
    // The same command does not begin another restart, and neither does what `status` prints.
    workload.run(&arguments).expect(3);
    workload.run(&["partition", "0", "--soak=1s", "--verify=false"]).expect(3);
    workload.run(&arguments).expect(3);
    assert_eq!((restarted_at(&workload), workload.revisions().len()), (at, 2));
    assert_eq!(before.difference(&pods(&workload).0).count(), 1);
    // It would restart the same pod once more.
    let kept = workload.run(&[&arguments[..], &["--on-failure=undo"]].concat()).expect(3);
    kept.must_say("not rolled back: this only restarts the pods");
    assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{kept}");
    let undone = workload.run(&["undo"]).expect(0);
    wait_until_available_on(NODES, &workload);
    assert_eq!((restarted_at(&workload), pods(&workload).1), (Value::Null, NODES), "{undone}");
    assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{undone}");
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()), "{undone}");
}

#[test]
fn a_restart_that_is_killed_after_any_write_is_continued_by_the_same_command() {
    let workload = create();
    let (before, original) = (pods(&workload).0, strategy(&workload));
    let (runs, deletions) = run_until_not_killed(&workload, |_| vec!["restart", "--max-unavailable=1", "--soak=1s"]);
    assert!(runs > 2, "{runs}");
    let deleted: BTreeSet<String> = deletions.iter().cloned().collect();
    assert_eq!((deletions.len(), deleted), (NODES, before), "no pod is restarted twice");
    assert_eq!((pods(&workload).1, workload.revisions().len()), (NODES, 2));
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()));
}

#[test]
fn a_rollback_under_gates_replaces_one_pod_after_another_and_is_continued_by_the_same_command() {
    let workload = create();
    // Revisions have full seconds.
    std::thread::sleep(Duration::from_millis(1100));
    workload.roll_out(&["agent:2", "agent:3"]);
    let original = strategy(&workload);
    workload.run(&["undo", "--max-unavailable=1", "--verify=sleep 1"]).expect(0);
    assert_eq!((workload.image(), pods(&workload).1), ("agent:2".into(), NODES));
    must_be_one_after_another(&workload);
    assert_eq!((strategy(&workload), annotations(&workload)), (original.clone(), Vec::<String>::new()));

    let arguments = ["undo", "--to-revision=1", "--max-unavailable=1", "--soak=1s"];
    let stopped = workload.run(&[&arguments[..], &["--verify=false"]].concat()).expect(3);
    stopped.must_say("stopped after 1 node");
    let command = printed(&workload, "to continue");
    assert!(command.contains("undo --to-revision 5") && command.contains("1 --soak 1s --verify"), "{command}");
    // Revision 1 is revision 5 now.
    workload.run(&arguments).expect(0).must_say("revision 5");
    workload.run(&["history"]).expect(0).must_say("rolled back from 4: image agent 2 → 1");
    workload.run(&["undo", "--to-revision=1"]).expect(0).must_say("revision 1 is now revision 5");
    workload.run(&arguments).expect(0).must_say("revision 1 is now revision 5");
    assert_eq!((workload.image(), pods(&workload).1), ("agent:1".into(), NODES));

    let named = ["undo", "--to-revision=7", "--max-unavailable=1"];
    for (image, arguments) in [("agent:4", &["undo", "--soak=1s"][..]), ("agent:5", &named)] {
        workload.roll_out(&[image]);
        let before = pods(&workload).0;
        let (runs, deletions) = run_until_not_killed(&workload, |_| arguments.to_vec());
        assert!(runs > 2, "{runs}");
        let deleted: BTreeSet<String> = deletions.iter().cloned().collect();
        assert_eq!((deletions.len(), deleted), (NODES, before), "no pod is deleted twice");
        assert_eq!((workload.image(), pods(&workload).1), ("agent:1".into(), NODES));
        assert_eq!((strategy(&workload), annotations(&workload)), (original.clone(), Vec::<String>::new()));
    }
}

/// It would end the hold, and roll what is held out to all nodes.
#[test]
fn a_restart_under_gates_is_refused_while_something_else_is_held() {
    let workload = create();
    workload.run(&["partition", "--update=1", "--image=agent=agent:2"]).expect(0);
    let (before, live) = (pods(&workload), workload.live()["metadata"]["generation"].take());
    let refused = workload.run(&["restart", "--soak=1s"]).expect(1);
    refused.must_say("is paused or partitioned");
    assert_eq!((pods(&workload), workload.live()["metadata"]["generation"].take()), (before, live), "{refused}");
    workload.run(&["undo", "--soak=1s"]).expect(0);
    assert_eq!((workload.image(), pods(&workload).1), ("agent:1".into(), NODES));
    assert_eq!(annotations(&workload), Vec::<String>::new());
}
