//! `partition`, `pause` and `resume` on the real controllers, with clients that are killed and others who interfere.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use super::Cluster;
use super::program::program;
use super::workload::{Api, FATE, NEVER_READY, Workload, hash, hash_of_pod};
use crate::support::api::Api as Server;
use crate::support::control_plane::{ControlPlane, Options};
use crate::support::interceptor::{Interceptor, Moment};
use crate::support::kruise;

/// How many nodes there are, in three zones.
const NODES: usize = 20;

/// Returns a control plane of its own: others count on three nodes.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static TRIED: AtomicBool = AtomicBool::new(false);
    CLUSTER.get_or_init(|| {
        assert!(!TRIED.swap(true, Ordering::Relaxed), "it did not start; the first test that failed says why");
        let control_plane = ControlPlane::start(Options::whole());
        let api = Server::start(&control_plane);
        for number in 1..=NODES {
            let name = format!("node-{number:02}");
            let zone = ["a", "b", "c"][number % 3];
            let labels = json!({"type": "kwok", "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            api.create("/api/v1/nodes", &node);
        }
        control_plane.wait_until("the nodes are ready", || {
            let nodes = api.items("/api/v1/nodes");
            nodes.iter().all(|node| node["spec"]["taints"].is_null()).then_some(())
        });
        Cluster { control_plane, api }
    })
}

/// Creates a DaemonSet whose pods are all available.
fn create(api: Api, max_unavailable: &Value) -> Workload {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": 0});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    let cluster = cluster();
    let workload = Workload::create(cluster, api, &cluster.namespace(), "agent", &json!({"updateStrategy": strategy}));
    wait_until_available(&workload);
    workload
}

fn wait_until_available(workload: &Workload) {
    workload.cluster.control_plane.wait_until("all pods are available", || {
        let status = workload.live()["status"].take();
        (status["numberAvailable"] == NODES && status["desiredNumberScheduled"] == NODES).then_some(())
    });
}

/// Returns the UIDs of the pods, and how many of them are of the newest revision.
fn pods(workload: &Workload) -> (BTreeSet<String>, usize) {
    let revisions = workload.revisions();
    let newest = hash(revisions.last().unwrap()).to_owned();
    let mut pods = workload.pods();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let updated = pods.iter().filter(|pod| hash_of_pod(pod) == newest).count();
    (pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect(), updated)
}

fn strategy(workload: &Workload) -> Value {
    workload.live()["spec"]["updateStrategy"].take()
}

fn annotations(workload: &Workload) -> Vec<String> {
    let live = workload.live();
    let annotations = live["metadata"]["annotations"].as_object().unwrap();
    annotations.keys().filter(|key| key.starts_with("kubectl-ds/")).cloned().collect()
}

#[test]
fn stages_update_as_many_nodes_as_were_asked_for_and_restore_the_strategy() {
    let workload = create(Api::Apps, &json!(2));
    let (before, original) = (pods(&workload).0, strategy(&workload));
    let mut uids = before.clone();
    for (arguments, updated) in [
        (vec!["partition", "--update=1", "--image=agent=agent:2"], 1),
        (vec!["partition", "75%"], 5),
        (vec!["partition", "50%", "--soak=1s"], 10),
    ] {
        let run = workload.run(&arguments).expect(0);
        run.must_say("to finish:");
        let (now, count) = pods(&workload);
        assert_eq!(count, updated, "{run}");
        // Updated pods stay, and so do those that are kept.
        assert_eq!(uids.difference(&now).count(), now.difference(&uids).count());
        assert_eq!(before.intersection(&now).count(), NODES - updated, "{run}");
        assert_eq!(strategy(&workload)["type"], "OnDelete");
        workload.run(&["status"]).expect(3).must_say("partitioned by kubectl ds");
        uids = now;
    }
    // The same once more replaces nothing.
    workload.run(&["partition", "50%"]).expect(0);
    assert_eq!(pods(&workload).0, uids);
    let run = workload.run(&["partition", "0", "-o", "json"]).expect(0);
    assert_eq!((run.json()["outcome"]["stage"].as_str(), pods(&workload).1), (Some("Finished"), NODES), "{run}");
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()), "{run}");
    let settled = pods(&workload).0;
    wait_until_available(&workload);
    assert_eq!(pods(&workload).0, settled);
    let events = workload.cluster.api.items(&format!("/api/v1/namespaces/{}/events", workload.namespace));
    assert!(events.iter().any(|event| event["reason"] == "PartitionFinished"), "{events:?}");
}

