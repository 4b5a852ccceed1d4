//! Carries out one stage of a partition: writes, watches, deletes pods, and says what happens.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout};

use super::api_server::REREAD;
use super::fleet_gate::Fleet;
use super::not_applied::{not_observed, quoted};
use super::partition_progress::{PAUSE, StageProgress};
use super::partition_requests::{Replaced, older, unanswered};
use super::session::{Session, tell_long_wait};
use super::status_watch::ForeignPods;
use super::watch::{RejectedCredentials, check_readable};
use super::{Failure, interrupted, refusal};
use crate::cluster::Query;
use crate::cluster::error::ClusterError;
use crate::cluster::live::{Live, Watch};
use crate::error::{CommandError, Exit};
use crate::facts::controller::Controller;
use crate::facts::index::Index;
use crate::facts::revisions::Revisions;
use crate::facts::short_lists::short_lists;
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::hold::{Hold, RUN_ANNOTATION, STOPPED};
use crate::model::int_or_percent::int;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::plan::{FIELD_MANAGER, Plan, PodRef, SpecFields, StrategyType};
use crate::render;
use crate::render::progress::ReadProgress;
use crate::render::view::View;
use crate::report::fix::Fix;
use crate::report::partition::{Gate, GateFailure, PartitionOutcome, PartitionReport, PartitionStage};
use crate::rollout::apply::template;
use crate::rollout::concurrent_edit::{is_of_others, managers, written_at};
use crate::rollout::partition::course::{Course, Happening};
use crate::rollout::partition::instruction::{
    Finished, Instruction, Look, Loss, StageCounts, Waiting, broken_nodes, down_before, finished, is_late, late, loss,
    next_instruction,
};
use crate::rollout::partition::plan::{PlannedStage, StageRequest};
use crate::rollout::partition::ready_times::ReadyTimes;
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::partition::unseen::is_older;
use crate::rollout::partition::way_out::Continued;
use crate::rollout::partition::{Stage, kept};
use crate::rollout::set;
use crate::rollout::situation::Situation;

/// How long a client that was replaced by this one may need to notice that, and to finish what it has begun.
const HANDOVER: Duration = Duration::from_secs(1);

/// How long until everything is listed once more, if the lists lack what the status counts.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// How long the controller's status may say that more pods are not ready than a watch has shown, before all is read again.
const SILENCE: Duration = Duration::from_secs(10);

/// A stage that is carried out.
pub(super) struct Run<'a> {
    pub(super) request: &'a StageRequest,
    /// The other DaemonSets before the first of several stages.
    pub(super) fleet: Option<&'a Fleet>,
    pub(super) session: &'a Session,
    pub(super) live: &'a Live,
    pub(super) view: &'a View,
    /// The DaemonSet as it was read.
    pub(super) before: &'a DaemonSet,
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    pub(super) report: PartitionReport,
    /// The revision that the nodes had before, if it is known.
    pub(super) back_to: Option<i64>,
    /// The file of the manifest whose template is rolled out.
    pub(super) manifest: Option<&'a str>,
    /// How what happens is shown.
    pub(super) progress: StageProgress,
    /// What time is measured by.
    pub(super) clock: RunClock,
    pub(super) ready_times: ReadyTimes,
    /// How long the controller may take at the beginning; `None` as long as progress may.
    pub(super) patience: Option<Duration>,
    /// Plans the stage for a template that admission has made of the one that was sent.
    pub(super) plan_for: &'a dyn Fn(&Template) -> Result<PlannedStage, CommandError>,
    /// The DaemonSet as this run has written it.
    pub(super) written: Option<DaemonSet>,
    /// Whether the DaemonSet is no longer held by this client; the error says how to continue.
    pub(super) is_lost: bool,
}

