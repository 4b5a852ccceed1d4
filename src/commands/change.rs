//! Carries out a change of a DaemonSet: shows it, applies it, waits for the controller, and reports the outcome.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::api_server::{ApiServer, REREAD};
use super::change_args::{ChangeArgs, DryRun};
use super::hold_trial::{check_end_of_hold, held_at, tried_template};
use super::not_applied::{NotApplied, applied_or_not, not_answered, not_observed, not_read, not_shown};
use super::out_after_change::OutAfterChange;
use super::output::{self, Output};
use super::parse::Named;
use super::session::{GlobalArgs, Session, Target, show_progress, warn};
use super::status_watch::{self, FollowedRollouts, Map, WatchArgs};
use super::{Failure, RunCommand, interrupted, partition, refusal};
use crate::cluster::{PodsOf, Query, Wanted};
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::difference::object::changes;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::Index;
use crate::facts::revisions::{Revisions, name_of};
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::raised_pace::RAISED_PACE_ANNOTATION;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::retry::RETRIED_ANNOTATION;
use crate::plan::{Action, Plan, PodRef, Step};
use crate::render;
use crate::render::view::View;
use crate::report::fix::{Command, Fix};
use crate::report::history::Subcommand;
use crate::report::node_map::ZONE;
use crate::report::plan::{Backoff, ChangeOutcome, ChangePlan, ChangeStage, LeftBecause, Warning, WarningCode};
use crate::report::{count, count_and};
use crate::rollout::apply::{Application, Kept, Server, StepRefusal, is_undone};
use crate::rollout::concurrent_edit::managers;
use crate::rollout::new_pods::{trial_of, trial_of_current};
use crate::rollout::observed::AppliedChange;
use crate::rollout::proposal::Planned;
use crate::rollout::retry::is_as_retried;
use crate::rollout::set;
use crate::rollout::situation::Situation;
use crate::rollout::undo::is_rolled_back;

/// A subcommand that changes a DaemonSet with one patch.
pub(super) trait Verb {
    /// Returns the name of the DaemonSet and the flags that all of them take.
    fn change(&self) -> &ChangeArgs;

    /// Checks its other flags.
    ///
    /// # Errors
    ///
    /// Fails if they make no sense.
    fn check(&self) -> Result<(), CommandError> {
        Ok(())
    }

    /// Returns whether it suspends the update strategy, which is tried out first.
    fn is_hold(&self) -> bool {
        false
    }

