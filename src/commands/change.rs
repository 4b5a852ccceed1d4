//! Subcommands that change a DaemonSet with one patch: from reading the cluster to applying the change.

use std::io::Write;
use std::time::Duration;

use tokio::time::timeout;

use super::change_args::{ChangeArgs, DryRun};
use super::confirm::{check_writable, confirm};
use super::gate_args::{GateArgs, name_of_run};
use super::hold_trial::{held_at, tried_template};
use super::not_applied::{not_read, not_shown};
use super::out_after_change::OutAfterChange;
use super::parse::Named;
use super::pending_change::PendingChange;
use super::session::{GlobalArgs, Session, show_progress};
use super::status::Rollouts;
use super::status_watch::{self, Map, WatchArgs};
use super::{Failure, RunCommand, partition, refusal};
use crate::cluster::Query;
use crate::error::{CommandError, Exit};
use crate::facts::index::Index;
use crate::facts::revisions::name_of;
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::node::ZONE;
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::plan::{Plan, SpecFields};
use crate::render;
use crate::report::fix::{Command, Fix};
use crate::report::plan::{ChangeStage, PlanKind, Warning, WarningCode};
use crate::rollout::new_pods::{Trial, not_asked, trial_of, trial_of_current};
use crate::rollout::partition::plan::StageRequest;
use crate::rollout::proposal::Planned;
use crate::rollout::risks::risks;
use crate::rollout::room::NewPods;
use crate::rollout::situation::Situation;
use crate::rollout::undo::is_rolled_back;

/// A subcommand that changes a DaemonSet with one patch.
pub(super) trait Verb {
    /// Returns the name of the DaemonSet and the common flags.
    fn change(&self) -> &ChangeArgs;

    fn check(&self) -> Result<(), CommandError> {
        Ok(())
    }

    /// Returns whether it suspends the update strategy, which is tried out first.
    fn is_hold(&self) -> bool {
        false
    }

    /// Returns the given flags that allow more, which a repeated command needs, too.
    fn switches(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the fields to set besides the template.
    fn fields(&self) -> SpecFields {
        SpecFields::default()
    }

    /// Returns whether it makes the controller create pods of the current template, so that one is tried in a dry run first.
    fn creates_pods(&self) -> bool {
        false
    }

    /// Returns whether it rolls back, so that the API server is first asked whether it would create the pods.
    fn rolls_back(&self) -> bool {
        false
    }

    /// Returns the given gates, with which this program replaces the pods; `None` if the controller does.
    fn gates(&self) -> Option<&GateArgs> {
        None
    }

    /// Returns the stage that it becomes with gates, excluding them, and the warnings; `None` if there is no pod to
    /// replace. Fails if there is no target, or if the DaemonSet is held for another reason.
    fn stage(
        &self,
        _before: &Situation<'_>,
        _run: String,
    ) -> Result<Option<(StageRequest, Vec<Warning>)>, CommandError> {
        Ok(None)
    }

    /// Makes the plan. Fails if there is no target, or if the change would do harm.
    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError>;

    /// Returns the pods to try in dry runs first: one of the current template, or those of a rollback, before any pod
    /// is deleted for them.
    fn trials(&self, snapshot: &Snapshot, daemon_set: &DaemonSet) -> Vec<Trial> {
        if self.creates_pods() {
            return trial_of_current(snapshot, daemon_set).into_iter().collect();
        }
        if !self.rolls_back() {
            return Vec::new();
        }
        let index = Index::new(snapshot);
        let before = Situation::new(&index, daemon_set);
        let Some((_, hash, template)) = self.rollback(&before) else { return Vec::new() };
        let of_target = trial_of(snapshot, daemon_set, hash, template);
        of_target.into_iter().chain(trial_of_current(snapshot, daemon_set)).collect()
    }

    /// Plans a rollback, without a dry run of its pods. Fails if there is no revision to roll back to.
    fn plan_rollback(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        self.plan(before)
    }

    /// Returns the plan of a rollback, with the hash and the template of its target; `None` if there is none.
    fn rollback<'a>(&self, before: &'a Situation<'_>) -> Option<(Plan, &'a str, &'a Template)> {
        let Planned { plan, report, .. } = self.plan_rollback(before).ok()?;
        let target = before.revisions.number(report.to_revision?)?;
        Some((plan, target.object.hash(), target.template.as_ref().ok()?))
    }

