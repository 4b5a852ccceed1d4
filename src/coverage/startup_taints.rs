//! Taints that a node begins with and that a DaemonSet removes once it runs there.
//!
//! By convention the agent of a domain removes `DOMAIN/agent-not-ready`: CSI drivers do, and so does Cilium. A taint stays if every
//! DaemonSet that removes it is kept away by another taint.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::taints::tolerates;

/// Taints whose domain is not in the template of the DaemonSet, and the container that it can be told by.
const CONTAINERS: [(&str, &str); 2] =
    [("node.cilium.io/agent-not-ready", "cilium-agent"), ("cni.istio.io/not-ready", "install-cni")];

/// Which DaemonSets remove which taints.
pub struct TaintRemovers<'a> {
    daemon_sets: &'a [(&'a DaemonSet, DaemonPod)],
    /// The numbers of the DaemonSets, by the key of the taint.
    by_key: BTreeMap<String, Vec<usize>>,
}

/// The taints that DaemonSets remove from a node.
pub struct AfterStart<'n> {
    /// The node without the taints that are removed.
    pub node: Cow<'n, Node>,
    /// What becomes of each taint that a DaemonSet removes.
    pub taints: Vec<StartupTaint>,
}

/// A taint that a DaemonSet removes once it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StartupTaint {
    /// The taint.
    pub taint: Taint,
    /// The numbers of the DaemonSets that remove it.
    pub removers: Vec<usize>,
    /// Why it stays: the taints that none of them tolerates; empty if they do not match the node for another reason. `None` if it is
    /// removed.
    pub kept_by: Option<Vec<Taint>>,
}

impl<'a> TaintRemovers<'a> {
    /// Finds the DaemonSets that remove taints of these nodes.
    pub fn new<'n>(daemon_sets: &'a [(&'a DaemonSet, DaemonPod)], nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for taint in nodes.flat_map(|node| &node.spec.taints) {
            if is_startup(&taint.key) && !by_key.contains_key(&taint.key) {
                let removes =
                    |(_, (daemon_set, _)): &(usize, &(&DaemonSet, DaemonPod))| removes(daemon_set, &taint.key);
                let removers = daemon_sets.iter().enumerate().filter(removes).map(|(number, _)| number);
                by_key.insert(taint.key.clone(), removers.collect());
            }
        }
        TaintRemovers { daemon_sets, by_key }
    }

    /// Returns what becomes of the taints of a node as its DaemonSets start.
    pub fn after_start<'n>(&self, node: &'n Node) -> AfterStart<'n> {
        let removers = |taint: &Taint| self.by_key.get(&taint.key).filter(|removers| !removers.is_empty());
        if !node.spec.taints.iter().any(|taint| removers(taint).is_some()) {
            return AfterStart { node: Cow::Borrowed(node), taints: Vec::new() };
        }
        let mut after = node.clone();
        loop {
            let runs = |number: &usize| self.daemon_sets[*number].1.decide(&after).should_run;
            let is_removed = |taint: &Taint| removers(taint).is_some_and(|removers| removers.iter().any(runs));
            let left: Vec<Taint> = after.spec.taints.iter().filter(|taint| !is_removed(taint)).cloned().collect();
            if left.len() == after.spec.taints.len() {
                break;
            }
            after.spec.taints = left;
        }
        let taints = node.spec.taints.iter().filter_map(|taint| {
            let removers = removers(taint)?.clone();
            let kept_by = after.spec.taints.contains(taint).then(|| {
                let is_tolerated = |other: &Taint, number: &usize| {
                    let tolerations = self.daemon_sets[*number].1.tolerations();
                    other.effect == "PreferNoSchedule" || tolerations.iter().any(|one| tolerates(one, other))
                };
                let keeps = |other: &&Taint| !removers.iter().any(|number| is_tolerated(other, number));
                after.spec.taints.iter().filter(keeps).cloned().collect()
            });
            Some(StartupTaint { taint: taint.clone(), removers, kept_by })
        });
        let taints = taints.collect();
        AfterStart { node: Cow::Owned(after), taints }
    }
}

