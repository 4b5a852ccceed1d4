//! `compare`: what a pipeline's gate sees of a changing cluster.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::server::{Asked, Server};
use super::status::{Following, PODS, current_pod, ready_pod, revision, rollout};
use super::{daemon_set, node, protobuf_list};
use crate::commands::run;

const SAME: &str = "Same: 1 DaemonSet is neither worse nor better off";

/// Writes a dump of the cluster from before its only pod failed.
fn before() -> tempfile::NamedTempFile {
    let typed = |api_version: &str, kind: &str, mut object: Value| {
        (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
        object
    };
    let items = [
        typed("apps/v1", "DaemonSet", daemon_set("agent")),
        revision("new", 7),
        typed("v1", "Node", serde_json::to_value(node("n1")).unwrap()),
        typed("v1", "Pod", ready_pod()),
    ];
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    write!(file, "{}", json!({"apiVersion": "v1", "kind": "List", "items": items})).unwrap();
    file
}

#[test]
fn the_gate_tells_whether_the_cluster_is_worse_than_the_dump() {
    let (file, server) = (before(), Server::start(rollout));
    let (path, address) = (file.path().to_str().unwrap(), format!("http://{}", server.address));
    let compare = |flags: &[&str]| run(&[&["compare", path, "-n", "team", "--server", &address], flags].concat());
    let worse = compare(&["--exit-code"]);
    assert_eq!(worse.code, Some(3), "{} {}", worse.out, worse.err);
    assert!(worse.out.starts_with("Worse: 1 node no longer has an available pod"), "{}", worse.out);
    assert_eq!(compare(&[]).code, Some(0));
    let report: Value = serde_json::from_str(&compare(&["-o", "json"]).out).unwrap();
    assert_eq!((&report["kind"], &report["verdict"]), (&json!("CompareReport"), &json!("Worse")));
    let forbidden = Server::start(|asked: &Asked| match asked.path() {
        PODS => super::refusal(403, "Forbidden", "no"),
        _ => rollout(asked),
    });
    let address = format!("http://{}", forbidden.address);
    let unknown = run(&["compare", path, "-n", "team", "--server", &address, "--exit-code"]);
    assert_eq!(unknown.code, Some(5), "{} {}", unknown.out, unknown.err);
    assert!(unknown.err.contains("hint: not in AFTER: pods"), "{}", unknown.err);
}

#[test]
fn a_watch_ends_once_it_is_at_least_as_good_as_before() {
    let file = before();
    let following = Following::of("compare", &[file.path().to_str().unwrap(), "-n", "team"]);
    let mut running = following.start(&["--timeout", "60s"]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    // BEFORE does not say when it was made.
    assert_eq!((code, err.lines().count()), (Some(0), 1), "{lines:#?} {err}");
    assert!(lines[0].starts_with("Worse: 1 node no longer has an available pod"), "{lines:#?}");
    // The line of the change, and the report.
    assert_eq!(lines.iter().filter(|line| *line == SAME).count(), 2, "{lines:#?}");
}

#[test]
fn a_watch_that_is_still_worse_after_its_timeout_says_so() {
    let file = before();
    let following = Following::of("compare", &[file.path().to_str().unwrap(), "-n", "team"]);
    let (code, lines, err) = following.start(&["--timeout", "1s", "-o", "json"]).end();
    assert_eq!((code, lines.len()), (Some(4), 1), "{lines:#?}");
    assert!(err.contains("timed out: it is worse than before"), "{err}");
}

/// The watch of the pods tells that all is well, and the list does not.
#[test]
fn a_watch_alone_is_not_believed() {
    let file = before();
    let lists = AtomicUsize::new(0);
    let following = Following::with("compare", &[file.path().to_str().unwrap(), "-n", "team"], move |asked| {
        let is_list = asked.path() == PODS && !asked.target.contains("watch=true");
        let is_later = is_list && lists.fetch_add(1, Ordering::SeqCst) > 0;
        is_later.then(|| protobuf_list("PodList", &[current_pod(false)], ""))
    });
    let mut running = following.start(&["--timeout", "3s"]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!(code, Some(4), "{lines:#?} {err}");
    assert!(!lines.iter().any(|line| line.starts_with("Same")), "{lines:#?}");
}
