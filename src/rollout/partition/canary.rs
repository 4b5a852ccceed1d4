//! The canary of a staged rollout: a few nodes that together have each value of the strata.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use jiff::Timestamp;

use super::is_skipped;
use crate::model::stages::Stratum;
use crate::rollout::situation::fault::was_broken;
use crate::rollout::situation::{RolloutNode, Situation};

/// A value of a stratum; empty for the nodes that have none.
pub(super) type Value<'v> = (&'v Stratum, &'v str);

/// Which nodes are updated first.
pub(super) struct Canary<'v, 'a> {
    /// The nodes to update, in this order, with the values that each stands for: those that no node before it has.
    pub(super) nodes: Vec<(&'v RolloutNode<'a>, Vec<Value<'v>>)>,
    /// The values of eligible nodes that the canary lacks, because none of those nodes can be updated now.
    pub(super) uncovered: Vec<Value<'v>>,
    /// The stratum with the most values, and how many those are.
    pub(super) broadest: Option<(&'v Stratum, usize)>,
}

/// Chooses the nodes of a canary from an order. Nodes that have a pod of the revision already, or get one because they have none, stand
/// for their values, so that a canary that was begun is continued, unless they have failed since before the rollout `began`.
///
/// This is the greedy approximation of a set cover: the node with the most values that are left is next, the first one of equals. Nodes
/// on which everything fails are a last resort, because they tell nothing about the revision.
pub(super) fn canary<'v, 'a>(
    situation: &'v Situation<'a>,
    order: &[&'v RolloutNode<'a>],
    strata: &'v [Stratum],
    began: Timestamp,
) -> Canary<'v, 'a> {
    let mut numbers: HashMap<Value<'v>, usize> = HashMap::new();
    let mut values: Vec<Value<'v>> = Vec::new();
    let mut values_of: HashMap<&str, Vec<usize>> = HashMap::new();
    for node in situation.eligible() {
        let Some(object) = node.object else { continue };
        let of_node = strata.iter().map(|stratum| {
            let value = (stratum, stratum.value(object));
            *numbers.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() - 1
            })
        });
        values_of.insert(node.name, of_node.collect());
    }
    let mut of_stratum: HashMap<&Stratum, usize> = HashMap::new();
    values.iter().for_each(|(stratum, _)| *of_stratum.entry(stratum).or_default() += 1);
    // What all nodes have in common needs no node of its own, but there is at least one.
    let mut is_left: Vec<bool> = values.iter().map(|(stratum, _)| of_stratum[stratum] > 1).collect();
    let mut needs_one = true;
    // What has failed since fails because of the revision, and no other node must fail for it.
    let is_older = |since: Option<Timestamp>| since.is_some_and(|since| since.as_second() < began.as_second());
    let stands = |node: &&RolloutNode<'a>| match (node.updated, node.object) {
        (Some(pod), _) => {
            let since = pod.unready_since().or_else(|| pod.metadata.creation_timestamp.get());
            node.updated_is_available || !is_older(since)
        }
        (None, Some(object)) => {
            let down_since = || object.condition("Ready")?.last_transition_time.get();
            node.old.is_none() && (node.is_ready() || !is_older(down_since()))
        }
        (None, None) => false,
    };
    for node in situation.eligible().filter(stands) {
        values_of.get(node.name).into_iter().flatten().for_each(|value| is_left[*value] = false);
        needs_one = false;
    }
    let can_be_updated = |node: &&RolloutNode<'a>| node.is_ready() && !is_skipped(node);
    let candidates = order.iter().copied().filter(can_be_updated);
    let candidates = candidates.filter_map(|node| Some((node, values_of.get(node.name)?)));
    let (sound, broken): (Vec<_>, Vec<_>) =
        candidates.partition(|(node, _)| node.old_is_available || !was_broken(situation, node));
    let mut nodes = Vec::new();
    for candidates in [sound, broken] {
        // What each node would add at most: it adds less after another one was chosen, and never more.
        let gains = candidates.iter().enumerate().map(|(at, (_, of_node))| (of_node.len(), Reverse(at)));
        let mut gains: BinaryHeap<(usize, Reverse<usize>)> = gains.collect();
        while let Some((at_most, Reverse(at))) = gains.pop() {
            let (node, of_node) = candidates[at];
            let stands_for: Vec<_> =
                of_node.iter().filter(|value| is_left[**value]).map(|value| values[*value]).collect();
            if stands_for.len() < at_most {
                gains.push((stands_for.len(), Reverse(at)));
                continue;
            }
            if stands_for.is_empty() && !needs_one {
                break;
            }
            nodes.push((node, stands_for));
            of_node.iter().for_each(|value| is_left[*value] = false);
            needs_one = false;
        }
    }
    let uncovered = values.into_iter().zip(is_left).filter(|(_, is_left)| *is_left).map(|(value, _)| value).collect();
    let counted = strata.iter().filter_map(|stratum| Some((stratum, *of_stratum.get(stratum)?)));
    let broadest = counted.rev().max_by_key(|(_, values)| *values);
    Canary { nodes, uncovered, broadest }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::{RolloutNode, Situation, canary};
    use crate::coverage::test_support::{World, at, world};
    use crate::facts::index::Index;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::stages::Stratum;
    use crate::rollout::partition::order::order;
    use crate::rollout::partition::plan::{Amount, StageRequest};
    use crate::rollout::partition::template::NewTemplate;

    /// What a test says of a node: its zone and its kernel, whether it is ready, and whether its pod is updated.
    type Node<'n> = (&'n str, &'n str, bool, bool);

    fn with_nodes(nodes: &[Node<'_>]) -> World {
        let old = json!({"metadata": {"creationTimestamp": at("11:10:00"),
            "labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        nodes.iter().enumerate().fold(world(), |world, (number, (zone, kernel, is_ready, is_updated))| {
            let name = format!("n{number:02}");
            let ready = if *is_ready { "True" } else { "False" };
            let node = json!({
                "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"nodeInfo": {"kernelVersion": kernel}, "conditions": [{"type": "Ready", "status": ready}]},
            });
            let pod = if *is_updated { json!({}) } else { old.clone() };
            world.node(&name, node).pod(&format!("a{number:02}"), &name, pod)
        })
    }

    /// Returns the nodes of the canary with what they stand for, and what is left.
    fn chosen(world: World, strata: &[Stratum]) -> (Vec<(String, String)>, String) {
        chosen_since(world, strata, &at("12:00:00"))
    }

    fn chosen_since(world: World, strata: &[Stratum], began: &str) -> (Vec<(String, String)>, String) {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let all = Amount::Keep(IntOrPercent::Int(0));
        let order = order(&situation, &StageRequest::new(all, NewTemplate::Live, String::new())).unwrap();
        let canary = canary(&situation, &order, strata, began.parse().unwrap());
        let text = |values: Vec<super::Value<'_>>| {
            values.into_iter().map(|(stratum, value)| format!("{stratum} {value}")).collect::<Vec<_>>().join(", ")
        };
        let name = |node: &RolloutNode<'_>| node.name.to_owned();
        let nodes = canary.nodes.into_iter().map(|(node, stands_for)| (name(node), text(stands_for))).collect();
        (nodes, text(canary.uncovered))
    }

    #[test]
    fn each_value_of_the_strata_has_a_node() {
        let new = |zone, kernel| (zone, kernel, true, false);
        for (situation, nodes, expected, uncovered) in [
            (
                "one kernel on one node",
                &[new("a", "6"), new("a", "6"), new("a", "7")][..],
                &[("n00", "kernel 6"), ("n02", "kernel 7")][..],
                "",
            ),
            ("nodes that are alike", &[new("a", "6"), new("a", "6")], &[("n00", "")], ""),
            (
                "one node for two values",
                &[new("a", "6"), new("b", "7"), new("a", "7")],
                &[("n00", "zone a, kernel 6"), ("n01", "zone b, kernel 7")],
                "",
            ),
            (
                "a canary that was begun",
                &[("a", "6", true, true), new("b", "7"), new("a", "7")],
                &[("n01", "zone b, kernel 7")],
                "",
            ),
            ("a canary that is complete", &[("a", "6", true, true), ("a", "7", true, true), new("a", "6")], &[], ""),
            (
                "a kernel whose node is not ready",
                &[new("a", "6"), ("a", "7", false, false)],
                &[("n00", "kernel 6")],
                "kernel 7",
            ),
            ("a node without a zone", &[new("a", "6"), new("", "6")], &[("n01", "zone "), ("n00", "zone a")], ""),
        ] {
            let found = chosen(with_nodes(nodes), &Stratum::DEFAULT);
            let expected = expected.iter().map(|(node, stands)| ((*node).to_owned(), (*stands).to_owned())).collect();
            assert_eq!(found, (expected, uncovered.to_owned()), "{situation}");
        }
        // Only what is asked for.
        let nodes = [new("a", "6"), new("b", "7")];
        assert_eq!(chosen(with_nodes(&nodes), &[Stratum::Label("rack".to_owned())]).0.len(), 1);
        assert_eq!(chosen(with_nodes(&nodes), &[Stratum::Kernel]).0.len(), 2);
    }

    /// A client may have died between a deletion and the creation of the new pod.
    #[test]
    fn a_node_whose_pod_was_deleted_stands_for_its_values() {
        let node = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}});
        let world = with_nodes(&[("a", "6", true, false), ("b", "6", true, false)]).node("n99", node);
        let (nodes, uncovered) = chosen(world, &[Stratum::Zone]);
        assert_eq!((nodes.len(), nodes[0].0.as_str(), uncovered.as_str()), (1, "n00", ""));
    }

    /// What has failed since the rollout began fails because of it: no other node must fail for that.
    #[test]
    fn a_node_that_failed_before_the_rollout_stands_for_nothing() {
        let since = json!({"type": "Ready", "status": "False", "lastTransitionTime": at("11:30:00")});
        let kernel = json!({"kernelVersion": "7"});
        let nodes = || with_nodes(&[("a", "6", true, false), ("a", "7", true, false)]);
        let waiting = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let unready = || {
            let world = nodes().node("n99", json!({"status": {"nodeInfo": kernel}}));
            world.unready_pod("a99", "n99", waiting.clone(), json!({"status": {"conditions": [since]}}))
        };
        let down = || nodes().node("n99", json!({"status": {"nodeInfo": kernel, "conditions": [since]}}));
        for (situation, world) in [("an updated pod", &unready as &dyn Fn() -> World), ("a node without a pod", &down)]
        {
            let names = |began: &str| {
                let (nodes, uncovered) = chosen_since(world(), &[Stratum::Kernel], &at(began));
                assert_eq!(uncovered, "", "{situation}");
                nodes.into_iter().map(|(node, _)| node).collect::<Vec<_>>().join(" ")
            };
            assert_eq!((&*names("11:45:00"), &*names("11:30:00")), ("n00 n01", "n00"), "{situation}");
        }
    }

    /// A skipped node cannot stand for its kernel.
    #[test]
    fn a_skipped_node_is_no_canary() {
        let mut world = with_nodes(&[("a", "6", true, false), ("a", "6", true, false), ("a", "7", true, false)]);
        for node in [0, 2] {
            let labels = json!({"kubectl-ds/skip": "true"});
            world.snapshot.nodes[node].metadata.labels = serde_json::from_value(labels).unwrap();
        }
        let (nodes, uncovered) = chosen(world, &[Stratum::Kernel]);
        assert_eq!((nodes.len(), nodes[0].0.as_str(), uncovered.as_str()), (1, "n01", "kernel 7"));
    }

    proptest! {
        #[test]
        fn the_cover_has_each_value_with_no_more_nodes_than_values(
            kinds in prop::collection::vec((0..4usize, 0..4usize), 1..12),
        ) {
            let (zones, kernels) = (["a", "b", "c", "d"], ["5", "6", "7", "8"]);
            let nodes: Vec<Node<'_>> =
                kinds.iter().map(|(zone, kernel)| (zones[*zone], kernels[*kernel], true, false)).collect();
            let (canary, uncovered) = chosen(with_nodes(&nodes), &Stratum::DEFAULT);
            prop_assert_eq!(uncovered, "");
            let chosen: Vec<&Node<'_>> =
                canary.iter().map(|(name, _)| &nodes[name[1..].parse::<usize>().unwrap()]).collect();
            let all = |of: &dyn Fn(&Node<'_>) -> String, nodes: &[&Node<'_>]| -> BTreeSet<String> {
                nodes.iter().map(|node| of(node)).collect()
            };
            let every: Vec<&Node<'_>> = nodes.iter().collect();
            let (zone, kernel) = (|node: &Node<'_>| node.0.to_owned(), |node: &Node<'_>| node.1.to_owned());
            prop_assert_eq!(all(&zone, &chosen), all(&zone, &every));
            prop_assert_eq!(all(&kernel, &chosen), all(&kernel, &every));
            // One node for each value, which is naive, would do.
            let naive = [all(&zone, &every).len(), all(&kernel, &every).len()];
            let naive: usize = naive.into_iter().filter(|values| *values > 1).sum();
            prop_assert!(canary.len() <= naive.max(1), "{} nodes for {naive} values", canary.len());
            // Each node adds the most of all that are left.
            let adds: Vec<usize> = canary.iter().map(|(_, values)| values.matches(", ").count()).collect();
            prop_assert!(adds.is_sorted_by(|one, next| one >= next), "{canary:?}");
        }
    }
}
