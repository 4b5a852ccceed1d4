//! The rollouts of several DaemonSets, the latest first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::clusters::{InCluster, Reports, name_in};
use super::list::{MOST_ROWS, age, status};
use super::overview::named;
use super::page::Page;
use super::style;
use super::table::{Column, Heading};
use super::text::{count, cut, or_unknown, some_of, time_since};
use super::view::View;
use crate::encode::sanitize::sanitize;
use crate::report::age::format_age;
use crate::report::clusters::ClusterReports;
use crate::report::fix::Fix;
use crate::report::history::{DaemonSetName, Subcommand};
use crate::report::timeline::{Rollout, RolloutProgress, TimelineReport, UnreadableRevision};

/// The minimum width of a terminal for what a rollout changed beside the rest.
const LEAST_WIDTH_FOR_CHANGES: usize = 110;

/// How many columns the names of pending rollouts may take.
const MOST_PENDING: usize = 60;

/// A row, and the time that its age is relative to.
type Row<'a> = (&'a Rollout, Timestamp);

/// Writes a summary, and a row per rollout. On a terminal, only the latest ones are shown unless all are asked for, and none
/// that replaced no pods.
pub fn timeline(report: &TimelineReport, wide: bool, all: bool, page: &mut Page<'_>) {
    write(&Reports::alone(report), wide, all, page);
}

/// Writes the same of several clusters, in one table.
pub fn clusters(reports: &ClusterReports<TimelineReport>, wide: bool, all: bool, page: &mut Page<'_>) {
    write(&Reports::of(reports), wide, all, page);
}

fn write(reports: &Reports<'_, TimelineReport>, wide: bool, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let mut rollouts = reports.rows(|report| report.rollouts.iter().map(|row| (row, report.now)));
    // Stable: within a cluster, the order is that of the report.
    rollouts.sort_by_key(|(_, (row, now))| now.as_second().saturating_sub(row.place.as_second()));
    page.paragraph(&reports.headline(|place| summary(reports, &rollouts, place)), style::answer);
    let is_narrow = !wide && view.limit.is_some_and(|limit| limit < LEAST_WIDTH_FOR_CHANGES);
    let is_page = view.limit.is_some() && !wide && !all;
    let most = if is_page { MOST_ROWS / if is_narrow { 2 } else { 1 } } else { usize::MAX };
    let is_shown = |row: &&InCluster<'_, Row<'_>>| !(is_page && row.1.0.keeps_pods);
    let rows: Vec<InCluster<'_, Row<'_>>> = rollouts.iter().filter(is_shown).take(most).copied().collect();
    let (shown, latest) = (rows.len(), rows.first().copied());
    if reports.are_several() || shown > 0 {
        writeln!(page);
    }
    let mut columns = columns(&rows, wide, is_narrow, view);
    if is_narrow {
        let beneath = |(row, _): &Row<'_>, width| {
            view.show(&cut(&some_of(&[changed(row), by(row)].concat(), width), width, view.ascii))
        };
        reports.table(Heading::Shown, columns, rows, beneath, page);
    } else {
        let changed = |(row, _): &Row<'_>, width| view.show(&some_of(&changed(row), width));
        columns.push(Column::fitted("CHANGED", changed));
        reports.table(Heading::Shown, columns, rows, |_, _| String::new(), page);
    }
    let hidden = rollouts.len() - shown;
    if hidden > 0 {
        let keeping = if is_page { rollouts.iter().filter(|(_, (row, _))| row.keeps_pods).count() } else { 0 };
        let of = if keeping > 0 { format!(", {keeping} of them without restarting pods") } else { String::new() };
        writeln!(page, "{}", style::context(format!("+{hidden} more{of} (--all)")));
    }
    if let Some((context, (latest, _))) = latest {
        let details =
            Fix::new("For all changes, and the pods of each revision", latest.daemon_set.command(Subcommand::History));
        page.remark(&reports.fix(context, details), style::context);
    }
    for cluster in &reports.of {
        for UnreadableRevision { daemon_set, revision, problem, .. } in &cluster.report.unreadable {
            let title = daemon_set.title();
            let note = format!(
                "Revision {revision} of {title} is unreadable, and not known to have been rolled out: {problem}"
            );
            page.paragraph(&cluster.sentence(&note), style::plain);
        }
    }
    let unknown = reports.rows(|report| &report.unknown).into_iter();
    let unknown: Vec<String> = unknown.map(|(context, name)| name_in(context, name.title())).collect();
    named("have unknown revisions", &unknown, page);
    reports.incomplete(|report| &report.incomplete, page)
}

