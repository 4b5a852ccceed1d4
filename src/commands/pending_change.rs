//! A change in progress: shows, applies, observes and reports it.

use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::api_server::{ApiServer, REREAD};
use super::change_args::{ChangeArgs, DryRun};
use super::hold_trial::{check_end_of_hold, tried};
use super::not_applied::{NotApplied, applied_or_not, not_observed, quoted};
use super::output::{self, Output};
use super::session::{Session, show_progress, warn};
use super::{Failure, interrupted, refusal};
use crate::cluster::{Query, Wanted};
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::difference::object::changes;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::controller::Controller;
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::raised_pace::RAISED_PACE_ANNOTATION;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::{Plan, SpecFields, Step};
use crate::render;
use crate::report::change::{Change, Op, PathStep};
use crate::report::fix::{Command, Fix};
use crate::report::plan::{ChangeOutcome, ChangePlan, ChangeStage, PlanKind, Warning, WarningCode};
use crate::rollout::apply::{Application, Kept, has_spec_of};
use crate::rollout::concurrent_edit::managers;
use crate::rollout::observed::AppliedChange;
use crate::rollout::risks::nodes_changed_by_server;
use crate::rollout::set;
use crate::rollout::situation::Situation;

/// How long the trial of a change may take, which must not hold it up.
const TRIAL: Duration = Duration::from_secs(10);

/// How soon a controller reverts an unwanted change.
const REACTION: Duration = Duration::from_secs(1);

/// A change in progress.
pub(super) struct PendingChange<'a> {
    pub(super) settings: &'a ChangeArgs,
    pub(super) switches: Vec<&'static str>,
    pub(super) fields: SpecFields,
    pub(super) session: &'a Session,
    pub(super) before: &'a Situation<'a>,
    pub(super) plan: &'a Plan,
    pub(super) report: ChangePlan,
}

