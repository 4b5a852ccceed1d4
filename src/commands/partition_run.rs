//! Carries out one stage of a partition: writes, watches, deletes pods, and says what happens.

use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::api_server::ApiServer;
use super::change::{NotApplied, applied_or_not};
use super::partition::line;
use super::session::Session;
use super::{Failure, child, interrupted};
use crate::cluster::Query;
use crate::cluster::live::Watch;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::RUN_ANNOTATION;
use crate::model::snapshot::Snapshot;
use crate::plan::{DaemonSetPatch, Plan, PodDeletion, Step as PlanStep};
use crate::render;
use crate::render::view::View;
use crate::report::partition::{Gate, GateFailure, PartitionReport, PartitionStage};
use crate::rollout::apply::{Application, Refusal, apply, delete_pod};
use crate::rollout::partition::next_step::{Look, Loss, Step, Waiting, is_late, late, loss, next_step};
use crate::rollout::partition::plan::Request;
use crate::rollout::partition::{Stage, kept};
use crate::rollout::revisions::Revisions;

/// The longest time between two looks at the cluster: time alone can make a pod available.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a client that was replaced by this one may need to notice that, and to finish what it has begun.
const HANDOVER: Duration = Duration::from_secs(1);

/// The name under which events are reported.
const COMPONENT: &str = "kubectl-ds";

/// A stage that is carried out.
pub(super) struct Run<'a> {
    pub(super) request: &'a Request,
    pub(super) session: &'a Session,
    pub(super) view: &'a View,
    /// The DaemonSet as it was read.
    pub(super) before: &'a DaemonSet,
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    pub(super) report: PartitionReport,
    /// Whether lines are printed.
    pub(super) is_text: bool,
}

/// Returns the time.
pub(super) fn now(io: &Io<'_>) -> Timestamp {
    (io.clock)()
}

