//! Whether a rollout is done, progressing or stuck, and on what.
//!
//! The [`problems`], the [`eta`] and the [`way_out`] are derived from the [`situation`](super::situation) of a
//! DaemonSet; a [simulation](super::situation::simulation) of the changed DaemonSet checks the way out.

mod accept;
#[cfg(test)]
mod accept_model_test;
#[cfg(test)]
mod blame_test;
#[cfg(test)]
mod cases_test;
pub(crate) mod coverage;
mod eta;
#[cfg(test)]
mod facts_test;
#[cfg(test)]
mod fault_test;
pub(super) mod held;
#[cfg(test)]
mod in_common_test;
#[cfg(test)]
mod judgement_test;
#[cfg(test)]
mod kinds_test;
#[cfg(test)]
mod model_test;
mod node_map;
mod problems;
#[cfg(test)]
mod updates_test;
mod way_out;

use std::collections::BTreeMap;

use crate::coverage::gaps;
use crate::coverage::incidents::Incidents;
use crate::coverage::options::Options;
use crate::facts::Current;
use crate::facts::index::Index;
use crate::facts::revisions::Revision;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::report::acceptance::Acceptance;
use crate::report::coverage::Counters;
use crate::report::incident::tell_once;
use crate::report::rollout_status::{
    BlockedBy, NextActions, OutdatedNodes, RequestedRevision, RolledOutRevision, RolloutStatus, RolloutStatusReport,
    Verdict,
};
use crate::rollout::history::changes_between;
use crate::rollout::new_pods::may_be_refused;
use crate::rollout::situation::Situation;
use crate::rollout::situation::judgement::Judgement;
use crate::rollout::situation::next_step::NextStep;
use crate::rollout::situation::unchanged::not_read;
use accept::Acceptances;
use coverage::is_explained;

/// The expected templates of DaemonSets, by namespace and name.
pub type Templates = BTreeMap<(String, String), Template>;

/// The parameters of a status.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'q> {
    /// The requested revision.
    pub requested: Option<i64>,
    /// The label by whose value a map groups the nodes; without it there is no map.
    pub map_label: Option<&'q str>,
    /// The accepted faults; if empty, each DaemonSet's annotation applies.
    pub accept: &'q [Acceptance],
    /// The templates in manifests; if given, no other DaemonSet is included.
    pub templates: Option<&'q Templates>,
}

/// Returns the rollout status of each DaemonSet in the snapshot; `requested` is the requested revision.
pub fn rollout_status(snapshot: &Snapshot, requested: Option<i64>) -> RolloutStatusReport {
    answer(snapshot, &Question { requested, ..Question::default() })
}

/// Returns the rollout status of each DaemonSet in the snapshot.
pub fn answer(snapshot: &Snapshot, question: &Question<'_>) -> RolloutStatusReport {
    let index = Index::new(snapshot);
    let mut incidents = Incidents::default();
    let mut rollouts: Vec<RolloutStatus> = index
        .daemon_sets_of_any_flavor()
        .into_iter()
        .filter(|daemon_set| question.templates.is_none_or(|templates| templates.contains_key(&key(daemon_set))))
        .map(|daemon_set| status(&index, daemon_set, question, &mut incidents))
        .collect();
    // The sort is stable: equal ones stay in the order of namespace and name.
    rollouts.sort_by_key(|rollout| rollout.severity);
    let incidents = incidents.finish();
    rollouts.iter_mut().for_each(|it| tell_once(&incidents, &it.namespace, &it.name, &mut it.lost_pods));
    RolloutStatusReport { now: snapshot.now, incomplete: gaps::incomplete(snapshot), daemon_sets: rollouts, incidents }
}

fn key(daemon_set: &DaemonSet) -> (String, String) {
    (daemon_set.metadata.namespace.clone(), daemon_set.metadata.name.clone())
}