/// Each run is killed after one write more than the one before.
#[test]
fn a_client_that_is_killed_after_any_write_is_continued_by_the_next() {
    let workload = create(Api::Apps, &json!(4));
    let original = strategy(&workload);
    let before = pods(&workload).0;
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let (writes, limit) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let folder = workload.cluster.control_plane.folder();
    let interceptor = {
        let (child, writes, limit) = (child.clone(), writes.clone(), limit.clone());
        Interceptor::start(workload.cluster.api, folder, move |moment, request| {
            if moment == Moment::After && !request.path.contains("/events") {
                let made = writes.fetch_add(1, Ordering::SeqCst) + 1;
                if made >= limit.load(Ordering::SeqCst)
                    && let Some(child) = child.lock().unwrap().as_mut()
                {
                    child.kill().unwrap();
                }
            }
        })
    };
    let mut runs = 0;
    loop {
        runs += 1;
        writes.store(0, Ordering::SeqCst);
        limit.store(runs, Ordering::SeqCst);
        let mut arguments = vec!["partition", "0"];
        if runs == 1 {
            arguments.push("--image=agent=agent:2");
        }
        let mut command = program(interceptor.kubeconfig(), &workload.arguments(&arguments));
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let id = started.id();
        *child.lock().unwrap() = Some(started);
        let code = loop {
            // It must not be waited for under the lock: the interceptor kills it.
            let ended = child.lock().unwrap().as_mut().unwrap().try_wait().unwrap();
            match ended {
                Some(status) => break status.code(),
                None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        };
        assert!(runs < 60, "process {id}");
        if code.is_some() {
            assert_eq!(code, Some(0));
            break;
        }
    }
    assert!(runs > 3, "{runs}");
    let (after, updated) = pods(&workload);
    assert_eq!((updated, before.intersection(&after).count()), (NODES, 0));
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()));
    let deletions: Vec<String> = interceptor
        .writes()
        .into_iter()
        .filter(|request| request.method == "DELETE")
        .map(|request| serde_json::from_str::<Value>(&request.body).unwrap()["preconditions"]["uid"].to_string())
        .collect();
    let unique: BTreeSet<&String> = deletions.iter().collect();
    assert_eq!((unique.len(), deletions.len()), (NODES, NODES), "no pod is deleted twice");
    assert!(unique.iter().all(|uid| before.contains(*uid)));
}

#[test]
fn a_bad_revision_is_stopped_after_one_node_and_undone() {
    let workload = create(Api::Apps, &json!(1));
    let (before, original) = (pods(&workload).0, strategy(&workload));
    workload.run(&["pause"]).expect(0).must_say("paused");
    // Nothing is replaced while it is paused, whatever the template becomes.
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: NEVER_READY});
    workload.set_template(&template);
    workload.wait_until_observed();
    assert_eq!(pods(&workload).0, before);
    let stopped = workload.run(&["partition", "50%", "--progress-deadline=5s"]).expect(3);
    stopped.must_say("stopped after 1 node");
    assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{stopped}");
    // The same command again deletes nothing more.
    workload.run(&["partition", "50%", "--progress-deadline=5s"]).expect(3);
    assert_eq!(before.difference(&pods(&workload).0).count(), 1);
    let undone = workload.run(&["partition", "50%", "--progress-deadline=5s", "--on-failure=undo"]).expect(3);
    undone.must_say("rolling back to revision 1");
    wait_until_available(&workload);
    assert_eq!((strategy(&workload), pods(&workload).1), (original, NODES), "{undone}");
    assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{undone}");
}

#[test]
fn a_failing_command_of_verify_stops_a_stage() {
    let workload = create(Api::Apps, &json!(1));
    let run =
        workload.run(&["partition", "--update=3", "--image=agent=agent:2", "--verify=test $NODE = node-00"]).expect(3);
    run.must_say("--verify has failed");
    assert_eq!(pods(&workload).1, 1, "{run}");
    let run =
        workload.run(&["partition", "--update=3", "--verify=test -n \"$NODE$POD\" && test $REVISION = 2"]).expect(0);
    assert_eq!(pods(&workload).1, 3, "{run}");
    workload.run(&["resume"]).expect(0);
}

/// Returns a client that takes a second for each node.
fn slow_client(workload: &Workload) -> Child {
    let arguments = ["partition", "0", "--image=agent=agent:2", "--verify=sleep 1"];
    let mut command = program(&workload.cluster.control_plane.kubeconfig(), &workload.arguments(&arguments));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Until the new revision exists, all pods are of the newest one.
    let is_half_way = || (1..NODES).contains(&pods(workload).1).then_some(());
    workload.cluster.control_plane.wait_until("a node is updated", is_half_way);
    child
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn of_two_clients_the_first_gives_way() {
    let workload = create(Api::Apps, &json!(1));
    let before = pods(&workload).0;
    let first = slow_client(&workload);
    let second = workload.run(&["partition", "0"]).expect(0);
    let (code, error) = end(first);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("another client"), "{error}");
    assert_eq!((pods(&workload).1, before.intersection(&pods(&workload).0).count()), (NODES, 0), "{second}");
}

#[test]
fn a_client_stops_when_others_interfere() {
    let workload = create(Api::Apps, &json!(1));
    let client = slow_client(&workload);
    workload.run(&["pause"]).expect(0).must_say("stops");
    let (code, error) = end(client);
    assert_eq!(code, Some(1), "{error}");
    workload.run(&["resume"]).expect(0);

    let workload = create(Api::Apps, &json!(1));
    let client = slow_client(&workload);
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}));
    let (code, error) = end(client);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("put the update strategy"), "{error}");
    workload.run(&["status"]).must_say("put the update strategy back");
    workload.run(&["resume"]).expect(0);
    assert_eq!(annotations(&workload), Vec::<String>::new());
}

