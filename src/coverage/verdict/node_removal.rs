//! Nodes that an autoscaler is removing, and those whose removal does not get on.

use jiff::Timestamp;

use super::finding::{Finding, describe_node};
use super::sentence::Sentence;
use crate::model::node::{Node, Taint};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// The taint of Cluster Autoscaler, whose value is the time in seconds since 1970.
const CLUSTER_AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

/// After how many seconds a removal is stuck: Cluster Autoscaler gives pods ten minutes to terminate.
const STUCK: i64 = 900;

/// Returns whether an autoscaler sets the taint with this key on nodes that it removes.
pub fn is_by_autoscaler(key: &str) -> bool {
    matches!(key, CLUSTER_AUTOSCALER | "karpenter.sh/disrupted" | "karpenter.sh/disruption")
}

/// Finds that an autoscaler removes the node, and whether that takes too long.
pub fn finding(now: Timestamp, node: &Node, taint: &Taint) -> Finding {
    let code = match taint.effect.as_str() {
        "NoExecute" => ReasonCode::UntoleratedNoExecute,
        _ => ReasonCode::UntoleratedNoSchedule,
    };
    let Some(since) = began_at(node, taint).map(|at| seconds_between(at, now)) else {
        let message = format!("taint {taint} is not tolerated: the autoscaler is removing the node");
        let advice = "wait until the autoscaler has removed the node; if that takes more than 15m, check its log";
        return Finding::new(code, message, advice).with_command(describe_node(node));
    };
    // The value of the taint is a time, which differs from node to node.
    let key = &taint.key;
    if since <= STUCK {
        let message = Sentence::from(format!("taint {key} is not tolerated: the autoscaler began to remove the node "));
        return Finding::new(code, message.age(since).words(" ago"), "wait until the autoscaler has removed the node");
    }
    let message =
        Sentence::from("the autoscaler has been removing the node for ").age(since).words(format!(" (taint {key})"));
    let advice = "check what blocks the drain, such as a PodDisruptionBudget or a finalizer, and the log of the \
                  autoscaler; if it has given the node up or is no longer installed, remove the taint";
    let finding = Finding::new(ReasonCode::NodeRemovalStuck, message, advice).with_command(describe_node(node));
    Finding { likely_mistake: true, ..finding }
}

/// Returns when an autoscaler began to remove a node, if that can be told: Karpenter's taint has no time, but the deletion
/// of the Node object follows it.
fn began_at(node: &Node, taint: &Taint) -> Option<Timestamp> {
    let value = || taint.value.parse().ok().filter(|_| taint.key == CLUSTER_AUTOSCALER);
    let from_value = || Timestamp::from_second(value()?).ok();
    taint.time_added.get().or_else(from_value).or_else(|| node.metadata.deleted_at())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{at, world};
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
}
