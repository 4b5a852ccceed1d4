//! `partition --stages` on 200 nodes of six strata, with a revision that fails on one kernel.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::partition::{annotations, strategy, wait_until_available_on};
use super::program::program;
use super::workload::{Api, FATE, Workload};
use super::{Cluster, Shared};
use crate::support::api::Patch;

const NODES: usize = 200;

/// How many nodes have the kernel on which the new revision crashes.
const BAD: usize = 10;

/// The old revision runs everywhere, also where the stand-in for the kubelets lets other pods crash.
const RUNNING: &str = "phase: Running\nconditions:\n- type: Ready\n  status: 'True'\n  lastTransitionTime: NOW\n\
     - type: ContainersReady\n  status: 'True'\n  lastTransitionTime: NOW\ncontainerStatuses:\n- name: agent\n  image: agent\n  \
     imageID: ''\n  ready: true\n  started: true\n  restartCount: 0\n  state:\n    running:\n      startedAt: NOW\n";

/// Returns a control plane of its own, with nodes that differ in zone, architecture, OS image, kernel, runtime and instance type.
fn cluster() -> &'static Cluster {
    static SHARED: Shared = Shared::new();
    let cluster = SHARED.with_nodes(0);
    static MADE: std::sync::Once = std::sync::Once::new();
    MADE.call_once(|| {
        for number in 0..NODES {
            let (zone, instance_type) = (["a", "b", "c"][number % 3], ["m5", "m6", "c6"][number / 3 % 3]);
            let labels = json!({
                "topology.kubernetes.io/zone": zone,
                "kubernetes.io/arch": if number % 50 == 7 { "arm64" } else { "amd64" },
                "node.kubernetes.io/instance-type": instance_type,
            });
            cluster.add_node(&name(number), &labels, &json!([]));
        }
        cluster.control_plane.wait_until("the nodes are ready", || {
            let nodes = cluster.api.items("/api/v1/nodes");
            nodes.iter().all(|node| node["spec"]["taints"].is_null()).then_some(())
        });
        for number in 0..NODES {
            let info = json!({
                "kernelVersion": if number < NODES - BAD { "6.1.0" } else { "6.8.0" },
                "osImage": if number % 2 == 0 { "Ubuntu 24.04" } else { "Flatcar 4230" },
                "containerRuntimeVersion": if number % 20 == 3 { "containerd://1.7" } else { "containerd://2.1" },
            });
            let path = format!("/api/v1/nodes/{}/status", name(number));
            cluster.api.patch(&path, Patch::Merge, &json!({"status": {"nodeInfo": info}}));
        }
    });
    cluster
}

fn name(number: usize) -> String {
    if number < NODES - BAD { format!("node-{number}") } else { format!("node-bad-{number}") }
}

/// Returns the UID and the image of the pod of each node.
fn pods(workload: &Workload) -> BTreeMap<String, (String, String)> {
    let mut pods = workload.pods();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |pod: &Value| {
        let image = text(&pod["spec"]["containers"][0]["image"]);
        (text(&pod["spec"]["nodeName"]), (text(&pod["metadata"]["uid"]), image))
    };
    pods.iter().map(row).collect()
}

/// One kernel of 200 nodes is enough to find, and nobody has to watch.
#[test]
fn a_revision_that_fails_on_one_kernel_stops_at_one_pod_and_undoes_itself_although_its_client_is_killed() {
    let cluster = cluster();
    let strategy_before = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    let metadata = json!({"labels": {"app": "agent"}, "annotations": {FATE: RUNNING}});
    let spec = json!({"updateStrategy": strategy_before, "template": {"metadata": metadata}});
    let workload = Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &spec);
    wait_until_available_on(NODES, &workload);
    let (before, original) = (pods(&workload), strategy(&workload));
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("agent.json");
    let new = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": workload.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": "agent:2"}]}},
        },
    });
    std::fs::write(&manifest, new.to_string()).unwrap();
    let manifest = manifest.to_str().unwrap();
    let stages = "--stages=canary,10%,50%,100%";
    let arguments =
        ["partition", "0", "-f", manifest, stages, "--soak=1s", "--on-failure=undo", "--progress-deadline=60s"];
    let planned = workload.run(&[&arguments[..], &["--dry-run", "-o", "json"]].concat()).expect(0).json();
    let canary = planned["staged"]["canary"].as_array().unwrap();
    let stands_for: Vec<&str> =
        canary.iter().flat_map(|one| one["standsFor"].as_array().unwrap()).filter_map(Value::as_str).collect();
    assert!(stands_for.contains(&"kernel 6.8.0") && stands_for.contains(&"arch arm64"), "{stands_for:?}");
    assert_eq!(stands_for.len(), 3 + 2 + 2 + 2 + 2 + 3, "{stands_for:?}");
    assert!(canary.len() <= 6, "{canary:?}");

    // The first client has written its plan, and the second one has replaced a pod.
    let is_updated = |image: &String| image == "agent:2";
    let updated = || pods(&workload).values().filter(|(_, image)| is_updated(image)).count();
    let conditions: [&dyn Fn() -> bool; 2] = [&|| !annotations(&workload).is_empty(), &|| updated() > 0];
    for is_far_enough in conditions {
        let mut command = program(&cluster.control_plane.kubeconfig(), &workload.arguments(&arguments));
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        cluster.control_plane.wait_until("the client is far enough to be killed", || is_far_enough().then_some(()));
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let status = workload.run(&["status"]);
    status.must_say("stages: canary now").must_say("--stages 'canary,10%,50%,100%'");
    let run = workload.run(&arguments).expect(3);
    run.must_say("CrashLooping").must_say("node-bad-").must_say("rolling the updated nodes back to revision 1");

    std::thread::sleep(Duration::from_secs(1));
    let after = pods(&workload);
    assert_eq!((after.len(), after.values().filter(|(_, image)| is_updated(image)).count()), (NODES, 0), "{run}");
    let replaced: Vec<&String> = before.iter().filter(|(node, pod)| after[*node].0 != pod.0).map(|one| one.0).collect();
    assert_eq!(replaced.iter().filter(|node| node.contains("-bad-")).count(), 1, "{replaced:?} {run}");
    assert!(replaced.len() <= canary.len(), "{replaced:?} {run}");
    assert_eq!((strategy(&workload), annotations(&workload)), (original, Vec::<String>::new()), "{run}");
}

