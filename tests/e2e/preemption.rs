//! Predictions of preemption, compared with what the real scheduler does.

use serde_json::{Value, json};

use super::rollouts::program::{run, run_on};
use crate::support::control_plane::{ControlPlane, Options, Part};

fn workload(name: &str, node: &str, class: &str) -> String {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name},
            "finalizers": ["example.com/still-here"]},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "3"}}}],
        },
    });
    if !class.is_empty() {
        pod["spec"]["priorityClassName"] = class.into();
    }
    pod.to_string()
}

fn agent(class: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "priorityClassName": class,
                    "containers": [{"name": "agent", "image": "agent", "resources": {"requests": {"cpu": "2"}}}],
                },
            },
        },
    })
}

/// Returns the reasons of a node's pod, and what to do.
fn said(report: &Value, node: &str) -> (String, String) {
    let nodes = report["daemonSets"][0]["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|one| one["name"] == node).unwrap();
    let all = |pointer: &str| -> String {
        let reasons = node["reasons"].as_array().unwrap().iter();
        reasons.map(|reason| reason.pointer(pointer).unwrap().as_str().unwrap().to_owned() + "\n").collect()
    };
    (all("/message"), all("/fix/advice"))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn the_scheduler_preempts_whom_the_report_names_and_never_an_equal() {
    let cluster = ControlPlane::start(Options::whole());
    for name in ["lower", "equal"] {
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"type": "kwok", "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
        cluster.create(&node.to_string());
    }
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000});
    cluster.create(&class.to_string());
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web-lower"}}}});
    cluster.create(&budget.to_string());
    cluster.create(&workload("web-lower", "lower", ""));
    cluster.create(&workload("web-equal", "equal", "high"));
    cluster.wait_until("the workloads run", || {
        let pods = cluster.items(&["pods", "-n", "default"]);
        (pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")).then_some(())
    });

    // What would be, before the DaemonSet exists.
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("agent.json");
    let preview = |class: &str, code: i32| {
        std::fs::write(&manifest, agent(class).to_string()).unwrap();
        let file = manifest.to_str().unwrap();
        run_on(&cluster, &["preview", "-f", file, "--exit-code", "-o", "json"]).expect(code).json()["daemonSets"][0]
            .take()
    };
    let report = preview("high", 3);
    assert_eq!(names(&report["fitsByPreemption"][0]["nodes"]), ["lower"]);
    let lower = report["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "lower").unwrap();
    let victim = json!({"namespace": "default", "name": "web-lower", "priority": 0, "violatesDisruptionBudget": true});
    assert_eq!((&lower["fits"], &lower["preemption"]), (&json!(true), &json!({"pods": [victim], "someOf": []})));
    assert_eq!(names(&report["doesNotFit"][0]["nodes"]), ["equal"]);
    let report = preview("system-node-critical", 0);
    assert_eq!(report["fitsByPreemption"][0]["count"], 2, "{report}");

    // What is missing is named, and the only possible victim is certain.
    let resources = "nodes,pods,events,limitranges,daemonsets.apps,controllerrevisions.apps,leases.coordination.k8s.io,\
                     runtimeclasses.node.k8s.io,priorityclasses.scheduling.k8s.io";
    let role = ["create", "clusterrole", "reader", "--verb=get,list,watch"];
    cluster.kubectl(&[&role[..], &[&format!("--resource={resources}")]].concat());
    cluster.kubectl(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=bob"]);

    // With the scheduler stopped, nobody acts on what is said.
    cluster.stop_part(Part::Scheduler);
    cluster.create(&agent("high").to_string());
    cluster.wait_until("the pods are made", || {
        (cluster.get(&["ds", "agent"])["status"]["currentNumberScheduled"] == 2).then_some(())
    });
    let coverage = ["coverage", "agent", "-n", "default", "-o", "json"];
    // It has not reported on the pods.
    let preempts = "preempting default/web-lower (priority 0, against a PodDisruptionBudget) would make room";
    let equal = "the pod stays Pending: no pod on the node has a lower priority (equal priority never preempts)";
    let check = |report: &Value| {
        let (message, _) = said(report, "lower");
        assert!(message.contains(preempts), "{message}");
        let (message, advice) = said(report, "equal");
        assert!(message.contains(equal), "{message}");
        // Nothing would recreate the bare pod.
        assert!(!advice.contains("priority"), "{advice}");
    };
    check(&run_on(&cluster, &coverage).expect(0).json());
    let arguments: Vec<String> = coverage.iter().map(|argument| (*argument).to_owned()).collect();
    let report = cluster.wait_until("bob may read", || {
        let ended = run(&cluster.kubeconfig_of("bob"), &arguments);
        (ended.code == Some(0)).then(|| ended.json())
    });
    assert!(said(&report, "lower").0.contains("preempting default/web-lower (priority 0) would make room"), "{report}");
    let missing = report["incomplete"].as_array().unwrap().iter().map(|gap| gap["permission"].as_str().unwrap());
    assert_eq!(missing.collect::<Vec<_>>(), ["list poddisruptionbudgets.policy"]);
    let dump = folder.path().join("dump.json");
    let dump = dump.to_str().unwrap();
    run_on(&cluster, &["snapshot", "-n", "default", "--file", dump]).expect(0);
    check(&run_on(&cluster, &["coverage", "agent", "--from", dump, "-o", "json"]).expect(0).json());

    cluster.start_part(Part::Scheduler);
    cluster.wait_until("the victim is being deleted", || {
        cluster.get(&["pod", "web-lower"])["metadata"]["deletionTimestamp"].as_str().map(str::to_owned)
    });
    cluster.wait_until("the nomination is told", || {
        let report = run_on(&cluster, &coverage).expect(0).json();
        let (message, _) = said(&report, "lower");
        let nominated = "the scheduler has nominated the node for the pod, and waits for default/web-lower (priority 0) to terminate";
        message.contains(nominated).then_some(())
    });
    cluster.kubectl(&["patch", "pod", "web-lower", "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#]);
    let pods = cluster.wait_until("the pod is bound where it preempted", || {
        let pods = cluster.items(&["pods", "-n", "default", "-l", "app=agent"]);
        pods.iter().any(|pod| pod["spec"]["nodeName"] == "lower").then_some(pods)
    });
    let waits = pods.iter().find(|pod| pod["spec"]["nodeName"].is_null()).unwrap();
    let condition = waits["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(condition.contains("1 No preemption victims found for incoming pod"), "{condition}");
    assert!(cluster.get(&["pod", "web-equal"])["metadata"]["deletionTimestamp"].is_null());
    let (message, _) = said(&run_on(&cluster, &coverage).expect(0).json(), "equal");
    assert!(message.contains(equal), "{message}");
}
