//! What can go wrong during an undo or a restart: concurrent writes, missing permissions and revisions, interruptions.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::agreement::{nothing_is_sent, unknown_revision_is_refused, was_rolled_back};
use super::program::{Run, program};
use super::workload::{Api, FATE, NEVER_READY, Workload, clean, hash_of_pod, template};
use super::{NODES, cluster};
use crate::support::api::Patch;
use crate::support::control_plane::kubernetes_is_at_least;
use crate::support::interceptor::{Interceptor, Moment, Request};
use crate::support::not_run;

/// Makes a DaemonSet in a namespace of its own that has had these images one after the other.
fn with_images(images: &[&str]) -> Workload {
    let cluster = cluster();
    let first = json!({"template": {"spec": {"containers": [{"name": "agent", "image": images[0]}]}}});
    let workload = Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &first);
    workload.settle();
    workload.roll_out(&images[1..]);
    workload
}

/// Runs the program through something that acts before each of its patches reaches the API server; the
/// action is told how many there were before.
fn run_with_patches_preceded_by(
    workload: &Workload,
    arguments: &[&str],
    act: impl Fn(&Workload, usize) + Send + 'static,
) -> Run {
    let patches = AtomicUsize::new(0);
    let theirs = workload.clone();
    let interceptor = intercept(workload, move |moment, method| {
        if moment == Moment::Before && method == "PATCH" {
            act(&theirs, patches.fetch_add(1, Ordering::Relaxed));
        }
    });
    let run = workload.run_as(interceptor.kubeconfig(), arguments);
    assert!(!interceptor.writes().is_empty(), "nothing was sent, so that nothing was shown: {run}");
    run
}

fn intercept(workload: &Workload, mut act: impl FnMut(Moment, &str) + Send + 'static) -> Interceptor {
    let cluster = workload.cluster;
    let path = workload.path();
    Interceptor::start(cluster.api, cluster.control_plane.folder(), move |moment, request| {
        // What is only tried out changes nothing.
        if request.path.starts_with(&path) && !request.path.contains("dryRun=All") {
            act(moment, &request.method);
        }
    })
}

#[test]
fn an_edit_between_read_and_write_is_refused_and_stays() {
    let edits = [
        ("image", json!({"spec": {"template": {"metadata": {"labels": {"tier": "edge"}}}}}), "/spec/template"),
        ("strategy", json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}), "/spec"),
        ("labels", json!({"metadata": {"labels": {"owner": "somebody"}}}), "/metadata/labels"),
    ];
    for (what, edit, path) in edits {
        for command in [&["undo"] as &[&str], &["restart"]] {
            let workload = with_images(&["agent:1", "agent:2"]);
            let by_somebody = edit.clone();
            let run = run_with_patches_preceded_by(&workload, command, move |workload, patches| {
                assert_eq!(patches, 0, "it was sent again");
                workload.merge(&by_somebody);
            });
            let live = workload.live();
            assert_eq!(run.code, Some(1), "{what}: {run}");
            assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "agent:2", "{what}: {run}");
            assert!(live["spec"]["template"]["metadata"]["annotations"].is_null(), "{what}: {run}");
            let word = path.rsplit('/').next().unwrap();
            assert!(run.stderr.contains(word), "{what}: it does not say that {path} has changed: {run}");
            let kept = edit.pointer(path).unwrap().as_object().unwrap();
            for (key, value) in kept {
                let mut expected = live.pointer(path).unwrap()[key].clone();
                super::workload::merge(&mut expected, value);
                if what != "strategy" {
                    assert_eq!(live.pointer(path).unwrap()[key], expected, "{what}: the other's edit is gone: {run}");
                }
            }
            if what == "strategy" {
                assert_eq!(live["spec"]["updateStrategy"]["type"], "OnDelete", "the other's edit is gone: {run}");
            }
        }
    }
}

#[test]
fn an_edit_that_comes_with_the_second_attempt_is_refused_too() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let run = run_with_patches_preceded_by(&workload, &["undo"], |workload, patches| match patches {
        0 => change_status(workload),
        1 => workload.set_image("agent:3"),
        _ => panic!("it was sent a third time"),
    });
    run.expect(1).must_say("agent:3");
    assert_eq!(workload.image(), "agent:3");
}

