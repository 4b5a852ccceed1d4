//! Responses that are well-formed but cannot be true.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubectl_ds::cluster::Query;
use kubectl_ds::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{
    JSON, absent, agent, all, block_on, cluster, daemon_set, live, node, options, pod, protobuf_list, read, refusal,
};
use crate::screens::{end, kubectl_ds};
use crate::support::shown;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// How long a test may take that normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);

/// Reads from a cluster in which one path has another answer.
fn with_answer(query: &Query, path: &'static str, answer: Reply) -> Result<Snapshot, String> {
    let server = Server::start(move |asked| if asked.path() == path { answer.clone() } else { cluster(asked) });
    match read(&options(&server), query) {
        Ok((snapshot, _)) => Ok(snapshot),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn objects_of_another_kind_are_refused() {
    let config_map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "n1"}});
    let list = |kind: &str, api_version: &str, items: &[Value]| {
        let list = json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items});
        Reply::of(200, JSON, list.to_string())
    };
    for (answer, problem) in [
        (protobuf_list("ConfigMapList", &[node("n1")], ""), r#"its kind is "ConfigMapList", not "NodeList""#),
        (list("ConfigMapList", "v1", &[]), r#"its kind is "ConfigMapList", not "NodeList""#),
        (list("List", "v1", &[]), r#"its kind is "List", not "NodeList""#),
        (list("NodeList", "v2", &[]), r#"its apiVersion is "v2", not "v1""#),
        (list("NodeList", "v1", &[config_map]), r#"its kind is "ConfigMap", not "Node""#),
    ] {
        let error = with_answer(&agent(), "/api/v1/nodes", answer).unwrap_err();
        assert_eq!(error, format!("cannot read the server's answer to list nodes: {problem}"));
    }
    let mut object = daemon_set("agent");
    object["kind"] = "Deployment".into();
    let path = "/apis/apps/v1/namespaces/team/daemonsets/agent";
    assert_eq!(
        with_answer(&agent(), path, Reply::of(200, JSON, object.to_string())).unwrap_err(),
        r#"cannot read the server's answer to get daemonsets: its kind is "Deployment", not "DaemonSet""#
    );
}

#[test]
fn objects_of_another_namespace_are_refused() {
    let mut elsewhere = pod("agent-b", "agent", "n2");
    elsewhere.metadata.namespace = "prod\u{1b}[31m".to_owned();
    let answer = protobuf_list("PodList", &[pod("agent-a", "agent", "n1"), elsewhere], "");
    assert_eq!(
        with_answer(&agent(), "/api/v1/namespaces/team/pods", answer).unwrap_err(),
        "cannot read the server's answer to list pods: \"agent-b\" is in namespace \"prod\\u{1b}[31m\", not \"team\""
    );
}

#[test]
fn a_lease_that_cannot_be_read_is_unknown() {
    for (answer, problem) in [
        (refusal(500, "InternalError", "etcd is away"), "Error from server (InternalError): etcd is away"),
        (Reply::of(200, JSON, "<html>"), "cannot read the server's answer to get leases: expected value"),
    ] {
        for query in [agent(), all()] {
            let snapshot = with_answer(&query, LEASE, answer.clone()).unwrap();
            let [Gap { kind: Kind::Leases, namespace, cause: GapCause::Unreadable { object, problem: found } }] =
                snapshot.gaps.as_slice()
            else {
                panic!("{:?}", snapshot.gaps)
            };
            assert_eq!(namespace.as_deref(), Some("kube-system"));
            assert_eq!(object, "Lease kube-system/kube-controller-manager");
            assert!(found.starts_with(problem), "{found}");
        }
    }
}

#[test]
fn a_lease_that_cannot_be_listed_does_not_end_a_watch() {
    let server = Server::start(|asked| match asked.path() {
        path if path.ends_with("/leases") => refusal(500, "InternalError", "etcd is away"),
        _ => cluster(asked),
    });
    block_on(async {
        let live = live(&options(&server)).await.unwrap();
        let mut watch = live.watch(agent()).await.unwrap();
        let gaps = &watch.snapshot().await.gaps;
        assert!(matches!(gaps.as_slice(), [Gap { kind: Kind::Leases, cause: GapCause::Unreadable { .. }, .. }]));
        assert_eq!(watch.failure().filter(|error| error.to_string().contains("etcd")), None);
    });
}

#[test]
fn a_name_that_only_a_list_has_is_not_suggested_for_itself() {
    let server = Server::start(move |asked| match asked.path() {
        path @ "/apis/apps/v1/namespaces/team/daemonsets/agent" => absent(path),
        _ => cluster(asked),
    });
    let error = shown(read(&options(&server), &agent()).unwrap_err());
    assert!(error.starts_with("Error from server (NotFound): daemonsets.apps \"agent\" not found\nhint: "), "{error}");
    assert!(!error.contains("similar names"), "{error}");
}

/// The watches of a path: what their events are sent by.
type Senders = Arc<Mutex<Vec<Sender<Vec<u8>>>>>;

/// Answers watches with responses that stay open, and keeps the senders of those of a path.
fn serve_watch(path: &'static str) -> (Server, Senders) {
    let senders = Senders::default();
    let opened = senders.clone();
    let server = Server::start(move |asked: &Asked| {
        if !asked.target.contains("watch=true") {
            return cluster(asked);
        }
        let (reply, sender) = Reply::open(JSON);
        if asked.path() == path {
            opened.lock().unwrap().push(sender);
        } else {
            // It stays open for as long as the test runs.
            std::mem::forget(sender);
        }
        reply
    });
    (server, senders)
}

/// Returns the failure that bytes from a watch of a path lead to, and the nodes and pods that are known then.
fn failure_of_watch(path: &'static str, bytes: &[u8]) -> (String, usize, usize) {
    let (server, senders) = serve_watch(path);
    block_on(async {
        let live = live(&options(&server)).await.unwrap();
        let mut watch = live.watch(agent()).await.unwrap();
        let test = async {
            while senders.lock().unwrap().is_empty() {
                let _ = tokio::time::timeout(Duration::from_millis(20), watch.changed()).await;
            }
            for chunk in bytes.chunks(1 << 16) {
                senders.lock().unwrap()[0].send(chunk.to_vec()).unwrap();
            }
            let failure = loop {
                // Leases are not served here.
                match watch.failure().filter(|error| !error.to_string().contains("leases")) {
                    Some(failure) => break failure.to_string(),
                    None => watch.changed().await,
                }
            };
            let snapshot = watch.snapshot().await;
            (failure, snapshot.nodes.len(), snapshot.pods.len())
        };
        tokio::time::timeout(PATIENCE, test).await.expect("the watch fails")
    })
}

#[test]
fn an_event_about_another_kind_ends_the_watch() {
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "n3", "resourceVersion": "43"}});
    let event = format!("{}\n", json!({"type": "ADDED", "object": object}));
    let problem = r#"cannot read the server's answer to watch nodes: its kind is "ConfigMap", not "Node""#;
    assert_eq!(failure_of_watch("/api/v1/nodes", event.as_bytes()), (problem.to_owned(), 2, 1));
}

#[test]
fn an_event_about_another_namespace_ends_the_watch() {
    let object = json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "prod", "resourceVersion": "43"}});
    let event = format!("{}\n", json!({"type": "ADDED", "object": object}));
    let problem = "cannot read the server's answer to watch pods: \"a\" is in namespace \"prod\", not \"team\"";
    assert_eq!(failure_of_watch("/api/v1/namespaces/team/pods", event.as_bytes()), (problem.to_owned(), 2, 1));
}