fn status<'a>(
    index: &'a Index<'a>,
    daemon_set: &'a DaemonSet,
    question: &Question<'_>,
    incidents: &mut Incidents,
) -> RolloutStatus {
    let Question { requested, map_label, accept, templates } = *question;
    let situation = Situation::new(index, daemon_set);
    let judgement = Judgement::of(&situation);
    let Judgement { step, faults, .. } = &judgement;
    let verdict = judgement.verdict;
    incidents.add(&situation, &situation.coverage, &Options::default(), judgement.in_rollout);
    let outdated = outdated(&situation);
    let in_place =
        matches!(&situation.coverage.strategy, UpdateStrategy::RollingUpdate(rolling) if rolling.is_in_place());
    let is_known = verdict != Verdict::Unknown;
    let replaces = verdict != Verdict::Deleting && is_known && situation.terminating_namespace().is_none();
    let problems = match verdict {
        Verdict::Deleting => Vec::new(),
        Verdict::Unknown => problems::problems_of_pods(&situation),
        _ => problems::problems(&situation, step, faults),
    };
    let acceptances = Acceptances::of(&situation, accept);
    let mut removed_nodes = situation.coverage.removed_nodes.clone();
    if let Some(removed) = &mut removed_nodes {
        removed.accepted = acceptances.fewer_nodes();
    }
    let hold = held::hold(&situation);
    let (status, severity) = judgement.severity(&situation.coverage.problems_by_code(), hold.as_ref());
    RolloutStatus {
        api_version: daemon_set.api_version().to_owned(),
        namespace: daemon_set.metadata.namespace.clone(),
        name: daemon_set.metadata.name.clone(),
        status,
        rollout_complete: verdict == Verdict::Complete,
        verdict,
        blocked_by: judgement.blocked_by,
        strategy: situation.coverage.strategy.clone(),
        hold,
        revision: revision(&situation, &outdated),
        requested: requested.map(|number| {
            let is_current = situation.current.known().is_some_and(|revision| revision.revision == number);
            let current = (!matches!(situation.current, Current::Unread)).then_some(is_current);
            RequestedRevision { number, current }
        }),
        matches_manifest: templates
            .and_then(|templates| templates.get(&key(daemon_set)))
            .map(|template| template.same_meaning(&daemon_set.template())),
        removed_nodes,
        lost_pods: situation.coverage.lost_pods.clone(),
        counts: situation.coverage.counts.clone(),
        budget: step.update().filter(|_| replaces).and_then(|update| problems::budget(&situation, update)),
        faults: verdict.knows_what_is_missing().then(|| faults.counts(&situation)),
        accepted: acceptances.judge(&situation, verdict, faults),
        restarting: situation.coverage.restarting.clone(),
        concerns: situation.coverage.concerns.clone(),
        lacks: match judgement.blocked_by {
            Some(BlockedBy::NoProgress) => not_read(&situation),
            _ => (!is_known).then(|| lacks(&situation)).flatten().map(str::to_owned),
        },
        creation_refused: situation.creation_is_refused(),
        creation_may_be_refused: may_be_refused(&situation),
        creation_accepted: situation.is_accepted().filter(|_| situation.creation_is_refused()),
        controller_silent_since: situation.controller_silent_since(),
        stalled_since: situation.stalled_since(step).filter(|_| replaces),
        unchanged_since: situation.unchanged_since().filter(|_| judgement.blocked_by == Some(BlockedBy::NoProgress)),
        replaced_at_once: problems::replaced_at_once(&situation, step).filter(|_| replaces),
        retained: step
            .update()
            .map(|update| update.retained.iter().map(|&node| node.to_owned()).collect())
            .unwrap_or_default(),
        next: if replaces { next(&situation, step, in_place) } else { NextActions::default() },
        eta: (verdict == Verdict::Progressing).then(|| eta::eta(&situation, step)).flatten(),
        way_out: way_out::way_out(&situation, &judgement),
        recent_changes: Vec::new(),
        stale_config: None,
        // Counters are not compared if nodes or pods were not read.
        counters: match is_known {
            true => situation.coverage.counters.clone(),
            false => Counters { desired: situation.coverage.counters.desired, ..Counters::default() },
        },
        counted_by_generation: situation.counted_by_generation().into_iter().map(|(node, _)| node.to_owned()).collect(),
        other_problems: match verdict {
            Verdict::Deleting | Verdict::Unknown => Vec::new(),
            _ => problems::other_problems(&situation, &problems),
        },
        map: map_label.filter(|_| situation.is_known).map(|label| node_map::node_map(&situation, label)),
        common_causes: match is_known {
            true => {
                let causes = situation.coverage.common_causes.iter().filter(|cause| cause.revision.is_none());
                causes.filter(|cause| !is_explained(cause, judgement.suspect.as_ref())).cloned().collect()
            }
            false => Vec::new(),
        },
        problems,
        suspect: judgement.suspect,
        outdated,
        severity,
    }
}

