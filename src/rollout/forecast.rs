//! Where the controller comes to a standstill after a change: its rules are simulated on the current nodes until it has
//! nothing left to do.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::replacement_warnings::Replacement;
use super::rollback::revision_fails;
use super::room::fits_alone;
use super::set;
use super::situation::simulation::{SimulatedNode, advance, make_available};
use super::situation::suspect::suspect;
use super::situation::{RolloutNode, Situation};
use crate::coverage::admitted;
use crate::facts::revisions::name_of;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::raised_pace::Limit;
use crate::plan::SpecFields;
use crate::report::fix::Fix;
use crate::report::plan::{Standstill, Warning, WarningCode};
use crate::report::rollout_status::SuspectKind;
use crate::report::{count, named};
use crate::scheduling::daemon_pods::{self, NodePods};
use crate::scheduling::ports::{conflicts, host_ports};
use crate::scheduling::resources::{Insufficient, NodeUsage, fits, format_amount, template_requests};
use crate::scheduling::rolling_update::{UpdateLimits, allows_surge, limits, rolling_update};
use crate::scheduling::should_run::DaemonPod;

/// The number of healthy nodes that are enough besides the others: they all behave the same.
const ALIKE: usize = 20;

/// How many available pods a suggestion may allow to be deleted at a time, unless the strategy already allows half of that.
pub(super) const AT_ONCE: usize = 3;

