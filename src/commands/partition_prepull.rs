//! Pulls the images of the new template on the nodes of a stage, before anything else is changed.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};

use super::Failure;
use super::api_server::ApiServer;
use super::partition_progress::PAUSE;
use super::partition_run::Run;
use crate::error::CommandError;
use crate::io::Io;
use crate::plan::{JobRef, PrepullJob, Step, prepull};
use crate::render::text::count;
use crate::report::fix::Command;
use crate::report::partition::{Gate, GateFailure};
use crate::report::reason::ReasonCode;
use crate::rollout::apply::{Application, StepRefusal, apply};
use crate::rollout::partition::instruction::{is_late, late};
use crate::rollout::partition::prepull::{DELETED, Pull, pull};

/// How many nodes pull at a time: more would keep a registry busy for everyone else.
const AT_A_TIME: usize = 10;

/// How long the last Jobs may take to be deleted: after an interruption, the process ends within five seconds.
const CLEANUP: Duration = Duration::from_secs(4);

/// The same after an interruption.
const CLEANUP_AFTER_INTERRUPT: Duration = Duration::from_secs(1);

/// A Job that was created.
struct Running {
    job: PrepullJob,
    since: Timestamp,
    /// Whether its pod was seen.
    has_pod: bool,
}

impl Run<'_> {
    /// Pulls the images, and returns why the stage cannot begin. Whatever happens, no Job is left if that can be helped.
    pub(super) async fn prepull(
        &mut self,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Option<GateFailure>, Failure> {
        let jobs: VecDeque<PrepullJob> = self.plan.prepull_jobs().cloned().collect();
        if jobs.is_empty() {
            return Ok(None);
        }
        io.interrupt.expect_changes();
        io.interrupt.set_has_to_clean_up(true);
        let mut open = Vec::new();
        let pulled = self.pull(jobs, &mut open, io, out).await;
        let patience = if io.interrupt.is_requested() { CLEANUP_AFTER_INTERRUPT } else { CLEANUP };
        let left = timeout(patience, self.delete_jobs(open)).await;
        io.interrupt.set_has_to_clean_up(false);
        self.session.print_warnings(io)?;
        let why = match left.as_deref() {
            Ok([]) => None,
            Ok([(_, error), ..]) => Some(error.to_string()),
            Err(_) => Some("the API server does not answer".to_owned()),
        };
        if let Some(why) = why {
            let jobs = Command::kubectl(&["get", "jobs", "-l", &prepull::selector(self.before)])
                .namespace(&self.before.metadata.namespace);
            let message = "warning: Jobs could not be deleted, and are deleted by the cluster later";
            let (why, hint) = (self.view.show(&why), self.view.command("to list them", &jobs));
            writeln!(io.err, "{message}: {why}\nhint: {hint}")?;
        }
        self.stage.last_progress = self.clock.now();
        pulled
    }

    async fn pull(
        &mut self,
        mut jobs: VecDeque<PrepullJob>,
        open: &mut Vec<JobRef>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<Option<GateFailure>, Failure> {
        let (live, all) = (self.live, jobs.len());
        let (namespace, selector) = (&self.before.metadata.namespace, prepull::selector(self.before));
        // Those of a client that was killed.
        *open = self.unless_interrupted(io, live.list_jobs(namespace, &selector)).await??;
        let left = self.unless_interrupted(io, self.delete_jobs(std::mem::take(open))).await?;
        if let Some((_, error)) = left.into_iter().next() {
            return Err(error.into());
        }
        self.stage.last_progress = self.clock.now();
        self.progress.write(&format!("pulling the images on {}", count(all, "node")), self.view, out)?;
        let (mut running, mut done): (Vec<Running>, usize) = (Vec::new(), 0);
        loop {
            while running.len() < AT_A_TIME
                && let Some(job) = jobs.pop_front()
            {
                open.push(job.job.clone());
                self.unless_interrupted(io, self.create_job(&job)).await??;
                running.push(Running { job, since: self.clock.now(), has_pod: false });
            }
            if running.is_empty() {
                return Ok(None);
            }
            self.unless_interrupted(io, sleep(PAUSE)).await?;
            let mut problem = None;
            match self.unless_interrupted(io, live.list_job_pods(namespace, &selector)).await? {
                Err(error) if error.is_transient() => problem = Some(error.to_string()),
                Err(error) => return Err(error.into()),
                Ok(pods) => {
                    let mut pulled = Vec::new();
                    for (at, Running { job, has_pod, since }) in running.iter_mut().enumerate() {
                        let owned = |owner: &str| owner == job.job.name;
                        let pod =
                            pods.iter().find(|pod| pod.metadata.controller().is_some_and(|owner| owned(&owner.name)));
                        match pod.map(pull) {
                            Some(Pull::Pulled) => pulled.push(at),
                            Some(Pull::Pulling) => *has_pod = true,
                            Some(Pull::Failed(reason, message)) => {
                                return Ok(Some(failure(&job.node, reason, message)));
                            }
                            None if self.clock.now().duration_since(*since) >= self.stage.gates.progress_deadline => {
                                let message = late("the node has not pulled the images", &self.stage).message;
                                return Ok(Some(failure(&job.node, None, message)));
                            }
                            None if *has_pod => return Ok(Some(failure(&job.node, None, DELETED.to_owned()))),
                            None => {}
                        }
                    }
                    for at in pulled.into_iter().rev() {
                        let Running { job, since, .. } = running.remove(at);
                        open.retain(|other| *other != job.job);
                        open.extend(self.delete_jobs(vec![job.job]).await.into_iter().map(|(job, _)| job));
                        done += 1;
                        self.stage.last_progress = self.clock.now();
                        let seconds = self.clock.now().duration_since(since).as_secs();
                        let text = format!("{}: has the images after {seconds}s ({done} of {all})", job.node);
                        self.progress.write(&text, self.view, out)?;
                    }
                }
            }
            if running.iter().any(|running| !running.has_pod) {
                // Job controllers report this nowhere else; it may be forbidden to read that.
                let events = self.unless_interrupted(io, live.list_failed_creates(namespace)).await?;
                for event in events.unwrap_or_default() {
                    let is_of = |running: &&Running| running.job.job.name == event.involved_object.name;
                    if let Some(Running { job, .. }) = running.iter().find(is_of) {
                        return Ok(Some(failure(&job.node, None, event.message)));
                    }
                }
            }
            if is_late(&self.stage, self.clock.now())
                && let Some(Running { job, .. }) = running.first()
            {
                let message = problem.unwrap_or_else(|| "the node has not pulled the images".to_owned());
                return Ok(Some(failure(&job.node, None, late(&message, &self.stage).message)));
            }
        }
    }

    async fn create_job(&self, job: &PrepullJob) -> Result<(), CommandError> {
        let step = Step::CreateJob(Box::new(job.clone()));
        self.send(&step).await.map_err(|error| error.hint("no pod was deleted, and the DaemonSet was not changed"))
    }

    /// Deletes Jobs, and returns those that are left.
    async fn delete_jobs(&self, jobs: Vec<JobRef>) -> Vec<(JobRef, CommandError)> {
        let delete = |job: JobRef| async move {
            let step = Step::DeleteJob(job.clone());
            self.send(&step).await.err().map(|error| (job, error))
        };
        join_all(jobs.into_iter().map(delete)).await.into_iter().flatten().collect()
    }

    async fn send(&self, step: &Step) -> Result<(), CommandError> {
        let server = ApiServer { live: self.live, is_dry_run: false };
        match apply(&server, step, self.before, false).await {
            Application::Applied(_) => Ok(()),
            Application::Refused(StepRefusal::ByServer(error) | StepRefusal::NotApplied(error))
            | Application::Unknown(error)
            | Application::NotSeen(error) => Err(error),
            // Only its namespace can be missing.
            Application::Refused(_) | Application::Recreated | Application::Kept(..) => {
                Err(CommandError::new(format!("namespace {:?} not found", self.before.metadata.namespace)))
            }
        }
    }
}

fn failure(node: &str, reason: Option<ReasonCode>, message: String) -> GateFailure {
    GateFailure { gate: Gate::Prepull, node: Some(node.to_owned()), pod: None, reason, message }
}
