//! Whether to roll back, and to which revision: the only place that suggests it, or says why not.

use std::collections::BTreeSet;

use super::situation::fault::{gets_evicted, had_room_before_evictions, may_evict_itself, takes_nodes_down};
use super::situation::simulation::{Advance, advances};
use super::situation::suspect::{
    failed_before, failing, may_have_failed_before, only_later_nodes_fail, only_new_nodes_fail, suspect,
};
use super::situation::{NoRollback, RolloutNode, Situation};
use crate::coverage::needs::in_dump;
use crate::coverage::{Diagnosis, Origin};
use crate::facts::Facts;
use crate::facts::revisions::{BRIEF, Doubt, Revision, name_of};
use crate::model::daemon_set::UpdateStrategy;
use crate::model::hold::Hold;
use crate::model::pod::{ContainerStatus, Pod};
use crate::model::template::Template;
use crate::model::template_parts::containers;
use crate::report::fix::{Command, Fix};
use crate::report::rollout_status::{SuspectConfiguration, SuspectKind};
use crate::report::stale_config::ConfigName;
use crate::report::{all, count};

/// Returns whether the current revision fails, based on everything known about its nodes.
pub(in crate::rollout) fn revision_fails(situation: &Situation<'_>) -> bool {
    suspect(situation).is_some_and(|suspect| suspect.what == SuspectKind::Revision)
        || takes_nodes_down(situation)
        || gets_evicted(situation)
}

/// Returns whether pods of the current revision fail, and none works.
fn works_nowhere(situation: &Situation<'_>) -> bool {
    !failing(situation).is_empty() && situation.working().next().is_none()
}

/// Returns whether what is replaced next is likely to fail, as most or all pods of the current revision do.
pub(in crate::rollout) fn spreads_failure(situation: &Situation<'_>) -> bool {
    situation.fails_widely() || revision_fails(situation) || works_nowhere(situation)
}

/// Returns whether no pod of the current revision is available, only because it does not fit where one of the revision
/// to roll back to does.
fn only_lacks_room(situation: &Situation<'_>) -> bool {
    let mut eligible = situation.eligible().peekable();
    eligible.peek().is_some() && eligible.all(|node| node.excess.is_some())
}

/// Returns the objects that pods of a template need to start and that are known not to exist, such as a ConfigMap that
/// was deleted with the last pod that used it.
pub(in crate::rollout) fn lacks(facts: &Facts<'_>, hash: &str, template: &Template) -> Vec<String> {
    let (snapshot, daemon_set) = (facts.index.snapshot, facts.daemon_set);
    let asked = snapshot.admission(daemon_set, hash).map(|admission| admission.lacks.clone()).unwrap_or_default();
    let in_dump = in_dump(snapshot, &daemon_set.with_template(template), None, |_, _| false).missing;
    let missing: BTreeSet<(&str, String)> = asked.into_iter().chain(in_dump).collect();
    missing.into_iter().map(|(kind, name)| format!("{kind} {name}")).collect()
}

/// Returns whether a new pod of the current revision may not be created, or would not start: the API server was asked, which may refuse
/// only users, or an object that it needs does not exist.
pub(in crate::rollout) fn may_not_exist(situation: &Situation<'_>) -> bool {
    let hash = situation.current_hash().unwrap_or_default();
    situation.is_accepted() == Some(false) || !lacks(situation, hash, &situation.daemon_set.template()).is_empty()
}

/// Returns the container that fails on every node where a pod of the current revision does, if admission has added it: no revision of the
/// template has it, so going back does not help, unless labels or annotations decide whether it is added.
pub(in crate::rollout) fn failing_added_container<'a>(situation: &Situation<'a>) -> Option<&'a str> {
    if !is_admitted_alike(situation) {
        return None;
    }
    let templates = situation.revisions.all.iter().map(|revision| revision.template.as_ref().ok());
    let templates: Vec<&Template> = templates.chain([Some(&situation.revisions.live)]).collect::<Option<_>>()?;
    let own = templates.iter().flat_map(|template| containers(template.value()));
    let is_added = |name: &str| !own.clone().any(|container| container["name"] == name);
    let fails = |status: &&ContainerStatus| {
        let ended = [&status.state, &status.last_state].into_iter().find_map(|state| state.terminated.as_ref());
        !status.ready
            && (ended.is_some_and(|end| end.exit_code != 0)
                || !status.is_being_created() && status.state.waiting.is_some())
    };
    let failing = situation.eligible().filter(|node| node.is_on_current() && !situation.recovers(node));
    let names = failing.map(|node| {
        let mut names = node.updated?.container_statuses().filter(fails).map(|status| status.name.as_str());
        let first = names.next().filter(|name| is_added(name))?;
        names.all(is_added).then_some(first)
    });
    names.collect::<Option<Vec<&str>>>()?.first().copied()
}

