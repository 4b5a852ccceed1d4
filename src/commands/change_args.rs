//! The flags of the commands that change a DaemonSet with one patch, and what they mean.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::parse::{Named, parse_name};
use crate::connection::parse_duration;
use crate::error::CommandError;

/// Longer than anybody waits.
const NO_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// The flags of a command that changes a DaemonSet.
#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    /// Show what would be done: `client` sends nothing, `server` sends it without persisting it
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t, default_missing_value = "client", hide_default_value = true)]
    dry_run: DryRun,
    /// Output format: json or yaml for the plan, its outcome and the changed DaemonSet; name for its name, as soon as the API
    /// server has answered
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<ChangeOutput>,
    /// Do not wait until the controller has observed the change
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for the controller, such as `30s` or `5m`; 0 means no limit
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration, conflicts_with = "no_wait")]
    timeout: Duration,
    /// After the change, follow the rollout until it is done, as `kubectl ds status --watch` does
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
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

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ChangeOutput {
    Name,
    Json,
    Yaml,
}

/// What the flags mean.
#[derive(Debug)]
pub struct Settings {
    pub(super) named: Named,
    pub(super) dry_run: DryRun,
    pub(super) output: Option<ChangeOutput>,
    /// How long to wait for the controller; `None` if not waiting.
    pub(super) patience: Option<Duration>,
    /// Whether the change is all that is made.
    pub(super) no_wait: bool,
    /// Whether to follow the rollout after the change.
    pub(super) watch: bool,
}

impl Settings {
    /// Returns whether pods that the controller does not replace are replaced after the change.
    pub(super) fn replaces_pods(&self) -> bool {
        !self.no_wait && self.output.is_none()
    }
}

impl ChangeArgs {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// Fails if something other than a DaemonSet is named.
    pub fn resolve(&self) -> Result<Settings, CommandError> {
        let ChangeArgs { ref name, dry_run, output, no_wait, timeout, watch } = *self;
        let named = parse_name(name)?;
        if watch && dry_run != DryRun::Off {
            return Err(CommandError::usage("--watch and --dry-run cannot be given together: nothing is rolled out"));
        }
        // The server's answer has the object already.
        let waits = !no_wait && dry_run == DryRun::Off && output != Some(ChangeOutput::Name);
        let timeout = if timeout.is_zero() { NO_LIMIT } else { timeout };
        Ok(Settings { named, dry_run, output, patience: waits.then_some(timeout), no_wait, watch })
    }
}
