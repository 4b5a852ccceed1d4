//! What is sent if the environment allows no changes, or the user has to confirm first.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{JSON, absent, api_groups, daemon_set, json_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};

const SINCE: &str = "2026-01-01T00:00:00Z";

/// Every command that changes something.
const CHANGES: [&[&str]; 8] = [
    &["undo", "agent"],
    &["restart", "agent"],
    &["retry", "agent"],
    &["set", "agent", "--max-unavailable", "2"],
    &["pause", "agent"],
    &["resume", "agent"],
    &["partition", "agent", "1"],
    &["partition", "agent", "0", "--image", "agent=agent:2"],
];

/// A DaemonSet with a pod on each of three nodes, of which `down` is down.
struct Cluster {
    object: Value,
    down: &'static str,
}

impl Cluster {
    fn new(down: &'static str, template: &Value) -> Arc<Mutex<Self>> {
        let mut object = daemon_set("agent");
        (object["metadata"]["resourceVersion"], object["metadata"]["generation"]) = ("1".into(), 1.into());
        object["status"]["observedGeneration"] = 1.into();
        object["spec"]["template"] = template.clone();
        object["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
        Arc::new(Mutex::new(Cluster { object, down }))
    }

    fn node(&self, name: &str) -> Value {
        let ready = if name == self.down { "Unknown" } else { "True" };
        json!({"metadata": {"name": name, "uid": name}, "status": {
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": SINCE}],
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}})
    }

    fn pod(&self, node: &str) -> Value {
        let ready = if node == self.down { "False" } else { "True" };
        json!({
            "metadata": {"name": format!("pod-{node}"), "namespace": "team", "uid": node, "creationTimestamp": SINCE,
                "labels": {"app": "agent", "controller-revision-hash": "agent-1"}, "ownerReferences": [owner()]},
            "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent:1"}]},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": SINCE}]},
        })
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        match (asked.method.as_str(), asked.path()) {
            ("PATCH", _) => {
                let patch: json_patch::Patch = serde_json::from_slice(&asked.body).unwrap();
                let mut patched = self.object.clone();
                json_patch::patch(&mut patched, &patch).unwrap();
                if !asked.target.contains("dryRun=All") {
                    patched["metadata"]["resourceVersion"] = "2".into();
                    self.object = patched.clone();
                }
                Reply::of(200, JSON, patched.to_string())
            }
            ("POST", _) => refusal(403, "Forbidden", "pods is forbidden: User \"me\" cannot create resource \"pods\""),
            (_, path) if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, self.object.to_string()),
            (_, "/apis") => api_groups(&[]),
            (_, path) if path.ends_with("/controllerrevisions") => {
                let mut template = self.object["spec"]["template"].clone();
                template["$patch"] = "replace".into();
                let labels = json!({"app": "agent", "controller-revision-hash": "agent-1"});
                let metadata =
                    json!({"name": "agent-1", "namespace": "team", "labels": labels, "ownerReferences": [owner()]});
                let data = json!({"spec": {"template": template}});
                json_list(path, &[json!({"metadata": metadata, "revision": 1, "data": data})])
            }
            (_, path) if path.ends_with("/pods") => json_list(path, &["n1", "n2", "n3"].map(|node| self.pod(node))),
            (_, "/api/v1/nodes") => json_list("/api/v1/nodes", &["n1", "n2", "n3"].map(|node| self.node(node))),
            (_, path) if path.contains("/leases/") => absent(path),
            (_, path) => json_list(path, &[]),
        }
    }
}

fn owner() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-of-agent", "controller": true})
}

pub(crate) fn template() -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}})
}

/// Starts a server for a DaemonSet with a template whose node `down` is down.
pub(crate) fn server(down: &'static str, template: &Value) -> Server {
    let cluster = Cluster::new(down, template);
    Server::start(move |asked| cluster.lock().unwrap().answer(asked))
}

/// Returns how often something was changed.
pub(crate) fn changes(server: &Server) -> usize {
    server.asked().iter().filter(|asked| asked.method == "PATCH" && !asked.target.contains("dryRun=All")).count()
}

/// Returns a command that uses a kubeconfig with the context `prod-eu` of a server.
pub(crate) fn command(server: &Server, folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let path = folder.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "prod-eu",
        "clusters": [{"name": "eu", "cluster": {"server": format!("http://{}", server.address)}}],
        "contexts": [{"name": "prod-eu", "context": {"cluster": "eu", "namespace": "team"}}]});
    std::fs::write(&path, config.to_string()).unwrap();
    kubectl_ds(&[arguments, &["--kubeconfig", path.to_str().unwrap()]].concat())
}

fn run(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(server, &folder, arguments);
    command.envs(environment.iter().copied());
    end(command, None)
}

#[test]
fn nothing_is_sent_if_the_environment_allows_no_change() {
    let server = server("", &template());
    for change in CHANGES {
        for value in ["1", "true", "yes", "please"] {
            let ended = run(&server, change, &[("KUBECTL_DS_READ_ONLY", value)]);
            assert_eq!(ended.code, Some(1), "{change:?} {}", ended.err);
            assert!(ended.err.starts_with("error: KUBECTL_DS_READ_ONLY is set"), "{}", ended.err);
        }
    }
    assert_eq!(server.asked().len(), 0);
    // What only looks goes on, and so does what is not set.
    for (arguments, value) in [
        (&["status", "agent"][..], "1"),
        (&["restart", "agent", "--dry-run=client"], "1"),
        (&["restart", "agent", "--no-wait"], "0"),
        (&["pause", "agent", "--no-wait"], ""),
        (&["pause", "agent", "--no-wait"], "False"),
        (&["pause", "agent", "--no-wait"], "no"),
    ] {
        let ended = run(&server, arguments, &[("KUBECTL_DS_READ_ONLY", value)]);
        assert_eq!(ended.code, Some(0), "{arguments:?} {}", ended.err);
    }
    server.stop();
}

#[test]
fn no_change_is_made_in_all_namespaces() {
    let server = server("", &template());
    for change in CHANGES {
        for flags in [&["-A"][..], &["--all-namespaces"], &["-A", "--dry-run=client"]] {
            let ended = run(&server, &[change, flags].concat(), &[]);
            assert_eq!(ended.code, Some(2), "{change:?} {}", ended.err);
            assert!(ended.err.contains("--all-namespaces cannot be given"), "{}", ended.err);
        }
    }
    assert_eq!(server.asked().len(), 0);
    server.stop();
}

/// A script is never asked, whatever a change may do.
#[test]
fn nobody_is_asked_without_a_terminal() {
    let server = server("n3", &template());
    let ended = run(&server, &["restart", "agent", "--no-wait"], &[("KUBECTL_DS_CONFIRM", "*")]);
    assert_eq!((ended.code, changes(&server)), (Some(0), 1), "{}", ended.err);
    assert!(ended.err.contains("no pod will be replaced: n3 is down and holds maxUnavailable 1"), "{}", ended.err);
    assert!(ended.err.contains("set --max-unavailable 2") && !ended.err.contains("continue?"), "{}", ended.err);
    server.stop();
}
