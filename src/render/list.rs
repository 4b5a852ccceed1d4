//! The list of DaemonSets.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::clusters::{InCluster, Reports, in_namespace, name_in, only_namespace};
use super::coverage::{restarting_in_short, some_codes};
use super::overview::named;
use super::page::Page;
use super::removed_nodes::{in_short, lost_in_short};
use super::status::held_in_short;
use super::style;
use super::table::{Column, Heading};
use super::text::{self, count, or_merged, or_unknown, time_since, wrap};
use super::view::View;
use crate::report::list::{ListReport, ListRow, Status};

/// The maximum number of rows on a terminal before others are omitted.
pub(super) const MOST_ROWS: usize = 18;

/// The least width that a terminal needs beside namespaces, names and the problem: for the numbers and the space between the columns.
const BESIDE_NAMES: usize = 9 + 3 * 2;

/// The minimum width for separate columns of desired, ready, updated and available pods.
const LEAST_WIDTH_FOR_ALL_COLUMNS: usize = 110;

/// The optional parts of the list.
#[derive(Debug, Clone, Copy)]
pub struct ListParts {
    /// The namespace.
    pub namespace: bool,
    /// Strategies, ages, images and node selectors.
    pub wide: bool,
    /// All healthy DaemonSets, however many there are.
    pub all: bool,
    /// The summary and the heading.
    pub heading: Heading,
    /// The order of rows from several clusters.
    pub order: fn(&ListRow, &ListRow) -> Ordering,
}

/// A row, and the time from which its age is counted.
type Row<'a> = (&'a ListRow, Timestamp);

/// Writes a summary, and a row per DaemonSet. On a terminal, only the first few healthy ones are shown.
pub(crate) fn table<'a>(reports: impl Into<Reports<'a, ListReport>>, shown: ListParts, page: &mut Page<'_>) {
    let (reports, view) = (&reports.into(), page.view);
    let mut all = reports.rows(|report| report.daemon_sets.iter().map(|row| (row, report.now)));
    if reports.are_several() {
        all.sort_by(|(_, (a, _)), (_, (b, _))| (shown.order)(a, b));
    }
    let is_healthy =
        |row: &ListRow| row.status == Status::Healthy && row.lost_pods.is_none() && row.restarting.is_empty();
    let others = all.iter().filter(|(_, (row, _))| !is_healthy(row)).count();
    let is_cut = view.limit.is_some() && !shown.all && !shown.wide;
    let mut healthy_left = if is_cut { MOST_ROWS.saturating_sub(others) } else { usize::MAX };
    let namespaces = all.iter().map(|(_, (row, _))| row.namespace.as_str()).filter(|_| shown.namespace);
    let namespace = only_namespace(namespaces, shown.heading, view);
    if shown.heading == Heading::Shown && (reports.are_several() || !all.is_empty()) {
        let headline = reports.headline(|place| summary(reports, &all, &in_namespace(namespace, place)));
        page.paragraph(&headline, style::summary);
        reports.incidents(|report| (&report.incidents, report.now), page);
        writeln!(page);
    }
    let stale = all.iter().filter(|(_, (row, _))| row.counters.agrees == Some(false));
    let stale = stale.map(|(context, (row, _))| name_in(context, format!("{}/{}", row.namespace, row.name)));
    let stale: Vec<String> = stale.collect();
    let found = all.len();
    all.retain(|(_, (row, _))| {
        let is_shown = !is_healthy(row) || healthy_left > 0;
        healthy_left -= usize::from(is_healthy(row) && is_shown);
        is_shown
    });
    let hidden = found - all.len();
    let has_namespaces = shown.namespace && namespace.is_none();
    if !shown.wide && !reports.are_several() && is_too_narrow(&all, has_namespaces, view) {
        let (heading, name): (_, fn(&ListRow) -> String) = match has_namespaces {
            true => ("NAMESPACE/NAME", |row| format!("{}/{}", row.namespace, row.name)),
            false => ("NAME", |row| row.name.clone()),
        };
        let name = move |(row, _): &Row<'_>| view.show(&name(row));
        let available = Column::text("AVAILABLE", |(row, _): &Row<'_>| available(row));
        let beneath = |(row, now): &Row<'_>, width| {
            wrap(&or_merged(row.status, |width| problem(row, Some(*now), width), width), width).join("\n")
        };
        reports.table(shown.heading, vec![available, Column::text(heading, name)], all, beneath, page);
    } else {
        reports.table(shown.heading, columns(shown, has_namespaces, view), all, |_, _| String::new(), page);
    }
    page.more(hidden, "healthy DaemonSet", "--all");
    if shown.heading == Heading::Shown {
        named("outdated numbers in kubectl", &stale, page);
    }
    reports.incomplete(|report| &report.incomplete, page)
}

