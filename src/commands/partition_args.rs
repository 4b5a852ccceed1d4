//! The flags of `partition`, and what they mean.

use clap::Args;

use super::change_args::DryRun;
use super::gate_args::{GateArgs, name_of_run};
use super::output::{Output, formats};
use super::parse::{Named, parse_image, parse_name, parse_revision_number, parse_selector};
use super::watch;
use crate::error::CommandError;
use crate::io::Io;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::stages::{Stages, Stratum};
use crate::rollout::partition::plan::{Amount, StageRequest};
use crate::rollout::partition::staging::Staging;
use crate::rollout::partition::template::NewTemplate;

/// Update some nodes of a DaemonSet, and keep the others as they are
///
/// The others stay on older revisions. The update strategy is suspended (OnDelete), and annotations keep what it was. Then pods of older revisions are deleted
/// one by one, never more than maxUnavailable at a time, and only while every new pod starts, becomes available and does not
/// restart, and while no updated node turns NotReady. `partition NAME 0` updates the remaining nodes and restores the
/// strategy. A run that ends early prints the command that continues it.
///
/// Nodes with the label kubectl-ds/skip are left out, which is no failure: the exit code is 0. With -f, only the pod template of the
/// manifest is applied.
///
/// While a DaemonSet is partitioned, every new pod gets the current template: on a new node, and after a pod was deleted,
/// evicted or has failed. For an Advanced DaemonSet of OpenKruise, `partition` is set, and its controller does the rest.
///
/// Exit codes: 3 if a gate has stopped it; 6 if the controller was not seen to act, or an error has ended a stage that had begun, or
/// its rollback; 7 if a change was sent and it is not known whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show which nodes would be updated if 50% of the pods stay as they are
kubectl ds partition node-problem-detector 50% -n kube-system --dry-run

# Show which node would get a new image
kubectl ds partition fluent-bit --update 1 -n logging --dry-run \\
  --image fluent-bit=fluent-bit:4.2.1

# Show how the remaining nodes would be updated and the strategy restored
kubectl ds partition node-problem-detector 0 -n kube-system --dry-run")]
pub struct PartitionArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    /// How many pods stay OLD, rounded down: 90% updates 10%.
    ///
    /// A number or percentage; percentages are rounded down.
    #[arg(value_name = "N|N%")]
    #[arg(conflicts_with = "update")]
    partition: Option<IntOrPercent>,
    /// How many pods to update instead.
    ///
    /// A number or percentage.
    #[arg(long, value_name = "N|N%")]
    update: Option<IntOrPercent>,
    /// Roll out another image of a container.
    ///
    /// Can be given more than once.
    #[arg(long, value_name = "CONTAINER=IMAGE", conflicts_with = "to_revision")]
    image: Vec<String>,
    /// Roll out the template of a revision
    #[arg(long, value_name = "N", value_parser = parse_revision_number, allow_negative_numbers = true)]
    to_revision: Option<i64>,
    /// Roll out the template of a manifest.
    ///
    /// A manifest of this DaemonSet, `-` for standard input.
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["image", "to_revision"])]
    pub(super) filename: Option<String>,
    /// Update only these nodes, in this order
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Update only nodes with these labels
    #[arg(long, value_name = "SELECTOR", conflicts_with = "nodes")]
    node_selector: Option<String>,
    /// The label by whose values nodes take turns.
    ///
    /// By default the zone.
    #[arg(long, value_name = "LABEL", conflicts_with = "nodes")]
    spread_by: Option<String>,
    /// Update all nodes in stages: canary,10%,100%.
    ///
    /// With 0 as N. Each stage says how many nodes are updated at its end, and begins once the one before has passed its gates. They
    /// must grow and end with 100%. `canary` is a few nodes that together have each value of --strata. Trouble of other DaemonSets on
    /// updated nodes stops a stage, too. The same command continues a rollout that was interrupted.
    #[arg(long, value_name = "STAGE,...", conflicts_with_all = ["nodes", "node_selector"])]
    stages: Option<Stages>,
    /// Properties of nodes that a canary covers.
    ///
    /// Any of zone, arch, os-image, kernel, runtime and instance-type, which are the default, and keys of labels.
    #[arg(long, value_name = "STRATUM,...", value_delimiter = ',', requires = "stages")]
    strata: Vec<Stratum>,
    /// Print a Job that does it in the cluster.
    ///
    /// With --stages. The Job is not applied. It comes with a service account and the permissions that it needs; the image has this program as its
    /// entry point.
    #[arg(long, value_name = "IMAGE", requires = "stages", conflicts_with_all = ["filename", "to_revision", "verify", "output"])]
    pub(super) as_job: Option<String>,
    /// Begin only if metadata.generation is N.
    ///
    /// Otherwise, exit with 3, so that a repeated command does not roll out again what was rolled back. A rollout that the same
    /// command has begun continues, and so does its rollback. The command of --as-job has this flag.
    #[arg(long, value_name = "N", conflicts_with = "as_job", hide_short_help = true)]
    pub(super) if_generation: Option<i64>,
    #[command(flatten)]
    gates: GateArgs,
    /// Begin although more pods become unavailable.
    ///
    /// They would stay so.
    #[arg(long)]
    force: bool,
    /// Show the plan without sending it
    // A stage cannot be tried out on the server.
    #[arg(long, value_name = "HOW", value_parser = formats(&[DryRun::Off, DryRun::Client]), num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "none", default_missing_value = "client", hide_default_value = true)]
    pub(super) dry_run: DryRun,
    /// Do not ask before a stage that may do harm.
    ///
    /// Only a terminal is asked.
    #[arg(short, long)]
    pub(super) yes: bool,
    /// How to show it: auto, tty, plain or none.
    ///
    /// tty redraws a screen in place, plain prints a line per change, none only the end; auto is tty on a terminal, and plain
    /// elsewhere.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true)]
    pub(super) progress: watch::ProgressStyle,
    /// Output format. One of: (json)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json]), hide_possible_values = true)]
    pub(super) output: Option<Output>,
}

