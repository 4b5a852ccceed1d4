//! Every request of a staged rollout with faults, through the real binary, on a server with a controller.
//!
//! Whatever the fault, the run ends, says nothing wrong about what it has written, and the same command without the
//! fault completes the rollout.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::faults::{Extent, Fault, dated, faults, refuses, wrong_dates};
use super::server::{Asked, Reply, Server, of_proxies};
use super::{JSON, absent, api_groups, daemon_set, json_list, refusal, unstored};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::sampling::share;

const DELETING: &[&str] =
    &["partition", "agent", "0", "-n", "team", "-o", "json", "--image=agent=agent:2", "--progress-deadline=3s"];

const EVICTING: &[&str] = &[
    "partition",
    "agent",
    "0",
    "-n",
    "team",
    "-o",
    "json",
    "--image=agent=agent:2",
    "--progress-deadline=3s",
    "--evict",
];

const STAGED: &[&str] = &[
    "partition",
    "agent",
    "0",
    "-n",
    "team",
    "-o",
    "json",
    "--image=agent=agent:2",
    "--progress-deadline=3s",
    "--stages=canary,100%",
];

/// The faults that are tried; the other ones of the table are variants of these.
const FAULTS: &[&str] = &[
    "401",
    "403",
    "404",
    "409",
    "410",
    "429",
    "429 with Retry-After",
    "500",
    "503",
    "closed",
    "stall",
    "lost",
    "HTML",
    "200 with a failure",
    "200 with a success",
    "200 with {}",
    "empty 200",
    "huge 500",
    "302 of a proxy",
    "400 of a proxy",
    "401 of a proxy",
    "403 of a proxy",
    "404 of a proxy",
    "404 of a gateway",
    "499 of a proxy",
];

/// The annotation in which the API server counts templates; only of clusters that have it.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const NODES: [&str; 2] = ["n1", "n2"];

/// What the server keeps, and what its controller has done.
struct State {
    object: Value,
    pods: Vec<Value>,
    version: u64,
}

/// A server's cluster, and what wakes those that watch it.
pub(super) struct Cluster {
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    fn image(&self) -> &str {
        self.object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap()
    }

