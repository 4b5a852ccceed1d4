//! `preview -f` against `kubectl apply`: random manifests, and live objects that others have edited, node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::support::binary::{end, kubectl_ds};
use crate::support::control_plane::{ControlPlane, Options, Part};
use crate::support::random::Random;
use crate::support::sampling::all_is_tried;
use crate::support::say;

/// How many pairs of a live object and a manifest there are on a change, and at night.
const PAIRS: [usize; 2] = [63, 245];

/// How an object was made, and how the manifest is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Both times by `kubectl apply`.
    ClientSide,
    /// Both times by `kubectl apply --server-side`.
    ServerSide,
    /// By `kubectl apply`, and then by `kubectl apply --server-side`.
    Migrated,
    /// By `kubectl create`, and then by `kubectl apply`.
    Created,
    /// By `kubectl apply`, and then by `kubectl replace`.
    Replaced,
}

impl Way {
    fn of(pair: usize) -> Self {
        [Way::ClientSide, Way::ServerSide, Way::ClientSide, Way::Migrated, Way::ServerSide, Way::Created, Way::Replaced]
            [pair % 7]
    }

    /// Returns the flags of the preview; the first two ways are told from the live object.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Way::ClientSide | Way::ServerSide | Way::Created => &[],
            Way::Migrated => &["--server-side"],
            Way::Replaced => &["--replace"],
        }
    }

    fn first(self) -> &'static [&'static str] {
        match self {
            Way::ClientSide | Way::Migrated | Way::Replaced => &["apply"],
            Way::ServerSide => &["apply", "--server-side"],
            Way::Created => &["create"],
        }
    }

    fn second(self) -> &'static [&'static str] {
        match self {
            Way::ClientSide | Way::Created => &["apply"],
            Way::ServerSide | Way::Migrated => &["apply", "--server-side"],
            Way::Replaced => &["replace"],
        }
    }
}

fn daemon_set(random: &mut Random, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": random.word(&["a", "b"])}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
            },
        },
    });
    for _ in 0..8 {
        change(random, &mut object);
    }
    object
}

