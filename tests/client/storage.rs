//! Claims, volumes and what attaches them: they are read only if a pod without a node has some, and what is forbidden is unknown.

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{JSON, cluster, daemon_set, json_list, refusal};
use crate::screens::{end, kubectl_ds};

const STORAGE: [&str; 7] = [
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
];

/// The DaemonSet `agent` lacks a pod on one of two nodes; its pods share a claim if `has_claim`.
fn lacking(asked: &Asked, has_claim: bool, desired: usize) -> Reply {
    let mut agent = daemon_set("agent");
    if has_claim {
        agent["spec"]["template"]["spec"] =
            json!({"volumes": [{"name": "db", "persistentVolumeClaim": {"claimName": "db"}}]});
    }
    agent["status"] = json!({"desiredNumberScheduled": desired});
    match asked.path() {
        path if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, agent.to_string()),
        path if path.ends_with("/daemonsets") => json_list(path, &[agent]),
        path if STORAGE.iter().any(|resource| path.ends_with(resource)) => json_list(path, &[]),
        _ => cluster(asked),
    }
}

fn coverage(server: &Server) -> Value {
    let address = format!("http://{}", server.address);
    let ended = end(kubectl_ds(&["coverage", "agent", "-n", "team", "-o", "json", "-s", &address]), None);
    serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err))
}

fn read_storage(server: &Server) -> Vec<String> {
    let asked = server.asked().into_iter().map(|asked| asked.path().to_owned());
    asked.filter(|path| STORAGE.iter().any(|resource| path.ends_with(resource))).collect()
}

#[test]
fn storage_is_read_only_if_a_pod_without_a_node_has_volumes() {
    for (has_claim, desired, count) in [(false, 2, 0), (true, 1, 0), (true, 2, STORAGE.len())] {
        let server = Server::start(move |asked| lacking(asked, has_claim, desired));
        coverage(&server);
        assert_eq!(read_storage(&server).len(), count, "{has_claim} {desired}");
    }
}

#[test]
fn storage_that_is_forbidden_is_unknown_and_named() {
    for resource in STORAGE {
        let server = Server::start(move |asked| match asked.path() {
            path if path.ends_with(resource) => refusal(403, "Forbidden", "no"),
            _ => lacking(asked, true, 2),
        });
        let report = coverage(&server);
        let incomplete = report["incomplete"].as_array().unwrap_or_else(|| panic!("{resource}: {report}"));
        let named = incomplete.iter().find(|it| it["resource"] == resource);
        let message = named.unwrap_or_else(|| panic!("{resource}: {report}"))["message"].as_str().unwrap();
        assert!(message.contains("on which nodes pods can have their volumes"), "{message}");
        assert_eq!(read_storage(&server).len(), STORAGE.len() + usize::from(resource == STORAGE[0]));
    }
    // Claims of the DaemonSet's own namespace may be readable.
    let server = Server::start(|asked| match asked.path() {
        "/api/v1/persistentvolumeclaims" => refusal(403, "Forbidden", "no"),
        _ => lacking(asked, true, 2),
    });
    coverage(&server);
    assert!(read_storage(&server).contains(&"/api/v1/namespaces/team/persistentvolumeclaims".to_owned()));
}
