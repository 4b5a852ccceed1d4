//! `partition`: updates some of the nodes, and keeps the others on older revisions.

use std::io::{self, Write};

use super::change::only_one;
use super::coverage::check_label;
use super::not_applied::not_shown;
use super::out_after_change::OutAfterChange;
use super::output;
use super::partition_args::{OnFailure, PartitionArgs, Settings};
use super::partition_progress::Progress;
use super::partition_run::{Clock, Run};
use super::session::{GlobalArgs, Session, Target};
use super::watch::Display;
use super::{Failure, interrupted, refusal};
use crate::cluster::manifest::{self, Manifest};
use crate::cluster::{Query, Wanted};
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::revisions::{Revision, Revisions, name_of};
use crate::io::Io;
use crate::model::daemon_set::{DaemonSet, Flavor};
use crate::render;
use crate::report::fix::Fix;
use crate::report::history::Subcommand;
use crate::rollout::partition::plan::{Planned, Request, after_stages, plan};
use crate::rollout::partition::ready_times::ReadyTimes;
use crate::rollout::partition::template::NewTemplate;
use crate::rollout::partition::way_out::way_out;

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
        let exit =
            Box::pin(stage(&settings, &request, manifest.as_ref(), Some(&mut before), (&session, &target), io, out))
                .await?;
        if exit != Exit::Success {
            return Ok(exit);
        }
    }
    Ok(Exit::Success)
}

/// Rolls a DaemonSet that is paused or partitioned back to a revision: its template, and then the updated nodes.
///
/// # Errors
///
/// Fails if that cannot be done now, a change is not applied, or the output cannot be written.
pub(super) async fn roll_back(
    number: i64,
    daemon_set: &DaemonSet,
    dry_run: bool,
    (session, target): (&Session, &Target),
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let request = Request::roll_back(number, format!("{} {}", (io.clock)(), std::process::id()), daemon_set);
    let settings = Settings {
        flavors: daemon_set.flavor().into(),
        namespace: None,
        name: daemon_set.metadata.name.clone(),
        stages: Vec::new(),
        asks: false,
        request: request.clone(),
        on_failure: OnFailure::Stop,
        dry_run,
        progress: Default::default(),
        output: None,
        manifest: None,
        own_flags: Vec::new(),
    };
    stage(&settings, &request, None, None, (session, target), io, out).await
}

/// Plans a stage, shows it, and carries it out. `before` are the nodes that earlier stages would have updated, if they are
/// only shown; there are none if it takes another stage back.
async fn stage(
    settings: &Settings,
    request: &Request,
    manifest: Option<&Manifest>,
    before: Option<&mut Vec<String>>,
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
        let (daemon_set, warnings) = manifest.validate(manifest.object().clone(), &snapshot)?;
        for warning in warnings {
            writeln!(io.err, "warning: {}", sanitize(&warning))?;
        }
        request.template = NewTemplate::Manifest(Box::new(daemon_set));
    }
    if let Some(label) = &request.spread_by {
        check_label(&snapshot, label)?;
    }
    let request = &request;
    let planned =
        plan(&revisions, request, &snapshot).map_err(|refusal| refusal::partition(&revisions, request, refusal))?;
    let Planned { plan, stage, mut report } = planned;
    let is_first = before.is_some();
    if let (true, Some(before)) = (settings.dry_run, before) {
        after_stages(&mut report, before);
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
    let back_to = match request.template {
        NewTemplate::Live => revisions.proven().map(|(revision, _)| revision.number()),
        // A rollback is not taken back to what it was begun to leave.
        _ if request.is_undo() => None,
        // A new template replaces the present one.
        _ => revisions.current().map(Revision::number),
    };
    if settings.dry_run {
        match is_text {
            true if plan.steps.is_empty() => {}
            true => render::partition::dry_run(&report, view, out)?,
            false => output::print_json(&mut report, view, out)?,
        }
        return Ok(Exit::Success);
    }
    if plan.steps.is_empty() && !is_advanced {
        return match is_text {
            true => Ok(Exit::Success),
            false => Ok(output::print_json(&mut report, view, out).map(|()| Exit::Success)?),
        };
    }
    if settings.asks && is_first && !ask(io)? {
        return Err(CommandError::new("the stage was not started").into());
    }
    let display = match is_text {
        true => settings.progress.display(None, target.color, *view, io)?,
        false => Display::None,
    };
    let progress = Progress::new(display);
    let live = session.source.live()?;
    let mut run = Run {
        request,
        session,
        live,
        view,
        before: daemon_set,
        plan,
        stage,
        report,
        back_to,
        manifest: settings.manifest.as_deref(),
        progress,
        // A proxy may have written the dates of the answers.
        clock: Clock::starting_at(session.now(io).min((io.clock)())),
        ready_times: ReadyTimes::default(),
        is_lost: false,
    };
    // From here on pods are deleted: that nobody reads the output does not end a stage half-way.
    let mut out = OutAfterChange::new(out);
    let ended = match is_advanced {
        true => run.follow_advanced(io, &mut out).await,
        false => run.carry_out(io, &mut out).await,
    };
    run.progress.clear(io)?;
    let undoes = matches!(ended, Ok(Exit::No))
        && !run.report.is_stopped_by_prepull()
        && settings.on_failure == OnFailure::Undo
        && is_first;
    if !run.is_lost && !undoes {
        run.report.outcome.way_out = way_out(&run.report, request, back_to);
    }
    if is_text {
        render::partition::outcome(&run.report, view, &mut out)?;
    } else {
        output::print_json(&mut run.report, view, &mut out)?;
    }
    out.flush()?;
    if out.failure.is_some() {
        // What was done must not go unnoticed.
        render::partition::summary(&run.report, view, io.err)?;
    }
    io.interrupt.changes_are_reported();
    let exit = ended?;
    if undoes {
        let out = &mut out as &mut dyn Write;
        Box::pin(undo(settings, request, (session, target), io, out)).await?;
    }
    match out.failure {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = "the stage has ended, and the output cannot be written";
            let exit = if exit == Exit::Success { Exit::NotObserved } else { exit };
            Err(CommandError { exit, ..CommandError::new(message) }.because(error).into())
        }
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
    let daemon_set = only_one(&snapshot, &settings.name)?;
    let revisions = Revisions::of(daemon_set, &snapshot);
    let Some(number) = revisions.proven().map(|(revision, _)| revision.number()) else {
        let message = "the stage is not rolled back: no other revision is available on any node";
        let name = name_of(daemon_set);
        let advice = "the update strategy stays suspended; to choose a revision";
        let hint = Fix::new(advice, name.command(Subcommand::History));
        return Err(CommandError { exit: Exit::No, ..CommandError::new(message) }.hint(hint).into());
    };
    writeln!(io.err, "rolling the updated nodes back to revision {number}")?;
    let mut undo = Request::roll_back(number, format!("{} undo", request.run), daemon_set);
    undo.gates.progress_deadline = request.gates.progress_deadline;
    let undo = Request { evict: request.evict, delete_surge_pods: request.delete_surge_pods, ..undo };
    stage(settings, &undo, None, None, (session, target), io, out).await.map(drop)
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
