//! A server that is slow, or never answers: this is reported, and the outcome of a change is determined in the end, or
//! reported as unknown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::staged_faults::Cluster;
use super::{JSON, json_list};
use crate::screens::{Ended, end, kubectl_ds};
use crate::support::in_process::{FastClock, run_fast};

/// What is said after ten seconds.
const STILL_WAITING: &str = "still waiting for the API server (10s)";

/// How long the API server may be silent, and how long what it is asked again after that may take, with some time to spare.
const SILENCE: Duration = Duration::from_secs(60);
const REREAD: Duration = Duration::from_secs(30);

/// A command, and which of its requests stall.
type Run = (&'static [&'static str], fn(&Asked) -> bool);

/// Runs a command on a server that is silent for a time before it answers some requests, both on a fast clock; returns how long it took,
/// too.
fn run(
    arguments: &[&str],
    silence: Duration,
    stalls: impl Fn(&Asked) -> bool + Send + Sync + 'static,
) -> (Ended, Duration) {
    let (cluster, clock) = (Cluster::new(), FastClock::default());
    let server = Server::start({
        let clock = clock.clone();
        move |asked| {
            if stalls(asked) {
                clock.sleep(silence);
            }
            cluster.answer(asked)
        }
    });
    run_fast(&on(&server, arguments), &clock)
}

/// Returns arguments with those that lead to a server.
fn on(server: &Server, arguments: &[&str]) -> Vec<String> {
    let server = format!("http://{}", server.address);
    [arguments, &["-n", "team", "--server", &server]].concat().into_iter().map(str::to_owned).collect()
}

fn is_change(asked: &Asked) -> bool {
    asked.method == "PATCH" && !asked.target.contains("dryRun=All")
}

#[test]
fn a_long_wait_for_the_server_is_told() {
    const SET: &[&str] = &["set", "agent", "--max-unavailable=2"];
    const HOLD: &[&str] = &["partition", "agent", "100%", "--image=agent=agent:2"];
    let runs: [Run; 7] = [
        (SET, is_change),
        (HOLD, is_change),
        (HOLD, |asked| asked.target.contains("dryRun=All")),
        (&["pause", "agent"], |asked| asked.target.contains("dryRun=All")),
        (&["status", "agent"], |asked| asked.path().ends_with("/pods")),
        (&["list"], |asked| asked.path() == "/api/v1/nodes"),
        (&["status", "agent", "--watch"], |asked| asked.path().ends_with("/daemonsets")),
    ];
    thread::scope(|scope| {
        for (arguments, stalls) in runs {
            scope.spawn(move || {
                let (ended, _) = run(arguments, Duration::from_secs(11), stalls);
                assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
                assert_eq!(ended.err.matches(STILL_WAITING).count(), 1, "{arguments:?}: {}", ended.err);
            });
        }
        let (quick, _) = run(SET, Duration::ZERO, |_| false);
        assert!(!quick.err.contains("waiting"), "{}", quick.err);
    });
}

/// A webhook hangs while pods are refused: what would become of new ones is not worth a long wait, and asked only where it
/// matters.
#[test]
fn pods_that_were_refused_are_asked_for_within_seconds_or_not_at_all() {
    let runs: [(&[&str], bool); 7] = [
        (&["pause", "agent"], false),
        (&["restart", "agent", "--dry-run=client"], true),
        (&["partition", "agent", "1", "--image=agent=agent:2", "--dry-run"], true),
        (&["restart", "agent", "--no-wait"], true),
        (&["set", "agent", "--max-unavailable=2", "--no-wait"], true),
        (&["partition", "agent", "100%", "--image=agent=agent:2"], true),
        (&["coverage", "agent"], true),
    ];
    thread::scope(|scope| {
        for (arguments, asks) in runs {
            scope.spawn(move || {
                let (cluster, is_asked) = (Cluster::new(), Arc::new(AtomicBool::new(false)));
                let asked_for = is_asked.clone();
                let server = Server::start(move |asked| match asked.path() {
                    path if path.ends_with("/events") => json_list(path, &[refused_pod()]),
                    path if asked.method == "POST" && path.ends_with("/pods") => {
                        asked_for.store(true, Ordering::SeqCst);
                        thread::sleep(SILENCE);
                        cluster.answer(asked)
                    }
                    _ => cluster.answer(asked),
                });
                let start = Instant::now();
                let ended = end(kubectl_ds(&on(&server, arguments)), None);
                assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
                assert_eq!(is_asked.load(Ordering::SeqCst), asks, "{arguments:?}");
                assert!(start.elapsed() < SILENCE / 3, "{arguments:?}: {:?}", start.elapsed());
            });
        }
    });
}

