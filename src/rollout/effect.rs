//! The effect of a change to the update strategy on a cluster, in numbers: the controller's rules are applied to the
//! snapshot with the DaemonSet before and after the change.

use std::collections::BTreeSet;

use super::replacement_warnings::Replacement;
use super::situation::Situation;
use super::situation::next_step::next_step;
use super::situation::verdict::verdict_of;
use crate::facts::Facts;
use crate::facts::revisions::Revision;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::report::plan::{Effect, Pace, PodOnNode};
use crate::report::rollout_status::Verdict;
use crate::scheduling::daemon_pods::{self, NodePods};
use crate::scheduling::rolling_update;

/// Computes the effect of changing a DaemonSet to `after`, with the same template.
///
/// For an Advanced DaemonSet, and for a cluster that could not be read completely, the numbers come from its status.
pub(super) fn effect(before: &Facts<'_>, after: &DaemonSet) -> Effect {
    let is_simulated = before.daemon_set.flavor() == Flavor::Apps && is_read(before);
    let effect = match before.current_hash().filter(|_| is_simulated) {
        Some(hash) => {
            ControllerView { facts: before, hash, creation_is_refused: before.still_refuses_pods() }.effect(after)
        }
        // Something that the controller sees could not be read, or it is a different controller.
        None => effect_by_status(before.daemon_set, after),
    };
    Effect { revisions_deleted: revisions_deleted(before, after), ..effect }
}

/// Computes the effect of another template. For an Advanced DaemonSet, whose controller is not simulated, it only covers the nodes, and is
/// `None` if they stay the same, and for any DaemonSet that is being deleted.
pub(super) fn template_effect(before: &Situation<'_>, replacement: &Replacement<'_>) -> Option<Effect> {
    let Replacement { after, hash, .. } = *replacement;
    if before.daemon_set.metadata.is_terminating() {
        return None;
    }
    let facts = Facts::new(before.index, after);
    let (mut nodes_gained, nodes_lost) = nodes_gained_and_lost(before, &facts);
    if after.flavor() == Flavor::Advanced {
        let changes_nodes = !nodes_gained.is_empty() || !nodes_lost.is_empty();
        let unknown = Effect { before: None, after: None, ..effect_by_status(before.daemon_set, after) };
        return changes_nodes.then_some(Effect { nodes_gained, nodes_lost, ..unknown });
    }
    let creation_is_refused = before.creation_is_refused() && replacement.is_refused(before);
    if !replacement.is_same_template && before.creation_is_refused() {
        nodes_gained.extend(nodes_that_wait(before, &facts, hash));
        nodes_gained.sort();
    }
    let effect = match is_read(before) {
        false => Effect { outdated: outdated(&facts, hash), ..effect_by_status(after, after) },
        true => ControllerView { facts: &facts, hash, creation_is_refused }.effect(after),
    };
    Some(Effect { before: None, nodes_gained, nodes_lost, ..effect })
}

/// Returns the nodes that are eligible under only one of two versions of a DaemonSet: those of the second one, and
/// those of the first, by name.
pub(in crate::rollout) fn nodes_gained_and_lost(before: &Facts<'_>, after: &Facts<'_>) -> (Vec<String>, Vec<String>) {
    let of = |wanted: (bool, bool)| {
        let nodes = before.node_pods.iter().zip(&after.node_pods);
        let nodes = nodes.filter(|(before, after)| (before.should_run(), after.should_run()) == wanted);
        nodes.map(|(node, _)| node.node.to_owned()).collect()
    };
    (of((false, true)), of((true, false)))
}

/// Returns the nodes whose pods the API server refuses, and that get one of another template, which it would create.
fn nodes_that_wait(before: &Situation<'_>, after: &Facts<'_>, hash: &str) -> Vec<String> {
    let daemon_set = after.daemon_set;
    if before.admits(daemon_set, hash) != Some(true) {
        return Vec::new();
    }
    let nodes = before.node_pods.iter().zip(&after.node_pods);
    let waits = nodes.filter(|(before, after)| before.should_run() && after.lacks_pod(daemon_set));
    waits.map(|(node, _)| node.node.to_owned()).collect()
}

