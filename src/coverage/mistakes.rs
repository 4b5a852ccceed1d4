//! Likely mistakes in DaemonSets that exclude nodes.

use super::verdict::finding::Finding;
use crate::report::coverage::{Counts, ReasonGroup};
use crate::report::reason::Reason;

/// A likely mistake in the DaemonSet, and the first node that it excludes.
pub(super) struct Mistake {
    node: String,
    finding: Finding,
}

impl Mistake {
    /// Gives the nodes that are excluded for the same reason the advice of the mistake.
    pub(super) fn correct(&self, group: &mut ReasonGroup) {
        if group.code == self.finding.code {
            group.fix = self.finding.reason().fix;
        }
    }
}

/// Adds the likely mistakes among the findings about a node, unless one with the same code is known.
pub(super) fn collect(mistakes: &mut Vec<Mistake>, node: &str, findings: &[Finding]) {
    for finding in findings.iter().filter(|finding| finding.likely_mistake) {
        if !mistakes.iter().any(|known| known.finding.code == finding.code) {
            mistakes.push(Mistake { node: node.to_owned(), finding: finding.clone() });
        }
    }
}

/// Returns the likely mistakes that are news although they only exclude nodes: all of them if no node is eligible,
/// those of a plugin that its nodes wait for, and the removal of a node that is stuck.
pub(super) fn warnings(counts: &Counts, mistakes: Vec<Mistake>) -> Vec<Reason> {
    let none_eligible = counts.eligible == Some(0);
    mistakes
        .into_iter()
        .filter(|mistake| none_eligible || mistake.finding.code.is_state_of_node())
        .map(|Mistake { node, finding }| {
            let Reason { code, message, fix } = finding.reason();
            let prefix = if none_eligible { "no node is eligible; node" } else { "node" };
            Reason { code, message: format!("{prefix} {node}: {message}"), fix }
        })
        .collect()
}
