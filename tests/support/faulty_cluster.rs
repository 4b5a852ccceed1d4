//! A cluster in which nearly every DaemonSet has a trouble of its own, each caused by the real
//! control plane; the manifests lie in `tests/fixtures/faulty-cluster`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use kubectl_ds::report::reason::ReasonCode::{self, *};
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Options, kubernetes, kubernetes_is_at_least};
use super::say;

/// What is known of a DaemonSet before anybody looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Expectation {
    /// Namespace and name of the DaemonSet, with a slash between.
    pub daemon_set: &'static str,
    /// The reason that has to come first.
    pub code: ReasonCode,
    /// The nodes for which it has to.
    pub nodes: Nodes,
    /// Words of the control plane itself, in an event or a pod's status, that have to be there
    /// before the cluster counts as settled; empty where it says nothing.
    pub evidence: &'static str,
}

/// Some of the cluster's nodes.
#[derive(Debug, Clone, Copy)]
pub enum Nodes {
    /// These.
    Are(&'static [&'static str]),
    /// As many as this; chance decides which.
    Number(usize),
}

use Nodes::{Are, Number};

const fn expect(daemon_set: &'static str, code: ReasonCode, nodes: Nodes, evidence: &'static str) -> Expectation {
    Expectation { daemon_set, code, nodes, evidence }
}

const ZONE_A: Nodes = Are(&["worker-a1", "worker-a2", "worker-a3", "worker-a4"]);
const ZONE_B: Nodes = Are(&["worker-b1", "worker-b2", "worker-b3", "worker-b4"]);
const ZONE_C: Nodes = Are(&["worker-c1", "worker-c2"]);
const GENERAL: Nodes = Are(&[
    "worker-a1",
    "worker-a2",
    "worker-a3",
    "worker-a4",
    "worker-b1",
    "worker-b2",
    "worker-b3",
    "worker-b4",
    "worker-c1",
    "worker-c2",
]);
const GPU: Nodes = Are(&["gpu-a1", "gpu-b1"]);
const EDGE: Nodes = Are(&["edge-1", "edge-2", "edge-3"]);