/// Returns on how many nodes pods of the current revision fail, if all do because of what admission has made of them, unless labels or
/// annotations decide that: it makes the same of another revision.
pub(in crate::rollout) fn failing_by_admission(situation: &Situation<'_>) -> Option<usize> {
    let failing = situation.eligible().filter(|node| node.is_on_current() && !node.updated_is_available);
    let failing: Vec<_> = failing.filter(|node| !situation.recovers(node)).collect();
    let is_of_admission = |node: &&RolloutNode<'_>| node.origin() == Some(&Origin::Admission);
    (!failing.is_empty() && failing.iter().all(is_of_admission) && is_admitted_alike(situation))
        .then_some(failing.len())
}

/// Returns whether admission finds the same in pods of the revision to roll back to, as far as it does not look at their containers.
fn is_admitted_alike(situation: &Situation<'_>) -> bool {
    let of_admission = |template: &Template| {
        (template.normal()["metadata"].clone(), template.value()["spec"]["serviceAccountName"].clone())
    };
    let target = situation.revisions.target();
    target.is_some_and(|(_, target)| of_admission(target) == of_admission(&situation.revisions.live))
}

/// Returns what must be restored before a rollback helps, if that is the only obstacle.
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

/// Returns how to roll back to the default target of `undo`, if that helps, which is tried in a simulation of the controller.
pub(in crate::rollout) fn rollback(situation: &Situation<'_>) -> Result<Fix, NoRollback> {
    situation.known.rollback.get_or_init(|| find_rollback(situation)).clone()
}

fn find_rollback(situation: &Situation<'_>) -> Result<Fix, NoRollback> {
    let daemon_set = situation.daemon_set;
    let (target, template) = situation.revisions.target().ok_or(NoRollback::NoTarget)?;
    if situation.only_restarts() || failing_added_container(situation).is_some() {
        return Err(NoRollback::NotTheRevision);
    }
    if situation.has_worked_for_long() {
        return Err(NoRollback::HasLasted);
    }
    let suspect = suspect(situation);
    if suspect.as_ref().is_some_and(|suspect| suspect.what == SuspectKind::Configuration) {
        return Err(NoRollback::NotTheRevision);
    }
    match situation.revisions.doubt(target) {
        Some(Doubt::Failing(_)) => return Err(NoRollback::NeverWorked),
        // If the current one does not fit anywhere, nothing can be lost.
        Some(Doubt::ReplacedAfter(..BRIEF)) if !only_lacks_room(situation) => return Err(NoRollback::NeverWorked),
        _ => {}
    }
    if !lacks(situation, target.object.hash(), template).is_empty() {
        return Err(NoRollback::Lacks);
    }
    let is_admitted = situation.index.snapshot.is_admitted(daemon_set, target.object.hash());
    // Another revision helps only if pods fail for a reason other than their node, or are refused while its own are
    // not. It does not repair nodes, but takes down no more.
    let (takes_nodes_down, is_evicted) = (takes_nodes_down(situation), gets_evicted(situation));
    match situation.creation_is_refused() {
        _ if takes_nodes_down || is_evicted => {}
        true if situation.another_is_admitted() => {}
        true if is_admitted != Some(false) && revision_fails(situation) => {}
        true => return Err(NoRollback::Refused),
        false if failing(situation).is_empty() || failed_before(situation) => return Err(NoRollback::NotTheRevision),
        // Of a revision that works nowhere, a rollback keeps the other nodes, and none that joined later has failed with the target.
        false
            if only_new_nodes_fail(situation)
                && !(works_nowhere(situation) && situation.fails_widely() && only_later_nodes_fail(situation)) =>
        {
            return Err(NoRollback::NotTheRevision);
        }
        false => {}
    }
    let mut changed = daemon_set.with_template(template);
    // A revision in a dump may have an unreadable template.
    if !changed.template().same_meaning(template) {
        return Err(NoRollback::NoTarget);
    }
    if changed.spec.update_strategy == UpdateStrategy::OnDelete {
        // Pods are replaced only once the hold ends, or when they are deleted by hand.
        changed.spec.update_strategy = Hold::of(daemon_set).map(|hold| hold.original_strategy()).unwrap_or_default();
    }
    if let UpdateStrategy::RollingUpdate(rolling) = &mut changed.spec.update_strategy {
        // The same applies to a paused Advanced DaemonSet.
        rolling.paused = false;
    }
    let is_of_eviction = |node: &RolloutNode<'_>| is_evicted && may_evict_itself(situation, node);
    let stays = |node: &RolloutNode<'_>| !node.may_be_the_revisions() && !is_of_eviction(node);
    // If none of the refused pods was ever created, all existing pods belong to the target, and nothing else has to be done.
    let is_none_created = situation.another_is_admitted() && situation.nodes.iter().all(|node| node.updated.is_none());
    // Where every node is down, no rollback spares one.
    let spares_nodes = takes_nodes_down && situation.eligible().any(RolloutNode::is_ready);
    let helps = spares_nodes || is_none_created;
    if !helps && !advances(situation, &changed, target.object.hash(), stays, Advance::Recovers) {
        return Err(NoRollback::NoNodeRecovers);
    }
    if daemon_set.reverted_by().is_some() {
        return Err(NoRollback::Reverted);
    }
    let advice = match takes_nodes_down {
        true => "to roll back, because nodes went down soon after they got this revision",
        false if is_evicted && had_room_before_evictions(situation) => {
            "to roll back, because pods of this revision were evicted from nodes that had room before"
        }
        false if is_evicted => "to roll back, because pods of this revision were evicted",
        false if only_later_nodes_fail(situation) => {
            "to roll back, unless the nodes are at fault: all that fail joined after the rollout"
        }
        false if suspect.is_none() && may_have_failed_before(situation) => {
            "to roll back, unless pods of the older revision were crashing for the same reason"
        }
        // As many prove that it works as that it does not.
        false if suspect.is_none() && situation.working().next().is_some() => {
            "to roll back, unless the nodes that fail are at fault: it works on others"
        }
        false => "to roll back",
    };
    let advice = match suspect.and_then(|suspect| suspect.configuration) {
        Some(SuspectConfiguration { object: ConfigName { kind, name }, .. }) => {
            format!("{advice}, which leaves {kind} {name} as it is")
        }
        None => advice.to_owned(),
    };
    let name = name_of(daemon_set);
    // It works, but somebody had a reason to leave it that the cluster does not tell.
    let left = situation.revisions.others().map(|(revision, _)| revision);
    let left = left.filter(|it| it.available > target.available && it.number() != target.number());
    let left = left.filter(|it| situation.revisions.was_rolled_back(it));
    let advice = match left.max_by_key(|revision| revision.available) {
        Some(left) => format!(
            "{advice} (revision {} is available on {}, but was rolled back before)",
            left.number(),
            count(left.available, "node")
        ),
        None => advice,
    };
    let kept = held_back(situation, target);
    let is_moved = |node: &RolloutNode<'_>| node.updated_is_available;
    if kept == 0 || situation.eligible().any(is_moved) {
        return Ok(Fix::new(advice, name.undo(target.number())));
    }
    // All nodes would get what only some were meant to have: a stage replaces the pods that are not available first.
    let stage = Command::kubectl(&["ds", "partition"]).namespace(&name.namespace);
    let stage = stage.flag("--to-revision", target.number().to_string()).name(name.short()).name(kept.to_string());
    Ok(Fix::new(advice, stage))
}

