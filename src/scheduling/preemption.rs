//! Preemption: which pods of lower priority the scheduler deletes to make room for a pod that does not fit.
//!
//! A pod of a DaemonSet is meant for one node, which is the only candidate. The filters that are simulated are those of
//! [`fits`](super::resources::fits) and [`conflicts`]: a pod that fits still does with fewer pods on the node. Of two
//! pods on a node with the same host port, which the scheduler never puts there, the port is free once both are gone;
//! upstream, once one is. Groups of pods (feature gate GenericWorkload, off by default) are not known here.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::ports::{conflicts, host_ports};
use super::resources::{Amounts, amount, is_counted, pod_requests};
use crate::model::node::Node;
use crate::model::pod::{ContainerPort, Pod};
use crate::model::pod_disruption_budget::PodDisruptionBudget;
use crate::model::quantity::Quantity;
use crate::model::selector::LabelSelector;

/// What becomes of a pod that has no room on its node.
#[derive(Debug, Clone, PartialEq)]
pub enum Preemption<'a> {
    /// The scheduler preempts other pods for it.
    Preempts(Victims<'a>),
    /// Pods that the scheduler has preempted for it have not left the node yet.
    Waits,
    /// Preempting every pod of lower priority would not make room.
    NotHelpful,
    /// No pod of the node has a lower priority.
    NoneLower,
    /// Its preemption policy is `Never`.
    Never,
}

/// The pods that are preempted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Victims<'a> {
    /// Those that are preempted for certain, the most important one first.
    pub certain: Vec<Victim<'a>>,
    /// Equally important pods of which some are preempted. Upstream sorts them with an unstable algorithm.
    pub choices: Vec<Choice<'a>>,
}

impl<'a> Victims<'a> {
    /// Returns every pod that may be preempted.
    pub fn possible(&self) -> impl Iterator<Item = &Victim<'a>> {
        self.certain.iter().chain(self.choices.iter().flat_map(|choice| &choice.of))
    }

    /// Leaves out the pods that are terminating already, which the scheduler does not delete again: `prepareCandidateAsync` and
    /// `prepareCandidate`, pkg/scheduler/framework/preemption/executor.go, release 1.37.2.
    pub fn without_terminating(mut self) -> Self {
        let is_deleted = |victim: &Victim<'_>| !victim.pod.metadata.is_terminating();
        self.certain.retain(is_deleted);
        for choice in &mut self.choices {
            let all = choice.of.len();
            choice.of.retain(is_deleted);
            choice.at_least = choice.at_least.saturating_sub(all - choice.of.len());
            choice.at_most = choice.at_most.min(choice.of.len());
        }
        self.choices.retain(|choice| choice.at_most > 0);
        self
    }
}

/// Some of several pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice<'a> {
    /// How many of them are preempted at least.
    pub at_least: usize,
    /// How many of them are preempted at most.
    pub at_most: usize,
    /// The pods.
    pub of: Vec<Victim<'a>>,
}

/// A pod that is preempted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Victim<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Whether that violates a PodDisruptionBudget, if it is known.
    pub violates_budget: Option<bool>,
}

/// Returns a pod's priority.
///
/// Ported from `PodPriority`, k8s.io/component-helpers/scheduling/corev1/helpers.go, release 1.37.2.
pub fn priority(pod: &Pod) -> i32 {
    pod.spec.priority.unwrap_or(0)
}

/// Returns whether a pod is being deleted because the scheduler has preempted it.
///
/// Ported from `PodTerminatingByPreemption`, pkg/scheduler/framework/preemption/util.go, release 1.37.2.
pub fn is_terminating_by_preemption(pod: &Pod) -> bool {
    let is_preempted = |pod: &Pod| {
        pod.condition("DisruptionTarget")
            .is_some_and(|condition| condition.status == "True" && condition.reason == "PreemptionByScheduler")
    };
    pod.metadata.is_terminating() && is_preempted(pod)
}

/// PodDisruptionBudgets, by namespace.
#[derive(Debug, Clone, Default)]
pub struct Budgets<'a>(BTreeMap<&'a str, BudgetsOfNamespace<'a>>);

