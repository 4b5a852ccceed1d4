//! Changes over a network and a server that misbehave, through the real binary.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{JSON, daemon_set, json_list, refusal, unstored};
use crate::screens::{Ended, check};
use crate::support::server::{Asked, Reply, Server, of_proxies};

const PATH: &str = "/apis/apps/v1/namespaces/team/daemonsets/agent";

/// What a server keeps: one DaemonSet, with the revisions of its two templates.
pub(super) struct Store {
    pub(super) object: Mutex<Value>,
    /// Whether a controller acts on changes.
    has_controller: AtomicBool,
}

impl Store {
    pub(super) fn new() -> Self {
        let mut object = daemon_set("agent");
        object["metadata"]["resourceVersion"] = "7".into();
        object["metadata"]["generation"] = 2.into();
        object["status"]["observedGeneration"] = 9.into();
        object["spec"]["template"] = template("agent:2");
        Store { object: Mutex::new(object), has_controller: AtomicBool::new(false) }
    }

    /// Returns a store whose DaemonSet is paused.
    pub(super) fn held() -> Self {
        let store = Store::new();
        let mut object = store.object.lock().unwrap();
        object["metadata"]["annotations"] = json!({"kubectl-ds/held-since": "2026-11-21T10:00:00Z",
            "kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"10%"}}"#});
        object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        drop(object);
        store
    }

    fn image(&self) -> Value {
        self.object.lock().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    }

    /// Answers what is read; nothing for changes.
    pub(super) fn read(&self, path: &str) -> Option<Reply> {
        let text = match path.rsplit('/').next().unwrap() {
            "agent" => self.object.lock().unwrap().to_string(),
            "controllerrevisions" => {
                let is_rolled_back = self.has_controller.load(Ordering::SeqCst) && self.image() == "agent:1";
                let first = if is_rolled_back { 3 } else { 1 };
                let items = [revision(first, "agent:1"), revision(2, "agent:2")];
                json!({"kind": "ControllerRevisionList", "apiVersion": "apps/v1", "items": items}).to_string()
            }
            "pods" | "nodes" | "events" | "poddisruptionbudgets" => return Some(json_list(path, &[])),
            _ => return None,
        };
        Some(Reply::of(200, JSON, text))
    }

    /// Makes a change as the API server does: refused with 409 where it is locked on another version.
    pub(super) fn write(&self, body: &[u8]) -> Reply {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let mut object = self.object.lock().unwrap();
        if patch[0]["value"] != object["metadata"]["resourceVersion"] {
            let message = "the object has been modified; please apply your changes to the latest version";
            return refusal(409, "Conflict", message);
        }
        json_patch::patch(&mut object, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
        object["metadata"]["resourceVersion"] = "100".into();
        Reply::of(200, JSON, object.to_string())
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": image}]}})
}

fn revision(number: i64, image: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-of-agent", "controller": true});
    let mut template = template(image);
    template["$patch"] = "replace".into();
    json!({
        "metadata": {"name": format!("agent-{number}"), "namespace": "team", "ownerReferences": [owner],
            "labels": {"app": "agent", "controller-revision-hash": number.to_string()}},
        "revision": number, "data": {"spec": {"template": template}},
    })
}

/// Tells whether a request is a dry run, as before a rollback: what admission makes of the template, and whether a pod would be created.
fn is_trial(asked: &Asked) -> bool {
    asked.target.contains("dryRun=All")
}

/// Starts a server whose admission changes nothing, and which would create every pod.
fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        if !is_trial(asked) {
            return answer(asked);
        }
        if asked.method == "POST" {
            return Reply::of(201, JSON, asked.body.clone());
        }
        let read = answer(&Asked { method: "GET".to_owned(), target: asked.path().to_owned(), ..asked.clone() });
        let mut object: Value = serde_json::from_slice(&read.body).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&asked.body).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        Reply::of(200, JSON, object.to_string())
    })
}

/// Starts a server over a store, on which `fault` may answer first; it is given the number of changes sent before.
fn serve(store: &'static Store, fault: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static) -> Server {
    let sent = Mutex::new(0);
    start(move |asked| {
        if asked.method == "GET" {
            return store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}"));
        }
        let before = {
            let mut sent = sent.lock().unwrap();
            *sent += 1;
            *sent - 1
        };
        fault(before).unwrap_or_else(|| store.write(&asked.body))
    })
}

