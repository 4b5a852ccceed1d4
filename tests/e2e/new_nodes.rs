//! Predictions for nodes that do not exist yet and pods that are not created yet, compared with what the real controllers do.
//!
//! `KUBECTL_DS_SHAPES=5000` tries that many random nodes, 200 at a time; `KUBECTL_DS_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::rollouts::program::run_on;
use crate::support::control_plane::{ControlPlane, Options};
use crate::support::random::Random;
use crate::support::say;

/// How many nodes there are at a time.
const AT_ONCE: usize = 200;

/// How many DaemonSets are on new nodes.
const AGENTS: usize = 7;

/// The values of the priority classes.
const CLASSES: [(&str, i32, &str); 3] =
    [("low", 100, "PreemptLowerPriority"), ("high", 1000, "PreemptLowerPriority"), ("polite", 500, "Never")];

/// How often each answer was confirmed.
type Tally = BTreeMap<&'static str, usize>;

#[test]
fn nodes_run_what_is_said_of_them_before_and_those_are_preempted_who_are_named() {
    let wanted: usize = std::env::var("KUBECTL_DS_SHAPES").ok().map_or(50, |text| text.parse().unwrap());
    let seed = std::env::var("KUBECTL_DS_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let (mut random, mut tally) = (Random::new(seed), Tally::new());
    let cluster = ControlPlane::start(Options::whole());
    for (name, value, policy) in CLASSES {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "preemptionPolicy": policy});
        cluster.create(&class.to_string());
    }
    let (mut tried, mut round) = (0, 0);
    while tried < wanted {
        let count = AT_ONCE.min(wanted - tried);
        // The names of a round are its own, so that no cache knows them.
        let names: Vec<String> = (0..count).map(|number| format!("r{round}-n{number}")).collect();
        new_nodes(&cluster, &mut random, &names, &mut tally, seed);
        workloads(&cluster, &mut random, &names, round, &mut tally, seed);
        cluster.kubectl(&["delete", "nodes", "-l", "type=kwok", "--wait=false"]);
        cluster.wait_until("the nodes are gone", || cluster.items(&["nodes"]).is_empty().then_some(()));
        (tried, round) = (tried + count, round + 1);
    }
    say(&format!("KUBECTL_DS_SEED={seed}: {tried} nodes: {tally:?}"));
    for answer in ["runs", "does not fit", "may run", "not eligible", "fits", "preempts", "stays Pending"] {
        assert!(tally.get(answer).is_some_and(|count| *count > 0), "{answer} never happened: {tally:?}");
    }
}

fn node(random: &mut Random, name: &str) -> Value {
    let mut taints = Vec::new();
    if random.percent(25) {
        let effect = random.word(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        taints.push(json!({"key": "dedicated", "value": "gpu", "effect": effect}));
    }
    let cpu = 500 + 250 * random.below(16);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"type": "kwok", "kubernetes.io/hostname": name,
            "pool": random.word(&["a", "b"])}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": format!("{cpu}m"), "memory": random.word(&["1Gi", "2Gi", "4Gi", "16Gi"]),
            "pods": random.word(&["2", "4", "5", "6", "20", "110"])}},
    })
}

fn requests(random: &mut Random) -> Value {
    let mut requests = json!({"cpu": format!("{}m", 100 * (1 + random.below(9)))});
    if random.percent(50) {
        requests["memory"] = random.word(&["128Mi", "512Mi", "1Gi"]).into();
    }
    requests
}

fn agent(random: &mut Random, name: &str, is_selective: bool) -> Value {
    let mut container = json!({"name": "agent", "image": "agent", "resources": {"requests": requests(random)}});
    if random.percent(20) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 9100}]);
    }
    let mut spec = json!({"containers": [container]});
    let class = random.word(&["", "", "low", "high", "polite"]);
    if !class.is_empty() {
        spec["priorityClassName"] = class.into();
    }
    // Of each round, one is not eligible everywhere.
    if random.percent(30) || is_selective {
        spec["nodeSelector"] = json!({"pool": random.word(&["a", "b"])});
    }
    if random.percent(60) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if random.percent(10) {
        spec["resources"] = json!({"limits": {"cpu": "900m", "memory": "700Mi"}});
        spec["containers"][0]["resources"] = json!({});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"round": "yes"}},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name, "agent": "yes"}}, "spec": spec}},
    })
}

fn create_all(cluster: &ControlPlane, objects: &[Value]) {
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
}

