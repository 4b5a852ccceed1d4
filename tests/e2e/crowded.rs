//! Agents on a crowded cluster: what `preview` and `coverage` say of each node, compared with what the real scheduler does.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::new_nodes::target;
use super::rollouts::program::run_on;
use crate::support::control_plane::{ControlPlane, Options, kubernetes_is_at_least};
use crate::support::say;

/// How long the scheduler may take for what was said of it.
const PATIENCE: Duration = Duration::from_secs(60);

fn container(requests: &Value, ports: &Value) -> Value {
    json!([{"name": "agent", "image": "agent:1", "resources": {"requests": requests}, "ports": ports}])
}

/// Returns the agents in the order in which they are created: what published manifests ask of the scheduler, and then what these rarely
/// do.
fn agents() -> Vec<(&'static str, Value)> {
    let (everywhere, no_schedule) =
        (json!([{"operator": "Exists"}]), json!([{"operator": "Exists", "effect": "NoSchedule"}]));
    let (linux, node_critical) = (json!({"kubernetes.io/os": "linux"}), "system-node-critical");
    let port = |number: u16, protocol: &str| json!({"containerPort": number, "hostPort": number, "protocol": protocol});
    let requirement = |key: &str, operator: &str, values: &[&str]| {
        let terms = json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    };
    let away_from = |app: &str| {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    };
    let mut agents = vec![
        (
            "node-problem-detector",
            json!({"containers": container(&json!({"cpu": "10m", "memory": "80Mi"}), &json!([])), "tolerations": everywhere,
                "affinity": requirement("kubernetes.io/os", "In", &["linux"])}),
        ),
        (
            "fluentd",
            json!({"containers": container(&json!({"cpu": "100m", "memory": "200Mi"}), &json!([])),
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}),
        ),
        (
            "ingress-nginx",
            json!({"containers": container(&json!({"cpu": "100m", "memory": "90Mi"}), &json!([port(80, "TCP"), port(443, "TCP")])),
                "nodeSelector": linux}),
        ),
        (
            "node-exporter",
            json!({"containers": container(&json!({"cpu": "112m", "memory": "200Mi"}), &json!([port(9100, "TCP")])),
                "hostNetwork": true, "hostPID": true, "nodeSelector": linux, "tolerations": everywhere,
                "priorityClassName": "system-cluster-critical"}),
        ),
        (
            "kube-flannel",
            json!({"containers": container(&json!({"cpu": "100m", "memory": "50Mi"}), &json!([])), "hostNetwork": true,
                "affinity": requirement("kubernetes.io/os", "In", &["linux"]), "tolerations": no_schedule,
                "priorityClassName": node_critical}),
        ),
        (
            "ebs-csi-node",
            json!({"containers": container(&json!({"cpu": "30m", "memory": "120Mi"}), &json!([{"containerPort": 9808}])),
                "affinity": requirement("eks.amazonaws.com/compute-type", "NotIn", &["fargate", "auto", "hybrid"]),
                "nodeSelector": linux, "tolerations": everywhere, "priorityClassName": node_critical}),
        ),
        (
            "nvidia-device-plugin",
            json!({"containers": container(&json!({}), &json!([])), "priorityClassName": node_critical,
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}),
        ),
        (
            "node-local-dns",
            json!({"containers": container(&json!({"cpu": "25m", "memory": "5Mi"}), &json!([port(53, "UDP"), port(53, "TCP"), port(9253, "TCP")])),
                "hostNetwork": true, "tolerations": everywhere, "priorityClassName": node_critical}),
        ),
        (
            "with-a-volume-of-a-zone",
            json!({"containers": container(&json!({}), &json!([])), "tolerations": no_schedule,
                "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]}),
        ),
        (
            "away-from-databases",
            json!({"containers": container(&json!({}), &json!([])), "tolerations": everywhere, "affinity": away_from("db")}),
        ),
        (
            "large",
            json!({"containers": container(&json!({"cpu": "3", "ephemeral-storage": "6Gi"}), &json!([])), "tolerations": everywhere}),
        ),
    ];
    // Before that release, the scheduler takes no extended resource from devices.
    if kubernetes_is_at_least(36) {
        let mut containers = container(&json!({"example.com/gpu": "1"}), &json!([]));
        containers[0]["resources"]["limits"] = json!({"example.com/gpu": "1"});
        agents.push(("with-a-device", json!({"containers": containers, "tolerations": no_schedule})));
    }
    agents
}

/// Returns the nodes, each with what is special about it, and the pods that are on it already.
fn crowd() -> Vec<(&'static str, Value, Vec<Value>)> {
    let label = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    let taint = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    let offers = |resource: &str, amount: &str| json!({"status": {"allocatable": {resource: amount}}});
    let pod = |requests: Value, fields: Value| {
        let mut pod = json!({"spec": {"containers": container(&requests, &json!([]))}});
        json_patch::merge(&mut pod, &fields);
        pod
    };
    let (critical, none) = (json!({"spec": {"priorityClassName": "system-node-critical"}}), json!({}));
    let with_port = |number: u16| {
        let ports = json!([{"containerPort": number, "hostPort": number}]);
        json!({"spec": {"containers": container(&json!({}), &ports)}})
    };
    let away_from_agents = {
        let agents =
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["node-exporter", "fluentd"]}]});
        let term = json!({"topologyKey": "zone", "labelSelector": agents});
        json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    };
    vec![
        ("roomy", none.clone(), vec![]),
        ("full", none.clone(), vec![pod(json!({"cpu": "3960m"}), none.clone())]),
        ("full-of-critical", none.clone(), vec![pod(json!({"cpu": "3960m"}), critical.clone())]),
        ("full-memory", none.clone(), vec![pod(json!({"memory": "8000Mi"}), critical.clone())]),
        ("no-pod-left", offers("pods", "1"), vec![pod(json!({}), critical.clone())]),
        ("two-pods-left", offers("pods", "3"), vec![pod(json!({}), critical.clone())]),
        ("small-disk", offers("ephemeral-storage", "5Gi"), vec![]),
        ("port-9100", none.clone(), vec![pod(json!({}), with_port(9100))]),
        ("port-443", none.clone(), vec![pod(json!({}), with_port(443)), pod(json!({}), with_port(53))]),
        ("tainted", taint("dedicated", "NoSchedule"), vec![]),
        ("evicting", taint("dedicated", "NoExecute"), vec![]),
        ("gpu", taint("nvidia.com/gpu", "NoSchedule"), vec![]),
        ("with-gpu", offers("example.com/gpu", "1"), vec![]),
        ("control-plane", taint("node-role.kubernetes.io/control-plane", "NoSchedule"), vec![]),
        ("cordoned", json!({"spec": {"unschedulable": true}}), vec![]),
        ("not-ready", json!({"metadata": {"annotations": {"kubelet.example.com/conditions": "Ready"}}}), vec![]),
        ("windows", label("kubernetes.io/os", "windows"), vec![]),
        ("fargate", label("eks.amazonaws.com/compute-type", "fargate"), vec![]),
        ("db", none.clone(), vec![pod(json!({}), json!({"metadata": {"labels": {"app": "db"}}}))]),
        ("apart", label("zone", "c"), vec![pod(json!({}), away_from_agents)]),
        ("in-zone-b", label("zone", "b"), vec![]),
    ]
}

