//! The program's statements about a DaemonSet, checked against the ControllerRevisions and kubectl.

use serde_json::{Value, json};

use super::meaning::meaning;
use super::program::Run;
use super::workload::{Api, RESTARTED_AT, Workload, clean, hash, hash_of_pod, number, template, without_restart};
use crate::support::objects::condition;

/// Returns the numbers that `kubectl rollout history` prints, oldest first.
pub fn kubectl_history(workload: &Workload) -> Vec<u64> {
    let Workload { cluster, namespace, name, .. } = workload;
    let printed = cluster.control_plane.kubectl(&["rollout", "history", &format!("daemonset/{name}"), "-n", namespace]);
    printed.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// Fails unless `history -o json` says what the objects say.
pub fn history_agrees(workload: &Workload) {
    // A controller may go on after a pause that looked like the end.
    let (run, live, pods, mut revisions) = workload.cluster.control_plane.wait_until("nothing moves meanwhile", || {
        let objects = || (workload.template(), workload.pods(), workload.revisions());
        let before = objects();
        let run = workload.run(&["history", "-o", "json"]).expect(0);
        (objects() == before).then_some((run, before.0, before.1, before.2))
    });
    let report = run.json();
    assert_eq!(report["kind"], "HistoryReport", "{run}");
    let Workload { api, namespace, name, .. } = workload;
    let daemon_set = json!({"apiVersion": api.reported(), "namespace": namespace, "name": name});
    assert_eq!(report["daemonSet"], daemon_set, "{run}");
    revisions.reverse();
    let expected: Vec<Value> = revisions
        .iter()
        .enumerate()
        .map(|(at, revision)| row(revision, at == 0 && workload.is_of(revision, &live), &pods))
        .collect();
    let fields = ["revision", "name", "hash", "current", "createdAt", "images", "changeCause", "pods"];
    let said: Vec<Value> = report["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| fields.iter().map(|field| ((*field).to_owned(), row[field].clone())).collect())
        .collect();
    assert_eq!(said, expected, "the objects are on the right: {run}");
    for (at, row) in report["revisions"].as_array().unwrap().iter().enumerate() {
        let Some(before) = revisions.get(at + 1) else { continue };
        let own = meaning(&template(&revisions[at]));
        let is_same = |other: &&Value| meaning(&template(other)) == own;
        let changes = row["changes"].as_array().unwrap_or_else(|| panic!("no changes: {run}"));
        // It may have replaced one that has a higher number since.
        match changes.is_empty() {
            true => {
                let named = revisions.iter().find(|other| Some(number(other)) == row["sameAs"].as_u64());
                assert!(is_same(&before) || named.as_ref().is_some_and(is_same), "{row}");
            }
            false => assert!(!is_same(&before) || !revisions[..at].iter().all(|newer| is_same(&newer)), "{row}"),
        }
    }
}

fn row(revision: &Value, is_current: bool, pods: &[Value]) -> Value {
    let template = template(revision);
    let mine: Vec<&Value> = pods.iter().filter(|pod| hash_of_pod(pod) == hash(revision)).collect();
    let ready = mine.iter().filter(|pod| condition(pod, "Ready")["status"] == "True").count();
    let images = template["spec"]["containers"].as_array().unwrap().iter().map(|container| container["image"].clone());
    json!({
        "revision": revision["revision"],
        "name": revision["metadata"]["name"],
        "hash": hash(revision),
        "current": is_current,
        "createdAt": revision["metadata"]["creationTimestamp"],
        "images": images.collect::<Vec<_>>(),
        "changeCause": revision["metadata"]["annotations"]["kubernetes.io/change-cause"],
        "pods": {"ready": ready, "total": mine.len()},
    })
}

/// Fails unless `history --revision` prints the template of the revision, as kubectl does where it can.
pub fn revision_agrees(workload: &Workload, revision: &Value) {
    let Workload { cluster, api, namespace, name, .. } = workload;
    let ours = revision_of_program(workload, number(revision));
    assert_eq!(ours["spec"]["template"], template(revision), "the ControllerRevision is on the right");
    if *api == Api::Apps {
        let (name, revision) = (format!("daemonset/{name}"), format!("--revision={}", number(revision)));
        let arguments = ["rollout", "history", &name, "-n", namespace, &revision, "-o", "json"];
        let printed: Value = serde_json::from_str(&cluster.control_plane.kubectl(&arguments)).unwrap();
        let theirs = clean(&printed["spec"]["template"]);
        assert!(theirs.is_object(), "{printed}");
        assert_eq!(ours["spec"]["template"], theirs, "kubectl's is on the right");
    }
}

/// Returns the DaemonSet that `history --revision` prints.
pub fn revision_of_program(workload: &Workload, revision: u64) -> Value {
    workload.run(&["history", "--revision", &revision.to_string(), "-o", "json"]).expect(0).json()
}

/// Fails unless `history --diff A..B --exit-code` tells whether two revisions mean the same.
pub fn difference_agrees(workload: &Workload, a: &Value, b: &Value) {
    let range = format!("{}..{}", number(a), number(b));
    let same = meaning(&template(a)) == meaning(&template(b));
    let run = workload.run(&["history", "--diff", &range, "--exit-code", "-o", "json"]).expect(i32::from(!same));
    assert_eq!(run.json()["changes"].as_array().unwrap().is_empty(), same, "{run}");
}

/// Holds what a rollback did and said against the revisions before and after it.
pub fn was_rolled_back(workload: &Workload, run: &Run, before: &[Value], target: u64) {
    let object = before.iter().find(|revision| number(revision) == target).unwrap();
    assert!(workload.template()["$patch"].is_null(), "a directive to the patch has become a field: {run}");
    assert_eq!(clean(&workload.template()), template(object), "the template is not that of revision {target}: {run}");
    workload.wait_until_observed();
    let after = workload.revisions();
    let newest = after.last().unwrap();
    assert_eq!(newest["metadata"]["name"], object["metadata"]["name"], "{run}");
    run.must_say(&format!("{} rolled back", workload.shown()));
    if number(newest) != target {
        run.must_say(&format!("revision {target} is now revision {}", number(newest)));
    }
}

/// Runs the program, which must leave the DaemonSet as it is.
pub fn nothing_is_sent(workload: &Workload, arguments: &[&str], code: i32) -> Run {
    let before = workload.live();
    let run = workload.run(arguments).expect(code);
    assert_eq!(before["metadata"]["resourceVersion"], workload.live()["metadata"]["resourceVersion"], "{run}");
    run
}

/// Fails unless an undo to a revision that is not there is refused with the list of those that are.
pub fn unknown_revision_is_refused(workload: &Workload, unknown: u64) {
    let run = nothing_is_sent(workload, &["undo", "--to-revision", &unknown.to_string()], 1);
    let said: Vec<u64> = run
        .stderr
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    for revision in workload.revisions() {
        assert!(said.contains(&number(&revision)), "revision {} is not in the list: {run}", number(&revision));
    }
}

/// Restarts, and fails unless the annotation of the template is all that changes.
pub fn is_restarted(workload: &Workload) {
    let mut expected = without_restart(&workload.template());
    // Under OnDelete, nothing restarts by that.
    let is_on_delete = workload.live()["spec"]["updateStrategy"]["type"] == "OnDelete";
    let what = if is_on_delete { "changed; no pod restarts until it is deleted" } else { "restarted" };
    let run = workload.run(&["restart"]).expect(0);
    run.must_say(&format!("{} {what}", workload.shown()));
    expected["metadata"]["annotations"][RESTARTED_AT] = json!("some time");
    assert_eq!(without_restart(&workload.template()), expected);
}
