//! DaemonSets that a node cannot work without: network plugins and node plugins of storage or devices.

use serde_json::Value;

use crate::model::daemon_set::DaemonSet;

/// What a DaemonSet installs on its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePlugin {
    /// A CNI network plugin, without which a node does not become ready.
    Network,
    /// A plugin that registers with the kubelet, such as a CSI driver.
    Kubelet,
}

impl NodePlugin {
    /// Recognizes a plugin by the host directories that it mounts: CNI configuration and binaries, and the
    /// kubelet's registration directory, wherever a distribution has its root.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        let volumes = daemon_set.object.pointer("/spec/template/spec/volumes").and_then(Value::as_array)?;
        let paths: Vec<&str> = volumes
            .iter()
            .filter_map(|volume| volume.pointer("/hostPath/path")?.as_str())
            .map(|path| path.trim_end_matches('/'))
            .collect();
        if paths.iter().any(|path| path.ends_with("/cni/net.d") || path.ends_with("/cni/bin")) {
            Some(NodePlugin::Network)
        } else if paths.iter().any(|path| path.ends_with("/plugins_registry")) {
            Some(NodePlugin::Kubelet)
        } else {
            None
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
