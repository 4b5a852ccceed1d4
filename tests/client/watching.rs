//! Watches: how a store handles events, and broken connections.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use kubectl_ds::cluster::Query;
use kubectl_ds::cluster::live::{Live, Watch};
use kubectl_ds::model::snapshot::{Kind, Snapshot};
use serde_json::{Value, json};

use super::server::{Asked, Reply, Server};
use super::{
    JSON, agent, all, block_on, cluster, daemon_set, json_list, json_node, live, live_at, options, pod, protobuf_list,
    refusal,
};
use crate::support::shown;

/// How long a test may take that normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);

const PODS: &str = "/api/v1/namespaces/team/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/team/daemonsets";

/// Answers watches with connections that stay open, and keeps their senders by path; all else is `cluster`.
#[derive(Clone, Default)]
pub(super) struct Watches(Arc<Mutex<Vec<OpenWatch>>>);

/// The path of a watch, and what its events are sent by.
type OpenWatch = (String, Sender<Vec<u8>>);

impl Watches {
    /// Starts a server of `cluster`.
    fn serve() -> (Self, Server) {
        let watches = Watches::default();
        let server = Server::start({
            let watches = watches.clone();
            move |asked| watches.answer(asked)
        });
        (watches, server)
    }

    fn answer(&self, asked: &Asked) -> Reply {
        self.answer_or(asked, cluster)
    }

    pub(super) fn answer_or(&self, asked: &Asked, list: impl Fn(&Asked) -> Reply) -> Reply {
        match is_watch(asked) {
            true => {
                let (reply, sender) = Reply::open(JSON);
                self.0.lock().unwrap().push((asked.path().to_owned(), sender));
                reply
            }
            false if is_version(asked) => {
                let text = String::from_utf8(json_list(asked.path(), &[]).body).unwrap();
                Reply::of(200, JSON, text.replace(r#""metadata":{}"#, r#""metadata":{"resourceVersion":"1000"}"#))
            }
            false => list(asked),
        }
    }

    /// Waits until a path is watched.
    pub(super) fn wait_for(&self, path: &str) {
        while !self.0.lock().unwrap().iter().any(|(watched, _)| watched == path) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends an event to the last watch of a path.
    pub(super) fn send(&self, path: &str, type_: &str, object: &Value) {
        let watches = self.0.lock().unwrap();
        let (_, sender) = watches.iter().rev().find(|(watched, _)| watched == path).expect("a watch");
        sender.send(format!("{}\n", json!({"type": type_, "object": object})).into_bytes()).unwrap();
    }

    /// Waits until so many watches of a path were opened.
    async fn opened(&self, watch: &mut Watch<'_>, path: &str, count: usize) {
        while self.0.lock().unwrap().iter().filter(|(watched, _)| watched == path).count() < count {
            let _ = tokio::time::timeout(Duration::from_millis(20), watch.changed()).await;
        }
    }
}

fn is_watch(asked: &Asked) -> bool {
    asked.target.contains("watch=true")
}

/// Returns whether a request asks for the version of a list, and not for its objects.
fn is_version(asked: &Asked) -> bool {
    asked.target.contains("limit=1")
}

fn pod_object(name: &str, owner: &str, node: &str, version: u32) -> Value {
    let mut object = serde_json::to_value(pod(name, owner, node)).unwrap();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object["metadata"]["labels"] = json!({"app": owner});
    object
}

fn lease(version: u32) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-controller-manager",
        "namespace": "kube-system", "resourceVersion": version.to_string()}, "spec": {"leaseDurationSeconds": version}})
}

fn pods(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
}

fn nodes(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.iter().map(|node| node.metadata.name.as_str()).collect()
}

