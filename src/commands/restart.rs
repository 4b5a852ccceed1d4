//! `restart`: restarts all pods.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use super::gate_args::{GateArgs, OnFailure};
use super::refusal::{held_otherwise, worse};
use crate::error::CommandError;
use crate::facts::revisions::name_of;
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::report::fix::Fix;
use crate::report::plan::Warning;
use crate::rollout::partition::plan::{Amount, StageRequest};
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::proposal::Planned;
use crate::rollout::restart::{left_restart, restart, restart_time};
use crate::rollout::situation::Situation;

/// Restart all pods, following the update strategy
///
/// The time is written into the annotation of the template that kubectl uses, which creates a new revision. Under
/// OnDelete nothing restarts until pods are deleted; their nodes are listed.
///
/// With a gate, such as --soak, --verify or --max-unavailable, the pods are replaced by this command and not by the controller, as
/// `partition NAME 0` does: the update strategy is suspended until all of them have passed the gates. If it ends early, the same
/// command continues.
///
/// Exit codes: 3 if a gate has stopped it; 6 if the change was applied and the controller was not seen to act on it; 7 if the
/// change was sent and it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show how many pods would be replaced at once, and which checks fail
kubectl ds restart cilium -n kube-system --dry-run=client

# Restart all pods of a DaemonSet, as its update strategy allows
kubectl ds restart cilium -n kube-system

# Restart one pod after another, and stop if one does not come back
kubectl ds restart cilium -n kube-system --max-unavailable 1 --soak 30s")]
pub struct RestartArgs {
    /// Restart although new pods certainly fail.
    ///
    /// Available pods would be replaced by pods that certainly fail or are rejected.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    gates: GateArgs,
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

    fn gates(&self) -> Option<&GateArgs> {
        self.gates.given()
    }

    fn stage(&self, before: &Situation<'_>, run: String) -> Result<Option<(StageRequest, Vec<Warning>)>, CommandError> {
        let template = match Hold::in_force(before.daemon_set) {
            None if before.pods_known && before.nodes().all(|(_, node)| node.pods.is_empty()) => {
                let message = format!("{} has no pods to restart", name_of(before.daemon_set).title());
                return Err(CommandError::new(message));
            }
            None => NewTemplate::Restart(restart_time(before)),
            // It was started before, and has not finished.
            Some(hold) if hold.is_restart(before.daemon_set) => NewTemplate::Live,
            // Its client may have died on the way back, which the same command goes on with.
            Some(_) => match left_restart(before).filter(|_| self.gates.on_failure == Some(OnFailure::Undo)) {
                Some(at) => NewTemplate::Restart(at),
                None => return Err(held_otherwise(&name_of(before.daemon_set))),
            },
        };
        let request = StageRequest::new(Amount::Keep(IntOrPercent::Int(0)), template, run);
        Ok(Some((StageRequest { force: self.force, ..request }, Vec::new())))
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        let refusal = |warnings| worse(warnings).hint("to restart the pods anyway, add --force");
        let planned = restart(before, self.force).map_err(refusal)?;
        if planned.plan.step.is_none() {
            let message = "the DaemonSet was already restarted within this second";
            let restart = name_of(before.daemon_set).command("restart");
            let restart = if self.force { restart.switch("--force") } else { restart };
            return Err(CommandError::new(message).hint(Fix::new("to restart it once more", restart)));
        }
        Ok(planned)
    }
}
