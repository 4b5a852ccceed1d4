//! `pause`: suspends the update strategy.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use super::refusal::{held_by, surge_pods};
use crate::error::CommandError;
use crate::facts::revisions::name_of;
use crate::report::fix::Fix;
use crate::rollout::pause::{PauseRefusal, pause};
use crate::rollout::proposal::Planned;
use crate::rollout::situation::Situation;

/// Pause the rollout of a DaemonSet
///
/// The update strategy becomes OnDelete, and annotations keep what it was. No pod is replaced, whatever the
/// template becomes, until the rollout is resumed; but a pod that is deleted, evicted or fails gets the current template, and
/// so does a new node. For an Advanced DaemonSet, `paused` is set instead.
///
/// Exit codes: 6 if the change was applied and the controller was not seen to act on it; 7 if the change was sent and
/// it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show what pausing a rollout would change
kubectl ds pause fluent-bit -n logging --dry-run=client

# Pause it
kubectl ds pause fluent-bit -n logging")]
pub struct PauseArgs {
    /// Pause although nodes have two pods.
    ///
    /// They have because of maxSurge; the controller deletes the newer one of each.
    #[arg(long)]
    delete_surge_pods: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for PauseArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn is_hold(&self) -> bool {
        true
    }

    fn switches(&self) -> Vec<&'static str> {
        self.delete_surge_pods.then_some("--delete-surge-pods").into_iter().collect()
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        pause(before, self.delete_surge_pods).map_err(|refusal| refused(before, refusal))
    }
}

/// Builds the error for a refused pause.
fn refused(before: &Situation<'_>, refusal: PauseRefusal) -> CommandError {
    let name = name_of(before.daemon_set);
    match refusal {
        PauseRefusal::HeldBy(holder) => held_by(&name, &holder, "pause the rollout there"),
        PauseRefusal::SurgePods(pods) => {
            let pause = name.command("pause").switch("--delete-surge-pods");
            surge_pods(&pods, Fix::new("to pause at once", pause))
        }
    }
}
