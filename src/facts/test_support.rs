//! Small test clusters: one DaemonSet `default/agent`, and whatever a test adds to it.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::{PodsComplete, Snapshot};

/// The hash of the DaemonSet's current revision.
pub const CURRENT: &str = "hash2";

/// A small cluster at noon of 2026-03-01.
pub struct World {
    /// The contents of the cluster.
    pub snapshot: Snapshot,
    daemon_set: Value,
}

/// Returns a time on that day.
pub fn at(time: &str) -> String {
    format!("2026-03-01T{time}Z")
}

/// Returns a world with only the DaemonSet `default/agent`, created an hour ago.
pub fn world() -> World {
    let mut snapshot = Snapshot::empty(at("12:00:00").parse().unwrap());
    snapshot.pods_complete = PodsComplete::Everywhere;
    let daemon_set = json!({
        "metadata": {"name": "agent", "namespace": "default", "uid": "agent-uid", "generation": 2,
            "creationTimestamp": at("11:00:00"),
            "annotations": {"deprecated.daemonset.template.generation": "2"}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "agent", "image": "agent:2"}]},
            },
        },
        "status": {"observedGeneration": 2},
    });
    World { snapshot, daemon_set }.revision(CURRENT, 2)
}

fn owner() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent-uid", "controller": true})
}

/// Merges a patch into a value; `null` removes.
pub fn merge(value: &mut Value, patch: Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, patch) in patch {
                if patch.is_null() {
                    fields.remove(&key);
                } else {
                    merge(fields.entry(key).or_insert(Value::Null), patch);
                }
            }
        }
        (value, patch) => *value = patch,
    }
}

fn read<T: DeserializeOwned>(mut value: Value, patch: Value) -> T {
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

impl World {
    /// Adds a revision without data.
    pub fn revision(self, hash: &str, number: i64) -> Self {
        self.revision_with(hash, number, Value::Null)
    }

    /// Adds a revision of the template with an image.
    pub fn revision_of_image(self, hash: &str, number: i64, image: &str) -> Self {
        let mut template = self.daemon_set["spec"]["template"].clone();
        template["spec"]["containers"][0]["image"] = json!(image);
        self.revision_of(hash, number, template)
    }

    /// Adds a revision of the template as it is.
    pub fn revision_of_template(self, hash: &str, number: i64) -> Self {
        let template = self.daemon_set["spec"]["template"].clone();
        self.revision_of(hash, number, template)
    }

    fn revision_of(self, hash: &str, number: i64, mut template: Value) -> Self {
        template["$patch"] = json!("replace");
        self.revision_with(hash, number, json!({"spec": {"template": template}}))
    }

    fn revision_with(mut self, hash: &str, number: i64, data: Value) -> Self {
        let revision = json!({
            "data": data,
            "metadata": {"name": format!("agent-{hash}"), "namespace": "default", "creationTimestamp": at("11:00:00"),
                "labels": {"controller-revision-hash": hash},
                "ownerReferences": [owner()]},
            "revision": number,
        });
        let revision = crate::model::controller_revision::ControllerRevision::from_object(revision).unwrap();
        self.snapshot.controller_revisions.push(revision);
        self
    }

    /// Changes the DaemonSet.
    pub fn daemon_set(mut self, patch: Value) -> Self {
        merge(&mut self.daemon_set, patch);
        self
    }

    /// Changes the pod spec of the DaemonSet's template.
    pub fn template(self, patch: Value) -> Self {
        self.daemon_set(json!({"spec": {"template": {"spec": patch}}}))
    }

    /// Adds a ready node, created an hour ago.
    pub fn node(mut self, name: &str, patch: Value) -> Self {
        let node = json!({
            "metadata": {"name": name, "creationTimestamp": at("11:00:00"), "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at("11:00:00")}],
            },
        });
        self.snapshot.nodes.push(read(node, patch));
        self
    }

    /// Adds a pod of the DaemonSet that is bound to a node and available.
    pub fn pod(mut self, name: &str, node: &str, patch: Value) -> Self {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-uid"),
                "creationTimestamp": at("11:30:00"),
                "labels": {"app": "agent", "controller-revision-hash": CURRENT, "pod-template-generation": "2"},
                "ownerReferences": [owner()]},
            "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent:2"}],
                "tolerations": [{"operator": "Exists"}]},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": at("11:30:00")},
                    {"type": "Initialized", "status": "True", "lastTransitionTime": at("11:30:00")},
                    {"type": "ContainersReady", "status": "True", "lastTransitionTime": at("11:31:00")},
                    {"type": "Ready", "status": "True", "lastTransitionTime": at("11:31:00")},
                ],
                "containerStatuses": [{"name": "agent", "ready": true, "started": true,
                    "state": {"running": {"startedAt": at("11:31:00")}}}],
            },
        });
        self.snapshot.pods.push(read(pod, patch));
        self
    }

    /// Adds a pod of the DaemonSet that is bound to a node and whose container is not ready.
    pub fn unready_pod(self, name: &str, node: &str, container_status: Value, patch: Value) -> Self {
        let mut status = json!({"name": "agent", "ready": false});
        merge(&mut status, container_status);
        let mut pod = json!({"status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady",
                "lastTransitionTime": at("11:50:00")}],
            "containerStatuses": [status],
        }});
        merge(&mut pod, patch);
        self.pod(name, node, pod)
    }

    /// Adds a pending pod of the DaemonSet that targets a node, with a message from the scheduler.
    pub fn pending_pod(self, name: &str, node: &str, scheduler: &str, patch: Value) -> Self {
        let conditions = if scheduler.is_empty() {
            json!([])
        } else {
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": scheduler,
                "lastTransitionTime": at("11:57:00")}])
        };
        let mut pod = json!({
            "spec": {
                "nodeName": null,
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}},
            },
            "status": {"phase": "Pending", "containerStatuses": null, "conditions": conditions},
        });
        merge(&mut pod, patch);
        self.pod(name, node, pod)
    }

    /// Adds a pod that is not the DaemonSet's.
    pub fn other_pod(self, name: &str, node: &str, patch: Value) -> Self {
        let mut pod = json!({"metadata": {"labels": {"app": "other", "pod-template-generation": null},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "other", "uid": "o", "controller": true}]}});
        merge(&mut pod, patch);
        self.pod(name, node, pod)
    }

    /// Adds an event about an object, last seen at a time on that day.
    pub fn event(mut self, kind: &str, name: &str, reason: &str, message: &str, time: &str) -> Self {
        let namespace = if kind == "Node" { "" } else { "default" };
        let event = json!({
            "metadata": {"name": "event", "namespace": "default"},
            "involvedObject": {"kind": kind, "namespace": namespace, "name": name, "uid": format!("{name}-uid")},
            "reason": reason, "message": message, "type": "Warning", "count": 3, "lastTimestamp": at(time),
        });
        self.snapshot.events.push(read(event, json!({})));
        self
    }

    /// Adds an event about a refused pod of the DaemonSet, seen a minute ago.
    pub fn refusal(self, message: &str) -> Self {
        self.event("DaemonSet", "agent", "FailedCreate", &format!("Error creating: {message}"), "11:59:00")
    }

    /// Returns the snapshot with the DaemonSet in it.
    pub fn finish(mut self) -> Snapshot {
        self.snapshot.daemon_sets.push(DaemonSet::from_object(self.daemon_set).unwrap());
        self.snapshot
    }
}
