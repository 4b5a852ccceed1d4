//! Holds that do not last: admission keeps the update strategy, or a controller restores it immediately.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::partition::{annotations, pods, strategy, wait_until_available_on};
use super::workload::{Api, Workload};
use super::{NODES, cluster};
use crate::support::api::Patch;
use crate::support::control_plane::kubernetes_is_at_least;
use crate::support::interceptor::{Interceptor, Moment};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn create() -> Workload {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    let (namespace, spec) = (cluster().namespace(), json!({"updateStrategy": strategy}));
    let workload = Workload::create(cluster(), Api::Apps, &namespace, "agent", &spec);
    wait_until_available_on(NODES, &workload);
    workload
}

/// Creates a policy that keeps RollingUpdate, under a condition, and waits until it is in force.
fn keep_rolling_update(workload: &Workload, condition: &str) {
    let (api, name) = (workload.cluster.api, &workload.namespace);
    let rules =
        json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["daemonsets"]}]);
    let expression = r#"[JSONPatch{op: "replace", path: "/spec/updateStrategy/type", value: "RollingUpdate"}]"#;
    let kind = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let policy = kind(
        "MutatingAdmissionPolicy",
        json!({
            "matchConstraints": {"resourceRules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}},
            "matchConditions": [{"name": "condition", "expression": condition},
                {"name": "suspended", "expression": "object.spec.updateStrategy.type == 'OnDelete'"}],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }),
    );
    api.create(POLICIES, &policy);
    api.create(BINDINGS, &kind("MutatingAdmissionPolicyBinding", json!({"policyName": name})));
    let dry_run = if condition == "true" { "?dryRun=All" } else { "" };
    workload.cluster.control_plane.wait_until("the policy is in force", || {
        let suspended = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}).to_string();
        let path = format!("{}{dry_run}", workload.path());
        let answer = api.request("PATCH", &path, "application/merge-patch+json", &suspended);
        (answer.body["spec"]["updateStrategy"]["type"] == "RollingUpdate").then_some(())
    });
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}));
}

/// Returns the command that is printed below a hint.
fn printed(stderr: &str, hint: &str) -> Vec<String> {
    let line = stderr.lines().find_map(|line| line.split_once(hint)).unwrap_or_else(|| panic!("{hint}: {stderr}")).1;
    let words = shlex::split(line).unwrap();
    let command = words.strip_prefix(&["kubectl".to_owned(), "ds".to_owned()]).unwrap();
    command.to_vec()
}

#[test]
fn nothing_is_rolled_out_if_admission_keeps_the_strategy() {
    if !kubernetes_is_at_least(36) {
        return;
    }
    let workload = create();
    keep_rolling_update(&workload, "true");
    let (before, live) = (pods(&workload).0, workload.live());
    let run = workload.run(&["partition", "50%", "--image=agent=agent:2"]).expect(1);
    run.must_say("cannot be suspended").must_say("nothing was changed").must_say("mutatingadmissionpolicies");
    let now = workload.live();
    assert_eq!((&now["spec"], &now["metadata"]["generation"]), (&live["spec"], &live["metadata"]["generation"]));
    assert_eq!((pods(&workload).0, annotations(&workload)), (before, Vec::<String>::new()), "{run}");
    workload.run(&["pause", "--dry-run=server"]).expect(1).must_say("stays \"RollingUpdate\"");
    // That is seen before anything is told or sent.
    let run = workload.run(&["pause"]).expect(1);
    run.must_say("cannot be suspended").must_say("nothing was changed").must_say("mutatingadmissionpolicies");
    assert_eq!((run.stdout.as_str(), &workload.live()["metadata"]), ("", &live["metadata"]), "{run}");
}

/// A dry run passes, so that the new template is out before anybody can know.
#[test]
fn what_admission_rolls_out_is_said_and_can_be_stopped_as_printed() {
    if !kubernetes_is_at_least(36) {
        return;
    }
    let workload = create();
    keep_rolling_update(&workload, "!has(request.dryRun) || !request.dryRun");
    let run = workload.run(&["partition", "50%", "--image=agent=agent:2"]).expect(1);
    run.must_say("the controller is replacing all pods of older revisions now");
    assert_eq!(workload.image(), "agent:2", "{run}");
    let stop = printed(&run.stderr, "to stop it, roll back: ");
    let stopped = super::program::run(&workload.cluster.control_plane.kubeconfig(), &stop).expect(0);
    assert_eq!(workload.image(), "agent:1", "{stopped}");
    wait_until_available_on(NODES, &workload);
    workload.cluster.control_plane.wait_until("all pods are back", || (pods(&workload).1 == NODES).then_some(()));
    workload.run(&["resume"]).expect(0);
    assert_eq!((strategy(&workload)["type"].as_str(), annotations(&workload).len()), (Some("RollingUpdate"), 0));
}

