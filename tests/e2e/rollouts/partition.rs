//! `partition`, `pause` and `resume` on the real controllers, with clients that are killed and others that interfere.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::program::{program, run_on};
use super::workload::{Api, FATE, NEVER_READY, Workload, hash, hash_of_pod};
use super::{Cluster, Shared};
use crate::support::api::Patch;
use crate::support::interceptor::{Interceptor, Moment};
use crate::support::kruise;
use crate::support::pty::InTerminal;

/// How many nodes there are, in three zones.
pub(super) const NODES: usize = 20;

/// Returns a control plane of its own: others count on three nodes.
pub(crate) fn cluster() -> &'static Cluster {
    static SHARED: Shared = Shared::new();
    SHARED.with_nodes(NODES)
}

/// Creates a DaemonSet whose pods are all available.
pub(super) fn create(api: Api, max_unavailable: &Value) -> Workload {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": 0});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    create_on(NODES, api, &json!({"updateStrategy": strategy}))
}

/// Creates a DaemonSet whose pods are all available, on so many nodes.
fn create_on(nodes: usize, api: Api, spec: &Value) -> Workload {
    let cluster = cluster();
    let workload = Workload::create(cluster, api, &cluster.namespace(), "agent", spec);
    wait_until_available_on(nodes, &workload);
    workload
}

pub(crate) fn wait_until_available(workload: &Workload) {
    wait_until_available_on(NODES, workload);
}

pub(super) fn wait_until_available_on(nodes: usize, workload: &Workload) {
    workload.cluster.control_plane.wait_until("all pods are available", || {
        let status = workload.live()["status"].take();
        (status["numberAvailable"] == nodes && status["desiredNumberScheduled"] == nodes).then_some(())
    });
}

/// Adds nodes that only DaemonSets with `tolerating` have pods on.
fn add_nodes(purpose: &str, names: &[&str]) {
    for name in names {
        let taints = json!([{"key": purpose, "effect": "NoSchedule"}]);
        cluster().add_node(name, &json!({}), &taints);
    }
}

fn tolerating(purpose: &str) -> Value {
    json!({"template": {"spec": {"tolerations": [{"key": purpose, "operator": "Exists"}]}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}}})
}

/// Returns the pod of a node that is not being deleted.
fn pod_on(workload: &Workload, node: &str) -> Option<Value> {
    workload.pods().into_iter().find(|pod| {
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let target = &affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
        target == node && pod["metadata"]["deletionTimestamp"].is_null()
    })
}

/// Returns the UIDs of the pods, and how many of them are of the newest revision.
pub(super) fn pods(workload: &Workload) -> (BTreeSet<String>, usize) {
    let revisions = workload.revisions();
    let newest = hash(revisions.last().unwrap()).to_owned();
    let mut pods = workload.pods();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let updated = pods.iter().filter(|pod| hash_of_pod(pod) == newest).count();
    (pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect(), updated)
}

pub(super) fn strategy(workload: &Workload) -> Value {
    workload.live()["spec"]["updateStrategy"].take()
}

