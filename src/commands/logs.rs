//! `logs`: what have the pods of a DaemonSet logged, on the nodes that matter?

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::time::Duration;

use clap::Args;
use futures::future::try_join_all;
use futures::stream::{StreamExt, iter};
use tokio::time::{Instant, timeout_at};

use super::history::{existing, only_one};
use super::node_choice::{NodeChoice, NodeChoiceArgs, check_selected};
use super::output::{self, Output, formats};
use super::parse::parse_names;
use super::place::{Place, PlaceArgs, pod_on};
use super::session::{GlobalArgs, Session, Target, show_progress, warn};
use super::{Failure, RunCommand};
use crate::cluster::error::ClusterError;
use crate::cluster::live::Live;
use crate::cluster::log::{Log, LogLimits, LogOf};
use crate::cluster::{CoverageScope, Query, Source, Wanted};
use crate::connection::parse_duration;
use crate::coverage::gaps;
use crate::coverage::log_fold::Fold;
use crate::coverage::options::{Detail, Options};
use crate::coverage::telling_log;
use crate::coverage::walk::coverage;
use crate::error::{CommandError, Exit};
use crate::io::Io;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::report::coverage::NodeCoverage;
use crate::report::fix::{Command, Fix};
use crate::report::logs::{LogBlock, LogsReport, PodLog};

/// How many logs are read at a time.
const AT_ONCE: usize = 8;

/// How long no log may be read before the rest is given up: each may wait for a kubelet that does not answer.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// How many logs are followed.
const FOLLOWED: usize = 50;

/// How many lines of each log are read if there are several.
const LINES: usize = 20;

/// The most bytes of all logs, and the most lines: with what is noted of each, they take less than 60 MB.
const MAX_BYTES: usize = 8 << 20;
const MAX_LINES: usize = 60_000;

/// Show what the pods of a DaemonSet have logged
///
/// On one node or on many. Without flags that choose pods: the logs of those that are not available.
/// Of each pod, the log of the container that crashes or keeps it from being ready is read, and of the run before if that crashed.
/// Lines of several pods that are equal but for times, numbers and names are shown once, with the nodes that have them.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Show what the pods that are not available have logged
kubectl ds logs falco -n falco

# Show what explains the pods that crash
kubectl ds logs falco -n falco --reason CrashLooping

# Show the log of the agent on a node
kubectl ds logs fluent-bit -n logging --node general-c2

# Show the log of the agent next to another pod
kubectl ds logs falco -n falco --beside default/node-exporter-debug")]
pub struct LogsArgs {
    /// The DaemonSet
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    choice: NodeChoiceArgs,
    /// Only pods of this revision
    #[arg(long, value_name = "N")]
    revision: Option<i64>,
    /// The container.
    ///
    /// By default the one that crashes or is not ready, or else the first.
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// How many lines of each log are shown, from the end.
    ///
    /// -1 is all. By default 20, and all of a single pod.
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Only lines logged within this duration, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Follow the logs of the current runs.
    ///
    /// Each line after its node, until interrupted.
    #[arg(short, long, conflicts_with = "output")]
    follow: bool,
    /// Output format. One of: (json, yaml)
    #[arg(short, long, value_name = "FORMAT", value_parser = formats(&[Output::Json, Output::Yaml]), hide_possible_values = true)]
    output: Option<Output>,
}

/// A log that is read.
struct Chosen {
    node: String,
    of: LogOf,
}

