//! Coverage with a row per node.

use super::coverage::{incidents, incomplete, sentence};
use super::list::age;
use super::page::Page;
use super::style;
use super::table::{self, Column};
use super::view::View;
use crate::report::coverage::CoverageReport;
use crate::report::node_coverage::{NodeCoverage, NodeState, PodSummary};

/// Writes a row per node for each DaemonSet.
pub fn table(report: &CoverageReport, wide: bool, page: &mut Page<'_>) {
    let view = page.view;
    let mut columns = vec![
        Column::text("NODE", |node: &&NodeCoverage| view.show(&node.name)).shrinkable(),
        Column::text("STATE", |node: &&NodeCoverage| state(node.state)),
        Column::text("POD", |node: &&NodeCoverage| pod(node, view)).shrinkable(),
        Column::text("REASON", |node: &&NodeCoverage| reason(node)),
    ];
    if wide {
        let first =
            |node: &&NodeCoverage, cell: &dyn Fn(&PodSummary) -> String| node.pods.first().map_or("-".to_owned(), cell);
        columns.extend([
            Column::text("REVISION", move |node: &&NodeCoverage| first(node, &|pod| view.show(&pod.revision))),
            Column::text("RESTARTS", move |node: &&NodeCoverage| first(node, &|pod| pod.restarts.to_string())),
            Column::text("AGE", move |node: &&NodeCoverage| first(node, &|pod| age(pod.created_at, report.now))),
        ]);
    }
    columns.push(Column::sentence("WHAT", |node: &&NodeCoverage| what(node, view)).droppable(1));
    incidents(report, page);
    for (index, daemon_set) in report.daemon_sets.iter().enumerate() {
        if index > 0 {
            writeln!(page);
        }
        sentence(daemon_set, style::summary, page);
        let mut rows: Vec<&NodeCoverage> = daemon_set.nodes.iter().collect();
        // Problems first, ineligible nodes last; otherwise by name.
        rows.sort_by_key(|node| (node.state == NodeState::NotEligible, node.reasons.is_empty()));
        if !rows.is_empty() {
            table::write(&columns, &rows, page);
        }
    }
    incomplete(&report.incomplete, page)
}

/// Colors a state by its severity.
pub fn state(state: NodeState) -> String {
    let word = format!("{state:?}");
    match state {
        NodeState::Available => style::healthy(word),
        NodeState::NotEligible | NodeState::Unknown => style::context(word),
        NodeState::Starting | NodeState::Ready | NodeState::Terminating | NodeState::ToBeDeleted => {
            style::in_progress(word)
        }
        NodeState::Missing | NodeState::Pending | NodeState::NotReady | NodeState::Failed | NodeState::Misscheduled => {
            style::problem(word)
        }
    }
}

/// Writes the name of the first pod and the number of others.
pub fn pod(node: &NodeCoverage, view: &View) -> String {
    match node.pods.as_slice() {
        [] => "-".to_owned(),
        [pod] => view.show(&pod.name),
        [pod, others @ ..] => format!("{} +{}", view.show(&pod.name), others.len()),
    }
}

/// Writes the code of the primary reason and the number of others.
pub fn reason(node: &NodeCoverage) -> String {
    match node.reasons.as_slice() {
        [] => "-".to_owned(),
        [reason] => reason.code.name().to_owned(),
        [reason, others @ ..] => format!("{} +{}", reason.code, others.len()),
    }
}

/// Writes the message of the primary reason.
pub fn what(node: &NodeCoverage, view: &View) -> String {
    node.reasons.first().map(|reason| view.show(&reason.message)).unwrap_or_default()
}
