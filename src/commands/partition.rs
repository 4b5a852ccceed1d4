//! `partition`: updates some of the nodes, and keeps the others on older revisions.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use super::change::only_one;
use super::not_applied::not_shown;
use super::out_after_change::OutAfterChange;
use super::parse::{Named, parse_duration, parse_label, parse_name, parse_selector};
use super::partition_progress::Progress;
use super::partition_run::{Run, now};
use super::session::{GlobalArgs, Session, Target};
use super::watch::{self, Display};
use super::{Failure, interrupted, refusal};
use crate::cluster::manifest::{self, Manifest};
use crate::cluster::{Flavors, Query, Wanted};
use crate::encode::json;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::daemon_set::Flavor;
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::render;
use crate::report::partition::PartitionStage;
use crate::rollout::partition::plan::{Amount, Planned, Request, plan};
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::partition::way_out::way_out;
use crate::rollout::partition::{Gates, NodeLabel};
use crate::rollout::revisions::{Revision, Revisions};
use crate::rollout::status::proven_revision;

/// Update some of the nodes of a DaemonSet, and keep the others on older revisions
///
/// The update strategy is suspended (OnDelete), and annotations keep what it was. Then pods of older revisions are deleted
/// one by one, never more than maxUnavailable at a time, and only while every new pod starts, becomes available and does not
/// restart, and while no updated node turns NotReady. `partition NAME 0` updates the remaining nodes and restores the
/// strategy. To continue a run that ended early, run the same command again.
///
/// Nodes with the label kubectl-ds/skip are left out. With -f, the template of a manifest is rolled out, and nothing else of it.
///
/// While a DaemonSet is partitioned, every new pod gets the current template: on a new node, and after a pod was deleted,
/// evicted or has failed. For an Advanced DaemonSet of OpenKruise, `partition` is set, and its controller does the rest.
///
/// Exit codes: 3 if a gate has stopped it; 6 if the controller was not seen to act; 7 if a change was sent and it is not known
/// whether it was applied.
#[derive(Debug, Args)]
#[command(before_help = "# Show which nodes would be updated if half of the pods stay as they are
kubectl ds partition fluent-bit 50% -n logging --dry-run

# Show which node would get a new image
kubectl ds partition fluent-bit --update 1 --image fluent-bit=fluent-bit:4.2.1 -n logging --dry-run

# Show how the node would pull that image before anything is changed
kubectl ds partition fluent-bit --update 1 --image fluent-bit=fluent-bit:4.2.1 --prepull -n logging --dry-run

# Show how the remaining nodes would be updated, which also restores the update strategy
kubectl ds partition fluent-bit 0 -n logging --dry-run")]
pub struct PartitionArgs {
    /// The DaemonSet; `ads/NAME` for an Advanced DaemonSet of OpenKruise
    name: String,
    /// The number or percentage of pods that stay on older revisions; percentages are rounded down
    #[arg(value_name = "N|N%")]
    #[arg(conflicts_with_all = ["update", "stages"])]
    partition: Option<IntOrPercent>,
    /// The number or percentage of pods to update instead
    #[arg(long, value_name = "N|N%", conflicts_with = "stages")]
    update: Option<IntOrPercent>,
    /// Several numbers or percentages of pods to update, one stage after the other
    #[arg(long, value_name = "N|N%,...", value_delimiter = ',')]
    stages: Vec<IntOrPercent>,
    /// With --stages: do not ask before each stage
    #[arg(long, requires = "stages")]
    yes: bool,
    /// Roll out another image of a container; can be given more than once
    #[arg(long, value_name = "CONTAINER=IMAGE", conflicts_with = "to_revision")]
    image: Vec<String>,
    /// Roll out the template of a revision
    #[arg(long, value_name = "N")]
    to_revision: Option<i64>,
    /// Roll out the template of a manifest of this DaemonSet, `-` for standard input
    #[arg(short, long, value_name = "MANIFEST", conflicts_with_all = ["image", "to_revision"])]
    filename: Option<String>,
    /// Update only these nodes, in this order
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Update only nodes with these labels
    #[arg(long, value_name = "SELECTOR", conflicts_with = "nodes")]
    node_selector: Option<String>,
    /// The label by whose values nodes take turns; by default the zone
    #[arg(long, value_name = "LABEL", conflicts_with = "nodes")]
    spread_by: Option<String>,
    /// How often a new pod may restart
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    max_restarts: i32,
    /// How long all new pods must be available at the end of a stage, such as 30s or 10m
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    soak: Duration,
    /// Stop if nothing progresses for this time
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    progress_deadline: Duration,
    /// Run this command with `sh -c` for each updated node, and stop if it fails; NODE, POD, NAMESPACE and REVISION are set
    #[arg(long, value_name = "COMMAND")]
    verify: Option<String>,
    /// Wait until each updated node has this label
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    wait_for_label: Option<NodeLabel>,
    /// What to do after a gate has stopped a stage
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_failure: OnFailure,
    /// Pull the new images on the nodes of a stage first, with a Job for each, and stop before any change if that fails
    #[arg(long)]
    prepull: bool,
    /// Evict pods instead of deleting them, so that PodDisruptionBudgets are respected
    #[arg(long)]
    evict: bool,
    /// Begin although nodes have two pods because of maxSurge; the controller deletes the newer one of each
    #[arg(long)]
    delete_surge_pods: bool,
    /// Show the plan without sending it
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t, default_missing_value = "client", hide_default_value = true)]
    dry_run: DryRun,
    /// How to show what happens
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true)]
    progress: watch::Progress,
    /// Output format. One of: (json)
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
}