#[derive(Debug, Clone, Default)]
struct BudgetsOfNamespace<'a> {
    budgets: Vec<&'a PodDisruptionBudget>,
    /// The numbers of those that select pods with these labels, which many pods share.
    by_labels: RefCell<HashMap<BTreeMap<String, String>, Vec<usize>>>,
}

impl<'a> Budgets<'a> {
    /// Sorts budgets by namespace.
    pub fn new(budgets: &'a [PodDisruptionBudget]) -> Self {
        let mut by_namespace: BTreeMap<&str, BudgetsOfNamespace<'_>> = BTreeMap::new();
        for budget in budgets {
            by_namespace.entry(&budget.metadata.namespace).or_default().budgets.push(budget);
        }
        Budgets(by_namespace)
    }

    /// Returns the budgets that count the preemption of a pod.
    pub fn of(&self, pod: &Pod) -> Vec<&'a PodDisruptionBudget> {
        let (namespace, labels) = (pod.metadata.namespace.as_str(), &*pod.metadata.labels);
        let Some(of_namespace) = self.0.get(namespace).filter(|_| !labels.is_empty()) else { return Vec::new() };
        let budgets = &of_namespace.budgets;
        let mut by_labels = of_namespace.by_labels.borrow_mut();
        if !by_labels.contains_key(labels) {
            // Unlike an eviction, preemption takes an empty selector for one that selects nothing.
            let selects = |budget: &PodDisruptionBudget| {
                let is_empty = budget.spec.selector.as_ref().is_some_and(LabelSelector::is_empty);
                !is_empty && budget.selects(namespace, labels)
            };
            let selecting = (0..budgets.len()).filter(|number| selects(budgets[*number])).collect();
            by_labels.insert(labels.clone(), selecting);
        }
        let selecting = by_labels.get(labels).into_iter().flatten().map(|number| budgets[*number]);
        selecting.filter(|budget| !budget.status.disrupted_pods.contains_key(&pod.metadata.name)).collect()
    }
}

/// A pod that has or will have its place on a node, by what of it another pod could use.
#[derive(Debug)]
struct Occupant<'a> {
    pod: &'a Pod,
    takes: Vec<i64>,
    conflicts: bool,
}

impl Occupant<'_> {
    /// Returns what tells more important pods from less important ones; those come first.
    ///
    /// Ported from `MoreImportantVictim`, pkg/scheduler/framework/preemption/util.go, and `GetPodStartTime`,
    /// pkg/scheduler/util/utils.go, release 1.37.2, where a pod that has not started counts as started just now.
    fn importance(&self) -> impl Ord + use<> {
        let started = self.pod.status.start_time;
        (Reverse(priority(self.pod)), started.get().is_none(), started)
    }

    fn needs_as_much_as(&self, other: &Self) -> bool {
        (&self.takes, self.conflicts) == (&other.takes, other.conflicts)
    }
}

/// What a node has left for a pod.
#[derive(Debug, Clone)]
struct Room {
    free: Vec<i64>,
    pod_slots: i64,
    conflicts: usize,
}

impl Room {
    fn add(&mut self, occupant: &Occupant<'_>) {
        self.free.iter_mut().zip(&occupant.takes).for_each(|(free, takes)| *free = free.saturating_sub(*takes));
        self.pod_slots -= 1;
        self.conflicts += usize::from(occupant.conflicts);
    }

    fn with<'a>(&self, occupants: impl IntoIterator<Item = &'a Occupant<'a>>) -> Self {
        let mut room = self.clone();
        occupants.into_iter().for_each(|occupant| room.add(occupant));
        room
    }
}

/// A pod that has no room on a node, and the pods that have.
#[derive(Debug)]
pub struct Contest<'a> {
    pod: &'a Pod,
    node: &'a Node,
    requests: Vec<i64>,
    /// The node without any pod.
    empty: Room,
    bound: Vec<Occupant<'a>>,
    nominated: Vec<Occupant<'a>>,
}

