//! Drills: the printed commands are pasted as they are, and judged by the number of available pods before and after.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster;
use super::program::{Run, run};
use super::workload::{Api, CRASHING, FATE, NEVER_READY, Workload};
use crate::support::api::Patch;

/// Runs a command as it was printed.
fn paste(workload: &Workload, command: &str) -> Run {
    let words = shlex::split(command).unwrap();
    assert_eq!(words[..2], ["kubectl", "ds"], "{command}");
    run(&workload.cluster.control_plane.kubeconfig(), &words[2..])
}

/// Returns the commands of the ways out that status prints.
fn ways_out(workload: &Workload) -> Vec<String> {
    let report = workload.run(&["status", "-o", "json"]).json();
    let fixes = report["daemonSets"][0]["wayOut"].as_array().unwrap_or_else(|| panic!("{report}")).clone();
    fixes.iter().filter_map(|fix| fix["command"].as_str().map(str::to_owned)).collect()
}

fn available(workload: &Workload) -> usize {
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    workload.pods().iter().filter(is_ready).count()
}

fn create() -> Workload {
    let cluster = cluster();
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    let workload =
        Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &json!({"updateStrategy": strategy}));
    workload.settle();
    workload
}

#[test]
fn a_revision_that_requests_more_than_nodes_have_is_rolled_back_and_gets_no_more_budget() {
    let workload = create();
    assert_eq!(available(&workload), 3);
    let mut template = workload.template();
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "5000"}});
    workload.set_template(&template);
    let commands = workload.cluster.control_plane.wait_until("the rollout is blocked", || {
        let commands = ways_out(&workload);
        (!commands.is_empty()).then_some(commands)
    });
    assert!(commands.iter().all(|command| command.contains(" undo ")), "{commands:?}");
    workload.run(&["set", "--max-unavailable", "2"]).expect(1).must_say("worse");
    assert_eq!(available(&workload), 2);
    paste(&workload, &commands[0]).expect(0);
    workload.settle();
    assert_eq!(available(&workload), 3);
}

#[test]
fn a_second_undo_does_not_bring_back_what_the_first_has_rolled_back() {
    let workload = create();
    // Revisions have full seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let sound = workload.template();
    let mut template = sound.clone();
    template["metadata"]["annotations"] = json!({FATE: NEVER_READY});
    workload.set_template(&template);
    workload.settle();
    let first = workload.run(&["undo"]).expect(0);
    assert!(!first.says("to undo:"), "{first}");
    workload.settle();
    assert_eq!(available(&workload), 3);
    workload.run(&["undo"]).expect(0).must_say("nothing was changed").must_say("--to-revision 2");
    workload.settle();
    assert_eq!(available(&workload), 3);
}

#[test]
fn pods_under_on_delete_are_updated_by_the_commands_that_are_printed() {
    let workload = create();
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    workload.settle();
    let run = workload.run(&["restart"]).expect(0);
    run.must_say("no pod restarts until it is deleted");
    let command = run.stdout.lines().find_map(|line| line.strip_prefix("one by one:")).unwrap().trim().to_owned();
    assert!(ways_out(&workload).iter().any(|way| way.contains(" partition ")), "{run}");
    paste(&workload, &command).expect(0);
    workload.settle();
    assert_eq!(available(&workload), 3);
    assert!(ways_out(&workload).is_empty());
    assert_eq!(workload.live()["spec"]["updateStrategy"]["type"], "OnDelete");
}

/// Rolls a template out, and makes its revision look as old as it would be after so many minutes.
fn roll_out(workload: &Workload, template: &Value, minutes_ago: i64) {
    workload.set_template(template);
    workload.settle();
    let revision = workload.revisions().pop().unwrap();
    let mut managers = revision["metadata"]["managedFields"].clone();
    let began = Timestamp::now() - SignedDuration::from_mins(minutes_ago);
    for manager in managers.as_array_mut().unwrap() {
        manager["time"] = began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    }
    let name = revision["metadata"]["name"].as_str().unwrap();
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", workload.namespace);
    // The API server keeps the times if nothing else changes.
    let aged = json!({"metadata": {"managedFields": managers, "annotations": {"aged": "true"}}});
    workload.cluster.api.patch(&path, Patch::Merge, &aged);
}

/// Rolls the first template out again, so that its revision has another number than its first: `roll_out` cannot change when a revision was
/// created, which tells when it was rolled out as long as each has its first number.
fn renumber(workload: &Workload) {
    let first = workload.template();
    for note in ["a", "b"] {
        let mut template = first.clone();
        template["metadata"]["annotations"] = json!({"note": note});
        workload.set_template(&template);
        workload.settle();
    }
    workload.set_template(&first);
    workload.settle();
    let mut revisions = workload.revisions();
    revisions.pop();
    for revision in revisions {
        let name = revision["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", workload.namespace);
        workload.cluster.api.delete(&path);
    }
}