/// Starts to watch one DaemonSet, and runs a test.
fn watching(server: &Server, query: Query, test: impl AsyncFnOnce(&mut Watch<'_>)) {
    block_on(async {
        let live: Live = live(&options(server)).await.unwrap();
        let mut watch = live.watch(query).await.unwrap();
        tokio::time::timeout(PATIENCE, test(&mut watch)).await.expect("the test ends");
    });
}

fn lists(server: &Server, path: &str) -> usize {
    let is_list = |asked: &&Asked| asked.path() == path && !is_watch(asked) && !is_version(asked);
    server.asked().iter().filter(is_list).count()
}

fn watched_versions(server: &Server, path: &str) -> Vec<String> {
    let version = |asked: &Asked| asked.target.split("resourceVersion=").nth(1).unwrap_or_default().to_owned();
    server.asked().iter().filter(|asked| asked.path() == path && is_watch(asked)).map(version).collect()
}

/// Nothing else tells for a while: what has changed meanwhile does not arrive by a connection that has not outlived it.
#[test]
fn watches_from_before_the_machine_was_asleep_are_opened_again() {
    static NOW: AtomicI64 = AtomicI64::new(1_000_000);
    let (watches, server) = Watches::serve();
    block_on(async {
        let clock = || Timestamp::from_second(NOW.load(Ordering::Relaxed)).unwrap();
        let live: Live = live_at(&options(&server), clock).await.unwrap();
        let mut watch = live.watch(agent()).await.unwrap();
        let test = async {
            // What is watched only afterwards has not been asleep.
            watches.opened(&mut watch, PODS, 1).await;
            watches.opened(&mut watch, LEASES, 1).await;
            NOW.fetch_add(3_600, Ordering::Relaxed);
            watches.opened(&mut watch, PODS, 2).await;
            // How long they are stale in between depends on the machine that tests.
            while watch.staleness().is_some() || watch.snapshot().await.reachable_since.is_none() {
                watch.changed().await;
            }
            watch.snapshot().await.reachable_since
        };
        let reachable_since = tokio::time::timeout(PATIENCE, test).await.expect("the test ends");
        assert_eq!(reachable_since.map(Timestamp::as_second), Some(1_003_600));
    });
}

#[test]
fn events_change_the_snapshot_and_nothing_else_is_read() {
    let (watches, server) = Watches::serve();
    watching(&server, agent(), async |watch| {
        assert_eq!(pods(watch.snapshot().await), ["agent-a"]);
        assert_eq!(watch.snapshot().await.now.to_string(), "2026-11-21T12:00:00Z");
        watches.opened(watch, PODS, 1).await;
        watches.send(PODS, "ADDED", &pod_object("agent-b", "agent", "n2", 43));
        watch.changed().await;
        assert_eq!(pods(watch.snapshot().await), ["agent-a", "agent-b"]);
        watches.send(PODS, "DELETED", &pod_object("agent-a", "agent", "n1", 44));
        watch.changed().await;
        assert_eq!(pods(watch.snapshot().await), ["agent-b"]);
        // A pod that is no longer one of the DaemonSet's.
        watches.send(PODS, "MODIFIED", &pod_object("agent-b", "other", "n2", 45));
        watch.changed().await;
        assert_eq!(pods(watch.snapshot().await), Vec::<&str>::new());
    });
    assert_eq!((lists(&server, PODS), watched_versions(&server, PODS)), (1, vec!["42".to_owned()]));
    let asked = server.asked();
    let watch = asked.iter().find(|asked| asked.path() == PODS && is_watch(asked)).unwrap();
    assert!(watch.target.contains("allowWatchBookmarks=true&") && watch.target.contains("labelSelector=app%3Dagent"));
}

/// A connection hands over one event at a time.
#[test]
fn a_snapshot_has_all_events_that_have_arrived() {
    let (watches, server) = Watches::serve();
    watching(&server, agent(), async |watch| {
        watches.opened(watch, PODS, 1).await;
        for number in 0..300 {
            watches.send(PODS, "ADDED", &pod_object(&format!("agent-{number}"), "agent", "n2", 43 + number));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(pods(watch.snapshot().await).len(), 301);
    });
}

#[test]
fn a_broken_watch_goes_on_from_the_last_version() {
    let watches = Watches::default();
    let broken = AtomicUsize::new(0);
    let (start, started) = channel();
    let started = Mutex::new(started);
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.path() == PODS && is_watch(asked) {
            true => match broken.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    started.lock().unwrap().recv().unwrap();
                    let added = json!({"type": "ADDED", "object": pod_object("agent-b", "agent", "n2", 43)});
                    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "50"}}});
                    Reply { cut: true, ..Reply::of(200, JSON, format!("{added}\n{bookmark}\n{{")) }
                }
                1 => refusal(500, "InternalError", "etcd is away"),
                2 => Reply::of(200, JSON, ""),
                3 => refusal(429, "TooManyRequests", "later"),
                _ => watches.answer(asked),
            },
            false => watches.answer(asked),
        }
    });
    let mut failures = Vec::new();
    watching(&server, agent(), async |watch| {
        start.send(()).unwrap();
        while failures.len() < 2 || watch.failure().is_some() {
            watch.changed().await;
            failures.extend(watch.failure().map(|error| shown(error.clone())));
            assert_eq!(pods(watch.snapshot().await).first(), Some(&"agent-a"), "what is known stays known");
        }
        watches.opened(watch, PODS, 1).await;
        watches.send(PODS, "ADDED", &pod_object("agent-c", "agent", "n2", 51));
        watch.changed().await;
        assert_eq!(pods(watch.snapshot().await), ["agent-a", "agent-b", "agent-c"]);
        assert_eq!(watch.failure(), None);
    });
    assert_eq!(lists(&server, PODS), 1);
    assert_eq!(watched_versions(&server, PODS), ["42", "50", "50", "50", "50"]);
    assert!(failures[0].contains("was lost in the answer to watch pods"), "{failures:?}");
    assert!(failures[1].contains("etcd is away"), "{failures:?}");
}

