//! `compare`: is it worse than before?

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::time::Instant;

use super::output::{self, Output, formats};
use super::parse::parse_names;
use super::session::{GlobalArgs, Session, show_progress};
use super::status::AcceptArgs;
use super::status_watch::{LAST_READ, in_time, timed_out};
use super::watch::{Display, RejectedCredentials, check_watch, look, notices, until, warn_once};
use super::{Failure, RunCommand, gate};
use crate::cluster::{CoverageScope, Flavors, Query, Wanted};
use crate::connection::parse_duration;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::snapshot::{Snapshot, UnknownName};
use crate::render;
use crate::render::change_lines::write_line;
use crate::report::acceptance::Acceptance;
use crate::report::compare::{CompareReport, Comparison};
use crate::rollout::compare::{CompareOptions, compare};

/// Tell whether DaemonSets are worse off than before
///
/// Compares two states, such as before and after the upgrade of a cluster, of nodes or of agents: nodes that no longer have an available
/// pod, new problems, blocked rollouts, restarts, and what changed in the templates. Nodes that were replaced under other names are
/// compared by pool, and less room or more nodes are not worse by themselves.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Before an upgrade, record the state of all DaemonSets
kubectl ds snapshot -A before.json.gz

# After it, tell whether anything is worse
kubectl ds compare before.json.gz

# In a pipeline, fail if it is; with --watch --timeout 15m, wait first
kubectl ds compare before.json.gz --exit-code")]
#[command(
    after_help = "Exit codes: 0, whatever the answer is; 1 error; 2 usage; 3 with --exit-code, if it is worse; 4 timed out; 5 with \
                        --exit-code or --watch, if that is not known; 130 interrupted."
)]
pub struct CompareArgs {
    /// The state before: a dump, a directory or a must-gather
    #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
    before: String,
    /// The state after: another dump; by default the cluster
    #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
    after: Option<String>,
    /// Only this DaemonSet; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Show everything that differs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    accept: AcceptArgs,
    /// Exit with 3 if it is worse.
    ///
    /// Exit with 5 if that could not be determined.
    #[arg(long)]
    exit_code: bool,
    /// Wait until it is at least as good as before.
    ///
    /// Prints a line whenever the answer changes, on a terminal, too.
    #[arg(short, long)]
    watch: bool,
    /// Exit with 4 if it is still worse after this time.
    ///
    /// With --watch; such as 30s or 5m; 0 means no limit.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "watch")]
    timeout: Option<Duration>,
    /// Output format. One of: (wide, json, yaml)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Wide, Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
}

impl RunCommand for CompareArgs {
    async fn run(self, mut target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let CompareArgs { before, after, names, all, accept, exit_code, watch, timeout, output } = self;
        let (namespace, names) = parse_names(&names)?;
        let accept = accept.resolve(io)?;
        // A dump has the DaemonSets of all namespaces.
        target.widen();
        let target_before = target.with_dump(&before);
        if let Some(after) = after {
            if target.is_dump() {
                let message = "AFTER and --from cannot be given together: both name what BEFORE is compared with";
                return Err(CommandError::usage(message).into());
            }
            if watch {
                return Err(
                    CommandError::usage("--watch needs a cluster: AFTER is a dump, which does not change").into()
                );
            }
            target = target.with_dump(&after);
        }
        if target_before.reads_input() && target.reads_input() {
            return Err(CommandError::usage("BEFORE and AFTER cannot both be standard input").into());
        }
        if watch {
            check_watch(&target, output)?;
        }
        let session_before = target_before.open(namespace.clone(), &names, io).await?;
        let session = target.open(namespace, &names, io).await?;
        let headroom = target.all_namespaces && target.selector.is_none() && names.is_empty();
        let mut asked = Asked { session: &session, names, before: Snapshot::default(), accept, headroom };
        asked.before = asked.read(&session_before, io).await?;
        if asked.names.is_empty() && asked.before.daemon_sets.is_empty() {
            return Err(CommandError::new(format!("no DaemonSets found before{}", session.place())).into());
        }
        let (mut report, end) = if watch {
            asked.wait(timeout.filter(|timeout| !timeout.is_zero()), output, io, out).await?
        } else {
            (asked.answer(io).await?, Ok(()))
        };
        let names = report.daemon_sets.iter().map(|one| one.name.as_str());
        let names: BTreeSet<&str> =
            names.chain(report.not_compared.iter().filter_map(|one| Some(one.split_once('/')?.1))).collect();
        if let Some(name) = asked.names.iter().find(|name| !names.contains(name.as_str())) {
            let unknown = UnknownName { name: name.clone(), near: Vec::new(), elsewhere: Vec::new() };
            return Err(session.source.unknown_daemon_set(session.namespace.as_deref(), unknown).into());
        }
        // Its last line was the report.
        if !(watch && output == Some(Output::Json)) {
            output::print(output, &mut report, &session.view_for(output), out, |report, page| {
                render::compare::compare(report, all, page);
            })?;
        }
        end?;
        match report.verdict {
            Comparison::Worse if exit_code || watch => Ok(Exit::No),
            Comparison::Unknown if exit_code || watch => Err(unknown(&report).into()),
            _ => Ok(Exit::Success),
        }
    }
}