/// Returns whether a taint with this key may be one that an agent removes.
fn is_startup(key: &str) -> bool {
    key.rsplit_once('/').is_some_and(|(domain, name)| {
        name.ends_with("not-ready") && domain != "node.kubernetes.io" && domain != "node.cloudprovider.kubernetes.io"
    })
}

/// Returns whether a DaemonSet removes the taint with this key: its containers or volumes name the domain, as a CSI driver names its
/// socket.
fn removes(daemon_set: &DaemonSet, key: &str) -> bool {
    let Some(spec) = daemon_set.object.pointer("/spec/template/spec") else { return false };
    let named = CONTAINERS.iter().find(|(taint, _)| *taint == key);
    if let Some((_, container)) = named {
        let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
        return lists.flatten().any(|one| one["name"] == *container);
    }
    let domain = key.rsplit_once('/').map_or(key, |(domain, _)| domain);
    ["containers", "initContainers", "volumes"].into_iter().any(|part| mentions(&spec[part], domain))
}

/// Returns whether a string in a value contains a text.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(values) => values.iter().any(|value| mentions(value, text)),
        Value::Object(fields) => fields.values().any(|value| mentions(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::TaintRemovers;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::node::Node;
    use crate::scheduling::should_run::DaemonPod;

    fn daemon_set(name: &str, container: Value, tolerates: &[&str]) -> DaemonSet {
        let tolerations: Vec<Value> = tolerates.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect();
        let spec = json!({"containers": [container], "tolerations": tolerations});
        DaemonSet::from_object(json!({"metadata": {"name": name}, "spec": {"template": {"spec": spec}}})).unwrap()
    }

    /// Returns the taints that stay, with those that keep them in parentheses.
    fn left(daemon_sets: &[DaemonSet], keys: &[&str]) -> Vec<String> {
        let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        let node: Node = from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap();
        let pods: Vec<(&DaemonSet, DaemonPod)> =
            daemon_sets.iter().map(|one| (one, DaemonPod::new(&one.spec.template))).collect();
        let removers = TaintRemovers::new(&pods, [&node].into_iter());
        let after = removers.after_start(&node);
        let told = |key: &str| {
            let startup = after.taints.iter().find(|one| one.taint.key == key);
            let kept_by = startup.and_then(|one| one.kept_by.as_ref());
            let kept_by: Vec<&str> = kept_by.into_iter().flatten().map(|taint| taint.key.as_str()).collect();
            format!("{key}({})", kept_by.join(","))
        };
        after.node.spec.taints.iter().map(|taint| told(&taint.key)).collect()
    }

    #[test]
    fn agents_remove_their_taints_one_after_the_other_unless_they_keep_each_other_away() {
        let ebs = json!({"name": "ebs-plugin", "args": ["--path=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock"]});
        let (cilium, other) = (json!({"name": "cilium-agent"}), json!({"name": "other"}));
        let (ebs_taint, cilium_taint) = ("ebs.csi.aws.com/agent-not-ready", "node.cilium.io/agent-not-ready");
        let agents = |of_ebs: &[&str], of_cilium: &[&str]| {
            [
                daemon_set("ebs", ebs.clone(), of_ebs),
                daemon_set("cilium", cilium.clone(), of_cilium),
                daemon_set("other", other.clone(), &[ebs_taint, cilium_taint]),
            ]
        };
        let both = [ebs_taint, cilium_taint];
        assert_eq!(left(&agents(&both, &both), &both), Vec::<String>::new());
        // Cilium goes first.
        assert_eq!(left(&agents(&[ebs_taint], &both), &both), Vec::<String>::new());
        // Each waits for the other.
        let deadlock = [format!("{ebs_taint}({cilium_taint})"), format!("{cilium_taint}({ebs_taint})")];
        assert_eq!(left(&agents(&[ebs_taint], &[cilium_taint]), &both), deadlock);
        // A taint that stays keeps the only agent away that removes the other one.
        let kept = [format!("{ebs_taint}(dedicated)"), "dedicated()".to_owned()];
        assert_eq!(left(&agents(&[ebs_taint], &both), &[ebs_taint, "dedicated"]), kept);
        // Nobody is known to remove it.
        assert_eq!(left(&agents(&both, &both), &["s3.csi.aws.com/agent-not-ready"]).len(), 1);
    }
}
