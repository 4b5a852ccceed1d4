//! `status --watch`: follows rollouts until they are done.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, timeout_at};

use super::coverage::check_label;
use super::output::{self, Output};
use super::session::{SECOND_LOOK, Session, TRIAL, show_progress};
use super::status::{Rollouts, check_revision, partial};
use super::watch::{Display, ProgressStyle, RejectedCredentials, look, notices, until, warn_once};
use super::{Failure, interrupted};
use crate::cluster::Query;
use crate::cluster::error::ClusterError;
use crate::cluster::live::Watch;
use crate::connection::parse_duration;
use crate::encode::sanitize::sanitize;
use crate::error::{CommandError, Exit};
use crate::facts::index::nodes_needing_all_pods;
use crate::facts::short_lists::short_lists;
use crate::io::Io;
use crate::model::config_object::ConfigObject;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::node::ZONE;
use crate::model::pod::Pod;
use crate::model::snapshot::{DeviceClass, Gap, Kind, PodsComplete, Snapshot};
use crate::render;
use crate::render::follow_summary;
use crate::render::rollout_screen::{self, Moment};
use crate::render::status_lines::{StatusLines, failing};
use crate::report::acceptance::{Accept, Acceptance};
use crate::report::fix::Fix;
use crate::report::rollout_status::{BlockedBy, RolloutStatus, RolloutStatusReport, Verdict};
use crate::rollout::events::NodeEvents;
use crate::rollout::new_pods::trials;
use crate::rollout::recent_changes::add_to_failing;
use crate::rollout::standstill::Standstills;
use crate::rollout::status::{self as rollout_status, Question, Templates};

/// How long the counters of a status may contradict the data before everything is read again: a watch may have stalled.
const CONTRADICTION: Duration = Duration::from_secs(10);

/// The timeout of that read.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// The timeout of that read after the deadline.
pub(super) const LAST_READ: Duration = Duration::from_secs(10);

/// How long a rollout may be blocked by default: with --fail-fast, and with --accept alone, which says what may be missing.
const BLOCKED_FOR: Duration = Duration::from_secs(60);
const BLOCKED_FOR_WITH_ACCEPT: Duration = Duration::from_secs(30);

/// How often the API server is asked whether it still refuses pods.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Ending a watch does not change this.
const CONTINUE: &str = "the rollouts continue";

/// The flags of `--watch`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Watch")]
pub(super) struct WatchArgs {
    /// Follow the rollouts until they are done
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Exit with 4 if not done after this time.
    ///
    /// With --watch; such as 30s or 5m; 0 means no limit.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "watch")]
    timeout: Option<Duration>,
    /// Exit with 3 once blocked for --blocked-for.
    ///
    /// With --watch: as soon as a rollout has been blocked for that time.
    #[arg(long, requires = "watch")]
    fail_fast: bool,
    /// How long a rollout may be blocked.
    ///
    /// With --fail-fast or --accept; by default 60s, or 30s without --fail-fast.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "watch")]
    blocked_for: Option<Duration>,
    /// How to show it: auto, tty, plain or none.
    ///
    /// With --watch: tty redraws a screen in place, plain prints a line per change, none only the end; auto is tty on a terminal, and
    /// plain elsewhere.
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_default_value = true, requires = "watch")]
    pub(super) progress: ProgressStyle,
}