/// Builds the error of an answer that what could not be read keeps open.
fn unknown(report: &CompareReport) -> CommandError {
    let error = gate::unknown("whether it is worse than before is not known", &report.incomplete);
    let lacks = [(&report.not_in_before, "BEFORE"), (&report.not_in_after, "AFTER")];
    let lacks = lacks.into_iter().filter(|(lacks, _)| !lacks.is_empty());
    error.hints(lacks.map(|(lacks, side)| format!("not in {side}: {}", lacks.join(", "))))
}

/// What is compared with what.
struct Asked<'s> {
    session: &'s Session,
    names: Vec<String>,
    before: Snapshot,
    accept: Vec<Acceptance>,
    headroom: bool,
}

impl Asked<'_> {
    /// Returns what is read. A DaemonSet that was named may exist on one side only.
    fn query() -> Query {
        let scope =
            CoverageScope { admission: true, without_held_pods: true, without_blame: true, ..CoverageScope::default() };
        Query { flavors: Flavors::Apps, wanted: Wanted::Coverage(scope), ..Query::default() }
    }

    async fn read(&self, session: &Session, io: &mut Io<'_>) -> Result<Snapshot, Failure> {
        let all_nodes = |snapshot: &Snapshot| -> BTreeSet<String> {
            snapshot.nodes.iter().map(|node| node.metadata.name.clone()).collect()
        };
        let needed = |snapshot: &Snapshot| if self.headroom { all_nodes(snapshot) } else { BTreeSet::new() };
        let mut snapshot = session.read_with_pods(Self::query(), io, needed).await?;
        session.note_admissions(&mut snapshot, io).await;
        self.choose(&mut snapshot);
        Ok(snapshot)
    }

    fn choose(&self, snapshot: &mut Snapshot) {
        snapshot.daemon_sets.retain(|one| self.names.is_empty() || self.names.contains(&one.metadata.name));
    }

    /// Reads the cluster as it is, and compares it.
    async fn answer(&self, io: &mut Io<'_>) -> Result<CompareReport, Failure> {
        let after = self.read(self.session, io).await?;
        Ok(self.compare(&after, self.headroom))
    }

    fn compare(&self, after: &Snapshot, headroom: bool) -> CompareReport {
        compare(&self.before, after, &CompareOptions { accept: &self.accept, headroom })
    }

    /// Waits until it is at least as good as before, and returns the last report, and an error if that was not in time.
    async fn wait(
        &self,
        timeout: Option<Duration>,
        output: Option<Output>,
        io: &mut Io<'_>,
        out: &mut dyn Write,
    ) -> Result<(CompareReport, Result<(), CommandError>), Failure> {
        let session = self.session;
        let view = session.view_for(output);
        let mut display = if output == Some(Output::Json) { Display::Json } else { Display::Lines };
        let mut deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let watch = in_time(deadline, session.watch(Self::query()));
        let mut watch = show_progress(watch, &session.progress, io).await??;
        let (mut rejection, mut warned, mut last) = (RejectedCredentials::default(), Vec::new(), String::new());
        let mut is_late = false;
        loop {
            let looked = Instant::now();
            let looks = look(&mut watch, &mut display, &mut rejection, session, io);
            let mut snapshot = in_time(deadline, looks).await??.clone();
            self.choose(&mut snapshot);
            let mut report = self.compare(&snapshot, false);
            let mut is_over = watch.staleness().is_none() && report.verdict != Comparison::Worse;
            if is_over || is_late {
                // A watch that has fallen silent proves nothing.
                report = in_time(deadline, self.answer(io)).await??;
                is_over = report.verdict != Comparison::Worse;
            }
            warn_once(notices(&watch), &mut warned, io)?;
            let headline = render::compare::headline(&report);
            if headline != last {
                let shown = match display {
                    Display::Json => output::print_json_line(&mut report, &view, out),
                    _ => write!(out, "{}", view.text(|page| write_line(report.now, &headline, page))),
                };
                match shown.and_then(|()| out.flush()) {
                    // Nobody waits for the end.
                    Err(error) if output::has_closed(&error) => return Ok((report, Ok(()))),
                    shown => shown?,
                }
                last = headline;
            }
            match (is_over, is_late) {
                (true, _) => return Ok((report, Ok(()))),
                (false, true) => return Ok((report, Err(timed_out("it is worse than before")))),
                (false, false) => {}
            }
            tokio::select! {
                () = until(deadline) => {
                    is_late = true;
                    deadline = Some(Instant::now() + LAST_READ);
                }
                () = display.next_look(&mut watch, looked) => {}
            }
        }
    }
}