/// Returns whether a terminal is too narrow to show the namespaces, names and reason codes beside each other in full: what is cut
/// cannot be read, searched for, nor pasted into the next command.
fn is_too_narrow(rows: &[InCluster<'_, Row<'_>>], has_namespaces: bool, view: &View) -> bool {
    let widest = |of: &dyn Fn(&Row<'_>) -> usize| rows.iter().map(|(_, row)| of(row)).max().unwrap_or(0);
    let namespaces = widest(&|(row, _)| text::columns(&row.namespace)).max("NAMESPACE".len());
    let names = widest(&|(row, _)| text::columns(&row.name)) + if has_namespaces { namespaces } else { 0 };
    let problems = widest(&|(row, now)| {
        or_merged(row.status, |width| problem(row, Some(*now), width), 0)
            .split(' ')
            .map(text::columns)
            .max()
            .unwrap_or(0)
    });
    view.limit.is_some_and(|limit| names + problems + BESIDE_NAMES > limit)
}

/// Returns how many of the eligible nodes have an available pod.
fn available(row: &ListRow) -> String {
    format!("{}/{}", or_unknown(row.counts.available), or_unknown(row.counts.eligible))
}

/// Counts the DaemonSets by status.
fn summary(reports: &Reports<'_, ListReport>, rows: &[InCluster<'_, Row<'_>>], place: &str) -> String {
    let sum = |of: fn(&ListReport) -> Option<usize>| reports.of.iter().map(|cluster| of(cluster.report)).sum();
    let nodes: Option<usize> = sum(|report| report.nodes_total);
    let nodes = nodes.map(|nodes| format!(" on {}", count(nodes, "node"))).unwrap_or_default();
    let not_ready = match sum(|report| report.nodes_not_ready) {
        None | Some(0) => String::new(),
        Some(number) => format!(" ({number} NotReady)"),
    };
    let words = by_status(rows.iter().map(|(_, (row, _))| row.status));
    let statuses = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    // Other problems give a DaemonSet a different status.
    let nowhere = rows.iter().filter(|(_, (row, _))| row.counts.eligible == Some(0));
    let all_nowhere =
        match (nowhere.clone().count(), nowhere.filter(|(_, (row, _))| row.status == Status::NoNodes).count()) {
            (all, by_status) if all == by_status => String::new(),
            (all, _) => format!("; {all} in all have no eligible node"),
        };
    format!("{}{nodes}{not_ready}{place}{statuses}{all_nowhere}", count(rows.len(), "DaemonSet"))
}

/// Counts DaemonSets by status, in words: the healthy ones first, then by severity.
pub(super) fn by_status(statuses: impl Iterator<Item = Status>) -> Vec<String> {
    let mut by_status: BTreeMap<Status, usize> = BTreeMap::new();
    statuses.for_each(|status| *by_status.entry(status).or_default() += 1);
    let healthy = by_status.remove_entry(&Status::Healthy);
    healthy.into_iter().chain(by_status).map(|(status, number)| format!("{number} {}", phrase(status))).collect()
}

/// Returns a status as the end of a sentence that starts with the number of DaemonSets.
fn phrase(status: Status) -> &'static str {
    match status {
        Status::Blocked => "blocked",
        Status::NodesDown => "with nodes down",
        Status::Paused => "paused",
        Status::Degraded => "degraded",
        Status::NotObserved => "not observed",
        Status::Deleting => "being deleted",
        Status::Unknown => "unknown",
        Status::NoNodes => "with no eligible node",
        Status::Progressing => "progressing",
        Status::Healthy => "healthy",
    }
}