/// Every trouble, by the file its DaemonSet is in.
pub const EXPECTATIONS: &[Expectation] = &[
    // creation.yaml
    expect("payments/audit-agent", QuotaExceeded, Number(7), "exceeded quota: few-pods"),
    expect("ledger/bookkeeper", QuotaExceeded, ZONE_A, "failed quota: memory: must specify limits.memory"),
    expect("research/model-cache", LimitRangeViolation, GPU, "maximum memory usage per Container is 1Gi"),
    expect("research/heartbeat", LimitRangeViolation, GPU, "minimum cpu usage per Container is 50m"),
    expect("research/sampler", LimitRangeViolation, GPU, "max limit to request ratio per Container is 4"),
    expect("frugal/indexer", PodSpecRejected, ZONE_C, "must be less than or equal to memory limit"),
    expect("hardened/file-monitor", PodSecurityDenied, GENERAL, "violates PodSecurity \"restricted:latest\""),
    expect("governed/nameless", WebhookDenied, ZONE_C, "ValidatingAdmissionPolicy 'owner-label'"),
    expect("misgoverned/accountant", WebhookDenied, ZONE_C, "ValidatingAdmissionPolicy 'cost-center'"),
    expect("scanned/image-gc", WebhookUnavailable, EDGE, "failed calling webhook \"images.scanner.example.com\""),
    expect("storage/csi-node", ServiceAccountMissing, GENERAL, "error looking up service account storage/csi-node"),
    expect("lab/urgent", PriorityClassMissing, EDGE, "no PriorityClass with name mission-critical was found"),
    expect("lab/sandboxed", RuntimeClassMissing, EDGE, "RuntimeClass \"firecracker\" not found"),
    expect("lab/torn-by-runtime", PodSpecRejected, Are(&["arm-c1"]), "conflict: runtimeClass.scheduling"),
    expect("blue/torn-by-team", PodSpecRejected, Are(&["worker-b1"]), "pod node label selector conflicts"),
    // scheduling.yaml
    expect("networking/packet-inspector", InsufficientResource, Are(&["worker-b1"]), "1 Insufficient cpu"),
    expect("logging/log-buffer", InsufficientResource, Are(&["worker-b2"]), "1 Insufficient memory"),
    expect("lab/isolated-agent", NeverFits, EDGE, "1 Insufficient cpu"),
    expect("gpu/fpga-plugin", NeverFits, GPU, "1 Insufficient example.com/fpga"),
    expect("monitoring/queue-metrics", TooManyPods, Are(&["batch-1"]), "1 Too many pods"),
    expect("monitoring/node-exporter", HostPortConflict, Are(&["worker-a1"]), "free ports for the requested pod ports"),
    expect("lab/quiet-please", PodAffinityBlocked, Are(&["worker-a2"]), "match pod anti-affinity rules"),
    expect("lab/spread-over-racks", PodAffinityBlocked, EDGE, "topology spread constraints (missing required label)"),
    expect("lab/awaiting-approval", SchedulingGated, EDGE, "Scheduling is blocked due to non-empty scheduling gates"),
    expect("lab/custom-scheduled", SchedulerSilent, EDGE, ""),
    expect(
        "blue/team-agent",
        InjectedNodeSelector,
        Are(&["worker-a3", "worker-a4", "worker-b1", "worker-b2", "worker-b3", "worker-b4", "worker-c1", "worker-c2"]),
        "1 node(s) didn't match Pod's node affinity/selector",
    ),
    expect("storage/claims-nothing", VolumeUnsatisfiable, EDGE, "persistentvolumeclaim \"absent\" not found"),
    expect("storage/claims-unbound", VolumeUnsatisfiable, EDGE, "unbound immediate PersistentVolumeClaims"),
    expect(
        "storage/zonal-cache",
        VolumeUnsatisfiable,
        Are(&["gpu-b1"]),
        "didn't match PersistentVolume's node affinity",
    ),
    expect("storage/storage-node", WaitingForPreemption, Are(&["worker-c1"]), "worker-c1"),
    // eligibility.yaml
    expect(
        "logging/fluent-bit",
        UntoleratedNoSchedule,
        Are(&["gpu-a1", "gpu-b1", "windows-1", "control-1", "batch-1"]),
        "",
    ),
    expect("logging/fluent-bit", UntoleratedNoExecute, Are(&["maintenance-1"]), ""),
    expect("logging/fluent-bit", NetworkUnavailable, Are(&["fresh-1"]), ""),
    expect("logging/fluent-bit", NodeNotReadyTaint, Are(&["broken-1"]), ""),
    expect("logging/fluent-bit", Misscheduled, Are(&["spot-b1"]), ""),
    expect("kube-system/kube-proxy", NodeUnreachable, Are(&["spot-a1"]), ""),
    expect("kube-system/kube-proxy", TooManyPods, Are(&["batch-1"]), "1 Too many pods"),
    expect("gpu/device-plugin", UntoleratedNoSchedule, GPU, ""),
    expect("gpu/dcgm-exporter", NodeSelectorLabelMissing, GPU, ""),
    expect("lab/zone-profiler", NodeSelectorLabelMissing, ZONE_C, ""),
    expect("lab/shop-gateway", NodeSelectorValueMismatch, EDGE, ""),
    expect("lab/modern-hardware", AffinityTermMismatch, Are(&["worker-b1", "worker-b2"]), ""),
    expect("lab/newest-hardware", AffinityTermInvalid, Are(&["worker-a1"]), ""),
    expect("lab/nowhere", AffinityEmptyTerms, Are(&["worker-a1"]), ""),
    expect("lab/pinned", NodeNameMismatch, Are(&["worker-a1"]), ""),
    expect("lab/all-but-one", AffinityTermMismatch, Are(&["worker-a4"]), ""),
    expect("lab/rack-lights", PodOnIneligibleNode, Are(&["arm-c1"]), ""),
    // kubelets.yaml
    expect("monitoring/crasher", CrashLooping, ZONE_A, "CrashLoopBackOff"),
    expect("monitoring/memory-hog", OOMKilled, ZONE_B, "OOMKilled"),
    expect("monitoring/typo-in-tag", ImagePullFailed, ZONE_C, "ImagePullBackOff"),
    expect("monitoring/private-image", ImagePullFailed, EDGE, "ErrImagePull"),
    expect("lab/bad-image-name", ImagePullFailed, EDGE, "InvalidImageName"),
    expect("logging/no-config", ContainerConfigError, EDGE, "CreateContainerConfigError"),
    expect("lab/no-command", ContainerConfigError, EDGE, "CreateContainerError"),
    expect("networking/waits-for-dns", InitBlocked, EDGE, "PodInitializing"),
    expect("networking/broken-sidecar", CrashLooping, ZONE_C, "restarting failed container=proxy"),
    expect("monitoring/never-ready", ReadinessFailing, EDGE, "Readiness probe failed"),
    expect("networking/gated-by-balancer", ReadinessGate, EDGE, "ReadinessGatesNotReady"),
    expect("lab/slow-start", ContainersStarting, Are(&["arm-c1"]), "ContainerCreating"),
    expect("storage/mounts-secret", MountFailed, EDGE, "secret \"absent\" not found"),
    expect("networking/no-addresses", SandboxFailed, EDGE, "no IP addresses available"),
    expect("lab/rejected", KubeletRejected, Are(&["edge-1"]), "OutOfcpu"),
    expect("lab/evicted", Evicted, Are(&["edge-1"]), "Evicted"),
    expect("lab/shut-down", KubeletRejected, Are(&["edge-2"]), "NodeShutdown"),
    expect("lab/completes", CrashLooping, Are(&["edge-2"]), "Completed"),
    expect("lab/patient", NotYetAvailable, EDGE, ""),
    expect("lab/held", StuckTerminating, EDGE, ""),
    expect("lab/lingering", Terminating, Are(&["edge-2"]), ""),
    // rollouts.yaml
    expect("monitoring/half-way", CrashLooping, Number(2), "restarting failed container=agent"),
    expect("lab/blocked-rollout", NeverFits, Number(1), "1 Insufficient memory"),
    expect("lab/leaving", DaemonSetDeleting, Are(&["edge-1"]), ""),
    // devices.yaml
    expect("networking/smartnic-agent", DeviceClaimUnsatisfied, EDGE, "cannot allocate all claims"),
];

