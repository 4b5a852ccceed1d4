//! `retry` on a server that refuses pods or does not answer, through the real binary.
//!
//! It deletes nothing, and only suggests deleting pods that would be recreated with the same revision.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server, of_proxies};
use super::{JSON, absent, api_groups, daemon_set, json_list, refusal, unstored};
use crate::screens::{Ended, end, kubectl_ds};

const RETRY: &[&str] = &["retry", "agent", "-n", "team", "-o", "json"];
const ANNOTATION: &str = "kubectl-ds/retried-at";
const SINCE: &str = "2026-01-01T00:00:00Z";

/// What the server keeps.
struct State {
    object: Value,
    pods: Vec<Value>,
    events: Vec<Value>,
    lease: Option<Value>,
    version: u64,
}

struct Cluster(Mutex<State>);

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}})
}

fn node(name: &str) -> Value {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": SINCE});
    json!({"metadata": {"name": name, "uid": name}, "status": {"conditions": [ready],
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}})
}

impl State {
    fn add_pod(&mut self, name: &str, node: &str, crashes: bool) {
        self.version += 1;
        let state = match crashes {
            true => {
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=agent"}})
            }
            false => json!({"running": {"startedAt": SINCE}}),
        };
        let status = if crashes { "False" } else { "True" };
        self.pods.push(json!({
            "metadata": {"name": name, "namespace": "team", "uid": format!("uid-of-{name}"), "creationTimestamp": SINCE,
                "resourceVersion": self.version.to_string(),
                "labels": {"app": "agent", "controller-revision-hash": "agent-1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                    "uid": "uid-of-agent", "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": SINCE}],
                "containerStatuses": [{"name": "agent", "ready": !crashes, "restartCount": 9, "state": state}]},
        }));
    }

    fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        self.version += 1;
        let spec = self.object["spec"].clone();
        edit(&mut self.object);
        self.object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if self.object["spec"] != spec {
            let generation = self.object["metadata"]["generation"].as_u64().unwrap() + 1;
            self.object["metadata"]["generation"] = generation.into();
        }
    }

    fn patch(&mut self, body: &[u8], is_dry_run: bool) -> Reply {
        let patch: Value = serde_json::from_slice(body).unwrap();
        if patch[0]["value"] != self.object["metadata"]["resourceVersion"] {
            return refusal(409, "Conflict", "the object has been modified");
        }
        let before = self.object.clone();
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        self.edit(|object| json_patch::patch(object, &patch).unwrap());
        let answer = Reply::of(200, JSON, self.object.to_string());
        if !is_dry_run {
            return answer;
        }
        self.object = before;
        unstored(answer, &self.object)
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let path = asked.path();
        match (asked.method.as_str(), path) {
            ("PATCH", _) => self.patch(&asked.body, asked.target.contains("dryRun=All")),
            ("DELETE", path) => panic!("{path} is deleted"),
            ("POST", _) => Reply::of(201, JSON, asked.body.clone()),
            (_, "/login") => Reply::of(200, "text/html", "<html>Sign in</html>"),
            (_, path) if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, self.object.to_string()),
            (_, "/apis") => api_groups(&[]),
            (_, path) if path.ends_with("/controllerrevisions") => {
                let mut template = template();
                template["$patch"] = "replace".into();
                let owner = self.pods[0]["metadata"]["ownerReferences"].clone();
                let labels = json!({"app": "agent", "controller-revision-hash": "agent-1"});
                let metadata =
                    json!({"name": "agent-1", "namespace": "team", "labels": labels, "ownerReferences": owner});
                json_list(
                    path,
                    &[json!({"metadata": metadata, "revision": 1, "data": {"spec": {"template": template}}})],
                )
            }
            (_, path) if path.ends_with("/pods") => json_list(path, &self.pods),
            (_, path) if path.ends_with("/events") => json_list(path, &self.events),
            (_, "/api/v1/nodes") => json_list(path, &["n1", "n2", "n3"].map(node)),
            (_, path) if path.contains("/leases/") => match &self.lease {
                Some(lease) => Reply::of(200, JSON, lease.to_string()),
                None => absent(path),
            },
            (_, path) => json_list(path, &[]),
        }
    }
}

