//! The numbers of every command and output form agree on random clusters, as docs/reports.md defines them.

mod generator;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::in_process::run_at;
use crate::support::random::Random;
use crate::support::sampling::{all_is_tried, times};

/// How many clusters are checked at night.
const CLUSTERS: usize = 300;

/// Runs a command on a dump in standard input, within this process.
fn run(dump: &str, arguments: &[&str]) -> String {
    let fixed = ["--from", "-", "--now", "2026-11-20T10:00:00Z"];
    let clock = || "2026-11-20T10:00:00Z".parse().unwrap();
    let ended = run_at(&[&fixed[..], arguments].concat(), dump.as_bytes(), clock);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
    ended.out
}

fn data(dump: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(dump, &[arguments, &["-o", "json"]].concat())).unwrap()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))).unwrap()
}

const COUNTS: [&str; 10] = [
    "nodesTotal",
    "eligible",
    "current",
    "ready",
    "available",
    "missing",
    "updated",
    "outdated",
    "misscheduled",
    "notEligible",
];

#[test]
fn numbers_agree_between_commands_and_output_forms() {
    let mut seen = BTreeSet::new();
    for seed in 0..times(CLUSTERS) {
        let cluster = generator::cluster(&mut Random::new(seed as u64));
        let nodes: BTreeSet<_> = items(&cluster["items"])
            .filter(|item| item["kind"] == "Node")
            .map(|node| &node["metadata"]["name"])
            .map(text)
            .collect();
        let dump = cluster.to_string();
        let list = data(&dump, &["list"]);
        let coverage = data(&dump, &["coverage"]);
        let by = data(&dump, &["coverage", "--by", "pool"]);
        let overview = run(&dump, &["coverage", "--by", "pool"]);
        assert_eq!(coverage["incomplete"], serde_json::json!([]), "seed {seed}");
        names_agree(&dump, &list, &coverage);
        for daemon_set in items(&coverage["daemonSets"]) {
            let name = text(&daemon_set["name"]);
            let context = || format!("seed {seed}, {name}");
            let find = |report: &Value| {
                items(&report["daemonSets"])
                    .find(|other| other["name"] == name)
                    .unwrap_or_else(|| panic!("{name}"))
                    .clone()
            };
            numbers_are_those_of_the_nodes(daemon_set, &nodes, &context());
            let row = find(&list);
            for count in COUNTS {
                assert_eq!(
                    row["counts"][count],
                    daemon_set["counts"][count],
                    "{}: list and coverage, {count}",
                    context()
                );
            }
            problems_are_those_of_coverage(&row, daemon_set, &context());
            labels_add_up(&find(&by), &context());
            revisions_are_those_of_the_pods(&data(&dump, &["history", name]), daemon_set, &context());
            text_has_the_numbers(&overview, daemon_set, &context());
            for node in items(&daemon_set["nodes"]) {
                seen.insert(text(&node["state"]).to_owned());
            }
        }
    }
    // A few clusters need not have every state.
    if !all_is_tried() {
        return;
    }
    // Ready needs minReadySeconds, Starting a container that has not started: all others must occur.
    for state in ["Available", "Failed", "Missing", "Misscheduled", "NotEligible", "NotReady", "Pending", "Ready"] {
        assert!(seen.contains(state), "no node was {state}: {seen:?}");
    }
    assert!(seen.contains("Terminating") && seen.contains("ToBeDeleted"), "{seen:?}");
}

fn names_agree(dump: &str, list: &Value, coverage: &Value) {
    let of = |report: &Value| -> BTreeSet<String> {
        items(&report["daemonSets"]).map(|row| format!("daemonset.apps/{}", text(&row["name"]))).collect()
    };
    for command in ["list", "coverage"] {
        let names: BTreeSet<String> = run(dump, &[command, "-o", "name"]).lines().map(str::to_owned).collect();
        assert_eq!(names, of(list), "{command} -o name");
    }
    assert_eq!(of(list), of(coverage));
    // What concerns one node: the table and the names show the same DaemonSets.
    let table = run(dump, &["coverage", "--node", "node-0"]);
    let names = run(dump, &["coverage", "--node", "node-0", "-o", "name"]);
    let rows = table.lines().filter(|line| line.starts_with("shop/")).count();
    assert_eq!(rows, names.lines().count(), "{table}{names}");
}

