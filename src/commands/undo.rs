//! `undo`: rolls back to the template of a revision.

use clap::Args;

use super::change::{Verb, doubts};
use super::change_args::ChangeArgs;
use super::gate_args::{GateArgs, OnFailure};
use super::history::{existing, not_there, revisions_unknown};
use super::parse::parse_revision_number;
use super::refusal::worse;
use crate::error::CommandError;
use crate::facts::controller::Controller;
use crate::facts::revisions::{Address, NoTemplate, Revisions, name_of};
use crate::report::fix::Fix;
use crate::report::plan::{Warning, WarningCode};
use crate::rollout::partition::plan::StageRequest;
use crate::rollout::proposal::Planned;
use crate::rollout::situation::Situation;
use crate::rollout::undo::{
    NoTarget, begun_rollback, done_rollback, is_return, is_rolled_back, undo, undo_safely, unfinished_rollback,
};

/// Roll back to the template of a revision
///
/// Without --to-revision, the target is the revision whose pods are available on the most nodes. If no pods prove that a
/// revision works, it is the newest one that differs from the live template, preferably one without failing pods that was not
/// replaced within an hour. A revision that was rolled back before is never the default.
///
/// The changes are shown first, and then sent as one patch that never overwrites a concurrent edit. Only the template changes,
/// as with kubectl. If the DaemonSet is paused or partitioned, the updated nodes are then rolled back one by one and the update
/// strategy is restored, as with `partition NAME 0`, unless --no-wait or -o is given. With a gate, such as --soak, --verify or
/// --max-unavailable, that is also done if it is not; if it ends early, the same command continues.
///
/// Exit codes: 3 if a gate of `partition` stopped the rollback; 6 if the change was applied but the controller was not seen to
/// act on it; 7 if the change was sent and it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show what going back to the previous template would change
kubectl ds undo fluent-bit -n logging --dry-run=client

# Roll back to the previous template
kubectl ds undo fluent-bit -n logging

# Roll back to revision 2
kubectl ds undo fluent-bit -n logging --to-revision=2

# Roll back one node after another, and stop if a pod does not come back
kubectl ds undo fluent-bit -n logging --max-unavailable 1 --soak 30s")]
#[command(mut_arg("max_restarts", |flag| flag.hide(true)), mut_arg("on_failure", |flag| flag.hide(true)))]
pub struct UndoArgs {
    /// The revision to roll back to; 0 for the default
    #[arg(long, value_name = "N", value_parser = parse_revision_number, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
    to_revision: i64,
    /// Roll back although new pods are refused.
    ///
    /// Available pods would be replaced by pods that the API server refuses.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    gates: GateArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

impl UndoArgs {
    fn plan_with(
        &self,
        before: &Situation<'_>,
        plan: impl Fn(&Situation<'_>, Option<i64>) -> Result<Planned, NoTarget>,
    ) -> Result<Planned, CommandError> {
        let number = Some(self.to_revision).filter(|number| *number > 0);
        // The rollback that was started takes precedence over other targets.
        if let Some(current) = unfinished_rollback(before).filter(|_| number.is_none() && is_return(before)) {
            return Err(unfinished(before, current));
        }
        let done = done_rollback(before).filter(|_| number.is_none());
        plan(before, number.or(done)).map(|planned| rolled_back_already(before, planned, done)).map_err(|none| {
            let is_repeated =
                matches!(none, NoTarget::OnlyLeft(_) | NoTarget::NoTemplate(_, NoTemplate::NoSuchRevision));
            let current = || unfinished_rollback(before).filter(|_| is_repeated);
            revisions_unknown(&before.revisions, before.index.snapshot)
                .or_else(|| Some(unfinished(before, current()?)))
                .unwrap_or_else(|| no_target(&before.revisions, none))
        })
    }
}

/// Explains that a repeated rollback is already done, and how to go back further.
fn rolled_back_already(before: &Situation<'_>, mut planned: Planned, done: Option<i64>) -> Planned {
    let Some(number) = done else { return planned };
    let revisions = &before.revisions;
    let came_back = |next| revisions.all.iter().any(|left| revisions.both_came_back(left, next));
    planned.report.why = Some(match revisions.current().is_some_and(came_back) {
        true => format!("revision {number} was rolled out again, which may have been a rollback"),
        false => format!("it was rolled back to revision {number}"),
    });
    let left = || before.revisions.all.iter().find(|revision| before.revisions.was_rolled_back(revision));
    if let Some(further) = before.revisions.target().map(|(further, _)| further).or_else(left) {
        let message =
            format!("undo goes back no further by itself: add --to-revision {} if you mean that", further.number());
        planned.report.warnings.push(Warning::new(WarningCode::RolledBackBefore, message));
    }
    planned
}

/// Builds the error for an undo that is repeated during a hold before all nodes have followed: it already has the target's template.
fn unfinished(before: &Situation<'_>, current: i64) -> CommandError {
    let name = name_of(before.daemon_set);
    let problem = format!("the rollback of {} to revision {current} is not finished", name.title());
    CommandError::new(problem).hint(Fix::new("to finish it", name.undo(current)))
}

impl Verb for UndoArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn check(&self) -> Result<(), CommandError> {
        let refused = match &self.gates {
            gates if gates.max_restarts.is_some() => {
                Some(("--max-restarts", "pods that are not replaced may have restarted before the rollback"))
            }
            gates if gates.on_failure == Some(OnFailure::Undo) => {
                Some(("--on-failure undo", "what a rollback leaves is not rolled out again"))
            }
            _ => None,
        };
        if let Some((flag, why)) = refused {
            return Err(CommandError::usage(format!("{flag} cannot be given to undo")).hint(why));
        }
        match self.to_revision {
            0.. => Ok(()),
            negative => Err(CommandError::usage(format!("invalid revision \"{negative}\""))
                .hint("`history NAME` shows the revisions")),
        }
    }

