//! `logs`: what have the pods of DaemonSets logged on the relevant nodes?

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use futures::future::try_join_all;
use futures::stream::{StreamExt, iter};
use tokio::time::{Instant, timeout_at};

use super::change::only_one;
use super::history::{no_revision, revisions_unknown};
use super::node_choice::{NodeChoiceArgs, check_selected};
use super::output::{self, Output, formats};
use super::parse::{parse_names, parse_revision_number};
use super::place::{PlaceArgs, pod_on};
use super::session::{GlobalArgs, Session, show_progress, warn};
use super::{Failure, RunCommand};
use crate::cluster::error::ClusterError;
use crate::cluster::live::Live;
use crate::cluster::log::{Log, LogLimits};
use crate::cluster::{CoverageScope, Query, Source, Wanted};
use crate::connection::parse_duration;
use crate::coverage::filter::CoverageFilter;
use crate::coverage::log_fold::Fold;
use crate::coverage::options::{Detail, Options};
use crate::coverage::walk::daemon_set_coverage;
use crate::coverage::{gaps, telling_log};
use crate::error::{CommandError, Exit};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::Revisions;
use crate::io::Io;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::pod::Pod;
use crate::model::selector::LabelSelector;
use crate::model::snapshot::Snapshot;
use crate::render;
use crate::render::view::View;
use crate::report::fix::{Command, Fix};
use crate::report::logs::{LogBlock, LogsReport, PodLog};
use crate::report::node_coverage::PodSummary;

/// Number of logs read concurrently.
const AT_ONCE: usize = 8;

/// How long to wait without reading any log before giving up the rest: each may wait for a kubelet that does not respond.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// The most logs to read.
const MOST: usize = 200;

/// The most logs to follow.
const FOLLOWED: usize = 50;

/// Number of lines of each log if there are several.
const LINES: usize = 20;

/// The most bytes of all logs, and the most lines: including overhead, they take less than 30 MB.
const MAX_BYTES: usize = 8 << 20;
const MAX_LINES: usize = 60_000;

/// Show what the pods of DaemonSets have logged
///
/// On one node or on many. Without flags that choose pods: the logs of those that are not available.
/// Of each pod, the log of the container that crashes or keeps it from being ready is read, and of the run before if that crashed.
/// Lines of several pods that are equal but for times, numbers and names are shown once, with the DaemonSets and nodes that have them.
/// No more than 200 logs are read, spread over DaemonSets and reasons. Instead of a log that cannot be read, the termination message is
/// shown if the pod has one.
#[derive(Debug, Clone, Args)]
#[command(before_help = "# Show what the pods that are not available have logged
kubectl ds logs falco -n falco

# Show what explains the pods that crash
kubectl ds logs falco -n falco --reason CrashLooping

# Show what all pods that crash have logged
kubectl ds logs -A --reason CrashLooping

# Show the log of the agent on a node
kubectl ds logs fluent-bit -n logging --node general-c2

