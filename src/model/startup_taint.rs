//! Taints that a node starts with, and which DaemonSet removes them.
//!
//! By convention the agent of a domain removes `DOMAIN/agent-not-ready`: CSI drivers do. Others have it removed by a program that watches
//! their pods.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::daemon_set::DaemonSet;
use crate::model::node::Node;
use crate::model::template_parts::{containers, texts, volumes};

/// Taints whose DaemonSet is recognized by the name of a container: not every template contains the domain.
const CONTAINERS: [(&str, &str); 8] = [
    ("node.cilium.io/agent-not-ready", "cilium-agent"),
    ("cni.istio.io/not-ready", "install-cni"),
    ("ebs.csi.aws.com/agent-not-ready", "ebs-plugin"),
    ("efs.csi.aws.com/agent-not-ready", "efs-plugin"),
    ("fsx.csi.aws.com/agent-not-ready", "fsx-plugin"),
    ("s3.csi.aws.com/agent-not-ready", "s3-plugin"),
    ("disk.csi.azure.com/agent-not-ready", "azuredisk"),
    ("file.csi.azure.com/agent-not-ready", "azurefile"),
];

/// A program that removes a startup taint as soon as the pod of a DaemonSet is ready on the node.
#[derive(Debug, Clone, Copy)]
pub struct Untainter {
    /// Its name.
    pub name: &'static str,
    /// A label of its pods.
    pub label: &'static str,
}

/// Returns the program that removes the taint with this key; `None` if the DaemonSet itself does.
pub fn untainter(key: &str) -> Option<Untainter> {
    match key {
        // github.com/cilium/cilium, operator/watchers/node_taint.go, `checkAndMarkNode`.
        "node.cilium.io/agent-not-ready" => {
            Some(Untainter { name: "cilium-operator", label: "io.cilium/app=operator" })
        }
        // istio.io/istio, pilot/pkg/controllers/untaint/nodeuntainter.go.
        "cni.istio.io/not-ready" => Some(Untainter { name: "istiod", label: "app=istiod" }),
        _ => None,
    }
}

/// Returns whether a taint with this key may be one that an agent removes.
pub fn is_startup(key: &str) -> bool {
    key.rsplit_once('/').is_some_and(|(domain, name)| {
        name.ends_with("not-ready") && domain != "node.kubernetes.io" && domain != "node.cloudprovider.kubernetes.io"
    })
}

/// Returns the keys of the nodes' startup taints.
pub fn startup_keys(nodes: &[Node]) -> BTreeSet<String> {
    let keys = nodes.iter().flat_map(|node| &node.spec.taints).map(|taint| &taint.key);
    keys.filter(|key| is_startup(key)).cloned().collect()
}

/// Returns whether a DaemonSet removes the taint with this key: its containers or volumes contain the domain, as in the
/// path of a CSI driver's socket.
pub fn removes(daemon_set: &DaemonSet, key: &str) -> bool {
    let template = &daemon_set.object["spec"]["template"];
    let named = CONTAINERS.iter().filter(|(taint, _)| *taint == key);
    let has = |name: &str| containers(template).any(|container| container["name"] == name);
    if named.clone().any(|(_, container)| has(container)) {
        return true;
    }
    let domain = key.rsplit_once('/').map_or(key, |(domain, _)| domain);
    containers(template).chain(volumes(template)).any(|part| mentions(part, domain))
}

/// The taint that the kubelet sets with an external cloud provider, until the cloud controller manager has initialized the node.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The names of the programs that remove [`UNINITIALIZED`]: most vendors use upstream's (k8s.io/cloud-provider);
/// Azure's program for nodes and vSphere's have different names.
const INITIALIZERS: [&str; 3] = ["cloud-controller-manager", "cloud-node-manager", "cloud-provider-vsphere"];

/// Returns whether a DaemonSet runs the cloud controller manager, which removes [`UNINITIALIZED`].
pub fn initializes_nodes(daemon_set: &DaemonSet) -> bool {
    let containers = daemon_set.object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let is_it = |container: &Value| {
        let mentions =
            |name: &&str| ["image", "command", "args"].iter().any(|field| mentions(&container[*field], name));
        INITIALIZERS.iter().any(mentions)
    };
    containers.into_iter().flatten().any(is_it)
}

/// Returns whether pods of other DaemonSets depend on those of a DaemonSet: they install a kubelet or network plugin,
/// or remove one of these taints.
pub fn is_node_agent(daemon_set: &DaemonSet, keys: &BTreeSet<String>) -> bool {
    daemon_set.registers_with_kubelet()
        || daemon_set.installs_network()
        || keys.iter().any(|key| removes(daemon_set, key))
}

/// Returns whether a string in a value contains a text.
fn mentions(value: &Value, text: &str) -> bool {
    texts(value).iter().any(|string| string.contains(text))
}
