//! `retry` on a server whose answers, controller and other clients are against it, through the real binary.
//!
//! Pods may be deleted only if they come back, of the same revision, and what became of each has to be told.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::faults::{Extent, Fault, dated, faults, refuses, wrong_dates};
use super::server::{Asked, Reply, Server, of_proxies};
use super::staged_faults::FAULTS;
use super::{JSON, absent, api_groups, daemon_set, json_list, refusal};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::sampling::share;

const RETRY: &[&str] = &["retry", "agent", "-n", "team", "-o", "json"];
const ANNOTATION: &str = "kubectl-ds/retried-at";
const SINCE: &str = "2026-01-01T00:00:00Z";

/// What the server keeps. Its controller recreates a deleted pod, which is ready then.
struct State {
    object: Value,
    pods: Vec<Value>,
    events: Vec<Value>,
    lease: Option<Value>,
    version: u64,
    deleted: Vec<String>,
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
        if is_dry_run {
            self.object = before;
        }
        answer
    }

    fn delete(&mut self, path: &str, options: &Value) -> Reply {
        let name = path.rsplit('/').next().unwrap();
        let Some(at) = self.pods.iter().position(|pod| pod["metadata"]["name"] == name) else { return absent(path) };
        let is_as_read = |field: &str| options["preconditions"][field] == self.pods[at]["metadata"][field];
        if !["uid", "resourceVersion"].into_iter().all(is_as_read) {
            return refusal(409, "Conflict", "the pod has been modified");
        }
        if options["dryRun"][0] != "All" {
            let node = self.pods.remove(at)["spec"]["nodeName"].as_str().unwrap().to_owned();
            self.add_pod(&format!("{name}-again"), &node, false);
            self.deleted.push(name.to_owned());
        }
        Reply::of(200, JSON, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#)
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let path = asked.path();
        match (asked.method.as_str(), path) {
            ("PATCH", _) => self.patch(&asked.body, asked.target.contains("dryRun=All")),
            ("DELETE", path) => self.delete(path, &serde_json::from_slice(&asked.body).unwrap()),
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
            (_, path) if path.contains("/pods/") => {
                let name = path.rsplit('/').next().unwrap();
                let Some(pod) = self.pods.iter().find(|pod| pod["metadata"]["name"] == name) else {
                    return absent(path);
                };
                let mut pod = pod.clone();
                (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
                Reply::of(200, JSON, pod.to_string())
            }
            (_, path) if path.contains("/leases/") => match &self.lease {
                Some(lease) => Reply::of(200, JSON, lease.to_string()),
                None => absent(path),
            },
            (_, path) => json_list(path, &[]),
        }
    }
}

impl Cluster {
    /// Three nodes: the pods of two crash, and both may be unavailable.
    fn new() -> Arc<Self> {
        let mut object = daemon_set("agent");
        object["metadata"]["resourceVersion"] = "1".into();
        object["metadata"]["generation"] = 1.into();
        object["status"]["observedGeneration"] = 1.into();
        object["spec"]["template"] = template();
        object["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}});
        let (pods, events, deleted) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = State { object, pods, events, lease: None, version: 1, deleted };
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

    fn deleted(&self) -> Vec<String> {
        self.0.lock().unwrap().deleted.clone()
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

/// Returns each pod that backs off, with why it is not deleted.
fn told(report: &Value) -> Vec<(String, Option<String>)> {
    let backoffs = report["backoffs"].as_array().into_iter().flatten().filter(|backoff| backoff["pod"].is_object());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    backoffs.map(|backoff| (text(&backoff["pod"]["pod"]).unwrap(), text(&backoff["left"]))).collect()
}

fn left(pod: &str, why: &str) -> (String, Option<String>) {
    (pod.to_owned(), Some(why.to_owned()))
}

fn gone(pod: &str) -> (String, Option<String>) {
    (pod.to_owned(), None)
}

#[test]
fn pods_that_back_off_are_deleted_and_counted() {
    let cluster = Cluster::new();
    let ended = run(&cluster, &RETRY[..4]);
    assert_eq!((ended.code, cluster.deleted()), (Some(0), vec!["a1".to_owned(), "a2".to_owned()]), "{}", ended.err);
    assert!(ended.out.ends_with("daemonset.apps/agent retried; 2 pods deleted\n"), "{}", ended.out);
    assert_eq!(ended.err, "");
    let again = run(&cluster, &RETRY[..4]);
    assert_eq!((again.code, cluster.deleted().len()), (Some(0), 2), "{}", again.err);
}

/// With the controller down, nothing would recreate them.
#[test]
fn no_pod_is_deleted_while_the_controller_is_down() {
    let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    let cluster = Cluster::with(|state| state.lease = Some(lease));
    let ended = run(&cluster, RETRY);
    let expected = [left("a1", "ControlPlaneDown"), left("a2", "ControlPlaneDown")];
    assert_eq!((cluster.deleted(), told(&report(&ended))), (Vec::new(), expected.to_vec()), "{}", ended.err);
    let ended = run(&cluster, &RETRY[..4]);
    assert!(ended.err.contains("kube-controller-manager seems to be down"), "{}", ended.err);
}

const REFUSAL: &str = "pods \"agent-\" is forbidden: violates PodSecurity \"baseline:latest\": hostPath volumes";

/// All pods exist, so that no event tells of a refusal.
#[test]
fn no_pod_is_deleted_whose_successor_is_refused() {
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
        assert_eq!((cluster.deleted().is_empty(), is_unknown), (expected.is_some(), expected.is_none()), "{found}");
        let warns = found["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "CreationRefused");
        assert_eq!(warns, expected.is_some(), "{found}");
    }
}

/// A cause that is not mended makes the controller wait longer.
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

/// What somebody else does to the DaemonSet.
type Edit = fn(&mut Value);

/// A pod that is deleted after the template was changed comes back as another one.
#[test]
fn no_pod_is_deleted_after_the_daemon_set_was_changed() {
    fn roll_out(object: &mut Value) {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:2".into();
    }
    fn retry(object: &mut Value) {
        object["metadata"]["annotations"][ANNOTATION] = "2026-11-21T12:00:00Z".into();
    }
    fn recreate(object: &mut Value) {
        object["metadata"]["uid"] = "another".into();
    }
    fn remove(object: &mut Value) {
        object["metadata"]["deletionTimestamp"] = SINCE.into();
    }
    // A label is no reason to stop.
    fn label(object: &mut Value) {
        object["metadata"]["labels"] = json!({"team": "x"});
        object["metadata"]["annotations"] = Value::Null;
    }
    let edits: [(Edit, bool); 5] = [(roll_out, true), (retry, true), (recreate, true), (remove, true), (label, false)];
    for (number, (edit, stops)) in edits.into_iter().enumerate() {
        for deleted in [0, 1] {
            let cluster = Cluster::new();
            let is_done = AtomicUsize::new(0);
            let ended = run_with(&cluster, RETRY, move |asked, state| {
                let is_time =
                    state.deleted.len() == deleted && state.object["metadata"]["annotations"][ANNOTATION].is_string();
                if asked.method == "GET" && is_time && is_done.fetch_add(1, Ordering::SeqCst) == 0 {
                    state.edit(edit);
                }
                None
            });
            let expected = if stops { deleted } else { 2 };
            assert_eq!(cluster.deleted().len(), expected, "{number}: {} {}", ended.out, ended.err);
            assert_eq!(ended.code, Some(i32::from(stops)), "{number}: {}", ended.err);
            let whys = told(&report(&ended)).into_iter().filter(|(_, why)| why.is_none()).count();
            assert_eq!(whys, expected, "{number}: {}", ended.out);
            assert_eq!(ended.err.contains("was changed after it was retried"), stops, "{number}: {}", ended.err);
        }
    }
}

/// It may be ready by then.
#[test]
fn a_pod_that_has_changed_is_left_and_told() {
    let change = |asked: &Asked, state: &mut State| {
        if asked.method == "PATCH" {
            state.pods[0]["metadata"]["resourceVersion"] = "99".into();
        }
        None
    };
    let cluster = Cluster::new();
    let ended = run_with(&cluster, RETRY, change);
    assert_eq!((ended.code, cluster.deleted()), (Some(0), vec!["a2".to_owned()]), "{}", ended.err);
    assert_eq!(told(&report(&ended)), [left("a1", "Changed"), gone("a2")]);
    let ended = run_with(&Cluster::new(), &RETRY[..4], change);
    assert!(ended.out.ends_with("daemonset.apps/agent retried; 1 pod deleted\n"), "{}", ended.out);
    assert!(ended.err.contains("1 pod was changed after it was read, and is left: a1"), "{}", ended.err);
}

/// They serve, and nothing says that they would start again.
#[test]
fn a_pod_of_which_other_containers_run_is_left() {
    let runs = |state: &mut State| {
        let running = json!({"name": "main", "ready": true, "state": {"running": {"startedAt": SINCE}}});
        state.pods[0]["status"]["containerStatuses"].as_array_mut().unwrap().push(running);
    };
    let cluster = Cluster::with(runs);
    let ended = run(&cluster, RETRY);
    assert_eq!(told(&report(&ended)), [left("a1", "OthersRun"), gone("a2")]);
    assert_eq!(cluster.deleted(), ["a2"]);
    let cluster = Cluster::with(runs);
    let ended = run(&cluster, &[RETRY, &["--force"]].concat());
    assert_eq!(told(&report(&ended)), [gone("a1"), gone("a2")]);
    assert_eq!(cluster.deleted(), ["a1", "a2"]);
}

#[test]
fn what_was_not_deleted_is_told_if_the_command_ends_early() {
    let cluster = Cluster::new();
    let forbid = |asked: &Asked, _: &mut State| {
        let is_first = asked.method == "DELETE" && asked.path().ends_with("/a1");
        is_first.then(|| {
            refusal(403, "Forbidden", "pods \"a1\" is forbidden: User \"bob\" cannot delete resource \"pods\"")
        })
    };
    let ended = run_with(&cluster, RETRY, forbid);
    let found = report(&ended);
    assert_eq!((ended.code, &found["outcome"]["stage"]), (Some(1), &json!("Applied")), "{}", ended.err);
    assert_eq!(told(&found), [left("a1", "NotReached"), left("a2", "NotReached")]);
    assert!(ended.err.contains("pods deleted before that: 0"), "{}", ended.err);

    let lost = |asked: &Asked, _: &mut State| asked.path().contains("/pods/a1").then(Reply::hang_up);
    let ended = run_with(&Cluster::new(), RETRY, lost);
    let found = report(&ended);
    assert_eq!((ended.code, &found["outcome"]["stage"]), (Some(7), &json!("Unknown")), "{}", ended.err);
    assert_eq!(told(&found), [left("a1", "Unknown"), left("a2", "NotReached")]);
    assert!(ended.err.contains("it is not known whether pod a1 was deleted"), "{}", ended.err);
}

/// What has answered, or has not, may still send the deletion on.
#[test]
fn a_deletion_without_an_answer_of_the_server_is_unknown() {
    for answer in [
        Reply::hang_up(),
        Reply::of(499, "text/plain", ""),
        refusal(500, "InternalError", "etcdserver: request timed out"),
        refusal(504, "Timeout", "the request did not complete in time"),
        Reply::of(503, "text/html", "<html>unavailable</html>"),
        Reply::of(429, "text/html", "<html>slow down</html>").with("retry-after", "0"),
        Reply::of(200, JSON, r#"{"ok":true}"#),
    ] {
        let (cluster, sent) = (Cluster::new(), Arc::new(AtomicUsize::new(0)));
        let (reply, count) = (answer.clone(), sent.clone());
        let ended = run_with(&cluster, RETRY, move |asked, _| {
            (asked.method == "DELETE").then(|| {
                count.fetch_add(1, Ordering::SeqCst);
                reply.clone()
            })
        });
        let found = report(&ended);
        assert_eq!((ended.code, &found["outcome"]["stage"]), (Some(7), &json!("Unknown")), "{answer:?} {}", ended.err);
        assert_eq!(told(&found), [left("a1", "Unknown"), left("a2", "NotReached")], "{answer:?}");
        assert_eq!(sent.load(Ordering::SeqCst), 1, "{answer:?}");
        for told in [
            "it is not known whether pod a1 was deleted",
            "the annotation kubectl-ds/retried-at was written",
            "the pod was not deleted when it was read again",
        ] {
            assert!(ended.err.contains(told), "{answer:?}: {}", ended.err);
        }
    }
    // The API server has not looked at it.
    let cluster = Cluster::new();
    let busy = |asked: &Asked, _: &mut State| {
        let later = refusal(429, "TooManyRequests", "later").with("retry-after", "9999");
        (asked.method == "DELETE").then_some(later)
    };
    let ended = run_with(&cluster, RETRY, busy);
    assert_eq!((ended.code, &report(&ended)["outcome"]["stage"]), (Some(1), &json!("Applied")), "{}", ended.err);
}

#[test]
fn a_lease_that_cannot_be_read_is_told_before_pods_are_deleted() {
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
    assert_eq!(told(&report(&ended)), [gone("a1"), gone("a2")], "{}", ended.err);
    assert!(ended.code == Some(0) && !cluster.is_retried() && cluster.deleted().is_empty(), "{}", ended.err);
}

/// A request, and what happens to it.
struct Cell {
    method: String,
    path: String,
    name: String,
    fault: Fault,
    /// Whether a change is made although its answer is lost.
    applied: bool,
    extent: Extent,
}

fn cells() -> Vec<Cell> {
    let requests = Arc::new(Mutex::new(BTreeSet::new()));
    let asked_for = requests.clone();
    let ended = run_with(&Cluster::new(), RETRY, move |asked, _| {
        asked_for.lock().unwrap().insert((asked.method.clone(), asked.path().to_owned()));
        None
    });
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let mut cells = Vec::new();
    for (method, path) in requests.lock().unwrap().iter() {
        for (name, fault) in faults(&Reply::of(200, JSON, "{}")) {
            if !FAULTS.contains(&name.as_str()) {
                continue;
            }
            let is_change = method == "PATCH" || method == "DELETE";
            let mut add = |applied, extent| {
                let (method, path) = (method.clone(), path.clone());
                cells.push(Cell { method, path, name: name.clone(), fault: fault.clone(), applied, extent });
            };
            add(false, Extent::Same);
            if is_change && !refuses(&name) {
                add(true, Extent::Same);
                add(true, Extent::First);
            }
            if is_change && of_proxies().iter().any(|(proxy, _)| *proxy == name) {
                add(false, Extent::Onward);
                add(true, Extent::Onward);
            }
        }
    }
    cells.extend(wrong_dates().into_iter().map(|(name, off)| Cell {
        method: String::new(),
        path: String::new(),
        name: name.to_owned(),
        fault: Arc::new(move |reply| dated(reply, off)),
        applied: true,
        extent: Extent::All,
    }));
    cells
}

/// Returns what is wrong with how a run with a fault has ended.
fn wrong(cell: &Cell, cluster: &Cluster, ended: &Ended) -> Option<String> {
    let says = |words: &str| Some(words.to_owned());
    if ended.err.len() > 2_000 || ended.err.contains('\u{1b}') {
        return says("standard error is longer than a person reads, or steers the terminal");
    }
    if !matches!(ended.code, Some(0 | 1 | 4 | 7)) || cell.extent == Extent::All && ended.code != Some(0) {
        return Some(format!("exit code {:?}", ended.code));
    }
    if ended.code != Some(0) && ended.err.is_empty() {
        return says("it fails silently");
    }
    let (deleted, is_retried) = (cluster.deleted(), cluster.is_retried());
    let Ok(report) = serde_json::from_str::<Value>(&ended.out) else {
        let is_hidden = is_retried || !deleted.is_empty();
        return is_hidden.then(|| "a change that was made is hidden".to_owned());
    };
    let stage = report["outcome"]["stage"].as_str().unwrap_or_default();
    if (ended.code == Some(7)) != (stage == "Unknown") {
        return Some(format!("exit code {:?} of a change that is {stage}", ended.code));
    }
    match (stage, is_retried) {
        ("Applied", false) => return says("reported as changed, and nothing was"),
        ("Refused", true) => return says("a change that was made is hidden"),
        _ => {}
    }
    let is_delete = cell.method == "DELETE";
    if cell.extent == Extent::Onward && ended.code != Some(7) {
        return Some(format!("what cannot be known ends with {:?}", ended.code));
    }
    if stage == "Refused" || stage == "Unknown" && !is_delete {
        return (!deleted.is_empty()).then(|| "a pod was deleted without the change".to_owned());
    }
    for (pod, why) in told(&report) {
        let is_deleted = deleted.contains(&pod);
        // A server that says that a pod was deleted is believed.
        let is_believed = is_delete && cell.name == "200 with a success";
        match why.as_deref() {
            Some("Unknown") => {}
            None if !is_deleted && !is_believed => return Some(format!("{pod} is reported as deleted, and was not")),
            Some(why) if is_deleted => return Some(format!("{pod} was deleted, and is reported as {why}")),
            Some("NotReached") if ended.code == Some(0) => return Some(format!("success without {pod}")),
            _ => {}
        }
    }
    None
}

#[test]
fn no_fault_hides_what_became_of_a_pod() {
    let cells = share(cells());
    assert!(cells.iter().any(|cell| cell.method == "DELETE"));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // They wait for timeouts and retries most of the time.
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let cluster = Cluster::new();
                    let (kept, met) = (cluster.clone(), AtomicUsize::new(0));
                    let (method, path, fault) = (cell.method.clone(), cell.path.clone(), cell.fault.clone());
                    let (applied, extent) = (cell.applied, cell.extent);
                    let server = Server::start(move |asked| {
                        let is_same = (asked.method.as_str(), asked.path()) == (&*method, &*path);
                        let before =
                            if is_same { met.fetch_add(1, Ordering::SeqCst) } else { met.load(Ordering::SeqCst) };
                        if !extent.includes(is_same, before) {
                            return kept.0.lock().unwrap().answer(asked);
                        }
                        let is_made = applied || asked.method == "GET";
                        let answer =
                            if is_made { kept.0.lock().unwrap().answer(asked) } else { Reply::of(200, JSON, "{}") };
                        fault(answer)
                    });
                    let address = format!("http://{}", server.address);
                    let timeout = ["--request-timeout=3s", "--server", &address];
                    let ended = end(kubectl_ds(&[RETRY, &timeout].concat()), None);
                    server.stop();
                    let mut problem = wrong(cell, &cluster, &ended);
                    let again = run(&cluster, RETRY);
                    let all: BTreeSet<String> = cluster.deleted().into_iter().collect();
                    if again.code != Some(0) || all.len() != 2 {
                        problem = problem.or(Some(format!("the same command does not finish: {all:?} {}", again.err)));
                    }
                    if let Some(problem) = problem {
                        failed.lock().unwrap().push((cell, problem, ended));
                    }
                }
            });
        }
    });
    let mut problems: Vec<String> = failed
        .into_inner()
        .unwrap()
        .into_iter()
        .map(|(cell, problem, ended)| {
            let Cell { method, path, name, applied, extent, .. } = cell;
            let err = ended.err.replace('\n', "\n    ");
            format!(
                "{method} {path} (applied: {applied}, {extent:?}): {name}: {problem}\n    {:?} {err:.300}",
                ended.code
            )
        })
        .collect();
    problems.sort();
    assert!(problems.is_empty(), "{} of {} cells:\n{}", problems.len(), cells.len(), problems.join("\n"));
}
