//! Whether to roll back, and to which revision: the one place that suggests it, and that says why not.

use super::situation::fault::{gets_evicted, had_room_before_evictions, may_evict_itself, takes_nodes_down};
use super::situation::suspect::{failing, suspect};
use super::situation::{RolloutNode, Situation, simulation};
use crate::facts::index::Index;
use crate::facts::revisions::{BRIEF, Doubt, name_of};
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::snapshot::Snapshot;
use crate::report::coverage::{CoverageReport, DaemonSetCoverage};
use crate::report::fix::{Command, Fix};
use crate::report::reason::ReasonCode;
use crate::report::rollout_status::SuspectKind;

/// A revision to roll back to, which the rules say helps.
pub(in crate::rollout) struct Rollback {
    /// The revision.
    pub(in crate::rollout) number: i64,
    /// What it is for.
    pub(in crate::rollout) advice: &'static str,
    /// How.
    pub(in crate::rollout) command: Command,
}

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

/// Returns the revision that `undo` returns to by default if that helps: it is tried on the rules, in a simulation of the controller.
pub(in crate::rollout) fn rollback(situation: &Situation<'_>) -> Result<Rollback, NoRollback> {
    let daemon_set = situation.daemon_set;
    let (target, template) = situation.revisions.target().ok_or(NoRollback::NoTarget)?;
    if situation.has_lasted() {
        return Err(NoRollback::HasLasted);
    }
    match situation.revisions.doubt(target) {
        Some(Doubt::Failing(_)) => return Err(NoRollback::NeverWorked),
        // Where the current one has no room at all, nothing can be lost.
        Some(Doubt::ReplacedAfter(..BRIEF)) if !only_lacks_room(situation) => return Err(NoRollback::NeverWorked),
        _ => {}
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
        false if failing(situation).is_empty() => return Err(NoRollback::NotTheRevision),
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
    if !helps && !simulation::recovers(situation, &changed, target.object.hash(), stays) {
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
    let number = target.number();
    Ok(Rollback { number, advice, command: name_of(daemon_set).undo(number) })
}

/// Adds to a report on coverage where to roll back, and takes back what it says of a revision that is not at fault.
pub fn add_rollbacks(snapshot: &Snapshot, report: &mut CoverageReport) {
    let is_of_current = |coverage: &DaemonSetCoverage| {
        let mut revisions = coverage.common_causes.iter().filter_map(|cause| cause.revision.as_ref());
        revisions.any(|revision| revision.current) || coverage.groups.iter().any(|group| cannot_pull(group.code))
    };
    if !report.daemon_sets.iter().any(is_of_current) {
        return;
    }
    let index = Index::new(snapshot);
    for coverage in report.daemon_sets.iter_mut().filter(|coverage| is_of_current(coverage)) {
        let is_it =
            |one: &&DaemonSet| one.metadata.name == coverage.name && one.metadata.namespace == coverage.namespace;
        if let Some(daemon_set) = index.daemon_sets().into_iter().find(is_it) {
            add_rollback(&Situation::new(&index, daemon_set), coverage);
        }
    }
}

fn cannot_pull(code: ReasonCode) -> bool {
    code == ReasonCode::ImagePullFailed
}

fn add_rollback(situation: &Situation<'_>, coverage: &mut DaemonSetCoverage) {
    let found = rollback(situation);
    if found.as_ref().err() == Some(&NoRollback::NotTheRevision) {
        coverage.common_causes.retain(|cause| cause.revision.as_ref().is_none_or(|revision| !revision.current));
    }
    let Ok(Rollback { number, command, .. }) = found else { return };
    for cause in &mut coverage.common_causes {
        if cause.revision.as_ref().is_some_and(|revision| revision.current) {
            cause.fixes.push(Fix::new(format!("roll back to revision {number}"), command.clone()));
        }
    }
    let reasons = coverage.nodes.iter_mut().flat_map(|node| &mut node.reasons);
    let of_nodes = reasons.filter(|reason| cannot_pull(reason.code)).map(|reason| &mut reason.fix);
    let of_groups = coverage.groups.iter_mut().filter(|group| cannot_pull(group.code)).map(|group| &mut group.fix);
    for fix in of_nodes.chain(of_groups) {
        let advice = format!("{}, or roll back to revision {number}", fix.advice);
        *fix = Fix::new(advice, command.clone());
    }
}
