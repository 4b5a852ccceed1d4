//! What has changed in the cluster, the latest first.

use jiff::Timestamp;

use super::coverage::incomplete;
use super::list::{MOST_ROWS, age};
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::{count, some_of, time_since};
use crate::report::fix::Origin;
use crate::report::recent_changes::{ChangeOf, ChangedKind, ChangesReport, ClusterChange};

/// The minimum width of a terminal for what was changed beside the rest.
const LEAST_WIDTH_FOR_DETAILS: usize = 110;

/// The width of what was changed on a line of its own.
const LINE: usize = 160;

/// What is not kept.
const NOT_KEPT: &str = "The API does not keep which fields a write changed: \"may have changed\" lists those that the field manager \
                        owns. It keeps no time of labels, taints and cordons that were removed, and of writes that \
                        the same manager has followed by another one.";

/// What a dump may lack without a sign of it.
const NOT_IN_DUMP: &str = "ResourceQuotas, LimitRanges and namespaces are known only if the dump has them";

/// Writes a summary, and a row per change. On a terminal, only the latest ones are shown unless all are asked for.
pub fn recent_changes(report: &ChangesReport, wide: bool, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    page.paragraph(&summary(report), style::answer);
    let is_narrow = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_DETAILS);
    let most = match view.limit {
        Some(_) if !wide && !all => MOST_ROWS / if is_narrow { 2 } else { 1 },
        _ => usize::MAX,
    };
    let rows: Vec<&ClusterChange> = report.changes.iter().take(most).collect();
    if !rows.is_empty() {
        writeln!(page);
        let mut columns = vec![
            Column::text("AGE", |row: &&ClusterChange| age(Some(row.at), report.now)),
            Column::text("OBJECT", |row: &&ClusterChange| view.show(&object(row))).shrinkable(),
        ];
        if rows.iter().any(|row| row.by.is_some()) {
            columns.push(
                Column::text("BY", |row: &&ClusterChange| view.show(row.by.as_deref().unwrap_or_default()))
                    .droppable(1),
            );
        }
        let changed = |row: &&ClusterChange, width| view.show(&some_of(&changed(row), width));
        if is_narrow {
            table::write_with_lines(&columns, &rows, changed, page);
        } else {
            columns.push(Column::fitted("CHANGED", changed));
            table::write(&columns, &rows, page);
        }
        let hidden = report.changes.len() - rows.len();
        if hidden > 0 {
            writeln!(page, "{}", style::context(format!("+{hidden} more (--all)")));
        }
    }
    writeln!(page);
    page.paragraph(NOT_KEPT, style::context);
    if let rollouts @ 1.. = report.rollouts_without_time {
        let text =
            format!("{} began at an unknown time: `history` without a name lists them", count(rollouts, "rollout"));
        page.paragraph(&text, style::plain);
    }
    let without =
        [(report.nodes_without_managed_fields, "node"), (report.others_without_managed_fields, "other object")];
    let without: Vec<String> = without.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
    if !without.is_empty() {
        let text =
            format!("No managed fields on {}: what was written there, and when, is unknown", without.join(" and "));
        page.paragraph(&text, style::plain);
    }
    if matches!(view.origin, Some(Origin::Dump(_) | Origin::Input(_))) {
        page.paragraph(NOT_IN_DUMP, style::plain);
    }
    incomplete(&report.incomplete, page)
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

/// Returns what was changed, how and by whom, with no more names than fit.
fn in_a_line(change: &ClusterChange, width: usize) -> String {
    let by = change.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    format!("{}: {}{by}", object(change), some_of(&changed(change), width))
}

fn summary(report: &ChangesReport) -> String {
    let since = report.since.map(|since| format!(" in the last {}", time_since(since, report.now))).unwrap_or_default();
    match report.changes.first() {
        None => format!("No known changes{since}"),
        Some(latest) => {
            let changes = count(report.changes.len(), "known change");
            format!("{changes}{since}; the latest {} ago: {}", time_since(latest.at, report.now), object(latest))
        }
    }
}

/// Returns what was changed: its name, or how many there are.
fn object(change: &ClusterChange) -> String {
    match (change.kind, change.names.as_slice()) {
        (ChangedKind::Node, [name]) => format!("node {name}"),
        (ChangedKind::Node, names) => count(names.len(), "node"),
        (kind, names) => {
            let kind = match kind {
                ChangedKind::DaemonSet | ChangedKind::Node => "",
                ChangedKind::LimitRange => "limitrange ",
                ChangedKind::ResourceQuota => "resourcequota ",
                ChangedKind::Namespace => "namespace ",
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
        ChangeOf::Cordoned => vec!["cordoned".to_owned()],
        ChangeOf::Uncordoned => vec!["uncordoned".to_owned()],
        ChangeOf::Untainted => vec![of("taint removed: ", ", ")],
        ChangeOf::RolledOut if change.details.is_empty() => vec!["rolled out".to_owned()],
        ChangeOf::RolledOut => change.details.clone(),
        ChangeOf::Tainted => vec![of("taint added or renewed: ", ", ")],
        ChangeOf::Written => vec![of("may have changed ", " or ")],
    };
    if change.names.len() > 1 {
        changed[0].push_str(&format!(": {}", change.names[0]));
        changed.extend(change.names[1..].iter().cloned());
    }
    changed
}