#[test]
fn neither_undo_nor_what_is_printed_returns_to_a_revision_that_was_replaced_within_minutes() {
    let workload = create();
    workload.merge(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}}));
    renumber(&workload);
    roll_out(&workload, &workload.template(), 60);
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: CRASHING});
    roll_out(&workload, &template, 2);
    // The hasty fix does not help, so that no pod shows which revision works.
    template["spec"]["containers"][0]["image"] = "agent:2".into();
    roll_out(&workload, &template, 0);
    assert_eq!(available(&workload), 0);
    let commands = ways_out(&workload);
    assert!(commands.iter().any(|command| command.contains("undo --to-revision 4")), "{commands:?}");
    workload.run(&["undo", "--to-revision=5", "--dry-run"]).expect(0).must_say("revision 5 may not work");
    workload.run(&["undo"]).expect(0).must_say("revision 5 was replaced after 2m");
    workload.settle();
    assert_eq!((available(&workload), workload.image()), (3, "agent:1".into()));
}

/// A node whose pods are deleted by hand keeps crashing pods of a revision that was given up.
#[test]
fn undo_does_not_return_to_a_revision_whose_pods_fail() {
    let workload = create();
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    roll_out(&workload, &workload.template(), 120);
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: CRASHING});
    roll_out(&workload, &template, 60);
    for pod in workload.pods() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        workload.cluster.api.delete(&format!("/api/v1/namespaces/{}/pods/{name}", workload.namespace));
    }
    workload.settle();
    assert_eq!(available(&workload), 0);
    template["spec"]["containers"][0]["image"] = "agent:2".into();
    roll_out(&workload, &template, 0);
    workload.run(&["undo"]).expect(0).must_say("revision 2 has 3 failing pods");
    assert_eq!(workload.image(), "agent:1");
}

#[test]
fn a_bare_pod_that_holds_the_host_port_is_named_and_deleting_it_ends_the_trouble() {
    let cluster = cluster();
    let namespace = cluster.namespace();
    let ports = json!([{"containerPort": 9100, "hostPort": 19100}]);
    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old-exporter"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "exporter", "image": "exporter:1", "ports": ports}]}});
    cluster.api.create(&format!("/api/v1/namespaces/{namespace}/pods"), &bare);
    let containers = json!([{"name": "agent", "image": "agent:1", "ports": ports}]);
    let more = json!({"template": {"spec": {"containers": containers}}});
    let workload = Workload::create(cluster, Api::Apps, &namespace, "agent", &more);
    let control_plane = &cluster.control_plane;
    let run = control_plane.wait_until("the scheduler has met the bare pod", || {
        let run = workload.run(&["coverage"]);
        (available(&workload) == 2 && run.says("HostPortConflict")).then_some(run)
    });
    run.must_say("a bare pod");
    run.must_say("delete it if nobody needs it");
    let command = run.stdout.lines().find_map(|line| Some(&line[line.find("kubectl describe pod")?..])).unwrap();
    let words = shlex::split(command).unwrap();
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    assert!(control_plane.kubectl(&arguments).contains("old-exporter"), "{run}");
    cluster.api.delete(&format!("/api/v1/namespaces/{namespace}/pods/old-exporter"));
    workload.settle();
    assert_eq!(available(&workload), 3);
    workload.run(&["coverage", "--exit-code"]).expect(0);
}

#[test]
fn who_may_not_read_nodes_still_learns_what_crashes_and_that_selectors_overlap() {
    let workload = create();
    let (namespace, api) = (&workload.namespace, &workload.cluster.api);
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let reads = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]});
    let rules = [reads("apps", &["daemonsets", "controllerrevisions"]), reads("", &["pods", "events"])];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules});
    api.create(&format!("{rbac}/roles"), &role);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    api.create(&format!("{rbac}/rolebindings"), &binding);
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: CRASHING});
    workload.set_template(&template);
    let control_plane = &workload.cluster.control_plane;
    let alice = control_plane.kubeconfig_of("alice");
    let crashing = control_plane.wait_until("a pod crashes", || {
        let status = workload.run_as(&alice, &["status"]);
        // The controller counts the new pod in its status a moment later.
        (status.says("CrashLooping") && status.says("1 of 3 nodes")).then_some(status)
    });
    crashing.must_say("not complete by its status: 1 of 3 nodes").must_say("container agent crashes");
    crashing.must_say("list nodes is forbidden");
    assert!(!crashing.says("status unknown") && !crashing.says("returned no nodes"), "{crashing}");

    let app = json!({"app": "agent"});
    let more = json!({"selector": {"matchLabels": app}, "template": {"metadata": {"labels": app}}});
    Workload::create(workload.cluster, Api::Apps, namespace, "twin", &more);
    let both = control_plane.wait_until("both are listed", || {
        let list = run(&control_plane.kubeconfig(), &["list", "-n", namespace, "-o", "json"].map(str::to_owned));
        (list.json()["daemonSets"].as_array().map(Vec::len) == Some(2)).then_some(list)
    });
    assert!(both.says("SelectorOverlap") && !both.says("\"Healthy\""), "{both}");
}