    fn rolls_back(&self) -> bool {
        true
    }

    fn gates(&self) -> Option<&GateArgs> {
        self.gates.given()
    }

    fn stage(&self, before: &Situation<'_>, run: String) -> Result<Option<(StageRequest, Vec<Warning>)>, CommandError> {
        // The named revision may have another number now.
        let begun = begun_rollback(before).filter(|_| self.to_revision == 0);
        let (number, doubts) = match begun {
            Some(current) => (Some(current), Vec::new()),
            None => {
                let Planned { plan, report, .. } = self.plan_rollback(before)?;
                // Nobody asked for a rollout of the existing template.
                let is_needed = plan.step.is_some() || is_rolled_back(before);
                (report.to_revision.filter(|_| is_needed), doubts(report.warnings))
            }
        };
        let request = number.map(|number| StageRequest::roll_back(number, run, before.daemon_set));
        Ok(request.map(|request| (StageRequest { force: self.force, ..request }, doubts)))
    }

    fn switches(&self) -> Vec<&'static str> {
        self.force.then_some("--force").into_iter().collect()
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        self.plan_with(before, if self.force { undo } else { undo_safely })
    }

    fn plan_rollback(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        self.plan_with(before, undo)
    }
}

/// Builds the error for an undo without a target.
fn no_target(revisions: &Revisions<'_>, none: NoTarget) -> CommandError {
    let name = name_of(revisions.daemon_set).title();
    match none {
        NoTarget::NoTemplate(number, unknown) => {
            let newest = revisions.all.first().filter(|_| unknown == NoTemplate::NoSuchRevision);
            let is_gone = newest.is_some_and(|newest| number < newest.number());
            let error = not_there(revisions, Address::Number(number), unknown);
            let why = "rolling back to a revision gives it a new number, and old ones are deleted beyond \
                       spec.revisionHistoryLimit";
            if is_gone { error.hint(why) } else { error }
        }
        NoTarget::Unread => CommandError::new(format!(
            "which revision of {name} works is not known: not all of them were read, or one was deleted"
        ))
        .hint(existing(revisions))
        .hint("to roll back to one of these, add --to-revision and its number"),
        NoTarget::OnlyLeft(number) => CommandError::new(format!(
            "every other revision of {name} was rolled back before, such as revision {number}"
        ))
        .hint(existing(revisions))
        .hint(format!("to roll it out again anyway, add --to-revision {number}")),
        NoTarget::Refused(warnings) => worse(warnings).hint("to roll back anyway, add --force"),
        NoTarget::NoOther(0) if revisions.daemon_set.metadata.is_terminating() => {
            CommandError::new(format!("{name} is being deleted, and has no revisions left"))
        }
        NoTarget::NoOther(0) => CommandError::new(format!("{name} has no revisions to go back to"))
            .hint("the controller creates the first one")
            .hint(Controller::of(revisions.daemon_set).check()),
        NoTarget::NoOther(_) => {
            CommandError::new(format!("no revision of {name} differs from its live template")).hint(existing(revisions))
        }
    }
}