    /// Returns the template of a rollback after admission, and the hash of its revision, if a pod of that revision was
    /// tried in a dry run: pods are created from the admitted template. `None` if it is the same, or unknown.
    async fn template_of_admission(
        &self,
        snapshot: &Snapshot,
        daemon_set: &DaemonSet,
        session: &Session,
        io: &mut Io<'_>,
    ) -> Result<Option<(String, Template)>, Failure> {
        if snapshot.admissions.is_empty() || !self.rolls_back() {
            return Ok(None);
        }
        let index = Index::new(snapshot);
        let before = Situation::new(&index, daemon_set);
        let Some((Plan { step: Some(step), .. }, hash, template)) = self.rollback(&before) else { return Ok(None) };
        if snapshot.is_admitted(daemon_set, hash).is_none() {
            return Ok(None);
        }
        let interrupt = io.interrupt.clone();
        let live = session.source.live()?;
        let tried = tried_template(&step, daemon_set, live, interrupt.requested());
        let stored = show_progress(tried, &session.progress, io).await;
        // The change itself repeats them.
        live.observed().forget_warnings();
        Ok(stored?.filter(|stored| !stored.same_meaning(template)).map(|stored| (hash.to_owned(), stored)))
    }
}

impl<V: Verb> RunCommand for V {
    /// Reads the DaemonSet, makes the plan, shows it, and applies it.
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let settings = self.change();
        let named = &settings.named()?;
        self.check()?;
        if let Some(gates) = self.gates() {
            gates.check()?;
            settings.check_stage()?;
        }
        if settings.dry_run == DryRun::Off {
            check_writable(io)?;
        }
        let session = open(&target, named, settings.dry_run == DryRun::Client, io).await?;
        // A hold replaces no pods. Otherwise pods are tried in dry runs even by a client-side dry run, which must not promise what the
        // command then refuses; of the change itself it sends nothing.
        let (asks, tries) = (!self.is_hold(), settings.dry_run != DryRun::Client);
        // Without its own timeout, a request may take as long as the server keeps it open.
        let time_limit = settings.given_time_limit();
        let read = timeout(time_limit.unwrap_or(Duration::MAX), session.read_for_change(named, asks, io)).await;
        let mut snapshot = read.map_err(|_| not_read(time_limit))??;
        if let Some(gates) = self.gates() {
            let daemon_set = only_one(&snapshot)?;
            if daemon_set.flavor() == Flavor::Advanced {
                return Err(refusal::advanced("a gate such as --soak").into());
            }
            let stage = self.stage(&Situation::new(&Index::new(&snapshot), daemon_set), name_of_run(io))?;
            if let Some((request, doubts)) = stage {
                let (stage, read) = ((gates.put_into(request), doubts), (named, snapshot));
                return Box::pin(partition::replace_pods(stage, settings, read, &session, io, out)).await;
            }
        }
        let mut is_answered = true;
        if asks {
            let trials = self.trials(&snapshot, only_one(&snapshot)?);
            let wanted = trials.len();
            let asked = session.ask_before_change(trials, io).await?;
            is_answered = !tries || asked.len() == wanted;
            snapshot.admissions.extend(asked);
        }
        if self.is_hold() && settings.dry_run == DryRun::Off {
            let daemon_set = only_one(&snapshot)?;
            let command = name_of(daemon_set).command("pause");
            let repeat = Fix::new("to repeat it", self.switches().into_iter().fold(command, Command::switch));
            let plan = Plan::pause(daemon_set, snapshot.now);
            (snapshot.now, _) = held_at(&plan, daemon_set, snapshot.now, repeat, &session, io).await?;
        }
        let daemon_set = only_one(&snapshot)?;
        if asks
            && tries
            && let Some((hash, stored)) = self.template_of_admission(&snapshot, daemon_set, &session, io).await?
        {
            let uid = daemon_set.metadata.uid.clone();
            snapshot.admissions.retain(|it| it.daemon_set_uid != uid || it.hash != hash);
            let trial = trial_of(&snapshot, only_one(&snapshot)?, &hash, &stored);
            let asked = session.ask_before_change(trial, io).await?;
            snapshot.admissions.extend(asked);
        }
        let daemon_set = only_one(&snapshot)?;
        let index = Index::new(&snapshot);
        let before = Situation::new(&index, daemon_set);
        let Planned { plan, after, mut report } = self.plan(&before)?;
        let kind = report.kind;
        // A retry reports this itself.
        report.incomplete.extend((!is_answered && kind != PlanKind::RetryPlan && report.needed).then(not_asked));
        let switches = self.switches();
        // Neither a hold nor a retry replaces pods that run, and a stage looks at its own nodes.
        let is_staged_undo = kind == PlanKind::UndoPlan && is_staged(daemon_set);
        if report.needed && !self.is_hold() && kind != PlanKind::RetryPlan && !is_staged_undo {
            let new_pods = NewPods::of(&before, &after.template(), None);
            let (no_room, unread) = Box::pin(session.room(&new_pods, &snapshot, io)).await;
            // That a surge has no room for both pods is told already.
            let is_told = new_pods.surges() && report.warnings.iter().any(|it| it.code == WarningCode::Blocks);
            report.warnings.extend(no_room.into_iter().filter(|_| !is_told));
            report.incomplete.extend(unread);
        }
        let mut change = PendingChange {
            settings,
            switches: switches.clone(),
            fields: self.fields(),
            session: &session,
            before: &before,
            plan: &plan,
            report,
        };
        // If the template is already there, only the rest of a rollback is done: nobody asked for a rollout.
        let is_staged = is_staged(daemon_set) && (plan.step.is_some() || is_rolled_back(&before));
        if let Some(to_revision) = change.report.to_revision.filter(|_| settings.replaces_pods() && is_staged) {
            if settings.dry_run == DryRun::Server {
                let message = "only the change of the template is tried; without --dry-run=server, the updated nodes are \
                               rolled back, too, and the update strategy is restored: --dry-run=client shows how";
                change.report.warnings.retain(|warning| warning.code != WarningCode::OnDelete);
                change.report.warnings.push(Warning::new(WarningCode::OnDelete, message));
            } else {
                let request = StageRequest::roll_back(to_revision, name_of_run(io), daemon_set);
                let request = StageRequest { force: switches.contains(&"--force"), ..request };
                let (stage, read) = ((request, doubts(change.report.warnings)), (named, snapshot));
                return Box::pin(partition::replace_pods(stage, settings, read, &session, io, out)).await;
            }
        }
        if settings.watch && !is_rolled_out(&after) {
            let message = "--watch would not end: with this update strategy, the controller does not replace pods";
            return Err(CommandError::usage(message).into());
        }
        let Some(step) = &plan.step else {
            let text = session.view.text(|page| render::change::not_needed(&change.report, page));
            change.print(&text, Some(&daemon_set.object), out)?;
            if kind != PlanKind::RetryPlan {
                change.report.warnings = doubts(change.report.warnings);
            }
            change.warn(io)?;
            return if settings.watch { follow(daemon_set, &session, io, out).await } else { Ok(Exit::Success) };
        };
        let ends_hold = kind == PlanKind::ResumePlan && daemon_set.flavor() == Flavor::Apps;
        change.show(io, out).map_err(|failure| not_shown(failure, false))?;
        // A hold was tried out before it was planned.
        if settings.dry_run == DryRun::Off && !self.is_hold() {
            Box::pin(change.try_out(step, ends_hold, io, out)).await?;
        }
        match settings.dry_run {
            DryRun::Client => {
                change.print_result(&after.object, out)?;
                Ok(Exit::Success)
            }
            DryRun::Server => {
                let object = change.apply(step, io, out).await?;
                change.note_applied(ChangeStage::TriedOut, &object);
                if settings.output.is_none() {
                    session.view.write(out, |page| render::change::made_by_server(&change.report, page))?;
                }
                change.print_result(&object, out)?;
                Ok(Exit::Success)
            }
            DryRun::Off => {
                if !settings.yes {
                    confirm(risks(&change.report, &after, &snapshot), &change.report.daemon_set, &session, io)?;
                }
                let object = change.apply(step, io, out).await?;
                change.note_applied(ChangeStage::Applied, &object);
                let mut out = OutAfterChange::new(out);
                let finished = change.finish(&snapshot, &object, io, &mut out).await;
                io.interrupt.changes_are_reported();
                if out.failure.is_some() {
                    // The change must not go unnoticed.
                    writeln!(io.err, "{}", change.applied())?;
                    return out.end(finished, "the change was applied");
                }
                match finished {
                    Ok(Exit::Success) if settings.watch => follow(daemon_set, &session, io, out.out).await,
                    finished => finished,
                }
            }
        }
    }
}