impl<'a> Run<'a> {
    /// Carries the stage out.
    pub(super) async fn carry_out(&mut self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        self.write_plan(io).await?;
        self.report.outcome.stage = PartitionStage::Begun;
        if !matches!(self.request.template, NewTemplate::Live) {
            // The controller gives a revision that becomes current a new number.
            self.report.revision = None;
        }
        let mut watch = self.wait_until_observed(io, out).await?;
        if !self.stage.nodes.is_empty() {
            let message = format!(
                "Updating {} of {} nodes to revision {}, keeping {}",
                self.stage.nodes.len(),
                self.report.desired,
                self.report.revision.unwrap_or_default(),
                self.report.partition
            );
            self.tell(io, "PartitionBegun", "Normal", &message).await;
        }
        let trouble = self.earlier_trouble(&watch, io, out).await?;
        let mut ended = match trouble.is_empty() {
            true => self.update(&mut watch, io, out).await?,
            false => Ended::Stopped(trouble),
        };
        if let (Ended::Done { updated, .. }, Some(fleet)) = (&ended, self.fleet) {
            let trouble = self.new_trouble(fleet, updated, io, out).await?;
            if !trouble.is_empty() {
                ended = Ended::Stopped(trouble);
            }
        }
        let snapshot = watch.last_snapshot();
        if let Some(daemon_set) = snapshot.daemon_sets.first() {
            self.back_to = Revisions::of(daemon_set, snapshot).way_back(self.back_to, snapshot);
        }
        match ended {
            Ended::Done { held, failures, .. } => {
                let finishes = kept(self.stage.keep, usize::try_from(self.report.desired).unwrap_or(0)) == 0;
                // The controller would not replace what an undo has left as it was.
                let is_left = self.request.is_undo() && self.report.original_strategy.is_on_delete();
                if finishes && (held == 0 || is_left && self.report.restores_strategy) {
                    self.finish(&mut watch, io, out).await?;
                    self.report.outcome.stage = PartitionStage::Finished;
                    let message = format!("{}; the update strategy is restored", self.counts());
                    self.tell(io, "PartitionFinished", "Normal", &message).await;
                } else {
                    self.report.outcome.stage = PartitionStage::Complete;
                    self.tell(io, "PartitionComplete", "Normal", &self.counts()).await;
                }
                self.report.outcome.failures = failures;
                Ok(if self.report.outcome.failures.is_empty() { Exit::Success } else { Exit::No })
            }
            Ended::Stopped(failures) => {
                self.report.outcome.stage = PartitionStage::Stopped;
                let message = failures.first().map(GateFailure::in_words);
                self.report.outcome.failures = failures;
                self.tell(io, STOPPED, "Warning", &message.unwrap_or_default()).await;
                Ok(Exit::No)
            }
            Ended::Lost(loss) => Err(self.lost_after_look(loss, &mut watch, io).await),
        }
    }

    /// Returns the trouble of other DaemonSets on nodes that an earlier run has updated, before this one updates more: that run may have died
    /// before there was any.
    async fn earlier_trouble(
        &mut self,
        watch: &Watch<'a>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Vec<GateFailure>, Failure> {
        let is_first = self.request.staging.as_ref().is_some_and(|staging| staging.passed == 0);
        let goes_on = Hold::in_force(self.before).is_some_and(|hold| hold.rollout_began().is_some());
        let Some(fleet) = self.fleet.filter(|_| is_first && goes_on && !self.stage.nodes.is_empty()) else {
            return Ok(Vec::new());
        };
        let updated = next_instruction(watch.last_snapshot(), &self.stage).counts.updated;
        self.new_trouble(fleet, &updated, io, out).await
    }

    /// Says how far the stage is.
    fn counts(&self) -> String {
        let PartitionOutcome { updated, old, .. } = &self.report.outcome;
        format!("{updated} {} updated, {old} on other revisions", if *updated == 1 { "node" } else { "nodes" })
    }

    pub(super) fn query(&self) -> Query {
        Query::of(self.before)
    }

    /// Says how to go on after a run that has ended early.
    pub(super) fn repeat(&self) -> Fix {
        repeat(&self.report, self.request, self.manifest)
    }

    /// Builds the error of a cluster that cannot be read.
    pub(super) fn unread(&self, error: impl Into<CommandError>) -> CommandError {
        error.into().hint(self.repeat())
    }

    /// Makes of an error that ends a stage after it has begun that of a change which was applied and is not finished, and says how to
    /// continue unless it does. Of a DaemonSet that this client no longer holds, nothing is left to finish.
    pub(super) fn unfinished(&self, failure: Failure) -> Failure {
        let has_begun = !matches!(self.report.outcome.stage, PartitionStage::Planned | PartitionStage::Unknown);
        match failure {
            Failure::Error(error)
                if has_begun && !self.is_lost && matches!(error.exit, Exit::Error | Exit::TimedOut) =>
            {
                let says_how = error.hints.iter().any(|hint| hint.command.is_some());
                error.exit(Exit::NotObserved).hints((!says_how).then(|| self.repeat())).into()
            }
            failure => failure,
        }
    }

