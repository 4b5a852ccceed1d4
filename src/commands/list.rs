//! `list`: the fleet.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io::Write;

use clap::{Args, ValueEnum};
use tokio::time::Instant;

use super::gate;
use super::output::{self, Output, formats};
use super::parse::{parse_names, reason_codes};
use super::session::{GlobalArgs, Session, show_progress};
use super::several::{self, Answer};
use super::watch::{Display, ProgressStyle, RejectedCredentials, check_watch, look, notices, warn_once};
use super::{Failure, RunCommand};
use crate::cluster::Query;
use crate::coverage::filter::CoverageFilter;
use crate::error::{CommandError, Exit};
use crate::facts::index::nodes_needing_all_pods;
use crate::io::Io;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::render::change_lines::{ChangeLines, of_list};
use crate::render::list::ListParts;
use crate::render::page::Page;
use crate::render::rollout_screen;
use crate::render::table::Heading;
use crate::render::view::View;
use crate::report::clusters::ClusterReports;
use crate::report::coverage::Incomplete;
use crate::report::list::{ListReport, ListRow};
use crate::report::reason::ReasonCode;
use crate::rollout::fleet;

/// The flags of `list`, which a command line without a subcommand takes, too.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ListArgs {
    /// Output format. One of: (wide, json, yaml, name)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml, Output::Name]), hide_possible_values = true)]
    output: Option<Output>,
    /// Show healthy DaemonSets too, however many there are
    #[arg(long)]
    all: bool,
    /// Only DaemonSets that need attention
    #[arg(long, conflicts_with = "all")]
    problems: bool,
    /// Only DaemonSets with nodes of this primary reason.
    ///
    /// Such as CrashLooping; may be repeated.
    #[arg(long, value_name = "CODE", ignore_case = true, value_parser = reason_codes(), hide_possible_values = true)]
    reason: Vec<ReasonCode>,
    /// Sort by status, name or age.
    ///
    /// By status, the most severe come first, and of those alike critical DaemonSets and those of kube-system.
    #[arg(long, value_name = "KEY", value_enum, default_value_t, hide_default_value = true)]
    sort_by: SortBy,
    /// Print neither the summary nor the headings
    #[arg(long)]
    no_headers: bool,
    /// Exit with 3 if an eligible node lacks an available pod.
    ///
    /// Exit with 5 if that could not be determined, and with 1 if there is no DaemonSet.
    #[arg(long)]
    exit_code: bool,
    /// Show the list again whenever it changes
    #[arg(short, long, conflicts_with = "exit_code")]
    watch: bool,
    /// With --watch: auto, tty, plain or none.
    ///
    /// How to show what changes: tty redraws a screen in place, plain prints a line per change, none only the end; auto is tty on a
    /// terminal, and plain elsewhere.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, requires = "watch")]
    progress: ProgressStyle,
}

/// List DaemonSets, unhealthy first
#[derive(Debug, Clone, Args)]
#[command(before_help = "# List the DaemonSets of all namespaces, those in trouble first
kubectl ds list -A

# List only those that need attention, for a script
kubectl ds list -A --problems --no-headers

# List the DaemonSets of several clusters, the worst first
kubectl ds list -A --contexts 'prod-*'")]
#[command(
    after_help = "Exit codes: 0, also if nothing matches; 1 error; 2 usage; 3 with --exit-code, if an eligible node lacks an available \
                        pod, and 5 if the answer is partial; 4 timed out; 130 interrupted."
)]
pub struct ListNamedArgs {
    /// The DaemonSets; by default all in the namespace
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) list: ListArgs,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SortBy {
    /// Most severe status first.
    #[default]
    Status,
    /// By namespace and name.
    Name,
    /// Newest first.
    Age,
}

impl RunCommand for ListNamedArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let ListNamedArgs { names, list } = self;
        let ListArgs { output, all, problems, reason, sort_by, no_headers, exit_code, watch, progress } = list;
        if all && output.is_some_and(|output| output != Output::Wide) {
            let message = "--all is for tables: -o json, yaml, name and the like always show every DaemonSet";
            return Err(CommandError::usage(message).into());
        }
        let (namespace, names) = parse_names(&names)?;
        let query = Query { names, ..Query::default() };
        let wide = output == Some(Output::Wide);
        let heading = if no_headers { Heading::Hidden } else { Heading::Shown };
        let filter = CoverageFilter { reasons: reason, problems, ..CoverageFilter::default() };
        let shown = ListParts { namespace: true, wide, all, heading, order: sort_by.order() };
        let mut choice = Choice { query, filter, shown, output, exit_code };
        if watch {
            check_watch(&target, choice.output)?;
        }
        if target.are_several() {
            choice.shown.namespace = namespace.is_none() && !target.has_namespace();
            let text = |reports: &ClusterReports<_>, page: &mut Page<'_>| {
                render::list::table(reports, choice.shown, page);
            };
            let ask = async |session: &Session, io: &mut Io<'_>| choice.answer(session, io).await;
            let named = (namespace.as_deref(), choice.query.names.as_slice());
            return several::run(&target, named, choice.output, io, out, ask, text).await;
        }
        let session = target.open(namespace, &choice.query.names, io).await?;
        let view = session.view_for(choice.output);
        choice.shown.namespace = session.namespace.is_none();
        if watch {
            let display = progress.display(choice.output, &session, io)?;
            return follow(&choice, display, &view, &session, io, out).await;
        }
        let Answer { mut report, exit } = choice.answer(&session, io).await?;
        output::print(choice.output, &mut report, &view, out, |report, page| {
            render::list::table(report, choice.shown, page);
        })?;
        Ok(exit?)
    }
}

