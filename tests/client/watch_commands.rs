//! `list --watch`: what is written while the cluster changes.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Asked, Reply};
use super::status::{DAEMON_SETS, Following, PODS, current_pod, ready_pod, rollout};
use super::{JSON, api_groups, json_list, node, protobuf_list, refusal};

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
    // That is how it ends.
    assert_eq!(err, "");
}

#[test]
fn with_json_each_change_of_a_list_is_an_object_on_a_line() {
    let following = Following::of("list", &["-n", "team", "-o", "json"]);
    let mut running = following.start(&[]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    running.read_line();
    let (_, lines, _) = running.interrupt();
    let status =
        |line: &String| serde_json::from_str::<Value>(line).unwrap()["daemonSets"][0]["counts"]["available"].clone();
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

const QUOTAS: &str = "/api/v1/namespaces/team/resourcequotas";

/// Follows the changes of a namespace that has no quota yet.
fn following_changes(arguments: &[&str]) -> Following {
    Following::with("changes", &[&["-n", "team"], arguments].concat(), |asked| {
        let is_empty = [QUOTAS, "/api/v1/namespaces"].contains(&asked.path());
        let is_list = !["watch=true", "limit=1"].iter().any(|other| asked.target.contains(other));
        (is_empty && is_list).then(|| json_list(asked.path(), &[]))
    })
}

/// A quota that a manager has just written.
fn quota(manager: &str, version: &str) -> Value {
    let fields = json!({"f:spec": {"f:hard": {"f:pods": {}}}});
    let entry = json!({"manager": manager, "operation": "Update", "time": jiff::Timestamp::now(), "fieldsV1": fields});
    let metadata = json!({"name": "pods", "namespace": "team", "uid": "quota", "resourceVersion": version,
        "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [entry]});
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata})
}

#[test]
fn what_changes_is_shown_once_and_cannot_steer_the_terminal() {
    let following = following_changes(&[]);
    let mut running = following.start(&[]);
    running.read_line();
    following.send(QUOTAS, "ADDED", &quota("edit\u{1b}[31m", "50"));
    following.send("/api/v1/nodes", "ADDED", &written_node());
    while !running.lines().iter().any(|line| line.contains("node n2")) {
        assert!(running.read_line(), "{:#?}", running.lines());
    }
    let (code, lines, err) = running.interrupt();
    let (table, new) = lines.split_at(lines.iter().position(|line| line.starts_with("resourcequota")).unwrap());
    assert_eq!(table[0], "No known changes");
    // When they were created is too long ago to be new.
    let expected = [
        "resourcequota team/pods: may have changed spec.hard (edit\\u{1b}[31m)",
        "node n2: may have changed labels pool (kubectl-label)",
    ];
    assert_eq!(new, expected, "{lines:#?}");
    assert_eq!((code, err.as_str()), (Some(130), "error: interrupted\n"));
}

fn written_node() -> Value {
    let entry = json!({"manager": "kubectl-label", "operation": "Update", "time": jiff::Timestamp::now(),
        "fieldsV1": {"f:metadata": {"f:labels": {"f:pool": {}}}}});
    let metadata = json!({"name": "n2", "uid": "n2", "resourceVersion": "51", "labels": {"pool": "a"},
        "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [entry]});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
}

#[test]
fn with_json_what_is_new_is_an_object_on_a_line() {
    let following = following_changes(&["-o", "json"]);
    let mut running = following.start(&[]);
    running.read_line();
    following.send(QUOTAS, "ADDED", &quota("edit", "50"));
    running.read_line();
    let (_, lines, _) = running.interrupt();
    let reports: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = |report: &Value| {
        let changes = report["changes"].as_array().unwrap().iter();
        changes.map(|change| change["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(reports.iter().map(kinds).collect::<Vec<_>>(), [vec![], vec!["ResourceQuota"]], "{lines:#?}");
    assert!(reports.iter().all(|report| report["kind"] == "ChangesReport"));
}

#[test]
fn what_the_server_warns_of_is_shown_once_while_it_is_followed() {
    const NODES: &str = "/api/v1/nodes";
    let warns = |asked: &Asked| match asked.path() {
        _ if asked.target.contains("watch=true") || asked.target.contains("limit=1") => None,
        NODES => Some(rollout(asked).with("warning", "299 - \"old API\"")),
        QUOTAS | "/api/v1/namespaces" => Some(json_list(asked.path(), &[])),
        _ => None,
    };
    for (command, of) in [("status", &["team/agent"][..]), ("list", &["-n", "team"]), ("changes", &["-n", "team"])] {
        let following = Following::with(command, of, warns);
        let mut running = following.start(&[]);
        running.read_line();
        // They are listed again.
        following.send(NODES, "ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}));
        thread::sleep(Duration::from_secs(2));
        let (_, _, err) = running.interrupt();
        assert_eq!(err.matches("warning: old API\n").count(), 1, "{command}: {err}");
    }
    let complete = move |asked: &Asked| match asked.path() {
        PODS if !asked.target.contains("watch=true") => Some(protobuf_list("PodList", &[current_pod(true)], "")),
        _ => warns(asked),
    };
    for (flags, code) in [(&[][..], 0), (&["--warnings-as-errors"], 1)] {
        let (ended, _, err) = Following::with("status", &["team/agent"], complete).start(flags).end();
        assert_eq!(ended, Some(code), "{err}");
        assert!(err.starts_with("warning: old API\n"), "{err}");
        assert_eq!(err.contains("error: 1 warning received"), code == 1, "{err}");
    }
}

/// OpenKruise's DaemonSets may be there, and may not be read.
#[test]
fn what_may_not_be_read_is_told_while_changes_are_followed() {
    const GROUP: &str = "/apis/apps.kruise.io/v1beta1";
    for forbidden in ["/apis", "/apis/apps.kruise.io/v1beta1/namespaces/team/daemonsets"] {
        let following = Following::with("changes", &["-n", "team", "-o", "json"], move |asked| match asked.path() {
            path if path == forbidden => Some(refusal(403, "Forbidden", "it is forbidden")),
            "/apis" => Some(api_groups(&[("apps", &["v1"]), ("apps.kruise.io", &["v1beta1"])])),
            GROUP => {
                let resources = json!({"kind": "APIResourceList", "resources": [{"name": "daemonsets"}]});
                Some(Reply::of(200, JSON, resources.to_string()))
            }
            QUOTAS | "/api/v1/namespaces" if !asked.target.contains("watch=true") => Some(json_list(asked.path(), &[])),
            _ => None,
        });
        let mut running = following.start(&[]);
        running.read_line();
        following.send(QUOTAS, "ADDED", &quota("edit", "50"));
        running.read_line();
        let (_, lines, _) = running.interrupt();
        for line in &lines {
            let report: Value = serde_json::from_str(line).unwrap();
            assert!(report["incomplete"].to_string().contains("OpenKruise"), "{forbidden}: {line}");
        }
        assert_eq!(lines.len(), 2, "{forbidden}: {lines:#?}");
    }
}

/// Who reads only the beginning ends it.
#[test]
fn a_closed_pipe_ends_the_watch_of_changes() {
    let following = following_changes(&[]);
    let mut running = following.start(&[]);
    running.read_line();
    running.close(|| following.send(QUOTAS, "ADDED", &quota("edit", "50")));
}