#[test]
fn an_event_without_an_end_ends_the_watch() {
    let problem = "cannot read the server's answer to watch nodes: an event is longer than any object of Kubernetes";
    assert_eq!(failure_of_watch("/api/v1/nodes", &vec![b'x'; 17 << 20]), (problem.to_owned(), 2, 1));
}

#[test]
fn only_names_are_completed() {
    let hostile =
        ["ok", "ok.2", "", "a\nb", "\u{1b}]0;x\u{7}", "$(touch x)", "`x`", "-A", "Upper", "a b", "a/b", "ok-"];
    let server = Server::start(move |asked| {
        if asked.path().ends_with("/daemonsets") || !asked.target.contains("limit") {
            let rows: Vec<_> = hostile.iter().map(|name| json!({"cells": [name, "1\u{1b}[31m\n$(x)"]})).collect();
            let columns = json!([{"name": "Name"}, {"name": "Status"}]);
            let table = json!({"kind": "Table", "columnDefinitions": columns, "rows": rows});
            return Reply::of(200, JSON, table.to_string());
        }
        let labels: serde_json::Map<_, _> = hostile
            .iter()
            .chain(&["example.com/Zone_1", "/x", "x/"])
            .map(|key| ((*key).to_owned(), json!("x")))
            .collect();
        let rows = json!([{"cells": [], "object": {"metadata": {"labels": labels}}}]);
        Reply::of(200, JSON, json!({"kind": "Table", "columnDefinitions": [], "rows": rows}).to_string())
    });
    let address = format!("http://{}", server.address);
    for (words, expected) in [
        (&["coverage"] as &[&str], &["ok", "ok.2"] as &[&str]),
        (&["coverage", "--node"], &["ok", "ok.2"]),
        (&["list", "-n"], &["ok"]),
        (&["coverage", "--by"], &["Upper", "a/b", "example.com/Zone_1", "ok", "ok.2"]),
    ] {
        let line = [&["__complete", "--"], words, &[""]].concat();
        // The address precedes the word that is completed.
        let mut line: Vec<&str> = line;
        line.splice(3..3, ["--server", &address]);
        let ended = end(kubectl_ds(&line), None);
        let lines: Vec<&str> = ended.out.lines().filter(|line| *line != ":4").collect();
        let values: Vec<&str> = lines.iter().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(values, expected, "{words:?}: {}", ended.err);
        assert!(!ended.out.contains('\u{1b}'), "{:?}", ended.out);
    }
}