pub(super) fn annotations(workload: &Workload) -> Vec<String> {
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

/// Runs a command until it ends, each time killed after one write more than the time before, and returns how many runs that took,
/// and the UIDs of the pods that were deleted.
pub(super) fn run_until_not_killed<'a>(
    workload: &Workload,
    arguments: impl Fn(usize) -> Vec<&'a str>,
) -> (usize, Vec<String>) {
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let (writes, limit) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let folder = workload.cluster.control_plane.folder();
    let interceptor = {
        let (child, writes, limit) = (child.clone(), writes.clone(), limit.clone());
        Interceptor::start(workload.cluster.api, folder, move |moment, request| {
            // What is only tried out or asked leaves nothing behind.
            let is_kept = !["/events", "dryRun", "accessreviews"].iter().any(|part| request.path.contains(part));
            if moment == Moment::After && is_kept {
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
        let mut command = program(interceptor.kubeconfig(), &workload.arguments(&arguments(runs)));
        let id = {
            // Its first write waits until it can be killed.
            let mut child = child.lock().unwrap();
            let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            child.insert(started).id()
        };
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
    let deletions = interceptor.writes().into_iter().filter(|request| request.method == "DELETE");
    let uid = |body: &str| serde_json::from_str::<Value>(body).unwrap()["preconditions"]["uid"].to_string();
    (runs, deletions.map(|request| uid(&request.body)).collect())
}

#[test]
fn a_client_that_is_killed_after_any_write_is_continued_by_the_next() {
    let workload = create(Api::Apps, &json!(4));
    let original = strategy(&workload);
    let before = pods(&workload).0;
    let (runs, deletions) = run_until_not_killed(&workload, |run| match run {
        1 => vec!["partition", "0", "--image=agent=agent:2"],
        _ => vec!["partition", "0"],
    });
    assert!(runs > 3, "{runs}");
    let (after, updated) = pods(&workload);
    assert_eq!((updated, before.intersection(&after).count()), (NODES, 0));
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()));
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
    undone.must_say("rolling the updated nodes back to revision 1");
    wait_until_available(&workload);
    assert_eq!((strategy(&workload), pods(&workload).1), (original, NODES), "{undone}");
    assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{undone}");
}

#[test]
fn a_stage_that_was_repeated_goes_back_to_the_revision_that_works() {
    let workload = create(Api::Apps, &json!(1));
    let original = strategy(&workload);
    let arguments = ["partition", "--update=1", "--image=agent=agent:2", "--verify=false"];
    workload.run(&arguments).expect(3);
    // The template is the new one already.
    let undone = workload.run(&[&arguments[..], &["--on-failure=undo"]].concat()).expect(3);
    undone.must_say("rolling the updated nodes back to revision 1");
    wait_until_available(&workload);
    assert_eq!(workload.image(), "agent:1", "{undone}");
    assert_eq!((strategy(&workload), pods(&workload).1), (original, NODES), "{undone}");
}

#[test]
fn a_stage_that_somebody_has_changed_during_verify_is_not_rolled_back() {
    for (change, said) in [("template", "the template of"), ("pause", "was paused"), ("resume", "was restored")] {
        let workload = create(Api::Apps, &json!(1));
        let (before, control_plane) = (pods(&workload).0, &workload.cluster.control_plane);
        let [begun, go_on] =
            ["begun", "go-on"].map(|file| control_plane.folder().join(format!("{file}-{}", workload.namespace)));
        let verify =
            format!("touch '{}'; while ! test -e '{}'; do sleep 0.1; done; false", begun.display(), go_on.display());
        let arguments = ["partition", "--update=2", "--image=agent=agent:2", "--on-failure=undo", "--verify", &verify];
        let mut command = program(&control_plane.kubeconfig(), &workload.arguments(&arguments));
        let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        control_plane.wait_until("the command of --verify runs", || begun.exists().then_some(()));
        let image = match change {
            "template" => {
                workload.set_image("agent:3");
                "agent:3"
            }
            _ => {
                workload.run(&[change]).expect(0);
                "agent:2"
            }
        };
        std::fs::write(&go_on, "").unwrap();
        let output = client.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{change}: {errors}");
        assert!(errors.contains(said) && errors.contains("the stage is not rolled back"), "{change}: {errors}");
        assert_eq!(workload.image(), image, "{change}: {errors}");
        match change {
            "resume" => wait_until_available(&workload),
            _ => assert_eq!(before.difference(&pods(&workload).0).count(), 1, "{change}"),
        }
    }
}

/// Creates a PodDisruptionBudget that allows no eviction, and returns its path once it is in force.
fn forbid_disruptions(workload: &Workload) -> String {
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", workload.namespace);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "agent"},
        "spec": {"minAvailable": NODES, "selector": {"matchLabels": {"app": "agent"}}}});
    let api = workload.cluster.api;
    api.create(&path, &budget);
    let object = format!("{path}/agent");
    let control_plane = &workload.cluster.control_plane;
    control_plane
        .wait_until("the budget is computed", || (api.get(&object)["status"]["expectedPods"] == NODES).then_some(()));
    object
}

