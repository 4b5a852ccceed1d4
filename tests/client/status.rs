//! `status --watch`: what is written during a rollout, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kubectl_ds::model::metadata::OwnerReference;
use kubectl_ds::model::pod::{Pod, PodCondition, PodStatus};
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::watching::Watches;
use super::{JSON, cluster, daemon_set, json_list, node, pod, protobuf_list, refusal};
use crate::screens::{Ended, kubectl_ds};
use crate::support::in_process::{FastClock, run_fast};

pub(crate) const PODS: &str = "/api/v1/namespaces/team/pods";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/team/daemonsets";

/// A pod of the current revision that has been unready, or ready, since long ago.
pub(super) fn current_pod(ready: bool) -> Pod {
    let mut pod = pod("agent-a", "agent", "n1");
    pod.metadata.owner_references[0] = OwnerReference {
        kind: "DaemonSet".to_owned(),
        name: "agent".to_owned(),
        ..pod.metadata.owner_references[0].clone()
    };
    for (key, value) in [("app", "agent"), ("controller-revision-hash", "new")] {
        pod.metadata.labels.insert(key.to_owned(), value.to_owned());
    }
    let condition = PodCondition {
        type_: "Ready".to_owned(),
        status: if ready { "True" } else { "False" }.to_owned(),
        last_transition_time: "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().into(),
        ..PodCondition::default()
    };
    pod.status = PodStatus { phase: "Running".to_owned(), conditions: vec![condition], ..PodStatus::default() };
    pod
}

/// A revision of the DaemonSet, without its template.
pub(super) fn revision(hash: &str, number: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {"name": format!("agent-{hash}"), "namespace": "team", "uid": format!("revision-{hash}"), "resourceVersion": "41",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "agent", "controller-revision-hash": hash},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                "uid": "uid-of-agent", "controller": true}]},
    })
}

/// A cluster with one node, whose pod is not ready.
pub(super) fn rollout(asked: &Asked) -> Reply {
    match asked.path() {
        "/api/v1/nodes" => protobuf_list("NodeList", &[node("n1")], ""),
        PODS => protobuf_list("PodList", &[current_pod(false)], ""),
        path if path.ends_with("/controllerrevisions") => json_list(path, &[revision("new", 7)]),
        _ => cluster(asked),
    }
}

/// The watch of the pods says that the rollout is complete, and that of the DaemonSet is silent: its template has changed.
#[test]
fn a_rollout_is_complete_only_if_it_still_is_when_everything_is_read_again() {
    let is_changed = Arc::new(AtomicBool::new(false));
    let is_read = is_changed.clone();
    let following = Following::with("status", &["team/agent"], move |asked| {
        let is_list = asked.path() == DAEMON_SETS && !asked.target.contains("watch=true");
        (is_list && is_read.load(Ordering::Relaxed)).then(|| {
            let mut changed = daemon_set("agent");
            changed["metadata"]["generation"] = json!(9);
            json_list(DAEMON_SETS, &[changed])
        })
    });
    let mut running = following.start(&["--timeout", "5s"]);
    running.read_line();
    is_changed.store(true, Ordering::Relaxed);
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!(code, Some(4), "{lines:#?} {err}");
    // It was read again, and nothing was called complete before.
    assert!(lines.iter().any(|line| line.contains("is not observed yet")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("complete")), "{lines:#?}");
}

#[test]
fn a_rollout_that_cannot_be_read_again_is_not_called_complete() {
    let fails = Arc::new(AtomicBool::new(false));
    let fails_now = fails.clone();
    let following = Following::with("status", &["team/agent"], move |asked| {
        let is_list = asked.path() == PODS && !asked.target.contains("watch=true");
        (is_list && fails_now.load(Ordering::Relaxed)).then(|| refusal(500, "InternalError", "etcd is down"))
    });
    let mut running = following.start(&["--timeout", "4s"]);
    running.read_line();
    fails.store(true, Ordering::Relaxed);
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!(code, Some(5), "{lines:#?} {err}");
    assert!(err.contains("warning: not confirmed to be done: ") && err.contains("could not be confirmed"), "{err}");
}

/// The events that were sent, by path: a list that is read after them has their objects, unless they were deleted.
type Sent = Arc<Mutex<Vec<(String, Value, bool)>>>;