/// Returns how many of the pods read belong to other revisions; `None` if pods could not be read.
fn outdated(facts: &Facts<'_>, hash: &str) -> Option<i64> {
    let is_outdated =
        |pod: &&Pod| !pod.metadata.is_terminating() && !daemon_pods::is_updated(facts.daemon_set, Some(hash), pod);
    facts.pods_known.then(|| int(facts.pods().filter(is_outdated).count()))
}

/// Pods that the controller would delete because a surge ends: the newer one on each node with two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurgePods {
    pub pods: Vec<PodOnNode>,
    /// Whether waiting is enough, because the rollout continues.
    pub may_pass: bool,
}

impl SurgePods {
    /// Checks that an effect deletes no such pods, unless this is allowed.
    ///
    /// # Errors
    ///
    /// Fails if it does.
    pub(super) fn check(effect: &Effect, may_be_deleted: bool, before: &Situation<'_>) -> Result<(), Self> {
        if may_be_deleted || effect.surge_pods_deleted.is_empty() {
            return Ok(());
        }
        let may_pass = verdict_of(before) == Verdict::Progressing;
        Err(SurgePods { pods: effect.surge_pods_deleted.clone(), may_pass })
    }
}

/// Returns whether everything that the controller sees could be read.
fn is_read(facts: &Facts<'_>) -> bool {
    facts.knows_nodes_and_pods() && facts.knows(Kind::ControllerRevisions)
}

/// What the controller sees of a DaemonSet.
struct ControllerView<'f, 'a> {
    facts: &'f Facts<'a>,
    /// The hash of the revision of the new pods; empty if there is none yet.
    hash: &'f str,
    /// Whether the API server refuses new pods.
    creation_is_refused: bool,
}