# Show the log of the agent next to another pod
kubectl ds logs falco -n falco --beside default/node-exporter-debug")]
pub struct LogsArgs {
    /// The DaemonSets; by default all of the namespace, or of --node
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    choice: NodeChoiceArgs,
    /// Only pods of this revision; for one DaemonSet
    #[arg(long, value_name = "N", value_parser = parse_revision_number, allow_negative_numbers = true)]
    revision: Option<i64>,
    /// The container.
    ///
    /// By default the one that crashes or is not ready, or else the first.
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// How many lines of each log, from the end.
    ///
    /// -1 is all. By default 20, and all of a single pod.
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Only lines newer than this, such as 5m
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

/// A log to read.
struct Chosen {
    log: PodLog,
    termination_message: String,
}

impl RunCommand for LogsArgs {
    async fn run(self, mut target: GlobalArgs, io: &mut Io<'_>, out: &mut dyn Write) -> Result<Exit, Failure> {
        let LogsArgs { names, place, choice, revision, container, tail, since, follow, output } = self;
        let scope = target.add_scope(Command::kubectl(&["ds", "coverage"]));
        let scope = names.iter().fold(scope, |scope, name| scope.name(name));
        let (namespace, names) = parse_names(&names)?;
        let (place, (filter, selection)) = (place.resolve()?, choice.resolve()?);
        let chooses_all = filter.is_empty() && selection.selector.is_empty() && revision.is_none();
        if place.is_some() && !chooses_all {
            let message = "--node and --beside choose one node, and cannot be combined with flags that choose several";
            return Err(CommandError::usage(message).into());
        }
        // A node without a DaemonSet's name means every DaemonSet of the cluster.
        if place.is_some() && names.is_empty() {
            target.widen();
        }
        if target.is_dump() && (follow || since.is_some()) {
            let flag = if follow { "--follow" } else { "--since" };
            return Err(
                CommandError::usage(format!("{flag} is for a cluster, and cannot be combined with --from")).into()
            );
        }
        let session = target.open(namespace, &names, io).await?;
        let chooses_none = place.is_none() && chooses_all;
        let (snapshot, node) = match place {
            Some(place) => {
                let (snapshot, node) = place.read(&session, names, io).await?;
                (snapshot, Some(node))
            }
            None => {
                let node_selector = selection.selector.clone();
                let scope = CoverageScope {
                    node_selector,
                    without_held_pods: true,
                    without_blame: true,
                    ..CoverageScope::default()
                };
                let query = Query { names, wanted: Wanted::Coverage(scope), ..Query::default() };
                (session.read(query, io).await?, None)
            }
        };
        session.check_unknown_names(&snapshot)?;
        check_selected(&snapshot, &selection)?;
        let is_one = snapshot.daemon_sets.len() == 1;
        let (node_selector, hash) = (selection.selector, hash_of(&snapshot, revision)?);
        let only_started = chooses_none && session.source.live().is_err();
        let which = Which { filter, node_selector, node, hash, unavailable: chooses_none, only_started, container };
        let (chosen, left_out) = which.choose(&snapshot, follow)?;
        if chosen.is_empty() {
            // If a DaemonSet has no pod on a node, that is an error with the reason.
            if let Some(node) = which.node.filter(|_| is_one) {
                pod_on(&snapshot, &node, &session)?;
            }
            let (of, coverage) = match snapshot.daemon_sets.as_slice() {
                [] => return Err(session.none_found().into()),
                [DaemonSet { metadata: ObjectMeta { namespace, name, .. }, .. }] => {
                    let coverage = Command::kubectl(&["ds", "coverage"]).namespace(namespace).name(name);
                    (format!("{namespace}/{name}"), coverage)
                }
                several => (format!("the {} DaemonSets{}", several.len(), session.place()), scope),
            };
            let unread = gaps::incomplete(&snapshot).into_iter().find(|gap| gap.affects_counts);
            let (message, hint) = match unread {
                Some(gap) => {
                    (format!("which pods of {of} to choose is not known: {}", gap.message), "to see what is known")
                }
                None if chooses_none && lacks_pods(&snapshot) => (
                    format!("{of}: what is not available has no log: no container of it was started on a node"),
                    "to see why",
                ),
                None if chooses_none => (
                    format!("no pod of {of} on a node is unavailable"),
                    "choose pods with --node, --node-selector or --revision; to see how they are",
                ),
                None => (format!("no pod of {of} is on a node that matches"), "to see what is wrong with which nodes"),
            };
            return Err(CommandError::new(message).hint(Fix::new(hint, coverage)).into());
        }
        let lines = match tail {
            None if chosen.len() > 1 => LINES,
            tail => tail.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX),
        };
        if follow {
            let count = chosen.len() + left_out;
            if count > FOLLOWED {
                let message = format!("{count} logs match, and no more than {FOLLOWED} can be followed");
                let error = CommandError::usage(message);
                return Err(error.hint("choose fewer with --node, --node-selector or --revision").into());
            }
            let limits = LogLimits { lines, bytes: 0, since };
            return follow_all(session.source.live()?, &chosen, is_one, limits, &session.view, io, out).await;
        }
        let most = (MAX_LINES / chosen.len()).max(1);
        let limits = LogLimits { lines: lines.min(most), bytes: (MAX_BYTES / chosen.len()).max(1 << 10), since };
        let (report, mut alone) = read_all(&session, chosen, limits, lines > most, io).await?;
        let mut report = LogsReport { left_out, ..report };
        warn(render::logs::remarks(&report), io)?;
        let view = session.view;
        if !output::print_data(output, &mut report, &view, out)? {
            match alone.take().filter(|_| is_one) {
                Some(text) => text.lines().try_for_each(|line| writeln!(out, "{}", render::logs::line(line, &view)))?,
                None => render::logs::blocks(&report, is_one, &view, out)?,
            }
        }
        let is_any_whole = report.logs.iter().any(|log| log.error.is_none() || log.termination_message);
        Ok(if is_any_whole { Exit::Success } else { Exit::Error })
    }
}