/// Whoever continues knows only what `status` prints.
#[test]
fn the_command_of_status_keeps_the_target_and_the_gates_of_a_stage() {
    let workload = create(Api::Apps, &json!(3));
    let (api, object) = (workload.cluster.api, forbid_disruptions(&workload));
    let control_plane = &workload.cluster.control_plane;
    let before = pods(&workload).0;
    let flags = ["--evict", "--progress-deadline=5s", "--max-unavailable=2", "--soak=1s"];
    let stopped = workload.run(&[&["partition", "--update=2", "--image=agent=agent:2"], &flags[..]].concat()).expect(3);
    stopped.must_say("PodDisruptionBudget");
    let command = printed(&workload, "to continue:");
    for flag in ["--evict", "--progress-deadline 5s", "--max-unavailable 2", "--soak 1s"] {
        assert!(command.contains(flag), "{flag}: {command}");
    }
    let words = |text: &str| shlex::split(text).unwrap();
    assert_eq!(words(&after(&stopped.stdout, "to continue:")), words(&command), "{stopped}");
    let reverts = workload.run(&["resume", "--dry-run", "-o", "json"]).expect(0).json()["revert"]["command"].take();
    assert_eq!(words(reverts.as_str().unwrap()), words(&command));
    let run = |command: &str| {
        let words = shlex::split(command).unwrap();
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(arguments[..2], ["kubectl", "ds"], "{command}");
        run_on(control_plane, &arguments[2..])
    };
    run(&command).expect(3).must_say("PodDisruptionBudget");
    assert_eq!(pods(&workload), (before.clone(), 0), "{command}");
    let patch = json!([{"op": "replace", "path": "/spec/minAvailable", "value": NODES - 2}]);
    api.patch(&object, Patch::Json, &patch);
    control_plane
        .wait_until("the budget is relaxed", || (api.get(&object)["status"]["disruptionsAllowed"] == 2).then_some(()));
    run(&command).expect(0);
    let (canary, updated) = pods(&workload);
    assert_eq!((updated, before.intersection(&canary).count()), (2, NODES - 2), "{command}");
    // The canary is complete: nothing more is replaced before somebody asks for all.
    run(&command).expect(0);
    assert_eq!(pods(&workload).0, canary);
    assert!(printed(&workload, "to finish:").contains("--evict"));
    // What somebody else has written is not shown.
    let hostile = json!({"metadata": {"annotations": {"kubectl-ds/gates":
        r#"{"version":1,"flags":{"progressDeadlineSeconds":5,"verify":"touch owned"}}"#}}});
    workload.merge(&hostile);
    let status = workload.run(&["status"]);
    assert!(!status.says("owned") && status.says("kubectl-ds/gates"), "{status}");
    workload.run(&["resume"]).expect(0);
    assert_eq!(annotations(&workload), Vec::<String>::new());
}

/// Returns the command of a way out that `status` prints.
pub(super) fn printed(workload: &Workload, advice: &str) -> String {
    after(&workload.run(&["status"]).stdout, advice)
}

/// Returns the command after an advice, which may begin on the next line.
fn after(text: &str, advice: &str) -> String {
    let text = text.replace("\\\n", " ");
    let (_, rest) = text.split_once(advice).unwrap_or_else(|| panic!("{advice}: {text}"));
    rest.trim_start().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn undo_of_a_partition_rolls_the_updated_nodes_back() {
    let workload = create(Api::Apps, &json!(1));
    let (before, original) = (pods(&workload).0, strategy(&workload));
    workload.run(&["partition", "--update=2", "--image=agent=agent:2"]).expect(0);
    let updated = pods(&workload).0;
    workload.run(&["undo", "--dry-run"]).expect(0).must_say("agent:1");
    // Without waiting, only the template is rolled back.
    workload.run(&["undo", "--no-wait"]).expect(0);
    workload.wait_until_observed();
    assert_eq!(
        (workload.image(), pods(&workload).0, strategy(&workload)["type"].take()),
        ("agent:1".into(), updated, "OnDelete".into())
    );
    // The template is the wanted one already.
    let undone = workload.run(&["undo", "--to-revision=3"]).expect(0);
    let (after, on_template) = pods(&workload);
    assert_eq!((on_template, before.intersection(&after).count()), (NODES, NODES - 2), "{undone}");
    assert_eq!((strategy(&workload), annotations(&workload)), (original.clone(), Vec::<String>::new()));

    workload.run(&["partition", "--update=1", "--image=agent=agent:3"]).expect(0);
    let undone = workload.run(&["undo"]).expect(0);
    assert_eq!((workload.image(), pods(&workload).1), ("agent:1".into(), NODES), "{undone}");
    assert_eq!(
        (strategy(&workload), after.intersection(&pods(&workload).0).count()),
        (original, NODES - 1),
        "{undone}"
    );
}

#[test]
fn a_stage_goes_on_if_nobody_reads_its_output_anymore() {
    let workload = create(Api::Apps, &json!(1));
    let arguments = workload.arguments(&["partition", "0", "--image=agent=agent:2"]);
    let mut command = program(&workload.cluster.control_plane.kubeconfig(), &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    output.lines().find(|line| line.as_ref().unwrap().contains("deleted (1 of")).unwrap().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(pods(&workload).1, NODES);
    assert_eq!(workload.live()["spec"]["updateStrategy"]["type"], "RollingUpdate");
}

#[test]
fn a_stage_goes_on_if_nobody_reads_its_standard_error() {
    let workload = create(Api::Apps, &json!(1));
    let arguments = workload.arguments(&["partition", "0", "--image=agent=agent:2", "--verify=echo verified"]);
    let mut command = program(&workload.cluster.control_plane.kubeconfig(), &arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    errors.lines().find(|line| line.as_ref().unwrap() == "verified").unwrap().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!((pods(&workload).1, &strategy(&workload)["type"]), (NODES, &json!("RollingUpdate")));
}

#[test]
fn a_failing_command_of_verify_stops_a_stage() {
    let workload = create(Api::Apps, &json!(1));
    let run =
        workload.run(&["partition", "--update=3", "--image=agent=agent:2", "--verify=test $NODE = node-0"]).expect(3);
    run.must_say("--verify command failed");
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
    let process = first.id();
    // Nothing in its environment names the second one.
    let mut second = program(&workload.cluster.control_plane.kubeconfig(), &workload.arguments(&["partition", "0"]));
    let second = second.env_remove("USER").env_remove("LOGNAME").env_remove("HOSTNAME").output().unwrap();
    let second = [second.stdout, second.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(second.contains(&format!("the last run (process {process}), begun ")), "{second}");
    let events = workload.cluster.api.items(&format!("/api/v1/namespaces/{}/events", workload.namespace));
    let finished = events.iter().find(|event| event["reason"] == "PartitionFinished").unwrap();
    let by = finished["reportingInstance"].as_str().unwrap();
    assert!(by.starts_with("kubectl-ds, run ") && !by.contains("unknown"), "{by}");
    let (code, error) = end(first);
    assert_eq!(code, Some(1), "{error}");
    // The second one may have finished before the first one looks again.
    assert!(error.contains("another client") || error.contains("was restored"), "{error}");
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
    assert!(error.contains("the update strategy of") && error.contains("was restored"), "{error}");
    workload.run(&["status"]).must_say("the update strategy was restored");
    workload.run(&["resume"]).expect(0);
    assert_eq!(annotations(&workload), Vec::<String>::new());
}

#[test]
fn an_eviction_waits_for_the_disruption_budget() {
    let workload = create(Api::Apps, &json!(3));
    let (api, object) = (workload.cluster.api, forbid_disruptions(&workload));
    let before = pods(&workload).0;
    let image = "--image=agent=agent:2";
    let run = workload.run(&["partition", "--update=2", image, "--evict", "--progress-deadline=5s"]).expect(3);
    run.must_say("PodDisruptionBudget");
    // Which one only the API server says.
    run.must_say(&format!("The disruption budget agent needs {NODES} healthy pods and has {NODES} currently"));
    assert_eq!(pods(&workload).0, before, "{run}");
    let patch = json!([{"op": "replace", "path": "/spec/minAvailable", "value": NODES - 1}]);
    api.patch(&object, Patch::Json, &patch);
    let run = workload.run(&["partition", "--update=2", "--evict"]).expect(0);
    assert_eq!(pods(&workload).1, 2, "{run}");
    // A deletion bypasses it, which is said.
    workload.run(&["partition", "--update=3", "--dry-run"]).expect(0).must_say("bypasses");
    // What takes the stage back evicts, too, and says so before.
    let undo = workload.run(&["undo", "--dry-run=client"]).expect(0);
    undo.must_say("pods are evicted");
    assert!(!undo.says("bypasses"), "{undo}");
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
    let [tried, sent] = patches.as_slice() else { panic!("{patches:?}: {run}") };
    // What is sent was tried out before.
    assert!(tried.path.contains("dryRun=All") && !sent.path.contains("dryRun"), "{run}");
    assert!(tried.body == sent.body && sent.body.contains("OnDelete") && sent.body.contains("agent:2"));
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
        "kubectl-ds/gates-",
    ]);
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()));
    workload
        .cluster
        .control_plane
        .wait_until("the controller has finished", || (pods(&workload).1 == NODES).then_some(()));
}

#[test]
fn nodes_and_pods_that_change_in_the_middle_of_a_stage_are_counted() {
    add_nodes("example.com/changes", &["changes-1", "changes-2"]);
    let workload = create_on(NODES + 2, Api::Apps, &tolerating("example.com/changes"));
    let namespace = &workload.namespace;
    let (cluster, control_plane) = (workload.cluster, &workload.cluster.control_plane);
    let planned = workload.run(&["partition", "11", "--image=agent=agent:2", "--dry-run", "-o", "json"]).expect(0);
    let chosen: BTreeSet<String> = serde_json::from_value(planned.json()["nodes"].clone()).unwrap();
    assert_eq!(chosen.len(), 11);
    let kept = (1..=NODES).map(|number| format!("node-{number}")).filter(|node| !chosen.contains(node));
    let [evicted, failed] = kept.take(2).collect::<Vec<_>>().try_into().unwrap();

    // The client waits at its first updated node until the file exists.
    let file = control_plane.folder().join("go-on");
    let verify = format!("while ! test -e '{}'; do sleep 0.1; done", file.display());
    let arguments = ["partition", "11", "--image=agent=agent:2", "--verify", &verify, "-o", "json"];
    let mut command = program(&control_plane.kubeconfig(), &workload.arguments(&arguments));
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let new = || workload.revisions().last().map(|newest| hash(newest).to_owned()).unwrap();
    let is_updated = |node: &str| {
        let pod = pod_on(&workload, node).filter(|pod| hash_of_pod(pod) == new())?;
        (pod["status"]["phase"] == "Running").then_some(())
    };
    control_plane.wait_until("the new revision exists", || (workload.revisions().len() == 2).then_some(()));
    control_plane.wait_until("a node is updated", || chosen.iter().find_map(|node| is_updated(node)));

    let name = |node: &str| pod_on(&workload, node).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = name(&evicted);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    cluster.api.create(&format!("{pods}/{pod}/eviction"), &eviction);
    // As after a reboot: the kubelet rejects the pod.
    let rejected = json!({"status": {"phase": "Failed", "reason": "NodeAffinity"}});
    cluster.api.patch(&format!("{pods}/{}/status", name(&failed)), Patch::Merge, &rejected);
    let deleted = ["changes-1", "changes-2"].into_iter().find(|node| !chosen.contains(*node)).unwrap_or("changes-2");
    cluster.api.delete(&format!("/api/v1/nodes/{deleted}"));
    add_nodes("example.com/changes", &["changes-3"]);
    for node in [evicted.as_str(), &failed, "changes-3"] {
        control_plane.wait_until("the node has a new pod", || is_updated(node));
    }
    std::fs::write(&file, "").unwrap();
    let output = client.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}: {}", String::from_utf8_lossy(&output.stderr));
    let outcome = &report["outcome"];
    let leaked: BTreeSet<&str> = outcome["leaked"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(leaked, BTreeSet::from([evicted.as_str(), &failed, "changes-3"]), "{report}");
    assert_eq!((&outcome["updated"], &outcome["old"]), (&json!(11), &json!(11)), "{report}");
    assert_eq!(outcome["replaced"].as_array().unwrap().len(), 8, "{report}");

    // Of the nodes that are kept, one more is updated by itself: that is shown, and nothing makes up for it.
    cluster.api.delete(&format!("{pods}/{}", name(kept_node(&workload, &new()).as_str())));
    control_plane.wait_until("another node is updated", || (pods_of(&workload, &new()) == 12).then_some(()));
    workload.run(&["status"]).expect(3).must_say("1 fewer pod is left");
    workload.run(&["partition", "11"]).expect(0).must_say("12 nodes on revision 2, 10 on other revisions");
    workload.run(&["resume", "--watch"]).expect(0).must_say("revision 2 is available on all 22 nodes");
}

/// A node that is lost uses up a budget of one for good.
#[test]
fn a_lost_node_is_named_before_a_stage_and_the_others_can_be_updated_without_it() {
    let taints = json!([{"key": "example.com/lost", "effect": "NoSchedule"}]);
    (1..=4).for_each(|number| cluster().add_node(&format!("lost-{number}"), &json!({"drill": "lost"}), &taints));
    // It tolerates the taints of a lost node, so that the node stays eligible.
    let template = json!({"spec": {"nodeSelector": {"drill": "lost"},
        "tolerations": [{"operator": "Exists"}]}});
    let original = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    let workload = create_on(4, Api::Apps, &json!({"template": template, "updateStrategy": original}));
    let (api, control_plane) = (workload.cluster.api, &workload.cluster.control_plane);
    // Its kubelet is silent from now on.
    api.patch("/api/v1/nodes/lost-1", Patch::Merge, &json!({"metadata": {"labels": {"type": null}}}));
    let available = |workload: &Workload| workload.live()["status"]["numberAvailable"].as_u64().unwrap_or(0);
    let lost = pod_on(&workload, "lost-1").unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    let lost = format!("/api/v1/namespaces/{}/pods/{lost}", workload.namespace);
    // As the node controller leaves both after most of a minute.
    let set_ready = |path: &str, status: &str| {
        let mut object = api.get(path);
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|one| one["type"] == "Ready").unwrap();
        if ready["status"] == "True" {
            let now = format!("{:.0}", jiff::Timestamp::now());
            super::workload::merge(ready, &json!({"status": status, "lastTransitionTime": now}));
            let body = json!({"metadata": {"resourceVersion": object["metadata"]["resourceVersion"]},
                "status": {"conditions": object["status"]["conditions"]}});
            // A last heartbeat may come in between.
            let _ = api.request("PATCH", &format!("{path}/status"), "application/merge-patch+json", &body.to_string());
        }
    };
    control_plane.wait_until("the pod counts as lost", || {
        set_ready("/api/v1/nodes/lost-1", "Unknown");
        set_ready(&lost, "False");
        (available(&workload) == 3).then_some(())
    });

    let before = pods(&workload).0;
    let started = std::time::Instant::now();
    let refused = workload.run(&["partition", "0", "--image=agent=agent:2"]).expect(1);
    refused.must_say("lost-1").must_say("--max-unavailable 1").must_say("nothing was changed");
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{refused}");
    assert_eq!((strategy(&workload), annotations(&workload).len()), (original.clone(), 0));
    assert_eq!((pods(&workload).0, workload.image()), (before, "agent:1".into()));

    let least = Arc::new(AtomicUsize::new(4));
    let interceptor = {
        let (least, workload) = (least.clone(), workload.clone());
        Interceptor::start(api, control_plane.folder(), move |moment, request| {
            if moment == Moment::Before && request.method == "DELETE" {
                let ready = |pod: &Value| {
                    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
                    pod["metadata"]["deletionTimestamp"].is_null() && conditions.iter().any(is_ready)
                };
                least.fetch_min(workload.pods().iter().filter(|pod| ready(pod)).count(), Ordering::SeqCst);
            }
        })
    };
    let arguments = ["partition", "0", "--image=agent=agent:2", "--max-unavailable=1"];
    let run = workload.run_as(interceptor.kubeconfig(), &arguments).expect(0);
    run.must_say("besides the 1 that is already").must_say("skipped because the node is not ready: lost-1");
    assert_eq!((least.load(Ordering::SeqCst), pods(&workload).1), (3, 3), "{run}");
    assert_eq!((strategy(&workload), annotations(&workload).len()), (original, 0), "{run}");
    workload.delete();
}

/// Somebody has edited what is restored, so that the API server would refuse it for good.
#[test]
fn a_hold_ends_whatever_the_annotation_says() {
    let workload = create(Api::Apps, &json!("10%"));
    let original = strategy(&workload);
    let path = workload.path();
    for (number, broken) in ["0", "-5", "\"999999999999%\"", "[1]"].into_iter().enumerate() {
        workload.run(&["pause"]).expect(0);
        let broken =
            format!(r#"{{"type":"RollingUpdate","rollingUpdate":{{"maxUnavailable":{broken},"maxSurge":0}}}}"#);
        let patch = json!({"metadata": {"annotations": {"kubectl-ds/original-update-strategy": broken}}});
        workload.cluster.api.patch(&path, Patch::Merge, &patch);
        let command = if number == 0 { &["partition", "0", "--image=agent=agent:2"][..] } else { &["resume"] };
        workload.run(command).expect(0).must_say("RollingUpdate 10% is restored instead");
        assert_eq!((strategy(&workload), annotations(&workload).len()), (original.clone(), 0), "{broken}");
    }
}

/// Returns a node whose pod is of an older revision.
fn kept_node(workload: &Workload, hash: &str) -> String {
    let nodes = (1..=NODES).map(|number| format!("node-{number}"));
    nodes.into_iter().find(|node| pod_on(workload, node).is_some_and(|pod| hash_of_pod(&pod) != hash)).unwrap()
}

/// Counts the pods of a revision.
fn pods_of(workload: &Workload, hash: &str) -> usize {
    workload
        .pods()
        .iter()
        .filter(|pod| hash_of_pod(pod) == hash && pod["metadata"]["deletionTimestamp"].is_null())
        .count()
}

#[test]
fn skipped_nodes_stay_old() {
    add_nodes("example.com/skip", &["skip-1"]);
    let workload = create_on(NODES + 1, Api::Apps, &tolerating("example.com/skip"));
    let kubectl = |arguments: &[&str]| workload.cluster.control_plane.kubectl(arguments);
    kubectl(&["label", "node", "skip-1", "kubectl-ds/skip=true"]);
    workload.run(&["partition", "100%", "--image=agent=agent:2"]).expect(0);
    let run = workload.run(&["partition", "0"]).expect(0);
    run.must_say("skipped because of the label kubectl-ds/skip: skip-1").must_say("kubectl-ds/skip-");
    assert_eq!((pods(&workload).1, strategy(&workload)["type"].as_str()), (NODES, Some("OnDelete")), "{run}");
    kubectl(&["label", "node", "skip-1", "kubectl-ds/skip-"]);
    let run = workload.run(&["partition", "0"]).expect(0);
    assert_eq!((pods(&workload).1, annotations(&workload).len()), (NODES + 1, 0), "{run}");
}

/// As docs/partition.md shows it.
#[test]
fn a_command_of_verify_can_wait_for_a_label_of_the_node() {
    let workload = create(Api::Apps, &json!(1));
    let kubectl = workload.cluster.control_plane.kubectl_command();
    let wait = format!(
        "'{}' kubectl --kubeconfig '{}' wait \"node/$NODE\" --for=jsonpath=\"{{.metadata.labels.agent-checked}}\"=2 --timeout=2s",
        kubectl.get_program().to_str().unwrap(),
        workload.cluster.control_plane.kubeconfig().display()
    );
    let arguments = ["partition", "--update=2", "--verify", &wait];
    let run = workload.run(&[&arguments[..], &["--image=agent=agent:2"]].concat()).expect(3);
    run.must_say("the --verify command failed");
    assert_eq!(pods(&workload).1, 1, "{run}");
    workload.cluster.control_plane.kubectl(&["label", "nodes", "--all", "agent-checked=2"]);
    let run = workload.run(&arguments).expect(0);
    assert_eq!(pods(&workload).1, 2, "{run}");
}

#[test]
fn a_surge_that_is_half_way_is_not_cut_off_unless_requested() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}});
    let workload = create_on(NODES, Api::Apps, &json!({"updateStrategy": strategy}));
    let before = pods(&workload).0;
    // Of pods that were created in the same second, the controller keeps the one whose name comes first.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: NEVER_READY});
    workload.set_template(&template);
    workload
        .cluster
        .control_plane
        .wait_until("three nodes have two pods", || (pods(&workload).0.len() == NODES + 3).then_some(()));
    for command in [&["pause"][..], &["partition", "50%"]] {
        workload.run(command).expect(1).must_say("3 nodes have two pods");
    }
    assert_eq!(super::partition::strategy(&workload), strategy);
    workload.run(&["partition", "100%", "--delete-surge-pods"]).expect(0).must_say("deletes the newer one of each");
    workload
        .cluster
        .control_plane
        .wait_until("the newer pods are deleted", || (pods(&workload).0 == before).then_some(()));
    let undone = workload.run(&["partition", "0", "--to-revision=1"]).expect(0);
    assert_eq!((super::partition::strategy(&workload), pods(&workload).0), (strategy, before), "{undone}");
}

