//! The API server to which the steps of a plan are applied.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::not_applied::{not_answered, not_processed};
use crate::cluster::error::{ClusterError, DISRUPTION_BUDGET};
use crate::cluster::live::Live;
use crate::connection::error::FailureKind;
use crate::error::{CommandError, Exit};
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::Pod;
use crate::plan::{PodRef, Step};
use crate::rollout::apply::{Application, Failed, Server, StepRefusal, apply, look_again};

/// The timeout of a read after a change.
pub(super) const REREAD: Duration = Duration::from_secs(5);

/// The API server of a session.
pub(super) struct ApiServer<'a> {
    pub(super) live: &'a Live,
    /// Whether the server runs admission, defaults and validation, and persists nothing.
    pub(super) is_dry_run: bool,
}

impl ApiServer<'_> {
    /// Applies a step within a time limit. If that ends, the object is read again within a few seconds. The outcome is unknown if that
    /// does not show it, or if the command is asked to stop in the meantime, except for a dry run, and unless every attempt was answered:
    /// a server that is too busy has not processed it.
    pub(super) async fn apply(
        &self,
        step: &Step,
        before: &DaemonSet,
        time_limit: Duration,
        interrupted: impl Future<Output = ()>,
    ) -> Application<CommandError> {
        self.live.take_undecided();
        tokio::select! {
            biased;
            application = timeout(time_limit, apply(self, step, before, self.is_dry_run)) => match application {
                Ok(application) => application,
                Err(_) if self.is_dry_run => Application::Refused(StepRefusal::ByServer(not_answered(time_limit))),
                Err(_) => {
                    let is_undecided = self.live.take_undecided();
                    let seen = timeout(REREAD, look_again(self, step, before, not_answered(time_limit))).await;
                    match seen.unwrap_or_else(|_| Application::Unknown(not_answered(time_limit))) {
                        Application::Unknown(_) | Application::NotSeen(_) if !is_undecided => {
                            Application::Refused(StepRefusal::NotProcessed(not_processed(time_limit)))
                        }
                        seen => seen,
                    }
                }
            },
            () = interrupted, if !self.is_dry_run => match self.live.take_undecided() {
                true => Application::Unknown(super::interrupted()),
                false => Application::Refused(StepRefusal::NotProcessed(super::interrupted())),
            },
        }
    }
}

impl Server for ApiServer<'_> {
    type Error = CommandError;

    async fn send(&self, step: &Step) -> Result<Value, Failed<CommandError>> {
        self.live.send(step, self.is_dry_run).await.map_err(|error| match (error, step) {
            (error, _) if is_absent(&error, step) => Failed::NotFound,
            (ClusterError::Api { reason, message, .. }, Step::EvictPod(_)) if reason == DISRUPTION_BUDGET => {
                Failed::Blocked(message)
            }
            (error, _) if error.is_conflict() => Failed::Conflict(error.into()),
            (error, Step::PatchDaemonSet(_)) if error.is_misfit_of_patch() => Failed::Conflict(error.into()),
            (ClusterError::Connection(error), _) if error.failure == FailureKind::Lost => {
                Failed::Lost(ClusterError::from(error).into())
            }
            (error, _) if error.outcome_unknown() => Failed::OutcomeUnknown(error.into()),
            (error, _) if error.is_transient() => Failed::Busy(error.into()),
            (error, _) => Failed::Refused(error.into()),
        })
    }

    async fn try_out(&self, step: &Step) -> Result<Value, Failed<CommandError>> {
        ApiServer { live: self.live, is_dry_run: true }.send(step).await
    }

    async fn read_daemon_set(&self, before: &DaemonSet) -> Result<Option<DaemonSet>, CommandError> {
        read_again(self.live.read_daemon_set(before)).await
    }

    async fn read_pod(&self, pod: &PodRef) -> Result<Option<Pod>, CommandError> {
        read_again(self.live.read_pod(pod)).await
    }

    async fn pause(&self, pause: Duration) {
        tokio::time::sleep(pause).await;
    }

    fn unexpected(&self, step: &Step, problem: &str) -> CommandError {
        ClusterError::Answer { request: step.request().to_owned(), problem: problem.to_owned() }.into()
    }
}

/// Reads an object again. A server that has not responded to the change may not respond to this either.
async fn read_again<T>(read: impl Future<Output = Result<T, ClusterError>>) -> Result<T, CommandError> {
    let unanswered = |_| CommandError::new("the API server does not answer").exit(Exit::TimedOut);
    Ok(timeout(REREAD, read).await.map_err(unanswered)??)
}

/// Tells whether the object of a step does not exist.
fn is_absent(error: &ClusterError, step: &Step) -> bool {
    let (resource, name) = match step {
        Step::PatchDaemonSet(patch) => ("daemonsets", &patch.name),
        Step::DeletePod(pod) | Step::EvictPod(pod) => ("pods", &pod.name),
    };
    error.is_absence_of(resource, name)
}
