//! Failures because of what a pod needs of the cluster or of other pods of its node: DNS, the address of the API server, a driver, a port.

use core::net::IpAddr;

use super::daemon_set_context::Subject;
use super::finding::{Finding, Lack, Origin, TemplatePart, delete_pod, describe_pod};
use super::images::template_of;
use super::node_plugin::{NodePlugin, is_chained};
use super::sentence::Sentence;
use super::telling::telling_line;
use super::workload::workload;
use crate::facts::index::STARTUP;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::pod::{ContainerStateTerminated, Pod};
use crate::model::snapshot::PodsComplete;
use crate::model::template_parts::texts;
use crate::report::age::seconds_between;
use crate::report::fix::Command;
use crate::scheduling::daemon_pods;

/// The label of the pods of the cluster DNS.
const DNS: &str = "k8s-app=kube-dns";

/// What errors of connections end with that nobody answers.
const UNANSWERED: [&str; 4] = ["i/o timeout", "connection refused", "no route to host", "timed out"];

/// Says of a crash because a service of the cluster does not answer, if that is seen not to work, that it is to be fixed first: no
/// revision is to blame.
pub fn of_service(subject: &Subject, pod: &Pod, finding: Finding, end: Option<&ContainerStateTerminated>) -> Finding {
    let said = end.and_then(|end| telling_line(&end.message)).unwrap_or_default().to_lowercase();
    if said.contains("address already in use") {
        return of_port(subject, pod, finding, &said);
    }
    if NEEDS_GPU_DRIVER.iter().any(|words| said.contains(words)) {
        return of_gpu(subject, pod, 1, &finding).unwrap_or(finding);
    }
    let is_of_name = said.contains("temporary failure in name resolution");
    if !is_of_name && !UNANSWERED.iter().any(|words| said.contains(words)) {
        return finding;
    }
    let asks = |address: &str| asked(&said) == Some(address);
    let has_address = |other: &Pod| {
        let owner = subject.index.all_daemon_sets().find(|daemon_set| is_of(other, daemon_set));
        // NodeLocal DNSCache has its addresses after -localip; clients and other servers have them elsewhere.
        owner.filter(|_| other.spec.host_network).map(DaemonSet::template).is_some_and(|template| {
            let words = texts(template.value()).into_iter().flat_map(|text| text.split([',', ' ', '=', '"', '\'']));
            let addresses =
                words.filter(|word| !word.is_empty()).skip_while(|word| !word.ends_with("-localip")).skip(1);
            addresses.take_while(|word| word.parse::<IpAddr>().is_ok()).any(asks)
        })
    };
    let first = || fix_first(subject, pod, &finding, has_address, ("the DNS cache", "the pod asks its address"));
    if let Some(first) = asked(&said).and_then(|_| first()) {
        return first;
    }
    if is_of_name || (said.contains("lookup ") && said.contains(":53")) {
        let pods = subject.index.dns_pods();
        let is_own = |dns: &&Pod| daemon_pods::claim(subject.daemon_set, dns).is_claimed();
        // What the DNS waits for cannot wait for it.
        let is_before_dns = NodePlugin::of(subject.daemon_set).is_some() || pods.iter().any(is_own);
        if !asks_cluster_dns(subject, pod) || is_before_dns || pods.iter().any(|pod| pod.is_ready()) {
            return finding;
        }
        let is_complete = subject.index.snapshot.pods_complete == PodsComplete::Everywhere;
        let Some(down) = pods.first().filter(|_| is_complete) else {
            // The DNS pods were probably not read. If DNS is down, any pod that starts now fails, whichever revision it is of.
            let advice = "see first whether the cluster DNS works, which the pod has asked in vain: its pods, and the way to them from the \
                          node";
            let list = Command::kubectl(&["get", "pods", "-o", "wide", "-l", DNS]).namespace("kube-system");
            return finding.with_advice(advice).with_origin(Origin::Template(TemplatePart::Sandbox)).with_command(list);
        };
        return finding
            .and(Sentence::from("; no pod of the cluster DNS is ready, such as ").example(workload(down)))
            .with_advice("fix the cluster DNS first: nothing that looks up a name works without it")
            .with_origin(Origin::ControlPlane)
            .with_command(describe_pod(down));
    }
    let is_of_api = ["/api/v1", "/apis/", ":443/api", ":443/version", "kubernetes api", "apiserver", "api server"];
    if !is_of_api.iter().any(|words| said.contains(words)) && !dials_service(&said) {
        return finding;
    }
    let without_proxy = "without it, pods do not reach the API server through its Service";
    let without_network = "without it, pods reach nothing outside of their node";
    let plugins = subject.index.network_plugins();
    let is_network = |other: &Pod| {
        let mut mains = plugins.iter().filter(|plugin| !is_chained(plugin));
        !pod.spec.host_network && mains.any(|plugin| is_of(other, plugin))
    };
    let waits = fix_first(subject, pod, &finding, is_kube_proxy, ("kube-proxy", without_proxy))
        .or_else(|| fix_first(subject, pod, &finding, is_network, ("the network plugin", without_network)));
    if let Some(told) = waits {
        return told;
    }
    let is_complete = subject.index.snapshot.pods_complete == PodsComplete::Everywhere;
    let is_own_network = NodePlugin::of(subject.daemon_set) == Some(NodePlugin::Network) && said.contains(":443/api");
    let has_proxy = || subject.index.bound_to(&pod.spec.node_name).into_iter().any(is_kube_proxy);
    if is_own_network && is_complete && !has_proxy() {
        let advice = "unless the kubelet's distribution has a kube-proxy of its own, give the network plugin the address of the API \
                      server itself (Cilium: k8sServiceHost and k8sServicePort; Calico: ConfigMap kubernetes-services-endpoint): \
                      without a kube-proxy, nothing provides the Service before this pod runs; to read the log";
        return finding.with_advice(advice);
    }
    // What the kubelet tells a pod of the Service is the same for every revision.
    let is_told = |text: &str| dialed(&said).is_some_and(|address| text.contains(address));
    let is_lost = ["i/o timeout", "no route to host", "timed out"].iter().any(|words| said.contains(words));
    let is_asked = dialed(&said).is_some_and(|address| asks_api_server(&said, address));
    if is_lost && is_asked && !template_of(subject, pod).texts().into_iter().any(is_told) {
        return finding.with_origin(Origin::Template(TemplatePart::Sandbox));
    }
    finding
}

