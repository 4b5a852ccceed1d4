//! Events while rollouts are followed, derived from the differences between consecutive reports.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;

use crate::report::age::seconds_between;
use crate::report::node_event::{FailedNodes, FollowSummary, NodeEvent, NodeEventKind};
use crate::report::node_map::{MapNode, MapState};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport};

/// Number of recent events kept per rollout.
const MAX_EVENTS: usize = 50;

/// Number of the slowest nodes named in a summary.
const MAX_SLOWEST: usize = 3;

/// The events of rollouts since they are being followed. The reports must contain maps.
#[derive(Debug, Default)]
pub(crate) struct NodeEvents {
    rollouts: BTreeMap<(String, String), FollowedRollout>,
}

/// The events of one rollout.
#[derive(Debug, Default)]
struct FollowedRollout {
    began: Timestamp,
    last: Timestamp,
    nodes: HashMap<String, Known>,
    /// The last events, the newest first.
    events: VecDeque<NodeEvent>,
    /// The seconds that updated nodes were without an available pod, if known.
    updated: BTreeMap<String, Option<i64>>,
    restarts: BTreeMap<String, i64>,
    failed: BTreeMap<Option<ReasonCode>, BTreeSet<String>>,
}

/// The last known state of a node.
#[derive(Debug)]
struct Known {
    node: MapNode,
    /// Since when it has had no available pod.
    unavailable_since: Option<Timestamp>,
    /// Whether this report contains it.
    is_present: bool,
}

impl NodeEvents {
    /// Records what has changed since the last report.
    pub(crate) fn update(&mut self, report: &RolloutStatusReport) {
        let begin = || FollowedRollout { began: report.now, ..FollowedRollout::default() };
        for rollout in &report.daemon_sets {
            let key = (rollout.namespace.clone(), rollout.name.clone());
            self.rollouts.entry(key).or_insert_with(begin).update(rollout, report.now);
        }
    }

    /// Returns the last events of a rollout, the newest first.
    pub(crate) fn of(&self, rollout: &RolloutStatus) -> Vec<&NodeEvent> {
        self.followed(rollout).map_or_else(Vec::new, |followed| followed.events.iter().collect())
    }

    /// Returns the summary of a rollout's events.
    pub(crate) fn summary(&self, rollout: &RolloutStatus) -> FollowSummary {
        let mut summary = self.followed(rollout).map_or_else(FollowSummary::default, FollowedRollout::summary);
        // An accepted fault is not a failure, and the headline names it.
        if let Some(accepted) = rollout.accepted.as_ref().filter(|accepted| accepted.complete) {
            let is_accepted = |node: &String| accepted.by.iter().any(|one| one.nodes.contains(node));
            summary.failed.iter_mut().for_each(|failed| failed.nodes.retain(|node| !is_accepted(node)));
            summary.failed.retain(|failed| !failed.nodes.is_empty());
        }
        summary
    }

    fn followed(&self, rollout: &RolloutStatus) -> Option<&FollowedRollout> {
        self.rollouts.get(&(rollout.namespace.clone(), rollout.name.clone()))
    }
}

impl FollowedRollout {
    fn update(&mut self, rollout: &RolloutStatus, now: Timestamp) {
        self.last = now;
        let Some(map) = &rollout.map else { return };
        let is_first = self.nodes.is_empty();
        for node in map.groups.iter().flat_map(|group| &group.nodes) {
            self.see(node, now, is_first);
        }
        let mut removed: Vec<String> = Vec::new();
        self.nodes.retain(|name, known| {
            let is_present = std::mem::take(&mut known.is_present);
            if !is_present {
                removed.push(name.clone());
            }
            is_present
        });
        removed.sort();
        for node in removed {
            self.events.push_front(NodeEvent { at: now, node, pod: None, change: NodeEventKind::Removed });
        }
        self.events.truncate(MAX_EVENTS);
    }