/// A JSON Patch cannot remove what is gone, which the API server says with neither a name nor a reason.
#[test]
fn a_patch_that_no_longer_fits_is_compared_as_after_a_conflict() {
    let held = || {
        let workload = with_images(&["agent:1"]);
        workload.run(&["pause"]).expect(0);
        workload
    };
    let workload = held();
    let edited = run_with_patches_preceded_by(&workload, &["resume"], |workload, _| {
        workload.merge(&json!({"metadata": {"annotations": {"kubectl-ds/held-since": null}}}));
    });
    edited.expect(1).must_say("was changed by").must_say("review that change").must_say("kubectl-ds/held-since");
    assert_eq!(workload.live()["spec"]["updateStrategy"]["type"], "OnDelete");

    let workload = held();
    let resumed = run_with_patches_preceded_by(&workload, &["resume"], |workload, _| {
        workload.run(&["resume"]).expect(0);
    });
    resumed.expect(0).must_say("resumed");
    assert_eq!(workload.live()["spec"]["updateStrategy"]["type"], "RollingUpdate");
}

fn change_status(workload: &Workload) {
    let condition =
        json!({"type": "Seen", "status": "True", "message": workload.live()["metadata"]["resourceVersion"]});
    let path = format!("{}/status", workload.path());
    workload.cluster.api.patch(&path, Patch::Merge, &json!({"status": {"conditions": [condition]}}));
}

#[test]
fn changes_of_status_and_managed_fields_between_read_and_write_do_not_matter() {
    for command in ["undo", "restart"] {
        let workload = with_images(&["agent:1", "agent:2"]);
        let before = workload.revisions();
        let run = run_with_patches_preceded_by(&workload, &[command], |workload, patches| match patches {
            0 => change_status(workload),
            1 => {
                // The same value by another owner changes nothing but managedFields.
                let limit = workload.live()["spec"]["revisionHistoryLimit"].clone();
                let object = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": workload.name},
                    "spec": {"revisionHistoryLimit": limit}});
                let path = format!("{}?fieldManager=somebody", workload.path());
                let api = workload.cluster.api;
                let answer = api.request("PATCH", &path, "application/apply-patch+yaml", &object.to_string());
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
            _ => {}
        });
        let run = run.expect(0);
        if command == "undo" {
            was_rolled_back(&workload, &run, &before, 1);
        } else {
            assert!(!workload.template()["metadata"]["annotations"].is_null(), "{run}");
        }
    }
}

#[test]
fn a_daemon_set_made_anew_under_the_same_name_is_left_alone() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let run = run_with_patches_preceded_by(&workload, &["undo"], |workload, _| {
        workload.delete();
        let other = json!({"template": {"spec": {"containers": [{"name": "agent", "image": "agent:9"}]}}});
        Workload::create(workload.cluster, Api::Apps, &workload.namespace, &workload.name, &other);
    });
    run.expect(1);
    assert_eq!(workload.image(), "agent:9");
}

#[test]
fn a_user_who_may_not_patch_changes_nothing() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let control_plane = &workload.cluster.control_plane;
    let read = ["daemonsets.apps", "controllerrevisions.apps", "pods"].map(|what| format!("--resource={what}"));
    let namespace = format!("--namespace={}", workload.namespace);
    let role = ["create", "role", "reader", "--verb=get,list,watch", &read[0], &read[1], &read[2], &namespace];
    control_plane.kubectl(&role);
    control_plane.kubectl(&["create", "rolebinding", "reader", "--role=reader", "--user=bob", &namespace]);
    let bob = control_plane.kubeconfig_of("bob");
    control_plane.wait_until("bob may read", || {
        let run = workload.run_as(&bob, &["history"]);
        (run.code == Some(0)).then_some(())
    });
    let before = workload.live();
    for command in [&["undo"] as &[&str], &["restart"], &["undo", "--dry-run=server"]] {
        let run = workload.run_as(&bob, command).expect(1);
        assert!(run.stderr.contains("forbidden") || run.stderr.contains("patch"), "{run}");
        assert_eq!(workload.live()["metadata"]["generation"], before["metadata"]["generation"], "{run}");
        assert_eq!(workload.template(), before["spec"]["template"], "{run}");
    }
    // What sends nothing needs no right to do it.
    workload.run_as(&bob, &["undo", "--dry-run=client"]).expect(0);
}