/// What `--on-failure` takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OnFailure {
    /// Leave everything as it is
    #[default]
    Stop,
    /// Roll the template back, and the updated nodes
    Undo,
}

/// What `--dry-run` takes: a stage cannot be tried out on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum DryRun {
    #[default]
    #[value(name = "none")]
    Off,
    Client,
}

/// What `-o` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
}

/// What the flags mean.
struct Settings {
    flavors: Flavors,
    namespace: Option<String>,
    name: String,
    stages: Vec<Amount>,
    asks: bool,
    request: Request,
    on_failure: OnFailure,
    dry_run: bool,
    progress: watch::Progress,
    output: Option<Output>,
    /// The manifest whose template is rolled out.
    manifest: Option<String>,
    /// The flags that were given and that Advanced DaemonSets do not support.
    own_flags: Vec<&'static str>,
}

impl PartitionArgs {
    fn resolve(self, io: &Io<'_>) -> Result<Settings, CommandError> {
        let PartitionArgs {
            name,
            partition,
            update,
            stages,
            yes,
            image,
            to_revision,
            filename: manifest,
            nodes,
            node_selector,
            spread_by,
            max_restarts,
            soak,
            progress_deadline,
            verify,
            wait_for_label,
            on_failure,
            prepull,
            evict,
            delete_surge_pods,
            dry_run,
            progress,
            output,
        } = self;
        let Named { flavors, namespace, name } = parse_name(&name)?;
        let dry_run = dry_run == DryRun::Client;
        if partition.is_none() && update.is_none() && stages.is_empty() {
            return Err(CommandError::usage("no number of pods given").hint(
                "give how many pods stay on older revisions, such as 90% or 5, or how many to update with --update",
            ));
        }
        let asks = !stages.is_empty() && !yes && !dry_run;
        if asks && !io.input_is_terminal {
            return Err(CommandError::usage("--stages asks before each stage, and there is no terminal")
                .hint("add --yes to begin each stage as soon as the one before is complete"));
        }
        let stages: Vec<Amount> = match (partition, update) {
            (Some(keep), _) => vec![Amount::Keep(keep)],
            (_, Some(update)) => vec![Amount::Update(update)],
            (None, None) => stages.into_iter().map(Amount::Update).collect(),
        };
        for Amount::Keep(amount) | Amount::Update(amount) in &stages {
            if amount.value() < 0 || matches!(amount, IntOrPercent::Percent(percent) if *percent > 100) {
                return Err(CommandError::usage(format!("invalid number of pods \"{amount}\"")));
            }
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
        let template = match to_revision {
            Some(number) => NewTemplate::Revision(number),
            None if images.is_empty() => NewTemplate::Live,
            None => NewTemplate::Images(images),
        };
        let own_flags = [
            ("--nodes", !nodes.is_empty()),
            ("--node-selector", node_selector.is_some()),
            ("--spread-by", spread_by.is_some()),
            ("--verify", verify.is_some()),
            ("--wait-for-label", wait_for_label.is_some()),
            ("--stages", stages.len() > 1),
            ("--soak", !soak.is_zero()),
            ("--prepull", prepull),
            ("--evict", evict),
            ("--max-restarts", max_restarts != 0),
            ("--delete-surge-pods", delete_surge_pods),
            ("--on-failure", on_failure != OnFailure::Stop),
        ];
        let gates = Gates {
            max_restarts,
            soak: signed(soak),
            progress_deadline: signed(progress_deadline),
            verifies: verify.is_some(),
            wait_for_label,
        };
        let request = Request {
            amount: stages[0],
            template,
            nodes,
            node_selector: parse_selector("--node-selector", node_selector.as_deref())?,
            spread_by,
            gates,
            verify,
            prepull,
            evict,
            delete_surge_pods,
            run: format!("{} {}", now(io), std::process::id()),
        };
        let own_flags = own_flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
        Ok(Settings {
            flavors,
            namespace,
            name,
            stages,
            asks,
            request,
            on_failure,
            dry_run,
            progress,
            output,
            manifest,
            own_flags,
        })
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Runs the subcommand.
///
/// # Errors
///
/// Fails if the stage cannot be as requested, a change is not applied, or the output cannot be written.
pub async fn run(
    arguments: PartitionArgs,
    target: GlobalArgs,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let settings = arguments.resolve(io)?;
    let mut target = target.resolve(io)?;
    target.enter(settings.namespace.clone())?;
    if !target.selector.is_empty() {
        return Err(CommandError::usage("a name and --selector cannot be given together").into());
    }
    if target.is_dump() && !settings.dry_run {
        return Err(CommandError::usage("a dump cannot be changed")
            .hint("add --dry-run to see what would be done")
            .into());
    }
    if settings.manifest.as_deref() == Some("-") && target.reads_input() {
        return Err(CommandError::usage("--from - and --filename - cannot both read standard input").into());
    }
    let session = target.open(io).await?;
    let mut request = settings.request.clone();
    let mut manifest = None;
    if let Some(path) = &settings.manifest {
        let (namespace, default) = (session.requested_namespace.as_deref(), &session.default_namespace);
        manifest = Some(manifest::read_daemon_set_of_any_flavor(path, io.input, namespace, default)?);
    }
    let mut before = Vec::new();
    for (number, amount) in settings.stages.iter().enumerate() {
        request.amount = *amount;
        if number > 0 {
            writeln!(io.err)?;
        }
        if number > 0 && !settings.dry_run {
            // The first stage has written it.
            request.template = NewTemplate::Live;
            manifest = None;
        }
        let exit = Box::pin(stage(
            &settings,
            &request,
            manifest.as_ref(),
            Attempt::First(&mut before),
            (&session, &target),
            io,
            out,
        ))
        .await?;
        if exit != Exit::Success {
            return Ok(exit);
        }
    }
    Ok(Exit::Success)
}

/// Why a stage is carried out.
#[derive(Debug, PartialEq, Eq)]
enum Attempt<'a> {
    /// After stages that would have updated these nodes, if they are only shown.
    First(&'a mut Vec<String>),
    /// To take another one back.
    Undo,
}

/// Plans a stage, shows it, and carries it out.
async fn stage(
    settings: &Settings,
    request: &Request,
    manifest: Option<&Manifest>,
    attempt: Attempt<'_>,
    (session, target): (&Session, &Target),
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let view = &target.view(io.width());
    let query = Query {
        names: vec![settings.name.clone()],
        flavors: settings.flavors,
        wanted: Wanted::Change,
        ..Query::default()
    };
    let snapshot = session.read_history(query, io).await?;
    let daemon_set = only_one(&snapshot, &settings.name)?;
    let revisions = Revisions::of(daemon_set, &snapshot);
    let is_advanced = daemon_set.flavor() == Flavor::Advanced;
    if let (true, Some(flag)) = (is_advanced, settings.own_flags.first()) {
        return Err(CommandError::usage(format!("{flag} does not work with Advanced DaemonSets of OpenKruise"))
            .hint("their controller chooses the nodes and replaces the pods")
            .into());
    }
    let mut request = request.clone();
    if let Some(manifest) = manifest {
        let version = session.server_version(io).await.ok().flatten();
        let (daemon_set, warnings) = manifest.validate(&snapshot, version.as_deref())?;
        for warning in warnings {
            writeln!(io.err, "warning: {}", sanitize(&warning))?;
        }
        request.template = NewTemplate::Manifest(Box::new(daemon_set));
    }
    let request = &request;
    let planned =
        plan(&revisions, request, &snapshot).map_err(|refusal| refusal::partition(&revisions, refusal, view))?;
    let Planned { plan, stage, mut report } = planned;
    let is_first = attempt != Attempt::Undo;
    if let (true, Attempt::First(before)) = (settings.dry_run, attempt) {
        report.follow(before);
        before.extend_from_slice(&report.nodes);
    }
    let is_text = settings.output.is_none();
    let show = |out: &mut dyn Write, io: &mut Io<'_>| -> Result<(), Failure> {
        if is_text {
            render::partition::plan(&report, view, out)?;
        }
        Ok(render::partition::warnings(&report, view, io.err)?)
    };
    show(out, io).map_err(not_shown)?;
    // A new template replaces the present one.
    let back_to = match request.template {
        NewTemplate::Live => proven_revision(daemon_set, &snapshot),
        _ => revisions.current().map(Revision::number),
    };
    if settings.dry_run {
        match is_text {
            true if plan.steps.is_empty() => {}
            true => render::partition::dry_run(&report, view, out)?,
            false => json::indented(&report, out)?,
        }
        return Ok(Exit::Success);
    }
    if plan.steps.is_empty() && !is_advanced {
        return match is_text {
            true => Ok(Exit::Success),
            false => Ok(json::indented(&report, out).map(|()| Exit::Success)?),
        };
    }
    if settings.asks && is_first && !ask(io)? {
        return Err(CommandError::new("the stage was not started").into());
    }
    let display = match is_text {
        true => settings.progress.display(None, target.color, *view, io)?,
        false => Display::None,
    };
    // The controller of Advanced DaemonSets is not watched.
    let display = match display {
        Display::Screen(_) if is_advanced => Display::Lines,
        display => display,
    };
    let progress = Progress::new(display);
    let mut run = Run { request, session, view, before: daemon_set, plan, stage, report, progress };
    // From here on pods are deleted: that nobody reads the output does not end a stage half-way.
    let mut out = OutAfterChange::new(out);
    let ended = match is_advanced {
        true => run.follow_advanced(io, &mut out).await,
        false => run.carry_out(io, &mut out).await,
    };
    run.progress.clear(io)?;
    run.report.outcome.way_out = way_out(&run.report, request, back_to);
    if is_text {
        if !matches!(run.report.outcome.stage, PartitionStage::Planned | PartitionStage::Unknown) {
            render::partition::outcome(&run.report, view, &mut out)?;
        }
    } else {
        json::indented(&run.report, &mut out)?;
    }
    out.flush()?;
    io.interrupt.changes_are_reported();
    let exit = ended?;
    let is_untouched = run.report.is_stopped_by_prepull() && !Hold::of(daemon_set).is_some_and(|hold| hold.is_in_force);
    if exit == Exit::No && !is_untouched && settings.on_failure == OnFailure::Undo && is_first {
        let out = &mut out as &mut dyn Write;
        Box::pin(undo(settings, request, (session, target), io, out)).await?;
    }
    match out.failure {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit),
    }
}

/// Takes a stage back: the template of the revision that works on most nodes, and then the updated nodes.
async fn undo(
    settings: &Settings,
    request: &Request,
    (session, target): (&Session, &Target),
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let wanted = Wanted::Change;
    let query = Query { names: vec![settings.name.clone()], flavors: settings.flavors, wanted, ..Query::default() };
    let snapshot = session.read_history(query, io).await?;
    let Some(number) = proven_revision(only_one(&snapshot, &settings.name)?, &snapshot) else {
        let message = "the stage is not rolled back: no other revision is available on any node";
        let hint = "the update strategy stays suspended; choose a revision with `kubectl ds history`";
        return Err(CommandError { exit: Exit::No, ..CommandError::new(message) }.hint(hint).into());
    };
    writeln!(io.err, "rolling the updated nodes back to revision {number}")?;
    // Pods that were never replaced may have restarted long ago.
    let gates = Gates {
        verifies: false,
        wait_for_label: None,
        soak: SignedDuration::ZERO,
        max_restarts: i32::MAX,
        ..request.gates.clone()
    };
    let undo = Request {
        amount: Amount::Keep(IntOrPercent::Int(0)),
        template: NewTemplate::Revision(number),
        nodes: Vec::new(),
        node_selector: Default::default(),
        verify: None,
        prepull: false,
        gates,
        run: format!("{} {} undo", now(io), std::process::id()),
        ..request.clone()
    };
    stage(settings, &undo, None, Attempt::Undo, (session, target), io, out).await.map(drop)
}

/// Asks whether to begin a stage.
fn ask(io: &mut Io<'_>) -> Result<bool, Failure> {
    write!(io.err, "begin this stage? [y/N] ")?;
    io.err.flush()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while let Ok(1) = io.input.read(&mut byte) {
        if byte[0] == b'\n' {
            break;
        }
        answer.push(byte[0]);
    }
    if io.interrupt.is_requested() {
        return Err(interrupted().into());
    }
    Ok(matches!(answer.to_ascii_lowercase().trim_ascii(), b"y" | b"yes"))
}
