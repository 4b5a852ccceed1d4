//! `pause`: suspends the update strategy.

use std::io::Write;

use clap::Args;

use super::Failure;
use super::change;
use super::change_args::{ChangeArgs, Settings};
use super::refusal::{held_by, surge_pods};
use super::session::GlobalArgs;
use crate::cluster::Wanted;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::{Revisions, name_of};
use crate::io::Io;
use crate::report::fix::Fix;
use crate::report::history::Subcommand;
use crate::rollout::hold::{Refusal, pause};

/// Pause the rollout of a DaemonSet
///
/// The update strategy becomes OnDelete, and annotations keep what it was. No pod is replaced, whatever the
/// template becomes, until the rollout is resumed; but a pod that is deleted, evicted or fails gets the current template, and
/// so does a new node. For an Advanced DaemonSet, `paused` is set instead.
///
/// Exit codes: 6 if the change was applied and the controller was not seen to act on it; 7 if the change was sent and
/// it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Pause a rollout
kubectl ds pause fluent-bit -n logging")]
pub struct PauseArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    /// Pause although nodes have two pods because of maxSurge; the controller deletes the newer one of each
    #[arg(long)]
    delete_surge_pods: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails if somebody else holds the DaemonSet, the change is not applied, or the output cannot be written.
pub async fn run(
    arguments: PauseArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let PauseArgs { name, delete_surge_pods, change } = arguments;
    let switches = [("--delete-surge-pods", delete_surge_pods)].into_iter().collect();
    let settings = Settings { is_hold: true, switches, ..change.resolve(&name)? };
    change::run(&settings, target, io, out, Wanted::Change, |revisions, snapshot| {
        pause(revisions, delete_surge_pods, snapshot).map_err(|refusal| refused(revisions, refusal))
    })
    .await
}

/// Builds the error of a pause that is refused.
fn refused(revisions: &Revisions<'_>, refusal: Refusal) -> CommandError {
    let name = name_of(revisions.daemon_set);
    match refusal {
        Refusal::HeldBy(holder) => held_by(&name, &holder, "pause the rollout there"),
        Refusal::SurgePods(pods) => {
            let pause = name.command(Subcommand::Pause).switch("--delete-surge-pods");
            surge_pods(&pods, Fix::new("to pause at once", pause))
        }
    }
}