    fn add_pod(&mut self, node: &str) {
        self.version += 1;
        let name = format!("agent-{}", self.version);
        let since = "2026-01-01T00:00:00Z";
        let ready = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": since});
        self.pods.push(json!({
            "metadata": {"name": name, "namespace": "team", "uid": format!("uid-of-{name}"), "creationTimestamp": since,
                "resourceVersion": self.version.to_string(),
                "labels": {"app": "agent", "controller-revision-hash": self.image().replace([':', '/'], "-")},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                    "uid": "uid-of-agent", "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "agent", "image": self.image()}]},
            "status": {"phase": "Running", "conditions": [ready("PodScheduled"), ready("Ready")],
                "containerStatuses": [{"name": "agent", "ready": true, "restartCount": 0,
                    "state": {"running": {"startedAt": since}}}]},
        }));
    }

    /// Lists the revisions, as the controller leaves them.
    fn revisions(&self) -> Vec<Value> {
        let mut images = vec!["agent:1"];
        images.extend((self.image() != "agent:1").then_some("agent:2"));
        // What admission makes of them.
        images.extend(Some(self.image()).filter(|image| !["agent:1", "agent:2"].contains(image)));
        let revision = |(number, image): (usize, &str)| {
            let mut template = template(image);
            template["$patch"] = "replace".into();
            let hash = image.replace([':', '/'], "-");
            json!({
                "metadata": {"name": hash, "namespace": "team", "resourceVersion": self.version.to_string(),
                    "labels": {"app": "agent", "controller-revision-hash": hash},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                        "uid": "uid-of-agent", "controller": true}]},
                "revision": number + 1, "data": {"spec": {"template": template}},
            })
        };
        images.into_iter().enumerate().map(revision).collect()
    }

    /// Counts the pods of the new image.
    fn updated(&self) -> usize {
        self.pods.iter().filter(|pod| pod["spec"]["containers"][0]["image"] == "agent:2").count()
    }

    fn is_suspended(&self) -> bool {
        self.object["spec"]["updateStrategy"]["type"] == "OnDelete"
    }

    fn patch(&mut self, body: &[u8]) -> Reply {
        let patch: Value = serde_json::from_slice(body).unwrap();
        if patch[0]["value"] != self.object["metadata"]["resourceVersion"] {
            return refusal(409, "Conflict", "the object has been modified");
        }
        let template = self.object["spec"]["template"].clone();
        json_patch::patch(&mut self.object, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
        let is_changed = template != self.object["spec"]["template"];
        if let Some(annotation) = self.object.pointer_mut(&format!("/metadata/annotations/{TEMPLATE_GENERATION}")) {
            let number: u64 = annotation.as_str().unwrap().parse().unwrap();
            *annotation = (number + u64::from(is_changed)).to_string().into();
        }
        self.version += 1;
        self.object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let generation = self.object["metadata"]["generation"].as_u64().unwrap() + 1;
        self.object["metadata"]["generation"] = generation.into();
        self.object["status"]["observedGeneration"] = generation.into();
        Reply::of(200, JSON, self.object.to_string())
    }

    fn delete(&mut self, path: &str, options: &Value) -> Reply {
        let name = path.rsplit('/').next().unwrap();
        let Some(at) = self.pods.iter().position(|pod| pod["metadata"]["name"] == name) else { return absent(path) };
        let pod = self.pods.remove(at);
        assert_eq!(options["preconditions"]["uid"], pod["metadata"]["uid"]);
        assert_ne!(pod["spec"]["containers"][0]["image"], self.image(), "an updated pod is deleted");
        self.add_pod(pod["spec"]["nodeName"].as_str().unwrap());
        Reply::of(200, JSON, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#)
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": image}]}})
}

fn strategy() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
}

impl Cluster {
    pub(super) fn new() -> Arc<Self> {
        let mut object = daemon_set("agent");
        object["metadata"]["resourceVersion"] = "1".into();
        object["metadata"]["generation"] = 1.into();
        object["status"]["observedGeneration"] = 1.into();
        object["spec"]["template"] = template("agent:1");
        object["spec"]["updateStrategy"] = strategy();
        let mut state = State { object, pods: Vec::new(), version: 1 };
        NODES.iter().for_each(|node| state.add_pod(node));
        Arc::new(Cluster { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Returns the DaemonSet.
    pub(super) fn object(&self) -> Vec<u8> {
        self.state.lock().unwrap().object.to_string().into_bytes()
    }

    /// Changes the DaemonSet, as somebody else does.
    pub(super) fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = state.version.to_string();
        edit(&mut state.object);
        state.object["metadata"]["resourceVersion"] = version.into();
    }

    /// Replaces the pods that are left, and restores the strategy, as another client does that finishes the rollout.
    pub(super) fn finish(&self) {
        let mut state = self.state.lock().unwrap();
        let (image, pods) = (state.image().to_owned(), std::mem::take(&mut state.pods));
        let (updated, old): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| pod["spec"]["containers"][0]["image"] == image.as_str());
        state.pods = updated;
        old.iter().for_each(|pod| state.add_pod(pod["spec"]["nodeName"].as_str().unwrap()));
        state.object["metadata"]["annotations"] = json!({});
        state.object["spec"]["updateStrategy"] = strategy();
        state.version += 1;
        state.object["metadata"]["resourceVersion"] = state.version.to_string().into();
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.state.lock().unwrap().is_suspended()
    }

    pub(super) fn answer(self: &Arc<Self>, asked: &Asked) -> Reply {
        if asked.target.contains("watch=true") {
            return self.watch(asked);
        }
        let mut state = self.state.lock().unwrap();
        let path = asked.path();
        let mut reply = match (asked.method.as_str(), path) {
            ("PATCH", _) if asked.target.contains("dryRun=All") => {
                let mut tried = State { object: state.object.clone(), pods: Vec::new(), version: state.version };
                unstored(tried.patch(&asked.body), &state.object)
            }
            ("PATCH", _) => state.patch(&asked.body),
            ("DELETE", path) => state.delete(path, &serde_json::from_slice(&asked.body).unwrap()),
            ("POST", path) if path.ends_with("/eviction") => {
                let eviction: Value = serde_json::from_slice(&asked.body).unwrap();
                state.delete(path.trim_end_matches("/eviction"), &eviction["deleteOptions"])
            }
            ("POST", _) => Reply::of(201, JSON, asked.body.clone()),
            (_, "/login") => Reply::of(200, "text/html", "<html>Sign in</html>"),
            (_, path) if path.ends_with("/daemonsets/agent") => Reply::of(200, JSON, state.object.to_string()),
            ("GET", path) if path.contains("/daemonsets/") => absent(path),
            (_, "/apis") => api_groups(&[]),
            (_, path) if path.ends_with("/daemonsets") => json_list(path, &[state.object.clone()]),
            (_, path) if path.ends_with("/controllerrevisions") => json_list(path, &state.revisions()),
            (_, path) if path.ends_with("/pods") => json_list(path, &state.pods),
            (_, "/api/v1/nodes") => json_list(path, &NODES.map(node)),
            (_, path) if path.contains("/pods/") => {
                let pod = state
                    .pods
                    .iter()
                    .find(|pod| path.ends_with(&format!("/{}", pod["metadata"]["name"].as_str().unwrap())));
                let Some(pod) = pod else { return absent(path) };
                let mut pod = pod.clone();
                (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
                Reply::of(200, JSON, pod.to_string())
            }
            (_, path) if path.contains("/leases/") => absent(path),
            (_, "/api/v1/namespaces/team") => Reply::of(
                200,
                JSON,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}).to_string(),
            ),
            (_, path) => json_list(path, &[]),
        };
        if asked.method == "GET" && !path.ends_with("/agent") {
            let version = format!(r#""metadata":{{"resourceVersion":"{}"}}"#, state.version);
            let body = String::from_utf8(reply.body).unwrap();
            reply.body = body.replacen(r#""metadata":{}"#, &version, 1).into_bytes();
        }
        drop(state);
        self.changed.notify_all();
        reply
    }

    /// Answers a watch: as soon as anything changes, its version is too old, so that all is listed again.
    fn watch(self: &Arc<Self>, asked: &Asked) -> Reply {
        let (reply, sender) = Reply::open(JSON);
        let version = asked.target.split_once("resourceVersion=").expect("a version").1;
        let version: u64 = version.split('&').next().unwrap().parse().expect("the version of a list");
        let cluster = self.clone();
        thread::spawn(move || {
            let state = cluster.state.lock().unwrap();
            let patience = Duration::from_secs(60);
            let _changed = cluster.changed.wait_timeout_while(state, patience, |now| now.version == version).unwrap();
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"});
            let _ = sender.send(format!("{}\n", json!({"type": "ERROR", "object": status})).into_bytes());
        });
        reply
    }
}

fn node(name: &str) -> Value {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"metadata": {"name": name, "uid": name}, "status": {"conditions": [ready],
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}})
}

/// A request, and what happens to it.
#[derive(Clone)]
struct Cell {
    command: &'static [&'static str],
    method: String,
    /// Without the name of a pod or an event.
    path: String,
    is_watch: bool,
    name: String,
    fault: Fault,
    /// Whether a change is made although its answer is lost.
    applied: bool,
    extent: Extent,
}