impl Run<'_> {
    /// Carries the stage out.
    pub(super) async fn carry_out(&mut self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let Some(patch) = self.write_plan(io).await? else { return Ok(Exit::Success) };
        self.report.outcome.stage = PartitionStage::Begun;
        if self.before.annotations.contains_key(RUN_ANNOTATION) {
            self.unless_interrupted(io, sleep(HANDOVER)).await?;
        }
        let query = Query { names: vec![patch.name.clone()], ..Query::default() };
        let mut watch = self.session.watch(query).await?;
        self.wait_for_revision(&mut watch, io).await?;
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
        let ended = self.update(&patch, &mut watch, io, out).await?;
        match ended {
            Ended::Done(old_left) => {
                let finishes = kept(self.stage.keep, usize::try_from(self.report.desired).unwrap_or(0)) == 0;
                if finishes && old_left == 0 {
                    self.finish(&patch, io).await?;
                    self.report.outcome.stage = PartitionStage::Finished;
                    self.tell(
                        io,
                        "PartitionFinished",
                        "Normal",
                        "All nodes are updated; the update strategy is restored",
                    )
                    .await;
                } else {
                    self.report.outcome.stage = PartitionStage::Complete;
                    let outcome = &self.report.outcome;
                    let message = format!("{} nodes updated, {} on older revisions", outcome.updated, outcome.old);
                    self.tell(io, "PartitionComplete", "Normal", &message).await;
                }
                Ok(Exit::Success)
            }
            Ended::Stopped(failures) => {
                self.report.outcome.stage = PartitionStage::Stopped;
                let first = failures.first().map(|failure| failure.message.clone()).unwrap_or_default();
                let node = failures.first().and_then(|failure| failure.node.clone()).unwrap_or_default();
                self.report.outcome.failures = failures;
                self.tell(io, "PartitionStopped", "Warning", &format!("Stopped: {node}: {first}")).await;
                Ok(Exit::No)
            }
            Ended::Lost(loss) => Err(self.lost(loss).into()),
        }
    }

    /// Writes what the plan begins with; returns `None` if it is empty.
    async fn write_plan(&mut self, io: &mut Io<'_>) -> Result<Option<DaemonSetPatch>, Failure> {
        let Some(step) = self.plan.steps.first().cloned() else { return Ok(None) };
        let PlanStep::PatchDaemonSet(patch) = &step;
        self.apply(&step, self.before, io).await?;
        Ok(Some(patch.clone()))
    }

    async fn apply(&self, step: &PlanStep, before: &DaemonSet, io: &mut Io<'_>) -> Result<Value, Failure> {
        let interrupt = io.interrupt.clone();
        if interrupt.is_requested() {
            return Err(interrupted().into());
        }
        interrupt.expect_changes();
        let server = self.server();
        let application = tokio::select! {
            biased;
            application = apply(&server, step, before, false) => application,
            () = interrupt.requested() => Application::Unknown(interrupted()),
        };
        self.session.print_warnings(io)?;
        let title = self.report.daemon_set.title();
        applied_or_not(application, &title, "run the same command again").or_else(|not_applied| {
            let NotApplied { stage: _, changes, error } = *not_applied;
            if !changes.is_empty() {
                render::change::concurrent_edit(&title, &changes, self.view, io.err)?;
            }
            Err(error.into())
        })
    }

    fn server(&self) -> ApiServer<'_> {
        ApiServer { source: &self.session.source, is_dry_run: false, evicts: self.request.evict }
    }

    /// Waits until the controller has observed the change, and notes the revision of the template.
    async fn wait_for_revision(&mut self, watch: &mut Watch<'_>, io: &mut Io<'_>) -> Result<(), Failure> {
        loop {
            let snapshot = watch.snapshot().await;
            let found = snapshot.daemon_sets.first();
            let Some(daemon_set) = found else { return Err(self.lost(Loss::Deleted).into()) };
            if let Some(loss) = loss(daemon_set, &self.stage) {
                return Err(self.lost(loss).into());
            }
            let time = snapshot.now;
            if daemon_set.is_observed()
                && let Some(current) = Revisions::of(daemon_set, snapshot).current()
            {
                current.object.hash().clone_into(&mut self.stage.hash);
                self.report.revision = Some(current.number());
                self.stage.last_progress = time;
                return Ok(());
            }
            if is_late(&self.stage, time) {
                let message = "the change was applied, and no controller was seen to act on it";
                let error = CommandError { exit: Exit::NotObserved, ..CommandError::new(message) };
                return Err(error
                    .hint("check that the controller manager runs; then run the same command again")
                    .into());
            }
            self.unless_interrupted(io, timeout(PAUSE, watch.changed())).await?.ok();
        }
    }

    /// Replaces pods until the stage ends.
    async fn update(
        &mut self,
        patch: &DaemonSetPatch,
        watch: &mut Watch<'_>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Ended, Failure> {
        let mut available = None;
        let mut shown = None;
        let mut starting: Vec<(String, Timestamp)> = Vec::new();
        let mut warned = None;
        loop {
            let failure = watch.failure().map(ToString::to_string);
            if let Some(failure) = failure.filter(|failure| warned.as_ref() != Some(failure)) {
                writeln!(io.err, "warning: {}; trying again", sanitize(&failure))?;
                warned = Some(failure);
            }
            let snapshot = watch.snapshot().await;
            let (time, generation) = (snapshot.now, generation(snapshot));
            let Look { step, counts } = next_step(snapshot, &self.stage);
            if !matches!(step, Step::Lost(_)) {
                let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
                (self.report.outcome.updated, self.report.outcome.old) = (count(counts.updated), count(counts.old));
                if available.replace(counts.available).is_some_and(|before| before < counts.available) {
                    self.stage.last_progress = time;
                }
                for (node, since) in starting.extract_if(.., |(node, _)| !counts.in_flight.contains(node)) {
                    let seconds = time.duration_since(since).as_secs();
                    self.say(out, &format!("{node}: the new pod is available after {seconds}s"))?;
                }
            }
            match step {
                Step::Done => return Ok(Ended::Done(counts.old_on_ready_nodes)),
                Step::Stop(failures) => return Ok(Ended::Stopped(failures)),
                Step::Lost(loss) => return Ok(Ended::Lost(loss)),
                Step::Wait(waiting) => {
                    if let Some(text) = describe(&waiting, time).filter(|text| shown.as_ref() != Some(text)) {
                        self.say(out, &text)?;
                        shown = Some(text);
                    }
                    self.unless_interrupted(io, timeout(PAUSE, watch.changed())).await?.ok();
                }
                Step::Verify { node, pod, uid } => {
                    if let Some(failure) = self.verify(&node, &pod, io).await? {
                        return Ok(Ended::Stopped(vec![failure]));
                    }
                    self.stage.verified.insert(uid);
                    self.stage.last_progress = now(io);
                }
                Step::Replace { node, pod } => match self.replace(patch, generation, &node, &pod, io).await? {
                    Replaced::Yes => {
                        self.stage.deleted.insert(pod.uid.clone());
                        self.report.outcome.replaced.push(node.clone());
                        self.stage.last_progress = now(io);
                        let (done, all) = (self.report.outcome.replaced.len(), self.stage.nodes.len());
                        let verb = if self.request.evict { "evicted" } else { "deleted" };
                        starting.push((node.clone(), now(io)));
                        self.say(out, &format!("{node}: pod {} {verb} ({done} of {all})", pod.name))?;
                        shown = None;
                    }
                    Replaced::Lost(loss) => return Ok(Ended::Lost(loss)),
                    Replaced::Later(why) => {
                        if is_late(&self.stage, now(io)) {
                            let message = why.unwrap_or_else(|| format!("pod {} on {node} keeps changing", pod.name));
                            return Ok(Ended::Stopped(vec![late(&message, &self.stage)]));
                        }
                        if let Some(why) = why.filter(|why| shown.as_ref() != Some(why)) {
                            self.say(out, &format!("waiting: {why}"))?;
                            shown = Some(why);
                        }
                        self.unless_interrupted(io, timeout(PAUSE, watch.changed())).await?.ok();
                    }
                },
            }
        }
    }

    /// Deletes or evicts a pod, if the DaemonSet is still as it is meant to be: it is read right before.
    async fn replace(
        &self,
        patch: &DaemonSetPatch,
        generation: i64,
        node: &str,
        pod: &PodDeletion,
        io: &mut Io<'_>,
    ) -> Result<Replaced, Failure> {
        let source = &self.session.source;
        let read = self.unless_interrupted(io, source.read_daemon_set(patch)).await?;
        match read {
            Ok(None) => return Ok(Replaced::Lost(Loss::Deleted)),
            Ok(Some(live)) => match loss(&live, &self.stage) {
                Some(loss) => return Ok(Replaced::Lost(loss)),
                // What the decision is based on is out of date.
                None if live.metadata.generation != generation => return Ok(Replaced::Later(None)),
                None => {}
            },
            Err(error) if error.is_transient() => return Ok(Replaced::Later(Some(error.to_string()))),
            Err(error) => return Err(error.into()),
        }
        let server = self.server();
        let interrupt = io.interrupt.clone();
        let application = tokio::select! {
            biased;
            application = delete_pod(&server, pod) => application,
            () = interrupt.requested() => Application::Unknown(interrupted()),
        };
        self.session.print_warnings(io)?;
        Ok(match application {
            Application::Applied(()) => Replaced::Yes,
            Application::Refused(Refusal::Blocked) => Replaced::Later(Some(format!(
                "a PodDisruptionBudget does not allow the eviction of pod {} on {node}",
                pod.name
            ))),
            Application::Refused(Refusal::ByServer(error)) => {
                return Err(error.hint("run the same command again").into());
            }
            Application::Refused(Refusal::NotApplied(error)) => Replaced::Later(Some(error.message)),
            Application::Refused(_) | Application::Recreated => Replaced::Later(None),
            Application::Unknown(error) => {
                let exit = if error.exit == Exit::Interrupted { error.exit } else { Exit::OutcomeUnknown };
                let hint = format!(
                    "it is not known whether pod {} on {node} was deleted; run the same command again",
                    pod.name
                );
                return Err(CommandError { exit, ..error }.hint(hint).into());
            }
        })
    }

    /// Runs the command of `--verify`, and returns the gate if it fails.
    async fn verify(&self, node: &str, pod: &str, io: &mut Io<'_>) -> Result<Option<GateFailure>, Failure> {
        let Some(verify) = &self.request.verify else { return Ok(None) };
        let mut command = Command::new("sh");
        command.args(["-c", verify]).env("NODE", node).env("POD", pod);
        command.env("NAMESPACE", &self.report.daemon_set.namespace);
        command.env("REVISION", self.report.revision.unwrap_or_default().to_string());
        let limit = Duration::try_from(self.stage.gates.progress_deadline).unwrap_or(Duration::MAX);
        let mut printed = Vec::new();
        let not_started = |error| CommandError::new("cannot run the command of --verify with sh").because(error);
        let ended = timeout(limit, child::run(command, io, &mut printed, not_started)).await;
        io.err.write_all(&printed)?;
        let problem = match ended {
            Ok(status) => {
                let status = status?;
                (!status.success()).then(|| format!("the command of --verify has failed: {status}"))
            }
            Err(_) => Some("the command of --verify has not ended in time".to_owned()),
        };
        let (node, pod) = (Some(node.to_owned()), Some(pod.to_owned()));
        Ok(problem.map(|message| GateFailure { gate: Gate::Verify, node, pod, reason: None, message }))
    }

    /// Restores the update strategy.
    async fn finish(&self, patch: &DaemonSetPatch, io: &mut Io<'_>) -> Result<(), Failure> {
        let read = self.unless_interrupted(io, self.session.source.read_daemon_set(patch)).await?;
        let Some(live) = read? else { return Err(self.lost(Loss::Deleted).into()) };
        if let Some(loss) = loss(&live, &self.stage) {
            return Err(self.lost(loss).into());
        }
        match Plan::resume(&live).steps.first() {
            Some(step) => self.apply(step, &live, io).await.map(drop),
            None => Ok(()),
        }
    }

    /// Sets the partition of an Advanced DaemonSet, and waits until its controller has replaced the pods.
    pub(super) async fn follow_advanced(&mut self, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let patch = match self.write_plan(io).await? {
            Some(patch) => patch,
            None => DaemonSetPatch::of(self.before),
        };
        self.report.outcome.stage = PartitionStage::Begun;
        self.stage.last_progress = now(io);
        let mut updated = None;
        loop {
            match self.unless_interrupted(io, self.session.source.read_daemon_set(&patch)).await? {
                Ok(None) => return Err(self.lost(Loss::Deleted).into()),
                Ok(Some(live)) if live.metadata.uid != self.stage.uid => return Err(self.lost(Loss::Recreated).into()),
                Ok(Some(live)) => {
                    let status = &live.status;
                    let desired = status.desired_number_scheduled;
                    let wanted = desired - self.stage.keep.scaled_down(desired).min(desired);
                    let outcome = &mut self.report.outcome;
                    (outcome.updated, outcome.old) =
                        (status.updated_number_scheduled, desired - status.updated_number_scheduled);
                    if updated.replace((outcome.updated, status.number_available)) != updated {
                        self.stage.last_progress = now(io);
                        self.say(out, &format!("{} of {wanted} nodes updated", self.report.outcome.updated))?;
                    }
                    let is_available = status.number_available >= desired;
                    if live.is_observed() && status.updated_number_scheduled >= wanted && is_available {
                        self.report.outcome.stage = match wanted == desired {
                            true => PartitionStage::Finished,
                            false => PartitionStage::Complete,
                        };
                        return Ok(Exit::Success);
                    }
                }
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
            if is_late(&self.stage, now(io)) {
                self.report.outcome.stage = PartitionStage::Stopped;
                self.report.outcome.failures = vec![late("the controller has not updated the nodes", &self.stage)];
                return Ok(Exit::No);
            }
            self.unless_interrupted(io, sleep(PAUSE)).await?;
        }
    }

    /// Waits for something, or for the request to end.
    async fn unless_interrupted<T>(&self, io: &Io<'_>, wait: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = io.interrupt.requested() => {
                let hint = "the update strategy stays suspended; the same command continues";
                Err(interrupted().hint(hint).into())
            }
            done = wait => Ok(done),
        }
    }

    fn say(&self, out: &mut dyn Write, text: &str) -> Result<(), Failure> {
        if self.is_text {
            line(out, &self.view.show(text))?;
        }
        Ok(())
    }

    /// Creates an event on the DaemonSet, so that others see who holds it and how to continue. It may be forbidden.
    async fn tell(&self, io: &Io<'_>, reason: &str, type_: &str, message: &str) {
        let name = &self.report.daemon_set;
        let who = io.variable("USER").or_else(|| io.variable("LOGNAME")).unwrap_or("unknown");
        let host = io.variable("HOSTNAME").map(|host| format!("@{host}")).unwrap_or_default();
        let time = now(io);
        let text = format!(
            "{message} (by {who}{host}; kubectl ds status {} -n {} shows how to continue)",
            name.name, name.namespace
        );
        let at = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"namespace": name.namespace, "name": format!("{}.{:x}", name.name, time.as_nanosecond())},
            "involvedObject": {"apiVersion": name.api_version, "kind": "DaemonSet", "namespace": name.namespace,
                "name": name.name, "uid": self.stage.uid},
            "reason": reason, "message": text, "type": type_, "count": 1,
            "firstTimestamp": at, "lastTimestamp": at,
            "source": {"component": COMPONENT}, "reportingComponent": COMPONENT, "reportingInstance": format!("{who}{host}"),
        });
        // Nobody has to see it.
        let _ = timeout(PAUSE * 5, self.session.source.create_event(&name.namespace, &event)).await;
    }

    /// Builds the error of a DaemonSet that this client no longer holds.
    fn lost(&self, loss: Loss) -> CommandError {
        let name = &self.report.daemon_set;
        let title = name.title();
        let command = |verb| crate::rollout::hold::command(verb, name);
        let stopped = "no more pods are replaced by this run";
        match loss {
            Loss::Deleted => CommandError::new(format!("{title} was deleted; {stopped}")),
            Loss::Recreated => CommandError::new(format!("{title} was deleted and recreated; {stopped}")),
            Loss::StrategyPutBack => {
                let message = format!(
                    "somebody has put the update strategy of {title} back, so the controller replaces all pods"
                );
                CommandError::new(message).hint(format!("to suspend it again: {}", command("pause")))
            }
            Loss::TakenOver => {
                CommandError::new(format!("{title} was paused, or is partitioned by another client; {stopped}"))
            }
            Loss::TemplateChanged => CommandError::new(format!("the template of {title} was changed; {stopped}"))
                .hint("the same command rolls out the template as it is now"),
            Loss::Unknown => {
                CommandError::new(format!("the nodes and pods of {title} cannot be read any more; {stopped}"))
            }
        }
    }
}

/// How a stage has ended.
enum Ended {
    /// All is updated; how many nodes that are ready still have a pod of an older revision.
    Done(usize),
    Stopped(Vec<GateFailure>),
    Lost(Loss),
}

/// What became of a pod that is to be replaced.
enum Replaced {
    Yes,
    /// Look again; why, if that may last.
    Later(Option<String>),
    Lost(Loss),
}

fn generation(snapshot: &Snapshot) -> i64 {
    snapshot.daemon_sets.first().map_or(0, |daemon_set| daemon_set.metadata.generation)
}

fn describe(waiting: &Waiting, now: Timestamp) -> Option<String> {
    match waiting {
        Waiting::Controller => Some("waiting for the controller".to_owned()),
        Waiting::Pods(_) => None,
        Waiting::Budget { nodes, allowed } => Some(format!(
            "waiting: {} of {allowed} nodes that may be have no available pod: {}",
            nodes.len(),
            nodes[..nodes.len().min(3)].join(", ")
        )),
        Waiting::Soak(end) => {
            Some(format!("all new pods are available; waiting until {}", end.strftime("%H:%M:%S UTC")))
                .filter(|_| *end > now)
        }
    }
}