impl Cluster {
    /// Three nodes: the pods of two crash.
    fn new() -> Arc<Self> {
        let mut object = daemon_set("agent");
        object["metadata"]["resourceVersion"] = "1".into();
        object["metadata"]["generation"] = 1.into();
        object["status"]["observedGeneration"] = 1.into();
        object["spec"]["template"] = template();
        object["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}});
        let mut state = State { object, pods: Vec::new(), events: Vec::new(), lease: None, version: 1 };
        state.add_pod("a1", "n1", true);
        state.add_pod("a2", "n2", true);
        state.add_pod("a3", "n3", false);
        Arc::new(Cluster(Mutex::new(state)))
    }

    fn with(change: impl FnOnce(&mut State)) -> Arc<Self> {
        let cluster = Cluster::new();
        change(&mut cluster.0.lock().unwrap());
        cluster
    }

    fn is_retried(&self) -> bool {
        self.0.lock().unwrap().object["metadata"]["annotations"][ANNOTATION].is_string()
    }
}

/// Runs a command on a server over a cluster, on which `act` sees each request first.
fn run_with(
    cluster: &Arc<Cluster>,
    arguments: &[&str],
    act: impl Fn(&Asked, &mut State) -> Option<Reply> + Send + Sync + 'static,
) -> Ended {
    let cluster = cluster.clone();
    let server = Server::start(move |asked| {
        let mut state = cluster.0.lock().unwrap();
        act(asked, &mut state).unwrap_or_else(|| state.answer(asked))
    });
    let ended = end(kubectl_ds(&[arguments, &["--server", &format!("http://{}", server.address)]].concat()), None);
    server.stop();
    ended
}

fn run(cluster: &Arc<Cluster>, arguments: &[&str]) -> Ended {
    run_with(cluster, arguments, |_, _| None)
}

fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {} {}", ended.out, ended.err))
}

/// Returns each pod that backs off, with what speaks against deleting it.
fn told(report: &Value) -> Vec<(String, Option<String>)> {
    let backoffs = report["backoffs"].as_array().into_iter().flatten().filter(|backoff| backoff["pod"].is_object());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    backoffs.map(|backoff| (text(&backoff["pod"]["pod"]).unwrap(), text(&backoff["obstacle"]))).collect()
}

fn pods(obstacles: [Option<&str>; 2]) -> Vec<(String, Option<String>)> {
    let pods = ["a1", "a2"].into_iter().zip(obstacles);
    pods.map(|(pod, obstacle)| (pod.to_owned(), obstacle.map(str::to_owned))).collect()
}

/// Returns the pods that a suggested command deletes; `None` if none is suggested.
fn deletes(report: &Value) -> Option<Vec<&str>> {
    let command = report["replacePods"]["command"].as_str()?;
    let flags = command.strip_prefix("kubectl delete pod -n team --server http://").expect(command);
    Some(flags.split(' ').skip(1).collect())
}

#[test]
fn pods_that_back_off_are_shown_with_a_command_and_none_is_deleted() {
    let cluster = Cluster::new();
    let ended = run(&cluster, &RETRY[..4]);
    // The controller has nothing to try again.
    assert_eq!((ended.code, cluster.is_retried()), (Some(0), false), "{}", ended.err);
    assert!(ended.out.contains("→ to replace them now:\n"), "{}", ended.out);
    assert_eq!(ended.err, "");
    let again = run(&cluster, RETRY);
    let found = report(&again);
    assert_eq!((told(&found), deletes(&found)), (pods([None, None]), Some(vec!["a1", "a2"])), "{found}");
}

/// With the controller down, nothing would recreate them.
#[test]
fn no_deletion_is_suggested_while_the_controller_is_down() {
    let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    let cluster = Cluster::with(|state| state.lease = Some(lease));
    let found = report(&run(&cluster, RETRY));
    let expected = pods([Some("ControlPlaneDown"); 2]);
    assert_eq!((told(&found), deletes(&found)), (expected, None), "{found}");
    let ended = run(&cluster, &RETRY[..4]);
    assert!(ended.err.contains("kube-controller-manager seems to be down"), "{}", ended.err);
}

const REFUSAL: &str = "pods \"agent-\" is forbidden: violates PodSecurity \"baseline:latest\": hostPath volumes";

