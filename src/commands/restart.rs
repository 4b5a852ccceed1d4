//! `restart`: restarts all pods.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use super::refusal::worse;
use crate::error::CommandError;
use crate::facts::revisions::name_of;
use crate::report::fix::Fix;
use crate::report::history::Subcommand;
use crate::rollout::proposal::Planned;
use crate::rollout::restart::restart;
use crate::rollout::situation::Situation;

/// Restart all pods, following the update strategy
///
/// The time is written into the annotation of the template that kubectl uses, which creates a new revision. Under
/// OnDelete nothing restarts until pods are deleted; their nodes are listed.
///
/// Exit codes: 6 if the change was applied and the controller was not seen to act on it; 7 if the change was sent and
/// it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Restart all pods of a DaemonSet, as its update strategy allows
kubectl ds restart cilium -n kube-system")]
pub struct RestartArgs {
    /// Restart although new pods certainly fail.
    ///
    /// Although pods that are available would be replaced by pods that certainly fail or are rejected.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for RestartArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn creates_pods(&self) -> bool {
        true
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        let refusal = |warnings| worse(warnings).hint("to restart the pods anyway, add --force");
        let planned = restart(before, self.force).map_err(refusal)?;
        if planned.plan.steps.is_empty() {
            let message = "the DaemonSet was already restarted within this second";
            let restart = name_of(before.daemon_set).command(Subcommand::Restart);
            let restart = if self.force { restart.switch("--force") } else { restart };
            return Err(CommandError::new(message).hint(Fix::new("to restart it once more", restart)));
        }
        Ok(planned)
    }
}
