//! `set` on the real controllers: what it accepts, the outcome, and whether the predicted effect is right.

use serde_json::{Value, json};

use super::advanced::with_kruise;
use super::agreement::nothing_is_sent;
use super::workload::{Api, FATE, NEVER_READY, Workload, hash, hash_of_pod};
use super::{Cluster, cluster};
use crate::support::api::Patch;

/// Values of a number of pods, as a user may give them.
const AMOUNTS: [&str; 11] = ["", "0", "1", "2147483647", "2147483648", "-1", "0%", "10%", "100%", "101%", "1%%"];

fn create(cluster: &'static Cluster, api: Api, rolling_update: &Value) -> Workload {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling_update});
    Workload::create(cluster, api, &cluster.namespace(), "agent", &json!({"updateStrategy": strategy}))
}

/// Returns the value of a patch for an argument: a number if it is one, as kubectl's flags take it.
fn amount(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

/// Returns the patch that `set` should amount to: the other of the two amounts becomes 0 if one is given.
fn merge_patch(surge: &str, unavailable: &str) -> Value {
    let is_zero = |text: &str| text.trim_end_matches('%').parse() == Ok(0);
    let mut rolling = json!({});
    let fields = [("maxSurge", surge, unavailable), ("maxUnavailable", unavailable, surge)];
    for (field, own, other) in fields {
        if !own.is_empty() {
            rolling[field] = amount(own);
        } else if !is_zero(other) {
            rolling[field] = 0.into();
        }
    }
    json!({"spec": {"updateStrategy": {"rollingUpdate": rolling}}})
}

/// Fails unless every combination of amounts is refused by the program if and only if it is by the API server, and
/// becomes the same otherwise.
fn every_combination_is_taken_as_by_the_api_server(workload: &Workload, amounts: &[&str]) {
    let api = &workload.cluster.api;
    let (mut accepted, mut refused) = (0, 0);
    for (surge, unavailable) in amounts.iter().flat_map(|surge| amounts.iter().map(move |other| (*surge, *other))) {
        if surge.is_empty() && unavailable.is_empty() {
            continue;
        }
        let patch = merge_patch(surge, unavailable).to_string();
        let path = format!("{}?dryRun=All", workload.path());
        let answer = api.request("PATCH", &path, "application/merge-patch+json", &patch);
        let flags = [("--max-surge", surge), ("--max-unavailable", unavailable)];
        let given = flags.iter().filter(|(_, value)| !value.is_empty());
        let flags: Vec<String> = given.map(|(flag, value)| format!("{flag}={value}")).collect();
        let mut arguments = vec!["set", "--dry-run=server", "-o", "json"];
        arguments.extend(flags.iter().map(String::as_str));
        let run = workload.run(&arguments);
        assert_eq!(run.code == Some(0), answer.status == 200, "{patch}: {} {run}", answer.body);
        if answer.status == 200 {
            assert_eq!(without_zeros(run.json()["object"].take()), without_zeros(answer.body), "{run}");
            accepted += 1;
        } else {
            // It was refused here, with nothing sent.
            assert!(!run.says("Error from server"), "{run}");
            refused += 1;
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} {refused}");
}

#[test]
fn combinations_are_taken_as_by_the_api_server() {
    let workload = create(cluster(), Api::Apps, &json!({"maxUnavailable": 1}));
    workload.settle();
    every_combination_is_taken_as_by_the_api_server(&workload, &AMOUNTS);
    workload.merge(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}}));
    workload.settle();
    every_combination_is_taken_as_by_the_api_server(&workload, &["", "0", "1", "0%", "5%", "101%"]);
}