/// Returns where the controller comes to a standstill although pods are left to replace; `None` if it is not certain that it does, or
/// if something is unknown.
///
/// Unless it is known to fail, everything is assumed to work: the new pods become available on all nodes that are up, if no finalizer
/// keeps the old ones.
/// There are other warnings for a template that fails everywhere, and for pods that the API server refuses.
pub(crate) fn standstill(before: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Standstill> {
    if replacement.is_same_template && suspect(before).is_some_and(|it| it.what == SuspectKind::Revision) {
        return None;
    }
    let stays = before.would_be_held();
    // A new template replaces the present pods, too.
    let stays = |node: &RolloutNode<'_>| node.old.into_iter().chain(node.updated).any(&stays);
    let found = end(before, replacement, stays)?;
    // More nodes would be without a pod, and the rollout would not finish.
    let fails = || before.fails_widely() || revision_fails(before);
    let is_in_vain = before.eligible().any(stays) || replacement.is_same_template && fails();
    let max_unavailable = found.max_unavailable.filter(|_| !is_in_vain);
    Some(Standstill { max_unavailable, ..found })
}

/// Returns where the controller would come to a standstill if the pods of the same template failed again where they
/// fail now, or everywhere if they are available nowhere.
fn standstill_if_pods_fail_again(before: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Standstill> {
    let works_nowhere = suspect(before).is_some_and(|it| it.what == SuspectKind::Revision && it.available == 0);
    let fails = |node: &RolloutNode<'_>| works_nowhere || (before.fails_on(node) && node.is_on_current());
    end(before, replacement, fails).map(|end| Standstill { max_unavailable: None, ..end })
}

/// Simulates the rules, with nodes on which new pods fail.
fn end(
    before: &Situation<'_>,
    replacement: &Replacement<'_>,
    fails: impl Fn(&RolloutNode<'_>) -> bool,
) -> Option<Standstill> {
    let after = replacement.after;
    let is_simulated = replacement.by_controller && after.flavor() == Flavor::Apps && before.is_known;
    if !is_simulated || after.metadata.is_terminating() || replacement.is_refused(before) {
        return None;
    }
    let fleet = Fleet::new(before, replacement, fails);
    // Regardless of which node the controller visits first.
    let end = fleet.run(fleet.limits.max_unavailable, true)?;
    let enough = end.is_blocked().then(|| fleet.enough(&end))?;
    // A pod may be stuck on a node that is up.
    let is_down = |name: &&String| before.node(name).is_some_and(|node| !node.is_ready() && before.is_down(node));
    Some(Standstill {
        replaced: int(end.replaced),
        left: int(end.left),
        down: end.held_by.iter().filter(is_down).cloned().collect(),
        held_by: end.held_by,
        max_unavailable: enough,
    })
}

/// Warns about a standstill, and says how the controller completes the rollout; or about one that only occurs if pods of the same
/// template fail again.
pub(crate) fn warning(
    standstill: Option<&Standstill>,
    before: &Situation<'_>,
    replacement: &Replacement<'_>,
) -> Option<Warning> {
    let after = replacement.after;
    let may_come = || {
        let may_fail_again = Some(replacement).filter(|replacement| replacement.is_same_template);
        let standstill = standstill_if_pods_fail_again(before, may_fail_again?)?;
        let warning = describe(&standstill, after, "if the new pods fail as the current ones do, ");
        Some(Warning { code: WarningCode::MayBlock, ..warning })
    };
    let blocks = standstill.map(|standstill| describe(standstill, after, ""));
    blocks.or_else(may_come).or_else(|| may_stall(before, replacement))
}

/// Warns about the case that [`Situation::stalled_since`] explains: it affects one rollout in several.
fn may_stall(before: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Warning> {
    let after = replacement.after;
    let is_old = |pod: &&Pod| !replacement.is_updated(pod);
    let waits = allows_surge(after) && after.spec.min_ready_seconds > 0 && after.flavor() == Flavor::Apps;
    let message = "with maxSurge and minReadySeconds, the controller may miss that new pods have become available, and stand still until \
                   something else changes";
    let fix = Fix::new("to see whether it does, and how it goes on", name_of(after).command("status"));
    (waits && before.is_known && before.pods().filter(is_old).count() > 1)
        .then(|| Warning { fix: Some(fix), ..Warning::new(WarningCode::MayBlock, message) })
}

fn describe(standstill: &Standstill, after: &DaemonSet, condition: &str) -> Warning {
    let Standstill { replaced, held_by, down, .. } = standstill;
    let others: Vec<&str> = held_by.iter().filter(|name| !down.contains(name)).map(String::as_str).collect();
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    let is = |names: &[&str], one: &str, several: &str| {
        let verb = if names.len() == 1 { one } else { several };
        (!names.is_empty()).then(|| format!("{} {verb}", named(names)))
    };
    // The old pods stay.
    let which = if allows_surge(after) { "available new pod" } else { "available pod" };
    let others = is(&others, &format!("has no {which}"), &format!("have no {which}"));
    let why = [is(&down, "is down", "are down"), others];
    let hold = match (held_by.len(), why[1].is_none() || down.is_empty()) {
        (1, _) => " and holds",
        (_, true) => " and hold",
        (_, false) => ", which hold",
    };
    let begin = match replaced {
        0 => "no pod will be replaced".to_owned(),
        1 => "1 pod is replaced, then it blocks".to_owned(),
        replaced => format!("{replaced} pods are replaced, then it blocks"),
    };
    let why: Vec<String> = why.into_iter().flatten().collect();
    let message = format!("{condition}{begin}: {}{hold} {}", why.join(" and "), limit(after));
    let fix = standstill.max_unavailable.map(|enough| {
        let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(enough)), ..SpecFields::default() };
        let advice = format!("to let it finish despite {}", count(held_by.len(), "unavailable node"));
        Fix::new(advice, set::command(&name_of(after), fields))
    });
    Warning { fix, ..Warning::new(WarningCode::Blocks, message) }
}

/// Warns that a surge stops at nodes that cannot hold the old and the new pod, and how to update them one by one.
pub(super) fn surge_without_room(before: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Warning> {
    let after = replacement.after;
    let is_surge = allows_surge(after) && after.flavor() == Flavor::Apps;
    if !is_surge || !before.is_known || after.metadata.is_terminating() {
        return None;
    }
    let (daemon_pod, spec) = (DaemonPod::new(&after.spec.template), &admitted(before.index.snapshot, after).spec);
    let requests = template_requests(spec);
    let is_old = |pod: &&&Pod| {
        let is_there = !pod.metadata.is_terminating() && !pod.spec.node_name.is_empty();
        is_there && !replacement.is_updated(pod)
    };
    let exclude_each_other = |node: &RolloutNode<'_>, pods: &NodePods<'_>| {
        let old = *pods.pods.iter().find(is_old)?;
        let object = node.object.filter(|object| daemon_pod.decide(object).should_run)?;
        let requests = before.index.device_claims.classes.without(&requests, object);
        let short = fits(&requests, object, &NodeUsage::of(std::iter::once(old)));
        if short.iter().any(Insufficient::never_fits) {
            return None;
        }
        let port = host_ports(spec).find(|wanted| host_ports(&old.spec).any(|held| conflicts(wanted, held)));
        let port = port.map(|port| format!("both have host port {}", port.host_port));
        port.or_else(|| {
            let short = short.first()?;
            let amount = |amount: i64| format_amount(&short.resource, amount);
            let (new, old, all) = (amount(short.requested), amount(short.used), amount(short.allocatable));
            Some(match short.resource.as_str() {
                "pods" => "it takes a single pod".to_owned(),
                resource => {
                    format!("the new one requests {new} {resource}, the old one has {old}, and the node has {all}")
                }
            })
        })
    };
    let found: Vec<(&str, String)> = before
        .nodes
        .iter()
        .zip(&before.node_pods)
        .filter_map(|(node, pods)| Some((node.name, exclude_each_other(node, pods)?)))
        .collect();
    let (example, why) = found.first()?;
    let nodes = count(found.len(), "node");
    let message = format!(
        "under {} the rollout stops at {nodes} without room for both the old and the new pod, such as {example}: {why}",
        limit(after)
    );
    let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(1)), ..SpecFields::default() };
    let fix = Fix::new("to replace pods one by one instead", set::command(&name_of(after), fields));
    Some(Warning { fix: Some(fix), ..Warning::new(WarningCode::Blocks, message) })
}

/// Returns the limit of a rolling update as specified in the DaemonSet.
fn limit(daemon_set: &DaemonSet) -> String {
    Limit::of(daemon_set).map_or_else(String::new, |limit| limit.to_string())
}

/// The nodes that decide how a rollout ends.
struct Fleet<'s> {
    nodes: Vec<SimulatedNode<'s>>,
    /// Those that have a pod to replace.
    outdated: BTreeSet<&'s str>,
    /// The number of other healthy nodes with an old pod.
    alike: usize,
    daemon_set: &'s DaemonSet,
    hash: &'s str,
    limits: UpdateLimits,
    now: jiff::Timestamp,
}