/// Every number is what a script would count in `nodes`.
fn numbers_are_those_of_the_nodes(daemon_set: &Value, existing: &BTreeSet<&str>, context: &str) {
    let rows: Vec<&Value> = items(&daemon_set["nodes"]).filter(|node| existing.contains(text(&node["name"]))).collect();
    let count = |matches: &dyn Fn(&Value) -> bool| rows.iter().filter(|node| matches(node)).count();
    let eligible = |node: &Value| node["shouldRun"] == true;
    let first = |node: &Value| node["pods"].get(0).cloned().unwrap_or_default();
    let has_live = |node: &Value, updated: bool| {
        items(&node["pods"]).any(|pod| pod["terminating"] == false && pod["updated"] == updated)
    };
    let expected: [(&str, usize); 10] = [
        ("nodesTotal", existing.len()),
        ("eligible", count(&eligible)),
        ("current", count(&|node| eligible(node) && first(node).is_object())),
        ("ready", count(&|node| eligible(node) && first(node)["ready"] == true)),
        ("available", count(&|node| node["state"] == "Available")),
        ("missing", count(&|node| node["state"] == "Missing")),
        ("updated", count(&|node| eligible(node) && has_live(node, true))),
        ("outdated", count(&|node| eligible(node) && has_live(node, false))),
        ("misscheduled", count(&|node| node["state"] == "Misscheduled" || node["state"] == "ToBeDeleted")),
        ("notEligible", count(&|node| !eligible(node))),
    ];
    for (name, expected) in expected {
        assert_eq!(number(&daemon_set["counts"][name]), expected, "{context}: {name}\n{daemon_set:#}");
    }
    assert!(number(&daemon_set["counts"]["available"]) <= number(&daemon_set["counts"]["ready"]), "{context}");
    let by_code = |groups: &Value| {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for group in items(groups) {
            *codes.entry(text(&group["code"]).to_owned()).or_default() += number(&group["count"]);
        }
        codes
    };
    let of_nodes = |not_eligible: bool| {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        let all = items(&daemon_set["nodes"]);
        for node in all.filter(|node| (node["state"] == "NotEligible") == not_eligible) {
            if let Some(reason) = node["reasons"].get(0) {
                *codes.entry(text(&reason["code"]).to_owned()).or_default() += 1;
            }
        }
        codes
    };
    assert_eq!(by_code(&daemon_set["problems"]), of_nodes(false), "{context}: problems");
    assert_eq!(by_code(&daemon_set["notEligible"]), of_nodes(true), "{context}: notEligible");
}

fn problems_are_those_of_coverage(row: &Value, daemon_set: &Value, context: &str) {
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for group in items(&daemon_set["problems"]) {
        *codes.entry(text(&group["code"])).or_default() += number(&group["count"]);
    }
    for concern in items(&daemon_set["concerns"]) {
        codes.entry(text(&concern["code"])).or_default();
    }
    let problems: BTreeMap<&str, usize> =
        items(&row["problems"]).map(|problem| (text(&problem["code"]), number(&problem["count"]))).collect();
    assert_eq!(problems, codes, "{context}: list and coverage");
}

fn labels_add_up(daemon_set: &Value, context: &str) {
    for count in COUNTS {
        let sum: usize = items(&daemon_set["by"]["rows"]).map(|row| number(&row["counts"][count])).sum();
        assert_eq!(sum, number(&daemon_set["counts"][count]), "{context}: --by, {count}");
    }
}

/// The revisions of `history` have the pods that `coverage` shows on nodes.
fn revisions_are_those_of_the_pods(history: &Value, daemon_set: &Value, context: &str) {
    let pods: Vec<&Value> = items(&daemon_set["nodes"]).flat_map(|node| items(&node["pods"])).collect();
    for revision in items(&history["revisions"]) {
        let on = |pod: &&&Value| pod["revision"] == revision["hash"];
        let (total, ready) =
            (pods.iter().filter(on).count(), pods.iter().filter(on).filter(|pod| pod["ready"] == true).count());
        let expected = serde_json::json!({"ready": ready, "total": total});
        assert_eq!(revision["pods"], expected, "{context}: revision {}", revision["revision"]);
        let current = daemon_set["currentRevision"] == revision["hash"];
        assert_eq!(revision["current"] == true, current, "{context}: current revision {}", revision["revision"]);
        for pod in pods.iter().filter(on) {
            assert_eq!(pod["updated"], current, "{context}: {}", pod["name"]);
        }
    }
}

fn text_has_the_numbers(overview: &str, daemon_set: &Value, context: &str) {
    let name = format!("shop/{}: ", text(&daemon_set["name"]));
    let section = overview.split_once(&name).unwrap_or_else(|| panic!("{context}: no {name} in\n{overview}")).1;
    let section = section.split("\nshop/").next().unwrap();
    let headline = section.lines().next().unwrap();
    let counts = &daemon_set["counts"];
    let (eligible, available) = (number(&counts["eligible"]), number(&counts["available"]));
    let expected = match (eligible, available) {
        (0, _) => "no node is eligible".to_owned(),
        (1, 1) => "the one eligible node has an available pod".to_owned(),
        (1, _) => "the one eligible node has no available pod".to_owned(),
        (2, 2) => "both eligible nodes have an available pod".to_owned(),
        _ if eligible == available => format!("all {eligible} eligible nodes have an available pod"),
        _ => format!("{available} of {eligible} eligible nodes have an available pod"),
    };
    assert!(headline.starts_with(&expected), "{context}: {headline}");
    let not_eligible = number(&counts["notEligible"]);
    if items(&daemon_set["notEligible"]).next().is_some() {
        let is_advice = |line: &str| line.trim_start().starts_with('→');
        let mut lines = section.lines().skip(1).filter(|line| !is_advice(line));
        let line = lines.find(|line| line.contains(" not eligible"));
        let line = line.unwrap_or_else(|| panic!("{context}: {section}"));
        assert!(line.starts_with(&format!("{not_eligible} node")), "{context}: {line}");
    }
}
