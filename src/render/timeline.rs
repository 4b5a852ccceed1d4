//! The rollouts of several DaemonSets, the latest first.

use std::collections::BTreeSet;

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
use crate::report::timeline::{Rollout, RolloutProgress, TimelineReport, UnreadableRevision};

/// The minimum width of a terminal for what a rollout changed beside the rest.
const LEAST_WIDTH_FOR_CHANGES: usize = 110;

/// How many columns the names of pending rollouts may take.
const MOST_PENDING: usize = 60;

/// Writes a summary, and a row per rollout. On a terminal, only the latest ones are shown unless all are asked for, and none
/// that replaced no pods.
pub fn timeline(report: &TimelineReport, wide: bool, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    page.paragraph(&summary(report), style::answer);
    let is_narrow = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_CHANGES);
    let is_page = view.limit.is_some() && !wide && !all;
    let most = if is_page { MOST_ROWS / if is_narrow { 2 } else { 1 } } else { usize::MAX };
    let rows: Vec<&Rollout> = report.rollouts.iter().filter(|row| !(is_page && row.keeps_pods)).take(most).collect();
    if !rows.is_empty() {
        writeln!(page);
        let mut columns = columns(&rows, report, wide, is_narrow, view);
        if is_narrow {
            let beneath = |row: &&Rollout, width| view.show(&some_of(&[by(row), changed(row)].concat(), width));
            table::write_with_lines(&columns, &rows, beneath, page);
        } else {
            columns.push(Column::fitted("CHANGED", |row: &&Rollout, width| view.show(&some_of(&changed(row), width))));
            table::write(&columns, &rows, page);
        }
    }
    let hidden = report.rollouts.len() - rows.len();
    if hidden > 0 {
        let keeping = if is_page { report.rollouts.iter().filter(|row| row.keeps_pods).count() } else { 0 };
        let of = if keeping > 0 { format!(", {keeping} of them without restarting pods") } else { String::new() };
        writeln!(page, "{}", style::context(format!("+{hidden} more{of} (--all)")));
    }
    if let Some(latest) = rows.first() {
        let details = latest.daemon_set.command(Subcommand::History);
        page.remark(&Fix::new("For all changes, and the pods of each revision", details), style::context);
    }
    for UnreadableRevision { daemon_set, revision, problem, .. } in &report.unreadable {
        let title = daemon_set.title();
        let note =
            format!("Revision {revision} of {title} is unreadable, and not known to have been rolled out: {problem}");
        page.paragraph(&note, style::plain);
    }
    let unknown: Vec<String> = report.unknown.iter().map(DaemonSetName::title).collect();
    named("have unknown revisions", &unknown, page);
    incomplete(&report.incomplete, page)
}

fn summary(report: &TimelineReport) -> String {
    let time = report.since.map(|since| format!(" in the last {}", time_since(since, report.now))).unwrap_or_default();
    let replacing = report.rollouts.iter().filter(|row| !row.keeps_pods);
    let (pending, begun): (Vec<&Rollout>, Vec<&Rollout>) = replacing.partition(|row| row.pending);
    let is_since = |row: &&Rollout| {
        row.began_at.is_some() || report.since.is_none_or(|since| row.not_before.is_some_and(|from| from >= since))
    };
    let (certain, possible): (Vec<&Rollout>, Vec<&Rollout>) = begun.iter().partition(|row| is_since(row));
    let names: BTreeSet<String> = certain.iter().map(|row| row.daemon_set.title()).collect();
    let mut text = match certain.len() {
        0 => {
            let known = if report.unknown.is_empty() { "No" } else { "No known" };
            format!("{known} rollouts of {}{time}", count(report.daemon_sets, "DaemonSet"))
        }
        rollouts => format!("{} of {}{time}", count(rollouts, "rollout"), count(names.len(), "DaemonSet")),
    };
    if !possible.is_empty() {
        let more = if certain.is_empty() { "" } else { " more" };
        text += &format!("; {}{more} may have been", possible.len());
    }
    if !pending.is_empty() {
        let titles: Vec<String> = pending.iter().map(|row| row.daemon_set.title()).collect();
        text += &format!("; {} pending: {}", titles.len(), some_of(&titles, MOST_PENDING));
    }
    if let Some((at, row)) = begun.iter().filter_map(|row| Some((row.began_at?, row))).max_by_key(|(at, _)| *at) {
        let is_earlier = |row: &&Rollout| {
            row.began_at.is_some() || row.superseded || row.not_after.is_some_and(|latest| latest <= at)
        };
        let known = if begun.iter().all(is_earlier) { "" } else { " known" };
        text += &format!("; the latest{known} {} ago: {}", time_since(at, report.now), row.daemon_set.title());
    }
    text
}

fn columns<'a>(
    rows: &[&Rollout],
    report: &'a TimelineReport,
    wide: bool,
    is_narrow: bool,
    view: &'a View,
) -> Vec<Column<'a, &'a Rollout>> {
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
        Column::text("STATUS", |row: &&Rollout| match (&row.progress, row.pods) {
            (Some(progress), _) => status(progress.status),
            (None, Some(pods @ 1..)) => format!("{} left", count(pods, "pod")),
            (None, _) if row.superseded => style::context("superseded"),
            (None, _) => String::new(),
        }),
    ];
    if !is_narrow && rows.iter().any(|row| row.by.is_some()) {
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

/// Returns who made a rollout, if that is known.
fn by(row: &Rollout) -> Vec<String> {
    row.by.iter().map(|by| format!("by {by}")).collect()
}

/// Returns what a rollout changed, in fragments.
fn changed(row: &Rollout) -> Vec<String> {
    if let Some(problem) = &row.problem {
        return vec![format!("unreadable: {problem}")];
    }
    let mut changed = Vec::new();
    if row.again {
        let before = row.same_as.map_or("a former one".to_owned(), |number| format!("revision {number}"));
        changed.push(format!("equivalent to {before}"));
    }
    if row.keeps_pods {
        changed.push("no pods restarted".to_owned());
    }
    changed.extend(row.summary.iter().cloned());
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
