use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use kubectl_ds::commands;
use kubectl_ds::error::Exit;
use kubectl_ds::interrupt::Interrupt;
use kubectl_ds::io::Io;
use serde_json::{Value, json};

use super::{daemon_set, list, node, open};
use crate::commands::FAULTY_CLUSTER;

const REVISIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/revisions.json");

/// Runs a command line; returns the exit code, standard output and standard error.
fn run(arguments: &[&str], input: &str) -> (Exit, String, String) {
    let mut out = Vec::new();
    let (exit, err) = run_into(arguments, input, &mut out);
    (exit, String::from_utf8(out).unwrap(), err)
}

fn run_into(arguments: &[&str], input: &str, out: &mut dyn Write) -> (Exit, String) {
    let mut err = Vec::new();
    let mut io = Io {
        input: &mut input.as_bytes(),
        err: &mut err,
        input_is_terminal: false,
        out_is_terminal: false,
        err_is_terminal: false,
        terminal_width: || None,
        terminal_size: || None,
        unicode: true,
        environment: BTreeMap::new(),
        clock: || "2026-11-21T00:00:00Z".parse().unwrap(),
        interrupt: Interrupt::default(),
        program: kubectl_ds::report::fix::PROGRAM,
        server_warnings: 0,
        tells_waits: true,
    };
    let arguments = ["kubectl-ds"].iter().chain(arguments).map(Into::into).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let exit = runtime.block_on(commands::run(arguments, &mut io, out));
    (exit, String::from_utf8(err).unwrap())
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_faulty_cluster_reports_the_same_after_a_snapshot_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let original = open(FAULTY_CLUSTER, &mut io::empty(), None).unwrap().snapshot;
    let commands = [&["coverage", "-o", "json"][..], &["coverage", "--nodes"], &["list", "-o", "yaml"]];
    let reports = commands.map(|command| run(&[command, &["--from", FAULTY_CLUSTER]].concat(), ""));
    for name in ["dump.json.gz", "dump.yaml"] {
        let file = path(folder.path(), name);
        let (exit, out, err) = run(&["snapshot", "--from", FAULTY_CLUSTER, "-f", &file], "");
        assert_eq!((exit, out.as_str()), (Exit::Success, ""), "{err}");
        let counts = format!(
            "{file}: {} daemonsets, {} controllerrevisions, {} nodes, {} pods, {} events\n\
             hint: messages of events are in it; --redact leaves out what may be secret\n",
            original.daemon_sets.len(),
            original.controller_revisions.len(),
            original.nodes.len(),
            original.pods.len(),
            original.events.len()
        );
        assert_eq!(err, counts);
        assert_eq!(open(&file, &mut io::empty(), None).unwrap().snapshot, original);
        for (command, (exit, expected, err)) in commands.into_iter().zip(&reports) {
            // Suggested commands name the file.
            let expected = (*exit, expected.replace(FAULTY_CLUSTER, &file), err.clone());
            assert_eq!(run(&[command, &["--from", &file]].concat(), ""), expected, "{command:?} {name}");
            assert!(expected.1.len() > 1_000);
        }
    }
}

#[test]
fn a_snapshot_of_one_namespace_has_of_others_only_what_takes_room_on_the_nodes() {
    let (exit, out, _) = run(&["snapshot", "--from", FAULTY_CLUSTER, "-n", "lab"], "");
    assert_eq!(exit, Exit::Success);
    let dump: Value = serde_json::from_str(&out).unwrap();
    let elsewhere = dump["items"].as_array().unwrap().iter().filter(|object| {
        object["metadata"]["namespace"].as_str().is_some_and(|namespace| !["", "lab"].contains(&namespace))
    });
    let kinds: std::collections::BTreeSet<_> = elsewhere.map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Lease", "Pod"].into());
}

