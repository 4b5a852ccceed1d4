//! `retry`: makes the controller create refused pods now.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use crate::error::CommandError;
use crate::rollout::proposal::Planned;
use crate::rollout::retry::retry;
use crate::rollout::situation::Situation;

/// Make the controller create refused pods now
///
/// And show what else backs off.
///
/// After the cause of a failure was removed, such as a quota or a policy. An annotation of the DaemonSet, not of its template, makes
/// the controller sync it now. The API server is asked first, in a dry run, whether it accepts new pods.
///
/// No pod is deleted. Pods in CrashLoopBackOff or ImagePullBackOff and failed ones are shown with the time of their next attempt, and
/// with a command that deletes those that wait longest, if the controller recreates them from the same revision.
///
/// Exit codes: 6 if the change was applied and that could not be printed; 7 if the change was sent and it is not known whether it
/// was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show what backs off, and when it would try again by itself
kubectl ds retry fluent-bit -n logging --dry-run

# Create the pods that a quota refused, which was raised
kubectl ds retry fluent-bit -n logging")]
#[command(mut_arg("no_wait", |flag| flag.hide(true)), mut_arg("timeout", |flag| flag.hide(true)))]
pub struct RetryArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for RetryArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn check(&self) -> Result<(), CommandError> {
        self.change.check_nothing_is_awaited()
    }

    fn creates_pods(&self) -> bool {
        true
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        Ok(retry(before))
    }
}
