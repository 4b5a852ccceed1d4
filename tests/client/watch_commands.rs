//! `list --watch`: what is written while the cluster changes.

use serde_json::{Value, json};

use super::status::{DAEMON_SETS, Following, PODS, ready_pod};
use super::{node, protobuf_list};

#[test]
fn a_list_is_followed_line_by_line() {
    let following = Following::of("list", &["-n", "team"]);
    let mut running = following.start(&[]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    running.read_line();
    let (code, lines, err) = running.interrupt();
    assert_eq!(code, Some(130), "{lines:#?}");
    assert!(
        lines[0].starts_with("team/agent: ") && lines[0].contains("1 desired, 1 updated, 0 available; "),
        "{lines:#?}"
    );
    assert!(lines[1].starts_with("team/agent: Healthy: 1 desired, 1 updated, 1 available"), "{lines:#?}");
    assert_eq!(err, "error: interrupted\n");
}

#[test]
fn with_json_each_change_of_a_list_is_an_object_on_a_line() {
    let following = Following::of("list", &["-n", "team", "-o", "json"]);
    let mut running = following.start(&[]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    running.read_line();
    let (_, lines, _) = running.interrupt();
    let status = |line: &String| serde_json::from_str::<Value>(line).unwrap()["daemonSets"][0]["available"].clone();
    assert_eq!(lines.iter().map(status).collect::<Vec<_>>(), [json!(0), json!(1)]);
}

#[test]
fn a_daemon_set_that_is_gone_is_reported() {
    let following = Following::of("list", &["-n", "team"]);
    let mut running = following.start(&[]);
    running.read_line();
    let mut deleted = super::daemon_set("agent");
    deleted["metadata"]["resourceVersion"] = json!("50");
    following.send(DAEMON_SETS, "DELETED", &deleted);
    running.read_line();
    let (_, lines, _) = running.interrupt();
    assert_eq!(lines[1], "team/agent: no longer shown");
}

#[test]
fn a_label_that_no_node_has_ends_a_watch_before_anything_is_shown() {
    let following = Following::with("status", &["team/agent"], |asked| {
        let mut node = node("n1");
        node.metadata.labels.insert("zone".to_owned(), "a".to_owned());
        let is_list = asked.path() == "/api/v1/nodes" && !asked.target.contains("watch=true");
        is_list.then(|| protobuf_list("NodeList", &[node], ""))
    });
    let mut running = following.start(&["--by", "zome"]);
    assert!(!running.read_line());
    let (code, _, err) = running.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.starts_with("error: no node has label \"zome\"\n"), "{err}");
}
