//! The cluster that `--from demo` shows: 26 nodes, 15 well-known agents, most of them healthy.
//!
//! The control plane runs through its history within two minutes. In the recording, the times of each chapter are moved
//! back, so that ages look like those of a cluster that has run for months; nothing else is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Options};
use super::faulty_cluster::Settled;
use super::objects::{by_name, owner};
use super::say;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/demo");

/// How long an API server keeps events.
const EVENTS_KEPT: SignedDuration = SignedDuration::from_hours(1);

/// The nodes of a pool.
struct Pool {
    name: &'static str,
    instance_type: &'static str,
    capacity: [(&'static str, &'static str); 3],
    taint: Option<(&'static str, &'static str)>,
    capacity_type: &'static str,
}

const POOLS: [Pool; 5] = [
    Pool {
        name: "system",
        instance_type: "m7i.large",
        capacity: [("cpu", "1930m"), ("memory", "7Gi"), ("pods", "29")],
        taint: Some(("CriticalAddonsOnly", "true")),
        capacity_type: "on-demand",
    },
    Pool {
        name: "general",
        instance_type: "m7i.2xlarge",
        capacity: [("cpu", "7910m"), ("memory", "29Gi"), ("pods", "58")],
        taint: None,
        capacity_type: "on-demand",
    },
    Pool {
        name: "memory",
        instance_type: "r7i.2xlarge",
        capacity: [("cpu", "7910m"), ("memory", "61Gi"), ("pods", "58")],
        taint: Some(("dedicated", "database")),
        capacity_type: "on-demand",
    },
    Pool {
        name: "gpu",
        instance_type: "g6.4xlarge",
        capacity: [("cpu", "15890m"), ("memory", "60Gi"), ("pods", "58")],
        taint: Some(("nvidia.com/gpu", "present")),
        capacity_type: "on-demand",
    },
    Pool {
        name: "spot",
        instance_type: "m7a.xlarge",
        capacity: [("cpu", "3920m"), ("memory", "14Gi"), ("pods", "58")],
        taint: None,
        capacity_type: "spot",
    },
];

const FIRST_NODES: [&str; 20] = [
    "system-a1",
    "system-b1",
    "system-c1",
    "general-a1",
    "general-a2",
    "general-a3",
    "general-b1",
    "general-b2",
    "general-b3",
    "general-c1",
    "general-c2",
    "general-c3",
    "memory-a1",
    "memory-b1",
    "memory-c1",
    "gpu-a1",
    "gpu-b1",
    "spot-a1",
    "spot-b1",
    "spot-c1",
];

const OLD_IMAGE: &str = "ami-08a4b1d6c2f93e570";
const NEW_IMAGE: &str = "ami-0f2c6d1e8b7a45931";

/// Returns a node, whose name has its pool and the letter of its zone.
fn node(name: &str, image: &str) -> Value {
    let (pool_name, place) = name.split_once('-').expect("POOL-PLACE");
    let pool = POOLS.iter().find(|pool| pool.name == pool_name).expect("a known pool");
    let capacity: Value =
        pool.capacity.iter().map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "type": "kwok",
            "eks.amazonaws.com/nodegroup-image": image,
            "karpenter.sh/capacity-type": pool.capacity_type,
            "karpenter.sh/nodepool": pool.name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": pool.instance_type,
            "topology.kubernetes.io/region": "eu-central-1",
            "topology.kubernetes.io/zone": format!("eu-central-1{}", &place[..1]),
        }},
        "spec": {"providerID": format!("aws:///eu-central-1{}/i-{name}", &place[..1])},
        "status": {"capacity": capacity, "allocatable": capacity},
    });
    if let Some((key, value)) = pool.taint {
        node["spec"]["taints"] = json!([{"key": key, "value": value, "effect": "NoSchedule"}]);
    }
    node
}

/// Points in time that divide what happened, each with how long ago it is said to be.
#[derive(Default)]
struct Chapters(Vec<(Timestamp, SignedDuration)>);

impl Chapters {
    /// Begins a chapter of this age. Times are recorded in whole seconds, so it begins with the next one. It leaves room
    /// for what is reported as having begun shortly before it happened.
    fn begin(&mut self, age: SignedDuration) {
        let start = Timestamp::from_second(Timestamp::now().as_second() + 1).unwrap();
        while Timestamp::now() < start + SignedDuration::from_secs(4) {
            thread::sleep(Duration::from_millis(50));
        }
        self.0.push((start, age));
    }

    /// Moves every time in a value back by the age of its chapter; what happened in the last one stays.
    fn age(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.age(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.age(field)),
            Value::String(text) => {
                let time = text.ends_with('Z').then(|| text.parse().ok()).flatten();
                let chapter = time.and_then(|time| self.0.iter().rfind(|(start, _)| *start <= time));
                if let (Some(time), Some((start, age))) = (time, chapter) {
                    let last = self.0.last().expect("a chapter").0;
                    let gone_by = if age.is_zero() { SignedDuration::ZERO } else { last.duration_since(*start) };
                    *text = (time - (*age - gone_by)).to_string();
                }
            }
            _ => {}
        }
    }
}

