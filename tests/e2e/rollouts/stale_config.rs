//! `status NAME`: pods that started before a ConfigMap or Secret was changed, until the printed command has restarted
//! them.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::NODES;
use super::cluster;
use super::program::{Run, run, run_on};
use super::workload::{Api, Workload};
use crate::support::api::Patch;

/// A value that must never be read.
const PASSWORD: &str = "correct-horse";

/// Creates a DaemonSet that uses a ConfigMap and a Secret by variables, and another ConfigMap by a volume.
fn create() -> Workload {
    let cluster = cluster();
    let namespace = cluster.namespace();
    let object = |kind: &str, name: &str, field: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data});
    let path = |resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
    cluster.api.create(&path("configmaps"), &object("ConfigMap", "level", "data", json!({"level": "info"})));
    cluster.api.create(&path("configmaps"), &object("ConfigMap", "files", "data", json!({"a": "1"})));
    cluster.api.create(&path("configmaps"), &object("ConfigMap", "unused", "data", json!({"a": "1"})));
    cluster.api.create(&path("secrets"), &object("Secret", "login", "stringData", json!({"password-of-db": PASSWORD})));
    let container = json!({
        "name": "agent", "image": "agent:1",
        "env": [{"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "level", "key": "level"}}}],
        "envFrom": [{"secretRef": {"name": "login"}}, {"configMapRef": {"name": "absent", "optional": true}}],
        "volumeMounts": [{"name": "files", "mountPath": "/etc/agent"}],
    });
    let volumes = json!([{"name": "files", "configMap": {"name": "files"}}]);
    let template = json!({"template": {"spec": {"containers": [container], "volumes": volumes}}});
    let workload = Workload::create(cluster, Api::Apps, &namespace, "agent", &template);
    workload.settle();
    workload
}

fn change(workload: &Workload, resource: &str, patch: &Value) {
    // Times have whole seconds.
    sleep(Duration::from_millis(1100));
    workload.cluster.api.patch(&format!("/api/v1/namespaces/{}/{resource}", workload.namespace), Patch::Merge, patch);
}

fn asked(workload: &Workload, more: &[&str]) -> Run {
    workload.run(&[&["status"], more].concat())
}

/// Returns of each changed object its name, whether it is refreshed, and on how many pods it is older.
fn changed(report: &Value) -> Vec<(String, bool, u64)> {
    let changed = report["daemonSets"][0]["staleConfig"]["changed"].as_array().unwrap();
    let one = |object: &Value| {
        let name = object["name"].as_str().unwrap().to_owned();
        (name, object["refreshed"].as_bool().unwrap(), object["pods"].as_u64().unwrap())
    };
    changed.iter().map(one).collect()
}

#[test]
fn pods_are_stale_from_a_change_until_the_printed_restart() {
    let workload = create();
    let is_silent = |run: Run| !run.expect(0).says("before a change of what they use");
    assert!(is_silent(asked(&workload, &[])));
    // Neither a label, nor what the DaemonSet does not use, nor what is refreshed makes a pod stale.
    let label = json!({"metadata": {"labels": {"team": "a"}}}).to_string();
    let namespace = format!("--namespace={}", workload.namespace);
    sleep(Duration::from_millis(1100));
    workload.cluster.control_plane.kubectl(&["patch", "secret", "login", "-p", &label, &namespace]);
    change(&workload, "configmaps/unused", &json!({"data": {"a": "2"}}));
    change(&workload, "configmaps/files", &json!({"data": {"a": "2"}}));
    let pods = u64::try_from(NODES).unwrap();
    let report = asked(&workload, &["-o", "json"]).expect(0).json();
    assert_eq!(changed(&report), [("files".to_owned(), true, pods)], "{report}");
    assert_eq!(report["daemonSets"][0]["staleConfig"]["stalePods"], 0, "{report}");
    assert!(is_silent(asked(&workload, &[])));

    change(&workload, "configmaps/level", &json!({"data": {"level": "debug"}}));
    // Whether the rollout is complete does not depend on it.
    let mut report = asked(&workload, &["-o", "json"]).expect(0).json();
    assert_eq!(changed(&report), [("level".to_owned(), false, pods), ("files".to_owned(), true, pods)], "{report}");
    assert_eq!(report["daemonSets"][0]["staleConfig"]["stalePods"], pods);

    // A dump tells the same of ConfigMaps, and has nothing of the Secret.
    let file = workload.cluster.control_plane.folder().join("stale-config.json");
    let file = file.to_str().unwrap();
    run_on(&workload.cluster.control_plane, &["snapshot", "-n", &workload.namespace, "-f", file]).expect(0);
    let dump = std::fs::read_to_string(file).unwrap();
    let has = |words: &str| dump.contains(words);
    assert!(
        has(r#""kind":"ConfigMap""#) && !has(r#""kind":"Secret""#) && !has("password-of-db") && !has(PASSWORD),
        "{dump}"
    );
    let mut of_dump = asked_of_dump(&workload, file);
    let [of_dump, live] = [&mut of_dump, &mut report].map(|report| report["daemonSets"][0]["staleConfig"].take());
    assert!(of_dump["unknown"].to_string().contains("login"), "{of_dump}");
    // A dump cannot tell a ConfigMap that does not exist from one that it lacks, and is not what a command changes.
    let [of_dump, live] = [of_dump, live].map(|mut stale| {
        ["fix", "unknown"].into_iter().for_each(|field| drop(stale[field].take()));
        stale
    });
    assert_eq!(of_dump, live);

    // Who may not read Secrets is told so.
    let read =
        ["daemonsets.apps", "controllerrevisions.apps", "pods", "configmaps"].map(|it| format!("--resource={it}"));
    let role =
        ["create", "role", "reader", "--verb=get,list,watch", &read[0], &read[1], &read[2], &read[3], &namespace];
    workload.cluster.control_plane.kubectl(&role);
    let binding = ["create", "rolebinding", "reader", "--role=reader", "--user=bob", &namespace];
    workload.cluster.control_plane.kubectl(&binding);
    let bob = workload.cluster.control_plane.kubeconfig_of("bob");
    // He may not read nodes either, so that it is not known whether the rollout is complete.
    let told = workload.cluster.control_plane.wait_until("bob may read", || {
        let run = workload.run_as(&bob, &["status"]);
        run.says("last change not known: Secret login").then_some(run)
    });
    told.must_say("ConfigMap level last written");
    assert!(!told.says("get secrets is forbidden"), "{told}");

    let text = asked(&workload, &[]).expect(0);
    let line =
        text.stdout.lines().find_map(|line| line.split_once("update strategy: kubectl ds ")).expect("a command").1;
    let restart = shlex::split(line).unwrap();
    assert_eq!(restart[0], "restart", "{text}");
    run(&workload.cluster.control_plane.kubeconfig(), &restart).expect(0);
    workload.settle();
    assert!(is_silent(asked(&workload, &[])));
}

fn asked_of_dump(workload: &Workload, file: &str) -> Value {
    let arguments =
        ["status", &workload.name, "-n", &workload.namespace, "--from", file, "-o", "json"].map(str::to_owned);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-ds")).args(&arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}
