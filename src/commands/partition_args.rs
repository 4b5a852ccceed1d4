//! The flags of `partition`, and what they mean.

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use super::output::{Output, formats};
use super::parse::{Named, parse_name, parse_selector};
use super::watch;
use crate::connection::parse_duration;
use crate::error::CommandError;
use crate::io::Io;
use crate::model::int_or_percent::IntOrPercent;
use crate::rollout::partition::StageGates;
use crate::rollout::partition::plan::{Amount, StageRequest};
use crate::rollout::partition::template::NewTemplate;

/// Update some nodes of a DaemonSet, and keep the others as they are
///
/// The others stay on older revisions. The update strategy is suspended (OnDelete), and annotations keep what it was. Then pods of older revisions are deleted
/// one by one, never more than maxUnavailable at a time, and only while every new pod starts, becomes available and does not
/// restart, and while no updated node turns NotReady. `partition NAME 0` updates the remaining nodes and restores the
/// strategy. A run that ends early prints the command that continues it.
///
/// Nodes with the label kubectl-ds/skip are left out. With -f, only the pod template of the manifest is applied.
///
/// While a DaemonSet is partitioned, every new pod gets the current template: on a new node, and after a pod was deleted,
/// evicted or has failed. For an Advanced DaemonSet of OpenKruise, `partition` is set, and its controller does the rest.
///
/// Exit codes: 3 if a gate has stopped it; 6 if the controller was not seen to act; 7 if a change was sent and it is not known
/// whether it was applied.
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
    /// How many pods stay OLD: 90% updates 10% of the nodes.
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
    #[arg(long, value_name = "N")]
    to_revision: Option<i64>,
    /// Roll out the template of a manifest.
    ///
    /// A manifest of this DaemonSet, `-` for standard input.
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["image", "to_revision"])]
    filename: Option<String>,
    /// Update only these nodes, in this order
    #[arg(long, help_heading = "Nodes", value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Update only nodes with these labels
    #[arg(long, help_heading = "Nodes", value_name = "SELECTOR", conflicts_with = "nodes")]
    node_selector: Option<String>,
    /// The label by whose values nodes take turns.
    ///
    /// By default the zone.
    #[arg(long, help_heading = "Nodes", value_name = "LABEL", conflicts_with = "nodes")]
    spread_by: Option<String>,
    /// How many nodes may become unavailable.
    ///
    /// In this run, besides those that are unavailable already; by default maxUnavailable of the update strategy, which counts both.
    #[arg(long, help_heading = "Gates", value_name = "N|N%")]
    max_unavailable: Option<IntOrPercent>,
    /// Restarts allowed to a new pod
    #[arg(long, help_heading = "Gates", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    max_restarts: i32,
    /// How long new pods must stay available.
    ///
    /// All of them, at the end of a stage, such as 30s or 10m.
    #[arg(long, help_heading = "Gates", value_name = "DURATION", default_value = "0s", hide_default_value = true, value_parser = parse_duration)]
    soak: Duration,
    /// Stop if nothing progresses
    ///
    /// For this time.
    #[arg(long, help_heading = "Gates", value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    progress_deadline: Duration,
    /// Run this command for each updated node.
    ///
    /// With `sh -c`, and stop if it fails; NODE, POD, NAMESPACE and REVISION are set.
    #[arg(long, help_heading = "Gates", value_name = "COMMAND")]
    verify: Option<String>,
    /// After a gate: stop (default) or undo.
    ///
    /// After a gate has stopped a stage, stop leaves everything as it is, and undo rolls the template back, and the updated nodes.
    #[arg(long, help_heading = "Gates", value_name = "WHAT", value_enum, default_value_t, hide_default_value = true)]
    on_failure: OnFailure,
    /// Evict pods instead of deleting them.
    ///
    /// So that PodDisruptionBudgets are respected.
    #[arg(long)]
    evict: bool,
    /// Begin although nodes have two pods.
    ///
    /// Because of maxSurge; the controller deletes the newer one of each.
    #[arg(long)]
    delete_surge_pods: bool,
    /// Begin although more pods become unavailable.
    ///
    /// And would stay so.
    #[arg(long)]
    force: bool,
    /// Show the plan without sending it
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t, default_missing_value = "client", hide_default_value = true)]
    dry_run: PartitionDryRun,
    /// Do not ask before a stage that may do harm.
    ///
    /// Only a terminal is asked.
    #[arg(short, long)]
    yes: bool,
    /// How to show it: auto, tty, plain or none.
    ///
    /// tty redraws a screen in place, plain prints a line per change, none only the end; auto is tty on a terminal, and plain
    /// elsewhere.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true)]
    progress: watch::ProgressStyle,
    /// Output format. One of: (json)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json]), hide_possible_values = true)]
    output: Option<Output>,
}

