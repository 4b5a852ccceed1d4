//! `set`: changes the update strategy and other fields of the spec besides the template.

use clap::{Args, value_parser};

use super::change::Verb;
use super::change_args::ChangeArgs;
use super::parse::strategy_types;
use super::refusal::{surge_pods, worse};
use crate::error::CommandError;
use crate::facts::revisions::name_of;
use crate::model::int_or_percent::IntOrPercent;
use crate::plan::{SpecFields, StrategyType};
use crate::report::fix::Fix;
use crate::rollout::proposal::Planned;
use crate::rollout::set::{SetRefusal, SetRequest, set};
use crate::rollout::situation::Situation;

/// Change the update strategy of a DaemonSet
///
/// All fields are changed with one patch that applies only to the object that was shown. The changes, their effect on
/// this cluster and the command that undoes them are printed. The template is not changed, so no revision is created
/// and no pod restarts because of it; a rollout that is under way continues at the new pace.
///
/// Exit codes: 6 if the change was applied and the controller was not seen to act on it; 7 if the change was sent and
/// it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show the effect of allowing half of the pods to be unavailable
kubectl ds set node-exporter -n monitoring --max-unavailable 50% --dry-run

# Allow it
kubectl ds set node-exporter -n monitoring --max-unavailable 50%

# Create new pods before the old ones are deleted, on 2 nodes at a time
kubectl ds set fluent-bit -n logging --max-surge 2

# Show the effect of a longer wait before a new pod counts as available
kubectl ds set fluent-bit -n logging --min-ready-seconds 60 --dry-run=client

# Replace pods only when they are deleted
kubectl ds set fluent-bit -n logging --type OnDelete")]
pub struct SetArgs {
    /// How many nodes may have a second pod.
    ///
    /// A number or percentage, during a rolling update; sets maxUnavailable to 0.
    #[arg(long, help_heading = "Update strategy", value_name = "N|N%", allow_negative_numbers = true)]
    max_surge: Option<IntOrPercent>,
    /// How many pods may be unavailable.
    ///
    /// A number or percentage, during a rolling update; sets maxSurge to 0.
    #[arg(long, help_heading = "Update strategy", value_name = "N|N%", allow_negative_numbers = true)]
    max_unavailable: Option<IntOrPercent>,
    /// How long a new pod must be ready.
    ///
    /// The seconds before it counts as available.
    #[arg(long, help_heading = "Update strategy", value_name = "SECONDS", allow_negative_numbers = true, value_parser = value_parser!(i32).range(0..))]
    min_ready_seconds: Option<i32>,
    /// The type: RollingUpdate or OnDelete
    #[arg(long = "type", help_heading = "Update strategy", value_name = "TYPE", value_parser = strategy_types(), ignore_case = true)]
    strategy_type: Option<StrategyType>,
    /// How many old revisions to retain.
    ///
    /// For a rollback.
    #[arg(long, help_heading = "Update strategy", value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(i32).range(0..))]
    revision_history_limit: Option<i32>,
    /// Set values that would block the rollout.
    ///
    /// More pods would become unavailable and stay so, or a surge could not begin because of host ports, which two pods of a
    /// node cannot share.
    #[arg(long)]
    force: bool,
    /// End surge although nodes have two pods.
    ///
    /// The controller deletes the newer one of each.
    #[arg(long)]
    delete_surge_pods: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Verb for SetArgs {
    fn change(&self) -> &ChangeArgs {
        &self.change
    }

    fn fields(&self) -> SpecFields {
        SpecFields {
            strategy_type: self.strategy_type,
            max_surge: self.max_surge,
            max_unavailable: self.max_unavailable,
            min_ready_seconds: self.min_ready_seconds.map(i64::from),
            revision_history_limit: self.revision_history_limit.map(i64::from),
        }
    }

    fn creates_pods(&self) -> bool {
        let has_pace = self.max_surge.is_some() || self.max_unavailable.is_some();
        has_pace || self.strategy_type == Some(StrategyType::RollingUpdate)
    }

    fn check(&self) -> Result<(), CommandError> {
        if self.fields() == SpecFields::default() {
            return Err(CommandError::usage("no field to set").hint(
                "give at least one of --max-unavailable, --max-surge, --min-ready-seconds, --type and \
                 --revision-history-limit",
            ));
        }
        let has_pace = self.max_surge.is_some() || self.max_unavailable.is_some();
        if self.strategy_type == Some(StrategyType::OnDelete) && has_pace {
            return Err(CommandError::usage("--max-surge and --max-unavailable have no effect with --type OnDelete"));
        }
        Ok(())
    }

    fn switches(&self) -> Vec<&'static str> {
        let given = [("--force", self.force), ("--delete-surge-pods", self.delete_surge_pods)];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }

    fn plan(&self, before: &Situation<'_>) -> Result<Planned, CommandError> {
        let request =
            SetRequest { fields: self.fields(), force: self.force, delete_surge_pods: self.delete_surge_pods };
        set(before, &request).map_err(|refusal| refused(before, refusal))
    }
}

/// Builds the error for a refused request.
fn refused(before: &Situation<'_>, refusal: SetRefusal) -> CommandError {
    let daemon_set = name_of(before.daemon_set);
    let name = daemon_set.title();
    match refusal {
        SetRefusal::Invalid(problems) => {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            CommandError::new(format!("{name} would be invalid: {}", problems.join(", ")))
        }
        SetRefusal::NotRollingUpdate => {
            CommandError::new("--max-surge and --max-unavailable have no effect under the update strategy OnDelete")
                .hint("to let the controller replace the pods, add --type RollingUpdate")
        }
        SetRefusal::HostPorts(ports) => {
            let ports = ports.join(", ");
            CommandError::new(format!("maxSurge cannot work: two pods of a node cannot share host port {ports}"))
                .hint("use --max-unavailable, or set maxSurge anyway with --force")
        }
        SetRefusal::OnHold => {
            CommandError::new(format!("{name} is paused, and its update strategy is restored when it is resumed"))
                // Resuming it would let the controller roll out a revision that may fail.
                .hint(Fix::new("to see how to continue", daemon_set.command("status")))
                .hint(Fix::new("to restore its update strategy", daemon_set.command("resume")))
                .hint("to change the budget of a single stage, use --max-unavailable of `partition`")
        }
        SetRefusal::SurgePods(pods) => surge_pods(&pods, "to delete the newer pods, add --delete-surge-pods"),
        SetRefusal::Worse(warnings) => worse(warnings).hint("to set it anyway, add --force"),
    }
}