    fn see(&mut self, node: &MapNode, now: Timestamp, is_first: bool) {
        let is_available = matches!(node.state, MapState::Updated | MapState::Old);
        if node.state == MapState::Failing {
            self.failed.entry(node.reason).or_default().insert(node.name.clone());
        }
        let Some(known) = self.nodes.get_mut(&node.name) else {
            if !is_first {
                self.note(node, now, NodeEventKind::Added);
            }
            let unavailable_since = if is_available { None } else { node.since.or(Some(now)) };
            let known = Known { node: node.clone(), unavailable_since, is_present: true };
            self.nodes.insert(node.name.clone(), known);
            return;
        };
        known.is_present = true;
        if known.node == *node {
            return;
        }
        let before = std::mem::replace(&mut known.node, node.clone());
        let since = known.unavailable_since;
        known.unavailable_since = if is_available { None } else { since.or(Some(now)) };
        // The count starts at 0 for a new pod.
        let restarts_before = if before.pod == node.pod { before.restarts } else { 0 };
        if node.restarts > restarts_before {
            *self.restarts.entry(node.name.clone()).or_default() += node.restarts - restarts_before;
            self.note(node, now, NodeEventKind::Restarted(node.restarts));
        }
        let is_new_failure = before.state != node.state || before.reason != node.reason;
        match node.state {
            // A rollback makes pods current that it did not replace.
            MapState::Updated
                if before.pod != node.pod || !matches!(before.state, MapState::Updated | MapState::Old) =>
            {
                let took = since.map(|since| seconds_between(since, now));
                self.updated.insert(node.name.clone(), took);
                self.note(node, now, NodeEventKind::Updated(took));
            }
            MapState::Failing if is_new_failure => self.note(node, now, NodeEventKind::Failing(node.reason)),
            MapState::Updating | MapState::NoPod if matches!(before.state, MapState::Old | MapState::Updated) => {
                self.note(node, now, NodeEventKind::Updating);
            }
            // The next template has to reach the node again.
            MapState::Old if before.state == MapState::Updated => drop(self.updated.remove(&node.name)),
            MapState::Old if before.state != MapState::Old => {
                self.note(node, now, NodeEventKind::OldAvailable);
            }
            _ => {}
        }
    }

    fn note(&mut self, node: &MapNode, at: Timestamp, change: NodeEventKind) {
        self.events.push_front(NodeEvent { at, node: node.name.clone(), pod: node.pod.clone(), change });
    }

