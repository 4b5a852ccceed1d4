//! A cluster in which nearly every DaemonSet has a different problem, each caused by the real control plane; the
//! manifests are in `tests/fixtures/faulty-cluster`.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::agreement::World;
use super::control_plane::{ControlPlane, Options, Part, kubernetes, kubernetes_is_at_least};
use super::expectations::{EXPECTATIONS, Expectation};
use super::objects::{by_name, condition, owner, said_about};
use super::say;

/// A trouble that only some releases can have.
struct Since {
    minor: u32,
    /// The manifest that only those releases take.
    file: &'static str,
    daemon_set: &'static str,
    why: &'static str,
}

const SINCE: &[Since] = &[
    Since {
        minor: 34,
        file: "devices.yaml",
        daemon_set: "networking/smartnic-agent",
        why: "resource.k8s.io/v1 is there since 1.34",
    },
    Since {
        minor: 35,
        file: "comparisons.yaml",
        daemon_set: "lab/reliability-probe",
        why: "tolerations compare numbers since 1.35",
    },
    Since {
        minor: 36,
        file: "features.yaml",
        daemon_set: "lab/restarts-together",
        why: "the scheduler looks at declared features since 1.36",
    },
];

/// The DaemonSet whose status is stale for good.
pub const STALE: &str = "lab/rack-lights";

/// Tells whether the release that is tested against can give a DaemonSet's trouble.
pub fn can_be_had(daemon_set: &str) -> bool {
    SINCE.iter().all(|since| since.daemon_set != daemon_set || kubernetes_is_at_least(since.minor))
}

/// Returns the expectations that the release which is tested against can meet.
pub fn expectations() -> impl Iterator<Item = &'static Expectation> {
    EXPECTATIONS.iter().filter(|expectation| can_be_had(expectation.daemon_set))
}

/// What a cluster was like at one moment.
pub struct Settled {
    /// The objects that a dump holds, without `managedFields` but for those of revisions.
    pub items: Vec<Value>,
    /// What `coverage` said of every DaemonSet and node.
    pub report: Value,
}

impl Settled {
    /// Reads objects and report so that nothing that matters changes in between.
    pub fn at_once(cluster: &ControlPlane) -> Self {
        cluster.wait_until("nothing changes for a moment", || {
            let before = items(cluster);
            let report = coverage(cluster);
            let after = items(cluster);
            (World::new(&before).versions() == World::new(&after).versions())
                .then_some(Settled { items: after, report })
        })
    }
}

