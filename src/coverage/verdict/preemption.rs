//! What the scheduler does for a pod for which its node has no room: it may preempt other pods.
//!
//! A higher priority is suggested only if the rules show that it makes room, and whom it costs their place: never pods that every node
//! is to have, and none against a PodDisruptionBudget.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::fit::{NodeRoom, single_pod_node};
use super::sentence::Sentence;
use crate::facts::index::Index;
use crate::model::pod::Pod;
use crate::model::snapshot::PriorityClass;
use crate::report;
use crate::report::preview::{NodePreemption, PreemptedPod, PreemptedSome};
use crate::report::reason::ReasonCode;
use crate::scheduling::critical::{HIGHEST_PRIORITY, SYSTEM_CLASSES, system_priority};
use crate::scheduling::preemption::{Budgets, Contest, NEVER, Preemption, Victim, Victims, priority};
use crate::scheduling::resources::Amounts;

/// The highest priority that a class of a user has: `HighestUserDefinablePriority`, pkg/apis/scheduling/types.go, release 1.37.2.
const HIGHEST_USER_PRIORITY: i32 = 1_000_000_000;

/// A simulated preemption for a pod that has no room on a node.
pub struct Simulation<'a> {
    contest: Contest<'a>,
    /// Absent if they are not known.
    budgets: Option<&'a Budgets<'a>>,
    /// Whether the node has no use for pods of DaemonSets, so that preempting others there only does harm.
    is_for_one_pod: bool,
    outcome: Preemption<'a>,
    /// The terminating pods that have what the pod lacks, if it fits without them.
    leaving: Option<Vec<&'a Pod>>,
}

impl<'a> Simulation<'a> {
    /// Simulates the preemption for a pod with these requests, unless it has room.
    pub fn new(index: &'a Index<'_>, room: &NodeRoom<'a>, pod: &'a Pod, requests: &Amounts) -> Option<Self> {
        let contest = Contest::new(pod, &room.devices.without(requests, room.node), room.node, &room.pods);
        if contest.fits() {
            return None;
        }
        let budgets = index.budgets();
        let outcome = match contest.outcome(budgets) {
            Preemption::Preempts(victims) => Preemption::Preempts(victims.without_terminating()),
            other => other,
        };
        let leaving = contest.leaving();
        let is_for_one_pod = single_pod_node(room.node).is_some();
        Some(Simulation { contest, budgets, is_for_one_pod, outcome, leaving })
    }

    /// Returns whether what is told depends on PodDisruptionBudgets: pods are preempted, or would be with a higher priority.
    pub fn depends_on_budgets(&self) -> bool {
        let is_told =
            |(_, victims): (i32, Victims<'_>)| !victims.possible().any(|victim| is_never_preempted(victim.pod));
        self.victims().is_some() || self.with_more_priority(&[]).is_some_and(is_told)
    }

    /// Returns the priority above which the pod has room, and the pods that are then preempted, with the class that it is likely to get.
    fn with_more_priority(&self, classes: &[PriorityClass]) -> Option<(i32, Victims<'a>)> {
        let stays_pending =
            !matches!(self.outcome, Preemption::Preempts(_) | Preemption::Waits) && self.leaving.is_none();
        let above = self.contest.needs_priority_above().filter(|above| stays_pending && *above < HIGHEST_PRIORITY)?;
        let class = class_above(classes, above);
        let value = class.and_then(|class| Some(classes.iter().find(|known| known.metadata.name == class)?.value));
        Some((above, self.contest.victims_of(value.unwrap_or(above.saturating_add(1)), self.budgets)))
    }

    /// Returns the pods that the scheduler preempts, if that makes room and the pods that are terminating leave too little.
    pub fn victims(&self) -> Option<&Victims<'a>> {
        match &self.outcome {
            Preemption::Preempts(victims) if self.leaving.is_none() => Some(victims),
            _ => None,
        }
    }

    /// Returns the terminating pods that have what the pod lacks, if it waits for nothing but that they leave.
    pub fn leaving(&self) -> Option<&[&'a Pod]> {
        self.leaving.as_deref().filter(|_| !matches!(self.outcome, Preemption::Waits))
    }