/// A DaemonSet that only some releases can have.
struct Since {
    minor: u32,
    file: &'static str,
    daemon_set: &'static str,
    why: &'static str,
}

const SINCE: &[Since] = &[Since {
    minor: 34,
    file: "devices.yaml",
    daemon_set: "networking/smartnic-agent",
    why: "resource.k8s.io/v1 is there since 1.34",
}];

/// Returns the expectations that the release which is tested against can meet.
pub fn expectations() -> impl Iterator<Item = &'static Expectation> {
    EXPECTATIONS.iter().filter(|expectation| {
        SINCE.iter().all(|since| since.daemon_set != expectation.daemon_set || kubernetes_is_at_least(since.minor))
    })
}

/// Returns the faulty cluster, which the first call starts and settles; it ends with the process.
pub fn shared() -> &'static ControlPlane {
    static CLUSTER: OnceLock<ControlPlane> = OnceLock::new();
    CLUSTER.get_or_init(start)
}

/// Starts a control plane, fills it, and waits until every trouble has come about.
pub fn start() -> ControlPlane {
    let start = Instant::now();
    let cluster = ControlPlane::start(Options {
        api_server_flags: vec!["--enable-admission-plugins=PodNodeSelector".to_owned()],
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
    cluster.create(&manifest("policies.yaml"));
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
        for name in ["logging/fluent-bit", "networking/cni", "lab/held", "lab/lingering"] {
            need_ready(name, 0);
        }
        need_ready("kube-system/kube-proxy", 1);
        need_ready("monitoring/node-exporter", 2);
        if daemon_sets["lab/rack-lights"]["status"]["currentNumberScheduled"] != 1 {
            missing.push("lab/rack-lights has a pod".to_owned());
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

/// Returns what events and pods' statuses say, by the DaemonSet that it is about.
fn said_about(pods: &[Value], events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut owners = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = owner(pod) {
            strings(&pod["status"], said.entry(owner.clone()).or_default());
            owners.insert(pod["metadata"]["uid"].as_str().unwrap().to_owned(), owner);
        }
    }
    for event in events {
        let object = &event["involvedObject"];
        let about = if object["kind"] == "DaemonSet" {
            Some(format!("{}/{}", object["namespace"].as_str().unwrap(), object["name"].as_str().unwrap()))
        } else {
            object["uid"].as_str().and_then(|uid| owners.get(uid).cloned())
        };
        if let (Some(about), Some(message)) = (about, event["message"].as_str()) {
            said.entry(about).or_default().push(message.to_owned());
        }
    }
    said
}

/// Adds every string in a value.
fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        _ => {}
    }
}

/// Returns namespace and name of the DaemonSet that controls a pod.
pub fn owner(pod: &Value) -> Option<String> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "DaemonSet")?;
    Some(format!("{}/{}", pod["metadata"]["namespace"].as_str()?, controller["name"].as_str()?))
}

/// Returns a condition of a node or pod, or null.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// Returns objects by namespace and name, with a slash between.
pub fn by_name(items: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |item: &Value| {
        let metadata = &item["metadata"];
        format!("{}/{}", metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap())
    };
    items.into_iter().map(|item| (name(&item), item)).collect()
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
