//! A rollout in several stages: clients that die, others that interfere between stages, and other DaemonSets that break.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use super::{daemon_set, refusal};
use crate::screens::{end, kubectl_ds};

const PATIENCE: Duration = Duration::from_secs(60);

const COMMAND: &[&str] =
    &["partition", "agent", "0", "-n", "team", "--stages=canary,100%", "--progress-deadline=4s", "--server"];

fn rollout(server: &Server, arguments: &[&str]) -> Command {
    let address = format!("http://{}", server.address);
    kubectl_ds(&[COMMAND, &[&address], arguments].concat())
}

/// Returns whether a request creates an event with this reason.
fn is_event(asked: &Asked, reason: &str) -> bool {
    asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains(reason)
}

fn deletions(server: &Server) -> usize {
    server.asked().iter().filter(|asked| asked.method == "DELETE").count()
}

#[test]
fn one_command_updates_the_canary_and_then_the_others() {
    let cluster = Cluster::new();
    let kept = cluster.clone();
    let server = Server::start(move |asked| kept.answer(asked));
    let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
    assert_eq!(ended.code, Some(0), "{} {}", ended.out, ended.err);
    let said = [
        "stages: canary now (1 node), 100% (2 nodes)",
        "n1: stands for all nodes",
        "stage 100% (2 of 2): update 1 node: n2",
    ];
    assert!(said.iter().all(|words| ended.out.contains(words)), "{}", ended.out);
    // What comes next is no advice.
    assert!(!ended.out.contains("to finish"), "{}", ended.out);
    assert_eq!((deletions(&server), cluster.is_suspended()), (2, false));
}

/// Nobody may be asked, and nobody looks.
#[test]
fn clients_that_are_killed_at_any_moment_leave_what_the_same_command_finishes() {
    for pause in [40, 90, 150, 220, 300] {
        let cluster = Cluster::new();
        let kept = cluster.clone();
        let server = Server::start(move |asked| kept.answer(asked));
        for _ in 0..4 {
            let mut command = rollout(&server, &["--image=agent=agent:2", "--soak=200ms"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_millis(pause));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let ended = end(rollout(&server, &["--image=agent=agent:2", "--soak=200ms"]), None);
        assert_eq!(ended.code, Some(0), "{pause}: {} {}", ended.out, ended.err);
        assert_eq!((deletions(&server), cluster.is_suspended()), (2, false), "{pause}: {}", ended.out);
    }
}

#[test]
fn a_client_does_not_begin_a_stage_of_what_is_no_longer_its_own() {
    let other_run: fn(&mut Value) = |object| object["metadata"]["annotations"]["kubectl-ds/run"] = "another".into();
    let other_template: fn(&mut Value) = |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:3".into();
        let generation = object["metadata"]["generation"].as_u64().unwrap() + 1;
        object["metadata"]["generation"] = generation.into();
        object["status"]["observedGeneration"] = generation.into();
    };
    for (edit, said) in [(other_run, "is partitioned by another client"), (other_template, "template")] {
        let cluster = Cluster::new();
        let (kept, has_edited) = (cluster.clone(), AtomicBool::new(false));
        let server = Server::start(move |asked| {
            let reply = kept.answer(asked);
            if is_event(asked, "PartitionComplete") && !has_edited.swap(true, Ordering::SeqCst) {
                kept.edit(edit);
            }
            reply
        });
        let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
        assert!(!matches!(ended.code, Some(0 | 3)) && ended.err.contains(said), "{:?} {}", ended.code, ended.err);
        assert_eq!((deletions(&server), cluster.is_suspended()), (1, true), "{}", ended.out);
    }
}

#[test]
fn an_interruption_between_two_stages_says_how_to_continue() {
    let cluster = Cluster::new();
    let (sender, stalled) = mpsc::channel();
    let (sender, is_complete) = (Mutex::new(sender), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        is_complete.fetch_or(is_event(asked, "PartitionComplete"), Ordering::SeqCst);
        if asked.path() == "/api/v1/nodes" && is_complete.load(Ordering::SeqCst) {
            let _ = sender.lock().unwrap().send(());
            thread::sleep(PATIENCE);
        }
        cluster.answer(asked)
    });
    let mut command = rollout(&server, &["--image=agent=agent:2", "--strata=kernel,example.com/rack", "--soak=1s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stalled.recv_timeout(PATIENCE).unwrap();
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    let flags = "--stages 'canary,100%' --strata 'kernel,example.com/rack' --soak 1s --progress-deadline 4s";
    let command = format!("kubectl ds partition -n team {flags} --server http://{} agent 0", server.address);
    assert!(err.contains(&command), "{err}");
}

/// One read that fails must not end a rollout that nobody watches.
#[test]
fn a_failure_between_two_stages_passes() {
    let cluster = Cluster::new();
    let (is_complete, failures) = (AtomicBool::new(false), AtomicUsize::new(0));
    let server = Server::start(move |asked| {
        is_complete.fetch_or(is_event(asked, "PartitionComplete"), Ordering::SeqCst);
        let is_read = asked.method == "GET" && asked.path().ends_with("/daemonsets");
        if is_read && is_complete.load(Ordering::SeqCst) && failures.fetch_add(1, Ordering::SeqCst) < 2 {
            return refusal(500, "InternalError", "the fault of this test");
        }
        cluster.answer(asked)
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
    assert_eq!((ended.code, deletions(&server)), (Some(0), 2), "{} {}", ended.out, ended.err);
}

/// A server that has another DaemonSet, `cni`, whose pod on a node is not ready any more once a pod of the agent was deleted.
fn with_cni(cluster: Arc<Cluster>, breaks: &'static str) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let is_broken = AtomicBool::new(false);
    move |asked| {
        is_broken.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
        let mut reply = cluster.answer(asked);
        let more: Vec<Value> = match (asked.method.as_str(), asked.path()) {
            ("GET", "/apis/apps/v1/daemonsets") => vec![daemon_set("cni")],
            ("GET", "/api/v1/pods") => ["n1", "n2"]
                .map(|node| {
                    let is_ready = node != breaks || !is_broken.load(Ordering::SeqCst);
                    let status = if is_ready { "True" } else { "False" };
                    let since = "2026-01-01T00:00:00Z";
                    json!({
                        "metadata": {"name": format!("cni-{node}"), "namespace": "team", "uid": format!("cni-{node}"),
                            "creationTimestamp": since, "labels": {"app": "cni", "controller-revision-hash": "1"},
                            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni",
                                "uid": "uid-of-cni", "controller": true}]},
                        "spec": {"nodeName": node, "containers": [{"name": "cni", "image": "cni:1"}]},
                        "status": {"phase": "Running",
                            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}],
                            "containerStatuses": [{"name": "cni", "ready": is_ready, "restartCount": 0,
                                "state": {"running": {"startedAt": since}}}]},
                    })
                })
                .into(),
            _ => return reply,
        };
        let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
        list["items"].as_array_mut().unwrap().extend(more);
        reply.body = list.to_string().into_bytes();
        reply
    }
}