fn summary(reports: &Reports<'_, TimelineReport>, rollouts: &[InCluster<'_, Row<'_>>], place: &str) -> String {
    let since = reports.of.first().and_then(|cluster| Some((cluster.report.since?, cluster.report.now)));
    let time = since.map(|(since, now)| format!(" in the last {}", time_since(since, now))).unwrap_or_default();
    let title = |(context, (row, _)): &InCluster<'_, Row<'_>>| name_in(context, row.daemon_set.title());
    let replacing = rollouts.iter().filter(|(_, (row, _))| !row.keeps_pods);
    let (pending, begun): (Vec<_>, Vec<_>) = replacing.partition(|(_, (row, _))| row.pending);
    let since = |now: Timestamp| since.and_then(|(since, then)| now.checked_sub(then.duration_since(since)).ok());
    let is_since = |(_, (row, now)): &&InCluster<'_, Row<'_>>| {
        row.began_at.is_some() || since(*now).is_none_or(|since| row.not_before.is_some_and(|from| from >= since))
    };
    let (certain, possible): (Vec<_>, Vec<_>) = begun.iter().copied().partition(is_since);
    let names: BTreeSet<String> = certain.iter().map(title).collect();
    let mut text = match certain.len() {
        0 => {
            let is_known = reports.of.iter().all(|cluster| cluster.report.unknown.is_empty());
            let known = if is_known { "No" } else { "No known" };
            let daemon_sets = reports.of.iter().map(|cluster| cluster.report.daemon_sets).sum();
            format!("{known} rollouts of {}{place}{time}", count(daemon_sets, "DaemonSet"))
        }
        rollouts => format!("{} of {}{place}{time}", count(rollouts, "rollout"), count(names.len(), "DaemonSet")),
    };
    if !possible.is_empty() {
        let more = if certain.is_empty() { "" } else { " more" };
        text += &format!("; {}{more} may have been", possible.len());
    }
    if !pending.is_empty() {
        let titles: Vec<String> = pending.iter().map(|row| title(row)).collect();
        text += &format!("; {} pending: {}", titles.len(), some_of(&titles, MOST_PENDING));
    }
    let ages = begun.iter().filter_map(|found| {
        let (_, (row, now)) = found;
        Some((now.duration_since(row.began_at?), *found))
    });
    if let Some((age, latest)) = ages.max_by_key(|(age, _)| Reverse(*age)) {
        let is_earlier = |(_, (row, now)): &&InCluster<'_, Row<'_>>| {
            row.began_at.is_some()
                || row.superseded
                || row.not_after.is_some_and(|latest| now.duration_since(latest) >= age)
        };
        let known = if begun.iter().all(is_earlier) { "" } else { " known" };
        text += &format!("; the latest{known} {} ago: {}", format_age(age.as_secs().max(0)), title(latest));
    }
    text
}

fn columns<'a>(
    rows: &[InCluster<'_, Row<'_>>],
    wide: bool,
    is_narrow: bool,
    view: &'a View,
) -> Vec<Column<'a, Row<'a>>> {
    let mut columns = vec![
        Column::text("AGE", |(row, now): &Row<'_>| when(row, *now, view)),
        Column::text("NAME", |(row, _): &Row<'_>| {
            let DaemonSetName { namespace, name, .. } = &row.daemon_set;
            let flavor = if row.daemon_set.is_advanced() { " (ads)" } else { "" };
            view.show(&format!("{namespace}/{name}{flavor}"))
        })
        .shrinkable(),
        Column::text("REVISION", |(row, _): &Row<'_>| match row.revision {
            Some(number) => number.to_string(),
            None if row.pending => "none yet".to_owned(),
            None => "?".to_owned(),
        }),
        Column::text("UPDATED", |(row, _): &Row<'_>| {
            let of = |progress: &RolloutProgress| {
                format!("{}/{}", or_unknown(progress.updated), or_unknown(progress.eligible))
            };
            row.progress.as_ref().map(of).unwrap_or_default()
        }),
        Column::text("STATUS", |(row, _): &Row<'_>| match (&row.progress, row.pods) {
            (Some(progress), _) => status(progress.status),
            (None, Some(pods @ 1..)) => format!("{} left", count(pods, "pod")),
            (None, _) if row.superseded => style::context("superseded"),
            (None, _) => String::new(),
        }),
    ];
    if !is_narrow && rows.iter().any(|(_, (row, _))| row.by.is_some()) {
        let by = |(row, _): &Row<'_>| view.show(row.by.as_deref().unwrap_or_default());
        columns.push(Column::text("BY", by).droppable(1));
    }
    if wide {
        columns.extend([
            Column::text("REVISION-NAME", |(row, _): &Row<'_>| view.show(row.name.as_deref().unwrap_or("<none>"))),
            Column::text("CHANGE-CAUSE", |(row, _): &Row<'_>| {
                view.show(row.change_cause.as_deref().unwrap_or("<none>"))
            }),
        ]);
    }
    columns
}

fn when(row: &Rollout, now: Timestamp, view: &View) -> String {
    match row.not_before {
        Some(earliest) => view.show(&format!("≤{}", time_since(earliest, now))),
        None if row.pending => "pending".to_owned(),
        None => age(row.began_at, now),
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