/// Creates the nodes, what is on them, a volume of a zone, and a device.
fn create(cluster: &ControlPlane) {
    let mut objects = Vec::new();
    for (name, fields, pods) in crowd() {
        let labels = json!({"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "zone": "a"});
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "20", "ephemeral-storage": "20Gi"});
        let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable}});
        json_patch::merge(&mut node, &fields);
        objects.push(node);
        for (number, mut pod) in pods.into_iter().enumerate() {
            json_patch::merge(
                &mut pod,
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("on-{name}-{number}")},
                    "spec": {"nodeName": name, "terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}]}}),
            );
            objects.push(pod);
        }
    }
    let claim = json!({"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "models",
        "resources": {"requests": {"storage": "1Gi"}}});
    let of_zone = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "c"]}]}]);
    let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": "nfs", "path": "/"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": of_zone}}});
    objects
        .push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "models"}, "spec": volume}));
    objects.push(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"}, "spec": claim}),
    );
    if kubernetes_is_at_least(36) {
        let version = "resource.k8s.io/v1";
        objects.push(json!({"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"extendedResourceName": "example.com/gpu"}}));
        objects.push(json!({"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "roomy"}, "spec": {
            "driver": "gpu.example.com", "nodeName": "roomy", "devices": [{"name": "d0"}],
            "pool": {"name": "roomy", "generation": 1, "resourceSliceCount": 1}}}));
    }
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    cluster.wait_until("the nodes are ready, the pods run and the volume is bound", || {
        let is_new = |node: &Value| {
            let is_to_be_ready = node["metadata"]["name"] != "not-ready";
            node["spec"]["taints"].to_string().contains("node.kubernetes.io/not-ready") == is_to_be_ready
        };
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        let is_bound = cluster.get(&["persistentvolumeclaims", "models"])["status"]["phase"] == "Bound";
        let is_done = !cluster.items(&["nodes"]).iter().any(is_new) && cluster.items(&["pods"]).iter().all(runs);
        (is_done && is_bound).then_some(())
    });
}

/// Returns for each node that has a pod of an agent whether it is bound; `None` as long as the scheduler has not tried every pod.
fn found(cluster: &ControlPlane, agent: &str) -> Option<BTreeMap<String, bool>> {
    let mut pods = cluster.items(&["pods"]);
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let is_bound = |pod: &Value| pod["spec"]["nodeName"].is_string();
    let is_tried = |pod: &Value| {
        let is_rejected = pod["status"]["conditions"][0]["reason"] == "Unschedulable";
        is_bound(pod) || is_rejected && pod["status"]["nominatedNodeName"].is_null()
    };
    let own = pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == agent);
    let of_node = own.map(|pod| (target(pod).to_owned(), is_bound(pod))).collect();
    pods.iter().all(is_tried).then_some(of_node)
}

