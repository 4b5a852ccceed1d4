//! Random clusters with everything that makes numbers hard to agree on: pods on deleted or ineligible nodes, several
//! pods on a node, terminating pods, and specs that the controller has not observed.

use serde_json::{Value, json};

use super::Random;

const NOW: &str = "2026-11-20T10:00:00Z";

/// Returns a `v1.List` of nodes, DaemonSets, revisions and pods.
pub fn cluster(random: &mut Random) -> Value {
    let nodes: Vec<String> = (0..1 + random.below(7)).map(|number| format!("node-{number}")).collect();
    let mut items: Vec<Value> = nodes.iter().map(|name| node(random, name)).collect();
    for number in 0..1 + random.below(3) {
        daemon_set(random, &format!("agent-{number}"), &nodes, &mut items);
    }
    // Without an event or a revision, a dump would have a gap.
    items.push(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "other"},
        "involvedObject": {"kind": "Pod", "namespace": "other", "name": "p"}, "lastTimestamp": NOW}));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn node(random: &mut Random, name: &str) -> Value {
    let mut labels = json!({"kubernetes.io/hostname": name});
    if random.percent(80) {
        labels["pool"] = random.word(&["a", "b"]).into();
    } else if name == "node-0" {
        // Some node has the label by which counts are broken down.
        labels["pool"] = "a".into();
    }
    let taints = match random.below(5) {
        0 => json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]),
        1 => json!([{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}]),
        _ => json!([]),
    };
    let ready = if random.percent(85) { "True" } else { "Unknown" };
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-20T09:00:00Z"}]}})
}

fn daemon_set(random: &mut Random, name: &str, nodes: &[String], items: &mut Vec<Value>) {
    let uid = format!("uid-{name}");
    let strategy = match random.below(3) {
        0 => json!({"type": "OnDelete"}),
        1 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}),
    };
    let revisions = 1 + random.below(3);
    // The controller gives the highest number to the live template's revision once it has observed it.
    let observed = random.percent(75);
    let live = if observed { revisions } else { 1 + random.below(revisions + 1) };
    let template = |revision: usize, random: &mut Random| {
        let mut spec = json!({"containers": [{"name": "agent", "image": format!("agent:{revision}")}]});
        if random.percent(30) {
            spec["nodeSelector"] = json!({"pool": "a"});
        }
        if random.percent(30) {
            spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
        }
        json!({"metadata": {"labels": {"app": name}}, "spec": spec})
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true}]);
    let templates: Vec<Value> = (1..=revisions + 1).map(|number| template(number, random)).collect();
    for number in 1..=revisions {
        let mut template = templates[number - 1].clone();
        template["$patch"] = "replace".into();
        items.push(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": format!("{name}-h{number}"), "namespace": "shop", "ownerReferences": owner,
                "labels": {"app": name, "controller-revision-hash": format!("h{number}")}},
            "revision": number, "data": {"spec": {"template": template}}}));
    }
    let mut metadata = json!({"name": name, "namespace": "shop", "uid": uid, "generation": 5});
    if random.percent(8) {
        metadata["deletionTimestamp"] = "2026-11-20T09:59:00Z".into();
        metadata["finalizers"] = json!(["foregroundDeletion"]);
    }
    // A current status that counts more than is in the lists makes them incomplete.
    let mut count = |most| {
        let count = random.below(most);
        if observed { 0 } else { count }
    };
    let status = json!({"desiredNumberScheduled": count(5), "currentNumberScheduled": count(4),
        "numberReady": count(4), "numberAvailable": count(4),
        "observedGeneration": if observed { 5 } else { 4 }});
    items.push(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "status": status,
        "spec": {"selector": {"matchLabels": {"app": name}}, "updateStrategy": strategy,
            "template": templates[live - 1], "minReadySeconds": if random.percent(20) { 600 } else { 0 }}}));
    let gone = ["gone-0".to_owned(), "gone-1".to_owned()];
    for node in nodes.iter().chain(&gone) {
        let is_gone = node.starts_with("gone");
        let pods = if is_gone { usize::from(random.percent(15)) } else { *random.pick(&[0, 1, 1, 1, 1, 1, 2, 3]) };
        for number in 0..pods {
            let hash = format!("h{}", random.below(revisions + 1));
            items.push(pod(random, &format!("{name}-{node}-{number}"), node, &hash, (name, &owner)));
        }
    }
}

fn pod(random: &mut Random, name: &str, node: &str, hash: &str, (app, owner): (&str, &Value)) -> Value {
    let created = format!("2026-11-20T09:{:02}:00Z", random.below(60));
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created, "uid": format!("uid-{name}"),
            "labels": {"app": app, "controller-revision-hash": hash}, "ownerReferences": owner},
        "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
        "status": {"phase": "Running", "conditions": []}});
    if random.percent(8) {
        // The controller adopts an orphan.
        pod["metadata"]["ownerReferences"] = json!([]);
    }
    if random.percent(15) {
        let deadline = random.word(&["2026-11-20T09:50:00Z", "2026-11-20T10:00:20Z"]);
        pod["metadata"]["deletionTimestamp"] = deadline.into();
    }
    if random.percent(12) {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            json!([{"matchFields": [field]}]);
        pod["status"]["phase"] = "Pending".into();
        return pod;
    }
    pod["spec"]["nodeName"] = node.into();
    if random.percent(6) {
        pod["status"]["phase"] = "Failed".into();
        return pod;
    }
    let ready = if random.percent(75) { "True" } else { "False" };
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": ready, "lastTransitionTime": created}]);
    pod["status"]["containerStatuses"] = json!([{"name": "agent", "ready": ready == "True", "started": true,
        "state": {"running": {"startedAt": created}}}]);
    pod
}