impl WatchArgs {
    /// Checks that the flags are used together with the ones that they limit.
    pub(super) fn check(&self, accept: &[Acceptance]) -> Result<(), CommandError> {
        match self.blocked_for {
            Some(_) if !self.fail_fast && accept.iter().all(|one| one.what == Accept::Nothing) => {
                Err(CommandError::usage("--blocked-for needs --fail-fast or --accept"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the flags of a watch that ends once the new revision is available everywhere.
    pub(super) fn until_available() -> Self {
        WatchArgs { watch: true, timeout: None, fail_fast: false, blocked_for: None, progress: ProgressStyle::Auto }
    }
}

/// The pods of other controllers on nodes where a pod fails: if those fail, too, the node is at fault; the device classes, which may
/// provide what a node lacks; and the ConfigMaps that pods which fail use. They are not watched, but read when a rollout seems to be at a
/// standstill, and repeatedly from then on.
#[derive(Default)]
pub(super) struct ForeignPods {
    read_at: Option<Instant>,
    pods: Vec<Pod>,
    complete: PodsComplete,
    device_classes: Vec<DeviceClass>,
    config_maps: Vec<ConfigObject>,
    read_on_demand: BTreeSet<Kind>,
    /// What of the ConfigMaps could not be read.
    gaps: Vec<Gap>,
}

impl ForeignPods {
    /// Reads the pods of these nodes.
    pub(super) async fn read(
        snapshot: &Snapshot,
        nodes: &BTreeSet<String>,
        session: &Session,
    ) -> Result<Self, ClusterError> {
        let read_at = Some(Instant::now());
        let daemon_sets = snapshot.daemon_sets.clone();
        let mut found = Snapshot { daemon_sets, ..Snapshot::empty(snapshot.now) };
        session.read_pods_on(&mut found, nodes).await?;
        session.read_device_classes(snapshot, &mut found).await;
        session.read_config_maps(snapshot, &mut found).await;
        // The pods of the DaemonSets are watched.
        let uids: BTreeSet<&str> = snapshot.daemon_sets_of_any_flavor().map(|one| one.metadata.uid.as_str()).collect();
        let is_own = |pod: &Pod| pod.metadata.controller().is_some_and(|owner| uids.contains(owner.uid.as_str()));
        found.pods.retain(|pod| !is_own(pod));
        let Snapshot { pods, pods_complete: complete, device_classes, config_maps, read_on_demand, mut gaps, .. } =
            found;
        gaps.retain(|gap| gap.kind == Kind::ConfigMaps);
        Ok(ForeignPods { read_at, pods, complete, device_classes, config_maps, read_on_demand, gaps })
    }

    /// Returns the snapshot with these pods; `None` if there are none.
    pub(super) fn add_to(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        let is_empty = self.pods.is_empty() && self.read_on_demand.is_empty() && self.config_maps.is_empty();
        if is_empty && self.gaps.is_empty() {
            return None;
        }
        let mut all = snapshot.clone();
        all.config_maps.clone_from(&self.config_maps);
        all.gaps.extend_from_slice(&self.gaps);
        all.device_classes.clone_from(&self.device_classes);
        all.read_on_demand.extend(&self.read_on_demand);
        let known: BTreeSet<&str> = snapshot.pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        all.pods.extend(self.pods.iter().filter(|pod| !known.contains(pod.metadata.uid.as_str())).cloned());
        if !self.pods.is_empty() {
            all.pods_complete.clone_from(&self.complete);
        }
        Some(all)
    }
}

/// The map of the nodes.
pub(super) struct Map {
    /// Whether it is part of reports, besides the screen.
    pub(super) is_shown: bool,
    /// The label by which nodes are grouped.
    pub(super) label: String,
}

impl Map {
    /// Checks that some node has the label; the default one is shown as missing.
    pub(super) fn check(&self, snapshot: &Snapshot, io: &Io<'_>) -> Result<(), CommandError> {
        if self.label == ZONE { Ok(()) } else { check_label(snapshot, &self.label, io) }
    }
}

/// Why the watch ends.
enum End {
    Done,
    Blocked,
    TimedOut,
    /// Timed out, and a completed rollout could not be confirmed by reading again.
    Unconfirmed,
    Interrupted,
}

/// Follows rollouts until they are done, and returns the exit code.
pub(super) async fn run(
    settings: WatchArgs,
    rollouts: Rollouts,
    output: Option<Output>,
    session: &Session,
    io: &mut Io<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let Rollouts { query, to_revision, map, accept, templates } = rollouts;
    let view = session.view_for(output);
    let mut display = settings.progress.display(output, session, io)?;
    // 0 means no limit, as in kubectl.
    let timeout = settings.timeout.filter(|timeout| !timeout.is_zero());
    let mut deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let names = query.names.clone();
    let watch = in_time(deadline, session.watch(query.clone()));
    let mut watch = show_progress(watch, &session.progress, io).await??;
    let first = in_time(deadline, watch.snapshot()).await?;
    session.check_unknown_names(first)?;
    map.check(first, io)?;
    let mut rejection = RejectedCredentials::default();
    let mut lines = StatusLines::default();
    let mut events = NodeEvents::default();
    let mut identities: Option<BTreeMap<String, String>> = None;
    let mut standstills = Standstills::default();
    let mut last = None;
    let mut warned = Vec::new();
    let (mut contradicted, mut patience) = (None, CONTRADICTION);
    let mut is_confirmed = false;
    // Whether nothing was awaited since everything was read; why it could not be read again, and when to retry.
    let (mut is_fresh, mut unconfirmed) = (true, None);
    // What the lists of an apparently complete rollout lacked.
    let mut short: Vec<Gap> = Vec::new();
    let mut is_last = false;
    let mut foreign_pods = ForeignPods::default();
    let mut tried = None;
    let (mut report, end) = loop {
        let looked = Instant::now();
        in_time(deadline, look(&mut watch, &mut display, &mut rejection, session, io)).await??;
        // Stale data neither completes nor blocks a rollout. Failing watches do not make data stale that was just read.
        let is_current = is_fresh || watch.staleness().is_none();
        let snapshot = watch.last_snapshot();
        if let Err(gone) = check_identities(&mut identities, snapshot, &names, templates.as_ref()) {
            // A single event of a watch is no proof.
            if !is_fresh && let Ok(read) = read_again(session, &query, deadline, io).await {
                (watch, foreign_pods) = read;
                (tried, is_fresh, unconfirmed) = (None, true, None);
                continue;
            }
            return Err(gone.into());
        }
        if let Some(number) = to_revision.filter(|_| is_current) {
            check_requested_revision(snapshot, number)?;
        }
        if snapshot.daemon_sets_of_any_flavor().next().is_none() {
            return Err(session.none_found().into());
        }
        // Maps of all DaemonSets of a big cluster would be as large as the cluster.
        let has_map = map.is_shown || snapshot.daemon_sets_of_any_flavor().count() == 1;
        let map_label = has_map.then_some(map.label.as_str());
        let question = Question { requested: to_revision, map_label, accept: &accept, templates: templates.as_ref() };
        let is_due = match foreign_pods.read_at {
            Some(read_at) => looked.duration_since(read_at) >= TRY_AGAIN,
            // What a preempted pod waits for decides whether that passes.
            None => snapshot.pods.iter().any(|pod| !pod.status.nominated_node_name.is_empty() && pod.waits_for_node()),
        };
        if is_due {
            let limit = deadline.map_or(looked + TRIAL, |deadline| deadline.min(looked + TRIAL));
            let nodes = nodes_needing_all_pods(snapshot);
            let read = timeout_at(limit, ForeignPods::read(snapshot, &nodes, session)).await;
            // Unknown pods are no excuse.
            let unknown = ForeignPods { read_at: Some(looked), ..ForeignPods::default() };
            foreign_pods = read.ok().and_then(Result::ok).unwrap_or(unknown);
        }
        let with_foreign_pods = foreign_pods.add_to(snapshot);
        let mut report = rollout_status::answer(with_foreign_pods.as_ref().unwrap_or(snapshot), &question);
        if !report.daemon_sets.iter().any(|rollout| rollout.creation_may_be_refused) {
            tried = None;
            watch.note_admissions(Vec::new());
        } else if is_current && tried.is_none_or(|tried| looked.duration_since(tried) >= TRY_AGAIN) {
            tried = Some(looked);
            let asked = session.try_pods(trials(watch.last_snapshot()), deadline).await;
            watch.note_admissions(asked);
            continue;
        }
        events.update(&report);
        // If nothing came of what the controller could do, nothing will.
        let ends = |rollout| is_done(rollout, standstills.nothing_changes(rollout, looked.into_std()));
        let is_complete = report.daemon_sets.iter().all(ends);
        let seems_over = is_current && is_complete;
        // A stalled watch must not make a rollout complete.
        if !seems_over {
            unconfirmed = None;
        } else if !is_fresh && unconfirmed.as_ref().is_none_or(|(_, again)| looked >= *again) {
            match read_again(session, &query, deadline, io).await {
                Ok(read) => {
                    (watch, foreign_pods) = read;
                    (tried, is_fresh, unconfirmed) = (None, true, None);
                    continue;
                }
                Err(_) if io.interrupt.is_requested() => break (report, End::Interrupted),
                Err(Failure::Error(error)) => unconfirmed = Some((error, looked + TRY_AGAIN)),
                Err(failure) => return Err(failure),
            }
        }
        if seems_over && is_fresh {
            let before = std::mem::replace(&mut short, short_lists(watch.last_snapshot()));
            if short.iter().any(|gap| before.contains(gap)) {
                let mut snapshot = watch.last_snapshot().clone();
                snapshot.gaps.append(&mut short);
                return Err(partial(&rollout_status::answer(&snapshot, &question)).into());
            }
            if !short.is_empty() {
                let error = CommandError::new("fewer objects were listed than the status counts");
                (is_fresh, unconfirmed) = (false, Some((error, looked + SECOND_LOOK)));
            }
        }
        let is_over = seems_over && is_fresh;
        let mut notices = notices(&watch);
        notices.extend(unconfirmed.iter().map(|(error, _)| sanitize(&format!("not confirmed to be done: {error}"))));
        match &mut display {
            // The final report replaces it.
            Display::Screen(_) if is_over => {}
            Display::Screen(screen) => {
                let of_one = report.daemon_sets.first().filter(|_| report.daemon_sets.len() == 1);
                let events = of_one.map(|rollout| events.of(rollout)).unwrap_or_default();
                let moment = Moment { report: &report, events: &events, notices: &notices };
                screen.draw(io, |view, rows| rollout_screen::lines(&moment, view, rows))?;
            }
            Display::Lines | Display::Json | Display::None => warn_once(notices, &mut warned, io)?,
        }
        let shown = match display {
            // The reader of the stream trusts it.
            _ if is_complete && !is_over => Ok(()),
            Display::Lines => view.write(out, |page| lines.update(&report, page)).and_then(|()| out.flush()),
            Display::Json => {
                // Ages change all the time: only other changes count.
                let state = |one: &RolloutStatus| {
                    (
                        one.status,
                        one.verdict,
                        one.blocked_by,
                        one.matches_manifest,
                        one.counts.clone(),
                        one.faults,
                        one.accepted.clone(),
                        failing(one),
                    )
                };
                let state: Vec<_> = report.daemon_sets.iter().map(state).collect();
                if last.as_ref() == Some(&state) {
                    Ok(())
                } else {
                    if !map.is_shown {
                        report.daemon_sets.iter_mut().for_each(|rollout| rollout.map = None);
                    }
                    last = Some(state);
                    output::print_json_line(&mut report, &view, out)
                }
            }
            Display::Screen(_) | Display::None => Ok(()),
        };
        match shown {
            // Nobody waits for the end, which would be another answer than that of `status` now.
            Err(error) if output::has_closed(&error) => {
                return exit(if is_over { End::Done } else { End::Blocked }, &report);
            }
            shown => shown?,
        }
        if is_over {
            break (report, End::Done);
        }
        // The template of the manifest is not the one being rolled out, and will not become it.
        if is_current && report.daemon_sets.iter().any(|rollout| rollout.matches_manifest == Some(false)) {
            break (report, End::Blocked);
        }
        if is_current && report.daemon_sets.iter().any(cannot_become_current) {
            break (report, End::Blocked);
        }
        if is_current {
            let is_unknown = report.daemon_sets.iter().any(|rollout| rollout.verdict == Verdict::Unknown);
            // It will not become known which revision is current, either.
            if report.daemon_sets.iter().any(|rollout| rollout.requested.is_some_and(|it| it.current.is_none())) {
                return Err(partial(&report).into());
            }
            if is_unknown && report.incomplete.iter().any(|gap| gap.affects_counts) {
                return Err(partial(&report).into());
            }
            let may_end = |rollout: &&RolloutStatus| settings.fail_fast || may_end_by_accept(rollout, &accept);
            let may_end = report.daemon_sets.iter().filter(may_end);
            standstills.update(may_end, looked.into_std());
        } else {
            standstills.clear();
        }
        let contradicts = report.daemon_sets.iter().any(|rollout| !rollout.counters.differences.is_empty());
        contradicted = (contradicts && is_current).then(|| contradicted.unwrap_or(looked));
        let default = if settings.fail_fast { BLOCKED_FOR } else { BLOCKED_FOR_WITH_ACCEPT };
        let blocked_for = settings.blocked_for.unwrap_or(default);
        let is_blocked = standstills.last(blocked_for, looked.into_std());
        is_confirmed &= is_blocked;
        if is_confirmed {
            break (report, End::Blocked);
        }
        if is_last {
            break (report, End::TimedOut);
        }
        if is_blocked || contradicted.is_some_and(|since| looked.duration_since(since) >= patience) {
            match read_again(session, &query, deadline, io).await {
                Ok(read) => {
                    (watch, foreign_pods) = read;
                    tried = None;
                    (contradicted, patience) = (None, patience.saturating_mul(2));
                    (is_confirmed, is_fresh) = (is_blocked, true);
                    continue;
                }
                Err(_) if io.interrupt.is_requested() => break (report, End::Interrupted),
                // It is unknown whether it is blocked.
                Err(_) => {
                    standstills.clear();
                    watch.note_unreachable();
                }
            }
        }
        is_fresh = false;
        tokio::select! {
            biased;
            () = io.interrupt.requested() => break (report, End::Interrupted),
            () = until(deadline) => {
                // A watch may have stalled.
                deadline = Some(Instant::now() + LAST_READ);
                match read_again(session, &query, deadline, io).await {
                    Ok(read) => {
                        (watch, foreign_pods) = read;
                        (tried, is_fresh, unconfirmed, is_last) = (None, true, None, true);
                    }
                    Err(_) if io.interrupt.is_requested() => break (report, End::Interrupted),
                    Err(_) if is_complete => break (report, End::Unconfirmed),
                    Err(_) => break (report, End::TimedOut),
                }
            }
            () = display.next_look(&mut watch, looked) => {}
        }
    };
    if let Display::Screen(screen) = &mut display {
        screen.clear(io)?;
    }
    let shown = if output != Some(Output::Json) {
        add_to_failing(&mut report, watch.last_snapshot());
        view.write(out, |page| {
            match (&end, report.daemon_sets.as_slice()) {
                // The last lines were the answer.
                (End::Done, _) if matches!(display, Display::Lines) => {}
                // Its status may still be stale, which does not matter.
                (End::Done, [rollout]) => follow_summary::done(rollout, report.now, page),
                _ => render::status::status(&report, names.len() == 1, page),
            }
            if map.is_shown {
                let maps = report.daemon_sets.iter().map(|one| (&*one.namespace, &*one.name, one.map.as_ref()));
                render::node_map::maps(maps, page);
            }
            for rollout in &report.daemon_sets {
                follow_summary::summary(&events.summary(rollout), page);
            }
        })
    } else if matches!(display, Display::None) {
        output::print_json_line(&mut report, &view, out)
    } else {
        Ok(())
    };
    match shown.and_then(|()| out.flush()) {
        Err(error) if output::has_closed(&error) => {}
        shown => shown?,
    }
    exit(end, &report)
}

/// Returns how the command ends.
fn exit(end: End, report: &RolloutStatusReport) -> Result<Exit, Failure> {
    match end {
        End::Done if report.daemon_sets.iter().any(RolloutStatus::has_lost_nodes) => Ok(Exit::No),
        End::Done => Ok(Exit::Success),
        End::Blocked => Ok(Exit::No),
        End::Unconfirmed => {
            let error = timed_out("that every rollout is done could not be confirmed");
            Err(error.exit(Exit::Partial).hint(afterwards(report)).into())
        }
        End::TimedOut => Err(timed_out("not every rollout is done").hint(afterwards(report)).into()),
        End::Interrupted => Err(interrupted().hint(afterwards(report)).into()),
    }
}

/// Reads everything again. Fails if that takes too long, or if the command is interrupted.
async fn read_again<'s>(
    session: &'s Session,
    query: &Query,
    deadline: Option<Instant>,
    io: &Io<'_>,
) -> Result<(Watch<'s>, ForeignPods), Failure> {
    let limit = Instant::now() + READ_AGAIN;
    let limit = deadline.map_or(limit, |deadline| deadline.min(limit));
    let all = async {
        let mut fresh = session.watch(query.clone()).await?;
        let seen = fresh.snapshot().await;
        let foreign_pods = ForeignPods::read(seen, &nodes_needing_all_pods(seen), session).await?;
        Ok((fresh, foreign_pods))
    };
    io.interrupt.unless_requested(in_time(Some(limit), all)).await.ok_or_else(interrupted)??
}

/// Waits for a read, but not past the deadline.
pub(super) async fn in_time<T>(deadline: Option<Instant>, reading: impl Future<Output = T>) -> Result<T, CommandError> {
    match deadline {
        None => Ok(reading.await),
        Some(deadline) => {
            let read = timeout_at(deadline, reading).await;
            read.map_err(|_| timed_out("the server has not answered in time").hint(CONTINUE))
        }
    }
}

pub(super) fn timed_out(why: &str) -> CommandError {
    CommandError::new(format!("timed out: {why}")).exit(Exit::TimedOut)
}

/// Returns what happens to the rollouts after the watch ends: paused or blocked ones do not continue.
fn afterwards(report: &RolloutStatusReport) -> Fix {
    use Verdict::{Blocked, Degraded, Deleting, Paused};
    let stays = |rollout: &&RolloutStatus| matches!(rollout.verdict, Paused | Blocked | Degraded | Deleting);
    let mut unfinished = report.daemon_sets.iter().filter(|rollout| !rollout.counts_as_complete()).peekable();
    let Some(first) = unfinished.peek().copied().filter(|_| unfinished.all(|rollout| stays(&rollout))) else {
        return CONTINUE.into();
    };
    let name = format!("{}/{}", first.namespace, first.name);
    let state =
        if first.verdict == Deleting { "being deleted".to_owned() } else { first.verdict.name().to_lowercase() };
    match first.way_out.iter().find(|fix| fix.command.is_some()) {
        Some(Fix { advice, command }) => {
            let advice = format!("{name} is {state} and does not go on by itself; {advice}");
            Fix { advice, command: command.clone() }
        }
        None => format!("{name} is {state} and does not go on by itself").into(),
    }
}

/// Checks that the requested revision exists, unless the controller has not created it yet.
fn check_requested_revision(snapshot: &Snapshot, number: i64) -> Result<(), CommandError> {
    match snapshot.daemon_sets_of_any_flavor().all(DaemonSet::is_observed) {
        true => check_revision(snapshot, number),
        false => Ok(()),
    }
}

/// Checks that the named DaemonSets are still the ones that were found first.
fn check_identities(
    known: &mut Option<BTreeMap<String, String>>,
    snapshot: &Snapshot,
    names: &[String],
    templates: Option<&Templates>,
) -> Result<(), CommandError> {
    if names.is_empty() {
        return Ok(());
    }
    // A DaemonSet in another namespace may have the same name as one in a manifest.
    let is_meant = |one: &&ObjectMeta| {
        templates.is_none_or(|templates| templates.contains_key(&(one.namespace.clone(), one.name.clone())))
    };
    let all = || snapshot.daemon_sets_of_any_flavor().map(|one| &one.metadata).filter(is_meant);
    let gone = |name: &str, how: &str| {
        Err(CommandError::new(format!("DaemonSet {} was {how} while it was watched", sanitize(name))))
    };
    let now: BTreeMap<String, String> =
        all().map(|one| (format!("{}/{}", one.namespace, one.name), one.uid.clone())).collect();
    let Some(before) = known.as_ref() else {
        if let Some(name) = names.iter().find(|name| all().all(|one| one.name != **name)) {
            return gone(name, "deleted");
        }
        let is_gone = |(namespace, name): &(String, String)| !now.contains_key(&format!("{namespace}/{name}"));
        if let Some((namespace, name)) = templates.and_then(|templates| templates.keys().find(|key| is_gone(key))) {
            return gone(&format!("{namespace}/{name}"), "deleted");
        }
        *known = Some(now);
        return Ok(());
    };
    for (name, uid) in before {
        match now.get(name) {
            None => return gone(name, "deleted"),
            Some(other) if other != uid => return gone(name, "deleted and recreated"),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns whether --accept also ends the watch of a rollout that lacks other nodes. A DaemonSet's annotation never
/// does, and pods that are slow to start are waited for.
fn may_end_by_accept(rollout: &RolloutStatus, accept: &[Acceptance]) -> bool {
    let says_what = accept.iter().any(|one| one.what != Accept::Nothing);
    says_what && !rollout.accepted.as_ref().is_some_and(|accepted| accepted.may_still_start)
}

/// Returns whether a different revision than the requested one is current, and will stay so: a revision that is rolled
/// back to gets the highest number (`constructHistory`, pkg/controller/daemon/update.go, release 1.37.2).
fn cannot_become_current(rollout: &RolloutStatus) -> bool {
    let is_past = |number: i64| rollout.revision.as_ref().is_some_and(|current| number < current.number);
    rollout.requested.is_some_and(|requested| requested.current == Some(false) && is_past(requested.number))
        && rollout.verdict != Verdict::NotObserved
}

fn is_done(rollout: &RolloutStatus, nothing_changes: bool) -> bool {
    let is_requested = rollout.requested.is_none_or(|requested| requested.current == Some(true));
    // While the controller can do more, accepted faults may still go away.
    let goes_on = rollout.verdict == Verdict::Progressing
        || matches!(rollout.blocked_by, Some(BlockedBy::CreationBackoff | BlockedBy::MissedSurgePods));
    is_requested
        && rollout.matches_manifest != Some(false)
        && rollout.counts_as_complete()
        && !rollout.is_unverified()
        && (!goes_on || nothing_changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::coverage::test_support::world;
    use crate::report::rollout_status::Accepted;
    use crate::rollout::status::rollout_status;

    /// Only the flag, not an annotation, may end the watch, and not because of pods that are slow to start.
    #[test]
    fn a_rollout_that_lacks_more_than_the_command_accepts_may_end_the_watch() {
        let mut rollout = rollout_status(&world().daemon_set(json!({})).finish(), None).daemon_sets.remove(0);
        for (accept, may_still_start, may_end) in [
            ("node", Some(false), true),
            ("node", Some(true), false),
            ("node", None, true),
            // A user who says what may be missing wants an answer.
            ("fewer-nodes", None, true),
            ("none", None, false),
        ] {
            let accept = [accept.parse().unwrap()];
            rollout.accepted = may_still_start.map(|may_still_start| Accepted {
                by_annotation: false,
                invalid: None,
                by: Vec::new(),
                not_accepted: vec!["a".to_owned()],
                may_still_start,
                complete: false,
            });
            assert_eq!(may_end_by_accept(&rollout, &accept), may_end, "{accept:?} {may_still_start:?}");
            assert!(!may_end_by_accept(&rollout, &[]));
        }
    }

    /// Two manifests have the same name; the query also finds a DaemonSet that matches neither.
    #[test]
    fn every_daemon_set_of_a_manifest_has_to_be_there_and_no_other() {
        let in_namespaces = |namespaces: &[&str]| {
            let mut snapshot = world().daemon_set(json!({})).finish();
            let daemon_set = snapshot.daemon_sets.remove(0);
            let of = |namespace: &&str| {
                let mut daemon_set = daemon_set.clone();
                (daemon_set.metadata.namespace, daemon_set.metadata.uid) =
                    ((*namespace).to_owned(), (*namespace).to_owned());
                daemon_set
            };
            snapshot.daemon_sets = namespaces.iter().map(of).collect();
            snapshot
        };
        let template = in_namespaces(&["a"]).daemon_sets[0].template();
        let key = |namespace: &str| (namespace.to_owned(), "agent".to_owned());
        let templates = Templates::from([(key("a"), template.clone()), (key("b"), template)]);
        let check = |seen: &[&[&str]]| {
            let mut known = None;
            let names = ["agent".to_owned(), "agent".to_owned()];
            seen.iter().all(|namespaces| {
                check_identities(&mut known, &in_namespaces(namespaces), &names, Some(&templates)).is_ok()
            })
        };
        assert!(check(&[&["a", "b", "c"], &["a", "b"]]));
        assert!(!check(&[&["a", "c"]]));
        assert!(!check(&[&["a", "b"], &["a", "c"]]));
    }

    #[test]
    fn what_is_accepted_is_waited_for_as_long_as_the_controller_can_do_more() {
        use BlockedBy::{Budget, CreationBackoff, CreationRefused, MissedSurgePods, UnavailablePods};
        use Verdict::{Blocked, Complete, Degraded, Paused, Progressing};
        let mut rollout = rollout_status(&world().daemon_set(json!({})).finish(), None).daemon_sets.remove(0);
        for (verdict, blocked_by, complete, done) in [
            (Complete, None, false, true),
            (Degraded, None, false, false),
            (Degraded, None, true, true),
            (Paused, None, true, true),
            (Progressing, None, true, false),
            (Blocked, Some(UnavailablePods), true, true),
            (Blocked, Some(UnavailablePods), false, false),
            (Blocked, Some(Budget), true, true),
            (Blocked, Some(CreationRefused), true, true),
            (Blocked, Some(CreationBackoff), true, false),
            (Blocked, Some(MissedSurgePods), true, false),
        ] {
            (rollout.verdict, rollout.blocked_by) = (verdict, blocked_by);
            let (by, not_accepted) = (Vec::new(), (!complete).then(|| "a".to_owned()).into_iter().collect());
            rollout.accepted = Some(Accepted {
                by_annotation: false,
                invalid: None,
                by,
                not_accepted,
                may_still_start: false,
                complete,
            });
            assert_eq!(is_done(&rollout, false), done, "{verdict:?} {blocked_by:?} {complete}");
            assert_eq!(is_done(&rollout, true), done || complete, "{verdict:?} {blocked_by:?} {complete}");
        }
    }
}