    /// Returns the flags that were given and allow more, without which it would not do the same again.
    fn switches(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns whether it deletes pods that are to be recreated as they are, so that the API server is asked for one first.
    fn recreates_pods(&self) -> bool {
        false
    }

    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// Fails if there is nothing to change it to, or if that would do harm.
    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError>;

    /// Returns what admission makes of the template of a rollback, and the hash of its revision, if the API server was asked about a
    /// pod of that revision: pods are created of what admission makes of it. `None` if that is the same, or not known.
    async fn template_of_admission(
        &self,
        snapshot: &Snapshot,
        daemon_set: &DaemonSet,
        session: &Session,
        io: &mut Io<'_>,
    ) -> Option<(String, Template)> {
        if snapshot.admissions.is_empty() {
            return None;
        }
        let index = Index::new(snapshot);
        let before = Situation::new(&index, daemon_set);
        let Planned { plan, .. } = self.plan(&before).ok()?;
        let Action::Undo { to_revision } = plan.action else { return None };
        let target = before.revisions.number(to_revision)?;
        let (hash, template) = (target.object.hash(), target.template.as_ref().ok()?);
        snapshot.is_admitted(daemon_set, hash)?;
        let interrupt = io.interrupt.clone();
        let live = session.source.live().ok()?;
        let tried = tried_template(plan.steps.first()?, daemon_set, live, interrupt.requested());
        let stored = show_progress(tried, &session.progress, io).await;
        // The change itself brings them again.
        live.forget_warnings();
        let stored = stored?;
        (!stored.same_meaning(template)).then(|| (hash.to_owned(), stored))
    }
}

impl<V: Verb> RunCommand for V {
    /// Reads the DaemonSet, makes the plan, shows it, and carries it out.
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let settings = self.change();
        let named = &settings.named()?;
        self.check()?;
        let target = resolve(target, named, settings.dry_run == DryRun::Client, io)?;
        let session = target.open(io).await?;
        // A hold replaces no pods, and a dry run of the client sends nothing.
        let asks = !self.is_hold() && settings.dry_run != DryRun::Client;
        // Without a limit of its own, a request may take as long as the server keeps it open.
        let patience = settings.given_patience();
        let read = timeout(patience.unwrap_or(Duration::MAX), session.read_for_change(named, asks, io)).await;
        let mut snapshot = read.map_err(|_| not_read(patience))??;
        if asks && self.recreates_pods() {
            let trial = trial_of_current(&snapshot, only_one(&snapshot, &named.name)?);
            let asked = show_progress(session.try_pods(trial, None), &session.progress, io).await;
            snapshot.admissions.extend(asked);
        }
        if self.is_hold() && settings.dry_run == DryRun::Off {
            let daemon_set = only_one(&snapshot, &named.name)?;
            let repeat = Fix::new("to repeat it", name_of(daemon_set).command(Subcommand::Pause));
            let plan = Plan::pause(daemon_set, snapshot.now);
            (snapshot.now, _) = held_at(&plan, daemon_set, snapshot.now, repeat, &session, io).await?;
        }
        let daemon_set = only_one(&snapshot, &named.name)?;
        if asks && let Some((hash, stored)) = self.template_of_admission(&snapshot, daemon_set, &session, io).await {
            let uid = daemon_set.metadata.uid.clone();
            snapshot.admissions.retain(|it| it.daemon_set_uid != uid || it.hash != hash);
            let trial = trial_of(&snapshot, only_one(&snapshot, &named.name)?, &hash, &stored);
            let asked = show_progress(session.try_pods(trial, None), &session.progress, io).await;
            snapshot.admissions.extend(asked);
        }
        let daemon_set = only_one(&snapshot, &named.name)?;
        let index = Index::new(&snapshot);
        let before = Situation::new(&index, daemon_set);
        let Planned { plan, after, report } = self.plan(&before)?;
        let switches = self.switches();
        let mut change = PendingChange {
            settings,
            switches,
            session: &session,
            target: &target,
            before: &before.revisions,
            plan: &plan,
            report,
            deleted: 0,
        };
        // If the template is there already, only what is left of a rollback is carried out: nobody asked for a rollout.
        let is_staged = is_staged(daemon_set) && (!plan.steps.is_empty() || is_rolled_back(&before));
        if let (Action::Undo { to_revision }, true) = (plan.action, settings.replaces_pods() && is_staged) {
            if settings.dry_run == DryRun::Server {
                let message = "only the change of the template is tried; without --dry-run=server, the updated nodes are \
                               rolled back, too, and the update strategy is restored: --dry-run=client shows how";
                change.report.warnings.retain(|warning| warning.code != WarningCode::OnDelete);
                change.report.warnings.push(Warning::new(WarningCode::OnDelete, message));
            } else {
                let is_dry_run = settings.dry_run == DryRun::Client;
                let opened = (&session, &target);
                let mut doubts = change.report.warnings;
                doubts.retain(|it| matches!(it.code, WarningCode::RolledBackBefore | WarningCode::TargetNotProven));
                return Box::pin(partition::roll_back(
                    (to_revision, doubts),
                    settings.given_patience(),
                    (named, snapshot),
                    is_dry_run,
                    opened,
                    io,
                    out,
                ))
                .await;
            }
        }
        if settings.watch && !is_rolled_out(&after) {
            let message = "--watch would not end: with this update strategy, the controller does not replace pods";
            return Err(CommandError::usage(message).into());
        }
        let Some(step) = plan.steps.first() else {
            let text = change.view(io).text(|page| render::change::not_needed(&change.report, page));
            change.print(&text, Some(&daemon_set.object), io, out)?;
            return match settings.watch {
                true => follow(daemon_set, &target, &session, io, out).await,
                false => Ok(Exit::Success),
            };
        };
        let ends_hold = plan.action == Action::Resume && daemon_set.flavor() == Flavor::Apps;
        change.show(io, out).map_err(not_shown)?;
        if ends_hold && settings.dry_run == DryRun::Off {
            change.check_end_of_hold(step, io, out).await?;
        }
        match settings.dry_run {
            DryRun::Client => {
                change.print_result(&after.object, io, out)?;
                Ok(Exit::Success)
            }
            DryRun::Server => {
                let object = change.apply(step, io, out).await?;
                change.note_applied(ChangeStage::TriedOut, &object);
                change.delete_pods(&object, io, out).await?;
                if settings.output.is_none() {
                    write!(
                        out,
                        "{}",
                        change.view(io).text(|page| render::change::made_by_server(&change.report, page))
                    )?;
                }
                change.print_result(&object, io, out)?;
                Ok(Exit::Success)
            }
            DryRun::Off => {
                let object = change.apply(step, io, out).await?;
                change.note_applied(ChangeStage::Applied, &object);
                change.delete_pods(&object, io, out).await?;
                let mut out = OutAfterChange::new(out);
                let finished = change.finish(&snapshot, &object, io, &mut out).await;
                io.interrupt.changes_are_reported();
                if out.failure.is_some() {
                    // The change must not go unnoticed.
                    writeln!(io.err, "{}", change.applied())?;
                    return out.end(finished, "the change was applied");
                }
                match finished {
                    Ok(Exit::Success) if settings.watch => follow(daemon_set, &target, &session, io, out.out).await,
                    finished => finished,
                }
            }
        }
    }
}