/// What `--on-failure` takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// Leave everything as it is
    #[default]
    Stop,
    /// Roll the template back, and the updated nodes
    Undo,
}

/// What `--dry-run` takes: a stage cannot be tried out on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum PartitionDryRun {
    #[default]
    #[value(name = "none")]
    Off,
    Client,
}

/// What the flags mean.
pub(super) struct Settings {
    pub(super) named: Named,
    pub(super) request: StageRequest,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) progress: watch::ProgressStyle,
    pub(super) output: Option<Output>,
    /// The manifest whose template is rolled out.
    pub(super) manifest: Option<String>,
}

impl PartitionArgs {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// Fails if they make no sense.
    pub(super) fn resolve(self, io: &Io<'_>) -> Result<Settings, CommandError> {
        let PartitionArgs {
            name,
            partition,
            update,
            image,
            to_revision,
            filename: manifest,
            nodes,
            node_selector,
            spread_by,
            max_unavailable,
            max_restarts,
            soak,
            progress_deadline,
            verify,
            on_failure,
            evict,
            delete_surge_pods,
            force,
            dry_run,
            yes,
            progress,
            output,
        } = self;
        let named = parse_name(&name)?;
        let Some(amount) = partition.map(Amount::Keep).or(update.map(Amount::Update)) else {
            return Err(CommandError::usage("no number of pods given").hint(
                "give how many pods stay on older revisions, such as 90% or 5, or how many to update with --update",
            ));
        };
        let (Amount::Keep(number) | Amount::Update(number)) = amount;
        if number.value() < 0 || matches!(number, IntOrPercent::Percent(percent) if percent > 100) {
            return Err(CommandError::usage(format!("invalid number of pods \"{number}\"")));
        }
        if let Some(amount) = max_unavailable
            && (amount.value() < 1 || matches!(amount, IntOrPercent::Percent(percent) if percent > 100))
        {
            return Err(CommandError::usage(format!("invalid --max-unavailable \"{amount}\""))
                .hint("give a number of nodes from 1, or a percentage from 1% to 100%"));
        }
        let mut images = Vec::new();
        for text in image {
            match text.split_once('=') {
                Some((container, image)) if !container.is_empty() && !image.is_empty() => {
                    images.push((container.to_owned(), image.to_owned()));
                }
                _ => return Err(CommandError::usage(format!("invalid image {text:?}: give CONTAINER=IMAGE"))),
            }
        }
        if verify.as_ref().is_some_and(|command| command.trim().is_empty()) {
            return Err(CommandError::usage("--verify needs a command"));
        }
        if progress_deadline.is_zero() {
            return Err(CommandError::usage("--progress-deadline must be longer than 0s"));
        }
        let template = match to_revision {
            Some(number) => NewTemplate::Revision(number),
            None if images.is_empty() => NewTemplate::Live,
            None => NewTemplate::Images(images),
        };
        let gates = StageGates {
            max_restarts: Some(max_restarts),
            soak: signed(soak),
            progress_deadline: signed(progress_deadline),
            verifies: verify.is_some(),
        };
        let run = format!("{} {}", (io.clock)(), std::process::id());
        let request = StageRequest {
            nodes,
            node_selector: parse_selector("--node-selector", node_selector.as_deref())?,
            spread_by,
            max_unavailable,
            gates,
            verify,
            evict,
            rolls_back: on_failure == OnFailure::Undo,
            delete_surge_pods,
            force,
            ..StageRequest::new(amount, template, run)
        };
        Ok(Settings { named, request, dry_run: dry_run == PartitionDryRun::Client, yes, progress, output, manifest })
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