/// One after the other, they would have no time.
#[test]
fn all_pods_that_were_refused_are_asked_for_at_once() {
    let (cluster, met) = (Cluster::new(), Arc::new((Mutex::new(0), Condvar::new())));
    let server = Server::start({
        let met = met.clone();
        move |asked| match asked.path() {
            path if path.ends_with("/events") => json_list(path, &[refused_pod()]),
            path if asked.method == "POST" && path.ends_with("/pods") => {
                let (count, changed) = &*met;
                let mut count = count.lock().unwrap();
                *count += 1;
                changed.notify_all();
                drop(changed.wait_timeout_while(count, SILENCE, |count| *count < 2).unwrap());
                cluster.answer(asked)
            }
            // The older revision is asked for, too.
            path if path.ends_with("/controllerrevisions") => {
                let mut list: Value = serde_json::from_slice(&cluster.answer(asked).body).unwrap();
                let mut older = list["items"][0].clone();
                older["metadata"]["name"] = "agent-0".into();
                older["metadata"]["labels"]["controller-revision-hash"] = "agent-0".into();
                older["revision"] = 0.into();
                older["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = "agent:0".into();
                list["items"].as_array_mut().unwrap().push(older);
                Reply::of(200, JSON, list.to_string())
            }
            _ => cluster.answer(asked),
        }
    });
    let ended = end(kubectl_ds(&on(&server, &["coverage", "agent"])), None);
    assert_eq!((ended.code, *met.0.lock().unwrap()), (Some(0), 2), "{} {}", ended.out, ended.err);
}

pub(super) fn refused_pod() -> Value {
    json!({
        "metadata": {"name": "refused", "namespace": "team"}, "type": "Warning", "reason": "FailedCreate",
        "involvedObject": {"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "team", "name": "agent",
            "uid": "uid-of-agent"},
        "message": "Error creating: pods \"agent-\" is forbidden: violates PodSecurity \"baseline:latest\": hostPath volumes",
        "lastTimestamp": "2026-06-01T00:00:00Z",
    })
}

/// Whether the server answers what it is asked after that, or nothing any more.
#[test]
fn a_change_that_is_never_answered_ends_as_unknown() {
    let commands: [&[&str]; 4] = [
        &["set", "agent", "--max-unavailable=2"],
        &["pause", "agent"],
        &["restart", "agent"],
        &["partition", "agent", "1", "--image=agent=agent:2"],
    ];
    thread::scope(|scope| {
        for (arguments, answers_reads) in commands.iter().flat_map(|command| [(*command, true), (*command, false)]) {
            scope.spawn(move || {
                let is_silent = AtomicBool::new(false);
                let (ended, took) = run(arguments, 3 * SILENCE, move |asked| {
                    is_silent.fetch_or(is_change(asked), Ordering::SeqCst);
                    is_change(asked) || is_silent.load(Ordering::SeqCst) && !answers_reads
                });
                assert_eq!(ended.code, Some(7), "{arguments:?}: {}", ended.err);
                assert!(ended.err.contains("it is not known whether the change was applied"), "{}", ended.err);
                assert!(ended.err.contains("still waiting for the API server (40s)"), "{}", ended.err);
                assert!(took > SILENCE && took < SILENCE + REREAD, "{arguments:?}: {took:?}");
            });
        }
    });
}

#[test]
fn a_change_that_is_not_answered_within_its_timeout_ends_as_unknown() {
    let commands: [&[&str]; 3] = [
        &["set", "agent", "--max-unavailable=2", "--timeout=2s"],
        &["pause", "agent", "--timeout=2s"],
        &["restart", "agent", "--timeout=2s"],
    ];
    thread::scope(|scope| {
        for arguments in commands {
            scope.spawn(move || {
                let cluster = Cluster::new();
                let server = Server::start(move |asked| {
                    if is_change(asked) {
                        thread::sleep(SILENCE);
                    }
                    cluster.answer(asked)
                });
                let start = Instant::now();
                let ended = end(kubectl_ds(&on(&server, arguments)), None);
                assert_eq!(ended.code, Some(7), "{arguments:?}: {}", ended.err);
                assert!(ended.err.contains("the API server has not answered the change within 2s"), "{}", ended.err);
                assert!(ended.err.contains("it is not known whether the change was applied"), "{}", ended.err);
                assert!(start.elapsed() < SILENCE / 2, "{arguments:?}: {:?}", start.elapsed());
            });
        }
    });
}

/// Whoever has to roll back by hand must learn that soon.
#[test]
fn a_rollback_does_not_wait_for_a_silent_server_for_ever() {
    let (cluster, clock) = (Cluster::new(), FastClock::default());
    let server = Server::start({
        let (cluster, clock, is_stopped) = (cluster.clone(), clock.clone(), AtomicBool::new(false));
        move |asked| {
            let is_stop = asked.method == "POST" && String::from_utf8_lossy(&asked.body).contains("Stopped");
            is_stopped.fetch_or(is_stop, Ordering::SeqCst);
            if is_stopped.load(Ordering::SeqCst) && asked.path().ends_with("/daemonsets/agent") {
                clock.sleep(2 * SILENCE);
            }
            cluster.answer(asked)
        }
    });
    let stage = ["partition", "agent", "0", "--image=agent=agent:2", "--verify=false", "--on-failure=undo"];
    let (ended, took) = run_fast(&on(&server, &stage), &clock);
    assert_eq!((ended.code, cluster.is_suspended()), (Some(6), true), "{} {}", ended.out, ended.err);
    // Which of two limits ends it depends on the machine.
    let says_why =
        ["no answer came within", "the API server does not answer"].iter().any(|why| ended.err.contains(why));
    assert!(ended.err.contains(STILL_WAITING) && says_why, "{}", ended.err);
    assert!(
        ended.err.contains("the stage is not rolled back") && ended.err.contains("kubectl ds status"),
        "{}",
        ended.err
    );
    assert!(took < SILENCE + REREAD, "{took:?}");
}