/// The state of a rollout once the controller has nothing left to do.
struct End {
    /// Number of nodes whose pod was replaced by one of the revision.
    replaced: usize,
    /// Number of eligible nodes that keep an old pod.
    left: usize,
    /// The nodes that use up the limit.
    held_by: Vec<String>,
    allowed: i64,
}

impl End {
    fn is_blocked(&self) -> bool {
        self.left > 0 && int(self.held_by.len()) >= self.allowed
    }
}

impl<'s> Fleet<'s> {
    fn new(before: &'s Situation<'_>, replacement: &Replacement<'s>, fails: impl Fn(&RolloutNode<'_>) -> bool) -> Self {
        let after = replacement.after;
        let daemon_pod = DaemonPod::new(&after.spec.template);
        let is_updated = |pod: &Pod| replacement.is_updated(pod);
        let made = admitted(before.index.snapshot, after).spec;
        let (mut nodes, mut outdated, mut alike, mut desired) = (Vec::new(), BTreeSet::new(), 0, 0);
        for (node, pods) in before.nodes.iter().zip(&before.node_pods) {
            let is_down = before.is_down(node);
            let is_passing = before.recovers(node);
            let decision = match replacement.is_same_template {
                true => pods.decision,
                false => node.object.map(|node| daemon_pod.decide(node)),
            };
            let should_run = decision.is_some_and(|decision| decision.should_run);
            desired += usize::from(should_run);
            // A pod that does not fit does not fit after it is recreated either, unless it belongs to a surge that ends.
            let fits_alone = |object: &Node| fits_alone(before.index, &made, object);
            let ends_surge = !allows_surge(after)
                && node.old.is_some()
                && node.updated.is_some()
                && node.object.is_none_or(fits_alone);
            let has_no_room = node.lacks_room() && !before.passes(node) && !ends_surge;
            let works = !(is_down || replacement.is_same_template && has_no_room || fails(node));
            // The pod garbage collector deletes the pods of a deleted node.
            let is_collected = node.object.is_none() && is_passing;
            let of_node = pods.pods.iter().filter(|pod| !is_collected && (is_down || !pod.metadata.is_terminating()));
            let of_node = of_node.map(|pod| {
                let mut pod = (*pod).clone();
                if is_updated(&pod) && works && (is_passing || pod.is_ready()) {
                    make_available(&mut pod);
                }
                pod
            });
            let of_node: Vec<Pod> = of_node.collect();
            let min_ready = after.spec.min_ready_seconds;
            let is_available = |pod: &Pod| {
                daemon_pods::is_available(pod, min_ready, before.ready_clock()) && !pod.metadata.is_terminating()
            };
            match of_node.as_slice() {
                [] if !should_run => continue,
                // It is done, and no longer matters.
                [pod] if should_run && works && is_updated(pod) && is_available(pod) => continue,
                [pod] if should_run && works && is_available(pod) => {
                    alike += 1;
                    if alike > ALIKE {
                        continue;
                    }
                }
                _ => {}
            }
            if of_node.iter().any(|pod| !pod.metadata.is_terminating() && !is_updated(pod)) {
                outdated.insert(node.name);
            }
            let (name, selected) = (node.name, pods.selected);
            nodes.push(SimulatedNode { name, decision, pods: of_node, selected, works, lets_go: !is_down });
        }
        let limits = limits(after, int(desired));
        Fleet {
            nodes,
            outdated,
            alike: alike.saturating_sub(ALIKE),
            daemon_set: after,
            hash: replacement.hash_of_new(),
            limits,
            now: before.ready_clock(),
        }
    }

    /// Simulates the controller until it has nothing left to do; `None` if that takes too long. It visits the healthy
    /// nodes first or last.
    fn run(&self, max_unavailable: i64, begins_with_healthy: bool) -> Option<End> {
        let mut daemon_set = self.daemon_set.clone();
        let UpdateStrategy::RollingUpdate(rolling) = &mut daemon_set.spec.update_strategy else { return None };
        // Omitted nodes count for percentages.
        rolling.max_unavailable = IntOrPercent::Int(max_unavailable);
        rolling.max_surge = IntOrPercent::Int(self.limits.max_surge);
        let mut nodes: Vec<SimulatedNode<'_>> = self.nodes.clone();
        let is_healthy = |node: &SimulatedNode<'_>| node.works && node.lets_go;
        match begins_with_healthy {
            true => nodes.sort_by_key(|node| Reverse(is_healthy(node))),
            false => nodes.sort_by_key(is_healthy),
        }
        // Each node takes at most three steps, besides those delayed by others.
        let most = 4 * nodes.len() + 4;
        if (0..most).all(|_| advance(&mut nodes, &daemon_set, self.hash, self.now)) {
            return None;
        }
        let node_pods: Vec<_> = nodes.iter().map(SimulatedNode::node_pods).collect();
        let step = rolling_update(&daemon_set, self.hash, &node_pods, self.now).ok()?;
        let is_left = |node: &SimulatedNode<'_>| step.candidates.iter().any(|candidate| candidate.node == node.name);
        let is_replaced = |node: &&SimulatedNode<'_>| {
            let is_updated = |pod: &Pod| daemon_pods::is_updated(self.daemon_set, Some(self.hash), pod);
            self.outdated.contains(node.name) && node.lets_go && node.pods.iter().all(is_updated)
        };
        let mut left = nodes.iter().filter(|node| is_left(node)).count();
        let mut replaced = nodes.iter().filter(is_replaced).count();
        match nodes.iter().any(|node| is_healthy(node) && is_left(node)) {
            true => left += self.alike,
            false => replaced += self.alike,
        }
        let mut held_by: Vec<String> = step.used_by.iter().map(|name| (*name).to_owned()).collect();
        held_by.sort();
        Some(End { replaced, left, held_by, allowed: step.allowed })
    }

    /// Returns the smallest `maxUnavailable` with which the controller completes the rollout, regardless of which node
    /// it visits first; `None` if it would then delete many available pods at once, or if there is none.
    fn enough(&self, end: &End) -> Option<i64> {
        if self.limits.max_surge > 0 {
            return None;
        }
        let held = int(end.held_by.len());
        let most = held + int(AT_ONCE).max(2 * self.limits.max_unavailable);
        let finishes = |enough: &i64| self.run(*enough, false).is_some_and(|end| end.left == 0);
        (held + 1..=most).find(finishes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{describe, standstill, surge_without_room, warning};
    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::report::plan::{Standstill, WarningCode};
    use crate::rollout::replacement_warnings::Replacement;
    use crate::rollout::situation::Situation;

    /// A cluster with nodes `n0`, `n1` and so on, each in a state: an available `old` or `new` pod, or one that is
    /// `unready`; `down`, with an old pod, which may be terminating or still count as available, or a new one.
    fn cluster(rolling_update: &Value, nodes: &[&str]) -> World {
        let mut world = world()
            .revision_of_image("hash1", 1, "agent:1")
            .daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": rolling_update}}}));
        let old = json!({"controller-revision-hash": "hash1", "pod-template-generation": "1"});
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        for (number, state) in nodes.iter().enumerate() {
            let (node, pod) = (format!("n{number}"), format!("agent-{number}"));
            let lost = |taints: Value| {
                json!({"spec": {"taints": taints}, "status": {"conditions": [
                    {"type": "Ready", "status": "Unknown", "lastTransitionTime": at("11:40:00")}]}})
            };
            let taint = |effect| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
            let joins = json!({"metadata": {"creationTimestamp": at("11:59:50")}, "status": {"conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": at("11:59:50")}]}});
            world = world.node(
                &node,
                match *state {
                    "joins" => joins,
                    "down but eligible" => lost(json!([])),
                    _ if state.starts_with("down") => lost(json!([taint("NoSchedule"), taint("NoExecute")])),
                    _ => json!({}),
                },
            );
            let labels = if state.contains("new") { json!({}) } else { old.clone() };
            let deleted = state.contains("terminating").then(|| at("11:41:00"));
            let patch = json!({"metadata": {"labels": labels, "deletionTimestamp": deleted}});
            world = match *state {
                "none" | "joins" => world,
                "old" | "new" | "down available" => world.pod(&pod, &node, patch),
                _ => world.unready_pod(&pod, &node, crashes(), patch),
            };
        }
        world
    }

    type Expected<'e> = Option<(i64, i64, &'e [&'e str], usize, Option<i64>)>;

    fn check(world: World, hash: &str, expected: Expected<'_>) {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let is_same_template = hash != "hash1";
        let template = |number| situation.revisions.number(number).unwrap().template.as_ref().unwrap();
        let after = match hash {
            CURRENT => snapshot.daemon_sets[0].clone(),
            "" => snapshot.daemon_sets[0].with_template(&situation.revisions.live),
            _ => snapshot.daemon_sets[0].with_template(template(1)),
        };
        let found = standstill(&situation, &Replacement::of_template(&after, hash, is_same_template));
        let found =
            found.as_ref().map(|it| (it.replaced, it.left, it.held_by.clone(), it.down.len(), it.max_unavailable));
        let expected = expected.map(|(replaced, left, held_by, down, enough)| {
            (replaced, left, held_by.iter().map(|&name| name.to_owned()).collect::<Vec<String>>(), down, enough)
        });
        let nodes: Vec<_> = snapshot.pods.iter().map(|pod| &pod.metadata.name).collect();
        assert_eq!(found, expected, "{hash} {:?} {nodes:?}", snapshot.daemon_sets[0].spec.update_strategy);
    }

    fn unavailable(amount: impl Into<Value>) -> Value {
        json!({"maxUnavailable": amount.into()})
    }

    #[test]
    fn a_restart_stands_still_once_nodes_that_are_down_use_up_the_limit() {
        for (rolling, nodes, expected) in [
            (unavailable(1), &["down", "old", "old", "old"][..], Some((0, 3, &["n0"][..], 1, Some(2)))),
            (unavailable(1), &["down", "down", "old", "old"], Some((0, 2, &["n0", "n1"], 2, Some(3)))),
            (unavailable(2), &["down", "down", "old", "old"], Some((0, 2, &["n0", "n1"], 2, Some(3)))),
            (unavailable(2), &["down", "old", "old", "old"], None),
            (unavailable(1), &["down terminating", "old", "old"], Some((0, 2, &["n0"], 1, Some(2)))),
            (unavailable(1), &["down but eligible", "old", "old"], Some((0, 2, &["n0"], 1, Some(2)))),
            (unavailable(1), &["down new", "old", "old"], Some((0, 2, &["n0"], 1, Some(2)))),
            // Unavailable pods on nodes that are up are replaced anyway.
            (
                unavailable(2),
                &["down", "down", "unready", "unready", "old", "old"],
                Some((2, 2, &["n0", "n1"], 2, Some(3))),
            ),
            (unavailable(1), &["unready", "old", "old"], None),
            (unavailable(1), &["old", "old", "old"], None),
            (unavailable(1), &["joins", "old", "old"], None),
            (unavailable(1), &["none", "old", "old"], None),
            // The controller visits the nodes in any order: it is certain only if it comes to a standstill in each order.
            (unavailable(1), &["down available", "old", "old"], None),
            (unavailable(1), &["down available", "down", "old"], Some((0, 2, &["n1"], 1, Some(3)))),
            // The percentage is of the eligible nodes: 3 of 4.
            (unavailable("34%"), &["down", "old", "old", "old"], None),
            (unavailable("33%"), &["down", "old", "old", "old"], Some((0, 3, &["n0"], 1, Some(2)))),
            // A surge does not wait for nodes that should not run a pod.
            (json!({"maxUnavailable": 0, "maxSurge": 1}), &["down", "old", "old"], None),
            (json!({"maxUnavailable": 0, "maxSurge": 1}), &["down terminating", "old", "old"], None),
        ] {
            check(cluster(&rolling, nodes), "", expected);
        }
    }

    #[test]
    fn a_change_of_the_strategy_stands_still_because_of_new_pods_that_fail_too() {
        for (rolling, nodes, expected) in [
            (unavailable(1), &["new", "new", "new unready", "old"][..], Some((0, 1, &["n2"][..], 0, Some(2)))),
            (unavailable(2), &["new", "new", "new unready", "old"], None),
            (unavailable(1), &["new", "new", "new", "down", "old"], Some((0, 1, &["n3"], 1, Some(2)))),
            (unavailable(2), &["new", "new", "new unready", "down", "old"], Some((0, 1, &["n2", "n3"], 1, Some(3)))),
            // The pods of both revisions fail, so that a larger limit only takes down more nodes.
            (unavailable(1), &["new unready", "new unready", "unready", "old"], Some((1, 1, &["n0", "n1"], 0, None))),
            // Nothing is left to replace.
            (unavailable(1), &["new", "new", "new", "down new"], None),
            // This is covered by the warning about a failing revision.
            (unavailable(1), &["new unready", "old", "old"], None),
        ] {
            check(cluster(&rolling, nodes), CURRENT, expected);
        }
    }

    #[test]
    fn a_rollback_stands_still_only_because_of_what_stays_as_it_is() {
        for (rolling, nodes, expected) in [
            (unavailable(1), &["new unready", "new unready", "old"][..], None),
            (unavailable(1), &["new", "new", "down new"], Some((0, 2, &["n2"][..], 1, Some(2)))),
            (unavailable(1), &["new unready", "new", "down new"], Some((1, 1, &["n2"], 1, Some(2)))),
            (unavailable(1), &["new", "new", "down"], Some((0, 2, &["n2"], 1, Some(2)))),
            // The old pod fails, too.
            (unavailable(1), &["new", "new", "unready"], Some((0, 2, &["n2"], 0, Some(2)))),
            (unavailable(1), &["old", "old", "down"], None),
        ] {
            check(cluster(&rolling, nodes), "hash1", expected);
        }
    }

    #[test]
    fn nothing_is_predicted_for_what_does_not_roll_out_or_is_not_known() {
        let nodes = ["down", "old", "old"];
        let with = |patch: Value| cluster(&unavailable(1), &nodes).daemon_set(patch);
        check(with(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})), "", None);
        check(with(json!({"apiVersion": "apps.kruise.io/v1beta1"})), "", None);
        check(with(json!({"metadata": {"deletionTimestamp": at("11:59:00")}})), "", None);
        let refusal = "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces";
        check(cluster(&unavailable(1), &nodes).refusal(refusal), "", None);
    }

    #[test]
    fn a_surge_stops_at_nodes_that_never_hold_two_pods() {
        let surge = || json!({"maxUnavailable": 0, "maxSurge": 1});
        let container = |requests: Value, ports: Value| {
            json!({"containers": [{"name": "agent", "image": "agent:2",
            "resources": {"requests": requests}, "ports": ports}]})
        };
        let cpu = |cpu: &str| container(json!({"cpu": cpu}), json!([]));
        let port = || container(json!({}), json!([{"containerPort": 80, "hostPort": 9100, "protocol": "TCP"}]));
        // Each node has 4 cpus.
        for (rolling, template, part) in [
            (surge(), cpu("3"), Some("the new one requests 3 cpu, the old one has 3, and the node has 4")),
            (surge(), cpu("2001m"), Some("such as n0")),
            (surge(), port(), Some("both have host port 9100")),
            (surge(), cpu("2"), None),
            (unavailable(1), cpu("3"), None),
            // It fits on no node at all, which is covered by another warning.
            (surge(), cpu("5"), None),
        ] {
            let mut world = cluster(&rolling, &["new", "new", "new"]).template(template.clone());
            for pod in &mut world.snapshot.pods {
                let patch = json!({"metadata": pod.metadata, "spec": template, "status": pod.status});
                let node = pod.spec.node_name.clone();
                *pod = serde_json::from_value(patch).unwrap();
                pod.spec.node_name = node;
            }
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let after = snapshot.daemon_sets[0].with_template(&situation.revisions.live);
            let found = surge_without_room(&situation, &Replacement::of_template(&after, "", true));
            assert_eq!(found.is_some(), part.is_some(), "{rolling} {template}");
            let Some((found, part)) = found.zip(part) else { continue };
            assert!(
                found.message.contains(part) && found.message.contains("stops at 3 nodes without room for both"),
                "{}",
                found.message
            );
            let command = found.fix.unwrap().command.unwrap().to_string();
            assert_eq!(command, "kubectl ds set --max-unavailable 1 -n default agent");
        }
    }

    /// Pods that fail now need not fail again, and users are not told to raise the limit for pods that may.
    #[test]
    fn a_restart_of_pods_that_fail_may_stand_still_at_them() {
        let again = |text: &str| Some(format!("if the new pods fail as the current ones do, {text}"));
        for (maximum, nodes, expected) in [
            (
                1,
                &["new unready", "new", "new"][..],
                again("1 pod is replaced, then it blocks: n0 has no available pod and holds maxUnavailable 1"),
            ),
            (
                2,
                &["new unready", "new unready", "new", "new", "new"],
                again("2 pods are replaced, then it blocks: n0 and n1 have no available pod and hold maxUnavailable 2"),
            ),
            (2, &["new unready", "new", "new", "new"], None),
            // Nodes that are down block it, regardless of the others.
            (
                1,
                &["new unready", "down new", "new", "new"],
                Some("1 pod is replaced, then it blocks: n1 is down and holds maxUnavailable 1".to_owned()),
            ),
            (
                2,
                &["new unready", "down new", "new", "new"],
                again(
                    "1 pod is replaced, then it blocks: n1 is down and n0 has no available pod, which hold maxUnavailable 2",
                ),
            ),
            // The restarted revision works nowhere, so all nodes that it reaches fail.
            (
                2,
                &["new unready", "old", "old", "old"],
                again("2 pods are replaced, then it blocks: n0 and n1 have no available pod and hold maxUnavailable 2"),
            ),
            (1, &["new", "new", "new"], None),
        ] {
            let snapshot = cluster(&unavailable(maximum), nodes).finish();
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let after = snapshot.daemon_sets[0].with_template(&before.revisions.live);
            let replacement = Replacement::of_template(&after, "", true);
            let certain = standstill(&before, &replacement);
            let found = warning(certain.as_ref(), &before, &replacement);
            let is_certain = found.as_ref().is_some_and(|found| found.code == WarningCode::Blocks);
            assert_eq!(is_certain, certain.is_some(), "{nodes:?}");
            assert_eq!(found.as_ref().is_some_and(|found| found.fix.is_some()), is_certain, "{nodes:?}");
            assert_eq!(found.map(|found| found.message), expected, "{nodes:?}");
            let other = Replacement { is_same_template: false, ..replacement };
            assert_eq!(warning(certain.as_ref(), &before, &other).is_some(), certain.is_some());
        }
    }

    #[test]
    fn a_surge_that_waits_for_time_may_stall() {
        let surge = || json!({"maxUnavailable": 0, "maxSurge": 1});
        for (rolling, seconds, nodes, expected) in [
            (surge(), 5, &["old", "old", "new"][..], true),
            (surge(), 0, &["old", "old", "new"], false),
            (unavailable(1), 5, &["old", "old", "new"], false),
            (surge(), 5, &["new", "new"], false),
        ] {
            let snapshot = cluster(&rolling, nodes).daemon_set(json!({"spec": {"minReadySeconds": seconds}})).finish();
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let replacement = Replacement::of_template(&snapshot.daemon_sets[0], CURRENT, true);
            let found = warning(None, &before, &replacement);
            assert_eq!(
                found.map(|found| found.code),
                expected.then_some(WarningCode::MayBlock),
                "{rolling} {seconds} {nodes:?}"
            );
        }
    }

    /// Identical nodes are not simulated one by one, but counted.
    #[test]
    fn a_large_fleet_has_the_right_numbers() {
        let nodes = |down: usize| [vec!["down"; down], vec!["unready"; 3], vec!["old"; 400]].concat();
        let held: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
        let mut held: Vec<&str> = held.iter().map(String::as_str).collect();
        held.sort_unstable();
        check(cluster(&unavailable(30), &nodes(30)), "", Some((3, 400, &held, 30, Some(31))));
        check(cluster(&unavailable(31), &nodes(30)), "", None);
        check(cluster(&unavailable("8%"), &nodes(30)), "", None);
    }

    #[test]
    fn the_warning_names_what_holds_the_rollout_and_how_it_ends() {
        let daemon_set = |rolling: Value| cluster(&rolling, &[]).finish().daemon_sets.remove(0);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (replaced, held_by, down, rolling, expected) in [
            (
                2,
                &["n3", "n7"][..],
                &["n3", "n7"][..],
                unavailable(2),
                "2 pods are replaced, then it blocks: n3 and n7 are down and hold maxUnavailable 2",
            ),
            (0, &["n3"], &["n3"], unavailable(1), "no pod will be replaced: n3 is down and holds maxUnavailable 1"),
            (
                1,
                &["n3"],
                &[],
                unavailable("5%"),
                "1 pod is replaced, then it blocks: n3 has no available pod and holds maxUnavailable 5%",
            ),
            (
                0,
                &["n1", "n3"],
                &["n3"],
                unavailable(2),
                "no pod will be replaced: n3 is down and n1 has no available pod, which hold maxUnavailable 2",
            ),
            (
                0,
                &["n1", "n2"],
                &[],
                json!({"maxSurge": 2, "maxUnavailable": 0}),
                "no pod will be replaced: n1 and n2 have no available new pod and hold maxSurge 2",
            ),
        ] {
            let (held_by, down) = (names(held_by), names(down));
            let standstill = Standstill { replaced, left: 5, held_by, down, max_unavailable: Some(3) };
            let warning = describe(&standstill, &daemon_set(rolling), "");
            assert_eq!(warning.message, expected);
            let command = warning.fix.unwrap().command.unwrap().to_string();
            assert_eq!(command, "kubectl ds set --max-unavailable 3 -n default agent");
        }
    }
}