fn store() -> &'static Store {
    Box::leak(Box::new(Store::new()))
}

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"));
    command
        .args(arguments)
        .args(["-n", "team", "--server", &format!("http://{}", server.address)])
        .env_clear()
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

fn run(server: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(server, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns how a command ended, without the server's port.
fn ended(server: &Server, code: Option<i32>, out: &str, err: String) -> Ended {
    let hide = |text: &str| text.replace(&server.address.to_string(), "[SERVER]");
    Ended { code, out: hide(out), err: hide(&err) }
}

/// Returns a command about the DaemonSet as it is suggested: it goes to the same server.
fn suggested(command: &str, server: &Server) -> String {
    format!("{command} --server http://{} agent\n", server.address)
}

fn patches(server: &Server) -> Vec<Value> {
    let asked = server.asked();
    let changes = asked.iter().filter(|asked| asked.method == "PATCH" && !is_trial(asked));
    changes.map(|asked| serde_json::from_slice(&asked.body).unwrap()).collect()
}

#[test]
fn pods_are_asked_for_only_where_the_answer_is_about_them() {
    let asks_for_pods = |ends: i32, arguments: &[&str]| {
        let store = store();
        let server = serve(store, |_| None);
        let (code, _, err) = run(&server, arguments);
        assert_eq!(code, Some(ends), "{err}");
        server.asked().iter().filter(|asked| asked.path().ends_with("/pods") && !is_trial(asked)).count()
    };
    // No controller acts here: the first waits in vain, and looks more than once.
    for (arguments, ends) in [(["undo", "agent", "--timeout=1"].as_slice(), 6), (&["restart", "agent", "--no-wait"], 0)]
    {
        assert_eq!(asks_for_pods(ends, arguments), 1, "{arguments:?}");
    }
    assert_eq!(asks_for_pods(0, &["history", "agent", "--diff"]), 0);
    assert_eq!(asks_for_pods(0, &["history", "agent"]), 1);
}

#[test]
fn a_change_is_one_locked_patch_under_the_tools_own_name() {
    let store = store();
    let server = serve(store, |_| None);
    let (code, out, err) = run(&server, &["undo", "agent", "--to-revision=1", "--no-wait"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
    let asked = server.asked();
    let changes: Vec<_> = asked.iter().filter(|asked| asked.method != "GET" && !is_trial(asked)).collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].method.as_str(), changes[0].target.as_str()),
        ("PATCH", &*format!("{PATH}?fieldManager=kubectl-ds"))
    );
    assert_eq!(changes[0].header("content-type"), "application/json-patch+json");
    assert_eq!(
        patches(&server)[0],
        json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": "/spec/template", "value": template("agent:1")},
        ])
    );
    assert_eq!(store.image(), "agent:1");
}

#[test]
fn a_dry_run_on_the_server_says_so_in_the_request_and_one_here_sends_none() {
    let store = store();
    let server = serve(store, |_| None);
    assert_eq!(run(&server, &["undo", "agent", "--dry-run=client"]).0, Some(0));
    assert_eq!(patches(&server), Vec::<Value>::new());
    assert_eq!(run(&server, &["restart", "agent", "--dry-run=server"]).0, Some(0));
    let asked = server.asked();
    let change = asked.iter().find(|asked| asked.method == "PATCH").unwrap();
    assert_eq!(change.target, format!("{PATH}?fieldManager=kubectl-ds&dryRun=All"));
}