/// Returns the path of the collection of an object.
fn collection(object: &Value) -> String {
    let api = match object["apiVersion"].as_str().unwrap() {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{api}/namespaces/{namespace}/{kind}s"),
        None => format!("{api}/{kind}s"),
    }
}

/// What a run that nothing happens to does without: whom a failure is blamed on, a pod whose deletion had no answer, a node that no list
/// has, and an event that tells others of the run.
const FOR_FAILURES: [&str; 5] = ["get leases", "list events", "get pods", "get nodes", "create events"];

/// Returns the rules without one verb of one resource, and what that is, for each of them.
fn each_without_one(rules: &[Value]) -> Vec<(Vec<Value>, String)> {
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let mut all = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        for (resource, verb) in texts(&rule["resources"])
            .into_iter()
            .flat_map(|it| texts(&rule["verbs"]).into_iter().map(move |verb| (it.clone(), verb)))
        {
            let mut fewer = rules.to_vec();
            let of_resource = |it: &String| {
                let verbs = texts(&rule["verbs"]).into_iter().filter(|other| *it != resource || *other != verb);
                json!({"apiGroups": rule["apiGroups"], "resources": [it], "verbs": verbs.collect::<Vec<_>>()})
            };
            let split = texts(&rule["resources"])
                .iter()
                .map(of_resource)
                .filter(|it| it["verbs"] != json!([]))
                .collect::<Vec<_>>();
            fewer.splice(at..=at, split);
            all.push((fewer, format!("{verb} {resource}")));
        }
    }
    all
}

/// The permissions are enough, and each verb is needed: without it, the run fails, or says what it does not know.
#[test]
fn the_job_that_is_printed_has_the_permissions_that_it_needs_and_none_in_vain() {
    let cluster = super::cluster();
    let workload = Workload::create(cluster, Api::Apps, &cluster.namespace(), "agent", &json!({}));
    wait_until_available_on(super::NODES, &workload);
    let printed = workload
        .run(&["partition", "0", "--stages=canary,100%", "--image=agent=agent:2", "--as-job=kubectl-ds:1", "--soak=1s"])
        .expect(0);
    assert!(annotations(&workload).is_empty(), "it is only printed: {printed}");
    let list: Value = serde_saphyr::from_str(&printed.stdout).unwrap();
    let objects = list["items"].as_array().unwrap();
    for object in objects.iter().filter(|object| object["kind"] != "ServiceAccount") {
        cluster.api.create(&collection(object), object);
    }
    let account = &objects[0];
    cluster.api.create(&collection(account), account);
    let path = format!("{}/{}/token", collection(account), account["metadata"]["name"].as_str().unwrap());
    let token = cluster
        .api
        .create(&path, &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}));
    let kubeconfig = std::fs::read_to_string(cluster.control_plane.kubeconfig_of("alice")).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    kubeconfig["users"][0]["user"]["token"] = token["status"]["token"].clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let job = objects.iter().find(|object| object["kind"] == "Job").unwrap();
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "kubectl-ds:1");
    let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    let at = arguments.iter().position(|word| word == "--if-generation").unwrap();
    let attempt = |image: &str| {
        let arguments = arguments.iter().map(|word| word.replace("agent:2", image));
        // The others begin where this one has ended.
        let is_first = image == "agent:2";
        let arguments = arguments.enumerate().filter(|(number, _)| is_first || !(at..at + 2).contains(number));
        let arguments: Vec<String> = arguments.map(|(_, word)| word).collect();
        super::program::run(&file, &arguments)
    };
    let run = attempt("agent:2").expect(0);
    assert_eq!((run.stderr.as_str(), workload.image()), ("", json!("agent:2")), "{run}");
    let (mut number, mut in_vain) = (2, Vec::new());
    for role in objects.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Role")) {
        let path = format!("{}/{}", collection(role), role["metadata"]["name"].as_str().unwrap());
        let rules = role["rules"].as_array().unwrap();
        for (fewer, left_out) in each_without_one(rules) {
            cluster.api.patch(&path, Patch::Merge, &json!({"rules": fewer}));
            number += 1;
            let run = attempt(&format!("agent:{number}"));
            in_vain.extend(
                (run.code == Some(0) && run.stderr.is_empty() && !FOR_FAILURES.contains(&&*left_out))
                    .then_some(left_out),
            );
            cluster.api.patch(&path, Patch::Merge, &json!({"rules": rules}));
            attempt(&format!("agent:{number}")).expect(0);
        }
    }
    assert!(in_vain.is_empty(), "not needed: {in_vain:?}");
}