/// Returns a list with the objects that were sent; `None` if none was.
fn sent_list(sent: &Sent, asked: &Asked) -> Option<Reply> {
    let is_list = !["watch=true", "limit=1"].iter().any(|other| asked.target.contains(other));
    let (mut items, mut is_sent): (Vec<Value>, bool) = (Vec::new(), false);
    for (_, object, is_deleted) in sent.lock().unwrap().iter().filter(|(path, ..)| is_list && path == asked.path()) {
        items.retain(|item| item["metadata"]["name"] != object["metadata"]["name"]);
        items.extend((!is_deleted).then(|| object.clone()));
        is_sent = true;
    }
    is_sent.then(|| {
        let mut list: Value = serde_json::from_slice(&json_list(asked.path(), &items).body).unwrap();
        list["metadata"]["resourceVersion"] = json!("1000");
        Reply::of(200, JSON, list.to_string())
    })
}

/// A command that follows a rollout.
pub(crate) struct Following {
    watches: Watches,
    sent: Sent,
    server: Server,
    arguments: Vec<String>,
}

impl Following {
    pub(crate) fn new() -> Self {
        Self::of("status", &["team/agent"])
    }

    /// Returns a command with arguments.
    pub(crate) fn of(command: &str, arguments: &[&str]) -> Self {
        Self::with(command, arguments, |_| None)
    }

    /// Returns a command whose requests are answered by a handler if it has an answer.
    pub(super) fn with(
        command: &str,
        arguments: &[&str],
        answer: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let (watches, sent) = (Watches::default(), Sent::default());
        let server = Server::start({
            let (watches, sent) = (watches.clone(), sent.clone());
            let follow = move |asked: &Asked| watches.answer_or(asked, rollout);
            move |asked| answer(asked).or_else(|| sent_list(&sent, asked)).unwrap_or_else(|| follow(asked))
        });
        let arguments = [&[command], arguments].concat().iter().map(|argument| (*argument).to_owned()).collect();
        Following { watches, sent, server, arguments }
    }

    /// Returns the arguments with some flags.
    fn line(&self, flags: &[&str]) -> Vec<String> {
        let server = format!("http://{}", self.server.address);
        let flags = ["--watch", "--server", &server].into_iter().chain(flags.iter().copied()).map(str::to_owned);
        self.arguments.iter().cloned().chain(flags).collect()
    }

    /// Returns the command with some flags.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        kubectl_ds(&self.line(flags).iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs the command on a fast clock; returns how long it took by that clock, too.
    pub(super) fn run_fast(&self, flags: &[&str]) -> (Ended, Duration) {
        run_fast(&self.line(flags), &FastClock::default())
    }

    /// Returns the queries of the watches of a path.
    pub(super) fn watched(&self, path: &str) -> Vec<String> {
        let asked = self.server.asked().into_iter();
        asked
            .map(|asked| asked.target)
            .filter(|target| target.starts_with(path) && target.contains("watch=true"))
            .collect()
    }

    /// Starts the command.
    pub(super) fn start(&self, flags: &[&str]) -> Running {
        let mut command = self.command(flags);
        Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn send(&self, path: &str, type_: &str, object: &Value) {
        self.watches.wait_for(path);
        self.sent.lock().unwrap().push((path.to_owned(), object.clone(), type_ == "DELETED"));
        self.watches.send(path, type_, object);
    }
}

pub(crate) fn ready_pod() -> Value {
    let mut object = serde_json::to_value(current_pod(true)).unwrap();
    object["metadata"]["resourceVersion"] = json!("50");
    object
}

/// A command that was started, and the lines that were read from it, without their times.
pub(super) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    lines: Vec<String>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out, lines: Vec::new() }
    }

    /// Waits for a line, and returns whether there was one.
    pub(super) fn read_line(&mut self) -> bool {
        let mut line = String::new();
        let is_line = self.out.read_line(&mut line).unwrap() > 0;
        if is_line {
            let is_time = |time: &str| format!("{time}Z").parse::<jiff::Timestamp>().is_ok();
            let line = line.trim_end();
            let rest = line.split_once("Z ").filter(|(time, _)| is_time(time)).map_or(line, |(_, rest)| rest);
            self.lines.push(rest.to_owned());
        }
        is_line
    }

    /// Returns the lines that were read.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Closes the command's standard output, and gives it something to write until it has ended. Once may not be enough: a client that
    /// begins another watch does not hear of what was sent on the one before.
    pub(super) fn close(self, write: impl Fn()) {
        let Running { mut child, out, .. } = self;
        drop(out);
        for _ in 0..120 {
            write();
            thread::sleep(Duration::from_millis(500));
            if child.try_wait().unwrap().is_some() {
                return;
            }
        }
        child.kill().unwrap();
        panic!("it goes on although nobody reads what it writes");
    }

    /// Interrupts the command, and returns the exit code, and what was written.
    #[cfg(unix)]
    pub(super) fn interrupt(self) -> (Option<i32>, Vec<String>, String) {
        let killed = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.end()
    }

    /// Returns the exit code, and what was written.
    pub(super) fn end(mut self) -> (Option<i32>, Vec<String>, String) {
        while self.read_line() {}
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), self.lines, err)
    }
}