/// Returns the IP address of the DNS server that a line says does not answer: `lookup name on 10.96.0.10:53: …`.
fn asked(said: &str) -> Option<&str> {
    let (server, _) = said.split_once("lookup ")?.1.split_once(" on ")?.1.split_once(":53: ")?;
    server.parse::<IpAddr>().is_ok().then_some(server)
}

/// Returns the IP address at port 443 that a line says does not answer.
fn dialed(said: &str) -> Option<&str> {
    let (address, _) = said.split_once("dial tcp ")?.1.split_once(":443: ")?;
    address.trim_matches(['[', ']']).parse::<IpAddr>().is_ok().then_some(address)
}

/// What only the API server has below a host.
const OF_API_SERVER: [&str; 8] = [
    "apis/",
    "api/v1/nodes",
    "api/v1/namespaces",
    "api/v1/pods",
    "api/v1/services",
    "api/v1/endpoints",
    "api/v1/configmaps",
    "api/v1/secrets",
];

/// Returns whether a line says that the API server was asked: at its Service's name, at a private address, or for what only it has.
fn asks_api_server(said: &str, address: &str) -> bool {
    let Some((_, url)) = said.split("dial tcp ").next().and_then(|before| before.rsplit_once("://")) else {
        return is_private(address);
    };
    let is_address =
        url.trim_start_matches('[').strip_prefix(address).is_some_and(|rest| rest.starts_with([':', '/', ']']));
    let path = url.split_once('/').map_or("", |(_, path)| path);
    is_address && is_private(address)
        || url.starts_with("kubernetes.default")
        || OF_API_SERVER.iter().any(|start| path.starts_with(start))
}

/// Says of a failure that another pod of the node, which is not ready, is to be fixed first: its noun, and what is missing without it.
fn fix_first(
    subject: &Subject,
    pod: &Pod,
    finding: &Finding,
    is_it: impl Fn(&Pod) -> bool,
    (noun, without): (&str, &str),
) -> Option<Finding> {
    let mut others = subject.index.bound_to(&pod.spec.node_name).into_iter().filter(|other| is_it(other));
    let is_down = |other: &&Pod| !other.is_ready() && other.metadata.uid != pod.metadata.uid;
    let down = others.next().filter(is_down)?;
    let reason = Sentence::from("; ").name(workload(down), noun).words(" on the node is not ready");
    let told = finding.clone().and(reason).with_advice(format!("fix {noun} on the node first: {without}"));
    Some(told.with_origin(Origin::Node).with_command(describe_pod(down)))
}

/// What programs say that do not find the library or the devices of NVIDIA's driver.
const NEEDS_GPU_DRIVER: [&str; 3] = ["nvml", "libnvidia-ml", "nvidia-smi"];

/// What installs NVIDIA's software on a node, each after those before it: DaemonSets of its GPU operator (assets and manifests of
/// github.com/NVIDIA/gpu-operator), and for the driver also of GKE.
const GPU_CHAIN: [(&str, &[&str]); 3] = [
    ("the GPU driver", &["nvidia-driver-daemonset", "nvidia-gpu-driver-", "nvidia-driver-installer"]),
    ("the NVIDIA container toolkit", &["nvidia-container-toolkit-daemonset"]),
    ("the GPU device plugin", &["nvidia-device-plugin-daemonset"]),
];

