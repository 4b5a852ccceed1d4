//! Taints that a node starts with and that a DaemonSet removes once it runs there.
//!
//! By convention the agent of a domain removes `DOMAIN/agent-not-ready`: CSI drivers and Cilium do. A taint stays if
//! another taint keeps away every DaemonSet that removes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::pod::Pod;
use crate::model::startup_taint::{is_startup, removes};
use crate::report::age::seconds_between;
use crate::scheduling::daemon_pods::claim;
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::taints::repels;

/// The DaemonSets that remove startup taints.
pub struct TaintRemovers<'a> {
    daemon_sets: &'a [(&'a DaemonSet, DaemonPod)],
    /// The indices of the DaemonSets, by the key of the taint.
    by_key: BTreeMap<String, Vec<usize>>,
}

/// The taints that DaemonSets remove from a node.
pub struct AfterStart<'n> {
    /// The node without the removed taints.
    pub node: Cow<'n, Node>,
    /// The outcome for each taint that a DaemonSet removes.
    pub taints: Vec<StartupTaint>,
}

/// A taint that a DaemonSet removes once it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StartupTaint {
    pub taint: Taint,
    /// The indices of the DaemonSets that remove it.
    pub removers: Vec<usize>,
    /// Why it stays: the taints that none of them tolerates that match the node otherwise; empty if there is none.
    /// `None` if it is removed.
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

    /// Returns the outcome for the taints of a node as its DaemonSets start.
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
                let pods = removers.iter().map(|number| &self.daemon_sets[*number].1);
                let pods: Vec<&DaemonPod> = pods.filter(|pod| pod.explain(node).is_up_to_taints()).collect();
                let repels_all = |other: &&Taint| pods.iter().all(|pod| repels(other, pod.tolerations()));
                after.spec.taints.iter().filter(|taint| !pods.is_empty() && repels_all(taint)).cloned().collect()
            });
            Some(StartupTaint { taint: taint.clone(), removers, kept_by })
        });
        let taints = taints.collect();
        AfterStart { node: Cow::Owned(after), taints }
    }
}

/// The outcome for a startup taint of a node.
pub enum Startup<'a> {
    /// The DaemonSet has run on the node for a long time: the taint was added again since.
    PutBack {
        /// The DaemonSet.
        remover: &'a DaemonSet,
        pod: &'a Pod,
        /// How many seconds it has been ready.
        ready_for: i64,
    },
    /// The DaemonSet should run on the node, but is not ready there yet, or only just became ready.
    Starting(&'a DaemonSet),
    /// The DaemonSet should run on the node, but not all of the node's pods were read.
    Unread(&'a DaemonSet),
    /// The DaemonSet should not run on the node.
    Kept {
        /// The DaemonSet.
        remover: &'a DaemonSet,
        /// The taints that it does not tolerate; empty if it does not match the node for another reason.
        by: Vec<Taint>,
        /// If DaemonSets wait for each other in a cycle: each of them with the taint that it waits for the next one to remove.
        circle: Vec<(&'a DaemonSet, Taint)>,
    },
}

/// Seconds within which a ready agent removes its taint.
const REMOVES_WITHIN: i64 = 300;

/// Returns the outcome for a taint as things are; `None` if no DaemonSet is known to remove it. A taint that [stays](StartupTaint::kept_by)
/// is one that is still there once everything else has started: one whose DaemonSet waits for another to remove a taint is not.
pub fn startup<'a>(index: &Index<'a>, node: &Node, taint: &Taint) -> Option<Startup<'a>> {
    let runs = |daemon_set: &DaemonSet| DaemonPod::new(&daemon_set.spec.template).decide(node).should_run;
    let removers = index.removers_of(&taint.key);
    let first = first_remover(index, node, taint)?;
    let Some(remover) = removers.iter().copied().find(|remover| runs(remover)) else {
        let by = untolerated(first, node);
        return Some(Startup::Kept { remover: first, by, circle: circle(index, node, first, taint) });
    };
    let is_own = |pod: &&Pod| claim(remover, pod).is_claimed();
    let ready_for = |pod: &Pod| {
        let ready = pod.condition("Ready").filter(|ready| ready.status == "True")?;
        Some(seconds_between(ready.last_transition_time.get()?, index.now()))
    };
    let pods = index.bound_to(&node.metadata.name).into_iter().filter(is_own);
    let ready = pods.filter_map(|pod| Some((pod, ready_for(pod)?))).find(|(_, ready_for)| *ready_for > REMOVES_WITHIN);
    Some(match ready {
        Some((pod, ready_for)) => Startup::PutBack { remover, pod, ready_for },
        None if !index.snapshot.knows_all_pods_on(&node.metadata.name) => Startup::Unread(remover),
        None => Startup::Starting(remover),
    })
}

/// Returns the first DaemonSet that removes a taint, of those that match the node if there is one.
fn first_remover<'a>(index: &Index<'a>, node: &Node, taint: &Taint) -> Option<&'a DaemonSet> {
    let removers = index.removers_of(&taint.key);
    let would_run = |it: &&DaemonSet| DaemonPod::new(&it.spec.template).explain(node).is_up_to_taints();
    removers.iter().copied().find(would_run).or_else(|| removers.first().copied())
}

/// Returns the taints of a node that exclude a DaemonSet.
fn untolerated(daemon_set: &DaemonSet, node: &Node) -> Vec<Taint> {
    let pod = DaemonPod::new(&daemon_set.spec.template);
    node.spec.taints.iter().filter(|taint| repels(taint, pod.tolerations())).cloned().collect()
}

/// Follows which DaemonSet waits for which other one to remove a taint, from the one that removes the first taint back to it.
fn circle<'a>(index: &Index<'a>, node: &Node, first: &'a DaemonSet, taint: &Taint) -> Vec<(&'a DaemonSet, Taint)> {
    let mut waiting: Vec<(&DaemonSet, Taint)> = vec![(first, taint.clone())];
    while let Some((last, _)) = waiting.last() {
        let next = untolerated(last, node).into_iter().find_map(|taint| {
            let remover = first_remover(index, node, &taint)?;
            Some((remover, taint))
        });
        match next {
            Some((remover, _)) if std::ptr::eq(remover, first) => return waiting,
            Some((remover, taint)) if waiting.iter().all(|(known, _)| !std::ptr::eq(*known, remover)) => {
                waiting.push((remover, taint));
            }
            _ => break,
        }
    }
    Vec::new()
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

    /// Returns the remaining taints, with those that cause them to stay in parentheses.
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
        // A remaining taint excludes the only agent that removes the other one.
        let kept = [format!("{ebs_taint}(dedicated)"), "dedicated()".to_owned()];
        assert_eq!(left(&agents(&[ebs_taint], &both), &[ebs_taint, "dedicated"]), kept);
        // Another one that removes it does not match the node.
        let mut elsewhere = daemon_set("elsewhere", ebs.clone(), &[ebs_taint, "dedicated"]);
        elsewhere.spec.template.spec.node_selector.insert("pool".to_owned(), "other".to_owned());
        let two = [daemon_set("ebs", ebs.clone(), &[ebs_taint]), elsewhere];
        assert_eq!(left(&two, &[ebs_taint, "dedicated"]), kept);
        // No DaemonSet is known to remove it.
        assert_eq!(left(&agents(&both, &both), &["s3.csi.aws.com/agent-not-ready"]).len(), 1);
    }
}
