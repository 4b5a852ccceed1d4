//! How Argo CD, Flux and Helm judge a DaemonSet, next to the verdict of `status`: the table in
//! docs/pipelines-gitops.md.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{must_be, read};

/// The situations: a file, a DaemonSet of it, and what it is in.
const SITUATIONS: [(&str, &str, &str); 10] = [
    ("rollouts.yaml", "fine", "rolled out"),
    ("rollouts.yaml", "moving", "a rollout goes on"),
    ("rollouts.yaml", "bad", "the new revision crashes"),
    ("rollouts.yaml", "refused", "the API server refuses the new pods"),
    ("rollouts.yaml", "ports", "surge pods wait for a host port of the old ones"),
    ("rollouts.yaml", "lost", "dead nodes use up the budget"),
    ("nodes-down.yaml", "agent", "rolled out, but for 2 dead nodes"),
    ("nodes-down.yaml", "logs", "the same, and they are accepted"),
    ("rollouts.yaml", "by-hand", "OnDelete, with 5 old pods left"),
    ("rollouts.yaml", "unseen", "the controller has not observed the change"),
];

fn number(daemon_set: &Value, field: &str) -> i64 {
    daemon_set["status"][field].as_i64().unwrap_or(0)
}

fn is_observed(daemon_set: &Value) -> bool {
    number(daemon_set, "observedGeneration") >= daemon_set["metadata"]["generation"].as_i64().unwrap()
}

/// Ported from `getAppsv1DaemonSetHealth`, pkg/health/health_daemonset.go of argoproj/gitops-engine.
fn argo_cd(daemon_set: &Value) -> &'static str {
    let desired = number(daemon_set, "desiredNumberScheduled");
    let is_on_delete = daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete";
    let is_rolled_out =
        number(daemon_set, "updatedNumberScheduled") >= desired && number(daemon_set, "numberAvailable") >= desired;
    if is_observed(daemon_set) && (is_on_delete || is_rolled_out) { "Healthy" } else { "Progressing" }
}

/// Ported from `daemonsetConditions`, pkg/kstatus/status/core.go of kubernetes-sigs/cli-utils.
fn flux(daemon_set: &Value) -> &'static str {
    let desired = number(daemon_set, "desiredNumberScheduled");
    let counters = ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"];
    let has_all = counters.iter().all(|counter| number(daemon_set, counter) >= desired);
    if is_observed(daemon_set) && has_all { "Current" } else { "InProgress" }
}

/// Ported from `daemonSetReady`, pkg/kube/ready.go of helm/helm.
fn helm(daemon_set: &Value) -> &'static str {
    let desired = number(daemon_set, "desiredNumberScheduled");
    let strategy = &daemon_set["spec"]["updateStrategy"];
    let max_unavailable = strategy["rollingUpdate"]["maxUnavailable"].as_i64().unwrap_or(1);
    let is_ready = strategy["type"] != "RollingUpdate"
        || (number(daemon_set, "updatedNumberScheduled") == desired
            && number(daemon_set, "numberReady") >= desired - max_unavailable);
    if is_observed(daemon_set) && is_ready { "ready" } else { "not ready" }
}

/// Returns the status, and the reasons of the nodes that are not done.
fn ours(status: &Value) -> String {
    let word = status["status"].as_str().unwrap();
    let word = if status["accepted"]["complete"] == true { "accepted" } else { word };
    let problems = status["problems"].as_array().unwrap().iter().filter(|problem| problem["passing"] != true);
    let mut reasons: Vec<&str> = problems.map(|problem| problem["code"].as_str().unwrap()).collect();
    reasons.dedup();
    if reasons.is_empty() { word.to_owned() } else { format!("{word}: {}", reasons.join(", ")) }
}

#[test]
fn the_page_has_the_verdicts_of_others_beside_ours() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/commands");
    let mut table =
        String::from("| A DaemonSet | Argo CD | Flux | `helm --wait` | `kubectl ds status` |\n|---|---|---|---|---|\n");
    for (file, name, situation) in SITUATIONS {
        let text = fs::read_to_string(fixtures.join(file)).unwrap();
        let list: Value = serde_saphyr::from_str(&text).unwrap();
        let is_it = |object: &&Value| object["kind"] == "DaemonSet" && object["metadata"]["name"] == name;
        let daemon_set = list["items"].as_array().unwrap().iter().find(is_it).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
            .args(["status", "-n", "infra", name, "-o", "json", "--now", "2026-11-20T10:00:00Z", "--from", file])
            .current_dir(&fixtures)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ours = ours(&report["daemonSets"][0]);
        let [argo_cd, flux, helm] = [argo_cd(daemon_set), flux(daemon_set), helm(daemon_set)];
        let _ = writeln!(table, "| {situation} | {argo_cd} | {flux} | {helm} | {ours} |");
    }
    let page = read("pipelines-gitops.md");
    let (before, rest) = page.split_once("<!-- health: a test writes this table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /health -->").unwrap();
    must_be(
        "pipelines-gitops.md",
        &format!("{before}<!-- health: a test writes this table -->\n{table}<!-- /health -->{after}"),
    );
}