/// Makes sense of the flags that every subcommand takes, for one that changes a DaemonSet.
///
/// # Errors
///
/// Fails if they choose DaemonSets in another way, and if a dump is to be changed.
pub(super) fn resolve(
    target: GlobalArgs,
    named: &Named,
    is_dry_run: bool,
    io: &Io<'_>,
) -> Result<Target, CommandError> {
    let mut target = target.resolve(io)?;
    target.choose(named.namespace.clone(), std::slice::from_ref(&named.name))?;
    if target.is_dump() && !is_dry_run {
        let hint = "add --dry-run=client to see what would be done";
        return Err(CommandError::usage("a dump cannot be changed").hint(hint));
    }
    Ok(target)
}

/// Returns whether this program replaces the pods of a DaemonSet, and not the controller.
fn is_staged(daemon_set: &DaemonSet) -> bool {
    daemon_set.flavor() == Flavor::Apps && Hold::in_force(daemon_set).is_some()
}

/// Returns whether the controller replaces the pods of a DaemonSet by itself.
fn is_rolled_out(daemon_set: &DaemonSet) -> bool {
    match &daemon_set.spec.update_strategy {
        UpdateStrategy::RollingUpdate(rolling) => {
            !rolling.paused && rolling.partition.is_none_or(|partition| partition.value() == 0)
        }
        UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => false,
    }
}

/// Follows the rollout of a DaemonSet until it is done.
async fn follow(
    daemon_set: &DaemonSet,
    target: &Target,
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    out.flush()?;
    let settings = WatchArgs::until_available();
    let display = settings.progress.display(None, target.color, target.view(io.width()), io)?;
    let followed = FollowedRollouts {
        query: Query::of(daemon_set),
        is_named: true,
        to_revision: None,
        output: None,
        view: target.view(io.width()),
        display,
        map: Map { is_shown: false, label: ZONE.to_owned() },
        accept: Vec::new(),
        templates: None,
    };
    Box::pin(status_watch::run(settings, followed, session, io, out)).await
}

/// Returns the one DaemonSet that was found.
pub(super) fn only_one<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a DaemonSet, CommandError> {
    let all: Vec<_> = snapshot.daemon_sets_of_any_flavor().collect();
    match all.as_slice() {
        [one] => Ok(one),
        several => {
            let namespaces: Vec<_> = several.iter().map(|one| one.metadata.namespace.as_str()).collect();
            Err(CommandError::usage(format!("{} DaemonSets are named {name:?}", several.len()))
                .hint(format!("choose one with -n: {}", namespaces.join(", "))))
        }
    }
}