/// Returns how to roll back if the nodes were not read, but the pods tell enough: all pods of the current revision fail, on several
/// nodes and not because of one, and those of another revision are available on more nodes than that.
pub(in crate::rollout) fn rollback_by_pods(situation: &Situation<'_>) -> Option<Fix> {
    let current = situation.current.known()?;
    let daemon_set = situation.daemon_set;
    if situation.index.knows_some_nodes() || Hold::of(daemon_set).is_some() || daemon_set.reverted_by().is_some() {
        return None;
    }
    let fails = |node: &RolloutNode<'_>| {
        let is_of_pod = node.diagnosis.as_ref().is_some_and(Diagnosis::can_be_template);
        !node.updated_is_available && is_of_pod && !situation.recovers(node)
    };
    let on_current: Vec<_> = situation.nodes.iter().filter(|node| node.updated.is_some()).collect();
    let (target, template) = situation.revisions.proven_not_rolled_back()?;
    let is_clear = on_current.len() > 1
        && on_current.iter().all(|node| fails(node))
        && target.available > on_current.len()
        && lacks(situation, target.object.hash(), template).is_empty();
    let advice = format!(
        "revision {} fails on {} that have it, and revision {} is available on {}; to roll back",
        current.revision,
        all(on_current.len(), "node"),
        target.number(),
        target.available
    );
    is_clear.then(|| Fix::new(advice, name_of(daemon_set).undo(target.number())))
}

/// Returns the number of nodes that a hold keeps on revisions older than one, and that a rollback to it would update.
pub(super) fn held_back(situation: &Situation<'_>, target: &Revision<'_>) -> usize {
    // Under OnDelete, nobody has asked for other pods than those of the revision that is left to be replaced.
    let updates = |hold: Hold| hold.partition.is_some() && hold.original_strategy() != UpdateStrategy::OnDelete;
    let is_held = Hold::in_force(situation.daemon_set).is_some_and(updates);
    let of_pod = |pod: &Pod| situation.revisions.of_pod(pod);
    let is_older = |pod: &Pod| of_pod(pod).is_some_and(|revision| revision.number() < target.number());
    situation.eligible().filter(|node| is_held && node.old.is_some_and(is_older)).count()
}