    fn summary(&self) -> FollowSummary {
        let mut slowest: Vec<(String, i64)> =
            self.updated.iter().filter_map(|(node, took)| Some((node.clone(), (*took)?))).collect();
        slowest.sort_by(|(one, took), (other, longer)| longer.cmp(took).then_with(|| one.cmp(other)));
        slowest.truncate(MAX_SLOWEST);
        let mut restarts: Vec<(String, i64)> =
            self.restarts.iter().map(|(node, restarts)| (node.clone(), *restarts)).collect();
        restarts.sort_by_key(|(_, restarts)| -restarts);
        let is_failing =
            |node: &String| self.nodes.get(node).is_some_and(|known| known.node.state == MapState::Failing);
        let failed = self.failed.iter().map(|(code, failed)| {
            let nodes: Vec<String> = failed.iter().cloned().collect();
            let recovered = nodes.iter().filter(|node| !is_failing(node)).count();
            FailedNodes { code: *code, nodes, recovered }
        });
        let mut failed: Vec<FailedNodes> = failed.collect();
        failed.sort_by_key(|failed| std::cmp::Reverse(failed.nodes.len()));
        FollowSummary {
            seconds: seconds_between(self.began, self.last),
            updated: self.updated.len(),
            slowest,
            restarts,
            failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NodeEventKind, NodeEvents};
    use crate::coverage::test_support::{at, world};
    use crate::report::node_map::{MapNode, MapState, NodeMap};
    use crate::report::reason::ReasonCode;
    use crate::report::rollout_status::RolloutStatusReport;
    use crate::report::rollout_status::{Accepted, AcceptedNodes};
    use crate::rollout::status::rollout_status;

    fn node(state: MapState, pod: &str, restarts: i64, reason: Option<ReasonCode>) -> MapNode {
        MapNode { name: "n".to_owned(), state, pod: Some(pod.to_owned()), restarts, reason, since: None }
    }

    fn report(time: &str, node: MapNode) -> RolloutStatusReport {
        let mut report = rollout_status(&world().daemon_set(json!({})).finish(), None);
        report.now = at(time).parse().unwrap();
        report.daemon_sets[0].map = Some(NodeMap::grouped("zone", false, [(None, node)].into_iter()));
        report
    }

    #[test]
    fn what_happens_on_a_node_is_told_from_two_states_of_it() {
        use MapState::{Failing, NoPod, Old, Updated, Updating};
        use NodeEventKind::{OldAvailable, Restarted};
        let crashing = Some(ReasonCode::CrashLooping);
        let starting = Some(ReasonCode::ContainersStarting);
        for (before, after, expected) in [
            (node(Old, "a", 0, None), node(Updating, "b", 0, None), &[NodeEventKind::Updating][..]),
            (node(Updated, "a", 0, None), node(NoPod, "a", 0, None), &[NodeEventKind::Updating]),
            (node(Updating, "a", 0, None), node(NoPod, "a", 0, None), &[]),
            // It was unavailable when it was first seen, half a minute ago.
            (node(Updating, "b", 0, None), node(Updated, "b", 0, None), &[NodeEventKind::Updated(Some(30))]),
            // It was never unavailable: the pod of a surge took over.
            (node(Old, "a", 0, None), node(Updated, "b", 0, None), &[NodeEventKind::Updated(None)]),
            (node(Updated, "b", 0, None), node(Updated, "c", 0, None), &[NodeEventKind::Updated(None)]),
            (node(Updated, "b", 0, None), node(Updated, "b", 1, None), &[Restarted(1)]),
            (node(Updating, "b", 0, None), node(Failing, "b", 0, crashing), &[NodeEventKind::Failing(crashing)]),
            (node(Updating, "b", 0, starting), node(Failing, "b", 0, starting), &[NodeEventKind::Failing(starting)]),
            (node(Failing, "b", 0, starting), node(Failing, "b", 0, crashing), &[NodeEventKind::Failing(crashing)]),
            (node(Failing, "b", 1, crashing), node(Failing, "b", 3, crashing), &[Restarted(3)]),
            (node(Updating, "a", 0, None), node(Old, "a", 0, None), &[OldAvailable]),
            (node(Failing, "a", 0, crashing), node(Old, "a", 0, None), &[OldAvailable]),
            (node(Old, "a", 0, None), node(Old, "a", 1, None), &[Restarted(1)]),
            // Another template was rolled out, or that of the pod again.
            (node(Updated, "a", 0, None), node(Old, "a", 0, None), &[]),
            (node(Old, "a", 0, None), node(Updated, "a", 0, None), &[]),
        ] {
            let context = format!("{before:?} {after:?}");
            let mut events = NodeEvents::default();
            events.update(&report("12:00:00", before));
            let report = report("12:00:30", after);
            events.update(&report);
            let changes: Vec<NodeEventKind> =
                events.of(&report.daemon_sets[0]).into_iter().map(|event| event.change).collect();
            assert_eq!(changes, expected, "{context}");
        }
    }

    /// This includes a rollback, which replaces the pods of some nodes, and makes those of the others current.
    #[test]
    fn nodes_count_as_updated_whose_pods_were_replaced_for_the_present_template() {
        use MapState::{Old, Updated, Updating};
        let updated = |states: &[(MapState, &str)]| {
            let mut events = NodeEvents::default();
            let reports = states.iter().map(|(state, pod)| report("12:00:00", node(*state, pod, 0, None)));
            let reports: Vec<_> = reports.inspect(|report| events.update(report)).collect();
            events.summary(&reports[0].daemon_sets[0]).updated
        };
        for (states, expected) in [
            (&[(Old, "a"), (Updating, "b"), (Updated, "b")][..], 1),
            (&[(Old, "a"), (Updated, "a")], 0),
            (&[(Old, "a"), (Updated, "b"), (Old, "b")], 0),
            (&[(Old, "a"), (Updated, "b"), (Old, "b"), (Updating, "c"), (Updated, "c")], 1),
        ] {
            assert_eq!(updated(states), expected, "{states:?}");
        }
    }

    #[test]
    fn what_is_accepted_is_no_failure_once_the_rollout_counts_as_complete() {
        let failing = node(MapState::Failing, "a", 0, Some(ReasonCode::NodeUnreachable));
        let mut report = report("12:00:00", failing);
        let mut events = NodeEvents::default();
        events.update(&report);
        let rollout = &mut report.daemon_sets[0];
        for (complete, failures) in [(false, 1), (true, 0)] {
            let by = AcceptedNodes { what: "node".parse().unwrap(), nodes: vec!["n".to_owned()], limit: None };
            rollout.accepted = Some(Accepted {
                by_annotation: false,
                invalid: None,
                by: vec![by],
                not_accepted: Vec::new(),
                may_still_start: false,
                complete,
            });
            assert_eq!(events.summary(rollout).failed.len(), failures, "{complete}");
        }
    }

    #[test]
    fn restarts_are_added_up_and_a_new_pod_begins_to_count_from_0() {
        let mut events = NodeEvents::default();
        let seen = [("a", 5), ("a", 7), ("b", 2), ("b", 3)];
        let reports = seen.map(|(pod, restarts)| report("12:00:00", node(MapState::Updated, pod, restarts, None)));
        reports.iter().for_each(|report| events.update(report));
        assert_eq!(events.summary(&reports[0].daemon_sets[0]).restarts, [("n".to_owned(), 5)]);
    }
}