/// Returns the pod that a step deletes.
fn pod_of(step: &Step) -> Option<&PodRef> {
    match step {
        Step::DeletePod(pod) => Some(pod),
        _ => None,
    }
}

/// How soon a controller puts back what it does not want.
const REACTION: Duration = Duration::from_secs(1);

/// One change on its way.
struct PendingChange<'a> {
    settings: &'a ChangeArgs,
    switches: Vec<&'static str>,
    session: &'a Session,
    target: &'a Target,
    before: &'a Revisions<'a>,
    plan: &'a Plan,
    report: ChangePlan,
    /// How many pods were deleted.
    deleted: usize,
}

impl PendingChange<'_> {
    fn view(&self, io: &Io<'_>) -> View {
        self.target.view(io.width())
    }

    /// Shows what is about to happen: the changes, and the warnings.
    fn show(&self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let view = self.view(io);
        if self.settings.output.is_none() {
            write!(out, "{}", view.text(|page| render::change::plan(&self.report, page)))?;
            out.flush()?;
        }
        Ok(write!(io.err, "{}", view.text(|page| render::change::warnings(&self.report, page)))?)
    }

    /// Tries out the end of a hold, and warns if admission changes the template with that.
    async fn check_end_of_hold(&mut self, step: &Step, io: &mut Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let daemon_set = self.before.daemon_set;
        let interrupt = io.interrupt.clone();
        let tried = check_end_of_hold(step, daemon_set, self.session.source.live()?, interrupt.requested());
        let tried = show_progress(tried, &self.session.progress, io).await;
        self.session.print_warnings(io)?;
        let tried = match tried {
            Ok(tried) => tried,
            Err(error) => return Err(self.not_applied(ChangeStage::Refused, error, io, out)),
        };
        let live = daemon_set.template();
        if let Some(tried) = tried.filter(|tried| !tried.same_meaning(&live)) {
            let summary = in_a_few_words(&difference(&live, &tried)).join(", ");
            let is_on_delete =
                Hold::of(daemon_set).is_some_and(|hold| hold.original_strategy() == UpdateStrategy::OnDelete);
            let rolled_out = if is_on_delete { "" } else { ", and the controller rolls that out" };
            let message = format!("the server also changes the template{rolled_out}: {summary}");
            warn(vec![message], io)?;
        }
        Ok(())
    }

    /// Notes what became of a change that was not applied, and prints that as data if it is asked for.
    fn not_applied(&mut self, stage: ChangeStage, error: CommandError, io: &Io<'_>, out: &mut dyn Write) -> Failure {
        self.report.outcome.stage = stage;
        if self.settings.output.as_ref().is_some_and(Output::is_data) {
            // The error is more important than that nobody reads the plan.
            let _ = self.print("", None, io, out).is_ok_and(|()| out.flush().is_ok());
        }
        error.into()
    }

    /// Applies the step, and returns the object as it became.
    async fn apply(&mut self, step: &Step, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Value, Failure> {
        let is_dry_run = self.settings.dry_run == DryRun::Server;
        let interrupt = io.interrupt.clone();
        if interrupt.is_requested() {
            return Err(interrupted().into());
        }
        if !is_dry_run {
            interrupt.expect_changes();
        }
        let server = ApiServer { live: self.session.source.live()?, is_dry_run };
        let patience = self.settings.given_patience().unwrap_or(Duration::MAX);
        let application = timeout(patience, server.apply(step, self.before.daemon_set, interrupt.requested()));
        let application = show_progress(application, &self.session.progress, io).await;
        let application = application.unwrap_or_else(|_| Application::Unknown(not_answered(patience)));
        self.session.print_warnings(io)?;
        let title = self.report.daemon_set.title();
        let kept = match &application {
            Application::Kept(Kept::Strategy, object) => DaemonSet::from_object(object.clone()).ok(),
            _ => None,
        };
        let noted = match &application {
            Application::Kept(Kept::All, object) => self.noted_pace(object),
            _ => None,
        };
        let is_kept = kept.is_some();
        let NotApplied { stage, changes, mut error } = match applied_or_not(application, &title, self.repeat()) {
            Ok(object) => return Ok(object),
            Err(not_applied) => *not_applied,
        };
        if let (Some(noted), false) = (noted, is_dry_run) {
            error = error.hint(noted);
        }
        if is_kept && is_dry_run {
            error = error.hint("nothing was changed: this was a dry run");
        } else if is_kept && self.plan.action == Action::Pause {
            error = refusal::not_held(error, &self.report.daemon_set, None);
        } else if let Some(kept) = kept.filter(|_| self.plan.action == Action::Resume) {
            error = refusal::not_restored(error, step, self.before.daemon_set, &kept);
        }
        if !changes.is_empty() {
            let text = self.view(io).text(|page| render::change::concurrent_edit(&title, &changes, page));
            write!(io.err, "{text}")?;
        }
        self.report.outcome.changed_by_others = changes;
        let stage = if is_kept && is_dry_run { ChangeStage::Refused } else { stage };
        Err(self.not_applied(stage, error, io, out))
    }

    /// Deletes the pods of the plan, each as it was read, as long as the DaemonSet is as it became: it is read right before. A pod
    /// that has changed since then is left: it may be available.
    async fn delete_pods(&mut self, retried: &Value, io: &mut Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let is_dry_run = self.settings.dry_run == DryRun::Server;
        let plan = self.plan;
        let pods = || plan.steps.iter().filter_map(|step| Some((step, pod_of(step)?)));
        let Some((_, first)) = pods().next() else { return Ok(()) };
        // What a dry run has made is not stored.
        let retried = match is_dry_run {
            true => self.before.daemon_set.clone(),
            false => DaemonSet::from_object(retried.clone()).map_err(|error| {
                let error = CommandError::new(format!("no pod was deleted: {error}"));
                self.end_deletions(first, LeftBecause::NotReached, error, io, out)
            })?,
        };
        let mut changed = Vec::new();
        for (step, pod) in pods() {
            let interrupt = io.interrupt.clone();
            let server = ApiServer { live: self.session.source.live()?, is_dry_run };
            let work = async {
                if interrupt.is_requested() {
                    return Err(interrupted());
                }
                match server.read_daemon_set(self.before.daemon_set).await? {
                    Some(now) if is_as_retried(&retried, &now) => {
                        Ok(server.apply(step, self.before.daemon_set, interrupt.requested()).await)
                    }
                    _ => {
                        let name = self.report.daemon_set.title();
                        Err(CommandError::new(format!("{name} was changed after it was retried")))
                    }
                }
            };
            let application = show_progress(work, &self.session.progress, io).await;
            self.session.print_warnings(io)?;
            let (left, error) = match application {
                Ok(Application::Applied(_)) => {
                    self.deleted += 1;
                    continue;
                }
                Ok(Application::Refused(StepRefusal::ByServer(error) | StepRefusal::NotApplied(error)))
                | Err(error) => (LeftBecause::NotReached, error),
                Ok(Application::Unknown(error) | Application::NotSeen(error)) if is_dry_run => {
                    (LeftBecause::NotReached, error)
                }
                Ok(Application::Unknown(error)) => {
                    let exit = if error.exit == Exit::Interrupted { error.exit } else { Exit::OutcomeUnknown };
                    (LeftBecause::Unknown, CommandError { exit, ..error })
                }
                Ok(Application::NotSeen(error)) => {
                    let error = CommandError { exit: Exit::OutcomeUnknown, ..error };
                    (
                        LeftBecause::Unknown,
                        error.hint("the pod was not deleted when it was read again, and may still be"),
                    )
                }
                Ok(Application::Refused(_) | Application::Recreated | Application::Kept(..)) => {
                    self.leave(pod, LeftBecause::Changed);
                    changed.push(pod.name.as_str());
                    continue;
                }
            };
            return Err(self.end_deletions(pod, left, error, io, out));
        }
        if !changed.is_empty() {
            let left = count_and(
                changed.len(),
                "pod",
                ["was changed after it was read, and is", "were changed after they were read, and are"],
            );
            warn(vec![format!("{left} left: {}", changed.join(", "))], io)?;
        }
        Ok(())
    }

    /// Ends the deletions with a pod that was not deleted, or not for certain, and notes that none after it is.
    fn end_deletions(
        &mut self,
        last: &PodRef,
        left: LeftBecause,
        error: CommandError,
        io: &Io<'_>,
        out: &mut dyn Write,
    ) -> Failure {
        let plan = self.plan;
        let rest = plan.steps.iter().filter_map(pod_of).skip_while(|pod| *pod != last);
        rest.for_each(|pod| self.leave(pod, if pod == last { left } else { LeftBecause::NotReached }));
        let mut so_far = format!("pods deleted before that: {}", self.deleted);
        let stage = match self.report.outcome.stage {
            ChangeStage::TriedOut => ChangeStage::Refused,
            stage => {
                so_far = format!("the annotation {RETRIED_ANNOTATION} was written; {so_far}");
                if left == LeftBecause::Unknown { ChangeStage::Unknown } else { stage }
            }
        };
        if left == LeftBecause::Unknown {
            so_far = format!("it is not known whether pod {} was deleted; {so_far}", last.name);
        }
        let error = error.hint(self.repeat().after(&so_far));
        self.not_applied(stage, error, io, out)
    }

    /// Notes why a pod of the plan is not deleted.
    fn leave(&mut self, pod: &PodRef, left: LeftBecause) {
        let is_it = |backoff: &&mut Backoff| backoff.pod.as_ref().is_some_and(|found| found.pod == pod.name);
        self.report.backoffs.iter_mut().filter(is_it).for_each(|backoff| backoff.left = Some(left));
    }

    /// Returns how to remove what was noted about a pace that was not set.
    fn noted_pace(&self, object: &Value) -> Option<Fix> {
        let noted = |object: &Value| object.pointer("/metadata/annotations")?.get(RAISED_PACE_ANNOTATION).cloned();
        noted(object).filter(|now| noted(&self.before.daemon_set.object).as_ref() != Some(now))?;
        let name = &self.report.daemon_set;
        let command = Command::kubectl(&["annotate"]).namespace(&name.namespace).name(name.full());
        let advice = format!("the annotation {RAISED_PACE_ANNOTATION} was written all the same; to remove it");
        Some(Fix::new(advice, command.name(format!("{RAISED_PACE_ANNOTATION}-"))))
    }

    /// Returns how to find out about the change, or to repeat it without doing more than was asked for.
    fn repeat(&self) -> Fix {
        let daemon_set = &self.report.daemon_set;
        let on =
            |arguments: &[&str]| Command::kubectl(arguments).namespace(&daemon_set.namespace).name(daemon_set.short());
        let command = match self.plan.action {
            Action::Undo { to_revision } => match self.settings.replaces_pods() {
                true => daemon_set.undo(to_revision),
                // Of a DaemonSet that is held, the updated nodes are rolled back otherwise.
                false => daemon_set.undo(to_revision).switch("--no-wait"),
            },
            Action::Set(fields) => set::command(daemon_set, fields),
            Action::Retry => daemon_set.command(Subcommand::Retry),
            Action::Pause => daemon_set.command(Subcommand::Pause),
            Action::Resume => daemon_set.command(Subcommand::Resume),
            Action::Partition(_) => {
                return Fix::new("to see how far it is", daemon_set.command(Subcommand::Status));
            }
            Action::Restart => {
                let advice = "before you restart again, see whether the template was changed";
                return Fix::new(advice, on(&["ds", "history", "--diff"]));
            }
        };
        let dry_run = (self.settings.dry_run == DryRun::Server).then_some("--dry-run=server");
        let switches = self.switches.iter().copied().chain(dry_run);
        Fix::new("to repeat it", switches.fold(command, |command, switch| command.switch(switch)))
    }

    /// Notes that a step was applied, and how the server's result differs from the planned one, because of webhooks and
    /// defaults.
    fn note_applied(&mut self, stage: ChangeStage, object: &Value) {
        self.report.outcome.stage = stage;
        let Ok(planned) = self.plan.applied_to(&self.before.daemon_set.object) else { return };
        let template = |object: &Value| object.pointer("/spec/template").cloned().map(Template::new);
        self.report.outcome.made_by_server = match (template(&planned), template(object)) {
            _ if !self.report.kind.changes_template() => changes(&planned, object),
            (Some(planned), Some(made)) => difference(&planned, &made),
            _ => Vec::new(),
        };
    }

    /// Returns the sentence that the change was made, as kubectl prints it.
    fn applied(&self) -> String {
        let verb = match self.plan.action {
            Action::Undo { .. } => "rolled back",
            Action::Restart if !self.report.pods_left.is_empty() => "changed; no pod restarts until it is deleted",
            Action::Restart => "restarted",
            Action::Retry if self.deleted > 0 => {
                return format!(
                    "{} retried; {} deleted",
                    sanitize(&self.report.daemon_set.full()),
                    count(self.deleted, "pod")
                );
            }
            Action::Retry => "retried",
            Action::Set(_) => "updated",
            Action::Pause => "paused",
            Action::Resume => "resumed",
            Action::Partition(_) => "partitioned",
        };
        format!("{} {verb}", sanitize(&self.report.daemon_set.full()))
    }

    /// Prints the plan with the object, or the sentence that the change was made.
    fn print_result(&self, object: &Value, io: &Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let dry_run = match self.settings.dry_run {
            DryRun::Off => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        let sentence = self.view(io).show(&self.applied());
        self.print(&format!("{sentence}{dry_run}\n"), Some(object), io, out)
    }

    /// Prints the plan with its outcome and the object, only a name, or else a text.
    fn print(&self, text: &str, object: Option<&Value>, io: &Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let mut object = object.cloned();
        if let Some(metadata) = object.iter_mut().find_map(|object| object.get_mut("metadata")?.as_object_mut()) {
            // As kubectl does.
            metadata.remove("managedFields");
        }
        let mut report = ChangePlan { object, ..self.report.clone() };
        match &self.settings.output {
            None => write!(out, "{text}")?,
            Some(Output::Name) => writeln!(out, "{}", sanitize(&report.daemon_set.full()))?,
            output => drop(output::print_data(output.as_ref(), &mut report, &self.view(io), out)?),
        }
        Ok(())
    }

    /// Prints that the change was applied, waits for the controller, and prints the outcome.
    async fn finish(
        &mut self,
        snapshot: &Snapshot,
        object: &Value,
        io: &Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        // Without the permission to list revisions a new one cannot be seen, and what is being deleted is not reconciled.
        let sees_revisions = snapshot.gap(Kind::ControllerRevisions, &self.report.daemon_set.namespace).is_none();
        let sees_outcome = sees_revisions || !self.report.kind.changes_template();
        // That the controller looks at the object leaves no trace in it.
        let sees_outcome = sees_outcome && self.plan.action != Action::Retry;
        let is_observed = sees_outcome && !self.before.daemon_set.metadata.is_terminating();
        let Some(patience) = self.settings.patience().filter(|_| is_observed) else {
            self.print_result(object, io, out)?;
            if self.settings.output.is_none() {
                write!(out, "{}", self.view(io).text(|page| render::change::revert(&self.report, page)))?;
            }
            out.flush()?;
            return Ok(Exit::Success);
        };
        let is_text = self.settings.output.is_none();
        if is_text {
            write!(out, "{}", self.view(io).show(&self.applied()))?;
            out.flush()?;
        }
        let mut put_back = None;
        let error = match self.wait(object, patience, io).await {
            Ok(Some((outcome, by))) => {
                self.report.outcome = outcome;
                if by.is_some() && self.plan.action != Action::Pause {
                    self.report.outcome.stage = ChangeStage::Unknown;
                }
                put_back = by;
                None
            }
            Ok(None) if self.is_missing(object).await => {
                let message = "the API server confirmed the change, but the DaemonSet does not have it";
                let error = CommandError { exit: Exit::OutcomeUnknown, ..CommandError::new(message) };
                self.report.outcome.stage = ChangeStage::Unknown;
                Some(error.hint(self.repeat().after("it is not known whether the change was applied")))
            }
            Ok(None) => Some(not_observed(Some(patience))),
            Err(error) => Some(CommandError {
                message: format!("the change was applied, and waiting for the controller failed: {}", error.message),
                ..error
            }),
        };
        if is_text && error.is_none() {
            write!(out, "{}", self.view(io).text(|page| render::change::outcome(&self.report, page)))?;
        } else if is_text {
            writeln!(out)?;
            write!(out, "{}", self.view(io).text(|page| render::change::revert(&self.report, page)))?;
        } else {
            self.print_result(object, io, out)?;
        }
        out.flush()?;
        match error {
            None => match put_back {
                Some(by) => Err(self.put_back(&by).into()),
                None => Ok(Exit::Success),
            },
            Some(error) if matches!(error.exit, Exit::Interrupted | Exit::OutcomeUnknown) => Err(error.into()),
            Some(error) => Err(CommandError { exit: Exit::NotObserved, stands_alone: false, ..error }.into()),
        }
    }

    /// Makes the error of a change that did not last.
    fn put_back(&self, by: &[String]) -> CommandError {
        let by = by.iter().map(|manager| format!("{manager:?}"));
        let by = by.reduce(|by, next| format!("{by} and {next}")).unwrap_or_else(|| "something".to_owned());
        if self.plan.action != Action::Pause {
            let message = format!(
                "the API server confirmed the change, but the DaemonSet no longer has it: {by} has taken it back"
            );
            let error = CommandError { exit: Exit::OutcomeUnknown, ..CommandError::new(message) };
            return error.hint(self.repeat());
        }
        let name = &self.report.daemon_set;
        let message = format!("the rollout of {} is not paused: {by} has put the update strategy back", name.title());
        let error = CommandError::new(message);
        refusal::not_held(error, name, None)
    }

    /// Returns whether a DaemonSet has nothing of this change, or is not paused although this change has paused it.
    fn is_put_back(&self, live: &DaemonSet, changed_again: bool) -> bool {
        let before = self.before.daemon_set;
        if live.metadata.uid != before.metadata.uid {
            return false;
        }
        if self.plan.action != Action::Pause {
            let patches = self.plan.steps.iter().filter_map(|step| match step {
                Step::PatchDaemonSet(patch) => Some(patch),
                _ => None,
            });
            return changed_again && patches.into_iter().all(|patch| is_undone(patch, &before.object, &live.object));
        }
        match &live.spec.update_strategy {
            UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => false,
            UpdateStrategy::RollingUpdate(rolling) => !rolling.paused,
        }
    }

    /// Returns whether the DaemonSet is older than the object with the change.
    async fn is_missing(&self, object: &Value) -> bool {
        let applied = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let Ok(live) = self.session.source.live() else { return false };
        let read = timeout(REREAD, live.read_daemon_set(self.before.daemon_set)).await;
        matches!(read, Ok(Ok(Some(now))) if now.metadata.generation < applied)
    }

    /// Waits until the controller has observed the change; returns `None` if it has not in time. If a pause was put back, the
    /// field managers that did it are returned, too.
    async fn wait(
        &self,
        object: &Value,
        patience: Duration,
        io: &Io<'_>,
    ) -> Result<Option<(ChangeOutcome, Option<Vec<String>>)>, CommandError> {
        let query = Query { wanted: Wanted::History(PodsOf::None), ..Query::of(self.before.daemon_set) };
        let applied = AppliedChange::new(&self.report, object, self.before);
        let settled = Instant::now() + REACTION.min(patience / 2);
        let outcome = |snapshot: &Snapshot| {
            let daemon_set = snapshot.daemon_sets_of_any_flavor().next()?;
            let outcome = applied.outcome(daemon_set, snapshot)?;
            if self.is_put_back(daemon_set, outcome.changed_again) {
                return Some((outcome, Some(managers(object, &daemon_set.object))));
            }
            // Only a pause that lasts is one.
            let is_settled = self.plan.action != Action::Pause || Instant::now() >= settled;
            is_settled.then_some((outcome, None))
        };
        tokio::select! {
            biased;
            outcome = self.session.poll_until(&query, patience, outcome) => Ok(outcome?),
            () = io.interrupt.requested() => Err(interrupted()),
        }
    }
}