/// Changes one thing of a DaemonSet, so that it stays valid by itself.
fn change(random: &mut Random, object: &mut Value) {
    let spec = &mut object["spec"];
    let pod = &mut spec["template"]["spec"];
    match random.below(22) {
        0..=2 => {
            let keys = ["disk", "zone"];
            let entries = random.some(2, |random| json!(keys[random.below(2)]));
            let selector: BTreeMap<&str, &str> =
                entries.iter().map(|key| (key.as_str().unwrap(), random.word(&["a", "b"]))).collect();
            set(pod, "nodeSelector", (!selector.is_empty()).then(|| json!(selector)));
        }
        3 | 4 => {
            let operator = random.word(&["In", "NotIn"]);
            let term = json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": [random.word(&["a", "b"])]}]});
            let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
            set(pod, "affinity", random.percent(60).then(|| json!({"nodeAffinity": required})));
        }
        5..=7 => {
            let all = [
                json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}),
                json!({"key": "dedicated", "operator": "Equal", "value": "gpu"}),
                json!({"key": "drain", "operator": "Exists"}),
                json!({"operator": "Exists"}),
            ];
            let tolerations = random.some(2, |random| random.pick(&all).clone());
            set(pod, "tolerations", (!tolerations.is_empty()).then(|| json!(tolerations)));
        }
        8 | 9 => pod["containers"][0]["image"] = json!(random.word(&["agent:1", "agent:2", "agent", "agent:latest"])),
        10 => {
            let policy = random.percent(50).then(|| json!(random.word(&["Always", "IfNotPresent"])));
            set(&mut pod["containers"][0], "imagePullPolicy", policy);
        }
        11 | 12 => {
            let names = ["A", "B", "C"];
            let mut kept = Vec::new();
            for name in names {
                match random.below(10) {
                    0..=3 => kept.push(json!({"name": name, "value": random.word(&["1", "2"])})),
                    4 => kept.push(json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})),
                    _ => {}
                }
            }
            if random.percent(30) {
                kept.reverse();
            }
            set(&mut pod["containers"][0], "env", (!kept.is_empty()).then(|| json!(kept)));
        }
        13 => {
            let all = [
                json!({"name": "dns", "containerPort": 53, "protocol": "UDP"}),
                json!({"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"}),
                json!({"name": "metrics", "containerPort": 9100}),
            ];
            let ports: Vec<Value> = all.into_iter().filter(|_| random.percent(60)).collect();
            set(&mut pod["containers"][0], "ports", (!ports.is_empty()).then(|| json!(ports)));
        }
        14 | 15 => {
            let source = match random.below(3) {
                0 => json!({"name": "data", "emptyDir": {}}),
                1 => json!({"name": "data", "hostPath": {"path": "/data"}}),
                _ => json!({"name": "data", "secret": {"secretName": "data", "optional": true}}),
            };
            let more = json!({"name": "more", "emptyDir": {"medium": "Memory"}});
            let (volumes, mounts) = match random.below(4) {
                0 => (None, None),
                1 => (Some(json!([more, source])), Some(json!([{"name": "more", "mountPath": "/more"}]))),
                _ => (Some(json!([source])), Some(json!([{"name": "data", "mountPath": "/data", "readOnly": true}]))),
            };
            set(pod, "volumes", volumes);
            set(&mut pod["containers"][0], "volumeMounts", mounts);
        }
        16 => {
            let sidecar = json!({"name": "sidecar", "image": random.word(&["log:1", "log:2"])});
            let agent = pod["containers"][0].clone();
            pod["containers"] = match random.below(3) {
                0 => json!([agent]),
                1 => json!([agent, sidecar]),
                _ => json!([agent, {"name": "extra", "image": "extra:1"}, sidecar]),
            };
        }
        17 => {
            let probe = match random.below(3) {
                0 => None,
                1 => Some(json!({"exec": {"command": ["true"]}, "periodSeconds": random.below(3) + 1})),
                _ => Some(json!({"httpGet": {"path": "/", "port": 80}})),
            };
            // A live object may have the other handler: an edit replaces it as a whole.
            set(&mut pod["containers"][0], "livenessProbe", probe);
        }
        18 => {
            let strategy = match random.below(4) {
                0 => None,
                1 => Some(json!({"type": "OnDelete"})),
                2 => Some(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}})),
                _ => Some(json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})),
            };
            set(spec, "updateStrategy", strategy);
        }
        19 => {
            let resources =
                random.percent(60).then(|| json!({"requests": {"cpu": random.word(&["100m", "0.1", "1"])}}));
            set(&mut pod["containers"][0], "resources", resources);
        }
        20 => {
            let grace = random.percent(50).then(|| json!(random.below(60)));
            set(pod, "terminationGracePeriodSeconds", grace);
            let host = random.percent(50).then_some(json!(true));
            set(pod, "hostNetwork", host);
        }
        _ => {
            let note = random.word(&["x", "y"]);
            let annotations = random.percent(60).then(|| json!({"note": note}));
            set(&mut spec["template"]["metadata"], "annotations", annotations);
        }
    }
}

fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => drop(object.as_object_mut().unwrap().remove(field)),
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Runs kubectl on objects of several ways at once; returns the names of those that it did not fail for.
fn run(cluster: &ControlPlane, objects: &[(Way, Value)], verb: fn(Way) -> &'static [&'static str]) -> BTreeSet<String> {
    let verbs: BTreeSet<_> = objects.iter().map(|(way, _)| verb(*way)).collect();
    let mut done = BTreeSet::new();
    for arguments in verbs {
        let items: Vec<Value> =
            objects.iter().filter(|(way, _)| verb(*way) == arguments).map(|(_, object)| object.clone()).collect();
        let output = cluster.try_kubectl(&[arguments, &["-f", "-"]].concat(), Some(&list(&items)));
        let printed = String::from_utf8(output.stdout).unwrap();
        done.extend(
            printed
                .lines()
                .filter_map(|line| Some(line.strip_prefix("daemonset.apps/")?.split_whitespace().next()?.to_owned())),
        );
    }
    done
}

