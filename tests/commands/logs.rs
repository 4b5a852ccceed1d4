//! `logs` of dumps: the directories and archives of the tools that write logs.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::run;

/// Writes a dump of a DaemonSet with a crashing pod on each of two nodes, and the given files.
fn dump(files: &[(&str, &str)]) -> TempDir {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true});
    let pod = |name: &str, node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"app": "agent"}, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
        })
    };
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}});
    let daemon_set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "team", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}}}},
        "status": {"desiredNumberScheduled": 2},
    });
    let items = json!([daemon_set, node("n1"), node("n2"), pod("agent-a", "n1"), pod("agent-b", "n2")]);
    let folder = tempfile::tempdir().unwrap();
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    for (path, text) in files.iter().copied().chain([("objects.json", objects.as_str())]) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Runs the command on a dump, and returns what it prints.
fn logs(from: &Path, arguments: &[&str]) -> String {
    let ended = run(&[&["logs", "agent", "--from", from.to_str().unwrap()], arguments].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    ended.out
}

const BOTH: &str = "on 2 nodes: n1, n2\n    boom\n\nonly on n2\n    odd\n";

#[test]
fn must_gathers_support_bundles_and_cluster_dumps_have_logs() {
    let inspect = "cluster/namespaces/team/pods/agent-";
    let (current, before) = ("main/main/logs/current.log", "main/main/logs/previous.log");
    let inspected = [
        (format!("{inspect}a/{before}"), "boom\n"),
        (format!("{inspect}a/{current}"), "start\n"),
        (format!("{inspect}b/{current}"), "boom\nodd\n"),
        (format!("cluster/namespaces/other/pods/agent-b/{before}"), "of another pod\n"),
    ];
    let bundle = [
        ("bundle/cluster-resources/pods/logs/team/agent-a/main-previous.log".to_owned(), "boom\n"),
        ("bundle/cluster-resources/pods/logs/team/agent-a/main.log".to_owned(), "start\n"),
        ("bundle/agents/agent-b/main-previous.log".to_owned(), "boom\nodd\n"),
        ("bundle/cluster-resources/pods/logs/other/agent-b/main-previous.log".to_owned(), "of another pod\n"),
    ];
    let (a, b) = (section("agent-a", "boom\n"), section("agent-b", "boom\nodd"));
    let sections = [("team/agent-a/logs.txt".to_owned(), a.as_str()), ("team/agent-b/logs.txt".to_owned(), b.as_str())];
    for files in [&inspected[..], &bundle, &sections] {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let folder = dump(&files);
        assert_eq!(logs(folder.path(), &["--reason", "CrashLooping"]), BOTH, "{files:?}");
        let archive = folder.path().join("dump.tar");
        let mut tar = tar::Builder::new(fs::File::create(&archive).unwrap());
        for path in files.iter().map(|(path, _)| *path).chain(["objects.json"]) {
            tar.append_path_with_name(folder.path().join(path), format!("./top/{path}")).unwrap();
        }
        tar.finish().unwrap();
        assert_eq!(logs(&archive, &["--reason", "CrashLooping"]), BOTH, "{files:?}");
        assert_eq!(logs(&archive, &["--node", "n2", "--tail", "1"]), "odd\n");
    }
    // As one stream: the sections are between the objects.
    let folder = dump(&[]);
    let one = folder.path().join("one.json");
    let objects = fs::read_to_string(folder.path().join("objects.json")).unwrap();
    fs::write(&one, format!("{}\n{objects}\n{}", section("agent-a", "boom\n"), section("agent-b", "boom\nodd")))
        .unwrap();
    assert_eq!(logs(&one, &["--reason", "CrashLooping"]), BOTH);
}

#[test]
fn a_log_that_a_dump_lacks_is_told() {
    let folder = dump(&[("agents/agent-a/main.log", "boom\n")]);
    let from = folder.path().to_str().unwrap();
    let ended = run(&["logs", "agent", "--from", from, "--reason", "CrashLooping"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "only on n1\n    boom\n"));
    assert!(ended.err.contains("has no log of container main of pod team/agent-b"), "{}", ended.err);
}

/// Returns the section that `kubectl cluster-info dump` writes for the log of a pod.
fn section(pod: &str, log: &str) -> String {
    let of = format!("logs for container main of pod team/{pod} ====\n");
    format!("==== START {of}{log}==== END {of}")
}

/// kubectl writes the line that ends a section right after the log, even if its last line does not end.
#[test]
fn a_long_last_line_does_not_hide_where_a_log_ends() {
    let folder = dump(&[]);
    let one = folder.path().join("one.json");
    let objects = fs::read_to_string(folder.path().join("objects.json")).unwrap();
    let long = "x".repeat(70_000);
    fs::write(&one, format!("{objects}\n{}{}", section("agent-a", &long), section("agent-b", "boom\n"))).unwrap();
    assert!(logs(&one, &["--node", "n1"]) == format!("{long}\n"));
    assert_eq!(logs(&one, &["--node", "n2"]), "boom\n");
}

#[test]
fn an_empty_log_is_not_a_missing_one() {
    let inspected = "team/pods/agent-a/main/main/logs/current.log";
    let empty = section("agent-a", "");
    for (path, text) in [(inspected, ""), ("team/agent-a/logs.txt", &*empty)] {
        let folder = dump(&[(path, text)]);
        assert_eq!(logs(folder.path(), &["--node", "n1"]), "", "{path}");
    }
    // As must-gathers have it if the kubelet no longer has the log of the run before.
    let folder = dump(&[(inspected, "boom\n"), ("team/pods/agent-a/main/main/logs/previous.log", "")]);
    assert_eq!(logs(folder.path(), &["--node", "n1"]), "boom\n");
}

#[test]
fn coverage_shows_the_last_log_line_of_a_crash_without_a_message() {
    let previous = "start\n\u{1b}[31mError: no \"config\"\u{7}\u{1b}[0m\r\n\n";
    let folder = dump(&[("team/pods/agent-a/main/main/logs/previous.log", previous)]);
    let from = folder.path().to_str().unwrap();
    let ended = run(&["coverage", "agent", "--from", from, "--logs"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    let expected = r#"; last log line of agent-a: "Error: no \"config\"\u{7}""#;
    assert!(ended.out.replace("\n    ", " ").contains(expected), "{}", ended.out);
    let one = run(&["coverage", "agent", "--from", from, "--logs", "--node", "n1"]);
    assert_eq!(one.out.replace("\n  ", " ").matches(expected).count(), 1, "{}", one.out);
    let json = run(&["coverage", "agent", "--from", from, "--logs", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let daemon_set = &report["daemonSets"][0];
    let line = "Error: no \"config\"\u{7}";
    let log = json!({"pod": "agent-a", "container": "main", "previous": true, "lastLine": line});
    assert_eq!(daemon_set["groups"][0]["crashLog"], log, "{}", json.out);
    let message =
        |row: usize| daemon_set["nodes"][row]["reasons"][0]["message"].as_str().unwrap().contains("last log line");
    assert_eq!([message(0), message(1)], [true, false]);
    assert!(!report["incomplete"].as_array().unwrap().iter().any(|gap| gap["resource"] == "pods/log"), "{}", json.out);
    // Without the flag, no log is read.
    assert!(!run(&["coverage", "agent", "--from", from]).out.contains("Error: no"));
}

#[test]
fn a_crash_log_that_a_dump_lacks_makes_coverage_partial() {
    let folder = dump(&[]);
    let from = folder.path().to_str().unwrap();
    for (flags, code) in [(&[][..], 0), (&["--exit-code"], 3)] {
        let ended = run(&[&["coverage", "agent", "--from", from, "--logs"], flags].concat());
        assert_eq!((ended.code, ended.err.contains("log")), (Some(code), false), "{}", ended.err);
        let out = ended.out.replace('\n', " ");
        assert!(out.contains("partial answer: the log of pod agent-a could not be read ("), "{out}");
    }
}

#[test]
fn logs_of_coverage_are_for_one_daemon_set() {
    let folder = dump(&[]);
    let from = folder.path().to_str().unwrap();
    for names in [&[][..], &["agent", "other"]] {
        let ended = run(&[&["coverage", "--from", from, "--logs"], names].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{names:?}");
        assert!(ended.err.starts_with("error: --logs is for one DaemonSet"), "{}", ended.err);
    }
    for flags in [&["--map"][..], &["--stale-config"], &["--from", from]] {
        let ended = run(&[&["coverage", "agent", "--from", from, "--logs"], flags].concat());
        assert_eq!(ended.code, Some(2), "{flags:?} {}", ended.out);
    }
}