impl<'a> ControllerView<'_, 'a> {
    fn effect(&self, after: &DaemonSet) -> Effect {
        let (before, nodes) = (self.facts.daemon_set, &self.facts.node_pods);
        let desired = int(nodes.iter().filter(|node| node.should_run()).count());
        let is_updated = |pod: &Pod| daemon_pods::is_updated(before, Some(self.hash), pod);
        let live = |node: &NodePods<'a>| {
            let live = node.pods.iter().filter(|pod| !pod.metadata.is_terminating());
            let (updated, outdated): (Vec<&Pod>, Vec<&Pod>) = live.copied().partition(|pod| is_updated(pod));
            (updated.len(), outdated.len())
        };
        let surge_pods_deleted = self.surge_pods_deleted(before, after);
        // They are deleted first, and then no longer use up the budget.
        let stays = |pod: &&Pod| surge_pods_deleted.iter().all(|deleted| deleted.pod != pod.metadata.name);
        let without =
            |node: &NodePods<'a>| NodePods { pods: node.pods.iter().copied().filter(stays).collect(), ..node.clone() };
        let nodes_after: Vec<NodePods<'a>> = nodes.iter().map(without).collect();
        let (mut outdated, mut not_replaced) = (0, 0);
        for node in &nodes_after {
            let (of_node, replaced) = match live(node) {
                (0, of_node) if node.should_run() => (of_node, of_node.min(1)),
                (_, of_node) => (of_node, 0),
            };
            outdated += of_node;
            not_replaced += of_node - replaced;
        }
        Effect {
            desired,
            outdated: Some(int(outdated)),
            not_replaced: Some(int(not_replaced)),
            before: self.pace(before, nodes, desired),
            after: self.pace(after, &nodes_after, desired),
            surge_pods_deleted,
            ..Effect::default()
        }
    }

    fn pace(&self, daemon_set: &DaemonSet, nodes: &[NodePods<'_>], desired: i64) -> Option<Pace> {
        let pace = pace_of(daemon_set, desired)?;
        let next = next_step(daemon_set, self.hash, nodes, self.facts.ready_clock());
        let in_use = next.update().map(|step| int(step.used_by.len()));
        let is_refused = next.replacing_is_refused(self.creation_is_refused, self.facts.deletion_refusal().is_some());
        // A pod on a deleted node stops the update, too.
        let Some(step) = next.update().filter(|_| !is_refused) else {
            return Some(Pace { in_use, replaced_now: Some(0), replaced_regardless: Some(0), ..pace });
        };
        // A pod deleted on an ineligible node is not replaced.
        let eligible: BTreeSet<&str> = nodes.iter().filter(|node| node.should_run()).map(|node| node.node).collect();
        let is_replaced = |pod: &&&Pod| daemon_pods::target_node(pod).is_some_and(|node| eligible.contains(node));
        // Which of the candidates are taken first is open.
        let may_be_replaced = step.candidates.iter().filter(|candidate| eligible.contains(candidate.node)).count();
        let regardless = if step.surges { step.create.len() } else { step.delete.iter().filter(is_replaced).count() };
        Some(Pace {
            in_use,
            replaced_now: Some(int(regardless + step.replaced_now.min(may_be_replaced))),
            replaced_regardless: Some(int(regardless)),
            ..pace
        })
    }

    /// Returns the pods that the controller deletes, besides a rolling update, only after the change: if nodes may no
    /// longer have two pods, it keeps the older one.
    fn surge_pods_deleted(&self, before: &DaemonSet, after: &DaemonSet) -> Vec<PodOnNode> {
        if !rolling_update::allows_surge(before) || rolling_update::allows_surge(after) {
            return Vec::new();
        }
        let deleted = |daemon_set| {
            let (nodes, now) = (&self.facts.node_pods, self.facts.ready_clock());
            let upkeep = daemon_pods::manage(daemon_set, self.hash, nodes, |_| false, now);
            upkeep.delete.into_iter().map(|pod| (daemon_pods::target_node(pod), &pod.metadata.name))
        };
        let anyway: BTreeSet<_> = deleted(before).collect();
        let of = |(node, pod): (Option<&str>, &String)| PodOnNode {
            node: node.unwrap_or_default().to_owned(),
            pod: pod.clone(),
            revision: None,
        };
        let mut pods: Vec<PodOnNode> = deleted(after).filter(|pod| !anyway.contains(pod)).map(of).collect();
        pods.sort();
        pods
    }
}

fn effect_by_status(before: &DaemonSet, after: &DaemonSet) -> Effect {
    let status = &before.status;
    let desired = status.desired_number_scheduled;
    let pace = |daemon_set| {
        let pace = pace_of(daemon_set, desired)?;
        // The status does not say how many nodes have two pods.
        let is_known = !pace.surges && status.observed_generation > 0;
        Some(Pace { in_use: is_known.then_some(status.number_unavailable), ..pace })
    };
    Effect { desired, before: pace(before), after: pace(after), ..Effect::default() }
}

/// Returns the pace of a rolling update without its current progress; `None` if the controller replaces no pods.
fn pace_of(daemon_set: &DaemonSet, desired: i64) -> Option<Pace> {
    let UpdateStrategy::RollingUpdate(_) = daemon_set.spec.update_strategy else { return None };
    let limits = rolling_update::limits(daemon_set, desired);
    let surges = limits.max_surge > 0;
    let allowed = if surges { limits.max_surge } else { limits.max_unavailable };
    // Each node of a batch waits until the new pod has been ready for this long, including the last batch.
    let batches = if allowed > 0 { desired.saturating_add(allowed - 1) / allowed } else { 0 };
    let min_rollout_seconds = batches.saturating_mul(daemon_set.spec.min_ready_seconds);
    Some(Pace { surges, allowed, in_use: None, replaced_now: None, replaced_regardless: None, min_rollout_seconds })
}

