//! `resume`: restores the update strategy.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::change;
use super::change_args::ChangeArgs;
use super::session::GlobalArgs;
use crate::cluster::Wanted;
use crate::error::Exit;
use crate::io::Io;
use crate::rollout::hold::resume;

/// Resume the rollout of a DaemonSet that was paused or partitioned
///
/// The update strategy becomes what it was, and the controller finishes the rollout at its own pace. What it replaces at
/// once is shown first. A strategy that was restored by others meanwhile is left as it is.
///
/// Exit codes: 6 if the change was applied and the controller was not seen to act on it; 7 if the change was sent and
/// it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show what the controller replaces at once if a rollout is resumed
kubectl ds resume fluent-bit -n logging --dry-run=client

# Resume it
kubectl ds resume fluent-bit -n logging")]
pub struct ResumeArgs {
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
    arguments: ResumeArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let ResumeArgs { name, change } = arguments;
    let settings = change.resolve(&name)?;
    change::run(&settings, target, io, out, Wanted::Change, |revisions, snapshot| Ok(resume(revisions, snapshot))).await
}
