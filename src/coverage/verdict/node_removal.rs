//! Nodes that an autoscaler is removing, and what holds up those whose removal does not get on.

use super::finding::{Finding, describe_node};
use super::sentence::Sentence;
use crate::facts::index::Index;
use crate::facts::node_removal::{began_at, is_stuck};
use crate::model::node::{Node, Taint};
use crate::model::pod::Pod;
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// Finds that an autoscaler removes the node, and whether that takes too long.
pub fn finding(index: &Index<'_>, node: &Node, taint: &Taint) -> Finding {
    let code = match taint.effect.as_str() {
        "NoExecute" => ReasonCode::UntoleratedNoExecute,
        _ => ReasonCode::UntoleratedNoSchedule,
    };
    let now = index.now();
    let Some(began) = began_at(node, taint) else {
        let message = format!("taint {taint} is not tolerated: the autoscaler is removing the node");
        let advice = "wait until the autoscaler has removed the node; if that takes more than 15m, check its log";
        return Finding::new(code, message, advice).with_command(describe_node(node));
    };
    // The value of the taint is a time, which differs from node to node.
    let (key, since) = (&taint.key, seconds_between(began, now));
    if !is_stuck(began, now) {
        let message = Sentence::from(format!("taint {key} is not tolerated: the autoscaler began to remove the node "));
        return Finding::new(code, message.age(since).words(" ago"), "wait until the autoscaler has removed the node");
    }
    let message =
        Sentence::from("the autoscaler has been removing the node for ").age(since).words(format!(" (taint {key})"));
    let message =
        if node.metadata.is_terminating() { with_finalizers(message, &node.metadata.finalizers) } else { message };
    let advice = "check what blocks the drain: a PodDisruptionBudget, the annotation karpenter.sh/do-not-disrupt or \
                  cluster-autoscaler.kubernetes.io/safe-to-evict of a pod, or a finalizer; and the log of the autoscaler; \
                  if it has given the node up or is no longer installed, remove the taint";
    let finding = Finding::new(ReasonCode::NodeRemovalStuck, left_on(index, node, message), advice);
    Finding { likely_mistake: true, ..finding.with_command(describe_node(node)) }
}

/// Adds the finalizers that hold an object whose deletion has begun.
pub fn with_finalizers(sentence: Sentence, finalizers: &[String]) -> Sentence {
    match finalizers {
        [] => sentence,
        finalizers => sentence.words(format!("; finalizer {}", finalizers.join(", "))),
    }
}

/// Adds the pods that a drain has yet to evict or that do not terminate, if all pods of the node are known.
fn left_on(index: &Index<'_>, node: &Node, sentence: Sentence) -> Sentence {
    if !index.snapshot.knows_all_pods_on(&node.metadata.name) {
        return sentence;
    }
    // A drain leaves pods of DaemonSets and static ones.
    let stays = |pod: &Pod| pod.metadata.controller().is_some_and(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"));
    let left = index.bound_to(&node.metadata.name).into_iter().filter(|pod| !pod.is_terminal() && !stays(pod));
    let (terminating, kept): (Vec<&Pod>, Vec<&Pod>) = left.partition(|pod| pod.metadata.is_terminating());
    [("; pods not evicted: ", kept), ("; pods still terminating: ", terminating)].into_iter().fold(
        sentence,
        |sentence, (words, pods)| {
            let Some(first) = pods.first() else { return sentence };
            let number = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            let name = format!("{}/{}", first.metadata.namespace, first.metadata.name);
            let name = match first.metadata.finalizers.as_slice() {
                [finalizer, ..] if first.metadata.is_terminating() => format!("{name} (finalizer {finalizer})"),
                _ => name,
            };
            sentence.words(words).number(number).words(", such as ").example(name)
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, at, world};
    use crate::model::snapshot::PodsComplete;
    use crate::report::coverage::DaemonSetCoverage;
    use crate::report::reason::ReasonCode;

    fn with(taint: Value, metadata: Value) -> DaemonSetCoverage {
        world()
            .node("fine", json!({}))
            .pod("agent-x", "fine", json!({}))
            .node("n", json!({"metadata": metadata, "spec": {"taints": [taint]}}))
            .coverage()
    }

    #[test]
    fn a_removal_that_takes_more_than_a_quarter_of_an_hour_is_a_trouble() {
        let noon = 1_772_366_400;
        let added =
            |time: &str| json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at(time)});
        let value = |ago: i64| json!({"key": "ToBeDeletedByClusterAutoscaler", "value": (noon - ago).to_string(), "effect": "NoSchedule"});
        let disrupted = || json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
        for (taint, metadata, is_stuck, words) in [
            (value(9 * 86_400), json!({}), true, "for 9d"),
            (value(901), json!({}), true, "for 15m"),
            (value(900), json!({}), false, "15m ago"),
            (added("11:40:00"), json!({}), true, "for 20m"),
            (added("11:50:00"), json!({}), false, "10m ago"),
            (disrupted(), json!({"deletionTimestamp": at("11:00:00")}), true, "for 60m"),
            (
                disrupted(),
                json!({"deletionTimestamp": at("11:00:00"), "finalizers": ["karpenter.sh/termination"]}),
                true,
                "disrupted); finalizer karpenter.sh/termination",
            ),
            (value(901), json!({"finalizers": ["karpenter.sh/termination"]}), true, "ClusterAutoscaler)"),
            (disrupted(), json!({}), false, "is removing"),
            (
                json!({"key": "karpenter.sh/disrupted", "value": "7", "effect": "NoSchedule"}),
                json!({}),
                false,
                "is removing",
            ),
        ] {
            let coverage = with(taint.clone(), metadata);
            let reason = coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].clone();
            assert_eq!(reason.code == ReasonCode::NodeRemovalStuck, is_stuck, "{taint}");
            assert_eq!(coverage.needs_attention(), is_stuck, "{taint}");
            assert!(reason.message.contains(words), "{}", reason.message);
            assert_eq!(reason.fix.advice.starts_with("wait"), !is_stuck);
        }
    }

    #[test]
    fn what_a_stuck_drain_waits_for_is_named_if_all_pods_are_known() {
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": at("11:00:00")});
        let world = || {
            let held = json!({"metadata": {"deletionTimestamp": at("11:30:00"), "finalizers": ["team/backup"]}});
            let with_owner = |kind: &str| {
                json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": kind, "name": "it", "uid": "it", "controller": true}]}})
            };
            world()
                .node("n", json!({"spec": {"taints": [taint.clone()]}}))
                .other_pod("web-1", "n", json!({}))
                .other_pod("web-2", "n", json!({}))
                .other_pod("db-0", "n", held)
                .other_pod("ended", "n", json!({"status": {"phase": "Succeeded"}}))
                .other_pod("static", "n", with_owner("Node"))
                .other_pod("agent", "n", with_owner("DaemonSet"))
        };
        let told = |world: World| {
            let coverage = world.coverage();
            coverage.nodes.iter().find(|node| node.name == "n").unwrap().reasons[0].message.clone()
        };
        let message = told(world());
        let left = "; pods not evicted: 2, such as default/web-1; pods still terminating: 1, such as default/db-0 (finalizer team/backup)";
        assert!(message.ends_with(left), "{message}");
        let mut partly = world();
        partly.snapshot.pods_complete = PodsComplete::On([].into());
        let message = told(partly);
        assert!(message.ends_with("disrupted)"), "{message}");
    }
}
