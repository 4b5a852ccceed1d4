//! What holds a rollout up: the reasons of coverage, and what uses up the budget.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::coverage::{creation_refusal, failed_again_since};
use crate::model::daemon_set::UpdateStrategy;
use crate::model::int_or_percent::int;
use crate::model::pod::Pod;
use crate::report::coverage::{Affected, ReasonGroup};
use crate::report::fix::Fix;
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::{Budget, BudgetField, Fault};
use crate::rollout::situation::fault::Faults;
use crate::rollout::situation::next_step::NextStep;
use crate::rollout::situation::{RolloutNode, Situation};
use crate::scheduling::rolling_update::{UpdateStep, limits};

/// Returns the coverage reasons that matter for the rollout: those of eligible nodes that are not done, and of others
/// that count against the budget or stop it.
///
/// Nodes with the same reason but different faults are separate.
pub(super) fn problems(situation: &Situation<'_>, step: &NextStep<'_>, faults: &Faults<'_>) -> Vec<ReasonGroup> {
    let mut relevant: HashSet<&str> =
        step.update().map(|update| update.used_by.iter().copied().collect()).unwrap_or_default();
    relevant.extend(step.node_not_found());
    let is_relevant = |name: &&String| {
        relevant.contains(name.as_str()) || situation.node(name).is_some_and(|node| node.eligible && !node.is_done)
    };
    let mut problems: Vec<ReasonGroup> = Vec::new();
    let refused = situation.refused_since();
    for group in &situation.coverage.problems {
        let mut by_fault: BTreeMap<Option<Fault>, Vec<&RolloutNode<'_>>> = BTreeMap::new();
        for node in group.nodes.iter().filter(is_relevant).filter_map(|name| situation.node(name)) {
            by_fault.entry(faults.of(node.name)).or_default().push(node);
        }
        let is_split = by_fault.len() > 1;
        for (fault, nodes) in by_fault.into_iter().rev() {
            // The command is about the first node of the group, which may be in another part.
            let is_first = || group.nodes.first().is_some_and(|first| nodes.iter().any(|node| node.name == *first));
            let command = group.fix.command.clone().filter(|_| !is_split || is_first());
            let rolled_out_at = situation.rollout_began_at();
            let before = nodes.iter().map(|node| Some(node.since? < rolled_out_at?)).collect::<Option<Vec<bool>>>();
            let exact = nodes.iter().filter_map(|node| node.since).min();
            let at_latest = nodes.iter().filter_map(|node| lacks_pod_since(situation, node, refused)).min();
            let is_earlier = at_latest.is_some_and(|at| exact.is_none_or(|exact| at < exact));
            problems.push(ReasonGroup {
                code: group.code,
                count: nodes.len(),
                nodes: nodes.iter().map(|node| node.name.to_owned()).collect(),
                message: group.message.clone(),
                refused_by: group.refused_by.clone(),
                missing: group.missing.clone(),
                fix: Fix { advice: group.fix.advice.clone(), command },
                since: if is_earlier { at_latest } else { exact },
                since_at_latest: is_earlier,
                before_rollout: before.map(|before| before.into_iter().all(|before| before)),
                on_current_revision: Some(nodes.iter().filter(|node| node.updated.is_some()).count()),
                fault,
                passing: nodes.iter().all(|node| situation.recovers(node) && step.node_not_found() != Some(node.name)),
            });
        }
    }
    problems.extend(refusal_of_surge_pods(situation, step, faults, &problems));
    problems.extend(ready_until_the_end(situation));
    // The sort is stable: coverage has the groups with the most nodes first.
    problems.sort_by_key(|problem| problem.passing);
    problems
}

/// Returns the latest time by which a node is known to have lost its pod, if its pods are refused, or fail one after the other: what was
/// refused, or has failed, before the rollout may have been another pod.
fn lacks_pod_since(situation: &Situation<'_>, node: &RolloutNode<'_>, refused: Option<Timestamp>) -> Option<Timestamp> {
    let joined = node.object?.metadata.creation_timestamp.get();
    let has_pod =
        node.updated.is_some() || node.old.is_some() || !node.terminating.is_empty() || !node.failed.is_empty();
    let failed = failed_again_since(situation, node.name).filter(|_| !node.has_available_pod());
    // Until then, it may have had one that the controller has deleted.
    let deleted = || situation.last_event("SuccessfulDelete");
    let since = failed.or_else(|| Some(refused.filter(|_| !has_pod)?.max(deleted().unwrap_or_default())))?;
    [Some(since), joined, situation.rollout_began_at()].into_iter().max().flatten()
}

/// Returns the coverage reasons if it is not known which nodes matter for the rollout: its pods are reliable, whatever else
/// could not be read; but it is unknown whether their nodes exist.
pub(super) fn problems_of_pods(situation: &Situation<'_>) -> Vec<ReasonGroup> {
    let is_known = |group: &&ReasonGroup| group.code != ReasonCode::OrphanedTarget;
    let groups = situation.coverage.problems.iter().filter(is_known).map(|group| {
        let nodes = || group.nodes.iter().filter_map(|name| situation.node(name));
        ReasonGroup {
            since: nodes().filter_map(|node| node.since).min(),
            on_current_revision: Some(nodes().filter(|node| node.updated.is_some()).count()),
            ..group.clone()
        }
    });
    groups.collect()
}

