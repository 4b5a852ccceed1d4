//! What should run on one node: a row per DaemonSet.

use std::io::{self, Write};

use super::coverage::incomplete;
use super::nodes;
use super::style;
use super::table::{self, Column};
use super::text::{columns, count};
use super::view::View;
use crate::report::coverage::{CoverageReport, DaemonSetCoverage, NodeCoverage};

/// Writes every DaemonSet's decision on a node: those that should run there first.
///
/// # Errors
///
/// Fails where the output cannot be written.
pub fn table(report: &CoverageReport, node: &str, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<(&DaemonSetCoverage, &NodeCoverage)> = report
        .daemon_sets
        .iter()
        .filter_map(|daemon_set| Some((daemon_set, daemon_set.nodes.iter().find(|row| row.name == node)?)))
        .collect();
    let available = |row: &NodeCoverage| row.reasons.is_empty();
    rows.sort_by_key(|(_, row)| (!row.should_run && row.pods.is_empty(), available(row)));
    let should_run = rows.iter().filter(|(_, row)| row.should_run).count();
    let running = rows.iter().filter(|(_, row)| row.should_run && available(row)).count();
    let headline = format!(
        "{} should run pods of {}; {running} of them {} available",
        view.show(node),
        count(should_run, "DaemonSet"),
        if running == 1 { "is" } else { "are" },
    );
    writeln!(out, "{}", style::answer(headline))?;
    if rows.is_empty() {
        return incomplete(&report.incomplete, view, out);
    }
    writeln!(out)?;
    let name = |daemon_set: &DaemonSetCoverage| view.show(&format!("{}/{}", daemon_set.namespace, daemon_set.name));
    let before: usize = [
        rows.iter().map(|(daemon_set, _)| columns(&name(daemon_set))).max().unwrap_or(0),
        rows.iter().map(|(_, row)| columns(&format!("{:?}", row.state))).max().unwrap_or(0),
        rows.iter().map(|(_, row)| columns(&nodes::reason(row))).max().unwrap_or(0),
    ]
    .iter()
    .map(|width| width + 3)
    .sum();
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let shows_what = view.width > before + 10 + 24;
    let mut layout = vec![
        Column::text("DAEMONSET", move |(daemon_set, _): &(&DaemonSetCoverage, &NodeCoverage)| name(daemon_set)),
        Column::text("RUNS", move |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| yes_no(row.should_run)),
        Column::text("STATE", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::state(row.state)),
        Column::text("REASON", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::reason(row)),
    ];
    if shows_what {
        layout.push(Column::text("WHAT", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::what(row, view)));
    }
    table::write(&layout, &rows, out)?;
    let hint = format!("`kubectl ds coverage NAME --node {}` explains one of them in full", view.show(node));
    writeln!(out, "\n{}", style::context(hint))?;
    incomplete(&report.incomplete, view, out)
}
