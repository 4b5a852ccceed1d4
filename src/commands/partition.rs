//! `partition`: updates some of the nodes, and keeps the others on older revisions.

use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::api_server::REREAD;
use super::change::{self, only_one};
use super::change_args::{ChangeArgs, DryRun};
use super::confirm::{check_writable, confirm};
use super::coverage::check_label;
use super::fleet_gate::Fleet;
use super::hold_trial::held_at;
use super::not_applied::not_shown;
use super::out_after_change::OutAfterChange;
use super::parse::Named;
use super::partition_args::PartitionArgs;
use super::partition_progress::{PAUSE, StageProgress};
use super::partition_requests::{older, unanswered};
use super::partition_run::{Run, RunClock, repeat};
use super::session::{GlobalArgs, Session, show_progress, warn};
use super::watch::{self, Display};
use super::{Failure, RunCommand, cluster_error, interrupted, is_absent, output, refusal};
use crate::cluster::error::ClusterError;
use crate::cluster::manifest::{self, Manifest};
use crate::coverage::gaps::incomplete_for_history;
use crate::difference::only_restarts;
use crate::encode::yaml;
use crate::error::{CommandError, Exit};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::{Revision, Revisions, name_of};
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::hold::WAY_BACK;
use crate::model::snapshot::{GapCause, Kind, Snapshot};
use crate::model::stages::Stratum;
use crate::model::template::Template;
use crate::render;
use crate::report::fix::{Command, Fix};
use crate::report::history::DaemonSetName;
use crate::report::partition::{GateFailure, PartitionReport, PartitionStage, StageState};
use crate::report::plan::Warning;
use crate::report::{count, count_and};
use crate::rollout::change_warnings::controller_down_warning;
use crate::rollout::new_pods::{not_asked, trial_of, trial_of_current};
use crate::rollout::partition::Stage;
use crate::rollout::partition::instruction::loss;
use crate::rollout::partition::job::job;
use crate::rollout::partition::plan::{PlannedStage, StageRequest, plan};
use crate::rollout::partition::ready_times::ReadyTimes;
use crate::rollout::partition::staging::{Staging, Unfinished, begins, begun_as, is_paused, unfinished_rollback};
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::partition::unseen::is_older;
use crate::rollout::partition::way_out::{Continued, way_out};
use crate::rollout::risks::risks_of_stage;
use crate::rollout::room::NewPods;
use crate::rollout::situation::Situation;

/// The longest time between two looks at a cluster whose answers are out of date.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a rollback waits for answers that it can be decided by: whoever has to roll back by hand must learn that soon.
const MOST_STALE: Duration = Duration::from_secs(60);

/// A DaemonSet whose nodes are updated, and how that is shown.
struct Order<'a> {
    named: &'a Named,
    dry_run: bool,
    /// Whether the user is not asked what may do harm.
    yes: bool,
    progress: watch::ProgressStyle,
    is_text: bool,
    /// What speaks against the revision to return to.
    doubts: Vec<Warning>,
    /// How long the controller may take at the beginning; `None` as long as progress may.
    patience: Option<Duration>,
    /// The generation with which a rollout may begin; `None` for any.
    if_generation: Option<i64>,
    /// The stage before, if there are several.
    earlier: Option<&'a Passed>,
    /// The other DaemonSets before the first of several stages, if they can be read.
    fleet: Option<&'a Fleet>,
    session: &'a Session,
}

/// A stage that has passed its gates and that another one follows.
struct Passed {
    stage: Stage,
    written: Option<DaemonSet>,
    staging: Staging,
    /// How many nodes have the revision.
    updated: i64,
    /// The command that continues the rollout.
    again: Option<Command>,
    /// Whether the next stage has found that this client no longer holds the DaemonSet.
    is_lost: Cell<bool>,
    /// Whether the next stage has written what it begins with.
    is_followed: Cell<bool>,
}

