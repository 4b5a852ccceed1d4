//! Advanced DaemonSets on the real OpenKruise controller.

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::agreement::{nothing_is_sent, unknown_revision_is_refused, was_rolled_back};
use super::program::{run, run_on};
use super::workload::{Api, CRASHING, FATE, Workload, hash, hash_of_pod};
use super::{Cluster, NODES, cluster, sequence};
use crate::support::interceptor::{Interceptor, Moment};
use crate::support::kruise;

/// Returns the shared control plane with OpenKruise on it.
pub(super) fn with_kruise() -> &'static Cluster {
    static STARTED: OnceLock<()> = OnceLock::new();
    let cluster = cluster();
    STARTED.get_or_init(|| kruise::start(&cluster.control_plane, &kruise::folder()));
    cluster
}

/// Makes an Advanced DaemonSet in a namespace of its own that has had three images.
fn with_three_images(cluster: &'static Cluster, api: Api) -> Workload {
    let workload = Workload::create(cluster, api, &cluster.namespace(), "agent", &json!({}));
    workload.settle();
    // By their times of whole seconds, the first revision is older than the others.
    sleep(Duration::from_secs(1));
    workload.roll_out(&["agent:2", "agent:3"]);
    workload
}

fn set_rolling_update(workload: &Workload, rolling_update: &Value) {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling_update});
    workload.merge(&json!({"spec": {"updateStrategy": strategy}}));
    workload.settle();
}