#[test]
fn a_redacted_snapshot_of_the_faulty_cluster_has_the_same_counts() {
    let (exit, redacted, _) = run(&["snapshot", "--from", FAULTY_CLUSTER, "--redact"], "");
    assert_eq!(exit, Exit::Success);
    assert!(!redacted.contains("registry.example.com") && redacted.contains("registry-1.redacted"));
    let states = |input: &str, from: &str| {
        let (_, report, err) = run(&["coverage", "-o", "json", "--from", from], input);
        let report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {err}"));
        let daemon_sets = report["daemonSets"].as_array().unwrap().clone();
        daemon_sets
            .iter()
            .flat_map(|daemon_set| daemon_set["nodes"].as_array().unwrap().clone())
            .map(|node| (node["name"].clone(), node["state"].clone(), node["reasons"][0]["code"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&redacted, "-"), states("", FAULTY_CLUSTER));
}

/// Twelve kinds of secrets, each with this mark in it.
#[test]
fn no_kind_of_secret_is_left() {
    let dump = include_str!("../fixtures/secrets.json");
    assert!(dump.matches("S3CR").count() > 12);
    for flags in [&[][..], &["-o", "yaml"]] {
        let (exit, redacted, err) = run(&[&["snapshot", "-A", "--redact", "--from", "-"], flags].concat(), dump);
        assert_eq!(exit, Exit::Success, "{err}");
        assert!(!redacted.contains("S3CR"), "{redacted}");
    }
}

#[test]
fn a_redacted_snapshot_has_the_same_history() {
    let dump = std::fs::read_to_string(REVISIONS).unwrap();
    let mut live: Value = serde_json::from_str(&dump).unwrap();
    // One revision differs in the value of a variable alone, one in a registry, one in an annotation.
    let agent =
        |item: &&mut Value| item["kind"] == "ControllerRevision" && item["metadata"]["labels"]["app"] == "agent";
    let revisions = live["items"].as_array_mut().unwrap().iter_mut().filter(agent);
    let mut templates: Vec<_> = revisions.map(|revision| &mut revision["data"]["spec"]["template"]).collect();
    let template = templates[0].clone();
    for (number, into) in templates.iter_mut().enumerate() {
        **into = template.clone();
        match number {
            0 => into["spec"]["containers"][0]["env"][0]["value"] = "other".into(),
            1 => into["spec"]["containers"][0]["image"] = "elsewhere.example.net/agent:1.4".into(),
            2 => into["metadata"]["annotations"] = json!({"checksum/config": "0123"}),
            3 => into["metadata"]["annotations"] = json!({"checksum/config": "4567"}),
            _ => {}
        }
    }
    assert!(templates.len() > 3);
    let live = live.to_string();
    let (_, redacted, _) = run(&["snapshot", "--from", "-", "--redact"], &live);
    assert!(!redacted.contains("checksum/config") && !redacted.contains("elsewhere.example.net"));
    let history = |input: &str| {
        let (_, report, err) = run(&["history", "agent", "-o", "json", "--from", "-"], input);
        let report: Value = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {err}"));
        let revisions = report["revisions"].as_array().unwrap().clone();
        revisions
            .iter()
            .map(|revision| (revision["revision"].clone(), revision["current"].clone(), ops(&revision["changes"])))
            .collect::<Vec<_>>()
    };
    assert_eq!(history(&redacted), history(&live));
    assert!(history(&live).iter().filter(|(_, _, ops)| !ops.is_empty()).count() > 2, "{:?}", history(&live));
    let undo = |input: &str| {
        let (_, plan, err) = run(&["undo", "agent", "--dry-run=client", "-o", "json", "--from", "-"], input);
        let plan: Value = serde_json::from_str(&plan).unwrap_or_else(|error| panic!("{error}: {err}"));
        (plan["toRevision"].clone(), ops(&plan["changes"]), plan["warnings"].clone())
    };
    assert_eq!(undo(&redacted), undo(&live));
}

/// Returns what is done in each of the changes of a report.
fn ops(changes: &Value) -> Vec<Value> {
    changes.as_array().unwrap().iter().map(|change| change["op"].clone()).collect()
}

#[test]
fn nothing_in_a_snapshot_steers_the_terminal_it_is_printed_on() {
    let mut agent = daemon_set("x", "agent");
    agent["metadata"]["annotations"] = json!({"note": "\u{9b}2J\u{202e}\u{7f}"});
    let dump = list(&[agent]).to_string();
    for format in ["json", "yaml"] {
        let (_, out, _) = run(&["snapshot", "-o", format, "--from", "-"], &dump);
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!out.contains(steers), "{out:?}");
        let read = open("-", &mut out.as_bytes(), None).unwrap().snapshot;
        assert_eq!(read.daemon_sets[0].annotations["note"], "\u{9b}2J\u{202e}\u{7f}");
    }
}

#[test]
fn standard_output_gets_a_list_with_a_line_for_each_object() {
    let dump = list(&[daemon_set("x", "agent"), node("a")]).to_string();
    let (exit, out, err) = run(&["snapshot", "--from", "-"], &dump);
    assert_eq!(exit, Exit::Success);
    let missing =
        ["controllerrevisions", "pods", "events", "limitranges", "runtimeclasses", "priorityclasses", "leases"];
    let warnings = missing.map(|kind| format!("warning: no {kind} in it: the dump that was read has none\n"));
    assert_eq!(err, warnings.concat());
    assert_eq!(out.lines().count(), 4, "{out}");
    let written: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&written["kind"], &written["apiVersion"]), (&json!("List"), &json!("v1")));
    assert_eq!(written["snapshot"].get("takenAt"), None);
    assert_eq!(written["snapshot"]["kinds"], json!(["daemonsets", "nodes"]));
    assert_eq!(written["items"][0], daemon_set("x", "agent"));
    assert_eq!(written["items"][1]["kind"], "Node");

    let (_, yaml, _) = run(&["snapshot", "--from", "-", "-o", "yaml"], &dump);
    assert!(yaml.starts_with("apiVersion: v1\nkind: List\nsnapshot:\n"), "{yaml}");
}

