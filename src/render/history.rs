//! The revisions of one DaemonSet, newest first, and differences between two templates.

use super::coverage::incomplete;
use super::list::age;
use super::page::Page;
use super::table::{self, Column, NO_BREAK_SPACE};
use super::text::{count, cut};
use super::view::View;
use super::{changes, style};
use crate::report::history::{DiffSide, HistoryReport, RevisionDiff, RevisionRow, TemplateSource};

/// The maximum width of a change-cause, so that the changes fit.
const WIDEST_CAUSE: usize = 30;

/// The minimum width of a terminal for a column of change-causes.
const LEAST_WIDTH_FOR_CAUSES: usize = 120;

/// Writes the summary of one DaemonSet, and a row per revision.
pub fn one(report: &HistoryReport, wide: bool, page: &mut Page<'_>) {
    page.paragraph(&answer(report), style::summary);
    if !report.revisions.is_empty() {
        writeln!(page);
        table(report, wide, page);
    }
    for note in &report.notes {
        page.paragraph(note, style::in_progress);
    }
    for skipped in &report.skipped {
        let text = format!("not counted: {} ({})", skipped.name, skipped.reason);
        page.paragraph(&text, style::context);
    }
    incomplete(&report.incomplete, page)
}

fn answer(report: &HistoryReport) -> String {
    let name = report.daemon_set.title();
    if report.revisions.is_empty() && !report.incomplete.is_empty() {
        return format!("{name}: revisions unknown");
    }
    let Some(current) = report.revisions.iter().find(|row| row.current) else {
        return format!("{name}: {}", count(report.revisions.len(), "revision"));
    };
    let text = format!("{name}: revision {} is current", current.revision);
    let pods = |row: &RevisionRow| row.pods.map_or(0, |pods| pods.total);
    let all: usize = report.revisions.iter().map(pods).chain(report.other_pods).sum();
    if current.pods.is_none() {
        return text;
    }
    let others = report.revisions.iter().filter(|row| !row.current && pods(row) > 0);
    let others = others.map(|row| {
        // This happens after an upgrade of the control plane; its pods need no update.
        let same = if current.same_as == Some(row.revision) { ", the same template" } else { "" };
        format!("{} of revision {}{same}", pods(row), row.revision)
    });
    let others: Vec<_> = others.collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
    format!("{text}, on {} of {}{others}", pods(current), count(all, "pod"))
}

fn table(report: &HistoryReport, wide: bool, page: &mut Page<'_>) {
    let view = page.view;
    let rows = &report.revisions;
    let mut columns = vec![
        Column::text("REVISION", |row: &RevisionRow| match row.current {
            true => format!("{}  {}", row.revision, style::healthy("current")),
            false => row.revision.to_string(),
        }),
        Column::text("PODS", |row: &RevisionRow| match row.pods {
            None => "?".to_owned(),
            Some(pods) if pods.total == 0 => "0".to_owned(),
            Some(pods) if pods.ready < pods.total => style::in_progress(format!("{}/{}", pods.ready, pods.total)),
            Some(pods) => format!("{}/{}", pods.ready, pods.total),
        }),
    ];
    let created = Column::text("CREATED", |row: &RevisionRow| age(row.created_at, report.now));
    if rows.iter().any(|row| row.rolled_out_at.is_some() || row.rolled_out_again) {
        // Most revisions are rolled out once, when they are created.
        columns.push(created.droppable(1));
        columns.push(Column::text("ROLLED OUT", |row: &RevisionRow| age(row.rolled_out_at, report.now)));
    } else {
        columns.push(created);
    }
    if wide {
        columns.push(Column::text("REVISION-NAME", |row: &RevisionRow| view.show(&row.name)));
        columns.push(Column::text("IMAGES", |row: &RevisionRow| view.show(&row.images.join(","))));
    }
    let has_cause = rows.iter().any(|row| row.change_cause.is_some());
    // On a narrow terminal the cause is below the changes, so that neither is truncated.
    let cause_beneath = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_CAUSES);
    if has_cause && !cause_beneath {
        columns.push(Column::text("CHANGE-CAUSE", move |row: &RevisionRow| {
            let cause = view.show(row.change_cause.as_deref().unwrap_or("<none>"));
            if wide || view.limit.is_none() { cause } else { cut(&cause, WIDEST_CAUSE, view.ascii) }
        }));
    }
    columns.push(Column::prose("CHANGED", move |row: &RevisionRow| {
        let is_oldest = report.revisions.last().is_some_and(|oldest| oldest.name == row.name);
        let changed = changed(row, is_oldest, view);
        match &row.change_cause {
            Some(cause) if cause_beneath => format!("{changed}\n\"{}\"", view.show(cause)),
            _ => changed,
        }
    }));
    table::write(&columns, rows, page)
}

fn changed(row: &RevisionRow, is_oldest: bool, view: &View) -> String {
    match (&row.problem, row.same_as) {
        (Some(problem), _) => view.show(&format!("unreadable: {problem}")),
        (None, _) if !row.summary.is_empty() => {
            let whole = |fragment: &String| view.show(fragment).replace(' ', &NO_BREAK_SPACE.to_string());
            let summary = row.summary.iter().map(whole).collect::<Vec<_>>().join(", ");
            match row.rolled_back_from {
                Some(left) => format!("rolled back from {left}: {summary}"),
                None if row.rolled_out_again => format!("rolled out again: {summary}"),
                None => summary,
            }
        }
        (None, Some(same)) => format!("equivalent to revision {same}"),
        (None, None) if is_oldest => "(oldest retained)".to_owned(),
        (None, None) => "(nothing to compare with)".to_owned(),
    }
}

/// Writes the differences between two templates.
pub fn diff(report: &RevisionDiff, page: &mut Page<'_>) {
    let view = page.view;
    let RevisionDiff { daemon_set, from, to, changes, .. } = report;
    let name = daemon_set.title();
    let sides = format!("{name}: {} compared with {}", label(to), label(from));
    if changes.is_empty() {
        return writeln!(page, "{}", style::summary(view.show(&format!("{sides}: no differences in meaning"))));
    }
    writeln!(page, "{}", style::summary(view.show(&sides)));
    writeln!(page);
    changes::write(changes, page)
}

/// Returns a template's name for messages, such as `revision 3 (current)`.
pub fn label(side: &DiffSide) -> String {
    match (side.source, side.revision) {
        (TemplateSource::Live, Some(number)) => format!("the live template (revision {number})"),
        (TemplateSource::Live, None) => "the live template".to_owned(),
        (TemplateSource::Revision, number) => {
            format!("revision {}{}", number.unwrap_or_default(), if side.current { " (current)" } else { "" })
        }
        (TemplateSource::Manifest, _) => match side.file.as_deref() {
            Some("-") | None => "standard input".to_owned(),
            Some(file) => file.to_owned(),
        },
    }
}