/// Opens the source of a command that changes a DaemonSet. Fails if flags select DaemonSets in another way, or if the
/// source is a dump.
pub(super) async fn open(
    target: &GlobalArgs,
    named: &Named,
    is_dry_run: bool,
    io: &Io<'_>,
) -> Result<Session, Failure> {
    if target.all_namespaces {
        let error = CommandError::usage("--all-namespaces cannot be given: a change is made to one DaemonSet");
        return Err(error.hint("to choose its namespace, use -n").into());
    }
    if target.is_dump() && !is_dry_run {
        let hint = "add --dry-run=client to see what would be done";
        return Err(CommandError::usage("a dump cannot be changed").hint(hint).into());
    }
    target.open(named.namespace.clone(), std::slice::from_ref(&named.name), io).await
}

/// Returns the doubts about the revision to roll back to.
pub(super) fn doubts(mut warnings: Vec<Warning>) -> Vec<Warning> {
    warnings.retain(|it| {
        matches!(it.code, WarningCode::RolledBackBefore | WarningCode::TargetNotProven | WarningCode::HoldEnds)
    });
    warnings
}

/// Returns whether this program replaces the pods of a DaemonSet, rather than the controller.
fn is_staged(daemon_set: &DaemonSet) -> bool {
    daemon_set.flavor() == Flavor::Apps && Hold::in_force(daemon_set).is_some()
}