/// Fails unless `set` makes of one DaemonSet what kubectl makes of its twin, creates no revision, and what it prints
/// undoes it.
fn set_is_what_kubectl_patch_is(cluster: &'static Cluster, api: Api) {
    for (flags, patch) in [
        (vec!["--max-unavailable=20%"], json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "20%"}}})),
        (
            vec!["--max-surge=1", "--min-ready-seconds=3", "--revision-history-limit=4"],
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "minReadySeconds": 3,
                "revisionHistoryLimit": 4}),
        ),
        (vec!["--type=OnDelete"], json!({"updateStrategy": {"type": "OnDelete"}})),
    ] {
        let (ours, twin) =
            (create(cluster, api, &json!({"maxUnavailable": 2})), create(cluster, api, &json!({"maxUnavailable": 2})));
        ours.settle();
        twin.settle();
        let (before, revisions) = (ours.live(), ours.revisions());
        let Workload { namespace, .. } = &twin;
        let resource = twin.shown();
        let patch = json!({"spec": patch}).to_string();
        cluster.control_plane.kubectl(&["patch", &resource, "-n", namespace, "--type=merge", "-p", &patch]);
        let run = ours.run(&[&["set"], flags.as_slice()].concat()).expect(0);
        run.must_say(&format!("{} updated", ours.shown()));
        assert_eq!(ours.live()["spec"], twin.live()["spec"], "{run}");
        assert_eq!(ours.revisions(), revisions, "{run}");
        nothing_is_sent(&ours, &[&["set"], flags.as_slice()].concat(), 0).must_say("nothing was changed");

        let command = run.stdout.lines().find_map(|line| line.strip_prefix("to undo:")).unwrap();
        let words = shlex::split(command.trim()).unwrap();
        assert_eq!(words[..3], ["kubectl", "ds", "set"], "{run}");
        super::program::run(&cluster.control_plane.kubeconfig(), &words[2..]).expect(0);
        assert_eq!(without_zeros(ours.live()), without_zeros(before), "{run}");
    }
}

/// Returns the spec of an object without fields at 0, their default. The API server sets it only for Kubernetes' own.
fn without_zeros(mut object: Value) -> Value {
    let mut spec = object["spec"].take();
    spec.as_object_mut().unwrap().retain(|_, value| *value != json!(0));
    if let Some(rolling) = spec.pointer_mut("/updateStrategy/rollingUpdate").and_then(Value::as_object_mut) {
        rolling.retain(|_, value| *value != json!(0));
    }
    spec
}

#[test]
fn set_changes_what_kubectl_patch_changes_and_can_be_undone() {
    set_is_what_kubectl_patch_is(cluster(), Api::Apps);
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn set_of_an_advanced_daemon_set_changes_what_kubectl_patch_changes() {
    let cluster = with_kruise();
    set_is_what_kubectl_patch_is(cluster, Api::KruiseV1Beta1);
    let workload = create(cluster, Api::KruiseV1Beta1, &json!({"maxUnavailable": 1}));
    workload.settle();
    every_combination_is_taken_as_by_the_api_server(&workload, &["", "0", "1", "0%", "10%", "101%"]);
}

/// Changes the template to one whose pods never become ready, and waits until the rollout is stuck.
fn get_stuck(workload: &Workload) {
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: NEVER_READY});
    workload.set_template(&template);
    workload.settle();
}

fn old_pods(workload: &Workload) -> Vec<Value> {
    let revisions = workload.revisions();
    let newest = hash(revisions.last().unwrap()).to_owned();
    workload.pods().into_iter().filter(|pod| hash_of_pod(pod) != newest).collect()
}

/// One of three nodes has a new pod that is not ready; so 2 may be unavailable means one more, and 3 means two more.
#[test]
fn as_many_pods_are_replaced_at_once_as_is_said() {
    for (allowed, replaced) in [(2, 1), (3, 2)] {
        let workload = create(cluster(), Api::Apps, &json!({"maxUnavailable": 1}));
        workload.settle();
        get_stuck(&workload);
        let before = old_pods(&workload).len();
        assert_eq!(before, 2);
        let plan = workload.run(&["set", &format!("--max-unavailable={allowed}"), "-o", "json"]).expect(0).json();
        let after = &plan["effect"]["after"];
        assert_eq!(
            (&after["allowed"], &after["inUse"], &after["replacedNow"]),
            (&json!(allowed), &json!(1), &json!(replaced))
        );
        workload.settle();
        assert_eq!(old_pods(&workload).len(), before - replaced, "{plan}");
    }
}