impl<'a> Contest<'a> {
    /// Sets a pod with these requests against the others: all that are bound to the node or nominated for it, and have not ended.
    pub fn new(pod: &'a Pod, requests: &Amounts, node: &'a Node, others: &[&'a Pod]) -> Self {
        let requests: Vec<(&str, i64)> = requests
            .iter()
            .filter(|(name, amount)| **amount > 0 && is_counted(name))
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        let allocatable = |resource: &str| node.status.allocatable.get(resource);
        let free = requests.iter().map(|(name, _)| allocatable(name).map_or(0, |quantity| amount(name, quantity)));
        let empty =
            Room { free: free.collect(), pod_slots: allocatable("pods").map_or(0, Quantity::value), conflicts: 0 };
        let ports: Vec<&ContainerPort> = host_ports(&pod.spec).collect();
        let occupant = |pod: &&'a Pod| {
            let amounts = pod_requests(pod);
            let takes = requests.iter().map(|(name, _)| amounts.get(*name).copied().unwrap_or(0)).collect();
            let conflicts = ports.iter().any(|wanted| host_ports(&pod.spec).any(|held| conflicts(wanted, held)));
            Occupant { pod, takes, conflicts }
        };
        let others = others.iter().filter(|other| other.metadata.uid != pod.metadata.uid);
        let (bound, nominated) = others.map(occupant).partition(|other| !other.pod.spec.node_name.is_empty());
        let requests = requests.iter().map(|(_, amount)| *amount).collect();
        Contest { pod, node, requests, empty, bound, nominated }
    }

    /// Returns whether the pod has room as it is.
    pub fn fits(&self) -> bool {
        self.fits_in(&self.as_it_is())
    }

    fn as_it_is(&self) -> Room {
        self.empty.with(self.occupants())
    }