#[test]
fn a_template_is_taken_from_a_manifest_and_nothing_else() {
    let workload = create(Api::Apps, &json!(4));
    let original = strategy(&workload);
    let mut manifest = workload.live();
    manifest["metadata"]["labels"] = json!({"team": "blue"});
    manifest["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(7);
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("agent:2");
    let file = workload.cluster.control_plane.folder().join("agent.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let run = workload.run(&["partition", "75%", "-f", file]).expect(0);
    run.must_say("metadata.labels[team]").must_say("spec.updateStrategy.rollingUpdate.maxUnavailable");
    assert_eq!(pods(&workload).1, 5, "{run}");
    // While it is held, only what the manifest says besides the hold differs.
    let again = workload.run(&["partition", "75%", "-f", file, "--dry-run", "-o", "json"]).expect(0).json();
    assert_eq!(again["notApplied"].as_array().unwrap().len(), 2, "{again}");
    workload.run(&["partition", "0"]).expect(0);
    assert_eq!((strategy(&workload), workload.live()["metadata"]["labels"].clone()), (original, Value::Null));
}

/// As the warning of `pause` says.
/// `kubectl apply` refuses it, too, and nothing is sent that the API server would drop without a word.
#[test]
fn a_field_that_the_api_server_does_not_know_is_refused_before_anything_is_written() {
    let workload = create(Api::Apps, &json!(1));
    let before = workload.live();
    let mut manifest = before.clone();
    // Too far from any field to be called a mistake without asking the server.
    manifest["spec"]["template"]["spec"]["containers"][0]["healthcheck"] = json!({"test": "true"});
    let file = workload.cluster.control_plane.folder().join(format!("{}-unknown.json", workload.namespace));
    std::fs::write(&file, manifest.to_string()).unwrap();
    let run = workload.run(&["partition", "75%", "-f", file.to_str().unwrap()]).expect(1);
    run.must_say("healthcheck");
    assert!(run.stderr.len() < 300, "{run}");
    assert_eq!((run.stdout.as_str(), &workload.live()["spec"]), ("", &before["spec"]), "{run}");
    assert_eq!(annotations(&workload), Vec::<String>::new(), "{run}");
}

#[test]
fn a_manifest_keeps_the_strategy_suspended_if_it_says_so_and_not_if_it_leaves_it_out() {
    let workload = create(Api::Apps, &json!(1));
    let live = workload.live();
    let folder = workload.cluster.control_plane.folder().join(live["metadata"]["name"].as_str().unwrap());
    std::fs::create_dir(&folder).unwrap();
    let apply = |strategy: Option<Value>, image: &str| {
        let mut spec = json!({"selector": live["spec"]["selector"], "template": live["spec"]["template"]});
        spec["template"]["spec"]["containers"][0]["image"] = image.into();
        if let Some(strategy) = strategy {
            spec["updateStrategy"] = strategy;
        }
        let (name, namespace) = (&live["metadata"]["name"], &live["metadata"]["namespace"]);
        let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec,
            "metadata": {"name": name, "namespace": namespace}});
        let file = folder.join("agent.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        let mut kubectl = workload.cluster.control_plane.kubectl_command();
        let applied = kubectl.args(["apply", "-f"]).arg(&file).output().unwrap();
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        workload.wait_until_observed();
    };
    apply(Some(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})), "agent:1");
    let before = pods(&workload).0;
    let plan = workload.run(&["pause", "-o", "json"]).expect(0).json();
    assert!(
        plan["warnings"].to_string().contains("set spec.updateStrategy.type to OnDelete in the manifest"),
        "{plan}"
    );
    apply(Some(json!({"type": "OnDelete"})), "agent:2");
    assert_eq!((strategy(&workload)["type"].take(), pods(&workload).0), ("OnDelete".into(), before));
    apply(None, "agent:2");
    assert_eq!(strategy(&workload)["type"], "RollingUpdate");
}