    /// Builds the error of a DaemonSet that this client no longer holds.
    pub(super) fn lost(&mut self, loss: Loss) -> Failure {
        self.is_lost = true;
        let again = Continued::of_run(&self.report, self.request).again();
        // A rollback goes back to its own revision, which undo alone might not choose.
        let target = self.request.undone_revision().map(|number| self.report.revision.unwrap_or(number));
        let error = refusal::lost(&self.report.daemon_set, loss, again, self.back_to.or(target));
        let name = &self.report.daemon_set;
        // The pace is retained under OnDelete.
        let fields = SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..SpecFields::default() };
        let restore = match loss {
            Loss::AnnotationsRemoved { .. } if self.report.original_strategy.is_on_delete() => None,
            Loss::AnnotationsRemoved { is_held: true } => Some(name.command("resume")),
            Loss::AnnotationsRemoved { is_held: false } => Some(set::command(name, fields)),
            _ => None,
        };
        error.hints(restore.map(|restore| Fix::new("to let the controller update all nodes", restore))).into()
    }

    /// Builds the error of a DaemonSet that this client no longer holds, after all was read again: the rollout may have been finished
    /// meanwhile, so that the strategy was restored.
    pub(super) async fn lost_after_look(&mut self, loss: Loss, watch: &mut Watch<'a>, io: &mut Io<'_>) -> Failure {
        if loss == Loss::Deleted {
            return self.deleted().await;
        }
        let may_be_finished = matches!(loss, Loss::StrategyPutBack | Loss::AnnotationsRemoved { is_held: false });
        if !may_be_finished || !matches!(self.read_again(watch, io).await, Ok(None)) {
            return self.lost(loss);
        }
        let snapshot = watch.last_snapshot();
        let index = Index::new(snapshot);
        let Some((found, Finished { updated, desired })) =
            snapshot.daemon_sets.first().and_then(|it| Some((it, finished(&Situation::new(&index, it), &self.stage)?)))
        else {
            return self.lost(loss);
        };
        self.is_lost = true;
        (self.report.outcome.updated, self.report.outcome.old) = (int(updated), int(desired - updated));
        let revision = self.report.revision.unwrap_or_default();
        let by = managers(&self.written.as_ref().unwrap_or(self.before).object, &found.object);
        let how = match by.as_slice() {
            [] => "the rollout was finished without this run".to_owned(),
            // Whoever else restores the strategy replaces no pods.
            by if !by.iter().any(|manager| manager == FIELD_MANAGER) => {
                format!("{} has restored the update strategy, and the controller has finished the rollout", quoted(by))
            }
            _ => "another client has finished the rollout".to_owned(),
        };
        CommandError::new(format!("{how}: {updated} of {desired} on revision {revision}")).into()
    }

    /// Writes what the plan begins with.
    pub(super) async fn write_plan(&mut self, io: &mut Io<'_>) -> Result<(), Failure> {
        if let Some(step) = self.plan.step.clone() {
            let (object, is_overwritten) = self.apply(&step, self.before, io).await?;
            if is_overwritten
                && let Some(loss) = DaemonSet::from_object(object.clone()).ok().and_then(|now| loss(&now, &self.stage))
            {
                self.report.outcome.stage = PartitionStage::Begun;
                return Err(self.lost(loss));
            }
            if let Some(stored) = template(&object) {
                let is_same = self.before.flavor() == Flavor::Advanced || self.stage.template.same_meaning(&stored);
                if !is_same && is_of_others(&self.before.object, &object) {
                    self.report.outcome.stage = PartitionStage::Begun;
                    return Err(self.lost(Loss::TemplateChanged));
                }
                self.stage.template = stored;
                // The nodes of the stage were chosen for the planned one.
                if !is_same {
                    self.plan_again(io)?;
                }
            }
            self.written = DaemonSet::from_object(object.clone()).ok();
            // A proxy may have written the dates of the answers, but not the times in an object.
            if let Some(written_at) = written_at(&object) {
                self.clock = RunClock::starting_at(written_at);
            }
        }
        // The user may have been asked meanwhile.
        self.stage.last_progress = self.clock.now();
        Ok(())
    }

    /// Plans a rollback again that has another template than a dry run has shown, and shows it: an admission webhook that makes another one
    /// each time must not prevent it. Fails if the stage is none, or cannot be planned with that template.
    fn plan_again(&mut self, io: &mut Io<'_>) -> Result<(), Failure> {
        self.report.outcome.stage = PartitionStage::Begun;
        let may_go_on = matches!(self.request.template, NewTemplate::Revision(_));
        let planned = may_go_on.then(|| (self.plan_for)(&self.stage.template)).transpose();
        let Ok(Some(PlannedStage { stage, report, .. })) = planned else {
            self.report.revision = None;
            let continued = match self.request.template {
                // The one that is there was not left as it was, and may not be the next time.
                NewTemplate::Live => {
                    self.is_lost = true;
                    None
                }
                _ => Some(self.repeat()),
            };
            return Err(refusal::template_altered(&self.report.daemon_set, continued, planned.err()).into());
        };
        self.stage = stage;
        self.report = PartitionReport { outcome: self.report.outcome.clone(), ..report };
        Ok(self.view.write(io.err, |page| {
            page.paragraph("the template differs from the one that was shown; the new plan:", |text| text);
            render::partition::plan(&self.report, page);
            render::change::warnings(&self.report.warnings, &self.report.incomplete, page);
        })?)
    }

    /// Watches, and waits until the controller has observed the change.
    async fn wait_until_observed(&mut self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Watch<'a>, Failure> {
        if self.before.annotations.contains_key(RUN_ANNOTATION) {
            self.pause(io, HANDOVER).await?;
        }
        // If a patience was given, nothing else ends the wait, neither sooner nor later.
        let deadline = self.stage.gates.progress_deadline;
        if self.patience.is_some() {
            self.stage.gates.progress_deadline = SignedDuration::MAX;
        }
        let (mut watch, mut unread) = (None, None);
        let observed = timeout(self.patience.unwrap_or(Duration::MAX), async {
            let watch = watch.insert(self.watch(&mut unread, io, out).await?);
            self.wait_for_revision(watch, io, out).await
        });
        let observed = observed.await;
        self.stage.gates.progress_deadline = deadline;
        let failure = match (observed, watch) {
            (Ok(Ok(())), Some(watch)) => return Ok(watch),
            (Ok(Err(failure)), _) => return Err(failure),
            // The controller may have acted, which was not seen.
            (_, Some(watch)) => watch.staleness().cloned().map(CommandError::from),
            (_, None) => Some(unread.map_or_else(unanswered, CommandError::from)),
        };
        let failed = |error: CommandError| {
            let message = format!("the change was applied, and waiting for the controller failed: {}", error.message);
            CommandError { exit: Exit::NotObserved, message, stands_alone: false, ..error }
        };
        let error = failure.map_or_else(|| not_observed(Controller::of(self.before), self.patience), failed);
        Err(error.hint(self.repeat().after("the update strategy stays suspended")).into())
    }

    /// Waits until the controller has observed the change, and notes the revision of the template.
    async fn wait_for_revision(
        &mut self,
        watch: &mut Watch<'a>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut doubt = Staleness::default();
        loop {
            let looked = Instant::now();
            self.check(watch, &mut doubt, io).await?;
            let snapshot = self.unless_interrupted(io, watch.snapshot()).await?;
            let found = snapshot.daemon_sets.first();
            let Some(daemon_set) = found else { return Err(self.lost(Loss::Deleted)) };
            let is_older = is_older(daemon_set, self.written.as_ref());
            if let Some(loss) = loss(daemon_set, &self.stage).filter(|_| !is_older) {
                return Err(self.lost(loss));
            }
            if !is_older
                && daemon_set.is_observed()
                && let Some(current) = Revisions::of(daemon_set, snapshot).current()
            {
                current.object.hash().clone_into(&mut self.stage.hash);
                self.report.revision = Some(current.number());
                self.stage.last_progress = self.clock.now();
                return Ok(());
            }
            if self.is_late_again(watch, &mut doubt, io).await? {
                let stale = || CommandError::new(format!("the change was applied, but {}", older().message));
                let error = match self.short(watch.last_snapshot(), None) {
                    _ if is_older => stale().exit(Exit::NotObserved),
                    Some(short) => short,
                    None => not_observed(Controller::of(self.before), None),
                };
                return Err(error.hint(self.repeat()).into());
            }
            let what = match is_older {
                true => format!("waiting: {}", older().message),
                false => "waiting for the controller".to_owned(),
            };
            self.wait(Some(what), watch, looked, io, out).await?;
        }
    }

    /// Returns the error for lists that lack what the status counts, other than pods that the controller may not have replaced yet.
    fn short(&self, snapshot: &Snapshot, unlisted: Option<String>) -> Option<CommandError> {
        let has_pod = |name: &str| snapshot.pods.iter().any(|pod| pod.spec.node_name == name);
        let nodes = snapshot.nodes.iter().map(|node| node.metadata.name.as_str());
        let mut replaced = nodes.filter(|name| self.stage.replaced_at.contains_key(*name));
        let awaits_pods = !replaced.all(has_pod);
        let is_short = || short_lists(snapshot).iter().any(|gap| gap.kind != Kind::Pods || !awaits_pods);
        let fewer = || is_short().then(|| "fewer objects were listed than the status counts".to_owned());
        Some(CommandError::new(unlisted.or_else(fewer)?).exit(Exit::NotObserved))
    }

    /// Says what is waited for, shows how far the stage is, and waits until it is time to look again.
    pub(super) async fn wait(
        &mut self,
        what: Option<String>,
        watch: &mut Watch<'a>,
        looked: Instant,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        self.progress.wait_for(what, self.view, out)?;
        self.progress.draw(&self.report, watch, io)?;
        self.unless_interrupted(io, self.progress.next_look(watch, looked)).await
    }

    /// Returns whether the deadline has passed, also after everything was read again. Fails if it has passed and nothing can be read.
    pub(super) async fn is_late_again(
        &mut self,
        watch: &mut Watch<'a>,
        doubt: &mut Staleness,
        io: &mut Io<'_>,
    ) -> Result<bool, Failure> {
        // While requests fail, what the controller does is not known.
        if doubt.since.is_some() {
            return Ok(false);
        }
        if !is_late(&self.stage, self.clock.now()) {
            doubt.is_read_again = false;
            return Ok(false);
        }
        if std::mem::replace(&mut doubt.is_read_again, true) {
            return Ok(true);
        }
        if let Some(error) = self.read_again(watch, io).await? { Err(self.unread(error).into()) } else { Ok(false) }
    }

    /// Replaces pods until the stage ends.
    async fn update(&mut self, watch: &mut Watch<'a>, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Ended, Failure> {
        let mut course = Course::default();
        let mut doubt = Staleness::default();
        let mut is_read_again = false;
        let mut unread = None;
        let mut has_begun = false;
        let mut soaks_until = None;
        let mut stale_since = None;
        let mut short_since = None;
        let (mut unlisted_since, mut is_unlisted) = (None, false);
        let mut is_failing = false;
        let mut excused = SignedDuration::ZERO;
        let mut is_refused_again = false;
        let mut time = self.clock.now();
        loop {
            let looked = Instant::now();
            self.check(watch, &mut doubt, io).await?;
            self.unless_interrupted(io, watch.snapshot()).await?;
            // While requests fail, time stands still: nothing becomes available or late that is only out of date.
            match watch.staleness() {
                Some(_) => is_failing = true,
                None => {
                    let now = self.clock.now();
                    if std::mem::take(&mut is_failing) {
                        // What has happened meanwhile is seen only now. Requests that keep failing end a stage all the same.
                        let left = self.stage.gates.progress_deadline.saturating_sub(excused);
                        let outage = now.duration_since(time).min(left);
                        excused = excused.saturating_add(outage);
                        self.stage.last_progress += outage;
                    }
                    time = now;
                }
            }
            let mut snapshot = self.on_clock(watch.last_snapshot(), time, io);
            if !std::mem::replace(&mut has_begun, true) {
                self.stage.begin(&snapshot);
            }
            self.stage.forget_found(&snapshot);
            let Look { step, counts, unlisted } = next_instruction(&snapshot, &self.stage);
            // That it was deleted, or is another one, is what a watch may be wrong about, too.
            let is_gone = |loss: Loss| matches!(loss, Loss::Deleted | Loss::Recreated);
            // It ends for nothing that incomplete lists show, however often they are read.
            if is_read_again
                && matches!(step, Instruction::Stop(_) | Instruction::Done(_))
                && let Some(short) = self.short(&snapshot, unlisted.clone())
            {
                if time.duration_since(*short_since.get_or_insert(time)) >= self.stage.gates.progress_deadline {
                    return Err(self.unread(short).into());
                }
                is_read_again = false;
                self.progress.wait_for(Some(format!("waiting: {}", short.message)), self.view, out)?;
                self.progress.draw(&self.report, watch, io)?;
                self.pause(io, READ_AGAIN).await?;
                continue;
            }
            let is_confirmed = match &step {
                Instruction::Stop(_) | Instruction::Done(_) => true,
                Instruction::Lost(loss) => is_gone(*loss),
                _ => false,
            };
            if !is_confirmed {
                (is_read_again, unread, short_since) = (false, None, None);
            }
            // Pods are replaced, and the strategy is restored, only if what is known is up to date.
            let step = match step {
                Instruction::Replace { .. } | Instruction::Verify { .. } | Instruction::Done(_)
                    if doubt.since.is_some() =>
                {
                    Instruction::Wait(Waiting::Server)
                }
                step => step,
            };
            if !matches!(step, Instruction::Lost(_)) {
                if course.progresses(&counts) {
                    (self.stage.last_progress, excused) = (time, SignedDuration::ZERO);
                    soaks_until = None;
                    if matches!(step, Instruction::Stop(_)) {
                        // The deadline has not passed after all.
                        continue;
                    }
                }
                self.note(&counts, course.happenings(&counts, time), out)?;
            }
            match step {
                Instruction::Done(failures) if is_read_again => {
                    return Ok(Ended::Done { held: counts.held, updated: counts.updated, failures });
                }
                Instruction::Lost(loss) if is_read_again || !is_gone(loss) => return Ok(Ended::Lost(loss)),
                Instruction::Stop(failures) if is_read_again => {
                    let failures = self.with_namespace(&mut snapshot, failures, io).await?;
                    let broken = self.broken_nodes(&snapshot, &failures, io).await?;
                    let down = self.down_before(&snapshot, &failures, io).await?;
                    if !broken.is_empty() || !down.is_empty() {
                        let failed = "all other pods failed there before the rollout, too";
                        let silent = "its kubelet had stopped renewing the node's lease before the pod was deleted";
                        let why =
                            broken.iter().map(|node| (node, failed)).chain(down.iter().map(|node| (node, silent)));
                        for (node, why) in why {
                            self.progress.say(&format!("{node}: {why}; not waiting for it"), self.view, out)?;
                        }
                        self.stage.broken.extend(broken);
                        self.stage.down.extend(down);
                        continue;
                    }
                    for node in self.stage.take_back_deletions(&snapshot) {
                        self.report.outcome.replaced.retain(|replaced| *replaced != node);
                        course.not_replaced(&node);
                    }
                    let counts = next_instruction(&snapshot, &self.stage).counts;
                    self.note(&counts, course.happenings(&counts, time), out)?;
                    return Ok(Ended::Stopped(failures));
                }
                step @ (Instruction::Stop(_) | Instruction::Done(_) | Instruction::Lost(_)) => {
                    match self.read_again(watch, io).await? {
                        None => (is_read_again, unread) = (true, None),
                        Some(error)
                            if time.duration_since(*unread.get_or_insert(time))
                                >= self.stage.gates.progress_deadline =>
                        {
                            return match step {
                                // What is known is that the gate has failed.
                                Instruction::Stop(failures) if !self.request.rolls_back => Ok(Ended::Stopped(failures)),
                                // Nothing is rolled back for what may be out of date.
                                Instruction::Stop(failures) => {
                                    let unconfirmed = unconfirmed(&failures);
                                    Err(self.unread(error).hint(unconfirmed).into())
                                }
                                _ => Err(self.unread(error).into()),
                            };
                        }
                        Some(error) => {
                            self.progress.wait_for(Some(format!("waiting: {error}")), self.view, out)?;
                            self.progress.draw(&self.report, watch, io)?;
                            self.pause(io, PAUSE).await?;
                        }
                    }
                }
                Instruction::Wait(waiting) => {
                    // A pod that fails while it soaks has as long to recover as it had to start. A soak that begins again
                    // because of it does not count.
                    if let Waiting::Soak(end) = waiting {
                        let end = *soaks_until.get_or_insert(end);
                        self.stage.last_progress = self.stage.last_progress.max(time.min(end));
                    }
                    (unlisted_since, is_unlisted) = match &unlisted {
                        // A watch may have fallen silent.
                        Some(_) if looked.duration_since(unlisted_since.unwrap_or(looked)) >= SILENCE => {
                            self.read_again(watch, io).await?;
                            (Some(looked), true)
                        }
                        Some(_) => (unlisted_since.or(Some(looked)), is_unlisted),
                        None => (None, false),
                    };
                    let unlisted = unlisted.filter(|_| is_unlisted).map(|why| format!("waiting: {why}"));
                    self.wait(unlisted.or_else(|| waiting.describe(time)), watch, looked, io, out).await?;
                }
                Instruction::Verify { node, pod, uid } => {
                    if let Some(failure) = self.verify(&node, &pod, io).await? {
                        return Ok(Ended::Stopped(vec![failure]));
                    }
                    self.stage.verified.insert(uid);
                    self.stage.last_progress = self.clock.now();
                    // What has happened meanwhile decides about the next pod, and may have queued up for long.
                    self.unless_interrupted(io, catch_up(watch)).await?;
                }
                Instruction::Replace { node, pod } => {
                    let seen = snapshot.daemon_sets.first();
                    let replaced = match self.replace((seen, &counts), &node, &pod, watch, io).await? {
                        Replaced::Stale(why) if is_late(&self.stage, self.clock.now()) => Replaced::Later(Some(why)),
                        replaced => replaced,
                    };
                    let why = match replaced {
                        Replaced::Yes => {
                            (is_refused_again, stale_since, soaks_until) = (false, None, None);
                            self.note_replaced(&node, &pod, out)?;
                            course.replaced(&node, self.stage.last_progress);
                            self.progress.draw_if_due(&self.report, watch, io)?;
                            continue;
                        }
                        Replaced::Lost(loss) => return Ok(Ended::Lost(loss)),
                        // This says nothing about the new pods.
                        Replaced::Unanswered(error) if is_late(&self.stage, self.clock.now()) => {
                            return Err(self.unread(error).into());
                        }
                        // The watch may have missed what has changed.
                        Replaced::Later(why) if is_late(&self.stage, self.clock.now()) => {
                            if std::mem::replace(&mut is_refused_again, true) {
                                let message =
                                    why.unwrap_or_else(|| format!("pod {} on {node} keeps changing", pod.name));
                                return Ok(Ended::Stopped(vec![late(&message, &self.stage)]));
                            }
                            match self.read_again(watch, io).await? {
                                None => continue,
                                Some(error) => {
                                    is_refused_again = false;
                                    Some(error.to_string())
                                }
                            }
                        }
                        Replaced::Stale(_) if looked.duration_since(*stale_since.get_or_insert(looked)) < SILENCE => {
                            None
                        }
                        // A watch may have fallen silent.
                        Replaced::Stale(_) => {
                            stale_since = None;
                            match self.read_again(watch, io).await? {
                                None => continue,
                                Some(error) => Some(error.to_string()),
                            }
                        }
                        Replaced::Unanswered(error) => {
                            // The deletion may be carried out later.
                            if error.exit == Exit::OutcomeUnknown {
                                course.may_replace(&node);
                            }
                            Some(error.message)
                        }
                        Replaced::Later(why) => why,
                    };
                    self.wait(why.map(|why| format!("waiting: {why}")), watch, Instant::now(), io, out).await?;
                }
            }
        }
    }

    /// Begins to watch, once the API server answers. Until then, `unread` is why it does not.
    pub(super) async fn watch(
        &mut self,
        unread: &mut Option<ClusterError>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Watch<'a>, Failure> {
        let mut is_missing = false;
        loop {
            let error = match self.unless_interrupted(io, Box::pin(self.live.watch(self.query()))).await? {
                Ok(watch) => return Ok(watch),
                Err(error) => error,
            };
            // A cache may be behind.
            if matches!(error, ClusterError::NotFound { .. }) && !std::mem::replace(&mut is_missing, true) {
                self.pause(io, PAUSE).await?;
                continue;
            }
            if !error.is_transient() || is_late(&self.stage, self.clock.now()) {
                return Err(self.unreadable(error).await);
            }
            self.progress.wait_for(Some(format!("waiting: {error}")), self.view, out)?;
            *unread = Some(error);
            self.pause(io, PAUSE).await?;
        }
    }

    /// Lists everything again, because a watch may miss changes, for example behind a proxy. Returns the error if a request
    /// fails for now.
    pub(super) async fn read_again(
        &mut self,
        watch: &mut Watch<'a>,
        io: &mut Io<'_>,
    ) -> Result<Option<ClusterError>, Failure> {
        match self.unless_interrupted(io, Box::pin(self.live.watch(self.query()))).await? {
            Ok(fresh) => {
                *watch = fresh;
                Ok(None)
            }
            Err(error) if error.is_transient() => Ok(Some(error)),
            Err(error) => Err(self.unreadable(error).await),
        }
    }

    /// Makes the failure of a DaemonSet that cannot be watched: it may not be there any more.
    async fn unreadable(&mut self, error: ClusterError) -> Failure {
        match error {
            ClusterError::NotFound { .. } => self.deleted().await,
            error => self.unread(error).into(),
        }
    }

    /// Makes the failure of a DaemonSet that no list contains any more: it was deleted, unless it can be read by its name.
    async fn deleted(&mut self) -> Failure {
        let uid = &self.before.metadata.uid;
        match timeout(REREAD, self.live.read_daemon_set(self.before)).await {
            Ok(Ok(Some(found))) if found.metadata.uid == *uid && !found.metadata.is_terminating() => {
                let message =
                    "the DaemonSet can be read by its name, but is not in the lists of the API server any more";
                self.unread(CommandError::new(message)).into()
            }
            _ => self.lost(Loss::Deleted),
        }
    }

    /// Reads the namespace, which is not watched, if no pod was created: that it is being deleted would be why, and no event says so.
    async fn with_namespace(
        &self,
        snapshot: &mut Snapshot,
        failures: Vec<GateFailure>,
        io: &mut Io<'_>,
    ) -> Result<Vec<GateFailure>, Failure> {
        if failures.iter().all(|failure| failure.pod.is_some()) {
            return Ok(failures);
        }
        let names = BTreeSet::from([self.report.daemon_set.namespace.clone()]);
        self.unless_interrupted(io, self.live.read_namespaces(snapshot, &names)).await?;
        Ok(match next_instruction(snapshot, &self.stage).step {
            Instruction::Stop(failures) => failures,
            _ => failures,
        })
    }

    /// Returns the nodes whose gates do not hold because of the nodes; none if their pods cannot be read.
    async fn broken_nodes(
        &self,
        snapshot: &Snapshot,
        failures: &[GateFailure],
        io: &mut Io<'_>,
    ) -> Result<BTreeSet<String>, Failure> {
        let nodes = failures.iter().filter_map(|failure| failure.node.clone()).collect();
        let read = self.unless_interrupted(io, ForeignPods::read(snapshot, &nodes, self.session)).await?;
        let all = read.ok().and_then(|foreign_pods| foreign_pods.add_to(snapshot));
        let broken = all.map(|all| broken_nodes(&all, failures)).unwrap_or_default();
        Ok(broken.into_iter().filter(|node| !self.stage.broken.contains(node)).collect())
    }

    /// Returns the nodes whose gates do not hold, and that had gone down before their pod was deleted, as far as that is known.
    async fn down_before(
        &self,
        snapshot: &Snapshot,
        failures: &[GateFailure],
        io: &mut Io<'_>,
    ) -> Result<BTreeSet<String>, Failure> {
        let of_nodes = failures.iter().filter(|failure| failure.gate == Gate::NodeReady);
        let nodes = of_nodes.filter_map(|failure| failure.node.clone()).collect();
        let renewed = self.unless_interrupted(io, self.live.kubelet_renewals(&nodes)).await?;
        Ok(down_before(snapshot, &self.stage, failures, &renewed))
    }

    /// Returns what a watch has seen, at a time by the clock of this run.
    fn on_clock(&mut self, seen: &Snapshot, time: Timestamp, io: &Io<'_>) -> Snapshot {
        self.ready_times.on_clock(seen, time, self.session.now(io).min((io.clock)()))
    }

    /// Notes that the pod of a node was deleted.
    fn note_replaced(&mut self, node: &str, pod: &PodRef, out: &mut dyn Write) -> Result<(), Failure> {
        let now = self.clock.now();
        self.stage.deleted.insert(pod.uid.clone());
        self.stage.replaced_at.insert(node.to_owned(), now);
        self.stage.last_progress = now;
        self.report.outcome.replaced.push(node.to_owned());
        let done = self.report.outcome.replaced.len();
        // What another client has replaced before is not of the plan.
        let all = self.stage.nodes.len().max(done);
        let verb = if self.request.evict { "evicted" } else { "deleted" };
        Ok(self.progress.say(&format!("{node}: pod {} {verb} ({done} of {all})", pod.name), self.view, out)?)
    }

    /// Checks whether what the watch knows is up to date. Fails if it has not been for the progress deadline, which says nothing about the
    /// new pods.
    pub(super) async fn check(
        &mut self,
        watch: &mut Watch<'_>,
        doubt: &mut Staleness,
        io: &mut Io<'_>,
    ) -> Result<(), Failure> {
        // What is read last decides whether the rest is up to date.
        self.unless_interrupted(io, watch.snapshot()).await?;
        check_readable(watch).map_err(|error| self.unread(error))?;
        self.progress.warn(watch, io)?;
        doubt.rejection.check(watch).map_err(|error| self.unread(error))?;
        doubt.since = match watch.staleness() {
            None => None,
            Some(failure) => {
                let since = doubt.since.unwrap_or_else(|| self.clock.now());
                if self.clock.now().duration_since(since) >= self.stage.gates.progress_deadline {
                    return Err(self.unread(failure.clone()).into());
                }
                Some(since)
            }
        };
        Ok(())
    }

    /// Waits for the API server, or for the request to end.
    pub(super) async fn unless_interrupted<T>(
        &self,
        io: &mut Io<'_>,
        wait: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let interrupt = io.interrupt.clone();
        let done = self.tell_long_wait(interrupt.unless_requested(wait), io).await;
        done.ok_or_else(|| self.interrupted().into())
    }

    /// Pauses, unless the request to end comes.
    pub(super) async fn pause(&self, io: &Io<'_>, pause: Duration) -> Result<(), Failure> {
        io.interrupt.unless_requested(sleep(pause)).await.ok_or_else(|| self.interrupted().into())
    }

    /// Waits for the API server, and says so if that takes long, unless a screen is drawn that a line would break.
    pub(super) async fn tell_long_wait<T>(&self, wait: impl Future<Output = T>, io: &mut Io<'_>) -> T {
        if self.progress.has_screen() { wait.await } else { tell_long_wait(wait, &ReadProgress::default(), io).await }
    }

    /// Builds the error of a run that is interrupted.
    pub(super) fn interrupted(&self) -> CommandError {
        if self.report.outcome.stage == PartitionStage::Planned {
            return interrupted().unchanged();
        }
        interrupted().hint(match self.before.flavor() {
            Flavor::Apps => self.repeat().after("the update strategy stays suspended"),
            Flavor::Advanced => "the partition is set, and the controller continues".into(),
        })
    }

    /// Notes how far the stage is, and says what has happened.
    fn note(&mut self, counts: &StageCounts, happenings: Vec<Happening>, out: &mut dyn Write) -> Result<(), Failure> {
        let outcome = &mut self.report.outcome;
        (outcome.updated, outcome.old) = (int(counts.updated.len()), int(counts.old));
        let is_replaced = |node: &&String| !counts.updated.contains(node) && outcome.replaced.contains(node);
        outcome.being_replaced = counts.in_flight.iter().filter(is_replaced).cloned().collect();
        outcome.gone.clone_from(&counts.gone);
        self.report.skipped.clone_from(&counts.skipped);
        for happening in happenings {
            let text = match happening {
                Happening::Available(node, after) => {
                    format!("{node}: the new pod is available after {}s", after.as_secs())
                }
                Happening::Returned(node) => {
                    format!(
                        "{node}: the controller has created another pod of an older revision there; it is replaced, too"
                    )
                }
                Happening::Gone(node) => format!("{node}: no longer eligible, or deleted"),
                Happening::Excluded(node) => format!(
                    "{node}: no longer eligible, so its pod is not replaced; the controller may delete that pod for good once the update \
                     strategy is restored"
                ),
                Happening::Leaked(node) => {
                    let text = format!("{node}: has a pod of the new revision that this run did not create");
                    self.report.outcome.leaked.push(node);
                    text
                }
            };
            self.progress.say(&text, self.view, out)?;
        }
        Ok(())
    }
}

