//! What has changed in the cluster, the latest first.

use super::coverage::incomplete;
use super::list::{MOST_ROWS, age};
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::text::{count, some_of, time_since};
use crate::report::recent_changes::{ChangeOf, ChangedKind, ChangesReport, ClusterChange};

/// The minimum width of a terminal for what was changed beside the rest.
const LEAST_WIDTH_FOR_DETAILS: usize = 110;

/// What no time is kept of.
const NOT_KEPT: &str = "The API keeps no time of labels, taints and cordons that were removed, of former values, and of a change that the \
                        same field manager has followed by another one.";

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
    if let nodes @ 1.. = report.nodes_without_managed_fields {
        let text = format!(
            "No managed fields on {}: when labels, taints and cordons changed is unknown",
            count(nodes, "node")
        );
        page.paragraph(&text, style::plain);
    }
    incomplete(&report.incomplete, page)
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
        ChangeOf::RolledOut if change.details.is_empty() => vec!["rolled out".to_owned()],
        ChangeOf::RolledOut => change.details.clone(),
        ChangeOf::TaintAdded => vec![of("+taint ", ", ")],
        ChangeOf::OneOf => vec![of("", " or ")],
    };
    if change.names.len() > 1 {
        changed[0].push_str(&format!(": {}", change.names[0]));
        changed.extend(change.names[1..].iter().cloned());
    }
    changed
}