/// Returns the hash of a revision of the only DaemonSet.
fn hash_of(snapshot: &Snapshot, revision: Option<i64>) -> Result<Option<String>, CommandError> {
    let Some(number) = revision else { return Ok(None) };
    let revisions = Revisions::of(only_one(snapshot)?, snapshot);
    match revisions.number(number) {
        Some(revision) => Ok(Some(revision.object.hash().to_owned())),
        None => Err(revisions_unknown(&revisions, snapshot).unwrap_or_else(|| no_revision(&revisions, number))),
    }
}

/// Returns whether an eligible node has no available pod.
fn lacks_pods(snapshot: &Snapshot) -> bool {
    let index = Index::new(snapshot);
    let counts = |daemon_set| daemon_set_coverage(&Facts::new(&index, daemon_set), &Options::default()).counts;
    index.daemon_sets().into_iter().any(|daemon_set| counts(daemon_set).all_available() == Some(false))
}

/// Selects the logs.
struct Which {
    filter: CoverageFilter,
    node_selector: LabelSelector,
    node: Option<String>,
    /// Only pods of this revision.
    hash: Option<String>,
    /// Only unavailable pods: on a node with an available pod, there may be another one that fails.
    unavailable: bool,
    /// Only containers that have been started: for the others, the API server says why it has no log, but a dump does not.
    only_started: bool,
    container: Option<String>,
}

impl Which {
    /// Selects pods, and the container of each with the most informative log. If there are too many, some are selected
    /// for each group of nodes; the number of the others is returned, too.
    fn choose(&self, snapshot: &Snapshot, follow: bool) -> Result<(Vec<Chosen>, usize), CommandError> {
        let (index, node_selector) = (Index::new(snapshot), self.node_selector.clone());
        let options = Options { detail: Detail::Nodes, node: self.node.clone(), node_selector, ..Options::default() };
        let (mut chosen, mut lacks_container) = (Vec::new(), None);
        for daemon_set in index.daemon_sets() {
            let mut coverage = daemon_set_coverage(&Facts::new(&index, daemon_set), &options);
            if !self.filter.keeps_daemon_set(&mut coverage) {
                continue;
            }
            let pods: HashMap<&str, &Pod> =
                index.pods_of(daemon_set).map(|(_, pod)| (pod.metadata.name.as_str(), pod)).collect();
            let mut turns: HashMap<Option<usize>, usize> = HashMap::new();
            for row in coverage.nodes {
                let is_meant = |pod: &&PodSummary| {
                    let is_of_revision = self.hash.as_ref().is_none_or(|hash| pod.revision == *hash);
                    pod.bound && is_of_revision && !(self.unavailable && pod.available)
                };
                for pod in row.pods.iter().filter(is_meant).filter_map(|pod| pods.get(pod.name.as_str())) {
                    let Some(telling) = telling_log(pod, self.container.as_deref(), snapshot.now) else {
                        lacks_container.get_or_insert(&pod.metadata);
                        continue;
                    };
                    let (container, previous, termination_message) = telling;
                    if self.only_started && !has_started(pod, container) {
                        continue;
                    }
                    let log = PodLog {
                        namespace: pod.metadata.namespace.clone(),
                        daemon_set: daemon_set.metadata.name.clone(),
                        node: row.name.clone(),
                        pod: pod.metadata.name.clone(),
                        container: container.to_owned(),
                        previous: previous && !follow,
                        ..PodLog::default()
                    };
                    let termination_message = termination_message.to_owned();
                    let group = coverage.problems.iter().position(|group| group.nodes.binary_search(&row.name).is_ok());
                    let turn = turns.entry(group).or_default();
                    *turn += 1;
                    chosen.push((*turn, chosen.len(), Chosen { log, termination_message }));
                }
            }
        }
        if let (true, Some(pod), Some(container)) = (chosen.is_empty(), lacks_container, &self.container) {
            let message = format!("pod {}/{} has no container {container:?}", pod.namespace, pod.name);
            return Err(CommandError::new(message));
        }
        let left_out = chosen.len().saturating_sub(MOST);
        chosen.sort_by_key(|(turn, number, _)| (*turn, *number));
        chosen.truncate(MOST);
        chosen.sort_by_key(|(_, number, _)| *number);
        Ok((chosen.into_iter().map(|(.., chosen)| chosen).collect(), left_out))
    }
}