/// Returns what identifies a request.
fn key(asked: &Asked) -> (String, String, bool) {
    let path = match asked.path().split_once("/pods/") {
        Some((before, pod)) => format!("{before}/pods/NAME{}", &pod[pod.find('/').unwrap_or(pod.len())..]),
        None if asked.target.contains("dryRun=All") => format!("{}?dryRun=All", asked.path()),
        None => asked.path().to_owned(),
    };
    (asked.method.clone(), path, asked.target.contains("watch=true"))
}

fn run(cluster: &Arc<Cluster>, command: &[&str], cell: Option<&Cell>) -> (Ended, Vec<Asked>) {
    let fault = cell.map(|cell| {
        let key = (cell.method.clone(), cell.path.clone(), cell.is_watch);
        (key, cell.fault.clone(), cell.applied, cell.extent)
    });
    let met = AtomicUsize::new(0);
    let kept = cluster.clone();
    let meets = move |asked: &Asked, of: &(String, String, bool), extent: Extent| {
        let is_same = *of == key(asked);
        let before = if is_same { met.fetch_add(1, Ordering::SeqCst) } else { met.load(Ordering::SeqCst) };
        extent.includes(is_same, before)
    };
    let server = Server::start(move |asked| match &fault {
        Some((of, fault, applied, extent)) if meets(asked, of, *extent) => {
            let is_made = *applied || asked.method == "GET";
            fault(if is_made {
                kept.answer(asked)
            } else {
                Reply::of(200, JSON, kept.state.lock().unwrap().object.to_string())
            })
        }
        _ => kept.answer(asked),
    });
    let address = format!("http://{}", server.address);
    let timeout = if cell.is_some() { "--request-timeout=1s" } else { "--request-timeout=30s" };
    let ended = end(kubectl_ds(&[command, &["--server", &address, timeout]].concat()), None);
    server.stop();
    (ended, server.asked())
}