/// Returns the node that a pod is meant for.
pub(super) fn target(pod: &Value) -> &str {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                matchFields/0/values/0";
    pod.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Waits until the scheduler has tried each pod of an agent, and returns which are bound, by agent and node.
fn settled(
    cluster: &ControlPlane,
    expected: &BTreeMap<(String, String), bool>,
    seed: u64,
) -> BTreeMap<(String, String), bool> {
    let read = || {
        let pods = cluster.items(&["pods", "-n", "default", "-l", "agent=yes"]);
        let mut found = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            let app = pod["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
            let is_bound = pod["spec"]["nodeName"].is_string();
            let is_tried = is_bound || pod["status"]["conditions"][0]["reason"] == "Unschedulable";
            found.insert((app, target(pod).to_owned()), (is_bound, is_tried));
        }
        found
    };
    let is_as_expected = |found: &BTreeMap<(String, String), (bool, bool)>| {
        let all_tried = found.values().all(|(_, is_tried)| *is_tried);
        let as_said = expected.iter().all(|(key, is_bound)| found.get(key).is_some_and(|found| found.0 == *is_bound));
        all_tried && as_said
    };
    let mut last = BTreeMap::new();
    let mut stable = 0;
    // What is as it was said has to stay so for a while.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while stable < 3 {
        let found = read();
        stable = if found == last && is_as_expected(&found) { stable + 1 } else { 0 };
        if std::time::Instant::now() > deadline {
            let wrong: Vec<_> =
                expected.iter().filter(|(key, is)| found.get(*key).map(|found| found.0) != Some(**is)).collect();
            panic!("KUBECTL_DS_SEED={seed}: expected {wrong:?}");
        }
        last = found;
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    last.into_iter().map(|(key, (is_bound, _))| (key, is_bound)).collect()
}

fn names<'a>(list: &'a Value, field: &'a str) -> impl Iterator<Item = &'a str> {
    list.as_array().unwrap().iter().map(move |one| one[field].as_str().unwrap())
}

/// Asks what new nodes would run before they exist, creates them, and compares.
fn new_nodes(cluster: &ControlPlane, random: &mut Random, nodes: &[String], tally: &mut Tally, seed: u64) {
    let agents: Vec<Value> = (0..AGENTS).map(|number| agent(random, &format!("agent-{number}"), number == 0)).collect();
    create_all(cluster, &agents);
    let objects: Vec<Value> = nodes.iter().map(|name| node(random, name)).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.json");
    std::fs::write(&file, objects[0].to_string()).unwrap();
    let before = run_on(cluster, &["overhead", "-f", file.to_str().unwrap(), "-o", "json"]).expect(0).json();
    create_all(cluster, &objects);
    // Until then they have a taint that keeps agents away.
    cluster.wait_until("the nodes are ready", || {
        let awaited = |node: &Value| node["spec"]["taints"].to_string().contains("node.kubernetes.io/");
        (!cluster.items(&["nodes"]).iter().any(awaited)).then_some(())
    });
    let report = run_on(cluster, &["overhead", "--by", "kubernetes.io/hostname", "-o", "json"]).expect(0).json();
    let mut expected = BTreeMap::new();
    let mut allowed: BTreeSet<(String, String)> = BTreeSet::new();
    for group in report["groups"].as_array().unwrap() {
        let shape = &group["shapes"][0];
        let name = shape["nodes"][0].as_str().unwrap();
        if name == nodes[0] {
            let first = &before["groups"][0]["shapes"][0];
            for field in ["runs", "mayRun", "doesNotFit"] {
                assert_eq!(first[field], shape[field], "KUBECTL_DS_SEED={seed}");
            }
        }
        for (field, answer) in [("runs", "runs"), ("mayRun", "may run"), ("doesNotFit", "does not fit")] {
            for app in names(&shape[field], "name") {
                let key = (app.to_owned(), name.to_owned());
                *tally.entry(answer).or_default() += 1;
                match field {
                    "runs" => drop(expected.insert(key, true)),
                    "doesNotFit" => drop(expected.insert(key, false)),
                    _ => drop(allowed.insert(key)),
                }
            }
        }
    }
    let found = settled(cluster, &expected, seed);
    let said: BTreeSet<_> = expected.keys().chain(&allowed).cloned().collect();
    let there: BTreeSet<_> = found.keys().cloned().collect();
    let wrong: Vec<_> = said.symmetric_difference(&there).collect();
    assert!(wrong.is_empty(), "KUBECTL_DS_SEED={seed}: which nodes are eligible: {wrong:?}");
    *tally.entry("not eligible").or_default() += nodes.len() * AGENTS - said.len();
    cluster.kubectl(&["delete", "ds", "-n", "default", "-l", "round=yes"]);
    cluster.wait_until("the agents are gone", || cluster.items(&["pods", "-n", "default"]).is_empty().then_some(()));
}

/// Fills the nodes with workloads, asks whether a new agent would fit, creates it, and compares.
fn workloads(
    cluster: &ControlPlane,
    random: &mut Random,
    nodes: &[String],
    round: usize,
    tally: &mut Tally,
    seed: u64,
) {
    let mut pods = Vec::new();
    for node in cluster.items(&["nodes"]) {
        let name = node["metadata"]["name"].as_str().unwrap();
        let cpu = node["status"]["allocatable"]["cpu"].as_str().unwrap();
        let mut free =
            cpu.strip_suffix('m').map_or_else(|| cpu.parse::<usize>().unwrap() * 1000, |m| m.parse().unwrap());
        for number in 0..random.below(3) {
            let wanted = 100 * (1 + random.below(free.max(100) / 100));
            if wanted > free {
                break;
            }
            free -= wanted;
            let mut spec = json!({"nodeName": name,
                "containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": format!("{wanted}m")}}}],
                "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1});
            let class = random.word(&["", "low", "high"]);
            if !class.is_empty() {
                spec["priorityClassName"] = class.into();
            }
            pods.push(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("web-{name}-{number}"), "namespace": "default", "labels": {"web": "yes"}},
                "spec": spec}));
        }
    }
    create_all(cluster, &pods);
    cluster.wait_until("the workloads run", || {
        let running = cluster.items(&["pods", "-n", "default", "--field-selector", "status.phase=Running"]);
        (running.len() == pods.len()).then_some(())
    });
    let mut agent = agent(random, "probe", false);
    agent["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": format!("{}m", 300 + 100 * random.below(12))}});
    let spec = agent["spec"]["template"]["spec"].as_object_mut().unwrap();
    spec.remove("resources");
    // The first round is to preempt.
    spec.remove("priorityClassName");
    if let Some(class) = [Some("high"), Some("low"), Some("polite"), None][round % 4] {
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.json");
    std::fs::write(&file, agent.to_string()).unwrap();
    let report = run_on(cluster, &["preview", "-f", file.to_str().unwrap(), "-o", "json"]).expect(0).json();
    let mut expected = BTreeMap::new();
    let mut victims: BTreeMap<String, (BTreeSet<String>, Vec<Value>)> = BTreeMap::new();
    for node in report["daemonSets"][0]["nodes"].as_array().unwrap() {
        let (name, preemption) = (node["name"].as_str().unwrap(), &node["preemption"]);
        let Some(fits) = node["fits"].as_bool() else { continue };
        let answer = match (fits, preemption.is_null()) {
            (true, true) => "fits",
            (true, false) => "preempts",
            (false, _) => "stays Pending",
        };
        *tally.entry(answer).or_default() += 1;
        expected.insert(("probe".to_owned(), name.to_owned()), fits);
        let certain =
            preemption["pods"].as_array().into_iter().flatten().map(|pod| pod["name"].as_str().unwrap().to_owned());
        let some_of = preemption["someOf"].as_array().cloned().unwrap_or_default();
        victims.insert(name.to_owned(), (certain.collect(), some_of));
    }
    cluster.create(&agent.to_string());
    let found = settled(cluster, &expected, seed);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "KUBECTL_DS_SEED={seed}");
    let left = cluster.items(&["pods", "-n", "default", "-l", "web=yes"]);
    let left: BTreeSet<&str> = left
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .map(|pod| pod["metadata"]["name"].as_str().unwrap())
        .collect();
    for name in nodes {
        let on_node = pods.iter().filter(|pod| pod["spec"]["nodeName"] == name.as_str());
        let gone: BTreeSet<String> = on_node
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .filter(|pod| !left.contains(pod.as_str()))
            .collect();
        let (certain, some_of) = victims.remove(name).unwrap_or_default();
        let mut others: BTreeSet<String> = gone.difference(&certain).cloned().collect();
        assert!(
            certain.is_subset(&gone),
            "KUBECTL_DS_SEED={seed}: {name} should have lost {certain:?}, and lost {gone:?}"
        );
        for some in some_of {
            let of: Vec<&str> = names(&some["pods"], "name").filter(|pod| others.contains(*pod)).collect();
            let [least, most] =
                ["atLeast", "atMost"].map(|field| usize::try_from(some[field].as_u64().unwrap()).unwrap());
            assert!((least..=most).contains(&of.len()), "KUBECTL_DS_SEED={seed}: {name}: {some} and {of:?}");
            others.retain(|pod| !of.contains(&pod.as_str()));
        }
        assert!(others.is_empty(), "KUBECTL_DS_SEED={seed}: {name} lost {others:?}, too");
        *tally.entry("victims").or_default() += gone.len();
    }
    cluster.kubectl(&["delete", "ds", "-n", "default", "-l", "round=yes"]);
    cluster.kubectl(&["delete", "pods", "-n", "default", "--all", "--wait=false", "--force"]);
    cluster.wait_until("the pods are gone", || cluster.items(&["pods", "-n", "default"]).is_empty().then_some(()));
}