impl Passed {
    /// Makes of the error of the next stage that of a rollout which has begun, and says how to continue unless it does. Of a DaemonSet
    /// that this client no longer holds, nothing is left to continue.
    fn not_followed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Error(error) if !self.is_lost.get() => {
                let is_of_the_hold =
                    |hint: &Fix| hint.command.as_ref().is_some_and(|command| command.verbs().0 == "ds");
                let says_how = error.hints.iter().any(is_of_the_hold);
                // The next stage alone has changed nothing.
                let done = (error.is_unchanged || !says_how).then(|| {
                    let nodes = count(self.updated, "node");
                    format!("the stages before have updated {nodes}, and the update strategy stays suspended")
                });
                let is_error = matches!(error.exit, Exit::Error | Exit::TimedOut);
                let exit = if is_error { Exit::NotObserved } else { error.exit };
                let again = self.again.clone().filter(|_| !says_how).map(|again| Fix::new("to continue", again));
                let error = CommandError { exit, is_unchanged: false, ..error };
                error.hints(done).hints(again).into()
            }
            failure => failure,
        }
    }
}

impl RunCommand for PartitionArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let (named, request) = self.resolve(io)?;
        let PartitionArgs { filename, yes, progress, output, as_job, if_generation, .. } = self;
        // What is printed changes nothing.
        let dry_run = self.dry_run == DryRun::Client || as_job.is_some();
        if !dry_run {
            check_writable(io)?;
        }
        target.check_input(&filename)?;
        let session = change::open(&target, &named, dry_run, io).await?;
        if let Some(image) = as_job {
            let snapshot = session.read_for_change(&named, false, io).await?;
            let daemon_set = only_one(&snapshot)?;
            let name = name_of(daemon_set);
            if let (true, Some(flag)) = (name.is_advanced(), not_for_advanced(&request)) {
                return Err(refusal::advanced(flag).into());
            }
            // What cannot begin now is told now.
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, daemon_set);
            plan(&before, &request, None)
                .map_err(|refusal| refusal::partition(&before.revisions, &request, refusal))?;
            let command = Continued::of_request(&name, &request).whole_again(&request, None).unwrap_or_default();
            // What it has rolled back when it is started again must not be rolled out once more.
            let command = command.flag("--if-generation", daemon_set.metadata.generation.to_string());
            let words = command.words().unwrap_or_default();
            let rollout = (&name, daemon_set.metadata.generation, snapshot.nodes.len());
            yaml::write(&job(rollout, words.get(1..).unwrap_or_default(), &image, request.evict), out)?;
            return Ok(Exit::Success);
        }
        let manifest = match &filename {
            Some(path) => {
                io.await_input(path, "a manifest")?;
                let (namespace, default) = (session.requested_namespace.as_deref(), &session.default_namespace);
                Some((&**path, manifest::read_daemon_set_of_any_flavor(path, io.input, namespace, default)?))
            }
            None => None,
        };
        let (named, is_text, session) = (&named, output.is_none(), &session);
        let mut order = Order {
            named,
            dry_run,
            yes,
            progress,
            is_text,
            doubts: Vec::new(),
            patience: None,
            if_generation,
            earlier: None,
            fleet: None,
            session,
        };
        let fleet;
        if request.staging.is_some() && !dry_run {
            fleet = Fleet::read(session, io).await.map_err(not_begun)?;
            order.fleet = fleet.as_ref();
        }
        let first = Box::pin(order.stage(request.clone(), None, manifest.as_ref(), io, out)).await;
        let (mut exit, mut passed) = first.map_err(|failure| match &request.staging {
            Some(_) => not_begun(failure),
            None => failure,
        })?;
        while let Some(before) = passed {
            let next =
                StageRequest { staging: Some(before.staging.clone()), template: NewTemplate::Live, ..request.clone() };
            // The user has confirmed the first stage.
            let order = Order { earlier: Some(&before), yes: true, doubts: Vec::new(), ..order };
            let ended = Box::pin(order.stage(next, None, None, io, out)).await;
            (exit, passed) = match ended {
                Ok(ended) => ended,
                Err(failure) => {
                    let is_refused = matches!(&failure, Failure::Error(error) if error.exit == Exit::Error);
                    let lost = if is_refused { order.lost_meanwhile(&before, io).await } else { None };
                    return Err(lost.unwrap_or_else(|| before.not_followed(failure)));
                }
            };
        }
        Ok(exit)
    }
}