/// Waits until a watch has nothing new for a moment.
async fn catch_up(watch: &mut Watch<'_>) {
    let end = Instant::now() + PAUSE;
    while Instant::now() < end && timeout(PAUSE / 4, watch.changed()).await.is_ok() {}
}

/// Says that gates have failed, and that nothing was rolled back because of that.
fn unconfirmed(failures: &[GateFailure]) -> String {
    let first = failures.first().map_or(String::new(), |failure| format!(" ({})", failure.in_words()));
    format!("a gate had failed before that{first}; the stage is not rolled back, because that may be out of date")
}

/// Says how to go on with a stage that has ended early; `manifest` is the file of its template.
pub(super) fn repeat(report: &PartitionReport, request: &StageRequest, manifest: Option<&str>) -> Fix {
    let continued = Continued::of_run(report, request);
    let command = match report.outcome.stage {
        PartitionStage::Planned | PartitionStage::Unknown => continued.whole_again(request, manifest),
        _ => continued.again(),
    };
    match command {
        Some(command) => Fix::new("to continue", command),
        None => Fix::new("to see how far it is, and how to continue", report.daemon_set.command("status")),
    }
}

/// The clock of a run: it shows the time of the API server at its beginning, and goes on by this machine's monotonic clock, so
/// that no other clock that is wrong, or is set, makes time pass.
pub(super) struct RunClock {
    start: Timestamp,
    started: Instant,
}

impl RunClock {
    pub(super) fn starting_at(start: Timestamp) -> Self {
        RunClock { start, started: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// Why what a watch knows may be out of date.
#[derive(Default)]
pub(super) struct Staleness {
    /// Since when requests fail.
    pub(super) since: Option<Timestamp>,
    rejection: RejectedCredentials,
    /// Whether everything was read again because the deadline had passed.
    is_read_again: bool,
}

/// How a stage has ended.
enum Ended {
    /// All is updated; on how many nodes a pod of an older revision is held, so that the strategy must stay suspended, which nodes
    /// have a pod of the revision, and which gates do not hold after a rollback that had no pod left to replace.
    Done {
        held: usize,
        updated: Vec<String>,
        failures: Vec<GateFailure>,
    },
    Stopped(Vec<GateFailure>),
    Lost(Loss),
}
