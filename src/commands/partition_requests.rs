//! What a stage sends besides its plan: deletions and evictions, the command of `--verify`, and events.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::api_server::{ApiServer, REREAD};
use super::hold_trial::check_end_of_hold;
use super::not_applied::{NotApplied, applied_or_not};
use super::partition_progress::PAUSE;
use super::partition_run::Run;
use super::session::warn;
use super::{Failure, child, interrupted, refusal};
use crate::cluster::live::Watch;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::model::hold::Hold;
use crate::model::pod::Pod;
use crate::model::snapshot::Kind;
use crate::model::template::Template;
use crate::plan::{Plan, PodRef, Step};
use crate::report::fix::Fix;
use crate::report::partition::{Gate, GateFailure, PartitionStage};
use crate::report::plan::ChangeStage;
use crate::rollout::apply::{Application, Kept, StepRefusal, template};
use crate::rollout::concurrent_edit::is_of_others;
use crate::rollout::partition::instruction::{Loss, StageCounts, is_late, loss};
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::partition::unseen::{is_older, unseen};
use crate::rollout::partition::way_out::Continued;

/// The name under which events are reported.
const COMPONENT: &str = "kubectl-ds";

/// The outcome of replacing a pod.
pub(super) enum Replaced {
    Yes,
    /// Look again; why, if that may last.
    Later(Option<String>),
    /// Look again: a watch has not shown yet what the decision depends on; how that is known.
    Stale(String),
    /// Look again: the API server does not answer.
    Unanswered(CommandError),
    Lost(Loss),
}

impl<'a> Run<'a> {
    /// Applies a step to the DaemonSet, and returns it, with whether others have changed its spec since.
    pub(super) async fn apply(
        &mut self,
        step: &Step,
        before: &DaemonSet,
        io: &mut Io<'_>,
    ) -> Result<(Value, bool), Failure> {
        let interrupt = io.interrupt.clone();
        if interrupt.is_requested() {
            return Err(self.interrupted().into());
        }
        interrupt.expect_changes();
        let server = self.server();
        let application = server.apply(step, before, Duration::MAX, interrupt.requested());
        let application = self.tell_long_wait(application, io).await;
        self.print_warnings(io)?;
        let is_overwritten = matches!(application, Application::Overwritten(_));
        let applied = applied_or_not(application, &self.report.daemon_set, self.repeat());
        applied.map(|object| (object, is_overwritten)).or_else(|not_applied| {
            if !not_applied.changes.is_empty() {
                self.progress.clear(io)?;
                not_applied.show_changes(&self.report.daemon_set, self.view, io.err)?;
            }
            let NotApplied { stage, kept, mut error, .. } = *not_applied;
            if let Some((kept @ (Kept::Strategy | Kept::Template | Kept::Annotation(_)), now)) = kept {
                error = match (kept, self.report.outcome.stage) {
                    (Kept::Annotation(_), _) => refusal::half_held(error, before, &now),
                    (_, PartitionStage::Planned) => self.not_begun(error, kept, before, &now),
                    (_, _) => refusal::not_restored(error, before, &now),
                };
                self.is_lost = true;
                self.report.outcome.stage = PartitionStage::Begun;
            }
            if stage == ChangeStage::Unknown && self.report.outcome.stage == PartitionStage::Planned {
                self.report.outcome.stage = PartitionStage::Unknown;
            }
            Err(error.into())
        })
    }

    /// Adds to the error of a stage whose patch was applied without this what becomes of it, and what to do.
    fn not_begun(&self, error: CommandError, kept: Kept, before: &DaemonSet, now: &DaemonSet) -> CommandError {
        let name = &self.report.daemon_set;
        let has = |template: &Template| now.template().same_meaning(template);
        let is_template_kept = has(&before.template());
        let is_strategy_kept = now.spec.update_strategy == before.spec.update_strategy;
        match kept {
            _ if kept != Kept::Strategy && before.flavor() == Flavor::Advanced => {
                refusal::only_partitioned(error, before, now)
            }
            // The controller goes on as it did, and has nothing new to roll out.
            Kept::Strategy if is_template_kept && is_strategy_kept && !has(&self.stage.template) => {
                let why = "the template stays as it was, too, so that no pod is replaced because of this run";
                refusal::nothing_held(error, name, why)
            }
            Kept::Strategy => {
                // What the controller rolls out may be what a new template was to replace.
                let is_replaced = is_template_kept && !matches!(self.request.template, NewTemplate::Live);
                refusal::not_held(error, name, self.back_to.filter(|_| !is_replaced))
            }
            _ => {
                let continued = match Continued::of_request(name, self.request).again() {
                    Some(undo) if self.request.is_undo() => Fix::new("to continue", undo),
                    _ => Continued::of_run(&self.report, self.request)
                        .whole_again(self.request, self.manifest)
                        .map_or_else(|| self.repeat(), |again| Fix::new("to repeat it once that is allowed", again)),
                };
                refusal::template_dropped(error, before, continued)
            }
        }
    }

