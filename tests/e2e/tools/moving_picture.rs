//! Records the animation in docs/pictures: a rollout that blocks, and is undone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::rollouts::partition::{cluster, wait_until_available};
use crate::rollouts::workload::{Api, Workload};
use crate::support::pty::InTerminal;

const SIZE: (u16, u16) = (100, 30);

/// Only `KUBECTL_DS_RECORD=1` replaces the recording.
#[test]
#[ignore = "a tool, which needs an idle machine"]
fn a_rollout_that_is_undone_is_recorded() {
    let cluster = cluster();
    cluster.make_namespace("monitoring");
    let container = |version: &str| {
        json!({"name": "node-exporter", "image": format!("quay.io/prometheus/node-exporter:{version}"),
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}})
    };
    // What is slow enough to be followed.
    let spec = json!({
        "minReadySeconds": 2,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3, "maxSurge": 0}},
        "template": {"spec": {"containers": [container("v1.9.1")]}},
    });
    let workload = Workload::create(cluster, Api::Apps, "monitoring", "node-exporter", &spec);
    wait_until_available(&workload);
    // Somebody listens on the port that the new revision wants, on some nodes.
    for node in ["node-4", "node-11", "node-17"] {
        let ports = json!([{"hostPort": 9100, "containerPort": 9100}]);
        let containers =
            json!([{"name": "exporter", "image": "quay.io/prometheus/node-exporter:v1.8.2", "ports": ports}]);
        let metadata = json!({"name": format!("exporter-{node}")});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": node, "containers": containers}});
        cluster.api.create("/api/v1/namespaces/monitoring/pods", &pod);
    }
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("KUBECONFIG", cluster.control_plane.kubeconfig());
        command.envs([("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        InTerminal::start(command, SIZE)
    };
    let status = ["status", "node-exporter", "-n", "monitoring", "--watch"];
    let undo = ["undo", "node-exporter", "-n", "monitoring", "--watch"];

    let mut template = workload.template();
    template["spec"]["containers"][0] = container("v1.10.2");
    template["spec"]["containers"][0]["ports"] = json!([{"hostPort": 9100, "containerPort": 9100}]);
    workload.set_template(&template);
    let mut watched = start(&status);
    watched.wait_for("what blocks it", |rows| rows.iter().any(|row| row.contains("node-exporter is blocked")));
    watched.go_on(Duration::from_secs(4));
    watched.signal("INT");
    let watched = watched.record();
    let undone = start(&undo).record();
    assert!(undone.iter().any(|(_, text)| text.contains("is complete")), "{undone:?}");

    let run = |arguments: &[&str], output| json!({"command": format!("kubectl ds {}", arguments.join(" ")), "output": output});
    let recording = json!({"size": SIZE, "runs": [run(&status, watched), run(&undo, undone)]});
    if std::env::var_os("KUBECTL_DS_RECORD").is_some_and(|value| !value.is_empty()) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/undone-rollout.json");
        std::fs::write(path, format!("{recording:#}\n")).unwrap();
    }
}
