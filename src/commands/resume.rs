//! `resume`: restores the update strategy.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use super::refusal::{lost_hold, worse};
use crate::error::CommandError;
use crate::rollout::pause::{may_have_lost_hold, resume};
use crate::rollout::proposal::Planned;
use crate::rollout::situation::Situation;

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
    /// Resume although more pods would become unavailable, and stay so.
    ///
    /// The new pods certainly fail, or the API server refuses them.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for ResumeArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn switches(&self) -> Vec<&'static str> {
        self.force.then_some("--force").into_iter().collect()
    }

    fn creates_pods(&self) -> bool {
        true
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        if may_have_lost_hold(before.daemon_set) {
            return Err(lost_hold(before.daemon_set));
        }
        resume(before, self.force).map_err(|warnings| worse(warnings).hint("to resume it anyway, add --force"))
    }
}
