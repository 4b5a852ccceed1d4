//! The list of DaemonSets.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::coverage::{incomplete, troubles};
use super::incident::incidents;
use super::overview::named;
use super::page::Page;
use super::removed_nodes::in_short;
use super::status::held_in_short;
use super::style;
use super::table::{self, Column, Heading};
use super::text::{count, or_unknown, time_since};
use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::list::{FleetStatus, ListReport, ListRow};

/// The maximum number of rows on a terminal before others are left out.
pub(super) const MOST_ROWS: usize = 18;

/// The minimum width for separate columns of desired, ready, updated and available pods.
const LEAST_WIDTH_FOR_ALL_COLUMNS: usize = 110;

/// The optional parts of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListParts {
    /// The namespace.
    pub namespace: bool,
    /// Strategies, ages, images and node selectors.
    pub wide: bool,
    /// Healthy DaemonSets too, however many there are.
    pub all: bool,
    /// The summary and the heading.
    pub heading: Heading,
}

/// Writes a summary, and a row per DaemonSet. On a terminal, only the first few healthy ones are shown.
pub fn table(report: &ListReport, shown: ListParts, page: &mut Page<'_>) {
    let view = page.view;
    let is_healthy = |row: &&ListRow| row.status == FleetStatus::Healthy;
    let others = report.daemon_sets.iter().filter(|row| !is_healthy(row)).count();
    let is_cut = view.limit.is_some() && !shown.all && !shown.wide;
    let mut healthy_left = if is_cut { MOST_ROWS.saturating_sub(others) } else { usize::MAX };
    let rows: Vec<&ListRow> = report
        .daemon_sets
        .iter()
        .filter(|row| {
            let is_shown = !is_healthy(row) || healthy_left > 0;
            healthy_left -= usize::from(is_healthy(row) && is_shown);
            is_shown
        })
        .collect();
    if shown.heading == Heading::Shown && !report.daemon_sets.is_empty() {
        page.paragraph(&summary(report), style::answer);
        incidents(&report.incidents, report.now, page);
        writeln!(page);
    }
    if !rows.is_empty() {
        table::write_with(shown.heading, &columns(report, shown, view), &rows, page);
    }
    let hidden = report.daemon_sets.len() - rows.len();
    if hidden > 0 {
        let text = format!("{} not shown (--all)", count(hidden, "healthy DaemonSet"));
        writeln!(page, "{}", style::context(text));
    }
    let stale: Vec<String> = report
        .daemon_sets
        .iter()
        .filter(|row| row.status_agrees == Some(false))
        .map(|row| format!("{}/{}", row.namespace, row.name))
        .collect();
    if shown.heading == Heading::Shown {
        named("have a stale status", &stale, page);
    }
    incomplete(&report.incomplete, page)
}

/// Counts the DaemonSets by status.
fn summary(report: &ListReport) -> String {
    let nodes = report.nodes_total.map(|nodes| format!(" on {}", count(nodes, "node"))).unwrap_or_default();
    let not_ready = match report.nodes_not_ready {
        None | Some(0) => String::new(),
        Some(number) => format!(" ({number} NotReady)"),
    };
    let mut by_status: BTreeMap<FleetStatus, usize> = BTreeMap::new();
    for row in &report.daemon_sets {
        *by_status.entry(row.status).or_default() += 1;
    }
    let healthy = by_status.remove_entry(&FleetStatus::Healthy);
    let words = healthy.into_iter().chain(by_status).map(|(status, number)| match status {
        FleetStatus::Blocked => format!("{number} blocked"),
        FleetStatus::NodesDown => format!("{number} with nodes down"),
        FleetStatus::Paused => format!("{number} paused"),
        FleetStatus::Degraded => format!("{number} degraded"),
        FleetStatus::NotObserved => format!("{number} not observed"),
        FleetStatus::Deleting => format!("{number} being deleted"),
        FleetStatus::Unknown => format!("{number} unknown"),
        FleetStatus::NoNodes => format!("{number} with no eligible node"),
        FleetStatus::Progressing => format!("{number} progressing"),
        FleetStatus::Healthy => format!("{number} healthy"),
    });
    let words: Vec<String> = words.collect();
    format!("{}{nodes}{not_ready}: {}", count(report.daemon_sets.len(), "DaemonSet"), words.join(", "))
}

