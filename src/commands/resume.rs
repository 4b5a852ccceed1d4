//! `resume`: restores the update strategy.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use crate::error::CommandError;
use crate::rollout::pause::resume;
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
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for ResumeArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn creates_pods(&self) -> bool {
        true
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        Ok(resume(before))
    }
}
