//! DaemonSets that a node cannot work without: network plugins and node plugins of storage or devices.

use jiff::Timestamp;
use serde_json::Value;

use super::containers::keeps_ending;
use super::eligibility;
use super::finding::{Finding, Origin, edit};
use super::sentence::Sentence;
use super::untolerated::toleration_for;
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::pod::{ContainerStatus, Pod};
use crate::report::fix::Command;
use crate::scheduling::daemon_pods::claim;
use crate::scheduling::should_run::DaemonPod;

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
        if daemon_set.installs_network() {
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

/// What a driver lacks on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    /// It is not registered with the kubelet.
    Registration,
    /// Nothing listens on its socket.
    Listener,
}

/// Says in a finding about a driver that the kubelet of a node cannot call which DaemonSet it is up to.
pub fn without_driver(index: &Index<'_>, node: Option<&Node>, driver: &str, lacks: Lacks, finding: Finding) -> Finding {
    let (does, if_ready, has_to) = match lacks {
        Lacks::Registration => {
            ("registers", "check the registrar in the pod of {} on the node, and its log", "register the driver")
        }
        Lacks::Listener => (
            "runs",
            "check the container of the driver in the pod of {} on the node, and its log: nothing listens on its socket",
            "listen on its socket",
        ),
    };
    let of_driver = daemon_set_of(index, driver).zip(node).and_then(|(plugin, node)| {
        let message =
            finding.message.clone().words(format!("; DaemonSet {} {does} the driver", plugin.metadata.full_name()));
        on_node(index, plugin, node, Finding::new(finding.code, message, ""), Some(if_ready))
    });
    of_driver.unwrap_or_else(|| {
        finding.with_advice(format!("find the DaemonSet of driver {driver}: its pod on the node has to {has_to}"))
    })
}

