//! The flags of the commands that change a DaemonSet with one patch, and what they mean.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::output::{Output, formats};
use super::parse::{Named, parse_name};
use crate::connection::parse_duration;
use crate::error::CommandError;

/// How long to wait for the controller by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than anyone waits.
const NO_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// The flags of a command that changes a DaemonSet.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    /// Show the change only; =server also validates it.
    ///
    /// `client` does not send it, `server` sends it without persisting it.
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t, default_missing_value = "client", hide_default_value = true)]
    pub(super) dry_run: DryRun,
    /// Output format. One of: (json, yaml, name).
    ///
    /// json or yaml for the plan, its outcome and the changed DaemonSet; name for its name, as soon as the API server has answered.
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml, Output::Name]), hide_possible_values = true)]
    pub(super) output: Option<Output>,
    /// Do not wait for the controller to act on it.
    ///
    /// By default, the command waits until the controller has observed the change.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for the controller [default: 30s].
    ///
    /// Such as `30s` or `5m`, and, if given, also for the answer to the change; 0 means no limit.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    timeout: Option<Duration>,
    /// Do not ask before a change that may do harm.
    ///
    /// Only a terminal is asked.
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Then follow the rollout until it is done.
    ///
    /// As `kubectl ds status --watch` does.
    #[arg(short, long, conflicts_with = "output")]
    pub(super) watch: bool,
}

/// What `--dry-run` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum DryRun {
    #[default]
    #[value(name = "none")]
    Off,
    Client,
    Server,
}

impl ChangeArgs {
    /// Checks the flags, and returns the named DaemonSet.
    pub(super) fn named(&self) -> Result<Named, CommandError> {
        let named = parse_name(&self.name)?;
        if self.watch && self.dry_run != DryRun::Off {
            return Err(CommandError::usage("--watch and --dry-run cannot be given together: nothing is rolled out"));
        }
        Ok(named)
    }

    /// Rejects the flags about waiting, for a command after which nothing shows that the controller has acted.
    pub(super) fn check_nothing_is_awaited(&self) -> Result<(), CommandError> {
        let flag = match (self.no_wait, self.timeout) {
            (true, _) => "--no-wait",
            (false, Some(_)) => "--timeout",
            (false, None) => return Ok(()),
        };
        let message = format!("{flag} has no effect: the command does not wait for the controller");
        Err(CommandError::usage(message).hint("to follow what it does then, add --watch"))
    }

    /// Rejects the flags that do not apply to a stage, in which this program replaces the pods.
    pub(super) fn check_stage(&self) -> Result<(), CommandError> {
        let flag = match self.output {
            _ if self.no_wait => "--no-wait",
            _ if self.dry_run == DryRun::Server => "--dry-run=server",
            Some(Output::Yaml) => "--output yaml",
            Some(Output::Name) => "--output name",
            _ => return Ok(()),
        };
        let message = format!("{flag} cannot be given together with gates such as --soak");
        Err(CommandError::usage(message)
            .hint("with gates, this command replaces the pods itself and waits for them, as `partition NAME 0` does"))
    }

    /// Returns how long to wait for the controller; `None` if not waiting.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        // The server's response already contains the object.
        let waits = !self.no_wait && self.dry_run == DryRun::Off && self.output != Some(Output::Name);
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        waits.then_some(if timeout.is_zero() { NO_LIMIT } else { timeout })
    }

    /// Returns how long the command may take if the user has specified that.
    pub(super) fn given_time_limit(&self) -> Option<Duration> {
        self.timeout.map(|timeout| if timeout.is_zero() { NO_LIMIT } else { timeout })
    }

    /// Returns whether this program replaces pods after the change.
    pub(super) fn replaces_pods(&self) -> bool {
        !self.no_wait && self.output.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args, Command, FromArgMatches};

    use super::ChangeArgs;

    /// A rollback of a held DaemonSet replaces pods for as long as necessary.
    #[test]
    fn a_rollback_of_a_held_daemon_set_is_limited_only_if_that_was_asked_for() {
        let parse = |flags: &[&str]| {
            let matches =
                ChangeArgs::augment_args(Command::new("undo")).get_matches_from([&["undo", "agent"], flags].concat());
            let args = ChangeArgs::from_arg_matches(&matches).unwrap();
            (args.time_limit(), args.given_time_limit())
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(parse(&[]), (seconds(30), None));
        assert_eq!(parse(&["--timeout=5m"]), (seconds(300), seconds(300)));
        assert_eq!(parse(&["--no-wait"]), (None, None));
    }
}