const DEGRADED: &str = "team/agent is degraded: revision 7 is rolled out to 1 node; 1 unavailable";
pub(super) const COMPLETE: &str = "team/agent is complete: revision 7 is available on its only node";

#[test]
fn a_rollout_is_followed_to_its_end() {
    let following = Following::new();
    let mut running = following.start(&[]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{lines:#?}");
    assert!(lines.first().is_some_and(|line| line == DEGRADED), "{lines:#?}");
    assert!(lines[1].starts_with("team/agent: Unexplained on n1: "), "{lines:#?}");
    assert!(lines[2].starts_with(COMPLETE), "{lines:#?}");
    assert!(
        lines[3].starts_with("  followed for ") && lines[3].contains("1 node updated; slowest: n1 ("),
        "{lines:#?}"
    );
    assert_eq!(lines[4..], ["  failed: Unexplained on n1 (recovered)"]);
}

#[test]
fn with_json_each_change_is_an_object_on_a_line() {
    let following = Following::new();
    let mut running = following.start(&["-o", "json"]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, _) = running.end();
    let status = |line: &String| serde_json::from_str::<Value>(line).unwrap()["daemonSets"][0]["status"].clone();
    assert_eq!(
        (code, lines.iter().map(status).collect::<Vec<_>>()),
        (Some(0), vec![json!("Degraded"), json!("Healthy")])
    );
}

#[test]
fn a_rollout_that_stays_blocked_ends_the_watch_with_the_reason() {
    let following = Following::new();
    let (code, lines, _) = following.start(&["--fail-fast", "--blocked-for", "1s", "--progress", "none"]).end();
    assert_eq!((code, lines[0].as_str()), (Some(3), DEGRADED), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("Unexplained")), "{lines:#?}");
}

#[test]
fn a_rollout_that_lacks_what_is_not_accepted_ends_the_watch_after_the_time_that_is_given() {
    let following = Following::new();
    let (code, lines, _) = following.start(&["--accept", "cluster", "--blocked-for", "1s", "--progress", "none"]).end();
    assert_eq!((code, lines[0].as_str()), (Some(3), DEGRADED), "{lines:#?}");
    let (code, _, _) = Following::new().start(&["--accept", "fewer-nodes", "--blocked-for", "1s"]).end();
    assert_eq!(code, Some(3));
    // Nothing is accepted.
    for accept in [&[][..], &["--accept", "none"]] {
        let flags: Vec<&str> = ["--blocked-for", "1s"].iter().chain(accept).copied().collect();
        let (code, _, err) = Following::new().start(&flags).end();
        let expected = "error: --blocked-for needs --fail-fast or --accept\n";
        assert_eq!((code, err.as_str()), (Some(2), expected));
    }
}

/// Its events are lost, and all else is as it should be.
#[test]
fn a_watch_that_says_nothing_blocks_no_rollout() {
    for flags in [&["--fail-fast", "--blocked-for", "1s"][..], &["--timeout", "60s"]] {
        let lists = AtomicUsize::new(0);
        let following = Following::with("status", &["team/agent"], move |asked| {
            let is_list = asked.path() == PODS && !asked.target.contains("watch=true");
            let is_later = is_list && !asked.target.contains("limit=1") && lists.fetch_add(1, Ordering::SeqCst) > 0;
            is_later.then(|| protobuf_list("PodList", &[current_pod(true)], ""))
        });
        let (code, lines, err) = following.start(flags).end();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{flags:?} {lines:#?}");
    }
}

#[test]
fn a_watch_ends_after_its_timeout() {
    let following = Following::new();
    let (code, lines, err) = following.start(&["--timeout", "4s"]).end();
    assert_eq!((code, lines[0].as_str()), (Some(4), DEGRADED));
    assert_eq!(
        err,
        "error: timed out: not every rollout is done\nhint: team/agent is degraded and does not go on by itself\n"
    );
}

#[test]
fn a_timeout_of_zero_is_no_limit() {
    let following = Following::new();
    let mut running = following.start(&["--timeout", "0"]);
    running.read_line();
    thread::sleep(Duration::from_millis(1500));
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{lines:#?}");
}

#[test]
fn a_daemon_set_that_is_deleted_ends_the_watch() {
    let following = Following::new();
    let mut running = following.start(&[]);
    running.read_line();
    let mut deleted = daemon_set("agent");
    deleted["metadata"]["resourceVersion"] = json!("50");
    following.send(DAEMON_SETS, "DELETED", &deleted);
    let (code, _, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(1), "error: DaemonSet team/agent was deleted while it was watched\n"));
}

/// A proxy may send an event about another object of that name, or an old one again.
#[test]
fn a_daemon_set_that_can_still_be_read_was_not_deleted() {
    let following = Following::new();
    let mut running = following.start(&[]);
    running.read_line();
    let mut deleted = daemon_set("agent");
    deleted["metadata"]["resourceVersion"] = json!("50");
    following.watches.wait_for(DAEMON_SETS);
    following.watches.send(DAEMON_SETS, "DELETED", &deleted);
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{lines:#?}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_watch_leaves_the_last_state() {
    let following = Following::new();
    let mut running = following.start(&[]);
    running.read_line();
    let (code, lines, err) = running.interrupt();
    assert_eq!(code, Some(130), "{lines:#?}");
    // The line, and the screen.
    assert_eq!(lines.iter().filter(|line| *line == DEGRADED).count(), 2, "{lines:#?}");
    assert_eq!(err, "error: interrupted\nhint: team/agent is degraded and does not go on by itself\n");
}

#[test]
fn a_daemon_set_that_is_recreated_ends_the_watch() {
    let following = Following::new();
    let mut running = following.start(&[]);
    running.read_line();
    let mut other = daemon_set("agent");
    other["metadata"]["resourceVersion"] = json!("50");
    other["metadata"]["uid"] = json!("another");
    following.send(DAEMON_SETS, "MODIFIED", &other);
    let (code, _, err) = running.end();
    let expected = "error: DaemonSet team/agent was deleted and recreated while it was watched\n";
    assert_eq!((code, err.as_str()), (Some(1), expected));
}

/// A DaemonSet can be read by its name, and the list that a watch begins with answers something else.
#[test]
fn a_daemon_set_that_cannot_be_followed_ends_the_watch() {
    let with_list = |command: &str, list: Reply| {
        let answer = move |asked: &Asked| (asked.path() == DAEMON_SETS).then(|| list.clone());
        let (code, lines, err) = Following::with(command, &["team/agent"], answer).start(&[]).end();
        assert_eq!(lines, Vec::<String>::new());
        (code, err)
    };
    for command in ["status", "list", "changes"] {
        let (code, err) = with_list(command, refusal(403, "Forbidden", "no"));
        assert_eq!(code, Some(1), "{command}: {err}");
        let expected = "error: DaemonSets cannot be followed\nhint: this needs the permission to list daemonsets";
        assert!(err.starts_with(expected), "{command}: {err}");
    }
    let (code, err) = with_list("status", json_list(DAEMON_SETS, &[]));
    assert_eq!((code, err.as_str()), (Some(1), "error: DaemonSet agent was deleted while it was watched\n"));
}

#[test]
fn what_stays_unknown_ends_the_watch_with_a_code_of_its_own() {
    let forbidden = |asked: &Asked| (asked.path() == "/api/v1/nodes").then(|| refusal(403, "Forbidden", "no"));
    let (code, _, err) = Following::with("status", &["team/agent"], forbidden).start(&[]).end();
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("error: the answer is partial: whether every rollout is complete is not known"), "{err}");
    let nothing = |asked: &Asked| match asked.path() {
        DAEMON_SETS => Some(json_list(DAEMON_SETS, &[])),
        "/api/v1/namespaces/team" => {
            Some(Reply::of(200, "application/json", json!({"metadata": {"name": "team"}}).to_string()))
        }
        _ => None,
    };
    let (code, _, err) = Following::with("status", &["-n", "team"], nothing).start(&[]).end();
    assert_eq!((code, err.starts_with("error: no DaemonSets found")), (Some(1), true), "{err}");
}

#[test]
fn what_may_not_be_watched_is_said_and_listed_again() {
    let lists = AtomicUsize::new(0);
    let following =
        Following::with("status", &["team/agent"], move |asked| match asked.target.contains("watch=true") {
            true if asked.path() == PODS => Some(refusal(403, "Forbidden", "no")),
            false if asked.path() == PODS && lists.fetch_add(1, Ordering::SeqCst) > 0 => {
                Some(protobuf_list("PodList", &[current_pod(true)], ""))
            }
            _ => None,
        });
    let (code, lines, err) = following.start(&[]).end();
    assert_eq!((code, err.as_str()), (Some(0), "warning: watch pods is forbidden: listing every 5s\n"), "{lines:#?}");
}

#[test]
fn credentials_that_are_refused_for_a_while_do_not_end_the_watch() {
    let refused = AtomicUsize::new(0);
    let following = Following::with("status", &["team/agent"], move |asked| {
        let is_watch = asked.path() == PODS && asked.target.contains("watch=true");
        (is_watch && refused.fetch_add(1, Ordering::SeqCst) < 2).then(|| refusal(401, "Unauthorized", "expired"))
    });
    let mut running = following.start(&[]);
    running.read_line();
    following.send(PODS, "MODIFIED", &ready_pod());
    let (code, lines, err) = running.end();
    assert_eq!(code, Some(0), "{lines:#?} {err}");
    assert!(err.contains("You must be logged in") && err.contains("what follows may be out of date"), "{err}");
}

#[test]
fn credentials_that_stay_rejected_end_the_watch() {
    let rejected = |asked: &Asked| {
        (asked.path() == PODS && asked.target.contains("watch=true")).then(|| refusal(401, "Unauthorized", "expired"))
    };
    for command in ["status", "list"] {
        let (code, lines, err) = Following::with(command, &["team/agent"], rejected).start(&[]).end();
        assert_eq!(code, Some(1), "{lines:#?} {err}");
        assert!(err.contains("\nerror: You must be logged in"), "{err}");
    }
}

#[test]
fn a_server_that_does_not_answer_a_list_ends_the_watch_after_its_timeout() {
    let silent = |asked: &Asked| {
        if asked.path() == PODS {
            thread::sleep(Duration::from_secs(20));
        }
        None
    };
    let (code, _, err) = Following::with("status", &["team/agent"], silent).start(&["--timeout", "1s"]).end();
    assert_eq!(
        (code, err.as_str()),
        (Some(4), "error: timed out: the server has not answered in time\nhint: the rollouts continue\n")
    );
}

#[test]
fn a_revision_that_does_not_exist_is_not_awaited() {
    let (code, _, err) = Following::new().start(&["--to-revision", "9"]).end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.starts_with("error: no revision 9 of ") && err.contains("its revisions are 7"), "{err}");
    // One that the controller has yet to create is.
    let unobserved = |asked: &Asked| {
        let mut daemon_set = daemon_set("agent");
        daemon_set["metadata"]["generation"] = json!(5);
        match asked.path() {
            DAEMON_SETS => Some(json_list(DAEMON_SETS, &[daemon_set])),
            _ => None,
        }
    };
    let following = Following::with("status", &["team/agent"], unobserved);
    let (code, _, err) = following.start(&["--to-revision", "9", "--timeout", "1s"]).end();
    assert_eq!(code, Some(4), "{err}");
}

/// A revision that is rolled back to gets the highest number.
#[test]
fn a_revision_that_will_not_be_current_is_not_awaited() {
    let with_former = |asked: &Asked| {
        let mut former = revision("former", 3);
        let template =
            json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "old"}]}});
        former["data"] = json!({"spec": {"template": template}});
        asked.path().ends_with("/controllerrevisions").then(|| json_list(asked.path(), &[former, revision("new", 7)]))
    };
    for flags in [&[][..], &["--fail-fast"]] {
        let following = Following::with("status", &["team/agent"], with_former);
        let (code, out, err) = following.start(&[&["--to-revision", "3", "--timeout", "20s"], flags].concat()).end();
        assert_eq!(code, Some(3), "{out:#?} {err}");
        assert!(out.iter().any(|line| line.contains("revision 3 is not the current revision")), "{out:#?} {err}");
    }
    let forbidden = |asked: &Asked| {
        let is_list = asked.path().ends_with("/controllerrevisions");
        is_list.then(|| refusal(403, "Forbidden", "controllerrevisions.apps is forbidden"))
    };
    let following = Following::with("status", &["team/agent"], forbidden);
    let (code, out, err) = following.start(&["--to-revision", "3", "--timeout", "20s"]).end();
    assert_eq!(code, Some(5), "{out:#?} {err}");
}