/// Returns what is wrong with how a run has ended.
fn wrong(cell: &Cell, ended: &Ended, before_repeat: (bool, usize, bool)) -> Option<String> {
    let (suspended, updated, changed) = before_repeat;
    let says = |words: &str| Some(words.to_owned());
    if ended.err.len() > 2_000 || ended.err.contains('\u{1b}') {
        return says("standard error is longer than a person reads, or steers the terminal");
    }
    if !matches!(ended.code, Some(0 | 1 | 3 | 4 | 5 | 6 | 7)) {
        return Some(format!("exit code {:?}", ended.code));
    }
    if !matches!(ended.code, Some(0 | 3)) && ended.err.is_empty() {
        return says("it fails silently");
    }
    let is_unknown = ended.code == Some(7);
    // Of each stage.
    let reports: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&ended.out).into_iter().collect();
    let reports = reports.unwrap_or_default();
    if cell.extent == Extent::All && ended.code != Some(0) {
        return Some(format!("a wrong clock alone ends it with {:?}", ended.code));
    }
    if cell.extent == Extent::Onward && cell.method == "PATCH" && !cell.path.ends_with("dryRun=All") && !is_unknown {
        return Some(format!("what became of the DaemonSet cannot be known, and it ends with {:?}", ended.code));
    }
    let Some(report) = reports.last() else {
        return match (ended.out.is_empty(), changed) {
            (true, false) => None,
            (true, true) => says("a change that was made is hidden"),
            (false, _) => says("no report"),
        };
    };
    let outcome = &report["outcome"];
    let replaced: usize = reports.iter().map(|report| report["outcome"]["replaced"].as_array().unwrap().len()).sum();
    match outcome["stage"].as_str().unwrap() {
        "Planned" if changed && reports.len() == 1 => return says("a change that was made is hidden"),
        "Begun" | "Stopped" if !changed => return says("reported as begun, and nothing was changed"),
        "Finished" if suspended || updated < NODES.len() => return says("reported as finished, and it is not"),
        "Complete" if cell.command != STAGED => return says("complete before all nodes are updated"),
        stage if ended.code == Some(0) && stage != "Finished" => return says("success before the end"),
        _ => {}
    }
    if cell.extent == Extent::Onward && is_replacement(&cell.method, &cell.path) && !is_unknown {
        return says("what became of the pod cannot be known");
    }
    // A server that says that a pod was deleted is believed; the stage then stops.
    let is_believed = is_replacement(&cell.method, &cell.path) && cell.name == "200 with a success";
    if replaced > updated && !is_believed {
        return says("a pod is reported as replaced, and was not");
    }
    (updated > replaced + usize::from(is_unknown))
        .then(|| format!("{updated} pods were replaced, and {replaced} are reported"))
}

/// Returns whether a request deletes or evicts a pod.
fn is_replacement(method: &str, path: &str) -> bool {
    method == "DELETE" || method == "POST" && path.ends_with("/eviction")
}

