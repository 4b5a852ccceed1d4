//! `status --watch`: follows rollouts until they are done.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::{Instant, sleep_until};

use super::Failure;
use super::output::Output;
use super::parse::parse_duration;
use super::session::Session;
use crate::cluster::Query;
use crate::encode::json;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::render::status_lines::StatusLines;
use crate::render::view::View;
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport, Verdict};
use crate::rollout::status::rollout_status;

/// The shortest time between two looks at the cluster, and the longest: time alone can make a pod available.
const PAUSE: Duration = Duration::from_secs(1);

/// The flags of `--watch`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Watch")]
pub(super) struct WatchArgs {
    /// Follow the rollouts until they are done
    #[arg(short, long)]
    pub(super) watch: bool,
    /// With --watch: exit with 4 if the rollouts are not done after this time, such as 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "watch")]
    timeout: Option<Duration>,
    /// With --watch: when a rollout is done
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, requires = "watch")]
    until: Until,
    /// With --watch: exit with 3 as soon as a rollout has been blocked for the time of --blocked-for
    #[arg(long, requires = "watch")]
    fail_fast: bool,
    /// With --fail-fast: how long a rollout may be blocked
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", requires = "fail_fast")]
    blocked_for: Duration,
    /// With --watch: how to show what happens
    #[arg(long, value_name = "HOW", value_enum, default_value_t, requires = "watch")]
    progress: Progress,
}

/// When a rollout is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Until {
    /// All nodes are updated and available
    #[default]
    Available,
    /// All nodes are updated
    Updated,
}

/// How to show what happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Progress {
    /// As lines
    #[default]
    Auto,
    /// A line per change
    Plain,
    /// Only the end
    None,
}

/// What is followed.
pub(super) struct Followed {
    pub(super) query: Query,
    pub(super) is_named: bool,
    pub(super) to_revision: Option<i64>,
    pub(super) output: Option<Output>,
    pub(super) view: View,
}

/// Why the watch ends.
enum End {
    Done,
    Blocked,
    TimedOut,
    Interrupted,
}

/// Follows rollouts until they are done, and returns the exit code.
pub(super) async fn run(
    settings: WatchArgs,
    followed: Followed,
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let Followed { query, is_named, to_revision, output, view } = followed;
    let deadline = settings.timeout.map(|timeout| Instant::now() + timeout);
    let mut watch = session.watch(query).await?;
    session.check_unknown_names(watch.snapshot().await)?;
    let is_plain = settings.progress != Progress::None && output != Some(Output::Json);
    let mut lines = StatusLines::default();
    let mut identities: Option<BTreeMap<String, String>> = None;
    let mut blocked_since: BTreeMap<String, Instant> = BTreeMap::new();
    let mut last = None;
    let mut warned = Vec::new();
    let (report, end) = loop {
        let looked = Instant::now();
        let snapshot = watch.snapshot().await;
        check_identities(&mut identities, snapshot, is_named)?;
        let report = rollout_status(snapshot, to_revision);
        let problems = watch.failure().map(|error| format!("{error}; what follows may be out of date")).into_iter();
        let unwatched = watch.unwatched().into_iter();
        let problems =
            problems.chain(unwatched.map(|permission| format!("{permission} is forbidden: listing every 5s")));
        for problem in problems.collect::<Vec<_>>() {
            if !warned.contains(&problem) {
                writeln!(io.err, "warning: {}", sanitize(&problem))?;
                warned.push(problem);
            }
        }
        if is_plain {
            lines.update(&report, &view, out)?;
        }
        if output == Some(Output::Json) && settings.progress != Progress::None {
            // Ages change all the time: only what happened counts.
            let state: Vec<_> = report.daemon_sets.iter().map(|one| (one.verdict, one.counts.clone())).collect();
            if last.as_ref() != Some(&state) {
                json::compact(&report, out)?;
                writeln!(out)?;
                out.flush()?;
                last = Some(state);
            }
        }
        if !report.daemon_sets.is_empty() && report.daemon_sets.iter().all(|rollout| is_done(rollout, settings.until)) {
            break (report, End::Done);
        }
        note_blocked(&report, &mut blocked_since, looked);
        let is_blocked = |since: &Instant| looked.duration_since(*since) >= settings.blocked_for;
        if settings.fail_fast && blocked_since.values().any(is_blocked) {
            break (report, End::Blocked);
        }
        let next = async {
            let _ = tokio::time::timeout(PAUSE, watch.changed()).await;
            sleep_until(looked + PAUSE).await;
        };
        let timed_out = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = io.interrupt.requested() => break (report, End::Interrupted),
            () = timed_out => break (report, End::TimedOut),
            () = next => {}
        }
    };
    let is_over = matches!(end, End::Done) && is_plain;
    if output != Some(Output::Json) && !is_over {
        print_end(&report, output, is_named, &view, out)?;
    }
    out.flush()?;
    match end {
        End::Done => Ok(Exit::Success),
        End::Blocked => Ok(Exit::No),
        End::TimedOut => {
            let error = CommandError::new("timed out: not every rollout is done").hint("the rollouts continue");
            Err(CommandError { exit: Exit::TimedOut, ..error }.into())
        }
        End::Interrupted => {
            let error = CommandError::new("interrupted").hint("the rollouts continue");
            Err(CommandError { exit: Exit::Interrupted, ..error }.into())
        }
    }
}

/// Prints the last state.
fn print_end(
    report: &RolloutStatusReport,
    output: Option<Output>,
    is_named: bool,
    view: &View,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if !super::output::print_data(output, report, out)? {
        render::status::status(report, is_named, view, out)?;
    }
    Ok(())
}

/// Checks that the named DaemonSets are still the ones that were found first.
fn check_identities(
    known: &mut Option<BTreeMap<String, String>>,
    snapshot: &Snapshot,
    is_named: bool,
) -> Result<(), CommandError> {
    let name = |namespace: &str, name: &str| format!("{namespace}/{name}");
    let now: BTreeMap<String, String> = snapshot
        .daemon_sets
        .iter()
        .map(|one| (name(&one.metadata.namespace, &one.metadata.name), one.metadata.uid.clone()))
        .collect();
    let Some(before) = known.as_ref().filter(|_| is_named) else {
        known.get_or_insert(now);
        return Ok(());
    };
    for (name, uid) in before {
        let shown = sanitize(name);
        match now.get(name) {
            None => return Err(CommandError::new(format!("DaemonSet {shown} was deleted while it was watched"))),
            Some(other) if other != uid => {
                return Err(CommandError::new(format!(
                    "DaemonSet {shown} was deleted and recreated while it was watched"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn is_done(rollout: &RolloutStatus, until: Until) -> bool {
    if rollout.requested.is_some_and(|requested| !requested.current) {
        return false;
    }
    let is_observed = !matches!(rollout.verdict, Verdict::NotObserved | Verdict::Deleting | Verdict::Unknown);
    let counts = &rollout.counts;
    let is_updated = is_observed && counts.updated == counts.desired && counts.outdated == Some(0);
    rollout.verdict == Verdict::Complete || (until == Until::Updated && is_updated)
}

/// Notes since when each rollout has been blocked without a break.
fn note_blocked(report: &RolloutStatusReport, since: &mut BTreeMap<String, Instant>, now: Instant) {
    for rollout in &report.daemon_sets {
        let name = format!("{}/{}", rollout.namespace, rollout.name);
        if rollout.verdict == Verdict::Blocked {
            since.entry(name).or_insert(now);
        } else {
            since.remove(&name);
        }
    }
}
