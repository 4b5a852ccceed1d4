//! The DaemonSets of one node.

use super::coverage::{incidents, incomplete};
use super::page::Page;
use super::table::{self, Column};
use super::text::count;
use super::{nodes, style};
use crate::report::coverage::{CoverageReport, DaemonSetCoverage, NodeOverview};
use crate::report::fix::{Command, Fix};
use crate::report::node_coverage::{NodeCoverage, NodeState};

/// Writes the state of each DaemonSet on a node: unhealthy ones first.
///
/// Those that are not eligible there are only counted, unless `all` is set.
pub fn table(report: &CoverageReport, node: &str, all: bool, page: &mut Page<'_>) {
    let view = page.view;
    let mut rows: Vec<(&DaemonSetCoverage, &NodeCoverage)> = report
        .daemon_sets
        .iter()
        .filter_map(|daemon_set| Some((daemon_set, daemon_set.nodes.iter().find(|row| row.name == node)?)))
        .collect();
    let is_fine = |row: &NodeCoverage| row.reasons.is_empty();
    let has_business = |row: &NodeCoverage| row.should_run || !row.pods.is_empty();
    rows.sort_by_key(|(_, row)| (!has_business(row), is_fine(row)));
    let Some(NodeOverview { exists, should_run, available: running, namespace, .. }) = &report.node else {
        return;
    };
    let name = view.show(node);
    let place = namespace.as_ref().map(|namespace| view.show(&format!(" in namespace {namespace}")));
    let place = place.unwrap_or_default();
    let headline = if let (None, true) = (should_run, rows.is_empty()) {
        format!("node {name} could not be read, and no pod that was read is on it: nothing is known of it")
    } else if !rows.is_empty() && rows.iter().all(|(_, row)| row.eligibility_unknown) {
        let pods = count(rows.len(), "DaemonSet");
        format!("node {name} could not be read; it has pods of {pods}{place}, {running} of them available")
    } else if *exists {
        let are = if *running == 1 { "is" } else { "are" };
        let is_unknown = |(_, row): &&(_, &NodeCoverage)| row.should_run && row.state == NodeState::Unknown;
        let unknown = match rows.iter().filter(is_unknown).count() {
            0 => String::new(),
            unknown => format!(", and {unknown} unknown"),
        };
        match should_run.unwrap_or_default() {
            0 => format!("no DaemonSet{place} should run a pod on {name}"),
            all => {
                let all = count(all, "DaemonSet");
                format!("{name} should run pods of {all}{place}; {running} of them {are} available{unknown}")
            }
        }
    } else {
        let (pods, have) = (count(rows.len(), "DaemonSet"), if rows.len() == 1 { "has" } else { "have" });
        format!("node {name} does not exist; {pods}{place} still {have} pods there")
    };
    page.paragraph(&headline, style::summary);
    incidents(report, page);
    if !place.is_empty() {
        writeln!(page, "{}", style::context("Other namespaces were not checked (-A checks all)"));
    }
    condition(report, page);
    let others = rows.iter().filter(|(_, row)| !has_business(row)).count();
    // Without any other, they are the answer.
    let all = all || others == rows.len();
    if !all {
        rows.truncate(rows.len() - others);
    }
    if !rows.is_empty() {
        writeln!(page);
        decisions(&rows, page);
    }
    page.more(if all { 0 } else { others }, "ineligible DaemonSet", "-o wide");
    if let Some((first, _)) = rows.first() {
        let coverage = Command::kubectl(&["ds", "coverage"]).namespace(&first.namespace).flag("--node", node);
        writeln!(page);
        page.remark(&Fix::new("To explain the first one in full", coverage.name(&first.name)), style::context);
    }
    incomplete(&report.incomplete, page)
}

/// Writes the problems of the node itself.
pub(super) fn condition(report: &CoverageReport, page: &mut Page<'_>) {
    let Some(NodeOverview { not_ready, unschedulable, taints, .. }) = &report.node else { return };
    if not_ready.is_none() && !unschedulable {
        return;
    }
    let cordoned = unschedulable.then(|| "the node is cordoned".to_owned());
    let taints = (!taints.is_empty()).then(|| format!("taints: {}", taints.join(", ")));
    let parts: Vec<String> = not_ready.clone().into_iter().chain(cordoned).chain(taints).collect();
    page.paragraph(&parts.join("; "), style::in_progress);
}

fn decisions(rows: &[(&DaemonSetCoverage, &NodeCoverage)], page: &mut Page<'_>) {
    let view = page.view;
    let name = |daemon_set: &DaemonSetCoverage| view.show(&format!("{}/{}", daemon_set.namespace, daemon_set.name));
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let mut layout = vec![
        Column::text("DAEMONSET", move |(daemon_set, _): &(&DaemonSetCoverage, &NodeCoverage)| name(daemon_set)),
        Column::text("ELIGIBLE", move |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| yes_no(row.should_run)),
        Column::text("STATE", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::state(row.state)),
        Column::text("REASON", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::reason(row)),
        Column::sentence("WHAT", |(_, row): &(&DaemonSetCoverage, &NodeCoverage)| nodes::what(row, view)).droppable(1),
    ];
    // If all of them are eligible, the column has no information, and the messages need the space.
    if rows.iter().all(|(_, row)| row.should_run) {
        layout.remove(1);
    }
    table::write(&layout, rows, page)
}