    /// Tells in the finding of a pending pod without room what the scheduler will do about it, if that is expected of it, or what
    /// would make room. The classes are not read for those.
    pub fn told_of_pending(&self, finding: Finding, is_expected: bool) -> Finding {
        let Some(victims) = self.victims().filter(|_| is_of_room(finding.code)) else {
            return self.told(finding, &[]);
        };
        if !is_expected {
            return finding.and(Sentence::from("; preempting ").value(names(victims)).words(" would make room"));
        }
        finding
            .and(Sentence::from("; the scheduler will preempt ").value(names(victims)).words(" for the pod"))
            .with_advice("wait: the scheduler tries the pod again within 5 minutes")
    }

    /// Tells in the finding of a pod without room that it fits once others have terminated, or why the scheduler does not preempt
    /// others for it, and from which priority on it would.
    pub fn told(&self, finding: Finding, classes: &[PriorityClass]) -> Finding {
        if !is_of_room(finding.code) {
            return finding;
        }
        if let Some(pods) = self.leaving() {
            return fits_once_left(finding, pods);
        }
        let why = match self.outcome {
            Preemption::Preempts(_) | Preemption::Waits => return finding,
            Preemption::NotHelpful => "preempting the pods of lower priority would not make room",
            Preemption::NoneLower if self.contest.has_equal() => {
                "no pod on the node has a lower priority (equal priority never preempts)"
            }
            Preemption::NoneLower => "no pod on the node has a lower priority",
            Preemption::Never => "its preemptionPolicy is Never",
        };
        let finding = finding.and(format!("; the pod stays Pending: {why}"));
        let Some((above, victims)) = self.with_more_priority(classes) else { return finding };
        self.at_the_cost_of(&victims, above, finding, classes)
    }

    /// Adds to the advice which priority makes room and whom it costs their place, or why that is not to be done.
    fn at_the_cost_of(
        &self,
        victims: &Victims<'_>,
        above: i32,
        finding: Finding,
        classes: &[PriorityClass],
    ) -> Finding {
        let lost: Vec<&Pod> = victims.possible().map(|victim| victim.pod).collect();
        let lost = || lost.iter().copied();
        // Those that lose a host port may find it nowhere else: a DaemonSet takes it on each node.
        let is_for_port = finding.code == ReasonCode::HostPortConflict;
        if self.is_for_one_pod || is_for_port || lost().any(is_never_preempted) {
            return finding;
        }
        let is_of_stateful_set = |pod: &Pod| pod.metadata.controller().is_some_and(|owner| owner.kind == "StatefulSet");
        let violated: BTreeSet<String> = victims
            .possible()
            .filter(|victim| victim.violates_budget != Some(false))
            .flat_map(|victim| self.budgets.map(|budgets| budgets.of(victim.pod)).unwrap_or_default())
            .map(|budget| budget.metadata.full_name())
            .collect();
        let advice = if !violated.is_empty() {
            let budgets = violated.into_iter().collect::<Vec<_>>().join(" and ");
            let advice = finding.advice.words(" (a higher priority would preempt ").value(listed(lost(), "and"));
            advice.words(format!(", against PodDisruptionBudget {budgets})"))
        } else if self.budgets.is_none() && lost().any(is_of_stateful_set) {
            let advice = finding.advice.words(" (a higher priority would preempt ").value(listed(lost(), "and"));
            advice.words(" of StatefulSets; PodDisruptionBudgets were not read)")
        } else {
            let give = match self.outcome {
                Preemption::Never => {
                    "; or give the DaemonSet a PriorityClass without preemptionPolicy Never and with a value above "
                }
                _ => "; or give the DaemonSet a PriorityClass with a value above ",
            };
            let class = class_above(classes, above).map(|class| format!(" (priorityClassName {class})"));
            let advice = finding.advice.words(give).greatest(i64::from(above), class.unwrap_or_default());
            let kind = if lost().any(is_of_stateful_set) { " of StatefulSets" } else { "" };
            let unknown = if self.budgets.is_none() { "; PodDisruptionBudgets were not read" } else { "" };
            advice
                .words(", which preempts ")
                .value(names(victims))
                .words(format!("{kind}: these lose their place on the node{unknown}"))
        };
        Finding { advice, ..finding }
    }
}

/// Returns whether a pod is one that is not to be preempted for another: every node is to have those of DaemonSets, static ones belong
/// to their node, and nothing recreates bare ones.
fn is_never_preempted(pod: &Pod) -> bool {
    pod.metadata.controller().is_none_or(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"))
}

/// Returns whether a reason is about what other pods could make room for.
pub fn is_of_room(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::HostPortConflict | ReasonCode::InsufficientResource | ReasonCode::TooManyPods)
}