#[test]
fn trouble_of_another_daemon_set_on_an_updated_node_stops_the_stage() {
    for (breaks, undoes, code, image, replaced) in [
        ("", false, 0, "agent:2", 2),
        // It stops at the canary, although its own pod is ready.
        ("n1", false, 3, "agent:2", 1),
        // What breaks elsewhere is not its fault, until the node is updated.
        ("n2", false, 3, "agent:2", 2),
        ("n1", true, 3, "agent:1", 2),
    ] {
        let cluster = Cluster::new();
        let server = Server::start(with_cni(cluster.clone(), breaks));
        let undo: &[&str] = if undoes { &["--on-failure=undo"] } else { &[] };
        let ended = end(rollout(&server, &[&["--image=agent=agent:2"], undo].concat()), None);
        assert_eq!(ended.code, Some(code), "{} {}", ended.out, ended.err);
        let said = format!("{breaks}: ReadinessFailing: DaemonSet team/cni has a problem");
        assert_eq!(ended.out.contains(&said), code == 3, "{}", ended.out);
        assert_eq!(deletions(&server), replaced, "{}", ended.out);
        let object: Value = serde_json::from_slice(&cluster.object()).unwrap();
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], image, "{}", ended.err);
        assert_eq!(cluster.is_suspended(), code == 3 && !undoes, "{}", ended.err);
    }
}

/// What cannot be read is no gate, and that is said.
#[test]
fn a_user_who_may_not_read_other_daemon_sets_is_told() {
    let cluster = Cluster::new();
    let server = Server::start(move |asked| match asked.path() {
        "/apis/apps/v1/daemonsets" => refusal(403, "Forbidden", "daemonsets.apps is forbidden"),
        _ => cluster.answer(asked),
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
    assert_eq!((ended.code, deletions(&server)), (Some(0), 2), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("warning: trouble of other DaemonSets will not stop the rollout"), "{}", ended.err);
}