fn manifest(file: &str) -> String {
    fs::read_to_string(Path::new(FOLDER).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Lives through the history of the demo cluster, and returns its objects.
pub fn record() -> Vec<Value> {
    let start = Instant::now();
    let cluster = ControlPlane::start(Options {
        api_server_flags: vec!["--allow-privileged".to_owned()],
        kwok_flags: vec![format!("--config={FOLDER}/kubelets.yaml")],
        ..Options::whole()
    });
    let mut chapters = Chapters::default();

    chapters.begin(SignedDuration::from_hours(97 * 24 + 5));
    create_nodes(&cluster, &FIRST_NODES, OLD_IMAGE);
    cluster.create(&manifest("agents.yaml"));
    wait_for_agents(&cluster, &[]);

    chapters.begin(SignedDuration::from_hours(34 * 24 + 2));
    set_image(&cluster, "logging", "fluent-bit", "fluent-bit=cr.fluentbit.io/fluent/fluent-bit:4.0.10");
    set_image(&cluster, "kube-system", "cilium", "*=quay.io/cilium/cilium:v1.18.3");
    set_image(&cluster, "monitoring", "node-exporter", "node-exporter=quay.io/prometheus/node-exporter:v1.10.2");
    wait_for_agents(&cluster, &[]);

    chapters.begin(SignedDuration::from_hours(9 * 24 + 7));
    let limits = ["set", "resources", "daemonset/fluent-bit", "-n", "logging", "--limits=memory=256Mi"];
    cluster.kubectl(&[&limits[..], &["--requests=cpu=100m,memory=256Mi"]].concat());
    let proxy = "kube-proxy=602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/kube-proxy:v1.36.3-eksbuild.1";
    set_image(&cluster, "kube-system", "kube-proxy", proxy);
    wait_for_agents(&cluster, &[]);

    // Nodes with a machine image whose kernel Falco cannot cope with.
    chapters.begin(SignedDuration::from_hours(2 * 24 + 6));
    // The scheduler forgets a port that two pods of a node have once one of them is gone, so this pod comes first.
    let debug = json!({
        "name": "node-exporter", "image": "quay.io/prometheus/node-exporter:v1.10.2",
        "ports": [{"containerPort": 9100, "hostPort": 9100}],
    });
    run_pod(&cluster, "node-exporter-debug", "default", "general-c4", &debug);
    create_nodes(&cluster, &["general-a4", "general-b4", "general-c4", "spot-c2"], NEW_IMAGE);
    wait_for_agents(&cluster, &[("falco", 4), ("node-exporter", 1)]);

    // Databases take the memory that the agents of their nodes need; pods that exist are not checked again.
    chapters.begin(SignedDuration::from_hours(5));
    cluster.kubectl(&["label", "namespace", "velero", "pod-security.kubernetes.io/enforce=baseline"]);
    for name in ["memory-a1", "memory-c1"] {
        run_pod(
            &cluster,
            &format!("postgres-{}", &name[7..]),
            "shop",
            name,
            &json!({
                "name": "postgres", "image": "docker.io/library/postgres:18.1", "resources": {"requests": {"memory": "58Gi"}},
            }),
        );
        delete_pod_of(&cluster, "datadog/datadog-agent", name);
    }
    wait_for_agents(&cluster, &[("falco", 4), ("node-exporter", 1), ("datadog-agent", 2)]);

    cluster.kubectl(&["taint", "node", "system-c1", "example.com/maintenance=planned:NoSchedule"]);

    // New nodes do not get what the label of the namespace forbids.
    chapters.begin(SignedDuration::from_mins(52));
    create_nodes(&cluster, &["spot-a2", "spot-b2"], NEW_IMAGE);
    let troubles = [("falco", 6), ("datadog-agent", 2), ("node-agent", 2), ("node-exporter", 1)];
    wait_for_agents(&cluster, &troubles);

    chapters.begin(SignedDuration::from_mins(14));
    set_image(&cluster, "logging", "fluent-bit", "fluent-bit=cr.fluentbit.io/fluent/fluent-bit:4.2.0");
    wait_for(&cluster, "fluent-bit is blocked", |daemon_sets| {
        let status = &daemon_sets["logging/fluent-bit"]["status"];
        (status["updatedNumberScheduled"] == 3 && status["numberReady"] == 23).then_some(()).ok_or(status.to_string())
    });

    chapters.begin(SignedDuration::ZERO);
    // Makes the controller sync them: it backs off after errors, and does not react to the taint by itself.
    cluster.kubectl(&["annotate", "daemonset/node-agent", "-n", "velero", "meta.helm.sh/release-name=velero"]);
    let ingress = ["annotate", "daemonset/ingress-nginx-controller", "-n", "ingress"];
    cluster.kubectl(&[&ingress[..], &["meta.helm.sh/release-name=ingress-nginx"]].concat());
    let detector = "*=registry.k8s.io/node-problem-detector/node-problem-detector:v1.34.0";
    set_image(&cluster, "kube-system", "node-problem-detector", detector);
    wait_for(&cluster, "node-problem-detector is half-way", |daemon_sets| {
        let status = &daemon_sets["kube-system/node-problem-detector"]["status"];
        let updated = status["updatedNumberScheduled"].as_i64().unwrap_or(0);
        (updated > 6).then_some(()).ok_or(status.to_string())
    });
    let mut items = Settled::at_once(&cluster).items;
    for item in &mut items {
        chapters.age(item);
    }
    let now = Timestamp::now();
    items.retain(|item| item["kind"] != "Event" || last_time(item).is_none_or(|time| now - EVENTS_KEPT < time));
    say(&format!("the demo cluster has lived through its history in {:.1?}", start.elapsed()));
    items
}

/// Returns when an event was last recorded.
fn last_time(event: &Value) -> Option<Timestamp> {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    times.iter().find_map(|path| event.pointer(path)?.as_str()?.parse().ok())
}

fn create_nodes(cluster: &ControlPlane, names: &[&str], image: &str) {
    let nodes: Vec<_> = names.iter().map(|name| node(name, image)).collect();
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": nodes}).to_string());
}

/// Returns the logs of the containers that crash, as `kubectl cluster-info dump` writes them: the kubelets of KWOK have none.
pub fn logs(items: &[Value]) -> String {
    let mut text = "\n".to_owned();
    for pod in items.iter().filter(|item| item["kind"] == "Pod") {
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        for status in statuses.filter(|status| status["state"]["waiting"]["reason"] == "CrashLoopBackOff") {
            let log = match status["name"].as_str().unwrap() {
                "falco" => include_str!("../../fixtures/demo/falco.log"),
                "fluent-bit" => include_str!("../../fixtures/demo/fluent-bit.log"),
                other => panic!("no log of {other}"),
            };
            let time = status["lastState"]["terminated"]["startedAt"].as_str().unwrap();
            let log = log.replace("{time}", time).replace("{node}", pod["spec"]["nodeName"].as_str().unwrap());
            let [container, namespace, name] =
                [&status["name"], &pod["metadata"]["namespace"], &pod["metadata"]["name"]]
                    .map(|name| name.as_str().unwrap());
            let of = format!("logs for container {container} of pod {namespace}/{name} ====\n");
            text += &format!("==== START {of}{log}==== END {of}");
        }
    }
    text
}

fn set_image(cluster: &ControlPlane, namespace: &str, name: &str, image: &str) {
    cluster.kubectl(&["set", "image", &format!("daemonset/{name}"), "-n", namespace, image]);
}

/// Runs a pod on a node past the scheduler.
fn run_pod(cluster: &ControlPlane, name: &str, namespace: &str, node: &str, container: &Value) {
    cluster.create(
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]},
        })
        .to_string(),
    );
}