/// What the control plane has made of a DaemonSet.
struct Settled {
    /// The nodes with a pod.
    nodes: BTreeSet<String>,
    /// The name of the current revision.
    revision: String,
    object: Value,
    pods: Vec<Value>,
}

/// Waits until the controller has done what it does.
fn settle(cluster: &ControlPlane) -> BTreeMap<String, Settled> {
    let start = std::time::Instant::now();
    cluster.wait_until("the controller has synced every DaemonSet", || {
        let all = cluster.items(&["ds,pods,controllerrevisions", "-n", "default", "--show-managed-fields"]);
        let of = |kind: &str| all.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
        let (pods, revisions) = (of("Pod"), of("ControllerRevision"));
        let mut settled = BTreeMap::new();
        for object in of("DaemonSet") {
            let is_own = |other: &&Value| other["metadata"]["ownerReferences"][0]["uid"] == object["metadata"]["uid"];
            let pods: Vec<Value> = pods.iter().filter(is_own).cloned().collect();
            let revision = revisions.iter().filter(is_own).max_by_key(|revision| revision["revision"].as_i64())?;
            let status = &object["status"];
            let desired = status["desiredNumberScheduled"].as_u64()?;
            let is_rolled_out = object["spec"]["updateStrategy"]["type"] == "OnDelete"
                || status["updatedNumberScheduled"].as_u64().unwrap_or(0) == desired;
            if status["observedGeneration"] != object["metadata"]["generation"]
                || desired != pods.len() as u64
                || !is_rolled_out
            {
                let pods: Vec<&Value> = pods.iter().map(|pod| &pod["metadata"]).collect();
                assert!(
                    start.elapsed().as_secs() < 100,
                    "{object} is not settled: {} has {pods:?}",
                    revision["metadata"]
                );
                return None;
            }
            let node = |pod: &Value| {
                let terms =
                    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
                pod.pointer(&format!("{terms}/0/matchFields/0/values/0")).unwrap().as_str().unwrap().to_owned()
            };
            let (nodes, revision) = (pods.iter().map(node).collect(), name_of(revision).to_owned());
            settled.insert(name_of(&object).to_owned(), Settled { nodes, revision, object, pods });
        }
        Some(settled)
    })
}