#[test]
fn a_user_who_may_not_read_revisions_changes_nothing() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let control_plane = &workload.cluster.control_plane;
    let namespace = format!("--namespace={}", workload.namespace);
    let role = ["create", "role", "writer", "--verb=get,list,patch", "--resource=daemonsets.apps", &namespace];
    control_plane.kubectl(&role);
    control_plane.kubectl(&["create", "rolebinding", "writer", "--role=writer", "--user=alice", &namespace]);
    let alice = control_plane.kubeconfig_of("alice");
    let as_alice = ["get", "daemonsets", &namespace, "--kubeconfig", alice.to_str().unwrap()];
    control_plane.wait_until("alice may read DaemonSets", || {
        control_plane.try_kubectl(&as_alice, None).status.success().then_some(())
    });
    let before = workload.live();
    let run = workload.run_as(&alice, &["undo"]).expect(1);
    run.must_say("list controllerrevisions").must_say("forbidden");
    assert_eq!(workload.live()["metadata"]["generation"], before["metadata"]["generation"], "{run}");

    // A restart needs no revision; only which pods stay as they are is not known.
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    let run = workload.run_as(&alice, &["restart"]).expect(0);
    run.must_say("daemonset.apps/agent restarted").must_say("list pods");
}

#[test]
fn a_revision_beyond_the_history_limit_is_refused_with_the_list() {
    let workload = with_images(&["agent:1"]);
    workload.merge(&json!({"spec": {"revisionHistoryLimit": 1}}));
    workload.roll_out(&["agent:2", "agent:3"]);
    unknown_revision_is_refused(&workload, 1);
    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    was_rolled_back(&workload, &run, &before, 2);

    workload.settle();
    workload.merge(&json!({"spec": {"revisionHistoryLimit": 0}}));
    workload.settle();
    assert_eq!(workload.revisions().len(), 1);
    nothing_is_sent(&workload, &["undo"], 1);
}

/// Adds a ControllerRevision that the DaemonSet controls.
fn add_revision(workload: &Workload, name: &str, number: u64, data: &Value) {
    let live = workload.live();
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": workload.name,
        "uid": live["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true});
    let labels = json!({"app": workload.name, "controller-revision-hash": name});
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", workload.namespace);
    workload.cluster.api.create(
        &path,
        &json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": data,
            "metadata": {"name": format!("{}-{name}", workload.name), "labels": labels, "ownerReferences": [owner]}}),
    );
}

fn numbers(report: &Value) -> Vec<u64> {
    report["revisions"].as_array().unwrap().iter().map(|row| row["revision"].as_u64().unwrap()).collect()
}

#[test]
fn of_two_revisions_with_the_same_meaning_undo_takes_neither() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let newest = workload.revisions().pop().unwrap();
    // As a control plane of another release wrote it: the same template in other bytes.
    let mut data = newest["data"].clone();
    let metadata = data["spec"]["template"]["metadata"].as_object_mut().unwrap();
    if metadata.remove("creationTimestamp").is_none() {
        metadata.insert("creationTimestamp".to_owned(), Value::Null);
    }
    let path = format!(
        "/apis/apps/v1/namespaces/{}/controllerrevisions/{}",
        workload.namespace,
        newest["metadata"]["name"].as_str().unwrap()
    );
    workload.cluster.api.patch(&path, Patch::Merge, &json!({"revision": 3}));
    add_revision(&workload, "otherbytes", 2, &data);
    workload.settle();

    let report = workload.run(&["history", "-o", "json"]).expect(0).json();
    assert_eq!(numbers(&report), [3, 2, 1]);
    let current: Vec<&Value> = report["revisions"].as_array().unwrap().iter().map(|row| &row["current"]).collect();
    assert_eq!(current, [true, false, false]);
    assert_eq!(report["revisions"][0]["changes"], json!([]), "{report}");
    nothing_is_sent(&workload, &["undo", "--to-revision", "2"], 0);
    workload.run(&["history", "--diff", "2..3", "--exit-code"]).expect(0);

    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    was_rolled_back(&workload, &run, &before, 1);
}