/// Tells in the finding of a pod without room that it fits once pods that are terminating have left.
fn fits_once_left(finding: Finding, pods: &[&Pod]) -> Finding {
    let have_left =
        if pods.len() == 1 { ", which is terminating, has left" } else { ", which are terminating, have left" };
    let pods = listed(pods.iter().copied(), "and");
    finding
        .and(Sentence::from("; the pod fits once ").value(pods).words(have_left))
        .with_advice("wait; if that takes longer than the grace period, check for finalizers")
}

/// Finds that a pod that does not exist yet has room if others are preempted.
pub fn fits_by_preemption(victims: &Victims<'_>) -> Finding {
    let message = Sentence::from("fits if it preempts ").value(names(victims));
    let has_bare = victims.possible().any(|victim| victim.pod.metadata.controller().is_none());
    let bare = if has_bare { "nothing recreates bare pods among them; " } else { "" };
    let advice = format!("{bare}to keep those pods, lower what the pod requests, or its priority");
    Finding::new(ReasonCode::WaitingForPreemption, message, advice)
}

/// Returns the pods that are preempted as a report has them.
pub fn reported(victims: &Victims<'_>) -> NodePreemption {
    let pod = |victim: &Victim<'_>| PreemptedPod {
        namespace: victim.pod.metadata.namespace.clone(),
        name: victim.pod.metadata.name.clone(),
        priority: priority(victim.pod),
        violates_disruption_budget: victim.violates_budget,
    };
    NodePreemption {
        pods: victims.certain.iter().map(pod).collect(),
        some_of: victims
            .choices
            .iter()
            .map(|choice| PreemptedSome {
                at_least: choice.at_least,
                at_most: choice.at_most,
                pods: choice.of.iter().map(pod).collect(),
            })
            .collect(),
    }
}

/// Returns the class with the lowest value above a priority whose pods preempt others. Those of the system are only for what no other
/// class can do.
pub fn class_above(classes: &[PriorityClass], above: i32) -> Option<String> {
    let known = classes.iter().filter(|class| class.preemption_policy != NEVER);
    let known = known.map(|PriorityClass { metadata, value, .. }| (metadata.name.as_str(), *value));
    let others = known.filter(|(name, _)| system_priority(name).is_none());
    let classes = others.chain(SYSTEM_CLASSES.into_iter().filter(|_| above >= HIGHEST_USER_PRIORITY));
    let lowest = classes.filter(|(_, value)| *value > above).min_by_key(|(name, value)| (*value, *name));
    lowest.map(|(name, _)| name.to_owned())
}

/// Names the pods that are preempted, such as `shop/web-1 (priority 0)` and `1 of shop/web-1 or shop/web-2 (priority 0)`.
pub fn names(victims: &Victims<'_>) -> String {
    let is_alike = |a: &Victim<'_>, b: &Victim<'_>| {
        (priority(a.pod), a.violates_budget == Some(true)) == (priority(b.pod), b.violates_budget == Some(true))
    };
    let certain = victims.certain.chunk_by(is_alike).map(|alike| with_priority(alike, "and"));
    let choices = victims.choices.iter().map(|choice| {
        let count = match (choice.at_least, choice.at_most) {
            (0, _) => "perhaps some".to_owned(),
            (least, most) if least == most => least.to_string(),
            (1, most) if most == choice.of.len() => "some".to_owned(),
            (least, most) => format!("{least} to {most}"),
        };
        let alike: Vec<String> = choice.of.chunk_by(is_alike).map(|alike| with_priority(alike, "or")).collect();
        format!("{count} of {}", alike.join(", "))
    });
    certain.chain(choices).collect::<Vec<_>>().join(", ")
}

fn listed<'a>(pods: impl Iterator<Item = &'a Pod>, conjunction: &str) -> String {
    let names: Vec<String> = pods.map(|pod| pod.metadata.full_name()).collect();
    report::listed(&names, conjunction)
}

