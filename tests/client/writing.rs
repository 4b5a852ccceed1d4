//! Changes on a network and a server that misbehave, through the real binary.

use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::server::{Reply, Server};
use super::{JSON, daemon_set, json_list, refusal};
use crate::screens::{Ended, check};

const PATH: &str = "/apis/apps/v1/namespaces/team/daemonsets/agent";

/// What a server keeps: one DaemonSet, with the revisions of its two templates.
struct Store {
    object: Mutex<Value>,
}

impl Store {
    fn new() -> Self {
        let mut object = daemon_set("agent");
        object["metadata"]["resourceVersion"] = "7".into();
        object["metadata"]["generation"] = 2.into();
        object["status"]["observedGeneration"] = 9.into();
        object["spec"]["template"] = template("agent:2");
        Store { object: Mutex::new(object) }
    }

    fn image(&self) -> Value {
        self.object.lock().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    }

    /// Answers what is read; nothing for changes.
    fn read(&self, path: &str) -> Option<Reply> {
        let text = match path.rsplit('/').next().unwrap() {
            "agent" => self.object.lock().unwrap().to_string(),
            "controllerrevisions" => json!({
                "kind": "ControllerRevisionList", "apiVersion": "apps/v1",
                "items": [revision(1, "agent:1"), revision(2, "agent:2")],
            })
            .to_string(),
            "pods" => return Some(json_list(&[])),
            _ => return None,
        };
        Some(Reply::of(200, JSON, text))
    }

