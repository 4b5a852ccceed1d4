//! The gate flags of `partition`, `restart` and `undo`: conditions that must hold while pods are replaced.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use crate::connection::parse_duration;
use crate::error::CommandError;
use crate::io::Io;
use crate::model::int_or_percent::IntOrPercent;
use crate::rollout::partition::StageGates;
use crate::rollout::partition::plan::StageRequest;

/// The heading of the flags.
const GATES: &str = "Gates that new pods must pass before more pods are replaced";

/// The flags, each as it was given.
#[derive(Debug, Args, PartialEq, Eq, Default)]
pub struct GateArgs {
    /// How many nodes may become unavailable.
    ///
    /// It counts nodes of this run, besides those that are unavailable already. The default is maxUnavailable of the update strategy,
    /// which counts both.
    #[arg(long, help_heading = GATES, value_name = "N|N%")]
    max_unavailable: Option<IntOrPercent>,
    /// Restarts allowed to a new pod [default: 0]
    #[arg(long, help_heading = GATES, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) max_restarts: Option<i32>,
    /// How long new pods must stay available.
    ///
    /// All of them have to at the end of a stage, for 30s or 10m, for example; by default not at all.
    #[arg(long, help_heading = GATES, value_name = "DURATION", value_parser = parse_duration)]
    soak: Option<Duration>,
    /// Stop without progress [default: 10m]
    #[arg(long, help_heading = GATES, value_name = "DURATION", value_parser = parse_duration)]
    progress_deadline: Option<Duration>,
    /// Run this command for each updated node.
    ///
    /// It is run with `sh -c`, with NODE, POD, NAMESPACE and REVISION set, and stops the stage if it fails.
    #[arg(long, help_heading = GATES, value_name = "COMMAND")]
    verify: Option<String>,
    /// After a gate: stop (default) or undo.
    ///
    /// `stop` leaves everything as it is; `undo` rolls back the template and the updated nodes.
    #[arg(long, help_heading = GATES, value_name = "WHAT", value_enum)]
    pub(super) on_failure: Option<OnFailure>,
    /// Evict pods instead of deleting them.
    ///
    /// This respects PodDisruptionBudgets.
    #[arg(long)]
    evict: bool,
    /// Begin although nodes have two pods.
    ///
    /// They have because of maxSurge; the controller deletes the newer one of each.
    #[arg(long)]
    delete_surge_pods: bool,
}

/// What `--on-failure` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OnFailure {
    /// Leave everything as it is
    Stop,
    /// Roll the template back, and the updated nodes
    Undo,
}

impl GateArgs {
    /// Returns the flags if any are given.
    pub(super) fn given(&self) -> Option<&Self> {
        Some(self).filter(|gates| **gates != GateArgs::default())
    }

    pub(super) fn check(&self) -> Result<(), CommandError> {
        if let Some(amount) = self.max_unavailable
            && (amount.value() < 1 || matches!(amount, IntOrPercent::Percent(percent) if percent > 100))
        {
            return Err(CommandError::usage(format!("invalid --max-unavailable \"{amount}\""))
                .hint("give a number of nodes from 1, or a percentage from 1% to 100%"));
        }
        if self.verify.as_ref().is_some_and(|command| command.trim().is_empty()) {
            return Err(CommandError::usage("--verify needs a command"));
        }
        if self.progress_deadline.is_some_and(|deadline| deadline.is_zero()) {
            return Err(CommandError::usage("--progress-deadline must be longer than 0s"));
        }
        Ok(())
    }

    /// Copies the given flags into a request.
    pub(super) fn put_into(&self, request: StageRequest) -> StageRequest {
        let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let before = request.gates;
        let gates = StageGates {
            max_restarts: self.max_restarts.or(before.max_restarts),
            soak: self.soak.map_or(before.soak, signed),
            progress_deadline: self.progress_deadline.map_or(before.progress_deadline, signed),
            verifies: self.verify.is_some(),
        };
        StageRequest {
            max_unavailable: self.max_unavailable,
            gates,
            verify: self.verify.clone(),
            evict: self.evict || request.evict,
            rolls_back: self.on_failure == Some(OnFailure::Undo),
            delete_surge_pods: self.delete_surge_pods,
            ..request
        }
    }
}

/// Returns the name of this client in the annotations of a hold.
pub(super) fn name_of_run(io: &Io<'_>) -> String {
    format!("{} {}", (io.clock)(), std::process::id())
}
