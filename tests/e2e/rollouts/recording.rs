//! What docs/pictures shows in motion: a rollout that blocks, and is undone.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::partition::{cluster, wait_until_available};
use super::workload::{Api, CRASHING, FATE, Workload};
use crate::terminal::pty::InTerminal;

const SIZE: (u16, u16) = (100, 30);

/// Only `KUBECTL_DS_RECORD=1` replaces the recording.
#[test]
#[ignore = "takes a minute and an idle machine; run it to record again: --ignored a_rollout_that_is_undone_is_recorded"]
fn a_rollout_that_is_undone_is_recorded() {
    let cluster = cluster();
    cluster.make_namespace("logging");
    let pace =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3, "maxSurge": 0}}});
    let workload = Workload::create(cluster, Api::Apps, "logging", "agent", &pace);
    wait_until_available(&workload);
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("KUBECONFIG", cluster.control_plane.kubeconfig());
        command.envs([("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        InTerminal::start(command, SIZE)
    };
    let status = ["status", "agent", "-n", "logging", "--watch"];
    let undo = ["undo", "agent", "-n", "logging", "--watch"];

    let metadata = json!({"labels": {"app": "agent"}, "annotations": {FATE: CRASHING}});
    let spec = json!({"containers": [{"name": "agent", "image": "agent:2"}]});
    workload.set_template(&json!({"metadata": metadata, "spec": spec}));
    let mut watched = start(&status);
    watched.wait_for("what blocks it", |rows| rows.iter().any(|row| row.contains("agent is blocked")));
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