/// Returns what is missing if a rollout is unknown although its nodes and pods were read.
fn lacks(situation: &Situation<'_>) -> Option<&'static str> {
    (situation.index.knows(Kind::Nodes, "") && situation.pods_known).then(|| match situation.current {
        _ if situation.index.nodes.is_empty() => "no nodes were found, although pods are bound to some",
        Current::NotCreatedYet | Current::Known(_) => "the template generations of its pods are not known",
        Current::Unread if situation.daemon_set.template_generation().is_none() => {
            "neither a ControllerRevision nor a template generation of it was found"
        }
        Current::Unread => {
            "no ControllerRevision of it was found, and the template generations of its pods do not tell"
        }
    })
}

/// Returns the current revision, and which one it replaces on the nodes: that of most old pods. A rollout before it that was overtaken may
/// have left fewer: that one is what `history` and `changes` compare with.
fn revision(situation: &Situation<'_>, outdated: &[OutdatedNodes]) -> Option<RolledOutRevision> {
    let current = situation.current.known()?;
    let most = outdated.iter().max_by_key(|old| old.nodes.len());
    // Once no old pod is left, the number that was replaced still explains why none is available.
    let is_missed =
        || most.is_none() && situation.eligible().any(|node| !node.is_done) && !situation.has_worked_for_long();
    // A revision that was rolled back from is the newest of the others.
    let mut before = situation.revisions.others().map(|(revision, _)| revision.number());
    let replaced = || before.find(|number| *number < current.revision).filter(|_| is_missed());
    let replaces = most.and_then(|old| old.revision).or_else(replaced);
    let changes = replaces.map(|replaces| changes_between(&situation.revisions, replaces, current.revision));
    Some(RolledOutRevision {
        number: current.revision,
        hash: current.hash().to_owned(),
        rolled_out_at: situation.revisions.rolled_out_at(current),
        replaces,
        changes: changes.unwrap_or_default(),
    })
}

/// Returns the nodes with old pods, by revision, the newest first.
fn outdated(situation: &Situation<'_>) -> Vec<OutdatedNodes> {
    let mut by_revision: BTreeMap<Option<i64>, Vec<String>> = BTreeMap::new();
    for (node, old) in situation.outdated() {
        let revision = situation.revisions.of_pod(old).map(Revision::number);
        by_revision.entry(revision).or_default().push(node.name.to_owned());
    }
    by_revision.into_iter().rev().map(|(revision, nodes)| OutdatedNodes { revision, nodes }).collect()
}

fn next(situation: &Situation<'_>, step: &NextStep<'_>, in_place: bool) -> NextActions {
    let names = |nodes: &[&str]| -> Vec<String> { nodes.iter().map(|node| (*node).to_owned()).collect() };
    let pods = |pods: &[&Pod]| -> Vec<String> { pods.iter().map(|pod| pod.metadata.name.clone()).collect() };
    let candidates = step.update().map(|update| {
        let candidates = update.candidates.iter().chain(&update.not_eligible);
        candidates.map(|candidate| candidate.node.to_owned()).collect()
    });
    let candidates: Vec<String> = candidates.unwrap_or_default();
    let is_left = |name: &&String| situation.node(name).is_some_and(|node| !node.eligible);
    let update = step.update().filter(|_| step.reaches_update());
    NextActions {
        create_on: names(update.map_or(&step.upkeep.create, |update| &update.create)),
        delete: pods(update.map_or(&step.upkeep.delete, |update| &update.delete)),
        replace: update.map_or(0, |update| update.replaced_now + update.not_eligible_deleted_now),
        not_recreated_on: candidates.iter().filter(is_left).cloned().collect(),
        candidates,
        in_place,
    }
}