/// Waits until the scheduler has done what was said and leaves it so for a while, or until it had time enough, and returns what it did.
fn settled(cluster: &ControlPlane, agent: &str, said: &BTreeMap<String, Option<bool>>) -> BTreeMap<String, bool> {
    let (start, mut last, mut stable) = (Instant::now(), None, 0);
    while stable < 3 {
        let now = found(cluster, agent);
        let as_said = |now: &BTreeMap<String, bool>| {
            said.keys().eq(now.keys()) && said.iter().all(|(node, fits)| fits.is_none_or(|fits| fits == now[node]))
        };
        let is_good = now.as_ref().is_some_and(as_said) || start.elapsed() > PATIENCE;
        stable = if now == last && is_good { stable + 1 } else { 0 };
        last = now;
        thread::sleep(Duration::from_millis(400));
    }
    last.unwrap_or_default()
}

#[test]
fn nothing_fits_that_the_scheduler_rejects_and_nothing_is_rejected_that_fits() {
    let cluster = ControlPlane::start(Options::whole());
    create(&cluster);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.json");
    let (mut wrong, mut answers, mut codes) = (Vec::new(), BTreeMap::<_, usize>::new(), BTreeSet::new());
    for (agent, spec) in agents() {
        let template = json!({"metadata": {"labels": {"app": agent}}, "spec": spec});
        let manifest = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": agent, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": agent}}, "template": template}});
        std::fs::write(&file, manifest.to_string()).unwrap();
        let report = run_on(&cluster, &["preview", "-f", file.to_str().unwrap(), "-o", "json"]).expect(0).json();
        let (mut said, mut why) = (BTreeMap::new(), BTreeMap::new());
        for node in report["daemonSets"][0]["nodes"].as_array().unwrap() {
            let (name, fits) = (node["name"].as_str().unwrap().to_owned(), node["fits"].as_bool());
            if fits.is_none() && node["change"] == "None" {
                continue;
            }
            if fits == Some(false) {
                why.insert(name.clone(), node["reason"]["code"].clone());
            }
            let is_by_preemption = fits == Some(true) && !node["preemption"].is_null();
            *answers.entry((fits, is_by_preemption)).or_default() += 1;
            said.insert(name, fits);
        }
        cluster.create(&manifest.to_string());
        let found = settled(&cluster, agent, &said);
        for node in said.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (fits, is_bound) = (said.get(node), found.get(node));
            if !matches!((fits, is_bound), (Some(None), Some(_))) && fits.copied().flatten() != is_bound.copied() {
                wrong.push(format!("{agent} on {node}: fits {fits:?}, bound {is_bound:?}, {:?}", why.get(node)));
            }
        }
        let coverage = run_on(&cluster, &["coverage", agent, "-o", "json"]).json();
        for node in coverage["daemonSets"][0]["nodes"].as_array().unwrap() {
            let (name, code) = (node["name"].as_str().unwrap(), &node["reasons"][0]["code"]);
            let is_unbound = found.get(name) == Some(&false);
            if (node["state"] == "Pending") != is_unbound || is_unbound && why.get(name).is_some_and(|why| why != code)
            {
                wrong.push(format!(
                    "{agent} on {name}: coverage says {} {code}, preview {:?}",
                    node["state"],
                    why.get(name)
                ));
            }
        }
        codes.extend(why.into_values().map(|code| code.as_str().unwrap_or_default().to_owned()));
    }
    say(&format!("fits, by preemption: {answers:?}; reasons: {codes:?}"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    for kind in [(Some(true), false), (Some(true), true), (Some(false), false)] {
        assert!(answers.contains_key(&kind), "{kind:?} did not occur: {answers:?}");
    }
    // The device, and what node-exporter preempts because of its anti-affinity.
    let unknown = 1 + usize::from(kubernetes_is_at_least(36));
    assert_eq!(answers.get(&(None, false)).copied(), Some(unknown), "{answers:?}");
    assert!(codes.len() >= 6, "{codes:?}");
}