/// Returns the objects that a dump holds.
pub fn items(cluster: &ControlPlane) -> Vec<Value> {
    const KINDS: &str = "daemonsets.apps,controllerrevisions.apps,nodes,pods,events,limitranges,\
                         runtimeclasses.node.k8s.io,priorityclasses.scheduling.k8s.io";
    let lease = ["leases", "-n", "kube-system", "--field-selector=metadata.name=kube-controller-manager"];
    let mut items = cluster.items(&[KINDS, "-A", "--show-managed-fields"]);
    items.extend(cluster.items(&lease));
    // They are as long as all the rest. Of a revision they say when it was rolled out.
    for item in items.iter_mut().filter(|item| item["kind"] != "ControllerRevision") {
        item["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    items
}

/// Returns what the program reports of every DaemonSet and node of a live cluster.
pub fn coverage(cluster: &ControlPlane) -> Value {
    coverage_with(&["--kubeconfig", cluster.kubeconfig().to_str().unwrap()])
}

/// Returns what the program reports of every DaemonSet and node of the cluster or dump that the
/// arguments name.
pub fn coverage_with(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(["coverage", "-A", "--nodes", "-o", "json"])
        .args(args)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "coverage {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The faulty cluster, for as long as one test needs it for itself.
pub struct FaultyCluster {
    /// What it was like when it had settled, and what `coverage` said of it then.
    pub settled: &'static Settled,
    control_plane: &'static ControlPlane,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for FaultyCluster {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.control_plane
    }
}

/// Returns the faulty cluster once no other test has it; the first call starts it, and it ends
/// with the process. What is done to it stays done.
pub fn faulty_cluster() -> FaultyCluster {
    static CLUSTER: OnceLock<(ControlPlane, Settled)> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    static TRIED: AtomicBool = AtomicBool::new(false);
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (control_plane, settled) = CLUSTER.get_or_init(|| {
        assert!(!TRIED.swap(true, Ordering::Relaxed), "it did not settle; the first test that failed says why");
        let cluster = start();
        let settled = Settled::at_once(&cluster);
        (cluster, settled)
    });
    FaultyCluster { control_plane, settled, _turn: turn }
}

/// Starts a control plane, fills it, and waits until every trouble has come about.
fn start() -> ControlPlane {
    let start = Instant::now();
    let mut api_server_flags = vec!["--enable-admission-plugins=PodNodeSelector".to_owned()];
    if kubernetes_is_at_least(35) {
        api_server_flags.push("--feature-gates=TaintTolerationComparisonOperators=true".to_owned());
    }
    let cluster = ControlPlane::start(Options {
        parts: [Options::whole().parts, vec![Part::Webhook]].concat(),
        api_server_flags,
        controller_manager_flags: vec![
            // A dead node is to be noticed soon, but not one that only had to wait for a processor.
            "--node-monitor-grace-period=20s".to_owned(),
            "--node-monitor-period=1s".to_owned(),
            // The pods of a deleted node are to stay.
            "--controllers=*,-pod-garbage-collector-controller".to_owned(),
        ],
        ..Options::whole()
    });
    create_objects(&cluster);
    wait_for_first_revisions(&cluster);
    change(&cluster);
    report_events(&cluster);
    wait_for(&cluster, "every trouble has come about", || missing_troubles(&cluster));
    say(&format!("the faulty cluster has settled after {:.1?}", start.elapsed()));
    cluster
}

fn manifest(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faulty-cluster").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn create_objects(cluster: &ControlPlane) {
    cluster.create(&manifest("nodes.yaml"));
    let (url, certificate) = cluster.webhook();
    let policies = manifest("policies.yaml");
    cluster.create(&policies.replace("${WEBHOOK_URL}", &url).replace("${WEBHOOK_CERTIFICATE}", &certificate));
    cluster.wait_until("every namespace has its account", || {
        let accounts = cluster.items(&["serviceaccounts", "-A"]);
        let namespaces = cluster.items(&["namespaces"]);
        (accounts.iter().filter(|account| account["metadata"]["name"] == "default").count() == namespaces.len())
            .then_some(())
    });
    cluster.create(&manifest("workloads.yaml"));
    cluster.wait_until("the nodes and the pods in the way are there", || {
        let nodes = cluster.items(&["nodes"]);
        let pods = cluster.items(&["pods", "-n", "shop"]);
        (nodes.iter().all(|node| condition(node, "Ready")["status"] == "True")
            && has_taint(&nodes, "fresh-1", "node.kubernetes.io/network-unavailable")
            && has_taint(&nodes, "worker-a4", "node.kubernetes.io/memory-pressure")
            && !nodes.iter().any(|node| has_any_taint(node, "node.kubernetes.io/not-ready"))
            && pods.iter().all(|pod| pod["status"]["phase"] == "Running"))
        .then_some(())
    });
    // Nothing tells when a policy has come into force but its effect; pods that are created before are never refused.
    cluster.wait_until("the policies are in force", || {
        let is_refused = |namespace: &&str| {
            let probe = ["run", "probe", "--image=probe", "--dry-run=server", "-n", namespace];
            let refusal = cluster.try_kubectl(&probe, None).stderr;
            String::from_utf8_lossy(&refusal).contains("ValidatingAdmissionPolicy")
        };
        ["governed", "misgoverned"].iter().all(is_refused).then_some(())
    });
    for file in ["creation.yaml", "scheduling.yaml", "eligibility.yaml", "kubelets.yaml", "rollouts.yaml"] {
        cluster.create(&manifest(file));
    }
    for since in SINCE {
        if kubernetes_is_at_least(since.minor) {
            cluster.create(&manifest(since.file));
        } else {
            say(&format!("left out {} on Kubernetes {}: {}", since.daemon_set, kubernetes(), since.why));
        }
    }
}

/// Waits until everything runs that is to run before it is changed.
fn wait_for_first_revisions(cluster: &ControlPlane) {
    wait_for(cluster, "the first revisions run", || {
        let daemon_sets = by_name(cluster.items(&["daemonsets", "-A"]));
        let mut missing = Vec::new();
        let mut need_ready = |name: &str, lacking: i64| {
            let status = &daemon_sets[name]["status"];
            let desired = status["desiredNumberScheduled"].as_i64().unwrap_or(0);
            if desired == 0 || status["numberReady"].as_i64() != Some(desired - lacking) {
                missing.push(format!("{name} has {} ready pods of {desired} less {lacking}", status["numberReady"]));
            }
        };
        by_name_of(&manifest("rollouts.yaml")).iter().for_each(|name| need_ready(name, 0));
        for name in ["logging/fluent-bit", "networking/cni", "lab/held"] {
            need_ready(name, 0);
        }
        need_ready("kube-system/kube-proxy", 1);
        need_ready("monitoring/node-exporter", 2);
        for name in ["lab/rack-lights", "lab/lingering"] {
            if daemon_sets[name]["status"]["currentNumberScheduled"] != 1 {
                missing.push(format!("{name} has no pod"));
            }
        }
        missing
    });
}

/// Lets nodes fall ill, changes DaemonSets and deletes pods.
fn change(cluster: &ControlPlane) {
    // spot-a1's kubelet falls silent; that takes longest to show, so it comes first.
    cluster.kubectl(&["label", "node", "spot-a1", "type-"]);
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False",
        "reason": "KubeletNotReady", "message": "container runtime is down"}]}});
    cluster.kubectl(&["patch", "node", "broken-1", "--subresource=status", "-p", &not_ready.to_string()]);
    cluster.kubectl(&["cordon", "worker-b4"]);
    cluster.kubectl(&["taint", "node", "spot-b1", "example.com/upgrade=soon:NoSchedule"]);
    cluster.kubectl(&["label", "node", "arm-c1", "lights-"]);
    cluster.kubectl(&["delete", "node", "spot-c1"]);

    let second = manifest("second-revisions.yaml");
    let args = ["replace", "-f", "-"];
    let output = cluster.try_kubectl(&args, Some(&second));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster.kubectl(&["delete", "daemonset", "inherited", "-n", "lab", "--cascade=orphan"]);
    cluster.create(&manifest("inherited.yaml"));

    cluster.kubectl(&["delete", "pods", "-n", "lab", "-l", "app in (held, lingering)", "--wait=false"]);
    cluster.kubectl(&["delete", "daemonset", "leaving", "-n", "lab", "--wait=false"]);
    cluster.kubectl(&["delete", "pods", "-n", "lab", "-l", "app=leaving", "--field-selector=spec.nodeName=edge-1"]);
    let mut twin =
        cluster.items(&["pods", "-n", "lab", "-l", "app=leaving", "--field-selector=spec.nodeName=edge-2"]).remove(0);
    twin["metadata"] = json!({"name": "leaving-twin", "namespace": "lab", "labels": twin["metadata"]["labels"],
        "ownerReferences": twin["metadata"]["ownerReferences"]});
    cluster.create(&twin.to_string());
    cluster.wait_until("broken-1 has its taint", || {
        has_taint(&cluster.items(&["nodes"]), "broken-1", "node.kubernetes.io/not-ready").then_some(())
    });
    // A pod that is lost there is not made again.
    cluster.kubectl(&[
        "delete",
        "pods",
        "-n",
        "logging",
        "-l",
        "app=fluent-bit",
        "--field-selector=spec.nodeName=broken-1",
    ]);
}

