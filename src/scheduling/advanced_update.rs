//! The rolling update of OpenKruise's Advanced DaemonSets: a partition and a selector retain old pods.

use jiff::Timestamp;

use super::daemon_pods::{self, NodePods};
use super::rolling_update::{Candidate, UpdateLimits, UpdateStep, UpdatedPods, limits};
use crate::model::daemon_set::{DaemonSet, RollingUpdate};
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;

/// Decides which pods the rolling update of an Advanced DaemonSet replaces next; it must not be paused.
///
/// Unlike Kubernetes' own controller it ignores nodes that do not exist, counts no unavailable old pod against
/// `maxUnavailable`, and surges onto nodes that should not run a pod, too. Ported from `rollingUpdate`,
/// pkg/controller/daemonset/daemonset_update.go of OpenKruise, commit 07169cfac of 2026-07-02, with the default feature
/// gates and without the lifecycle hook `preDelete`. In-place updates take the place of deletions.
pub fn rolling_update<'a>(
    daemon_set: &DaemonSet,
    rolling: &RollingUpdate,
    current_hash: &str,
    nodes: &[NodePods<'a>],
    now: Timestamp,
) -> UpdateStep<'a> {
    let desired = nodes.iter().filter(|node| node.should_run()).count();
    let UpdateLimits { max_unavailable, max_surge } = limits(daemon_set, int(desired));
    let available = |pod: &Pod| daemon_pods::is_available(pod, daemon_set.spec.min_ready_seconds, now);
    let surges = max_surge > 0;
    let mut step =
        UpdateStep { surges, allowed: if surges { max_surge } else { max_unavailable }, ..UpdateStep::default() };
    let (updated, retained) = nodes_to_update(daemon_set, rolling, current_hash, nodes);
    step.retained = retained;
    for (node, pods) in updated {
        match (pods, surges) {
            (UpdatedPods::TooMany, _) | (UpdatedPods::None | UpdatedPods::Both { .. }, false) => {
                step.used_by.push(node)
            }
            (UpdatedPods::New(pod), false) if !available(pod) => step.used_by.push(node),
            (UpdatedPods::New(_), _) | (UpdatedPods::None, true) => {}
            (UpdatedPods::Old(pod), _) if available(pod) => step.candidates.push(Candidate { node, pod }),
            (UpdatedPods::Old(pod), false) => step.delete.push(pod),
            (UpdatedPods::Old(_), true) => step.create.push(node),
            (UpdatedPods::Both { new, old }, true) if available(new) => step.delete.push(old),
            (UpdatedPods::Both { .. }, true) => step.used_by.push(node),
        }
    }
    let used = int(step.used_by.len());
    step.replaced_now = usize::try_from(step.allowed - used).unwrap_or(0).min(step.candidates.len());
    step
}