fn columns<'a>(shown: ListParts, has_namespaces: bool, view: &'a View) -> Vec<Column<'a, Row<'a>>> {
    let mut columns = Vec::new();
    if has_namespaces {
        columns.push(Column::text("NAMESPACE", |(row, _): &Row<'_>| view.show(&row.namespace)));
    }
    columns.push(Column::text("NAME", |(row, _): &Row<'_>| view.show(&row.name)).shrinkable());
    let is_narrow = !shown.wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_ALL_COLUMNS);
    if is_narrow {
        columns.push(Column::text("AVAILABLE", |(row, _): &Row<'_>| available(row)));
    } else {
        columns.extend([
            Column::number("DESIRED", |(row, _): &Row<'_>| row.counts.eligible),
            Column::number("READY", |(row, _): &Row<'_>| row.counts.ready).droppable(1),
            Column::number("UPDATED", |(row, _): &Row<'_>| row.counts.updated).droppable(2),
            Column::number("AVAILABLE", |(row, _): &Row<'_>| row.counts.available),
        ]);
    }
    if shown.wide {
        columns.extend([
            Column::number("MISSING", |(row, _): &Row<'_>| row.counts.missing),
            Column::number("MISSCHEDULED", |(row, _): &Row<'_>| row.counts.misscheduled),
            Column::text("STRATEGY", |(row, _): &Row<'_>| view.show(&row.strategy.to_string())),
            Column::text("AGE", |(row, now): &Row<'_>| age(row.created_at, *now)),
            Column::text("IMAGES", |(row, _): &Row<'_>| or_none(view.show(&row.images.join(",")))),
            Column::text("NODE-SELECTOR", |(row, _): &Row<'_>| or_none(view.show(&row.node_selector.join(",")))),
        ]);
    }
    let status = Column::text("STATUS", |(row, _): &Row<'_>| status(row.status));
    columns.push(status.merged_into(Column::codes("STATUS", |(row, now): &Row<'_>, width| {
        or_merged(row.status, |width| problem(row, Some(*now), width), width)
    })));
    columns.push(Column::codes("PROBLEM", |(row, now): &Row<'_>, width| problem(row, Some(*now), width)));
    columns
}

/// Returns a status in its style.
pub(super) fn status(status: Status) -> String {
    styled(status)(status.name().to_owned())
}

/// Returns the style of a status.
pub(super) fn styled(status: Status) -> fn(String) -> String {
    match status {
        Status::Blocked | Status::Degraded | Status::NodesDown | Status::NotObserved => style::problem,
        Status::Deleting | Status::Unknown | Status::NoNodes | Status::Progressing | Status::Paused => {
            style::in_progress
        }
        Status::Healthy => style::healthy,
    }
}

/// Returns a DaemonSet's problem, with ages unless `now` is `None`.
pub(super) fn problem(row: &ListRow, now: Option<Timestamp>, width: usize) -> String {
    let removed = row.removed_nodes.as_ref().map(in_short);
    let lost = row.lost_pods.as_ref().map(|lost| lost_in_short(lost, now));
    let nodes: usize = row.restarting.iter().map(|problem| problem.count).sum();
    let restarting = (nodes > 0).then(|| restarting_in_short(nodes));
    let held = row.hold.as_ref().map(held_in_short);
    let beside = [&removed, &held, &restarting, &lost];
    let taken: usize = beside.into_iter().flatten().map(|text| text.len() + 2).sum();
    let trouble = Some(trouble(row, width.saturating_sub(taken.max(2)))).filter(|trouble| !trouble.is_empty());
    // The cause comes first, and last what may be intended: `status` of several has the same order.
    [removed, trouble, held, restarting, lost].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn trouble(row: &ListRow, width: usize) -> String {
    match row.status {
        Status::Paused if row.hold.is_some() && row.counts.outdated == Some(0) => String::new(),
        _ if !row.problems.is_empty() => some_codes(&row.problems, width),
        _ if row.removed_nodes.is_some() => String::new(),
        Status::NodesDown => {
            let down = row.not_eligible.iter().filter(|reason| reason.code.is_node_down());
            some_codes(&down.cloned().collect::<Vec<_>>(), width)
        }
        Status::NoNodes => Some(some_codes(&row.not_eligible, width))
            .filter(|text| !text.is_empty() && text.len() <= width)
            .unwrap_or_else(|| "no eligible node".to_owned()),
        Status::Progressing | Status::Paused | Status::Blocked => {
            row.counts.outdated.map(|old| format!("{} to update", count(old, "node"))).unwrap_or_default()
        }
        Status::Unknown if !row.counts.from_status && row.counts.updated.is_none() => "revisions not read".to_owned(),
        Status::Unknown => "nodes or pods not read".to_owned(),
        _ => String::new(),
    }
}

/// Writes an empty cell as kubectl does.
fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// Formats an age as kubectl does.
pub(super) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "<unknown>".to_owned(), |at| time_since(at, now))
}