impl PartitionArgs {
    /// Returns which DaemonSet is named, and the stage that the flags ask for. Fails if they are invalid.
    pub(super) fn resolve(&self, io: &Io<'_>) -> Result<(Named, StageRequest), CommandError> {
        let named = parse_name(&self.name)?;
        let Some(amount) = self.partition.map(Amount::Keep).or(self.update.map(Amount::Update)) else {
            return Err(CommandError::usage("no number of pods given").hint(
                "give how many pods stay on older revisions, such as 90% or 5, or how many to update with --update",
            ));
        };
        let (Amount::Keep(number) | Amount::Update(number)) = amount;
        if number.value() < 0 || matches!(number, IntOrPercent::Percent(percent) if percent > 100) {
            return Err(CommandError::usage(format!("invalid number of pods \"{number}\"")));
        }
        if self.stages.is_some() && self.partition.is_none_or(|keep| keep.value() != 0) {
            return Err(CommandError::usage("--stages updates all nodes: give 0 as the number of pods that stay old"));
        }
        self.gates.check()?;
        let mut images = Vec::new();
        for text in &self.image {
            let invalid = || CommandError::usage(format!("invalid image {text:?}: give CONTAINER=IMAGE"));
            images.push(parse_image(text).ok_or_else(invalid)?);
        }
        let template = match self.to_revision {
            Some(number) => NewTemplate::Revision(number),
            None if images.is_empty() => NewTemplate::Live,
            None => NewTemplate::Images(images),
        };
        let strata = if self.strata.is_empty() { Stratum::DEFAULT.into() } else { self.strata.clone() };
        let request = StageRequest {
            staging: self.stages.clone().map(|stages| Staging { stages, strata, passed: 0 }),
            nodes: self.nodes.clone(),
            node_selector: parse_selector("--node-selector", self.node_selector.as_deref())?,
            spread_by: self.spread_by.clone(),
            force: self.force,
            ..StageRequest::new(amount, template, name_of_run(io))
        };
        Ok((named, self.gates.put_into(request)))
    }
}
