//! docs/schema: the schemas of the reports, checked against real reports.

use kubectl_ds::report::agent_pod::PodReport;
use kubectl_ds::report::clusters::ClusterReports;
use kubectl_ds::report::compare::CompareReport;
use kubectl_ds::report::coverage::CoverageReport;
use kubectl_ds::report::error::ErrorReport;
use kubectl_ds::report::history::{HistoryReport, RevisionDiff};
use kubectl_ds::report::list::ListReport;
use kubectl_ds::report::logs::LogsReport;
use kubectl_ds::report::overhead::OverheadReport;
use kubectl_ds::report::partition::PartitionReport;
use kubectl_ds::report::plan::ChangePlan;
use kubectl_ds::report::preview::PreviewReport;
use kubectl_ds::report::recent_changes::ChangesReport;
use kubectl_ds::report::rollout_status::RolloutStatusReport;
use kubectl_ds::report::{Envelope, Report};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::validator::problems;
use super::{must_be, read};
use crate::commands::history::on_revisions;
use crate::commands::{ROLLOUTS, SHOP, on_shop, run};

fn schema<T: Report + JsonSchema>() -> Value {
    // What is written counts: fields that are left out at times are not required.
    SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<Envelope<T>>().to_value()
}

fn file(name: &str) -> Value {
    serde_json::from_str(&read(&format!("schema/{name}"))).unwrap()
}

#[test]
fn the_schemas_are_fresh() {
    for (name, schema) in [
        ("coverage-report.json", schema::<CoverageReport>()),
        ("preview-report.json", schema::<PreviewReport>()),
        ("list-report.json", schema::<ListReport>()),
        ("rollout-status-report.json", schema::<RolloutStatusReport>()),
        ("compare-report.json", schema::<CompareReport>()),
        ("history-report.json", schema::<HistoryReport>()),
        ("changes-report.json", schema::<ChangesReport>()),
        ("revision-diff.json", schema::<RevisionDiff>()),
        ("pod-report.json", schema::<PodReport>()),
        ("logs-report.json", schema::<LogsReport>()),
        ("overhead-report.json", schema::<OverheadReport>()),
        ("change-plan.json", schema::<ChangePlan>()),
        ("partition-report.json", schema::<PartitionReport>()),
        ("list-report-list.json", schema::<ClusterReports<ListReport>>()),
        ("coverage-report-list.json", schema::<ClusterReports<CoverageReport>>()),
        ("rollout-status-report-list.json", schema::<ClusterReports<RolloutStatusReport>>()),
        ("changes-report-list.json", schema::<ClusterReports<ChangesReport>>()),
        ("error.json", schema::<ErrorReport>()),
    ] {
        must_be(&format!("schema/{name}"), &format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()));
    }
}

#[test]
fn real_reports_fit_their_schemas() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/what-if.yaml");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/moving.yaml");
    let before = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/before-upgrade.json");
    let questions: [(&str, &[&str]); 10] = [
        ("compare-report.json", &["compare", SHOP]),
        ("compare-report.json", &["compare", before]),
        ("coverage-report.json", &["coverage"]),
        ("coverage-report.json", &["coverage", "--by", "topology.kubernetes.io/zone"]),
        ("coverage-report.json", &["coverage", "--node", "node-d"]),
        ("coverage-report.json", &["coverage", "--node-selector", "kubernetes.io/os=linux"]),
        ("list-report.json", &["list"]),
        ("list-report.json", &["list", "-l", "no=such"]),
        ("preview-report.json", &["preview", "-f", manifest, "--by", "kubernetes.io/os"]),
        ("preview-report.json", &["preview", "-f", manifest, "-f", other]),
    ];
    for (name, question) in questions {
        let report = on_shop(&[question, &["-o", "json"]].concat());
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(problems(&file(name), &report), Vec::<String>::new(), "{question:?}");
    }
}

#[test]
fn real_histories_and_plans_fit_their_schemas() {
    let client = "--dry-run=client";
    let questions: [(&str, &[&str]); 14] = [
        ("history-report.json", &["history", "agent", "-o", "json"]),
        ("history-report.json", &["history", "broken", "-o", "json"]),
        ("history-report.json", &["history", "upgraded", "-o", "json"]),
        ("changes-report.json", &["changes", "-o", "json"]),
        ("changes-report.json", &["changes", "-l", "no=such", "-o", "json"]),
        ("revision-diff.json", &["history", "agent", "--diff", "-o", "json"]),
        ("revision-diff.json", &["history", "agent", "--diff", "live..1", "-o", "json"]),
        ("change-plan.json", &["undo", "agent", client, "-o", "json"]),
        ("change-plan.json", &["undo", "agent", "--to-revision=5", client, "-o", "json"]),
        ("change-plan.json", &["undo", "logs", client, "-o", "json"]),
        ("change-plan.json", &["restart", "logs", client, "-o", "json"]),
        ("change-plan.json", &["set", "agent", "--max-unavailable=1", client, "-o", "json"]),
        ("change-plan.json", &["pause", "agent", client, "-o", "json"]),
        ("change-plan.json", &["resume", "agent", client, "-o", "json"]),
    ];
    for (name, question) in questions {
        let report: Value = serde_json::from_str(&on_revisions(question, 80).out).unwrap();
        assert_eq!(problems(&file(name), &report), Vec::<String>::new(), "{question:?}");
    }
}