/// Runs a command in a terminal.
fn in_terminal(workload: &Workload, arguments: &[&str]) -> InTerminal {
    let mut command = program(&workload.cluster.control_plane.kubeconfig(), &workload.arguments(arguments));
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("COLUMNS");
    InTerminal::start(command, (100, 40))
}

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

#[test]
fn a_terminal_shows_how_far_a_stage_is() {
    let workload = create(Api::Apps, &json!(5));
    let first = ["partition", "--update=2", "--image=agent=agent:2", "--soak=2s"];
    for (arguments, shown, updated) in [
        (&first[..], "stage: 2 of 2 pods replaced; 18 of 20 stay on other revisions", 2),
        (&["partition", "--update=100%", "--soak=2s"], "stage: 18 of 18 pods replaced", NODES),
    ] {
        let mut run = in_terminal(&workload, arguments);
        run.wait_for("the stage", |rows| has(rows, shown));
        let (code, rows, _) = run.end();
        assert_eq!((code, pods(&workload).1), (Some(0), updated), "{rows:#?}");
        assert_eq!(rows.iter().filter(|row| row.contains("on revision 2")).count(), 1, "{rows:#?}");
        // Nothing is left of the screen.
        assert!(!has(&rows, "stage: "), "{rows:#?}");
    }
}