impl RunCommand for LogsArgs {
    async fn run(self, target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let LogsArgs { name, place, choice, revision, container, tail, since, follow, output } = self;
        let (namespace, names) = parse_names(&[name])?;
        let (place, choice) = (place.resolve()?, choice.resolve()?);
        if place.is_some() && (!choice.is_empty() || revision.is_some()) {
            let message = "--node and --beside choose one node, and cannot be combined with flags that choose several";
            return Err(CommandError::usage(message).into());
        }
        let mut target = target.resolve(io)?;
        target.choose(namespace, &names)?;
        if target.is_dump() && (follow || since.is_some()) {
            let flag = if follow { "--follow" } else { "--since" };
            return Err(
                CommandError::usage(format!("{flag} is for a cluster, and cannot be combined with --from")).into()
            );
        }
        let session = target.open(io).await?;
        let chooses_none = place.is_none() && choice.is_empty() && revision.is_none();
        let (snapshot, mut rows) = read_rows(&session, names, place, &choice, revision, io).await?;
        if chooses_none {
            // Of a node with an available pod, there may be another one that fails.
            rows.iter_mut().for_each(|row| row.pods.retain(|pod| !pod.available));
        }
        let chosen = choose(&snapshot, rows, container.as_deref(), follow)?;
        if chosen.is_empty() {
            let name = only_one(&snapshot, "this command")?.daemon_set.metadata.clone();
            let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&name.namespace).name(&name.name);
            let (namespace, name) = (name.namespace, name.name);
            let unread = gaps::incomplete(&snapshot).into_iter().find(|gap| gap.affects_counts);
            let (message, hint) = match unread {
                Some(gap) => (
                    format!("which pods of {namespace}/{name} to choose is not known: {}", gap.message),
                    "to see what is known",
                ),
                None if chooses_none => (
                    format!("no pod of {namespace}/{name} on a node is unavailable"),
                    "choose pods with --node, --node-selector or --revision; to see how they are",
                ),
                None => (
                    format!("no pod of {namespace}/{name} is on a node that matches"),
                    "to see what is wrong with which nodes",
                ),
            };
            return Err(CommandError::new(message).hint(Fix::new(hint, coverage)).into());
        }
        let lines = match tail {
            None if chosen.len() > 1 => LINES,
            tail => tail.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX),
        };
        if follow {
            return follow_all(session.source.live()?, &chosen, lines, since, &target, io, out).await;
        }
        let most = (MAX_LINES / chosen.len()).max(1);
        let limits = LogLimits { lines: lines.min(most), bytes: (MAX_BYTES / chosen.len()).max(1 << 10), since };
        let (mut report, mut alone) = read_all(&session, &snapshot, chosen, limits, lines > most, io).await?;
        warn(render::logs::remarks(&report), io)?;
        if !output::print_data(output.as_ref(), &mut report, &target.view_for(output.as_ref(), io), out)? {
            let view = target.view(io.width());
            match alone.take() {
                Some(text) => text.lines().try_for_each(|line| writeln!(out, "{}", render::logs::line(line, &view)))?,
                None => render::logs::blocks(&report, &view, out)?,
            }
        }
        let is_any_whole = report.logs.iter().any(|log| log.error.is_none());
        Ok(if is_any_whole { Exit::Success } else { Exit::Error })
    }
}

/// Reads a DaemonSet, and returns the nodes that are asked about.
async fn read_rows(
    session: &Session,
    names: Vec<String>,
    place: Option<Place>,
    choice: &NodeChoice,
    revision: Option<i64>,
    io: &mut Io<'_>,
) -> Result<(Snapshot, Vec<NodeCoverage>), Failure> {
    if let Some(place) = place {
        let (snapshot, node) = place.read(session, names, io).await?;
        // That there is no pod is an error, with the reason.
        let (_, mut row) = pod_on(&snapshot, &node, session)?;
        row.pods.retain(|pod| pod.bound);
        return Ok((snapshot, vec![row]));
    }
    let node_selector = choice.node_selector.selector.clone();
    let scope = CoverageScope { node_selector: node_selector.clone(), held_pods: false, ..CoverageScope::default() };
    let query = Query { names, wanted: Wanted::Coverage(scope), ..Query::default() };
    let snapshot = session.read(query, io, |_| BTreeSet::new()).await?;
    session.check_unknown_names(&snapshot)?;
    check_selected(&snapshot, &choice.node_selector)?;
    let revisions = only_one(&snapshot, "this command")?;
    let hash = revision.map(|number| match revisions.number(number) {
        Some(revision) => Ok(revision.object.hash().to_owned()),
        None => Err(CommandError::new(format!("revision {number} not found")).hint(existing(&revisions))),
    });
    let hash = hash.transpose()?;
    drop(revisions);
    let options = Options { detail: Detail::Nodes, node_selector, ..Options::default() };
    let mut report = coverage(&snapshot, &options);
    choice.filter().apply(&mut report);
    let mut rows: Vec<NodeCoverage> = report.daemon_sets.into_iter().flat_map(|daemon_set| daemon_set.nodes).collect();
    for row in &mut rows {
        row.pods.retain(|pod| pod.bound && hash.as_ref().is_none_or(|hash| pod.revision == *hash));
    }
    Ok((snapshot, rows))
}