fn has_started(pod: &Pod, container: &str) -> bool {
    let mut own = pod.container_statuses().filter(|status| status.name == container);
    own.any(|it| {
        let states = [&it.state, &it.last_state];
        it.restart_count > 0 || states.iter().any(|state| state.running.is_some() || state.terminated.is_some())
    })
}

/// Reads logs, and folds them if there are several; `is_bound` tells whether more lines were wanted. The log of a
/// single pod is also returned as it is.
async fn read_all(
    session: &Session,
    chosen: Vec<Chosen>,
    limits: LogLimits,
    is_bound: bool,
    io: &mut Io<'_>,
) -> Result<(LogsReport, Option<String>), Failure> {
    let of: Vec<PodLog> = chosen.iter().map(|one| one.log.clone()).collect();
    let mut logs = of.clone();
    let (mut fold, mut alone) = (Fold::default(), None);
    let (mut is_any_read, mut first_error) = (false, None);
    let add = |index: usize, read: Result<Log, ClusterError>| {
        let (termination_message, log) = (&chosen[index].termination_message, &mut logs[index]);
        let text = match read {
            Ok(Log { text, previous, is_cut, has_more, broken_off }) => {
                (log.previous, log.truncated) = (previous, is_cut || (has_more && is_bound));
                log.error = broken_off.map(|error| format!("its end is missing ({error})"));
                // A container may end before it logs anything.
                match text.trim().is_empty() && !termination_message.is_empty() {
                    true => {
                        log.termination_message = true;
                        log.error.get_or_insert_with(|| "it is empty".to_owned());
                        termination_message.clone()
                    }
                    false => text,
                }
            }
            Err(error) => {
                log.error = Some(error.to_string());
                if termination_message.is_empty() {
                    first_error.get_or_insert(error);
                    return;
                }
                log.termination_message = true;
                termination_message.clone()
            }
        };
        match chosen.len() {
            1 => alone = Some(text),
            _ => fold.add(u32::try_from(index).unwrap_or(u32::MAX), [&log.node, &log.pod], &text),
        }
        is_any_read = true;
    };
    show_progress(read_each(session, &of, limits, add), &session.progress, io).await;
    session.print_warnings(io)?;
    // A log that was read is more useful than why others were not.
    if let Some(error) = first_error.filter(|_| !is_any_read) {
        return Err(error.into());
    }
    let blocks = alone.as_ref().map_or_else(|| fold.blocks(&logs), |text| LogBlock::of_one(&logs, text));
    Ok((LogsReport { logs, left_out: 0, blocks }, alone))
}

/// Reads logs, and passes on each one, or its error, with its index, in any order.
async fn read_each(
    session: &Session,
    of: &[PodLog],
    limits: LogLimits,
    mut hand: impl FnMut(usize, Result<Log, ClusterError>),
) {
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
        Source::File(dump) => match dump.logs(of, limits) {
            Ok(logs) => logs
                .into_iter()
                .enumerate()
                .for_each(|(index, log)| hand(index, log.ok_or_else(|| dump.has_no_log(&of[index])))),
            Err(error) => (0..of.len()).for_each(|index| hand(index, Err(error.clone()))),
        },
    }
}

/// Follows logs until they end; each line is prefixed with its node, and its DaemonSet unless there is only one.
async fn follow_all(
    live: &Live,
    chosen: &[Chosen],
    is_one: bool,
    limits: LogLimits,
    view: &View,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let label = |log: &PodLog| if is_one { log.node.clone() } else { format!("{} {}", log.node, log.daemon_set) };
    let width = chosen.iter().map(|one| label(&one.log).len()).max().filter(|_| chosen.len() > 1 || !is_one);
    let (out, io) = (RefCell::new(out), RefCell::new(io));
    let logs = chosen.iter().map(|one| {
        let (out, io, log) = (&out, &io, &one.log);
        async move {
            let print = |line: &str| {
                let mut out = out.borrow_mut();
                out.write_all(render::logs::followed(&label(log), width, line, view).as_bytes())?;
                out.flush().map_err(Failure::from)
            };
            let (why, has_ended) = match live.follow_log(log, limits, print).await {
                Ok(()) => ("ended".to_owned(), true),
                Err(Failure::Error(error)) => (format!("is not followed: {error}"), false),
                Err(failure) => return Err(failure),
            };
            warn(vec![format!("the log of pod {} on {} {why}", log.pod, log.node)], &mut io.borrow_mut())?;
            Ok(has_ended)
        }
    });
    let has_any_ended = try_join_all(logs).await?.contains(&true);
    Ok(if has_any_ended { Exit::Success } else { Exit::Error })
}