impl PendingChange<'_> {
    /// Shows the changes and the warnings.
    pub(super) fn show(&self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        if self.settings.output.is_none() {
            self.session.view.write(out, |page| render::change::plan(&self.report, page))?;
            out.flush()?;
        }
        self.warn(io)
    }

    /// Shows the warnings, and what could not be read.
    pub(super) fn warn(&self, io: &mut Io<'_>) -> Result<(), Failure> {
        let ChangePlan { warnings, incomplete, .. } = &self.report;
        Ok(self.session.view.write(io.err, |page| render::change::warnings(warnings, incomplete, page))?)
    }

    /// Tries out a change, and warns if the server would do more than was shown: a webhook may rewrite the template in every write. Fails
    /// if something keeps what a hold has suspended. Any other error is that of the change itself, or proves nothing.
    pub(super) async fn try_out(
        &mut self,
        step: &Step,
        ends_hold: bool,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (daemon_set, live) = (self.before.daemon_set, self.session.source.live()?);
        let interrupt = io.interrupt.clone();
        let tried = async {
            match ends_hold {
                true => check_end_of_hold(step, daemon_set, live, interrupt.requested()).await,
                false => Ok(match tried(step, daemon_set, live, interrupt.requested()).await? {
                    Some(Application::Applied(object)) => Some(object),
                    _ => None,
                }),
            }
        };
        let time_limit = self.settings.given_time_limit().map_or(TRIAL, |given| given.min(TRIAL));
        let tried = show_progress(timeout(time_limit, tried), &self.session.progress, io).await;
        if tried.is_err() {
            let message =
                "the API server did not answer the dry run of the change: whether it would change more is not known";
            warn(vec![message.to_owned()], io)?;
        }
        match ends_hold {
            true => self.session.print_warnings(io)?,
            // The change itself repeats them.
            false => live.observed().forget_warnings(),
        }
        let made = match tried.unwrap_or(Ok(None)) {
            Ok(made) => made,
            Err(error) => {
                let is_carried_out = error.exit == Exit::OutcomeUnknown;
                let stage = if is_carried_out { ChangeStage::Unknown } else { ChangeStage::Refused };
                return Err(self.not_applied(stage, error, out));
            }
        };
        if let Some(message) = made.and_then(|made| self.more_than_shown(&made)) {
            warn(vec![message.clone()], io)?;
            self.report.warnings.push(Warning::new(WarningCode::ServerChangesMore, message));
        }
        Ok(())
    }

    /// Tells what a result has in its spec that was not shown.
    fn more_than_shown(&self, made: &Value) -> Option<String> {
        let (planned, of_template, beside) = self.made_by_server(made)?;
        let field = |change: &Change, at: usize| match change.path.0.get(at) {
            Some(PathStep::Field(name)) => Some(name.clone()),
            _ => None,
        };
        // What is added to another update strategy may be a default.
        let is_default =
            |change: &Change| change.op == Op::Add && field(change, 1).as_deref() == Some("updateStrategy");
        let is_of_spec = |change: &&Change| field(change, 0).as_deref() == Some("spec") && !is_default(change);
        let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "<none>".to_owned(), Value::to_string);
        let beside = beside.iter().filter(is_of_spec);
        let beside: Vec<String> =
            beside.map(|change| format!("{} {} → {}", change.path, value(&change.from), value(&change.to))).collect();
        let beside = beside.join(", ");
        if of_template.is_empty() {
            return (!beside.is_empty()).then(|| format!("the server also changes {beside}"));
        }
        let is_on_delete = planned.pointer("/spec/updateStrategy/type").is_some_and(|it| it == "OnDelete");
        let rolled_out = if is_on_delete { "" } else { ", and the controller rolls that out" };
        let beside = if beside.is_empty() { beside } else { format!(", {beside}") };
        let summary = in_a_few_words(&of_template).join(", ");
        let daemon_sets = [&planned, made].map(|object| DaemonSet::from_object(object.clone()).ok());
        let nodes = match &daemon_sets {
            [Some(planned), Some(made)] => nodes_changed_by_server(self.before, planned, made),
            _ => None,
        };
        let nodes = nodes.map_or_else(String::new, |nodes| format!("; {nodes}"));
        Some(format!("the server also changes the template{rolled_out}: {summary}{beside}{nodes}"))
    }

    /// Returns the planned DaemonSet, and how a result differs from it: in the template, and in the rest.
    fn made_by_server(&self, made: &Value) -> Option<(Value, Vec<Change>, Vec<Change>)> {
        let planned = self.plan.applied_to(&self.before.daemon_set.object).ok()?;
        let template = |object: &Value| object.pointer("/spec/template").cloned().map(Template::new);
        let (Some(of_plan), Some(of_server)) = (template(&planned), template(made)) else {
            let changes = changes(&planned, made);
            return Some((planned, Vec::new(), changes));
        };
        let mut beside = made.clone();
        beside["spec"]["template"] = planned["spec"]["template"].clone();
        let beside = changes(&planned, &beside);
        Some((planned, difference(&of_plan, &of_server), beside))
    }

    /// Records the outcome of a change that was not applied, and prints it as data if requested.
    fn not_applied(&mut self, stage: ChangeStage, error: CommandError, out: &mut dyn Write) -> Failure {
        self.report.outcome.stage = stage;
        if self.settings.output.is_some_and(Output::is_data) {
            // The error is more important than a failure to print the plan.
            let _ = self.print("", None, out).is_ok_and(|()| out.flush().is_ok());
        }
        error.into()
    }

    /// Applies the step, and returns the resulting object.
    pub(super) async fn apply(&mut self, step: &Step, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Value, Failure> {
        let is_dry_run = self.settings.dry_run == DryRun::Server;
        let interrupt = io.interrupt.clone();
        if interrupt.is_requested() {
            return Err(interrupted().into());
        }
        if !is_dry_run {
            interrupt.expect_changes();
        }
        let server = ApiServer { live: self.session.source.live()?, is_dry_run };
        let time_limit = self.settings.given_time_limit().unwrap_or(Duration::MAX);
        let application = server.apply(step, self.before.daemon_set, time_limit, interrupt.requested());
        let application = show_progress(application, &self.session.progress, io).await;
        self.session.print_warnings(io)?;
        let name = &self.report.daemon_set;
        let not_applied = match applied_or_not(application, name, self.repeat()) {
            Ok(object) => return Ok(object),
            Err(not_applied) => *not_applied,
        };
        not_applied.show_changes(name, &self.session.view, io.err)?;
        let NotApplied { mut stage, changes, kept, error } = not_applied;
        let error = match (kept, self.report.kind) {
            (Some((Kept::All, now)), _) if !is_dry_run => error.hints(self.noted_pace(&now.object)),
            (Some((Kept::Strategy | Kept::Annotation(_), _)), _) if is_dry_run => {
                stage = ChangeStage::Refused;
                error.hint("nothing was changed: this was a dry run")
            }
            (Some((Kept::Strategy, _)), PlanKind::PausePlan) => refusal::not_paused(error, self.before.daemon_set),
            (Some((Kept::Annotation(_), now)), _) => refusal::half_held(error, self.before.daemon_set, &now),
            (Some((Kept::Strategy, now)), PlanKind::ResumePlan) => {
                refusal::not_restored(error, self.before.daemon_set, &now)
            }
            _ => error,
        };
        self.report.outcome.changed_by_others = changes;
        Err(self.not_applied(stage, error, out))
    }

    /// Returns how to remove the record of a pace that was not set.
    fn noted_pace(&self, object: &Value) -> Option<Fix> {
        let noted = |object: &Value| object.pointer("/metadata/annotations")?.get(RAISED_PACE_ANNOTATION).cloned();
        noted(object).filter(|now| noted(&self.before.daemon_set.object).as_ref() != Some(now))?;
        let name = &self.report.daemon_set;
        let command = Command::kubectl(&["annotate"]).namespace(&name.namespace).name(name.full());
        let advice = format!("the annotation {RAISED_PACE_ANNOTATION} was written all the same; to remove it");
        Some(Fix::new(advice, command.name(format!("{RAISED_PACE_ANNOTATION}-"))))
    }

    /// Returns how to find the outcome of the change, or to repeat it without doing more than requested.
    fn repeat(&self) -> Fix {
        let daemon_set = &self.report.daemon_set;
        let on =
            |arguments: &[&str]| Command::kubectl(arguments).namespace(&daemon_set.namespace).name(daemon_set.short());
        let command = match self.report.kind {
            PlanKind::UndoPlan => {
                let undo = daemon_set.undo(self.report.to_revision.unwrap_or_default());
                // For a held DaemonSet, the updated nodes are rolled back otherwise.
                if self.settings.replaces_pods() { undo } else { undo.switch("--no-wait") }
            }
            PlanKind::SetPlan => set::command(daemon_set, self.fields.with_other_zero()),
            PlanKind::RetryPlan => daemon_set.command("retry"),
            PlanKind::PausePlan => daemon_set.command("pause"),
            PlanKind::ResumePlan => daemon_set.command("resume"),
            PlanKind::RestartPlan => {
                let advice = "before you restart again, see whether the template was changed";
                return Fix::new(advice, on(&["ds", "history", "--diff"]));
            }
        };
        let dry_run = (self.settings.dry_run == DryRun::Server).then_some("--dry-run=server");
        let switches = self.switches.iter().copied().chain(dry_run);
        Fix::new("to repeat it", switches.fold(command, |command, switch| command.switch(switch)))
    }

    /// Records that a step was applied, and how the server's result differs from the planned one, because of webhooks and defaults.
    pub(super) fn note_applied(&mut self, stage: ChangeStage, object: &Value) {
        self.report.outcome.stage = stage;
        let Some((planned, of_template, beside)) = self.made_by_server(object) else { return };
        self.report.outcome.made_by_server = match self.report.kind.changes_template() {
            true => [of_template, beside].concat(),
            false => changes(&planned, object),
        };
    }

    /// Returns the sentence that the change was made, as kubectl prints it.
    pub(super) fn applied(&self) -> String {
        let verb = match self.report.kind {
            PlanKind::UndoPlan => "rolled back",
            PlanKind::RestartPlan if !self.report.pods_left.is_empty() => {
                "changed; no pod restarts until it is deleted"
            }
            PlanKind::RestartPlan => "restarted",
            PlanKind::RetryPlan => "retried",
            PlanKind::SetPlan => "updated",
            PlanKind::PausePlan => "paused",
            PlanKind::ResumePlan => "resumed",
        };
        format!("{} {verb}", sanitize(&self.report.daemon_set.full()))
    }

    /// Prints the plan with the object, or the sentence that the change was made.
    pub(super) fn print_result(&self, object: &Value, out: &mut dyn Write) -> Result<(), Failure> {
        let dry_run = match self.settings.dry_run {
            DryRun::Off => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        let sentence = self.session.view.show(&self.applied());
        self.print(&format!("{sentence}{dry_run}\n"), Some(object), out)
    }

    /// Prints the plan with its outcome and the object, only a name, or else a text.
    pub(super) fn print(&self, text: &str, object: Option<&Value>, out: &mut dyn Write) -> Result<(), Failure> {
        let mut object = object.cloned();
        if let Some(metadata) = object.iter_mut().find_map(|object| object.get_mut("metadata")?.as_object_mut()) {
            // Like kubectl.
            metadata.remove("managedFields");
        }
        let mut report = ChangePlan { object, ..self.report.clone() };
        report.outcome.server_warnings = self.session.server_warnings();
        match self.settings.output {
            None => write!(out, "{text}")?,
            Some(Output::Name) => writeln!(out, "{}", sanitize(&report.daemon_set.full()))?,
            output => drop(output::print_data(output, &mut report, &self.session.view, out)?),
        }
        Ok(())
    }

    /// Prints that the change was applied, waits for the controller, and prints the outcome.
    pub(super) async fn finish(
        &mut self,
        snapshot: &Snapshot,
        object: &Value,
        io: &Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        // Without permission to list revisions a new one cannot be seen, and a DaemonSet being deleted is not reconciled.
        let sees_revisions = snapshot.gap(Kind::ControllerRevisions, &self.report.daemon_set.namespace).is_none();
        let sees_outcome = sees_revisions || !self.report.kind.changes_template();
        // The controller's sync leaves no trace in the object.
        let sees_outcome = sees_outcome && self.report.kind != PlanKind::RetryPlan;
        let is_observed = sees_outcome && !self.before.daemon_set.metadata.is_terminating();
        let Some(time_limit) = self.settings.time_limit().filter(|_| is_observed) else {
            let is_real = self.settings.dry_run == DryRun::Off;
            if is_real
                && self.report.kind == PlanKind::RetryPlan
                && let Some(error) = self.missing(object).await
            {
                return Err(self.not_applied(ChangeStage::Unknown, error, out));
            }
            self.print_result(object, out)?;
            if self.settings.output.is_none() {
                self.session.view.write(out, |page| render::change::revert(&self.report, page))?;
            }
            out.flush()?;
            return Ok(Exit::Success);
        };
        let is_text = self.settings.output.is_none();
        if is_text {
            write!(out, "{}", self.session.view.show(&self.applied()))?;
            out.flush()?;
        }
        let mut put_back = None;
        let error = match self.wait(object, time_limit, io).await {
            Ok(Some((outcome, by))) => {
                self.report.outcome = outcome;
                if by.is_some() {
                    self.report.outcome.stage = ChangeStage::Unknown;
                }
                put_back = by;
                None
            }
            Ok(None) => {
                let missing = self.missing(object).await;
                if missing.is_some() {
                    self.report.outcome.stage = ChangeStage::Unknown;
                }
                missing.or_else(|| Some(not_observed(Controller::of(self.before.daemon_set), Some(time_limit))))
            }
            Err(error) => Some(CommandError {
                message: format!("the change was applied, and waiting for the controller failed: {}", error.message),
                ..error
            }),
        };
        if is_text && error.is_none() {
            let is_watched = self.settings.watch;
            self.session.view.write(out, |page| render::change::outcome(&self.report, is_watched, page))?;
        } else if is_text {
            writeln!(out)?;
            self.session.view.write(out, |page| render::change::revert(&self.report, page))?;
        } else {
            self.print_result(object, out)?;
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

    /// Builds the error for a change that was reverted.
    fn put_back(&self, by: &[String]) -> CommandError {
        let by = if by.is_empty() { "something".to_owned() } else { quoted(by) };
        if self.report.kind != PlanKind::PausePlan {
            let message = format!(
                "the API server confirmed the change, but the DaemonSet no longer has it: {by} has overwritten it"
            );
            return CommandError::new(message).exit(Exit::OutcomeUnknown).hint(self.repeat());
        }
        let title = self.report.daemon_set.title();
        let message = format!("the rollout of {title} is not paused: {by} has put the update strategy back");
        refusal::not_paused(CommandError::new(message), self.before.daemon_set)
    }

    /// Returns whether a DaemonSet no longer has this change as it was stored, or is not paused although this change has paused it.
    fn is_put_back(&self, stored: &Value, live: &DaemonSet, changed_again: bool) -> bool {
        let before = self.before.daemon_set;
        if live.metadata.uid != before.metadata.uid {
            return false;
        }
        if self.report.kind != PlanKind::PausePlan {
            return changed_again && self.plan.patch().is_some_and(|patch| !has_spec_of(patch, stored, &live.object));
        }
        match &live.spec.update_strategy {
            UpdateStrategy::OnDelete | UpdateStrategy::Unknown(_) => false,
            UpdateStrategy::RollingUpdate(rolling) => !rolling.paused,
        }
    }

    /// Reads the DaemonSet again, and returns the error for a change that the API server has confirmed and that is missing. A state from
    /// before the change proves nothing about it: behind a load balancer, API servers may be apart.
    async fn missing(&self, object: &Value) -> Option<CommandError> {
        let applied = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let live = self.session.source.live().ok()?;
        let read = timeout(REREAD, live.read_daemon_set(self.before.daemon_set)).await;
        let Ok(Ok(Some(DaemonSet { metadata: now, .. }))) = read else { return None };
        // An annotation on the DaemonSet itself does not change the generation.
        let message = match now.is_older_than(version) {
            true => format!(
                "the API server confirmed the change with resourceVersion {version}, and still answers from an older state, with \
                 resourceVersion {}",
                now.resource_version
            ),
            false if now.generation < applied => {
                "the API server confirmed the change, but the DaemonSet does not have it".to_owned()
            }
            false => return None,
        };
        let repeat = self.repeat().after("it is not known whether the change was applied");
        Some(CommandError::new(message).exit(Exit::OutcomeUnknown).hint(repeat))
    }

    /// Waits until the controller has observed the change; returns `None` on timeout. If a pause was reverted, the
    /// field managers that did it are returned, too. Fails if it is now a different DaemonSet.
    async fn wait(
        &self,
        object: &Value,
        time_limit: Duration,
        io: &Io<'_>,
    ) -> Result<Option<(ChangeOutcome, Option<Vec<String>>)>, CommandError> {
        let query = Query { wanted: Wanted::Revisions, ..Query::of(self.before.daemon_set) };
        let applied = AppliedChange::new(&self.report, object, &self.before.revisions);
        let settled = Instant::now() + REACTION.min(time_limit / 2);
        let half_held = Cell::new(None);
        let outcome = |snapshot: &Snapshot| {
            let daemon_set = snapshot.daemon_sets_of_any_flavor().next()?;
            let outcome = applied.outcome(daemon_set, snapshot)?;
            let is_on_delete = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
            if self.report.kind == PlanKind::PausePlan && is_on_delete && Hold::of(daemon_set).is_none() {
                half_held.set(Some(daemon_set.clone()));
            }
            if self.is_put_back(object, daemon_set, outcome.changed_again) {
                return Some((outcome, Some(managers(object, &daemon_set.object))));
            }
            // A pause only counts if it lasts.
            let is_settled = self.report.kind != PlanKind::PausePlan || Instant::now() >= settled;
            is_settled.then_some((outcome, None))
        };
        tokio::select! {
            biased;
            outcome = self.session.poll_until(&query, time_limit, outcome) => match (outcome?, half_held.take()) {
                (_, Some(now)) => {
                    let message = "something has removed the annotations by which `resume` restores the update strategy";
                    let error = CommandError::new(message);
                    Err(refusal::half_held(error, self.before.daemon_set, &now))
                }
                (Some((ChangeOutcome { stage: ChangeStage::Applied, .. }, _)), None) => {
                    let message = "the DaemonSet was deleted and created again";
                    Err(CommandError::new(message).exit(Exit::OutcomeUnknown).hint(self.repeat()))
                }
                (outcome, None) => Ok(outcome),
            },
            () = io.interrupt.requested() => Err(interrupted()),
        }
    }
}