fn delete_pod_of(cluster: &ControlPlane, daemon_set: &str, node: &str) {
    let (namespace, _) = daemon_set.split_once('/').expect("NAMESPACE/NAME");
    let on_node = format!("--field-selector=spec.nodeName={node}");
    let pods = cluster.items(&["pods", "-n", namespace, &on_node]);
    let pod = pods.iter().find(|pod| owner(pod).as_deref() == Some(daemon_set)).expect("a pod of it there");
    cluster.kubectl(&["delete", "pod", "-n", namespace, pod["metadata"]["name"].as_str().unwrap()]);
}

/// Waits until every agent has rolled out to every node but as many as given by name.
fn wait_for_agents(cluster: &ControlPlane, not_ready: &[(&str, i64)]) {
    let nodes = cluster.items(&["nodes"]).len();
    wait_for(cluster, "the agents run", |daemon_sets| {
        for (name, daemon_set) in daemon_sets {
            let status = &daemon_set["status"];
            let number = |field: &str| status[field].as_i64().unwrap_or(0);
            let lacking = not_ready.iter().find(|(one, _)| name.ends_with(one)).map_or(0, |(_, number)| *number);
            let missing = if name == "velero/node-agent" { lacking } else { 0 };
            let on_all = name != "kube-system/cilium" || number("desiredNumberScheduled") == nodes as i64;
            let is_done = daemon_set["metadata"]["generation"] == status["observedGeneration"]
                && on_all
                && number("updatedNumberScheduled") == number("desiredNumberScheduled") - missing
                && number("numberReady") == number("desiredNumberScheduled") - lacking;
            if !is_done {
                return Err(format!("{name}: {status}"));
            }
        }
        Ok(())
    });
}

/// Waits for the DaemonSets to become so, and says what is missing.
fn wait_for(cluster: &ControlPlane, what: &str, is_so: impl Fn(&BTreeMap<String, Value>) -> Result<(), String>) {
    let mut said = String::new();
    cluster.wait_until(what, || match is_so(&by_name(cluster.items(&["daemonsets", "-A"]))) {
        Ok(()) => Some(()),
        Err(missing) => {
            if missing != said {
                say(&format!("until {what}: {missing}"));
                said = missing;
            }
            None
        }
    });
}
