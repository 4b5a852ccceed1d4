//! Changes in the cluster, the latest first.

use jiff::Timestamp;

use super::clusters::{InCluster, Reports, name_in};
use super::list::{MOST_ROWS, age};
use super::page::Page;
use super::style;
use super::table::{Column, Heading};
use super::text::{count, some_of, time_since};
use crate::report::fix::Origin;
use crate::report::history::DaemonSetName;
use crate::report::recent_changes::{ChangeOf, ChangedKind, ChangesReport, ClusterChange, RolloutNumbers};

/// The minimum width of a terminal for a column with the details.
const LEAST_WIDTH_FOR_DETAILS: usize = 110;

/// The width of the details on a separate line.
const LINE: usize = 160;

/// The maximum width of the names of DaemonSets with rollouts of unknown time.
const MOST_UNDATED: usize = 160;

/// The notes on what the API does not keep; the first one explains [`ChangeOf::Written`].
const NOT_KEPT: [&str; 2] = [
    "The API does not record which fields a write changed: \"may have changed\" lists those that the field manager owns.",
    "The API does not record when labels, taints and cordons were removed, or earlier writes by the same field manager.",
];

/// The note on what a dump may lack without saying so.
const NOT_IN_DUMP: &str = "ResourceQuotas, LimitRanges and namespaces are known only if the dump has them";

/// A row, and the time from which its age is counted.
type Row<'a> = (&'a ClusterChange, Timestamp);