    /// Returns the pods that leave it less room: those that are bound, and nominated ones that go first.
    fn occupants(&self) -> impl Iterator<Item = &Occupant<'a>> {
        let nominated = self.nominated.iter().filter(|other| priority(other.pod) >= priority(self.pod));
        self.bound.iter().chain(nominated)
    }

    /// Returns the terminating pods that have what the pod lacks, if it has room once all terminating pods have left.
    pub fn leaving(&self) -> Option<Vec<&'a Pod>> {
        let is_terminating = |other: &&Occupant<'_>| other.pod.metadata.is_terminating();
        let staying = self.empty.with(self.occupants().filter(|other| !is_terminating(other)));
        if !self.fits_in(&staying) {
            return None;
        }
        let now = self.as_it_is();
        let has_some = |other: &&Occupant<'_>| {
            let mut amounts = self.requests.iter().zip(&now.free).zip(&other.takes);
            now.pod_slots <= 0
                || other.conflicts
                || amounts.any(|((requested, free), takes)| requested > free && *takes > 0)
        };
        Some(self.occupants().filter(is_terminating).filter(has_some).map(|other| other.pod).collect())
    }

    /// Returns what becomes of the pod, which does not fit; `budgets` is absent if they are not known.
    ///
    /// Ported from `Evaluator.evaluate` and `DryRunPreemption`, pkg/scheduler/framework/preemption/preemption.go, and
    /// `PodEligibleToPreemptOthers` and `SelectVictimsOnNode`,
    /// pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, release 1.37.2.
    pub fn outcome(&self, budgets: Option<&Budgets<'_>>) -> Preemption<'a> {
        let own = priority(self.pod);
        let lower = |other: &&Occupant<'_>| priority(other.pod) < own;
        // What the node can never have: `UnschedulableAndUnresolvable` of the filter NodeResourcesFit, which ports come before.
        let is_unresolvable = self.as_it_is().conflicts == 0
            && self.requests.iter().zip(&self.empty.free).any(|(requested, allocatable)| requested > allocatable);
        let nominated = &self.pod.status.nominated_node_name;
        if self.pod.spec.preemption_policy == NEVER {
            Preemption::Never
        } else if *nominated == self.node.metadata.name
            && !is_unresolvable
            && self.bound.iter().filter(lower).any(|other| is_terminating_by_preemption(other.pod))
        {
            Preemption::Waits
        } else if is_unresolvable {
            Preemption::NotHelpful
        } else if !self.bound.iter().any(|other| lower(&other)) {
            Preemption::NoneLower
        } else if !self.fits_in(&self.without_lower(own)) {
            Preemption::NotHelpful
        } else {
            Preemption::Preempts(self.victims(own, budgets))
        }
    }

    /// Returns the pods that are preempted for the pod if it has a priority with which it has room.
    pub fn victims_of(&self, priority: i32, budgets: Option<&Budgets<'_>>) -> Victims<'a> {
        self.victims(priority, budgets).without_terminating()
    }

    /// Returns the priority above which the pod would have room, if it may preempt; `None` if no priority is high enough.
    pub fn needs_priority_above(&self) -> Option<i32> {
        let own = priority(self.pod);
        let mut below: Vec<i32> = self.bound.iter().chain(&self.nominated).map(|other| priority(other.pod)).collect();
        below.retain(|other| *other > own);
        below.push(own);
        if self.pod.spec.preemption_policy == NEVER {
            // Its own priority may do.
            below.extend(own.checked_sub(1));
        }
        below.sort_unstable();
        below.dedup();
        below.into_iter().find(|below| self.fits_in(&self.without_lower(below.saturating_add(1))))
    }

    /// Returns whether a pod on the node has the same priority.
    pub fn has_equal(&self) -> bool {
        self.bound.iter().any(|other| priority(other.pod) == priority(self.pod))
    }

    fn fits_in(&self, room: &Room) -> bool {
        let has = |(requested, free): (&i64, &i64)| requested <= free;
        room.pod_slots > 0 && room.conflicts == 0 && self.requests.iter().zip(&room.free).all(has)
    }

    /// Returns what the node has left without the pods of a lower priority. Nominated pods with one do not count, as in
    /// `addGENominatedPods`, pkg/scheduler/framework/runtime/framework.go, release 1.37.2.
    fn without_lower(&self, than: i32) -> Room {
        self.empty.with(self.bound.iter().chain(&self.nominated).filter(|other| priority(other.pod) >= than))
    }

    /// Selects the victims: starting with the most important pod of lower priority, those stay beside which the pod fits.
    ///
    /// Which of equally important pods stays depends on an order that is not known, and the orders are not tried. For each group
    /// of those two rooms are kept: with the pods that stay for certain, and with all that may.
    fn victims(&self, own: i32, budgets: Option<&Budgets<'_>>) -> Victims<'a> {
        let lower: Vec<&Occupant<'a>> = self.bound.iter().filter(|other| priority(other.pod) < own).collect();
        let violations = violations(&lower, budgets);
        // Those that violate a budget are the first that may stay.
        let is_order_known = violations.iter().all(Option::is_some);
        let rank = |(other, violates): &(&Occupant<'a>, Option<bool>)| (Reverse(*violates), other.importance());
        let mut lower: Vec<(&Occupant<'a>, Option<bool>)> = lower.into_iter().zip(violations).collect();
        lower.sort_by_key(rank);
        let mut victims = Victims::default();
        let (mut least, mut most) = (self.without_lower(own), self.without_lower(own));
        for group in lower.chunk_by(|a, b| !is_order_known || rank(a) == rank(b)) {
            let victim = |(other, violates): &(&Occupant<'a>, Option<bool>)| Victim {
                pod: other.pod,
                violates_budget: *violates,
            };
            let (rest, gone): (Vec<_>, Vec<_>) =
                group.iter().copied().partition(|(other, _)| self.fits_in(&least.with([*other])));
            victims.certain.extend(gone.iter().map(victim));
            let all = |room: &Room| room.with(rest.iter().map(|(other, _)| *other));
            if rest.is_empty() || self.fits_in(&all(&most)) {
                (least, most) = (all(&least), all(&most));
                continue;
            }
            let of: Vec<Victim<'a>> = rest.iter().map(victim).collect();
            if rest.windows(2).all(|pair| pair[0].0.needs_as_much_as(pair[1].0)) {
                // Whichever stay, they leave as much room, and how many do depends on the room alone.
                let with = |room: &Room, count: usize| room.with(rest[..count].iter().map(|(other, _)| *other));
                let stay = |room: &Room| (1..=rest.len()).take_while(|count| self.fits_in(&with(room, *count))).count();
                let (stay_at_most, stay_at_least) = (stay(&least), stay(&most));
                // Where the fewest pods of other groups stay, the most of these do, and the other way round.
                (least, most) = (with(&least, stay_at_least), with(&most, stay_at_most));
                victims.choices.push(Choice {
                    at_least: of.len() - stay_at_most,
                    at_most: of.len() - stay_at_least,
                    of,
                });
            } else {
                let at_least = usize::from(!self.fits_in(&all(&least)));
                // One that has room beside all that may stay does, or another one of these instead.
                let one_stays = rest.iter().any(|(other, _)| self.fits_in(&most.with([*other])));
                victims.choices.push(Choice { at_least, at_most: of.len() - usize::from(one_stays), of });
                most = all(&most);
            }
        }
        victims.certain.sort_by_key(|victim| Reverse(priority(victim.pod)));
        victims
    }
}

/// The preemption policy of a pod that preempts no other.
pub const NEVER: &str = "Never";

/// Returns whether the preemption of each of these pods violates a budget, if that is known: it may depend on the order of
/// equally important pods, and if several budgets select a pod, on the order of these, which is that of a Go map.
///
/// Ported from `FilterVictimsWithPDBViolation`, pkg/scheduler/framework/preemption/util.go, release 1.37.2.
fn violations(pods: &[&Occupant<'_>], budgets: Option<&Budgets<'_>>) -> Vec<Option<bool>> {
    let Some(budgets) = budgets else { return vec![None; pods.len()] };
    let counted: Vec<Vec<&PodDisruptionBudget>> = pods.iter().map(|other| budgets.of(other.pod)).collect();
    let violates = |number: usize, budget: &PodDisruptionBudget| {
        let mine = pods[number].importance();
        let is_counted = |other: usize| counted[other].iter().any(|one| std::ptr::eq(*one, budget));
        let others = || (0..pods.len()).filter(|other| *other != number && is_counted(*other));
        let before = others().filter(|other| counted[*other].len() == 1 && pods[*other].importance() < mine).count();
        let perhaps_before = others().filter(|other| pods[*other].importance() <= mine).count();
        let exceeds = |count: usize| i64::try_from(count).is_ok_and(|count| count >= budget.status.disruptions_allowed);
        Some(exceeds(before)).filter(|exceeds_for_certain| *exceeds_for_certain == exceeds(perhaps_before))
    };
    let combined = |number: usize| {
        let each: Vec<Option<bool>> = counted[number].iter().map(|budget| violates(number, budget)).collect();
        if each.contains(&Some(true)) { Some(true) } else { each.iter().all(Option::is_some).then_some(false) }
    };
    (0..pods.len()).map(combined).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::Budgets;
    use crate::model::pod::Pod;
    use crate::model::pod_disruption_budget::PodDisruptionBudget;

    #[test]
    fn a_budget_counts_the_pods_with_the_same_labels_but_for_those_that_it_has_counted() {
        let budget = |name: &str, selector: Value| -> PodDisruptionBudget {
            from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": selector},
                "status": {"disruptedPods": {"web-2": "2026-03-01T11:00:00Z"}}}))
            .unwrap()
        };
        let all = [budget("web", json!({"matchLabels": {"app": "web"}})), budget("all", json!({}))];
        let budgets = Budgets::new(&all);
        let of = |namespace: &str, name: &str, labels: Value| {
            let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
            let pod: Pod = from_value(json!({ "metadata": metadata })).unwrap();
            budgets.of(&pod).into_iter().map(|budget| budget.metadata.name.clone()).collect::<Vec<_>>()
        };
        let web = || json!({"app": "web"});
        for _ in 0..2 {
            assert_eq!(of("shop", "web-1", web()), ["web"]);
            assert_eq!(of("shop", "web-2", web()), [""; 0]);
            assert_eq!(of("shop", "db-0", json!({"app": "db"})), [""; 0]);
            assert_eq!(of("other", "web-1", web()), [""; 0]);
        }
    }
}