#[test]
fn a_pause_that_is_put_back_at_once_is_none() {
    let workload = create();
    let (api, path) = (workload.cluster.api, workload.path());
    let interceptor = Interceptor::start(api, workload.cluster.control_plane.folder(), move |moment, request| {
        if moment == Moment::After && request.method == "PATCH" {
            let rolling = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}});
            api.patch(&format!("{path}?fieldManager=fleet-operator"), Patch::Merge, &rolling);
        }
    });
    let run = workload.run_as(interceptor.kubeconfig(), &["pause"]).expect(1);
    run.must_say("is not paused: \"fleet-operator\" has put the update strategy back")
        .must_say("no pod is of an older revision");
    workload.run(&["resume"]).expect(0);
}

/// A second client, or a controller that knows only its manifest, puts the strategy back while nodes are updated.
#[test]
fn a_strategy_that_is_put_back_in_the_middle_of_a_stage_is_suspended_again_as_printed() {
    // The controller, too, waits for so long after each node.
    let workload = create();
    workload.merge(&json!({"spec": {"minReadySeconds": 8}}));
    // Until then the pods are unavailable, and the controller replaces those regardless of the budget.
    thread::sleep(Duration::from_secs(9));
    wait_until_available_on(NODES, &workload);
    let original = strategy(&workload);
    let (api, path, is_done) = (workload.cluster.api, workload.path(), AtomicBool::new(false));
    let interceptor = Interceptor::start(api, workload.cluster.control_plane.folder(), move |moment, request| {
        if moment == Moment::After && request.method == "DELETE" && !is_done.swap(true, Ordering::SeqCst) {
            api.patch(&path, Patch::Merge, &json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}));
        }
    });
    let run = workload.run_as(interceptor.kubeconfig(), &["partition", "0", "--image=agent=agent:2"]).expect(1);
    run.must_say("was restored, so the controller is replacing all pods now; this run has stopped replacing pods");
    // The commands go through the interceptor, which does nothing more.
    let paste = |hint: &str| super::program::run(interceptor.kubeconfig(), &printed(&run.stderr, hint));
    let stopped = paste("to stop it: ").expect(0);
    wait_until_available_on(NODES, &workload);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(
        (pods(&workload).1, strategy(&workload)["type"].as_str()),
        (1, Some("OnDelete")),
        "it goes on: {stopped}"
    );
    let continued = paste("then, to continue: ").expect(0);
    assert_eq!(
        (pods(&workload).1, strategy(&workload), annotations(&workload)),
        (NODES, original, Vec::new()),
        "{continued}"
    );
}

/// Pods that are created later have slipped through the hold, and a person reads how long it lasts.
#[test]
fn a_hold_begins_by_the_clock_of_the_api_server_whatever_a_proxy_says() {
    let workload = create();
    let folder = workload.cluster.control_plane.folder();
    for ahead in [0, -90, 3_600, -3_600, 20 * 365 * 24 * 3_600, -20 * 365 * 24 * 3_600] {
        let ahead = SignedDuration::from_secs(ahead);
        let proxy = Interceptor::with_clock(workload.cluster.api, folder, ahead, |_, _| {});
        let image = format!("--image=agent=agent:{}", ahead.as_secs());
        for command in [&["pause"] as &[&str], &["partition", "100%", &image]] {
            let run = workload.run_as(proxy.kubeconfig(), command).expect(0);
            let annotations = workload.live()["metadata"]["annotations"].take();
            let since: Timestamp = annotations["kubectl-ds/held-since"].as_str().unwrap().parse().unwrap();
            let off = Timestamp::now().duration_since(since).abs();
            assert!(off < SignedDuration::from_secs(10), "{ahead:?} {since}: {run}");
            // What is written is what was shown before.
            run.must_say(&since.to_string());
            workload.run(&["resume"]).expect(0);
        }
    }
    workload.delete();
}