/// Writes a summary, and a row per change. On a terminal, only the latest ones are shown unless all are requested.
pub(crate) fn recent_changes<'a>(
    reports: impl Into<Reports<'a, ChangesReport>>,
    wide: bool,
    all: bool,
    page: &mut Page<'_>,
) {
    let (reports, view) = (&reports.into(), page.view);
    let mut rows = reports.rows(|report| report.changes.iter().map(|row| (row, report.now)));
    // The sort is stable: within a cluster, the order is that of the report.
    rows.sort_by_key(|(_, (row, now))| now.duration_since(row.at));
    page.paragraph(&reports.headline(|place| summary(reports, &rows, place)), style::summary);
    let is_narrow = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_DETAILS);
    let most = match view.limit {
        Some(_) if !wide && !all => MOST_ROWS / if is_narrow { 2 } else { 1 },
        _ => usize::MAX,
    };
    let hidden = rows.len().saturating_sub(most);
    rows.truncate(most);
    if reports.are_several() || !rows.is_empty() {
        writeln!(page);
    }
    let mut columns = vec![
        Column::text("AGE", |(row, now): &Row<'_>| age(Some(row.at), *now)),
        Column::text("OBJECT", |(row, _): &Row<'_>| view.show(&object(row))).shrinkable(),
    ];
    if rows.iter().any(|(_, (row, _))| row.by.is_some()) {
        let by = |(row, _): &Row<'_>| view.show(row.by.as_deref().unwrap_or_default());
        columns.push(Column::text("BY", by).droppable(1));
    }
    let changed = |(row, _): &Row<'_>, width| view.show(&some_of(&changed(row), width));
    if is_narrow {
        reports.table(Heading::Shown, columns, rows, changed, page);
    } else {
        columns.push(Column::fitted("CHANGED", changed));
        reports.table(Heading::Shown, columns, rows, |_, _| String::new(), page);
    }
    page.more(hidden, "change", "--all");
    for cluster in &reports.of {
        if let Some(latest) = &cluster.report.elsewhere {
            let (age, object) = (time_since(latest.at, cluster.report.now), object(latest));
            let text = format!(
                "Other namespaces have changes, too; the latest known one of a DaemonSet {age} ago: {object} (-A shows all)"
            );
            page.paragraph(&cluster.sentence(&text), style::plain);
        }
    }
    writeln!(page);
    let mut all = reports.of.iter().flat_map(|cluster| &cluster.report.changes);
    let is_unclear = all.any(|row| matches!(row.what, ChangeOf::Written));
    NOT_KEPT.iter().skip(usize::from(!is_unclear)).for_each(|note| page.paragraph(note, style::context));
    for cluster in &reports.of {
        for text in not_known(cluster.report) {
            page.paragraph(&cluster.sentence(&text), style::plain);
        }
    }
    let mut origins = reports.of.iter().filter_map(|cluster| cluster.origin).chain(view.origin);
    if origins.any(|origin| matches!(origin, Origin::Dump(_) | Origin::Input(_))) {
        page.paragraph(NOT_IN_DUMP, style::plain);
    }
    reports.incomplete(|report| &report.incomplete, page)
}

/// Returns for which objects not all changes are known.
fn not_known(report: &ChangesReport) -> Vec<String> {
    let mut texts = Vec::new();
    if !report.rollouts_without_time.is_empty() {
        let titles: Vec<String> = report.rollouts_without_time.iter().map(DaemonSetName::title).collect();
        let titles = some_of(&titles, MOST_UNDATED);
        texts.push(format!("When some revisions were rolled out is unknown (`kubectl ds history NAME`): {titles}"));
    }
    let without =
        [(report.nodes_without_managed_fields, "node"), (report.others_without_managed_fields, "other object")];
    let without: Vec<String> = without.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
    if !without.is_empty() {
        let without = without.join(" and ");
        texts.push(format!("No managed fields on {without}: what was written there, and when, is unknown"));
    }
    texts
}

/// Writes a line per change with its time, the latest last.
pub fn lines(report: &ChangesReport, page: &mut Page<'_>) {
    for change in report.changes.iter().rev() {
        let text = in_a_line(change, LINE);
        writeln!(page, "{} {}", change.at, page.view.show(&text));
    }
}

/// Writes a line per change with its age.
pub(super) fn with_ages(changes: &[ClusterChange], now: Timestamp, page: &mut Page<'_>) {
    for change in changes {
        let (age, width) = (time_since(change.at, now), page.view.wrap_width().min(LINE));
        page.hanging([&format!("  {age:<5} "), "        "], &in_a_line(change, width), style::plain);
    }
}

/// Returns the object, what was changed and by whom, with only as many names as fit.
fn in_a_line(change: &ClusterChange, width: usize) -> String {
    let by = change.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    format!("{}: {}{by}", object(change), some_of(&changed(change), width))
}

fn summary(reports: &Reports<'_, ChangesReport>, rows: &[InCluster<'_, Row<'_>>], place: &str) -> String {
    let since = reports.of.first().and_then(|cluster| Some((cluster.report.since?, cluster.report.now)));
    let since = since.map(|(since, now)| format!(" in the last {}", time_since(since, now))).unwrap_or_default();
    match rows.first() {
        None => format!("No known changes{place}{since}"),
        Some((context, (latest, now))) => {
            let changes = count(rows.len(), "known change");
            let object = name_in(context, object(latest));
            format!("{changes}{place}{since}; the latest {} ago: {object}", time_since(latest.at, *now))
        }
    }
}

/// Returns the changed object: its name, or the number of objects.
fn object(change: &ClusterChange) -> String {
    match (change.kind, change.names.as_slice()) {
        (ChangedKind::Node, [name]) => format!("node {name}"),
        (ChangedKind::Node, names) => count(names.len(), "node"),
        (kind, names) => {
            let kind = match kind {
                ChangedKind::DaemonSet => String::new(),
                kind => format!("{} ", kind.name().to_lowercase()),
            };
            let namespace = change.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            format!("{kind}{namespace}{}", names.join(", "))
        }
    }
}

/// Returns what happened, in fragments.
fn changed(change: &ClusterChange) -> Vec<String> {
    let of = |verb: &str, separator: &str| format!("{verb}{}", change.details.join(separator));
    let mut changed = match change.what {
        ChangeOf::Created => vec!["created".to_owned()],
        ChangeOf::Deleted => vec!["deleted".to_owned()],
        ChangeOf::Terminating => vec!["deletion requested, not finished".to_owned()],
        ChangeOf::Held => vec![match change.details.as_slice() {
            [] => "paused by kubectl ds".to_owned(),
            kept => format!("partitioned by kubectl ds, keeping {}", kept.join(", ")),
        }],
        ChangeOf::Cordoned => vec!["cordoned".to_owned()],
        ChangeOf::Uncordoned => vec!["uncordoned".to_owned()],
        ChangeOf::Rebooted => vec!["rebooted".to_owned()],
        ChangeOf::Untainted => vec![of("taint removed: ", ", ")],
        ChangeOf::RolledOut => rolled_out(change),
        ChangeOf::Tainted => vec![of("taint added or renewed: ", ", ")],
        ChangeOf::Written => vec![of("may have changed ", " or ")],
    };
    if change.names.len() > 1 {
        changed[0].push_str(&format!(": {}", change.names[0]));
        changed.extend(change.names[1..].iter().cloned());
    }
    changed
}

/// Returns the revision that was rolled out, and what changed, in fragments.
fn rolled_out(change: &ClusterChange) -> Vec<String> {
    let RolloutNumbers { revision, compared_with, same_as } = change.rollout.unwrap_or_default();
    // There may have been others in between.
    let since = compared_with.filter(|before| before.checked_add(1) != revision);
    let numbers =
        [same_as.map(|same| format!("equivalent to revision {same}")), since.map(|since| format!("since {since}"))];
    let numbers: Vec<String> = numbers.into_iter().flatten().collect();
    let numbers = if numbers.is_empty() { String::new() } else { format!(" ({})", numbers.join(", ")) };
    let revision =
        revision.map(|revision| format!("revision {revision}")).unwrap_or_else(|| "a former revision".to_owned());
    match change.details.split_first() {
        None => vec![format!("{revision} rolled out{numbers}")],
        Some((first, others)) => {
            let first = format!("{revision}{numbers}: {first}");
            [first].into_iter().chain(others.iter().cloned()).collect()
        }
    }
}