/// Chooses the container of each pod whose log tells most.
fn choose(
    snapshot: &Snapshot,
    rows: Vec<NodeCoverage>,
    container: Option<&str>,
    follow: bool,
) -> Result<Vec<Chosen>, CommandError> {
    let mut chosen = Vec::new();
    let namespace = snapshot.daemon_sets.first().map(|daemon_set| daemon_set.metadata.namespace.clone());
    let namespace = namespace.unwrap_or_default();
    let pods = snapshot.pods.iter().filter(|pod| pod.metadata.namespace == namespace);
    let pods: HashMap<&str, &Pod> = pods.map(|pod| (pod.metadata.name.as_str(), pod)).collect();
    for row in rows {
        for summary in row.pods {
            let pod = pods.get(summary.name.as_str());
            let Some((telling, previous)) = pod.and_then(|pod| telling_log(pod, container, snapshot.now)) else {
                let Some(container) = container else { continue };
                let message = format!("pod {namespace}/{} has no container {container:?}", summary.name);
                return Err(CommandError::new(message));
            };
            let (container, previous) = (telling.to_owned(), previous && !follow);
            let of = LogOf { namespace: namespace.clone(), pod: summary.name, container, previous };
            chosen.push(Chosen { node: row.name.clone(), of });
        }
    }
    Ok(chosen)
}

/// Reads logs, and folds them if there are several; `is_bound` tells whether more lines were wanted. That of a single pod is
/// returned as it is, too.
async fn read_all(
    session: &Session,
    snapshot: &Snapshot,
    chosen: Vec<Chosen>,
    limits: LogLimits,
    is_bound: bool,
    io: &mut Io<'_>,
) -> Result<(LogsReport, Option<String>), Failure> {
    let nodes: Vec<String> = chosen.iter().map(|one| one.node.clone()).collect();
    let (mut fold, mut alone) = (Fold::default(), None);
    let mut logs: Vec<(usize, PodLog)> = Vec::new();
    let (mut is_any_read, mut first_error) = (false, None);
    let add = |index: usize, read: Result<Log, ClusterError>| {
        let Chosen { node, of } = &chosen[index];
        let mut log = PodLog {
            node: node.clone(),
            pod: of.pod.clone(),
            container: of.container.clone(),
            previous: of.previous,
            truncated: false,
            error: None,
        };
        match read {
            Ok(Log { text, previous, is_cut, has_more, broken_off }) => {
                (log.previous, log.truncated) = (previous, is_cut || (has_more && is_bound));
                log.error = broken_off.map(|error| format!("its end is missing ({error})"));
                is_any_read = true;
                match chosen.len() {
                    1 => alone = Some(text),
                    _ => fold.add(u32::try_from(index).unwrap_or(u32::MAX), [node, &of.pod], &text),
                }
            }
            Err(error) => {
                log.error = Some(error.to_string());
                first_error.get_or_insert(error);
            }
        }
        logs.push((index, log));
    };
    let of: Vec<LogOf> = chosen.iter().map(|one| one.of.clone()).collect();
    show_progress(read_each(session, &of, limits, add), &session.progress, io).await?;
    session.print_warnings(io)?;
    // One that was read tells more than why others were not.
    if let Some(error) = first_error.filter(|_| !is_any_read) {
        return Err(error.into());
    }
    logs.sort_by_key(|(index, _)| *index);
    let name = &only_one(snapshot, "this command")?.daemon_set.metadata;
    let report = LogsReport {
        namespace: name.namespace.clone(),
        daemon_set: name.name.clone(),
        logs: logs.into_iter().map(|(_, log)| log).collect(),
        blocks: alone.as_ref().map_or_else(|| fold.blocks(&nodes), |text| LogBlock::of_one(&nodes, text)),
    };
    Ok((report, alone))
}

