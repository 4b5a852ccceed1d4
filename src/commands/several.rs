//! Several clusters, or dumps, at once: each is queried separately, and their reports are shown together.

use std::io;

use futures::stream::{StreamExt, iter};

use super::output::{self, Output};
use super::session::{GlobalArgs, Session, show_progress};
use super::{Failure, cluster_error};
use crate::cluster::error::ClusterError;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::render::page::Page;
use crate::render::progress::ReadProgress;
use crate::render::view::View;
use crate::report::Report;
use crate::report::clusters::{ClusterReport, ClusterReports};
use crate::report::fix::Origin;

/// Number of clusters read concurrently.
const AT_ONCE: usize = 16;

/// A cluster's answer: a report, and the exit code, or why the answer is unknown.
pub(super) struct Answer<R> {
    pub(super) report: R,
    pub(super) exit: Result<Exit, CommandError>,
}

/// Rejects options that make no sense for several clusters.
pub(super) fn refuse(what: &str) -> Failure {
    CommandError::usage(format!("{what} is for one cluster, and cannot be combined with --contexts or several --from"))
        .into()
}

/// Queries each cluster with its own connection, prints all reports, and returns the worst exit code. Fails if no
/// context matches, a cluster could not be read or its answer is unknown, or the output cannot be written.
pub(super) async fn run<R: Report>(
    target: &GlobalArgs,
    (namespace, names): (Option<&str>, &[String]),
    output: Option<Output>,
    io: &mut Io<'_>,
    out: &mut dyn io::Write,
    ask: impl AsyncFn(&Session, &mut Io<'_>) -> Result<Answer<R>, Failure>,
    text: impl FnOnce(&ClusterReports<R>, &mut Page<'_>),
) -> Result<Exit, Failure> {
    if output == Some(Output::Name) {
        return Err(refuse("-o name"));
    }
    let clusters = target.each(io)?;
    let view = View { origin: None, ..target.view_for(output, io) };
    let progress = ReadProgress::of_clusters(clusters.iter().map(|(context, _)| context.clone()));
    let (mut input, mut err) = (io::empty(), io::sink());
    let surroundings = &io.with_streams(&mut input, &mut err);
    let (ask, counted) = (&ask, &progress);
    let asked = iter(clusters).map(|(context, arguments)| async move {
        let (mut input, mut err) = (io::empty(), Vec::new());
        let mut own = surroundings.with_streams(&mut input, &mut err);
        let origin = arguments.origin();
        let session = arguments.open_counted(namespace.map(str::to_owned), names, counted.clone(), &own).await;
        let answer = match session {
            Ok(session) => ask(&session, &mut own).await,
            Err(failure) => Err(failure),
        };
        counted.is_done(&context);
        let warnings = own.server_warnings;
        (context, origin, answer, warnings, err)
    });
    let asked = asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>();
    let mut answers = show_progress(asked, &progress, io).await;
    answers.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let (mut items, mut errors, mut worst) = (Vec::new(), Vec::new(), Exit::Success);
    for (context, origin, answer, warnings, err) in answers {
        let shown = sanitize(&context);
        // Messages about a dump usually start with its name.
        let of_cluster = |line: &str| match origin {
            Origin::Dump(_) if line.contains(&shown) => line.to_owned(),
            _ => format!("{shown}: {line}"),
        };
        for line in String::from_utf8_lossy(&err).lines() {
            writeln!(io.err, "{}", of_cluster(line))?;
        }
        io.server_warnings += warnings;
        let (report, exit) = match answer {
            Ok(Answer { report, exit }) => (Some(report), exit),
            // This is about the command line, regardless of the cluster.
            Err(Failure::Error(error)) if error.exit == Exit::Usage => return Err(error.into()),
            Err(Failure::Error(error)) => (None, Err(error)),
            Err(failure @ Failure::Output(_)) => return Err(failure),
        };
        let (exit, error) = match exit {
            Ok(exit) => (exit, None),
            // Nothing is known of what could not be read.
            Err(error) => {
                let is_unread = cluster_error(&error).is_some_and(ClusterError::is_unread);
                (if is_unread { Exit::Partial } else { error.exit }, Some(error))
            }
        };
        worst = [worst, exit].into_iter().max_by_key(|exit| rank(*exit)).unwrap_or(exit);
        let message = error.as_ref().map(ToString::to_string);
        items.push(ClusterReport::new(context, origin, exit as u32, message, report));
        errors.extend(error.map(|mut error| {
            error.hints.iter_mut().for_each(|hint| origin.complete(hint));
            let text = error.to_string();
            let lines: Vec<String> = text.lines().map(of_cluster).collect();
            CommandError { message: lines.join("\n"), source: None, ..error }
        }));
    }
    let mut reports = ClusterReports { items };
    output::print(output, &mut reports, &view, out, text)?;
    let Some(mut error) = errors.into_iter().reduce(CommandError::and) else { return Ok(worst) };
    error.exit = worst;
    // Many clusters may have the same problem.
    for hint in std::mem::take(&mut error.hints) {
        if !error.hints.contains(&hint) {
            error.hints.push(hint);
        }
    }
    Err(error.into())
}

/// Returns the severity of an exit code among those of several clusters: objects that were not found come before a
/// failed check, as with several DaemonSets of one cluster, and that before unknown answers.
fn rank(exit: Exit) -> usize {
    [Exit::Success, Exit::Partial, Exit::No].into_iter().position(|other| other == exit).unwrap_or(usize::MAX)
}
