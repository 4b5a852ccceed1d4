//! A rollout in several stages: clients that die, others that interfere between stages, and other DaemonSets that break.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use super::{absent, daemon_set, json_list, refusal, side_by_side};
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

/// There is nothing to continue, to resume or to roll back, nor does a Job that repeats the command find anything.
#[test]
fn a_stage_ends_with_the_daemon_set() {
    let cluster = Cluster::new();
    let (kept, is_deleted) = (cluster.clone(), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        is_deleted.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
        match asked.path() {
            path if is_deleted.load(Ordering::SeqCst) && path.ends_with("/daemonsets/agent") => absent(path),
            path if is_deleted.load(Ordering::SeqCst) && path.ends_with("/daemonsets") => json_list(path, &[]),
            _ => kept.answer(asked),
        }
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2", "--soak=30s"]), None);
    assert_eq!(ended.code, Some(1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("team/agent was deleted"), "{}", ended.err);
    assert!(["to continue", "resume", "undo"].iter().all(|way| !ended.err.contains(way)), "{}", ended.err);
    assert_eq!(deletions(&server), 1);
}

#[test]
fn a_stage_that_is_no_larger_than_the_canary_is_skipped() {
    let cluster = Cluster::new();
    let kept = cluster.clone();
    let server = Server::start(move |asked| kept.answer(asked));
    let address = format!("http://{}", server.address);
    let arguments = ["partition", "agent", "0", "-n", "team", "--stages=canary,1,100%", "--image=agent=agent:2"];
    let ended = end(kubectl_ds(&[&arguments[..], &["--server", &address]].concat()), None);
    assert_eq!((ended.code, deletions(&server)), (Some(0), 2), "{} {}", ended.out, ended.err);
    let said = ["canary now (1 node), 1 skipped (1 node), 100% (2 nodes)", "stage 100% (3 of 3): update 1 node: n2"];
    assert!(said.iter().all(|words| ended.out.contains(words)), "{}", ended.out);
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

/// As within a stage: a Job must not run again over what somebody has stopped.
#[test]
fn a_pause_right_before_the_next_stage_ends_the_rollout_as_one_within_a_stage() {
    let cluster = Cluster::new();
    let (kept, is_complete, is_paused) = (cluster.clone(), AtomicBool::new(false), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        is_complete.fetch_or(is_event(asked, "PartitionComplete"), Ordering::SeqCst);
        let is_patch = asked.method == "PATCH" && !asked.target.contains("dryRun");
        if is_patch && is_complete.load(Ordering::SeqCst) && !is_paused.swap(true, Ordering::SeqCst) {
            kept.edit(|object| {
                let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.retain(|key, _| !matches!(key.as_str(), "kubectl-ds/run" | "kubectl-ds/partition"));
            });
        }
        kept.answer(asked)
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
    assert_eq!((ended.code, deletions(&server)), (Some(1), 1), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("was paused, or is partitioned by another client"), "{}", ended.err);
    assert!(ended.err.contains("the stages before have updated 1 node"), "{}", ended.err);
}

/// What the next stage is refused for says how to mend that, not how to go on.
#[test]
fn a_stage_that_is_refused_after_another_one_says_what_stays_and_how_to_continue() {
    let cluster = Cluster::new();
    let (kept, is_complete) = (cluster.clone(), AtomicBool::new(false));
    let server = Server::start(move |asked| {
        is_complete.fetch_or(is_event(asked, "PartitionComplete"), Ordering::SeqCst);
        let is_lease = asked.path().ends_with("/leases/kube-controller-manager");
        if is_lease && is_complete.load(Ordering::SeqCst) {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
                "spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}});
            return Reply::of(200, "application/json", lease.to_string());
        }
        kept.answer(asked)
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
    assert_eq!((ended.code, deletions(&server), cluster.is_suspended()), (Some(6), 1, true), "{}", ended.err);
    for said in [
        "that would make things worse: kube-controller-manager seems to be down",
        "the stages before have updated 1 node, and the update strategy stays suspended",
        "hint: to continue: kubectl ds partition",
    ] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
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

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// A server that has another DaemonSet, `cni`, whose pod on a node is not ready any more once a pod of the agent was deleted.
fn with_cni(cluster: Arc<Cluster>, breaks: &'static str) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    with_cni_since(cluster, breaks, Some(|| LONG_AGO.to_owned()))
}

/// The same, with the time since when the pod is not ready; without one, the pod is gone.
fn with_cni_since(
    cluster: Arc<Cluster>,
    breaks: &'static str,
    broken_since: Option<fn() -> String>,
) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let since_when = OnceLock::new();
    move |asked| {
        if asked.method == "DELETE" {
            since_when.get_or_init(|| broken_since.map(|since| since()));
        }
        let mut reply = cluster.answer(asked);
        let more: Vec<Value> = match (asked.method.as_str(), asked.path()) {
            ("GET", "/apis/apps/v1/daemonsets") => vec![daemon_set("cni")],
            ("GET", "/api/v1/pods") => ["n1", "n2"]
                .into_iter()
                .filter_map(|node| {
                    let broken = since_when.get().filter(|_| node == breaks);
                    let since = broken.map_or(Some(LONG_AGO), |since| since.as_deref())?;
                    let is_ready = broken.is_none();
                    let status = if is_ready { "True" } else { "False" };
                    Some(json!({
                        "metadata": {"name": format!("cni-{node}"), "namespace": "team", "uid": format!("cni-{node}"),
                            "creationTimestamp": LONG_AGO, "labels": {"app": "cni", "controller-revision-hash": "1"},
                            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni",
                                "uid": "uid-of-cni", "controller": true}]},
                        "spec": {"nodeName": node, "containers": [{"name": "cni", "image": "cni:1"}]},
                        "status": {"phase": "Running",
                            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}],
                            "containerStatuses": [{"name": "cni", "ready": is_ready, "restartCount": 0,
                                "state": {"running": {"startedAt": LONG_AGO}}}]},
                    }))
                })
                .collect(),
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
    let runs = [
        ("", false, 0, "agent:2", 2),
        // It stops at the canary, although its own pod is ready.
        ("n1", false, 3, "agent:2", 1),
        // What breaks elsewhere is not its fault, until the node is updated.
        ("n2", false, 3, "agent:2", 2),
        ("n1", true, 3, "agent:1", 2),
    ];
    side_by_side(runs, |(breaks, undoes, code, image, replaced)| {
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
    });
}

/// What a rollout has broken may be what ends its client, and must not be what the next one begins with.
#[test]
fn a_client_that_continues_another_one_does_not_excuse_what_was_broken_meanwhile() {
    let now: fn() -> String = || jiff::Timestamp::now().to_string();
    let arguments = ["--image=agent=agent:2"];
    let runs = [
        (Some(now), false, 3),
        // Nobody knows since when.
        (None, false, 3),
        (Some(|| LONG_AGO.to_owned()), false, 0),
        // Somebody has looked at it.
        (Some(now), true, 0),
    ];
    side_by_side(runs, |(since, pauses, code)| {
        let cluster = Cluster::new();
        let server = Server::start(with_cni_since(cluster.clone(), "n1", since));
        let mut first = rollout(&server, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while deletions(&server) == 0 {
            thread::sleep(Duration::from_millis(20));
        }
        first.kill().unwrap();
        first.wait().unwrap();
        if pauses {
            let address = format!("--server=http://{}", server.address);
            let paused = end(kubectl_ds(&["pause", "agent", "-n", "team", "--no-wait", &address]), None);
            assert_eq!(paused.code, Some(0), "{}", paused.err);
        }
        for _ in 0..2 {
            let ended = end(rollout(&server, &arguments), None);
            assert_eq!(ended.code, Some(code), "{pauses} {} {}", ended.out, ended.err);
            assert_eq!(ended.out.contains("DaemonSet team/cni has a problem there"), code == 3, "{}", ended.out);
        }
        assert_eq!((deletions(&server), cluster.is_suspended()), (if code == 3 { 1 } else { 2 }, code == 3));
    });
}

/// It may have died before there was any.
#[test]
fn a_client_that_continues_a_stage_looks_for_trouble_before_it_updates_more() {
    let cluster = Cluster::new();
    let arguments = ["--image=agent=agent:2"];
    let server = Server::start(with_cni(cluster.clone(), ""));
    let mut first = rollout(&server, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_patch = |asked: &Asked| asked.method == "PATCH" && !asked.target.contains("dryRun");
    while server.asked().iter().filter(|asked| is_patch(asked)).count() < 2 {
        thread::sleep(Duration::from_millis(20));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(deletions(&server), 1, "it waits for the client before it");
    // It breaks with the first deletion, which is of no pod that there is.
    let server = Server::start(with_cni_since(cluster.clone(), "n1", Some(|| jiff::Timestamp::now().to_string())));
    let mut connection = TcpStream::connect(server.address).unwrap();
    write!(connection, "DELETE /api/v1/namespaces/team/pods/none HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}")
        .unwrap();
    connection.read_exact(&mut [0; 12]).unwrap();
    let ended = end(rollout(&server, &arguments), None);
    assert_eq!((ended.code, deletions(&server)), (Some(3), 1), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("DaemonSet team/cni has a problem there"), "{}", ended.out);
}

/// A Job repeats what ends with 6.
#[test]
fn a_rollback_that_was_not_completed_has_a_code_of_its_own_and_is_continued() {
    let cluster = Cluster::new();
    let (refuses, is_stopped) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let (broken, answer) = (refuses.clone(), with_cni(cluster.clone(), "n1"));
    let old_revisions = OnceLock::new();
    let server = Server::start(move |asked| {
        is_stopped.fetch_or(is_event(asked, "PartitionStopped"), Ordering::SeqCst);
        let fails = is_stopped.load(Ordering::SeqCst) && broken.load(Ordering::SeqCst);
        match asked.method.as_str() {
            "DELETE" if fails => refusal(403, "Forbidden", "pods are forbidden"),
            // The controller keeps the revision that has failed.
            "GET" if asked.path().ends_with("/controllerrevisions") && !asked.target.contains("watch=true") => {
                let mut reply = answer(asked);
                let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                let items = list["items"].as_array_mut().unwrap();
                match items.get(1) {
                    Some(new) => drop(old_revisions.set(new.clone())),
                    None => items.extend(old_revisions.get().cloned()),
                }
                reply.body = list.to_string().into_bytes();
                reply
            }
            _ => answer(asked),
        }
    });
    let arguments = ["--image=agent=agent:2", "--on-failure=undo", "--if-generation=1"];
    for (is_repaired, code) in [(false, 6), (false, 6), (true, 3)] {
        refuses.store(!is_repaired, Ordering::SeqCst);
        let ended = end(rollout(&server, &arguments), None);
        assert_eq!((ended.code, cluster.is_suspended()), (Some(code), !is_repaired), "{} {}", ended.out, ended.err);
        assert_eq!(ended.err.contains("not to its end"), !is_repaired, "{}", ended.err);
    }
    let object: Value = serde_json::from_slice(&cluster.object()).unwrap();
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "agent:1");
    // A client that was ended right after that does not begin again.
    let ended = end(rollout(&server, &arguments), None);
    assert!(ended.code == Some(3) && ended.err.contains("has changed (generation"), "{} {}", ended.out, ended.err);
    assert_eq!(serde_json::from_slice::<Value>(&cluster.object()).unwrap(), object);
}

/// Whoever stops a rollback would otherwise have to stop it again and again.
#[test]
fn a_rollback_that_somebody_has_stopped_is_not_repeated() {
    let cluster = Cluster::new();
    let (kept, answer) = (cluster.clone(), with_cni(cluster.clone(), "n1"));
    let is_stopped = AtomicBool::new(false);
    let server = Server::start(move |asked| {
        let reply = answer(asked);
        if is_stopped.load(Ordering::SeqCst) && is_event(asked, "PartitionBegun") {
            kept.edit(|object| object["metadata"]["annotations"]["kubectl-ds/run"] = "another".into());
        }
        is_stopped.fetch_or(is_event(asked, "PartitionStopped"), Ordering::SeqCst);
        reply
    });
    let ended = end(rollout(&server, &["--image=agent=agent:2", "--on-failure=undo"]), None);
    assert_eq!(ended.code, Some(3), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("is partitioned by another client"), "{}", ended.err);
}

/// An autoscaler may remove the canary.
#[test]
fn a_stage_without_its_nodes_says_so_and_how_to_begin_with_others() {
    let runs: [(&[&str], &str); 4] = [
        (&["0", "--stages=canary,100%"], "--stages 'canary,100%' --progress-deadline 4s"),
        (&["1"], "--update 1"),
        (&["1", "--nodes=n1"], "--update 1"),
        (&["1", "--node-selector=kubernetes.io/hostname=n1"], "--update 1"),
    ];
    side_by_side(runs, |(arguments, again)| {
        let cluster = Cluster::new();
        let (kept, is_removed) = (cluster.clone(), AtomicBool::new(false));
        let server = Server::start(move |asked| {
            let mut reply = kept.answer(asked);
            let is_list = asked.method == "GET" && !asked.target.contains("watch=true");
            if is_list && (asked.path() == "/api/v1/nodes" || asked.path().ends_with("/pods")) {
                let mut list: Value = serde_json::from_slice(&reply.body).unwrap();
                let items = list["items"].as_array_mut().unwrap();
                let is_removed = is_removed.load(Ordering::SeqCst);
                items
                    .retain(|item| !is_removed || item["metadata"]["name"] != "n1" && item["spec"]["nodeName"] != "n1");
                for node in items.iter_mut().filter(|item| item["spec"]["nodeName"].is_null()) {
                    node["metadata"]["labels"] = json!({"kubernetes.io/hostname": node["metadata"]["name"]});
                }
                reply.body = list.to_string().into_bytes();
            }
            is_removed.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
            reply
        });
        let address = format!("--server=http://{}", server.address);
        let update = ["partition", "agent", "-n", "team", "--image=agent=agent:2", "--progress-deadline=4s"];
        let ended = end(kubectl_ds(&[&update, arguments, &[&address]].concat()), None);
        assert_eq!(ended.code, Some(3), "{} {}", ended.out, ended.err);
        assert!(ended.out.contains("no node of the stage is left: n1 is no longer eligible"), "{}", ended.out);
        let were_chosen = arguments.len() > 1 && !again.starts_with("--stages");
        let advice = if were_chosen { "other nodes than were chosen:" } else { "to begin with other nodes:" };
        let (_, command) = ended.out.split_once(advice).expect(&ended.out);
        let command = command.trim_start().lines().next().unwrap();
        assert!(command.contains(again), "{command}");
        let words = shlex::split(command).unwrap();
        let words: Vec<&str> = words.iter().skip(2).map(String::as_str).chain(["--dry-run=client"]).collect();
        let tried = end(kubectl_ds(&words), None);
        assert_eq!(tried.code, Some(0), "{command}: {}", tried.err);
        assert!(tried.out.contains("at most 1 node unavailable at a time: n2"), "{command}: {}", tried.out);
    });
}

/// Pods tell of a DaemonSet that a list lacks; whether it was deleted, only a request by its name does.
#[test]
fn a_daemon_set_that_only_the_list_lacks_is_still_a_gate() {
    for (is_deleted, code, replaced) in [(false, 6, 1), (true, 0, 2)] {
        let cluster = Cluster::new();
        let has_begun = AtomicBool::new(false);
        let cni = with_cni(cluster.clone(), "n1");
        let server = Server::start(move |asked| {
            let has_begun = has_begun.fetch_or(asked.method == "DELETE", Ordering::SeqCst);
            match asked.path() {
                "/apis/apps/v1/daemonsets" if has_begun => cluster.answer(asked),
                path if path.ends_with("/daemonsets/cni") && is_deleted => absent(path),
                path if path.ends_with("/daemonsets/cni") => {
                    Reply::of(200, "application/json", daemon_set("cni").to_string())
                }
                _ => cni(asked),
            }
        });
        let ended = end(rollout(&server, &["--image=agent=agent:2"]), None);
        assert_eq!((ended.code, deletions(&server)), (Some(code), replaced), "{} {}", ended.out, ended.err);
        assert_eq!(ended.err.contains("cannot read all daemonsets"), code == 6, "{}", ended.err);
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
