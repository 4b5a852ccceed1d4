//! A made-up cluster of any size, with objects as big as real ones.

use std::io::{self, Write};

use serde_json::{Value, json};

/// How many pods there are to a node.
pub const PODS_PER_NODE: usize = 6;

/// The DaemonSets; each has a pod on every node, and the other pods are a Deployment's.
pub const DAEMON_SETS: [&str; 3] = ["cni", "logs", "exporter"];

/// Writes a dump of a cluster as `kubectl get -o json` would, one item after the other.
pub fn write_dump(out: &mut dyn Write, nodes: usize) -> io::Result<()> {
    out.write_all(br#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":["#)?;
    let mut separator = "";
    let mut write = |object: Value| {
        write!(out, "{separator}\n{object}")?;
        separator = ",";
        Ok::<_, io::Error>(())
    };
    for name in DAEMON_SETS {
        write(daemon_set(name))?;
    }
    for number in 0..nodes {
        write(node(number))?;
        for pod_number in 0..PODS_PER_NODE {
            write(pod(number, pod_number))?;
        }
    }
    out.write_all(b"\n]}\n")
}

/// Makes a DaemonSet with tolerations and a required affinity.
pub fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-11-01T00:00:00Z", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a", "zone-b", "zone-c"]},
                            {"key": "pool", "operator": "NotIn", "values": ["edge"]},
                        ]},
                    ]}}},
                    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                    "containers": [{"name": "main", "image": format!("registry.example.com/{name}:1"),
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}],
                },
            },
        },
        "status": {},
    })
}

/// Makes a node; every tenth has a taint, and every hundredth is not ready.
pub fn node(number: usize) -> Value {
    let name = node_name(number);
    let zone = ["zone-a", "zone-b", "zone-c"][number % 3];
    let ready = if number % 100 == 7 { "False" } else { "True" };
    let taints = if number % 10 == 3 {
        json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}])
    } else {
        json!(null)
    };
    let images: Vec<_> = (0..25)
        .map(|image| {
            json!({"names": [format!("registry.example.com/team/image-{image}@sha256:{image:064x}"),
                format!("registry.example.com/team/image-{image}:v1.{image}.0")], "sizeBytes": 100_000_000 + image})
        })
        .collect();
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": format!("Kubelet{type_}"), "message": format!("kubelet says {type_}"),
            "lastHeartbeatTime": "2026-11-20T12:00:00Z", "lastTransitionTime": "2026-11-10T12:00:00Z"})
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("node-uid-{number}"), "resourceVersion": number.to_string(),
            "creationTimestamp": "2026-11-02T00:00:00Z",
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "region-1",
                "node.kubernetes.io/instance-type": "m5.4xlarge", "pool": format!("pool-{}", number % 20)},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "csi.volume.kubernetes.io/nodeid": format!("{{\"csi.example.com\":\"i-{number:017x}\"}}")},
            "managedFields": managed_fields(12),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": format!("cloud:///{zone}/i-{number:017x}"), "taints": taints},
        "status": {
            "capacity": {"cpu": "16", "memory": "65838108Ki", "pods": "110", "ephemeral-storage": "104845292Ki"},
            "allocatable": {"cpu": "15890m", "memory": "63737884Ki", "pods": "110", "ephemeral-storage": "95551679124"},
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", ready)],
            "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Linux", "containerRuntimeVersion": "containerd://2.1.0"},
            "images": images,
        },
    })
}

/// Makes a pod; the first few of a node are those of the DaemonSets.
pub fn pod(node: usize, number: usize) -> Value {
    let (owner_kind, owner, namespace) = match DAEMON_SETS.get(number) {
        Some(name) => ("DaemonSet", (*name).to_owned(), "kube-system"),
        None => ("ReplicaSet", format!("web-{}", node % 50), "default"),
    };
    let name = format!("{owner}-{node:05}-{number}");
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-03T00:00:10Z"});
    let variables: Vec<_> = (0..15)
        .map(|variable| json!({"name": format!("VARIABLE_{variable}"), "value": format!("value of {variable}")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("pod-uid-{node}-{number}"), "resourceVersion": "5",
            "generateName": format!("{owner}-"), "creationTimestamp": "2026-11-03T00:00:00Z",
            "labels": {"app": owner, "controller-revision-hash": "5d4f8c7b9", "pod-template-generation": "1"},
            "annotations": {"checksum/config": "c".repeat(64)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner_kind, "name": owner,
                "uid": format!("uid-{owner}"), "controller": true, "blockOwnerDeletion": true}],
            "managedFields": managed_fields(10),
        },
        "spec": {
            "nodeName": node_name(node), "schedulerName": "default-scheduler", "serviceAccountName": "default",
            "priority": 0, "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": format!("registry.example.com/{owner}:1"), "env": variables,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
            ],
            "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "hostIP": "10.1.2.3", "startTime": "2026-11-03T00:00:01Z",
            "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
            "containerStatuses": [{"name": "main", "ready": true, "started": true, "restartCount": 0,
                "image": format!("registry.example.com/{owner}:1"), "imageID": format!("sha256:{node:064x}"),
                "containerID": format!("containerd://{node:064x}"),
                "state": {"running": {"startedAt": "2026-11-03T00:00:05Z"}}}],
        },
    })
}

fn node_name(number: usize) -> String {
    format!("ip-10-{}-{}.region-1.compute.internal", number / 250, number % 250)
}

/// Makes what the API server notes about who owns which field: a third of a real object.
fn managed_fields(keys: usize) -> Value {
    let fields: serde_json::Map<_, _> = (0..keys)
        .map(|key| {
            (format!("k:{{\"type\":\"Condition{key}\"}}"), json!({".": {}, "f:lastHeartbeatTime": {}, "f:status": {}}))
        })
        .collect();
    json!([{"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubelet", "operation": "Update",
        "subresource": "status", "time": "2026-11-20T12:00:00Z", "fieldsV1": {"f:status": {"f:conditions": fields}}}])
}
