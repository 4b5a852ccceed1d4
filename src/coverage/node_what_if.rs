//! What would change for DaemonSets if labels and taints of nodes were changed.

use super::gaps;
use super::group::FindingGroups;
use super::overhead::startup_taint;
use super::startup_taints::TaintRemovers;
use super::what_if::{Fit, ProposedDaemonSet};
use crate::facts::index::Index;
use crate::model::daemon_set::DaemonSet;
use crate::model::node::{Node, Taint};
use crate::model::node_edit::NodeEdit;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::Incomplete;
use crate::report::node_what_if::{DaemonSetOnNodes, EvictedPods, NodeWhatIfReport};
use crate::scheduling::should_run::DaemonPod;
use crate::scheduling::taints::tolerates;

/// Compares what DaemonSets run on the nodes of a snapshot with what they would run if these were changed.
pub fn node_what_if(snapshot: &Snapshot, edit: &NodeEdit, changes: &[String]) -> NodeWhatIfReport {
    let index = Index::new(snapshot);
    let daemon_sets: Vec<&DaemonSet> =
        index.daemon_sets().into_iter().filter(|daemon_set| !daemon_set.metadata.is_terminating()).collect();
    let edited: Vec<Node> = index.nodes.iter().map(|node| edit.applied(node)).collect();
    let mut incomplete: Vec<Incomplete> = Vec::new();
    let mut found: Vec<DaemonSetOnNodes> = daemon_sets
        .iter()
        .map(|daemon_set| {
            let (on_nodes, room_is_unknown) = on_nodes(&index, daemon_set, edit, &edited);
            let unread = gaps::incomplete_for_new_pods(snapshot, &daemon_set.spec.template.spec, room_is_unknown);
            incomplete.extend(unread.into_iter().filter(|_| room_is_unknown));
            on_nodes
        })
        .collect();
    incomplete.extend(gaps::incomplete(snapshot).into_iter().filter(|gap| gap.affects_counts));
    let mut told: Vec<Incomplete> = Vec::new();
    for gap in incomplete {
        if !told.contains(&gap) {
            told.push(gap);
        }
    }
    let lost = |one: &DaemonSetOnNodes| one.loses.iter().map(|group| group.count).sum::<usize>();
    found.sort_by_key(|one| {
        let evicted = one.evicted.as_ref().map_or(0, |evicted| evicted.nodes.len());
        std::cmp::Reverse((lost(one), evicted, one.stays.len(), one.does_not_fit.len(), one.gains.len()))
    });
    let daemon_pods: Vec<(&DaemonSet, DaemonPod)> =
        daemon_sets.iter().map(|daemon_set| (*daemon_set, DaemonPod::new(&daemon_set.spec.template))).collect();
    let removers = TaintRemovers::new(&daemon_pods, edited.iter());
    let mut startup_taints = Vec::new();
    for node in &edited {
        let stays = removers.after_start(node).taints.into_iter().filter(|taint| taint.kept_by.is_some());
        for taint in stays.map(|taint| startup_taint(&taint, &daemon_sets)) {
            if !startup_taints.contains(&taint) {
                startup_taints.push(taint);
            }
        }
    }
    NodeWhatIfReport {
        incomplete: told,
        nodes: index.nodes.iter().map(|node| node.metadata.name.clone()).collect(),
        changes: changes.to_vec(),
        daemon_sets: found,
        startup_taints,
    }
}

/// Returns what would change for one DaemonSet, and whether it is not known for some node if its pod has room there.
fn on_nodes(index: &Index<'_>, daemon_set: &DaemonSet, edit: &NodeEdit, edited: &[Node]) -> (DaemonSetOnNodes, bool) {
    let proposal = ProposedDaemonSet::new(index, daemon_set, None);
    let (mut keeps, mut gains, mut stays, mut evicted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut loses, mut does_not_fit) = (FindingGroups::default(), FindingGroups::default());
    let (mut room_is_unknown, mut after) = (false, i64::MAX);
    let knows_pods = index.knows(Kind::Pods, &daemon_set.metadata.namespace);
    for (number, (before, then)) in index.nodes.iter().zip(edited).enumerate() {
        let name = before.metadata.name.clone();
        let has_pod = proposal.has_pod(number);
        let (now, decision) = (proposal.pod.decide(before), proposal.pod.decide(then));
        if decision.should_run {
            if let Some(seconds) = tolerated_for(&proposal.pod, &edit.taints) {
                after = after.min(seconds);
                evicted.push(name);
            } else if now.should_run {
                keeps.push(name);
            } else {
                match proposal.fit(then, has_pod) {
                    Some(Fit::Lacks(obstacle)) => does_not_fit.extend(&name, Some(obstacle)),
                    Some(Fit::Fits | Fit::ByPreemption(..) | Fit::Unknown(_)) => gains.push(name),
                    None => {
                        room_is_unknown = true;
                        gains.push(name);
                    }
                }
            }
        } else if decision.should_continue_running && now.should_continue_running {
            match (knows_pods, has_pod) {
                (true, true) => stays.push(name),
                (true, false) if now.should_run => loses.extend(&name, proposal.loss(then, false)),
                // It is not known whether there is one that stays.
                (false, _) if now.should_run => stays.push(name),
                _ => {}
            }
        } else if now.should_run || (now.should_continue_running && has_pod) {
            loses.extend(&name, proposal.loss(then, false));
        }
    }
    let report = DaemonSetOnNodes {
        namespace: daemon_set.metadata.namespace.clone(),
        name: daemon_set.metadata.name.clone(),
        keeps,
        gains,
        loses: loses.into_report(),
        stays,
        does_not_fit: does_not_fit.into_report(),
        evicted: (!evicted.is_empty()).then_some(EvictedPods { after_seconds: after, nodes: evicted }),
    };
    (report, room_is_unknown)
}