/// Returns whether the controller replaces the pods of a DaemonSet automatically.
fn is_rolled_out(daemon_set: &DaemonSet) -> bool {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => !rolling.keeps_pods(),
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => false,
    }
}

/// Follows the rollout of a DaemonSet until it is done.
async fn follow(
    daemon_set: &DaemonSet,
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    out.flush()?;
    let rollouts = Rollouts {
        query: Query::of(daemon_set),
        to_revision: None,
        map: Map { is_shown: false, label: ZONE.to_owned() },
        accept: Vec::new(),
        templates: None,
    };
    Box::pin(status_watch::run(WatchArgs::until_available(), rollouts, None, session, io, out)).await
}

/// Returns the only DaemonSet that was found.
pub(super) fn only_one(snapshot: &Snapshot) -> Result<&DaemonSet, CommandError> {
    let all: Vec<_> = snapshot.daemon_sets_of_any_flavor().collect();
    match all.as_slice() {
        [one] => Ok(one),
        [] => Err(CommandError::usage("this needs one DaemonSet, and none was found")),
        several => {
            let mut names: Vec<String> = several.iter().map(|one| name_of(one).title()).collect();
            names.sort_unstable();
            let give = if names.len() > 5 { "give one, such as" } else { "give one" };
            let shown = names.into_iter().take(5);
            Err(CommandError::usage(format!("this needs one DaemonSet, and there are {}", several.len()))
                .hint(Fix::new(give, Command::choice("", shown))))
        }
    }
}