/// Returns how many links of the chain the init container of a pod of the GPU operator waits for.
pub fn gpu_links(init_container: &str) -> Option<usize> {
    ["driver-validation", "toolkit-validation", "plugin-validation"]
        .iter()
        .position(|name| *name == init_container)
        .map(|at| at + 1)
}

/// Says of a pod that needs so many links of the chain on its node that the first one whose pod is not ready is to be fixed first.
pub fn of_gpu(subject: &Subject, pod: &Pod, links: usize, finding: &Finding) -> Option<Finding> {
    GPU_CHAIN[..links].iter().find_map(|(noun, names)| {
        let installs = |other: &Pod| names.iter().any(|name| other.metadata.name.starts_with(name));
        fix_first(subject, pod, finding, installs, (noun, "the pod needs what it installs"))
    })
}

/// Says of a pod for which the container runtime is not configured that NVIDIA's toolkit runs on the node, and does that only when it starts.
pub fn of_ready_toolkit(subject: &Subject, pod: &Pod, failed: &Event, finding: &Finding) -> Option<Finding> {
    let (noun, names) = GPU_CHAIN[1];
    let is_it = |other: &&Pod| names.iter().any(|name| other.metadata.name.starts_with(name)) && other.is_ready();
    let toolkit = subject.index.bound_to(&pod.spec.node_name).into_iter().find(is_it)?;
    let age = subject.seconds_since(toolkit.metadata.creation_timestamp.get()?);
    let ready = toolkit.condition("Ready")?.last_transition_time.get()?;
    // The runtime takes a moment to start again.
    failed.last_seen().filter(|failed| seconds_between(ready, *failed) > STARTUP)?;
    let runs = Sentence::from("; ").name(workload(toolkit), noun).words(" has run on the node for ").age(age);
    let advice =
        format!("delete the pod of {noun} on the node: it configures the container runtime only when it starts");
    Some(finding.clone().and(runs).with_advice(advice).with_origin(Origin::Node).with_command(delete_pod(toolkit)))
}

/// Says of a pod of the host network whose port is taken which other pod of the node has declared it.
fn of_port(subject: &Subject, pod: &Pod, finding: Finding, said: &str) -> Finding {
    let port = || {
        let before = said
            .split_once("address already in use")?
            .0
            .trim_end_matches(": ")
            .trim_end_matches("bind")
            .trim_end_matches(": ");
        before.rsplit_once(':')?.1.parse::<i32>().ok()
    };
    let Some(port) = port().filter(|_| pod.spec.host_network) else { return finding };
    let mut declaring = subject.index.declaring(&pod.spec.node_name, port);
    let Some(holder) = declaring.find(|other| other.metadata.uid != pod.metadata.uid) else { return finding };
    let belongs = Sentence::from("; port ").value(port.to_string()).words(" of the node belongs to ");
    let advice =
        format!("change the port of this DaemonSet or of {}: both use the network of the node", workload(holder));
    let finding = finding.and(belongs.name(holder.metadata.full_name(), workload(holder))).with_advice(advice);
    let times = holder.metadata.creation_timestamp.get().zip(subject.rollout_began_at());
    let came_since = times.is_some_and(|(created, began)| created > began);
    // Whatever came to the node after the rollout would keep any other revision from its port, too.
    if came_since { finding.with_origin(Origin::Room(Lack::HostPorts)) } else { finding }
}

/// Returns whether a connection failed that may be to the Service of the API server: a private address at its port, without a URL.
fn dials_service(said: &str) -> bool {
    !said.contains("://") && dialed(said).is_some_and(is_private)
}

fn is_private(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(address)) => address.is_private() || matches!(address.octets(), [100, 64..=127, ..]),
        Ok(IpAddr::V6(address)) => address.is_unique_local(),
        Err(_) => false,
    }
}

fn is_of(pod: &Pod, daemon_set: &DaemonSet) -> bool {
    daemon_pods::claim(daemon_set, pod).is_claimed()
}

/// Returns whether a pod asks the DNS of the cluster (`getPodDNSType`, pkg/kubelet/network/dns/dns.go, release 1.37.2).
fn asks_cluster_dns(subject: &Subject, pod: &Pod) -> bool {
    match template_of(subject, pod).value()["spec"]["dnsPolicy"].as_str() {
        None | Some("ClusterFirst") => !pod.spec.host_network,
        Some(policy) => policy == "ClusterFirstWithHostNet",
    }
}

/// Returns whether a pod is one of kube-proxy, whose DaemonSet is called so, or which is a static pod.
fn is_kube_proxy(pod: &Pod) -> bool {
    pod.metadata.name.starts_with("kube-proxy") && pod.metadata.namespace == "kube-system"
}