/// All pods exist, so that no event tells of a refusal.
#[test]
fn no_deletion_is_suggested_of_pods_whose_successors_are_refused() {
    for (answer, expected) in [
        (refusal(403, "Forbidden", REFUSAL), Some("CreationRefused")),
        (
            refusal(
                403,
                "Forbidden",
                "pods \"agent-\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3",
            ),
            Some("CreationRefused"),
        ),
        // That says nothing about the controller.
        (
            refusal(
                403,
                "Forbidden",
                "pods is forbidden: User \"bob\" cannot create resource \"pods\" in API group \"\"",
            ),
            None,
        ),
        (of_proxies()[4].1.clone(), None),
    ] {
        let cluster = Cluster::new();
        let answer_of = answer.clone();
        let ended = run_with(&cluster, RETRY, move |asked, _| (asked.method == "POST").then(|| answer_of.clone()));
        let found = report(&ended);
        let is_unknown = found["incomplete"].as_array().unwrap().iter().any(|gap| gap["resource"] == "pods");
        let whys: Vec<_> = told(&found).into_iter().map(|(_, why)| why).collect();
        assert_eq!(whys, vec![expected.map(str::to_owned); 2], "{found}");
        assert_eq!((deletes(&found).is_none(), is_unknown), (expected.is_some(), expected.is_none()), "{found}");
        let warns = found["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "CreationRefused");
        assert_eq!(warns, expected.is_some(), "{found}");
    }
}

/// A cause that is not fixed makes the controller wait longer.
#[test]
fn a_refusal_that_lasts_is_told() {
    let event = json!({
        "metadata": {"name": "refused", "namespace": "team"}, "type": "Warning", "reason": "FailedCreate",
        "involvedObject": {"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "team", "name": "agent",
            "uid": "uid-of-agent"},
        "message": format!("Error creating: {REFUSAL}"), "lastTimestamp": "2026-06-01T00:00:00Z",
    });
    let cluster = Cluster::with(|state| state.events.push(event));
    let refuse = |asked: &Asked, _: &mut State| (asked.method == "POST").then(|| refusal(403, "Forbidden", REFUSAL));
    let ended = run_with(&cluster, &RETRY[..4], refuse);
    let out = ended.out.replace("\n  ", " ");
    assert!(out.contains("the API server is not known to accept the pods that it refused"), "{out}");
    let err = ended.err.replace("\n  ", " ").replace('\n', " ");
    assert!(
        err.contains("the API server refuses new pods (PodSecurityDenied: ") && err.contains("waits longer after each"),
        "{err}"
    );
    let accepted = run(&Cluster::with(|state| state.events = cluster.0.lock().unwrap().events.clone()), &RETRY[..4]);
    let out = accepted.out.replace("\n  ", " ");
    assert!(out.contains("the API server refused pods and accepts them now"), "{out}");
}

/// They serve, and nothing says that they would start again.
#[test]
fn no_deletion_is_suggested_of_a_pod_of_which_other_containers_run() {
    let cluster = Cluster::with(|state| {
        let running = json!({"name": "main", "ready": true, "state": {"running": {"startedAt": SINCE}}});
        state.pods[0]["status"]["containerStatuses"].as_array_mut().unwrap().push(running);
    });
    let found = report(&run(&cluster, RETRY));
    assert_eq!(told(&found), pods([Some("OthersRun"), None]));
    assert_eq!(deletes(&found), Some(vec!["a2"]));
}

#[test]
fn a_lease_that_cannot_be_read_is_told_with_a_suggested_deletion() {
    let cluster = Cluster::new();
    let page = |asked: &Asked, _: &mut State| {
        asked.path().contains("/leases/").then(|| Reply::of(200, "text/html", "<html>Sign in</html>"))
    };
    let ended = run_with(&cluster, RETRY, page);
    let found = report(&ended);
    let message = found["incomplete"][0]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("whether kube-controller-manager runs is unknown: its lease could not be read ("),
        "{found}"
    );
    assert_eq!((ended.code, found["incomplete"][0]["resource"].as_str()), (Some(0), Some("leases")), "{}", ended.err);
}

#[test]
fn a_dry_run_of_the_server_changes_nothing() {
    let cluster = Cluster::new();
    let ended = run(&cluster, &[RETRY, &["--dry-run=server"]].concat());
    assert_eq!(told(&report(&ended)), pods([None, None]), "{}", ended.err);
    assert!(ended.code == Some(0) && !cluster.is_retried(), "{}", ended.err);
}
