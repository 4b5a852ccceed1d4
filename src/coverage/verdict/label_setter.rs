//! Who sets a node label, and therefore where to change it.

/// Returns the advice for a node that its labels exclude.
///
/// There is no command that changes it: exclusion is usually intentional, and a label may steer other workloads too.
pub fn node_label_advice(key: &str, change: &str) -> String {
    where_to_change(key).unwrap_or_else(|| format!("if the node should run these pods, {change}"))
}

/// Returns the advice for a node that a label excludes which is not to be changed on the node.
pub fn where_to_change(key: &str) -> Option<String> {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if let Some(setter) = label_setter(key) {
        return Some(format!("if the node should run these pods, change the template: label {key} is set by {setter}"));
    }
    if key.starts_with("nvidia.com/gpu.deploy.") {
        return Some(format!("if the node should run these pods, check the GPU operator, which sets label {key}"));
    }
    if let Some(discovery) = feature_discovery(domain) {
        return Some(format!(
            "no action needed if the node lacks the device or feature; otherwise check {discovery}, which sets label {key}"
        ));
    }
    is_csi_topology(domain).then(|| {
        format!(
            "if the node should run these pods, check the CSI driver's pod on the node: the driver sets label {key}"
        )
    })
}

/// Returns what sets a label of nodes, if that belongs to the cluster or its provider.
pub fn label_setter(key: &str) -> Option<&'static str> {
    if KUBELET_LABELS.contains(&key) {
        return Some("the kubelet or the cloud provider");
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    NODE_POOL_DOMAINS.contains(&domain).then_some("the node's pool or provider")
}

/// The labels that the kubelet and the cloud controller manager set, and no others of their domains, which people use, too.
///
/// `kubeletLabels` of k8s.io/kubelet/pkg/apis/well_known_labels.go, release 1.37, and the label of Windows' build.
const KUBELET_LABELS: [&str; 12] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The domains of labels that autoscalers and managed node pools set.
const NODE_POOL_DOMAINS: [&str; 5] =
    ["karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com", "cloud.google.com", "kubernetes.azure.com"];

/// Returns whether the labels of a domain tell where a CSI driver can provide volumes: the kubelet sets those that the driver
/// answers it with.
fn is_csi_topology(domain: &str) -> bool {
    let others = ["topology.gke.io", "topology.topolvm.io", "csi.hetzner.cloud"];
    let is_by_convention = || {
        let mut parts = domain.split('.');
        parts.next() == Some("topology") && parts.any(|part| part == "csi")
    };
    others.contains(&domain) || is_by_convention()
}

/// Returns what sets the labels of a domain that tell the devices and features of nodes.
fn feature_discovery(domain: &str) -> Option<&'static str> {
    match domain {
        "nvidia.com" => Some("NVIDIA's GPU feature discovery"),
        "amd.com" => Some("AMD's node labeller"),
        "gpu.intel.com" | "intel.feature.node.kubernetes.io" => Some("Intel's device plugins"),
        "feature.node.kubernetes.io" => Some("node feature discovery"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::world;

    #[test]
    fn only_a_label_that_people_set_is_to_be_set() {
        let people = "";
        for (key, by) in [
            ("disk", people),
            ("example.com/disk", people),
            ("mykubernetes.io/disk", people),
            ("node-role.kubernetes.io/edge", people),
            ("node-restriction.kubernetes.io/team", people),
            ("example.com.node-restriction.kubernetes.io/team", people),
            ("kubernetes.io/arch", "kubelet"),
            ("topology.kubernetes.io/zone", "kubelet"),
            ("node.kubernetes.io/instance-type", "kubelet"),
            ("ovn.kubernetes.io/bgp", people),
            ("node.kubernetes.io/exclude-from-external-load-balancers", people),
            ("karpenter.sh/nodepool", "pool"),
            ("topology.ebs.csi.aws.com/zone", "the driver sets"),
            ("topology.gke.io/zone", "the driver sets"),
            ("topology.hostpath.csi/node", "the driver sets"),
            ("topology.example.com/zone", people),
            ("nvidia.com/gpu.present", "NVIDIA"),
            ("amd.com/gpu.family", "AMD"),
            ("gpu.intel.com/family", "Intel"),
            ("intel.feature.node.kubernetes.io/gpu", "Intel"),
            ("feature.node.kubernetes.io/cpu-model.id", "node feature discovery"),
        ] {
            let world = world().template(json!({"nodeSelector": {key: "a"}})).node("n", json!({}));
            let advice = &world.only_node().reasons[0].fix.advice;
            assert_eq!(advice.contains(&format!("{key}=a")), by == people, "{key}: {advice}");
            assert!(advice.contains(by), "{key}: {advice}");
        }
    }
}