fn uids(workload: &Workload) -> Vec<String> {
    let mut uids: Vec<String> = workload.pods().iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
    uids.sort();
    uids
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn random_sequences_on_v1beta1_end_as_the_revisions_say() {
    let cluster = with_kruise();
    let done = sequence::run_many(cluster, Api::KruiseV1Beta1, 12, 6);
    assert!(done.contains_key("rolled back"), "{done:?}");
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn random_sequences_on_v1alpha1_end_as_the_revisions_say() {
    let cluster = with_kruise();
    let done = sequence::run_many(cluster, Api::KruiseV1Alpha1, 12, 6);
    assert!(done.contains_key("rolled back"), "{done:?}");
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn a_bare_name_means_the_advanced_daemon_set_where_there_is_no_other() {
    let cluster = with_kruise();
    let advanced = with_three_images(cluster, Api::KruiseV1Beta1);
    let kubeconfig = cluster.control_plane.kubeconfig();
    let history = |name: &str| {
        let arguments = ["history", name, "-n", &advanced.namespace, "-o", "json"].map(str::to_owned);
        run(&kubeconfig, &arguments).expect(0).json()["daemonSet"]["apiVersion"].take()
    };
    let version = Api::KruiseV1Beta1.version();
    for name in ["agent", "ads/agent", "daemonsets.apps.kruise.io/agent"] {
        assert_eq!(history(name), version, "{name}");
    }
    let other = Workload::create(
        cluster,
        Api::Apps,
        &advanced.namespace,
        "agent",
        &json!({"selector": {"matchLabels":
        {"app": "other"}}, "template": {"metadata": {"labels": {"app": "other"}}}}),
    );
    other.wait_until_observed();
    assert_eq!(history("agent"), "apps/v1");
    assert_eq!(history("ads/agent"), version);
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn undo_and_diff_know_the_revisions_of_both_versions() {
    let cluster = with_kruise();
    for api in [Api::KruiseV1Beta1, Api::KruiseV1Alpha1] {
        let workload = with_three_images(cluster, api);
        unknown_revision_is_refused(&workload, 9);
        nothing_is_sent(&workload, &["undo", "--to-revision=3"], 0);
        nothing_is_sent(&workload, &["undo", "--dry-run=server"], 0).must_say("agent:2");
        nothing_is_sent(&workload, &["undo", "--dry-run=client"], 0).must_say("agent:2");
        workload.run(&["history", "--diff", "1..3", "--exit-code"]).expect(1).must_say("agent:1").must_say("agent:3");

        let before = workload.revisions();
        let run = workload.run(&["undo", "--to-revision=1"]).expect(0);
        was_rolled_back(&workload, &run, &before, 1);
        workload.settle();
        // Both newer ones were rolled back.
        workload.run(&["undo"]).expect(0).must_say("nothing was changed").must_say("--to-revision 3");
        let before = workload.revisions();
        let run = workload.run(&["undo", "--to-revision=2"]).expect(0);
        was_rolled_back(&workload, &run, &before, 2);
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn an_edit_of_an_advanced_daemon_set_between_read_and_write_is_refused() {
    let cluster = with_kruise();
    let workload = with_three_images(cluster, Api::KruiseV1Beta1);
    let theirs = workload.clone();
    let folder = cluster.control_plane.folder();
    let interceptor = Interceptor::start(cluster.api, folder, move |moment, request| {
        if moment == Moment::Before && request.method == "PATCH" {
            theirs.set_image("agent:9");
        }
    });
    workload.run_as(interceptor.kubeconfig(), &["undo"]).expect(1).must_say("agent:9");
    assert_eq!(workload.image(), "agent:9");
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn undo_of_a_paused_rollout_says_that_no_pod_will_change() {
    let cluster = with_kruise();
    let workload = with_three_images(cluster, Api::KruiseV1Beta1);
    set_rolling_update(&workload, &json!({"paused": true}));
    let running = uids(&workload);
    for command in ["undo", "restart"] {
        workload.run(&[command]).expect(0).must_say("paused");
        workload.settle();
        assert_eq!(uids(&workload), running);
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn undo_under_a_partition_says_how_many_pods_stay() {
    let cluster = with_kruise();
    let workload = with_three_images(cluster, Api::KruiseV1Beta1);
    set_rolling_update(&workload, &json!({"partition": 2}));
    workload.run(&["undo"]).expect(0).must_say("partition");
    workload.settle();
    let revisions = workload.revisions();
    let newest = hash(revisions.last().unwrap());
    assert_eq!(workload.pods().iter().filter(|pod| hash_of_pod(pod) == newest).count(), 1);
}

/// What the real controller does is the point: pods that were made for it get the annotation, and nothing restarts.
#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn a_restart_restarts_nothing_in_pods_that_were_made_to_be_changed_in_place() {
    let cluster = with_kruise();
    // All at once: KWOK does not make a pod ready again that was changed in place.
    let rolling_update = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let in_place = json!({"type": "RollingUpdate", "rollingUpdate": rolling_update});
    let workload = Workload::create(
        cluster,
        Api::KruiseV1Beta1,
        &cluster.namespace(),
        "agent",
        &json!({"updateStrategy": in_place}),
    );
    workload.settle();
    let running = uids(&workload);
    workload.run(&["restart"]).expect(0).must_say("restarts no container");
    cluster.control_plane.wait_until("every pod has the annotation", || {
        let annotated = |pod: &Value| pod["metadata"]["annotations"].get("kubectl.kubernetes.io/restartedAt").is_some();
        workload.pods().iter().all(annotated).then_some(())
    });
    assert_eq!(uids(&workload), running);
    for pod in workload.pods() {
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{pod}");
    }
}

/// Pods that lack the readiness gate of updates in place are made anew.
#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn a_restart_makes_pods_anew_that_were_made_before_updates_were_in_place() {
    let cluster = with_kruise();
    let workload = with_three_images(cluster, Api::KruiseV1Beta1);
    set_rolling_update(&workload, &json!({"rollingUpdateType": "InPlaceIfPossible"}));
    let running = uids(&workload);
    workload.run(&["restart"]).expect(0);
    workload.settle();
    let now = uids(&workload);
    assert!(now.iter().all(|uid| !running.contains(uid)), "{running:?} {now:?}");
}

/// Returns what `status` says once the controller has nothing more to do.
fn settled_status(workload: &Workload) -> Value {
    workload.settle();
    workload.run(&["status", "-o", "json"]).json()["daemonSets"][0].take()
}

/// Runs a command of the way out.
fn take_way_out(workload: &Workload, command: &Value) {
    let words = shlex::split(command.as_str().expect("a command")).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let control_plane = &workload.cluster.control_plane;
    match words.as_slice() {
        ["kubectl", "ds", rest @ ..] => {
            run_on(control_plane, rest).expect(0);
        }
        ["kubectl", rest @ ..] => {
            control_plane.kubectl(rest);
        }
        _ => panic!("unknown command: {command}"),
    }
}

/// Returns the nodes with pods of older revisions.
fn old_pods_on(workload: &Workload) -> Vec<Value> {
    let newest = hash(workload.revisions().last().unwrap()).to_owned();
    let pods = workload.pods();
    let old = pods.iter().filter(|pod| hash_of_pod(pod) != newest);
    let mut nodes: Vec<Value> = old.map(|pod| pod["spec"]["nodeName"].clone()).collect();
    nodes.sort_by_key(ToString::to_string);
    nodes
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn status_tells_what_a_partition_a_selector_and_a_pause_retain() {
    let cluster = with_kruise();
    for (rolling, retained) in [
        (json!({"partition": 2}), 2),
        (json!({"partition": "34%"}), 1),
        (json!({"selector": {"matchLabels": {"kubernetes.io/hostname": "node-1"}}}), 2),
        (json!({"partition": 1, "maxUnavailable": 0, "maxSurge": 2}), 1),
        (json!({"paused": true}), 3),
    ] {
        let workload = Workload::create(cluster, Api::KruiseV1Beta1, &cluster.namespace(), "agent", &json!({}));
        assert_eq!(settled_status(&workload)["rolloutComplete"], true, "{rolling}");
        set_rolling_update(&workload, &rolling);
        workload.set_image("agent:2");
        let status = settled_status(&workload);
        assert_eq!(status["status"], "Paused", "{rolling}: {status:#}");
        assert_eq!(old_pods_on(&workload).len(), retained, "{rolling}");
        if rolling["paused"] != true {
            assert_eq!(status["retained"], json!(old_pods_on(&workload)), "{rolling}");
        }
        workload.run(&["status"]).expect(3).must_say("paused");
        take_way_out(&workload, &status["wayOut"][0]["command"]);
        let status = settled_status(&workload);
        assert_eq!(old_pods_on(&workload).len(), retained - 1, "{rolling}");
        if let Some(all) = status["wayOut"].as_array().unwrap().last() {
            take_way_out(&workload, &all["command"]);
            assert_eq!(settled_status(&workload)["rolloutComplete"], true, "{rolling}: {all}");
        }
        workload.run(&["status"]).expect(0);
        workload.delete();
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn a_failing_revision_of_an_advanced_daemon_set_is_blocked_and_rolled_back() {
    let cluster = with_kruise();
    for rolling in [json!({"maxUnavailable": 1}), json!({"maxUnavailable": 0, "maxSurge": 1})] {
        let workload = with_three_images(cluster, Api::KruiseV1Beta1);
        set_rolling_update(&workload, &rolling);
        let mut bad = workload.template();
        bad["metadata"]["annotations"] = json!({FATE: CRASHING});
        workload.set_template(&bad);
        let status = settled_status(&workload);
        let said = (&status["status"], &status["suspect"]["what"]);
        assert_eq!(said, (&json!("Blocked"), &json!("Revision")), "{status:#}");
        assert_eq!((&status["budget"]["allowed"], &status["budget"]["used"]), (&json!(1), &json!(1)), "{status:#}");
        take_way_out(&workload, &status["wayOut"][0]["command"]);
        assert_eq!(settled_status(&workload)["rolloutComplete"], true);
        workload.delete();
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn the_rollout_of_an_advanced_daemon_set_is_followed_to_its_end() {
    let cluster = with_kruise();
    for api in [Api::KruiseV1Beta1, Api::KruiseV1Alpha1] {
        let workload = with_three_images(cluster, api);
        let complete = |arguments: &[&str], revision: usize| {
            let run = workload.run(arguments).expect(0);
            assert!(run.stdout.contains(&format!("/agent is complete: revision {revision}")), "{run}");
            assert_eq!(old_pods_on(&workload).len(), 0, "{run}");
        };
        workload.set_image("agent:4");
        complete(&["status", "--watch"], 4);
        complete(&["undo", "--watch"], 5);
        complete(&["restart", "--watch"], 6);
        // Without the prefix, the name means the Advanced DaemonSet because there is no other.
        let plain = ["status", "agent", "-n", workload.namespace.as_str(), "--watch", "-o", "json"];
        let run = run_on(&cluster.control_plane, &plain).expect(0);
        let mut report: Value = serde_json::from_str(run.stdout.lines().next_back().unwrap()).unwrap();
        let last = report["daemonSets"].take();
        assert_eq!((last.as_array().unwrap().len(), &last[0]["rolloutComplete"]), (1, &json!(true)), "{run}");
        workload.delete();
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
fn status_tells_that_pods_are_updated_in_place() {
    let cluster = with_kruise();
    let rolling_update = json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"});
    let in_place = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}});
    let workload = Workload::create(cluster, Api::KruiseV1Beta1, &cluster.namespace(), "agent", &in_place);
    let status = settled_status(&workload);
    assert_eq!((&status["rolloutComplete"], &status["next"]["inPlace"]), (&json!(true), &json!(true)), "{status:#}");
    let running = uids(&workload);
    workload.set_image("agent:2");
    let status = settled_status(&workload);
    assert_eq!((&status["counts"]["updated"], uids(&workload)), (&json!(NODES), running), "{status:#}");
    workload.delete();
}