#[test]
fn a_preview_is_what_kubectl_makes_of_random_manifests_and_edited_objects() {
    let controllers = vec!["--controllers=daemonset-controller,serviceaccount-controller".to_owned()];
    let parts = vec![Part::ControllerManager];
    let cluster = ControlPlane::start(Options { parts, controller_manager_flags: controllers, ..Options::whole() });
    for (name, labels, taints) in [
        ("plain", json!({}), json!([])),
        ("ssd-a", json!({"disk": "a", "zone": "a"}), json!([])),
        ("ssd-b", json!({"disk": "a", "zone": "b"}), json!([])),
        ("hdd-b", json!({"disk": "b", "zone": "b"}), json!([{"key": "drain", "effect": "NoExecute"}])),
        (
            "gpu-a",
            json!({"disk": "b", "zone": "a"}),
            json!([{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}]),
        ),
    ] {
        cluster.create(
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}).to_string(),
        );
        // Admission has added that it is not ready.
        let taints = json!({"spec": {"taints": taints}}).to_string();
        cluster.kubectl(&["patch", "node", name, "--type=merge", "-p", &taints]);
    }
    let nodes = cluster.items(&["nodes"]);

    let seed = std::env::var("KUBECTL_DS_SEED").map_or(27, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let pairs = PAIRS[usize::from(all_is_tried())];
    let bases: Vec<(Way, Value)> =
        (0..pairs).map(|pair| (Way::of(pair), daemon_set(&mut random, &format!("ds-{pair}")))).collect();
    let created = run(&cluster, &bases, Way::first);
    assert_eq!(created.len(), pairs, "the generator makes valid objects");
    let mut edits = Vec::new();
    for (name, mut live) in settle(&cluster).into_iter().map(|(name, settled)| (name, settled.object)) {
        let pair: usize = name[3..].parse().unwrap();
        if random.percent(70) {
            for _ in 0..random.below(3) + 1 {
                change(&mut random, &mut live);
            }
            if random.percent(30) {
                live["spec"]["template"]["metadata"]["annotations"] =
                    json!({"kubectl.kubernetes.io/restartedAt": "now"});
            }
            edits.push((Way::of(pair), live));
        }
    }
    let edited = run(&cluster, &edits, |_| &["replace", "--field-manager=editor"]);
    let before = settle(&cluster);
    let manifests: Vec<(Way, Value)> = bases
        .into_iter()
        .map(|(way, mut manifest)| {
            for _ in 0..random.below(4) {
                change(&mut random, &mut manifest);
            }
            (way, manifest)
        })
        .collect();

    let folder = tempfile::tempdir().unwrap();
    let mut previews = BTreeMap::new();
    for (way, manifest) in &manifests {
        let live = &before[name_of(manifest)];
        let dump = folder.path().join("dump.json");
        let items = [&nodes[..], std::slice::from_ref(&live.object), &live.pods[..]].concat();
        fs::write(&dump, list(&items)).unwrap();
        let preview = |source: [&str; 2]| {
            let arguments = [&["preview", "-f", "-", "-o", "json"], way.flags(), &source[..]].concat();
            end(kubectl_ds(&arguments), Some(manifest.to_string().as_bytes()))
        };
        let online = preview(["--kubeconfig", cluster.kubeconfig().to_str().unwrap()]);
        let offline = preview(["--from", dump.to_str().unwrap()]);
        previews.insert(name_of(manifest).to_owned(), [online, offline]);
    }

    let applied = run(&cluster, &manifests, Way::second);
    let after = settle(&cluster);
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<String, usize>::new());
    for (way, manifest) in &manifests {
        let name = name_of(manifest);
        let (before, after) = (&before[name], &after[name]);
        for (place, preview) in ["live", "dump"].into_iter().zip(&previews[name]) {
            let mut complain = |problem: String| {
                wrong.push(format!(
                    "{name}, {way:?}, {place}: {problem}\n  manifest: {}\n  before: {}\n  after: {}",
                    manifest["spec"], before.object["spec"], after.object["spec"]
                ));
            };
            if !applied.contains(name) {
                // A conflict of managers is not looked for in a dump.
                if preview.code == Some(0) && place == "live" {
                    complain("kubectl fails, and the preview does not".to_owned());
                }
                *counts.entry(format!("{way:?} refused")).or_default() += 1;
                continue;
            }
            if preview.code != Some(0) {
                complain(format!("kubectl succeeds, and the preview fails: {}", preview.err));
                continue;
            }
            let report: Value = serde_json::from_str(&preview.out).unwrap();
            let report = &report["daemonSets"][0];
            let expected: BTreeMap<&str, &str> = nodes
                .iter()
                .map(|node| match (before.nodes.contains(name_of(node)), after.nodes.contains(name_of(node))) {
                    (true, true) => (name_of(node), "Keeps"),
                    (false, true) => (name_of(node), "Gains"),
                    (true, false) => (name_of(node), "Loses"),
                    (false, false) => (name_of(node), "None"),
                })
                .collect();
            let found: BTreeMap<&str, &str> = report["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|node| {
                    // A pod that does not fit is created, too, and stays pending.
                    let is_pending = node["change"] == "None" && node["fits"] == false;
                    let change = if is_pending { "Gains" } else { node["change"].as_str().unwrap() };
                    (node["name"].as_str().unwrap(), change)
                })
                .collect();
            let changes = before.revision != after.revision;
            if found != expected {
                complain(format!("expected {expected:?}, found {found:?}"));
            } else if report["templateChanges"] != changes {
                complain(format!("the template changes: {changes}"));
            }
            *counts.entry(format!("{way:?}, template changes: {changes}")).or_default() += 1;
            *counts.entry("nodes gained or lost".to_owned()).or_default() +=
                found.values().filter(|change| matches!(**change, "Gains" | "Loses")).count();
        }
    }
    say(&format!(
        "{pairs} pairs of seed {seed}, {} of them edited, {} refused: {counts:?}",
        edited.len(),
        pairs - applied.len()
    ));
    assert!(applied.len() * 6 >= pairs * 5, "{} were applied", applied.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), 2 * pairs, wrong.join("\n"));
}
