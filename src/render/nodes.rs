//! Coverage with a row per node.

use std::io::{self, Write};

use super::coverage::{incomplete, sentence};
use super::style;
use super::table::{self, Column};
use super::view::View;
use crate::report::coverage::{CoverageReport, NodeCoverage, NodeState};

/// Writes a row per node for each DaemonSet.
///
/// # Errors
///
/// Fails if the output cannot be written.
pub fn table(report: &CoverageReport, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let columns = [
        Column::text("NODE", |node: &NodeCoverage| view.show(&node.name)),
        Column::text("STATE", |node: &NodeCoverage| state(node.state)),
        Column::text("POD", |node: &NodeCoverage| pod(node, view)),
        Column::text("REASON", reason),
        Column::sentence("WHAT", style::plain, |node: &NodeCoverage| what(node, view)),
    ];
    for (index, daemon_set) in report.daemon_sets.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        sentence(daemon_set, style::answer, view, out)?;
        if !daemon_set.nodes.is_empty() {
            table::write(&columns, &daemon_set.nodes, view, out)?;
        }
    }
    incomplete(&report.incomplete, view, out)
}

/// Colors a state by its severity.
pub fn state(state: NodeState) -> String {
    let word = format!("{state:?}");
    match state {
        NodeState::Available => style::well(word),
        NodeState::NotEligible | NodeState::Unknown => style::context(word),
        NodeState::Starting | NodeState::Ready | NodeState::Terminating | NodeState::ToBeDeleted => style::moving(word),
        NodeState::Missing | NodeState::Pending | NodeState::NotReady | NodeState::Failed | NodeState::Misscheduled => {
            style::trouble(word)
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