#[test]
#[ignore = "needs OpenKruise: KUBECTL_DS_KRUISE names its folder"]
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
    workload.run(&["partition", "75%"]).expect(0);
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: NEVER_READY});
    workload.set_template(&template);
    workload.wait_until_observed();
    let mut run = in_terminal(&workload, &["partition", "75%", "--progress-deadline=8s"]);
    run.wait_for("the stage", |rows| has(rows, "stage: 4 of 5 nodes updated; 15 of 20 stay on other revisions"));
    let (code, rows, _) = run.end();
    assert_eq!(code, Some(3), "{rows:#?}");
    assert!(!has(&rows, "stage: ") && has(&rows, "the controller has not updated the nodes"), "{rows:#?}");
    workload.run(&["partition", "50%", "--evict"]).expect(2);
}

/// The taint of a node that is not ready makes it ineligible unless everything is tolerated, which must not hide that it is lost.
#[test]
fn a_node_that_its_update_takes_down_stops_a_stage_although_its_taint_is_not_tolerated() {
    add_nodes("example.com/fragile", &["fragile-1", "fragile-2", "fragile-3"]);
    let mut spec = tolerating("example.com/fragile");
    spec["template"]["spec"]["nodeSelector"] = json!({"drill": "fragile"});
    let (api, control_plane) = (cluster().api, &cluster().control_plane);
    for node in ["fragile-1", "fragile-2", "fragile-3"] {
        let labels = json!({"metadata": {"labels": {"drill": "fragile"}}});
        api.patch(&format!("/api/v1/nodes/{node}"), Patch::Merge, &labels);
    }
    let workload = create_on(3, Api::Apps, &spec);
    let before = pods(&workload).0;
    let [begun, go_on] = ["fragile-begun", "fragile-go-on"].map(|file| control_plane.folder().join(file));
    let verify =
        format!("echo $NODE > '{}'; while ! test -e '{}'; do sleep 0.1; done", begun.display(), go_on.display());
    let arguments = ["partition", "0", "--image=agent=agent:2", "--max-unavailable=1", "--verify", &verify];
    let mut command = program(&control_plane.kubeconfig(), &workload.arguments(&arguments));
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let node = control_plane.wait_until("a node is updated", || {
        std::fs::read_to_string(&begun).ok().map(|node| node.trim().to_owned()).filter(|node| !node.is_empty())
    });
    // A node that has just joined is not ready yet.
    std::thread::sleep(std::time::Duration::from_secs(11));
    // Its kubelet says so once more, and no longer posts anything.
    let path = format!("/api/v1/nodes/{node}");
    api.patch(&path, Patch::Merge, &json!({"metadata": {"labels": {"type": null}}}));
    control_plane.wait_until("the node has the taint", || {
        let mut object = api.get(&path);
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|one| one["type"] == "Ready").unwrap();
        if ready["status"] == "True" {
            let now = format!("{:.0}", jiff::Timestamp::now());
            super::workload::merge(ready, &json!({"status": "False", "lastTransitionTime": now}));
            let body = json!({"status": {"conditions": object["status"]["conditions"]}});
            let _ = api.request("PATCH", &format!("{path}/status"), "application/merge-patch+json", &body.to_string());
        }
        object["spec"]["taints"].to_string().contains("node.kubernetes.io/not-ready").then_some(())
    });
    std::fs::write(&go_on, "").unwrap();
    let output = client.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("the node became NotReady") && text.contains(&node), "{text}");
    assert_eq!(
        (before.difference(&pods(&workload).0).count(), &strategy(&workload)["type"]),
        (1, &json!("OnDelete")),
        "{text}"
    );
    workload.delete();
}