#[test]
fn a_busy_server_is_sent_the_change_again() {
    let status = refusal(429, "TooManyRequests", "later");
    // What an API server sends that has no time to make a status.
    let text = Reply::of(429, "text/plain; charset=utf-8", "Too many requests, please try again later.\n");
    for reply in [status, text] {
        let store = store();
        let busy = move |before| (before == 0).then(|| reply.clone().with("retry-after", "0"));
        let server = serve(store, busy);
        let (code, _, err) = run(&server, &["undo", "agent", "--no-wait"]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert_eq!((patches(&server).len(), store.image()), (2, "agent:1".into()));
    }
}

/// Only an attempt that was not answered may have been applied.
#[test]
fn a_change_that_a_busy_server_has_not_processed_in_time_was_not_applied() {
    for (is_answered, arguments, expected) in [
        (true, ["undo", "agent", "--timeout=3"], (Some(4), "Refused")),
        (true, ["set", "agent", "--timeout=3"], (Some(4), "Refused")),
        (false, ["undo", "agent", "--timeout=3"], (Some(7), "Unknown")),
    ] {
        let store = store();
        let server = serve(store, move |before| {
            if before > 0 {
                thread::sleep(Duration::from_secs(5));
            }
            let wait = if is_answered { "9" } else { "0" };
            Some(refusal(429, "TooManyRequests", "later").with("retry-after", wait))
        });
        let given = if arguments[0] == "set" { &["--max-unavailable=3"][..] } else { &[] };
        let (code, out, err) = run(&server, &[&arguments, given, &["-o", "json"]].concat());
        assert_eq!((code, stage(&out).as_str()), expected, "{err}");
        assert_eq!(err.contains("too busy to process the change within 3s; it was not applied"), is_answered, "{err}");
    }
}

/// It may have sent the change on, and may do so later.
#[test]
fn a_proxy_that_says_that_it_is_busy_is_not_sent_the_change_again() {
    for retry_after in [None, Some("0"), Some("1")] {
        let server = serve(store(), move |_| {
            let reply = Reply::of(429, "text/html", "<html>slow down</html>");
            Some(retry_after.map_or(reply.clone(), |wait| reply.with("retry-after", wait)))
        });
        let (code, out, err) = run(&server, &["undo", "agent", "-o", "json"]);
        assert_eq!((code, stage(&out).as_str()), (Some(7), "Unknown"), "{err}");
        assert!(err.contains("it was not when the DaemonSet was read again"), "{err}");
        assert_eq!(patches(&server).len(), 1);
    }
}

/// A proxy has sent it twice, answers the second one, and shows what was there before.
#[test]
fn a_conflict_is_not_believed_if_the_object_looks_as_it_did() {
    let (store, before) = (store(), store_like(&Store::new()));
    let server = start(move |asked| {
        if asked.method == "GET" {
            return before.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}"));
        }
        store.write(&asked.body);
        store.write(&asked.body)
    });
    let (code, out, err) = run(&server, &["undo", "agent", "-o", "json"]);
    assert_eq!((code, stage(&out).as_str()), (Some(7), "Unknown"), "{err}");
    assert_eq!(store.image(), "agent:1");
}

#[test]
fn a_server_that_says_to_send_the_change_too_late_is_not_waited_for() {
    let store = store();
    let later = || refusal(429, "TooManyRequests", "later").with("retry-after", "99999");
    let server = serve(store, move |_| Some(later()));
    let (code, out, err) = run(&server, &["undo", "agent", "-o", "json", "--request-timeout=3s"]);
    assert_eq!((code, patches(&server).len()), (Some(1), 1), "{out}");
    assert!(err.contains("later; it asks to wait 99999 s before the request is repeated\""), "{err}");
    assert_ne!(stage(&out), "Unknown");
}