#[test]
fn reports_of_the_demo_fit_their_schemas() {
    for (name, question) in [
        ("coverage-report.json", "coverage"),
        ("list-report.json", "list"),
        ("changes-report.json", "changes"),
        ("pod-report.json", "pod cilium --node general-c2"),
        ("logs-report.json", "logs falco --reason CrashLooping"),
        ("overhead-report.json", "overhead --pod cpu=7"),
        ("overhead-report.json", "overhead --like gpu-a1 --taint a:NoSchedule"),
    ] {
        let words: Vec<&str> = question.split(' ').chain(["-o", "json", "--from", "demo"]).collect();
        let report = run(&words);
        assert_eq!(report.err, "");
        let report: Value = serde_json::from_str(&report.out).unwrap();
        assert_eq!(problems(&file(name), &report), Vec::<String>::new(), "{question}");
    }
}

#[test]
fn errors_fit_their_schema() {
    for question in ["list --banana", "undo fluent-bit -n logging --from demo", "status --from no-such.json"] {
        let ended = run(&question.split(' ').chain(["-o", "json"]).collect::<Vec<_>>());
        let error: Value = serde_json::from_str(&ended.err).unwrap();
        assert_eq!(problems(&file("error.json"), &error), Vec::<String>::new(), "{question}");
    }
}

#[test]
fn changes_of_nodes_fit_their_schema() {
    let on = ["--node-selector", "karpenter.sh/nodepool=spot", "-o", "json", "--from", "demo"];
    let report = run(&[&["preview", "--if", "taint team=ml:NoExecute"], &on[..]].concat());
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(problems(&file("preview-report.json"), &report), Vec::<String>::new());
}

#[test]
fn reports_on_several_clusters_fit_their_schemas() {
    for (name, question) in [
        ("coverage-report-list.json", "coverage"),
        ("list-report-list.json", "list"),
        ("rollout-status-report-list.json", "status"),
        ("changes-report-list.json", "changes"),
    ] {
        let report = run(&[question, "-o", "json", "--from", "demo", "--from", SHOP, "--from", "no-such.json"]);
        let report: Value = serde_json::from_str(&report.out).unwrap();
        assert_eq!(report["items"].as_array().unwrap().len(), 3);
        assert_eq!(problems(&file(name), &report), Vec::<String>::new(), "{question}");
    }
}

#[test]
fn a_planned_partition_fits_its_schema() {
    let stage = ["partition", "fluent-bit", "-n", "logging", "--update=4", "--force"];
    let report = run(&[&stage[..], &["--from", "demo", "--dry-run", "-o", "json"]].concat());
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(problems(&file("partition-report.json"), &report), Vec::<String>::new());
}

#[test]
fn stale_configuration_fits_its_schema() {
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/stale-config.yaml");
    let report = run(&["status", "agent", "-n", "team", "-o", "json", "--from", dump]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert!(report["daemonSets"][0]["staleConfig"].is_object(), "{report}");
    assert_eq!(problems(&file("rollout-status-report.json"), &report), Vec::<String>::new());
}

#[test]
fn rollouts_of_every_verdict_fit_their_schema() {
    let report = run(&["status", "-A", "-o", "json", "--from", ROLLOUTS]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(problems(&file("rollout-status-report.json"), &report), Vec::<String>::new());
}

#[test]
fn a_partial_report_fits_its_schema() {
    let text = std::fs::read_to_string(SHOP).unwrap().replace("kind: Node", "kind: Other");
    let report = crate::commands::run_with_input(&["coverage", "-o", "json", "--from", "-"], text.as_bytes());
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert!(!report["incomplete"].as_array().unwrap().is_empty());
    assert_eq!(problems(&file("coverage-report.json"), &report), Vec::<String>::new());
}

#[test]
fn every_field_is_documented() {
    for name in [
        "coverage-report.json",
        "preview-report.json",
        "list-report.json",
        "rollout-status-report.json",
        "changes-report.json",
        "pod-report.json",
        "logs-report.json",
        "overhead-report.json",
        "preview-report.json",
        "partition-report.json",
        "list-report-list.json",
        "changes-report-list.json",
        "error.json",
    ] {
        let mut missing = Vec::new();
        undocumented(name, &file(name), &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}

fn undocumented(place: &str, schema: &Value, missing: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if property["description"].as_str().is_none_or(str::is_empty) {
            missing.push(format!("{place}: {name}"));
        }
    }
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        undocumented(&format!("{place}: {name}"), definition, missing);
    }
}