/// Carries out a stage of another command, for the DaemonSet as it was read, with what speaks against it. Fails if that cannot be done now,
/// a change is not applied, or the output cannot be written.
pub(super) async fn replace_pods(
    (request, doubts): (StageRequest, Vec<Warning>),
    settings: &ChangeArgs,
    (named, snapshot): (&Named, Snapshot),
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let order = Order {
        named,
        dry_run: settings.dry_run != DryRun::Off,
        yes: settings.yes,
        progress: watch::ProgressStyle::default(),
        is_text: settings.output.is_none(),
        doubts,
        patience: settings.given_time_limit(),
        if_generation: None,
        earlier: None,
        fleet: None,
        session,
    };
    Ok(Box::pin(order.stage(request, Some(snapshot), None, io, out)).await?.0)
}

impl Order<'_> {
    /// Reads the DaemonSet again, and returns the error if somebody else has taken it over since it was read for the next stage.
    async fn lost_meanwhile(&self, earlier: &Passed, io: &mut Io<'_>) -> Option<Failure> {
        let is_told = earlier.is_lost.get() || earlier.is_followed.get() || io.interrupt.is_requested();
        let live = self.session.source.live().ok().filter(|_| !is_told)?;
        let read = timeout(REREAD, live.read_daemon_set(earlier.written.as_ref()?)).await.ok()?.ok()?;
        let daemon_set = read?;
        let loss = loss(&daemon_set, &earlier.stage)?;
        let done = format!("the stages before have updated {}", count(earlier.updated, "node"));
        Some(refusal::lost(&name_of(&daemon_set), loss, earlier.again.clone(), None).hint(done).into())
    }

    /// Plans a stage, shows it, and carries it out. A rollback is planned for what it was decided by, as it was `read`: an edit
    /// that somebody makes meanwhile must not be taken back. Also returns the stage if another one follows.
    async fn stage(
        &self,
        mut request: StageRequest,
        read: Option<Snapshot>,
        manifest: Option<&(&str, Manifest)>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(Exit, Option<Passed>), Failure> {
        let Order { named, dry_run, is_text, earlier, session, .. } = *self;
        let view = &session.view;
        let mut snapshot = match (read, earlier) {
            (Some(snapshot), _) => snapshot,
            (None, None) => session.read_for_change(named, true, io).await?,
            (None, Some(earlier)) => {
                let read = self.read_patiently(&request, true, earlier.written.as_ref(), io).await;
                read.inspect_err(|failure| {
                    earlier.is_lost.set(matches!(failure, Failure::Error(error) if is_absent(error)));
                })?
            }
        };
        if let Some(earlier) = earlier {
            let daemon_set = only_one(&snapshot)?;
            if let Some(loss) = loss(daemon_set, &earlier.stage) {
                earlier.is_lost.set(true);
                return Err(refusal::lost(&name_of(daemon_set), loss, earlier.again.clone(), None).into());
            }
        }
        let is_advanced = only_one(&snapshot)?.flavor() == Flavor::Advanced;
        if let (true, Some(flag)) = (is_advanced, not_for_advanced(&request)) {
            return Err(refusal::advanced(flag).into());
        }
        if let Some((_, manifest)) = manifest {
            let (daemon_set, warnings) = manifest.validate(manifest.object().clone(), &snapshot)?;
            warn(warnings, io)?;
            request.template = NewTemplate::Manifest(Box::new(daemon_set));
        }
        let strata = request.staging.iter().flat_map(|staging| &staging.strata).filter_map(Stratum::label);
        for label in request.spread_by.as_deref().into_iter().chain(strata) {
            check_label(&snapshot, label, io)?;
        }
        if let Some(generation) = self.if_generation.filter(|_| earlier.is_none()) {
            request.begun_as = Some(begun_as(generation, &request.template));
            check_pause(only_one(&snapshot)?, &request)?;
        }
        // Its client may have died on the way back: what has failed must not be rolled out again.
        if let (true, None) = (request.rolls_back, earlier)
            && let daemon_set = only_one(&snapshot)?
            && let Some(unfinished) = unfinished_rollback(&Revisions::of(daemon_set, &snapshot), &request.template)
        {
            let number = match unfinished {
                Unfinished::Begun(number) => number,
                Unfinished::Overtaken(number) => return Err(refusal::overtaken(&name_of(daemon_set), number).into()),
            };
            writeln!(io.err, "a rollback to revision {number} has begun; going on with it")?;
            let (undo, name) = (way_back(&request, number, daemon_set), name_of(daemon_set));
            let ended = Box::pin(self.take_back(undo, snapshot, io, out)).await;
            let exit = if dry_run { Exit::Success } else { Exit::No };
            return ended.map(|()| (exit, None)).map_err(|failure| not_taken_back(failure, &name));
        }
        if let Some(generation) = self.if_generation.filter(|_| earlier.is_none()) {
            check_generation(&snapshot, only_one(&snapshot)?, generation, &request)?;
        }
        let (request, path) = (&request, manifest.map(|(path, _)| *path));
        let make_plan =
            |snapshot: &Snapshot, stored: Option<&Template>| -> Result<(PlannedStage, Option<i64>), CommandError> {
                let index = Index::new(snapshot);
                let before = Situation::new(&index, only_one(snapshot)?);
                let revisions = &before.revisions;
                let planned = plan(&before, request, stored)
                    .map_err(|refusal| refusal::partition(revisions, request, refusal))?;
                let back_to = request.back_to(revisions, &planned.stage.template);
                Ok((planned, back_to))
            };
        let (mut planned, mut back_to) = make_plan(&snapshot, None)?;
        let mut stored = None;
        if !dry_run {
            let (daemon_set, repeat) = (only_one(&snapshot)?, repeat(&planned.report, request, path));
            let interrupt = io.interrupt.clone();
            let trial = held_at(&planned.plan, daemon_set, snapshot.now, repeat, session, io);
            let (began, tried) = interrupt.unless_requested(trial).await.ok_or_else(interrupted)??;
            stored = tried.filter(|stored| !stored.same_meaning(&planned.stage.template));
            // Nothing would change.
            if stored.as_ref().is_some_and(|stored| stored.same_meaning(&daemon_set.template())) {
                return Err(refusal::template_kept(&Revisions::of(daemon_set, &snapshot), request).into());
            }
            if began != snapshot.now || stored.is_some() {
                snapshot.now = began;
                (planned, back_to) = make_plan(&snapshot, stored.as_ref())?;
            }
        }
        // Pods are created of what admission has made of the template; a dry run must not promise what the command then refuses.
        let PlannedStage { stage: Stage { hash, template, .. }, .. } = &planned;
        let daemon_set = only_one(&snapshot)?;
        let of_template = trial_of(&snapshot, daemon_set, hash, template);
        let of_current = trial_of_current(&snapshot, daemon_set).filter(|_| request.template != NewTemplate::Live);
        let trials = of_template.into_iter().chain(of_current);
        let interrupt = io.interrupt.clone();
        let asked =
            interrupt.unless_requested(session.ask_before_change(trials, io)).await.ok_or_else(interrupted)??;
        if !asked.is_empty() {
            snapshot.admissions.extend(asked);
            (planned, back_to) = make_plan(&snapshot, stored.as_ref())?;
        }
        let PlannedStage { stage: Stage { hash, nodes, .. }, report, .. } = &mut planned;
        let is_admitted = snapshot.is_admitted(only_one(&snapshot)?, hash);
        report.incomplete.extend((!dry_run && is_admitted.is_none() && !nodes.is_empty()).then(not_asked));
        let PlannedStage { plan, stage, later, mut report } = planned;
        report.warnings.splice(0..0, self.doubts.iter().cloned());
        let daemon_set = only_one(&snapshot)?;
        let new_pods = |nodes: &[String]| {
            let index = Index::new(&snapshot);
            NewPods::of(&Facts::new(&index, daemon_set), &stage.template, Some(nodes))
        };
        let (no_room, unread) = Box::pin(session.room(&new_pods(&stage.nodes), &snapshot, io)).await;
        report.warnings.extend(no_room);
        report.incomplete.extend(unread);
        for (stage, nodes) in later.iter().filter(|_| earlier.is_none()) {
            // What waits for room now may have found it by then.
            let mut new_pods = new_pods(nodes);
            new_pods.vacated.clear();
            let (no_room, _) = Box::pin(session.room(&new_pods, &snapshot, io)).await;
            let in_stage = |it: Warning| Warning { message: format!("in stage {stage}, {}", it.message), ..it };
            report.warnings.extend(no_room.into_iter().map(in_stage));
        }
        report.outcome.server_warnings = session.server_warnings();
        let show = |out: &mut dyn Write, io: &mut Io<'_>| -> Result<(), Failure> {
            if is_text {
                let plan = if earlier.is_some() { render::partition::next_stage } else { render::partition::plan };
                view.write(out, |page| plan(&report, page))?;
                out.flush()?;
            }
            let PartitionReport { warnings, incomplete, .. } = &report;
            Ok(view.write(io.err, |page| render::change::warnings(warnings, incomplete, page))?)
        };
        show(out, io).map_err(|failure| not_shown(failure, earlier.is_some()))?;
        if dry_run {
            match is_text {
                true if plan.step.is_none() => {}
                true => view.write(out, |page| render::partition::dry_run(&report, page))?,
                false => output::print_json(&mut report, view, out)?,
            }
            return Ok((Exit::Success, None));
        }
        if plan.step.is_none() && !is_advanced {
            if !is_text {
                output::print_json(&mut report, view, out)?;
            }
            return Ok((Exit::Success, None));
        }
        if !self.yes {
            confirm(risks_of_stage(&report, daemon_set, &snapshot), &report.daemon_set, session, io)?;
        }
        if !is_advanced && !stage.nodes.is_empty() {
            let interrupt = io.interrupt.clone();
            let may = self.check_permission(&report.daemon_set.namespace, request.evict, io);
            interrupt.unless_requested(may).await.ok_or_else(interrupted)??;
        }
        let display = if is_text { self.progress.display(None, session, io)? } else { Display::None };
        let progress = StageProgress::new(display);
        let plan_for = |stored: &Template| make_plan(&snapshot, Some(stored)).map(|(planned, _)| planned);
        let live = session.source.live()?;
        let mut stage = stage;
        if let Some(earlier) = earlier {
            stage.follow(earlier.stage.clone());
        }
        let mut run = Run {
            request,
            fleet: self.fleet,
            session,
            live,
            view,
            before: only_one(&snapshot)?,
            plan,
            stage,
            report,
            back_to,
            manifest: path,
            progress,
            // A proxy may have written the dates of the answers.
            clock: RunClock::starting_at(session.now(io).min((io.clock)())),
            ready_times: ReadyTimes::default(),
            patience: self.patience,
            plan_for: &plan_for,
            written: None,
            is_lost: false,
        };
        // From here on pods are deleted: that nobody reads the output does not end a stage half-way.
        let mut out = OutAfterChange::new(out);
        let ended = match is_advanced {
            true => run.follow_advanced(io, &mut out).await,
            false => run.carry_out(io, &mut out).await,
        };
        run.progress.clear(io)?;
        let former = Revisions::of(run.before, &snapshot);
        let worked = former.proven_besides(&run.stage.template);
        let restarts = worked.is_some_and(|(_, template)| only_restarts(template, &run.stage.template));
        let is_failed = matches!(ended, Ok(Exit::No)) && request.rolls_back;
        let undoes = is_failed && !restarts;
        let followed = following(request, &run.report).filter(|_| matches!(ended, Ok(Exit::Success)));
        if !run.is_lost && !undoes && followed.is_none() {
            let back_to = run.back_to.filter(|_| !is_failed);
            run.report.outcome.way_out = way_out(&run.report, request, back_to);
        }
        if is_text {
            view.write(&mut out, |page| render::partition::outcome(&run.report, page))?;
        } else {
            run.report.outcome.server_warnings = session.server_warnings();
            output::print_json(&mut run.report, view, &mut out)?;
        }
        out.flush()?;
        if out.failure.is_some() {
            // What was done must not go unnoticed.
            view.write(io.err, |page| render::partition::outcome(&run.report, page))?;
        }
        io.interrupt.changes_are_reported();
        if let Some(earlier) = earlier {
            earlier.is_lost.set(run.is_lost);
            earlier.is_followed.set(run.written.is_some());
        }
        let exit = ended.map_err(|failure| run.unfinished(failure))?;
        if undoes {
            let worked = worked.map(|(revision, _)| revision.number());
            let begun = (request, &run.stage, run.written.as_ref(), worked);
            let undone = Box::pin(self.undo(begun, &run.report.outcome.failures, io, &mut out)).await;
            undone.map_err(|failure| not_taken_back(failure, &run.report.daemon_set))?;
            if let Some(failure) = run.report.outcome.failures.first() {
                writeln!(io.err, "rolled back because a gate failed: {}", view.show(&failure.in_words()))?;
            }
        }
        if is_failed && restarts {
            writeln!(
                io.err,
                "not rolled back: this only restarts the pods, and a rollback would restart them once more"
            )?;
        }
        let again = Continued::of_run(&run.report, request).again();
        let updated = run.report.outcome.updated;
        let passed = followed.map(|staging| Passed {
            stage: run.stage,
            written: run.written,
            staging,
            updated,
            again,
            is_lost: Cell::new(false),
            is_followed: Cell::new(false),
        });
        Ok((out.end(Ok(exit), "the stage has ended")?, passed))
    }

    /// Checks that pods may be replaced: whoever may not do that would leave the update strategy suspended for nothing.
    async fn check_permission(&self, namespace: &str, evict: bool, io: &mut Io<'_>) -> Result<(), CommandError> {
        let asked = self.session.source.live()?.may_replace_pods(namespace, evict);
        if show_progress(asked, &self.session.progress, io).await == Some(false) {
            let verb = if evict { "evict" } else { "delete" };
            let message = format!("you may not {verb} pods in namespace {namespace:?}, so none can be replaced");
            return Err(CommandError::new(message).unchanged());
        }
        Ok(())
    }

    /// Reads the DaemonSet, also if requests fail for a while: one of them must not end a rollout, or leave what has failed its gates. The
    /// answer is not older than what was `written`.
    async fn read_patiently(
        &self,
        request: &StageRequest,
        asks: bool,
        written: Option<&DaemonSet>,
        io: &mut Io<'_>,
    ) -> Result<Snapshot, Failure> {
        let patience = Duration::try_from(request.gates.progress_deadline).unwrap_or(Duration::MAX).min(MOST_STALE);
        let (began, mut pause) = (Instant::now(), PAUSE);
        loop {
            let interrupt = io.interrupt.clone();
            let read = timeout(MOST_STALE, self.session.read_for_change(self.named, asks, io));
            let read = interrupt.unless_requested(read).await.ok_or_else(interrupted)?;
            let left = patience.saturating_sub(began.elapsed());
            let why = match read.unwrap_or_else(|_| Err(unanswered().into())) {
                // A cache on the way may answer with what was there before the stage.
                Ok(snapshot) if is_older(only_one(&snapshot)?, written) => older(),
                Ok(snapshot) => match failed(&snapshot).filter(|_| !left.is_zero()) {
                    None => return Ok(snapshot),
                    Some(problem) => CommandError::new(problem),
                },
                // One request that fails must not leave what has failed its gates.
                Err(Failure::Error(error)) if matches!(error.exit, Exit::Error | Exit::TimedOut) => error,
                Err(failure) => return Err(failure),
            };
            if left.is_zero() {
                let exit = if is_absent(&why) { why.exit } else { Exit::NotObserved };
                return Err(why.exit(exit).into());
            }
            if pause == PAUSE {
                writeln!(io.err, "waiting: {}", self.session.view.show(&why.message))?;
            }
            interrupt.unless_requested(sleep(pause.min(left))).await.ok_or_else(interrupted)?;
            // The whole cluster is read each time.
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Takes a stage back: the template of the revision that has worked on most nodes before it, and then the updated nodes. That may
    /// be left on no node, or on fewer than another one that is skipped.
    async fn undo(
        &self,
        (request, stage, written, worked): (&StageRequest, &Stage, Option<&DaemonSet>, Option<i64>),
        failures: &[GateFailure],
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let snapshot = self.read_patiently(request, false, written, io).await?;
        let daemon_set = only_one(&snapshot)?;
        let name = &name_of(daemon_set);
        // Somebody else may have changed it since, for example while the command of --verify ran.
        if let Some(loss) = loss(daemon_set, stage) {
            let error = refusal::lost(name, loss, None, worked).exit(Exit::No);
            return Err(error.hint("the stage is not rolled back").into());
        }
        let unread = incomplete_for_history(&snapshot, &daemon_set.metadata.namespace);
        if !unread.is_empty() {
            let message = "the stage is not rolled back: which revision works cannot be told";
            return Err(CommandError::new(message)
                .exit(Exit::NotObserved)
                .hints(unread.into_iter().map(|gap| gap.message))
                .hint(choose(name))
                .into());
        }
        if let Some(down) = controller_down_warning(&Situation::new(&Index::new(&snapshot), daemon_set), failures) {
            let message = format!("the stage is not rolled back: {}", down.message);
            return Err(CommandError::new(message).exit(Exit::NotObserved).hints(down.fix).into());
        }
        let revisions = Revisions::of(daemon_set, &snapshot);
        let worked = revisions.others().find(|(revision, _)| Some(revision.number()) == worked);
        let is_left =
            |revision: &Revision<'_>| request.template == NewTemplate::Live && revisions.was_rolled_back(revision);
        let number = match worked.or_else(|| revisions.proven()).map(|(revision, _)| revision) {
            Some(target) if is_left(target) => Err(format!("revision {} was rolled back before", target.number())),
            Some(target) => Ok(target.number()),
            None if revisions.other_available > 0 => {
                let nodes = count_and(revisions.other_available, "node", ["has", "have"]);
                Err(format!("{nodes} available pods of a revision that no longer exists"))
            }
            None if revisions.others().next().is_none() => {
                Err("no other revision is left: revisionHistoryLimit says how many are kept without pods".to_owned())
            }
            None => Err("no other revision is available on any node".to_owned()),
        };
        let number = number.map_err(|why| {
            let message = format!("the stage is not rolled back: {why}");
            CommandError::new(message).exit(Exit::No).hint(choose(name))
        })?;
        writeln!(io.err, "rolling the updated nodes back to revision {number}")?;
        self.take_back(way_back(request, number, daemon_set), snapshot, io, out).await
    }

    /// Takes stages back, which the user has asked for already.
    async fn take_back(
        &self,
        undo: StageRequest,
        snapshot: Snapshot,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let order = Order { yes: true, doubts: Vec::new(), if_generation: None, earlier: None, fleet: None, ..*self };
        Box::pin(order.stage(undo, Some(snapshot), None, io, out)).await.map(drop)
    }
}

/// Gives what prevents a rollout from starting, and may pass, the code of a timeout: a Job must try again.
fn not_begun(failure: Failure) -> Failure {
    match failure {
        Failure::Error(error)
            if error.exit == Exit::Error && cluster_error(&error).is_some_and(ClusterError::is_transient) =>
        {
            error.exit(Exit::TimedOut).into()
        }
        failure => failure,
    }
}

/// Fails if somebody has paused the rollout that the same command has begun.
fn check_pause(daemon_set: &DaemonSet, request: &StageRequest) -> Result<(), CommandError> {
    if !is_paused(daemon_set, request) {
        return Ok(());
    }
    let name = name_of(daemon_set);
    let message = format!("{} was paused after the rollout had begun, so it is not continued", name.title());
    let error = CommandError::new(message).exit(Exit::No).unchanged();
    Err(error.hint(Fix::new("to see how far it is, and how to continue", name.command("status"))))
}

/// Fails if a rollout would begin for a DaemonSet that has another generation than the one that was given.
fn check_generation(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    generation: i64,
    request: &StageRequest,
) -> Result<(), CommandError> {
    let present = daemon_set.metadata.generation;
    let name = name_of(daemon_set);
    if present == generation || !begins(&Situation::new(&Index::new(snapshot), daemon_set), request) {
        return Ok(());
    }
    let message = format!(
        "{} has changed (generation {present}, expected {generation}); the rollout was not begun",
        name.title()
    );
    let error = CommandError::new(message).exit(Exit::No).unchanged();
    Err(error.hint(Fix::new("to see what has changed", name.command("history"))))
}

/// Gives what has ended a rollback early the code of a gate that has failed, or, if the API server is the reason and that may pass, one of
/// its own: the same command continues it.
fn not_taken_back(failure: Failure, name: &DaemonSetName) -> Failure {
    let Failure::Error(error) = failure else { return failure };
    let may_pass = cluster_error(&error).is_some_and(|error| error.is_transient() || error.is_unauthorized());
    let exit = match error.exit {
        Exit::No => return error.into(),
        Exit::Interrupted if !error.hints.is_empty() && !error.is_unchanged => return error.into(),
        // It is refused, or somebody has changed the DaemonSet, who would have to do so again and again.
        Exit::Error if !may_pass => Exit::No,
        Exit::Error | Exit::TimedOut | Exit::OutcomeUnknown => Exit::NotObserved,
        exit => exit,
    };
    let advice = "the stage is not rolled back, or not to its end; to see how far it is, and how to continue";
    // The stage that is taken back has.
    CommandError { exit, is_unchanged: false, ..error }.hint(Fix::new(advice, name.command("status"))).into()
}

/// Returns the request that takes the stages of another one back to a revision, in the same way, whatever has become of the annotations.
fn way_back(request: &StageRequest, number: i64, daemon_set: &DaemonSet) -> StageRequest {
    let mut undo = StageRequest::roll_back(number, format!("{}{WAY_BACK}", request.run), daemon_set);
    undo.gates.progress_deadline = request.gates.progress_deadline;
    let StageRequest { delete_surge_pods, max_unavailable, evict, .. } = *request;
    StageRequest { delete_surge_pods, max_unavailable, evict, ..undo }
}

/// Returns the stages that follow one that is complete.
fn following(request: &StageRequest, report: &PartitionReport) -> Option<Staging> {
    let staging = request.staging.as_ref().filter(|_| report.outcome.stage == PartitionStage::Complete)?;
    let stages = &report.staged.as_ref()?.stages;
    let passed = stages.iter().position(|stage| stage.state == StageState::Next)?;
    Some(Staging { passed, ..staging.clone() })
}

/// Returns why something that decides about a rollback could not be read, if that may pass.
fn failed(snapshot: &Snapshot) -> Option<&str> {
    let kinds = [Kind::Nodes, Kind::Pods, Kind::ControllerRevisions];
    snapshot.gaps.iter().filter(|gap| kinds.contains(&gap.kind)).find_map(|gap| match &gap.cause {
        GapCause::Failed(problem) => Some(problem.as_str()),
        _ => None,
    })
}

/// Says how to choose the revision to return to.
fn choose(name: &DaemonSetName) -> Fix {
    Fix::new("the update strategy stays suspended; to choose a revision", name.command("history"))
}

/// Returns a flag that was given and that Advanced DaemonSets do not support.
fn not_for_advanced(request: &StageRequest) -> Option<&'static str> {
    let flags = [
        ("--stages", request.staging.is_some()),
        ("--nodes", !request.nodes.is_empty()),
        ("--node-selector", !request.node_selector.is_empty()),
        ("--spread-by", request.spread_by.is_some()),
        ("--max-unavailable", request.max_unavailable.is_some()),
        ("--verify", request.verify.is_some()),
        ("--soak", !request.gates.soak.is_zero()),
        ("--evict", request.evict),
        ("--max-restarts", request.gates.max_restarts.is_some_and(|restarts| restarts != 0)),
        ("--delete-surge-pods", request.delete_surge_pods),
        ("--on-failure", request.rolls_back),
    ];
    flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}
