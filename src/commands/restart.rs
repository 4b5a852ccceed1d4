//! `restart`: every pod anew, from the same template.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::change::{self, ChangeArgs, Changed};
use super::session::GlobalArgs;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::rollout::restart::restart;

/// Make every pod anew, at the pace of the update strategy
///
/// The time is noted in the template, under the annotation that kubectl uses, which makes a new revision. Under
/// OnDelete nothing restarts until pods are deleted; their nodes are listed.
#[derive(Debug, Args)]
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
/// Fails where the DaemonSet is not there, the change is refused, or the output cannot be written.
pub async fn run(
    arguments: RestartArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let RestartArgs { name, change } = arguments;
    let settings = change.resolve(&name)?;
    change::run(&settings, target, io, out, Changed::Restarted, |revisions, snapshot| {
        let (plan, write) = restart(revisions, snapshot);
        if write.is_none() {
            let message = "a restart was asked for within this very second already";
            return Err(CommandError::new(message).hint("ask again in a second if you mean another one"));
        }
        Ok((plan, write))
    })
    .await
}