/// Reads logs, and hands over each, or why it could not be read, with its index, in any order.
///
/// # Errors
///
/// Fails if a dump cannot be read.
pub(super) async fn read_each(
    session: &Session,
    of: &[LogOf],
    limits: LogLimits,
    mut hand: impl FnMut(usize, Result<Log, ClusterError>),
) -> Result<(), ClusterError> {
    match &session.source {
        Source::Live(live) => {
            let requests = of.iter().enumerate();
            let requests = requests.map(|(index, of)| async move { (index, live.log(of, limits).await) });
            let mut answers = iter(requests).buffer_unordered(AT_ONCE);
            let mut is_handed = vec![false; of.len()];
            let mut deadline = Instant::now() + MOST_WAIT;
            while let Ok(Some((index, read))) = timeout_at(deadline, answers.next()).await {
                deadline = if read.is_ok() { Instant::now() + MOST_WAIT } else { deadline };
                is_handed[index] = true;
                hand(index, read);
            }
            for index in (0..of.len()).filter(|index| !is_handed[*index]) {
                let problem = format!("no log was read within {} s", MOST_WAIT.as_secs());
                hand(index, Err(ClusterError::Answer { request: "get pods/log".to_owned(), problem }));
            }
        }
        Source::File(dump) => {
            for (index, log) in dump.logs(of, limits)?.into_iter().enumerate() {
                hand(index, log.ok_or_else(|| dump.has_no_log(&of[index])));
            }
        }
    }
    Ok(())
}

/// Follows logs until they end, each line after its node.
async fn follow_all(
    live: &Live,
    chosen: &[Chosen],
    lines: usize,
    since: Option<Duration>,
    target: &Target,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if chosen.len() > FOLLOWED {
        let message = format!("{} logs match, and no more than {FOLLOWED} can be followed", chosen.len());
        return Err(CommandError::usage(message)
            .hint("choose fewer with --node, --node-selector or --revision")
            .into());
    }
    let view = target.view(io.width());
    let limits = LogLimits { lines, bytes: 0, since };
    let width = chosen.iter().map(|one| one.node.len()).max().filter(|_| chosen.len() > 1);
    let (out, io) = (RefCell::new(out), RefCell::new(io));
    let logs = chosen.iter().map(|Chosen { node, of }| {
        let (out, io, view) = (&out, &io, &view);
        async move {
            let print = |line: &str| {
                let mut out = out.borrow_mut();
                out.write_all(render::logs::followed(node, width, line, view).as_bytes())?;
                out.flush().map_err(Failure::from)
            };
            let (why, has_ended) = match live.follow_log(of, limits, print).await {
                Ok(()) => ("ended".to_owned(), true),
                Err(Failure::Error(error)) => (format!("is not followed: {error}"), false),
                Err(failure) => return Err(failure),
            };
            warn(vec![format!("the log of pod {} on {node} {why}", of.pod)], &mut io.borrow_mut())?;
            Ok(has_ended)
        }
    });
    let has_any_ended = try_join_all(logs).await?.contains(&true);
    Ok(if has_any_ended { Exit::Success } else { Exit::Error })
}
