//! What lets a blocked rollout continue: only changes after which more nodes become updated, and none that spreads a
//! failing revision.

use std::collections::BTreeMap;

use super::held::is_unverified;
use super::problems::replaced_at_once;
use crate::coverage::{delete_pod, refusal_reason};
use crate::facts::controller::check_scheduler;
use crate::facts::revisions::name_of;
use crate::model::daemon_set::{DaemonSet, Flavor, RollingUpdate, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::metadata::CONTROLLER_REVISION_HASH_LABEL;
use crate::model::pod::Pod;
use crate::model::raised_pace::RaisedPace;
use crate::plan::{SpecFields, StrategyType};
use crate::report::count;
use crate::report::fix::{Command, Fix};
use crate::report::partition::SKIP_LABEL;
use crate::report::reason::{Reason, ReasonCode};
use crate::report::rollout_status::{BlockedBy, SuspectKind, Verdict};
use crate::rollout::change_warnings::holder;
use crate::rollout::forecast::AT_ONCE;
use crate::rollout::partition::way_out::continuation;
use crate::rollout::partition::{is_skipped, replaces_more};
use crate::rollout::replacement_warnings::{Replacement, depends_on_user};
use crate::rollout::rollback::{
    lacks, may_not_exist, revision_fails, rollback, rollback_by_pods, spreads_failure, to_restore,
};
use crate::rollout::set;
use crate::rollout::situation::fault::not_by_their_node;
use crate::rollout::situation::judgement::Judgement;
use crate::rollout::situation::next_step::NextStep;
use crate::rollout::situation::simulation::{Advance, advances};
use crate::rollout::situation::suspect::failed_before;
use crate::rollout::situation::{NoRollback, RolloutNode, Situation};
use crate::rollout::undo::is_return;
use crate::scheduling::daemon_pods::PILE;

const RESUME_AFTERWARDS: &str = "once the template is fixed, to let the controller replace the pods";

const FINISH_BY_CONTROLLER: &str = "to let the controller finish at its own pace";

/// Returns how to continue a rollout, or to roll back; empty if it needs no help.
pub(super) fn way_out(situation: &Situation<'_>, judgement: &Judgement<'_, '_>) -> Vec<Fix> {
    let Judgement { verdict, step, suspect, .. } = judgement;
    let (verdict, suspect) = (*verdict, suspect.as_ref());
    let revision_fails = revision_fails(situation);
    let undo = || match rollback(situation) {
        Err(NoRollback::Reverted) => {
            let writer = situation.daemon_set.reverted_by()?;
            Some(format!("roll back at {writer}, which controls this DaemonSet").into())
        }
        found => found.ok(),
    };
    let hold = Hold::of(situation.daemon_set);
    let needs_more_than_nodes = !not_by_their_node(situation, suspect).is_empty();
    let is_stuck = matches!(verdict, Verdict::Blocked | Verdict::Degraded | Verdict::Paused)
        && situation.controller_silent_since().is_none();
    let retry = is_stuck.then(|| retry_now(situation)).flatten();
    // If it works on other nodes, the revision does not fail.
    let is_by_nodes = suspect.is_some_and(|suspect| suspect.what == SuspectKind::Nodes);
    let undo_as_well = || undo().filter(|_| !is_by_nodes);
    let down = situation.controller_silent_since().map(|_| situation.controller.check());
    let until_up = down.as_ref().map(|_| format!("{} is back", situation.controller.program()));
    let afterwards = |fix: Fix| match &until_up {
        Some(until_up) => once(fix, until_up),
        None => fix,
    };
    let fixes = match verdict {
        Verdict::Deleting | Verdict::NotObserved => Vec::new(),
        // No command gives a node its pod.
        _ if situation.terminating_namespace().is_some() => Vec::new(),
        Verdict::Unknown => vec![rollback_by_pods(situation)],
        // The user may not know about the hold, whether the rollout is stuck or not.
        _ if hold.is_some() => {
            // A stage names its own way back.
            let is_paused = hold.as_ref().is_some_and(|hold| hold.partition.is_none());
            let undo = (revision_fails || is_paused && spreads_failure(situation)).then(undo).flatten();
            let leave = hold.iter().flat_map(|hold| leave(situation, hold, revision_fails));
            // Where pods are refused already, that is a problem of their nodes.
            let is_refused = || !situation.creation_is_refused() && may_not_exist(situation);
            let has_old = situation.eligible().any(|node| node.old.is_some());
            let refused = (has_old && is_refused()).then(|| refused_now(situation)).flatten();
            down.into_iter()
                .chain(retry)
                .chain(refused)
                .chain(undo.into_iter().chain(leave).map(afterwards))
                .map(Some)
                .collect()
        }
        Verdict::Blocked if down.is_some() => vec![down, revision_fails.then(undo).flatten().map(afterwards)],
        // What it replaces meanwhile fails as well.
        Verdict::Progressing if suspect.is_some_and(|suspect| suspect.what == SuspectKind::Revision) => {
            let undo = undo();
            let stop = undo.as_ref().and_then(|_| stop(situation, step));
            vec![undo, stop]
        }
        // They have failed since it began: it may spread to the others, and nothing tells that new pods are better off.
        Verdict::Progressing if replaced_at_once(situation, step).is_some() && fails_since(situation) => {
            vec![stop(situation, step)]
        }
        _ if !is_stuck => Vec::new(),
        _ if situation.stalled_since(step).is_some() => vec![delete_replaced(step)],
        _ if retry.is_some() => vec![retry],
        // Whatever the controller would do next, it deletes pods first.
        _ if situation.deletion_refusal().is_some() => vec![Some(retry_deletions(situation))],
        _ if judgement.blocked_by == Some(BlockedBy::NoProgress) => vec![check_who_should_act(situation, step)],
        _ if revision_fails => vec![undo(), to_restore(situation), resume_afterwards(situation)],
        Verdict::Blocked | Verdict::Degraded if situation.nodes.iter().any(has_many_failed_pods) => {
            vec![delete_failed(situation)]
        }
        // There is no rollout: each cause has its own advice.
        Verdict::Degraded => Vec::new(),
        // The owner replaces the pods: these commands would be refused or reverted.
        Verdict::Paused if holder(situation.daemon_set).is_some() => Vec::new(),
        Verdict::Paused if needs_more_than_nodes => vec![undo_as_well()],
        Verdict::Paused => {
            let daemon_set = situation.daemon_set;
            let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
            // It replaces no more at a time than a rolling update does.
            let can_begin = || continues(situation, &with_strategy(daemon_set, UpdateStrategy::default()));
            let partition = || name_of(daemon_set).command("partition").name("0");
            let one_by_one = (is_on_delete && daemon_set.flavor() == Flavor::Apps && can_begin())
                .then(|| Fix::new("to update all nodes under the gates of `partition`", partition()));
            vec![replace_one(situation), one_by_one, rolling_update(situation)]
        }
        // Whatever the pace, no pod would come back.
        _ if !situation.creation_is_refused() && may_not_exist(situation) => {
            vec![refused_now(situation), undo_as_well()]
        }
        // Another pace would only replace more pods by failing ones, unless the pods that it deletes first are what new ones lack.
        _ if needs_more_than_nodes && situation.creation_is_refused() => {
            vec![without_surge(situation, step), undo_as_well()]
        }
        // Where any pod has failed, and none does elsewhere, the others can be replaced.
        _ if suspect.is_some_and(|it| it.what == SuspectKind::EveryRevision) && failed_before(situation) => {
            vec![raise_budget(situation, step)]
        }
        _ if needs_more_than_nodes => vec![undo_as_well()],
        _ => vec![without_surge(situation, step), raise_budget(situation, step), undo_as_well()],
    };
    // Nothing is left to replace at the raised pace.
    let is_over = match verdict {
        Verdict::Complete => true,
        Verdict::Blocked | Verdict::Degraded => {
            !revision_fails && step.update().is_some_and(|update| update.candidates.is_empty())
        }
        _ => false,
    };
    fixes.into_iter().chain([is_over.then(|| restore_pace(situation)).flatten()]).flatten().collect()
}

/// Returns whether old pods have become unready since the rollout began.
fn fails_since(situation: &Situation<'_>) -> bool {
    let began = situation.rollout_began_at();
    let unready = situation.nodes.iter().filter_map(|node| node.old?.unready_since());
    unready.zip(began.into_iter().cycle()).any(|(since, began)| since > began)
}

/// Suggests stopping the controller before it replaces more pods, if nobody puts that back.
fn stop(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<Fix> {
    let goes_on = step.update().is_some_and(|update| !update.candidates.is_empty() || !update.delete.is_empty());
    let pause = name_of(situation.daemon_set).command("pause");
    let may_be_stopped = goes_on && holder(situation.daemon_set).is_none();
    may_be_stopped.then(|| Fix::new("to stop it until the cause is known", pause))
}

/// Suggests restoring the DaemonSet's original pace, which was raised because the rollout was blocked.
fn restore_pace(situation: &Situation<'_>) -> Option<Fix> {
    let (RaisedPace { before, after }, command) = set::restore_pace(situation.daemon_set)?;
    let advice = format!("{after} was set because the rollout was blocked; to restore {before}");
    Some(Fix::new(advice, command))
}

/// Suggests checking the controller, or the scheduler if only that should act.
fn check_who_should_act(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<Fix> {
    let is_unscheduled = |pod: &Pod| pod.spec.node_name.is_empty();
    match step.acts(false, false) {
        true => Some(situation.controller.check()),
        false => situation.nodes.iter().any(|node| node.updated.is_some_and(is_unscheduled)).then(check_scheduler),
    }
}

/// Suggests resuming a paused Advanced DaemonSet once its template was rolled back.
fn resume_afterwards(situation: &Situation<'_>) -> Option<Fix> {
    let UpdateStrategy::RollingUpdate(rolling) = &situation.daemon_set.spec.update_strategy else { return None };
    let resume = name_of(situation.daemon_set).command("resume");
    rolling.paused.then(|| Fix::new(RESUME_AFTERWARDS, resume))
}

/// Suggests making the controller create pods that are no longer refused.
fn retry_now(situation: &Situation<'_>) -> Option<Fix> {
    (situation.creation_is_refused() && situation.refusal_is_over()).then_some(())?;
    let advice = "to make the controller create the pods now, which are no longer refused";
    Some(Fix::new(advice, name_of(situation.daemon_set).command("retry")))
}

/// Suggests making the controller delete pods that are no longer refused to be deleted.
fn retry_deletions(situation: &Situation<'_>) -> Fix {
    let advice = "once the API server lets the controller delete pods, to make it try at once";
    Fix::new(advice, name_of(situation.daemon_set).command("retry"))
}

/// Suggests deleting an old pod that the controller should have deleted; the deletion triggers a sync.
fn delete_replaced(step: &NextStep<'_>) -> Option<Fix> {
    let pod = step.upkeep.delete.iter().find(|pod| !pod.metadata.is_terminating())?;
    let advice = "to delete an old pod whose surge pod is available, so that the controller continues";
    Some(Fix { advice: advice.to_owned(), command: Some(delete_pod(pod)) })
}

/// Returns whether failed pods have piled up next to an available one.
fn has_many_failed_pods(node: &RolloutNode<'_>) -> bool {
    node.updated_is_available && node.failed.len() >= PILE
}

/// Suggests deleting failed pods next to available ones: the controller deletes one per backoff, which grows to 15
/// minutes. The label of the revision distinguishes them from other pods.
fn delete_failed(situation: &Situation<'_>) -> Option<Fix> {
    let daemon_set = situation.daemon_set;
    let mut by_hash: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in situation.nodes.iter().filter(|node| has_many_failed_pods(node)).flat_map(|node| &node.failed) {
        *by_hash.entry(pod.revision_hash()).or_default() += 1;
    }
    let (hash, pods) = by_hash.into_iter().filter(|(hash, _)| !hash.is_empty()).max_by_key(|(_, pods)| *pods)?;
    let selector = format!("{},{CONTROLLER_REVISION_HASH_LABEL}={hash}", daemon_set.spec.selector);
    let delete = Command::kubectl(&["delete", "pod", "--field-selector", "status.phase=Failed", "-l", &selector]);
    let advice =
        format!("to delete the {pods} failed pods, which the controller deletes one at a time, ever more slowly");
    Some(Fix::new(advice, delete.namespace(&daemon_set.metadata.namespace)))
}

/// Suggests deleting one old pod under OnDelete, if it terminates and is recreated, preferably an unavailable one.
fn replace_one(situation: &Situation<'_>) -> Option<Fix> {
    if situation.creation_is_refused() {
        return None;
    }
    let old =
        |node: &&RolloutNode<'_>| node.old.is_some() && node.eligible && node.updated.is_none() && !node.keeps_pods();
    let node = situation.nodes.iter().filter(old).min_by_key(|node| (node.old_is_available, node.name))?;
    Some(Fix { advice: format!("to update one node, {}", node.name), command: Some(delete_pod(node.old?)) })
}

/// Suggests how to end a hold.
fn leave(situation: &Situation<'_>, hold: &Hold, revision_fails: bool) -> Vec<Fix> {
    let name = name_of(situation.daemon_set);
    let fix = |advice: &str, subcommand| Fix::new(advice, name.command(subcommand));
    let has_pods = situation.nodes.iter().any(|node| node.old.or(node.updated).is_some());
    match hold.is_in_force {
        // Its nodes are down: until they are back, nothing can be staged, and nothing should roll out unwatched.
        true if situation.eligible().next().is_none() && has_pods => Vec::new(),
        true if revision_fails && hold.original_strategy() == UpdateStrategy::OnDelete => Vec::new(),
        true if revision_fails => {
            vec![fix(RESUME_AFTERWARDS, "resume")]
        }
        true if situation.nodes.iter().all(|node| node.old.is_none()) => {
            let gates = match is_unverified(situation, hold) {
                true => continuation(&name, hold, false, None, situation),
                false => Vec::new(),
            };
            gates.into_iter().chain([fix("to restore the update strategy", "resume")]).collect()
        }
        true => {
            let old = || situation.outdated_nodes();
            let skipped: Vec<&str> = old().filter(|node| is_skipped(node)).map(|node| node.name).collect();
            let updates = hold.partition.is_some_and(|partition| replaces_more(situation, partition));
            let back_to = situation.revisions.proven_not_rolled_back().map(|(revision, _)| revision.number());
            let mut fixes = match skipped.len() < old().count() {
                true => continuation(&name, hold, updates, back_to, situation),
                false => Vec::new(),
            };
            fixes.extend((!skipped.is_empty()).then(|| {
                let (is, its, it) = if skipped.len() == 1 { ("is", "its", "it") } else { ("are", "their", "them") };
                let advice = format!(
                    "{} {is} skipped because of {its} label {SKIP_LABEL}; to have {it} updated by `partition`, remove it",
                    skipped.join(", ")
                );
                let nodes = skipped.iter().fold(Command::kubectl(&["label", "node"]), |label, node| label.name(*node));
                Fix::new(advice, nodes.name(format!("{SKIP_LABEL}-")))
            }));
            // Under OnDelete, the controller would replace no pod.
            let original = hold.original_strategy();
            if original != UpdateStrategy::OnDelete {
                let is_missing = hold.lacks_template(situation.current_hash()) && !is_return(situation);
                let finishes = || continues(situation, &with_strategy(situation.daemon_set, original));
                if is_missing {
                    fixes.push(fix(RESUME_AFTERWARDS, "resume"));
                } else if may_not_exist(situation) || situation.creation_is_refused() || finishes() {
                    let finish = fix(FINISH_BY_CONTROLLER, "resume");
                    fixes.push(if spreads_failure(situation) { once(finish, "the cause is fixed") } else { finish });
                }
            }
            match may_not_exist(situation) {
                true => fixes.into_iter().map(|fix| once(fix, "its new pods can be created and start")).collect(),
                false => fixes,
            }
        }
        false => vec![fix("to suspend the strategy again", "pause"), fix("to keep it as it is now", "resume")],
    }
}

/// Adds to advice what has to happen first, unless it has such a condition.
fn once(fix: Fix, condition: &str) -> Fix {
    match fix.advice.contains("once ") {
        true => fix,
        false => Fix { advice: format!("{}, once {condition}", fix.advice), ..fix },
    }
}

/// Suggests letting the controller replace the pods.
fn rolling_update(situation: &Situation<'_>) -> Option<Fix> {
    if let UpdateStrategy::RollingUpdate(rolling) = &situation.daemon_set.spec.update_strategy {
        return without_retaining(situation, rolling);
    }
    let fields = SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..SpecFields::default() };
    set_fields(situation, fields, |_| true, "to let the controller update all nodes".to_owned())
}

/// Says why a new pod would not be created, or would not start, and what to do about that.
fn refused_now(situation: &Situation<'_>) -> Option<Fix> {
    let (daemon_set, snapshot) = (situation.daemon_set, situation.index.snapshot);
    let hash = situation.current_hash().unwrap_or_default();
    let refusal = snapshot.admission(daemon_set, hash).and_then(|admission| admission.refusal.as_deref());
    Some(match refusal {
        Some(message) => {
            let Reason { code, message, fix, .. } = refusal_reason(snapshot, daemon_set, message);
            let would = if depends_on_user(code) { "may" } else { "would" };
            Fix { advice: format!("a new pod {would} be refused ({code}: {message}); {}", fix.advice), ..fix }
        }
        None => {
            let lacks = lacks(situation, hash, &daemon_set.template()).join(" and ");
            format!("a new pod would not start: create {lacks} in namespace {} first", daemon_set.metadata.namespace)
                .into()
        }
    })
}

/// Suggests other values besides the template, if `set` accepts them and the rollout then continues.
fn set_fields(
    situation: &Situation<'_>,
    fields: SpecFields,
    stays: impl Fn(&RolloutNode<'_>) -> bool,
    mut advice: String,
) -> Option<Fix> {
    let current = situation.current.known()?;
    let daemon_set = situation.daemon_set;
    let request = set::SetRequest { fields, delete_surge_pods: true, force: false };
    let (proposal, report) = set::propose(situation, &request).ok()?;
    if situation.creation_is_refused() || may_not_exist(situation) {
        let lacks = lacks(situation, current.hash(), &daemon_set.template());
        Replacement::of_strategy(&proposal.after, situation)
            .filter(|replacement| lacks.is_empty() && replacement.frees_quota(situation))?;
    }
    let mut command = set::command(&name_of(daemon_set), fields);
    match report.effect.map_or(0, |effect| effect.surge_pods_deleted.len()) {
        0 => {}
        pods => {
            let which = if pods == 1 { "the newer pod of the node" } else { "the newer pod of each node" };
            advice.push_str(&format!("; {which} with two pods is deleted"));
            command = command.switch("--delete-surge-pods");
        }
    }
    advances(situation, &proposal.after, current.hash(), stays, Advance::Updates).then(|| Fix::new(advice, command))
}

/// Suggests resuming an Advanced DaemonSet, or removing its partition or selector.
fn without_retaining(situation: &Situation<'_>, rolling: &RollingUpdate) -> Option<Fix> {
    let (daemon_set, name) = (situation.daemon_set, name_of(situation.daemon_set));
    if rolling.paused {
        return Some(Fix::new(FINISH_BY_CONTROLLER, name.command("resume")));
    }
    let changed = RollingUpdate { partition: None, selector: None, ..rolling.clone() };
    let patch = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":null,"selector":null}}}}"#;
    let patch = Command::kubectl(&["patch", "daemonsets.apps.kruise.io", "--type", "merge", "-p", patch]);
    let patch = patch.namespace(&daemon_set.metadata.namespace).name(&daemon_set.metadata.name);
    continues(situation, &with_strategy(daemon_set, UpdateStrategy::RollingUpdate(changed)))
        .then(|| Fix::new("to let the controller update all nodes", patch))
}

/// Suggests turning off surge, if the controller could then replace pods one by one.
fn without_surge(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<Fix> {
    step.update().filter(|update| update.surges)?;
    let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(1)), ..SpecFields::default() };
    // Without surge, a new pod uses the resources of the old one, and its share of a quota.
    let is_by_quota = |node: &RolloutNode<'_>| node.code() == Some(ReasonCode::QuotaExceeded);
    let stays = |node: &RolloutNode<'_>| !(node.old.is_some() && (node.lacks_room() || is_by_quota(node)));
    set_fields(situation, fields, stays, "to continue without surge, one node at a time".to_owned())
}

/// Suggests the smallest `maxUnavailable` with which the controller updates another node, regardless of which it visits
/// first: one more than is used, and one for each ineligible node whose pods count once deleted, because they do not
/// terminate there. None if that would allow the controller to delete many available pods at once.
fn raise_budget(situation: &Situation<'_>, step: &NextStep<'_>) -> Option<Fix> {
    let update = step.update().filter(|update| !update.surges && !update.candidates.is_empty())?;
    if situation.fails_widely() {
        return None;
    }
    let stays = situation.would_be_held();
    if update.candidates.iter().all(|candidate| stays(candidate.pod)) {
        return None;
    }
    let nodes = update.candidates.iter().filter_map(|candidate| situation.node(candidate.node));
    let used = update.used_by.len();
    let at_once = nodes.filter(|node| !node.eligible && node.keeps_pods()).count() + 1;
    let enough = i64::try_from(used + at_once).ok().filter(|enough| update.allowed < *enough)?;
    // The controller may visit the healthy nodes first, and delete as many available pods there at once.
    if at_once > AT_ONCE.max(usize::try_from(update.allowed).map_or(usize::MAX, |allowed| allowed.saturating_mul(2))) {
        return None;
    }
    let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(enough)), ..SpecFields::default() };
    let despite = format!("to continue despite {}", count(used, "unavailable node"));
    let advice = match at_once {
        1 => despite,
        _ => format!("{despite} (up to {at_once} available pods may be deleted at a time)"),
    };
    set_fields(situation, fields, |_| true, advice)
}

fn with_strategy(daemon_set: &DaemonSet, strategy: UpdateStrategy) -> DaemonSet {
    let mut changed = daemon_set.clone();
    changed.spec.update_strategy = strategy;
    changed
}

/// Returns whether the rollout of the same revision continues with a changed strategy.
fn continues(situation: &Situation<'_>, changed: &DaemonSet) -> bool {
    let Some(current) = situation.current.known().filter(|_| !situation.creation_is_refused()) else { return false };
    advances(situation, changed, current.hash(), |_| true, Advance::Updates)
}
