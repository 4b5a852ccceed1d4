//! Dumps of every form: what is read of them, and what is said of those that cannot be read.

mod broken;
mod folders;
mod forms;
mod manifests;
mod round_trip;
#[cfg(feature = "live")]
mod snapshot_command;

use kubectl_ds::cluster::error::ClusterError;
use kubectl_ds::cluster::file::{Dump, open};
use kubectl_ds::error::CommandError;
use serde_json::{Value, json};

/// Reads a dump from standard input.
fn read(text: impl AsRef<[u8]>) -> Result<Dump, ClusterError> {
    open("-", &mut text.as_ref(), None)
}

/// Reads a dump that cannot be read, and returns what is printed.
fn complaint(text: impl AsRef<[u8]>) -> String {
    CommandError::from(read(text).unwrap_err()).to_string()
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