    /// Prints the warnings of the server.
    fn print_warnings(&mut self, io: &mut Io<'_>) -> Result<(), Failure> {
        self.progress.display.print_warnings(self.session, io)
    }

    /// Returns how long anything may take.
    pub(super) fn limit(&self) -> Duration {
        Duration::try_from(self.stage.gates.progress_deadline).unwrap_or(Duration::MAX)
    }

    fn server(&self) -> ApiServer<'_> {
        ApiServer { live: self.live, is_dry_run: false }
    }

    /// Deletes or evicts a pod, if the DaemonSet is still as it is meant to be: it is read right before. The decision is based on
    /// the DaemonSet and the pods as they were seen.
    pub(super) async fn replace(
        &mut self,
        (seen, counts): (Option<&DaemonSet>, &StageCounts),
        node: &str,
        pod: &PodRef,
        watch: &mut Watch<'a>,
        io: &mut Io<'_>,
    ) -> Result<Replaced, Failure> {
        let read = timeout(self.limit(), self.live.read_daemon_set(self.before));
        let Ok(read) = self.unless_interrupted(io, read).await? else { return Ok(Replaced::Unanswered(unanswered())) };
        match read {
            Ok(None) => return Ok(Replaced::Lost(Loss::Deleted)),
            Ok(Some(live)) if is_older(&live, seen) => return Ok(Replaced::Unanswered(older())),
            Ok(Some(live)) => match (loss(&live, &self.stage), unseen(&live, seen, counts)) {
                (Some(loss), _) => return Ok(Replaced::Lost(loss)),
                (None, Some(why)) => return Ok(Replaced::Stale(why)),
                (None, None) => {}
            },
            Err(error) if error.is_transient() => return Ok(Replaced::Unanswered(error.into())),
            Err(error) => return Err(self.unread(error).into()),
        }
        let step = if self.request.evict { Step::EvictPod(pod.clone()) } else { Step::DeletePod(pod.clone()) };
        let server = self.server();
        let interrupt = io.interrupt.clone();
        let application = server.apply(&step, self.before, self.limit(), interrupt.requested());
        let application = self.tell_long_wait(application, io).await;
        self.print_warnings(io)?;
        Ok(match application {
            Application::Applied(_) | Application::Overwritten(_) => Replaced::Yes,
            Application::Refused(StepRefusal::Blocked(budget)) => Replaced::Later(Some(format!(
                "a PodDisruptionBudget does not allow the eviction of pod {} on {node}: {budget}",
                pod.name
            ))),
            Application::Refused(StepRefusal::ByServer(error)) => {
                return Err(error.hint(self.repeat()).into());
            }
            Application::Refused(StepRefusal::NotProcessed(error)) if error.exit == Exit::Interrupted => {
                return Err(error.hint(self.repeat()).into());
            }
            Application::Refused(StepRefusal::NotApplied(error) | StepRefusal::NotProcessed(error)) => {
                Replaced::Unanswered(error)
            }
            Application::NotSeen(error) => {
                let unseen = "it is not known whether pod";
                let unseen = format!("{unseen} {} on {node} was deleted; it was not when it was read again", pod.name);
                Replaced::Unanswered(error.exit(Exit::OutcomeUnknown).hint(unseen))
            }
            Application::Refused(_) | Application::Recreated | Application::Kept(..) | Application::NotDry => {
                Replaced::Later(None)
            }
            Application::Unknown(error) => {
                let is_interrupted = error.exit == Exit::Interrupted || io.interrupt.is_requested();
                let is_read = !is_interrupted && matches!(self.read_again(watch, io).await, Ok(None));
                let unknown = format!("it is not known whether pod {} on {node} was deleted", pod.name);
                let exit = if is_interrupted { Exit::Interrupted } else { Exit::OutcomeUnknown };
                let error = if io.interrupt.is_requested() { interrupted() } else { error.exit(exit) };
                match is_read {
                    true if self.is_gone(pod, watch) => Replaced::Yes,
                    // The next deletion is for what is there then.
                    true => Replaced::Unanswered(error.hint(unknown)),
                    false => return Err(error.hint(self.repeat().after(&unknown)).into()),
                }
            }
        })
    }

    /// Returns whether the last list lacks a pod, or shows that it is being deleted.
    fn is_gone(&self, pod: &PodRef, watch: &Watch<'a>) -> bool {
        let snapshot = watch.last_snapshot();
        let is_known = snapshot.daemon_sets.first().is_some_and(|found| found.metadata.uid == self.stage.uid)
            && snapshot.gap(Kind::Pods, &pod.namespace).is_none();
        let is_gone = |found: &Pod| found.metadata.uid != pod.uid || found.metadata.is_terminating();
        is_known && snapshot.pods.iter().all(is_gone)
    }

    /// Runs the command of `--verify`, and returns the gate if it fails.
    pub(super) async fn verify(
        &mut self,
        node: &str,
        pod: &str,
        io: &mut Io<'_>,
    ) -> Result<Option<GateFailure>, Failure> {
        let Some(verify) = &self.request.verify else { return Ok(None) };
        let mut command = Command::new("sh");
        command.args(["-c", verify]).env("NODE", node).env("POD", pod);
        command.env("NAMESPACE", &self.report.daemon_set.namespace);
        command.env("REVISION", self.report.revision.unwrap_or_default().to_string());
        self.progress.clear(io)?;
        let not_started = |error| CommandError::new("cannot run the command of --verify with sh").because(error);
        let problem = match timeout(self.limit(), child::run(command, io, not_started)).await {
            Ok(Err(Failure::Error(error))) if error.exit == Exit::Interrupted => return Err(self.interrupted().into()),
            Ok(status) => {
                let status = status?;
                (!status.success()).then(|| format!("the --verify command failed: {status}"))
            }
            Err(_) => Some("the --verify command timed out".to_owned()),
        };
        let (node, pod) = (Some(node.to_owned()), Some(pod.to_owned()));
        Ok(problem.map(|message| GateFailure { node, pod, ..GateFailure::new(Gate::Verify, message) }))
    }

    /// Restores the update strategy.
    pub(super) async fn finish(
        &mut self,
        watch: &mut Watch<'a>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let seen = watch.last_snapshot().daemon_sets.first().cloned();
        let live = loop {
            let why = match self.unless_interrupted(io, self.live.read_daemon_set(self.before)).await? {
                Ok(None) => return Err(self.lost(Loss::Deleted)),
                Ok(Some(live)) if is_older(&live, seen.as_ref()) => older(),
                Ok(Some(live)) => break live,
                Err(error) if error.is_transient() => error.into(),
                Err(error) => return Err(self.unread(error).into()),
            };
            if is_late(&self.stage, self.clock.now()) {
                return Err(self.unread(why).into());
            }
            self.progress.wait_for(Some(format!("waiting: {}", why.message)), self.view, out)?;
            self.pause(io, PAUSE).await?;
        };
        if let Some(loss) = loss(&live, &self.stage) {
            return Err(self.lost_after_look(loss, watch, io).await);
        }
        let Some(hold) = Hold::of(&live) else { return Ok(()) };
        // Somebody may have edited what is restored.
        let (said, kept) = (&self.report.original_strategy, hold.original_strategy());
        if *said != kept {
            let message = format!("the update strategy to restore was changed since: it was {said}, and is {kept}");
            self.progress.clear(io)?;
            warn(vec![message], io)?;
        }
        self.report.original_strategy = kept;
        let Some(step) = Plan::resume(&live).step else { return Ok(()) };
        let interrupt = io.interrupt.clone();
        let tried = check_end_of_hold(&step, &live, self.live, interrupt.requested());
        let tried = self.tell_long_wait(tried, io).await;
        self.print_warnings(io)?;
        if tried?.and_then(|tried| template(&tried)).is_some_and(|tried| !tried.same_meaning(&self.stage.template)) {
            self.is_lost = true;
            return Err(refusal::template_would_change(&self.report.daemon_set, &hold).into());
        }
        let before = format!("before the hold, the update strategy was {}", self.report.original_strategy);
        let restored = match self.apply(&step, &live, io).await {
            // All that this run was for is done.
            Ok((_, true)) => {
                let name = &self.report.daemon_set;
                let (title, status) = (name.title(), name.command("status"));
                let said = "was changed right after its update strategy was restored; to see how far that is";
                self.progress.clear(io)?;
                warn(vec![format!("{title} {said}: {status}")], io)?;
                return Ok(());
            }
            Ok((restored, false)) => DaemonSet::from_object(restored).ok(),
            Err(failure) => {
                // Whoever has changed it right before may have taken it over.
                let is_refused = matches!(&failure, Failure::Error(error) if error.exit == Exit::Error);
                let read = self.live.read_daemon_set(self.before);
                if is_refused
                    && !self.is_lost
                    && let Ok(Ok(Some(now))) = timeout(REREAD, read).await
                    && let Some(loss) = loss(&now, &self.stage)
                {
                    return Err(self.lost_after_look(loss, watch, io).await);
                }
                writeln!(io.err, "{before}")?;
                return Err(failure);
            }
        };
        let changed = restored.as_ref().filter(|restored| !restored.template().same_meaning(&self.stage.template));
        if let Some(changed) = changed {
            self.is_lost = true;
            let by_others = is_of_others(&live.object, &changed.object);
            return Err(refusal::template_has_changed(&self.report.daemon_set, &hold, by_others).into());
        }
        let stored = restored.as_ref().map(|restored| restored.spec.update_strategy.clone());
        if let Some(stored) = stored.filter(|stored| *stored != self.report.original_strategy) {
            warn(vec![format!("the server has stored another update strategy, {stored}; {before}")], io)?;
            self.report.original_strategy = stored;
        }
        let interrupt = io.interrupt.clone();
        // If that is interrupted, the restored strategy was confirmed.
        if interrupt.unless_requested(self.is_still_held(restored.as_ref())).await == Some(true) {
            let message = "the API server confirmed that the update strategy was restored, but it is still suspended";
            return Err(CommandError::new(message)
                .exit(Exit::OutcomeUnknown)
                .hint(self.repeat().after(&before))
                .into());
        }
        Ok(())
    }

    /// Returns whether the update strategy is suspended after it was restored. An answer from before that is asked for again.
    async fn is_still_held(&self, restored: Option<&DaemonSet>) -> bool {
        let began = Instant::now();
        loop {
            let read = timeout(REREAD, self.live.read_daemon_set(self.before)).await;
            let Ok(Ok(Some(now))) = read else { return false };
            let is_held = now.metadata.uid == self.stage.uid && loss(&now, &self.stage).is_none();
            if !is_held || !is_older(&now, restored) || began.elapsed() >= REREAD {
                return is_held;
            }
            sleep(PAUSE).await;
        }
    }

    /// Creates an event on the DaemonSet, so that others see who holds it. It may be forbidden.
    pub(super) async fn tell(&self, io: &Io<'_>, reason: &str, type_: &str, message: &str) {
        let name = &self.report.daemon_set;
        // Without a user, the field manager and the run are what the DaemonSet's managedFields and annotation say, too.
        let by_run = || format!("{COMPONENT}, run {}", self.stage.run);
        let who = io.variable("USER").or_else(|| io.variable("LOGNAME")).map_or_else(by_run, str::to_owned);
        let host = io.variable("HOSTNAME").map(|host| format!("@{host}")).unwrap_or_default();
        let time = self.clock.now();
        let at = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": name.namespace, "name": format!("{}.{:x}", name.name, time.as_nanosecond())},
            "involvedObject": {"apiVersion": name.api_version, "kind": "DaemonSet", "namespace": name.namespace,
                "name": name.name, "uid": self.stage.uid},
            "reason": reason, "message": message, "type": type_, "count": 1,
            "firstTimestamp": at, "lastTimestamp": at,
            "source": {"component": COMPONENT}, "reportingComponent": COMPONENT, "reportingInstance": format!("{who}{host}"),
        });
        // Nobody has to see it.
        let created = timeout(PAUSE * 5, self.live.create_event(&name.namespace, &event));
        let _ = io.interrupt.unless_requested(created).await;
    }
}

/// Builds the error of a request that is not answered.
pub(super) fn unanswered() -> CommandError {
    CommandError::new("the API server does not answer")
}

/// Builds the error of an answer that is out of date.
pub(super) fn older() -> CommandError {
    CommandError::new("the API server answers with a DaemonSet that is older than one that this run has seen")
}