#[test]
fn a_list_that_is_older_than_what_is_known_is_not_believed() {
    let watches = Watches::default();
    let listed = AtomicUsize::new(0);
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match (asked.path(), is_watch(asked)) {
            (PODS, true) if listed.load(Ordering::SeqCst) == 1 => refusal(410, "Expired", "too old resource version"),
            (PODS, false) => {
                let list = |version: &str, items: &[Value]| {
                    let metadata = json!({"resourceVersion": version});
                    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items});
                    Reply::of(200, JSON, list.to_string())
                };
                let (first, second) =
                    (pod_object("agent-a", "agent", "n1", 42), pod_object("agent-b", "agent", "n2", 60));
                match listed.fetch_add(1, Ordering::SeqCst) {
                    0 => list("50", &[first]),
                    // Of a replica that lags behind.
                    1 | 2 => list("42", &[]),
                    _ => list("60", &[first, second]),
                }
            }
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        let mut seen = vec![pods(watch.snapshot().await).len()];
        while seen.last() != Some(&2) {
            watch.changed().await;
            seen.push(pods(watch.snapshot().await).len());
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    });
    assert_eq!(lists(&server, PODS), 4);
}

#[test]
fn a_version_that_is_gone_is_listed_again() {
    for as_event in [false, true] {
        let watches = Watches::default();
        let listed = AtomicUsize::new(0);
        let (start, started) = channel();
        let started = Mutex::new(started);
        let server = Server::start({
            let watches = watches.clone();
            move |asked| match (asked.path(), is_watch(asked)) {
                (PODS, true) if listed.load(Ordering::SeqCst) == 1 => {
                    started.lock().unwrap().recv().unwrap();
                    if as_event {
                        let status = String::from_utf8(refusal(410, "Expired", "too old").body).unwrap();
                        let status: Value = serde_json::from_str(&status).unwrap();
                        Reply::of(200, JSON, format!("{}\n", json!({"type": "ERROR", "object": status})))
                    } else {
                        refusal(410, "Expired", "too old resource version")
                    }
                }
                (PODS, false) if listed.fetch_add(1, Ordering::SeqCst) == 1 => {
                    protobuf_list("PodList", &[pod("agent-z", "agent", "n1")], "")
                }
                _ => watches.answer(asked),
            }
        });
        watching(&server, agent(), async |watch| {
            assert_eq!(pods(watch.snapshot().await), ["agent-a"]);
            start.send(()).unwrap();
            watch.changed().await;
            assert_eq!(pods(watch.snapshot().await), ["agent-z"]);
        });
        assert_eq!(lists(&server, PODS), 2);
    }
}

