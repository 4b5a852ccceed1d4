//! Crashes because of what every pod may need of the cluster: its DNS, and the address of the API server.

use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, TemplatePart, describe_pod};
use super::images::template_of;
use super::node_plugin::NodePlugin;
use super::telling::telling_line;
use super::workload::workload;
use crate::model::pod::{ContainerStateTerminated, Pod};
use crate::model::snapshot::PodsComplete;
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
    let is_of_name = said.contains("temporary failure in name resolution");
    if !is_of_name && !UNANSWERED.iter().any(|words| said.contains(words)) {
        return finding;
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
            return Finding { advice: advice.into(), ..finding }
                .with_origin(Origin::Template(TemplatePart::Sandbox))
                .with_command(list);
        };
        let message = finding.message.words("; no pod of the cluster DNS is ready, such as ").example(workload(down));
        let advice = "fix the cluster DNS first: nothing that looks up a name works without it";
        return Finding { message, advice: advice.into(), ..finding }
            .with_origin(Origin::ControlPlane)
            .with_command(describe_pod(down));
    }
    let is_of_api = ["/api/v1", "/apis/", ":443/api", ":443/version", "kubernetes api", "apiserver", "api server"];
    if !is_of_api.iter().any(|words| said.contains(words)) {
        return finding;
    }
    let is_complete = subject.index.snapshot.pods_complete == PodsComplete::Everywhere;
    let is_own_network =
        || NodePlugin::of(subject.daemon_set) == Some(NodePlugin::Network) && said.contains(":443/api");
    let on_node = subject.index.bound_to(&pod.spec.node_name).into_iter().find(|pod| is_kube_proxy(pod));
    match on_node.filter(|proxy| !proxy.is_ready() && proxy.metadata.uid != pod.metadata.uid) {
        None if on_node.is_none() && is_complete && is_own_network() => {
            let advice = "unless the kubelet's distribution has a kube-proxy of its own, give the network plugin the address of the API \
                          server itself (Cilium: k8sServiceHost and k8sServicePort; Calico: ConfigMap kubernetes-services-endpoint): \
                          without a kube-proxy, nothing provides the Service before this pod runs; to read the log";
            Finding { advice: advice.into(), ..finding }
        }
        Some(proxy) => {
            let message =
                finding.message.words("; ").name(workload(proxy), "kube-proxy").words(" on the node is not ready");
            let advice =
                "fix kube-proxy on the node first: without it, pods do not reach the API server through its Service";
            Finding { message, advice: advice.into(), ..finding }
                .with_origin(Origin::Node)
                .with_command(describe_pod(proxy))
        }
        _ => finding,
    }
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