#[test]
fn the_pods_that_are_said_to_be_deleted_are_when_surge_ends_half_way() {
    let workload = create(cluster(), Api::Apps, &json!({"maxSurge": 1, "maxUnavailable": 0}));
    workload.settle();
    get_stuck(&workload);
    for flags in [["set", "--type=OnDelete"], ["set", "--max-unavailable=1"]] {
        nothing_is_sent(&workload, &flags, 1).must_say("has two pods");
    }
    let plan = workload.run(&["set", "--type=OnDelete", "--delete-surge-pods", "-o", "json"]).expect(0).json();
    let said: Vec<&Value> =
        plan["effect"]["surgePodsDeleted"].as_array().unwrap().iter().map(|pod| &pod["pod"]).collect();
    assert_eq!(said.len(), 1, "{plan}");
    workload.settle();
    let pods = workload.pods();
    assert!(pods.iter().all(|pod| !said.contains(&&pod["metadata"]["name"])), "{plan}");
    // Which pod of a pair goes is decided by name if both were created in the same second.
    assert_eq!(pods.len(), 3);
}

/// Pods that were ready for a shorter time count as unavailable, and old ones of them are all deleted.
#[test]
fn a_longer_min_ready_seconds_replaces_young_pods_as_is_said() {
    let workload = create(cluster(), Api::Apps, &json!({"maxUnavailable": 1}));
    workload.settle();
    get_stuck(&workload);
    workload.run(&["set", "--min-ready-seconds=3600"]).expect(1).must_say("make things worse");
    let run = workload.run(&["set", "--min-ready-seconds=3600", "--force", "-o", "json"]).expect(0);
    run.must_say("regardless of the limit");
    assert_eq!(run.json()["effect"]["after"]["replacedRegardless"], 2, "{run}");
    workload.settle();
    assert_eq!(old_pods(&workload).len(), 0, "{run}");
}

#[test]
fn a_budget_that_the_controller_has_computed_is_compared() {
    let workload = create(cluster(), Api::Apps, &json!({"maxUnavailable": 1}));
    workload.settle();
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", workload.namespace);
    let selector = json!({"matchLabels": {"app": "agent"}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "agent"},
        "spec": {"minAvailable": 2, "selector": selector}});
    workload.cluster.api.create(&path, &budget);
    let allows = |number: i64| {
        workload.cluster.control_plane.wait_until("the budget is computed", || {
            let status = workload.cluster.api.get(&format!("{path}/agent"))["status"].take();
            (status["expectedPods"] == 3 && status["desiredHealthy"] == 3 - number).then_some(())
        });
    };
    allows(1);
    workload.run(&["set", "--max-unavailable=2", "--dry-run=client"]).expect(0).must_say("allows 1 of 3 pods");
    // Of a percentage the controller computes nothing for a DaemonSet, which has no scale subresource.
    let patch = json!([{"op": "replace", "path": "/spec/minAvailable", "value": "50%"}]);
    workload.cluster.api.patch(&format!("{path}/agent"), Patch::Json, &patch);
    workload.run(&["set", "--max-unavailable=2", "--dry-run=client"]).expect(0).must_say("is not computed");
}

#[test]
fn a_change_is_followed_until_its_rollout_is_done() {
    let workload = create(cluster(), Api::Apps, &json!({"maxUnavailable": 2, "maxSurge": 0}));
    workload.roll_out(&["agent:1", "agent:2"]);
    for change in [&["undo"][..], &["restart"], &["set", "--max-unavailable", "3"]] {
        let run = workload.run(&[change, &["--watch"]].concat()).expect(0);
        let applied =
            run.stdout.find("daemonset.apps/agent").unwrap_or_else(|| panic!("the change is not shown: {run}"));
        let complete = run.stdout.find("/agent is complete: revision").unwrap_or_else(|| panic!("not followed: {run}"));
        assert!(applied < complete, "{run}");
        let status = workload.run(&["status", "-o", "json"]).expect(0);
        assert_eq!(status.json()["daemonSets"][0]["rolloutComplete"], true, "{status}");
    }
    workload.delete();
}
