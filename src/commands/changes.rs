//! `changes`: what changed recently, and who changed it.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tokio::time::Instant;

use super::output::{self, Output, formats};
use super::parse::{Named, parse_name};
use super::session::{GlobalArgs, Session, show_progress};
use super::several::{self, Answer};
use super::watch::{Display, RejectedCredentials, check_watch, look, notices, warn_once};
use super::{Failure, RunCommand, interrupted};
use crate::cluster::{Flavors, Query, Wanted};
use crate::connection::parse_duration;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::render;
use crate::render::page::Page;
use crate::report::clusters::ClusterReports;
use crate::report::coverage::Incomplete;
use crate::report::recent_changes::ChangesReport;
use crate::rollout::recent_changes::{FollowedChanges, recent_changes};

/// Show what changed lately: rollouts, strategies, nodes, quotas
///
/// Of nodes also their taints, labels and cordons.
///
/// The latest change comes first, as far as the API keeps times. Of each field manager it keeps when it last changed the object, but
/// not what: `may have changed labels pool` means that it owns this label and set it then, or before. Of a revision that was rolled out
/// more than twice, only the first and the last rollout are known. With a name: the changes of this DaemonSet, of nodes, and of its
/// namespace.
#[derive(Debug, Args)]
#[command(before_help = "# Show what changed in the last 15 minutes
kubectl ds changes --since 15m

# Show what was rolled out and changed in the last 24 hours, anywhere
kubectl ds changes -A --since 24h

# Show what changed for one DaemonSet, and on the nodes
kubectl ds changes fluent-bit -n logging --all")]
pub struct ChangesArgs {
    /// The DaemonSet; by default all in the namespace.
    ///
    /// `ads/NAME` is an Advanced DaemonSet of OpenKruise.
    name: Option<String>,
    /// Show only changes within this duration, such as 15m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Show all changes, however many there are
    #[arg(long)]
    all: bool,
    /// Then show what changes, a line per change.
    ///
    /// Until the command is interrupted.
    #[arg(short, long)]
    watch: bool,
    /// Output format. One of: (wide, json, yaml)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for ChangesArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let ChangesArgs { name, since, all, watch, output } = self;
        if all && output.is_some_and(|output| output != Output::Wide) {
            let message = "--all is for the table: -o json, yaml and the like always show every change";
            return Err(CommandError::usage(message).into());
        }
        let (flavors, namespace, names) = match name.as_deref().map(parse_name).transpose()? {
            Some(Named { flavors, namespace, name }) => (flavors, namespace, vec![name]),
            None => (Flavors::Any, None, Vec::new()),
        };
        let query = Query { names, flavors, wanted: Wanted::RecentChanges, ..Query::default() };
        let wide = output == Some(Output::Wide);
        // A duration that reaches back before the earliest timestamp excludes nothing.
        let since = |now: Timestamp| since.and_then(|since| now.checked_sub(since).ok());
        if watch {
            check_watch(&target, output)?;
        }
        if target.are_several() {
            let ask = async |session: &Session, io: &mut Io<'_>| {
                let snapshot = session.read(query.clone(), io).await?;
                Ok(Answer { report: recent_changes(&snapshot, since(snapshot.now)), exit: Ok(Exit::Success) })
            };
            let text = |reports: &ClusterReports<_>, page: &mut Page<'_>| {
                render::recent_changes::recent_changes(reports, wide, all, page);
            };
            let named = (namespace.as_deref(), query.names.as_slice());
            return several::run(&target, named, output, io, out, ask, text).await;
        }
        let session = target.open(namespace, &query.names, io).await?;
        let text = |report: &ChangesReport, page: &mut Page<'_>| {
            render::recent_changes::recent_changes(report, wide, all, page);
        };
        if watch {
            return follow(&session, query, output, since, text, io, out).await;
        }
        let snapshot = session.read(query, io).await?;
        let mut report = recent_changes(&snapshot, since(snapshot.now));
        output::print(output, &mut report, &session.view_for(output), out, text)?;
        Ok(Exit::Success)
    }
}

/// Shows the recent changes, then new ones, until the command is interrupted.
async fn follow(
    session: &Session,
    query: Query,
    output: Option<Output>,
    since: impl Fn(Timestamp) -> Option<Timestamp>,
    text: impl Fn(&ChangesReport, &mut Page<'_>),
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let view = session.view_for(output);
    let mut display = if output == Some(Output::Json) { Display::Json } else { Display::Lines };
    let mut watch = show_progress(session.watch(query), &session.progress, io).await?;
    let since = since(watch.snapshot().await.now);
    let (mut changes, mut rejection, mut warned, mut is_first) =
        (FollowedChanges::default(), RejectedCredentials::default(), Vec::new(), true);
    loop {
        let looked = Instant::now();
        let snapshot = look(&mut watch, &mut display, &mut rejection, session, io).await?;
        let mut report = changes.update(snapshot, since);
        let mut notices = notices(&watch);
        match display {
            Display::Json if is_first || !report.changes.is_empty() => {
                output::print_json_line(&mut report, &view, out)?;
            }
            Display::Json => {}
            _ if is_first => view.write(out, |page| text(&report, page))?,
            _ => {
                // The first report has already listed what could not be read.
                notices.extend(Incomplete::sentences(&report.incomplete));
                view.write(out, |page| render::recent_changes::lines(&report, page))?;
            }
        }
        if is_first {
            warned.extend(Incomplete::sentences(&report.incomplete));
        }
        is_first = false;
        out.flush()?;
        warn_once(notices, &mut warned, io)?;
        io.interrupt.unless_requested(display.next_look(&mut watch, looked)).await.ok_or_else(interrupted)?;
    }
}