    /// Makes a change as the API server does: refused with 409 where it is locked on another version.
    fn write(&self, body: &[u8]) -> Reply {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let mut object = self.object.lock().unwrap();
        if patch[0]["value"] != object["metadata"]["resourceVersion"] {
            let status = json!({"kind": "Status", "reason": "Conflict", "code": 409,
                "message": "the object has been modified; please apply your changes to the latest version"});
            return Reply::of(409, JSON, status.to_string());
        }
        object["spec"]["template"] = patch[1]["value"].clone();
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

/// Starts a server over a store, on which `fault` may answer first; it is given the number of changes sent before.
fn serve(store: &'static Store, fault: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static) -> Server {
    let sent = Mutex::new(0);
    Server::start(move |asked| {
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

fn run(server: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(arguments)
        .args(["-n", "team", "--server", &format!("http://{}", server.address)])
        .env_clear()
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn patches(server: &Server) -> Vec<Value> {
    let asked = server.asked();
    let changes = asked.iter().filter(|asked| asked.method == "PATCH");
    changes.map(|asked| serde_json::from_slice(&asked.body).unwrap()).collect()
}

#[test]
fn pods_are_asked_for_only_where_the_answer_is_about_them() {
    let asks_for_pods = |on_delete: bool, ends: i32, arguments: &[&str]| {
        let store = store();
        if on_delete {
            store.object.lock().unwrap()["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        }
        let server = serve(store, |_| None);
        let (code, _, err) = run(&server, arguments);
        assert_eq!(code, Some(ends), "{err}");
        server.asked().iter().filter(|asked| asked.path().ends_with("/pods")).count()
    };
    // No controller acts here: the first waits in vain, and looks more than once.
    for (arguments, ends) in [(["undo", "agent", "--timeout=1"].as_slice(), 4), (&["restart", "agent", "--no-wait"], 0)]
    {
        assert_eq!(asks_for_pods(false, ends, arguments), 0, "{arguments:?}");
        assert_eq!(asks_for_pods(true, ends, arguments), 1, "{arguments:?}");
    }
    assert_eq!(asks_for_pods(false, 0, &["history", "agent", "--diff"]), 0);
    assert_eq!(asks_for_pods(false, 0, &["history", "agent"]), 1);
}

#[test]
fn a_change_is_one_locked_patch_under_the_tools_own_name() {
    let store = store();
    let server = serve(store, |_| None);
    let (code, out, err) = run(&server, &["undo", "agent", "--to-revision=1", "--no-wait"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
    let asked = server.asked();
    let changes: Vec<_> = asked.iter().filter(|asked| asked.method != "GET").collect();
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
    let server = serve(store, |_| Some(Reply::of(200, JSON, "{}")));
    assert_eq!(run(&server, &["undo", "agent", "--dry-run=client"]).0, Some(0));
    assert_eq!(patches(&server), Vec::<Value>::new());
    assert_eq!(run(&server, &["restart", "agent", "--dry-run=server"]).0, Some(0));
    let asked = server.asked();
    let change = asked.iter().find(|asked| asked.method == "PATCH").unwrap();
    assert_eq!(change.target, format!("{PATH}?fieldManager=kubectl-ds&dryRun=All"));
}

#[test]
fn a_busy_server_is_sent_the_change_again() {
    let store = store();
    let busy = |before| (before == 0).then(|| Reply::of(429, JSON, "{}").with("retry-after", "0"));
    let server = serve(store, busy);
    let (code, _, err) = run(&server, &["undo", "agent", "--no-wait"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!((patches(&server).len(), store.image()), (2, "agent:1".into()));
}

#[test]
fn where_nobody_knows_whether_it_was_made_that_is_said_and_repeating_is_safe() {
    let store = store();
    // The change is made, and its answer is lost on the way.
    let server = serve(store, move |before| {
        (before == 0).then(|| {
            store.object.lock().unwrap()["spec"]["template"] = template("agent:1");
            Reply { cut: true, ..Reply::of(200, JSON, "{}") }
        })
    });
    let (code, out, err) = run(&server, &["undo", "agent", "--to-revision=1"]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(!out.contains("rolled back"), "{out}");
    assert!(err.contains("was lost in the answer to patch daemonsets"), "{err}");
    let hint = "\nhint: whether the change was made is not known; run the command again: what is done already is not done twice\n";
    assert!(err.ends_with(hint), "{err}");
    let (code, out, _) = run(&server, &["undo", "agent", "--to-revision=1"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "daemonset.apps/agent has the template of revision 1 already; nothing was changed\n")
    );
    assert_eq!(patches(&server).len(), 1);
}

#[test]
fn a_server_in_trouble_is_not_sent_the_change_again() {
    let server = serve(store(), |_| Some(Reply::of(503, JSON, "{}")));
    let (code, _, err) = run(&server, &["undo", "agent"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("Error from server (ServiceUnavailable)"), "{err}");
    assert_eq!(patches(&server).len(), 1);
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
        None
    });
    let (code, out, err) = run(&server, &["undo", "agent"]);
    check("undo/concurrent-edit.txt", &Ended { code, out, err });
    assert_eq!((patches(&server).len(), store.image()), (1, "agent:3".into()));
}

#[test]
fn an_object_that_was_made_anew_is_left_alone() {
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
        err.starts_with("error: team/agent was deleted and made anew in the meantime; nothing was changed\n"),
        "{err}"
    );
}

#[test]
fn what_is_being_deleted_is_not_waited_for() {
    let store = store();
    store.object.lock().unwrap()["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
    store.object.lock().unwrap()["status"]["observedGeneration"] = 1.into();
    let (code, out, err) = run(&serve(store, |_| None), &["undo", "agent"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err, "warning: it is being deleted: the DaemonSet controller acts on it no more\n");
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
}

#[test]
fn a_controller_that_does_not_act_is_waited_for_no_longer_than_allowed() {
    let store = store();
    store.object.lock().unwrap()["status"]["observedGeneration"] = 1.into();
    let server = serve(store, |_| None);
    let (code, out, err) = run(&server, &["undo", "agent", "--timeout=1"]);
    assert_eq!(code, Some(4));
    assert!(out.ends_with("\ndaemonset.apps/agent rolled back\n"), "{out}");
    assert!(err.starts_with("error: the change is made, and no controller has acted on it within 1 s\n"), "{err}");
}

#[test]
fn revisions_that_may_not_be_read_are_not_taken_for_missing_ones() {
    let store = store();
    let server = Server::start(move |asked| match (asked.method.as_str(), asked.path().rsplit('/').next().unwrap()) {
        ("GET", "controllerrevisions") => refusal(403, "Forbidden", "no"),
        ("GET", _) => store.read(asked.path()).unwrap_or_else(|| Reply::of(404, JSON, "{}")),
        _ => {
            let mut object = store.object.lock().unwrap();
            object["spec"]["template"]["metadata"]["annotations"] = json!({"restarted": "yes"});
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
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("\ndaemonset.apps/agent restarted\n"), "{out}");
}
