//! Every change to pods, nodes, DaemonSets and revisions, in the order of their resource versions.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kubectl_ds::model::controller_revision::ControllerRevision;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::node::Node;
use kubectl_ds::model::pod::Pod;
use serde_json::Value;

use crate::support::api::{Api, authorization};

/// The label of nodes that names the rollout that they belong to.
pub const ROLLOUT: &str = "rollout";

/// An object as it was after a change.
pub enum Object {
    Pod(Box<Pod>),
    Node(Box<Node>),
    DaemonSet(Box<DaemonSet>),
    Revision(Box<ControllerRevision>),
}

impl Object {
    fn read(kind: &str, object: Value) -> Self {
        match kind {
            "pods" => Object::Pod(Box::new(serde_json::from_value(object).unwrap())),
            "nodes" => Object::Node(Box::new(serde_json::from_value(object).unwrap())),
            "daemonsets" => Object::DaemonSet(Box::new(DaemonSet::from_object(object).unwrap())),
            _ => Object::Revision(Box::new(ControllerRevision::from_object(object).unwrap())),
        }
    }
}

/// A change of an object. The resource versions of all kinds are revisions of the same store, so that they are in order.
pub struct Change {
    pub version: u64,
    /// When it was received.
    pub at: Timestamp,
    pub name: String,
    pub is_deleted: bool,
    pub object: Object,
}

/// The changes by rollout.
#[derive(Default)]
pub struct Recorder {
    changes: Mutex<HashMap<String, Vec<Arc<Change>>>>,
    changed: Condvar,
}

impl Recorder {
    /// Starts to watch.
    pub fn start(api: Api) -> Arc<Self> {
        let recorder = Arc::new(Recorder::default());
        for (kind, path) in [
            ("pods", "/api/v1/pods"),
            ("nodes", "/api/v1/nodes"),
            ("daemonsets", "/apis/apps/v1/daemonsets"),
            ("controllerrevisions", "/apis/apps/v1/controllerrevisions"),
        ] {
            let mut version = api.get(path)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let recorder = recorder.clone();
            thread::spawn(move || {
                // A watch may end at any time, and goes on from the last version.
                loop {
                    let from = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
                    watch(api, &from, |event| {
                        event["object"]["metadata"]["resourceVersion"]
                            .as_str()
                            .unwrap_or_else(|| panic!("{event}"))
                            .clone_into(&mut version);
                        if event["type"] != "BOOKMARK" {
                            recorder.record(kind, event);
                        }
                    });
                }
            });
        }
        recorder
    }

    fn record(&self, kind: &str, mut event: Value) {
        let object = event["object"].take();
        assert!(event["type"] != "ERROR", "the watch of {kind} failed: {object}");
        let metadata = &object["metadata"];
        let scope = match kind {
            "nodes" => metadata["labels"][ROLLOUT].as_str(),
            _ => metadata["namespace"].as_str(),
        };
        let Some(scope) = scope.map(str::to_owned) else { return };
        let change = Change {
            version: metadata["resourceVersion"].as_str().unwrap().parse().unwrap(),
            at: Timestamp::now(),
            name: metadata["name"].as_str().unwrap().to_owned(),
            is_deleted: event["type"] == "DELETED",
            object: Object::read(kind, object),
        };
        let mut changes = self.changes.lock().unwrap();
        let changes_of_scope = changes.entry(scope).or_default();
        // Watches of several kinds are received apart from each other.
        let place = changes_of_scope.partition_point(|other| other.version < change.version);
        changes_of_scope.insert(place, Arc::new(change));
        self.changed.notify_all();
    }

    /// Returns the changes of a rollout so far.
    pub fn changes(&self, scope: &str) -> Vec<Arc<Change>> {
        self.changes.lock().unwrap().get(scope).cloned().unwrap_or_default()
    }

    /// Waits until a rollout has other than this many changes, but not for long.
    pub fn wait(&self, scope: &str, known: usize) {
        let is_known =
            |changes: &mut HashMap<String, Vec<Arc<Change>>>| changes.get(scope).map_or(0, Vec::len) == known;
        let changes = self.changes.lock().unwrap();
        let _ = self.changed.wait_timeout_while(changes, Duration::from_millis(250), is_known).unwrap();
    }

    /// Forgets a rollout.
    pub fn forget(&self, scope: &str) {
        self.changes.lock().unwrap().remove(scope);
    }
}

/// Hands over every event of a watch until the connection ends.
fn watch(api: Api, path: &str, mut take: impl FnMut(Value)) {
    let Ok(mut stream) = api.connect() else {
        // The cluster has ended.
        thread::sleep(Duration::from_secs(1));
        return;
    };
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n{}\r\n\r\n", authorization());
    stream.write_all(head.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
    }
    let mut received = Vec::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let Ok(length) = usize::from_str_radix(line.trim(), 16) else { panic!("no chunk but {line:?}") };
        if length == 0 {
            // The API server ends the watches of slow clients; the connection stays open.
            return;
        }
        let mut chunk = vec![0; length + 2];
        if stream.read_exact(&mut chunk).is_err() {
            return;
        }
        received.extend_from_slice(&chunk[..length]);
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let event: Vec<u8> = received.drain(..=end).collect();
            take(serde_json::from_slice(&event).unwrap());
        }
    }
}