#[test]
fn no_file_is_overwritten_unless_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "dump.json");
    let snapshot = |flags: &[&str]| run(&[&["snapshot", "--from", "demo"], flags].concat(), "");
    assert_eq!(snapshot(&[&file]).0, Exit::Success);
    let first = fs::read(&file).unwrap();
    fs::write(&file, "mine").unwrap();
    for flags in [&[file.as_str()][..], &["-f", &file]] {
        let (exit, _, err) = snapshot(flags);
        assert_eq!(exit, Exit::Error);
        assert_eq!(err, format!("error: {file} exists already\nhint: to overwrite it, add --force\n"));
        assert_eq!(fs::read(&file).unwrap(), b"mine");
    }
    let (exit, _, err) = snapshot(&["--redact", "--force", &file]);
    assert!(exit == Exit::Success && !err.contains("hint:"), "{err}");
    assert!(fs::read(&file).unwrap().len() < first.len());
    // What is no file is not replaced.
    assert_eq!(snapshot(&["-f", "/dev/null"]).0, Exit::Success);
}

#[test]
fn a_snapshot_of_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(folder.path(), "dump.json");
    let (exit, _, err) = run(&["snapshot", "--from", "-", "-n", "x", &file], &list(&[node("a")]).to_string());
    assert_eq!((exit, fs::exists(&file).unwrap()), (Exit::Error, false));
    assert!(err.contains("no DaemonSets found in x namespace"), "{err}");
}