/// Returns the UIDs of the pods by node, and their images.
fn by_node(workload: &Workload) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = workload.pods().into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods.map(|pod| {
        (text(&pod["spec"]["nodeName"]), (text(&pod["metadata"]["uid"]), text(&pod["spec"]["containers"][0]["image"])))
    })
    .collect()
}

fn delete_pod_on(workload: &Workload, node: &str) {
    let pod = workload.pods().into_iter().find(|pod| pod["spec"]["nodeName"] == node).unwrap();
    let name = pod["metadata"]["name"].as_str().unwrap();
    workload.cluster.api.delete(&format!("/api/v1/namespaces/{}/pods/{name}", workload.namespace));
    workload.settle();
}

/// Whoever deletes pods chooses the nodes: a node that was left on revision 1 on purpose stays there, whatever is rolled back.
#[test]
fn a_rollback_under_on_delete_replaces_no_pod_that_was_left_on_an_older_revision() {
    let workload = create();
    workload.merge(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    workload.set_image("agent:2");
    workload.wait_until_observed();
    let nodes: Vec<String> = by_node(&workload).into_keys().collect();
    nodes[..2].iter().for_each(|node| delete_pod_on(&workload, node));
    let before = by_node(&workload);
    let image = |node: &String| by_node(&workload)[node].1.clone();
    assert_eq!(nodes.iter().map(image).collect::<Vec<_>>(), ["agent:2", "agent:2", "agent:1"]);
    let is_as_before = || {
        workload.settle();
        assert_eq!(available(&workload), 3);
        assert_eq!(by_node(&workload)[&nodes[0]].1, "agent:2");
        assert_eq!([1, 2].map(|at| by_node(&workload)[&nodes[at]] == before[&nodes[at]]), [true, true]);
        let live = workload.live();
        assert_eq!(live["spec"]["updateStrategy"]["type"], "OnDelete");
        assert!(!live["metadata"]["annotations"].to_string().contains("kubectl-ds/"), "{live}");
    };
    let first = format!("--nodes={}", nodes[0]);
    let stage =
        |flags: &[&str]| workload.run(&[&["partition", "--update=1", "--image=agent=agent:3", &first], flags].concat());
    let undone = stage(&["--verify=false", "--on-failure=undo"]).expect(3);
    undone
        .must_say("rolling the updated nodes back to revision 2")
        .must_say("only pods of the revision that is rolled back");
    is_as_before();

    // What a stage prints to go back, what status prints once only the template is rolled back, and a rollback without a number.
    let complete = stage(&[]).expect(0);
    let back = complete.stdout.lines().find_map(|line| line.strip_prefix("to roll back:")).unwrap().trim();
    paste(&workload, back).expect(0);
    is_as_before();
    stage(&[]).expect(0);
    workload.run(&["undo", "--no-wait"]).expect(0);
    workload.wait_until_observed();
    let number = workload.revisions().last().map(super::workload::number).unwrap();
    workload.run(&["undo", &format!("--to-revision={number}")]).expect(0);
    is_as_before();
    stage(&[]).expect(0);
    workload.run(&["undo"]).expect(0);
    is_as_before();
}

/// Returns the commands of the program that a run prints.
fn printed(run: &Run) -> Vec<String> {
    let text = format!("{}\n{}", run.stdout, run.stderr).replace("\\\n", " ");
    text.lines().filter_map(|line| Some(line[line.find("kubectl ds ")?..].trim().to_owned())).collect()
}

/// Rolls out pods of which the kubelets make something else than a running pod, and the printed rollback ends that.
#[test]
fn a_revision_whose_pods_do_not_start_or_are_evicted_is_named_and_rolled_back_as_printed() {
    const NO_IMAGE: &str = "phase: Pending\ncontainerStatuses:\n- name: agent\n  image: agent\n  imageID: ''\n  ready: false\n  \
         restartCount: 0\n  state:\n    waiting:\n      reason: ImagePullBackOff\n      message: Back-off pulling image\n";
    const EVICTED: &str = "phase: Failed\nreason: Evicted\nmessage: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.\n";
    for (fate, code) in [(NO_IMAGE, "ImagePullFailed"), (EVICTED, "Evicted")] {
        let workload = create();
        let mut template = workload.template();
        template["metadata"]["annotations"] = json!({FATE: fate});
        template["spec"]["containers"][0]["image"] = "agent:2".into();
        workload.set_template(&template);
        let status = workload.cluster.control_plane.wait_until("the rollout is blocked", || {
            let status = workload.run(&["status"]);
            (status.says(code) && printed(&status).iter().any(|command| command.contains(" undo "))).then_some(status)
        });
        // More budget would spread it.
        assert!(!status.says("--max-unavailable") && !status.says("kubectl edit"), "{status}");
        status.must_say("revision 2");
        assert_eq!(available(&workload), 2, "{status}");
        let undo = printed(&status).into_iter().find(|command| command.contains(" undo ")).unwrap();
        paste(&workload, &undo).expect(0);
        workload.settle();
        assert_eq!((available(&workload), workload.image()), (3, "agent:1".into()), "{code}");
        assert!(ways_out(&workload).is_empty(), "{code}");
    }
}

#[test]
fn what_set_and_pause_print_is_taken_and_costs_no_available_pod() {
    let workload = create();
    let strategy = |workload: &Workload| workload.live()["spec"]["updateStrategy"].take();
    let before = strategy(&workload);
    let set = workload.run(&["set", "--max-unavailable=50%"]).expect(0);
    let [revert] = &printed(&set)[..] else { panic!("{set}") };
    paste(&workload, revert).expect(0);
    assert_eq!(strategy(&workload), before, "{set}");

    // Of two pods of the same second, the controller deletes one by its name.
    thread::sleep(Duration::from_millis(1_100));
    // A surge that is stuck: there is no end of the rollout to wait for.
    let surge = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    workload.merge(&json!({"spec": {"updateStrategy": surge}}));
    let mut template = workload.template();
    template["metadata"]["annotations"] = json!({FATE: CRASHING});
    workload.set_template(&template);
    let pause = workload.cluster.control_plane.wait_until("the surge is stuck", || {
        let pause = workload.run(&["pause"]);
        (pause.code == Some(1) && pause.says("the rollout is stuck")).then_some(pause)
    });
    assert!(!pause.says("wait until"), "{pause}");
    let [at_once] = &printed(&pause)[..] else { panic!("{pause}") };
    paste(&workload, at_once).expect(0);
    workload.settle();
    assert_eq!((available(&workload), &strategy(&workload)["type"]), (3, &json!("OnDelete")), "{pause}");
    workload.run(&["undo"]).expect(0);
    workload.settle();
    assert_eq!((available(&workload), strategy(&workload)), (3, surge));
    assert!(ways_out(&workload).is_empty());
}

/// A revision that no node ever got is no way back.
#[test]
fn a_stage_whose_pods_are_refused_goes_back_to_the_revision_that_runs() {
    let cluster = cluster();
    let namespace = cluster.namespace();
    let container = |cpu: &str| json!({"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": cpu}}});
    let more = json!({"template": {"spec": {"containers": [container("100m")]}}});
    let workload = Workload::create(cluster, Api::Apps, &namespace, "agent", &more);
    workload.settle();
    let quotas = format!("/api/v1/namespaces/{namespace}/resourcequotas");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"requests.cpu": "300m"}}});
    cluster.api.create(&quotas, &quota);
    let control_plane = &cluster.control_plane;
    control_plane.wait_until("the quota has counted the pods", || {
        (cluster.api.get(&format!("{quotas}/few"))["status"]["used"]["requests.cpu"] == "300m").then_some(())
    });
    let mut template = workload.template();
    template["spec"]["containers"][0] = container("200m");
    workload.set_template(&template);
    control_plane.wait_until("the pods are refused", || workload.run(&["status"]).says("QuotaExceeded").then_some(()));
    let stopped = workload.run(&["partition", "50%", "--image=agent=agent:3", "--progress-deadline=10s"]).expect(3);
    let back = |run: &Run| {
        let commands = printed(run).into_iter().filter(|command| command.contains("--to-revision"));
        commands.collect::<Vec<_>>()
    };
    let [of_stage] = &back(&stopped)[..] else { panic!("{stopped}") };
    assert!(of_stage.contains("--to-revision 1 "), "{stopped}");
    // The controller may try to create pods once more.
    let ways = control_plane
        .wait_until("a way back is printed", || Some(back(&workload.run(&["status"]))).filter(|ways| !ways.is_empty()));
    assert_eq!(ways, std::slice::from_ref(of_stage));
    assert_eq!(available(&workload), 2);
    paste(&workload, of_stage).expect(0);
    workload.settle();
    assert_eq!((available(&workload), workload.image()), (3, "agent:1".into()));
    assert!(ways_out(&workload).is_empty());
}