/// Writes the events that kubelets would write; KWOK has none to tell.
fn report_events(cluster: &ControlPlane) {
    const SAID: [(&str, &str, &str, &str); 3] = [
        (
            "storage",
            "mounts-secret",
            "FailedMount",
            "MountVolume.SetUp failed for volume \"token\" : secret \"absent\" not found",
        ),
        (
            "networking",
            "no-addresses",
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: plugin type=\"host-local\" failed (add): no IP addresses available in range set: 10.1.0.1-10.1.0.254",
        ),
        ("monitoring", "never-ready", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
    ];
    let mut items = Vec::new();
    for (namespace, app, reason, message) in SAID {
        for pod in cluster.items(&["pods", "-n", namespace, "-l", &format!("app={app}")]) {
            let (name, node) = (pod["metadata"]["name"].as_str().unwrap(), &pod["spec"]["nodeName"]);
            let time = &pod["metadata"]["creationTimestamp"];
            items.push(json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": format!("{name}.{}", reason.to_lowercase()), "namespace": namespace},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name,
                    "uid": pod["metadata"]["uid"], "fieldPath": "spec.containers{agent}"},
                "type": "Warning", "reason": reason, "message": message,
                "source": {"component": "kubelet", "host": node},
                "count": 4, "firstTimestamp": time, "lastTimestamp": time,
            }));
        }
    }
    cluster.create(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
}

