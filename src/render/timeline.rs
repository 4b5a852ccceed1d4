//! The rollouts of several DaemonSets, the latest first.

use super::coverage::incomplete;
use super::list::{MOST_ROWS, age, status};
use super::overview::named;
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::{count, or_unknown, some_of, time_since};
use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::fix::Fix;
use crate::report::history::{DaemonSetName, Subcommand};
use crate::report::timeline::{Rollout, RolloutProgress, TimelineReport};

/// The minimum width of a terminal for what a rollout changed beside the rest.
const LEAST_WIDTH_FOR_CHANGES: usize = 110;

/// Writes a summary, and a row per rollout. On a terminal, only the latest ones are shown unless all are asked for.
pub fn timeline(report: &TimelineReport, wide: bool, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    page.paragraph(&summary(report), style::answer);
    let is_narrow = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_CHANGES);
    let most = match view.limit {
        Some(_) if !wide && !all => MOST_ROWS / if is_narrow { 2 } else { 1 },
        _ => usize::MAX,
    };
    let rows: Vec<&Rollout> = report.rollouts.iter().take(most).collect();
    if let Some(latest) = rows.first() {
        writeln!(page);
        let mut columns = columns(report, wide, view);
        let changed = |row: &&Rollout, width| view.show(&some_of(&changed(row), width));
        if is_narrow {
            table::write_with_lines(&columns, &rows, changed, page);
        } else {
            columns.push(Column::fitted("CHANGED", changed));
            table::write(&columns, &rows, page);
        }
        let hidden = report.rollouts.len() - rows.len();
        if hidden > 0 {
            writeln!(page, "{}", style::context(format!("+{hidden} more (--all)")));
        }
        let details = latest.daemon_set.command(Subcommand::History);
        page.remark(&Fix::new("For all changes, and the pods of each revision", details), style::context);
    }
    let unknown: Vec<String> = report.unknown.iter().map(DaemonSetName::title).collect();
    named("have unknown revisions", &unknown, page);
    incomplete(&report.incomplete, page)
}

fn summary(report: &TimelineReport) -> String {
    let since = report.since.map(|since| format!(" in the last {}", time_since(since, report.now))).unwrap_or_default();
    let mut names: Vec<String> = report.rollouts.iter().map(|rollout| rollout.daemon_set.title()).collect();
    let Some(latest) = names.first().cloned().zip(report.rollouts.first()) else {
        let known = if report.unknown.is_empty() { "No" } else { "No known" };
        return format!("{known} rollouts of {}{since}", count(report.daemon_sets, "DaemonSet"));
    };
    let latest = match latest {
        (title, Rollout { began_at: Some(at), .. }) => {
            format!("the latest {} ago: {title}", time_since(*at, report.now))
        }
        (title, Rollout { pending: true, .. }) => format!("pending: {title}"),
        (title, _) => format!("the latest: {title}"),
    };
    names.sort_unstable();
    names.dedup();
    let (rollouts, daemon_sets) = (count(report.rollouts.len(), "rollout"), count(names.len(), "DaemonSet"));
    format!("{rollouts} of {daemon_sets}{since}; {latest}")
}

fn columns<'a>(report: &'a TimelineReport, wide: bool, view: &'a View) -> Vec<Column<'a, &'a Rollout>> {
    let mut columns = vec![
        Column::text("AGE", |row: &&Rollout| when(row, report, view)),
        Column::text("NAME", |row: &&Rollout| {
            let DaemonSetName { namespace, name, .. } = &row.daemon_set;
            let flavor = if row.daemon_set.is_advanced() { " (ads)" } else { "" };
            view.show(&format!("{namespace}/{name}{flavor}"))
        })
        .shrinkable(),
        Column::text("REVISION", |row: &&Rollout| match row.revision {
            Some(number) => number.to_string(),
            None if row.pending => "none yet".to_owned(),
            None => "?".to_owned(),
        }),
        Column::text("UPDATED", |row: &&Rollout| {
            let of = |progress: &RolloutProgress| {
                format!("{}/{}", or_unknown(progress.updated), or_unknown(progress.eligible))
            };
            row.progress.as_ref().map(of).unwrap_or_default()
        }),
        Column::text("STATUS", |row: &&Rollout| match &row.progress {
            Some(progress) => status(progress.status),
            None if row.replaced => style::context("replaced"),
            None => "unknown".to_owned(),
        }),
    ];
    if report.rollouts.iter().any(|row| row.by.is_some()) {
        let by = |row: &&Rollout| view.show(row.by.as_deref().unwrap_or_default());
        columns.push(Column::text("BY", by).droppable(1));
    }
    if wide {
        columns.extend([
            Column::text("REVISION-NAME", |row: &&Rollout| view.show(row.name.as_deref().unwrap_or("<none>"))),
            Column::text("CHANGE-CAUSE", |row: &&Rollout| view.show(row.change_cause.as_deref().unwrap_or("<none>"))),
        ]);
    }
    columns
}

fn when(row: &Rollout, report: &TimelineReport, view: &View) -> String {
    match row.not_before {
        Some(earliest) => view.show(&format!("≤{}", time_since(earliest, report.now))),
        None if row.pending => "pending".to_owned(),
        None => age(row.began_at, report.now),
    }
}

/// Returns what a rollout changed, in fragments.
fn changed(row: &Rollout) -> Vec<String> {
    if let Some(problem) = &row.problem {
        return vec![format!("unreadable: {problem}")];
    }
    let mut changed = row.summary.clone();
    if row.again {
        let before = row.same_as.map_or("before".to_owned(), |number| format!("revision {number}"));
        changed.push(format!("as {before}"));
    }
    match (row.others_between, row.compared_with) {
        (true, Some(number)) => changed.push(format!("since revision {number}")),
        (true, None) if !changed.is_empty() => changed.push("others in between".to_owned()),
        (true, None) => changed.push("(not known)".to_owned()),
        (false, None) if changed.is_empty() && (row.pending || row.revision == Some(1)) => {
            changed.push("(first revision)".to_owned());
        }
        (false, None) if changed.is_empty() => changed.push("(oldest retained)".to_owned()),
        (false, _) => {}
    }
    changed
}

/// Writes the names of the revisions, as `kubectl get controllerrevisions -o name` does, each once.
pub fn names(report: &TimelineReport, page: &mut Page<'_>) {
    let mut written: Vec<(&str, &str)> = Vec::new();
    for row in &report.rollouts {
        let Some(name) = &row.name else { continue };
        let revision = (row.daemon_set.namespace.as_str(), name.as_str());
        if !written.contains(&revision) {
            writeln!(page, "controllerrevision.apps/{}", sanitize(name));
            written.push(revision);
        }
    }
}
