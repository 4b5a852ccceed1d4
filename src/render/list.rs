//! The list of DaemonSets.

use std::io::{self, Write};

use jiff::Timestamp;

use super::coverage::{incomplete, troubles};
use super::style;
use super::table::{self, Column};
use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::age::{format_age, seconds_between};
use crate::report::list::{ListReport, ListRow};

/// The maximum number of healthy rows without `--all`.
const MOST_WITHOUT_TROUBLE: usize = 20;

/// The minimum width of a terminal for all default columns.
const WIDTH_OF_ALL_COLUMNS: usize = 120;

/// The optional columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The namespace.
    pub namespace: bool,
    /// Ages, images and node selectors, and all problems.
    pub wide: bool,
}

/// Writes a row per DaemonSet; of healthy ones only the first few, unless `all` is set.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn table(report: &ListReport, shown: Columns, all: bool, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let troubled = report.daemon_sets.iter().filter(|row| !row.troubles.is_empty()).count();
    let most = if all || shown.wide { usize::MAX } else { troubled + MOST_WITHOUT_TROUBLE.saturating_sub(troubled) };
    let rows = &report.daemon_sets[..report.daemon_sets.len().min(most)];
    let mut columns = Vec::new();
    if shown.namespace {
        columns.push(Column::text("NAMESPACE", |row: &ListRow| view.show(&row.namespace)));
    }
    columns.push(Column::text("NAME", |row: &ListRow| view.show(&row.name)));
    if !shown.wide && view.limit.is_some_and(|limit| limit < WIDTH_OF_ALL_COLUMNS) {
        // On a narrow terminal, problems are more important than their node counts.
        columns.push(Column::text("AVAILABLE", |row: &ListRow| {
            format!("{}/{}", number(row.counts.available), number(row.counts.eligible))
        }));
        columns.push(Column::styled_number("OUTDATED", style::moving, |row: &ListRow| row.counts.outdated));
    } else {
        columns.extend([
            Column::number("ELIGIBLE", |row: &ListRow| row.counts.eligible),
            Column::number("AVAILABLE", |row: &ListRow| row.counts.available),
            Column::styled_number("MISSING", style::trouble, |row: &ListRow| row.counts.missing),
            Column::styled_number("MISSCHEDULED", style::trouble, |row: &ListRow| row.counts.misscheduled),
            Column::styled_number("OUTDATED", style::moving, |row: &ListRow| row.counts.outdated),
            Column::text("STRATEGY", |row: &ListRow| view.show(&row.strategy)),
        ]);
    }
    if shown.wide {
        columns.push(Column::text("AGE", |row: &ListRow| age(row.created_at, report.now)));
        columns.push(Column::text("IMAGES", |row: &ListRow| view.show(&row.images.join(","))));
        columns.push(Column::text("NODE-SELECTOR", |row: &ListRow| view.show(&row.node_selector.join(","))));
    }
    let most_troubles = if shown.wide { usize::MAX } else { 2 };
    columns
        .push(Column::sentence("TROUBLE", style::trouble, move |row: &ListRow| troubles(&row.troubles, most_troubles)));
    if !rows.is_empty() {
        table::write(&columns, rows, view, out)?;
    }
    let hidden = report.daemon_sets.len() - rows.len();
    if hidden > 0 {
        writeln!(out, "{}", style::context(format!("+ {hidden} more without trouble (--all shows them)")))?;
    }
    incomplete(&report.incomplete, view, out)
}

fn number(number: Option<usize>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// Writes the names, as `kubectl get ds -o name` does.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn names(report: &ListReport, out: &mut dyn Write) -> io::Result<()> {
    report.daemon_sets.iter().try_for_each(|row| writeln!(out, "daemonset.apps/{}", sanitize(&row.name)))
}

/// Formats an age as kubectl does.
pub(super) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "<unknown>".to_owned(), |at| format_age(seconds_between(at, now)))
}
