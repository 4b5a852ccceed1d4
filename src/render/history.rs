//! Revisions: a row each, the newest first; and how two templates differ.

use std::io::{self, Write};

use jiff::Timestamp;

use super::changes;
use super::coverage::incomplete;
use super::list::age;
use super::style;
use super::table::{self, Column};
use super::text::{count, cut, sanitize};
use super::view::View;
use crate::report::history::{DiffSide, HistoryReport, RevisionDiff, RevisionRow};

/// The columns that a change-cause may take up, so that there is room for what changed.
const WIDEST_CAUSE: usize = 30;

/// Writes the answer in a sentence, and a row per revision.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn table(report: &HistoryReport, wide: bool, view: &View, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style::answer(view.show(&answer(report))))?;
    if !report.revisions.is_empty() {
        writeln!(out)?;
        rows(report, wide, view, out)?;
    }
    for note in &report.notes {
        writeln!(out, "{}", style::moving(view.show(note)))?;
    }
    for skipped in &report.skipped {
        let text = format!("not counted: {} ({})", skipped.name, skipped.reason);
        writeln!(out, "{}", style::context(view.show(&text)))?;
    }
    incomplete(&report.incomplete, view, out)
}

fn answer(report: &HistoryReport) -> String {
    let name = format!("{}/{}", report.daemon_set.namespace, report.daemon_set.short());
    let Some(current) = report.revisions.iter().find(|row| row.current) else {
        return format!("{name}: {}", count(report.revisions.len(), "revision"));
    };
    let text = format!("{name}: revision {} is current", current.revision);
    let pods = |row: &RevisionRow| row.pods.map_or(0, |pods| pods.total);
    let all: usize = report.revisions.iter().map(pods).sum();
    if current.pods.is_none() {
        return text;
    }
    let others = report.revisions.iter().filter(|row| !row.current && pods(row) > 0);
    let others: Vec<_> = others.map(|row| format!("{} of revision {}", pods(row), row.revision)).collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    format!("{text}, on {} of {}{others}", pods(current), count(all, "pod"))
}

fn rows(report: &HistoryReport, wide: bool, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let now = report.now.parse::<Timestamp>().ok();
    let oldest = report.revisions.last().map(|row| row.revision);
    let mut columns = vec![
        Column::text("REVISION", |row: &RevisionRow| {
            if row.current { format!("{}  {}", row.revision, style::well("current")) } else { row.revision.to_string() }
        }),
        Column::text("PODS", |row: &RevisionRow| match row.pods {
            None => "?".to_owned(),
            Some(pods) if pods.total == 0 => "0".to_owned(),
            Some(pods) if pods.ready < pods.total => style::moving(format!("{}/{}", pods.ready, pods.total)),
            Some(pods) => format!("{}/{}", pods.ready, pods.total),
        }),
        Column::text("MADE", |row: &RevisionRow| age(&row.created_at, now)),
        Column::text("ROLLED OUT", |row: &RevisionRow| age(&row.rolled_out_at, now)),
    ];
    if wide {
        columns.push(Column::text("NAME", |row: &RevisionRow| view.show(&row.name)));
        columns.push(Column::text("IMAGES", |row: &RevisionRow| view.show(&row.images.join(","))));
    }
    if report.revisions.iter().any(|row| row.change_cause.is_some()) {
        columns.push(Column::text("CHANGE-CAUSE", |row: &RevisionRow| {
            let cause = view.show(row.change_cause.as_deref().unwrap_or_default());
            if wide || view.limit.is_none() { cause } else { cut(&cause, WIDEST_CAUSE, view.ascii) }
        }));
    }
    columns.push(Column::sentence("CHANGED", style::plain, move |row: &RevisionRow| {
        view.show(&changed(row, Some(row.revision) == oldest))
    }));
    table::write(&columns, &report.revisions, view, out)
}

fn changed(row: &RevisionRow, is_oldest: bool) -> String {
    match (&row.problem, row.same_as) {
        (Some(problem), _) => format!("unreadable: {problem}"),
        (None, _) if !row.summary.is_empty() => row.summary.join(", "),
        (None, Some(same)) => format!("nothing: revision {same} in other bytes"),
        (None, None) if is_oldest => "(oldest kept)".to_owned(),
        (None, None) => "(nothing to compare with)".to_owned(),
    }
}

/// Writes the names of the revisions, as `kubectl get controllerrevisions -o name` does.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn names(report: &HistoryReport, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = report.revisions.iter();
    rows.try_for_each(|row| writeln!(out, "controllerrevision.apps/{}", sanitize(&row.name)))
}

/// Writes how two templates differ, a line per difference.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn diff(report: &RevisionDiff, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let RevisionDiff { daemon_set, from, to, changes, identical, .. } = report;
    let name = format!("{}/{}", daemon_set.namespace, daemon_set.short());
    let sides = format!("{name}: {} compared with {}", label(to), label(from));
    if changes.is_empty() {
        let how = if *identical { "they are the same" } else { "they mean the same, and differ in spelling alone" };
        return writeln!(out, "{}", style::answer(view.show(&format!("{sides}: {how}"))));
    }
    writeln!(out, "{}", style::answer(view.show(&sides)))?;
    writeln!(out)?;
    changes::write(changes, view, out)
}

fn label(side: &DiffSide) -> String {
    match side.revision {
        Some(number) if side.label == "the live template" => format!("the live template (revision {number})"),
        Some(_) if side.current => format!("{} (current)", side.label),
        _ => side.label.clone(),
    }
}
