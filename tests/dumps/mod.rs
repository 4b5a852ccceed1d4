//! Dumps of every form: what is read from them, and the errors for unreadable ones.

mod archives;
mod broken;
mod folders;
mod forms;
mod manifests;
mod redaction;
mod round_trip;
mod snapshot_command;

use std::collections::BTreeSet;
use std::io::Read;

use crate::support::shown;
use jiff::Timestamp;
use kubectl_ds::cluster::error::ClusterError;
use kubectl_ds::cluster::file::{Dump, Reading};
use kubectl_ds::cluster::{CoverageScope, Query, Wanted};
use kubectl_ds::model::snapshot::Snapshot;
use serde_json::{Value, json};

/// Reads everything in a dump.
fn open(path: &str, stdin: &mut dyn Read, now: Option<Timestamp>) -> Result<Reading, ClusterError> {
    let everything = Query { wanted: Wanted::Everything, ..Query::default() };
    Dump::new(path, now).read(&everything, stdin, |_| BTreeSet::new())
}

/// Reads everything in a dump from standard input.
fn read(text: impl AsRef<[u8]>) -> Result<Reading, ClusterError> {
    open("-", &mut text.as_ref(), None)
}

/// Reads what a query wants of a dump from standard input.
fn ask(text: impl AsRef<[u8]>, query: &Query) -> Result<Snapshot, ClusterError> {
    let reading = Dump::new("-", None).read(query, &mut text.as_ref(), |_| BTreeSet::new())?;
    Ok(reading.snapshot)
}

fn on_node(name: &str) -> Query {
    let scope = CoverageScope { node: Some(name.to_owned()), ..CoverageScope::default() };
    Query { wanted: Wanted::Coverage(scope), ..Query::default() }
}

/// Reads a dump that cannot be read, and returns what is printed.
fn complaint(text: impl AsRef<[u8]>) -> String {
    shown(read(text).unwrap_err())
}

fn daemon_set(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "resourceVersion": "100",
            "creationTimestamp": "2026-11-20T08:00:00Z"},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}},
        "status": {"desiredNumberScheduled": 1},
    })
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2026-11-20T07:00:00Z", "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T09:00:00Z"}]},
    })
}

fn pod(namespace: &str, name: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-20T08:00:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "c:1"}]},
        "status": {"phase": "Running"},
    })
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// Takes the type from an object, as it stands in a typed list.
fn untyped(mut object: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    object
}
