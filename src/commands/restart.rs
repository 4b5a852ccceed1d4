//! `restart`: restarts all pods.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::change;
use super::change_args::ChangeArgs;
use super::session::GlobalArgs;
use crate::cluster::Wanted;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::name_of;
use crate::io::Io;
use crate::report::fix::Fix;
use crate::report::history::Subcommand;
use crate::rollout::restart::restart;

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
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails if the DaemonSet does not exist, the change is not applied, or the output cannot be written.
pub async fn run(
    arguments: RestartArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let RestartArgs { name, change } = arguments;
    let settings = change.resolve(&name)?;
    change::run(&settings, target, io, out, Wanted::Change, |revisions, snapshot| {
        let planned = restart(revisions, snapshot);
        if planned.plan.steps.is_empty() {
            let message = "the DaemonSet was already restarted within this second";
            return Err(CommandError::new(message).hint(Fix::new(
                "to restart it once more",
                name_of(revisions.daemon_set).command(Subcommand::Restart),
            )));
        }
        Ok(planned)
    })
    .await
}