/// Returns whether a message about the network of a pod names the plugin that a DaemonSet installs. CRI-O names the pod, too.
pub fn is_own_plugin(daemon_set: &DaemonSet, pod: &Pod, said: &str) -> bool {
    let plugins = said.split("plugin type=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let plugins: Vec<&str> = plugins.collect();
    let said = if plugins.is_empty() { said.replace(&pod.metadata.name, "") } else { plugins.join(" ") };
    let said = said.to_lowercase();
    NodePlugin::of(daemon_set) == Some(NodePlugin::Network)
        && name_parts(&daemon_set.metadata.name).iter().any(|part| said.contains(part))
}

/// Returns whether a message says that a network plugin could not remove a pod that has the name of a DaemonSet, and of no other one,
/// if no template shows which installs it: that is what waits for the place of the pod.
pub fn is_named_plugin(index: &Index<'_>, daemon_set: &DaemonSet, said: &str) -> bool {
    let said = said.replace('\\', "").to_lowercase();
    let plugins: Vec<&str> = said.split("plugin type=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let is_named = |one: &&DaemonSet| {
        name_parts(&one.metadata.name).iter().any(|part| plugins.iter().any(|plugin| plugin.contains(part)))
    };
    let mut named = index.all_daemon_sets().filter(is_named);
    let is_only = named.next().is_some_and(|one| one.metadata.uid == daemon_set.metadata.uid) && named.next().is_none();
    is_only && index.network_plugins().is_empty()
}

/// Says of a pod whose network is not set up because of the plugin that its own DaemonSet installs that nothing but the old configuration
/// of that is in its way; `None` if another plugin is.
pub fn of_own_plugin(daemon_set: &DaemonSet, pod: &Pod, finding: &Finding) -> Option<Finding> {
    if !is_own_plugin(daemon_set, pod, &finding.message.to_string()) {
        return None;
    }
    let message = finding.message.clone().words("; this DaemonSet installs that plugin itself");
    let advice = Sentence::from("remove the plugin's entry from /etc/cni/net.d of ").example(&pod.spec.node_name).words(
        " (a chained plugin has it in the file of the main one): it was left there by a former pod, and keeps the new one from starting, \
         which writes it again",
    );
    Some(Finding::new(finding.code, message, advice).with_origin(Origin::Node))
}

/// Adds to a finding about the network of a node where the DaemonSet of its network plugin stands there; the finding stays as it is if
/// that runs there, is this DaemonSet, or is not known.
pub fn with_network_plugin(
    index: &Index<'_>,
    daemon_set: &DaemonSet,
    node: Option<&Node>,
    finding: Finding,
) -> Finding {
    let Some(node) = node.filter(|_| NodePlugin::of(daemon_set) != Some(NodePlugin::Network)) else { return finding };
    let said = finding.message.to_string().to_lowercase();
    let plugins = index.network_plugins();
    if plugins.is_empty() && node.status.node_info.kubelet_version.contains("+k3s") && said.contains("flannel") {
        let message = finding.message.words("; k3s runs flannel itself, in no pod");
        return Finding::new(finding.code, message, "check the log of k3s or k3s-agent on the node, and restart it")
            .with_origin(finding.origin);
    }
    let is_named = |plugin: &&DaemonSet| name_parts(&plugin.metadata.name).iter().any(|part| said.contains(part));
    let is_main = |plugin: &&DaemonSet| !is_chained(plugin);
    let only = |is_it: &dyn Fn(&&DaemonSet) -> bool| {
        let mut alike = plugins.iter().copied().filter(|plugin| is_it(plugin));
        alike.next().filter(|_| alike.next().is_none())
    };
    // A plugin that calls others quotes what they say.
    let innermost = said.rsplit_once("plugin type=\"").and_then(|(_, rest)| rest.split('"').next());
    let is_innermost = |plugin: &&DaemonSet| {
        innermost.is_some_and(|name| name_parts(&plugin.metadata.name).iter().any(|part| name.contains(part)))
    };
    let by_name = plugins.iter().any(&is_named);
    let known = only(&is_innermost).or_else(|| only(if by_name { &is_named } else { &is_main }));
    // Of a dump, or behind an operator, the template may not show that it installs anything.
    let by_type = || {
        let parts = name_parts(innermost?);
        let is_it = |other: &&DaemonSet| {
            let own = name_parts(&other.metadata.name);
            other.metadata.uid != daemon_set.metadata.uid && parts.iter().any(|part| own.contains(part))
        };
        let mut alike = index.all_daemon_sets().filter(is_it);
        alike.next().filter(|_| alike.next().is_none())
    };
    let Some(plugin) = known.or_else(by_type) else { return finding };
    let begun = finding.clone().and(format!("; DaemonSet {} installs the network plugin", plugin.metadata.full_name()));
    on_node(index, plugin, node, begun, None).unwrap_or(finding)
}

/// Adds to a finding where the DaemonSet of a plugin stands on a node, with what to do about that. `None` if its pod there is ready,
/// or not known, and nothing is advised for that; `{}` in an advice is the DaemonSet.
fn on_node(
    index: &Index<'_>,
    plugin: &DaemonSet,
    node: &Node,
    finding: Finding,
    if_ready: Option<&str>,
) -> Option<Finding> {
    let metadata = &plugin.metadata;
    let name = format!("DaemonSet {}", plugin.metadata.full_name());
    let Finding { code, message, origin, .. } = finding;
    let told = |message, advice: String| Finding::new(code, message, advice).with_origin(origin);
    let eligibility = DaemonPod::new(&plugin.spec.template).explain(node);
    let taints = eligibility.taints.iter().filter(|outcome| outcome.is_untolerated()).map(|outcome| &outcome.taint);
    let list = |write: fn(&Taint) -> String| taints.clone().map(write).collect::<Vec<_>>().join(", ");
    if taints.clone().next().is_some() && (eligibility.decision.should_run || eligibility.is_up_to_taints()) {
        let message = message.words(format!(", and does not tolerate taint {}", list(Taint::to_string)));
        let advice = format!(
            "add to the tolerations of {name}: {}; without them, it does not run on the node",
            list(toleration_for)
        );
        return Some(told(message, advice).with_command(edit(plugin)));
    }
    let why = eligibility::findings(index, plugin, node, &eligibility);
    if let Some(why) = why.first() {
        let message = message.words(", and does not run on the node: ").then(why.message.clone());
        return Some(told(message, format!("make the node eligible for {name}")).with_command(edit(plugin)));
    }
    let is_its = |pod: &&Pod| claim(plugin, pod).is_claimed();
    let pod = index.bound_to(&node.metadata.name).into_iter().find(is_its);
    let (message, advice) = match pod {
        None if !index.snapshot.knows_all_pods_on(&node.metadata.name) => {
            (message, if_ready.and(Some("check the pod of {} on the node"))?)
        }
        None => (message.words(", and has no pod on the node"), "find out why {} has no pod on the node"),
        Some(pod) if crashes(pod, index.now()) => {
            let restarts = message.words(", and its pod on the node keeps crashing; restarts: ");
            (restarts.number(pod.restarts()), "fix the pod of {} on the node first")
        }
        Some(pod) if pod.is_ready() => (message, if_ready?),
        Some(_) => (message.words(", and its pod on the node is not ready"), "fix the pod of {} on the node first"),
    };
    let look = Command::kubectl(&["ds", "coverage"]).namespace(&metadata.namespace).flag("--node", &node.metadata.name);
    Some(told(message, advice.replace("{}", &name)).with_command(look.name(&metadata.name)))
}

/// Returns whether a pod crashes again and again, even if it is ready at the moment.
fn crashes(pod: &Pod, now: Timestamp) -> bool {
    let backs_off =
        |status: &ContainerStatus| status.state.waiting.as_ref().is_some_and(|it| it.reason == "CrashLoopBackOff");
    keeps_ending(pod, now) || pod.container_statuses().any(backs_off)
}

/// Returns the DaemonSet that registers a CSI driver: of those that register one, the one whose template names the driver, or else
/// the only one whose name has a part of the driver's.
fn daemon_set_of<'a>(index: &Index<'a>, driver: &str) -> Option<&'a DaemonSet> {
    let plugins: Vec<&DaemonSet> = index.all_daemon_sets().filter(|it| it.registers_with_kubelet()).collect();
    let template =
        |plugin: &DaemonSet| plugin.object.pointer("/spec/template").map(Value::to_string).unwrap_or_default();
    let named = plugins.iter().copied().find(|plugin| template(plugin).contains(driver));
    let wanted = name_parts(driver);
    let shared = |plugin: &DaemonSet| {
        let own = name_parts(&plugin.metadata.name);
        wanted.iter().filter(|part| own.contains(part)).count()
    };
    let most = plugins.iter().map(|plugin| shared(plugin)).max().filter(|most| *most > 0);
    let mut alike = plugins.iter().copied().filter(|plugin| Some(shared(plugin)) == most);
    named.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

/// Returns the parts of a name that tell it from others.
fn name_parts(name: &str) -> Vec<&str> {
    name.split(['.', '-', '/']).filter(|part| part.len() > 2 && !GENERIC.contains(part)).collect()
}

/// Parts of the names of plugins that are called after another one, which configures the network of the node.
const CHAINED: [&str; 6] = ["istio-cni", "linkerd-cni", "kuma-cni", "multus", "whereabouts", "sriov"];

/// Returns whether a network plugin is called after another one.
pub fn is_chained(plugin: &DaemonSet) -> bool {
    CHAINED.iter().any(|name| plugin.metadata.name.contains(name))
}

/// Parts of the names of drivers and plugins that say nothing.
const GENERIC: [&str; 13] =
    ["csi", "com", "org", "net", "k8s", "driver", "drivers", "storage", "node", "cni", "network", "plugin", "kube"];
