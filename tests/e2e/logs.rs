//! From "3 CrashLooping" to the line that explains it, on a real control plane: KWOK serves container logs as kubelets do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::control_plane::{ControlPlane, Options, free_ports};
use crate::support::server::fixture;

const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];

/// How a kubelet writes logs: `LogFormat` of the container runtime interface.
const PREVIOUS: &str = "2026-11-24T10:00:00.000000000Z stdout F starting agent 1.0\n\
    2026-11-24T10:00:01.000000000Z stderr F Error: scap_init: no driver for this kernel\n";
const CURRENT: &str = "2026-11-24T10:05:00.000000000Z stdout F starting agent 1.0\n";

#[test]
fn one_command_leads_from_a_crash_loop_to_the_line_that_explains_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let logs = json!({"logsFile": file("current.log", CURRENT), "previousLogsFile": file("previous.log", PREVIOUS)});
    let kwok = |kind: &str, spec| json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": "all"}, "spec": spec});
    let config = file("kwok.yaml", &kwok("ClusterLogs", json!({"logs": [logs]})).to_string());
    let [port] = free_ports();
    let kwok_flags = vec![
        format!("--config={config}"),
        format!("--server-address=127.0.0.1:{port}"),
        "--node-ip=127.0.0.1".to_owned(),
        format!("--tls-cert-file={}", fixture("server.crt")),
        format!("--tls-private-key-file={}", fixture("server.key")),
    ];
    let api_server_flags = vec!["--kubelet-preferred-address-types=InternalIP".to_owned()];
    let cluster = ControlPlane::start(Options { kwok_flags, api_server_flags, ..Options::whole() });
    for name in NODES {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"type": "kwok"}}});
        cluster.create(&node.to_string());
    }
    let status = "phase: Running\ncontainerStatuses:\n- {name: agent, image: 'agent:1', imageID: '', ready: false, restartCount: 6, \
        state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, reason: Error, startedAt: NOW, \
        finishedAt: NOW}}}\n";
    let annotations = json!({"kubelet.example.com/status": status});
    let labels = json!({"app": "agent"});
    let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}});
    let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": template}});
    cluster.create(&daemon_set.to_string());
    let crash = |count: usize| {
        cluster.wait_until("the pods crash", || {
            let pods = cluster.items(&["pods"]);
            let crash = pods.iter().filter(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 6).count();
            (crash == count).then_some(())
        });
    };
    crash(NODES.len());
    for name in NODES {
        let endpoints = json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}).to_string();
        cluster.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &endpoints]);
    }

    let programs = tempfile::tempdir().unwrap();
    let kubectl = programs.path().join("kubectl");
    let parts = cluster.kubectl_command().get_program().to_owned();
    fs::write(&kubectl, format!("#!/bin/sh\nexec {} kubectl \"$@\"\n", parts.display())).unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_kubectl-ds"), programs.path().join("kubectl-ds")).unwrap();
    let run = |user: &str, arguments: &[&str]| -> Output {
        let mut command = Command::new(&kubectl);
        command.arg("ds").args(arguments).arg("--kubeconfig").arg(cluster.kubeconfig_of(user));
        command.env_clear().env("PATH", format!("{}:/usr/bin:/bin", programs.path().display())).output().unwrap()
    };
    let printed = |arguments: &[&str]| {
        let output = run("admin", arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };

    let explained = printed(&["logs", "agent", "--reason", "CrashLooping", "--tail", "1"]);
    assert_eq!(explained, "on 3 nodes: node-a, node-b, node-c\n    Error: scap_init: no driver for this kernel\n");
    let whole = "starting agent 1.0\nError: scap_init: no driver for this kernel\n";
    assert_eq!(printed(&["logs", "agent", "--node", "node-b"]), whole);
    let pods = cluster.items(&["pods"]);
    let beside = pods[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(printed(&["logs", "agent", "--beside", beside]), whole);
    assert_eq!(printed(&["logs", "agent", "--revision", "1", "--tail", "1"]), explained);

    // What is suggested under the crash shows that line.
    let report: Value = serde_json::from_str(&printed(&["coverage", "agent", "-o", "json"])).unwrap();
    let suggested = report["daemonSets"][0]["problems"][0]["fix"]["command"].as_str().unwrap();
    let words: Vec<&str> = suggested.split(' ').take_while(|word| !word.starts_with("--kubeconfig")).collect();
    assert_eq!(words[1..], ["ds", "logs", "-n", "default", "--reason", "CrashLooping", "-c", "agent"], "{suggested}");
    let both =
        "on 3 nodes: node-a, node-b, node-c\n    starting agent 1.0\n    Error: scap_init: no driver for this kernel\n";
    assert_eq!(printed(&[&words[2..], &["agent"]].concat()), both);

    // Another DaemonSet that crashes for the same reason.
    let mut other = daemon_set.clone();
    other["metadata"] = json!({"name": "proxy"});
    other["spec"]["selector"]["matchLabels"] = json!({"app": "proxy"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "proxy"});
    cluster.create(&other.to_string());
    crash(2 * NODES.len());
    let fleet = "default/agent on 3 nodes: node-a, node-b, node-c\ndefault/proxy on 3 nodes: node-a, node-b, node-c\n    \
                 Error: scap_init: no driver for this kernel\n";
    for choice in [&["-A", "--reason", "CrashLooping"][..], &[], &["agent", "proxy"]] {
        assert_eq!(printed(&[&["logs", "--tail", "1"], choice].concat()), fleet, "{choice:?}");
    }
    assert_eq!(
        printed(&["logs", "--node", "node-b", "--tail", "1"]),
        fleet.replace("3 nodes: node-a, node-b, node-c", "node-b")
    );

    // Somebody who may read pods, but not their logs.
    cluster.kubectl(&[
        "create",
        "clusterrole",
        "reader",
        "--verb=get,list",
        "--resource=daemonsets.apps,controllerrevisions.apps,nodes,pods,events,leases.coordination.k8s.io",
    ]);
    cluster.kubectl(&["create", "clusterrolebinding", "alice", "--clusterrole=reader", "--user=alice"]);
    let refused = cluster.wait_until("alice may read pods", || {
        let output = run("alice", &["logs", "agent", "--reason", "CrashLooping"]);
        let err = String::from_utf8(output.stderr).unwrap();
        err.contains("pods/log").then_some((output.status.code(), output.stdout.len(), err))
    });
    assert_eq!((refused.0, refused.1), (Some(1), 0));
    assert!(
        refused.2.contains("cannot get resource \"pods/log\"") && refused.2.contains("auth can-i"),
        "{}",
        refused.2
    );
}
