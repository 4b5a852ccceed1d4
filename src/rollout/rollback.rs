//! Whether to roll back, and to which revision: the only place that suggests it, or says why not.

use std::collections::BTreeSet;

use super::situation::fault::{gets_evicted, had_room_before_evictions, may_evict_itself, takes_nodes_down};
use super::situation::simulation::{Advance, advances};
use super::situation::suspect::{failed_before, failing, suspect};
use super::situation::{RolloutNode, Situation};
use crate::coverage::needs::in_dump;
use crate::facts::Facts;
use crate::facts::revisions::{BRIEF, Doubt, name_of};
use crate::model::daemon_set::UpdateStrategy;
use crate::model::hold::Hold;
use crate::model::template::Template;
use crate::report::fix::Fix;
use crate::report::rollout_status::SuspectKind;

/// Why nobody is told to roll back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rollout) enum NoRollback {
    /// There is no revision to return to that can be read.
    NoTarget,
    /// The pods of the only other ones fail, too, or they were replaced so soon that likely none was ever available.
    NeverWorked,
    /// The current revision has worked for long: what has broken since breaks the pods of another one, too.
    HasLasted,
    /// Nothing that fails is about the revision: it is the node's, or the other revision has the same.
    NotTheRevision,
    /// Its pods would not start: something that they need does not exist.
    Lacks,
    /// The API server refuses the pods of the other revision, or is not known to take them.
    Refused,
    /// Whoever writes the DaemonSet takes the rollback back: the revision is to be changed there.
    Reverted,
    /// On the rules, no node would get a pod that is available.
    NoNodeRecovers,
}

/// Returns whether the current revision fails, by all that is known of its nodes.
pub(in crate::rollout) fn revision_fails(situation: &Situation<'_>) -> bool {
    suspect(situation).is_some_and(|suspect| suspect.what == SuspectKind::Revision)
        || takes_nodes_down(situation)
        || gets_evicted(situation)
}

/// Returns whether no pod of the current revision is available, for no other reason than that it finds no room where one of the
/// revision to return to does.
fn only_lacks_room(situation: &Situation<'_>) -> bool {
    let mut eligible = situation.eligible().peekable();
    eligible.peek().is_some() && eligible.all(|node| node.excess.is_some())
}

/// Returns what pods of a template need to start and what is known not to exist, such as a ConfigMap that was deleted with the last pod
/// that used it.
pub(in crate::rollout) fn lacks(facts: &Facts<'_>, hash: &str, template: &Template) -> Vec<String> {
    let (snapshot, daemon_set) = (facts.index.snapshot, facts.daemon_set);
    let asked = snapshot.admission(daemon_set, hash).map(|admission| admission.lacks.clone()).unwrap_or_default();
    let in_dump = in_dump(snapshot, &daemon_set.with_template(template), None, |_, _| false).missing;
    let missing: BTreeSet<(&str, String)> = asked.into_iter().chain(in_dump).collect();
    missing.into_iter().map(|(kind, name)| format!("{kind} {name}")).collect()
}

/// Returns what has to exist again before a rollback helps, if nothing else is in its way.
pub(in crate::rollout) fn to_restore(situation: &Situation<'_>) -> Option<Fix> {
    let (target, template) = situation.revisions.target().filter(|_| rollback(situation) == Err(NoRollback::Lacks))?;
    let lacks = lacks(situation, target.object.hash(), template).join(" and ");
    let namespace = &situation.daemon_set.metadata.namespace;
    let number = target.number();
    Some(
        format!(
            "pods of revision {number} would not start: create {lacks} in namespace {namespace} before rolling back"
        )
        .into(),
    )
}

/// Returns how to return to the revision that `undo` returns to by default if that helps: it is tried on the rules, in a simulation of the
/// controller.
pub(in crate::rollout) fn rollback(situation: &Situation<'_>) -> Result<Fix, NoRollback> {
    let daemon_set = situation.daemon_set;
    let (target, template) = situation.revisions.target().ok_or(NoRollback::NoTarget)?;
    if situation.only_restarts() {
        return Err(NoRollback::NotTheRevision);
    }
    if situation.has_lasted() {
        return Err(NoRollback::HasLasted);
    }
    match situation.revisions.doubt(target) {
        Some(Doubt::Failing(_)) => return Err(NoRollback::NeverWorked),
        // Where the current one has no room at all, nothing can be lost.
        Some(Doubt::ReplacedAfter(..BRIEF)) if !only_lacks_room(situation) => return Err(NoRollback::NeverWorked),
        _ => {}
    }
    if !lacks(situation, target.object.hash(), template).is_empty() {
        return Err(NoRollback::Lacks);
    }
    let is_admitted = situation.index.snapshot.is_admitted(daemon_set, target.object.hash());
    // Another revision helps only if pods fail for a reason that is not their node's, or are refused and its own are not. It
    // brings no node back, but takes down no more.
    let (takes_nodes_down, is_evicted) = (takes_nodes_down(situation), gets_evicted(situation));
    match situation.creation_is_refused() {
        _ if takes_nodes_down || is_evicted => {}
        true if situation.another_is_admitted() => {}
        true if is_admitted != Some(false) && revision_fails(situation) => {}
        true => return Err(NoRollback::Refused),
        false if failing(situation).is_empty() || failed_before(situation) => return Err(NoRollback::NotTheRevision),
        false => {}
    }
    if daemon_set.reverted_by().is_some() {
        return Err(NoRollback::Reverted);
    }
    let mut changed = daemon_set.with_template(template);
    // A revision of a dump may have a template that cannot be read.
    if !changed.template().same_meaning(template) {
        return Err(NoRollback::NoTarget);
    }
    if changed.spec.update_strategy == UpdateStrategy::OnDelete {
        // Pods are replaced only once the hold is left, or as they are deleted by hand.
        changed.spec.update_strategy = Hold::of(daemon_set).map(|hold| hold.original_strategy()).unwrap_or_default();
    }
    if let UpdateStrategy::RollingUpdate(rolling) = &mut changed.spec.update_strategy {
        // So is a paused Advanced DaemonSet.
        rolling.paused = false;
    }
    let is_of_eviction = |node: &RolloutNode<'_>| is_evicted && may_evict_itself(situation, node);
    let stays = |node: &RolloutNode<'_>| !node.may_be_the_revisions() && !is_of_eviction(node);
    // If none of the refused pods was ever created, every pod that is there is one of the target's, and nothing else has to be done.
    let is_none_created = situation.another_is_admitted() && situation.nodes.iter().all(|node| node.updated.is_none());
    let helps = takes_nodes_down || is_none_created;
    if !helps && !advances(situation, &changed, target.object.hash(), stays, Advance::Recovers) {
        return Err(NoRollback::NoNodeRecovers);
    }
    let advice = match takes_nodes_down {
        true => "to roll back, because nodes went down soon after they got this revision",
        false if is_evicted && had_room_before_evictions(situation) => {
            "to roll back, because pods of this revision were evicted from nodes that had room before"
        }
        false if is_evicted => "to roll back, because pods of this revision were evicted",
        false => "to roll back",
    };
    Ok(Fix::new(advice, name_of(daemon_set).undo(target.number())))
}