/// Returns the nodes that the update may reach with their pods, and those whose old pods are retained.
///
/// Ported from `filterDaemonPodsNodeToUpdate`, pkg/controller/daemonset/daemonset_update.go of OpenKruise: first nodes
/// that are updated, then those without a pod, then the others that the selector matches, each by name from the last to
/// the first; as many as the partition leaves of all nodes that should run a pod or have one.
fn nodes_to_update<'a>(
    daemon_set: &DaemonSet,
    rolling: &RollingUpdate,
    current_hash: &str,
    nodes: &[NodePods<'a>],
) -> (Vec<(&'a str, UpdatedPods<'a>)>, Vec<&'a str>) {
    let existing = nodes.iter().filter(|node| node.decision.is_some());
    let mut all: Vec<&NodePods<'a>> = existing.filter(|node| node.should_run() || !node.pods.is_empty()).collect();
    all.sort_by(|one, other| other.node.cmp(one.node));
    let (mut updated, mut updating, mut selected, mut retained) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for node in &all {
        let pods = UpdatedPods::on(daemon_set, current_hash, &node.pods);
        match pods {
            UpdatedPods::New(_) | UpdatedPods::Both { .. } | UpdatedPods::TooMany => updated.push((node.node, pods)),
            UpdatedPods::None => updating.push((node.node, pods)),
            UpdatedPods::Old(_) if node.selected => selected.push((node.node, pods)),
            UpdatedPods::Old(_) => retained.push(node.node),
        }
    }
    updated.extend(updating);
    updated.extend(selected);
    let partition =
        rolling.partition.map_or(0, |partition| partition.scaled_down(daemon_set.status.desired_number_scheduled));
    let reached = all.len().saturating_sub(usize::try_from(partition).unwrap_or(0));
    let beyond = updated.split_off(reached.min(updated.len()));
    retained.extend(beyond.iter().filter(|(_, pods)| matches!(pods, UpdatedPods::Old(_))).map(|(node, _)| *node));
    retained.sort_unstable();
    (updated, retained)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::rolling_update;
    use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
    use crate::model::pod::Pod;
    use crate::scheduling::daemon_pods::NodePods;
    use crate::scheduling::should_run::Decision;

    /// Returns the candidates, the retained nodes, the deleted pods, and how many are replaced, of nodes `n0`, `n1`, …
    /// each with a pod: `o` old, `u` old and unavailable, `n` new, `f` new and unavailable; `b` and `s` are an old one
    /// beside `n` and `f`, and `.` is none. Nodes that should not run a pod are `O` with an old one and `X` without.
    fn step(rolling: &Value, pods: &str) -> (Vec<String>, Vec<String>, usize, usize) {
        let daemon_set = DaemonSet::from_object(json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "metadata": {"name": "agent", "namespace": "default", "uid": "u"},
            "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
            "status": {"desiredNumberScheduled": pods.len()},
        }))
        .unwrap();
        let pod = |kind: char| -> Pod {
            let (hash, ready) = (if "ou".contains(kind) { "old" } else { "new" }, "on".contains(kind));
            let ready = if ready { "True" } else { "False" };
            serde_json::from_value(json!({"metadata": {"labels": {"controller-revision-hash": hash}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
            .unwrap()
        };
        let on_node = |kind: char| -> (Decision, Vec<Pod>) {
            let kinds = match kind {
                'b' => "on".to_owned(),
                's' => "of".to_owned(),
                '.' | 'X' => String::new(),
                kind => kind.to_lowercase().to_string(),
            };
            let should_run = !kind.is_uppercase();
            (Decision { should_run, should_continue_running: true }, kinds.chars().map(pod).collect())
        };
        let nodes: Vec<(String, (Decision, Vec<Pod>))> =
            pods.chars().enumerate().map(|(at, kind)| (format!("n{at}"), on_node(kind))).collect();
        let nodes: Vec<NodePods<'_>> = nodes
            .iter()
            .map(|(node, (decision, pods))| NodePods {
                node,
                decision: Some(*decision),
                pods: pods.iter().collect(),
                selected: node != "n0",
            })
            .collect();
        let UpdateStrategy::RollingUpdate(rolling) = &daemon_set.spec.update_strategy else {
            panic!("a rolling update")
        };
        let step = rolling_update(&daemon_set, rolling, "new", &nodes, "2026-03-01T12:00:00Z".parse().unwrap());
        let candidates = step.candidates.iter().map(|candidate| candidate.node.to_owned()).collect();
        (candidates, step.retained.iter().map(|&node| node.to_owned()).collect(), step.delete.len(), step.replaced_now)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_partition_retains_the_nodes_that_come_first_by_name() {
        let all = json!({"selector": {}});
        // n0 is not selected.
        assert_eq!(step(&all, "ooo"), (names(&["n2", "n1"]), names(&["n0"]), 0, 1));
        assert_eq!(step(&json!({"partition": 2}), "oooo"), (names(&["n3", "n2"]), names(&["n0", "n1"]), 0, 1));
        // 30% of 4 is 1, rounded down; all nodes count, selected or not.
        assert_eq!(step(&json!({"partition": "30%"}), "oooo"), (names(&["n3", "n2", "n1"]), names(&["n0"]), 0, 1));
        // Updated nodes use up what the partition leaves.
        assert_eq!(step(&json!({"partition": 2}), "nnoo"), (names(&[]), names(&["n2", "n3"]), 0, 0));
    }

    #[test]
    fn unavailable_old_pods_go_at_once_and_do_not_count() {
        assert_eq!(step(&json!({}), "nuo"), (names(&["n2"]), names(&[]), 1, 1));
        assert_eq!(step(&json!({}), "nfo"), (names(&["n2"]), names(&[]), 0, 0));
        assert_eq!(step(&json!({"partition": 3}), "nuo"), (names(&[]), names(&["n1", "n2"]), 0, 0));
    }

    #[test]
    fn surging_counts_nodes_whose_new_pod_is_not_available() {
        let surge = json!({"maxSurge": 1, "maxUnavailable": 0});
        assert_eq!(step(&surge, "noo"), (names(&["n2", "n1"]), names(&[]), 0, 1));
        assert_eq!(step(&surge, ".oo"), (names(&["n2", "n1"]), names(&[]), 0, 1));
        // The old pod goes once the new one is available.
        assert_eq!(step(&surge, "boo"), (names(&["n2", "n1"]), names(&[]), 1, 1));
        assert_eq!(step(&surge, "soo"), (names(&["n2", "n1"]), names(&[]), 0, 0));
    }

    #[test]
    fn a_node_that_should_not_run_a_pod_is_updated_if_it_has_one() {
        assert_eq!(step(&json!({}), "no."), (names(&["n1"]), names(&[]), 0, 0));
        assert_eq!(step(&json!({}), "noX"), (names(&["n1"]), names(&[]), 0, 1));
        assert_eq!(step(&json!({}), "noO"), (names(&["n2", "n1"]), names(&[]), 0, 1));
    }
}