/// Lists pods of the same priority.
fn with_priority(alike: &[Victim<'_>], conjunction: &str) -> String {
    let names = listed(alike.iter().map(|victim| victim.pod), conjunction);
    let first = alike.first();
    let priority = first.map_or(0, |victim| priority(victim.pod));
    let violates = first.is_some_and(|victim| victim.violates_budget == Some(true));
    let violates = if violates { ", against a PodDisruptionBudget" } else { "" };
    format!("{names} (priority {priority}{violates})")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::preview::tests::{Alone, what_if};
    use crate::coverage::test_support::{World, at, world};
    use crate::model::snapshot::Snapshot;
    use crate::report::reason::ReasonCode;

    fn asking(cpu: &str, priority: i32) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"priority": priority,
            "containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    /// Returns what becomes of a DaemonSet of a class beside these pods.
    fn preview(class: &str, cluster: World, change: impl Fn(&mut Snapshot)) -> Alone {
        let container = json!([{"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": "2"}}}]);
        let template = json!({"priorityClassName": class, "containers": container});
        let proposed = world().template(template).finish().daemon_sets.remove(0);
        let mut snapshot = cluster.finish();
        snapshot.daemon_sets.clear();
        for (name, value, policy) in
            [("polite", 100, "Never"), ("low", 10, ""), ("high", 1000, ""), ("system-node-critical", 2_000_001_000, "")]
        {
            let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
            snapshot.priority_classes.push(serde_json::from_value(class).unwrap());
        }
        snapshot.budgets_complete = true;
        change(&mut snapshot);
        what_if(&snapshot, &proposed)
    }

    fn beside(pods: &[(&str, &str, i32)]) -> World {
        let node = world().node("n", json!({}));
        pods.iter().fold(node, |world, (name, cpu, priority)| world.other_pod(name, "n", asking(cpu, *priority)))
    }

    #[test]
    fn a_node_on_which_others_are_preempted_counts_as_one_that_fits() {
        let report = preview("high", beside(&[("web", "3", 0), ("db", "1", 1000)]), |_| {});
        assert!(report.passes() && report.does_not_fit.is_empty(), "{report:?}");
        assert_eq!(report.gains, ["n"]);
        assert_eq!(report.fits_by_preemption[0].message, "fits if it preempts default/web (priority 0)");
        let node = &report.nodes[0];
        assert_eq!((node.fits, node.reason.as_ref().unwrap().code), (Some(true), ReasonCode::WaitingForPreemption));
        let preemption = node.preemption.as_ref().unwrap();
        let pods: Vec<_> = preemption.pods.iter().map(|pod| (&*pod.name, pod.priority)).collect();
        assert_eq!((pods, preemption.pods[0].violates_disruption_budget), (vec![("web", 0)], Some(false)));
        assert!(preemption.some_of.is_empty() && report.incomplete().is_empty());
    }

    #[test]
    fn the_advice_is_the_lowest_priority_that_makes_room() {
        for (class, pods, says, advice) in [
            ("low", &[("web", "3", 10)][..], "(equal priority never preempts)", "above 10 (priorityClassName high)"),
            (
                "low",
                &[("web", "3", 1000)],
                "no pod on the node has a lower priority",
                "give the DaemonSet a PriorityClass with a value above 1000",
            ),
            ("low", &[("a", "1", 0), ("b", "2500m", 500)], "would not make room", "above 500 (priorityClassName high)"),
            (
                "polite",
                &[("web", "3", 0)],
                "its preemptionPolicy is Never",
                "without preemptionPolicy Never and with a value above 99 (priorityClassName high)",
            ),
            (
                "low",
                &[("web", "3", 2_000_000_000)],
                "has a lower priority",
                "2000000000 (priorityClassName system-node-critical)",
            ),
            ("high", &[("web", "3", 2_000_001_000)], "no pod on the node has a lower priority", "free cpu on the node"),
        ] {
            let report = preview(class, beside(pods), |_| {});
            let group = &report.does_not_fit[0];
            assert!(!report.passes() && group.message.contains(says), "{}", group.message);
            assert!(group.fix.advice.contains(advice), "{}", group.fix.advice);
            let is_told =
                ["web", "b"].iter().any(|pod| group.fix.advice.contains(&format!("which preempts default/{pod}")));
            assert_eq!(
                is_told,
                advice.contains("above") || advice.contains("system-node-critical"),
                "{}",
                group.fix.advice
            );
        }
    }

    #[test]
    fn a_higher_priority_is_suggested_only_with_what_it_costs() {
        let owned = |kind: &str| match kind {
            "" => json!({"metadata": {"ownerReferences": []}}),
            kind => json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": kind, "name": "it", "uid": "it", "controller": true}]}}),
        };
        let advice = |kind: &str, more: serde_json::Value, allowed: Option<i64>, labels: serde_json::Value| {
            let mut pod = asking("3", 10);
            crate::coverage::test_support::merge(&mut pod, owned(kind));
            crate::coverage::test_support::merge(&mut pod, more);
            let node = world().node("n", json!({"metadata": {"labels": labels}}));
            let report = preview("low", node.other_pod("it-0", "n", pod), |snapshot| match allowed {
                Some(allowed) => {
                    let budget = json!({"metadata": {"namespace": "default", "name": "keep"},
                        "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": allowed}});
                    snapshot.pod_disruption_budgets.push(serde_json::from_value(budget).unwrap());
                }
                None => snapshot.budgets_complete = false,
            });
            report.does_not_fit[0].fix.advice.clone()
        };
        let none = || json!({});
        for (kind, more, allowed, labels, says) in [
            (
                "ReplicaSet",
                none(),
                Some(1),
                none(),
                "above 10 (priorityClassName high), which preempts default/it-0 (priority 10): these lose",
            ),
            ("ReplicaSet", none(), None, none(), "PodDisruptionBudgets were not read"),
            ("StatefulSet", none(), Some(1), none(), "(priority 10) of StatefulSets: these lose their place"),
            (
                "StatefulSet",
                none(),
                None,
                none(),
                "(a higher priority would preempt default/it-0 of StatefulSets; PodDisruptionBudgets were not read)",
            ),
            (
                "StatefulSet",
                none(),
                Some(0),
                none(),
                "(a higher priority would preempt default/it-0, against PodDisruptionBudget default/keep)",
            ),
            ("Deployment", none(), Some(0), none(), "against PodDisruptionBudget default/keep)"),
            (
                "Job",
                json!({"spec": {"priority": 500}}),
                Some(1),
                none(),
                "above 500 (priorityClassName high), which preempts default/it-0",
            ),
            // Every node is to have them, they belong to the node, or nothing recreates them.
            ("DaemonSet", none(), Some(1), none(), ""),
            ("Node", none(), Some(1), none(), ""),
            ("", none(), Some(1), none(), ""),
            // It runs one pod, which is the workload.
            ("ReplicaSet", none(), Some(1), json!({"eks.amazonaws.com/compute-type": "fargate"}), ""),
            ("ReplicaSet", none(), Some(1), json!({"type": "virtual-kubelet"}), ""),
        ] {
            let advice = advice(kind, more, allowed, labels.clone());
            assert!(advice.contains(says), "{kind} {allowed:?} {labels}: {advice}");
            let is_given = advice.contains("give the DaemonSet a PriorityClass");
            assert_eq!(
                is_given,
                says.contains("which preempts")
                    || says.contains("these lose")
                    || says.contains("not read") && kind == "ReplicaSet",
                "{kind}: {advice}"
            );
            assert_eq!(says.is_empty(), !advice.contains("priority"), "{kind}: {advice}");
        }
    }

    #[test]
    fn room_that_is_being_freed_is_neither_preempted_nor_missing() {
        let leaving = |pods: &[(&str, &str, i32, bool)], class: &str| {
            let world = pods.iter().fold(world().node("n", json!({})), |world, (name, cpu, priority, terminates)| {
                let mut pod = asking(cpu, *priority);
                if *terminates {
                    pod["metadata"]["deletionTimestamp"] = json!(at("12:00:20"));
                }
                world.other_pod(name, "n", pod)
            });
            preview(class, world, |_| {})
        };
        for class in ["low", "high", "polite"] {
            for (name, priority) in [("equal", 10), ("lower", 0), ("higher", 5000)] {
                let report = leaving(&[(name, "3", priority, true), ("db", "1", 0, false)], class);
                let group = &report.does_not_fit[0];
                let says = format!("; the pod fits once default/{name}, which is terminating, has left");
                assert!(group.message.ends_with(&says), "{class}: {}", group.message);
                assert!(group.fix.advice.starts_with("wait"), "{}", group.fix.advice);
                assert_eq!(report.nodes[0].preemption, None);
            }
        }
        // What is terminating makes too little room, and is not preempted.
        let report = leaving(&[("a", "2", 0, false), ("b", "1", 0, true), ("c", "1", 5000, false)], "high");
        assert_eq!(report.fits_by_preemption[0].message, "fits if it preempts default/a (priority 0)");
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        // Without the classes, only those that every cluster has have a priority.
        let full = || beside(&[("web", "3", 0)]);
        for (class, fits) in [("", false), ("high", false), ("system-node-critical", true)] {
            let report = preview(class, full(), |snapshot| snapshot.priority_classes.clear());
            assert_eq!(report.does_not_fit.is_empty(), fits, "{class}");
            assert!(fits || !report.does_not_fit[0].message.contains("Pending"));
        }
        // Without the budgets, only the only possible victim is certain.
        let report = preview("high", full(), |snapshot| snapshot.budgets_complete = false);
        let preemption = report.nodes[0].preemption.as_ref().unwrap();
        assert_eq!((preemption.pods[0].violates_disruption_budget, preemption.some_of.len()), (None, 0));
        let report =
            preview("high", beside(&[("a", "2", 0), ("b", "2", 10)]), |snapshot| snapshot.budgets_complete = false);
        let preemption = report.nodes[0].preemption.as_ref().unwrap();
        assert_eq!((preemption.pods.len(), preemption.some_of[0].at_least, preemption.some_of[0].at_most), (0, 1, 1));
    }

    #[test]
    fn of_pods_whose_order_is_not_known_some_are_victims() {
        // Two of the large ones go, which is not searched for.
        let pods = [("a", "1200m", 0), ("b", "1200m", 0), ("c", "1200m", 0), ("small", "100m", 0)];
        let report = preview("high", beside(&pods), |_| {});
        let preemption = report.nodes[0].preemption.as_ref().unwrap();
        let some = &preemption.some_of[0];
        let names: Vec<&str> = some.pods.iter().map(|pod| &*pod.name).collect();
        assert_eq!(
            (preemption.pods.len(), some.at_least, some.at_most, names),
            (0, 1, 3, vec!["a", "b", "c", "small"])
        );
        // A large one that never stays is certain.
        let report = preview("high", beside(&[("large", "2500m", 0), ("small", "500m", 0)]), |_| {});
        let preemption = report.nodes[0].preemption.as_ref().unwrap();
        assert_eq!((&*preemption.pods[0].name, preemption.pods.len(), preemption.some_of.len()), ("large", 1, 0));
    }

    /// Of the first two, either stays. Beside the small one there is room for the last one, but not for the third.
    #[test]
    fn where_fewer_important_pods_stay_more_of_the_others_may() {
        let pods = [("a", "2", 20), ("b", "1", 20), ("c", "2", 10), ("d", "1", 0)];
        let report = preview("high", beside(&pods), |_| {});
        let preemption = report.nodes[0].preemption.as_ref().unwrap();
        let certain: Vec<&str> = preemption.pods.iter().map(|pod| &*pod.name).collect();
        assert!(!certain.iter().any(|name| ["a", "b", "d"].contains(name)), "{certain:?}");
        let last = preemption.some_of.iter().find(|some| some.pods[0].name == "d").unwrap();
        assert_eq!((last.at_least, last.at_most), (0, 1));
    }

    #[test]
    fn many_victims_are_counted_and_those_against_a_budget_are_marked() {
        let pods: Vec<(String, i32)> = (0..8).map(|number| (format!("web-{number}"), number % 2)).collect();
        let pods: Vec<(&str, &str, i32)> = pods.iter().map(|(name, priority)| (&**name, "500m", *priority)).collect();
        let report = preview("high", beside(&pods), |_| {});
        assert_eq!(
            report.fits_by_preemption[0].message,
            "fits if it preempts default/web-0, default/web-2, default/web-4 and 1 more (priority 0)"
        );
        let budget = |snapshot: &mut Snapshot| {
            let selector = json!({"matchLabels": {"app": "web"}});
            let budget = json!({"metadata": {"namespace": "default"}, "spec": {"selector": selector}});
            snapshot.pod_disruption_budgets.push(serde_json::from_value(budget).unwrap());
        };
        let report = preview("high", beside(&[("web", "3", 0)]), budget);
        let message = &report.fits_by_preemption[0].message;
        assert!(message.ends_with("default/web (priority 0, against a PodDisruptionBudget)"), "{message}");
    }
}