/// The ways in which a change is applied although the answer says otherwise, or is none.
fn lost_answers() -> Vec<(&'static str, Reply)> {
    let status = |code: u16, reason: &str| refusal(code, reason, "from the server");
    let others = [
        ("cut", Reply { cut: true, ..Reply::of(200, JSON, "{}") }),
        ("409", status(409, "Conflict")),
        ("408", status(408, "Timeout")),
        ("504", status(504, "Timeout")),
        ("another answer", Reply::of(200, JSON, r#"{"error": "session expired"}"#)),
        ("HTML", Reply::of(200, "text/html", "<html>")),
    ];
    others.into_iter().chain(of_proxies()).collect()
}

#[test]
fn a_change_whose_answer_was_lost_is_found_by_reading_again() {
    for (what, reply) in lost_answers() {
        for arguments in [["undo", "agent", "--no-wait"], ["restart", "agent", "--no-wait"]] {
            let (store, reply) = (store(), reply.clone());
            let applied = std::sync::Arc::new(AtomicUsize::new(0));
            let count = applied.clone();
            let server = start(move |asked| {
                if asked.method == "GET" {
                    return store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}"));
                }
                count.fetch_add(1, Ordering::SeqCst);
                store.write(&asked.body);
                reply.clone()
            });
            let (code, out, err) = run(&server, &arguments);
            assert_eq!((code, err.as_str()), (Some(0), ""), "{what}: {out}");
            let verb = if arguments[0] == "undo" { "rolled back" } else { "restarted" };
            assert!(out.ends_with(&format!("\ndaemonset.apps/agent {verb}\n")), "{what}: {out}");
            assert_eq!(applied.load(Ordering::SeqCst), 1, "{what}");
        }
    }
}

#[test]
fn a_change_whose_answer_was_lost_and_that_cannot_be_read_again_is_unknown() {
    for (what, reply) in lost_answers() {
        for (arguments, hint) in [
            (["undo", "agent", "-o", "json"], "kubectl ds undo --to-revision 1 -n team --no-wait"),
            (["restart", "agent", "-o", "json"], "kubectl ds history --diff -n team"),
        ] {
            let (store, reply, is_down) = (store(), reply.clone(), AtomicBool::new(false));
            let server = start(move |asked| match asked.method.as_str() {
                "GET" if is_down.load(Ordering::SeqCst) => refusal(403, "Forbidden", "no more"),
                "GET" => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
                _ => {
                    is_down.store(true, Ordering::SeqCst);
                    store.write(&asked.body);
                    reply.clone()
                }
            });
            let (code, out, err) = run(&server, &arguments);
            assert_eq!(code, Some(7), "{what}: {out}{err}");
            let error: Value = serde_json::from_str(&err).unwrap_or_else(|error| panic!("{what}: {error}: {err}"));
            let last = error["hints"].as_array().unwrap().last().unwrap();
            let is_unknown = "it is not known whether the change was applied; ";
            assert!(last["advice"].as_str().unwrap().starts_with(is_unknown), "{what}: {err}");
            assert_eq!(last["command"].as_str(), Some(suggested(hint, &server).trim_end()), "{what}");
            assert_eq!(stage(&out), "Unknown", "{what}");
        }
    }
}

fn stage(plan: &str) -> String {
    let plan: Value = serde_json::from_str(plan).unwrap_or_else(|error| panic!("no plan ({error}): {plan:?}"));
    plan["outcome"]["stage"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_of_success_that_is_not_the_changed_object_is_none() {
    let another = |change: fn(&mut Value)| {
        let mut object = store().object.lock().unwrap().clone();
        object["spec"]["template"] = template("agent:1");
        change(&mut object);
        object.to_string()
    };
    for answer in [
        r#"{"error": "session expired"}"#.to_owned(),
        another(|object| object["kind"] = "Status".into()),
        another(|object| object["metadata"]["uid"] = "another".into()),
        another(|object| object["metadata"]["name"] = "another".into()),
        another(|object| object["metadata"]["namespace"] = "another".into()),
        another(|object| object["spec"] = Value::Null),
    ] {
        for arguments in
            [["undo", "agent", "--no-wait"], ["undo", "agent", "--output=name"], ["undo", "agent", "--dry-run=server"]]
        {
            let (text, store) = (answer.clone(), store());
            let is_dry_run = arguments[2] == "--dry-run=server";
            let server = match is_dry_run {
                true => Server::start(move |asked| match asked.method.as_str() {
                    "GET" => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
                    _ => Reply::of(200, JSON, text.clone()),
                }),
                false => serve(store, move |_| Some(Reply::of(200, JSON, text.clone()))),
            };
            let (code, out, err) = run(&server, &arguments);
            // As long as nothing was written, the server may still apply the change.
            let expected = if is_dry_run { 1 } else { 7 };
            assert_eq!(code, Some(expected), "{arguments:?} {answer}: {out}{err}");
            assert!(!out.contains("daemonset.apps/agent"), "{arguments:?} {answer}: {out}");
            assert!(err.contains("error: cannot read the server's answer to patch daemonsets: "), "{err}");
            // Nor is it one to a dry run of a pod.
            assert_eq!(
                err.contains("whether the API server accepts new pods is unknown"),
                is_dry_run,
                "{arguments:?}: {err}"
            );
        }
    }
}

/// Starts a server that answers what is read after a change with `after`, as long as that is something.
fn serve_after_change(store: &'static Store, after: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static) -> Server {
    let (changed, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    start(move |asked| match asked.method.as_str() {
        "GET" => {
            let fault = match changed.load(Ordering::SeqCst) {
                true => after(reads.fetch_add(1, Ordering::SeqCst)),
                false => None,
            };
            fault.or_else(|| store.read(asked.path())).unwrap_or_else(|| Reply::of(404, JSON, "{}"))
        }
        _ => {
            changed.store(true, Ordering::SeqCst);
            store.write(&asked.body)
        }
    })
}

fn faults() -> Vec<(&'static str, Reply)> {
    vec![
        ("401", refusal(401, "Unauthorized", "expired")),
        ("403", refusal(403, "Forbidden", "no more")),
        ("404", refusal(404, "NotFound", "gone")),
        ("500", refusal(500, "InternalError", "broken")),
        ("503", refusal(503, "ServiceUnavailable", "starting")),
        ("reset", Reply { cut: true, ..Reply::of(200, JSON, "{}") }),
    ]
}

#[test]
fn a_change_that_was_applied_is_reported_whatever_becomes_of_the_wait() {
    for (what, reply) in faults() {
        let store = store();
        store.has_controller.store(true, Ordering::SeqCst);
        let answer = reply.clone();
        let server = serve_after_change(store, move |_| Some(answer.clone()));
        let (code, out, err) = run(&server, &["undo", "agent", "-o", "json", "--timeout=1"]);
        assert_eq!((code, stage(&out).as_str()), (Some(6), "Applied"), "{what}: {err}");
        assert!(err.contains("\"message\":\"the change was applied, and waiting for the controller failed: "), "{err}");

        let server = serve_after_change(store_like(store), move |_| Some(reply.clone()));
        let (code, out, err) = run(&server, &["undo", "agent", "--timeout=1"]);
        assert_eq!(code, Some(6), "{what}: {err}");
        assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{what}: {out}");
    }
}

/// Returns a new store with a controller, if the other has one.
fn store_like(other: &Store) -> &'static Store {
    let store = store();
    store.has_controller.store(other.has_controller.load(Ordering::SeqCst), Ordering::SeqCst);
    store
}

#[test]
fn a_transient_error_does_not_end_the_wait() {
    for (what, reply) in faults().split_off(3) {
        let store = store();
        store.has_controller.store(true, Ordering::SeqCst);
        let server = serve_after_change(store, move |reads| (reads < 2).then(|| reply.clone()));
        let (code, out, err) = run(&server, &["undo", "agent", "-o", "json"]);
        assert_eq!((code, stage(&out).as_str(), err.as_str()), (Some(0), "Observed", ""), "{what}");
    }
}

#[test]
fn a_timeout_of_zero_waits_for_the_controller_without_a_limit() {
    let store = store();
    let server = serve_after_change(store, |reads| {
        // It acts after a while.
        store.has_controller.store(reads > 3, Ordering::SeqCst);
        None
    });
    let (code, out, err) = run(&server, &["undo", "agent", "-o", "json", "--timeout=0"]);
    assert_eq!((code, stage(&out).as_str(), err.as_str()), (Some(0), "Observed", ""));
    let reads = server.asked().into_iter().skip_while(|asked| asked.method == "GET").count();
    assert!(reads > 4, "{reads}");
}

#[test]
fn the_time_to_wait_is_bounded_although_the_server_stalls() {
    let server = serve_after_change(store(), |_| {
        thread::sleep(Duration::from_secs(600));
        None
    });
    let (code, out, err) = run(&server, &["undo", "agent", "-o", "json", "--timeout=1"]);
    assert_eq!((code, stage(&out).as_str()), (Some(6), "Applied"), "{err}");
    assert!(err.contains("the server did not answer in time"), "{err}");
}

#[test]
fn a_signal_while_waiting_does_not_hide_the_change() {
    for (is_sent, expected) in [(true, "Applied"), (false, "Unknown")] {
        let store = store();
        let stalled = std::sync::Arc::new(AtomicBool::new(false));
        let (note, changed) = (stalled.clone(), AtomicBool::new(false));
        let server = start(move |asked| {
            let is_change = asked.method != "GET";
            if is_change && is_sent {
                changed.store(true, Ordering::SeqCst);
                return store.write(&asked.body);
            }
            if is_change || changed.load(Ordering::SeqCst) {
                note.store(true, Ordering::SeqCst);
                thread::sleep(Duration::from_secs(600));
            }
            store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}"))
        });
        let mut command = command(&server, &["undo", "agent", "-o", "json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !stalled.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{err}");
        assert_eq!(stage(&String::from_utf8(output.stdout).unwrap()), expected, "{err}");
        assert!(err.contains("interrupted") && err.contains("applied"), "{err}");
    }
}

#[test]
fn a_plan_that_nobody_can_see_is_not_carried_out() {
    let server = serve(store(), |_| None);
    let mut child = command(&server, &["undo", "agent"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(err, "error: the output was closed before the change was shown; nothing was sent\n");
    assert_eq!(patches(&server), Vec::<Value>::new());
}

#[test]
fn a_change_is_reported_on_standard_error_if_the_output_was_closed_after_it() {
    let store = store();
    let server = serve(store, |_| None);
    let mut child = command(&server, &["undo", "agent", "-o", "name"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), "daemonset.apps/agent rolled back\n"));
    assert_eq!(store.image(), "agent:1");
}

#[test]
fn a_server_in_trouble_is_not_sent_the_change_again() {
    let server = serve(store(), |_| Some(Reply::of(503, JSON, "{}")));
    let (code, _, err) = run(&server, &["undo", "agent"]);
    assert_eq!(code, Some(7));
    assert!(err.starts_with("error: unexpected answer to patch daemonsets: HTTP status 503, "), "{err}");
    let hint = "\nhint: it is not known whether the change was applied; it was not when the DaemonSet was read again; to repeat it: ";
    assert!(err.contains(hint), "{err}");
    assert!(err.ends_with(&suggested("kubectl ds undo --to-revision 1 -n team", &server)), "{err}");
    assert_eq!(patches(&server).len(), 1);
}

/// The controller replaces no pod under OnDelete, so that there is no end to wait for.
#[test]
fn a_rollout_that_does_not_begin_by_itself_is_not_followed() {
    let store = store();
    store.object.lock().unwrap()["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let server = serve(store, |_| None);
    for command in ["undo", "restart"] {
        let (code, out, err) = run(&server, &[command, "agent", "--watch"]);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(err.starts_with("error: --watch would not end: "), "{err}");
    }
    assert_eq!(patches(&server), Vec::<Value>::new());
}

#[test]
fn a_status_that_moves_holds_nobody_up() {
    let store = store();
    let server = serve(store, move |before| {
        if before < 3 {
            let mut object = store.object.lock().unwrap();
            object["metadata"]["resourceVersion"] = (50 + before).to_string().into();
            object["status"]["numberReady"] = before.into();
        }
        None
    });
    let (code, _, err) = run(&server, &["undo", "agent", "--no-wait"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let locks: Vec<_> = patches(&server).iter().map(|patch| patch[0]["value"].clone()).collect();
    assert_eq!(locks, ["7", "50", "51", "52"]);
    assert_eq!(store.image(), "agent:1");
}

#[test]
fn what_somebody_else_changes_meanwhile_is_shown_and_kept() {
    let store = store();
    let server = serve(store, move |_| {
        let mut object = store.object.lock().unwrap();
        object["metadata"]["resourceVersion"] = "8".into();
        object["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:3".into();
        object["spec"]["minReadySeconds"] = 30.into();
        object["metadata"]["managedFields"] = json!([
            {"manager": "kubectl-edit", "operation": "Update"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"},
        ]);
        None
    });
    let (code, out, err) = run(&server, &["undo", "agent"]);
    check("undo/concurrent-edit.txt", &ended(&server, code, &out, err));
    assert_eq!((patches(&server).len(), store.image()), (1, "agent:3".into()));
}

#[test]
fn an_object_that_was_recreated_is_left_alone() {
    let store = store();
    let server = serve(store, move |_| {
        let mut object = store.object.lock().unwrap();
        object["metadata"]["resourceVersion"] = "8".into();
        object["metadata"]["uid"] = "another".into();
        None
    });
    let (code, _, err) = run(&server, &["restart", "agent"]);
    assert_eq!(code, Some(1));
    assert!(
        err.starts_with("error: team/agent was deleted and recreated after it was read; the new one was not changed\n"),
        "{err}"
    );
}

/// The change is gone with the object that had it.
#[test]
fn an_object_that_is_recreated_after_the_change_does_not_have_it() {
    let store = store();
    // The controller has not observed the change.
    store.object.lock().unwrap()["status"]["observedGeneration"] = 1.into();
    let server = serve(store, move |_| {
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            store.object.lock().unwrap()["metadata"]["uid"] = "another".into();
        });
        None
    });
    let (code, _, err) = run(&server, &["restart", "agent"]);
    assert_eq!(code, Some(7), "{err}");
    assert!(err.contains("the DaemonSet was deleted and created again"), "{err}");
}

#[test]
fn what_is_being_deleted_is_not_waited_for() {
    let store = store();
    store.object.lock().unwrap()["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
    store.object.lock().unwrap()["status"]["observedGeneration"] = 1.into();
    let (code, out, err) = run(&serve(store, |_| None), &["undo", "agent"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err, "warning: it is being deleted: the DaemonSet controller no longer reconciles it\n");
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
}

#[test]
fn a_controller_that_does_not_act_is_waited_for_no_longer_than_allowed() {
    let store = store();
    store.object.lock().unwrap()["status"]["observedGeneration"] = 1.into();
    let server = serve(store, |_| None);
    let (code, out, err) = run(&server, &["undo", "agent", "--timeout=1"]);
    assert_eq!(code, Some(6));
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
    assert!(
        err.starts_with("error: the change was applied, but the controller has not acted on it within 1s\n"),
        "{err}"
    );
}

#[test]
fn revisions_that_may_not_be_read_are_not_taken_for_missing_ones() {
    let store = store();
    let server = start(move |asked| match (asked.method.as_str(), asked.path().rsplit('/').next().unwrap()) {
        ("GET", "controllerrevisions") => refusal(403, "Forbidden", "no"),
        ("GET", _) => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
        _ => {
            let mut object = store.object.lock().unwrap();
            object["spec"]["template"]["metadata"]["annotations"] = json!({"restarted": "yes"});
            object["metadata"]["resourceVersion"] = "100".into();
            Reply::of(200, JSON, object.to_string())
        }
    });
    let (code, out, err) = run(&server, &["undo", "agent"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(
        err,
        "error: the revisions of team/agent are not known\n\
         hint: controllerrevisions in namespace team could not be read (list controllerrevisions.apps is forbidden): \
         no revision is known\n"
    );
    assert_eq!(patches(&server), Vec::<Value>::new());
    // A restart takes none; it cannot be told what becomes of it.
    let (code, out, err) = run(&server, &["restart", "agent"]);
    assert_eq!(code, Some(0));
    assert!(err.starts_with("warning: controllerrevisions in namespace team could not be read"), "{err}");
    assert!(out.contains("\ndaemonset.apps/agent restarted\n"), "{out}");
}

/// Events are often kept apart from the other objects, and may be lost alone.
#[test]
fn a_rollback_does_not_need_events() {
    let store = store();
    let server = start(move |asked| match (asked.method.as_str(), asked.path().rsplit('/').next().unwrap()) {
        ("GET", "events") => refusal(500, "InternalError", "etcd is gone"),
        ("GET", _) => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
        _ => store.write(&asked.body),
    });
    let (code, _, err) = run(&server, &["undo", "agent", "--no-wait"]);
    let warning = "warning: events could not be read (Error from server (InternalError): etcd is gone): ";
    assert!(code == Some(0) && err.replace("\n  ", " ").starts_with(warning), "{err}");
    assert_eq!(store.image(), "agent:1");
}

#[test]
fn several_fields_are_set_with_one_locked_patch() {
    let store = store();
    let server = serve(store, |_| None);
    let arguments = ["set", "agent", "--max-surge=2", "--min-ready-seconds=30", "--revision-history-limit=5"];
    let (code, out, err) = run(&server, &arguments);
    check("set/applied.txt", &ended(&server, code, &out, err));
    assert_eq!(
        patches(&server),
        [json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/spec/updateStrategy", "value": {"rollingUpdate": {"maxSurge": 2}}},
            {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/maxUnavailable", "value": 0},
            {"op": "add", "path": "/spec/minReadySeconds", "value": 30},
            {"op": "add", "path": "/spec/revisionHistoryLimit", "value": 5},
        ])]
    );
    // The second time there is nothing to do.
    let (code, out, err) = run(&server, &arguments);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "daemonset.apps/agent already has these values; nothing was changed\n");
    assert_eq!(patches(&server).len(), 1);
}

#[test]
fn set_does_nothing_that_dry_run_excludes() {
    let store = store();
    let server = serve(store, |_| None);
    assert_eq!(run(&server, &["set", "agent", "--max-unavailable=3", "--dry-run=client"]).0, Some(0));
    assert_eq!(patches(&server), Vec::<Value>::new());
    assert_eq!(run(&server, &["set", "agent", "--max-unavailable=3", "--dry-run=server"]).0, Some(0));
    let asked = server.asked();
    let change = asked.iter().find(|asked| asked.method == "PATCH").unwrap();
    assert_eq!(change.target, format!("{PATH}?fieldManager=kubectl-ds&dryRun=All"));
    for arguments in [
        ["set", "agent", "--max-unavailable=0"],
        ["set", "agent", "--max-surge=101%"],
        ["set", "agent", "--max-unavailable=-1"],
    ] {
        let server = serve(store, |_| None);
        assert_eq!(run(&server, &arguments).0, Some(1), "{arguments:?}");
        assert_eq!(patches(&server), Vec::<Value>::new());
    }
}

#[test]
fn a_set_whose_answer_was_lost_is_found_by_reading_again() {
    for (what, reply) in lost_answers() {
        let (store, answer) = (store(), reply.clone());
        let server = start(move |asked| {
            if asked.method == "GET" {
                return store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}"));
            }
            store.write(&asked.body);
            answer.clone()
        });
        let (code, out, err) = run(&server, &["set", "agent", "--max-unavailable=3", "--no-wait"]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{what}: {out}");
        assert!(out.contains("\ndaemonset.apps/agent updated\n"), "{what}: {out}");

        // It was not applied, but may still be.
        let answer = reply.clone();
        let server = serve(store_like(store), move |_| Some(answer.clone()));
        let (code, out, err) = run(&server, &["set", "agent", "--max-unavailable=3", "--no-wait"]);
        assert_eq!(code, Some(7), "{what}: {out}{err}");
        let hint = "whether the change was applied; it was not when the DaemonSet was read again; to repeat it: kubectl ds set";
        assert!(err.contains(hint), "{what}: {err}");
    }
}

#[test]
fn what_allowed_more_is_in_the_command_that_repeats_it() {
    for (arguments, expected) in [
        (
            &["set", "agent", "--max-unavailable=3", "--force"] as &[&str],
            "kubectl ds set --max-surge 0 --max-unavailable 3 -n team --force",
        ),
        (
            &["set", "agent", "--max-unavailable=3", "--delete-surge-pods"],
            "kubectl ds set --max-surge 0 --max-unavailable 3 -n team --delete-surge-pods",
        ),
        (&["pause", "agent", "--delete-surge-pods"], "kubectl ds pause -n team --delete-surge-pods"),
        (
            &["partition", "agent", "1", "--image=agent=agent:9", "--force", "--delete-surge-pods"],
            "kubectl ds partition -n team --image 'agent=agent:9' --delete-surge-pods --force",
        ),
    ] {
        let store = store();
        let server = start(move |asked| match asked.method.as_str() {
            "GET" => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
            _ if asked.target.contains("dryRun=All") => {
                unstored(store_like(store).write(&asked.body), &store.object.lock().unwrap())
            }
            _ => Reply::hang_up(),
        });
        let (code, out, err) = run(&server, arguments);
        assert_eq!(code, Some(7), "{arguments:?}: {out}{err}");
        let expected = format!("{expected} --server http://{} agent", server.address);
        assert!(err.contains(&expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_set_overwrites_no_edit_that_was_made_meanwhile() {
    let store = store();
    let server = serve(store, move |_| {
        let mut object = store.object.lock().unwrap();
        object["metadata"]["resourceVersion"] = "8".into();
        object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        object["metadata"]["managedFields"] = json!([{"manager": "argocd-controller", "operation": "Update"}]);
        None
    });
    let (code, out, err) = run(&server, &["set", "agent", "--max-unavailable=3"]);
    check("set/concurrent-edit.txt", &ended(&server, code, &out, err));
    assert_eq!(patches(&server).len(), 1);
    assert_eq!(store.object.lock().unwrap()["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}

#[test]
fn what_set_may_not_read_is_said_and_the_status_counts() {
    let store = store();
    store.object.lock().unwrap()["status"] =
        json!({"observedGeneration": 9, "desiredNumberScheduled": 10, "numberUnavailable": 3});
    let server = start(move |asked| {
        let forbidden = ["nodes", "poddisruptionbudgets"].iter().any(|name| asked.path().ends_with(name));
        match asked.method.as_str() {
            "GET" if forbidden => refusal(403, "Forbidden", "no"),
            "GET" => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
            _ => store.write(&asked.body),
        }
    });
    let (code, out, err) = run(&server, &["set", "agent", "--max-unavailable=50%"]);
    check("set/forbidden.txt", &ended(&server, code, &out, err));
}