/// Returns the cells of a command.
fn cells(command: &'static [&'static str]) -> Vec<Cell> {
    let (ended, asked) = run(&Cluster::new(), command, None);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    let requests: BTreeSet<_> = asked.iter().map(key).collect();
    assert!(requests.iter().any(|(method, path, _)| is_replacement(method, path)), "{requests:?}");
    let mut cells = Vec::new();
    // The rest is the same.
    let is_tried = |method: &str, path: &str| {
        let is_of_stages = command == STAGED && (method == "PATCH" || path == "/apis/apps/v1/daemonsets");
        command == DELETING || is_of_stages || is_replacement(method, path)
    };
    for (method, path, is_watch) in requests.into_iter().filter(|(method, path, _)| is_tried(method, path)) {
        for (name, fault) in
            faults(&Reply::of(200, JSON, "{}")).into_iter().filter(|(name, _)| FAULTS.contains(&name.as_str()))
        {
            let cell = |applied, extent| Cell {
                command,
                method: method.clone(),
                path: path.clone(),
                is_watch,
                name: name.clone(),
                fault: fault.clone(),
                applied,
                extent,
            };
            cells.push(cell(false, Extent::Same));
            if method != "GET" && !refuses(&name) {
                cells.extend([cell(true, Extent::Same), cell(true, Extent::First)]);
            }
            if method != "GET" && of_proxies().iter().any(|(proxy, _)| *proxy == name) {
                cells.extend([cell(false, Extent::Onward), cell(true, Extent::Onward)]);
            }
        }
    }
    cells.extend(wrong_dates().into_iter().map(|(name, off)| Cell {
        command,
        method: String::new(),
        path: String::new(),
        is_watch: false,
        name: name.to_owned(),
        fault: Arc::new(move |reply| dated(reply, off)),
        applied: true,
        extent: Extent::All,
    }));
    cells
}

#[test]
fn no_fault_leads_a_staged_rollout_astray() {
    let cells = share([cells(DELETING), cells(EVICTING), cells(STAGED)].concat());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // They wait for timeouts and retries most of the time.
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let cluster = Cluster::new();
                    let (ended, _) = run(&cluster, cell.command, Some(cell));
                    let now = {
                        let state = cluster.state.lock().unwrap();
                        (state.is_suspended(), state.updated(), state.object["metadata"]["generation"] != 1)
                    };
                    let mut problem = wrong(cell, &ended, now);
                    let (again, _) = run(&cluster, cell.command, None);
                    let state = cluster.state.lock().unwrap();
                    let is_restored = state.object["spec"]["updateStrategy"] == strategy()
                        && !state.object["metadata"]["annotations"].to_string().contains("kubectl-ds/");
                    if again.code != Some(0) || state.updated() < NODES.len() || !is_restored {
                        problem = problem.or(Some(format!("the same command does not finish: {}", again.err)));
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
            let Cell { method, path, is_watch, name, applied, extent, .. } = cell;
            let err = ended.err.replace('\n', "\n    ");
            format!("{method} {path} (watch: {is_watch}, applied: {applied}, {extent:?}): {name}: {problem}\n    {:?} {err:.300}", ended.code)
        })
        .collect();
    problems.sort();
    assert!(problems.is_empty(), "{} of {} cells:\n{}", problems.len(), cells.len(), problems.join("\n"));
}

/// Whoever may not do that would leave the update strategy suspended for nothing; what is no answer says nothing.
#[test]
fn no_stage_is_begun_for_a_user_who_may_not_replace_pods() {
    for (arguments, verb, status, is_begun) in [
        (DELETING, "delete", json!({"allowed": false}), false),
        (EVICTING, "create", json!({"allowed": false}), false),
        (DELETING, "delete", json!({"allowed": true}), true),
        (EVICTING, "create", json!({"allowed": true}), true),
        (DELETING, "delete", json!({}), true),
        // It is about something else.
        (DELETING, "get", json!({"allowed": false}), true),
    ] {
        let cluster = Cluster::new();
        let (kept, told) = (cluster.clone(), status.clone());
        let server = Server::start(move |asked| {
            if !asked.path().ends_with("/selfsubjectaccessreviews") {
                return kept.answer(asked);
            }
            let mut review: Value = serde_json::from_slice(&asked.body).unwrap();
            review["spec"]["resourceAttributes"]["verb"] = verb.into();
            review["status"] = told.clone();
            Reply::of(201, JSON, review.to_string())
        });
        let before = cluster.object();
        let address = format!("http://{}", server.address);
        let ended = end(kubectl_ds(&[arguments, &["--server", &address]].concat()), None);
        let (code, said) = if is_begun { (0, "") } else { (1, "you may not ") };
        assert_eq!(ended.code, Some(code), "{verb} {status}: {}", ended.err);
        assert!(ended.err.contains(said) && (is_begun || cluster.object() == before), "{}", ended.err);
    }
}