#[test]
fn revisions_that_cannot_be_read_are_shown_and_the_rest_works() {
    let workload = with_images(&["agent:1", "agent:2"]);
    add_revision(&workload, "number", 10, &json!({"spec": 5}));
    add_revision(&workload, "empty", 11, &json!({"spec": {}}));
    // The controller looks at revisions only when something else makes it.
    workload.merge(&json!({"spec": {"revisionHistoryLimit": 9}}));
    workload.settle();
    let run = workload.run(&["history", "-o", "json"]).expect(0);
    assert_eq!(numbers(&run.json()), [12, 11, 10, 1], "{run}");
    workload.run(&["history"]).expect(0).must_say("unreadable");
    for unreadable in ["10", "11"] {
        nothing_is_sent(&workload, &["undo", "--to-revision", unreadable], 1);
        workload.run(&["history", "--revision", unreadable, "-o", "yaml"]).expect(1);
    }
    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    was_rolled_back(&workload, &run, &before, 1);
}

#[test]
fn revisions_of_others_that_the_selector_matches_are_none_of_it() {
    let workload = with_images(&["agent:1", "agent:2"]);
    let selector = json!({"matchLabels": {"app": "agent"}});
    let pods = json!({"metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent", "image": "other:1"}]}});
    let spec = json!({"replicas": 0, "serviceName": "other", "selector": selector, "template": pods});
    let stateful_set =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "other"}, "spec": spec});
    let (api, namespace) = (workload.cluster.api, &workload.namespace);
    api.create(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"), &stateful_set);
    workload.cluster.control_plane.wait_until("the StatefulSet has its revision", || {
        let all = api.items(&format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions"));
        (all.len() == 3).then_some(())
    });
    let run = workload.run(&["history", "-o", "json"]).expect(0);
    assert_eq!(numbers(&run.json()), [2, 1], "{run}");
    assert!(!run.stdout.contains("other:1"), "{run}");
    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    was_rolled_back(&workload, &run, &before, 1);
}

#[test]
fn a_rollout_that_hangs_is_undone() {
    let workload = with_images(&["agent:1"]);
    let mut bad = clean(&workload.template());
    bad["metadata"]["annotations"][FATE] = json!(NEVER_READY);
    workload.set_template(&bad);
    workload.settle();
    let stuck = workload.live()["status"]["updatedNumberScheduled"].clone();
    assert_eq!(stuck, 1, "the rollout does not hang at its first node");
    let run = workload.run(&["history", "-o", "json"]).expect(0);
    let pods = ["/revisions/0/pods", "/revisions/1/pods"].map(|path| run.json().pointer(path).unwrap().clone());
    assert_eq!(pods, [json!({"ready": 0, "total": 1}), json!({"ready": NODES - 1, "total": NODES - 1})], "{run}");

    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    was_rolled_back(&workload, &run, &before, 1);
    workload.settle();
    assert_eq!(workload.live()["status"]["numberReady"], NODES);
}

#[test]
fn what_is_being_deleted_is_changed_and_not_waited_for() {
    let workload = with_images(&["agent:1", "agent:2"]);
    workload.merge(&json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    workload.delete();
    let before = workload.revisions();
    let run = workload.run(&["undo"]).expect(0);
    run.must_say("it is being deleted").must_say("rolled back");
    assert_eq!(workload.image(), "agent:1");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(workload.revisions(), before, "the controller acts after all, and would have been worth waiting for");
    workload.merge(&json!({"metadata": {"finalizers": null}}));
}

#[test]
fn on_delete_undo_and_restart_name_the_nodes_where_nothing_restarts() {
    let workload = with_images(&["agent:1", "agent:2"]);
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    workload.settle();
    let pods = |workload: &Workload| -> Vec<String> {
        let mut uids: Vec<String> = workload.pods().iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        uids.sort();
        uids
    };
    let running = pods(&workload);
    for command in ["undo", "restart"] {
        let run = workload.run(&[command]).expect(0);
        for words in ["OnDelete", "node-1", "node-2", "node-3"] {
            run.must_say(words);
        }
        workload.settle();
        assert_eq!(pods(&workload), running, "{run}");
    }
}

#[test]
fn a_server_dry_run_changes_nothing() {
    let workload = with_images(&["agent:1", "agent:2"]);
    for command in ["undo", "restart"] {
        let run = nothing_is_sent(&workload, &[command, "--dry-run=server"], 0);
        run.must_say("dry run");
    }
    nothing_is_sent(&workload, &["undo", "--dry-run=server"], 0).must_say("agent:1");
    let run = nothing_is_sent(&workload, &["undo", "--dry-run=server", "-o", "json"], 0);
    assert_eq!(run.json()["object"]["spec"]["template"]["spec"]["containers"][0]["image"], "agent:1", "{run}");
}

#[test]
fn a_server_dry_run_shows_what_the_server_makes_of_it() {
    if !kubernetes_is_at_least(36) {
        return not_run("mutating admission policies came with 1.36");
    }
    let workload = with_images(&["agent:1", "agent:2"]);
    let control_plane = &workload.cluster.control_plane;
    let policy = MUTATING_POLICY.replace("${NAMESPACE}", &workload.namespace);
    control_plane.create(&policy);
    let image = "mirror.example.com/agent:1";
    // Nothing tells when a policy has come into force but its effect.
    control_plane.wait_until("the policy is in force", || {
        let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "agent:1"}]);
        let path = format!("{}?dryRun=All", workload.path());
        let changed = workload.cluster.api.patch(&path, Patch::Json, &patch);
        (changed["spec"]["template"]["spec"]["containers"][0]["image"] == image).then_some(())
    });
    nothing_is_sent(&workload, &["undo", "--dry-run=server"], 0).must_say(image);
    let run = nothing_is_sent(&workload, &["undo", "--dry-run=client"], 0);
    assert!(!run.says(image), "{run}");
}