#[test]
fn an_eviction_waits_for_the_disruption_budget() {
    let workload = create(Api::Apps, &json!(3));
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", workload.namespace);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "agent"},
        "spec": {"minAvailable": NODES, "selector": {"matchLabels": {"app": "agent"}}}});
    workload.cluster.api.create(&path, &budget);
    let (api, object) = (workload.cluster.api, format!("{path}/agent"));
    workload
        .cluster
        .control_plane
        .wait_until("the budget is computed", || (api.get(&object)["status"]["expectedPods"] == NODES).then_some(()));
    let before = pods(&workload).0;
    let image = "--image=agent=agent:2";
    let run = workload.run(&["partition", "--update=2", image, "--evict", "--progress-deadline=5s"]).expect(3);
    run.must_say("PodDisruptionBudget");
    assert_eq!(pods(&workload).0, before, "{run}");
    let patch = json!([{"op": "replace", "path": "/spec/minAvailable", "value": NODES - 1}]);
    api.patch(&object, crate::support::api::Patch::Json, &patch);
    let run = workload.run(&["partition", "--update=2", "--evict"]).expect(0);
    assert_eq!(pods(&workload).1, 2, "{run}");
    // A deletion bypasses it, which is said.
    workload.run(&["partition", "--update=3", "--dry-run"]).expect(0).must_say("bypasses");
    workload.run(&["resume"]).expect(0);
}

#[test]
fn a_new_template_is_written_together_with_the_suspended_strategy() {
    let workload = create(Api::Apps, &json!(1));
    let before = pods(&workload).0;
    let folder = workload.cluster.control_plane.folder();
    let interceptor = Interceptor::start(workload.cluster.api, folder, |_, _| ());
    let run = workload.run_as(interceptor.kubeconfig(), &["partition", "100%", "--image=agent=agent:2"]).expect(0);
    let writes = interceptor.writes();
    let patches: Vec<_> = writes.iter().filter(|write| write.method == "PATCH").collect();
    assert_eq!(patches.len(), 1, "{run}");
    assert!(patches[0].body.contains("OnDelete") && patches[0].body.contains("agent:2"));
    workload.wait_until_observed();
    assert_eq!((pods(&workload).0, pods(&workload).1), (before, 0), "{run}");
    workload.run(&["partition", "0", "--to-revision=1"]).expect(0);
    assert_eq!((strategy(&workload)["type"].as_str(), pods(&workload).1), (Some("RollingUpdate"), NODES));
}

/// The commands of docs/partition.md.
#[test]
fn a_partition_can_be_left_with_kubectl_alone() {
    let workload = create(Api::Apps, &json!("10%"));
    let original = strategy(&workload);
    workload.run(&["partition", "--update=1", "--image=agent=agent:2"]).expect(0);
    let Workload { namespace, .. } = &workload;
    let kubectl =
        |arguments: &[&str]| workload.cluster.control_plane.kubectl(&[arguments, &["-n", namespace]].concat());
    let path = r"jsonpath={.metadata.annotations.kubectl-ds/original-update-strategy}";
    let kept = kubectl(&["get", "daemonset", "agent", "-o", path]);
    let patch = format!(r#"{{"spec":{{"updateStrategy":{kept}}}}}"#);
    kubectl(&["patch", "daemonset", "agent", "--type=merge", "-p", &patch]);
    kubectl(&[
        "annotate",
        "daemonset",
        "agent",
        "kubectl-ds/original-update-strategy-",
        "kubectl-ds/held-since-",
        "kubectl-ds/partition-",
        "kubectl-ds/run-",
    ]);
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()));
    workload
        .cluster
        .control_plane
        .wait_until("the controller has finished", || (pods(&workload).1 == NODES).then_some(()));
}

#[test]
#[cfg_attr(not(has_kruise), ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder")]
fn the_partition_of_an_advanced_daemon_set_is_set_and_followed() {
    let control_plane = &cluster().control_plane;
    kruise::start(control_plane, &kruise::folder());
    let workload = create(Api::KruiseV1Beta1, &json!(4));
    let before = pods(&workload).0;
    workload.run(&["pause"]).expect(0).must_say("paused");
    workload.set_image("agent:2");
    workload.wait_until_observed();
    assert_eq!(pods(&workload).0, before);
    workload.run(&["partition", "75%", "--progress-deadline=5s"]).expect(3).must_say("no progress");
    assert_eq!(pods(&workload).0, before);
    workload.run(&["resume"]).expect(0);
    for (amount, updated) in [("75%", 5), ("50%", 10), ("0", NODES)] {
        let run = workload.run(&["partition", amount]).expect(0);
        assert_eq!(pods(&workload).1, updated, "{run}");
    }
    workload.run(&["partition", "50%", "--evict"]).expect(2);
}
