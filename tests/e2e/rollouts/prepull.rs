//! `partition --prepull` with the real Job controllers, images that cannot be pulled, and clients that are killed.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::partition::{NODES, annotations, create, pods, wait_until_available};
use super::program::program;
use super::workload::{Api, Workload};
use crate::support::interceptor::Interceptor;

fn jobs(workload: &Workload) -> Vec<Value> {
    workload.cluster.api.items(&format!("/apis/batch/v1/namespaces/{}/jobs", workload.namespace))
}

/// Returns the pods that pull images.
fn pulling(workload: &Workload) -> Vec<Value> {
    let selector = format!("kubectl-ds%2Fprepull={}", workload.live()["metadata"]["uid"].as_str().unwrap());
    let namespace = &workload.namespace;
    workload.cluster.api.items(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"))
}

fn wait_until_nothing_is_left(workload: &Workload) {
    let is_gone = || (jobs(workload).is_empty() && pulling(workload).is_empty()).then_some(());
    workload.cluster.control_plane.wait_until("no Job and no pod of one is left", is_gone);
}

/// What a stage that does not begin must not have changed.
fn untouched(workload: &Workload) -> (Value, Vec<String>, BTreeSet<String>) {
    let live = workload.live();
    (live["spec"].clone(), annotations(workload), pods(workload).0)
}

#[test]
fn images_are_pulled_on_the_nodes_of_a_stage_before_anything_else_is_written() {
    let workload = create(Api::Apps, &json!(4));
    let interceptor = Interceptor::start(workload.cluster.api, workload.cluster.control_plane.folder(), |_, _| {});
    let run = workload.run_as(
        interceptor.kubeconfig(),
        &["partition", "--update=12", "--image=agent=agent:2", "--prepull", "-o", "json"],
    );
    let run = run.expect(0);
    let report = run.json();
    assert_eq!(report["prepull"]["images"], json!(["agent:2"]), "{run}");
    // A dry run writes nothing.
    let mut writes = interceptor.writes();
    writes.retain(|write| !write.path.contains("dryRun=All"));
    let is_job = |path: &str| path.contains("/jobs");
    let first_other = writes.iter().position(|write| !is_job(&write.path)).unwrap();
    let (pulls, rest) = writes.split_at(first_other);
    assert!(!rest.iter().any(|write| is_job(&write.path)), "{rest:?}");
    let created: Vec<Value> = pulls
        .iter()
        .filter(|write| write.method == "POST")
        .map(|write| serde_json::from_str(&write.body).unwrap())
        .collect();
    // The plan is what was sent.
    assert_eq!(report["prepull"]["job"], created[0]);
    let nodes: BTreeSet<&str> =
        created.iter().map(|job| job["spec"]["template"]["spec"]["nodeName"].as_str().unwrap()).collect();
    let replaced = report["outcome"]["replaced"].as_array().unwrap();
    assert_eq!(nodes, replaced.iter().map(|node| node.as_str().unwrap()).collect());
    assert_eq!((created.len(), pulls.len(), pods(&workload).1), (12, 24, 12), "{run}");
    wait_until_nothing_is_left(&workload);
    // Without that flag there are no Jobs.
    let dry = workload.run(&["partition", "0", "--dry-run", "-o", "json"]).expect(0).json();
    assert!(dry["prepull"].is_null(), "{dry}");
    workload.run(&["partition", "0", "--prepull"]).expect(0).must_say("has the images after");
    assert_eq!(pods(&workload).1, NODES);
}

#[test]
fn an_image_that_cannot_be_pulled_stops_a_stage_before_any_change() {
    let workload = create(Api::Apps, &json!(4));
    // Pods that pull images satisfy the strictest standard, although the DaemonSet's do not.
    let enforced = "pod-security.kubernetes.io/enforce=restricted";
    workload.cluster.control_plane.kubectl(&["label", "namespace", &workload.namespace, enforced]);
    let before = untouched(&workload);
    let image = "--image=agent=agent-cannot-pull:2";
    for more in [&[][..], &["--on-failure=undo"]] {
        let run = workload.run(&[&["partition", "--update=3", image, "--prepull"], more].concat()).expect(3);
        run.must_say("stopped before any change")
            .must_say("ImagePullFailed: cannot pull agent-cannot-pull:2 (ErrImagePull): failed to resolve reference");
        assert!(!run.says("rolling the updated nodes back") && !run.says("to roll back:"), "{run}");
        assert_eq!(untouched(&workload), before, "{run}");
        wait_until_nothing_is_left(&workload);
    }
    let slow = "--image=agent=agent-slow-pull:2";
    let run = workload.run(&["partition", "--update=1", slow, "--prepull", "--progress-deadline=3s", "-o", "json"]);
    let run = run.expect(3);
    let failure = &run.json()["outcome"]["failures"][0];
    assert_eq!((&failure["gate"], &failure["node"]), (&json!("Prepull"), &run.json()["nodes"][0]), "{run}");
    assert_eq!(untouched(&workload), before, "{run}");
    wait_until_nothing_is_left(&workload);
}

#[test]
fn a_stage_does_not_begin_without_the_permission_or_the_quota_to_pull_images() {
    let workload = create(Api::Apps, &json!(4));
    let control_plane = &workload.cluster.control_plane;
    let before = untouched(&workload);
    let arguments = ["partition", "--update=3", "--image=agent=agent:2", "--prepull"];

    let namespace = format!("--namespace={}", workload.namespace);
    let resources = "--resource=nodes,pods,daemonsets.apps,controllerrevisions.apps";
    let role = format!("no-jobs-{}", workload.namespace);
    control_plane.kubectl(&["create", "clusterrole", &role, "--verb=get,list,watch,patch,delete", resources]);
    control_plane.kubectl(&["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), "--user=alice"]);
    let alice = control_plane.kubeconfig_of("alice");
    control_plane.wait_until("alice may do the rest", || {
        let run = workload.run_as(&alice, &["partition", "--update=3", "--dry-run"]);
        (run.code == Some(0)).then_some(())
    });
    let run = workload.run_as(&alice, &arguments).expect(1);
    run.must_say("jobs.batch is forbidden");
    assert_eq!(untouched(&workload), before, "{run}");
    let list = ["create", "role", "list-jobs", "--verb=list", "--resource=jobs.batch", &namespace];
    control_plane.kubectl(&list);
    control_plane.kubectl(&["create", "rolebinding", "list-jobs", "--role=list-jobs", "--user=alice", &namespace]);
    let run = control_plane.wait_until("alice may list Jobs", || {
        let run = workload.run_as(&alice, &arguments);
        run.says("cannot create resource \"jobs\"").then_some(run)
    });
    run.expect(1).must_say("no pod was deleted, and the DaemonSet was not changed");
    assert_eq!(untouched(&workload), before);

    let hard = format!("--hard=pods={NODES}");
    control_plane.kubectl(&["create", "quota", "full", &hard, &namespace]);
    let quota = format!("/api/v1/namespaces/{}/resourcequotas/full", workload.namespace);
    control_plane.wait_until("the quota is used up", || {
        let used = &workload.cluster.api.get(&quota)["status"]["used"]["pods"];
        (used.as_str() == Some(&NODES.to_string())).then_some(())
    });
    let run = workload.run(&arguments).expect(3);
    run.must_say("exceeded quota: full");
    assert_eq!(untouched(&workload), before, "{run}");
    wait_until_nothing_is_left(&workload);
}

/// Returns a client whose nodes pull for longer than it is waited for.
fn stuck_client(workload: &Workload, deadline: &str) -> Child {
    let deadline = format!("--progress-deadline={deadline}");
    let arguments = ["partition", "--update=15", "--image=agent=agent-slow-pull:2", "--prepull", &deadline];
    let mut command = program(&workload.cluster.control_plane.kubeconfig(), &workload.arguments(&arguments));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // No more than ten at a time.
    let all_pull = || (pulling(workload).len() == 10).then_some(());
    workload.cluster.control_plane.wait_until("ten nodes pull", all_pull);
    assert_eq!(jobs(workload).len(), 10);
    child
}

#[test]
fn jobs_of_a_client_that_is_killed_are_deleted_by_the_next_one_or_by_the_cluster() {
    let killed = |deadline: &str| {
        let workload = create(Api::Apps, &json!(4));
        let before = untouched(&workload);
        let mut child = stuck_client(&workload, deadline);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(untouched(&workload), before);
        workload
    };
    let by_itself = killed("5s");
    let with_its_owner = killed("10m");
    let by_the_next = killed("10m");
    with_its_owner.delete();
    let run = by_the_next.run(&["partition", "0", "--image=agent=agent:2", "--prepull"]).expect(0);
    assert_eq!((pods(&by_the_next).1, annotations(&by_the_next).len()), (NODES, 0), "{run}");
    wait_until_available(&by_the_next);
    wait_until_nothing_is_left(&by_the_next);
    wait_until_nothing_is_left(&by_itself);
    let is_gone = || jobs(&with_its_owner).is_empty().then_some(());
    with_its_owner.cluster.control_plane.wait_until("the Jobs of a deleted DaemonSet are deleted", is_gone);
}

#[test]
fn an_interruption_while_images_are_pulled_deletes_the_jobs() {
    let workload = create(Api::Apps, &json!(4));
    let before = untouched(&workload);
    let child = stuck_client(&workload, "10m");
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("no pod was deleted, and the DaemonSet was not changed"), "{error}");
    // Their pods end a moment later.
    assert_eq!(jobs(&workload).len(), 0, "{error}");
    assert_eq!(untouched(&workload), before, "{error}");
    wait_until_nothing_is_left(&workload);
}