/// Waits until nothing is missing, and says what is on the way there.
fn wait_for(cluster: &ControlPlane, what: &str, missing: impl Fn() -> Vec<String>) {
    let mut said = Vec::new();
    cluster.wait_until(what, || {
        let missing = missing();
        if missing != said {
            say(&format!(
                "until {what}: {} to go, {}",
                missing.len(),
                missing.iter().take(6).cloned().collect::<Vec<_>>().join("; ")
            ));
            said = missing;
        }
        said.is_empty().then_some(())
    });
}

/// Returns what is still to come about, in words.
fn missing_troubles(cluster: &ControlPlane) -> Vec<String> {
    let nodes = cluster.items(&["nodes"]);
    let pods = cluster.items(&["pods", "-A"]);
    let events = cluster.items(&["events", "-A"]);
    let daemon_sets = by_name(cluster.items(&["daemonsets", "-A"]));
    let mut missing = Vec::new();
    let mut need = |what: &str, is_there: bool| {
        if !is_there {
            missing.push(what.to_owned());
        }
    };

    let said = said_about(&pods, &events);
    for expectation in expectations() {
        let words = said.get(expectation.daemon_set).map(Vec::as_slice).unwrap_or_default();
        let count = words.iter().filter(|words| words.contains(expectation.evidence)).count();
        // Events about what cannot be made are one per DaemonSet, those about pods one per pod.
        need(
            &format!("{}: {}", expectation.daemon_set, expectation.evidence),
            expectation.evidence.is_empty() || count > 0,
        );
    }
    for (name, daemon_set) in &daemon_sets {
        let observed = daemon_set["status"]["observedGeneration"] == daemon_set["metadata"]["generation"];
        need(&format!("{name} is observed"), observed || name == "lab/leaving");
    }
    need("spot-a1 is unreachable", has_taint(&nodes, "spot-a1", "node.kubernetes.io/unreachable"));
    need("worker-b4 is cordoned", has_taint(&nodes, "worker-b4", "node.kubernetes.io/unschedulable"));

    let of = |name: &str| -> Vec<&Value> { pods.iter().filter(|pod| owner(pod).as_deref() == Some(name)).collect() };
    for pod in &pods {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let name = pod["metadata"]["name"].as_str().unwrap();
        if node == "spot-a1" {
            need(&format!("{name} is not ready"), condition(pod, "Ready")["status"] != "True");
        } else if !node.is_empty() {
            need(&format!("{name} is started"), !pod["status"]["startTime"].is_null());
        } else {
            let said = !pod["status"]["conditions"].is_null();
            let silent = ["lab/custom-scheduled", "lab/rack-lights"].contains(&owner(pod).unwrap_or_default().as_str());
            need(&format!("{name} is scheduled or refused"), said || silent);
        }
    }
    let outdated = |name: &str| of(name).iter().filter(|pod| container_image(pod).ends_with(":1")).count();
    need(
        "two nodes have half-way's new pod",
        outdated("monitoring/half-way") == 8 && of("monitoring/half-way").len() == 10,
    );
    need("two nodes surge", of("networking/surging").len() == 6);
    need("port-holder surges", of("networking/port-holder").len() == 5);
    need("blocked-rollout has begun", outdated("lab/blocked-rollout") == 2 && of("lab/blocked-rollout").len() == 3);
    need("inherited has adopted", of("lab/inherited").len() == 3);
    need(
        "held is past its grace period",
        of("lab/held").iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()),
    );
    need("leaving is being deleted", !daemon_sets["lab/leaving"]["metadata"]["deletionTimestamp"].is_null());
    missing
}

/// Returns namespace and name of each DaemonSet of a manifest of ours.
fn by_name_of(manifest: &str) -> Vec<String> {
    let metadata = manifest.lines().filter_map(|line| line.strip_prefix("metadata: {name: "));
    metadata
        .map(|metadata| {
            let (name, rest) = metadata.split_once(", namespace: ").expect("name and namespace");
            format!("{}/{name}", rest.split([',', '}']).next().unwrap())
        })
        .collect()
}

fn container_image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

fn has_any_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
}

fn has_taint(nodes: &[Value], node: &str, key: &str) -> bool {
    nodes.iter().any(|candidate| candidate["metadata"]["name"] == node && has_any_taint(candidate, key))
}