/// Returns for how many seconds a pod tolerates these taints; `None` if for ever.
///
/// Ported from `getMinTolerationTime`, pkg/controller/tainteviction/taint_eviction.go, release 1.37.2.
fn tolerated_for(pod: &DaemonPod, taints: &[Taint]) -> Option<i64> {
    let no_execute = taints.iter().filter(|taint| taint.effect == "NoExecute");
    let used = no_execute.filter_map(|taint| pod.tolerations().iter().find(|one| tolerates(one, taint)));
    used.filter_map(|toleration| toleration.toleration_seconds).map(|seconds| seconds.max(0)).min()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::node_what_if;
    use crate::coverage::test_support::world;
    use crate::model::node_edit::{NodeEdit, TaintKey};
    use crate::report::node_what_if::NodeWhatIfReport;

    fn taint(effect: &str) -> NodeEdit {
        let taint = json!({"key": "team", "value": "ml", "effect": effect});
        NodeEdit { taints: vec![serde_json::from_value(taint).unwrap()], ..NodeEdit::default() }
    }

    /// Returns what becomes of an agent with these tolerations and node selector on `on`, which runs it, and `off`.
    fn report(template: Value, edit: &NodeEdit) -> NodeWhatIfReport {
        let snapshot = world()
            .template(template)
            .node("on", json!({"metadata": {"labels": {"pool": "a"}}}))
            .pod("agent-on", "on", json!({}))
            .node("off", json!({"metadata": {"labels": {"pool": "b"}}}))
            .finish();
        node_what_if(&snapshot, edit, &[])
    }

    #[test]
    fn pods_are_kept_lost_gained_and_left_by_what_a_taint_or_label_decides() {
        let of_pool = || json!({"nodeSelector": {"pool": "a"}});
        let tolerating = |seconds: Value| {
            let toleration = json!({"key": "team", "operator": "Exists", "tolerationSeconds": seconds});
            json!({"nodeSelector": {"pool": "a"}, "tolerations": [toleration]})
        };
        let said = |template: Value, edit: &NodeEdit| {
            let report = report(template, edit);
            let one = report.daemon_sets.into_iter().next().unwrap();
            let lost: Vec<String> = one.loses.into_iter().flat_map(|group| group.nodes).collect();
            let evicted = one.evicted.map(|evicted| format!("{}s", evicted.after_seconds)).unwrap_or_default();
            [one.keeps.join(""), one.gains.join(""), lost.join(""), one.stays.join(""), evicted].join("/")
        };
        assert_eq!(said(of_pool(), &taint("NoExecute")), "//on//");
        assert_eq!(said(of_pool(), &taint("NoSchedule")), "///on/");
        assert_eq!(said(of_pool(), &taint("PreferNoSchedule")), "on////");
        assert_eq!(said(tolerating(Value::Null), &taint("NoExecute")), "on////");
        assert_eq!(said(tolerating(json!(300)), &taint("NoExecute")), "////300s");
        let label = |value: Option<&str>| NodeEdit {
            labels: [("pool".to_owned(), value.map(str::to_owned))].into(),
            ..NodeEdit::default()
        };
        assert_eq!(said(of_pool(), &label(None)), "//on//");
        assert_eq!(said(of_pool(), &label(Some("a"))), "on/off///");
        let report = report(of_pool(), &taint("NoExecute"));
        assert!(!report.passes());
        assert!(report.daemon_sets[0].loses[0].message.contains("team=ml:NoExecute"));
    }

    #[test]
    fn a_taint_that_is_removed_lets_pods_in_if_they_fit() {
        let removed = TaintKey { key: "team".to_owned(), effect: None };
        let edit = NodeEdit { removed_taints: vec![removed], ..NodeEdit::default() };
        let tainted = json!({"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}});
        for (cpu, gains, does_not_fit) in [("1", 1, 0), ("9", 0, 1)] {
            let container = json!({"name": "agent", "resources": {"requests": {"cpu": cpu}}});
            let snapshot = world().template(json!({"containers": [container]})).node("n", tainted.clone()).finish();
            let report = node_what_if(&snapshot, &edit, &[]);
            let one = &report.daemon_sets[0];
            assert_eq!((one.gains.len(), one.does_not_fit.len()), (gains, does_not_fit), "{report:?}");
        }
    }
}