/// Its holder renews it every other second: either it does not, or nothing comes through.
#[test]
fn a_lease_of_which_nothing_is_heard_is_listed_again() {
    let (watches, server) = Watches::serve();
    watching(&server, agent(), async |watch| {
        watches.opened(watch, LEASES, 1).await;
        let before = lists(&server, LEASES);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(21)).await;
        tokio::time::resume();
        while lists(&server, LEASES) == before {
            let _ = tokio::time::timeout(Duration::from_millis(20), watch.changed()).await;
        }
        assert_eq!(lists(&server, PODS), 1);
    });
}

#[test]
fn a_quiet_watch_is_not_cut_off() {
    let watches = Watches::default();
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.path().ends_with("/leases") {
            true if !is_watch(asked) => super::json_list(asked.path(), &[]),
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        for (path, count) in [
            (PODS, 1),
            ("/api/v1/nodes", 1),
            (DAEMON_SETS, 1),
            ("/apis/apps/v1/namespaces/team/controllerrevisions", 1),
            ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", 1),
            ("/api/v1/namespaces/team/events", 2),
        ] {
            watches.opened(watch, path, count).await;
        }
        let before = server.asked().len();
        for version in 50..58 {
            tokio::time::pause();
            tokio::time::timeout(Duration::from_secs(10), watch.changed()).await.unwrap_err();
            tokio::time::resume();
            watches.send(LEASES, "MODIFIED", &lease(version));
            let has = |snapshot: &Snapshot| {
                snapshot.leases.iter().any(|lease| lease.spec.lease_duration_seconds == Some(version.into()))
            };
            while !has(watch.snapshot().await) {
                let _ = tokio::time::timeout(Duration::from_millis(20), watch.changed()).await;
            }
        }
        watches.send(PODS, "ADDED", &pod_object("agent-b", "agent", "n2", 43));
        watch.changed().await;
        assert_eq!(pods(watch.snapshot().await), ["agent-a", "agent-b"]);
        assert_eq!(server.asked().len(), before, "{:?}", server.asked().split_off(before));
    });
}

/// A proxy that buffers: not even the bookmarks arrive that the API server sends once a minute.
#[test]
fn what_a_silent_watch_is_about_is_listed_instead() {
    let watches = Watches::default();
    let listed = AtomicUsize::new(0);
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match (asked.path(), is_watch(asked) || is_version(asked)) {
            (PODS, false) if listed.fetch_add(1, Ordering::SeqCst) > 0 => {
                protobuf_list("PodList", &[pod("agent-z", "agent", "n1")], "")
            }
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        for (path, count) in [(PODS, 1), ("/api/v1/nodes", 1), ("/api/v1/namespaces/team/events", 2)] {
            watches.opened(watch, path, count).await;
        }
        tokio::time::pause();
        tokio::time::timeout(Duration::from_secs(100), watch.changed()).await.unwrap();
        tokio::time::resume();
        while pods(watch.snapshot().await) != ["agent-z"] {
            watch.changed().await;
        }
        let unwatched = watch.unwatched();
        assert!(unwatched["watch pods"].to_string().contains("no answer came within 90 s"), "{unwatched:?}");
        // The API server sends no bookmarks to watches of events.
        assert!(!unwatched.contains_key("watch events"), "{unwatched:?}");
    });
}

#[test]
fn what_may_not_be_watched_is_reported_and_listed_again_and_again() {
    let watches = Watches::default();
    let listed = AtomicUsize::new(0);
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match (asked.path(), is_watch(asked)) {
            (PODS, true) => refusal(403, "Forbidden", "no"),
            (PODS, false) if listed.fetch_add(1, Ordering::SeqCst) > 0 => {
                protobuf_list("PodList", &[pod("agent-z", "agent", "n1")], "")
            }
            ("/api/v1/nodes", _) => refusal(403, "Forbidden", "no"),
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        assert_eq!(watch.snapshot().await.gaps.iter().map(|gap| gap.kind).collect::<Vec<_>>(), [Kind::Nodes]);
        watch.changed().await;
        assert_eq!(watch.unwatched().into_keys().collect::<Vec<_>>(), ["watch pods"]);
        while pods(watch.snapshot().await) != ["agent-z"] {
            watch.changed().await;
        }
        assert_eq!(watch.failure(), None);
    });
}