fn columns<'a>(report: &'a ListReport, shown: ListParts, view: &'a View) -> Vec<Column<'a, &'a ListRow>> {
    let mut columns = Vec::new();
    if shown.namespace {
        columns.push(Column::text("NAMESPACE", |row: &&ListRow| view.show(&row.namespace)));
    }
    columns.push(Column::text("NAME", |row: &&ListRow| view.show(&row.name)).shrinkable());
    let is_narrow = !shown.wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_ALL_COLUMNS);
    if is_narrow {
        columns.push(Column::text("AVAILABLE", |row: &&ListRow| {
            format!("{}/{}", or_unknown(row.counts.available), or_unknown(row.counts.eligible))
        }));
    } else {
        columns.extend([
            Column::number("DESIRED", |row: &&ListRow| row.counts.eligible),
            Column::number("READY", |row: &&ListRow| row.counts.ready).droppable(1),
            Column::number("UPDATED", |row: &&ListRow| row.counts.updated).droppable(2),
            Column::number("AVAILABLE", |row: &&ListRow| row.counts.available),
        ]);
    }
    if shown.wide {
        columns.extend([
            Column::number("MISSING", |row: &&ListRow| row.counts.missing),
            Column::number("MISSCHEDULED", |row: &&ListRow| row.counts.misscheduled),
            Column::text("STRATEGY", |row: &&ListRow| view.show(&row.strategy.to_string())),
            Column::text("AGE", |row: &&ListRow| age(row.created_at, report.now)),
            Column::text("IMAGES", |row: &&ListRow| or_none(view.show(&row.images.join(",")))),
            Column::text("NODE-SELECTOR", |row: &&ListRow| or_none(view.show(&row.node_selector.join(",")))),
        ]);
    }
    columns.push(Column::text("STATUS", |row: &&ListRow| status(row.status)));
    columns.push(Column::fitted("PROBLEM", |row: &&ListRow, width| problem(row, width)));
    columns
}

/// Returns a status in its style.
pub(super) fn status(status: FleetStatus) -> String {
    let word = format!("{status:?}");
    match status {
        FleetStatus::Blocked | FleetStatus::Degraded | FleetStatus::NodesDown | FleetStatus::NotObserved => {
            style::trouble(word)
        }
        FleetStatus::Deleting | FleetStatus::Unknown | FleetStatus::NoNodes => style::moving(word),
        FleetStatus::Progressing | FleetStatus::Paused => style::moving(word),
        FleetStatus::Healthy => style::well(word),
    }
}

pub(super) fn problem(row: &ListRow, width: usize) -> String {
    let removed = row.removed_nodes.as_ref().map(in_short);
    let beside: Vec<String> = removed.into_iter().chain(row.hold.as_ref().map(held_in_short)).collect();
    let beside = beside.join(", ");
    match trouble(row, width.saturating_sub(beside.len() + 2)) {
        trouble if trouble.is_empty() => beside,
        trouble if beside.is_empty() => trouble,
        trouble if row.removed_nodes.is_some() => format!("{beside}, {trouble}"),
        trouble => format!("{trouble}, {beside}"),
    }
}

fn trouble(row: &ListRow, width: usize) -> String {
    match row.status {
        FleetStatus::Paused if row.hold.is_some() && row.counts.outdated == Some(0) => String::new(),
        _ if !row.troubles.is_empty() => troubles(&row.troubles, width),
        _ if row.removed_nodes.is_some() => String::new(),
        FleetStatus::NoNodes => Some(troubles(&row.not_eligible_reasons, width))
            .filter(|text| !text.is_empty() && text.len() <= width)
            .unwrap_or_else(|| "no eligible node".to_owned()),
        FleetStatus::Progressing | FleetStatus::Paused | FleetStatus::Blocked => {
            row.counts.outdated.map(|old| format!("{} to update", count(old, "node"))).unwrap_or_default()
        }
        FleetStatus::Unknown => "nodes or pods not read".to_owned(),
        _ => String::new(),
    }
}

/// Writes an empty cell as kubectl does.
fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// Writes the names, as `kubectl get ds -o name` does.
pub fn names(report: &ListReport, page: &mut Page<'_>) {
    report.daemon_sets.iter().for_each(|row| writeln!(page, "daemonset.apps/{}", sanitize(&row.name)))
}

/// Formats an age as kubectl does.
pub(super) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "<unknown>".to_owned(), |at| time_since(at, now))
}
