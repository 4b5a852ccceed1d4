//! `retry`: tries again now what backs off after failures.

use clap::Args;

use super::change::Verb;
use super::change_args::ChangeArgs;
use crate::error::CommandError;
use crate::rollout::proposal::Planned;
use crate::rollout::retry::retry;
use crate::rollout::situation::Situation;

/// Try again now what backs off after failures
///
/// After the cause of a failure was removed, such as a quota, a policy, an image or a configuration. An annotation of the
/// DaemonSet, not of its template, makes the controller create pods now that were refused. Pods in CrashLoopBackOff or
/// ImagePullBackOff and failed ones are deleted if the controller recreates them from the same revision; the API server is asked
/// first, in a dry run, whether it accepts new pods. No more nodes than maxUnavailable wait for a new pod at a time, so that it
/// may have to be repeated; no available pod is deleted.
///
/// Exit codes: 6 if the change was applied and that could not be printed; 7 if the change or a deletion was sent and it is not
/// known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Create the pods that a quota refused, which was raised
kubectl ds retry fluent-bit -n logging

# Show what backs off, and when it would try again by itself
kubectl ds retry fluent-bit -n logging --dry-run")]
#[command(mut_arg("no_wait", |flag| flag.hide(true)), mut_arg("timeout", |flag| flag.hide(true)))]
pub struct RetryArgs {
    /// Delete also pods of which other containers run, which are stopped, too
    #[arg(long)]
    force: bool,
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

    fn switches(&self) -> Vec<&'static str> {
        self.force.then_some("--force").into_iter().collect()
    }

    fn recreates_pods(&self) -> bool {
        true
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        Ok(retry(before, self.force))
    }
}