#[test]
fn a_dump_that_cannot_be_read_or_written_is_an_error() {
    let (exit, out, err) = run(&["snapshot", "--from", "-"], "{\"kind\":");
    assert_eq!((exit, out.as_str()), (Exit::Error, ""));
    assert_eq!(
        err,
        "error: standard input: the JSON breaks off at line 1, column 8: the file is truncated\n\
         hint: copy the file again, or make the dump again\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let missing = path(folder.path(), "no/dump.json");
    let (exit, _, err) = run(&["snapshot", "--from", &missing], "");
    assert_eq!((exit, err), (Exit::Error, format!("error: {missing}: no such file or directory\n")));
    let (exit, _, err) = run(&["snapshot", "--from", "demo", "-f", &missing], "");
    assert_eq!(exit, Exit::Error);
    assert_eq!(err, format!("error: cannot write {missing}: No such file or directory (os error 2)\n"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for format in ["json", "yaml"] {
        let (exit, err) = run_into(&["snapshot", "--from", "demo", "-o", format], "", &mut Closed);
        assert_eq!((exit, err.contains("error")), (Exit::Success, false), "{format}");
    }
    // The answer is in the exit code, too.
    for command in ["coverage --exit-code", "list --exit-code -o name", "status", "list -o json --exit-code"] {
        let args: Vec<&str> = command.split(' ').chain(["--from", "demo"]).collect();
        let (exit, err) = run_into(&args, "", &mut Closed);
        assert_eq!((exit, err.contains("error")), (Exit::No, false), "{command}");
    }
}

#[test]
fn names_with_escape_sequences_stay_harmless_in_errors() {
    let mut hostile = node("\u{1b}[31mred");
    hostile["spec"] = json!({"unschedulable": "yes"});
    let (_, _, err) = run(&["snapshot", "--from", "-"], &list(&[daemon_set("x", "agent"), hostile]).to_string());
    let skipped = "warning: skipped Node \\u{1b}[31mred: standard input: line 1: spec.unschedulable: invalid type: ";
    assert!(err.contains(skipped), "{err}");
}

#[test]
fn a_dump_without_pods_says_so_and_claims_nothing_about_them() {
    let (exit, out, err) = run(&["coverage", "--from", "-"], &list(&[daemon_set("x", "agent"), node("a")]).to_string());
    assert_eq!((exit, err.contains("error")), (Exit::Success, false));
    assert!(out.starts_with("x/agent: status reports "), "{out}");
    assert!(out.contains("partial answer: the dump has no pods: "), "{out}");
    assert!(!out.contains("permission"), "{out}");
}

#[test]
fn daemon_sets_alone_are_reported_by_their_status_without_reasons() {
    let mut agent = daemon_set("x", "agent");
    agent["status"] = json!({"desiredNumberScheduled": 24, "currentNumberScheduled": 23, "numberReady": 22,
        "updatedNumberScheduled": 20, "numberAvailable": 21});
    let dump = list(&[agent]).to_string();
    let (exit, out, err) = run(&["coverage", "--from", "-"], &dump);
    let warning = "warning: standard input: does not say when it was made: ages count from ";
    assert_eq!((exit, err.starts_with(warning)), (Exit::Success, true), "{err}");
    let answer = "x/agent: status reports 24 desired, 23 current, 22 ready, 20 updated, 21 available\n";
    assert!(out.contains(answer), "{out}");
    assert!(!out.contains("REASON"), "{out}");
    let (_, report, _) = run(&["coverage", "--from", "-", "-o", "json"], &dump);
    let report: Value = serde_json::from_str(&report).unwrap();
    let agent = &report["daemonSets"][0];
    assert_eq!(agent["counts"]["fromStatus"], true);
    assert_eq!(
        (&agent["counts"]["available"], &agent["counts"]["missing"], &agent["problems"]),
        (&json!(21), &json!(1), &json!([]))
    );
    let (_, report, _) = run(&["list", "--from", "-", "-o", "json"], &dump);
    let report: Value = serde_json::from_str(&report).unwrap();
    let row = &report["daemonSets"][0];
    assert_eq!((&row["counts"]["available"], &row["problems"]), (&json!(21), &json!([])));
}

#[test]
fn selected_nodes_without_pods_in_the_dump_are_not_counted_as_uncovered() {
    let dump = list(&[daemon_set("x", "agent"), node("a")]).to_string();
    let (_, out, _) = run(&["coverage", "--node-selector", "kubernetes.io/hostname=a", "--from", "-"], &dump);
    assert!(out.starts_with("x/agent: 1 eligible node, pods unknown\n"), "{out}");
}

#[test]
fn history_of_a_dump_without_revisions_says_that_they_are_unknown() {
    let dump = list(&[daemon_set("x", "agent")]).to_string();
    let (_, out, _) = run(&["history", "agent", "--from", "-"], &dump);
    assert!(out.starts_with("x/agent: revisions unknown\n"), "{out}");
    assert!(!out.contains("REVISION "), "{out}");
    let (_, out, _) = run(&["changes", "--from", "-"], &dump);
    assert!(out.contains("which rollouts there were is not known"), "{out}");
}

/// Previews a manifest of the DaemonSet `agent` with another account and selector against a dump, and returns how it ends.
fn previewed(account: &str, selector: &str, more: &[Value]) -> (Exit, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut live = daemon_set("x", "agent");
    live["spec"]["selector"] = json!({"matchLabels": {"app": "agent"}});
    let mut manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "x"},
        "spec": {"selector": {"matchLabels": {"app": selector}}, "template": {"metadata": {"labels": {"app": selector}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}}}});
    manifest["spec"]["template"]["spec"]["serviceAccountName"] = account.into();
    let file = path(folder.path(), "manifest.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let dump = list(&[&[live, node("a")], more].concat()).to_string();
    run(&["preview", "-f", &file, "--from", "-", "--exit-code"], &dump)
}

#[test]
fn a_service_account_that_a_dump_lacks_is_named_if_the_dump_has_those_of_the_namespace() {
    let account = |namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}});
    let of_x = |names: &[&str]| names.iter().map(|name| account("x", name)).collect::<Vec<_>>();
    for (accounts, is_missing) in [
        (of_x(&["default", "other"]), true),
        (of_x(&["default", "agent"]), false),
        // It has none of the namespace, or not all of them.
        (vec![account("y", "default")], false),
        (of_x(&["other"]), false),
        (Vec::new(), false),
    ] {
        let (exit, out, err) = previewed("agent", "agent", &accounts);
        assert_eq!(exit == Exit::No, is_missing, "{accounts:?} {out} {err}");
        for words in ["no pod would start", "ServiceAccountMissing", "serviceaccount agent not found in namespace x"] {
            assert_eq!(out.contains(words), is_missing, "{words}: {accounts:?}: {out}");
        }
        assert!(out.contains("not checked in a dump: admission"), "{out}");
    }
}

#[test]
fn a_selector_that_differs_from_the_one_in_a_dump_is_immutable() {
    let (exit, out, err) = previewed("agent", "other", &[]);
    assert_eq!((exit, out.as_str()), (Exit::Error, ""), "{err}");
    assert!(err.contains("spec.selector") && err.contains("field is immutable"), "{err}");
    assert_ne!(previewed("agent", "agent", &[]).0, Exit::Error);
}