/// Returns the revisions that the controller deletes because of a lower limit; `None` if that is unknown or the limit is the same.
///
/// Ported from `cleanupHistory`, pkg/controller/daemon/update.go, release 1.37.2: the oldest beyond the limit, except for those
/// that have pods. The current one does not count.
fn revisions_deleted(facts: &Facts<'_>, after: &DaemonSet) -> Option<Vec<i64>> {
    let (before, revisions) = (facts.daemon_set, &facts.revisions);
    let limit = after.spec.revision_history_limit.filter(|limit| Some(*limit) != before.spec.revision_history_limit)?;
    if !facts.knows(Kind::Pods) || !facts.knows(Kind::ControllerRevisions) {
        return None;
    }
    revisions.current()?;
    let old: Vec<&Revision<'_>> = revisions.all.iter().filter(|revision| !revision.is_current).collect();
    let surplus = usize::try_from(int(old.len()) - limit).unwrap_or(0);
    // `getNodesToDaemonPods` with `includeDeletedTerminal`.
    let is_on_node =
        |pod: &&Pod| daemon_pods::claim(before, pod).is_claimed() && daemon_pods::target_node(pod).is_some();
    let on_nodes = facts.index.snapshot.pods.iter().filter(is_on_node);
    let live: BTreeSet<&str> = on_nodes.map(Pod::revision_hash).filter(|hash| !hash.is_empty()).collect();
    let unused = old.into_iter().rev().filter(|revision| !live.contains(revision.object.hash()));
    Some(unused.take(surplus).map(Revision::number).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{CURRENT, World, at, world};
    use crate::facts::index::Index;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::plan::SpecFields;
    use crate::report::plan::Effect;
    use crate::rollout::restart::restart;
    use crate::rollout::set::{SetRequest, set};
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::undo;

    fn of_hash(hash: &str) -> Value {
        json!({"metadata": {"creationTimestamp": at("11:10:00"),
            "labels": {"controller-revision-hash": hash, "pod-template-generation": "1"}}})
    }

    fn effect_of(world: World, fields: SpecFields) -> Effect {
        let snapshot = world.finish();
        let request = SetRequest { fields, ..SetRequest::default() };
        set(&Situation::new(&Index::new(&snapshot), &snapshot.daemon_sets[0]), &request).unwrap().report.effect.unwrap()
    }

    #[test]
    fn an_old_pod_is_replaced_where_its_node_is_eligible_and_has_no_new_one() {
        let cordoned = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let world = world()
            .node("n0", json!({}))
            .pod("agent-0", "n0", of_hash("hash1"))
            .node("n1", json!({}))
            .pod("agent-1", "n1", of_hash("hash1"))
            .node("pair", json!({}))
            .pod("agent-pair", "pair", of_hash("hash1"))
            .pod("agent-new", "pair", json!({}))
            .node("cordoned", cordoned)
            .pod("agent-cordoned", "cordoned", of_hash("hash1"));
        let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(2)), ..SpecFields::default() };
        let effect = effect_of(world, fields);
        assert_eq!((effect.desired, effect.outdated, effect.not_replaced), (3, Some(4), Some(2)));
    }

    /// As long as the controller fails to create a missing pod, it does not get to the rolling update.
    #[test]
    fn refused_pods_hold_up_those_of_the_same_template() {
        let quota = "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, \
                     limited: pods=2";
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}});
        let surge = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}});
        let replaced_by = |strategy: &Value, is_refused: bool, is_restart: bool, is_missing: bool| {
            let world = world()
                .revision_of_image("hash1", 1, "agent:1")
                .daemon_set(json!({"spec": {"updateStrategy": strategy}}))
                .node("n0", json!({}))
                .pod("agent-0", "n0", json!({}))
                .node("n1", json!({}))
                .pod("agent-1", "n1", json!({}));
            let world = if is_missing { world.node("missing", json!({})) } else { world };
            let snapshot = if is_refused { world.refusal(quota) } else { world }.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let planned = match is_restart {
                true => restart(&situation, true).unwrap(),
                false => undo(&situation, Some(1)).unwrap(),
            };
            let after = planned.report.effect.unwrap().after.unwrap();
            (after.in_use, after.replaced_now)
        };
        let replaced = |is_refused, is_restart, is_missing| replaced_by(&strategy, is_refused, is_restart, is_missing);
        assert_eq!(replaced(false, true, true), (Some(1), Some(2)));
        assert_eq!(replaced(true, true, true), (Some(1), Some(0)));
        assert_eq!(replaced(true, true, false), (Some(0), Some(2)));
        assert_eq!(replaced(false, false, true), (Some(1), Some(2)));
        assert_eq!(replaced(true, false, true), (Some(1), Some(2)));
        // A surge begins with a creation, even if every node has its pod.
        assert_eq!(replaced_by(&surge, false, true, false).1, Some(2));
        assert_eq!(replaced_by(&surge, true, true, false).1, Some(0));
        assert_eq!(replaced_by(&surge, true, false, false).1, Some(2));
    }

    /// The controller deletes the surge pods before it replaces others.
    #[test]
    fn surge_pods_that_are_deleted_take_up_no_budget() {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
        let starting = json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let world = world().daemon_set(json!({"spec": {"updateStrategy": strategy}}));
        let world = world.node("pair", json!({})).pod("agent-old", "pair", of_hash("hash1"));
        let world = world.unready_pod("agent-new", "pair", starting, json!({}));
        let snapshot = world.node("b", json!({})).pod("agent-b", "b", of_hash("hash1")).finish();
        let (max_unavailable, max_surge) = (Some(IntOrPercent::Int(1)), Some(IntOrPercent::Int(0)));
        let fields = SpecFields { max_unavailable, max_surge, ..SpecFields::default() };
        let request = SetRequest { fields, delete_surge_pods: true, force: true };
        let index = Index::new(&snapshot);
        let planned = set(&Situation::new(&index, &snapshot.daemon_sets[0]), &request).unwrap();
        let effect = planned.report.effect.unwrap();
        let after = effect.after.unwrap();
        assert_eq!((effect.surge_pods_deleted.len(), after.in_use, after.replaced_now), (1, Some(0), Some(1)));
        assert_eq!((effect.outdated, effect.not_replaced), (Some(2), Some(0)));
    }

    /// The old pod of a node is replaced when its new one becomes available, which is not the end of surge.
    #[test]
    fn less_min_ready_seconds_delete_no_surge_pods() {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
        let world = world()
            .daemon_set(json!({"spec": {"updateStrategy": strategy, "minReadySeconds": 3600}}))
            .node("pair", json!({}))
            .pod("agent-old", "pair", of_hash("hash1"))
            .pod("agent-new", "pair", json!({}));
        let fields = SpecFields { min_ready_seconds: Some(0), ..SpecFields::default() };
        assert_eq!(effect_of(world, fields).surge_pods_deleted, []);
    }

    #[test]
    fn a_lower_limit_deletes_the_oldest_revisions_that_no_pod_is_on() {
        let deleted = |limit, hash: &str| {
            let mut world = world();
            world.snapshot.controller_revisions.clear();
            for (number, hash) in [(1, "a"), (2, "b"), (3, "c"), (4, CURRENT)] {
                world = world.revision_of_image(hash, number, &format!("agent:{number}"));
            }
            let world = world
                .template(json!({"containers": [{"name": "agent", "image": "agent:4"}]}))
                .node("n0", json!({}))
                .pod("agent-0", "n0", of_hash(hash))
                .other_pod("other-0", "n0", of_hash("b"));
            let fields = SpecFields { revision_history_limit: Some(limit), ..SpecFields::default() };
            effect_of(world, fields).revisions_deleted
        };
        assert_eq!(deleted(1, CURRENT), Some(vec![1, 2]));
        assert_eq!(deleted(1, "a"), Some(vec![2, 3]));
        assert_eq!(deleted(0, "b"), Some(vec![1, 3]));
        assert_eq!(deleted(3, CURRENT), Some(vec![]));
    }
}