/// Images of version 1 come from a mirror.
const MUTATING_POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: "mirror-${NAMESPACE}"}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "${NAMESPACE}"}}
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [daemonsets]}
  matchConditions:
  - {name: of-version-1, expression: "object.spec.template.spec.containers[0].image == 'agent:1'"}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example.com/agent:1"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: "mirror-${NAMESPACE}"}
spec: {policyName: "mirror-${NAMESPACE}"}
"#;

#[test]
fn a_client_dry_run_changes_nothing() {
    let workload = with_images(&["agent:1", "agent:2"]);
    for arguments in [&["undo"] as &[&str], &["undo", "--to-revision=1"], &["restart"], &["undo", "-o", "json"]] {
        let interceptor = intercept(&workload, |_, _| {});
        let before = workload.live();
        let arguments = [arguments, &["--dry-run=client"]].concat();
        let run = workload.run_as(interceptor.kubeconfig(), &arguments).expect(0);
        let writes = interceptor.writes();
        // It does not promise what the API server would refuse.
        let is_trial = |request: &Request| {
            request.method == "POST" && request.path.contains("/pods?") && request.path.contains("dryRun=All")
        };
        assert!(writes.iter().all(is_trial), "{writes:?}: {run}");
        assert_eq!(workload.live()["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{run}");
    }
}

#[test]
fn after_an_interruption_the_same_undo_does_no_harm() {
    for signal in ["INT", "KILL"] {
        let workload = with_images(&["agent:1", "agent:2", "agent:3"]);
        let victim = Arc::new(AtomicU32::new(0));
        let known = victim.clone();
        let interceptor = intercept(&workload, move |moment, method| {
            if moment == Moment::After && method == "PATCH" {
                let pid = known.load(Ordering::SeqCst).to_string();
                let killed = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
                assert!(killed.success());
                // The answer must not overtake the signal.
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
        });
        let arguments = workload.arguments(&["undo", "--to-revision=1"]);
        let child = program(interceptor.kubeconfig(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        victim.store(child.id(), Ordering::SeqCst);
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success(), "SIG{signal} did not end it: {output:?}");
        assert_eq!(workload.image(), "agent:1");

        workload.settle();
        let after = workload.revisions();
        assert_eq!(template(after.last().unwrap())["spec"]["containers"][0]["image"], "agent:1");
        let again = workload.run(&["undo", "--to-revision=1"]).expect(0);
        again.must_say("revision 1 is now revision 4").must_say("nothing was changed");
        let number = after.last().unwrap()["revision"].to_string();
        nothing_is_sent(&workload, &["undo", "--to-revision", &number], 0);
        assert_eq!(workload.image(), "agent:1");
        assert!(workload.pods().iter().all(|pod| hash_of_pod(pod) == super::workload::hash(after.last().unwrap())));
    }
}