/// Returns why the API server refuses the surge pods: coverage has no reason for a node whose old pod is available.
fn refusal_of_surge_pods(
    situation: &Situation<'_>,
    step: &NextStep<'_>,
    faults: &Faults<'_>,
    known: &[ReasonGroup],
) -> Option<ReasonGroup> {
    let update = step.update().filter(|update| update.surges && situation.creation_is_refused())?;
    let refusal = creation_refusal(situation)?;
    let candidates = update.candidates.iter().map(|candidate| candidate.node);
    let nodes: Vec<String> = update.create.iter().copied().chain(candidates).map(str::to_owned).collect();
    if nodes.is_empty() || known.iter().any(|problem| problem.code == refusal.code) {
        return None;
    }
    Some(ReasonGroup { on_current_revision: Some(0), fault: faults.of_refusal, ..refusal.group(nodes, 0) })
}

/// Returns the pods that the rollout waits for until they are gone, and that are ready until then: coverage has no reason for their nodes.
fn ready_until_the_end(situation: &Situation<'_>) -> Option<ReasonGroup> {
    let waits = |node: &&RolloutNode<'_>| node.eligible && !node.is_done && node.diagnosis.is_none();
    let mut ending: Vec<(&str, &Pod, Timestamp)> = Vec::new();
    for node in situation.nodes.iter().filter(waits) {
        let ends = |pod: &&Pod| pod.metadata.deletion_timestamp.get();
        let last = node.terminating.iter().copied().max_by_key(ends);
        ending.extend(last.and_then(|pod| Some((node.name, pod, ends(&pod)?))));
    }
    let (node, pod, ends) = *ending.iter().max_by_key(|(.., ends)| *ends)?;
    let name = &pod.metadata.name;
    let last = if ending.len() == 1 { format!("pod {name}") } else { format!("the last one, pod {name} on {node},") };
    Some(ReasonGroup {
        code: ReasonCode::Terminating,
        count: ending.len(),
        nodes: ending.iter().map(|(node, ..)| (*node).to_owned()).collect(),
        message: format!("{last} is terminating until {} at the latest", ends.strftime("%Y-%m-%d %H:%M:%S UTC")),
        refused_by: None,
        missing: None,
        fix: "wait; the pod is replaced once it is deleted".into(),
        since: ending.iter().filter_map(|(_, pod, _)| pod.metadata.deleted_at()).min(),
        since_at_latest: false,
        before_rollout: None,
        on_current_revision: Some(0),
        fault: None,
        passing: true,
    })
}

/// Returns the coverage reasons of nodes that are not among the problems of the rollout, or are down without a pod.
pub(super) fn other_problems(situation: &Situation<'_>, problems: &[ReasonGroup]) -> Vec<Affected> {
    let held_up: HashSet<&str> = problems.iter().flat_map(|problem| &problem.nodes).map(String::as_str).collect();
    let coverage = &situation.coverage;
    let others = coverage.problems.iter().chain(coverage.excluded_by_down_nodes()).map(|group| {
        let nodes: Vec<String> = group.nodes.iter().filter(|node| !held_up.contains(node.as_str())).cloned().collect();
        let affected = Affected::new(group.code, nodes.len(), group.passing);
        Affected { nodes, ..affected }
    });
    Affected::by_code(others.filter(|other| other.count > 0))
}

/// Returns the budget of a rolling update, and what uses it up.
pub(super) fn budget(situation: &Situation<'_>, update: &UpdateStep<'_>) -> Option<Budget> {
    let UpdateStrategy::RollingUpdate(rolling) = &situation.daemon_set.spec.update_strategy else { return None };
    let by = Affected::by_code(update.used_by.iter().map(|&name| {
        let node = situation.node(name);
        let code = node.map_or(ReasonCode::Unexplained, code_of);
        let is_passing = node.is_some_and(|node| situation.recovers(node));
        Affected { nodes: vec![name.to_owned()], ..Affected::new(code, 1, is_passing) }
    }));
    let (field, value) = match update.surges {
        true => (BudgetField::MaxSurge, rolling.max_surge),
        false => (BudgetField::MaxUnavailable, rolling.max_unavailable),
    };
    Some(Budget { field, value, allowed: update.allowed, used: update.used_by.len(), by })
}

/// Returns the reason that a node counts against the budget. Coverage has none if the old pod is available while the
/// new one next to it is starting, or while it is terminating.
fn code_of(node: &RolloutNode<'_>) -> ReasonCode {
    node.code().unwrap_or_else(|| match node.updated {
        _ if !node.terminating.is_empty() => ReasonCode::Terminating,
        Some(pod) if pod.is_ready() => ReasonCode::NotYetAvailable,
        _ => ReasonCode::ContainersStarting,
    })
}

/// Returns how many old pods are unavailable, if there are more than may be replaced at a time: the rolling update
/// replaces them all at once.
pub(super) fn replaced_at_once(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<usize> {
    let desired = situation.eligible().count();
    let update = step.update()?;
    // Until the controller has observed the spec, every pod may turn out to be old.
    let is_observed = situation.daemon_set.is_observed();
    let is_old = |node: &&RolloutNode<'_>| {
        (node.old.is_some() || (!is_observed && node.updated.is_some())) && !node.has_available_pod()
    };
    let unavailable =
        situation.nodes.iter().filter(is_old).filter(|node| !update.retained.contains(&node.name)).count();
    let budget = limits(situation.daemon_set, int(desired));
    let allowed = update.allowed.max(budget.max_unavailable);
    (int(unavailable) > allowed).then_some(unavailable)
}
