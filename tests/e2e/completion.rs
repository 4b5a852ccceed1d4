//! Completion on a live cluster, through the real kubectl.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::support::control_plane::{ControlPlane, Options};

#[test]
fn kubectl_offers_what_the_cluster_has() {
    let cluster = ControlPlane::start(Options::whole());
    for name in ["node-a", "node-b"] {
        let labels = json!({"type": "kwok", "example.com/pool": "one"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        cluster.create(&node.to_string());
    }
    let template = |image: &str| json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": image}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent:1")});
    let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec});
    cluster.create(&daemon_set.to_string());
    let settle = |generation: i64| {
        cluster.wait_until("the pods are available", || {
            let status = &cluster.get(&["ds", "agent"])["status"];
            let is_settled = status["observedGeneration"] == generation
                && status["updatedNumberScheduled"] == 2
                && status["numberAvailable"] == 2;
            is_settled.then_some(())
        });
    };
    settle(1);
    cluster.kubectl(&["set", "image", "daemonset/agent", "agent=agent:2"]);
    settle(2);

    let programs = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_kubectl-ds"), programs.path().join("kubectl-ds")).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let mut install = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    assert!(install.args(["completion", "--install"]).env("PATH", &path).output().unwrap().status.success());
    let offered = |words: &[&str]| {
        let output =
            cluster.kubectl_command().args(["__complete", "ds"]).args(words).env("PATH", &path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(offered(&["cov"]), "coverage\tShow which nodes lack an available pod, why, and what to do\n:4\n");
    assert_eq!(offered(&["coverage", ""]), "agent\t2/2 available\n:4\n");
    assert_eq!(offered(&["coverage", "default/"]), "default/agent\t2/2 available\n:4\n");
    assert_eq!(offered(&["coverage", "kube-system/"]), ":4\n");
    assert_eq!(offered(&["partition", "default/agent", "--image", ""]), "agent=\tagent:2\n:4\n");
    assert_eq!(offered(&["history", "agent", "--diff", "1..2"]), "1..2\tcurrent\n:4\n");
    assert_eq!(offered(&["coverage", "-n", "kube-sy"]), "kube-system\tActive\n:4\n");
    assert_eq!(offered(&["coverage", "agent", "--node", ""]), "node-a\tReady\nnode-b\tReady\n:4\n");
    let pods = cluster.items(&["pods"]);
    let names = pods.iter().map(|pod| format!("default/{}\n", pod["metadata"]["name"].as_str().unwrap()));
    let names: BTreeSet<String> = names.collect();
    let beside = offered(&["pod", "agent", "--beside", "default/"]);
    assert_eq!(beside, names.into_iter().collect::<String>() + ":4\n");
    for pod in &pods {
        let text = |pointer| pod.pointer(pointer).unwrap().as_str().unwrap();
        let (name, node) = (text("/metadata/name"), text("/spec/nodeName"));
        for place in [["--node", node], ["--beside", name]] {
            let mut command = cluster.kubectl_command();
            let output = command.args(["ds", "pod", "agent"]).args(place).env("PATH", &path).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("pod/{name}\n"), "{place:?}");
        }
    }
    assert_eq!(offered(&["coverage", "--by", "example.com/"]), "example.com/pool\n:4\n");
    assert_eq!(offered(&["undo", "agent", "--to-revision", ""]), "1\n2\tcurrent\n:4\n");
}