/// Which rows to show, and how.
struct Choice {
    query: Query,
    filter: CoverageFilter,
    shown: ListParts,
    output: Option<Output>,
    /// Whether the exit code tells if every eligible node has an available pod.
    exit_code: bool,
}

impl SortBy {
    fn order(self) -> fn(&ListRow, &ListRow) -> Ordering {
        match self {
            SortBy::Status => |a, b| a.severity.cmp(&b.severity),
            SortBy::Name => |a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)),
            SortBy::Age => |a, b| b.created_at.cmp(&a.created_at),
        }
    }
}

impl Choice {
    async fn answer(&self, session: &Session, io: &mut Io<'_>) -> Result<Answer<ListReport>, Failure> {
        let CoverageFilter { reasons, problems, .. } = &self.filter;
        let needs_all_pods_on = |snapshot: &Snapshot| match self.output {
            Some(Output::Name) if !problems && !self.exit_code && reasons.is_empty() => BTreeSet::new(),
            _ => nodes_needing_all_pods(snapshot),
        };
        let mut snapshot = session.read_with_pods(self.query.clone(), io, needs_all_pods_on).await?;
        Box::pin(session.note_admissions(&mut snapshot, io)).await;
        let mut report = fleet::fleet(&snapshot);
        let gate = gate::all_available(report.daemon_sets.iter().map(|row| &row.counts), &report.incomplete, session);
        self.apply(&mut report);
        let is_shown = !report.daemon_sets.is_empty() || self.output.is_some_and(Output::is_data);
        let exit = session.conclude(&snapshot, &self.filter, is_shown, self.exit_code.then_some(gate), io)?;
        Ok(Answer { report, exit })
    }

    /// Makes the report with the selected rows, in the selected order.
    fn report(&self, snapshot: &Snapshot) -> ListReport {
        let mut report = fleet::fleet(snapshot);
        self.apply(&mut report);
        report
    }

    fn apply(&self, report: &mut ListReport) {
        let CoverageFilter { reasons, problems, .. } = &self.filter;
        let has_reason = |row: &ListRow| row.problems.iter().any(|problem| reasons.contains(&problem.code));
        report.daemon_sets.retain(|row| !problems || row.needs_attention());
        report.daemon_sets.retain(|row| reasons.is_empty() || has_reason(row));
        report.incidents.retain(|_| reasons.is_empty());
        report.daemon_sets.sort_by(self.shown.order);
    }
}

/// Shows the list again whenever it changes, until the command is interrupted.
async fn follow(
    choice: &Choice,
    mut display: Display,
    view: &View,
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let mut watch = show_progress(session.watch(choice.query.clone()), &session.progress, io).await?;
    session.check_unknown_names(watch.snapshot().await)?;
    let mut rejection = RejectedCredentials::default();
    let mut lines = ChangeLines::default();
    let mut warned = Vec::new();
    let report = loop {
        let looked = Instant::now();
        let snapshot = look(&mut watch, &mut display, &mut rejection, session, io).await?;
        let now = snapshot.now;
        let mut report = choice.report(snapshot);
        let mut notices = notices(&watch);
        if !matches!(display, Display::Screen(_)) {
            notices.extend(Incomplete::sentences(&report.incomplete));
            warn_once(std::mem::take(&mut notices), &mut warned, io)?;
        }
        match &mut display {
            Display::Screen(screen) => screen.draw(io, |view, rows| {
                let text = view.text(|page| render::list::table(&report, choice.shown, page));
                let shown = notices.iter().cloned().chain(text.lines().map(str::to_owned));
                rollout_screen::clip(shown.collect(), rows)
            })?,
            Display::Lines => {
                view.write(out, |page| lines.update(of_list(&report), now, page))?;
                out.flush()?;
            }
            Display::Json => {
                // Ages change all the time: only other changes count.
                if lines.note(&of_list(&report)) {
                    output::print_json_line(&mut report, view, out)?;
                }
            }
            Display::None => {}
        }
        tokio::select! {
            biased;
            () = io.interrupt.requested() => break report,
            () = display.next_look(&mut watch, looked) => {}
        }
    };
    if let Display::Screen(screen) = &mut display {
        screen.clear(io)?;
    }
    if matches!(display, Display::Screen(_) | Display::None) {
        view.write(out, |page| render::list::table(&report, choice.shown, page))?;
    }
    out.flush()?;
    // To end it is the only way that it ends.
    Ok(Exit::Interrupted)
}
