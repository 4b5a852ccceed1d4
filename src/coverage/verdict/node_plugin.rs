//! DaemonSets that a node cannot work without: network plugins and node plugins of storage or devices.

use serde_json::Value;

use super::daemon_set_context::Subject;
use super::eligibility;
use super::finding::{Finding, edit};
use super::sentence::Sentence;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;
use crate::scheduling::should_run::{DaemonPod, Eligibility};

/// What a DaemonSet installs on its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePlugin {
    /// A CNI network plugin, without which a node does not become ready.
    Network,
    /// A plugin that registers with the kubelet, such as a CSI driver.
    Kubelet,
}

impl NodePlugin {
    /// Recognizes a plugin by the host directories that it mounts, such as those of CNI configuration and binaries.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        if daemon_set.host_paths().any(|path| path.ends_with("/cni/net.d") || path.ends_with("/cni/bin")) {
            Some(NodePlugin::Network)
        } else {
            daemon_set.registers_with_kubelet().then_some(NodePlugin::Kubelet)
        }
    }

    /// Returns what it installs, with an article.
    pub fn noun(self) -> &'static str {
        match self {
            NodePlugin::Network => "a network plugin (CNI)",
            NodePlugin::Kubelet => "a kubelet plugin (such as CSI)",
        }
    }
}

/// Finds that a CSI driver is not registered with the kubelet of a node, and which DaemonSet is to register it.
pub fn not_registered(subject: &Subject, node: Option<&Node>, pod: &Pod, driver: &str, message: Sentence) -> Finding {
    let finding = |message, advice: String| Finding::new(ReasonCode::MountFailed, message, advice);
    let csi_node = Command::kubectl(&["get", "csinode", "-o", "yaml"]).name(&pod.spec.node_name);
    let Some((plugin, node)) = daemon_set_of(subject, driver).zip(node) else {
        let advice =
            format!("find the DaemonSet of CSI driver {driver}: its pod on the node has to register the driver");
        return finding(message, advice).with_command(csi_node);
    };
    let metadata = &plugin.metadata;
    let name = format!("{}/{}", metadata.namespace, metadata.name);
    let eligibility = DaemonPod::new(&plugin.spec.template).explain(node);
    let message = message.words(format!("; DaemonSet {name} registers the driver"));
    let look = Command::kubectl(&["ds", "coverage"]).namespace(&metadata.namespace).flag("--node", &node.metadata.name);
    let taints: Vec<String> = eligibility
        .taints
        .iter()
        .filter(|outcome| outcome.is_untolerated())
        .map(|outcome| outcome.taint.to_string())
        .collect();
    if let ([_, ..], true) = (taints.as_slice(), eligibility.decision.should_run || taints_alone(&eligibility)) {
        let taints = taints.join(", ");
        let message = message.words(format!(", and does not tolerate taint {taints}"));
        let advice = format!("add a toleration of {taints} to DaemonSet {name}, so that it runs on the node");
        return finding(message, advice).with_command(edit(plugin));
    }
    let why = eligibility::findings(subject.index, plugin, node, &eligibility);
    if let Some(why) = why.first() {
        let message = message.words(", and does not run on the node: ").then(why.message.clone());
        return finding(message, format!("make the node eligible for DaemonSet {name}")).with_command(edit(plugin));
    }
    let is_its = |pod: &&Pod| pod.metadata.controller().is_some_and(|owner| owner.uid == metadata.uid);
    let on_node = subject.index.bound_to(&node.metadata.name).into_iter().find(is_its);
    let (message, advice) = match on_node {
        _ if !subject.index.snapshot.knows_all_pods_on(&node.metadata.name) => {
            (message, "check the pod of {} on the node")
        }
        None => (message.words(", and has no pod on the node"), "find out why {} has no pod on the node"),
        Some(pod) if pod.is_ready() => (message, "check the registrar in the pod of {} on the node, and its log"),
        Some(_) => (message.words(", and its pod on the node is not ready"), "mend the pod of {} on the node first"),
    };
    finding(message, advice.replace("{}", &format!("DaemonSet {name}"))).with_command(look.name(&metadata.name))
}

/// Returns whether nothing but taints excludes a node.
fn taints_alone(eligibility: &Eligibility) -> bool {
    eligibility.pinned_to.is_none()
        && eligibility.node_selector.iter().all(|check| check.matches)
        && eligibility.affinity.is_match()
}

/// Returns the DaemonSet that registers a CSI driver: of those that register one, the one whose template names the driver, or else
/// the only one whose name has a part of the driver's.
fn daemon_set_of<'a>(subject: &Subject<'_, 'a>, driver: &str) -> Option<&'a DaemonSet> {
    let snapshot = subject.index.snapshot;
    let all = snapshot.daemon_sets.iter().chain(&snapshot.node_agents);
    let plugins: Vec<&DaemonSet> = all.filter(|it| it.registers_with_kubelet()).collect();
    let template =
        |plugin: &DaemonSet| plugin.object.pointer("/spec/template").map(Value::to_string).unwrap_or_default();
    let named = plugins.iter().copied().find(|plugin| template(plugin).contains(driver));
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split(['.', '-', '/']).filter(|part| part.len() > 2 && !GENERIC.contains(part));
        parts.map(str::to_owned).collect()
    };
    let wanted = parts(driver);
    let shared = |plugin: &DaemonSet| {
        let own = parts(&plugin.metadata.name);
        wanted.iter().filter(|part| own.contains(part)).count()
    };
    let most = plugins.iter().map(|plugin| shared(plugin)).max().filter(|most| *most > 0);
    let mut alike = plugins.iter().copied().filter(|plugin| Some(shared(plugin)) == most);
    named.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

/// Parts of the names of drivers that say nothing.
const GENERIC: [&str; 9] = ["csi", "com", "org", "net", "k8s", "driver", "drivers", "storage", "node"];