#[test]
fn a_daemon_set_that_is_recreated_is_followed_by_its_new_selector() {
    let watches = Watches::default();
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.path() {
            PODS if asked.target.contains("app%3Dnew") && !is_watch(asked) => {
                protobuf_list("PodList", &[pod("agent-new", "new", "n1")], "")
            }
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        watches.opened(watch, DAEMON_SETS, 1).await;
        let mut object = daemon_set("new");
        object["metadata"]["name"] = "agent".into();
        object["metadata"]["resourceVersion"] = "60".into();
        watches.send(DAEMON_SETS, "DELETED", &daemon_set("agent"));
        watches.send(DAEMON_SETS, "ADDED", &object);
        loop {
            // What a dropped `changed` has begun, `snapshot` finishes.
            let _ = watch.changed().now_or_never();
            let snapshot = watch.snapshot().await;
            if snapshot.daemon_sets.iter().any(|daemon_set| daemon_set.metadata.uid == "uid-of-new") {
                assert_eq!(pods(snapshot), ["agent-new"]);
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_node_that_a_pod_names_first_is_not_gone() {
    let watches = Watches::default();
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.target.as_str() {
            "/api/v1/nodes/n9" => json_node("n9"),
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        watches.opened(watch, PODS, 1).await;
        watches.send(PODS, "ADDED", &pod_object("agent-b", "agent", "n9", 43));
        watch.changed().await;
        assert_eq!(nodes(watch.snapshot().await), ["n1", "n2", "n9"]);
    });
}

#[test]
fn a_node_that_cannot_be_read_by_name_is_requested_again() {
    let watches = Watches::default();
    let named = AtomicUsize::new(0);
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.target.as_str() {
            "/api/v1/nodes/n9" => match named.fetch_add(1, Ordering::SeqCst) {
                0 => refusal(500, "InternalError", "etcd is away"),
                _ => json_node("n9"),
            },
            _ => watches.answer(asked),
        }
    });
    watching(&server, agent(), async |watch| {
        watches.opened(watch, PODS, 1).await;
        watches.send(PODS, "ADDED", &pod_object("agent-b", "agent", "n9", 43));
        watch.changed().await;
        assert_eq!(watch.failure().unwrap().to_string(), "Error from server (InternalError): etcd is away");
        watch.changed().await;
        assert_eq!(watch.failure(), None);
        assert_eq!(nodes(watch.snapshot().await), ["n1", "n2", "n9"]);
    });
}

#[test]
fn names_that_do_not_exist_are_known_until_they_do() {
    let (watches, server) = Watches::serve();
    let query = Query { names: vec!["agent".to_owned(), "logs".to_owned()], ..agent() };
    watching(&server, query, async |watch| {
        assert_eq!(watch.snapshot().await.unknown_names[0].name, "logs");
        watches.opened(watch, DAEMON_SETS, 1).await;
        watches.send(DAEMON_SETS, "ADDED", &daemon_set("logs"));
        watch.changed().await;
        assert_eq!(watch.snapshot().await.unknown_names, []);
        assert_eq!(watch.snapshot().await.daemon_sets.len(), 2);
    });
}

#[test]
fn what_cannot_be_read_at_first_is_an_error() {
    let watches = Watches::default();
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.path() {
            "/api/v1/nodes" => refusal(404, "NotFound", "no such path"),
            _ => watches.answer(asked),
        }
    });
    block_on(async {
        let live = live(&options(&server)).await.unwrap();
        let error = live.watch(agent()).await.err().expect("an error");
        assert_eq!(shown(error), "Error from server (NotFound): no such path");
        let unknown = Query { names: vec!["agnet".to_owned()], ..agent() };
        assert!(live.watch(unknown).await.is_err());
        let watch = live.watch(Query { names: vec!["agent".to_owned()], ..all() }).await;
        assert!(watch.is_err(), "nodes fail here, too");
    });
}
