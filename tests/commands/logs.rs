//! `logs` of dumps: the directories and archives of the tools that write logs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::run;
use crate::screens::{end, kubectl_ds};

fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"app": name}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}}},
        "status": {"desiredNumberScheduled": 2},
    })
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}})
}

/// A pod of a DaemonSet that crashes, with a termination message unless it is empty.
fn crashing(of: &str, name: &str, node: &str, message: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": of, "uid": of, "controller": true});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"app": of}, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": message}}}]},
    })
}

/// Writes a dump of a DaemonSet with a crashing pod on each of two nodes, and the given files.
fn dump(files: &[(&str, &str)]) -> TempDir {
    let pods = [crashing("agent", "agent-a", "n1", ""), crashing("agent", "agent-b", "n2", "")];
    dump_of(&[&[daemon_set("agent"), node("n1"), node("n2")], &pods[..]].concat(), files)
}

/// Writes a dump of objects, and the given files.
fn dump_of(items: &[Value], files: &[(&str, &str)]) -> TempDir {
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

/// Its image cannot be pulled: there is no log to take another dump for.
#[test]
fn a_container_that_was_never_started_has_no_log_to_look_for() {
    for (restarts, is_told) in [(0, true), (3, false)] {
        let mut pod = crashing("agent", "agent-a", "n1", "");
        pod["status"]["containerStatuses"] =
            json!([{"name": "main", "restartCount": restarts, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        let folder = dump_of(&[daemon_set("agent"), node("n1"), pod], &[]);
        let ended = run(&["logs", "agent", "--from", folder.path().to_str().unwrap()]);
        assert_eq!(ended.err.contains("no container of it was started"), is_told, "{restarts}: {}", ended.err);
        assert_eq!(ended.err.contains("has no log of container main"), !is_told, "{restarts}: {}", ended.err);
    }
}

/// Snapshots have no logs, but what the kubelet has kept of them.
#[test]
fn the_advice_under_a_crash_shows_the_termination_messages_that_a_dump_has_instead_of_logs() {
    let pods = ["n1", "n2"].map(|node| {
        crashing("agent", &format!("agent-{node}"), node, &format!("start on {node}\nError: {node} has no driver\n"))
    });
    let folder = dump_of(&[&[daemon_set("agent"), node("n1"), node("n2")], &pods[..]].concat(), &[]);
    let from = folder.path().join("objects.json").display().to_string();
    let told = run(&["coverage", "agent", "--from", &from, "-o", "json"]);
    let report: Value = serde_json::from_str(&told.out).unwrap();
    let of_group = "kubectl ds logs -n team --reason CrashLooping -c main --from ";
    let of_node = "kubectl ds logs -n team --node n1 -c main --from ";
    let expected = "on 2 nodes: n1, n2\n    start on n1\n    Error: n1 has no driver\n";
    for (at, command, shown) in [
        ("/daemonSets/0/problems/0/fix/command", of_group, expected),
        ("/daemonSets/0/nodes/0/reasons/0/fix/command", of_node, "start on n1\nError: n1 has no driver\n"),
    ] {
        let suggested = report.pointer(at).unwrap().as_str().unwrap();
        assert_eq!(suggested, format!("{command}{from} agent"));
        let words = shlex::split(suggested).unwrap();
        let ended = run(&words[2..].iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), shown), "{}", ended.err);
        let warning = "could not be read: ";
        assert!(ended.err.contains(warning) && ended.err.contains("; shown instead: the termination message"));
    }
    let report = run(&["logs", "agent", "--from", &from, "--node", "n1", "-o", "json"]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!((&report["logs"][0]["terminationMessage"], &report["leftOut"]), (&json!(true), &json!(0)));
    let objects = fs::read(&from).unwrap();
    let piped = end(kubectl_ds(&["logs", "agent", "--from", "-"]), Some(&objects));
    assert_eq!((piped.code, piped.out.as_str()), (Some(0), expected), "{}", piped.err);
}

#[test]
fn lines_of_several_daemon_sets_are_folded_and_of_many_pods_some_of_each_daemon_set_and_reason_are_read() {
    let of_agent = |at: usize| {
        let name = format!("agent-{at}");
        match at {
            // The only one that has completed instead.
            277 => crashing("agent", &name, "n277", "no config\n"),
            _ => crashing("agent", &name, &format!("n{at:03}"), "refused by 10.0.0.1\n"),
        }
    };
    let mut pods: Vec<Value> = (0..300).map(of_agent).collect();
    pods[277]["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] = 0.into();
    pods.push(crashing("proxy", "proxy-x", "n299", "refused by 10.0.0.2\nof proxy\n"));
    let mut items = vec![daemon_set("agent"), daemon_set("proxy")];
    items.extend((0..300).map(|at| node(&format!("n{at:03}"))));
    items.extend(pods);
    let folder = dump_of(&items, &[]);
    let from = folder.path().to_str().unwrap();
    for choice in
        [&["-A", "--reason", "CrashLooping"][..], &["-n", "team", "agent", "proxy"], &["-l", "app in (agent, proxy)"]]
    {
        let ended = run(&[&["logs", "--from", from], choice].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let blocks: Vec<&str> = ended.out.trim_end().split("\n\n").collect();
        assert!(blocks[0].starts_with("team/agent on 198 nodes: n000, n001, "), "{}", ended.out);
        assert!(blocks[0].ends_with("\nteam/proxy on n299\n    refused by 10.0.0.1"), "{}", ended.out);
        assert_eq!(blocks[1..], ["team/agent on n277\n    no config", "team/proxy on n299\n    of proxy"]);
        let expected =
            "warning: of 301 pods that match, the logs of 200 were read, spread over DaemonSets and reasons;";
        assert!(ended.err.starts_with(expected), "{}", ended.err);
        assert_eq!(ended.err.matches("could not be read").count(), 1, "{}", ended.err);
    }
    let ended = run(&["logs", "--from", from, "-A", "--reason", "CrashLooping", "-o", "json"]);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((report["logs"].as_array().unwrap().len(), &report["leftOut"]), (200, &json!(101)));
    assert_eq!(report["blocks"][1]["daemonSets"], json!([{"namespace": "team", "name": "agent", "nodes": ["n277"]}]));
}

/// Of pods that differ in their containers, as those of two revisions may.
#[test]
fn a_container_that_only_some_pods_have_is_shown_of_those() {
    let mut odd = crashing("agent", "agent-b", "n2", "");
    odd["spec"]["containers"][0]["name"] = "other".into();
    let pods = [crashing("agent", "agent-a", "n1", "boom\n"), odd];
    let folder = dump_of(&[&[daemon_set("agent"), node("n1"), node("n2")], &pods[..]].concat(), &[]);
    let from = folder.path().to_str().unwrap();
    let ended = run(&["logs", "agent", "--from", from, "-c", "main"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "boom\n"), "{}", ended.err);
    let ended = run(&["logs", "agent", "--from", from, "-c", "no-such"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), "error: pod team/agent-a has no container \"no-such\"\n"));
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
    let of = |folder: &TempDir| {
        let ended = run(&["logs", "agent", "--from", folder.path().to_str().unwrap(), "--node", "n1"]);
        (ended.code, ended.out, ended.err)
    };
    for (path, text) in [(inspected, ""), ("team/agent-a/logs.txt", &*empty)] {
        let folder = dump(&[(path, text)]);
        assert_eq!(of(&folder), (Some(0), String::new(), "warning: nothing was logged\n".to_owned()), "{path}");
    }
    let pod = crashing("agent", "agent-a", "n1", "no subnet");
    let (code, out, err) = of(&dump_of(&[daemon_set("agent"), node("n1"), pod], &[(inspected, "")]));
    assert_eq!((code, out.as_str()), (Some(0), "no subnet\n"));
    assert!(err.contains("it is empty; shown instead: the termination message"), "{err}");
    // As must-gathers have it if the kubelet no longer has the log of the run before.
    let folder = dump(&[(inspected, "boom\n"), ("team/pods/agent-a/main/main/logs/previous.log", "")]);
    assert_eq!(logs(folder.path(), &["--node", "n1"]), "boom\n");
}