/// No watch shows the pods of others, so they are read when a rollout seems to stand still, and kept while others go on.
#[test]
fn a_node_where_everything_else_fails_is_accepted_until_the_other_rollouts_are_done() {
    let followed = |others_fail: bool| {
        let now = jiff::Timestamp::now();
        let of = |name: &str, owner: &str, node: &str, ready: bool, since: &str| -> Pod {
            let is_crashing = owner == "agent" && !ready;
            let state = if is_crashing { json!({"waiting": {"reason": "CrashLoopBackOff"}}) } else { json!({}) };
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": since,
                    "labels": {"app": owner, "controller-revision-hash": "new"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner,
                        "uid": format!("uid-of-{owner}"), "controller": true}]},
                "spec": {"nodeName": node, "containers": [{"name": "c"}]},
                "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": ready, "restartCount": 5, "state": state}],
                    "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                        "lastTransitionTime": since}]},
            }))
            .unwrap()
        };
        let (long_ago, before) = ("2026-01-01T00:00:00Z", "2025-12-01T00:00:00Z");
        let own = [
            of("agent-a", "agent", "n1", false, long_ago),
            of("agent-b", "agent", "n2", true, long_ago),
            of("agent-c", "agent", "n3", true, long_ago),
            of("late-a", "late", "n3", false, &now.to_string()),
        ];
        let others = [of("web-a", "web", "n1", !others_fail, before), of("web-b", "web", "n1", !others_fail, before)];
        let mut late = daemon_set("late");
        late["spec"]["template"]["spec"] = json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}]}}}});
        let revision = move |owner: &str| {
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 7,
                "metadata": {"name": format!("{owner}-new"), "namespace": "team", "uid": format!("revision-{owner}"),
                    "creationTimestamp": long_ago, "labels": {"app": owner, "controller-revision-hash": "new"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner,
                        "uid": format!("uid-of-{owner}"), "controller": true}]}})
        };
        let ready = serde_json::to_value(of("late-a", "late", "n3", true, long_ago)).unwrap();
        let [first, second, third, _] = &own;
        let later = [first.clone(), second.clone(), third.clone(), of("late-a", "late", "n3", true, long_ago)];
        let is_later = Arc::new(AtomicBool::new(false));
        let is_read_later = is_later.clone();
        let following = Following::with("status", &["-n", "team"], move |asked| {
            let is_watch = asked.target.contains("watch=true");
            match asked.path() {
                _ if is_watch => None,
                PODS if is_read_later.load(Ordering::Relaxed) => Some(protobuf_list("PodList", &later, "")),
                "/api/v1/nodes" => Some(protobuf_list("NodeList", &["n1", "n2", "n3"].map(node), "")),
                DAEMON_SETS => Some(json_list(DAEMON_SETS, &[daemon_set("agent"), late.clone()])),
                PODS => Some(protobuf_list("PodList", &own, "")),
                "/api/v1/pods" if asked.target.contains("nodeName%3Dn1") => {
                    Some(protobuf_list("PodList", &[&others[..], &own[..1]].concat(), ""))
                }
                "/api/v1/pods" => Some(protobuf_list("PodList", &[] as &[Pod], "")),
                path if path.ends_with("/controllerrevisions") => {
                    Some(json_list(path, &["agent", "late"].map(revision)))
                }
                _ => None,
            }
        });
        let mut running = following.start(&["--accept", "node", "--fail-fast", "--blocked-for", "1s"]);
        while !running.lines.iter().any(|line| line.contains("counts as complete")) && running.read_line() {}
        thread::sleep(Duration::from_secs(3));
        if others_fail {
            let mut ready = ready;
            ready["metadata"]["resourceVersion"] = json!("50");
            is_later.store(true, Ordering::Relaxed);
            following.send(PODS, "MODIFIED", &ready);
        }
        running.end()
    };
    let (code, lines, err) = followed(true);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{lines:#?}");
    let accepted =
        "team/agent counts as complete: revision 7 is available on 2 of 3 nodes; accepted: 1 node (node: n1)";
    let of_agent = |line: &&String| line.starts_with("team/agent ");
    let of_agent: Vec<&String> = lines.iter().filter(of_agent).collect();
    assert_eq!(of_agent.len(), 2, "{lines:#?}");
    assert!(of_agent[1].starts_with(accepted), "{lines:#?}");
    let (code, lines, _) = followed(false);
    assert_eq!(code, Some(3), "{lines:#?}");
}
